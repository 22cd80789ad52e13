"""A step of post-training by runs that were measured: an estimate in place of a bound.

A YAML file has the phases of one run, with those inputs in which it differs from the question::

    gpus: 64
    rollout_gpus: 32
    fixed: {train.tensor: 8, rollout.tensor: 8}
    prompts: 64
    rollout_s: 265    # until the last answer; of async a batch in steady state
    score_s: 60       # all scoring
    train_s: 131      # all updates; colocated with states that leave and come back
    sync_s: 9.4
    other_s: 6        # what is left of the step; 3 % of it if it is not known

or, below ``runs``, those of two. The model is asked about each run, too; a phase is the modelled
one times measured over modelled of the run. That is an estimate on pools of the same sizes and
plans alone: printed trainers took 270, 157 and 113 s on 16, 32 and 64 GPUs. Two runs of different
sizes give every phase c + d / g, and a split can be searched by them. Nothing else is fitted.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, structs

from netplan import records
from netplan.documents import read_yaml
from netplan.errors import CatalogError, InfeasibleError, InputError, NetplanError
from netplan.performance.posttraining.schedules import of_two_sizes, scaled_phases
from netplan.performance.posttraining.step import Pool, PostTrainingStep
from netplan.records import replace as changed
from netplan.scenarios.parts import Whole
from netplan.scenarios.post_training import LARGEST_GROUP, MOST_STALE
from netplan.setup.post_training import PostRun

SPREAD = 0.15
"""Share by which a step may be off its estimate by a run on the same pools, each way: assumed [1].
"""
OTHER_SHARE = 0.03
"""What steps have beside their phases, over those: median of 13 printed ones (verl, one step off
and fully async; rows of ``netplan verify``) [1]."""
PHASES = ("rollout", "score", "train", "sync")
"""Phases that are measured, in the order of the tuples here."""
ONE_OR_TWO = 2
Several = Annotated[int, Meta(ge=1, le=LARGEST_GROUP)]


class MeasuredStep(records.Entry, frozen=True, kw_only=True):
    """One run as measured: its phases, and its inputs where they are not those of the question."""

    rollout_s: records.PositiveFloat
    score_s: records.NonNegativeFloat
    train_s: records.PositiveFloat
    sync_s: records.NonNegativeFloat
    other_s: records.NonNegativeFloat | None = None
    fabric: str | None = None
    gpus: records.PositiveInt | None = None
    rollout_gpus: records.NonNegativeInt | None = None
    score_gpus: records.NonNegativeInt | None = None
    colocated: bool | None = None
    fixed: dict[str, records.PositiveInt] | None = None
    prompts: Several | None = None
    group: Several | None = None
    prompt_tokens: Whole | None = None
    answer_tokens: str | float | None = None
    staleness: Annotated[float, Meta(ge=0, le=MOST_STALE)] | None = None
    updates: Annotated[int, Meta(ge=1, le=10_000)] | None = None

    @property
    def phases_s(self) -> tuple[float, ...]:
        """Its phases, as of ``PHASES`` [s]."""
        return (self.rollout_s, self.score_s, self.train_s, self.sync_s)


class MeasuredFile(records.Entry, frozen=True, kw_only=True):
    """A file of two runs, or of one."""

    runs: tuple[MeasuredStep, ...]


class ReadRun(NamedTuple):
    """A run, and where it stands."""

    run: MeasuredStep
    place: str


def read_measured(path: Path) -> tuple[ReadRun, ...]:
    """Read a file of measured runs.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    CatalogError
        If it is malformed, or has not one run or two: file and line.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "run.yaml")
    ...     _ = path.write_text("{rollout_s: 265, score_s: 60, train_s: 131, sync_s: 9.4}")
    ...     [read.run.phases_s for read in read_measured(path)]
    [(265.0, 60.0, 131.0, 9.4)]
    """
    document = read_yaml(path)
    if "runs" not in document.data:
        return (ReadRun(document.entry(MeasuredStep), str(path)),)
    runs = document.entry(MeasuredFile).runs
    if not 1 <= len(runs) <= ONE_OR_TWO:
        line = document.line(["runs"])
        raise CatalogError(f"{path}:{line}: {len(runs):,} runs: give one, or two of two sizes")
    return tuple(
        ReadRun(run, f"{path}:{document.line(['runs', index])}") for index, run in enumerate(runs)
    )


class Modelled(NamedTuple):
    """What the model says of a job: its step, and its pools with their plans."""

    step: PostTrainingStep
    pools: tuple[Pool, ...]

    @property
    def sizes(self) -> tuple[int, int]:
        """GPUs that roll out and that train [1]."""
        gpus = {pool.role: pool.gpus for pool in self.pools}
        every = gpus.get("all", 0)
        return gpus.get("rollout", every), gpus.get("trainer", every)


class Reference(NamedTuple):
    """A measured run: what the model says of it, and of the question's work on its pools."""

    read: ReadRun
    of_run: Modelled
    of_job: Modelled

    def times_s(self, modelled: PostTrainingStep) -> tuple[float, ...]:
        """Phases of a step on its pools by what was measured [s].

        Raises
        ------
        InputError
            If it took time for what the model says takes none.
        """
        measured, of_run = self.read.run.phases_s, phases_of(self.of_run.step)
        for name, real_s, run_s in zip(PHASES, measured, of_run, strict=True):
            if real_s and not run_s:
                raise InputError(
                    f"{self.read.place}: {name}_s is {real_s:g} s, and the model says that it takes"
                    " none: give 0, or the inputs of that run"
                )
        return scaled_phases(phases_of(modelled), measured, of_run)


class MeasuredSteps(Struct, frozen=True):
    """One run, or two of different sizes."""

    references: tuple[Reference, ...]

    @property
    def of_sizes(self) -> bool:
        """Whether they say how phases change with the size of their pools."""
        return len(self.references) == ONE_OR_TWO

    def estimate(self, modelled: Modelled) -> tuple[PostTrainingStep | None, str]:
        """A step on given pools, and what is to be said of it; no step where runs do not apply.

        Parameters
        ----------
        modelled
            What the model says of it.
        """
        first = self.references[0]
        if self.of_sizes:
            if _in_turn(first.of_run) == _in_turn(modelled):
                return self.at_sizes(modelled.step, modelled.sizes), ""
            why = (
                "A bound again, since phases take turns on the same GPUs in this step or in the"
                f" runs of {first.read.place}, and not in both."
            )
            return None, why
        if first.of_run.pools == modelled.pools:
            return measured_step(modelled.step, first.times_s(modelled.step), first), ""
        why = (
            f"A bound again, since phases do not follow one over GPUs: {first.read.place} was"
            f" measured on {_words(first.of_run.pools)}, and this step has"
            f" {_words(modelled.pools)}. Give a second run of another size under runs:, or the"
            " same pools and plans."
        )
        return None, why

    def at_sizes(self, modelled: PostTrainingStep, sizes: tuple[int, int]) -> PostTrainingStep:
        """A step on pools of some sizes, by two runs: each phase is c + d / g.

        Rollouts and the synchronisation go by the GPUs that roll out, all else by those that train.

        Parameters
        ----------
        modelled
            What the model says of it.
        sizes
            GPUs that roll out and that train [1].
        """
        both = self.references
        of_pools = [run.of_job.sizes for run in both]
        phases_s = [run.times_s(run.of_job.step) for run in both]
        others_s = [run.read.run.other_s for run in both]
        times_s = [
            between_sizes((of_pools[0][pool], of_pools[1][pool]), times, sizes[pool])
            for pool, times in zip((0, 1, 1, 0), zip(*phases_s, strict=True), strict=True)
        ]
        step = measured_step(modelled, times_s, None)
        if others_s[0] is None or others_s[1] is None:
            return step
        trained = (of_pools[0][1], of_pools[1][1])
        return changed(step, other_s=between_sizes(trained, (others_s[0], others_s[1]), sizes[1]))


def _in_turn(modelled: Modelled) -> bool:
    """Whether both phases are of the same GPUs."""
    return modelled.pools[0].role == "all"


def _words(pools: Sequence[Pool]) -> str:
    """Pools with their plans in words."""
    return ", ".join(f"{pool.role} {pool.gpus:,} GPUs ({pool.plan})" for pool in pools)


def phases_of(step: PostTrainingStep) -> tuple[float, ...]:
    """Phases of a step as they are measured, as of ``PHASES`` [s]."""
    return (
        step.rolled_s,
        step.score_s + step.apart_score_s + step.rule_s,
        step.train_s + step.swap_s,
        step.sync_s,
    )


def measured_step(
    step: PostTrainingStep, times_s: Sequence[float], reference: Reference | None
) -> PostTrainingStep:
    """A step whose phases take what was measured; parts of a phase keep their shares.

    Parameters
    ----------
    step
        As modelled.
    times_s
        Its phases, as of ``PHASES`` [s].
    reference
        The run whose other seconds it has; else, or if that run has none, a share of its own.
    """
    factors = [
        time_s / modelled_s if modelled_s else 1.0
        for time_s, modelled_s in zip(times_s, phases_of(step), strict=True)
    ]
    rolled, scored, trained, synchronised = factors
    rollouts = step.rollouts
    parts = {
        name: rolled * getattr(rollouts, name)
        for name in ("seconds", "stream_s", "tail_s", "environment_s", "prefill_s")
    }
    measured = changed(
        step,
        rollouts=rollouts._replace(**parts),
        score_s=scored * step.score_s,
        apart_score_s=scored * step.apart_score_s,
        rule_s=scored * step.rule_s,
        train_s=trained * step.train_s,
        swap_s=trained * step.swap_s,
        sync_s=synchronised * step.sync_s,
        other_s=0.0,
    )
    given = reference.read.run.other_s if reference else None
    other_s = OTHER_SHARE * measured.seconds if given is None else given
    return changed(measured, other_s=other_s)


def between_sizes(sizes: tuple[float, float], times_s: tuple[float, ...], gpus: float) -> float:
    """A phase on so many GPUs by two runs, c + d / g [s].

    Where c or d is below 0, more than a share of the work follows the GPUs, or it grows with them:
    beyond both runs such a phase stays what it was in the nearer one.

    Parameters
    ----------
    sizes, times_s
        GPUs of both runs, and what the phase took [1, s].
    gpus
        Of the pool in question [1].

    Examples
    --------
    Trainers of 16 and 64 GPUs took 270 and 113 s; 32 are printed with 157:

    >>> round(between_sizes((16, 64), (270.0, 113.0), 32), 1)
    165.3
    """
    fixed_s, shared_gpu_s = of_two_sizes(sizes, (times_s[0], times_s[1]))
    if min(fixed_s, shared_gpu_s) < 0:
        gpus = min(max(gpus, min(sizes)), max(sizes))
    return fixed_s + shared_gpu_s / gpus


def measured_runs(run: PostRun, modelled: Callable[[PostRun], Modelled]) -> MeasuredSteps | None:
    """Runs of a question's file, with what the model says of them; None if it names none.

    Parameters
    ----------
    run
        The question's job.
    modelled
        What the model says of a job on given pools.

    Raises
    ------
    NetplanError
        If the file is malformed, a run has no plan, or two have pools of one size: file and line.
    """
    job = run.job
    if job.measured is None:
        return None
    if not (run.work.rolls_out and run.work.trains):
        raise InputError("--measured is of steps that roll out and train: leave it out")
    reads = read_measured(Path(job.measured))
    references = []
    for index, read in enumerate(reads):
        inputs = _inputs(run, read)
        pools = {
            name: inputs[name] for name in ("rollout_gpus", "score_gpus", "colocated", "fixed")
        }
        pools["staleness"] = 0.0 if inputs["colocated"] else job.staleness
        gpus = read.run.gpus or run.gpus
        there = read.run.fabric or run.fabric
        of_run = of_job = _resolved(run, read, (there, gpus, inputs, ("measured", index)), modelled)
        if len(reads) == ONE_OR_TWO:
            here = (run.fabric, gpus, pools, ("of the question", index))
            of_job = _resolved(run, read, here, modelled)
        references.append(Reference(read, of_run, of_job))
    _check_sizes(references)
    return MeasuredSteps(tuple(references))


def _inputs(run: PostRun, read: ReadRun) -> dict[str, Any]:
    """Inputs of the job that was measured: its own, else those of the question."""
    job, measured = run.job, read.run
    named = {
        name: value
        for name in ("prompts", "group", "prompt_tokens", "answer_tokens", "updates", "score_gpus")
        if (value := getattr(measured, name)) is not None
    }
    turns = measured.colocated
    if turns is None:
        turns = job.colocated and measured.rollout_gpus is None
    rollout_gpus = measured.rollout_gpus
    if rollout_gpus is None and not turns:
        rollout_gpus = job.rollout_gpus
    if rollout_gpus is None and not turns:
        raise CatalogError(
            f"{read.place}: rollout_gpus is missing: say how many of its GPUs rolled out, or"
            " colocated: true"
        )
    staleness = measured.staleness
    if staleness is None:
        staleness = 0.0 if turns else job.staleness
    return {
        "score_gpus": job.score_gpus,
        "rollout_gpus": rollout_gpus,
        "colocated": turns,
        "staleness": staleness,
        "fixed": job.fixed if measured.fixed is None else measured.fixed,
        **named,
    }


def _resolved(
    run: PostRun,
    read: ReadRun,
    asked: tuple[str, int, dict[str, Any], tuple[str, int]],
    modelled: Callable[[PostRun], Modelled],
) -> Modelled:
    """What the model says of the job elsewhere with other inputs; a key keeps its searches."""
    fabric, gpus, inputs, key = asked
    scenario, job = run.asked.scenario, run.job
    cluster = structs.replace(scenario.cluster, gpus=gpus)
    workload = structs.replace(job, measured=None, **inputs)
    other = changed(
        run.asked, scenario=structs.replace(scenario, cluster=cluster, workload=workload)
    )
    # Pools of the same work are known by their sizes.
    as_asked = structs.replace(workload, measured=job.measured, rollout_gpus=job.rollout_gpus)
    known = run.known if as_asked == job else run.known.setdefault(key, {})
    try:
        return modelled(PostRun(other, run.reader, fabric, known))
    except InfeasibleError as error:
        raise InputError(
            f"{read.place}: the measured run has no plan: {error}: say by fixed: which it had"
        ) from None
    except NetplanError as error:
        raise InputError(f"{read.place}: {error}") from None


def _check_sizes(references: Sequence[Reference]) -> None:
    """Refuse two runs that say nothing of sizes."""
    if len(references) < ONE_OR_TWO:
        return
    first, second = references
    if _in_turn(first.of_run) != _in_turn(second.of_run):
        raise InputError(
            f"{second.read.place}: one run is colocated, the other is not: give two of a kind"
        )
    pairs = zip(("roll out", "train"), first.of_job.sizes, second.of_job.sizes, strict=True)
    for what, gpus, others in pairs:
        if gpus == others:
            raise InputError(
                f"{second.read.place}: {gpus:,} GPUs {what} in both runs: give runs whose pools"
                " both differ in size, or one run"
            )
    given = [reference.read.run.other_s is None for reference in references]
    if given[0] != given[1]:
        raise InputError(f"{second.read.place}: one run has other_s: give it of both, or of none")

"""Published training runs against iteration models, each run as it was made.

The runs stand in `reports/published/measured-runs.csv`, each with its address
(`netplan.calibration.published`). Iteration model ``calibrated`` was fitted to those that are
scored, and is held to what its fit reached; ``4d`` and ``ptd-p``, which no run has touched, stand
beside it on the same runs. Both know no training software and no half recomputation: they take
``selective`` for it, the peak of the run's precision, and 4d counts embedding and head as the runs
have them. The closed forms of ptd-p have neither ends nor context parallelism.

An error is predicted over measured time less 1, and means are those of its absolute value.

What the model says of software and clusters that nobody has calibrated it on: all runs of one
source are left out, the fitted numbers are fitted again on the rest, from priors
that no run has shaped (`traffic/calibrations/published.yaml`), and the runs left out are predicted.

Memory of published runs against memory model ``stack``.

`reports/published/memory-peaks.csv` has peaks as software printed them, of tests of Megatron-LM and
of torchtitan's runs; `memory-fits.csv` all runs of one study with what became of them: they ran, or
memory ran out. All runs of `measured-runs.csv` ran; `memory-runs.csv` says by which software's
rules their memory is counted, what they computed again and what the host's memory held.

Peaks are those of the stage that was printed. Most runs that ran out of memory and fit by these
formulas compute every layer again, and failed at 0.4 to 0.9 of the capacity: what else their
software holds is not published, and nothing is tuned on them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from statistics import fmean, median
from typing import Any, cast

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.calibration.published import (
    CALIBRATED,
    SCORED,
    as_it_lay,
    held_as_made,
    published_run,
    published_runs,
    strategy_of,
    time_as_made,
)
from netplan.calibration.run_fits import TrainingProblem
from netplan.calibration.runs import CALIBRATIONS, MeasuredRun, MeasuredRuns
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.memory_verdict import Verdict, memory_verdict
from netplan.performance.plan import PlanTime
from netplan.performance.published_runs import published_rows
from netplan.performance.search import evaluate_plan
from netplan.performance.setting import Options, TrainedModel
from netplan.performance.stack_memory import PlanSizes, StackMemory
from netplan.performance.stacks import MemoryOfStack, MemoryRow
from netplan.published.checks import Check, check, published
from netplan.records import replace
from netplan.reports.sections import Column, Section, Shown, Table, column
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import Experts, LatentAttention, Model
from netplan.workloads.operations import Variant
from netplan.workloads.recomputation import Recomputation

TITLE = "Measured training runs"
OWN = CALIBRATED
PAPERS = ("4d", "ptd-p")
MOST_MEAN, MOST_OF_A_SOURCE, MOST_OF_A_RUN = 0.04, 0.06, 0.05
"""Mean errors of all runs and of a source, and the error of a named run, above which they fail."""

FAR = 0.10
"""Error from which a run is listed by name [1]."""

ALL = "all"


class TimedRun(Struct, frozen=True):
    """A published run and what iteration models say of it.

    Parameters
    ----------
    run
        The run.
    use, why
        ``dev`` and ``fit`` are scored; ``context`` is not, for a reason.
    seconds
        Iteration time by each iteration model that can time it [s].
    """

    json_parts = "run.name", "measured_s=run.seconds", "predicted_s=seconds"

    run: MeasuredRun
    use: str
    why: str
    seconds: Mapping[str, float]

    def error(self, model: str) -> float | None:
        """Predicted over measured time less 1 [1]; None where the model cannot time the run."""
        return self.seconds[model] / self.run.seconds - 1 if model in self.seconds else None


class ModelErrors(Struct, frozen=True):
    """Absolute errors of one iteration model on several runs [1]."""

    json_parts = "runs", "mean_error=mean", "median_error=median", "largest_error=largest"

    runs: int
    mean: float
    median: float
    largest: float

    @classmethod
    def of(cls, runs: Iterable[TimedRun], model: str) -> "ModelErrors":
        """Those of the runs that it can time.

        Examples
        --------
        >>> found = [one for one in timed_runs() if one.run.source == "KORTH"]
        >>> errors = ModelErrors.of(found, "calibrated")
        >>> errors.runs, round(100 * errors.mean, 1), round(100 * errors.largest, 1)
        (7, 1.8, 3.5)
        """
        errors = [abs(error) for run in runs if (error := run.error(model)) is not None]
        return cls(len(errors), fmean(errors), median(errors), max(errors))


class SourceErrors(Struct, frozen=True):
    """Scored runs of one source, or all of them, and the errors of each iteration model."""

    json_parts = "source", "runs", "*models"

    source: str
    runs: int
    models: Mapping[str, ModelErrors]

    @classmethod
    def of(cls, source: str, runs: list[TimedRun]) -> "SourceErrors":
        """Errors of the models on these runs."""
        models = {model: ModelErrors.of(runs, model) for model in (OWN, *PAPERS)}
        return cls(source, len(runs), models)


class NotScored(Struct, frozen=True):
    """Runs of a source that are not scored, and why."""

    source: str
    runs: int
    why: str

    @classmethod
    def counted(cls, runs: Iterable[tuple[str, str]]) -> tuple["NotScored", ...]:
        """Those of sources and reasons, counted."""
        return tuple(cls(source, count, why) for (source, why), count in Counter(runs).items())


class RunErrors(Struct, frozen=True):
    """All of ``netplan verify`` that is about measured runs."""

    sources: tuple[SourceErrors, ...]
    dev: tuple[TimedRun, ...]
    far: tuple[TimedRun, ...]
    not_scored: tuple[NotScored, ...]


@cache
def timed_runs() -> tuple[TimedRun, ...]:
    """Every published run, in the order of the table; those that are scored with all times."""
    timed = []
    for row in published_rows():
        run = published_run(row)
        models = (OWN, *PAPERS) if run.degrees.context == 1 else (OWN, *PAPERS[:1])
        asked = models if row["use"] in SCORED else ()
        seconds = {name: plan_time(run, name).iteration_time_s for name in asked}
        timed.append(TimedRun(run, row["use"], row["why"], seconds))
    return tuple(timed)


def run_errors(timed: Sequence[TimedRun]) -> RunErrors:
    """Errors by source and of all, runs one by one that are named, and what is not scored."""
    runs = [run for run in timed if run.use in SCORED]
    sources: dict[str, list[TimedRun]] = {}
    for run in runs:
        sources.setdefault(run.run.source, []).append(run)
    return RunErrors(
        sources=tuple(
            SourceErrors.of(*source_runs) for source_runs in (*sorted(sources.items()), (ALL, runs))
        ),
        dev=tuple(run for run in runs if run.use == "dev"),
        far=tuple(run for run in runs if abs(run.error(OWN) or 0.0) > FAR),
        not_scored=NotScored.counted(
            (run.run.source, run.why) for run in timed if run.use not in SCORED
        ),
    )


def measured_run_checks() -> Iterator[Check]:
    """The published runs, as checks."""
    return error_checks(run_errors(timed_runs()))


def error_checks(scored: RunErrors) -> Iterator[Check]:
    """Mean errors of ``calibrated`` by source and of all runs, and the errors of named runs."""
    for source in scored.sources:
        most = MOST_MEAN if source.source == ALL else MOST_OF_A_SOURCE
        errors = source.models[OWN]
        yield check(
            f"{source.source}: mean error of {source.runs} runs, %",
            f"{TITLE}, {source.source}",
            f"at most {100 * most:.1f}",
            f"{100 * errors.mean:.1f}",
            met=errors.mean <= most,
            gap=errors.mean,
        )
    for run in scored.dev:
        error = run.error(OWN) or 0.0
        yield check(*_of_run(run), met=abs(error) <= MOST_OF_A_RUN, gap=error)
    for run in scored.far:
        yield check(*_of_run(run), gap=run.error(OWN))


def _of_run(timed: TimedRun) -> tuple[str, str, str, str]:
    """Name, source, and seconds as measured and as predicted."""
    seconds, error = timed.seconds[OWN], timed.error(OWN)
    return (
        f"{timed.run.name}, s",
        f"{TITLE}, {timed.run.source}",
        f"{timed.run.seconds:.4g}",
        f"{seconds:.4g} ({100 * (error or 0.0):+.1f} %)",
    )


def run_sections(errors: RunErrors) -> Iterator[Section]:
    """Errors by source, runs one by one, and what is not scored and why."""
    scored = errors.sources[-1]
    counts = ", ".join(f"{model} {scored.models[model].runs}" for model in PAPERS)
    yield Table(
        "measured-sources",
        SOURCES,
        errors.sources[:-1],
        f"{TITLE}: mean errors",
        closing=errors.sources[-1:],
        legend=(
            "Each mean is that of absolute errors, before the largest of them.",
            f"Of {scored.runs} runs {OWN} times all, {counts}.",
            "Addresses: reports/published/measured-runs.csv.",
        ),
        shown="people",
    )
    for title, runs in (("one by one", errors.dev), ("that are far off", errors.far)):
        yield Table("measured-runs", RUNS, runs, f"{TITLE} {title}", shown="people")
    yield Table(
        "not-scored", LEFT, errors.not_scored, f"{TITLE} that are not scored", shown="people"
    )


def plan_time(run: MeasuredRun, model: str) -> PlanTime:
    """Time and memory of a run by an iteration model, by the evaluator of every question.

    Examples
    --------
    >>> run = published_run(published_rows()[1])
    >>> run.name, run.seconds, round(plan_time(run, "calibrated").iteration_time_s, 4)
    ('KORTH-22b-selective', 1.1, 1.1007)
    """
    if model == OWN:
        return time_as_made(run)
    # As near as models of papers come to it.
    assumptions = ITERATION_MODELS.load(model)
    training = TrainedModel.make(run.accelerator, run.model, assumptions)
    peak = run.accelerator.narrow_flops_per_s.get(run.precision, training.flops_per_s)
    ends = assumptions.compute.operations == "detailed"
    recompute = "selective" if run.recompute == "half" else run.recompute
    variant = Variant(recompute=recompute, embedding=ends, lm_head=ends)
    options = Options(variant, zero_stage=run.zero_stage)
    levels, plan = as_it_lay(run)
    training = replace(training, flops_per_s=peak)
    return evaluate_plan(training, levels, plan, strategy=strategy_of(run), options=options)


def _of_model(model: str) -> tuple[Column[SourceErrors], ...]:
    """Mean, median where there is room, and largest error of an iteration model."""
    path, shown = f"models.{model}", SHOWN[model == OWN]
    return (
        column("mean_error", f"{path}.mean", title=model),
        column("median_error", f"{path}.median", shown=shown),
        column("largest_error", f"{path}.largest", shown=shown),
    )


SHOWN: tuple[Shown, Shown] = ("wide", "all")
SOURCES: tuple[Column[SourceErrors], ...] = (
    column("source", form="text"),
    column("runs"),
    *chain.from_iterable(map(_of_model, (OWN, *PAPERS))),
)
RUNS: tuple[Column[TimedRun], ...] = (
    column("name", "run.name", title="run"),
    column("measured_s", "run.seconds"),
    *(column("predicted_s", f"seconds.{model}", title=model) for model in (OWN, *PAPERS)),
    column("prediction_error", lambda timed: timed.error(OWN)),
)
LEFT: tuple[Column[NotScored], ...] = (column("source", form="text"), column("runs"), column("why"))


SOURCE = "Published training runs, each source left out of the fit"
SOURCE_MEAN, MEAN = 0.10, 0.065
"""Mean errors from which a check fails: of one source, and of all runs [1]."""


def sources_left_out(width: float = 1.0) -> dict[str, Floats]:
    """Errors of a source's runs by a fit to all others.

    Parameters
    ----------
    width
        Factor of the widths of the priors [1].

    Returns
    -------
    dict of str to array
        Absolute relative errors by source, shape (runs,) [1].
    """
    part = ITERATION_MODELS.load("calibrated").calibration
    if part is None:
        return {}
    calibration = CALIBRATIONS.load("published")
    parameters = (
        parameter.changed(width=width * parameter.width) for parameter in calibration.parameters
    )
    runs = MeasuredRuns.of(published_runs(), part)
    problem = TrainingProblem.of(runs, calibration.changed(parameters=tuple(parameters)))
    sources = [run.source for run in runs.runs]
    errors = np.abs(problem.left_out(sources) / runs.measured_s - 1)
    return {name: errors[np.array(sources) == name] for name in dict.fromkeys(sources)}


def left_out_checks() -> Iterator[Check]:
    """Mean error of each source, and of all."""
    by_source = sources_left_out()
    every = np.concatenate([*by_source.values()])
    cases = [
        (f"{source}: mean error of {len(errors)} runs, all others fitted", errors, SOURCE_MEAN)
        for source, errors in by_source.items()
    ]
    for name, errors, most in (*cases, (f"mean error of all {len(every)} runs", every, MEAN)):
        mean = float(errors.mean())
        expected, got = f"at most {100 * most:g} %", f"{100 * mean:.1f} %"
        yield check(name, SOURCE, expected, got, met=mean <= most, gap=mean)


MEMORY_TITLE = "Memory of published runs"
LARGE_BYTES = 8e9
"""Peaks above it are those of models as people train them [B]."""

MOST_MEDIAN, MOST_REFUSED, LEAST_REFUSED = 0.03, 4, 160
"""Median error of printed peaks, refused runs that ran, and refused runs that did not, beyond which
a check fails [1]."""

GOLDEN = "MLM-gpt"
"""Source of Megatron-LM's golden values: small models of one family, near-duplicates."""


class RunMemory(Struct, frozen=True):
    """A published run, what it printed and what memory model ``stack`` says of it.

    Parameters
    ----------
    name, source
        The run, and who published it.
    bytes
        Computed peak of the stage that was printed, else of the fullest one [B].
    printed_bytes
        Peak as printed [B]; 0 where only the outcome is known.
    verdict
        Whether it fits by the model; empty where only the peak is compared.
    ran
        Whether it ran.
    """

    name: str
    source: str
    bytes: float
    printed_bytes: float = 0.0
    verdict: Verdict | str = ""
    ran: bool = True

    @property
    def error(self) -> float:
        """Absolute relative error of the computed peak [1]."""
        return abs(self.bytes / self.printed_bytes - 1)


@cache
def run_memories() -> Mapping[str, tuple[RunMemory, ...]]:
    """Computed memory of every row, by the name of its table.

    Examples
    --------
    >>> {table: len(runs) for table, runs in run_memories().items()}
    {'memory-peaks': 77, 'memory-fits': 422, 'memory-runs': 237}
    """
    return {
        "memory-peaks": tuple(map(_peak, published("memory-peaks"))),
        "memory-fits": tuple(map(_outcome, published("memory-fits"))),
        "memory-runs": tuple(map(_run, published_rows())),
    }


def _peak(row: Mapping[str, str]) -> RunMemory:
    stage = None if row["printed_stage"] == "worst" else float(row["printed_stage"])
    return RunMemory(row["id"], row["source"], _peak_bytes(row, stage), float(row["peak_bytes"]))


def _outcome(row: Mapping[str, str]) -> RunMemory:
    peak_bytes = _peak_bytes(row)
    usable = ACCELERATORS.load(row["accelerator"]).usable_bytes
    ran = row["outcome"] == "ok"
    return RunMemory(
        row["id"], row["source"], peak_bytes, verdict=memory_verdict(peak_bytes, usable), ran=ran
    )


def _run(row: Mapping[str, str]) -> RunMemory:
    """A run of `measured-runs.csv` as it was made."""
    run = published_run(row)
    peak_bytes = float(held_as_made(run).total[0])
    fit = memory_verdict(peak_bytes, run.accelerator.usable_bytes)
    return RunMemory(run.name, run.source, peak_bytes, verdict=fit)


SIZES = (
    "layers",
    "hidden_size",
    "ffn_size",
    "heads",
    "vocabulary",
    "sequence_length",
    "prediction_layers",
)
EXPERTS = {
    "count": "experts",
    "per_token": "per_token",
    "ffn_size": "expert_ffn_size",
    "shared_ffn_size": "shared_ffn_size",
    "dense_first_layers": "dense_first_layers",
}
LATENT = {
    "query_rank": "query_rank",
    "kv_rank": "kv_rank",
    "head_size": "latent_head_size",
    "rotary_head_size": "rotary_head_size",
    "value_head_size": "latent_value_size",
}
"""Keys of a model and of its blocks, by their columns."""


def _peak_bytes(row: Mapping[str, str], stage: float | None = None) -> float:
    """Computed peak of a row with the sizes of its model and its plan [B]."""
    memory = StackMemory(
        _model(row),
        MemoryOfStack(software=cast("MemoryRow", row["software"])),
        precision=row.get("precision", "bf16"),
        sequence_parallel=row["sequence_parallel"] == "true",
        fused_attention=row["fused_attention"] == "true",
        dropout=row.get("dropout") == "true",
        head_bytes=float(row["head_bytes"]) if row["head_bytes"] else None,
        gradient_bytes=float(row.get("gradient_bytes") or 0.0) or None,
        positions=int(row.get("positions", 0)),
    )
    sizes = PlanSizes(*(float(row.get(name, 1)) for name in PlanSizes.__struct_fields__[:-1]))
    held = memory.held(
        sizes,
        recompute=Recomputation.read(row["recompute"]),
        zero=int(row.get("zero", 1)),
        stage=stage,
    )
    return float(held.total[0])


def _model(row: Mapping[str, str]) -> Model:
    blocks: dict[str, Any] = {**_integers(row, {name: name for name in SIZES})}
    if row.get("kv_rank"):
        blocks["latent_attention"] = LatentAttention(**_integers(row, LATENT))
    else:
        blocks |= _integers(row, {name: name for name in ("kv_heads", "head_size")})
    if row.get("experts"):
        experts: dict[str, Any] = {**_integers(row, EXPERTS)}
        blocks["experts"] = Experts(**experts)
    return Model(
        name=row["id"],
        title=row["id"],
        source=row["url"],
        date=row.get("released", ""),
        batch=1,
        gated_ffn=row.get("gated_ffn", "true") == "true",
        tied_embeddings=row.get("tied_embeddings") == "true",
        **blocks,
    )


def _integers(row: Mapping[str, str], columns: Mapping[str, str]) -> dict[str, int]:
    """Whole numbers of a row by the keys of a record; empty cells are left out."""
    return {key: int(row[name]) for key, name in columns.items() if row.get(name)}


def run_memory_checks() -> Iterator[Check]:
    """Errors of printed peaks, and verdicts on runs that ran and on runs that did not."""
    tables = run_memories()
    peaks = tables["memory-peaks"]
    large = [run for run in peaks if run.printed_bytes > LARGE_BYTES]
    golden = [run for run in peaks if run.source == GOLDEN]
    for name, runs in (
        ("printed peaks", peaks),
        (f"those above {LARGE_BYTES / 1e9:.0f} GB", large),
        ("golden values of Megatron-LM among them", golden),
    ):
        errors = [run.error for run in runs]
        yield check(
            f"{name}: median error of {len(runs)}, %",
            f"{MEMORY_TITLE}, printed peaks",
            f"at most {100 * MOST_MEDIAN:.1f}",
            f"{100 * median(errors):.1f} (mean {100 * fmean(errors):.1f}, largest"
            f" {100 * max(errors):.1f})",
            met=median(errors) <= MOST_MEDIAN,
            gap=median(errors),
        )
    fits, runs = tables["memory-fits"], tables["memory-runs"]
    yield _verdicts("training runs, all of which ran", runs, most=MOST_REFUSED)
    yield _verdicts("runs of a study that ran", [run for run in fits if run.ran], most=0)
    out = [run for run in fits if not run.ran]
    yield _verdicts("runs of a study that ran out of memory", out, least=LEAST_REFUSED)


def _verdicts(
    name: str, runs: Sequence[RunMemory], *, most: int | None = None, least: int = 0
) -> Check:
    """How many of some runs are refused."""
    counts = Counter(run.verdict for run in runs)
    limit = f"at least {least}" if most is None else f"at most {most}"
    wrong = sum((run.verdict == "no") == run.ran for run in runs)
    return check(
        f"{name}: refused of {len(runs)}",
        f"{MEMORY_TITLE}, outcomes",
        limit,
        f"{counts['no']} (tight {counts['tight']}, fit {counts['fit']})",
        same=not wrong,
        met=least <= counts["no"] <= (len(runs) if most is None else most),
        gap=wrong / len(runs),
    )

"""One training iteration, event by event, on links that all of it shares."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, get_args

import numpy as np

from netplan.arrays import AnyInts, Floats, Ints
from netplan.errors import InfeasibleError, InputError, UnknownNameError
from netplan.faults.damage import Damage, find_effects
from netplan.faults.inventory import Inventory, PartNames, Parts
from netplan.faults.rerouting import LiveRouter
from netplan.faults.scenario import read_scenario
from netplan.performance.plan import Plan
from netplan.questions.export import read_graph, with_own_domains
from netplan.questions.inputs import CatalogReader, require_least
from netplan.questions.jobs_file import PlacedJob, read_jobs
from netplan.questions.progress import each, share_done
from netplan.questions.question import asks, optional, several, shared
from netplan.questions.simulate_answer import JobRow, SimulateAnswer
from netplan.questions.training import PlacedRun, RunQuestion
from netplan.records import replace
from netplan.reports.sections import Heading
from netplan.simulation.palm import PalmRun, simulate_palm
from netplan.simulation.palm_model import ANY_ITERATION_MODEL, PalmModel
from netplan.simulation.ranks import Groups, read_ranks, snake, strided
from netplan.simulation.training import Conditions, Job, simulate_jobs, simulate_training
from netplan.simulation.work import ScheduleName
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.topologies.tiles import tile_order
from netplan.traffic.placement import Degrees, Placement
from netplan.traffic.routing import Routing
from netplan.units import counted, si
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

PUBLISHED = "palm"
"""Iteration model of the published mode."""

PUBLISHED_DEGREES = {"tensor", "data", "pipeline", "microbatch"}
NOT_PUBLISHED = (
    *("strategy", "experts", "top_k", "expert_degree", "zero_stage", "embedding", "lm_head"),
    *("interleave", "algorithm", "routing", "seed", "slow", "fail", "graph", "jobs"),
    "inference",
)
"""Inputs that mean nothing in the published mode."""

LEAST_SHARE = 1e-6
"""Least share of its rate that a degraded link has left [1]."""

SAID_OF_EACH_JOB = ("model", "batch", "fixed", "placement", "groups")
ROUND = (
    "Routes go round it by the shortest paths that are left, split evenly, as the equal split of"
    " netplan faults has them; its pace is that of the best split."
)
REPEATED = (
    "All jobs begin at the same moment. Those that share links repeat their iterations until each"
    " has ended the one under way when the last of them ended its first: times are means."
)


@dataclass(frozen=True, kw_only=True)
class Simulate(RunQuestion[SimulateAnswer]):
    """Simulate one iteration event by event on the fabric's own links: what waits for what.

    The plan is the best that search finds, or the fastest that --fix leaves, in memory or not.
    Closed forms say how long compute, collectives and transfers take alone; here they book links,
    so that what shares a link waits. --mode published-code repeats the PALM simulator (iteration
    model palm, fabrics palm-gpu and palm-wafer).

    Raises
    ------
    NetplanError
        If an input is not allowed, or there is no plan.

    Examples
    --------
    >>> answer = simulate(gpus=64, model="gpt-22b", batch=64, hb_size=8, fixed={"pipeline": 4})
    >>> answer.found.iteration_time_s >= answer.found.lower_bound_s
    True
    """

    command: ClassVar[str] = "simulate"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan simulate --gpus 1024 --accelerator h100-80gb --hb-size 8 --model gpt-146b",
        "netplan simulate --gpus 1024 --hb-size 8 --routing hashed --seed 7 --timeline run.html",
        "netplan simulate --gpus 1024 --hb-size 8 --slow leaf-spine=0.5 --trace run.json",
        "netplan simulate --gpus 1024 --hb-size 8 --fail spine=1 --fail links=10",
        "netplan simulate --gpus 1024 --hb-size 8 --jobs jobs.yaml",
    )

    schedule: ScheduleName | None = optional(
        "Order of the passes.",
        "choice",
        choices=get_args(ScheduleName),
        otherwise="1f1b; interleaved where the plan has several stages a GPU",
    )
    placement: str | None = optional(
        "GPUs of the ranks: line (in order), snake (rows of rings turn back), or a file.",
        metavar="line|snake|FILE",
        otherwise="line; snake on a wafer",
    )
    groups: Groups = optional(
        "Members of a tensor group: near (side by side), or strided over the places of their"
        " stage.",
        "choice",
        choices=get_args(Groups),
        default="near",
    )
    routing: Routing = shared(
        "How messages find their way; auto is the fabric's own.",
        "choice",
        choices=get_args(Routing),
    )
    seed: int = optional(
        "Seed of hashed routing, and of parts that fail.", "whole", default=0, high=2**64
    )
    contention: bool = optional(
        "Nothing waits for a link.", "flag", default=True, flag="--no-contention"
    )
    full: bool = optional(
        "Simulate every microbatch, even where the run repeats itself.", "flag", default=False
    )
    inference: bool = optional(
        "Forward passes alone, through weights that are there.", "flag", default=False
    )
    slow: tuple[str, ...] = several(
        "Share of its rate that a link, or a group of links, has left, such as leaf-spine=0.5"
        " (repeatable).",
        flag="--slow",
        metavar="LINK=SHARE",
    )
    fail: tuple[str, ...] = several(
        "Has failed, and routes go round it: rail-0/leaf-3, links=10, spine=1, @FILE.",
        metavar="PART",
    )
    graph: str | Path | None = optional(
        "Links of this graph (.graphml, .csv, .topo, .ibnetdiscover), not the fabric's.", "path"
    )
    jobs: str | Path | None = optional(
        "Several jobs on the fabric, of this YAML file: model, GPUs and placement of each.", "path"
    )
    hot: int = shared("Busiest links to name.", "whole", low=0)

    def __post_init__(self) -> None:
        """Take what the mode and the schedule need where nothing else is asked for."""
        if self.mode == "published-code":
            self._otherwise("iteration_model", PUBLISHED)
        if self.iteration_model == PUBLISHED:
            self._otherwise("recompute", "full")
        elif self.schedule is not None:
            self._otherwise("interleave", "any" if self.schedule == "interleaved" else "none")
        super().__post_init__()

    def _otherwise(self, name: str, value: str) -> None:
        """Another default than that of other questions."""
        if getattr(self, name) is None:
            object.__setattr__(self, name, value)

    def inputs(self, **resolved: object) -> dict[str, object]:
        """The inputs as the answer shows them; files by their names."""
        files = {"graph": self.graph, "jobs": self.jobs}
        named = {name: str(path) for name, path in files.items() if path is not None}
        return super().inputs(**named, **resolved)

    def ask(self) -> SimulateAnswer:
        """Place the run, and let it go."""
        require_least("hot", self.hot)
        require_least("seed", self.seed)
        self._check_failing()
        reader = CatalogReader(self.catalog, self.overrides)
        rules = reader.load(ANY_ITERATION_MODEL, self.iteration_model)
        if isinstance(rules, PalmModel):
            return self._published_answer(self._published(reader, rules), reader.replaced())
        return self._corrected() if self.jobs is None else self._of_jobs(Path(self.jobs))

    def _corrected(self) -> SimulateAnswer:
        """Simulate the plan that search finds."""
        run = self.place()
        graph, notes = self._graph(run.spec, run.fabric.sizing)
        schedule, gpus = self._schedule(run), self._gpus(run, graph)
        ranks = run.placement.gpu_of_rank
        conditions = self._conditions(graph, ranks if gpus is None else gpus[ranks])
        conditions = replace(conditions, schedule=schedule, gpus=gpus)
        tick = share_done("microbatches simulated")
        one = run.setting, run.timed, run.fabric, graph
        found = simulate_training(*one, conditions, tick=tick)
        if self.slow or self.fail:
            whole = replace(conditions, rates=None, routes=None, spans=False)
            intact = simulate_training(*one, whole)
            found = replace(found, intact_time_s=intact.iteration_time_s)
        heading = run.heading("Simulation")
        how = f"schedule {schedule}, routing {self.routing}"
        how = f"inference, routing {self.routing}" if self.inference else how
        return SimulateAnswer(
            inputs=run.inputs | {"schedule": schedule},
            heading=replace(heading, lines=(*heading.lines, how)),
            found=found,
            plan=run.timed.plan,
            notes=(*run.fabric.notes, *notes, *self._memory_notes(run), *found.notes, *self._round),
        )

    def _memory_notes(self, run: PlacedRun) -> Iterator[str]:
        """That a plan which was given does not fit; a search would not have it."""
        needed = run.timed.memory_bytes
        on = CatalogReader(self.catalog, self.overrides).load(ACCELERATORS, self.accelerator)
        if needed > on.memory_bytes and not self.inference:
            yield (
                f"The plan needs {si(needed, 'B')} of memory a GPU, and {on.name} has"
                f" {si(on.memory_bytes, 'B')}: netplan search has none that do not fit."
            )

    def _conditions(self, graph: FabricGraph, used: AnyInts) -> Conditions:
        """How anything is simulated on some GPUs of a graph."""
        return Conditions(
            algorithm=self.algorithm,
            schedule=self.schedule,
            routing="ecmp" if self.fail else self.routing,
            seed=self.seed,
            contention=self.contention,
            rates=self._rates(graph),
            routes=self._routes(graph, used),
            trains=not self.inference,
            full=self.full,
            spans=True,
            hot=self.hot,
        )

    def _of_jobs(self, path: Path) -> SimulateAnswer:
        """Simulate each job of a file alone, then all of them together."""
        self.refuse(SAID_OF_EACH_JOB, f"{path}, which says it of each job")
        reader = CatalogReader(self.catalog, self.overrides)
        on, spec = reader.load(ACCELERATORS, self.accelerator), reader.load(FABRICS, self.fabric)
        fabric = build_fabric(spec, self.sized(on))
        graph, notes = self._graph(spec, fabric.sizing)
        placed = read_jobs(path, fabric.sizing.gpus, fabric.sizing.hb_size)
        conditions = self._conditions(graph, np.concatenate([one.gpus for one in placed]))
        jobs: list[Job] = []
        alone_s: list[float] = []
        for one in each(placed, lambda one: f"{one.name} alone"):
            run = self._run_of(one)
            jobs.append(Job(run.setting, run.timed, run.fabric, one.gpus))
            alone_s += simulate_jobs(jobs[-1:], graph, replace(conditions, spans=False)).times_s
        tick = share_done("microbatches of the job with the most simulated")
        found = simulate_jobs(jobs, graph, conditions, tick=tick)
        together = zip(found.times_s, found.iterations, strict=True)
        rows = tuple(
            JobRow(one.name, one.entry.model, job.timed.plan, time_s, *mean)
            for one, job, time_s, mean in zip(placed, jobs, alone_s, together, strict=True)
        )
        used = sum(len(one.gpus) for one in placed)
        heading = Heading(
            f"{counted(len(rows), 'job')} on {used:,} of {self.gpus:,} {on.name}",
            (f"HB domains of {graph.hb_size:,}, fabric {spec.name}; routing {self.routing}",),
        )
        inputs = self.inputs(hb_size=graph.hb_size, set=reader.replaced())
        notes = (*fabric.notes, *notes, *found.whole.notes, REPEATED, *self._round)
        return SimulateAnswer(inputs, heading, found.whole, jobs=rows, notes=notes)

    def _run_of(self, job: PlacedJob) -> PlacedRun:
        """A job by its best plan on a fabric of its own size."""
        entry = job.entry
        given = {"model": entry.model, "batch": entry.batch, "fixed": entry.fix}
        try:
            return replace(self, gpus=len(job.gpus), jobs=None, **given).place()
        except (InputError, InfeasibleError) as error:
            raise type(error)(f"{self.jobs}, job {job.name:.60}: {error}") from None

    def _published(self, reader: CatalogReader, rules: PalmModel) -> PalmRun:
        """The run of the published mode, with the degrees that are given."""
        self.refuse(NOT_PUBLISHED, f"iteration model {rules.name}")
        if self.recompute == "selective" or self.schedule == "interleaved":
            raise InputError(
                f"iteration model {rules.name} knows --recompute none and full, --schedule 1f1b and"
                " gpipe: give one of them"
            )
        fixed = self.options().fixed
        if unknown := set(fixed.given) - PUBLISHED_DEGREES:
            raise InputError(
                f"--fix {min(unknown)}: iteration model {rules.name} has"
                f" {', '.join(sorted(PUBLISHED_DEGREES))}"
            )
        on, spec = reader.load(ACCELERATORS, self.accelerator), reader.load(FABRICS, self.fabric)
        model = reader.load(MODELS, self.model)
        fabric = build_fabric(spec, self.sized(on))
        tensor, pipeline = fixed.tensor or 1, fixed.pipeline or 1
        data = fixed.data or max(1, self.gpus // (tensor * pipeline))
        return PalmRun(
            model=model,
            batch=model.batch_on(self.gpus) if self.batch is None else self.batch,
            on=on,
            rules=rules,
            spec=spec,
            fabric=fabric,
            tensor=tensor,
            data=data,
            pipeline=pipeline,
            microbatch=fixed.microbatch,
            recompute=self.recompute,
            schedule=self.schedule or "1f1b",
            gpus=self._places(spec, fabric.sizing.gpus, tensor * data * pipeline),
            groups=self.groups,
        )

    def _published_answer(self, run: PalmRun, replaced: dict[str, object]) -> SimulateAnswer:
        """Simulate by the rules of the published code."""
        graph = expand(run.spec, run.fabric.sizing)
        placement = Placement((Degrees(run.tensor, data=run.data, pipeline=run.pipeline),))
        plan = Plan(placement, run.sequences, run.microbatches)
        found = simulate_palm(
            run,
            graph,
            contention=self.contention,
            full=self.full,
            hot=self.hot,
            tick=share_done("microbatches simulated"),
        )
        inputs = self.inputs(
            hb_size=graph.hb_size, batch=run.batch, schedule=run.schedule, set=replaced
        )
        parts = counted(run.microbatches, "microbatch", "microbatches")
        batches = f"{parts} of {run.sequences:,} sequences"
        heading = Heading(
            f"Simulation of {run.model.name}, batch {run.batch:,}, on {self.gpus:,} {run.on.name}",
            (
                f"fabric {run.spec.name}; iteration model {run.rules.name}",
                f"plan as given: {plan.shape} (TPxPPxDP), {batches}",
                f"schedule {run.schedule}, recomputation {run.recompute}",
            ),
        )
        notes = (*run.fabric.notes, *found.notes)
        return SimulateAnswer(inputs, heading, found, plan, notes=notes)

    def _places(self, spec: FabricSpec, gpus: int, used: int) -> Ints | None:
        """GPU at each place of a run of the published mode; None for its own order."""
        asked = self.placement
        if asked is None or (asked == "line" and spec.tile is None):
            return None
        if asked in ("line", "snake"):
            if spec.tile is None:
                raise InputError(f"--placement {asked} is for tiles, and {spec.name} has none")
            return tile_order(spec, gpus, "line" if asked == "line" else "snake")
        return read_ranks(Path(asked), used, gpus)

    def _schedule(self, run: PlacedRun) -> ScheduleName:
        """The schedule that is asked for, or that of the plan."""
        stages = run.timed.plan.interleave
        own: ScheduleName = "interleaved" if stages > 1 else "1f1b"
        asked = self.schedule or own
        if (asked == "interleaved") != (stages > 1):
            advice = "--fix interleave=1" if stages > 1 else "--fix interleave=2"
            raise InputError(
                f"--schedule {asked} does not run a plan of {stages} stage{'s' * (stages > 1)} a"
                f" GPU: leave it out, or give {advice}"
            )
        return asked

    def _graph(self, spec: FabricSpec, sizing: Sizing) -> tuple[FabricGraph, tuple[str, ...]]:
        """The fabric's own graph, or that of a file, and what was added to it."""
        if self.graph is None:
            return expand(spec, sizing), ()
        path = Path(self.graph)
        read = read_graph(path, hb_size=sizing.hb_size)
        if read.gpus < sizing.gpus:
            raise InputError(f"--graph {path} has {read.gpus:,} GPUs, --gpus {sizing.gpus:,}")
        on = CatalogReader(self.catalog, self.overrides).load(ACCELERATORS, self.accelerator)
        return with_own_domains(read, path, on)

    def _gpus(self, run: PlacedRun, graph: FabricGraph) -> Ints | None:
        """GPU of the graph at which each GPU of the run stands; None if they are the same."""
        asked, ranks = self.placement or "line", run.placement.gpu_of_rank
        sizing, levels = run.fabric.sizing, run.fabric.levels[1:]
        if (asked, self.groups, graph.gpus) == ("line", "near", sizing.gpus):
            return None
        found = np.arange(sizing.gpus)
        if asked == "snake":
            if any(level.kind == "switch" for level in levels):
                raise InputError(
                    f"--placement snake is for rings and meshes, and {run.spec.name} has switches:"
                    " leave it out, or give a file"
                )
            order = snake([level.size for level in levels])
            found = (order[:, None] * sizing.hb_size + np.arange(sizing.hb_size)).ravel()
        elif asked != "line":
            named = read_ranks(Path(asked), len(ranks), graph.gpus)
            idle = np.setdiff1d(np.arange(graph.gpus), named)
            found[np.setdiff1d(found, ranks)] = idle[: sizing.gpus - len(ranks)]
            found[ranks] = named
        if self.groups == "strided":
            found[ranks] = found[ranks[strided(run.placement)]]
        return found

    @property
    def _round(self) -> tuple[str, ...]:
        """What is said of routes round failed parts."""
        return (f"Failed: {', '.join(self.fail)}. {ROUND}",) if self.fail else ()

    def _check_failing(self) -> None:
        """Refuse failures that routes or closed forms would not notice."""
        if not self.fail:
            return
        if not self.contention:
            raise InputError(
                "--no-contention takes no link, so that --fail would change nothing: leave one out"
            )
        if self.routing not in ("auto", "ecmp"):
            raise InputError(
                f"--routing {self.routing} knows no ways round failures, which shortest paths split"
                " evenly do: leave it out beside --fail, or give ecmp"
            )

    def _routes(self, graph: FabricGraph, used: AnyInts) -> LiveRouter | None:
        """Ways round what has failed, which leaves all GPUs in use joined; None if nothing has."""
        if not self.fail:
            return None
        scenario = read_scenario(self.fail, Inventory(graph))
        damage = scenario.damage(np.random.default_rng(self.seed))
        _check_goes_on(graph, damage, used)
        return LiveRouter(graph, damage)

    def _rates(self, graph: FabricGraph) -> Floats | None:
        """Share of its rate that each link has, shape (links,); None if all have all of it."""
        if not self.slow:
            return None
        inventory = Inventory(graph)
        names, shares = PartNames(inventory), np.ones(graph.link_count)
        for text in self.slow:
            name, equals, number = text.rpartition("=")
            share = _share(number)
            if not equals or share is None:
                raise InputError(
                    f"--slow {text!r:.60}: write LINK=SHARE, above 0 and at most 1, such as"
                    " gpu-5--leaf-0=0.5 or leaf-spine=0.5"
                )
            shares[_links(name.strip(), inventory, names)] *= share
        if shares.min() < LEAST_SHARE:
            raise InputError(
                f"--slow leaves a link {shares.min():.3g} of its rate: leave it {LEAST_SHARE:g} or"
                " more, or ask netplan faults what fails without it"
            )
        return shares


simulate = asks(Simulate)


def _check_goes_on(graph: FabricGraph, damage: Damage, used: AnyInts) -> None:
    """Refuse damage that takes GPUs in use."""
    effects = find_effects(graph, damage)
    for gpus, what in ((effects.gpus_down, "down"), (effects.cut_off_forwarding, "cut off")):
        gone = np.intersect1d(gpus, used)
        if len(gone):
            raise InputError(
                f"--fail: {counted(len(gone), 'GPU')} in use, {graph.node_name(gone[0])} first,"
                f" would be {what}, and the iteration stops: ask netplan faults with the same"
                " --fail how the job goes on, with other GPUs or fewer"
            )


def _share(text: str) -> float | None:
    """A share above 0 and at most 1; None if it is something else."""
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0 < share <= 1 else None


def _links(name: str, inventory: Inventory, names: PartNames) -> Ints:
    """Links of a group, or of a name as exports write it."""
    group = inventory.kinds.get(name)
    try:
        parts = names.find(name) if group is None else Parts(group, group.numbers)
    except UnknownNameError as error:
        if "did you mean" in str(error):
            raise
        raise _no_link(name, "unknown", inventory) from None
    if parts.kind.space == "end":
        return parts.numbers // 2
    if parts.kind.space != "link":
        raise _no_link(name, f"a {parts.kind.name}", inventory)
    return parts.numbers


def _no_link(name: str, what: str, inventory: Inventory) -> InputError:
    """What to say of a name that is none of a link."""
    groups = ", ".join(one for one, kind in inventory.kinds.items() if kind.space == "link")
    return InputError(
        f"--slow {name[:60]!r} is {what}: name a link as exports write it, such as"
        f" gpu-0--rail-0/leaf-0, or a group of them: {groups}"
    )

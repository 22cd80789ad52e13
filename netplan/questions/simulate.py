"""One training iteration, event by event, on links that all of it shares.

The published mode of netplan simulate: a run by the rules of the PALM simulator's code.

Degrees, schedule and recomputation are as given, nothing is searched (`netplan.simulation.palm`).

Several jobs of a file: an iteration of each alone, then all of them together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from netplan.answers.congestion_answer import RoutedDesign
from netplan.answers.simulate_answer import JobRow, SimulateAnswer
from netplan.arrays import Ints
from netplan.errors import InfeasibleError, InputError
from netplan.faults.damage.degraded_links import check_degraded, round_note
from netplan.performance.error_bars import bar_note
from netplan.performance.plan import Plan
from netplan.performance.setting import Fixed
from netplan.progress import share_done, with_progress
from netplan.questions.cut_fibre import refuse_cuts
from netplan.questions.simulating.contention import (
    contention_of,
    contention_of_jobs,
    schedule_of,
    uncontended,
)
from netplan.questions.simulating.inputs import SimulationQuestion
from netplan.records import replace
from netplan.reports.sections import Heading
from netplan.scenarios.reading import CatalogReader, sized
from netplan.setup.asking import function_of
from netplan.setup.inputs import require_least, span_of
from netplan.setup.jobs_file import place_jobs
from netplan.setup.over_sites import place_trained
from netplan.setup.own_domains import graph_of_run
from netplan.setup.placed_run import PlacedRun
from netplan.setup.plan_notes import bubble_note, model_notes, rates_note
from netplan.setup.question import SPAN
from netplan.setup.runs import place_serving
from netplan.setup.software import CALIBRATED
from netplan.setup.training import plan_options, training_inputs
from netplan.simulation.distance import Distance
from netplan.simulation.outcome import SimulationOutcome
from netplan.simulation.palm import PalmRun, simulate_palm
from netplan.simulation.palm_model import ANY_ITERATION_MODEL, PalmModel
from netplan.simulation.program_work import check_simulated
from netplan.simulation.ranks import by_stage, read_ranks, snake, strided
from netplan.simulation.simulate import Conditions, simulate_jobs
from netplan.simulation.slow_gpus import who_waits
from netplan.simulation.stage_map import PlacedStage, read_map, stages_on_gpus
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.families.tiles import tile_order
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FabricSpec
from netplan.traffic.placement import Degrees, Placement
from netplan.units import counted, si
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

if TYPE_CHECKING:
    from netplan.answers.simulated_step_answer import SimulatedStepAnswer
    from netplan.setup.served_run import ServedRun

PUBLISHED_DEGREES = {"tensor", "data", "pipeline", "microbatch"}
NOT_PUBLISHED = (
    *("strategy", "experts", "top_k", "expert_degree", "zero_stage", "embedding", "lm_head"),
    *("interleave", "algorithm", "routing", "seed", "slow", "jitter", "fail", "graph", "jobs"),
    *("inference", "offload", "memory_policy", *CALIBRATED, *SPAN),
    *("expert_skew", "expert_placement", "redundant_experts", "imbalance", "use_per_domain"),
    *("sequence_parallel", "space", "memory_model", "ignore_memory", "expanded_memory"),
)
"""Inputs that mean nothing in the published mode."""

MOST_SHAPES = 4
"""Runs of stages of other degrees than the last that a heading names [1]."""


def published_answer(
    asked: SimulationQuestion, reader: CatalogReader, rules: PalmModel
) -> SimulateAnswer:
    """Simulate by the rules of the published code.

    Raises
    ------
    InputError
        If an input means nothing there, or degrees do not fit.

    Examples
    --------
    >>> from netplan.questions.simulate import simulate
    >>> asked = {"gpus": 16, "fabric": "palm-gpu", "accelerator": "palm-a100", "model": "t-18b"}
    >>> found = simulate("rail-only-paper", mode="published-code",
    ...     fixed={"tensor": 8, "pipeline": 2}, **asked)
    >>> found.plan.shape, found.found.microbatches_simulated
    ('8x2x1', 2)
    """
    run = _run(asked, reader, rules)
    graph = expand(run.spec, run.fabric.sizing)
    shapes = {(stage.tensor, stage.data): None for stage in run.mapped}
    plan = None
    if len(shapes) <= 1:
        placement = Placement((Degrees(run.tensor, data=run.data, pipeline=run.pipeline),))
        plan = Plan(placement, run.sequences, run.microbatches)
    named = f"{plan.shape} (TPxPPxDP)" if plan else _shapes(run.mapped)
    simulated = simulate_palm(
        run,
        graph,
        contention=asked.contention,
        full=asked.full,
        busiest=asked.hot,
        tick=share_done("microbatches simulated"),
    )
    inputs = training_inputs(
        asked, hb_size=graph.hb_size, batch=run.batch, schedule=run.schedule, set=reader.replaced()
    )
    parts = counted(run.microbatches, "microbatch", "microbatches")
    batches = f"{parts} of {run.sequences:,} sequences"
    heading = Heading(
        f"Simulation of {run.model.name}, batch {run.batch:,}, on {asked.cluster.gpus:,}"
        f" {run.on.name}",
        (
            f"fabric {run.spec.name}; iteration model {run.rules.name}",
            f"plan as given: {named}, {batches}",
            f"schedule {run.schedule}, recomputation {run.recompute}",
        ),
    )
    notes = (*run.fabric.notes, *simulated.notes)
    return SimulateAnswer(inputs, heading, simulated, plan, notes=notes, gpus_used=run.gpus_used)


def _shapes(stages: tuple[PlacedStage, ...]) -> str:
    """Stages that differ in words, those that follow each other and are alike together."""
    alike = [
        (shape, len([*group]))
        for shape, group in groupby((stage.tensor, stage.data) for stage in stages)
    ]
    texts = [f"{counted(count, 'stage')} of {tp} x {dp}" for (tp, dp), count in alike]
    return f"{', '.join(texts[:MOST_SHAPES])}{', ...' * (len(texts) > MOST_SHAPES)} (TP x DP)"


def _run(asked: SimulationQuestion, reader: CatalogReader, rules: PalmModel) -> PalmRun:
    """The run of the published mode, with the degrees that are given."""
    asked.reject_inputs(NOT_PUBLISHED, f"iteration model {rules.name}")
    if asked.training.recompute in ("selective", "half") or asked.simulated == "interleaved":
        raise InputError(
            f"iteration model {rules.name} knows --recompute none and full, --schedule 1f1b and"
            " gpipe: give one of them"
        )
    if asked.training.optimizer == "sgd":
        raise InputError(
            f"iteration model {rules.name} counts Adam's update, as published: leave --optimizer"
            " sgd out, or take another iteration model"
        )
    fixed = plan_options(asked).fixed
    if unknown := set(fixed.given) - PUBLISHED_DEGREES:
        known = ", ".join(sorted(PUBLISHED_DEGREES))
        raise InputError(f"--fix {min(unknown)}: iteration model {rules.name} has {known}")
    on = reader.load(ACCELERATORS, asked.cluster.accelerator)
    spec = reader.fabric(asked.cluster.fabric, asked.cluster)
    model = reader.load(MODELS, asked.training.model)
    fabric = build_fabric(spec, sized(asked.cluster, on))
    tensor, pipeline = fixed.tensor or 1, fixed.pipeline or 1
    data = fixed.data or max(1, asked.cluster.gpus // (tensor * pipeline))
    written = read_map(asked.placement or "", reader.roots)
    mapped: tuple[PlacedStage, ...] = ()
    if written is not None:
        where = spec, fabric.sizing.gpus
        mapped = stages_on_gpus(written, *where, tensor=tensor, layers=model.layers)
        _check_map(mapped, fixed, asked.before.value("fixed") or {})
        tensor, data, pipeline = mapped[0].tensor, mapped[0].data, len(mapped)
    return PalmRun(
        model=model,
        batch=asked.scenario.batch or model.batch_on(asked.cluster.gpus),
        on=on,
        rules=rules,
        spec=spec,
        fabric=fabric,
        tensor=tensor,
        data=data,
        pipeline=pipeline,
        microbatch=fixed.microbatch,
        recompute="none" if asked.training.recompute == "none" else "full",
        schedule=asked.simulated or "1f1b",
        gpus=None if mapped else _places(asked, spec, fabric.sizing.gpus, tensor * data * pipeline),
        groups=asked.groups,
        mapped=mapped,
    )


def _check_map(mapped: tuple[PlacedStage, ...], fixed: Fixed, usual: Mapping[str, int]) -> None:
    """Refuse degrees that were given and that a map of stages contradicts."""
    of_map = {"pipeline": len(mapped), "data": mapped[0].data}
    for name, degree in of_map.items():
        given = getattr(fixed, name)
        if given not in (None, degree, usual.get(name)):
            raise InputError(
                f"--fix {name}={given}, and the map has {counted(len(mapped), 'stage')}, the first"
                f" one of data degree {mapped[0].data}: leave it out"
            )


def _places(question: SimulationQuestion, spec: FabricSpec, gpus: int, used: int) -> Ints | None:
    """GPU at each place of a run of the published mode; None for its own order."""
    asked = question.placement
    if asked is None or (asked == "line" and spec.tile is None):
        return None
    if asked in ("line", "snake"):
        if spec.tile is None:
            raise InputError(f"--placement {asked} is for tiles, and {spec.name} has none")
        return tile_order(spec, gpus, "line" if asked == "line" else "snake")
    return read_ranks(Path(asked), used, gpus)


REPEATED = (
    "All jobs begin at the same moment. Those that share links repeat their iterations until each"
    " has ended the one under way when the last of them ended its first: times are means."
)
UNWEIGHED = "Weights of jobs mean nothing where links are booked: --sharing fluid shares by them."


def jobs_answer(asked: SimulationQuestion, path: Path) -> SimulateAnswer:
    """Simulate each job of a file alone, then all of them together.

    Raises
    ------
    NetplanError
        If the file is wrong, or a job cannot be planned: which, and what of it.
    """
    placed = place_jobs(asked, path, asked.algorithm)
    jobs, fabric, names = placed.jobs, placed.fabric, placed.names
    graph, notes = graph_of_run(asked, placed.spec, fabric.sizing)
    conditions = asked.conditions(graph, placed.gpus)
    apart = replace(conditions, spans=False)
    alone_s = [
        simulate_jobs([job], graph, apart).times_s[0]
        for _, job in with_progress([*zip(names, jobs, strict=True)], lambda row: f"{row[0]} alone")
    ]
    tick = share_done("microbatches of the job with the most simulated")
    outcome = simulate_jobs(jobs, graph, conditions, tick=tick)
    intact_s: tuple[float | None, ...] = (None,) * len(jobs)
    if asked.slow or asked.fail:
        intact_s = simulate_jobs(jobs, graph, conditions.on_whole_links).times_s
    means = zip(outcome.times_s, outcome.iterations, intact_s, strict=True)
    rows = tuple(
        JobRow(row.name, row.entry.model, job.timed.plan, time_s, *mean, job.timed.error)
        for row, job, time_s, mean in zip(placed.placed, jobs, alone_s, means, strict=True)
    )
    design = None
    if asked.sharing == "fluid":
        shared = contention_of_jobs(names, jobs, outcome, graph, conditions)
        design = asked.design(shared, graph, conditions)
    links = f"fabric {placed.spec.name}"
    if asked.cluster.graph is not None:
        links = f"links of {asked.cluster.graph}"
    used = len(placed.gpus)
    reader = asked.reader()
    heading = Heading(
        f"{counted(len(rows), 'job')} on {used:,} of {asked.cluster.gpus:,}"
        f" {reader.load(ACCELERATORS, asked.cluster.accelerator).name}",
        (f"HB domains of {graph.hb_size:,}, {links}; routing {asked.routing}",),
    )
    inputs = asked.inputs(model=None, hb_size=graph.hb_size, set=reader.replaced())
    weighed = any(row.entry.weight != 1 for row in placed.placed)
    further_notes = (
        *dict.fromkeys(sentence for job in jobs for sentence in bar_note(job.timed.error)),
        *round_note(asked.fail, graph, asked.routing),
        *((UNWEIGHED,) if weighed and design is None else ()),
    )
    notes = (*fabric.notes, *notes, *outcome.whole.notes, REPEATED, *further_notes)
    return SimulateAnswer(inputs, heading, outcome.whole, jobs=rows, notes=notes, design=design)


@dataclass(frozen=True, kw_only=True)
class Simulate(SimulationQuestion):
    """Simulate one iteration event by event on the fabric's own links.

    The plan is the best that search finds; where --fix leaves none that fits, the fastest.
    Closed forms say how long compute, collectives and transfers take alone; here they book links,
    so that what shares a link waits. --mode published-code repeats the PALM simulator (iteration
    model palm, fabrics palm-gpu and palm-wafer).

    Under --workload post-training: steps with drawn answers, and new weights on the links.

    Raises
    ------
    NetplanError
        If an input is not allowed, or there is no plan.

    Examples
    --------
    >>> answer = simulate("rail-only-paper", gpus=64, model="gpt-22b", batch=64, hb_size=8,
    ...     fixed={"pipeline": 4})
    >>> answer.found.iteration_time_s >= answer.found.lower_bound_s
    True
    """

    command: ClassVar[str] = "simulate"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan simulate hgx-h100 --gpus 1024 --model llama-3-70b",
        "netplan simulate hgx-h100 --gpus 1024 --routing hashed --timeline run.html",
        "netplan simulate hgx-h100 --gpus 1024 --slow leaf-spine=0.5 --trace run.json",
        "netplan simulate hgx-h100 --gpus 1024 --slow gpu-5=0.5 --jitter 0.02",
        "netplan simulate hgx-h100 --gpus 1024 --fail spine=1 --fail links=10",
        "netplan simulate --gpus 256 --fabric fat-tree --jobs jobs.yaml",
        "netplan simulate grpo-70b-h100 --timeline run.html",
    )

    def ask(self) -> SimulateAnswer:
        """Place the run, and let it go."""
        require_least("hot", self.hot)
        require_least("seed", self.seed)
        if self.reinforces:  # who asks about steps knows what is answered
            return cast("SimulateAnswer", self._reinforced())
        if self.routing != "hashed" and not self.fail and not self.jitter:
            self.reject_inputs(
                {"seed"}, "paths that are not hashed, where no parts fail or have jitter"
            )
        if self.sharing != "fluid" or self.routing != "hashed":
            self.reject_inputs({"connections"}, "messages without --sharing fluid --routing hashed")
        if self.sharing != "fluid":
            self.reject_inputs({"check_classes"}, "links that are booked, without --sharing fluid")
        if not 0 <= self.jitter < 1:
            raise InputError(
                f"--jitter {self.jitter:g}: give a relative spread from 0 to below 1, such as 0.02"
            )
        if self.jitter and self.jobs is not None:
            self.reject_inputs({"jitter"}, "--jobs, whose iterations wait for links alone")
        check_degraded(self.slow, self.fail, self.routing, contention=self.contention)
        refuse_cuts(self, self.fail)
        if not self.trains:
            return self._round()
        reader = self.reader()
        rules = reader.load(ANY_ITERATION_MODEL, self.training.iteration_model)
        if isinstance(rules, PalmModel):
            self.reject_inputs({"sharing"}, "the published mode, whose messages book whole paths")
            # Kernels of graphs, which no other run needs.
            from netplan.questions.simulating.tiles import runs_on_tiles, tile_answer

            answer = tile_answer if runs_on_tiles(self, reader) else published_answer
            return answer(self, reader, rules)
        if self.jobs is not None and self.cluster.span.sites is not None:
            raise InputError(
                f"--jobs beside --sites {self.cluster.span.sites}: jobs that share links are in one"
                " site: leave one out, or name a scenario of one site"
            )
        try:
            return self._corrected() if self.jobs is None else jobs_answer(self, Path(self.jobs))
        except InfeasibleError:
            check_simulated(rules)  # another plan would lead nowhere
            raise

    def _reinforced(self) -> "SimulatedStepAnswer":
        """Steps of post-training: rollouts drawn, weights sent over links, what waits for what."""
        from netplan.answers.simulated_step_answer import SimulatedStepAnswer
        from netplan.questions.simulating.step import NOT_OF_STEPS, simulate_step

        self.reject_inputs(NOT_OF_STEPS | SPAN, "--workload post-training")
        if self.routing != "hashed":
            self.reject_inputs({"connections"}, "weights on paths that are not hashed")
        if self.sharing != "fluid":
            self.reject_inputs({"check_classes"}, "links that are booked, without --sharing fluid")
        reader = self.reader()
        simulated = simulate_step(self, reader)
        inputs = self.inputs(hb_size=simulated.trained.domain, set=reader.replaced())
        return SimulatedStepAnswer(inputs, simulated)

    def _corrected(self) -> SimulateAnswer:
        """Simulate the plan that search finds."""
        run = place_trained(self, self.algorithm)
        graph, notes = graph_of_run(self, run.spec, run.fabric.sizing)
        schedule, gpus = schedule_of(self, run.timed), self._gpus(run, graph)
        ranks = run.placement.gpu_of_rank
        conditions = self.conditions(graph, ranks if gpus is None else gpus[ranks])
        conditions = replace(conditions, schedule=schedule, gpus=gpus)
        conditions = replace(conditions, distance=run.over and Distance.of(run.over))
        tick = share_done("microbatches simulated")
        simulated = run.simulated(graph, conditions, tick)
        if run.over is not None:
            simulated = replace(simulated, analytic_time_s=run.over.time.time_s)
        simulated, design = self._compared(run, simulated, graph, conditions)
        heading = run.heading("Simulation", timed=False)
        orders = "inference" if self.inference else f"schedule {schedule}"
        orders = "" if run.setting.spread_model and not self.inference else f"{orders}, "
        links = "" if self.cluster.graph is None else f", links of {self.cluster.graph}"
        how = f"{orders}routing {self.routing}{links}"
        failed = round_note(self.fail, graph, self.routing)
        return SimulateAnswer(
            inputs=run.inputs | {"schedule": schedule},
            heading=replace(heading, lines=(*heading.lines, how)),
            found=simulated,
            plan=run.timed.plan,
            counts=run.setting.training.model.counts,
            error=run.timed.error if not self.inference else None,
            over=run.over,
            design=design,
            notes=(
                *(*run.told, *run.fabric.notes, *notes),
                *(*self._plan_notes(run), *simulated.notes, *failed),
            ),
        )

    def _round(self) -> SimulateAnswer:
        """Simulate one round of the servers that netplan serving finds."""
        left = {"jobs", "inference", "placement", "groups", "full"}
        span_of(self)
        self.reject_inputs(left, "--workload serving")
        run = place_serving(self, self.algorithm)
        graph, notes = graph_of_run(self, run.spec, run.fabric.sizing)
        conditions = self.conditions(graph, run.placement.gpu_of_rank)
        simulated = run.simulated(graph, conditions)
        simulated, design = self._compared(run, simulated, graph, conditions)
        if run.servers.pools is not None:
            notes = (*notes, "Only the servers that decode are simulated; prompts and caches not.")
        heading = run.heading("Simulation", timed=False)
        lines = (*heading.lines, f"one round, routing {self.routing}")
        return SimulateAnswer(
            inputs=run.inputs,
            heading=replace(heading, lines=lines),
            found=simulated,
            served=run.plan,
            counts="tokens",
            design=design,
            notes=(
                *run.notes(),
                *notes,
                *simulated.notes,
                *round_note(self.fail, graph, self.routing),
            ),
        )

    def _compared(
        self,
        run: "PlacedRun | ServedRun",
        simulated: SimulationOutcome,
        graph: FabricGraph,
        conditions: Conditions,
    ) -> tuple[SimulationOutcome, RoutedDesign | None]:
        """A run beside its time on parts that are all whole, with what slow GPUs cost.

        And what contention makes of the time; None where links are booked, or not looked at.
        """
        design = None
        if simulated.fluid is not None:
            alone_s = run.simulated(graph, uncontended(conditions)).iteration_time_s
            contention = contention_of(simulated, alone_s, graph, conditions)
            design = self.design(contention, graph, conditions)
        if not (self.slow or self.fail):
            return simulated, design
        intact_s = run.simulated(graph, conditions.on_whole_links).iteration_time_s
        simulated = replace(simulated, intact_time_s=intact_s)
        if conditions.shares is not None:
            times_s = simulated.iteration_time_s, intact_s
            places = run.placement, conditions.gpu_of(run.placement.gpu_of_rank)
            slow = who_waits(conditions.shares, *places, times_s, apart=run.waits_apart)
            simulated = replace(simulated, slow=slow)
        return simulated, design

    def _plan_notes(self, run: PlacedRun) -> Iterator[str]:
        """What of the model is left out, that a given plan does not fit, or has an ideal bubble."""
        yield from model_notes(run.setting.training.model)
        yield from bubble_note(run.setting, run.fabric.levels, run.timed)
        yield from rates_note(run.setting.training)
        who = "The plan needs"
        held = run.timed.memory_bytes
        there = run.setting.training.tiers_bytes
        if self.inference:
            who, held = "The weights alone take", run.timed.memory_parts_bytes["weights"]
        elif run.timed.memory is not None:  # what programs see of it is more than its name
            there = run.timed.memory.usable_bytes if run.timed.memory.verdict == "no" else inf
        if held > there:
            on = self.reader().load(ACCELERATORS, self.cluster.accelerator)
            yield (
                f"{who} {si(held, 'B')} of memory a GPU, and {on.name} has {si(there, 'B')}:"
                " netplan search has none that do not fit."
            )

    def _gpus(self, run: PlacedRun, graph: FabricGraph) -> Ints | None:
        """GPU of the graph at which each GPU of the run stands; None if they are the same."""
        asked, ranks = self.placement, run.placement.gpu_of_rank
        sizing, levels = run.fabric.sizing, run.fabric.levels[1:]
        gpu_of_gpu = np.arange(sizing.gpus)
        if run.spec.tile is not None and asked in ("line", "snake"):
            gpu_of_gpu = tile_order(run.spec, sizing.gpus, "line" if asked == "line" else "snake")
        elif asked == "snake":
            if any(level.kind == "switch" for level in levels):
                raise InputError(
                    f"--placement snake is for rings and meshes, and {run.spec.name} has switches:"
                    " leave it out, or give a file"
                )
            order = snake([level.size for level in levels])
            gpu_of_gpu = (order[:, None] * sizing.hb_size + np.arange(sizing.hb_size)).ravel()
        elif asked not in (None, "line"):
            named = self._named(str(asked), run, graph)
            idle = np.setdiff1d(np.arange(graph.gpus), named)
            gpu_of_gpu[np.setdiff1d(gpu_of_gpu, ranks)] = idle[: sizing.gpus - len(ranks)]
            gpu_of_gpu[ranks] = named
        elif (self.groups, graph.gpus) == ("near", sizing.gpus):
            return None
        if self.groups == "strided":
            gpu_of_gpu[ranks] = gpu_of_gpu[ranks[strided(run.placement)]]
        return gpu_of_gpu

    def _named(self, asked: str, run: PlacedRun, graph: FabricGraph) -> Ints:
        """GPUs of the ranks by a map of stages, or by a file of ranks."""
        ranks = len(run.placement.gpu_of_rank)
        written = read_map(asked, self.reader().roots)
        if written is None:
            return read_ranks(Path(asked), ranks, graph.gpus)
        (_, where), *_ = written
        if any(stage.tensor or stage.layers for stage, _ in written):
            raise InputError(
                f"{where}tensor and layers of single stages are for iteration model"
                " palm: leave them out, or take --mode published-code"
            )
        members = by_stage(run.placement)
        stages = stages_on_gpus(written, run.spec, graph.gpus, tensor=1, layers=len(written))
        sizes = [len(stage.gpus) for stage in stages]
        if sizes != [members.shape[1]] * len(members):
            more = ", ..." if len(sizes) > MOST_SHAPES else ""
            raise InputError(
                f"{where}the plan has {counted(len(members), 'stage')} of"
                f" {counted(members.shape[1], 'GPU')}, the map stages of"
                f" {', '.join(map(str, sizes[:MOST_SHAPES]))}{more}: fix degrees that fit, or"
                " change the map"
            )
        named = np.empty(ranks, np.int64)
        named[members] = [stage.gpus for stage in stages]
        return named


simulate = function_of(Simulate)

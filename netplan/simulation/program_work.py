"""The work of one iteration of a plan: its program, cut into passes of pipeline stages.

Operations, collectives and their times are those of `netplan.performance`; here they are put into
the order in which a stage does them. With n layers on a stage, v interleaved parts and m
microbatches:

============  ====================================================================================
forward       each layer: operations one after the other (branches side by side), each with its
              collectives behind it; embedding before the first one, head behind the last one
backward      the same the other way round, after what is computed again
transfers     what one GPU holds of a layer's result goes to the next stage, or back
weights       collectives over data parallel GPUs (`netplan.workloads.program`). Overlapped, they
              stand beside another layer's pass: weights of the next layer are gathered, gradients
              of the layer before are summed up; only the first gather (``begin``) and the last sum
              (``finish``) are exposed. Stages behind the first one wait for it before their first
              pass and after their last one: what is gathered or summed up once an iteration
              has all that time. Of interleaved parts but the first it goes on beside whatever the
              stage does (``prepare``, ``settle``). Where nothing overlaps, what is repeated stands
              before or behind the layers of each microbatch, the rest in ``finish``
============  ====================================================================================

Where memory lies behind channels that GPUs share, what an operation moves is a message beside its
FLOPs; elsewhere it takes its time and nothing else.

Kernels that are mapped to the chip compute, and move, as long as their mapping says; what it hides
of their collectives stands beside all of it, the same share of each, and what it exposes behind it.

So a single stage, and equal stages with free transfers, take exactly what
`netplan.performance.iteration` says, exposed collectives ``x + (r n - 1) max(x - t, 0)`` included.
SUMMA panels stand beside their product, but for one.

Messages name *flows* here, not links: who sends to whom (`Flows`), how many bytes, and how long
that takes alone (`FlowMessage`).

Which collectives over the weights there are is the ZeRO stage's (`netplan.workloads.program`),
whether they hide behind passes the iteration model's.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats
from netplan.errors import InputError
from netplan.levels import Level
from netplan.performance import compute
from netplan.performance.dated.layer import DatedLayer
from netplan.performance.dated.times import exchange_alone_s
from netplan.performance.iteration_model import IterationModel
from netplan.performance.memory import with_spill
from netplan.performance.plan import PlanTime
from netplan.performance.plan_traffic import plan_placement
from netplan.performance.setting import Setting
from netplan.records import replace
from netplan.simulation import tasks
from netplan.simulation.links import LinkTimes
from netplan.traffic.hierarchy import group_of, group_over
from netplan.traffic.placement import PIPELINE, Placement, Placements
from netplan.workloads.operations import (
    NO_WORK,
    CollectiveCall,
    CollectiveKind,
    Operation,
    OperationCost,
)
from netplan.workloads.program import Program, single_amount, splits, stage_layers


class StageWeights:
    """Collectives over the weights of one stage: which, and where they stand."""

    def __init__(self, plan: "_EventBuilder", sender: tasks.FlowSender, stage: int) -> None:
        self.plan, self.sender, self.stage = plan, sender, stage
        self.rule = plan.program.repetition.synchronisation
        self.held = sum(plan.layers[stage :: plan.stages])

    def _collectives(
        self, names: Sequence[CollectiveKind], layers: float, thread: int | None, share: float = 1.0
    ) -> tasks.Branch:
        """Those of so many layers: of all weights but those of experts, then of these.

        They take a ``share`` of their time, and send at most that of their bytes.
        """
        program = self.plan.program
        parts = (
            (program.repetition.weight_group, program.weight_bytes(experts=False)),
            (program.repetition.expert_group, program.weight_bytes(experts=True)),
        )
        return tasks.joined(
            phase
            for name in names
            for group, held_bytes in parts
            for phase in self._collective(
                name, group, layers * single_amount(held_bytes), thread, share
            )
        )

    def _collective(
        self,
        name: CollectiveKind,
        group: tuple[str, ...],
        sent_bytes: float,
        thread: int | None,
        share: float = 1.0,
    ) -> tasks.Branch:
        """One collective; an all_reduce is a reduce_scatter and an all_gather."""
        if name == "all_reduce":
            both: tuple[CollectiveKind, ...] = ("reduce_scatter", "all_gather")
            return tasks.joined(
                p for half in both for p in self._collective(half, group, sent_bytes, thread, share)
            )
        plan = self.plan
        if not (sent_bytes and plan.trains):
            return ()
        members = group_over(plan.placement, *group)
        seconds = single_amount(plan.network.collective(name, members).seconds(sent_bytes))
        flows = self.sender.collective_flows(self.stage, name, group)
        sent_bytes *= min(1.0, share)
        return (self.sender.message(flows, share * seconds, sent_bytes, thread),)

    def _of_one_layer(self, *, ahead: bool, thread: int | None) -> tasks.Branch:
        """Collectives over the weights of one layer in one direction."""
        names = self.rule.forward if ahead else self.rule.backward
        return self._collectives(names, 1.0, thread) if self.held else ()

    def _repeats(self, *, ahead: bool) -> bool:
        """Whether every microbatch has them anew."""
        return self.rule.forward_repeats if ahead else self.rule.backward_repeats

    def _exposed(self, *, ahead: bool) -> tasks.Branch:
        """What overlaps with no pass of its stage, where data collectives overlap."""
        first = self.plan.layers[self.stage]
        # Stages behind the first one have time while they wait for it.
        waits = self.stage > 0 and not self._repeats(ahead=ahead)
        layers = first if waits else min(1, first)
        return self._of_one_layer(ahead=ahead, thread=None) * layers

    def aside(self, virtual: int, *, ahead: bool) -> tasks.Operations:
        """Those of a further virtual stage, which have the time of all that the stage does."""
        whole = self.plan.shown_s is not None or not self.plan.overlaps
        if whole or virtual == self.stage or self._repeats(ahead=ahead):
            return ()
        layer = self._of_one_layer(ahead=ahead, thread=tasks.ASIDE)
        return tasks.one_after_the_other(*layer * self.plan.layers[virtual])

    def begin(self) -> tasks.Operations:
        """The first gather where the others hide, else all of them."""
        if self.plan.shown_s is not None or not self.plan.overlaps:
            return ()
        return tasks.one_after_the_other(*self._exposed(ahead=True))

    def finish(self) -> tasks.Operations:
        """The last sums, where the others hide; else all that is not repeated.

        Then weights of ends, and the optimizer's update.
        """
        rule, shown_s, update_s = self.rule, self.plan.shown_s, self.plan.update_s
        if shown_s is not None:  # behind all passes, with their share of the bytes
            alone = StageWeights(self.plan, tasks.FlowSender(self.sender.placement), self.stage)
            needed_s = tasks.branch_alone_s(alone._once())
            sent = self._once(shown_s / needed_s) if needed_s else (shown_s,)
            return tasks.one_after_the_other(*sent, update_s)
        if self.plan.overlaps:
            phases = self._exposed(ahead=False)
        else:
            once = () if rule.backward_repeats else rule.backward
            more = () if rule.forward_repeats else rule.forward
            phases = self._collectives((*once, *more), float(self.held), None)
        return tasks.one_after_the_other(*phases, *self._of_ends(), update_s)

    def _once(self, share: float = 1.0) -> tasks.Branch:
        """All collectives over the weights of the stage once, or a share of their time."""
        rule = self.rule
        phases = self._collectives((*rule.backward, *rule.forward), float(self.held), None, share)
        return (*phases, *self._of_ends(share))

    def _of_ends(self, share: float = 1.0) -> tasks.Branch:
        """Gradients of embedding and head summed up, and their weights gathered."""
        program = self.plan.program
        first = program.first if self.stage == 0 else None
        last = program.last if self.stage == self.plan.stages - 1 else None
        held_bytes = sum(
            single_amount(end.weight_bytes) for end in (first, last) if end is not None
        )
        group = program.repetition.weight_group
        return self._collective("all_reduce", group, held_bytes, None, share)

    def passes(
        self,
        layer: tasks.Branch,
        virtual: int,
        ends: tuple[tasks.Branch, tasks.Branch],
        *,
        ahead: bool,
    ) -> tasks.Pass:
        """Passes of all microbatches through the layers of a virtual stage."""
        repeats, layers = self._repeats(ahead=ahead), self.plan.layers[virtual]
        if self.plan.shown_s is not None:
            return tasks.Pass(tasks.one_after_the_other(*ends[0], *layer * layers, *ends[1]))
        if not self.plan.overlaps:
            names = (self.rule.forward if ahead else self.rule.backward) if repeats else ()
            exposed = self._collectives(names, float(layers), tasks.IN_PASS)
            before, behind = (exposed, ()) if ahead else ((), exposed)
            return tasks.Pass(
                tasks.one_after_the_other(*before, *ends[0], *layer * layers, *ends[1], *behind)
            )
        sent = self._of_one_layer(ahead=ahead, thread=tasks.BESIDE)

        def work(hidden: int) -> tasks.Operations:
            alone = layer * (layers - hidden)
            together: tasks.Branch = (((layer, sent),),) * hidden if sent else layer * hidden
            order = (*together, *alone) if ahead else (*alone, *together)
            return tasks.one_after_the_other(*ends[0], *order, *ends[1])

        edge = work(self._hidden_at_edge(virtual, ahead=ahead))
        middle = work(layers if repeats else 0)
        if ahead == repeats:
            return tasks.Pass(middle, last=edge, only=edge)
        return tasks.Pass(middle, first=edge, only=edge)

    def _hidden_at_edge(self, virtual: int, *, ahead: bool) -> int:
        """Layers whose collectives hide in the first pass of a virtual stage, or in the last."""
        layers = self.plan.layers[virtual]
        # Forward the last layer of all has none to gather for, backward the first none behind it.
        but_one = max(0, layers - 1)
        if self._repeats(ahead=ahead):
            last = virtual + self.plan.stages >= len(self.plan.layers)
            return but_one if last else layers
        return but_one if virtual == 0 else 0


ONCE = ("update", "optimizer", "fixed")
"""Parts of an iteration that no pass has, and nothing is sent for."""


class PlanWork(Struct, frozen=True, eq=False):
    """Pipelines whose messages name flows, who uses each of these, and what they ask of links.

    Flows are numbered in the order of ``uses``; without contention there are no ``columns``. Where
    links are shared, ``weight`` is that of all of its flows [1].
    """

    pipelines: tuple[tasks.Pipeline, ...]
    uses: tasks.FlowUses
    columns: tuple[LinkTimes, ...] = ()
    weight: float = 1.0


def plan_work(  # noqa: PLR0913 - a plan, and what of it is done and sent
    setting: Setting,
    timed: PlanTime,
    levels: Sequence[Level],
    *,
    schedule: tasks.SimulatedSchedule | None = None,
    trains: bool = True,
    channels: bool = False,
    each_replica: bool = False,
) -> PlanWork:
    """The work of one iteration.

    Parameters
    ----------
    setting, timed, levels
        What is trained by which plan, and the levels of the fabric that say how long messages take.
    schedule
        Order of the passes; None takes that of the plan.
    trains
        Whether gradients go back; without, forward passes are all there is.
    channels
        Whether memory lies behind channels, so that what operations move are messages.
    each_replica
        Whether every data parallel replica is a pipeline of its own; else one carries the messages
        of all.

    Raises
    ------
    InputError
        If the plan cannot run in such a schedule, or the iteration model has closed forms alone.

    Examples
    --------
    GPT-146B on two stages of four GPUs each, which pass on and share what they compute:

    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.performance.plan import Plan
    >>> from netplan.performance.search import evaluate_plan
    >>> from netplan.performance.setting import TrainedModel
    >>> from netplan.traffic.placement import Degrees
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> gpu, model = ACCELERATORS.load("h100-80gb"), MODELS.load("gpt-146b")
    >>> setting = Setting(TrainedModel.make(gpu, model, ITERATION_MODELS.load("4d"), batch=8))
    >>> plan = Plan(Placement((Degrees(tensor=4), Degrees(pipeline=2))), 1, 8)
    >>> levels = Level("switch", 4, 450e9), Level("switch", 2, 50e9)
    >>> work = plan_work(setting, evaluate_plan(setting.training, levels, plan), levels)
    >>> [(flows.stage, flows.to, *flows.dimensions) for flows in work.uses]
    [(0, 0, 'tensor'), (1, 1, 'tensor'), (0, 1), (1, 0)]
    """
    check_simulated(setting.assumptions)
    plan = timed.plan
    if schedule is None:
        schedule = "interleaved" if plan.interleave > 1 else "1f1b"
    if schedule == "interleaved" and plan.interleave == 1:
        raise InputError(
            "an interleaved schedule needs several stages a GPU, and the plan has 1: take 1f1b, or"
            " fix interleave to 2 or more"
        )
    if schedule == "interleaved" and plan.pipeline == 1:
        schedule = "1f1b"  # parts of a single stage follow each other: there are no turns to take
    sent = {"trains": trains, "channels": channels}
    maker = _EventBuilder(setting, timed, levels, schedule, **sent)
    if not each_replica:
        return PlanWork((maker.pipeline(plan.microbatches),), maker.sender.uses)
    runs = setting.microbatches(plan.microbatch, plan.placement.totals).tolist()
    pipelines = tuple(maker.pipeline(count, replica) for replica, count in enumerate(runs))
    return PlanWork(pipelines, maker.sender.uses)


def check_simulated(rules: IterationModel) -> None:
    """Refuse an iteration model of which parts are closed forms alone.

    Raises
    ------
    InputError
        If it has any.
    """
    queued = rules.overlap.data in ("queued", "hidden")
    if queued or rules.communication.chunks > 1 or rules.memory.update == "whole":
        raise InputError(
            f"chunks of messages, gradients in a queue and the weights' update are not simulated,"
            f" and iteration model {rules.name} has some of them: take --iteration-model 4d"
        )


def stage_level(placement: Placement, stage: int, to: int) -> int:
    """Outermost level that what one stage sends another crosses.

    Examples
    --------
    >>> from netplan.traffic.placement import Degrees
    >>> placement = Placement((Degrees(tensor=4, pipeline=2), Degrees(pipeline=2)))
    >>> [stage_level(placement, stage, stage + 1) for stage in range(3)]
    [0, 1, 0]
    """
    ends = placement.groups("pipeline", snake=True)[0, [stage, to]]
    outermost = 0
    for level, degrees in enumerate(placement.levels):
        first, last = ends % prod(degrees)
        outermost = level if first != last else outermost
        ends = ends // prod(degrees)
    return outermost


class _EventBuilder:
    """Makes the work of one pipeline after the other."""

    def __init__(
        self,
        setting: Setting,
        timed: PlanTime,
        levels: Sequence[Level],
        schedule: tasks.SimulatedSchedule,
        *,
        trains: bool,
        channels: bool,
    ) -> None:
        self.setting, self.plan = with_spill(setting, timed), timed.plan
        self.schedule, self.channels = schedule, channels
        self.trains = trains and setting.trains
        parts_s, plan = timed.breakdown_s, timed.plan
        self.chunks = chunks = plan.interleave if schedule == "interleaved" else 1
        self.placement = plan_placement(setting, plan, levels)
        self.sender = tasks.FlowSender(self.placement)
        self.network = setting.network(levels)
        self.placements = Placements.of(plan.placement)
        self.groups = compute.LayerGroups.of(self.network, self.placements, np.zeros(1, np.int64))
        self.program: Program = setting.program(plan.sharding)
        self.stages = plan.pipeline
        layers = self.program.repetition.layers
        if not splits(layers, self.stages, chunks):
            raise InputError(
                f"{-(-layers // self.stages)} layers of a stage do not split into {chunks}"
                " interleaved parts: change the pipeline degree"
            )
        self._layers: dict[tuple[int, bool], tasks.Branch] = {}
        self.calibrated: compute.CalibratedLayer | DatedLayer | None = None
        # How many times as long everything takes under software of a date, on so many GPUs.
        self.growth = 1.0
        run = setting.training.calibrated
        if run is not None:
            self.calibrated = compute.calibrated_times(
                self.setting, plan.sharding, self.program, self.groups
            )
        if run is not None and run.dated is not None:
            self.growth = run.dated.software_factor * _total(run.dated.jitter_factor(plan.gpus))
        # One dispatch or combine of folded experts.
        self.exchange_s: float | None = None
        if plan.folded is not None:
            exchange_s = exchange_alone_s(self.setting, plan.sharding, self.network)
            self.exchange_s = self.growth * single_amount(exchange_s)
        # The first virtual stage has the embedding before its layers, the last one a head.
        self.layers: tuple[int, ...] = tuple(stage_layers(layers, self.stages * chunks).tolist())
        self.overlaps = setting.assumptions.overlap.data == "overlapped"
        self.update_s = self.growth * sum(parts_s.get(part, 0.0) for part in ONCE)
        # What collectives show of themselves in an iteration, where the model says so as a whole.
        self.shown_s = None if self.calibrated is None else self.growth * parts_s["data_comm"]

    def pipeline(self, microbatches: int, replica: int | None = None) -> tasks.Pipeline:
        """The pipeline of one replica, or one that stands for all."""
        self.sender.replica = replica
        self._layers.clear()
        virtual = range(self.stages * self.chunks)
        back = virtual if self.trains else range(0)
        weights = [StageWeights(self, self.sender, stage) for stage in range(self.stages)]
        return tasks.Pipeline(
            self.stages,
            microbatches,
            tuple(self._passes(weights, index, ahead=True) for index in virtual),
            tuple(self._passes(weights, index, ahead=False) for index in back),
            tuple(self._transfer(index, index + 1) for index in virtual[:-1]),
            tuple(self._transfer(index + 1, index) for index in back[:-1]),
            begin=tuple(stage_weights.begin() for stage_weights in weights if self.trains),
            prepare=tuple(weights[index % self.stages].aside(index, ahead=True) for index in back),
            settle=tuple(weights[index % self.stages].aside(index, ahead=False) for index in back),
            finish=tuple(stage_weights.finish() for stage_weights in weights if self.trains),
            schedule=self.schedule,
            trains=self.trains,
            name="" if replica is None else f"replica {replica}",
        )

    def _transfer(self, virtual: int, to: int) -> tasks.Branch:
        """What one virtual stage sends to another."""
        stage, next_stage = virtual % self.stages, to % self.stages
        if stage == next_stage:
            return ()
        sent_bytes = single_amount(self.program.layer.boundary_bytes)
        level = stage_level(self.plan.placement, stage, next_stage)
        stride = group_of(self.placements, PIPELINE).stride[level, 0]
        # As long as alone: what the search adds on rings and blocking leaves is waited for here.
        seconds = self.network.transfer_s(level, stride, sent_bytes)
        if self.calibrated is not None:  # as much of it as a stage waits for
            shown = _total(self.setting.sharing.pipeline_visible)
            seconds = shown * (seconds + self.setting.calibration.collective_s) * self.growth
            sent_bytes = shown * sent_bytes
        flows = tasks.Flows(stage, next_stage, replica=self.sender.replica)
        return (self.sender.message(flows, seconds, sent_bytes, None),)

    def _passes(self, weights: Sequence[StageWeights], virtual: int, *, ahead: bool) -> tasks.Pass:
        """Passes of a virtual stage through its layers in one direction."""
        layer = self.layer(virtual % self.stages, ahead=ahead)
        ends = self._ends(virtual, ahead=ahead)
        return weights[virtual % self.stages].passes(layer, virtual, ends, ahead=ahead)

    def layer(self, stage: int, *, ahead: bool) -> tasks.Branch:
        """One pass through one layer."""
        if (stage, ahead) not in self._layers:
            operations = self.program.layer.operations
            order = operations if ahead else operations[::-1]
            whole_s = self._whole_s(ahead=ahead)
            if whole_s is None:
                alone = [self._operation(operation, stage, ahead=ahead) for operation in order]
                phases: list[tasks.Phase] = []
                for places in compute.sections(order):
                    ways = (
                        tasks.joined(phase for index in way for phase in alone[index])
                        for way in places.values()
                    )
                    phases.append((tuple(ways),))
                made = tasks.joined(phases)
            else:
                made = self._overlapped(*whole_s, order, stage, ahead=ahead)
            self._layers[stage, ahead] = made
        return self._layers[stage, ahead]

    def _whole_s(self, *, ahead: bool) -> tuple[float, float] | None:
        """Computing of a layer and what its collectives show, where known as a whole [s].

        As calibrated, or as its kernels lie on the chip, which sends while it computes.
        """
        if self.calibrated is not None:
            passes = self.calibrated.passes
            busy_s, shown_s = passes.forward_s, passes.forward_comm_s
            if not ahead:
                busy_s = passes.backward_s + passes.again_s + passes.layer_s
                shown_s = passes.backward_comm_s
            return self.growth * _total(busy_s), self.growth * _total(shown_s)
        if self.setting.execution is None:
            return None
        both = compute.layer_times(self.setting, self.plan.sharding, self.program, self.groups)
        times = both[0 if ahead else 1]
        return _total(times.compute_s) + _total(times.memory_s), _total(times.tensor_s)

    def _overlapped(
        self,
        busy_s: float,
        shown_s: float,
        operations: Sequence[Operation],
        stage: int,
        *,
        ahead: bool,
    ) -> tasks.Branch:
        """Computing, with what it hides of its messages beside it, and behind it what shows.

        Each message shows the same share; what shows beyond the time of all has no bytes.
        """
        sent = [
            self._sent(collective, stage, share=part)
            for operation in operations
            for work, part in _works(operation, ahead=ahead)
            for collective in work.collectives
            if _total(collective.message_bytes)
        ]
        needed_s = sum(seconds for _, seconds, _ in sent)
        if not needed_s:
            return (busy_s + shown_s,)
        share = shown_s / needed_s
        hidden, behind = (
            [
                self.sender.message(flows, x * seconds, min(1.0, x) * size, tasks.IN_PASS)
                for flows, seconds, size in sent
            ]
            for x in (max(0.0, 1 - share), share)
        )
        return tasks.joined(((((busy_s,), tasks.joined(hidden)),), *behind))

    def _ends(self, virtual: int, *, ahead: bool) -> tuple[tasks.Branch, tasks.Branch]:
        """What embedding and head do before and behind the layers of a virtual stage."""
        first, last, stage = self.program.first, self.program.last, virtual % self.stages
        is_last = virtual == self.stages * self.chunks - 1
        if self.calibrated is not None:
            # A third of both passes is the forward one; of a setting that trains not, all of it.
            share = self.growth * (1 / 3 if ahead else 2 / 3)
            if not self.setting.trains:
                share = self.growth if ahead else 0.0
            passes = self.calibrated.passes
            front: tasks.Branch = (share * _total(passes.embedding_s),) if virtual == 0 else ()
            back: tasks.Branch = (share * _total(passes.head_s),) if is_last else ()
            return (front, back) if ahead else (back, front)
        before = self._operation(first, stage, ahead=ahead) if first and virtual == 0 else ()
        behind = self._operation(last, stage, ahead=ahead) if last and is_last else ()
        return (before, behind) if ahead else (behind, before)

    def _operation(self, operation: Operation, stage: int, *, ahead: bool) -> tasks.Branch:
        """One operation in one direction, what is computed again first."""
        return tasks.joined(
            phase
            for work, part in _works(operation, ahead=ahead)
            for phase in self._work(replace(operation, share=part * operation.share), work, stage)
        )

    def _work(self, operation: Operation, work: OperationCost, stage: int) -> tasks.Branch:
        """Compute and memory, then collectives; panels but one beside the product."""
        if work is NO_WORK:
            return ()
        busy = self._busy(operation, work, stage)
        panels = 1.0 if work.panels is None else single_amount(work.panels)
        thread = tasks.thread_of(operation.branch)
        one_panel: list[tasks.Phase] = []
        others: list[tasks.Phase] = []
        for collective in work.collectives:
            flows, seconds, sent = self._sent(collective, stage, panels, share=operation.share)
            one_panel.append(self.sender.message(flows, seconds, sent, thread))
            # All of them again, as the closed form has it; the bytes that are left.
            others.append(self.sender.message(flows, panels * seconds, (panels - 1) * sent, thread))
        if work.panels is None:
            return tasks.joined((*busy, *one_panel))
        return tasks.joined((*one_panel, ((busy, tuple(others)),)))

    def _busy(self, operation: Operation, work: OperationCost, stage: int) -> tasks.Branch:
        """FLOPs, and memory traffic beside them: messages where memory lies behind channels."""
        compute_s, memory_s = (
            operation.share * part for part in compute.roofline(operation, work, self.setting)
        )
        moving_s = operation.share * compute.memory_traffic_s(operation, work, self.setting)
        rate = self.setting.training.memory_bytes_per_s
        if not (self.channels and rate and np.any(moving_s)):
            return (_total(compute_s) + _total(memory_s),)
        flows = tasks.Flows(stage, stage, replica=self.sender.replica, memory=True)
        thread = tasks.thread_of(operation.branch)
        steps = zip(*np.broadcast_arrays(_steps(compute_s), _steps(moving_s)), strict=True)
        busy = tasks.joined(
            (
                (
                    (float(busy_s),),
                    (self.sender.message(flows, float(one_s), rate * float(one_s), thread),),
                ),
            )
            for busy_s, one_s in steps
        )
        if work.panels is not None:  # which are under way at the same time
            self.sender.uses[flows].threads.add(tasks.BESIDE)
        return busy

    def _sent(
        self, collective: CollectiveCall, stage: int, panels: float = 1.0, *, share: float = 1.0
    ) -> tuple[tasks.Flows, float, float]:
        """Flows, time and sent bytes of a collective of an operation, or of one of its panels.

        Of an operation that a share of the layers has, that much of both.
        """
        amount = collective.message_bytes / panels
        alone_s = self.exchange_s
        if collective.group != "expert" or alone_s is None:
            alone_s = _total(self.groups.seconds(collective.kind, collective.group, amount))
        # An all_reduce is sent twice: reduced and scattered, then gathered.
        sent = share * _total(amount) * (2 if collective.kind == "all_reduce" else 1)
        over = self.program.repetition.dimensions(collective.group)
        flows = self.sender.collective_flows(stage, collective.kind, over, collective.uneven)
        return flows, alone_s * share, sent


def _total(amount: Amount) -> float:
    """Sum over the steps of an amount, of the only sharding."""
    return float(_steps(amount).sum())


def _steps(amount: Amount) -> Floats:
    """The steps of an amount, of the only sharding."""
    values = np.asarray(amount, dtype=np.float64)
    return values[:, 0] if values.ndim > 1 else values.reshape(-1)[:1]


def _works(operation: Operation, *, ahead: bool) -> tuple[tuple[OperationCost, float], ...]:
    """Work of an operation in one direction, and what share of the layers does it [1].

    What is computed again comes first: some layers do, and a pass is through their mean.
    """
    works = (operation.forward,) if ahead else operation.backward_works[::-1]
    again = operation.recomputed if operation.recomputed and not ahead else 1.0
    return ((works[0], again), *((work, 1.0) for work in works[1:]))

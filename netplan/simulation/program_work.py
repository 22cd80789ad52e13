"""The work of one iteration of a plan: its program, cut into passes of pipeline stages.

Operations, collectives and their times are those of `netplan.performance`; here they are put into
the order in which a stage does them. With n layers on a stage, v interleaved parts and m
microbatches:

============  ====================================================================================
forward       each layer: operations one after the other, each with its collectives behind it;
              embedding before the first one, head behind the last one
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
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats
from netplan.errors import InputError
from netplan.levels import Level
from netplan.performance.compute import (
    LayerGroups,
    layer_times,
    memory_traffic_s,
    roofline,
    slowdown_of,
)
from netplan.performance.iteration_model import IterationModel
from netplan.performance.plan import PlanTime
from netplan.performance.setting import Setting
from netplan.performance.spill import placed
from netplan.simulation.work import (
    Branch,
    FlowMessage,
    Pass,
    Phase,
    Pipeline,
    ScheduleName,
    Work,
    joined,
    one_after_the_other,
)
from netplan.traffic.hierarchy import Group, Network, group_of
from netplan.traffic.placement import DIMENSIONS, PIPELINE, Placement, Placements
from netplan.workloads.operations import NO_WORK, Collective, CollectiveKind, Operation
from netplan.workloads.operations import Work as OperationWork
from netplan.workloads.program import Program, stage_layers

IN_PASS, BESIDE, ASIDE = range(3)
"""Threads of a stage: operations with their collectives, what goes on beside a layer, and what
goes on beside whole passes."""


class Flows(Struct, frozen=True):
    """Who sends to whom at one moment.

    Parameters
    ----------
    stage
        Pipeline stage that sends.
    to
        Stage that receives; the same one in a collective.
    dimensions
        Dimensions in which the members of one group of a collective differ.
    to_all
        Whether it is an all_to_all; all other collectives send alike.
    replica
        Data parallel replica that sends; None for all of them at once.
    memory
        Whether it is between GPUs and their memory channels.
    """

    stage: int
    to: int
    dimensions: tuple[str, ...] = ()
    to_all: bool = False
    replica: int | None = None
    memory: bool = False


class FlowUse(Struct):
    """What uses some flows: threads of stages, and how fast.

    Messages of one thread of a stage follow each other: those in its passes, and those beside its
    layers. Transfers belong to no thread.

    Parameters
    ----------
    number
        Number of these flows.
    threads
        Those that issue such messages; what comes before and after all passes is in neither.
    seconds_per_byte
        Of the fastest of these messages [s/B].
    """

    number: int
    threads: set[int]
    seconds_per_byte: float


FlowUses = dict[Flows, FlowUse]


class PlanWork(Struct, frozen=True):
    """Pipelines whose messages name flows, and who uses each of these.

    Flows are numbered in the order of ``uses``.
    """

    pipelines: tuple[Pipeline, ...]
    uses: FlowUses


class Scope(Struct, frozen=True, kw_only=True):
    """What of an iteration is done, and what of that is sent.

    Parameters
    ----------
    trains
        Whether gradients go back; without, forward passes are all there is.
    channels
        Whether memory lies behind channels, so that what operations move are messages.
    each_replica
        Whether every data parallel replica is a pipeline of its own; else one carries the messages
        of all.
    """

    trains: bool = True
    channels: bool = False
    each_replica: bool = False


WHOLE = Scope()


def plan_work(
    setting: Setting,
    timed: PlanTime,
    levels: Sequence[Level],
    *,
    schedule: ScheduleName | None = None,
    scope: Scope = WHOLE,
) -> PlanWork:
    """The work of one iteration.

    Parameters
    ----------
    setting, timed, levels
        What is trained by which plan, and the levels of the fabric that say how long messages take.
    schedule
        Order of the passes; None takes that of the plan.
    scope
        What of it is done, and what of that is sent.

    Raises
    ------
    InputError
        If the plan cannot run in such a schedule, or the iteration model has closed forms alone.

    Examples
    --------
    GPT-146B on two stages of four GPUs each, which pass on and share what they compute:

    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.performance.plan import PlanTime
    >>> from netplan.performance.search import evaluate_plan
    >>> from netplan.performance.setting import Training
    >>> from netplan.traffic.placement import Degrees
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> gpu, model = ACCELERATORS.load("h100-80gb"), MODELS.load("gpt-146b")
    >>> setting = Setting(Training.on(gpu, model, ITERATION_MODELS.load("4d"), batch=8))
    >>> plan = Plan(Placement((Degrees(tensor=4), Degrees(pipeline=2))), 1, 8)
    >>> levels = Level("switch", 4, 450e9), Level("switch", 2, 50e9)
    >>> work = plan_work(setting, evaluate_plan(setting.training, levels, plan), levels)
    >>> [(flows.stage, flows.to, *flows.dimensions) for flows in work.uses]
    [(0, 0, 'tensor'), (1, 1, 'tensor'), (0, 1), (1, 0)]
    """
    _check_simulated(setting.assumptions)
    plan = timed.plan
    if schedule is None:
        schedule = "interleaved" if plan.interleave > 1 else "1f1b"
    if schedule == "interleaved" and plan.interleave == 1:
        raise InputError(
            "an interleaved schedule needs several stages a GPU, and the plan has 1: take 1f1b, or"
            " fix interleave to 2 or more"
        )
    maker = _Maker(setting, timed, levels, schedule, scope)
    if not scope.each_replica:
        return PlanWork((maker.pipeline(plan.microbatches),), maker.uses)
    runs = setting.microbatches(plan.microbatch, plan.placement.totals).tolist()
    each = tuple(maker.pipeline(count, replica) for replica, count in enumerate(runs))
    return PlanWork(each, maker.uses)


def _check_simulated(rules: IterationModel) -> None:
    """Refuse an iteration model of which parts are closed forms alone."""
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
    found = 0
    for level, degrees in enumerate(placement.levels):
        first, last = ends % prod(degrees)
        found = level if first != last else found
        ends = ends // prod(degrees)
    return found


class _Maker:
    """Makes the work of one pipeline after the other."""

    def __init__(
        self,
        setting: Setting,
        timed: PlanTime,
        levels: Sequence[Level],
        schedule: ScheduleName,
        scope: Scope,
    ) -> None:
        self.setting, self.plan = placed(setting, timed), timed.plan
        self.schedule, self.trains, self.channels = schedule, scope.trains, scope.channels
        self.update_s, plan = timed.breakdown_s.get("update", 0.0), timed.plan
        self.chunks = chunks = plan.interleave if schedule == "interleaved" else 1
        self.uses: FlowUses = {}
        self.replica: int | None = None
        used = setting.assumptions.communication.used
        self.network = Network(tuple(levels), used, setting.mode)
        self.placements = Placements.of(plan.placement)
        self.groups = LayerGroups.of(self.network, self.placements, np.zeros(1, np.int64))
        self.program: Program = setting.program(plan.sharding)
        self.stages = plan.pipeline
        self.held = stage_layers(self.program.repetition.layers, self.stages)
        if self.held.max() % chunks:
            raise InputError(
                f"{self.held.max()} layers of a stage do not split into {chunks} interleaved parts:"
                " change the pipeline degree"
            )
        self.overlaps = setting.assumptions.overlap.data == "overlapped"
        self._layers: dict[tuple[int, bool], Branch] = {}

    def pipeline(self, microbatches: int, replica: int | None = None) -> Pipeline:
        """The pipeline of one replica, or one that stands for all."""
        self.replica = replica
        self._layers.clear()
        virtual = range(self.stages * self.chunks)
        back = virtual if self.trains else range(0)
        weights = [_Weights(self, stage) for stage in range(self.stages)]
        return Pipeline(
            self.stages,
            microbatches,
            tuple(self._passes(weights, at, ahead=True) for at in virtual),
            tuple(self._passes(weights, at, ahead=False) for at in back),
            tuple(self._transfer(at, at + 1) for at in virtual[:-1]),
            tuple(self._transfer(at + 1, at) for at in back[:-1]),
            begin=tuple(one.begin() for one in weights if self.trains),
            prepare=tuple(weights[at % self.stages].aside(at, ahead=True) for at in back),
            settle=tuple(weights[at % self.stages].aside(at, ahead=False) for at in back),
            finish=tuple(one.finish() for one in weights if self.trains),
            schedule=self.schedule,
            trains=self.trains,
            name="" if replica is None else f"replica {replica}",
        )

    def message(self, flows: Flows, seconds: float, sent_bytes: float, thread: int | None) -> Phase:
        """One message, or a delay where nothing is sent; notes who uses the flows."""
        members = self.plan.placement.degree(*flows.dimensions) if flows.dimensions else 2
        if members == 1 or not sent_bytes:
            return seconds
        pace = seconds / sent_bytes
        use = self.uses.setdefault(flows, FlowUse(len(self.uses), set(), pace))
        use.seconds_per_byte = min(pace, use.seconds_per_byte)
        if thread is not None:
            use.threads.add(thread)
        return FlowMessage(use.number, sent_bytes, seconds)

    def _transfer(self, at: int, to: int) -> Branch:
        """What one virtual stage sends to another."""
        stage, next_stage = at % self.stages, to % self.stages
        if stage == next_stage:
            return ()
        sent_bytes = _number(self.program.layer.boundary_bytes)
        at = stage_level(self.plan.placement, stage, next_stage)
        level, stride = self.network.levels[at], group_of(self.placements, PIPELINE).stride[at, 0]
        share = self.network.communication.bandwidth_efficiency
        # As long as alone: what the search adds on rings and blocking leaves is waited for here.
        seconds = sent_bytes / (share * level.link_bytes_per_s) + float(level.hop_s(stride))
        flows = Flows(stage, next_stage, replica=self.replica)
        return (self.message(flows, seconds, sent_bytes, None),)

    def _passes(self, weights: "Sequence[_Weights]", virtual: int, *, ahead: bool) -> Pass:
        """Passes of a virtual stage through its layers in one direction."""
        layer = self.layer(virtual % self.stages, ahead=ahead)
        ends = self._ends(virtual, ahead=ahead)
        return weights[virtual % self.stages].passes(layer, virtual, ends, ahead=ahead)

    def layers(self, virtual: int) -> int:
        """Layers of a virtual stage."""
        stage, chunk = virtual % self.stages, virtual // self.stages
        whole, fullest = int(self.held.max()) // self.chunks, int(self.held.max())
        # The first stage has the embedding before its first layers, the last one a head.
        short = chunk == (0 if stage == 0 and self.stages > 1 else self.chunks - 1)
        return whole - (fullest - int(self.held[stage])) * short

    def layer(self, stage: int, *, ahead: bool) -> Branch:
        """One pass through one layer."""
        if (stage, ahead) not in self._layers:
            operations = self.program.layer.operations
            order = operations if ahead else operations[::-1]
            alone = (self._operation(one, stage, ahead=ahead) for one in order)
            phases = (phase for part in alone for phase in part)
            mapped = self.setting.execution is not None
            layer = self._mapped(order, stage, ahead=ahead) if mapped else joined(phases)
            self._layers[stage, ahead] = layer
        return self._layers[stage, ahead]

    def _mapped(self, operations: Sequence[Operation], stage: int, *, ahead: bool) -> Branch:
        """A pass through a layer as its kernels lie on the chip, which sends while it computes."""
        both = layer_times(self.setting, self.plan.sharding, self.program, self.groups)
        times = both[0 if ahead else 1]
        works = (work for one in operations for work in _works(one, ahead=ahead))
        sent = [self._sent(one, stage) for work in works for one in work.collectives]
        needed_s, exposed_s = sum(seconds for _, seconds, _ in sent), _total(times.tensor_s)
        exposed = exposed_s / needed_s if needed_s else 0.0
        hidden, behind = (
            [self.message(flows, x * seconds, x * size, IN_PASS) for flows, seconds, size in sent]
            for x in (1 - exposed, exposed)
        )
        busy_s = _total(times.compute_s) + _total(times.memory_s)
        return joined(((((busy_s,), joined(hidden)),), *behind))

    def _ends(self, virtual: int, *, ahead: bool) -> tuple[Branch, Branch]:
        """What embedding and head do before and behind the layers of a virtual stage."""
        first, last, stage = self.program.first, self.program.last, virtual % self.stages
        is_last = virtual == self.stages * self.chunks - 1
        before = self._operation(first, stage, ahead=ahead) if first and virtual == 0 else ()
        behind = self._operation(last, stage, ahead=ahead) if last and is_last else ()
        return (before, behind) if ahead else (behind, before)

    def _operation(self, operation: Operation, stage: int, *, ahead: bool) -> Branch:
        """One operation in one direction, what is computed again first."""
        works = _works(operation, ahead=ahead)
        slowdown = slowdown_of(operation, self.setting)
        kept = operation.kept_bytes
        return joined(phase for work in works for phase in self._work(work, stage, slowdown, kept))

    def _work(self, work: OperationWork, stage: int, slowdown: float, kept_bytes: Amount) -> Branch:
        """Compute and memory, then collectives; panels but one beside the product."""
        if work is NO_WORK:
            return ()
        busy = self._busy(work, stage, slowdown, kept_bytes)
        panels = 1.0 if work.panels is None else _number(work.panels)
        one_panel: list[Phase] = []
        others: list[Phase] = []
        for one in work.collectives:
            flows, seconds, sent = self._sent(one, stage, panels)
            one_panel.append(self.message(flows, seconds, sent, IN_PASS))
            # All of them again, as the closed form has it; the bytes that are left.
            others.append(self.message(flows, panels * seconds, (panels - 1) * sent, IN_PASS))
        if work.panels is None:
            return joined((*busy, *one_panel))
        return joined((*one_panel, ((busy, tuple(others)),)))

    def _busy(self, work: OperationWork, stage: int, slowdown: float, kept_bytes: Amount) -> Branch:
        """FLOPs, and memory traffic beside them: messages where memory lies behind channels."""
        compute_s, memory_s = roofline(work, self.setting, slowdown, kept_bytes)
        moving_s, rate = (
            memory_traffic_s(work, self.setting, kept_bytes),
            self.setting.training.memory_bytes_per_s,
        )
        if not (self.channels and rate and np.any(moving_s)):
            return (_total(compute_s) + _total(memory_s),)
        flows = Flows(stage, stage, replica=self.replica, memory=True)
        steps = zip(*np.broadcast_arrays(_steps(compute_s), _steps(moving_s)), strict=True)
        busy = joined(
            (
                (
                    (float(busy_s),),
                    (self.message(flows, float(one_s), rate * float(one_s), IN_PASS),),
                ),
            )
            for busy_s, one_s in steps
        )
        if work.panels is not None:  # which are under way at the same time
            self.uses[flows].threads.add(BESIDE)
        return busy

    def _sent(self, one: Collective, stage: int, panels: float = 1.0) -> tuple[Flows, float, float]:
        """Flows, time and sent bytes of a collective of an operation, or of one of its panels."""
        amount = one.message_bytes / panels
        seconds = _total(self.groups.seconds(one.kind, one.group, amount))
        # An all_reduce is sent twice: reduced and scattered, then gathered.
        sent = _total(amount) * (2 if one.kind == "all_reduce" else 1)
        return self.flows(stage, one.kind, (one.group,)), seconds, sent

    def flows(self, stage: int, kind: CollectiveKind, dimensions: tuple[str, ...]) -> Flows:
        """Flows of a collective in all groups of a stage."""
        return Flows(stage, stage, dimensions, kind == "all_to_all", self.replica)


class _Weights:
    """Collectives over the weights of one stage: which, and where they stand."""

    def __init__(self, maker: _Maker, stage: int) -> None:
        self.maker, self.stage = maker, stage
        self.rule = maker.program.repetition.synchronisation
        self.held = int(maker.held[stage])

    def _collectives(
        self, names: Sequence[CollectiveKind], layers: float, thread: int | None
    ) -> Branch:
        """Those of so many layers: of all weights but those of experts, then of these."""
        program = self.maker.program
        parts = (
            (program.repetition.weight_group, program.weight_bytes(experts=False)),
            (program.repetition.expert_group, program.weight_bytes(experts=True)),
        )
        return joined(
            phase
            for name in names
            for group, held_bytes in parts
            for phase in self._collective(name, group, layers * _number(held_bytes), thread)
        )

    def _collective(
        self, name: CollectiveKind, group: tuple[str, ...], sent_bytes: float, thread: int | None
    ) -> Branch:
        """One collective; an all_reduce is a reduce_scatter and an all_gather."""
        if name == "all_reduce":
            both: tuple[CollectiveKind, ...] = ("reduce_scatter", "all_gather")
            return joined(
                p for one in both for p in self._collective(one, group, sent_bytes, thread)
            )
        maker = self.maker
        if not (sent_bytes and maker.trains):
            return ()
        members = group_of(maker.placements, *(DIMENSIONS.index(one) for one in group), whole=True)
        seconds = _seconds(maker.network, name, members, sent_bytes)
        flows = maker.flows(self.stage, name, group)
        return (maker.message(flows, seconds, sent_bytes, thread),)

    def _of_one_layer(self, *, ahead: bool, thread: int | None) -> Branch:
        """Collectives over the weights of one layer in one direction."""
        names = self.rule.forward if ahead else self.rule.backward
        return self._collectives(names, 1.0, thread) if self.held else ()

    def _repeats(self, *, ahead: bool) -> bool:
        """Whether every microbatch has them anew."""
        return self.rule.forward_repeats if ahead else self.rule.backward_repeats

    def _waits(self, *, ahead: bool) -> bool:
        """Whether the stage has time for collectives while it waits for the first one."""
        return self.stage > 0 and not self._repeats(ahead=ahead)

    def _exposed(self, *, ahead: bool) -> Branch:
        """What overlaps with no pass of its stage, where data collectives overlap."""
        first = self.maker.layers(self.stage)
        layers = first if self._waits(ahead=ahead) else min(1, first)
        return self._of_one_layer(ahead=ahead, thread=None) * layers

    def aside(self, virtual: int, *, ahead: bool) -> Work:
        """Those of a further virtual stage, which have the time of all that the stage does."""
        first = virtual == self.stage
        if first or not self.maker.overlaps or self._repeats(ahead=ahead):
            return ()
        layer = self._of_one_layer(ahead=ahead, thread=ASIDE)
        return one_after_the_other(*layer * self.maker.layers(virtual))

    def begin(self) -> Work:
        """The first gather where the others hide, else all of them."""
        return one_after_the_other(*self._exposed(ahead=True)) if self.maker.overlaps else ()

    def finish(self) -> Work:
        """The last sums, where the others hide; else all that is not repeated.

        Then weights of ends, and the optimizer's update.
        """
        rule, thread = self.rule, None
        if self.maker.overlaps:
            phases = self._exposed(ahead=False)
        else:
            once = () if rule.backward_repeats else rule.backward
            more = () if rule.forward_repeats else rule.forward
            phases = self._collectives((*once, *more), float(self.held), thread)
        program = self.maker.program
        first = program.first if self.stage == 0 else None
        last = program.last if self.stage == self.maker.stages - 1 else None
        held_bytes = sum(_number(one.weight_bytes) for one in (first, last) if one is not None)
        group = program.repetition.weight_group
        update = (self.maker.update_s,) if self.maker.update_s else ()
        return one_after_the_other(
            *phases, *self._collective("all_reduce", group, held_bytes, thread), *update
        )

    def passes(
        self,
        layer: Branch,
        virtual: int,
        ends: tuple[Branch, Branch],
        *,
        ahead: bool,
    ) -> Pass:
        """Passes of all microbatches through the layers of a virtual stage."""
        repeats, layers = self._repeats(ahead=ahead), self.maker.layers(virtual)
        if not self.maker.overlaps:
            names = (self.rule.forward if ahead else self.rule.backward) if repeats else ()
            exposed = self._collectives(names, float(layers), IN_PASS)
            before, behind = (exposed, ()) if ahead else ((), exposed)
            return Pass(one_after_the_other(*before, *ends[0], *layer * layers, *ends[1], *behind))
        beside = self._of_one_layer(ahead=ahead, thread=BESIDE)

        def work(hidden: int) -> Work:
            alone = layer * (layers - hidden)
            together: Branch = (((layer, beside),),) * hidden if beside else layer * hidden
            order = (*together, *alone) if ahead else (*alone, *together)
            return one_after_the_other(*ends[0], *order, *ends[1])

        edge = work(self._hidden_at_edge(virtual, ahead=ahead))
        middle = work(layers if repeats else 0)
        if ahead == repeats:
            return Pass(middle, last=edge, only=edge)
        return Pass(middle, first=edge, only=edge)

    def _hidden_at_edge(self, virtual: int, *, ahead: bool) -> int:
        """Layers whose collectives hide in the first pass of a virtual stage, or in the last."""
        layers = self.maker.layers(virtual)
        # Forward the last layer of all has none to gather for, backward the first none behind it.
        but_one = max(0, layers - 1)
        if self._repeats(ahead=ahead):
            last = virtual // self.maker.stages == self.maker.chunks - 1
            return but_one if last else layers
        return but_one if virtual == 0 else 0


def _seconds(network: Network, name: CollectiveKind, members: Group, sent_bytes: float) -> float:
    """How long a collective takes alone [s]."""
    return _number(network.collective(name, members).seconds(sent_bytes))


def _number(amount: Amount) -> float:
    """The amount of the only sharding."""
    return float(np.asarray(amount, dtype=np.float64).reshape(-1)[0])


def _total(amount: Amount) -> float:
    """Sum over the steps of an amount, of the only sharding."""
    values = np.asarray(amount, dtype=np.float64)
    return float(values.sum() if values.ndim > 1 else values.reshape(-1)[0])


def _steps(amount: Amount) -> Floats:
    """The steps of an amount, of the only sharding."""
    values = np.asarray(amount, dtype=np.float64)
    return values[:, 0] if values.ndim > 1 else values.reshape(-1)[:1]


def _works(operation: Operation, *, ahead: bool) -> tuple[OperationWork, ...]:
    """Work of an operation in one direction, what is computed again first."""
    return (operation.forward,) if ahead else operation.backward_works[::-1]

"""Collectives over the weights of a pipeline stage, and where in its work they stand.

Which there are is the ZeRO stage's (`netplan.workloads.program`), whether they hide behind passes
the iteration model's; `netplan.simulation.program_work` says where they stand.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount
from netplan.simulation.flows import ASIDE, BESIDE, IN_PASS, FlowSender
from netplan.simulation.work import Branch, Pass, Work, branch_alone_s, joined, one_after_the_other
from netplan.traffic.hierarchy import Group, Network, group_of
from netplan.traffic.placement import DIMENSIONS, Placements
from netplan.workloads.operations import CollectiveKind
from netplan.workloads.program import Program


class Weights(Struct, frozen=True, eq=False):
    """What all stages know of their weights.

    Parameters
    ----------
    program, network, placements
        What is trained, over which levels, by which groups.
    layers, stages
        Layers of every virtual stage, and how many GPUs of a pipeline share these [1].
    overlaps
        Whether collectives hide behind passes, else they are exposed as one.
    trains
        Whether gradients go back.
    update_s
        What the optimizer takes by itself [s].
    shown_s
        What the collectives show of themselves in an iteration, where the iteration model says so
        as a whole; None places them beside passes or behind them [s].
    """

    program: Program
    network: Network
    placements: Placements
    layers: tuple[int, ...]
    stages: int
    overlaps: bool
    trains: bool
    update_s: float
    shown_s: float | None = None


class StageWeights:
    """Collectives over the weights of one stage: which, and where they stand."""

    def __init__(self, weights: Weights, sender: FlowSender, stage: int) -> None:
        self.weights, self.sender, self.stage = weights, sender, stage
        self.rule = weights.program.repetition.synchronisation
        self.held = sum(weights.layers[stage :: weights.stages])

    def _collectives(
        self, names: Sequence[CollectiveKind], layers: float, thread: int | None, share: float = 1.0
    ) -> Branch:
        """Those of so many layers: of all weights but those of experts, then of these.

        They take a ``share`` of their time, and send at most that of their bytes.
        """
        program = self.weights.program
        parts = (
            (program.repetition.weight_group, program.weight_bytes(experts=False)),
            (program.repetition.expert_group, program.weight_bytes(experts=True)),
        )
        return joined(
            phase
            for name in names
            for group, held_bytes in parts
            for phase in self._collective(name, group, layers * number(held_bytes), thread, share)
        )

    def _collective(
        self,
        name: CollectiveKind,
        group: tuple[str, ...],
        sent_bytes: float,
        thread: int | None,
        share: float = 1.0,
    ) -> Branch:
        """One collective; an all_reduce is a reduce_scatter and an all_gather."""
        if name == "all_reduce":
            both: tuple[CollectiveKind, ...] = ("reduce_scatter", "all_gather")
            return joined(
                p for one in both for p in self._collective(one, group, sent_bytes, thread, share)
            )
        weights = self.weights
        if not (sent_bytes and weights.trains):
            return ()
        members = group_of(
            weights.placements, *(DIMENSIONS.index(one) for one in group), whole=True
        )
        seconds = _seconds(weights.network, name, members, sent_bytes)
        flows = self.sender.among(self.stage, name, group)
        sent_bytes *= min(1.0, share)
        return (self.sender.message(flows, share * seconds, sent_bytes, thread),)

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
        first = self.weights.layers[self.stage]
        layers = first if self._waits(ahead=ahead) else min(1, first)
        return self._of_one_layer(ahead=ahead, thread=None) * layers

    def aside(self, virtual: int, *, ahead: bool) -> Work:
        """Those of a further virtual stage, which have the time of all that the stage does."""
        first = virtual == self.stage
        if self.weights.shown_s is not None:
            return ()
        if first or not self.weights.overlaps or self._repeats(ahead=ahead):
            return ()
        layer = self._of_one_layer(ahead=ahead, thread=ASIDE)
        return one_after_the_other(*layer * self.weights.layers[virtual])

    def begin(self) -> Work:
        """The first gather where the others hide, else all of them."""
        if self.weights.shown_s is not None:
            return ()
        return one_after_the_other(*self._exposed(ahead=True)) if self.weights.overlaps else ()

    def finish(self) -> Work:
        """The last sums, where the others hide; else all that is not repeated.

        Then weights of ends, and the optimizer's update.
        """
        rule, thread = self.rule, None
        if self.weights.shown_s is not None:
            return self._shown(self.weights.shown_s)
        if self.weights.overlaps:
            phases = self._exposed(ahead=False)
        else:
            once = () if rule.backward_repeats else rule.backward
            more = () if rule.forward_repeats else rule.forward
            phases = self._collectives((*once, *more), float(self.held), thread)
        update = (self.weights.update_s,) if self.weights.update_s else ()
        return one_after_the_other(*phases, *self._of_ends(), *update)

    def _shown(self, shown_s: float) -> Work:
        """What collectives show, behind all passes, with their share of the bytes; the update."""
        alone = StageWeights(self.weights, FlowSender(self.sender.placement), self.stage)
        needed_s = branch_alone_s(alone._once())
        sent = self._once(shown_s / needed_s) if needed_s else (shown_s,)
        return one_after_the_other(*sent, self.weights.update_s)

    def _once(self, share: float = 1.0) -> Branch:
        """All collectives over the weights of the stage once, or a share of their time."""
        rule = self.rule
        phases = self._collectives((*rule.backward, *rule.forward), float(self.held), None, share)
        return (*phases, *self._of_ends(share))

    def _of_ends(self, share: float = 1.0) -> Branch:
        """Gradients of embedding and head summed up, and their weights gathered."""
        program = self.weights.program
        first = program.first if self.stage == 0 else None
        last = program.last if self.stage == self.weights.stages - 1 else None
        held_bytes = sum(number(one.weight_bytes) for one in (first, last) if one is not None)
        group = program.repetition.weight_group
        return self._collective("all_reduce", group, held_bytes, None, share)

    def passes(
        self, layer: Branch, virtual: int, ends: tuple[Branch, Branch], *, ahead: bool
    ) -> Pass:
        """Passes of all microbatches through the layers of a virtual stage."""
        repeats, layers = self._repeats(ahead=ahead), self.weights.layers[virtual]
        if self.weights.shown_s is not None:
            return Pass(one_after_the_other(*ends[0], *layer * layers, *ends[1]))
        if not self.weights.overlaps:
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
        layers = self.weights.layers[virtual]
        # Forward the last layer of all has none to gather for, backward the first none behind it.
        but_one = max(0, layers - 1)
        if self._repeats(ahead=ahead):
            last = virtual + self.weights.stages >= len(self.weights.layers)
            return but_one if last else layers
        return but_one if virtual == 0 else 0


def _seconds(network: Network, name: CollectiveKind, members: Group, sent_bytes: float) -> float:
    """How long a collective takes alone [s]."""
    return number(network.collective(name, members).seconds(sent_bytes))


def number(amount: Amount) -> float:
    """The amount of the only sharding."""
    return float(np.asarray(amount, dtype=np.float64).reshape(-1)[0])

"""One iteration from its layers: pipeline, bubble, and data parallel collectives.

With m microbatches, l layers on p stages, of which the fullest hold n, v interleaved stages, the
time L of one layer (forward and backward, collectives included) and h of one transfer between
stages:

    layers          m n L
    pipeline_comm   2 m v h
    bubble          (l - n)/v L + 2 (p - 1) h
    data_comm       forward + backward
    update          of the optimizer, as far as it counts (`netplan.performance.tiers`)

Interleaved stages have that bubble if the microbatches are no fewer than the stages. Fewer of them
cannot fill a chunk's way through all stages; as scheduled (``overlap.interleaved_bubble``) there
are further

    bubble          (v - 1)/v max(l - m n, 0) L
    pipeline_comm   2 (v - 1) max(p - m, 0) h

so that m n + (l - n)/v layers become l + (m - 1) n/v. No order of passes takes less where stages
are even: the last chunk of the last stage waits until the first microbatch is through all others,
passes m of them, and the last of these has all the way back. The schedule that is simulated
(`netplan.simulation.schedule`) takes no more.

A pipeline runs at the pace of its slowest stage and of its slowest replica; where stages are even
l - n is (p - 1) n. An end with embedding or head may hold a layer less than the fullest stage
(`netplan.workloads.program`), and paces only as far as it takes longer all the same.

What only runs forward pays each transfer once, and no collectives of data but gathers of sharded
weights.

The iteration model says whether the bubble's L contains collectives and memory traffic, and whether
h is the mean or the slowest transfer. Sources: arXiv:2410.00273, Sec. III, and arXiv:2307.12169,
Eq. 2 to 7; interleaving as in Narayanan et al. (arXiv:2104.04473, Sec. 2.2).

Data parallel collectives work on one layer at a time and hide behind the same pass through another
layer. Of r passes through n layers the first is exposed,

    E(x, r n) = x + (r n - 1) max(x - t, 0),

with the collective's time x and the pass's time t. The ZeRO stage sets x and r
(`netplan.workloads.program`); an all_reduce takes a reduce_scatter and an all_gather. Where they
are *queued*, one all_reduce for each layer waits until its gradients are there and the one before
is through: E(x, n), t the time from the gradients of one layer to those of the next. ZeRO repeats
part of them, y, for each of m microbatches; with the time D between two of these there is left
behind the last but one, and then in all,

    w = E(y, n) + (m - 2) max(n y - D, 0),    max(E(x, n), w + n x - D).

The update of the weights, where it is counted, makes t and D of the last microbatch longer. (COMET,
arXiv:2211.16648, has all of them *hidden*: they take nothing.) Those of a recommendation model wait
for the gradients of their own layer each, what is left is exposed.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints, real
from netplan.performance.compute import LayerTable, QueuedGradients, Timing
from netplan.performance.setting import Setting
from netplan.performance.space import PlanSpace, bubble_layers
from netplan.traffic.algorithms import Affine, HopTime
from netplan.traffic.hierarchy import CollectiveNetwork, Group, group_of
from netplan.traffic.placement import DIMENSIONS, PIPELINE, Placements
from netplan.workloads.operations import CollectiveKind
from netplan.workloads.program import Repetition, missing_layers

ENDS = 2
"""First and last stage of a pipeline [1]."""


class _ScheduleTerms(Struct, frozen=True, eq=False):
    """What depends on the schedule only, each of shape (schedules,)."""

    passes: Floats  # through a layer, m n [1]
    bubble: Floats  # layers in it [1]
    unfilled: Floats  # those of them that are there for want of microbatches [1]
    transfers: Floats  # but for those of the fill, 2 m v and what waits for microbatches [1]
    transfer_bytes: Floats  # of all of them [B]
    fill_bytes: Floats  # of the transfers that every hop of the bubble makes [B]
    boundary_bytes: Floats  # of one of them [B]
    microbatches: Floats  # m [1]
    forward_rest: Floats  # data parallel collectives behind the first one, r n - 1 [1]
    backward_rest: Floats


class _PlacementTerms(Struct, frozen=True, eq=False):
    """What depends on the placement only, each of shape (placements,)."""

    hop: HopTime  # one transfer of the steady state
    fill: HopTime  # all hops from the first stage to the last
    forward_s: Floats  # data parallel collectives of one layer (of the stage if nothing overlaps)
    backward_s: Floats
    repeated_s: Floats  # queued ones of a microbatch that is not the last
    ends_s: Floats  # those of embedding and head
    alone: Bools  # whether there is only one stage
    middle: Bools  # whether there are stages without an end
    first_less: Floats  # layers that the first stage holds less than the fullest
    last_less: Floats


def _schedule_terms(setting: Setting, space: PlanSpace, table: LayerTable) -> _ScheduleTerms:
    """Multiplicities of every schedule."""
    shape = space.runs
    stages = shape.stages
    layers = table.repetition.fullest(stages)
    m, v = real(shape.microbatches), real(shape.interleave)
    runs = table.repetition.runs(stages=stages, microbatches=m, interleave=v)
    boundary = table.boundary_bytes[shape.sharding]
    ways = table.repetition.ways
    full, unfilled = bubble_layers(setting, table.repetition, shape)
    transfers = ways * runs.transfers
    if setting.scheduled_bubble:
        transfers = transfers + ways * (v - 1) * np.maximum(stages - m, 0)
    return _ScheduleTerms(
        passes=runs.layers,
        bubble=full + unfilled,
        unfilled=unfilled,
        transfers=transfers,
        transfer_bytes=transfers * boundary,
        fill_bytes=ways * boundary,
        boundary_bytes=boundary,
        microbatches=runs.ends,
        forward_rest=runs.forward_weights * layers - 1,
        backward_rest=runs.backward_weights * layers - 1,
    )


def _placement_terms(
    setting: Setting, network: CollectiveNetwork, space: PlanSpace, table: LayerTable
) -> _PlacementTerms:
    """Transfers and data parallel collectives of every placement."""
    placements = space.placements
    stages = real(placements.totals[PIPELINE])
    fill, slowest = network.hops(placements)
    hops = np.maximum(stages - 1, 1)
    hop = fill.mean_of(hops) if setting.assumptions.overlap.hop == "mean" else slowest
    layers = table.repetition.fullest(stages)
    row = space.first_sharding[space.layer_of]
    weights, experts = table.weight_bytes[row], table.expert_bytes[row]
    if setting.assumptions.overlap.data == "exposed":
        weights, experts = weights * layers, experts * layers
    shared = _SharedWeights(table.repetition, network, placements)
    repeated = np.zeros(placements.count)
    if setting.assumptions.overlap.data == "queued" and table.repetition.trains:
        forward = np.zeros(placements.count)
        backward, repeated = shared.queued_s(weights, experts)
        if table.queue:
            backward = shared.left_s(table.queue, row)
    else:
        forward, backward = shared.both_passes_s(weights, experts)
    first, last = table.first.weight_bytes[row], table.last.weight_bytes[row]
    ends = np.where(stages == 1, first + last, np.maximum(first, last))
    ends_s = np.zeros(placements.count)
    if table.has_ends:
        halves = _HALVES if table.repetition.trains else table.repetition.synchronisation.forward
        ends_s = sum(shared.seconds(halves, ends, np.zeros_like(ends)), ends_s)
    first_less, last_less = missing_layers(table.repetition.layers, stages)
    return _PlacementTerms(
        hop,
        fill,
        forward,
        backward,
        repeated,
        ends_s,
        alone=stages == 1,
        middle=stages > ENDS,
        first_less=first_less,
        last_less=last_less,
    )


_HALVES: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter")
"""Of an all_reduce."""


class _SharedWeights(Struct, frozen=True, eq=False):
    """How data parallel GPUs synchronise weights of which each has a copy or a part."""

    rules: Repetition
    network: CollectiveNetwork
    placements: Placements

    def seconds(
        self, kinds: Sequence[CollectiveKind], weights: Floats, experts: Floats
    ) -> list[Floats]:
        """Time of some collectives of all weights, of shape (placements,) each [s]."""
        everyone = _group(self.placements, self.rules.weight_group)
        each_s = [self.network.collective(kind, everyone).seconds(weights) for kind in kinds]
        if not experts.any():
            return each_s
        peers = _group(self.placements, self.rules.expert_group)
        more_s = (self.network.collective(kind, peers).seconds(experts) for kind in kinds)
        return [one_s + other_s for one_s, other_s in zip(each_s, more_s, strict=True)]

    def both_passes_s(self, weights: Floats, experts: Floats) -> tuple[Floats, Floats]:
        """Time of the collectives of a forward and of a backward pass [s]."""
        gather, scatter = self.seconds(_HALVES, weights, experts)
        each_s = {"all_gather": gather, "reduce_scatter": scatter, "all_reduce": gather + scatter}
        rule = self.rules.synchronisation
        forward, backward = (
            sum((each_s[name] for name in names), np.zeros_like(gather))
            for names in (rule.forward, rule.backward)
        )
        return forward, backward

    def queued_s(self, weights: Floats, experts: Floats) -> tuple[Floats, Floats]:
        """One all_reduce behind the last microbatch, and what others repeat of it [s].

        Sharded weights are gathered once more by each of them.
        """
        rule = self.rules.synchronisation
        kinds: tuple[CollectiveKind, ...] = ("all_reduce", *_HALVES)
        last, gather, scatter = self.seconds(kinds, weights, experts)
        if rule.forward_repeats:
            return last + gather, last + gather
        return last, scatter if rule.backward_repeats else np.zeros_like(last)

    def left_s(self, queue: Sequence[QueuedGradients], row: Ints) -> Floats:
        """What is left behind the backward pass of all_reduces of single operations [s]."""
        end_s = np.full(self.placements.count, -np.inf)
        for gradients in queue:
            held = gradients.weight_bytes[row]
            each_s, _ = self.queued_s(held, np.zeros_like(held))
            end_s = np.maximum(end_s, -gradients.lead_s[row]) + each_s
        return np.asarray(np.maximum(end_s, 0.0))


def _group(placements: Placements, dimensions: Sequence[str]) -> Group:
    return group_of(placements, *(DIMENSIONS.index(name) for name in dimensions), whole=True)


def _exposed_s(collective_s: Floats, pass_s: Floats, rest: Floats) -> Floats:
    """Exposed time of 1 + ``rest`` collectives, all but the first behind a pass each [s].

    Examples
    --------
    >>> _exposed_s(np.array([3.0]), np.array([2.0]), np.array([4.0]))
    array([7.])
    """
    return np.asarray(collective_s + rest * np.maximum(collective_s - pass_s, 0))


class IterationTerms(Struct, frozen=True, eq=False):
    """All terms of all plans; a plan is a placement, a sharding and a schedule."""

    setting: Setting
    table: LayerTable
    schedule: _ScheduleTerms
    placement: _PlacementTerms
    layer_s: Floats
    bubble_s: Floats
    forward_s: Floats
    backward_s: Floats
    gradient_s: Floats
    update_s: Floats | None = None  # of the optimizer, of every schedule, where it counts

    @classmethod
    def of(
        cls,
        setting: Setting,
        network: CollectiveNetwork,
        space: PlanSpace,
        table: LayerTable,
        update_s: Floats | None = None,
    ) -> "IterationTerms":
        """Compute every term once for each of the things that it depends on.

        Parameters
        ----------
        setting
            What is trained, and how.
        network
            Levels of the fabric, and how collectives run on them.
        space
            Placements, shardings and schedules.
        table
            Times [s] and sizes [B] of one layer, shape (shardings,).
        update_s
            Update of the optimizer, where it counts, shape (schedules,) [s].

        Returns
        -------
        IterationTerms
            The terms, of which each plan picks its own.

        References
        ----------
        arXiv:2410.00273, Sec. III; arXiv:2307.12169, Eq. 2 to 7.
        """
        both = table.forward + table.backward
        return cls(
            setting=setting,
            table=table,
            schedule=_schedule_terms(setting, space, table),
            placement=_placement_terms(setting, network, space, table),
            layer_s=both.total_s,
            bubble_s=both.total_s if setting.whole_bubble else both.compute_s,
            forward_s=table.forward.total_s,
            backward_s=table.backward.total_s,
            gradient_s=table.gradient.total_s,
            update_s=update_s,
        )

    def seconds(self, place: Ints, row: Ints, schedule: Ints) -> Floats:
        """Iteration time of plans: the sum of what :meth:`parts` names [s].

        Parameters
        ----------
        place, row, schedule
            Placement, sharding and schedule of each plan, as numbers, shape (plans,).

        Returns
        -------
        Floats
            Iteration time, shape (plans,) [s].
        """
        terms = self.schedule
        total: Floats = terms.passes[schedule] * self.layer_s[row]
        total += terms.bubble[schedule] * self.bubble_s[row]
        for part in chain(*self._hops_s(place, schedule)):
            total += part
        total += self.data_s(place, row, schedule)
        if self.update_s is not None:
            total += self.update_s[schedule]
        if self.table.has_ends:
            total += terms.microbatches[schedule] * self._ends(place, row).total_s
        return total

    def falling_s(self, place: Ints, row: Ints, schedule: Ints) -> Floats:  # noqa: ARG002
        """What is less for more replicas, whatever they hold: nothing that is counted here [s].

        Parameters
        ----------
        place, row, schedule
            As of :meth:`seconds`.

        Returns
        -------
        Floats
            Zeros, shape (plans,) [s].
        """
        return np.zeros(len(place))

    def _transfers_s(
        self, hop: HopTime, sent_bytes: Floats, times: Floats | float, place: Ints, schedule: Ints
    ) -> tuple[Floats, ...]:
        """So many transfers over a hop, of so many bytes in all, in parts that add up [s]."""
        if isinstance(hop, Affine):
            return sent_bytes * hop.s_per_byte[place], times * hop.fixed_s[place]
        each_s = hop.take(place).seconds(self.schedule.boundary_bytes[schedule])
        return (times * each_s,)

    def _hops_s(self, place: Ints, schedule: Ints) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
        """Transfers of the steady state, and those of the bubble [s]."""
        terms, placed, by = self.schedule, self.placement, schedule
        steady = placed.hop, terms.transfer_bytes[by], terms.transfers[by]
        filling = placed.fill, terms.fill_bytes[by], self.table.repetition.ways
        return self._transfers_s(*steady, place, by), self._transfers_s(*filling, place, by)

    def data_s(self, place: Ints, row: Ints, schedule: Ints) -> Floats:
        """Exposed data parallel collectives of plans [s].

        Parameters
        ----------
        place, row, schedule
            As of :meth:`seconds`.

        Returns
        -------
        Floats
            Time that no computation hides, shape (plans,) [s].
        """
        terms, placed = self.schedule, self.placement
        overlap = self.setting.assumptions.overlap.data
        if overlap == "exposed":
            return self._exposed_data_s(place, schedule)
        if overlap == "hidden":
            return np.zeros(len(place))
        if overlap == "queued" and self.table.repetition.trains:
            return self._queued_data_s(place, row, schedule)
        forward, backward = placed.forward_s[place], placed.backward_s[place]
        ahead = _exposed_s(forward, self.forward_s[row], terms.forward_rest[schedule])
        back = _exposed_s(backward, self.backward_s[row], terms.backward_rest[schedule])
        return ahead + back + placed.ends_s[place]

    def _queued_data_s(self, place: Ints, row: Ints, schedule: Ints) -> Floats:
        """Collectives of one layer after the other, each once its gradients are there [s]."""
        terms, placed = self.schedule, self.placement
        layers = terms.passes[schedule] / terms.microbatches[schedule]
        update_s = 0.0 if self.update_s is None else self.update_s[schedule]
        ready_s = self.gradient_s[row] + update_s / layers
        last_s, repeated_s = placed.backward_s[place], placed.repeated_s[place]
        queued = _exposed_s(last_s, ready_s, layers - 1)
        if (terms.microbatches > 1).any() and repeated_s.any():
            pause_s = layers * self.layer_s[row]
            more = np.maximum(terms.microbatches[schedule] - 2, 0)
            before = _exposed_s(repeated_s, self.gradient_s[row], layers - 1)
            before += more * np.maximum(layers * repeated_s - pause_s, 0)
            several = np.maximum(queued, before + layers * last_s - pause_s - update_s)
            queued = np.where(terms.microbatches[schedule] > 1, several, queued)
        return np.asarray(queued + placed.ends_s[place])

    def _exposed_data_s(self, place: Ints, schedule: Ints) -> Floats:
        """Data parallel collectives of whole stages, r times each where ZeRO repeats them [s]."""
        terms, placed, rule = self.schedule, self.placement, self.table.repetition.synchronisation
        if not (rule.forward_repeats or rule.backward_repeats):  # r is 1: one look-up a plan
            once: Floats = placed.forward_s + placed.backward_s + placed.ends_s
            return once[place]
        layers = terms.passes[schedule] / terms.microbatches[schedule]
        ahead = (terms.forward_rest[schedule] + 1) / layers
        back = (terms.backward_rest[schedule] + 1) / layers
        repeated = placed.forward_s[place] * ahead + placed.backward_s[place] * back
        return np.asarray(repeated + placed.ends_s[place])

    def parts(self, place: int, row: int, schedule: int) -> dict[str, float]:
        """Named parts of one plan's iteration time [s].

        Parameters
        ----------
        place, row, schedule
            Placement, sharding and schedule of the plan, as numbers.

        Returns
        -------
        dict[str, float]
            Time of each part by name, which add up to the iteration [s].
        """
        places, on, by = (np.array([index]) for index in (place, row, schedule))
        terms = self.schedule
        passes, microbatches = terms.passes[by], terms.microbatches[by]
        ends = self._ends(places, on)
        both = self.table.forward + self.table.backward

        def of_layers(part: Floats, end: Floats) -> float:
            return float((passes * part[on] + microbatches * end)[0])

        steady, filling = self._hops_s(places, by)
        transfers = sum(steady, np.zeros(1))
        bubble = terms.bubble[by] * self.bubble_s[on] + sum(filling, np.zeros(1))
        parts = {
            "compute": of_layers(both.compute_s, ends.compute_s),
            "memory": of_layers(both.memory_s, ends.memory_s),
            "tensor_comm": of_layers(both.tensor_s, ends.tensor_s),
            "data_comm": float(self.data_s(places, on, by)[0]),
            "pipeline_comm": float(transfers[0]),
            "bubble": float(bubble[0]),
        }
        if self.update_s is not None and self.update_s[schedule]:
            parts["update"] = float(self.update_s[schedule])
        spread = self.setting.spread_model
        if self.setting.experts is not None or (spread and "expert" in spread.spread):
            parts["expert_comm"] = of_layers(both.expert_s, ends.expert_s)
        return parts

    def phases(self, place: int, row: int, schedule: int) -> dict[str, float]:
        """Computing and exposed communication of the phases of tiled layers, without ends [s].

        Forward, gradients of the inputs (with what is computed again) and of the weights (with
        their update); other layers have no such phases.

        Parameters
        ----------
        place, row, schedule
            Placement, sharding and schedule of the plan, as numbers.

        Returns
        -------
        dict[str, float]
            Time of each phase by name; empty where layers are not tiled [s].
        """
        if self.setting.assumptions.compute.operations != "tiled":
            return {}
        table, passes = self.table, self.schedule.passes[schedule]
        ahead, back, last = table.forward, table.backward, table.gradient
        parts = self.parts(place, row, schedule)

        def of_layers(*parts_s: Floats) -> float:
            return float(sum(passes * part_s[row] for part_s in parts_s))

        return {
            "forward_compute": of_layers(ahead.compute_s, ahead.memory_s),
            "forward_comm": of_layers(ahead.tensor_s, ahead.expert_s),
            "input_gradient_compute": of_layers(
                back.compute_s - last.compute_s, back.memory_s - last.memory_s
            ),
            "input_gradient_comm": of_layers(back.tensor_s, back.expert_s),
            "weight_gradient_compute": of_layers(last.compute_s, last.memory_s)
            + parts.get("update", 0.0),
            "weight_gradient_comm": parts["data_comm"],
        }

    def _ends(self, place: Ints, row: Ints) -> Timing:
        """What a microbatch takes longer on the slowest stage than n layers do.

        That is the slower of first and last stage, of which each may have a layer less, or nothing
        where a stage without an end is slower still; a single stage has both ends.
        """
        first, last, placed = self.table.first.time, self.table.last.time, self.placement
        first_less, last_less = placed.first_less[place], placed.last_less[place]
        first_s = first.total_s[row] - first_less * self.layer_s[row]
        last_s = last.total_s[row] - last_less * self.layer_s[row]
        alone, slower_last = placed.alone[place], last_s >= first_s
        slowest = ~placed.middle[place] | (np.maximum(first_s, last_s) >= 0)
        with_first, with_last = alone | (slowest & ~slower_last), alone | (slowest & slower_last)
        less = with_first * first_less + with_last * last_less
        layer = self.table.forward + self.table.backward
        return Timing(
            *(
                with_first * getattr(first, part)[row]
                + with_last * getattr(last, part)[row]
                - less * getattr(layer, part)[row]
                for part in Timing.__struct_fields__
            )
        )

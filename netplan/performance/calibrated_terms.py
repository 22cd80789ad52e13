"""Iterations of iteration model ``calibrated``, of all plans of a space.

A stage of n layers takes a microbatch as long as these and its end; m of them follow each other.
The bubble is what a microbatch takes through all other stages, by interleaved stages v times
less, under ``zb-1p`` a third of it, under ``zb-2p`` none (Qi et al., arXiv:2401.10241). Transfers
between stages, collectives over data parallel GPUs, the optimizer's update and a fixed time come
on top (`netplan.performance.calibrated`); they have the slowest level at which the plan works, and
the ring through all levels of its group.

Under software of a date layers are a mean of blocks, weights of experts are exchanged over groups
of their own, and an iteration takes as many times as long as the date and the number of GPUs say.

Terms have the same face as those of `netplan.performance.iteration`.
"""

from typing import NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats, Ints, real
from netplan.errors import InputError
from netplan.performance.calibrated import Exchange, Stages
from netplan.performance.compute import CalibratedLayer, LayerTable, slowest_hop
from netplan.performance.dated.layer import DatedExchange, DatedLayer
from netplan.performance.dated.run import DatedRun
from netplan.performance.setting import Setting
from netplan.performance.space import PlanSpace, StageRuns
from netplan.traffic.hierarchy import CollectiveNetwork, Group, group_of
from netplan.traffic.placement import CONTEXT, DIMENSIONS, PIPELINE, TENSOR
from netplan.workloads.operations import ELEMENT_BYTES, Sharding
from netplan.workloads.program import Repetition, missing_layers


class ScheduleTerms(Struct, frozen=True, eq=False):
    """What depends on the schedule only, each of shape (schedules,)."""

    stages: Stages
    transfers: Floats  # that a GPU waits for [1]
    transfer_bytes: Floats  # of each [B]
    unfilled: Floats  # layers in the bubble for want of microbatches: none are counted [1]


class PlacementTerms(NamedTuple):
    """What depends on the placement only, each of shape (placements,)."""

    hop_s_per_byte: Floats
    exchange_s_per_byte: Floats
    members: Floats


def stages_of(setting: Setting, rules: Repetition, shape: StageRuns) -> Stages:
    """Pipelines of schedules, each entry of shape (schedules,)."""
    stages, interleave = shape.stages, real(shape.interleave)
    fullest = rules.fullest(stages, interleave)
    first_less, last_less = missing_layers(rules.layers, stages, interleave)
    return Stages(
        layers=np.full_like(stages, rules.layers),
        stages=stages,
        interleave=interleave,
        microbatches=real(shape.microbatches),
        fullest=fullest,
        chunk=fullest / interleave,
        first_less=first_less,
        last_less=last_less,
        bubble=np.full_like(stages, setting.bubble_share),
    )


def schedule_terms(setting: Setting, space: PlanSpace, table: LayerTable) -> ScheduleTerms:
    """What depends on the schedules of a space only."""
    shape = space.runs
    stages = stages_of(setting, table.repetition, shape)
    tokens = real(shape.totals[TENSOR] * shape.totals[CONTEXT])
    whole = space.schedules.microbatch * setting.transformer.sequence_length / tokens
    sent_bytes = ELEMENT_BYTES * whole * setting.transformer.hidden_size
    both_ways = 2  # that transfers have, or one of them
    transfers = np.asarray(stages.transfers) * (table.repetition.ways / both_ways)
    return ScheduleTerms(stages, transfers, sent_bytes, np.zeros_like(stages.stages))


def placement_terms(
    network: CollectiveNetwork, space: PlanSpace, rules: Repetition
) -> PlacementTerms:
    """What depends on the placements of a space only."""
    placements = space.placements
    everywhere = Group(placements.degrees.prod(axis=1), np.ones_like(placements.degrees[:, 0]))
    group = group_of(
        placements, *(DIMENSIONS.index(name) for name in rules.weight_group), whole=True
    )
    gathered = network.collective("all_gather", group)
    return PlacementTerms(
        np.maximum(network.slowest_hop_s(placements), slowest_hop(network, everywhere)),
        gathered.seconds(1.0) - gathered.seconds(0.0),
        real(group.members.prod(axis=0)),
    )


class CalibratedTerms(Struct, frozen=True, eq=False):
    """All terms of all plans; a plan is a placement, a sharding and a schedule."""

    setting: Setting
    dated: DatedRun | None
    network: CollectiveNetwork
    layer: CalibratedLayer | DatedLayer
    sharding: Sharding
    schedule: ScheduleTerms
    placement: PlacementTerms
    gpus: Ints  # of each placement, and those of a stage, shape (placements,) [1]
    stage_gpus: Ints
    layer_s: Floats
    bubble_s: Floats
    update_s: Floats | None = None  # what of the update an expanded memory takes longer

    @classmethod
    def of(
        cls,
        setting: Setting,
        network: CollectiveNetwork,
        space: PlanSpace,
        table: LayerTable,
        update_s: Floats | None = None,
    ) -> "CalibratedTerms":
        """Compute every term once for each of the things that it depends on.

        Raises
        ------
        InputError
            If the iteration model is not calibrated, or lacks the date that it is evaluated by.
        """
        layer = table.calibrated
        dated, asked = isinstance(layer, DatedLayer), setting.assumptions.evaluator
        if layer is None or asked == ("calibrated" if dated else "dated"):
            lacks = "has no date" if asked == "dated" else "is not calibrated"
            raise InputError(f"iteration model {setting.assumptions.name} {lacks}")
        layer_s = (table.forward + table.backward).total_s
        totals = space.placements.totals
        gpus = totals.prod(axis=0)
        return cls(
            setting=setting,
            dated=setting.training.dated,
            network=network,
            layer=layer,
            sharding=space.sharding,
            schedule=schedule_terms(setting, space, table),
            placement=placement_terms(network, space, table.repetition),
            gpus=gpus,
            stage_gpus=gpus // totals[PIPELINE],
            layer_s=layer_s,
            bubble_s=layer_s,
            update_s=None if update_s is None else np.maximum(update_s, 0.0),
        )

    def seconds(self, place: Ints, row: Ints, schedule: Ints) -> Floats:
        """Iteration time of plans: the sum of what :meth:`parts` names [s]."""
        layer, stages = self.layer.take(row), self.schedule.stages.take(schedule)
        total = stages.pipeline_s(layer.passes) + self._transfers_s(place, schedule)
        total = total + self._data_s(self._exchange(place, row, layer), stages)
        total = total + self.setting.sharing.iteration_s
        if self.update_s is not None:
            total = total + self.update_s[schedule]
        return np.asarray(self._growth(place) * total)

    def data_s(self, place: Ints, row: Ints, schedule: Ints) -> Floats:
        """What depends on the number of replicas: their collectives, and the update [s]."""
        exchange = self._exchange(place, row, self.layer.take(row))
        data_s = self._data_s(exchange, self.schedule.stages.take(schedule))
        return np.asarray(self._growth(place) * data_s)

    def falling_s(self, place: Ints, row: Ints, schedule: Ints) -> Floats:
        """What of that is less for more replicas: the update [s]."""
        exchange = self._exchange(place, row, self.layer.take(row))
        update_s = self._optimizer_s(exchange, self.schedule.stages.take(schedule))
        return np.asarray(self._growth(place) * update_s)

    def parts(self, place: int, row: int, schedule: int) -> dict[str, float]:
        """Named parts of one plan's iteration time [s].

        Layers are those of the slowest stage, of which computing has the ends. ``software`` and
        ``jitter`` are what the date and the number of GPUs add to all others.
        """
        places, on, by = (np.array([index]) for index in (place, row, schedule))
        layer, stages = self.layer.take(on), self.schedule.stages.take(by)
        exchange, passes = self._exchange(places, on, layer), layer.passes
        held, ends_s = stages.slowest(passes)
        runs, depth = stages.microbatches, layer.depth
        parts_s: dict[str, Amount] = {
            name: runs * held / depth * seconds for name, seconds in layer.parts_s().items()
        }
        parts_s["compute"] = parts_s["compute"] + runs * ends_s
        rest_s = stages.through_s(passes) - stages.slowest_s(passes)
        parts_s |= {
            "data_comm": self._exchanged_s(exchange, stages),
            "pipeline_comm": self._transfers_s(places, by),
            "bubble": stages.bubble * rest_s / stages.interleave,
            "optimizer": self._optimizer_s(exchange, stages),
            "fixed": self.setting.sharing.iteration_s,
        }
        if self.update_s is not None and self.update_s[schedule]:
            parts_s["update"] = self.update_s[schedule]
        named = {name: float(np.ravel(seconds)[0]) for name, seconds in parts_s.items()}
        if self.dated is None:
            return named
        whole, software = sum(named.values()), self.dated.software_factor
        jitter = float(self.dated.jitter_factor(self.gpus[place])) - 1
        return named | {"software": whole * (software - 1), "jitter": whole * software * jitter}

    def phases(self, place: int, row: int, schedule: int) -> dict[str, float]:  # noqa: ARG002
        """None: layers do not run in three phases."""
        return {}

    def _growth(self, place: Ints) -> Amount:
        """How many times as long iterations of some placements take [1]."""
        if self.dated is None:
            return 1.0
        return self.dated.software_factor * self.dated.jitter_factor(self.gpus[place])

    def _transfers_s(self, place: Ints, schedule: Ints) -> Floats:
        terms, sharing = self.schedule, self.setting.sharing
        part = self.setting.calibration
        hop_s = terms.transfer_bytes[schedule] * self.placement.hop_s_per_byte[place]
        hop_s = hop_s + part.collective_s + part.network_step_s
        return np.asarray(terms.transfers[schedule] * hop_s * sharing.pipeline_visible)

    def _data_s(self, exchange: Exchange | DatedExchange, stages: Stages) -> Amount:
        return self._exchanged_s(exchange, stages) + self._optimizer_s(exchange, stages)

    def _exchanged_s(self, exchange: Exchange | DatedExchange, stages: Stages) -> Amount:
        """What collectives over replicas show: of an iteration, or of forward passes alone [s]."""
        shown = exchange.data_s if self.setting.trains else exchange.forward_s
        return shown(stages, self.setting.sharing)

    def _optimizer_s(self, exchange: Exchange | DatedExchange, stages: Stages) -> Amount:
        setting = self.setting
        if not setting.trains:
            return np.zeros_like(np.asarray(stages.stages))
        on = self.dated.reach if self.dated else setting.reached
        return exchange.optimizer_s(stages, setting.sharing, on)

    def _exchange(
        self, place: Ints, row: Ints, layer: CalibratedLayer | DatedLayer
    ) -> Exchange | DatedExchange:
        s_per_byte = self.placement.exchange_s_per_byte[place]
        members = self.placement.members[place]
        zero = float(self.setting.zero_stage)
        if isinstance(layer, DatedLayer):
            expert_s_per_byte, copies = self._of_experts(place, row)
            return DatedExchange(layer, s_per_byte, expert_s_per_byte, members, copies, zero)
        weights = layer.layer_weights, layer.end_weights
        return Exchange(layer.passes, s_per_byte, members, *weights, zero)

    def _of_experts(self, place: Ints, row: Ints) -> tuple[Floats, Floats]:
        """A byte over the GPUs that hold the same experts [s/B], and how many these are [1]."""
        if self.setting.experts is None:
            return np.zeros(len(place)), np.ones(len(place))
        step = (self.sharding.experts_over * self.sharding.expert_tensor)[row]
        copies = np.maximum(1, self.stage_gpus[place] // step)
        pairs, index = np.unique(step * (1 << 32) + copies, return_inverse=True)
        steps, members = np.divmod(pairs, 1 << 32)
        used = self.setting.options.use_per_domain
        return _ring_shares(self.network, steps, members, used)[index], real(copies)


def _ring_shares(
    network: CollectiveNetwork, steps: Ints, copies: Ints, use_per_domain: int | None
) -> Floats:
    """A byte gathered over so many GPUs, so many ranks apart, of domains used in part [s/B]."""
    members = np.ones((len(network.levels), len(copies)), np.int64)
    strides, rest = steps.copy(), copies.copy()
    apart = np.ones_like(members)
    for row, level in enumerate(network.levels):
        size = level.size if row else use_per_domain or level.size
        apart[row] = np.minimum(strides, size)
        room = np.maximum(1, size // strides)
        members[row] = np.minimum(rest, room)
        rest, strides = -(-rest // members[row]), np.maximum(1, strides // size)
    sent, placed = network.collective("all_gather", Group(members, apart)), members.prod(axis=0)
    slope = np.asarray(sent.seconds(1.0) - sent.seconds(0.0))
    # Of domains that are not filled evenly as many bytes count as there are copies.
    several = copies > 1
    share = np.where(several, (1 - 1 / copies) / (1 - 1 / np.maximum(placed, 2)), 0.0)
    return np.asarray(slope * share)

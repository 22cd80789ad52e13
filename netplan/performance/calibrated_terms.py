"""Iterations of iteration model ``calibrated``, of all plans of a space.

A stage of n layers takes a microbatch as long as these and its end; m of them follow each other.
The bubble is what a microbatch takes through all other stages, by interleaved stages v times
less, under ``zb-1p`` a third of it, under ``zb-2p`` none (Qi et al., arXiv:2401.10241). Transfers
between stages, collectives over data parallel GPUs, the optimizer's update and a fixed time come
on top (`netplan.performance.calibrated`); they have the slowest level at which the plan works, and
the ring through all levels of its group.

Terms have the same face as those of `netplan.performance.iteration`.
"""

from typing import NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints, real
from netplan.errors import InputError
from netplan.performance.calibrated import Exchange, Passes, Stages
from netplan.performance.compute import CalibratedLayer, LayerTable, slowest_hop
from netplan.performance.setting import Setting
from netplan.performance.space import PlanSpace, StageRuns
from netplan.traffic.hierarchy import CollectiveNetwork, Group, group_of
from netplan.traffic.placement import CONTEXT, DIMENSIONS, TENSOR
from netplan.workloads.operations import ELEMENT_BYTES
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
    less = missing_layers(rules.layers, stages, interleave)
    return Stages(
        layers=np.full_like(stages, rules.layers),
        stages=stages,
        interleave=interleave,
        microbatches=real(shape.microbatches),
        fullest=fullest,
        chunk=fullest / interleave,
        first_less=less.first,
        last_less=less.last,
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
    table: LayerTable
    layer: CalibratedLayer
    schedule: ScheduleTerms
    placement: PlacementTerms
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
        """Compute every term once for each of the things that it depends on."""
        layer_s = (table.forward + table.backward).total_s
        if not isinstance(table.calibrated, CalibratedLayer):
            raise InputError(f"iteration model {setting.assumptions.name} is not calibrated")
        return cls(
            setting=setting,
            table=table,
            layer=table.calibrated,
            schedule=schedule_terms(setting, space, table),
            placement=placement_terms(network, space, table.repetition),
            layer_s=layer_s,
            bubble_s=layer_s,
            update_s=None if update_s is None else np.maximum(update_s, 0.0),
        )

    def seconds(self, place: Ints, row: Ints, schedule: Ints) -> Floats:
        """Iteration time of plans: the sum of what :meth:`parts` names [s]."""
        passes, stages = self.layer.passes.take(row), self.schedule.stages.take(schedule)
        total = np.asarray(stages.pipeline_s(passes))
        total += self._transfers_s(place, schedule)
        total += self.data_s(place, row, schedule)
        total += self.setting.sharing.iteration_s
        if self.update_s is not None:
            total += self.update_s[schedule]
        return total

    def data_s(self, place: Ints, row: Ints, schedule: Ints) -> Floats:
        """What depends on the number of replicas: their collectives, and the update [s]."""
        stages, exchange = self.schedule.stages.take(schedule), self._exchange(place, row)
        exchanged = self._exchanged_s(exchange, stages, self.layer.passes.take(row))
        return exchanged + self._optimizer_s(exchange, stages)

    def falling_s(self, place: Ints, row: Ints, schedule: Ints) -> Floats:
        """What of that is less for more replicas: the update [s]."""
        stages = self.schedule.stages.take(schedule)
        return self._optimizer_s(self._exchange(place, row), stages)

    def parts(self, place: int, row: int, schedule: int) -> dict[str, float]:
        """Named parts of one plan's iteration time [s].

        Layers are those of the slowest stage, of which computing has the ends.
        """
        places, on, by = (np.array([index]) for index in (place, row, schedule))
        layer, sharing = self.layer, self.setting.sharing
        layer_passes, stages = self.layer.passes.take(on), self.schedule.stages.take(by)
        exchange = self._exchange(places, on)
        slowest_s, runs = stages.slowest_s(layer_passes), stages.microbatches
        held, ends_s = stages.slowest(layer_passes)
        passes = runs * held
        parts_s = {
            "compute": passes * layer.products_s[on] + runs * ends_s,
            "attention": passes * layer.attention_s[on],
            "memory": passes * layer.vectors_s[on],
            "tensor_comm": passes * layer.communication_s[on],
            "recompute": passes * layer_passes.again_s,
            "host": passes * layer_passes.layer_s,
            "data_comm": self._exchanged_s(exchange, stages, layer_passes),
            "pipeline_comm": self._transfers_s(places, by),
            "bubble": stages.bubble
            * (stages.through_s(layer_passes) - slowest_s)
            / stages.interleave,
            "optimizer": self._optimizer_s(exchange, stages),
            "fixed": np.array([sharing.iteration_s]),
        }
        named = {name: float(np.ravel(seconds)[0]) for name, seconds in parts_s.items()}
        if self.update_s is not None and self.update_s[schedule]:
            named["update"] = float(self.update_s[schedule])
        return named

    def phases(self, place: int, row: int, schedule: int) -> dict[str, float]:  # noqa: ARG002
        """None: layers do not run in three phases."""
        return {}

    def _transfers_s(self, place: Ints, schedule: Ints) -> Floats:
        terms, sharing = self.schedule, self.setting.sharing
        part = self.setting.calibration
        hop_s = terms.transfer_bytes[schedule] * self.placement.hop_s_per_byte[place]
        hop_s = hop_s + part.collective_s + part.network_step_s
        shown: Floats = terms.transfers[schedule] * hop_s * sharing.pipeline_visible
        return shown

    def _exchange(self, place: Ints, row: Ints) -> Exchange:
        return Exchange(
            self.placement.exchange_s_per_byte[place],
            self.placement.members[place],
            self.layer.layer_weights[row],
            self.layer.end_weights[row],
            float(self.setting.zero_stage),
        )

    def _exchanged_s(self, exchange: Exchange, stages: Stages, passes: Passes) -> Floats:
        """What collectives over replicas show: of an iteration, or of forward passes alone [s]."""
        shown = exchange.data_s if self.setting.trains else exchange.forward_s
        return np.asarray(shown(stages, passes, self.setting.sharing))

    def _optimizer_s(self, exchange: Exchange, stages: Stages) -> Floats:
        setting = self.setting
        if not setting.trains:
            return np.zeros_like(np.asarray(stages.stages))
        return np.asarray(exchange.optimizer_s(stages, setting.sharing, setting.reached))

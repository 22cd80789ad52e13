"""Iterations under software of a date, of all plans of a space.

As those of `netplan.performance.calibrated_terms`, but that layers are a mean of blocks, that
weights of experts are exchanged over groups of their own, and that an iteration takes as many times
as long as the date and the number of GPUs say.
"""

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats, Ints, real
from netplan.errors import InputError
from netplan.performance.calibrated import Stages
from netplan.performance.calibrated_terms import (
    PlacementTerms,
    ScheduleTerms,
    placement_terms,
    schedule_terms,
)
from netplan.performance.compute import LayerTable
from netplan.performance.dated.layer import DatedExchange, DatedLayer
from netplan.performance.dated.run import DatedRun
from netplan.performance.setting import Setting
from netplan.performance.space import PlanSpace
from netplan.traffic.hierarchy import CollectiveNetwork, Group
from netplan.traffic.placement import PIPELINE
from netplan.workloads.operations import Sharding


class DatedTerms(Struct, frozen=True, eq=False):
    """All terms of all plans; a plan is a placement, a sharding and a schedule."""

    setting: Setting
    dated: DatedRun
    network: CollectiveNetwork
    layer: DatedLayer
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
    ) -> "DatedTerms":
        """Compute every term once for each of the things that it depends on.

        Raises
        ------
        InputError
            If the setting has no software of a date.
        """
        run, layer = setting.training.calibrated, table.calibrated
        if run is None or run.dated is None or not isinstance(layer, DatedLayer):
            raise InputError(f"iteration model {setting.assumptions.name} has no date")
        layer_s = (table.forward + table.backward).total_s
        totals = space.placements.totals
        gpus = totals.prod(axis=0)
        return cls(
            setting=setting,
            dated=run.dated,
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
        total = total + self._data_s(place, row, stages, layer) + self.setting.sharing.iteration_s
        if self.update_s is not None:
            total = total + self.update_s[schedule]
        return np.asarray(self._growth(place) * total)

    def data_s(self, place: Ints, row: Ints, schedule: Ints) -> Floats:
        """What depends on the number of replicas: their collectives, and the update [s]."""
        layer, stages = self.layer.take(row), self.schedule.stages.take(schedule)
        return np.asarray(self._growth(place) * self._data_s(place, row, stages, layer))

    def falling_s(self, place: Ints, row: Ints, schedule: Ints) -> Floats:
        """What of that is less for more replicas: the update [s]."""
        layer, stages = self.layer.take(row), self.schedule.stages.take(schedule)
        update_s = self._update_s(self._exchange(place, row), stages, layer)
        return np.asarray(self._growth(place) * update_s)

    def parts(self, place: int, row: int, schedule: int) -> dict[str, float]:
        """Named parts of one plan's iteration time [s].

        Layers are those of the slowest stage, of which computing has the ends. ``software`` and
        ``jitter`` are what the date and the number of GPUs add to all others.
        """
        places, on, by = (np.array([index]) for index in (place, row, schedule))
        layer, sharing = self.layer.take(on), self.setting.sharing
        stages, exchange = self.schedule.stages.take(by), self._exchange(places, on)
        passes = layer.passes
        held, ends_s = stages.slowest(passes)
        runs, depth = stages.microbatches, layer.depth
        parts_s: dict[str, Amount] = {
            name: runs * held / depth * seconds for name, seconds in layer.parts_s().items()
        }
        parts_s["compute"] = parts_s["compute"] + runs * ends_s
        rest_s = stages.through_s(passes) - stages.slowest_s(passes)
        parts_s |= {
            "data_comm": self._exchanged_s(exchange, stages, layer),
            "pipeline_comm": self._transfers_s(places, by),
            "bubble": stages.bubble * rest_s / stages.interleave,
            "optimizer": self._update_s(exchange, stages, layer),
            "fixed": sharing.iteration_s,
        }
        if self.update_s is not None and self.update_s[schedule]:
            parts_s["update"] = self.update_s[schedule]
        named = {name: float(np.ravel(seconds)[0]) for name, seconds in parts_s.items()}
        whole, software = sum(named.values()), self.dated.software_factor
        jitter = float(self.dated.jitter_factor(self.gpus[place])) - 1
        return named | {"software": whole * (software - 1), "jitter": whole * software * jitter}

    def phases(self, place: int, row: int, schedule: int) -> dict[str, float]:  # noqa: ARG002
        """None: layers do not run in three phases."""
        return {}

    def _growth(self, place: Ints) -> Amount:
        """How many times as long iterations of some placements take [1]."""
        return self.dated.software_factor * self.dated.jitter_factor(self.gpus[place])

    def _transfers_s(self, place: Ints, schedule: Ints) -> Floats:
        terms, sharing = self.schedule, self.setting.sharing
        part = self.setting.calibration
        hop_s = terms.transfer_bytes[schedule] * self.placement.hop_s_per_byte[place]
        hop_s = hop_s + part.collective_s + part.network_step_s
        shown: Floats = terms.transfers[schedule] * hop_s * sharing.pipeline_visible
        return shown

    def _data_s(self, place: Ints, row: Ints, stages: Stages, layer: DatedLayer) -> Amount:
        exchange = self._exchange(place, row)
        shown_s = self._exchanged_s(exchange, stages, layer)
        return shown_s + self._update_s(exchange, stages, layer)

    def _exchanged_s(self, exchange: DatedExchange, stages: Stages, layer: DatedLayer) -> Amount:
        """What collectives over replicas show: of an iteration, or of forward passes alone [s]."""
        shown = exchange.data_s if self.setting.trains else exchange.forward_s
        return shown(stages, layer, self.setting.sharing)

    def _update_s(self, exchange: DatedExchange, stages: Stages, layer: DatedLayer) -> Amount:
        if not self.setting.trains:
            return np.zeros_like(np.asarray(stages.stages))
        return exchange.optimizer_s(stages, layer, self.setting.sharing, self.dated.reach)

    def _exchange(self, place: Ints, row: Ints) -> DatedExchange:
        members = self.placement.members[place]
        pace, copies = self._of_experts(place, row)
        return DatedExchange(
            self.placement.exchange_s_per_byte[place],
            pace,
            members,
            copies,
            float(self.setting.zero_stage),
        )

    def _of_experts(self, place: Ints, row: Ints) -> tuple[Floats, Floats]:
        """A byte over the GPUs that hold the same experts [s/B], and how many these are [1]."""
        if self.setting.experts is None:
            return np.zeros(len(place)), np.ones(len(place))
        step = (self.sharding.experts_over * self.sharding.expert_tensor)[row]
        copies = np.maximum(1, self.stage_gpus[place] // step)
        pairs, index = np.unique(step * (1 << 32) + copies, return_inverse=True)
        steps, members = np.divmod(pairs, 1 << 32)
        used = self.setting.options.use_per_domain
        return _paces(self.network, steps, members, used)[index], real(copies)


def _paces(
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
    s_per_byte: Floats = slope * share
    return s_per_byte

"""Communication times of groups of GPUs on levels, for all placements at once.

An iteration model has *communication* parameters: a schedule and a share of the bandwidth. ``ring``
models (arXiv:2410.00273, Sec. III) run one ring through all levels at once, a ``flat_ring``;
``phased`` ones (arXiv:2307.12169, Eq. 1) use one level after the other, ``hierarchical``. The times
are those of `netplan.traffic.hierarchy`, in one chunk, so that every one is affine in the message:
seconds = slope x bytes + fixed. An all_to_all takes m - 1 steps on a ring.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from netplan.levels import Level
from netplan.traffic.algorithms import Affine, Algorithm, Method
from netplan.traffic.hierarchy import Group, Schedule, group_time
from netplan.traffic.placement import PIPELINE, Placements
from netplan.workloads.operations import CollectiveKind, Mode


@dataclass(frozen=True, slots=True)
class Communication:
    """How an iteration model composes levels, and the share of the bandwidth that messages get."""

    schedule: Schedule
    bandwidth_efficiency: float = 1.0


def group_of(placements: Placements, *dimensions: int) -> Group:
    """The GPUs that differ only in these dimensions; groups over those before lie in between.

    Examples
    --------
    >>> from netplan.traffic.placement import DATA, all_placements
    >>> group_of(all_placements((4,), limits=(2, 1, 1, 2, 1)), DATA).stride
    array([[2]])
    """
    degrees = placements.degrees
    members = degrees[:, list(dimensions)].prod(axis=1)
    stride = degrees[:, : min(dimensions)].prod(axis=1)
    for at in sorted({*range(min(dimensions), max(dimensions))} - {*dimensions}):
        beyond = degrees[:, [one for one in dimensions if one > at]].prod(axis=1)
        stride = np.where(beyond > 1, stride * degrees[:, at], stride)
    return Group(members, stride)


@dataclass(frozen=True, slots=True)
class Network:
    """The levels of a fabric under an iteration model's communication."""

    levels: tuple[Level, ...]
    communication: Communication
    mode: Mode = "corrected"

    def collective(self, kind: CollectiveKind, group: Group) -> Affine:
        """Time of a collective over every group.

        Mode ``published-code`` repeats a slip: an all_reduce costs a reduce_scatter, of which only
        the bandwidth part is doubled, and only if the group lies on several levels.
        """
        slips = self.mode == "published-code" and kind == "all_reduce"
        one = group_time(
            "reduce_scatter" if slips else kind,
            self.levels,
            group,
            methods=[self._method(kind, level) for level in self.levels],
            schedule=self.communication.schedule,
        )
        if not slips:
            return one
        several = (group.members > 1).sum(axis=0) > 1
        return Affine(one.s_per_byte * np.where(several, 2.0, 1.0), one.fixed_s)

    def _method(self, kind: CollectiveKind, level: Level) -> Method:
        in_steps = kind == "all_to_all" and level.kind == "ring"
        return _method("pairwise" if in_steps else None, self.communication.bandwidth_efficiency)

    def hops(self, placements: Placements) -> tuple[Affine, Affine]:
        """Transfers between pipeline stages: all hops from first to last, and the slowest hop.

        A pipeline of degrees p_1 ... p_k over the levels has (p_i - 1) x p_(i+1) x ... x p_k hops
        at level i (Eq. 4 of arXiv:2307.12169). On a ring, pipelines that lie between each other
        share the links. Without a pipeline the slowest hop is one of the innermost level, which
        Eq. 6 charges all the same.

        Mode ``published-code`` repeats a slip of the 4D model's code: if stages share the innermost
        level, hops on the other levels are free.
        """
        efficiency = self.communication.bandwidth_efficiency
        count = placements.count
        slope, fixed = np.zeros(count), np.zeros(count)
        first = self.levels[0]
        slowest = np.zeros(count)
        slow_slope = np.full(count, 1 / (efficiency * first.link_bytes_per_s))
        slow_fixed = np.full(count, first.step_s)
        outside = placements.totals[PIPELINE]
        inner = placements.degrees[0, PIPELINE] > 1
        group = group_of(placements, PIPELINE)
        each = zip(self.levels, group.members, group.stride, strict=True)
        for number, (level, stages, stride) in enumerate(each):
            outside = outside // stages
            hops = (stages - 1) * outside
            if self.mode == "published-code" and number > 0:
                hops = np.where(inner, 0, hops)
            shared = stride if level.kind == "ring" else 1
            seconds_per_byte = shared / (efficiency * level.link_bytes_per_s)
            slope += hops * seconds_per_byte
            fixed += hops * level.step_s
            slower = (stages > 1) & (seconds_per_byte > slowest)
            slowest = np.where(slower, seconds_per_byte, slowest)
            slow_slope = np.where(slower, seconds_per_byte, slow_slope)
            slow_fixed = np.where(slower, level.step_s, slow_fixed)
        return Affine(slope, fixed), Affine(slow_slope, slow_fixed)


@lru_cache
def _method(algorithm: Algorithm | None, efficiency: float) -> Method:
    return Method(algorithm, bandwidth_efficiency=efficiency)

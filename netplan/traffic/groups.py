"""Communication times of groups of GPUs on levels, for all placements at once.

Every time is affine in the message: seconds = slope x bytes + fixed. A group has m_i members at
level i, g in all, M_i = m_1 ... m_(i-1) of them below level i. B_i is the bandwidth of one member
at level i and a_i the latency of one step.

``ring`` (arXiv:2410.00273, Sec. III, for two tiers): a ring through all members, of which the M_i
members below a level share the work there,

    seconds = max_i c D / (M_i B_i) + sum_i a_i (g / M_i - g / M_(i+1)),    c = (g - 1) / g.

``phased`` (arXiv:2307.12169, Eq. 1): one level after the other,

    seconds = sum_i c_i D / (M_i B_i) + a_i s_i,    c_i = (m_i - 1) / m_i,

with s_i steps: one on a switch or mesh, m_i - 1 on a ring.

The kinds differ in little: an all_reduce is two reduce_scatters; broadcast and reduce move all of
D (c = 1); an all_to_all sends (m_i - 1) / m_i of D at every level, without a share M_i.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from netplan.arrays import Bools, Floats, Ints
from netplan.levels import Level
from netplan.performance.iteration_model import CommunicationPart
from netplan.traffic.placement import PIPELINE, Placements
from netplan.workloads.operations import CollectiveKind, Mode


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """Times that are affine in the bytes, one entry a placement."""

    s_per_byte: Floats
    fixed_s: Floats

    def seconds(self, data_bytes: Floats | float) -> Floats:
        """Time for this many bytes [s]."""
        return self.s_per_byte * data_bytes + self.fixed_s

    def take(self, index: Ints) -> "Affine":
        """Some of the entries."""
        return Affine(self.s_per_byte[index], self.fixed_s[index])


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Members of one communicator at each level, and the distance between neighbours there.

    Parameters
    ----------
    members, stride
        Of shape (levels, placements) [1]. Members at one level lie ``stride`` positions apart.
    """

    members: Ints
    stride: Ints


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
    """The levels of a fabric under an iteration model's communication part."""

    levels: tuple[Level, ...]
    part: CommunicationPart
    mode: Mode = "corrected"

    def collective(self, kind: CollectiveKind, group: Group) -> Affine:
        """Time of a collective over every group.

        Mode ``published-code`` repeats a slip: an all_reduce costs a reduce_scatter, of which only
        the bandwidth part is doubled, and only if the group lies on several levels.
        """
        one = self._phased(kind, group) if self._is_phased else self._ring(kind, group)
        if kind != "all_reduce":
            return one
        if self.mode == "published-code":
            several = (group.members > 1).sum(axis=0) > 1
            return Affine(one.s_per_byte * np.where(several, 2.0, 1.0), one.fixed_s)
        return Affine(2 * one.s_per_byte, 2 * one.fixed_s)

    @property
    def _is_phased(self) -> bool:
        return self.part.collectives == "phased"

    def _ring(self, kind: CollectiveKind, group: Group) -> Affine:
        """All levels at once: the slowest one counts."""
        total = group.members.prod(axis=0)
        slope, fixed = np.zeros(len(total)), np.zeros(len(total))
        inside = np.ones(len(total), dtype=np.int64)
        whole = (total - 1) / total
        for level, members, stride in self._each(group):
            slope = np.maximum(slope, self._slope(kind, level, members, stride, inside, whole))
            if kind == "all_to_all":
                fixed += level.step_s * (members - 1)
            else:
                fixed += level.step_s * (total // inside - total // (inside * members))
            inside = inside * members
        return Affine(slope, fixed)

    def _phased(self, kind: CollectiveKind, group: Group) -> Affine:
        """One level after the other."""
        count = group.members.shape[1]
        slope, fixed = np.zeros(count), np.zeros(count)
        inside = np.ones(count, dtype=np.int64)
        for level, members, stride in self._each(group):
            part = (members - 1) / members
            slope += self._slope(kind, level, members, stride, inside, part)
            steps = members - 1 if level.kind == "ring" else np.minimum(members - 1, 1)
            fixed += level.step_s * steps
            inside = inside * members
        return Affine(slope, fixed)

    def _each(self, group: Group) -> Iterator[tuple[Level, Ints, Ints]]:
        return zip(self.levels, group.members, group.stride, strict=True)

    def _slope(
        self,
        kind: CollectiveKind,
        level: Level,
        members: Ints,
        stride: Ints,
        inside: Ints,
        share: Floats,
    ) -> Floats:
        """Seconds per byte of the message at one level; 0 where the group is not."""
        rate = self.part.bandwidth_efficiency * level.link_bytes_per_s
        used = members > 1
        if kind == "all_to_all":
            return np.where(used, _exchange_links(level, members, stride) / rate, 0.0)
        carried = used if kind in ("broadcast", "reduce") else used * share
        slope: Floats = carried / (inside * rate * _links(level, members, stride))
        return slope

    def hops(self, placements: Placements) -> tuple[Affine, Affine]:
        """Transfers between pipeline stages: all hops from first to last, and the slowest hop.

        A pipeline of degrees p_1 ... p_k over the levels has (p_i - 1) x p_(i+1) x ... x p_k hops
        at level i (Eq. 4 of arXiv:2307.12169). On a ring, pipelines that lie between each other
        share the links. Without a pipeline the slowest hop is one of the innermost level, which
        Eq. 6 charges all the same.

        Mode ``published-code`` repeats a slip of the 4D model's code: if stages share the innermost
        level, hops on the other levels are free.
        """
        efficiency = self.part.bandwidth_efficiency
        count = placements.count
        slope, fixed = np.zeros(count), np.zeros(count)
        first = self.levels[0]
        slowest = np.zeros(count)
        slow_slope = np.full(count, 1 / (efficiency * first.link_bytes_per_s))
        slow_fixed = np.full(count, first.step_s)
        outside = placements.totals[PIPELINE]
        inner = placements.degrees[0, PIPELINE] > 1
        group = group_of(placements, PIPELINE)
        for number, (level, stages, stride) in enumerate(self._each(group)):
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


def _links(level: Level, members: Ints, stride: Ints) -> Floats:
    """Links that one member drives in a ring or direct collective, shared ones in parts [1].

    On a ring, ``stride`` groups lie between each other and share every link. A group that closes
    the ring sends half of each message each way; one that does not needs both directions of each
    link to close its logical ring. On a mesh a member has a link to every other.
    """
    if level.kind == "switch":
        return np.ones(len(members))
    if level.kind == "mesh":
        return np.maximum(members - 1, 1).astype(np.float64)
    directions = np.where(_closes(level, members, stride), 2.0, 1.0)
    links: Floats = directions / stride
    return links


def _exchange_links(level: Level, members: Ints, stride: Ints) -> Floats:
    """Bytes on the busiest link of an all_to_all, for one byte of every GPU [1].

    On a ring the shortest ways load each link with floor(m^2 / 4) pairs, in halves if the group
    closes the ring; the middle of an open group carries as many in each direction.
    """
    if level.kind == "switch":
        return (members - 1) / members
    if level.kind == "mesh":
        return 1 / members
    directions = np.where(_closes(level, members, stride), 2.0, 1.0)
    load: Floats = stride * (members**2 // 4) / (members * directions)
    return load


def _closes(level: Level, members: Ints, stride: Ints) -> Bools:
    """Whether a group goes all around its ring; two positions share one link."""
    closes: Bools = (members * stride == level.size) & (level.size > 2)  # noqa: PLR2004
    return closes

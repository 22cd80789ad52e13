"""Time of collectives as they were measured: protocols, ramps, reduction inside switches.

With the message D, c = (g-1)/g for the g members of a group (twice that of an all_reduce, 1 of a
broadcast or reduce), the members n_i at level i and M_i below it, and the bandwidth B_i of a link:

=========  ========================================================================================
small      a + l (n-1) + X, X = c D / (eta B): low latency; groups inside of one level only
large      sum_i (a_i + l_i (g/M_i - g/M_(i+1))) + max_i (X_i + 2 sqrt(r_i X_i)),
           X_i = c D / (M_i eta_i B_i): a ring of pipelined chunks, where each level fills its own
           pipeline; in an all_to_all of several levels X_i = D (g-M_i)/g / (eta_i B_i), through a
           mesh D/n_i / (eta_i B_i), and all steps are under way at once; where the domain, of n_1
           GPUs, hands over what is for other rails, its X is D (n_1-1)/n_1 / (eta B), and of the
           shorter of its time and the network's the share that does not overlap is added
in-switch  an all_reduce whose HB domain sums in its switches: there X = (1 + 1/n) D / (eta B), each
           GPU sends D and its reduced share, and no steps
beyond     more HB domains than switches sum for: the large all_reduce, with the step and efficiency
           of a ring that was measured on many of them
tree       an all_reduce of exactly two HB domains, which form their sums, exchange them and hand
           them out, all chunks at once: a + X + 2 sqrt(r X), X = max(D / (n eta B), Z), where a, r,
           eta are those of the network's tree and Z is what the domain's own all_reduce takes to
           send, in its switches if they sum; no faster than that all_reduce with its start and ramp
=========  ========================================================================================

The least of them counts. Start a, step l, efficiency eta and ramp r are those of the links' records
(`netplan.traffic.measured_links`), of a network those of its kind; levels with one member are
left out. A ring sends 2 (g-1)/g of D/n over each card between two domains, their tree D/n.
Broadcast and reduce are not measured and take those of an all_gather. A transfer of b bytes is an
all_to_all of 2 b among two. Rings, lines and meshes have no records: they keep the iteration
model's ring.

Forms and numbers are fitted on measured tables (AIConfigurator 0.12.0) and public nccl-tests runs.
Left out: reduction in the network's switches, and trees of more than two HB domains.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Literal, NamedTuple

import numpy as np

from netplan.arrays import Amount, Bools, Columns, Floats
from netplan.traffic.measured_links import MeasuredCollective, MeasuredLink
from netplan.workloads.operations import CollectiveKind

RegimeName = Literal["small", "large", "in-switch", "tree"]


class Ramped(Columns, frozen=True, eq=False):
    """Time in one level but for its start: slope x bytes + root x sqrt(bytes), an entry a group."""

    s_per_byte: Floats
    s_per_root: Floats

    @classmethod
    def of(cls, s_per_byte: Floats, ramp_s: Amount) -> "Ramped":
        """Bytes at a pace, in chunks whose pipeline takes so long to fill.

        Parameters
        ----------
        s_per_byte
            Time of a byte at the efficiency that was measured, shape (groups,) [s/B].
        ramp_s
            Ramp r of the formula, a number or shape (groups,) [s].

        Returns
        -------
        Ramped
            Slope, and root 2 sqrt(r x slope), shape (groups,) each [s/B], [s/sqrt(B)].
        """
        return cls(s_per_byte, 2 * np.sqrt(ramp_s * s_per_byte))


def forwarded(inside: Amount, network: Amount, overlap_share: Amount) -> Floats:
    """What is handed over inside HB domains and what then crosses the network, together.

    ::

        T = max(a, e) + (1 - o) * min(a, e)

    Parameters
    ----------
    inside, network
        Time inside domains and between them, a and e; or of a byte [s].
    overlap_share
        Share o of the shorter one that hides behind the longer: 0 adds them, 1 hides it [1].

    Returns
    -------
    Floats
        Of the shape that all of them broadcast to, in the same unit.

    References
    ----------
    o = 0: Wang et al. (arXiv:2307.12169), Eq. 21.

    Examples
    --------
    8 domains of 8 GPUs, of 450 GB/s inside and 50 GB/s outside: a ninth is added.

    >>> network = 7 / 8 / 50e9
    >>> round(float(forwarded(7 / 8 / 450e9, network, 0.0) / network), 4)
    1.1111
    """
    longer, shorter = np.maximum(inside, network), np.minimum(inside, network)
    both: Floats = longer + (1 - np.asarray(overlap_share)) * shorter
    return both


class Regime(Columns, frozen=True, eq=False):
    """One way to carry out a collective: a fixed time, and the slowest of the levels.

    The fixed time is infinite of groups that have no such way. Of the shorter of the innermost
    level's time and the others' the ``overlap_share`` hides [1].
    """

    name: RegimeName
    fixed_s: Floats
    levels: tuple[Ramped, ...]
    overlap_share: float = 1.0

    def _slowest_s(self, parts_s: Iterable[Floats]) -> Floats:
        """All levels at once, but for what is handed over first [s]."""
        inside, *outside = parts_s
        network: Floats = reduce(np.maximum, outside, np.zeros_like(inside))
        return forwarded(inside, network, self.overlap_share)

    def seconds(self, data_bytes: Amount) -> Floats:
        """Time for this many bytes [s].

        Parameters
        ----------
        data_bytes
            Message D, a number or shape (groups,) [B].

        Returns
        -------
        Floats
            Time, infinite of groups that have no such way, shape (groups,) [s].
        """
        root = np.sqrt(data_bytes)
        parts = (level.s_per_byte * data_bytes + level.s_per_root * root for level in self.levels)
        return self.fixed_s + self._slowest_s(parts)

    def sending_s(self, data_bytes: float) -> Floats:
        """The same without latencies and ramps [s]; infinite as the fixed time.

        Parameters
        ----------
        data_bytes
            Message D [B].

        Returns
        -------
        Floats
            Time of the bytes alone, shape (groups,) [s].
        """
        parts = (level.s_per_byte * data_bytes for level in self.levels)
        return np.where(np.isinf(self.fixed_s), np.inf, self._slowest_s(parts))


class Regimes(Columns, frozen=True, eq=False):
    """The fastest of several ways, one entry a group; a message of nothing takes no time.

    Examples
    --------
    >>> def way(name, fixed_s, s_per_byte):
    ...     return Regime(name, np.array([fixed_s]), (Ramped(np.array([s_per_byte]), np.zeros(1)),))
    >>> both = Regimes((way("small", 5e-6, 4e-11), way("large", 9e-6, 2e-11)))
    >>> both.seconds(1e5), both.seconds(1e6), both.names(1e6)
    (array([9.e-06]), array([2.9e-05]), array(['large'], dtype='<U5'))
    """

    ways: tuple[Regime, ...]

    def seconds(self, data_bytes: Amount) -> Floats:
        """Time for this many bytes [s].

        Parameters
        ----------
        data_bytes
            Message D, a number or shape (groups,) [B].

        Returns
        -------
        Floats
            Time of the fastest way, 0 without a message, shape (groups,) [s].
        """
        fastest = reduce(np.minimum, (way.seconds(data_bytes) for way in self.ways))
        return np.where(np.asarray(data_bytes) > 0, fastest, 0.0)

    def sending_s(self, data_bytes: float) -> Floats:
        """The same without latencies and ramps [s].

        Parameters
        ----------
        data_bytes
            Message D [B].

        Returns
        -------
        Floats
            Least time of the bytes alone, over all ways, shape (groups,) [s].
        """
        return reduce(np.minimum, (way.sending_s(data_bytes) for way in self.ways))

    def names(self, data_bytes: Amount) -> "np.ndarray[tuple[int, ...], np.dtype[np.str_]]":
        """Which way it is for this many bytes.

        Parameters
        ----------
        data_bytes
            Message D, a number or shape (groups,) [B].

        Returns
        -------
        numpy.ndarray
            Name of the fastest way, such as ``small``, shape (groups,).
        """
        every = np.stack([way.seconds(data_bytes) for way in self.ways])
        names: np.ndarray[tuple[int, ...], np.dtype[np.str_]] = np.array(
            [way.name for way in self.ways]
        )[every.argmin(axis=0)]
        return names


class LevelUse(NamedTuple):
    """How groups use one level.

    Parameters
    ----------
    link
        What was measured on its links; None takes ``step_s`` and the slope as they are.
    members, inside
        Members n_i of the level and M_i below it, shape (groups,) [1].
    s_per_byte
        Slope c / (M_i B_i) at the whole bandwidth, or at the iteration model's share of it without
        a record, shape (groups,) [s/B].
    link_bytes_per_s
        Bandwidth B_i [B/s].
    fixed_s
        Latency of all steps where nothing was measured [s].
    forwards
        Whether an all_to_all sends through this level what goes to members of others, too; links
        of a mesh carry what their own two ends exchange, and what other levels hand to them.
    """

    link: MeasuredLink | None
    members: Floats
    inside: Floats
    s_per_byte: Floats
    link_bytes_per_s: float
    fixed_s: Amount = 0.0
    forwards: bool = True


def regimes(
    kind: CollectiveKind, uses: Sequence[LevelUse], *, overlap_share: float = 1.0
) -> Regimes:
    """Ways to carry out a collective on some levels, the HB domain first (formulas of this module).

    Parameters
    ----------
    kind
        The collective.
    uses
        How the groups use each level, at least one.
    overlap_share
        Of what the HB domain hands over first, share that hides behind the other levels, or these
        behind it [1].

    Returns
    -------
    Regimes
        The ways, one entry a group.

    References
    ----------
    Fitted on tables of AIConfigurator 0.12.0 (NVIDIA, Apache-2.0) and public nccl-tests runs.

    Examples
    --------
    An all_gather of 8 GPUs with NVLink 4: 5.143 + 7 x 0.974 us + 7/8 x 200 kB / (0.266 x 450 GB/s).

    >>> from netplan.traffic.measured_links import MEASURED_LINKS
    >>> eight, one = np.array([8.0]), np.array([1.0])
    >>> domain = LevelUse(MEASURED_LINKS.load("nvlink-4"), eight, one, 7 / 8 / 450e9 * one, 450e9)
    >>> round(float(regimes("all_gather", [domain]).seconds(200e3)[0]) * 1e6, 3)
    13.423
    """
    group = reduce(np.multiply, (use.members for use in uses))
    several = sum((use.members > 1 for use in uses), np.zeros(group.shape, int)) > 1
    parts = [_large(kind, use, group, several) for use in uses]
    fixed = [fixed_s for fixed_s, _ in parts]
    levels = tuple(ramped for _, ramped in parts)
    ways = [Regime("large", sum(fixed, np.zeros(group.shape)), levels, overlap_share)]
    small = [measured_of(use.link, kind).small for use in uses if use.link]
    if any(small):
        ways.insert(0, _small(kind, uses, several))
    domain = uses[0]
    sums = _in_switch(domain, group)
    if kind == "all_reduce" and domain.link and domain.link.in_switch:
        ways.append(Regime("in-switch", sums[0] + sum(fixed[1:], 0.0), (sums[1], *levels[1:])))
    if kind == "all_reduce" and any(use.link and use.link.tree for use in uses[1:]):
        ways.append(_tree(uses, group, sums))
    return Regimes(tuple(ways))


def transfer(link: MeasuredLink, s_per_byte: Floats) -> Regimes:
    """Ways to send a message to one other GPU, timed as an all_to_all among two.

    Parameters
    ----------
    link
        What was measured on links of this kind.
    s_per_byte
        Time of a byte at the whole bandwidth, 0 where nothing is sent, shape (transfers,) [s/B].

    Returns
    -------
    Regimes
        The ways by the bytes that are sent, one entry a transfer.
    """
    members = np.where(s_per_byte > 0, 2.0, 1.0)
    alone = LevelUse(link, members, np.ones(members.shape), s_per_byte, np.inf)
    return regimes("all_to_all", [alone])


def measured_of(link: MeasuredLink, kind: CollectiveKind) -> MeasuredCollective:
    """What was measured of a collective; broadcasts and reductions are taken for all_gathers.

    Parameters
    ----------
    link
        The links that were measured.
    kind
        Which collective.

    Returns
    -------
    MeasuredCollective
        Its constants.
    """
    name = "all_gather" if kind in ("broadcast", "reduce") else kind
    measured: MeasuredCollective = getattr(link, name)
    return measured


def _large(
    kind: CollectiveKind, use: LevelUse, group: Floats, several: Bools
) -> tuple[Floats, Ramped]:
    """Fixed time of one level in a ring through all of them, and its time beyond that."""
    there = use.members > 1
    if use.link is None:
        return np.where(there, use.fixed_s, 0.0), Ramped.of(use.s_per_byte, 0.0)
    steps = np.where(there, group / use.inside - group / (use.inside * use.members), 0.0)
    sent = measured_of(use.link, kind).large
    step_s, efficiency = _ring_of(kind, use.link, use.members, group)
    slope = use.s_per_byte / efficiency
    if kind == "all_to_all":
        # All that leaves the members below, not what members of the level exchange.
        steps = np.where(several, 0.0, steps)
        share = (use.members - 1) / use.members
        leaving = (group - use.inside) / group if use.forwards else share
        slope = slope * np.where(there, leaving / np.where(there, share, 1), 0)
    fixed_s: Floats = there * sent.start_s + steps * step_s
    return fixed_s, Ramped.of(slope, sent.ramp_s)


def _ring_of(
    kind: CollectiveKind, link: MeasuredLink, members: Floats, group: Floats
) -> tuple[Amount, Amount]:
    """A step of a ring in one level [s], and its efficiency [1]: of many HB domains their own."""
    sent = measured_of(link, kind).large
    step_s: Amount = sent.step_s
    efficiency: Amount = sent.efficiency
    for row in link.in_switch if kind == "all_reduce" else ():
        if row.beyond and row.most_domains:
            far = (members >= row.least_members) & (group > row.most_domains * members)
            step_s = np.where(far, row.beyond.step_s, step_s)
            efficiency = np.where(far, row.beyond.efficiency, efficiency)
    return step_s, efficiency


def _small(kind: CollectiveKind, uses: Sequence[LevelUse], several: Bools) -> Regime:
    """Low latency, of groups that lie in one level for which it is known."""
    fixed_s = np.where(several, np.inf, 0.0)
    levels = []
    for use in uses:
        sent = measured_of(use.link, kind).small if use.link else None
        there = use.members > 1
        if sent is None:
            fixed_s = np.where(there, np.inf, fixed_s)
            continue
        fixed_s = fixed_s + there * (sent.start_s + sent.step_s * (use.members - 1))
        levels.append(Ramped.of(use.s_per_byte / sent.efficiency, 0.0))
    return Regime("small", fixed_s, tuple(levels))


def _tree(uses: Sequence[LevelUse], group: Floats, sums: tuple[Floats, Ramped]) -> Regime:
    """Two domains that exchange their sums; ``sums`` are those of the domain in its switches."""
    domain, *network = uses
    start_s, inside = _own_all_reduce(domain, group, sums)
    slope, root = np.zeros(group.shape), np.zeros(group.shape)
    fixed_s = np.where(group == 2 * domain.members, start_s, np.inf)
    for use in network:
        tree, two = use.link.tree if use.link else None, use.members > 1
        if tree is None:
            fixed_s = np.where(two, np.inf, fixed_s)
            continue
        # A ring sends 2 (g - 1) / g of the message.
        whole = use.s_per_byte * group / np.maximum(2 * (group - 1), 1)
        sent = Ramped.of(np.maximum(whole / tree.efficiency, inside.s_per_byte), tree.ramp_s)
        slope = np.where(two, sent.s_per_byte, slope)
        root = np.where(two, sent.s_per_root, root)
        alone = two & np.isinf(sums[0]) & tree.needs_sums
        fixed_s = np.where(two, np.maximum(fixed_s, np.where(alone, np.inf, tree.start_s)), fixed_s)
    return Regime("tree", fixed_s, (Ramped(slope, root), inside))


def _own_all_reduce(
    domain: LevelUse, group: Floats, sums: tuple[Floats, Ramped]
) -> tuple[Floats, Ramped]:
    """Start of each domain's own all_reduce, and its time: in its switches if they sum."""
    members = domain.members
    share = (1 - 1 / members) / np.maximum(1 - 1 / group, np.finfo(float).tiny)
    alone = domain._replace(inside=np.ones(members.shape), s_per_byte=domain.s_per_byte * share)
    start_s, ring = _large("all_reduce", alone, members, np.zeros(members.shape, np.bool_))
    mine_s, mine = sums
    alone_s = np.isinf(mine_s)
    slope = np.where(alone_s, ring.s_per_byte, mine.s_per_byte)
    root = np.where(alone_s, ring.s_per_root, mine.s_per_root)
    return np.where(alone_s, start_s, mine_s), Ramped(slope, root)


def _in_switch(domain: LevelUse, group: Floats) -> tuple[Floats, Ramped]:
    """Start of a domain that sums in its switches, infinite where it cannot, and its time."""
    members = domain.members
    start_s, efficiency = np.full(group.shape, np.inf), np.ones(group.shape)
    ramp_s = np.zeros(group.shape)
    for row in domain.link.in_switch if domain.link else ():
        here = members >= row.least_members
        most = np.inf if row.most_domains is None else row.most_domains
        start_s = np.where(here, np.where(group <= most * members, row.start_s, np.inf), start_s)
        efficiency = np.where(here, row.efficiency, efficiency)
        ramp_s = np.where(here, row.ramp_s, ramp_s)
    s_per_byte = (1 + 1 / members) / (efficiency * domain.link_bytes_per_s)
    return start_s, Ramped.of(np.where(members > 1, s_per_byte, 0.0), ramp_s)

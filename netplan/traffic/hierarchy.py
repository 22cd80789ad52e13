"""Time of one collective on several levels: the one engine.

A collective is carried out by a group of GPUs that has m_1, ..., m_k members in levels 1 to k, from
the inside to the outside; g is their product and M_i = m_1 ... m_(i-1). The message D is cut into c
equal chunks, and a level serves one chunk at a time, so every chunk pays all latencies: more chunks
are not always faster. What level i takes for one chunk, t_i, depends on its algorithm
(`netplan.traffic.algorithms`); a *schedule* composes the levels:

``per_dimension``
    The collective runs through the levels one after the other, an all_gather from k to 1, the
    others from 1 to k. Level i works on D/(c*M_i) bytes in a reduce_scatter or an all_gather and
    on D/c in the others. Chunks follow like work pieces through machines:
    T = sum_i t_i + (c-1) * max_i t_i.
``hierarchical``
    As above, but an all_reduce is a reduce_scatter 1..k and an all_gather k..1: level i works on
    D/(c*M_i) bytes, so that the slow outer levels carry little. With t_i for both phases of one
    chunk, T = max(c*t_1, max_{i>=2}(c*t_i + t_1 + ... + t_{i-1})). Any order of service takes at
    least this long. First come first served takes exactly this long on two levels if the outer one
    finishes a chunk in one go (else up to 6 % longer in simulations), and up to 20 % longer on
    three or four. A broadcast or reduce is shared by the M_i inner members in the same way.
``flat_ring``
    One ring through all members, all levels at once, of which the M_i members below a level share
    the work there: T = max_i C*D/(M_i*k_i*B_i) + c * sum_i tau_i*(g/M_i - g/M_(i+1)), where
    C = (g-1)/g, or 1 for a broadcast. In an all_to_all every level works on D in m_i - 1 steps.

On networks that join GPUs of one rank of their HB domains alone, an all_to_all of a training run
hands what is for other rails to the GPU on that rail first: D (x-1)/x inside domains of x GPUs, and
the network's own time follows, but for the ``overlap_share`` of the shorter of both that hides
behind the longer (0: arXiv:2307.12169, Eq. 21). A phased one on switches that join all GPUs keeps
inside domains what is for these, and works on all levels at once (Eq. 20).

An iteration model has *communication* parameters: a schedule and a share of the bandwidth. ``ring``
models (arXiv:2410.00273, Sec. III) run one ``flat_ring``; ``phased`` ones (arXiv:2307.12169, Eq. 1)
are ``hierarchical``. Their `CollectiveNetwork` times groups of GPUs for all placements at once. In
one chunk every time is affine in the message, seconds = slope x bytes + fixed, in several the
longest of such times. An all_to_all takes m - 1 steps on a ring. ``measured`` collectives are rings
too, whose times bend with the message (`netplan.traffic.measured`).

Sources: ASTRA-sim 2.0 (Won et al. 2023), whose analytical backends give these times; COMET
(arXiv:2211.16648), Sec. V-B4 for the hierarchical all_reduce; arXiv:2410.00273, Sec. III for the
flat ring in two tiers. Left out: unequal chunks, several chunks in service at a level, contention
with other collectives.
"""

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Literal, get_args

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Counts, Floats, Ints
from netplan.errors import InputError
from netplan.inputs.choices import Mode
from netplan.levels import CHAINED, Level
from netplan.records import replace
from netplan.traffic import algorithms
from netplan.traffic.leaves import Working, hop_slowdowns
from netplan.traffic.measured import LevelUse, Regimes, forwarded, measured_of, regimes, transfer
from netplan.traffic.measured_links import MeasuredLink, MeasuredLinks
from netplan.traffic.placement import DIMENSIONS, PIPELINE, Placement, Placements
from netplan.workloads.operations import COPIES, EXPERTS, CollectiveKind

Schedule = Literal["hierarchical", "per_dimension", "flat_ring"]

_SHARED: dict[Schedule, tuple[CollectiveKind, ...]] = {
    "per_dimension": ("all_gather", "reduce_scatter"),
    "hierarchical": ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce"),
    "flat_ring": ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce"),
}
"""Collectives in which the members below a level share the message there."""


class Group(Struct, frozen=True, eq=False):
    """Members of one communicator at each level, ``stride`` apart; (levels, groups) [1].

    ``working`` are the members of each level at work, of any group; None counts all [1].
    """

    members: Ints
    stride: Ints
    working: Ints | None = None

    def at_work(self, level: int) -> Working | None:
        """GPUs below each member of a level, and its members, that work; None counts all [1]."""
        if self.working is None:
            return None
        return Working(self.working[:level].prod(axis=0), self.working[level])


def group_time(
    kind: CollectiveKind,
    levels: Sequence[algorithms.AnyLevel],
    group: Group | None,
    *,
    methods: Sequence[str | None],
    schedule: Schedule = "hierarchical",
    shares: Sequence[float] | None = None,
) -> algorithms.Affine:
    """Time of a collective in one chunk, for many groups at once.

    Parameters
    ----------
    kind, levels, schedule
        The collective, the levels from the inside to the outside, and how they are composed.
    group
        Its members at each level; entries lie in different ways. None takes all members.
    methods
        Name of the algorithm of each level; None takes the default of its kind.
    shares
        Share of the rate of each level that messages get; None all of it [1].

    Returns
    -------
    Affine
        Of shape (groups,): s per byte of the full message D, and fixed seconds.

    Examples
    --------
    >>> from netplan.levels import Level
    >>> tiers = Level("switch", 8, 450e9), Level("switch", 8, 50e9)
    >>> halves = Group(np.array([[8, 1], [1, 8]]), np.array([[1, 1], [1, 1]]))
    >>> group_time("all_gather", tiers, halves, methods=[None, None]).seconds(1e9)
    array([0.00194444, 0.0175    ])
    """
    slopes, fixed_s, _ = zip(
        *_level_times(kind, levels, group, methods, schedule, shares), strict=True
    )
    join = np.maximum if schedule == "flat_ring" else np.add
    return algorithms.Affine(reduce(join, slopes), reduce(np.add, fixed_s))


def _chunked(
    kind: CollectiveKind, times: Sequence[algorithms.LevelTime], schedule: Schedule, chunks: int
) -> algorithms.CombinedTime:
    """Time in chunks: of each level, if it had the most to do (formulas of this module)."""
    if schedule == "flat_ring":
        slopes, latencies, _ = zip(*times, strict=True)
        return algorithms.CombinedTime(
            (algorithms.Affine(reduce(np.maximum, slopes), chunks * reduce(np.add, latencies)),)
        )
    ahead = kind == "all_reduce" and schedule == "hierarchical"
    candidates = []
    for index, busiest in enumerate(times):
        # All chunks pass the busiest level, one of them those below it, or all others.
        others = times[:index] if ahead else (*times[:index], *times[index + 1 :])
        follow = 1 + (chunks - 1) / busiest.stations
        slope = busiest.s_per_byte * follow + sum(time.s_per_byte for time in others)
        fixed_s = busiest.fixed_s * follow + sum(time.fixed_s for time in others)
        candidates.append(algorithms.Affine(slope / chunks, fixed_s))
    return algorithms.CombinedTime(tuple(candidates))


def _level_times(
    kind: CollectiveKind,
    levels: Sequence[algorithms.AnyLevel],
    group: Group | None,
    methods: Sequence[str | None],
    schedule: Schedule,
    shares: Sequence[float] | None = None,
) -> Iterator[algorithms.LevelTime]:
    """Time of one chunk in each level at a share of its rate; whole levels if there is no group."""
    every = [level.size for level in levels] if group is None else group.members
    strides = [1.0] * len(levels) if group is None else group.stride
    members = [np.asarray(here, dtype=np.float64) for here in every]
    ring = np.asarray(math.prod(members)) if schedule == "flat_ring" else None
    inside: Amount = 1.0
    shares = shares or [1.0] * len(levels)
    rows = enumerate(zip(levels, members, strides, methods, shares, strict=True))
    for index, (level, here, stride, method, share) in rows:
        working = None
        if group is not None and isinstance(level, Level) and level.tiers:
            working = group.at_work(index)
        span = algorithms.MemberRange(level, here, stride, inside, ring, working)
        yield algorithms.level_span_time(kind, span, method, share)
        if kind in _SHARED[schedule]:
            inside = inside * here


def collective_s(
    collective: CollectiveKind,
    levels: Sequence[algorithms.AnyLevel],
    *,
    data_bytes: Amount,
    algorithm: str | Sequence[str | None] | None = None,
    chunks: Counts = 1,
    schedule: Schedule = "hierarchical",
) -> Amount:
    """Time of one collective on a product of levels (formulas of this module) [s].

    Parameters
    ----------
    collective
        One of `CollectiveKind`, such as ``all_gather``.
    levels
        Levels from the inside to the outside; those of size 1 cost nothing.
    data_bytes
        Full message D: the gathered result of an all_gather, else the input of one GPU [B].
    algorithm
        A name or None (the default of each level's kind); a sequence of them gives
        each level its own.
    chunks
        Equal parts that the message is cut into [1].
    schedule
        ``hierarchical``, ``per_dimension`` or ``flat_ring`` (formulas of this module).

    Returns
    -------
    float or array
        Time of the collective, of the shape that all numbers of all levels broadcast to [s].

    Raises
    ------
    InputError
        If there is no level, or a name, a number or an algorithm for its level is not allowed.

    Examples
    --------
    >>> from netplan.levels import Level
    >>> domain, network = Level("switch", 8, 450e9), Level("switch", 8, 50e9)
    >>> collective_s("all_gather", [domain, network], data_bytes=1e9)
    0.0041319
    >>> collective_s("all_gather", [domain, network], data_bytes=1e9, chunks=4)
    0.0026736
    """
    algorithms.check_number("data_bytes", data_bytes)
    algorithms.check_number("chunks", chunks, minimum=1, whole=True)
    if not levels:
        raise InputError("a collective needs at least one level, got none: give a Level")
    methods: Sequence[str | None] = algorithm or [None] * len(levels)
    if isinstance(algorithm, str):
        methods = [algorithm] * len(levels)
    if len(methods) != len(levels):
        raise InputError(
            f"got {len(methods)} algorithms for {len(levels)} levels: give one, or one per level"
        )
    algorithms.check_choice("collective", collective, get_args(CollectiveKind))
    algorithms.check_choice("schedule", schedule, get_args(Schedule))
    if schedule == "flat_ring":
        ring_time = group_time(collective, levels, None, methods=methods, schedule=schedule)
        return algorithms.as_amount(ring_time.s_per_byte * data_bytes + chunks * ring_time.fixed_s)
    times = list(_level_times(collective, levels, None, methods, schedule))
    chunk_bytes = algorithms.as_amount(np.divide(data_bytes, chunks))
    rows = [time.s_per_byte * chunk_bytes + time.fixed_s for time in times]
    both = np.broadcast_arrays(*rows, *(np.asarray(time.stations, float) for time in times))
    times_s, stations = np.stack(both[: len(rows)]), np.stack(both[len(rows) :])
    if collective == "all_reduce" and schedule == "hierarchical":
        below_s = np.cumsum(times_s, axis=0) - times_s
        return algorithms.as_amount((np.asarray(chunks) * times_s + below_s).max(axis=0))
    slowest_s = (times_s / stations).max(axis=0)
    return algorithms.as_amount(times_s.sum(axis=0) + (np.asarray(chunks) - 1) * slowest_s)


class Communication(Struct, frozen=True):
    """How an iteration model composes levels, and the share of the bandwidth that messages get.

    Messages are cut into equal ``chunks``. On measured ``links`` switches take what was measured
    there (`netplan.traffic.measured`), other levels a ring at that share of the bandwidth. With
    ``direct`` an HB domain that is a mesh starts messages as one of switches does, at the rate of
    its own links, and sums in no switch. A named ``algorithm`` is taken level by level, where it
    carries out the collective on levels of the kind; of measured links it has start, steps and
    efficiency of a ring. With an ``overlap_share`` an all_to_all knows which GPUs the network joins
    (formulas of this module); without, every network carries it alike.
    """

    schedule: Schedule
    bandwidth_efficiency: float = 1.0
    chunks: int = 1
    links: MeasuredLinks | None = None
    direct: bool = False
    algorithm: str | None = None
    overlap_share: float | None = None

    def link(self, index: int, level: Level) -> MeasuredLink | None:
        """What was measured on the links of a level, the HB domain first."""
        if self.links is None:
            return None
        if self.direct and not index and level.kind == "mesh":
            return replace(self.links.domain, in_switch=())
        if level.kind != "switch":
            return None
        return self.links.network(level.network_kind) if index else self.links.domain


def group_of(placements: Placements, *dimensions: int, whole: bool = False) -> Group:
    """The GPUs that differ only in these dimensions; groups over those before lie in between.

    Placements that are ``whole``, with all degrees of their plans, tell which GPUs work.

    Examples
    --------
    >>> from netplan.traffic.placement import DATA, all_placements
    >>> group_of(all_placements((4,), limits=(2, 1, 1, 2, 1)), DATA).stride
    array([[2]])
    """
    degrees = placements.degrees
    members = degrees[:, list(dimensions)].prod(axis=1)
    stride = degrees[:, : min(dimensions)].prod(axis=1)
    for dimension in sorted({*range(min(dimensions), max(dimensions))} - {*dimensions}):
        beyond = degrees[:, [outer for outer in dimensions if outer > dimension]].prod(axis=1)
        stride = np.where(beyond > 1, stride * degrees[:, dimension], stride)
    if not whole or placements.sizes is None:
        return Group(members, stride)
    return Group(members, stride, degrees.prod(axis=1))


def group_over(placement: Placement, *dimensions: str) -> Group:
    """The GPUs of one placement that differ in these dimensions, or that folded experts join.

    Examples
    --------
    >>> from netplan.traffic.placement import Degrees, Folding
    >>> placement = Placement((Degrees(tensor=8), Degrees(data=4)), folded=Folding(16, 1))
    >>> group_over(placement, "experts").members.ravel().tolist()
    [8, 2]
    """
    placements = Placements.of(placement)
    if dimensions not in (EXPERTS, COPIES):
        return group_of(placements, *map(DIMENSIONS.index, dimensions), whole=True)
    members, stride = np.array(placement.of_experts(dimensions), dtype=np.int64).T[:, :, None]
    if placements.sizes is None:
        return Group(members, stride)
    return Group(members, stride, placements.degrees.prod(axis=1))


class CollectiveNetwork(Struct, frozen=True):
    """The levels of a fabric under an iteration model's communication."""

    levels: tuple[Level, ...]
    communication: Communication
    mode: Mode = "corrected"

    def collective(self, kind: CollectiveKind, group: Group) -> algorithms.CollectiveTime:
        """Time of a collective over every group.

        Mode ``published-code`` repeats a slip: an all_reduce costs a reduce_scatter, of which only
        the bandwidth part is doubled, and only if the group lies on several levels.
        """
        used, levels = self.communication, self.levels
        schedule, shares = used.schedule, [used.bandwidth_efficiency] * len(levels)
        if used.links is not None and used.algorithm is None:
            return self._measured(kind, group)
        start_s: Amount = 0.0
        if used.algorithm is not None:
            schedule = "hierarchical"
            levels, shares, start_s = self._as_measured(kind, group)
        slips = self.mode == "published-code" and kind == "all_reduce"
        methods = [self._algorithm(kind, level) for level in levels]
        if used.chunks > 1:
            times = list(_level_times(kind, levels, group, methods, schedule, shares))
            return _chunked(kind, times, schedule, used.chunks)
        if kind == "all_to_all" and used.overlap_share is not None:
            times = list(_level_times(kind, levels, group, methods, schedule, shares))
            slope = self._exchange_slope(times, group, schedule)
            latency_s = reduce(np.add, (np.asarray(time.fixed_s) for time in times))
            return algorithms.Affine(slope, latency_s + start_s)
        if slips:
            kind = "reduce_scatter"
        time = group_time(kind, levels, group, methods=methods, schedule=schedule, shares=shares)
        if not slips:
            return (
                time
                if used.algorithm is None
                else algorithms.Affine(time.s_per_byte, time.fixed_s + start_s)
            )
        several = (group.members > 1).sum(axis=0) > 1
        return algorithms.Affine(time.s_per_byte * np.where(several, 2.0, 1.0), time.fixed_s)

    @property
    def forwards(self) -> bool:
        """Whether what is for other rails is handed over inside HB domains."""
        known = self.communication.overlap_share is not None
        return known and any(level.same_rank for level in self.levels[1:])

    def _exchange_slope(
        self, times: Sequence[algorithms.LevelTime], group: Group, schedule: Schedule
    ) -> Floats:
        """Time of a byte of an all_to_all, by whom the network joins (formulas of this module)."""
        inside, *outside = (np.asarray(time.s_per_byte) for time in times)
        phased = schedule == "hierarchical"
        network = reduce(np.add if phased else np.maximum, outside, np.zeros_like(inside))
        if self.forwards:
            return forwarded(inside, network, self.communication.overlap_share or 0.0)
        if phased and any(level.kind != "switch" for level in self.levels[1:]):
            return np.asarray(inside + network)
        domains = group.members[1:].prod(axis=0) if phased else 1
        return np.maximum(inside / domains, network)

    def _algorithm(self, kind: CollectiveKind, level: Level) -> str | None:
        """The named algorithm where it runs; else the default, in steps round a ring."""
        named = self.communication.algorithm
        if named is not None and algorithms.algorithm_of(named).runs(kind, level.kind):
            return named
        return "pairwise" if kind == "all_to_all" and level.kind == "ring" else None

    def _as_measured(
        self, kind: CollectiveKind, group: Group
    ) -> tuple[tuple[Level, ...], list[float], Floats]:
        """Levels with the steps, the efficiency and the start of a ring that were measured."""
        levels, share = list(self.levels), self.communication.bandwidth_efficiency
        shares = [share] * len(levels)
        start_s = np.zeros(group.members.shape[1])
        for index, level in enumerate(self.levels):
            link = self.communication.link(index, level)
            if link is not None:
                ring = measured_of(link, kind).large
                # All steps of an all_reduce, in both of its phases, were measured as one ring.
                step_s = ring.step_s / (2 if kind == "all_reduce" else 1)
                levels[index] = replace(level, link_latency_s=0.0, step_latency_s=step_s)
                shares[index] = ring.efficiency
                start_s += np.where(group.members[index] > 1, ring.start_s, 0.0)
        return tuple(levels), shares, start_s

    @property
    def bandwidth_share(self) -> float:
        """Share of the links' bandwidth that messages get; of measured ones the records say it."""
        if all(self.communication.link(index, level) for index, level in enumerate(self.levels)):
            return 1.0
        return self.communication.bandwidth_efficiency

    def _measured(self, kind: CollectiveKind, group: Group) -> Regimes:
        """Time of a collective on measured links, at what leaves that block leave of the rate."""
        links = [self.communication.link(index, level) for index, level in enumerate(self.levels)]
        # Of measured links the record has the share of the bandwidth.
        shares = [1.0 if link else self.communication.bandwidth_efficiency for link in links]
        methods = [None] * len(links)
        times = _level_times(kind, self.levels, group, methods, "flat_ring", shares)
        members = group.members.astype(np.float64)
        inside = np.cumprod(members, axis=0) / members
        rows = zip(self.levels, links, times, members, inside, strict=True)
        hands_over = self.forwards and kind == "all_to_all"
        uses = [
            LevelUse(
                link,
                here,
                below,
                time.s_per_byte,
                level.link_bytes_per_s,
                time.fixed_s,
                forwards=level.kind == "switch",
            )
            for level, link, time, here, below in rows
        ]
        if not hands_over:
            return regimes(kind, uses)
        # What a domain hands over is what leaves the GPU for other ranks, wherever it goes then.
        uses[0] = uses[0]._replace(forwards=False)
        return regimes(kind, uses, overlap_share=self.communication.overlap_share or 0.0)

    def transfer_s(self, index: int, stride: Counts, sent_bytes: float) -> float:
        """Time of one message to the GPU so many places on at a level, alone there [s]."""
        level, used = self.levels[index], self.communication
        if used.link(index, level) is not None:
            return float(self._transfer(index, np.ones(1), np.zeros(1)).seconds(sent_bytes)[0])
        seconds = sent_bytes / (used.bandwidth_efficiency * level.link_bytes_per_s)
        return seconds + float(level.hop_s(stride))

    def _transfer(
        self, index: int, slowdown: Floats, latency_s: Floats
    ) -> algorithms.Affine | Regimes:
        """Time of a message at a level, so many times as long as alone; 0 where there is none."""
        level, used = self.levels[index], self.communication
        s_per_byte, link = slowdown / level.link_bytes_per_s, used.link(index, level)
        if link is None:
            return algorithms.Affine(s_per_byte / used.bandwidth_efficiency, latency_s)
        return transfer(link, s_per_byte)

    def hops(self, placements: Placements) -> tuple[algorithms.HopTime, algorithms.HopTime]:
        """Transfers between pipeline stages: all hops from first to last, and the slowest hop.

        A pipeline of degrees p_1 ... p_k over the levels has (p_i - 1) x p_(i+1) x ... x p_k hops
        at level i (Eq. 4 of arXiv:2307.12169). On a ring or line, pipelines that lie between each
        other share the links; where leaves block, only hops from one to another are slowed
        (`netplan.traffic.leaves`). Without a pipeline the slowest hop is one of the innermost
        level, which Eq. 6 charges all the same.

        Mode ``published-code`` repeats a slip of the 4D model's code: if stages share the innermost
        level, hops on the other levels are free.
        """
        group = group_of(placements, PIPELINE, whole=True)
        stages = group.members
        hops = (stages - 1) * (placements.totals[PIPELINE] // np.cumprod(stages, axis=0))
        if self.mode == "published-code":
            hops[1:, stages[0] > 1] = 0
        chained = np.array([[level.kind in CHAINED] for level in self.levels])
        links_bytes_per_s = np.array([[level.link_bytes_per_s] for level in self.levels])
        shared = np.where(chained & (stages > 1), group.stride, 1)
        s_per_byte = shared / (self.communication.bandwidth_efficiency * links_bytes_per_s)
        on_average, crossing = self._slowdowns(group)
        apart = zip(self.levels, np.where(stages > 1, group.stride, 1), strict=True)
        hop_s = np.stack([level.hop_s(stride) + np.zeros(len(stride)) for level, stride in apart])
        if self.communication.links is not None:
            latency_s = np.where(stages > 1, hop_s, 0.0)
            mean, slowest = (
                self._transfers(group, slower, latency_s) for slower in (on_average, crossing)
            )
            return algorithms.CombinedTime(mean, tuple(hops)), algorithms.CombinedTime(slowest)
        fill = (hops * s_per_byte * on_average).sum(axis=0)
        s_per_byte = s_per_byte * crossing
        slowest_level = np.where(stages > 1, s_per_byte, 0.0).argmax(axis=0)
        return (
            algorithms.Affine(fill, (hops * hop_s).sum(axis=0)),
            algorithms.Affine(
                *(part[slowest_level, np.arange(placements.count)] for part in (s_per_byte, hop_s))
            ),
        )

    def slowest_hop_s(self, placements: Placements) -> Floats:
        """What a byte of the slowest hop takes, but for its latency [s], as of :meth:`hops`."""
        if self.communication.links is None:
            return self.hops(placements)[1].sending_s(1.0)
        group = group_of(placements, PIPELINE, whole=True)
        _, crossing = self._slowdowns(group)
        return algorithms.CombinedTime(
            self._transfers(group, crossing, np.zeros(crossing.shape))
        ).sending_s(1.0)

    def _transfers(
        self, group: Group, slower: Floats, latency_s: Floats
    ) -> tuple[algorithms.Affine | Regimes, ...]:
        """Transfers at each level, so many times as long as alone; none where a level has none."""
        several = group.members > 1
        chained = np.array([[level.kind in CHAINED] for level in self.levels])
        shared = np.where(several, np.where(chained, group.stride, 1), 0.0)
        return tuple(map(self._transfer, range(len(self.levels)), shared * slower, latency_s))

    def _slowdowns(self, pipeline: Group) -> tuple[Floats, Floats]:
        """How much longer hops take at each level, shape (levels, groups): mean, crossing [1]."""
        mean, crossing = np.ones((2, *pipeline.members.shape))
        for index, level in enumerate(self.levels):
            if level.tiers:
                stages, stride = pipeline.members[index], pipeline.stride[index]
                working, inside = pipeline.at_work(index), pipeline.members[:index].prod(axis=0)
                slower = hop_slowdowns(level, stages, stride, working, inside=inside)
                mean[index], crossing[index] = slower
        return mean, crossing

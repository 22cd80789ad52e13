"""Time of one collective in one level, by the usual latency-bandwidth model.

======  =======================================================================================
m       members of the group in this level; m = 1 costs nothing
D       full message [B]: the gathered result of an all_gather, else the input of one GPU;
        in an all_to_all a pair exchanges D/m
B       bandwidth of one link, one direction, times its efficiency [B/s]
k       links that a member drives with all of them: 1 on a switch, m-1 on a mesh; on a ring 2 if
        the group closes the ring, else 1, as on a line. The ``stride`` groups that lie between each
        other's members share the links of a ring or line, so that k falls to k/stride
M       members below this level, who share the message of all but an all_to_all
tau     latency of one step [s]: h*L + d, that is h links of latency L and the delay d in the GPU;
        on a line from one member to the next, over ``stride`` links
======  =======================================================================================

==================  =================================  =========================================
algorithm           reduce_scatter, all_gather         all_to_all
==================  =================================  =========================================
ring                (m-1) * (D/(mMB) + tau)            m(m-1)/2 * (D/(mB) + tau)
bidirectional_ring  (m-1) * (D/(2mMB) + tau)           floor(m^2/4) * D/(2mB) + floor(m/2)*L + d
rings               (m-1) * (D/(mMkB) + tau)
pairwise                                               as direct, on a ring as above: (m-1) * tau
halving_doubling    (m-1)/m * D/(MB) + log2(m) * tau
direct, mesh        D/(mMB) + tau                      D/(mB) + tau
direct, switch      (m-1)/m * D/(MB) + tau             as on the left: m-1 messages share a port
==================  =================================  =========================================

===================  ==========================================================================
algorithm            broadcast, reduce
===================  ==========================================================================
rings                D/(MkB) + (m-1) * tau: a chain of very many chunks; bidirectional_ring too
direct               D/(MkB) + tau
chain                (m-1) * (D/(MB) + tau), one step more for each further chunk
bidirectional_chain  ceil((m-1)/2) * (D/(MB) + tau): half the members each way
binomial_tree        ceil(log2 m) * (D/(MB) + tau) on a switch
scatter_all_gather   both direct: twice the all_gather above
===================  ==========================================================================

An all_reduce is a reduce_scatter and an all_gather of the same D. Two members share one link, so
among two a bidirectional ring is a plain one. A ring laid on a switch or a mesh takes their tau.
On a line ``bidirectional_ring`` sends all pieces both ways: a gather takes (m-1) * (D/(mB) + tau),
since the ends have one link, and an all_to_all floor(m^2/4) * D/(mB) + (m-1)*L + d, since half of
the members face the others across the middle.
``rings`` go on through further levels (`netplan.traffic.hierarchy`). Where leaves block, B is what
they leave of it (`netplan.traffic.leaves`).

Sources: Thakur, Rabenseifner and Gropp 2005 (ring, halving-doubling, broadcasts); ASTRA-sim 2.0
(2023), whose analytical backends give these times; arXiv:2307.12169 and arXiv:2410.00273 (groups
in levels). Left out: contention between collectives, reduction inside switches.
"""

from functools import reduce
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Bools, Counts, Floats, Ints
from netplan.errors import InputError
from netplan.levels import CHAINED, LINKS_PER_STEP, Level, LevelKind
from netplan.traffic.leaves import Working, collective_slowdown
from netplan.traffic.measured import Regimes
from netplan.workloads.operations import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Collective = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all"]
Broadcast = Literal["chain", "bidirectional_chain", "binomial_tree", "scatter_all_gather"]
Algorithm = Literal[
    "ring",
    "bidirectional_ring",
    "rings",
    "pairwise",
    "halving_doubling",
    "direct",
    "unphysical_direct",
    Broadcast,
]
Forwarding = Literal["cut_through", "store_and_forward"]
ReductionCharge = Literal["ring", "per_algorithm"]

DEFAULT_ALGORITHM: dict[LevelKind, Algorithm] = {
    "switch": "direct",
    "ring": "bidirectional_ring",
    "line": "bidirectional_ring",
    "mesh": "direct",
}


class Support(NamedTuple):
    """Where an algorithm runs, and what it does there."""

    level_kinds: tuple[LevelKind, ...]
    collectives: tuple[CollectiveKind, ...]


_GATHERS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce")
_SPREADS: tuple[CollectiveKind, ...] = ("broadcast", "reduce")

ALGORITHMS: dict[Algorithm, Support] = {
    "ring": Support(("ring", "switch", "mesh"), (*_GATHERS, "all_to_all")),
    # A switch port is one link: nothing to split over.
    "bidirectional_ring": Support((*CHAINED, "mesh"), (*_GATHERS, "all_to_all", *_SPREADS)),
    "rings": Support((*CHAINED, "switch", "mesh"), (*_GATHERS, *_SPREADS)),
    "pairwise": Support((*CHAINED, "switch", "mesh"), ("all_to_all",)),
    "halving_doubling": Support(("switch",), _GATHERS),
    "direct": Support(("switch", "mesh"), (*_GATHERS, "all_to_all", *_SPREADS)),
    "unphysical_direct": Support(("switch", "mesh"), (*_GATHERS, "all_to_all")),
    "chain": Support((*CHAINED, "switch", "mesh"), _SPREADS),
    # The root needs two links.
    "bidirectional_chain": Support(("ring", "mesh"), _SPREADS),
    "binomial_tree": Support(("switch",), _SPREADS),
    "scatter_all_gather": Support(("switch", "mesh"), _SPREADS),
}
"""What each algorithm supports: the one table, which commands can offer."""


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise InputError if `value` is not one of the `allowed` names.

    >>> check_choice("forwarding", "cut_through", ("cut_through", "store_and_forward"))
    """
    if value not in allowed:
        raise InputError(f"unknown {name} {value!r}: use one of {', '.join(allowed)}")


def check_number(
    name: str, value: "ArrayLike", *, minimum: float | None = 0.0, whole: bool = False
) -> None:
    """Raise InputError if an element is not finite, not `whole` or below `minimum` (None: not > 0).

    >>> check_number("chunks", 4, minimum=1, whole=True)
    """
    numbers = np.asarray(value, dtype=np.float64)
    good = np.isfinite(numbers) & ((numbers > 0) if minimum is None else (numbers >= minimum))
    if whole:
        good &= numbers == np.floor(numbers)
    if not np.all(good):
        kind = "a whole number" if whole else "a finite number"
        limit = "above 0" if minimum is None else f"of at least {minimum:g}"
        raise InputError(f"{name}: got {numbers[~good].flat[0]:g}, use {kind} {limit}")


def plain(values: "ArrayLike") -> Amount:
    """Return an array of no dimension as a float, any other as it is.

    >>> plain(np.float64(0.5))
    0.5
    """
    array = np.asarray(values, dtype=np.float64)
    return float(array) if array.ndim == 0 else array


class LevelArrays(Struct, frozen=True, eq=False):
    """One level of many plans at once: the fields of `Level`, as numbers or arrays that broadcast.

    Examples
    --------
    >>> LevelArrays("switch", np.array([1, 2, 8]), 450e9).kind
    'switch'
    """

    kind: LevelKind
    size: Counts
    link_bytes_per_s: Amount
    link_latency_s: Amount = 0.0
    step_latency_s: Amount = 0.0

    def __post_init__(self) -> None:
        """Raise InputError for what no hardware can be."""
        check_choice("level kind", self.kind, get_args(LevelKind))
        check_number("size of a level", self.size, minimum=1, whole=True)
        check_number("link_bytes_per_s", self.link_bytes_per_s, minimum=None)
        check_number("link_latency_s", self.link_latency_s)
        check_number("step_latency_s", self.step_latency_s)

    @property
    def step_s(self) -> Amount:
        """Latency of one step of a collective: links crossed x their latency, plus delay [s]."""
        return LINKS_PER_STEP[self.kind] * self.link_latency_s + self.step_latency_s


class Method(Struct, frozen=True, eq=False):
    """How a collective is carried out in a level.

    Parameters
    ----------
    algorithm
        None takes the default of the level's kind. ``unphysical_direct`` lets all messages leave a
        switch port at the same time, D/(mB) + tau: only to compare with simulators that do so.
    forwarding
        ``store_and_forward`` switches receive a whole message before they send it on.
    memory_bytes_per_s
        Memory bandwidth of one GPU, for the reductions [B/s]; None reduces for free. Each reduced
        byte is accessed three times.
    reduction_charge
        ``ring`` charges every GPU its (m-1)/m * D reduced bytes; ``per_algorithm`` charges direct
        and halving-doubling less, as ASTRA-sim does: only to compare with it.
    bandwidth_efficiency
        Share of the links' bandwidth that messages get [1].

    Examples
    --------
    >>> Method("halving_doubling").forwarding
    'cut_through'
    """

    algorithm: Algorithm | None = None
    forwarding: Forwarding = "cut_through"
    memory_bytes_per_s: Amount | None = None
    reduction_charge: ReductionCharge = "ring"
    bandwidth_efficiency: float = 1.0

    def __post_init__(self) -> None:
        """Raise InputError for unknown names and a memory bandwidth that is not above 0."""
        if self.algorithm is not None:
            check_choice("algorithm", self.algorithm, tuple(ALGORITHMS))
        check_choice("forwarding", self.forwarding, get_args(Forwarding))
        check_choice("reduction_charge", self.reduction_charge, get_args(ReductionCharge))
        if self.memory_bytes_per_s is not None:
            check_number("memory_bytes_per_s", self.memory_bytes_per_s, minimum=None)
        check_number("bandwidth_efficiency", self.bandwidth_efficiency, minimum=None)


AnyLevel = Level | LevelArrays
AnyMethod = Algorithm | Method | None


class Affine(Struct, frozen=True, eq=False):
    """Times that are affine in the bytes, one entry a group."""

    s_per_byte: Floats
    fixed_s: Floats

    def seconds(self, data_bytes: Amount) -> Floats:
        """Time for this many bytes [s]."""
        return self.s_per_byte * data_bytes + self.fixed_s

    def sending_s(self, data_bytes: float) -> Floats:
        """The same without latencies [s]."""
        return self.s_per_byte * data_bytes

    def take(self, index: Ints) -> "Affine":
        """Some of the entries."""
        return Affine(self.s_per_byte[index], self.fixed_s[index])

    def among(self, count: Floats) -> "Affine":
        """The mean of so many."""
        return Affine(self.s_per_byte / count, self.fixed_s / count)


class Longest(Struct, frozen=True, eq=False):
    """The longest of several times, one entry a group."""

    times: "tuple[Affine | Regimes, ...]"

    def seconds(self, data_bytes: Amount) -> Floats:
        """Time for this many bytes [s]."""
        return reduce(np.maximum, (one.seconds(data_bytes) for one in self.times))

    def sending_s(self, data_bytes: float) -> Floats:
        """The same without latencies [s]."""
        return reduce(np.maximum, (one.sending_s(data_bytes) for one in self.times))

    def take(self, index: Ints) -> "Longest":
        """Some of the entries."""
        return Longest(tuple(one.take(index) for one in self.times))


class Summed(Struct, frozen=True, eq=False):
    """Several times one after the other, each so often, one entry a group."""

    counts: tuple[Floats, ...]
    times: "tuple[Affine | Regimes, ...]"

    def seconds(self, data_bytes: Amount) -> Floats:
        """Time for this many bytes each [s]."""
        each = zip(self.counts, self.times, strict=True)
        return reduce(np.add, (count * one.seconds(data_bytes) for count, one in each))

    def sending_s(self, data_bytes: float) -> Floats:
        """The same without latencies [s]."""
        each = zip(self.counts, self.times, strict=True)
        return reduce(np.add, (count * one.sending_s(data_bytes) for count, one in each))

    def take(self, index: Ints) -> "Summed":
        """Some of the entries."""
        counts = tuple(one[index] for one in self.counts)
        return Summed(counts, tuple(one.take(index) for one in self.times))

    def among(self, count: Floats) -> "Summed":
        """The mean of so many."""
        return Summed(tuple(one / count for one in self.counts), self.times)


CollectiveTime = Affine | Longest | Regimes


class Span(NamedTuple):
    """How a group lies in one level; numbers or arrays that broadcast.

    Parameters
    ----------
    level
        The level.
    members
        Members m of the group in this level [1].
    stride
        Positions from one member to the next: the groups between them share the links of a ring or
        line [1].
    inside
        Members M below this level, who share the message [1].
    ring
        Members of a ring that runs through all levels at once; None if it stays in this one [1].
    working
        GPUs below each member of the level, and its members, that work; None counts all [1].
    """

    level: AnyLevel
    members: Floats
    stride: Amount = 1.0
    inside: Amount = 1.0
    ring: Floats | None = None
    working: Working | None = None


class _Charge(NamedTuple):
    """What an algorithm takes: (carried/links + relay)*D/(M*B) + hops*h*L + delays*d.

    `relay` is what a switch sends again while nothing else moves, if it stores whole messages. The
    next chunk follows after one of the `stations` in the level.
    """

    carried: Amount
    links: Amount
    hops: Amount
    delays: Amount
    relay: Amount = 0.0
    stations: Amount = 1.0


class LevelTime(NamedTuple):
    """Time of one chunk in one level, and the share of it after which the next one may follow."""

    s_per_byte: Floats
    fixed_s: Floats
    stations: Amount


def level_span_time(kind: CollectiveKind, span: Span, method: AnyMethod) -> LevelTime:
    """Time of a collective where a group spans a level, for an all_reduce both phases.

    The one place that knows it. A ring through all levels leaves no choice of the algorithm.

    Raises
    ------
    InputError
        If the algorithm does not fit the level or the collective.
    """
    level = span.level
    if not isinstance(method, Method):
        method = Method(method)
    name = _algorithm(kind, span, method.algorithm)
    carried, links, hops, delays, relay, stations = _charge(kind, span, name)
    rate = method.bandwidth_efficiency * level.link_bytes_per_s
    if kind != "all_to_all":  # whose every member sends to all, whoever lies below
        rate = span.inside * rate
    if isinstance(level, Level) and level.tiers:
        stride = np.asarray(span.stride)
        rate = rate / collective_slowdown(kind, level, span.members, stride, span.working)
    slope = carried / (rate * links)
    if level.kind == "switch" and method.forwarding == "store_and_forward":
        slope = slope + relay / rate
    if level.kind == "line":
        hops = hops * span.stride
    fixed = delays * level.step_s
    if hops is not delays:
        fixed = fixed + (hops - delays) * LINKS_PER_STEP[level.kind] * level.link_latency_s
    if kind == "all_reduce":
        slope, fixed = 2 * slope, 2 * fixed
    if method.memory_bytes_per_s is not None and kind in ("all_reduce", "reduce_scatter"):
        accesses = _accesses(span, name, method.reduction_charge)
        slope = slope + accesses / (span.inside * method.memory_bytes_per_s)
    return LevelTime(np.asarray(slope), np.asarray(fixed), stations)


def _algorithm(kind: CollectiveKind, span: Span, named: Algorithm | None) -> Algorithm:
    """Return the named algorithm, or the default; a ring through all levels has no choice."""
    if span.ring is None:
        return named or DEFAULT_ALGORITHM[span.level.kind]
    only: Algorithm = "pairwise" if kind == "all_to_all" else "rings"
    if named not in (None, only):
        raise InputError(f"a flat_ring takes {only!r} on all levels, got {named!r}: use None")
    return only


def _charge(kind: CollectiveKind, span: Span, algorithm: Algorithm) -> _Charge:
    """Return what the collective takes; for an all_reduce, what each of its two phases takes."""
    support = ALGORITHMS[algorithm]
    if span.level.kind not in support.level_kinds:
        kinds = ", ".join(support.level_kinds)
        raise InputError(
            f"{algorithm} does not run on a {span.level.kind}: use it on {kinds}, or None"
        )
    if kind not in support.collectives:
        fitting = [f"{name!r}" for name, row in ALGORITHMS.items() if kind in row.collectives]
        raise InputError(f"{algorithm} has no {kind}: use {', '.join(fitting[:-1])} or None")
    if algorithm in ("rings", "bidirectional_ring"):
        return _rings(kind, span, algorithm)
    if algorithm in ("direct", "unphysical_direct", "pairwise"):
        return _direct(kind, span, algorithm)
    if algorithm in get_args(Broadcast):
        return _broadcast(span, algorithm)
    return _ring(kind, span) if algorithm == "ring" else _halving_doubling(span)


def _ring(kind: CollectiveKind, span: Span) -> _Charge:
    """One direction; a step moves D/m. In an all_to_all each message travels forward."""
    m = span.members
    steps = m * (m - 1) / 2 if kind == "all_to_all" else m - 1
    return _Charge(steps / m, 1 / _sharing(span), steps, steps, relay=steps / m)


def _rings(kind: CollectiveKind, span: Span, algorithm: Algorithm) -> _Charge:
    """Parts of each message over many links; an all_to_all goes the shortest way, splits ties."""
    m = span.members
    if kind == "all_to_all":
        load = span.stride * (m**2 // 4) / (m * _directions(span))
        farthest = m - 1 if span.level.kind == "line" else m // 2
        return _Charge(load, 1.0, farthest, np.minimum(m - 1, 1))
    through = m if span.ring is None else span.ring
    part = 1.0 if kind in _SPREADS else (through - 1) / through
    carried = np.minimum(m - 1, 1) * part
    links: Amount
    if algorithm == "bidirectional_ring" or span.level.kind in CHAINED:
        links = _directions(span) / _sharing(span)
    else:
        links = _ports(span, one_port=span.level.kind == "switch")
    below = span.inside if span.ring is not None else 1.0
    steps = through / below - through / (below * m)
    return _Charge(carried, links, steps, steps, relay=carried)


def _halving_doubling(span: Span) -> _Charge:
    """Partners at distance m/2, m/4, ... exchange D/2, D/4, ... bytes."""
    m = span.members
    steps = np.frexp(m)[1] - 1.0
    if np.any(np.exp2(steps) != m):
        raise InputError("halving_doubling needs 2, 4, 8, ... GPUs: use 'ring' or 'direct'")
    return _Charge((m - 1) / m, 1.0, steps, steps, relay=(m - 1) / m)


def _direct(kind: CollectiveKind, span: Span, algorithm: Algorithm) -> _Charge:
    """Each member sends D/m to each other one, over one port in turn or over all its links."""
    m = span.members
    busy = np.minimum(m - 1, 1)
    steps = m - 1 if algorithm == "pairwise" else busy
    one_port = span.level.kind == "switch" and algorithm != "unphysical_direct"
    if kind == "all_to_all" and span.level.kind in CHAINED:
        load = _rings(kind, span, algorithm).carried
        return _Charge(load, 1.0, steps, steps)
    if kind == "all_to_all":
        return _Charge((m - 1 if one_port else busy) / m, 1.0, steps, steps, relay=busy / m)
    links = _ports(span, one_port=one_port)
    if kind in _SPREADS:
        return _Charge(busy, links, steps, steps, relay=busy)
    return _Charge((m - 1) / m, links, steps, steps, relay=busy / m)


def _broadcast(span: Span, algorithm: Algorithm) -> _Charge:
    """All of D, from member to member or in halves of the members."""
    m = span.members
    if algorithm == "scatter_all_gather":
        one = _direct("all_gather", span, "direct")
        return _Charge(
            2 * one.carried, one.links, 2 * one.hops, 2 * one.delays, relay=2 * one.relay
        )
    if algorithm == "binomial_tree":
        steps = np.frexp(m - 1)[1] * 1.0  # bits of m - 1: ceil(log2 m) without rounding errors
        return _Charge(steps, 1.0, steps, steps, relay=steps)
    steps = m - 1 if algorithm == "chain" else m // 2  # the longer side: ceil((m - 1) / 2)
    stations = np.maximum(steps, 1)
    return _Charge(steps, 1 / _sharing(span), steps, steps, relay=steps, stations=stations)


def _ports(span: Span, *, one_port: bool) -> Amount:
    """Links to the other members: one port for all, or one for each of them [1]."""
    return 1.0 if one_port else np.maximum(span.members - 1, 1)


def _sharing(span: Span) -> Amount:
    """Groups that share each link: those that lie between each other on a ring or line [1]."""
    return span.stride if span.level.kind in CHAINED else 1.0


def _directions(span: Span) -> Floats:
    """Ways around, 2 if a group closes its ring; two members share one link.

    A group that does not close it needs both directions of each link for one logical ring.
    """
    size = span.members * span.stride
    closes: Bools = np.asarray(size > 2) & (span.level.kind != "line")  # noqa: PLR2004
    if span.level.kind == "ring":
        closes = closes & (size == span.level.size)
    return np.where(closes, 2.0, 1.0)


def _accesses(span: Span, name: Algorithm, charge: ReductionCharge) -> Amount:
    """Memory accesses for the reductions of one reduce_scatter, in multiples of D."""
    m = span.members
    if charge == "per_algorithm" and name in ("direct", "unphysical_direct"):
        return 3 * np.minimum(m - 1, 1) / m
    if charge == "per_algorithm" and name == "halving_doubling":
        return 3 * np.maximum(1 / 2 - 1 / m, 0)
    return 3 * (m - 1) / m

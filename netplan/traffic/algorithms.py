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
halving_doubling    (p-1)/p * D/(MB) + log2(p) * tau, p = 2^floor(log2 m)
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
double_binary_tree   D/(MB) + ceil(log2 m) * tau on a switch: very many chunks, halves of them
                     through two trees, in each of which others are leaves; all_reduce too
===================  ==========================================================================

An all_reduce is a reduce_scatter and an all_gather of the same D, in a ``double_binary_tree`` a
reduce and a broadcast. ``halving_doubling`` of m members that are no power of two folds those
beyond p into partners first, D/(MB) + tau more. Two members share one link, so
among two a bidirectional ring is a plain one. A ring laid on a switch or a mesh takes their tau.
On a line ``bidirectional_ring`` sends all pieces both ways: a gather takes (m-1) * (D/(mB) + tau),
since the ends have one link, and an all_to_all floor(m^2/4) * D/(mB) + (m-1)*L + d, since half of
the members face the others across the middle.
``rings`` go on through further levels (`netplan.traffic.hierarchy`). Where leaves block, B is what
they leave of it (`netplan.traffic.leaves`).

Each algorithm is an entry of `ALGORITHMS`, or of somebody's package by an entry point of the group
``netplan.collectives`` that names an `Algorithm`.

Sources: Thakur, Rabenseifner and Gropp 2005 (ring, halving-doubling, broadcasts); Sanders, Speck
and Traeff 2009 (two trees, which NCCL has as trees); ASTRA-sim 2.0 (2023), whose analytical
backends give these times; arXiv:2307.12169 and arXiv:2410.00273 (groups in levels). Left out:
contention between collectives, reduction inside switches, memory that sums are read from.
"""

from collections.abc import Callable, Iterable
from functools import cache, partial, reduce
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from msgspec import Struct

from netplan.added import Group, added
from netplan.arrays import Amount, Bools, Columns, Counts, Floats, Ints
from netplan.errors import InputError
from netplan.levels import CHAINED, LINKS_PER_STEP, Level, LevelKind
from netplan.traffic.leaves import Working, collective_slowdown
from netplan.traffic.measured import Regimes
from netplan.workloads.operations import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Collective = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all"]

DEFAULT_ALGORITHM: dict[LevelKind, str] = {
    "switch": "direct",
    "ring": "bidirectional_ring",
    "line": "bidirectional_ring",
    "mesh": "direct",
}
_GATHERS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce")
_SPREADS: tuple[CollectiveKind, ...] = ("broadcast", "reduce")
COLLECTIVE_ALGORITHM = "Algorithm of the collectives, such as halving_doubling."
"""Help of the input that names one."""
PLUGS: Group = "netplan.collectives"
"""Group of the entry points that name algorithms of other packages."""


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


def as_amount(values: "ArrayLike") -> Amount:
    """Return an array of no dimension as a float, any other as it is.

    >>> as_amount(np.float64(0.5))
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


AnyLevel = Level | LevelArrays


class Affine(Columns, frozen=True, eq=False):
    """Times that are affine in the bytes, one entry a group."""

    s_per_byte: Floats
    fixed_s: Floats

    def seconds(self, data_bytes: Amount) -> Floats:
        """Time for this many bytes [s]."""
        return self.s_per_byte * data_bytes + self.fixed_s

    def sending_s(self, data_bytes: float) -> Floats:
        """The same without latencies [s]."""
        return self.s_per_byte * data_bytes

    def mean_of(self, count: Floats) -> "Affine":
        """The mean of so many."""
        return Affine(self.s_per_byte / count, self.fixed_s / count)


class CombinedTime(Columns, frozen=True, eq=False):
    """Several times together, one entry a group: the longest, or their sum with each so often."""

    times: "tuple[Affine | Regimes, ...]"
    counts: tuple[Floats, ...] | None = None

    def _combined(self, times_s: Iterable[Floats]) -> Floats:
        if self.counts is None:
            return reduce(np.maximum, times_s)
        return reduce(np.add, map(np.multiply, self.counts, times_s))

    def seconds(self, data_bytes: Amount) -> Floats:
        """Time for this many bytes each [s]."""
        return self._combined(time.seconds(data_bytes) for time in self.times)

    def sending_s(self, data_bytes: float) -> Floats:
        """The same without latencies [s]."""
        return self._combined(time.sending_s(data_bytes) for time in self.times)

    def mean_of(self, count: Floats) -> "CombinedTime":
        """The mean of so many, of a sum."""
        return CombinedTime(self.times, tuple(often / count for often in self.counts or ()))


HopTime = Affine | CombinedTime
CollectiveTime = HopTime | Regimes


class MemberRange(NamedTuple):
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


Pairs = tuple[Ints, Ints, Floats]
"""Members that send, those that take, and the share of D that goes between the two [1]."""


class Charge(NamedTuple):
    """What an algorithm takes: carried/links * D/(M*B) + hops*h*L + delays*d.

    The next chunk follows after one of the `stations` in the level. Of an all_reduce it is what
    each of its two phases takes.
    """

    carried: Amount
    links: Amount
    hops: Amount
    delays: Amount
    stations: Amount = 1.0


class Algorithm(NamedTuple):
    """Where an algorithm runs, what it does there, and what that takes.

    Parameters
    ----------
    level_kinds
        Kinds of levels that it runs on.
    collectives
        Collectives that it carries out.
    charge
        What a collective takes of a group in one level.
    pairs
        Who of so many members sends to whom which share of D [1]: in a ``ring``, each to each
        (``direct``), or as a function says.
    """

    level_kinds: tuple[LevelKind, ...]
    collectives: tuple[CollectiveKind, ...]
    charge: Callable[[CollectiveKind, MemberRange], Charge]
    pairs: Literal["ring", "direct"] | Callable[[CollectiveKind, int], Pairs] = "ring"

    def runs(self, kind: CollectiveKind, level: LevelKind) -> bool:
        """Whether it carries out a collective on a level of some kind."""
        return kind in self.collectives and level in self.level_kinds


class LevelTime(NamedTuple):
    """Time of one chunk in one level, and the share of it after which the next one may follow."""

    s_per_byte: Floats
    fixed_s: Floats
    stations: Amount


def level_span_time(
    kind: CollectiveKind, span: MemberRange, algorithm: str | None, efficiency: float = 1.0
) -> LevelTime:
    """Time of a collective where a group spans a level, for an all_reduce both phases.

    The one place that knows it. A ring through all levels leaves no choice of the algorithm;
    messages get a share of the links' bandwidth, their ``efficiency`` [1].

    Raises
    ------
    InputError
        If the algorithm does not fit the level or the collective.
    """
    level = span.level
    name = algorithm or DEFAULT_ALGORITHM[level.kind]
    if span.ring is not None:
        name = "pairwise" if kind == "all_to_all" else "rings"
        if algorithm not in (None, name):
            raise InputError(
                f"a flat_ring takes {name!r} on all levels, got {algorithm!r}: use None"
            )
    known = algorithm_of(name)
    if level.kind not in known.level_kinds:
        kinds = ", ".join(known.level_kinds)
        raise InputError(f"{name} does not run on a {level.kind}: use it on {kinds}, or None")
    if kind not in known.collectives:
        fitting = [f"{choice!r}" for choice, row in ALGORITHMS.items() if kind in row.collectives]
        raise InputError(f"{name} has no {kind}: use {', '.join(fitting[:-1])} or None")
    carried, links, hops, delays, stations = known.charge(kind, span)
    rate = efficiency * level.link_bytes_per_s
    if kind != "all_to_all":  # whose every member sends to all, whoever lies below
        rate = span.inside * rate
    if isinstance(level, Level) and level.tiers:
        stride = np.asarray(span.stride)
        rate = rate / collective_slowdown(kind, level, span.members, stride, span.working)
    slope = carried / (rate * links)
    if level.kind == "line":
        hops = hops * span.stride
    fixed = delays * level.step_s
    if hops is not delays:
        fixed = fixed + (hops - delays) * LINKS_PER_STEP[level.kind] * level.link_latency_s
    if kind == "all_reduce":
        slope, fixed = 2 * slope, 2 * fixed
    return LevelTime(np.asarray(slope), np.asarray(fixed), stations)


def _ring(kind: CollectiveKind, span: MemberRange) -> Charge:
    """One direction; a step moves D/m. In an all_to_all each message travels forward."""
    m = span.members
    steps = m * (m - 1) / 2 if kind == "all_to_all" else m - 1
    return Charge(steps / m, 1 / _sharing(span), steps, steps)


def _both_ways(kind: CollectiveKind, span: MemberRange) -> Charge:
    """Halves of each message both ways; an all_to_all goes the shortest way, splits ties."""
    if kind != "all_to_all":
        return _rings(kind, span, _directions(span) / _sharing(span))
    m = span.members
    farthest = m - 1 if span.level.kind == "line" else m // 2
    return Charge(_exchanged(span), 1.0, farthest, np.minimum(m - 1, 1))


def _rings(kind: CollectiveKind, span: MemberRange, links: Amount | None = None) -> Charge:
    """Parts of each message over many links."""
    m, level = span.members, span.level.kind
    if links is None and level in CHAINED:
        links = _directions(span) / _sharing(span)
    through = m if span.ring is None else span.ring
    part = 1.0 if kind in _SPREADS else (through - 1) / through
    below = span.inside if span.ring is not None else 1.0
    steps = through / below - through / (below * m)
    return Charge(
        np.minimum(m - 1, 1) * part, _ports(span) if links is None else links, steps, steps
    )


def _exchanged(span: MemberRange) -> Amount:
    """What an all_to_all sends over the busiest link of a ring or line, in D."""
    return span.stride * (span.members**2 // 4) / (span.members * _directions(span))


def _halving_doubling(kind: CollectiveKind, span: MemberRange) -> Charge:  # noqa: ARG001 - all alike
    """Partners at distance p/2, p/4, ... exchange D/2, D/4, ... bytes; others fold in before."""
    steps = np.frexp(span.members)[1] - 1.0
    partners = np.exp2(steps)
    folded = span.members > partners
    steps = steps + folded
    return Charge((partners - 1) / partners + folded, 1.0, steps, steps)


def _direct(kind: CollectiveKind, span: MemberRange) -> Charge:
    """Each member sends D/m to each other one, over one port in turn or over all its links."""
    m = span.members
    busy = np.minimum(m - 1, 1)
    if kind == "all_to_all":
        return Charge((m - 1 if span.level.kind == "switch" else busy) / m, 1.0, busy, busy)
    return Charge(busy if kind in _SPREADS else (m - 1) / m, _ports(span), busy, busy)


def _pairwise(kind: CollectiveKind, span: MemberRange) -> Charge:
    """An all_to_all to one member after the other."""
    steps = span.members - 1
    chained = span.level.kind in CHAINED
    return Charge(_exchanged(span) if chained else _direct(kind, span).carried, 1.0, steps, steps)


def _scatter_all_gather(kind: CollectiveKind, span: MemberRange) -> Charge:  # noqa: ARG001 - all alike
    """All of D in parts, each to a member, which gather them."""
    carried, links, hops, delays, _ = _direct("all_gather", span)
    return Charge(2 * carried, links, 2 * hops, 2 * delays)


def _binomial_tree(kind: CollectiveKind, span: MemberRange) -> Charge:  # noqa: ARG001 - all alike
    """All of D; those who have it double in each step."""
    steps = _rounds(span)
    return Charge(steps, 1.0, steps, steps)


def _double_binary_tree(kind: CollectiveKind, span: MemberRange) -> Charge:  # noqa: ARG001 - all alike
    """All of D in very many chunks, half of them down each tree: a port sends D and takes D."""
    steps = _rounds(span)
    return Charge(np.minimum(span.members - 1, 1) * 1.0, 1.0, steps, steps)


def _partners(kind: CollectiveKind, members: int) -> Pairs:
    """Shares of D between partners at all distances; those beyond a power of two fold in."""
    steps = members.bit_length() - 1
    power, passes = 1 << steps, 2 if kind == "all_reduce" else 1
    here = np.tile(np.arange(power), steps)
    apart = np.repeat(1 << np.arange(steps), power)
    beyond = np.arange(power, members)
    # A reduction goes out whole, and what is gathered comes back whole.
    shares = {"reduce_scatter": (1.0, 1 / members), "all_gather": (1 / members, 1.0)}
    out, back = (np.full(len(beyond), share) for share in shares.get(kind, (1.0, 1.0)))
    return (
        np.concatenate((here, beyond, beyond - power)),
        np.concatenate((here ^ apart, beyond - power, beyond)),
        np.concatenate((passes * apart / power, out, back)),
    )


def _two_trees(kind: CollectiveKind, members: int) -> Pairs:  # noqa: ARG001 - an all_reduce alone
    """Half of D up and half down each tree: in order of the ranks, and mirrored or moved on."""
    below = np.arange(1, members)
    bit = below & -below
    above = (below ^ bit) | (bit << 1)
    above = np.where(above < members, above, below ^ bit)
    every = np.arange(members)
    other = (every + 1) % members if members % 2 else every[::-1]
    low, high = np.append(below, other[below]), np.append(above, other[above])
    return np.append(low, high), np.append(high, low), np.full(4 * len(below), 0.5)


def _rounds(span: MemberRange) -> Floats:
    """Bits of m - 1: ceil(log2 m) without rounding errors [1]."""
    return np.frexp(span.members - 1)[1] * 1.0


def _chain(kind: CollectiveKind, span: MemberRange, sides: int = 1) -> Charge:  # noqa: ARG001
    """All of D from member to member; both ways, the longer side has ceil((m - 1) / 2) steps."""
    steps = np.ceil((span.members - 1) / sides)
    return Charge(steps, 1 / _sharing(span), steps, steps, stations=np.maximum(steps, 1))


def _ports(span: MemberRange) -> Amount:
    """Links to the other members: one port of a switch for all, or one for each of them [1]."""
    return 1.0 if span.level.kind == "switch" else np.maximum(span.members - 1, 1)


def _sharing(span: MemberRange) -> Amount:
    """Groups that share each link: those that lie between each other on a ring or line [1]."""
    return span.stride if span.level.kind in CHAINED else 1.0


def _directions(span: MemberRange) -> Floats:
    """Ways around, 2 if a group closes its ring; two members share one link.

    A group that does not close it needs both directions of each link for one logical ring.
    """
    size = span.members * span.stride
    closes: Bools = np.asarray(size > 2) & (span.level.kind != "line")  # noqa: PLR2004
    if span.level.kind == "ring":
        closes = closes & (size == span.level.size)
    return np.where(closes, 2.0, 1.0)


ALGORITHMS: dict[str, Algorithm] = {
    "ring": Algorithm(("ring", "switch", "mesh"), (*_GATHERS, "all_to_all"), _ring),
    # A switch port is one link: nothing to split over.
    "bidirectional_ring": Algorithm(
        (*CHAINED, "mesh"), (*_GATHERS, "all_to_all", *_SPREADS), _both_ways
    ),
    "rings": Algorithm((*CHAINED, "switch", "mesh"), (*_GATHERS, *_SPREADS), _rings),
    "pairwise": Algorithm((*CHAINED, "switch", "mesh"), ("all_to_all",), _pairwise, "direct"),
    "halving_doubling": Algorithm(("switch",), _GATHERS, _halving_doubling, _partners),
    "direct": Algorithm(
        ("switch", "mesh"), (*_GATHERS, "all_to_all", *_SPREADS), _direct, "direct"
    ),
    "chain": Algorithm((*CHAINED, "switch", "mesh"), _SPREADS, _chain),
    # The root needs two links.
    "bidirectional_chain": Algorithm(("ring", "mesh"), _SPREADS, partial(_chain, sides=2)),
    "binomial_tree": Algorithm(("switch",), _SPREADS, _binomial_tree),
    "double_binary_tree": Algorithm(
        ("switch",), ("all_reduce", *_SPREADS), _double_binary_tree, _two_trees
    ),
    "scatter_all_gather": Algorithm(("switch", "mesh"), _SPREADS, _scatter_all_gather, "direct"),
}
"""What each algorithm supports, and what it takes: the one table, which commands offer."""


@cache
def algorithm_of(name: str) -> Algorithm:
    """The algorithm of a name, of this package or of one that has an entry point for it.

    Raises
    ------
    InputError
        If there is none, or the entry point names something else.

    Examples
    --------
    >>> algorithm_of("double_binary_tree").level_kinds
    ('switch',)
    """
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    plugs = added(PLUGS)
    check_choice("algorithm", name, (*ALGORITHMS, *sorted(plugs)))
    algorithm = plugs[name].load()
    if not isinstance(algorithm, Algorithm):
        raise InputError(f"entry point {name} of {PLUGS} is no netplan Algorithm: name one")
    return algorithm


def named_note(name: str) -> str:
    """What an answer says of collectives whose algorithm was named."""
    known = algorithm_of(name)
    return (
        f"Collectives take {name} where it runs ({', '.join(known.collectives)} on a"
        f" {' or '.join(known.level_kinds)}), others what they take by default; on measured links"
        " with the start, the steps and the efficiency of a ring there."
    )

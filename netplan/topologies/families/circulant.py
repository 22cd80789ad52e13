"""Circulants: switches in a circle, each joined to those some fixed strides before and after it.

Symbols: n switches, strides s_1 ... s_f below n / 2, each of which makes two links a switch; the
stride n / 2 makes one. All switches see the same network, so one search in breadth gives all
distances, as bits of whole numbers: what lies one hop on is what was reached, turned by a stride.
Switches at most k hops away are sums of k strides, in any order, so that they are fewer than in
other graphs of the degree. A seed draws strides, of which the first is 1; the fewest switches that
keep the whole rate with these are taken, and then single strides changed as long as that brings
switches nearer to each other. Of two strides k and k + 1 are tried, too, k = ceil((sqrt(2 n - 1) -
1) / 2), whose diameter is the least that two strides have (Boesch and Wang, IEEE Transactions on
Circuits and Systems 32, 1985).

Source: mean distances and a local search of circulants in Lu, Fast methods for designing circulant
network topology with high connectivity and survivability (J. Cloud Computing 5:5, 2016).
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import ceil, gcd, sqrt

import numpy as np

from netplan.arrays import AnyInts, ceil_div
from netplan.errors import InputError
from netplan.records import PositiveInt
from netplan.topologies.assembly import NameBlock
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.joined_switches import BETWEEN_SWITCHES
from netplan.topologies.families.regular import Regular, Shape, refuse_many_switches
from netplan.topologies.graph import LinkType
from netplan.units import counted

PAIR = 2
"""Strides of which two that follow each other have the least diameter [1]."""

TRIES, TRIED_BITS = 300, 60_000_000
"""Strides that are tried in place of others, as long as the work (bits turned) stays below this."""


class Circulant(Regular, frozen=True, kw_only=True):
    """Switches in a circle."""

    strides: tuple[PositiveInt, ...] | None = None  # places between joined ones, instead of a draw

    def mean_distance(self, switches: int, degree: int) -> float:
        """Mean distance of two switches with the strides of the seed [1]."""
        return circulant_distance(switches, drawn_strides(switches, degree, self.seed))

    def shape(self, sizing: Sizing) -> Shape:
        """Its own strides, switches and hosts, else the fewest switches at the whole rate."""
        spec = self
        if self.strides:
            closed = _closed(self, sizing)
            degree = strides_degree(self.name, (self.strides, self.degree), closed, "switches")
            spec = self.changed(switches=closed, degree=degree)
        return super(Circulant, spec).shape(sizing)

    def laid(self, shape: Shape) -> tuple[NameBlock, LinkType, tuple[AnyInts, AnyInts], str]:
        """Names of the switches, links between them and their ends, and what they are in words.

        Examples
        --------
        >>> from netplan import Scenario
        >>> from netplan.topologies.families.joined_switches import switch_graph
        >>> from netplan.topologies.specs import FABRICS
        >>> keys = {"switches": 13, "hosts_per_switch": 4, "strides": (1, 5)}
        >>> spec = FABRICS.load("circulant").changed(**keys)
        >>> scenario = Scenario.load("hgx-h100").replace(gpus=50, radix=16, hb_size=1)
        >>> graph = switch_graph(spec, scenario.sizing)
        >>> graph.shape_words
        '13 switches of 4 hosts in a circle, each joined to others over strides of 1, 5 both ways.'
        """
        switches, hosts = shape.switches, counted(shape.hosts, "host")
        strides = self.strides or circulant_strides(switches, shape.degree, self.seed)
        sentence = (
            f"{counted(switches, 'switch', 'switches')} of {hosts} in a circle, each joined to"
            f" others over strides of {', '.join(map(str, strides))} both ways."
            if strides
            else f"One switch of {hosts}."
        )
        ends = circulant_links(switches, strides)
        return NameBlock("switch-{}", (switches,)), BETWEEN_SWITCHES, ends, sentence


def _closed(spec: Circulant, sizing: Sizing) -> int:
    """Switches that the strides of a spec join: its own, or the fewest that hold the GPUs."""
    strides = spec.strides or ()
    hosts = spec.hosts_per_switch or max(1, sizing.radix - 2 * len(strides))
    needed = max(2 * max(strides), ceil_div(sizing.gpus, hosts))
    switches = spec.switches or needed
    if len(set(strides)) < len(strides):
        given = ", ".join(map(str, strides))
        raise InputError(f"{spec.name}: strides are different, got {given}: change the strides")
    refuse_many_switches(spec.name, max(switches, needed))
    if 2 * max(strides) > switches:
        raise InputError(
            f"{spec.name}: strides are at most half of the {switches} switches, got"
            f" {', '.join(map(str, strides))}: raise switches to {needed}, or change the strides"
        )
    joined = next(n for n in range(switches, 2 * switches + 2) if gcd(n, *strides) == 1)
    if spec.switches and joined != switches:
        raise InputError(
            f"{spec.name}: {switches} switches and strides {', '.join(map(str, strides))} share the"
            f" divisor {gcd(switches, *strides)}, so that the circle falls into parts: the nearest"
            f" that work are {joined} switches"
        )
    return joined


def circulant_degree(switches: int, strides: Iterable[int]) -> int:
    """Links of a switch to others [1].

    Examples
    --------
    >>> circulant_degree(13, (1, 5)), circulant_degree(10, (1, 5))
    (4, 3)
    """
    return sum(1 if 2 * stride == switches else 2 for stride in strides)


def strides_degree(
    name: str, given: tuple[Sequence[int], int | None], places: int, what: str
) -> int:
    """Links of each to others that given strides make, which a given degree does not contradict.

    Raises
    ------
    InputError
        If the degree is another.

    Examples
    --------
    >>> strides_degree("mine", ((1, 5), 3), 10, "switches")
    3
    """
    strides, asked = given
    degree = circulant_degree(places, strides)
    if asked not in {None, degree}:
        listed = ", ".join(map(str, strides))
        raise InputError(
            f"{name}: strides {listed} give each of {places:,} {what} {counted(degree, 'link')}"
            f" to others, got degree {asked}: leave degree out, or give degree {degree}"
        )
    return degree


def circulant_distance(switches: int, strides: Iterable[int]) -> float:
    """Mean distance of two switches of a circulant [1]; infinite if it falls into parts.

    Examples
    --------
    Two hops from 0 with strides 1 and 5 lead to all 13: 4 are one hop away, 8 two.

    >>> round(circulant_distance(13, (1, 5)), 3), circulant_distance(12, (2, 4))
    (1.667, inf)
    """
    turns = [turn for stride in strides for turn in {stride, switches - stride}]
    whole = (1 << switches) - 1
    seen = front = 1
    total, hops, count = 0, 0, 1
    while front and count < switches:
        hops += 1
        reached = 0
        for turn in turns:
            reached |= front << turn
        reached = (reached | reached >> switches) & whole
        front = reached & ~seen
        seen |= front
        met = front.bit_count()
        count += met
        total += hops * met
    return total / (switches - 1) if count == switches else float("inf")


def drawn_strides(switches: int, degree: int, seed: int) -> tuple[int, ...]:
    """Strides of a seed, at random but for the first, which is 1; half the circle comes last.

    Examples
    --------
    >>> drawn_strides(6, 5, 0), drawn_strides(1, 0, 0), len(drawn_strides(100, 9, 0))
    ((1, 2, 3), (), 5)
    """
    below, count = (switches - 1) // 2, degree // 2
    half = (switches // 2,) if degree % 2 else ()
    if count >= below:
        return (*range(1, below + 1), *half)
    if count == 0:
        return half
    rng = np.random.default_rng((seed, switches, degree))
    others = 2 + rng.choice(below - 1, count - 1, replace=False)
    return (1, *np.sort(others).tolist(), *half)


@lru_cache(maxsize=64)
def circulant_strides(switches: int, degree: int, seed: int) -> tuple[int, ...]:
    """Strides of a seed, changed one by one while switches come nearer to each other.

    Examples
    --------
    >>> circulant_strides(13, 4, 0)
    (1, 5)
    """
    strides = drawn_strides(switches, degree, seed)
    below, count = (switches - 1) // 2, degree // 2
    if count <= 1 or count >= below:
        return strides
    rng = np.random.default_rng((seed, switches, degree, 1))
    best = circulant_distance(switches, strides)
    for _ in range(min(TRIES, TRIED_BITS // (switches * degree))):
        place, new = int(rng.integers(1, count)), int(rng.integers(2, below + 1))
        if new not in strides:
            tried = (*strides[:place], new, *strides[place + 1 :])
            distance = circulant_distance(switches, tried)
            if distance < best:
                strides, best = tried, distance
    if count == PAIR:
        stride = ceil((sqrt(2 * switches - 1) - 1) / 2)
        pair = (stride, stride + 1, *strides[count:])
        strides = pair if circulant_distance(switches, pair) < best else strides
    return (*sorted(strides[:count]), *strides[count:])


def circulant_links(switches: int, strides: Iterable[int]) -> tuple[AnyInts, AnyInts]:
    """Ends of all links, the lower one first, in rising order.

    Examples
    --------
    >>> low, high = circulant_links(6, (1, 3))
    >>> list(zip(low.tolist(), high.tolist()))
    [(0, 1), (0, 3), (0, 5), (1, 2), (1, 4), (2, 3), (2, 5), (3, 4), (4, 5)]
    """
    here = np.arange(switches, dtype=np.int64)
    codes = [np.empty(0, np.int64)]
    for stride in strides:
        start = here[: switches // 2] if 2 * stride == switches else here
        there = (start + stride) % switches
        codes.append(np.minimum(start, there) * switches + np.maximum(start, there))
    low, high = np.divmod(np.sort(np.concatenate(codes)), switches)
    return low, high

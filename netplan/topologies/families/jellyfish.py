"""Jellyfish: switches joined at random, each with equally many links to others.

Symbols: n switches of r links to others and T hosts. In a random graph of this degree the share of
switches further away than j hops is about exp(-r ((r-1)^j - 1) / ((r-2) n)), whose sum over j from
0 on is the mean distance d; uniform traffic keeps the rate of a port where T d <= r.

A seed makes the graph: ends of links are paired at random, and pairs that join a switch to itself
or repeat a link swap ends with others until none is left; of dense graphs the links that are *not*
there are drawn so. A draw in which the switches do not hang together is drawn again.

Source: Singla, Hong, Popa and Godfrey, Jellyfish: Networking Data Centers Randomly (NSDI 2012).
Graphs of low degree that are drawn at random are expanders with high probability.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from netplan.arrays import AnyInts, Ints
from netplan.topologies.assembly import NameBlock
from netplan.topologies.families.joined_switches import BETWEEN_SWITCHES
from netplan.topologies.families.regular import LEAST_DEGREE, Regular, Shape
from netplan.topologies.graph import LinkType, connected_parts
from netplan.units import counted


class Jellyfish(Regular, frozen=True, kw_only=True):
    """Switches joined at random."""

    def laid(self, shape: Shape) -> tuple[NameBlock, LinkType, tuple[AnyInts, AnyInts], str]:
        """Names of the switches, links between them and their ends, and what they are in words.

        Examples
        --------
        >>> from netplan import Scenario
        >>> from netplan.topologies.families.joined_switches import switch_graph
        >>> from netplan.topologies.specs import FABRICS
        >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=32)
        >>> graph = switch_graph(FABRICS.load("jellyfish"), scenario.sizing)
        >>> graph.switches, graph.hosts, set(graph.degrees().tolist())
        (94, 11, {21})
        """
        sentence = (
            f"{counted(shape.switches, 'switch', 'switches')} of {counted(shape.hosts, 'host')},"
            f" each with {counted(shape.degree, 'link')} to others at random (seed {self.seed})."
        )
        ends = random_links(shape.switches, shape.degree, self.seed)
        return NameBlock("switch-{}", (shape.switches,)), BETWEEN_SWITCHES, ends, sentence


@lru_cache(maxsize=4)
def random_links(switches: int, degree: int, seed: int) -> tuple[AnyInts, AnyInts]:
    """Ends of the links of a random graph, each switch with equally many, in rising order.

    Examples
    --------
    >>> low, high = random_links(10, 3, seed=1)
    >>> np.bincount(np.concatenate((low, high))).tolist()
    [3, 3, 3, 3, 3, 3, 3, 3, 3, 3]
    """
    generator = np.random.default_rng(seed)
    dense = degree > (switches - 1) // 2
    while True:
        code = _drawn(switches, switches - 1 - degree if dense else degree, generator)
        if dense:
            low, high = np.triu_indices(switches, 1)
            code = np.setdiff1d(low * np.int64(switches) + high, code)
        low, high = np.divmod(np.sort(code), switches)
        if degree < LEAST_DEGREE or not connected_parts(switches, low, high).any():
            return low, high


def _drawn(switches: int, degree: int, generator: "np.random.Generator") -> Ints:
    """Links of a graph of this degree as low * switches + high, shape (links,), none twice."""
    if not degree:
        return np.empty(0, np.int64)
    ends = generator.permutation(np.repeat(np.arange(switches), degree)).reshape(-1, 2)
    ends.sort(axis=1)
    code: Ints = ends[:, 0] * np.int64(switches) + ends[:, 1]
    spoils = ends[:, 0] == ends[:, 1]
    order = np.argsort(code, kind="stable")
    spoils[order[1:]] |= code[order[1:]] == code[order[:-1]]  # a link that is there before
    waiting = np.flatnonzero(spoils).tolist()
    spoilt, links = set(waiting), _Links(code)
    while waiting:
        link, other = waiting[-1], int(generator.integers(len(code)))
        if other in spoilt:
            if len(spoilt) == len(code):
                return _drawn(switches, degree, generator)
            continue
        (a, b), (c, d) = ends[link].tolist(), ends[other].tolist()
        if generator.integers(2):
            c, d = d, c
        new = [(min(pair), max(pair)) for pair in ((a, c), (b, d))]
        codes = [x * switches + y for x, y in new]
        if any(x == y for x, y in new) or codes[0] == codes[1] or any(map(links.hold, codes)):
            continue
        links.swap(int(code[other]), codes)
        ends[[link, other]], code[[link, other]] = new, codes
        spoilt.discard(waiting.pop())
    return code


class _Links:
    """Which links there are: those drawn at first, of which few change, in rising order."""

    def __init__(self, code: Ints) -> None:
        """Take the links drawn at first."""
        self._drawn = np.sort(code)
        self._gone: set[int] = set()
        self._new: set[int] = set()

    def hold(self, code: int) -> bool:
        """Whether a link is there."""
        if code in self._gone or code in self._new:
            return code in self._new
        place = int(np.searchsorted(self._drawn, code))
        return place < len(self._drawn) and int(self._drawn[place]) == code

    def swap(self, old: int, new: Sequence[int]) -> None:
        """Put links in the place of one."""
        self._new.discard(old)
        self._gone.add(old)
        self._gone.difference_update(new)
        self._new.update(new)

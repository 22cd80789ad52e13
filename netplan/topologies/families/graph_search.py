"""Search for networks of switches: which counts there are, and the best graph of each.

A *count* is what is bought: n switches, r links of each to others, T hosts on each. All graphs of a
count cost the same. How fast they are depends on w, what the busiest link carries if each switch
sends 1 to each other one (:mod:`netplan.topologies.families.joined_switches`): over detours any
traffic finds n / (2 w) links out of a switch. No graph of a count has a lower w than its mean load
if switches were as near each other as they can be: r of them are one hop away at best, r (r - 1)
two, and so on (the bound of Moore trees), d on average. So n (n - 1) d hops lie on n r directions
of links:

    w >= (n - 1) d / r

A count whose bound is no better than what a cheaper graph does is not searched. The graphs of a
count that are: HyperX of one to four dimensions where the numbers are theirs, then circulants,
Xpanders and random graphs by seed, each circulant with strides changed one by one. Of every family
the seed whose switches are nearest each other is taken, and the busiest link decides. So a run goes
on where another ended: with the next seed.

Finding a graph of given order and degree whose nodes are near each other is the order/degree
problem (research.nii.ac.jp/graphgolf).
"""

from collections.abc import Iterator
from functools import lru_cache
from math import inf, prod

from msgspec import Struct

from netplan.arrays import ceil_div
from netplan.topologies.fabric import Fabric, LinkGroup, Sizing, SwitchTier
from netplan.topologies.families.circulant import circulant_strides
from netplan.topologies.families.joined_switches import (
    BETWEEN_SWITCHES,
    JoinedSwitches,
    switch_graph,
)
from netplan.topologies.families.regular import LEAST_DEGREE
from netplan.topologies.graph import HOST_LINKS
from netplan.topologies.specs import FABRICS, FabricSpec

THINNER = 0.85
"""Fewer links are tried in steps of this ratio [1]."""
DIMENSIONS = (1, 2, 3, 4)
"""Dimensions of a HyperX that are tried [1]."""
SPARE = 0.1
"""Switches more than the fewest that a HyperX may have, whose sides are whole numbers [1]."""
REACHED = 1e-9


class Count(Struct, frozen=True):
    """Switches, links of each to others, hosts of each [1], and the HyperX that have as many.

    ``grids`` are sizes along all dimensions, and links between two switches of a line.
    """

    switches: int
    degree: int
    hosts: int
    grids: tuple[tuple[tuple[int, ...], int], ...] = ()

    @property
    def links(self) -> int:
        """Links between switches [1]."""
        return self.switches * self.degree // 2

    @property
    def least_pair_load(self) -> float:
        """What the busiest link of any graph carries at least, if all switches send 1 to all [1].

        Examples
        --------
        Petersen's graph: 9 x 5/3 hops over three links.

        >>> round(Count(10, 3, 6).least_pair_load, 9)
        5.0
        """
        near = least_mean_distance(self.switches, self.degree)
        return (self.switches - 1) * near / self.degree

    def any_share(self, pair_load: float) -> float:
        """Share of a port's rate that any traffic between switches gets over detours [1]."""
        return min(1.0, self.switches / (2 * pair_load * self.hosts))


def least_mean_distance(switches: int, degree: int) -> float:
    """No graph has a lower mean distance from one switch to so many less one others [1].

    Examples
    --------
    The graph of Petersen reaches it: 3 of 9 are one hop away, 6 two.

    >>> round(least_mean_distance(10, 3), 4), least_mean_distance(8, 7)
    (1.6667, 1.0)
    """
    left, layer, hops, total = switches - 1, degree, 1, 0
    while left > 0:
        met = min(left, layer) if layer > 0 else left
        total, left, layer, hops = total + hops * met, left - met, layer * (degree - 1), hops + 1
    return total / (switches - 1)


def counts_holding(gpus: int, radix: int, most_degree: int | None = None) -> Iterator[Count]:
    """Counts that hold so many GPUs on switches of a radix, each as few switches as its hosts need.

    Links run from all ports left, or ``most_degree``, down to three a switch.

    Examples
    --------
    >>> [(one.switches, one.degree, one.hosts) for one in counts_holding(32, 12, 5)][-4:]
    [(5, 4, 7), (4, 3, 8), (4, 4, 8), (4, 3, 9)]
    """
    grids_of: dict[tuple[int, int, int], list[tuple[tuple[int, ...], int]]] = {}
    for hosts in range(1, radix):
        switches = ceil_div(gpus, hosts)
        most = min(radix - hosts, most_degree or radix)
        if switches > 1:
            for degree in _thinner(min(most, switches - 1)):
                even = degree - switches * degree % 2
                if even >= min(LEAST_DEGREE, switches - 1):
                    grids_of.setdefault((switches, even, hosts), [])
            for sizes, copies in _grids(switches, most):
                count = prod(sizes), copies * sum(side - 1 for side in sizes)
                grids_of.setdefault((*count, hosts), []).append((sizes, copies))
    for key, grids in grids_of.items():
        yield Count(*key, tuple(grids))


def _thinner(most: int) -> Iterator[int]:
    """A number, and smaller ones down to 1 in steps of a ratio.

    Examples
    --------
    >>> list(_thinner(10))
    [10, 8, 6, 5, 4, 3, 2, 1]
    """
    while most >= 1:
        yield most
        most = min(most - 1, int(THINNER * most))


def _grids(switches: int, most: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """HyperX of so many switches, or a few more, each with at most so many links to others."""
    for dimensions in DIMENSIONS:
        for sizes in dict.fromkeys(_grids_near(switches, dimensions, most + 1)):
            degree = sum(side - 1 for side in sizes)
            if switches <= prod(sizes) <= (1 + SPARE) * switches:
                for copies in _thinner(most // degree):
                    if copies * degree >= min(LEAST_DEGREE, switches - 1):
                        yield sizes, copies


def _grids_near(needed: int, dimensions: int, most: int) -> Iterator[tuple[int, ...]]:
    """Grids near a cube that hold so many switches, two or more a side, sizes falling."""
    if dimensions == 1:
        if 1 < needed <= most:
            yield (needed,)
        return
    root = max(2, round(needed ** (1 / dimensions)))
    for side in range(max(2, root - 2), min(most, root + 2) + 1):
        for rest in _grids_near(ceil_div(needed, side), dimensions - 1, most):
            yield tuple(sorted((*rest, side), reverse=True))


def graphs_of(count: Count, seeds: range) -> tuple[Iterator[JoinedSwitches], ...]:
    """Graphs of a count, as fabric files, family by family: of several dimensions, or by seed.

    Examples
    --------
    >>> families = graphs_of(Count(16, 6, 4, (((4, 4), 1),)), range(1))
    >>> [one.name for family in families for one in family]
    ['hyperx-4x4-4', 'circulant-16x4-6-s0', 'jellyfish-16x4-6-s0']
    """
    switches, degree, hosts = count.switches, count.degree, count.hosts

    def grids() -> Iterator[JoinedSwitches]:
        for sizes, copies in count.grids:
            more = f"-{copies}l" if copies > 1 else ""
            name = f"hyperx-{'x'.join(map(str, sizes))}-{hosts}{more}"
            yield _named("hyperx", name, count, sizes=sizes, links_per_pair=copies)

    def drawn(family: str) -> Iterator[JoinedSwitches]:
        for seed in seeds:
            name = f"{family}-{switches}x{hosts}-{degree}-s{seed}"
            keys: dict[str, object] = {"degree": degree, "seed": seed}
            if family == "circulant":
                keys = {"strides": circulant_strides(switches, degree, seed)}
            yield _named(family, name, count, switches=switches, **keys)

    if degree >= switches - 1:
        return (grids(),)
    lifts = [drawn("xpander")] if switches % (degree + 1) == 0 else []
    return grids(), drawn("circulant"), *lifts, drawn("jellyfish")


def _named(family: str, name: str, count: Count, **keys: object) -> JoinedSwitches:
    title = (
        f"{count.switches} switches of {count.hosts} hosts and {count.degree} links to others each"
    )
    # What is said of such fabrics, and how they are timed, holds for them, too.
    known = FABRICS.load(family)
    timed = [note for note in known.notes if note.startswith("Timed")]
    heading = {"title": title, "source": f"{SOURCE}, after {known.source}", "date": known.date}
    common = {**heading, "in_sets": False, "notes": timed}
    spec = FabricSpec.read(
        {"name": name, **common, "family": family, "hosts_per_switch": count.hosts, **keys}
    )
    assert isinstance(spec, JoinedSwitches)  # noqa: S101 - families of this module are
    return spec


SOURCE = "found by netplan optimize --search graphs"


class BestGraph(Struct, frozen=True):
    """The graph of a count with the least busy link, of those that were searched.

    ``pair_load`` is what that link carries if each switch sends 1 to each other one, ``share`` what
    any traffic gets of a port's rate for it; ``graphs`` were looked at [1].
    """

    spec: JoinedSwitches
    count: Count
    pair_load: float
    graphs: int

    @property
    def share(self) -> float:
        """Share of a port's rate that any traffic between switches gets over detours [1]."""
        return self.count.any_share(self.pair_load)

    @property
    def gap(self) -> float:
        """How much more traffic another graph of the count might carry, as a share [1]."""
        return max(0.0, self.pair_load / self.count.least_pair_load - 1)


@lru_cache(maxsize=65536)
def best_graph(count: Count, sizing: Sizing, seeds: range) -> BestGraph:
    """Search the graphs of a count.

    Examples
    --------
    Four hosts on each of 16 switches in two dimensions: no graph of six links does better.

    >>> from netplan import Scenario
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=64, radix=10, hb_size=1).sizing
    >>> found = best_graph(Count(16, 6, 4, (((4, 4), 1),)), sizing, range(1))
    >>> found.spec.name, round(found.pair_load, 9), round(found.gap, 9), found.graphs
    ('hyperx-4x4-4', 4.0, 0.0, 3)
    """
    nearest, graphs = [], 0
    bound = least_mean_distance(count.switches, count.degree) * (1 + REACHED)
    for family in graphs_of(count, seeds):
        here: list[tuple[float, JoinedSwitches]] = []
        for spec in family:
            graphs += 1
            here.append((float(switch_graph(spec, sizing).hops().sum()), spec))
            if here[-1][0] <= bound:
                break
        nearest += [min(here, key=lambda candidate: candidate[0])] if here else []
    best: JoinedSwitches | None = None
    least = inf
    for hops, spec in sorted(nearest, key=lambda candidate: candidate[0]):
        # The busiest link carries no less than all do on average.
        if hops * (count.switches - 1) / count.degree < least * (1 - REACHED):
            load = switch_graph(spec, sizing).pair_load
            if load < least:
                best, least = spec, load
    assert best is not None  # noqa: S101 - every count has a graph of every seed
    return BestGraph(best, count, least, graphs)


def counted_fabric(count: Count, sizing: Sizing) -> Fabric:
    """Switches and links of any graph of a count, without levels: what its bill is made of."""
    ports = 2 * count.links + sizing.gpus
    links = [(HOST_LINKS, sizing.gpus), (BETWEEN_SWITCHES, count.links)]
    return Fabric(
        name="graph",
        title="",
        sizing=sizing,
        tiers=(SwitchTier("switch", count.switches, count.switches, ports),),
        links=tuple(LinkGroup.of(kind, number) for kind, number in links),
        nic_ports=sizing.gpus,
        levels=(),
        network="any-to-any",
        notes=(),
    )

"""Search for networks of switches: which counts there are, and the nearest graph of each.

A *count* is what is bought: n switches, r links of each to others, T hosts on each. All graphs of a
count cost the same, and none lets uniform traffic through faster than its switches can be near each
other: r of them are one hop away at best, r (r - 1) two, and so on (the bound of Moore trees), so
that the mean distance d of m switches with hosts is at least that of such a tree, and a GPU gets

    min(1, n r / (N e d))        N GPUs, of whose traffic the share e leaves their switch

of its port's rate. A count whose bound is no better than what a cheaper graph does is not searched.
The graphs of a count that are: HyperX of one to four dimensions where the numbers are theirs, then
circulants, Xpanders and random graphs by seed, each circulant with strides changed one by one,
until one reaches the bound or the seeds are through. So a run goes on where another ended: with the
next seed.

Finding a graph of given order and degree whose nodes are near each other is the order/degree
problem (research.nii.ac.jp/graphgolf).
"""

from collections.abc import Iterator
from functools import lru_cache
from math import inf, prod

from msgspec import Struct

from netplan.topologies.circulant import circulant_strides
from netplan.topologies.clos import ceil_div
from netplan.topologies.fabric import Fabric, LinkGroup, Sizing, SwitchTier
from netplan.topologies.hyperx import grids_near
from netplan.topologies.regular import LEAST_DEGREE
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.topologies.switch_families import switch_graph
from netplan.topologies.switch_graph import uniform_share

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


def least_mean_distance(switches: int, degree: int) -> float:
    """No graph has a lower mean distance from one switch to so many less one others [1].

    Examples
    --------
    The graph of Petersen reaches it: 3 of 9 are one hop away, 6 two.

    >>> round(least_mean_distance(10, 3), 4), least_mean_distance(8, 7)
    (1.6667, 1.0)
    """
    left, layer, hops, found = switches - 1, degree, 1, 0
    while left > 0:
        met = min(left, layer) if layer > 0 else left
        found, left, layer, hops = found + hops * met, left - met, layer * (degree - 1), hops + 1
    return found / (switches - 1)


def uniform_bound(count: Count, gpus: int) -> float:
    """Share of a port's rate that uniform traffic gets between switches at best [1].

    Examples
    --------
    Ten switches of six hosts and three links: 30 directions for 54 of 60 parts, 5/3 hops each.

    >>> round(uniform_bound(Count(10, 3, 6), 60), 4)
    0.3333
    """
    filled, last = divmod(gpus, count.hosts)
    with_hosts = filled + (last > 0)
    if with_hosts == 1:
        return 1.0
    leaving = gpus * gpus - filled * count.hosts**2 - last * last
    hops = leaving / gpus * least_mean_distance(with_hosts, count.degree)
    return min(1.0, count.switches * count.degree / hops)


def counts_holding(gpus: int, radix: int, most_degree: int | None = None) -> Iterator[Count]:
    """Counts that hold so many GPUs on switches of a radix, each as few switches as its hosts need.

    Links run from all ports left, or ``most_degree``, down to three a switch.

    Examples
    --------
    >>> [(one.switches, one.degree, one.hosts) for one in counts_holding(32, 12, 5)][-4:]
    [(5, 4, 7), (4, 3, 8), (4, 4, 8), (4, 3, 9)]
    """
    found: dict[tuple[int, int, int], list[tuple[tuple[int, ...], int]]] = {}
    for hosts in range(1, radix):
        switches = ceil_div(gpus, hosts)
        most = min(radix - hosts, most_degree or radix)
        if switches > 1:
            for degree in _thinner(min(most, switches - 1)):
                even = degree - switches * degree % 2
                if even >= min(LEAST_DEGREE, switches - 1):
                    found.setdefault((switches, even, hosts), [])
            for sizes, copies in _grids(switches, most):
                count = prod(sizes), copies * sum(side - 1 for side in sizes)
                found.setdefault((*count, hosts), []).append((sizes, copies))
    for key, grids in found.items():
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
        for sizes in dict.fromkeys(grids_near(switches, dimensions, most + 1)):
            each = sum(side - 1 for side in sizes)
            if switches <= prod(sizes) <= (1 + SPARE) * switches:
                for copies in _thinner(most // each):
                    if copies * each >= min(LEAST_DEGREE, switches - 1):
                        yield sizes, copies


def graphs_of(count: Count, seeds: range) -> Iterator[FabricSpec]:
    """Graphs of a count, as fabric files: those of several dimensions, then seed by seed.

    Examples
    --------
    >>> [one.name for one in graphs_of(Count(16, 6, 4, (((4, 4), 1),)), range(1))]
    ['hyperx-4x4-4', 'circulant-16x4-6-s0', 'jellyfish-16x4-6-s0']
    """
    switches, degree, hosts = count.switches, count.degree, count.hosts
    for sizes, copies in count.grids:
        more = f"-{copies}l" if copies > 1 else ""
        name = f"hyperx-{'x'.join(map(str, sizes))}-{hosts}{more}"
        yield _named("hyperx", name, count, sizes=sizes, links_per_pair=copies)
    if degree >= switches - 1:
        return
    shape = f"{switches}x{hosts}-{degree}"
    for seed in seeds:
        strides = circulant_strides(switches, degree, seed)
        name = f"circulant-{shape}-s{seed}"
        yield _named("circulant", name, count, switches=switches, strides=strides)
        keys = {"switches": switches, "degree": degree, "seed": seed}
        if switches % (degree + 1) == 0:
            yield _named("xpander", f"xpander-{shape}-s{seed}", count, **keys)
        yield _named("jellyfish", f"jellyfish-{shape}-s{seed}", count, **keys)


def _named(family: str, name: str, count: Count, **keys: object) -> FabricSpec:
    title = (
        f"{count.switches} switches of {count.hosts} hosts and {count.degree} links to others each"
    )
    # What is said of how such fabrics are timed holds for them, too.
    timed = [note for note in FABRICS.load(family).notes if note.startswith("Timed")]
    common = {"title": title, "source": SOURCE, "date": DATE, "in_sets": False, "notes": timed}
    return FabricSpec.read(
        {"name": name, **common, "family": family, "hosts_per_switch": count.hosts, **keys}
    )


SOURCE, DATE = "found by netplan optimize --search graphs", "2026-11"


class Nearest(Struct, frozen=True):
    """The graph of a count in which uniform traffic runs fastest, of those that were searched.

    ``share`` is what it gives of a port's rate, ``bound`` what no graph of the count exceeds [1].
    """

    spec: FabricSpec
    share: float
    bound: float
    graphs: int

    @property
    def gap(self) -> float:
        """How much faster than it a graph of the count might be, as a share [1]."""
        return self.bound / self.share - 1


@lru_cache(maxsize=65536)
def nearest_graph(count: Count, sizing: Sizing, seeds: range) -> Nearest:
    """Search the graphs of a count, until one reaches the bound.

    Examples
    --------
    Four hosts on each of 16 switches in two dimensions: no graph of six links does better.

    >>> sizing = Sizing(64, 10, 1, 450e9, 50e9)
    >>> found = nearest_graph(Count(16, 6, 4, (((4, 4), 1),)), sizing, range(1))
    >>> found.spec.name, found.share, found.bound, found.graphs
    ('hyperx-4x4-4', 1.0, 1.0, 1)
    """
    bound, best, share, tried = uniform_bound(count, sizing.gpus), None, -inf, 0
    for spec in graphs_of(count, seeds):
        tried += 1
        reached = uniform_share(switch_graph(spec, sizing), sizing.gpus)
        if reached > share:
            best, share = spec, reached
        if share >= bound * (1 - REACHED):
            break
    assert best is not None  # noqa: S101 - every count has a graph of every seed
    return Nearest(best, share, max(bound, share), tried)


def counted_fabric(count: Count, sizing: Sizing) -> Fabric:
    """Switches and links of any graph of a count, without levels: what its bill is made of."""
    ports = 2 * count.links + sizing.gpus
    links = [("host", sizing.gpus), ("between switches", count.links)]
    return Fabric(
        name="graph",
        title="",
        sizing=sizing,
        tiers=(SwitchTier("switch", count.switches, count.switches, ports),),
        links=tuple(LinkGroup(name, number, number, "optical") for name, number in links),
        nic_ports=sizing.gpus,
        levels=(),
        network="any-to-any",
        notes=(),
    )

"""Checks of families of fabrics: printed counts, diameters and path lengths of each.

``reports/published/families.csv`` holds a row a number: the fabric, what its file changes, GPUs,
ports of a switch, which quantity of it is meant, and the source that was read. Many of these papers
print their tables behind what could be read; such rows come from other pages that print numbers of
the same design, and say so.

Hops are those between switches, links those from GPU to GPU. What no spec gives is computed here:
sets of a Slim Fly's construction, and all its orders.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import ceil, prod, sqrt

import numpy as np
from msgspec import field
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

from netplan.arrays import AnyInts, Ints
from netplan.published.checks import Check, Measured, known, published, stated
from netplan.records import Entry
from netplan.topologies.assembly import NameBlock
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.families.circulant import circulant_links, circulant_strides
from netplan.topologies.families.hammingmesh import hammingmesh_shape
from netplan.topologies.families.joined_families import switch_graph
from netplan.topologies.families.joined_switches import SwitchGraph, SwitchLinks
from netplan.topologies.families.slim_fly import (
    is_order,
    network_degree,
    primitive_powers,
    slim_fly,
)
from netplan.topologies.keys import JOINED
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.paths import PathStatistics, path_statistics
from netplan.units import bytes_per_s

TABLE = "families"
FAT_TREE = "fat-tree"
ACROSS_GROUPS = 3
"""Hops from group to group of a dragonfly or dragonfly+: one between them, and one in each [1]."""
FAT_TREE_LINKS = 6
"""Links between most GPUs of a fat tree in three tiers [1]."""
ENDS = ("source", "target")


class Inputs(Entry, frozen=True, kw_only=True):
    """A fabric, what differs from its file, and its size.

    ``against`` are the hosts of a network that it is compared with, ``sizes`` the first and last
    order of Slim Flies.
    """

    fabric: str = ""
    keys: dict[str, int | list[int]] = field(default_factory=dict)
    gpus: int = 8
    radix: int = 64
    hb_size: int = 1
    link_gbps: float = 400.0
    against: int = 0
    sizes: tuple[int, ...] = ()

    @property
    def sizing(self) -> Sizing:
        """The question put to the fabric."""
        rate = bytes_per_s(self.link_gbps)
        return Sizing(self.gpus, self.radix, self.hb_size, 450e9, rate)

    @property
    def spec(self) -> FabricSpec:
        """The spec with its changes."""
        keys = self.keys.items()
        changes = {key: tuple(one) if isinstance(one, list) else one for key, one in keys}
        return FABRICS.load(self.fabric).changed(**changes)


def family_checks() -> Iterator[Check]:
    """All printed numbers of all families.

    Examples
    --------
    >>> [one.got for one in family_checks() if one.name.endswith("q = 5: nodes")]
    ['150', '200']
    """
    yield from stated(_measured(), TABLE)
    for row in published(TABLE):
        if not row["quantity"]:
            yield known(row["name"], row["source"], row["expected"], "-", row["reason"])


def _measured() -> Iterator[Measured]:
    for row in published(TABLE):
        if row["quantity"]:
            yield row["name"], QUANTITIES[row["quantity"]](row["inputs"])


@lru_cache(maxsize=4)
def _built(inputs: str) -> tuple[Inputs, FabricSpec, Fabric]:
    given = Inputs.read(json.loads(inputs))
    return given, given.spec, build_fabric(given.spec, given.sizing)


@lru_cache(maxsize=4)
def _switches(inputs: str) -> SwitchGraph:
    """Switches of one plane."""
    _, spec, fabric = _built(inputs)
    return switch_graph(spec, fabric.sizing)


@lru_cache(maxsize=2)
def _paths(inputs: str) -> PathStatistics:
    """Paths between all GPUs, those through HB domains included."""
    _, spec, fabric = _built(inputs)
    return path_statistics(expand(spec, fabric.sizing), through_domains=True)


def _between(inputs: str) -> int:
    """Links between switches [1]."""
    return sum(group.links for group in _built(inputs)[2].links if group.name != "host")


def _group(name: str) -> Callable[[str], float]:
    """Links of one group [1]."""
    return lambda inputs: sum(one.links for one in _built(inputs)[2].links if one.name == name)


def _tier(name: str) -> Callable[[str], float]:
    """Switches of one tier [1]."""
    return lambda inputs: sum(one.switches for one in _built(inputs)[2].tiers if one.name == name)


def least_diameter(switches: int) -> int:
    """Least diameter of a circulant whose switches have four links each [1].

    Boesch and Wang (IEEE Transactions on Circuits and Systems 32, 1985), as oeis.org/A344517 gives
    it: ceil((sqrt(2 n - 1) - 1) / 2).

    Examples
    --------
    >>> [least_diameter(switches) for switches in (6, 13, 14, 25, 26, 41, 42)]
    [2, 2, 3, 3, 4, 4, 5]
    """
    return ceil((sqrt(2 * switches - 1) - 1) / 2)


def _circulants(inputs: str) -> str:
    """Circulants of four links a switch, as netplan draws them, that have the least diameter."""
    first, last = Inputs.read(json.loads(inputs)).sizes
    found = [_circulant_diameter(each) for each in range(first, last + 1)]
    least = [least_diameter(each) for each in range(first, last + 1)]
    held = sum(one == other for one, other in zip(found, least, strict=True))
    return f"{held} of {len(found)}"


def _circulant_diameter(switches: int) -> int:
    ends = circulant_links(switches, circulant_strides(switches, 4, 0))
    names = NameBlock("switch-{}", (switches,))
    graph = SwitchGraph((("switch", names),), 1, (SwitchLinks("strides", *ends),), "")
    return int(hops(graph, np.zeros(1, np.int64)).max())


def _lifted(inputs: str) -> str:
    """Whether no two switches of a group are joined, and any two groups by as many links."""
    graph = _switches(inputs)
    groups, each = graph.tiers[0][1].shape
    (links,) = graph.links
    low, high = links.source // each, links.target // each
    pairs = np.bincount(np.minimum(low, high) * groups + np.maximum(low, high))
    joined = pairs[pairs > 0]
    apart = bool((low != high).all())
    return str(apart and len(joined) == groups * (groups - 1) // 2 and set(joined) == {each})


def hops(graph: SwitchGraph, sources: AnyInts) -> Ints:
    """Hops from some switches to all with hosts, shape (sources, host switches) [1].

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=200, radix=32)
    >>> graph = slim_fly(FABRICS.load("slim-fly"), scenario.sizing)
    >>> np.bincount(hops(graph, np.array([0]))[0]).tolist()  # itself, neighbours, all others
    [1, 7, 42]
    """
    low, high = (np.concatenate([getattr(one, end) for one in graph.links]) for end in ENDS)
    shape = (graph.switches, graph.switches)
    joined = coo_array((np.ones(len(low)), (low, high)), shape=shape).tocsr()
    found = shortest_path(joined, directed=False, unweighted=True, indices=sources)
    reached: Ints = found[:, : graph.host_switches].astype(np.int64)
    return reached


def _diameter(inputs: str) -> int:
    """Most hops between two switches with hosts [1]."""
    _, spec, fabric = _built(inputs)
    if spec.family not in JOINED:
        return 2 * (len(fabric.tiers) - 1)
    graph = _switches(inputs)
    return int(hops(graph, np.arange(graph.host_switches)).max())


def _orders(inputs: str) -> str:
    """Orders of Slim Flies whose counts and diameter are those of the formulas.

    Shifts of y and c, of x with c, and of m with y keep all links (those of y = m x + c too), so
    that every switch of a subgraph is like its first: two sources tell the diameter.
    """
    first, last = Inputs.read(json.loads(inputs)).sizes
    orders, held = [*filter(is_order, range(first, last + 1))], 0
    for order in orders:
        links = network_degree(order)
        spec = FABRICS.load("slim-fly").changed(order=order)
        sizing = Sizing(2 * order**2, 2 * ceil((links + ceil(links / 2)) / 2), 1, 450e9, 50e9)
        graph = slim_fly(spec, sizing)
        alike = set(graph.degrees().tolist()) == {links} and graph.switches == 2 * order**2
        held += alike and int(hops(graph, np.array([0, order**2])).max()) == 2  # noqa: PLR2004
    return f"{held} of {len(orders)}"


def _steps(inputs: str) -> str:
    """Differences of joined switches inside the groups of subgraph 0, in rising order."""
    order = int(Inputs.read(json.loads(inputs)).keys["order"])  # type: ignore[arg-type]
    return " ".join(map(str, sorted(primitive_powers(order)[::2].tolist())))


def _sized(fabric: str, gpus: int, radix: int, **keys: int | list[int]) -> Fabric:
    """A fabric of the catalog in a size, with some keys changed."""
    given = Inputs(fabric=fabric, keys=keys, gpus=gpus, radix=radix)
    return build_fabric(given.spec, given.sizing)


def _fewer(count: Callable[[Fabric], float]) -> Callable[[str], float]:
    """Per cent by which a fabric needs less than a fat tree of the same switches."""

    def fewer(inputs: str) -> float:
        given, _, fabric = _built(inputs)
        return 100 * (1 - count(fabric) / count(_sized(FAT_TREE, given.gpus, given.radix)))

    return fewer


def _more_hosts(inputs: str) -> float:
    """Per cent of GPUs more than on a fat tree that has as many switches, or more."""
    given, _, fabric = _built(inputs)
    tree = _sized(FAT_TREE, given.against, given.radix)
    return 100 * (given.gpus / given.against - 1) if fabric.switches <= tree.switches else 0.0


def _smallest_hops(inputs: str) -> str:
    """Whether a fabric has fewer hops than fat tree, dragonfly and dragonfly+ of the same cards."""
    given, spec, _ = _built(inputs)
    tree = _sized(FAT_TREE, given.gpus, given.radix, planes=spec.planes)
    return str(_diameter(inputs) < min(2 * (len(tree.tiers) - 1), ACROSS_GROUPS))


def _near_pairs(inputs: str) -> float:
    """Per cent of pairs of GPUs that are less than six links apart."""
    pairs = _paths(inputs).pairs
    return 100 * sum(pairs[:FAT_TREE_LINKS]) / sum(pairs)


def _shorter_paths(inputs: str) -> str:
    """Whether paths are shorter on average than on a fat tree of the same ports."""
    given, _, _ = _built(inputs)
    tree = Inputs(fabric=FAT_TREE, gpus=given.gpus, radix=given.radix)
    others = path_statistics(expand(tree.spec, tree.sizing))
    return str(_paths(inputs).average_links < others.average_links)


def _middle_tb_per_s(inputs: str) -> float:
    """Bandwidth across the middle of a torus's slowest axis, one way [TB/s]."""
    given, spec, fabric = _built(inputs)
    graph = expand(spec, fabric.sizing)
    half = given.gpus // 2
    crossing = (graph.source < half) != (graph.target < half)
    return float(np.count_nonzero(crossing)) * bytes_per_s(given.link_gbps) / 1e12


def _ports_pb_per_s(inputs: str) -> float:
    """Bandwidth of all GPUs into their network, one way [PB/s]."""
    given, _, fabric = _built(inputs)
    return given.gpus * fabric.gpu_bytes_per_s / 1e15


def _twist_gain(inputs: str) -> float:
    """Per cent that a twist adds to an all-to-all over shortest paths.

    A straight torus of N is held by its longest axis, whose two directions carry N S/4 hops a GPU;
    a twisted one, all of whose axes are loaded alike, by its mean distance.
    """
    _, spec, fabric = _built(inputs)
    sizes, gpus = spec.sizes or (1,), fabric.sizing.gpus
    twisted = (gpus - 1) * _paths(inputs).average_links / len(sizes)
    return 100 * (gpus * max(sizes) / 4 / twisted - 1)


def _places(inputs: str) -> int:
    """Places of a HammingMesh [1]."""
    _, spec, fabric = _built(inputs)
    shape = hammingmesh_shape(spec, fabric.sizing)
    return prod(shape.sizes)


def _ports_of(name: str) -> Callable[[str], float]:
    """Ports in use of a switch of one tier, on average [1]."""

    def ports(inputs: str) -> float:
        (tier,) = (one for one in _built(inputs)[2].tiers if one.name == name)
        return tier.ports_used / tier.switches

    return ports


def _switch_quantity(of: Callable[[SwitchGraph], float]) -> Callable[[str], float]:
    return lambda inputs: of(_switches(inputs))


QUANTITIES: Mapping[str, Callable[[str], float | str]] = {
    "switches": lambda inputs: _built(inputs)[2].switches,
    "nodes": _switch_quantity(lambda graph: graph.capacity),
    "links-to-others": _switch_quantity(lambda graph: int(graph.degrees().max())),
    "ports": _switch_quantity(lambda graph: int(graph.degrees().max()) + graph.hosts),
    "links-between-switches": _between,
    "links-between-groups": _group("between groups"),
    "spines": _tier("spine"),
    "groups": lambda inputs: _built(inputs)[1].groups or 0,
    "diameter-hops": _diameter,
    "orders": _orders,
    "steps": _steps,
    "fewer-switches": _fewer(lambda fabric: fabric.switches),
    "fewer-cables": _fewer(lambda fabric: fabric.link_count),
    "more-hosts": _more_hosts,
    "smallest-hops": _smallest_hops,
    "gpu-links": lambda inputs: _built(inputs)[2].ports_per_gpu + _built(inputs)[0].hb_size - 1,
    "diameter-links": lambda inputs: _paths(inputs).diameter_links,
    "middle-tb-per-s": _middle_tb_per_s,
    "ports-pb-per-s": _ports_pb_per_s,
    "twist-gain": _twist_gain,
    "places": _places,
    "circulants": _circulants,
    "lifted": _lifted,
    "near-pairs": _near_pairs,
    "shorter-paths": _shorter_paths,
    "leaf-ports": _ports_of("leaf"),
    "spine-ports": _ports_of("spine"),
}
"""What a number is, by its name in the table; each computes it from the row's inputs."""

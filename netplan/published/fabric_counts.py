"""Fabrics as printed: counts of designs and of families, diameters, paths, traffic, bandwidth.

*Designs*: ``reports/published/real-designs.csv`` holds a row a design: the printed numbers, the
rule that makes them, its inputs (a spec of ``topologies`` or ``topologies/designs``, and the size
that the spec leaves open), and the source. A cell named in ``known`` is printed wrongly or counts
something else, as the reason says.

*Families*: ``reports/published/families.csv`` holds a row a number: the fabric, what its file
changes, GPUs, ports of a switch, which quantity of it is meant, and the source that was read. Many
of these papers print their tables behind what could be read; such rows come from other pages that
print numbers of the same design, and say so.

Hops are those between switches, links those from GPU to GPU. What no spec gives is computed here:
sets of a Slim Fly's construction, and all its orders.

*Traffic, paths, bandwidth*: the rail-only paper (arXiv:2307.12169), Figures 3 to 5; ATOP/ZCube
(SIGCOMM 2025); Frontier (SC 2023).
"""

import json
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from math import ceil, prod, sqrt

import numpy as np
from msgspec import field
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

from netplan.arrays import AnyInts, Ints
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import BillBooks, make_bill
from netplan.costing.materials import bill_items
from netplan.costing.prices import POWER_BOOKS, PRICE_BOOKS
from netplan.costing.switches import SWITCHES, circuit_layer
from netplan.costing.wiring import CARD, Hardware, wire
from netplan.errors import InputError
from netplan.faults.years.clusters import interruptions_by_record
from netplan.faults.years.rates import FAILURE_BOOKS, unit_counts
from netplan.faults.years.reliability import mtbf_h
from netplan.published.checks import Check, Measured, check, formula_value, published, suite
from netplan.records import Entry, replace
from netplan.topologies.assembly import NameBlock
from netplan.topologies.build import build_fabric
from netplan.topologies.designs import DESIGNS, CountedDesign, Counts, DesignSize
from netplan.topologies.expand import domain_link_count, expand
from netplan.topologies.fabric import MAX_GPUS, Fabric, Sizing, SwitchTier
from netplan.topologies.families.circulant import circulant_links, circulant_strides
from netplan.topologies.families.clos import leaf_ports, tiers_needed
from netplan.topologies.families.dragonfly import dragonfly_shape
from netplan.topologies.families.hammingmesh import hammingmesh_shape
from netplan.topologies.families.joined_switches import (
    BETWEEN_SWITCHES,
    JoinedSwitches,
    SwitchGraph,
    SwitchLinks,
    switch_graph,
)
from netplan.topologies.families.slim_fly import is_order, network_degree, primitive_powers
from netplan.topologies.families.torus import torus_shape
from netplan.topologies.graph.paths import PathStatistics, path_statistics
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.patterns import collective_traffic
from netplan.traffic.placement import Degrees, Placement
from netplan.traffic.statistics import hb_share, idle_pairs_share, kind_shares
from netplan.traffic.training import training_traffic
from netplan.units import bytes_per_s
from netplan.workloads.models import MODELS
from netplan.workloads.operations import Sharding
from netplan.workloads.program import TrainingMethod, training_program

SERVER_GPUS = 8


class Sized(Entry, frozen=True, kw_only=True, dict=True):
    """A fabric, what differs from its file, its size, and the quantities that papers print of it.

    ``against`` are the hosts of a network that it is compared with, ``sizes`` the first and last
    order of Slim Flies. ``links_per_cable`` is for tables that count twin-port cables,
    ``cables_per_hb_link`` for those that count the pairs of wires inside HB domains; ``pods`` share
    the network of which a table counts one part. ``switch`` and ``circuits`` name models,
    ``cage_cards`` cards share a cage. A
    quantity of the table is a formula of properties and of paths to fields.
    """

    fabric: str = ""
    keys: dict[str, int | list[int]] = field(default_factory=dict)
    gpus: int = 8
    radix: int = 64
    hb_size: int = 1
    link_gbps: float = 400.0
    against: int = 0
    sizes: tuple[int, ...] = ()
    links_per_cable: int = 1
    cables_per_hb_link: int = 1
    pods: int = 1
    switch: str = ""
    circuits: str = ""
    cage_cards: int = 1

    @property
    def sizing(self) -> Sizing:
        """The question put to the fabric."""
        rate = bytes_per_s(self.link_gbps)
        sizing = Sizing(self.gpus, self.radix, self.hb_size, 450e9, rate, as_published=True)
        return replace(sizing, cage_cards=self.cage_cards)

    @cached_property
    def spec(self) -> FabricSpec:
        """The spec with its changes."""
        keys = self.keys.items()
        changes = {key: tuple(value) if isinstance(value, list) else value for key, value in keys}
        path = DESIGNS.paths().get(self.fabric)  # a published design's own spec goes first
        return FABRICS.load(str(path) if path else self.fabric).changed(**changes)

    @cached_property
    def built(self) -> Fabric:
        """The fabric's counts."""
        return build_fabric(self.spec, self.sizing)

    @cached_property
    def graph(self) -> SwitchGraph:
        """Switches of one plane."""
        return switch_graph(self.spec, self.built.sizing)

    @cached_property
    def paths(self) -> PathStatistics:
        """Paths between all GPUs, those through HB domains included."""
        return path_statistics(expand(self.spec, self.built.sizing), through_domains=True)

    def fat_tree(self, gpus: int = 0, **keys: int | list[int]) -> "Sized":
        """A fat tree of the same switches."""
        return Sized(fabric="fat-tree", keys=keys, gpus=gpus or self.gpus, radix=self.radix)

    @cached_property
    def tree(self) -> "Sized":
        """A fat tree of as many GPUs."""
        return self.fat_tree()

    @property
    def tiers(self) -> dict[str, SwitchTier]:
        """Tiers of its switches by their names."""
        return {tier.name: tier for tier in self.built.tiers}

    @property
    def links_to_others(self) -> int:
        """Most links of a switch to others [1]."""
        return int(self.graph.degrees().max())

    @property
    def links_between_switches(self) -> int:
        """Links between switches [1]."""
        return sum(group.links for group in self.built.links if group.role != "host")

    @property
    def links_between_groups(self) -> int:
        """Links between groups of switches [1]."""
        return sum(group.links for group in self.built.links if group.name == "between groups")

    @property
    def circulants(self) -> str:
        """Circulants of four links a switch, as netplan draws them, of the least diameter."""
        first, last = self.sizes
        held = 0
        for switches in range(first, last + 1):
            ends = circulant_links(switches, circulant_strides(switches, 4, 0))
            names = NameBlock("switch-{}", (switches,))
            graph = SwitchGraph(
                (("switch", names),), 1, (SwitchLinks(BETWEEN_SWITCHES, *ends),), ""
            )
            held += hops(graph, np.zeros(1, np.int64)).max() == least_diameter(switches)
        return f"{held} of {last + 1 - first}"

    @property
    def lifted(self) -> str:
        """Whether no two switches of a group are joined, and any two groups by as many links."""
        groups, group_size = self.graph.tiers[0][1].shape
        (links,) = self.graph.links
        low, high = links.source // group_size, links.target // group_size
        pairs = np.bincount(np.minimum(low, high) * groups + np.maximum(low, high))
        joined = pairs[pairs > 0]
        apart = bool((low != high).all())
        return str(
            apart and len(joined) == groups * (groups - 1) // 2 and set(joined) == {group_size}
        )

    @property
    def diameter_hops(self) -> int:
        """Most hops between two switches with hosts [1]."""
        if not isinstance(self.spec, JoinedSwitches):
            return 2 * (len(self.built.tiers) - 1)
        return int(hops(self.graph, np.arange(self.graph.host_switches)).max())

    @property
    def orders(self) -> str:
        """Orders of Slim Flies whose counts and diameter are those of the formulas.

        Shifts of y and c, of x with c, and of m with y keep all links (those of y = m x + c too),
        so that every switch of a subgraph is like its first: two sources tell the diameter.
        """
        first, last = self.sizes
        orders, held = [*filter(is_order, range(first, last + 1))], 0
        for order in orders:
            links = network_degree(order)
            spec = FABRICS.load("slim-fly").changed(order=order)
            radix = 2 * ceil((links + ceil(links / 2)) / 2)
            graph = switch_graph(spec, Sizing(2 * order**2, radix, 1, 450e9, 50e9))
            alike = set(graph.degrees().tolist()) == {links} and graph.switches == 2 * order**2
            held += alike and int(hops(graph, np.array([0, order**2])).max()) == 2  # noqa: PLR2004
        return f"{held} of {len(orders)}"

    @property
    def steps(self) -> str:
        """Differences of joined switches inside the groups of subgraph 0, in rising order."""
        order = int(self.keys["order"])  # type: ignore[arg-type]
        return " ".join(map(str, sorted(primitive_powers(order)[::2].tolist())))

    @property
    def more_hosts(self) -> float:
        """Per cent of GPUs more than on a fat tree that has as many switches, or more."""
        enough = self.built.switches <= self.fat_tree(self.against).built.switches
        return 100 * (self.gpus / self.against - 1) if enough else 0.0

    @property
    def smallest_hops(self) -> str:
        """Whether it has fewer hops than fat tree, dragonfly and dragonfly+ of the same cards."""
        tree = self.fat_tree(planes=self.spec.planes).built
        return str(self.diameter_hops < min(2 * (len(tree.tiers) - 1), ACROSS_GROUPS))

    @property
    def near_pairs(self) -> float:
        """Per cent of pairs of GPUs that are less than six links apart."""
        return 100 * sum(self.paths.pairs[:FAT_TREE_LINKS]) / sum(self.paths.pairs)

    @property
    def shorter_paths(self) -> str:
        """Whether paths are shorter on average than on a fat tree of the same ports."""
        others = path_statistics(expand(self.tree.spec, self.tree.sizing))
        return str(self.paths.average_links < others.average_links)

    @property
    def middle_tb_per_s(self) -> float:
        """Bandwidth across the middle of a torus's slowest axis, one way [TB/s]."""
        graph, half = expand(self.spec, self.built.sizing), self.gpus // 2
        crossing = (graph.source < half) != (graph.target < half)
        return float(np.count_nonzero(crossing)) * bytes_per_s(self.link_gbps) / 1e12

    @property
    def twist_gain(self) -> float:
        """Per cent that a twist adds to an all-to-all over shortest paths.

        A straight torus of N is held by its longest axis, whose two directions carry N S/4 hops a
        GPU; a twisted one, all of whose axes are loaded alike, by its mean distance.
        """
        sizes, gpus = torus_shape(self.spec, self.built.sizing), self.built.sizing.gpus
        twisted = (gpus - 1) * self.paths.average_links / len(sizes)
        return 100 * (gpus * max(sizes) / 4 / twisted - 1)

    @property
    def tree_money(self) -> float:
        """Price of a fat tree with as many links a GPU over that of this network [1]."""
        tree = self.fat_tree(planes=self.built.ports_per_gpu)
        return _price_usd(tree, "2026") / _price_usd(self, "2026")

    @property
    def clos_money(self) -> float:
        """Price of a Clos of the book's optics, one link a GPU, over that of this network [1]."""
        clos = Sized(fabric="rail-optimized", gpus=self.gpus, hb_size=self.hb_size)
        return _price_usd(clos, "2026") / _price_usd(self, "2026")

    @property
    def clos_repair(self) -> float:
        """Per cent of the time that a Clos stops one job on all GPUs, an hour each, by the book.

        Links between NPUs that are joined directly stop none: there is another way round.
        """
        clos = Sized(fabric="rail-optimized", gpus=self.gpus, hb_size=self.hb_size)
        book = FAILURE_BOOKS.load("2026").placed(self.hb_size)
        interruptions = interruptions_by_record(book, unit_counts(clos.built))["network"]
        return 100 / (1 + mtbf_h(interruptions))

    @property
    def places(self) -> int:
        """Places of a HammingMesh [1]."""
        return prod(hammingmesh_shape(self.spec, self.built.sizing).sizes)


class CountedInputs(Entry, frozen=True, kw_only=True):
    """A design that is counted, and what its file leaves open."""

    design: str
    gpus: int = 0
    radix: int = 0
    partition: str = ""


def design_checks() -> Iterator[Check]:
    """All printed numbers of all published designs.

    Examples
    --------
    >>> checks = [c for c in design_checks() if c.name.startswith("Alibaba HPN pod: links")]
    >>> [(c.expected, c.got, c.verdict) for c in checks][1]
    ('14400', '14400', 'pass')
    """
    for row in published("real-designs"):
        counts = design_counts(row["rule"], row["inputs"])
        exempt = row["known"].split()
        reason = "" if exempt else row["reason"]  # of a row with known cells it is about those
        for column, expected in row.items():
            if column in SAID or not (expected or column in exempt):
                continue
            name = f"{row['design']}: {column.replace('_', ' ')}"
            digits = len(expected.partition(".")[2])
            got = f"{counts[column]:.{digits}f}"
            why = row["reason"] if column in exempt else reason
            yield check(name, row["source"], expected or "none", got, why)


def design_counts(rule: str, inputs: str) -> Counts:
    """Count a design by its rule.

    Parameters
    ----------
    rule
        A key of ``RULES``, or ``counted`` for a design without a builder.
    inputs
        The rule's inputs as JSON.

    Examples
    --------
    >>> design_counts("counted", '{"design": "zcube", "gpus": 4096}')["transceivers"]
    16384
    """
    if rule == "counted":
        asked = CountedInputs.read(json.loads(inputs))
        design = DESIGNS.load(asked.design)
        if not isinstance(design, CountedDesign):
            raise InputError(f"{design.name} is a fabric spec: name it as fabric, not as design")
        return design.counts(DesignSize(asked.gpus, asked.radix, asked.partition))
    count, given = RULES[rule], Sized.read(json.loads(inputs))
    fabric = given.built
    totals = {
        "gpus": given.gpus,
        "nodes": given.gpus // SERVER_GPUS,
        "total_switches": fabric.switches,
        "copper_links": fabric.copper_cables,
        "fibre_links": fabric.transceivers // 2,
        "transceivers": fabric.transceivers,
    }
    return {**totals, **count(given)}


def _tiers(design: Sized) -> Counts:
    """Switches by tier, and cables by link group."""
    tiers = ("leaf_switches", "spine_switches", "core_switches")
    links = ("links_endpoint", "links_leaf_spine", "links_spine_core")
    switches = {name: tier.switches for name, tier in zip(tiers, design.built.tiers, strict=False)}
    cables = [group.links // design.links_per_cable for group in design.built.links]
    sums = {
        "links_between_switches": sum(cables[1:]),
        "switch_ends_thousands": (design.built.transceivers - design.built.nic_ports) / 1000,
    }
    return switches | dict(zip(links, cables, strict=False)) | sums


def _nvlink(design: Sized) -> Counts:
    """Also switches, links and cables inside its HB domains."""
    links = domain_link_count(design.spec, design.built.sizing)
    inside = {
        "hb_switches": design.spec.hb_planes * design.built.sizing.domains,
        "hb_links": links,
        "hb_cables": links * design.cables_per_hb_link,
    }
    return {**_tiers(design), **inside}


def _optical_domain(design: Sized) -> Counts:
    """One pod whose HB domain is optical, too: modules of both networks, two a link."""
    inside = 2 * domain_link_count(design.spec, design.built.sizing) // design.pods
    outside = design.built.transceivers // design.pods
    return {
        "gpus": design.gpus // design.pods,
        "nodes": design.gpus // design.pods // SERVER_GPUS,
        "hb_modules": inside,
        "network_modules": outside,
        "transceivers": inside + outside,
        "fibre_links": (inside + outside) // 2,
    }


def _capacity(design: Sized) -> Counts:
    """Also the most GPUs that as many tiers hold."""
    tiers, radix = len(design.built.tiers), design.radix * design.spec.planes
    ports = leaf_ports(radix)
    beyond = bisect(range(MAX_GPUS + 1), tiers, key=lambda gpus: tiers_needed(gpus, radix, ports))
    return {**_tiers(design), "tiers": tiers, "largest_gpus": beyond - 1}


def _one_plane(design: Sized) -> Counts:
    """Switches and modules over those of one plane of whole ports; a module carries all planes."""
    sizing = replace(
        design.built.sizing,
        radix=design.radix,
        network_bytes_per_s=design.spec.planes * design.built.sizing.network_bytes_per_s,
        port_split=1,
    )
    plane = build_fabric(design.spec.changed(planes=1), sizing)
    return {
        **_tiers(design),
        "switches_over_one_plane": design.built.switches / plane.switches,
        "modules_over_one_plane": design.built.transceivers
        / design.spec.planes
        / plane.transceivers,
    }


def _modules(design: Sized) -> Counts:
    """Also modules, as the bill orders them, and fibre without that of management servers."""
    hardware = Hardware(CABLING_BOOKS.load("2026"), SWITCHES.load(design.switch))
    wiring = wire(design.built, hardware)
    hosts = [run for run in wiring.runs if run.role == "host"]
    cards = next(run for run in hosts if CARD in run.ends)
    # Cards are one pool of cages.
    leaf, card = cards.plugs_at(0, design.built.tiers[0].switches), cards.plugs_at(1, 1)
    servers = sum(run.links for run in hosts) - cards.links
    bill = bill_items(design.built, wiring, hardware)
    modules = sum(line.quantity for line in bill if line.category == "transceivers")
    switches = modules - card - servers
    return {
        **_tiers(design),
        "leaf_modules": leaf,
        "card_modules": card,
        "switch_modules": switches,
        "card_modules_per_gpu": card / design.gpus,
        "switch_modules_per_gpu": switches / design.gpus,
        "fibre_cables": sum(run.links for run in wiring.runs) - servers,
    }


def _cost(design: Sized) -> Counts:
    """Also what the network costs by a GPU, by the prices of the rail-only paper [USD]."""
    return {**_tiers(design), "usd_per_gpu": _price_usd(design, "rail-only-2023") / design.gpus}


def _price_usd(design: Sized, prices: str) -> float:
    """Price of a network by a book [USD]."""
    books = PRICE_BOOKS.load(prices), POWER_BOOKS.load("2026"), CABLING_BOOKS.load("2026")
    return make_bill(design.spec, design.built.sizing, BillBooks(*books)).capital.base


def _circuit_torus(design: Sized) -> Counts:
    """A torus of cubes joined by optical circuit switches; each link becomes two fibres."""
    layer = circuit_layer(design.spec, design.built, SWITCHES.load(design.circuits))
    nodes = design.gpus // 4  # four chips a host
    return {"nodes": nodes, "circuit_switches": layer.switches, "fibre_links": layer.ports_used}


def _dragonfly(design: Sized) -> Counts:
    """Switches, and host over global bandwidth of a group."""
    taper = dragonfly_shape(design.spec, design.built.sizing).taper
    nodes = design.gpus // design.hb_size
    return {"nodes": nodes, "leaf_switches": design.built.switches, "oversubscription": 1 / taper}


SAID = ("design", "radix", "rule", "inputs", "status", "known", "reason", "source")
"""Columns of real designs that hold no number of theirs."""

RULES: Mapping[str, Callable[[Sized], Counts]] = {
    "spec": _tiers,
    "nvlink": _nvlink,
    "optical-domain": _optical_domain,
    "modules": _modules,
    "cost": _cost,
    "capacity": _capacity,
    "against-one-plane": _one_plane,
    "circuit-torus": _circuit_torus,
    "dragonfly": _dragonfly,
}
"""What a design is counted by beyond the totals of its spec."""


TABLE = "families"
ACROSS_GROUPS = 3
"""Hops from group to group of a dragonfly or dragonfly+: one between them, and one in each [1]."""
FAT_TREE_LINKS = 6
"""Links between most GPUs of a fat tree in three tiers [1]."""
ENDS = ("source", "target")


@lru_cache(maxsize=4)
def table_fabric(inputs: str) -> Sized:
    """The fabric of a row of the table, from its inputs as JSON."""
    return Sized.read(json.loads(inputs))


@suite(TABLE)
def family_checks() -> Iterator[Measured | Check]:
    """All printed numbers of all families.

    Examples
    --------
    >>> [one.got for one in family_checks() if one.name.endswith("q = 5: nodes")]
    ['150', '200']
    """
    for row in published(TABLE):
        yield row["name"], formula_value(table_fabric(row["inputs"]), row["quantity"])


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


def hops(graph: SwitchGraph, sources: AnyInts) -> Ints:
    """Hops from some switches to all with hosts, shape (sources, host switches) [1].

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=200, radix=32)
    >>> graph = switch_graph(FABRICS.load("slim-fly"), scenario.sizing)
    >>> np.bincount(hops(graph, np.array([0]))[0]).tolist()  # itself, neighbours, all others
    [1, 7, 42]
    """
    low, high = (
        np.concatenate([getattr(tier_links, end) for tier_links in graph.links]) for end in ENDS
    )
    shape = (graph.switches, graph.switches)
    joined = coo_array((np.ones(len(low)), (low, high)), shape=shape).tocsr()
    distances = shortest_path(joined, directed=False, unweighted=True, indices=sources)
    return np.asarray(distances[:, : graph.host_switches].astype(np.int64))


GB = 1e9

# Strategies of Narayanan et al. (arXiv:2104.04473), Table 1: tensor, pipeline, data, batch.
STRATEGIES = {"gpt-146b": (8, 8, 24, 2304), "gpt-1t": (8, 64, 6, 3072)}

PTDP = TrainingMethod(counting="counted", zero_stage=0)
"""How those papers count: matrix products, and an all_reduce of the gradients."""


@suite()
def traffic_checks() -> Iterator[Measured | Check]:
    """Who talks to whom, and how much, with ring collectives and one sequence a microbatch."""
    for name, (tensor, pipeline, data, batch) in STRATEGIES.items():
        placement = Placement((Degrees(tensor), Degrees(data=data, pipeline=pipeline)))
        program = training_program(MODELS.load(name), Sharding.of(1, tensor), PTDP)
        matrix = training_traffic(
            program, placement, gpus=placement.gpus, microbatches=batch // data
        )
        shares = {share.kind: share for share in kind_shares(matrix)}
        yield f"{name}: pairs without traffic, %", 100 * idle_pairs_share(matrix)
        yield f"{name}: tensor pairs, %", 100 * shares["tensor"].pairs_share
        yield f"{name}: tensor share of bytes, %", 100 * shares["tensor"].bytes_share
        yield f"{name}: GB a tensor pair", shares["tensor"].pair_bytes / GB
    for kind in ("data", "pipeline"):
        yield f"gpt-1t: GB a {kind} pair", shares[kind].pair_bytes / GB
    placement = Placement((Degrees(data=32), Degrees(data=2)))
    gather = collective_traffic(
        "all_reduce", placement, ("data",), data_bytes=GB, kind="data", pattern="hierarchical"
    )
    yield "HB share of an all_reduce, %", 100 * hb_share(gather, 32)


@suite()
def path_checks() -> Iterator[Measured | Check]:
    """Average links between two GPUs, host links included, none inside servers."""
    cases: tuple[tuple[str, int, Sizing, str], ...] = (
        ("rail-optimized", 1, Sizing(16_384, 128, 8, 450e9, 50e9), "ROFT"),
        ("rail-optimized", 2, Sizing(16_384, 128, 8, 450e9, 50e9), "HPN"),
        ("bcube", 1, Sizing(4096, 64, 1, 450e9, 50e9, as_published=True), "BCube(64,2)"),
        ("bcube", 1, Sizing(16_384, 128, 1, 450e9, 50e9, as_published=True), "BCube(128,2)"),
    )
    for fabric, planes, sizing, name in cases:
        spec = FABRICS.load(fabric).changed(planes=planes)
        average = path_statistics(expand(spec, sizing)).average_links
        yield f"{name}, {sizing.gpus:,} GPUs: average path", average


@suite()
def bandwidth_checks() -> Iterator[Measured | Check]:
    """Global bandwidth and taper of 74 compute groups with four links a pair."""
    spec = FABRICS.load("frontier")
    sizing = Sizing(37_888, 64, 4, 450e9, bytes_per_s(200))
    shape = dragonfly_shape(spec, sizing)
    one_way = shape.global_links * sizing.network_bytes_per_s
    yield "global bandwidth, TB/s one way", one_way / 1e12
    yield "taper, %", 100 * shape.taper

"""Checks against published designs: every printed count out of a spec.

``reports/published/real-designs.csv`` holds a row a design: the printed numbers, the rule that
makes them, its inputs (a spec of ``topologies`` or ``topologies/designs``, and the size that the
spec leaves open), and the source. A cell named in ``known`` is printed wrongly or counts something
else, as the reason says.
"""

import json
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import BillBooks, make_bill
from netplan.costing.materials import bill_items
from netplan.costing.power import POWER_BOOKS
from netplan.costing.prices import PRICE_BOOKS
from netplan.costing.switches import SWITCHES, circuit_layer
from netplan.costing.wiring import Hardware, wire
from netplan.errors import InputError
from netplan.published.checks import Check, check, known, published
from netplan.records import Entry, replace
from netplan.topologies.build import build_fabric
from netplan.topologies.designs import DESIGNS, CountedDesign, Counts, DesignSize
from netplan.topologies.expand import domain_link_count
from netplan.topologies.fabric import MAX_GPUS, Fabric, Sizing
from netplan.topologies.families.clos import leaf_ports, tiers_needed
from netplan.topologies.families.dragonfly import dragonfly_shape
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.units import bytes_per_s

SERVER_GPUS = 8


class SpecInputs(Entry, frozen=True, kw_only=True):
    """A fabric spec, its size, and what the source counts by.

    ``links_per_cable`` is for tables that count twin-port cables, ``cables_per_hb_link`` for those
    that count the pairs of wires inside HB domains; ``pods`` share the network of which a table
    counts one part. ``switch`` and ``circuits`` name models.
    """

    fabric: str
    gpus: int
    radix: int
    hb_size: int
    links_per_cable: int = 1
    cables_per_hb_link: int = 1
    pods: int = 1
    link_gbps: float = 400.0
    switch: str = ""
    circuits: str = ""


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
            if column not in QUANTITIES or not (expected or column in exempt):
                continue
            name = f"{row['design']}: {column.replace('_', ' ')}"
            digits = len(expected.partition(".")[2])
            got = f"{counts[column]:.{digits}f}"
            if column in exempt and got != expected:
                yield known(name, row["source"], expected or "none", got, row["reason"])
            else:
                yield check(name, row["source"], expected, got, reason)


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
        return _counted(CountedInputs.read(json.loads(inputs)))
    count, given = RULES[rule], SpecInputs.read(json.loads(inputs))
    own = DESIGNS.paths().get(given.fabric)  # a published design's own spec goes first
    spec = FABRICS.load(str(own) if own else given.fabric)
    rate = bytes_per_s(given.link_gbps)
    fabric = build_fabric(spec, Sizing(given.gpus, given.radix, given.hb_size, 450e9, rate))
    totals = {
        "gpus": given.gpus,
        "nodes": given.gpus // SERVER_GPUS,
        "total_switches": fabric.switches,
        "copper_links": fabric.copper_cables,
        "fibre_links": fabric.transceivers // 2,
        "transceivers": fabric.transceivers,
    }
    return {**totals, **count(given, spec, fabric)}


def _counted(given: CountedInputs) -> Counts:
    """Count a design by its own schema."""
    design = DESIGNS.load(given.design)
    if not isinstance(design, CountedDesign):
        raise InputError(f"{design.name} is a fabric spec: name it as fabric, not as design")
    return design.counts(DesignSize(given.gpus, given.radix, given.partition))


def _tiers(given: SpecInputs, _spec: FabricSpec, fabric: Fabric) -> Counts:
    """Switches by tier, and cables by link group."""
    tiers = ("leaf_switches", "spine_switches", "core_switches")
    links = ("links_endpoint", "links_leaf_spine", "links_spine_core")
    switches = {name: tier.switches for name, tier in zip(tiers, fabric.tiers, strict=False)}
    cables = [group.links // given.links_per_cable for group in fabric.links]
    sums = {
        "links_between_switches": sum(cables[1:]),
        "switch_ends_thousands": (fabric.transceivers - fabric.nic_ports) / 1000,
    }
    return switches | dict(zip(links, cables, strict=False)) | sums


def _nvlink(given: SpecInputs, spec: FabricSpec, fabric: Fabric) -> Counts:
    """Also switches, links and cables inside its HB domains."""
    links = domain_link_count(spec, fabric.sizing)
    inside = {
        "hb_switches": spec.hb_planes * fabric.sizing.domains,
        "hb_links": links,
        "hb_cables": links * given.cables_per_hb_link,
    }
    return {**_tiers(given, spec, fabric), **inside}


def _optical_domain(given: SpecInputs, spec: FabricSpec, fabric: Fabric) -> Counts:
    """One pod whose HB domain is optical, too: modules of both networks, two a link."""
    inside = 2 * domain_link_count(spec, fabric.sizing) // given.pods
    outside = fabric.transceivers // given.pods
    return {
        "gpus": given.gpus // given.pods,
        "nodes": given.gpus // given.pods // SERVER_GPUS,
        "hb_modules": inside,
        "network_modules": outside,
        "transceivers": inside + outside,
        "fibre_links": (inside + outside) // 2,
    }


def _capacity(given: SpecInputs, spec: FabricSpec, fabric: Fabric) -> Counts:
    """Also the most GPUs that as many tiers hold."""
    tiers, radix = len(fabric.tiers), given.radix * spec.planes
    ports = leaf_ports(radix)
    beyond = bisect(range(MAX_GPUS + 1), tiers, key=lambda gpus: tiers_needed(gpus, radix, ports))
    return {**_tiers(given, spec, fabric), "tiers": tiers, "largest_gpus": beyond - 1}


def _one_plane(given: SpecInputs, spec: FabricSpec, fabric: Fabric) -> Counts:
    """Switches and modules over those of one plane of whole ports; a module carries all planes."""
    sizing = replace(
        fabric.sizing,
        radix=given.radix,
        network_bytes_per_s=spec.planes * fabric.sizing.network_bytes_per_s,
        port_split=1,
    )
    one = build_fabric(spec.changed(planes=1), sizing)
    return {
        **_tiers(given, spec, fabric),
        "switches_over_one_plane": fabric.switches / one.switches,
        "modules_over_one_plane": fabric.transceivers / spec.planes / one.transceivers,
    }


def _modules(given: SpecInputs, spec: FabricSpec, fabric: Fabric) -> Counts:
    """Also modules, as the bill orders them, and fibre without that of management servers."""
    hardware = Hardware(CABLING_BOOKS.load("2026"), SWITCHES.load(given.switch))
    wiring = wire(fabric, hardware)
    hosts = {run.name.removesuffix("host"): run for run in wiring.runs if "host" in run.name}
    leaf, card = (hosts[""].plugs_at(end, fabric.tiers[0].switches) for end in (0, 1))
    servers = sum(run.links for run in hosts.values()) - card
    bill = bill_items(fabric, wiring, hardware)
    modules = sum(line.quantity for line in bill if line.category == "transceivers")
    switches = modules - card - servers
    return {
        **_tiers(given, spec, fabric),
        "leaf_modules": leaf,
        "card_modules": card,
        "switch_modules": switches,
        "card_modules_per_gpu": card / given.gpus,
        "switch_modules_per_gpu": switches / given.gpus,
        "fibre_cables": sum(run.links for run in wiring.runs) - servers,
    }


def _cost(given: SpecInputs, spec: FabricSpec, fabric: Fabric) -> Counts:
    """Also what the network costs by a GPU, by the prices of the rail-only paper [USD]."""
    books = PRICE_BOOKS.load("rail-only-2023"), POWER_BOOKS.load("2026")
    bill = make_bill(spec, fabric.sizing, BillBooks(*books, CABLING_BOOKS.load("2026")))
    return {**_tiers(given, spec, fabric), "usd_per_gpu": bill.capital.base / given.gpus}


def _circuit_torus(given: SpecInputs, spec: FabricSpec, fabric: Fabric) -> Counts:
    """A torus of cubes joined by optical circuit switches; each link becomes two fibres."""
    layer = circuit_layer(spec, fabric, SWITCHES.load(given.circuits))
    nodes = given.gpus // 4  # four chips a host
    return {"nodes": nodes, "circuit_switches": layer.switches, "fibre_links": layer.ports_used}


def _dragonfly(given: SpecInputs, spec: FabricSpec, fabric: Fabric) -> Counts:
    """Switches, and host over global bandwidth of a group."""
    taper = dragonfly_shape(spec, fabric.sizing).taper
    nodes = given.gpus // given.hb_size
    return {"nodes": nodes, "leaf_switches": fabric.switches, "oversubscription": 1 / taper}


QUANTITIES = (
    *("gpus", "nodes", "leaf_switches", "spine_switches", "core_switches", "total_switches"),
    *("links_endpoint", "links_leaf_spine", "links_spine_core", "copper_links", "fibre_links"),
    *("transceivers", "circuit_switches", "hb_links", "oversubscription"),
    *("global_tb_per_s", "global_tb_per_s_mixed", "links_between_switches"),
    *("hb_switches", "hb_cables", "hb_modules", "network_modules", "card_modules", "leaf_modules"),
    *("tiers", "largest_gpus", "switches_over_one_plane", "modules_over_one_plane"),
    *("card_modules_per_gpu", "switch_modules_per_gpu", "switch_modules", "usd_per_gpu"),
    *("switch_ends_thousands", "fibre_cables"),
)
"""Columns that hold numbers."""

RULES: Mapping[str, Callable[[SpecInputs, FabricSpec, Fabric], Counts]] = {
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

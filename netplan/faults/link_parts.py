"""What links are made of, as units that fail: modules, fibres and copper cables, as billed.

A link of fibre has a module at each end and a cable between them; one of copper is a cable with
fixed plugs. A twin-port module carries two links and is one module: with a switch model the counts
are those of its bill, links spread evenly over the cages; without one every end has a module of its
own. An active optical cable counts as a fibre with a module in each plug, since that is what fails
in it.

Links are *host* links, which end at a network port of a GPU, or *trunks*. A module that a host link
and a trunk share counts with the host links, whose loss is worse.
"""

from typing import Literal

from msgspec import Struct

from netplan.costing.fabric_bill import BillBooks
from netplan.costing.ports import PortBank, plugs_needed
from netplan.costing.switches import check_switch
from netplan.costing.wiring import BARE_FIBRE, Hardware, Wiring, wire
from netplan.topologies.fabric import Fabric
from netplan.topologies.specs import UNCABLED

Place = Literal["host", "trunk"]
ENDS_OF_A_LINK = 2


class LinkParts(Struct, frozen=True):
    """Parts of all links in one place.

    Parameters
    ----------
    links
        Links [1].
    modules, module_links
        Modules, and the ends of links that they serve [1].
    fibres
        Fibre cables, one a link [1].
    copper_cables, copper_links
        Cables with fixed plugs, and the links that they carry [1].
    """

    links: int = 0
    modules: int = 0
    module_links: int = 0
    fibres: int = 0
    copper_cables: int = 0
    copper_links: int = 0

    @property
    def links_a_module(self) -> float:
        """Links that one module takes with it, on average [1]."""
        return self.module_links / self.modules if self.modules else 0.0

    @property
    def links_a_copper_cable(self) -> float:
        """Links that one copper cable takes with it, on average [1]."""
        return self.copper_links / self.copper_cables if self.copper_cables else 0.0


def place_of(group: str) -> Place:
    """Place of a link group, by its name in the fabric.

    Every link of a BCube has a GPU at one end; its levels are numbered, a tier each.

    Examples
    --------
    >>> [place_of(name) for name in ("host", "level 1", "leaf-spine", "ring 2 copper")]
    ['host', 'host', 'trunk', 'trunk']
    """
    at_host = group == "host" or group.startswith(("level ", "management "))
    return "host" if at_host else "trunk"


def bill_wiring(fabric: Fabric, books: BillBooks) -> Wiring:
    """Wiring of a fabric as its bill has it, by length classes.

    Raises
    ------
    InputError
        If the switch model has other ports than the fabric's switches.
    InfeasibleError
        If a cable end has no port.
    """
    if books.switch is not None and fabric.tiers:
        check_switch(books.switch, fabric.sizing.radix, fabric.sizing.speed_gbps, ())
    return wire(fabric, Hardware(books.cabling, books.switch))


def link_parts(fabric: Fabric, wiring: Wiring | None = None) -> dict[Place, LinkParts]:
    """Modules, fibres and cables of a fabric's host links and trunks.

    Parameters
    ----------
    fabric
        A sized fabric.
    wiring
        Its wiring of :func:`bill_wiring`; None for a module at every end of an optical link.

    Examples
    --------
    1,024 links leave the hosts and as many the leaves, whose 64 ports are 32 twin-port cages: 512
    + 512 modules in leaves, 512 in spines, and one in each of 1,024 cards.

    >>> from netplan import Scenario
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.costing.switches import SWITCHES
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=1024, radix=64).sizing
    >>> fabric = build_fabric(FABRICS.load("rail-optimized"), sizing)
    >>> {place: parts.modules for place, parts in link_parts(fabric).items()}
    {'host': 2048, 'trunk': 2048}
    >>> wiring = wire(fabric, Hardware(CABLING_BOOKS.load("2026"), SWITCHES.load("qm9700")))
    >>> {place: parts.modules for place, parts in link_parts(fabric, wiring).items()}
    {'host': 1536, 'trunk': 1024}
    """
    return _by_medium(fabric) if wiring is None else _as_wired(wiring)


def _by_medium(fabric: Fabric) -> dict[Place, LinkParts]:
    """A module at every end of an optical link, a cable for every link of copper."""
    found: dict[Place, LinkParts] = {}
    places: tuple[Place, ...] = ("host", "trunk")
    for place in places:
        # Links on a chip are no parts.
        cabled = [group for group in fabric.links if group.medium not in UNCABLED]
        groups = [group for group in cabled if place_of(group.name) == place]
        optical = sum(group.links for group in groups if group.medium == "optical")
        copper = sum(group.links for group in groups) - optical
        ends = ENDS_OF_A_LINK * optical
        found[place] = LinkParts(optical + copper, ends, ends, optical, copper, copper)
    return found


def _as_wired(wiring: Wiring) -> dict[Place, LinkParts]:
    """Modules by the cage and cables by the piece, as on the bill."""
    counts: dict[Place, dict[str, int]] = {
        place: dict.fromkeys(LinkParts.__struct_fields__, 0) for place in ("host", "trunk")
    }
    ends: dict[tuple[str, str, int], dict[Place, int]] = {}
    for run in wiring.runs:
        place = place_of(run.name)
        found = counts[place]
        found["links"] += run.links
        if run.medium in ("dac", "aec"):
            found["copper_links"] += run.links
            found["copper_cables"] += run.plugs_at(0, wiring.bank(run.ends[0]).devices)
            continue
        found["fibres"] += run.links
        for bank, plug in zip(run.ends, run.plugs, strict=True):
            if plug.item != BARE_FIBRE:
                there = ends.setdefault((bank, plug.item, plug.links), {"host": 0, "trunk": 0})
                there[place] += run.links
    for (bank, _, links), there in ends.items():
        for place, modules in _modules(wiring.bank(bank), links, there).items():
            counts[place]["modules"] += modules
            counts[place]["module_links"] += there[place]
    return {place: LinkParts(**found) for place, found in counts.items()}


def _modules(bank: PortBank, links: int, ends: dict[Place, int]) -> dict[Place, int]:
    """Modules of so many links each in the cages of a bank; shared ones are the hosts'."""
    together = plugs_needed(sum(ends.values()), bank.devices, links)
    hosts = min(together, plugs_needed(ends["host"], bank.devices, links))
    return {"host": hosts, "trunk": together - hosts}

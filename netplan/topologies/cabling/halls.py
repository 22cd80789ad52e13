"""A hall as built: its cables, and what its devices say of themselves.

Tables name their devices as people do. Subnets have descriptions: every adapter is a device of its
own, named by its description, and every switch by its name; where several share one, the unit or
the GUID follows it. Aggregation nodes sit inside switches, so that their links are no cables.

Node-name maps: which name a device has, by its GUID or by what it calls itself.

The form is that of ``--node-name-map`` of infiniband-diags and OpenSM, a line a node::

    # GUID               name
    0x0002c903000a1b2c   "leaf-0"
    node005              "host-4"

In place of the GUID (with or without ``0x``, or in pairs with colons) a line may begin with a
description, or with the name of a host or switch as built, in quotes if it has spaces.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from netplan.errors import CatalogError
from netplan.files import read_lines
from netplan.topologies.cabling.as_built import BuiltDevice, Hall
from netplan.topologies.cabling.device_names import adapter_name, switch_name, switch_unit
from netplan.topologies.formats.infiniband import Subnet, SubnetNode
from netplan.topologies.graph import MANAGER, SWITCH

MAX_NAMES = 1_000_000
NAME = r"[^\"\x00-\x1f\x7f]{1,200}"
LINE = re.compile(
    rf'(?:"({NAME})"|([^\s"#]{{1,200}}))[\s,=]+(?:"({NAME})"|([^\s"#]{{1,200}}))\s*(?:#.*)?'
)
GUID = re.compile(r"(?:[SHR]-)?(?:0x)?([0-9a-fA-F]{1,16})")
PAIRS = re.compile(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){7}")


def guid_of(text: str) -> str:
    """GUID in one form, 16 digits; empty where a text is none.

    Examples
    --------
    >>> guid_of("0x2c903000a1b2c"), guid_of("00:02:c9:03:00:0a:1b:2c"), guid_of("node005")
    ('0002c903000a1b2c', '0002c903000a1b2c', '')
    """
    if PAIRS.fullmatch(text):
        return text.replace(":", "").lower()
    match = GUID.fullmatch(text)
    return match[1].lower().zfill(16) if match else ""


def read_node_names(path: Path) -> Mapping[str, str]:
    """Names by GUID in one form (:func:`guid_of`), and by the text as it stands.

    Raises
    ------
    CatalogError
        If a line has no two fields, or names a device twice: file and line.
    """
    names: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, raw in enumerate(read_lines(path), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        if not match:
            raise CatalogError(f'{path}:{number}: expected a GUID and a name: 0x2c9030045 "leaf-0"')
        text, name = match[1] or match[2], (match[3] or match[4]).strip()
        if text in lines:
            raise CatalogError(f"{path}:{number}: {text[:60]} stands on line {lines[text]} already")
        if len(lines) >= MAX_NAMES:
            raise CatalogError(f"{path}:{number}: more than {MAX_NAMES:,} names")
        lines[text] = number
        names[text] = name
        if guid := guid_of(text):
            names.setdefault(guid, name)
    if not names:
        raise CatalogError(f'{path}:1: no names: give lines such as 0x2c9030045 "leaf-0"')
    return names


def subnet_cables(subnet: Subnet, names: Mapping[str, str] | None = None) -> Hall:
    """Cables of a subnet, by names of devices.

    Parameters
    ----------
    subnet
        What was found.
    names
        Names by GUID or description, which go before what the devices say.
    """
    known = names or {}
    nodes = {id_: node for id_, node in subnet.nodes.items() if node.kind != MANAGER}
    names_of = {id_: _renamed(node, known) for id_, node in nodes.items()}
    called = dict(_called(nodes, names_of))
    alike = Counter(names_of.values())
    devices = {
        called[id_]: BuiltDevice(
            called[id_],
            names_of[id_],
            guid_of(id_),
            node.kind == SWITCH or node.relay,
            alike[names_of[id_]] > 1,
            node.relay,
        )
        for id_, node in nodes.items()
    }
    cables = [
        link._replace(a=link.a._replace(device=called[a]), z=link.z._replace(device=called[z]))
        for link in subnet.links
        if (a := link.a.device) in nodes and (z := link.z.device) in nodes
    ]
    renamed = sum(names_of[id_] != node.description for id_, node in nodes.items())
    inside = len(subnet.links) - len(cables)
    return Hall(str(subnet.path), cables, devices, inside, renamed)


def _renamed(node: SubnetNode, known: Mapping[str, str]) -> str:
    """Description of a node, or what a map of names has in its place."""
    for key in (guid_of(node.id), node.id, node.description):
        if key and key in known:
            return known[key]
    if node.kind == SWITCH:
        return known.get(switch_name(node.description), node.description)
    host, card, _ = adapter_name(node.description)
    return f"{known[host]} {card}".strip() if host in known else node.description


def _called(
    nodes: Mapping[str, SubnetNode], names_of: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Name of every node: short where that is enough."""
    short = {
        id_: switch_name(names_of[id_]) if node.kind == SWITCH else " ".join(names_of[id_].split())
        for id_, node in nodes.items()
    }
    taken = Counter(short.values())
    long = {
        id_: f"{name}/{switch_unit(names_of[id_])}"
        if taken[name] > 1 and switch_unit(names_of[id_])
        else name
        for id_, name in short.items()
    }
    taken = Counter(long.values())
    for id_, name in long.items():
        yield id_, name if taken[name] == 1 else f"{name} {id_}"

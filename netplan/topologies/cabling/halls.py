"""A hall as built: its cables, and what its devices say of themselves.

Tables name their devices as people do. Subnets have descriptions: every adapter is a device of its
own, named by its description, and every switch by its name; where several share one, the unit or
the GUID follows it. Aggregation nodes sit inside switches, so that their links are no cables.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from netplan.topologies.cabling.as_built import Cable, End
from netplan.topologies.cabling.descriptions import adapter_name, switch_name, switch_unit
from netplan.topologies.formats.infiniband import Found, Subnet
from netplan.topologies.formats.node_names import guid_of
from netplan.topologies.graph import MANAGER, SWITCH


class Device(Struct, frozen=True):
    """A device as found: its name in the list of cables, description, GUID, whether it switches.

    A ``relay`` switches, but is a host: a GPU that passes traffic on. ``shared`` says that other
    devices have the same description, which then names none of them.
    """

    name: str
    description: str
    guid: str
    switch: bool
    shared: bool
    relay: bool = False


class Hall(Struct, frozen=True):
    """Cables of one file; its path is for errors. ``devices`` is empty where names are all it has.

    ``inside`` counts links to aggregation nodes of switches, which are left out; ``renamed``
    counts devices that a map of names has renamed [1].
    """

    path: str
    cables: Sequence[Cable]
    devices: Mapping[str, Device]
    inside: int = 0
    renamed: int = 0


def hall_of(subnet: Subnet, names: Mapping[str, str] | None = None) -> Hall:
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
    said = {id_: _renamed(node, known) for id_, node in nodes.items()}
    called = dict(_called(nodes, said))
    alike = Counter(said.values())
    devices = {
        called[id_]: Device(
            called[id_],
            said[id_],
            guid_of(id_),
            node.kind == SWITCH or node.relay,
            alike[said[id_]] > 1,
            node.relay,
        )
        for id_, node in nodes.items()
    }
    cables = [
        Cable(
            End(called[link.here.node], link.here.port),
            End(called[link.there.node], link.there.port),
            link.gbps,
            link.line,
            link.lanes,
        )
        for link in subnet.links
        if link.here.node in nodes and link.there.node in nodes
    ]
    renamed = sum(said[id_] != node.description for id_, node in nodes.items())
    inside = len(subnet.links) - len(cables)
    return Hall(str(subnet.path), cables, devices, inside, renamed)


def _renamed(node: Found, known: Mapping[str, str]) -> str:
    """Description of a node, or what a map of names has in its place."""
    for key in (guid_of(node.id), node.id, node.description):
        if key and key in known:
            return known[key]
    if node.kind == SWITCH:
        return known.get(switch_name(node.description), node.description)
    host, card, _ = adapter_name(node.description)
    return f"{known[host]} {card}".strip() if host in known else node.description


def _called(nodes: Mapping[str, Found], said: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Name of every node: short where that is enough."""
    short = {
        id_: switch_name(said[id_]) if node.kind == SWITCH else " ".join(said[id_].split())
        for id_, node in nodes.items()
    }
    taken = Counter(short.values())
    long = {
        id_: f"{name}/{switch_unit(said[id_])}"
        if taken[name] > 1 and switch_unit(said[id_])
        else name
        for id_, name in short.items()
    }
    taken = Counter(long.values())
    for id_, name in long.items():
        yield id_, name if taken[name] == 1 else f"{name} {id_}"

"""InfiniBand subnets as they are found: output of ``ibnetdiscover``, and ``.topo`` of ibdiagnet.

``ibnetdiscover`` (and what ibsim loads): a block a node (``Switch``, ``Ca``, in old files ``Hca``),
a line a port in use; every link stands in the blocks of both its ends. A pasted session is read,
too: prompts, warnings and headings are left unread, blocks may be cut off, and a node that only a
peer's line names is taken from there. A switch and an adapter of one system image, joined to
nothing else, are one device: a GPU that passes traffic on, as in a torus.

ibdiagnet (``.topo``): a block a system, a line a port::

    MQM9700 leaf-0
     P1 -4x-100G-> HCA_mlx5 node001 mlx5_0/P1
     P33 -> MQM9700 spine-0 P1

A rate may be missing. Ports of chassis are named by their boards (``L1/P1``). A system without a
block of its own is a host, and so is one whose type is that of an adapter.

A subnet keeps descriptions as they are; :mod:`netplan.topologies.cabling.halls` reads names from
them. For a graph, nodes are named by their descriptions, spaces written as slashes; where several
nodes share a description, the GUID follows it. Every channel adapter is one GPU's, except the
switches' own aggregation nodes, which are managers. Links that join a switch to itself carry no
traffic and are left out of graphs.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import isnan, nan
from pathlib import Path

from msgspec import Struct

from netplan.errors import CatalogError
from netplan.files import read_lines
from netplan.records import replace
from netplan.topologies.cabling.as_built import Cable, End
from netplan.topologies.cabling.device_names import ADAPTER, switch_name
from netplan.topologies.formats.draft import Draft, DraftLink, number_draft
from netplan.topologies.graph import GPU, MANAGER, SWITCH, FabricGraph
from netplan.units import bytes_per_s

LANE_GBPS = {
    "SDR": 2.0,
    "DDR": 4.0,
    "QDR": 8.0,
    "FDR10": 10.0,
    "FDR": 13.64,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}
"""Data rate of one lane after line coding [Gb/s]; InfiniBand Architecture Specification."""

TOPO_LANES = 4
"""Lanes of a link in a written topology file [1]."""

MAX_LINKS, MAX_LINE = 16_000_000, 2_000
TEXT = r'"([^"\x00-\x1f\x7f]{0,200})"'
NODE_LINE = re.compile(
    rf"(Switch|Ca|CA|Hca|HCA|Rt|Router)\s+(\d{{1,5}})\s+{TEXT}\s*(?:#\s*{TEXT}.*|#.*)?"
)
NODE_START = re.compile(r"(?:Switch|Ca|CA|Hca|HCA|Rt|Router)\s")
EXTRAS = r"(?:\[ext \d+\])?(?:\((?:0x)?[0-9a-fA-F]+\))?"
PORT_LINE = re.compile(
    rf"\[(\d{{1,5}})\]{EXTRAS}\s+{TEXT}\s*\[(\d{{1,5}})\]{EXTRAS}\s*(?:#([^\"]*{TEXT})?.*?)?"
    r"(?:\s(\d{1,2})x([A-Z]+\d*)|\sw=(\d{1,2}))?\s*"
)
IMAGE_LINE = re.compile(r"sysimgguid=(?:0x)?([0-9a-fA-F]{1,16})\b")
PORT_START = re.compile(r"\[\d+\]")

TOPO_PORT = re.compile(
    r"\s+((?:[\w-]+/)*P\d{1,5})\s+(?:-(\d{1,2})x-(\d{1,6}(?:\.\d{1,6})?)G)?-?>"
    r"\s+(\S+)\s+(\S+)\s+((?:[\w-]+/)*P\d{1,5})\s*"
)
TOPO_BLOCK = re.compile(r"(\S+)\s+(\S+)(?:\s+CFG:.*)?\s*")
ADAPTER_TYPE = re.compile(r"(HCA|MT\d+\b)", re.IGNORECASE)
ADAPTER_PORTS = 2
"""Ports of an adapter whose type says no more than the maker's number: switches have more [1]."""

AGGREGATION = "Aggregation Node"


class SubnetNode(Struct, frozen=True):
    """A node as found: its id in the file, kind, ports, description, line.

    ``listed`` is False where only a peer's line names it; ``image`` is the GUID of its system.
    ``relay`` says that it passes traffic on, though it is no switch.
    """

    id: str
    kind: int
    ports: int
    description: str
    line: int
    listed: bool = True
    image: str = ""
    relay: bool = False


class Subnet(Struct, frozen=True):
    """What was found: nodes by their ids, and links, whose ends are on nodes by these."""

    path: Path
    nodes: dict[str, SubnetNode]
    links: list[Cable]


def found_by_ibnetdiscover(path: Path) -> Subnet:
    """Read the output of ``ibnetdiscover``, or a network file of ibsim.

    Raises
    ------
    CatalogError
        If a line of a node or a port is malformed, or a node stands there twice: file and line.
    """
    return _with_relays(_subnet(path, read_lines(path)))


def subnet_of_text(text: str) -> Subnet:
    r"""Network as a program has printed it, every switch and adapter of it a node of its own.

    Examples
    --------
    >>> found = subnet_of_text('Switch 4 "S-1" # "leaf"\n[1] "H-2"[1](3)\nCa 2 "H-2"\n')
    >>> [(node.id, node.description) for node in found.nodes.values()], len(found.links)
    ([('S-1', 'leaf'), ('H-2', 'H-2')], 1)
    """
    return _subnet(Path("ibnetdiscover"), text.split("\n"))


def _subnet(path: Path, text: Iterable[str]) -> Subnet:
    """Nodes and links of lines; errors as above."""
    nodes: dict[str, SubnetNode] = {}
    ports: list[tuple[Cable, str]] = []  # each with what it says of its peer
    here = image = ""
    for number, raw in _numbered(path, text):
        line = raw.lstrip()
        if PORT_START.match(line):
            port = PORT_LINE.fullmatch(line)
            if not port or not here:
                raise _error(path, number, 'expected a port: [1] "S-..."[2] # "name" lid 3 4xNDR')
            ends = End(here, str(int(port[1]))), End(port[2], str(int(port[3])))
            gbps, lanes = _rate(path, number, port[6], port[7])
            ports.append((Cable(*ends, gbps, number, lanes), port[5] or ""))
        elif system := IMAGE_LINE.match(line):
            image = system[1].lower()
        elif NODE_START.match(line):
            node = NODE_LINE.fullmatch(line)
            if not node:
                raise _error(path, number, 'expected a node: Switch 64 "S-..." # "name"')
            here = node[3]
            if here in nodes:
                why = f"node {here} stands on line {nodes[here].line} already"
                raise _error(path, number, why)
            text = node[4] or here
            kind = _kind(node[1], text)
            nodes[here] = SubnetNode(here, kind, int(node[2]), text, number, image=image)
            image = ""
    for cable, words in ports:
        peer = cable.z.device
        if peer not in nodes:
            kind = SWITCH if peer.startswith("S-") else _kind("Ca", words)
            nodes[peer] = SubnetNode(peer, kind, 0, words or peer, cable.line, listed=False)
    return Subnet(path, nodes, _once(path, (cable for cable, _ in ports)))


def _numbered(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, from 1; blanks at their ends are cut off."""
    for number, line in enumerate(lines, 1):
        text = line.rstrip()
        if len(text) > MAX_LINE:
            raise _error(path, number, f"more than {MAX_LINE:,} characters on one line")
        yield number, text


def _with_relays(subnet: Subnet) -> Subnet:
    """Make GPUs that pass traffic on one node again: each is a switch and an adapter of its own.

    Both have one system image, or their names say it, as simulators forget images.
    """
    switch = {
        key: node.id
        for node in subnet.nodes.values()
        if node.kind == SWITCH
        for key in (node.image, f"{node.description} {ADAPTER}")
        if key
    }
    relay_of: dict[str, str] = {}
    for node in subnet.nodes.values():
        other = switch.get(node.image) or switch.get(node.description)
        if node.kind == GPU and other:
            relay_of[node.id] = other
    for link in subnet.links:
        for here, there in ((link.a, link.z), (link.z, link.a)):
            if here.device in relay_of and there.device != relay_of[here.device]:
                del relay_of[here.device]
    if not relay_of:
        return subnet
    relays = set(relay_of.values())
    nodes = {
        id_: replace(node, kind=GPU, relay=True) if id_ in relays else node
        for id_, node in subnet.nodes.items()
        if id_ not in relay_of
    }
    left = [link for link in subnet.links if not relay_of.keys() & {end.device for end in link[:2]}]
    return Subnet(subnet.path, nodes, left)


def _error(path: Path, line: int, message: str) -> CatalogError:
    return CatalogError(f"{path}:{line}: {message}")


def _kind(word: str, description: str) -> int:
    """What a node is, by the first word of its block and its description."""
    if word == "Switch":
        return SWITCH
    return MANAGER if AGGREGATION in description else GPU


def _rate(path: Path, line: int, width: str | None, speed: str | None) -> tuple[float, int]:
    """Rate of a link [Gb/s], and its lanes; nan and 0 where the line has none."""
    if width is None or speed is None:
        return nan, 0
    if speed not in LANE_GBPS:
        raise _error(path, line, f"unknown speed {speed}: known are {', '.join(LANE_GBPS)}")
    return int(width) * LANE_GBPS[speed] or nan, int(width)


def _once(path: Path, ports: Iterable[Cable]) -> list[Cable]:
    """Links, each once, though it stands in the blocks of both its ends: as the slower one says."""
    seen: dict[tuple[End, End], int] = {}
    links: list[Cable] = []
    for link in ports:
        first = seen.get((link.z, link.a))
        if first is not None:
            if link.gbps < links[first].gbps:
                links[first] = link
            continue
        seen[link.a, link.z] = len(links)
        if len(links) >= MAX_LINKS:
            raise _error(path, link.line, f"more than {MAX_LINKS:,} links")
        links.append(link)
    return links


def found_by_ibdiagnet(path: Path) -> Subnet:
    """Read an ibdiagnet topology file.

    Raises
    ------
    CatalogError
        If a line is malformed, or a system has two blocks: file and line.
    """
    blocks: dict[str, tuple[str, int]] = {}
    lines: list[tuple[str, re.Match[str], int]] = []
    here = ""
    for number, line in _numbered(path, read_lines(path)):
        if not line or line.startswith("#"):
            continue
        if not line[0].isspace():
            block = TOPO_BLOCK.fullmatch(line)
            if not block:
                raise _error(path, number, "expected a switch: TYPE NAME")
            here = block[2]
            if here in blocks:
                raise _error(path, number, f"node {here} stands on line {blocks[here][1]} already")
            blocks[here] = block[1], number
            continue
        port = TOPO_PORT.fullmatch(line)
        if not port or not here:
            raise _error(path, number, "expected a port: P1 -4x-100G-> TYPE NAME P1")
        lines.append((here, port, number))
    return _systems(path, blocks, lines)


def _systems(
    path: Path,
    blocks: dict[str, tuple[str, int]],
    lines: Sequence[tuple[str, "re.Match[str]", int]],
) -> Subnet:
    """Switches and adapters from the blocks of a topology file, and the links between them."""
    in_use = Counter(here for here, _, _ in lines)
    switches = {
        name
        for name, (kind, _) in blocks.items()
        if not ADAPTER_TYPE.match(kind)
        or (in_use[name] > ADAPTER_PORTS and not kind.upper().startswith("HCA"))
    }
    nodes = {
        name: SubnetNode(name, SWITCH, 0, name, blocks[name][1])
        for name in blocks
        if name in switches
    }
    ports = []
    for here, port, number in lines:
        ends = []
        for system, named in ((here, port[1]), (port[5], port[6])):
            node, place = _panel(system, named, is_switch=system in switches)
            ends.append(End(node, place))
            if node not in nodes:
                nodes[node] = SubnetNode(node, GPU, 0, node, number, listed=system in blocks)
        lanes = int(port[2] or 0)
        rate = lanes * float(port[3]) if lanes else nan
        ports.append(Cable(ends[0], ends[1], rate, number, lanes))
    return Subnet(path, nodes, _once(path, ports))


def _panel(system: str, port: str, *, is_switch: bool) -> tuple[str, str]:
    """Node and port of a front panel's name: boards belong to a switch's port, cards are adapters.

    Examples
    --------
    >>> _panel("leaf-0", "P7", is_switch=True), _panel("director", "L1/P7", is_switch=True)
    (('leaf-0', '7'), ('director', 'L1/P7'))
    >>> _panel("node001", "mlx5_3/P1", is_switch=False)
    ('node001 mlx5_3', '1')
    """
    board, _, plain = port.rpartition("/")
    number = str(int(plain.removeprefix("P")))
    if not board:
        return system, number
    return (system, f"{board}/P{number}") if is_switch else (f"{system} {board}", number)


def read_ibnetdiscover(
    path: Path, *, hb_size: int | None = None, otherwise: int | None = None
) -> FabricGraph:
    """Read the output of ``ibnetdiscover``; a node without a block is an error too."""
    subnet = found_by_ibnetdiscover(path)
    for node in subnet.nodes.values():
        if not node.listed:
            raise _error(path, node.line, f"unknown node {node.id}: it has no block of its own")
    return _graph(subnet, hb_size, otherwise)


def read_topo(
    path: Path, *, hb_size: int | None = None, otherwise: int | None = None
) -> FabricGraph:
    """Read an ibdiagnet topology file."""
    return _graph(found_by_ibdiagnet(path), hb_size, otherwise)


def _graph(subnet: Subnet, hb_size: int | None, otherwise: int | None) -> FabricGraph:
    """Graph of a subnet; links that join a switch to itself are left out."""
    draft = Draft(subnet.path)
    words = {}
    for node in subnet.nodes.values():  # a switch by its name alone, others by their descriptions
        name = switch_name(node.description) if node.kind == SWITCH else node.description
        words[node.id] = re.sub(r"[^\w.:;,+/()\[\]-]+", "/", name).strip("/")
    shared = Counter(words.values())
    names = {id_: word if shared[word] == 1 else f"{word}/{id_}" for id_, word in words.items()}
    for node in subnet.nodes.values():
        draft.add_node(names[node.id], node.kind, node.line)
    for link in subnet.links:
        if link.joins_itself:
            continue
        ends = (link.a, link.z) if subnet.nodes[link.z.device].kind == SWITCH else (link.z, link.a)
        # Ports count from 0; there is none where a board's name goes before it.
        source, target = (names[end.device] for end in ends)
        port, peer_port = (int(end.port) - 1 if end.port.isdigit() else None for end in ends)
        rate = bytes_per_s(0.0 if isnan(link.gbps) else link.gbps)
        draft.add_link(DraftLink(source, target, rate, link.line, port, peer_port))
    return number_draft(draft, subnet.path.stem, hb_size, otherwise=otherwise)

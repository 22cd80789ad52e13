"""InfiniBand networks: as ``ibnetdiscover`` finds them, and topology files of ibdiagnet.

``ibnetdiscover``: a block a node (``Switch`` or ``Ca``), a line a port in use; every link stands in
the blocks of both its ends. Nodes are named by their descriptions, spaces written as slashes; where
several nodes share a description, the GUID follows it. Every channel adapter is one GPU's, except
the switches' own aggregation nodes, which are managers.

ibdiagnet (``.topo``): a block a switch, a line a port::

    MQM9700 rail-0/leaf-0
     P1 -4x-100G-> HCA gpu-0 P1
     P33 -4x-100G-> MQM9700 spine-0 P1

A link between two switches stands in both blocks. Ports count from 1. The rate is written as four
lanes. A system without a block of its own is a host, that is, a GPU's adapter.
"""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from netplan.files import read_lines
from netplan.topologies.formats.draft import Draft, number_draft
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

NODE_LINE = re.compile(
    r'(Switch|Ca|Rt)\s+\d{1,5}\s+"([SHR]-(?:0x)?[0-9a-fA-F]{1,16})"\s*(?:#\s*"([^"]*)".*)?'
)
PORT_LINE = re.compile(
    r"\[(\d{1,5})\](?:\[ext \d+\])?(?:\((?:0x)?[0-9a-fA-F]+\))?\s+"
    r'"([SHR]-(?:0x)?[0-9a-fA-F]{1,16})"\[(\d{1,5})\](?:\[ext \d+\])?(?:\((?:0x)?[0-9a-fA-F]+\))?'
    r"\s*(?:#.*?)?(?:\s(\d{1,2})x([A-Z]+\d*))?\s*"
)

TOPO_LANES = 4
TOPO_PORT = re.compile(
    r"\s+P(\d{1,5})\s+(?:-(\d{1,2})x-(\d{1,6}(?:\.\d{1,6})?)G)?-?>\s+(\S+)\s+(\S+)\s+P(\d{1,5})\s*"
)
TOPO_BLOCK = re.compile(r"(\S+)\s+(\S+)(?:\s+CFG:.*)?\s*")


class _Node(NamedTuple):
    """A block's first line: GUID, kind, description, line number."""

    guid: str
    kind: int
    description: str
    line: int


class _Port(NamedTuple):
    """A port's line: whose it is, its number, the peer and its port, the rate [B/s]."""

    guid: str
    port: int
    peer: str
    peer_port: int
    bytes_per_s: float
    line: int


def read_ibnetdiscover(path: Path, *, hb_size: int = 1) -> FabricGraph:
    """Read the output of ``ibnetdiscover``; a node without a block is an error too."""
    return number_draft(ibnetdiscover_draft(path), path.stem, hb_size)


def ibnetdiscover_draft(path: Path) -> Draft:
    """Nodes and links as discovered, also where the whole is no fabric yet."""
    draft = Draft(path)
    nodes, ports = _parse(draft, read_lines(path))
    names = _names(list(nodes.values()))
    for node in nodes.values():
        draft.add_node(names[node.guid], node.kind, node.line)
    for port in ports:
        if port.peer not in nodes:
            raise draft.error(port.line, f"unknown node {port.peer}: it has no block of its own")
        here, there = (names[port.guid], port.port - 1), (names[port.peer], port.peer_port - 1)
        draft.add_seen(here, there, port.bytes_per_s, port.line)
    return draft


def _parse(draft: Draft, lines: list[str]) -> tuple[dict[str, _Node], list[_Port]]:
    """Sort the lines into nodes and ports; what neither begins with is left unread."""
    nodes: dict[str, _Node] = {}
    ports: list[_Port] = []
    guid = ""
    for number, line in enumerate(lines, 1):
        if line.startswith(("Switch\t", "Switch ", "Ca\t", "Ca ", "Rt\t", "Rt ")):
            node = NODE_LINE.fullmatch(line)
            if not node:
                raise draft.error(number, 'expected a node: Switch 64 "S-..." # "name"')
            guid = node[2]
            description = node[3] or guid
            kind = SWITCH if node[1] == "Switch" else GPU
            if kind == GPU and "Aggregation Node" in description:
                kind = MANAGER
            nodes[guid] = _Node(guid, kind, description, number)
        elif line.startswith("["):
            port = PORT_LINE.fullmatch(line)
            if not port or not guid:
                raise draft.error(number, 'expected a port: [1] "S-..."[2] # "name" lid 3 4xNDR')
            rate = _rate(draft, number, port[4], port[5])
            ports.append(_Port(guid, int(port[1]), port[2], int(port[3]), rate, number))
    return nodes, ports


def _rate(draft: Draft, line: int, width: str | None, speed: str | None) -> float:
    """Rate of a link from its width and speed, 0 where the line has none [B/s]."""
    if width is None or speed is None:
        return 0.0
    if speed not in LANE_GBPS:
        raise draft.error(line, f"unknown speed {speed}: known are {', '.join(LANE_GBPS)}")
    return bytes_per_s(int(width) * LANE_GBPS[speed])


def _names(nodes: list[_Node]) -> dict[str, str]:
    """Name of every GUID: its description, made one word, and unique."""
    words = {node.guid: re.sub(r"[^\w.:;,+/()\[\]-]+", "/", node.description) for node in nodes}
    shared = Counter(words.values())
    return {
        guid: word.strip("/") if shared[word] == 1 else f"{word.strip('/')}/{guid}"
        for guid, word in words.items()
    }


def read_topo(path: Path, *, hb_size: int = 1) -> FabricGraph:
    """Read an ibdiagnet topology file."""
    draft = Draft(path)
    lines = read_lines(path)
    blocks = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    for number, line in blocks:
        if not line[0].isspace() and not line.startswith("#"):
            match = TOPO_BLOCK.fullmatch(line)
            if not match:
                raise draft.error(number, "expected a switch: TYPE NAME")
            draft.add_node(match[2], SWITCH, number)
    switch = ""
    for number, line in blocks:
        if line.startswith("#"):
            continue
        if not line[0].isspace():
            switch = line.split()[1]
            continue
        match = TOPO_PORT.fullmatch(line)
        if not match or not switch:
            raise draft.error(number, "expected a port: P1 -4x-100G-> TYPE NAME P1")
        here, peer, there = int(match[1]) - 1, match[5], int(match[6]) - 1
        if peer not in draft.nodes:
            draft.add_node(peer, GPU, number)
        rate = bytes_per_s(float(match[2]) * float(match[3])) if match[2] else 0.0
        draft.add_seen((switch, here), (peer, there), rate, number)
    return number_draft(draft, path.stem, hb_size)

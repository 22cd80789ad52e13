"""Topology files of ibdiagnet (``.topo``): a block a switch, a line a port.

::

    MQM9700 rail-0/leaf-0
     P1 -4x-100G-> HCA gpu-0 P1
     P33 -4x-100G-> MQM9700 spine-0 P1

A link between two switches stands in both blocks. Ports count from 1. The rate is written as four
lanes. A system without a block of its own is a host, that is, a GPU's adapter.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from netplan.topologies.formats.draft import Draft, number_draft
from netplan.topologies.formats.reading import read_lines
from netplan.topologies.graph import GPU, SWITCH, FabricGraph, network_only
from netplan.units import bytes_per_s, gbps

LANES = 4
PORT_LINE = re.compile(
    r"\s+P(\d{1,5})\s+(?:-(\d{1,2})x-(\d{1,6}(?:\.\d{1,6})?)G)?-?>\s+(\S+)\s+(\S+)\s+P(\d{1,5})\s*"
)
BLOCK_LINE = re.compile(r"(\S+)\s+(\S+)(?:\s+CFG:.*)?\s*")


def topo_lines(graph: FabricGraph, *, switch_type: str = "MQM9700") -> Iterator[str]:
    """Write the network of a fabric as an ibdiagnet topology file.

    Links inside HB domains are left out; ``switch_type`` is what ibdiagnet calls the switches.
    """
    network = network_only(graph)
    adjacency = network.adjacency
    for switch in np.flatnonzero(network.node_kind == SWITCH).tolist():
        yield f"{switch_type} {network.names[switch]}\n"
        row = slice(adjacency.indptr[switch], adjacency.indptr[switch + 1])
        for link, peer in zip(
            adjacency.link[row].tolist(), adjacency.neighbor[row].tolist(), strict=True
        ):
            ports = int(network.source_port[link]) + 1, int(network.target_port[link]) + 1
            here, there = ports if network.source[link] == switch else ports[::-1]
            lane = gbps(float(network.bytes_per_s[link])) / LANES
            kind = switch_type if network.node_kind[peer] == SWITCH else "HCA"
            yield f" P{here} -{LANES}x-{lane:g}G-> {kind} {network.names[peer]} P{there}\n"
        yield "\n"


def read_topo(path: Path, *, hb_size: int = 1) -> FabricGraph:
    """Read an ibdiagnet topology file."""
    draft = Draft(path)
    lines = read_lines(path)
    blocks = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    for number, line in blocks:
        if not line[0].isspace() and not line.startswith("#"):
            match = BLOCK_LINE.fullmatch(line)
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
        match = PORT_LINE.fullmatch(line)
        if not match or not switch:
            raise draft.error(number, "expected a port: P1 -4x-100G-> TYPE NAME P1")
        here, peer, there = int(match[1]) - 1, match[5], int(match[6]) - 1
        if peer not in draft.nodes:
            draft.add_node(peer, GPU, number)
        rate = bytes_per_s(float(match[2]) * float(match[3])) if match[2] else 0.0
        draft.add_seen((switch, here), (peer, there), rate, number)
    return number_draft(draft, path.stem, hb_size)

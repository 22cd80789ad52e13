"""Wiring of a BCube: port i of every GPU goes to a switch of level i."""

import numpy as np

from netplan.topologies.assembly import Links, Nodes, Wired
from netplan.topologies.bcube import bcube_ports
from netplan.topologies.fabric import Fabric
from netplan.topologies.graph import HALL, RACK, ROW, SWITCH
from netplan.topologies.naming import NameBlock
from netplan.topologies.specs import FabricSpec


def wire_bcube(spec: FabricSpec, fabric: Fabric, first: int, port: int) -> Wired:
    """Wire all levels, each ordered by GPU; port i of a GPU, after its HB ports, goes to level i.

    Parameters
    ----------
    spec, fabric
        The spec and its sized fabric (family ``bcube``).
    first
        Number of the first switch.
    port
        First port of a GPU that the network takes.
    """
    sizing = fabric.sizing
    side = bcube_ports(spec, sizing)
    switches = sizing.gpus // side
    gpu = np.arange(sizing.gpus, dtype=np.int32)
    nodes, links = [], []
    for level, group in enumerate(fabric.links):
        step = side**level
        digit = gpu // step % side
        switch = first + level * switches + gpu // (step * side) * step + gpu % step
        length = RACK if group.medium == "copper" else (HALL if level else ROW)
        ports = np.full_like(gpu, port + level), digit
        links.append(Links(group.name, gpu, switch, *ports, sizing.network_bytes_per_s, length))
        names = NameBlock(f"level-{level}/switch-{{}}", (switches,))
        nodes.append(Nodes(SWITCH, level + 1, names))
    return Wired(tuple(nodes), tuple(links))

"""Loads of the training traffic after rerouting: the busiest network link before and after."""

from dataclasses import dataclass

import numpy as np

from netplan.topologies.faults.damage import Damage, no_damage
from netplan.topologies.faults.effects import network_links
from netplan.topologies.faults.rerouting import Rerouted, reroute
from netplan.topologies.graph import FabricGraph
from netplan.traffic.matrix import TrafficMatrix


@dataclass(frozen=True, slots=True)
class TrainingLoads:
    """Traffic of one iteration of the intact plan, sent over what is left.

    Parameters
    ----------
    busiest_link
        Ends of the network link that needs longest, in the direction of its load.
    busiest_s, intact_busiest_s
        Time of the busiest network link, after the failure and before [s].
    detour_bytes, lost_bytes, cut_bytes
        Traffic that left its usual way, of failed GPUs, and between live GPUs without a path [B].
    """

    busiest_link: str
    busiest_s: float
    intact_busiest_s: float
    detour_bytes: float
    lost_bytes: float
    cut_bytes: float


def training_loads(graph: FabricGraph, damage: Damage, matrix: TrafficMatrix) -> TrainingLoads:
    """Route the traffic of one iteration before and after a failure.

    Parameters
    ----------
    graph, damage
        The fabric, and what has failed.
    matrix
        Traffic of one iteration.

    Examples
    --------
    Two GPUs of two domains talk over their own rail; their link fails, and others forward.

    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.faults.scenario import parse_faults
    >>> from netplan.topologies.specs import FABRICS
    >>> from netplan.traffic.matrix import flows_matrix
    >>> graph = expand(FABRICS.load("rail-only"), Sizing(64, 8, 8, 450e9, 50e9))
    >>> matrix = flows_matrix(64, source=[0], destination=[8], flow_bytes=[50e9])
    >>> found = training_loads(graph, parse_faults(["gpu-0:1"], graph), matrix)
    >>> found.intact_busiest_s, found.detour_bytes, found.cut_bytes
    (1.0, 50000000000.0, 0.0)
    """
    before, after = (reroute(graph, one, matrix) for one in (no_damage(graph), damage))
    busiest, seconds = _busiest(graph, after)
    return TrainingLoads(
        busiest_link=busiest,
        busiest_s=seconds,
        intact_busiest_s=_busiest(graph, before)[1],
        detour_bytes=after.detour_bytes,
        lost_bytes=after.lost_bytes,
        cut_bytes=after.cut_bytes,
    )


def _busiest(graph: FabricGraph, routed: Rerouted) -> tuple[str, float]:
    """The network link that needs longest, links inside HB domains left out."""
    seconds = np.where(network_links(graph), routed.loads.link_s, 0.0)
    if not seconds.any():
        return "none", 0.0
    back, link = divmod(int(np.argmax(seconds)), graph.link_count)
    ends = int(graph.source[link]), int(graph.target[link])
    sender, receiver = ends[::-1] if back else ends
    return f"{graph.node_name(sender)} to {graph.node_name(receiver)}", float(seconds.max())

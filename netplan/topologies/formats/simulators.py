"""Input files of network simulators: ASTRA-sim's analytical network, and SimAI's ns-3 topology."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from netplan.errors import InputError
from netplan.levels import LINKS_PER_STEP, Level
from netplan.topologies.graph import HB_SWITCH, MANAGER, SWITCH, FabricGraph
from netplan.units import gbps

ASTRA_KINDS = {"ring": "Ring", "mesh": "FullyConnected", "switch": "Switch"}
ASTRA_GB = 2.0**30
"""What ASTRA-sim's analytical network calls a gigabyte: 2^30 bytes."""

NANOSECONDS = 1e9
MILLISECONDS = 1e3


def astra_sim_network(levels: Sequence[Level]) -> str:
    """Write levels as ASTRA-sim's analytical network (YAML), a dimension a level.

    The bandwidth is that of one link in one direction, in 2^30 bytes a second. The latency is that
    of one link; a level's fixed delay per step is spread over the links of the step.

    Parameters
    ----------
    levels
        From the inside out; levels of one member are left out.

    Raises
    ------
    InputError
        If no level joins anything.

    Examples
    --------
    >>> nvlink, rail = Level("switch", 8, 450e9, 1e-6), Level("ring", 32, 2.0**30 * 50)
    >>> print(astra_sim_network([nvlink, rail]), end="")
    topology: [ Switch, Ring ]
    npus_count: [ 8, 32 ]
    bandwidth: [ 419.09515857696533, 50.0 ]  # GB/s
    latency: [ 1000.0, 0.0 ]  # ns
    """
    dimensions = [level for level in levels if level.size > 1]
    if not dimensions:
        raise InputError("ASTRA-sim needs at least one level that joins 2 members or more")
    rows: dict[str, tuple[Sequence[str | float], str]] = {
        "topology": ([ASTRA_KINDS[level.kind] for level in dimensions], ""),
        "npus_count": ([level.size for level in dimensions], ""),
        "bandwidth": ([level.link_bytes_per_s / ASTRA_GB for level in dimensions], "  # GB/s"),
        "latency": (
            [NANOSECONDS * level.step_s / LINKS_PER_STEP[level.kind] for level in dimensions],
            "  # ns",
        ),
    }
    return "".join(
        f"{key}: [ {', '.join(map(str, values))} ]{unit}\n" for key, (values, unit) in rows.items()
    )


def simai_lines(
    graph: FabricGraph,
    *,
    gpu_type: str = "H100",
    hb_latency_s: float = 2.5e-8,
    network_latency_s: float = 5e-7,
    gpus_per_node_field: bool = False,
    split_switches: bool = False,
) -> Iterator[str]:
    """Write a graph as a SimAI (ns-3) topology.

    Nodes keep their numbers: GPUs, then HB switches, then network switches. The defaults of the
    latencies are those of SimAI's own topology generator.

    Parameters
    ----------
    graph
        The fabric, without management hosts.
    gpu_type
        Name of the GPU, the last field of the first line.
    hb_latency_s, network_latency_s
        Latency of a link inside and outside HB domains [s].
    gpus_per_node_field
        Add the seventh field of the first line that some versions read.
    split_switches
        Give HB switches and network switches a line each, as some versions read them.

    Raises
    ------
    InputError
        If the graph has management hosts, which SimAI would take for GPUs.
    """
    kinds = graph.node_kind
    if np.any(kinds == MANAGER):
        raise InputError(f"{graph.name}: SimAI has no management hosts: set management_links to 0")
    hb_switches, switches = (np.flatnonzero(kinds == kind).tolist() for kind in (HB_SWITCH, SWITCH))
    head = [graph.node_count, graph.hb_size, len(hb_switches), len(switches), graph.link_count]
    seventh = [graph.hb_size] if gpus_per_node_field else []
    yield " ".join(map(str, (*head, gpu_type, *seventh))) + "\n"
    lines = (hb_switches, switches) if split_switches else (list(chain(hb_switches, switches)),)
    for ids in lines:
        yield " ".join(map(str, ids)) + "\n"
    is_hb = np.zeros(graph.link_count, bool)
    is_hb[graph.links_of("hb")] = True
    for link in range(graph.link_count):
        latency_ms = MILLISECONDS * (hb_latency_s if is_hb[link] else network_latency_s)
        rate = gbps(float(graph.bytes_per_s[link]))
        yield f"{graph.source[link]} {graph.target[link]} {rate:.10g}Gbps {latency_ms:.10g}ms 0\n"

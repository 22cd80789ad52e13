"""Fabrics for tools that only read: Graphviz, and network simulators.

DOT as Graphviz and cabling checkers read it: ``"leaf01":"swp1s0" -- "host01":"eth0"``.

Simulators: ASTRA-sim's analytical network, and SimAI's ns-3 topology.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from netplan.errors import InputError
from netplan.levels import LINKS_PER_STEP, Level
from netplan.topologies.graph import HB_SWITCH, MANAGER, MEMORY, NODE_KINDS, SWITCH, FabricGraph
from netplan.units import gbps

ASTRA_KINDS = {"ring": "Ring", "mesh": "FullyConnected", "switch": "Switch"}
ASTRA_GB = 2.0**30
"""What ASTRA-sim's analytical network calls a gigabyte: 2^30 bytes."""

NANOSECONDS = 1e9
MILLISECONDS = 1e3

RECORD_SIGNS, BACKSLASHED = re.compile(r"([\\\\{}|<>\" ])"), r"\\\1"
"""What has a meaning in a record's label, and how it is written there."""


def dot_lines(graph: FabricGraph) -> Iterator[str]:
    """Write a graph as DOT: nodes with their role, tier and ports, then one line a link.

    Ports are fields of a record, so that Graphviz draws every link at its own.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16, hb_size=4)
    >>> graph = scenario.fabric("fat-tree").graph()
    >>> lines = list(dot_lines(graph))
    >>> print(lines[1], lines[-2], sep="", end="")
      "gpu-0" [role="gpu", tier=0, shape=record, label="gpu-0|<port-0>0|<port-1>1"];
      "spine-3":"port-15" -- "leaf-7":"port-15" [gbps=400, length="hall"];
    """
    names = [_quoted(name) for name in graph.names]
    nodes, ports = (
        np.concatenate(ends)
        for ends in ((graph.source, graph.target), (graph.source_port, graph.target_port))
    )
    rising = ports[np.lexsort((ports, nodes))]
    used = [part.tolist() for part in np.split(rising, np.cumsum(graph.ports_used)[:-1])]
    yield f"graph {_quoted(graph.name)} {{\n"
    for node, (name, kind, tier) in enumerate(
        zip(graph.names, graph.node_kind.tolist(), graph.node_tier.tolist(), strict=True)
    ):
        fields = "".join(f"|<port-{port}>{port}" for port in used[node])
        label = f'"{RECORD_SIGNS.sub(BACKSLASHED, name)}{fields}"'
        role = f'role="{NODE_KINDS[kind]}", tier={tier}'
        yield f"  {names[node]} [{role}, shape=record, label={label}];\n"
    for a, a_port, b, b_port, rate, length, _ in graph.link_rows():
        # The switch, which is the target, comes first.
        ends = f'{names[b]}:"port-{b_port}" -- {names[a]}:"port-{a_port}"'
        yield f'  {ends} [gbps={gbps(rate):g}, length="{length}"];\n'
    yield "}\n"


def _quoted(text: str) -> str:
    """DOT string; a backslash or quote inside would end it early."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def astra_sim_network(levels: Sequence[Level]) -> str:
    """Write levels, from the inside out, as ASTRA-sim's analytical network (YAML).

    The bandwidth is that of one link in one direction, in 2^30 bytes a second. The latency is that
    of one link; a level's fixed delay per step is spread over the links of the step. Levels of one
    member are left out; that none is left is an error. The simulator knows no leaves: a level that
    blocks has the rate at which all traffic leaves them.

    Examples
    --------
    >>> nvlink, rail = Level("switch", 8, 450e9, 1e-6), Level("ring", 32, 2.0**30 * 50)
    >>> print(astra_sim_network([nvlink, rail]), end="")
    topology: [ Switch, Ring ]
    npus_count: [ 8, 32 ]
    bandwidth: [ 419.09515857696533, 50.0 ]  # GB/s
    latency: [ 1000.0, 0.0 ]  # ns
    """
    dimensions = [level.scattered for level in levels if level.size > 1]
    if any(level.kind not in ASTRA_KINDS for level in dimensions):
        raise InputError("ASTRA-sim knows no open lines: take a fabric of rings, or --to graphml")
    if not dimensions:
        raise InputError("ASTRA-sim needs at least one level that joins 2 members or more")
    latencies_ns = (NANOSECONDS * at.step_s / LINKS_PER_STEP[at.kind] for at in dimensions)
    columns = {
        "topology: [ {} ]": (ASTRA_KINDS[at.kind] for at in dimensions),
        "npus_count: [ {} ]": (at.size for at in dimensions),
        "bandwidth: [ {} ]  # GB/s": (at.link_bytes_per_s / ASTRA_GB for at in dimensions),
        "latency: [ {} ]  # ns": latencies_ns,
    }
    return "".join(f"{line}\n".format(", ".join(map(str, n))) for line, n in columns.items())


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
    latencies, those of a link inside and outside HB domains [s], are those of SimAI's own topology
    generator. Some versions read a seventh field of the first line, the GPUs a node, or HB switches
    and network switches on a line each. Management hosts and memories are refused: SimAI would take
    them for GPUs.
    """
    kinds = graph.node_kind
    if np.any(kinds == MANAGER):
        raise InputError(f"{graph.name}: SimAI has no management hosts: set management_links to 0")
    if np.any(kinds == MEMORY):
        raise InputError(f"{graph.name}: SimAI has no memories: leave channels out of the file")
    hb_switches, switches = (np.flatnonzero(kinds == kind).tolist() for kind in (HB_SWITCH, SWITCH))
    head = [graph.node_count, graph.hb_size, len(hb_switches), len(switches), graph.link_count]
    seventh = [graph.hb_size] if gpus_per_node_field else []
    yield " ".join(map(str, (*head, gpu_type, *seventh))) + "\n"
    lines = (hb_switches, switches) if split_switches else (list(chain(hb_switches, switches)),)
    for ids in lines:
        yield " ".join(map(str, ids)) + "\n"
    inside = graph.is_role("hb")
    for (a, _, b, _, rate, *_), short in zip(graph.link_rows(), inside, strict=True):
        latency_ms = MILLISECONDS * (hb_latency_s if short else network_latency_s)
        yield f"{a} {b} {gbps(rate):.10g}Gbps {latency_ms:.10g}ms 0\n"

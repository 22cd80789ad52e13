"""Fabrics for tools that only read: Graphviz, and network simulators.

DOT as Graphviz and cabling checkers read it: ``"leaf01":"swp1s0" -- "host01":"eth0"``.

Simulators: ASTRA-sim's analytical network, and SimAI's ns-3 topology.

Circuits between cubes: which ports of which circuit switch are joined, whole or after a failure.

Cubes of side c have c^(d-1) positions on each face; the ends at one position of both faces along
one axis lead to one circuit switch. Ports are laid once and for all: cube number n has port 2 n + 1
of a switch for its minus face and 2 n + 2 for its plus face, whatever torus is cut. A circuit leads
from the plus face of a cube to the minus face of the next one along the axis, or of itself where it
is alone there. So tori are cut from any cubes, and rewired around those that fail, by circuits
alone (Jouppi et al., TPU v4, arXiv:2304.01433).
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.levels import LINKS_PER_STEP, Level
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.torus import Torus, is_long, near_cube, ring_next, torus_shape
from netplan.topologies.graph import HB_SWITCH, MANAGER, MEMORY, NODE_KINDS, SWITCH, FabricGraph
from netplan.topologies.specs import FabricSpec
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
    latencies_ns = (
        NANOSECONDS * dimension.step_s / LINKS_PER_STEP[dimension.kind] for dimension in dimensions
    )
    columns = {
        "topology: [ {} ]": (ASTRA_KINDS[dimension.kind] for dimension in dimensions),
        "npus_count: [ {} ]": (dimension.size for dimension in dimensions),
        "bandwidth: [ {} ]  # GB/s": (
            dimension.link_bytes_per_s / ASTRA_GB for dimension in dimensions
        ),
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


FACES = 2
"""Ports of a cube on each switch [1]."""


class Circuits(Struct, frozen=True, eq=False):
    """Circuits of a torus of cubes.

    Parameters
    ----------
    grid
        Cubes along each axis [1].
    cube
        Number of the cube at each place, the first axis fastest, shape (cubes,).
    following
        Cube that each leads to along each axis, shape (axes, cubes).
    positions
        Positions on a face, and so circuit switches an axis [1].
    """

    grid: tuple[int, ...]
    cube: Ints
    following: Ints
    positions: int

    @property
    def pairs(self) -> tuple[Ints, Ints, Ints]:
        """Circuit switch of each circuit, counted from 0, and the two ports that it joins.

        In the order of axes, positions and places.
        """
        switches = len(self.grid) * self.positions
        cubes = len(self.cube)
        plus = np.tile(FACES * self.cube + 2, switches)
        minus = np.repeat(FACES * self.following + 1, self.positions, axis=0).ravel()
        return np.repeat(np.arange(switches), cubes), plus, minus

    def lines(self) -> Iterator[str]:
        """A line of CSV for each circuit."""
        yield "circuit_switch,port,other_port,cube,other_cube"
        rows = zip(*(column.tolist() for column in self.pairs), strict=True)
        for switch, plus, minus in rows:
            axis, position = divmod(switch, self.positions)
            name = f"axis-{axis + 1}/position-{position}"
            yield f"{name},{plus},{minus},{(plus - 2) // FACES},{(minus - 1) // FACES}"


def cube_circuits(
    spec: FabricSpec, sizing: Sizing, *, ports: int, lost: Sequence[int] = ()
) -> Circuits:
    """Circuits of a fabric, or of the largest torus near a cube that the cubes left make.

    Parameters
    ----------
    spec, sizing
        A torus of cubes on circuit switches.
    ports
        Ports of a circuit switch [1].
    lost
        Cubes that failed.

    Raises
    ------
    InputError
        If the fabric has no circuit switches, they have too few ports, or a cube does not exist.

    Examples
    --------
    Of 8 cubes one fails: six of the others make a torus of 3 x 2 x 1 cubes.

    >>> from netplan.topologies.specs import FABRICS
    >>> from netplan import Scenario
    >>> sizing = Scenario.load("tpu-v7").replace(gpus=512).sizing
    >>> spec = FABRICS.load("torus-ocs")
    >>> whole = cube_circuits(spec, sizing, ports=136)
    >>> rest = cube_circuits(spec, sizing, ports=136, lost=[5])
    >>> whole.grid, len(whole.pairs[0]), rest.grid, rest.cube.tolist()
    ((2, 2, 2), 384, (3, 2, 1), [0, 1, 2, 3, 4, 6])
    """
    if not (isinstance(spec, Torus) and spec.circuit_switch):
        raise InputError(f"{spec.name} has no circuit switches: take torus-ocs, or circuit_switch")
    side = spec.copper_block
    grid = tuple(size // side for size in torus_shape(spec, sizing))
    cubes, most = prod(grid), ports // FACES
    if cubes > most:
        raise InputError(
            f"{spec.name}: {cubes:,} cubes need {FACES * cubes:,} ports of each circuit switch,"
            f" which has {ports:,}: plan at most {most * side ** len(grid):,} GPUs"
        )
    wrong = [number for number in lost if not 0 <= number < cubes]
    if wrong:
        raise InputError(f"{spec.name} has cubes 0 to {cubes - 1}, got {wrong[0]}")
    cube = np.setdiff1d(np.arange(cubes), np.array(lost, np.int64))
    if not len(cube):
        raise InputError(f"{spec.name}: none of its {cubes} cubes is left")
    twist = spec.twist and not lost
    if lost:
        # The grid of the most cubes that is not long.
        grids = (near_cube(number, len(grid)) for number in range(len(cube), 0, -1))
        grid = next(sizes for sizes in grids if not is_long(sizes))
        cube = cube[: prod(grid)]
    axes = range(len(grid))
    following = np.stack([cube[ring_next(grid, axis, twist=twist)] for axis in axes])
    return Circuits(grid, cube, following, side ** (len(grid) - 1))

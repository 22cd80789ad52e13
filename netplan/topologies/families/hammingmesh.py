"""HammingMesh: boards of GPUs in a mesh, rows and columns of boards joined by switches.

Symbols: boards of a x b places, X x Y boards. On a board neighbours are joined by traces along both
axes. The two ends of each of its b lines along the first axis go to the network of that line over
all boards of the row, 2 X ports; the ends of its a lines along the second one to that of a column,
2 Y ports. Such a network is a switch, which several lines share where it has ports for them, or a
fat tree that does not block.

With HB domains every place is a domain, the GPUs of equal rank make one HammingMesh a rail, and
copper cables stand for the traces. Domain d stands at i + a (j + b (x + X y)). On a GPU the ports
of the first axis come first, minus direction before plus. The last places may be idle: the last
boards, or a part of one; lines without a GPU are left out.

Levels: lines on boards, then rows and columns of boards as switches: the a GPUs of a line share two
ports, so that each has 2/a of a port's rate. Rings within a board may also close through the switch
of their row, which lines leave out.

Source: Hoefler, Bonato, De Sensi, Di Girolamo, Li, Heddes, Belk, Goel, Castro and Scott,
HammingMesh: A Network Topology for Large-Scale Deep Learning (SC 2022, arXiv:2209.01346).
"""

from functools import cache, partial
from math import isqrt, prod
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta, Struct

from netplan.arrays import Ints, ceil_div
from netplan.errors import InputError
from netplan.levels import Level
from netplan.records import PositiveInt, replace
from netplan.topologies.assembly import Links, NameBlock, Wired
from netplan.topologies.fabric import (
    Fabric,
    LinkGroup,
    Sizing,
    clos_parts,
    network_level,
    port_words,
)
from netplan.topologies.families import switched
from netplan.topologies.families.clos import ClosCounts, FatTree, clos_counts, fat_tree
from netplan.topologies.families.torus import refuse_many_places
from netplan.topologies.graph import INSIDE, RACK, LinkType, Medium
from netplan.topologies.idle_places import MIN_WHOLE, idle_note, whole_part
from netplan.topologies.specs import MESH_AXES, FabricSpec

BoardSide = Annotated[int, Meta(ge=1, le=64)]
BOARD = (2, 2)
LINES = ("row", "column")
LONGEST = 2
"""Most that a grid of boards is longer than wide [1]."""


class MeshShape(Struct, frozen=True):
    """Places on a board and boards, along both axes [1]."""

    board: tuple[int, int]
    boards: tuple[int, int]

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Places, then boards, the fastest axis first [1]."""
        return *self.board, *self.boards

    def lines(self, axis: int, sizing: Sizing) -> int:
        """Lines of boards along one axis that have a GPU [1]: for each on a board, rail by rail."""
        if self.boards[axis] == 1:
            return 0
        rails = sizing.hb_size
        boards, rest = divmod(sizing.gpus, prod(self.board) * rails)
        along = self.boards[0]
        # Whole boards fill rows, one in each column; a part of one may begin a row or a column.
        rows = min(boards, along) if axis else ceil_div(boards, along)
        begins = boards < along if axis else boards % along == 0
        place = np.arange(self.board[1 - axis]) * (1 if axis else self.board[0])
        part = np.clip(rest - place * rails, 0, rails).sum() if begins else 0
        return rows * self.board[1 - axis] * rails + int(part)

    def ports(self, axis: int) -> int:
        """Network ports of a GPU along one axis, at most [1]."""
        return 2 if self.boards[axis] > 1 else min(2, self.board[axis] - 1)


def hammingmesh_shape(spec: FabricSpec, sizing: Sizing) -> MeshShape:
    """Board and grid of boards: the spec's own, if it holds the GPUs, or near a square.

    Of grids at most twice as long as wide the smallest is taken whose whole rows hold nearly all.

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> spec = FABRICS.load("hammingmesh")
    >>> [hammingmesh_shape(spec, Sizing(n, 64, 1, 450e9, 50e9)).boards for n in (1024, 52, 20)]
    [(16, 16), (4, 4), (3, 2)]
    """
    if not isinstance(spec, HammingMesh):
        raise InputError(f"{spec.name} is no HammingMesh: give one")
    board = spec.board or BOARD
    needed = ceil_div(sizing.domains, prod(board))
    if spec.sizes is None:
        return MeshShape(board, _near_square(needed))
    along, across = spec.sizes
    if along * across < needed:
        held = along * across * prod(board) * sizing.hb_size
        raise InputError(
            f"{spec.name}: {along} x {across} boards of {board[0]} x {board[1]} hold {held:,} GPUs,"
            f" got {sizing.gpus:,}: take at most {held:,}, or sizes of"
            f" {' x '.join(map(str, _near_square(needed)))} in the fabric file"
        )
    refuse_many_places(spec.name, (*board, along, across))
    return MeshShape(board, (along, across))


def _near_square(needed: int) -> tuple[int, int]:
    """Boards along a row, and rows."""
    grids = []
    for rows in range(1, isqrt(needed) + 2):
        along = max(rows, ceil_div(needed, rows))
        if along <= LONGEST * rows or needed <= LONGEST:
            whole = needed // along * along
            grids.append((whole < MIN_WHOLE * needed, along * rows, along - rows, (along, rows)))
    return min(grids)[-1]


class HammingMesh(FabricSpec, frozen=True, kw_only=True):
    """Boards of GPUs, whose rows and columns switches join."""

    several_ports: ClassVar[bool] = True
    sizes: tuple[PositiveInt, ...] | None = None  # boards in a row, and rows
    board: tuple[BoardSide, BoardSide] | None = None  # GPUs along both sides
    host_medium: Medium | None = None

    def __post_init__(self) -> None:
        """Refuse boards in other than two axes."""
        super().__post_init__()
        if len(self.sizes or (1, 1)) != MESH_AXES:
            raise ValueError(
                "family: hammingmesh takes two sizes if any: boards in a row, and rows"
            )

    def build(self, sizing: Sizing) -> Fabric:
        """HammingMesh over all HB domains."""
        shape = hammingmesh_shape(self, sizing)
        traces, ends = _on_boards(shape, sizing)
        tiers, links = clos_parts(*_counts(shape, sizing, ends), self.host_medium or "optical")
        ports = self.ports(sizing) * sizing.gpus
        boards = (
            LinkGroup.of(_board_links(axis, sizing), count)
            for axis, count in enumerate(traces)
            if count
        )
        held = prod(shape.sizes) * sizing.hb_size
        return Fabric(
            name=self.name,
            title=self.title,
            sizing=sizing,
            tiers=tiers,
            links=(*links, *boards),
            nic_ports=ports,
            board_ports=ports - sum(ends) if sizing.hb_size == 1 else 0,
            levels=_levels(self, sizing, shape),
            network="any-to-any" if sizing.hb_size == 1 else "rail-only",
            notes=(*self.notes, *_notes(shape, sizing), *idle_note(held, sizing)),
        )

    def wire(self, fabric: Fabric, first: int, port: int) -> Wired:
        """Wire rows, then columns of boards to their switches, then the boards."""
        sizing = fabric.sizing
        shape = hammingmesh_shape(self, sizing)
        boards = _wire_boards(shape, sizing, port)
        axes = [axis for axis in (0, 1) if shape.lines(axis, sizing)]
        if not axes:
            return Wired(links=boards)
        networks = {axis: _network(axis, shape, sizing) for axis in axes}
        # Those with the most tiers first: a line of theirs has all names of tiers.
        axes.sort(key=lambda axis: -len(networks[axis].wiring.shapes))
        attached, leaves = [], 0
        for axis in axes:
            attached.append(_attached(axis, shape, sizing, networks[axis].wiring, leaves))
            leaves += networks[axis].switches(0)
        columns = (np.concatenate(column) for column in zip(*attached, strict=True))
        trees = replace(
            fabric, links=tuple(group for group in fabric.links if group.role != "board")
        )
        wired = switched.wire_networks(
            trees, [networks[axis] for axis in axes], switched.Stage(*columns), (first, port)
        )
        return Wired(wired.nodes, (*wired.links, *boards))

    def ports(self, sizing: Sizing) -> int:
        """Network ports of a GPU, those on its board included [1]."""
        shape = hammingmesh_shape(self, sizing)
        return sum(shape.ports(axis) for axis in (0, 1))


def _on_boards(shape: MeshShape, sizing: Sizing) -> tuple[tuple[int, int], tuple[int, int]]:
    """Links on boards along both axes, and ends of lines that go to switches [1]."""
    wide, high = shape.board
    place = np.arange(wide * high)
    full, rest = divmod(sizing.gpus, wide * high * sizing.hb_size)
    # GPUs at each place, of all full boards and of one that is not.
    here = np.clip(rest - place * sizing.hb_size, 0, sizing.hb_size) + full * sizing.hb_size
    places = place % wide, place // wide
    # A link needs its later end.
    traces = tuple(int(here[coordinate > 0].sum()) for coordinate in places)
    ends = tuple(
        int(here[coordinate == 0].sum() + here[coordinate == size - 1].sum()) if boards > 1 else 0
        for coordinate, size, boards in zip(places, shape.board, shape.boards, strict=True)
    )
    return (traces[0], traces[1]), (ends[0], ends[1])


def _counts(
    shape: MeshShape, sizing: Sizing, ends: tuple[int, int]
) -> tuple[ClosCounts, ClosCounts]:
    """Switches and links of all lines: as built, and at least."""
    radix = sizing.radix
    built, bound = ClosCounts(radix), ClosCounts(radix)
    for axis, used in enumerate(ends):
        lines, ports = shape.lines(axis, sizing), 2 * shape.boards[axis]
        if not lines:
            continue
        if ports <= radix:
            wired = ClosCounts(radix, (ceil_div(lines, radix // ports),), (used,))
            least = ClosCounts(radix, (ceil_div(used, radix),), (used,))
        else:
            wired, least = (
                replace(counts, links_per_tier=(used, *counts.links_per_tier[1:]))
                for counts in (
                    line_tree(ports, radix).counts.times(lines),
                    clos_counts(ports, radix).times(lines),
                )
            )
        built, bound = built + wired, bound + least
    return built, bound


@cache
def line_tree(ports: int, radix: int) -> FatTree:
    """Fat tree of a line whose two ports of each board end on one leaf, with ports to spare if so.

    Else the way over the other port of a board would be shorter, and some ports carry more.

    Examples
    --------
    13 boards on switches of 16 ports: 32 places, 8 a leaf, for 26 ports.

    >>> line_tree(26, 16).counts.switches_per_tier, line_tree(26, 16).endpoints
    ((4, 2), 32)
    """
    trees = (fat_tree(ends, radix) for ends in range(ports, ports + 2 * radix, 2))
    even = (tree for tree in trees if tree.endpoints % (2 * tree.leaves) == 0)
    return next(even, fat_tree(ports, radix))


def _levels(spec: HammingMesh, sizing: Sizing, shape: MeshShape) -> tuple[Level, ...]:
    """HB domain, lines on a board, rows and columns of boards."""
    rate = sizing.network_bytes_per_s
    whole = whole_part(shape.sizes, sizing.full_domains)
    line = partial(Level, "line", step_latency_s=sizing.network_latency_s, interleaved=True)
    lines = [line(size, rate) for size in whole[:2]]
    rows = [
        network_level(sizing, size, 2 * rate / places, same_rank=sizing.hb_size > 1)
        for size, places in zip(whole[2:], shape.board, strict=True)
    ]
    return spec.hb_level(sizing), *lines, *rows


def _notes(shape: MeshShape, sizing: Sizing) -> list[str]:
    wide, high, along, rows = shape.sizes
    of = "GPUs" if sizing.hb_size == 1 else f"HB domains of {sizing.hb_size:,}, one mesh a rail"
    ports = sum(shape.ports(axis) for axis in (0, 1))
    notes = [f"{along} x {rows} boards of {wide} x {high} {of}: {port_words(sizing, ports)}."]
    if prod(shape.board) > 1:
        traces = "traces: no cable, card or price"
        made = traces if sizing.hb_size == 1 else "copper cables between domains"
        notes.append(f"Links on a board are {made}. GPUs pass on traffic of others.")
    return notes


def _network(axis: int, shape: MeshShape, sizing: Sizing) -> switched.NetworkCopies:
    """Switches of all lines along one axis."""
    lines, ports, name = shape.lines(axis, sizing), 2 * shape.boards[axis], LINES[axis]
    if ports > sizing.radix:
        return switched.NetworkCopies(
            switched.wire_tree(line_tree(ports, sizing.radix)), lines, f"{name}-{{}}/"
        )
    shared = sizing.radix // ports
    switches = ceil_div(lines, shared)
    names = NameBlock(f"{name}-{{}}/leaf-0" if shared == 1 else f"{name}s/leaf-{{}}", (switches,))
    return switched.NetworkCopies(switched.ClosWiring(((switches,),), ()), leaf_names=names)


def _attached(
    axis: int, shape: MeshShape, sizing: Sizing, wiring: switched.ClosWiring, leaves: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """Ends of lines along one axis: GPUs, leaves, and their ports; leaves come after some."""
    gpu = np.arange(sizing.gpus)
    domain, rail = np.divmod(gpu, sizing.hb_size)
    place = np.unravel_index(domain, shape.sizes, order="F")
    on_board, board = place[axis], place[2 + axis]
    line = (place[3 - axis] * shape.board[1 - axis] + place[1 - axis]) * sizing.hb_size + rail
    minus, plus = (np.flatnonzero(on_board == last) for last in (0, shape.board[axis] - 1))
    host = np.concatenate((minus, plus)).astype(np.int64)
    side = np.repeat((0, 1), (len(minus), len(plus)))
    end, line = 2 * board[host] + side, line[host]
    ports = 2 * shape.boards[axis]
    if wiring.stages:
        bottom = wiring.stages[0]
        leaf = line * wiring.switches_per_tier[0] + bottom.upper[end]
        leaf_port = bottom.upper_port[end].astype(np.int64)
    else:
        leaf, place_on = np.divmod(line, sizing.radix // ports)
        leaf_port = place_on * ports + end
    return host, leaves + leaf, axis * shape.ports(0) + side, leaf_port


def _board_links(axis: int, sizing: Sizing) -> LinkType:
    """Links on boards along one axis: traces, or cables where GPUs stand in HB domains."""
    medium: Medium = "copper" if sizing.hb_size > 1 else "on-board"
    return LinkType(f"board {axis + 1}", "board", axis=axis + 1, medium=medium)


def _wire_boards(shape: MeshShape, sizing: Sizing, port: int) -> tuple[Links, ...]:
    """Links on all boards along both axes."""
    gpu = np.arange(sizing.gpus, dtype=np.int32)
    place = np.unravel_index(gpu // sizing.hb_size, shape.sizes, order="F")
    links, stride = [], sizing.hb_size
    length = INSIDE if sizing.hb_size == 1 else RACK
    for axis, size in enumerate(shape.board):
        begins = gpu[(place[axis] < size - 1) & (gpu + stride < sizing.gpus)]
        minus = port + axis * shape.ports(0)
        plus = minus + (shape.ports(axis) > 1)
        ends = begins, begins + np.int32(stride)
        ports = np.full_like(begins, plus), np.full_like(begins, minus)
        rate = sizing.network_bytes_per_s
        links.append(Links(_board_links(axis, sizing), *ends, *ports, rate, length))
        stride *= size
    return tuple(board_links for board_links in links if len(board_links.source))

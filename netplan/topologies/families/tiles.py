"""Tiled accelerators: a mesh of cores in tiles, slower across the borders, with memory at channels.

X x Y tiles of a x b cores in one mesh. GPUs (cores here) are numbered tile by tile, row by row in
both, as levels count them: GPU x + a (y + b (u + X v)) is core (x, y) of tile (u, v). A link inside
a tile has one rate, one across a border another. Memory lies outside: every tile has channels, each
at one of its cores, and a core uses the nearest one. A channel is a node with one link, which all
cores that use it share.

Levels are four open lines: a and b cores of a tile, then X and Y tiles. From tile to tile each core
talks to the one at its own place, a columns (or b rows) on. All a cores of a row send over every
link between them at the same time, so that a core has 1/a of the slowest: that of a border. Where
fewer send at once, this is a bound.

Lines are named as the open rings of a torus (`netplan.topologies.families.torus`), so that the
routing by dimension order knows them. Source: PALM (Fang et al.), Table VI and Sec. IV-C. Left out:
cores that do not fill the tiles.
"""

from collections.abc import Iterator
from functools import cached_property
from math import prod
from typing import ClassVar, Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.levels import Level
from netplan.records import PositiveInt
from netplan.topologies.assembly import Links, NameBlock, Nodes, Wired
from netplan.topologies.fabric import MIN_GPUS, Fabric, LinkGroup, Sizing
from netplan.topologies.families.torus import near_cube
from netplan.topologies.graph import INSIDE, MEMORY, MEMORY_LINKS, LinkType
from netplan.topologies.specs import HB_KEYS, MESH_AXES, FabricSpec, Tile
from netplan.units import gbps

TileOrder = Literal["snake", "line"]
"""Ways to fill the mesh (`Mesh.order`)."""

MEMORY_PORT = 4
"""Port of a core to its channel, behind those to its four neighbours."""


class Mesh(Struct, frozen=True, dict=True):
    """Where the cores, tiles and channels of a tiled accelerator stand.

    Parameters
    ----------
    tiles, cores
        Columns and rows of tiles, and of cores in a tile [1].
    channels
        Column and row, in every tile, of the cores with a memory channel.

    Examples
    --------
    >>> mesh = Mesh((5, 4), (4, 4), ((0, 1), (3, 1), (0, 2), (3, 2)))
    >>> mesh.columns, mesh.rows, mesh.place(21), mesh.core(5, 1)
    (20, 16, (5, 1), 21)
    """

    tiles: tuple[int, int]
    cores: tuple[int, int]
    channels: tuple[tuple[int, int], ...] = ()

    @property
    def columns(self) -> int:
        """Cores beside each other, X [1]."""
        return self.tiles[0] * self.cores[0]

    @property
    def rows(self) -> int:
        """Cores above each other, Y [1]."""
        return self.tiles[1] * self.cores[1]

    def place(self, gpu: int) -> tuple[int, int]:
        """Column and row of a core."""
        tile, core = divmod(gpu, prod(self.cores))
        (tile_y, tile_x), (y, x) = divmod(tile, self.tiles[0]), divmod(core, self.cores[0])
        return tile_x * self.cores[0] + x, tile_y * self.cores[1] + y

    def core(self, column: int, row: int) -> int:
        """The core in a column and a row."""
        return int(self.grid[row, column])

    @cached_property
    def grid(self) -> Ints:
        """The core at each place, shape (rows, columns)."""
        shape = (self.tiles[1], self.tiles[0], self.cores[1], self.cores[0])
        by_tile: Ints = np.arange(prod(shape)).reshape(shape).transpose(0, 2, 1, 3)
        return by_tile.reshape(self.rows, self.columns)

    def channel_of(self, gpu: int) -> tuple[int, int]:
        """The nearest channel of the tile of a core, and the core where it is.

        Channels are numbered as their nodes are: row of tiles, tile, channel.

        Examples
        --------
        Core 2 of the first row goes one core on and one down.

        >>> Mesh((5, 4), (4, 4), ((0, 1), (3, 1), (0, 2), (3, 2))).channel_of(2)
        (1, 7)
        """
        tile, core = divmod(gpu, prod(self.cores))
        y, x = divmod(core, self.cores[0])
        steps = [abs(at_x - x) + abs(at_y - y) for at_x, at_y in self.channels]
        nearest = steps.index(min(steps))
        at_x, at_y = self.channels[nearest]
        nearest_core = tile * prod(self.cores) + at_y * self.cores[0] + at_x
        return tile * len(self.channels) + nearest, nearest_core

    def path(self, sender: int, receiver: int) -> list[int]:
        """Cores from one to another by dimension order: along the row first, both ends included.

        Examples
        --------
        >>> Mesh((2, 1), (2, 2)).path(5, 2)
        [5, 4, 1, 0, 2]
        """
        (column, row), (to_column, to_row) = self.place(sender), self.place(receiver)
        x, y = (1 if to_column > column else -1), (1 if to_row > row else -1)
        along = [self.core(x_passed, row) for x_passed in range(column, to_column, x)]
        return along + [self.core(to_column, y_passed) for y_passed in range(row, to_row + y, y)]

    def order(self, order: TileOrder) -> Ints:
        """Cores in the order in which a run fills them, shape (cores,).

        ``line``  column by column.
        ``snake`` tile by tile, columns of tiles upwards and downwards in turn, the rows of their
        cores likewise, and cores from left to right and back in turn; the last row of a column of
        tiles runs to the right, where the next one begins (PALM, Fig. 8, as its code has it).

        Examples
        --------
        >>> Mesh((2, 1), (2, 2)).order("snake"), Mesh((2, 1), (2, 2)).order("line")
        (array([0, 1, 2, 3, 6, 7, 4, 5]), array([0, 2, 1, 3, 4, 6, 5, 7]))
        """
        if order == "line":
            return self.grid.T.ravel()
        return np.fromiter(self._snake(), np.int64, self.columns * self.rows)

    def _snake(self) -> Iterator[int]:
        """Cores along the snake."""
        wide = self.cores[0]
        for tile_x in range(self.tiles[0]):
            rows = range(self.rows)
            for count, row in enumerate(reversed(rows) if tile_x % 2 else rows):
                columns = range(tile_x * wide, (tile_x + 1) * wide)
                back = count % 2 and count + 1 < self.rows
                for column in reversed(columns) if back else columns:
                    yield self.core(column, row)


def mesh_of(spec: FabricSpec, gpus: int) -> Mesh:
    """The mesh that so many cores make: the spec's own tiles, or as square as they can be.

    Raises
    ------
    InputError
        If the cores do not fill the tiles.

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> mesh_of(FABRICS.load("palm-wafer"), 320).tiles
    (5, 4)
    """
    tile = spec.tile
    if not isinstance(spec, Tiles) or tile is None:
        raise InputError(f"{spec.name} has no tiles: take a fabric of family tiles")
    wide, high = tile.cores
    cores, whole = wide * high, gpus // (wide * high)
    tiles = spec.sizes or near_cube(max(1, whole), MESH_AXES)
    if gpus != prod(tiles) * cores:
        near = [prod(tiles)] if spec.sizes else [whole, whole + 1]
        sizes = " or ".join(f"{count * cores:,}" for count in near if count * cores >= MIN_GPUS)
        raise InputError(
            f"{spec.name}: tiles of {wide} x {high} cores, and {gpus:,} GPUs, the cores, do not"
            f" fill them: take {sizes}, or change sizes in the fabric file"
        )
    return Mesh((tiles[0], tiles[1]), tile.cores, tile.channels)


def _lines(mesh: Mesh, tile: Tile, border_bytes_per_s: float) -> Iterator[Links]:
    """Links along rows, then along columns; inside tiles, then across borders."""
    core = mesh.grid.ravel()
    position = np.arange(len(core))
    for axis, size in enumerate((mesh.columns, mesh.rows)):
        stride = mesh.columns if axis else 1
        place = position // stride % size
        begins, crosses = place < size - 1, place % tile.cores[axis] == tile.cores[axis] - 1
        for border, rate in ((False, tile.link_bytes_per_s), (True, border_bytes_per_s)):
            here = position[begins & (crosses == border)]
            if len(here):
                name = f"ring {axis + 1} {'border' if border else 'tile'}"
                kind = LinkType(name, "ring", axis=axis + 1, medium="on-chip", crosses=border)
                ports = np.full_like(here, 2 * axis)
                ends = core[here], core[here + stride]
                yield Links(kind, *ends, ports, ports + 1, rate, INSIDE)


class Tiles(FabricSpec, frozen=True, kw_only=True):
    """A mesh of cores in tiles."""

    unread = (*HB_KEYS, "hb_link_bytes_per_s", "in_sets")
    switchless: ClassVar[bool] = True
    sizes: tuple[PositiveInt, ...] | None = None  # columns and rows of tiles
    tile: Tile | None = None

    def __post_init__(self) -> None:
        """Refuse no tile, and others than single cores in two axes."""
        super().__post_init__()
        if self.tile is None:
            raise ValueError("family: tiles needs a tile")
        if self.hb_size != 1 or len(self.sizes or (1, 1)) != MESH_AXES:
            raise ValueError("family: tiles needs hb_size: 1, and two sizes if any")

    def build(self, sizing: Sizing) -> Fabric:
        """Mesh of tiles, whose levels are open lines."""
        mesh, tile = mesh_of(self, sizing.gpus), self.tile
        assert tile is not None  # noqa: S101 - such a record is refused
        lines = _lines(mesh, tile, sizing.network_bytes_per_s)
        counts = [(line.kind, len(line.source)) for line in lines]
        channels = len(mesh.channels) * prod(mesh.tiles)
        counts += [(MEMORY_LINKS, channels)] if channels else []
        shape = (
            f"{mesh.tiles[0]} x {mesh.tiles[1]} tiles of {tile.cores[0]} x {tile.cores[1]} cores"
        )
        rates = (
            f"{gbps(tile.link_bytes_per_s):,.4g} Gb/s inside a tile, {sizing.speed_gbps:,.4g} Gb/s"
        )
        return Fabric(
            name=self.name,
            title=self.title,
            sizing=sizing,
            tiers=(),
            links=tuple(LinkGroup.of(kind, links) for kind, links in counts),
            nic_ports=0,
            levels=(self.hb_level(sizing), *_levels(mesh, tile, sizing)),
            network="direct",
            notes=(
                *self.notes,
                f"{shape}: links of {rates} across borders.",
                "Closed forms let all cores of a row cross a border at once, and share its links.",
            ),
        )

    def wire(self, fabric: Fabric, first: int, port: int) -> Wired:  # noqa: ARG002
        """Wire all lines, then the channels, whose memories are numbered from ``first`` on.

        The ports of a core: right, left, up, down, memory.
        """
        mesh, tile = mesh_of(self, fabric.sizing.gpus), self.tile
        assert tile is not None  # noqa: S101 - such a record is refused
        links = [*_lines(mesh, tile, fabric.sizing.network_bytes_per_s)]
        if tile.channel_bytes_per_s is None or not mesh.channels:
            return Wired(links=tuple(links))
        shape = (mesh.tiles[1], mesh.tiles[0], len(mesh.channels))
        rows, columns, channels = np.indices(shape).reshape(3, -1)
        place = np.array(mesh.channels)[channels]
        column, row = columns * tile.cores[0] + place[:, 0], rows * tile.cores[1] + place[:, 1]
        core = mesh.grid[row, column]
        memory = first + np.arange(len(core))
        both = np.full_like(core, MEMORY_PORT), np.zeros_like(core)
        rate = tile.channel_bytes_per_s
        links.append(Links(MEMORY_LINKS, core, memory, *both, rate, INSIDE))
        names = NameBlock("row-{}/tile-{}/memory-{}", shape)
        return Wired((Nodes(MEMORY, 0, names),), tuple(links))


def _levels(mesh: Mesh, tile: Tile, sizing: Sizing) -> Iterator[Level]:
    """Columns and rows of cores in a tile, then of tiles."""
    hop_s = sizing.network_latency_s
    for size in tile.cores:
        yield Level("line", size, tile.link_bytes_per_s, hop_s)
    for size, cores in zip(mesh.tiles, tile.cores, strict=True):
        rate = sizing.network_bytes_per_s
        if cores > 1:  # else a way from tile to tile has no link inside one
            rate = min(rate, tile.link_bytes_per_s) / cores
        yield Level("line", size, rate, cores * hop_s)


def tile_order(spec: FabricSpec, gpus: int, order: TileOrder) -> Ints:
    """GPU at every place of a run that fills the mesh in an order, shape (gpus,).

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> tile_order(FABRICS.load("palm-wafer"), 320, "snake")[:6]
    array([0, 1, 2, 3, 7, 6])
    """
    return mesh_of(spec, gpus).order(order)

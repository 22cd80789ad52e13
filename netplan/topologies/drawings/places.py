"""Where the nodes of a small network stand on a drawing, and what joins them.

GPUs of one HB domain stand together, as one spot where they are too many. Switches with tiers stand
in rows; switches that are joined among each other in a circle with the GPUs around them; GPUs that
are joined without switches on the grid of their torus or product, if they lie on one.
"""

from math import pi, prod

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.levels import Level
from netplan.topologies.graph import GPU, HB_SWITCH, SWITCH, FabricGraph

MAX_SPOTS, MAX_WIRES = 640, 6_000
"""Spots and lines of a drawing that shows every one of them, for want of another [1]."""
LEGIBLE_SPOTS, LEGIBLE_WIRES = 120, 1_200
"""Those of a network with switches that can be told apart on a page; rows of kinds say more [1]."""
MAX_GPUS = 96
"""GPUs up to which each has a spot of its own [1]."""
STEP, GPU_STEP, LEAST_WIDTH = 30.0, 15.0, 560.0
ROW_STEP, ROW_SLOPE = 120.0, 0.12
"""Height between two rows: at least so much [px], and a share of their width."""
RING_GAP, LEAST_RADIUS = 62.0, 120.0
DEPTH = ((1.0, 0.0), (0.0, 1.0), (0.34, -0.28))
"""Steps on the paper along the first three dimensions of a grid."""


class NetworkMap(Struct, frozen=True, eq=False):
    """Spots and wires of a network.

    Parameters
    ----------
    layout
        ``rows``, ``circle`` or ``grid``.
    first
        A node of each spot, which names it, shape (spots,).
    gpus
        GPUs that stand there; none for a switch, shape (spots,).
    tier
        Tier of its nodes, shape (spots,).
    x, y
        Its place, from the left and from above [px], shape (spots,).
    spot
        Spot of each node, -1 for those that are not drawn, shape (nodes,).
    ends
        Two spots of each wire, shape (2, wires).
    wire
        Wire of each link, -1 for links inside a spot, shape (links,).
    bent
        Whether a wire leads back around its grid, shape (wires,).
    """

    layout: str
    first: Ints
    gpus: Ints
    tier: Ints
    x: Floats
    y: Floats
    spot: Ints
    ends: Ints
    wire: Ints
    bent: Bools

    @property
    def links(self) -> Ints:
        """Links of each wire [1], shape (wires,)."""
        return np.bincount(self.wire[self.wire >= 0], minlength=self.ends.shape[1])

    def most(self, of_links: Floats) -> Floats:
        """Largest amount of the links of each wire, shape (wires,)."""
        largest = np.zeros(self.ends.shape[1])
        drawn = self.wire >= 0
        np.maximum.at(largest, self.wire[drawn], of_links[drawn])
        return largest


def network_map(
    graph: FabricGraph, levels: tuple[Level, ...] = (), *, legible: bool = False
) -> NetworkMap | None:
    """Place every node of a network; None if it has too many.

    Parameters
    ----------
    graph
        The network.
    levels
        Its levels, which say the grid of GPUs that are joined without switches.
    legible
        Whether it shall be drawn otherwise where its nodes cannot be told apart.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> found = network_map(graph)
    >>> found.layout, len(found.first), int(found.links.sum())
    ('rows', 68, 64)
    """
    switches = np.count_nonzero(graph.node_kind == SWITCH)
    few = legible and switches  # the grid of a torus shows many more
    spots, wires = (LEGIBLE_SPOTS, LEGIBLE_WIRES) if few else (MAX_SPOTS, MAX_WIRES)
    least = graph.domains if graph.gpus > MAX_GPUS else graph.gpus
    if least > spots or switches > spots - least:
        return None
    spot, first, gpus = _spots(graph)
    if len(first) > spots:
        return None
    ends, wire = _wires(graph, spot, len(first))
    if ends.shape[1] > wires:
        return None
    tier = graph.node_tier[first].astype(np.int64)
    layout, x, y = _places(graph, levels, tier, gpus, ends)
    bent = np.zeros(ends.shape[1], bool)
    if layout == "grid":
        length = np.hypot(x[ends[0]] - x[ends[1]], y[ends[0]] - y[ends[1]])
        bent = length > 1.6 * np.median(length) if len(length) else bent
    return NetworkMap(layout, first, gpus, tier, x, y, spot, ends, wire, bent)


def _spots(graph: FabricGraph) -> tuple[Ints, Ints, Ints]:
    """Spot of each node, the first node and the GPUs of each spot."""
    kind = graph.node_kind
    spot = np.full(graph.node_count, -1, np.int64)
    size = 1 if graph.gpus <= MAX_GPUS else graph.hb_size
    spot[: graph.gpus] = np.arange(graph.gpus) // size
    placed = -(-graph.gpus // size)
    if size > 1:  # an HB switch stands with its GPUs
        inner = (kind[graph.source] == GPU) & (kind[graph.target] == HB_SWITCH)
        spot[graph.target[inner]] = spot[graph.source[inner]]
    others = np.flatnonzero((kind != GPU) & (kind != HB_SWITCH))
    spot[others] = placed + np.arange(len(others))
    first = np.concatenate((np.arange(placed) * size, others))
    gpus = np.zeros(len(first), np.int64)
    gpus[:placed] = np.bincount(spot[: graph.gpus], minlength=placed)
    return spot, first, gpus


def _wires(graph: FabricGraph, spot: Ints, spots: int) -> tuple[Ints, Ints]:
    """Two spots of each wire, and the wire of each link; HB domains are no wires."""
    a, b = spot[graph.source], spot[graph.target]
    shown = ~graph.is_role("hb") & (a >= 0) & (b >= 0) & (a != b)
    pair = np.minimum(a, b)[shown] * spots + np.maximum(a, b)[shown]
    distinct, which = np.unique(pair, return_inverse=True)
    wire = np.full(graph.link_count, -1, np.int64)
    wire[shown] = which.reshape(-1)
    return np.array(np.divmod(distinct, spots), np.int64).reshape(2, -1), wire


def _places(
    graph: FabricGraph, levels: tuple[Level, ...], tier: Ints, gpus: Ints, ends: Ints
) -> tuple[str, Floats, Floats]:
    """Layout and places of all spots."""
    if not (graph.node_kind == SWITCH).any():
        sizes = [level.size for level in levels[1:] if level.size > 1]
        if prod(sizes) == len(gpus) and len(sizes) > 1:
            return "grid", *_grid(sizes, len(gpus))
        return "circle", *_circle(len(gpus), LEAST_RADIUS)
    among = (tier[ends[0]] == tier[ends[1]]) & (gpus[ends[0]] == 0) & (gpus[ends[1]] == 0)
    if among.any():
        return "circle", *_two_circles(gpus)
    return "rows", *_rows(tier, gpus, graph.hb_size)


def _grid(sizes: list[int], count: int) -> tuple[Floats, Floats]:
    """Places on a grid of dimensions, the first one to the right; from the third on aslant."""
    index, x, y = np.arange(count), np.zeros(count), np.zeros(count)
    room = np.array([1.0, 1.0])
    for number, size in enumerate(sizes):
        index, here = np.divmod(index, size)
        right, down = DEPTH[number] if number < len(DEPTH) else (room[0], 0.0)
        x, y = x + right * here, y + down * here
        room = np.array([np.ptp(x) + 1.0, np.ptp(y) + 1.0])
    step = max(STEP, min(84.0, LEAST_WIDTH / max(np.ptp(x), 1.0)))
    return step * (x - x.min()), step * (y - y.min())


def _circle(count: int, radius: float) -> tuple[Floats, Floats]:
    """Places on a circle, the first one on top."""
    radius = max(radius, STEP * count / (2 * pi))
    angle = 2 * pi * (np.arange(count) + 0.5) / max(count, 1) - pi / 2
    return radius * np.cos(angle) + radius, radius * np.sin(angle) + radius


def _two_circles(gpus: Ints) -> tuple[Floats, Floats]:
    """Switches inside, GPUs around them."""
    inner, outer = np.flatnonzero(gpus == 0), np.flatnonzero(gpus > 0)
    radius = max(
        LEAST_RADIUS, STEP * len(inner) / (2 * pi), STEP * len(outer) / (2 * pi) - RING_GAP
    )
    x, y = np.zeros(len(gpus)), np.zeros(len(gpus))
    x[inner], y[inner] = _circle(len(inner), radius)
    x[inner], y[inner] = x[inner] + RING_GAP, y[inner] + RING_GAP
    x[outer], y[outer] = _circle(len(outer), radius + RING_GAP)
    return x, y


def _rows(tier: Ints, gpus: Ints, hb_size: int) -> tuple[Floats, Floats]:
    """The top tier in the first row, GPUs in the last one, with gaps between HB domains."""
    x, rows = np.zeros(len(tier)), np.unique(tier)[::-1]
    alone = gpus.max(initial=0) == 1
    widths: dict[int, float] = {}
    for row in rows.tolist():
        here = np.flatnonzero(tier == row)
        place = np.arange(len(here), dtype=float)
        if alone and row == 0:
            place += 0.7 * (np.arange(len(here)) // hb_size)
        x[here] = place
        widths[row] = float(place[-1]) + 1.0
    steps = {row: GPU_STEP if alone and row == 0 else STEP for row in widths}
    width = max(LEAST_WIDTH, *(steps[row] * widths[row] for row in widths))
    for row in rows.tolist():
        here = tier == row
        x[here] = (x[here] + 0.5) * width / widths[row]
    height = max(ROW_STEP, ROW_SLOPE * width)
    return x, height * np.searchsorted(-rows, -tier).astype(float)


def arc_of(x1: float, y1: float, x2: float, y2: float, bow: float) -> tuple[float, float]:
    """Point that bows a line aside, by a share of its length.

    Examples
    --------
    >>> arc_of(0, 0, 10, 0, 0.2)
    (5.0, -2.0)
    """
    dx, dy = x2 - x1, y2 - y1
    return (x1 + x2) / 2 + bow * dy, (y1 + y2) / 2 - bow * dx

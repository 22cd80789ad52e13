"""A small network node by node as SVG, with loads or failures as colour."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from markupsafe import Markup

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.records import replace
from netplan.reports.escape import short
from netplan.reports.svg import (
    box,
    disc,
    drawing,
    path_steps,
    shifted,
    short_number,
    square,
    text_line,
    way,
)
from netplan.topologies.colours import Coloured
from netplan.topologies.drawings.layers import fabric_drawing
from netplan.topologies.drawings.places import MAX_SPOTS, NetworkMap, arc_of
from netplan.topologies.fabric import Fabric
from netplan.topologies.graph import SWITCH, FabricGraph
from netplan.units import counted

MARGIN, LABELS, LEGEND = 26.0, 150.0, 54.0
SWITCH_PX, GPU_PX = 8.0, 5.5
NAMED_SPOTS = 24
"""HB domains up to which each frame is named [1]."""
SIGN_PX, LINE_PX, TOOLTIP_LENGTH = 7.2, 13.0, 80
"""Room of one letter of a name, height of a line of names [px]; letters of a title."""
MOST_POINTED = 300
"""Wires up to which each has a title [1]."""
SHADES = 5
"""Steps of colour from idle to the busiest [1]."""
BOW = 0.22
LOADS_PX = 276.0
"""Room of what a legend says of loads, beside which failures stand [px]."""


def drawing_of(
    graph: FabricGraph, fabric: Fabric | None, places: NetworkMap | None, coloured: Coloured
) -> Markup:
    """A network node by node where it has places, else by kinds of devices.

    Raises
    ------
    InputError
        If it has neither places nor counts.
    """
    if places is not None:
        return network_drawing(graph, places, coloured)
    if fabric is None:
        raise InputError(
            f"a graph of {counted(graph.node_count, 'node')} is too large to be drawn node by node"
            f" (up to {MAX_SPOTS:,} switches and HB domains): draw a part of it"
        )
    out = coloured.links_out
    if out is not None and coloured.share is None:
        kinds = {name: "failed" for name in graph.group_names if out[graph.links_of(name)].any()}
        # Single links have no place here: how many of each kind have failed is said.
        counts = (
            way([(MARGIN, 12.0), (MARGIN + 26, 12.0)], "wire failed", width=3.0),
            text_line(MARGIN + 34, 16.0, "a kind of links of which some have failed", "sub"),
            text_line(MARGIN, 36.0, _failed_words(graph, coloured), "sub"),
        )
        return fabric_drawing(fabric, graph, kinds, counts)
    kinds = {}
    if coloured.share is not None:  # the colour of a group is that of its busiest link
        for code, name in enumerate(graph.group_names):
            busiest = float(coloured.share[graph.group == code].max(initial=0.0))
            kinds[name] = f"heat-{colour_step(busiest)}"
    if out is not None:  # a kind of links has one colour: loads have it, failures are counted
        down = 0 if coloured.nodes_out is None else int(coloured.nodes_out.sum())
        nodes = f"{counted(down, 'device')} and " if down else ""
        words = f"failed: {nodes}{int(out.sum()):,} of {counted(graph.link_count, 'link')}"
        legend = [*_legend(replace(coloured, links_out=None))]
        legend.append(text_line(MARGIN + LOADS_PX, 36.0, words, "sub"))
        return fabric_drawing(fabric, graph, kinds, legend)
    return fabric_drawing(fabric, graph, kinds, [*_legend(coloured)])


def network_drawing(graph: FabricGraph, spots: NetworkMap, coloured: Coloured) -> Markup:
    """Draw a network whose nodes have their places.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.drawings.places import network_map
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> drawn = network_drawing(graph, network_map(graph), Coloured())
    >>> drawn.count("<path"), drawn.count("<rect"), drawn.count("<circle")
    (64, 12, 64)
    """
    aside = BOW / 2 * float(max(np.ptp(spots.x), np.ptp(spots.y))) if spots.bent.any() else 0.0
    left = MARGIN + (LABELS if spots.layout == "rows" else aside)
    x, y = spots.x + left, spots.y + MARGIN + aside
    width = float(x.max()) + MARGIN + aside
    legend = [*_legend(coloured)]
    height = float(y.max()) + aside + MARGIN + 30 + (LEGEND if legend else 0)
    shapes = [
        *_domains(graph, spots, x, y),
        *_wires(graph, spots, coloured, x, y),
        *_spots(graph, spots, coloured, x, y),
        *(_row_words(graph, spots, y) if spots.layout == "rows" else ()),
        *([shifted(legend, height - LEGEND)] if legend else ()),
    ]
    wires = counted(int(spots.links.sum()), "link")
    title = f"{short(graph.name)}: {counted(graph.gpus, 'GPU')}, {wires}"
    return drawing(max(width, 480.0), height, title, shapes)


def _domains(graph: FabricGraph, spots: NetworkMap, x: Floats, y: Floats) -> Iterator[Markup]:
    """Frames around the GPUs of each HB domain, where each has a spot of its own."""
    if spots.layout != "rows" or graph.hb_size == 1 or spots.gpus.max(initial=0) > 1:
        return
    for number in range(graph.domains):
        here = np.arange(number * graph.hb_size, min((number + 1) * graph.hb_size, graph.gpus))
        low, high = float(x[here].min()) - 11, float(x[here].max()) + 11
        yield box(low, float(y[here[0]]) - 12, high - low, 24.0, "frame")
        if graph.domains <= NAMED_SPOTS:
            words = f"domain {number}"
            words = words if len(words) * SIGN_PX <= high - low else f"{number}"
            yield text_line(
                (low + high) / 2, float(y[here[0]]) + 27, words, "name", anchor="middle"
            )


def _wires(
    graph: FabricGraph, spots: NetworkMap, coloured: Coloured, x: Floats, y: Floats
) -> Iterator[Markup]:
    """A line a wire: thicker for more links, coloured by its busiest link; failed ones on top.

    Of many, those that look alike are one shape: nobody could point at one of them.
    """
    count = spots.links
    share = spots.most(coloured.share) if coloured.share is not None else None
    out = None
    if coloured.links_out is not None:
        out = np.bincount(spots.wire[(spots.wire >= 0) & coloured.links_out], minlength=len(count))
    rank = np.zeros(len(count)) if share is None else share
    rank = rank if out is None else rank + 2.0 * (out > 0)
    alike: dict[tuple[str, str], list[str]] = {}
    failed: list[Markup] = []
    for wire in np.argsort(rank, kind="stable").tolist():
        near, far = spots.ends[:, wire].tolist()
        ends = [(float(x[end]), float(y[end])) for end in (near, far)]
        kind, words = "wire", counted(int(count[wire]), "link")
        if share is not None:
            kind = f"wire heat-{colour_step(float(share[wire]))}"
            words = f"{words}, busiest {share[wire]:.0%}"
        if out is not None and out[wire]:
            kind, words = "wire failed", f"{words}, {int(out[wire])} failed"
        thick = 0.7 + 0.4 * min(4.0, float(np.log2(count[wire])))
        thick += 0.6 * float(share[wire]) if share is not None else 0.0
        names = " -- ".join(_name(graph, spots, end) for end in (near, far))
        bow = [arc_of(*ends[0], *ends[1], BOW)] if spots.bent[wire] else []
        points = [ends[0], *bow, ends[1]]
        if len(count) > MOST_POINTED and kind != "wire failed":
            alike.setdefault((kind, short_number(thick)), []).append(path_steps(points))
        else:
            failed.append(way(points, kind, width=thick, title=f"{names}: {words}"))
    shape = Markup('<path d="{}" class="{}" style="fill:none;stroke-width:{}"></path>')
    for (kind, thick_px), ways in alike.items():
        yield shape.format("".join(ways), kind, thick_px)
    yield from failed


def _spots(
    graph: FabricGraph, spots: NetworkMap, coloured: Coloured, x: Floats, y: Floats
) -> Iterator[Markup]:
    """A square a switch, a circle a GPU or HB domain; named where there is room."""
    down, cut = _struck(spots, coloured)
    inside = _inside(graph, spots, coloured)
    for spot, gpus in enumerate(spots.gpus.tolist()):
        name, kind = _name(graph, spots, spot), "node gpus" if gpus else "node switch"
        words = name if gpus <= 1 else f"{name}, {gpus} GPUs"
        if down[spot]:
            kind, words = f"{kind} failed", f"{words}: failed"
        elif cut[spot]:
            kind, words = f"{kind} cut", f"{words}: {int(cut[spot])} cut off"
        elif inside is not None and gpus:
            kind = f"{kind} heat-{colour_step(float(inside[spot]))}"
            words = f"{words}, busiest inside {inside[spot]:.0%}"
        px, py = float(x[spot]), float(y[spot])
        if gpus:
            yield disc(px, py, GPU_PX if gpus == 1 else SWITCH_PX, kind, words)
        else:
            yield square(px, py, SWITCH_PX, kind, words)
    if spots.layout == "rows":
        yield from _labels(graph, spots, x, y)


def _labels(graph: FabricGraph, spots: NetworkMap, x: Floats, y: Floats) -> Iterator[Markup]:
    """Names of switches and HB domains where there is room, on two lines if need be.

    The last part alone names a device only where no other one has it.
    """
    row = spots.tier - spots.tier.min()
    room = np.ptp(x) / np.bincount(row)[row]
    names = [_name(graph, spots, index) for index in range(len(row))]
    ends = Counter(name.rpartition("/")[2] for name in names)
    for index, name in enumerate(names):
        if spots.gpus[index] == 1:
            continue
        lines = _lines(name, float(room[index]), alone=ends[name.rpartition("/")[2]] == 1)
        top = 24.0 if spots.gpus[index] else -13.0 - LINE_PX * (len(lines) - 1)
        for number, line in enumerate(lines):
            height = float(y[index]) + top + LINE_PX * number
            yield text_line(float(x[index]), height, line, "name", anchor="middle")


def _lines(name: str, room: float, *, alone: bool) -> list[str]:
    """A name in one line, its last part if that is alone, or a line a part: what has room first.

    >>> _lines("rail-1/leaf-0", 60.0, alone=False)
    ['rail-1', 'leaf-0']
    """
    parts = name.split("/")
    for lines in ([name], parts[-1:] if alone else parts):
        if max(map(len, lines)) * SIGN_PX <= room:
            return lines
    return []


def _inside(graph: FabricGraph, spots: NetworkMap, coloured: Coloured) -> Floats | None:
    """Share of the busiest link inside the HB domain of each spot [1]; None without loads."""
    if coloured.share is None:
        return None
    most, hb = np.zeros(len(spots.first)), graph.links_with("hb")
    spot = spots.spot[graph.source[hb]]
    np.maximum.at(most, spot[spot >= 0], coloured.share[hb][spot >= 0])
    return most


def _struck(spots: NetworkMap, coloured: Coloured) -> tuple[Floats, Floats]:
    """Failed nodes and GPUs cut off at each spot [1]."""
    none = np.zeros(len(spots.first))
    if coloured.nodes_out is None or coloured.cut_off is None:
        return none, none
    drawn = spots.spot >= 0
    out = np.bincount(spots.spot[drawn & coloured.nodes_out], minlength=len(none))
    lost = np.flatnonzero(coloured.cut_off)
    cut = np.bincount(spots.spot[lost], minlength=len(none))
    return out.astype(float), cut.astype(float)


def _name(graph: FabricGraph, spots: NetworkMap, spot: int) -> str:
    """What a spot is called: its switch or GPU, or the HB domain of several."""
    node = int(spots.first[spot])
    if spots.gpus[spot] > 1:
        return f"domain-{node // graph.hb_size}"
    return short(graph.node_name(node), TOOLTIP_LENGTH)


def _row_words(graph: FabricGraph, spots: NetworkMap, y: Floats) -> Iterator[Markup]:
    """What stands in each row, and the links between a row and the next one."""
    rows = np.unique(spots.tier)[::-1].tolist()
    for tier in rows:
        here = np.flatnonzero(spots.tier == tier)
        high, gpus = float(y[here[0]]), int(spots.gpus[here].sum())
        name = graph.node_name(int(spots.first[here[0]])).rpartition("/")[2].rpartition("-")[0]
        word = name if name == "switch" else f"{short(name, 12)} switch".lstrip()
        words = counted(gpus, "GPU") if gpus else counted(len(here), word, f"{word}es")
        yield text_line(MARGIN, high + 4, words, "label")
        if gpus and graph.hb_size > 1:
            yield text_line(MARGIN, high + 20, f"in {counted(graph.domains, 'HB domain')}", "sub")
        ends = spots.ends[:, (spots.tier[spots.ends] == tier).any(axis=0)]
        below = (spots.tier[ends] < tier).any(axis=0)
        lower = spots.links[(spots.tier[spots.ends] == tier).any(axis=0)][below].sum()
        if lower:
            yield text_line(MARGIN, high + 62, counted(int(lower), "link"), "sub")


def _legend(coloured: Coloured) -> Iterator[Markup]:
    """What the colours mean."""
    y = 12.0
    if coloured.share is not None:
        for step in range(SHADES + 1):
            x = MARGIN + 92 * step
            words = "idle" if step == 0 else f"to {100 * step // SHADES} %"
            yield way([(x, y), (x + 26, y)], f"wire heat-{step}", width=4.0)
            yield text_line(x + 32, y + 4, words, "sub")
        yield text_line(MARGIN, y + 24, f"of the busiest link, {coloured.words}", "sub")
    if coloured.links_out is not None:
        items: Sequence[tuple[str, str]] = (("wire failed", "failed"), ("cut", "cut off"))
        left = MARGIN if coloured.share is None else MARGIN + LOADS_PX
        y = y if coloured.share is None else y + 20
        for number, (kind, words) in enumerate(items):
            x = left + 110 * number
            if kind == "cut":
                yield disc(x + 13, y, SWITCH_PX, "node gpus cut")
            else:
                yield way([(x, y), (x + 26, y)], kind, width=3.0)
            yield text_line(x + 34, y + 4, words, "sub")


def _failed_words(graph: FabricGraph, coloured: Coloured) -> str:
    """How many switches, and links of each kind, have failed."""
    words = []
    switches = graph.node_kind == SWITCH
    down = int((coloured.nodes_out & switches).sum()) if coloured.nodes_out is not None else 0
    if down:
        words.append(f"{down:,} of {counted(int(switches.sum()), 'switch', 'switches')}")
    for code, name in enumerate(graph.group_names):
        here = graph.group == code
        out = int(coloured.links_out[here].sum()) if coloured.links_out is not None else 0
        if out:
            words.append(f"{out:,} of {counted(int(here.sum()), f'{name} link')}")
    return "; ".join(words) or "no link has failed"


def colour_step(share: float) -> int:
    """Step of colour of a share of the busiest link: 0 for idle, 5 for the busiest.

    Examples
    --------
    >>> colour_step(0.0), colour_step(0.01), colour_step(0.2), colour_step(0.21), colour_step(1.0)
    (0, 1, 1, 2, 5)
    """
    return int(np.ceil(min(1.0, share) * SHADES - 1e-9)) if share > 0 else 0

"""A fabric as a drawing: one row a tier, a few boxes a row, whatever the number of switches.

A row shows the first devices of its kind and the last one; its label says how many there are, how
many ports of each lead down and up, and how far that is oversubscribed. Lines show which kinds are
joined and through what, with the cables of each end beside them; they do not count the cables.
Where the graph is at hand, devices have the names of the cable plan, rails included.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from markupsafe import Markup
from msgspec import Struct

from netplan.levels import Level
from netplan.reports.escape import TIMES, short
from netplan.reports.svg import arc, box, drawing, line, shifted, text
from netplan.topologies.fabric import Fabric, LinkGroup, SwitchTier
from netplan.topologies.graph import SWITCH, FabricGraph

WIDTH, LABEL_WIDTH = 760.0, 210.0
BOX_WIDTH, BOX_HEIGHT = 102.0, 40.0
GAP = 76.0  # between rows: room for the lines and their label
MARGIN, LEGEND = 14.0, 54.0
SHOWN = 4  # boxes in a row
NAME_LENGTH = 15
LOOP_LINE, LOOP_ROOM = 20.0, 44.0  # label of links within a row; height of their curves


class _Row(Struct, frozen=True):
    """Devices of one kind: how many, what one is called, what is written beside them."""

    name: str
    count: int
    singular: str
    label: str
    detail: str
    names: tuple[str, ...] = ()

    @property
    def numbers(self) -> list[int]:
        """Devices that are drawn, counted from 1: the first ones and the last."""
        if self.count <= SHOWN:
            return list(range(1, self.count + 1))
        return [*range(1, SHOWN), self.count]

    @property
    def centres(self) -> list[float]:
        """Middle of each box."""
        step, shown = (WIDTH - LABEL_WIDTH - MARGIN) / SHOWN, len(self.numbers)
        start = (SHOWN - shown) / 2
        return [LABEL_WIDTH + step * (start + slot + 0.5) for slot in range(shown)]


def fabric_drawing(
    fabric: Fabric,
    network: FabricGraph | None = None,
    kinds: Mapping[str, str] | None = None,
    legend: Sequence[Markup] = (),
) -> Markup:
    r"""Draw a fabric, from its GPUs at the bottom to its top tier.

    Parameters
    ----------
    fabric
        The sized fabric.
    network
        Its graph, whose devices give the names in the boxes.
    kinds
        Class of the lines of a link group, such as that of a colour.
    legend
        What the colours mean, drawn from the top left corner on, 54 px high.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=32_768, radix=128, hb_size=256).sizing
    >>> drawn = fabric_drawing(build_fabric(FABRICS.load("rail-only"), sizing))
    >>> "256 \u00d7 rail switch" in drawn, drawn.count("<rect")
    (True, 8)
    """
    named = {} if network is None else _names(fabric, network)
    tiers = (_tier(fabric, tier, named.get(tier.name, ())) for tier in reversed(fabric.tiers))
    rows = [*tiers, _gpus(fabric)]
    within = [group for group in fabric.links if _ends(fabric, group) is None]
    loops = [group for group in within if group.role != "board"]
    # Links among devices of one row are drawn as curves above it.
    top = MARGIN + max(LOOP_LINE * len(loops), LOOP_ROOM if loops else 0.0)
    tops = {row.name: top + number * (BOX_HEIGHT + GAP) for number, row in enumerate(rows)}
    height = top + len(rows) * (BOX_HEIGHT + GAP) - GAP + MARGIN
    shapes: list[Markup] = []
    for group in fabric.links:
        shapes += _joined(fabric, group, rows, tops, _kind(group, kinds))
    for number, group in enumerate(loops):
        y = top - LOOP_LINE * (len(loops) - number) + 8
        shapes.append(text(MARGIN, y, f"{group.title}: {_link_words(fabric, group)}", "sub"))
    if loops:
        drawn = [_kind(group, kinds) for group in loops]
        shapes += _loops(loops, drawn, rows[0].centres, top)
    for row in rows:
        shapes += _boxes(row, tops[row.name])
    if legend:
        shapes += [shifted(legend, height)]
        height += LEGEND
    title = f"{short(fabric.name)}: " + ", ".join(row.label for row in rows)
    return drawing(WIDTH, height, title, shapes)


def _kind(group: LinkGroup, kinds: Mapping[str, str] | None) -> str:
    """Class of the lines of a link group."""
    return f"wire {group.medium} {(kinds or {}).get(group.name, '')}".rstrip()


def _names(fabric: Fabric, network: FabricGraph) -> dict[str, tuple[str, ...]]:
    """Names of all switches by tier: they follow each other in the graph, tier by tier."""
    switches = np.flatnonzero(network.node_kind == SWITCH)
    tiers = network.node_tier[switches]
    counts = [int((tiers == tier_number).sum()) for tier_number in np.unique(tiers).tolist()]
    if counts != [tier.switches for tier in fabric.tiers]:
        return {}  # planes and groups number their tiers otherwise
    names = {}
    for number, tier in zip(np.unique(tiers).tolist(), fabric.tiers, strict=True):
        nodes = switches[tiers == number].tolist()
        kept = nodes if len(nodes) <= SHOWN else [*nodes[: SHOWN - 1], nodes[-1]]
        names[tier.name] = tuple(network.node_name(node) for node in kept)
    return names


def _tier(fabric: Fabric, tier: SwitchTier, names: tuple[str, ...]) -> _Row:
    word = "rail" if fabric.network == "rail-only" and len(fabric.tiers) == 1 else tier.name
    kind = word if word == "switch" else f"{word} switch"
    if word == "group":
        # A dragonfly has one tier, whose switches come in groups.
        word, kind = "switch", "switch in groups"
    spare = tier.switches * fabric.sizing.radix - tier.ports_used
    ports = _port_words(fabric, tier) or f"{fabric.sizing.radix} ports each"
    return _Row(
        name=tier.name,
        count=tier.switches,
        singular=word,
        label=f"{tier.switches:,} {TIMES} {kind}",
        detail=f"{ports}, {spare:,} free" if spare else ports,
        names=names,
    )


def _port_words(fabric: Fabric, tier: SwitchTier) -> str:
    """Ports of a switch down and up, and the ratio of the two; empty where links have no tiers."""
    down = up = 0
    for group in fabric.links:
        ends = _ends(fabric, group)
        if ends is None:
            return ""
        down += group.links if ends[1] == tier.name else 0
        up += group.links if ends[0] == tier.name else 0
    words = f"{down / tier.switches:.4g} down"
    return f"{words}, {up / tier.switches:.4g} up ({down / up:.3g}:1)" if up else words


def _gpus(fabric: Fabric) -> _Row:
    """Row of HB domains, or of GPUs where a domain holds one."""
    sizing = fabric.sizing
    joined = _joined_by(fabric.levels[1:]) if fabric.network == "direct" else ""
    boards = sum(group.links for group in fabric.links if group.role == "board")
    if boards:
        joined = f"{boards:,} links on boards"
    if sizing.hb_size == 1:
        detail = joined or "no HB domains"
        return _Row("", sizing.gpus, "GPU", f"{sizing.gpus:,} {TIMES} GPU", detail)
    return _Row(
        name="",
        count=sizing.domains,
        singular="domain",
        label=f"{sizing.domains:,} {TIMES} HB domain",
        detail=joined or f"{sizing.hb_size:,} GPUs each, {sizing.gpus:,} in all",
    )


def _joined_by(axes: Sequence[Level]) -> str:
    """What direct links make of domains or GPUs: a torus, or a product of rings and meshes."""
    if any(axis.kind == "mesh" for axis in axes):
        return f" {TIMES} ".join(f"{axis.kind} of {axis.size:,}" for axis in axes)
    kind = "twisted torus" if any(axis.interlaced for axis in axes) else "torus"
    return f"{kind} of " + f" {TIMES} ".join(f"{axis.size}" for axis in axes) if axes else ""


def _ends(fabric: Fabric, group: LinkGroup) -> tuple[str, str] | None:
    """Rows that a link group joins, the lower one first; None for links within one row."""
    low, high = group.tiers
    if group.role not in ("host", "up"):
        return None
    names = ("", *(tier.name for tier in fabric.tiers))
    return names[low], names[high]


def _joined(
    fabric: Fabric, group: LinkGroup, rows: Sequence[_Row], tops: dict[str, float], kind: str
) -> Iterator[Markup]:
    """Lines between two rows, and their label."""
    ends = _ends(fabric, group)
    if ends is None:
        return
    lower, upper = (next(row for row in rows if row.name == end) for end in ends)
    start, end = tops[lower.name], tops[upper.name] + BOX_HEIGHT
    for x1 in lower.centres:
        for x2 in upper.centres:
            yield line(x1, start, x2, end, kind)
    # Beside the upper row's own gap, so that labels of several groups stand apart.
    middle = end + GAP / 2
    yield text(MARGIN, middle - 4, _link_words(fabric, group), "sub")
    counts = {tier.name: tier.switches for tier in fabric.tiers}
    words = f"{group.links / counts[upper.name]:.4g} to each {upper.singular}"
    if lower.name:
        words = f"{group.links / counts[lower.name]:.4g} from each {lower.singular}, {words}"
    yield text(MARGIN, middle + 12, words, "sub")


def _loops(
    groups: Sequence[LinkGroup], kinds: Sequence[str], centres: Sequence[float], y: float
) -> Iterator[Markup]:
    """Curves among the devices of a row: neighbours; then a ring's way back, or farther ones."""
    for x1, x2 in pairwise(centres):
        yield arc(x1 + 8, x2 - 8, y, 11, kinds[0])
    if groups[0].role == "ring":
        yield arc(centres[0], centres[-1], y, 34, kinds[-1])
    elif len(groups) > 1 or groups[0].role == "mesh":
        for x1, x2 in zip(centres, centres[2:], strict=False):
            yield arc(x1, x2, y, 28, kinds[-1])


def _link_words(fabric: Fabric, group: LinkGroup) -> str:
    return f"{group.links:,} links, {fabric.sizing.speed_gbps:.4g}G {group.medium}"


def _boxes(row: _Row, y: float) -> Iterator[Markup]:
    """Boxes of a row, its label, and dots where devices are left out."""
    yield text(MARGIN, y + 17, row.label, "label")
    yield text(MARGIN, y + 34, row.detail, "sub")
    kind = "node switch" if row.name else "node gpus"
    names = row.names or [f"{short(row.singular, 8)} {number:,}" for number in row.numbers]
    for name, centre in zip(names, row.centres, strict=True):
        yield box(centre - BOX_WIDTH / 2, y, BOX_WIDTH, BOX_HEIGHT, kind)
        shown = short(name, NAME_LENGTH)
        yield text(centre, y + BOX_HEIGHT / 2 + 4.5, shown, "name", anchor="middle")
    if row.count > SHOWN:
        middle = (row.centres[-2] + row.centres[-1]) / 2
        yield text(middle, y + BOX_HEIGHT / 2 + 5, "…", "label", anchor="middle")

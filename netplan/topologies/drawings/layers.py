"""A fabric as a drawing: one row a tier, a few boxes a row, whatever the number of switches.

A row shows the first devices of its kind and the last one; its label says how many there are, how
many ports of each lead down and up, and how far that is oversubscribed. Lines show which kinds are
joined and through what, with the cables of each end beside them; they do not count the cables.
Of networks that nothing joins, such as those of rails, the first and the last one are drawn, with
no line between them. Where the graph is at hand, devices have the names of the cable plan, rails
included.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from markupsafe import Markup
from msgspec import Struct

from netplan.levels import Level
from netplan.reports.escape import TIMES, short
from netplan.reports.svg import arc, box, drawing, line, shifted, text_line
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
    """Devices of one kind: how many, what one is called, what is written beside them.

    Those of several networks apart are drawn as the first of the first and the last of the last.
    """

    name: str
    count: int
    singular: str
    label: str
    detail: str
    names: tuple[str, ...] = ()
    networks: int = 1

    @property
    def numbers(self) -> list[int]:
        """Devices that are drawn, counted from 1: the first ones and the last."""
        return [1 + place for place in _kept(self.count, self.networks)]

    @property
    def centres(self) -> list[float]:
        """Middle of each box."""
        step, shown = (WIDTH - LABEL_WIDTH - MARGIN) / SHOWN, len(self.numbers)
        start = (SHOWN - shown) / 2
        slots = [start + slot for slot in range(shown)]
        if self.networks > 1 and shown < SHOWN:  # each above or below its network's own
            slots = [SHOWN / 4 - 0.5, 3 * SHOWN / 4 - 0.5]
        return [LABEL_WIDTH + step * (slot + 0.5) for slot in slots]


def _kept(count: int, networks: int = 1) -> list[int]:
    """Places of the devices that are drawn, from 0 on.

    Examples
    --------
    >>> _kept(2), _kept(36), _kept(36, 6), _kept(8, 8)
    ([0, 1], [0, 1, 2, 35], [0, 1, 34, 35], [0, 7])
    """
    half = SHOWN // 2
    if networks > 1:
        drawn = max(1, min(half, count // networks))
        return [*range(drawn), *range(count - drawn, count)]
    return list(range(count)) if count <= SHOWN else [*range(SHOWN - 1), count - 1]


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
        shapes.append(text_line(MARGIN, y, f"{group.title}: {_link_words(fabric, group)}", "sub"))
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
        kept = _kept(len(nodes), _apart(fabric))
        names[tier.name] = tuple(network.node_name(nodes[place]) for place in kept)
    return names


def _apart(fabric: Fabric) -> int:
    """Networks that are drawn apart [1]: those of several tiers, which have lines of their own."""
    return fabric.networks if len(fabric.tiers) > 1 else 1


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
        networks=_apart(fabric),
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
    words = f"{_switch_ports(down, tier.switches)} down"
    return f"{words}, {_switch_ports(up, tier.switches)} up ({down / up:.2g}:1)" if up else words


def _switch_ports(ports: int, switches: int) -> str:
    """Ports of one of several switches: there is no half a port.

    Examples
    --------
    ('32', '~63')
    ('32', '~63')
    """
    share = ports / switches
    return f"{share:,.0f}" if ports % switches == 0 else f"~{share:,.0f}"


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
    kind = "twisted torus" if any(axis.interleaved for axis in axes) else "torus"
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
    between = LABEL_WIDTH + (WIDTH - LABEL_WIDTH - MARGIN) / 2
    for x1 in lower.centres:
        for x2 in upper.centres:
            if lower.networks == 1 or (x1 < between) == (x2 < between):
                yield line(x1, start, x2, end, kind)
    # Beside the upper row's own gap, so that labels of several groups stand apart.
    middle = end + GAP / 2
    if lower.networks > 1:
        yield text_line(
            between, middle + 4, f"{lower.networks:,} networks apart", "sub", anchor="middle"
        )
    yield text_line(MARGIN, middle - 4, _link_words(fabric, group), "sub")
    counts = {tier.name: tier.switches for tier in fabric.tiers}
    words = f"{_switch_ports(group.links, counts[upper.name])} to each {upper.singular}"
    if lower.name:
        words = (
            f"{_switch_ports(group.links, counts[lower.name])} from each {lower.singular}, {words}"
        )
    yield text_line(MARGIN, middle + 12, words, "sub")


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
    return f"{group.links:,} links, {fabric.sizing.speed_gbps:.4g}G {group.media}"


def _boxes(row: _Row, y: float) -> Iterator[Markup]:
    """Boxes of a row, its label, and dots where devices are left out."""
    yield text_line(MARGIN, y + 17, row.label, "label")
    yield text_line(MARGIN, y + 34, row.detail, "sub")
    kind = "node switch" if row.name else "node gpus"
    names = row.names or [f"{short(row.singular, 8)} {number:,}" for number in row.numbers]
    for name, centre in zip(names, row.centres, strict=True):
        yield box(centre - BOX_WIDTH / 2, y, BOX_WIDTH, BOX_HEIGHT, kind)
        shown = short(name, NAME_LENGTH)
        yield text_line(centre, y + BOX_HEIGHT / 2 + 4.5, shown, "name", anchor="middle")
    if row.count > len(row.centres):
        places = row.centres if row.networks == 1 else row.centres[: 1 + len(row.centres) // 2]
        middle = (places[-2] + places[-1]) / 2
        yield text_line(middle, y + BOX_HEIGHT / 2 + 5, "…", "label", anchor="middle")

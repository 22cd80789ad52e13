"""Edge lists: a CSV file with one line a link.

Columns, of which ``source``, ``target`` and ``gbps`` are needed when reading:

=================================  ==========================================================
``source``, ``target``             names of the two nodes
``source_kind``, ``target_kind``   ``gpu``, ``hb_switch``, ``switch`` or ``manager``; without
                                   the column, a name that begins with ``gpu`` is a GPU, one with
                                   ``nvswitch`` in it an HB switch, and any other a switch
``source_port``, ``target_port``   port numbers, counted from 0; else given in the order of links
``gbps``                           rate of the link, one direction [Gb/s]
``length``                         ``inside``, ``rack``, ``row`` or ``hall``
``group``                          name of the link group
=================================  ==========================================================
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from netplan.files import read_lines
from netplan.topologies.formats.draft import Draft, DraftLink, node_kind, number_draft
from netplan.topologies.graph import GPU, HB_SWITCH, NODE_KINDS, SWITCH, FabricGraph
from netplan.units import BITS_PER_BYTE, GIGA, bytes_per_s

COLUMNS = (
    *("source", "source_kind", "source_port", "target", "target_kind", "target_port"),
    *("gbps", "length", "group"),
)
NEEDED = ("source", "target", "gbps")


LinkRow = tuple[str, str, int, str, str, int, float, str, str]
"""A link as ``COLUMNS`` say it."""


def edge_rows(graph: FabricGraph) -> Iterator[LinkRow]:
    """Every link in the columns of an edge list, rates in Gb/s."""
    names = graph.node_names()
    kinds = [NODE_KINDS[kind] for kind in graph.node_kind.tolist()]
    for a, a_port, b, b_port, rate, length, group in graph.link_rows():
        at_gbps = rate * BITS_PER_BYTE / GIGA
        yield names[a], kinds[a], a_port, names[b], kinds[b], b_port, at_gbps, length, group


def edge_list_lines(graph: FabricGraph) -> Iterator[str]:
    """Write a graph as an edge list, line by line."""
    yield ",".join(COLUMNS) + "\n"
    for a, a_kind, a_port, b, b_kind, b_port, at_gbps, length, group in edge_rows(graph):
        ends = f"{_quoted(a)},{a_kind},{a_port},{_quoted(b)},{b_kind},{b_port}"
        yield f"{ends},{at_gbps!r},{length},{_quoted(group)}\n"


def read_edge_list(
    path: Path, *, hb_size: int | None = None, otherwise: int | None = None
) -> FabricGraph:
    """Read an edge list, in HB domains of ``hb_size`` GPUs, or of ``otherwise`` as far as fits."""
    draft = Draft(path)
    reader = csv.DictReader(read_lines(path), strict=True)
    try:
        header = reader.fieldnames or ()
        for column in NEEDED:
            if column not in header:
                known = ",".join(COLUMNS)
                raise draft.error(1, f"the column {column} is missing: the header is {known}")
        for column in header:
            if column not in COLUMNS:
                known = ", ".join(COLUMNS)
                raise draft.error(1, f"unknown column {column!r:.40}: known are {known}")
        for row in reader:
            line = reader.line_num
            if None in row or None in row.values():
                raise draft.error(line, f"expected {len(reader.fieldnames or ())} fields")
            _add(draft, row, line)
    except csv.Error as error:
        raise draft.error(reader.reader.line_num, f"not CSV: {error}") from None
    return number_draft(draft, path.stem, hb_size, otherwise=otherwise)


def _quoted(text: str) -> str:
    """CSV field, in quotes if it holds a comma (names hold no quotes)."""
    return f'"{text}"' if "," in text else text


def _add(draft: Draft, row: dict[str, str], line: int) -> None:
    """Add one line's nodes, where they are new, and its link."""
    for side in ("source", "target"):
        name, text = row[side], row.get(f"{side}_kind")
        kind = node_kind(draft, line, text) if text else kind_of_name(name)
        known = draft.nodes.get(name)
        if known is None:
            draft.add_node(name, kind, line)
        elif text and known.kind != kind:
            was = NODE_KINDS[known.kind]
            raise draft.error(line, f"{name} is a {text} here and a {was} on line {known.line}")
    rate = bytes_per_s(_number(draft, line, row["gbps"]))
    port, peer_port = (_port(draft, line, row.get(f"{side}_port")) for side in ("source", "target"))
    ends = row["source"], row["target"]
    length, group = row.get("length") or None, row.get("group") or None
    draft.add_link(DraftLink(*ends, rate, line, port, peer_port, length, group))


def kind_of_name(name: str) -> int:
    """Kind of a node by its name, where nobody gives it: of a GPU, HB switch or switch."""
    if name.startswith("gpu"):
        return GPU
    return HB_SWITCH if "nvswitch" in name else SWITCH


def _number(draft: Draft, line: int, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise draft.error(line, f"gbps: got {text!r:.40}, give a number") from None


def _port(draft: Draft, line: int, text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 5:  # noqa: PLR2004 - 65,535
        raise draft.error(line, f"port: got {text!r:.40}, give a whole number from 0 to 65,535")
    return int(text)

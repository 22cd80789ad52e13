"""GraphML, which networkx, Gephi and yEd read: every parallel link is an edge of its own.

Node attributes: ``kind`` (needed when reading) and ``tier``. Edge attributes: ``bytes_per_s`` or
``gbps`` (one is needed), ``source_port``, ``target_port``, ``length``, ``group``. The graph's own:
``hb_size``. Attributes with other names are left unread.

XML from strangers: a document type is refused, since entities can expand to gigabytes or read
other files, and so is a file above 256 MiB.
"""

from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from netplan.files import read_bounded
from netplan.topologies.formats.draft import Draft, DraftLink, node_kind, number_draft, pair_links
from netplan.topologies.graph import NODE_KINDS, FabricGraph
from netplan.units import bytes_per_s

NODE_KEYS = {"kind": "string", "tier": "int"}
EDGE_KEYS = {
    "source_port": "int",
    "target_port": "int",
    "bytes_per_s": "double",
    "length": "string",
    "group": "string",
}
NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
MAX_DEPTH = 16


def graphml_lines(graph: FabricGraph) -> Iterator[str]:
    """Write a graph as GraphML, line by line."""
    yield '<?xml version="1.0" encoding="utf-8"?>\n'
    yield f'<graphml xmlns="{NAMESPACE}">\n'
    for place, keys in (("graph", {"hb_size": "int"}), ("node", NODE_KEYS), ("edge", EDGE_KEYS)):
        for name, kind in keys.items():
            yield f'<key id="{name}" for="{place}" attr.name="{name}" attr.type="{kind}"/>\n'
    yield (
        f'<graph id={quoteattr(graph.name)} edgedefault="undirected">'
        f"{_data('hb_size', graph.hb_size)}\n"
    )
    names = [quoteattr(name) for name in graph.names]
    for name, kind, tier in zip(
        names, graph.node_kind.tolist(), graph.node_tier.tolist(), strict=True
    ):
        yield f"<node id={name}>{_data('kind', NODE_KINDS[kind])}{_data('tier', tier)}</node>\n"
    for link, (a, a_port, b, b_port, *rest) in enumerate(graph.link_rows()):
        values = zip(EDGE_KEYS, (a_port, b_port, *rest), strict=True)
        data = "".join(_data(key, value) for key, value in values)
        yield f'<edge id="{link}" source={names[a]} target={names[b]}>{data}</edge>\n'
    yield "</graph>\n</graphml>\n"


def _data(key: str, value: object) -> str:
    return f'<data key="{key}">{escape(str(value))}</data>'


def read_graphml(
    path: Path, *, hb_size: int | None = None, otherwise: int | None = None
) -> FabricGraph:
    """Read a graph from GraphML, every link of which carries both ways.

    Two edges of a directed file that lead back and forth at one rate are a link.

    Parameters
    ----------
    path
        The file.
    hb_size, otherwise
        GPUs per HB domain, whatever the file says, or where it says nothing; else 1.
    """
    reader = _GraphmlReader(path)
    if reader.directed:
        pair_links(reader.draft)
    return reader.graph(hb_size, otherwise)


def read_directed_graphml(path: Path, *, hb_size: int | None = None) -> tuple[FabricGraph, bool]:
    """Read a graph from GraphML, and whether its edges lead from source to target only."""
    reader = _GraphmlReader(path)
    return reader.graph(hb_size), reader.directed


class _GraphmlReader:
    """One pass over the file, an element at a time."""

    def __init__(self, path: Path) -> None:
        self.draft = Draft(path)
        self.name = ""
        self.directed = False
        self.graph_data: dict[str, str] = {}
        self._keys: dict[str, str] = {}  # id of a key -> name of its attribute
        self._open: list[tuple[str, dict[str, str], int]] = []
        self._data: dict[str, str] = {}  # of the node or edge being read
        self._text: list[str] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append

        content = read_bounded(path)
        try:
            self._parser.Parse(content, True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise self.draft.error(error.lineno, f"not GraphML: {reason}") from None
        except (LookupError, ValueError) as error:  # an encoding that nobody knows, or is no text's
            raise self.draft.error(1, f"not GraphML: {error}: save it as UTF-8") from None

    def graph(self, hb_size: int | None, otherwise: int | None = None) -> FabricGraph:
        """The graph of what was read, in HB domains of a size, or of the file's own, or 1."""
        stated = self.graph_data.get("hb_size")
        if hb_size is None and stated is not None:
            hb_size = _read_integer(self.draft, 1, "hb_size", stated)
        name = self.name or self.draft.path.stem
        return number_draft(self.draft, name, hb_size, otherwise=otherwise)

    @property
    def _line(self) -> int:
        return self._parser.CurrentLineNumber

    def _refuse_doctype(self, *_: object) -> None:
        raise self.draft.error(self._line, "a document type (<!DOCTYPE) is not allowed")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        if len(self._open) >= MAX_DEPTH:
            raise self.draft.error(self._line, "nested too deeply: no subgraphs")
        if not self._open and tag != "graphml":
            raise self.draft.error(self._line, f"not GraphML: the file begins with <{tag[:40]}>")
        self._open.append((tag, attributes, self._line))
        self._text.clear()
        if tag in ("node", "edge"):
            self._data = {}
        elif tag == "key":
            self._keys[attributes.get("id", "")] = attributes.get("attr.name", "")
        elif tag == "graph":
            self.name = attributes.get("id", "")
            self.directed = attributes.get("edgedefault") == "directed"

    def _end(self, tag: str) -> None:
        tag, attributes, line = self._open.pop()
        if tag == "data":
            parent = self._open[-1][0] if self._open else ""
            target = self.graph_data if parent == "graph" else self._data
            key = attributes.get("key", "")
            target[self._keys.get(key, key)] = "".join(self._text).strip()
        elif tag == "node":
            self._add_node(attributes, line)
        elif tag == "edge":
            self._add_edge(attributes, line)
        self._text.clear()

    def _add_node(self, attributes: dict[str, str], line: int) -> None:
        name = attributes.get("id", "")
        if "kind" not in self._data:
            kinds = ", ".join(NODE_KINDS)
            raise self.draft.error(line, f"node {name[:40]!r} has no attribute kind: give {kinds}")
        kind = node_kind(self.draft, line, self._data["kind"])
        tier = self._data.get("tier")
        height = None if tier is None else _read_integer(self.draft, line, "tier", tier, lowest=-1)
        self.draft.add_node(name, kind, line, height)

    def _add_edge(self, attributes: dict[str, str], line: int) -> None:
        data = self._data
        port, peer_port = (
            _read_integer(self.draft, line, key, data[key], highest=65_535) if key in data else None
            for key in ("source_port", "target_port")
        )
        rate = 0.0
        try:
            if "bytes_per_s" in data:
                rate = float(data["bytes_per_s"])
            elif "gbps" in data:
                rate = bytes_per_s(float(data["gbps"]))
        except ValueError:
            raise self.draft.error(line, "the rate of an edge is not a number") from None
        ends = attributes.get("source", ""), attributes.get("target", "")
        length, group = data.get("length"), data.get("group")
        self.draft.add_link(DraftLink(*ends, rate, line, port, peer_port, length, group))


def _read_integer(
    draft: Draft, line: int, key: str, text: str, *, lowest: int = 0, highest: int = 100
) -> int:
    """Whole number of an attribute within its limits."""
    try:
        value = int(text)
    except ValueError:
        raise draft.error(line, f"{key}: got {text!r:.40}, give a whole number") from None
    if not lowest <= value <= highest and key != "hb_size":
        raise draft.error(line, f"{key}: got {value}, give {lowest} to {highest:,}")
    return value

"""A graph while it is read from a user's file: nodes and links by name, each with its line."""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from netplan.errors import CatalogError
from netplan.topologies.graph import LENGTH_CLASSES, NODE_KINDS
from netplan.units import gbps

MAX_NODES, MAX_DRAFT_LINKS, MAX_PORT = 4_000_000, 16_000_000, 65_535
NAME = re.compile(r"[0-9A-Za-z_][^\s\"<>&\\\x00-\x1f\x7f-\x9f]{0,199}")


@dataclass(slots=True)
class DraftNode:
    """A node as read; ``tier`` is None where the file does not say."""

    kind: int
    line: int
    tier: int | None = None


@dataclass(frozen=True, slots=True)
class DraftLink:
    """A link as read; ports, length and group are None where the file does not say."""

    source: str
    target: str
    bytes_per_s: float
    line: int
    source_port: int | None = None
    target_port: int | None = None
    length: str | None = None
    group: str | None = None


@dataclass(slots=True)
class Draft:
    """Nodes and links of one file.

    Parameters
    ----------
    path
        The file, for errors.
    nodes, links
        What has been read.
    """

    path: Path
    nodes: dict[str, DraftNode] = field(default_factory=dict)
    links: list[DraftLink] = field(default_factory=list)

    def error(self, line: int, message: str) -> CatalogError:
        """Build an error that begins with the file and the line."""
        return CatalogError(f"{self.path}:{line}: {message}")

    def add_node(self, name: str, kind: int, line: int, tier: int | None = None) -> None:
        """Add a node, or refuse a name that is unfit or taken."""
        if not NAME.fullmatch(name):
            raise self.error(
                line,
                f"node name {name[:40]!r} cannot be used: begin with a letter or digit, no spaces,"
                " quotes or angle brackets, at most 200 characters",
            )
        if name in self.nodes:
            raise self.error(line, f"node {name} stands on line {self.nodes[name].line} already")
        if len(self.nodes) >= MAX_NODES:
            raise self.error(line, f"more than {MAX_NODES:,} nodes")
        self.nodes[name] = DraftNode(kind, line, tier)

    def add_link(self, link: DraftLink) -> None:
        """Add a link, or refuse one that no hardware can be."""
        if link.source == link.target:
            raise self.error(link.line, f"a link joins {link.source} to itself")
        if not (link.bytes_per_s > 0 and math.isfinite(link.bytes_per_s)):
            raise self.error(
                link.line,
                f"link {link.source} to {link.target} has no capacity: got"
                f" {gbps(link.bytes_per_s):g} Gb/s, give a rate above 0",
            )
        for port in (link.source_port, link.target_port):
            if port is not None and not 0 <= port <= MAX_PORT:
                raise self.error(link.line, f"port {port} is out of range: 0 to {MAX_PORT:,}")
        if link.length is not None and link.length not in LENGTH_CLASSES:
            raise self.error(
                link.line, f"unknown length {link.length!r}: use {', '.join(LENGTH_CLASSES)}"
            )
        if len(self.links) >= MAX_DRAFT_LINKS:
            raise self.error(link.line, f"more than {MAX_DRAFT_LINKS:,} links")
        self.links.append(link)


def node_kind(draft: Draft, line: int, text: str) -> int:
    """Code of a node kind given by name, or an error that lists the kinds."""
    if text not in NODE_KINDS:
        raise draft.error(line, f"unknown node kind {text!r:.40}: use {', '.join(NODE_KINDS)}")
    return NODE_KINDS.index(text)

"""A graph while it is read from a user's file: nodes and links by name, each with its line.

From the draft comes the graph, after every check that needs the whole. Nodes are numbered by kind
(GPUs, HB switches, switches by tier, managers), then by name, with digits compared as numbers:
``gpu-2`` before ``gpu-10``. Links keep the order of the file. A tier that the file does not give is
the distance from the GPUs: 1 for a switch with a GPU, and so on.
"""

import re
from functools import cache
from itertools import count, filterfalse
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from netplan.arrays import Codes, Indices
from netplan.errors import CatalogError
from netplan.records import LARGEST, replace
from netplan.topologies import graph
from netplan.topologies.cabling.device_names import natural
from netplan.topologies.fabric import tier_name
from netplan.topologies.own.flat import with_joined_group
from netplan.units import gbps

MAX_NODES, MAX_DRAFT_LINKS, MAX_PORT = 4_000_000, 16_000_000, 65_535

NAME = re.compile(r"[0-9A-Za-z_][^\s\"<>&\\\x00-\x1f\x7f-\x9f]{0,199}")


class DraftNode(Struct):
    """A node as read; ``tier`` is None where the file does not say."""

    kind: int
    line: int
    tier: int | None = None


class DraftLink(Struct, frozen=True):
    """A link as read; ports, length and group are None where the file does not say."""

    source: str
    target: str
    bytes_per_s: float
    line: int
    source_port: int | None = None
    target_port: int | None = None
    length: str | None = None
    group: str | None = None


class Draft(Struct):
    """Nodes and links of one file, whose path is for errors."""

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
        if not 1 / LARGEST <= link.bytes_per_s <= LARGEST:
            raise self.error(
                link.line,
                f"link {link.source} to {link.target} has no capacity: got"
                f" {gbps(link.bytes_per_s):g} Gb/s, give a rate above 0, at most"
                f" {gbps(LARGEST):g} Gb/s",
            )
        for port in (link.source_port, link.target_port):
            if port is not None and not 0 <= port <= MAX_PORT:
                raise self.error(link.line, f"port {port} is out of range: 0 to {MAX_PORT:,}")
        if link.length is not None and link.length not in graph.LENGTH_CLASSES:
            raise self.error(
                link.line, f"unknown length {link.length!r}: use {', '.join(graph.LENGTH_CLASSES)}"
            )
        if len(self.links) >= MAX_DRAFT_LINKS:
            raise self.error(link.line, f"more than {MAX_DRAFT_LINKS:,} links")
        self.links.append(link)


def node_kind(draft: Draft, line: int, text: str) -> int:
    """Code of a node kind given by name, or an error that lists the kinds."""
    if text not in graph.NODE_KINDS:
        raise draft.error(
            line, f"unknown node kind {text!r:.40}: use {', '.join(graph.NODE_KINDS)}"
        )
    return graph.NODE_KINDS.index(text)


UNKNOWN_TIER = 127
GROUP_LENGTHS = {"hb": "inside", "host": "row"}  # where the file does not say; else hall


def pair_links(draft: Draft) -> None:
    """Make one link of two that lead back and forth at one rate; refuse those that lead one way.

    A cable carries both ways.
    """
    waiting: dict[tuple[str, str, float], list[int]] = {}
    links: list[DraftLink] = []
    for link in draft.links:
        back = waiting.get((link.target, link.source, link.bytes_per_s))
        if back:
            place = back.pop()
            first = links[place]
            links[place] = replace(
                first,
                source_port=_either(first.source_port, link.target_port),
                target_port=_either(first.target_port, link.source_port),
            )
            continue
        waiting.setdefault((link.source, link.target, link.bytes_per_s), []).append(len(links))
        links.append(link)
    for half in (links[place] for places in waiting.values() for place in places):
        raise draft.error(
            half.line,
            f"a link leads from {half.source} to {half.target} and none back at"
            f" {gbps(half.bytes_per_s):g} Gb/s: a cable carries both ways, so give both, or"
            ' edgedefault="undirected"',
        )
    draft.links = links


def _either(first: int | None, second: int | None) -> int | None:
    return second if first is None else first


def number_draft(
    draft: Draft, name: str, hb_size: int | None = None, *, otherwise: int | None = None
) -> graph.FabricGraph:
    """Check a draft as a whole and turn it into a graph.

    HB domains hold ``hb_size`` GPUs in the order of their names; where nobody says how many, one
    each in a graph of GPUs alone, else as many as ``otherwise`` and the GPUs allow. That there are
    no GPUs or links, a link ends on an unknown node, a port is used twice, or the graph is not
    connected, is a ``CatalogError``.
    """
    names = sorted(draft.nodes, key=natural)
    kind = np.array([draft.nodes[node].kind for node in names], np.int8)
    gpus = int(np.count_nonzero(kind == graph.GPU))
    if not gpus or not draft.links:
        raise draft.error(1, f"{gpus} GPUs and {len(draft.links)} links are no fabric")
    if hb_size is not None and not 1 <= hb_size <= gpus:
        raise draft.error(1, f"HB domains of {hb_size} GPUs: give 1 to {gpus:,}")
    ends = _ends(draft, names)
    if hb_size is None:
        alone = gpus == len(names) and not graph.connected_parts(gpus, *ends).any()
        hb_size = 1 if alone else min(otherwise or 1, gpus)
    tier = _tiers(draft, names, kind, ends)
    order = np.lexsort((tier, kind))  # stable: names stay in order within a tier
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    ends = source, target = number[ends[0]], number[ends[1]]
    names, kind, tier = [names[i] for i in order.tolist()], kind[order], tier[order]
    _check_connected(draft, names, ends, (gpus, hb_size))
    columns = [values[end].tolist() for values in (kind, tier) for end in ends]
    kinds = [
        link_type(link.group, frozenset((kind_a, kind_b)), min(tier_a, tier_b), max(tier_a, tier_b))
        for link, kind_a, kind_b, tier_a, tier_b in zip(draft.links, *columns, strict=True)
    ]
    groups: dict[str, graph.LinkType] = {}
    for of_link in kinds:
        groups.setdefault(of_link.name, of_link)
    codes = {name: code for code, name in enumerate(groups)}
    lengths = (
        link.length or GROUP_LENGTHS.get(of_link.name, "hall")
        for link, of_link in zip(draft.links, kinds, strict=True)
    )
    source_port, target_port = _ports(draft)
    made = graph.FabricGraph(
        name=name,
        gpus=gpus,
        hb_size=hb_size,
        node_kind=kind,
        node_tier=tier,
        names=tuple(names),
        source=source,
        target=target,
        source_port=source_port,
        target_port=target_port,
        bytes_per_s=np.array([link.bytes_per_s for link in draft.links]),
        length_class=np.array([graph.LENGTH_CLASSES.index(length) for length in lengths], np.int8),
        group=np.array([codes[of_link.name] for of_link in kinds], np.int8),
        groups=tuple(groups.values()),
    )
    return with_joined_group(made)


def _ends(draft: Draft, names: list[str]) -> tuple[Indices, Indices]:
    """Positions in ``names`` of both ends of every link."""
    position = {name: i for i, name in enumerate(names)}
    for link in draft.links:
        for name in (link.source, link.target):
            if name not in position:
                raise draft.error(link.line, f"unknown node {name[:80]}: the file does not list it")
    return (
        np.array([position[link.source] for link in draft.links], np.int32),
        np.array([position[link.target] for link in draft.links], np.int32),
    )


def _check_connected(
    draft: Draft, names: list[str], ends: tuple[Indices, Indices], domains: tuple[int, int]
) -> None:
    """Refuse a graph in several parts; GPUs of one HB domain count as joined."""
    gpus, hb_size = domains
    gpu = np.arange(gpus, dtype=np.int32)
    source = np.concatenate((ends[0], gpu))
    target = np.concatenate((ends[1], gpu - gpu % np.int32(hb_size)))
    label = graph.connected_parts(len(names), source, target)
    if label.any():
        apart = names[int(np.flatnonzero(label)[0])]
        raise draft.error(
            draft.nodes[apart].line,
            f"the graph is not connected: no path from {names[0]} to {apart}",
        )


def _tiers(draft: Draft, names: list[str], kind: Codes, ends: tuple[Indices, Indices]) -> Codes:
    """Tier of every node: as given, else its distance from the GPUs."""
    tier = np.full(len(names), UNKNOWN_TIER, np.int8)
    tier[(kind == graph.GPU) | (kind == graph.MANAGER) | (kind == graph.MEMORY)] = 0
    source, target = np.concatenate(ends), np.concatenate(ends[::-1])
    # Managers and HB switches lend no height to the switches beside them.
    upward = ((kind == graph.GPU) | (kind == graph.SWITCH))[source] & (kind == graph.SWITCH)[target]
    source, target = source[upward], target[upward]
    for height in range(1, UNKNOWN_TIER):
        above = target[(tier[source] == height - 1) & (tier[target] == UNKNOWN_TIER)]
        if not len(above):
            break
        tier[above] = height
    tier[kind == graph.HB_SWITCH] = -1
    for i, name in enumerate(names):
        given = draft.nodes[name].tier
        if given is not None:
            tier[i] = given
    return tier


def _ports(draft: Draft) -> tuple[Indices, Indices]:
    """Ports of both ends of every link; missing ones take the lowest that are free."""
    taken: dict[str, dict[int, int]] = {name: {} for name in draft.nodes}
    for link in draft.links:
        for name, port in ((link.source, link.source_port), (link.target, link.target_port)):
            if port is None:
                continue
            if port in taken[name]:
                first = taken[name][port]
                raise draft.error(
                    link.line, f"port {port} of {name} is in use by the link on line {first}"
                )
            taken[name][port] = link.line
    free = {name: filterfalse(ports.__contains__, count()) for name, ports in taken.items()}
    ports = [
        next(free[name]) if port is None else port
        for link in draft.links
        for name, port in ((link.source, link.source_port), (link.target, link.target_port))
    ]
    return np.array(ports[0::2], np.int32), np.array(ports[1::2], np.int32)


LABELS: dict[str, graph.Role] = {
    "hb": "hb",
    "memory": "memory",
    "host": "host",
    "leaf-spine": "up",
    "local": "local",
    "global": "global",
    "(between|inside) [a-z]+|dimension [0-9]+": "joined",
    "ring( .*)?": "ring",
    "mesh( .*)?": "mesh",
    "direct": "direct",
    "board [0-9]+": "board",
}
"""Labels of groups in files by which their links have a role, whatever they join."""


@cache
def link_type(label: str | None, ends: frozenset[int], low: int, high: int) -> graph.LinkType:
    """What a link of a file is, by the label of its group, where that says it, or by its ends.

    Parameters
    ----------
    label
        Group that the file gives, such as ``ring 1 copper``; None if it says nothing.
    ends
        Kinds of the two nodes, codes into ``NODE_KINDS``.
    low, high
        Their tiers, the lower one first [1].

    Returns
    -------
    LinkType
        Its label is that of the file, or one for what it joins.

    Examples
    --------
    >>> link_type("ring 2 copper", frozenset({graph.GPU}), 0, 0).axis
    2
    >>> link_type(None, frozenset({graph.GPU, graph.SWITCH}), 0, 1).name
    'host'
    """
    by_ends = _by_ends(ends, low, high)
    if label is None:
        return by_ends
    role = next(
        (role for words, role in LABELS.items() if re.fullmatch(words, label)), by_ends.role
    )
    number = re.search("[0-9]+", label)
    axis = int(number[0]) if number and role in ("ring", "mesh", "board", "joined") else 0
    return replace(by_ends, name=label, role=role, axis=axis)


def _by_ends(kinds: frozenset[int], low: int, high: int) -> graph.LinkType:
    if graph.HB_SWITCH in kinds:
        return graph.HB_LINKS
    if kinds == {graph.GPU}:
        return graph.LinkType("direct", "direct")
    if graph.MEMORY in kinds:
        return graph.MEMORY_LINKS
    if graph.GPU in kinds or graph.MANAGER in kinds:
        return graph.LinkType("host", "host", tiers=(low, high))
    return graph.LinkType(f"{tier_name(low)}-{tier_name(high)}", "up", tiers=(low, high))

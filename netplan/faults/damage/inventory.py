"""What a fabric is made of, as far as it can fail: parts by kind, counted, named and drawn.

============  ==================================================================================
gpu           a GPU
nic           a network port of a GPU; its failure takes the link
link          a cable of the network; also by link group: ``host``, ``leaf-spine``, …
hb-link       a link inside an HB domain
transceiver   an end of an optical link; its failure takes the link
switch        a network switch; also by tier: ``leaf``, ``spine``, ``core``, ``tier-4``, …
hb-switch     a switch inside an HB domain
manager       a management host
============  ==================================================================================

Besides these come risk groups: HB domains, rails, planes and the like, always; racks, feeds, trays
and a user's own groups where they are given. Names are those of cable plans and graphs:

=====================================  ====================================================
``gpu-5``, ``rail-0/leaf-3``           a node
``domain-7``, ``plane-1``, ``feed-A``  a risk group
``gpu-5:1``                            a network port of a GPU (its ports count from 1)
``rail-0/leaf-3:6``                    the transceiver in a port of a switch
``gpu-5:1--rail-5/leaf-0:1``           a link, as cable plans label it, from either end
``gpu-5--rail-0/leaf-3``               all links between two nodes
=====================================  ====================================================

Links may be named as any export writes them (below).

Names of links as exports and cable plans write them, brought into one form: ``end--end``.

===============  =================================================================================
cable plans      ``gpu-5:1--leaf-0:6``; by cage and half ``gpu-5:1--leaf-0:3/2``; of hosts
                 ``host-0:6--leaf-0:6``
edge list        ``gpu-5,gpu,1,leaf-0,switch,5,…``, a row
UFM              ``gpu-5,Host,1,leaf-0,Switch,6``, a row
DOT              ``"leaf-0":"port-5" -- "gpu-5":"port-1" […];``
GraphML          ``<edge … source="gpu-5" target="leaf-0"><data key="source_port">1</data>…``
topo             ``leaf-0:P6``, as ``P6`` of ``leaf-0``
ibnetdiscover    ``leaf-0[6]``
===============  =================================================================================

Graphs count all ports of a node from 0, those into its HB domain among them (``port-5``); cables
those of the network from 1.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Ints, distinct_values
from netplan.catalog import unknown_name
from netplan.errors import InputError
from netplan.faults.damage.damage import Damage, network_links, no_damage
from netplan.faults.damage.groups import (
    RiskGroups,
    domain_groups,
    rail_groups,
    switch_groups,
    transceiver_ends,
)
from netplan.topologies.assembly import StructuralNames
from netplan.topologies.cabling.device_names import slashless
from netplan.topologies.fabric import TIER_NAMES
from netplan.topologies.graph import GPU, NODE_KINDS, FabricGraph

BETWEEN = "--"
END = re.compile(
    r"(.+?)(?::|\s+(?=P)|(?=\[))"
    r"(?:\[(\d{1,6})\]|P?(\d{1,6})(?:/(\d{1,2}))?|port-(\d{1,6}))"
)
"""An end of a link: a device, then a port of any form."""

STATEMENT = re.compile(r"\s*(?:\[\s*\w+\s*=.*)?;?\s*")
"""What follows the ends in a DOT statement."""

EDGE = re.compile(
    r'\s*<edge\b[^>]*\bsource="([^"]+)"\s+target="([^"]+)".*?"source_port">(\d+)<.*?'
    r'"target_port">(\d+)<.*'
)
ROW = re.compile(
    r"([^,]+),(gpu|hb_switch|switch|manager|Host|Switch),([^,]+),([^,]+),\w+,([^,]+)(?:,.*)?"
)


def plain_link(text: str) -> str:
    """A link as some export writes it, as its two ends; anything else as it is.

    Examples
    --------
    >>> plain_link('"leaf-0":"port-5" -- "gpu-5":"port-1" [gbps=400, length="row"];')
    'leaf-0:port-5--gpu-5:port-1'
    >>> plain_link("gpu-5,gpu,1,leaf-0,switch,5,400.0,row,host")
    'gpu-5:port-1--leaf-0:port-5'
    >>> plain_link("gpu-5,Host,1,leaf-0,Switch,3/2"), plain_link("links=10")
    ('gpu-5:1--leaf-0:3/2', 'links=10')
    """
    edge, row = EDGE.fullmatch(text), ROW.fullmatch(text)
    if edge:
        source, target, *ports = edge.groups()
        return f"{source}:port-{ports[0]}{BETWEEN}{target}:port-{ports[1]}"
    if row:
        source, kind, port, target, other = row.groups()
        graph = "port-" if kind.islower() else ""
        return f"{source}:{graph}{port}{BETWEEN}{target}:{graph}{other}"
    if f" {BETWEEN} " not in text:
        return text
    ends = re.sub(STATEMENT.pattern + "$", "", text).replace('"', "")
    return BETWEEN.join(end.strip() for end in ends.split(f" {BETWEEN} "))


def device_port(text: str, cage_links: int) -> tuple[str, int, bool] | None:
    """Device and port of an end, and whether the port counts as graphs do; None if it is none.

    Parameters
    ----------
    text
        The end.
    cage_links
        Links in a cage of a switch, for ports by cage and half [1].

    Examples
    --------
    >>> for text in ("leaf-0:6", "leaf-0:3/2", "leaf-0:P6", "leaf-0 P6", "leaf-0[6]"):
    ...     assert device_port(text, 2) == ("leaf-0", 6, False)
    >>> device_port("leaf-0:port-5", 2), device_port("leaf-0", 2)
    (('leaf-0', 5, True), None)
    """
    match = END.fullmatch(text)
    if not match:
        return None
    device, bracket, number, place, graph = match.groups()
    if graph:
        return device, int(graph), True
    port = int(bracket or number)
    if not place:
        return device, port, False
    if not 1 <= int(place) <= cage_links:
        return None
    return device, (port - 1) * cage_links + int(place), False


Space = Literal["node", "link", "end", "group"]
PLURALS = {"leaves": "leaf", "switches": "switch", "hb-switches": "hb-switch", "batches": "batch"}


class PartKind(Struct, frozen=True, eq=False):
    """All parts of one kind.

    Parameters
    ----------
    name
        ``leaf``, ``link``, ``rack``, …
    space
        What the numbers count: nodes, links, ends of links (2 l and 2 l + 1), or groups.
    numbers
        The parts, shape (parts,).
    groups
        The groups themselves, if they are groups.
    """

    name: str
    space: Space
    numbers: Ints
    groups: RiskGroups | None = None


class Parts(Struct, frozen=True, eq=False):
    """Some parts of one kind, by number in its space; a part may stand twice."""

    kind: PartKind
    numbers: Ints


class Inventory(Struct, frozen=True, eq=False, dict=True):
    """The parts of a fabric.

    Parameters
    ----------
    graph
        The fabric.
    groups
        Risk groups besides those that the graph itself shows; they hide those of the same kind.
    cage_links
        Links in a cage of a switch, for names by cage and half [1].

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=32)
    >>> inventory = Inventory(scenario.fabric("rail-only").graph())
    >>> {name: len(kind.numbers) for name, kind in inventory.kinds.items()}
    {'gpu': 1024, 'nic': 1024, 'link': 2048, 'host': 1024, 'leaf-spine': 1024, 'hb-link': 1024,
     'transceiver': 4096, 'switch': 96, 'leaf': 64, 'spine': 32, 'hb-switch': 128, 'domain': 128,
     'rail': 8}
    """

    graph: FabricGraph
    groups: tuple[RiskGroups, ...] = ()
    cage_links: int = 2

    @cached_property
    def kinds(self) -> dict[str, PartKind]:
        """Kinds of which there are any, by name; groups that hold nothing here are no parts."""
        graph = self.graph

        def nodes(kind: str, name: str = "", tier: int | None = None) -> PartKind:
            there = graph.node_kind == NODE_KINDS.index(kind.replace("-", "_"))
            if tier is not None:
                there &= graph.node_tier == tier
            return PartKind(name or kind, "node", np.flatnonzero(there))

        link = np.flatnonzero(network_links(graph))
        ends = (2 * link[:, None] + np.arange(2)).ravel()
        node = np.stack((graph.source[link], graph.target[link]), axis=1).ravel()
        tiers = sorted(graph.switches_per_tier())
        names = {tier: (*TIER_NAMES, f"tier-{tier}")[min(max(tier, 1), 4) - 1] for tier in tiers}
        groups = {"domain": domain_groups(graph), **switch_groups(graph)}
        if graph.hb_size > 1:
            groups["rail"] = rail_groups(graph)
        groups |= {given.kind: given for given in self.groups}
        network = [group.name for group in graph.groups if group.role not in ("hb", "memory")]
        kinds = [
            nodes("gpu"),
            PartKind("nic", "end", ends[graph.node_kind[node] == GPU]),
            PartKind("link", "link", link),
            *(PartKind(name, "link", graph.links_of(name)) for name in network),
            PartKind("hb-link", "link", graph.links_with("hb")),
            PartKind("transceiver", "end", transceiver_ends(graph)),
            nodes("switch"),
            *(nodes("switch", name, tier) for tier, name in names.items()),
            nodes("hb-switch"),
            nodes("manager"),
            nodes("memory"),
            *(PartKind(name, "group", kind.held(), kind) for name, kind in groups.items()),
        ]
        return {kind.name: kind for kind in kinds if len(kind.numbers)}

    def kind(self, text: str) -> PartKind:
        """Kind by its name or plural.

        Raises
        ------
        UnknownNameError
            If the fabric has no parts that are called so; the message offers the nearest.
        """
        for name in (text, PLURALS.get(text, ""), text.removesuffix("s")):
            if name in self.kinds:
                return self.kinds[name]
        if text in ("rack", "racks", "row", "rows", "feed", "feeds", "tray", "trays", "hall"):
            raise InputError(
                f"{text!r}: nobody says where racks stand: give a floor plan, or GPUs and switches"
                " per rack"
            )
        raise unknown_name("kind of part", text[:60], self.kinds)

    def damage(self, parts: Sequence[Parts]) -> Damage:
        """Damage in which some parts have failed."""
        damage = no_damage(self.graph)
        for part in parts:
            match part.kind.space:
                case "node":
                    damage.node_down[part.numbers] = True
                case "link":
                    damage.link_down[part.numbers] = True
                case "end":
                    damage.link_down[part.numbers // 2] = True
                case "group" if part.kind.groups is not None:
                    damage |= part.kind.groups.damage(self.graph, part.numbers)
        return damage


PLAIN_GPU = re.compile(r"gpu-([0-9]{1,9})")
HOST = re.compile(r"host-([0-9]{1,9})")
MAX_NEAR = 500
NEIGHBOURS_NAMED = 3
"""Names that are searched for the nearest ones; more would take seconds."""


class PartNames(Struct, frozen=True, eq=False, dict=True):
    """Names of the parts of a fabric, both ways.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=32)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> names = PartNames(Inventory(graph))
    >>> for text in ("gpu-16", "gpu-16:1", "gpu-16--rail-0/leaf-0", "rail-7/leaf-1:2", "rail-2"):
    ...     found = names.find(text)
    ...     print(found.kind.name, found.numbers, *names.of(found))
    gpu [16] gpu-16
    nic [2080] gpu-16:1
    link [1040] gpu-16:1--rail-0/leaf-0:3
    transceiver [2335] rail-7/leaf-1:2
    rail [2] rail-2
    """

    inventory: Inventory

    def find(self, text: str, kind: PartKind | None = None) -> Parts:
        """Part or parts of a name; of one kind, if it is given.

        Raises
        ------
        UnknownNameError
            If nothing has this name; the message offers the nearest.
        InputError
            If it is not of the kind, or two nodes are named that no link joins.
        """
        text = plain_link(text)
        graph, node, is_group = self.inventory.graph, self._node(text), text in self._group_names
        if BETWEEN in text:
            parts = self._links(text)
        elif node is not None and (kind is None or kind.space != "group"):
            name = NODE_KINDS[graph.node_kind[node]].replace("_", "-")
            parts = Parts(self.inventory.kinds[name], np.array([node]))
        elif is_group and (kind is None or kind.space == "group"):
            # Where groups of several kinds have the name, that of the kind, or the first.
            places = self._group_names[text]
            name, number = next(
                (group for group in places if kind and group[0] == kind.name), places[0]
            )
            parts = Parts(self.inventory.kinds[name], np.array([number]))
        else:
            parts = self._port(text, kind)
        if parts is None:
            raise self._unknown(text)
        if kind is None or parts.kind is kind:
            return parts
        if kind.space != parts.kind.space or not _holds(kind, parts.numbers):
            raise InputError(f"{text[:60]!r} is no {kind.name}: it is a {parts.kind.name}")
        return Parts(kind, parts.numbers)

    def of(self, parts: Parts) -> Iterator[str]:
        """Names of parts, one by one."""
        graph = self.inventory.graph
        for number in parts.numbers.tolist():
            match parts.kind.space:
                case "node":
                    yield graph.node_name(number)
                case "link":
                    yield BETWEEN.join(self._end_name(2 * number + end) for end in range(2))
                case "end":
                    yield self._end_name(number)
                case "group":
                    yield parts.kind.groups.names[number] if parts.kind.groups else str(number)

    def _node(self, text: str) -> int | None:
        graph = self.inventory.graph
        plain = PLAIN_GPU.fullmatch(text)
        if plain and int(plain[1]) < graph.gpus and graph.node_name(int(plain[1])) == text:
            return int(plain[1])
        node = self._node_names.get(text)
        return self._plain_names.get(text) if node is None else node

    def _port(self, text: str, kind: PartKind | None) -> Parts | None:
        """Port of a GPU or switch, as network port or transceiver."""
        place = self._device_port(text)
        if place is None:
            return None
        node, port = place
        graph = self.inventory.graph
        ends = self._ends_at(node)
        chosen = ends[self._end_port[ends] == port]
        if not len(chosen):
            count = len(ends)
            raise InputError(
                f"{graph.node_name(node)} has no cable in port {port}, it has {count}"
                f" cable{'s' * (count != 1)}"
                + (f" in ports up to {int(self._end_port[ends].max())}" if count else "")
            )
        names = ("nic", "transceiver") if graph.node_kind[node] == GPU else ("transceiver",)
        wanted = [kind] if kind and kind.space == "end" else []
        known = [self.inventory.kinds[name] for name in names if name in self.inventory.kinds]
        for candidate in [*wanted, *known]:
            if _holds(candidate, chosen):
                return Parts(candidate, chosen)
        raise InputError(
            f"{text[:60]!r} is a copper cable, which has no transceiver: fail its link"
        )

    def _links(self, text: str) -> Parts | None:
        """Links between two nodes, or the one between two ports."""
        # A name may hold the mark itself: try every place where the text can be cut.
        for cut in re.finditer(f"(?={BETWEEN})", text):
            sides = [text[: cut.start()], text[cut.start() + len(BETWEEN) :]]
            places = [self._device_port(side, hosts=True) for side in sides]
            nodes = [
                place[0] if place else self._node(side)
                for place, side in zip(places, sides, strict=True)
            ]
            first, second = nodes
            if first is None or second is None:
                continue
            ends = self._ends_at(first, inside=places == [None, None] or text.count(":port-") > 0)
            chosen = ends[self._end_node[ends ^ 1] == second]
            for side, place in enumerate(places):
                if place:
                    chosen = chosen[self._end_port[chosen ^ side] == place[1]]
            if not len(chosen):
                others = distinct_values(self._end_node[ends ^ 1])[:NEIGHBOURS_NAMED].tolist()
                names = " and ".join(self.inventory.graph.node_name(node) for node in others)
                known = f": links of the first go to {names}" if others else ""
                raise InputError(f"no link joins {sides[0][:60]} and {sides[1][:60]}{known}")
            links = chosen // 2
            network = links[self._network[links]]
            name, chosen_links = ("link", network) if len(network) else ("hb-link", links)
            return Parts(self.inventory.kinds[name], chosen_links)
        return None

    def _device_port(self, text: str, *, hosts: bool = False) -> tuple[int, int] | None:
        """Node and port of an end; of a host of a whole HB domain too, if those are asked for."""
        parsed = device_port(text, self.inventory.cage_links)
        if parsed is None:
            return None
        device, port, counted_from_0 = parsed
        node, host = self._node(device), HOST.fullmatch(device)
        if node is not None:
            return node, port + 1 - int(self._first_port[node]) if counted_from_0 else port
        graph = self.inventory.graph
        if not (hosts and host):
            return None
        gpu_ports = int(
            self._end_port[self._network.repeat(2) & (self._end_node < graph.gpus)].max(initial=1)
        )
        gpu = int(host[1]) * graph.hb_size + (port - 1) // gpu_ports
        return (gpu, (port - 1) % gpu_ports + 1) if gpu < graph.gpus else None

    def _ends_at(self, node: int, *, inside: bool = False) -> Ints:
        """Ends of the cables at a node, and of the links inside HB domains if asked for."""
        graph, rows = self.inventory.graph, self.inventory.graph.adjacency
        links = rows.link[rows.indptr[node] : rows.indptr[node + 1]].astype(np.int64)
        if not inside:
            links = links[self._network[links]]
        ends: Ints = 2 * links + (graph.target[links] == node)
        return ends

    def _end_name(self, end: int) -> str:
        name = self.inventory.graph.node_name(int(self._end_node[end]))
        return f"{name}:{self._end_port[end]}" if self._network[end // 2] else name

    @cached_property
    def _network(self) -> Bools:
        """Whether a link is outside HB domains, shape (links,)."""
        return network_links(self.inventory.graph)

    @cached_property
    def _end_node(self) -> Ints:
        """Node at each end of each link, shape (2 links,)."""
        graph = self.inventory.graph
        return np.stack((graph.source, graph.target), axis=1).ravel().astype(np.int64)

    @cached_property
    def _ports(self) -> Ints:
        """Port of each end, counted from 0 over all links of a node, shape (2 links,)."""
        graph = self.inventory.graph
        return np.stack((graph.source_port, graph.target_port), axis=1).ravel().astype(np.int64)

    @cached_property
    def _first_port(self) -> Ints:
        """The first port of each node that cable plans count, shape (nodes,)."""
        graph = self.inventory.graph
        first = np.zeros(graph.node_count, np.int64)
        first[: graph.gpus] = self._ports.max(initial=0)
        network = np.repeat(self._network, 2)
        np.minimum.at(first, self._end_node[network], self._ports[network])
        return first

    @cached_property
    def _end_port(self) -> Ints:
        """Port of each end, as cable plans count them: network ports from 1, shape (2 links,)."""
        return self._ports + 1 - self._first_port[self._end_node]

    @cached_property
    def _node_names(self) -> dict[str, int]:
        """Numbers of nodes by name; GPUs of a plain pattern are left out, being found by it."""
        graph = self.inventory.graph
        plain = isinstance(graph.names, StructuralNames) and graph.node_name(0) == "gpu-0"
        skipped = graph.gpus if plain else 0
        return {graph.node_name(node): node for node in range(skipped, graph.node_count)}

    @cached_property
    def _plain_names(self) -> dict[str, int]:
        """Nodes by their names in exports that take no slash."""
        return {slashless(name): node for name, node in self._node_names.items()}

    @cached_property
    def _group_names(self) -> dict[str, list[tuple[str, int]]]:
        """Kinds and numbers of groups by name."""
        places: dict[str, list[tuple[str, int]]] = {}
        for kind in self.inventory.kinds.values():
            for number, name in enumerate(kind.groups.names if kind.groups else ()):
                places.setdefault(name, []).append((kind.name, number))
        return places

    def _unknown(self, text: str) -> Exception:
        """Error that offers names which begin alike, or end alike."""
        graph, wanted = self.inventory.graph, text[:60]
        stem = re.split(r"[0-9:]", wanted, maxsplit=1)[0].lower()
        tail = re.split(r"[0-9:]", wanted.rpartition("/")[2], maxsplit=1)[0].lower()
        pool = [*self._node_names, *self._group_names]
        alike = [name for name in pool if stem and name.lower().startswith(stem)]
        alike += [name for name in pool if tail and f"/{tail}" in name.lower()]
        examples = [*self.inventory.kinds, graph.node_name(0), graph.node_name(graph.gpus - 1)]
        near = [*examples, *alike[: MAX_NEAR // 2], *alike[-MAX_NEAR // 2 :]]
        error = unknown_name("part", wanted, list(dict.fromkeys(near)))
        if "did you mean" in str(error):
            return error
        ends = f"{graph.node_name(0)} to {graph.node_name(graph.gpus - 1)}"
        kinds = ", ".join(self.inventory.kinds)
        return type(error)(
            f"unknown part {wanted!r}: name a node ({ends}, …), a port, a link or a group, or a"
            f" number of parts such as link=10; kinds are {kinds}"
        )


def _holds(kind: PartKind, numbers: Ints) -> bool:
    """Whether all these parts are of a kind, whose numbers rise."""
    place = np.searchsorted(kind.numbers, numbers).clip(max=len(kind.numbers) - 1)
    return bool(np.all(kind.numbers[place] == numbers))

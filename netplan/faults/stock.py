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
and a user's own groups where they are given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from netplan.arrays import Ints
from netplan.catalog import unknown_name
from netplan.errors import InputError
from netplan.faults.damage import Damage, no_damage
from netplan.faults.groups import RiskGroups, domain_groups, rail_groups, switch_groups
from netplan.faults.rack_groups import transceiver_ends
from netplan.topologies.graph import GPU, HB_SWITCH, MANAGER, SWITCH, FabricGraph
from netplan.traffic.routing import HB_GROUP

Space = Literal["node", "link", "end", "group"]
TIERS = ("leaf", "spine", "core")
PLURALS = {"leaves": "leaf", "switches": "switch", "hb-switches": "hb-switch", "batches": "batch"}


@dataclass(frozen=True, slots=True, eq=False)
class PartKind:
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


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Some parts of one kind, by number in its space; a part may stand twice."""

    kind: PartKind
    numbers: Ints


@dataclass(frozen=True, eq=False)
class Stock:
    """The parts of a fabric.

    Parameters
    ----------
    graph
        The fabric.
    groups
        Risk groups besides those that the graph itself shows; they hide those of the same kind.

    Examples
    --------
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> stock = Stock(expand(FABRICS.load("rail-only"), Sizing(1024, 32, 8, 450e9, 50e9)))
    >>> {name: len(kind.numbers) for name, kind in stock.kinds.items()}
    {'gpu': 1024, 'nic': 1024, 'link': 2048, 'host': 1024, 'leaf-spine': 1024, 'hb-link': 1024,
     'transceiver': 4096, 'switch': 96, 'leaf': 64, 'spine': 32, 'hb-switch': 128, 'domain': 128,
     'rail': 8}
    """

    graph: FabricGraph
    groups: tuple[RiskGroups, ...] = ()

    @cached_property
    def kinds(self) -> dict[str, PartKind]:
        """Kinds of which there are any, by name."""
        graph = self.graph
        found = [*_node_and_link_kinds(graph)]
        all_groups = {"domain": domain_groups(graph), **switch_groups(graph)}
        if graph.hb_size > 1:
            all_groups["rail"] = rail_groups(graph)
        all_groups |= {groups.kind: groups for groups in self.groups}
        found += [
            PartKind(kind, "group", np.arange(len(groups)), groups)
            for kind, groups in all_groups.items()
        ]
        return {kind.name: kind for kind in found if len(kind.numbers)}

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
        found = no_damage(self.graph)
        for part in parts:
            match part.kind.space:
                case "node":
                    found.node_down[part.numbers] = True
                case "link":
                    found.link_down[part.numbers] = True
                case "end":
                    found.link_down[part.numbers // 2] = True
                case "group" if part.kind.groups is not None:
                    found |= part.kind.groups.damage(self.graph, part.numbers)
        return found


def _node_and_link_kinds(graph: FabricGraph) -> Sequence[PartKind]:
    """Kinds of nodes, links and ends of links, present or not."""

    def nodes(name: str, code: int, tier: int | None = None) -> PartKind:
        there = graph.node_kind == code
        if tier is not None:
            there &= graph.node_tier == tier
        return PartKind(name, "node", np.flatnonzero(there))

    inside = graph.group_names.index(HB_GROUP) if HB_GROUP in graph.group_names else -1
    link = np.flatnonzero(graph.group != inside)
    ends = (2 * link[:, None] + np.arange(2)).ravel()
    at = np.stack((graph.source[link], graph.target[link]), axis=1).ravel()
    groups = [
        PartKind(name, "link", graph.links_of(name))
        for name in graph.group_names
        if name != HB_GROUP
    ]
    tiers = sorted(graph.switches_per_tier())
    tier_names = {tier: (*TIERS, f"tier-{tier}")[min(max(tier, 1), 4) - 1] for tier in tiers}
    return [
        nodes("gpu", GPU),
        PartKind("nic", "end", ends[graph.node_kind[at] == GPU]),
        PartKind("link", "link", link),
        *groups,
        PartKind("hb-link", "link", graph.links_of(HB_GROUP)),
        PartKind("transceiver", "end", transceiver_ends(graph)),
        nodes("switch", SWITCH),
        *(nodes(name, SWITCH, tier) for tier, name in tier_names.items()),
        nodes("hb-switch", HB_SWITCH),
        nodes("manager", MANAGER),
    ]

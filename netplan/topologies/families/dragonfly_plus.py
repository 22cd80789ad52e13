"""Dragonfly+: groups of leaves and spines; spines are joined to those of other groups.

Symbols, of switches with k ports: p = k/2 hosts a leaf, l leaves and s = k/2 spines a group, one
link from each leaf to each spine, h = k/2 global links a spine; g groups, at most s h + 1, and as
many links between any two groups as the global ports allow, dealt out over the spines in turn. A
file may say other numbers of each. A lone group has no global links, so that all ports of its
spines lead down, to up to k leaves: the fewest leaves and spines that keep the rate of a port, with
several links from each leaf to each. One switch has no spines above it.

Source: Shpiner, Haramaty, Eliad, Zdornov, Gafni and Zahavi, Dragonfly+: Low Cost Topology for
Scaling Datacenters (HiPINEB 2017). Routed over shortest paths here, which never visit a third
group.
"""

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, ceil_div
from netplan.errors import InputError
from netplan.records import PositiveInt
from netplan.topologies.assembly import NameBlock
from netplan.topologies.fabric import Sizing
from netplan.topologies.families import joined_switches
from netplan.topologies.graph import LinkType, Medium
from netplan.units import counted


class _GroupShape(Struct, frozen=True):
    """Hosts a leaf, leaves, spines, global links a spine, groups, links of each pair of groups.

    ``width`` are the links of each leaf to each spine.
    """

    hosts: int
    leaves: int
    spines: int
    ports: int
    groups: int
    copies: int
    width: int = 1


class DragonflyPlus(joined_switches.JoinedSwitches, frozen=True, kw_only=True):
    """Groups of leaves and spines."""

    hosts_per_switch: PositiveInt | None = None
    switches_per_group: PositiveInt | None = None
    global_links_per_switch: PositiveInt | None = None
    spines_per_group: PositiveInt | None = None  # or half the ports of a switch
    groups: PositiveInt | None = None
    links_per_pair: PositiveInt | None = None
    host_medium: Medium | None = None
    local_medium: Medium | None = None

    def plane_graph(self, sizing: Sizing) -> joined_switches.SwitchGraph:
        """Its own shape, else balanced for the radix, in as few groups as hold.

        Examples
        --------
        1,024 hosts in four groups of 16 leaves of 16: 256 global ports a group, 85 to each.

        >>> from netplan import Scenario
        >>> from netplan.topologies.specs import FABRICS
        >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=32)
        >>> from netplan.topologies.families.joined_switches import switch_graph
        >>> graph = switch_graph(FABRICS.load("dragonfly-plus"), scenario.sizing)
        >>> graph.switches, [(one.kind.name, len(one.source)) for one in graph.links]
        (128, [('leaf-spine', 1024), ('between groups', 510)])
        """
        sides = self.hosts_per_switch, self.switches_per_group, self.spines_per_group, self.groups
        given = any(sides) or self.global_links_per_switch or self.links_per_pair
        if sizing.gpus <= sizing.radix and not given:
            return joined_switches.one_switch(sizing.gpus)
        shape = _shape(self, sizing)
        leaves, spines, groups = shape.leaves, shape.spines, shape.groups
        leaf = np.arange(groups * leaves)
        first = groups * leaves  # spines are numbered after all leaves
        spine = np.repeat(np.arange(spines), shape.width)
        above = first + np.add.outer(leaf // leaves * spines, spine).ravel()
        within = LinkType("leaf-spine", "up", tiers=(1, 2), medium=self.local_medium or "optical")
        links = [joined_switches.SwitchLinks(within, np.repeat(leaf, len(spine)), above)]
        if groups > 1:
            links.append(
                joined_switches.SwitchLinks(
                    joined_switches.joined_links("between groups", tier=2), *_global(shape, first)
                )
            )
        between = f", {counted(shape.copies, 'link')} between any two" if groups > 1 else ""
        wide = f", {shape.width} links from each leaf to each" if shape.width > 1 else ""
        sentence = (
            f"{counted(groups, 'group')} of {counted(leaves, 'leaf', 'leaves')} with"
            f" {counted(shape.hosts, 'host')} and {counted(spines, 'spine')}{wide}{between}."
        )
        tiers = (
            ("leaf", NameBlock("group-{}/leaf-{}", (groups, leaves))),
            ("spine", NameBlock("group-{}/spine-{}", (groups, spines))),
        )
        # Inside a group all spines share what leaves a leaf.
        inside = joined_switches.Groups(leaves, spines * shape.width)
        return joined_switches.SwitchGraph(
            tiers, shape.hosts, tuple(links), sentence, inside, even=True
        )


def _lone_group(spec: DragonflyPlus, sizing: Sizing) -> _GroupShape | None:
    """The group with the fewest switches, then links, whose spines lead down alone.

    None if a file says how many spines there are, or if one group does not hold the GPUs.
    """
    if spec.spines_per_group or spec.groups or spec.global_links_per_switch:
        return None
    radix, gpus, given = sizing.radix, sizing.gpus, spec.hosts_per_switch
    least = ceil_div(gpus, given or radix // 2)
    if least > (spec.switches_per_group or radix):
        return None
    leaves, spines = np.ogrid[least : radix + 1, 1 : radix + 1]
    if spec.switches_per_group:
        leaves = np.array([[spec.switches_per_group]])
    hosts = np.full_like(leaves, given) if given else -(-gpus // leaves)
    up = np.minimum(hosts, radix - hosts)
    width = -(-up // spines)
    kept = (up > 0) & (spines <= up) & (leaves * width <= radix) & (hosts + spines * width <= radix)
    if not kept.any():
        return None
    links = leaves * spines * width
    worth = (leaves + spines) * (links.max() + 1) + links
    worth[~kept] = np.iinfo(np.int64).max
    leaf, spine = np.unravel_index(int(worth.argmin()), worth.shape)
    row, column = int(leaf), int(spine)
    hosted, count, above = int(hosts[row, 0]), int(leaves[row, 0]), int(spines[0, column])
    return _GroupShape(hosted, count, above, 0, 1, 0, int(width[row, column]))


def _shape(spec: DragonflyPlus, sizing: Sizing) -> _GroupShape:
    """Shape of a spec; what it does not say is balanced for the radix."""
    lone = _lone_group(spec, sizing)
    if lone is not None:
        return lone
    half, gpus = sizing.radix // 2, sizing.gpus
    hosts = spec.hosts_per_switch or half
    ports = spec.global_links_per_switch or half
    most = spec.switches_per_group or half
    spines = spec.spines_per_group or half
    groups = spec.groups or ceil_div(gpus, hosts * most)
    leaves = spec.switches_per_group or ceil_div(gpus, hosts * groups)
    copies = spec.links_per_pair or (spines * ports // (groups - 1) if groups > 1 else 0)
    reached = spines * ports // max(1, spec.links_per_pair or 1) + 1
    held = hosts * most * min(groups, reached)
    if held < gpus or leaves > most:
        raise InputError(
            f"{spec.name}: {min(groups, reached):,} groups of {hosts * most:,} hosts hold"
            f" {held:,} GPUs, got {gpus:,}: raise --radix, or groups in the fabric file"
        )
    if groups > reached:
        raise InputError(
            f"{spec.name}: {spines} spines with {ports} global links reach {reached - 1:,} other"
            f" groups, got {groups:,} groups: give at most {reached:,}"
        )
    # Before all links are laid: a leaf's ports, and a spine's to the leaves alone.
    joined_switches.refuse_ports(spec.name, max(hosts + spines, leaves), hosts, sizing.radix)
    return _GroupShape(hosts, leaves, spines, ports, groups, copies)


def _global(shape: _GroupShape, first: int) -> tuple[AnyInts, AnyInts]:
    """Ends of the global links, pair of groups by pair: slots of a group go round its spines."""
    low, high = (np.repeat(groups, shape.copies) for groups in np.triu_indices(shape.groups, 1))
    copy = np.tile(np.arange(shape.copies), len(low) // shape.copies)
    ends = []
    for group, other in ((low, high), (high, low)):
        rank = other - (other > group)
        slot = rank * shape.copies + copy
        ends.append(first + group * shape.spines + slot % shape.spines)
    return ends[0], ends[1]

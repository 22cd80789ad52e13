"""Fabrics of Clos networks: any-to-any, rail-only, and vendors' scalable units; counted and wired.

How GPUs meet the networks:

``rail wiring``      endpoints ordered by rank, then domain: a rail stays under as few leaves as
                     its size allows;
``fat-tree wiring``  endpoints in the order of the GPUs: consecutive GPUs share a leaf;
``scalable units``   half a radix of nodes a unit, and one leaf for each of its rails;
``rail-only``        a network of its own for every rail, or a share of one where that is cheaper.

``planes``           as many copies of a Clos network as a GPU has ports, one port to each.

Inside a network the wiring is that of :func:`netplan.topologies.families.clos.fat_tree`, with the
ports written out. Endpoints are spread evenly over the leaves, in order. Bundle p of every leaf's
uplinks leads to plane p, over whose switches the leaves are again spread in order; in the top tier
a plane is one switch. Where bundles differ by a link, the first planes have the wider ones. Rails
of one network come one after the other. On a switch the ports to the tier below come first (room
for a full leaf, whether or not it is full), then those to the tier above.

Host links come plane by plane, in the order of the GPUs, then of the management hosts. Links above
follow network by network, in the order in which they are counted.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import gcd
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from netplan.arrays import AnyInts, Ints, ceil_div
from netplan.errors import InputError
from netplan.levels import Level, Tier
from netplan.records import NonNegativeInt, PositiveInt, replace
from netplan.topologies.assembly import Links, NameBlock, Nodes, Wired
from netplan.topologies.fabric import (
    MIN_SIZED_RADIX,
    TIER_NAMES,
    Fabric,
    LinkGroup,
    Sizing,
    clos_parts,
    network_level,
    tier_name,
)
from netplan.topologies.families import clos
from netplan.topologies.graph import HALL, MANAGER, ROW, SWITCH, Medium
from netplan.topologies.specs import CatalogName, DomainKind, FabricSpec

Oversubscription = Annotated[float, Meta(ge=1)]


class SwitchTrees(FabricSpec, frozen=True, kw_only=True):
    """Clos networks: one over all GPUs, one a plane, or one a rail."""

    oversubscription: Oversubscription = 1.0
    even_pods: bool = True  # every pod alike
    # All trunks of a switch alike, as OpenSM's fat-tree routing without listed roots asks.
    even_trunks: bool = False
    host_medium: Medium | None = None

    def tree(self, sizing: Sizing) -> clos.FatTree:
        """Tree of the one Clos network, or of each plane, that joins all GPUs of this sizing."""
        return clos.fat_tree(
            sizing.gpus + self.management_links,
            sizing.radix,
            oversubscription=_ratio(self, sizing),
            even=self.even_pods,
            alike=self.even_trunks,
            trunk_width=self.trunk_width,
        )

    def trees(self, sizing: Sizing) -> tuple[clos.FatTree, ...]:
        """Trees of all networks that are unlike, one for each kind.

        Parameters
        ----------
        sizing
            GPUs, and ports of a switch.

        Examples
        --------
        >>> from netplan import Scenario
        >>> from netplan.topologies.specs import FABRICS
        >>> sizing = Scenario.load("hgx-h100").replace(gpus=72, radix=8, hb_size=8).sizing
        >>> [tree.endpoints for tree in FABRICS.load("rail-optimized").trees(sizing)]
        [72]
        """
        return (self.tree(plane_sizing(self, sizing)),)

    def endpoints(self, sizing: Sizing, hosts: Ints) -> Ints:
        """Endpoint of the network that each host takes, managers numbered on from the GPUs."""
        if not self.rail_wiring:
            return hosts
        domain, rank = np.divmod(hosts, sizing.hb_size)
        # The first ranks have one GPU more if the last domain is partly filled, so a rail begins
        # where the rails before it, some of them shorter, end. Managers come after all rails.
        full, extra = divmod(sizing.gpus, sizing.hb_size)
        by_rail = rank * full + np.minimum(rank, extra) + domain
        return np.where(hosts < sizing.gpus, by_rail, hosts)

    def leaf_of(self, sizing: Sizing, gpu: Ints) -> Ints | None:
        """Under which leaf GPUs lie, in one of several planes."""
        tree = self.tree(sizing)
        # Leaf l takes the endpoints from floor(l n / leaves) on.
        return clos.even_groups(self.endpoints(sizing, gpu), tree.endpoints, tree.leaves)

    def leaf_names(self, sizing: Sizing, leaves: int) -> NameBlock | None:
        """Names that say which rail a leaf serves, where it serves one only."""
        rails = sizing.hb_size
        even = leaves > 1 and leaves % rails == 0 and sizing.gpus % rails == 0
        if self.rail_wiring and even and not self.management_links:
            return NameBlock("rail-{}/leaf-{}", (rails, leaves // rails))
        return None

    def wire(self, fabric: Fabric, first: int, port: int) -> Wired:
        """Wire one Clos network over all GPUs, and over management hosts if there are any."""
        sizing = fabric.sizing
        hosts = np.arange(sizing.gpus + self.management_links)
        wiring = wire_tree(self.tree(sizing))
        end = self.endpoints(sizing, hosts)
        bottom, leaves = wiring.stages[0], wiring.switches_per_tier[0]
        places = bottom.upper[end], bottom.upper_port[end]
        attachment = _attached(hosts, places, leaves, self.planes)
        names = self.leaf_names(sizing, leaves)
        network = NetworkCopies(wiring, leaf_names=names)
        if self.planes > 1:
            network = NetworkCopies(wiring, self.planes, "plane-{}/")
        return wire_networks(fabric, [network], attachment, (first, port))


class Clos(SwitchTrees, frozen=True, kw_only=True):
    """One Clos network over all GPUs, or one a plane."""

    domains: tuple[DomainKind, ...] = ()  # of several sizes or kinds
    rail_wiring: bool = True
    management_links: NonNegativeInt = 0
    planes: PositiveInt = 1  # each GPU's port split into as many, one to each plane
    trunk_width: PositiveInt = 1  # rate of a link above the leaves over that of a port

    def __post_init__(self) -> None:
        """Refuse kinds of domains that do not go together; take the group that fits into all."""
        super().__post_init__()
        if not self.domains:
            return
        sizes = [domain.size for domain in self.domains]
        group = gcd(*sizes)
        direct = [domain for domain in self.domains if domain.kind != "switch"]
        kind = direct[0].kind if direct else "switch"
        if None in [domain.count for domain in self.domains[:-1]]:
            raise ValueError("domains: only the last kind may have no count")
        if any((domain.kind, domain.size, domain.planes) != (kind, group, 1) for domain in direct):
            raise ValueError(
                f"domains joined directly are of one kind, and of the size that divides all others:"
                f" {group} of {', '.join(map(str, sizes))}; let switches join the others"
            )
        joining = self.hb_scheme, self.hb_spines, self.hb_link_bytes_per_s, self.hb_planes
        same = self.hb_size in (None, group) and self.hb_kind in ("switch", kind)
        if joining != (None, None, None, 1) or not same:
            raise ValueError(
                "domains say how their GPUs are joined: leave out hb_kind, hb_size, hb_planes,"
                " hb_spines, hb_scheme and hb_link_bytes_per_s"
            )
        force_setattr(self, "hb_size", group)
        force_setattr(self, "hb_kind", kind)

    def build(self, sizing: Sizing) -> Fabric:
        """One Clos network over all GPUs; with rail wiring a rail stays under its leaves.

        With several planes there is one such network a plane, of ports at a share of the rate; a
        switch has that many times more of them.
        """
        ratio = _ratio(self, sizing)
        ends = sizing.gpus + self.management_links
        plane = plane_sizing(self, sizing)
        tree = self.tree(plane)
        tiers = () if ratio == 1 else _tiers(tree, plane, plane.hb_size, by_rank=self.rail_wiring)
        built = tree.counts.times(self.planes)
        bound = clos.clos_counts(
            ends, plane.radix, oversubscription=ratio, trunk_width=self.trunk_width
        ).times(self.planes)
        fabric = _fabric(self, plane, (built, bound), tiers, ratio)
        notes = tree_notes(tree, self.changed(even_pods=False).tree(plane), self.planes)
        return replace(fabric, notes=(*notes, *fabric.notes))


class RailNetworks(Struct, frozen=True):
    """Equal networks, each of so many rails; ``first`` is the first rail of the first of them.

    A rail has ``hosts`` places in them, the last of which stays free on a rail that is one short.
    """

    first: int
    rails: int
    copies: int
    hosts: int
    tree: clos.FatTree

    @property
    def end(self) -> int:
        """First rail after those of these networks [1]."""
        return self.first + self.rails * self.copies


class RailOnly(SwitchTrees, frozen=True, kw_only=True):
    """A network of its own for every rail, or for some of them together."""

    shared_rails: bool = True  # whether rails of several leaves may share them, where cheaper
    planes: PositiveInt = 1  # networks of each rail, one for each part or card of a GPU's port
    circuit_switch: CatalogName | None = None  # between GPUs and their rails

    def networks(self, sizing: Sizing) -> tuple[RailNetworks, ...]:
        """Which rails share a network: the cheapest way.

        The first rails have a host more if the last domain is partly filled. They are divided apart
        from the others, with some of the others among them where that is cheaper. Oversubscribed
        rails of several leaves stay apart.

        Parameters
        ----------
        sizing
            GPUs, their HB domains, and ports of a switch.

        Returns
        -------
        tuple of RailNetworks
            In the order of their rails; none where no two GPUs of a rail are to be joined.

        Examples
        --------
        >>> from netplan import Scenario
        >>> from netplan.topologies.specs import FABRICS
        >>> sizing = Scenario.load("hgx-h100").replace(gpus=72, radix=8, hb_size=8).sizing
        >>> networks = FABRICS.load("rail-only").networks(sizing)
        >>> [(network.first, network.rails, network.copies) for network in networks]
        [(0, 3, 2), (6, 2, 1)]
        """
        rails, hosts, radix = sizing.hb_size, sizing.domains, sizing.radix
        if hosts <= 1:
            return ()
        ratio = _ratio(self, sizing)
        pods = {"even": self.even_pods, "alike": self.even_trunks}
        long = sizing.gpus - (hosts - 1) * rails
        blocks: list[tuple[int, tuple[tuple[int, int], ...]]]
        if hosts <= radix:
            size = min(radix // hosts, rails)
            blocks = [(hosts, ((size, rails // size), (rails % size, 1)))]
        elif ratio > 1 or not self.shared_rails:
            blocks = [(hosts, ((1, long),)), (hosts - 1, ((1, rails - long),))]
        else:
            shares = clos.shared_rails(rails, hosts, radix, **pods)
            short = clos.shared_rails(rails - long, hosts - 1, radix, **pods)
            long += int((shares.prices[long:] + short.prices[::-1]).argmin())
            parts = shares.networks(long), short.networks(rails - long)
            blocks = list(zip((hosts, hosts - 1), parts, strict=True))
        networks: list[RailNetworks] = []
        for places, sizes in blocks:
            for size, copies in sizes:
                if size * copies:
                    tree = clos.fat_tree(size * places, radix, oversubscription=ratio, **pods)
                    first = networks[-1].end if networks else 0
                    networks.append(RailNetworks(first, size, copies, places, tree))
        return tuple(networks)

    def trees(self, sizing: Sizing) -> tuple[clos.FatTree, ...]:
        """Trees of all networks that are unlike."""
        return tuple(network.tree for network in self.networks(plane_sizing(self, sizing)))

    def build(self, sizing: Sizing) -> Fabric:
        """A network a rail, or for some together; other traffic is forwarded inside HB domains."""
        ratio, sizing = _ratio(self, sizing), plane_sizing(self, sizing)
        networks = self.networks(sizing)
        built = bound = clos.ClosCounts(sizing.radix)
        long = sizing.gpus - (sizing.domains - 1) * sizing.hb_size
        for network in networks:
            built += network.tree.counts.times(network.copies)
            starts = network.first + np.arange(network.copies) * network.rails
            full = np.clip(long - starts, 0, network.rails)
            ends = network.rails * (sizing.domains - 1) + full
            for size, copies in zip(*np.unique(ends, return_counts=True), strict=True):
                least = clos.clos_counts(int(size), sizing.radix, oversubscription=ratio)
                bound += least.times(int(copies))
        if networks:
            links = (sizing.gpus, *built.links_per_tier[1:])
            built = clos.ClosCounts(sizing.radix, built.switches_per_tier, links)
        tiers: tuple[Tier, ...] = ()
        if ratio > 1 and sizing.domains > sizing.radix:  # else rails share single switches
            tiers = _tiers(networks[0].tree, sizing, 1)
        built, bound = built.times(self.planes), bound.times(self.planes)
        fabric = _fabric(self, sizing, (built, bound), tiers, ratio)
        notes = self._sharing_notes(sizing, networks, fabric.switches // self.planes)
        apart = max(1, self.planes * sum(network.copies for network in networks))
        return replace(fabric, notes=(*notes, *fabric.notes), networks=apart)

    def _sharing_notes(
        self, sizing: Sizing, networks: tuple[RailNetworks, ...], switches: int
    ) -> Iterator[str]:
        """Which rails share what, what a failed switch takes, and what else would be cheaper."""
        if not networks:
            return
        first = networks[0]
        leaves, several = first.tree.leaves, first.tree.tiers[1:]
        if first.rails > 1 and not several:
            held = f"{first.rails} rails of {first.hosts:,} hosts share a leaf switch"
            yield f"{held}: one that fails takes {first.rails} network ports of every HB domain."
        elif first.rails > 1:
            apart = self.changed(shared_rails=False).networks(sizing)
            more = sum(other.copies * other.tree.counts.switches for other in apart)
            split = ", ".join(_sharing(network) for network in networks)
            hosts, top = first.tree.hosts_per_leaf, several[-1]
            yield (
                f"Rails share leaves and spines as virtual networks ({split}): {switches:,}"
                f" switches, where separate rails need {more:,} (--set"
                " fabric.shared_rails=false)."
            )
            yield (
                f"A leaf that fails takes up to {hosts:,} network ports, no two of one HB domain; a"
                f" {_tier_word(len(several))} takes {top.links_each:,} of the {top.uplinks:,}"
                f" uplinks of each {_tier_word(len(several) - 1)} below it, which {first.rails}"
                " rails share."
            )
        whole = clos.fat_tree(
            sizing.gpus,
            sizing.radix,
            oversubscription=_ratio(self, sizing),
            even=self.even_pods,
            alike=self.even_trunks,
        )
        price = sum(network.copies * network.tree.price for network in networks)
        if leaves and whole.price < price:
            yield (
                f"The any-to-any network is cheaper: {whole.counts.switches:,} switches, with"
                f" rails as virtual networks on it, where these need {switches:,}."
            )
        yield from tree_notes(first.tree, None)

    def wire(self, fabric: Fabric, first: int, port: int) -> Wired:
        """Wire the networks of the rails, none between them."""
        sizing = fabric.sizing
        groups = self.networks(sizing)
        if not groups:
            return Wired()
        gpu = np.arange(sizing.gpus)
        leaves = sum(group.copies * group.tree.leaves for group in groups)
        attachment = _attached(gpu, self._places(sizing, gpu), leaves, self.planes)
        networks: list[NetworkCopies] = []
        for number in range(self.planes):
            start = f"plane-{number}/" if self.planes > 1 else ""
            networks += self._plane(groups, sizing, start)
        return wire_networks(fabric, networks, attachment, (first, port))

    def _plane(
        self, groups: Sequence[RailNetworks], sizing: Sizing, start: str
    ) -> Iterator["NetworkCopies"]:
        """Networks of one plane, whose names begin alike."""
        if not groups[0].tree.tiers[1:]:
            switches = sum(group.copies for group in groups)
            leaf = "rail-{}/leaf-0" if groups[0].rails == 1 else "leaf-{}"
            names = NameBlock(start + leaf, (switches,))
            yield NetworkCopies(ClosWiring(((switches,),), ()), leaf_names=names)
            return
        number = 0
        for group in groups:
            kind, begin = ("rail", group.first) if group.rails == 1 else ("rails", number)
            whole = group.rails == sizing.hb_size and kind != "rail"
            # A single network of all rails has a number in several planes alone.
            prefix = "" if whole and not start else f"{start}{kind}-{{}}/"
            yield NetworkCopies(wire_tree(group.tree), group.copies, prefix, begin)
            number += group.copies * (group.rails > 1)

    def _places(self, sizing: Sizing, gpu: Ints) -> tuple[Ints, Ints]:
        """Leaf and port of each GPU, leaves counted over all networks."""
        domain, rank = np.divmod(gpu, sizing.hb_size)
        leaf, port, leaves = 0 * gpu, 0 * gpu, 0
        for group in self.networks(sizing):
            bottom = wire_tree(group.tree).stages[0]
            mine = np.flatnonzero((rank >= group.first) & (rank < group.end))
            copy, place = np.divmod(rank[mine] - group.first, group.rails)
            end = place * group.hosts + domain[mine]
            leaf[mine] = leaves + copy * group.tree.leaves + bottom.upper[end]
            port[mine] = bottom.upper_port[end]
            leaves += group.copies * group.tree.leaves
        return leaf, port

    def leaf_of(self, sizing: Sizing, gpu: Ints) -> Ints | None:
        """Under which leaf GPUs lie, of their own rail or one that shares its network."""
        return self._places(sizing, gpu)[0]


def _tier_word(above: int) -> str:
    """What switches of a tier are called, so many above the leaves."""
    return TIER_NAMES[above] if above < len(TIER_NAMES) else f"switch of tier {above + 1}"


def _sharing(networks: RailNetworks) -> str:
    """Which rails share a network.

    Examples
    --------
    >>> _sharing(RailNetworks(0, 3, 2, 9, clos.fat_tree(27, 8)))
    '2 networks of 3 rails from rail 0 on'
    """
    many = f"{networks.copies:,} networks" if networks.copies > 1 else "one network"
    rails = f"{networks.rails} rails" if networks.rails > 1 else "one rail"
    rails += " each" if networks.copies > 1 and networks.rails == 1 else ""
    return f"{many} of {rails} from rail {networks.first} on"


class ScalableUnits(SwitchTrees, frozen=True, kw_only=True):
    """Whole units, each of half a radix of nodes and one leaf a rail."""

    unread = ("oversubscription", "even_pods", "even_trunks")

    management_links: NonNegativeInt = 0

    def build(self, sizing: Sizing) -> Fabric:
        """Whole scalable units: one leaf a rail and unit, each with half its ports down.

        Leaf-to-spine cables are laid for whole units; host ports beyond the GPUs stay dark.
        """
        tree = self.tree(sizing)
        whole = tree.counts
        ends = sizing.gpus + self.management_links
        built = clos.ClosCounts(
            sizing.radix, whole.switches_per_tier, (ends, *whole.links_per_tier[1:])
        )
        bound = clos.clos_counts(ends, sizing.radix)
        fabric = _fabric(self, sizing, (built, bound), (), 1.0)
        half = sizing.radix // 2
        nodes, part = divmod(ends, sizing.hb_size)
        units, needed = tree.leaves // sizing.hb_size, ceil_div(nodes + (part > 0), half)
        notes = []
        if built.tiers > 1 and units > needed:
            notes.append(
                f"{units:,} units, where {needed:,} would hold the nodes: so many wire evenly, and"
                " the nodes are spread over all."
            )
        elif not tree.even:
            notes.append(f"So many units have no pods of equal size: {REFUSED}.")
        elif part and nodes % half == 0 and built.tiers > 1:
            refused = REFUSED.replace("refuses", "may refuse")
            notes.append(
                f"The last unit has leaves without hosts: until they have some, {refused}."
            )
        return replace(fabric, notes=(*fabric.notes, *notes))

    def tree(self, sizing: Sizing) -> clos.FatTree:
        """Tree whose endpoints are those of whole units, dark ones included.

        More units are laid where their number cannot be wired evenly, and the nodes are spread
        over all.
        """
        nodes = ceil_div(sizing.gpus + self.management_links, sizing.hb_size)
        units = ceil_div(nodes, sizing.radix // 2)
        return clos.unit_tree(units, sizing.hb_size, sizing.radix)

    def endpoints(self, sizing: Sizing, hosts: Ints) -> Ints:
        """Endpoint of the network that each host takes, managers numbered on from the GPUs."""
        domain, rank = np.divmod(hosts, sizing.hb_size)
        half = sizing.radix // 2
        nodes = ceil_div(sizing.gpus + self.management_links, sizing.hb_size)
        units = self.tree(sizing).endpoints // (sizing.hb_size * half)
        if units > ceil_div(nodes, half):
            # A unit without nodes has leaves without hosts, which fat-tree routing refuses.
            unit = clos.even_groups(domain, nodes, units)
            place = domain - unit * nodes // units
        else:
            unit, place = np.divmod(domain, half)
        return (unit * sizing.hb_size + rank) * half + place

    def leaf_names(self, sizing: Sizing, leaves: int) -> NameBlock | None:
        """Names that say which unit and rail a leaf serves."""
        rails = sizing.hb_size
        even = leaves > 1 and leaves % rails == 0
        return NameBlock("unit-{}/leaf-{}", (leaves // rails, rails)) if even else None


def plane_sizing(spec: FabricSpec, sizing: Sizing) -> Sizing:
    """Sizing of one plane: ports split, so that there are more of them, each slower.

    A sizing whose ports are split already is left as it is.

    Raises
    ------
    InputError
        If a switch would have more ports than netplan plans.

    Examples
    --------
    51.2 Tb/s as 64 ports of 800 Gb/s, or 512 of 100 Gb/s in each of eight planes.

    >>> from netplan import Scenario
    >>> whole = Scenario.load("hgx-b200").replace(gpus=4096, nic_gbps=800).sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> plane = plane_sizing(FABRICS.load("eight-planes"), whole)
    >>> plane.radix, plane.speed_gbps
    (512, 100.0)
    """
    parts = spec.planes // (sizing.port_split * sizing.cards)
    if parts == 1:
        return sizing
    if sizing.radix * parts > clos.MAX_RADIX:
        raise InputError(
            f"{spec.name}: {spec.planes} planes split {sizing.radix} ports a switch into"
            f" {sizing.radix * parts:,}, more than {clos.MAX_RADIX:,}: --radix counts whole ports,"
            f" of {sizing.speed_gbps:g} Gb/s; {_fewer_ports(sizing.radix, parts)}"
        )
    return replace(
        sizing,
        radix=sizing.radix * parts,
        network_bytes_per_s=sizing.network_bytes_per_s / parts,
        port_split=spec.planes // sizing.cards,
    )


def _fewer_ports(radix: int, parts: int) -> str:
    """What to do where so many parts of a radix are too many.

    Examples
    --------
    >>> _fewer_ports(256, 8), _fewer_ports(1024, 600)
    ('give at most 128, or take 4 planes or fewer', 'leave planes out')
    """
    planes, most = clos.MAX_RADIX // radix, clos.MAX_RADIX // parts // 2 * 2
    fewer = f"take {planes} planes or fewer" if planes > 1 else "leave planes out"
    return f"give at most {most}, or {fewer}" if most >= MIN_SIZED_RADIX else fewer


def planes_note(spec: FabricSpec, sizing: Sizing) -> str:
    """What the planes of a fabric are, and which ports the radix counts.

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> from netplan import Scenario
    >>> whole = Scenario.load("hgx-b200").replace(gpus=4096, nic_gbps=800).sizing
    >>> spec = FABRICS.load("two-planes")
    >>> planes_note(spec, plane_sizing(spec, whole))[:56]
    '2 planes: the 64 ports of 800 Gb/s of a switch are split'
    """
    split = sizing.port_split
    if sizing.cards > 1:
        parts = f", each split into {split}" if split > 1 else ""
        return f"{spec.planes} planes, for {sizing.cards} network cards of every GPU{parts}."
    return (
        f"{spec.planes} planes: the {sizing.radix // split} ports of {split * sizing.speed_gbps:g}"
        f" Gb/s of a switch are split into {sizing.radix} of {sizing.speed_gbps:g} Gb/s, and the"
        " port of a GPU into one for every plane."
    )


REFUSED = "OpenSM's fat-tree routing refuses the network"


def tree_notes(tree: clos.FatTree, other: clos.FatTree | None, copies: int = 1) -> Iterator[str]:
    """What of a tree is uneven, and what the same with pods of unequal size would save.

    Examples
    --------
    >>> print(*tree_notes(clos.fat_tree(672, 64), None))
    Trunks from a switch differ by a link (32 links to 11 switches): OpenSM's fat-tree routing
    (ftree) takes them with its root switches listed (-a), updn and minhop as they are.
    """
    listed = "OpenSM's fat-tree routing (ftree) takes them with its root switches listed (-a)"
    uneven = next((tier for tier in tree.tiers if not tier.even_links), None)
    if not tree.even:
        yield f"Pods are of unequal size: {listed}, updn and minhop as they are."
    elif uneven is not None:
        yield (
            f"Trunks from a switch differ by a link ({uneven.uplinks} links to {uneven.planes}"
            f" switches): {listed}, updn and minhop as they are."
        )
    if other is not None and other.price < tree.price:
        yield (
            f"With pods of unequal size {copies * other.counts.switches:,} switches would do"
            " (fabric uneven-clos, or --set fabric.even_pods=false)."
        )


def _ratio(spec: SwitchTrees, sizing: Sizing) -> float:
    return sizing.oversubscription or spec.oversubscription


def _tiers(
    tree: clos.FatTree, sizing: Sizing, ranks: int, *, by_rank: bool = False
) -> tuple[Tier, ...]:
    """Tiers of a network that may bind, from the leaves up; it joins so many ranks of a domain."""
    domains = max(1, sizing.full_domains)
    extra = sizing.gpus % sizing.hb_size if ranks > 1 else 0
    tiers = []
    spread: tuple[int, ...] = (tree.endpoints,)
    for groups, links in tree.groups:
        spread += (groups,)
        tiers.append(Tier(spread, links, ranks, domains, extra, by_rank))
    return tuple(tier for tier in tiers if tier.oversubscription(domains) > 1)


def _fabric(
    spec: SwitchTrees,
    sizing: Sizing,
    counts: tuple[clos.ClosCounts, clos.ClosCounts],
    binding: tuple[Tier, ...],
    ratio: float,
) -> Fabric:
    """Assemble a fabric from its counts and the tiers that may bind."""
    tiers, links = clos_parts(*counts, spec.host_medium or "optical")
    rate = sizing.network_bytes_per_s * spec.planes
    notes = list(spec.notes)
    if spec.planes > 1:
        notes.append(planes_note(spec, sizing))
    if spec.trunk_width > 1 and len(tiers) > 1:
        rate_gbps = spec.trunk_width * sizing.speed_gbps
        notes.append(
            f"Links above the leaves are trunks of {rate_gbps:g} Gb/s, each in place of"
            f" {spec.trunk_width} ports of {sizing.speed_gbps:g} Gb/s, which the radix counts."
        )
    if isinstance(spec, RailOnly) and spec.circuit_switch and tiers:
        notes.append(
            f"Circuit switches ({spec.circuit_switch}) stand between GPUs and rails: an idle GPU of"
            " an HB domain takes the rail of a failed one on the same switches."
        )
    if ratio > 1:
        ports = clos.leaf_ports(sizing.radix, ratio, spec.trunk_width)
        notes.append(_thinned(ports, tiers=len(tiers), bottleneck=bool(binding)))
    rails = isinstance(spec, RailOnly)
    levels: tuple[Level, ...] = (
        spec.hb_level(sizing),
        network_level(sizing, max(1, sizing.full_domains), rate, binding, same_rank=rails),
    )
    return Fabric(
        name=spec.name,
        title=spec.title,
        sizing=sizing,
        tiers=tiers,
        links=links,
        nic_ports=sizing.gpus * spec.planes,
        levels=levels,
        network="rail-only" if rails else "any-to-any",
        notes=tuple(notes),
    )


def _thinned(ports: clos.LeafPorts, *, tiers: int, bottleneck: bool) -> str:
    """What the oversubscription of leaves does."""
    if tiers == 1:
        return "One tier of switches: there is no uplink to oversubscribe."
    if not bottleneck:
        return (
            f"Oversubscribed {ports.down}:{ports.up}, but rails lie under single leaves:"
            " traffic along rails keeps the full rate."
        )
    return (
        f"Leaves have {ports.down} ports down and {ports.up} up: where all of a leaf's"
        f" traffic leaves it, it runs at 1/{ports.oversubscription:.3g} of the port rate."
    )


class Stage(Struct, frozen=True, eq=False):
    """Links between two tiers of one network, as numbers within each tier, shape (links,)."""

    lower: AnyInts
    upper: AnyInts
    lower_port: AnyInts
    upper_port: AnyInts


class ClosWiring(Struct, frozen=True):
    """One Clos network, its switches numbered within each tier.

    The shape of a tier is a grid: ``(leaves,)``, and above it ``(spines,)`` or ``(planes,
    spines)``, with one more index for planes inside planes. Stages are the links below each tier;
    in the first, ``lower`` counts endpoints in order.
    """

    shapes: tuple[tuple[int, ...], ...]
    stages: tuple[Stage, ...]

    @property
    def switches_per_tier(self) -> tuple[int, ...]:
        """Switches in each tier [1]."""
        return tuple(int(np.prod(shape)) for shape in self.shapes)


def wire_tree(tree: clos.FatTree) -> ClosWiring:
    """Wire one Clos network."""
    if not tree.tiers:
        return ClosWiring((), ())
    leaves = tree.tiers[0].switches
    stages = [_spread(np.arange(tree.endpoints, dtype=np.int32), leaves)]
    shapes: list[tuple[int, ...]] = [(leaves,)]
    width = tree.trunk_width
    # A trunk of w ports has the number of the first of them, the next multiple of w.
    planes, first_port = 1, ceil_div(ceil_div(tree.endpoints, leaves), width)
    for lower, upper in pairwise(tree.tiers):
        stage = _planes(lower.switches, upper, planes, first_port)
        if width > 1:  # a link takes so many ports
            ports = width * stage.lower_port, width * stage.upper_port
            stage = Stage(stage.lower, stage.upper, *ports)
        stages.append(stage)
        shape = (*shapes[-1][:-1], upper.planes)
        shapes.append(shape if upper.switches == 1 else (*shape, upper.switches))
        planes *= upper.planes
        first_port = ceil_div(lower.switches, upper.switches) * upper.links_each
    return ClosWiring(tuple(shapes), tuple(stages))


def _spread(ends: AnyInts, leaves: int) -> Stage:
    """Endpoints in order, spread evenly: leaf l takes those from floor(l n / leaves) on."""
    starts = np.arange(leaves + 1, dtype=np.int64) * len(ends) // leaves
    sizes = np.diff(starts)
    leaf = np.repeat(np.arange(leaves, dtype=np.int32), sizes)
    port = ends - np.repeat(starts[:-1], sizes).astype(np.int32)
    return Stage(ends, leaf, np.zeros_like(ends), port)


def _planes(ends: int, tier: clos.TreeTier, outer: int, first_port: int) -> Stage:
    """Links from ``ends`` switches in each of ``outer`` planes to the planes above them.

    Ordered by outer plane, plane, switch and link; below the top tier by switch before plane.
    Bundle p of a switch leads to plane p, whose switches take the ends in order.
    """
    uplink = np.arange(tier.uplinks, dtype=np.int32)
    starts = tier.links_to(np.arange(tier.planes + 1)).astype(np.int32)
    plane_of = np.repeat(np.arange(tier.planes, dtype=np.int32), np.diff(starts))
    end, link = np.repeat(np.arange(ends, dtype=np.int32), tier.uplinks), np.tile(uplink, ends)
    if tier.switches > 1:
        by_plane = np.argsort(plane_of[link], kind="stable")
        end, link = end[by_plane], link[by_plane]
    around = np.repeat(np.arange(outer, dtype=np.int32), len(end))
    end, link = np.tile(end, outer), np.tile(link, outer)
    plane = plane_of[link]
    spread = _spread(np.arange(ends, dtype=np.int32), tier.switches)
    return Stage(
        around * ends + end,
        (around * tier.planes + plane) * tier.switches + spread.upper[end],
        first_port + link,
        spread.upper_port[end] * np.diff(starts)[plane] + link - starts[plane],
    )


class NetworkCopies(Struct, frozen=True):
    """Equal copies of one Clos network.

    ``prefix`` is the pattern before a switch's own name, with ``{}`` for the copy from ``first``
    on; it is empty for a single network. The leaves have names of their own if these stand for more
    than a number.
    """

    wiring: ClosWiring
    copies: int = 1
    prefix: str = ""
    first: int = 0
    leaf_names: NameBlock | None = None

    def switches(self, tier: int) -> int:
        """Switches of one tier, all copies together [1]."""
        sizes = self.wiring.switches_per_tier
        return self.copies * sizes[tier] if tier < len(sizes) else 0

    def names(self, tier: int) -> NameBlock:
        """Names of the switches of one tier."""
        if tier == 0 and self.leaf_names:
            return self.leaf_names
        label = tier_name(tier + 1).replace(" ", "-")
        shape = self.wiring.shapes[tier]
        pattern = "plane-{}/" * (len(shape) - 1) + label + "-{}"
        if self.prefix:
            return NameBlock(self.prefix + pattern, (self.copies, *shape), self.first)
        return NameBlock(pattern, shape)


def _attached(hosts: Ints, places: tuple[AnyInts, AnyInts], leaves: int, planes: int) -> "Stage":
    """Host links at the same leaf and port of every plane, which has so many leaves."""
    plane, every = np.divmod(np.arange(planes * len(hosts)), len(hosts))
    leaf, leaf_port = (place[every] for place in places)
    return Stage(hosts[every], plane * leaves + leaf, plane, leaf_port)


def wire_networks(
    fabric: Fabric, networks: list[NetworkCopies], attachment: Stage, begin: tuple[int, int]
) -> Wired:
    """Number all switches tier by tier, and translate every stage to node numbers.

    ``begin`` holds the number of the first switch and the port of a GPU that the network takes.
    """
    sizing = fabric.sizing
    first, port = begin
    nodes: list[Nodes] = []
    bases: list[list[int]] = []  # number of the first switch, by tier and network
    for tier in range(len(networks[0].wiring.shapes)):
        bases.append([])
        for network in networks:
            bases[tier].append(first)
            if network.switches(tier):
                nodes.append(Nodes(SWITCH, tier + 1, network.names(tier)))
                first += network.switches(tier)
    managers = max(0, int(attachment.lower.max()) + 1 - sizing.gpus)
    if managers:
        nodes.append(Nodes(MANAGER, 0, NameBlock("manager-{}", (managers,))))
    is_gpu = attachment.lower < sizing.gpus
    source = np.where(is_gpu, attachment.lower, attachment.lower - sizing.gpus + first)
    source_port = attachment.lower_port + port * is_gpu
    leaf = bases[0][0] + attachment.upper
    rate = sizing.network_bytes_per_s
    kind, leaf_port = fabric.links[0].kind, attachment.upper_port
    links = [Links(kind, source, leaf, source_port, leaf_port, rate, ROW)]
    for tier, group in enumerate(fabric.links[1:], start=1):
        for number, network in enumerate(networks):
            if network.switches(tier):
                base = (bases[tier - 1][number], bases[tier][number])
                links.append(_stage(network, tier, base, group, rate))
    return Wired(tuple(nodes), tuple(links))


def _stage(
    network: NetworkCopies, tier: int, base: tuple[int, int], group: LinkGroup, rate: float
) -> Links:
    """Links below one tier, copy after copy."""
    stage = network.wiring.stages[tier]
    sizes = network.wiring.switches_per_tier
    copy = np.arange(network.copies, dtype=np.int32)

    def repeat(numbers: AnyInts, first: int, step: int) -> AnyInts:
        if network.copies == 1:
            return numbers + np.int32(first)
        repeated: AnyInts = np.add.outer(copy * np.int32(step), numbers + np.int32(first)).ravel()
        return repeated

    return Links(
        group.kind,
        repeat(stage.lower, base[0], sizes[tier - 1]),
        repeat(stage.upper, base[1], sizes[tier]),
        repeat(stage.lower_port, 0, 0),
        repeat(stage.upper_port, 0, 0),
        group.width * rate,
        HALL,
    )

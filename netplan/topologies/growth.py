"""Fabrics that grow: one final design, and the part of it that every phase has.

A phase is a sub-fabric of the final design: the GPUs that have come so far, the switches that they
need, and the cables between these, each between the same two ports as in the end. So nothing is
ever moved. What is free is which leaves the GPUs of a phase take, and which switches they need:

*Clos networks* (one, one a plane, or one a rail). A phase spreads its endpoints evenly over some
leaves of some pods. With h of its hosts a leaf needs uplinks for h, so that only some planes of
spines are there yet; with some of its leaves a pod needs only some cores. Filling leaves from the
start saves leaves, filling them later saves spines and cores
(:func:`best_fills` weighs all of it). Whatever is taken, every switch has
as many links up as down (leaves: as the oversubscription asks) and links to all switches above that
are there, alike: each phase is a folded Clos network by itself, and does not block.

*Scalable units* grow by nodes, unit after unit, with all leaves of a unit.

*Dragonflies* grow by whole groups, each pair with the links of the final design; the global ports
to groups that are not there stay free, and so does their bandwidth.

Other families close rings or full meshes over what is there, and cannot grow without moving cables
(:func:`moved_cables` counts them).

How far each phase fills the leaves and pods of a Clos network that grows, for the least price.

With few hosts a leaf, a phase has more leaves, but fewer planes of spines: a leaf needs uplinks for
the hosts that it has. With few leaves a pod, it has more pods, but fewer cores: a spine needs links
up for the leaves that it has. All is by formula; :func:`plan_growth` fills the leaves.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints, ceil_div
from netplan.errors import InputError
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric, LinkGroup, Sizing, SwitchTier
from netplan.topologies.families import clos, switched
from netplan.topologies.families.dragonfly import Dragonfly, dragonfly_shape
from netplan.topologies.graph import GPU, MANAGER, SWITCH, FabricGraph, network_only
from netplan.topologies.specs import FabricSpec

MOST_FILLS = 32
"""Numbers of hosts a leaf, and of pods, that are tried [1]."""

TIE = 1e-6
"""What paying early costs at least, so that of phases that cost alike the smaller is taken [1]."""


class Fill(Struct, frozen=True):
    """How far a phase fills the final design: its leaves, and leaves a pod at most [1]."""

    leaves: int
    per_pod: int

    @classmethod
    def of_all_leaves(cls, tree: clos.FatTree) -> "Fill":
        """All leaves."""
        return cls(tree.leaves, ceil_div(tree.leaves, pod_count(tree)))


class PhasePrices(Struct, frozen=True):
    """What a phase is judged by: price of a switch and of a link, and what its early price costs.

    ``early`` has for each phase the share of the price that paying in it, and not in the next,
    costs; the last one's design is given [1].
    """

    switch: float
    link: float
    early: tuple[float, ...]


class _Choices(Struct, frozen=True, eq=False):
    """Fills that a phase may have: leaves, leaves a pod and pods, and their price, shape (n,)."""

    leaves: Ints
    per_pod: Ints
    pods: Ints
    price: Floats

    def before(self, other: "_Choices") -> Bools:
        """Which fills of a phase may follow these in the next, shape (these, others)."""
        grows = np.ones((len(self.leaves), len(other.leaves)), bool)
        for name in ("leaves", "per_pod", "pods"):
            grows &= getattr(self, name)[:, None] <= getattr(other, name)[None, :]
        return grows


def best_fills(
    tree: clos.FatTree,
    ports: clos.LeafPorts,
    arrivals: Sequence[int],
    weights: PhasePrices,
    early_oversubscription: float = 1.0,
    *,
    even: bool = True,
) -> list[Fill]:
    """Leaves, and leaves a pod, phase by phase, that cost least; neither ever shrinks.

    What a phase has is paid for in it and not in the next one, so that the price of all phases is
    the sum over them of what they have, times what paying it so early costs: a shortest path over
    the fills of the phases.

    Parameters
    ----------
    tree, ports
        The final network, and how its leaves split their ports.
    arrivals
        Endpoints of every phase; the last one has all [1].
    weights
        What early switches and links cost.
    early_oversubscription
        Leaf uplinks that a full network would have over those of a phase before the last [1].
    even
        Whether the pods of every phase have as many leaves, as OpenSM's fat-tree routing asks.

    Examples
    --------
    512 hosts on two tiers of 64 ports: h a leaf need 512 / h leaves and h spines, least near
    sqrt(512) = 22.6: 22 + 24, or 19 + 27.

    >>> from netplan.topologies.families.clos import fat_tree, leaf_ports
    >>> tree, ports = fat_tree(2048, 64), leaf_ports(64)
    >>> best_fills(tree, ports, [512, 2048], PhasePrices(1.0, 0.0, (1.0, 0.0)))
    [Fill(leaves=19, per_pod=19), Fill(leaves=64, per_pod=64)]
    """
    fills = [Fill.of_all_leaves(tree)]
    phases = [
        _choices(tree, ports, ends, weights, early_oversubscription, even=even)
        for ends in arrivals[:-1]
    ]
    if not phases:
        return fills
    best = phases[0].price * max(weights.early[0], TIE)
    back: list[Ints] = []
    for number, (before, after) in enumerate(pairwise(phases), start=1):
        path = np.where(before.before(after), best[:, None], np.inf)
        back.append(path.argmin(axis=0))
        best = path.min(axis=0) + after.price * max(weights.early[number], TIE)
    # Of equals the fullest leaves, which are the fewest places to lay cables to.
    cheapest = len(best) - 1 - int(best[::-1].argmin())
    for number in range(len(phases) - 1, -1, -1):
        fills.append(
            Fill(int(phases[number].leaves[cheapest]), int(phases[number].per_pod[cheapest]))
        )
        cheapest = int(back[number - 1][cheapest]) if number else cheapest
    return fills[::-1]


def pod_count(tree: clos.FatTree) -> int:
    """Pods of the leaves; one where two tiers suffice [1]."""
    return tree.tiers[1].switches if tree.tiers[1:] else 1


def _choices(
    tree: clos.FatTree,
    ports: clos.LeafPorts,
    ends: int,
    weights: PhasePrices,
    early: float,
    *,
    even: bool,
) -> _Choices:
    """All fills that hold so many endpoints, with the price of what each needs."""
    whole = Fill.of_all_leaves(tree)
    hosts, pods = (
        axis.ravel()
        for axis in np.meshgrid(
            _tried(tree.hosts_per_leaf), _tried(pod_count(tree))[::-1], indexing="ij"
        )
    )
    leaves = -(-ends // hosts)
    per_pod = -(-leaves // pods)
    leaves = per_pod * pods if even else leaves
    pods = -(-leaves // per_pod)
    price = _price(tree, ports, (ends, leaves, per_pod), weights, early)
    fits = (leaves <= tree.leaves) & (per_pod <= whole.per_pod) & (leaves <= max(ends, 1))
    return _Choices(leaves, per_pod, pods, np.where(fits, price, np.inf))


def _tried(most: int) -> Ints:
    """Numbers up to the most, all of them or some."""
    return np.unique(np.linspace(1, most, min(most, MOST_FILLS)).round().astype(np.int64))


def _price(
    tree: clos.FatTree,
    ports: clos.LeafPorts,
    filled: tuple[int, Ints, Ints],
    weights: PhasePrices,
    early: float,
) -> Floats:
    """Price of the switches and links that endpoints on so many leaves need, tier by tier."""
    ends, count, fill = filled
    hosts = -(-ends // count)
    need = np.ceil(-(-hosts * ports.up // ports.down) / early / tree.trunk_width).astype(np.int64)
    switches, links = count.copy(), 0 * count + ends
    width = 0 * count + 1
    for number, (lower, tier) in enumerate(zip(tree.tiers, tree.tiers[1:], strict=False)):
        used = tier.planes_for(need) * (count > 1)
        links = links + width * count * tier.links_to(used)
        width = width * used
        if number:
            fill = 0 * count + ceil_div(lower.switches, tier.switches)
        above = -(-count // fill) if tier.switches > 1 else 0 * count + 1
        switches = switches + width * above
        need = np.minimum(fill, count) * tier.links_each
        count = above
    return weights.switch * switches + weights.link * links


GROWING = (switched.SwitchTrees, Dragonfly)
"""Families that grow without moving a cable."""


class Phase(Struct, frozen=True, eq=False):
    """One phase: its nodes and links in the final graph, shapes (nodes,) and (links,), and counts.

    ``oversubscription`` is the most that any switch but those of the top tier has down over up, by
    links that are there; ``leaf_hosts`` and ``leaf_uplinks`` are the most of any leaf [1].
    """

    fabric: Fabric
    nodes: Bools
    links: Bools
    oversubscription: float
    leaf_hosts: int
    leaf_uplinks: int


class Growth(Struct, frozen=True, eq=False):
    """The final design as counts and as the graph of its network, and its phases in order."""

    fabric: Fabric
    graph: FabricGraph
    phases: tuple[Phase, ...]

    def graph_of(self, phase: int, *, new: bool = False) -> FabricGraph:
        """Graph of one phase, numbered from 0; its names are those of the final design.

        If ``new``, it has the links alone that the phase before lacks.
        """
        part = self.phases[phase]
        before = self.phases[phase - 1].links if new and phase else np.zeros(1, bool)
        return self.graph.part(part.nodes, part.links & ~before)


def plan_growth(
    spec: FabricSpec,
    sizing: Sizing,
    phases: Sequence[int],
    weights: PhasePrices,
    *,
    early_oversubscription: float = 1.0,
    full_leaves: bool = False,
) -> Growth:
    """Grow a fabric to its final size, without moving a cable.

    Parameters
    ----------
    spec, sizing
        The fabric, and the final cluster.
    phases
        GPUs of every phase, rising to those of the sizing [1].
    weights
        What early switches and links cost.
    early_oversubscription
        Leaf uplinks that a full network would have over those of a phase before the last [1].
    full_leaves
        Whether every leaf is filled before the next one is bought.

    Raises
    ------
    InputError
        If the family cannot grow so, or a phase of rails ends within an HB domain.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=2048, radix=64).sizing
    >>> weights = PhasePrices(1.0, 0.0, (1.0, 0.0))
    >>> found = plan_growth(FABRICS.load("fat-tree"), sizing, [512, 2048], weights)
    >>> [[tier.switches for tier in one.fabric.tiers] for one in found.phases]
    [[19, 27], [64, 32]]
    """
    if not isinstance(spec, GROWING):
        raise InputError(f"{spec.name}: a {spec.family} does not grow without moving cables")
    fabric = build_fabric(spec, sizing)
    sizing = fabric.sizing
    if isinstance(spec, switched.RailOnly) and spec.shared_rails:
        shared = fabric.switches
        spec = spec.changed(shared_rails=False)
        fabric = build_fabric(spec, sizing)
        if fabric.switches > shared:
            note = (
                f"Rails grow apart: sharing leaves, as in one phase, {shared:,} switches would do."
            )
            fabric = replace(fabric, notes=(note, *fabric.notes))
    if isinstance(spec, Dragonfly):
        return _dragonfly(spec, fabric, phases)
    ordered = spec.changed(rail_wiring=False) if isinstance(spec, switched.Clos) else spec
    graph = network_only(expand(ordered, sizing))
    if isinstance(spec, switched.RailOnly):
        whole = [gpus for gpus in phases if gpus % sizing.hb_size]
        if whole:
            raise InputError(
                f"{spec.name}: a phase of {whole[0]:,} GPUs ends within an HB domain: give"
                f" multiples of {sizing.hb_size:,}"
            )
        if sizing.domains <= sizing.radix:
            # Rails that one switch holds: all switches are there from the first phase on.
            every = np.ones(int((graph.node_kind == SWITCH).sum()), bool)
            return Growth(
                fabric, graph, tuple(_phase(fabric, graph, gpus, every) for gpus in phases)
            )
    network = _TreeCopies.of(spec, sizing)
    taken = network.taken(phases, weights, early_oversubscription, full_leaves=full_leaves)
    graph = network.arrived(graph, phases, taken)
    grown = []
    for number, (gpus, hosts) in enumerate(zip(phases, taken, strict=True)):
        last = number == len(phases) - 1
        ratio = 1.0 if last else early_oversubscription
        switches = network.switches(hosts, ratio, last=last)
        managers = last or not isinstance(spec, switched.ScalableUnits)
        grown.append(_phase(fabric, graph, gpus, switches, managers=managers))
    return Growth(fabric, graph, tuple(grown))


class _TreeCopies(Struct, frozen=True, eq=False):
    """Equal copies of one fat tree, and what arrives at its leaves.

    Endpoints are GPUs, or HB domains where each rail has a tree; ``extra`` of them are management
    hosts, there from the first phase on. ``caps`` are the endpoints of every leaf in the end.
    """

    spec: switched.SwitchTrees
    sizing: Sizing
    tree: clos.FatTree
    ports: clos.LeafPorts
    copies: int
    caps: Ints
    starts: Ints
    extra: int

    @classmethod
    def of(cls, spec: switched.SwitchTrees, sizing: Sizing) -> "_TreeCopies":
        """The network of a spec in a size."""
        ratio = sizing.oversubscription or spec.oversubscription
        units = isinstance(spec, switched.ScalableUnits)
        if isinstance(spec, switched.RailOnly):
            tree = spec.networks(sizing)[0].tree
            copies = sizing.hb_size * spec.planes
        else:
            tree, copies = spec.tree(sizing), spec.planes
        starts = np.arange(tree.leaves + 1, dtype=np.int64) * tree.endpoints // tree.leaves
        return cls(
            spec,
            sizing,
            tree,
            clos.leaf_ports(sizing.radix, 1.0 if units else ratio),
            copies,
            np.diff(starts),
            starts,
            spec.management_links,
        )

    def taken(
        self, phases: Sequence[int], weights: PhasePrices, early: float, *, full_leaves: bool
    ) -> list[Ints]:
        """Endpoints that every leaf has in each phase, shape (leaves,) each."""
        per_host = self.sizing.hb_size if isinstance(self.spec, switched.RailOnly) else 1
        if isinstance(self.spec, switched.ScalableUnits):
            # Management hosts take what is left in the last unit.
            return [self._units(gpus + self.extra * (gpus == phases[-1])) for gpus in phases]
        arrivals = [gpus // per_host + self.extra for gpus in phases]
        if full_leaves:
            whole = Fill.of_all_leaves(self.tree)
            most = int(self.caps.max())
            fills = [Fill(ceil_div(count, most), whole.per_pod) for count in arrivals[:-1]]
            fills.append(whole)
        else:
            even = self.spec.even_pods
            fills = best_fills(self.tree, self.ports, arrivals, weights, early, even=even)
        slots: list[Ints] = []
        hosts = np.zeros(self.tree.leaves, np.int64)
        for count, fill in zip(arrivals, fills, strict=True):
            hosts = self._filled(hosts, count, fill)
            slots.append(hosts)
        return slots

    def _filled(self, had: Ints, count: int, fill: Fill) -> Ints:
        """So many endpoints spread evenly over the leaves of a fill; those that are there stay."""
        leaves = self.tree.leaves
        pod = clos.even_groups(np.arange(leaves), leaves, pod_count(self.tree))
        place = np.arange(len(pod)) - np.searchsorted(pod, pod)
        inside = place < fill.per_pod
        here = (had > 0) | (inside & (np.cumsum(inside) <= fill.leaves))
        short = count - int(self.caps[here].sum())
        if short > 0:  # some leaves lack a host in the end
            others = np.flatnonzero(~here)
            here[others[: np.searchsorted(np.cumsum(self.caps[others]), short) + 1]] = True
        caps = np.where(here, self.caps, 0)
        level = 0
        while np.maximum(had, np.minimum(caps, level + 1)).sum() <= count:
            level += 1
            if level >= caps.max():
                break
        hosts = np.maximum(had, np.minimum(caps, level))
        higher = np.flatnonzero((caps > level) & (had <= level))
        hosts[higher[: count - int(hosts.sum())]] += 1
        return hosts

    def _units(self, count: int) -> Ints:
        """Nodes of scalable units, one after the other: every rail of a unit has a leaf."""
        rails, half = self.sizing.hb_size, self.sizing.radix // 2
        nodes = ceil_div(self.sizing.gpus + self.extra, rails)
        if self.tree.endpoints // (rails * half) > ceil_div(nodes, half):
            raise InputError(
                f"{self.spec.name}: {self.sizing.gpus:,} GPUs are spread over more units than they"
                " fill, since so many wire evenly: give a final size that fills such units, or"
                " --fabric rail-optimized"
            )
        node, rank = np.divmod(np.arange(count), rails)
        leaf = node // half * rails + rank
        return np.bincount(leaf, minlength=self.tree.leaves)

    def arrived(
        self, graph: FabricGraph, phases: Sequence[int], taken: Sequence[Ints]
    ) -> FabricGraph:
        """The graph with every GPU at the port that it takes when it comes.

        ``graph`` has endpoint e of the tree at GPU e, or at HB domain e.
        """
        sizing, rails = self.sizing, self.sizing.hb_size
        moved = np.arange(graph.node_count, dtype=np.int32)
        if isinstance(self.spec, switched.ScalableUnits):
            return graph
        hosts = np.arange(sizing.gpus + self.extra)
        managers = np.flatnonzero(graph.node_kind == MANAGER)
        node = np.where(hosts < sizing.gpus, hosts, 0)
        node[sizing.gpus :] = managers
        first, had = 0, np.zeros(self.tree.leaves, np.int64)
        for number, (gpus, now) in enumerate(zip(phases, taken, strict=True)):
            sizes = now - had
            within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            slots: Ints = np.repeat(self.starts[:-1] + had, sizes) + within
            if isinstance(self.spec, switched.RailOnly):
                domains = np.arange(first // rails, gpus // rails)
                for rank in range(rails):
                    moved[slots * rails + rank] = domains * rails + rank
            else:
                new = np.arange(first, gpus)
                if self.spec.rail_wiring:
                    new = new[np.lexsort((new, new % rails))]
                if number == 0:
                    new = np.concatenate((new, hosts[sizing.gpus :]))
                moved[node[slots]] = node[new]
            first, had = gpus, now
        return replace(graph, source=moved[graph.source])

    def switches(self, hosts: Ints, early: float, *, last: bool) -> Bools:
        """Which switches a phase has, tier by tier and copy by copy, shape (switches,)."""
        tree, here = self.tree, hosts > 0
        if last:
            here = np.ones(tree.leaves, bool)
        present = [np.tile(here, self.copies)]
        planes: list[slice | Bools] = []
        most = self.ports.uplinks(int(hosts.max(initial=0)))
        need = most if early == 1 else int(np.ceil(most / early))
        need = ceil_div(need, tree.trunk_width)
        for shape, tier in zip(switched.wire_tree(tree).shapes[1:], tree.tiers[1:], strict=True):
            used = int(tier.planes_for(need))
            used = tier.planes if last else used * int(here.sum() > 1)
            planes.append(slice(used))
            grid = np.zeros(shape, bool)
            group = clos.even_groups(np.arange(len(here)), len(here), tier.switches)
            hosts_at = np.bincount(group[here], minlength=tier.switches)
            here = hosts_at > 0
            grid[tuple([*planes, here] if tier.switches > 1 else planes)] = True
            present.append(np.tile(grid.ravel(), self.copies))
            need = int(hosts_at.max(initial=0)) * tier.links_each
        return np.concatenate(present)


def _phase(
    fabric: Fabric, graph: FabricGraph, gpus: int, switches: Bools, *, managers: bool = True
) -> Phase:
    """A phase of so many GPUs with some of the switches, counted from the graph."""
    nodes = np.full(graph.node_count, managers)
    nodes[: graph.gpus] = np.arange(graph.gpus) < gpus
    nodes[graph.node_kind == SWITCH] = switches
    links = nodes[graph.source] & nodes[graph.target]
    ends = np.concatenate((graph.source[links], graph.target[links]))
    ports = np.tile(port_widths(graph)[links], 2)
    degree = np.bincount(ends, ports, minlength=graph.node_count)
    tiers = []
    for number, tier in enumerate(fabric.tiers, start=1):
        mine = nodes & (graph.node_kind == SWITCH) & (graph.node_tier == number)
        count = int(mine.sum())
        if count:
            tiers.append(SwitchTier(tier.name, count, count, int(degree[mine].sum())))
    counts = replace(graph, group=graph.group[links]).links_per_group()
    groups = [
        LinkGroup.of(group.kind, counts[group.name])
        for group in fabric.links
        if group.name in counts
    ]
    part = replace(
        fabric,
        sizing=replace(fabric.sizing, gpus=gpus, hb_size=min(fabric.sizing.hb_size, gpus)),
        tiers=tuple(tiers),
        links=tuple(groups),
        nic_ports=fabric.nic_ports * gpus // fabric.sizing.gpus,
        levels=(),
        notes=(),
    )
    below, above = _down_and_up(graph, links)
    leaves = (graph.node_kind == SWITCH) & (graph.node_tier == 1)
    most = [int(count[leaves].max(initial=0)) for count in (below, above)]
    return Phase(part, nodes, links, blocking(graph, links), *most)


def blocking(graph: FabricGraph, links: Bools) -> float:
    """Most links down over links up of any switch that has both, by links that are there [1].

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16)
    >>> graph = network_only(scenario.fabric("fat-tree").graph())
    >>> blocking(graph, np.ones(graph.link_count, bool))
    1.0
    """
    below, above = _down_and_up(graph, links)
    both = (above > 0) & (below > 0) & (graph.node_kind != GPU)
    return float((below[both] / above[both]).max(initial=1.0))


def port_widths(graph: FabricGraph) -> Ints:
    """Rate of every link over that of the slowest, shape (links,) [1].

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.specs import FABRICS
    >>> spec = FABRICS.load("wide-trunks")
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16)
    >>> graph = network_only(expand(spec, scenario.sizing))
    >>> np.unique(port_widths(graph), return_counts=True)[1].tolist()  # hosts, trunks
    [64, 32]
    """
    rate = graph.bytes_per_s
    widths: Ints = np.rint(rate / rate.min(initial=np.inf)).astype(np.int64)
    return widths


def _down_and_up(graph: FabricGraph, links: Bools) -> tuple[Ints, Ints]:
    """Ports of every node to lower and to higher tiers, those in use, shape (nodes,)."""
    tier, count = graph.node_tier, graph.node_count
    source, target = graph.source[links], graph.target[links]
    up = tier[target] > tier[source]
    lower, upper = np.where(up, source, target), np.where(up, target, source)
    across = tier[source] != tier[target]
    ports = port_widths(graph)[links][across]
    ends = (upper[across], lower[across])
    below, above = (np.bincount(end, ports, minlength=count).astype(np.int64) for end in ends)
    return below, above


def _dragonfly(spec: FabricSpec, fabric: Fabric, phases: Sequence[int]) -> Growth:
    """Whole groups, as many as hold the GPUs of a phase."""
    shape = dragonfly_shape(spec, fabric.sizing)
    graph = network_only(expand(spec, fabric.sizing))
    group = shape.group_of(np.arange(shape.switches))
    # A product of so many groups has all of them in the end.
    last = shape.switch_of(np.array(phases[:-1], np.int64) - 1, fabric.sizing.gpus)
    held = (shape.group_of(last) + 1).tolist()
    parts = [
        _phase(fabric, graph, gpus, group < groups)
        for gpus, groups in zip(phases, (*held, shape.groups), strict=True)
    ]
    return Growth(fabric, graph, tuple(parts))


def moved_cables(before: FabricGraph, after: FabricGraph, *, by_port: bool = True) -> int:
    """Cables of one design that the other does not have, device by device and port by port [1].

    Devices are told by their names. Without ports, those whose two devices are joined by fewer
    cables.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=64, radix=16).sizing
    >>> one = network_only(expand(FABRICS.load("fat-tree"), sizing))
    >>> two = network_only(expand(FABRICS.load("fat-tree"), replace(sizing, gpus=128)))
    >>> moved_cables(one, one), moved_cables(one, two)  # 8 leaves to 4 spines, then 16 to 8
    (0, 63)
    """
    number = {name: index for index, name in enumerate(after.names)}
    for name in before.names:
        number.setdefault(name, len(number))
    sources, targets = [], []
    for graph in (before, after):
        known = np.array([number[name] for name in graph.names], np.int64)
        ends = (graph.source, graph.source_port), (graph.target, graph.target_port)
        source, target = (known[node] * clos.MAX_RADIX + port * by_port for node, port in ends)
        sources.append(source)
        targets.append(target)
    code = np.unique(np.concatenate((*sources, *targets)), return_inverse=True)[1].reshape(2, -1)
    low, high = code.min(axis=0), code.max(axis=0)
    cable = np.unique(low * (high.max(initial=0) + 1) + high, return_inverse=True)[1]
    first, second = (
        np.bincount(part, minlength=len(cable))
        for part in (cable[: before.link_count], cable[before.link_count :])
    )
    return int(np.maximum(first - second, 0).sum())

"""Networks of switches joined directly: hosts at every switch, links between switches.

HyperX, Slim Fly, Jellyfish, dragonfly+ and other graphs differ only in which switches are joined. A
family makes a :class:`SwitchGraph`; counts, levels, ports and wiring follow from it here.

GPUs fill the switches that take hosts in order, so many to a switch, or are spread evenly over all;
what a design holds beyond the GPUs that are asked for are idle places, at its end or one on some
switches. On a switch the ports of hosts come first, then those of the link groups in their order,
each in the order of its links.

Levels: HB domain, and the network of all domains, whose tiers are the switches. Symbols: s
switches of T hosts, w what the busiest link carries when each switch sends 1 to each other one.

* Detours. Whatever the traffic, each message may go to a switch drawn from all of them, and from
  there where it is bound. Then links carry what they would if all switches sent to all, as much as
  leaves them, twice: X leaving each busies no link longer than 2 X w / s. So traffic finds as many
  links out of a switch as in a tree whose leaves have s / (2 w) uplinks, whoever talks to whom.
* All to all takes no detours: T T / N to each other switch, w times that on the busiest link.

Messages inside a group of switches (a dragonfly's) take detours there, or its spines. What adaptive
routing reaches (`netplan.traffic.routing_joined`) is never less than detours alone.

Sources: Valiant and Brebner, Universal Schemes for Parallel Communication (STOC 1981); Singh,
Load-Balanced Routing in Interconnection Networks (thesis, Stanford 2005) for UGAL, which chooses
between the two for each packet.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Floats, Ints, ceil_div, places
from netplan.errors import InputError
from netplan.levels import Level, Tier
from netplan.records import PositiveInt, replace
from netplan.topologies.assembly import Links, NameBlock, Nodes, Wired
from netplan.topologies.fabric import Fabric, LinkGroup, Sizing, SwitchTier, network_level
from netplan.topologies.families.clos import even_groups
from netplan.topologies.families.spreading import AmongAll, Pairs, SwitchMesh
from netplan.topologies.families.switched import plane_sizing, planes_note
from netplan.topologies.graph import HALL, HOST_LINKS, RACK, ROW, SWITCH, LinkType
from netplan.topologies.graph.splitting import propagate_demand, rounds_from
from netplan.topologies.specs import FabricSpec
from netplan.units import counted

MEASURED_SOURCES, LEAST_SOURCES, MEASURED_ARCS = 64, 4, 20_000_000
"""Switches from which hops are counted: all of smaller networks, spread evenly over larger ones, as
many as keep the work over all arcs within a limit."""

ROUNDING = 1e-9
LEAST_NOTED = 0.99
"""Share of a port's rate that counts as the whole, where GPUs are spread evenly [1]."""
TRIED = 4
"""Switches more than the fewest that are tried for fewer links [1]."""


def joined_links(name: str, axis: int = 0, *, tier: int = 1) -> LinkType:
    """Links between switches of one tier, along an axis if there are several."""
    return LinkType(name, "joined", axis=axis, tiers=(tier, tier))


BETWEEN_SWITCHES = joined_links("between switches")
"""Group of links of graphs whose links are all alike, by which routing knows them."""

MEASURED_LOADS = 3_000_000
"""Switches times links of networks whose every link is loaded; of larger ones those of a group are
taken on average [1]."""

UNEVEN = 1.45
"""What the busiest link of a large random graph carries at most, over the mean [1]: 1.44 in one of
500 switches with 40 links, 1.20 of 1,600 with 24 (``tests/topologies/families``)."""


class Groups(Struct, frozen=True):
    """Groups of switches, whose traffic stays inside where it can.

    Parameters
    ----------
    switches
        Switches with hosts of a group [1].
    links
        Links out of one of them that its own traffic has at least, whoever talks to whom [1].
    """

    switches: int
    links: float


class SwitchLinks(Struct, frozen=True, eq=False):
    """Links of one group between switches, numbered from 0: their ends, shape (links,)."""

    kind: LinkType
    source: AnyInts
    target: AnyInts


class SwitchGraph(Struct, frozen=True, eq=False, dict=True):
    """Switches joined directly.

    Parameters
    ----------
    tiers
        Names of the switches, tier by tier; those of the first tier take hosts.
    hosts
        Hosts that a switch of the first tier holds [1].
    links
        Links between switches, group by group.
    shape_words
        What the design is, in a sentence.
    groups
        Groups of switches, where it has any.
    even
        Whether links of a group carry alike where all switches send to all.
    spread
        Whether the GPUs are spread evenly over the switches with hosts, which else fill in order.
    """

    tiers: tuple[tuple[str, NameBlock], ...]
    hosts: int
    links: tuple[SwitchLinks, ...]
    shape_words: str
    groups: Groups | None = None
    even: bool = False
    spread: bool = False

    @property
    def host_switches(self) -> int:
        """Switches that take hosts [1]."""
        return len(self.tiers[0][1])

    @property
    def switches(self) -> int:
        """Switches of all tiers [1]."""
        return sum(len(names) for _, names in self.tiers)

    @property
    def capacity(self) -> int:
        """Hosts that it holds [1]."""
        return self.hosts * self.host_switches

    def starts(self, gpus: int) -> Ints:
        """First GPU of each switch with hosts, and the end of the last, shape (switches + 1,) [1].

        Examples
        --------
        >>> graph = SwitchGraph((("switch", NameBlock("switch-{}", (4,))),), 3, (), "")
        >>> graph.starts(9).tolist(), replace(graph, spread=True).starts(9).tolist()
        ([0, 3, 6, 9, 9], [0, 2, 4, 6, 9])
        """
        order = np.arange(self.host_switches + 1)
        if self.spread:
            return order * gpus // self.host_switches
        return np.minimum(order * self.hosts, gpus)

    def degrees(self) -> AnyInts:
        """Links of every switch to others, shape (switches,) [1]."""
        ends = [end for group in self.links for end in (group.source, group.target)]
        joined = np.concatenate(ends, dtype=np.int64) if ends else np.empty(0, np.int64)
        return np.bincount(joined, minlength=self.switches)

    @cached_property
    def pair_loads(self) -> tuple[float, ...]:
        """What the busiest link of each group carries if each switch sends 1 to each other one [1].

        Switches with hosts do so. Links of groups of switches come first.

        Examples
        --------
        Three switches in a line: the first link carries what goes to two of them.

        >>> names, ends = NameBlock("switch-{}", (3,)), (np.array([0, 1]), np.array([1, 2]))
        >>> line = SwitchLinks(BETWEEN_SWITCHES, *ends)
        >>> SwitchGraph((("switch", names),), 8, (line,), "").pair_loads
        (2.0,)
        """
        mesh = self.mesh
        if mesh.hosts == 1 or not len(mesh.source):
            return (0.0,) * len(self.links)
        if mesh.work <= MEASURED_LOADS:
            begins = np.cumsum([0, *(len(group.source) for group in self.links[:-1])])
            most = np.maximum.reduceat(mesh.all_to_all().max(axis=0), begins)
        else:
            arcs = [2 * len(group.source) for group in self.links]
            most = self.hops() * mesh.hosts * (mesh.hosts - 1) / arcs
            most = most * (1.0 if self.even else UNEVEN)
        return tuple(most.tolist())

    @property
    def pair_load(self) -> float:
        """What the busiest of all links carries if each switch sends 1 to each other one [1]."""
        return max(self.pair_loads, default=0.0)

    @property
    def even_pair_load(self) -> float:
        """The same where every switch splits evenly over the next links, as ECMP does [1]."""
        mesh = self.mesh
        if mesh.weight is None:
            return self.pair_load
        even = SwitchMesh(mesh.switches, mesh.hosts, mesh.source, mesh.target)
        return float(even.all_to_all().max())

    @property
    def own_groups(self) -> Groups | None:
        """Groups, with the links that a switch has for what it sends to all others."""
        groups, mesh = self.groups, self.mesh
        if groups is None or groups.switches == mesh.hosts or mesh.work > MEASURED_LOADS:
            return groups
        sent = np.zeros(mesh.hosts)
        sent[0] = 1 / mesh.hosts
        alone = AmongAll(np.zeros(mesh.hosts, np.int64), sent, np.zeros(mesh.hosts))
        return Groups(groups.switches, min(groups.links, 1 / float(mesh.loads((alone,)).max())))

    @cached_property
    def mesh(self) -> SwitchMesh:
        """All switches, and the links of all groups, weighted where there are not too many."""
        nothing = np.empty(0, np.int64)
        source = np.concatenate([nothing, *(group.source for group in self.links)])
        target = np.concatenate([nothing, *(group.target for group in self.links)])
        return SwitchMesh(self.switches, self.host_switches, source, target).balanced()

    def hops(self, filled: int | None = None) -> Floats:
        """Hops over each group of links on shortest paths, a pair of switches with hosts [1].

        Of all shortest paths between two switches each counts the same. Shape (groups,). Only the
        first ``filled`` switches count, if given.
        """
        hosts = self.host_switches if filled is None else filled
        if not self.links or hosts == 1:
            return np.zeros(len(self.links))
        arcs = 2 * sum(len(group.source) for group in self.links)
        most = max(LEAST_SOURCES, min(MEASURED_SOURCES, MEASURED_ARCS // arcs))
        sources = np.unique(np.linspace(0, hosts - 1, min(hosts, most)).astype(np.int64))
        return self._hops_from(sources, hosts) / (len(sources) * (hosts - 1))

    def _hops_from(self, sources: AnyInts, hosts: int) -> Floats:
        """Hops over each group on the paths from some switches to all others with hosts [1].

        All shortest paths between two switches carry alike.
        """
        # Only this needs SciPy, and most questions ask other fabrics.
        from scipy.sparse import coo_array  # noqa: PLC0415

        shape = (self.switches, self.switches)
        joined = [
            coo_array(
                (np.ones(len(links.source)), (links.source, links.target)), shape=shape
            ).tocsr()
            for links in self.links
        ]
        groups = [(links + links.T).tocsr() for links in joined]
        every = sum(groups[1:], start=groups[0])
        ends = np.zeros((self.switches, len(sources)))
        ends[:hosts] = 1.0
        hops = np.zeros(len(groups))
        for flows, near in propagate_demand(
            every, rounds_from(every, sources, by_paths=True), ends
        ):
            hops += [float((near * (group @ flows)).sum()) for group in groups]
        return hops


@lru_cache(maxsize=8)
def switch_graph(spec: FabricSpec, sizing: Sizing) -> SwitchGraph:
    """Switches of one plane of a fabric, and which are joined: counts, links and levels share it.

    Parameters
    ----------
    spec, sizing
        The spec, and the sizing of one plane: that of a built fabric.

    Raises
    ------
    InputError
        If the fabric cannot be built in this size, or a switch lacks ports.
    """
    if not isinstance(spec, JoinedSwitches):
        raise InputError(f"{spec.name} is no network of switches joined directly: give one")
    graph = spec.plane_graph(sizing)
    needed = graph.degrees()
    needed[: graph.host_switches] += graph.hosts
    refuse_ports(spec.name, int(needed.max()), graph.hosts, sizing.radix)
    return graph


def one_switch(gpus: int) -> SwitchGraph:
    """The network of GPUs that one switch holds: no others, no links to them.

    Examples
    --------
    >>> one_switch(9).shape_words, one_switch(9).switches, one_switch(9).pair_load
    ('One switch holds all 9 GPUs.', 1, 0.0)
    """
    names = NameBlock("switch-{}", (1,))
    return SwitchGraph((("switch", names),), gpus, (), f"One switch holds all {gpus:,} GPUs.")


class JoinedSwitches(FabricSpec, frozen=True, kw_only=True):
    """Switches that are joined directly, each with hosts or below others with hosts."""

    planes: PositiveInt = 1  # each GPU's port split into as many, one to each plane

    def plane_graph(self, sizing: Sizing) -> SwitchGraph:
        """Switches of one plane, of which the sizing is, and which are joined.

        Raises
        ------
        InputError
            If the fabric cannot be built in this size; the message says what can.
        """
        raise NotImplementedError

    def leaf_of(self, sizing: Sizing, gpu: Ints) -> Ints | None:
        """Under which switch GPUs lie."""
        graph = switch_graph(self, sizing)
        if graph.spread:
            return even_groups(gpu, sizing.gpus, graph.host_switches)
        return gpu // graph.hosts

    def build(self, sizing: Sizing) -> Fabric:
        """Counts, levels and notes of a network of switches that are joined directly."""
        sizing = plane_sizing(self, sizing)
        graph = switch_graph(self, sizing)
        planes, used = self.planes, graph.degrees()
        used[: graph.host_switches] += np.diff(graph.starts(sizing.gpus))
        tiers, first = [], 0
        for name, names in graph.tiers:
            ports = planes * int(used[first : first + len(names)].sum())
            tiers.append(SwitchTier(name, planes * len(names), planes * len(names), ports))
            first += len(names)
        host = replace(HOST_LINKS, medium=self.host_medium or "optical")
        counts = [(host, sizing.gpus)]
        counts += [(group.kind, len(group.source)) for group in graph.links]
        network, worth = joined_levels(graph, sizing, planes)
        notes, idle = [graph.shape_words], graph.capacity - sizing.gpus
        if idle:
            places = f"{counted(idle, 'place')} {'stays' if idle == 1 else 'stay'} idle"
            notes.append(f"It holds {graph.capacity:,} GPUs: {places}.")
        if planes > 1:
            notes.append(planes_note(self, sizing))
        return Fabric(
            name=self.name,
            title=self.title,
            sizing=sizing,
            tiers=tuple(tiers),
            links=tuple(LinkGroup.of(kind, planes * links) for kind, links in counts if links),
            nic_ports=sizing.gpus * planes,
            levels=(self.hb_level(sizing), *network),
            network="any-to-any",
            notes=(*self.notes, *notes, *worth),
        )

    def wire(self, fabric: Fabric, first: int, port: int) -> Wired:
        """Wire hosts by GPU, then the links between switches, group by group, plane by plane."""
        graph = switch_graph(self, fabric.sizing)
        gpus, rate = fabric.sizing.gpus, fabric.sizing.network_bytes_per_s
        planes, count = self.planes, graph.switches
        gpu, starts = np.arange(gpus, dtype=np.int32), graph.starts(gpus).astype(np.int32)
        switch = np.repeat(np.arange(graph.host_switches, dtype=np.int32), np.diff(starts))
        place = gpu - starts[switch]
        length = RACK if self.host_medium == "copper" else ROW
        host = replace(HOST_LINKS, medium=self.host_medium or "optical")
        base = np.zeros(count, np.int32)
        base[: graph.host_switches] = graph.hosts
        links = []
        for plane in range(planes):
            ports = np.full_like(gpu, port + plane)
            under = _planar(switch, graph, plane, planes, first)
            links.append(Links(host, gpu, under, ports, place, rate, length))
        for group in graph.links:
            source, target = group.source.astype(np.int32), group.target.astype(np.int32)
            ports_used = ports_in_order(source, target, base)
            length = HALL if group.kind.medium == "optical" else RACK
            for plane in range(planes):
                low, high = (_planar(end, graph, plane, planes, first) for end in (source, target))
                links.append(Links(group.kind, low, high, *ports_used, rate, length))
            base += np.bincount(np.concatenate((source, target)), minlength=count).astype(np.int32)
        tiers = [names for _, names in graph.tiers]
        if planes > 1:
            tiers = [
                NameBlock(f"plane-{{}}/{names.pattern}", (planes, *names.shape)) for names in tiers
            ]
        nodes = [Nodes(SWITCH, number, names) for number, names in enumerate(tiers, start=1)]
        return Wired(tuple(nodes), tuple(links))


def uniform_share(graph: SwitchGraph, gpus: int) -> float:
    """Share of a port's rate that uniform traffic gets on average over links of a group [1].

    Examples
    --------
    Four switches, all joined, of eight hosts: three quarters of a GPU's traffic go to other
    switches, over one hop; 12 directions of links carry that of 32 GPUs: 12 / (32 x 3/4).

    >>> low, high = np.triu_indices(4, 1)
    >>> names = NameBlock("switch-{}", (4,))
    >>> links = SwitchLinks(BETWEEN_SWITCHES, low, high)
    >>> graph = SwitchGraph((("switch", names),), 8, (links,), "")
    >>> round(uniform_share(graph, 32), 6)
    0.5
    """
    hosts = np.diff(graph.starts(gpus))
    apart = gpus * gpus - float((hosts.astype(float) ** 2).sum())
    if not apart:
        return 1.0
    leaving = apart / gpus / gpus  # share of a GPU's traffic that leaves its switch
    shares = [
        2 * len(group.source) / (gpus * leaving * hops)
        for group, hops in zip(
            graph.links, graph.hops(int(np.count_nonzero(hosts))).tolist(), strict=True
        )
        if hops
    ]
    least = min([1.0, *shares])
    return 1.0 if least > 1 - ROUNDING else least


def busiest_share(graph: SwitchGraph, gpus: int, *, even: bool = False) -> float:
    """Share of a port's rate that uniform traffic gets on the busiest link [1].

    Parameters
    ----------
    graph, gpus
        The switches, and the GPUs, each of which sends to all others.
    even
        Whether switches split evenly over the next links, as ECMP does, rather than by weights.

    Notes
    -----
    GPUs that are spread evenly are taken as they lie, T or T - 1 at a switch, where links are few
    enough to load each; else as N / S at each. GPUs that fill their switches are taken as T at
    each, which those of the last are at most.

    Examples
    --------
    A mesh of three switches: of seven GPUs, each with six others, two times three on a link.

    >>> low, high = np.triu_indices(3, 1)
    >>> links = SwitchLinks(BETWEEN_SWITCHES, low, high)
    >>> names = NameBlock("switch-{}", (3,))
    >>> graph = SwitchGraph((("switch", names),), 3, (links,), "", spread=True)
    >>> busiest_share(graph, 7), busiest_share(replace(graph, links=(links, links)), 7)
    (1.0, 1.0)
    """
    mesh, switches = graph.mesh, graph.host_switches
    if graph.spread and mesh.work <= MEASURED_LOADS and switches > 1:
        # Only these fabrics need SciPy here.
        from scipy.sparse import csc_array  # noqa: PLC0415

        held = np.diff(graph.starts(gpus)).astype(float)
        mesh = replace(mesh, weight=None) if even else mesh
        busiest = float(mesh.loads((Pairs(csc_array(np.outer(held, held))),)).max(initial=0.0))
        return min(1.0, (gpus - 1) / busiest) if busiest else 1.0
    held_by_each = gpus / switches if graph.spread else graph.hosts
    load = graph.even_pair_load if even else graph.pair_load
    return min(1.0, gpus / (held_by_each**2 * load)) if load else 1.0


def joined_network(
    sizing: Sizing,
    shape: tuple[int, int],
    pair_loads: Sequence[float],
    groups: Groups | None = None,
    *,
    planes: int = 1,
    spread: tuple[int, ...] = (),
) -> tuple[Level, float]:
    """Level of switches that are joined directly, and the share of a port that any traffic gets.

    Parameters
    ----------
    sizing
        GPUs, and the rate of a port of one of so many ``planes``.
    shape
        Switches with hosts, and hosts of each [1].
    pair_loads
        What the busiest links carry if each switch sends 1 to each other one, those inside groups
        first [1].
    groups
        Groups of switches, if there are any.
    spread
        Switches, and groups, over which the GPUs are spread evenly; without it they fill the
        switches in order.

    Examples
    --------
    12 switches of 11 hosts, all joined: a link carries 1, so that detours have 12 / 2 links.

    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=132, radix=32, hb_size=1)
    >>> level, share = joined_network(scenario.sizing, (12, 11), [1.0])
    >>> level.tiers[0].links, round(share, 4)
    (6.0, 0.5455)
    """
    switches, hosts = shape
    domains, extra = max(1, sizing.full_domains), sizing.gpus % sizing.hb_size
    rate = sizing.network_bytes_per_s * planes
    most = max(pair_loads, default=0.0)
    if sizing.gpus <= hosts or not most:
        return network_level(sizing, domains, rate), 1.0

    def tier(links: float, held: int, beyond: Tier | None = None) -> Tier:
        over = spread[: 1 if held == hosts else 2] or (ceil_div(sizing.gpus, held),)
        filled = 0 if spread else held
        ends = (sizing.gpus, *over)
        return Tier(ends, links, sizing.hb_size, domains, extra, held=filled, beyond=beyond)

    links = switches / (2 * most)
    tiers = [tier(links, hosts)]
    if groups is not None and groups.switches < switches:
        inside, between = pair_loads[0], max(pair_loads[1:])
        held = hosts * groups.switches
        # Links inside a group carry what leaves its switches, and what detours of others put there.
        transit = 2 * inside / switches - 1 / groups.links
        around = tier(groups.switches / transit, held) if transit > 0 else None
        tiers = [tier(groups.links, hosts, around)]
        tiers.append(tier(groups.switches * switches / (2 * between), held))
    elif groups is not None:
        tiers = [tier(groups.links, hosts)]
        links = groups.links
    if all(binding.oversubscription(domains) <= 1 for binding in tiers):
        return network_level(sizing, domains, rate), 1.0
    tiers[0] = replace(tiers[0], pair_links=1 / most)
    return network_level(sizing, domains, rate, tuple(tiers)), min(1.0, links / hosts)


def joined_levels(graph: SwitchGraph, sizing: Sizing, planes: int) -> tuple[list[Level], list[str]]:
    """Level over the HB domains, and what it is worth."""
    shape = graph.host_switches, graph.hosts
    # Full switches are told as filled in order, as those of a graph's file are.
    over = (graph.host_switches,) if graph.spread and sizing.gpus < graph.capacity else ()
    level, any_share = joined_network(
        sizing, shape, graph.pair_loads, graph.own_groups, planes=planes, spread=over
    )
    share = even = busiest_share(graph, sizing.gpus)
    if graph.mesh.weight is not None:
        even = busiest_share(graph, sizing.gpus, even=True)
    if share < (LEAST_NOTED if graph.spread else 1 - ROUNDING):
        worth = f"uniform traffic between switches gets {100 * share:.3g} % of a port's rate"
    else:
        worth = "the links between switches carry uniform traffic at the rate of the ports"
    note = f"Over shortest paths {worth}"
    if even < share - ROUNDING:
        note += f" by weights, split evenly (ECMP) {100 * even:.3g} %"
    if any_share < 1:
        note += f", over detours any traffic {100 * any_share:.3g} %"
    return [level], [f"{note}."]


def _planar(switch: AnyInts, graph: SwitchGraph, plane: int, planes: int, first: int) -> AnyInts:
    """Nodes of the switches of one plane: the planes of a tier stand one after the other."""
    sizes = np.array([len(names) for _, names in graph.tiers], np.int32)
    before = np.cumsum(sizes, dtype=np.int32) - sizes
    tier = np.searchsorted(before, switch, side="right") - 1
    shift = first + (planes - 1) * before + plane * sizes
    return (switch + shift.astype(np.int32)[tier]).astype(np.int32)


def ports_in_order(source: AnyInts, target: AnyInts, base: AnyInts) -> tuple[AnyInts, AnyInts]:
    """Ports of a group's links at both ends: in the order of the links, from each switch's base.

    Examples
    --------
    >>> ports_in_order(np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([4, 4, 4]))
    (array([4, 5, 5]), array([4, 4, 5]))
    """
    ends = np.stack((source, target), axis=1).ravel()
    port = base[ends] + places(ends).astype(base.dtype)
    return port[0::2], port[1::2]


def refuse_ports(name: str, needed: int, hosts: int, radix: int) -> None:
    """Refuse switches of more ports than they have; InputError."""
    if needed > radix:
        raise InputError(
            f"{name}: a switch needs {needed} ports, got radix {radix}: raise --radix to {needed},"
            f" or lower hosts_per_switch ({hosts} here) or the links between switches in the"
            " fabric file"
        )


def fewer_links_note(
    switches: int, radix: int, links_with: Callable[[int], int | None]
) -> list[str]:
    """Whether a few switches more spare many links, so that the fewest switches may cost more.

    Parameters
    ----------
    switches, radix
        Switches of the fabric, and ports of each [1].
    links_with
        Links between so many switches; None where the fabric cannot have so many [1].

    Returns
    -------
    list[str]
        A sentence if each switch more, of up to four, spares links with at least as many ends as a
        switch has ports; else none.

    Examples
    --------
    >>> fewer_links_note(282, 64, {282: 2124, 283: 2088}.get)
    ['Fewest switches need not cost least: with 283 instead of 282, 36 links fewer would do.']
    """
    here = links_with(switches)
    for more in range(1, TRIED + 1):
        there = links_with(switches + more)
        if here is not None and there is not None and 2 * (here - there) >= more * radix:
            count = f"with {switches + more:,} instead of {switches:,}"
            spared = counted(here - there, "link")
            return [f"Fewest switches need not cost least: {count}, {spared} fewer would do."]
    return []


def cut_switches(graph: SwitchGraph) -> list[int]:
    """Switches whose loss parts the others.

    A search in depth numbers the switches; one parts the network if from below it nothing leads to
    a lower number than its own (Hopcroft and Tarjan, Algorithm 447, 1973).

    Examples
    --------
    Two triangles that share switch 2.

    >>> low, high = np.array([0, 0, 1, 2, 2, 3]), np.array([1, 2, 2, 3, 4, 4])
    >>> names = NameBlock("switch-{}", (5,))
    >>> links = SwitchLinks(BETWEEN_SWITCHES, low, high)
    >>> graph = SwitchGraph((("switch", names),), 4, (links,), "")
    >>> cut_switches(graph)
    [2]
    """
    others: list[list[int]] = [[] for _ in range(graph.switches)]
    for group in graph.links:
        for low, high in zip(group.source.tolist(), group.target.tolist(), strict=True):
            others[low].append(high)
            others[high].append(low)
    number, lowest, cuts = [-1] * graph.switches, [0] * graph.switches, set[int]()
    met, branches = 1, 0
    number[0] = 0
    stack = [(0, -1, iter(others[0]))]
    while stack:
        node, above, left = stack[-1]
        for other in left:
            if number[other] < 0:
                number[other] = lowest[other] = met
                met += 1
                stack.append((other, node, iter(others[other])))
                break
            if other != above:
                lowest[node] = min(lowest[node], number[other])
        else:
            stack.pop()
            if above == 0:
                branches += 1
            elif above > 0:
                lowest[above] = min(lowest[above], lowest[node])
                if lowest[node] >= number[above]:
                    cuts.add(above)
    return sorted(cuts | ({0} if branches > 1 else set()))

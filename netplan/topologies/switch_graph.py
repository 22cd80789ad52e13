"""Networks of switches joined directly: hosts at every switch, links between switches.

HyperX, Slim Fly, Jellyfish, dragonfly+ and other graphs differ only in which switches are joined. A
family makes a :class:`SwitchGraph`; counts, levels, ports and wiring follow from it here.

GPUs fill the switches that take hosts in order, so many to a switch; what a design holds beyond the
GPUs that are asked for are idle places at its end. On a switch the ports of hosts come first, then
those of the link groups in their order, each in the order of its links.

Levels: HB domain, hosts at one switch, and all such switches as one level, at the rate that uniform
traffic gets over the links of the worst group: with pairs of switches at distance d on average, a
group that carries a share c of all hops, over L links, gives a GPU 2 L B / (c d n (1 - 1/s)) of its
port's rate B, n GPUs on s switches. Where HB domains do not fill the switches, one level stands for
both.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Floats
from netplan.errors import InputError
from netplan.levels import Level
from netplan.topologies.assembly import Links, NameBlock, Nodes, Wired
from netplan.topologies.clos import ceil_div
from netplan.topologies.fabric import (
    Fabric,
    LinkGroup,
    Sizing,
    SwitchTier,
    hb_level,
    network_level,
)
from netplan.topologies.graph import HALL, RACK, ROW, SWITCH
from netplan.topologies.specs import FabricSpec, Medium
from netplan.topologies.switched import planes_note
from netplan.units import counted

MEASURED_SOURCES, LEAST_SOURCES, MEASURED_ARCS = 64, 4, 20_000_000
"""Switches from which hops are counted: all of smaller networks, spread evenly over larger ones, as
many as keep the work over all arcs within a limit."""

ROUNDING = 1e-9


class SwitchLinks(Struct, frozen=True, eq=False):
    """Links of one group between switches, numbered from 0: their ends, shape (links,)."""

    name: str
    source: AnyInts
    target: AnyInts
    medium: Medium = "optical"


class SwitchGraph(Struct, frozen=True, eq=False):
    """Switches joined directly.

    Parameters
    ----------
    tiers
        Names of the switches, tier by tier; those of the first tier take hosts.
    hosts
        Hosts that a switch of the first tier holds [1].
    links
        Links between switches, group by group.
    said
        What the design is, in a sentence.
    """

    tiers: tuple[tuple[str, NameBlock], ...]
    hosts: int
    links: tuple[SwitchLinks, ...]
    said: str

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

    def degrees(self) -> AnyInts:
        """Links of every switch to others, shape (switches,) [1]."""
        ends = [end for group in self.links for end in (group.source, group.target)]
        joined = np.concatenate(ends) if ends else np.empty(0, np.int64)
        return np.bincount(joined, minlength=self.switches)

    def hops(self, filled: int | None = None) -> Floats:
        """Hops over each group of links on shortest paths, a pair of switches with hosts [1].

        Of all shortest paths between two switches each counts the same. Shape (groups,). Only the
        first ``filled`` switches count, if given.
        """
        hosts = self.host_switches if filled is None else filled
        if not self.links or hosts == 1:
            return np.zeros(len(self.links))
        arcs = 2 * sum(len(one.source) for one in self.links)
        most = max(LEAST_SOURCES, min(MEASURED_SOURCES, MEASURED_ARCS // arcs))
        sources = np.unique(np.linspace(0, hosts - 1, min(hosts, most)).astype(np.int64))
        return self._hops_from(sources, hosts) / (len(sources) * (hosts - 1))

    def _hops_from(self, sources: AnyInts, hosts: int) -> Floats:
        """Hops over each group on the paths from some switches to all others with hosts [1].

        Paths are counted outwards, a hop a round; then each switch at the far end hands its unit
        back to those before it, in proportion to the paths that lead there.
        """
        # Only this needs SciPy, and most questions ask other fabrics.
        from scipy.sparse import coo_array  # noqa: PLC0415

        shape = (self.switches, self.switches)
        joined = [
            coo_array((np.ones(len(one.source)), (one.source, one.target)), shape=shape).tocsr()
            for one in self.links
        ]
        groups = [(one + one.T).tocsr() for one in joined]
        every = sum(groups[1:], start=groups[0])
        paths = np.zeros((self.switches, len(sources)))
        paths[sources, np.arange(len(sources))] = 1.0
        rounds, seen = [paths], paths > 0
        while True:
            further = (every @ rounds[-1]) * ~seen
            if not further.any():
                break
            rounds.append(further)
            seen |= further > 0
        ends = np.zeros((self.switches, 1))
        ends[:hosts] = 1.0
        carried = np.zeros_like(paths)
        found = np.zeros(len(groups))
        for near, far in zip(rounds[-2::-1], rounds[:0:-1], strict=True):
            unit = np.divide(carried + ends, far, out=np.zeros_like(far), where=far > 0)
            back = [near * (group @ unit) for group in groups]
            found += [float(part.sum()) for part in back]
            carried = sum(back[1:], start=back[0])
        return found


def build_switch_graph(spec: FabricSpec, sizing: Sizing, graph: SwitchGraph) -> Fabric:
    """Counts, levels and notes of a network of switches that are joined directly.

    ``sizing`` and ``graph`` are those of one plane.
    """
    planes, used = spec.planes, graph.degrees()
    used[: graph.host_switches] += _hosts_at(graph, sizing.gpus)
    tiers, first = [], 0
    for name, names in graph.tiers:
        ports = planes * int(used[first : first + len(names)].sum())
        tiers.append(SwitchTier(name, planes * len(names), planes * len(names), ports))
        first += len(names)
    counts = [("host", sizing.gpus, spec.host_medium)]
    counts += [(one.name, len(one.source), one.medium) for one in graph.links]
    network, notes = _network_levels(graph, sizing, planes)
    return Fabric(
        name=spec.name,
        title=spec.title,
        sizing=sizing,
        tiers=tuple(tiers),
        links=tuple(
            LinkGroup(name, planes * links, planes * links, medium)
            for name, links, medium in counts
            if links
        ),
        nic_ports=sizing.gpus * planes,
        levels=(hb_level(spec, sizing), *network),
        network="any-to-any",
        notes=(*spec.notes, graph.said, *_counted_notes(spec, graph, sizing), *notes),
    )


def _counted_notes(spec: FabricSpec, graph: SwitchGraph, sizing: Sizing) -> Iterator[str]:
    """What is idle, and what planes are."""
    idle = graph.capacity - sizing.gpus
    if idle:
        places = f"{counted(idle, 'place')} {'stays' if idle == 1 else 'stay'} idle"
        yield f"It holds {graph.capacity:,} GPUs: {places}."
    if spec.planes > 1:
        yield planes_note(spec, sizing)


def _hosts_at(graph: SwitchGraph, gpus: int) -> AnyInts:
    """GPUs at every switch that takes hosts, shape (host switches,) [1]."""
    starts = graph.hosts * np.arange(graph.host_switches)
    return np.clip(gpus - starts, 0, graph.hosts)


def uniform_share(graph: SwitchGraph, gpus: int) -> float:
    """Share of a port's rate that uniform traffic gets between switches [1].

    Examples
    --------
    Four switches, all joined, of eight hosts: three quarters of a GPU's traffic go to other
    switches, over one hop; 12 directions of links carry that of 32 GPUs: 12 / (32 x 3/4).

    >>> low, high = np.triu_indices(4, 1)
    >>> names = NameBlock("switch-{}", (4,))
    >>> graph = SwitchGraph((("switch", names),), 8, (SwitchLinks("mesh", low, high),), "")
    >>> round(uniform_share(graph, 32), 6)
    0.5
    """
    hosts = _hosts_at(graph, gpus)
    apart = gpus * gpus - float((hosts.astype(float) ** 2).sum())
    if not apart:
        return 1.0
    each = apart / gpus / gpus  # share of a GPU's traffic that leaves its switch
    shares = [
        2 * len(one.source) / (gpus * each * hops)
        for one, hops in zip(
            graph.links, graph.hops(ceil_div(gpus, graph.hosts)).tolist(), strict=True
        )
        if hops
    ]
    least = min([1.0, *shares])
    return 1.0 if least > 1 - ROUNDING else least


def _network_levels(
    graph: SwitchGraph, sizing: Sizing, planes: int
) -> tuple[list[Level], list[str]]:
    """Levels over the HB domains, and a note where they do not fill the switches."""
    rate = sizing.network_bytes_per_s * planes
    share = uniform_share(graph, sizing.gpus)
    size, hosts = sizing.hb_size, graph.hosts
    if share < 1:
        told = f"uniform traffic between switches gets {100 * share:.3g} % of a port's rate"
    else:
        told = "the links between switches carry uniform traffic at the rate of the ports"
    notes = [f"Over shortest paths {told}."]
    if hosts % size == 0 and sizing.gpus % hosts == 0:
        levels = [
            network_level(sizing, hosts // size, rate),
            network_level(sizing, sizing.gpus // hosts, rate * share),
        ]
        return [level for level in levels if level.size > 1], notes
    if size % hosts and share < 1:
        notes.append(
            "HB domains do not fill the switches: timed as one level at the rate between switches."
        )
    domains = max(1, sizing.full_domains)
    return [network_level(sizing, domains, rate * share)], notes


def wire_switch_graph(
    spec: FabricSpec, fabric: Fabric, graph: SwitchGraph, first: int, port: int
) -> Wired:
    """Wire hosts by GPU, then the links between switches, group by group, plane by plane."""
    gpus, rate = fabric.sizing.gpus, fabric.sizing.network_bytes_per_s
    planes, count = spec.planes, graph.switches
    gpu = np.arange(gpus, dtype=np.int32)
    switch, place = np.divmod(gpu, np.int32(graph.hosts))
    length = RACK if spec.host_medium == "copper" else ROW
    base = np.zeros(count, np.int32)
    base[: graph.host_switches] = graph.hosts
    links = []
    for plane in range(planes):
        ports = np.full_like(gpu, port + plane)
        under = _planar(switch, graph, plane, planes, first)
        links.append(Links("host", gpu, under, ports, place, rate, length))
    for one in graph.links:
        source, target = one.source.astype(np.int32), one.target.astype(np.int32)
        ports_used = _ports(source, target, base)
        length = HALL if one.medium == "optical" else RACK
        for plane in range(planes):
            low, high = (_planar(end, graph, plane, planes, first) for end in (source, target))
            links.append(Links(one.name, low, high, *ports_used, rate, length))
        base += np.bincount(np.concatenate((source, target)), minlength=count).astype(np.int32)
    nodes = [
        Nodes(SWITCH, number, _in_planes(names, planes))
        for number, (_, names) in enumerate(graph.tiers, start=1)
    ]
    return Wired(tuple(nodes), tuple(links))


def _planar(switch: AnyInts, graph: SwitchGraph, plane: int, planes: int, first: int) -> AnyInts:
    """Nodes of the switches of one plane: the planes of a tier stand one after the other."""
    sizes = np.array([len(names) for _, names in graph.tiers], np.int32)
    before = np.cumsum(sizes, dtype=np.int32) - sizes
    tier = np.searchsorted(before, switch, side="right") - 1
    shift = first + (planes - 1) * before + plane * sizes
    nodes: AnyInts = (switch + shift.astype(np.int32)[tier]).astype(np.int32)
    return nodes


def _in_planes(names: NameBlock, planes: int) -> NameBlock:
    """Names of a tier in all planes."""
    if planes == 1:
        return names
    return NameBlock(f"plane-{{}}/{names.pattern}", (planes, *names.shape))


def _ports(source: AnyInts, target: AnyInts, base: AnyInts) -> tuple[AnyInts, AnyInts]:
    """Ports of a group's links at both ends: in the order of the links, from each switch's base.

    Examples
    --------
    >>> _ports(np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([4, 4, 4]))
    (array([4, 5, 5]), array([4, 4, 5]))
    """
    ends = np.stack((source, target), axis=1).ravel()
    order = np.argsort(ends, kind="stable")
    begins = np.flatnonzero(np.diff(ends[order], prepend=-1))
    rank = np.empty(len(ends), base.dtype)
    counts = np.diff(begins, append=len(ends))
    rank[order] = np.arange(len(ends)) - np.repeat(begins, counts)
    port = base[ends] + rank
    return port[0::2], port[1::2]


def require_ports(name: str, graph: SwitchGraph, radix: int) -> SwitchGraph:
    """The graph, if its switches have as many ports as it needs.

    Raises
    ------
    InputError
        If they have not.
    """
    needed = graph.degrees()
    needed[: graph.host_switches] += graph.hosts
    most = int(needed.max())
    if most > radix:
        raise InputError(
            f"{name}: a switch needs {most} ports, got radix {radix}: raise --radix to {most}, or"
            f" lower hosts_per_switch ({graph.hosts} here) or the links between switches in the"
            " fabric file"
        )
    return graph


def cut_switches(graph: SwitchGraph) -> list[int]:
    """Switches whose loss parts the others.

    A search in depth numbers the switches; one parts the network if from below it nothing leads to
    a lower number than its own (Hopcroft and Tarjan, Algorithm 447, 1973).

    Examples
    --------
    Two triangles that share switch 2.

    >>> low, high = np.array([0, 0, 1, 2, 2, 3]), np.array([1, 2, 2, 3, 4, 4])
    >>> names = NameBlock("switch-{}", (5,))
    >>> graph = SwitchGraph((("switch", names),), 4, (SwitchLinks("two", low, high),), "")
    >>> cut_switches(graph)
    [2]
    """
    others: list[list[int]] = [[] for _ in range(graph.switches)]
    for one in graph.links:
        for low, high in zip(one.source.tolist(), one.target.tolist(), strict=True):
            others[low].append(high)
            others[high].append(low)
    number, lowest, found = [-1] * graph.switches, [0] * graph.switches, set[int]()
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
                    found.add(above)
    return sorted(found | ({0} if branches > 1 else set()))

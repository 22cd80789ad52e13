"""A fabric from any graph: counts from its nodes, levels as measured on its links.

The graph is somebody's: a file, or what a function of Python makes (`own_graph`). Switches count by
their tiers, which are their distances from the GPUs unless the file says otherwise. Links count by
what they join: ``host`` (a GPU or manager and a switch of tier 1), the name of a higher tier (a GPU
and a switch there), ``leaf-spine``, ``leaf-leaf`` and so on, ``direct`` (two GPUs). ``ring ...``
and ``mesh ...`` between GPUs stay what the file calls them, since routing knows them. Links within
a rack are planned in copper, all others in optics.

Levels: where every switch takes as many GPUs, and all are joined directly at one rate, those of
HyperX, Jellyfish and the like, whose routing such a graph has (`flat`, `joined_switches`). Else the
HB domain, then the parts that hang together below each tier, where they are alike and hold whole
domains; last, all of it. Each has the rate that traffic between its parts gets on the links
(`measured_rates`), the least of evenly spread traffic and of rings over parts 1, 2, 4 ... on. Parts
next to each other of one rate are one level. Rails that are rings, meshes or products of them, as
tori are, have a level an axis (`graph_fabric`).

Grids of rings and meshes, told by their links: a ring, a full mesh, a torus, their products.

Members are numbered along the axes, the first one running fastest, as :mod:`netplan` numbers them.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from netplan.arrays import AnyInts, Bools, Floats, Ints, distinct_values
from netplan.errors import InputError
from netplan.levels import Level, LevelKind
from netplan.records import replace
from netplan.topologies.fabric import (
    MIN_GPUS,
    Fabric,
    LinkGroup,
    Reach,
    Sizing,
    SwitchTier,
    network_level,
    tier_name,
)
from netplan.topologies.families.joined_switches import joined_levels
from netplan.topologies.graph import (
    DIRECT_LINKS,
    GPU,
    HB_LINKS,
    HB_SWITCH,
    INSIDE,
    RACK,
    SWITCH,
    FabricGraph,
    LinkType,
    connected_parts,
    joined_gpus,
    network_only,
)
from netplan.topologies.idle_places import idle_note
from netplan.topologies.own.flat import among_leaves, flat, joined_leaves
from netplan.topologies.own.measured_rates import (
    MOST_STEPS,
    HostGroups,
    host_groups,
    level_patterns,
    seconds_per_byte,
)
from netplan.topologies.own.own_graph import keep_for, own_graph
from netplan.topologies.specs import FabricSpec
from netplan.units import counted, gbps

PAIR = 2
"""Members that one link joins, as a ring or as a mesh [1]."""


def grid_axes(
    source: AnyInts, target: AnyInts, bytes_per_s: Floats, members: int
) -> tuple[Level, ...] | None:
    """Axes of a grid that has exactly these links, each once, at one rate an axis; None if none.

    Examples
    --------
    A ring of three by one of two.

    >>> source = np.array([0, 1, 2, 3, 4, 5, 0, 1, 2])
    >>> target = np.array([1, 2, 0, 4, 5, 3, 3, 4, 5])
    >>> [(one.kind, one.size) for one in grid_axes(source, target, np.ones(9), 6)]
    [('ring', 3), ('mesh', 2)]
    """
    low, high = np.minimum(source, target), np.maximum(source, target)
    code = low.astype(np.int64) * members + high
    order = np.argsort(code)
    code, rate = code[order], bytes_per_s[order]
    if len(distinct_values(code)) < len(code):
        return None
    near = {*high[low == 0].tolist()}
    for shape in _shapes(near, members, 1):
        axes = []
        links = [_links(kind, size, stride, members) for kind, size, stride in shape]
        together = np.concatenate(links)
        if len(together) != len(code) or not np.array_equal(np.sort(together), code):
            continue
        for (kind, size, _), axis_links in zip(shape, links, strict=True):
            rates = rate[np.searchsorted(code, axis_links)]
            if (rates != rates[0]).any():
                return None
            axes.append(Level(kind, size, float(rates[0])))
        return tuple(axes)
    return None


Shape = tuple[tuple[LevelKind, int, int], ...]
"""Axes: kind, members, and places from one to the next."""


def _shapes(near: set[int], members: int, stride: int) -> Iterator[Shape]:
    """Shapes that the neighbours of the first member allow, from an axis of a stride on."""
    if stride == members:
        yield ()
        return
    for size in range(PAIR, members // stride + 1):
        if members % (stride * size) or (size - 1) * stride not in near:
            continue
        mesh = all(place * stride in near for place in range(1, size))
        kinds: tuple[LevelKind, ...] = ("mesh",) if size == PAIR else ("ring", "mesh")
        for kind in kinds:
            if stride in near and (kind == "ring" or mesh):
                for rest in _shapes(near, members, stride * size):
                    yield (kind, size, stride), *rest


def _links(kind: LevelKind, size: int, stride: int, members: int) -> Ints:
    """Links along an axis, as lower member x members + higher one."""
    member = np.arange(members, dtype=np.int64)
    place = member // stride % size
    pairs = []
    for step in range(1, size) if kind == "mesh" else (1, size - 1):
        there = place + step < size
        here = member[there] if kind == "mesh" or step == 1 else member[place == 0]
        pairs.append(here * members + here + step * stride)
    return np.concatenate(pairs)


COPPER_CLASSES = (INSIDE, RACK)
ROUNDING = 1e-9
WIDEST = 1000
"""Times the rate of a port that no link has [1]."""


def build_graph_fabric(spec: FabricSpec, sizing: Sizing) -> Fabric:
    """Counts, levels and notes of a fabric from a graph.

    Raises
    ------
    InputError
        If the graph holds fewer GPUs, a switch needs more ports than the radix, or what the network
        joins are neither all GPUs nor those of a rail.
    """
    fabric = _built(spec, sizing)
    keep_for(spec, sizing, fabric.sizing)
    return fabric


def graph_of(spec: FabricSpec, sizing: Sizing) -> FabricGraph:
    """The graph of a fabric, its links in the groups of its counts."""
    return _grouped(own_graph(spec, sizing))


# Questions about one fabric ask for it many times.
@lru_cache(maxsize=16)
def _built(spec: FabricSpec, sizing: Sizing) -> Fabric:
    graph = graph_of(spec, sizing)
    has_domains, network = graph.has("hb"), network_only(graph)
    own_sizing = _own_sizing(spec, sizing, graph, network)
    keep_for(spec, sizing, own_sizing)
    asked, sizing = sizing.hb_size, own_sizing
    tiers = tuple(_tiers(spec, network, sizing))
    reach = _reach(spec, network)
    kind, domain = ("switch", None) if not has_domains else _domain_kind(graph)
    alike = flat(network)
    if spec.rails_alike and sizing.hb_size > 1 and sizing.domains >= MIN_GPUS:
        levels, measured = _levels_of_rail(spec, sizing)
    elif alike is None:
        levels, measured = _levels(network, sizing)
    else:
        levels, measured = joined_levels(alike, sizing, 1)
    if reach == "rail-only":
        levels = [replace(level, same_rank=True) for level in levels]
    counts = np.bincount(network.group, minlength=len(network.groups)).tolist()
    shared = Level(kind, sizing.hb_size, sizing.hb_bytes_per_s).links_per_gpu
    inside = Level(
        kind,
        sizing.hb_size,
        domain or sizing.hb_bytes_per_s / max(1, shared),
        step_latency_s=sizing.hb_latency_s,
    )
    return Fabric(
        name=spec.name,
        title=spec.title,
        sizing=sizing,
        tiers=tiers,
        links=tuple(
            LinkGroup.of(kind, links)
            for kind, links in zip(network.groups, counts, strict=True)
            if links
        ),
        nic_ports=int(network.ports_used[: network.gpus].sum()),
        levels=(inside, *levels),
        network=reach,
        notes=(*spec.notes, *_notes(spec, asked, sizing, graph, measured)),
    )


def _own_sizing(
    spec: FabricSpec, sizing: Sizing, graph: FabricGraph, network: FabricGraph
) -> Sizing:
    """The sizing with the HB domain and the rates of a graph.

    In direct designs a GPU has no link if no other domain has one of its rank.
    """
    gpus, ports = network.gpus, network.ports_used[: network.gpus]
    if not ports.all():
        name = network.node_name(int(np.flatnonzero(ports == 0)[0]))
        if graph.domains > 1 and not spec.rails_alike:
            raise InputError(f"{graph.name}: {name} has no link beyond its HB domain")
    at_gpu = (network.source < gpus) | (network.target < gpus)
    slowest = sizing.network_bytes_per_s
    if at_gpu.any():
        slowest = float(network.bytes_per_s[at_gpu].min())
    sizing = replace(sizing, hb_size=graph.hb_size, network_bytes_per_s=slowest, shared_port=False)
    if not graph.has("hb"):
        return sizing
    rate = np.zeros(graph.node_count)
    inside = graph.links_with("hb")
    for end in (graph.source[inside], graph.target[inside]):
        np.add.at(rate, end, graph.bytes_per_s[inside])
    first = min(graph.hb_size, gpus)
    return replace(sizing, hb_bytes_per_s=float(rate[:first].min()))


def _tiers(spec: FabricSpec, network: FabricGraph, sizing: Sizing) -> Iterator[SwitchTier]:
    """Switches tier by tier, and their ports in use."""
    switch = network.node_kind == SWITCH
    if not switch.any():
        return
    width = widths_of(network)
    ends = np.concatenate([network.source, network.target])
    used = np.bincount(ends, np.tile(width, 2), network.node_count).astype(np.int64)
    busiest = int(np.argmax(np.where(switch, used, 0)))
    if used[busiest] > sizing.radix:
        raise InputError(
            f"{spec.name}: {network.node_name(busiest)} has {used[busiest]:,} ports in use, got"
            f" radix {sizing.radix}: raise --radix to {used[busiest]:,}"
        )
    height = tier_numbers(network)
    for tier in range(1, int(height.max()) + 1):
        here = height == tier
        count = int(np.count_nonzero(here))
        yield SwitchTier(tier_name(tier), count, count, int(used[here].sum()))


def tier_numbers(network: FabricGraph) -> Ints:
    """Tier of every node from 1 on, without gaps; 0 for what is no switch, shape (nodes,)."""
    switch = network.node_kind == SWITCH
    heights = np.zeros(network.node_count, np.int64)
    heights[switch] = np.unique(network.node_tier[switch], return_inverse=True)[1].reshape(-1) + 1
    return heights


def _grouped(graph: FabricGraph) -> FabricGraph:
    """The graph with its links outside HB domains in groups by what they join."""
    inside = graph.is_role("hb")
    height = tier_numbers(graph)
    ends = height[graph.source], height[graph.target]
    low, high = np.minimum(*ends), np.maximum(*ends)
    direct = (graph.node_kind[graph.source] == GPU) & (graph.node_kind[graph.target] == GPU)
    copper = np.isin(graph.length_class, COPPER_CLASSES)
    width = widths_of(graph)
    tiers = int(high.max(initial=0)) + 1
    sizes = (2, 2, 2, tiers, tiers, int(width.max(initial=1)) + 1, max(1, len(graph.groups)))
    code = np.ravel_multi_index((inside, direct, copper, low, high, width, graph.group), sizes)
    codes, which = np.unique(code, return_inverse=True)
    kinds = [
        _link_type(
            graph.groups[given], (low, high), inside=inside, direct=direct, copper=copper, wide=wide
        )
        for inside, direct, copper, low, high, wide, given in zip(
            *(column.tolist() for column in np.unravel_index(codes, sizes)), strict=True
        )
    ]
    if any(map(among_leaves, kinds)) and flat(network_only(graph)) is not None:
        kinds = [joined_leaves(kind) for kind in kinds]
    kinds = _told_apart(kinds, "width", "{0.name} {0.width}x")
    kinds = _told_apart(kinds, "medium", "{0.name} {0.medium}")
    groups = tuple(dict.fromkeys(sorted(kinds, key=lambda kind: kind.role != "hb")))
    number = np.array([groups.index(kind) for kind in kinds], np.int8)
    return replace(graph, group=number[which.reshape(-1)], groups=groups)


def _told_apart(kinds: Sequence[LinkType], field: str, label: str) -> list[LinkType]:
    """The kinds with longer labels where a field is unusual, and usual in others of the name."""
    values: dict[str, set[object]] = {}
    for kind in kinds:
        values.setdefault(kind.name, set()).add(getattr(kind, field))
    usual = {"width": 1, "medium": "optical"}[field]
    return [
        replace(kind, name=label.format(kind))
        if len(values[kind.name]) > 1 and getattr(kind, field) != usual
        else kind
        for kind in kinds
    ]


def widths_of(graph: FabricGraph) -> Ints:
    """Whole times the rate of a GPU's slowest network port that a link has; 1 of all others [1].

    Links of GPUs count one each, and so do those whose rate is no multiple.
    """
    outside = ~graph.is_role("hb")
    at_gpu = (graph.source < graph.gpus) | (graph.target < graph.gpus)
    widths = np.ones(graph.link_count, np.int64)
    ports = graph.bytes_per_s[outside & at_gpu]
    if len(ports):
        times = graph.bytes_per_s / ports.min()
        whole = np.abs(times - np.round(times)) < ROUNDING * times
        trunk = outside & ~at_gpu & whole & (times < WIDEST)
        widths[trunk] = np.round(times[trunk]).astype(np.int64).clip(1)
    return widths


def _link_type(
    given: LinkType, tiers: tuple[int, int], *, inside: bool, direct: bool, copper: bool, wide: int
) -> LinkType:
    """What links are by what they join."""
    low, high = tiers
    if inside:
        return HB_LINKS
    if direct:
        kind = given if given.role in ("ring", "mesh") else DIRECT_LINKS
    elif not low:
        kind = LinkType("host" if high == 1 else tier_name(high), "host", tiers=tiers)
    else:
        kind = LinkType(f"{tier_name(low)}-{tier_name(high)}", "up", tiers=tiers)
    return replace(kind, medium="copper" if copper else "optical", width=wide)


def _reach(spec: FabricSpec, network: FabricGraph) -> Reach:
    """How far the network reaches: to all GPUs over switches, or along rails, or GPU to GPU."""
    gpus, size = network.gpus, network.hb_size
    part = connected_parts(network.node_count, network.source, network.target)[:gpus]
    rank = np.arange(gpus) % size
    if not part.any() and (network.node_kind == SWITCH).any():
        return "any-to-any"
    ends = network.source % size, network.target % size
    if not (network.node_kind == SWITCH).any():
        along = bool(np.all(ends[0] == ends[1]))
        if along or not part.any():
            return "direct" if along else "any-to-any"
    if np.array_equal(part, part[:size][rank]):
        return "rail-only"
    lost = network.node_name(int(np.flatnonzero(part != part[:size][rank])[0]))
    raise InputError(
        f"{spec.name}: its network joins neither all GPUs nor the GPUs of equal rank of all HB"
        f" domains ({lost} is elsewhere): check the HB domains of {size:,} GPUs, in the order of"
        " their names"
    )


def _domain_kind(graph: FabricGraph) -> tuple[LevelKind, float | None]:
    """How the GPUs of an HB domain are joined, and the rate of a link where it is not shared out.

    Direct links that are neither one ring nor one mesh count as a switch at the rate that traffic
    spread evenly over the domain gets.
    """
    size = graph.hb_size
    inside = graph.links_with("hb")
    source, target = graph.source[inside], graph.target[inside]
    if (graph.node_kind[np.maximum(source, target)] == HB_SWITCH).any() or size == 1:
        return "switch", None
    here = (source < size) & (target < size)
    rates = graph.bytes_per_s[inside][here]
    grid = grid_axes(source[here], target[here], rates, size)
    if grid is not None and len(grid) == 1:
        return grid[0].kind, None
    domain = graph.part(np.arange(graph.node_count) < size, inside[here])
    hosts = host_groups(domain)
    everywhere = np.zeros(size, np.int64)
    patterns = [*level_patterns(hosts, everywhere, np.arange(size), ())]
    return "switch", 1 / seconds_per_byte(hosts, patterns)[0]


def _levels(network: FabricGraph, sizing: Sizing) -> tuple[list[Level], list[str]]:
    """Levels of the network over full HB domains, and how they were measured."""
    domains = max(1, sizing.full_domains)
    if domains == 1:
        return [], []
    grid = _grid(network, domains)
    if grid is not None:
        return [replace(axis, step_latency_s=sizing.network_latency_s) for axis in grid], []
    hosts = host_groups(network)
    of_node = np.zeros(network.node_count)
    for end in (network.source, network.target):
        np.add.at(of_node, end, network.bytes_per_s)
    port = float(of_node[: network.gpus].min())  # of the GPU that has the least, all ports together
    rated: list[tuple[int, float]] = []
    everything, below = True, 1
    for size in _part_sizes(network, domains):
        rate, whole = _rate(hosts, sizing, below, size)
        everything &= whole
        rate = port if rate > port * (1 - ROUNDING) else rate
        if rated and abs(rated[-1][1] / rate - 1) < ROUNDING:
            rated[-1] = (rated[-1][0] * size // below, rate)
        else:
            rated.append((size // below, rate))
        below = size
    notes = ["On its links all GPUs together reach the whole rate of their ports."]
    if any(rate != port for _, rate in rated):
        parts = (
            f"between {size:,} parts {100 * rate / port:.3g} % of a GPU's rate"
            for size, rate in rated
        )
        notes = [f"Measured on its links, over shortest paths: {', then '.join(parts)}."]
    if not everything:
        notes.append("Links of one kind count by their mean: the graph is too large for each.")
    return [network_level(sizing, size, rate) for size, rate in rated], notes


def _levels_of_rail(spec: FabricSpec, sizing: Sizing) -> tuple[list[Level], list[str]]:
    """Levels of one rail, which all others are like, for the full HB domains."""
    asked = replace(sizing, gpus=sizing.domains, hb_size=1)
    levels, measured = _levels(_grouped(own_graph(spec, asked)), asked)
    if sizing.full_domains == sizing.domains:
        return levels, measured
    rest = sizing.full_domains
    return [replace(level, size=rest) for level in levels if rest > 1], measured


def _grid(network: FabricGraph, domains: int) -> tuple[Level, ...] | None:
    """Axes of the grid that every rail is; None if they are none, or not all the same one."""
    if (network.node_kind == SWITCH).any() or network.gpus % network.hb_size:
        return None
    source, target, size = network.source, network.target, network.hb_size
    if (source % size != target % size).any() or not network.link_count:
        return None
    grids = {
        grid_axes(source[rail] // size, target[rail] // size, network.bytes_per_s[rail], domains)
        for rail in (source % size == rank for rank in range(size))
    }
    return grids.pop() if len(grids) == 1 else None


def _part_sizes(network: FabricGraph, domains: int) -> Iterator[int]:
    """Domains in the parts that hang together below each tier, where they are alike; last, all."""
    size = network.hb_size
    of_domain, below = np.arange(network.gpus) // size, 1
    for joined in _joined_below(network):
        part = joined_gpus(network, joined, of_domain)[: domains * size : size]
        part_size = int(np.bincount(part).max())
        alike = domains % part_size == 0 and np.array_equal(part, np.arange(domains) // part_size)
        if alike and part_size % below == 0 and below < part_size < domains:
            yield part_size
            below = part_size
    if domains > below:
        yield domains


def _joined_below(network: FabricGraph) -> Iterator[Bools]:
    """Links that join parts: those up to each tier, first without those within it, then all."""
    height = tier_numbers(network)
    ends = height[network.source], height[network.target]
    low, high = np.minimum(*ends), np.maximum(*ends)
    links = 0
    for tier in range(1, int(height.max()) + 1):
        for more in (low < tier, True):
            joined = (high < tier) | ((high == tier) & more)
            # Each set holds the one before: as many links are the same ones.
            if joined.sum() > links:
                links = joined.sum()
                yield joined


def _rate(hosts: HostGroups, sizing: Sizing, below: int, size: int) -> tuple[float, bool]:
    """Rate of a GPU for what crosses parts of ``below`` domains in those of ``size`` [B/s]."""
    gpus, hb_size = len(hosts.of_gpu), sizing.hb_size
    gpu = np.arange(gpus)
    domain = gpu // hb_size
    there = domain < sizing.full_domains // size * size
    outer, inner = (np.where(there, domain // domains, -1) for domains in (size, below))
    parts = size // below
    steps = []
    for step in _step_sizes(parts):
        ahead = (domain // below % parts + step) % parts
        to = (domain // size * parts + ahead) * below + domain % below
        steps.append(np.where(there, to * hb_size + gpu % hb_size, gpu))
    seconds, whole = seconds_per_byte(hosts, [*level_patterns(hosts, outer, inner, steps)])
    return 1 / seconds, whole


def _step_sizes(parts: int) -> list[int]:
    """Powers of two below the parts, spread over all of them.

    Examples
    --------
    >>> _step_sizes(3), _step_sizes(256)
    ([1, 2], [1, 4, 16, 128])
    """
    powers = [1 << place for place in range(max(1, (parts - 1).bit_length())) if 1 << place < parts]
    if len(powers) <= MOST_STEPS:
        return powers
    places = np.linspace(0, len(powers) - 1, MOST_STEPS).astype(int)
    return [powers[place] for place in places.tolist()]


def _notes(
    spec: FabricSpec, asked: int, sizing: Sizing, graph: FabricGraph, measured: list[str]
) -> Iterator[str]:
    """What the graph is, what is idle, and how it was measured."""
    held = spec.whole_graph(sizing).gpus
    yield from idle_note(held, sizing)
    if graph.hb_size != asked:
        yield f"The HB domain is the graph's own: {counted(graph.hb_size, 'GPU')}."
    if graph.hb_size > 1 and not graph.has("hb"):
        yield (
            f"Its graph has no links inside HB domains: each {graph.hb_size:,} GPUs, in the order"
            " of their names, are one."
        )
    network = network_only(graph)
    alone = int(np.count_nonzero(network.ports_used[: network.gpus] == 0))
    if alone and spec.rails_alike and network.domains > 1:
        whole = sizing.domains * sizing.hb_size
        some = "1 GPU has" if alone == 1 else f"{alone:,} GPUs have"
        yield (
            f"{some} no link, since no other HB domain has a GPU of that rank: the network ports"
            f" there are idle. A design of {whole:,} GPUs has none such."
        )
    other = network.bytes_per_s != widths_of(network) * sizing.network_bytes_per_s
    if other.any():
        given = ", ".join(f"{gbps(rate):g}" for rate in np.unique(network.bytes_per_s[other]))
        yield (
            f"Links of {given} Gb/s are counted and priced as links of {sizing.speed_gbps:g} Gb/s,"
            " the rate of a GPU's slowest port."
        )
    yield from measured

"""From a fabric spec to its graph: every node, port and link, in agreement with the counts.

Links inside HB domains stand here, since all families share them: NVSwitch planes, rings, meshes,
and DGX-1's hybrid cube mesh. An HB switch joins all GPUs of its domain. A domain may have several
(``hb_planes``): every GPU has one link to each, as in the NVL72 rack, where 18 switch chips face 18
NVLink ports of each GPU. Each of them may be two tiers (``hb_leaf_gpus``, ``hb_spines``), as in the
UB plane of CloudMatrix384. The bandwidth of a GPU is shared evenly by its links. On a GPU the ports
of the domain come first.
"""

import numpy as np

from netplan.arrays import AnyInts, Indices, ceil_div, distinct_values
from netplan.errors import InputError
from netplan.records import replace
from netplan.topologies.assembly import Links, NameBlock, Nodes, Wired, assemble
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Sizing
from netplan.topologies.families.mixed_domains import FilledDomains, fill_domains
from netplan.topologies.families.product import direct_links
from netplan.topologies.graph import (
    GPU,
    HB_LINKS,
    HB_SWITCH,
    INSIDE,
    MAX_LINKS,
    FabricGraph,
    network_only,
)
from netplan.topologies.specs import DomainKind, FabricSpec

HYBRID_CUBE_MESH = (
    *((0, 1, 1), (0, 2, 1), (0, 3, 2), (1, 2, 2), (1, 3, 1), (2, 3, 2)),
    *((4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2)),
    *((0, 4, 2), (1, 5, 2), (2, 6, 1), (3, 7, 1)),
)
"""DGX-1 with V100 GPUs, as (GPU, GPU, NVLinks): two quads fully joined, and four links across.

Six links a GPU, some pairs doubled, some not joined at all (Li et al., Evaluating Modern GPU
Interconnect, IEEE TPDS 31, 2020, arXiv:1903.04611)."""


def domain_link_count(spec: FabricSpec, sizing: Sizing) -> int:
    """Links of all HB domains; an upper limit where the last one is partly filled.

    Links from GPU to GPU, and those above the lower of two tiers, are counted for full domains.
    """
    links = 0
    for filled in fill_domains(spec, sizing.gpus, sizing.hb_size):
        ports = spec.hb_ports(filled.kind.size) if spec.hb_scheme else filled.kind.ports
        switched = filled.kind.kind == "switch"
        places = filled.gpus if switched else filled.domains * filled.kind.size
        links += places * ports if switched else places * ports // 2
    leaves, spines = hb_tiers(spec, sizing.hb_size)
    return links + sizing.domains * spec.hb_planes * leaves * spines


def hb_tiers(spec: FabricSpec, hb_size: int) -> tuple[int, int]:
    """HB switches that face GPUs in each plane of a domain of this size, and those above them [1].

    Examples
    --------
    CloudMatrix384: 48 nodes, and 16 switches above them in each of seven planes.

    >>> from netplan.topologies.specs import FABRICS
    >>> hb_tiers(FABRICS.load("cloudmatrix384"), 384), hb_tiers(FABRICS.load("nvl72"), 72)
    ((48, 16), (1, 0))
    """
    leaves = ceil_div(hb_size, spec.hb_leaf_gpus or hb_size)
    return leaves, (spec.hb_spines or 0) if leaves > 1 else 0


def wire_domains(spec: FabricSpec, sizing: Sizing) -> Wired:
    """HB switches, numbered after the GPUs, and all links inside HB domains.

    Links to switches are ordered by GPU, then plane; direct links by domain, then pair.
    """
    if hb_tiers(spec, sizing.hb_size)[1]:
        return _wire_two_tiers(spec, sizing)
    nodes: list[Nodes] = []
    links: list[Links] = []
    number, switch = 0, sizing.gpus
    for filled in fill_domains(spec, sizing.gpus, sizing.hb_size):
        if filled.kind.size > 1 and filled.kind.kind == "switch":
            planes = filled.kind.planes
            names = NameBlock("domain-{}/nvswitch-{}", (filled.domains, planes), first=number)
            nodes.append(Nodes(HB_SWITCH, -1, names))
            links.append(_switched(filled, sizing, switch))
            switch += len(names)
        elif filled.kind.size > 1:
            links.append(_direct(spec, filled, sizing))
        number += filled.domains
    return Wired(tuple(nodes), tuple(links))


def _switched(filled: FilledDomains, sizing: Sizing, first: int) -> Links:
    """A link of every GPU to each switch of its domain, by GPU, then switch."""
    planes = filled.kind.planes
    local = np.repeat(np.arange(filled.gpus, dtype=np.int32), planes)
    plane = np.tile(np.arange(planes, dtype=np.int32), filled.gpus)
    domain, rank = np.divmod(local, np.int32(min(filled.kind.size, filled.gpus)))
    rate = sizing.hb_bytes_per_s / planes
    return Links(
        HB_LINKS, filled.first + local, first + domain * planes + plane, plane, rank, rate, INSIDE
    )


def _wire_two_tiers(spec: FabricSpec, sizing: Sizing) -> Wired:
    """HB planes of two tiers: links by GPU, then plane; above by domain, plane, switch and spine.

    A lower switch has the bandwidth of its GPUs upwards, shared evenly by the spines.
    """
    planes, (leaves, spines) = spec.hb_planes, hb_tiers(spec, sizing.hb_size)
    rate = sizing.hb_bytes_per_s / planes
    held = ceil_div(sizing.hb_size, leaves) if spec.hb_leaf_gpus is None else spec.hb_leaf_gpus
    gpu = np.repeat(np.arange(sizing.gpus, dtype=np.int32), planes)
    plane = np.tile(np.arange(planes, dtype=np.int32), sizing.gpus)
    domain, rank = np.divmod(gpu, np.int32(sizing.hb_size))
    below = sizing.gpus + (domain * planes + plane) * leaves + rank // held
    lower = Links(HB_LINKS, gpu, below, plane, rank % held, rate, INSIDE)
    copies = sizing.domains * planes
    copy, leaf, spine = (
        index.ravel() for index in np.indices((copies, leaves, spines), dtype=np.int32)
    )
    first = sizing.gpus + copies * leaves
    upper = Links(
        HB_LINKS,
        sizing.gpus + copy * leaves + leaf,
        first + copy * spines + spine,
        held + spine,
        leaf,
        rate * held / spines,
        INSIDE,
    )
    shape = (sizing.domains, planes)
    nodes = (
        Nodes(HB_SWITCH, -1, NameBlock("domain-{}/plane-{}/nvswitch-{}", (*shape, leaves))),
        Nodes(HB_SWITCH, -1, NameBlock("domain-{}/plane-{}/nvswitch-top-{}", (*shape, spines))),
    )
    return Wired(nodes, (lower, upper))


def _direct(spec: FabricSpec, filled: FilledDomains, sizing: Sizing) -> Links:
    """Links from GPU to GPU, one domain's pattern repeated; pairs that miss a GPU are left out."""
    pattern = _pattern(spec, filled.kind)
    base = filled.kind.size * np.arange(filled.domains, dtype=np.int32)
    source, target = (np.add.outer(base, end).ravel() for end in pattern[:2])
    there = (source < filled.gpus) & (target < filled.gpus)
    port, peer_port = (np.add.outer(0 * base, port).ravel()[there] for port in pattern[2:])
    near, far = (filled.first + end[there] for end in (source, target))
    rate = sizing.hb_bytes_per_s / (2 * len(pattern[0]) / filled.kind.size)
    return Links(HB_LINKS, near, far, port, peer_port, rate, INSIDE)


def _pattern(spec: FabricSpec, kind: DomainKind) -> tuple[AnyInts, AnyInts, AnyInts, AnyInts]:
    """Direct links of one domain: first and second GPU, and the ports they use."""
    if not spec.hb_scheme:
        return direct_links(kind.kind, kind.size)
    table = np.array(HYBRID_CUBE_MESH, np.int32)
    first, second = (np.repeat(table[:, end], table[:, 2]) for end in (0, 1))
    ends = np.stack((first, second), axis=1).ravel()
    ports = np.array([np.count_nonzero(ends[:i] == gpu) for i, gpu in enumerate(ends)], np.int32)
    return first, second, ports[0::2], ports[1::2]


def network_of(spec: FabricSpec, sizing: Sizing) -> FabricGraph:
    """The graph of a fabric without what is inside its HB domains: a tenth of the time.

    Raises
    ------
    InputError
        As of :func:`expand`.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=1024, radix=32).sizing
    >>> network_of(FABRICS.load("rail-only"), sizing)
    <FabricGraph rail-only: 1,024 GPUs, 1,120 nodes, 2,048 links>
    """
    if spec.own_graph or spec.domains:
        return network_only(expand(spec, sizing))
    fabric = build_fabric(spec, sizing)
    if fabric.link_count > MAX_LINKS:
        return expand(spec, sizing)  # which refuses it
    sizing = fabric.sizing
    gpus = Wired((Nodes(GPU, 0, NameBlock("gpu-{}", (sizing.gpus,))),))
    parts = (gpus, spec.wire(fabric, sizing.gpus, 0))
    return assemble(spec.name, sizing.gpus, sizing.hb_size, parts).as_found(sizing.as_found)


def expand(spec: FabricSpec, sizing: Sizing) -> FabricGraph:
    """Expand a fabric to its graph.

    The spec's own HB domain replaces the sizing's. Link groups are ``hb`` and those of the fabric's
    counts, each with exactly as many links. Rates beyond HB domains are what traffic finds of them.

    Raises
    ------
    InputError
        If the fabric cannot be built in this size, or has more than 134 million links.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=1024, radix=32).sizing
    >>> graph = expand(FABRICS.load("rail-only"), sizing)
    >>> graph.links_per_group()
    {'hb': 1024, 'host': 1024, 'leaf-spine': 1024}
    >>> graph.node_name(17), graph.node_name(1024), graph.node_name(1152), graph.node_name(-1)
    ('gpu-17', 'domain-0/nvswitch-0', 'rail-0/leaf-0', 'rail-7/spine-3')
    """
    fabric = build_fabric(spec, sizing)
    sizing = fabric.sizing
    if spec.own_graph:
        # Hardly any fabric is made from a graph.
        from netplan.topologies.own.graph_fabric import graph_of  # noqa: PLC0415

        graph = graph_of(spec, sizing)
        bare = sizing.hb_size > 1 and not graph.has("hb")
        graph = with_domains(graph, sizing.hb_bytes_per_s) if bare else graph
        return graph.as_found(sizing.as_found)
    expected = fabric.link_count + domain_link_count(spec, sizing)
    if expected > MAX_LINKS:
        raise InputError(
            f"{spec.name} with {sizing.gpus:,} GPUs in HB domains of {sizing.hb_size:,} has"
            f" {expected:,} links, more than the {MAX_LINKS:,} of a graph: take fewer GPUs, or"
            " HB domains joined by switches"
        )
    gpus = Wired((Nodes(GPU, 0, NameBlock("gpu-{}", (sizing.gpus,))),))
    domains = wire_domains(spec, sizing)
    first = sizing.gpus + sum(len(block.names) for block in domains.nodes)
    network = spec.wire(fabric, first, spec.hb_ports(sizing.hb_size))
    graph = assemble(spec.name, sizing.gpus, sizing.hb_size, (gpus, domains, network))
    return graph.as_found(sizing.as_found)


def switched_domain_size(graph: FabricGraph) -> int:
    """GPUs at the HB switch that has the most; 0 where there is no HB switch [1].

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.graph import HB_LINKS, network_only
    >>> from netplan.topologies.specs import FABRICS
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=20, radix=8)
    >>> graph = expand(FABRICS.load("rail-only"), scenario.sizing)
    >>> switched_domain_size(graph), switched_domain_size(network_only(graph))
    (8, 0)
    """
    first, second = np.minimum(graph.source, graph.target), np.maximum(graph.source, graph.target)
    inside = (first < graph.gpus) & (graph.node_kind[second] == HB_SWITCH)
    # Several links may join a GPU to its switch.
    pairs = distinct_values(second[inside].astype(np.int64) * graph.gpus + first[inside])
    return int(np.unique(pairs // graph.gpus, return_counts=True)[1].max(initial=0))


def lacks_domains(graph: FabricGraph) -> bool:
    """Whether a graph says nothing of the links inside its HB domains."""
    if graph.hb_size == 1 or (graph.node_kind == HB_SWITCH).any():
        return False
    ends = graph.source, graph.target
    gpus = (ends[0] < graph.gpus) & (ends[1] < graph.gpus)
    inside = ends[0] // graph.hb_size == ends[1] // graph.hb_size
    return not (gpus & inside).any()


def with_domains(graph: FabricGraph, hb_bytes_per_s: float) -> FabricGraph:
    """The graph with an HB switch a domain, which what finds networks does not see.

    Parameters
    ----------
    graph
        A network without links inside HB domains, such as ``ibnetdiscover`` finds it.
    hb_bytes_per_s
        Bandwidth of one GPU into its HB domain [B/s].

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.graph import HB_LINKS, network_only
    >>> from netplan.topologies.specs import FABRICS
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16)
    >>> graph = expand(FABRICS.load("rail-only"), scenario.sizing)
    >>> bare = network_only(graph)
    >>> lacks_domains(bare), with_domains(bare, 450e9).links_per_group()
    (True, {'hb': 64, 'host': 64})
    """
    gpus, size, count = graph.gpus, graph.hb_size, graph.domains
    gpu = np.arange(gpus, dtype=np.int32)
    free = np.full(graph.node_count, -1, np.int32)
    for end, port in ((graph.source, graph.source_port), (graph.target, graph.target_port)):
        np.maximum.at(free, end, port)

    def put(first: AnyInts, rest: AnyInts) -> Indices:
        return np.concatenate((first, rest)).astype(np.int32)

    names = [f"domain-{number}/nvswitch-0" for number in range(count)]
    return replace(
        graph,
        node_kind=np.insert(graph.node_kind, gpus, np.full(count, HB_SWITCH, np.int8)),
        node_tier=np.insert(graph.node_tier, gpus, np.full(count, -1, np.int8)),
        names=(*graph.names[:gpus], *names, *graph.names[gpus:]),
        source=put(gpu, graph.source + count * (graph.source >= gpus)),
        target=put(gpus + gpu // size, graph.target + count * (graph.target >= gpus)),
        source_port=put(free[:gpus] + 1, graph.source_port),
        target_port=put(gpu % size, graph.target_port),
        bytes_per_s=np.concatenate((np.full(gpus, hb_bytes_per_s), graph.bytes_per_s)),
        length_class=np.insert(graph.length_class, 0, np.full(gpus, INSIDE, np.int8)),
        group=np.insert(graph.group + np.int8(1), 0, np.zeros(gpus, np.int8)),
        groups=(HB_LINKS, *graph.groups),
    )

"""What the failure of one network switch does: which GPUs it cuts off, how much of a domain's rate.

A fabric survives if, whichever switch fails, all GPUs still reach each other over the links that
are left, where a GPU may forward for others through its HB domain. Gear inside HB domains is left
out: an HB switch of the model stands for several chips.

An HB domain therefore acts as one node, and two things can go wrong:

*leaf*   all ports of some domain lie under one switch, so that its failure cuts the domain off;
*above*  the switch is the only way between two parts of the network, and no HB domain has ports
         in both. Where every leaf has two or more switches above it (or a plane, a rail, a level
         of a BCube remains whole) this cannot happen. Where there is one only, the parts that its
         failure leaves are listed, and HB domains must join them.

GPUs of a BCube forward between its levels, those of a HammingMesh over their boards. Tori and
products have no switches.

How much of a fabric is left as more and more of its parts fail, drawn at random.

Parts fail in one random order, so that a step holds all failures of the step before. What is left
are the GPUs that are up and whose own ports still reach the rest; that others may forward for a
GPU through its HB domain is not counted, nor does a share say how fast a job goes on.
"""

import numpy as np
from msgspec import Struct

from netplan.arrays import NO_NUMBERS, Ints
from netplan.faults.damage.damage import Components, cut_off_gpus, intact_components
from netplan.faults.damage.inventory import Inventory, Parts
from netplan.topologies.assembly import NameBlock
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric
from netplan.topologies.families import joined_switches
from netplan.topologies.families.bcube import BCube, bcube_ports
from netplan.topologies.families.dragonfly import Dragonfly, dragonfly_shape
from netplan.topologies.families.mixed_domains import domain_of_gpu
from netplan.topologies.families.switched import Clos, ScalableUnits
from netplan.topologies.graph import connected_parts, network_only
from netplan.topologies.specs import FabricSpec

STEPS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
MOST_SHARE = 0.2
"""Share of the parts up to which they fail [1]."""


class Attrition(Struct, frozen=True):
    """What is left of a fabric.

    Parameters
    ----------
    kind
        Parts that fail, as an inventory calls them.
    parts
        How many there are [1].
    left
        Failed parts [1] and the share of GPUs that keep their network [1], step by step.
    """

    kind: str
    parts: int
    left: tuple[tuple[int, float], ...]


def attrition(
    inventory: Inventory, kind: str, rng: np.random.Generator, intact: Components | None = None
) -> Attrition | None:
    """Let parts of one kind fail, one random order for all steps; None where there are none.

    Parameters
    ----------
    inventory
        The parts of the fabric.
    kind
        Which of them fail, such as ``switch`` or ``link``.
    rng
        Draws the order.
    intact
        Components of the intact network; None finds them.

    Examples
    --------
    Each leaf of a rail takes the ports of 32 of 256 GPUs.

    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=256, radix=32)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> attrition(Inventory(graph), "switch", np.random.default_rng(0)).left
    ((0, 1.0), (1, 0.875))
    """
    part_kind = inventory.kinds.get(kind)
    if part_kind is None or not len(part_kind.numbers):
        return None
    graph, total = inventory.graph, len(part_kind.numbers)
    order, intact = rng.permutation(part_kind.numbers), intact or intact_components(graph)[0]
    left = [(0, 1.0)]
    for count in STEPS:
        if count > max(1, MOST_SHARE * total):
            break
        damage = inventory.damage([Parts(part_kind, order[:count])])
        down = int(damage.node_down[: graph.gpus].sum())
        gone = down + len(cut_off_gpus(graph, damage, intact))
        left.append((count, 1 - gone / graph.gpus))
    return Attrition(kind, total, tuple(left))


TWO_TIERS = 2


class SwitchLoss(Struct, frozen=True):
    """What the worst failure of a single network switch takes.

    Parameters
    ----------
    survives
        Whether all GPUs still reach each other, whichever switch fails.
    share
        Largest share of an HB domain's network ports that lie under one switch [1].
    """

    survives: bool
    share: float


def switch_loss(spec: FabricSpec, fabric: Fabric) -> SwitchLoss:
    """What the worst failure of a single network switch takes from a fabric.

    Parameters
    ----------
    spec, fabric
        The spec and its sized fabric.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=1024, radix=32).sizing
    >>> for name in ("rail-only", "fat-tree", "torus-3d"):
    ...     spec = FABRICS.load(name)
    ...     print(name, switch_loss(spec, build_fabric(spec, sizing)))
    rail-only SwitchLoss(survives=True, share=0.125)
    fat-tree SwitchLoss(survives=False, share=1.0)
    torus-3d SwitchLoss(survives=True, share=0.0)
    """
    if not fabric.tiers:
        return SwitchLoss(survives=True, share=0.0)
    sizing = fabric.sizing
    gpu = np.arange(sizing.gpus)
    leaf = spec.leaf_of(sizing, gpu)
    if leaf is None:
        domains, source, target = _graph_ends(spec, fabric)
        low, high = np.minimum(source, target), np.maximum(source, target)
        up = (low < domains) & (high >= domains)
        ports = np.bincount(np.concatenate((source, target)))
        pairs, links = np.unique(np.stack((low[up], high[up])), axis=1, return_counts=True)
        share = float((links / ports[pairs[0]]).max(initial=0.0))
        return SwitchLoss(_graph_survives(domains, source, target), share)
    domain = gpu // sizing.hb_size
    # In every wiring the leaves rise with the rank, so that those of one domain stand in runs.
    begins = np.flatnonzero(np.diff(leaf, prepend=-1) | np.diff(domain, prepend=-1))
    runs = np.diff(begins, append=sizing.gpus)
    sizes = np.minimum(sizing.hb_size, sizing.gpus - domain[begins] * sizing.hb_size)
    share = float((runs / sizes).max()) / spec.separate_ports
    return SwitchLoss(survives_switch(spec, fabric), share)


def survives_switch(spec: FabricSpec, fabric: Fabric) -> bool:
    """Whether all GPUs still reach each other, whichever network switch fails.

    Parameters
    ----------
    spec, fabric
        The spec and its sized fabric.
    """
    sizing = fabric.sizing
    if not fabric.tiers or sizing.domains == 1:
        return True
    leaf = spec.leaf_of(sizing, np.arange(sizing.gpus))
    if leaf is None:
        return _graph_survives(*_graph_ends(spec, fabric))
    levels = spec.separate_ports
    if isinstance(spec, BCube) and bcube_ports(spec, sizing) ** levels > sizing.gpus:
        return _survives_in_part(spec, fabric)
    if levels > 1:
        return True
    if spec.domains:  # of several sizes
        domain, leaf = _ends(spec, fabric)
        order = np.argsort(domain, kind="stable")
        begins = np.flatnonzero(np.diff(domain[order], prepend=-1))
        low, high = (end.reduceat(leaf[order], begins) for end in (np.minimum, np.maximum))
        return len(begins) == 1 or (bool((low < high).all()) and _joined_above(spec, fabric))
    first = np.arange(sizing.domains) * sizing.hb_size
    last = np.minimum(first + sizing.hb_size, sizing.gpus) - 1
    # The leaves rise with the rank: a domain lies under one leaf if its ends do.
    cut = (leaf[first] == leaf[last]).any()
    return not cut and _joined_above(spec, fabric)


def _graph_ends(spec: FabricSpec, fabric: Fabric) -> tuple[int, Ints, Ints]:
    """HB domains of a graph [1], and both ends of its network links: domains, then other nodes."""
    graph = network_only(expand(spec, fabric.sizing))
    gpus, domains = graph.gpus, graph.domains
    number = np.concatenate(
        [np.arange(gpus) // graph.hb_size, domains + np.arange(graph.node_count - gpus)]
    )
    return domains, number[graph.source], number[graph.target]


def _graph_survives(domains: int, source: Ints, target: Ints) -> bool:
    """Whether all HB domains stay joined, whichever switch of a graph fails."""
    nodes = int(max(source.max(), target.max())) + 1
    names = NameBlock("node-{}", (nodes,))
    links = joined_switches.SwitchLinks(joined_switches.BETWEEN_SWITCHES, source, target)
    for lost in joined_switches.cut_switches(
        joined_switches.SwitchGraph((("node", names),), 1, (links,), "")
    ):
        kept = (source != lost) & (target != lost)
        part = connected_parts(nodes, source[kept], target[kept])[:domains]
        if lost >= domains and (part != part[0]).any():
            return False
    return True


def _survives_in_part(spec: FabricSpec, fabric: Fabric) -> bool:
    """Whether a BCube with idle places is whole without any one switch.

    All switches between the first two and the last two of a level have neighbours like theirs.
    """
    graph = expand(spec, fabric.sizing)
    first = graph.node_count - fabric.switches
    gpu = np.arange(graph.gpus)
    leader = gpu // graph.hb_size * graph.hb_size
    network = graph.links_with("host")
    source, target = graph.source[network], graph.target[network]
    for tier in fabric.tiers:
        last = first + tier.switches
        for switch in {*range(first, last)[:2], *range(first, last)[-2:]}:
            kept = target != switch
            ends = np.concatenate([gpu, source[kept]]), np.concatenate([leader, target[kept]])
            part = connected_parts(graph.node_count, *ends)[: graph.gpus]
            if (part != part[0]).any():
                return False
        first = last
    return True


def _joined_above(spec: FabricSpec, fabric: Fabric) -> bool:
    """Whether no failure above the leaves, or beside them in a dragonfly, parts the GPUs."""
    if isinstance(spec, Dragonfly):
        return _dragonfly_joined(spec, fabric)
    if isinstance(spec, (Clos, ScalableUnits)):
        return _clos_joined(spec, fabric)
    if not isinstance(spec, joined_switches.JoinedSwitches):
        # Of rails one stays whole, and every domain has ports on two switches of rails.
        return True
    graph = joined_switches.switch_graph(spec, fabric.sizing)
    source, target = (
        np.concatenate([getattr(links, end) for links in graph.links] or [NO_NUMBERS])
        for end in ("source", "target")
    )
    domain, switch = _ends(spec, fabric)
    for lost in joined_switches.cut_switches(graph):
        there = (source != lost) & (target != lost)
        part = connected_parts(graph.switches, source[there], target[there])
        kept = switch != lost
        if not _joins(domain[kept], part[switch[kept]]):
            return False
    return True


def _clos_joined(spec: Clos | ScalableUnits, fabric: Fabric) -> bool:
    """Whether a Clos network stays joined if a switch above its leaves fails.

    Two tiers with one spine: its failure leaves each leaf alone. More tiers with one plane: it is a
    Clos network over the leaves, whose own leaves may fail. It has spines to spare: more leaves
    than one switch has ports send up more links than one spine holds.
    """
    tiers = spec.tree(fabric.sizing).tiers
    if len(tiers) < TWO_TIERS or tiers[1].planes > 1:
        return True
    domain, leaf = _ends(spec, fabric)
    if len(tiers) == TWO_TIERS:
        return _joins(domain, leaf)
    # Leaf l of the upper network takes those from floor(l n / leaves) on. Leaves and domains under
    # one of its switches hang together in clusters; each needs a domain that also lies elsewhere.
    above = ((leaf + 1) * tiers[1].switches - 1) // tiers[0].switches
    width = int(above.max()) + 1
    places, place = np.unique(domain * width + above, return_inverse=True)
    elsewhere = np.bincount(places // width)[places // width] > 1
    nodes = len(places) + int(leaf.max()) + 1
    label = connected_parts(nodes, place, len(places) + leaf)[: len(places)]
    return bool(np.isin(label, label[elsewhere]).all())


def _dragonfly_joined(spec: FabricSpec, fabric: Fabric) -> bool:
    """Whether the groups of a dragonfly stay joined if one of its switches fails.

    The links between groups begin at two or more switches of a group, unless there are two groups
    and one link, which joins the first switch of each.
    """
    shape = dragonfly_shape(spec, fabric.sizing)
    if shape.groups * shape.links_per_pair != TWO_TIERS:
        return True
    domain, switch = _ends(spec, fabric)
    group = shape.group_of(switch)
    firsts = shape.starts[:-1].tolist()
    return all(_joins(domain[switch != lost], group[switch != lost]) for lost in firsts)


def _ends(spec: FabricSpec, fabric: Fabric) -> tuple[Ints, Ints]:
    """HB domain and switch of every GPU."""
    leaf = spec.leaf_of(fabric.sizing, np.arange(fabric.sizing.gpus))
    assert leaf is not None  # noqa: S101 - else the graph is asked
    return domain_of_gpu(spec, fabric.sizing), leaf


def _joins(domain: Ints, part: Ints) -> bool:
    """Whether HB domains join all parts that their GPUs lie in."""
    domains = int(domain.max()) + 1
    label = connected_parts(domains + int(part.max()) + 1, domain, domains + part)
    return bool((label[domain] == label[domain[0]]).all())

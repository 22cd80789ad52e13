"""Where GPUs meet Clos networks: rail wiring, fat-tree wiring, scalable units, rail-only.

``rail wiring``      endpoints ordered by rank, then domain: a rail stays under as few leaves as
                     its size allows;
``fat-tree wiring``  endpoints in the order of the GPUs: consecutive GPUs share a leaf;
``scalable units``   half a radix of nodes a unit, and one leaf for each of its rails;
``rail-only``        a network of its own for every rail, or a share of one switch.

``planes``           as many copies of a Clos network as a GPU has ports, one port to each.

Host links come plane by plane, in the order of the GPUs, then of the management hosts. Links above
follow network by network, in the order of :mod:`netplan.topologies.clos_wiring`.
"""

from dataclasses import dataclass

import numpy as np

from netplan.arrays import AnyInts, Ints
from netplan.topologies.assembly import Links, Nodes, Wired
from netplan.topologies.clos import ceil_div
from netplan.topologies.clos_wiring import ClosWiring, wire_clos
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.graph import HALL, MANAGER, ROW, SWITCH
from netplan.topologies.naming import NameBlock
from netplan.topologies.specs import FabricSpec

TIER_NAMES = ("leaf", "spine", "core")


@dataclass(frozen=True, slots=True)
class Network:
    """Equal copies of one Clos network.

    Parameters
    ----------
    wiring
        The network.
    copies
        How many there are [1].
    prefix
        Pattern before a switch's own name, with ``{}`` for the copy; empty for a single network.
    first
        Number of the first copy in names [1].
    leaf_names
        Names of the leaves, if they stand for more than their number.
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
        label = TIER_NAMES[tier] if tier < len(TIER_NAMES) else f"tier-{tier + 1}"
        shape = self.wiring.shapes[tier]
        pattern = "plane-{}/" * (len(shape) - 1) + label + "-{}"
        if self.prefix:
            return NameBlock(self.prefix + pattern, (self.copies, *shape), self.first)
        return NameBlock(pattern, shape)


@dataclass(frozen=True, slots=True, eq=False)
class Attachment:
    """Host links, shape (links,): the host and its network port, the leaf and the leaf's port.

    Hosts are GPUs, then managers; leaves are counted over all networks.
    """

    host: Ints
    host_port: Ints
    leaf: Ints
    leaf_port: Ints


def wire_any_to_any(spec: FabricSpec, fabric: Fabric, first: int, port: int) -> Wired:
    """Wire one Clos network over all GPUs, and over management hosts if there are any.

    Parameters
    ----------
    spec, fabric
        The spec and its sized fabric (family ``clos`` or ``scalable-units``).
    first
        Number of the first switch.
    port
        Port of a GPU that the network takes.
    """
    sizing = fabric.sizing
    hosts = np.arange(sizing.gpus + spec.management_links)
    if spec.family == "scalable-units":
        room = sizing.hb_size * (sizing.radix // 2)
        wiring = wire_clos(ceil_div(len(hosts), room) * room, sizing.radix)
    else:
        ratio = sizing.oversubscription or spec.oversubscription
        wiring = wire_clos(len(hosts), sizing.radix, oversubscription=ratio)
    end = endpoints(spec, sizing, hosts)
    bottom, leaves = wiring.stages[0], wiring.switches_per_tier[0]
    plane = np.repeat(np.arange(spec.planes), len(hosts))
    attachment = Attachment(
        host=np.tile(hosts, spec.planes),
        host_port=plane,
        leaf=plane * leaves + np.tile(bottom.upper[end], spec.planes),
        leaf_port=np.tile(bottom.upper_port[end], spec.planes),
    )
    names = _leaf_names(spec, fabric, leaves)
    network = Network(wiring, leaf_names=names)
    if spec.planes > 1:
        network = Network(wiring, spec.planes, "plane-{}/")
    return _wire(fabric, [network], attachment, (first, port))


def endpoints(spec: FabricSpec, sizing: Sizing, hosts: Ints) -> Ints:
    """Endpoint of the network that each host takes, managers numbered on from the GPUs."""
    domain, rank = np.divmod(hosts, sizing.hb_size)
    if spec.family == "scalable-units":
        half = sizing.radix // 2
        unit, place = np.divmod(domain, half)
        return (unit * sizing.hb_size + rank) * half + place
    if not spec.rail_wiring:
        return hosts
    # The first ranks have one GPU more if the last domain is partly filled, so a rail begins
    # where the rails before it, some of them shorter, end. Managers come after all rails.
    full, extra = divmod(sizing.gpus, sizing.hb_size)
    by_rail = rank * full + np.minimum(rank, extra) + domain
    return np.where(hosts < sizing.gpus, by_rail, hosts)


def _leaf_names(spec: FabricSpec, fabric: Fabric, leaves: int) -> NameBlock | None:
    """Names that say which unit or rail a leaf serves, where it serves one only."""
    rails, gpus = fabric.sizing.hb_size, fabric.sizing.gpus
    even = leaves % rails == 0 and leaves > 1
    if spec.family == "scalable-units" and even:
        return NameBlock("unit-{}/leaf-{}", (leaves // rails, rails))
    if spec.rail_wiring and even and gpus % rails == 0 and not spec.management_links:
        return NameBlock("rail-{}/leaf-{}", (rails, leaves // rails))
    return None


def wire_rail_only(spec: FabricSpec, fabric: Fabric, first: int, port: int) -> Wired:
    """Wire a network for every rail, none between rails; small rails share switches.

    Parameters as in :func:`wire_any_to_any`.
    """
    sizing = fabric.sizing
    hosts = sizing.domains
    if hosts <= 1:
        return Wired()
    gpu = np.arange(sizing.gpus)
    domain, rank = np.divmod(gpu, sizing.hb_size)
    if hosts <= sizing.radix:
        shared = sizing.radix // hosts
        switches = ceil_div(sizing.hb_size, shared)
        names = NameBlock("rail-{}/leaf-0" if shared == 1 else "leaf-{}", (switches,))
        network = Network(ClosWiring(((switches,),), ()), leaf_names=names)
        leaf_port = rank % shared * hosts + domain
        attachment = Attachment(gpu, 0 * gpu, rank // shared, leaf_port)
        return _wire(fabric, [network], attachment, (first, port))
    ratio = sizing.oversubscription or spec.oversubscription
    long_rails = sizing.gpus - (hosts - 1) * sizing.hb_size
    long = wire_clos(hosts, sizing.radix, oversubscription=ratio)
    networks = [Network(long, long_rails, "rail-{}/")]
    leaves = long.switches_per_tier[0]
    is_long = rank < long_rails
    leaf = rank * leaves + long.stages[0].upper[domain]
    leaf_port = long.stages[0].upper_port[domain]
    if long_rails < sizing.hb_size:
        short = wire_clos(hosts - 1, sizing.radix, oversubscription=ratio)
        networks.append(Network(short, sizing.hb_size - long_rails, "rail-{}/", long_rails))
        # The last domain has no GPU on the short rails: its index is never looked up there.
        within = np.minimum(domain, hosts - 2)
        base = long_rails * leaves + (rank - long_rails) * short.switches_per_tier[0]
        leaf = np.where(is_long, leaf, base + short.stages[0].upper[within])
        leaf_port = np.where(is_long, leaf_port, short.stages[0].upper_port[within])
    attachment = Attachment(gpu, 0 * gpu, leaf, leaf_port.astype(np.int64))
    return _wire(fabric, networks, attachment, (first, port))


def _wire(
    fabric: Fabric, networks: list[Network], attachment: Attachment, begin: tuple[int, int]
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
    managers = int(attachment.host.max()) + 1 - sizing.gpus
    if managers:
        nodes.append(Nodes(MANAGER, 0, NameBlock("manager-{}", (managers,))))
    is_gpu = attachment.host < sizing.gpus
    source = np.where(is_gpu, attachment.host, attachment.host - sizing.gpus + first)
    source_port = attachment.host_port + port * is_gpu
    leaf = bases[0][0] + attachment.leaf
    rate = sizing.network_bytes_per_s
    names = [group.name for group in fabric.links]
    links = [Links(names[0], source, leaf, source_port, attachment.leaf_port, rate, ROW)]
    for tier, name in enumerate(names[1:], start=1):
        for number, network in enumerate(networks):
            if network.switches(tier):
                base = (bases[tier - 1][number], bases[tier][number])
                links.append(_stage(network, tier, base, name, rate))
    return Wired(tuple(nodes), tuple(links))


def _stage(network: Network, tier: int, base: tuple[int, int], name: str, rate: float) -> Links:
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
        name,
        repeat(stage.lower, base[0], sizes[tier - 1]),
        repeat(stage.upper, base[1], sizes[tier]),
        repeat(stage.lower_port, 0, 0),
        repeat(stage.upper_port, 0, 0),
        rate,
        HALL,
    )

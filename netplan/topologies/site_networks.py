"""Networks beside the one that trains: storage, in-band management, out-of-band.

Each is a fabric spec with a rule for its ports, and is sized by the builders that size all fabrics.
They carry no collectives, so two tiers need no equal number of links between every leaf and every
spine: links of a leaf are dealt out over as many spines as their ports ask for, and the numbers of
two spines differ by one at most. Switches of the out-of-band network are no tree at all: each has
uplinks of another rate into the in-band network.
"""

from math import ceil
from typing import Annotated

from msgspec import Meta

from netplan import records
from netplan.arrays import ceil_div
from netplan.catalog import Catalog, Record
from netplan.inputs.choices import Confirmed, Evidence
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import MIN_GPUS, Fabric, Sizing, clos_parts
from netplan.topologies.families.clos import ClosCounts, leaf_ports
from netplan.topologies.graph import Medium
from netplan.topologies.specs import FabricSpec
from netplan.units import bytes_per_s


class WriteRate(records.Entry, frozen=True, kw_only=True):
    """Rate at which the storage of so many nodes takes what all of them write together [B/s]."""

    nodes: records.PositiveInt
    base_bytes_per_s: records.PositiveFloat
    low_bytes_per_s: records.PositiveFloat
    high_bytes_per_s: records.PositiveFloat
    date: str
    source: str
    evidence: Evidence
    confirmed: Confirmed


class SiteNetwork(Record, frozen=True, kw_only=True):
    """A network of a cluster's nodes, as its catalog file describes it.

    ``fabric`` names the fabric spec, ``switch`` the model of its switches, used where that has so
    many ports at the rate. ``service_share`` are ports of servers that are no nodes, as a share of
    the nodes' ports; ``ports_per_switch`` those of every switch of the other networks. ``cards``
    says whether the nodes' ports are cards on the bill. ``equal_uplinks`` asks for as many links
    between a leaf and every spine. A network with ``uplinks_per_switch`` is one tier, whose
    switches have so many uplinks of ``uplink_gbps`` into the network named ``uplinks_to``.
    ``writes`` is the rate at which all that the network leads to takes checkpoints; it grows with
    the nodes.
    """

    fabric: str
    switch: str = ""
    gpus_per_node: records.PositiveInt
    ports_per_node: records.NonNegativeInt
    ports_per_switch: records.NonNegativeInt = 0
    service_share: records.NonNegativeFloat = 0.0
    radix: records.PositiveInt
    link_gbps: records.PositiveFloat
    oversubscription: Annotated[float, Meta(ge=1)] = 1.0
    equal_uplinks: bool = False
    uplinks_per_switch: records.NonNegativeInt = 0
    uplink_gbps: records.PositiveFloat | None = None
    uplinks_to: str = ""
    host_medium: Medium = "optical"
    cards: bool = True
    writes: WriteRate | None = None
    notes: tuple[str, ...] = ()

    def ports(self, gpus: int, switches: int) -> int:
        """Ports that the network joins, for so many GPUs and switches of the other networks [1].

        Examples
        --------
        128 nodes of 8 GPUs have 2 ports each, the storage a quarter more: 256 + 64.

        >>> SITE_NETWORKS.load("storage").ports(1024, switches=48)
        320
        >>> SITE_NETWORKS.load("out-of-band").ports(1024, switches=48)
        176
        """
        nodes = ceil_div(gpus, self.gpus_per_node) * self.ports_per_node
        # Shares such as 0.05 are no binary fractions: 0.05 x 60 is a hair above 3.
        services = ceil(round(self.service_share * nodes, 6))
        return nodes + services + switches * self.ports_per_switch

    def write_bytes_per_s(self, gpus: int) -> tuple[float, float, float] | None:
        """Rates of checkpoints, low, base and high [B/s]; None without storage.

        They are those of the storage, at most of its ports.

        Examples
        --------
        16,384 GPUs are 2,048 nodes, whose storage is sixteen times that of 128. Its 1,024 ports
        would take 51 TB/s.

        >>> [rate / 1e9 for rate in SITE_NETWORKS.load("storage").write_bytes_per_s(16_384)]
        [480.0, 1280.0, 4000.0]
        """
        if self.writes is None:
            return None
        nodes = ceil_div(gpus, self.gpus_per_node)
        ports = max(1, ceil(round(self.service_share * nodes * self.ports_per_node, 6)))
        most = ports * bytes_per_s(self.link_gbps)
        rates = self.writes
        ends = (rates.low_bytes_per_s, rates.base_bytes_per_s, rates.high_bytes_per_s)
        low, base, high = (min(nodes / rates.nodes * end, most) for end in ends)
        return low, base, high


SITE_NETWORKS = Catalog("network", "topologies/networks", SiteNetwork)


def build_site_network(
    network: SiteNetwork, spec: FabricSpec, gpus: int, switches: int, uplinks: int = 0
) -> Fabric:
    """Size a site network, on the fabric spec that it names.

    Parameters
    ----------
    network, spec
        The network, and its fabric.
    gpus, switches
        GPUs of the cluster, and switches of its other networks [1].
    uplinks
        Uplinks of other networks that end on this one, beside the ports of nodes [1].

    Examples
    --------
    320 ports are ten leaves of 32 with 32 uplinks each, which are the ports of five spines.

    >>> from netplan.topologies.specs import FABRICS
    >>> storage = SITE_NETWORKS.load("storage")
    >>> fabric = build_site_network(storage, FABRICS.load(storage.fabric), 1024, 48)
    >>> [tier.switches for tier in fabric.tiers], fabric.links[0].links
    ([10, 5], 320)
    """
    rate = bytes_per_s(network.link_gbps)
    endpoints = max(MIN_GPUS, network.ports(gpus, switches))
    ports = endpoints + uplinks
    sizing = Sizing(ports, network.radix, 1, rate, rate, oversubscription=network.oversubscription)
    joined = spec.changed(host_medium=network.host_medium, notes=network.notes)
    fabric = records.replace(build_fabric(joined, sizing), nic_ports=endpoints)
    if network.uplinks_per_switch:
        counts = ClosCounts(network.radix, (ceil_div(ports, network.radix),), (ports,))
        return _counted(fabric, counts, network, "")
    two_tiers = len(fabric.tiers) == 2  # noqa: PLR2004 - leaves and spines
    if network.equal_uplinks or not two_tiers:
        return records.replace(fabric, notes=network.notes)
    counts, note = dealt_out(ports, network.radix, network.oversubscription)
    if counts.switches >= fabric.switches:
        return records.replace(fabric, notes=network.notes)
    return _counted(fabric, counts, network, note)


def dealt_out(ports: int, radix: int, oversubscription: float = 1.0) -> tuple[ClosCounts, str]:
    """Leaves that are full, and as many spines as their uplinks fill.

    A leaf of u uplinks has floor(u / s) or one more to each of s spines. Where leaf i takes the
    ones more in turn from spine i e on, e = u mod s, no two spines differ by more than one link,
    so that none has more than ceil(leaves u / s) <= radix.

    Examples
    --------
    1,280 ports: 40 leaves of 32 + 32, whose 1,280 uplinks fill 20 spines; an equal number of links
    from each leaf to each spine takes 32 spines.

    >>> counts, note = dealt_out(1280, 64)
    >>> counts.switches_per_tier, counts.links_per_tier
    ((40, 20), (1280, 1280))
    >>> note
    'A leaf has 1 or 2 links to each of the 20 spines: equal ones would need more spines.'
    """
    split = leaf_ports(radix, oversubscription)
    leaves = ceil_div(ports, split.down)
    uplinks = split.uplinks(ceil_div(ports, leaves))
    spines = min(uplinks, max(2, ceil_div(leaves * uplinks, radix)))
    least, more = divmod(uplinks, spines)
    links = f"{least} or {least + 1} links" if more else f"{least} link{'s' * (least > 1)}"
    equal = ": equal ones would need more spines" if more else ""
    note = f"A leaf has {links} to each of the {spines} spines{equal}."
    return ClosCounts(radix, (leaves, spines), (ports, leaves * uplinks)), note


def _counted(fabric: Fabric, counts: ClosCounts, network: SiteNetwork, note: str) -> Fabric:
    """The fabric with other counts of its tiers and links."""
    tiers, links = clos_parts(counts, counts, network.host_medium)
    notes = (*network.notes, *([note] if note else []))
    return records.replace(fabric, tiers=tiers, links=links, notes=notes)

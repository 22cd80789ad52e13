"""Networks beside the one that trains: storage, in-band management, out-of-band.

Each is a fabric spec with a rule for its ports, and is sized by the builders that size all fabrics.
"""

from math import ceil
from typing import Annotated

from msgspec import Meta

from netplan.catalog import Record, Shelf
from netplan.records import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from netplan.topologies.build import build_fabric
from netplan.topologies.clos import ceil_div
from netplan.topologies.fabric import MIN_GPUS, Fabric, Sizing
from netplan.topologies.specs import FabricSpec, Medium
from netplan.units import bytes_per_s


class SiteNetwork(Record, frozen=True, kw_only=True):
    """A network of a cluster's nodes, as its catalog file describes it.

    ``fabric`` names the fabric spec; ``service_share`` are ports of servers that are no nodes, as
    a share of the nodes' ports; ``ports_per_switch`` those of every switch of the other networks.
    ``cards`` says whether the nodes' ports are cards on the bill.
    """

    fabric: str
    gpus_per_node: PositiveInt
    ports_per_node: NonNegativeInt
    ports_per_switch: NonNegativeInt = 0
    service_share: NonNegativeFloat = 0.0
    radix: PositiveInt
    link_gbps: PositiveFloat
    oversubscription: Annotated[float, Meta(ge=1)] = 1.0
    host_medium: Medium = "optical"
    cards: bool = True
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


SITE_NETWORKS = Shelf("network", "topologies/networks", SiteNetwork)


def build_site_network(network: SiteNetwork, spec: FabricSpec, gpus: int, switches: int) -> Fabric:
    """Size a site network, on the fabric spec that it names.

    The cluster has so many GPUs, and so many switches in its other networks [1].

    Examples
    --------
    >>> from netplan.topologies.specs import FABRICS
    >>> storage = SITE_NETWORKS.load("storage")
    >>> fabric = build_site_network(storage, FABRICS.load(storage.fabric), 1024, 48)
    >>> fabric.switches, fabric.links[0].links
    (17, 320)
    """
    rate = bytes_per_s(network.link_gbps)
    ports = max(MIN_GPUS, network.ports(gpus, switches))
    sizing = Sizing(ports, network.radix, 1, rate, rate, oversubscription=network.oversubscription)
    joined = spec.changed(host_medium=network.host_medium, notes=network.notes)
    return build_fabric(joined, sizing)

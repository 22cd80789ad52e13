"""Cables of the networks beside the one that trains, port to port, in the columns of a cable plan.

Ports of nodes come first, port by port, so that two ports of a node end on different leaves; then
those of other servers, of switches that are managed, and uplinks of other networks. All are spread
evenly over the leaves, in order. Links of a leaf are dealt out over the spines as
:func:`netplan.topologies.site_networks.dealt_out` counts them.
"""

from collections.abc import Iterator, Sequence
from itertools import count

from msgspec import Struct

from netplan.errors import InputError
from netplan.topologies.cabling.as_built import cage_port
from netplan.topologies.cabling.device_names import host_name
from netplan.topologies.fabric import Fabric
from netplan.topologies.families.clos import ceil_div
from netplan.topologies.site_networks import SiteNetwork

Row = tuple[str, ...]
End = tuple[str, str]
"""A device and its port."""

MOST_TIERS = 2


class SiteCables(Struct, frozen=True):
    """One network beside, to be cabled.

    Parameters
    ----------
    network, fabric
        The network, and its sized form.
    gpus
        GPUs of the cluster [1].
    managed
        Names of switches of other networks that have a port here.
    uplinks
        Devices and ports of uplinks that end here.
    cage_links
        Links in a cage of its switches: 2 name ports 1/1 and 1/2 [1].
    """

    network: SiteNetwork
    fabric: Fabric
    gpus: int
    managed: Sequence[str] = ()
    uplinks: Sequence[End] = ()
    cage_links: int = 1

    @property
    def switch_names(self) -> list[str]:
        """Names of its switches, leaves first."""
        return [
            self._switch(tier.name, number)
            for tier in self.fabric.tiers
            for number in range(tier.switches)
        ]

    @property
    def uplink_ends(self) -> list[End]:
        """Ends of its own uplinks into another network."""
        each = range(1, self.network.uplinks_per_switch + 1)
        return [(name, f"uplink-{port}") for port in each for name in self.switch_names]

    def require_plan(self) -> None:
        """Refuse a network of more than two tiers; InputError.

        Whoever writes a plan asks before its first row.
        """
        tiers, network = self.fabric.tiers, self.network
        if len(tiers) > MOST_TIERS:
            ports = self.fabric.links[0].links
            raise InputError(
                f"--with {network.name}: its {ports:,} ports make {len(tiers)} tiers, which have no"
                f" cable plan beside another: write it alone, its ports as GPUs: netplan cables"
                f" --gpus {ports} --hb-size 1 --radix {network.radix} --fabric {network.fabric}"
                f" --nic {network.link_gbps:g}"
            )

    def rows(self) -> Iterator[Row]:
        """Rows of the plan: those of hosts, then those between switches."""
        tiers = self.fabric.tiers
        ends = list(self._ends())
        leaves = tiers[0].switches
        on_leaf = [0] * leaves
        for number, end in enumerate(ends):
            leaf = number * leaves // len(ends)
            on_leaf[leaf] += 1
            yield self._row(end, self._end(tiers[0].name, leaf, on_leaf[leaf]), 0)
        if len(tiers) == MOST_TIERS:
            yield from self._trunks(ceil_div(len(ends), leaves))

    def _trunks(self, hosts: int) -> Iterator[Row]:
        """Links between leaves and spines; ports of a leaf after those of a full one's hosts."""
        leaf_tier, spine_tier = self.fabric.tiers
        leaves, spines = leaf_tier.switches, spine_tier.switches
        least, more = divmod(self.fabric.links[1].links // leaves, spines)
        ports = [count(1) for _ in range(spines)]
        for leaf in range(leaves):
            extra = {(leaf * more + one) % spines for one in range(more)}
            up = count(hosts + 1)
            for spine in range(spines):
                for _ in range(least + (spine in extra)):
                    below = self._end(leaf_tier.name, leaf, next(up))
                    yield self._row(below, self._end(spine_tier.name, spine, next(ports[spine])), 1)

    def _ends(self) -> Iterator[End]:
        """Devices and ports that the network joins."""
        network, word = self.network, self.network.name
        nodes = ceil_div(self.gpus, network.gpus_per_node)
        for port in range(1, network.ports_per_node + 1):
            yield from ((host_name(node), f"{word}-{port}") for node in range(nodes))
        managed = network.ports_per_switch * len(self.managed)
        others = self.fabric.nic_ports - nodes * network.ports_per_node - managed
        yield from ((f"{word}-server-{number}", "1") for number in range(others))
        for port in range(1, network.ports_per_switch + 1):
            yield from ((name, f"{word}-{port}") for name in self.managed)
        yield from self.uplinks

    def _switch(self, tier: str, number: int) -> str:
        return f"{self.network.name}/{tier}-{number}"

    def _end(self, tier: str, number: int, port: int) -> End:
        named = cage_port(port, self.cage_links) if self.cage_links > 1 else str(port)
        return self._switch(tier, number), named

    def _row(self, a: End, z: End, group: int) -> Row:
        """A row of the plan; racks and lengths are not known."""
        links = self.fabric.links[group]
        copper = links.medium == "copper"
        medium, length = ("copper", "rack") if copper else ("fibre", "hall" if group else "row")
        rate = f"{self.fabric.sizing.speed_gbps:g}"
        label = f"{a[0]}:{a[1]}--{z[0]}:{z[1]}"
        name = f"{self.network.name} {links.name}"
        return (label, *a, "", "", *z, "", "", rate, medium, length, "", name)

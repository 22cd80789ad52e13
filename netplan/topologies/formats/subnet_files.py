"""InfiniBand networks, written: as ``ibnetdiscover`` finds them, and topology files of ibdiagnet.

What ``ibnetdiscover`` finds is what the simulator ``ibsim`` loads, so that one file serves both,
and ``cables --compare`` too. The rate of a link stands where that tool prints it, after the LID of
the other end, which nobody has assigned yet: ``lid 0 4xNDR``. Debian's ibsim (0.10) takes the rates
that it knows from there, up to HDR; a faster link gets its slowest one.

A GPU's network ports are those of one channel adapter (``Ca``), or, where hosts are named, one
adapter each: ``host-2 mlx5_3``. Where GPUs are joined to each other, as in a torus, each of them
passes on what is for others: it is written as a switch, whose last port leads to its own adapter.
Both have one system image GUID; readers make one GPU of the two again.

Links inside HB domains are left out; ports count from 1.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints, distinct_values
from netplan.errors import InputError
from netplan.progress import through
from netplan.topologies.cabling import device_names
from netplan.topologies.formats.infiniband import LANE_GBPS, TOPO_LANES
from netplan.topologies.graph import GPU, SWITCH, FabricGraph, network_only
from netplan.units import bytes_per_s, gbps

WIDTHS = (4, 2, 1, 8, 12)
"""Lanes of a link, the usual number first [1]."""

ADAPTER_GUID = 128
"""From the GUID of a GPU that passes traffic on to that of its own adapter."""


Address = tuple[str, str]
"""A port as ``ibnetdiscover`` addresses it, and the description of the node that it is on."""
Lines = list[tuple[int, Address, str]]
"""Ports of a node, rising, with what they lead to and the rate."""


def top_switches(network: FabricGraph) -> Ints:
    """Switches with none above them: the roots that fat-tree routing may have to be told.

    Parameters
    ----------
    network
        A network of tiers, or several beside each other.

    Returns
    -------
    Ints
        Numbers of the nodes, rising.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.graph import network_only
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=672, radix=64).sizing
    >>> graph = network_only(expand(FABRICS.load("fat-tree"), sizing))
    >>> [graph.names[node] for node in top_switches(graph)[[0, -1]]]
    ['spine-0', 'spine-10']
    """
    top = network.node_kind == SWITCH
    top[network.source] = False
    return np.flatnonzero(top)


class PlannedSubnet(Struct, frozen=True, eq=False):
    """A network as a subnet manager sees it.

    Parameters
    ----------
    network
        Nodes and links outside HB domains.
    names
        Description of each node.
    is_switch, is_relay
        Whether a node is a switch, and whether a GPU passes traffic on to other GPUs.
    hosts
        Servers, where they are named in place of GPUs.
    """

    network: FabricGraph
    names: Sequence[str]
    is_switch: list[bool]
    is_relay: list[bool]
    hosts: device_names.Hosts | None = None

    def address(self, node: int, port: int) -> Address:
        """Address of a port, from 0."""
        guid, name = device_names.node_guid(node), self.names[node]
        if self.is_switch[node] or self.is_relay[node]:
            return f'"S-{guid:016x}"[{port + 1}]', name
        if self.hosts is None or node >= self.network.gpus:
            return f'"H-{guid:016x}"[{port + 1}]({guid + port + 1:x})', name
        guid += 2 * port
        host, adapter = self.hosts.of(node), self.hosts.port(node, port)
        name = f"{device_names.host_name(host)} {device_names.port_adapter(adapter)}"
        return f'"H-{guid:016x}"[1]({guid + 1:x})', name

    def speeds(self) -> dict[float, str]:
        """Width and speed at every rate [B/s] of the network; empty where InfiniBand has it not."""
        return {
            rate: link_speed(rate) for rate in distinct_values(self.network.bytes_per_s).tolist()
        }

    def stand_ins(self) -> dict[float, str]:
        """Speeds for all rates [B/s], in their order, where InfiniBand has not each of them."""
        speeds = self.speeds()
        if all(speeds.values()):
            return speeds
        falling = [f"{WIDTHS[0]}x{speed}" for speed in reversed(LANE_GBPS)]
        return dict(zip(sorted(speeds, reverse=True), falling, strict=False))

    def blocks(self, speeds: Mapping[float, str] | None = None) -> Iterator[str]:
        """Every node with its ports in use, lines with their ends; speeds by rate [B/s]."""
        speed_of = self.speeds() if speeds is None else speeds
        network, adjacency = self.network, self.network.adjacency
        ports = 1 + int(max(network.source_port.max(initial=0), network.target_port.max(initial=0)))
        count = network.node_count
        for node in through(range(count), count, "devices"):
            row = slice(adjacency.indptr[node], adjacency.indptr[node + 1])
            links, peers = adjacency.link[row], adjacency.neighbor[row].tolist()
            if not peers:
                continue
            begins = network.source[links] == node
            ends = network.source_port[links], network.target_port[links]
            near, there = np.where(begins, *ends).tolist(), np.where(begins, *ends[::-1]).tolist()
            rates = [speed_of[rate] for rate in network.bytes_per_s[links].tolist()]
            far = [self.address(*end) for end in zip(peers, there, strict=True)]
            lines = sorted(zip(near, far, rates, strict=True), key=lambda line: line[0])
            if self.is_switch[node]:
                yield from self._switch(node, ports, lines)
            elif self.is_relay[node]:
                yield from self._relay(node, lines)
            elif self.hosts is None or node >= network.gpus:
                yield from self._adapter(device_names.node_guid(node), self.names[node], lines)
            else:
                for port, peer, rate in lines:
                    guid, (_, name) = device_names.node_guid(node), self.address(node, port)
                    yield from self._adapter(guid + 2 * port, name, [(0, peer, rate)])

    def _switch(self, node: int, ports: int, lines: Lines) -> Iterator[str]:
        guid = device_names.node_guid(node)
        yield f"switchguid=0x{guid:x}({guid:x})\n"
        name = f'# "{self.names[node]}" base port 0 lid 0 lmc 0'
        yield f'Switch\t{ports} "S-{guid:016x}"\t\t{name}\n'
        for port, (peer, description), rate in lines:
            comment = f'# "{description}" lid 0 {rate}'.rstrip()
            yield f"[{port + 1}]\t{peer}\t\t{comment}\n"
        yield "\n"

    def _adapter(self, guid: int, name: str, lines: Lines) -> Iterator[str]:
        yield f"caguid=0x{guid:x}\n"
        yield f'Ca\t{lines[-1][0] + 1} "H-{guid:016x}"\t\t# "{name}"\n'
        for port, (peer, description), rate in lines:
            comment = f'# lid 0 lmc 0 "{description}" lid 0 {rate}'.rstrip()
            yield f"[{port + 1}]({guid + port + 1:x}) \t{peer}\t\t{comment}\n"
        yield "\n"

    def _relay(self, node: int, lines: Lines) -> Iterator[str]:
        """A GPU that passes traffic on: a switch and, at its last port, its own adapter."""
        guid, name, last = device_names.node_guid(node), self.names[node], lines[-1][0] + 1
        adapter, inner, rate = guid + ADAPTER_GUID, f"{name} {device_names.ADAPTER}", lines[-1][2]
        inside = f'"H-{adapter:016x}"[1]({adapter + 1:x})', inner
        image = f"sysimgguid=0x{guid:x}\n"
        yield image
        yield from self._switch(node, last + 1, [*lines, (last, inside, rate)])
        yield image
        yield from self._adapter(adapter, inner, [(0, self.address(node, last), rate)])


def subnet_of(graph: FabricGraph, host_gpus: int | None = None) -> PlannedSubnet:
    """See a fabric as its subnet manager does, with hosts of so many GPUs or without.

    Raises
    ------
    InputError
        If hosts are to be named where GPUs pass traffic on, or cannot have so many GPUs.
    """
    # A graph without HB links was read from a file: its GPU ports are as that file says.
    network = network_only(graph)
    is_gpu = network.node_kind == GPU
    direct = is_gpu[network.source] & is_gpu[network.target]
    relay = np.zeros(network.node_count, bool)
    relay[network.source[direct]] = relay[network.target[direct]] = True
    if host_gpus is not None and relay.any():
        raise InputError(
            f"{graph.name} joins GPUs to each other, each of which is a switch to a subnet manager:"
            " leave out --host-gpus"
        )
    return PlannedSubnet(
        network,
        network.node_names(),
        (network.node_kind == SWITCH).tolist(),
        relay.tolist(),
        device_names.hosts_of(network, host_gpus) if host_gpus is not None else None,
    )


def ibnetdiscover_lines(graph: FabricGraph, *, host_gpus: int | None = None) -> Iterator[str]:
    """Write the network of a fabric as ``ibnetdiscover`` would find it, all of it up.

    Parameters
    ----------
    graph
        The fabric.
    host_gpus
        GPUs of a server, to describe adapters by their hosts [1].

    Raises
    ------
    InputError
        If hosts cannot be named.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=16, radix=8)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> lines = list(ibnetdiscover_lines(graph, host_gpus=8))
    >>> [line.split("#")[1].strip() for line in lines if line.startswith("Ca")][8:10]
    ['"host-1 mlx5_0"', '"host-1 mlx5_1"']
    """
    return subnet_of(graph, host_gpus).blocks()


def link_speed(rate_bytes_per_s: float) -> str:
    """Width and speed of a link; nothing for a rate that InfiniBand has not.

    Examples
    --------
    >>> link_speed(50e9), link_speed(200e9), link_speed(33e9)
    ('4xNDR', '8xXDR', '')
    """
    for width in WIDTHS:
        for speed, lane in LANE_GBPS.items():
            if bytes_per_s(width * lane) == rate_bytes_per_s:
                return f"{width}x{speed}"
    return ""


def topo_lines(
    graph: FabricGraph, *, switch_type: str = "MQM9700", host_gpus: int | None = None
) -> Iterator[str]:
    """Write the network of a fabric as an ibdiagnet topology file, names without slashes.

    Parameters
    ----------
    graph
        The fabric.
    switch_type
        What ibdiagnet calls the switches.
    host_gpus
        GPUs of a server, to name hosts in place of GPUs [1].

    Raises
    ------
    InputError
        If there are no switches, hosts cannot have so many GPUs, or names differ by a slash alone.
    """
    network = network_only(graph)
    if not (network.node_kind == SWITCH).any():
        raise InputError(f"{graph.name} has no switches: ibdiagnet's topology is made of theirs")
    names, adjacency = device_names.slashless_names(network.node_names()), network.adjacency
    hosts = device_names.hosts_of(network, host_gpus) if host_gpus is not None else None
    for switch in np.flatnonzero(network.node_kind == SWITCH).tolist():
        yield f"{switch_type} {names[switch]}\n"
        row = slice(adjacency.indptr[switch], adjacency.indptr[switch + 1])
        for link, peer in zip(
            adjacency.link[row].tolist(), adjacency.neighbor[row].tolist(), strict=True
        ):
            ports = int(network.source_port[link]) + 1, int(network.target_port[link]) + 1
            here, there = ports if network.source[link] == switch else ports[::-1]
            lane = gbps(float(network.bytes_per_s[link])) / TOPO_LANES
            kind = switch_type if network.node_kind[peer] == SWITCH else "HCA"
            name = names[peer]
            if hosts is not None and peer < network.gpus:
                name, there = device_names.host_name(hosts.of(peer)), hosts.port(peer, there - 1)
            yield f" P{here} -{TOPO_LANES}x-{lane:g}G-> {kind} {name} P{there}\n"
        yield "\n"

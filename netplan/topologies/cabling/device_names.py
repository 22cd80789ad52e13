"""One scheme of names for devices and their ports, in every export.

A switch is called what the fabric calls it: ``rail-0/leaf-3``. Where a tool takes no slash, a
hyphen stands for it: ``rail-0-leaf-3``, which is a host name by RFC 1123. A GPU without its server
is ``gpu-17``; with servers of so many GPUs, server h is ``host-h``, and its network ports are
numbered through from 1: those of its first GPU, then those of the next. Port p of a host is that of
its adapter ``mlx5_{p-1}``, as UFM's HCA mapping says it (``--to ufm-hca``), so that InfiniBand
describes it as ``host-2 mlx5_3``.

A number of a device makes its GUID, so that a file written again is the same: node n has the 256
GUIDs from 256 (n + 1) on. That of an adapter's port is the adapter's plus the number of the port.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from netplan.errors import InputError
from netplan.topologies.graph import FabricGraph

HOST = "host"
ADAPTER = "adapter"
"""Own adapter of a GPU that passes traffic on, after the GPU's name."""

GUIDS = 256
"""GUIDs that a node takes: its own, and those of its adapters and their ports."""


def slashless(name: str) -> str:
    """Name of a device for tools that take no slash.

    Examples
    --------
    >>> slashless("rail-0/leaf-3"), slashless("host-2")
    ('rail-0-leaf-3', 'host-2')
    """
    return name.replace("/", "-")


def slashless_names(names: Sequence[str]) -> list[str]:
    """Names without slashes of all devices.

    Raises
    ------
    InputError
        If two devices would have the same.

    Examples
    --------
    >>> slashless_names(["gpu-0", "rail-0/leaf-0"])
    ['gpu-0', 'rail-0-leaf-0']
    """
    plain = [slashless(name) for name in names]
    if len(set(plain)) < len(plain):
        twice = next(name for name, count in Counter(plain).items() if count > 1)
        raise InputError(
            f"two devices would be called {twice} where names have no slash: rename one of them"
        )
    return plain


def host_name(number: int) -> str:
    """Name of a server.

    Examples
    --------
    >>> host_name(2)
    'host-2'
    """
    return f"{HOST}-{number}"


def port_adapter(port: int) -> str:
    """Name of the adapter behind a network port of a host, ports from 1.

    Examples
    --------
    >>> port_adapter(1)
    'mlx5_0'
    """
    return f"mlx5_{port - 1}"


def node_guid(node: int) -> int:
    """GUID of a node, by its number in the graph.

    Examples
    --------
    >>> hex(node_guid(0)), hex(node_guid(15))
    ('0x100', '0x1000')
    """
    return GUIDS * (node + 1)


def node_of_guid(guid: int) -> int:
    """Number of the node that one of its GUIDs belongs to.

    Examples
    --------
    >>> node_of_guid(node_guid(15)), node_of_guid(node_guid(15) + 3)
    (15, 15)
    """
    return guid // GUIDS - 1


class Hosts(Struct, frozen=True):
    """Servers of a network: GPUs and network ports of each [1].

    Examples
    --------
    GPU 11 is rank 3 of host 1; with two ports a GPU, its second one is the eighth of the host.

    >>> hosts = Hosts(8, 2)
    >>> hosts.of(11), hosts.port(11, 1)
    (1, 8)
    """

    gpus: int
    gpu_ports: int

    def of(self, gpu: int) -> int:
        """Number of the host that a GPU is in."""
        return gpu // self.gpus

    def port(self, gpu: int, port: int) -> int:
        """Port of the host, from 1, that is a GPU's port, from 0."""
        return gpu % self.gpus * self.gpu_ports + port + 1


def hosts_of(network: FabricGraph, host_gpus: int) -> Hosts:
    """Servers of so many GPUs; every GPU has as many ports as the one with the most.

    Raises
    ------
    InputError
        If no host can have so many GPUs.
    """
    if not 1 <= host_gpus <= network.gpus:
        raise InputError(
            f"a host of {host_gpus:,} GPUs is out of range: give 1 to {network.gpus:,}"
        )
    ends = ((network.source, network.source_port), (network.target, network.target_port))
    last = max(int(port[node < network.gpus].max(initial=-1)) for node, port in ends)
    return Hosts(host_gpus, last + 1)

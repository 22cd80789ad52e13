"""One scheme of names for devices and their ports, in every export.

A switch is called what the fabric calls it: ``rail-0/leaf-3``. Where a tool takes no slash, a
hyphen stands for it: ``rail-0-leaf-3``, which is a host name by RFC 1123. A GPU without its server
is ``gpu-17``; with servers of so many GPUs, server h is ``host-h``, and its network ports are
numbered through from 1: those of its first GPU, then those of the next. Port p of a host is that of
its adapter ``mlx5_{p-1}``, as UFM's HCA mapping says it (``--to ufm-hca``), so that InfiniBand
describes it as ``host-2 mlx5_3``.

A number of a device makes its GUID, so that a file written again is the same: node n has the 256
GUIDs from 256 (n + 1) on. That of an adapter's port is the adapter's plus the number of the port.

Names in what devices say of themselves: node descriptions of InfiniBand, names in tables.

Managed switches write ``MF0;leaf-0:MQM9700/U1``: a name, then model and unit. Hosts write their
name and the adapter: ``host-0 mlx5_0``, or ``node005 HCA-6``, which older drivers count from 1.
Unmanaged switches and adapters that no driver has named say what they are, all alike; such a text
is no name.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from netplan.errors import InputError
from netplan.topologies.graph import FabricGraph

SYSTEM = re.compile(r"(?:MF\d+;)?\s*([^:;]+):([^/:\s]+)/(\S+)")
ADAPTER_WORDS = re.compile(
    r"(?:mlx\d+_(?:ib|bond)?|ib[ps]?|ibp\d+s|hfi\d+_|qib|cxi|rdma)(\d+)", re.IGNORECASE
)
ADAPTER_FROM_1 = re.compile(r"(?:HCA-|HCA)(\d+)", re.IGNORECASE)
LAST_NUMBER = re.compile(r"(\d{1,9})\D*$")
NAMELESS = re.compile(r"(?:localhost\S*|\(none\)|unknown|mt\d+\S*)?", re.IGNORECASE)
MAKERS = re.compile(
    r"\b(mellanox|nvidia|voltaire|intel|technologies|infiniscale\S*|connectx\S*|infinihost|switchx)\b",
    re.IGNORECASE,
)


class Adapter(NamedTuple):
    """An adapter by its host and its own name; ``number`` is its place among those of a host.

    An empty host is that of an adapter whose description names none.
    """

    host: str
    card: str
    number: int | None


def switch_name(description: str) -> str:
    """Name of a switch in its description: the form of managed switches is taken off.

    Examples
    --------
    >>> switch_name("MF0;leaf-0:MQM9700/U1"), switch_name("rail-0/leaf-0")
    ('leaf-0', 'rail-0/leaf-0')
    """
    system = SYSTEM.fullmatch(description.strip())
    return system[1].strip() if system else description.strip()


def switch_unit(description: str) -> str:
    """Unit of a system of several switches, such as ``L1/U1``; empty where none is said.

    Examples
    --------
    >>> switch_unit("MF0;director:CS7500/L1/U1"), switch_unit("leaf-0")
    ('L1/U1', '')
    """
    system = SYSTEM.fullmatch(description.strip())
    return system[3] if system else ""


def adapter_name(description: str) -> Adapter:
    """Host and adapter in a description, the adapter's number from 0.

    Examples
    --------
    >>> adapter_name("host-0 mlx5_3"), adapter_name("node005 HCA-6").number
    (Adapter(host='host-0', card='mlx5_3', number=3), 5)
    >>> adapter_name("gpu-17"), adapter_name("MT4129 ConnectX7   Mellanox Technologies").host
    (Adapter(host='gpu-17', card='', number=None), '')
    """
    words = description.split()
    if len(words) > 1:
        card = words[-1].strip("()")
        for pattern, first in ((ADAPTER_FROM_1, 1), (ADAPTER_WORDS, 0)):
            if match := pattern.fullmatch(card):
                host = " ".join(words[:-1])
                return Adapter("" if is_makers(host) else host, card, int(match[1]) - first)
    if is_makers(description):
        return Adapter("", description.strip(), None)
    return Adapter(description.strip(), "", None)


def is_makers(description: str) -> bool:
    """Whether a description says only what a device is, as its maker wrote it.

    Examples
    --------
    >>> is_makers("Quantum Mellanox Technologies"), is_makers("leaf-3"), is_makers("")
    (True, False, True)
    """
    words = description.split()
    return not words or bool(
        NAMELESS.fullmatch(words[0]) or (len(words) > 1 and MAKERS.search(description))
    )


def compared_name(name: str) -> str:
    """A name as it is compared: no case, no domain, one mark for those that tools replace.

    Examples
    --------
    >>> [compared_name(text) for text in ("Rail-0/Leaf_3", "leaf-3.hall.example.com", "10.0.0.3")]
    ['rail-0-leaf-3', 'leaf-3', '10-0-0-3']
    """
    host, _, domain = name.strip().partition(".")
    if not domain or not domain.split(".")[-1].isalpha():
        host = name.strip()
    return re.sub(r"[^0-9a-z]+", "-", host.casefold()).strip("-")


def natural(name: str) -> list[str | int]:
    """Sorting key that compares digits as numbers.

    Examples
    --------
    >>> sorted(["node-10", "node-9", "a"], key=natural)
    ['a', 'node-9', 'node-10']
    """
    # Texts and numbers take turns, so that two keys compare like with like.
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]


def last_number(name: str) -> int | None:
    """Last number in a name.

    Examples
    --------
    >>> last_number("node005"), last_number("rack-3-host-12"), last_number("login")
    (5, 12, None)
    """
    match = LAST_NUMBER.search(name)
    return int(match[1]) if match else None


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


def require_host(host_gpus: int, gpus: int) -> None:
    """Refuse hosts of fewer GPUs than one, or more than there are; InputError."""
    if not 1 <= host_gpus <= gpus:
        raise InputError(f"a host of {host_gpus:,} GPUs is out of range: give 1 to {gpus:,}")


def hosts_of(network: FabricGraph, host_gpus: int) -> Hosts:
    """Servers of so many GPUs; every GPU has as many ports as the one with the most.

    Raises
    ------
    InputError
        If no host can have so many GPUs.
    """
    require_host(host_gpus, network.gpus)
    ends = ((network.source, network.source_port), (network.target, network.target_port))
    last = max(int(port[node < network.gpus].max(initial=-1)) for node, port in ends)
    return Hosts(host_gpus, last + 1)

"""Names in what devices say of themselves: node descriptions of InfiniBand, names in tables.

Managed switches write ``MF0;leaf-0:MQM9700/U1``: a name, then model and unit. Hosts write their
name and the adapter: ``host-0 mlx5_0``, or ``node005 HCA-6``, which older drivers count from 1.
Unmanaged switches and adapters that no driver has named say what they are, all alike; such a text
is no name.
"""

import re
from typing import NamedTuple

SYSTEM = re.compile(r"(?:MF\d+;)?\s*([^:;]+):([^/:\s]+)/(\S+)")
ADAPTER = re.compile(
    r"(?:mlx\d+_(?:ib|bond)?|ib[ps]?|ibp\d+s|hfi\d+_|qib|cxi|rdma)(\d+)", re.IGNORECASE
)
ADAPTER_FROM_1 = re.compile(r"(?:HCA-|HCA)(\d+)", re.IGNORECASE)
NUMBER = re.compile(r"(\d{1,9})\D*$")
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
        for pattern, first in ((ADAPTER_FROM_1, 1), (ADAPTER, 0)):
            if found := pattern.fullmatch(card):
                host = " ".join(words[:-1])
                return Adapter("" if is_makers(host) else host, card, int(found[1]) - first)
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


def plain_name(name: str) -> str:
    """A name as it is compared: no case, no domain, one mark for those that tools replace.

    Examples
    --------
    >>> plain_name("Rail-0/Leaf_3"), plain_name("leaf-3.hall.example.com"), plain_name("10.0.0.3")
    ('rail-0-leaf-3', 'leaf-3', '10-0-0-3')
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
    found = NUMBER.search(name)
    return int(found[1]) if found else None

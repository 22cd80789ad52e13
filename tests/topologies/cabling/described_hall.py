"""A hall as ``ibnetdiscover`` would find it: cables in a plan's names, descriptions of choice."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from netplan.topologies.cabling.as_built import Cable, End

Describe = Callable[[str], str]
ALIKE = "Quantum Mellanox Technologies"
FACTORY = "MT4129 ConnectX7   Mellanox Technologies"
HOST = re.compile(r"host-(\d+) mlx5_(\d+)")


def managed(name: str) -> str:
    return name if HOST.match(name) else f"MF0;{name}:MQM9700/U1"


def nodes(name: str) -> str:
    """Hosts of another name, counted from 1, with adapters of the old form."""
    host = HOST.match(name)
    return f"node{int(host[1]) + 1:03d} HCA-{int(host[2]) + 1}" if host else managed(name)


def unmanaged(name: str) -> str:
    return name if HOST.match(name) else ALIKE


def bare(name: str) -> str:
    """Hosts whose names say nothing of their order."""
    host = HOST.match(name)
    return f"x{int(host[1]) * 7919 % 1009}y mlx5_{host[2]}" if host else ALIKE


def nameless(name: str) -> str:
    return FACTORY if HOST.match(name) else ALIKE


def described(cables: Sequence[Cable], describe: Describe, seed: int = 0) -> str:
    """Blocks of all nodes, with GUIDs in a random order; ports of hosts become adapters."""
    lines: dict[str, list[str]] = defaultdict(list)
    ends = [tuple(map(_port, cable[:2])) for cable in cables]
    names = sorted({name for pair in ends for name, _ in pair})
    order = np.random.default_rng(seed).permutation(len(names)).tolist()
    ids = {
        name: f'"{"H" if HOST.match(name) else "S"}-{number + 1:016x}"'
        for name, number in zip(names, order, strict=True)
    }
    for cable, (a, z) in zip(cables, ends, strict=True):
        lanes = cable.lanes or 4
        speed = f"{lanes}x{ {400: 'NDR', 200: 'HDR'}[round(cable.gbps / lanes * 4)] }"
        for (name, port), (peer, there) in ((a, z), (z, a)):
            lines[name].append(f'[{port}] {ids[peer]}[{there}] # "{describe(peer)}" lid 1 {speed}')
    blocks = [
        "\n".join(
            (f'{"Ca" if HOST.match(name) else "Switch"} 65 {ids[name]} # "{describe(name)}"', *rows)
        )
        for name, rows in lines.items()
    ]
    return "\n\n".join(blocks) + "\n"


def _port(end: End) -> tuple[str, str]:
    if not end.device.startswith("host-"):
        return end.device, end.port
    return f"{end.device} mlx5_{int(end.port) - 1}", "1"

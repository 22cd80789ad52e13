"""Cable plans that name servers and their ports instead of GPUs, as management tools know them.

Host h holds the GPUs from h x n on, n GPUs a host. Ports are numbered through a host: those of its
first GPU, then those of the next, so that port p of its GPU r is port r x ports + p. On machines
with one network adapter a GPU, this is the order of the adapters.
"""

from dataclasses import replace

import numpy as np

from netplan.arrays import Indices
from netplan.errors import InputError
from netplan.topologies.cable_plan import ROLES, CablePlan, Device
from netplan.topologies.graph import GPU

HOST = "host"


def host_ports(plan: CablePlan, host_gpus: int) -> int:
    """Network ports of a host, its GPUs with the most that any has [1].

    Parameters
    ----------
    plan
        A plan that names GPUs.
    host_gpus
        GPUs of a host [1].

    Raises
    ------
    InputError
        If a host would hold no GPU, or more than there are.

    Examples
    --------
    >>> from netplan.topologies.cable_plan import cable_plan
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> plan = cable_plan(expand(FABRICS.load("bcube"), Sizing(64, 8, 1, 450e9, 50e9)))
    >>> host_ports(plan, 8)  # two levels, so two ports a GPU
    16
    """
    gpus = _gpus(plan)
    if not 1 <= host_gpus <= gpus:
        raise InputError(f"a host of {host_gpus:,} GPUs is out of range: give 1 to {gpus:,}")
    ends = ((plan.a, plan.a_port), (plan.z, plan.z_port))
    return host_gpus * max(int(port[device < gpus].max(initial=0)) for device, port in ends)


def with_hosts(plan: CablePlan, host_gpus: int) -> CablePlan:
    """Name hosts of so many GPUs instead of GPUs; a host stands where its first GPU does.

    Parameters
    ----------
    plan
        A plan that names GPUs.
    host_gpus
        GPUs of a host [1].

    Raises
    ------
    InputError
        If a host would hold no GPU, or more than there are.

    Examples
    --------
    >>> from netplan.topologies.cable_plan import cable_plan
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("fat-tree"), Sizing(32, 16, 8, 450e9, 50e9))
    >>> list(with_hosts(cable_plan(graph), 8).labels())[9]
    'host-1:2--leaf-1:2'
    """
    gpus, ports = _gpus(plan), host_ports(plan, host_gpus) // host_gpus
    hosts = [
        Device(f"{HOST}-{number}", HOST, first.place)
        for number, first in enumerate(plan.devices[:gpus:host_gpus])
    ]
    others = len(hosts) - gpus  # what the numbers of the other devices change by

    def moved(device: Indices, port: Indices) -> tuple[Indices, Indices]:
        host, rank = np.divmod(device, np.int32(host_gpus))
        gpu = device < gpus
        return (
            np.where(gpu, host, device + np.int32(others)),
            np.where(gpu, rank * np.int32(ports) + port, port),
        )

    (a, a_port), (z, z_port) = moved(plan.a, plan.a_port), moved(plan.z, plan.z_port)
    devices = [*hosts, *plan.devices[gpus:]]
    return replace(plan, devices=devices, a=a, z=z, a_port=a_port, z_port=z_port)


def _gpus(plan: CablePlan) -> int:
    """GPUs of a plan, which are its first devices [1]."""
    return sum(device.role == ROLES[GPU] for device in plan.devices)

"""Point-to-point sheets of UFM cable validation, for Ethernet and for InfiniBand.

Ethernet has one row a cable with node name, type and port of either end. InfiniBand has rack, unit,
name and port of either end; its port is ``1/2`` for the second half of a split port. The vendor's
sample of the InfiniBand sheet repeats column names: the A side comes first, then the Z side.
"""

from netplan.topologies.cable_plan import CablePlan, Device, Sheet

ETHERNET_COLUMNS = ("A-Node Name", "A-Type", "A-Port", "Z-Node Name", "Z-Type", "Z-Port")
INFINIBAND_COLUMNS = ("Rack", "U", "Name", "HCA/Port", "Rack", "U", "Name", "Port")


def ufm_ethernet(plan: CablePlan) -> Sheet:
    """Sheet for UFM cable validation on Ethernet.

    Examples
    --------
    >>> from netplan.topologies.cable_plan import cable_plan
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("fat-tree"), Sizing(8, 16, 1, 450e9, 50e9))
    >>> next(ufm_ethernet(cable_plan(graph)).rows)
    ('gpu-0', 'Host', '1', 'leaf-0', 'Switch', '1')
    """
    rows = (
        (a.name, _type(a), a_port, z.name, _type(z), z_port) for a, a_port, z, z_port in plan.ends()
    )
    return Sheet("P2P", ETHERNET_COLUMNS, rows)


def ufm_infiniband(plan: CablePlan) -> Sheet:
    """Sheet for UFM cable validation on InfiniBand; racks and units as far as the plan has them."""
    rows = (
        (*_place(a), a.name, a_port, *_place(z), z.name, z_port)
        for a, a_port, z, z_port in plan.ends()
    )
    return Sheet("P2P", INFINIBAND_COLUMNS, rows)


def _type(device: Device) -> str:
    return "Switch" if device.role == "switch" else "Host"


def _place(device: Device) -> tuple[str, str]:
    return device.place.rack, device.place.unit

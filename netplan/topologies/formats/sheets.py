"""Sheets for UFM cable validation.

Ethernet P2P has one row a cable with node name, type and port of either end. InfiniBand P2P
has rack, unit, name and port of either end; its port is ``1/2`` for the second half of cage 1. The
vendor's sample of the InfiniBand sheet repeats column names: the A side comes first, then the Z
side. Hosts of several GPUs are named where the plan names hosts; else every GPU is a host.

The other two of UFM are CSV files beside a P2P sheet, known from the tool's manual (NVIDIA UFM
Cable Validation Tool 1.5, optional files), which shows the HCA mapping in full. Of the rack layout
it says that racks are mapped to columns of the user's choice, such as hall and row; the name of the
column of racks stands only in a picture that we have not seen, so ``Rack`` is our choice too.
"""

from netplan.topologies.cabling.cable_plan import CablePlan, Device, Sheet, host_ports
from netplan.topologies.cabling.device_names import port_adapter
from netplan.topologies.cabling.floor_plan import Layout

ETHERNET_COLUMNS = ("A-Node Name", "A-Type", "A-Port", "Z-Node Name", "Z-Type", "Z-Port")
INFINIBAND_COLUMNS = ("Rack", "U", "Name", "HCA/Port", "Rack", "U", "Name", "Port")
HCA_COLUMNS = ("port", "hca-name")
RACK_COLUMNS = ("Rack", "Hall", "Row", "Position")


def ufm_ethernet(plan: CablePlan) -> Sheet:
    """Sheet for UFM cable validation on Ethernet.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.cabling.cable_plan import cable_plan
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=32, radix=16)
    >>> plan = cable_plan(scenario.fabric("fat-tree").graph())
    >>> next(ufm_ethernet(plan).rows)
    ('gpu-0', 'Host', '1', 'leaf-0', 'Switch', '1')
    >>> list(ufm_hca(plan, 2).rows)
    [('1', 'mlx5_0'), ('2', 'mlx5_1')]
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


def ufm_hca(plan: CablePlan, host_gpus: int) -> Sheet:
    """HCA mapping: the adapter behind each network port of a host, the same for all hosts.

    The names are those that the tool takes without this file: adapters in the order of the ports.
    Where a host's PCI slots are numbered otherwise, the names are the user's to change.
    """
    ports = range(1, host_ports(plan, host_gpus) + 1)
    return Sheet("HCA mapping", HCA_COLUMNS, ((str(port), port_adapter(port)) for port in ports))


def ufm_racks(layout: Layout) -> Sheet:
    """Rack layout for UFM on Ethernet: hall, row and position of every rack in use.

    Racks are named as in the plan on the same floor plan; the hall is the floor plan's name.
    """
    rows = (
        (rack.name, layout.plan.name, str(rack.row), str(rack.position)) for rack in layout.racks()
    )
    return Sheet("Rack layout", RACK_COLUMNS, rows)


def _type(device: Device) -> str:
    return "Switch" if device.role == "switch" else "Host"


def _place(device: Device) -> tuple[str, str]:
    return device.place.rack, device.place.unit

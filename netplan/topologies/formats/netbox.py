"""NetBox bulk imports: the devices of a fabric, and its cables.

The header of cables is that of NetBox's import form, one termination a side. Devices, their types,
roles and the site must exist before cables are imported; interfaces are named as the plan's ports.
Lengths stand only where a floor plan gives them, for NetBox takes an empty one as unknown.
"""

from netplan.topologies.cable_plan import CablePlan, Sheet

CABLE_COLUMNS = (
    *("side_a_device", "side_a_type", "side_a_name"),
    *("side_b_device", "side_b_type", "side_b_name"),
    *("type", "status", "label", "color", "length", "length_unit"),
)
DEVICE_COLUMNS = (
    *("name", "role", "manufacturer", "device_type", "site"),
    *("rack", "face", "position", "status"),
)
INTERFACE = "dcim.interface"
# Multimode or singlemode is decided with the modules: a fibre gets no type here, not a guess.
CABLE_TYPES = {"copper": "dac-passive"}
MANUFACTURER = "netplan"


def netbox_cables(plan: CablePlan) -> Sheet:
    """Cables, for NetBox's import form (Cables, Import).

    Examples
    --------
    >>> from netplan.topologies.cable_plan import cable_plan
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("fat-tree"), Sizing(8, 16, 1, 450e9, 50e9))
    >>> next(netbox_cables(cable_plan(graph)).rows)[:6]
    ('gpu-0', 'dcim.interface', '1', 'leaf-0', 'dcim.interface', '1')
    """
    rows = (
        (
            *(a.name, INTERFACE, a_port, z.name, INTERFACE, z_port),
            *(CABLE_TYPES.get(medium, ""), "planned", label, ""),
            *(length, "m" if length else ""),
        )
        for (a, a_port, z, z_port), medium, label, length in zip(
            plan.ends(), plan.medium, plan.labels(), plan.length_m, strict=True
        )
    )
    return Sheet("NetBox cables", CABLE_COLUMNS, rows)


def netbox_devices(plan: CablePlan, *, site: str = "hall-1") -> Sheet:
    """Devices, for NetBox's import form (Devices, Import); types are generic ones by role.

    Parameters
    ----------
    plan
        The cable plan.
    site
        Name of the site; it must exist in NetBox.
    """
    rows = (
        (
            *(device.name, device.role, MANUFACTURER, f"generic-{device.role}", site),
            *(device.place.rack, "front" if device.place.unit else "", device.place.unit),
            "planned",
        )
        for device in plan.devices
    )
    return Sheet("NetBox devices", DEVICE_COLUMNS, rows)

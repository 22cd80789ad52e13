"""NetBox: a plan as tables for its import forms, to be imported in this order.

===========================  ===================================================================
``netbox-sites``             the hall
``netbox-manufacturers``     one, for device types that nobody has named
``netbox-roles``             roles of devices: switch, host or gpu, manager
``netbox-device-types``      a type a role, with its height; a switch by its model, if one is chosen
``netbox-racks``             racks of a floor plan
``netbox-devices``           every device, with rack and position where a floor plan gives them
``netbox-interfaces``        every port in use, with its type by rate
``netbox-cables``            every cable, with its type where modules or a cable are known
===========================  ===================================================================

Columns are those of NetBox's import forms (``dcim/forms/bulk_import.py`` of NetBox 4.2), types of
cables and interfaces those of its choices (``dcim/choices.py``); a fibre has the grade that the
cabling catalog orders, OM4 or OS2. Lengths stand only where a floor plan gives them, for NetBox
takes an empty one as unknown. Device names are unique, so that no cable needs a site beside them.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from msgspec import Struct

from netplan.arrays import distinct_values
from netplan.topologies.cabling.cable_plan import CablePlan, PlanSheet

SITE, MANUFACTURER = "hall-1", "netplan"
CABLE_COLUMNS = (
    *("side_a_device", "side_a_type", "side_a_name"),
    *("side_b_device", "side_b_type", "side_b_name"),
    *("type", "status", "label", "color", "length", "length_unit"),
)
INTERFACE = "dcim.interface"
RACK_WIDTH = "19"
"""Between the rails of a rack, EIA-310 [inch]."""

CABLE_TYPES = {
    "copper": "dac-passive",
    "dac": "dac-passive",
    "acc": "dac-active",
    "aec": "dac-active",
    "aoc": "aoc",
    "multimode": "mmf-om4",
    "singlemode": "smf-os2",
}
"""Type of a cable, by its kind or medium; a fibre of no known module gets none, not a guess."""

ETHERNET_TYPES = {
    1: "1000base-t",
    10: "10gbase-x-sfpp",
    25: "25gbase-x-sfp28",
    100: "100gbase-x-qsfp28",
    200: "200gbase-x-qsfp56",
    400: "400gbase-x-osfp",
    800: "800gbase-x-osfp",
    1600: "1.6tbase-x-osfp1600",
}
INFINIBAND_TYPES = {
    100: "infiniband-edr",
    200: "infiniband-hdr",
    400: "infiniband-ndr",
    800: "infiniband-xdr",
}
"""Type of an interface, by the rate of its link [Gb/s]; others are ``other``."""

ROLE_COLORS = {"switch": "2196f3", "host": "4caf50", "gpu": "4caf50", "manager": "9e9e9e"}
"""Colours of roles, which NetBox demands: blue, green, grey."""


class NetBoxHall(Struct, frozen=True):
    """What a plan does not say of its hall.

    Parameters
    ----------
    site
        Name of the site.
    racks, rack_units
        Names of racks, and their height [U].
    heights
        Height of a device, by role [U]; 1 where nobody says.
    switch
        Name of the switch model, if one is chosen.
    infiniband
        Whether interfaces are InfiniBand's, else Ethernet's.
    """

    site: str = SITE
    racks: tuple[str, ...] = ()
    rack_units: int = 42
    heights: Mapping[str, int] = {}
    switch: str = ""
    infiniband: bool = False

    def type_of(self, role: str) -> str:
        """Name of a device type."""
        return self.switch if role == "switch" and self.switch else f"generic-{role}"


def _reference_table(table: str, plan: CablePlan, hall: NetBoxHall) -> PlanSheet:
    """What devices refer to by name: a table of a few columns."""
    roles = dict.fromkeys(device.role for device in plan.devices)
    types = [(hall.type_of(role), str(hall.heights.get(role, 1))) for role in roles]
    colors = {role: ROLE_COLORS.get(role, "9e9e9e") for role in roles}
    units = str(hall.rack_units)
    tables: dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]] = {
        "sites": (("name", "slug", "status"), [(hall.site, _slug(hall.site), "planned")]),
        "manufacturers": (("name", "slug"), [(MANUFACTURER, _slug(MANUFACTURER))]),
        "roles": (
            ("name", "slug", "color"),
            [(role, _slug(role), color) for role, color in colors.items()],
        ),
        "device types": (
            ("manufacturer", "model", "slug", "u_height", "is_full_depth"),
            [
                (MANUFACTURER, name, _slug(f"{MANUFACTURER}-{name}"), height, "yes")
                for name, height in types
            ],
        ),
        "racks": (
            ("site", "name", "status", "width", "u_height"),
            [(hall.site, rack, "planned", RACK_WIDTH, units) for rack in hall.racks],
        ),
    }
    header, rows = tables[table]
    return PlanSheet(f"NetBox {table}", header, iter(rows))


def netbox_devices(plan: CablePlan, hall: NetBoxHall) -> PlanSheet:
    """Devices, each of the type of its role."""
    header = (
        *("name", "role", "manufacturer", "device_type", "site"),
        *("rack", "face", "position", "status"),
    )
    rows = (
        (
            *(device.name, device.role, MANUFACTURER, hall.type_of(device.role), hall.site),
            *(device.place.rack, "front" if device.place.unit else "", device.place.unit),
            "planned",
        )
        for device in plan.devices
    )
    return PlanSheet("NetBox devices", header, rows)


def netbox_interfaces(plan: CablePlan, hall: NetBoxHall) -> PlanSheet:
    """Ports in use, device by device, named as in the plan's cables."""
    types = INFINIBAND_TYPES if hall.infiniband else ETHERNET_TYPES
    device, port = np.concatenate((plan.a, plan.z)), np.concatenate((plan.a_port, plan.z_port))
    rate = np.concatenate((plan.gbps, plan.gbps))
    order = np.lexsort((port, device))

    def rows() -> Iterator[tuple[str, ...]]:
        names = plan.port_names(device[order], port[order])
        kinds = {gbps: types.get(gbps, "other") for gbps in distinct_values(rate).tolist()}
        for number, name, gbps in zip(
            device[order].tolist(), names, rate[order].tolist(), strict=True
        ):
            yield plan.devices[number].name, name, kinds[gbps]

    return PlanSheet("NetBox interfaces", ("device", "name", "type"), rows())


def netbox_cables(plan: CablePlan, _: NetBoxHall = NetBoxHall()) -> PlanSheet:  # noqa: B008 - frozen
    """Cables, one termination a side."""
    rows = (
        (
            *(a.name, INTERFACE, a_port, z.name, INTERFACE, z_port),
            *(CABLE_TYPES.get(kind or medium, ""), "planned", label, ""),
            *(length, "m" if length else ""),
        )
        for (a, a_port, z, z_port), kind, medium, label, length in zip(
            plan.ends(),
            plan.kind or [""] * len(plan),
            *(plan.medium, plan.labels(), plan.length_m),
            strict=True,
        )
    )
    return PlanSheet("NetBox cables", CABLE_COLUMNS, rows)


NETBOX: Mapping[str, Callable[[CablePlan, NetBoxHall], PlanSheet]] = {
    "netbox-sites": partial(_reference_table, "sites"),
    "netbox-manufacturers": partial(_reference_table, "manufacturers"),
    "netbox-roles": partial(_reference_table, "roles"),
    "netbox-device-types": partial(_reference_table, "device types"),
    "netbox-racks": partial(_reference_table, "racks"),
    "netbox-devices": netbox_devices,
    "netbox-interfaces": netbox_interfaces,
    "netbox-cables": netbox_cables,
}
"""Tables in the order of their import."""


def _slug(name: str) -> str:
    """Name as NetBox's addresses have it."""
    return "".join(sign if sign.isalnum() else "-" for sign in name.lower())

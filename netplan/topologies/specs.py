"""Fabric files: the shape of a network, from which its counts, levels and graph are made."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from netplan.catalog import Record, Shelf

Medium = Literal["optical", "copper"]


class FabricSpec(Record):
    """A fabric, as its catalog file describes it.

    Every fabric joins HB domains: ``hb_kind`` and ``hb_size`` say how the GPUs of one domain are
    joined and how many they are; without ``hb_size`` the accelerator's own domain stands. What
    joins the domains is the ``family``, with the keys of that family.
    """

    family: Literal["clos", "rail-only", "scalable-units", "torus", "dragonfly"]
    hb_kind: Literal["switch", "mesh"] = "switch"
    hb_size: PositiveInt | None = None
    notes: tuple[str, ...] = ()

    # clos, rail-only, scalable-units
    rail_wiring: bool = True
    oversubscription: Annotated[float, Field(ge=1)] = 1.0
    management_links: NonNegativeInt = 0

    # torus
    dimensions: Annotated[int, Field(ge=1, le=6)] = 3
    sizes: tuple[PositiveInt, ...] | None = None
    copper_block: NonNegativeInt = 0

    # dragonfly; all absent: balanced for the radix (a = 2p = 2h)
    hosts_per_switch: PositiveInt | None = None
    switches_per_group: PositiveInt | None = None
    global_links_per_switch: PositiveInt | None = None
    host_medium: Medium = "optical"
    local_medium: Medium = "optical"


FABRICS = Shelf("fabric", "topologies", FabricSpec)

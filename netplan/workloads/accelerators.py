"""Accelerator files: what one GPU computes, stores and sends."""

from msgspec import field

from netplan.catalog import Record, Shelf
from netplan.records import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt


class Accelerator(Record, frozen=True, kw_only=True):
    """One accelerator, as its catalog file describes it.

    Peak rates are dense (no 2:4 sparsity). Bandwidths are per GPU and one-way; a data sheet that
    adds both directions is halved, and the file's notes say so. ``hb_size`` is the HB domain that
    the product is sold in, ``chip_ports`` the network ports that it has itself, for links to its
    neighbours; a switch is reached through a network card. ``sources`` gives the origin of single
    values by key.
    """

    tensor_flops_per_s: PositiveFloat
    vector_flops_per_s: PositiveFloat
    memory_bytes: PositiveFloat
    memory_bytes_per_s: PositiveFloat
    hb_size: PositiveInt
    hb_bytes_per_s: PositiveFloat
    hb_latency_s: NonNegativeFloat
    network_bytes_per_s: PositiveFloat
    network_latency_s: NonNegativeFloat
    power_w: PositiveFloat
    chip_ports: NonNegativeInt = 0
    sources: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


ACCELERATORS = Shelf("accelerator", "traffic/accelerators", Accelerator)

"""Memories and links of chips that studies put in place of a chip's own."""

from netplan.catalog import Record, Shelf
from netplan.records import NonNegativeFloat, PositiveFloat


class Memory(Record, frozen=True, kw_only=True):
    """Memory beside a chip, as its catalog file describes it.

    ``energy_j_per_byte`` and ``price_usd_per_bytes_per_s`` are absent where no source prints them.
    Without ``memory_bytes`` its capacity is left open: everything has room.
    """

    bytes_per_s: PositiveFloat
    memory_bytes: PositiveFloat | None = None
    energy_j_per_byte: PositiveFloat | None = None
    price_usd_per_bytes_per_s: PositiveFloat | None = None


class Link(Record, frozen=True, kw_only=True):
    """Link between chips, as its catalog file describes it; a switch costs by its ports."""

    bytes_per_s: PositiveFloat
    latency_s: NonNegativeFloat = 0.0
    energy_j_per_byte: PositiveFloat | None = None
    price_usd_per_bytes_per_s: PositiveFloat | None = None
    switch_energy_j_per_byte: PositiveFloat | None = None
    switch_price_usd_per_bytes_per_s: PositiveFloat | None = None


MEMORIES = Shelf("memory", "traffic/memories", Memory)
LINKS = Shelf("link", "traffic/links", Link)

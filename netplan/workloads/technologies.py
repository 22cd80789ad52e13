"""Memories and links of chips: in place of a chip's own, or as its expanded memory."""

from math import inf

from netplan.catalog import Catalog, Record
from netplan.documents import Document
from netplan.errors import CatalogError
from netplan.records import NonNegativeFloat, PositiveFloat, replace
from netplan.workloads.accelerators import Accelerator


class MemoryTechnology(Record, frozen=True, kw_only=True):
    """Memory beside a chip, as its catalog file describes it.

    ``energy_j_per_byte``, ``price_usd_per_bytes_per_s`` and ``power_w`` are absent where no source
    prints them. Without ``memory_bytes`` its capacity is left open: everything has room. ``kind``
    is what a price book prices it as, by the GB.
    """

    bytes_per_s: PositiveFloat
    memory_bytes: PositiveFloat | None = None
    latency_s: NonNegativeFloat = 0.0
    power_w: PositiveFloat | None = None
    kind: str = ""
    energy_j_per_byte: PositiveFloat | None = None
    price_usd_per_bytes_per_s: PositiveFloat | None = None
    notes: tuple[str, ...] = ()


class LinkTechnology(Record, frozen=True, kw_only=True):
    """Link between chips, as its catalog file describes it; a switch costs by its ports."""

    bytes_per_s: PositiveFloat
    latency_s: NonNegativeFloat = 0.0
    energy_j_per_byte: PositiveFloat | None = None
    price_usd_per_bytes_per_s: PositiveFloat | None = None
    switch_energy_j_per_byte: PositiveFloat | None = None
    switch_price_usd_per_bytes_per_s: PositiveFloat | None = None


def _of_chips(document: Document) -> type[LinkTechnology]:
    """Links of chips alone, beside which measured ones stand, which say no more of a chip."""
    if "family" in document.data:
        raise CatalogError(
            f"{document.path}:{document.line(['family'])}: collectives measured on a link:"
            " only netplan collective and iteration models of measured collectives take them"
        )
    return LinkTechnology


MEMORIES = Catalog("memory", "traffic/memories", MemoryTechnology)
LINKS = Catalog("link", "traffic/links", LinkTechnology, kind_of=_of_chips)


def expanded(chip: Accelerator, memory: MemoryTechnology | None) -> Accelerator:
    """A chip with another expanded memory behind its own, or with none.

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> chip = expanded(ACCELERATORS.load("h100-80gb"), MEMORIES.load("comet-480gb"))
    >>> chip.expanded_bytes / 1e9, chip.expanded_bytes_per_s / 1e9
    (480.0, 500.0)
    """
    if memory is None:
        return replace(chip, expanded_bytes=0.0, expanded_bytes_per_s=0.0, expanded_latency_s=0.0)
    return replace(
        chip,
        expanded_bytes=memory.memory_bytes or inf,
        expanded_bytes_per_s=memory.bytes_per_s,
        expanded_latency_s=memory.latency_s,
    )


def refitted(
    chip: Accelerator,
    memory: MemoryTechnology | None = None,
    link: LinkTechnology | None = None,
    compute_utilisation: float | None = None,
) -> Accelerator:
    """A chip with another memory, other links, or at a share of its peak, where they are given.

    Parameters
    ----------
    chip
        The chip.
    memory
        What takes the place of its memory.
    link
        What takes the place of its links, inside and outside of HB domains.
    compute_utilisation
        Share of the peak that its kernels reach, in place of compute tiles [1].

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> chip = refitted(ACCELERATORS.load("sn30"), MEMORIES.load("hbm3"), LINKS.load("pcie4"), 0.9)
    >>> chip.memory_bytes_per_s / 1e9, chip.network_bytes_per_s / 1e9, chip.tiles
    (3000.0, 25.0, None)
    """
    if memory is not None:
        chip = replace(
            chip,
            memory_bytes=memory.memory_bytes or inf,
            usable_bytes=0.0,
            memory_bytes_per_s=memory.bytes_per_s,
        )
    if link is not None:
        chip = replace(
            chip,
            hb_bytes_per_s=link.bytes_per_s,
            network_bytes_per_s=link.bytes_per_s,
            hb_latency_s=link.latency_s,
            network_latency_s=link.latency_s,
        )
    if compute_utilisation is not None:
        untiled = dict.fromkeys(("tiles", "vector_width", "stage_height", "clock_hz"))
        chip = replace(chip, **untiled, compute_utilisation=compute_utilisation)
    return chip

"""Price and power of a system as DFModel counts them: to compare with the paper, and only that.

Both are one sum, over units of money or power for a byte per second:

    chips (die + memory rate x its unit) + for each dimension  links x their unit + ports x theirs

with the rates of all links and of all switch ports of a dimension of p chips at B,

=================  ====================  ====================
dimension          links                 ports of switches
=================  ====================  ====================
ring               chips B               2 chips B / p
mesh inside        chips (p - 1) B       none
outermost mesh     p (p - 1) B           p^2 B
switch inside      chips B               chips B
outermost switch   p B                   p B
=================  ====================  ====================

A ring is charged switches that it does not have, and the chips of a group share one outermost mesh:
netplan's own money comes from its bill of materials (`netplan.costing.fabric_bill`) alone. Up to
four chips need no switches.

What is not printed, prices of dies and all of HBM and NVLink, is assumed, each part with its range
and its reason in ``costing/systems``: sums have a low, a base and a high end for it
(:func:`system_amounts`). Dies draw what the fit of Fig. 9 gives.

Source: user guide and logs of the public code of DFModel (Ko et al., ACM TACO 2024).
"""

from collections.abc import Sequence
from math import prod
from typing import Literal, get_args

from msgspec import Struct

from netplan.catalog import Catalog, Record
from netplan.costing.ranges import Range
from netplan.errors import InputError
from netplan.inputs.choices import End, Evidence
from netplan.levels import outermost
from netplan.traffic.published_topology import Dimension
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.technologies import LinkTechnology, MemoryTechnology

Amounts = Literal["price", "energy"]
"""What is summed up: money, or power."""

ENDS: tuple[End, ...] = get_args(End)

SWITCHLESS_CHIPS = 4
"""Chips up to which switches are not charged [1]."""


class PartAmounts(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one part costs and draws: a die of a chip, or a byte per second of the others.

    Parameters
    ----------
    part, of
        Kind, and the chip, memory or link that it is of.
    price_usd
        Price of a die [USD].
    price_usd_per_bytes_per_s
        Price of the others [USD s/B].
    energy_j_per_byte
        Their energy [J/B].
    evidence, source
        How it is known, and where from.
    """

    part: Literal["die", "memory", "link", "switch_port"]
    of: str
    price_usd: Range | None = None
    price_usd_per_bytes_per_s: Range | None = None
    energy_j_per_byte: Range | None = None
    evidence: Evidence
    source: str

    def __post_init__(self) -> None:
        """Refuse ends out of order, and parts without what they need."""
        units = (self.price_usd_per_bytes_per_s, self.energy_j_per_byte)
        needed = (self.price_usd,) if self.part == "die" else units
        for amount in needed:
            if amount is None or not (amount.low > 0 and amount.rising):
                raise ValueError(f"{self.part} of {self.of} needs 0 < low <= base <= high")


class SystemParts(Record, frozen=True, kw_only=True):
    """What a paper does not price: ``parts``, a kind of each chip, memory or link."""

    parts: tuple[PartAmounts, ...]
    notes: tuple[str, ...] = ()

    def part(self, kind: str, of: str) -> PartAmounts | None:
        """The part of a chip, memory or link, or None."""
        return next((row for row in self.parts if (row.part, row.of) == (kind, of)), None)


SYSTEM_PARTS = Catalog("systems", "costing/systems", SystemParts)


class Units(Struct, frozen=True):
    """Money, or power, of a byte per second of memory, of links and of switch ports.

    Parameters
    ----------
    memory, link, switch_port
        [USD s/B], or energies [J/B].
    """

    memory: float
    link: float
    switch_port: float

    @classmethod
    def of(
        cls,
        memory: MemoryTechnology,
        link: LinkTechnology,
        what: Amounts,
        parts: SystemParts | None,
        end: End = "base",
    ) -> "Units":
        """Units of a memory and a link: as published, else as assumed.

        Parameters
        ----------
        memory, link
            The technologies.
        what
            Money, or power.
        parts
            What is assumed of those without a published unit; None: nothing.
        end
            Which end of what is assumed.

        Raises
        ------
        InputError
            If a unit is neither published nor assumed.

        Examples
        --------
        >>> from netplan.workloads.technologies import LINKS, MEMORIES
        >>> Units.of(MEMORIES.load("ddr4"), LINKS.load("pcie4"), "price", None)
        Units(memory=1e-09, link=2e-09, switch_port=2.4e-08)
        """
        published = {
            "price": (
                memory.price_usd_per_bytes_per_s,
                link.price_usd_per_bytes_per_s,
                link.switch_price_usd_per_bytes_per_s,
            ),
            "energy": (
                memory.energy_j_per_byte,
                link.energy_j_per_byte,
                link.switch_energy_j_per_byte,
            ),
        }
        kinds = (("memory", memory.name), ("link", link.name), ("switch_port", link.name))
        units = []
        for value, (kind, name) in zip(published[what], kinds, strict=True):
            row = parts.part(kind, name) if parts else None
            spread = row and (
                row.price_usd_per_bytes_per_s if what == "price" else row.energy_j_per_byte
            )
            if value is None and spread is None:
                raise InputError(
                    f"no {what} is published for all of {memory.name} and {link.name}: put it into"
                    " their files, or a part into costing/systems"
                )
            units.append(getattr(spread, end) if value is None else value)
        return cls(*units)


class SystemAmounts(Struct, frozen=True):
    """Price and power of a whole system [USD], [W]."""

    price_usd: Range
    power_w: Range


def system_amounts(
    chip: Accelerator,
    memory: MemoryTechnology,
    link: LinkTechnology,
    dimensions: Sequence[Dimension],
    parts: SystemParts,
) -> SystemAmounts | None:
    """Price and power of chips, memories, links and switches, with what is assumed of them.

    Parameters
    ----------
    chip, memory, link
        What the system is made of.
    dimensions
        The network, innermost dimension first.
    parts
        What is assumed.

    Returns
    -------
    SystemAmounts or None
        None where a part has no amount.

    Examples
    --------
    1,024 SN30 of the user guide in a torus of two equal rings, all of it published:

    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.technologies import LINKS, MEMORIES
    >>> torus = [Dimension("ring", 32, 25e9)] * 2
    >>> parts, memory = SYSTEM_PARTS.load("dfmodel-2024"), MEMORIES.load("ddr4")
    >>> chip, link = ACCELERATORS.load("sn30"), LINKS.load("pcie4")
    >>> system_amounts(chip, memory, link, torus, parts).price_usd.base.__round__()
    17302784
    """
    die = parts.part("die", chip.name)
    if die is None or die.price_usd is None:
        return None
    power_w = die_power_w(chip.tensor_flops_per_s)
    ends: dict[Amounts, list[float]] = {"price": [], "energy": []}
    try:
        for what, totals in ends.items():
            for end in ENDS:
                die_amount = getattr(die.price_usd, end) if what == "price" else power_w
                units = Units.of(memory, link, what, parts, end)
                totals.append(published_amount(die_amount, memory.bytes_per_s, dimensions, units))
    except InputError:
        return None
    return SystemAmounts(Range(*ends["price"]), Range(*ends["energy"]))


def published_amount(
    die: float, memory_bytes_per_s: float, dimensions: Sequence[Dimension], units: Units
) -> float:
    """Price or power of a system as DFModel counts it [USD], or [W].

    Parameters
    ----------
    die
        Price or power of one chip without its memory [USD], or [W].
    memory_bytes_per_s
        Rate of its memory [B/s].
    dimensions
        The network, innermost dimension first.
    units
        What a byte per second costs or draws.

    Examples
    --------
    The user guide: 1,024 SN30 in a torus of 8 x 128 at 50 GB/s, with DDR4 at 300 GB/s, print
    17,757,184 USD and 511,325.011 W.

    >>> from netplan.workloads.technologies import LINKS, MEMORIES
    >>> memory, link = MEMORIES.load("ddr4"), LINKS.load("pcie4")
    >>> torus = [Dimension("ring", 8, 50e9), Dimension("ring", 128, 50e9)]
    >>> price, energy = (Units.of(memory, link, what, None) for what in ("price", "energy"))
    >>> round(published_amount(16522.25023, 300e9, torus, price))
    17757184
    >>> round(published_amount(444.7061955, 300e9, torus, energy), 1)
    511325.0
    """
    chips = prod(dimension.size for dimension in dimensions)
    total = chips * (die + memory_bytes_per_s * units.memory)
    last = outermost([dimension.size for dimension in dimensions])
    for number, dimension in enumerate(dimensions):
        if dimension.size > 1:
            links, ports = _rates(dimension, chips, outermost=number == last)
            total += links * units.link
            total += ports * units.switch_port if chips > SWITCHLESS_CHIPS else 0.0
    return total


def _rates(dimension: Dimension, chips: int, *, outermost: bool) -> tuple[float, float]:
    """Rates of all links, and of all switch ports, of a dimension [B/s]."""
    size, rate = dimension.size, dimension.link_bytes_per_s
    ends = size if outermost else chips
    match dimension.kind:
        case "ring":
            return chips * rate, 2 * chips / size * rate
        case "mesh":
            return ends * (size - 1) * rate, size**2 * rate if outermost else 0.0
        case "switch":
            return ends * rate, ends * rate


def die_power_w(tensor_flops_per_s: float) -> float:
    """Power of a chip by its peak, the fit of Fig. 9 of DFModel [W].

    P = 3e-7 X^2 + 4.3e-4 X + 0.04 kW at X TFLOP/s. The printed coefficients are damaged; sign and
    exponent of the second are those that pass near the four chips of the figure.

    Examples
    --------
    H100, TPU v4, SN30 and WSE-2 of the figure:

    >>> [round(die_power_w(peak * 1e12)) for peak in (993, 275, 614, 7500)]
    [763, 181, 417, 20140]
    """
    tera = tensor_flops_per_s / 1e12
    return 1e3 * (3e-7 * tera**2 + 4.3e-4 * tera + 0.04)

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

Source: user guide and logs of the public code of DFModel (Ko et al., ACM TACO 2024).
"""

from collections.abc import Sequence
from math import prod

from msgspec import Struct

from netplan.errors import InputError
from netplan.traffic.published_topology import Dimension
from netplan.workloads.technologies import Link, Memory

SWITCHLESS_CHIPS = 4
"""Chips up to which switches are not charged [1]."""


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
    def prices(cls, memory: Memory, link: Link) -> "Units":
        """Prices of a memory and a link.

        Raises
        ------
        InputError
            If a price is not published.
        """
        amounts = (
            memory.price_usd_per_bytes_per_s,
            link.price_usd_per_bytes_per_s,
            link.switch_price_usd_per_bytes_per_s,
        )
        return cls(*_published(amounts, "price", memory, link))

    @classmethod
    def energies(cls, memory: Memory, link: Link) -> "Units":
        """Energies of a memory and a link.

        Raises
        ------
        InputError
            If an energy is not published.
        """
        energies_j = (
            memory.energy_j_per_byte,
            link.energy_j_per_byte,
            link.switch_energy_j_per_byte,
        )
        return cls(*_published(energies_j, "energy", memory, link))


def _published(
    values: Sequence[float | None], what: str, memory: Memory, link: Link
) -> list[float]:
    """The values, if all of them are known."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        raise InputError(
            f"no {what} is published for all of {memory.name} and {link.name}: put it into their"
            " files"
        )
    return known


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
    >>> round(published_amount(16522.25023, 300e9, torus, Units.prices(memory, link)))
    17757184
    >>> round(published_amount(444.7061955, 300e9, torus, Units.energies(memory, link)), 1)
    511325.0
    """
    chips = prod(dimension.size for dimension in dimensions)
    total = chips * (die + memory_bytes_per_s * units.memory)
    last = max(
        (number for number, dimension in enumerate(dimensions) if dimension.size > 1), default=0
    )
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

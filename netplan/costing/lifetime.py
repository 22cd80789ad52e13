"""What a network costs over its life: price, energy, cooling, maintenance, support, spares.

Energy of a year is W x PUE x 8,760 h, of which a share of W x (PUE - 1) x 8,760 h cools. An annuity
pays capital C back over n years at interest i with the yearly sum C i / (1 - (1 + i)^-n), which is
C / n without interest. *Cost of a year*, by which all questions compare, is annuity and energy.

Maintenance, support and spares are a part of the price each year: the *upkeep*. The total over the
years is a present value: the price is paid at the start, undiscounted, and what a year costs at its
end, so that year k counts for (1 + i)^-k of its cost. n equal years count for
(1 - (1 + i)^-n) / i of one of them, the reciprocal of the annuity: the present value of all
annuities is the price, and that of the total divided by the same factor is its even yearly sum.
"""

from math import expm1, isfinite, log1p
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from netplan.catalog import Catalog, Record, Sourced, unknown_name
from netplan.costing.prices import Currency
from netplan.costing.ranges import NOTHING, Estimate, Range
from netplan.errors import InputError
from netplan.inputs.choices import Cooling
from netplan.records import PositiveFloat, Share, asdict, replace
from netplan.units import HOURS_PER_YEAR, PETA
from netplan.workloads.accelerators import Accelerator

WATTS_PER_KILOWATT = 1000.0
MAX_YEARS, MAX_PUE = 50, 10.0


class GridCarbon(Sourced, frozen=True, kw_only=True):
    """What a kWh emits, by the grid that it comes from [kg CO2e/kWh].

    ``grid`` is the one where nobody names one, that of the tariff; ``spread`` is how much more or
    less it may be [1].
    """

    grid: str
    factors: dict[str, PositiveFloat]
    spread: Share
    confidence: Literal["high", "medium", "low"]

    def of(self, grid: str | None = None) -> Range:
        """What a kWh from a grid emits, or from the book's own.

        Parameters
        ----------
        grid
            Country or region, such as ``fr``.

        Returns
        -------
        Range
            Low, base and high [kg CO2e/kWh].

        Raises
        ------
        UnknownNameError
            If the book has no such grid.

        Examples
        --------
        >>> ECONOMICS_BOOKS.load("2026").carbon.of("fr").base
        0.044
        """
        name = (grid or self.grid).lower()
        if name not in self.factors:
            raise unknown_name("grid", name, [*self.factors])
        base = self.factors[name]
        return Range((1 - self.spread) * base, base, (1 + self.spread) * base)


class ScaledHour(Estimate, frozen=True, kw_only=True):
    """An hour of a GPU of 10^15 FLOP/s; of others it goes with a power of their rate."""

    exponent: PositiveFloat


class EconomicsBook(Record, frozen=True, kw_only=True):
    """Values that turn power and capital into a yearly cost; the tariff is per kWh.

    ``cooling`` is the share of what a facility draws beyond its equipment. ``maintenance`` (work on
    site), ``support`` (the maker's contract) and ``spares`` (parts used up beyond both) are each
    year's share of the price; a book without one counts none. ``gpu_hours`` are what an hour of one
    GPU is worth, its servers included, by the accelerator's name; ``gpu_hour`` that of any other,
    or, of a book without it, ``other_gpu_hour`` by its dense 16-bit rate.
    ``pue_by_cooling`` is the PUE of halls by what cools the chips, ``carbon`` what a kWh emits.
    """

    currency: Currency
    years: Annotated[int, Meta(ge=1, le=MAX_YEARS)]
    years_source: str
    pue: Estimate
    tariff: Estimate
    interest: Estimate
    cooling: Estimate | None = None
    maintenance: Estimate | None = None
    support: Estimate | None = None
    spares: Estimate | None = None
    gpu_hour: Estimate | None = None
    gpu_hours: dict[str, Estimate] = field(default_factory=dict)
    other_gpu_hour: ScaledHour | None = None
    pue_by_cooling: dict[Cooling, Estimate] = field(default_factory=dict)
    carbon: GridCarbon | None = None
    notes: tuple[str, ...] = ()

    def hour_of(self, chip: Accelerator) -> Estimate | None:
        """What an hour of one accelerator is worth.

        Parameters
        ----------
        chip
            The accelerator.

        Returns
        -------
        Estimate or None
            Its price [currency/h], with evidence; None where the book has none for it.

        Examples
        --------
        An A100 that no list had would be worth 3.016 x 0.312^0.6667 USD, where 1.40 is printed.

        >>> from netplan.workloads.accelerators import ACCELERATORS
        >>> book, a100 = ECONOMICS_BOOKS.load("2026"), ACCELERATORS.load("a100-80gb")
        >>> other = book.hour_of(a100.changed(name="a-chip"))
        >>> book.hour_of(a100).base, round(other.base, 2), other.evidence
        (1.4, 1.39, 'assumed')
        """
        rule = self.other_gpu_hour
        if chip.name in self.gpu_hours or self.gpu_hour or rule is None:
            return self.gpu_hours.get(chip.name, self.gpu_hour)
        scaled = (chip.tensor_flops_per_s / PETA) ** rule.exponent * rule.range
        return replace(rule, **asdict(scaled))


ECONOMICS_BOOKS = Catalog("economics", "costing/economics", EconomicsBook)


class Opex(Struct, frozen=True):
    """The values of one answer.

    Parameters
    ----------
    years
        Years of use [1].
    pue
        Facility power over equipment power, at least 1 [1].
    tariff
        Price of one kWh, in the currency of the answer.
    interest
        Interest a year [1].
    cooling
        Energy of cooling over energy of the equipment, at most PUE - 1 [1].
    maintenance, support, spares
        Each year's share of the price [1].
    carbon
        What a kWh emits [kg CO2e/kWh]; 0 where the book does not say.
    grid, cooled_by
        Whose kWh these are, and what cools the chips where the PUE follows from that.
    """

    years: int
    pue: Range
    tariff: Range
    interest: Range
    cooling: Range = NOTHING
    maintenance: Range = NOTHING
    support: Range = NOTHING
    spares: Range = NOTHING
    carbon: Range = NOTHING
    grid: str = ""
    cooled_by: str = ""

    def __post_init__(self) -> None:
        """Refuse values that no network has.

        Raises
        ------
        InputError
            If one is out of range.
        """
        if not 1 <= self.years <= MAX_YEARS:
            raise InputError(f"--years {self.years}: give 1 to {MAX_YEARS}")
        values = (self.pue.high, self.tariff.high, self.interest.high)
        if not all(isfinite(value) for value in values):
            names = ", ".join(f"{value:g}" for value in values)
            raise InputError(f"--pue, --tariff and --interest are finite numbers, got {names}")
        for name, option in UPKEEP.items():
            share: Range = getattr(self, name)
            if not 0 <= share.low <= share.high <= 1:
                raise InputError(
                    f"--{option} {100 * share.base:g}%: give 0% to 100% of the price a year"
                )
        if self.cooling.base < 0:
            raise InputError(f"--cooling {100 * self.cooling.base:g}%: give at least 0%")
        if self.pue.low < 1:
            raise InputError(
                f"--pue {self.pue.low:g}: a facility draws at least what its equipment draws:"
                " give 1 or more"
            )
        if self.pue.base > MAX_PUE:
            raise InputError(f"--pue {self.pue.base:g}: give 1 to {MAX_PUE:g}")
        if self.tariff.low < 0:
            raise InputError(f"--tariff {self.tariff.low:g}: give a price per kWh of at least 0")
        if not 0 <= self.interest.low <= self.interest.high <= 1:
            raise InputError(f"--interest {100 * self.interest.low:g}%: give 0% to 100%")
        if self.cooling.base > self.pue.base - 1 + SLACK:
            raise InputError(
                f"--cooling {100 * self.cooling.base:g}%: a PUE of {self.pue.base:g} leaves 0% to"
                f" {100 * (self.pue.base - 1):.4g}% of the equipment's energy to cooling"
            )

    @classmethod
    def of(cls, book: EconomicsBook, rate: float = 1.0) -> "Opex":
        """All values of a book, its tariff at a rate of exchange.

        Parameters
        ----------
        book
            The book; its tariff is in its own currency.
        rate
            What one of the book's currency is in that of the answer [1].

        Returns
        -------
        Opex
            Years, PUE, interest and shares [1], and the tariff [currency/kWh].

        Raises
        ------
        InputError
            If a value of the book is out of range.

        Examples
        --------
        >>> Opex.of(ECONOMICS_BOOKS.load("2026"), 0.5).tariff.base
        0.04345
        """
        return cls(
            book.years,
            book.pue.range,
            rate * book.tariff.range,
            book.interest.range,
            cooling_of(book, book.pue.range),
            **{name: shared_of(book, name) for name in UPKEEP},
            carbon=book.carbon.of() if book.carbon else NOTHING,
            grid=book.carbon.grid if book.carbon else "",
            cooled_by="",
        )


UPKEEP = {"maintenance": "maintenance", "support": "support", "spares": "yearly-spares"}
"""Shares of the price that a year costs, and the options that set them."""
SLACK = 1e-9


def shared_of(book: EconomicsBook, name: str) -> Range:
    """A share of the book; 0 where it has none [1].

    Parameters
    ----------
    book
        The book.
    name
        ``cooling``, ``maintenance``, ``support`` or ``spares``.

    Returns
    -------
    Range
        The share as low, base and high [1].
    """
    estimate: Estimate | None = getattr(book, name)
    return estimate.range if estimate else NOTHING


def cooling_of(book: EconomicsBook, pue: Range) -> Range:
    """Energy of cooling over that of the equipment, at a PUE [1].

    Parameters
    ----------
    book
        The book; its share is that of what a facility draws beyond its equipment.
    pue
        Facility power over equipment power [1].

    Returns
    -------
    Range
        Share x (PUE - 1), 0 below a PUE of 1, as low, base and high [1].

    Examples
    --------
    >>> book = ECONOMICS_BOOKS.load("2026")
    >>> round(cooling_of(book, Range.point(1.5)).base / book.cooling.base, 9)
    0.5
    """
    return shared_of(book, "cooling").product(
        Range(*(max(ratio - 1, 0.0) for ratio in (pue.low, pue.base, pue.high)))
    )


class PresentValues(Struct, frozen=True):
    """What all years cost, each part discounted to the start; ``energy`` holds ``cooling``."""

    energy: Range
    cooling: Range
    maintenance: Range
    support: Range
    spares: Range


class Lifetime(Struct, frozen=True):
    """Cost of a network over its life, in one currency.

    Parameters
    ----------
    energy_kwh_per_year
        Energy of a year at the meter [kWh].
    energy_per_year
        Its price, cooling and losses included.
    annuity_per_year
        Yearly sum that pays the price back with interest.
    years
        Years of use [1].
    capital
        Price, paid at the start.
    cooling_per_year
        Part of the energy's price that cools.
    maintenance_per_year, support_per_year, spares_per_year
        Upkeep of a year.
    discounting
        Years that count: the present value of 1 a year [1].
    carbon_kg_per_year
        What the energy of a year emits [kg CO2e].
    """

    json_parts = (
        *("years", "capital", "energy_per_year", "cooling_per_year", "maintenance_per_year"),
        *("support_per_year", "spares_per_year", "running_per_year", "discounting"),
        *("carbon_kg_per_year", "paid", "present_value", "present"),
    )

    energy_kwh_per_year: Range
    energy_per_year: Range
    annuity_per_year: Range
    years: int
    capital: Range = NOTHING
    cooling_per_year: Range = NOTHING
    maintenance_per_year: Range = NOTHING
    support_per_year: Range = NOTHING
    spares_per_year: Range = NOTHING
    discounting: Range = NOTHING
    carbon_kg_per_year: Range = NOTHING

    @property
    def per_year(self) -> Range:
        """Annuity and energy of one year."""
        return self.annuity_per_year + self.energy_per_year

    @property
    def energy(self) -> Range:
        """Energy of all years."""
        return self.years * self.energy_per_year

    @property
    def total(self) -> Range:
        """Annuities and energy of all years."""
        return self.years * self.per_year

    @property
    def upkeep_per_year(self) -> Range:
        """Maintenance, support and spares of one year."""
        return self.maintenance_per_year + self.support_per_year + self.spares_per_year

    @property
    def running_per_year(self) -> Range:
        """Energy and upkeep of one year."""
        return self.energy_per_year + self.upkeep_per_year

    @property
    def paid(self) -> Range:
        """Price, energy and upkeep of all years, as they are paid: without interest."""
        return self.capital + self.years * self.running_per_year

    @property
    def present(self) -> PresentValues:
        """Present values of what every year costs at its end."""
        return PresentValues(
            energy=self.energy_per_year.product(self.discounting),
            cooling=self.cooling_per_year.product(self.discounting),
            maintenance=self.maintenance_per_year.product(self.discounting),
            support=self.support_per_year.product(self.discounting),
            spares=self.spares_per_year.product(self.discounting),
        )

    @property
    def present_value(self) -> Range:
        """Price, and energy and upkeep of all years, discounted to the start."""
        return self.capital + self.running_per_year.product(self.discounting)


def annuity_factor(interest: float, years: int) -> float:
    """Share of the capital that is due each year, i / (1 - (1 + i)^-n) [1].

    Parameters
    ----------
    interest
        Interest a year, i, at least 0 [1].
    years
        Years of use, n, at least 1 [1].

    Returns
    -------
    float
        Yearly sum over capital, 1 / n without interest [1].

    Examples
    --------
    >>> round(annuity_factor(0.05, 10), 6), annuity_factor(0.0, 5)
    (0.129505, 0.2)
    """
    if not interest:
        return 1 / years
    # 1 - (1 + i)^-n without losing the digits of a small i.
    return interest / -expm1(-years * log1p(interest))


def discount_factor(interest: float, years: float) -> float:
    """Present value of 1 that is paid after so many years, (1 + i)^-k [1].

    Parameters
    ----------
    interest
        Interest a year, i, at least 0 [1].
    years
        Years until it is paid, k [1].

    Returns
    -------
    float
        What it is worth at the start [1].

    Examples
    --------
    >>> round(discount_factor(0.05, 2), 9) == round(1 / 1.1025, 9)
    True
    """
    return float((1 + interest) ** -years)


def lifetime(capital: Range, power_w: float, opex: Opex) -> Lifetime:
    """Cost of a network over its life.

    Parameters
    ----------
    capital
        Price of the network [currency].
    power_w
        Its typical power [W].
    opex
        Years, PUE, interest and shares [1], and the tariff [currency/kWh].

    Returns
    -------
    Lifetime
        Energy of a year [kWh], and what price, energy and upkeep cost [currency].

    Examples
    --------
    1 MW for a year at PUE 1.5: 1000 kW x 1.5 x 8760 h = 13,140,000 kWh.

    >>> point = Range.point
    >>> opex = Opex(5, point(1.5), point(0.10), point(0.0))
    >>> life = lifetime(point(1e6), 1e6, opex)
    >>> life.energy_kwh_per_year.base, life.energy_per_year.base, life.annuity_per_year.base
    (13140000.0, 1314000.0, 200000.0)
    >>> life.present_value.base  # 1 M, and five years of energy, at no interest
    7570000.0
    """
    kwh = (power_w / WATTS_PER_KILOWATT * HOURS_PER_YEAR) * opex.pue
    interest, years = opex.interest, opex.years
    factors = Range(
        *(annuity_factor(rate, years) for rate in (interest.low, interest.base, interest.high))
    )
    cooled = (power_w / WATTS_PER_KILOWATT * HOURS_PER_YEAR) * opex.cooling
    return Lifetime(
        kwh,
        kwh.product(opex.tariff),
        capital.product(factors),
        years,
        capital,
        cooled.product(opex.tariff),
        capital.product(opex.maintenance),
        capital.product(opex.support),
        capital.product(opex.spares),
        # The most interest makes later years count least.
        Range(1 / factors.high, 1 / factors.base, 1 / factors.low),
        kwh.product(opex.carbon),
    )

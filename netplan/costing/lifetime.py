"""What a network costs over its life: energy with PUE and tariff, and capital as an annuity.

Energy of a year is W x PUE x 8,760 h; an annuity pays capital C back over n years at interest i
with the yearly sum C i / (1 - (1 + i)^-n), which is C / n without interest.
"""

from math import expm1, isfinite, log1p
from typing import Annotated

from msgspec import Meta, Struct

from netplan.catalog import Record, Shelf
from netplan.costing.prices import Currency
from netplan.costing.ranges import Estimate, Range
from netplan.errors import InputError
from netplan.units import HOURS_PER_YEAR

WATTS_PER_KILOWATT = 1000.0
MAX_YEARS = 50


class EconomicsBook(Record, frozen=True, kw_only=True):
    """Values that turn power and capital into a yearly cost; the tariff is per kWh.

    ``gpu_hour`` is what an hour of one GPU is worth, its servers included, the network apart.
    """

    currency: Currency
    years: Annotated[int, Meta(ge=1, le=MAX_YEARS)]
    years_source: str
    pue: Estimate
    tariff: Estimate
    interest: Estimate
    gpu_hour: Estimate | None = None
    notes: tuple[str, ...] = ()


ECONOMICS_BOOKS = Shelf("economics", "costing/economics", EconomicsBook)


class Running(Struct, frozen=True):
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
    """

    years: int
    pue: Range
    tariff: Range
    interest: Range

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
        if self.pue.low < 1:
            raise InputError(
                f"--pue {self.pue.low:g}: a facility draws at least what its equipment draws:"
                " give 1 or more"
            )
        if self.tariff.low < 0:
            raise InputError(f"--tariff {self.tariff.low:g}: give a price per kWh of at least 0")
        if not 0 <= self.interest.low <= self.interest.high <= 1:
            raise InputError(f"--interest {100 * self.interest.low:g}%: give 0% to 100%")


class Lifetime(Struct, frozen=True):
    """Cost of a network over its life, in one currency."""

    energy_kwh_per_year: Range
    energy_per_year: Range
    annuity_per_year: Range
    years: int

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


def annuity_factor(interest: float, years: int) -> float:
    """Share of the capital that is due each year [1].

    Examples
    --------
    >>> round(annuity_factor(0.05, 10), 6), annuity_factor(0.0, 5)
    (0.129505, 0.2)
    """
    if not interest:
        return 1 / years
    # 1 - (1 + i)^-n without losing the digits of a small i.
    return interest / -expm1(-years * log1p(interest))


def lifetime(capital: Range, power_w: float, running: Running) -> Lifetime:
    """Cost of a network over its life.

    Parameters
    ----------
    capital
        Price of the network.
    power_w
        Its typical power [W].
    running
        Years, PUE, tariff and interest.

    Examples
    --------
    1 MW for a year at PUE 1.5: 1000 kW x 1.5 x 8760 h = 13,140,000 kWh.

    >>> point = Range.point
    >>> running = Running(5, point(1.5), point(0.10), point(0.0))
    >>> life = lifetime(point(1e6), 1e6, running)
    >>> life.energy_kwh_per_year.base, life.energy_per_year.base, life.annuity_per_year.base
    (13140000.0, 1314000.0, 200000.0)
    """
    kwh = (power_w / WATTS_PER_KILOWATT * HOURS_PER_YEAR) * running.pue
    interest, years = running.interest, running.years
    factors = Range(
        *(annuity_factor(one, years) for one in (interest.low, interest.base, interest.high))
    )
    return Lifetime(kwh, kwh.product(running.tariff), capital.product(factors), years)

"""Low, base and high: every amount of money and every uncertain value is one of these."""

from typing import Literal

from msgspec import Struct

from netplan.catalog import Sourced
from netplan.inputs.choices import End
from netplan.records import NonNegativeFloat


class Range(Struct, frozen=True):
    """An amount as a range; the three are equal where no spread is known.

    Examples
    --------
    >>> 2 * Range(1.0, 2.0, 4.0) + Range.point(1.0)
    Range(low=3.0, base=5.0, high=9.0)
    """

    low: float
    base: float
    high: float

    @classmethod
    def point(cls, value: float) -> "Range":
        """A value without a spread.

        Parameters
        ----------
        value
            The amount, of any unit.

        Returns
        -------
        Range
            Low, base and high, all equal.
        """
        return cls(value, value, value)

    @classmethod
    def around(cls, low: float | None, base: float, high: float | None) -> "Range":
        """A value whose ends are given or are the value itself.

        Parameters
        ----------
        low, base, high
            The value and its ends, in one unit; None for an end that is the value.

        Returns
        -------
        Range
            The value with both.
        """
        return cls(base if low is None else low, base, base if high is None else high)

    @property
    def rising(self) -> bool:
        """Whether its ends are on either side of its base."""
        return self.low <= self.base <= self.high

    def __add__(self, other: "Range") -> "Range":
        """Sum of two amounts: all low, all base, all high together."""
        return Range(self.low + other.low, self.base + other.base, self.high + other.high)

    def __rmul__(self, factor: float) -> "Range":
        """Multiple of an amount by a factor of at least 0."""
        return Range(factor * self.low, factor * self.base, factor * self.high)

    def product(self, other: "Range") -> "Range":
        """Low times low, base times base, high times high, of amounts of at least 0.

        Parameters
        ----------
        other
            The other amount, of any unit.

        Returns
        -------
        Range
            The product, in the product of both units.
        """
        return Range(self.low * other.low, self.base * other.base, self.high * other.high)

    def at_end(self, end: End) -> float:
        """One of the three.

        Parameters
        ----------
        end
            ``low``, ``base`` or ``high``.

        Returns
        -------
        float
            The amount there, in the unit of the range.

        Examples
        --------
        >>> Range(1.0, 2.0, 4.0).at_end("high")
        4.0
        """
        return {"low": self.low, "base": self.base, "high": self.high}[end]

    def in_currency(self, currency: str) -> "Amount":
        """The same as an amount of money.

        Parameters
        ----------
        currency
            Its currency.

        Returns
        -------
        Amount
            Low, base and high, with the currency.
        """
        return Amount(currency, self.low, self.base, self.high)

    @property
    def spread(self) -> bool:
        """Whether low and high differ."""
        return self.low < self.high


NOTHING = Range.point(0.0)


class Amount(Struct, frozen=True):
    """A range of money with its currency."""

    currency: str
    low: float
    base: float
    high: float


class Estimate(Sourced, frozen=True, kw_only=True):
    """An uncertain value in a catalog file, with date, source and what it is made of."""

    base: NonNegativeFloat
    low: NonNegativeFloat | None = None
    high: NonNegativeFloat | None = None
    confidence: Literal["high", "medium", "low"]

    def __post_init__(self) -> None:
        """Refuse ends out of order."""
        if not self.range.rising:
            raise ValueError(
                f"values run low <= base <= high, got {self.low}, {self.base}, {self.high}"
            )

    @property
    def range(self) -> Range:
        """The value as a range; a missing end is the base."""
        return Range.around(self.low, self.base, self.high)

"""Named quantities: what a column is called, which unit it has, how its values are written.

The table `reports/quantities.csv` is the nomenclature of the documentation and of the JSON. A name
that it does not hold, such as a path that a study asks for, is read from its parts: all names of
netplan say their unit by their ending.
"""

import csv
from dataclasses import dataclass, replace
from functools import cache
from math import isfinite
from typing import Literal, cast

from netplan.catalog import shipped_root
from netplan.units import si

Cell = str | int | float | bool | None
"""One value of a table, as it is; None where there is none."""

Scalar = Cell
"""One input or output of a question."""

Form = Literal["text", "prose", "code", "count", "fixed", "general", "percent", "si", "money"]
FILE = "reports/quantities.csv"
DASH = "-"
NUMERIC = ("count", "fixed", "general", "percent", "si", "money")


@dataclass(frozen=True, slots=True)
class Quantity:
    """One named quantity.

    Parameters
    ----------
    name
        As in JSON and CSV; its ending says the unit of the raw value.
    title
        Above a column.
    unit
        Of the raw value.
    form
        ``text``; ``prose`` (long text, wrapped); ``code`` (short text, aligned like a number);
        ``count``; ``fixed`` and ``general`` numbers; ``percent``; ``si`` (with a prefix); ``money``
        (in the scale of its answer).
    digits
        Decimals of fixed numbers and percents, significant digits of the others [1].
    scale
        What a value is divided by before it is written [1].
    suffix
        Written behind every value.
    meaning
        One sentence.
    """

    name: str
    title: str
    unit: str = ""
    form: Form = "text"
    digits: int = 0
    scale: float = 1.0
    suffix: str = ""
    meaning: str = ""

    @property
    def numeric(self) -> bool:
        """Whether its raw values are numbers."""
        return self.form in NUMERIC

    @property
    def right(self) -> bool:
        """Whether its column is aligned to the right."""
        return self.form not in ("text", "prose")

    def shown(self, value: Cell) -> str:
        """A value for people; a dash for none.

        Examples
        --------
        >>> quantity("iteration_time_s").shown(3.1327), quantity("mfu").shown(0.5141)
        ('3.133 s', '51 %')
        >>> quantity("memory_bytes").shown(79.2e9), quantity("switches").shown(None)
        ('79 GB', '-')
        """
        if value is None:
            return DASH
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str) or not self.numeric or not isfinite(value):
            return str(value)
        return self._number(value)

    def _number(self, value: float) -> str:
        if self.form == "percent":
            return f"{100 * value:.{self.digits}f} %"
        if self.form == "si":
            return si(value, self.suffix or self.unit, self.digits)
        style = {"count": ",.0f", "general": f",.{self.digits}g"}.get(
            self.form, f",.{self.digits}f"
        )
        return f"{value / self.scale:{style}} {self.suffix}".rstrip()


@cache
def nomenclature() -> dict[str, Quantity]:
    """All quantities of the table by name, in its order."""
    path = shipped_root() / FILE
    with path.open(encoding="utf-8", newline="") as file:
        return {row["name"]: _quantity(row) for row in csv.DictReader(file)}


def quantity(name: str, **changes: object) -> Quantity:
    """A quantity by name, with some of its facts changed for one column.

    Examples
    --------
    >>> quantity("power_w").shown(3_592_192.0), quantity("power_w", digits=1).shown(3_592_192.0)
    ('3,592', '3,592.2')
    """
    found = nomenclature().get(name)
    if found is None:
        found = Quantity(name, name.replace("_", " "))
    return replace(found, **changes) if changes else found  # type: ignore[arg-type]


def _quantity(row: dict[str, str]) -> Quantity:
    form, *rest = row["form"].split(" ")
    kind, _, digits = form.partition(":")
    scale = next((text[1:] for text in rest if text.startswith("/")), "1")
    suffix = next((text for text in rest if not text.startswith("/")), "")
    return Quantity(
        name=row["name"],
        title=row["title"],
        unit=row["unit"],
        form=cast("Form", kind),
        digits=int(digits or 0),
        scale=float(scale),
        suffix=suffix,
        meaning=row["meaning"],
    )


@dataclass(frozen=True, slots=True)
class Scale:
    """One scale for all amounts of an answer: thousands or millions of a currency.

    Examples
    --------
    >>> millions = Scale.of(49_020_928.0, "USD")
    >>> millions.title, millions.of_money("cost_base").shown(49_020_928.0)
    ('M USD', '49.0')
    """

    factor: float
    title: str
    digits: int

    @classmethod
    def of(cls, largest: float, currency: str) -> "Scale":
        """The scale that suits the largest amount."""
        factor, sign = (1e6, "M") if largest >= IN_MILLIONS_FROM else (1e3, "k")
        return cls(factor, f"{sign} {currency}", 0 if largest >= WHOLE_MILLIONS_FROM else 1)

    def of_money(self, name: str, title: str | None = None) -> Quantity:
        """A quantity of money in this scale."""
        title = self.title if title is None else title
        return quantity(name, form="money", title=title, scale=self.factor, digits=self.digits)

    def one(self, amount: float) -> str:
        """One amount, without its unit."""
        return f"{amount / self.factor:,.{self.digits}f}"

    def span(self, low: float, high: float, digits: int | None = None) -> str:
        """Low to high; a dash where they are the same.

        Examples
        --------
        >>> Scale.of(1e8, "USD").span(9.2e7, 1.28e8), Scale.of(1e8, "USD").span(1e8, 1e8)
        ('92.0-128.0', '-')
        """
        if low == high:
            return DASH
        places = self.digits if digits is None else digits
        return f"{low / self.factor:,.{places}f}-{high / self.factor:,.{places}f}"


IN_MILLIONS_FROM, WHOLE_MILLIONS_FROM = 1e7, 1e10

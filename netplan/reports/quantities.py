"""Named quantities: what a column is called, which unit it has, how its values are written.

The table `reports/quantities.csv` is the nomenclature of the documentation and of the JSON. A name
that it does not hold, such as a path that a study asks for, is read from its parts: all names of
netplan say their unit by their ending.
"""

import csv
import re
from collections.abc import Sequence
from functools import cache
from math import isfinite
from typing import Literal, cast

from msgspec import Struct

from netplan.catalog import shipped_root
from netplan.records import replace
from netplan.units import si

Cell = str | int | float | bool | None
"""One value of a table, as it is; None where there is none."""

Scalar = Cell
"""One input or output of a question."""

Form = Literal["text", "prose", "code", "count", "fixed", "general", "percent", "si", "money"]
FILE, WORDS_FILE = "reports/quantities.csv", "reports/words.csv"
DASH = "-"
MOST_WHOLE = 1e12
"""Numbers from here on are written as powers of ten [1]."""
NUMERIC = ("count", "fixed", "general", "percent", "si", "money")


class Quantity(Struct, frozen=True):
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
        >>> quantity("mtbf_h").shown(12.84), quantity("mtbf_h").shown(5670.2)
        ('12.8 h', '5,670 h')
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
        value /= self.scale
        # Digits before the point are all shown, not as a power of ten.
        whole = self.form == "general" and 10**self.digits - 0.5 <= abs(value) < MOST_WHOLE
        general = ",.0f" if whole else f",.{self.digits}g"
        style = {"count": ",.0f", "general": general}.get(self.form, f",.{self.digits}f")
        return f"{value:{style}} {self.suffix}".rstrip()


def nomenclature() -> dict[str, Quantity]:
    """All quantities of the table by name, in its order."""
    return {name: quantity(name) for name in _rows()}


@cache
def _rows() -> dict[str, list[str]]:
    """Rows of the table by the name of their quantity."""
    path = shipped_root() / FILE
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        next(rows)
        return {row[0]: row for row in rows}


def quantity(name: str, **changes: object) -> Quantity:
    """A quantity by name, with some of its facts changed for one column.

    Examples
    --------
    >>> quantity("power_w").shown(3_592_192.0), quantity("power_w", digits=1).shown(3_592_192.0)
    ('3,592', '3,592.2')
    """
    known = _known(name) or Quantity(name, name.replace("_", " "))
    return replace(known, **changes) if changes else known


@cache
def _known(name: str) -> Quantity | None:
    """A quantity of the table; an answer has few of them."""
    row = _rows().get(name)
    if row is None:
        return None
    _, title, unit, described, meaning = row
    form, *rest = described.split(" ")
    kind, _, digits = form.partition(":")
    scale = next((text[1:] for text in rest if text.startswith("/")), "1")
    suffix = next((text for text in rest if not text.startswith("/")), "")
    return Quantity(
        name=name,
        title=title,
        unit=unit,
        form=cast("Form", kind),
        digits=int(digits or 0),
        scale=float(scale),
        suffix=suffix,
        meaning=meaning,
    )


class Scale(Struct, frozen=True):
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
        """The scale that suits the largest amount: three digits of it or more.

        Examples
        --------
        >>> [Scale.of(most, "USD").amount(most) for most in (5.8038e6, 27.64e6, 803_800.0)]
        ['5.80 M USD', '27.6 M USD', '803.8 k USD']
        """
        factor, sign = _prefix(largest)
        digits = 2 if IN_MILLIONS_FROM <= largest < MORE_DIGITS_BELOW else 1
        return cls(factor, f"{sign} {currency}", 0 if largest >= WHOLE_MILLIONS_FROM else digits)

    @classmethod
    def short(cls, largest: float, currency: str) -> "Scale":
        """The scale of a column of few digits: millions or thousands, whole from a hundred on."""
        factor, sign = _prefix(largest)
        return cls(factor, f"{sign} {currency}".rstrip(), int(abs(largest) < 100 * factor))

    def of_money(self, name: str, title: str | None = None) -> Quantity:
        """A quantity of money in this scale."""
        facts = {"unit": self.title.rpartition(" ")[2], "scale": self.factor}
        title = self.title if title is None else title
        return quantity(name, form="money", title=title, digits=self.digits, **facts)

    def number(self, amount: float) -> str:
        """One amount, without its unit."""
        return f"{amount / self.factor:,.{self.digits}f}"

    def amount(self, amount: float) -> str:
        """One amount with its unit.

        Examples
        --------
        >>> Scale(1e6, "M USD", 1).amount(27_640_000.0)
        '27.6 M USD'
        >>> Scale(1e6, "M USD", 1).amount(599.4)
        '599 USD'
        """
        if amount and not round(amount / self.factor, self.digits):
            return short_money(amount, self.title.rpartition(" ")[2])
        return f"{self.number(amount)} {self.title}"

    def apart(self, small: float, large: float) -> float:
        """The difference of two amounts as they are printed, so that a reader can add up.

        Examples
        --------
        >>> millions = Scale(1e6, "M USD", 1)
        >>> round(millions.apart(1.04e6, 3.16e6)), millions.less(1.04e6, 3.16e6)
        (2200000, '2.2')
        """
        first, second = (round(amount / self.factor, self.digits) for amount in (small, large))
        return self.factor * (second - first)

    def less(self, small: float, large: float) -> str:
        """The same as a text, without its unit."""
        return self.number(self.apart(small, large))

    def span(
        self,
        low: float,
        high: float,
        digits: int | None = None,
        *,
        between: str = "-",
        least: float | None = None,
    ) -> str:
        """Low to high; a dash where they are the same.

        Where the high is but the ``least`` that it can be, since parts have none, a plus says so,
        and it is left out if it is no more than that base.

        Examples
        --------
        >>> Scale.of(1e8, "USD").span(9.2e7, 1.28e8), Scale.of(1e8, "USD").span(1e8, 1e8)
        ('92.0-128.0', '-')
        >>> scale = Scale.of(1e8, "USD")
        >>> scale.span(9.2e7, 1.28e8, least=1e8), scale.span(9.2e7, 1e8, least=1e8)
        ('92.0-128.0+', '92.0+')
        """
        if low == high:
            return DASH
        places = self.digits if digits is None else digits
        first, last = (f"{end / self.factor:,.{places}f}" for end in (low, high))
        if least is None:
            return f"{first}{between}{last}"
        base = f"{least / self.factor:,.{places}f}"
        return f"{first}+" if last == base else f"{first}{between}{last}+"


IN_THOUSANDS_FROM = 1e3
IN_MILLIONS_FROM, MORE_DIGITS_BELOW, WHOLE_MILLIONS_FROM = 1e6, 1e7, 1e10
"""Amounts from which on money is in millions, below which these have two decimals, from which on
none: the one rule of all forms."""


def _prefix(amount: float) -> tuple[float, str]:
    """What an amount of money is divided by, and the sign of that."""
    return (1e6, "M") if abs(amount) >= IN_MILLIONS_FROM else (1e3, "k")


class Words(Struct, frozen=True):
    """A quantity in words, and its unit; empty where it has none."""

    quantity: str
    unit: str = ""

    @property
    def title(self) -> str:
        """Both, as on an axis."""
        return f"{self.quantity}, {self.unit}" if self.unit else self.quantity


@cache
def _words_of(kind: str) -> dict[str, Words]:
    """What ``reports/words.csv`` has of values, of amounts without a unit, or of parts."""
    with (shipped_root() / WORDS_FILE).open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == kind]
    return {row["name"]: Words(row["words"], row["unit"]) for row in rows}


UNITS = {
    "_flops_per_s": ("FLOP/s", "rate"),
    "_bytes_per_s": ("B/s", "bandwidth"),
    **{f"_{unit.lower()}_per_s": (f"{unit}/s", "bandwidth") for unit in ("TB", "GB")},
    **{f"_{unit.lower()}ps": (f"{unit}/s", "bandwidth") for unit in ("Tb", "Gb")},
    "_bytes": ("B", ""),
    **{
        f"_{unit.lower()}": (unit, "")
        for unit in ("GB", "TB", "USD", "kWh", "MW", "kW", "W", "ms", "s", "m")
    },
    "_us": ("µs", ""),
    "_percent": ("%", ""),
    "_points": ("points", ""),
}
"""Endings of a name: their unit, and the word that stands for them, the longest first."""

CASES = {"base": "", "low": " at its low", "high": " at its high"}
PRICE_ROW = "prices.prices."
EN_DASH = "\u2013"
SPELT = {"gpu": "GPU", "gpus": "GPUs", "hb": "HB", "mfu": "MFU", "nic": "NIC", "ocs": "OCS"}
SPELT |= {"pue": "PUE", "zero": "ZeRO", "pflops": "PFLOP/s", "lm": "LM"}
PREFIXED = ("B", "B/s", "FLOP/s", "FLOP/s/W", "FLOP/s/USD", "W")
"""Units whose values are written with an SI prefix."""

DIGITS, PERCENT_DIGITS = 4, 2
SMALL_S, LARGE = 0.1, 1000


def money(amount: float, currency: str, ends: tuple[float, float] | None = None) -> str:
    """An amount in millions or thousands, with its low and high in the same where they differ.

    Examples
    --------
    >>> money(49_020_928.0, "USD"), money(65_536, "EUR"), money(3e6, "USD", (2e6, 5e6))
    ('49.0 M USD', '65.5 k EUR', '3.0 M USD (2.0 to 5.0)')
    """
    if 0 < abs(amount) < IN_THOUSANDS_FROM and ends is None:
        return f"{amount:,.0f} {currency}"
    scale, prefix = _prefix(amount)
    text = f"{amount / scale:,.1f} {prefix} {currency}"
    if ends is None or ends[0] == ends[1]:
        return text
    return f"{text} ({ends[0] / scale:,.1f} to {ends[1] / scale:,.1f})"


def short_money(amount: float, currency: str = "", *, sign: bool = False) -> str:
    """An amount in three digits or so, in millions or thousands, with its sign if asked for.

    Examples
    --------
    >>> short_money(220_965_000.0, "USD"), short_money(4_200_000.0), short_money(83_000.0, "USD")
    ('221 M USD', '4.2 M', '83.0 k USD')
    >>> short_money(70_210_000.0, sign=True), short_money(-1_600.0, sign=True)
    ('+70.2 M', '-1.6 k')
    >>> short_money(599.4, "USD")
    '599 USD'
    """
    if 0 < abs(amount) < IN_THOUSANDS_FROM:
        return f"{amount:{'+' if sign else ''},.0f} {currency}".rstrip()
    scale = Scale.short(amount, currency)
    return f"{amount / scale.factor:{'+' if sign else ''},.{scale.digits}f} {scale.title}"


def part_words(part: str) -> str:
    """Name a row of a price book for people.

    Examples
    --------
    >>> part_words("switch_port at 400 Gb/s")
    'switch port at 400 Gb/s'
    """
    first, space, rest = part.partition(" ")
    known = _words_of("part").get(first)
    return (known.quantity if known else first) + space + rest


def listed(names: Sequence[str], last: str = "and") -> str:
    """Names with commas, and a word before the last one.

    Examples
    --------
    >>> listed(["torus-2d", "torus-3d", "fat-tree"]), listed(["dragonfly"], "or")
    ('torus-2d, torus-3d and fat-tree', 'dragonfly')
    """
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def words(name: str, currency: str = "") -> Words:
    """Name of an input or output for people.

    Parameters
    ----------
    name
        As in a study file.
    currency
        Of amounts whose name does not say it.

    Examples
    --------
    >>> words("iteration_time_s").title, words("cost_usd.base").title, words("hb_size").title
    ('iteration time, s', 'cost, USD', 'HB domain, GPUs')
    >>> words("accelerator.memory_bytes_per_s").title, words("breakdown_s.bubble").title
    ('accelerator memory bandwidth, B/s', 'breakdown bubble, s')
    >>> words("prices.prices.transceiver@400.base").title, words("capital.low", "EUR").title
    ('price of transceiver at 400 Gb/s', 'price of the network at its low, EUR')
    >>> words("cost.base", "USD").title
    'cost, USD'
    """
    if name in (known := _words_of("value")):
        return known[name]
    path, _, last = name.rpartition(".")
    case = CASES.get(last) if path else None
    if case is None:
        path, case = name, ""
    if path.startswith(PRICE_ROW):
        part, sign, speed = path.removeprefix(PRICE_ROW).partition("@")
        row = part_words(f"{part} at {speed} Gb/s" if sign else part)
        return Words(f"price of {row}{case}", currency)
    if path in (amounts := _words_of("money")):
        return Words(amounts[path].quantity + case, currency)
    parts = [_part(part) for part in path.split(".")]
    unit = next((wording.unit for wording in reversed(parts) if wording.unit), "")
    quantity = " ".join(wording.quantity for wording in parts if wording.quantity)
    if quantity == "million":
        return Words(f"cost{case}", f"M {unit}")
    if quantity == "billion":
        return Words(f"{quantity} {unit}{case}")
    return Words(quantity + case, unit)


def shown(value: Scalar, unit: str = "") -> str:
    """A value for people, with its unit.

    Examples
    --------
    >>> shown(48e9, "B"), shown(16384, "GPUs"), shown(10.10301, "s"), shown(True)
    ('48 GB', '16,384 GPUs', '10.1 s', 'yes')
    >>> shown(250609664.0, "USD"), shown(1e-6, "s"), shown("rail-only"), shown(0.31401)
    ('250,609,664 USD', '1 µs', 'rail-only', '0.314')
    >>> shown(11.63115, "%")
    '11.63 %'
    """
    if value is None:
        return EN_DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if unit in PREFIXED or (unit == "s" and 0 < abs(value) < SMALL_S):
        return si(value, unit, DIGITS) if isfinite(value) else str(value)
    if unit == "%":
        text = f"{value:,.{PERCENT_DIGITS}f}"
    elif isinstance(value, int) or abs(value) >= LARGE:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.{DIGITS}g}"
    return f"{text} {unit}".rstrip()


def _part(part: str) -> Words:
    """One part of a name between dots."""
    for ending, (unit, kind) in UNITS.items():
        stem = part.removesuffix(ending)
        if stem not in (part, ""):
            text = spelt(stem)
            return Words(text if text.endswith(kind) else f"{text} {kind}", unit)
    return Words(spelt(part))


def spelt(stem: str) -> str:
    """Words between underscores; products such as b200 in capitals.

    Examples
    --------
    >>> spelt("hb_sizes"), spelt("price_b200")
    ('HB sizes', 'price B200')
    """
    pieces = [
        word.upper() if re.fullmatch(r"[a-z]{1,2}\d{2,3}", word) else SPELT.get(word, word)
        for word in stem.split("_")
    ]
    return " ".join(word for word in pieces if word)

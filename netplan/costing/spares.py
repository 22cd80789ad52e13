"""Spares: a share of every line of a bill by its category, rounded up to whole units."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

from netplan.catalog import unknown_name
from netplan.costing.materials import BillItem, Category
from netplan.errors import InputError

SPARED: tuple[Category, ...] = ("switches", "transceivers", "cables", "cards", "circuits")
"""Categories that spares are bought for."""

PERCENT = 100


def parse_spares(texts: Sequence[str]) -> dict[Category, Fraction]:
    """Read ``2%`` for all categories, or ``transceivers=3%`` for one; later texts win.

    Raises
    ------
    InputError
        If a text has another form or is not between 0 % and 100 %.
    UnknownNameError
        If a category is unknown.

    Examples
    --------
    >>> found = parse_spares(["2%", "transceivers=3%"])
    >>> found["cables"], found["transceivers"]
    (Fraction(1, 50), Fraction(3, 100))
    """
    shares: dict[Category, Fraction] = {}
    for text in texts:
        name, equals, amount = text.rpartition("=")
        share = _share(text, amount.strip())
        if not equals:
            shares = dict.fromkeys(SPARED, share)
            continue
        category = next((known for known in SPARED if known == name.strip()), None)
        if category is None:
            raise unknown_name("spares category", name.strip(), SPARED)
        shares[category] = share
    return shares


def _share(text: str, amount: str) -> Fraction:
    """Exact share of a percentage, so that 7 % of 100 is 7 and not 8."""
    if not re.fullmatch(r"\d{1,3}(\.\d{1,6})?\s*%", amount):
        raise InputError(f"--spares {text!r}: write 2% for all parts, or transceivers=3% for some")
    share = Fraction(amount.rstrip("% ")) / PERCENT
    if share > 1:
        raise InputError(f"--spares {text!r} is out of range: give 0% to 100%")
    return share


def with_spares(
    lines: Sequence[BillItem], shares: Mapping[Category, Fraction]
) -> tuple[BillItem, ...]:
    """The lines with spares by their category, rounded up.

    Parameters
    ----------
    lines
        A bill without spares.
    shares
        Spares over units of the build, at least 0 [1].

    Examples
    --------
    2 % of 32,768 is 655.36.

    >>> optics = BillItem("transceivers", "", "", 32_768, "each", "transceiver", 400.0)
    >>> with_spares([optics], parse_spares(["2%"]))[0].spares
    656
    """
    return tuple(
        replace(line, spares=ceil(line.quantity * shares.get(line.category, Fraction(0))))
        for line in lines
    )

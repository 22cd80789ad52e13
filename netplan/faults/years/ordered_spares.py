"""Spares that are ordered with a network, by a service level.

While a new part is delivered, failed ones draw on the shelf. So many of a line are kept that with
the probability asked for no failed unit lacks one (`netplan.faults.years.reliability`), by the
rates, the shares that end with a new part and the times of delivery of a failure book; at least one
of a line, however seldom it fails. Of rows for several places of a part the highest rate counts.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from netplan.costing.materials import SPARED, BillItem, SparesRule, parse_spares, with_spares
from netplan.costing.prices import Part
from netplan.errors import InputError
from netplan.faults.years.rates import FailureBook, Unit
from netplan.faults.years.reliability import outstanding, spares_needed
from netplan.inputs.choices import End
from netplan.inputs.readers import number_or_nan
from netplan.records import replace
from netplan.units import PERCENT

LEVEL = "level="
"""Start of the words that ask for spares by a service level, such as ``level=95%``."""
USUAL_LEVEL = f"{LEVEL}95%"
UNITS: Mapping[Part, frozenset[Unit]] = {
    "switch_port": frozenset({"switch", "leaf_switch", "upper_switch"}),
    "switch": frozenset({"switch", "leaf_switch", "upper_switch"}),
    "transceiver": frozenset({"transceiver", "host_transceiver", "trunk_transceiver"}),
    "fibre": frozenset({"fibre", "host_fibre", "trunk_fibre"}),
    "copper_cable": frozenset({"dac", "copper_cable", "host_dac", "trunk_dac"}),
    "active_copper_cable": frozenset({"aec", "copper_cable", "host_aec", "trunk_aec"}),
    "optical_cable": frozenset({"aoc", "host_aoc", "trunk_aoc"}),
    "nic_port": frozenset({"nic_port"}),
    "ocs_port": frozenset({"circuit_switch"}),
}
"""Units of a failure book that are parts of a bill."""


def kept_spares(
    lines: Sequence[BillItem], book: FailureBook, level: float, end: End = "base"
) -> tuple[BillItem, ...]:
    """The lines with spares for a service level.

    Parameters
    ----------
    lines
        The bill.
    book
        Rates, and times of delivery.
    level
        Probability that no failed unit lacks a spare [1].
    end
        Which end of the book's ranges counts.

    Returns
    -------
    tuple of BillItem
        The lines in their order; those of which spares are never kept as they are.

    Examples
    --------
    131,072 modules at 0.00876 a year fail 1,148 times a year, 88 times while one is delivered.

    >>> from netplan.faults.years.rates import FAILURE_BOOKS
    >>> modules = BillItem("transceivers", "", "", 131_072, "each", "transceiver", 400.0)
    >>> kept_spares([modules], FAILURE_BOOKS.load("2026"), 0.95)[0].spares
    104
    """
    return tuple(
        replace(line, spares=_kept(line, book, level, end))
        if line.category in SPARED and line.part in UNITS and line.quantity
        else line
        for line in lines
    )


def _kept(line: BillItem, book: FailureBook, level: float, end: End) -> int:
    """Spares of one line [1]."""
    units = UNITS[line.part]
    waiting = [
        outstanding(
            row.rate_per_year.at_end(end) * row.replaced,
            line.quantity,
            book.lead_h(row.kind).at_end(end),
        )
        for row in book.rates
        if row.unit in units
    ]
    return max(1, spares_needed(max(waiting, default=0.0), level))


def level_of(texts: Sequence[str]) -> float | None:
    """The service level that spares are asked for by; None where none is [1].

    Parameters
    ----------
    texts
        Words on spares, of which the last counts.

    Raises
    ------
    InputError
        If it is no percentage between 0 and 100.

    Examples
    --------
    >>> level_of(["level=95%"]), level_of(["2%"])
    (0.95, None)
    """
    if not texts or not texts[-1].startswith(LEVEL):
        return None
    amount = texts[-1].removeprefix(LEVEL).strip()
    level = number_or_nan(amount.removesuffix("%")) / PERCENT
    if not amount.endswith("%") or not 0 < level < 1:
        raise InputError(
            f"--spares {texts[-1]!r} is no service level: write a percentage between 0 and 100,"
            f" such as {USUAL_LEVEL}"
        )
    return level


def spares_rule(
    texts: Sequence[str], book: Callable[[], FailureBook], end: End = "base"
) -> SparesRule | None:
    """What puts spares on the lines of a bill.

    Parameters
    ----------
    texts
        ``level=95%``, or shares as `netplan.costing.materials.parse_spares` reads them.
    book
        Reads the failure book, where a level needs it.
    end
        Which end of its ranges counts.

    Returns
    -------
    callable or None
        Lines to lines; None where no spares are asked for.

    Raises
    ------
    InputError
        If a text is neither.
    """
    level = level_of(texts)
    if level is not None:
        return partial(kept_spares, book=book(), level=level, end=end)
    shares = parse_spares(texts)
    return partial(with_spares, shares=shares) if shares else None

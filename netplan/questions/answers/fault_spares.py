"""Words of the table of spares: which parts a row counts, and how long a new one takes."""

from collections.abc import Iterator, Mapping

from netplan.faults.years.forecast import Spares
from netplan.faults.years.rates import PLACES, Unit

HOURS_PER_DAY = 24.0
DAYS_PER_WEEK = 7.0

COUNTED: Mapping[Unit, str] = {
    "host_link": "links between hosts and leaves, which are replaced with their modules",
    "trunk_link": "links between switches",
    "fibre": "fibres",
    "copper_cable": "copper cables",
    "host_transceiver": "modules of links between hosts and leaves",
    "trunk_transceiver": "modules of links between switches",
}
"""What a row of spares counts, where the name of its kind does not say it."""


def counted(one: Spares) -> Iterator[str]:
    """Which parts of a fabric a row of spares is about, if that is not clear from its name."""
    units = list(one.counted)
    for whole, places in PLACES.items():
        parts = [unit for _, unit in places]
        if set(parts) <= set(units):
            units[units.index(parts[0])] = whole
            units.remove(parts[1])
    said = [COUNTED[unit] for unit in units if unit in COUNTED]
    if said:
        yield f"{one.kind}: {' and '.join(said)}."


def delivery(one: Spares) -> str:
    """Part and time until a new one is there.

    Examples
    --------
    >>> days, weeks = (Spares("gpu", ("gpu",), 8, 1.0, 1.0, hours, 1, 0.99) for hours in (120, 672))
    >>> delivery(days), delivery(weeks)
    ('gpu, 5 days', 'gpu, 4 weeks')
    """
    days = one.lead_h / HOURS_PER_DAY
    if days < 2 * DAYS_PER_WEEK:
        return f"{one.kind}, {days:.2g} days"
    return f"{one.kind}, {days / DAYS_PER_WEEK:.2g} weeks"

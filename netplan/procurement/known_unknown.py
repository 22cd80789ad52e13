"""What a procurement report knows and what it does not: open ends in one box, trust of prices.

Fibre stands in one line, whatever lengths it has; lead times and failures are told even where
nobody has said anything about them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from netplan.costing.materials import BillItem
from netplan.costing.prices import ASSUMPTION, DERIVED, OWN_FIGURE, Price
from netplan.procurement.findings import Findings, told_column
from netplan.procurement.network_risks import order_lead_time
from netplan.questions.answers.cost_answer import BOTH_ENDS
from netplan.reports.quantities import listed, part_words
from netplan.reports.sections import Heading, Notes, Paragraph, Section, Table
from netplan.units import PERCENT, counted

LEAST_SHARE = 0.01
"""Share of the price from which on a part is named [1]."""
LARGEST_PRICES = 4
"""Parts whose price and source stand on the first page [1]."""
SOURCES_NAMED = 2
"""Sources of each of them that are named there [1]."""


def unknown_chapter(found: Findings) -> Iterator[Section]:
    """One box: what has no price, no power, no high, no error bar; what nobody asked for."""
    yield Heading("Not priced, not known", (), "unknown")
    yield Notes(tuple(_open(found)))


def _open(found: Findings) -> Iterator[tuple[str, str]]:
    """Open ends by subject."""
    bill = found.chosen
    lines = bill.quote.unpriced
    if lines:
        yield "No price", f"{'; '.join(unpriced_words(lines))}: not in any sum (≥)."
    else:
        yield "No price", "every line of the order has one."
    total = bill.capital.base or 1.0
    bare = [driver for driver in bill.drivers if driver.stated != BOTH_ENDS]
    large = [one for one in bare if one.amount / total >= LEAST_SHARE]
    if bare:
        told = [f"{part_words(one.part)} ({one.stated})" for one in large]
        told += [f"{counted(len(bare) - len(large), 'small part')}"] * (len(bare) > len(large))
        said = "at base where no end is stated, so the true range is wider."
        yield "No range", f"{listed(told)}: {said}"
    if bill.draw.unknown:
        parts = listed([f"{line.quantity:,} x {line.title}" for line in bill.draw.unknown])
        yield "No power", f"{parts}: not in the kW."
    if found.timed and not any(best.error for best in found.timed.values()):
        model = found.inputs["iteration_model"]
        within = PERCENT * found.inputs["within"]
        yield (
            "No error bars",
            f"of iteration model {model}: times within {within:g} % count as equal.",
        )
    elif not found.timed and not found.serves:
        yield "Not timed", "no iteration time was searched, so speed decides nothing here."
    if found.faults is None:
        yield (
            "Not simulated",
            "years of failures: the rates below are means of a book (--faults simulates them).",
        )
    subject, _, said = order_lead_time(found).partition(": ")
    yield subject, said
    yield "Not on the bill", f"{'; '.join(found.cost.left_out)}."


def unpriced_words(lines: Sequence[BillItem]) -> Iterator[str]:
    """Lines without a price, each in a few words; fibre of all lengths and networks in one.

    Examples
    --------
    >>> def fibre(metres, count):
    ...     return BillItem("cables", f"Multimode fibre cable, {metres} m", "", count, "each",
    ...                     "fibre", 400.0)
    >>> rack = BillItem("racks", "Rack of 42 units", "", 2, "each", "rack", 400.0)
    >>> list(unpriced_words([fibre(15, 1024), fibre(30, 1024), rack]))
    ['2,048 fibre cables of 2 lengths', '2 x Rack of 42 units']
    """
    fibres = [line for line in lines if line.part == "fibre"]
    if fibres:
        number = sum(line.order for line in fibres)
        lengths = len({line.item for line in fibres})
        yield f"{counted(number, 'fibre cable')} of {counted(lengths, 'length')}"
    others: Counter[str] = Counter()
    for line in lines:
        if line.part != "fibre":
            others[line.item] += line.order
    yield from (f"{number:,} x {title}" for title, number in others.items())


class Largest(NamedTuple):
    """A part of the order by its share of the price; the bill counts what is ordered."""

    part: str
    ordered: int
    units: int
    each: float
    share: float
    trust: str
    price: Price


def largest_prices(found: Findings) -> list[Largest]:
    """Priced parts of the order, the largest share of the price first."""
    bill = found.chosen
    total = bill.capital.base or 1.0
    parts: dict[str, Largest] = {}
    for item in bill.quote.items:
        if item.price is None:
            continue
        share = item.total.base / total
        old = parts.get(item.price.what)
        ordered = item.line.order + (old.ordered if old else 0)
        units = item.units + (old.units if old else 0)
        share += old.share if old else 0.0
        named = part_words(item.price.what)
        parts[item.price.what] = Largest(
            named, ordered, units, item.offer.base, share, item.trust, item.price
        )
    return sorted(parts.values(), key=lambda one: -one.share)


PRICED_UNITS = (
    "Ordered counts as the bill does. A price may be of less: of one port of a switch, or of one"
    " link end of a module that has two."
)
"""Why more units have a price than are ordered."""


def trust_chapter(found: Findings) -> Iterator[Section]:
    """The largest prices with their sources, and how much of the sum rests on what."""
    yield Heading("Where the largest prices are from", (), "trust")
    rows = largest_prices(found)
    if not rows:
        yield Paragraph("No part of the order has a price.")
        return
    columns = [
        told_column("Part", get="part"),
        told_column("ordered", get="ordered", form="count"),
        told_column("priced units", "units", "units", form="count"),
        told_column(f"{found.cost.currency} each", "each", form="count"),
        told_column("of price", "share", form="percent"),
        told_column("Trust", get="trust"),
        told_column("Date", get="price.date"),
        SOURCE_OF_PRICE,
    ]
    shown = rows[:LARGEST_PRICES]
    unlike = any(row.ordered != row.units for row in shown)
    legend = (PRICED_UNITS,) if unlike else ()
    yield Table("largest prices", columns, shown, legend=legend, only="people")
    yield Paragraph(_resting(rows), "quiet")


def first_sources(text: str) -> str:
    """The first sources of a price, and how many more there are.

    Examples
    --------
    >>> first_sources("a paper; a shop"), first_sources("a paper; a shop; another; a list")
    ('a paper; a shop', 'a paper; a shop; and 2 more')
    """
    named = text.split("; ")
    more = len(named) - SOURCES_NAMED
    return "; ".join([*named[:SOURCES_NAMED], *([f"and {more} more"] if more > 0 else [])])


SOURCE_OF_PRICE = told_column(
    "Source", "source", lambda row: first_sources(row.price.source), form="prose"
)


def _resting(rows: Sequence[Largest]) -> str:
    """How much of the sum rests on how many sources."""
    shares: dict[str, float] = {}
    for row in rows:
        shares[row.trust] = shares.get(row.trust, 0.0) + row.share
    ranked = sorted(shares.items(), key=lambda pair: -pair[1])
    told = [
        f"{PERCENT * share:.0f} % {KNOWN_AS.get(trust, f'rests on {trust}')}"
        for trust, share in ranked
        if share >= LEAST_SHARE / 2
    ]
    return f"Of the priced sum {listed(told)}. All prices stand under Sources."


KNOWN_AS = {
    DERIVED: "is derived from other prices",
    ASSUMPTION: "is assumed",
    OWN_FIGURE: "is a figure of the book between its sources",
}
"""What is said of prices that no source states as they are."""

"""What a procurement report knows and what it does not: open ends in one box, trust of prices.

Fibre stands in one line, whatever lengths it has; lead times and failures are told even where
nobody has said anything about them.

Where the numbers of a procurement report are from: assumptions, inputs, prices, files.

What fails on the ordered network, and how long a new part takes, in plain words.

Means of a failure book for the parts of the bill, in closed form: every answer has them. Years
that are simulated, and what failures do to training, come with ``--faults``.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup
from msgspec import Struct

from netplan.answers.cost_answer import BOTH_ENDS
from netplan.costing.cabling import CablingBook
from netplan.costing.fabric_bill import wiring_of
from netplan.costing.lifetime import EconomicsBook
from netplan.costing.materials import BillItem
from netplan.costing.prices import ASSUMPTION, DERIVED, OWN_FIGURE, Price, PriceBook
from netplan.costing.ranges import Range
from netplan.costing.switches import SwitchModel
from netplan.costing.wiring import Wiring
from netplan.errors import InputError
from netplan.faults.years.rates import FailureBook, FailureRate, Unit, host_links_each, unit_counts
from netplan.procurement.findings import Findings, told_column
from netplan.records import replace
from netplan.reports.quantities import DASH, listed, part_words
from netplan.reports.sections import Heading, Inset, Notes, Paragraph, Section, Table
from netplan.setup.money.pricing import CASES, prices_in_use
from netplan.topologies.fabric import Fabric
from netplan.units import DAYS_PER_WEEK, HOURS_PER_DAY, PERCENT, counted

if TYPE_CHECKING:
    from netplan.answers.faults_answer import FaultsAnswer


def assumptions_chapter(answer: Findings) -> Iterator[Section]:
    """Notes of the fabrics and of the books; the question, one row an input."""
    yield Heading("Assumptions", (), "assumptions")
    notes = Notes.of(((bill.name, bill.notes) for bill in answer.cost.bills), "All fabrics")
    books = answer.library
    known = (
        ("Prices", books.first(PriceBook)),
        ("Cabling", books.first(CablingBook)),
        ("Economics", books.first(EconomicsBook)),
    )
    book_notes = [(f"{title} {book.name}", note) for title, book in known for note in book.notes]
    ends = "All prices at their low and all at their high together; real offers vary less."
    yield Notes((*notes.groups, *book_notes, ("Low and high", ends)))
    inputs = {key.replace("_", " "): value for key, value in answer.inputs.items()}
    del inputs["running"]
    inputs |= {f"set {key}": value for key, value in inputs.pop("set").items()}
    rows = [(key, _value(value)) for key, value in inputs.items()]
    told_as = [told_column("Input", get="0"), told_column("Value", get="1", form="prose")]
    yield Table("inputs", told_as, rows, shown="data")
    # On paper two beside each other are half as long.
    half = -(-len(rows) // 2)
    pairs = [
        (*left, *right) for left, right in zip_longest(rows[:half], rows[half:], fillvalue=("", ""))
    ]
    more = [told_column("Input ", get="2"), told_column("Value ", get="3", form="prose")]
    yield Table("inputs", [*told_as, *more], pairs, shown="people")
    hashed = "<details><summary>Inputs as they are hashed</summary><pre>{}</pre></details>"
    made = Markup(hashed).format(answer.canonical_inputs)  # noqa: S704 - formatted, escaped
    yield Inset("", lambda: made)


def sources_chapter(answer: Findings) -> Iterator[Section]:
    """Where the numbers come from: every price, rate, estimate and file, with its date."""
    yield Heading("Sources", (), "sources")
    yield _prices(answer)
    yield from _rates(answer)
    book, inputs = answer.library.first(EconomicsBook), answer.cost.inputs
    opex, by_kind = inputs["running"], {str(k): pue for k, pue in book.pue_by_cooling.items()}
    pue = by_kind.get(inputs["cooled_by"] or "", book.pue)  # by what cools, where that is said
    values = [("Years of use", *[str(inputs["years"])] * 3, book.date, book.years_source)]
    for key, name, estimate in (
        ("pue", "PUE, facility over equipment power", pue),
        ("tariff_per_kwh", "Price of one kWh", book.tariff),
        ("interest", "Interest a year", book.interest),
        ("cooling", "Cooling, its energy over equipment's", book.cooling),
        ("maintenance", "Maintenance a year, of the price", book.maintenance),
        ("support", "Support a year, of the price", book.support),
        ("yearly_spares", "Parts used up a year, of the price", book.spares),
        ("carbon_kg_per_kwh", f"Carbon of a kWh, kg CO2e, of {inputs['grid']}", book.carbon),
    ):
        low, base, high = (f"{opex[key][case]:.4g}" for case in CASES)
        origin = (estimate.date, estimate.source) if estimate else ("", "not in the book: 0")
        values.append((name, low, base, high, *origin))
    columns = [
        told_column("Value", "name", "0"),
        *(told_column(case, get=str(key), form="code") for key, case in enumerate(CASES, start=1)),
        told_column("Date", get="4"),
        told_column("Source in the book", "source", "5", form="prose"),
    ]
    legend = "A value given with the question replaces that of the book."
    yield Table("running values", columns, values, title="Running cost", legend=(legend,))
    files = [
        told_column("Kind", get=lambda row: row[0].replace("-", " ")),
        told_column("Name", get="1.name"),
        told_column("Title", get="1.title", form="prose"),
        told_column("Date", get="1.date"),
        told_column("Source", get="1.source", form="prose"),
    ]
    yield Table("files", files, answer.library.records, title="Files")


def _prices(answer: Findings) -> Table[Any]:
    """Every price in use, in the report's currency, with its source and the fabrics that use it."""
    rows = [
        (part_words(part), price, offer, ", ".join(users))
        for (part, offer), (price, users) in prices_in_use(answer.cost.bills).items()
    ]
    low = f"low, {answer.cost.currency}"
    columns = [
        told_column("Part", get="0", form="prose"),
        told_column("Unit", get=lambda row: row[1].unit.partition("/")[2]),
        told_column(low, "low", lambda row: _amount(row[2].low, row[2].base), form="code"),
        told_column("base", get=lambda row: _amount(row[2].base), form="code"),
        told_column("high", get=lambda row: _amount(row[2].high, row[2].base), form="code"),
        told_column("Date", get="1.date"),
        told_column("Confidence", get="1.confidence"),
        told_column("Trust", get="1.trust"),
        told_column("Source", get="1.source", form="prose"),
        told_column("Used by", "used_by", "3", form="prose"),
    ]
    less = f" and a discount of {off:g} %" if (off := 100 * answer.inputs["discount"]) else ""
    legend = f"In {answer.cost.currency}, with quantity breaks{less} applied."
    return Table("prices", columns, rows, title="Prices in use", legend=(legend,))


def _rates(answer: Findings) -> Iterator[Section]:
    """Exchange rates of the price book, where the report needs any."""
    book, money = answer.library.first(PriceBook), answer.cost.currency
    named = {price.currency for price in book.prices} | {book.currency, money}
    rates = book.rates.items() if len(named) > 1 else ()
    rows = [(currency, rate) for currency, rate in rates if currency in named]
    columns = [
        told_column("Rate", get=lambda row: f"1 USD in {row[0]}"),
        told_column("value", get="1.per_usd", form="general", digits=6),
        told_column("Date", get="1.date"),
        told_column("Source", get="1.source", form="prose"),
    ]
    yield Table("rates", columns, rows, title="Exchange rates")


def _value(value: object) -> str:
    """One input for people."""
    if value is None or value in ([], ""):
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(part) for part in value)
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _amount(value: float, base: float | None = None) -> str | None:  # None: no such end is stated
    text = f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"
    return None if value == base else text


NETWORK_PARTS = ("nic", "link", "transceiver", "switch", "circuit-switch")


class Risk(Struct, frozen=True):
    """One kind of part that fails.

    Parameters
    ----------
    part
        In words.
    units
        Of it in the network [1].
    per_year
        Failures of all of them in a year [1/year].
    ports_lost
        GPUs that lose a network port if one fails [1].
    repair_h, lead_h
        Until it works again with a spare at hand; until a new one is there [h].
    """

    part: str
    units: int
    per_year: Range
    ports_lost: int
    repair_h: Range
    lead_h: Range


def network_risks(fabric: Fabric, book: FailureBook, wiring: Wiring) -> list[Risk]:
    """Parts of the network that fail, those whose failure takes most ports first.

    Modules and cables are those of the bill.

    Examples
    --------
    1,024 GPUs on 16 leaf switches of 64 ports: each takes the port of 64.

    >>> from netplan import Scenario
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.costing.wiring import Hardware, wire
    >>> from netplan.faults.years.rates import FAILURE_BOOKS
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=64, hb_size=256)
    >>> fabric = scenario.fabric("rail-only").counts
    >>> wiring = wire(fabric, Hardware(CABLING_BOOKS.load("2026")))
    >>> first = network_risks(fabric, FAILURE_BOOKS.load("2026"), wiring)[0]
    >>> first.part, first.units, first.ports_lost
    ('Leaf switch', 16, 64)
    """
    units, per_link = unit_counts(fabric, wiring), host_links_each(fabric, wiring)
    rows = [row for row in book.placed(fabric.sizing.hb_size).rates if row.kind in NETWORK_PARTS]
    risks = [
        Risk(
            row.cause,
            row.count_in(units),
            row.count_in(units) * row.rate_per_year,
            _ports_lost(row, units, per_link),
            book.repair_h(row.kind),
            book.lead_h(row.kind),
        )
        for row in rows
    ]
    known = [risk for risk in risks if risk.units]
    return sorted(known, key=lambda risk: (-risk.ports_lost, -risk.per_year.base))


def _ports_lost(row: FailureRate, units: dict[Unit, int], per_link: dict[Unit, float]) -> int:
    """GPUs whose port goes with one unit: all below a leaf, one behind a card or host link."""
    if row.unit == "leaf_switch":
        return ceil(units["host_link"] / units["leaf_switch"]) if units["leaf_switch"] else 0
    if row.unit == "nic_port":
        return 1
    return ceil(per_link.get(row.unit, 0.0))


def risks_chapter(findings: Findings) -> Iterator[Section]:
    """The weakest part of the ordered network, all that fails of it, and lead times."""
    name = findings.chosen.name
    yield Heading(f"What fails, and lead times: {name}", (), "risks")
    rows = _risks(findings)
    if not rows:
        yield Paragraph("Not known: no failure book with rates for the parts of this network.")
        return
    yield Paragraph(_weakest(findings, rows))
    columns = [
        told_column("Part", get="part"),
        told_column("units", get="units", form="count"),
        told_column("fail in a year", "per_year", lambda row: _span(row.per_year), form="code"),
        told_column("GPUs that lose a port", "ports_lost", "ports_lost", form="count"),
        told_column("repair, h", "repair_h", lambda row: _span(row.repair_h), form="code"),
        told_column("new part, weeks", "lead_weeks", _weeks, form="code"),
    ]
    yield Table("network parts that fail", columns, rows)
    book = findings.failures.name if findings.failures else ""
    yield Paragraph(
        f"Means of failure book {book}, low to high in brackets; weeks are those of single parts,"
        f" many of them assumed. {order_lead_time(findings)}",
        "quiet",
    )


def _risks(findings: Findings) -> list[Risk]:
    """Parts of the ordered network that fail; none without rates."""
    if findings.failures is None or findings.books is None:
        return []
    fabric = findings.chosen.fabric
    try:
        wiring = wiring_of(findings.chosen_spec, fabric.sizing, fabric, findings.books)
        return network_risks(fabric, findings.failures, wiring)
    except InputError:  # a book without rates
        return []


def _weakest(findings: Findings, rows: Sequence[Risk]) -> str:
    """The part whose failure takes most, and the one that fails most often."""
    fabric, first = findings.chosen.fabric, rows[0]
    most = max(rows, key=lambda row: row.per_year.base)
    several = fabric.ports_per_gpu > 1
    if first.ports_lost > 1:
        left = (
            "which go on over their other ports"
            if several
            else "whose job stops until it is repaired or moved"
        )
        text = (
            f"Weakest part: {_named(first)}. One that fails takes a port from"
            f" {first.ports_lost:,} GPUs, {left}; of {first.units:,},"
            f" {_number(first.per_year.base)} fail in a year."
        )
    else:
        text = f"Weakest part: {_named(first)}; no single failure takes more than one GPU's port."
    often = (
        f" Fails most often: {_named(most)}, {_number(most.per_year.base)} of {most.units:,} a"
        " year."
    )
    return text + (often if most is not first else "")


def _named(risk: Risk) -> str:
    return f"{risk.part[0].lower()}{risk.part[1:]}" if risk.part[1:2].islower() else risk.part


def order_lead_time(findings: Findings) -> str:
    """What makers say of delivery, and that nobody has where that is so."""
    bought = {item.line.model for item in findings.chosen.quote.items}
    models = [model for model in findings.library.all(SwitchModel) if model.name in bought]
    stated = [
        f"{model.name} {model.lead_time_weeks:g} weeks"
        if model.lead_time_weeks
        else f"none for {model.name} ({model.evidence or 'delivery not stated'})"
        for model in models
    ]
    makers = f"stated by makers: {', '.join(stated)}" if stated else "no source states one"
    return f"Lead time of the order: {makers}; ask for weeks in every offer."


def _weeks(row: Risk) -> str:
    if not row.lead_h.base:
        return "not known"
    return _span((1 / (HOURS_PER_DAY * DAYS_PER_WEEK)) * row.lead_h)


def _span(amount: Range) -> str:
    """Base, with low and high in brackets where they differ."""
    if not amount.base and not amount.spread:
        return "not known"
    ends = f" ({_number(amount.low)} to {_number(amount.high)})" if amount.spread else ""
    return f"{_number(amount.base)}{ends}"


def _number(value: float) -> str:
    """Two digits that count."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"  # noqa: PLR2004 - two digits


def faults_chapter(findings: Findings) -> Iterator[Section]:
    """What breaks, as the question about failures answers it."""
    if findings.faults is None:
        return
    yield Heading("What breaks, and what it costs", PLAIN, "faults")
    if not (findings.serves or findings.post_trains):
        yield from (Paragraph(text) for text in _year_words(findings.faults, findings.chosen.name))
    for section in findings.faults.sections():
        if isinstance(section, Heading):
            yield from (Paragraph(line, "quiet") for line in (section.title, *section.lines))
        elif isinstance(section, Table):
            # The report has tables of the same names, of other rows.
            yield replace(section, name=f"faults: {section.name}")
        else:
            yield section


def _year_words(faults: "FaultsAnswer", name: str) -> Iterator[str]:
    """A year on the ordered network in words."""
    for fabric in faults.fabrics:
        if fabric.name != name:
            continue
        years, counts = fabric.forecast, PERCENT * fabric.forecast.effective_time_ratio
        yield (
            f"On {name} a job on all GPUs stops about {years.interruptions_per_year:,.0f} times a"
            f" year ({years.interruptions_low:,.0f} to {years.interruptions_high:,.0f} in 95 of 100"
            f" years), every {years.mtbf_h:,.0f} hours; the network itself causes"
            f" {years.network_interruptions_per_year:,.0f} of the stops, GPUs, servers and software"
            f" the others. Of the time {counts:.1f} % counts, the rest goes into checkpoints, lost"
            " work and restarts; slower days while parts are down leave"
            f" {PERCENT * years.goodput:.1f} % of the work, {PERCENT * years.goodput_low:.0f} to"
            f" {PERCENT * years.goodput_high:.0f} % as published clusters differ. In the"
            f" mean {years.domains_down:.2g} HB domains are down at any moment: keep"
            f" {years.idle_domains_needed:,} idle to have one when it is needed."
        )


PLAIN = (
    (
        "A job stops when a part fails that it cannot do without, and starts again from its last"
        " checkpoint. The tables say how often that happens, how much of the time it takes, and"
        " which spare parts keep the wait short."
    ),
)
"""What the section on failures is about, for who has never read one."""


LEAST_SHARE = 0.01
"""Share of the price from which on a part is named [1]."""
LARGEST_PRICES = 4
"""Parts whose price and source stand on the first page [1]."""
SOURCES_NAMED = 2
"""Sources of each of them that are named there [1]."""


def unknown_chapter(findings: Findings) -> Iterator[Section]:
    """One box: what has no price, no power, no high, no error bar; what nobody asked for."""
    yield Heading("Not priced, not known", (), "unknown")
    yield Notes(tuple(_open(findings)))


def _open(findings: Findings) -> Iterator[tuple[str, str]]:
    """Open ends by subject."""
    bill = findings.chosen
    lines = bill.quote.unpriced
    if lines:
        yield "No price", f"{'; '.join(unpriced_lines(lines))}: not in any sum (≥)."
    else:
        yield "No price", "every line of the order has one."
    total = bill.capital.base or 1.0
    bare = [driver for driver in bill.drivers if driver.stated != BOTH_ENDS]
    large = [driver for driver in bare if driver.amount / total >= LEAST_SHARE]
    if bare:
        parts_named = [f"{part_words(driver.part)} ({driver.stated})" for driver in large]
        parts_named += [f"{counted(len(bare) - len(large), 'small part')}"] * (
            len(bare) > len(large)
        )
        text = "at base where no end is stated, so the true range is wider."
        yield "No range", f"{listed(parts_named)}: {text}"
    if bill.draw.unknown:
        parts = listed([f"{line.quantity:,} x {line.title}" for line in bill.draw.unknown])
        yield "No power", f"{parts}: not in the kW."
    if findings.timed and not any(best.error for best in findings.timed.values()):
        model = findings.inputs["iteration_model"]
        within = PERCENT * findings.inputs["within"]
        yield (
            "No error bars",
            f"of iteration model {model}: times within {within:g} % count as equal.",
        )
    elif not (findings.timed or findings.serves or findings.reinforces):
        yield "Not timed", "no iteration time was searched, so speed decides nothing here."
    if findings.faults is None:
        yield (
            "Not simulated",
            "years of failures: the rates below are means of a book (--faults simulates them).",
        )
    subject, _, text = order_lead_time(findings).partition(": ")
    yield subject, text
    yield "Not on the bill", f"{'; '.join(findings.cost.left_out)}."


def unpriced_lines(lines: Sequence[BillItem]) -> Iterator[str]:
    """Lines without a price, each in a few words; fibre of all lengths and networks in one.

    Examples
    --------
    >>> def fibre(metres, count):
    ...     return BillItem("cables", f"Multimode fibre cable, {metres} m", "", count, "each",
    ...                     "fibre", 400.0)
    >>> rack = BillItem("racks", "Rack of 42 units", "", 2, "each", "rack", 400.0)
    >>> list(unpriced_lines([fibre(15, 1024), fibre(30, 1024), rack]))
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


def largest_prices(findings: Findings) -> list[Largest]:
    """Priced parts of the order, the largest share of the price first."""
    bill = findings.chosen
    total = bill.capital.base or 1.0
    parts: dict[str, Largest] = {}
    for item in bill.quote.items:
        if item.price is None:
            continue
        share = item.total.base / total
        old = parts.get(item.what)
        ordered = item.line.order + (old.ordered if old else 0)
        units = item.units + (old.units if old else 0)
        share += old.share if old else 0.0
        named = part_words(item.what)
        parts[item.what] = Largest(
            named, ordered, units, item.offer.base, share, item.trust, item.price
        )
    return sorted(parts.values(), key=lambda part: -part.share)


PRICED_UNITS = (
    "Ordered counts as the bill does. A price may be of less: of one port of a switch, or of one"
    " link end of a module that has two."
)
"""Why more units have a price than are ordered."""


def trust_chapter(findings: Findings) -> Iterator[Section]:
    """The largest prices with their sources, and how much of the sum rests on what."""
    yield Heading("Where the largest prices are from", (), "trust")
    rows = largest_prices(findings)
    if not rows:
        yield Paragraph("No part of the order has a price.")
        return
    columns = [
        told_column("Part", get="part"),
        told_column("ordered", get="ordered", form="count"),
        told_column("priced units", "units", "units", form="count"),
        told_column(f"{findings.cost.currency} each", "each", form="count"),
        told_column("of price", "share", form="percent"),
        told_column("Trust", get="trust"),
        told_column("Date", get="price.date"),
        SOURCE_OF_PRICE,
    ]
    shown = rows[:LARGEST_PRICES]
    unlike = any(row.ordered != row.units for row in shown)
    legend = (PRICED_UNITS,) if unlike else ()
    yield Table("largest prices", columns, shown, legend=legend, shown="people")
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
    phrases = [
        f"{PERCENT * share:.0f} % {KNOWN_AS.get(trust, f'rests on {trust}')}"
        for trust, share in ranked
        if share >= LEAST_SHARE / 2
    ]
    return f"Of the priced sum {listed(phrases)}. All prices stand under Sources."


KNOWN_AS = {
    DERIVED: "is derived from other prices",
    ASSUMPTION: "is assumed",
    OWN_FIGURE: "is a figure of the book between its sources",
}
"""What is said of prices that no source states as they are."""

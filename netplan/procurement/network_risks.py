"""What fails on the ordered network, and how long a new part takes, in plain words.

Means of a failure book for the parts of the bill, in closed form: every answer has them. Years
that are simulated, and what failures do to training, come with ``--faults``.
"""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING

from msgspec import Struct

from netplan.costing.cabling import CablingBook
from netplan.costing.ranges import Range
from netplan.costing.switches import SwitchModel
from netplan.costing.wiring import Hardware, wire
from netplan.errors import InputError
from netplan.faults.years.rates import FailureBook, FailureRate, Unit, host_links_each, unit_counts
from netplan.procurement.findings import Findings, told_column
from netplan.records import replace
from netplan.reports.sections import Heading, Paragraph, Section, Table
from netplan.topologies.fabric import Fabric
from netplan.units import DAYS_PER_WEEK, HOURS_PER_DAY, PERCENT

if TYPE_CHECKING:
    from netplan.questions.answers.faults_answer import FaultsAnswer

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


def network_risks(fabric: Fabric, book: FailureBook, hardware: Hardware) -> list[Risk]:
    """Parts of the network that fail, those whose failure takes most ports first.

    Examples
    --------
    1,024 GPUs on 16 leaf switches of 64 ports: each takes the port of 64.

    >>> from netplan import Scenario
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.faults.years.rates import FAILURE_BOOKS
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=64, hb_size=256)
    >>> fabric = scenario.fabric("rail-only").counts
    >>> hardware = Hardware(CABLING_BOOKS.load("2026"))
    >>> first = network_risks(fabric, FAILURE_BOOKS.load("2026"), hardware)[0]
    >>> first.part, first.units, first.ports_lost
    ('Leaf switch', 16, 64)
    """
    wiring = wire(fabric, hardware)
    units, each = unit_counts(fabric, wiring), host_links_each(fabric, wiring)
    rows = [row for row in book.placed(fabric.sizing.hb_size).rates if row.kind in NETWORK_PARTS]
    found = [
        Risk(
            row.cause,
            row.count_in(units),
            row.count_in(units) * row.rate_per_year,
            _ports_lost(row, units, each),
            book.repair_h(row.kind),
            book.lead_h(row.kind),
        )
        for row in rows
    ]
    known = [one for one in found if one.units]
    return sorted(known, key=lambda one: (-one.ports_lost, -one.per_year.base))


def _ports_lost(row: FailureRate, units: dict[Unit, int], each: dict[Unit, float]) -> int:
    """GPUs whose port goes with one unit: all below a leaf, one behind a card or host link."""
    if row.unit == "leaf_switch":
        return ceil(units["host_link"] / units["leaf_switch"]) if units["leaf_switch"] else 0
    if row.unit == "nic_port":
        return 1
    return ceil(each.get(row.unit, 0.0))


def risks_chapter(found: Findings) -> Iterator[Section]:
    """The weakest part of the ordered network, all that fails of it, and lead times."""
    name = found.chosen.name
    yield Heading(f"What fails, and lead times: {name}", (), "risks")
    rows = _risks(found)
    if not rows:
        yield Paragraph("Not known: no failure book with rates for the parts of this network.")
        return
    yield Paragraph(_weakest(found, rows))
    columns = [
        told_column("Part", get="part"),
        told_column("units", get="units", form="count"),
        told_column("fail in a year", "per_year", lambda row: _span(row.per_year), form="code"),
        told_column("GPUs that lose a port", "ports_lost", "ports_lost", form="count"),
        told_column("repair, h", "repair_h", lambda row: _span(row.repair_h), form="code"),
        told_column("new part, weeks", "lead_weeks", _weeks, form="code"),
    ]
    yield Table("network parts that fail", columns, rows)
    yield Paragraph(_lead_times(found), "quiet")


def _risks(found: Findings) -> list[Risk]:
    """Parts of the ordered network that fail; none without rates."""
    if found.failures is None:
        return []
    named = found.inputs["switch"]
    models = [one for one in found.library.all(SwitchModel) if one.name == named]
    hardware = Hardware(found.library.one(CablingBook), models[0] if models else None)
    try:
        return network_risks(found.chosen.fabric, found.failures, hardware)
    except InputError:  # a book without rates
        return []


def _weakest(found: Findings, rows: Sequence[Risk]) -> str:
    """The part whose failure takes most, and the one that fails most often."""
    fabric, first = found.chosen.fabric, rows[0]
    most = max(rows, key=lambda row: row.per_year.base)
    several = fabric.ports_per_gpu > 1
    if first.ports_lost > 1:
        left = (
            "which go on over their other ports"
            if several
            else "whose job stops until it is repaired or moved"
        )
        said = (
            f"Weakest part: {_named(first)}. One that fails takes a port from"
            f" {first.ports_lost:,} GPUs, {left}; of {first.units:,},"
            f" {_number(first.per_year.base)} fail in a year."
        )
    else:
        said = f"Weakest part: {_named(first)}; no single failure takes more than one GPU's port."
    often = (
        f" Fails most often: {_named(most)}, {_number(most.per_year.base)} of {most.units:,} a"
        " year."
    )
    return said + (often if most is not first else "")


def _named(one: Risk) -> str:
    return f"{one.part[0].lower()}{one.part[1:]}" if one.part[1:2].islower() else one.part


def _lead_times(found: Findings) -> str:
    """Where the numbers are from."""
    book = found.failures.name if found.failures else ""
    return (
        f"Means of failure book {book}, low to high in brackets; weeks are those of single parts,"
        f" many of them assumed. {order_lead_time(found)}"
    )


def order_lead_time(found: Findings) -> str:
    """What makers say of delivery, and that nobody has where that is so."""
    bought = {item.line.model for item in found.chosen.quote.items}
    models = [one for one in found.library.all(SwitchModel) if one.name in bought]
    told = [
        f"{one.name} {one.lead_time_weeks:g} weeks"
        if one.lead_time_weeks
        else f"none for {one.name} ({one.delivery or 'delivery not stated'})"
        for one in models
    ]
    makers = f"stated by makers: {', '.join(told)}" if told else "no source states one"
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


def faults_chapter(found: Findings) -> Iterator[Section]:
    """What breaks, as the question about failures answers it."""
    if found.faults is None:
        return
    yield Heading("What breaks, and what it costs", PLAIN, "faults")
    if not found.serves:
        yield from (Paragraph(text) for text in _plain(found.faults, found.chosen.name))
    for section in found.faults.sections():
        if isinstance(section, Heading):
            yield from (Paragraph(line, "quiet") for line in (section.title, *section.lines))
        elif isinstance(section, Table):
            # The report has tables of the same names, of other rows.
            yield replace(section, name=f"faults: {section.name}")
        else:
            yield section


def _plain(faults: "FaultsAnswer", name: str) -> Iterator[str]:
    """A year on the ordered network in words."""
    for one in faults.fabrics:
        if one.name != name:
            continue
        years, counts = one.forecast, PERCENT * one.forecast.effective_time_ratio
        yield (
            f"On {name} a job on all GPUs stops about {years.interruptions_per_year:,.0f} times a"
            f" year ({years.interruptions_low:,.0f} to {years.interruptions_high:,.0f} in 95 of 100"
            f" years), every {years.mtbf_h:,.0f} hours; the network itself causes"
            f" {years.network_interruptions_per_year:,.0f} of the stops, GPUs, servers and software"
            f" the others. Of the time {counts:.1f} % counts, the rest goes into checkpoints, lost"
            " work and restarts; slower days while parts are down leave"
            f" {PERCENT * years.goodput:.1f} % of the work. In the mean {years.domains_down:.2g} HB"
            f" domains are down at any moment: keep {years.idle_domains_needed:,} idle to have one"
            " when it is needed."
        )


PLAIN = (
    (
        "A job stops when a part fails that it cannot do without, and starts again from its last"
        " checkpoint. The tables say how often that happens, how much of the time it takes, and"
        " which spare parts keep the wait short."
    ),
)
"""What the section on failures is about, for who has never read one."""

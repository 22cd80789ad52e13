"""What a procurement report orders: the bill, the fabric drawn, its racks and cable lengths.

Chapters of a procurement report that are there where the question asks for them.

Error bars (``--iteration-model calibrated``), one simulated iteration (``--simulate``), servers
(``--workload serving``) and memory tiers (``--expanded-memory``): each as the command of its own
answers it, for the fabric that is shown in full.
"""

from collections.abc import Iterator
from functools import partial
from itertools import groupby

from netplan.answers.cost_answer import bill_table, inside_words
from netplan.answers.memory_answer import MemoryAnswer
from netplan.costing.cabling import CablingBook
from netplan.costing.elevations import RackKind
from netplan.costing.lifetime import WATTS_PER_KILOWATT
from netplan.costing.materials import BillItem, SwitchRacks
from netplan.inputs.choices import AS_PUBLISHED
from netplan.performance.error_bars import bar_note
from netplan.performance.plan import PlanTime
from netplan.procurement.findings import SOURCE, Findings, told_column
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.quantities import Scale
from netplan.reports.sections import Bars, Column, Heading, Inset, Paragraph, Section, Table, column
from netplan.setup.money.run_cost import LEGEND, token_columns
from netplan.setup.money.step_cost import LEGEND as STEP_LEGEND
from netplan.setup.money.step_cost import step_columns
from netplan.setup.served_plan import serving_words
from netplan.topologies.drawings.layers import fabric_drawing
from netplan.topologies.drawings.racks import Elevation, Slot, elevation_drawing, hall_drawing
from netplan.units import counted

CLOCKS = (" ms)", " s)", "µs)")
"""Ends of what an answer says about the time it took: a report has the same bytes every time."""


def errors_chapter(findings: Findings) -> Iterator[Section]:
    """Low and high end of every iteration time, and what they rest on."""
    rows = [(name, best) for name, best in findings.timed.items() if best.error]
    if not rows:
        return
    yield Heading("How sure the times are", (), "errors")
    columns: list[Column[tuple[str, PlanTime]]] = [
        column("fabric", "0"),
        column("iteration_time_s", "1.iteration_time_s"),
        column("iteration_time_low_s", lambda row: row[1].known_bar["iteration_time_low_s"]),
        column("iteration_time_high_s", lambda row: row[1].known_bar["iteration_time_high_s"]),
        column("error_basis", lambda row: row[1].known_bar["error_basis"]),
    ]
    yield Table("error bars", columns, rows)
    yield from (Paragraph(sentence, "quiet") for sentence in bar_note(rows[0][1].error))


def simulation_chapter(findings: Findings) -> Iterator[Section]:
    """One iteration, or one round of servers, event by event."""
    if findings.simulation is None:
        return
    yield Heading(f"One iteration, event by event: {findings.chosen.name}", (), "simulation")
    yield from within("simulation", findings.simulation)


def serving_chapter(findings: Findings) -> Iterator[Section]:
    """What a million tokens cost on each fabric, and how the chosen one serves; or a step."""
    if findings.reinforces:
        yield from _step(findings)
    if not findings.serves:
        return
    yield Heading("Serving", (f"{serving_words(findings.inputs)}.",), "serving")
    shown = [column("fabric"), *token_columns(findings.cost.currency)]
    chosen = findings.recommendation.fabric
    yield Table(
        "tokens",
        shown,
        findings.cost.served,
        "What a million tokens cost",
        (LEGEND,),
        chosen=lambda row: row.fabric == chosen,
    )
    if findings.serving is not None:
        yield from within("serving", findings.serving)


def _step(findings: Findings) -> Iterator[Section]:
    """What a step of post-training takes and costs on each fabric, and its phases on the chosen."""
    from netplan.answers.post_training_words import step_inputs_words

    yield Heading("The step", (f"{step_inputs_words(findings.inputs)}.",), "step")
    best = findings.chosen.name
    rows = [row for row in findings.comparison.rows if row.stepped]
    yield Table(
        "steps",
        [column("fabric", "name"), *step_columns(findings.comparison.currency)],
        rows,
        "What a step and a run cost",
        (STEP_LEGEND, "The bill's share is that of the order without spares."),
        chosen=lambda row: row.name == best,
    )
    for name, stepped in findings.stepped.items():
        if name == best:
            yield Paragraph(stepped.price.words)
    if findings.step is not None:
        yield from within("step", findings.step)


def memory_chapter(findings: Findings) -> Iterator[Section]:
    """What lies in which memory of a GPU, and what that costs."""
    timed, chip = findings.row(findings.chosen.name).timed, findings.chip
    if timed is None or chip is None or not chip.expanded_bytes:
        return
    yield Heading(f"Memory of a GPU: {findings.chosen.name}", (), "memory")
    yield from MemoryAnswer.of(timed, chip).sections()
    priced = findings.chosen.memory
    if priced.base:
        yield Paragraph(
            f"The expanded memory costs {findings.cost.scale.number(priced.base)}"
            f" {findings.cost.scale.title} of the order."
        )


def within(part: str, answer: Answer) -> Iterator[Section]:
    """Sections of another answer as part of a chapter, its tables under names of their own."""
    for section in answer.sections():
        if isinstance(section, Heading):
            lines = (section.title, *section.lines)
            timeless = (line for line in lines if not line.rstrip(".").endswith(CLOCKS))
            yield from (Paragraph(line, "quiet") for line in timeless)
        elif isinstance(section, Paragraph):
            yield replace(section, style="plain") if section.style == "strong" else section
        elif isinstance(section, Table | Bars):
            yield replace(section, name=f"{part}: {section.name}")
        else:
            yield section


def bill_chapter(answer: Findings) -> Iterator[Section]:
    """What to order, line by line, in whole units of the currency."""
    bill, spares = answer.chosen, answer.cost.inputs["spares"]
    words = f"{bill.title}. Every cable end has a port of the right speed and form."
    if spares:
        words += f" Spares of {', '.join(spares)} are included, rounded up line by line."
    what = "What to order" if answer.recommendation.fabric else "The cheapest, in full"
    yield Heading(f"{what}: {bill.name}", (words,), "bill")
    whole = bill_table(bill, Scale(1.0, answer.cost.currency, 0), "", places=True)
    # A table a network: each fits a page.
    networks = [(name, list(rows)) for name, rows in groupby(whole.rows, whole.part)]
    for number, (name, rows) in enumerate(networks, start=1):
        closing = whole.closing if number == len(networks) else ()
        title = name or ("The network that trains or serves" if len(networks) > 1 else "")
        yield replace(whole, rows=rows, part=None, closing=closing, title=title)
    if bill.inside.bought:
        if not bill.gear_counted:
            title = "Inside HB domains, not in this price"
            yield replace(
                bill_table(bill, Scale(1.0, answer.cost.currency, 0), title, bill.inside.quote),
                part=None,
            )
        yield Paragraph(inside_words(bill, answer.cost.scale))
    yield Paragraph(f"Not on the bill: {'; '.join(answer.cost.left_out)}.", "quiet")


def fabric_chapter(answer: Findings) -> Iterator[Section]:
    """The chosen fabric drawn, and what to know about it."""
    words = (
        "Each row stands for all devices of its kind. Lines show which kinds are joined, with their"
        " ports and how many GPUs share them, not every cable; dashed lines are copper."
    )
    yield Heading("The fabric", (words,), "fabric")
    made = answer.racks
    yield Inset("", partial(fabric_drawing, answer.chosen.fabric, made.network if made else None))
    for note in answer.chosen.notes:
        yield Paragraph(note)


def racks_chapter(answer: Findings) -> Iterator[Section]:
    """Racks as in the cable plan, the hall from above, and how long cables are taken to be."""
    yield Heading("Racks and cable lengths", (), "racks")
    yield from _racks(answer)
    hall, extra = answer.chosen.hall, answer.inputs["networks"]
    measured = hall != AS_PUBLISHED
    if measured:
        yield _measured(answer, hall)
    if measured and not extra:
        return
    subject = "Cables of networks beside" if measured else "No floor plan measures them: cables"
    columns = [
        told_column("Links", "group"),
        told_column("Medium"),
        told_column("m", "length_m", form="general", digits=4),
        SOURCE,
    ]
    book, legend = (
        answer.library.first(CablingBook),
        (f"{subject} have the length of their class.",),
    )
    yield Table("length classes", columns, book.lengths, title="Length classes", legend=legend)


def _measured(answer: Findings, hall: str) -> Table[BillItem]:
    """Cables of the fabric by length, as the cable plan has them."""
    items = answer.chosen.quote.items
    lines = [
        item.line for item in items if item.line.category == "cables" and not item.line.network
    ]
    columns: list[Column[BillItem]] = [
        told_column("Cable", get="item"),
        told_column("cables", "quantity", form="count"),
        told_column("Where", get=lambda line: "; ".join(line.notes), form="prose"),
    ]
    source = (
        f"Measured on the floor plan {hall}, without spares; netplan cables --floor-plan {hall}"
    )
    legend = (f"{source} writes the same cable by cable.",)
    return Table("cable lengths", columns, lines, title="Cable lengths", legend=legend)


def _racks(answer: Findings) -> Iterator[Section]:
    """Elevations with names, power and weight, and the hall with its trays."""
    racks, made = answer.chosen.racks, answer.racks
    if answer.chosen.site_racks:
        count = answer.chosen.site_racks
        yield Paragraph(
            f"Switches of networks beside fill {count:,} more rack{'s' * (count > 1)}, after those"
            " of this fabric.",
            "quiet",
        )
    if racks.devices and not racks.hall:
        yield Paragraph(
            f"Switches of {racks.switch_units} U fill racks of {racks.units} U one after the other,"
            " as the bill counts them. Power and cooling may need more racks.",
            "quiet",
        )
    if made is None or not made.kinds:
        if racks.devices:
            yield Inset("", lambda: elevation_drawing(list(unnamed_racks(racks))))
        return
    columns: list[Column[RackKind]] = [
        told_column("Racks", "racks", "title"),
        told_column("devices", get=lambda kind: len(kind.slots), form="count"),
        told_column("U in use", "used_units", lambda kind: kind.used_units, form="count"),
        told_column("network, kW", "network_kw", _network_kw, form="fixed", digits=1),
        told_column("servers at most, kW", "servers_kw", _servers_kw, form="fixed", digits=1),
        told_column("kg", "weight_kg", "weight_kg", form="count"),
    ]
    legend = (
        "Racks that hold the same are one row. A dash: no file states it. Power of the network is"
        " the bill's, spread over its devices."
    )
    yield Table("racks", columns, made.kinds, title="Racks", legend=(legend,))
    drawn = [
        Elevation(kind.title, _rack_words(kind), kind.units, kind.slots) for kind in made.kinds
    ]
    yield Inset("Elevations", partial(elevation_drawing, drawn))
    if made.layout is not None:
        hall = partial(hall_drawing, made.layout, made.network, answer.chosen.site_racks)
        yield Inset("The hall from above", hall)


def unnamed_racks(racks: SwitchRacks) -> Iterator[Elevation]:
    """A full rack and the last one, where switches are too many to name.

    Examples
    --------
    42 units hold 21 switches of 2 units; 256 = 12 x 21 + 4.

    >>> [(rack.title, len(rack.slots)) for rack in unnamed_racks(SwitchRacks(256, 42, 2, 21))]
    [('12 racks of 21 switches', 21), ('1 rack of 4 switches', 4)]
    """
    for count, held in ((racks.full, racks.each), (1, racks.last)):
        if not count or not held:
            continue
        height = racks.switch_units
        slots = (Slot("", True, 1 + place * racks.pitch, height) for place in range(held))
        title = f"{counted(count, 'rack')} of {counted(held, 'switch', 'switches')}"
        used = f"{held * height} of {racks.units} U in use"
        yield Elevation(title, (used,), racks.units, tuple(slots))


def _network_kw(kind: RackKind) -> float | None:
    return None if kind.typical_w is None else kind.typical_w / WATTS_PER_KILOWATT


def _servers_kw(kind: RackKind) -> float | None:
    if not kind.servers or kind.server_w is None:
        return None
    return kind.servers * kind.server_w / WATTS_PER_KILOWATT


def _rack_words(kind: RackKind) -> tuple[str, ...]:
    """Height, power and weight of a rack, for its drawing."""
    network, servers = _network_kw(kind), _servers_kw(kind)
    power = "power unknown" if network is None else f"{network:,.1f} kW"
    power += "" if servers is None else f" + {servers:,.1f} kW servers"
    mass = "weight unknown" if kind.weight_kg is None else f"{kind.weight_kg:,.0f} kg"
    return f"{kind.used_units}/{kind.units} U, {mass}", power

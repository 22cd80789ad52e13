"""What a procurement report orders: the bill, the fabric drawn, its racks and cable lengths."""

from collections.abc import Iterator

from netplan.costing.cabling import CablingBook
from netplan.procurement.findings import SOURCE, Findings, told_column
from netplan.questions.cost_answer import bill_table
from netplan.reports.quantities import Scale
from netplan.reports.sections import Heading, Inset, Paragraph, Section, Table
from netplan.topologies.drawing import fabric_drawing, rack_drawing


def bill_chapter(answer: Findings) -> Iterator[Section]:
    """What to order, line by line, in whole units of the currency."""
    bill, spares = answer.chosen, answer.cost.inputs["spares"]
    said = f"{bill.title}. Every cable end has a port of the right speed and form."
    if spares:
        said += f" Spares of {', '.join(spares)} are included, rounded up line by line."
    what = "What to order" if answer.recommendation.fabric else "The cheapest, in full"
    yield Heading(f"{what}: {bill.name}", (said,), "bill")
    yield bill_table(bill, Scale(1.0, answer.cost.currency, 0), "", places=True)
    yield Paragraph(f"Not on the bill: {'; '.join(answer.cost.left_out)}.", "quiet")


def fabric_chapter(answer: Findings) -> Iterator[Section]:
    """The chosen fabric drawn, and what to know about it."""
    said = (
        "Each row stands for all devices of its kind. Lines show which kinds are joined, not every"
        " cable; dashed lines are copper."
    )
    yield Heading("The fabric", (said,), "fabric")
    yield Inset("", fabric_drawing(answer.chosen.fabric))
    for note in answer.chosen.notes:
        yield Paragraph(note)


def racks_chapter(answer: Findings) -> Iterator[Section]:
    """Racks of the switches, as on the bill, and how long cables are taken to be."""
    yield Heading("Racks and cable lengths", (), "racks")
    racks, hall = answer.chosen.racks, answer.inputs["floor_plan"]
    if racks.devices:
        filled = (
            f"The floor plan {racks.hall} puts {racks.each} switches into a rack of {racks.units} U"
            if racks.hall
            else f"Switches of {racks.switch_units} U fill racks of {racks.units} U one after the"
            " other, as the bill counts them"
        )
        yield Paragraph(f"{filled}. Power and cooling may need more racks.", "quiet")
        yield Inset("", rack_drawing(racks))
    said = (
        f"The cables of the fabric were measured on the floor plan {hall}, as the bill says line by"
        " line; those of networks beside it have the length of their class."
        if hall
        else "There is no floor plan in the question, so no cable was measured: every link has the"
        " length of its class."
    )
    columns = [
        told_column("Links", "group"),
        told_column("Medium"),
        told_column("m", "length_m", form="general", digits=4),
        SOURCE,
    ]
    book = answer.library.one(CablingBook)
    yield Table("length classes", columns, book.lengths, title="Length classes", legend=(said,))

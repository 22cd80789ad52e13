"""The procurement report as a page: its tables, charts and drawings, put into the frame."""

from collections.abc import Iterator

from netplan.costing.cabling import CablingBook
from netplan.errors import CatalogError
from netplan.questions.drawing import fabric_drawing
from netplan.questions.faults_answer import FaultsAnswer
from netplan.questions.procurement import Procurement
from netplan.questions.procurement_charts import (
    driver_chart,
    price_chart,
    running_chart,
    speed_chart,
)
from netplan.questions.procurement_sections import (
    bill_table,
    comparison_table,
    length_table,
    run_table,
    running_table,
)
from netplan.questions.procurement_sources import (
    assumptions,
    file_sources,
    input_table,
    price_sources,
    rate_sources,
    value_sources,
)
from netplan.questions.racks import rack_drawing
from netplan.reports.charts import Chart
from netplan.reports.html import blocks
from netplan.reports.page import Table, framed, templates
from netplan.reports.sections import Heading, Paragraph, Section


def page(answer: Procurement) -> str:
    """Write the report.

    Parameters
    ----------
    answer
        Of :func:`netplan.questions.procurement.procurement`.

    Raises
    ------
    CatalogError
        If the definition names a template that is not shipped.
    """
    name = answer.definition.template
    if not (templates() / name).is_file():
        raise CatalogError(f"report {answer.definition.name}: no template in {templates()}")
    fabric = answer.row(answer.chosen.name).fabric
    racks = answer.chosen.racks if answer.chosen.racks.devices else None
    values = {
        "answer": answer,
        "verdict": answer.recommendation,
        **_tables(answer),
        "break_evens": answer.cost.statements,
        "notes": assumptions(answer),
        "left_out": answer.cost.left_out,
        "faults": blocks(_faults(answer.faults)) if answer.faults else None,
        "drawing": fabric_drawing(fabric) if fabric else "",
        "racks": racks,
        "rack_drawing": rack_drawing(racks) if racks else "",
    }
    return framed(name, _charts(answer), values)


def _tables(answer: Procurement) -> dict[str, Table | None]:
    """Tables by their names in the templates."""
    return {
        "comparison": comparison_table(answer),
        "running": running_table(answer),
        "run": run_table(answer),
        "bill": bill_table(answer.chosen),
        "lengths": length_table(answer.library.one(CablingBook)),
        "prices": price_sources(answer),
        "values": value_sources(answer),
        "rates": rate_sources(answer),
        "files": file_sources(answer),
        "inputs": input_table(answer),
    }


def _charts(answer: Procurement) -> list[Chart]:
    """Charts that the answer has data for."""
    trained = str(answer.inputs["model"])
    found = (
        price_chart(answer.cost),
        driver_chart(answer.cost, answer.chosen, answer.definition.drivers_shown),
        running_chart(answer.cost),
        speed_chart(answer.cost, answer.times_s, answer.chosen.name, trained),
    )
    failures = _faults(answer.faults) if answer.faults else ()
    return [one for one in (*found, *failures) if isinstance(one, Chart)]


def _faults(answer: FaultsAnswer) -> Iterator[Section]:
    """The answer about failures as a part of this page: its heading is a line of text."""
    for section in answer.sections():
        yield (
            Paragraph("; ".join(section.lines), "quiet")
            if isinstance(section, Heading)
            else section
        )

"""Report definitions: which fabrics, which sections in which order, which template."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from netplan.catalog import Record, Shelf

Section = Literal[
    "comparison",
    "price",
    "drivers",
    "running",
    "speed",
    "bill",
    "fabric",
    "racks",
    "faults",
    "assumptions",
    "sources",
]


class ReportDefinition(Record):
    """What a report holds; ``template`` is a file of the shipped ``reports/templates``.

    ``prices`` is the price book of a question that names none; that of all commands if empty.
    """

    prices: str = ""
    fabrics: Annotated[tuple[str, ...], Field(min_length=1)]
    drivers_shown: PositiveInt
    sections: Annotated[tuple[Section, ...], Field(min_length=1)]
    template: Annotated[str, Field(pattern=r"^[\w-]+\.html\.j2$")]


REPORTS = Shelf("report", "reports/definitions", ReportDefinition)

"""What a report is made from: its definition, and the catalog files that its sources name."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from netplan.catalog import Catalog, Record, RecordT
from netplan.records import PositiveInt
from netplan.scenarios.parts import Cluster
from netplan.scenarios.reading import CatalogReader
from netplan.topologies.specs import FABRICS

BILL_ROLES = {"accelerator", "prices", "power", "cabling", "switch", "fabric", "floor-plan"}
COST_ROLES = frozenset(BILL_ROLES | {"economics", "network", "memory"})
"""Roles of the files that `netplan.questions.cost.cost` reads."""

COMPARE_ROLES = frozenset(BILL_ROLES | {"model", "iteration-model", "economics", "memory"})
"""Roles of the files that `netplan.questions.compare.compare` reads."""

ECONOMICS_ROLES = frozenset({"economics"})
"""Roles of the files that the terms of a training run are read from."""

FAULT_ROLES = frozenset(
    {"accelerator", "model", "prices", "iteration-model", "fabric", "failures", "recovery"}
    | {"network"}
)
"""Roles of the files that `netplan.questions.faults.faults` reads, of those of a report."""


class Library(Struct, frozen=True):
    """Records with their roles, and the single values replaced in them for this run."""

    records: tuple[tuple[str, Record], ...]
    replaced: Mapping[str, object]

    def all(self, schema: type[RecordT]) -> tuple[RecordT, ...]:
        """All records of a type, in the order of reading."""
        return tuple(record for _, record in self.records if isinstance(record, schema))

    def first(self, schema: type[RecordT]) -> RecordT:
        """The first record of a type."""
        return self.all(schema)[0]

    def of_role(self, role: str) -> Any:  # noqa: ANN401 - one of several types, by its family
        """The record of a role that a question has once."""
        return next(record for known, record in self.records if known == role)

    def only(self, overrides: Mapping[str, str], roles: frozenset[str]) -> dict[str, str]:
        """The replaced values that belong to files of these roles, by role or by name."""
        known = {role for role, _ in self.records if role in roles}
        known |= {record.name for role, record in self.records if role in roles}
        return {key: text for key, text in overrides.items() if key.partition(".")[0] in known}


def read_library(
    reader: CatalogReader, wanted: Iterable[tuple[Catalog[Any], str | None]], cluster: Cluster
) -> Library:
    """Load the named records; None stands for one that the question does not have."""
    named = [(shelf, name) for shelf, name in wanted if name is not None]
    names = (name for shelf, name in named if shelf is FABRICS)
    fabrics = iter(reader.fabrics(names, cluster))
    records: list[tuple[str, Record]] = [
        (shelf.role, next(fabrics) if shelf is FABRICS else reader.load(shelf, name))
        for shelf, name in named
    ]
    return Library(tuple(records), reader.replaced())


Chapter = Literal[
    "answers",
    "decision",
    "unknown",
    "trust",
    "changes",
    "risks",
    "comparison",
    "price",
    "drivers",
    "running",
    "speed",
    "errors",
    "simulation",
    "serving",
    "memory",
    "bill",
    "fabric",
    "racks",
    "faults",
    "assumptions",
    "sources",
]


class ReportDefinition(Record, frozen=True, kw_only=True):
    """What a report holds; ``template`` is a file of the shipped ``reports/templates``.

    Where it names no fabrics they are those of the scenario that somebody sells.
    """

    fabrics: tuple[str, ...] = ()
    drivers_shown: PositiveInt
    sections: Annotated[tuple[Chapter, ...], Meta(min_length=1)]
    template: Annotated[str, Meta(pattern=r"^[\w-]+\.html\.j2$")]


REPORTS = Catalog("report", "reports/definitions", ReportDefinition)

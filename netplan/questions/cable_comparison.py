"""A plan against the cables as built, and readers of files that name both ends of each cable.

The form of a file is told here; how it is read, in ``topologies/formats``.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct

from netplan.costing.switches import SWITCHES, cage_links
from netplan.records import asdict
from netplan.reports.answer import Answer, answer_dict
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import Heading, Paragraph, Section, Table, columns, values_at
from netplan.scenarios.reading import CatalogReader
from netplan.topologies.cabling.as_built import (
    Cable,
    CableList,
    Difference,
    cables_of,
    differences,
    named_alike,
    require_free_ports,
)
from netplan.topologies.cabling.halls import Hall, hall_of, read_node_names
from netplan.topologies.cabling.matching import Known, match_halls
from netplan.topologies.formats.edge_list import NEEDED
from netplan.topologies.formats.graph_files import read_graph
from netplan.topologies.formats.infiniband import Subnet, found_by_ibdiagnet, found_by_ibnetdiscover
from netplan.topologies.formats.kinds import CSV, SUBNET, TOPO, XLSX, kind_of
from netplan.topologies.formats.tables import is_cable_table, read_cable_table, read_table

SCREEN_ROWS = 12
"""Differences that a screen shows [1]."""

TO_DO, BOTH = ("kind", "instruction"), ("planned", "built")


def read_cables(path: Path) -> Sequence[Cable]:
    """Cables of :func:`read_hall`."""
    return read_hall(path).cables


def read_hall(path: Path, names: Mapping[str, str] | None = None) -> Hall:
    """Read cables from any file that names both ends of each.

    Parameters
    ----------
    path
        A cable plan, NetBox cables or UFM P2P (``.csv``, ``.xlsx``); an edge list, GraphML,
        ibdiagnet topology or the output of ``ibnetdiscover``: told by what it holds.
    names
        Names of devices of a subnet, by GUID or description.

    Raises
    ------
    CatalogError
        If the file is malformed: file and line.
    """
    kind = kind_of(path)
    if kind in FOUND_BY:
        return hall_of(FOUND_BY[kind](path), names)
    if kind == XLSX or (kind == CSV and not _is_edge_list(path)):
        return Hall(str(path), read_cable_table(path), {})
    return Hall(str(path), list(cables_of(read_graph(path))), {})


FOUND_BY: Mapping[str, Callable[[Path], Subnet]] = {
    SUBNET: found_by_ibnetdiscover,
    TOPO: found_by_ibdiagnet,
}
"""Files that say what was found, by kind."""


def _is_edge_list(path: Path) -> bool:
    """Whether a CSV file is a graph's edge list, by its header."""
    _, header = next(read_table(path), (1, []))
    return set(NEEDED) <= set(header) and not is_cable_table(header)


@dataclass(frozen=True, slots=True, repr=False)
class CableComparison(Answer):
    """The answer of :func:`compare_cables`: cables in both files, and what to put right."""

    plan: str
    as_built: str
    planned: int
    built: int
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()
    known: tuple[Known, ...] = ()

    @property
    def sentence(self) -> str:
        """One line for people.

        Examples
        --------
        >>> CableComparison("plan.csv", "hall.csv", 8, 8, ()).sentence
        '8 cables planned, 8 built: no difference.'
        """
        kinds = Counter(difference.kind for difference in self.differences)
        found = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "no difference"
        return f"{self.planned:,} cables planned, {self.built:,} built: {found}."

    def in_a_line(self) -> str:
        """How many cables differ."""
        return self.sentence.removesuffix(".")

    @property
    def exit_code(self) -> int:
        """1 if anything differs."""
        return int(bool(self.differences))

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan cables --compare``."""
        return answer_dict(
            {"plan": self.plan, "as_built": self.as_built},
            planned=self.planned,
            built=self.built,
            differences=[values_at(asdict(one), *TO_DO, *BOTH) for one in self.differences],
            notes=list(self.notes),
            known=[asdict(one) for one in self.known],
        )

    def summary(self) -> Iterator[Section]:
        """How many cables differ, the first of them with what to do, notes."""
        yield from Screen(
            Heading(f"{Path(self.plan).name} against {Path(self.as_built).name}"),
            (self.sentence,),
            Table("differences", columns(*TO_DO), self.differences),
            tuple(self._sentences()),
            more_of("every difference", "--format csv -o todo.csv") if self.differences else "",
            most_rows=SCREEN_ROWS,
        ).sections()

    def sections(self) -> Iterator[Section]:
        """One row a difference, with what to do about it."""
        shown = [*columns(*TO_DO), *columns(*BOTH, shown="never")]
        yield Table("differences", shown, self.differences)
        yield Paragraph(self.sentence)
        yield from map(Paragraph, self._sentences())

    def _sentences(self) -> Iterator[str]:
        """The notes as sentences."""
        for note in self.notes:
            yield f"{note[0].upper()}{note[1:]}{'' if note.endswith('?') else '.'}"


class Naming(Struct, frozen=True):
    """What a user says of names as built: a node-name map, and the GPUs of a server [1]."""

    node_names: Path | None = None
    host_gpus: int | None = None


def compare_cables(
    plan: Path,
    as_built: Path,
    *,
    switch: str | None = None,
    radix: int = 64,
    naming: Naming | None = None,
    catalog: str | Path | None = None,
) -> CableComparison:
    """Compare a plan with the cables as built; both in any form of :func:`read_cables`.

    Parameters
    ----------
    plan, as_built
        The two files.
    switch, radix
        Switch model, and its ports in the plan [1]: needed where one file names ports by cage and
        half and the other numbers them.
    naming
        What is said of the names of devices as built.
    catalog
        Folder of the user's own catalogs.

    Raises
    ------
    InputError
        If ports are named in two ways and no switch is given, or one that has not as many ports.
    CatalogError
        If a file is malformed or uses a port twice: file and line.
    """
    reader = CatalogReader(catalog)
    links = cage_links(reader.load(SWITCHES, switch), radix) if switch else None
    said = naming or Naming()
    known = read_node_names(said.node_names) if said.node_names else {}
    wanted, found = read_hall(plan), read_hall(as_built, known)
    for hall in (wanted, found):
        require_free_ports(hall.path, hall.cables)
    match = match_halls(wanted, found, host_gpus=said.host_gpus, cage_links=links)
    notes = match.notes
    if known and not found.renamed:
        notes += (f"no device of {found.path} stands in {said.node_names}",)
    alike = named_alike(
        CableList(wanted.path, wanted.cables), CableList(found.path, match.cables), links
    )
    return CableComparison(
        str(plan),
        str(as_built),
        len(alike[0]),
        len(alike[1]),
        tuple(differences(*alike, match.host_of)),
        notes,
        match.known,
    )

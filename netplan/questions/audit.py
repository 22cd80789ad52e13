"""Audit of somebody else's bill or topology: what does not add up, as rows."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar

from netplan.errors import CatalogError
from netplan.files import read_lines
from netplan.questions.cable_comparison import FOUND_BY, read_cable_hall, read_cables
from netplan.reports.answer import Answer
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import Heading, Paragraph, Section, Table, column, columns
from netplan.setup.asking import function_of
from netplan.setup.own_inputs import option_field, required_field
from netplan.setup.question import Question
from netplan.spreadsheets import Row
from netplan.topologies.cabling.as_built import Cable, End
from netplan.topologies.cabling.audit_cables import (
    audit_cables,
    audit_simulator,
    is_simulator_topology,
)
from netplan.topologies.cabling.audit_designs import AuditFinding, audit_designs, is_design_table
from netplan.topologies.formats.graph_files import READERS
from netplan.topologies.formats.kinds import CSV, XLSX, kind_of
from netplan.topologies.formats.tables import is_cable_table, read_table

SCREEN_ROWS = 12
"""Findings that a screen shows [1]."""

HB_SWITCH_NAME = "nvswitch"
EDGE_ENDS = ("source", "source_port", "target", "target_port")


@dataclass(frozen=True, slots=True, repr=False)
class Audit(Answer):
    """The answer of :func:`audit`: the file, what kind it is, and the findings."""

    json_parts = "kind", "findings"

    file: str
    kind: str
    findings: tuple[AuditFinding, ...]

    @property
    def inputs(self) -> dict[str, str]:
        """What was asked about."""
        return {"file": self.file}

    @property
    def exit_code(self) -> int:
        """1 if anything does not add up."""
        return int(bool(self.findings))

    @property
    def sentence(self) -> str:
        """One line for people.

        Examples
        --------
        >>> Audit("pod.csv", "table of designs", ()).sentence
        'pod.csv (table of designs): no fault found.'
        """
        count = len(self.findings)
        text = "no fault found" if not count else f"{count:,} finding{'s' if count > 1 else ''}"
        return f"{self.file} ({self.kind}): {text}."

    def in_a_line(self) -> str:
        """How many faults there are."""
        return self.sentence.removesuffix(".")

    def summary(self) -> Iterator[Section]:
        """Whether anything does not add up, and the first findings."""
        more = more_of("every finding", "--radix 64", "--oversubscription 3:1", page=False)
        yield from Screen(
            Heading(f"Audit of {Path(self.file).name}"),
            (self.sentence,),
            self._table(),
            more=more if self.findings else "",
            most_rows=SCREEN_ROWS,
        ).sections()

    def sections(self) -> Iterator[Section]:
        """One row a finding; for people the file is named once, below."""
        yield Heading(f"Audit of {Path(self.file).name}", shown="pages")
        yield self._table()
        yield Paragraph(self.sentence)

    def _table(self) -> Table[AuditFinding]:
        """One row a finding."""
        shown = [
            *columns("what"),
            column("where", self._place, shown="people"),
            *columns("where", shown="data"),
            *columns("got", "expected", "why"),
        ]
        return Table("findings", shown, self.findings)

    def _place(self, finding: AuditFinding) -> str:
        """Line, or device, inside the file."""
        place = finding.where.removeprefix(self.file).strip()
        return f"line {place[1:]}" if place.startswith(":") else place


@dataclass(frozen=True)
class AuditFile(Question[Audit]):
    """Audit FILE: a table of designs, a cable plan, a graph, or a simulator's topology.

    Finds counts that do not multiply, ports that do not exist or are used twice, oversubscription
    that nobody stated, and headers that disagree with their bodies. Exits with 1 if it finds any.
    Its kind is told by what it holds: a CSV or XLSX table by its header, a simulator's topology by
    its first line, a subnet (``ibnetdiscover``, ``.topo``) by its blocks.

    Raises
    ------
    CatalogError
        If the file cannot be read as any of them: file and line.
    """

    command: ClassVar[str] = "audit"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan audit designs.csv",
        "netplan audit cables.xlsx --radix 64",
        "netplan audit fabric.graphml --oversubscription 3:1 --format json",
    )
    reads_from: ClassVar[frozenset[str]] = frozenset()

    file: str | Path = required_field("What is audited.", "path", argument=True)
    _: KW_ONLY
    radix: int | None = option_field(
        "Ports of a switch, to find ports that do not exist.", "whole", unit="ports"
    )
    oversubscription: float | None = option_field(
        "What is stated, such as 3:1.", "ratio", low=1, otherwise="1:1"
    )

    def ask(self) -> Audit:
        """Tell the kind of the file, and look for what does not add up."""
        claims = self.radix, self.oversubscription or 1.0
        kind, findings = _findings(Path(self.file), claims)
        return Audit(str(self.file), kind, tuple(findings))


audit = function_of(AuditFile)


def _findings(path: Path, claims: tuple[int | None, float]) -> tuple[str, Iterator[AuditFinding]]:
    """Kind of the file, and what is found in it."""
    kind = kind_of(path)
    if kind in FOUND_BY:
        hall = read_cable_hall(path)
        hosts = {name for name, device in hall.devices.items() if device.relay or not device.switch}
        return "subnet", audit_cables(str(path), hall.cables, *claims, hosts)
    if kind in READERS and kind != CSV:
        return "graph", audit_cables(str(path), read_cables(path), *claims)
    if kind not in (CSV, XLSX):
        lines = read_lines(path)
        if is_simulator_topology(lines):
            return "simulator topology", audit_simulator(str(path), lines)
        known = ", ".join((*READERS, ".xlsx"))
        raise CatalogError(
            f"{path}:1: unknown kind of file: name it with one of {known}, or begin it with a"
            " simulator's header"
        )
    return _table_findings(path, claims)


def _table_findings(
    path: Path, claims: tuple[int | None, float]
) -> tuple[str, Iterator[AuditFinding]]:
    """Kind of a table, and what is found in it."""
    rows = read_table(path)
    line, header = next(rows, (1, []))
    if is_cable_table(header):
        return "table of cables", audit_cables(str(path), read_cables(path), *claims)
    if set(EDGE_ENDS) <= set(header):
        cables = list(_edges(path, header, rows))
        if not cables:
            raise CatalogError(f"{path}:{line}: no cable stands under this header")
        return "edge list", audit_cables(str(path), cables, *claims)
    if is_design_table(header):
        return "table of designs", audit_designs(str(path), header, rows)
    if "source" in header:
        return "edge list", audit_cables(str(path), read_cables(path), *claims)
    raise CatalogError(
        f"{path}:{line}: neither designs nor cables: give columns such as gpus, nodes,"
        " leaf_switches, links_endpoint, or those of a cable plan"
    )


def _edges(path: Path, header: Sequence[str], rows: Iterator[Row]) -> Iterator[Cable]:
    """Cables of an edge list as it stands, ports used twice included."""
    place = [header.index(column) for column in EDGE_ENDS]
    rate = header.index("gbps") if "gbps" in header else -1
    for line, cells in rows:
        if len(cells) != len(header):
            raise CatalogError(f"{path}:{line}: expected {len(header)} fields, got {len(cells)}")
        source, source_port, target, target_port = (cells[i] for i in place)
        if HB_SWITCH_NAME in target:
            continue  # inside a server or rack, no cable of the network
        try:
            gbps = float(cells[rate]) if rate >= 0 else float("nan")
            # An edge list counts ports from 0, a front panel from 1.
            ports = int(source_port) + 1, int(target_port) + 1
        except ValueError:
            raise CatalogError(f"{path}:{line}: ports and gbps are numbers") from None
        yield Cable(End(source, str(ports[0])), End(target, str(ports[1])), gbps, line)

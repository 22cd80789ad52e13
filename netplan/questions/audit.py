"""Audit of somebody else's bill or topology: what does not add up, as rows."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netplan.errors import CatalogError
from netplan.questions.audit_cables import Claims, audit_cables
from netplan.questions.audit_designs import audit_designs, is_design_table
from netplan.questions.audit_findings import Finding
from netplan.questions.audit_simulator import audit_simulator, is_simulator_topology
from netplan.questions.cables import read_cables
from netplan.questions.export import READERS
from netplan.reports.text import Cell
from netplan.topologies.as_built import Cable, End
from netplan.topologies.cable_plan import Sheet
from netplan.topologies.formats.cable_tables import is_cable_table, read_table
from netplan.topologies.formats.reading import read_lines
from netplan.topologies.formats.spreadsheet import Row
from netplan.version import __version__

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("what", "where", "got", "expected", "why")
HB_SWITCH_NAME = "nvswitch"
EDGE_ENDS = ("source", "source_port", "target", "target_port")


@dataclass(frozen=True, slots=True)
class Audit:
    """The answer of :func:`audit`: the file, what kind it is, and the findings."""

    file: str
    kind: str
    findings: tuple[Finding, ...]

    @property
    def summary(self) -> str:
        """One line for people.

        Examples
        --------
        >>> Audit("pod.csv", "table of designs", ()).summary
        'pod.csv (table of designs): nothing found.'
        """
        count = len(self.findings)
        text = "nothing found" if not count else f"{count:,} finding{'s' if count > 1 else ''}"
        return f"{self.file} ({self.kind}): {text}."

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan audit --format json``."""
        return {
            "netplan_version": __version__,
            "inputs": {"file": self.file},
            "kind": self.kind,
            "findings": self.to_rows(),
        }

    def to_rows(self) -> list[dict[str, Cell]]:
        """One flat row a finding."""
        return [asdict(finding) for finding in self.findings]

    def to_table(self) -> list[dict[str, Cell]]:
        """One row a finding, for people: the file is named once, below."""
        rows = self.to_rows()
        for row in rows:
            place = str(row["where"]).removeprefix(self.file).strip()
            row["where"] = f"line {place[1:]}" if place.startswith(":") else place
        return rows

    def to_sheet(self) -> Sheet:
        """One row a finding, as a sheet."""
        rows = (tuple(str(cell) for cell in row.values()) for row in self.to_rows())
        return Sheet("Findings", COLUMNS, rows)

    def to_frame(self) -> "pd.DataFrame":
        """One row a finding."""
        import pandas as pd

        return pd.DataFrame(self.to_rows(), columns=list(COLUMNS))

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(escape=True, index=False))


def audit(path: Path, *, radix: int | None = None, oversubscription: float | None = None) -> Audit:
    """Audit a table of designs, a table of cables, a graph, or a simulator's topology.

    Parameters
    ----------
    path
        The file. A CSV or XLSX table is told by its header, a simulator's topology by its first
        line, a graph by its ending.
    radix
        Ports of a switch, if the file does not say [1].
    oversubscription
        Bandwidth below over above that is stated; 1 if nobody says [1].

    Raises
    ------
    CatalogError
        If the file cannot be read as any of them: file and line.
    """
    claims = Claims(radix, oversubscription or 1.0)
    kind, findings = _findings(path, claims)
    return Audit(str(path), kind, tuple(findings))


def _findings(path: Path, claims: Claims) -> tuple[str, Iterator[Finding]]:
    """Kind of the file, and what is found in it."""
    ending = path.suffix.lower()
    if ending in READERS and ending != ".csv":
        return "graph", audit_cables(str(path), read_cables(path), claims)
    if ending not in (".csv", ".xlsx"):
        lines = read_lines(path)
        if is_simulator_topology(lines):
            return "simulator topology", audit_simulator(str(path), lines)
        known = ", ".join((*READERS, ".xlsx"))
        raise CatalogError(
            f"{path}:1: unknown kind of file: name it with one of {known}, or begin it with a"
            " simulator's header"
        )
    rows = read_table(path)
    line, header = next(rows, (1, []))
    if is_cable_table(header):
        return "table of cables", audit_cables(str(path), read_cables(path), claims)
    if set(EDGE_ENDS) <= set(header):
        cables = list(_edges(path, header, rows))
        return "edge list", audit_cables(str(path), cables, claims)
    if is_design_table(header):
        return "table of designs", audit_designs(str(path), header, rows)
    if "source" in header:
        return "edge list", audit_cables(str(path), read_cables(path), claims)
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

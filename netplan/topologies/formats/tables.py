"""Tables of cables, read back: our plan, NetBox's cables, and both sheets of UFM cable validation.

The header says which table it is. Rows are checked one by one; that a port holds two cables is for
the caller to judge, since an audit wants to see it all.

Of an XLSX file the first sheet is read (:mod:`netplan.spreadsheets`).

Sheets for UFM cable validation.

Ethernet P2P has one row a cable with node name, type and port of either end. InfiniBand P2P
has rack, unit, name and port of either end; its port is ``1/2`` for the second half of cage 1. The
vendor's sample of the InfiniBand sheet repeats column names: the A side comes first, then the Z
side. Hosts of several GPUs are named where the plan names hosts; else every GPU is a host.

The other two of UFM are CSV files beside a P2P sheet, known from the tool's manual (NVIDIA UFM
Cable Validation Tool 1.5, optional files), which shows the HCA mapping in full. Of the rack layout
it says that racks are mapped to columns of the user's choice, such as hall and row; the name of the
column of racks stands only in a picture that we have not seen, so ``Rack`` is our choice too.
"""

import re
from collections.abc import Iterator, Sequence
from math import isfinite, nan
from pathlib import Path

from msgspec import Struct

from netplan.errors import CatalogError
from netplan.files import csv_rows, read_lines
from netplan.spreadsheets import Bounds, Row, read_first_sheet
from netplan.topologies.cabling.as_built import Cable, End
from netplan.topologies.cabling.cable_plan import (
    PLAN_COLUMNS,
    CablePlan,
    Device,
    PlanSheet,
    host_ports,
)
from netplan.topologies.cabling.device_names import port_adapter
from netplan.topologies.cabling.floor_plan import Layout
from netplan.topologies.formats.kinds import XLSX, kind_of
from netplan.topologies.formats.netbox import CABLE_COLUMNS

ETHERNET_COLUMNS = ("A-Node Name", "A-Type", "A-Port", "Z-Node Name", "Z-Type", "Z-Port")
INFINIBAND_COLUMNS = ("Rack", "U", "Name", "HCA/Port", "Rack", "U", "Name", "Port")
HCA_COLUMNS = ("port", "hca-name")
RACK_COLUMNS = ("Rack", "Hall", "Row", "Position")


def ufm_ethernet(plan: CablePlan) -> PlanSheet:
    """Sheet for UFM cable validation on Ethernet.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.cabling.cable_plan import cable_plan
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=32, radix=16)
    >>> plan = cable_plan(scenario.fabric("fat-tree").graph())
    >>> next(ufm_ethernet(plan).rows)
    ('gpu-0', 'Host', '1', 'leaf-0', 'Switch', '1')
    >>> list(ufm_hca(plan, 2).rows)
    [('1', 'mlx5_0'), ('2', 'mlx5_1')]
    """
    rows = (
        (a.name, _type(a), a_port, z.name, _type(z), z_port) for a, a_port, z, z_port in plan.ends()
    )
    return PlanSheet("P2P", ETHERNET_COLUMNS, rows)


def ufm_infiniband(plan: CablePlan) -> PlanSheet:
    """Sheet for UFM cable validation on InfiniBand; racks and units as far as the plan has them."""
    rows = (
        (a.place.rack, a.place.unit, a.name, a_port, z.place.rack, z.place.unit, z.name, z_port)
        for a, a_port, z, z_port in plan.ends()
    )
    return PlanSheet("P2P", INFINIBAND_COLUMNS, rows)


def ufm_hca(plan: CablePlan, host_gpus: int) -> PlanSheet:
    """HCA mapping: the adapter behind each network port of a host, the same for all hosts.

    The names are those that the tool takes without this file: adapters in the order of the ports.
    Where a host's PCI slots are numbered otherwise, the names are the user's to change.
    """
    ports = range(1, host_ports(plan, host_gpus) + 1)
    return PlanSheet(
        "HCA mapping", HCA_COLUMNS, ((str(port), port_adapter(port)) for port in ports)
    )


def ufm_racks(layout: Layout) -> PlanSheet:
    """Rack layout for UFM on Ethernet: hall, row and position of every rack in use.

    Racks are named as in the plan on the same floor plan; the hall is the floor plan's name.
    """
    rows = (
        (rack.name, layout.plan.name, str(rack.row), str(rack.position)) for rack in layout.racks()
    )
    return PlanSheet("Rack layout", RACK_COLUMNS, rows)


def _type(device: Device) -> str:
    return "Switch" if device.role == "switch" else "Host"


MAX_CABLES, MAX_COLUMNS = 1_000_000, 64
MAX_CELLS = MAX_CABLES * MAX_COLUMNS
LARGE = Bounds(1 << 30, MAX_CABLES + 2, MAX_COLUMNS, cells=MAX_CELLS, texts=MAX_CELLS)
"""The largest spreadsheet of cables that is read."""

# A name begins with a letter or digit, so no spreadsheet takes it for a formula.
NAME = re.compile(r"[0-9A-Za-z_][^\x00-\x1f\x7f-\x9f\"<>]{0,199}")


class TableKind(Struct, frozen=True):
    """Where a kind of table has its ends and rates; columns by name."""

    columns: tuple[str, ...]
    ends: tuple[str, str, str, str]
    rate: str = ""


TABLES = (
    TableKind(PLAN_COLUMNS, ("a_device", "a_port", "z_device", "z_port"), "gbps"),
    TableKind(CABLE_COLUMNS, ("side_a_device", "side_a_name", "side_b_device", "side_b_name")),
    TableKind(ETHERNET_COLUMNS, ("A-Node Name", "A-Port", "Z-Node Name", "Z-Port")),
)


def read_cable_table(path: Path) -> list[Cable]:
    """Read the cables of a CSV or XLSX table; errors have file and line."""
    rows = read_table(path)
    line, header = next(rows, (1, []))
    place = _places(path, line, header)
    cables = []
    for number, row in rows:
        cells = row + [""] * (len(header) - len(row))
        if len(cells) > len(header):
            raise CatalogError(f"{path}:{number}: expected {len(header)} fields, got {len(cells)}")
        cables.append(_cable(path, number, cells, place))
    if not cables:
        raise CatalogError(f"{path}:{line}: the table holds no cables")
    return cables


def read_table(path: Path) -> Iterator[Row]:
    """Rows of a CSV or XLSX file with their lines, a million at most; empty ones are left out."""
    if path.suffix.lower() == XLSX or kind_of(path) == XLSX:
        return iter(read_first_sheet(path, LARGE))
    lines = read_lines(path)
    if len(lines) > MAX_CABLES + 2:  # a header, and the end of the last line
        raise CatalogError(
            f"{path}:{MAX_CABLES + 2}: more than {MAX_CABLES:,} rows: split the table"
        )
    return ((line, cells) for line, cells in csv_rows(path, lines) if any(cells))


def is_cable_table(header: Sequence[str]) -> bool:
    """Whether a header is that of a table of cables."""
    return tuple(header) == INFINIBAND_COLUMNS or any(
        set(table.ends) <= set(header) for table in TABLES
    )


def _places(path: Path, line: int, header: list[str]) -> tuple[int, ...]:
    """Positions of device, port, device, port and rate in the header; -1 for no rate."""
    if tuple(header) == INFINIBAND_COLUMNS:
        return (2, 3, 6, 7, -1)  # its names repeat: by position
    for table in TABLES:
        if not set(table.ends) <= set(header):
            continue
        for column in header:
            if column not in table.columns:
                known = ", ".join(table.columns)
                raise CatalogError(
                    f"{path}:{line}: unknown column {column!r:.40}: known are {known}"
                )
        rate = header.index(table.rate) if table.rate in header else -1
        return (*(header.index(column) for column in table.ends), rate)
    known = "; ".join(",".join(table.ends) for table in TABLES)
    raise CatalogError(f"{path}:{line}: no table of cables: give the columns {known}")


def _cable(path: Path, line: int, cells: list[str], place: tuple[int, ...]) -> Cable:
    """One row as a cable, or an error that says what is wrong with it."""
    a, a_port, z, z_port, rate = place
    ends = []
    for device, port in ((a, a_port), (z, z_port)):
        texts = [cells[device].strip(), _port(cells[port])]
        for text in texts:
            if not NAME.fullmatch(text):
                raise CatalogError(
                    f"{path}:{line}: {text[:40]!r} cannot be a device or port: begin with a letter"
                    " or digit, no quotes or angle brackets, at most 200 characters"
                )
        ends.append(End(*texts))
    return Cable(ends[0], ends[1], _rate(path, line, cells[rate] if rate >= 0 else ""), line)


def _port(text: str) -> str:
    """Port as text; spreadsheets turn 5 into 5.0."""
    text = text.strip().removesuffix(".0")
    return str(int(text)) if text.isascii() and text.isdigit() and len(text) < 10 else text  # noqa: PLR2004


def _rate(path: Path, line: int, text: str) -> float:
    if not text.strip():
        return nan
    try:
        rate = float(text)
    except ValueError:
        rate = nan
    if not (isfinite(rate) and rate > 0):
        raise CatalogError(f"{path}:{line}: gbps: got {text[:40]!r}, give a rate above 0")
    return rate

"""Tables of cables read back, and files that nobody has vouched for."""

import re
import zipfile
from pathlib import Path

import openpyxl
import pytest

from netplan.errors import CatalogError
from netplan.questions.cable_comparison import compare_cables, read_cables
from netplan.questions.cables import SHEETS, Cables, cables, sheet_csv, sheet_xlsx
from netplan.topologies.cabling.as_built import cables_of
from netplan.topologies.cabling.cable_plan import PlanSheet, cable_plan
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.formats import tables
from netplan.topologies.formats.edge_list import edge_list_lines
from netplan.topologies.formats.graphml import graphml_lines
from netplan.topologies.formats.netbox import netbox_cables
from netplan.topologies.formats.subnet_files import topo_lines
from netplan.topologies.specs import FABRICS

GRAPH = expand(FABRICS.load("rail-optimized"), Sizing(64, 16, 8, 450e9, 50e9))
NETBOX = "side_a_device,side_a_type,side_a_name,side_b_device,side_b_type,side_b_name\n"
UFM = "A-Node Name,A-Type,A-Port,Z-Node Name,Z-Type,Z-Port\n"
PLAN = "a_device,a_port,z_device,z_port,gbps\n"


def small_plan() -> PlanSheet:
    return Cables.make(
        "rail-only-paper", gpus=64, radix=16, hb_size=8, fabric="rail-optimized"
    ).table()()


SHEETS_OF_CABLES = {**SHEETS, "netbox-cables": netbox_cables}


def saved(folder: Path, sheet: PlanSheet, ending: str) -> Path:
    path = folder / f"{sheet.name}{ending}".replace(" ", "-")
    if ending == ".xlsx":
        path.write_bytes(sheet_xlsx(sheet))
    else:
        path.write_text("".join(sheet_csv(sheet)), encoding="utf-8")
    return path


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
@pytest.mark.parametrize("to", ["plan", "netbox-cables", "ufm-ethernet", "ufm-infiniband"])
def test_every_table_reads_back_to_the_same_cables(tmp_path: Path, to: str, ending: str) -> None:
    plan = saved(tmp_path, small_plan(), ".csv")
    path = saved(tmp_path, SHEETS_OF_CABLES[to](cable_plan(GRAPH)), ending)
    assert len(read_cables(path)) == 128  # 64 host links, 64 to the spines
    assert compare_cables(plan, path).differences == ()
    ends = {frozenset((cable.a, cable.z)) for cable in read_cables(path)}
    assert ends == {frozenset((cable.a, cable.z)) for cable in cables_of(GRAPH)}


@pytest.mark.parametrize(
    ("ending", "lines"),
    [(".graphml", graphml_lines), (".csv", edge_list_lines), (".topo", topo_lines)],
)
def test_graphs_read_back_to_the_same_cables(tmp_path: Path, ending: str, lines: object) -> None:
    assert callable(lines)
    path = tmp_path / f"fabric{ending}"
    path.write_text("".join(lines(GRAPH)), encoding="utf-8")
    plan = saved(tmp_path, small_plan(), ".csv")
    assert compare_cables(plan, path).differences == ()


IBNETDISCOVER = """\
Switch\t64 "S-1"\t# "sw01" enhanced port 0 lid 1 lmc 0
[1]\t"H-1"[1]\t# "gpu-0" lid 2 4xNDR
[6]\t"H-2"[1]\t# "gpu-1" lid 3 4xHDR

Ca\t1 "H-1"\t# "gpu-0"
[1]\t"S-1"[1]\t# lid 2 lmc 0 "sw01" lid 1 4xNDR

Ca\t1 "H-2"\t# "gpu-1"
[1]\t"S-1"[6]\t# lid 3 lmc 0 "sw01" lid 1 4xHDR

Ca\t1 "H-3"\t# "gpu-2"
"""


def test_ibnetdiscover_as_built_with_a_cable_missing(tmp_path: Path) -> None:
    built, plan = tmp_path / "hall.ibnetdiscover", tmp_path / "plan.csv"
    built.write_text(IBNETDISCOVER, encoding="utf-8")
    lines = ("gpu-0,1,sw01,1,400", "gpu-1,1,sw01,2,400", "gpu-2,1,sw01,3,400")
    plan.write_text(PLAN + "\n".join(lines) + "\n", encoding="utf-8")
    assert [d.instruction for d in compare_cables(plan, built).differences] == [
        "move the cable from sw01/6 to sw01/2 (its other end is gpu-1/1)",
        "replace the cable from gpu-1/1 to sw01/2: it runs at 200 Gb/s, planned are 400 Gb/s",
        "connect gpu-2/1 to sw01/3 at 400 Gb/s",
    ]


def test_a_spreadsheet_saved_by_another_program(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    page = book.active
    assert page is not None
    page.append(["a_device", "a_port", "z_device", "z_port", "gbps"])
    page.append(["gpu-0", 1, "sw01", 5.0, 400])  # numbers, and shared strings
    page.append([])
    page.append(["gpu-1", "2", "sw01", "swp6", None])
    path = tmp_path / "plan.xlsx"
    book.save(path)
    first, second = read_cables(path)
    assert (str(first), first.gbps, first.line) == ("gpu-0/1 - sw01/5", 400.0, 2)
    assert (str(second), second.line) == ("gpu-1/2 - sw01/swp6", 4)


def test_formulas_stay_text_in_what_is_written(tmp_path: Path) -> None:
    sheet = PlanSheet("P2P", ("name", "gbps"), iter([("=HYPERLINK(0)", "400")]))
    assert list(sheet_csv(sheet))[1] == "'=HYPERLINK(0),400\n"
    path = saved(tmp_path, PlanSheet("P2P", ("name", "gbps"), iter([("=1+1", "400")])), ".xlsx")
    page = openpyxl.load_workbook(path).active
    assert page is not None
    assert [cell.data_type for cell in page[2]] == ["s", "n"]
    assert [cell.value for cell in page[2]] == ["=1+1", 400]


def test_columns_are_as_wide_as_their_texts(tmp_path: Path) -> None:
    label = "gpu-32767:1--rail-254/leaf-0:128"
    path = saved(tmp_path, PlanSheet("P2P", ("label", "gbps"), iter([(label, "400")])), ".xlsx")
    page = openpyxl.load_workbook(path).active
    assert page is not None
    assert page.column_dimensions["A"].width > len(label)


def test_the_same_plan_gives_the_same_bytes() -> None:
    one, two = (
        cables("rail-only-paper", gpus=64, radix=16, hb_size=8, fabric="rail-only").xlsx()
        for _ in range(2)
    )
    assert one == two


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PLAN + "=cmd|' /C calc'!A0,1,sw01,2,400\n", ":2: \"=cmd|' /C calc'!A0\" cannot be"),
        (PLAN + "<b>gpu</b>,1,sw01,2,400\n", ":2: '<b>gpu</b>' cannot be a device"),
        (PLAN + "gpu-0,,sw01,2,400\n", ":2: '' cannot be a device or port"),
        (PLAN + "gpu-0,1,sw01,2,-400\n", ":2: gbps: got '-400', give a rate above 0"),
        (PLAN + "gpu-0,1,sw01,2,inf\n", ":2: gbps: got 'inf', give a rate above 0"),
        (PLAN + "gpu-0,1,sw01,2,400,9\n", ":2: expected 5 fields, got 6"),
        (PLAN.replace("gbps", "color") + "a,1,b,2,red\n", ":1: unknown column 'color'"),
        (PLAN, ":1: the table holds no cables"),
        ("", ":1: no table of cables: give the columns a_device"),
        ("name,x\na,b\n", ":1: no table of cables"),
        (NETBOX + 'sw01,dcim.interface,"1\n', ": not CSV: "),
        (UFM + "gpu-0,Host,1,sw01,Switch,2\ngpu-1,Host,1,sw01,Switch,2\n", ":3: port sw01/2 is in"),
    ],
)
def test_hostile_csv(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plan.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError) as error:
        compare_cables(path, path)
    assert str(error.value).startswith(f"{path}:")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_wrong_encoding_and_too_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.csv"
    path.write_bytes(PLAN.encode() + "gpu-ä,1,sw01,2,400\n".encode("latin-1"))
    with pytest.raises(CatalogError, match=r"plan.csv:2: not UTF-8 text"):
        read_cables(path)
    assert tables.MAX_CABLES == 1_000_000
    monkeypatch.setattr(tables, "MAX_CABLES", 10_000)
    path.write_text(PLAN + "a,1,b,2,4\n" * 10_001, encoding="utf-8")
    with pytest.raises(CatalogError, match=r"more than 10,000 rows"):
        read_cables(path)


SHEET = "xl/worksheets/sheet1.xml"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("other.xml", b"<a/>", "damaged spreadsheet: a part of it is missing"),
        (SHEET, b"<worksheet><row>", "damaged spreadsheet"),
        (SHEET, b'<?xml version="1.0" encoding="UTF78"?><a/>', "unknown encoding"),
        (SHEET, b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "it declares a document type"),
        (SHEET, b'<a><row r="1"><c r="1" t="s"><v>9</v></c></row></a>', "'1' is no cell"),
        (SHEET, b'<a><row r="1"><c r="A1" t="s"><v>9</v></c></row></a>', "damaged spreadsheet"),
    ],
)
def test_hostile_spreadsheets(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / "plan.xlsx"
    with_first_sheet(path, name, content)
    with pytest.raises(CatalogError, match=message) as error:
        read_cables(path)
    assert str(error.value).startswith(f"{path}: ")


def with_first_sheet(path: Path, name: str, content: bytes) -> None:
    """A workbook whose first sheet is the part sheet1.xml, if that is there."""
    sheet = b'<workbook xmlns:r="r"><sheets><sheet name="P2P" r:id="1"/></sheets></workbook>'
    part = b'<Relationships><Relationship Id="1" Target="worksheets/sheet1.xml"/></Relationships>'
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("xl/workbook.xml", sheet)
        book.writestr("xl/_rels/workbook.xml.rels", part)
        book.writestr(name, content)


def test_the_first_sheet_is_the_one_that_the_book_names_first(tmp_path: Path) -> None:
    # As a spreadsheet program saves a book whose sheets somebody has moved.
    path = tmp_path / "plan.xlsx"
    book = openpyxl.Workbook()
    notes, plan = book.active, book.create_sheet("Plan")
    assert notes is not None
    notes.append(["Notes", "of", "nobody"])
    plan.append(["a_device", "a_port", "z_device", "z_port", "gbps"])
    plan.append(["gpu-0", 1, "leaf-0", 17.0, 400])
    book.save(path)
    kept = tmp_path / "moved.xlsx"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(kept, "w") as new:
        for part in old.namelist():
            content = old.read(part)
            if part == "xl/workbook.xml":
                one, two = re.findall(rb"<sheet .*?/>", content)
                content = content.replace(one + two, two + one)
            new.writestr(part, content)
    with pytest.raises(CatalogError, match="no table of cables"):
        read_cables(path)
    (cable,) = read_cables(kept)
    assert (cable.a, cable.z, cable.gbps) == (("gpu-0", "1"), ("leaf-0", "17"), 400.0)


def test_not_even_a_spreadsheet(tmp_path: Path) -> None:
    path = tmp_path / "plan.xlsx"
    path.write_bytes(b"PK\x03\x04 no zip")
    with pytest.raises(CatalogError, match=r"plan.xlsx: no spreadsheet"):
        read_cables(path)
    with pytest.raises(CatalogError, match=r"none.xlsx: cannot be read"):
        read_cables(tmp_path / "none.xlsx")

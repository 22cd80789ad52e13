"""One declared answer in every form: the same numbers, and no text of a user gets its way."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.reports.answer import Answer
from netplan.reports.quantities import Cell, Quantity, Scale, nomenclature, quantity
from netplan.reports.sections import (
    Bars,
    Column,
    Heading,
    Heat,
    Notes,
    Paragraph,
    Section,
    Table,
    Verbatim,
    column,
    data_tables,
)

HOSTILE = "<script>x</script>=1+1 [red]\x1b[2J|`a`\u202e"
Row = dict[str, Cell]


def cell(name: str, **facts: Any) -> Column[Row]:  # noqa: ANN401
    return column(name, lambda row: row[name], **facts)


@dataclass(frozen=True)
class Sample(Answer):
    """An answer with every kind of section."""

    rows: tuple[Row, ...]
    name: str = HOSTILE

    def to_dict(self) -> dict[str, Any]:
        return {"rows": list(self.rows)}

    def sections(self) -> Iterator[Section]:
        yield Heading(f"Title {self.name}", ("books",))
        columns = [cell("fabric"), cell("switches", mark=lambda _: ("≥ ", "*")), cell("tiers")]
        yield Table("fabrics", columns, self.rows, title="Counts", legend=("≥: at least.",))
        yield Table("fabrics", [cell("fabric"), cell("mfu", shown="wide")], self.rows)
        power = [cell("fabric"), cell("power_w")]
        yield Table("power", power, self.rows, closing=({"fabric": "Total", "power_w": 5e3},))
        yield Bars("parts", "Parts", quantity("iteration_time_s"), (("a", 3.0), ("b", 1.0)), 4.0)
        yield Heat("heat", "Heat", quantity("memory_bytes"), ("x", "y"), ((1e9, 0.0), (1e3, 1.0)))
        yield Paragraph("Buy it.", "strong")
        yield Notes.of([(self.name, ["one", "two"]), ("b", ["two"])], "all")
        yield Verbatim(("a  b",))


ROWS = tuple(
    {"fabric": name, "switches": count, "tiers": None, "mfu": 0.375, "power_w": 1234.5}
    for name, count in ((HOSTILE, 1280), ("rail-only", 256))
)
SAMPLE = Sample(ROWS)


def test_csv_has_all_tables_with_raw_values() -> None:
    rows = list(csv.DictReader(io.StringIO(SAMPLE.csv())))
    assert [row["table"] for row in rows] == ["fabrics"] * 2 + ["power"] * 2 + ["parts"] * 2 + [
        "heat"
    ] * 4
    assert rows[1]["fabric"] == "rail-only"
    assert (rows[1]["switches"], rows[1]["mfu"], rows[1]["tiers"]) == ("256", "0.375", "")
    assert rows[3]["power_w"] == "1234.5"
    assert (rows[4]["part"], rows[4]["share"]) == ("a", "0.75")
    cells = [(row["sends"], row["receives"], row["memory_bytes"]) for row in rows[6:]]
    # Rows of the drawing send.
    assert cells[:3] == [("x", "x", "1000000000.0"), ("x", "y", "0.0"), ("y", "x", "1000.0")]


def test_no_row_of_a_table_of_the_same_name_is_lost() -> None:
    tables = [Table("power", [cell("fabric"), cell("power_w")], [row]) for row in ROWS]
    with pytest.raises(ValueError, match="tables 'power' have different rows"):
        data_tables(tables)


def test_one_table_needs_no_column_for_its_name() -> None:
    frame = SAMPLE.to_frame()
    assert list(frame.columns) == ["switches", "tiers", "mfu"]
    assert frame.loc["rail-only", "switches"] == 256


def test_csv_cells_are_no_formulas_and_no_commands() -> None:
    rows = Sample(({**ROWS[0], "fabric": "=1+1\x1b[2J"},)).csv().splitlines()
    assert "'=1+1\ufffd[2J" in rows[1]


def test_csv_cells_are_no_commands_of_a_terminal() -> None:
    text = Sample(({**ROWS[0], "fabric": HOSTILE},)).csv()
    assert all(sign.isprintable() or sign == "\n" for sign in text)


@pytest.mark.parametrize("width", [40, 80, 140])
@pytest.mark.parametrize("colour", [False, True])
def test_text_neither_overflows_nor_steers_the_terminal(width: int, *, colour: bool) -> None:
    text = SAMPLE.text(width, colour=colour)
    assert "\x1b[2J" not in text
    assert "\u202e" not in text
    if not colour:
        assert max(len(line) for line in text.splitlines()) <= width
        assert "≥ 1,280*" in text
        assert ("38 %" in text) == (width >= 120)
        assert "5" in text.split("Total")[1].splitlines()[0]


def test_a_table_wider_than_the_terminal_goes_on_below() -> None:
    names = [f"column {number}" for number in range(12)]
    columns: list[Column[int]] = [Column(Quantity("row", "row"), lambda _: "first")]
    columns += [Column(Quantity(n, n, form="count"), lambda row: row) for n in names]

    class Wide(Sample):
        def sections(self) -> Iterator[Section]:
            yield Table("wide", columns, [1_000_000])

    text = Wide(()).text(60)
    assert max(len(line) for line in text.splitlines()) <= 60
    assert all(name in text for name in names)
    assert text.count("1,000,000") == 12
    assert text.count("first") > 1


def test_prose_beside_wide_columns_keeps_its_words() -> None:
    names = ("Acme Networks", "Bolt Networks", "Cabling and more", "Distribution")
    prose = Quantity("item", "item", form="prose")
    columns: list[Column[int]] = [Column(prose, lambda _: "Transceiver, multimode, 400G")]
    columns += [Column(Quantity(n, n, form="count"), lambda row: row) for n in names]

    class Wide(Sample):
        def sections(self) -> Iterator[Section]:
            yield Table("wide", columns, [1_000_000])

    for width in (60, 80, 100):
        text = Wide(()).text(width)
        assert max(map(len, text.splitlines())) <= width
        assert "Transceiver," in text
        assert "multimode" in text
        assert "Cabling and more" in text


def test_pages_and_fragments_escape_every_text() -> None:
    for page in (SAMPLE.html(), SAMPLE._repr_html_()):
        assert "<script>x" not in page
        assert "&lt;script&gt;x" in page
        assert "\x1b" not in page
        assert "\u202e" not in page
        assert "1,280*" in page
    assert "default-src 'none'" in SAMPLE.html()
    assert len(SAMPLE.html()) < 60_000  # no chart, no library of charts


def test_markdown_escapes_and_shows_all_tables() -> None:
    text = SAMPLE.markdown()
    assert "<script>" not in text
    assert "≥ 1,280\\*" in text
    assert text.count("|---|") >= 4
    assert "**Buy it.**" in text


def test_spreadsheets_hold_values_not_formulas() -> None:
    book = openpyxl.load_workbook(io.BytesIO(SAMPLE.xlsx()))
    assert book.sheetnames == ["Fabrics", "Power", "Parts", "Heat", "Notes"]
    sheet = book["Fabrics"]
    assert [one.value for one in sheet[3]][:2] == ["rail-only", 256]
    assert sheet["A2"].data_type == "s"
    assert SAMPLE.xlsx() == SAMPLE.xlsx()
    assert [cell.value for cell in sheet[1]] == ["Fabric", "switches", "tiers", "MFU"]
    # 1,234.5 W are 1.2345 kW; 1 kB of 1 GB is a millionth of a GB.
    assert [cell.value for cell in book["Power"][1]][1] == "Typical power of the network, kW"
    assert book["Power"]["B2"].value == 1.2345
    assert [row[2].value for row in book["Heat"].iter_rows()][1:] == [1, 0, 1e-6, 1e-9]


def test_json_is_the_dictionary() -> None:
    assert json.loads(Sample((ROWS[1],)).json()) == Sample((ROWS[1],)).to_dict()


def test_every_quantity_of_the_table_is_complete() -> None:
    for name, one in nomenclature().items():
        assert one.title, name
        assert one.meaning, name
        assert one.shown(None) == "-"
        if one.numeric:
            assert one.shown(1.5)
    units = {"_s": "s", "_bytes": "B", "_w": "W", "_gbps": "Gb/s", "_usd": "USD"}
    for name, one in nomenclature().items():
        for ending, unit in units.items():
            if name.endswith(ending) and not name.endswith("_per_s"):
                assert one.unit == unit, name


@given(st.floats(min_value=1, max_value=1e13))
def test_money_has_one_scale(largest: float) -> None:
    scale = Scale.of(largest, "EUR")
    assert scale.title == ("M EUR" if largest >= 1e6 else "k EUR")
    shown = float(scale.of_money("cost_base").shown(largest).replace(",", ""))
    assert shown * scale.factor == pytest.approx(largest, abs=0.5 * scale.factor)


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("xyz"), max_size=3)))
def test_notes_lose_nothing_and_repeat_nothing(notes: dict[str, list[str]]) -> None:
    groups = Notes.of(notes.items()).groups
    told = {
        (one, text)
        for subject, texts in groups
        for one in subject.split(", ")
        for text in texts.split()
    }
    assert told == {(one, text) for one, texts in notes.items() for text in texts}
    texts = [text for _, joined in groups for text in joined.split()]
    assert len(texts) == len(set(texts))

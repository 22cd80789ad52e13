"""What a terminal shows first fits 25 lines of 80 columns, whatever its names and rows are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from netplan.records import replace
from netplan.reports.quantities import Quantity
from netplan.reports.screen import MOST_LINES, WIDTH, Screen, columns_of, more_of, texts_of
from netplan.reports.sections import Column, Heading, Notes, Paragraph, Table, column
from netplan.reports.terminal import terminal_text

Row = tuple[str, int]
COLUMNS: list[Column[Row]] = [
    column(Quantity("fabric", "fabric"), "0"),
    column(Quantity("switches", "switches", form="count"), "1"),
    column(Quantity("notes", "notes"), "0", shown="data"),
]
PLAIN = Screen(Heading("hgx-b200: a title"), ("Order rail-only.",), more="More: --details")


def table(rows: int, columns: list[Column[Row]] = COLUMNS) -> Table[Row]:
    return Table("rows", columns, [(f"fabric-{number}", number) for number in range(rows)])


def lines(screen: Screen, width: int = WIDTH) -> list[str]:
    return terminal_text(screen.sections(), width).splitlines()


def test_what_fits_stands_whole() -> None:
    screen = replace(PLAIN, table=table(3), remarks=("First.", "Second."))
    assert lines(screen) == [
        *("hgx-b200: a title", "", "Order rail-only.", ""),
        *("fabric     switches", "───────────────────"),
        *(f"fabric-{number}          {number}" for number in range(3)),
        *("", "First.", "Second.", "", "More: --details"),
    ]


def test_remarks_give_way_before_rows_and_the_last_one_first() -> None:
    # 25 lines: heading, verdict, more and three empty ones are 6, two above the rows, 14 rows; of
    # the three left a paragraph takes an empty one and as many lines as it has.
    screen = replace(PLAIN, table=table(14), remarks=("First.", "Second.", "Third."))
    shown = lines(screen)
    assert len(shown) == MOST_LINES
    assert shown[-4:] == ["First.", "Second.", "", "More: --details"]


def test_rows_give_way_before_firm_remarks() -> None:
    """Ten of fourteen remarks stay, and as many of fourteen rows as there is room for."""
    remarks = tuple(f"Remark {number}." for number in range(14))
    screen = replace(PLAIN, table=table(14), remarks=remarks, firm_remarks=10)
    text = lines(screen)
    assert len(text) <= MOST_LINES
    shown = [line for line in text if line.startswith("Remark")]
    assert shown == list(remarks[:10])
    assert 3 <= sum(line.startswith("fabric-") for line in text) < 14
    soft = lines(replace(screen, firm_remarks=0))
    assert sum(line.startswith("fabric-") for line in soft) == 14


def test_rows_that_do_not_fit_are_counted() -> None:
    shown = lines(replace(PLAIN, table=table(1_000), remarks=("First.",)))
    assert len(shown) == MOST_LINES
    # Four lines above the table with its two, two below, one that counts: 16 rows of 1,000.
    assert shown[-3] == "and 984 more: --details"
    assert shown[6].startswith("fabric-0")
    few = lines(replace(PLAIN, table=table(1_000), most_rows=5))
    assert "and 995 more: --details" in few


def test_lines_of_the_heading_give_way_before_the_verdict() -> None:
    heading = Heading("title", tuple(f"assumption {number}" for number in range(40)))
    verdict = ("Order rail-only.", "It is cheaper.")
    shown = lines(replace(PLAIN, heading=heading, verdict=verdict, table=table(40)))
    assert len(shown) == MOST_LINES
    assert "assumption 0" in shown
    assert "Order rail-only. It is cheaper." in shown
    assert sum(line.startswith("fabric-") for line in shown) == 3


def test_columns_that_do_not_fit_beside_the_others_are_left_out() -> None:
    wide: list[Column[Row]] = [
        column(Quantity(f"c{number}", f"a title of thirty signs no. {number}"), "0")
        for number in range(5)
    ]
    shown = lines(replace(PLAIN, table=table(2, wide)))
    # Of five columns three stay, which a terminal shows in two parts.
    assert "no. 2" in "".join(shown)
    assert "no. 3" not in "".join(shown)


def test_columns_of_one_quantity_give_way_one_by_one_and_are_counted() -> None:
    """A chart's columns are of one quantity: three of eight fit, and the others are counted."""
    quantity = Quantity("time_s", "a title of twenty ch", form="count")
    name: Column[Row] = column(Quantity("fabric", "fabric"), "0")
    shown = lines(replace(PLAIN, table=table(2, [name, *8 * [column(quantity, "1")]])))
    heading = next(line for line in shown if line.startswith("fabric "))
    assert heading.count(quantity.title) == 3
    assert "and 5 more columns: --details" in shown


@given(
    title=st.text(max_size=400),
    assumptions=st.lists(st.text(max_size=200), max_size=30),
    verdict=st.lists(st.text(min_size=1, max_size=600), min_size=1, max_size=8),
    names=st.lists(st.text(max_size=300), max_size=40),
    remarks=st.lists(st.text(max_size=300), max_size=9),
)
def test_any_screen_fits(
    title: str, assumptions: list[str], verdict: list[str], names: list[str], remarks: list[str]
) -> None:
    screen = Screen(
        Heading(title, tuple(assumptions)),
        tuple(verdict),
        Table("rows", COLUMNS, [(name, number) for number, name in enumerate(names)]),
        tuple(remarks),
    )
    shown = lines(screen)
    assert len(shown) <= MOST_LINES
    assert all(cell_len(line) <= WIDTH for line in shown)


def test_sections_stand_in_their_order() -> None:
    screen = replace(PLAIN, table=table(1), remarks=("First.",))
    kinds = [type(section) for section in screen.sections()]
    assert kinds == [Heading, Paragraph, Table, Notes, Paragraph]


def test_the_last_line_names_what_there_is_more() -> None:
    assert more_of() == "More: --details (all tables and notes), -o page.html"
    assert more_of("", "--top 9", page=False) == "More: --details, --top 9"


def test_columns_and_texts_are_found_by_name() -> None:
    shown = columns_of(table(1), "switches", "fabric", "missing")
    assert [one.quantity.name for one in shown] == ["switches", "fabric"]
    barred = [*COLUMNS, column(Quantity("switches", "switches"), "0")]
    # Of two columns of one quantity the last one that people see counts.
    assert texts_of(barred, ("rail-only", 768))["switches"] == "rail-only"


@pytest.mark.parametrize("width", [60, 120, 200])
def test_other_widths_show_the_same(width: int) -> None:
    shown = lines(replace(PLAIN, table=table(4), remarks=("First.",)), width)
    assert shown[-1] == "More: --details"
    assert len(shown) <= MOST_LINES

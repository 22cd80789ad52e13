"""The spreadsheet: totals equal the JSON's, formulas live, text inert."""

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from openpyxl import Workbook, load_workbook

from netplan.answers.cost_answer import CostAnswer
from netplan.questions.cost import cost
from netplan.setup.money.pricing import CASES
from tests.questions.spreadsheet import evaluate, recalculated

START = 14  # first row of the fabrics on the sheet Summary
HEADS = 4  # row of the heads of a bill


@pytest.fixture(scope="module")
def answer() -> CostAnswer:
    return cost(
        "rail-only-paper",
        gpus=4096,
        radix=64,
        hb_size=8,
        fabrics=("rail-only", "fat-tree"),
        spares="2%",
        discount=0.1,
        currency="EUR",
        prices="2026",
    )


def opened(answer: CostAnswer, *, cached: bool = False) -> Workbook:
    """Read the spreadsheet back, as formulas or as the values written with them."""
    return load_workbook(io.BytesIO(answer.xlsx()), data_only=cached)


def formulas(book: Workbook) -> list[tuple[str, str]]:
    """Sheet and cell of every formula."""
    return [
        (sheet.title, cell.coordinate)
        for sheet in book.worksheets
        for row in sheet.iter_rows()
        for cell in row
        if cell.data_type == "f"
    ]


def test_every_formula_works_out_to_the_value_written_with_it(answer: CostAnswer) -> None:
    live, cached = opened(answer), opened(answer, cached=True)
    cells = formulas(live)
    assert len(cells) > 100
    for sheet, cell in cells:
        value = cached[sheet][cell].value
        worked = evaluate(live, sheet, cell)
        # Nothing is offered yet: no difference.
        # Values are written to the cent, prices to a ten-thousandth of one.
        same = worked == "" if value is None else abs(worked - value) < 0.006 + 1e-7 * abs(value)
        assert same, (sheet, cell)


def test_totals_equal_the_json(answer: CostAnswer) -> None:
    live = opened(answer)
    columns = {
        "C": "capital",
        "D": "capital_per_gpu",
        "G": "energy_per_year",
        "H": "annuity_per_year",
        "I": "cost_per_year",
        "J": "cost_over_life",
    }
    for number, data in enumerate(ordered(answer)):
        for offset, case in enumerate(CASES):
            row = START + number * len(CASES) + offset
            assert live["Summary"][f"A{row}"].value == data["fabric"]
            assert live["Summary"][f"B{row}"].value == case
            for column, key in columns.items():
                worked = evaluate(live, "Summary", f"{column}{row}")
                assert worked == pytest.approx(data[key][case], rel=1e-7)
            mwh = evaluate(live, "Summary", f"F{row}")
            assert 1000 * mwh == pytest.approx(data["energy_kwh_per_year"][case], rel=1e-7)


def test_the_total_over_the_years_equals_the_json(answer: CostAnswer) -> None:
    live = opened(answer)
    parts = {
        "D": "energy_per_year",
        "E": "maintenance_per_year",
        "F": "support_per_year",
        "G": "spares_per_year",
        "H": "discounting",
        "I": "present_value",
    }
    first = START + 2 * len(CASES) + 2
    for number, data in enumerate(ordered(answer)):
        for offset, case in enumerate(CASES):
            row = first + number * len(CASES) + offset
            assert live["Summary"][f"A{row}"].value == data["fabric"]
            for column, key in parts.items():
                worked = evaluate(live, "Summary", f"{column}{row}")
                assert worked == pytest.approx(data["life"][key][case], rel=1e-7), key


def ordered(answer: CostAnswer) -> list[dict[str, Any]]:
    """Fabrics of the JSON in the order of the sheets: that of the lowest price first."""
    fabrics = [data for data in answer.to_dict()["fabrics"] if data["cost"]]
    least = min(fabrics, key=lambda data: data["cost"]["base"])
    return [least, *(data for data in fabrics if data is not least)]


def bill_cell(book: Workbook, head: str, line: int) -> str:
    """Cell of the order under a head, in the row of a line from 0 on."""
    heads = [str(cell.value).partition(", EUR")[0] for cell in book["Order"][HEADS]]
    return str(book["Order"].cell(HEADS + 1 + line, 1 + heads.index(head)).coordinate)


def test_a_bill_has_columns_to_negotiate_in(answer: CostAnswer) -> None:
    live = opened(answer)
    sheet = live["Order"]
    bill = next(bill for bill in answer.bills if bill.name == ordered(answer)[0]["fabric"])
    items = bill.quote.items
    target = bill_cell(live, "Target, each", 0)
    assert evaluate(live, "Order", target) == pytest.approx(items[0].unit_price.base)
    # 5 % below the target for the first line, 40 a piece above a target of 100 for the second.
    sheet[target].value = 1000.0
    sheet[bill_cell(live, "Offered, each", 0)].value = 950.0
    sheet[bill_cell(live, "Target, each", 1)].value = 100.0
    sheet[bill_cell(live, "Offered, each", 1)].value = 140.0
    assert evaluate(live, "Order", bill_cell(live, "Difference, each", 0)) == -50
    total = bill_cell(live, "Difference, order", len(items))
    expected = -50 * items[0].line.order + 40 * items[1].line.order
    assert evaluate(live, "Order", total) == pytest.approx(expected)


def test_the_first_sheet_is_the_order_alone(answer: CostAnswer) -> None:
    book = opened(answer, cached=True)
    (first, second) = (data["fabric"] for data in ordered(answer))
    bill = next(bill for bill in answer.bills if bill.name == first)
    sheet = book.worksheets[0]
    assert (sheet.title, sheet.freeze_panes) == ("Order", "C5")
    words = [str(cell.value) for row in sheet.iter_rows() for cell in row if cell.value]
    assert words[0].startswith(f"{first}: 4,096 GPUs")
    assert f"{first} costs least" in words[1]
    assert book.sheetnames[3] == f"Bill 2 {second}"  # the other one alone has a bill of its own
    heads = [cell.value for cell in sheet[HEADS]]
    assert heads[:8] == [
        *("Category", "Item", "Specification", "Part number", "Quantity", "Spares", "Order", "Unit")
    ]
    assert heads[8:12] == ["Each, EUR", "Total at low, EUR", "Total, EUR", "Total at high, EUR"]
    totals = [
        sheet.cell(HEADS + 1 + len(bill.quote.items), column).value for column in (10, 11, 12)
    ]
    ends = bill.capital
    assert totals == [pytest.approx(end, abs=0.006) for end in (ends.low, ends.base, ends.high)]


def digits(value: float) -> int:
    """Digits of a number as a spreadsheet's line of input shows it, without zeros at its ends."""
    return len(f"{abs(value):.15g}".replace(".", "").partition("e")[0].strip("0"))


def test_no_number_has_thirteen_digits(answer: CostAnswer) -> None:
    book = opened(answer, cached=True)
    numbers = [
        (sheet.title, cell.coordinate, cell.value)
        for sheet in book.worksheets
        for row in sheet.iter_rows()
        for cell in row
        if isinstance(cell.value, float)
    ]
    assert len(numbers) > 100
    assert [known for known in numbers if digits(known[2]) > 12] == []


def test_every_sheet_prints_one_page_wide(answer: CostAnswer) -> None:
    book = opened(answer)
    for sheet in book.worksheets:
        properties = sheet.sheet_properties.pageSetUpPr
        assert properties is not None
        assert properties.fitToPage
        assert sheet.page_setup.fitToHeight == 0
        footer = sheet.HeaderFooter.oddFooter
        assert footer is not None
        assert footer.right.text == "&P / &N"
    bill, lines = book["Order"], len(ordered(answer)[0]["items"])
    assert bill.page_setup.orientation == "landscape"
    assert bill.print_title_rows == "$4:$4"
    assert bill.auto_filter.ref == f"A4:P{HEADS + lines}"
    assert str(bill.print_area).endswith(f"$P${HEADS + lines + 2}")  # the total, and of one GPU
    assert book["Summary"]["B4"].number_format == "0.0#%"
    assert book["Summary"]["C8"].number_format == "0.0#%"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("soffice") is None, reason="needs LibreOffice")
def test_libreoffice_works_out_the_same_totals(answer: CostAnswer, tmp_path: Path) -> None:
    """With other prices than those that stand beside the formulas, so that it has to count."""
    live = opened(answer)  # openpyxl drops the values of formulas
    prices = live["Prices"]
    row = next(r for r in range(2, 20) if prices[f"A{r}"].value == "transceiver at 400 Gb/s")
    prices[f"D{row}"].value += 100
    live.save(tmp_path / "bill.xlsx")
    counted = load_workbook(recalculated(tmp_path / "bill.xlsx"), data_only=True)["Summary"]
    bills = {bill.name: bill for bill in answer.bills}
    for number, bill in enumerate(bills[data["fabric"]] for data in ordered(answer)):
        units = bill.quote.priced_parts["transceiver at 400 Gb/s"][0]
        at = START + number * len(CASES) + CASES.index("base")
        # 100 more in the book's currency, less the discount of a tenth.
        expected = bill.capital.base + 90 * units
        assert counted[f"C{at}"].value == pytest.approx(expected, rel=1e-8)
        low = counted[f"J{at - 1}"].value
        assert low == pytest.approx(bill.life.total.low, rel=1e-8)
        life = START + 2 * len(CASES) + 2 + number * len(CASES)
        low = counted[f"I{life}"].value
        assert low == pytest.approx(bill.life.present_value.low, rel=1e-8)


PAPER = {
    # 32,768 GPUs, 128 ports: 5 x 32,768 / 128 = 1,280 switches, 3 x 32,768 links of two ends:
    # 1,280 x 128 ports at 748, 2 x 98,304 ends at 374.
    "rail-optimized": 163_840 * 748 + 196_608 * 374,
    # Leaves alone: 256 switches, 32,768 links.
    "rail-only": 32_768 * 748 + 65_536 * 374,
}
LESS = {
    # 4,096 GPUs, 64 ports, a tenth off, 2 % spares rounded up: 320 switches and 7, 24,576 ends and
    # 492; on 8 rails 16 leaves and 8 spines each: 192 switches and 4, 16,384 ends and 328.
    "fat-tree": 0.9 * (327 * 64 * 748 + 25_068 * 374),
    "rail-only": 0.9 * (196 * 64 * 748 + 16_712 * 374),
}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("soffice") is None, reason="needs LibreOffice")
def test_four_bills_worked_out_by_hand_are_the_same_everywhere(tmp_path: Path) -> None:
    paper = cost("rail-only-paper", gpus=32_768, radix=128)
    less = cost(
        "rail-only-paper",
        gpus=4096,
        radix=64,
        hb_size=8,
        fabrics=("fat-tree", "rail-only"),
        spares="2%",
        discount=0.1,
        accelerator="h100-80gb",
    )
    for answer, by_hand in ((paper, PAPER), (less, LESS)):
        path = tmp_path / f"{answer.bills[0].name}.xlsx"
        opened(answer).save(path)  # without the values of formulas
        summary = load_workbook(recalculated(path), data_only=True)["Summary"]
        rows = ordered(answer)
        for number, (name, expected) in enumerate(
            (row["fabric"], by_hand[row["fabric"]]) for row in rows
        ):
            at = START + number * len(CASES) + CASES.index("base")
            assert (rows[number]["fabric"], summary[f"A{at}"].value) == (name, name)
            assert summary[f"C{at}"].value == pytest.approx(expected, abs=0.005)
            assert rows[number]["capital"]["base"] == pytest.approx(expected, abs=0.005)
            for text in (answer.text(140, details=True), answer.html(), answer.markdown()):
                assert f"{expected / 1e6:,.1f}" in text
            read = csv.DictReader(io.StringIO(answer.csv()))
            mine = [row for row in read if (row["table"], row["fabric"]) == ("fabrics", name)]
            assert float(mine[0]["cost_base"]) == pytest.approx(expected, abs=0.005)


def test_a_changed_price_moves_every_total(answer: CostAnswer) -> None:
    live = opened(answer)
    prices = live["Prices"]
    row = next(r for r in range(2, 20) if prices[f"A{r}"].value == "transceiver at 400 Gb/s")
    before = evaluate(live, "Summary", f"C{START + 1}")
    prices[f"D{row}"].value *= 2
    (least,) = (bill for bill in answer.bills if bill.name == ordered(answer)[0]["fabric"])
    units, offer = least.quote.priced_parts["transceiver at 400 Gb/s"]
    after = evaluate(live, "Summary", f"C{START + 1}")
    assert after - before == pytest.approx(units * offer.base)


def test_a_changed_discount_moves_every_total(answer: CostAnswer) -> None:
    live = opened(answer)
    before = evaluate(live, "Summary", f"C{START}")
    live["Summary"]["B4"].value = 0.55
    assert evaluate(live, "Summary", f"C{START}") == pytest.approx(before * 0.45 / 0.9)


def test_no_interest_does_not_divide_by_zero(answer: CostAnswer) -> None:
    live = opened(answer)
    live["Summary"]["C8"].value = 0
    row = START + 1
    expected = ordered(answer)[0]["capital"]["base"] / answer.inputs["years"]
    assert evaluate(live, "Summary", f"H{row}") == pytest.approx(expected)


def test_quantity_breaks_keep_their_own_price_row(tmp_path: Path) -> None:
    shipped = Path("costing/prices/2026.yaml").read_text(encoding="utf-8")
    text = shipped.replace('name: "2026"', "name: mine").replace(
        "    low: 368.94\n    base: 611.95\n",
        "    low: 368.94\n    base: 611.95\n    breaks: [{quantity: 100000, price: 600}]\n",
    )
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    answer = cost("rail-only-paper", gpus=32_768, radix=128, prices=str(path))
    live = opened(answer)
    rows = list(live["Prices"].iter_rows(values_only=True))
    found = {(row[3], row[8]) for row in rows if row[0] == "transceiver at 400 Gb/s"}
    # 196,608 link ends reach the break, 65,536 do not.
    assert found == {(600, "rail-optimized"), (611.95, "rail-only")}
    for number, data in enumerate(ordered(answer)):
        worked = evaluate(live, "Summary", f"C{START + 1 + 3 * number}")
        assert worked == pytest.approx(data["cost"]["base"], rel=1e-12)


HOSTILE = ("=HYPERLINK(1)", "+1", "-2+3", "@SUM(1)", "http://x.example", "123", "a:b/c*d?[e]'")


@pytest.mark.parametrize("name", HOSTILE)
def test_text_of_users_is_never_live(tmp_path: Path, name: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"name: {json.dumps(name)}\ntitle: x\nsource: x\ndate: '2026'\nfamily: rail-only\n"
        f"notes: [{json.dumps(name)}]\n",
        encoding="utf-8",
    )
    answer = cost("rail-only-paper", gpus=1024, radix=64, fabrics=(str(path), "rail-only"))
    live = opened(answer)
    assert live["Summary"][f"A{START}"].value == name
    assert live["Summary"][f"A{START}"].data_type == "s"
    ours = (
        "=Prices!",
        "=SUM(",
        "='Bill",
        "='Order'",
        "=K",
        "=L",
        "=J",
        "=IF(",
        "=1*IF(",
        *(f"={one}" for one in "CDEFGHI"),
    )
    for sheet, cell in formulas(live):
        formula = live[sheet][cell].value
        assert formula.startswith(ours)
        assert name not in re.sub(r"'[^']*'!", "", formula)
    files = ZipFile(io.BytesIO(answer.xlsx())).namelist()
    assert not any("hyperlink" in file.lower() or "external" in file.lower() for file in files)


def test_two_fabrics_of_one_long_name_have_a_sheet_each(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("mine.yaml", "yours.yaml")]
    for path in paths:
        path.write_text(
            f"name: {'x' * 60}\ntitle: x\nsource: x\ndate: '2026'\nfamily: rail-only\n",
            encoding="utf-8",
        )
    book = opened(cost("rail-only-paper", gpus=1024, radix=64, fabrics=tuple(map(str, paths))))
    assert len({title.lower() for title in book.sheetnames}) == 6


def test_the_same_answer_gives_the_same_bytes(answer: CostAnswer) -> None:
    assert answer.xlsx() == answer.xlsx()


def test_what_has_no_price_or_power_is_empty_not_0() -> None:
    # 66.7 and 100 Gb/s in a torus: nothing of the first has a price or a power, and cards of the
    # second no power.
    found = cost(
        "rail-only-paper", gpus=32768, radix=128, fabrics=("torus-3d", "torus-2d"), prices="2026"
    )
    live = opened(found)
    rows = list(live["Summary"].iter_rows(min_row=START, values_only=True))
    flat, last = rows[1], str(rows[-1][0])
    assert flat[:2] == ("torus-2d", "base")
    assert None not in flat[2:10]
    assert "no power: Network card port, 100G" in str(flat[10])
    # What has no price has no sheet: a line says why.
    assert last.startswith("torus-3d has no whole price, and so no sheet: no price: Transceiver")
    assert not any("torus-3d" in name for name in live.sheetnames)
    alone = opened(
        cost("rail-only-paper", gpus=32768, radix=128, fabrics="torus-3d", prices="2026")
    )
    order = [cell.value for row in alone["Order"].iter_rows() for cell in row]
    assert alone.sheetnames[0] == "Order"
    assert order.count("no price") == 3  # modules, cards, and the sum


def test_an_end_that_no_book_states_follows_the_base(tmp_path: Path) -> None:
    shipped = Path("costing/prices/2026.yaml").read_text(encoding="utf-8")
    text = shipped.replace('name: "2026"', "name: mine").replace(
        "    low: 1070.71\n    base: 1499\n    high: 2500\n", "    base: 1499\n"
    )
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    book = opened(cost("rail-only-paper", gpus=4096, radix=64, prices=str(path)))
    rows = {row[0].value: row for row in book["Prices"].iter_rows(min_row=2)}
    card = rows["network card at 400 Gb/s"]
    assert [cell.value for cell in card[2:5:2]] == [f"={card[3].coordinate}"] * 2
    assert [cell.data_type for cell in rows["transceiver at 400 Gb/s"][2:5]] == ["n"] * 3

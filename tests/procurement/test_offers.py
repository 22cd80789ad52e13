"""Requests written, filled in by another library, and read back; bad offers one line each."""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from openpyxl import Workbook, load_workbook

from netplan.costing.offers import Request, RequestLine
from netplan.errors import CatalogError, InputError
from netplan.procurement.offer_files import (
    CURRENCY,
    DELIVERY,
    DISCOUNT,
    DISCOUNT_FROM,
    HIDDEN,
    LINES,
    OFFER,
    VALID,
    request_xlsx,
)
from netplan.procurement.offers import offers
from netplan.procurement.offers_answer import OffersAnswer, Requested
from tests.cli.command import netplan, refused
from tests.procurement.offer_cases import Filled, Value, cell_of, label_row, line
from tests.questions.spreadsheet import recalculated

ASKED = Request(
    "A pod",
    (
        line("L1-01", "Switches", 10, "MQM9700-NS2F"),
        line("L2-01", "Cables", 100),
        line("L2-02", "Cables", 40),
    ),
)
PRICES = {"L1-01": 1000, "L2-01": 50, "L2-02": 20.5}
WEEKS = "Lead time, weeks"


def compared(*paths: Path, **more: object) -> OffersAnswer:
    answer = offers(scenario="rail-only-paper", files=paths, **more)
    assert isinstance(answer, OffersAnswer)
    return answer


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """a is cheaper in switches, slow; b in cables, with terms."""
    tmp_path = tmp_path_factory.mktemp("offers")
    slow = {("L1-01", WEEKS): 20, ("L2-01", WEEKS): 3, ("L2-02", WEEKS): 3}
    a = Filled(PRICES, slow).into(tmp_path / "a.xlsx", ASKED)
    b = Filled(
        {"L1-01": 1100, "L2-01": 40, "L2-02": 20},
        {("L1-01", WEEKS): 12, ("L2-01", WEEKS): 4, ("L2-02", WEEKS): 4},
        {DELIVERY: 100, VALID: 46357},
        {"Cables": 0.1},
    ).into(tmp_path / "b.xlsx", ASKED)
    return a, b


def test_two_offers_by_hand(two: tuple[Path, Path]) -> None:
    answer = compared(*two)
    # a whole: 10,000 + 5,000 + 820. b whole: 11,000 + 0.9 x (4,000 + 800) + 100.
    wholes = {row.name: row.bought.total for row in answer.wholes}
    assert wholes == {"a": 15_820, "b": pytest.approx(15_420)}
    # The mix, 14,420 as below, is 1,000 less than b, the cheapest that is whole.
    record = answer.to_dict()["decision"]
    assert (record["kind"], record["winner"], record["runner_up"]) == ("buy", "a and b", "b")
    assert record["margin_money"]["base"] == pytest.approx(1_000)
    # Switches of a, cables of b: 10,000 + 4,320 + 100.
    assert answer.best.total == pytest.approx(14_420)
    assert answer.best.chosen == (0, 1, 1)
    assert (answer.best.weeks, answer.best.binding) == (20, ("L1-01",))
    # Without discounts: 10,000 + 4,800 + 100 = 14,900.
    assert answer.undiscounted is not None
    assert answer.undiscounted.total == pytest.approx(14_900)
    assert [(one.total, one.weeks) for one in answer.front[1:]] == [(wholes["b"], 12)]
    assert answer.market.offers[1].terms == (("Valid until", "2026-12-01"),)
    assert "Cheapest whole offer: b, 15,420 USD (+6.9 %), 12 weeks" in " ".join(answer.verdict)


def test_a_limit_on_time_and_on_suppliers(two: tuple[Path, Path]) -> None:
    assert compared(*two, weeks=12).limited == compared(*two).front[1]
    late = compared(*two, weeks=11)
    assert late.limited is None
    said = "No mix is delivered within 11 weeks: L1-01 Switches of L1-01 (12 weeks from b)."
    assert said in late.verdict
    assert compared(*two, suppliers=1).best.total == pytest.approx(15_420)


def test_every_form_has_the_same_total(two: tuple[Path, Path]) -> None:
    answer = compared(*two)
    data = answer.to_dict()
    assert json.loads(answer.json()) == data
    assert data["choices"][0]["total"] == pytest.approx(14_420)
    assert data["choices"][0]["lines"] == {"L1-01": "a", "L2-01": "b", "L2-02": "b"}
    for text in (answer.text(80), answer.text(140), answer.markdown(), answer.html()):
        assert "14,420" in text
    assert "14420.0" in answer.csv()
    book = load_workbook(io.BytesIO(answer.xlsx()))
    assert book["Choices"]["B2"].value == pytest.approx(14_420)


def test_equals_are_taken_and_other_parts_are_not(tmp_path: Path, two: tuple[Path, Path]) -> None:
    other = Filled(PRICES | {"L1-01": 1}, {("L1-01", "Offered part number"): "SN5600"})
    path = other.into(tmp_path / "c.xlsx", ASKED)
    answer = compared(*two, path)
    assert answer.best.total == pytest.approx(14_420)
    assert "SN5600, which was not asked for" in answer.text(140)
    assert compared(*two, path, accept=("sn5600",)).best.total == pytest.approx(10 + 4_320 + 100)
    same = Filled(PRICES | {"L1-01": 1}, {("L1-01", "Offered part number"): " mqm9700-NS2F "})
    answer = compared(*two, same.into(tmp_path / "c.xlsx", ASKED))
    assert answer.best.chosen[0] == 2


def test_minimum_orders_and_what_nobody_offers(tmp_path: Path) -> None:
    few = {"L1-01": 1000, "L2-01": 50}
    least = {("L2-01", "Minimum order"): 250}
    path = Filled(few, least).into(tmp_path / "a.xlsx", ASKED)
    answer = compared(path)
    assert answer.best.total == 10_000 + 250 * 50
    assert "12,500*" in answer.text(80, details=True)
    assert "Nobody offers L2-02" in answer.text(80)


def test_a_sum_for_a_discount_is_in_the_currency_of_the_offer(tmp_path: Path) -> None:
    cover: dict[str, Value] = {CURRENCY: "chf", DISCOUNT: 0.1, DISCOUNT_FROM: 15_820}
    path = Filled(PRICES, cover=cover).into(tmp_path / "a.xlsx", ASKED)
    answer = compared(path, rates=("CHF=1.25",))
    # 15,820 CHF reach their sum exactly; 90 % of it at 1.25.
    assert answer.best.total == pytest.approx(0.9 * 15_820 * 1.25)


def test_a_price_of_0_is_said_and_a_rate_is_given_once(tmp_path: Path) -> None:
    path = Filled(PRICES | {"L2-01": 0}).into(tmp_path / "a.xlsx", ASKED)
    assert "A price of 0 for L2-01 Cables of L2-01: taken as free" in compared(path).markdown()
    with pytest.raises(InputError, match="another rate is given"):
        compared(path, rates=("CHF=1.1", "CHF=1.2"))
    with pytest.raises(InputError, match="the answer is in EUR: leave it out"):
        compared(path, rates=("EUR=2",), currency="EUR")


def test_a_part_number_of_digits_may_become_a_number(tmp_path: Path) -> None:
    """As it does in a spreadsheet that somebody typed it into again."""
    asked = Request("A pod", (line("L1-01", "Cables", 100, "9809570000"),))
    given = {("L1-01", "Part number"): 9809570000, ("L1-01", "Offered part number"): 9809570000}
    answer = compared(Filled({"L1-01": 5}, given).into(tmp_path / "a.xlsx", asked))
    assert answer.best.total == 500


def test_rows_may_be_sorted_and_moved(tmp_path: Path, two: tuple[Path, Path]) -> None:
    def spoil(book: Workbook) -> None:
        sheet = book[LINES]
        rows = [[cell.value for cell in row] for row in sheet.iter_rows(min_row=4, max_row=6)]
        sheet.insert_rows(1, 2)
        for number, row in enumerate(reversed(rows), start=6):
            for column, value in enumerate(row, start=1):
                sheet.cell(number, column).value = value

    moved = Filled(PRICES, spoil=spoil).into(tmp_path / "c.xlsx", ASKED)
    assert compared(two[0], moved).wholes[1].bought.total == 15_820


def set_(sheet: str, cell: str, value: Value) -> Callable[[Workbook], None]:
    def spoil(book: Workbook) -> None:
        book[sheet][cell] = value

    return spoil


def without(sheet: str) -> Callable[[Workbook], None]:
    return lambda book: book.remove(book[sheet])


def price(value: Value) -> Callable[[Workbook], None]:
    return set_(LINES, cell_of(ASKED, "L2-01", "Unit price"), value)


def cover(label: str, value: Value) -> Callable[[Workbook], None]:
    def spoil(book: Workbook) -> None:
        book[OFFER].cell(label_row(book, label), 2).value = value

    return spoil


BAD: dict[str, tuple[Callable[[Workbook], None], str]] = {
    "currency": (cover(CURRENCY, "XAU"), "Offer!B8: currency XAU: no rate to USD in prices"),
    "no code": (cover(CURRENCY, "dollars"), "Offer!B8: 'DOLLARS' is no currency: write its three"),
    "none": (cover(CURRENCY, None), "Lines!L4: a price without a currency: write it here"),
    "quantity": (set_(LINES, "I4", 8), "Lines!I4: order of L1-01 was 10, got 8: keep it as sent"),
    "id": (set_(LINES, "B4", "L9-01"), "Lines!B4: 'L9-01' is no line of the request"),
    "twice": (set_(LINES, "B5", "L1-01"), "Lines!B5: line L1-01 stands twice, first in B4"),
    "gone": (lambda book: book[LINES].delete_rows(6), "Lines!B3: line L2-02 is gone"),
    "number": (set_(LINES, "C4", "X"), "part number of L1-01 was 'MQM9700-NS2F', got 'X': write"),
    "head": (set_(LINES, "K3", "Preis"), "Lines!A3: no column 'Unit price': keep the heads"),
    "text": (price("1,200.50"), "Lines!K5: unit price: '1,200.50' is text, not a number"),
    "formula": (price("'=5*10"), 'Lines!K5: unit price: "\'=5*10" is a formula as text'),
    "unsaved": (price("=5*10"), "Lines!K5: unit price: a formula saved without its value"),
    "negative": (price(-5), "Lines!K5: unit price -5 is negative: give 0 or more"),
    "large": (price(1e13), "Lines!K5: unit price 1e+13 is out of range: give up to"),
    "error": (price("#REF!"), "Lines!K5: unit price: the formula says #REF!: type the number"),
    "units": (set_(LINES, "M5", 2.5), "Lines!M5: minimum order 2.5 is no whole number of units"),
    "share": (cover(DISCOUNT, 5), "is out of range: give below 100%"),
    "terms": (cover(DELIVERY, "free"), "lump sum: 'free' is text, not a number: type the number"),
    "no sheet": (without(LINES), "sheet Lines is missing (it belongs to a request)"),
    "not ours": (without(HIDDEN), "sheet netplan is missing (hidden, it says what was asked)"),
    "hidden": (set_(HIDDEN, "G5", 9), "netplan!B2: what was asked has been changed"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_a_bad_offer_is_one_line(name: str, tmp_path: Path, two: tuple[Path, Path]) -> None:
    spoil, said = BAD[name]
    bad = Filled(PRICES, spoil=spoil).into(tmp_path / "bad.xlsx", ASKED)
    out = tmp_path / "answer.json"
    error = refused(
        "offers", "--scenario", "rail-only-paper", str(two[0]), str(bad), "-o", str(out)
    )
    mine = [one for one in error.splitlines() if said in one]
    assert len(mine) == 1, error
    assert mine[0].removeprefix("netplan: ").startswith(f"{bad}: ")
    assert not out.exists()


def test_all_faults_of_all_files_are_told_at_once(tmp_path: Path, two: tuple[Path, Path]) -> None:
    bad = [
        Filled(PRICES | {"L1-01": -1, "L2-01": "x"}).into(tmp_path / f"{name}.xlsx", ASKED)
        for name in ("c", "d")
    ]
    with pytest.raises(CatalogError) as found:
        compared(*two, *bad)
    assert [text.partition(": ")[0] for text in found.value.args] == [str(bad[0])] * 2 + [
        str(bad[1])
    ] * 2


def test_an_offer_on_another_request_is_refused(tmp_path: Path, two: tuple[Path, Path]) -> None:
    other = Request("Another pod", ASKED.lines)
    path = Filled(PRICES).into(tmp_path / "c.xlsx", other)
    with pytest.raises(CatalogError, match=r"c\.xlsx: netplan!B2: answers request .* compare"):
        compared(*two, path)


def repacked(path: Path, part: str, content: bytes) -> Path:
    """The file with one part of another content."""
    with ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    with ZipFile(path, "w", ZIP_DEFLATED) as new:
        for name, before in parts.items():
            new.writestr(name, content if name == part else before)
    return path


HEAD = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
CELL = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData></worksheet>'
HOSTILE = {
    "bomb": (b" " * (17 << 20), "unpacks to more than 16 MiB"),
    "far": (HEAD + CELL, "cell XFD1048576: a table has at most 20,000 rows"),
    "entities": (b'<!DOCTYPE x [<!ENTITY a "b">]><worksheet/>', "declares a document type"),
    "cut": (HEAD, "damaged spreadsheet"),
    "string": (
        HEAD + b'<row><c t="s"><v>-1</v></c></row></sheetData></worksheet>',
        "'-1' is no count",
    ),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_a_hostile_file_is_one_line(name: str, tmp_path: Path, two: tuple[Path, Path]) -> None:
    content, said = HOSTILE[name]
    path = Path(shutil.copy(two[1], tmp_path))
    repacked(path, "xl/worksheets/sheet2.xml", content)
    error = refused("offers", "--scenario", "rail-only-paper", str(two[0]), str(path))
    assert said in error
    assert error.count("\n") == 1


def test_a_file_that_is_too_large_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    with path.open("wb") as file:
        file.truncate(17 << 20)
    assert "larger than 16 MiB: no filled request" in refused(
        "offers", "--scenario", "rail-only-paper", str(path)
    )


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"line,price\nL1-01,5\n"])
def test_what_is_no_spreadsheet_is_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(content)
    assert "no spreadsheet, or damaged: save it as XLSX" in refused(
        "offers", "--scenario", "rail-only-paper", str(path)
    )


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("soffice") is None, reason="needs LibreOffice")
def test_an_offer_that_libreoffice_saved_is_read(tmp_path: Path, two: tuple[Path, Path]) -> None:
    """Its formulas have values, hidden sheet and percent stay."""
    prices: dict[str, Value] = {"L1-01": "=40*25", "L2-01": 50, "L2-02": "=K5/2-4.5"}
    path = Filled(prices, lots={"Cables": 0.1}).into(tmp_path / "c.xlsx", ASKED)
    saved = recalculated(path)
    answer = compared(two[0], saved)
    # 10,000 + 0.9 x (5,000 + 40 x 20.5).
    assert answer.wholes[0].bought.total == pytest.approx(15_238)
    filled = load_workbook(saved, data_only=True)[LINES]
    assert filled["O7"].value == pytest.approx(15_820)  # its own sum, before discounts


class LaterLine(RequestLine, frozen=True):
    """A line of a later netplan, which has one more field."""

    warranty_years: int = 3


@pytest.mark.parametrize("kind", [RequestLine, LaterLine])
def test_a_request_that_was_sent_keeps_its_fingerprint(kind: type[RequestLine]) -> None:
    """A golden hash: suppliers' files hold it, so no later field of a line may change it."""
    equals = ("MQM9790-NS2F", "920-9B210-00FN-0M0")
    switch = kind(
        id="L1-01",
        lot="Switches",
        part_number="MQM9700-NS2F",
        accepted=equals,
        description="Switch à 64 ports",
        unit="each",
        quantity=40,
        spares=2,
    )
    cable = kind("L2-01", "Cables", "", (), "Copper cable, 2 m", "each", 1280, 0)
    assert Request("A pod of 1,024 GPUs", (switch, cable)).fingerprint == "941d63d0436752f0"


def test_the_request_names_no_price_and_prints_one_page_wide() -> None:
    asked = offers(
        scenario="rail-only-paper",
        gpus=1024,
        radix=64,
        fabrics="rail-only",
        spares="2%",
        prices="2026",
    )
    assert isinstance(asked, Requested)
    again = Request(asked.request.title, asked.request.lines)
    assert again.fingerprint == asked.request.fingerprint
    assert not any("hb-gear" in one or "HB" in one for one in asked.request.lots)
    book = load_workbook(io.BytesIO(asked.xlsx()))
    sheet = book[LINES]
    assert (sheet.page_setup.orientation, sheet.page_setup.fitToHeight) == ("landscape", 0)
    properties = sheet.sheet_properties.pageSetUpPr
    assert properties is not None
    assert properties.fitToPage
    assert sheet.print_title_rows == "$3:$3"
    assert sheet.print_area
    assert book[HIDDEN].sheet_state == "hidden"
    given = "Unit price"
    assert sheet[cell_of(asked.request, "L1-01", given)].value is None
    assert sheet[cell_of(asked.request, "L1-01", given)].protection.locked is False
    amounts = {cell.value for one in book for row in one.iter_rows() for cell in row}
    # The book's prices of a switch port, a link end and a card stand nowhere.
    assert not amounts & {374.0, 659.0, 1499.0, 50_000.0}


def test_a_request_is_for_one_fabric_and_files_come_alone(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="for one fabric: give --fabric once, got 2"):
        offers(scenario="rail-only-paper", gpus=64, radix=16, fabrics=("rail-only", "fat-tree"))
    with pytest.raises(InputError, match="nothing to do: give --gpus and --fabric"):
        offers(scenario="rail-only-paper")
    path = Filled(PRICES).into(tmp_path / "a.xlsx", ASKED)
    with pytest.raises(InputError, match="--fabric rail-only means nothing for offers without"):
        offers(scenario="rail-only-paper", files=[path], fabrics="rail-only")
    assert "--template writes a request" in refused(
        "offers", "--scenario", "rail-only-paper", str(path), "--template", "x.xlsx"
    )


def test_offers_answer_the_bill_that_is_asked_for_again(tmp_path: Path) -> None:
    bill = ("--gpus", "256", "--radix", "64", "--fabric", "rail-only", "--prices", "2026")
    done = netplan(
        "offers", "--scenario", "rail-only-paper", *bill, "--template", "rfq.xlsx", cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "wrote rfq.xlsx\n")
    asked = offers(
        scenario="rail-only-paper", gpus=256, radix=64, fabrics="rail-only", prices="2026"
    )
    assert isinstance(asked, Requested)
    assert (tmp_path / "rfq.xlsx").read_bytes() == request_xlsx(asked.request)
    prices = {line.id: 100 for line in asked.request.lines}
    path = Filled(prices).into(tmp_path / "a.xlsx", asked.request)
    found = json.loads(
        netplan(
            "offers", "--scenario", "rail-only-paper", str(path), *bill, "--format", "json"
        ).stdout
    )
    priced = json.loads(netplan("cost", "rail-only-paper", *bill, "--format", "json").stdout)[
        "fabrics"
    ][0]["items"]
    bases = sorted(one["total"]["base"] for one in priced if one["total"])
    assert sorted(found["estimates"].values()) == bases
    error = refused("offers", "--scenario", "rail-only-paper", str(path), *bill, "--spares", "2%")
    assert "these options make" in error

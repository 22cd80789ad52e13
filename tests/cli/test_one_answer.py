"""The same cluster asked for in several ways has one price, to the cent, in every form."""

import csv
import io
import json
from functools import cache
from pathlib import Path

import openpyxl
import pytest

from netplan.explore.state import State
from netplan.explore.views import view_of
from tests.cli.command import netplan

FABRIC = "rail-only"


@cache
def prices_in_json() -> dict[str, float]:
    """Base price of the network of every command with nothing said, by its words.

    A report orders spares, too, unless told not to.
    """
    main = json.loads(
        netplan("compare", "--gpus", "32768", "--radix", "128", "--format", "json").stdout
    )
    bare = json.loads(netplan("compare", "--format", "json").stdout)
    bills = json.loads(netplan("cost", "--format", "json").stdout)
    report = json.loads(
        netplan("report", "procurement", "--spares", "0%", "--format", "json").stdout
    )
    front = json.loads(netplan("optimize", "--format", "json").stdout)["front"]
    (full,) = (row for row in front if row["fabric"] == FABRIC and row["oversubscription"] == 1)
    compared = {
        name: row["cost"]["base"]
        for name, answer in (("main", main), ("compare", bare))
        for row in answer["fabrics"]
        if row["fabric"] == FABRIC
    }
    billed = {
        name: row["capital"]["base"]
        for name, rows in (("cost", bills["fabrics"]), ("report", report["cost"]["fabrics"]))
        for row in rows
        if row["fabric"] == FABRIC
    }
    return compared | billed | {"optimize": full["cost"]["base"]}


def test_every_command_says_one_price() -> None:
    prices = prices_in_json()
    assert set(prices) == {"main", "compare", "cost", "report", "optimize"}
    assert len({f"{price:.2f}" for price in prices.values()}) == 1, prices


def test_a_report_orders_the_spares_that_others_name_beside_the_price() -> None:
    size = ("--gpus", "1024", "--no-timing", "--format", "json")
    compared = json.loads(netplan("compare", *size).stdout)["decision"]["answers"]
    ordered = json.loads(netplan("report", "procurement", *size).stdout)
    bare = json.loads(netplan("report", "procurement", "--spares", "0%", *size).stdout)
    (full, less) = (
        next(row for row in data["cost"]["fabrics"] if row["fabric"] == FABRIC)
        for data in (ordered, bare)
    )
    more = full["capital"]["base"] - less["capital"]["base"]
    assert more > 0
    assert f"{more / 1e3:.1f} k USD, to be added to the price" in compared["spares"]
    assert f"{more / 1e3:.1f} k USD, on the bill" in ordered["decision"]["answers"]["spares"]


def test_tables_and_spreadsheets_say_it_too(tmp_path: Path) -> None:
    (price,) = {round(price, 2) for price in prices_in_json().values()}
    rows = csv.DictReader(io.StringIO(netplan("compare", "--format", "csv").stdout))
    (row,) = (row for row in rows if row["fabric"] == FABRIC)
    assert float(row["cost_base"]) == pytest.approx(price, abs=0.005)
    path = tmp_path / "compare.xlsx"
    assert netplan("compare", "-o", str(path)).returncode == 0
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    cells = [cell for sheet in book for line in sheet.iter_rows(values_only=True) for cell in line]
    numbers = [cell for cell in cells if isinstance(cell, (int, float))]
    assert any(number == pytest.approx(price, abs=0.005) for number in numbers)


def test_the_page_of_what_ifs_begins_there() -> None:
    state = State.of()
    assert (state.gpus, state.radix, state.accelerator) == (32_768, 128, "b200-1000w")
    (price,) = {round(price, 2) for price in prices_in_json().values()}
    (mark,) = (mark for mark in view_of(state).marks if mark.name == FABRIC)
    assert 1e6 * mark.base == pytest.approx(price, abs=0.005)

"""The cost answer: Table 2 exact, JSON, frame, HTML, statements."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from netplan.catalog import shipped_root
from netplan.costing.prices import PRICE_BOOKS
from netplan.errors import InfeasibleError, InputError, NetplanError
from netplan.questions.compare import compare
from netplan.questions.cost import cost

TABLE_2 = shipped_root() / "reports" / "published" / "rail-only-table2.csv"
ROWS = list(csv.DictReader(TABLE_2.read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['gpus']}-{row['radix']}")
def test_table_2_of_the_rail_only_paper_is_exact(row: dict[str, str]) -> None:
    gpus, radix = int(row["gpus"]), int(row["radix"])
    answer = cost("rail-only-paper", gpus=gpus, radix=radix, hb_size=256, prices="rail-only-2023")
    bills = {bill.name: bill for bill in answer.bills}
    for name, column in (("rail-optimized", "sota"), ("rail-only", "rail_only")):
        items = {item.line.category: item.line for item in bills[name].quote.items}
        assert items["switches"].quantity == int(row[f"{column}_switches"])
        assert items["transceivers"].quantity == int(row[f"{column}_transceivers"])
        expected = 748 * radix * items["switches"].quantity + 374 * items["transceivers"].quantity
        assert bills[name].capital.base == expected
    saved = 1 - bills["rail-only"].capital.base / bills["rail-optimized"].capital.base
    assert int(100 * saved) == int(row["cost_reduction_percent"])


def test_the_dictionary_is_json_and_adds_up() -> None:
    answer = cost(
        "rail-only-paper",
        gpus=1024,
        radix=64,
        accelerator="h100-80gb",
        switch="qm9700",
        spares="2%",
    )
    data = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    assert data["currency"] == "USD"
    for fabric in data["fabrics"]:
        assert fabric["ports_close"]
        for case in ("low", "base", "high"):
            lines = [item["total"][case] for item in fabric["items"] if item["total"]]
            assert fabric["capital"][case] == pytest.approx(sum(lines))
            assert fabric["capital_per_gpu"][case] == pytest.approx(fabric["capital"][case] / 1024)
            yearly = fabric["annuity_per_year"][case] + fabric["energy_per_year"][case]
            assert fabric["cost_per_year"][case] == pytest.approx(yearly)
        for item in fabric["items"]:
            assert item["order"] == item["quantity"] + item["spares"]
            assert (item["total"] is None) == (item["price_source"] is None)
        swings = [driver["swing"] for driver in fabric["drivers"]]
        assert swings == sorted(swings, reverse=True)
    assert any("storage" in part for part in data["left_out"])


def test_values_given_replace_the_books() -> None:
    answer = cost(
        "rail-only-paper",
        gpus=1024,
        radix=64,
        years=3,
        pue=1.2,
        tariff=0.2,
        interest=0.0,
        prices="rail-only-2023",
    )
    life = answer.bills[0].life
    power_kw = answer.bills[0].draw.typical_w / 1000
    assert life.energy_per_year.high == pytest.approx(power_kw * 8760 * 1.2 * 0.2)
    assert life.annuity_per_year.base == pytest.approx(answer.bills[0].capital.base / 3)


def test_upkeep_and_cooling_are_options_and_stand_in_every_form() -> None:
    answer = cost(
        "rail-only-paper",
        gpus=1024,
        radix=64,
        prices="2026",
        years=4,
        interest=0.0,
        pue=1.3,
        cooling=0.1,
        maintenance=0.02,
        support=0.05,
        yearly_spares=0.01,
    )
    data = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    assert (data["inputs"]["support"], data["inputs"]["cooling"]) == (0.05, 0.1)
    for fabric, bill in zip(data["fabrics"], answer.bills, strict=True):
        life, price = fabric["life"], fabric["capital"]["base"]
        # Without interest: the price, four times 8 % of it, and four years of energy.
        total = price + 4 * (0.08 * price + fabric["energy_per_year"]["base"])
        assert life["present_value"]["base"] == pytest.approx(total)
        assert life["support_per_year"]["base"] == pytest.approx(0.05 * price)
        cooled = life["cooling_per_year"]["base"] / life["energy_per_year"]["base"]
        assert cooled == pytest.approx(0.1 / 1.3)
        assert bill.life.present_value.base == pytest.approx(total)
    # Cooling in place of the book's own moves the PUE.
    assert cost("rail-only-paper", gpus=1024, radix=64, cooling=0.05).inputs["pue"] < 1.42
    with pytest.raises(InputError, match="--cooling -5%: give at least 0%"):
        cost("rail-only-paper", gpus=1024, radix=64, cooling=-0.05)


def test_euros_convert_prices_and_tariff_alike() -> None:
    dollars = cost("rail-only-paper", gpus=1024, radix=64).bills[0]
    euros = cost("rail-only-paper", gpus=1024, radix=64, currency="EUR").bills[0]
    assert euros.capital.base == pytest.approx(dollars.capital.base / 1.0411)
    assert euros.life.per_year.high == pytest.approx(dollars.life.per_year.high / 1.0411)


def test_a_discount_is_off_every_price() -> None:
    full = cost("rail-only-paper", gpus=1024, radix=64).bills[0].capital
    less = cost("rail-only-paper", gpus=1024, radix=64, discount=0.2).bills[0].capital
    assert less.base == pytest.approx(0.8 * full.base)


def test_break_even_statements() -> None:
    rail_only = cost("rail-only-paper", gpus=32_768, radix=128, prices="2026").statements[0]
    # It has fewer parts of each kind.
    told = "rail-only stays cheaper than rail-optimized at any price of any one part."
    assert rail_only == told
    same = cost("rail-only-paper", gpus=1024, radix=64, hb_size=8).statements[0]
    assert same == "rail-only and rail-optimized cost the same at base prices."
    either = cost(
        "rail-only-paper",
        gpus=4096,
        radix=64,
        hb_size=8,
        prices="2026",
        fabrics=("dragonfly", "rail-only"),
    )
    text = either.statements[0]
    assert " unless " in text
    # The price in the sentence is a break-even: at it, both cost the same.
    comparison = either.comparisons[0]
    assert len(text) < 320  # not a list of all lengths of cable
    assert any(found.price is not None for found in comparison.break_evens)


def test_a_fabric_that_cannot_be_built_keeps_its_place() -> None:
    answer = cost("rail-only-paper", gpus=4096, radix=8, fabrics=("rail-only", "dragonfly"))
    assert [bill.name for bill in answer.bills] == ["rail-only"]
    assert answer.refused[0].reason.startswith("Cannot be built: a dragonfly")
    data = answer.to_dict()["fabrics"]
    assert data[1]["capital"] is None
    assert set(data[0]) == set(data[1])
    assert "dragonfly" in answer.text(80, details=True)


def test_nothing_that_closes_is_an_error_with_both_ends() -> None:
    with pytest.raises(InfeasibleError, match="leaf to network card: lanes of 100 Gb/s at one end"):
        cost("rail-only-paper", gpus=1024, radix=64, accelerator="b200", switch="sn5600")


def test_frame_has_a_row_a_line() -> None:
    answer = cost("rail-only-paper", gpus=1024, radix=64)
    frame = answer.to_frame()
    assert isinstance(frame, pd.DataFrame)
    totals = frame.groupby("fabric")["total_base"].sum()
    assert dict(totals) == pytest.approx({bill.name: bill.capital.base for bill in answer.bills})


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("gpus", [8, 1024, 32_768, 4_194_304])
def test_the_text_fits(gpus: int, width: int) -> None:
    names = ("rail-optimized", "rail-only", "fat-tree", "torus-3d", "dragonfly")
    answer = cost("rail-only-paper", gpus=gpus, radix=256, fabrics=names, spares="2%")
    for text in (answer.text(width), answer.text(width, details=True)):
        assert max(len(line) for line in text.splitlines()) <= width
        assert "…" not in text
    assert "Not on the bill: storage" in answer.text(width, details=True)


def write_fabric(folder: Path, name: str) -> Path:
    """Write a fabric file whose names mean harm."""
    path = folder / "mine.yaml"
    path.write_text(
        f"name: {json.dumps(name)}\ntitle: {json.dumps(name)}\nsource: x\ndate: '2026'\n"
        f"family: rail-only\nnotes: [{json.dumps(name)}]\n",
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "[bold]x[/bold]", "a\x1b[31mb"])
def test_names_are_text_in_html_and_terminals(tmp_path: Path, name: str) -> None:
    path = write_fabric(tmp_path, name)
    answer = cost("rail-only-paper", gpus=1024, radix=64, fabrics=(str(path),))
    html = answer._repr_html_()
    assert "<script>" not in html
    text = answer.text(80, details=True)
    assert "\x1b" not in text
    if "[bold]" in name:
        assert "[bold]x[/bold]" in text


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"gpus": 7}, "7 GPUs are out of range"),
        ({"switch": "qm970"}, "unknown switch 'qm970': did you mean qm9700"),
        ({"switch": "sn5600"}, "has 128 ports of 400 Gb/s, got --radix 64"),
        ({"ocs": "palomar"}, "add --fabric torus-3d"),
        ({"currency": "CHF"}, "no rate from USD to CHF"),
        ({"currency": "=1+1"}, "no rate from USD to =1"),
        ({"discount": 1.0}, "--discount 100% is out of range"),
        ({"discount": -0.1}, "out of range"),
        ({"overrides": {"acelerator.hb_size": "8"}}, "did you mean accelerator"),
        ({"spares": "lots"}, "write 2% for all parts"),
    ],
)
def test_wrong_questions(question: dict[str, object], message: str) -> None:
    with pytest.raises(NetplanError) as caught:
        cost("rail-only-paper", **({"gpus": 1024, "radix": 64} | question))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_shipped_price_book_gives_an_answer() -> None:
    for name in PRICE_BOOKS.paths():
        assert cost("rail-only-paper", gpus=1024, radix=64, prices=name).bills


def test_a_missing_price_is_solved_for(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"gpus": 4096, "radix": 64, "hb_size": 8}
    asked["prices"] = "rail-only-2023"
    answer = cost("rail-only-paper", **asked, fabrics=("rail-only", "dragonfly"))
    told = next(one for one in answer.statements if "not compared" in one)
    (price,) = re.findall(r"if copper cables \(400G\) cost under (\d+) USD each", told)
    cables = compare("rail-only-paper", **asked, fabrics=("dragonfly",), timing=False).to_dict()[
        "fabrics"
    ][0]
    rail_only, dragonfly = answer.bills
    gap = rail_only.capital.base - dragonfly.capital.base
    assert float(price) == pytest.approx(gap / cables["copper_cables"], abs=0.5)
    folder = tmp_path / "costing" / "prices"
    folder.mkdir(parents=True)
    (folder / "ports.yaml").write_text(
        "name: ports\ntitle: t\nsource: s\ndate: '2026'\ncurrency: USD\n"
        "leaves_out: [fibre, rack]\nprices:\n"
        "  - {part: switch_port, speed_gbps: 400, unit: USD/port, base: 800, date: '2026',"
        " source: an offer, confidence: low}\n"
    )
    asked |= {"prices": "ports", "catalog": tmp_path}
    answer = cost("rail-only-paper", **asked, fabrics=("rail-only", "fat-tree"))
    (told,) = answer.statements
    # Rail-only has fewer switches and fewer transceivers.
    assert told == "rail-only costs less than fat-tree at any price of transceivers (400G)."

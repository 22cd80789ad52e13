"""``netplan cost``: its formats, and wrong input."""

import csv
import io
import json
from pathlib import Path

import pytest
from openpyxl import load_workbook

from tests.cli.command import netplan, refused, replaced

MAIN_JOB = ("cost", "rail-only-paper", "--gpus", "32768", "--radix", "128")
SMALL = ("cost", "rail-only-paper", "--gpus", "1024", "--radix", "64", "--accelerator", "h100-80gb")
BUYING = ("--prices", "2026")


def test_two_tiers_inside_hb_domains() -> None:
    """900 GB/s a GPU, 5.79 USD of switch each, half as much above; copper and optics one way."""
    data = json.loads(netplan(*MAIN_JOB, *BUYING, "--format", "json").stdout)
    ways = 32_768 * 450
    for row in data["fabrics"]:
        gear = row["inside_hb_domains"]
        parts = [item["total"]["base"] for item in gear["items"]]
        by_hand = [2 * ways * 5.79, ways * 5.79, ways * 2.28, ways * 16.1]
        assert parts == pytest.approx(by_hand, rel=1e-3)
        assert gear["cost"]["base"] == pytest.approx(sum(by_hand), rel=1e-3)
        # 12,288 ASICs of 800 W, and optics.
        assert gear["power_w"]["base"] > 12_288 * 800


def test_json_contract() -> None:
    arguments = ("--prices", "rail-only-2023", "--format", "json")
    data = json.loads(netplan(*MAIN_JOB, *arguments).stdout)
    assert data["inputs"]["gpus"] == 32_768
    assert data["inputs"]["prices"] == "rail-only-2023"
    bases = {row["fabric"]: row["capital"]["base"] for row in data["fabrics"]}
    assert bases == {"rail-optimized": 196_083_712.0, "rail-only": 49_020_928.0}
    assert data["comparisons"][0]["cheaper"] == "rail-only"


def test_csv_has_a_row_a_line() -> None:
    text = netplan(*SMALL, *BUYING, "--switch", "qm9700", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    first = rows[0]
    assert (first["fabric"], first["item"], first["order"]) == (
        "rail-optimized",
        "Switch qm9700",
        "48",
    )
    assert float(first["total_base"]) == 48 * 50_000


def test_markdown_has_a_row_a_line() -> None:
    lines = netplan(*SMALL, "--format", "markdown").stdout.splitlines()
    assert lines[0].startswith("# Bill of materials for 1,024 GPUs")
    assert any(line.startswith("| Item | Specification | order | unit |") for line in lines)
    assert any("Switch of 64 ports" in line for line in lines)


def test_xlsx_totals_equal_the_json(tmp_path: Path) -> None:
    path = tmp_path / "bill.xlsx"
    done = netplan(*SMALL, "--format", "xlsx", "-o", str(path))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith(f"wrote {path}: rail-only cheapest, ")
    summary = load_workbook(path, data_only=True)["Summary"]
    fabrics = json.loads(netplan(*SMALL, "--format", "json").stdout)["fabrics"]
    assert summary["C15"].value == fabrics[0]["capital"]["base"]


def test_csv_disarms_formulas_in_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: =1+1\ntitle: x\nsource: x\ndate: '2026'\nfamily: rail-only\n")
    text = netplan(*SMALL, "--fabric", str(path), "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["table"] for row in rows} == {"items", "fabrics", "years", "drivers"}
    assert all(row["fabric"] == "'=1+1" for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--switch", "qm970"), "unknown switch 'qm970': did you mean qm9700 or qm9790"),
        (("--switch", "sn5600"), "has 128 ports of 400 Gb/s, got --radix 64: give --radix 128"),
        (("--switch", "palomar"), "use --ocs palomar"),
        (("--ocs", "palomar"), "add --fabric torus-3d"),
        (("--currency", "CHF"), "no rate from USD to CHF: known: USD, EUR; add CHF under rates"),
        (("--spares", "lots"), "--spares 'lots': write 2% for all parts"),
        (("--spares", "optics=2%"), "unknown spares category 'optics'"),
        (("--discount", "100%"), "--discount 100% is out of range"),
        (("--discount", "10"), "'10' is not a percentage: write 10%"),
        (("--interest", "-7%"), "--interest -7%: give 0% to 100%"),
        (("--pue", "0.5"), "--pue 0.5: a facility draws at least"),
        (("--pue", "nan"), "finite numbers, got nan, "),
        (("--years", "0"), "--years 0: give 1 to 50"),
        (("--tariff", "-1"), "--tariff -1: give a price per kWh of at least 0"),
        (("--tariff", "inf"), "finite numbers, got 1.56, inf, "),
        (("--tariff", "1e308"), "--tariff 1e+308 is out of range: give a number to 1e+30"),
        (("--format", "xlsx"), "say where it goes with -o FILE"),
        (("--prices", "2027"), "unknown prices '2027': did you mean 2026"),
        (("--cabling", "nowhere"), "unknown cabling 'nowhere'"),
        (("--fabric", "dragonfly", "--radix", "8"), "holds at most 110 GPUs"),
        (
            ("--accelerator", "b200", "--switch", "s9321-64eo"),
            "leaf to network card: lanes of 100 Gb/s at one end, 200 at the other",
        ),
    ],
)
def test_wrong_options(arguments: tuple[str, ...], message: str) -> None:
    error = refused(*replaced(SMALL, arguments))
    assert message in error
    assert error.count("\n") == 1


def test_equal_bills_cost_as_much() -> None:
    said = " ".join(netplan("cost", "hgx-h100", "--gpus", "64", "--hb-size", "4").stdout.split())
    assert "0.19 M USD (0.13-0.29), as much as rail-only, at base prices." in said

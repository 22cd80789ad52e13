"""``netplan cost``: its formats, golden tables, and wrong input."""

import csv
import io
import json
from pathlib import Path

import pytest
from openpyxl import load_workbook

from tests.cli.command import netplan, refused, replaced
from tests.cli.test_compare import golden

MAIN_JOB = ("cost", "rail-only-paper", "--gpus", "32768", "--radix", "128")
SMALL = ("cost", "rail-only-paper", "--gpus", "1024", "--radix", "64", "--accelerator", "h100-80gb")
BUYING = ("--prices", "2026")


@pytest.mark.parametrize("columns", [80, 140])
def test_main_job_table(columns: int) -> None:
    done = netplan(*MAIN_JOB, "--prices", "2026", "--details", columns=columns)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(len(line) for line in done.stdout.splitlines()) <= columns
    golden(f"cost-{columns}.txt", done.stdout)


def test_switch_model_table() -> None:
    asked = (*SMALL, *BUYING, "--switch", "qm9700", "--spares", "2%", "--details")
    done = netplan(*asked, columns=140)
    golden("cost-qm9700.txt", done.stdout)


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

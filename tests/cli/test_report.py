"""``netplan report procurement``: files, formats, wrong input."""

import json
from pathlib import Path

import pytest
from openpyxl import load_workbook

from tests.cli.command import netplan, refused, without

SMALL = (
    "report",
    "procurement",
    "rail-only-paper",
    "--prices",
    "2026",
    "--gpus",
    "1024",
    "--radix",
    "64",
    "--no-timing",
)


def test_html_and_xlsx_next_to_each_other(tmp_path: Path) -> None:
    html, sheet = tmp_path / "report.html", tmp_path / "report.xlsx"
    done = netplan(*SMALL, "--date", "2026-01-31", "-o", str(html), "--xlsx", str(sheet))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith(f"wrote {html}")
    text = html.read_text(encoding="utf-8")
    assert text.endswith("</html>\n")
    assert "2026-01-31" in text
    data = json.loads(netplan(*SMALL, "--format", "json").stdout)
    cells = {
        (row[0], row[1]): row[2]
        for row in load_workbook(sheet, data_only=True)["Summary"].iter_rows(values_only=True)
    }
    for row in data["cost"]["fabrics"]:
        assert cells[row["fabric"], "base"] == pytest.approx(row["capital"]["base"], rel=1e-12)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.xlsx"]


def test_options_of_cost_and_compare(tmp_path: Path) -> None:
    options: tuple[str, ...] = (
        "--accelerator",
        "h100-80gb",
        "--hb-size",
        "8",
        "--switch",
        "qm9700",
    )
    options += ("--spares", "2%", "--years", "4", "--currency", "EUR", "--discount", "10%")
    options += ("--fabric", "rail-only", "--set", "economics.pue.base=1.5", "--format", "json")
    path = tmp_path / "report.json"
    done = netplan(*SMALL, *options, "-o", str(path))
    assert done.returncode == 0, done.stderr
    inputs = json.loads(path.read_text(encoding="utf-8"))["inputs"]
    shown = (inputs["switch"], inputs["spares"], inputs["years"], inputs["discount"])
    assert shown == ("qm9700", ["2%"], 4, 0.1)
    assert inputs["set"] == {"economics.pue.base": 1.5}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--gpus", "7"), "7 GPUs are out of range"),
        (("--fabric", "rail-onyl"), "unknown fabric 'rail-onyl': did you mean rail-only"),
        (("--date", "yesterday"), "--date 'yesterday' is not a date: write YYYY-MM-DD"),
        (("--set", "nothing.x=1"), "nothing"),
        (("--discount", "7"), "'7' is not a percentage"),
        (("--currency", "XXX"), "no rate from USD to XXX"),
        (("-o", "no/such/folder/report.html"), "cannot be written"),
        (("-o", "same", "--xlsx", "same"), "give two files"),
    ],
)
def test_wrong_input_is_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    line = refused(*without(SMALL, arguments[0]), *arguments, cwd=tmp_path)
    assert message in line
    assert line.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_older_report_survives_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")
    refused(*SMALL, "--fabric", "nothing", "-o", str(path))
    assert path.read_text(encoding="utf-8") == "old"


def test_tables_of_a_report_with_failures_keep_their_names() -> None:
    cluster = ("--gpus", "256", "--radix", "32", "--hb-size", "8", "--no-timing", "--faults")
    done = netplan(
        "report", "procurement", "rail-only-paper", "--prices", "2026", *cluster, "--format", "csv"
    )
    assert (done.returncode, done.stdout[:6]) == (0, "table,")
    tables = [line.split(",")[0] for line in done.stdout.splitlines()]
    assert tables.count("years") == tables.count("faults: years") == 2

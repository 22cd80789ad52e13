"""``netplan verify my-paper.yaml``: the same five grades, and one line for what is malformed."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from netplan.published.own_paper import paper_checks, read_paper
from netplan.published.verify import verify
from netplan.reports.sections import Section
from netplan.reports.terminal import terminal_text
from tests.cli.command import netplan

COMPARE = "compare rail-only-paper --gpus 32768 --radix 128 --no-timing"
SWITCHES = "fabrics.rail-only.switches"


def written(folder: Path, *rows: str) -> Path:
    """A file of rows, each with all that it needs."""
    path = folder / "my-paper.yaml"
    text = "\n".join(f"  - {{question: {COMPARE}, source: Table 1, {row}}}" for row in rows)
    path.write_text(f"rows:\n{text}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("row", "grade", "verdict"),
    [
        ("printed: 256", "exact", "pass"),
        ('printed: "256.0"', "exact", "pass"),
        # 256/250 - 1 = 2.4 %, and 256/240 - 1 = 6.7 %.
        ("printed: 250", "close", "pass"),
        ("printed: 250, tolerance: 0.02", "off", "known"),
        ("printed: 240", "off", "known"),
        ("printed: 240, tolerance: 0.1", "close", "pass"),
        ("printed: 240, baseline: 200", "trend", "known"),
        ("printed: 240, baseline: 250", "off", "known"),
        ("printed: 240, grade: source, reason: a slip of 16", "source", "known"),
        ("printed: 256, grade: source, reason: a slip of 16", "exact", "pass"),
        ("printed: 240, grade: off, reason: other ports", "off", "known"),
        ("printed: 250, grade: exact", "close", "fail"),
        ("printed: 240, grade: close", "off", "fail"),
        # A zero is one to its digits: 256 rounds to it in thousands alone.
        ("printed: 0", "off", "known"),
        ('printed: "0e3"', "exact", "pass"),
        # Digits of which a power of ten is out of range.
        ("printed: 0e400", "off", "known"),
        ("printed: 256e-400", "off", "known"),
    ],
)
def test_rows_have_the_same_five_grades(row: str, grade: str, verdict: str, tmp_path: Path) -> None:
    (check,) = verify(written(tmp_path, f"field: {SWITCHES}, {row}")).checks
    assert (check.got, check.grade, check.verdict) == ("256", grade, verdict)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('printed: "0.0058 s"', "printed: got 0.0058 s, and fabrics.rail-only.switches is a num"),
        ('printed: "0x10"', "printed: got 0x10, and fabrics.rail-only.switches is a number"),
        ("printed: none", "printed: got none, and fabrics.rail-only.switches is a number"),
        ("printed: 0, tolerance: 0.1", "rows.0: tolerance: 0.1 of a printed 0 is 0: leave"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(
    row: str, reason: str, tmp_path: Path
) -> None:
    path = written(tmp_path, f"field: {SWITCHES}, {row}")
    done = netplan("verify", str(path))
    assert done.returncode == 2
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("netplan:"))
    assert f"{path}:2: {reason}" in line


def test_a_question_without_an_answer_has_no_value(tmp_path: Path) -> None:
    path = tmp_path / "paper.yaml"
    path.write_text(
        "title: Too large\n"
        "rows:\n"
        "  - question: search rail-only-paper --gpus 8 --hb-size 8 --model gpt-1t --batch 8\n"
        "    field: plans.0.iteration_time_s\n"
        "    printed: 12\n"
        "    source: Fig. 1\n",
        encoding="utf-8",
    )
    found = verify(path)
    (check,) = found.checks
    assert (check.got, check.verdict, found.exit_code, found.title) == ("-", "fail", 1, "Too large")


def test_the_command_has_a_screen_json_and_an_exit_code(tmp_path: Path) -> None:
    good = written(tmp_path, f"field: {SWITCHES}, printed: 256, name: switches")
    done = netplan("verify", str(good))
    assert done.returncode == 0
    assert "1 exact, 0 close, 0 trend, 0 off, 0 source; 0 fail." in done.stdout
    assert "switches" in done.stdout
    answer = json.loads(netplan("verify", str(good), "--format", "json").stdout)
    assert answer["grades"] == {"exact": 1, "close": 0, "trend": 0, "off": 0, "source": 0}
    bad = written(tmp_path, f"field: {SWITCHES}, printed: 250, grade: exact")
    assert netplan("verify", str(bad)).returncode == 1
    assert netplan("verify", str(bad), "--bars").returncode == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rows: []", "rows"),
        ("rows: 7", "rows"),
        ("rows: [{question: x}]", "field"),
        ("rows: [&a {question: x}, *a]", "anchor"),
        ("rows: [{question: rm -rf /, field: x, printed: 1, source: T}]", "question"),
        ("rows: [{question: export hgx-b200, field: x, printed: 1, source: T}]", "question"),
        ("rows: [{question: 'compare \"', field: x, printed: 1, source: T}]", "quotation"),
        ("rows: [{question: compare --nothing 3, field: x, printed: 1, source: T}]", "option"),
        ("rows: [{question: compare --gpus, field: x, printed: 1, source: T}]", "no value"),
        ("rows: [{question: compare --gpus many, field: x, printed: 1, source: T}]", "gpus"),
        ("rows: [{question: compare --gpus 1e99, field: x, printed: 1, source: T}]", "gpus"),
        ("rows: [{question: compare nowhere.yaml, field: x, printed: 1, source: T}]", "nowhere"),
        (f"rows: [{{question: {COMPARE}, field: x, printed: 1, source: T}}]", "output x"),
        (f"rows: [{{question: {COMPARE}, field: fabrics, printed: 1, source: T}}]", "one value"),
        ("rows: [{question: compare, field: x, printed: .inf, source: T}]", "finite"),
        ("rows: [{question: compare, field: x, printed: true, source: T}]", "printed"),
        ("rows: [{question: compare, field: x, printed: 1, source: T, tolerance: 2}]", "tolerance"),
        ("rows: [{question: compare, field: x, printed: 1, source: T, grade: best}]", "grade"),
        ("rows: [{question: compare, field: x, printed: 1, source: T, grade: off}]", "reason"),
        ('rows: [{question: compare, field: x, printed: 1, source: "a\\nb"}]', "source"),
        ('rows: [{question: compare, field: x, printed: "nan", source: T}]', "finite"),
        ('rows: [{question: compare, field: x, printed: "-inf", source: T}]', "finite"),
        ('rows: [{question: compare, field: x, printed: "about 1e400", source: T}]', "finite"),
        ('rows: [{question: compare, field: x, printed: "\\x1b[31m3", source: T}]', "printed"),
        ('rows: [{question: compare, field: x, printed: 1, source: "\\x1b[2J"}]', "source"),
        (f"rows: [{{question: compare, field: {'x' * 300}, printed: 1, source: T}}]", "field"),
    ],
)
def test_what_is_malformed_is_refused_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "paper.yaml"
    path.write_text(text + "\n", encoding="utf-8")
    done = netplan("verify", str(path))
    assert done.returncode == 2, done
    (line,) = done.stderr.strip().splitlines()
    assert said in line
    assert "Traceback" not in line
    assert len(line) < 600


def test_each_question_is_asked_once(tmp_path: Path) -> None:
    path = written(tmp_path, *[f"field: {SWITCHES}, printed: {number}" for number in range(1, 4)])
    assert [check.grade for check in paper_checks(*read_paper(path))] == ["off"] * 3


def test_many_rows_are_drawn_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def counting(sections: Iterable[Section], width: int) -> str:
        drawn.append(width)
        return terminal_text(sections, width)

    monkeypatch.setattr("netplan.reports.screen.terminal_text", counting)
    rows = [f"field: {SWITCHES}, printed: {256 + number}" for number in range(500)]
    screen = verify(written(tmp_path, *rows)).text()
    assert len(drawn) < 50, "once for each line that is too much, not for each row"
    assert "and 484 more: --details" in screen
    assert len(screen.splitlines()) <= 25

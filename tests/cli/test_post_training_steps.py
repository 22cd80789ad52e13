"""netplan simulate and faults about post-training on the command line: forms, files, refusals."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import netplan

ONE_FABRIC = {"simulate": (), "faults": ("--fabric", "rail-only")}
CASES = [
    (command, scenario)
    for command in ("simulate", "faults")
    for scenario in ("grpo-70b-h100", "rl-moe-gb300")
]


@pytest.mark.parametrize(("command", "scenario"), CASES)
def test_screens_fit(command: str, scenario: str) -> None:
    """25 lines of 80 columns, the verdict before the table."""
    done = netplan(command, scenario, *ONE_FABRIC[command])
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.rstrip("\n").splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    verdict = "at least" if command == "simulate" else "At most"
    first = next(number for number, line in enumerate(lines) if verdict in line)
    table = next(number for number, line in enumerate(lines) if line.startswith("──"))
    assert first < table


@pytest.mark.parametrize(("command", "scenario"), CASES[::3])
def test_forms_have_the_same_numbers(command: str, scenario: str, tmp_path: Path) -> None:
    words = (command, scenario, *ONE_FABRIC[command])
    facts: dict[str, Any] = json.loads(netplan(*words, "--format", "json").stdout)
    rows = [*csv.DictReader(io.StringIO(netplan(*words, "--format", "csv").stdout))]
    if command == "simulate":
        (row,) = (row for row in rows if row["step_part"] == "step")
        assert float(row["simulated_s"]) == pytest.approx(facts["simulated"]["step_s"])
    else:
        row = next(row for row in rows if row["table"] == "fabrics")
        assert float(row["steps_per_day"]) == pytest.approx(facts["fabrics"][0]["steps_per_day"])
    page = tmp_path / "page.html"
    assert netplan(*words, "-o", str(page)).returncode == 0
    assert "</html>" in page.read_text(encoding="utf-8")


def test_timeline_and_trace(tmp_path: Path) -> None:
    page, trace = tmp_path / "run.html", tmp_path / "run.json"
    words = ("--timeline", str(page), "--trace", str(trace))
    assert netplan("simulate", "grpo-70b-h100", *words).returncode == 0
    assert "Steps over time" in page.read_text(encoding="utf-8")
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X"}


def test_measured_runs_make_estimates(tmp_path: Path) -> None:
    """300 s of rollouts and 9 s of weights, one step off: 309 s, and what phases leave, 3 %."""
    run = tmp_path / "run.yaml"
    run.write_text("rollout_s: 300\nscore_s: 60\ntrain_s: 100\nsync_s: 9\n", encoding="utf-8")
    words = ("grpo-70b-h100", "--measured", str(run))
    simulated = netplan("simulate", *words)
    assert "A step takes 317.5 s" in simulated.stdout
    assert "at least" not in simulated.stdout.split("\n\n")[1]
    facts = json.loads(netplan("simulate", *words, "--format", "json").stdout)
    assert facts["basis"] == "measured"
    assert facts["step_s"] == pytest.approx(309 * 1.03, rel=1e-3)
    assert facts["simulated"]["step_s"] == pytest.approx(309 * 1.03, rel=0.01)
    faults = netplan("faults", *words, "--fabric", "rail-only").stdout
    # 86,400 s / 318.3 s, of which failures leave 99.76 %.
    assert "About 271 steps a day" in faults


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("simulate", "--jitter", "0.1"), "--jitter 0.1 means nothing for --workload post-train"),
        (("simulate", "--fail", "leaf=1"), "--fail leaf=1 means nothing for --workload post-tr"),
        (("faults", "--policy", "replace"), "--policy replace means nothing for --workload post"),
        (("faults", "--no-timing"), "--no-timing means nothing for --workload post-training"),
        (("faults", "--fail", "spine=1", "--fabric", "rail-only"), "unknown kind of part 'spine'"),
        (("simulate", "--slow", "gpu-99=0.5"), "gpu-99"),
        (("simulate", "--rollout-gpus", "64"), "leave none of 64 GPUs to train"),
    ],
)
def test_refusals_are_one_line(words: tuple[str, ...], message: str) -> None:
    command, *options = words
    done = netplan(command, "grpo-70b-h100", *options)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr

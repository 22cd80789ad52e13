"""Six questions of a planner: the commands of the README answer them, on a screen and in JSON."""

import itertools
import json
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Done, netplan

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([^|]+\?) \| `(netplan [^`]*)` \| ", re.MULTILINE)
ASKED = dict(ROW.findall(README))
"""Commands by their question."""
WIDTH, LINES = 80, 25


def command_of(word: str) -> str:
    """The command of the question that has a word."""
    [command] = [str(command) for question, command in ASKED.items() if word in question]
    return command


@cache
def answered(word: str) -> Any:  # noqa: ANN401 - JSON
    """The JSON of a question's command."""
    done = netplan(*shlex.split(command_of(word))[1:], "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows_of(word: str, flag: str) -> dict[float, dict[str, Any]]:
    """Rows by fabric, of every value of a flag."""
    return {
        case[flag]: {row["fabric"]: row for row in case["rows"]} for case in answered(word)["cases"]
    }


@cache
def screen_of(command: str) -> Done:
    """What a command shows; each is run once."""
    return netplan(*shlex.split(command)[1:])


@pytest.mark.parametrize("question", ASKED)
def test_a_screen_answers(question: str) -> None:
    done = screen_of(ASKED[question])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH


def test_there_are_six_and_each_takes_one_command() -> None:
    assert len(ASKED) == 6
    assert all("&&" not in command and ";" not in command for command in ASKED.values())


def test_rail_only_or_rail_optimized_for_a_mixture_of_experts() -> None:
    answer = answered("Rail-only")
    inputs = answer["inputs"]
    assert (inputs["gpus"], inputs["accelerator"]) == (16384, "gb200")
    assert (inputs["model"], inputs["hb_size"]) == ("deepseek-v3", 72)
    rows = {row["fabric"]: row for row in answer["fabrics"]}
    only, clos = rows["rail-only"], rows["rail-optimized"]
    assert only["cost_usd"]["base"] < clos["cost_usd"]["base"]
    assert only["cost_usd"]["low"] < only["cost_usd"]["base"] < only["cost_usd"]["high"]
    assert only["cost_reduction"] > 0
    assert only["iteration_time_s"] >= clos["iteration_time_s"] > 0
    assert only["plan"]["expert"] >= 1
    assert answer["verdict"]["fabric"] == "rail-only"


def test_two_tiers_or_three_by_radix() -> None:
    rows = rows_of("tiers", "radix")
    assert list(rows) == [64, 128, 256]
    # Any-to-any: two tiers of the largest box hold 256 x 256 / 2 = 32,768 GPUs, all there are.
    assert [rows[radix]["rail-optimized"]["tiers"] for radix in rows] == [3, 3, 2]
    # 4,096 GPUs a rail: two tiers of radix 128 hold 128 x 128 / 2 = 8,192.
    assert [rows[radix]["rail-only"]["tiers"] for radix in rows] == [3, 2, 2]
    for fabrics in rows.values():
        assert fabrics["rail-only"]["cost_usd"]["base"] > 0
        assert fabrics["rail-only"]["switches"] > 0


def test_hb_domains_with_the_gear_inside() -> None:
    rows = rows_of("HB domains", "hb_size")
    assert list(rows) == [8, 72, 144]
    for size, fabrics in rows.items():
        assert fabrics["rail-only"]["hb_size"] == size
        assert fabrics["rail-only"]["cost_usd"]["base"] > 0
    faster = [rows[size]["rail-only"]["iteration_time_s"] for size in rows]
    # Larger domains train no slower, but for the 1 % within which times are equal.
    assert all(later <= 1.01 * sooner for sooner, later in itertools.pairwise(faster))
    of = [rows[size]["rail-only"] for size in rows]
    # Beside servers of 8 nothing, racks of 72 in copper, 144 over optics at several times that.
    assert [row["gear_in_server"] for row in of] == [True, False, False]
    assert [row["gear"] is None for row in of] == [True, False, False]
    assert 0 < of[1]["gear"] < of[2]["gear"]


def test_oversubscription() -> None:
    rows = rows_of("oversubscription", "oversubscription")
    full, thin = rows[1]["rail-optimized"], rows[2]["rail-optimized"]
    assert thin["cost_usd"]["base"] < full["cost_usd"]["base"]
    assert thin["iteration_time_s"] >= full["iteration_time_s"]


def test_cards_of_400_or_800_on_switches_that_fit() -> None:
    rows = rows_of("800G", "nic_gbps")
    assert list(rows) == [400, 800]
    slow, fast = rows[400]["rail-optimized"], rows[800]["rail-optimized"]
    # The switch keeps its 51.2 Tb/s: 64 ports of 800 Gb/s, so twice the switches and more tiers.
    assert fast["gpu_bytes_per_s"] == 2 * slow["gpu_bytes_per_s"] == 100e9
    assert fast["switches"] == 2 * slow["switches"]
    assert fast["cost_usd"]["base"] > slow["cost_usd"]["base"]
    assert fast["iteration_time_s"] < slow["iteration_time_s"]


def test_how_many_spares() -> None:
    for fabric in answered("spares")["fabrics"]:
        outlook = fabric["outlook"]
        assert outlook["interruptions_per_year"] > 0
        assert 0 < outlook["goodput"] < 1
        assert outlook["idle_domains_needed"] > 0
        spares = {part["kind"]: part["spares"] for part in outlook["spares"]}
        assert spares["gpu"] > 0
    shown = screen_of(command_of("spares")).stdout
    assert re.search(r"^Spares to keep .*: \d+ GPUs", shown, re.MULTILINE)

"""Serving on the command line of other commands: tokens, files, one line for what means nothing."""

import json
from pathlib import Path

import pytest

from tests.cli.command import netplan, refused

SERVED = (
    *("--workload", "serving", "--gpus", "16", "--model", "llama-3.1-8b"),
    *("--prompt", "1024", "--output", "128", "--concurrency", "64"),
)


@pytest.mark.parametrize("command", ["traffic", "loads", "simulate", "compare", "cost"])
def test_every_command_serves_by_one_plan(command: str, tmp_path: Path) -> None:
    """``--output`` are tokens, ``--output-file`` a path; these and ``serving`` say the same."""
    path = tmp_path / "answer.json"
    fabric = ("--fabric", "rail-only")
    done = netplan(
        command, "serving-70b-h200", *SERVED, *fabric, "--output-file", str(path), cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    found = json.loads(path.read_text())
    assert found["inputs"]["output"] == 128
    assert found["inputs"]["workload"] == "serving"
    alone = netplan("serving", "serving-70b-h200", *SERVED[2:], *fabric, "--format", "json")
    wanted = json.loads(alone.stdout)["plans"][0]["tokens_per_s"]
    row = found["fabrics"][0] if "fabrics" in found else found
    assert row["tokens_per_s"] == wanted
    shown = netplan(command, "serving-70b-h200", *SERVED, *fabric)
    assert shown.returncode == 0
    assert "tokens" in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("traffic", "rail-only-paper", "--prompt", "5"),
            "--prompt 5 means nothing for training: leave it out, or take --workload serving",
        ),
        (
            ("cost", "rail-only-paper", "--model", "gpt-22b"),
            "--model gpt-22b means nothing for training",
        ),
        (
            ("loads", "serving-70b-h200", *SERVED, "--zero", "3"),
            "--zero 3 means nothing for --workload serving",
        ),
        (
            ("simulate", "serving-70b-h200", *SERVED, "--schedule", "gpipe"),
            "--schedule gpipe means nothing for",
        ),
        (
            (
                "compare",
                "serving-70b-h200",
                "--prices",
                "rail-only-2023",
                *SERVED,
                "--rule",
                "price",
            ),
            "--rule price means nothing for",
        ),
        (
            ("loads", "serving-70b-h200", *SERVED, "--draft", "llama-68m", "--window", "2"),
            "--draft llama-68m means",
        ),
        (
            ("loads", "serving-70b-h200", *SERVED[:-2], "--tpot-ms", "0.1"),
            "no plan of llama-3.1-8b on 16 GPUs has",
        ),
    ],
)
def test_wrong_inputs_are_refused_in_one_line(words: tuple[str, ...], said: str) -> None:
    gpus = () if "--gpus" in words else ("--gpus", "16")
    line = refused(*words, *gpus)
    assert said in line

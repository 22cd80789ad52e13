"""The form of an answer in a file: as its name ends, or as --format says, for every command."""

import json
import shutil
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import pytest
import yaml

from netplan.cli.main import COMMANDS
from netplan.cli.output import FORM_OF_ENDING
from netplan.cli.questions import QUESTION_COMMANDS
from netplan.reports.answer import FORMATS
from netplan.setup.asking import question_class
from tests.cli.command import netplan, refused

SMALL = ("--gpus", "64", "--radix", "16", "--hb-size", "8")
TRAINED = (*SMALL, "--model", "gpt-22b", "--batch", "64")
PLANNED = (*TRAINED, "--fix", "pipeline=4", "--fix", "tensor=4", "--fix", "microbatch=1")
ANSWERS: dict[str, tuple[str, ...]] = {
    "compare": ("rail-only-paper", *SMALL, "--fabric", "rail-only", "--no-timing"),
    "search": ("rail-only-paper", *PLANNED),
    "serving": ("serving-70b-h200", "--model", "llama-3.1-8b", "--accelerator", "h200", "--gpus",
                "8",
                "--prompt", "1024", "--output", "128", "--concurrency", "64"),
    "map": ("rail-only-paper", "--model", "gpt-22b", "--accelerator", "sn10"),
    "optimize": ("rail-only-paper", "--gpus", "64", "--radix", "16", "--hb-size", "8", "--fabric",
                 "rail-only",
                 "--model", "gpt-22b", "--batch", "64"),
    "cost": ("rail-only-paper", *SMALL, "--fabric", "rail-only"),
    "diff": ("rail-only-paper", *SMALL, "--b", "fabric=rail-only", "--no-timing"),
    "offers": ("--scenario", "rail-only-paper", *SMALL, "--fabric", "rail-only"),
    "grow": ("rail-only-paper", "--gpus", "32", "--gpus", "64", "--radix", "16", "--hb-size", "8"),
    "sites": ("hgx-h100", "--gpus", "64", "--model", "llama-3-8b", "--km", "100"),
    "traffic": ("rail-only-paper", *PLANNED),
    "collective": ("--scenario", "hgx-h100", "--kind", "all_reduce", "--gpus", "64"),
    "congestion": ("hgx-h100", "--gpus", "128", "--traffic", "permutation", "--draws", "2"),
    "jobs": ("hgx-h100", "--gpus", "128", "--count", "60", "--draws", "2"),
    "loads": ("rail-only-paper", *PLANNED),
    "simulate": ("rail-only-paper", *PLANNED),
    "audit": ("design.csv",),
    "calibrate": ("--accelerator", "h100-80gb", "--gemm", "gemm.csv"),
    "faults": ("rail-only-paper", *SMALL, "--fabric", "rail-only", "--no-timing", "--years", "5"),
    "study": ("run", "mine.yaml"),
    "report": ("procurement", "rail-only-paper", "--prices", "2026", *SMALL, "--fabric",
               "rail-only", "--fabric", "fat-tree",
               "--no-timing"),
    "catalog": ("list", "iteration-model"),
    "doctor": (),
    "verify": ("--only", "table 2"),
}  # fmt: skip
ROOT = Path(__file__).parents[2]
OWN_FORMS = {"cables", "completion", "draw", "explore", "export", "init", "mcp"}
"""Commands that write what other tools read: .csv or .xlsx, as --to says, a script, a protocol."""
CLOCKED = {"search", "serving", "simulate"}
"""Commands whose answers say how long they took."""
IS: dict[str, Callable[[Path], bool]] = {
    ".txt": lambda path: "|" not in path.read_text("utf-8").splitlines()[0],
    ".json": lambda path: isinstance(json.loads(path.read_text("utf-8")), dict),
    ".csv": lambda path: "," in path.read_text("utf-8").splitlines()[0],
    ".md": lambda path: "│" not in path.read_text("utf-8"),
    ".html": lambda path: path.read_text("utf-8").lower().startswith("<!doctype html"),
    ".xlsx": is_zipfile,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the files that some commands read."""
    return lay_files(tmp_path)


def lay_files(tmp_path: Path) -> Path:
    """Put the files that some commands read into a folder."""
    shutil.copy(ROOT / "examples" / "own-cluster" / "gemm.csv", tmp_path)
    (tmp_path / "design.csv").write_text("design,gpus,nodes,radix\npod,1024,128,64\n", "utf-8")
    study = {
        "name": "mine",
        "title": "Mine",
        "source": "me",
        "date": "2026",
        "ask": "search",
        "inputs": {"model": "gpt-22b", "batch": 64, "hb_size": 8},
        "axes": [{"input": "gpus", "values": [16, 32]}],
        "outputs": ["iteration_time_s"],
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(study), "utf-8")
    return tmp_path


def test_no_command_is_left_out() -> None:
    assert set(ANSWERS) | OWN_FORMS == set(COMMANDS)
    assert {name.partition("_")[0] for name in QUESTION_COMMANDS} <= set(COMMANDS)
    assert {FORM_OF_ENDING[ending] for ending in IS} == set(FORMATS)


def ask_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all forms of a test be those of an answer, where the command is a question."""
    if name not in QUESTION_COMMANDS:
        return
    kind = question_class(name)
    ask = kind.ask
    answers: list[Any] = []

    @wraps(ask)
    def known(question: Any) -> Any:  # noqa: ANN401 - any question and its answer
        if not answers:
            answers.append(ask(question))
        return answers[0]

    monkeypatch.setattr(kind, "ask", known)


@pytest.mark.parametrize("name", list(ANSWERS))
def test_an_answer_has_the_form_that_its_file_says(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_once(name, monkeypatch)
    for ending, is_so in IS.items():
        path = folder / f"answer{ending}"
        done = netplan(name, *ANSWERS[name], "-o", path.name, cwd=folder)
        assert (done.returncode in (0, 1), done.stdout) == (True, ""), done.stderr
        assert "though its name says" not in done.stderr
        assert is_so(path), ending
    if name not in CLOCKED:
        said = netplan(name, *ANSWERS[name], "--format", "markdown", cwd=folder).stdout
        assert said == (folder / "answer.md").read_text("utf-8")


@pytest.mark.parametrize("name", list(ANSWERS))
def test_other_endings_are_one_line_and_no_file(name: str, folder: Path) -> None:
    error = refused(name, *ANSWERS[name], "-o", "answer.pdf", cwd=folder)
    ends = ".txt, .json, .csv, .md, .html, .xlsx"
    assert error == (
        f"netplan: -o answer.pdf: no form of this answer ends with .pdf: use {ends}, or say"
        " --format\n"
    )
    assert not (folder / "answer.pdf").exists()


def test_the_form_that_is_asked_for_holds(folder: Path) -> None:
    words = ("cost", *ANSWERS["cost"], "--format", "json", "-o")
    for name in ("plain", "answer.json", "ANSWER.JSON", "answer.pdf"):
        assert netplan(*words, name, cwd=folder).stderr.startswith(f"wrote {name}: rail-only, ")
        assert IS[".json"](folder / name)
    done = netplan(*words, "answer.xlsx", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "")
    said = "answer.xlsx: holds json, as --format says, though its name says xlsx\n"
    assert done.stderr.startswith(said + "wrote answer.xlsx: rail-only, ")
    assert IS[".json"](folder / "answer.xlsx")


def test_a_file_without_an_ending_has_the_usual_form(folder: Path) -> None:
    assert netplan("cost", *ANSWERS["cost"], "-o", "answer", cwd=folder).returncode == 0
    assert (folder / "answer").read_text("utf-8") == netplan("cost", *ANSWERS["cost"]).stdout
    assert netplan("report", *ANSWERS["report"], "-o", "report", cwd=folder).returncode == 0
    assert IS[".html"](folder / "report")


def test_catalog_files_are_yaml_or_json(folder: Path) -> None:
    for name in ("mine.json", "h200.yaml"):
        done = netplan("catalog", "show", "h200", "-o", name, cwd=folder)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.endswith(f"wrote {name}\n")
    assert IS[".json"](folder / "mine.json")
    assert yaml.safe_load((folder / "h200.yaml").read_text("utf-8"))["name"] == "h200"
    error = refused("catalog", "show", "h200", "-o", "h200.csv", cwd=folder)
    assert "no form of this answer ends with .csv: use .json, .yaml, or say --format" in error


def test_a_comparison_of_cable_plans_goes_by_its_file(folder: Path) -> None:
    assert (
        netplan(
            "cables",
            "rail-only-paper",
            "--fabric",
            "rail-only",
            *SMALL,
            "-o",
            "plan.csv",
            cwd=folder,
        ).returncode
        == 0
    )
    words = ("cables", "rail-only-paper", "--compare", "plan.csv", "plan.csv", "-o")
    assert netplan(*words, "same.json", cwd=folder).returncode == 0
    assert IS[".json"](folder / "same.json")
    assert "ends with .pdf" in refused(*words, "same.pdf", cwd=folder)

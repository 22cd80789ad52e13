"""``netplan study``: run, status, show, resume, every format, and wrong input."""

import csv
import io
import json
import re
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from netplan.answers.outputs import Json
from netplan.reports.quantities import Scalar
from netplan.studies import questions
from netplan.studies.store import Meta, _sum
from tests.cli.command import netplan, refused

SMALL = ("--vary", "hb_size=8,256")
MINE = """\
name: mine
title: "Mine <b>bold</b>"
source: me
date: "2026"
ask: search
scenario: rail-only-paper
inputs: {accelerator: b200, model: gpt-175b, batch: 1024, space: model}
axes:
  - {input: gpus, values: [512, 4, 1000]}
outputs: [iteration_time_s, plan]
"""
CLUSTER = """\
cluster: {gpus: 256, accelerator: h100-80gb, radix: 64}
workload: {model: llama-3-8b, batch: 1/gpu}
"""


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A folder with a finished small study in it."""
    assert netplan("study", "run", "batch-size", *SMALL, cwd=tmp_path).returncode == 0
    return tmp_path


def test_run_prints_the_answer_and_keeps_a_store(ready: Path) -> None:
    done = netplan("study", "run", "batch-size", *SMALL, cwd=ready)
    title = (
        "Speed relative to the ideal over the batch (share of the ideal speed; columns: HB domain)"
    )
    assert title in " ".join(done.stdout.split())
    assert (ready / "batch-size.study").is_file()
    again = netplan("study", "show", "batch-size", cwd=ready)
    assert again.stdout == done.stdout
    assert max(map(len, done.stdout.splitlines()[3:])) <= 80


def test_status(ready: Path) -> None:
    text = netplan("study", "status", "batch-size.study", cwd=ready).stdout
    assert text.startswith("batch-size: complete, 10 of 10 points, 0 failed; made by netplan")
    data = json.loads(
        netplan("study", "status", "batch-size", "--format", "json", cwd=ready).stdout
    )
    assert (data["points"], data["done"], data["failed"]) == (10, 10, 0)


def test_every_format(ready: Path) -> None:
    def show(form: str) -> str:
        return netplan("study", "show", "batch-size", "--format", form, cwd=ready).stdout

    data = json.loads(show("json"))
    assert data["study"] == "batch-size"
    assert len(data["rows"]) == 10
    rows = list(csv.DictReader(io.StringIO(show("csv"))))
    assert float(rows[0]["iteration_time_s"]) == data["rows"][0]["iteration_time_s"]
    assert show("markdown").startswith("# How close to the ideal network, over the batch?")
    page = show("html")
    assert page.startswith("<!DOCTYPE html>")
    assert "http://" not in page.split("<script", maxsplit=1)[0]


def test_a_study_of_one_s_own_with_a_point_that_fails(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MINE, encoding="utf-8")
    done = netplan("study", "run", "./mine.yaml", "--format", "csv", cwd=tmp_path)
    assert done.returncode == 0
    assert "1 points failed (netplan study show mine.study)" in done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert rows[0]["status"] == "ok"
    assert rows[1]["status"] == "failed: 4 GPUs are out of range: give 8 to 4,194,304"
    # No plan divides 1,000 GPUs: that is an answer.
    assert rows[2]["status"].startswith("no plan of gpt-175b uses 1,000 GPUs")
    page = netplan("study", "show", "mine", "--format", "html", cwd=tmp_path).stdout
    assert "<b>bold</b>" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page


def test_resume_goes_on_from_what_is_there(ready: Path) -> None:
    store = ready / "batch-size.study"
    with sqlite3.connect(store) as connection:
        before = connection.execute("SELECT point, outputs FROM outcomes ORDER BY point").fetchall()
        connection.execute("DELETE FROM outcomes WHERE point IN (1, 4, 9)")
    connection.close()
    assert "70.0 % done, 7 of 10 points" in netplan("study", "status", str(store)).stdout
    done = netplan("study", "resume", "batch-size.study", cwd=ready)
    assert "7 points were there, 3 are new" in done.stderr
    with sqlite3.connect(store) as connection:
        after = connection.execute("SELECT point, outputs FROM outcomes ORDER BY point").fetchall()
    connection.close()
    assert after == before


def test_a_damaged_row_is_named_and_computed_again(ready: Path) -> None:
    whole = netplan("study", "show", "batch-size", cwd=ready).stdout
    with sqlite3.connect(ready / "batch-size.study") as connection:
        connection.execute("UPDATE outcomes SET outputs = replace(outputs, '1', '2')")
    connection.close()
    shown = netplan("study", "show", "batch-size", cwd=ready).stdout
    assert "damaged in the store, and left out: points 0, 1, 2," in " ".join(shown.split())
    rows = netplan("study", "show", "batch-size", "--format", "csv", cwd=ready)
    assert "damaged in the store, and left out: points 0, 1, 2," in rows.stderr
    status = netplan("study", "status", "batch-size", "--format", "json", cwd=ready)
    assert json.loads(status.stdout)["damaged"] == list(range(10))
    done = netplan("study", "resume", "batch-size", cwd=ready)
    assert "damaged in the store, and left out: points 0, 1" in done.stderr
    assert done.stdout == whole


def test_a_study_all_of_whose_points_fail_ends_with_one(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MINE.replace("[512, 4, 1000]", "[4, 5]"), encoding="utf-8")
    done = netplan("study", "run", "mine.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "2 points failed" in done.stderr


def test_an_unexpected_failure_is_told_as_such_with_its_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(ask: str, inputs: Mapping[str, Scalar], *given: object, **keywords: object) -> Json:
        if inputs["gpus"] == 512:
            raise IndexError("list index out of range")
        found: Json = known(ask, inputs, *given, **keywords)
        return found

    known: Any = questions.answer
    monkeypatch.setattr("netplan.studies.questions.answer", answer)
    (tmp_path / "mine.yaml").write_text(MINE, encoding="utf-8")
    done = netplan("study", "run", "mine.yaml", cwd=tmp_path)
    said = "1 of 3 points failed unexpectedly, by a defect of netplan and not by their inputs: "
    said += "please report point 0 (gpus = 512): IndexError: list index out of range"
    assert f"2 points failed (netplan study show mine.study)\n{said}\n" in done.stderr
    assert said in " ".join(done.stdout.split())
    assert done.returncode == 1
    shown = netplan("study", "show", "mine", "--format", "csv", cwd=tmp_path)
    assert shown.stdout.count("failed: unexpected IndexError: list index out of range") == 1
    assert shown.returncode == 1


def test_another_question_of_the_same_name_has_a_store_of_its_own(ready: Path) -> None:
    plain = netplan("study", "show", "batch-size", cwd=ready).stdout
    words = ("study", "run", "batch-size", "--vary", "hb_size=8,64")
    other = netplan(*words, cwd=ready)
    assert other.returncode == 0
    (store,) = set(ready.glob("*.study")) - {ready / "batch-size.study"}
    told = f"batch-size.study holds another question: this one is kept in {store.name}\n"
    assert other.stderr == told
    assert re.fullmatch(r"batch-size-[0-9a-f]{8}\.study", store.name)
    assert netplan(*words, cwd=ready) == other  # which goes on from there
    assert netplan("study", "show", store.name, cwd=ready).stdout == other.stdout
    assert netplan("study", "run", "batch-size", *SMALL, cwd=ready).stdout == plain
    assert len(list(ready.iterdir())) == 2


def test_a_wrong_output_is_refused_before_the_first_point(tmp_path: Path) -> None:
    text = MINE.replace("iteration_time_s, plan]", "iteration_tme_s, plan]")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    for more in ((), ("--dry-run",), ("--workers", "1")):
        error = refused("study", "run", "mine.yaml", *more, cwd=tmp_path)
        assert "unknown output iteration_tme_s: key 'iteration_tme_s': did you mean it" in error
        assert error.count("\n") == 1
    assert [one.name for one in tmp_path.iterdir()] == ["mine.yaml"]


@pytest.mark.slow
@pytest.mark.usefixtures("points")
def test_the_size_of_domains_is_asked_of_the_default_cluster(tmp_path: Path) -> None:
    done = netplan("study", "run", "hb-size", cwd=tmp_path)
    assert done.returncode == 0
    assert "it is kept in hb-size.study" in done.stderr
    assert done.stdout.startswith("hgx-b200: ")
    assert "(undecided) for llama-3-405b and gpt-1t" in " ".join(done.stdout.split())
    # Whatever size the answer names stands in the table.
    shown = re.findall(r"^ +([\d,]+)(?: +[\d.,]+){3}$", done.stdout, re.MULTILINE)
    assert shown == ["8", "16", "32", "64", "72", "144", "288", "576", "1,152"]
    assert len(done.stdout.splitlines()) <= 25


def test_a_study_of_one_s_own_scenario(tmp_path: Path) -> None:
    (tmp_path / "my-cluster.yaml").write_text(CLUSTER, encoding="utf-8")
    words = ("study", "run", "hb-size-paper", "--vary", "hb_size=4,8", "--format", "csv")
    plain = netplan(*words, "--vary", "gpus=16384", cwd=tmp_path)
    own = netplan(*words[:3], "my-cluster.yaml", *words[3:], cwd=tmp_path)
    assert (plain.returncode, own.returncode) == (0, 0)
    assert (
        "hb-size-paper.study holds another question: this one is kept in hb-size-paper-"
        in own.stderr
    )
    rows = list(csv.DictReader(io.StringIO(own.stdout)))
    assert [(row["model"], row["gpus"], row["hb_size"]) for row in rows] == [
        ("llama-3-8b", "256", "4"),
        ("llama-3-8b", "256", "8"),
    ]
    assert netplan(*words, "--scenario", "my-cluster.yaml", cwd=tmp_path) == own
    larger = netplan(*words[:3], "my-cluster.yaml", "--vary", "cluster.gpus=512", cwd=tmp_path)
    assert "512 GPUs" in larger.stdout or "512" in larger.stdout.split()
    own_words = (*words[:3], "./my-cluster.yaml", *words[3:5])
    assert netplan(*own_words, cwd=tmp_path).stdout.startswith("my-cluster: ")
    assert "On my-cluster: " in netplan(*own_words, "--details", cwd=tmp_path).stdout
    error = refused(*words[:3], "my-clutser.yaml", cwd=tmp_path)
    assert "no scenario file my-clutser.yaml" in error


def test_fields_go_by_their_name_or_with_their_part_in_front(tmp_path: Path) -> None:
    few = ("study", "run", "radix-and-size", "--vary", "gpus=1Ki,2Ki", "--format", "json")
    plain = netplan(*few, "--vary", "radix=64,128", cwd=tmp_path)
    spelled = netplan(*few, "--vary", "cluster.radix=64,128", cwd=tmp_path)
    assert spelled == plain
    assert [row["gpus"] for row in json.loads(plain.stdout)["rows"][:2]] == [1024, 2048]
    error = refused("study", "run", "hb-size-paper", "--vary", "cluster.radiks=64", cwd=tmp_path)
    assert "field of the scenario 'radiks': did you mean radix" in error


def test_a_scheduler_that_is_not_there_leaves_no_store(tmp_path: Path) -> None:
    error = refused("study", "run", "hb-size-paper", "--scheduler", "nonsense", cwd=tmp_path)
    assert "--scheduler nonsense: nobody answers there" in error
    assert list(tmp_path.iterdir()) == []


def test_dry_run_says_the_size_and_writes_nothing(tmp_path: Path) -> None:
    done = netplan("study", "run", "hb-size-paper", "--dry-run", cwd=tmp_path)
    assert done.stdout.startswith("hb-size-paper: 96 points at about ")
    assert list(tmp_path.iterdir()) == []


def test_two_workers_give_the_same_answer(ready: Path) -> None:
    other = ("--store", "other.study", "--workers", "2", "--format", "csv")
    done = netplan("study", "run", "batch-size", *SMALL, *other, cwd=ready)
    assert done.returncode == 0, done.stderr
    plain = netplan("study", "show", "batch-size", "--format", "csv", cwd=ready)
    assert done.stdout == plain.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "hb-sise"), "unknown study 'hb-sise': did you mean hb-size or hb-size-paper?"),
        (
            ("run", "hb-size-paper", "--vary", "hb_sise=8"),
            "unknown input of search 'hb_sise': did you m",
        ),
        (("run", "hb-size-paper", "--vary", "gpus="), "write INPUT=VALUE"),
        (
            ("run", "hb-size-paper", "--vary", "hb_size=70000,80000"),
            "no point of 12 meets all condit",
        ),
        (
            ("run", "serving", "--vary", "model=llama-3.1-70b"),
            "as many values of each: --vary accelerator=VALUE --vary precision=VALUE",
        ),
        (("run", "batch-size", "--vary", "model=gpt-2t"), "unknown model 'gpt-2t'"),
        (("run", "batch-size", "--workers", "-1"), "--workers: 0"),
        (("run", "batch-size", "--workers", "1000000"), "--workers: 0 (this process alone) to "),
        (("run", "hb-size-paper", "--vary", "gpus=abc"), "gpus: 'abc' is not a whole number"),
        (
            ("run", "hb-size-paper", "--vary", "tensor=8"),
            "unknown input of search 'tensor': write fixed",
        ),
        (
            ("run", "hb-size-paper", "--vary", "gpus=64", "--vary", "gpus=8"),
            "--vary gpus is given twice",
        ),
        (("run", "hb-size-paper", "--vary", f"gpus={'[' * 60_000}"), "is not a whole number"),
        (("run", "batch-size", "--store", "missing/x.study"), "missing/x.study"),
        (("resume", "nothing.study"), "there is no such store"),
        (("status", "nothing.study"), "there is no such store"),
    ],
)
def test_wrong_input_is_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    error = refused("study", *arguments, cwd=tmp_path)
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_ten_billion_points_are_refused_with_what_to_thin(tmp_path: Path) -> None:
    axes = "\n".join(
        f"  - {{input: accelerator.{name}, linear: {{from: 1, to: 9, steps: 100000}}}}"
        for name in ("memory_bytes", "hb_bytes_per_s")
    )
    text = MINE.replace("  - {input: gpus, values: [512, 4, 1000]}", axes)
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("inputs: {", "inputs: {gpus: 64, "), encoding="utf-8")
    error = refused("study", "run", str(path), cwd=tmp_path)
    assert "10,000,000,000 points is too large, at most 5,000,000: take fewer values" in error
    assert "accelerator.memory_bytes 100,000" in error


def test_a_store_of_another_version_is_shown_but_not_mixed(ready: Path) -> None:
    store = ready / "batch-size.study"
    with sqlite3.connect(store) as connection:
        meta = dict(connection.execute("SELECT key, value FROM meta WHERE key <> 'checksum'"))
        older = Meta(**meta | {"netplan_version": "0.0.9"})
        connection.execute("UPDATE meta SET value = '0.0.9' WHERE key = 'netplan_version'")
        checksum = (_sum(*structs.astuple(older)),)
        connection.execute("UPDATE meta SET value = ? WHERE key = 'checksum'", checksum)
    connection.close()
    error = refused("study", "resume", "batch-size.study", cwd=ready)
    assert "made by netplan 0.0.9" in error
    shown = netplan("study", "show", "batch-size", "--format", "json", cwd=ready)
    assert json.loads(shown.stdout)["netplan_version"] == "0.0.9"


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "notes.study").write_text("not a database " * 100, encoding="utf-8")
    error = refused("study", "show", "notes.study", cwd=tmp_path)
    assert "notes.study" in error

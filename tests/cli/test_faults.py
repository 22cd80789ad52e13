"""``netplan faults``: its formats, the same answer again, and wrong input."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.command import netplan, refused, replaced

SMALL = (
    *(
        "faults",
        "rail-only-paper",
        "--gpus",
        "1024",
        "--radix",
        "64",
        "--hb-size",
        "8",
        "--model",
        "gpt-22b",
    ),
    *("--batch", "1024", "--years", "50", "--fabric", "rail-only", "--fabric", "rail-optimized"),
)


def test_tables_fit_and_are_the_same_again() -> None:
    asked = (*SMALL, "--fail", "leaf=1", "--fail", "links=5", "--details")
    done = netplan(*asked, columns=80)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 83
    titles = (
        "Failed together: leaf=1 links=5",
        "A year of failures",
        "rail-only: one part failed",
        "After a failed GPU or port",
        "Spares for a service level",
    )
    # What is asked for comes first.
    places = [done.stdout.index(title) for title in titles]
    assert places == sorted(places)
    assert done.stdout.count("down, cut off: GPUs that failed") == 1
    assert "\ngpu, 5 days " in done.stdout
    # A way to recover takes one line, unless what it needs is long.
    assert done.stdout.count("\nidle domain      8 GPUs of the present ones idle  ") == 2
    again = netplan(*asked, columns=80)
    assert again.stdout == done.stdout


def test_what_stands_by_and_what_did_not_fail_is_said() -> None:
    asked = (*SMALL, "--fabric", "torus-3d", "--fail", "leaf=1", "--no-timing", "--details")
    text = netplan(*asked, columns=100).stdout
    assert "\nNot failed: torus-3d (see the notes).\n" in text
    assert "stand by" not in text
    kept = ("--spare-domains", "2", "--while-down", "wait", "--spares", "switch=1")
    lines = netplan(*asked, *kept, columns=100).stdout.splitlines()
    stands_by = (
        "idle HB domains that stand by: 2; the job waits while more are down; spares switch=1"
    )
    assert stands_by in lines


def test_help_says_defaults_of_nought_and_one() -> None:
    text = " ".join(netplan("faults", "--help-all").stdout.split())
    assert "--draws N Draws of random parts: the worst and the mean. [1]" in text
    assert "--seed N Seed of all draws. [0]" in text
    assert "Minutes that writing a checkpoint holds the job up. [by the rate of" in text


def test_json_and_csv() -> None:
    data = json.loads(netplan(*SMALL, "--fail", "rail-0/leaf-0", "--format", "json").stdout)
    assert data["inputs"]["fail"] == ["rail-0/leaf-0"]
    first = data["fabrics"][0]
    assert first["fabric"] == "rail-only"
    assert first["scenario"]["impact"]["gpus_cut_off"] == 32
    assert first["outlook"]["years"] == 50
    text = netplan(*SMALL, "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    failed = {row["kind"] for row in rows if row["table"] == "failures"}
    assert failed >= {"gpu", "nic", "host", "leaf", "spine", "domain"}


def test_faults_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "night.txt").write_text("# a bad night\ngpu-5\nleaf=1\n", encoding="utf-8")
    done = netplan(*SMALL, "--fail", "@night.txt", "--format", "json", cwd=tmp_path)
    impact = json.loads(done.stdout)["fabrics"][0]["scenario"]["impact"]
    assert impact["gpus_down"] == 1
    (tmp_path / "bad.txt").write_text("gpu-5\nrail-77/leaf-0\n", encoding="utf-8")
    assert "bad.txt:2" in refused(*SMALL, "--fail", "@bad.txt", cwd=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--fail", "gpu-5000"), "gpu-5000"),
        (("--fail", "leaf=9999"), "give 0 to"),
        (("--fail", "switch=-1"), "switch=-1"),
        (("--fail", "@missing.txt"), "missing.txt"),
        (("--service-level", "100%"), "--service-level 100% is out of range"),
        (("--service-level", "99"), "write 99%"),
        (("--checkpoint-interval", "0"), "checkpoint interval of 0"),
        (("--years", "0"), "--years 0 is out of range"),
        (("--draws", "0"), "--draws 0"),
        (("--failures", "2027"), "unknown failures '2027'"),
        (("--groups", "missing.csv", "--fail", "gpu-1"), "missing.csv"),
    ],
)
def test_wrong_input_is_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    error = refused(*replaced(SMALL, arguments), cwd=tmp_path)
    assert message in error
    assert error.count("\n") == 1


def test_what_spares_count_and_why_pods_are_missing() -> None:
    done = netplan(*SMALL, "--details", columns=200)
    lines = done.stdout.splitlines()
    copper = "passive copper cables, active copper cables and active optical cables"
    assert f"link: fibres, {copper}." in lines
    assert "pods -" not in done.stdout
    # A torus has no tiers; rails of leaves and spines have, though they meet in HB domains only.
    done = netplan(*SMALL[:-4], "--fabric", "torus-2d", "--details", columns=200)
    assert done.stdout.count("pods -: the network has no tier above its leaves") == 1
    spares = json.loads(netplan(*SMALL, "--format", "json").stdout)["fabrics"][0]["outlook"]
    counted = {one["kind"]: one["counted"] for one in spares["spares"]}
    kinds = ("fibre", "dac", "aec", "aoc")
    assert sorted(counted["link"]) == sorted(
        f"{place}_{kind}" for place in ("host", "trunk") for kind in kinds
    )
    assert counted["transceiver"] == ["host_transceiver", "trunk_transceiver"]


SERVED = (
    *(
        "faults",
        "serving-70b-h200",
        "--prices",
        "rail-only-2023",
        "--workload",
        "serving",
        "--gpus",
        "64",
        "--precision",
        "fp8",
    ),
    *("--fabric", "rail-only", "--tpot-ms", "50", "--fail", "gpu=1"),
)


STEPPED = ("faults", "grpo-70b-h100")


@pytest.mark.parametrize(("question", "key"), [(SERVED[:-6], "singles"), (STEPPED, "failures")])
def test_programs_read_failures_of_all_fabrics(question: tuple[str, ...], key: str) -> None:
    """Tables have the parts of every fabric as JSON has them, in its order."""
    asked = (*question, "--fabric", "rail-only", "--fabric", "fat-tree")
    fabrics = json.loads(netplan(*asked, "--format", "json").stdout)["fabrics"]
    failed = [
        (fabric["fabric"], failure["kind"], failure["part"])
        for fabric in fabrics
        for failure in fabric[key]
    ]
    text = netplan(*asked, "--format", "csv").stdout
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["table"] == "failures"]
    assert [(row["fabric"], row["kind"], row["part"]) for row in rows] == failed
    assert {fabric for fabric, _, _ in failed} == {"rail-only", "fat-tree"}


def test_servers_fail_in_tables_that_fit() -> None:
    done = netplan(*SERVED, "--details", columns=80)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 83
    titles = (
        "Without failures",
        "Failed together: gpu=1",
        "Over the years, at least for 99 % of the time",
        "rail-only: one part failed",
        "Servers that stop in a year, by cause",
        "Spares for a service level of 99 %",
    )
    places = [done.stdout.index(title) for title in titles]
    assert places == sorted(places)
    assert netplan(*SERVED, "--details", columns=80).stdout == done.stdout


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--years", "5"), "--years 5 means nothing for --workload serving: leave it out"),
        (("--batch", "3", "--concurrency", "8"), "--concurrency and --batch both say how many"),
        (("--tpot-ms", "0.1"), "Does not serve: no plan of llama-3.1-70b on 64 GPUs has TPOT"),
    ],
)
def test_what_does_not_serve_is_said_in_one_line(more: tuple[str, ...], said: str) -> None:
    assert said in refused(*SERVED[: SERVED.index("--fabric")], *more)

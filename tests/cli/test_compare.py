"""``netplan compare``: its formats, its JSON contract, golden tables."""

import csv
import io
import json
import os
from pathlib import Path

import pytest

from tests.cli.command import netplan

GOLDEN = Path(__file__).parents[1] / "golden"
MAIN_JOB = ("compare", "rail-only-paper", "--gpus", "32768", "--radix", "128")


def golden(name: str, text: str) -> None:
    """Compare with a kept output; NETPLAN_UPDATE_GOLDEN=1 keeps the new one."""
    path = GOLDEN / name
    if os.environ.get("NETPLAN_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("columns", [80, 140])
def test_main_job_table(columns: int) -> None:
    done = netplan(*MAIN_JOB, columns=columns)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(len(line) for line in done.stdout.splitlines()) <= columns
    golden(f"compare-{columns}.txt", done.stdout)


def test_uneven_sizes_table() -> None:
    arguments = (
        "compare",
        "rail-only-paper",
        "--gpus",
        "100000",
        "--radix",
        "64",
        "--accelerator",
        "h100-80gb",
    )
    done = netplan(*arguments, "--prices", "2026", columns=140)
    golden("compare-uneven.txt", done.stdout)


def test_expanded_memory_or_more_gpus() -> None:
    arguments = (
        "compare",
        "rail-only-paper",
        "--gpus",
        "1024",
        "--radix",
        "64",
        "--accelerator",
        "h100-80gb",
    )
    memories = ("--expanded-memory", "none", "--expanded-memory", "comet-480gb")
    done = netplan(*arguments, "--prices", "2026", "--fabric", "rail-only", *memories)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    golden("compare-memory.txt", done.stdout)
    weighed = done.stdout[done.stdout.index("Expanded memory or more GPUs?") :].partition("\n\n")[0]
    page = (Path(__file__).parents[2] / "docs/guide/memory.md").read_text(encoding="utf-8")
    assert f"> {' '.join(weighed.split())}\n" in page


def test_markdown() -> None:
    golden("compare.md", netplan(*MAIN_JOB, "--no-timing", "--format", "markdown").stdout)


def test_json_contract() -> None:
    data = json.loads(netplan(*MAIN_JOB, "--format", "json").stdout)
    assert data["inputs"]["gpus"] == 32_768
    assert data["inputs"]["radix"] == 128
    assert data["inputs"]["hb_size"] == 256
    assert data["inputs"]["model"] == "gpt-1t"
    rows = {row["fabric"]: row for row in data["fabrics"]}
    rail_only = rows["rail-only"]
    assert (rail_only["tiers"], rail_only["switches"], rail_only["links"]) == (1, 256, 32_768)
    assert rail_only["transceivers"] == 65_536
    assert rail_only["cost_usd"]["base"] == 49_020_928.0
    assert rail_only["cost_per_gpu_usd"] == 1496.0
    assert rail_only["cost_reduction"] == 0.75
    plan = rail_only["plan"]
    assert plan["tensor"] * plan["pipeline"] * plan["data"] == 32_768
    inside = plan["hb"]
    assert inside["tensor"] * inside["context"] * inside["pipeline"] * inside["data"] == 256
    assert plan["microbatch"] * plan["microbatches"] * plan["data"] == 4096
    # Useful FLOPs of an iteration over its time: 6 B s (l 12h^2 + h V) + 12 B s^2 h l, l 128.
    flops = 6 * 4096 * 2048 * (128 * 12 * 25_600**2 + 25_600 * 51_200)
    flops += 12 * 4096 * 2048**2 * 25_600 * 128
    useful = flops / rail_only["iteration_time_s"]
    assert rail_only["effective_flops_per_s"] == pytest.approx(useful, rel=1e-9)
    per_pflops = 49_020_928 / (useful / 1e15)
    assert rail_only["cost_per_effective_pflops_usd"] == pytest.approx(per_pflops, rel=1e-9)
    assert sum(rail_only["breakdown_s"].values()) == pytest.approx(rail_only["iteration_time_s"])
    assert rail_only["iteration_time_s"] == rows["rail-optimized"]["iteration_time_s"]


def test_every_fabric_has_its_own_time() -> None:
    data = json.loads(netplan(*MAIN_JOB, "--format", "json").stdout)
    assert len(data["fabrics"]) == 9
    times = {row["fabric"]: row["iteration_time_s"] for row in data["fabrics"]}
    assert None not in times.values()
    # Smaller HB domains and tapered networks train slower than domains of 256.
    assert times["rail-only"] < times["dragonfly"] < times["dgx-2"] < times["dgx-1"]


def test_no_timing_leaves_nulls() -> None:
    arguments = (
        "compare",
        "rail-only-paper",
        "--gpus",
        "4096",
        "--radix",
        "64",
        "--no-timing",
        "--format",
        "json",
    )
    for row in json.loads(netplan(*arguments).stdout)["fabrics"]:
        assert row["iteration_time_s"] is None
        assert row["mfu"] is None
        assert row["plan"] is None


def test_csv_has_a_row_a_fabric() -> None:
    text = netplan(
        "compare", "rail-only-paper", "--gpus", "4096", "--radix", "64", "--format", "csv"
    ).stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["fabric"] for row in rows][:2] == ["rail-optimized", "rail-only"]
    assert rows[0]["switches"] == "320"  # 128 + 128 + 64


def test_the_same_input_gives_the_same_bytes() -> None:
    assert netplan(*MAIN_JOB).stdout == netplan(*MAIN_JOB).stdout


def test_output_file_equals_stdout(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    arguments = (
        "compare",
        "rail-only-paper",
        "--gpus",
        "4096",
        "--radix",
        "64",
        "--no-timing",
        "--format",
        "json",
    )
    assert netplan(*arguments, "-o", str(path)).stdout == ""
    assert path.read_text() == netplan(*arguments).stdout
    assert [entry.name for entry in tmp_path.iterdir()] == ["answer.json"]


def test_one_fabric_and_an_override() -> None:
    arguments = (
        "compare",
        "rail-only-paper",
        "--gpus",
        "4096",
        "--radix",
        "64",
        "--fabric",
        "rail-only",
    )
    override = ("--set", "accelerator.memory_bytes=200e9", "--format", "json")
    data = json.loads(netplan(*arguments, *override).stdout)
    assert data["inputs"]["set"] == {"accelerator.memory_bytes": 200e9}
    assert [row["fabric"] for row in data["fabrics"]] == ["rail-only"]
    assert data["fabrics"][0]["memory_bytes"] < 200e9


def test_a_users_catalog_goes_first(tmp_path: Path) -> None:
    folder = tmp_path / "traffic" / "models"
    folder.mkdir(parents=True)
    shipped = netplan("catalog", "show", "gpt-22b").stdout
    (folder / "gpt-22b.yaml").write_text(shipped.replace("layers: 48", "layers: 12"))
    show = ("catalog", "show", "gpt-22b", "--format", "json", "--catalog", str(tmp_path))
    assert json.loads(netplan(*show).stdout)["layers"] == 12


def test_fabric_that_cannot_be_built_keeps_its_row() -> None:
    arguments = (
        "compare",
        "rail-only-paper",
        "--gpus",
        "4096",
        "--radix",
        "8",
        "--no-timing",
        "--format",
        "json",
    )
    rows = {row["fabric"]: row for row in json.loads(netplan(*arguments).stdout)["fabrics"]}
    assert rows["dragonfly"]["switches"] is None
    assert "holds at most 72 GPUs" in rows["dragonfly"]["notes"][0]
    assert rows["rail-only"]["switches"] > 0


def test_a_model_that_fits_nowhere_says_by_how_much() -> None:
    arguments = ("compare", "rail-only-paper", "--gpus", "8", "--radix", "8", "--format", "json")
    row = json.loads(netplan(*arguments, "--fabric", "rail-only").stdout)["fabrics"][0]
    assert row["iteration_time_s"] is None
    assert any("fits on no plan: the nearest needs" in note for note in row["notes"])


def test_cables_and_modules_are_those_of_the_bill() -> None:
    # 64 cages of two 400G ports, full of hosts and local links: 1,024 hosts on 512 twin cables, and
    # 2 x 496 local ends in 32 switches of 31 each: 16 twin modules a switch.
    size = ("--gpus", "1024", "--switch", "sn5600", "--accelerator", "h100-80gb", "--no-timing")
    done = netplan(
        "compare", "rail-only-paper", *size, "--fabric", "dragonfly", "--format", "json"
    ).stdout
    (row,) = json.loads(done)["fabrics"]
    assert (row["modules"], row["copper_ordered"]) == (32 * 16, 512)
    assert (row["transceivers"], row["copper_cables"]) == (0, 1_024 + 496)  # links, as planned


def test_what_follows_from_a_lower_bound_is_marked() -> None:
    size = ("compare", "rail-only-paper", "--gpus", "32768", "--radix", "128", "--no-timing")
    shown = netplan(*size, "--fabric", "dragonfly", "--format", "markdown").stdout
    (line,) = (text for text in shown.splitlines() if text.startswith("| dragonfly"))
    assert line.count("≥ ") == 2  # the price, and that of a GPU's share
    assert line.count("≤ ") == 1  # what is saved
    # A baseline without a whole price saves nothing that could be told.
    book = ("--prices", "2026", "--set", "prices.prices.switch_port@400.speed_gbps=401")
    rows = json.loads(netplan(*size, *book, "--format", "json").stdout)["fabrics"]
    assert {row["cost_reduction"] for row in rows} == {None}


@pytest.mark.parametrize("fabric", ["dgx-superpod", "dragonfly", "torus-2d", "rail-only"])
def test_an_oversubscription_that_does_not_apply_is_said(fabric: str) -> None:
    size = (
        "compare",
        "rail-only-paper",
        "--gpus",
        "4096",
        "--radix",
        "64",
        "--accelerator",
        "h100-80gb",
    )
    asked = (*size, "--no-timing", "--fabric", fabric, "--format", "json")
    (row,) = json.loads(netplan(*asked, "--oversubscription", "3:1").stdout)["fabrics"]
    said = "Oversubscription 3:1 does not apply: only Clos and rail-only networks have leaves"
    assert any(note.startswith(said) for note in row["notes"]) == (fabric != "rail-only")
    (row,) = json.loads(netplan(*asked).stdout)["fabrics"]
    assert "does not apply" not in str(row["notes"])


def test_times_with_error_bars() -> None:
    arguments = (
        "compare",
        "rail-only-paper",
        "--gpus",
        "1024",
        "--radix",
        "64",
        "--accelerator",
        "h100-80gb",
    )
    asked = ("--model", "llama-3-70b", "--iteration-model", "calibrated", "--batch", "512")
    fabrics = ("--fabric", "rail-only", "--fabric", "fat-tree", "--fabric", "torus-2d")
    done = netplan(*arguments, *asked, *fabrics, "--rule", "fastest")
    assert (done.returncode, done.stderr) == (0, "")
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    golden("compare-calibrated.txt", done.stdout)
    header = netplan(*arguments, *asked, *fabrics, "--format", "csv").stdout.splitlines()[0]
    assert ",iteration_time_s,iteration_time_low_s,iteration_time_high_s,error_basis,mfu," in header


def test_columns_of_times_sum_to_the_iteration() -> None:
    arguments = (
        "compare",
        "rail-only-paper",
        "--gpus",
        "256",
        "--radix",
        "64",
        "--fabric",
        "rail-only",
    )
    asked = ("--accelerator", "h100-80gb", "--model", "llama-3-8b", "--recompute", "full")
    done = netplan(*arguments, *asked, "--iteration-model", "calibrated", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    parts = [float(row[name] or 0) for name in row if name.startswith("breakdown_s.")]
    assert sum(parts) == pytest.approx(float(row["iteration_time_s"]), rel=1e-9)
    assert float(row["breakdown_s.recompute"]) > 0

"""What traffic finds of a network: a share of the rate that was bought, in every time."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netplan
from netplan import Scenario
from netplan.errors import InputError
from netplan.topologies.expand import expand
from netplan.topologies.specs import FABRICS
from tests.cli.command import netplan as run
from tests.cli.command import refused

SMALL = {"gpus": 64, "model": "llama-3-8b", "batch": 64}


def answer(question: str, asked: dict[str, Any]) -> dict[str, Any]:
    """What a question says of a small run on H100, whose cards have 50 GB/s."""
    found: dict[str, Any] = getattr(netplan, question)("hgx-h100", **asked).to_dict()
    return found


def times_in(found: object, name: str = "") -> dict[str, float]:
    """Every time in an answer, by the names that lead to it."""
    if isinstance(found, dict | list):
        parts = found.items() if isinstance(found, dict) else enumerate(found)
    else:
        timed = "_s" in name and "per_s" not in name
        return {name: found} if timed and isinstance(found, float) else {}
    return {
        path: seconds
        for key, part in parts
        if key not in ("inputs", "search_s", "seconds")
        for path, seconds in times_in(part, f"{name}.{key}").items()
    }


@pytest.mark.parametrize("question", ["search", "simulate", "loads", "traffic"])
def test_times_are_those_of_slower_cards(question: str) -> None:
    """Whoever finds 40 % of 400 Gb/s has the times of cards of 160 Gb/s."""
    asked = {**SMALL, "fabric": "fat-tree"}
    slower = {"overrides": {"accelerator.network_bytes_per_s": "20e9"}}
    shared, bought, whole = (
        answer(question, asked | more) for more in ({"as_found": 0.4}, slower, {})
    )
    assert len(times_in(shared)) > 1
    assert times_in(shared) == pytest.approx(times_in(bought), rel=1e-9)
    assert times_in(shared) != pytest.approx(times_in(whole), rel=0.02)
    assert shared["inputs"]["as_found"] == 0.4
    assert "as_found" not in whole["inputs"]


def test_serving_over_domains_waits_for_what_is_found() -> None:
    asked = {"fixed": {"tensor": 16}, "hb_size": 4, "gpus": 16, "concurrency": 64}
    slower = {"accelerator.network_bytes_per_s": "10e9"}
    shared, bought, whole = (
        netplan.serving("serving-70b-h200", **asked, **more).to_dict()["plans"]
        for more in ({"as_found": 0.2}, {"overrides": slower}, {})
    )
    assert times_in(shared) == pytest.approx(times_in(bought), rel=1e-12)
    assert shared[0]["tpot_s"] > 1.05 * whole[0]["tpot_s"]


def test_collectives_wait_for_what_is_found() -> None:
    asked = {"kind": "all_to_all", "gpus": 32, "message_bytes": 1e9}
    shared = netplan.collective("hgx-h100", **asked, as_found=0.25)
    bought, whole = (
        netplan.collective("hgx-h100", **asked, nic_gbps=rate).to_dict() for rate in (100, 400)
    )
    assert times_in(shared.to_dict()) == pytest.approx(times_in(bought), rel=1e-12)
    assert bought["time_s"] > 3 * whole["time_s"]
    assert bought["bound_s"] == pytest.approx(4 * whole["bound_s"])
    assert "at 25 % of its rate, 12.5 GB/s a GPU" in " ".join(shared.text().split())


def test_kernels_on_chips_of_a_fabric_wait_for_what_is_found() -> None:
    asked = ("map", "hgx-h100", "--model", "dlrm-793b", "--gpus", "128", "--fabric", "fat-tree")
    whole, shared, slower = (
        json.loads(run(*asked, *more, "--format", "json").stdout)
        for more in ((), ("--as-found", "0.5"), ("--set", "accelerator.network_bytes_per_s=25e9"))
    )
    assert times_in(shared) == pytest.approx(times_in(slower), rel=1e-12)
    assert times_in(shared) != pytest.approx(times_in(whole), rel=0.05)
    said = refused("map", "hgx-h100", "--model", "llama-3-8b", "--as-found", "0.5")
    assert "means nothing for chips on links of their own" in said


def test_a_comparison_pays_for_what_is_bought() -> None:
    shared, whole = (
        netplan.compare("hgx-h100", **SMALL, fabrics=("fat-tree",), **more).to_dict()["fabrics"][0]
        for more in ({"as_found": 0.3}, {})
    )
    assert shared["cost"] == whole["cost"]
    assert shared["iteration_time_s"] > whole["iteration_time_s"]
    network = shared["levels"][1]["link_bytes_per_s"], whole["levels"][1]["link_bytes_per_s"]
    assert network == (15e9, 50e9)
    assert shared["levels"][0] == whole["levels"][0]


@pytest.mark.parametrize("name", ["rail-only", "torus-3d", "dragonfly", "hammingmesh"])
def test_levels_and_graph_agree_on_it(name: str) -> None:
    spec = FABRICS.load(name)
    whole, found = (
        Scenario.load("hgx-h100").replace(gpus=512, radix=32, as_found=share) for share in (1, 0.5)
    )
    before, after = (expand(spec, scenario.sizing) for scenario in (whole, found))
    inside = before.is_role("hb")
    assert np.array_equal(before.bytes_per_s[inside], after.bytes_per_s[inside])
    assert np.array_equal(0.5 * before.bytes_per_s[~inside], after.bytes_per_s[~inside])
    rates = [
        [level.link_bytes_per_s for level in scenario.fabric(name).levels]
        for scenario in (whole, found)
    ]
    assert rates[1] == [rates[0][0], *(0.5 * rate for rate in rates[0][1:])]
    assert found.sizing.speed_gbps == whole.sizing.speed_gbps


def test_files_for_other_tools_have_what_is_bought(tmp_path: Path) -> None:
    scenario = tmp_path / "mine.yaml"
    scenario.write_text("cluster: {gpus: 64, as_found: 0.5}\n", encoding="utf-8")
    for words in (("export", "--to", "edges"), ("export", "--to", "astra-sim"), ("cables",)):
        command, *rest = words
        mine = run(command, str(scenario), *rest).stdout
        assert mine.replace("mine", "") == run(command, "--gpus", "64", *rest).stdout.replace(
            "hgx-b200", ""
        )


def test_headings_say_it() -> None:
    asked = ("hgx-h100", "--gpus", "64", "--model", "llama-3-8b", "--batch", "64")
    for command in ("search", "traffic", "simulate", "compare"):
        shown = " ".join(run(command, *asked, "--as-found", "0.45").stdout.split())
        assert "network at 45 % of its rate" in shown, command
    shown = run("serving", "serving-70b-h200", "--gpus", "16", "--as-found", "0.45").stdout
    assert "network at 45 % of its rate" in " ".join(shown.split())
    found = json.loads(run("search", *asked, "--as-found", "0.45", "--format", "json").stdout)
    assert found["inputs"]["as_found"] == 0.45


@pytest.mark.parametrize("share", ["0", "-0.5", "1.2", "nan"])
def test_a_share_out_of_range_is_one_line(share: str) -> None:
    said = refused("search", "hgx-h100", "--as-found", share)
    assert said.startswith("netplan: --as-found")
    assert "give a number from 0.01 to 1" in said


def test_a_share_in_a_file_or_in_python_is_checked_too(tmp_path: Path) -> None:
    scenario = tmp_path / "mine.yaml"
    scenario.write_text("cluster: {as_found: 2}\n", encoding="utf-8")
    assert "as_found" in refused("search", str(scenario))
    with pytest.raises(InputError, match="as_found 0"):
        netplan.Cluster(as_found=0)
    with pytest.raises(InputError, match="means nothing for a bill"):
        netplan.cost("hgx-h100", as_found=0.5)


def test_reports_and_studies_take_it(tmp_path: Path) -> None:
    found = netplan.procurement("hgx-h100", **SMALL, as_found=0.5).to_dict()
    assert found["inputs"]["as_found"] == 0.5
    study = tmp_path / "found.yaml"
    study.write_text(
        "name: found\ntitle: Shares\nsource: mine\ndate: '2026-12'\nask: search\n"
        "inputs: {gpus: 64, accelerator: h100-80gb, model: llama-3-8b, batch: 64}\n"
        "axes: [{input: as_found, values: [0.2, 0.5, 1]}]\n"
        "outputs: [plans.0.iteration_time_s]\n",
        encoding="utf-8",
    )
    made = run("study", "run", str(study), "--format", "csv", cwd=tmp_path)
    rows = made.stdout.splitlines()
    times = [float(row.split(",")[2]) for row in rows[1:4]]
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.1 * times[2]

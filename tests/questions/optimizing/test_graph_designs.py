"""``optimize`` with searched graphs: against the catalog, as files, within limits."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from netplan.errors import InfeasibleError, InputError
from netplan.questions.compare import compare
from netplan.questions.optimize import optimize
from netplan.questions.optimizing.front import Optimization
from tests.cli.command import netplan, refused

ASKED: dict[str, Any] = {
    "gpus": 256,
    "hb_sizes": (8,),
    "radices": (32,),
    "model": "gpt-22b",
    "batch": 256,
    "accelerator": "h100-80gb",
    "iteration_model": "ptd-p",
    "fabrics": ("fat-tree", "jellyfish"),
    "tries": 2,
}


@cache
def found() -> Optimization:
    return optimize("rail-only-paper", **ASKED, searched="graphs")


def test_graphs_beat_designs_of_the_catalog_or_are_beaten() -> None:
    answer, catalog = found(), optimize("rail-only-paper", **{**ASKED, "tries": 4})
    graphs = answer.graphs
    assert graphs is not None
    assert graphs.front == len(catalog.rows)
    points = answer.points
    kept = 0
    for value, time_s in catalog.points:
        kept += (value, time_s) in points
        assert any(one <= value and own_s <= time_s for one, own_s in points)
    assert len(graphs.beaten) == graphs.front - kept > 0
    for one in graphs.beaten:
        assert one.saves >= 0
        assert one.faster >= 0
        assert one.saves + one.faster > 0
    slowest = max(time_s for _, time_s in catalog.points)
    assert all(time_s <= 1.1 * slowest for _, time_s in points)


def test_what_is_proven_holds() -> None:
    graphs = found().graphs
    assert graphs is not None
    assert graphs.rows
    tally = graphs.space.tally
    assert tally.searched <= tally.allowed <= tally.counts
    assert tally.kept == len(graphs.space.designs)
    for row in graphs.rows:
        assert row.optimum_s is not None
        assert row.optimum_s == pytest.approx(row.reached_s, rel=1e-9)
        assert row.optimum_s >= row.least_s * (1 - 1e-9)
        assert row.analytic_s is not None
        assert row.analytic_s >= row.optimum_s
        assert row.spread_gap >= 0
        assert 0 < row.any_share <= row.uniform_share <= 1 or row.any_share == 1


def test_files_have_the_same_numbers(tmp_path: Path) -> None:
    graphs = found().graphs
    assert graphs is not None
    graphs.write(tmp_path)
    with pytest.raises(InputError, match="already there"):
        graphs.write(tmp_path)
    names = [f"{tmp_path}/topologies/{row.spec.name}.yaml" for row in graphs.rows[:2]]
    same = {key: ASKED[key] for key in ("gpus", "model", "batch", "accelerator", "iteration_model")}
    other = compare("rail-only-paper", **same, radix=32, hb_size=8, fabrics=names)
    for row, mine in zip(other.rows, graphs.rows, strict=False):
        front = found().rows[mine.number - 1]
        assert row.name == mine.spec.name
        assert row.cost == front.row.cost
        assert row.time_s == front.row.time_s
        assert row.fabric == front.design.fabric


def test_limits_bind() -> None:
    budget = found().points[0][0] * 1.02
    answer = optimize(
        "rail-only-paper", **ASKED, searched="graphs", budget=budget, max_cables=360, degree=8
    )
    assert answer.graphs is not None
    assert answer.graphs.rows
    for row in answer.rows:
        assert row.design.value("cost") <= budget
        assert row.design.fabric.link_count <= 360
    assert all(row.degree <= 8 for row in answer.graphs.rows)
    with pytest.raises(InfeasibleError, match=r"--max-cables: .* has the fewest, .* allow"):
        optimize("rail-only-paper", **{**ASKED, "tries": 4}, max_cables=200)


def test_inputs_without_a_search_mean_nothing(tmp_path: Path) -> None:
    for change in ({"degree": 8}, {"seed": 3}, {"slower": 0.2}):
        with pytest.raises(InputError, match="means nothing for --search catalog"):
            optimize("rail-only-paper", **{**ASKED, "tries": 4, **change})
    with pytest.raises(InputError, match=r"--degree 2 is out of range: give a number from 3"):
        optimize("rail-only-paper", **ASKED, searched="graphs", degree=2)
    small = (
        "optimize",
        "rail-only-paper",
        "--radix",
        "64",
        "--radix",
        "128",
        "--gpus",
        "256",
        "--hb-size",
        "8",
        "--fabric",
        "fat-tree",
    )
    error = refused(*small, "--into", str(tmp_path / "mine"))
    assert "ask with --search graphs" in error


def test_the_command_tells_and_writes(tmp_path: Path) -> None:
    words = (
        "optimize",
        "rail-only-paper",
        "--gpus",
        "128",
        "--hb-size",
        "8",
        "--radix",
        "32",
        "--model",
        "gpt-22b",
    )
    more = ("--batch", "128", "--fabric", "fat-tree", "--search", "graphs", "--tries", "1")
    folder = tmp_path / "mine"
    done = netplan(*words, *more, "--into", str(folder), "--format", "json")
    graphs = json.loads(done.stdout)["graphs"]
    names = sorted(path.stem for path in folder.glob("topologies/*.yaml"))
    assert names
    assert names == sorted(one["spec"]["name"] for one in graphs["found"])
    assert graphs["search"]["next_seed"] == 1
    assert netplan("catalog", "check", "--catalog", str(folder)).returncode == 0

"""``netplan traffic``, ``loads`` and ``export``: contracts, hand-worked values, wrong input."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.command import netplan, refused

FIGURE_4 = ("--gpus", "3072", "--hb-size", "8", "--batch", "3072", "--algorithm", "ring")
PTDP = ("--iteration-model", "ptd-p")
PLAN = ("tensor=8", "pipeline=64", "microbatch=1", "interleave=1")
FIXED = (*PTDP, *(part for text in PLAN for part in ("--fix", text)))


def test_traffic_of_figure_4() -> None:
    answer = json.loads(
        netplan("traffic", "rail-only-paper", *FIGURE_4, *FIXED, "--format", "json").stdout
    )
    kinds = {row["kind"]: row for row in answer["kinds"]}
    # 8 l/p m 2bhs (t-1)/t = 8*2*512*104857600*7/8 bytes a tensor pair, one pair a GPU.
    assert kinds["tensor"]["pair_bytes"] == pytest.approx(751_619_276_800)
    assert kinds["tensor"]["pairs"] == 3072
    # 2 (d-1)/d 2*2*12h^2/t = 5/6 * 2 * 2*2*12*25600^2/8 bytes a data pair.
    assert kinds["data"]["pair_bytes"] == pytest.approx(6_553_600_000)
    # m 2bhs/t one way between neighbouring stages: 512*104857600/8; 2*8*6*63 ordered pairs.
    assert kinds["pipeline"]["pair_bytes"] == pytest.approx(6_710_886_400)
    assert kinds["pipeline"]["pairs"] == 2 * 8 * 6 * 63
    assert answer["hb_share"] == pytest.approx(0.9743764, abs=1e-6)
    assert 100 * answer["idle_pairs_share"] == pytest.approx(99.87076687, abs=1e-6)
    assert sum(map(sum, answer["heat_map_bytes"])) == pytest.approx(answer["total_bytes"])


def test_traffic_table_fits_the_terminal() -> None:
    text = netplan("traffic", "rail-only-paper", *FIGURE_4, *FIXED).stdout
    assert "97.44 %" in text
    assert max(len(line) for line in text.splitlines()) <= 80


@pytest.mark.parametrize("ending", ["npz", "csv"])
def test_traffic_is_saved(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"matrix.{ending}"
    netplan("traffic", "rail-only-paper", *FIGURE_4, *FIXED, "--save", str(path))
    assert path.stat().st_size > 10_000


def test_heat_map_is_one_offline_page(tmp_path: Path) -> None:
    path = tmp_path / "heat.html"
    netplan("traffic", "rail-only-paper", *FIGURE_4, *FIXED, "--heat-map", str(path))
    page = path.read_text(encoding="utf-8")
    assert "Traffic of gpt-1t, batch 3,072, on 3,072 gh200-96gb" in page
    assert "<title>GPU 0 to 95 to GPU 96 to 191: " in page  # what hovering over a cell says
    assert "first GPU of a block (12 HB domains)" in page
    names = re.findall(r'aria-label="(Who sends to whom[^"]*)"', page)
    assert any("pairs of blocks exchange something" in name for name in names)
    # Amounts in numbers, for those who use no pointer: the largest first.
    amounts = re.findall(
        r'<td class="number"[^>]*>([\d.]+) TB</td>', page.partition("<details>")[2]
    )
    assert amounts == sorted(amounts, key=float, reverse=True)
    assert len(amounts) > 30
    assert "<script src=" not in page
    assert "<link " not in page


def test_loads_leave_the_spine_of_a_rail_optimized_fabric_idle() -> None:
    # Rails of 128 GPUs span two leaves of 64 ports down: only the core carries nothing.
    answer = json.loads(
        netplan(
            "loads", "rail-only-paper", "--gpus", "32768", "--radix", "128", "--format", "json"
        ).stdout
    )
    groups = {row["group"]: row for row in answer["groups"]}
    assert groups["spine-core"]["unused"] == groups["spine-core"]["directions"] == 65_536
    assert groups["leaf-spine"]["busiest_s"] < groups["host"]["busiest_s"]
    assert answer["busiest_s"] == max(row["busiest_s"] for row in answer["groups"])
    for one in answer["collectives"]:
        # The busiest link never takes longer than the model, and no time is below its bound.
        assert one["bound_s"] <= one["busiest_s"] * (1 + 1e-9)
        assert one["busiest_s"] <= one["analytic_s"] * (1 + 1e-9)
        assert one["bound_s"] <= one["analytic_s"] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("fabric", "hb_size"),
    [("rail-only", "32"), ("fat-tree", "8"), ("torus-3d", "1"), ("dragonfly", "8"), ("dgx-1", "8")],
)
def test_busiest_link_never_exceeds_the_model(fabric: str, hb_size: str) -> None:
    arguments = ["loads", "rail-only-paper", "--gpus", "512", "--radix", "32", "--fabric", fabric]
    arguments += ("--hb-size", hb_size, "--model", "gpt-22b", "--batch", "512")
    done = netplan(*arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["collectives"]
    explained = " ".join(answer["notes"])
    for one in answer["collectives"]:
        # Equal, below because the model adds phases, or above and explained.
        if one["busiest_s"] > one["analytic_s"] * (1 + 1e-9):
            assert f"{one['kind']} {one['collective']} (" in explained


def test_loads_of_a_saved_matrix_on_a_file_equal_those_on_the_fabric(tmp_path: Path) -> None:
    matrix, graph = tmp_path / "matrix.npz", tmp_path / "graph.graphml"
    run = ("--gpus", "512", "--radix", "16", "--hb-size", "8", "--fabric", "fat-tree")
    trained = ("--model", "gpt-22b", "--batch", "512")
    netplan("traffic", "rail-only-paper", *run, *trained, "--save", str(matrix))
    netplan("export", "rail-only-paper", *run, "--to", "graphml", "-o", str(graph))
    form = ("--format", "json")
    answers = [
        json.loads(netplan("loads", "rail-only-paper", *arguments, *form).stdout)
        for arguments in (
            (*run, *trained),
            (*run, "--matrix", str(matrix)),
            ("--graph", str(graph), "--matrix", str(matrix)),
        )
    ]
    for answer in answers[1:]:
        assert answer["busiest_s"] == pytest.approx(answers[0]["busiest_s"], rel=1e-12)
        for row, same in zip(answer["groups"], answers[0]["groups"], strict=True):
            assert row["total_bytes"] == pytest.approx(same["total_bytes"])
    bounded = (
        "loads",
        "rail-only-paper",
        "--graph",
        str(graph),
        "--matrix",
        str(matrix),
        "--bounds",
        *form,
    )
    bounds = json.loads(netplan(*bounded).stdout)["bounds_s"]
    # 64 domains of 8 on one network: (y-1)/(x y) D / C_S = 63/512 * 1e9 / 50e9 binds.
    assert bounds["all_gather"] == pytest.approx(63 / 512 * 1e9 / 50e9, rel=1e-9)
    assert bounds["all_reduce"] == pytest.approx(2 * bounds["all_gather"], rel=1e-9)
    small = refused(
        "loads", "rail-only-paper", "--gpus", "256", "--hb-size", "8", "--matrix", str(matrix)
    )
    assert "holds a matrix for 512 GPUs, the cluster has 256" in small
    assert "needs --matrix" in refused("loads", "rail-only-paper", "--graph", str(graph))


def test_hashed_loads_collide() -> None:
    # Rails of 16 GPUs on radix-8 leaves use the spine; a hash puts some flows on one link.
    arguments = [
        "loads",
        "rail-only-paper",
        "--gpus",
        "512",
        "--radix",
        "8",
        "--hb-size",
        "8",
        "--format",
        "json",
    ]
    arguments += ("--model", "gpt-22b", "--batch", "512")
    fluid, hashed = (
        json.loads(netplan(*arguments, "--routing", routing).stdout)
        for routing in ("ecmp", "hashed")
    )
    spine = {"fluid": fluid, "hashed": hashed}
    busiest = {
        name: max(row["busiest_s"] for row in answer["groups"] if "-" in row["group"])
        for name, answer in spine.items()
    }
    assert busiest["hashed"] > busiest["fluid"]


@pytest.mark.parametrize("to", ["graphml", "dot", "edges", "simai", "topo", "slurm", "astra-sim"])
def test_every_format_is_written(tmp_path: Path, to: str) -> None:
    path = tmp_path / "fabric.txt"
    arguments = (
        "export",
        "rail-only-paper",
        "--fabric",
        "rail-only",
        "--gpus",
        "64",
        "--radix",
        "8",
        "--hb-size",
        "8",
        "--to",
        to,
    )
    assert netplan(*arguments, "-o", str(path)).returncode == 0
    assert path.read_text() == netplan(*arguments).stdout
    assert path.stat().st_size > 20


def test_a_graph_survives_conversion(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.graphml"
    netplan(
        "export",
        "rail-only-paper",
        "--fabric",
        "rail-only",
        "--gpus",
        "64",
        "--radix",
        "8",
        "--hb-size",
        "8",
        "--to",
        "edges",
        "-o",
        str(first),
    )
    netplan(
        "export",
        "rail-only-paper",
        "--graph",
        str(first),
        "--hb-size",
        "8",
        "--to",
        "graphml",
        "-o",
        str(second),
    )
    assert (
        netplan("export", "rail-only-paper", "--graph", str(second), "--to", "edges").stdout
        == first.read_text()
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("traffic", "rail-only-paper", "--gpus", "100", "--hb-size", "8", "--space", "model"),
            "100 GPUs do not fill HB domains of 8",
        ),
        (
            (
                *("traffic", "rail-only-paper", "--gpus", "64", "--hb-size", "12"),
                *("--accelerator", "a100-comet", "--iteration-model", "comet"),
            ),
            "64 GPUs do not fill HB domains of 12 on rail-optimized: give powers of two for both",
        ),
        (
            ("traffic", "rail-only-paper", "--gpus", "4096", "--save", "matrix.xyz"),
            "name it .npz or .csv",
        ),
        (
            ("traffic", "rail-only-paper", "--gpus", "4096", "--fix", "tensor=7"),
            "has tensor 7: free one of them",
        ),
        (
            (
                "loads",
                "rail-only-paper",
                "--gpus",
                "4096",
                "--fabric",
                "fat-tree",
                "--routing",
                "valiant",
            ),
            "is no dragonfly",
        ),
        (
            ("loads", "rail-only-paper", "--gpus", "4096", "--routing", "magic"),
            "'magic' is not one of",
        ),
        (("loads", "rail-only-paper", "--gpus", "64", "--seed", "-1"), "--seed -1: give 0 or more"),
        (("loads", "rail-only-paper", "--gpus", "64", "--hot", "-1"), "--hot -1: give 0 or more"),
        (("export", "rail-only-paper", "--graph", "nothing.xyz", "--to", "dot"), "cannot be read"),
        (("export", "rail-only-paper", "--graph", "nothing.csv", "--to", "dot"), "nothing.csv"),
        (
            ("export", "rail-only-paper", "--graph", "nothing.csv", "--to", "astra-sim"),
            "from a fabric's levels",
        ),
    ],
)
def test_wrong_input(arguments: tuple[str, ...], message: str) -> None:
    error = refused(*arguments)
    assert message in error
    assert error.count("\n") == 1


def test_a_disconnected_graph_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    header = "source,source_kind,source_port,target,target_kind,target_port,gbps,length,group\n"
    rows = "gpu-0,gpu,0,leaf-0,switch,0,400,row,host\ngpu-1,gpu,0,leaf-1,switch,0,400,row,host\n"
    path.write_text(header + rows)
    assert "not connected" in refused(
        "export", "rail-only-paper", "--graph", str(path), "--to", "dot"
    )
    path.write_text(header + rows.replace("leaf-1,switch,0,400", "leaf-0,switch,1,0"))
    assert "two.csv:3" in refused("export", "rail-only-paper", "--graph", str(path), "--to", "dot")

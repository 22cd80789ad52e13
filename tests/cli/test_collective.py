"""Collectives on the command line: one size, sweeps, ways to say a size, what is refused."""

import json
from pathlib import Path
from typing import Any, Literal

import networkx as nx
import pytest

from netplan.questions.collective import Collective, collective
from netplan.traffic.measured_links import MEASURED_LINKS
from tests.cli.command import netplan, refused

EIGHT = (
    "collective",
    "--scenario",
    "hgx-h100",
    "--kind",
    "all_reduce",
    "--gpus",
    "8",
    "--accelerator",
    "h100-80gb",
)


def asked(*words: str) -> dict[str, Any]:
    """The JSON of an answer."""
    found: dict[str, Any] = json.loads(netplan(*words, "--format", "json").stdout)
    return found


def ring_file(folder: Path, *, directed: bool = False) -> Path:
    """Eight GPUs in a ring of 50 GB/s links, as networkx writes it."""
    view: nx.Graph[str] = nx.DiGraph() if directed else nx.Graph()
    view.add_nodes_from((f"gpu-{g}", {"kind": "gpu"}) for g in range(8))
    view.add_edges_from((f"gpu-{g}", f"gpu-{(g + 1) % 8}", {"bytes_per_s": 50e9}) for g in range(8))
    path = folder / "ring.graphml"
    nx.write_graphml(view, path)
    return path


@pytest.mark.parametrize("example", Collective.examples)
def test_examples_of_the_help_have_an_answer(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ring_file(tmp_path)
    assert netplan(*example.split()[1:], "--format", "json").returncode == 0


def test_one_size_stands_at_the_top() -> None:
    found = asked(*EIGHT, "--bytes", "512MiB")
    assert found["time_s"] == pytest.approx(2.111e-3, rel=0.08)  # measured, NCCL 2.29.2
    assert found["algbw_bytes_per_s"] == pytest.approx(2**29 / found["time_s"])
    assert found["busbw_bytes_per_s"] == pytest.approx(1.75 * found["algbw_bytes_per_s"])
    assert found["regime"] == "in-switch"
    # In the switches each GPU sends its input once: 512 MiB at 450 GB/s.
    assert found["bound_s"] == pytest.approx(2**29 / 450e9)
    # Nine of ten such sizes took 0.89 to 1.24 times as long.
    assert found["time_low_s"] == pytest.approx(0.89 * found["time_s"])
    assert found["time_high_s"] == pytest.approx(1.24 * found["time_s"])
    assert found["inputs"] == {
        "scenario": "hgx-h100",
        "kind": "all_reduce",
        "message_bytes": 2**29,
        "gpus": 8,
        "accelerator": "h100-80gb",
        "hb_size": 8,
        "nic_gbps": None,
        "network_kind": "infiniband",
        "set": {},
    }


@pytest.mark.parametrize(
    ("text", "size"),
    [("8e9", 8e9), ("512MiB", 2**29), ("512MB", 512e6), ("1 GB", 1e9), ("64KiB", 2**16), ("7", 7)],
)
def test_ways_to_say_a_size(text: str, size: float) -> None:
    assert asked(*EIGHT, "--bytes", text)["message_bytes"] == size


def test_a_sweep_doubles_up_to_its_end() -> None:
    found = asked(*EIGHT, "--bytes", "1MiB..5MiB")
    assert [row["message_bytes"] / 2**20 for row in found["sizes"]] == [1, 2, 4, 5]
    whole = asked(*EIGHT)["sizes"]
    assert (whole[0]["message_bytes"], whole[-1]["message_bytes"]) == (2**10, 2**34)
    for row in whole:
        assert row["bound_s"] <= row["time_low_s"] <= row["time_s"] <= row["time_high_s"]
    assert [row["regime"] for row in whole] == ["large"] * 14 + ["in-switch"] * 11


def test_python_says_the_same() -> None:
    answer = collective(
        "hgx-h100", kind="all_gather", message_bytes=8e9, gpus=64, accelerator="h100-80gb"
    )
    gather = (
        "collective",
        "--scenario",
        "hgx-h100",
        "--kind",
        "all_gather",
        "--gpus",
        "64",
        "--bytes",
        "8e9",
    )
    assert answer.to_dict() == asked(*gather)
    both = collective("hgx-h100", kind="all_gather", message_bytes=(2**20, 2**21), gpus=64)
    assert [row.message_bytes for row in both.rows] == [2**20, 2**21]
    assert both.plot().data


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (("--gpus", "1440", "--accelerator", "gb200"), "Beyond two racks one public run is known"),
        (("--gpus", "36", "--accelerator", "gb200"), "not with 36"),
        (("--gpus", "8", "--accelerator", "mi300x"), "Nobody has measured"),
        (("--gpus", "64", "--kind", "all_gather"), "Across domains only all_reduce was measured"),
        (("--gpus", "8", "--kind", "broadcast"), "broadcast is not measured"),
    ],
)
def test_what_the_form_cannot_say_it_says(words: tuple[str, ...], note: str) -> None:
    kind = () if "--kind" in words else ("--kind", "all_reduce")
    notes = asked("collective", "--scenario", "hgx-h100", *kind, *words, "--bytes", "1GiB")["notes"]
    assert any(note in one for one in notes)


def test_unmeasured_groups_have_wide_bars() -> None:
    def widths(*words: str) -> float:
        found = asked(
            "collective",
            "--scenario",
            "hgx-h100",
            "--kind",
            "all_reduce",
            "--bytes",
            "8GiB",
            *words,
        )
        return float(found["time_high_s"] / found["time_s"])

    rack = widths("--gpus", "72", "--accelerator", "gb200")
    assert rack == pytest.approx(1.4)
    assert widths("--gpus", "36", "--accelerator", "gb200") == pytest.approx(1 / (1 - 0.32))
    assert widths("--gpus", "1440", "--accelerator", "gb200") == pytest.approx(1.54)
    assert widths("--gpus", "8", "--accelerator", "mi300x") == pytest.approx(1.38)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpus", "8", "--bytes", "5q"), "'5q' is no size: write 8e9, 512MiB"),
        (("--gpus", "8", "--bytes", "0"), "--bytes 0 B is out of range"),
        (("--gpus", "8", "--bytes", "4..2"), "the smaller size first"),
        (("--gpus", "8", "--bytes", "1e400"), "is out of range"),
        (("--gpus", "12"), "give 8 or 16, or another --hb-size"),
        (("--gpus", "1"), "--gpus 1 is out of range"),
        (("--gpus", "16", "--accelerator", "tpu-v4"), "links to its neighbours"),
        (("--gpus", "8", "--set", "nvlink-5.larger_error=0.2"), "nvlink-5"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], said: str) -> None:
    line = refused("collective", "--scenario", "hgx-h100", "--kind", "all_reduce", *words)
    assert said in line
    assert line.count("\n") <= 1


def test_values_of_the_links_are_replaced() -> None:
    gather = (
        "collective",
        "--scenario",
        "hgx-h100",
        "--kind",
        "all_gather",
        "--gpus",
        "8",
        "--bytes",
        "1e12",
    )
    slower = asked(*gather, "--set", "nvlink-4.all_gather.large.efficiency=0.5")
    assert slower["time_s"] / asked(*gather)["time_s"] == pytest.approx(0.849 / 0.5, rel=1e-2)
    assert slower["inputs"]["set"] == {"nvlink-4.all_gather.large.efficiency": 0.5}


MEASURED = ("--set", "iteration-model.communication.collectives=measured")
TRAINED = ("--gpus", "16", "--hb-size", "8", "--accelerator", "h100-80gb", "--model", "gpt-22b")


def test_a_simulated_iteration_takes_what_measured_collectives_take_alone() -> None:
    one = (*TRAINED, "--batch", "32", "--fix", "pipeline=1", *MEASURED)
    found = asked("simulate", "rail-only-paper", *one, "--no-contention")
    assert found["iteration_time_s"] == pytest.approx(found["analytic_time_s"], rel=1e-9)


def test_loads_say_why_measured_collectives_take_longer_than_their_links() -> None:
    shown = " ".join(
        netplan("loads", "rail-only-paper", *TRAINED, "--batch", "32", *MEASURED).stdout.split()
    )
    assert "measured rings take time to start, and reach a share of the bandwidth" in shown
    assert "shares links" not in shown


@pytest.mark.parametrize(
    ("kind", "directed", "share"),
    [
        # Seven eighths of 8 GB come in over two links, or one.
        ("all_gather", False, 7 / 8 / 2),
        ("reduce_scatter", True, 7 / 8),
        ("all_reduce", False, 2 * 7 / 8 / 2),
    ],
)
def test_the_optimum_on_a_graph(
    tmp_path: Path,
    kind: Literal["all_gather", "reduce_scatter", "all_reduce"],
    *,
    directed: bool,
    share: float,
) -> None:
    path = ring_file(tmp_path, directed=directed)
    found = asked(
        "collective",
        "--scenario",
        "hgx-h100",
        "--kind",
        kind,
        "--bytes",
        "8e9",
        "--graph",
        str(path),
    )
    assert found["optimum_s"] == pytest.approx(8e9 * share / 50e9, rel=1e-12)
    assert found["optimum_s"] == found["bound_s"] == found["reached_s"]
    assert (found["exact"], found["gap"]) == (True, 0.0)
    assert (found["gpus"], found["switches"], found["representatives"]) == (8, 0, 1)
    assert found["busbw_bytes_per_s"] == pytest.approx(50e9 if directed else 100e9)
    assert found["cut"]["outside_gpus"] == 1
    assert {tree["root"] for tree in found["trees"]} == {f"gpu-{g}" for g in range(8)}
    python = collective("hgx-h100", kind=kind, message_bytes=8e9, graph=path)
    assert python.to_dict() == found


def test_a_sweep_and_a_program_on_a_graph(tmp_path: Path) -> None:
    path, program = ring_file(tmp_path), tmp_path / "ring.xml"
    words = (
        "collective",
        "--scenario",
        "hgx-h100",
        "--kind",
        "all_gather",
        "--graph",
        str(path),
        "--bytes",
        "1MiB..4MiB",
    )
    assert [row["message_bytes"] for row in asked(*words)["sizes"]] == [2**20, 2**21, 2**22]
    shown = " ".join(netplan(*words, "--xml", str(program)).stdout.split())
    assert "all that 7 GPUs have goes to gpu-0 over 100 GB/s" in shown
    assert program.read_text().startswith('<algo name="ring" proto="Simple"')


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--kind", "broadcast", "--graph", "ring.graphml"), "use all_gather, reduce_scatter"),
        (("--kind", "all_gather", "--graph", "ring.graphml", "--gpus", "8"), "leave one of them"),
        (("--kind", "all_gather", "--gpus", "1"), "--gpus 1 is out of range: give a number from 2"),
        (("--kind", "all_gather", "--graph", "none.graphml"), "none.graphml: cannot be read"),
        (("--kind", "all_gather", "--gpus", "8", "--xml", "a.xml"), "give one with --graph"),
    ],
)
def test_what_a_graph_cannot_answer_is_one_line(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ring_file(tmp_path)
    assert said in refused("collective", "--scenario", "hgx-h100", *words)
    assert not (tmp_path / "a.xml").exists()


def test_an_algorithm_is_timed_by_its_steps_and_bytes() -> None:
    # Eight GPUs, 450 GB/s: start, steps and efficiency of the ring that was measured on NVLink 4.
    measured = MEASURED_LINKS.load("nvlink-4").all_reduce.large
    rate = measured.efficiency * 450e9
    # Half of the measured step is that of one phase: 3 steps up the trees and 3 down, D each.
    trees_s = measured.start_s + 3 * measured.step_s + 2 * 2**20 / rate
    # 7/8 D out and 7/8 D in, 7 steps each.
    ring_s = measured.start_s + 7 * measured.step_s + 2 * 7 / 8 * 2**20 / rate
    for name, time_s in (("double_binary_tree", trees_s), ("ring", ring_s)):
        found = asked(*EIGHT, "--bytes", "1MiB", "--collective-algorithm", name)
        assert found["time_s"] == pytest.approx(time_s, rel=1e-12)
        assert found["regime"] == found["inputs"]["collective_algorithm"] == name
    assert "collective_algorithm" not in asked(*EIGHT, "--bytes", "1MiB")["inputs"]


def test_an_algorithm_that_does_not_do_that_is_refused(tmp_path: Path) -> None:
    words = ("--collective-algorithm", "halving_doubling")
    message = refused("collective", "--kind", "all_to_all", "--gpus", "8", *words)
    assert "halving_doubling has no all_to_all on switches" in message
    message = refused("collective", "--kind", "send", "--gpus", "8", *words)
    assert "has no send" in message
    message = refused(*EIGHT, "--collective-algorithm", "tree")
    assert "unknown algorithm 'tree': use one of ring" in message
    graph = ("--graph", str(ring_file(tmp_path)))
    message = refused("collective", "--kind", "all_gather", "--bytes", "8e9", *graph, *words)
    assert "--collective-algorithm halving_doubling means nothing for the optimum" in message


@pytest.mark.parametrize(
    ("words", "basis", "low", "high"),
    [
        (("--network-kind", "efa"), "fitted", 0.74, 1.43),
        (("--network-kind", "efa", "--gpus", "64"), "assumed", 0.5, 2.0),
        (("--network-kind", "efa", "--accelerator", "h200"), "fitted", 0.74, 1.43),
        (("--network-kind", "efa", "--accelerator", "b200-1000w"), "assumed", 0.5, 2.0),
        (("--network-kind", "efa", "--kind", "all_gather"), "assumed", 0.5, 2.0),
        (("--network-kind", "tcpxo"), "assumed", 0.5, 2.0),
        (("--network-kind", "slingshot", "--bytes", "512MiB"), "assumed", 1 / 1.2, 1 / 0.8),
        (("--network-kind", "efa", "--bytes", "512MiB"), "fitted", 0.92, 1.05),
        (("--network-kind", "roce"), "assumed", 1 / 1.4, 1 / 0.6),
        ((), "measured", 1 / 1.4, 1 / 0.6),
        (("--gpus", "8"), None, 0.83, 1.23),
    ],
)
def test_bars_are_as_wide_as_what_they_rest_on(
    words: tuple[str, ...], basis: str | None, low: float, high: float
) -> None:
    usual = {"--kind": "all_reduce", "--gpus": "16", "--bytes": "1MiB"}
    given = usual | dict(zip(words[::2], words[1::2], strict=True))
    found = asked("collective", "hgx-h100", *(word for pair in given.items() for word in pair))
    assert found["network_basis"] == basis
    assert found["time_high_s"] == pytest.approx(high * found["time_s"])
    assert found["time_low_s"] == pytest.approx(max(low * found["time_s"], found["bound_s"]))
    assert found["inputs"]["network_kind"] == given.get("--network-kind", "infiniband")


def test_the_kind_of_a_network_is_that_of_its_fabric(tmp_path: Path) -> None:
    scenario = tmp_path / "mine.yaml"
    scenario.write_text("cluster: {accelerator: h100-80gb, fabric: frontier}\n", encoding="utf-8")
    words = ("--kind", "all_reduce", "--gpus", "64", "--bytes", "1MiB")
    assert asked("collective", str(scenario), *words)["inputs"]["network_kind"] == "slingshot"
    scenario.write_text(
        "cluster: {accelerator: h100-80gb, network_kind: efa, nic_gbps: 200}\n", encoding="utf-8"
    )
    found = asked("collective", str(scenario), *words)
    assert found["inputs"]["network_kind"] == "efa"
    shown = " ".join(netplan("collective", str(scenario), *words).stdout.split())
    assert "between 8 of them: efa, 25 GB/s a GPU, assumed" in shown
    assert "Elsewhere efa is assumed: half or twice as long below 64 MiB." in shown


def test_kinds_of_networks_reach_iteration_model_measured() -> None:
    words = ("search", "hgx-h100", "--gpus", "64", "--model", "llama-3-8b", "--batch", "64")
    times = [
        asked(*words, "--iteration-model", "measured", *more)["plans"][0]["iteration_time_s"]
        for more in ((), ("--network-kind", "roce"), ("--network-kind", "efa"))
    ]
    assert times[0] == times[1] < times[2]
    said = refused(*words, "--iteration-model", "4d", "--network-kind", "efa")
    assert "iteration model 4d has no times for --network-kind efa" in said


def test_graphs_have_their_own_rates(tmp_path: Path) -> None:
    graph = ("collective", "--kind", "all_gather", "--graph", str(ring_file(tmp_path)))
    for words in (("--as-found", "0.5"), ("--network-kind", "efa"), ("--nic", "200")):
        assert f"{words[0]} {words[1]}" in refused(*graph, *words)

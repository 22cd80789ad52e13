"""Plans of graphs of one's own: one answer with the map, shares by hand, traffic of replicas."""

import csv
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netplan
from netplan.errors import InputError, NetplanError
from netplan.inputs.choices import Execution
from netplan.levels import Level
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.plan import Plan
from netplan.performance.search import evaluate_plan
from netplan.performance.setting import Options, TrainedModel
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.graph_model import GraphModel
from netplan.workloads.graph_sharding import best_sharding, shared_graph
from netplan.workloads.kernel_graph import Kernel, KernelGraph
from netplan.workloads.model_graphs import layer_graph
from netplan.workloads.models import MODELS, WORKLOADS

EXAMPLES = Path(__file__).parents[2] / "examples"
MIXER, GPT = str(EXAMPLES / "mixer.yaml"), str(EXAMPLES / "gpt-layer.yaml")
GOLDEN_FILE = Path(__file__).parents[1] / "golden" / "dataflow.csv"
HEAD = {"name": "mine", "title": "A graph", "source": "a test", "date": "2026", "family": "graph"}
UP = {"name": "up", "kind": "gemm", "m": 512, "k": 128, "n": 64}
UP |= {"output_bytes": 65536.0, "weight_bytes": 131072.0}
DOWN = {"name": "down", "kind": "gemm", "m": 128, "k": 512, "n": 64}
DOWN |= {"output_bytes": 16384.0, "weight_bytes": 131072.0}
MLP: dict[str, Any] = HEAD | {"kernels": [UP, DOWN], "edges": [["up", "down"]]}
BACK = {"name": "back", "kind": "gemm", "m": 512, "k": 128, "n": 64, "weight_bytes": 131072.0}
TRAINED: dict[str, Any] = MLP | {
    "kernels": [UP, DOWN, BACK | {"backward": True}],
    "edges": [["up", "down"], ["down", "back"], ["up", "back"]],
}


def training(batch: int, **graph: object) -> TrainedModel:
    """Runs of the graph on SN30."""
    sn30, fourd = ACCELERATORS.load("sn30"), ITERATION_MODELS.load("4d")
    return TrainedModel.make(sn30, GraphModel.read(MLP | graph), fourd, batch=batch)


def placed(*degrees: Degrees, microbatch: int = 1, microbatches: int = 1) -> Plan:
    """A plan of these degrees at two levels."""
    return Plan(Placement(degrees), microbatch, microbatches)


LEVELS = Level("switch", 2, 50e9, 0, 1e-6), Level("switch", 2, 25e9, 0, 2e-6)


@pytest.mark.parametrize("execution", ["fused", "kernel-by-kernel"])
@pytest.mark.parametrize("microbatch", [1, 3])
def test_on_one_chip_a_search_gives_the_interval_of_the_map(
    execution: Execution, microbatch: int, tmp_path: Path
) -> None:
    """24 layers, 6 runs: as long as 24 intervals for each of them."""
    whole = tmp_path / "whole.yaml"
    text = Path(MIXER).read_text(encoding="utf-8")
    whole.write_text(text.replace("chips: 4\n", ""), encoding="utf-8")
    alone = {"tensor": 1, "pipeline": 1, "data": 1, "microbatch": microbatch}
    ask: dict[str, Any] = {"model": str(whole), "accelerator": "sn10", "execution": execution}
    found = netplan.search("rail-only-paper", **ask, gpus=8, batch=6, fixed=alone).found
    mapped = netplan.map("rail-only-paper", **ask, micro_batch=microbatch).found.totals
    assert found.time_s == pytest.approx(6 * 24 * mapped.interval_s, rel=1e-12)
    assert 8 * found.best.mfu == pytest.approx(mapped.utilisation, rel=1e-12)


def test_a_layer_of_gpt_is_shared_as_published() -> None:
    """The least volume cuts all kernels but two as the paper does; case A1, kernel by kernel."""
    model = WORKLOADS.load(GPT)
    assert best_sharding(model.graph()).volume_bytes == 4 * 2 * 25600 * 2048
    published = layer_graph(MODELS.load("gpt-1t"), 8, "both").kernels
    for mine, theirs in zip(model.graph(8).kernels, published, strict=True):
        if mine.name in ("Q_b", "K_b"):  # the paper leaves their sums in parts, of equal work
            assert (mine.flops, mine.weight_bytes) == (theirs.flops, theirs.weight_bytes)
        else:
            assert mine == theirs
    found = netplan.map(
        "rail-only-paper", model=GPT, accelerator="a100-80gb", tensor=8, sequence_tile=32
    ).found
    times_ns = {row.name: 1e9 * row.time_s for row in found.kernels}
    with GOLDEN_FILE.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["case"].startswith("A1")]
    short = {"SM": "Softmax", "DO1": "Drop1", "DO2": "Drop2", "DO3": "Drop3"}
    kernels = [row for row in rows if row["quantity"] == "kernel latency"]
    assert len(kernels) == 18
    for row in kernels:
        name = short.get(row["item"], row["item"])
        assert times_ns[name] == pytest.approx(float(row["value"]), rel=1e-5), name
    [interval] = [float(row["value"]) for row in rows if row["quantity"] == "layer interval II"]
    assert 1e9 * found.totals.interval_s == pytest.approx(interval, rel=1e-6)


@settings(max_examples=30)
@given(st.data())
def test_shares_send_the_least_volume_and_do_all_the_work(data: st.DataObject) -> None:
    count, chips = data.draw(st.integers(1, 7)), data.draw(st.sampled_from([2, 4]))
    size = st.sampled_from([16, 32, 64])
    kernels = [
        Kernel(
            *(f"k{at}", data.draw(st.sampled_from(["gemm", "simd"]))),  # type: ignore[arg-type]
            *(data.draw(size), data.draw(size), data.draw(size)),
            output_bytes=float(data.draw(size)),
            weight_bytes=float(data.draw(st.sampled_from([0, 64, 256]))),
        )
        for at in range(count)
    ]
    kernels = [
        one if one.kind == "gemm" else Kernel(one.name, "simd", one.m, 1, one.n, one.output_bytes)
        for one in kernels
    ]
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    chosen = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    graph = KernelGraph.of(kernels, [(f"k{a}", f"k{b}") for a, b in chosen])
    repeated = data.draw(st.booleans())
    part = shared_graph(graph, chips, repeated=repeated)
    sent = sum(part.column(f"{kind}_bytes").sum() for kind in ("all_reduce", "all_gather"))
    sent += part.column("broadcast_bytes").sum()
    sent += chips**2 * part.column("all_to_all_bytes").sum()
    assert sent == pytest.approx(best_sharding(graph, repeated=repeated).volume_bytes)
    least, most = graph.flops / chips, graph.flops
    assert ((part.flops == least) | (part.flops == most)).all()
    gemm = np.array([one.kind == "gemm" for one in kernels])
    assert (part.flops[gemm] == least[gemm]).all()


def test_stages_of_what_runs_forward_hand_on_once_and_replicas_say_nothing() -> None:
    """Two stages of two layers, 3 runs: 3 x 2 layers, 2 of bubble, hops one way: 3 + the fill."""
    run = training(3, layers=4)
    layer = evaluate_plan(run, LEVELS, placed(Degrees(), Degrees(), microbatches=3))
    layer_s = layer.iteration_time_s / (3 * 4)
    plan = placed(Degrees(), Degrees(pipeline=2), microbatches=3)
    timed = evaluate_plan(run, LEVELS, plan)
    hop_s = 16384 / (0.7 * 25e9) + 2e-6
    assert timed.breakdown_s["pipeline_comm"] == pytest.approx(3 * hop_s)
    assert timed.breakdown_s["bubble"] == pytest.approx(2 * layer_s + hop_s)
    assert timed.iteration_time_s == pytest.approx(8 * layer_s + 4 * hop_s)
    beside = evaluate_plan(run, LEVELS, placed(Degrees(), Degrees(data=2), microbatches=3))
    assert beside.breakdown_s["data_comm"] == 0
    assert beside.iteration_time_s == pytest.approx(layer.iteration_time_s)


def test_what_trains_holds_and_sums_up_its_gradients_and_the_rest_holds_weights() -> None:
    forward, trained = training(4, layers=3), training(4, **TRAINED, layers=3)
    plan = placed(Degrees(), Degrees(data=2), microbatch=2)
    zero = Options(zero_stage=0)
    held = evaluate_plan(forward, LEVELS, plan, options=zero).memory_parts_bytes
    weights = 3 * 2 * 131072
    buffers = 2 * (65536 + 16384)  # results of one layer, for both runs of a microbatch
    assert held == {"weights": weights, "gradients": 0, "optimizer": 0, "activations": 0,
                    "buffers": buffers}  # fmt: skip
    timed = evaluate_plan(trained, LEVELS, plan, options=zero)
    held = timed.memory_parts_bytes
    # 2 bytes of weight, 2 of gradient, 12 of optimizer; backward kernels read both results.
    assert (held["weights"], held["gradients"], held["optimizer"]) == (
        weights,
        weights,
        6 * weights,
    )
    assert held["activations"] == 3 * buffers
    assert timed.breakdown_s["data_comm"] > 0


def test_replicas_send_the_gradients_that_the_matrix_shows() -> None:
    """Ring all-reduce of the weights of 128 layers: 2 (d - 1) / d of them from each GPU."""
    ask: dict[str, Any] = {"model": GPT, "accelerator": "a100-80gb", "gpus": 64, "batch": 8}
    alone = {"tensor": 8, "pipeline": 4, "data": 2}
    found = netplan.training_traffic(
        "rail-only-paper", **ask, fixed=alone, zero_stage=0, algorithm="ring"
    )
    matrix = found.run.matrix()
    weights = 12 * 25600**2 * 2 / 8 * 128 / 4
    sent = float(matrix.of_kind("data").flow_bytes.sum())
    assert sent == pytest.approx(64 * 2 * (2 - 1) / 2 * weights)
    # Both ways between 4 stages: 2 x 3 hops of 4 runs of 100 MiB in each of 16 pipelines.
    between = float(matrix.of_kind("pipeline").flow_bytes.sum())
    assert between == pytest.approx(2 * 3 * 16 * 4 * 2 * 25600 * 2048)


@pytest.mark.parametrize("model", [MIXER, GPT])
def test_every_plan_is_timed_or_proven_no_better(model: str) -> None:
    """The free space is searched with bounds: no plan that is fixed by hand is faster."""
    ask: dict[str, Any] = {"model": model, "accelerator": "a100-80gb", "gpus": 32, "batch": 12}
    ask |= {"overrides": {"accelerator.memory_bytes": "1e15"}}
    best = netplan.search("rail-only-paper", **ask).found.time_s
    tensor = [4] if model == MIXER else [1, 2, 8]
    for shared in tensor:
        for pipeline in (1, 2, 3):
            for microbatch in (1, 2, 5, 12):
                fixed = {"pipeline": pipeline, "microbatch": microbatch}
                fixed |= {"tensor": shared} if model == GPT else {}
                assert netplan.search(
                    "rail-only-paper", **ask, fixed=fixed
                ).found.time_s >= best * (1 - 1e-9)


@pytest.mark.parametrize(
    ("kernels", "given", "message"),
    [
        ([UP | {"m": 509}, DOWN | {"k": 509}], {"tensor": 2}, "has tensor 2"),
        ([UP, DOWN], {"context": 2}, "of a plan of mine, of family graph"),
        ([UP, DOWN], {"expert": 2}, "tensor, data, pipeline, microbatch and interleave is all"),
    ],
)
def test_degrees_that_a_graph_does_not_have(
    kernels: list[dict[str, Any]], given: dict[str, int], message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, MLP | {"kernels": kernels})
    with pytest.raises(NetplanError) as refusal:
        netplan.search("rail-only-paper", model=path, gpus=8, accelerator="sn30", fixed=given)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_graph_too_wide_to_share_runs_on_one_chip(tmp_path: Path) -> None:
    kernels = [UP | {"name": f"k{at}", "m": 512, "k": 512} for at in range(20)]
    every = [[f"k{a}", f"k{b}"] for a in range(20) for b in range(a + 1, 20)]
    path = written(tmp_path, MLP | {"kernels": kernels, "edges": every})
    ask: dict[str, Any] = {"model": path, "gpus": 8, "accelerator": "sn30"}
    with pytest.raises(InputError, match=r"too wide .* tensor degree of 1"):
        netplan.search("rail-only-paper", **ask)
    assert netplan.search("rail-only-paper", **ask, fixed={"tensor": 1}).found.best.plan.tensor == 1


def test_a_long_graph_too_wide_to_share_is_refused_before_memory_is_taken() -> None:
    kernels = [Kernel(f"k{at}", "gemm", 64, 64, 64, output_bytes=8.0) for at in range(2000)]
    edges = [(f"k{at}", f"k{to}") for at in range(2000) for to in range(at + 1, min(at + 12, 2000))]
    graph = KernelGraph.of(kernels, edges)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"too wide .* fewer in a long graph"):
            best_sharding(graph)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


def test_a_file_that_is_cut_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="mixer is cut for 4 chips, not 8: leave chips out"):
        netplan.map("rail-only-paper", model=MIXER, accelerator="sn10", tensor=8)
    path = written(tmp_path, MLP)
    one, four = (
        netplan.map("rail-only-paper", model=path, accelerator="sn10", tensor=t).found
        for t in (1, 4)
    )
    assert [row.m for row in four.kernels] == [128, 128]
    assert [row.k for row in four.kernels] == [128, 128]
    assert [row.all_reduce_bytes for row in four.kernels] == [0, 16384]
    assert [row.m for row in one.kernels] == [512, 128]


def written(folder: Path, data: dict[str, Any]) -> str:
    """A model file."""
    path = folder / "mine.yaml"
    path.write_text(json.dumps(data), encoding="utf-8")  # JSON is YAML
    return str(path)

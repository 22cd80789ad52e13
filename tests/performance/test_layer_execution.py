"""Searches whose layers lie on the chip, and the tables of a layer."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import netplan
from netplan.errors import InputError
from netplan.inputs.choices import Execution, Recompute
from netplan.performance.explain import plan_terms
from netplan.performance.mapping.layers import LayerExecution
from netplan.performance.search import evaluate_plan
from netplan.records import replace
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.model_graphs import layer_graph
from netplan.workloads.models import MODELS
from netplan.workloads.operations import ELEMENT_BYTES, Sharding
from tests.cli.command import netplan as command
from tests.turns import one_in

CHIP = {"tiles": 640, "sram_bytes": 335544320.0, "memory_bytes_per_s": 100e9,
        "hb_bytes_per_s": 25e9, "network_bytes_per_s": 25e9}  # fmt: skip
SN10: dict[str, Any] = {"accelerator": "sn10", "model": "gpt-175b", "gpus": 256, "top": 8}


def ring(message: Any, tensor: int = 8) -> Any:  # noqa: ANN401 - numbers or arrays
    """An all-reduce on a ring of SN10, both directions in use [s]."""
    return message * (tensor - 1) / tensor / 25e9


def summed(_: object, message: Any) -> Any:  # noqa: ANN401 - the same of eight chips
    """A dense layer sums up and does nothing else."""
    return ring(message)


@pytest.mark.parametrize(
    ("execution", "iteration_model"),
    one_in(
        2,
        (
            ("fused", "4d"),
            ("fused", "ptd-p"),
            ("kernel-by-kernel", "ptd-p"),
            ("kernel-by-kernel", "4d"),
        ),
    ),
)
def test_parts_and_terms_add_up(execution: Execution, iteration_model: str) -> None:
    found = netplan.search(
        "rail-only-paper", **SN10, execution=execution, iteration_model=iteration_model
    ).found
    for timed in found.plans:
        assert sum(timed.breakdown_s.values()) == pytest.approx(timed.iteration_time_s, rel=1e-12)
        setting = found.setting_of(timed)
        terms = plan_terms(setting, found.levels, timed.plan)
        assert sum(term.seconds for term in terms) == pytest.approx(timed.iteration_time_s)
        again = evaluate_plan(
            setting.training, found.levels, timed.plan, options=setting.options
        ).iteration_time_s
        assert again == pytest.approx(timed.iteration_time_s, rel=1e-12)


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_a_layer_takes_what_its_partitions_take(recompute: Recompute) -> None:
    """Three sequences a microbatch: 3 sum T + set-up, which the partitions themselves say."""
    how = LayerExecution(ACCELERATORS.load("sn10"), "fused")
    model, sharding = MODELS.load("gpt-175b"), Sharding.of(3, 8)
    times_s = how.times(model, recompute, sharding, summed)
    fusion, every = how.fusion(model, recompute, sharding, summed)
    times, graph = fusion.times, fusion.graph
    late = (fusion.members & graph.backward).any(axis=1)
    passes = [3 * float((times.time_s + times.setup_s)[late == one].sum()) for one in (0, 1)]
    passes[1] += passes[0] if recompute == "full" else 0.0
    assert times_s.sum(axis=1)[:, 0] == pytest.approx(passes)
    assert (times_s >= 0).all()
    assert every <= fusion.interval_s * (1 + 1e-12)
    again = {"QK_r", "Softmax_r", "Drop1_r"} & set(graph.names)
    assert len(again) == (3 if recompute == "selective" else 0)


@settings(deadline=None, max_examples=4)
@given(
    shares=st.tuples(*[st.floats(-1.5, 1.5)] * len(CHIP)),
    key=st.sampled_from(sorted(CHIP)),
    factor=st.sampled_from([1.1, 3.0]),
    batch=st.sampled_from([1, 4, 64]),
    iteration_model=st.sampled_from(["4d", "ptd-p"]),
)
@example((0.71, -1.03, 1.46, -1.45, 1.14), "sram_bytes", 1.1, 4, "ptd-p")
def test_more_of_a_chip_is_never_slower(
    shares: tuple[float, ...], key: str, factor: float, batch: int, iteration_model: str
) -> None:
    """Nor are kernels kept together slower than one by one, however long pipelines wait."""
    had = {name: CHIP[name] * 10**share for name, share in zip(CHIP, shares, strict=True)}

    def time_s(execution: Execution, **more: float) -> float:
        values = {name: max(value * more.get(name, 1), 1) for name, value in had.items()}
        values["tiles"] = int(values["tiles"])
        return netplan.search(
            "rail-only-paper",
            model="gpt-22b",
            accelerator="sn10",
            gpus=64,
            fixed={"tensor": 4, "pipeline": 16, "microbatch": 1},
            batch=batch,
            execution=execution,
            iteration_model=iteration_model,
            overrides={f"accelerator.{name}": repr(value) for name, value in values.items()},
        ).found.time_s

    fused_s = time_s("fused")
    assert fused_s <= time_s("kernel-by-kernel") * (1 + 1e-12)
    assert time_s("fused", **{key: factor}) <= fused_s * (1 + 1e-12)


def test_kernels_one_by_one_take_what_the_map_of_a_log_says() -> None:
    """Case A1 of DFModel: 46,020,004.8 ns for a layer of 1T on eight A100 of a ring."""
    how = LayerExecution(ACCELERATORS.load("a100-80gb"), "kernel-by-kernel")
    times_s = how.times(
        MODELS.load("gpt-1t"), "none", Sharding.of(1, 8), lambda _, size: size * 7 / 8 / 300e9
    )
    mapped = netplan.map(
        "rail-only-paper", model="gpt-1t", accelerator="a100-80gb", tensor=8, direction="both",
        execution="kernel-by-kernel",
    ).found.totals.interval_s  # fmt: skip
    assert times_s.sum() == pytest.approx(mapped, rel=1e-9)


def test_fused_layers_are_never_slower_than_kernels_one_by_one() -> None:
    for overrides in ({}, {"accelerator.sram_bytes": "1e6"}, {"accelerator.tiles": "41"}):
        fused, single = (
            netplan.search(
                "rail-only-paper",
                **SN10,
                fixed={"tensor": 8},
                execution=execution,
                overrides=overrides,
            ).found
            for execution in ("fused", "kernel-by-kernel")
        )
        assert fused.time_s <= single.time_s * (1 + 1e-9)
        # Memory is the iteration model's, so that equal plans fit.
        assert (fused.enumerated, fused.feasible) == (single.enumerated, single.feasible)


@pytest.mark.parametrize("iteration_model", ["4d", "ptd-p"])
def test_bounds_rule_out_no_better_plan(iteration_model: str) -> None:
    """Plans that divide are all timed one by one; the free space holds every one of them."""
    ask = {**SN10, "gpus": 16, "batch": 24, "execution": "fused", "radix": 16}
    free = netplan.search(
        "rail-only-paper", **{**ask, "top": 1}, iteration_model=iteration_model
    ).found
    whole = netplan.search(
        "rail-only-paper", **{**ask, "top": 500}, iteration_model=iteration_model, space="model"
    )
    assert free.time_s <= whole.found.time_s * (1 + 1e-9)
    times = [one.iteration_time_s for one in whole.found.plans]
    assert times == sorted(times)
    assert len(times) > 20


def test_heads_that_do_not_divide_count_on_the_fullest_chip() -> None:
    model = replace(MODELS.load("gpt-175b"), heads=96, kv_heads=96)
    seven = layer_graph(model, 7, uneven=True)
    assert seven.kernels[seven.place("Q")].m == 14 * 128  # 96 heads on 7 chips
    with pytest.raises(InputError, match="96 heads do not divide by 7 chips"):
        layer_graph(model, 7)


def test_attention_is_computed_again_from_queries_and_keys() -> None:
    graph = layer_graph(MODELS.load("gpt-175b"), 8, "both", again=True)
    assert graph.count == 44
    ends = {
        (graph.names[source], graph.names[target])
        for source, target in zip(graph.source.tolist(), graph.target.tolist(), strict=True)
    }
    assert {("Q", "QK_r"), ("K", "QK_r"), ("Drop1_r", "AV_b2")} <= ends
    assert ("Drop1", "AV_b2") not in ends
    assert graph.backward[graph.place("Softmax_r")]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--execution fused --strategy 2d", "--execution fused maps the dense layer"),
        ("--execution fused --experts 8", "--experts has other kernels"),
        ("--execution fused --accelerator b200 --set accelerator.sram_bytes=0", "no sram_bytes"),
        ("--explain mapping", "give it"),
        ("--explain layer --execution fused --accelerator sn10", "take --explain mapping"),
        ("--explain both", "or mapping, layer or memory"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(words: str, told: str) -> None:
    done = command(
        "search", "rail-only-paper", "--gpus", "64", "--model", "gpt-22b", *words.split()
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_mapping_of_the_best_plan_is_explained() -> None:
    words = "--gpus 256 --model gpt-175b --accelerator sn10 --execution fused --explain mapping"
    done = command("search", "rail-only-paper", *words.split(), "--top", "1", "--format", "json")
    found = json.loads(done.stdout)
    mapping, [plan] = found["mapping"], found["plans"]
    kernels = [name for row in mapping["partitions"] for name in row["kernels"]]
    assert len(kernels) == len(set(kernels)) == 44
    total = sum(row["time_s"] + row["setup_s"] for row in mapping["partitions"])
    assert total == pytest.approx(mapping["interval_s"])
    assert mapping["convex_interval_s"] <= mapping["interval_s"] * (1 + 1e-12)
    layers = plan["breakdown_s"]["compute"] + plan["breakdown_s"]["memory"]
    layers += plan["breakdown_s"]["tensor_comm"]
    sequences = plan["plan"]["microbatch"] * plan["plan"]["microbatches"]
    held = -(-96 // plan["plan"]["pipeline"])
    assert layers == pytest.approx(total * sequences * held)


def operations(**asked: Any) -> tuple[dict[str, dict[str, Any]], dict[str, int]]:  # noqa: ANN401
    """Forward operations of the best plan by name, and its degrees."""
    answer = netplan.search(
        "rail-only-paper", accelerator="b200", model="gpt-1t", explain="layer", **asked
    )
    told = answer.to_dict()
    rows = {row["operation"]: row for row in told["layer"] if row["direction"] == "forward"}
    return rows, told["plans"][0]["plan"]


def sent(kind: str, elements: float, group: str) -> str:
    """A collective of so many 16-bit numbers, as the table has it."""
    return f"{kind} of {ELEMENT_BYTES * elements:.0f} B, {group}"


FLOPS: dict[str, Any] = {
    "gpus": 64,
    "batch": 64,
    "space": "model",
    "overrides": {"accelerator.memory_bytes": "1e15"},
}


def test_table_i_of_the_foundation_models_paper() -> None:
    """1D tensor parallelism (arXiv:2410.00273, Table I): volumes b l e, shapes of the products."""
    rows, plan = operations(**FLOPS, fixed={"tensor": 8, "microbatch": 2})
    b, l, e, f, h, n = 2, 2048, 25600, 4 * 25600, 160, plan["tensor"]  # noqa: E741 - the paper's
    assert (n, plan["context"], plan["microbatch"]) == (8, 1, b)
    for norm, product in (("ln1", "vproj"), ("ln2", "fc2")):
        assert rows[norm]["collectives"] == sent("all_gather", b * l * e, "tensor")
        assert rows[product]["collectives"] == sent("reduce_scatter", b * l * e, "tensor")
    for name in ("qkv", "attention", "fc1"):
        assert rows[name]["collectives"] == ""
    # 2 k - 1 FLOP an element of (b l, k) x (k, n): Q, K, V of e / n columns each, and the rest.
    shapes = {"qkv": (e, 3 * e / n), "vproj": (e / n, e), "fc1": (e, f / n), "fc2": (f / n, e)}
    for name, (inner, columns) in shapes.items():
        assert rows[name]["tensor_flops"] == (2 * inner - 1) * b * l * columns
        moved = b * l * inner + inner * columns + b * l * columns
        assert rows[name]["moved_bytes"] == ELEMENT_BYTES * moved
        assert rows[name]["weight_bytes"] == ELEMENT_BYTES * inner * columns
        assert rows[name]["activation_bytes"] == ELEMENT_BYTES * b * l * inner
    scores, size = b * h / n * l * l, e / h
    attend = b * h / n * l * size * (2 * l - 1)
    assert rows["attention"]["tensor_flops"] == scores * (2 * size - 1) + attend


def test_table_ii_of_the_foundation_models_paper() -> None:
    """2D tensor parallelism (Table II): volumes fall with n2, keys and values are gathered."""
    fixed = {"tensor": 4, "context": 2, "microbatch": 2}
    rows, plan = operations(**FLOPS, strategy="2d", fixed=fixed)
    b, l, e, f, n1, n2 = 2, 2048, 25600, 4 * 25600, 4, 2  # noqa: E741 - the paper's letters
    assert (plan["tensor"], plan["context"]) == (n1, n2)
    for norm, product in (("ln1", "vproj"), ("ln2", "fc2")):
        assert rows[norm]["collectives"] == sent("all_gather", b * l / n2 * e, "tensor")
        assert rows[product]["collectives"] == sent("reduce_scatter", b * l / n2 * e, "tensor")
    # K and V, b l e / n1 each.
    assert rows["attention"]["collectives"] == sent("all_gather", 2 * b * l * e / n1, "context")
    shapes = {"qkv": (e, 3 * e / n1), "vproj": (e / n1, e), "fc1": (e, f / n1), "fc2": (f / n1, e)}
    for name, (inner, columns) in shapes.items():
        assert rows[name]["tensor_flops"] == (2 * inner - 1) * b * l / n2 * columns
        assert rows[name]["weight_bytes"] == ELEMENT_BYTES * inner * columns


def test_table_a2_of_the_foundation_models_paper() -> None:
    """SUMMA (Table A2): V1 = b l e / n2 + e^2 / n1, V2 = V3 = b l e / n2 + e f / n1.

    V1 is that of Q; with K and V the weights are three times as many. fc2 broadcasts inputs of
    width f, where the table has e. No weights are shared. Norms sum up two numbers a token.
    """
    fixed = {"tensor": 4, "context": 2, "microbatch": 2}
    rows, _ = operations(**FLOPS, strategy="summa", fixed=fixed)
    b, l, e, f, n1, n2 = 2, 2048, 25600, 4 * 25600, 4, 2  # noqa: E741 - the paper's letters
    shapes = {"qkv": (e, 3 * e), "vproj": (e, e), "fc1": (e, f), "fc2": (f, e)}
    for name, (inner, columns) in shapes.items():
        inputs = sent("broadcast", b * l / n2 * inner, "tensor")
        weights = sent("broadcast", inner * columns / n1, "context")
        assert rows[name]["collectives"] == f"{inputs}; {weights}"
        assert rows[name]["weight_bytes"] == ELEMENT_BYTES * inner / n2 * columns / n1
    assert rows["ln1"]["collectives"] == sent("all_reduce", 2 * b * l / n2, "tensor")


def test_operations_of_a_layer_take_what_the_plan_takes() -> None:
    for strategy in ("1d", "2d", "summa"):
        answer = netplan.search(
            "rail-only-paper", accelerator="b200", model="gpt-1t", explain="layer",
            strategy=strategy,
            recompute="full", **FLOPS,
        )  # fmt: skip
        told = answer.to_dict()
        plan, parts = told["plans"][0]["plan"], told["plans"][0]["breakdown_s"]
        passes = plan["microbatches"] * 128 / plan["pipeline"]
        rows = told["layer"]
        assert len(rows) == 28
        for part, name in (("compute_s", "compute"), ("communication_s", "tensor_comm")):
            assert passes * sum(row[part] for row in rows) == pytest.approx(parts[name])
        together = sum(row["compute_s"] + row["memory_s"] + row["communication_s"] for row in rows)
        assert sum(row["time_s"] for row in rows) == pytest.approx(together)


def test_a_gate_is_as_much_work_as_the_product_beside_it() -> None:
    """Llama 3 8B on 4 chips: 4096 x 14336 / 4 thrice, each again backward and in its update."""
    graph = layer_graph(MODELS.load("llama-3-8b"), 4, "both")
    assert graph.count == 44
    work = dict(zip(graph.names, graph.flops.tolist(), strict=True))
    for end in ("", "_b", "_u"):
        product = 2.0 * 4096 * 14336 / 4 * 8192
        assert work[f"Gate{end}"] == work[f"FFN0{end}"] == product
    # Eight heads of keys, a quarter of those of queries.
    assert work["K_u"] * 4 == work["Q_u"]
    assert sum(kernel.all_reduce_bytes > 0 for kernel in graph.kernels) == 4
    found = netplan.search(
        "rail-only-paper",
        gpus=64,
        accelerator="sn30",
        model="llama-3-8b",
        execution="fused",
        fixed={"tensor": 4},
    )
    assert found.found.plans

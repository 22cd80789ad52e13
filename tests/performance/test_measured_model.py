"""Iteration model measured: its kernels by hand, its bound, its simulation, what it says."""

import numpy as np
import pytest

from netplan.errors import InputError
from netplan.levels import Level
from netplan.performance.compute import roofline
from netplan.performance.iteration_model import ITERATION_MODELS, IterationModel
from netplan.performance.proof import search_best_case, time_designs
from netplan.performance.search import PlanSearch, search_plans
from netplan.performance.setting import Options, Setting, TrainedModel
from netplan.records import RecordError, replace
from netplan.scenarios.reading import sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.kernels import attention_backward_time_s, attention_time_s, product_time_s
from netplan.workloads.models import MODELS, WindowAttention
from netplan.workloads.operations import Operation, Sharding, Variant
from tests.performance.cases import FOURD, MEASURED
from tests.topologies.kinds import DIRECT

H100 = ACCELERATORS.load("h100-80gb")
LLAMA = MODELS.load("llama-3-8b")


def setting_of(model: str = "llama-3-8b", **variant: object) -> Setting:
    training = TrainedModel.make(H100, MODELS.load(model), MEASURED)
    return Setting(training, options=Options(Variant(**variant)))  # type: ignore[arg-type]


def operations(setting: Setting, sharding: Sharding) -> dict[str, Operation]:
    return {one.name: one for one in setting.program(sharding).layer.operations}


def seconds(setting: Setting, one: Operation) -> tuple[float, float]:
    """Forward and backward time of an operation."""
    ahead, back = (roofline(one, work, setting) for work in (one.forward, one.backward))
    return float(np.ravel(ahead[0] + ahead[1])[0]), float(np.ravel(back[0] + back[1])[0])


def test_times_of_a_layer_by_hand() -> None:
    """One sequence of 8,192 tokens on two GPUs: sixteen heads, four of keys, on each."""
    setting = setting_of()
    found = operations(setting, Sharding.of(1, tensor=2))
    # qkv: 8192 x 4096 times 4096 x (2048 + 2 x 512); FLOPs are exact, 2k - 1 a number
    product_s = float(product_time_s(H100, "bf16", 8192, 3072, 4096))
    ahead_s, back_s = seconds(setting, found["qkv"])
    assert ahead_s == pytest.approx(product_s, rel=2e-4)
    assert back_s == pytest.approx(2 * product_s, rel=2e-4)
    attention = (8192, 16, 4)
    ahead_s, back_s = seconds(setting, found["attention"])
    assert ahead_s == pytest.approx(attention_time_s(H100, 1, *attention), rel=1e-12)
    assert back_s == pytest.approx(attention_backward_time_s(H100, 1, *attention), rel=1e-12)
    # swiglu: 8192 x 7168 numbers, two read and one written, of two bytes each
    ahead_s, _ = seconds(setting, found["swiglu"])
    moved = 3 * 2 * 8192 * 7168
    assert ahead_s == pytest.approx(2e-6 + moved / (0.845 * 3.35e12), rel=1e-12)
    # Times of a layer are these, and what is left of memory traffic stands apart.
    busy_s, waiting_s = roofline(found["qkv"], found["qkv"].forward, setting)
    flops = 2 * 8192 * 3072 * 4096
    one_busy_s, one_waiting_s = float(np.ravel(busy_s)[0]), float(np.ravel(waiting_s)[0])
    assert one_busy_s == pytest.approx(2.897e-6 + flops / (0.802 * 989.4e12), rel=2e-4)
    assert one_busy_s + one_waiting_s == pytest.approx(product_s, rel=2e-4)


def test_attention_of_other_kinds() -> None:
    """Half the queries of a context group, the whole matrix of an encoder, what is stored."""
    one = Sharding.of(1, tensor=1)
    plain_s, _ = seconds(setting_of(), operations(setting_of(), one)["attention"])
    fused = setting_of(recompute="none")
    # Kernels that were measured store no scores, whether or not they are counted as stored.
    assert seconds(fused, operations(fused, one)["attention"])[0] == plain_s
    two = replace(setting_of(), strategy="2d")
    halved_s, _ = seconds(two, operations(two, Sharding.of(1, tensor=1, context=2))["attention"])
    assert halved_s == pytest.approx(plain_s / 2, rel=0.1)
    encoder = setting_of("bert-large")
    shape = operations(encoder, Sharding.of(8, tensor=1))["attention"].attention
    assert shape is not None
    assert not shape.causal
    causal = attention_time_s(H100, 8, 512, 16, 16, 64)
    whole_s, _ = seconds(encoder, operations(encoder, Sharding.of(8, tensor=1))["attention"])
    latency_s = 12.8676e-6
    moved_s = 2 * 8 * 512 * 64 * 64 / (0.4486 * 3.35e12)
    work_s = float(causal) - latency_s - moved_s
    assert whole_s == pytest.approx(latency_s + 2 * work_s + moved_s, rel=1e-9)


def test_windows_take_what_lies_in_them() -> None:
    model = LLAMA.changed(window_attention=WindowAttention(layers=16, tokens=512))
    setting = Setting(TrainedModel.make(H100, model, MEASURED))
    found = operations(setting, Sharding.of(1, tensor=1))
    some, every = (
        np.ravel(roofline(found[name], found[name].forward, setting)[0]) - 12.8676e-6
        for name in ("window-attention", "attention")
    )
    # of 8,192 tokens each sees 512, the first 512 of them half as many, in place of 4,096
    assert float(some[0] / every[0]) == pytest.approx((512 - 16) / 4096, rel=1e-9)


@pytest.mark.parametrize("name", ["h100-80gb", "b200-1000w", "v100-32gb"])
def test_no_fabric_beats_the_best_case(name: str) -> None:
    """Rings on measured kernels; measured collectives have no bound, and none is taken."""
    on, model = ACCELERATORS.load(name), MODELS.load("gpt-22b")
    rings = MEASURED.changed(communication=FOURD.communication)
    training = TrainedModel.make(on, model, rings, batch=1024)
    for hb_size in (1, 8, 64):
        sizing = sizing_on(on, gpus=1024, radix=64, hb_size=hb_size)
        specs = [FABRICS.load(name) for name in FABRICS.paths()]
        # Graphs of GPUs are measured on their links, which takes seconds.
        specs = [one for one in specs if one.hb_size is None and one.family not in DIRECT]
        built = [build_fabric(spec, sizing) for spec in specs]
        group = list({fabric.levels: None for fabric in built if fabric.levels})
        bent = PlanSearch(TrainedModel.make(on, model, MEASURED, batch=1024))
        assert time_designs(bent, [(1.0, levels) for levels in group])[1].run == len(group)
        bound = search_best_case(PlanSearch(training), group)
        assert bound is not None
        for levels in group:
            time_s = search_plans(training, levels).time_s
            assert bound.time_s <= time_s * (1 + 1e-12), levels


def test_the_model_is_4d_but_for_kernels_and_collectives() -> None:
    for part in ("overlap", "space", "memory"):
        assert getattr(MEASURED, part) == getattr(FOURD, part)
    assert ITERATION_MODELS.load("4d").compute.kernels == "roofline"


def test_higher_rates_make_iterations_shorter() -> None:
    levels = Level("switch", 8, 450e9), Level("switch", 16, 50e9)
    times_s = []
    for share in ("0.4", "0.802", "0.95"):
        override = {"accelerator.measured.products.bf16.efficiency": share}
        on = ACCELERATORS.load("h100-80gb", overrides=override)
        times_s.append(search_plans(TrainedModel.make(on, LLAMA, MEASURED), levels).time_s)
    assert times_s == sorted(times_s, reverse=True)
    assert times_s[0] > 1.4 * times_s[2]


def test_measured_kernels_and_their_model_belong_together() -> None:
    plain = TrainedModel.make(H100, LLAMA, FOURD)
    with pytest.raises(InputError, match="takes measured kernels: use"):
        replace(plain, assumptions=MEASURED)
    wrong = MEASURED.to_dict()
    wrong["compute"] |= {"operations": "counted"}
    with pytest.raises(RecordError, match="measured kernels take detailed operations"):
        IterationModel.read(wrong)

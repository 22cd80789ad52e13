"""Models without biases: which they are, what their layers lack, and what that saves by hand."""

from typing import Any

import numpy as np
import pytest

from netplan.inputs.choices import Strategy
from netplan.levels import Level
from netplan.performance.compute import roofline
from netplan.performance.explain import layer_operations
from netplan.performance.plan import Plan, PlanTime
from netplan.performance.search import evaluate_plan
from netplan.performance.setting import Setting, TrainedModel
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS, WORKLOADS, Model
from netplan.workloads.operations import Layer, Sharding, Variant
from netplan.workloads.transformer import transformer_layer
from tests.performance.cases import FOURD, MEASURED, small_model
from tests.workloads.test_unlike_layers import EXPERTS, HYBRID, LATENT, LINEAR, PLAIN, WINDOW

ADDING = ("bert", "gpt", "t-", "transformer", "vit")
"""Models of papers after GPT-2 and BERT, and gpt-oss."""
H100 = ACCELERATORS.load("h100-80gb")
LLAMA = MODELS.load("llama-3-8b")
HALVES = Sharding.of(1, tensor=2)


def shipped() -> list[Model]:
    every = [WORKLOADS.load(name) for name in WORKLOADS.paths()]
    return [model for model in every if isinstance(model, Model)]


def test_who_adds_biases() -> None:
    models = shipped()
    assert len(models) > 50
    assert all(model.adds_biases is model.name.startswith(ADDING) for model in models)
    told = {model.name for model in models if model.biases is not None}
    assert told == {"gpt-oss-20b", "gpt-oss-120b", "nemotron4-340b", "nemotron-h-56b"} | {
        "nemotron-3-nano", "nemotron-3-super"
    }  # fmt: skip


LAYERS: list[tuple[Strategy, dict[str, Any], list[str]]] = [
    ("1d", {}, ["fc1-bias", "fc2-bias", "vproj-bias"]),
    ("2d", {"window_attention": WINDOW}, ["fc1-bias", "fc2-bias", "vproj-bias"]),
    ("summa", {}, ["fc1-bias", "fc2-bias", "vproj-bias"]),
    ("1d", {"experts": EXPERTS | {"dense_first_layers": 3}, "latent_attention": LATENT}, [
        *("dense-fc1-bias", "dense-fc2-bias", "fc1-bias", "fc2-bias"),
        *("shared-fc1-bias", "shared-fc2-bias", "vproj-bias"),
    ]),
    ("1d", {"linear_attention": LINEAR}, ["fc1-bias", "fc2-bias", "vproj-bias"]),
    ("1d", HYBRID | {"experts": EXPERTS | {"latent_size": 128}}, [
        *("fc1-bias", "fc2-bias", "shared-fc1-bias", "shared-fc2-bias", "vproj-bias"),
    ]),
]  # fmt: skip


def layer_of(strategy: Strategy, blocks: dict[str, Any], *, biases: bool) -> Layer:
    model = Model.read(PLAIN | blocks | {"biases": biases})
    return transformer_layer(model, Sharding.of(4, 2, 2), strategy=strategy, variant=Variant())


@pytest.mark.parametrize(("strategy", "blocks", "dropped"), LAYERS)
def test_layers_without_lack_these_alone(
    strategy: Strategy, blocks: dict[str, Any], dropped: list[str]
) -> None:
    full = layer_of(strategy, blocks, biases=True)
    left = layer_of(strategy, blocks, biases=False)
    names = [one.name for one in left.operations]
    assert [one.name for one in full.operations if one.name not in dropped] == names
    assert len(full.operations) == len(names) + len(dropped)
    kept = {one.name: one for one in full.operations}
    for one in left.operations:
        same = kept[one.name]
        assert (one.share, one.module) == (same.share, same.module)
        np.testing.assert_array_equal(one.weight_bytes, same.weight_bytes)
        np.testing.assert_array_equal(one.forward.moved_bytes, same.forward.moved_bytes)


def test_one_layer_by_hand() -> None:
    """One sequence of 8,192 tokens on two GPUs: 14,336 columns behind fc1, then halves of rows.

    Two bytes of each number and of the bias move, at 0.845 of 3.35 TB/s behind the 2 us of a
    kernel, backward as forward.
    """
    by_hand = [(8192, 14336), (4096, 4096), (4096, 4096)]
    moved = [2 * (rows + 1) * columns for rows, columns in by_hand]
    saved_s = sum(2 * (2e-6 + one / (0.845 * 3.35e12)) for one in moved)

    def layer_s(model: Model) -> float:
        setting = Setting(TrainedModel.make(H100, model, MEASURED))
        return sum(
            float(np.ravel(time_s)[0])
            for one in setting.program(HALVES).layer.operations
            for work in (one.forward, one.backward)
            for time_s in roofline(one, work, setting)
        )

    assert layer_s(LLAMA.changed(biases=True)) - layer_s(LLAMA) == pytest.approx(saved_s, rel=1e-6)
    assert 0.001 < saved_s / layer_s(LLAMA) < 0.03


@pytest.mark.parametrize("gated", [True, False])
def test_a_whole_iteration_by_hand(gated: bool) -> None:  # noqa: FBT001 - a parameter
    """Four layers, four microbatches of 32,768 tokens on two GPUs, under the 4D model of an H100.

    A bias takes the longer of its bytes, at 3.35 TB/s, and of 20 us with its additions, at 0.8 of
    133.8 TFLOP/s: its bytes (40 us) behind fc1 where it is gated, all others the latter.
    """
    columns = 2048 if gated else 1024
    plan = Plan(Placement((Degrees(tensor=2),)), 1, 4)
    levels = (Level("switch", 2, 450e9, 0, 2.5e-6),)

    def timed(*, biases: bool) -> tuple[PlanTime, int]:
        model = small_model(gated_ffn=gated, biases=biases, batch=4, sequence_length=32768)
        training = TrainedModel.make(H100, model, FOURD)
        time = evaluate_plan(training, levels, plan)
        return time, len(layer_operations(Setting(training), levels, time))

    (more, more_rows), (less, rows) = timed(biases=True), timed(biases=False)
    by_hand = [(32768, columns), (16384, 512), (16384, 512)]
    one_pass_s = sum(
        max(2 * (rows + 1) * columns / 3.35e12, 20e-6 + rows * columns / (0.8 * 133.8e12))
        for rows, columns in by_hand
    )
    assert more.iteration_time_s - less.iteration_time_s == pytest.approx(
        4 * 4 * 2 * one_pass_s, rel=1e-6
    )
    assert more_rows == rows + 2 * 3
    # Four layers of weights and gradients of 2 bytes each, and of 12 of the optimizer.
    saved = more.memory_bytes - less.memory_bytes
    assert saved == pytest.approx(4 * 16 * (columns + 512 + 512), rel=1e-12)

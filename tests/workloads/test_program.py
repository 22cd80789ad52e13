"""A program: shapes that make its FLOPs, and repetitions."""

from typing import get_args

import numpy as np
import pytest

from netplan.inputs.choices import Strategy
from netplan.workloads.models import MODELS
from netplan.workloads.operations import Layer, Sharding, Variant
from netplan.workloads.program import SYNCHRONISATION, TrainingMethod, Zero, training_program

MODEL = MODELS.load("gpt-22b").changed(layers=8)


def number(amount: object) -> float:
    return float(np.sum(np.asarray(amount)))


def layer(strategy: Strategy, variant: Variant) -> Layer:
    context = 1 if strategy == "1d" else 2
    sharding = Sharding.of(2, 4, context, 4 if strategy == "summa" else 1, min(2, variant.experts))
    return training_program(MODEL, sharding, TrainingMethod(strategy, variant=variant)).layer


PARTS = [
    ("1d", Variant()),
    ("2d", Variant()),
    ("summa", Variant()),
    ("1d", Variant(experts=4, top_k=2)),
    ("2d", Variant(experts=4, top_k=2)),
]


@pytest.mark.parametrize(("strategy", "variant"), PARTS)
def test_shapes_make_the_flops(strategy: Strategy, variant: Variant) -> None:
    """A product of k terms takes 2 k - 1 operations, its shape says 2 k."""
    shaped = {}
    for operation in layer(strategy, variant).operations:
        flops = sum(number(shape.flops) for shape in operation.shapes)
        assert number(operation.forward.tensor_flops) == pytest.approx(flops, rel=0.01)
        shaped[operation.name] = len(operation.shapes)
    products = {name for name, count in shaped.items() if count}
    assert products - {"router"} == {"fc1", "fc2", "qkv", "attention", "vproj"}
    assert shaped["attention"] == 2


def test_shapes_by_hand() -> None:
    """gpt-22b (h = 6144, 64 heads of 96, s = 2048), b = 2 over 4 GPUs."""
    shapes = {one.name: one.shapes for one in layer("1d", Variant()).operations}

    def sizes(name: str, at: int = 0) -> tuple[float, ...]:
        shape = shapes[name][at]
        return tuple(number(one) for one in (shape.m, shape.k, shape.n, shape.copies))

    assert sizes("fc1") == (4096, 6144, 6144, 1)
    assert sizes("fc2") == (4096, 6144, 6144, 1)
    assert sizes("qkv") == (4096, 6144, 3 * 1536, 1)
    assert sizes("attention") == (32 * 2048, 96, 2048, 32)
    assert sizes("attention", 1) == (32 * 2048, 2048, 96, 32)


@pytest.mark.parametrize("zero", get_args(Zero))
def test_repetitions(zero: Zero) -> None:
    """l = 8, p = 4, m = 6, v = 2: 12 passes through a layer, 12 transfers."""
    program = training_program(MODEL, Sharding.of(1, 4), TrainingMethod(zero_stage=zero))
    runs = program.repetition.runs(stages=4.0, microbatches=6.0, interleave=2.0)
    assert (runs.layers, runs.ends, runs.transfers) == (12, 6, 12)
    assert runs.forward_weights == (6 if zero == 3 else 1)
    last = 6 if zero >= 2 else 1
    assert runs.backward_weights == last
    several = np.array([6.0, 6.0])
    many = program.repetition.runs(
        stages=several / 1.5, microbatches=several, interleave=several / 3
    )
    np.testing.assert_array_equal(many.layers, [12, 12])
    np.testing.assert_array_equal(many.layers + many.backward_weights, [12 + last] * 2)
    assert set(SYNCHRONISATION) == set(get_args(Zero))


def test_full_recomputation_repeats_layers_but_no_ends() -> None:
    variant = Variant(recompute="full", embedding=True, lm_head=True)
    program = training_program(MODEL, Sharding.of(1, 4), TrainingMethod(variant=variant))
    assert all(len(one.backward_works) == 2 for one in program.layer.operations)
    assert program.first is not None
    assert program.last is not None
    assert [len(end.backward_works) for end in (program.first, program.last)] == [1, 1]

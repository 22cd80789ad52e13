"""Weights by layer against counts of whole models, and stages against those of the memory model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.performance.posttraining.placed_weights import (
    LayerWeights,
    PlacedCopies,
    stages_of_layers,
)
from netplan.performance.stage_layers import heaviest_stages
from netplan.workloads.models import MODELS
from netplan.workloads.parameters import parameter_count

NAMES = (
    "deepseek-v3",
    "gemma-3-12b",
    "glm-5",
    "gpt-oss-120b",
    "llama-3-405b",
    "llama-4-maverick",
    "minimax-m2.5",
    "nemotron-3-super",
    "nemotron-h-56b",
    "qwen3.5-397b-a17b",
    "qwen3-30b-a3b",
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prediction", [False, True])
def test_layers_sum_to_the_parameters_of_the_model(name: str, prediction: bool) -> None:  # noqa: FBT001
    model = MODELS.load(name)
    layers = LayerWeights.of(model, 2.0, prediction=prediction)
    count = parameter_count(model)
    weights = layers.weights
    expected = count.total + (count.prediction if prediction else 0)
    assert weights.dense + weights.expert == pytest.approx(expected, rel=1e-12)
    assert layers.dense.min() > 0
    sparse = model.sparse_layers if prediction else model.expert_layers
    each = 0
    if model.experts is not None:
        width = model.experts.latent_size or model.hidden_size
        inner = model.experts.ffn_size or model.inner_size
        each = model.experts.count * width * inner * model.ffn_matrices
    assert weights.expert == pytest.approx(sparse * each, rel=1e-12)
    if not prediction:
        assert np.count_nonzero(layers.expert) == model.expert_layers


def test_layers_of_deepseek_by_hand() -> None:
    """Three dense layers, 256 experts of 44.04 million in others, ends of 129,280 words."""
    layers = LayerWeights.of(MODELS.load("deepseek-v3"), 2.0)
    assert layers.expert[[2, 3, 60]].tolist() == [0, 256 * 44_040_192, 256 * 44_040_192]
    attention = 7168 * (1536 + 512 + 64) + 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168
    norms, words = 2 * 7168, 129_280 * 7168
    wide, shared = 3 * 7168 * 18_432, 3 * 7168 * 2048 + 7168 * 256
    assert layers.dense[1] == pytest.approx(attention + norms + wide, rel=1e-12)
    assert layers.dense[30] == pytest.approx(attention + norms + shared, rel=1e-12)
    assert layers.dense[0] - layers.dense[1] == pytest.approx(words, rel=1e-9)
    assert layers.dense[60] - layers.dense[30] == pytest.approx(words + 7168, rel=1e-9)


@given(st.integers(1, 16), st.integers(0, 100))
def test_stages_are_those_of_the_memory_model(stages: int, more: int) -> None:
    model = MODELS.load("llama-3-8b").changed(layers=stages + more)
    stage = stages_of_layers(model.layers, stages)
    for number in range(stages):
        cut = heaviest_stages(model, np.array([float(stages)]), (), float(number))
        first, layers = int(cut.first[0, 0]), int(cut.layers[0, 0])
        assert np.flatnonzero(stage == number).tolist() == list(range(first, first + layers))


def test_parts_of_a_stage_go_round() -> None:
    # Eight parts: the first has the embedding, the last the head, and each between them a layer.
    assert stages_of_layers(6, 2, interleave=4).tolist() == [1, 0, 1, 0, 1, 0]
    assert stages_of_layers(61, 16, interleave=4).tolist() == [part % 16 for part in range(1, 62)]


def test_wrong_layers_are_refused() -> None:
    with pytest.raises(InputError, match="dense parameters of 2 layers, experts of 3"):
        LayerWeights(np.ones(2), np.ones(3), 2.0)
    with pytest.raises(InputError, match="0 dense and 0 expert parameters"):
        LayerWeights(np.zeros(2), np.zeros(2), 2.0)
    with pytest.raises(InputError, match="a layer lies in stage 2 of 2"):
        PlacedCopies(np.arange(4).reshape(1, 2, 1, 2), np.array([0, 2]))

"""Heads whose width is the model file's own."""

import numpy as np
import pytest

from netplan.inputs.choices import Strategy
from netplan.records import RecordError
from netplan.workloads.closed_forms import counted_layer, iteration_flops, layer_parameters
from netplan.workloads.models import MODELS, Model
from netplan.workloads.operations import ELEMENT_BYTES, Layer, Sharding
from netplan.workloads.tiled_layer import tiled_layer
from netplan.workloads.transformer import transformer_layer

SIZES = {"hidden_size": 512, "layers": 4, "heads": 16, "kv_heads": 4, "ffn_size": 1024}
WIDE = {"name": "wide", "title": "", "source": "", "date": "", **SIZES} | {
    "head_size": 128, "gated_ffn": True, "sequence_length": 256, "vocabulary": 0, "batch": 8
}  # fmt: skip


def held(layer: Layer, *names: str) -> float:
    """Weights of some operations of a layer, or of all."""
    chosen = [one for one in layer.operations if one.name in names or not names]
    return sum(float(np.sum(one.weight_bytes)) for one in chosen) / ELEMENT_BYTES


def test_parameters_count_the_heads_own_width() -> None:
    # q and o: 512 x 2048 each; k and v: 512 x 512 each; three matrices of 512 x 1024.
    expected = 2 * 512 * 2048 + 2 * 512 * 512 + 3 * 512 * 1024
    model = Model.read(WIDE)
    assert layer_parameters(model) == expected
    one = Sharding.of(1, tensor=1)
    products = ("qkv", "vproj", "fc1", "fc2")
    layer = transformer_layer(model, one)
    assert held(layer, *products) == expected
    counted = counted_layer(model, one)
    assert held(counted) == expected
    tiled = tiled_layer(model, one, sram_bytes=40e6)
    assert held(tiled) == expected


@pytest.mark.parametrize("strategy", ["1d", "2d", "summa"])
def test_scores_grow_with_the_heads(strategy: Strategy) -> None:
    model, plain = Model.read(WIDE), Model.read(WIDE | {"head_size": 32})
    both = [
        transformer_layer(m, Sharding.of(1, tensor=2), strategy=strategy) for m in (model, plain)
    ]
    flops = [next(o for o in layer.operations if o.name == "attention").forward for layer in both]
    # Scores 2 q - 1, results 2 l - 1 FLOPs a number: 8 heads of 256 x 256 scores each.
    wide, narrow = (256 * 256 * 8 * (2 * q - 1) + 256 * 8 * q * 511 for q in (128, 32))
    assert float(flops[0].tensor_flops[0]) == wide  # type: ignore[index]
    assert float(flops[1].tensor_flops[0]) == narrow  # type: ignore[index]


def test_an_even_share_is_the_default() -> None:
    model = MODELS.load("llama-3-8b")
    same = Model.read(model.to_dict() | {"head_size": 128})
    assert iteration_flops(same, 8) == iteration_flops(model, 8)
    assert (same.query_size, model.query_size) == (4096, 4096)
    assert model.rotates
    assert not MODELS.load("gpt-175b").rotates


def test_uneven_heads_need_a_size() -> None:
    plain = {key: value for key, value in WIDE.items() if key != "head_size"} | {"heads": 12}
    with pytest.raises(RecordError, match="or give head_size"):
        Model.read(plain | {"kv_heads": 4})
    assert Model.read(plain | {"head_size": 64}).query_size == 768

"""Operations of a layer: variants by hand, and what every strategy must agree on."""

from typing import get_args

import numpy as np
import pytest

from netplan.inputs.choices import Strategy
from netplan.performance.iteration_model import ComputePart
from netplan.workloads.closed_forms import counted_layer, layer_parameters
from netplan.workloads.models import MODELS, Model
from netplan.workloads.operations import Layer, Operation, Sharding, Variant, local_sizes
from netplan.workloads.tiled_layer import tiled_layer
from netplan.workloads.transformer import embedding, lm_head, transformer_layer

# e = 512, h = 8 (q = 64), l = 256, b = 2, n1 = 4: L = 512 rows, e/n1 = 128, 2 heads a GPU.
VALUES: dict[str, object] = {
    "name": "small",
    "title": "small",
    "source": "test",
    "date": "2024",
    "hidden_size": 512,
    "layers": 4,
    "heads": 8,
    "sequence_length": 256,
    "vocabulary": 1001,
    "batch": 16,
}
SHARDING = Sharding.of(2, tensor=4)


def model(**changes: object) -> Model:
    return Model.read(VALUES | changes)


def named(layer: Layer, name: str) -> Operation:
    (found,) = (one for one in layer.operations if one.name == name)
    return found


def number(amount: object) -> float:
    return float(np.sum(np.asarray(amount)))


def test_column_and_row_products_by_hand() -> None:
    layer = transformer_layer(model(), SHARDING)
    fc1, fc2 = named(layer, "fc1"), named(layer, "fc2")
    # fc1: (512 x 512) x (512 x 512); fc2: (512 x 512) x (512 x 512): f/n1 = 2048/4.
    assert number(fc1.forward.tensor_flops) == 512 * 512 * 1023
    assert number(fc1.backward.tensor_flops) == 2 * 512 * 512 * 1023
    assert number(fc1.forward.moved_bytes) == 2 * 3 * 512 * 512
    assert number(fc2.weight_bytes) == 2 * 512 * 512
    assert [one.kind for one in fc2.forward.collectives] == ["reduce_scatter"]
    assert number(fc2.forward.collectives[0].message_bytes) == 2 * 512 * 512
    assert fc1.forward.collectives == ()


def test_shared_key_heads_shrink_projection_keys_and_values() -> None:
    full, shared = (
        transformer_layer(model(), SHARDING),
        transformer_layer(model(kv_heads=4), SHARDING),
    )
    # 1 key head and 1 value head of 64 in place of 2 each: 128 + 2 x 64 columns, not 384.
    assert number(named(full, "qkv").weight_bytes) == 2 * 512 * 384
    assert number(named(shared, "qkv").weight_bytes) == 2 * 512 * 256
    attention = named(shared, "attention")
    assert number(attention.forward.tensor_flops) == number(
        named(full, "attention").forward.tensor_flops
    )
    # Queries and results: 2 x 2 heads x 256 x 64 each; keys and values: half of it; and the sums.
    query, key = 2 * 2 * 256 * 64, 2 * 1 * 256 * 64
    assert number(attention.activation_bytes) == 2 * (2 * query + 2 * key + 2 * 2 * 2 * 256)
    assert number(attention.forward.moved_bytes) == 2 * (2 * query + 2 * key + 2 * 2 * 256)
    # The gathered message of a sequence split: keys and values.
    assert number(attention.forward.collectives[0].message_bytes) == 2 * 2 * key


def test_more_gpus_than_key_heads_hold_copies() -> None:
    # 2 key heads on 4 GPUs: every GPU holds one.
    layer = transformer_layer(model(kv_heads=2), SHARDING)
    assert number(named(layer, "qkv").weight_bytes) == 2 * 512 * (128 + 2 * 64)


def test_swiglu_has_a_third_matrix_and_its_own_activation() -> None:
    layer = transformer_layer(model(gated_ffn=True, ffn_size=1024), SHARDING)
    # f/n1 = 256: fc1 has 512 columns (gate and value), fc2 256 rows.
    assert number(named(layer, "fc1").weight_bytes) == 2 * 512 * 512
    assert number(named(layer, "fc2").weight_bytes) == 2 * 256 * 512
    gate = named(layer, "swiglu")
    x = 512 * 256
    assert number(gate.forward.vector_flops) == 5 * x
    assert number(gate.backward.vector_flops) == 10 * x
    assert number(gate.forward.moved_bytes) == 2 * 3 * x
    assert number(gate.activation_bytes) == 2 * 2 * x


def test_attention_without_recomputation_stores_five_bytes_a_score() -> None:
    fused = named(transformer_layer(model(), SHARDING), "attention")
    plain = named(
        transformer_layer(model(), SHARDING, variant=Variant(recompute="none")), "attention"
    )
    scores = 2 * 2 * 256 * 256
    assert number(plain.activation_bytes) - number(fused.activation_bytes) == 5 * scores
    # Recomputed: 2 q - 1 = 127 tensor FLOP a score; 3 X + Y vector FLOP.
    again = number(fused.backward.tensor_flops) - number(plain.backward.tensor_flops)
    assert again == 127 * scores
    again = number(fused.backward.vector_flops) - number(plain.backward.vector_flops)
    assert again == 3 * scores + 2 * 2 * 256 * 255


@pytest.mark.parametrize("strategy", ["1d", "2d"])
def test_experts_replace_the_feed_forward_part(strategy: Strategy) -> None:
    one = np.ones(1, dtype=np.int64)
    sharding = Sharding(2 * one, 4 * one, one, one, 2 * one, 2 * one, 4 * one)
    layer = transformer_layer(
        model(), sharding, strategy=strategy, variant=Variant("selective", 8, 2)
    )
    # 8 experts on 2 GPUs: 4 matrices of 512 x 512 each; two visits: 1,024 rows.
    fc1 = named(layer, "fc1")
    assert number(fc1.weight_bytes) == 4 * 2 * 512 * 512
    assert fc1.expert_weights
    assert number(fc1.forward.tensor_flops) == 1024 * 512 * 1023
    # Gradients of 4 matrices, from 256 rows each, and of 1,024 rows of input.
    assert number(fc1.backward.tensor_flops) == 4 * 512 * 512 * 511 + 1024 * 512 * 1023
    dispatch, combine = named(layer, "dispatch"), named(layer, "combine")
    # A GPU sends its 2 x 256/4 = 128 tokens twice; the tensor GPUs gather 1,024 rows.
    sent, gathered = 2 * 2 * 128 * 512, 2 * 1024 * 512
    sizes = [number(one.message_bytes) for one in dispatch.forward.collectives]
    assert sizes == [sent, gathered]
    assert [one.kind for one in dispatch.forward.collectives] == ["all_to_all", "all_gather"]
    assert number(combine.forward.vector_flops) == 2 * 2 * 128 * 512
    assert number(combine.forward.moved_bytes) == 2 * (2 + 1) * 128 * 512
    # The router: 128 tokens x 8 experts; its weights are not cut.
    router = named(layer, "router")
    assert number(router.weight_bytes) == 2 * 512 * 8
    assert number(router.forward.tensor_flops) == 128 * 8 * 1023
    assert number(router.forward.vector_flops) == 5 * 128 * 8
    # As often as a dense layer the tensor GPUs communicate, four times in each direction.
    for direction in ("forward", "backward"):
        works = [getattr(one, direction) for one in layer.operations]
        groups = [each.group for work in works for each in work.collectives]
        assert groups.count("tensor") == 4
        assert groups.count("expert") == 2


@pytest.mark.parametrize("strategy", get_args(Strategy))
@pytest.mark.parametrize("name", ["gpt-1t", "llama-3-70b", "vit-64k"])
def test_one_gpu_does_the_same_work_under_every_strategy(strategy: Strategy, name: str) -> None:
    record = MODELS.load(name)
    layer = transformer_layer(record, Sharding.of(1, 1), strategy=strategy)
    matrices = [one for one in layer.operations if one.name in ("fc1", "fc2", "qkv", "vproj")]
    weights = sum(number(one.weight_bytes) for one in matrices)
    assert weights == 2 * layer_parameters(record)
    # 2 FLOP a weight and token forward, 4 backward.
    tokens = record.sequence_length
    flops = sum(number(one.forward.tensor_flops) for one in matrices)
    assert flops == pytest.approx(2 * tokens * layer_parameters(record), rel=1e-3)
    flops = sum(number(one.backward.tensor_flops) for one in matrices)
    assert flops == pytest.approx(4 * tokens * layer_parameters(record), rel=1e-3)


@pytest.mark.parametrize("name", ["gpt-1t", "llama-3-8b"])
def test_closed_forms_are_the_products_of_the_detailed_layer(name: str) -> None:
    record = MODELS.load(name)
    sharding = Sharding.of(2, tensor=8)
    counted, detailed = counted_layer(record, sharding), transformer_layer(record, sharding)
    flops = [
        sum(
            number(one.forward.tensor_flops) + number(one.backward.tensor_flops)
            for one in layer.operations
            if one.name != "logits"
        )
        for layer in (counted, detailed)
    ]
    # The closed forms recompute both score products, fused attention one of them, and 2k - 1 is
    # nearly 2k.
    scores = 2 * 2 * record.sequence_length**2 * record.hidden_size / 8
    assert flops[0] - scores == pytest.approx(flops[1], rel=3e-3)
    messages = [
        sum(
            number(each.message_bytes)
            for one in layer.operations
            for work in (one.forward, one.backward)
            for each in work.collectives
            if each.group == "tensor"
        )
        for layer in (counted, detailed)
    ]
    assert messages[0] == messages[1]  # eight of 2 b s h
    assert number(counted.boundary_bytes) == number(detailed.boundary_bytes)


def test_ends_cut_the_vocabulary() -> None:
    # 1,001 words on 4 GPUs: 251 each; 512 tokens.
    table, head = embedding(model(), SHARDING), lm_head(model(), SHARDING)
    assert number(table.weight_bytes) == number(head.weight_bytes) == 2 * 251 * 512
    assert number(head.forward.tensor_flops) == 512 * 251 * 1023
    assert number(head.forward.vector_flops) == 5 * 512 * 251
    kinds = [(one.kind, number(one.message_bytes)) for one in head.forward.collectives]
    # All rows; largest logit and sum of each token, 4 bytes each.
    assert kinds == [("all_gather", 2 * 512 * 512), ("all_reduce", 2 * 4 * 512)]


def test_arrays_are_the_single_shardings_side_by_side() -> None:
    many = Sharding(
        *(np.array(one) for one in ([1, 2, 4], [1, 2, 8], [4, 2, 1], [4, 8, 8], [1, 1, 1])),
        *(np.array(one) for one in ([1, 1, 1], [1, 2, 8])),
    )
    for strategy in get_args(Strategy):
        layer = transformer_layer(model(), many, strategy=strategy)
        for at in range(3):
            single = Sharding.of(
                int(many.microbatch[at]),
                int(many.tensor[at]),
                int(many.context[at]),
                int(many.panels[at]),
            )
            alone = transformer_layer(model(), single, strategy=strategy)
            for one, other in zip(layer.operations, alone.operations, strict=True):
                for work, only in ((one.forward, other.forward), (one.backward, other.backward)):
                    flops = np.broadcast_to(work.tensor_flops, 3)[at]
                    assert flops == np.broadcast_to(only.tensor_flops, 1)[0]
                    moved = np.broadcast_to(work.moved_bytes, 3)[at]
                    assert moved == np.broadcast_to(only.moved_bytes, 1)[0]


def test_key_heads_that_do_not_divide_are_whole_on_a_gpu() -> None:
    """12 key and value heads over 8 GPUs: one on each (24 heads for queries: three)."""
    sizes = local_sizes(model(heads=24, kv_heads=12, hidden_size=24 * 64), Sharding.of(1, tensor=8))
    assert (sizes.heads.tolist(), sizes.kv_heads.tolist()) == ([3.0], [1.0])


@pytest.mark.parametrize("name", ["gpt-1t", "gpt-oss-20b", "deepseek-v3", "nemotron-3-nano"])
def test_products_of_scores_are_all_of_the_attention(name: str) -> None:
    """Full, in windows, from latent vectors and beside Mamba: by their field, not by their name."""
    record = MODELS.load(name)
    operations = transformer_layer(record, Sharding.of(1, 1)).operations
    scores = {operation.name for operation in operations if operation.scores}
    assert scores == {"attention"} | ({"window-attention"} if record.window_attention else set())
    part = ComputePart(
        operations="detailed", attention_slowdown=2.5, attention_slowdown_of="scores"
    )
    slower = {operation.name for operation in operations if part.slowdown_of(operation) == 2.5}
    assert slower == scores


def test_closed_and_tiled_layers_name_their_products_of_scores() -> None:
    record, sharding = MODELS.load("gpt-1t"), Sharding.of(1, 1)
    layers = counted_layer(record, sharding), tiled_layer(record, sharding, sram_bytes=1e6)
    names = [
        [operation.name for operation in layer.operations if operation.scores] for layer in layers
    ]
    assert names == [["attention"], ["scores", "attend"]]

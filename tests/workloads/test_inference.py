"""Steps of inference by hand: FLOP, bytes, caches and messages of every kind of layer.

Sizes are written out as publishers print them, so that no function of the package counts for the
tests.
"""

import numpy as np
import pytest

from netplan.arrays import Amount
from netplan.errors import InputError
from netplan.workloads.inference import (
    Cut,
    Formats,
    NumberFormat,
    Phase,
    ServingStep,
    cached_bytes,
    embedding_bytes,
    inference_head,
    inference_layer,
)
from netplan.workloads.models import MODELS, WORKLOADS, Model
from netplan.workloads.operations import CollectiveCall, Layer, Operation
from netplan.workloads.parameters import parameter_count

DECODE = ServingStep("decode", 16.0, 1.0, 2048.0)
PROMPT = ServingStep("prefill", 1.0, 2048.0, 2048.0)
GENERATING = [
    name
    for name in sorted(WORKLOADS.paths())
    if isinstance(one := WORKLOADS.load(name), Model) and one.causal and one.vocabulary
]


def layer(
    model: str, cut: Cut, step: ServingStep = DECODE, formats: Formats | None = None
) -> Layer:
    return inference_layer(MODELS.load(model), cut, step, formats or Formats())


def named(found: Layer, name: str) -> Operation:
    (one,) = (one for one in found.operations if one.name == name)
    return one


def number(amount: Amount) -> float:
    return float(np.max(amount))


def messages(found: Layer, name: str) -> list[tuple[str, str, float]]:
    """What an operation sends, without what nobody gets [B]."""
    sent = ((one.kind, one.group, number(one.message_bytes)) for one in _sent(found, name))
    return [one for one in sent if one[2]]


def _sent(found: Layer, name: str) -> tuple[CollectiveCall, ...]:
    return named(found, name).forward.collectives


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("name", GENERATING)
def test_weights_are_all_parameters(name: str, phase: Phase) -> None:
    """All but norms, and what convolutions and gates of linear attention and Mamba hold."""
    model, cut, step = MODELS.load(name), Cut.of(1), ServingStep(phase, 1.0, 1.0, 64.0)
    each = sum(
        one.share * number(one.weight_bytes) for one in inference_layer(model, cut, step).operations
    )
    ends = number(inference_head(model, cut, step).weight_bytes)
    if not model.tied_embeddings:
        ends += number(embedding_bytes(model, cut))
    left = model.hidden_size * (2 * model.layers + 1)
    if model.linear_attention is not None:  # 4 taps of 2 x 16 + 64 heads of 128, and 2 a head
        left += 45 * (4 * 96 * 128 + 2 * 64)
    if (mamba := model.mamba) is not None:  # a block has one norm; 4 taps, a norm, 3 numbers a head
        inner = mamba.heads * mamba.head_size
        left = model.hidden_size * (model.layers + 1)
        left += mamba.layers * (4 * (inner + 2 * mamba.groups * mamba.state) + inner)
        left += mamba.layers * 3 * mamba.heads
    assert (model.layers * each + ends) / 2 + left == pytest.approx(
        parameter_count(model).total, rel=1e-12
    )


@pytest.mark.parametrize(
    ("model", "token_bytes"),
    [
        ("llama-3-70b", 327_680),  # 80 layers x 2 x 8 heads x 128 x 2 B
        ("llama-3-405b", 516_096),  # 126 x 2 x 8 x 128 x 2
        ("deepseek-v3", 70_272),  # 61 x (512 + 64) x 2: "70 KB", arXiv:2505.09343, Table 1
        ("deepseek-v3.2", 61 * (576 + 128) * 2),  # and a key of the indexer
        ("gpt-oss-120b", 36 * 2 * 8 * 64 * 2),
    ],
)
def test_a_token_of_the_cache_is_as_large_as_published(model: str, token_bytes: float) -> None:
    one = MODELS.load(model)
    assert cached_bytes(one, Cut.of(1), 1, 2.0) == pytest.approx(token_bytes)
    assert cached_bytes(one, Cut.of(1), 100, 1.0) == pytest.approx(50 * token_bytes)


def test_windows_and_states_stop_growing() -> None:
    # gpt-oss-120b: 18 of 36 layers keep 128 tokens of 2 x 8 x 64 x 2 B = 2,048 B.
    cached = cached_bytes(MODELS.load("gpt-oss-120b"), Cut.of(1), np.array([100.0, 1000.0]), 2.0)
    assert cached.tolist() == [36 * 100 * 2048, 18 * (1000 + 128) * 2048]
    # Qwen3.5: 45 layers of 64 states of 128 x 128 x 4 B; 15 layers of 2 x 2 heads of 256 x 2 B.
    qwen = MODELS.load("qwen3.5-397b-a17b")
    states, token = 45 * 64 * 128 * 128 * 4, 15 * 2 * 2 * 256 * 2
    assert cached_bytes(qwen, Cut.of(1), 1000, 2.0) == pytest.approx(states + 1000 * token)
    # Two GPUs hold half of both, four a whole head of keys and a quarter of the states.
    assert cached_bytes(qwen, Cut.of(4), 1000, 2.0) == pytest.approx(states / 4 + 1000 * token / 2)


def test_a_dense_layer_of_generated_tokens_by_hand() -> None:
    """Llama 3 70B on 8 GPUs, 16 requests: 8 heads of 128 and one of keys, 3,584 of 28,672."""
    found = layer("llama-3-70b", Cut.of(8))
    for name, inner, columns in (
        ("qkv", 8192, (8 + 2) * 128),
        ("output", 8 * 128, 8192),
        ("up", 8192, 2 * 3584),
        ("down", 3584, 8192),
    ):
        work = named(found, name).forward
        assert number(work.tensor_flops) == 2 * 16 * inner * columns
        assert number(work.moved_bytes) == 2 * (inner * columns + 16 * inner + 16 * columns)
    attention = named(found, "attention").forward
    assert number(attention.tensor_flops) == 4 * 16 * 8 * 2048 * 128
    # Keys and values of 2,048 tokens of 16 requests; queries and results of 8 heads.
    assert number(attention.moved_bytes) == 2 * 16 * (2048 * 2 * 128 + 2 * 8 * 128)
    for name in ("output", "down"):
        assert messages(found, name) == [("all_reduce", "tensor", 16 * 8192 * 2)]
    assert not messages(found, "qkv")
    head = inference_head(MODELS.load("llama-3-70b"), Cut.of(8), DECODE)
    assert number(head.forward.tensor_flops) == 2 * 16 * 8192 * 128_256 / 8


def test_a_prompt_attends_to_half_of_itself_and_samples_once() -> None:
    found = layer("llama-3-70b", Cut.of(8), PROMPT)
    assert number(named(found, "up").forward.tensor_flops) == 2 * 2048 * 8192 * 2 * 3584
    attention = named(found, "attention").forward
    assert number(attention.tensor_flops) == 4 * 8 * 2048 * 1024 * 128
    assert number(attention.moved_bytes) == 2 * 2048 * (2 * 128 + 2 * 8 * 128)
    assert messages(found, "down") == [("all_reduce", "tensor", 2048 * 8192 * 2)]
    head = inference_head(MODELS.load("llama-3-70b"), Cut.of(8), PROMPT)
    assert number(head.forward.tensor_flops) == 2 * 8192 * 128_256 / 8


def test_degrees_that_divide_no_heads_are_padded_and_keys_copied() -> None:
    """64 heads on 3 GPUs are 22 each, 8 of keys 3 each; on 16 GPUs each has a whole one of keys."""
    for tensor, heads, kv_heads in ((3, 22, 3), (16, 4, 1), (64, 1, 1)):
        found = layer("llama-3-70b", Cut.of(tensor))
        shape = named(found, "attention").attention
        assert shape is not None
        assert (number(shape.heads), number(shape.kv_heads)) == (heads, kv_heads)
        assert number(named(found, "qkv").weight_bytes) == 2 * 8192 * 128 * (heads + 2 * kv_heads)


def test_narrow_numbers_move_fewer_bytes_and_as_many_flop() -> None:
    """4-bit weights with scales, computed in 8 bits; a cache of 8 bits."""
    narrow = NumberFormat("fp8", 0.5625, "fp4")
    found = layer("llama-3-70b", Cut.of(8), formats=Formats(NumberFormat(), narrow, 1.0))
    up = named(found, "up").forward
    assert number(up.tensor_flops) == 2 * 16 * 8192 * 7168
    assert number(up.moved_bytes) == 0.5625 * 8192 * 7168 + 16 * 8192 + 2 * 16 * 7168
    assert number(named(found, "qkv").weight_bytes) == 2 * 8192 * 1280
    attention = named(found, "attention").forward
    assert number(attention.moved_bytes) == 16 * (2048 * 256 + 2 * 2 * 8 * 128)


def test_latent_attention_by_hand() -> None:
    """DeepSeek-V3 on 8 GPUs: ranks 1,536 and 512, 16 of 128 heads of 128 + 64, values of 128."""
    made, stored = (layer("deepseek-v3", Cut.of(8), step) for step in (PROMPT, DECODE))
    for found, rows in ((made, 2048), (stored, 16)):
        for name, inner, columns in (
            ("latent-down", 7168, 1536 + 512 + 64),
            ("query-up", 1536, 16 * 192),
            ("output", 16 * 128, 7168),
        ):
            assert number(named(found, name).forward.tensor_flops) == 2 * rows * inner * columns
    up = named(made, "key-value-up").forward.tensor_flops
    assert number(up) == 2 * 2048 * 512 * 16 * 256
    # Half of 2,048 x 2,048 pairs: scores of 192 numbers, values of 128.
    prompt = named(made, "attention").forward
    assert number(prompt.tensor_flops) == 2 * 16 * 2048 * 1024 * (192 + 128)
    for name in ("key-absorb", "value-absorb"):
        assert number(named(stored, name).forward.tensor_flops) == 2 * 16 * 16 * 512 * 128
    # Every head scores 576 stored numbers and takes 512 of them; they are read once for all heads.
    token = named(stored, "attention").forward
    assert number(token.tensor_flops) == 2 * 16 * 16 * 2048 * (576 + 512)
    assert number(token.moved_bytes) == 2 * 16 * (2048 * 576 + 16 * (576 + 512))


def test_an_indexer_scores_all_tokens_and_attention_takes_those_chosen() -> None:
    """DeepSeek-V3.2: 64 small heads of 128, made of the 1,536 of queries; 2,048 tokens chosen."""
    for context, chosen in ((1024, 1024), (100_000, 2048)):
        found = layer("deepseek-v3.2", Cut.of(8), ServingStep("decode", 16.0, 1.0, float(context)))
        index, matrix = named(found, "index").forward, 1536 * 64 * 128 + 7168 * (128 + 64)
        assert number(index.tensor_flops) == 2 * 16 * (matrix + context * 64 * 128)
        assert number(index.moved_bytes) == 2 * (matrix + 16 * context * 128 + 16 * 65 * 128)
        token = named(found, "attention").forward
        assert number(token.tensor_flops) == 2 * 16 * 16 * chosen * (576 + 512)


@pytest.mark.parametrize("context", [100, 128, 4096])
def test_windows_by_hand(context: int) -> None:
    """gpt-oss-120b on 1 GPU: 64 heads of 64, 8 of keys; half of the layers see 128 tokens."""
    decode = layer("gpt-oss-120b", Cut.of(1), ServingStep("decode", 3.0, 1.0, float(context)))
    prompt = layer(
        "gpt-oss-120b", Cut.of(1), ServingStep("prefill", 3.0, float(context), float(context))
    )
    seen = min(context, 128)
    # Of a prompt the first tokens of a window see fewer: w (S - w / 2) pairs.
    for found, queries, pairs in (
        (decode, 1, seen),
        (prompt, context, seen * (context - seen / 2) / context),
    ):
        window, full = named(found, "window-attention"), named(found, "attention")
        assert (window.share, full.share) == (0.5, 0.5)
        met = queries * pairs
        assert number(window.forward.tensor_flops) == pytest.approx(4 * 3 * 64 * met * 64)
    # A token reads its window alone, a prompt all of its keys.
    for found, queries, read in ((decode, 1, seen), (prompt, context, context)):
        moved = 2 * 3 * (read * 2 * 8 * 64 + queries * 2 * 64 * 64)
        assert number(named(found, "window-attention").forward.moved_bytes) == moved


def test_linear_attention_reads_and_writes_its_states() -> None:
    """Qwen3.5 on 2 GPUs: 32 of 64 states of 128 x 128 x 4 B, 8 of 16 heads of keys; 45 of 60."""
    found = layer("qwen3.5-397b-a17b", Cut.of(2))
    states = named(found, "linear-states")
    assert states.share == 0.75
    mixed, values = (2 * 8 + 32) * 128, 32 * 128
    assert number(states.forward.moved_bytes) == 16 * (
        2 * 32 * 128 * 128 * 4 + 2 * 2 * (mixed + values)
    )
    inside = named(found, "linear-in").forward.tensor_flops
    assert number(inside) == 2 * 16 * 4096 * (mixed + values + 2 * 32)
    # A prompt reads and writes its states once.
    prompt = named(layer("qwen3.5-397b-a17b", Cut.of(2), PROMPT), "linear-states").forward
    assert number(prompt.moved_bytes) == 2 * 32 * 128 * 128 * 4 + 2048 * 2 * 2 * (mixed + values)
    # Gates of full attention: 16 x 256 queries and gates, one of 2 heads of keys.
    gated = named(found, "qkv").forward.tensor_flops
    assert number(gated) == 2 * 16 * 4096 * 256 * (2 * 16 + 2 * 1)


@pytest.mark.parametrize(
    ("tensor", "copies", "expert"), [(1, 1, 1), (8, 1, 1), (8, 1, 8), (2, 4, 8), (2, 4, 4)]
)
def test_experts_by_hand(tensor: int, copies: int, expert: int) -> None:
    """Qwen3 235B: 8 of 128 experts of 3 x 4,096 x 1,536; 16 tokens of each copy."""
    found = layer("qwen3-235b-a22b", Cut.of(tensor, copies, expert))
    matrix, tokens, gpus = 3 * 4096 * 1536, 16 * copies, tensor * copies
    experts = named(found, "experts")
    assert number(experts.weight_bytes) == 2 * 128 * matrix / gpus
    assert number(experts.forward.tensor_flops) == pytest.approx(2 * tokens * 8 * matrix / gpus)
    visited = 128 * (1 - (1 - 8 / 128) ** tokens)
    assert number(experts.forward.weight_bytes) == pytest.approx(2 * visited * matrix / gpus)
    assert number(named(found, "router").forward.tensor_flops) == 2 * 16 * 4096 * 128


def test_shared_experts_take_every_token() -> None:
    found = layer("deepseek-v3", Cut.of(8, 2, 16))
    shared = named(found, "shared-up")
    assert number(shared.forward.tensor_flops) == 2 * 16 * 7168 * 2 * 2048 / 8
    assert shared.share == 58 / 61
    assert named(found, "up").share == 3 / 61


def test_messages_of_experts_by_hand() -> None:
    """16 tokens of 4,096 numbers of each copy of attention (table of the module)."""
    model, whole = "qwen3-235b-a22b", 16 * 4096 * 2
    # One copy: all GPUs have the tokens, and add up.
    for expert in (1, 4, 8):
        found = messages(layer(model, Cut.of(8, 1, expert)), "experts")
        assert found == [("all_reduce", "tensor", whole)]
    # Copies that share whole experts send each token to as many GPUs as 8 draws of 32 meet.
    met = 32 * (1 - (31 / 32) ** 8)
    sent: object = ("all_to_all", "expert", pytest.approx(whole * met))
    assert messages(layer(model, Cut.of(1, 32, 32)), "experts") == [sent, sent]
    # Of two tensor GPUs each sends half of the tokens, and gathers all of them afterwards; where
    # two GPUs share an expert both get the token.
    met = 8 * (1 - (7 / 8) ** 8)
    half: object = ("all_to_all", "expert", pytest.approx(whole / 2 * met * 2))
    gathered: object = ("all_gather", "tensor", whole)
    assert messages(layer(model, Cut.of(2, 8, 8)), "experts") == [half, half, gathered]
    # Every expert cut over all GPUs: all tokens of four copies come and go, an eighth to each GPU;
    # both GPUs of a copy need a quarter.
    assert messages(layer(model, Cut.of(2, 4, 1)), "experts") == [
        ("all_gather", "expert", 4 * whole),
        ("reduce_scatter", "expert", 4 * whole),
        gathered,
    ]
    # Tokens travel in 8 bits where experts compute in them, sums in 16.
    eight = Formats(feed_forward=NumberFormat("fp8", 1.0, "fp8"))
    there, back = messages(layer(model, Cut.of(1, 32, 32), formats=eight), "experts")
    assert back[2] == 2 * there[2]
    # A GPU alone sends nothing that costs: groups of one.
    assert messages(layer(model, Cut.of(1)), "experts") == [("all_reduce", "tensor", whole)]


def test_models_that_generate_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="bert-base does not generate tokens one by one"):
        layer("bert-base", Cut.of(1))

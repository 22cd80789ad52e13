"""FLOPs of a token in training, as the sizes of model files give them, against printed ones.

A token takes 6 FLOP a weight that it meets in a product, and 6 x attention layers x heads x
(query + value elements) x half the tokens of its sequence, or x those that its window has. NVIDIA
prints model TFLOP/s and tokens/s of the same runs (Megatron Bridge, performance summary, 25.09 to
26.06): their quotients are the numbers below.
"""

import pytest

from netplan.workloads.closed_forms import iteration_flops
from netplan.workloads.models import MODELS, WORKLOADS, Mamba, Model
from netplan.workloads.parameters import parameter_count, scan_flops, stack_of

COUNTED = [
    name
    for name in WORKLOADS.paths()
    # BERT ties its embeddings, which its files leave open.
    if isinstance(model := WORKLOADS.load(name), Model) and model.parameters and "bert" not in name
]


def gflop_of_a_token(model: Model) -> float:
    """Of causal attention, without the scans of Mamba."""
    stack, words = stack_of(model), model.hidden_size * model.vocabulary
    products = stack.used + words * (1 + model.prediction_layers)
    return (6 * products + 6 * stack.scores / 2) / 1e9


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("llama-3-405b", 2525.0),
        ("llama-3-70b", 449.1),
        ("llama-3-8b", 51.48),
        ("deepseek-v3", 260.0),
        ("gpt-oss-120b", 32.6),
        ("qwen3-30b-a3b", 23.0),
        ("nemotron-3-super", 84.7),
    ],
)
def test_flops_of_a_token_are_the_printed_ones(name: str, printed: float) -> None:
    assert gflop_of_a_token(MODELS.load(name)) == pytest.approx(printed, rel=0.005)


def test_prediction_layers_are_a_layer_and_a_head_more() -> None:
    """DeepSeek-V3 without its own: printed 249.7, of rows that switch it off."""
    model = MODELS.load("deepseek-v3").changed(prediction_layers=0)
    assert gflop_of_a_token(model) == pytest.approx(249.7, rel=0.006)


def test_a_small_hybrid_is_printed_with_all_scores_and_scans() -> None:
    """Nemotron 3 Nano: 22.27 printed, where causal attention and products alone make 20.6."""
    model = MODELS.load("nemotron-3-nano")
    assert gflop_of_a_token(model) == pytest.approx(20.6, rel=0.005)
    whole = iteration_flops(model, 1).model / model.sequence_length / 1e9
    assert whole == pytest.approx(22.27, rel=0.015)


# Sizes alone, with the arithmetic of section and table that each file cites: weights in products
# of a token, scores, and nothing else.
@pytest.mark.parametrize(
    ("name", "gflop"),
    [
        # 118 blocks: 54 of 8192 x (2 x 16384 + 2 x 8 x 256 + 256) + 16384 x 8192 = 438.3e6 and a
        # convolution of 82e3, 10 of 8192 x 128 x (2 x 64 + 2 x 8) = 151.0e6, 54 of 2 x 8192 x
        # 32768 = 536.9e6; head 1.074e9: 55.25e9 in all, x 6; scores 10 x 6 x 64 x 256 x 4096.
        ("nemotron-h-56b", 335.5),
        # 64 layers of 6144 x 128 x (2 x 48 + 2 x 8) = 88.1e6, 2 x 3 x 6144 x 32768 = 1,208e6 and
        # a router; head 0.805e9: 83.76e9, x 6; scores 64 x 6 x 48 x 256 x 4096 = 19.3e9.
        ("grok-1", 521.9),
        # 96 layers of 18432 x 192 x (2 x 96 + 2 x 8) = 736e6 and 2 x 18432 x 73728 = 2,718e6;
        # head 4.72e9: 336.3e9, x 6; scores 96 x 6 x 96 x 384 x 2048 = 43.5e9.
        ("nemotron4-340b", 2061.3),
        # 80 layers of 8192 x 128 x (2 x 64 + 2 x 8) = 151e6 and 3 x 8192 x 28672 = 704.6e6; head
        # 0.262e9: 68.71e9, x 6; scores 80 x 6 x 64 x 256 x 2048 = 16.1e9.
        ("llama-2-70b", 428.4),
        # 32 layers of 41.9e6 and 176.2e6; head 0.131e9: 7.110e9, x 6; 32 x 6 x 32 x 256 x 4096.
        ("mistral-7b", 49.1),
    ],
)
def test_flops_of_a_token_by_hand(name: str, gflop: float) -> None:
    assert gflop_of_a_token(MODELS.load(name)) == pytest.approx(gflop, rel=0.002)


@pytest.mark.parametrize("name", COUNTED)
def test_every_model_file_has_the_parameters_that_it_names(name: str) -> None:
    """Within what a vision encoder or rounding make; active ones with the embedding or without."""
    model = MODELS.load(name)
    count = parameter_count(model)
    assert count.total == pytest.approx(model.parameters, rel=0.02)
    if model.active_parameters is not None:
        nearest = min(
            (count.active, count.active_without_embedding),
            key=lambda parameters: abs(parameters - (model.active_parameters or 0)),
        )
        assert nearest == pytest.approx(model.active_parameters, rel=0.05)


def test_a_hybrid_without_mamba_is_a_transformer() -> None:
    """A layer is then two blocks; the norms and products are the same."""
    plain = MODELS.load("llama-3-8b")
    hybrid = plain.changed(
        layers=2 * plain.layers,
        attention_layers=plain.layers - 1,
        mamba=Mamba(layers=1, heads=1, head_size=1, state=1),
    )
    attention = stack_of(plain).attention // plain.layers
    few = plain.hidden_size * (2 + 2 + 1) + plain.hidden_size + 3 * 4 + 1 + 3
    assert stack_of(hybrid).attention == attention * (plain.layers - 1) + few
    assert stack_of(hybrid).feed_forward == stack_of(plain).feed_forward
    scores = stack_of(plain).scores * (plain.layers - 1) // plain.layers
    assert stack_of(hybrid).scores == scores


def test_a_scan_by_hand() -> None:
    """Of a chunk of 128 tokens: 128 x 4 for scores, 128 x 6 to apply them, 2 x 6 x 4 each way."""
    mamba = Mamba(layers=1, heads=2, head_size=3, state=4)
    assert scan_flops(mamba, mamba.heads, mamba.groups) == 2 * 128 * 4 + 2 * 128 * 6 + 2 * (
        2 * 6 * 4
    )

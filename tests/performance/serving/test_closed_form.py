"""Serving in closed form: sums by hand, the engine of collectives, what must never get worse."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.levels import Level
from netplan.performance.serving.closed_form import (
    Sizes,
    TensorGroup,
    TokenPass,
    decode,
    pass_time,
    prefill,
)
from netplan.performance.serving.kernel_times import ServingKernels
from netplan.performance.serving.server import ServingTimes
from netplan.records import replace
from netplan.traffic.hierarchy import CollectiveNetwork, Communication, collective_s
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.inference import Cut, Formats, ServingStep
from netplan.workloads.models import MODELS, Experts

CHIP = ACCELERATORS.load("sn40l")
LLAMA, DEEPSEEK, MIXTRAL = (
    Sizes.of(MODELS.load(name)) for name in ("llama-3-8b", "deepseek-v3", "mixtral-8x7b")
)
SIXTEEN = TensorGroup.of(CHIP, 16)


def test_llama_on_16_chips_by_hand() -> None:
    # Weights 2 x 7,504,924,672 B / (16 x 1.6e12 B/s) = 586.32 us; 64 all-reduces of 30 hops of
    # 150 ns = 288 us, and of 2 x 15/16 x 8,192 B / 25e9 B/s = 614.4 ns, 39.32 us.
    found = decode(LLAMA, SIXTEEN)
    assert found.parts.kernels_s == pytest.approx(586.3222e-6, rel=1e-6)
    assert found.parts.hops_s == pytest.approx(288e-6)
    assert found.parts.sent_s == pytest.approx(39.3216e-6)
    assert found.tokens_per_s == pytest.approx(1094.5, abs=0.1)
    # 32 layers of 2 x 8 heads of 128 numbers, 2 B each, of 1,000 tokens and 3 requests: 393.2 MB;
    # each chip holds a whole one of 8 heads, twice its sixteenth.
    behind = decode(LLAMA, SIXTEEN, batch=3, context=1000).parts.memory_s
    assert behind - found.parts.memory_s == pytest.approx(2 * 393.216e6 / (16 * 1.6e12))


def test_a_torus_has_fewer_hops_and_the_same_bytes() -> None:
    # 4 x 4: 2 (3 + 3) hops instead of 30.
    ring, torus = (decode(LLAMA, TensorGroup.of(CHIP, *sides)) for sides in ((16,), (4, 4)))
    assert torus.parts.hops_s == pytest.approx(ring.parts.hops_s * 12 / 30)
    assert torus.parts.sent_s == ring.parts.sent_s


@pytest.mark.parametrize("sides", [(1,), (2,), (16,), (4, 4), (4, 2, 2)])
def test_collectives_are_those_of_the_one_engine(sides: tuple[int, ...]) -> None:
    levels = [Level("ring", side, CHIP.hb_bytes_per_s, CHIP.hb_latency_s) for side in sides]
    expected = collective_s("all_reduce", levels, data_bytes=8192, algorithm="ring")
    assert sum(TensorGroup.of(CHIP, *sides).all_reduce(8192)) == pytest.approx(expected)


@pytest.mark.parametrize("chips", [1, 4, 8])
@pytest.mark.parametrize("context", [0, 4096])
@pytest.mark.parametrize("name", ["llama-3-8b", "llama-3-405b", "mixtral-8x7b"])
def test_steps_of_one_request_are_those_of_whole_programs(
    name: str, context: int, chips: int
) -> None:
    """Programs, layer by layer, move activations besides: a thousandth."""
    model, one = MODELS.load(name), np.ones(1)
    ring = Level("ring", chips, CHIP.hb_bytes_per_s, CHIP.hb_latency_s)
    network = CollectiveNetwork((ring,), Communication("hierarchical"))
    served = ServingTimes(model, Formats(), ServingKernels.of(CHIP), network)
    layer, head = served.step(
        Cut(one * chips, one, one), ServingStep("decode", one, 1.0, float(context))
    )
    whole = layer * model.layers + head
    found = decode(Sizes.of(model), TensorGroup.of(CHIP, chips, ways=2), context=context)
    assert whole.network_s == pytest.approx(found.parts.sent_s + found.parts.hops_s)
    assert found.wait_s < whole.seconds < 1.002 * found.wait_s


def test_both_ways_are_those_of_the_published_algebra() -> None:
    sent_s, hops_s = TensorGroup.of(CHIP, 8, ways=2).all_reduce(25e9)
    assert sent_s == pytest.approx(0.875)  # n (p-1) / (p B)
    assert hops_s == pytest.approx(14 * 150e-9)


def test_stages_wait_for_hops_and_give_more_tokens() -> None:
    one, four = (decode(LLAMA, SIXTEEN, batch=8, stages=stages) for stages in (1, 4))
    # Three hops of 150 ns and of 8 x 8,192 B / 25e9 B/s.
    assert four.wait_s - one.wait_s == pytest.approx(3 * (150e-9 + 65_536 / 25e9))
    assert four.tokens_per_s == pytest.approx(4 * 8 / four.wait_s)


def test_prompts_compute_every_token_and_one_row_of_the_head() -> None:
    # FLOP: 2 x 1,024 tokens x (7,504,924,672 - 525,336,576) + 2 x 525,336,576, and 32 layers x 32
    # heads x 256 numbers that meet 1,024 x 1,025 / 2 pairs of tokens.
    flops = 2 * 1024 * 6_979_588_096 + 2 * 525_336_576 + 2 * 32 * 32 * 256 * 1024 * 1025 / 2
    found = prefill(LLAMA, SIXTEEN, prompt=1024)
    assert found.parts.compute_s == pytest.approx(flops / (16 * 0.9 * 638e12))
    assert found.parts.sent_s == pytest.approx(1024 * decode(LLAMA, SIXTEEN).parts.sent_s)
    assert found.tokens_per_s == pytest.approx(1024 / found.wait_s)


def test_compute_takes_over_kernel_by_kernel() -> None:
    # Weights compute as long as they are read from F / M = 358.9 tokens on: attention never does.
    few, many = (pass_time(LLAMA, SIXTEEN, work=TokenPass(tokens=count)) for count in (358, 359))
    attention = few.compute_s - 2 * 358 * (LLAMA.dense + LLAMA.head) / (16 * 0.9 * 638e12)
    assert few.kernels_s == pytest.approx(few.memory_s + attention)
    assert many.kernels_s == pytest.approx(many.compute_s)
    assert many.kernels_s > many.memory_s


def test_experts_are_read_as_far_as_tokens_visit_them() -> None:
    # Mixtral: 32 layers of 8 experts of 3 x 4096 x 14336, 2 of a token. Two tokens visit
    # 1 - (3/4)^2 of them on average.
    assert MIXTRAL.routed == 32 * 8 * 3 * 4096 * 14336
    for batch, share in ((1, 1 / 4), (2, 7 / 16), (500, 1.0)):
        read = MIXTRAL.dense + MIXTRAL.head + share * MIXTRAL.routed
        found = decode(MIXTRAL, SIXTEEN, batch=batch).parts.memory_s
        assert found == pytest.approx(2 * read / (16 * 1.6e12))
    every = Sizes.of(MODELS.load("llama-3-8b").changed(experts=Experts(count=2, per_token=2)))
    assert (every.routed, every.visited_share) == (0, 1.0)


def test_latent_vectors_lie_on_every_chip() -> None:
    # 61 layers of 512 + 64 numbers of 2 B, whatever the chips.
    assert (DEEPSEEK.kv_heads, DEEPSEEK.kv_numbers) == (1, 61 * 576)
    empty, full = (decode(DEEPSEEK, SIXTEEN, context=context).parts for context in (0, 1000))
    assert full.memory_s - empty.memory_s == pytest.approx(1000 * 61 * 576 * 2 / 1.6e12)


def test_arrays_are_their_numbers_one_by_one() -> None:
    chips, batch, context = np.array([1, 3, 16]), np.array([1, 40]), np.array([0, 5000])
    group = TensorGroup.of(CHIP, chips[:, None, None])
    found = decode(MIXTRAL, group, batch=batch[:, None], context=context)
    for at in np.ndindex(3, 2, 2):
        alone = decode(
            MIXTRAL,
            TensorGroup.of(CHIP, int(chips[at[0]])),
            batch=int(batch[at[1]]),
            context=int(context[at[2]]),
        )
        assert np.asarray(found.wait_s)[at] == pytest.approx(alone.wait_s)
        assert np.asarray(found.tokens_per_s)[at] == pytest.approx(alone.tokens_per_s)


@given(
    st.sampled_from([LLAMA, DEEPSEEK, MIXTRAL]),
    st.integers(1, 64),
    st.integers(1, 300),
    st.integers(0, 100_000),
    st.sampled_from(["flops_per_s", "memory_bytes_per_s", "link_bytes_per_s"]),
)
def test_more_is_never_worse(sizes: Sizes, chips: int, batch: int, context: int, rate: str) -> None:
    group = TensorGroup.of(CHIP, chips)
    wait_s = decode(sizes, group, batch=batch, context=context).wait_s
    better = replace(group, **{rate: 2 * getattr(group, rate)})
    assert decode(sizes, better, batch=batch, context=context).wait_s <= wait_s
    assert decode(sizes, group, batch=batch, context=context + 1).wait_s >= wait_s
    assert decode(sizes, group, batch=batch + 1, context=context).wait_s >= wait_s
    prompts = [prefill(sizes, group, prompt=length, batch=batch) for length in (1, 2, 99, 1000)]
    assert all(short.wait_s < long.wait_s for short, long in pairwise(prompts))


@pytest.mark.parametrize(
    ("model", "what"),
    [
        ("gpt-oss-120b", "windows"),
        ("qwen3.5-397b-a17b", "linear attention"),
        ("deepseek-v3.2", "an index"),
        ("vit-64k", "no next token"),
        ("bert-base", "no next token"),
    ],
)
def test_other_models_are_refused_in_one_line(model: str, what: str) -> None:
    with pytest.raises(InputError, match=f"{model} has {what}: take a model") as refused:
        Sizes.of(MODELS.load(model))
    assert "\n" not in str(refused.value)


def test_nothing_to_do_is_refused() -> None:
    for work in (TokenPass(requests=0), TokenPass(tokens=0), TokenPass(context=-1)):
        with pytest.raises(InputError, match="use a finite number of at least"):
            pass_time(LLAMA, SIXTEEN, work=work)
    with pytest.raises(InputError, match="stages: got 0"):
        decode(LLAMA, SIXTEEN, stages=0)
    with pytest.raises(InputError, match="chips of a ring: got 0"):
        TensorGroup.of(CHIP, 4, 0)

"""Terms of serving software by hand: exchange, lockstep of copies, windows kept whole, waves."""

from itertools import product

import numpy as np
import pytest

from netplan.inputs.choices import Exchange
from netplan.performance.serving.cases import (
    ServingSoftware,
    domain_levels,
    formats_of,
    serving_case,
)
from netplan.performance.serving.outcomes import (
    Requests,
    ServingCase,
    aggregated,
    busiest_start,
    decode_steps,
    finite_waves,
    lockstep_s,
)
from netplan.performance.serving.plans import ServingPlans
from netplan.performance.serving.server import model_pass
from netplan.performance.stacks import SERVING_STACKS, ServingStack
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.inference import Cut, Formats, ServingStep, cached_bytes, inference_layer
from netplan.workloads.models import MODELS

BARE = SERVING_STACKS.load("tensorrt-llm").changed(
    exchange="deepep", lockstep=0.0, sparse_step_s=0.0, window_cache="window"
)


def case(
    stack: ServingStack, model: str = "deepseek-r1", prompt: int = 1024, output: int = 512
) -> ServingCase:
    chip, served = ACCELERATORS.load("h200"), MODELS.load(model)
    formats = formats_of(chip, served, "fp8")
    levels = domain_levels(chip, 8)
    return serving_case(
        chip, served, levels, Requests(prompt, output), formats, ServingSoftware(stack)
    )


def one_plan(tensor: int, copies: int, expert: int, servers: int = 1) -> ServingPlans:
    return ServingPlans(*(np.array([size]) for size in (tensor, copies, expert, 1, servers)))


COPIES = one_plan(1, 8, 8)


def test_copies_gather_all_tokens_or_send_to_the_gpus_met() -> None:
    """8 copies of 16 rows of 7,168 numbers: 8 x 16 x 7,168 of a byte come, of two go back."""
    model, step = MODELS.load("deepseek-r1"), ServingStep("decode", 16.0, 1.0, 1024.0)
    formats = formats_of(ACCELERATORS.load("h200"), model, "fp8")
    choices: tuple[tuple[Exchange, list[str]], ...] = (
        ("gather", ["all_gather", "reduce_scatter"]),
        ("deepep", ["all_to_all", "all_to_all"]),
        ("mnnvl", ["all_to_all", "all_to_all"]),
    )
    for exchange, kinds in choices:
        parts = Formats(
            formats.attention, formats.feed_forward, formats.cache_bytes, exchange=exchange
        )
        layer = inference_layer(model, Cut.of(1, 8, 8), step, parts)
        (experts,) = [part for part in layer.operations if part.experts is not None]
        sent = [use for use in experts.forward.collectives if np.any(use.message_bytes)]
        assert [use.kind for use in sent] == kinds
        rows = 8 * 16 * 7168 if exchange == "gather" else 16 * 7168 * 8 * (1 - (7 / 8) ** 8)
        assert [float(np.ravel(use.message_bytes)[0]) for use in sent] == pytest.approx(
            [rows, 2 * rows]
        )


def test_layers_with_experts_take_host_time_in_every_step_of_decode() -> None:
    """58 of 61 layers: 58 x 20 us = 1.16 ms."""
    running = np.array([16.0])
    plain, slower = (
        decode_steps(case(stack), COPIES, running).step_s[0]
        for stack in (BARE, BARE.changed(sparse_step_s=20e-6))
    )
    assert slower - plain == pytest.approx(1.16e-3)


def test_windows_are_kept_whole_where_software_does_not_shrink_them() -> None:
    """gpt-oss-120b: 36 layers of 2,048 B a token, of which 18 keep 128 tokens or all 1,000."""
    model = MODELS.load("gpt-oss-120b")
    kept = [float(cached_bytes(model, Cut.of(1), 1000, 2.0, way)[0]) for way in ("window", "full")]
    assert kept == [18 * (1000 + 128) * 2048, 36 * 1000 * 2048]
    small, whole = (
        case(BARE.changed(window_cache=way), "gpt-oss-120b", 4000, 1000)
        for way in ("window", "full")
    )
    held = [served.held(one_plan(1, 1, 1)).request[0] for served in (small, whole)]
    assert held[1] / held[0] == pytest.approx(2 * 5000 / (5000 + 128))


@pytest.mark.parametrize("copies", [1, 3])
def test_the_busiest_copy_starts_what_all_ways_to_start_say(copies: int) -> None:
    """Every outcome of up to 8 prompts a copy, weighed by its Poisson probability."""
    mean, most = 0.7, 4
    share = np.exp(-mean) * np.cumprod([1.0, *(mean / k for k in range(1, 9))])
    expected = sum(
        np.prod([share[started] for started in outcome]) * min(max(outcome), most)
        for outcome in product(range(9), repeat=copies)
    )
    sizes = (np.array([mean]), np.array([float(most)]), np.array([float(copies)]))
    assert busiest_start(*sizes)[0] == pytest.approx(expected, rel=1e-4)


def test_copies_wait_for_the_busiest_by_hand() -> None:
    """B = 64, R = 512, P = 1,024, chunks of 8,192: l = 1/8, c = 8; E of 8 copies summed here."""
    served, running = case(BARE.changed(lockstep=0.25)), np.array([64.0])
    mean, below, busiest = 1 / 8, 0.0, 0.0
    share = np.exp(-mean)
    for k in range(8):
        below += share
        busiest += 1 - below**8
        share *= mean / (k + 1)
    assert busiest == pytest.approx(0.632 + 0.056 + 0.002, abs=1e-3)
    # One prompt at least is computed together; attention and dense parts of it alone.
    _, (plain, *_) = model_pass(served.served, COPIES, served.prompts(1.0), routed=False)
    expected = 0.25 * (busiest - mean) * plain
    assert lockstep_s(served, COPIES, running)[0] == pytest.approx(expected)
    still = [case(BARE), case(BARE.changed(lockstep=0.25, balance=True))]
    still.append(case(BARE.changed(lockstep=0.25), prompt=8192))
    assert [lockstep_s(other, COPIES, running)[0] for other in still] == [0.0] * 3
    assert lockstep_s(served, one_plan(8, 1, 8), running)[0] == 0.0
    slower, plainly = (aggregated(one, COPIES, 512.0).tpot_s[0] for one in (served, still[0]))
    assert slower - plainly == pytest.approx(expected)


def test_a_finite_number_of_requests_comes_in_waves_by_hand() -> None:
    """250 requests, 100 in flight: 2 T(100) + T(50)."""
    served = case(BARE)
    times = [aggregated(served, COPIES, count).request_s[0] for count in (100.0, 50.0)]
    found = finite_waves(served, COPIES, 250, 100)
    assert found.concurrency[0] == 100
    assert found.tokens_per_s[0] == pytest.approx(250 * 512 / (2 * times[0] + times[1]))
    few = finite_waves(served, COPIES, 7)
    assert few.tokens_per_s[0] == pytest.approx(7 * 512 / aggregated(served, COPIES, 7).request_s)
    # The room is exact, and of all servers.
    room = served.held(COPIES).room(served.room_bytes)[0]
    two = finite_waves(served, one_plan(1, 8, 8, servers=2), 1_000_000)
    assert two.concurrency[0] == 2 * 8 * room
    assert np.log2(room) % 1


def test_stacks_without_tables_have_the_terms_that_were_fitted_with_them() -> None:
    for name in ("vllm", "sglang", "tensorrt-llm", "typical-server"):
        stack = SERVING_STACKS.load(name)
        plain = stack.without_tables()
        assert stack.fitted is not None
        assert (plain.exchange, plain.lockstep, plain.sparse_step_s) == ("deepep", 0.0, 0.0)
        assert (plain.step_s, plain.burst) == (stack.fitted.step_s, stack.fitted.burst)
        given = stack.changed(step_s=1.0).without_tables({"step_s"})
        assert given.step_s == 1.0

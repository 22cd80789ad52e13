"""Servers and pools: host times by hand, and what must never make requests faster or slower."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.performance.serving.cases import (
    Drafts,
    ServingSoftware,
    domain_levels,
    formats_of,
    serving_case,
)
from netplan.performance.serving.disaggregated import Pools, disaggregated
from netplan.performance.serving.outcomes import (
    Requests,
    ServingCase,
    ServingResult,
    aggregated,
    decode_steps,
    prefills,
)
from netplan.performance.serving.plans import ServingPlans
from netplan.performance.serving.server import model_pass
from netplan.performance.stacks import SERVING_STACKS, ServingStack
from netplan.records import replace
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.models import MODELS

MODEL_NAMES = ("llama-3.1-8b", "deepseek-r1", "qwen3.5-397b-a17b", "gpt-oss-120b")
CHIPS = ("h100-80gb", "b200", "mi300x")
STACKS = ("typical-server", "vllm", "sglang", "tensorrt-llm", "no-host")
ALIKE = 1 - 1e-9
"""What counts as no less: sums in another order differ by this much."""


@cache
def stack(name: str) -> ServingStack:
    return SERVING_STACKS.load(name)


def served(
    model: str = "deepseek-r1",
    chip: Accelerator | str = "b200",
    *,
    prompt: int = 1024,
    output: int = 512,
    gpus: int = 64,
    software: ServingStack | str = "typical-server",
) -> ServingCase:
    chip = ACCELERATORS.load(chip) if isinstance(chip, str) else chip
    one = MODELS.load(model)
    software = stack(software) if isinstance(software, str) else software
    products = chip.measured.products if chip.measured else {}
    formats = formats_of(chip, one, "fp8" if "fp8" in products else "bf16")
    levels = domain_levels(chip, gpus)
    return serving_case(
        chip, one, levels, Requests(prompt, output), formats, ServingSoftware(software)
    )


def plans(model: str, tensor: int, copies: int, *, stages: int = 1, count: int = 1) -> ServingPlans:
    """One plan; experts lie apart."""
    sparse = MODELS.load(model).experts is not None
    copies = copies if sparse else 1
    degrees = (tensor, copies, tensor * copies if sparse else 1, stages, count)
    return ServingPlans(*(np.array([one]) for one in degrees))


def both(
    case: ServingCase, plan: ServingPlans, concurrency: float
) -> tuple[ServingResult, ServingResult]:
    """One pool for all, and two pools of this plan each."""
    return aggregated(case, plan, concurrency), disaggregated(case, Pools(plan, plan), concurrency)


@st.composite
def situations(draw: st.DrawFn) -> tuple[str, str, str, ServingPlans]:
    """Model, chip, stack and one plan."""
    model, chip = draw(st.sampled_from(MODEL_NAMES)), draw(st.sampled_from(CHIPS))
    tensor, copies = draw(st.sampled_from([(1, 1), (8, 1), (4, 2), (1, 8), (2, 16)]))
    stages, count = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 3]))
    software = draw(st.sampled_from(STACKS))
    return model, chip, software, plans(model, tensor, copies, stages=stages, count=count)


@settings(max_examples=4)
@given(situations(), st.integers(1, 20_000), st.integers(1, 20_000), st.integers(1, 600))
def test_a_longer_prompt_never_lowers_ttft(
    found: tuple[str, str, str, ServingPlans], short: int, more: int, concurrency: int
) -> None:
    model, chip, software, plan = found
    times = [
        both(served(model, chip, prompt=one, software=software), plan, concurrency)
        for one in (short, short + more)
    ]
    for less, longer in zip(*times, strict=True):
        assert longer.ttft_s[0] >= ALIKE * less.ttft_s[0]


@settings(max_examples=4)
@given(situations(), st.integers(1, 4096), st.floats(1, 2000), st.floats(1, 2000))
def test_more_requests_never_lower_tpot_nor_ttft(
    found: tuple[str, str, str, ServingPlans], prompt: int, few: float, more: float
) -> None:
    model, chip, software, plan = found
    case = served(model, chip, prompt=prompt, software=software)
    pairs = zip(both(case, plan, few), both(case, plan, few + more), strict=True)
    for fewer, all_of in pairs:
        assert all_of.tpot_s[0] >= ALIKE * fewer.tpot_s[0]
        assert all_of.ttft_s[0] >= ALIKE * fewer.ttft_s[0]


@settings(max_examples=4)
@given(situations(), st.integers(1, 4096), st.floats(1, 2000), st.integers(2, 4))
def test_more_servers_are_never_slower(
    found: tuple[str, str, str, ServingPlans], prompt: int, concurrency: float, times: int
) -> None:
    model, chip, software, plan = found
    case = served(model, chip, prompt=prompt, software=software)
    one = aggregated(case, plan, concurrency)
    several = aggregated(case, replace(plan, replicas=times * plan.replicas), concurrency)
    assert several.tpot_s[0] <= one.tpot_s[0] / ALIKE
    assert several.ttft_s[0] <= one.ttft_s[0] / ALIKE


@settings(max_examples=4)
@given(
    situations(),
    st.sampled_from(["hb_bytes_per_s", "network_bytes_per_s", "memory_bytes"]),
    st.floats(1, 2000),
)
def test_more_bandwidth_or_memory_is_never_slower(
    found: tuple[str, str, str, ServingPlans], what: str, concurrency: float
) -> None:
    model, name, software, plan = found
    chip = ACCELERATORS.load(name)
    wider = replace(chip, **{what: 2 * getattr(chip, what)})
    slow, fast = (
        aggregated(served(model, each, software=software), plan, concurrency)
        for each in (chip, wider)
    )
    if what == "memory_bytes":  # what has room no longer waits, and steps are fuller
        whole = [one.ttft_s + one.output * one.tpot_s for one in (slow, fast)]
        assert whole[1][0] <= whole[0][0] / ALIKE
        return
    assert fast.tpot_s[0] <= slow.tpot_s[0] / ALIKE
    assert fast.ttft_s[0] <= slow.ttft_s[0] / ALIKE


def test_host_times_of_one_pool_add_up_by_hand() -> None:
    """Kernels alone take what they take without a host; the stack's times come on top."""
    plan, requests = plans("deepseek-r1", 8, 1), 32.0
    bare = stack("no-host")
    host = replace(
        bare,
        step_s=2e-3,
        token_s=1e-5,
        prompt_s=0.1,
        sparse_layer_s=1e-3,
        chunk_tokens=256.0,
        burst=0.25,
        decode_wait=1.0,
    )
    case = served(software=host)
    found = aggregated(case, plan, requests)
    running = np.array([requests])
    kernels = decode_steps(served(software=bare), plan, running).step_s[0]
    prompt = prefills(case, plan, running)
    # 58 of 61 layers have experts; 1,024 tokens are 4 chunks of 256.
    step_s, launch_s, chunks = kernels + 2e-3 + 32 * 1e-5, 58e-3, 4
    each_s = prompt.each_s[0] + chunks * launch_s
    pause_s = launch_s + step_s
    assert found.tpot_s[0] == pytest.approx(step_s + 31 * each_s / 512)
    burst_s = 0.25 * 31 * (prompt.each_s[0] + chunks * pause_s)
    assert found.ttft_s[0] == pytest.approx(0.1 + prompt.latency_s[0] + chunks * pause_s + burst_s)
    assert sum(part[0] for part in found.parts.values()) == pytest.approx(found.tpot_s[0])
    assert sum(part[0] for part in found.prompt_parts.values()) == pytest.approx(found.ttft_s[0])


@pytest.mark.parametrize("stages", [2, 3, 4, 8])
def test_one_request_in_a_pipeline_takes_one_pass_through_it(stages: int) -> None:
    """Stages that wait for nobody do not wait for the fullest of them, as full pipelines do."""
    plan, case = plans("llama-3.1-8b", 2, 1, stages=stages), served("llama-3.1-8b")
    parts, stage_s = model_pass(case.served, plan, case.decodes(1.0))
    alone = decode_steps(case, plan, np.ones(1))
    assert alone.step_s[0] - alone.host_s[0] == pytest.approx(parts.seconds[0], rel=1e-12)
    full = decode_steps(case, plan, np.array([float(stages)]))
    assert full.step_s[0] - full.host_s[0] == pytest.approx(stages * stage_s[0], rel=1e-12)


def test_the_first_stage_drafts_beside_its_own_work_and_reads_every_prompt() -> None:
    one, chip = MODELS.load("llama-3.1-8b"), ACCELERATORS.load("b200")
    drafts = Drafts(one, formats_of(chip, one, "fp8"), window=4, acceptance=0.7)
    bare = served("llama-3.1-70b", prompt=256, software="no-host")
    software = ServingSoftware(stack("no-host"), drafts=drafts)
    case = serving_case(
        chip,
        bare.served.model,
        domain_levels(chip, 8),
        bare.requests,
        bare.served.formats,
        software,
    )
    plan, running, drafted = (
        plans("llama-3.1-70b", 2, 1, stages=4),
        np.array([64.0]),
        case.speculated,
    )
    assert drafted is not None
    checked = model_pass(case.served, plan, case.decodes(16.0, 5.0))[1][0]
    beside = drafted.drafted(plan, case.decodes(16.0)).seconds[0]
    step_s = decode_steps(case, plan, running).step_s[0]
    assert step_s * drafted.tokens == pytest.approx(4 * (checked + beside))
    # A chunk without end takes all 64 prompts at once.
    each = [prefills(some, plan, running).each_s[0] for some in (bare, case)]
    assert each[1] - each[0] == pytest.approx(drafted.prompt_s(plan, case.prompts(64.0))[0] / 64)


@pytest.mark.parametrize("stages", [1, 4])
def test_what_spills_is_read_slower_by_servers_of_both_kinds(stages: int) -> None:
    """By hand: all weights in every stage, caches of those decoded at once; 1 GB/s behind."""
    plain = ACCELERATORS.load("h100-80gb")
    chip = replace(plain, expanded_bytes=1e12, expanded_bytes_per_s=1e9)
    plan, requests = plans("llama-3.1-70b", 1, 1, stages=stages), 4096.0
    small, large = (
        served(
            "llama-3.1-70b",
            replace(one, memory_bytes=16e9, usable_bytes=0.0),
            software="no-host",
            output=8192,
        )
        for one in (plain, chip)
    )
    held = large.held(plan)
    for apart, found in enumerate(both(large, plan, requests)):
        running = found.in_flight
        weights = max(held.weights[0] - large.fast_bytes, 0.0)
        caches = held.of(running)[0] - large.fast_bytes - weights
        more_s = (stages * weights + caches) * (1e-9 - 1 / plain.memory_bytes_per_s)
        others_s = found.parts["prefill"][0]
        kernels_s = decode_steps(small, plan, running).step_s[0]
        assert running[0] >= stages
        assert caches > 0
        assert found.tpot_s[0] - others_s == pytest.approx(kernels_s + more_s), apart


def test_a_full_decode_pool_lets_in_what_ends_whatever_prompts_take() -> None:
    """By hand: of C requests in a loop K decode, for (R - 1) TPOT: TTFT is C/K - 1 times that."""
    plan, many = plans("deepseek-r1", 8, 1), 20_000.0
    for prompt in (1024, 2048):
        case = served(prompt=prompt)
        pools = Pools(*(replace(plan, replicas=np.array([count])) for count in (99, 2)))
        found = disaggregated(case, pools, many)
        slots = 2 * case.held(plan).room(case.room_bytes)[0]
        assert slots < many / 2
        assert found.in_flight[0] == slots / 2
        first_s = (many / slots - 1) * 511 * found.tpot_s[0]
        assert found.ttft_s[0] == pytest.approx(first_s)


def test_handing_a_cache_over_takes_what_the_stack_says() -> None:
    plan = plans("deepseek-r1", 8, 1)
    pools = Pools(plan, plan)
    quick, slow = (
        disaggregated(served(software=replace(stack("vllm"), transfer_s=one)), pools, 1.0)
        for one in (0.0, 0.25)
    )
    assert slow.ttft_s[0] - quick.ttft_s[0] == pytest.approx(0.25, rel=1e-2)
    assert slow.tpot_s[0] == pytest.approx(quick.tpot_s[0])

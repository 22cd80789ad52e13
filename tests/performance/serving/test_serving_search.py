"""The search against brute force: every plan, and every pair of pools, one by one in plain loops.

Which plans exist is said here once more, by its words in `netplan.performance.serving.plans`; what
one plan gives is asked of `aggregated` with this plan alone.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product
from math import inf

import numpy as np
import pytest

from netplan.errors import InfeasibleError
from netplan.performance.serving.cases import (
    ServingSoftware,
    domain_levels,
    formats_of,
    serving_case,
)
from netplan.performance.serving.disaggregated import SWEEP, Pools, disaggregated
from netplan.performance.serving.outcomes import (
    Goal,
    Requests,
    ServingCase,
    ServingResult,
    aggregated,
)
from netplan.performance.serving.plans import ServingPlans
from netplan.performance.serving.serving_search import best_servers
from netplan.performance.stacks import SERVING_STACKS
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS
from tests.turns import one_in

Plan = tuple[int, int, int, int, int]
"""Tensor, attention-data, expert, pipeline, replicas."""
Row = tuple[float, float, float, Plan, int]
"""Tokens a second, TPOT, TTFT, plan, requests."""


@cache
def case(model: str, gpus: int, domain: int, prompt: int = 2048, output: int = 128) -> ServingCase:
    chip = ACCELERATORS.load("h100-80gb").changed(hb_size=domain)
    one = MODELS.load(model)
    return serving_case(
        chip,
        one,
        domain_levels(chip, gpus),
        Requests(prompt, output),
        formats_of(chip, one, "fp8"),
        ServingSoftware(SERVING_STACKS.load("typical-server")),
    )


def dividing(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]


def places(tensor: int, copies: int, pipeline: int, domain: int) -> int:
    """GPUs that a server keeps others from: whole domains, or a divisor of one, for each stage."""
    inside = max(one for one in dividing(tensor) if one <= domain)
    inside *= max(one for one in dividing(copies) if one <= domain // inside)
    room = min(one for one in dividing(domain) if one >= inside)
    return tensor * copies // inside * room * pipeline


def shapes(model: str, gpus: int, domain: int) -> Iterator[tuple[Plan, int]]:
    """Every server with the GPUs that it keeps, and in the plan as many as there is room for."""
    one = MODELS.load(model)
    powers = {1, 2, 4, 8, 16}
    usual = powers | {3, 6} | {*(dividing(domain) if gpus > domain else ())}
    tensors = usual | {degree for degree in dividing(one.heads) if degree <= domain}
    whole = range(1, gpus + 1)
    for tensor, copies, pipeline in product(whole, usual if one.experts else [1], whole):
        known = tensor in tensors and tensor <= one.heads and pipeline in powers | {3, 5, 6, 7}
        server = tensor * copies * pipeline
        taken = places(tensor, copies, pipeline, domain) if gpus > domain else server
        if not known or pipeline > one.layers or taken > gpus or server > gpus:
            continue
        for expert in dividing(tensor * copies) if one.experts else [1]:
            if one.experts is None or expert <= one.experts.count:
                yield (tensor, copies, expert, pipeline, gpus // taken), taken


def plans_of(rows: list[Plan]) -> ServingPlans:
    return ServingPlans(*np.array(rows, dtype=np.int64).T)


def front_of(rows: list[Row]) -> list[tuple[float, float]]:
    """What no other row beats in both, by rising time, none within a hundredth of a better one."""
    kept: list[tuple[float, float]] = []
    for rate, tpot, *_ in sorted(rows, key=lambda row: (-row[0], row[1])):
        if not kept or tpot < 0.99 * kept[-1][0]:
            kept.append((tpot, rate))
    return kept[::-1]


def requests_of(goal: Goal, plan: Plan, room: float) -> list[int]:
    """Requests in the whole cluster that are tried."""
    if goal.concurrency:
        return [goal.concurrency]
    if goal.batch:
        return [goal.batch * plan[4]]
    each = [*range(1, 8)] + [
        2**power * quarter // 4 for power in range(3, 19) for quarter in (4, 5, 6, 7)
    ]
    most = max(room * plan[1], plan[1])  # a copy without a request is idle
    least = min(one for one in each if one >= plan[1])
    return [one * plan[4] for one in each if one == least or plan[1] <= one <= most]


def met(goal: Goal, found: ServingResult, at: int = 0) -> bool:
    return (
        bool(found.fits[at])
        and found.ttft_s[at] <= (goal.ttft_s or inf)
        and found.tpot_s[at] <= (goal.tpot_s or inf)
    )


GOALS = [
    Goal(concurrency=24),
    Goal(batch=5),
    Goal(concurrency=24, ttft_s=0.4, tpot_s=0.012),
    Goal(batch=40, tpot_s=0.015),
]


@pytest.mark.parametrize(
    ("goal", "model", "gpus", "domain"),
    one_in(
        2,
        (
            (goal, *served)
            for served in (("llama-3-8b", 12, 8), ("llama-3-8b", 13, 4), ("qwen3-30b-a3b", 6, 4))
            for goal in GOALS
        ),
    ),
    ids=repr,
)
def test_the_search_finds_what_brute_force_finds(
    goal: Goal, model: str, gpus: int, domain: int
) -> None:
    compare(case(model, gpus, domain), model, gpus, domain, goal)


@pytest.mark.parametrize(
    ("model", "gpus", "goal"), [("llama-3-8b", 2, Goal()), ("gpt-oss-20b", 1, Goal(tpot_s=0.05))]
)
def test_all_numbers_of_requests_are_tried(model: str, gpus: int, goal: Goal) -> None:
    compare(case(model, gpus, gpus, 120_000), model, gpus, gpus, goal)


def compare(served: ServingCase, model: str, gpus: int, domain: int, goal: Goal) -> None:
    """Ranking, best plan and front of the search, and of rows one by one."""
    rows: list[Row] = []
    tried = 0
    for plan, _ in shapes(model, gpus, domain):
        one = plans_of([plan])
        room = float(served.held(one).room(served.room_bytes)[0])
        for requests in requests_of(goal, plan, room):
            found, tried = aggregated(served, one, requests), tried + 1
            if met(goal, found):
                times_s = float(found.tpot_s[0]), float(found.ttft_s[0])
                rows.append((float(found.tokens_per_s[0]), *times_s, plan, requests))
    assert rows
    result = best_servers(served, gpus, {}, goal)
    assert (result.enumerated, result.feasible) == (tried, len(rows))
    best: dict[Plan, Row] = {}
    for row in sorted(rows, key=lambda row: (-row[0], row[1], row[2])):
        best.setdefault(row[3], row)
    ranked = result.ranked
    assert ranked.tokens_per_s == pytest.approx([row[0] for row in best.values()], rel=1e-12)
    found_plans = ranked.plans
    listed = zip(
        *(getattr(found_plans, name).tolist() for name in found_plans.__struct_fields__),
        strict=True,
    )
    by_plan = dict(zip(listed, ranked.tpot_s.tolist(), strict=True))
    assert by_plan == pytest.approx({plan: row[1] for plan, row in best.items()}, rel=1e-12)
    times_s, rates = zip(*front_of(rows), strict=True)
    assert result.front.tpot_s == pytest.approx(times_s, rel=1e-12)
    assert result.front.tokens_per_s == pytest.approx(rates, rel=1e-12)


POOL_GOALS = [
    Goal(concurrency=20),
    Goal(batch=3),
    Goal(),
    Goal(concurrency=20, ttft_s=0.35),
    Goal(ttft_s=0.5, tpot_s=0.01),
]


@pytest.mark.parametrize(
    ("goal", "model", "gpus", "domain", "prompt", "output"),
    one_in(
        2,
        (
            (goal, *served)
            for served in (
                ("llama-3-8b", 12, 8, 2048, 128),
                ("llama-3-8b", 7, 4, 30_000, 16),
                ("qwen3-30b-a3b", 8, 4, 2048, 128),
                ("llama-3-8b", 6, 2, 2048, 1),
            )
            for goal in POOL_GOALS
        ),
    ),
    ids=repr,
)
def test_no_pair_of_pools_beats_those_that_are_timed(
    goal: Goal, model: str, gpus: int, domain: int, prompt: int, output: int
) -> None:
    served = case(model, gpus, domain, prompt, output)
    servers = [*shapes(model, gpus, domain)]
    room = served.held(plans_of([plan for plan, _ in servers])).room(served.room_bytes)
    pairs = []
    for ((one, taken), (other, more)), most in zip(
        product(servers, repeat=2), np.tile(room, len(servers)), strict=True
    ):
        for number in range(1, gpus):
            count = (gpus - number * taken) // more
            if count < 1:
                continue
            swept = [level * other[1] * count for level in SWEEP if level <= max(most, 1)]
            given = [goal.concurrency or (goal.batch or 0) * count]
            pair = (*one[:4], number), (*other[:4], count)
            pairs += [(*pair, requests) for requests in (given if any(given) else swept)]
    prompts, decoders, requests = zip(*pairs, strict=True)
    whole = disaggregated(
        served, Pools(plans_of([*prompts]), plans_of([*decoders])), np.array(requests, dtype=float)
    )
    keep = [met(goal, whole, at) for at in range(len(pairs))]
    if not any(keep):
        with pytest.raises(InfeasibleError, match="the nearest"):
            best_servers(served, gpus, {}, goal, apart=True)
        return
    result = best_servers(served, gpus, {}, goal, apart=True)
    assert result.feasible <= result.enumerated <= len(pairs)
    assert result.ranked.tokens_per_s[0] == pytest.approx(whole.tokens_per_s[keep].max(), rel=1e-12)
    # Of the front the end of the most tokens, and nothing that could not be.
    front = result.front
    for tpot_s, rate in zip(front.tpot_s, front.tokens_per_s, strict=True):
        near = np.isclose(whole.tpot_s, tpot_s, rtol=1e-9) & keep
        assert np.isclose(whole.tokens_per_s[near], rate, rtol=1e-9).any()


def test_the_nearest_pools_fit_side_by_side() -> None:
    """The 64 fastest pairs of eight servers a pool need more than 16 GPUs."""
    goal, fixed = Goal(concurrency=8, tpot_s=1e-6), {"replicas": 8}
    with pytest.raises(InfeasibleError, match=r"the nearest \(tensor 1, pipeline 1"):
        best_servers(case("llama-3-8b", 16, 16), 16, fixed, goal, apart=True)


def test_more_copies_of_attention_than_requests_that_fit_elsewhere() -> None:
    """A server on all of four million GPUs: each copy has one request at least."""
    gpus, fixed = 4_194_304, {"attention_data": 4_194_304, "expert": 128}
    found = best_servers(case("qwen3-30b-a3b", gpus, 8), gpus, fixed, Goal())
    assert found.ranked.concurrency.min() >= gpus

"""The free space of plans on nested sizes: what has more room never trains slower."""

from itertools import product
from math import inf, prod

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netplan.inputs.choices import Strategy
from netplan.levels import Level, Tier
from netplan.performance.plan import PlanTime, SearchResult
from netplan.performance.search import PlanSearch, search_plans
from netplan.performance.setting import Fixed, Options, Setting, TrainedModel
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import MIN_GPUS, Sizing
from netplan.topologies.specs import FABRICS
from netplan.traffic.placement import Placement
from tests.performance.cases import FOURD, small_model
from tests.performance.test_free_space import free, random_case


@settings(deadline=None, max_examples=24)
@given(seed=st.integers(0, 10**6), batch=st.integers(1, 128))
def test_an_odd_batch_is_never_slower_than_the_next_power_of_two(seed: int, batch: int) -> None:
    """Of dense models: of 16 sequences four GPUs that share experts may take four, of 13 not."""
    setting, levels = random_case(seed)
    assume(not setting.variant.sparse)
    training = replace(setting.training, model=small_model(sequence_length=64))
    times = []
    for sequences in (batch, 1 << (batch - 1).bit_length()):
        search = PlanSearch(replace(training, batch=sequences), "1d", options=setting.options)
        found = search.best_on_subset(levels)
        times.append(found.plans[0].iteration_time_s if isinstance(found, SearchResult) else inf)
    assert times[0] <= times[1] * (1 + 1e-11)


def best(training: TrainedModel, setting: Setting, levels: tuple[Level, ...]) -> PlanTime | None:
    search = PlanSearch(training, setting.strategy, options=setting.options)
    found = search.best_on_subset(levels)
    return found.plans[0] if isinstance(found, SearchResult) else None


def seconds_of(plan: PlanTime | None) -> float:
    return inf if plan is None else plan.iteration_time_s


def network(domains: int, leaf: int, slow: float, *, rails: bool) -> tuple[Level, Level]:
    """Domains of four, and leaves of one uplink that so many of them fill; none of 0."""
    tiers: tuple[Tier, ...] = ()
    if leaf:
        width = leaf if rails else 4 * leaf
        tiers = (Tier((4 * domains, 4 * domains // width), 1, 4, domains, by_rank=rails),)
    return (
        Level("switch", 4, 900e9, step_latency_s=1e-6),
        Level("switch", domains, slow, step_latency_s=5e-6, tiers=tiers),
    )


@settings(deadline=None, max_examples=32)
@given(
    seed=st.integers(0, 10**6),
    leaf=st.integers(0, 3),
    rails=st.booleans(),
    domains=st.integers(1, 12),
    more=st.integers(1, 12),
    batch=st.integers(1, 64),
    slow=st.sampled_from([1e7, 1e9, 100e9]),
)
def test_more_domains_never_train_slower(  # noqa: PLR0913 - a case
    *, seed: int, leaf: int, rails: bool, domains: int, more: int, batch: int, slow: float
) -> None:
    """Where leaves do not block, or whole domains fill them, and layers lie in one domain."""
    setting, _ = random_case(seed)
    training = replace(setting.training, batch=batch)
    if leaf:
        assume(not setting.variant.sparse)
        inside = replace(setting.options, fixed=Fixed(tensor=1, context=1))
        setting = replace(setting, options=inside)
    times = []
    for leaves in (domains, domains + more):
        levels = network(leaves * max(leaf, 1), leaf, slow, rails=rails)
        times.append(seconds_of(best(training, setting, levels)))
    assert times[1] <= times[0] * (1 + 1e-11)


def can_be_placed(plan: Placement, inner: int, outer: int) -> bool:
    """Whether parts of the outer degrees can move inside, on levels of these sizes."""
    inside, outside = plan.levels
    moved = product(*([part for part in range(1, n + 1) if n % part == 0] for n in outside))
    return any(
        prod(inside) * prod(parts) <= inner and prod(outside) // prod(parts) <= outer
        for parts in moved
    )


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    fabric=st.sampled_from(["rail-optimized", "fat-tree", "rail-only"]),
    radix=st.sampled_from([8, 12, 16]),
    hb_size=st.integers(1, 6),
    times=st.sampled_from([2, 3, 4, 5]),
    domains=st.integers(1, 6),
    batch=st.integers(1, 64),
)
def test_larger_domains_never_train_slower(  # noqa: PLR0913 - a case
    *, seed: int, fabric: str, radix: int, hb_size: int, times: int, domains: int, batch: int
) -> None:
    """Wherever they have room for the degrees of the best plan on smaller ones.

    They need not: 27 domains of 5 GPUs hold 65 replicas of two, 9 domains of 15 hold 63.
    """
    gpus = hb_size * times * domains
    assume(gpus >= MIN_GPUS)
    setting, _ = random_case(seed)
    training = replace(setting.training, batch=batch)
    # One phase in each level has one latency more as soon as it has two levels.
    phased = setting.assumptions.communication.used.schedule != "flat_ring"
    plans = []
    for size in (hb_size, hb_size * times):
        spec, one = FABRICS.load(fabric), Sizing(gpus, radix, size, 450e9, 50e9)
        one = replace(one, hb_latency_s=0 if phased else 1e-6, network_latency_s=5e-6)
        levels = build_fabric(spec, one).levels
        assert [(level.size, level.tiers) for level in levels] == [(size, ()), (gpus // size, ())]
        plans.append(best(training, setting, levels))
    before, after = plans
    if before and can_be_placed(before.plan.placement, hb_size * times, domains):
        assert seconds_of(after) <= before.iteration_time_s * (1 + 1e-11)


def test_as_few_replicas_in_a_domain_as_the_rounds_need() -> None:
    """A ring of 36 takes fewer steps than one of 54: not all that have room lie in a domain."""
    training = TrainedModel(small_model(batch=64), 64, 1e13, inf, free(FOURD), 1e12, 8e12)
    domain = Level("switch", 27, 900e9, step_latency_s=2.5e-6)
    levels = domain, Level("switch", 2, 100e9, step_latency_s=5e-6)
    fixed = Options(fixed=Fixed(tensor=1, pipeline=1, microbatch=2))
    plan = search_plans(training, levels, options=fixed).plans[0].plan
    assert [level.data for level in plan.placement.levels] == [16, 2]


@pytest.mark.parametrize("strategy", ["1d", "2d", "summa"])
def test_plans_that_divide_are_among_the_free_ones(strategy: Strategy) -> None:
    compared = 0
    for seed in range(120):
        setting, levels = random_case(seed)
        if setting.variant.sparse or setting.assumptions.name == "ptd-p":
            continue
        options = replace(setting.options, interleave="any")
        exact = replace(
            setting.training.assumptions,
            space=replace(setting.training.assumptions.space, divisibility="exact"),
        )
        search = PlanSearch(replace(setting.training, assumptions=exact), strategy, options=options)
        found = search.best_on_subset(levels)
        if not isinstance(found, SearchResult):
            continue
        best = search_plans(setting.training, levels, strategy=strategy, options=options).plans[0]
        assert best.iteration_time_s <= found.plans[0].iteration_time_s * (1 + 1e-12)
        compared += found.levels == levels
    assert compared > 12

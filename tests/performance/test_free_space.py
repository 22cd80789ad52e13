"""The free space of plans: every plan counted one by one, nested sizes, published uneven runs."""

import random
from collections.abc import Iterator
from itertools import product
from math import ceil, inf, prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netplan.errors import InfeasibleError, NoPlanError
from netplan.levels import Level, LevelKind, Tier
from netplan.performance.evaluation import Evaluation
from netplan.performance.explain import plan_terms
from netplan.performance.free_search import best_free_plans
from netplan.performance.iteration_model import IterationModel
from netplan.performance.plan import Plan, PlanTime, SearchResult
from netplan.performance.search import PlanSearch, evaluate_plan, search_plans
from netplan.performance.setting import Fixed, Options, Setting, Training
from netplan.performance.space import listed_plans
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import MIN_GPUS, Sizing
from netplan.topologies.specs import FABRICS
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.closed_forms import iteration_flops
from netplan.workloads.models import Model
from netplan.workloads.operations import Strategy, Variant
from netplan.workloads.program import Zero, dealt, stage_layers
from tests.performance.cases import FOURD, PTDP, Row, read, small_model

Way = tuple[tuple[tuple[int, ...], ...], int, int, int, int]
"""Degrees by level, microbatch, microbatches, interleaving, panels."""


def free(assumptions: IterationModel, **overlap: object) -> IterationModel:
    space = replace(assumptions.space, divisibility="free", smallest_block=16)
    return replace(assumptions, space=space, overlap=replace(assumptions.overlap, **overlap))


def random_model(draw: random.Random) -> Model:
    return small_model(
        hidden_size=draw.choice([96, 128]),
        heads=draw.choice([4, 8]),
        layers=draw.choice([2, 3, 5, 7]),
        sequence_length=draw.choice([64, 96]),
        vocabulary=draw.choice([64, 20_000]),
    )


def random_case(seed: int) -> tuple[Setting, tuple[Level, ...]]:
    """A small setting of any kind, with little memory, and levels of any kind."""
    draw = random.Random(seed)  # noqa: S311 - test cases, no secrets
    batch = draw.choice([1, 5, 6, 12, 24])
    ends = draw.choice([False, True])
    experts = draw.choice([1, 1, 1, 4])
    base = draw.choice([FOURD, FOURD, PTDP])
    if base is PTDP:
        ends, experts = False, 1
    variant = Variant(
        draw.choice(["selective", "full"]), experts, min(2, experts), embedding=ends, lm_head=ends
    )
    assumptions = free(
        base,
        hop=draw.choice(["mean", "slowest"]),
        data=draw.choice(["overlapped", "exposed"]),
        in_flight=draw.choice(["1f1b", "interleaved", "plain"]),
        interleaved_bubble="scheduled" if seed % 3 else "ideal",
    )
    strategy = "1d" if base is PTDP else draw.choice(["1d", "1d", "2d", "summa"])
    if experts > 1 and strategy == "summa":
        strategy = "1d"
    options = Options(
        variant,
        draw.choice([0, 1, 2, 3]),
        draw.choice(["none", "any", "whole"]),
    )
    sizes = draw.choice([(4, 3), (3, 5), (6,), (2, 7), (2, 3, 4), (2, 5, 1), (1, 7)])
    known: tuple[LevelKind, ...] = ("switch", "ring", "line", "mesh")
    kinds: list[LevelKind] = ["switch", *(draw.choice(known) for _ in sizes)]
    rates = (900e9, *(draw.choice([1e8, 100e9]) for _ in sizes))
    levels = tuple(
        Level(kind, size, rate, step_latency_s=draw.choice([0.0, 5e-6]))
        for kind, size, rate in zip(kinds, sizes, rates, strict=False)
    )
    if levels[-1].kind == "switch" and levels[-1].size > 2 and seed % 2:
        # Leaves that block, and cut HB domains anywhere.
        ranks = prod(level.size for level in levels[:-1])
        ports = ranks * levels[-1].size
        leaf = Tier((ports, 2 + seed % (ports // 2)), 1, ranks, levels[-1].size)
        levels = (*levels[:-1], replace(levels[-1], tiers=(leaf,)))
    memory = draw.choice([inf, inf, 1e6, 2e6, 4e6])
    rate = draw.choice([1e11, 1e15])
    training = Training(random_model(draw), batch, rate, memory, assumptions, rate / 8, 8e12)
    return Setting(training, strategy, options=options), levels  # type: ignore[arg-type]


def divides(number: int, *parts: int) -> bool:
    return all(number % part == 0 for part in parts)


def cuts(setting: Setting, sizes: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Tensor, context, expert and pipeline degrees at every level, one by one."""
    model, sparse = setting.transformer, setting.variant.experts
    limit = model.heads if setting.assumptions.space.tensor == "heads" else model.sequence_length
    block = setting.assumptions.space.smallest_block
    width = model.hidden_size * (3 if setting.strategy == "1d" else 1)

    def ways(size: int) -> list[tuple[int, ...]]:
        contexts = range(1, size + 1) if setting.strategy != "1d" else [1]
        every = product(range(1, size + 1), contexts, range(1, size + 1), range(1, size + 1))
        return [way for way in every if prod(way) <= size]

    for levels in product(*(ways(size) for size in sizes)):
        tensor, context, expert, stages = (prod(one) for one in zip(*levels, strict=True))
        if not divides(limit, tensor) or not divides(model.hidden_size, tensor):
            continue
        if tensor > width // block or (setting.strategy == "1d" and context > 1):
            continue
        if context > 1 and context > model.sequence_length // block:
            continue
        if setting.strategy == "summa" and not divides(model.hidden_size, context):
            continue
        if divides(sparse, expert) and stages <= model.layers:
            yield levels


def panels_of(setting: Setting, tensor: int, context: int) -> list[int]:
    if setting.strategy != "summa":
        return [1]
    width, fewest = setting.transformer.hidden_size, max(tensor, context)
    smallest = setting.assumptions.space.smallest_panel
    if width / fewest < smallest:
        return [fewest]
    found, number = [], fewest
    while number < width:
        if divides(width, number) and width // number >= smallest:
            found.append(number)
        number *= 2
    return found


def chunks(setting: Setting, stages: int, microbatches: int) -> Iterator[int]:
    """Numbers of interleaved chunks that the rules allow."""
    fullest = ceil(setting.transformer.layers / stages)
    for interleave in range(1, fullest + 1):
        plain = interleave == 1
        whole = stages > 1 and divides(microbatches, stages)
        rule = {"none": plain, "any": True, "whole": plain or whole}
        if divides(fullest, interleave) and rule[setting.interleave]:
            yield interleave


def every_plan(setting: Setting, sizes: tuple[int, ...]) -> Iterator[Way]:
    """All plans of the free space as its module describes it, none left out.

    More stages than hold the same layers are here too: the search leaves them out.
    """
    batch, model = setting.training.batch, setting.transformer
    outer = max((at for at, size in enumerate(sizes) if size > 1), default=0)
    beyond = [1] * (len(sizes) - outer - 1)
    for levels in cuts(setting, sizes):
        below = list(zip(sizes[:outer], levels[:outer], strict=True))
        tensor, context, expert, stages = (prod(one) for one in zip(*levels, strict=True))
        room = sizes[outer] // prod(levels[outer])
        unit = context if setting.strategy == "summa" else tensor * context
        for microbatch in range(1, batch + 1):
            power = microbatch & (microbatch - 1) == 0
            if not (divides(batch, microbatch) or power) or microbatch * expert > batch:
                continue
            if not divides(microbatch * model.sequence_length, unit):
                continue
            rounds = ceil(batch / (microbatch * expert))
            for inside in fillings([size // prod(cut) for size, cut in below]):
                most = (2 * rounds - 1) // prod(inside)
                for outside in range(1, min(room, most) + 1):
                    microbatches = ceil(rounds / (prod(inside) * outside))
                    replicas = zip(levels, (*inside, outside, *beyond), strict=True)
                    place = [(*cut[:3], here, cut[3]) for cut, here in replicas]
                    for interleave in chunks(setting, stages, microbatches):
                        for panels in panels_of(setting, tensor, context):
                            yield tuple(place), microbatch, microbatches, interleave, panels


def fillings(room: list[int]) -> Iterator[list[int]]:
    """Replicas at the levels inside the outermost, which fill one before they take the next."""
    full: list[int] = []
    yield [1] * len(room)
    for at, here in enumerate(room):
        rest = [1] * (len(room) - at - 1)
        yield from ([*full, number, *rest] for number in range(2, here + 1))
        full.append(here)


def timed(
    setting: Setting, levels: tuple[Level, ...], ways: list[Way]
) -> list[tuple[float, float]]:
    """Seconds and bytes of every plan."""
    sizes = tuple(level.size for level in levels)
    plans = [
        Plan(Placement(tuple(Degrees(*one) for one in place), sizes), b, m, v, panels)
        for place, b, m, v, panels in ways
    ]
    space, each = listed_plans(plans), np.arange(len(plans))
    evaluation = Evaluation.of(setting, levels, space)
    seconds = evaluation.found.terms.seconds(each, each, each)
    return list(zip(seconds.tolist(), evaluation.found.memory.total.tolist(), strict=True))


def test_the_search_finds_the_best_of_all_plans() -> None:
    """Against every plan one by one: exactly the best time, and none where none fits."""
    plans, tight, alone = 0, 0, 0
    # The named ones need a number of stages that others hold as much with fewer of.
    for seed in (*range(250), 1083, 1944, 3028, 3224, 3425, 4217):
        setting, levels = random_case(seed)
        ways = list(every_plan(setting, tuple(level.size for level in levels)))
        both = timed(setting, levels, ways)
        room = setting.training.memory_bytes
        fitting = sorted(seconds for seconds, held in both if held <= room)
        plans += len(ways)
        try:
            found = search_plans(
                setting.training, levels, strategy=setting.strategy, options=setting.options, top=3
            )
        except InfeasibleError:
            assert not fitting, seed
            if ways and setting.interleave != "whole":
                least = best_free_plans(setting, levels, 1).least_bytes
                assert least == pytest.approx(min(held for _, held in both), rel=1e-12), seed
            alone += 1
            continue
        best = found.plans[0]
        assert best.iteration_time_s == pytest.approx(fitting[0], rel=1e-12), seed
        assert best.memory_bytes <= room
        tight += len(fitting) < len(ways)
        seconds = [one.iteration_time_s for one in found.plans]
        assert seconds == sorted(seconds)
        assert all(min(abs(time - other) for other in fitting) < 1e-9 * time for time in seconds)
    assert plans > 50_000
    assert min(tight, alone) > 5


def test_the_search_finds_the_best_of_interleaved_plans() -> None:
    """Where the fewest microbatches starve the stages, more of them add less than their layers."""
    starved, more = 0, 0
    for seed in range(160):
        draw = random.Random(seed)  # noqa: S311 - test cases, no secrets
        stages, interleave = draw.choice([(2, 2), (2, 4), (3, 2), (4, 2), (4, 3)])
        model = small_model(hidden_size=96, layers=stages * interleave)
        batch, rate = draw.choice([5, 8, 12]), draw.choice([1e12, 1e14])
        assumptions = free(FOURD, data=draw.choice(["overlapped", "exposed"]))
        training = Training(model, batch, rate, inf, assumptions, rate / 8, 8e12)
        slow = 10 ** draw.uniform(5, 9)
        levels = Level("switch", stages, 9e11), Level("switch", draw.choice([3, 4, 8]), slow)
        fixed = Fixed(pipeline=stages, interleave=interleave)
        setting = Setting(training, options=Options(interleave="any", fixed=fixed))
        sizes = tuple(level.size for level in levels)
        ways = [
            way
            for way in every_plan(setting, sizes)
            if prod(level[-1] for level in way[0]) == stages and way[3] == interleave
        ]
        seconds = [time for time, _ in timed(setting, levels, ways)]
        best = search_plans(training, levels, options=setting.options).plans[0]
        assert best.iteration_time_s == pytest.approx(min(seconds), rel=1e-12), seed
        starved += best.plan.microbatches < stages
        more += best.plan.microbatches > min(way[2] for way in ways)
    assert min(starved, more) > 20


def test_more_replicas_than_fit_and_more_stages_than_layers_are_none() -> None:
    training = Training(small_model(), 16, 1e15, inf, free(FOURD), 1e14, 8e12)
    levels = Level("switch", 4, 900e9), Level("switch", 4, 100e9)
    for fixed in (Fixed(data=17), Fixed(pipeline=5), Fixed(tensor=3), Fixed(microbatch=17)):
        with pytest.raises(InfeasibleError, match="free one of them"):
            search_plans(training, levels, options=Options(fixed=fixed))


def test_degrees_that_fit_on_no_level_are_no_plan() -> None:
    """Eight GPUs of nine: a level of three has room for two of each, four together."""
    training = Training(small_model(), 16, 1e15, inf, free(FOURD), 1e14, 8e12)
    levels = Level("switch", 3, 9e11), Level("switch", 3, 1e11), Level("switch", 1, 1e11)
    with pytest.raises(InfeasibleError, match="has tensor 8: free one of them"):
        search_plans(training, levels, options=Options(fixed=Fixed(tensor=8)))


def test_degrees_that_fit_on_no_level_are_no_plan_for_given_replicas_either() -> None:
    training = Training(small_model(), 16, 1e15, inf, free(FOURD), 1e14, 8e12)
    levels = tuple(Level("switch", size, 1e11) for size in (2, 4, 4))
    for fixed in (Fixed(data=7), Fixed(data=2, pipeline=3, tensor=6)):
        with pytest.raises(NoPlanError, match=r"data .*: free one of them"):
            search_plans(training, levels, options=Options(fixed=fixed))


def test_whole_groups_that_no_replicas_make_are_no_plan() -> None:
    """Three replicas of 13 sequences have five microbatches, no whole groups of four stages."""
    training = Training(small_model(layers=8), 13, 1e15, 1e12, free(FOURD), 1e14, 8e12)
    levels = Level("switch", 8, 900e9), Level("switch", 8, 100e9)
    fixed = Fixed(data=3, pipeline=4, interleave=2, microbatch=1)
    with pytest.raises(NoPlanError, match=r"interleave 2: free one of them"):
        search_plans(training, levels, options=Options(interleave="whole", fixed=fixed))


@pytest.mark.parametrize("fixed", [Fixed(data=3), Fixed(data=6, tensor=2), Fixed(pipeline=3)])
def test_given_degrees_are_those_of_the_best_plan_that_has_them(fixed: Fixed) -> None:
    training = Training(small_model(batch=24), 24, 1e13, inf, free(FOURD), 1e12, 8e12)
    levels = (
        Level("switch", 4, 900e9, step_latency_s=2e-6),
        Level("switch", 5, 100e9, step_latency_s=5e-6),
    )
    setting = Setting(training)
    found = search_plans(training, levels, options=Options(fixed=fixed)).plans[0]
    assert all(getattr(found.plan, name) == value for name, value in fixed.given.items())
    # Among all plans, as many replicas as fit in a domain; fewer may be asked for.
    ways = list(every_plan(replace(setting, options=Options(fixed=fixed)), (4, 5)))
    seconds = [seconds for seconds, _ in timed(setting, levels, ways)]
    wanted = [
        time
        for way, time in zip(ways, seconds, strict=True)
        if all(
            prod(level[Degrees._fields.index(name)] for level in way[0]) == value
            for name, value in fixed.given.items()
        )
    ]
    assert wanted
    assert found.iteration_time_s <= min(wanted) * (1 + 1e-12)


@pytest.mark.parametrize("domains", [1, 2, 3])
def test_a_given_microbatch_leaves_replicas_of_a_domain_out_that_have_no_round(
    domains: int,
) -> None:
    """Twelve sequences are six rounds of two: six replicas in a domain of eight, not eight."""
    training = Training(small_model(batch=12), 12, 1e13, inf, free(FOURD), 1e12, 8e12)
    levels = Level("switch", 8, 900e9), Level("switch", domains, 1e6)
    fixed = Fixed(tensor=1, pipeline=1, microbatch=2)
    plan = search_plans(training, levels, options=Options(fixed=fixed)).plans[0].plan
    assert (plan.data, plan.microbatch, plan.microbatches) == (6, 2, 1)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6), batch=st.integers(1, 128))
def test_an_odd_batch_is_never_slower_than_the_next_power_of_two(seed: int, batch: int) -> None:
    """Of dense models: of 16 sequences four GPUs that share experts may take four, of 13 not."""
    setting, levels = random_case(seed)
    assume(not setting.variant.sparse)
    training = replace(setting.training, model=small_model(sequence_length=64))
    times = []
    for sequences in (batch, 1 << (batch - 1).bit_length()):
        search = PlanSearch(replace(training, batch=sequences), "1d", options=setting.options)
        found = search.on(levels)
        times.append(found.plans[0].iteration_time_s if isinstance(found, SearchResult) else inf)
    assert times[0] <= times[1] * (1 + 1e-11)


def test_a_microbatch_that_does_not_divide_leaves_the_last_one_partly_empty() -> None:
    """Sixteen sequences are six microbatches of three, on two replicas three each."""
    training = Training(small_model(batch=16), 16, 1e13, inf, free(FOURD), 1e12, 8e12)
    levels = Level("switch", 1, 900e9), Level("switch", 2, 1e9)
    fixed = Fixed(tensor=1, pipeline=1, data=2, microbatch=3)
    found = search_plans(training, levels, options=Options(fixed=fixed))
    best = found.plans[0]
    assert (best.plan.microbatches, best.plan.microbatch) == (3, 3)
    even = search_plans(replace(training, batch=18), levels, options=Options(fixed=fixed)).plans[0]
    assert best.iteration_time_s == even.iteration_time_s
    assert best.mfu == pytest.approx(even.mfu * 16 / 18)
    assert found.settings[0].microbatches(3, best.plan.placement.totals).tolist() == [3, 3]


def best(training: Training, setting: Setting, levels: tuple[Level, ...]) -> PlanTime | None:
    search = PlanSearch(training, setting.strategy, options=setting.options)
    found = search.on(levels)
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


@settings(deadline=None, max_examples=80)
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


@settings(deadline=None, max_examples=100)
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
    training = Training(small_model(batch=64), 64, 1e13, inf, free(FOURD), 1e12, 8e12)
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
        found = search.on(levels)
        if not isinstance(found, SearchResult):
            continue
        best = search_plans(setting.training, levels, strategy=strategy, options=options).plans[0]
        assert best.iteration_time_s <= found.plans[0].iteration_time_s * (1 + 1e-12)
        compared += found.levels == levels
    assert compared > 12


# Layers 5 on 2 stages: 3 + 2. Batch 7 over 3 replicas: 3, 2, 2. Tensor 2 of 4 GPUs of a domain.
UNEVEN = Plan(Placement((Degrees(tensor=2), Degrees(data=3, pipeline=2)), (4, 7)), 1, 3)
SLOW = (Level("switch", 4, 1e9), Level("switch", 7, 1e9))


def test_the_slowest_stage_of_the_slowest_replica_paces() -> None:
    """Closed forms at 1 FLOP/s: m n L + (l - n) L, with m = 3, n = 3, l = 5."""
    model = small_model(layers=5, vocabulary=0)
    training = Training(model, 7, 1.0, inf, free(PTDP))
    found = evaluate_plan(training, SLOW, UNEVEN)
    # A layer, one sequence on 2 GPUs: 48 s h^2 + 2.5 (24 s h^2 + 16 s^2 h), gamma = 2.5.
    s, h = 256, 512
    layer = (48 * s * h**2 + 2.5 * (24 * s * h**2 + 16 * s**2 * h)) / 2
    assert found.breakdown_s["compute"] == pytest.approx(3 * 3 * layer)
    hop = 2 * s * h / 2 / 1e9
    assert found.breakdown_s["bubble"] == pytest.approx(2 * layer + 2 * hop)
    assert found.breakdown_s["pipeline_comm"] == pytest.approx(2 * 3 * hop)
    # Weights of three layers, two bytes each; gathered and reduced over 3 replicas.
    held = 2 * 3 * 12 * h**2 / 2
    assert found.breakdown_s["data_comm"] == pytest.approx(2 * 2 / 3 * held / 1e9)
    assert found.memory_parts_bytes["weights"] == held
    # Interleaved 1F1B keeps two microbatches of the first stage: 34 s h bytes a layer on 2 GPUs.
    assert found.memory_parts_bytes["activations"] == 2 * 3 * 34 * s * h / 2
    # The GPUs bought: 28, of which 12 work.
    assert UNEVEN.gpus == 12
    work = iteration_flops(model, 7).model
    assert found.mfu == pytest.approx(work / (28 * found.iteration_time_s))


def test_the_ends_hold_a_layer_less_where_stages_are_uneven() -> None:
    """Seven layers on three stages: 2, 3, 2, and a head that is slower than a layer or not."""
    plan = Plan(Placement((Degrees(), Degrees(pipeline=3)), (1, 3)), 1, 4)
    levels = Level("switch", 1, 1e12), Level("switch", 3, 1e15)
    seconds = {}
    for words in (1, 1000, 500_000):
        model = small_model(layers=7, vocabulary=words)
        training = Training(model, 4, 1e12, inf, free(FOURD), 1e12, 1e15)
        both = {}
        for ends in (False, True):
            options = Options(Variant(embedding=ends, lm_head=ends))
            both[ends] = evaluate_plan(training, levels, plan, options=options)
        held = both[True].memory_parts_bytes["weights"] / 2 - 2 * 512 * words * (words > 1000) / 2
        assert held > 0
        seconds[words] = sum(
            both[True].breakdown_s[key] - both[False].breakdown_s[key]
            for key in ("compute", "memory")
        )
    # A few words take less than the layer that the last stage is spared, many take more.
    assert seconds[1] == seconds[1000] == 0
    layer_s = both[False].breakdown_s["bubble"] / 4  # (l - n) layers, transfers of no time
    head_s = 6 * 256 * 512 * 500_000 / (0.8 * 1e12)
    assert seconds[500_000] == pytest.approx(4 * (head_s - layer_s), rel=0.05)


@pytest.mark.parametrize("zero", [1, 3])
@pytest.mark.parametrize("ends", [False, True])
def test_terms_of_an_uneven_plan_add_up_to_its_time(zero: Zero, ends: bool) -> None:  # noqa: FBT001
    for layers, words in ((5, 40), (7, 50_000), (4, 100)):
        model = small_model(layers=layers, vocabulary=words)
        training = Training(model, 7, 1e13, inf, free(FOURD), 1e12, 8e12)
        options = Options(Variant(embedding=ends, lm_head=ends), zero_stage=zero)
        for stages in (1, 2, 3, 4):
            placement = Placement((Degrees(tensor=2), Degrees(data=3, pipeline=stages)), (2, 12))
            plan, levels = Plan(placement, 1, 3), (Level("switch", 2, 1e9), SLOW[1])
            levels = levels[0], replace(SLOW[1], size=12)
            terms = plan_terms(Setting(training, options=options), levels, plan)
            whole = evaluate_plan(training, levels, plan, options=options).iteration_time_s
            assert sum(term.seconds for term in terms) == pytest.approx(whole, rel=1e-12)


def run_search(row: Row, assumptions: IterationModel) -> SearchResult | str | None:
    """The search for exactly the plan of a published run, on its HB domains."""
    number = {key: int(row[key] or 0) for key in row if key not in ("id", "source")}
    heads, kv_heads = number["heads"], number["kv_heads"]
    model = small_model(
        hidden_size=number["hidden"],
        layers=number["layers"],
        heads=heads,
        kv_heads=None if kv_heads == heads else kv_heads,
        ffn_size=number["ffn"],
        sequence_length=number["seq"],
    )
    domain = min(number["hb_domain"], number["gpus"])
    levels = Level("switch", domain, 450e9), Level("switch", number["gpus"] // domain, 50e9)
    fixed = Fixed(
        tensor=number["tp"],
        context=number["cp"],
        data=number["dp"],
        pipeline=number["pp"],
        microbatch=number["micro_batch"],
        interleave=max(number["vp"], 1),
    )
    training = Training(model, number["global_batch"], 1e15, inf, assumptions, 1e14, 3e12)
    strategy: Strategy = "2d" if number["cp"] > 1 else "1d"
    options = Options(interleave="any", fixed=fixed)
    return PlanSearch(training, strategy, options=options).on(levels)


def test_all_published_runs_lie_in_the_free_space() -> None:
    """237 dense runs; 73 have uneven stages: Llama 3 405B's 126 layers, BLOOM's, Zero Bubble's."""
    whole = replace(FOURD, space=replace(FOURD.space, divisibility="free"))
    rows = read("run_plans.csv")
    outside = []
    for row in {tuple(list(row.values())[2:]): row for row in rows}.values():
        found = run_search(row, whole)
        assert isinstance(found, SearchResult), row["id"]
        plan = found.plans[0].plan
        assert plan.microbatches == int(row["microbatches"] or plan.microbatches)
        assert (plan.pipeline, plan.data) == (int(row["pp"]), int(row["dp"]))
        if isinstance(run_search(row, FOURD), str):
            outside.append(tuple(list(row.values())[2:]))
    uneven = [row for row in rows if tuple(list(row.values())[2:]) in outside]
    assert (len(rows), len(uneven)) == (237, 73)
    llama = [row for row in uneven if row["layers"] == "126"]
    assert {row["pp"] for row in llama} == {"8", "16"}
    assert all(int(row["layers"]) % (int(row["pp"]) * int(row["vp"] or 1)) for row in uneven)


def test_layers_and_microbatches_are_shared_out_whole() -> None:
    for layers, stages in product(range(1, 40), range(1, 40)):
        if stages <= layers:
            held = stage_layers(layers, stages)
            assert held.sum() == layers
            assert held.max() == ceil(layers / stages)
            assert held.max() - held.min() <= 1
            assert held[0] == held.max() or held[-1] < held.max()
        runs = dealt(layers, stages)
        assert (runs.sum(), runs.max(), runs.min()) == (
            layers, ceil(layers / stages), layers // stages,
        )  # fmt: skip

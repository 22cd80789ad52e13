"""The free space of plans: its best plan against every plan, counted one by one."""

import random
from collections.abc import Iterable, Iterator
from itertools import product
from math import ceil, inf, prod

import numpy as np
import pytest

from netplan.errors import InfeasibleError, NoPlanError
from netplan.levels import Level, LevelKind, Tier
from netplan.performance import free_search
from netplan.performance.evaluation import Evaluation
from netplan.performance.free_search import best_free_plans
from netplan.performance.iteration_model import ITERATION_MODELS, IterationModel
from netplan.performance.plan import Plan
from netplan.performance.search import evaluate_plan, search_plans
from netplan.performance.setting import Fixed, Options, Setting, TrainedModel
from netplan.performance.space import listed_plans
from netplan.records import replace
from netplan.traffic.measured_links import MEASURED_LINKS, MeasuredLinks
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.measured_kernels import MeasuredKernels
from netplan.workloads.models import MODELS, Model
from netplan.workloads.operations import Variant
from tests.performance.cases import FOURD, MEASURED, PTDP, small_model

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
    options = Options(variant, draw.choice([0, 1, 2, 3]), draw.choice(["none", "any", "whole"]))
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
    training = TrainedModel(random_model(draw), batch, rate, memory, assumptions, rate / 8, 8e12)
    return Setting(training, strategy, options=options), levels  # type: ignore[arg-type]


def divides(number: int, *parts: int) -> bool:
    return all(number % part == 0 for part in parts)


def cuts(setting: Setting, sizes: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Tensor, context, expert and pipeline degrees at every level, one by one."""
    model, experts = setting.transformer, setting.experts.count if setting.experts else 1
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
        if divides(experts, expert) and stages <= setting.layers:
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
    fullest = ceil(setting.layers / stages)
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
    seconds = evaluation.terms.seconds(each, each, each)
    return list(zip(seconds.tolist(), evaluation.memory.total.tolist(), strict=True))


@pytest.mark.parametrize(
    ("seeds", "least_plans"),
    [
        # The named ones need a number of stages that others hold as much with fewer of.
        ((*range(25), 1083, 1944, 3028, 3224, 3425, 4217), 5_000),
        pytest.param(range(25, 75), 10_000, marks=pytest.mark.slow),
    ],
)
def test_the_search_finds_the_best_of_all_plans(seeds: Iterable[int], least_plans: int) -> None:
    """Against every plan one by one: exactly the best time, and none where none fits."""
    plans, tight, alone = searched_exactly(map(random_case, seeds))
    assert plans > least_plans
    assert min(tight, alone) > 0


def test_bounds_of_small_batches_rule_no_best_plan_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_CUTS", "FIRST_LAYERS", "BATCH_CUTS", "BATCH_LAYERS", "CHUNK_PLANS"):
        monkeypatch.setattr(free_search, name, 8)
    searched_exactly(map(random_case, range(6)))


@pytest.mark.parametrize("rules", ["calibrated", "4d"])
def test_plans_that_are_found_take_as_long_alone(rules: str) -> None:
    chip, model = ACCELERATORS.load("b200-1000w"), MODELS.load("llama-3-70b")
    training = TrainedModel.make(chip, model, free(ITERATION_MODELS.load(rules)), batch=1024)
    levels = (Level("switch", 8, 900e9, 0, 2.5e-6), Level("switch", 128, 100e9, 0, 5e-6))
    found = search_plans(training, levels, top=5)
    assert len(found.plans) == 5
    for one in found.plans:
        assert evaluate_plan(training, levels, one.plan) == one


def measured_case(seed: int) -> tuple[Setting, tuple[Level, ...]]:
    """The same with collectives as measured, on switches that sum up three or more GPUs."""
    setting, levels = random_case(seed)
    link, network = MEASURED_LINKS.load("nvlink-5"), MEASURED_LINKS.load("network")
    # So much better than a ring that three replicas may be faster than two.
    rows = tuple(
        replace(row, least_members=least, start_s=0.0, efficiency=1.0)
        for row, least in zip(link.in_switch, (3, 5), strict=True)
    )
    slow = replace(link.all_reduce, large=replace(link.all_reduce.large, efficiency=0.1))
    links = MeasuredLinks(replace(link, in_switch=rows, all_reduce=slow), (network,))
    assumptions = setting.assumptions
    data = "queued" if seed % 3 == 0 else assumptions.overlap.data
    assumptions = replace(
        assumptions,
        communication=replace(assumptions.communication, collectives="measured"),
        overlap=replace(assumptions.overlap, data=data),
    )
    training = replace(setting.training, assumptions=assumptions, links=links)
    if seed % 2:  # an HB domain alone
        levels = (replace(levels[0], size=6 + seed % 3, link_bytes_per_s=10.0 ** (6 + seed % 5)),)
    return replace(setting, training=training), levels


@pytest.mark.parametrize(
    ("seeds", "least_plans"),
    [
        # In the named ones more replicas are faster.
        ((*range(20), 273, 363, 813, 927), 3_000),
        pytest.param(range(20, 60), 6_000, marks=pytest.mark.slow),
    ],
)
def test_the_search_finds_the_best_of_all_plans_on_measured_links(
    seeds: Iterable[int], least_plans: int
) -> None:
    plans, _, _ = searched_exactly(map(measured_case, seeds))
    assert plans > least_plans


def kernel_case(seed: int) -> tuple[Setting, tuple[Level, ...]]:
    """Kernels as measured, on a GPU of any speed, with measured links or without."""
    draw = random.Random(seed)  # noqa: S311 - test cases, no secrets
    setting, levels = draw.choice([random_case, measured_case])(seed)
    kernels = MeasuredKernels.of(ACCELERATORS.load(draw.choice(["h100-80gb", "b200", "tpu-v4"])))
    products = kernels.products.changed(
        peak_flops_per_s=draw.choice([1e11, 1e13, 1e15]), kernel_latency_s=draw.choice([0.0, 2e-6])
    )
    training = replace(
        setting.training,
        measured=replace(kernels, products=products),
        assumptions=replace(setting.assumptions, compute=MEASURED.compute),
    )
    return replace(setting, training=training), levels


def test_the_search_finds_the_best_of_all_plans_on_measured_kernels() -> None:
    plans, tight, _ = searched_exactly(map(kernel_case, range(40)))
    assert plans > 10_000
    assert tight


def test_plans_of_a_search_are_the_same_only_as_themselves() -> None:
    setting, levels = kernel_case(0)
    first, again = (best_free_plans(setting, levels, 1) for _ in range(2))
    assert first.layers is not None  # arrays, which have no hash and are not simply equal
    assert first.plans == again.plans
    assert len({first, again}) == 2


def searched_exactly(cases: Iterable[tuple[Setting, tuple[Level, ...]]]) -> tuple[int, int, int]:
    """Search, and time every plan: how many there are, how many cases are tight, or have none."""
    plans, tight, alone = 0, 0, 0
    for seed, (setting, levels) in enumerate(cases):
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
    return plans, tight, alone


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 160), marks=pytest.mark.slow)])
def test_the_search_finds_the_best_of_interleaved_plans(seeds: range) -> None:
    """Where the fewest microbatches starve the stages, more of them add less than their layers."""
    starved, more = 0, 0
    for seed in seeds:
        draw = random.Random(seed)  # noqa: S311 - test cases, no secrets
        stages, interleave = draw.choice([(2, 2), (2, 4), (3, 2), (4, 2), (4, 3)])
        model = small_model(hidden_size=96, layers=stages * interleave)
        batch, rate = draw.choice([5, 8, 12]), draw.choice([1e12, 1e14])
        assumptions = free(FOURD, data=draw.choice(["overlapped", "exposed"]))
        training = TrainedModel(model, batch, rate, inf, assumptions, rate / 8, 8e12)
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
    assert min(starved, more) > 7


def test_more_replicas_than_fit_and_more_stages_than_layers_are_none() -> None:
    training = TrainedModel(small_model(), 16, 1e15, inf, free(FOURD), 1e14, 8e12)
    levels = Level("switch", 4, 900e9), Level("switch", 4, 100e9)
    for fixed in (Fixed(data=17), Fixed(pipeline=5), Fixed(tensor=3), Fixed(microbatch=17)):
        with pytest.raises(InfeasibleError, match="free one of them"):
            search_plans(training, levels, options=Options(fixed=fixed))


def test_degrees_that_fit_on_no_level_are_no_plan() -> None:
    """Eight GPUs of nine: a level of three has room for two of each, four together."""
    training = TrainedModel(small_model(), 16, 1e15, inf, free(FOURD), 1e14, 8e12)
    levels = Level("switch", 3, 9e11), Level("switch", 3, 1e11), Level("switch", 1, 1e11)
    with pytest.raises(InfeasibleError, match="has tensor 8: free one of them"):
        search_plans(training, levels, options=Options(fixed=Fixed(tensor=8)))


def test_degrees_that_fit_on_no_level_are_no_plan_for_given_replicas_either() -> None:
    training = TrainedModel(small_model(), 16, 1e15, inf, free(FOURD), 1e14, 8e12)
    levels = tuple(Level("switch", size, 1e11) for size in (2, 4, 4))
    for fixed in (Fixed(data=7), Fixed(data=2, pipeline=3, tensor=6)):
        with pytest.raises(NoPlanError, match=r"data .*: free one of them"):
            search_plans(training, levels, options=Options(fixed=fixed))


def test_whole_groups_that_no_replicas_make_are_no_plan() -> None:
    """Three replicas of 13 sequences have five microbatches, no whole groups of four stages."""
    training = TrainedModel(small_model(layers=8), 13, 1e15, 1e12, free(FOURD), 1e14, 8e12)
    levels = Level("switch", 8, 900e9), Level("switch", 8, 100e9)
    fixed = Fixed(data=3, pipeline=4, interleave=2, microbatch=1)
    with pytest.raises(NoPlanError, match=r"interleave 2: free one of them"):
        search_plans(training, levels, options=Options(interleave="whole", fixed=fixed))


@pytest.mark.parametrize("fixed", [Fixed(data=3), Fixed(data=6, tensor=2), Fixed(pipeline=3)])
def test_given_degrees_are_those_of_the_best_plan_that_has_them(fixed: Fixed) -> None:
    training = TrainedModel(small_model(batch=24), 24, 1e13, inf, free(FOURD), 1e12, 8e12)
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
    training = TrainedModel(small_model(batch=12), 12, 1e13, inf, free(FOURD), 1e12, 8e12)
    levels = Level("switch", 8, 900e9), Level("switch", domains, 1e6)
    fixed = Fixed(tensor=1, pipeline=1, microbatch=2)
    plan = search_plans(training, levels, options=Options(fixed=fixed)).plans[0].plan
    assert (plan.data, plan.microbatch, plan.microbatches) == (6, 2, 1)


def test_a_microbatch_that_does_not_divide_leaves_the_last_one_partly_empty() -> None:
    """Sixteen sequences are six microbatches of three, on two replicas three each."""
    training = TrainedModel(small_model(batch=16), 16, 1e13, inf, free(FOURD), 1e12, 8e12)
    levels = Level("switch", 1, 900e9), Level("switch", 2, 1e9)
    fixed = Fixed(tensor=1, pipeline=1, data=2, microbatch=3)
    found = search_plans(training, levels, options=Options(fixed=fixed))
    best = found.plans[0]
    assert (best.plan.microbatches, best.plan.microbatch) == (3, 3)
    even = search_plans(replace(training, batch=18), levels, options=Options(fixed=fixed)).plans[0]
    assert best.iteration_time_s == even.iteration_time_s
    assert best.mfu == pytest.approx(even.mfu * 16 / 18)
    assert found.settings[0].microbatches(3, best.plan.placement.totals).tolist() == [3, 3]

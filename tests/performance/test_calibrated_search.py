"""The search under iteration model ``calibrated``: against every plan, counted one by one."""

import random
from collections.abc import Iterable
from math import inf, prod

import pytest

from netplan.errors import InfeasibleError
from netplan.inputs.choices import Recompute, ScheduleName, Strategy
from netplan.levels import Level, LevelKind, Tier
from netplan.performance.calibrated_run import CalibratedRun
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.search import search_plans
from netplan.performance.setting import Options, Setting, TrainedModel
from netplan.performance.stacks import STACKS
from netplan.performance.tiers import Expanded
from netplan.records import replace
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.operations import Variant
from tests.performance.test_free_space import Way, every_plan, free, random_model, timed

CALIBRATED = ITERATION_MODELS.load("calibrated")
RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "half", "full")
SCHEDULES: tuple[ScheduleName | None, ...] = (None, "gpipe", "interleaved", "zb-1p", "zb-2p")


def random_levels(draw: random.Random, seed: int) -> tuple[Level, ...]:
    """HB domains and a network of any kind, whose leaves may block."""
    sizes = draw.choice([(4, 3), (3, 5), (6,), (2, 7), (2, 3, 4), (1, 7), (2, 12)])
    kinds: tuple[LevelKind, ...] = ("switch", "switch", "ring", "mesh")
    rates = (900e9, *(draw.choice([1e7, 1e9, 100e9]) for _ in sizes))
    levels = tuple(
        Level("switch" if at == 0 else draw.choice(kinds), size, rate)
        for at, (size, rate) in enumerate(zip(sizes, rates, strict=False))
    )
    outer = levels[-1]
    if outer.kind == "switch" and outer.size > 2 and len(levels) > 1 and seed % 3 == 0:
        ranks = prod(level.size for level in levels[:-1])
        ports = ranks * outer.size
        leaf = Tier((ports, 2 + seed % (ports // 2)), 1, ranks, outer.size)
        levels = (*levels[:-1], replace(outer, tiers=(leaf,)))
    return levels


def random_case(seed: int) -> tuple[Setting, tuple[Level, ...]]:
    draw = random.Random(seed)  # noqa: S311 - test cases, no secrets
    on = ACCELERATORS.load(draw.choice(["a100-80gb", "h100-80gb"]))
    stacks = ["fsdp-eager", "megatron-2025"] if on.name == "h100-80gb" else ["megatron-2022"]
    # Slower memory makes the update count, so that more replicas may be faster.
    on = replace(on, memory_bytes_per_s=draw.choice([1e10, 2e12]))
    assert CALIBRATED.calibration is not None
    part = replace(
        CALIBRATED.calibration,
        **{name: draw.choice([0.0, 1e-6]) for name in ("kernel_s", "collective_s")},
    )
    run = CalibratedRun.of(on, STACKS.load(draw.choice(stacks)), part)
    schedule = draw.choice(SCHEDULES)
    options = Options(
        Variant(draw.choice(RECOMPUTE), sequence_parallel=draw.random() < 0.7),
        draw.choice([0, 1, 2, 3]),
        draw.choice(["none", "any"]) if schedule is None else None,
        schedule=schedule,
    )
    training = TrainedModel.make(
        on,
        random_model(draw),
        free(CALIBRATED),
        batch=draw.choice([1, 5, 6, 12, 24]),
        calibrated=run,
    )
    memory = draw.choice([inf, inf, 1e6, 2e6, 4e6])
    expanded = Expanded(1e9, draw.choice([1e9, 1e13])) if draw.random() < 0.2 else None
    training = replace(training, memory_bytes=memory, expanded=expanded)
    strategy: Strategy = draw.choice(["1d", "2d"])
    return Setting(training, strategy, options=options), random_levels(draw, seed)


def innermost(way: Way, sizes: tuple[int, ...]) -> bool:
    """Whether the tensor groups of a plan fill one level before they take the next."""
    rest = prod(level[0] for level in way[0])
    for level, size in zip(way[0], sizes, strict=True):
        if level[0] != max(one for one in range(1, size + 1) if rest % one == 0):
            return False
        rest //= level[0]
    return True


@pytest.mark.parametrize(
    "seeds",
    [
        # The named ones need more stages than hold the same, or a slower end with a layer less.
        (*range(30), 1110, 1383, 2307, 2751, 3138, 3411),
        pytest.param(range(30, 75), marks=pytest.mark.slow),
    ],
)
def test_the_search_finds_the_best_of_all_plans(seeds: Iterable[int]) -> None:
    plans, alone = 0, 0
    for seed in seeds:
        setting, levels = random_case(seed)
        sizes = tuple(level.size for level in levels)
        ways = [way for way in every_plan(setting, sizes) if innermost(way, sizes)]
        if setting.options.schedule == "interleaved":
            ways = [way for way in ways if way[3] > 1 and prod(one[4] for one in way[0]) > 1]
        both = timed(setting, levels, ways) if ways else []
        room = setting.training.tiers_bytes
        fitting = [seconds for seconds, held in both if held <= room]
        plans += len(ways)
        try:
            found = search_plans(
                setting.training, levels, strategy=setting.strategy, options=setting.options
            )
        except InfeasibleError:
            assert not fitting, seed
            alone += 1
            continue
        assert found.best.iteration_time_s == pytest.approx(min(fitting), rel=1e-12), seed
    assert plans > 6_000
    assert alone

"""Plans of models whose layers are unlike: all of them searched, added up and simulated."""

import random
from math import ceil, inf
from typing import Any

import pytest

from netplan.errors import InfeasibleError, InputError
from netplan.levels import Level
from netplan.performance.explain import plan_terms
from netplan.performance.plan import Plan
from netplan.performance.search import evaluate_plan, search_plans
from netplan.performance.setting import Options, Setting, TrainedModel
from netplan.records import replace
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.operations import ELEMENT_BYTES, PLAIN, Variant
from netplan.workloads.parameters import stack_of
from tests.performance.cases import FOURD, small_model
from tests.performance.test_free_space import every_plan, free, random_case, timed

EXPERTS = {"count": 4, "per_token": 2, "ffn_size": 64, "shared_ffn_size": 32}
LATENT = {"kv_rank": 16, "query_rank": 32, "head_size": 16, "rotary_head_size": 8} | {
    "value_head_size": 16
}
BLOCKS: list[dict[str, Any]] = [
    {"experts": EXPERTS},
    {"experts": EXPERTS | {"dense_first_layers": 1}, "latent_attention": LATENT},
    {"experts": EXPERTS | {"every": 2}, "window_attention": {"tokens": 16, "layers": 1}},
    {"experts": EXPERTS, "latent_attention": LATENT, "prediction_layers": 1},
]


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(80), marks=pytest.mark.slow)])
def test_the_search_finds_the_best_of_all_plans(seeds: range) -> None:
    """Against every plan one by one, as of plain layers: exactly the best time."""
    plans = spread = 0
    for seed in seeds:
        setting, levels = random_case(seed)
        if setting.assumptions.compute.operations != "detailed":
            continue
        draw = random.Random(seed)  # noqa: S311 - test cases, no secrets
        blocks = draw.choice(BLOCKS)
        model = small_model(
            hidden_size=128, heads=8, layers=draw.choice([2, 3, 5]), sequence_length=64, **blocks
        )
        variant = replace(setting.variant, experts=1, top_k=1)
        setting = Setting(
            replace(setting.training, model=model),
            "1d" if setting.strategy == "summa" else setting.strategy,
            options=replace(setting.options, variant=variant),
        )
        ways = list(every_plan(setting, tuple(level.size for level in levels)))
        both = timed(setting, levels, ways)
        fitting = [seconds for seconds, held in both if held <= setting.training.memory_bytes]
        plans += len(ways)
        try:
            found = search_plans(
                setting.training, levels, strategy=setting.strategy, options=setting.options
            )
        except InfeasibleError:
            assert not fitting, seed
            continue
        assert found.time_s == pytest.approx(min(fitting), rel=1e-12), seed
        spread += found.best.plan.expert > 1
    assert plans > 3_000
    assert spread


def case(**blocks: object) -> tuple[TrainedModel, tuple[Level, ...]]:
    model = small_model(layers=6, **blocks)
    training = TrainedModel(model, 16, 1e15, inf, free(FOURD), 1e14, 8e12)
    return training, (Level("switch", 8, 450e9), Level("switch", 4, 50e9, 0, 5e-6))


PLAN = Plan(Placement((Degrees(tensor=2, expert=4), Degrees(data=2, pipeline=2))), 1, 2)


@pytest.mark.parametrize("blocks", BLOCKS)
def test_terms_of_a_plan_add_up(blocks: dict[str, Any]) -> None:
    training, levels = case(**blocks)
    timed_plan = evaluate_plan(training, levels, PLAN)
    terms = plan_terms(Setting(training), levels, PLAN)
    assert sum(term.seconds for term in terms) == pytest.approx(timed_plan.iteration_time_s)
    assert sum(timed_plan.breakdown_s.values()) == pytest.approx(timed_plan.iteration_time_s)
    assert timed_plan.breakdown_s["expert_comm"] > 0


@pytest.mark.parametrize("blocks", BLOCKS)
def test_expert_groups_hold_experts_once(blocks: dict[str, Any]) -> None:
    """Weights of a GPU: tensor and expert GPUs share the experts, tensor GPUs alone the rest."""
    training, levels = case(**blocks)
    model = small_model(layers=6, **blocks)
    alone = replace(PLAN, placement=Placement((Degrees(tensor=2), Degrees(data=2, pipeline=2))))
    spread, whole = (
        evaluate_plan(training, levels, plan).memory_parts_bytes["weights"] / ELEMENT_BYTES
        for plan in (PLAN, alone)
    )
    # Four experts a layer, up and down and their biases; the fullest of two stages.
    expert = 2 * 512 * 64 / 2 + 64 / 2 + 512
    held = ceil(model.depth / 2) * model.sparse_layers / model.depth
    assert whole - spread == pytest.approx(held * (4 - 1) * expert, rel=1e-9)
    stack = stack_of(model)
    assert whole > (stack.attention + stack.feed_forward) / 2 / 2


def test_an_expert_degree_divides_the_files_experts() -> None:
    training, levels = case(experts=EXPERTS)
    with pytest.raises(InputError, match="4 experts cannot be spread evenly over 3 GPUs"):
        search_plans(training, levels, options=Options(expert_degree=3))
    found = search_plans(training, levels, options=Options(expert_degree=4))
    assert found.best.plan.expert == 4
    dense, _ = case()
    with pytest.raises(InputError, match="1 experts cannot be spread"):
        search_plans(dense, levels, options=Options(expert_degree=4))
    with pytest.raises(InputError, match="small has 4 experts, 2 of a token, got 8 and 1"):
        search_plans(training, levels, options=Options(Variant(experts=8)))


def test_experts_in_all_layers_are_those_that_are_asked_for() -> None:
    """A file whose layers all have the experts of the options is timed alike."""
    asked, levels = case()
    own, _ = case(experts={"count": 4, "per_token": 2})
    options = Options(replace(PLAIN, experts=4, top_k=2))
    times = [
        evaluate_plan(asked, levels, PLAN, options=options).breakdown_s,
        evaluate_plan(own, levels, PLAN).breakdown_s,
    ]
    assert times[0] == times[1]

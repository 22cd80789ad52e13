"""Uneven plans: stages, replicas and batches that do not divide; published runs that have them."""

from itertools import product
from math import ceil, inf

import pytest

from netplan.inputs.choices import Strategy
from netplan.levels import Level
from netplan.performance.explain import plan_terms
from netplan.performance.iteration_model import IterationModel
from netplan.performance.plan import Plan, SearchResult
from netplan.performance.search import PlanSearch, evaluate_plan
from netplan.performance.setting import Fixed, Options, Setting, TrainedModel
from netplan.records import replace
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.closed_forms import iteration_flops
from netplan.workloads.operations import Variant
from netplan.workloads.program import Zero, dealt, stage_layers
from tests.performance.cases import FOURD, PTDP, Row, read, small_model
from tests.performance.test_free_space import free

# Layers 5 on 2 stages: 3 + 2. Batch 7 over 3 replicas: 3, 2, 2. Tensor 2 of 4 GPUs of a domain.
UNEVEN = Plan(Placement((Degrees(tensor=2), Degrees(data=3, pipeline=2)), (4, 7)), 1, 3)
SLOW = (Level("switch", 4, 1e9), Level("switch", 7, 1e9))


def test_the_slowest_stage_of_the_slowest_replica_paces() -> None:
    """Closed forms at 1 FLOP/s: m n L + (l - n) L, with m = 3, n = 3, l = 5."""
    model = small_model(layers=5, vocabulary=0)
    training = TrainedModel(model, 7, 1.0, inf, free(PTDP))
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
        training = TrainedModel(model, 4, 1e12, inf, free(FOURD), 1e12, 1e15)
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
        training = TrainedModel(model, 7, 1e13, inf, free(FOURD), 1e12, 8e12)
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
    training = TrainedModel(model, number["global_batch"], 1e15, inf, assumptions, 1e14, 3e12)
    strategy: Strategy = "2d" if number["cp"] > 1 else "1d"
    options = Options(interleave="any", fixed=fixed)
    return PlanSearch(training, strategy, options=options).best_on_subset(levels)


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
        assert runs.sum() == layers
        assert (int(runs.max()), int(runs.min())) == (ceil(layers / stages), layers // stages)

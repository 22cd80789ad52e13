"""A plan for every number of GPUs, whatever divides: times, GPUs used, failures, links."""

from itertools import product

import pytest

from netplan.answers.compare_answer import Comparison
from netplan.answers.faults_rows import ScenarioImpact
from netplan.levels import Level
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.search import search_largest
from netplan.performance.setting import TrainedModel
from netplan.questions.compare import compare
from netplan.questions.faults import faults
from netplan.questions.loads import loads
from netplan.questions.search import search
from netplan.questions.traffic import training_traffic
from netplan.setup.placed_run import PlacedRun
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.closed_forms import iteration_flops
from netplan.workloads.models import MODELS, WORKLOADS, Model
from tests.turns import one_in

SWITCHED = ("rail-optimized", "rail-only", "fat-tree", "dgx-superpod", "dgx-1", "dgx-2")
"""Fabrics whose levels grow with the number of domains; tori and dragonflies change their shape."""
H100 = {"radix": 64, "accelerator": "h100-80gb"}

TRANSFORMERS = [name for name in WORKLOADS.paths() if isinstance(WORKLOADS.load(name), Model)]


def compared(gpus: int, **question: object) -> Comparison:
    return compare("rail-only-paper", gpus=gpus, **(H100 | {"fabrics": SWITCHED} | question))


def test_times_fall_between_powers_of_two() -> None:
    """Before, all of these trained as 1,024 GPUs do, or not at all."""
    best: dict[str, float] = {}
    first: dict[str, float] = {}
    for gpus in (1024, 1536, 1792, 1920, 1984, 2040, 2048):
        for row in compared(gpus).rows:
            assert row.best is not None
            time_s = row.best.iteration_time_s
            assert time_s <= best.get(row.name, time_s) * (1 + 1e-11), (row.name, gpus)
            best[row.name] = time_s
            first.setdefault(row.name, time_s)
            if gpus == 1536:  # half as many again: no more than a tenth of it is lost
                assert time_s < first[row.name] / 1.5 * 1.1
            work = iteration_flops(MODELS.load("gpt-1t"), 4096).model
            bought = gpus * ACCELERATORS.load("h100-80gb").tensor_flops_per_s
            assert row.mfu == pytest.approx(work / (bought * time_s), rel=1e-12)
            used = row.best.plan.gpus
            idle = f"uses {used:,} of {gpus:,} GPUs; {gpus - used:,} are idle"
            assert (idle in " ".join(row.notes)) == (used < gpus)


@pytest.mark.parametrize("iteration_model", ["4d", "ptd-p"])
def test_more_domains_never_train_slower(iteration_model: str) -> None:
    times: dict[str, float] = {}
    for domains in range(8, 40, 3):
        answer = compared(
            8 * domains, model="gpt-22b", batch=250, radix=16, iteration_model=iteration_model
        )
        for row in answer.rows:
            if row.fabric is None or row.fabric.sizing.hb_size != 8:
                continue
            assert row.best is not None
            time_s = row.best.iteration_time_s
            assert time_s <= times.get(row.name, time_s) * (1 + 1e-11), (row.name, domains)
            times[row.name] = time_s
    assert len(times) > 3


def test_a_lost_gpu_costs_about_a_replica() -> None:
    answer = faults("rail-only-paper", gpus=2048, fail=["gpu=1"], years=1, **H100)
    assert len(answer.fabrics) == 4
    for fabric in answer.fabrics:
        assert isinstance(fabric.scenario, ScenarioImpact)
        impact = fabric.scenario.impact
        assert impact.way == "without"
        # Seven of eight replicas share 4,096 microbatches, 586 at the most: 586/512 - 1 = 14.5 %.
        assert impact.plan is not None
        assert (impact.plan["data"], impact.plan["microbatches"]) == (7, 586)
        assert 0.12 < (impact.slowdown or 0) < 0.15


def test_a_domain_that_holds_all_goes_on_without_a_gpu() -> None:
    answer = faults(
        "rail-only-paper", gpus=64, radix=16, hb_size=64, fail=["gpu-5"], years=1,
        model="gpt-22b", batch=240,
        fabrics=("rail-only",),
    )  # fmt: skip
    scenario = answer.fabrics[0].scenario
    assert isinstance(scenario, ScenarioImpact)
    assert scenario.impact.way == "without"
    assert scenario.impact.slowdown is not None
    assert 0 <= scenario.impact.slowdown < 0.1  # nothing where the plan left that many idle


@pytest.mark.parametrize(("gpus", "model"), one_in(2, product([96, 120, 140], TRANSFORMERS)))
def test_counts_with_factors_of_three_five_and_seven(gpus: int, model: str) -> None:
    for strategy in ("1d", "2d"):
        answer = compare(
            "rail-only-paper", gpus=gpus, hb_size=4, model=model, batch=256, strategy=strategy,
            accelerator="b200", radix=64, fabrics=("rail-optimized",),
        )  # fmt: skip
        row = answer.rows[0]
        too_large = any("fits on no plan" in note for note in row.notes)
        assert (row.best is None) == too_large
        if row.best:
            assert 0 < row.best.plan.gpus <= gpus


def test_search_and_compare_find_the_same_plan() -> None:
    for gpus in (96, 1000, 1984):
        question = {"gpus": gpus, "hb_size": 8, "model": "gpt-175b", "batch": 256} | H100
        best = search("rail-only-paper", **question).found.plans[0]
        row = compare("rail-only-paper", **question, fabrics=("rail-optimized",)).rows[0]
        assert row.best is not None
        assert row.best.plan == best.plan
        assert row.mfu == pytest.approx(best.mfu, rel=1e-12)


def test_the_largest_part_has_schedules_too() -> None:
    """Of 24,576 GPUs degrees that divide fill 20,480, but 5 divides no batch of 4,096."""
    training = TrainedModel.make(
        ACCELERATORS.load("b200"), MODELS.load("gpt-1t"), ITERATION_MODELS.load("4d")
    )
    levels = Level("switch", 8, 900e9), Level("switch", 3072, 100e9)
    found = search_largest(training, levels)
    assert found.plans[0].plan.gpus == 16_384
    assert found.levels[1].size == 2048


@pytest.mark.parametrize(("gpus", "fixed"), [(96, {}), (100, {}), (96, {"pipeline": 5, "data": 2})])
def test_links_carry_what_uneven_plans_send(gpus: int, fixed: dict[str, int]) -> None:
    question = {"gpus": gpus, "hb_size": 8, "model": "gpt-22b", "batch": 50, "fixed": fixed} | H100
    answer = loads("rail-only-paper", **question, fabric="fat-tree")
    assert isinstance(answer.run, PlacedRun)
    assert answer.graph.gpus == gpus
    matrix = answer.run.matrix()
    # The plan's own numbers: all layers and all microbatches run somewhere.
    plan, layers = answer.run.timed.plan, 48
    program = answer.run.setting.program(plan.sharding)
    tensor = sum(
        use.data_bytes * use.times
        for use in program.collectives(stages=plan.pipeline, microbatches=plan.microbatches)
        if use.kind == "tensor"
    ) / (plan.microbatches * -(-layers // plan.pipeline))
    rounds = 50 // plan.microbatch
    expected = rounds * layers * tensor * (plan.tensor - 1)
    assert matrix.of_kind("tensor").total_bytes == pytest.approx(expected)
    assert answer.total_bytes == pytest.approx(matrix.total_bytes)
    sent = training_traffic("rail-only-paper", **question, fabric="fat-tree").matrix
    assert sent.total_bytes == pytest.approx(matrix.total_bytes)
    used = {*matrix.listed().source.tolist()}
    assert used == {*plan.placement.gpu_of_rank.tolist()} or plan.gpus == 1

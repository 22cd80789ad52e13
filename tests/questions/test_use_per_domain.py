"""Plans on some GPUs of each HB domain: the others idle, and are paid for and counted all the same.

576 GPUs in 8 domains of 72; 64 of each are 512, 64 in all are left over.
"""

from typing import Any

import pytest

import netplan
from netplan.reports.schema import plain_data

SCENARIOS = ("nvl72-gb200", "nvl72-gb300")
GPUS, USED = 576, 512


def best(scenario: str, **values: Any) -> Any:  # noqa: ANN401 - of any question
    return netplan.search(scenario, gpus=GPUS, published=False, **values)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_search_uses_no_more_of_a_domain_and_counts_all(scenario: str) -> None:
    answer = best(scenario, use_per_domain=64)
    timed = answer.best
    inside = timed.plan.placement.levels[0]
    assert inside.tensor * inside.context * inside.expert * inside.pipeline * inside.data == 64
    assert (timed.plan.gpus, timed.plan.placement.cluster) == (USED, GPUS)
    assert "The best plan uses 512 of 576 GPUs; 64 are idle." in answer.notes
    # MFU is of all GPUs that are bought: as much work, in another time.
    every = best(scenario, use_per_domain=72).best
    assert timed.mfu * timed.iteration_time_s == pytest.approx(every.mfu * every.iteration_time_s)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_auto_finds_the_better_of_both(scenario: str) -> None:
    seconds = {
        used: best(scenario, use_per_domain=used).best.iteration_time_s
        for used in (64, 72, "auto", None)
    }
    assert seconds["auto"] == seconds[None] <= 1.01 * min(seconds[64], seconds[72])


def test_auto_finds_degrees_that_divide_sixty_four() -> None:
    """Eight tensor GPUs fill 64 GPUs of a domain, or all 72: whichever is faster."""
    fixed = {"tensor": 8, "pipeline": 8, "context": 1}
    answer = best("nvl72-gb200", fixed=fixed, batch=128)
    alone = best("nvl72-gb200", fixed=fixed, batch=128, use_per_domain=64)
    assert answer.best.iteration_time_s <= 1.01 * alone.best.iteration_time_s


@pytest.mark.parametrize("question", ["loads", "traffic", "simulate"])
def test_questions_about_one_run_take_the_same_plan(question: str) -> None:
    answer = getattr(netplan, question)("nvl72-gb200", gpus=GPUS, use_per_domain=64).to_dict()
    plan = best("nvl72-gb200", use_per_domain=64).best.plan
    assert answer["gpus_used"] == USED
    assert answer["plan"] == plain_data(plan)
    if question == "loads":
        hb = next(group for group in answer["groups"] if group["group"] == "hb")
        assert hb["unused"] == 2 * (GPUS - USED)  # both ways of every idle GPU


@pytest.mark.parametrize("question", ["compare", "faults"])
def test_questions_about_fabrics_take_the_same_plan(question: str) -> None:
    fabric = {"fabric": ["rail-optimized"], "gpus": GPUS, "use_per_domain": 64}
    (row,) = getattr(netplan, question)("nvl72-gb200", **fabric).to_dict()["fabrics"]
    timed = best("nvl72-gb200", use_per_domain=64).best
    assert row["iteration_time_s"] == pytest.approx(timed.iteration_time_s)
    assert row["gpus_used"] == USED


def test_tensor_groups_lie_inside_the_gpus_that_are_used() -> None:
    """Four of eight GPUs are a domain of four: TP8 would lie over two, and is not searched."""
    wanted = {"gpus": 1024, "batch": 1024, "published": False}
    used = netplan.search("hgx-h100", use_per_domain=4, **wanted).best
    small = netplan.search("hgx-h100", **wanted | {"gpus": 512, "hb_size": 4}).best
    assert used.plan.tensor == used.plan.placement.levels[0].tensor <= 4
    assert used.iteration_time_s == pytest.approx(small.iteration_time_s)
    fixed = netplan.search("hgx-h100", use_per_domain=4, fixed={"tensor": 8}, **wanted).best
    assert (fixed.plan.tensor, fixed.plan.placement.levels[0].tensor) == (8, 4)


def test_plans_that_teams_run_keep_tensor_groups_inside_the_gpus_that_are_used() -> None:
    usual = netplan.search("hgx-h100", gpus=1024, batch=1024, use_per_domain=4).to_dict()["usual"]
    assert usual is None or usual["plan"]["tensor"] <= 4


def test_experts_are_copied_inside_the_gpus_that_are_used() -> None:
    """Groups of two in domains of four: of 16 GPUs with the same experts two lie in a domain."""
    wanted: dict[str, Any] = {
        "model": "qwen3-30b-a3b", "accelerator": "h100-80gb", "batch": 256, "published": False,
        "fixed": {"expert": 2, "tensor": 1, "pipeline": 1, "microbatch": 1}, "ignore_memory": True,
    }  # fmt: skip
    used = netplan.search("hgx-h100", gpus=64, use_per_domain=4, **wanted).best
    small = netplan.search("hgx-h100", gpus=32, hb_size=4, **wanted).best
    assert used.breakdown_s == pytest.approx(small.breakdown_s)


def test_use_of_peaks_is_that_of_all_gpus_bought_in_every_plan_of_an_answer() -> None:
    """Useful FLOPs over peak are one number for all plans, times their share of an iteration."""
    answer = netplan.search("hgx-h100", gpus=1028, published=False)
    timed = [*answer.found.plans, answer.found.tight, answer.usual]
    work_s = [plan.mfu * plan.iteration_time_s for plan in timed if plan]
    assert len(work_s) > 5
    assert work_s == pytest.approx([work_s[0]] * len(work_s), rel=1e-9)

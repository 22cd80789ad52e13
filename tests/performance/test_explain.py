"""Term-by-term differences: they add up, and they name the slips of the published code."""

from typing import get_args

import pytest

from netplan.inputs.choices import Mode, Strategy
from netplan.levels import Level
from netplan.performance.explain import explain, explain_modes, plan_terms
from netplan.performance.plan import Plan
from netplan.performance.search import evaluate_plan, search_plans
from netplan.performance.setting import Options, Setting
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.models import MODELS
from netplan.workloads.operations import Variant
from tests.performance.cases import small_model, training, two_tiers

LEVELS = two_tiers("B200", 8, 1024)


@pytest.mark.parametrize("strategy", get_args(Strategy))
@pytest.mark.parametrize("mode", get_args(Mode))
def test_terms_add_up_to_the_iteration_time(strategy: Strategy, mode: Mode) -> None:
    experts = 1 if strategy == "summa" else 4
    options = Options(Variant("full", experts, 1, embedding=True, lm_head=True))
    case = training(small_model())
    levels = (Level("switch", 2, 900e9), Level("ring", 4, 50e9), Level("switch", 2, 25e9))
    found = search_plans(case, levels, strategy=strategy, mode=mode, options=options, top=40)
    for timed in found.plans[::5]:
        setting = Setting(case, strategy, mode, options)
        terms = plan_terms(setting, levels, timed.plan)
        assert sum(term.seconds for term in terms) == pytest.approx(timed.iteration_time_s)
        for part, seconds in timed.breakdown_s.items():
            total = sum(term.seconds for term in terms if term.part == part)
            assert total == pytest.approx(seconds, abs=1e-15)


def test_modes_differ_by_the_slips_only() -> None:
    # GPT3-1T on 1,024 B200, the published 1D plan: its slow pipeline hops were free.
    case = training(MODELS.load("gpt-1t"))
    plan = Plan(
        Placement((Degrees(tensor=2, data=2, pipeline=2), Degrees(data=2, pipeline=64))), 1, 1024
    )
    rows = explain_modes(Setting(case), LEVELS, plan)
    changed = {row.operation or row.part for row in rows if abs(row.difference_s) > 1e-12}
    assert changed == {"fc2-bias", "vproj-bias", "pipeline_comm", "bubble"}
    (hops,) = (row for row in rows if row.part == "pipeline_comm")
    # 63 slow hops of 127: 5e-6 s and 2048/2 x 25600 x 2 B over 70 GB/s; 2 x 1024 transfers.
    slow = 63 / 127 * (5e-6 + 2048 / 2 * 25600 * 2 / 70e9)
    assert hops.difference_s == pytest.approx(2 * 1024 * slow)
    before = evaluate_plan(case, LEVELS, plan, mode="published-code").iteration_time_s
    after = evaluate_plan(case, LEVELS, plan).iteration_time_s
    assert sum(row.difference_s for row in rows) == pytest.approx(after - before)


def test_summa_modes_differ_in_the_norm() -> None:
    # l//n1 columns in place of e//n1: 2048 < 25600, so the published norms are too small.
    case = training(MODELS.load("gpt-1t"))
    plan = Plan(
        Placement((Degrees(tensor=4, context=2), Degrees(data=8, pipeline=16))), 1, 512, panels=16
    )
    levels = (LEVELS[0], Level("switch", 128, 100e9))
    rows = explain_modes(Setting(case, "summa"), levels, plan)
    norms = [row for row in rows if row.operation in ("ln1", "ln2") and row.part == "compute"]
    assert len(norms) == 4
    assert all(row.difference_s > 0 for row in norms)
    # An all_reduce inside a domain was charged once in place of twice.
    reduced = [row for row in rows if row.operation == "ln1" and row.part == "tensor_comm"]
    assert all(row.second_s == pytest.approx(2 * row.first_s) for row in reduced)


def test_two_plans_of_different_strategies() -> None:
    case = training(MODELS.load("gpt-1t"))
    one = search_plans(case, LEVELS).plans[0]
    two = search_plans(case, LEVELS, strategy="summa").plans[0]
    rows = explain(LEVELS, (Setting(case, "1d"), one.plan), (Setting(case, "summa"), two.plan))
    keys = [(row.operation, row.direction, row.part) for row in rows]
    assert len(keys) == len(set(keys))
    assert sum(row.first_s for row in rows) == pytest.approx(one.iteration_time_s)
    assert sum(row.second_s for row in rows) == pytest.approx(two.iteration_time_s)
    assert [row.part for row in rows[-3:]] == ["data_comm", "pipeline_comm", "bubble"]

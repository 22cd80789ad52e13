"""Fig. 9 to 11 of the rail-only paper by sums of parts: against searches, by hand, invariants."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.errors import InfeasibleError, InputError
from netplan.levels import Level
from netplan.performance.iteration_model import ITERATION_MODELS, IterationModel
from netplan.performance.plan import Plan
from netplan.performance.search import evaluate_plan, search_plans
from netplan.performance.setting import TrainedModel
from netplan.published.rail_only import FigureCase, figure_9, figure_10, figure_11, levels_of
from netplan.published.rail_only_figures import (
    OpenInputs,
    PlanTerms,
    figures_under,
    rail_only_figures,
)
from netplan.records import replace
from netplan.studies.sessions import study
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.models import MODELS

PTDP = ITERATION_MODELS.load("ptd-p")
SMALL = FigureCase("gpt-146b", 512, 8, 128)
TERMS = PlanTerms.of(SMALL, PTDP)


def changed(interleave: str, in_flight: str, of: str, slowdown: float) -> IterationModel:
    """The paper's model with other values of some keys."""
    keys = {
        "space.interleave": interleave,
        "overlap.in_flight": in_flight,
        "compute.attention_slowdown_of": of,
        "compute.attention_slowdown": str(slowdown),
    }
    return ITERATION_MODELS.load("ptd-p", overrides={f"ptd-p.{key}": keys[key] for key in keys})


@pytest.mark.parametrize(
    ("assumptions", "open_inputs"),
    [
        (changed("any", "interleaved", "attention", 2.5), (989e12, 80e9, 1e-6, 1e-6)),
        (changed("whole", "plain", "scores", 4.0), (500e12, 96e9, 0.0, 20e-6)),
        (changed("none", "1f1b", "scores", 1.0), (312e12, 141e9, 7e-6, 3e-6)),
    ],
)
def test_sums_of_parts_are_what_searches_find(
    assumptions: IterationModel, open_inputs: tuple[float, float, float, float]
) -> None:
    flops_per_s, memory_bytes, hb_s, network_s = open_inputs

    def searched(case: FigureCase) -> float:
        model = MODELS.load(case.model)
        training = TrainedModel(model, case.batch, flops_per_s, memory_bytes, assumptions)
        return search_plans(training, levels_of(case, hb_s, network_s)).time_s

    figures = [*figure_9(searched), *figure_10(searched), *figure_11(searched)]
    setting = OpenInputs(*open_inputs, assumptions.compute.attention_slowdown)
    summed = figures_under(setting, assumptions)
    assert [figure.key for figure in summed] == [figure.key for figure in figures]
    assert [figure.got for figure in summed] == pytest.approx([one.got for one in figures])


@pytest.mark.parametrize(("of", "of_projections"), [("attention", 3.0), ("scores", 1.0)])
def test_gamma_slows_projections_or_scores_alone(of: str, of_projections: float) -> None:
    # Eq. 10 on one GPU, one sequence: 48 s h^2 l + 6 s h V of feed-forward parts and logits,
    # 24 s h^2 l of projections, 16 s^2 h l of scores.
    model, slowdown, flops_per_s = MODELS.load("gpt-22b"), 3.0, 1e15
    s, h, layers, words = 2048, 6144, 48, 51200
    projections, scores = 24 * s * h**2 * layers, 16 * s**2 * h * layers
    other = 48 * s * h**2 * layers + 6 * s * h * words
    expected = other + of_projections * projections + slowdown * scores
    training = TrainedModel(model, 1, flops_per_s, inf, changed("any", "plain", of, slowdown))
    plan = Plan(Placement((Degrees(), Degrees())), 1, 1, 1)
    levels = (Level("switch", 1, 1e9), Level("switch", 1, 1e9))
    timed = evaluate_plan(training, levels, plan)
    assert timed.breakdown_s["compute"] == pytest.approx(expected / flops_per_s, rel=1e-12)


amounts = st.floats(min_value=0.5, max_value=4.0)


@given(amounts, amounts, amounts, amounts)
def test_no_setting_that_asks_for_more_is_faster(
    peak: float, memory: float, latency: float, slowdown: float
) -> None:
    base = OpenInputs(peak * 1e15, memory * 80e9, latency * 1e-6, latency * 1e-6, slowdown)
    best_s = TERMS.best_s(base)
    assert TERMS.best_s(replace(base, memory_bytes=2 * base.memory_bytes)) <= best_s
    assert TERMS.best_s(replace(base, flops_per_s=2 * base.flops_per_s)) < best_s
    for name in ("hb_latency_s", "network_latency_s", "slowdown"):
        assert TERMS.best_s(replace(base, **{name: 2 * getattr(base, name)})) >= best_s


def test_terms_are_no_less_than_nothing_and_lie_by_memory() -> None:
    # Differences of times: nothing of a plan is won by FLOPs or latencies.
    assert np.all(TERMS.seconds >= -1e-9 * TERMS.seconds.sum(axis=1, keepdims=True))
    assert np.all(np.diff(TERMS.memory_bytes) >= 0)


def test_no_plan_that_fits_is_said_with_the_least() -> None:
    with pytest.raises(InfeasibleError, match="no plan fits 1 GB: the least takes"):
        TERMS.best_s(OpenInputs(1e15, 1e9, 0.0, 0.0, 1.0))


def test_models_whose_times_do_not_add_up_are_refused() -> None:
    with pytest.raises(InputError, match=r"compute\.operations is counted, got detailed: take ptd"):
        rail_only_figures("rail-only-paper", iteration_model="4d")


def test_the_answer_shows_every_figure_and_both_gaps() -> None:
    answer = rail_only_figures("rail-only-paper", accelerator="h100-80gb", iteration_model="ptd-p")
    data = answer.to_dict()
    gaps = [abs(row["percent"] - row["published_percent"]) for row in data["figures"]]
    assert data["mean_gap_points"] == pytest.approx(sum(gaps) / 14)
    assert data["worst_gap_points"] == max(gaps)
    assert answer.text().count("gpt-146b") == 3


def test_the_study_s_nearest_setting_stands_beside_the_paper() -> None:
    answer = study(
        "rail-only-figures",
        vary={
            "iteration-model.space.interleave": "whole",
            "iteration-model.overlap.in_flight": "interleaved",
            "accelerator.memory_bytes": 80e9,
            "accelerator.tensor_flops_per_s": [800e12, 989e12],
            "accelerator.hb_latency_s": [1e-6, 50e-6],
            "accelerator.network_latency_s": 50e-6,
        },
    )
    nearest = min(answer.rows, key=lambda row: float(str(row["mean_gap_points"])))
    assert nearest["accelerator.tensor_flops_per_s"] == 800e12
    assert nearest["mean_gap_points"] == pytest.approx(1.736, abs=5e-4)
    assert nearest["worst_gap_points"] == pytest.approx(5.363, abs=5e-4)
    gaps = [abs(value.gap or 0.0) for value in answer.published]
    assert len(gaps) == 14
    assert sum(gaps) / 14 == pytest.approx(float(str(nearest["mean_gap_points"])))

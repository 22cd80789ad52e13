"""Host times of stacks are those that their procedure finds; bars are made of what models say."""

import numpy as np
import pytest

from netplan.performance.serving.bars import serving_bars
from netplan.performance.stacks import SERVING_STACKS
from netplan.published.measured_serving import BY_SOFTWARE, predicted
from netplan.workloads.models import MODELS
from tests.published.serving_fit import (
    FitProblem,
    left_out_points,
    made_bar,
    points_of,
    shipped_is_found,
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm", "typical-server"])
def test_no_number_of_a_shipped_stack_has_a_better_neighbour(name: str) -> None:
    assert shipped_is_found(name) == SERVING_STACKS.load(name)


@pytest.mark.slow
def test_bars_of_answers_are_made_of_points_without_their_model() -> None:
    points = left_out_points()
    models = np.array([point.model for point in points.points])
    dense = np.array([MODELS.load(name).experts is None for name in models.tolist()])
    bars = {bar.kind: bar for bar in serving_bars() if bar.quantity == "tpot"}
    for kind, some in (("dense", dense), ("experts", ~dense)):
        made, bar = made_bar(kind, points.ratios[some], models[some].tolist(), 1.1), bars[kind]
        assert (made.points, made.models) == (bar.points, tuple(sorted(bar.models)))
        for end in ("centre", "low", "high"):
            assert getattr(made, end) == pytest.approx(getattr(bar, end), abs=5e-3)
        assert made.held == pytest.approx(bar.held, abs=6e-3)
        assert made.held_wide == pytest.approx(bar.held_wide, abs=6e-3)


@pytest.mark.parametrize("name", ["vllm", "tensorrt-llm"])
def test_a_fit_sees_the_times_that_verify_has(name: str) -> None:
    """Steps of pools are interpolated between numbers of requests, all others are the same."""
    points = points_of(name)[::25]
    times = FitProblem.of(points, name).times(SERVING_STACKS.load(name))
    expected = predicted(points, BY_SOFTWARE)
    assert times.tpot == pytest.approx(expected.tpot, rel=2e-3)
    assert times.ttft == pytest.approx(expected.ttft, rel=3e-3)
    whole = [place for place, point in enumerate(points) if point.mode == "aggregated"]
    assert times.tpot[whole] == pytest.approx(expected.tpot[whole], rel=1e-12)


def test_an_error_counts_up_to_a_factor_of_two() -> None:
    """Of one point in two: |ln| of TPOT and TTFT, each 0.7 at most."""
    points = points_of("vllm")[:2]
    problem, stack = FitProblem.of(points, "vllm"), SERVING_STACKS.load("vllm")
    times, first = problem.times(stack), np.array([True, False])
    measured = [seconds[0] for seconds in (problem.measured.tpot, problem.measured.ttft)]
    logs = [
        min(abs(np.log(seconds[0] / seen)), 0.7)
        for seconds, seen in zip((times.tpot, times.ttft), measured, strict=True)
    ]
    assert problem.loss(stack, first) == pytest.approx(sum(logs) / 2)
    assert problem.loss(stack.changed(prompt_s=1e4), first) == pytest.approx((logs[0] + 0.7) / 2)


def test_a_bar_holds_models_that_it_is_not_made_of() -> None:
    """Model a lies at 1.0, b at 1.05 and 1.2: of b, 1.0 to 1.0 x 1.1 holds one of two."""
    ratios, models = np.array([1.0, 1.0, 1.05, 1.2]), ["a", "a", "b", "b"]
    bar = made_bar("some", ratios, models, 1.1)
    assert bar.models == ("a", "b")
    # The bar of b goes from 1.0575 to 1.1925, widened from 0.961: both of a.
    assert (bar.held, bar.held_wide) == (0.0, 0.75)
    assert made_bar("one", ratios, ["a"] * 4, 1.1).held is None

"""Error bars of runs that nobody fitted: made anew, and held to what answers print."""

import numpy as np
import pytest

from netplan.calibration.fit import quantile
from netplan.calibration.published import published_runs
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.published.left_out import (
    LeftOut,
    LeftOutBar,
    bar_checks,
    by_date,
    left_out,
    same_model,
)
from netplan.published.verify import verify
from netplan.records import replace


@pytest.fixture(scope="module")
def found() -> LeftOut:
    return left_out()


def bar_of(found: LeftOut, without: str, kind: str) -> LeftOutBar:
    return next(bar for bar in found.bars if (bar.without, bar.kind) == (without, kind))


def test_bars_come_out_as_they_were_set(found: LeftOut) -> None:
    """Within half a point of what an independent implementation came to."""
    checks = [*bar_checks(found)]
    assert [check.name for check in checks if check.verdict != "pass"] == []
    assert len(checks) == 3 * 12 + 3
    experts = bar_of(found, "source", "moe")
    assert experts.mean == pytest.approx(0.104, abs=0.005)
    assert (experts.low, experts.high) == pytest.approx((0.800, 1.222), abs=0.005)


def test_answers_print_the_bars_that_are_made_anew(found: LeftOut) -> None:
    part = ITERATION_MODELS.load("calibrated").calibration
    assert part is not None
    errors = part.errors.dated
    assert errors is not None
    for kind in ("dense", "moe", "hybrid"):
        bar, printed = bar_of(found, "source", kind), errors.of(kind, tpu=False).scored
        assert (printed.low, printed.high) == (round(bar.low, 2), round(bar.high, 2))
    # Without its model a class is off by more, and so is the bar that is transferred.
    for bar in found.bars:
        if bar.without == "model" and bar.printed is not None:
            assert bar.printed.low < 1.03 * bar.low
            assert bar.printed.high > bar.high


def test_a_bar_that_no_longer_holds_fails(found: LeftOut) -> None:
    wider = tuple(
        replace(bar, high=bar.high + 0.006) if bar.kind == "hybrid" else bar for bar in found.bars
    )
    failed = [
        check.name for check in bar_checks(replace(found, bars=wider)) if check.verdict == "fail"
    ]
    assert failed.count("hybrid: measured over predicted, 95th percentile, %") >= 2


def test_left_out_runs_are_further_off_than_fitted_ones(found: LeftOut) -> None:
    fitted = {"dense": 0.037, "moe": 0.076, "hybrid": 0.050, "tpu-dense": 0.018, "tpu-moe": 0.133}
    for kind, mean in fitted.items():
        assert bar_of(found, "source", kind).mean > mean
        if kind not in ("tpu-dense", "tpu-moe"):
            assert bar_of(found, "model", kind).mean > bar_of(found, "source", kind).mean


def test_bars_of_other_sources_hold_about_what_they_say(found: LeftOut) -> None:
    """Of dense models and of experts within 5 points; hybrids have four sources alone."""
    for point in found.coverage:
        if point.kind in ("dense", "moe"):
            assert point.achieved == pytest.approx(point.stated, abs=0.05), point
    assert {point.kind for point in found.coverage} >= {"dense", "moe", "hybrid"}


def test_quantiles_weigh_runs() -> None:
    """Of 1, 2 and 4 with weights 1, 2 and 1 the middles are 1/8, 1/2 and 7/8 of the weight."""
    ratios, weights = np.array([4.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0])
    assert quantile(ratios, weights, 0.5) == pytest.approx(2)
    assert quantile(ratios, weights, 0.125) == pytest.approx(1)
    # Half way between the middles of 1 and 2 is their geometric mean.
    assert quantile(ratios, weights, 0.3125) == pytest.approx(2**0.5)


def test_models_with_fewer_layers_are_left_out_together() -> None:
    runs = published_runs("dated-runs")
    names = same_model(runs)
    together = {run.model.name for run, name in zip(runs, names, strict=True) if "grok" in name}
    assert len(together) == 6
    assert len({name for name in names if "grok" in name}) == 1
    assert len(set(names)) == len({run.model.name for run in runs}) - 5


def test_a_recipe_of_the_date_leaves_the_plan() -> None:
    run = next(run for run in published_runs("dated-runs") if run.again.modules)
    dated = by_date(run)
    assert dated.recipe is not None
    assert dated.recipe.from_date
    assert not dated.again.modules
    assert dated.degrees == run.degrees


def test_bars_are_a_list_of_their_own() -> None:
    text = verify(bars=True).text(80)
    assert "0 fail" in text
    assert "10.4 %   0.801   1.222   0.80-1.22" in text
    assert len(text.splitlines()) <= 25

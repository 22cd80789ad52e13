"""Measured points of serving: each is predicted as it ran, medians are medians, gates can fail."""

from statistics import median

import numpy as np
import pytest

from netplan.performance.serving.cases import (
    ServingSoftware,
    domain_levels,
    formats_of,
    serving_case,
)
from netplan.performance.serving.disaggregated import Pools, disaggregated
from netplan.performance.serving.outcomes import Requests, ServingResult, aggregated
from netplan.performance.serving.plans import ServingPlans, serving_plans
from netplan.performance.stacks import SERVING_STACKS
from netplan.published import measured_serving
from netplan.published.measured_serving import (
    ALL,
    BY_SOFTWARE,
    MOST,
    OWN,
    TYPICAL,
    WAYS,
    MeasuredServers,
    PointErrors,
    ServingPoint,
    measured,
    measured_point_checks,
    point_errors,
    predicted,
    serving_points,
)
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS, Model

KNOWN = [one for one in serving_points() if one.gpus and one.concurrency and not one.overload]
SOME = KNOWN[::97]


def plans(model: Model, one: MeasuredServers | None) -> ServingPlans:
    """One server by the enumeration of all plans, so many times."""
    assert one is not None
    count = one.count or 1
    fixed = {"tensor": one.tensor, "pipeline": one.pipeline, "replicas": count}
    if model.experts:
        fixed |= {"attention_data": one.attention_data, "expert": one.expert or 1}
    found = serving_plans(model, one.gpus_each * count, (one.gpus_each,), fixed)
    assert found.count == 1
    return found


def alone(point: ServingPoint) -> ServingResult:
    """A point by itself, in levels of its own size."""
    chip, model = ACCELERATORS.load(point.accelerator), MODELS.load(point.model)
    assert point.gpus is not None
    stack = SERVING_STACKS.load(OWN[point.framework])
    stack = stack.changed(exchange="deepep") if point.sends else stack
    levels, software = domain_levels(chip, max(point.gpus, chip.hb_size)), ServingSoftware(stack)
    requests = Requests(point.prompt, point.output)
    formats = formats_of(chip, model, point.precision, software=software)
    case = serving_case(chip, model, levels, requests, formats, software)
    if point.mode == "aggregated":
        return aggregated(case, plans(model, point.server_as_run), point.concurrency or 0)
    pools = Pools(plans(model, point.prefill), plans(model, point.decode))
    return disaggregated(case, pools, point.concurrency or 0)


def test_points_at_once_are_points_one_by_one() -> None:
    assert {one.mode for one in SOME} == {"aggregated", "disaggregated"}
    times = predicted(SOME, BY_SOFTWARE)
    for point, tpot_s, ttft_s in zip(SOME, times.tpot, times.ttft, strict=True):
        found = alone(point)
        assert (tpot_s, ttft_s) == (
            pytest.approx(found.tpot_s[0], rel=1e-9),
            pytest.approx(found.ttft_s[0], rel=1e-9),
        )


def test_multiplied_degrees_have_the_times_of_servers_that_ran() -> None:
    """Rows alike but for their degrees, with the same two times, are one measurement."""

    def key(one: ServingPoint) -> tuple[object, ...]:
        times = tuple(f"{time:.4g}" for time in (one.ttft_s, one.tpot_s))
        asked = (one.prompt, one.output, one.concurrency)
        return one.model, one.accelerator, one.framework, one.precision, *asked, *times

    plain = {key(one): one.server for one in KNOWN if one.server_as_run is one.server}
    multiplied = [one for one in KNOWN if one.server_as_run is not one.server]
    assert len(multiplied) == 112
    twins = [(one.server_as_run, plain[key(one)]) for one in multiplied if key(one) in plain]
    assert len(twins) > 20
    for ran, twin in twins:
        assert ran is not None
        assert twin is not None
        assert (ran.tensor, ran.attention_data) == (twin.tensor, twin.attention_data)
        assert ran.expert == twin.expert


def test_medians_are_those_of_the_points_of_a_group() -> None:
    found = {(one.kind, one.group): one for one in point_errors()}
    assert found[ALL, ALL].points == len(KNOWN) == 1127
    for kind in ("mode", "framework", "accelerator", "model"):
        assert sum(one.points for one in found.values() if one.kind == kind) == len(KNOWN)
    way = WAYS[0]
    some = [one for one in KNOWN if one.model == "qwen3-235b-a22b"]
    times = predicted(some, way)
    errors = [abs(got / one.ttft_s - 1) for got, one in zip(times.ttft, some, strict=True)]
    assert found["model", "qwen3-235b-a22b"].ttft[way.name] == pytest.approx(median(errors))


@pytest.mark.parametrize("software", [None, *OWN])
def test_error_bars_of_stacks_hold_four_of_five_points(software: str | None) -> None:
    some = [one for one in KNOWN if software in (None, one.framework)]
    way = TYPICAL if software is None else BY_SOFTWARE
    stack = SERVING_STACKS.load(way.stack_of(some[0]))
    errors = predicted(some, way).errors(measured(some))
    bars = (errors.tpot, stack.tpot_error), (errors.ttft, stack.ttft_error)
    for error, bar in bars:
        assert 0.78 < np.mean(error <= bar) < 0.82


def test_measured_kernels_are_nearer_than_a_roofline() -> None:
    whole = point_errors()[0]
    for name, most in MOST.items():
        errors = getattr(whole, name)
        assert errors["own"] < errors["typical"] <= most < errors["roofline"]


def test_errors_beyond_what_is_recorded_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    far = {way.name: 0.5 for way in WAYS}
    near = {way.name: 0.1 for way in WAYS}
    order = {"tpot": True, "ttft": True}
    groups = (
        PointErrors(ALL, ALL, 10, far, near, order),
        PointErrors("model", "kimi-k2.5", 10, near, far, order),
        PointErrors("accelerator", "gb200", 10, near, near, dict.fromkeys(order, False)),
    )
    monkeypatch.setattr(measured_serving, "point_errors", lambda: groups)
    for others in ("known_server_checks", "outlier_checks"):
        monkeypatch.setattr(measured_serving, others, tuple)
    verdicts = [one.verdict for one in measured_point_checks()]
    # All points twice, by either stack; a group by its own.
    assert verdicts == ["fail", "known"] * 2 + ["known", "fail"] + ["known", "known"]

"""Simulated iterations over several sites take as long as the exact path says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netplan
from netplan.errors import NetplanError
from netplan.performance.sites import pipeline_s
from netplan.simulation.distance import Distance, with_distance
from netplan.simulation.program_work import PlanWork
from netplan.simulation.run import simulate_pipelines
from netplan.simulation.tasks import Pass, Pipeline, delay


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.integers(1, 12), st.integers(0, 3), st.floats(0.0, 3.0), st.data())
def test_borders_delay_as_the_longest_path_says(
    stages: int, microbatches: int, ahead: int, way_s: float, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, stages - 2))
    passes = (Pass(delay(0.25)),) * stages, (Pass(delay(0.5)),) * stages
    none = ((),) * (stages - 1)
    pipeline = Pipeline(stages, microbatches, *passes, none, none, finish=((),) * stages)
    borders_s = tuple(way_s * (stage == cut) for stage in range(stages))
    held = tuple(ahead * (stage <= cut) for stage in range(stages))
    far = with_distance(PlanWork((pipeline,), {}), Distance(borders_s, held)).pipelines
    simulated = simulate_pipelines(far, links=0, full=True).pipelines[0]
    exact_s = pipeline_s(stages, microbatches, 0.25, 0.5, [cut], way_s, ahead)
    assert simulated.iteration_time_s == pytest.approx(exact_s, rel=1e-6)


def test_what_an_exchange_shows_stands_behind_the_passes() -> None:
    passes = (Pass(delay(1.0)),) * 2
    pipeline = Pipeline(2, 4, passes, passes, ((),), ((),), finish=(delay(0.5),) * 2)
    work = PlanWork((pipeline,), {})
    far = with_distance(work, Distance((0.0, 0.0), (0, 0), 0.75))
    near_s, far_s = (
        simulate_pipelines(plan.pipelines, links=0, full=True).pipelines[0].iteration_time_s
        for plan in (work, far)
    )
    assert far_s - near_s == pytest.approx(0.75)


def test_no_distance_leaves_a_simulated_run_to_the_last_bit() -> None:
    passes = (Pass(delay(0.1)),) * 3
    pipeline = Pipeline(3, 7, passes, passes, ((0.3,),) * 2, ((0.3,),) * 2, finish=((),) * 3)
    work = PlanWork((pipeline,), {})
    near = with_distance(work, Distance((0.0,) * 3, (0,) * 3)).pipelines
    assert near[0].send_forward == pipeline.send_forward
    times = (simulate_pipelines(plan, links=0, full=True) for plan in (near, work.pipelines))
    first, second = (found.pipelines[0].iteration_time_s for found in times)
    assert first == second


RUN = {"gpus": 64, "model": "llama-3-8b"}
STAGED = RUN | {"fixed": {"pipeline": 4, "interleave": 1}}


def test_simulate_adds_what_sites_does() -> None:
    where = {"sites": "2", "km": 1000.0, "ratio": 64.0, "across": "data"}
    near = netplan.simulate("hgx-h100", **RUN).found.iteration_time_s
    far = netplan.simulate("hgx-h100", **RUN, **where)
    time = netplan.sites("hgx-h100", **RUN, **where).grid[0].time
    assert far.found.iteration_time_s - near == pytest.approx(time.time_s - time.one_site_s)
    assert far.found.analytic_time_s == time.time_s
    assert far.to_dict()["over_sites"]["loss"] == time.loss
    assert "2 sites (1,000 km, 64:1) by data: 32 + 32 replicas" in far.text()


def test_a_simulated_pipeline_loses_about_what_the_closed_form_does() -> None:
    where = {"sites": "2", "km": 3000.0, "ratio": 1.0, "across": "pipeline"}
    near = netplan.simulate("hgx-h100", **STAGED).found.iteration_time_s
    far = netplan.simulate("hgx-h100", **STAGED, **where).found.iteration_time_s
    time = netplan.sites("hgx-h100", **STAGED, **where).grid[0].time
    assert np.isclose(far - near, time.time_s - time.one_site_s, atol=0.002 * near)
    assert far > near


def test_an_iteration_has_one_length_and_ratio() -> None:
    with pytest.raises(NetplanError, match="one length and one ratio"):
        netplan.simulate("hgx-h100", **RUN, sites="2")

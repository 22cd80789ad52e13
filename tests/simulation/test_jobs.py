"""Jobs that share a fabric: alone as alone, apart as alone, together no faster."""

import numpy as np
import pytest

from netplan.records import replace
from netplan.simulation.simulate import Conditions, Job, simulate_jobs, simulate_training
from netplan.topologies.expand import expand
from netplan.topologies.graph import FabricGraph
from tests.simulation.placed import placed

SMALL = {"gpus": 16, "model": "gpt-22b", "batch": 16, "fixed": {"pipeline": 2}}


def fabric(name: str) -> FabricGraph:
    """64 GPUs in HB domains of 4."""
    return placed(fabric=name)[1]


def jobs(count: int, *, turn: bool, batches: tuple[int, ...] = (16, 16, 16, 16)) -> list[Job]:
    """Jobs of 16 GPUs on a fabric of 64: one after the other, or domain by domain in turn."""
    found = []
    for number in range(count):
        run, _ = placed(**{**SMALL, "batch": batches[number]})
        domains = number + count * np.arange(4) if turn else 4 * number + np.arange(4)
        gpus = (4 * domains[:, None] + np.arange(4)).ravel()
        found.append(Job(run.setting, run.timed, run.fabric, gpus))
    return found


def test_one_job_on_all_gpus_is_a_training_run() -> None:
    run, graph = placed()
    alone = simulate_training(run.setting, run.timed, run.fabric, graph)
    job = Job(run.setting, run.timed, run.fabric)
    found = simulate_jobs([job], graph)
    assert found.times_s == (alone.iteration_time_s,)
    assert found.whole.links == alone.links
    assert found.whole.stages == alone.stages


@pytest.mark.parametrize("name", ["rail-only", "fat-tree"])
def test_jobs_that_share_no_link_take_as_long_as_alone(name: str) -> None:
    """Tiles of a cluster, as in Sec. 7 of the rail-only paper."""
    graph, both = fabric(name), jobs(2, turn=False)
    alone = [simulate_jobs([one], graph).times_s[0] for one in both]
    assert list(simulate_jobs(both, graph).times_s) == pytest.approx(alone, rel=1e-12)


def test_jobs_in_turn_on_few_uplinks_slow_each_other_down() -> None:
    run, _ = placed(oversubscription=7)
    graph = expand(run.spec, run.fabric.sizing)
    four = jobs(4, turn=True)
    alone = [simulate_jobs([one], graph).times_s[0] for one in four]
    together = simulate_jobs(four, graph)
    assert all(a <= b * (1 + 1e-12) for a, b in zip(alone, together.times_s, strict=True))
    assert max(together.times_s) > 1.01 * max(alone)
    # Without contention nobody notices the others.
    nothing_waits = Conditions(contention=False)
    free = simulate_jobs(four, graph, nothing_waits)
    apart = [simulate_jobs([one], graph, nothing_waits).times_s[0] for one in four]
    assert list(free.times_s) == apart
    assert free.whole.waiting_s == 0


def test_the_heavier_of_two_jobs_loses_less() -> None:
    """Weights are relative; on shared uplinks the job of weight 8 has nearly what it asks."""
    run, _ = placed(oversubscription=7)
    graph, both = expand(run.spec, run.fabric.sizing), jobs(2, turn=True)
    fluid = Conditions(sharing="fluid")
    even, same, uneven = (
        simulate_jobs(
            [replace(job, weight=weight) for job, weight in zip(both, weights, strict=True)],
            graph,
            fluid,
        ).times_s
        for weights in ((1.0, 1.0), (5.0, 5.0), (8.0, 1.0))
    )
    alone_s = simulate_jobs(both[:1], graph, fluid).times_s[0]
    assert even == pytest.approx(same, rel=1e-9)
    assert alone_s < uneven[0] < min(even)
    assert uneven[0] < uneven[1]


def test_loads_of_jobs_add_up() -> None:
    batches = (16, 32, 64, 16)
    graph, three = fabric("fat-tree"), jobs(3, turn=True, batches=batches)
    parts = [simulate_jobs([one], graph).whole for one in three]
    found = simulate_jobs(three, graph)
    for at, group in enumerate(found.whole.groups):
        own_s = [one.groups[at].utilisation * one.iteration_time_s for one in parts]
        shares = (busy / mean for busy, mean in zip(own_s, found.times_s, strict=True))
        assert group.utilisation == pytest.approx(sum(shares))
    rates = (batch / time_s for batch, time_s in zip(batches, found.times_s, strict=False))
    assert found.whole.sequences_per_s == pytest.approx(sum(rates))


def test_stages_of_all_jobs_are_numbered_on() -> None:
    graph, both = fabric("fat-tree"), jobs(2, turn=True)
    found = simulate_jobs(both, graph, Conditions(spans=True)).whole
    assert [one.stage for one in found.stages] == [0, 1, 2, 3]
    assert {one.pipeline for one in found.spans} == {0, 1}
    assert not simulate_jobs(both, graph).whole.spans

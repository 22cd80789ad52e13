"""Slow GPUs and jitter: closed forms on both sides, cases by hand, and every GPU by itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.arrays import Floats
from netplan.errors import InputError, NetplanError
from netplan.questions.simulate import Simulate
from netplan.records import replace
from netplan.simulation import tasks
from netplan.simulation.run import simulate_pipelines
from netplan.simulation.simulate import Conditions
from netplan.simulation.slow_gpus import (
    jittered,
    largest_of,
    members_of,
    slowed,
    stage_slowness,
    who_waits,
)
from netplan.simulation.tasks import Pass, Pipeline, delay
from netplan.traffic.placement import Degrees, Placement

from .placed import Case, placed, simulated

CASES: list[Case] = [
    {"fixed": {"pipeline": 4, "tensor": 4}},
    {"fixed": {"pipeline": 4, "tensor": 4, "interleave": 2}, "zero_stage": 1},
    {"fixed": {"pipeline": 1, "tensor": 4, "microbatch": 1}, "zero_stage": 3},
    {"fixed": {"pipeline": 2, "expert": 4}, "experts": 8, "top_k": 2},
    {"fixed": {"pipeline": 4, "tensor": 4}, "fabric": "rail-only", "accelerator": "h100-80gb"},
]


def with_share(share: float, gpus: list[int] | None = None, **case: object) -> float:
    """Time with some GPUs at a share of their rate, all of them by default [s]."""
    _, graph = placed(**case)
    shares = np.ones(graph.gpus)
    shares[gpus if gpus is not None else slice(None)] = share
    return simulated(Conditions(shares=shares), **case).iteration_time_s


@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_slow_gpu_lies_between_both_closed_forms(case: Case) -> None:
    """No less than its own work or the whole run; no more than all as slow, or all of its work."""
    whole = simulated(**case)
    slow_s, every_s = with_share(0.5, [5], **case), with_share(0.5, **case)
    run, _ = placed(**case)
    stage = run.placement.groups("pipeline", snake=True)
    mine = next(k for k in range(stage.shape[1]) if 5 in run.placement.gpu_of_rank[stage[:, k]])
    computes_s = whole.stages[mine].compute_s
    assert max(whole.iteration_time_s, 2 * computes_s) <= slow_s * (1 + 1e-9)
    assert slow_s <= every_s * (1 + 1e-9) <= 2 * whole.iteration_time_s * (1 + 1e-9)
    more_s = run.timed.beside_slow_gpu_s(0.5) - run.timed.iteration_time_s
    assert slow_s <= (whole.iteration_time_s + more_s) * 1.001
    assert slow_s > 1.1 * whole.iteration_time_s
    assert with_share(1.0, [5], **case) == whole.iteration_time_s


def test_a_single_stage_pays_all_that_it_computes() -> None:
    fixed = {"pipeline": 1, "tensor": 4, "microbatch": 1}
    case: Case = {"fixed": fixed, "zero_stage": 0, "iteration_model": "ptd-p"}  # overlaps nothing
    whole = simulated(Conditions(contention=False), **case)
    _, graph = placed(**case)
    shares = np.ones(graph.gpus)
    shares[5] = 0.8
    found = simulated(Conditions(contention=False, shares=shares), **case)
    (stage,) = whole.stages
    expected_s = whole.iteration_time_s + 0.25 * stage.compute_s
    assert found.iteration_time_s == pytest.approx(expected_s, rel=1e-6)


def test_the_shared_links_of_a_fluid_know_slow_gpus_too() -> None:
    case: Case = {"fixed": {"pipeline": 4, "tensor": 4}}
    _, graph = placed(**case)
    shares = np.ones(graph.gpus)
    shares[5] = 0.5
    booked, fluid = (
        simulated(Conditions(shares=shares, sharing=way), **case).iteration_time_s
        for way in ("booked", "fluid")
    )
    assert fluid == pytest.approx(booked, rel=0.02)
    assert fluid > 1.2 * simulated(Conditions(sharing="fluid"), **case).iteration_time_s


def chain(stages: int, microbatches: int, finish_s: float = 0.0) -> Pipeline:
    """Uneven stages that finish with what all replicas wait for."""
    ahead = tuple(Pass(delay(1.0 + 0.1 * stage)) for stage in range(stages))
    back = tuple(Pass(delay(2.0 + 0.1 * stage)) for stage in range(stages))
    sent = ((0.05,),) * (stages - 1)
    finish = (delay(finish_s),) * stages if finish_s else ()
    return Pipeline(stages, microbatches, ahead, back, sent, sent, finish=finish)


def each_gpu_by_itself(pipeline: Pipeline, factors: Floats) -> float:
    """All replicas of 1F1B, stage by stage, which meet before they finish; (replicas, stages)."""
    replicas, stages = factors.shape
    ends = np.zeros((replicas, stages))
    for replica, slowness in enumerate(factors):
        run = simulate_pipelines([slowed(pipeline, slowness)], links=0, full=True, spans=True)
        for span in run.spans:
            if span.kind in (0, 1):
                ends[replica, span.stage] = max(ends[replica, span.stage], span.end_s)
    finish = np.array([tasks.alone_s(work) for work in pipeline.finish])
    return float((ends + finish * factors).max())


@given(
    st.integers(1, 4), st.lists(st.sampled_from([1.0, 0.9, 0.5, 0.25]), min_size=16, max_size=16)
)
@settings(max_examples=25, deadline=None)
def test_classes_of_replicas_give_the_time_of_all(stages: int, left: list[float]) -> None:
    """Any slow GPUs: the slowest class decides as if every replica were simulated."""
    placement = Placement((Degrees(pipeline=stages), Degrees(data=16 // stages)))
    shares = np.array(left)[: placement.gpus]
    pipeline, ranks = chain(stages, 6, 0.5), np.arange(placement.gpus)
    every = (1 / shares)[members_of(placement)].max(axis=2)
    classes = stage_slowness(shares, placement, ranks)
    assert len(classes) <= len(every)
    found = max(
        simulate_pipelines([slowed(pipeline, row)], links=0).iteration_time_s for row in classes
    )
    assert found == pytest.approx(each_gpu_by_itself(pipeline, every), rel=1e-12)
    (together,) = stage_slowness(shares, placement, ranks, meeting=16 // stages)
    upper = simulate_pipelines([slowed(pipeline, together)], links=0).iteration_time_s
    assert found <= upper * (1 + 1e-12)


def test_who_waits_is_everybody_else() -> None:
    """2 x 4 x 2 GPUs: one beside it, six behind, eight of the other replica; in servers seven."""
    placement = Placement((Degrees(tensor=2, pipeline=4), Degrees(data=2)))
    shares = np.ones(16)
    shares[3] = 0.5
    cost = who_waits(shares, placement, np.arange(16), (3.0, 2.0))
    assert cost is not None
    assert (cost.group_gpus, cost.pipeline_gpus, cost.replica_gpus) == (1, 6, 8)
    assert cost.waiting_gpus == 15
    assert cost.lost_share == pytest.approx(1 / 3)
    server = who_waits(shares, placement, np.arange(16), (3.0, 2.0), apart=True)
    assert server is not None
    assert server.waiting_gpus == 7
    assert who_waits(np.ones(16), placement, np.arange(16), (3.0, 2.0)) is None


@pytest.mark.parametrize(("stages", "microbatches"), [(1, 1), (1, 5), (3, 2), (4, 9)])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_as_good_as_no_jitter_changes_nothing(
    stages: int, microbatches: int, schedule: str
) -> None:
    pipeline = replace(chain(stages, microbatches, 0.5), schedule=schedule)
    run = simulate_pipelines([pipeline], links=0, full=True, spans=True)
    drawn = jittered(pipeline, run.spans, spread=1e-12, members=4, replicas=3, seed=0)
    assert drawn.p50_s == pytest.approx(run.iteration_time_s, rel=1e-9)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_runs_on_links_are_read_again_as_they_were(case: Case) -> None:
    found = simulated(Conditions(jitter=1e-12, full=True), **case)
    assert found.jitter is not None
    assert found.jitter.p95_s == pytest.approx(found.iteration_time_s, rel=1e-6)


def test_jitter_is_what_single_gpus_make_of_it() -> None:
    """Every GPU of two replicas of two stages of three draws its own factor for each stretch."""
    spread, draws, rng = 0.1, 4000, np.random.default_rng(5)
    sigma = np.sqrt(np.log1p(spread**2))

    def passes(seconds: float) -> Floats:
        """Two stretches, after each of which three GPUs wait for each other; (draws, 2)."""
        factors = np.exp(sigma * rng.standard_normal((draws, 2, 2, 3)) - sigma**2 / 2)
        sums: Floats = factors.max(axis=3).sum(axis=2)
        return seconds / 2 * sums

    # Two microbatches, 1F1B: F0 F0' B0 B0' on stage 0, F1 B1 F1' B1' on stage 1.
    first = passes(1.0)
    second = first + passes(1.0)
    last = first + passes(1.0) + passes(2.0)
    back = np.maximum(second, last) + passes(2.0)
    last = np.maximum(second, last) + passes(1.0) + passes(2.0)
    back = np.maximum(back, last) + passes(2.0)
    expected_s = np.maximum(back, last).max(axis=1)
    meeting = tasks.Burst((tasks.Message((0,), 1e-9),))
    ahead = Pass(tasks.one_after_the_other(0.5, meeting, 0.5, meeting))
    behind = Pass(tasks.one_after_the_other(1.0, meeting, 1.0, meeting))
    pipeline = Pipeline(2, 2, (ahead,) * 2, (behind,) * 2, ((),), ((),))
    run = simulate_pipelines([pipeline], links=1, full=True, spans=True)
    drawn = jittered(pipeline, run.spans, spread=spread, members=3, replicas=2, seed=9)
    # Replicas meet when they finish, and these have nothing to finish: read off the slower one.
    assert run.iteration_time_s == pytest.approx(9.0, abs=1e-6)
    assert drawn.mean_s == pytest.approx(expected_s.mean(), rel=0.005)
    assert drawn.p95_s == pytest.approx(np.quantile(expected_s, 0.95), rel=0.012)


@given(st.floats(0.001, 0.4), st.integers(1, 10_000))
@settings(max_examples=20, deadline=None)
def test_more_gpus_wait_longer(spread: float, members: int) -> None:
    one, many = (largest_of(np.random.default_rng(1), 500, spread, count) for count in (1, members))
    assert (many >= one * (1 - 1e-12)).all()


def test_jitter_is_drawn_by_its_seed() -> None:
    case: Case = {"fixed": {"pipeline": 4, "tensor": 4}}
    first, again, other = (
        simulated(Conditions(jitter=0.05, seed=seed), **case).jitter for seed in (1, 1, 2)
    )
    assert first == again != other
    assert first is not None
    assert first.p50_s <= first.p95_s
    assert first.p50_s > simulated(**case).iteration_time_s


def test_a_slow_server_loses_its_own_tokens() -> None:
    asked = {"gpus": 16, "workload": "serving", "model": "llama-3-8b"}
    fixed = {"fixed": {"tensor": 2, "pipeline": 1}}
    whole = Simulate.make("hgx-h100", **asked, **fixed).ask().found
    answer = Simulate.make("hgx-h100", **asked, **fixed, slow=("gpu-5=0.5",)).ask()
    slow = answer.found
    assert slow.slow is not None
    assert (slow.slow.waiting_gpus, slow.replicas) == (1, 8)
    servers = 7 / whole.iteration_time_s + 1 / slow.iteration_time_s
    expected = whole.sequences_per_s * servers * whole.iteration_time_s / 8
    assert slow.sequences_per_s == pytest.approx(expected, rel=1e-9)
    assert "1 slow GPU costs" in str(answer)
    assert answer.to_dict()["slow"]["waiting_gpus"] == 1


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"slow": ("gpu-99=0.5",)}, "unknown part 'gpu-99'"),
        ({"slow": ("gpu-5=1.5",)}, "write LINK=SHARE or GPU=SHARE, above 0 and at most 1"),
        ({"slow": ("gpu-5=0",)}, "nothing is left: use --fail"),
        ({"slow": ("gpu-5=1e-5",)}, "leaves a GPU 1e-05 of its rate: leave it 0.001 or more"),
        ({"jitter": 1.5}, "--jitter 1.5: give a relative spread from 0 to below 1, such as 0.02"),
        ({"jitter": -0.1}, "--jitter -0.1: give a relative spread"),
        ({"jitter": 0.1, "jobs": "examples/jobs.yaml"}, "jitter"),
    ],
)
def test_bad_slow_gpus_are_refused_in_a_line(inputs: Case, says: str) -> None:
    with pytest.raises(NetplanError, match=says) as error:
        Simulate.make("hgx-h100", gpus=64, model="llama-3-8b", **inputs).ask()
    assert "\n" not in str(error.value)


def test_without_contention_gpus_may_be_slow_and_links_not() -> None:
    asked = {"gpus": 64, "model": "llama-3-8b", "contention": False}
    assert Simulate.make("hgx-h100", **asked, slow=("gpu-5=0.5",)).ask().found.slow is not None
    with pytest.raises(InputError, match="takes no link"):
        Simulate.make("hgx-h100", **asked, slow=("host=0.5",)).ask()

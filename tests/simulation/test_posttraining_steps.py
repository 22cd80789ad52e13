"""Steps of post-training one after the other: held to closed forms, and to sums of their parts."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.performance.posttraining.lengths import Lengths
from netplan.performance.posttraining.rollouts import RoundTime
from netplan.performance.posttraining.schedules import Mode, Phases, speed_up_limit, step_seconds
from netplan.performance.posttraining.step import PostTrainingStep, Rollouts, StepWork
from netplan.simulation.posttraining_steps import bars_of, simulate_steps
from tests.oracles.post_training import schedule_step_s

seconds = st.floats(0.1, 1000)
times = st.tuples(seconds, seconds, st.floats(0, 50))


def _steps(staleness: float) -> int:
    """Steps of whose last ones waves of versions end with the run."""
    waves = 1 + int(np.ceil(staleness))
    return 20 + 10 * waves


@given(times, st.sampled_from([0, 0.25, 0.5, 1, 1.5, 2, 3, 7]), st.floats(0.05, 1))
def test_constant_times_give_the_closed_form(
    times: tuple[float, float, float], staleness: float, share: float
) -> None:
    """Sync, one step off and streams, whole versions and shares of a batch."""
    rollout, trainer, sync = times
    mode: Mode = "sync" if staleness == 0 else "one-off" if staleness == 1 else "async"
    stream = share * rollout if mode == "async" else rollout
    phases = Phases(rollout=rollout, train=trainer, sync=sync, stream=stream)
    steps = np.full((_steps(staleness) + 40, 2), rollout)
    streams = np.full_like(steps, stream) if mode == "async" else None
    runs = simulate_steps(steps, trainer, sync, staleness=staleness, stream_s=streams, warm=60)
    closed = float(step_seconds(mode, phases, staleness))
    if staleness == int(staleness):
        assert runs.means_s == pytest.approx(closed, rel=1e-9)
    else:  # a version between two comes closer to its pace from step to step
        assert runs.means_s == pytest.approx(closed, rel=2e-2)


@given(st.integers(0, 5), st.integers(0, 2**32), st.floats(0, 20))
def test_whole_versions_are_the_schedule_of_the_formulas(
    staleness: int, seed: int, sync: float
) -> None:
    """An independent loop over the same batches has the same mean step."""
    rng = np.random.default_rng(seed)
    rollouts = rng.lognormal(4, 0.5, (60, 3))
    runs = simulate_steps(rollouts, 70.0, sync, staleness=staleness)
    expected = schedule_step_s(rollouts, 70.0, sync, staleness=staleness)
    assert runs.means_s == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 2**32), st.floats(0.1, 1))
def test_more_versions_make_no_step_longer(seed: int, share: float) -> None:
    """Whole versions: each may only let batches begin sooner; no pool is faster than its work."""
    rng = np.random.default_rng(seed)
    rollouts = rng.lognormal(4, 0.6, (80, 4))
    streams = share * rollouts
    ends = []
    for staleness in range(1, 6):
        runs = simulate_steps(rollouts, 60.0, 5.0, staleness=staleness, stream_s=streams)
        ends.append(runs.sent)
        assert (runs.means_s >= 65.0 - 1e-9).all()
        assert (np.diff(runs.ends, axis=0) >= streams[1:] + 5 - 1e-9).all()
    for few, many in pairwise(ends):
        assert (many <= few + 1e-9).all()


def test_times_that_differ_make_steps_longer_than_their_means() -> None:
    """Queueing: 99.8 s against 95.6 of the closed form at a spread of 0.3, less with versions."""
    rng = np.random.default_rng(0)
    rollouts = rng.lognormal(np.log(90) - 0.045, 0.3, (2020, 8))
    closed = max(rollouts[20:].mean(), 80.0) + 5.0
    above = [
        simulate_steps(rollouts, 80.0, 5.0, staleness=n).means_s.mean() - closed for n in (1, 2, 4)
    ]
    assert above[0] > 2
    assert above[0] > above[1] > above[2] > -0.5


@given(times, st.integers(2, 6), st.floats(0.1, 1))
def test_overlapping_wins_at_most_the_limit(
    times: tuple[float, float, float], staleness: float, share: float
) -> None:
    """The trainer's work stays: step(sync) / step(async) is not above the limit."""
    rollout, trainer, sync = times
    rollouts = np.full((_steps(staleness), 1), rollout)
    in_turn = simulate_steps(rollouts, trainer, sync).means_s[0]
    streams = share * rollouts
    ahead = simulate_steps(rollouts, trainer, sync, staleness=staleness, stream_s=streams)
    limit = float(speed_up_limit(in_turn, trainer))
    assert in_turn / ahead.means_s[0] <= limit * (1 + 1e-9)


def test_bad_steps_are_refused() -> None:
    with pytest.raises(InputError, match="20 steps, of which 20 warm up"):
        simulate_steps(np.ones((20, 1)), 1.0, 0.0)
    with pytest.raises(InputError, match="staleness -1"):
        simulate_steps(np.ones((30, 1)), 1.0, 0.0, staleness=-1)


def _step(staleness: float) -> PostTrainingStep:
    lengths = Lengths.fixed(100)
    work = StepWork(lengths=lengths, prompts=4, group=4, staleness=staleness)
    rollouts = Rollouts(seconds=100.0, stream_s=60.0)
    return PostTrainingStep(work=work, rollouts=rollouts, score_s=20.0, train_s=50.0, sync_s=5.0)


@pytest.mark.parametrize("staleness", [0, 1, 2])
def test_bars_of_a_lane_follow_each_other(staleness: int) -> None:
    """No pool does two things at once, and its bars and waits are all of its time."""
    step = _step(staleness)
    rng = np.random.default_rng(staleness)
    rollouts = rng.uniform(80, 120, (40, 1))
    streams = 0.9 * rollouts if staleness > 1 else None
    runs = simulate_steps(rollouts, 70.0, 5.0, staleness=staleness, stream_s=streams)
    bars = list(bars_of(runs, step))
    assert {bar.step for bar in bars} == {20, 21, 22, 23}
    for role in ("rollout", "trainer"):
        lane = sorted(
            (bar.starts_s, bar.starts_s + bar.seconds) for bar in bars if bar.pool in (role, "all")
        )
        gaps = [begin - end for (_, end), (begin, _) in pairwise(lane)]
        assert min(gaps) > -1e-9
        if staleness:  # what is no work is a wait
            assert max(gaps) < 1e-9
    trained = [bar.seconds for bar in bars if bar.name == "train"]
    assert trained == [50.0] * 4
    waits = {(bar.pool, bar.waits_for) for bar in bars if bar.name == "wait"}
    assert waits == (set() if staleness == 0 else {("trainer", "answers")})


def test_servers_wait_for_weights_where_versions_bind() -> None:
    """300 s for a batch, 70 s of the trainer and 5 s of sending: 375 s for three versions."""
    step = _step(1)
    rollouts = np.full((41, 1), 300.0)
    streams = np.full((41, 1), 60.0)
    runs = simulate_steps(rollouts, 70.0, 5.0, staleness=2, stream_s=streams)
    servers_s, trainer_s = runs.waits_s
    # Of 125 s a step servers work 60 s and take weights for 5 s; the trainer works 70 s.
    assert runs.means_s[0] == pytest.approx(125.0)
    assert servers_s == pytest.approx(60.0)
    assert trainer_s == pytest.approx(50.0)
    waits = {bar.waits_for for bar in bars_of(runs, step, shown=6) if bar.pool == "rollout"}
    assert "weights" in waits


def test_no_pool_waits_for_what_sums_are_off_by() -> None:
    """Streams of 0.1 s whose ends are sums: servers never wait, and no wait is below 0."""
    streams = np.full((60, 2), 0.1)
    runs = simulate_steps(3 * streams, 0.05, 0.01, staleness=50, stream_s=streams)
    servers_s, trainer_s = runs.waits_s
    assert servers_s == 0
    assert trainer_s == pytest.approx(0.05)


def test_a_round_has_its_pace() -> None:
    assert RoundTime(0.01, 0.001).slowed(3.0).seconds(10) == pytest.approx(0.06)

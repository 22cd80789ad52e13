"""Drawn batches of answers: held to the simulation of events, to closed forms, to plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.performance.posttraining.lengths import Lengths
from netplan.performance.posttraining.rollouts import Batch, RoundTime, Turns, simulate_rollouts
from netplan.performance.posttraining.step import Servers, StepWork, rollouts_of
from netplan.simulation import drawn_rollouts
from netplan.simulation.drawn_rollouts import draw_rollouts, wave_ends

LENGTHS = Lengths.lognormal(200, 800, cap=1600)
ROUNDS = RoundTime(0.01, 0.0002)


def _ends_round_by_round(lengths: list[list[int]], round_s: list[float]) -> list[float]:
    """Every replica one round after another: an answer ends with its last token."""
    ends = []
    for answers in lengths:
        now, made = 0.0, 0
        while any(length > made for length in answers):
            now += round_s[sum(length > made for length in answers)]
            made += 1
            ends += [now for length in answers if length == made]
    return sorted(ends)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=24), st.integers(1, 5), st.integers(0, 2**32)
)
def test_ends_are_those_of_rounds_one_by_one(lengths: list[int], replicas: int, seed: int) -> None:
    """Also where rounds are no straight line in their requests."""
    held = -(-len(lengths) // replicas)
    table = np.concatenate([[0.0], np.random.default_rng(seed).uniform(0.1, 1, held)])
    servers = Servers(replicas, held, ROUNDS)
    ends = np.sort(wave_ends(np.array(lengths), servers, table))
    dealt = [lengths[first::replicas] for first in range(replicas)]
    assert ends == pytest.approx(_ends_round_by_round(dealt, table.tolist()))


def test_a_wave_ends_as_events_have_it() -> None:
    """Both ways to the same batch, and with a replica that is slower."""
    work = StepWork(lengths=LENGTHS, prompts=8, group=8)
    for paces in (None, np.array([1.0, 2.5, 1.0, 1.0])):
        drawn = draw_rollouts(work, Servers(4, 16, ROUNDS), slowness=paces, runs=(2, 3))
        batch = Batch(answers=64, replicas=4, slots=16)
        events = [
            simulate_rollouts(
                LENGTHS, batch, ROUNDS, seed=seed, slowness=() if paces is None else paces.tolist()
            )
            for seed in range(6)
        ]
        assert drawn.seconds == pytest.approx([run.seconds for run in events])
        assert drawn.half_s == pytest.approx([run.done_s[31] for run in events])
        assert drawn.longest.tolist() == [run.longest for run in events]
        assert drawn.tokens.tolist() == [run.tokens for run in events]


def test_answers_of_one_length_take_what_the_closed_form_says() -> None:
    """100 tokens in rounds of 8: 100 (0.01 + 8 x 0.0002) s, and 8 prompts at 0.5 s over 4."""
    work = StepWork(lengths=Lengths.fixed(100), prompts=8, group=4)
    servers = Servers(4, 8, ROUNDS, prompt_s=0.5)
    drawn = draw_rollouts(work, servers)
    assert drawn.seconds == pytest.approx(100 * 0.0116 + 1.0, rel=1e-12)
    assert drawn.seconds == pytest.approx(rollouts_of(work, servers).seconds, rel=1e-12)
    assert drawn.stream_s == pytest.approx(rollouts_of(work, servers).stream_s, rel=1e-12)


def test_means_come_near_the_closed_forms() -> None:
    """One wave within 2 %: exact for the replica that holds the longest, below the slowest one."""
    work = StepWork(lengths=LENGTHS, prompts=16, group=16)
    for slots, near in ((64, 0.02), (16, 0.05)):
        servers = Servers(4, slots, ROUNDS)
        drawn, closed = draw_rollouts(work, servers), rollouts_of(work, servers)
        assert drawn.seconds.mean() == pytest.approx(closed.seconds, rel=near)
        assert drawn.stream_s.mean() == pytest.approx(closed.stream_s, rel=0.01)


def test_the_first_of_more_answers_count() -> None:
    """Of 48 started the 32nd end counts, and the others are not waited for."""
    work = StepWork(lengths=LENGTHS, prompts=8, group=4, over_sample=1.5)
    drawn = draw_rollouts(work, Servers(4, 12, ROUNDS), runs=(4, 1))
    for seed, end in enumerate(drawn.seconds.tolist()):
        lengths = LENGTHS.draw(np.random.default_rng(seed), 48).tolist()
        times = [0.0, *(0.01 + 0.0002 * requests for requests in range(1, 13))]
        ends = _ends_round_by_round([lengths[first::4] for first in range(4)], times)
        assert end == pytest.approx(ends[31])
    closed = rollouts_of(work, Servers(4, 12, ROUNDS)).seconds
    many = draw_rollouts(work, Servers(4, 12, ROUNDS))
    assert many.seconds.mean() == pytest.approx(closed, rel=0.1)


def test_answers_that_go_on_keep_slots_full() -> None:
    work = StepWork(lengths=LENGTHS, prompts=64, group=4, over_sample=1.5, partial=True)
    servers = Servers(4, 200, ROUNDS)
    drawn = draw_rollouts(work, servers)
    assert drawn.seconds.mean() == pytest.approx(rollouts_of(work, servers).seconds, rel=0.02)


def test_turns_wait_for_their_environment() -> None:
    """Two turns of answers of 10 tokens: 10 rounds of 4 and 30 s between."""
    work = StepWork(lengths=Lengths.fixed(10), prompts=4, group=2, turns=Turns(2, 30.0))
    drawn = draw_rollouts(work, Servers(2, 4, RoundTime(1.0, 0.5)), runs=(3, 2))
    assert drawn.seconds == pytest.approx(10 * 3.0 + 30.0)


def test_draws_are_those_of_their_seed() -> None:
    """The same twice, others of another seed, and no batch of one in the other."""
    work, servers = StepWork(lengths=LENGTHS, prompts=64, group=16), Servers(2, 512, ROUNDS)
    first, again, other = (draw_rollouts(work, servers, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(first.seconds, again.seconds)
    drawn = set(zip(first.tokens, first.seconds, strict=True))
    assert not drawn & set(zip(other.tokens, other.seconds, strict=True))
    assert first.batch.shape == (60, 20)
    assert len(np.unique(first.batch)) == 1200


def test_runs_of_many_answers_share_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 batches and no fewer, of which each step has one by chance."""
    monkeypatch.setattr(drawn_rollouts, "MOST_DRAWN", 100)
    work = StepWork(lengths=LENGTHS, prompts=4, group=4)
    drawn = draw_rollouts(work, Servers(2, 8, ROUNDS))
    assert drawn.batches == 20
    assert set(np.unique(drawn.batch)) == set(range(20))


def test_percentiles_are_of_batches() -> None:
    work = StepWork(lengths=LENGTHS, prompts=4, group=4)
    drawn = draw_rollouts(work, Servers(2, 8, ROUNDS))
    ranked = np.sort(drawn.seconds)
    assert drawn.percentile_s(50) == ranked[599]
    assert drawn.percentile_s(95) == ranked[1139]


@pytest.mark.parametrize("slots", [4, 16, 64])
@pytest.mark.parametrize("over", [1.25, 2.0])
def test_a_queue_of_more_answers_than_are_kept_is_bounded_from_below(
    slots: int, over: float
) -> None:
    """Equal answers take exactly their rounds, others no less: those that wait are no work."""
    line = RoundTime(0.01, 0.001)
    work = StepWork(lengths=Lengths.fixed(1000), prompts=16, group=16, over_sample=over)
    # 64 kept answers of a replica, in waves of as many as it has slots.
    expected_s = 64 / slots * 1000 * line.fixed_s + 64 * 1000 * line.each_s
    assert rollouts_of(work, Servers(4, slots, line)).seconds == pytest.approx(expected_s)
    for mean, p99, least in ((1000, 1500, 0.65), (2000, 8000, 0.6)):
        lengths = Lengths.lognormal(mean, p99, 16384)
        work = StepWork(lengths=lengths, prompts=16, group=16, over_sample=over)
        servers = Servers(4, slots, line)
        drawn_s = draw_rollouts(work, servers, runs=(20, 1)).seconds.mean()
        assert least * drawn_s <= rollouts_of(work, servers).seconds <= drawn_s

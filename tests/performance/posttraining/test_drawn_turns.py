"""Turns are drawn as often as their number allows, and once at least."""

import pytest

from netplan.performance.posttraining import step
from netplan.performance.posttraining.lengths import Lengths
from netplan.performance.posttraining.rollouts import Batch, RoundTime, Turns, simulate_rollouts
from netplan.performance.posttraining.step import StepWork, drawn_seconds

TURNS = Turns(4, 2.0)
WORK = StepWork(lengths=Lengths.lognormal(100, 400, cap=1600), prompts=4, group=4, turns=TURNS)
BATCH = Batch(answers=16, replicas=2, slots=8)
ROUNDS = RoundTime(0.01, 0.001)


@pytest.mark.parametrize(
    ("most", "draws"),
    [(10**9, 20), (3 * 64, 3), (2 * 64 - 1, 1), (1, 1)],  # 16 answers of 4 turns each
)
def test_draws_are_fewer_where_turns_are_many(
    most: int, draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "MOST_DRAWN", most)
    ends_s = [
        simulate_rollouts(WORK.lengths, BATCH, ROUNDS, turns=TURNS, seed=seed).seconds
        for seed in range(draws)
    ]
    assert drawn_seconds(WORK, BATCH, ROUNDS) == pytest.approx(sum(ends_s) / draws)

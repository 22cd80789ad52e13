"""Schedules beside each other on the same pools."""

import pytest

from netplan.questions.compare import Compare
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader
from netplan.scenarios.scenario import Scenario
from netplan.setup.post_training_step import PostTrained, post_train
from netplan.setup.schedules_beside import ScheduledStep, fastest_mode, schedules_beside

CLUSTER = {"gpus": 64, "accelerator": "h100-80gb", "switch": "qm9700"}
JOB = {
    "kind": "post-training",
    "model": "llama-3-70b",
    "rollout_gpus": 32,
    "answer_tokens": "2000:8000:16384",
    "fixed": {"train.tensor": 8, "rollout.tensor": 8},
}


def trained(**inputs: object) -> PostTrained:
    question = Compare.make(Scenario.load({"cluster": CLUSTER, "workload": JOB | inputs}))
    reader = CatalogReader(question.catalog, question.overrides)
    return post_train(question, reader, "rail-optimized", {})


@pytest.fixture(scope="module", name="in_turn")
def _in_turn() -> PostTrained:
    return trained()


def test_each_is_what_the_question_answers_of_its_staleness(in_turn: PostTrained) -> None:
    rows = schedules_beside(in_turn).steps
    assert [row.name for row in rows] == ["sync", "one-off", "async 2", "async 4"]
    for row in rows:
        alone = trained(staleness=row.staleness)
        assert row.step_s == pytest.approx(alone.step.seconds, rel=1e-3), row.name
        assert (row.step_low_s, row.step_high_s) == (row.step_s, None)
    assert rows[0].step_s == in_turn.step.seconds


def test_the_steps_own_staleness_is_among_them() -> None:
    rows = schedules_beside(trained(staleness=0.5)).steps
    assert [row.staleness for row in rows] == [0, 0.5, 1, 2, 4]
    steps_s = [row.step_s for row in rows]
    assert steps_s == sorted(steps_s, reverse=True)


def test_estimates_decide_where_their_ranges_part(in_turn: PostTrained) -> None:
    beside = schedules_beside(replace(in_turn, basis="measured", spread=0.15))
    best, other = beside.steps[2], beside.steps[1]
    assert best.step_high_s == pytest.approx(1.15 * best.step_s)
    assert other.step_low_s == pytest.approx(0.85 * other.step_s)
    parts = 1.15 * best.step_s < 0.85 * other.step_s
    assert beside.verdict == ("async" if parts else "undecided")
    assert schedules_beside(replace(in_turn, spread=0.9)).verdict == "undecided"


@pytest.mark.parametrize(
    ("one_off_s", "verdict"),
    [(76.0, "one-off"), (77.0, "undecided"), (130.0, "undecided"), (131.0, "sync")],
)
def test_a_verdict_needs_more_than_the_range(one_off_s: float, verdict: str) -> None:
    """Sync of 100 s is 130 to 170 as printed: one-off is below for 1.7 x 76.4, above from 130.8."""
    rows = [
        ScheduledStep("sync", 0, 100.0, 100.0, None, 1.0),
        ScheduledStep("one-off", 1, one_off_s, one_off_s, None, 1.0),
    ]
    assert fastest_mode(rows, (1.3, 1.7)) == verdict


def test_turns_on_the_same_gpus_have_nothing_beside_them() -> None:
    rows = schedules_beside(trained(colocated=True, rollout_gpus=None))
    assert (rows.steps, rows.verdict) == ((), "undecided")

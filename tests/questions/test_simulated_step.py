"""Simulated steps of post-training: held to closed forms, to bytes of formulas, to slow parts."""

import csv
import io
import json
from functools import cache
from itertools import pairwise
from typing import Any, cast

import pytest

from netplan.answers.simulated_step_answer import SimulatedStep, SimulatedStepAnswer
from netplan.errors import InputError
from netplan.questions.simulate import Simulate

GRPO, MOE = "grpo-70b-h100", "rl-moe-gb300"


@cache
def _answer(scenario: str = GRPO, **values: object) -> SimulatedStepAnswer:
    return cast("SimulatedStepAnswer", Simulate.make(scenario, **values).ask())


def _simulated(scenario: str = GRPO, **values: object) -> SimulatedStep:
    return _answer(scenario, **values).simulated


@pytest.mark.parametrize("staleness", [0, 1, 2])
def test_answers_of_one_length_take_the_closed_form(staleness: float) -> None:
    """No draw differs from another, and links without contention take the least time."""
    simulated = _simulated(answer_tokens="2000", staleness=staleness)
    closed_s = simulated.trained.step.seconds
    assert simulated.mean_s == pytest.approx(closed_s, rel=1e-9)
    assert simulated.spread_s == pytest.approx(0, abs=1e-9)
    assert simulated.of_means_s == pytest.approx(closed_s, rel=1e-9)


@pytest.mark.parametrize(
    ("scenario", "values"),
    [
        (GRPO, {}),
        (GRPO, {"sync": "full"}),
        (GRPO, {"sync": "relay"}),
        (GRPO, {"sync": "delta:0.02"}),
        (MOE, {}),
    ],
)
def test_links_carry_the_bytes_of_the_formula(scenario: str, values: dict[str, object]) -> None:
    simulated = _simulated(scenario, **values)
    sent, sync = simulated.sent, simulated.trained.sync
    assert sent is not None
    assert sync is not None
    assert sent.total_bytes == pytest.approx(sync.sent.total, rel=1e-9)
    assert sent.network_bytes == pytest.approx(sync.sent.network, rel=1e-9)
    # What enters a domain has not to come over its links inside, as the formula has it for all.
    assert sent.wire_s > 0.9 * sync.bound_s
    assert simulated.step.sync_s >= sync.bound_s
    assert sent.busiest
    assert sent.busiest[0][1] <= sent.wire_s * (1 + 1e-9)


def test_colocated_pools_hand_on_what_the_formula_says() -> None:
    """Over links where their bytes are those of the formula, else for its least time."""
    simulated = _simulated(colocated=True, rollout_gpus=0, staleness=0)
    sent, sync = simulated.sent, simulated.trained.sync
    assert sync is not None
    if sent is None:
        assert simulated.step.sync_s == sync.seconds
        assert "least time" in simulated.notes[0]
    else:
        assert sent.total_bytes == pytest.approx(sync.sent.total, rel=1e-9)
    assert simulated.mean_s == pytest.approx(simulated.of_means_s, rel=1e-9)
    (pool,) = simulated.trained.pools
    assert simulated.busy_share(pool.role) == pytest.approx(
        1 - simulated.step.sync_s / simulated.mean_s, rel=1e-6
    )


def test_differing_batches_make_steps_longer_than_their_means() -> None:
    """One step off waits for the slower pool; in turn nothing waits for another batch."""
    off, in_turn = _simulated(), _simulated(staleness=0)
    assert off.mean_s > off.of_means_s
    assert in_turn.mean_s == pytest.approx(in_turn.of_means_s, rel=1e-9)
    # 20 runs of 40 steps: the closed form is within three deviations of their mean.
    closed_s = in_turn.trained.step.seconds
    assert abs(in_turn.mean_s - closed_s) < 3 * in_turn.spread_s
    means_s = [_simulated(staleness=versions).mean_s for versions in (0, 1, 2, 3)]
    for few, many in pairwise(means_s):
        assert many <= few * 1.01
    for simulated in (off, _simulated(staleness=2)):
        trainer_s = float(simulated.step.phases.trainer)
        assert simulated.mean_s >= trainer_s
        assert simulated.mean_s >= simulated.rolled_s()


def test_rounds_that_are_no_line_come_from_their_table() -> None:
    """Mixtures of experts: the slowest of 18 copies takes longer than the mean one."""
    simulated = _simulated(MOE)
    assert simulated.trained.servers is not None
    assert simulated.trained.servers.rolled.servers.bent_s > 0
    closed = simulated.trained.step.rollouts
    rollout_s, stream_s = simulated.means_s
    assert closed.seconds < rollout_s < 1.15 * closed.seconds
    assert stream_s == pytest.approx(closed.stream_s, rel=0.01)
    assert simulated.mean_s > simulated.trained.step.seconds


def test_a_slow_gpu_slows_its_copy_alone() -> None:
    """Half its rate: of answers of one length its copy takes twice as long, and all wait for it."""
    whole = _simulated(answer_tokens="2000")
    slow = _simulated(answer_tokens="2000", slow=("gpu-5=0.5",))
    prefill_s = whole.trained.step.rollouts.prefill_s
    twice_s = 2 * (whole.means_s[0] - prefill_s) + prefill_s
    assert slow.means_s[0] == pytest.approx(twice_s)
    assert slow.step.train_s == whole.step.train_s
    assert slow.slow == {"rollout": 1}


def test_a_slow_gpu_of_the_trainer_slows_training_alone() -> None:
    whole, slow = (
        _simulated(answer_tokens="2000"),
        _simulated(answer_tokens="2000", slow=("gpu-40=0.5",)),
    )
    trainer = whole.trained.trainer
    assert trainer is not None
    longer = trainer.timed.beside_slow_gpu_s(0.5) / trainer.timed.iteration_time_s
    assert longer > 1.5
    assert slow.step.train_s == pytest.approx(longer * whole.step.train_s)
    assert slow.step.score_s == pytest.approx(longer * whole.step.score_s)
    assert slow.means_s == whole.means_s
    assert slow.slow == {"trainer": 1}


def test_slow_links_slow_new_weights_alone() -> None:
    """Links of GPUs at half their rate carry the same bytes in twice the time."""
    whole, slow = _simulated(), _simulated(slow=("host=0.5",))
    assert slow.step.sync_s == pytest.approx(2 * whole.step.sync_s)
    assert slow.means_s == whole.means_s


def test_links_that_switches_share_hold_weights_up() -> None:
    """All 32 GPUs of the servers lie behind leaves of 8 of which 1 link of 8 leads up."""
    values: Any = {"fabric": "fat-tree", "radix": 16, "oversubscription": 7}
    booked, fluid = _simulated(**values), _simulated(**values, sharing="fluid")
    assert booked.sent is not None
    assert fluid.sent is not None
    assert booked.sent.wire_s > 3 * booked.sent.alone_s
    assert fluid.sent.wire_s >= booked.sent.wire_s * (1 - 1e-9)
    assert fluid.sent.total_bytes == booked.sent.total_bytes


def test_software_may_be_slower_than_the_wire() -> None:
    """A copy of 141.1 GB at 17 GB/s: 8.3 s, whatever links take."""
    simulated = _simulated(sync="full", sync_rate="buckets")
    assert simulated.step.sync_s == pytest.approx(141.107 / 17, rel=1e-3)


@pytest.mark.parametrize("scenario", [GRPO, MOE])
def test_rounds_and_iterations_stand_beside_their_closed_forms(scenario: str) -> None:
    simulated = _simulated(scenario)
    for outcome in (simulated.round, simulated.iteration):
        assert outcome is not None
        assert outcome.iteration_time_s == pytest.approx(outcome.analytic_time_s, rel=0.01)
    trainer = simulated.trained.trainer
    assert trainer is not None
    assert simulated.iteration is not None
    assert simulated.iteration.analytic_time_s == pytest.approx(trainer.timed.iteration_time_s)


def test_one_pool_without_work_is_left_out() -> None:
    """Without rollouts an iteration, without training a batch of answers."""
    trains, rolls = _simulated(prompts=0), _simulated(updates=0)
    assert trains.drawn is None
    assert trains.mean_s == pytest.approx(trains.trained.step.seconds, rel=1e-12)
    assert trains.round is None
    assert rolls.iteration is None
    assert rolls.sent is None
    assert rolls.mean_s == pytest.approx(rolls.means_s[0], rel=1e-9)


def test_the_same_question_has_the_same_bytes() -> None:
    first = Simulate.make(GRPO, seed=7).ask()
    again = Simulate.make(GRPO, seed=7).ask()
    other = Simulate.make(GRPO, seed=8).ask()
    assert first.json() == again.json()
    assert first.trace() == again.trace()
    assert first.html() == again.html()
    assert first.to_dict()["simulated"]["step_s"] != other.to_dict()["simulated"]["step_s"]


@pytest.mark.parametrize("scenario", [GRPO, MOE])
def test_every_form_has_the_mean_step(scenario: str) -> None:
    answer = _answer(scenario)
    facts = json.loads(answer.json())
    step_s = facts["simulated"]["step_s"]
    assert facts["step_s"] == answer.simulated.trained.step.seconds
    assert facts["basis"] == "bound"
    assert {"phases", "pools", "sync_bytes", "sync_s", "bottleneck"} <= facts.keys()
    rollout = facts["simulated"]["rollout"]
    assert rollout["half_s"] < rollout["p50_s"] < rollout["p95_s"]
    rows = [*csv.DictReader(io.StringIO(answer.csv()))]
    (step,) = (row for row in rows if row["step_part"] == "step")
    assert float(step["simulated_s"]) == pytest.approx(step_s)
    text = answer.text()
    assert len(text.splitlines()) <= 25
    assert "A step takes at least" in text
    assert text.index("A step takes at least") < text.index("closed form   simulated")
    assert "Steps over time" in answer.html()


def test_the_trace_has_a_lane_a_pool() -> None:
    """Complete events that do not overlap in a lane; waits are named."""
    trace = json.loads(_answer().trace())
    names = {
        event["tid"]: event["args"]["name"]
        for event in trace["traceEvents"]
        if event["name"] == "thread_name"
    }
    assert list(names.values()) == ["rollout, 32 h100-80gb", "trainer, 32 h100-80gb"]
    for lane in names:
        events = [
            event for event in trace["traceEvents"] if event["ph"] == "X" and event["tid"] == lane
        ]
        ends = [event["ts"] + event["dur"] for event in events]
        begins = [event["ts"] for event in events]
        assert all(begin >= end - 1e-3 for begin, end in zip(begins[1:], ends, strict=False))
    assert "waits for answers of step 2" in {event["name"] for event in trace["traceEvents"]}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"jitter": 0.1}, "--jitter 0.1 means nothing for --workload post-training"),
        ({"fail": ("leaf=1",)}, "--fail leaf=1 means nothing for --workload post-training"),
        ({"full": True}, "--full means nothing for --workload post-training"),
        ({"placement": "snake"}, "--placement snake means nothing for --workload post-training"),
        ({"connections": 4}, "--connections 4 means nothing for weights on paths that are not"),
        ({"sites": "2"}, "--sites 2 means nothing for --workload post-training"),
    ],
)
def test_inputs_of_single_iterations_are_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Simulate.make(GRPO, **values).ask()

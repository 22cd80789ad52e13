"""Steps of post-training by measured runs: hand-worked scaling, two sizes, faults of files."""

from pathlib import Path

import pytest

from netplan.errors import CatalogError, InputError, NetplanError
from netplan.questions.compare import Compare
from netplan.reports.schema import plain_data
from netplan.scenarios.reading import CatalogReader
from netplan.scenarios.scenario import Scenario
from netplan.setup.measured_run import between_sizes, read_measured
from netplan.setup.post_training_step import PostTrained, post_train
from netplan.setup.schedules_beside import schedules_beside

FIXED = {
    "train.tensor": 8,
    "train.pipeline": 1,
    "train.data": 4,
    "rollout.tensor": 8,
    "rollout.pipeline": 1,
}
JOB = {
    "kind": "post-training",
    "model": "llama-3-70b",
    "rollout_gpus": 32,
    "answer_tokens": "2000:8000:16384",
}
PHASES = "rollout_s: 265, score_s: 60, train_s: 131, sync_s: 9.4"
TWO = """
runs:
  - {gpus: 32, rollout_gpus: 16, rollout_s: 300, score_s: 100, train_s: 270, sync_s: 8}
  - {gpus: 128, rollout_gpus: 64, rollout_s: 200, score_s: 40, train_s: 113, sync_s: 11}
"""


def trained(
    text: str | None, folder: Path, gpus: int = 64, fabric: str = "rail-optimized", **inputs: object
) -> PostTrained:
    """The step of the job with a file of measured runs; or as the model has it."""
    if text is not None:
        path = folder / "run.yaml"
        path.write_text(text)
        inputs["measured"] = str(path)
    cluster = {"gpus": gpus, "accelerator": "h100-80gb", "switch": "qm9700"}
    question = Compare.make(Scenario.load({"cluster": cluster, "workload": JOB | inputs}))
    reader = CatalogReader(question.catalog, question.overrides)
    return post_train(question, reader, fabric, {})


def test_a_run_of_the_same_inputs_is_repeated(tmp_path: Path) -> None:
    """In turn 265 + 60 + 131 + 9.4 + 6 s; one step off max(265, 191) + 9.4 + 6 s."""
    in_turn = trained(f"{{{PHASES}, other_s: 6}}", tmp_path)
    assert in_turn.step.seconds == pytest.approx(471.4)
    assert (in_turn.basis, in_turn.spread, in_turn.notes) == ("measured", 0.15, ())
    assert in_turn.step_low_s == pytest.approx(0.85 * 471.4)
    assert in_turn.step_high_s == pytest.approx(1.15 * 471.4)
    answer = plain_data(in_turn)
    assert (answer["sync_s"], answer["sync_basis"]) == (pytest.approx(9.4), "measured")
    assert answer["sync_bound_s"] < 1
    one_off = trained(f"{{{PHASES}, other_s: 6}}", tmp_path, staleness=1)
    assert one_off.step.seconds == pytest.approx(280.4)


def test_what_is_measured_of_a_stream_is_a_batch_in_steady_state(tmp_path: Path) -> None:
    """A stream of 265 s: waves are longer by what the model has them longer."""
    modelled = trained(None, tmp_path, staleness=2).step.rollouts
    step = trained(f"{{{PHASES}, other_s: 6}}", tmp_path, staleness=2).step
    assert step.rollouts.stream_s == pytest.approx(265)
    waves_s = 265 * modelled.seconds / modelled.stream_s
    assert step.rollouts.seconds == pytest.approx(waves_s)
    through_both_s = (waves_s + 60 + 131 + 9.4) / 3
    assert step.seconds == pytest.approx(max(265 + 9.4, through_both_s) + 6)


def test_other_seconds_are_3_percent_of_the_phases_where_they_are_not_known(tmp_path: Path) -> None:
    assert trained(f"{{{PHASES}}}", tmp_path).step.seconds == pytest.approx(1.03 * 465.4)


def test_phases_of_other_work_are_scaled_by_measured_over_modelled(tmp_path: Path) -> None:
    """A run of half the prompts: each phase times measured over modelled of that run."""
    run = trained(None, tmp_path, prompts=32, fixed=FIXED).step
    job = trained(None, tmp_path, fixed=FIXED).step
    measured = trained(f"{{prompts: 32, {PHASES}, other_s: 6}}", tmp_path, fixed=FIXED)
    expected_s = (
        265 * job.rollouts.seconds / run.rollouts.seconds
        + 60 * job.score_s / run.score_s
        + 131 * job.train_s / run.train_s
        + 9.4  # the same weights
        + 6
    )
    assert measured.basis == "measured"
    assert measured.step.seconds == pytest.approx(expected_s)
    assert measured.step.seconds > 1.3 * 471.4  # twice the answers


def test_a_run_on_another_fabric_is_scaled_to_this_one(tmp_path: Path) -> None:
    """Copies over two HB domains decode 4 % faster on a torus of two dimensions."""
    fixed = {"train.tensor": 8, "train.pipeline": 1, "rollout.tensor": 16}
    here, there = (
        trained(None, tmp_path, fabric=name, fixed=fixed).step.rollouts.seconds
        for name in ("rail-optimized", "torus-2d")
    )
    assert here / there > 1.03
    one_run = trained(f"{{fabric: torus-2d, {PHASES}}}", tmp_path, fixed=fixed).step
    assert one_run.rollouts.seconds == pytest.approx(265 * here / there)
    text = TWO.replace("{gpus", "{fabric: torus-2d, gpus")
    assert trained(text, tmp_path, fabric="torus-2d", fixed=fixed).step.rollouts.seconds == (
        pytest.approx(700 / 3)
    )
    two_runs = trained(text, tmp_path, fixed=fixed).step
    assert two_runs.rollouts.seconds == pytest.approx(700 / 3 * here / there, rel=0.01)


def test_states_that_leave_a_gpu_are_part_of_training(tmp_path: Path) -> None:
    swapping = trained(f"{{{PHASES}, other_s: 0}}", tmp_path, colocated=True, rollout_gpus=None)
    step = swapping.step
    assert step.swap_s > 0
    assert step.swap_s + step.train_s == pytest.approx(131)
    assert step.seconds == pytest.approx(465.4)


@pytest.mark.parametrize(
    "run", ["gpus: 32, rollout_gpus: 16", "fixed: {train.tensor: 8}", "gpus: 64, colocated: true"]
)
def test_one_run_of_other_pools_leaves_the_bound(run: str, tmp_path: Path) -> None:
    bound = trained(None, tmp_path)
    again = trained(f"{{{run}, {PHASES}}}", tmp_path)
    assert (again.basis, again.step_high_s) == ("bound", None)
    assert again.step.seconds == bound.step.seconds
    assert "A bound again" in again.notes[-1]


def test_one_run_does_not_search_a_split(tmp_path: Path) -> None:
    searched = trained(f"{{rollout_gpus: 32, {PHASES}}}", tmp_path, rollout_gpus=None)
    assert searched.basis == "bound"
    assert "says nothing of other splits" in searched.notes[-1]


def test_two_runs_give_every_phase_by_its_gpus(tmp_path: Path) -> None:
    """At 32 and 32 GPUs: 300 to 200 s of 16 to 64 GPUs are 166.67 + 2133.3 / g s, and so on."""
    measured = trained(TWO, tmp_path)
    step = measured.step
    assert measured.basis == "measured"
    assert step.rollouts.seconds == pytest.approx(700 / 3)
    assert step.score_s == pytest.approx(60)  # 20 + 1280 / 32
    assert step.train_s == pytest.approx(165.33, abs=0.01)
    assert step.sync_s == pytest.approx(10)  # 12 - 64 / 32
    assert step.seconds == pytest.approx(1.03 * (700 / 3 + 60 + 165.333 + 10), abs=0.01)


def test_two_runs_are_met_at_their_own_sizes(tmp_path: Path) -> None:
    ends = trained(TWO, tmp_path, gpus=128, rollout_gpus=64).step
    assert ends.seconds == pytest.approx(1.03 * (200 + 40 + 113 + 11))


def test_the_split_is_searched_by_two_runs(tmp_path: Path) -> None:
    """One step off: 166.67 + 2133.3 / g against 80.67 + 4309.3 / t, and what follows on g."""
    measured = trained(TWO, tmp_path, rollout_gpus=None, staleness=1)

    def step_s(rolls: int, trains: int) -> float:
        rollout = 500 / 3 + 6400 / 3 / rolls
        trainer = 20 + 1280 / trains + 182 / 3 + (270 - 182 / 3) * 16 / trains
        sent = 12 - 64 / max(16, rolls) if rolls <= 64 else 11
        return 1.03 * (max(rollout, trainer) + sent)

    best = min(
        (step_s(rolls, trains), rolls + trains, trains)
        for rolls in range(8, 64, 8)
        for trains in range(8, 65 - rolls, 8)
    )
    first = measured.split[0]
    assert measured.basis == "measured"
    assert (first.rollout_gpus + first.train_gpus, first.train_gpus) == best[1:]
    assert first.step_s == pytest.approx(best[0], abs=0.01)
    assert measured.step.seconds == pytest.approx(first.step_s)


def test_printed_trainers_of_16_and_64_gpus_give_165_s_at_32() -> None:
    """157 s are printed; c = 60.67 s, d = 3349.3 GPU s."""
    assert between_sizes((16, 64), (270.0, 113.0), 32) == pytest.approx(165.33, abs=0.01)
    assert between_sizes((64, 16), (113.0, 270.0), 128) == pytest.approx(86.83, abs=0.01)


@pytest.mark.parametrize(
    ("times_s", "gpus", "expected_s"),
    [
        ((314.0, 133.0), 128, 133.0),  # c = -48 s: faster than its GPUs
        ((314.0, 133.0), 48, 193.33),
        ((9.0, 10.0), 16, 9.0),  # d = -64 GPU s
        ((9.0, 10.0), 256, 10.0),
    ],
)
def test_what_no_law_of_shares_gives_is_not_carried_on(
    times_s: tuple[float, float], gpus: int, expected_s: float
) -> None:
    assert between_sizes((32, 64), times_s, gpus) == pytest.approx(expected_s, abs=0.01)


def test_estimates_decide_between_schedules_where_their_ranges_part(tmp_path: Path) -> None:
    """In turn 471.4 s, one step off 280.4 s, streams as 265 s of waves: 206.4 s at most."""
    beside = schedules_beside(trained(f"{{{PHASES}, other_s: 6}}", tmp_path))
    steps_s = {row.name: row.step_s for row in beside.steps}
    assert steps_s["sync"] == pytest.approx(471.4)
    assert steps_s["one-off"] == pytest.approx(280.4)
    assert steps_s["async 2"] == pytest.approx(191 + 9.4 + 6)
    assert beside.verdict == "async"  # 1.15 x 206.4 < 0.85 x 280.4
    slow = f"{{{PHASES.replace('train_s: 131', 'train_s: 200')}, other_s: 6}}"
    assert schedules_beside(trained(slow, tmp_path)).verdict == "undecided"


def test_all_faults_of_a_file_are_named_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("rollot_s: 1\nscore_s: -1\ntrain_s: x\nsync_s: 9\nplan: 1\n")
    with pytest.raises(CatalogError) as refused:
        read_measured(path)
    lines = str(refused.value).splitlines()
    assert f"{path}:1: unknown key rollot_s: did you mean rollout_s?" in lines
    assert any(line.startswith(f"{path}:2: score_s: got -1") for line in lines)
    assert any(line.startswith(f"{path}:3: train_s: got 'x'") for line in lines)
    assert any(line.startswith(f"{path}:5: unknown key plan") for line in lines)
    assert "rollout_s is missing" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("runs: []", "0 runs"),
        (TWO + "  - {rollout_s: 1, score_s: 1, train_s: 1, sync_s: 1}", "3 runs"),
        ("runs: 3", "should be a list"),
        (f"runs:\n  - {{{PHASES}}}\n  - {{{PHASES}}}", "32 GPUs roll out in both runs"),
        (f"runs:\n  - {{{PHASES}}}\n  - {{gpus: 128, rollout_gpus: 32, {PHASES}}}", "roll out in"),
        (TWO.replace("sync_s: 8", "sync_s: 8, other_s: 1"), "one run has other_s"),
        (f"{{rollout_gpus: 64, {PHASES}}}", "leave none of 64 GPUs"),
        (f"{{gpus: 16, rollout_gpus: 8, {PHASES}}}", "has no plan"),
        (f"{{fixed: {{tensor: 8}}, {PHASES}}}", "train.tensor=8"),
        (f"{{colocated: true, rollout_gpus: 8, {PHASES}}}", "colocated"),
        ("- 1", "expected a mapping"),
        (f"{{prompts: 2000000, {PHASES}}}", "less than or equal to 1000000"),
        (f"{{staleness: 5000, {PHASES}}}", "less than or equal to 1000"),
        (f"{{answer_tokens: long, {PHASES}}}", "no number of tokens"),
        (f"{{fixed: {{train.tensors: 8}}, {PHASES}}}", "tensor"),
        (f"{{gpus: 9000000, {PHASES}}}", "4,194,304"),
        ("{rollout_s: 0, score_s: 0, train_s: 1, sync_s: 0}", "rollout_s: got 0"),
        ("{rollout_s: .inf, score_s: 0, train_s: 1, sync_s: 0}", "rollout_s"),
    ],
)
def test_files_that_are_no_runs_are_refused(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(NetplanError, match=r"run\.yaml") as refused:
        trained(text, tmp_path)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_inputs_that_measure_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="score_s is 60 s, and the model"):
        trained(f"{{{PHASES}}}", tmp_path, score=("none",))
    with pytest.raises(CatalogError, match="rollout_gpus is missing"):
        trained(f"{{{PHASES}}}", tmp_path, rollout_gpus=None)
    with pytest.raises(InputError, match="leave it out"):
        trained(f"{{{PHASES}}}", tmp_path, updates=0, rollout_gpus=None)
    with pytest.raises(NetplanError, match="nowhere"):
        trained(None, tmp_path, measured="nowhere.yaml")

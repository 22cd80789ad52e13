"""Post-training: what is left where a pool has no work, splits by brute force, what is refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan import search, serving
from netplan.answers.post_training_words import schedules_words
from netplan.errors import InputError, NetplanError
from netplan.performance.posttraining.given_lengths import lengths_of
from netplan.performance.posttraining.lengths import Lengths
from netplan.performance.posttraining.rollouts import RoundTime, Turns
from netplan.performance.posttraining.schedules import speed_up_limit
from netplan.performance.posttraining.step import (
    PostTrainingStep,
    Rollouts,
    Servers,
    StepWork,
    rollouts_of,
)
from netplan.reports.schema import plain_data
from netplan.scenarios.post_training import PostTraining

SMALL: Mapping[str, Any] = {
    "gpus": 16,
    "model": "llama-3.1-8b",
    "prompts": 32,
    "group": 8,
    "answer_tokens": "600:2400:4096",
}


def step_of(name: str = "grpo-70b-h100", **given_inputs: Any) -> dict[str, Any]:  # noqa: ANN401
    """The step that search finds, as JSON."""
    answer: dict[str, Any] = search(name, **given_inputs).to_dict()
    return answer


def test_the_worked_step_is_the_one_of_its_phases() -> None:
    """Rollouts, scoring and training as the parts of the answer say, one step off."""
    step = step_of()
    phases = {phase["name"]: phase for phase in step["phases"]}
    trainer = phases["score"]["s"] + phases["train"]["s"]
    expected_s = max(phases["rollout"]["s"], trainer) + phases["sync"]["s"]
    assert step["step_s"] == pytest.approx(expected_s)
    assert (step["basis"], step["step_high_s"], step["mode"]) == ("bound", None, "one-off")
    assert step["step_low_s"] == step["step_s"]
    assert step["bottleneck"] == "rollout-tail"
    # 70,553,706,496 parameters of 2 bytes to four copies, over the cards of four servers.
    assert step["sync_bytes"] == step["sync_network_bytes"] == 4 * 2 * 70_553_706_496
    assert step["sync_bound_s"] == pytest.approx(4 * 2 * 70_553_706_496 / (32 * 50e9))
    # The longest of 1,024 answers, and the tokens of all prompts and answers over the step.
    assert step["lengths"]["longest"] == pytest.approx(14_410, abs=1)
    tokens = 1024 * (512 + step["lengths"]["mean"])
    assert step["tokens_per_s"] == pytest.approx(tokens / step["step_s"])
    assert step["tokens_per_s_per_gpu"] == pytest.approx(tokens / step["step_s"] / 64)


def test_rollouts_are_rounds_of_the_servers_that_serving_finds() -> None:
    """Seconds of a round through one request and a full batch, the longest answer's replica."""
    step = step_of()
    plan = step["rollout"]
    lengths = Lengths.lognormal(2000, 8000, 16384)
    longest, held = float(lengths.longest(1024)), 256
    work_tokens = longest + (held - 1) * (1024 * lengths.mean - longest) / 1023
    expected_s = (
        plan["round_s"] * longest
        + plan["request_s"] * work_tokens
        + 64 / plan["replicas"] * plan["prompt_s"]
    )
    assert step["rollout_s"] == pytest.approx(expected_s, rel=1e-9)
    served = serving(
        "grpo-70b-h100",
        workload="serving",
        model="llama-3-70b",
        gpus=32,
        precision="bf16",
        prompt=512,
        output=1999,
        concurrency=1024,
        level=False,
        fixed={"tensor": plan["tensor"], "pipeline": 1},
    )
    # A token of a full batch, but for the prompts of others, which serving adds.
    shares = dict(served.plans[0].breakdown_s)
    assert plan["round_s"] + 256 * plan["request_s"] == pytest.approx(
        served.plans[0].tpot_s - shares["prefill"], rel=2e-3
    )


@pytest.mark.parametrize("apart", [{"rollout_gpus": 0}, {"colocated": True, "staleness": 0}, {}])
def test_a_step_without_rollouts_is_training(apart: dict[str, Any]) -> None:
    """One number of colocated, apart without rollouts, and search."""
    trained = search(
        "hgx-h100", gpus=64, model="llama-3-70b", batch=256, radix=64, published=False
    ).best
    step = step_of(prompts=0, batch=256, **apart)
    assert step["step_s"] == pytest.approx(trained.iteration_time_s, rel=1e-12)
    assert [phase["name"] for phase in step["phases"]] == ["train"]
    assert step["trainer"]["plan"] == plain_data(trained.plan)
    assert (step["sync_bytes"], step["sync_s"], step["tokens_per_s"]) == (0, 0, 0)


def test_a_step_without_training_is_serving() -> None:
    """Rollouts alone, colocated or apart, by the plan that all GPUs serve by."""
    apart = step_of(updates=0, rollout_gpus=64, staleness=0)
    colocated = step_of(updates=0, colocated=True, resident=0)
    assert apart["step_s"] == colocated["step_s"] == apart["rollout_s"]
    assert [phase["name"] for phase in apart["phases"]] == ["rollout"]
    assert apart["trainer"] is None
    assert apart["sync_bytes"] == colocated["sync_bytes"] == 0


def test_colocated_phases_add_up_and_swap_the_trainer_out() -> None:
    step = step_of(colocated=True)
    parts = {phase["name"]: phase["s"] for phase in step["phases"]}
    assert step["step_s"] == pytest.approx(sum(parts.values()))
    # Weights, gradients and optimizer leave and come back over 64 GB/s each way.
    memory = step["trainer"]["memory_parts_bytes"]
    states = sum(memory[name] for name in ("weights", "gradients", "optimizer"))
    assert step["offload_s"] == parts["swap"] == pytest.approx(2 * states / 64e9)
    assert len(step["pools"]) == 1
    assert step["pools"][0]["role"] == "all"


def test_two_phases_that_must_both_fit_say_so() -> None:
    with pytest.raises(NetplanError, match=r"leaves nothing|room for its weights"):
        search("grpo-70b-h100", colocated=True, swap=False)


@pytest.mark.parametrize("staleness", [0, 0.5, 1, 2])
def test_the_best_split_is_that_of_brute_force(staleness: float) -> None:
    """Every pair of whole servers, asked one by one."""
    inputs = {**SMALL, "gpus": 32, "staleness": staleness}
    best = step_of("hgx-h100", workload="post-training", **inputs)
    steps = {}
    for rollout_gpus in (8, 16, 24):
        alone = step_of("hgx-h100", workload="post-training", **inputs, rollout_gpus=rollout_gpus)
        steps[rollout_gpus] = alone["step_s"]
    assert best["step_s"] == pytest.approx(min(steps.values()))
    shown = {
        (split["rollout_gpus"], split["train_gpus"]): split["step_s"] for split in best["split"]
    }
    assert len(shown) == 6  # 8, 16 and 24 GPUs of each, of 32 at the most
    for rollout_gpus, step_s in steps.items():
        assert shown[rollout_gpus, 32 - rollout_gpus] == pytest.approx(step_s)
    assert [*shown.values()] == sorted(shown.values())


def test_more_versions_behind_are_never_slower_and_keep_the_limit() -> None:
    """Of the same pools, whole versions: a step is not above that of one version fewer."""
    steps = [
        step_of("hgx-h100", workload="post-training", **SMALL, staleness=count, rollout_gpus=8)
        for count in (0, 1, 2, 3, 8)
    ]
    seconds = [step["step_s"] for step in steps]
    assert seconds == sorted(seconds, reverse=True)
    last = {phase["name"]: phase["s"] for phase in steps[-1]["phases"]}
    assert seconds[-1] >= max(last["rollout"], last["score"] + last["train"])
    whole = {phase["name"]: phase["s"] for phase in steps[0]["phases"]}
    limit = float(speed_up_limit(seconds[0], whole["train"] / 2, whole["score"] / 2))
    assert seconds[0] / seconds[-1] <= limit


def test_scoring_takes_its_own_passes_pools_and_seconds() -> None:
    none, old, both = (
        step_of("hgx-h100", workload="post-training", **SMALL, rollout_gpus=8, score=score)
        for score in (("none",), ("old",), ("old", "reference"))
    )
    scores = [
        sum(phase["s"] for phase in step["phases"] if phase["name"] == "score")
        for step in (none, old, both)
    ]
    assert scores[0] == 0
    assert scores[2] == pytest.approx(2 * scores[1])
    rule = step_of(
        "hgx-h100", workload="post-training", **SMALL, rollout_gpus=8, score=("rule:7.5",)
    )
    assert [phase["s"] for phase in rule["phases"] if phase["name"] == "score"] == [7.5]
    judged = step_of(
        "hgx-h100",
        workload="post-training",
        **{**SMALL, "gpus": 24},
        rollout_gpus=8,
        score=("judge:llama-3.1-8b:50", "reward:llama-3.1-8b"),
        score_gpus=8,
    )
    assert {pool["role"]: pool["gpus"] for pool in judged["pools"]} == {
        "rollout": 8,
        "trainer": 8,
        "score": 8,
    }
    assert judged["step_s"] > none["step_s"]


@given(
    st.integers(1, 200),
    st.integers(1, 16),
    st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    st.floats(1.0, 3.0),
    st.integers(1, 16),
    st.integers(1, 64),
)
@settings(max_examples=60, deadline=None)
def test_rollouts_keep_their_order(
    prompts: int, group: int, staleness: float, over: float, replicas: int, slots: int
) -> None:
    """More answers take longer, a stream no longer than a batch; what is kept is no longer."""
    lengths = Lengths.lognormal(200, 800, 1600)
    work = StepWork(lengths=lengths, prompts=prompts, group=group, staleness=staleness)
    servers = Servers(replicas, slots, RoundTime(0.01, 1e-4), 0.02)
    rollouts = rollouts_of(work, servers)
    more = rollouts_of(
        StepWork(lengths=lengths, prompts=prompts + 5, group=group, staleness=staleness), servers
    )
    assert more.seconds >= rollouts.seconds * (1 - 1e-9)
    assert rollouts.stream_s <= rollouts.seconds * 1.05 + 1e-9
    cut = rollouts_of(
        StepWork(lengths=lengths, prompts=prompts, group=group, over_sample=over), servers
    )
    assert cut.kept_mean <= lengths.mean * 1.02
    assert cut.thrown_tokens >= 0


def test_training_is_on_the_answers_that_are_kept() -> None:
    """Of 1, 2, 3 and 10 tokens as often, twice as many started as kept: 1 and 2, never 3 or 10."""
    lengths = Lengths.measured([1, 2, 3, 10])
    work = StepWork(lengths=lengths, prompts=100, group=1, over_sample=2.0)
    assert work.kept.mean == pytest.approx(1.5)
    assert work.kept.cap == 2
    assert StepWork(lengths=lengths, prompts=100, group=1, over_sample=2.0, partial=True).kept is (
        lengths
    )
    many, few = (
        step_of(over_sample=over_sample, staleness=0)["trainer"]["iteration_time_s"]
        for over_sample in (1, 2)
    )
    assert few < 0.7 * many  # of 2,511 tokens a sequence 1,478 are left


def test_answers_in_flight_are_a_mean_and_a_count_of_them_whole() -> None:
    """19 answers on ten replicas, half a batch ahead: 2.85 at once; 1.1 x 100 starts 110."""
    lengths, servers = Lengths.fixed(100), Servers(10, 8, RoundTime(0.01, 0.001))
    work = StepWork(lengths=lengths, prompts=19, group=1, staleness=0.5)
    expected_s = 1.9 * 100 * (0.01 / 2.85 + 0.001)
    assert rollouts_of(work, servers).stream_s == pytest.approx(expected_s)
    assert StepWork(lengths=lengths, prompts=100, group=1, over_sample=1.1).started == 110
    step = PostTrainingStep(
        work=StepWork(lengths=lengths, prompts=19, group=1, staleness=4, turns=Turns(4, 9.0)),
        rollouts=Rollouts(seconds=37.0, stream_s=20.0, environment_s=27.0),
        train_s=10.0,
    )
    assert step.bottleneck == "rollout"  # a stream waits for no environment


def test_answers_are_scored_at_once_however_many_updates_follow() -> None:
    """A pass over all answers fills the pipeline once, not for every update."""
    degrees = {"tensor": 4, "pipeline": 8, "microbatch": 1, "interleave": 1}
    fixed = {f"train.{name}": count for name, count in degrees.items()}
    once, often = (
        phase["s"]
        for updates in (1, 16)
        for phase in step_of(updates=updates, rollout_gpus=32, fixed=fixed)["phases"]
        if phase["name"] == "score"
    )
    assert often == pytest.approx(once, rel=0.01)


def test_rates_of_new_weights_are_those_of_the_pool_that_sends_or_takes() -> None:
    """Cards of the servers take, those of the trainer send; a delta is stored, not a copy."""
    copy_bytes, cards = 2 * 70_553_706_496, {"h100-80gb": 50e9, "b300": 100e9}
    step = step_of(rollout_gpus=16, rollout_accelerator="b300")
    takes, sends = 16 * cards["b300"], 48 * cards["h100-80gb"]
    expected_s = step["sync_network_bytes"] / min(takes, sends)
    assert step["sync_bound_s"] == pytest.approx(expected_s)
    stored: dict[str, Any] = {"sync_over": "storage", "storage": "40e9:80e9", "rollout_gpus": 32}
    whole, delta = (
        step_of(sync=sync, **stored)["sync_bound_s"] for sync in ("sharded", "delta:0.1")
    )
    assert whole == pytest.approx(copy_bytes / 40e9 + 4 * copy_bytes / 80e9)
    assert delta == pytest.approx(whole * (9 * 0.1 * (2 + 4) / 2 + 1) / 10)


def test_turns_wait_for_their_environment() -> None:
    """Between the same without environments, and with all waits behind it."""
    lengths = Lengths.fixed(100)
    servers = Servers(2, 8, RoundTime(0.01, 0.0))
    plain = rollouts_of(StepWork(lengths=lengths, prompts=4, group=4), servers)
    turned = rollouts_of(
        StepWork(lengths=lengths, prompts=4, group=4, turns=Turns(4, 2.0)), servers
    )
    assert plain.seconds == pytest.approx(1.0)
    assert turned.seconds == pytest.approx(7.0)
    assert turned.environment_s == 6.0
    cut = StepWork(lengths=lengths, prompts=4, group=4, turns=Turns(4, 2.0), over_sample=1.5)
    assert rollouts_of(cut, servers).seconds == pytest.approx(7.0)
    step = PostTrainingStep(
        work=StepWork(lengths=lengths, prompts=4, group=4, turns=Turns(4, 2.0)),
        rollouts=turned,
        train_s=1.0,
    )
    assert step.bottleneck == "environment"


def test_scoring_elsewhere_hides_behind_training_where_pools_are_apart() -> None:
    """max(R, max(own + T, elsewhere)): 100 against 20 + 30 or 70, and in turn all of it."""
    work = StepWork(lengths=Lengths.fixed(10), prompts=1, group=1, staleness=1)
    parts: dict[str, Any] = {"rollouts": Rollouts(seconds=40.0, stream_s=40.0), "train_s": 30.0}
    apart = PostTrainingStep(work=work, score_s=20.0, apart_score_s=70.0, **parts)
    assert apart.seconds == pytest.approx(70.0)
    in_turn = PostTrainingStep(
        work=StepWork(lengths=Lengths.fixed(10), prompts=1, group=1),
        score_s=20.0,
        apart_score_s=70.0,
        **parts,
    )
    assert in_turn.seconds == pytest.approx(160.0)


def test_lengths_are_read_as_they_are_given(tmp_path: Path) -> None:
    path = tmp_path / "lengths.csv"
    path.write_text("length,count\n1,3\n3,1\n")
    assert lengths_of(str(path)).mean == pytest.approx(1.5)
    assert lengths_of("pareto:2000:8000:16384").mean == pytest.approx(1979.1639, abs=1e-3)
    assert lengths_of("100:400").cap == 1600
    path.write_text("length\n5\n7\n")
    np.testing.assert_allclose(lengths_of(str(path)).longest(2), 6.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2000:1000", "answers whose P99 is 0.5 times the mean"),
        ("2000:80000", "give a file of"),
        ("pareto:2000:17000", "give a file of"),
        ("0:5", "no number of tokens"),
        ("2000:8000:100", "cap"),
        ("1:2:3:4", "MEAN:P99"),
        ("many", "no number of tokens"),
        ("nowhere.csv", "nowhere.csv"),
    ],
)
def test_lengths_that_are_none_say_what_would_be(text: str, words: str) -> None:
    with pytest.raises(NetplanError, match=words):
        lengths_of(text)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("length\n-4\n", ":2: length"),
        ("length\n1.5\n", ":2: length"),
        ("length\n", "no length in it"),
        ("size\n4\n", ":1: columns"),
        ("length,count\n4\n", ":2: 1 cells"),
        ('length\n"4\n', "not CSV"),
    ],
)
def test_files_of_lengths_name_the_line(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=words):
        lengths_of(str(path))


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"batch": 64}, "the batch is prompts x group-size, 1,024"),
        ({"staleness": -1}, "staleness"),
        ({"over_sample": 0.5}, "over-sample"),
        ({"colocated": True, "staleness": 2}, "--staleness 2 with --colocated"),
        ({"colocated": True, "staleness": 0, "rollout_accelerator": "h200"}, "leave one out"),
        ({"prompts": 0, "score_gpus": 8}, "--score-gpus 8 with --prompts 0"),
        ({"colocated": True, "sync": "delta:0.1"}, "--sync delta:0.1 with --colocated"),
        ({"partial": True}, "--partial with --over-sample 1"),
        ({"rollout_gpus": 64}, "leave none of 64 GPUs"),
        ({"rollout_gpus": 0}, "nobody rolls out"),
        ({"group": 0}, "--group-size 0"),
        ({"sync": "delta:0"}, "the share that has changed is"),
        ({"sync": "delta:1.5"}, "the share that has changed is"),
        ({"sync": "tree"}, "unknown --sync"),
        ({"sync_over": "storage"}, "needs --storage-bytes-per-s"),
        ({"sync_over": "storage", "storage": "5e9"}, "WRITE:READ"),
        ({"sync_rate": "1e15"}, "the wire allows at most"),
        ({"sync_rate": "fast"}, "--sync-rate"),
        ({"score": ("praise",)}, "unknown --score"),
        ({"score": ("judge:llama-3-70b",)}, "unknown --score"),
        ({"rollout_accelerator": "h101"}, "unknown accelerator"),
        ({"turns": 100, "answer_tokens": "50"}, "--turns 100"),
        ({"fixed": {"tensor": 8}}, "train.tensor=8 or rollout.tensor=8"),
        ({"prompts": 0, "updates": 0}, "nothing is rolled out or trained"),
        ({"model": "dlrm-1.2t"}, "dlrm-1.2t"),
    ],
)
def test_what_contradicts_itself_is_refused_in_a_line(inputs: dict[str, Any], words: str) -> None:
    with pytest.raises(NetplanError) as refusal:
        search("grpo-70b-h100", **inputs)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_pool_without_a_plan_is_named() -> None:
    with pytest.raises(NetplanError, match="the trainer has 8 GPUs"):
        search("grpo-70b-h100", rollout_gpus=56)
    with pytest.raises(NetplanError, match="the rollout pool has 1 GPU"):
        search("rl-moe-gb300", rollout_gpus=1)


def test_a_part_describes_itself() -> None:
    assert PostTraining(answer_tokens=2000).answer_tokens == "2000"
    assert PostTraining(sync_rate=6e9).sync_rate == "6000000000"
    assert PostTraining().scored_by == (("old", "", 0.0), ("reference", "", 0.0))
    with pytest.raises(InputError, match="unknown --sync"):
        PostTraining(sync="tree")


def test_schedules_beside_are_the_same_whichever_of_them_is_asked_about() -> None:
    """In turn takes as long on the same pools and plans, however far behind the question is."""
    steps = []
    for staleness in (0, 1, 2):
        beside = search("grpo-70b-h100", staleness=staleness).to_dict()["schedules"]
        steps.append([row["step_s"] for row in beside])
    assert steps[1] == pytest.approx(steps[0], rel=1e-6)
    assert steps[2] == pytest.approx(steps[0], rel=1e-6)


def test_words_say_what_a_measured_run_is_worth(tmp_path: Path) -> None:
    """An estimate is no bound; a run that does not apply is not asked for again."""
    run = tmp_path / "run.yaml"
    run.write_text("rollout_s: 310\nscore_s: 61\ntrain_s: 118\nsync_s: 4.2\nother_s: 11\n")
    answer: Any = search("grpo-70b-h100", measured=str(run))
    (same,) = schedules_words(answer.schedules)
    # In turn: 310 + 61 + 118 + 4.2 + 11.
    assert same.startswith("Such pools take 504 s in turn, 325 s one step off")
    assert same.endswith("beyond what estimates are off.")
    run.write_text("rollout_gpus: 32\n" + run.read_text())
    other = " ".join(str(search("grpo-70b-h100", measured=str(run), rollout_gpus=40)).split())
    assert "A step takes at least" in other
    assert "--measured does not apply to these pools and plans" in other
    assert "makes it one" not in other


def test_scoring_and_training_of_one_pool_set_the_pace_together() -> None:
    words = " ".join(str(search("grpo-70b-h100", staleness=2)).split())
    assert "set by scoring and training, which are of one pool" in words
    alone = " ".join(str(search("grpo-70b-h100", staleness=4, score=("none",))).split())
    assert "set by training." in alone


def test_phases_in_turn_on_the_same_gpus_say_so_once() -> None:
    words = str(search("grpo-70b-h100", colocated=True, staleness=0))
    assert "64 GPUs do both in turn; HB domains of 8" in words

"""Traffic and loads of a step of post-training: bytes by hand, one number everywhere, oracles."""

from typing import Any

import numpy as np
import pytest

from netplan import loads, search, simulate, training_traffic
from netplan.errors import InputError
from netplan.questions.loads import Loads
from netplan.questions.traffic import Traffic
from netplan.setup.over_sites import place_run
from netplan.setup.post_training_run import PostTrainedRun
from netplan.topologies.expand import expand
from netplan.traffic.matrix import TrafficMatrix

SMALL: dict[str, Any] = {
    "workload": "post-training",
    "gpus": 16,
    "model": "llama-3.1-8b",
    "rollout_gpus": 8,
    "answer_tokens": "100",
    "prompts": 4,
    "group": 2,
    "score": ("old",),
    "updates": 2,
    "fixed": {"train.tensor": 8, "train.pipeline": 1, "rollout.tensor": 8, "rollout.pipeline": 1},
}
"""A server and a trainer of eight GPUs, each in a domain of its own."""
LLAMA_8B = 8_030_261_248
"""Parameters of Llama 3.1 8B, as its file has them."""


def kinds_of(answer: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401 - both answers
    """Rows of the kinds of traffic in JSON."""
    rows: list[dict[str, Any]] = answer.to_dict()["kinds"]
    return {row["kind"]: row for row in rows}


def run_of(name: str, **inputs: Any) -> PostTrainedRun:  # noqa: ANN401
    """The step on its fabric."""
    run = place_run(Loads.make(name, **inputs), "hierarchical")
    assert isinstance(run, PostTrainedRun)
    return run


def test_bytes_of_every_kind_are_those_worked_by_hand() -> None:
    """Eight answers of 100 tokens to four prompts of 512, on eight GPUs that train and eight more.

    An all_reduce of M bytes among eight sends 14 M, a gather or scatter 7 M. A token has 8,192
    bytes, a layer two all_reduces when it serves.
    """
    kinds = {kind: row["total_bytes"] for kind, row in kinds_of(loads("hgx-h100", **SMALL)).items()}
    width, layers = 8192, 32
    assert kinds["rollout"] == pytest.approx(14 * width * 2 * layers * (8 * 100 + 4 * 512))
    # Two updates on four sequences of 612 tokens: forward 4 a layer, backward as many; the
    # embedding scatters, the head gathers, both ways, and scatters; the loss sums 4 bytes twice.
    message, loss = 4 * 612 * width, 4 * 612 * 8
    assert kinds["train-tensor"] == pytest.approx(2 * (7 * message * (8 * layers + 4) + 14 * loss))
    assert kinds["score"] == pytest.approx(2 * (7 * message * (4 * layers + 2) + 14 * loss))
    assert kinds["sync"] == 2 * LLAMA_8B
    assert kinds["trajectories"] == 8 * (512 + 100) * 8
    assert set(kinds) == {"rollout", "score", "sync", "trajectories", "train-tensor"}


def test_the_trainer_sends_what_the_same_training_sends() -> None:
    """Equivalent sequences of a step, asked about alone, by the same plan."""
    answer = training_traffic("grpo-70b-h100")
    run = answer.run
    assert isinstance(run, PostTrainedRun)
    assert run.trained.trainer
    plan, setting = run.trained.trainer.timed.plan, run.trained.trainer.setting
    degrees = {"tensor": plan.tensor, "pipeline": plan.pipeline, "microbatch": plan.microbatch}
    alone = training_traffic(
        "hgx-h100",
        gpus=32,
        radix=64,
        model="llama-3-70b",
        batch=setting.training.batch,
        fixed={**degrees, "interleave": plan.interleave},
        overrides={"model.sequence_length": str(setting.transformer.sequence_length)},
    )
    trained = {
        kind.removeprefix("train-"): row["total_bytes"]
        for kind, row in kinds_of(answer).items()
        if kind.startswith("train-")
    }
    assert trained == pytest.approx(
        {kind: row["total_bytes"] for kind, row in kinds_of(alone).items()}
    )


@pytest.mark.parametrize("score", [("none",), ("old",), ("old", "reference")])
def test_every_score_by_the_policy_is_one_more_forward_pass(score: tuple[str, ...]) -> None:
    kinds = kinds_of(training_traffic("hgx-h100", **{**SMALL, "score": score}))
    passes = sum(name != "none" for name in score)
    alone = kinds_of(training_traffic("hgx-h100", **SMALL))["score"]["total_bytes"]
    assert kinds.get("score", {"total_bytes": 0})["total_bytes"] == pytest.approx(passes * alone)


def test_a_reward_and_a_judge_send_on_gpus_of_their_own() -> None:
    """Of a judge what its servers send, of a reward its forward pass; both behind the trainer."""
    inputs = {**SMALL, "gpus": 24, "score_gpus": 8, "model": "llama-3.1-8b"}
    scores = ("reward:llama-3.1-8b", "judge:llama-3.1-8b:50")
    matrix = run_of("hgx-h100", **{**inputs, "score": scores}).matrix().of_kind("score")
    sent, received = ends(matrix)
    assert not sent[:16].any()
    assert not received[:16].any()
    none = run_of("hgx-h100", **{**inputs, "score": ("none",)}).matrix().of_kind("score")
    assert none.total_bytes == 0


@pytest.mark.parametrize("name", ["grpo-70b-h100", "rl-moe-gb300"])
@pytest.mark.parametrize("sync", ["sharded", "full", "relay", "experts", "delta:0.02"])
def test_new_weights_have_one_number_in_search_traffic_and_loads(name: str, sync: str) -> None:
    step = search(name, sync=sync).to_dict()
    by_traffic, by_loads = (kinds_of(ask(name, sync=sync)) for ask in (training_traffic, loads))
    assert by_traffic["sync"]["total_bytes"] == pytest.approx(step["sync_bytes"], rel=1e-9)
    assert by_loads["sync"]["total_bytes"] == by_traffic["sync"]["total_bytes"]
    assert by_loads["sync"]["network_bytes"] == pytest.approx(step["sync_network_bytes"], rel=1e-9)


def test_sharded_weights_are_parameters_times_bytes_times_copies() -> None:
    """Four copies of 70,553,706,496 parameters of 2 bytes, each of a whole domain."""
    expected = 4 * 2 * 70_553_706_496
    for ask in (training_traffic, loads):
        answer = ask("grpo-70b-h100").to_dict()
        assert answer["sync_bytes"] == answer["sync_network_bytes"] == expected
        row = next(row for row in answer["kinds"] if row["kind"] == "sync")
        assert row["total_bytes"] == pytest.approx(expected, rel=1e-12)


def test_simulated_steps_send_the_same_new_weights() -> None:
    simulated = simulate("grpo-70b-h100").to_dict()["simulated"]["sync"]
    sent = kinds_of(loads("grpo-70b-h100"))["sync"]
    assert simulated["total_bytes"] == pytest.approx(sent["total_bytes"], rel=1e-12)
    assert simulated["network_bytes"] == pytest.approx(sent["network_bytes"], rel=1e-12)
    assert simulated["wire_s"] == pytest.approx(sent["busiest_s"], rel=1e-9)


def test_kinds_are_as_busy_as_their_own_links_while_their_phase_runs() -> None:
    """Never over the whole step: its phases, the rates in them, what of a link they take."""
    answer = loads("grpo-70b-h100").to_dict()
    phases: dict[str, float] = {}
    for phase in answer["phases"]:
        phases[phase["name"]] = phases.get(phase["name"], 0.0) + phase["s"]
    for row in answer["kinds"]:
        assert row["phase_s"] == pytest.approx(phases[row["phase"]])
        assert row["step_share"] == pytest.approx(phases[row["phase"]] / answer["step_s"])
        assert row["link_share"] == pytest.approx(row["busiest_s"] / row["phase_s"])
        assert row["phase_bytes_per_s"] == pytest.approx(row["network_bytes"] / row["phase_s"])
        assert row["link_share"] <= 1 + 1e-9
    kinds = {row["kind"]: row for row in answer["kinds"]}
    # 564.4 GB over the cards of 32 GPUs, 50 GB/s each: all of the link while it runs.
    assert kinds["sync"]["busiest_s"] == pytest.approx(8 * 70_553_706_496 / (32 * 50e9))
    assert kinds["sync"]["link_share"] == pytest.approx(1.0)
    assert kinds["sync"]["phase_bytes_per_s"] == pytest.approx(32 * 50e9)
    assert sum(row["busiest_s"] for row in answer["kinds"]) >= answer["busiest_s"] * (1 - 1e-9)


def test_collectives_of_both_pools_stand_beside_their_bounds() -> None:
    answer = loads("rl-moe-gb300")
    kinds = {row.kind for row in answer.collectives}
    assert {"train-expert", "train-data", "rollout-tensor"} <= kinds
    assert all(row.bound_s <= row.busiest_s * (1 + 1e-9) for row in answer.collectives)


def ends(matrix: TrafficMatrix) -> tuple[np.ndarray, np.ndarray]:
    """Bytes that each GPU sends and receives [B]."""
    flows = matrix.listed()
    return tuple(
        np.bincount(end, weights=flows.flow_bytes, minlength=matrix.gpus)
        for end in (flows.source, flows.destination)
    )  # type: ignore[return-value]


def leaf_bound_s(run: PostTrainedRun) -> float:
    """Busiest host link, or uplinks of a leaf, under packet spraying: summed flow by flow [s]."""
    flows = run.matrix().of_kind("sync").listed()
    sizing, rate = run.fabric.sizing, run.fabric.sizing.network_bytes_per_s
    crosses = flows.source // sizing.hb_size != flows.destination // sizing.hb_size
    source, destination = flows.source[crosses], flows.destination[crosses]
    amount = flows.flow_bytes[crosses]
    leaf = run.spec.leaf_of(sizing, np.arange(sizing.gpus))
    assert leaf is not None
    graph = expand(run.spec, sizing)
    uplinks = graph.links_per_group()["leaf-spine"] / len(np.unique(leaf))
    times = []
    for end in (source, destination):
        times.append(np.bincount(end, weights=amount).max() / rate)
        away = leaf[source] != leaf[destination]
        times.append(np.bincount(leaf[end[away]], weights=amount[away]).max() / (uplinks * rate))
    return float(max(times))


@pytest.mark.parametrize("ratio", [1, 2, 4])
@pytest.mark.parametrize("fabric", ["fat-tree", "rail-optimized"])
def test_oversubscribed_uplinks_set_the_bound_of_new_weights(fabric: str, ratio: int) -> None:
    """Bytes between leaves over their uplinks, by a loop over flows in place of routing."""
    inputs = {"radix": 16, "fabric": fabric, "oversubscription": ratio}
    run = run_of("grpo-70b-h100", **inputs)
    assert run.trained.sync
    assert run.trained.sync.bound_by == "links"
    assert run.trained.sync.bound_s == pytest.approx(leaf_bound_s(run), rel=1e-9)


def test_more_oversubscription_is_never_faster_and_costs_at_last() -> None:
    """Four stages: the last has a quarter of 80 layers, the head and a norm, on eight GPUs."""
    plan = {"train.tensor": 4, "train.pipeline": 4, "rollout.tensor": 8}
    bounds_s = [
        search(
            "grpo-70b-h100", radix=16, fabric="fat-tree", oversubscription=ratio, fixed=plan
        ).to_dict()["sync_bound_s"]
        for ratio in (1, 2, 4)
    ]
    assert bounds_s == sorted(bounds_s)
    words, norm = 8192 * 128_256, 8192
    layer = (70_553_706_496 - 2 * words - norm) / 80
    assert bounds_s[0] == pytest.approx(4 * 2 * (20 * layer + words + norm) / (8 * 50e9))
    assert bounds_s[2] > 2 * bounds_s[0]


@pytest.mark.parametrize("zero", [1, 3])
def test_rails_forward_new_weights_inside_the_sending_domain(zero: int) -> None:
    """Rail q of a domain carries what all of it sends to GPUs of rank q elsewhere."""
    inputs = {"fabric": "rail-only", "radix": 16, "zero_stage": zero, "recompute": "full"}
    run = run_of("grpo-70b-h100", **inputs)
    flows, size = run.matrix().of_kind("sync").listed(), 8
    away = flows.source // size != flows.destination // size
    rail = flows.source[away] // size * size + flows.destination[away] % size
    out = np.bincount(rail, weights=flows.flow_bytes[away], minlength=64)
    into = np.bincount(flows.destination[away], weights=flows.flow_bytes[away])
    assert run.trained.sync
    assert run.trained.sync.bound_s == pytest.approx(max(out.max(), into.max()) / 50e9)
    assert out.max() < 1.05 * out[run.places.trainer].mean()


def test_copies_of_a_domain_share_what_enters_it() -> None:
    """Eighteen copies in two domains of 72: no card takes much more than its part of a copy."""
    run = run_of("rl-moe-gb300")
    flows = run.matrix().of_kind("sync").listed()
    away = flows.source // 72 != flows.destination // 72
    into = np.bincount(flows.destination[away], weights=flows.flow_bytes[away], minlength=288)
    assert into[:144] == pytest.approx(into[:144].mean())
    assert into.sum() == pytest.approx(run.in_short["sync_network_bytes"])


def test_pools_that_take_turns_have_one_set_of_gpus() -> None:
    """Each GPU gets what it does not hold; no answer goes to another pool."""
    step = search("grpo-70b-h100", colocated=True, rollout_gpus=0, staleness=0).to_dict()
    kinds = kinds_of(training_traffic("grpo-70b-h100", colocated=True, rollout_gpus=0, staleness=0))
    assert step["sync_bytes"] > 0
    assert kinds["sync"]["total_bytes"] == pytest.approx(step["sync_bytes"])
    assert "trajectories" not in kinds
    busy = kinds_of(loads("grpo-70b-h100", colocated=True, rollout_gpus=0, staleness=0))["sync"]
    assert busy["network_bytes"] == pytest.approx(step["sync_network_bytes"])
    assert (busy["busiest_s"], step["sync_bound_by"]) == (step["sync_bound_s"], "links")
    run = run_of("grpo-70b-h100", colocated=True, rollout_gpus=0, staleness=0)
    assert run.trained.trainer
    # Each takes an eighth of the stages that it has not, of 141 GB.
    away = 1 - 1 / run.trained.trainer.stages
    assert busy["total_bytes"] == pytest.approx(64 * 2 * 70_553_706_496 / 8 * away)
    assert run.places.rollout is run.places.trainer


def test_a_pool_without_work_has_no_traffic() -> None:
    assert all(
        kind.startswith("train-")
        for kind in kinds_of(loads("grpo-70b-h100", prompts=0, rollout_gpus=0, batch=256))
    )
    served = {"updates": 0, "rollout_gpus": 64, "staleness": 0}
    assert set(kinds_of(loads("grpo-70b-h100", **served))) == {"rollout"}


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"collective_algorithm": "ring"}, "--collective-algorithm ring means nothing"),
        ({"sites": "2"}, "--sites 2 is of training"),
        ({"rollout_accelerator": "gb300"}, "ask about each pool by itself"),
    ],
)
def test_what_means_nothing_is_refused(inputs: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        loads("grpo-70b-h100", **inputs)


@pytest.mark.parametrize("fabric", ["rail-only", "dragonfly", "torus-3d", "dgx-superpod"])
def test_steps_lie_on_any_fabric(fabric: str) -> None:
    """All bytes of a kind on the links inside domains and between: each at least once."""
    answer = loads("grpo-70b-h100", fabric=fabric)
    assert answer.run
    matrix = answer.run.matrix()
    carried = sum(group.total_bytes for group in answer.groups)
    assert carried >= matrix.total_bytes * (1 - 1e-9)
    asked = Traffic.make("grpo-70b-h100", fabric=fabric).ask()
    assert asked.matrix.total_bytes == pytest.approx(matrix.total_bytes)

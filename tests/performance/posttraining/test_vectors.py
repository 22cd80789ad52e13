"""The 154 test vectors of the specification, each by the function that it is about."""

import csv
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from netplan.inputs.choices import SyncKind
from netplan.performance.posttraining.lengths import Lengths, equivalent_batch, packed_bins
from netplan.performance.posttraining.pools import PoolTimes, balanced_gpus, best_split
from netplan.performance.posttraining.rollouts import (
    Batch,
    RoundTime,
    Turns,
    drain_seconds,
    over_sampled,
    rollout_seconds,
    simulate_rollouts,
    stream_seconds,
)
from netplan.performance.posttraining.schedules import (
    Mode,
    Phases,
    bottleneck,
    speed_up_limit,
    step_seconds,
)
from netplan.performance.posttraining.synchronisation import (
    Receivers,
    SyncLinks,
    Weights,
    reshard_bytes,
    storage_bound_s,
    sync_bound_s,
    sync_bytes,
)
from tests.oracles.post_training import schedule_step_s

ROWS = [
    (row["case"], row["quantity"], float(row["value"]))
    for row in csv.DictReader(
        Path(__file__).with_name("expected.csv").read_text(encoding="utf-8").splitlines()
    )
]
DIGITS = 5.1e-9
"""What nine printed digits are off by at most [1]."""

NIC, HB = 50e9, 450e9
MODELS = {
    "llama-3-70b": Weights(70_553_706_496, 0, 2.0),
    "deepseek-v3": Weights(17.1e9, 653.9e9, 2.0),
    "qwen3-30b": Weights(1.51e9, 28.99e9, 1.0),
}
RECEIVERS = {
    "llama-3-70b": Receivers(copies=8, copy_gpus=8, expert_gpus=8),
    "deepseek-v3": Receivers(copies=1, copy_gpus=32, expert_gpus=32),
    "qwen3-30b": Receivers(copies=16, copy_gpus=2, expert_gpus=2),
}


@cache
def lengths(name: str) -> Lengths:
    """Lengths by the name of a case."""
    law, *numbers = name.split("-")
    values = [int(number) for number in numbers]
    if law == "logn":
        return Lengths.lognormal(values[0], values[1], values[2])
    if law == "pareto":
        return Lengths.pareto(values[0], values[1], values[2])
    return Lengths.fixed(values[0]) if law == "fixed" else Lengths.measured(values)


USUAL = "logn-2000-8000-16384"


def of_lengths(case: str, quantity: str) -> float:
    given = lengths(case)
    if quantity.startswith("longest of"):
        return float(given.longest(int(quantity.rsplit(maxsplit=1)[-1])))
    if quantity == "8th of 10":
        return given.kth(8, 10)
    return given.mean if quantity == "mean" else given.square


def of_rollouts(case: str, quantity: str) -> float:
    numbers = re.match(r"rollout n(\d+) r(\d+) s(\d+)", case)
    assert numbers is not None
    answers, replicas, slots = map(int, numbers.groups())
    batch, rounds = Batch(answers=answers, replicas=replicas, slots=slots), RoundTime(0.01, 0.00008)
    turns = Turns(8, 2.0) if "turns8" in case else Turns()
    if quantity == "closed_s":
        return rollout_seconds(lengths(USUAL), batch, rounds)
    seeds = range(20) if "mean" in quantity else [0]
    draws = [
        simulate_rollouts(lengths(USUAL), batch, rounds, turns=turns, seed=seed).seconds
        for seed in seeds
    ]
    return float(np.mean(draws))


def of_streams(case: str, quantity: str) -> float:
    assert (case, quantity) == ("stream n512 r8 s64", "s")
    batch = Batch(answers=512, replicas=8, slots=64)
    return stream_seconds(lengths(USUAL), batch, RoundTime(0.01, 0.00008))


def of_aborts(case: str, quantity: str) -> float:
    names = "rounds", "kept_mean", "thrown_away"
    assert case == "over-sample 256 of 384"
    return over_sampled(lengths(USUAL), 256, 384)[names.index(quantity)]


def of_batches(case: str, quantity: str) -> float:
    prompt, answers = (int(number) for number in re.findall(r"\d+", case))
    numbers = equivalent_batch(lengths(USUAL), answers, prompt)
    return numbers[("sequence", "batch").index(quantity)]


def of_packing(case: str, quantity: str) -> float:
    assert case == "pack 5,4,4,3,2,2 in 8"
    return float(getattr(packed_bins([5, 4, 4, 3, 2, 2], 8), quantity))


def of_steps(case: str, quantity: str) -> float:
    assert quantity == "s"
    stream = 70.0 if "stream70" in case else None
    phases = Phases(rollout=100, score=20, train=60, sync=5, stream=stream)
    modes: dict[str, Mode] = {"sync": "sync", "one-off": "one-off", "async": "async"}
    behind = re.search(r"staleness(\d+)", case)
    return float(step_seconds(modes[case.split()[1]], phases, int(behind[1]) if behind else 0))


def of_schedules(case: str, quantity: str) -> float:
    assert quantity == "s"
    rollouts = np.full(400, 100.0)
    if "lognormal" in case:
        rollouts = np.random.default_rng(7).lognormal(np.log(90), 0.3, 400)
    staleness = int(case.split("staleness")[1])
    trains = np.full(len(rollouts), 80.0)
    return float(schedule_step_s(rollouts, trains, 5.0, staleness=staleness))


def of_splits(case: str, quantity: str) -> float:
    gpus, rollout_s, train_s = (int(number) for number in re.findall(r"\d+", case))
    step = {64: 8, 48: 16, 16: 2}[gpus]
    sizes = range(step, gpus, step)
    pools = PoolTimes.of_work(sizes, rollout_s), PoolTimes.of_work(sizes, train_s)
    if quantity == "ideal share":
        return balanced_gpus(1, rollout_s, train_s)
    best = best_split(gpus, *pools)[0]
    return float({"rollout": best[0], "train": best[1], "step_s": best[2]}[quantity])


def of_syncs(case: str, quantity: str) -> float:
    model, kind = case.split()[1], case.split("of ")[1].split()[1]
    kinds: dict[str, SyncKind] = {name: name for name in ("full", "relay", "experts", "sharded")}
    changed = 0.01 if kind == "delta" else 1.0
    sent = sync_bytes(MODELS[model], RECEIVERS[model], kinds.get(kind, "delta"), changed)
    return float(getattr(sent, {"all": "total"}.get(quantity, quantity)))


def of_bounds(case: str, quantity: str) -> float:
    assert quantity == "s"
    weights, to = MODELS["llama-3-70b"], RECEIVERS["llama-3-70b"]
    if "storage" in case:
        sent = sync_bytes(weights, to)
        return storage_bound_s(sent, to, weights.copy_bytes, (40e9, 80e9), NIC)
    sent = sync_bytes(weights, to, "full" if "full" in case else "sharded")
    senders = int(case.split()[3])
    links = SyncLinks(senders=senders, nic_bytes_per_s=NIC, hb_bytes_per_s=HB)
    return sync_bound_s(sent, to, links)


def of_reshards(case: str, quantity: str) -> float:
    assert quantity == "bytes_per_gpu"
    stages, shards, rollout = map(int, re.findall(r"pp(\d+) shards(\d+) to (\d+)", case)[0])
    aligned = not case.endswith("unaligned")
    return reshard_bytes(
        MODELS["llama-3-70b"], rollout, stages=stages, shards=shards, aligned=aligned
    )


def of_limits(case: str, quantity: str) -> float:
    assert (case, quantity) == ("limit 356.3,113.81", "ratio")
    return float(speed_up_limit(356.3, 113.81))


BY_KIND: dict[str, Callable[[str, str], float]] = {
    "rollout": of_rollouts,
    "stream": of_streams,
    "over-sample": of_aborts,
    "equivalent": of_batches,
    "pack": of_packing,
    "step": of_steps,
    "schedule": of_schedules,
    "split": of_splits,
    "sync": of_syncs,
    "bound": of_bounds,
    "reshard": of_reshards,
    "limit": of_limits,
}


def test_there_are_154_vectors() -> None:
    assert len(ROWS) == 154


@pytest.mark.parametrize(("case", "quantity", "value"), ROWS)
def test_a_vector_of_the_specification_is_met(case: str, quantity: str, value: float) -> None:
    ours = BY_KIND.get(case.split(maxsplit=1)[0], of_lengths)(case, quantity)
    assert ours == pytest.approx(value, rel=DIGITS, abs=1e-9)


def test_the_worked_example_is_met() -> None:
    """64 H100 half and half, llama-3-70b, 64 prompts x 16 answers, as the specification has it."""
    answers = lengths(USUAL)
    rounds = RoundTime.through((1, 256), (10.78e-3, 32.85e-3))
    batch = Batch(answers=1024, replicas=4, slots=256)
    assert (round(1e3 * rounds.fixed_s, 3), round(1e6 * rounds.each_s, 1)) == (10.693, 86.5)
    assert float(answers.longest(1024)) == pytest.approx(14_410, abs=1)
    rollout_s = rollout_seconds(answers, batch, rounds)
    simulated = [simulate_rollouts(answers, batch, rounds, seed=k).seconds for k in range(20)]
    stream_s = stream_seconds(answers, batch, rounds)
    assert rollout_s == pytest.approx(199.2, abs=0.1)
    assert np.mean(simulated) == pytest.approx(197.9, abs=0.3)
    assert stream_s == pytest.approx(65.7, abs=0.05)
    sequence, equal = equivalent_batch(answers, 1024, 512)
    assert (round(sequence), round(equal)) == (3503, 734)
    to = Receivers(copies=4, copy_gpus=8)
    sent = sync_bytes(MODELS["llama-3-70b"], to)
    links = SyncLinks(senders=32, nic_bytes_per_s=NIC, hb_bytes_per_s=HB)
    sync_s = sync_bound_s(sent, to, links)
    assert sent.total == pytest.approx(564.4e9, rel=1e-4)
    assert sync_s == pytest.approx(0.353, abs=1e-3)
    phases = Phases(rollout=rollout_s, score=44.5, train=89.0, sync=sync_s, stream=stream_s)
    tail_s = drain_seconds(answers, batch, rounds)
    steps = {"sync": 333.0, "one-off": 199.6, "async": 133.8}
    modes: tuple[Mode, ...] = ("sync", "one-off", "async")
    for mode in modes:
        assert float(step_seconds(mode, phases, 2)) == pytest.approx(steps[mode], abs=0.15)
    assert bottleneck("one-off", phases, tail_s=tail_s) == "rollout-tail"
    assert bottleneck("async", phases, 2, tail_s=tail_s) == "train"

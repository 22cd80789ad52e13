"""What holds of post-training whatever its numbers are: orders, limits, sums, simulations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs.generators.rooms import imports
from netplan.errors import InputError
from netplan.performance.posttraining.lengths import (
    Lengths,
    equivalent_batch,
    packed_bins,
    padded_use,
)
from netplan.performance.posttraining.pools import PoolTimes, balanced_gpus, best_split
from netplan.performance.posttraining.rollouts import (
    Batch,
    RoundTime,
    Turns,
    drain_seconds,
    over_sampled,
    rollout_seconds,
    rollout_seconds_of_table,
    simulate_rollouts,
    stream_seconds,
)
from netplan.performance.posttraining.schedules import (
    Phases,
    bottleneck,
    scaled_phases,
    speed_up_limit,
    step_seconds,
)
from netplan.performance.posttraining.synchronisation import (
    SYNC_KINDS,
    SYNC_SOFTWARE,
    Receivers,
    SyncLinks,
    Weights,
    anchored_bytes,
    gather_bytes,
    reshard_bytes,
    storage_bound_s,
    sync_bound_s,
    sync_bytes,
    sync_s,
)
from tests.oracles.post_training import schedule_step_s

FEW = settings(max_examples=60, deadline=None)
some = st.lists(st.integers(1, 40), min_size=1, max_size=12)
seconds = st.floats(0.01, 1e4)
counts = st.integers(1, 64)


@FEW
@given(some, st.integers(1, 50))
def test_the_longest_rises_from_the_mean_to_the_cap(rows: list[int], answers: int) -> None:
    lengths = Lengths.measured(rows)
    longest = lengths.longest(np.arange(1, answers + 1))
    assert lengths.mean == pytest.approx(np.mean(rows)) == pytest.approx(longest[0])
    assert (np.diff(longest) >= -1e-9).all()
    assert longest[-1] <= lengths.cap + 1e-9
    assert lengths.square == pytest.approx(np.mean(np.square(rows)))
    assert sum(lengths.kth(j, answers) for j in range(1, answers + 1)) == pytest.approx(
        answers * lengths.mean
    )
    assert float(lengths.tokens_until(lengths.cap)) == pytest.approx(lengths.mean)


@FEW
@given(st.floats(50, 200), st.floats(1, 7.9))
def test_laws_have_the_mean_and_the_percentile_that_were_asked_for(
    mean: float, ratio: float
) -> None:
    """A cap far above the mean: nothing is cut but the tail of Pareto's law."""
    p99 = mean * ratio
    for law in (Lengths.lognormal, Lengths.pareto):
        lengths = law(mean, p99, cap=50_000)
        assert lengths.p99 == pytest.approx(p99, abs=2, rel=1e-3)
        assert lengths.mean <= mean + 1.01
    lengths = Lengths.lognormal(mean, p99, cap=50_000)
    assert lengths.mean == pytest.approx(mean + 0.5, abs=0.6)  # whole tokens round up


@FEW
@given(some, st.integers(1, 60), counts, st.integers(1, 8), seconds, seconds)
def test_pools_and_slots_only_help(
    rows: list[int], answers: int, slots: int, replicas: int, fixed_s: float, each_s: float
) -> None:
    """More slots never take longer, and a stream none longer than its waves."""
    lengths, rounds = Lengths.measured(rows), RoundTime(fixed_s, each_s)
    batch = Batch(answers=answers * replicas, replicas=replicas, slots=max(slots, answers))
    wave_s = rollout_seconds(lengths, batch, rounds)
    assert drain_seconds(lengths, batch, rounds) <= wave_s * (1 + 1e-12)
    lone = Batch(answers=answers, slots=max(slots, answers))
    assert rollout_seconds(lengths, lone, rounds) <= wave_s * (1 + 1e-9)
    full = Batch(answers=answers * replicas, replicas=replicas, slots=answers)
    assert stream_seconds(lengths, full, rounds) <= wave_s * (1 + 1e-9)


@FEW
@given(some, st.integers(1, 12))
def test_a_table_of_a_line_is_the_line(rows: list[int], answers: int) -> None:
    lengths, times = Lengths.measured(rows), np.append(0.0, 2.0 + 0.5 * np.arange(1, answers + 1))
    expected = 2.0 * float(lengths.longest(answers)) + 0.5 * answers * lengths.mean
    assert rollout_seconds_of_table(lengths, answers, times) == pytest.approx(expected)


@FEW
@given(some, st.integers(1, 30), st.integers(1, 8), st.integers(1, 3), st.integers(0, 99))
def test_simulated_rollouts_lie_between_their_bounds(
    rows: list[int], answers: int, slots: int, replicas: int, seed: int
) -> None:
    """No replica ends before its work or its longest answer, none after all in turn."""
    lengths, rounds = Lengths.measured(rows), RoundTime(1.0, 0.25)
    batch = Batch(answers=answers, replicas=min(replicas, answers), slots=slots)
    run = simulate_rollouts(lengths, batch, rounds, seed=seed)
    drawn = lengths.draw(np.random.default_rng(seed), answers)
    assert (run.tokens, run.longest) == (drawn.sum(), drawn.max())
    for replica, end_s in enumerate(run.ends_s):
        own = drawn[replica :: batch.replicas]
        most = min(slots, len(own))
        least = max(1.25 * own.max(), own.sum() * (1 / most + 0.25))
        assert least * (1 - 1e-9) <= end_s <= 1.25 * own.sum() * (1 + 1e-9)
    turned = simulate_rollouts(lengths, batch, rounds, turns=Turns(3, 0.0), seed=seed)
    assert turned.tokens == run.tokens


def test_turns_lie_between_their_ends_on_the_vectors_of_the_specification() -> None:
    lengths, rounds, turns = (
        Lengths.lognormal(2000, 8000, 16384),
        RoundTime(0.01, 8e-5),
        Turns(8, 2),
    )
    for slots, seconds_s in ((64, 151.764836), (16, 178.919816)):
        # Between the longest answer with its seven waits, or no waits at all, and all of it.
        without_s = rollout_seconds(lengths, Batch(answers=512, replicas=8, slots=slots), rounds)
        waits_s = (turns.count - 1) * turns.environment_s
        longest_s = rounds.fixed_s * float(lengths.longest(512))
        assert max(without_s, longest_s + waits_s) * 0.97 <= seconds_s <= without_s + waits_s


@FEW
@given(some, st.integers(1, 20), st.integers(0, 20))
def test_kept_answers_are_the_short_ones(rows: list[int], wanted: int, more: int) -> None:
    lengths = Lengths.measured(rows)
    rounds, kept_mean, thrown = over_sampled(lengths, wanted, wanted + more)
    assert rounds <= float(lengths.longest(wanted)) + 1e-9
    assert kept_mean <= lengths.mean * (1 + 1e-2) + 0.05
    assert thrown >= 0


@FEW
@given(some, st.floats(0, 500), st.integers(1, 500))
def test_equal_sequences_have_the_tokens_and_squares_of_all(
    rows: list[int], prompt: float, answers: int
) -> None:
    sequence, batch = equivalent_batch(Lengths.measured(rows), answers, prompt)
    sizes = prompt + np.array(rows)
    assert sequence * batch == pytest.approx(answers * sizes.mean())
    assert sequence**2 * batch == pytest.approx(answers * np.square(sizes).mean())
    assert batch <= answers * (1 + 1e-12)
    assert 0 < padded_use(Lengths.measured(rows), 4, prompt) <= 1 + 1e-12


@FEW
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60).filter(any))
def test_bins_are_those_of_first_fit_decreasing(sizes: list[int]) -> None:
    bins: list[int] = []
    for size in sorted(sizes, reverse=True):
        fitting = [k for k, used in enumerate(bins) if used + size <= 30]
        if fitting:
            bins[fitting[0]] += size
        else:
            bins.append(size)
    packed = packed_bins(sizes, 30)
    assert packed.bins == len(bins)
    assert packed.used == pytest.approx(sum(sizes) / (30 * len(bins)))


@FEW
@given(seconds, seconds, seconds, seconds, st.floats(0, 1), st.integers(1, 6))
def test_steps_keep_the_limits_of_the_model(
    rollout: float, score: float, train: float, sync: float, hidden: float, staleness: int
) -> None:
    """Section 6.7: no faster than both pools, never slower by more staleness, no gain beyond."""
    stream = 0.7 * rollout
    phases = Phases(
        rollout=rollout, score=score, train=train, sync=sync, stream=stream, hidden=hidden
    )
    whole = float(step_seconds("sync", phases))
    steps = step_seconds("async", phases, np.arange(staleness + 1))
    assert steps[0] == pytest.approx(whole)
    assert (np.diff(steps) <= 1e-9 * whole).all()
    assert (steps >= max(stream, score + train) * (1 - 1e-12)).all()
    assert whole / steps[-1] <= float(speed_up_limit(whole, train, score)) * (1 + 1e-9)
    assert step_seconds("one-off", phases) <= whole
    shown = bottleneck("async", phases, staleness)
    assert shown in ("rollout", "rollout-tail", "train", "score", "sync", "staleness")


@FEW
@given(seconds, seconds, st.floats(0, 100), st.integers(0, 4))
def test_constant_times_are_simulated_as_the_closed_form(
    rollout: float, train: float, sync: float, staleness: int
) -> None:
    """Without waves a stream is the rollout."""
    steps = 24
    mean = schedule_step_s(
        np.full(steps * 5, rollout), np.full(steps * 5, train), sync, staleness=staleness, warm=40
    )
    phases = Phases(rollout=rollout, train=train, sync=sync)
    assert float(mean) == pytest.approx(float(step_seconds("async", phases, staleness)), rel=0.03)


def test_uneven_batches_take_longer_than_their_mean() -> None:
    rollouts = np.random.default_rng(3).lognormal(np.log(90), 0.3, (400, 6))
    trains = np.full((400, 1), 80.0)
    uneven = schedule_step_s(rollouts, trains, 5.0, staleness=1)
    phases = Phases(rollout=rollouts[20:].mean(axis=0), train=80.0, sync=5.0)
    assert uneven.shape == (6,)
    assert (uneven > step_seconds("one-off", phases)).all()


@FEW
@given(seconds, seconds, st.integers(2, 40), st.floats(0, 50))
def test_a_split_is_the_best_of_all_pairs(
    rollout_s: float, train_s: float, gpus: int, tail_s: float
) -> None:
    pools = (
        PoolTimes.of_work(range(1, gpus), rollout_s, tail_s),
        PoolTimes.of_work(range(1, gpus), train_s),
    )
    splits = best_split(gpus, *pools, sync_s=1.0)
    every = [
        (max(rollout_s / g + tail_s, train_s / t) + 1.0, g + t, t, g)
        for g in range(1, gpus)
        for t in range(1, gpus)
        if g + t <= gpus
    ]
    step_s, _, t, g = min(every)
    assert (splits[0].rollout_gpus, splits[0].train_gpus) == (g, t)
    assert splits[0].step_s == pytest.approx(step_s)
    assert len(splits) == len(every)
    ideal = balanced_gpus(gpus, rollout_s, train_s, tail_s)
    assert 0 < ideal < gpus
    assert tail_s + rollout_s / ideal == pytest.approx(train_s / (gpus - ideal), rel=1e-6)
    assert splits[0].step_s >= (tail_s + rollout_s / ideal + 1.0) * (1 - 1e-6)


weights = st.builds(
    Weights, st.integers(1, 10**12), st.integers(0, 10**12), st.sampled_from([2.0, 1.0, 0.5625])
)
receivers = st.builds(
    Receivers,
    copies=st.integers(1, 20),
    copy_gpus=st.sampled_from([1, 2, 4, 8, 16, 32]),
    expert_gpus=st.sampled_from([1, 2, 4, 8]),
    domain=st.sampled_from([1, 4, 8, 72]),
)


@FEW
@given(weights, receivers)
def test_bytes_are_those_of_every_gpu(sent: Weights, to: Receivers) -> None:
    """All = a GPU's x GPUs; sharded over whole domains a copy each; none crosses for nobody."""
    parts = {kind: sync_bytes(sent, to, kind, 0.02) for kind in SYNC_KINDS}
    for kind, (per_gpu, total, network) in parts.items():
        assert total == pytest.approx(per_gpu * to.gpus), kind
        if kind not in ("full", "experts") or to.gpus % min(to.domain, to.gpus) == 0:
            assert network <= total * (1 + 1e-9) or to.gpus % to.domain, kind
    if to.copy_gpus >= to.domain:
        assert parts["sharded"].network == pytest.approx(sent.copy_bytes * to.copies)
    assert parts["sharded"].per_gpu <= parts["full"].per_gpu
    assert parts["full"].network <= parts["relay"].network * (1 + 1e-9)
    ratio = 0.02 * (sent.width_bytes + 4) / sent.width_bytes
    assert parts["delta"].total == pytest.approx(ratio * parts["sharded"].total)
    assert parts["delta"].total <= anchored_bytes(
        parts["delta"].total, sent.copy_bytes * to.copies, 10
    )


@FEW
@given(weights, receivers, st.integers(1, 256))
def test_no_software_beats_the_bound(sent: Weights, to: Receivers, senders: int) -> None:
    bytes_ = sync_bytes(sent, to)
    few, many = (
        sync_bound_s(
            bytes_, to, SyncLinks(senders=count, nic_bytes_per_s=50e9, hb_bytes_per_s=450e9)
        )
        for count in (senders, 2 * senders)
    )
    assert many <= few
    assert sync_s(few, sent.copy_bytes) == few
    slow = sent.copy_bytes / few / 3
    assert sync_s(few, sent.copy_bytes, slow) == pytest.approx(3 * few)
    with pytest.raises(InputError, match="the wire allows at most"):
        sync_s(few, sent.copy_bytes, 1.01 * sent.copy_bytes / few)
    stored = storage_bound_s(bytes_, to, sent.copy_bytes, (40e9, 80e9), 50e9)
    assert stored >= sent.copy_bytes / 40e9


@FEW
@given(weights, st.integers(1, 8), st.sampled_from([1, 2, 4, 8, 16]))
def test_the_same_plan_moves_nothing(sent: Weights, stages: int, shards: int) -> None:
    assert reshard_bytes(sent, shards, stages=1, shards=shards) == 0
    moved = reshard_bytes(sent, shards, stages=stages, shards=shards)
    apart = reshard_bytes(sent, shards, stages=stages, shards=shards, aligned=False)
    assert 0 <= moved <= apart <= sent.copy_bytes / shards
    assert gather_bytes(sent, stages, 1) == 0


def test_formulas_stand_alone() -> None:
    """No other model of time, no network and no workload: numbers come in, numbers go out.

    What takes them from the models of serving and training, or lays weights on GPUs, is beside.
    """
    room = "netplan.performance.posttraining"
    formulas = {
        f"{room}.{name}"
        for name in ("lengths", "pools", "rollouts", "schedules", "synchronisation", "step")
    }
    lower = ("netplan.arrays", "netplan.catalog", "netplan.costing.ranges", "netplan.errors")
    taken = {other for name, others in imports().items() if name in formulas for other in others}
    assert formulas <= imports().keys()
    others = {other for other in taken if not other.startswith(lower)} - formulas
    assert others <= {"netplan.inputs.choices", "netplan.performance.posttraining"}


def test_rates_of_software_are_below_the_wire_of_a_copy_and_in_order() -> None:
    rates = SYNC_SOFTWARE.load("printed-2026").rates
    middle = [rates[kind].base for kind in ("tensors", "buckets", "pipelined")]
    assert middle == sorted(middle) == [6e9, 17e9, 66e9]
    assert all(rate.range.low < rate.base < rate.range.high for rate in rates.values())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Lengths.lognormal(2000, 1000, 9000), "P99 is 0.5 times the mean"),
        (lambda: Lengths.lognormal(2000, 40000, 90000), "give a file of lengths"),
        (lambda: Lengths.pareto(2000, 17000, 90000), "a Pareto law has 1 to 7.988"),
        (lambda: Lengths.lognormal(2000, 8000, 1000), "give a cap from the mean"),
        (lambda: Lengths.lognormal(0.5, 1, 10), "give at least 1"),
        (lambda: Lengths.measured([]), "whole numbers from 1"),
        (lambda: Lengths.measured([1.5]), "whole numbers from 1"),
        (lambda: Lengths.measured([-1]), "whole numbers from 1"),
        (lambda: Lengths.measured([1], [-1]), "from 0 on"),
        (lambda: over_sampled(Lengths.fixed(9), 4, 3), "start as many or more"),
        (lambda: Batch(answers=0), "at least 1 of each"),
        (lambda: Weights(0, 0, 2.0), "not 0 of both"),
        (lambda: sync_bytes(Weights(1, 0, 2.0), Receivers(copies=1, copy_gpus=1), "delta", 0),
         "above 0 and at most 1"),
        (lambda: step_seconds("async", Phases(rollout=1), -1), "staleness -1"),
        (lambda: Phases(rollout=-1.0), "one is below"),
        (lambda: packed_bins([9], 8), "give larger ones"),
        (lambda: best_split(2, PoolTimes.of_work([2], 1), PoolTimes.of_work([1], 1)), "more GPUs"),
        (lambda: scaled_phases([1.0], [1.0], [0.0]), "takes none"),
    ],
)  # fmt: skip
def test_bad_numbers_are_refused_in_a_line(wrong, says: str) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    with pytest.raises(InputError, match=says) as error:
        wrong()
    assert "\n" not in str(error.value)

"""Shares of experts, where these lie, and what the busiest GPU has, against a plain program."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import NetplanError
from netplan.workloads.expert_load import (
    SHARES,
    ExpertLoad,
    eplb,
    gini_shares,
    power_shares,
    read_shares,
    shuffled,
    skew_of,
)
from netplan.workloads.operations import ExpertShape

EXPECTED = Path(__file__).parents[1] / "golden" / "expert_skew_expected.csv"
LAYOUTS = st.sampled_from([(2, 8), (4, 4), (8, 16), (16, 2), (1, 8)])  # GPUs, experts of each
SKEWS = st.one_of(
    st.tuples(st.just("gini"), st.floats(0, 0.95)), st.tuples(st.just("power"), st.floats(0, 3))
)


def packed(shares: Sequence[float], gpus: int, redundant: int) -> float:
    """EPLB expert by expert: the busiest GPU over the mean."""
    experts = range(len(shares))
    copies = [1] * len(shares)
    for _ in range(redundant):
        most = max(experts, key=lambda expert: (shares[expert] / copies[expert], -expert))
        copies[most] += 1
    loads = [shares[expert] / copies[expert] for expert in experts for _ in range(copies[expert])]
    slots, held, total = len(loads) // gpus, [0] * gpus, [0.0] * gpus
    for load in sorted(loads, reverse=True):
        free = [gpu for gpu in range(gpus) if held[gpu] < slots]
        gpu = min(free, key=lambda gpu: (total[gpu], gpu))
        total[gpu] += load
        held[gpu] += 1
    return max(total) * gpus


@pytest.mark.parametrize("row", list(csv.DictReader(EXPECTED.read_text("utf-8").splitlines())))
def test_expected_values(row: dict[str, str]) -> None:
    experts, gpus, redundant = (int(row[name]) for name in ("experts", "gpus", "redundant"))
    shares = SHARES[row["kind"]](float(row["value"]), experts)
    assert f"{shares[0]:.6g}" == row["largest_share"]
    assert f"{shuffled(shares, gpus).imbalance:.6g}" == row["shuffled_seed0"]
    assert f"{eplb(shares, gpus, redundant).imbalance:.6g}" == row["eplb"]


@settings(max_examples=40)
@given(SKEWS, LAYOUTS, st.integers(0, 3))
def test_packing_is_that_of_a_plain_program(
    skew: tuple[str, float], layout: tuple[int, int], rounds: int
) -> None:
    gpus, held = layout
    shares = SHARES[skew[0]](skew[1], gpus * held)
    placed = eplb(shares, gpus, rounds * gpus)
    assert placed.imbalance == max(1.0, packed(shares.tolist(), gpus, rounds * gpus))
    assert placed.shares.sum(axis=1) == pytest.approx(placed.loads)
    assert placed.loads.sum() == pytest.approx(1)


@settings(max_examples=40)
@given(SKEWS, LAYOUTS, st.integers(1, 2))
def test_bounds_of_the_imbalance(
    skew: tuple[str, float], layout: tuple[int, int], rounds: int
) -> None:
    gpus, held = layout
    shares = SHARES[skew[0]](skew[1], gpus * held)
    dealt, whole, copied = shuffled(shares, gpus), eplb(shares, gpus), eplb(shares, gpus, gpus)
    for placed in (dealt, whole, copied, eplb(shares, gpus, rounds * gpus)):
        assert 1 <= placed.imbalance <= gpus * (1 + 1e-12)
    assert whole.imbalance >= max(1.0, gpus * shares.max()) * (1 - 1e-12)
    assert copied.shares.max() <= whole.shares.max()


@settings(max_examples=40)
@given(st.sampled_from(["gini", "power"]), LAYOUTS)
def test_even_shares_are_even(kind: str, layout: tuple[int, int]) -> None:
    gpus, held = layout
    shares = SHARES[kind](0.0, gpus * held)
    assert shuffled(shares, gpus).imbalance == pytest.approx(1, abs=1e-12)
    assert eplb(shares, gpus).imbalance == pytest.approx(1, abs=1e-12)


@settings(max_examples=40)
@given(LAYOUTS, st.floats(0.001, 1))
def test_a_single_hot_expert(layout: tuple[int, int], more: float) -> None:
    gpus, held = layout
    experts = gpus * held
    hot = 1 / experts + more * (1 - 1 / experts)
    rest = (1 - hot) / (experts - 1)
    shares = np.array([rest] * (experts - 1) + [hot])
    closed = gpus * (hot + (held - 1) * rest)
    assert shuffled(shares, gpus).imbalance == pytest.approx(closed)
    assert eplb(shares, gpus).imbalance == pytest.approx(closed)


def test_shares_by_hand() -> None:
    # L(x) = x^3: 1 - 27/64, 27/64 - 8/64, 8/64 - 1/64, 1/64.
    assert gini_shares(0.5, 4) * 64 == pytest.approx([37, 19, 7, 1])
    # 1, 1/2, 1/4 of 7/4.
    assert power_shares(2.0, 2) * 5 == pytest.approx([4, 1])


@settings(max_examples=40)
@given(st.floats(0, 0.9))
def test_shares_have_their_gini_coefficient(gini: float) -> None:
    # The mean difference of many experts over twice their mean.
    rising = np.sort(gini_shares(gini, 2000))
    ranks = np.arange(1, 2001)
    assert (2 * ranks - 2001) @ rising / 2000 == pytest.approx(gini, abs=2e-3)


def test_active_experts_by_hand() -> None:
    # Two GPUs: 0.5 and 0.1 on the busiest, a token visits 1, ten tokens.
    load = ExpertLoad(shares=(0.5, 0.2, 0.2, 0.1), placement="eplb")
    assert load.spread(2).busiest.tolist() == [0.5, 0.1]
    active = load.active(np.array([10, 1]), np.array([2, 2]), 1)
    assert active == pytest.approx([2 - 0.5**10 - 0.9**10, 0.6])
    # With two of a token the largest is visited by every one.
    assert load.active(3, 2, 2.0) == pytest.approx(1 + 1 - 0.8**3)
    shape = ExpertShape(8, 8, 1, 4, expert=2, load=load)
    assert shape.rows(10) == pytest.approx(10 / 2 * 1.2)
    assert shape.active(10.0, "random") == pytest.approx(2 - 0.5**10 - 0.9**10)


@settings(max_examples=40)
@given(st.sampled_from([1, 2, 8, 32]), st.floats(1, 5000))
def test_even_experts_are_as_active_as_ever(gpus: int, tokens: float) -> None:
    even = ExpertShape(8, 8, 4, 64, expert=gpus)
    uneven = ExpertShape(8, 8, 4, 64, expert=gpus, load=ExpertLoad.of("gini:0", 64))
    assert uneven.active(tokens, "random") == pytest.approx(even.active(tokens, "random"))
    assert uneven.rows(tokens) == pytest.approx(even.rows(tokens))


@settings(max_examples=40)
@given(SKEWS, st.sampled_from([1, 4, 16]), st.sampled_from([1, 2]))
def test_weights_are_those_of_the_gpus(skew: tuple[str, float], gpus: int, shared_by: int) -> None:
    load = ExpertLoad.of(f"{skew[0]}:{skew[1]}", 32)
    weights = np.array(load.weights(gpus, shared_by))
    assert len(weights) == gpus * shared_by
    assert weights.mean() == pytest.approx(1)
    assert weights.max() == pytest.approx(float(load.imbalance(gpus)))
    known = ExpertLoad(busiest=1 + (gpus - 1) / 2)
    assert np.mean(known.weights(gpus, shared_by)) == pytest.approx(1)
    assert max(known.weights(gpus, shared_by)) == pytest.approx(float(known.imbalance(gpus)))


def test_the_busiest_gpu_has_all_rows_at_most() -> None:
    known = ExpertLoad(busiest=6.0)
    assert known.imbalance(np.array([1, 2, 4, 8])).tolist() == [1, 2, 4, 6]
    assert known.weights(4) == (4, 0, 0, 0)
    # What the busiest of 8 leaves of 8 means, dealt out to the other 7.
    assert known.weights(8) == pytest.approx((6, *[2 / 7] * 7))


def test_a_file_says_shares_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("# measured\nshare, expert\n0.2,2\n0.7,1\n\n0.1,3\n", encoding="utf-8")
    assert read_shares(path, 3) == pytest.approx([0.7, 0.2, 0.1])
    assert ExpertLoad.of(str(path), 3).shares == pytest.approx((0.7, 0.2, 0.1))


ROWS = "expert,share\n0,0.5\n1,0.5\n"


@pytest.mark.parametrize(
    ("text", "experts", "message"),
    [
        (ROWS, 3, r"s.csv: 2 rows, and the model has 3 experts"),
        (ROWS, 1, r"s.csv:3: more rows than the model has experts, 1"),
        ("expert,share\n0,0.5\n1,0.4\n", 2, r"s.csv: shares sum to 0.9: "),
        ("expert,share\n0,0.5\n0,0.5\n", 2, r"s.csv:3: expert 0 stands twice"),
        ("expert,share\n0,-0.5\n", 2, r"s.csv:2: share '-0.5': give .* 0 to 1"),
        ("expert,share\n0,nan\n", 2, r"s.csv:2: share 'nan'"),
        ("expert,share\n-1,0.5\n", 2, r"s.csv:2: expert '-1': give its number"),
        ("expert,share\n0\n", 2, r"s.csv:2: expected 2 fields, got 1"),
        ("id,share\n0,1\n", 2, r"s.csv:1: columns 'id, share': .* expert and share"),
        ('expert,share\n"0', 2, r"s.csv:2: not CSV"),
        ("", 2, r"s.csv: 0 rows"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, text: str, experts: int, message: str) -> None:
    path = tmp_path / "s.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NetplanError, match=message):
        read_shares(path, experts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gini:1", "Gini coefficient of 1: give 0 .* to below 1"),
        ("gini:-0.1", "Gini coefficient of -0.1"),
        ("gini:x", "'x' is no number: gini:G"),
        ("gini:nan", "is no number"),
        ("power:-1", "exponent -1: give 0"),
        ("zipf:1", "'zipf:1': give gini:G"),
        ("0.15", "'0.15': give gini:G"),
    ],
)
def test_texts_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(NetplanError, match=message):
        skew_of(text)


def test_the_next_number_of_copies_is_named() -> None:
    load = ExpertLoad.of("gini:0.1", 256, placement="eplb", redundant=10)
    with pytest.raises(NetplanError, match=r"256 experts and 10 redundant .* 64 GPUs: .* 64 "):
        load.imbalance(64)
    assert ExpertLoad.of("gini:0.1", 256, placement="eplb", redundant=64).imbalance(64) >= 1
    with pytest.raises(NetplanError, match="shuffled experts have no copies"):
        ExpertLoad.of("gini:0.1", 256, redundant=64).spread(64)

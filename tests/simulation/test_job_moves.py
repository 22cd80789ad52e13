"""Fewest moves: beside all placements of small cases, bounds that always hold."""

import csv
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.arrays import Ints
from netplan.simulation import job_moves
from netplan.simulation.job_moves import fewest_moves, fragments, moves


def every_row(size: int, room: list[int]) -> list[tuple[int, ...]]:
    """All ways to put so many nodes on leaves."""
    ways = product(*(range(min(size, here) + 1) for here in room))
    return [way for way in ways if sum(way) == size]


def least(nodes: Ints, room: list[int], most: int) -> int | None:
    """Fewest moves by looking at every placement; None if none keeps the bound."""
    known = []
    for rows in product(*(every_row(int(job.sum()), room) for job in nodes)):
        after = np.array(rows)
        if (after.sum(axis=0) <= room).all() and fragments(after).max() <= most:
            known.append(moves(nodes, after))
    return min(known, default=None)


@st.composite
def placements(draw: st.DrawFn) -> tuple[Ints, list[int]]:
    leaves = draw(st.integers(2, 3))
    room = draw(st.lists(st.integers(1, 3), min_size=leaves, max_size=leaves))
    jobs = draw(st.integers(1, 3))
    left, rows = list(room), []
    for _ in range(jobs):
        row = [draw(st.integers(0, here)) for here in left]
        left = [here - taken for here, taken in zip(left, row, strict=True)]
        rows.append(row)
    return np.array(rows), room


@given(case=placements(), most=st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_moves_are_the_fewest_of_all_placements(case: tuple[Ints, list[int]], most: int) -> None:
    nodes, room = case
    bound = most
    while (expected := least(nodes, room, bound)) is None:
        bound += 1
    moved = fewest_moves(nodes, np.array(room), most)
    assert moved.proved
    assert (moved.bound, moves(nodes, moved.nodes)) == (bound, expected)
    assert moved.nodes.sum(axis=1).tolist() == nodes.sum(axis=1).tolist()
    assert (moved.nodes.sum(axis=0) <= room).all()
    assert fragments(moved.nodes).max() <= bound


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_jobs_in_a_line_have_two_fragments_a_leaf(seed: int) -> None:
    """The bound that MonkeyTree proves, on clusters that no program is solved for."""
    rng = np.random.default_rng(seed)
    leaves, room = int(rng.integers(2, 12)), int(rng.integers(1, 9))
    nodes = np.zeros((int(rng.integers(1, 20)), leaves), np.int64)
    for slot in rng.permutation(leaves * room)[: int(rng.integers(1, leaves * room + 1))]:
        nodes[rng.integers(len(nodes)), slot // room] += 1
    laid = job_moves._in_a_line(
        nodes, np.full((1, leaves), room), np.zeros(len(nodes), np.int64), 2
    )
    assert fragments(laid).max() <= 2
    assert laid.sum(axis=1).tolist() == nodes.sum(axis=1).tolist()
    assert laid.sum(axis=0).max() <= room


@pytest.mark.parametrize(
    "case",
    ["d1", "d8", *(pytest.param(name, marks=pytest.mark.slow) for name in ["d3", "d5", "d6"])],
)
def test_placements_of_the_specification_take_the_moves_that_it_proves(case: str) -> None:
    with (Path(__file__).parents[1] / "golden" / "defragment.csv").open(encoding="utf-8") as file:
        row = {row["case"]: row for row in csv.DictReader(file)}[case]
    jobs = row["placement"].split(";")
    nodes = np.array([[int(count) for count in job.split()] for job in jobs])
    assert fragments(nodes).tolist() == [int(count) for count in row["fragments_now"].split()]
    bound, room = int(row["bound"]), np.full(int(row["leaves"]), int(row["nodes"]))
    moved = fewest_moves(nodes, room, bound)
    assert (moved.proved, moves(nodes, moved.nodes)) == (True, int(row["least_moves"]))
    assert fragments(moved.nodes).max() <= bound


@given(case=placements(), kinds=st.lists(st.integers(0, 1), min_size=3, max_size=3))
@settings(max_examples=20, deadline=None)
def test_jobs_keep_to_the_nodes_of_their_size(
    case: tuple[Ints, list[int]], kinds: list[int]
) -> None:
    """Two sizes of nodes, each with the room of its own jobs and one node more a leaf."""
    nodes, _ = case
    kind = np.array(kinds[: len(nodes)])
    room = np.array([nodes[kind == size].sum(axis=0) + 1 for size in (0, 1)])
    moved = fewest_moves(nodes, room, 2, kind)
    for size in (0, 1):
        assert (moved.nodes[kind == size].sum(axis=0) <= room[size]).all()
    assert moved.nodes.sum(axis=1).tolist() == nodes.sum(axis=1).tolist()
    assert fragments(moved.nodes).max(initial=0) <= moved.bound
    # Of one size with the same room the moves are as few or fewer.
    free = fewest_moves(nodes, room.sum(axis=0), moved.bound)
    assert moves(nodes, free.nodes) <= moves(nodes, moved.nodes)


def test_a_program_that_is_stopped_is_laid_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_moves, "LIMITS_S", (0.0, 0.0))
    rng = np.random.default_rng(3)
    nodes = rng.multinomial(12, np.full(8, 1 / 8), 8)
    moved = fewest_moves(nodes, np.full(8, 24), 2)
    assert fragments(moved.nodes).max() <= 2
    assert moved.bound == 2

"""One placement for search and traffic: rank arithmetic, and groups that are the same in both."""

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.arrays import Ints
from netplan.traffic.hierarchy import group_of
from netplan.traffic.placement import DIMENSIONS, Degrees, Placement, Placements

DEGREES = st.sampled_from([1, 2, 3, 4])


def coordinates(placement: Placement, gpus: Ints) -> Ints:
    """Coordinates of GPUs, shape (gpus, dimensions), from the digits of their numbers."""
    radices = [n for level in placement.levels for n in level]
    digits = np.unravel_index(gpus, radices[::-1])[::-1]
    place = np.zeros((len(gpus), len(DIMENSIONS)), np.int64)
    weights = [1] * len(DIMENSIONS)
    for number, (digit, n) in enumerate(zip(digits, radices, strict=True)):
        axis = number % len(DIMENSIONS)
        place[:, axis] += digit * weights[axis]
        weights[axis] *= n
    return place


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(*[DEGREES] * 5), min_size=1, max_size=2))
def test_coordinates_are_the_digits_of_a_gpu(degrees: list[tuple[int, int, int, int, int]]) -> None:
    placement = Placement(tuple(Degrees(*level) for level in degrees))
    gpus = np.arange(placement.gpus)
    place = coordinates(placement, gpus)
    assert len(np.unique(place, axis=0)) == len(gpus)
    for axis, name in enumerate(DIMENSIONS):
        members = placement.groups(name)
        assert members.shape[1] == placement.degree(name) == place[:, axis].max() + 1
        assert np.array_equal(np.sort(members.ravel()), gpus)
        # Along a group this coordinate counts up, and no other one moves.
        inside = place[members]
        assert np.array_equal(
            inside[:, :, axis], np.broadcast_to(range(members.shape[1]), members.shape)
        )
        others = np.delete(inside, axis, axis=2)
        assert np.array_equal(others, np.broadcast_to(others[:, :1], others.shape))


@settings(max_examples=40, deadline=None)
@given(st.tuples(DEGREES, DEGREES), st.tuples(DEGREES, DEGREES), DEGREES)
def test_a_snake_crosses_borders_between_equal_places(
    inner: tuple[int, int], outer: tuple[int, int], top: int
) -> None:
    placement = Placement(tuple(Degrees(tensor=t, pipeline=p) for t, p in (inner, outer, (1, top))))
    size = inner[0] * inner[1]
    chain = placement.groups("pipeline", snake=True)
    assert np.array_equal(np.sort(chain, axis=1), np.sort(placement.groups("pipeline"), axis=1))
    crosses = chain[:, 1:] // size != chain[:, :-1] // size
    assert np.array_equal((chain[:, 1:] % size)[crosses], (chain[:, :-1] % size)[crosses])
    assert crosses.sum() == len(chain) * (outer[1] * top - 1)


@pytest.mark.parametrize(
    "dimensions",
    [("tensor",), ("context",), ("expert",), ("data",), ("expert", "data"), ("context", "data")],
)
def test_time_and_traffic_see_the_same_groups(dimensions: tuple[str, ...]) -> None:
    """Context 2 and expert 2 on a level of 8, and another 2 of each outside it."""
    placement = Placement(
        (Degrees(tensor=2, context=2, expert=2), Degrees(context=2, expert=2, data=3))
    )
    timed = group_of(
        Placements.of(placement), *(DIMENSIONS.index(dimension) for dimension in dimensions)
    )
    assert tuple(timed.members[:, 0]) == placement.splits(*dimensions)
    members = placement.groups(*dimensions)
    size = 8
    for group in members:
        inside = group[group // size == group[0] // size]
        assert len(inside) == timed.members[0, 0]
        if len(inside) > 1:
            assert set(np.diff(inside)) == {timed.stride[0, 0]}
    assert Placements.of(placement).placement(0) == placement


def test_the_order_is_tensor_context_expert_data_pipeline() -> None:
    """GPU 0 of a level of 8: its tensor, context and expert neighbours are 1, 2 and 4."""
    placement = Placement((Degrees(tensor=2, context=2, expert=2), Degrees(data=2)))
    assert [placement.groups(name)[0].tolist() for name in ("tensor", "context", "expert")] == [
        [0, 1],
        [0, 2],
        [0, 4],
    ]
    strides = [group_of(Placements.of(placement), at).stride[0, 0] for at in range(3)]
    assert strides == [1, 2, 4]


@settings(max_examples=200, deadline=None)
@given(st.tuples(*[st.sampled_from([1, 2, 3])] * 5), st.sets(st.sampled_from(range(5)), min_size=1))
def test_groups_that_lie_between_each_other_share_links(
    level: tuple[int, ...], chosen: set[int]
) -> None:
    """On a ring a link is crossed by every group with members on both of its sides."""
    placement = Placement((Degrees(*level),))
    members = placement.groups(*(DIMENSIONS[at] for at in chosen))
    if members.shape[1] == 1:
        return
    timed = group_of(Placements.of(placement), *chosen)
    links = np.arange(prod(level) - 1) + 0.5
    crossing = [np.sum((members.min(axis=1) < at) & (at < members.max(axis=1))) for at in links]
    assert max(crossing) == timed.stride[0, 0]

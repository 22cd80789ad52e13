"""Risk groups: nesting, weights, and what fails together."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.faults.exposure import (
    GroupKind,
    RiskGroups,
    draw_groups,
    failed_parts,
    nest_groups,
    weighted_rates,
)

NONE = np.array([], np.int64)


def kind(label: str, members: list[list[int]], rate: float = 1.0) -> GroupKind:
    group = np.repeat(np.arange(len(members)), [len(held) for held in members])
    part = np.array([part for held in members for part in held], np.int64)
    return GroupKind(label, np.full(len(members), rate), group, part)


def members(groups: RiskGroups) -> list[list[int]]:
    return [held.tolist() for held in np.split(groups.member, groups.start[1:-1])]


def test_feeds_hold_racks_hold_servers() -> None:
    # Six servers, two to a rack; feed 0 over racks 0 and 1, feed 1 over racks 1 and 2 and over
    # server 0 itself. A part that is held twice fails once.
    rack = kind("rack", [[0, 1], [2, 3], [4, 5]], 0.02)
    feed = GroupKind(
        "feed",
        np.array([0.28, 0.56]),
        np.array([1]),
        np.array([0]),
        inner=(("rack", np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2])),),
        interrupts=0.5,
    )
    groups = nest_groups([rack, feed], np.array([0, 0, 0, 0, 1, 1]))
    assert members(groups) == [[0, 1], [2, 3], [4, 5], [0, 1, 2, 3], [0, 2, 3, 4, 5]]
    assert groups.labels == ("rack", "feed")
    assert groups.rate_per_year.tolist() == [0.02, 0.02, 0.02, 0.28, 0.56]
    assert groups.interrupts.tolist() == [1, 1, 1, 0.5, 0.5]
    assert groups.parts_by_cause(2).tolist() == [[2, 0], [2, 0], [0, 2], [4, 0], [3, 2]]


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=5), st.data())
def test_three_levels_hold_what_can_be_reached(low: list[list[int]], data: st.DataObject) -> None:
    graph = nx.DiGraph()
    kinds = [kind("level 0", low)]
    graph.add_edges_from((("level 0", g), part) for g, held in enumerate(low) for part in held)
    for level in (1, 2):
        below, label = f"level {level - 1}", f"level {level}"
        size = len(kinds[-1].rate_per_year)
        held = data.draw(
            st.lists(st.lists(st.integers(0, size - 1), max_size=3), min_size=1, max_size=4)
        )
        inner = kind(label, held)
        kinds.append(
            GroupKind(label, inner.rate_per_year, NONE, NONE, ((below, inner.group, inner.part),))
        )
        graph.add_edges_from(
            ((label, g), (below, i)) for g, within in enumerate(held) for i in within
        )
    groups = nest_groups(kinds, np.zeros(10, np.int64))
    names = [(k.label, g) for k in kinds for g in range(len(k.rate_per_year))]
    for name, inside in zip(names, members(groups), strict=True):
        reached = nx.descendants(graph, name) if name in graph else set()
        assert inside == sorted(part for part in reached if isinstance(part, int))


def test_weights_become_rates() -> None:
    # 12 failures a year over weights 1, 2 and 3: 2, 4 and 6.
    assert weighted_rates(12, np.array([1.0, 2.0, 3.0])).tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, -0.5], [float("inf"), 1.0], []])
def test_weights_without_a_choice_are_refused(weights: list[float]) -> None:
    with pytest.raises(InputError, match="weights of at least 0, and one above 0"):
        weighted_rates(1.0, np.array(weights))


def test_groups_are_picked_by_weight() -> None:
    groups = nest_groups([kind("rack", [[0], [1], [2], [3]])], np.zeros(4, np.int64))
    weights = np.array([0.0, 1.0, 3.0, 0.0])
    drawn = draw_groups(groups, 40_000, np.random.default_rng(5), weights)
    share = np.bincount(drawn, minlength=4) / 40_000
    # Standard error of a share of 1/4 in 40,000: 0.0022.
    assert share.tolist() == pytest.approx([0, 0.25, 0.75, 0], abs=0.009)
    assert share[0] == share[3] == 0
    even = np.bincount(draw_groups(groups, 40_000, np.random.default_rng(5))) / 40_000
    assert even.tolist() == pytest.approx([0.25] * 4, abs=0.009)


@given(
    st.lists(st.lists(st.integers(0, 20), unique=True, max_size=8), min_size=1, max_size=6),
    st.data(),
)
def test_failed_parts_are_those_of_each_group(held: list[list[int]], data: st.DataObject) -> None:
    groups = nest_groups([kind("rack", held)], np.zeros(21, np.int64))
    failed = data.draw(st.lists(st.integers(0, len(held) - 1), max_size=10))
    event, part = failed_parts(groups, np.array(failed, np.int64))
    expected = [(n, p) for n, g in enumerate(failed) for p in sorted(held[g])]
    assert list(zip(event.tolist(), part.tolist(), strict=True)) == expected


def test_circles_and_unknown_kinds_are_refused() -> None:
    ring = GroupKind("rack", np.ones(1), NONE, NONE, (("rack", np.array([0]), np.array([0])),))
    with pytest.raises(InputError, match="rack holds rack, which does not come before it"):
        nest_groups([ring], np.zeros(1, np.int64))


@pytest.mark.parametrize(
    ("group", "part", "message"),
    [
        ([0, 2], [0, 1], "memberships name group 0 to 2: there are 2"),
        ([0, 1], [0, 7], "memberships name member 0 to 7: there are 4"),
        ([0, -1], [0, 1], "memberships name group -1 to 0"),
        ([0], [0, 1], "1 groups and 2 members: give pairs"),
    ],
)
def test_impossible_memberships_are_refused(
    group: list[int], part: list[int], message: str
) -> None:
    wrong = GroupKind("rack", np.ones(2), np.array(group), np.array(part))
    with pytest.raises(InputError, match=message):
        nest_groups([wrong], np.zeros(4, np.int64))


def made(**changes: object) -> RiskGroups:
    values: dict[str, object] = {
        "labels": ("rack",),
        "label_of": np.zeros(2, np.int64),
        "rate_per_year": np.ones(2),
        "interrupts": np.ones(2),
        "start": np.array([0, 1, 2]),
        "member": np.array([0, 1]),
        "cause_of": np.zeros(2, np.int64),
    }
    return RiskGroups(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate_per_year": np.ones(3)}, "do not fit: give one of each a group"),
        ({"start": np.array([0, 1, 3])}, "do not fit"),
        ({"member": np.array([0, 2])}, "hold parts 0 to 2: there are 0 to 1"),
        ({"rate_per_year": np.array([1.0, -1.0])}, "a rate is below 0"),
        ({"interrupts": np.array([1.0, 30.0])}, "interrupts is a probability"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict[str, Ints], message: str) -> None:
    assert made().sizes.tolist() == [1, 1]
    with pytest.raises(InputError, match=message):
        made(**changes)

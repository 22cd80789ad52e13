"""Classes of like flows: the rates and times of all flows, few classes where there is symmetry."""

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan import Scenario
from netplan.arrays import Words, hash64
from netplan.errors import InputError
from netplan.simulation import flow_classes as module
from netplan.simulation.congestion import FabricLinks, pattern_flows
from netplan.simulation.fair_rates import FlowLinks, max_min_rates
from netplan.simulation.flow_classes import flow_classes, trunks
from netplan.simulation.fluid import Messages, SharedLinks, classed, send
from netplan.traffic.flow_paths import PathRouter

Case = tuple[SharedLinks, int]


@st.composite
def copies(draw: st.DrawFn) -> Case:
    """A random instance several times over, with links in common, all in random order."""
    links, flows = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    times, common = draw(st.integers(1, 4)), draw(st.integers(0, 2))
    amount = st.sampled_from([0.25, 0.5, 1.0, 3.0])
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    entry = st.tuples(st.integers(0, links - 1), amount)
    one = [draw(st.lists(entry, max_size=3, unique_by=lambda pair: pair[0])) for _ in range(flows)]
    shared = [draw(st.lists(st.integers(0, common - 1), max_size=1)) if common else [] for _ in one]
    capacity = np.array([*(draw(amount) for _ in range(links)), *([3.0] * common)])
    limit, weight = (np.array([draw(amount) for _ in one]) for _ in range(2))
    limit[rng.random(flows) < 0.5] = inf
    place = rng.permutation(times * links + common)
    paths = [
        [(int(place[copy * links + link]), share) for link, share in path]
        + [(int(place[times * links + link]), 1.0) for link in others]
        for copy in range(times)
        for path, others in zip(one, shared, strict=True)
    ]
    order = rng.permutation(len(paths))
    every = np.empty(len(place))
    every[place] = np.concatenate([np.tile(capacity[:links], times), capacity[links:]])
    rows = FlowLinks.of_paths([paths[index] for index in order])
    return SharedLinks(
        every, rows, np.tile(weight, times)[order], np.tile(limit, times)[order]
    ), flows


@given(copies())
@settings(max_examples=100, deadline=None)
def test_rates_of_classes_are_those_of_all_flows(case: Case) -> None:
    shared, kinds = case
    asked = shared.weight, shared.limit
    classes = flow_classes(shared.flows, [shared.capacity], asked, check=True)
    assert len(classes.flows) <= kinds
    of_classes = max_min_rates(
        shared.capacity[classes.links],
        classes.quotient(shared.flows),
        *(values[classes.flows] for values in asked),
    )
    every = max_min_rates(shared.capacity, shared.flows, *asked)
    assert of_classes[classes.flow] == pytest.approx(every, rel=1e-9)
    slim = trunks(shared.capacity, shared.flows)
    assert max_min_rates(shared.capacity, slim, *asked) == pytest.approx(every, rel=1e-12)


@given(copies(), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_messages_of_classes_end_with_all_of_their_class(case: Case, seed: int) -> None:
    """Of random sizes and starts, some after others: copies of a message have its times."""
    shared, _ = case
    rng = np.random.default_rng(seed)
    count = shared.flows.flows
    like = flow_classes(shared.flows, [shared.capacity], (shared.weight, shared.limit)).flow
    size, start = (rng.choice(some, count)[like] for some in ([1.0, 2.0, 0.0], [0.0, 0.0, 0.7]))
    waits: list[tuple[int, ...]] = [()] * count
    waits += [(index,) if rng.random() < 0.8 else () for index in range(count)]
    messages = Messages(
        np.tile(np.arange(count), 2),
        np.concatenate([size, size]),
        np.concatenate([start, start]),
        np.full(2 * count, 0.1),
        waits,
    )
    of_classes, sent, classes = classed(shared, messages, [shared.capacity], check=True)
    every, few = send(shared, messages), send(of_classes, sent)
    assert few.finish_s[classes.flow] == pytest.approx(every.finish_s, rel=1e-9, abs=1e-12)
    assert len(sent.flow) <= 2 * count


def rows_of(fabric: str, pattern: str, gpus: int = 1024) -> tuple[FlowLinks, FabricLinks]:
    graph = Scenario.load("hgx-h100").replace(gpus=gpus, radix=64).fabric(fabric).graph()
    links = FabricLinks(PathRouter(graph, "ecmp"), np.tile(graph.bytes_per_s, 2), "split")
    pairs = pattern_flows(pattern, graph.gpus, graph.hb_size)
    paths = links.paths(pairs.source, pairs.target, 0)
    begins = np.searchsorted(paths.flow, np.arange(len(pairs.source) + 1))
    return FlowLinks(begins, paths.code, paths.share), links


def test_a_ring_in_each_rail_has_two_classes() -> None:
    """Within a leaf, and from leaf to leaf; up and down, of hosts and of spines."""
    rows, links = rows_of("rail-optimized", "ring")
    classes = flow_classes(rows, [links.capacity], check=True)
    assert rows.flows == 1024
    assert len(classes.flows) == 2
    assert 2 <= len(classes.links) <= 6
    rates = max_min_rates(links.capacity, rows)
    few = max_min_rates(links.capacity[classes.links], classes.quotient(rows))
    assert few[classes.flow] == pytest.approx(rates, rel=1e-12)


def test_like_spines_are_one_trunk_unless_one_is_slow() -> None:
    """Three of four flows spray over four links, one of which is slower in the second case."""
    paths = [[(5 + flow, 1.0), *((link, 0.25) for link in range(4))] for flow in range(3)]
    rows = FlowLinks.of_paths([*paths, [(4, 1.0)]])
    capacity = np.ones(8)
    assert trunks(capacity, rows).links.tolist() == [5, 0, 6, 0, 7, 0, 4]
    capacity[2] = 0.5
    slow = trunks(capacity, rows)
    assert slow.links.tolist() == [5, 0, 2, 6, 0, 2, 7, 0, 2, 4]
    assert max_min_rates(capacity, slow).tolist() == max_min_rates(capacity, rows).tolist()


def test_colours_do_not_hang_on_the_order_of_flows() -> None:
    rows, links = rows_of("fat-tree", "permutation", 128)
    order = np.random.default_rng(3).permutation(rows.flows)
    plain, shuffled = (flow_classes(some, [links.capacity]) for some in (rows, rows.take(order)))
    assert plain.flow[order].tolist() == shuffled.flow.tolist()
    assert plain.link.tolist() == shuffled.link.tolist()


@pytest.mark.parametrize("blind", [0x0, 0x1])
def test_equal_hashes_of_what_differs_are_found(
    monkeypatch: pytest.MonkeyPatch, blind: int
) -> None:
    """Colours of 1 bit: a link of three flows is like one of two."""
    whole = hash64

    def poor(words: Words) -> Words:
        return whole(words) & np.uint64(blind)

    monkeypatch.setattr(module, "hash64", poor)
    rows = FlowLinks.of_paths([[(link, 1.0)] for link in (0, 0, 1, 1, 1, 2, 3, 3, 3, 3)])
    flow_classes(rows, [np.ones(4)])
    with pytest.raises(InputError, match="hashes of 64 bits are equal"):
        flow_classes(rows, [np.ones(4)], check=True)


def test_nothing_has_no_classes() -> None:
    nothing = flow_classes(FlowLinks.of_paths([]), [np.ones(2)], check=True)
    assert (len(nothing.flows), nothing.link.tolist()) == (0, [-1, -1])
    lone: Any = flow_classes(FlowLinks.of_paths([[], [(1, 1.0)]]), [np.ones(2)], check=True)
    assert len(lone.flows) == 2

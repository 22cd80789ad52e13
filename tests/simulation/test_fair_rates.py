"""Max-min fair rates: closed forms, invariants, and a classical filling one link at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.simulation.fair_rates import FlowLinks, max_min_rates
from netplan.simulation.fluid import Messages, SharedLinks, send
from tests.oracles.fluid import fill

INF = float("inf")
Paths = list[list[tuple[int, float]]]


def rates(
    capacity: list[float],
    paths: Paths,
    weight: list[float] | None = None,
    limit: list[float] | None = None,
) -> list[float]:
    amounts = (None if values is None else np.array(values) for values in (weight, limit))
    found: list[float] = max_min_rates(
        np.array(capacity), FlowLinks.of_paths(paths), *amounts
    ).tolist()
    return found


@pytest.mark.parametrize("flows", [1, 2, 7, 64])
def test_equal_flows_over_one_link_have_equal_shares(flows: int) -> None:
    assert rates([3.0], [[(0, 1.0)]] * flows) == pytest.approx([3.0 / flows] * flows, rel=1e-12)


def test_weights_of_3_and_1_share_3_to_1_as_three_connections_do() -> None:
    assert rates([1.0], [[(0, 1.0)]] * 2, weight=[3.0, 1.0]) == pytest.approx([0.75, 0.25])
    assert sum(rates([1.0], [[(0, 1.0)]] * 4)[:3]) == pytest.approx(0.75)


def test_what_a_limited_flow_leaves_is_the_others() -> None:
    assert rates([1.0], [[(0, 1.0)]] * 2, limit=[0.2, INF]) == pytest.approx([0.2, 0.8])


@pytest.mark.parametrize("links", [1, 2, 5])
def test_a_parking_lot_gives_all_a_half(links: int) -> None:
    """Proportional fairness would give the long flow 1 / (k + 1)."""
    paths: Paths = [[(link, 1.0) for link in range(links)]]
    paths += [[(link, 1.0)] for link in range(links)]
    assert rates([1.0] * links, paths) == pytest.approx([0.5] * (links + 1))


def test_a_flow_that_stops_early_leaves_the_rest_to_others() -> None:
    """A over 0, B over 0 and 1, D over 1: A and B have 1/2 each, and D 3 - 1/2."""
    paths: Paths = [[(0, 1.0)], [(0, 1.0), (1, 1.0)], [(1, 1.0)]]
    assert rates([1.0, 3.0], paths) == pytest.approx([0.5, 0.5, 2.5])


@pytest.mark.parametrize("ratio", [1, 2, 4, 16])
def test_a_sprayed_permutation_has_the_share_of_the_uplinks(ratio: int) -> None:
    """16 hosts a leaf, 16/R uplinks, every host sends to the next leaf: C min(1, 1/R)."""
    hosts, leaves, uplinks = 16, 3, 16 // ratio
    total = hosts * leaves
    paths: Paths = []
    for host in range(total):
        leaf, other = host // hosts, (host // hosts + 1) % leaves
        path = [(host, 1.0), (total + (host + hosts) % total, 1.0)]
        for spine in range(uplinks):
            path += [(2 * total + leaf * uplinks + spine, 1 / uplinks)]
            path += [(2 * total + (leaves + other) * uplinks + spine, 1 / uplinks)]
        paths.append(path)
    capacity = [5.0] * (2 * total + 2 * leaves * uplinks)
    assert rates(capacity, paths) == pytest.approx([5.0 / ratio] * total, rel=1e-12)


def test_flows_without_links_have_their_limit_and_dead_links_carry_nothing() -> None:
    paths: Paths = [[], [], [(0, 1.0)], [(1, 1.0), (0, 0.0)], [(2, 1.0)]]
    limit = [INF, 4.0, INF, INF, INF]
    assert rates([0.0, 2.0, INF], paths, limit=limit) == [INF, 4.0, 0.0, 2.0, INF]


def test_no_flows_are_no_rates() -> None:
    assert rates([1.0], []) == []


@pytest.mark.parametrize(
    ("capacity", "share", "weight", "limit", "word"),
    [
        ([-1.0], 1.0, 1.0, 1.0, "capacity"),
        ([float("nan")], 1.0, 1.0, 1.0, "capacity"),
        ([1.0], -0.5, 1.0, 1.0, "share"),
        ([1.0], 1.0, 0.0, 1.0, "weight"),
        ([1.0], 1.0, 1.0, 0.0, "limit"),
    ],
)
def test_what_lets_nothing_flow_is_refused(
    capacity: list[float], share: float, weight: float, limit: float, word: str
) -> None:
    with pytest.raises(InputError, match=f"a {word} of"):
        rates(capacity, [[(0, share)]], [weight], [limit])


@st.composite
def instances(draw: st.DrawFn) -> tuple[list[float], Paths, list[float], list[float]]:
    """Random links and flows, with weights, limits and shares; many ties."""
    links = draw(st.integers(1, 8))
    flows = draw(st.integers(1, 14))
    amount = st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0])
    number = st.floats(0.1, 4.0)
    capacity = draw(st.lists(amount | number, min_size=links, max_size=links))
    entry = st.tuples(st.integers(0, links - 1), st.sampled_from([1.0, 0.5, 0.25, 2.0]))
    path = st.lists(entry, max_size=4, unique_by=lambda pair: pair[0])
    paths = draw(st.lists(path, min_size=flows, max_size=flows))
    weight = draw(st.lists(amount | number, min_size=flows, max_size=flows))
    limit = draw(st.lists(amount | st.just(INF), min_size=flows, max_size=flows))
    return capacity, paths, weight, limit


@given(instances())
@settings(max_examples=300, deadline=None)
def test_rates_are_those_of_one_bottleneck_after_another(
    case: tuple[list[float], Paths, list[float], list[float]],
) -> None:
    capacity, paths, weight, limit = case
    plain = fill(capacity, list(zip(paths, weight, limit, strict=True)))
    assert rates(*case) == pytest.approx(plain, rel=1e-9)


@given(instances())
@settings(max_examples=200, deadline=None)
def test_no_link_is_above_its_capacity_and_every_flow_has_a_reason_to_stop(
    case: tuple[list[float], Paths, list[float], list[float]],
) -> None:
    capacity, paths, weight, limit = case
    found = np.array(rates(*case))
    flowing = np.where(np.isfinite(found), found, 0.0)
    carried = FlowLinks.of_paths(paths).carried(flowing, len(capacity))
    assert (carried <= np.array(capacity) * (1 + 1e-9)).all()
    full = carried >= np.array(capacity) * (1 - 1e-9)
    levels = found / np.array(weight)
    for flow, path in enumerate(paths):
        largest = [
            max(
                level
                for level, other in zip(levels, paths, strict=True)
                if any(entry[0] == link and entry[1] for entry in other)
            )
            for link, _ in path
            if full[link]
        ]
        capped = found[flow] >= limit[flow] * (1 - 1e-9)
        assert capped or any(levels[flow] >= level * (1 - 1e-8) for level in largest)


@given(instances(), st.floats(0.01, 100.0))
@settings(max_examples=100, deadline=None)
def test_more_capacity_for_all_is_more_rate_for_all(
    case: tuple[list[float], Paths, list[float], list[float]], factor: float
) -> None:
    capacity, paths, weight, limit = case
    more = rates([factor * c for c in capacity], paths, weight, [factor * u for u in limit])
    assert more == pytest.approx([factor * rate for rate in rates(*case)], rel=1e-9)


@given(instances(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_flows_means_nothing_and_one_more_never_raises_the_least(
    case: tuple[list[float], Paths, list[float], list[float]], random: object
) -> None:
    capacity, paths, weight, limit = case
    order = list(range(len(paths)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = [[values[i] for i in order] for values in (paths, weight, limit)]
    found = rates(*case)
    assert rates(capacity, *shuffled) == pytest.approx([found[i] for i in order], rel=1e-9)  # type: ignore[arg-type]
    if len(paths) > 1:
        levels = [rate / w for rate, w in zip(found, weight, strict=True)]
        fewer = rates(capacity, paths[:-1], weight[:-1], limit[:-1])
        before = [rate / w for rate, w in zip(fewer, weight, strict=False)]
        assert min(levels[:-1]) <= min(before) * (1 + 1e-9)


def permutation(leaves: int, hosts: int, connections: int, seed: int) -> tuple[Floats, FlowLinks]:
    """A permutation of hosts over as many spines as a leaf has hosts, every spine by chance."""
    rng = np.random.default_rng(seed)
    total, spines = leaves * hosts, hosts
    source = np.repeat(np.arange(total), connections)
    target = np.repeat(rng.permutation(total), connections)
    spine = rng.integers(0, spines, len(source))
    up = 2 * total + source // hosts * spines + spine
    down = 2 * total + leaves * spines + target // hosts * spines + spine
    links = np.stack([source, up, down, total + target], axis=1)
    used = np.ones_like(links, bool)
    used[:, 1:3] = (source // hosts != target // hosts)[:, None]
    begins = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    capacity = np.ones(2 * total + 2 * leaves * spines)
    return capacity, FlowLinks(begins, links[used], np.ones(begins[-1]))


@pytest.mark.parametrize("connections", [1, 4])
def test_the_last_flow_of_a_permutation_ends_at_the_least_rate_of_the_start(
    connections: int,
) -> None:
    """All on its full link have that rate, end with it and never get more; medians are verify's."""
    capacity, flows = permutation(16, 16, connections, 5)
    number = np.arange(flows.flows)
    shared = SharedLinks(capacity, flows, np.ones(len(number)), np.full(len(number), INF))
    zeros = np.zeros(len(number))
    messages = Messages(number, np.ones(len(number)), zeros, zeros, [()] * len(number))
    last_s = send(shared, messages).finish_s.max()
    assert last_s == pytest.approx(1 / max_min_rates(capacity, flows).min(), rel=1e-9)
    assert last_s > 1.5


def test_numbers_of_links_mean_nothing() -> None:
    """GPUs by other numbers, with their paths."""
    capacity, flows = permutation(8, 8, 2, 3)
    capacity = capacity * np.random.default_rng(1).uniform(0.5, 2.0, len(capacity))
    other = np.random.default_rng(2).permutation(len(capacity))
    moved = np.empty_like(capacity)
    moved[other] = capacity
    renamed = FlowLinks(flows.begins, other[flows.links], flows.shares)
    assert max_min_rates(moved, renamed) == pytest.approx(max_min_rates(capacity, flows), rel=1e-12)

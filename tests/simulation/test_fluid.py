"""Messages as a fluid: closed forms, conservation, and a plain event loop beside it."""

from collections import defaultdict
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.arrays import Floats, Ints
from netplan.errors import InputError
from netplan.records import replace
from netplan.simulation.fair_rates import FlowLinks
from netplan.simulation.fluid import (
    ClosLinks,
    Messages,
    SharedLinks,
    TooWideError,
    message_times_s,
    send,
)
from tests.oracles.fluid import Path, Sent, deliver

FABRIC = {"leaves": 4, "hosts_a_leaf": 4, "spines": 4, "host_gbps": 10.0, "uplink_gbps": 10.0}
RATE = 1.25e9 * 8900 / 8954
"""Payload that a link of 10 Gb/s carries [B/s]."""

PACKET_S = 8954 / 1.25e9
ACROSS_S = 4e-6 + 3 * PACKET_S
"""Latency over four links: 1 us each, and a packet again at three switches [s]."""


def row(source: int, target: int, spine: int | str, size: float, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"source": source, "target": target, "spine": spine, "bytes": size, **more}


def times(rows: list[dict[str, Any]], **more: Any) -> list[float]:  # noqa: ANN401
    return message_times_s(rows, **(FABRIC | more))


def test_a_message_alone_takes_its_bytes_and_its_latency() -> None:
    assert times([row(0, 5, 0, 20e6)]) == pytest.approx([20e6 / RATE + ACROSS_S], rel=1e-9)
    below = 2e-6 + PACKET_S
    assert times([row(0, 1, "", 20e6)]) == pytest.approx([20e6 / RATE + below], rel=1e-9)
    assert times([row(3, 3, "", 20e6, start_us=7)]) == pytest.approx([7e-6])


def test_20_and_10_mb_share_a_link() -> None:
    """Both have half until the 10 MB have gone: 2 x 10/C, then (20 + 10)/C."""
    found = times([row(0, 5, 0, 20e6), row(1, 6, 0, 10e6)])
    expected = [30e6 / RATE + ACROSS_S, 20e6 / RATE + ACROSS_S]
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("senders", [2, 4, 12])
def test_an_incast_shares_its_receiver(senders: int) -> None:
    rows = [row(15 - index, 0, index % 4, 10e6) for index in range(senders)]
    assert times(rows) == pytest.approx([senders * 10e6 / RATE + ACROSS_S] * senders, rel=1e-9)


def test_staggered_messages_are_shared_piece_by_piece() -> None:
    """30 MB from 0, 20 MB from 8 ms, 10 MB from 16 ms, one uplink; amounts in MB and ms.

    C = 1.242461 MB/ms. Until 8 ms the first sends 8 C; until 16 ms two send 4 C each; then three
    a third each. Left at 16 ms: 30 - 12 C, 20 - 4 C and 10. The third has gone after 30 / C, the
    second after another 2 (10 - 4 C) / C, and the first is last as all 60 MB have gone at 60 / C.
    """
    rate = RATE / 1e9
    rows = [
        row(0, 5, 0, 30e6),
        row(1, 6, 0, 20e6, start_us=8000),
        row(2, 7, 0, 10e6, start_us=16000),
    ]
    left = [30 - 12 * rate, 20 - 4 * rate, 10.0]
    turns = sorted((amount, index) for index, amount in enumerate(left))
    expected, now, before = [0.0] * 3, 16.0, 0.0
    for passed, (amount, index) in enumerate(turns):
        now += (3 - passed) * (amount - before) / rate
        expected[index], before = now * 1e-3 + ACROSS_S, amount
    assert times(rows) == pytest.approx(expected, rel=1e-9)
    assert max(expected) == pytest.approx(60e-3 / rate + ACROSS_S, rel=1e-9)


def test_what_waits_starts_at_the_finish_and_not_at_the_end() -> None:
    found = times([row(0, 5, 0, 20e6), row(5, 0, 1, 10e6, after="0")])
    assert found[1] == pytest.approx(30e6 / RATE + 2 * ACROSS_S, rel=1e-9)


def test_three_connections_have_three_shares_and_so_has_a_weight_of_3() -> None:
    connections = times([row(0, 5, 0, 10e6)] * 3 + [row(1, 6, 0, 10e6)])
    assert connections == pytest.approx([40e6 / RATE + ACROSS_S] * 4, rel=1e-9)
    weighted = times([row(0, 5, 0, 30e6, weight=3), row(1, 6, 0, 10e6)])
    assert weighted == pytest.approx([40e6 / RATE + ACROSS_S] * 2, rel=1e-9)
    limited = times([row(0, 5, 0, 20e6, limit=0.2 * RATE), row(1, 6, 0, 80e6)])
    assert limited == pytest.approx([1e8 / RATE + ACROSS_S] * 2, rel=1e-9)


@pytest.mark.parametrize(("spines", "ratio"), [(4, 1), (2, 2), (1, 4)])
def test_spraying_a_permutation_has_the_rate_of_the_uplinks(spines: int, ratio: int) -> None:
    rows = [row(host, (host + 4) % 16, "", 20e6) for host in range(16)]
    expected = [ratio * 20e6 / RATE + ACROSS_S] * 16
    assert times(rows, spines=spines) == pytest.approx(expected, rel=1e-9)


def ring(
    steps: int, members: list[int], spine: dict[int, int], size: float
) -> list[dict[str, Any]]:
    """Step k of a member follows its own step k - 1 and its predecessor's."""
    count = len(members)
    return [
        row(
            members[i],
            members[(i + 1) % count],
            spine.get(i, ""),
            size,
            after="" if not k else f"{(k - 1) * count + i} {(k - 1) * count + (i - 1) % count}",
        )
        for k in range(steps)
        for i in range(count)
    ]


def test_a_packed_ring_has_the_full_rate_in_steps_and_coupled() -> None:
    """One flow leaves each leaf: a step of 4 MB takes 4 MB / C and the latency over the spines."""
    rows = ring(30, list(range(16)), {3: 2, 7: 1, 11: 0, 15: 3}, 4e6)
    expected = 30 * (4e6 / RATE + ACROSS_S)
    assert max(times(rows)) == pytest.approx(expected, rel=1e-9)
    assert times(rows, collectives="coupled") == pytest.approx([expected] * 480, rel=1e-9)


def test_a_coupled_ring_moves_at_the_rate_of_its_busiest_link() -> None:
    """Members of alternating leaves: four flows leave each leaf over one uplink, C/4 each."""
    members = [host for pair in zip(range(4), range(4, 8), strict=True) for host in pair]
    rows = ring(14, members, dict.fromkeys(range(8), 0), 6e6)
    coupled = times(rows, collectives="coupled")
    assert coupled == pytest.approx([14 * (4 * 6e6 / RATE + ACROSS_S)] * 112, rel=1e-9)
    assert max(times(rows)) == pytest.approx(max(coupled), rel=1e-9)


def test_pairs_of_a_coupled_collective_count_by_their_bytes() -> None:
    """Two joined messages of 10 and 5 MB over one uplink: the flow has shares 1 + 1/2 there."""
    rows = [row(0, 5, 0, 10e6), row(1, 6, 0, 5e6, after="0")]
    both = times(rows, collectives="coupled")
    assert both == pytest.approx([15e6 / RATE + ACROSS_S] * 2, rel=1e-9)


def test_a_slow_link_is_slow_both_ways() -> None:
    rows = [row(0, 5, 0, 20e6), row(5, 0, 0, 20e6), row(0, 5, 1, 1e3, start_us=90000)]
    slow = times(rows, slow_link=(0, 0, 0.25))
    assert slow[:2] == pytest.approx([4 * 20e6 / RATE + ACROSS_S] * 2, rel=1e-9)
    for nothing in (None, "", float("nan")):
        assert times(rows, slow_link=nothing) == times(rows)


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Messages on a small Clos, of few sizes and starts so that many events meet."""
    fabric: dict[str, Any] = {
        "leaves": draw(st.integers(1, 3)),
        "hosts_a_leaf": draw(st.integers(1, 3)),
        "spines": draw(st.integers(1, 3)),
        "host_gbps": 10.0,
        "uplink_gbps": draw(st.sampled_from([5.0, 10.0, 40.0])),
    }
    host = st.integers(0, fabric["leaves"] * fabric["hosts_a_leaf"] - 1)
    size = st.sampled_from([0.0, 1e6, 2e6, 3e6]) | st.floats(1e3, 5e6)
    rows = []
    for number in range(draw(st.integers(1, 12))):
        after = draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set()
        rows.append(
            row(
                draw(host),
                draw(host),
                draw(st.integers(0, fabric["spines"] - 1) | st.just("")),
                draw(size),
                message=number,
                start_us=draw(st.sampled_from([0.0, 0.0, 500.0, 1234.5])),
                after=" ".join(map(str, after)),
                weight=draw(st.sampled_from([1.0, 1.0, 2.0])),
                limit=draw(st.sampled_from(["", "", 4e8])),
            )
        )
    return fabric, rows


def clos_of(fabric: dict[str, Any]) -> ClosLinks:
    leaves, hosts, spines = (fabric[key] for key in ("leaves", "hosts_a_leaf", "spines"))
    return ClosLinks(
        leaves, hosts, spines, fabric["host_gbps"] / 8e-9, fabric["uplink_gbps"] / 8e-9
    )


@given(tables())
@settings(max_examples=200, deadline=None)
def test_finish_times_are_those_of_a_plain_event_loop(
    case: tuple[dict[str, Any], list[dict[str, Any]]],
) -> None:
    fabric, rows = case
    clos = clos_of(fabric)
    sent = []
    for line in rows:
        way = None if line["spine"] == "" else line["spine"]
        path: Path = clos.route(line["source"], line["target"], way)[0]
        hops = round(sum(share for _, share in path))
        sent.append(
            Sent(
                line["bytes"],
                1e-6 * line["start_us"],
                tuple(map(int, line["after"].split())),
                path,
                line["weight"],
                line["limit"] or inf,
                hops * 1e-6 + max(0, hops - 1) * PACKET_S,
            )
        )
    plain = deliver(clos.capacity.tolist(), sent)
    assert message_times_s(rows, **fabric) == pytest.approx(plain, rel=1e-8, abs=1e-12)


@given(tables(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_order_of_rows_changes_no_bit(
    case: tuple[dict[str, Any], list[dict[str, Any]]],
    random: Any,  # noqa: ANN401
) -> None:
    fabric, rows = case
    found = message_times_s(rows, **fabric)
    order = list(range(len(rows)))
    random.shuffle(order)
    assert message_times_s([rows[i] for i in order], **fabric) == [found[i] for i in order]


def random_messages(seed: int) -> tuple[SharedLinks, Messages]:
    """200 messages on 30 links, at random times, some after others."""
    rng = np.random.default_rng(seed)
    paths = [
        [(int(link), float(rng.choice([1.0, 0.5]))) for link in rng.choice(30, 3, replace=False)]
        for _ in range(60)
    ]
    shared = SharedLinks(
        rng.uniform(1.0, 3.0, 30), FlowLinks.of_paths(paths), np.ones(60), np.full(60, inf)
    )
    after = [
        tuple(rng.choice(i, 2, replace=False).tolist()) if i > 40 and rng.random() < 0.5 else ()
        for i in range(200)
    ]
    sizes, starts = rng.uniform(0.1, 5.0, 200), rng.uniform(0.0, 60.0, 200)
    return shared, Messages(rng.integers(0, 60, 200), sizes, starts, np.zeros(200), after)


@pytest.mark.parametrize("seed", range(4))
def test_all_bytes_arrive_and_no_link_is_ever_above_its_capacity(seed: int) -> None:
    shared, messages = random_messages(seed)
    stretches: list[tuple[float, float, Ints, Floats]] = []
    send(shared, messages, lambda *stretch: stretches.append(stretch))
    sent = np.zeros(200)
    load: dict[float, Floats] = defaultdict(lambda: np.zeros(30))
    for since_s, until_s, members, rates in stretches:
        sent[members] += rates * (until_s - since_s)
        carried = shared.flows.take(messages.flow[members]).carried(rates, 30)
        load[since_s] = load[since_s] + carried
        load[until_s] = load[until_s] - carried
    assert sent == pytest.approx(messages.size_bytes, rel=1e-9)
    running = np.zeros(30)
    for _, change in sorted(load.items()):
        running += change
        assert (running <= shared.capacity * (1 + 1e-9)).all()
    # Links carry the bytes of all messages by their shares.
    total = np.zeros(30)
    for since_s, until_s, members, rates in stretches:
        part = shared.flows.take(messages.flow[members]).carried(rates, 30)
        total += part * (until_s - since_s)
    every = shared.flows.take(messages.flow)
    assert total == pytest.approx(every.carried(messages.size_bytes, 30), rel=1e-9)


def test_all_capacities_times_x_is_all_times_over_x() -> None:
    shared, messages = random_messages(11)
    still = Messages(
        messages.flow, messages.size_bytes, np.zeros(200), np.zeros(200), messages.after
    )
    faster = SharedLinks(8.0 * shared.capacity, shared.flows, shared.weight, shared.limit)
    slow, fast = (send(links, still).finish_s for links in (shared, faster))
    assert 8.0 * fast == pytest.approx(slow, rel=1e-9)


def test_messages_that_never_move_are_named() -> None:
    flows = FlowLinks.of_paths([[(0, 1.0)], [(1, 1.0)]])
    shared = SharedLinks(np.array([1.0, 0.0]), flows, np.ones(2), np.full(2, inf))
    zeros = np.zeros(2)
    dead = Messages(np.array([0, 1]), np.ones(2), zeros, zeros, ((), ()))
    with pytest.raises(InputError, match="message 1 never ends"):
        send(shared, dead)
    circle = Messages(np.array([0, 0]), np.ones(2), zeros, zeros, ((1,), (0,)))
    with pytest.raises(InputError, match="message 0 never starts"):
        send(shared, circle)


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([row(0, 16, 0, 1)], "target is 16: give 0 to 15"),
        ([row(-1, 5, 0, 1)], "source is -1"),
        ([row(0, 5, 4, 1)], "spine is 4: give 0 to 3"),
        ([row(0, 5, 0, -1)], "bytes is -1"),
        ([row(0, 5, 0, 1) | {"bytes": "much"}], "bytes is much"),
        ([{"source": 0, "target": 5}], "bytes is missing"),
        ([row(0, 5, 0, 1) | {"source": 0.5}], "a whole number"),
        ([row(0, 5, 0, 1, after="3")], "after is 3"),
        ([row(0, 5, 0, 1, after="0")], "waits for itself"),
        ([row(0, 5, 0, 1, weight=0)], "weight is 0"),
        ([row(0, 5, 0, 1, limit=0)], "limit is 0"),
        ([row(0, 5, 0, 1, message=2), row(0, 5, 0, 1, message=2)], "message 2 comes twice"),
    ],
)
def test_what_is_no_message_is_refused(rows: list[dict[str, Any]], word: str) -> None:
    with pytest.raises(InputError, match=word):
        times(rows)


def test_what_is_no_fabric_is_refused() -> None:
    with pytest.raises(InputError, match="has leaves"):
        times([], leaves=0)
    with pytest.raises(InputError, match="have a rate"):
        times([], host_gbps=0)
    with pytest.raises(InputError, match="no spines"):
        times([row(0, 5, "", 1)], spines=0)
    with pytest.raises(InputError, match="leaf 9 and spine 0"):
        times([], slow_link=(9, 0, 0.5))
    with pytest.raises(InputError, match="leaf, spine and its share"):
        times([], slow_link="slow")
    assert times([]) == []


def test_what_would_take_hours_is_refused_early(monkeypatch: pytest.MonkeyPatch) -> None:
    # 600 messages of unlike sizes over one link: 600 rates at the start, one less at every end,
    # 600 x 601 / 2 = 180,300 together. Told after 256 of 601 events, when 121,000 are done, they
    # look like 284,000 at most.
    count, zeros = 600, np.zeros(600)
    shared = SharedLinks(
        np.array([1e9]), FlowLinks.of_paths([[(0, 1.0)]]), np.ones(1), np.full(1, inf)
    )
    flow, sizes = np.zeros(count, np.int64), np.linspace(1e6, 2e6, count)
    messages = Messages(flow, sizes, zeros, zeros, [()] * count)
    told: list[tuple[int, int]] = []
    monkeypatch.setattr("netplan.simulation.fluid.SURE_WORK", 0)
    monkeypatch.setattr("netplan.simulation.fluid.MOST_WORK", 290_000)
    delivery = send(shared, messages, tick=lambda done, of: told.append((done, of)))
    assert delivery.finish_s.max() == pytest.approx(sizes.sum() / 1e9)
    assert told == [(0, count), (255, count), (511, count)]
    monkeypatch.setattr("netplan.simulation.fluid.MOST_WORK", 170_000)
    with pytest.raises(TooWideError, match=r"^600 messages share links .* send fewer at a time"):
        send(shared, messages)
    # Equal ones end together, whatever their number: one event, and nothing to refuse.
    monkeypatch.setattr("netplan.simulation.fluid.MOST_WORK", 700)
    assert send(shared, replace(messages, size_bytes=np.full(count, 1e6))).solves == 1

"""Links that are left out, against all of them; paths, against closed forms."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.records import replace
from netplan.simulation.engine import Engine
from netplan.simulation.linked_work import NO_THREAD, Issuer, _distinct, _Rows, reduce_links
from netplan.simulation.links import FlowRouter, LinkTimes, Transport
from netplan.simulation.simulate import Conditions, simulate_training
from netplan.simulation.tasks import Burst, Flows, Message
from netplan.topologies.formats.graphml import graphml_lines, read_graphml
from netplan.traffic.placement import Degrees, Placement

from .placed import Case, placed, simulated

LINKS = 12


def random_columns(random: Random, flows: int) -> list[LinkTimes]:
    """Flows on some of a dozen links, many of which are alike."""
    columns = []
    for _ in range(flows):
        links = np.sort(np.array(random.sample(range(LINKS), random.randint(1, 6))))
        seconds = np.array([random.choice([0.25, 0.5, 1.0, 2.0]) for _ in links])
        columns.append(LinkTimes(links, seconds))
    return columns


@given(st.integers(0, 10**6))
@settings(max_examples=200)
def test_ends_of_messages_stay_what_they_are(seed: int) -> None:
    """Random flows issued at random moments, on all links and on those that are kept."""
    random = Random(seed)  # noqa: S311 - a test
    columns = random_columns(random, random.randint(1, 6))
    kept, times = reduce_links(columns, [Issuer(NO_THREAD, 0, 1.0)] * len(columns))
    assert set(kept.tolist()) <= set(range(LINKS))
    whole, reduced = Engine(LINKS), Engine(len(kept))
    for _ in range(40):
        number = random.randrange(len(columns))
        whole.now = reduced.now = whole.now + random.choice([0.0, 0.0, 0.5, 3.0])
        one = columns[number]
        all_of_them = tuple(one.links.tolist()), tuple(one.seconds_per_byte.tolist())
        ends = [
            engine.book(Burst((Message(links, 1.0, busy_s),)))
            for engine, (links, busy_s) in ((whole, all_of_them), (reduced, times[number]))
        ]
        assert ends[0] == ends[1]


@pytest.mark.parametrize(("busy_s", "kept"), [(1.0, 0), (1.5, 1)])
def test_messages_in_sequence_wait_only_if_links_take_longer(busy_s: float, kept: int) -> None:
    """One thread of stage 3 with two kinds of messages, each of 1 s a byte alone."""
    columns = [LinkTimes(np.array([4, 9]), np.array([0.5, busy_s]))] * 2
    issuers = [Issuer(3, 0b01, 1.0), Issuer(3, 0b00, 1.0)]
    assert len(reduce_links(columns, issuers)[0]) == kept
    beside = [Issuer(3, 0b01, 1.0), Issuer(3, 0b10, 1.0)]
    assert len(reduce_links(columns, beside)[0]) == 1
    others = [Issuer(3, 0b01, 1.0), Issuer(2, 0b01, 1.0)]
    assert len(reduce_links(columns, others)[0]) == 1


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.floats(0.1, 1.0), st.integers(0, 5))
def test_more_rate_is_never_slower_on_a_single_path(
    stations: list[int], share: float, hop: int
) -> None:
    """Messages over the links of one path, from different places on it: one link gets faster."""

    def last_end(seconds: list[float]) -> float:
        engine, end = Engine(6), 0.0
        for number, first in enumerate(stations):
            engine.now = number * 0.3
            path = tuple(range(first, 6))
            busy_s = tuple(seconds[link] for link in path)
            end = max(end, engine.book(Burst((Message(path, max(busy_s), busy_s),))))
        return end

    slow, fast = [1.0] * 6, [1.0] * 6
    fast[hop] = share
    assert last_end(fast) <= last_end(slow)


def test_paths_of_stages_and_replicas_add_up() -> None:
    """What all replicas ask of the links is what each of them asks."""
    run, graph = placed(fixed={"pipeline": 4, "tensor": 4})
    placement = run.placement
    router = FlowRouter(Transport(graph, placement, placement.gpu_of_rank, "ring"))
    each = FlowRouter(Transport(graph, placement, placement.gpu_of_rank, "ring"))
    for dimensions, to in (((), 1), (("tensor",), 0), (("expert", "data"), 0)):
        total, parts = np.zeros((2, 2 * graph.link_count))
        whole = router.times(Flows(0, to, dimensions))
        total[whole.links] = whole.seconds_per_byte
        for replica in range(placement.totals.data):
            part = each.times(Flows(0, to, dimensions, replica=replica))
            parts[part.links] += part.seconds_per_byte
        assert total.any()
        np.testing.assert_allclose(parts, total, rtol=1e-9)


def test_a_transfer_takes_the_links_between_two_gpus() -> None:
    """Two stages in two HB domains of one GPU each, by hand: up, down, 1 B at 50 GB/s."""
    run, graph = placed(hb_size=1, gpus=16, fixed={"pipeline": 2}, zero_stage=3)
    placement = Placement((Degrees(), Degrees(pipeline=2)), (1, 16))
    router = FlowRouter(Transport(graph, placement, placement.gpu_of_rank))
    rate = run.fabric.sizing.network_bytes_per_s
    ahead, back = router.times(Flows(0, 1)), router.times(Flows(1, 0))
    links = graph.link_count
    assert ahead.links.tolist() == [0, links + 1]
    assert back.links.tolist() == [1, links]
    np.testing.assert_allclose(ahead.seconds_per_byte, 1 / rate)


def test_a_graph_from_a_file_is_as_good(tmp_path: Path) -> None:
    case: Case = {"fixed": {"pipeline": 4}}
    run, graph = placed(**case)
    path = tmp_path / "own.graphml"
    path.write_text("\n".join(graphml_lines(graph)), "utf-8")
    own = read_graphml(path)
    found = simulate_training(run.setting, run.timed, run.fabric, own)
    assert found.iteration_time_s == pytest.approx(simulated(**case).iteration_time_s, rel=1e-12)


@pytest.mark.parametrize("routing", ["ecmp", "hashed", "minimal-adaptive", "dimension-order"])
def test_a_torus_takes_every_routing(routing: str) -> None:
    case: Case = {"fixed": {"pipeline": 4}, "fabric": "torus-2d"}
    conditions = Conditions(routing=routing)  # type: ignore[arg-type]
    found = simulated(conditions, **case)
    alone = simulated(replace(conditions, contention=False), **case)
    assert found.iteration_time_s >= alone.iteration_time_s
    assert not alone.groups
    assert not alone.links


@given(st.integers(0, 10**6))
def test_of_links_that_are_alike_the_first_one_is_found(seed: int) -> None:
    rows = _Rows.of(random_columns(Random(seed), 4))  # noqa: S311 - a test
    seen: dict[tuple[object, ...], int] = {}
    for number in range(len(rows.link)):
        flows, seconds = rows.row(number)
        seen.setdefault((*flows.tolist(), *seconds.tolist()), number)
    assert _distinct(rows).tolist() == sorted(seen.values())


def test_links_whose_hashes_are_equal_are_not_taken_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("netplan.simulation.linked_work.hash64", np.zeros_like)
    links = np.arange(4)
    rows = _Rows.of(
        [LinkTimes(links, np.array([1.0, 2.0, 1.0, 3.0])), LinkTimes(links[:3], np.ones(3))]
    )
    assert _distinct(rows).tolist() == [0, 1, 3]

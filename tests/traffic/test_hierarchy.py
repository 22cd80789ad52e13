"""Several levels: all rows of the ASTRA-sim reference, an event simulation, hand calculations."""

import csv
import heapq
import math
from collections import deque
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.levels import Level
from netplan.traffic.algorithms import Collective, LevelArrays
from netplan.traffic.hierarchy import (
    CollectiveNetwork,
    Communication,
    Group,
    Schedule,
    collective_s,
)

PUBLISHED = Path(__file__).parents[1] / "published"
DOMAIN, NETWORK = Level("switch", 8, 450e9), Level("switch", 8, 50e9)


def reference_rows() -> list[dict[str, str]]:
    with (PUBLISHED / "collectives_astrasim.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def row_levels(row: dict[str, str]) -> list[Level]:
    columns = (row["kinds"], row["sizes"], row["bandwidth_bytes_per_s"], row["latency_s"])
    delay_s = float(row["endpoint_delay_s"])
    return [
        Level(kind, int(size), float(bandwidth), float(latency), delay_s)
        for kind, size, bandwidth, latency in zip(*(c.split() for c in columns), strict=True)
    ]


def alike(row: dict[str, str]) -> bool:
    """Whether a row is of ports and switches as they are, and of memory that nothing waits for.

    In others n-1 messages leave one port at once, switches store what they send on, or sums wait.
    """
    stored = row["forwarding"] == "store_and_forward"
    return row["status"] == "match" and not stored and not row["memory_bytes_per_s"]


@pytest.mark.parametrize(
    "row", [row for row in reference_rows() if alike(row)], ids=lambda row: row["case"]
)
def test_times_of_astra_sim(row: dict[str, str]) -> None:
    single = row["schedule"] == "single"
    time_s = collective_s(
        row["collective"],  # type: ignore[arg-type]
        row_levels(row),
        data_bytes=float(row["data_bytes"]),
        algorithm=row["algorithm"],
        chunks=int(row["chunks"]),
        schedule="per_dimension" if single else row["schedule"],  # type: ignore[arg-type]
    )
    assert time_s == pytest.approx(float(row["time_s"]), rel=float(row["tolerance_rel"]))


def test_the_reference_is_complete() -> None:
    rows = reference_rows()
    assert len(rows) == 206
    assert sum(row["status"] == "below_bound" for row in rows) == 26
    assert sum(map(alike, rows)) == 111
    for row in rows:
        # A gathered message is the sum of the inputs; others are the input of one GPU.
        gpus = math.prod(level.size for level in row_levels(row))
        factor = gpus if row["collective"] == "all_gather" else 1
        assert int(row["data_bytes"]) == factor * int(row["input_bytes_per_gpu"])


def first_come_s(visits: list[tuple[int, float]], chunks: int) -> float:
    """Finish of `chunks` equal chunks that visit stations in turn; a station serves one at a time.

    An event is (time, serial number, chunk, visit): the chunk is ready for that visit.
    """
    events = [(0.0, chunk, chunk, 0) for chunk in range(chunks)]
    heapq.heapify(events)
    serial = chunks
    queues: dict[int, deque[tuple[int, int]]] = {station: deque() for station, _ in visits}
    idle = dict.fromkeys(queues, True)
    done_s = 0.0
    while events:
        now, _, chunk, visit = heapq.heappop(events)
        if chunk >= 0:
            if visit == len(visits):
                done_s = max(done_s, now)
                continue
            station = visits[visit][0]
            queues[station].append((chunk, visit))
        else:
            station = visit
            idle[station] = True
        if idle[station] and queues[station]:
            served, at = queues[station].popleft()
            idle[station] = False
            end = now + visits[at][1]
            # The chunk reaches its next queue before the station looks for new work.
            heapq.heappush(events, (end, serial, served, at + 1))
            heapq.heappush(events, (end, serial + 1, -1, station))
            serial += 2
    return done_s


def phase_s(level: Level, data_bytes: float) -> float:
    """Direct exchange at a switch, written out: n-1 shards through one port, then one latency."""
    shard_s = data_bytes / level.size / level.link_bytes_per_s
    return (level.size - 1) * shard_s + 2 * level.link_latency_s + level.step_latency_s


def switches(draw_sizes: list[int], bandwidths: list[float]) -> list[Level]:
    return [
        Level("switch", size, bandwidth, 1e-6, 2e-6)
        for size, bandwidth in zip(draw_sizes, bandwidths, strict=False)
    ]


def all_reduce_visits(levels: list[Level], chunk_bytes: float) -> list[tuple[int, float]]:
    """Visits of one chunk: reduce_scatter up, all_gather down, in one visit at the outermost."""
    shares = [
        chunk_bytes / math.prod(inner.size for inner in levels[:i]) for i in range(len(levels))
    ]
    up = [(i, phase_s(level, shares[i])) for i, level in enumerate(levels)]
    last, last_s = up.pop()
    return [*up, (last, 2 * last_s), *up[::-1]]


@given(
    sizes=st.lists(st.integers(2, 16), min_size=2, max_size=2),
    bandwidths=st.lists(st.floats(1e10, 1e12), min_size=2, max_size=2),
    data_bytes=st.floats(1e5, 1e10),
    chunks=st.integers(1, 24),
)
def test_hierarchical_all_reduce_of_two_levels_is_first_come_first_served(
    sizes: list[int], bandwidths: list[float], data_bytes: float, chunks: int
) -> None:
    levels = switches(sizes, bandwidths)
    simulated_s = first_come_s(all_reduce_visits(levels, data_bytes / chunks), chunks)
    time_s = collective_s("all_reduce", levels, data_bytes=data_bytes, chunks=chunks)
    assert time_s == pytest.approx(simulated_s, rel=1e-9)


def test_hierarchical_all_reduce_of_three_levels_is_a_bound_that_is_mostly_reached() -> None:
    random = np.random.default_rng(7)
    ratios: list[float] = []
    for _ in range(150):
        levels = switches(
            random.integers(2, 12, 3).tolist(), (10 ** random.uniform(10, 12, 3)).tolist()
        )
        chunks, data_bytes = int(random.integers(1, 16)), float(10 ** random.uniform(6, 10))
        simulated_s = first_come_s(all_reduce_visits(levels, data_bytes / chunks), chunks)
        time_s = collective_s("all_reduce", levels, data_bytes=data_bytes, chunks=chunks)
        ratios.append(simulated_s / float(time_s))
    assert min(ratios) > 1 - 1e-9
    assert max(ratios) < 1.25
    assert np.mean(np.isclose(ratios, 1.0, rtol=1e-9)) > 0.8


@given(
    sizes=st.lists(st.integers(2, 12), min_size=1, max_size=4),
    bandwidths=st.lists(st.floats(1e10, 1e12), min_size=4, max_size=4),
    data_bytes=st.floats(1e5, 1e10),
    chunks=st.integers(1, 16),
    collective=st.sampled_from(get_args(Collective)),
)
def test_per_dimension_is_a_flow_of_chunks(
    sizes: list[int],
    bandwidths: list[float],
    data_bytes: float,
    chunks: int,
    collective: Collective,
) -> None:
    levels = switches(sizes, bandwidths)
    gpus = math.prod(sizes)
    phases = 2 if collective == "all_reduce" else 1
    # Input of one GPU, carried from level to level as each of them changes it.
    held = data_bytes / chunks / (gpus if collective == "all_gather" else 1)
    visits = []
    order = list(enumerate(levels))
    for i, level in order[::-1] if collective == "all_gather" else order:
        message = held * level.size if collective == "all_gather" else held
        visits.append((i, phases * phase_s(level, message)))
        held = {"all_gather": message, "reduce_scatter": held / level.size}.get(collective, held)
    time_s = collective_s(
        collective, levels, data_bytes=data_bytes, chunks=chunks, schedule="per_dimension"
    )
    assert time_s == pytest.approx(first_come_s(visits, chunks), rel=1e-9)


def test_worked_example_of_two_tiers() -> None:
    # a = 7/8 * 1e9 / 450e9 = 1.94444e-3 s, e = 7/64 * 1e9 / 50e9 = 2.1875e-3 s.
    both = [DOMAIN, NETWORK]
    whole_s = collective_s("all_gather", both, data_bytes=1e9)
    assert whole_s == pytest.approx(4.1319e-3, rel=2e-5)  # a + e
    chunked_s = collective_s("all_gather", both, data_bytes=1e9, chunks=4)
    assert chunked_s == pytest.approx(2.6736e-3, rel=2e-5)  # e + a/4
    reduce_s = collective_s("all_reduce", both, data_bytes=1e9, chunks=4)
    assert reduce_s == pytest.approx(2 * (2.1875e-3 + 1.944444e-3 / 4), rel=1e-6)
    # The whole message in both levels: 2 * 7/8 * 1e9 * (1/450e9 + 1/50e9).
    wasteful_s = collective_s("all_reduce", both, data_bytes=1e9, schedule="per_dimension")
    assert wasteful_s == pytest.approx(2 * (1.944444e-3 + 17.5e-3), rel=1e-6)


def test_more_chunks_pay_more_latencies() -> None:
    # Ring of 8 in one direction: 7 steps of 1 us a chunk; 16 chunks of 1/16 byte each: 112 us.
    ring = Level("ring", 8, 50e9, 1e-6)
    time_s = collective_s("all_gather", [ring], data_bytes=1.0, algorithm="ring", chunks=16)
    assert time_s == pytest.approx(112e-6, rel=1e-4)


def test_each_level_may_have_its_own_algorithm_and_levels_of_one_cost_nothing() -> None:
    torus, alone = Level("ring", 4, 48e9, 1e-6), Level("mesh", 1, 1e9, 1.0)
    mixed_s = collective_s(
        "all_gather", [torus, DOMAIN], data_bytes=1e9, algorithm=["ring", "halving_doubling"]
    )
    # 3 * (1e9/4/48e9 + 1e-6) s in the ring, 7/8 * 2.5e8 / 450e9 s at the switch.
    assert mixed_s == pytest.approx(15.628e-3 + 0.486111e-3, rel=1e-6)
    with_alone_s = collective_s(
        "all_gather",
        [alone, torus, alone, DOMAIN, alone],
        data_bytes=1e9,
        algorithm=[None, "ring", None, "halving_doubling", None],
    )
    assert with_alone_s == pytest.approx(mixed_s, rel=1e-12)
    assert collective_s("all_reduce", [alone], data_bytes=1e9, chunks=8) == 0.0


@pytest.mark.parametrize("schedule", get_args(Schedule))
@pytest.mark.parametrize("collective", get_args(Collective))
def test_many_plans_at_once(collective: Collective, schedule: Schedule) -> None:
    random = np.random.default_rng(11)
    x, y = random.integers(1, 9, (2, 100_000))
    chunks, data_bytes = random.integers(1, 5, 100_000), random.uniform(1e6, 1e9, 100_000)
    plans = [LevelArrays("switch", x, 450e9, 1e-6), LevelArrays("ring", y, 50e9, 0.0, 2e-6)]
    times_s = np.asarray(
        collective_s(collective, plans, data_bytes=data_bytes, chunks=chunks, schedule=schedule)
    )
    assert times_s.shape == (100_000,)
    for i in range(0, 100_000, 4_999):
        one = [Level("switch", int(x[i]), 450e9, 1e-6), Level("ring", int(y[i]), 50e9, 0.0, 2e-6)]
        one_s = collective_s(
            collective,
            one,
            data_bytes=float(data_bytes[i]),
            chunks=int(chunks[i]),
            schedule=schedule,
        )
        assert times_s[i] == pytest.approx(one_s, rel=1e-12)


def test_what_is_not_allowed_is_refused() -> None:
    both = [DOMAIN, NETWORK]
    with pytest.raises(InputError, match="at least one level"):
        collective_s("all_gather", [], data_bytes=1.0)
    with pytest.raises(InputError, match="got 1 algorithms for 2 levels"):
        collective_s("all_gather", both, data_bytes=1.0, algorithm=["ring"])
    with pytest.raises(InputError, match="chunks: got 0, use a whole number of at least 1"):
        collective_s("all_gather", both, data_bytes=1.0, chunks=0)
    with pytest.raises(InputError, match="data_bytes: got -1"):
        collective_s("all_gather", both, data_bytes=-1.0)
    with pytest.raises(InputError, match="unknown schedule 'flat'"):
        collective_s("all_gather", both, data_bytes=1.0, schedule="flat")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown collective 'scan'"):
        collective_s("scan", both, data_bytes=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("schedule", ["hierarchical", "per_dimension", "flat_ring"])
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_networks_in_chunks_take_what_the_collective_takes(
    kind: Collective, schedule: Schedule
) -> None:
    levels = (
        Level("switch", 8, 300e9, 0, 2e-6),
        Level("ring", 4, 90e9, 1e-6, 0),
        Level("switch", 16, 31.25e9, 0, 5e-6),
    )
    everyone = Group(np.array([[8], [4], [16]]), np.ones((3, 1), np.int64))
    for chunks in (1, 2, 4, 64):
        network = CollectiveNetwork(levels, Communication(schedule, chunks=chunks))
        found = network.collective(kind, everyone)
        for size in (1e3, 1e6, 1e9):
            expected = collective_s(
                kind,
                levels,
                data_bytes=size,
                chunks=chunks,
                schedule=schedule,
                algorithm=[None, "pairwise", None] if kind == "all_to_all" else None,
            )
            assert found.seconds(size)[0] == pytest.approx(expected, rel=1e-12)

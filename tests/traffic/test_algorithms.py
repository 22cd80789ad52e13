"""One level: algorithms against simulations of their messages and hand calculations."""

from collections.abc import Iterable
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.arrays import Amount
from netplan.errors import InputError
from netplan.levels import Level, LevelKind
from netplan.traffic import algorithms
from netplan.traffic.algorithms import (
    ALGORITHMS,
    DEFAULT_ALGORITHM,
    Affine,
    Algorithm,
    AnyLevel,
    Charge,
    Collective,
    LevelArrays,
    MemberRange,
    algorithm_of,
)
from netplan.traffic.hierarchy import collective_s, group_time

BYTES_PER_S = 50e9
LINK_S, DELAY_S = 3e-6, 2e-6
DATA_BYTES = 1e6  # small enough that latency is a third of the time: neither part can hide

Message = tuple[str, str, tuple[str, ...], float]
"""Name, link, names of the messages that must have arrived before, bytes."""


def level(kind: LevelKind, size: int) -> Level:
    return Level(kind, size, BYTES_PER_S, LINK_S, DELAY_S)


def level_affine(
    collective: Collective, level: AnyLevel, *, algorithm: str | None = None
) -> Affine:
    return group_time(collective, [level], None, methods=[algorithm])


def level_time_s(
    collective: Collective, level: AnyLevel, *, data_bytes: Amount, algorithm: str | None = None
) -> Amount:
    return collective_s(collective, [level], data_bytes=data_bytes, algorithm=algorithm)


def finish_s(messages: Iterable[Message], tau: float) -> float:
    """Serve the messages in their order; each link carries one at a time, tau passes unloaded."""
    free: dict[str, float] = {}
    arrived: dict[str, float] = {}
    for name, link, after, size in messages:
        start = max([free.get(link, 0.0), *(arrived[earlier] for earlier in after)])
        free[link] = start + size / BYTES_PER_S
        arrived[name] = free[link] + tau
    return max(arrived.values())


def ring_messages(n: int, shard_bytes: float, way: int) -> list[Message]:
    """In step s each GPU passes on what arrived in step s - 1."""
    return [
        (
            f"{way}/{step}/{gpu}",
            f"{way}/{gpu}",
            (f"{way}/{step - 1}/{(gpu - way) % n}",) if step else (),
            shard_bytes,
        )
        for step in range(n - 1)
        for gpu in range(n)
    ]


@pytest.mark.parametrize("n", [2, 3, 5, 8])
@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter"])
def test_rings_take_as_long_as_their_messages(n: int, collective: Collective) -> None:
    tau = LINK_S + DELAY_S
    forward = ring_messages(n, DATA_BYTES / n, 1)
    both = ring_messages(n, DATA_BYTES / (2 * n), 1) + ring_messages(n, DATA_BYTES / (2 * n), -1)

    one_way_s = level_time_s(collective, level("ring", n), data_bytes=DATA_BYTES, algorithm="ring")
    assert one_way_s == pytest.approx(finish_s(forward, tau), rel=1e-12)
    both_ways_s = level_time_s(collective, level("ring", n), data_bytes=DATA_BYTES)
    # Two GPUs share one link: nothing to split over.
    expected_s = finish_s(both if n > 2 else forward, tau)
    assert both_ways_s == pytest.approx(expected_s, rel=1e-12)


@pytest.mark.parametrize("n", [2, 3, 6])
def test_one_way_ring_all_to_all_sends_every_message_forward(n: int) -> None:
    # Distance 1, then 2, ... n-1; a message waits at each GPU on its way.
    messages: list[Message] = []
    before: tuple[str, ...] = ()
    for distance in range(1, n):
        for hop in range(distance):
            names = tuple(f"{distance}/{hop}/{gpu}" for gpu in range(n))
            messages += [(name, str(gpu), before, DATA_BYTES / n) for gpu, name in enumerate(names)]
            before = names
    time_s = level_time_s("all_to_all", level("ring", n), data_bytes=DATA_BYTES, algorithm="ring")
    assert time_s == pytest.approx(finish_s(messages, LINK_S + DELAY_S), rel=1e-12)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 8])
def test_bidirectional_ring_all_to_all_is_the_load_of_its_busiest_link(n: int) -> None:
    load: dict[tuple[int, int], float] = {}
    for source in range(n):
        for apart in range(1, n):
            ways = [way for way in (1, -1) if (way * apart) % n == min(apart, n - apart)]
            if n == 2:
                ways = [1]  # one link only, whichever way one looks
            for way in ways:
                for hop in range(min(apart, n - apart)):
                    link = ((source + way * hop) % n, way)
                    load[link] = load.get(link, 0.0) + DATA_BYTES / n / len(ways)
    # The farthest message crosses floor(n/2) links, cut through, and starts once.
    expected_s = max(load.values()) / BYTES_PER_S + (n // 2) * LINK_S + DELAY_S
    time_s = level_time_s("all_to_all", level("ring", n), data_bytes=DATA_BYTES)
    assert time_s == pytest.approx(expected_s, rel=1e-12)


@pytest.mark.parametrize("n", [2, 4, 16])
def test_halving_doubling_gathers_everything_in_log_rounds(n: int) -> None:
    held = [{gpu} for gpu in range(n)]
    expected_s, distance = 0.0, 1
    while distance < n:
        sent = len(held[0])
        held = [held[gpu] | held[gpu ^ distance] for gpu in range(n)]
        expected_s += sent * DATA_BYTES / n / BYTES_PER_S + 2 * LINK_S + DELAY_S
        distance *= 2
    assert all(len(shards) == n for shards in held)
    for collective in ("all_gather", "reduce_scatter"):
        time_s = level_time_s(
            collective, level("switch", n), data_bytes=DATA_BYTES, algorithm="halving_doubling"
        )
        assert time_s == pytest.approx(expected_s, rel=1e-12)


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize("n", [2, 3, 8])
def test_direct_shares_the_port_of_a_switch_but_not_the_links_of_a_mesh(
    n: int, collective: Collective
) -> None:
    shard = DATA_BYTES / n
    pairs = [(gpu, (gpu + apart) % n) for apart in range(1, n) for gpu in range(n)]
    up: list[Message] = [(f"{a}/{b}", f"up {a}", (), shard) for a, b in pairs]
    mesh: list[Message] = [(f"{a}/{b}", f"{a}/{b}", (), shard) for a, b in pairs]

    switch_s = level_time_s(collective, level("switch", n), data_bytes=DATA_BYTES)
    assert switch_s == pytest.approx(finish_s(up, 2 * LINK_S + DELAY_S), rel=1e-12)
    mesh_s = level_time_s(collective, level("mesh", n), data_bytes=DATA_BYTES)
    assert mesh_s == pytest.approx(finish_s(mesh, LINK_S + DELAY_S), rel=1e-12)


def test_all_reduce_of_the_worked_example() -> None:
    # 14 steps of 2^30 / 8 bytes at 50 * 2^30 B/s and 501 ns: 14 * (0.0025 + 501e-9) s.
    ring = Level("ring", 8, 50 * 2**30, 500e-9, 1e-9)
    time_s = level_time_s("all_reduce", ring, data_bytes=2**30, algorithm="ring")
    assert time_s == pytest.approx(35.007014e-3, rel=1e-9)


@pytest.mark.parametrize("kind", get_args(LevelKind))
@pytest.mark.parametrize("collective", get_args(Collective))
def test_defaults_exist_and_one_gpu_costs_nothing(kind: LevelKind, collective: Collective) -> None:
    named = level_time_s(
        collective, level(kind, 6), data_bytes=1e6, algorithm=DEFAULT_ALGORITHM[kind]
    )
    assert level_time_s(collective, level(kind, 6), data_bytes=1e6) == named
    assert level_time_s(collective, level(kind, 1), data_bytes=1e6) == 0.0


@given(
    sizes=st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=1, max_size=5),
    collective=st.sampled_from(get_args(Collective)),
    case=st.sampled_from(
        [
            ("ring", "ring"),
            ("ring", "bidirectional_ring"),
            ("mesh", "direct"),
            ("mesh", "ring"),
            ("switch", "direct"),
            ("switch", "halving_doubling"),
        ]
    ),
    data_bytes=st.floats(0, 1e12),
)
def test_arrays_give_the_times_of_their_elements(
    sizes: list[int], collective: Collective, case: tuple[LevelKind, str], data_bytes: float
) -> None:
    kind, algorithm = case
    if algorithm == "halving_doubling" and collective == "all_to_all":
        return
    bandwidths = np.linspace(1e9, 9e9, len(sizes))
    many = LevelArrays(kind, np.array(sizes), bandwidths, 1e-6, np.full((2, 1), 5e-7))
    times_s = np.asarray(level_time_s(collective, many, data_bytes=data_bytes, algorithm=algorithm))
    assert times_s.shape == (2, len(sizes))
    for index, size in enumerate(sizes):
        one = Level(kind, size, float(bandwidths[index]), 1e-6, 5e-7)
        one_s = level_time_s(collective, one, data_bytes=data_bytes, algorithm=algorithm)
        assert times_s[0, index] == pytest.approx(one_s, rel=1e-12)


@pytest.mark.parametrize(
    ("collective", "where", "method", "message"),
    [
        ("all_gather", level("ring", 4), "direct", "direct does not run on a ring"),
        ("all_gather", level("switch", 4), "bidirectional_ring", "does not run on a switch"),
        ("all_to_all", level("switch", 4), "halving_doubling", "has no all_to_all"),
        ("gather", level("switch", 4), None, "unknown collective 'gather': use one of all_gather"),
    ],
)
def test_what_does_not_fit_is_refused(
    collective: Collective, where: Level, method: str | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        level_time_s(collective, where, data_bytes=1.0, algorithm=method)


def test_bad_numbers_and_names_are_refused() -> None:
    with pytest.raises(InputError, match="data_bytes: got -1, use a finite number of at least 0"):
        level_time_s("all_gather", level("ring", 4), data_bytes=-1.0)
    with pytest.raises(InputError, match=r"size of a level: got 2\.5, use a whole number"):
        LevelArrays("ring", np.array([2, 2.5]), 1e9)
    with pytest.raises(InputError, match="link_bytes_per_s: got 0, use a finite number above 0"):
        LevelArrays("ring", 4, np.array([1e9, 0.0]))
    with pytest.raises(InputError, match="link_latency_s: got nan"):
        LevelArrays("ring", 4, 1e9, float("nan"))
    with pytest.raises(InputError, match="unknown level kind 'tree'"):
        LevelArrays("tree", 4, 1e9)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown algorithm 'tree'"):
        level_time_s("all_gather", level("ring", 4), data_bytes=1.0, algorithm="tree")


@pytest.mark.parametrize(("n", "power", "folded"), [(2, 2, 0), (3, 2, 1), (6, 4, 1), (8, 8, 0)])
def test_halving_doubling_folds_what_is_beyond_a_power_of_two(
    n: int, power: int, folded: int
) -> None:
    # 6 GPUs: 2 hand D to partners, 4 exchange D/2 and D/4: (1 + 3/4) D, three steps.
    tau, steps = 2 * LINK_S + DELAY_S, {2: 1, 4: 2, 8: 3}[power] + folded
    expected_s = ((power - 1) / power + folded) * DATA_BYTES / BYTES_PER_S + steps * tau
    time_s = level_time_s(
        "all_gather", level("switch", n), data_bytes=DATA_BYTES, algorithm="halving_doubling"
    )
    assert time_s == pytest.approx(expected_s, rel=1e-12)


def test_two_trees_take_a_message_each_way_and_a_step_a_height() -> None:
    # 8 GPUs, height 3: D/B + 3 (2 L + d) down; as much up before it in an all_reduce.
    tau = 2 * LINK_S + DELAY_S
    down_s = DATA_BYTES / BYTES_PER_S + 3 * tau
    for collective, phases in (("broadcast", 1), ("reduce", 1), ("all_reduce", 2)):
        time_s = level_time_s(
            collective,  # type: ignore[arg-type]
            level("switch", 8),
            data_bytes=DATA_BYTES,
            algorithm="double_binary_tree",
        )
        assert time_s == pytest.approx(phases * down_s, rel=1e-12)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 13, 64])
def test_two_trees_span_all_and_share_the_work(n: int) -> None:
    pairs = ALGORITHMS["double_binary_tree"].pairs
    assert callable(pairs)
    source, destination, share = pairs("all_reduce", n)
    # Two trees of n - 1 links, half of D both ways over each.
    assert len(source) == 4 * (n - 1)
    assert share.tolist() == [0.5] * len(source)
    for tree in (slice(0, n - 1), slice(n - 1, 2 * n - 2)):
        above = dict(zip(source[tree].tolist(), destination[tree].tolist(), strict=True))
        (root,) = {*range(n)} - {*above}
        for gpu in range(n):
            for _ in range(n):
                gpu = above.get(gpu, gpu)  # noqa: PLW2901 - up to the root
            assert gpu == root
    # Nobody sends more than D up and D down, and the root of one tree is a leaf of the other.
    sent = np.bincount(source, share, minlength=n)
    assert sent.max() <= 2.0


@pytest.mark.parametrize("n", [2, 4, 6, 8])
def test_partners_send_what_the_time_counts(n: int) -> None:
    pairs = ALGORITHMS["halving_doubling"].pairs
    assert callable(pairs)
    source, destination, share = pairs("all_reduce", n)
    sent = np.bincount(source, share, minlength=n)
    if n & (n - 1) == 0:  # 2 (n-1)/n D from each GPU
        assert sent == pytest.approx(np.full(n, 2 * (n - 1) / n))
    else:  # 4 of 6: 2 x 3/4 D each; 2 partners send D on and back
        assert sent == pytest.approx([2.5, 2.5, 1.5, 1.5, 1.0, 1.0])
    assert np.array_equal(np.sort(source), np.sort(destination))


def test_a_package_adds_an_algorithm_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plug:
        """One that takes a microsecond more than direct."""

        def load(self) -> Algorithm:
            def charge(_: object, span: MemberRange) -> Charge:
                return Charge(span.members, 1.0, 1.0, 1.0)

            return Algorithm(("switch",), ("all_reduce",), charge)

    monkeypatch.setattr(algorithms, "added", lambda _: {"slow": Plug()})
    algorithm_of.cache_clear()
    # 8 D/B + tau, twice.
    time_s = level_time_s("all_reduce", level("switch", 8), data_bytes=DATA_BYTES, algorithm="slow")
    tau = 2 * LINK_S + DELAY_S
    assert time_s == pytest.approx(2 * (8 * DATA_BYTES / BYTES_PER_S + tau), rel=1e-12)
    with pytest.raises(InputError, match="scatter_all_gather, slow"):
        algorithm_of("fast")
    algorithm_of.cache_clear()

"""Closed forms: the paper's numbers, the general model, simulated broadcasts, a searched split."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.arrays import Amount
from netplan.errors import InputError
from netplan.levels import Level
from netplan.traffic.algorithms import AnyLevel, LevelArrays
from netplan.traffic.collectives import all_gather_bound_s, all_gather_s, all_to_all_s
from netplan.traffic.hierarchy import collective_s

SIZES = st.integers(1, 64)
BANDWIDTHS = st.floats(1e9, 1e12)


def slowdown(x: int, y: int, hb: float, network: float) -> float:
    """What an all_to_all loses on rail-only: Eq. 21 over Eq. 20, minus 1."""
    rail_only_s = all_to_all_s(1.0, x, y, hb, network, "rail-only")
    return float(rail_only_s / all_to_all_s(1.0, x, y, hb, network, "rail-optimized")) - 1


def broadcast_s(
    level: AnyLevel, *, data_bytes: float, algorithm: str = "chain", chunks: int = 1
) -> Amount:
    """A broadcast in one level."""
    return collective_s(
        "broadcast", [level], data_bytes=data_bytes, algorithm=algorithm, chunks=chunks
    )


def test_all_gather_by_hand() -> None:
    # 7*1e9/(64*50e9) = 2.1875e-3 s in the rails, 7*1e9/(8*450e9) = 1.944444e-3 s in the domains.
    assert all_gather_s(1e9, 8, 8, 450e9, 50e9) == pytest.approx(4.131944e-3, rel=1e-6)
    # One latency a tier that is used: 2, 1 (no network), 1 (no domain), 0.
    for x, y, tiers in ((8, 8, 2), (8, 1, 1), (1, 8, 1), (1, 1, 0)):
        extra_s = np.subtract(
            all_gather_s(1e6, x, y, 450e9, 50e9, 1e-3), all_gather_s(1e6, x, y, 450e9, 50e9)
        )
        assert extra_s == pytest.approx(tiers * 1e-3, rel=1e-9, abs=1e-15)
    # The optimum overlaps both tiers: 2.1875e-3 s, here less by a factor 1.889.
    optimum_s = float(all_gather_bound_s(1e9, 8, 8, 450e9, 50e9))
    assert optimum_s == pytest.approx(2.1875e-3, rel=1e-9)


@given(x=SIZES, y=SIZES, hb=BANDWIDTHS, network=BANDWIDTHS, latency_s=st.floats(0, 1e-3))
def test_closed_forms_are_the_general_model(
    x: int, y: int, hb: float, network: float, latency_s: float
) -> None:
    levels = [
        Level("switch", x, hb, step_latency_s=latency_s),
        Level("switch", y, network, step_latency_s=latency_s),
    ]
    gather_s = all_gather_s(1e8, x, y, hb, network, latency_s)
    assert gather_s == pytest.approx(collective_s("all_gather", levels, data_bytes=1e8), rel=1e-9)
    scatter_s = collective_s("reduce_scatter", levels, data_bytes=1e8)
    assert gather_s == pytest.approx(scatter_s, rel=1e-9)
    reduce_s = collective_s("all_reduce", levels, data_bytes=1e8)
    assert reduce_s == pytest.approx(2 * gather_s, rel=1e-9)

    bare = [Level("switch", x, hb), Level("switch", y, network)]
    general_s = collective_s("all_to_all", bare, data_bytes=x * y * 1e5)
    assert all_to_all_s(1e5, x, y, hb, network) == pytest.approx(general_s, rel=1e-9)


def test_all_to_all_of_the_worked_example() -> None:
    # x = 8, y = 32, C_F = 900e9, C_S = 50e9, 1 MB a pair. Eq. 20: 8*31*1e6/50e9 = 4.96e-3 s;
    # Eq. 21 adds 32*7*1e6/900e9 = 0.248889e-3 s.
    optimized_s = all_to_all_s(1e6, 8, 32, 900e9, 50e9, "rail-optimized")
    assert optimized_s == pytest.approx(4.96e-3, rel=1e-9)
    rail_only_s = all_to_all_s(1e6, 8, 32, 900e9, 50e9, "rail-only")
    assert rail_only_s == pytest.approx(5.208889e-3, rel=1e-6)
    # 32*7*50 / (8*31*900) = 5.018 %; printed the other way round it would be 32*7*900 / (8*31*50).
    assert slowdown(8, 32, 900e9, 50e9) == pytest.approx(0.0501792, rel=1e-5)
    # A slow domain binds Eq. 20: 7/1 s; Eq. 21: 2*7/1 + 8*1/100 s.
    domain_s = all_to_all_s(1.0, 8, 2, 1.0, 100.0, "rail-optimized")
    assert domain_s == pytest.approx(7.0, rel=1e-12)
    assert slowdown(8, 2, 1.0, 100.0) == pytest.approx(14.08 / 7 - 1, rel=1e-12)


@given(x=st.integers(2, 64), y=st.integers(2, 64), ratio=st.floats(1, 40))
def test_slowdown_is_eq_22_the_right_way_up(x: int, y: int, ratio: float) -> None:
    expected = y * (x - 1) / (x * (y - 1) * ratio)
    assert slowdown(x, y, ratio * 50e9, 50e9) == pytest.approx(expected, rel=1e-9)


def test_nothing_is_lost_without_a_second_tier() -> None:
    sizes = np.array([1, 8, 1]), np.array([1, 1, 8])
    rail_only_s = all_to_all_s(1e6, *sizes, 450e9, 50e9, "rail-only")
    optimized_s = all_to_all_s(1e6, *sizes, 450e9, 50e9, "rail-optimized")
    assert np.array_equal(rail_only_s, optimized_s)


@pytest.mark.parametrize(
    ("x", "y", "chunks"), [(8, 8, 1), (8, 8, 4), (8, 32, 2), (64, 4, 3), (2, 2, 1), (2, 16, 16)]
)
def test_the_split_that_minimises_the_all_reduce(x: int, y: int, chunks: int) -> None:
    shares = np.linspace(0.0005, 0.9995, 9_991)  # of the sum, given to the HB domain
    levels = [
        LevelArrays("switch", x, 500e9 * shares),
        LevelArrays("switch", y, 500e9 * (1 - shares)),
    ]
    times_s = np.asarray(collective_s("all_reduce", levels, data_bytes=1e9, chunks=chunks))
    best = shares[times_s.argmin()]
    # With a = 2 (x-1)/x D/C_F and e = 2 (y-1)/(x y) D/C_S the time is max(a, e + a/c); R0 is the
    # ratio at which domain and network take equally long.
    balanced = y * (x - 1) / (y - 1)
    ratio = max(balanced * (1 - 1 / chunks), (balanced / chunks) ** 0.5)
    # One step of the grid, 1e-4 of the sum.
    assert ratio / (1 + ratio) == pytest.approx(best, abs=2e-4)


def chain_s(gpus: int, chunks: int, step_s: float) -> float:
    """Arrival of the last chunk at the last of `gpus` receivers; a link carries one at a time."""
    arrived = [0.0] * chunks
    for _ in range(gpus):
        before = 0.0
        for chunk in range(chunks):
            before = max(before, arrived[chunk]) + step_s
            arrived[chunk] = before
    return arrived[-1]


@pytest.mark.parametrize("n", [2, 3, 5, 8])
@pytest.mark.parametrize("chunks", [1, 4, 32])
def test_chains_pass_the_chunks_on(n: int, chunks: int) -> None:
    ring = Level("ring", n, 50e9, 1e-6, 2e-6)
    step_s = 1e6 / chunks / 50e9 + 3e-6
    chain = broadcast_s(ring, data_bytes=1e6, chunks=chunks)
    assert chain == pytest.approx(chain_s(n - 1, chunks, step_s), rel=1e-12)
    # Both ways round the ring: the longer side has ceil((n-1)/2) receivers.
    both = broadcast_s(ring, data_bytes=1e6, algorithm="bidirectional_chain", chunks=chunks)
    assert both == pytest.approx(chain_s(-(-(n - 1) // 2), chunks, step_s), rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 1024, 1025])
def test_binomial_tree_doubles_the_informed_each_round(n: int) -> None:
    informed, expected_s = 1, 0.0
    while informed < n:
        informed *= 2
        expected_s += 1e6 / 50e9 + 2 * 1e-6 + 2e-6
    switch = Level("switch", n, 50e9, 1e-6, 2e-6)
    time_s = broadcast_s(switch, data_bytes=1e6, algorithm="binomial_tree")
    assert time_s == pytest.approx(expected_s, rel=1e-12)


def test_scatter_and_all_gather_by_hand() -> None:
    # Switch: 2 * (7/8 * 1e6/50e9 + 2*1e-6 + 2e-6) = 2 * 21.5e-6 s.
    switch = Level("switch", 8, 50e9, 1e-6, 2e-6)
    switch_s = broadcast_s(switch, data_bytes=1e6, algorithm="scatter_all_gather")
    assert switch_s == pytest.approx(43e-6, rel=1e-12)
    # Mesh: 2 * (1e6/8/50e9 + 1e-6 + 2e-6) = 2 * 5.5e-6 s.
    mesh = Level("mesh", 8, 50e9, 1e-6, 2e-6)
    mesh_s = broadcast_s(mesh, data_bytes=1e6, algorithm="scatter_all_gather")
    assert mesh_s == pytest.approx(11e-6, rel=1e-12)


@pytest.mark.parametrize("algorithm", ["chain", "bidirectional_chain", "scatter_all_gather"])
def test_broadcast_over_arrays_and_within_one_gpu(algorithm: str) -> None:
    sizes = np.array([1, 2, 7, 64])
    many_s = np.asarray(
        broadcast_s(LevelArrays("mesh", sizes, 50e9, 1e-6), data_bytes=1e6, algorithm=algorithm)
    )
    each_s = [
        broadcast_s(Level("mesh", size, 50e9, 1e-6), data_bytes=1e6, algorithm=algorithm)
        for size in sizes.tolist()
    ]
    assert many_s == pytest.approx(each_s, rel=1e-12)
    assert many_s[0] == 0.0
    assert many_s[1] > 0.0


def test_closed_forms_take_arrays() -> None:
    x, y = np.array([[2], [8]]), np.array([1, 4, 16])
    hb = np.array([300e9, 450e9, 900e9])
    gather_s = np.asarray(all_gather_s(1e9, x, y, hb, 50e9, 1e-6))
    exchange_s = np.asarray(all_to_all_s(1e6, x, y, hb, 50e9, "rail-optimized"))
    assert gather_s.shape == exchange_s.shape == (2, 3)
    assert gather_s[1, 2] == all_gather_s(1e9, 8, 16, 900e9, 50e9, 1e-6)
    assert exchange_s[0, 1] == all_to_all_s(1e6, 2, 4, 450e9, 50e9, "rail-optimized")


def test_what_is_not_allowed_is_refused() -> None:
    with pytest.raises(InputError, match="hb_size: got 0, use a whole number of at least 1"):
        all_gather_s(1e9, 0, 8, 450e9, 50e9)
    with pytest.raises(InputError, match="hb_bytes_per_s: got -1, use a finite number above 0"):
        all_gather_s(1e9, 8, 8, -1.0, 50e9)
    with pytest.raises(InputError, match="latency_s: got -1"):
        all_gather_s(1e9, 8, 8, 450e9, 50e9, -1.0)
    with pytest.raises(InputError, match="unknown fabric 'clos'"):
        all_to_all_s(1.0, 8, 8, 450e9, 50e9, "clos")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="pair_bytes: got nan"):
        all_to_all_s(float("nan"), 8, 8, 450e9, 50e9)
    ring = Level("ring", 8, 50e9)
    with pytest.raises(InputError, match="binomial_tree does not run on a ring"):
        broadcast_s(ring, data_bytes=1.0, algorithm="binomial_tree")
    with pytest.raises(InputError, match="unknown algorithm 'flood'"):
        broadcast_s(ring, data_bytes=1.0, algorithm="flood")

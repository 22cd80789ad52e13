"""Lower bounds: published optima, brute force over all cuts, and every time that we compute."""

import csv
import math
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from netplan.errors import InputError
from netplan.levels import Level, LevelKind
from netplan.traffic.algorithms import ALGORITHMS
from netplan.traffic.bounds import Fabric, LowerBound, lower_bound
from netplan.traffic.collectives import all_gather_bound, all_gather_s, all_to_all_s
from netplan.traffic.hierarchy import Schedule, collective_s
from netplan.workloads.operations import CollectiveKind

PUBLISHED = Path(__file__).parents[1] / "published"
SLACK = 1 - 1e-9


def rows(name: str) -> list[dict[str, str]]:
    with (PUBLISHED / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def row_levels(row: dict[str, str]) -> list[Level]:
    columns = (row["kinds"], row["sizes"], row["bandwidth_bytes_per_s"])
    return [
        Level(kind, int(size), float(bandwidth))
        for kind, size, bandwidth in zip(*(column.split() for column in columns), strict=True)
    ]


@pytest.mark.parametrize("row", rows("collectives_optimal.csv"), ids=lambda row: row["network"])
def test_optima_of_forestcoll(row: dict[str, str]) -> None:
    data_bytes = float(row["data_bytes"])
    bound = lower_bound(
        row["collective"],  # type: ignore[arg-type]
        row_levels(row),
        data_bytes=data_bytes,
        fabric=row["network_kind"] or "rail-only",  # type: ignore[arg-type]
    )
    assert bound.bound_s == pytest.approx(float(row["time_s"]), rel=1e-9)
    printed_gb_per_s = float(row["printed_gb_per_s"])
    assert data_bytes / bound.bound_s / 1e9 == pytest.approx(
        printed_gb_per_s, rel=float(row["printed_tolerance_rel"])
    )


@pytest.mark.parametrize("row", rows("collectives_astrasim.csv"), ids=lambda row: row["case"])
def test_bounds_of_the_simulated_networks(row: dict[str, str]) -> None:
    bound = lower_bound(
        row["collective"],  # type: ignore[arg-type]
        row_levels(row),
        data_bytes=float(row["data_bytes"]),
    )
    assert bound.bound_s == pytest.approx(float(row["lower_bound_s"]), rel=1e-9)
    if row["status"] == "below_bound":
        assert float(row["time_s"]) < bound.bound_s


@pytest.mark.parametrize(
    "row", rows("allgather_bound.csv"), ids=lambda row: f"{row['x']}x{row['y']}"
)
@pytest.mark.parametrize("fabric", get_args(Fabric))
def test_all_gather_theorem_of_the_reference(row: dict[str, str], fabric: Fabric) -> None:
    x, y = int(row["x"]), int(row["y"])
    hb, network = float(row["C_F"]), float(row["C_S"])
    # D = x*y bytes make one shard one byte, the unit of the reference.
    bound = all_gather_bound(x * y, x, y, hb, network, fabric)
    expected = float(row["T_" + fabric.replace("-", "_")])
    assert bound.bound_s == pytest.approx(expected, rel=1e-9)
    assert dict(bound.terms_s)["network"] == pytest.approx(float(row["postulate"]), rel=1e-9)
    # The postulate holds if and only if C_F/C_S >= y*(x-1)/(y-1).
    holds = hb / network >= y * (x - 1) / (y - 1)
    assert holds == (row["postulate_holds"] == "True")
    assert holds == math.isclose(bound.bound_s, float(row["postulate"]), rel_tol=1e-9)


def members(gpus: int) -> NDArray[np.int64]:
    """All proper non-empty sets of GPUs, one a row, as zeros and ones."""
    return (np.arange(1, 2**gpus - 1)[:, None] >> np.arange(gpus)) & 1


@pytest.mark.parametrize(
    ("x", "y"), [(x, y) for x in range(2, 7) for y in range(2, 7) if x * y <= 12]
)
def test_all_gather_theorem_against_all_cuts(x: int, y: int) -> None:
    sets = members(x * y).reshape(-1, y, x)
    size = sets.sum(axis=(1, 2))
    in_domain, in_rail = sets.sum(axis=2), sets.sum(axis=1)
    domains = np.minimum(in_domain, x - in_domain).sum(axis=1)
    rails = np.minimum(in_rail, y - in_rail).sum(axis=1)
    network = np.minimum(size, x * y - size)
    for ratio in (0.1, 0.4, 1.0, 3.0, 9.0, 40.0):
        rail_only_s = (size / (ratio * domains + rails)).max()
        optimized_s = (size / (ratio * domains + network)).max()
        bound = all_gather_bound(x * y, x, y, ratio, 1.0)
        assert bound.bound_s == pytest.approx(rail_only_s, rel=1e-12)
        bound = all_gather_bound(x * y, x, y, ratio, 1.0, "rail-optimized")
        assert bound.bound_s == pytest.approx(optimized_s, rel=1e-12)


def leaving_bytes_per_s(sets: NDArray[np.int64], levels: list[Level]) -> NDArray[np.float64]:
    """Bandwidth out of each set: links of rings and meshes one by one, ports of each switch."""
    shape = [level.size for level in levels]
    grids = sets.reshape(-1, *shape)
    out = np.zeros(len(sets))
    for axis, level in enumerate(levels, 1):
        lines = np.moveaxis(grids, axis, -1).reshape(len(sets), -1, level.size)
        inside = lines.sum(axis=-1)
        if level.kind == "ring":
            ways = (1, -1) if level.size > 2 else (1,)
            cut = sum(
                (lines & (1 - np.roll(lines, way, axis=-1))).sum(axis=(-1, -2)) for way in ways
            )
        elif level.kind == "line":
            cut = (lines[..., 1:] != lines[..., :-1]).sum(axis=(-1, -2))
        elif level.kind == "mesh":
            cut = (inside * (level.size - inside)).sum(axis=-1)
        else:
            cut = np.minimum(inside, level.size - inside).sum(axis=-1)
        out += cut * level.link_bytes_per_s
    return out


@given(
    shape=st.sampled_from([(5,), (2, 3), (3, 2), (3, 3), (2, 5), (4, 3), (2, 2, 2), (3, 2, 2)]),
    kinds=st.lists(st.sampled_from(get_args(LevelKind)), min_size=3, max_size=3),
    bandwidths=st.lists(st.floats(1.0, 30.0), min_size=3, max_size=3),
)
def test_bounds_are_cuts_and_for_all_gather_the_best_one(
    shape: tuple[int, ...], kinds: list[LevelKind], bandwidths: list[float]
) -> None:
    levels = [Level(*level) for level in zip(kinds, shape, bandwidths, strict=False)]
    gpus = math.prod(shape)
    sets = members(gpus)
    size, out = sets.sum(axis=1), leaving_bytes_per_s(sets, levels)
    # With D = N a set must send its shards out, or one byte from each inside to each outside.
    gather_s, exchange_s = (size / out).max(), (size * (gpus - size) / out).max()
    bound = lower_bound("all_gather", levels, data_bytes=gpus)
    assert bound.bound_s == pytest.approx(gather_s, rel=1e-9)
    bound = lower_bound("all_to_all", levels, data_bytes=gpus)
    assert bound.bound_s <= exchange_s / SLACK


@pytest.mark.parametrize("fabric", get_args(Fabric))
@pytest.mark.parametrize(("x", "y"), [(8, 32), (2, 2), (1, 4), (4, 1), (16, 2)])
@pytest.mark.parametrize("hb", [1.0, 50.0, 900.0])
def test_two_switches_give_the_terms_of_the_theorem(
    x: int, y: int, hb: float, fabric: Fabric
) -> None:
    levels = [Level("switch", x, hb), Level("switch", y, 50.0)]
    general = lower_bound("all_gather", levels, data_bytes=1e9, fabric=fabric)
    theorem = all_gather_bound(1e9, x, y, hb, 50.0, fabric)
    expected = sorted(time_s for _, time_s in theorem.terms_s)
    assert sorted(time_s for _, time_s in general.terms_s) == pytest.approx(expected, rel=1e-12)
    names = {"network": "level 2", "joint": "levels 1+2", "domain": "level 1"}
    assert dict(general.terms_s) == pytest.approx(
        {names[name]: time_s for name, time_s in theorem.terms_s}, rel=1e-12
    )


def test_worked_examples_name_the_binding_term() -> None:
    # 8 x 8, C_F = 450e9, C_S = 50e9: 7/64 * 1e9 / 50e9 s in the network, 63/64 * 1e9 / 500e9 joint.
    bound = all_gather_bound(1e9, 8, 8, 450e9, 50e9)
    assert bound.binding == "network"
    assert bound.bound_s == pytest.approx(2.1875e-3, rel=1e-9)
    assert "bound by network (network 0.0021875 s, joint 0.00196875 s" in str(bound)
    # 256 x 16 at C_F/C_S = 18 misses the threshold 16*255/15 = 272: 4095/19 shards.
    wide = all_gather_bound(4096, 256, 16, 18, 1)
    assert wide.binding == "joint"
    assert wide.bound_s == pytest.approx(4095 / 19, rel=1e-12)
    # A slow domain, 16 x 2 at 1:4: (x-1)/C_F = 15 shards, on rail-only alone.
    slow = all_gather_bound(32, 16, 2, 1, 4)
    assert slow.binding == "domain"
    assert slow.bound_s == pytest.approx(15, rel=1e-12)
    # All_reduce of 200 MB on 8 x 8: 2 * 7/64 * 200e6 / 33.554432e9 = 1303.9 us.
    levels = [Level("switch", 8, 300 * 2**30), Level("switch", 8, 33554432000.0)]
    reduce = lower_bound("all_reduce", levels, data_bytes=200e6)
    assert reduce.binding == "level 2"
    assert reduce.bound_s == pytest.approx(1303.9e-6, rel=1e-4)


def test_all_to_all_on_a_torus_is_bound_by_its_bisection() -> None:
    # Ring of 8, 50 GB/s: 4*4/(2*8) * 1e9 / 50e9 = 20 ms through the middle; the links of one GPU
    # alone would take 7/8 * 1e9 / 100e9 = 8.75 ms. An odd ring of 5: 2*3/(2*5) * 1e9 / 50e9.
    ring = lower_bound("all_to_all", [Level("ring", 8, 50e9)], data_bytes=1e9)
    assert ring.binding == "bisection of level 1"
    assert dict(ring.terms_s) == pytest.approx(
        {"level 1": 8.75e-3, "bisection of level 1": 20e-3}, rel=1e-12
    )
    torus = lower_bound(
        "all_to_all", [Level("ring", 2, 50e9), Level("ring", 5, 50e9)], data_bytes=1e9
    )
    assert torus.binding == "bisection of level 2"
    assert torus.bound_s == pytest.approx(12e-3, rel=1e-12)
    assert "bisection of level 1" not in dict(torus.terms_s)


@given(
    collective=st.sampled_from(get_args(CollectiveKind)),
    schedule=st.sampled_from(get_args(Schedule)),
    chunks=st.integers(1, 64),
    data_bytes=st.floats(1, 1e12),
    data=st.data(),
)
def test_no_physical_time_is_below_its_bound(
    collective: CollectiveKind,
    schedule: Schedule,
    chunks: int,
    data_bytes: float,
    data: st.DataObject,
) -> None:
    """Between one and three levels, each with an algorithm that runs on it."""
    fitting = [name for name, one in ALGORITHMS.items() if collective in one.collectives]
    levels: list[Level] = []
    methods: list[str | None] = []
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(fitting))
        kind = data.draw(st.sampled_from(ALGORITHMS[name].level_kinds))
        size = data.draw(st.integers(1, 17))
        if name == "halving_doubling":
            size = 2 ** data.draw(st.integers(0, 5))
        levels.append(Level(kind, size, data.draw(st.floats(1e9, 1e12))))
        named = None if schedule == "flat_ring" else name
        methods.append(named)
    time_s = collective_s(
        collective,
        levels,
        data_bytes=data_bytes,
        algorithm=methods,
        chunks=chunks,
        schedule=schedule,
    )
    if collective == "reduce":  # a broadcast turned round
        collective = "broadcast"
    bound = lower_bound(collective, levels, data_bytes=data_bytes)
    assert time_s >= bound.bound_s * SLACK


@given(
    kind=st.sampled_from(get_args(LevelKind)),
    size=st.integers(1, 40),
    data_bytes=st.floats(1, 1e12),
    chunks=st.integers(1, 64),
)
def test_no_broadcast_or_message_is_below_its_bound(
    kind: LevelKind, size: int, data_bytes: float, chunks: int
) -> None:
    level = Level(kind, size, 50e9)
    bound = lower_bound("broadcast", [level], data_bytes=data_bytes)
    for algorithm in ("chain", "bidirectional_chain", "binomial_tree", "scatter_all_gather"):
        if kind in ALGORITHMS[algorithm].level_kinds:
            parts = chunks if "chain" in algorithm else 1
            time_s = collective_s(
                "broadcast", [level], data_bytes=data_bytes, algorithm=algorithm, chunks=parts
            )
            assert time_s >= bound.bound_s * SLACK
    if size > 1:
        bound = lower_bound("point_to_point", [level], data_bytes=data_bytes)
        assert bound.bound_s == pytest.approx(data_bytes / level.gpu_bytes_per_s)


@given(
    x=st.integers(1, 64),
    y=st.integers(1, 64),
    hb=st.floats(1e9, 1e12),
    network=st.floats(1e9, 1e12),
)
def test_closed_forms_of_two_tiers_keep_their_bounds(
    x: int, y: int, hb: float, network: float
) -> None:
    levels = [Level("switch", x, hb), Level("switch", y, network)]
    for fabric in get_args(Fabric):
        gather = all_gather_bound(1e9, x, y, hb, network, fabric)
        gather_s = all_gather_s(1e9, x, y, hb, network)
        assert gather_s >= gather.bound_s * SLACK
        if hb >= network:
            assert gather_s <= 2 * gather.bound_s / SLACK
        exchange = lower_bound("all_to_all", levels, data_bytes=1e6 * x * y, fabric=fabric)
        exchange_s = all_to_all_s(1e6, x, y, hb, network, fabric)
        assert exchange_s >= exchange.bound_s * SLACK


def test_one_gpu_is_bound_by_nothing() -> None:
    alone = lower_bound("all_reduce", [Level("ring", 1, 1e9)], data_bytes=1e9)
    assert alone == LowerBound((("one GPU", 0.0),))


def test_what_is_not_allowed_is_refused() -> None:
    levels = [Level("switch", 8, 450e9), Level("ring", 4, 50e9)]
    with pytest.raises(InputError, match="network of a rail-optimized fabric is a switch, got a r"):
        lower_bound("all_gather", levels, data_bytes=1.0, fabric="rail-optimized")
    with pytest.raises(InputError, match="unknown operation 'scan'"):
        lower_bound("scan", levels, data_bytes=1.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown fabric 'clos': use one of rail-only"):
        lower_bound("all_gather", levels, data_bytes=1.0, fabric="clos")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="data_bytes: got nan"):
        lower_bound("all_gather", levels, data_bytes=math.nan)
    with pytest.raises(InputError, match="unknown fabric"):
        all_gather_bound(1.0, 8, 8, 9.0, 1.0, "clos")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="hb_count: got 0, use a whole number of at least 1"):
        all_gather_bound(1.0, 8, 0, 9.0, 1.0)
    with pytest.raises(InputError, match="network_bytes_per_s: got 0"):
        all_gather_bound(1.0, 8, 8, 9.0, 0.0)

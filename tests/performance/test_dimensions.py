"""Networks of free dimensions: their sizes, what lies on them, and the fastest of all layouts."""

from itertools import permutations, product
from math import prod

import pytest

import netplan
from netplan.answers.map_answer import MapAnswer
from netplan.errors import InfeasibleError, InputError
from netplan.levels import Level
from netplan.performance.mapping.network import (
    ChipNetwork,
    dimension_sizes,
    equal_levels,
    parallel_layouts,
    read_dimensions,
)
from netplan.scenarios.reading import sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.specs import FABRICS
from netplan.traffic.hierarchy import collective_s as time_on_levels
from netplan.traffic.published_topology import Dimension, dimension_s, exchanged_s
from netplan.workloads.accelerators import ACCELERATORS

TORUS, CUBE = ("ring", "ring"), ("ring", "ring", "ring")


@pytest.mark.parametrize(
    ("kinds", "chips", "sizes"),
    [
        (TORUS, 1024, [32, 32]),
        (CUBE, 1024, [8, 8, 16]),
        (("mesh", "switch"), 128, [8, 16]),
        (("ring",), 8, [8]),
    ],
)
def test_sizes_nearest_to_equal(kinds: tuple[str, ...], chips: int, sizes: list[int]) -> None:
    levels = equal_levels(kinds, chips, 1e9)  # type: ignore[arg-type]
    assert [level.size for level in levels] == sizes
    assert tuple(level.kind for level in levels) == kinds


def test_all_sizes_are_there_once() -> None:
    # 2^10 = 2^a 2^b 2^c with a, b, c >= 1: 9 over 2.
    found = list(dimension_sizes(1024, 3))
    assert len(found) == len(set(found)) == 36
    assert all(prod(sizes) == 1024 and min(sizes) > 1 for sizes in found)


def test_a_strategy_lies_on_a_whole_dimension() -> None:
    found = list(parallel_layouts(("mesh", "ring"), 1024, 25e9, layers=128))
    expected = set()
    for sizes, strategies in product(dimension_sizes(1024, 2), permutations("tpd", 2)):
        degrees = dict.fromkeys("tpd", 1) | dict(zip(strategies, sizes, strict=True))
        if 128 % degrees["p"] == 0:
            joined = dict(zip(strategies, ("mesh", "ring"), strict=True))
            expected.add((*degrees.values(), joined.get("t", "ring")))
    assert {(one.tensor, one.pipeline, one.data, one.levels[0].kind) for one in found} == expected
    for one in found:
        assert tuple(level.size for level in one.levels) == (one.tensor, one.pipeline, one.data)
        assert one.tensor * one.pipeline * one.data == 1024


@pytest.mark.parametrize("text", ["ring-ring-ring-ring", "torus", "", "ring--ring"])
def test_dimensions_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="name one to 3 of switch, ring, mesh"):
        read_dimensions(text)


def ask(**facts: object) -> MapAnswer:
    """GPT 1T on 64 chips of the study."""
    common = {
        "model": "gpt-1t",
        "accelerator": "h100-80gb",
        "gpus": 64,
        "memory": "hbm3",
        "link": "pcie4",
        "direction": "both",
        "batch": 512,
        "compute_utilisation": 0.9,
        "mode": "published-code",
    }
    return netplan.map("rail-only-paper", **{**common, **facts})


@pytest.mark.parametrize("dimensions", ["ring-ring", "mesh-mesh", "mesh-switch", "ring-ring-ring"])
def test_the_layout_is_the_fastest_of_all(dimensions: str) -> None:
    """Kernel by kernel by hand: the slowest of computing, memory and sums over the network."""
    found = ask(dimensions=dimensions)
    kinds = read_dimensions(dimensions)
    best = 0.0
    for one in parallel_layouts(kinds, 64, 25e9, layers=128):
        if 160 % one.tensor:
            continue
        rows = ask(gpus=None, tensor=one.tensor, link="pcie4").found.kernels
        tensor, _, data = (Dimension.of(level) for level in one.levels)
        interval = 0.0
        for row in rows:
            network = dimension_s("all_reduce", row.all_reduce_bytes, tensor)
            if row.kind == "update":
                sent = dimension_s("all_reduce", 2.0 * row.m * row.n, data)
                network += sent * one.data / 512
            compute = row.flops / (0.9 * 989.4e12)
            interval += max(compute, row.edge_bytes / 3e12, network)
        fill = 1 + (one.pipeline - 1) * one.data / 512
        best = max(best, one.data / (interval * 128 / one.pipeline * fill))
    assert found.found.totals.throughput_per_s == pytest.approx(best, rel=1e-9)
    used = [found.inputs[name] for name in ("tensor", "pipeline", "data")]
    assert prod(used) == 64


def test_all_to_all_families_take_equal_sizes() -> None:
    found = ask(model="fft-1t", dimensions="mesh-mesh", direction="forward", gpus=1024, batch=None)
    network = [Dimension("mesh", 32, 25e9)] * 2
    # 8 bytes x 2^40 points / 1,024^2 a pair, twice.
    exchange = 2 * exchanged_s(8 * 2**20, network)
    assert exchange == pytest.approx(2 * 512**2 * 8 * 2**20 / (256 * 25e9))
    assert found.breakdown_s["network"] == pytest.approx(exchange)
    assert found.found.totals.interval_s == pytest.approx(sum(found.breakdown_s.values()))


def test_linpack_joins_rings_to_one() -> None:
    levels = equal_levels(read_dimensions("ring-ring-ring"), 1024, 25e9)
    assert ChipNetwork(25e9, levels, "ring-ring-ring").grid(1, 1024) == (
        Dimension("ring", 64, 25e9),
        Dimension("ring", 16, 25e9),
    )
    meshes = tuple(Level("mesh", size, 25e9) for size in (2, 4, 8))
    with pytest.raises(InputError, match="3 dimensions"):
        ChipNetwork(25e9, meshes, "mesh-mesh-mesh").grid(1, 64)


def test_free_dimensions_refuse_what_they_search() -> None:
    for facts in ({"pipeline": 8}, {"fabric": "torus-2d"}, {"gpus": None}):
        with pytest.raises(InputError, match="neither --fabric nor --pipeline"):
            ask(**{"dimensions": "ring-ring", **facts})
    with pytest.raises(InputError, match="lies on no dimensions"):
        ask(dimensions="ring-ring", gpus=13 * 17)
    with pytest.raises(InputError, match="no product of 2 dimensions"):
        ask(dimensions="ring-ring", gpus=13)


def test_power_counts_all_chips() -> None:
    data = ask(dimensions="ring-ring").to_dict()
    assert (data["chips"], data["power_w"]) == (64, 64 * 700)
    assert sum(data["breakdown_s"].values()) == pytest.approx(data["interval_s"])


@pytest.mark.parametrize("fabric", ["torus-2d", "torus-3d", "dragonfly", "rail-only"])
def test_groups_of_neighbours_take_what_their_levels_take(fabric: str) -> None:
    """Of all chips, and of those inside: no group lies between the members of another one."""
    sizing = sizing_on(ACCELERATORS.load("sn10"), gpus=1024, radix=64)
    levels = build_fabric(FABRICS.load(fabric), sizing).levels
    network = ChipNetwork(25e9, levels, fabric)
    found = network.exchange_s(1e6, 1024)
    whole = time_on_levels("all_to_all", levels, data_bytes=1024e6)
    assert found == pytest.approx(whole, rel=1e-3)  # the ring takes each of its steps' latencies
    for count in range(1, len(levels) + 1):
        inside = levels[:count]
        chips = prod(level.size for level in inside)
        summed = time_on_levels("all_reduce", inside, data_bytes=1e9)
        assert network.group_s("all_reduce", 1e9, chips) == pytest.approx(summed)


def test_free_dimensions_leave_out_degrees_without_room() -> None:
    """GPT 1T on 3,072 A100: the fastest degrees of all take twenty times the 80 GB of a chip."""
    facts = {"accelerator": "a100-80gb", "memory": None, "link": None, "gpus": 3072, "batch": 3072}
    facts |= {"dimensions": "ring-ring-ring", "sequence_tile": 32}
    found = ask(**facts)
    assert found.found.totals.memory_bytes <= 80e9
    roomy = ask(**facts, overrides={"accelerator.memory_bytes": "1e15"})
    assert roomy.found.totals.memory_bytes > 80e9
    assert roomy.found.totals.throughput_per_s > found.found.totals.throughput_per_s
    with pytest.raises(InfeasibleError, match="no room on these dimensions: 102 GB a chip"):
        ask(**facts | {"gpus": 64, "dimensions": "ring-ring", "batch": 512})

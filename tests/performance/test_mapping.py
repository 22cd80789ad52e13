"""Mapping kernels onto chips: published logs, every partition one by one, and what never hurts."""

import csv
import json
import random
from functools import partial
from itertools import pairwise, product
from math import ceil, inf, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netplan
from netplan.errors import InfeasibleError, InputError
from netplan.performance.mapping.chip import (
    MappingOptions,
    kernel_problem,
    map_graph,
    sequence_tiles,
)
from netplan.performance.mapping.fusion import best_fusion, kernel_by_kernel, lower_bound_s
from netplan.performance.mapping.network import (
    ChipGrid,
    ChipNetwork,
    equal_levels,
    parallel_layouts,
)
from netplan.performance.mapping.partitions import (
    ChipResources,
    ComputeTiles,
    FusionProblem,
    Residence,
    kernel_choices,
    partition_times,
    tile_choices,
)
from netplan.performance.mapping.system import ChipSystem, fastest_system, linpack_steps
from netplan.records import replace
from netplan.traffic.published_topology import Dimension, exchanged_s
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.graph_sharding import STATES, best_sharding
from netplan.workloads.kernel_graph import Kernel, KernelGraph
from netplan.workloads.model_graphs import divides, layer_graph, recommendation_graph
from netplan.workloads.models import MODELS, WORKLOADS

GOLDEN_FILE = Path(__file__).parents[1] / "golden" / "dataflow.csv"
GOLDEN = list(csv.DictReader(GOLDEN_FILE.read_text("utf-8").splitlines()))
NAMES = {"SM": "Softmax", "DO1": "Drop1", "DO2": "Drop2", "DO3": "Drop3"}
"""Names of the published logs, and ours."""

VENDOR = "AddPrev..V,QK..LN2,FFN0..GeLU,FFN1..Add2"
DESCRIBED = "AddPrev..V,QK..AV,Proj..GeLU,FFN1..Add2"


def printed(quantity: str, case: str = "", item: str = "") -> list[tuple[str, float, float]]:
    """Item, value and relative tolerance of the rows of a quantity."""
    rows = [row for row in GOLDEN if row["quantity"] == quantity]
    return [
        (row["item"], float(row["value"]), float(row["tolerance_rel"]))
        for row in rows
        if row["case"].startswith(case) and row["item"].startswith(item)
    ]


def test_kernels_of_a_trillion_parameters_take_what_the_published_log_says() -> None:
    found = netplan.map(
        "rail-only-paper",
        model="gpt-1t",
        accelerator="a100-80gb",
        tensor=8,
        sequence_tile=32,
        direction="both",
        execution="kernel-by-kernel",
        pipeline=64,
        data=6,
        batch=3072,
    )
    times = {row.name: row.time_s * 1e9 for row in found.found.kernels}
    rows = printed("kernel latency")
    assert len(rows) == 18
    for name, value, tolerance in rows:
        assert times[NAMES.get(name, name)] == pytest.approx(value, rel=tolerance)
    [(_, total, tolerance)] = printed("sum of latencies")
    assert sum(list(times.values())[:35]) == pytest.approx(total, rel=tolerance)
    [(_, interval, tolerance)] = printed("layer interval II", "A1")
    assert found.found.totals.interval_s * 1e9 == pytest.approx(interval, rel=tolerance)
    # 128 layers on 64 stages, 512 micro-batches of 6 replicas: the log has 57.986 for its interval.
    assert found.found.totals.throughput_per_s == pytest.approx(58.047, rel=2e-5)


@pytest.mark.parametrize(
    ("case", "asked", "batch"),
    [
        ("A3", {"tensor": 8, "sequence_tile": 32, "micro_batch": 42, "cut": VENDOR}, 0.16944),
        ("A4", {"tensor": 4, "sequence_tile": 64, "micro_batch": 60, "pipeline": 2}, 0.28448),
    ],
)
def test_partitions_of_a_dataflow_chip_take_what_the_published_log_says(
    case: str, asked: dict[str, Any], batch: float
) -> None:
    found = netplan.map("rail-only-paper", model="gpt-175b", accelerator="sn10", **asked).found
    times = [row.time_s * 1e6 for row in found.partitions]
    rows = printed("partition time without set-up", case)
    assert times == pytest.approx([value for _, value, _ in rows], rel=1e-6)
    [(_, interval, tolerance)] = printed("layer interval II", case)
    assert found.totals.interval_s * 1e9 == pytest.approx(interval, rel=tolerance)
    [(_, per_s, tolerance)] = printed("throughput", case)
    assert found.totals.throughput_per_s == pytest.approx(per_s, rel=tolerance)
    assert batch * 10 == pytest.approx(per_s, rel=1e-4)


def test_set_up_of_the_vendor_mapping() -> None:
    [(_, value, tolerance)] = printed("set-up time")
    found = netplan.map(
        "rail-only-paper",
        model="gpt-175b",
        accelerator="sn10",
        sequence_tile=32,
        micro_batch=42,
        cut=VENDOR,
    )
    assert found.found.totals.setup_s * 1e6 == pytest.approx(value, rel=tolerance)


def problem(tensor: int, tile: int, direction: str = "forward", **facts: object) -> FusionProblem:
    """The layer of GPT 175B on SN10 chips."""
    chip = ACCELERATORS.load("sn10")
    tiles = ComputeTiles.of(chip)
    assert tiles
    graph = layer_graph(MODELS.load("gpt-175b"), tensor, direction)  # type: ignore[arg-type]
    network = ChipNetwork(chip.hb_bytes_per_s)
    return FusionProblem(
        graph,
        ChipResources(tiles.tiles, chip.sram_bytes, chip.memory_bytes_per_s),
        tile_choices(graph, tiles, tile),
        graph.flops / tiles.flops_per_s,
        np.array(
            [network.group_s("all_reduce", one.all_reduce_bytes, tensor) for one in graph.kernels]
        ),
        tile,
        **facts,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("item", "tensor", "tile"), [("8x1", 8, 32), ("4x2", 4, 64)])
def test_the_best_partitions_take_the_published_optimum(item: str, tensor: int, tile: int) -> None:
    [(_, value, tolerance)] = printed("optimal layer time without set-up", item=item)
    cuts = best_fusion(problem(tensor, tile), ideals=False)
    every = best_fusion(problem(tensor, tile))
    assert (len(every.members) > 1, every.considered) == (True, 26)
    for found in (cuts, every):
        assert found.times.time_s.sum() * 1e6 == pytest.approx(value, rel=tolerance)


def test_speed_ups_of_table_vi() -> None:
    """Kernel by kernel, the vendor's mapping, the one that is described, the optimum, 4 x 2."""
    base = kernel_by_kernel(problem(8, 32, weights_in_memory_term=True)).interval_s
    [(_, value, tolerance)] = printed("layer time kernel by kernel")
    assert base * 1e6 == pytest.approx(value, rel=tolerance)
    ask = partial(
        netplan.map, "rail-only-paper", model="gpt-175b", accelerator="sn10", micro_batch=42
    )
    vendor = ask(sequence_tile=32, cut=VENDOR).found.totals.interval_s
    assert base / vendor == pytest.approx(4.05, rel=0.02)
    # 1.19 is printed; the mapping that the paper describes gives 1.171, 1.213 and 1.180 without
    # set-up, and is not the optimum of the model, which is 1.412 times the vendor's.
    ups = []
    for tile in (32, 64, 128):
        parts = [ask(sequence_tile=tile, cut=cut).found.partitions for cut in (VENDOR, DESCRIBED)]
        ups.append([sum(row.time_s for row in rows) for rows in parts])
    assert [vendor_s / described_s for vendor_s, described_s in ups] == pytest.approx(
        [1.171, 1.213, 1.180], abs=6e-4
    )
    best = best_fusion(problem(8, 32)).times.time_s.sum()
    assert ups[0][0] / best == pytest.approx(1.412, abs=6e-4)


@pytest.mark.parametrize("micro_batch", [1, 4])
def test_the_user_guide_has_six_partitions_bound_by_compute(micro_batch: int) -> None:
    """GPT 1T on 1,024 SN30 at 0.9 of the peak: 0.9 / (1 + 127 / n) of n micro-batches."""
    found = netplan.map(
        "rail-only-paper",
        model="gpt-1t",
        accelerator="sn30",
        tensor=8,
        pipeline=128,
        batch=3072,
        micro_batch=micro_batch,
        direction="both",
        compute_utilisation=0.9,
        mode="published-code",
    ).found
    assert [row.bottleneck for row in found.partitions] == ["compute"] * 6
    expected = 0.9 / (1 + 127 / (3072 / micro_batch))
    assert found.totals.utilisation == pytest.approx(expected, rel=1e-12)


def test_halves_of_a_transform_pass_nothing_on_in_pieces() -> None:
    """Each half reads and writes 8 x 2^40 / 1,024 bytes, whatever is kept on the chip."""
    asked = partial(netplan.map, "rail-only-paper", model="fft-1t", accelerator="sn30", gpus=1024)
    for found in (asked(sequence_tile=1), asked(execution="kernel-by-kernel")):
        moved = sum(row.memory_s for row in found.found.partitions)
        assert moved * found.rates.memory_bytes_per_s == pytest.approx(4 * 8 * 2**30)


def test_linpack_is_bound_by_its_broadcasts_as_in_the_published_log() -> None:
    [(_, value, tolerance)] = printed("iteration time")
    found = netplan.map("rail-only-paper", model="hpl-16k", accelerator="a100-80gb", gpus=8,
                        mode="published-code", overrides={
        "accelerator.hb_bytes_per_s": "25e9"})  # fmt: skip
    assert found.found.totals.interval_s * 1e3 == pytest.approx(value, rel=tolerance)


def test_linpack_hands_panels_on_and_takes_its_fastest_block_and_grid() -> None:
    """On 4 x 2 chips of a torus with free sizes, as all of them one by one."""
    asked = partial(
        netplan.map, "rail-only-paper", model="hpl-16k", accelerator="wse-2", memory="ddr4",
        link="pcie4", gpus=8,
    )  # fmt: skip
    fastest = asked(dimensions="ring-ring", block="fastest").found
    n, best_s = 16384, inf
    for x, block in product((1, 2, 4, 8), (2**e for e in range(8, 15))):
        y, total_s = 8 // x, 0.0
        # Half of a panel goes each way round a ring, of two chips all of it over their one link.
        broadcast = {1: 0.0, 2: 1.0, 4: 0.5, 8: 2**-1 + 2**-2}[y]
        for side in range(n, 0, -block):
            rows, columns = ceil(side / x), ceil(side / y)
            work_s = 2 * rows * block * (block + columns) / (0.9 * 7500e12)
            message_s = 2 * block * (block + columns) / 25e9 if x > 1 else 0.0
            sent_s = max(message_s, broadcast * 2 * rows * block / 25e9)
            total_s += max(work_s, 4 * rows * columns / 200e9, sent_s)
        best_s = min(best_s, total_s)
    assert fastest.totals.interval_s == pytest.approx(best_s)
    named = asked(dimensions="ring-ring", block="16384").found.totals.interval_s
    assert named > fastest.totals.interval_s
    with pytest.raises(InputError, match="--block 'best' is no number of columns"):
        asked(block="best")


@pytest.mark.parametrize(
    ("name", "rate", "interval_ns"),
    # The first is a published log; the others are sums by hand of the same form.
    [("dlrm-12t", 400e9, 23_662_451.8), ("dlrm-793b", 1555e9, None), ("dlrm-332b", 1555e9, None)],
)
def test_recommendation_models_take_what_the_published_log_says(
    name: str, rate: float, interval_ns: float | None
) -> None:
    model, chip = WORKLOADS.load(name), ACCELERATORS.load("a100-80gb")
    chip = replace(chip, memory_bytes_per_s=rate, memory_bytes=192 * 2**30)
    network = [Dimension("ring", 8, 600e9), Dimension("mesh", 16, 25e9)]
    pair = model.sent_bytes / 128 * model.batch
    # 64 x 64 pairs cross the middle, on 64 links of 25 GB/s.
    assert exchanged_s(pair, network) == pytest.approx(64 * 64 * pair / (64 * 25e9))
    found = map_graph(
        recommendation_graph(model, 128),
        chip,
        lambda kernel: exchanged_s(kernel.all_to_all_bytes, network),
        MappingOptions(execution="kernel-by-kernel"),
    ).interval_s
    if interval_ns:
        assert found * 1e9 == pytest.approx(interval_ns, rel=1e-9)
        assert 128 / found == pytest.approx(5409.4141, rel=1e-7)
    # Twice the exchange, the rows read for it, and what 3 x layers kernels of the width take.
    exchanged = 2 * (exchanged_s(pair, network) + 128 * pair / rate)
    layer = model.width**2 * 2 / rate
    assert exchanged < found < exchanged + 3 * model.layers * (layer + 1e-3)


def test_sharding_of_a_layer_sends_four_all_reduces() -> None:
    [(_, value, _)] = printed("communication objective")
    graph = layer_graph(MODELS.load("gpt-1t"), 1, "both")
    assert best_sharding(graph).volume_bytes == value


def random_graph(seed: int, most: int = 9) -> KernelGraph:
    """Up to nine kernels of any kind with any edges forward."""
    draw = random.Random(seed)  # noqa: S311 - test cases, no secrets
    count, tokens = draw.randint(2, most), draw.choice([4, 12])
    kernels = []
    for at in range(count):
        kind = draw.choice(["gemm", "gemm", "simd", "update"])
        m, k = draw.randint(1, 40), draw.randint(1, 20)
        weights = float(draw.choice([0, 10, 60, 300])) if kind == "gemm" else 0.0
        sizes = (m, tokens, k) if kind == "update" else (m, k if kind == "gemm" else 1, tokens)
        kernels.append(
            Kernel(
                f"k{at}",
                kind,  # type: ignore[arg-type]
                *sizes,
                output_bytes=float(draw.randint(1, 60)),
                weight_bytes=weights,
                all_reduce_bytes=float(draw.choice([0, 0, 50])),
                backward=at > count // 2 and seed % 3 == 0,
                whole_rows=draw.random() < 0.3,
            )
        )
    edges = [
        (f"k{a}", f"k{b}") for b in range(count) for a in range(b) if draw.random() < 2 / count
    ]
    return KernelGraph.of(kernels, edges)


def random_problem(seed: int, **changes: float) -> FusionProblem:
    """A random graph on a small chip."""
    graph, draw = random_graph(seed), random.Random(seed + 1)  # noqa: S311
    tiles = draw.choice([1, 3, 8, 30])
    facts = {
        "tiles": tiles,
        "sram": draw.choice([30.0, 150.0, 1000.0]),
        "rate": draw.choice([1.0, 20.0]),
        "link": draw.choice([2.0, 50.0]),
    } | changes
    chip = ComputeTiles(int(facts["tiles"]), 4, 2, 1.0)
    return FusionProblem(
        graph,
        ChipResources(int(facts["tiles"]), facts["sram"], facts["rate"]),
        tile_choices(graph, chip, 4),
        graph.flops / chip.flops_per_s,
        graph.column("all_reduce_bytes") / facts["link"],
        4,
        micro_batch=draw.choice([1, 5]),
    )


def alone_by_hand(kernel: Kernel, tiles: int, cycles: int, tokens: int) -> bool:
    """Whether some lanes and stages of so many tiles take no more cycles."""
    for lanes in range(1, tiles + 1):
        for stages in range(1, tiles // lanes + 1):
            rows = ceil(kernel.m / (lanes * 4))
            if kernel.kind == "simd":
                taken = rows * tokens if stages == 1 else inf
            elif kernel.kind == "gemm":
                taken = rows * ceil(tokens / (stages * 2)) * kernel.k
            else:
                taken = rows * ceil(kernel.n / (stages * 2)) * tokens
            if taken <= cycles:
                return True
    return False


def cost_by_hand(one: FusionProblem, part: tuple[int, ...]) -> float:
    """Time and set-up of a partition, from the formulas alone."""
    graph, chip = one.graph, one.chip
    assert one.choices is not None
    inside = outside = sram = 0.0
    ends = zip(graph.source.tolist(), graph.target.tolist(), graph.edge_bytes, strict=True)
    for source, target, size in ends:
        here = (source in part) + (target in part)
        if here == 1:
            outside += size
            sram += 2 * size * one.tile_share
        elif here:
            inside += size
            apart = graph.depth[target] - graph.depth[source]
            sram += size * one.tile_share * (apart + 1)
    weights = sum(graph.kernels[at].weight_bytes for at in part)
    sram += weights
    if len({graph.kernels[at].backward for at in part}) > 1:
        return inf
    if len(part) > 1 and sram > chip.sram_bytes:
        return inf
    pieces = max(1, ceil(weights / chip.sram_bytes)) if len(part) == 1 else 1
    for cycles in one.choices.cycles.tolist():
        if fewest_together(one, part, cycles) <= chip.tiles:
            compute = cycles * one.choices.seconds_per_cycle
            break
    else:
        return inf
    network = sum(float(one.network_s[at]) for at in part)
    setup = weights / (chip.bytes_per_s * one.micro_batch)
    return float(max(compute, outside * pieces / chip.bytes_per_s, network) + setup)


def fewest_together(one: FusionProblem, part: tuple[int, ...], cycles: int) -> float:
    """Tiles that kernels need together to take no more cycles each."""
    total = 0.0
    for at in part:
        enough = [
            tiles
            for tiles in range(1, one.chip.tiles + 1)
            if alone_by_hand(one.graph.kernels[at], tiles, cycles, 4)
        ]
        total += enough[0] if enough else inf
    return total


def needs_of(graph: KernelGraph) -> list[int]:
    """Kernels that each needs before it, as bits; the backward pass needs the forward one."""
    needs = [0] * graph.count
    for source, target in zip(graph.source.tolist(), graph.target.tolist(), strict=True):
        needs[target] |= 1 << source
    front = sum(1 << at for at, kernel in enumerate(graph.kernels) if not kernel.backward)
    return [
        need | front if kernel.backward else need
        for need, kernel in zip(needs, graph.kernels, strict=True)
    ]


def every_convex_partition(one: FusionProblem) -> float:
    """The least interval over all orders of all convex partitions, one by one."""
    count, needs = one.graph.count, needs_of(one.graph)
    known: dict[int, float] = {}
    costs: dict[int, float] = {}

    def least(done: int) -> float:
        if done == (1 << count) - 1:
            return 0.0
        if done not in known:
            found = inf
            free = [at for at in range(count) if not done >> at & 1]
            for chosen in range(1, 1 << len(free)):
                part = tuple(at for place, at in enumerate(free) if chosen >> place & 1)
                mask = sum(1 << at for at in part)
                if any(needs[at] & ~(done | mask) for at in part):
                    continue
                if mask not in costs:
                    costs[mask] = cost_by_hand(one, part)
                if costs[mask] < found:
                    found = min(found, costs[mask] + least(done | mask))
            known[done] = found
        return known[done]

    return least(0)


def test_no_map_undercuts_the_bound_where_weights_stay_on_the_chip() -> None:
    """The 123,412 B of weights of LeNet-5 fit 120 MB: they are loaded once, for all images."""
    ask = {"model": "examples/lenet.yaml", "accelerator": "grayskull"}
    for execution in ("fused", "kernel-by-kernel"):
        totals = netplan.map("rail-only-paper", execution=execution, **ask).found.totals
        assert totals.lower_bound_s is not None
        assert 0 < totals.lower_bound_s <= totals.interval_s


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 100), marks=pytest.mark.slow)])
def test_partitions_are_the_best_of_all_convex_ones(seeds: range) -> None:
    """Random graphs of up to nine kernels, one by one."""
    fused = 0
    for seed in seeds:
        one = random_problem(seed)
        found = best_fusion(one)
        assert found.exact
        assert found.interval_s == pytest.approx(every_convex_partition(one), rel=1e-12), seed
        assert (found.members.sum(axis=0) == 1).all()
        cuts = best_fusion(one, ideals=False)
        assert cuts.interval_s >= found.interval_s * (1 - 1e-12)
        assert found.interval_s <= kernel_by_kernel(one).interval_s * (1 + 1e-12)
        assert found.interval_s >= lower_bound_s(one) * (1 - 1e-12)
        fused += len(found.members) < one.graph.count
    assert fused > 10


def test_sharding_is_the_least_of_all() -> None:
    """60 random graphs, every combination of schemes."""
    for seed in range(60):
        graph = random_graph(seed, most=6)
        assert best_sharding(graph).volume_bytes == pytest.approx(least_volume(graph)), seed


def least_volume(graph: KernelGraph) -> float:
    """Least volume over all schemes, from the table of the module."""

    def schemes(kernel: Kernel) -> list[tuple[str, str, float]]:
        whole, columns, tokens = STATES
        if kernel.kind == "update":
            return [(whole, whole, 0.0)]
        if kernel.kind == "simd":
            kept = [whole, tokens] if kernel.whole_rows else [whole, columns, tokens]
            return [(state, state, 0.0) for state in kept]
        if not kernel.weight_bytes:
            return [(columns, columns, 0.0)]
        return [
            (whole, columns, 0.0),
            (columns, whole, kernel.output_bytes),
            (tokens, tokens, kernel.weight_bytes),
        ]

    best = inf
    for chosen in product(*(schemes(kernel) for kernel in graph.kernels)):
        total = sum(volume for _, _, volume in chosen)
        for source, target in zip(graph.source.tolist(), graph.target.tolist(), strict=True):
            gives, takes = chosen[source][1], chosen[target][0]
            if graph.kernels[target].kind != "update" and gives not in ("replicated", takes):
                total += graph.kernels[source].output_bytes
        best = min(best, total)
    return best


@settings(deadline=None, max_examples=30)
@given(
    m=st.integers(1, 5000),
    k=st.integers(1, 50),
    n=st.integers(1, 300),
    tiles=st.integers(1, 40),
    kind=st.sampled_from(["gemm", "simd", "update"]),
)
def test_choices_of_tiles_are_those_that_no_other_beats(
    m: int, k: int, n: int, tiles: int, kind: str
) -> None:
    chip = ComputeTiles(tiles, 8, 3, 1.0)
    kernel = Kernel("k", kind, m, k if kind != "simd" else 1, n)  # type: ignore[arg-type]
    found = dict(zip(*(one.tolist() for one in kernel_choices(kernel, chip, n)), strict=True))
    best: dict[int, float] = {}
    for lanes in range(1, tiles + 1):
        for stages in range(1, (1 if kind == "simd" else tiles // lanes) + 1):
            rows = ceil(m / (8 * lanes))
            along, inner = (n, k) if kind != "update" else (n, n)
            taken = rows * (n if kind == "simd" else ceil(along / (3 * stages)) * inner)
            best[lanes * stages] = min(best.get(lanes * stages, inf), taken)
    least = inf
    for number in sorted(best):
        if best[number] < least:
            least = best[number]
            assert found.pop(number) == least
    assert not found


def test_steps_of_linpack_share_tiles_as_partitions_do() -> None:
    """FACT and UPDATE of a step as a partition of two kernels: the same cycles."""
    model = replace(WORKLOADS.load("hpl-16k"), unknowns=96, block=8)
    chip = replace(ACCELERATORS.load("sn10"), tiles=7, vector_width=4, stage_height=3, clock_hz=1.0)
    tiles = ComputeTiles.of(chip)
    assert tiles
    grid = ChipGrid.published(Dimension("ring", 2, 1e12), Dimension("ring", 3, 1e12))
    found = linpack_steps(model, chip, grid)
    for at, side in enumerate(found.side.tolist()):
        rows, columns = ceil(side / 2), ceil(side / 3)
        pairs = [kernel_choices(Kernel("k", "gemm", rows, 8, n), tiles, n) for n in (8, columns)]
        least = min(
            max(first, second)
            for (a, first), (b, second) in product(*(list(zip(*one, strict=True)) for one in pairs))
            if a + b <= 7
        )
        assert found.compute_s[at] == least


def test_one_kernel_has_room_whatever_its_weights() -> None:
    """Weights of three times the SRAM: the edges are read three times."""
    graph = KernelGraph.of(
        [Kernel("a", "gemm", 4, 4, 4, 10.0, weight_bytes=290.0), Kernel("b", "simd", 4, 1, 4)],
        [("a", "b")],
    )
    chip = ComputeTiles(1, 4, 4, 1e9)
    one = FusionProblem(
        *(graph, ChipResources(1, 100.0, 1.0), tile_choices(graph, chip, 4)),
        *(np.zeros(2), np.zeros(2), 4),
    )
    times = partition_times(one, np.eye(2, dtype=bool))
    assert times.memory_s.tolist() == [30.0, 10.0]
    assert times.setup_s.tolist() == [290.0, 0.0]
    assert not partition_times(one, np.ones((1, 2), bool)).fits[0]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"cut": "AddPrev..Add1,LN2..Nothing"}, "no kernel is called 'Nothing'"),
        ({"cut": "AddPrev..Add1"}, "LN2 stands in no partition"),
        ({"cut": "LN2..Add2,AddPrev..Add1"}, "needs Add1"),
        ({"cut": "AddPrev..Add2"}, "do not run together"),
        ({"cut": "Add1..AddPrev"}, "comes before"),
        ({"tensor": 7}, "do not divide by 7 chips"),
        ({"sequence_tile": 33}, "does not divide the 2,048 tokens"),
        ({"pipeline": 97}, "has 96 layers"),
        ({"gpus": 4, "tensor": 8}, "--gpus has 4"),
        ({"fabric": "torus-3d"}, "say how many with --gpus"),
        ({"model": "dlrm-793b"}, "say how many with --gpus"),
        ({"accelerator": "gh200-96gb", "execution": "fused"}, "no sram_bytes"),
        ({"model": "fft-1t", "gpus": 1000}, "do not divide by 1,000 chips"),
        ({"model": "hpl-16k", "gpus": 8, "tensor": 3}, "does not divide --gpus 8"),
        (
            {"model": "hpl-16k", "gpus": 8, "tensor": 2, "dimensions": "ring-ring"},
            "the dimensions of the network are its sides: leave it out",
        ),
    ],
)
def test_what_cannot_be_mapped_is_refused_in_one_line(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        netplan.map("rail-only-paper", **{"model": "gpt-175b", "accelerator": "sn10", **asked})
    assert "\n" not in str(caught.value)


def test_tables_that_fit_nowhere_say_by_how_much() -> None:
    with pytest.raises(InfeasibleError, match=r"2\.34 times as much"):
        netplan.map("rail-only-paper", model="dlrm-12t", accelerator="a100-80gb", gpus=128)


def test_the_json_is_the_contract() -> None:
    found = json.loads(
        netplan.map(
            "rail-only-paper",
            model="gpt-22b",
            accelerator="sn10",
            direction="both",
            sequence_tile=128,
        ).json()
    )
    assert len(found["kernels"]) == 41
    total = sum(part["time_s"] + part["setup_s"] for part in found["partitions"])
    assert found["interval_s"] == pytest.approx(total)
    for part in found["partitions"]:
        parts = (part["compute_s"], part["memory_s"], part["network_s"])
        assert part["time_s"] == max(parts)
        assert part["binds"] == ("compute", "memory", "network")[parts.index(max(parts))]
    names = [name for part in found["partitions"] for name in part["kernels"]]
    assert sorted(names) == sorted(kernel["name"] for kernel in found["kernels"])
    flops = sum(
        (1 if kernel["kind"] == "simd" else 2) * prod(kernel[size] for size in "mkn")
        for kernel in found["kernels"]
    )
    seconds = found["time_per_sequence_s"]
    assert found["utilisation"] == pytest.approx(48 * flops / seconds / 307.2e12)


def test_layouts_and_tiles_that_are_left_out_are_none_that_would_be_taken() -> None:
    """The fastest of all layouts and sequence tiles, each of which is cut into partitions."""
    model, chip = MODELS.load("gpt-22b"), ACCELERATORS.load("sn10")
    levels = equal_levels(("mesh", "switch"), 16, chip.network_bytes_per_s)
    network = ChipNetwork(chip.network_bytes_per_s, levels, "mesh-switch")
    system = ChipSystem(chip, network, 16, microbatches=64)
    rate = chip.network_bytes_per_s
    ways = parallel_layouts(("mesh", "switch"), 16, rate, layers=model.layers)
    systems = [
        system.laid_out(way) for way in ways if divides(model, way.tensor) and way.data <= 64
    ]
    options = MappingOptions(convex=False)

    def time_s(one: ChipSystem) -> float:
        graph = layer_graph(model, one.tensor)
        sent_s = np.array([one.collectives_s(kernel) for kernel in graph.kernels])
        problems = (
            kernel_problem(graph, chip, sent_s, options, tile)
            for tile in sequence_tiles(graph, chip, options)
        )
        interval_s = min(best_fusion(each, ideals=False).interval_s for each in problems)
        return 1 / one.throughput(model.layers, interval_s).per_s

    times_s = [time_s(one) for one in systems]
    best = int(np.argmin(times_s))
    assert len(systems) > 5
    assert max(times_s) > 1.1 * min(times_s)
    for order in (systems, systems[::-1]):
        found = fastest_system(model, order, "forward", options)
        assert found is not None
        assert time_s(found) == times_s[best]
    assert fastest_system(model, systems, "forward", options) is systems[best]


def two_passes(residence: Residence | None, *, sram_bytes: float = 1e3) -> FusionProblem:
    """Two kernels forward, two backward; 4 B from each to the next, and from a to its own."""
    kernels = [
        Kernel("a", "gemm", 1, 1, 4, 4.0, 3.0),
        Kernel("b", "gemm", 1, 1, 4, 4.0, 5.0),
        Kernel("b_b", "gemm", 1, 1, 4, 4.0, 7.0, backward=True),
        Kernel("a_b", "gemm", 1, 1, 4, 4.0, 9.0, backward=True),
    ]
    graph = KernelGraph.of(kernels, [("a", "b"), ("b_b", "a_b"), ("a", "a_b")])
    chip = ChipResources(0, sram_bytes, 1.0)
    return FusionProblem(
        graph, chip, None, np.full(4, 1.0), np.zeros(4), sequence_tile=1, residence=residence
    )


def test_both_passes_on_the_chip_move_nothing_and_load_nothing() -> None:
    """24 B of weights; what crosses the passes stays whole, 4 B for each of three sequences."""
    apart = best_fusion(two_passes(None))
    # Two partitions: 4 B go out, and in again; 24 B of weights before them.
    assert len(apart.members) == 2
    assert apart.interval_s == max(2, 4) + max(2, 4) + 24
    stays = best_fusion(two_passes(Residence(layers=2, sequences=3)))
    assert len(stays.members) == 1
    assert stays.interval_s == 4
    # Each layer holds tiles of 1 B, two for an edge within a pass, and 3 x 4 B across.
    needed = 2 * (24 + 2 * 2 + 3 * 4)
    assert stays.times.sram_bytes.tolist() == [needed]
    assert best_fusion(two_passes(Residence(2, 3), sram_bytes=needed)).interval_s == 4
    assert best_fusion(two_passes(Residence(2, 3), sram_bytes=needed - 1)).interval_s == 32


def test_one_layer_that_takes_turns_with_others_loads_its_weights_again() -> None:
    """As DFModel maps it: any part of both passes shares a partition, one sequence beside it."""
    parts = Residence(parts=True)
    whole = best_fusion(two_passes(parts, sram_bytes=24 + 4 + 4))
    assert whole.interval_s == 4
    # A byte less: b and b_b stay together, or nothing does; either way 24 B are loaded.
    problem = two_passes(parts, sram_bytes=24 + 4 + 3)
    splits = [[0, 4], [0, 1, 4], [0, 2, 4], [0, 3, 4], [0, 1, 2, 4], [0, 1, 3, 4], [0, 2, 3, 4],
              [0, 1, 2, 3, 4]]  # fmt: skip
    every = []
    for split in splits:
        members = np.zeros((len(split) - 1, 4), bool)
        for row, (start, end) in zip(members, pairwise(split), strict=True):
            row[start:end] = True
        every.append(partition_times(problem, members).interval_s.sum())
    assert best_fusion(problem).interval_s == min(every)
    assert min(every) < inf


def test_a_wafer_waits_for_no_memory_when_a_layer_of_both_passes_stays() -> None:
    asked = partial(
        netplan.map, "rail-only-paper", model="gpt-1t", accelerator="wse-2", link="nvlink4",
        gpus=1024, dimensions="ring-ring", tensor=8, direction="both", batch=3072,
        sequence_tile=32, compute_utilisation=0.9,
    )  # fmt: skip
    for mode in ("published-code", "corrected"):
        slow, fast = (asked(memory=memory, mode=mode).found.totals for memory in ("ddr4", "hbm3"))
        assert (slow.utilisation == pytest.approx(fast.utilisation)) == (mode == "published-code")
    # One layer and one sequence fit, every sequence under way in a pipeline of 128 does not.
    assert asked(memory="ddr4", mode="published-code").breakdown_s["memory"] == 0
    assert asked(memory="ddr4", mode="corrected").breakdown_s["setup"] > 0


def test_work_over_bytes_of_memory_and_links_by_hand() -> None:
    """The vendor's mapping on 8 SN10: what crosses borders, weights once for 42 sequences."""
    found = netplan.map("rail-only-paper", model="gpt-175b", accelerator="sn10", tensor=8,
                        sequence_tile=32, micro_batch=42, cut=VENDOR)  # fmt: skip
    graph = layer_graph(MODELS.load("gpt-175b"), 8)
    work, weights = graph.flops.sum(), graph.column("weight_bytes").sum() / 42
    partition = np.repeat(np.arange(4), [5, 8, 2, 3])
    crossing = graph.edge_bytes[partition[graph.source] != partition[graph.target]].sum()
    moved = 2 * crossing + weights
    assert found.flops_per_byte["memory"] == pytest.approx(work / moved)
    # Two all_reduces of 2 x 12,288 x 2,048 B, of which 7/8 pass each link of the ring.
    sent = 2 * 7 / 8 * 2 * 12288 * 2048
    assert found.flops_per_byte["network"] == pytest.approx(work / sent)
    alone = netplan.map("rail-only-paper", model="gpt-175b", accelerator="sn10", tensor=1)
    assert alone.flops_per_byte["network"] is None

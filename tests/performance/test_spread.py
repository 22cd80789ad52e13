"""Models that lie on all GPUs alike: bytes and times by hand, what holds for every fabric."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.levels import Level, LevelKind
from netplan.performance.mapping.system import linpack_steps
from netplan.performance.plan import SearchResult
from netplan.performance.plan_traffic import plan_traffic
from netplan.performance.proof import time_designs
from netplan.performance.search import PlanSearch, spread_plans
from netplan.performance.setting import Fixed, Options, Training
from netplan.records import replace
from netplan.traffic.patterns import Pattern
from netplan.traffic.published_topology import Dimension
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.families import FourierModel, LinpackModel, OtherModel, RecommendationModel
from netplan.workloads.model_graphs import fourier_graph, recommendation_graph
from netplan.workloads.models import WORKLOADS
from netplan.workloads.operations import Sharding
from netplan.workloads.spread import spread_program
from tests.performance.cases import FOURD

FREE = replace(FOURD, space=replace(FOURD.space, divisibility="free"))
A100 = ACCELERATORS.load("a100-80gb")
DLRM: RecommendationModel = WORKLOADS.load("dlrm-793b")
FFT: FourierModel = WORKLOADS.load("fft-1t")
HPL: LinpackModel = WORKLOADS.load("hpl-16k")
DOMAINS = (Level("switch", 8, 300e9), Level("switch", 16, 25e9))
# 600 tables x 15 rows x 93 numbers x 2 bytes x 512 samples, and 20 layers of 3,375^2.
ROWS, WEIGHTS = 857_088_000.0, 2.0 * 20 * 3375**2


def searched(
    model: OtherModel = DLRM,
    levels: tuple[Level, ...] = DOMAINS,
    *,
    gpus: int = 128,
    memory_bytes: float = inf,
    options: Options | None = None,
) -> SearchResult:
    training = replace(Training.on(A100, model, FREE, gpus=gpus), memory_bytes=memory_bytes)
    found = PlanSearch(training, options=options or Options()).best_on_subset(levels)
    assert isinstance(found, SearchResult), found
    return found


@pytest.mark.parametrize(("pattern", "crossing"), [("ring", 1), ("direct", 1), ("hierarchical", 2)])
def test_bytes_of_the_matrix_are_those_of_the_exchange(pattern: Pattern, crossing: int) -> None:
    options = Options(fixed=Fixed(expert=128))
    found = searched(options=options)
    matrix = plan_traffic(found.settings[0], found.best, 128, pattern, ())
    # Direct: 127/128 of all rows. By levels: 7/8 of them inside domains, then 15/16 between them.
    sent = 127 / 128 if crossing == 1 else 7 / 8 + 15 / 16
    assert matrix.of_kind("expert").total_bytes == pytest.approx(2 * 128 * sent * ROWS, rel=1e-12)
    # ZeRO 1 gathers weights and scatters gradients: (127/128) of them each, on every GPU.
    assert matrix.of_kind("data").total_bytes == pytest.approx(2 * 127 * WEIGHTS, rel=1e-12)
    assert matrix.total_bytes == pytest.approx(
        sum(matrix.of_kind(kind).total_bytes for kind in ("expert", "data")), rel=1e-12
    )


def test_bytes_of_a_transform() -> None:
    options = Options(fixed=Fixed(tensor=1024))
    levels = (Level("switch", 8, 300e9), Level("switch", 128, 25e9))
    found = searched(FFT, levels, gpus=1024, options=options)
    matrix = plan_traffic(found.settings[0], found.best, 1024, "ring", ())
    # 2^40 points of 8 bytes, all but what a GPU keeps, twice; no ring carries them.
    assert matrix.total_bytes == 2 * 8 * 2**40 * 1023 / 1024
    assert matrix.of_kind("tensor").total_bytes == matrix.total_bytes


def test_an_iteration_by_hand_on_one_switch() -> None:
    one = (Level("switch", 128, 300e9),)
    best = searched(levels=one, options=Options(fixed=Fixed(expert=128))).best
    # 312 TFLOP/s x 80 %, 2.039 TB/s, links x 70 %, 20 us a kernel and direction.
    b, w, rate, memory = 512, 3375, 0.8 * 312e12, 2.039e12
    ahead = 20e-6 + b * w * (2 * w - 1) / rate
    back = 20e-6 + (b * w * (2 * w - 1) + w * w * (2 * b - 1)) / rate
    touched = 2 * (2 * b * w + w * w)  # 2-byte rows in and out, and the weights
    assert touched / memory < ahead  # computing binds in every layer
    assert 2 * touched / memory < back
    looked_up = ROWS / memory
    assert best.breakdown_s == pytest.approx(
        {
            "compute": 20 * (ahead + back) + 2 * 20e-6,
            "memory": 2 * (looked_up - 20e-6),
            "tensor_comm": 0.0,
            "data_comm": 2 * WEIGHTS * 127 / 128 / (0.7 * 300e9),
            "pipeline_comm": 0.0,
            "bubble": 0.0,
            "expert_comm": 2 * ROWS * 127 / 128 / (0.7 * 300e9),
        },
        rel=1e-12,
    )
    assert best.iteration_time_s == pytest.approx(sum(best.breakdown_s.values()), rel=1e-12)
    useful = 6 * 20 * w * w * b * 128
    assert best.mfu == pytest.approx(useful / (128 * 312e12 * best.iteration_time_s), rel=1e-12)


def test_a_transform_by_hand_on_one_switch() -> None:
    one = (Level("switch", 1024, 300e9),)
    best = searched(FFT, one, gpus=1024, options=Options(fixed=Fixed(tensor=1024))).best
    points = 2**40 / 1024
    half = 20e-6 + 5 / 2 * 40 * points / (0.8 * (A100.vector_flops_per_s or 0.0))
    moved = 2 * 8 * points / 2.039e12
    assert best.breakdown_s["compute"] == pytest.approx(2 * half, rel=1e-12)
    assert best.breakdown_s["memory"] == pytest.approx(2 * max(moved - half, 0), rel=1e-12)
    exchange = 2 * 8 * points * 1023 / 1024 / (0.7 * 300e9)
    assert best.breakdown_s["tensor_comm"] == pytest.approx(exchange, rel=1e-12)
    assert best.memory_parts_bytes["activations"] == 8 * points


def steps_of(rows: int, columns: int) -> list[tuple[int, int]]:
    """Rows and columns of a GPU in the 16 steps of HPL, on a grid."""
    sides = [16384 - 1024 * step for step in range(16)]
    return [(-(-side // rows), -(-side // columns)) for side in sides]


def test_bytes_of_a_solution() -> None:
    options = Options(fixed=Fixed(tensor=4, context=32))
    found = searched(HPL, options=options)
    assert (found.best.plan.tensor, found.best.plan.context) == (4, 32)
    matrix = plan_traffic(found.settings[0], found.best, 128, "ring", ())
    steps, word, block = steps_of(4, 32), 2, 1024
    # 32 groups of 4 get the block and its rows, 4 groups of 32 its columns, all but the root.
    down = 32 * 3 * sum(word * block * (block + columns) for _, columns in steps)
    along = 4 * 31 * sum(word * block * rows for rows, _ in steps)
    assert matrix.of_kind("tensor").total_bytes == pytest.approx(down, rel=1e-12)
    assert matrix.of_kind("context").total_bytes == pytest.approx(along, rel=1e-12)
    assert matrix.total_bytes == pytest.approx(down + along, rel=1e-12)


def test_a_solution_by_hand_on_one_switch() -> None:
    options = Options(fixed=Fixed(tensor=4, context=32))
    best = searched(HPL, (Level("switch", 128, 300e9),), options=options).best
    compute = memory = sent = 0.0
    for rows, columns in steps_of(4, 32):
        works = (
            (2 * rows * 1024 * 1024, 2 * 2 * rows * 1024),
            (2 * rows * 1024 * columns, 2 * (2 * rows * columns + 1024 * (rows + columns))),
        )
        for flops, moved in works:
            busy = 20e-6 + flops / (0.8 * 312e12)
            compute += busy
            memory += max(moved / 2.039e12 - busy, 0)
        sent += 2 * 1024 * (1024 + rows + columns)
    assert best.breakdown_s["compute"] == pytest.approx(compute, rel=1e-12)
    assert best.breakdown_s["memory"] == pytest.approx(memory, rel=1e-12)
    assert best.breakdown_s["tensor_comm"] == pytest.approx(sent / (0.7 * 300e9), rel=1e-12)
    assert best.memory_parts_bytes["activations"] == 2 * 16384**2 / 128
    useful = 2 / 3 * 16384**3 + 2 * 16384**2
    assert best.mfu == pytest.approx(useful / (128 * 312e12 * best.iteration_time_s), rel=1e-12)


def test_steps_compute_as_those_of_the_mapper() -> None:
    tiles = dict.fromkeys(("tiles", "vector_width", "stage_height", "clock_hz"))
    plain = A100.changed(**tiles, compute_utilisation=0.8)
    grid = Dimension("ring", 4, 25e9), Dimension("ring", 32, 25e9)
    steps = linpack_steps(HPL, plain, grid)
    best = searched(HPL, options=Options(fixed=Fixed(tensor=4, context=32))).best
    kernels = 2 * 16 * 20e-6
    assert best.breakdown_s["compute"] - kernels == pytest.approx(steps.compute_s.sum(), rel=1e-12)


def test_every_grid_on_every_part_is_tried() -> None:
    # 1, 2, 4 of a domain are 1 + 2 + 3 grids; both domains 3 x 2 ways to lie on the two levels.
    levels = (Level("switch", 4, 300e9), Level("switch", 2, 25e9))
    found = searched(HPL, levels, gpus=8)
    assert (found.enumerated, found.feasible) == (12, 12)
    every = PlanSearch(found.settings[0].training)
    times = [
        every.best_on_all(levels).time_s,
        *(
            PlanSearch(every.training, options=Options(fixed=Fixed(tensor=rows, context=columns)))
            .best_on_all(levels)
            .time_s
            for rows, columns in [(1, 1), (2, 1), (1, 2), (4, 1), (2, 2), (1, 4), (8, 1), (1, 8)]
        ),
    ]
    assert min(times) == found.time_s


@pytest.mark.parametrize("name", ["dlrm-793b", "dlrm-12t", "dlrm-332b"])
def test_program_and_kernel_graph_are_one_workload(name: str) -> None:
    model: RecommendationModel = WORKLOADS.load(name)
    graph = recommendation_graph(model, 128)
    program = spread_program(model, Sharding.of(model.batch, tensor=1, expert=128))
    sent = [one for one in program.collectives(stages=1, microbatches=1) if one.kind == "expert"]
    exchanged = 128 * graph.column("all_to_all_bytes").sum()
    assert sum(one.data_bytes * one.times for one in sent) == pytest.approx(exchanged, rel=1e-12)
    works = [work for one in program.layer.operations for work in (one.forward, one.backward)]
    flops = sum(float(np.sum(work.tensor_flops)) for work in works)
    assert flops == pytest.approx(graph.flops.sum(), rel=2e-3)  # exact sums have one addition less
    assert model.flops(model.batch) == pytest.approx(graph.flops.sum(), rel=1e-12)


def test_both_halves_of_a_transform_are_those_of_the_kernel_graph() -> None:
    graph, program = fourier_graph(FFT, 1024), spread_program(FFT, Sharding.of(1, tensor=1024))
    sent = program.collectives(stages=1, microbatches=1)
    assert [one.collective for one in sent] == ["all_to_all"]
    assert sent[0].data_bytes == 1024 * graph.column("all_to_all_bytes")[0]
    assert sent[0].times == 2.0
    assert FFT.flops(1) == pytest.approx(1024 * graph.flops.sum(), rel=1e-6)


def test_tables_that_do_not_fit_say_by_how_much() -> None:
    training = Training.on(A100, WORKLOADS.load("dlrm-12t"), FREE, gpus=128)
    # 100 tables x 468,750,000 rows x 256 numbers x 2 bytes / 128 GPUs are 187.5 GB.
    assert PlanSearch(training).best_on_subset(DOMAINS) == (
        "dlrm-12t fits on no plan: the nearest needs 188 GB a GPU, 108 GB more than the 80 GB"
        " there are: use more GPUs or an expanded memory."
    )
    wide = searched(WORKLOADS.load("dlrm-12t"), memory_bytes=192e9, options=Options()).best
    assert wide.memory_parts_bytes["weights"] == 187.5e9 + 2 * 7 * 490**2
    assert wide.plan.gpus == 128


def test_uneven_batches_take_the_largest_part() -> None:
    training = Training.on(A100, DLRM, FREE, batch=1000)
    plans = spread_plans(PlanSearch(training).best_on_subset(DOMAINS).settings[0], DOMAINS)  # type: ignore[union-attr]
    assert [(plan.gpus, plan.microbatch) for plan in plans][-2:] == [(64, 16), (128, 8)]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 8),
    st.integers(1, 16),
    st.sampled_from(["switch", "ring", "mesh"]),
    st.floats(1e9, 1e12),
    st.floats(1.0, 4.0),
    st.sampled_from([DLRM, FFT, HPL]),
)
def test_more_is_never_slower(
    inner: int, outer: int, kind: LevelKind, rate: float, times: float, model: OtherModel
) -> None:
    levels = (Level("switch", inner, 900e9, 0, 2e-6), Level(kind, outer, rate, 0, 5e-6))
    faster = (levels[0], replace(levels[1], link_bytes_per_s=times * rate))
    found = searched(model, levels, gpus=64)
    assert sum(found.best.breakdown_s.values()) == pytest.approx(found.time_s, rel=1e-12)
    assert searched(model, faster, gpus=64).time_s <= found.time_s * (1 + 1e-12)
    # All parts of a smaller network are parts of one with twice as many members.
    if kind == "switch" and model is not HPL:
        double = (levels[0], replace(levels[1], size=2 * outer))
        assert searched(model, double, gpus=64).time_s <= found.time_s * (1 + 1e-12)
    roomy = searched(model, levels, gpus=64, memory_bytes=1e15)
    assert roomy.time_s == found.time_s


def test_nothing_is_left_out_on_a_bound_that_exchanges_do_not_have() -> None:
    search = PlanSearch(replace(Training.on(A100, DLRM, FREE, gpus=128), memory_bytes=inf))
    rings = (DOMAINS[0], *[Level("ring", 4, 25e9)] * 2)
    designs = [(1.0, rings), (2.0, DOMAINS), (3.0, rings)]
    found, searches = time_designs(search, designs)
    assert set(found) == {DOMAINS, rings}
    assert searches.spared == searches.bounds == 0

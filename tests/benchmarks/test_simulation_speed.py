"""Speed of simulated iterations, and how it grows with GPUs, stages and microbatches.

Run with ``pytest -n 0 tests/benchmarks/test_simulation_speed.py --benchmark-only``. Plan and graph
are made before; the floor of a simulation is a heap that holds as many events.
"""

import tracemalloc
from heapq import heappop, heappush

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from netplan.questions.loads import Loads
from netplan.setup.placed_run import PlacedRun
from netplan.setup.runs import place_training
from netplan.simulation.outcome import SimulationOutcome
from netplan.simulation.palm import simulate_palm
from netplan.simulation.simulate import PLAIN, Conditions, simulate_training
from netplan.topologies.expand import expand
from netplan.topologies.graph import FabricGraph
from tests.simulation.test_palm import palm_run


def placed(gpus: int, **inputs: object) -> tuple[PlacedRun, FabricGraph]:
    """A run on rails of switches of 128 ports, 64 stages unless said otherwise."""
    given = {"gpus": gpus, "radix": 128, "fabric": "rail-only", "fixed": {"pipeline": 64}}
    asked = Loads.make("rail-only-paper", **(given | inputs))
    run = place_training(asked, asked.algorithm)
    return run, expand(run.spec, run.fabric.sizing)


def measured(
    benchmark: BenchmarkFixture, case: tuple[PlacedRun, FabricGraph], conditions: Conditions = PLAIN
) -> SimulationOutcome:
    """Simulate it, and note what it took."""
    run, graph = case

    def simulate() -> SimulationOutcome:
        return simulate_training(run.setting, run.timed, run.fabric, graph, conditions)

    tracemalloc.start()
    found = simulate()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    benchmark.extra_info.update(
        bookings=found.bookings,
        simulated=f"{found.microbatches_simulated} of {found.microbatches}",
        peak_mb=round(peak / 1e6),
    )
    again: SimulationOutcome = benchmark.pedantic(simulate, rounds=3)
    return again


@pytest.mark.parametrize("fabric", ["rail-only", "fat-tree"])
@pytest.mark.parametrize("gpus", [8192, 16384, 32768])
def test_growth_with_gpus(benchmark: BenchmarkFixture, gpus: int, fabric: str) -> None:
    """32,768 GPUs and 64 stages are to take at most 10 s and 2 GiB."""
    found = measured(benchmark, placed(gpus, fabric=fabric))
    assert found.seconds < 10
    assert benchmark.extra_info["peak_mb"] < 2048


@pytest.mark.parametrize("stages", [8, 32, 128])
def test_growth_with_stages(benchmark: BenchmarkFixture, stages: int) -> None:
    measured(benchmark, placed(8192, fixed={"pipeline": stages}))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("batch", [1024, 4096, 16384])
def test_growth_with_microbatches(benchmark: BenchmarkFixture, batch: int, full: bool) -> None:  # noqa: FBT001
    """A run that repeats itself takes no longer for more of them."""
    case = placed(8192, fixed={"pipeline": 32, "microbatch": 1, "data": 16}, batch=batch)
    measured(benchmark, case, Conditions(full=full))


@pytest.mark.parametrize("events", [100_000])
def test_floor_of_events(benchmark: BenchmarkFixture, events: int) -> None:
    """Push and pop alone."""

    def floor() -> None:
        heap: list[tuple[float, int]] = []
        for number in range(events):
            heappush(heap, (number % 97 / 97, number))
            if number > 200:
                heappop(heap)

    benchmark.pedantic(floor, rounds=3)


@pytest.mark.parametrize("full", [False, True])
def test_a_wafer_by_the_published_rules(benchmark: BenchmarkFixture, full: bool) -> None:  # noqa: FBT001
    """T-145B books 235,000 messages; the published code takes 6.9 s for them."""
    run = palm_run("t-145b", "palm-wafer", (8, 2, 20))
    graph = expand(run.spec, run.fabric.sizing)
    found: SimulationOutcome = benchmark.pedantic(
        simulate_palm, (run, graph), {"full": full}, rounds=5, warmup_rounds=1
    )
    benchmark.extra_info.update(bookings=found.bookings)
    assert found.bookings == (811_836 if full else 234_696)
    assert full or found.seconds < 0.69

"""Speed of studies, next to its floors: the store, the runner in process, two workers.

Run with ``pytest -n 0 tests/benchmarks --benchmark-only``; the extra columns hold the figures.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from netplan.reports.quantities import Scalar
from netplan.studies.points import Point, PointResult, point_sha256
from netplan.studies.run import Resources, run_points
from netplan.studies.store import Store
from netplan.studies.study import Study
from netplan.version import __version__

ROWS = 1_000_000
BATCH = 1_000
OUTPUTS: dict[str, Scalar] = {"cost_usd": 1.5e9, "iteration_s": 12.25, "fabric": "rail-only"}


@dataclass(frozen=True)
class Sums:
    """Points of a known cost: sums of ``terms`` squares; 37,000 take about 1 ms."""

    point_count: int
    terms: int
    name: str = "sums"
    input_sha256: str = "a1b2"
    definition: str = "{}"

    def sha256_of(self, _: str) -> str:
        return self.input_sha256

    def points(self, indices: Sequence[int]) -> list[Point]:
        return [Point(index, {"x": index, "y": 2.5}) for index in indices]

    def evaluate(self, point: Point) -> dict[str, Scalar]:
        return {"sum": sum(i * i for i in range(self.terms)), "x": point.index}


def test_store_writes(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """A million rows in transactions of a thousand; floor: the same rows, ready, by sqlite3."""
    work = Sums(ROWS, 0)
    sha256 = point_sha256("a1b2", {"x": 1})
    outcomes = [PointResult(index, OUTPUTS, None, 0.003, sha256) for index in range(ROWS)]

    def write() -> None:
        for batch in range(0, ROWS, BATCH):
            store.record(outcomes[batch : batch + BATCH])

    with Store.begin(tmp_path / "store.sqlite", work, __version__) as store:
        benchmark.pedantic(write, rounds=1)
        start = perf_counter()
        assert store.counts() == (ROWS, 0)
        counted = perf_counter()
        assert len(store.missing()) == 0
        benchmark.extra_info["counts_s"] = round(counted - start, 3)
        benchmark.extra_info["missing_s"] = round(perf_counter() - counted, 3)
    assert benchmark.stats
    floor_s = raw_inserts_s(tmp_path / "raw.sqlite", sha256)
    seconds = benchmark.stats.stats.min
    benchmark.extra_info |= {"floor_s": round(floor_s, 2), "times_floor": seconds / floor_s}


def raw_inserts_s(path: Path, sha256: str) -> float:
    text, blob = json.dumps(OUTPUTS, separators=(",", ":")), bytes.fromhex(sha256)
    rows = [(index, blob, __version__, 0.003, text, None) for index in range(ROWS)]
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE raw (a INTEGER PRIMARY KEY, b, c, d, e, f)")
    start = perf_counter()
    for batch in range(0, ROWS, BATCH):
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO raw VALUES (?, ?, ?, ?, ?, ?)", rows[batch : batch + BATCH]
        )
        connection.execute("COMMIT")
    seconds = perf_counter() - start
    connection.close()
    return seconds


def test_overhead_in_process(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """What the runner adds to each point: hash, marks, store; floor: the bare evaluations."""
    work = Sums(100_000, 1)
    with Store.begin(tmp_path / "store.sqlite", work, __version__) as store:
        benchmark.pedantic(run_points, (work, store), rounds=1)
    start = perf_counter()
    for point in work.points(range(work.point_count)):
        work.evaluate(point)
    floor_s = perf_counter() - start
    assert benchmark.stats
    overhead_s = (benchmark.stats.stats.min - floor_s) / work.point_count
    benchmark.extra_info["overhead_us_a_point"] = round(1e6 * overhead_s, 1)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers(benchmark: BenchmarkFixture, tmp_path: Path, workers: int) -> None:
    """5,000 points of about 1 ms on one worker and on two, from their start to their end."""
    work = Sums(5_000, 37_000)
    with Store.begin(tmp_path / "store.sqlite", work, __version__) as store:
        benchmark.pedantic(run_points, (work, store, Resources(workers)), rounds=1)
        evaluations_s = sum(outcome.seconds for outcome in store.outcomes())
    assert benchmark.stats
    benchmark.extra_info["evaluations_s"] = round(evaluations_s, 2)
    benchmark.extra_info["times_one_process"] = evaluations_s / benchmark.stats.stats.min


def test_dataflow_design_space(benchmark: BenchmarkFixture) -> None:
    """80 systems x 4 workloads, each point mapped: below a minute on one core."""
    made = Study.load("dataflow-design-space")
    points = made.points(range(made.point_count))

    def every() -> int:
        return sum(made.evaluate(point)["status"] == "ok" for point in points)

    assert benchmark.pedantic(every, rounds=1, iterations=1) == 320

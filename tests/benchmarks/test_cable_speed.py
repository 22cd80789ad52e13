"""Speed of cable plans; run with ``pytest -n 0 tests/benchmarks --benchmark-only``."""

from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from netplan.questions.cable_comparison import compare_cables, read_cables
from netplan.questions.cables import Cables, sheet_csv, sheet_xlsx
from netplan.topologies.cabling.as_built import Cable, cabling_differences
from netplan.topologies.cabling.cable_plan import PlanSheet
from tests.topologies.cabling.cable_faults import inject
from tests.topologies.cabling.described_hall import (
    Describe,
    described,
    managed,
    nameless,
    unmanaged,
)

CABLES = 3 * 32_768


def large(switch: str | None = None) -> PlanSheet:
    question = Cables.make(
        "rail-only-paper", gpus=32_768, radix=64, hb_size=8, fabric="rail-optimized", switch=switch
    )
    return question.table()()


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cables") / "plan.csv"
    path.write_text("".join(sheet_csv(large())), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def planned(plan: Path) -> list[Cable]:
    return list(read_cables(plan))


def test_plan_of_32768_gpus_as_csv(benchmark: BenchmarkFixture) -> None:
    assert benchmark(lambda: sum(1 for _ in sheet_csv(large()))) == CABLES + 1


def test_plan_of_32768_gpus_with_ports_by_cage(benchmark: BenchmarkFixture) -> None:
    assert benchmark(lambda: sum(1 for _ in sheet_csv(large("qm9700")))) == CABLES + 1


def test_the_floor_joining_the_same_text(benchmark: BenchmarkFixture) -> None:
    # What Python alone needs to join and encode as many rows of as many cells.
    row = ("rail-0/leaf-0:1", "gpu-17", "1", "", "", "rail-0/leaf-0", "1", *("",) * 7)
    rows = [row] * CABLES
    assert benchmark(lambda: sum(len((",".join(cells) + "\n").encode()) for cells in rows))


def test_plan_of_32768_gpus_as_xlsx(benchmark: BenchmarkFixture) -> None:
    assert benchmark(lambda: len(sheet_xlsx(large()))) > 1_000_000


def test_read_back(benchmark: BenchmarkFixture, plan: Path) -> None:
    assert len(benchmark(read_cables, plan)) == CABLES


def test_ports_by_cage_against_ports_by_number(
    benchmark: BenchmarkFixture, tmp_path: Path, plan: Path
) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("".join(sheet_csv(large("qm9700"))), encoding="utf-8")
    assert benchmark(lambda: compare_cables(path, plan, switch="qm9700").differences) == ()


@pytest.mark.parametrize("describe", [managed, unmanaged, nameless])
def test_a_hall_of_32768_gpus_whatever_its_names(
    benchmark: BenchmarkFixture, tmp_path: Path, plan: Path, describe: Describe
) -> None:
    question = Cables.make(
        "rail-only-paper", gpus=32_768, radix=64, hb_size=8, fabric="rail-optimized", host_gpus=8
    )
    hosts = tmp_path / "hosts.csv"
    hosts.write_text("".join(sheet_csv(question.table()())), encoding="utf-8")
    hall = tmp_path / "hall.txt"
    hall.write_text(described(read_cables(hosts), describe), encoding="utf-8")
    found = benchmark.pedantic(compare_cables, (plan, hall), rounds=1)
    assert found.differences == ()


def test_twenty_faults_in_a_hundred_thousand_cables(
    benchmark: BenchmarkFixture, planned: list[Cable]
) -> None:
    built, faults = inject(planned, 20, np.random.default_rng(1))
    found = benchmark(cabling_differences, planned, built)
    assert sorted((d.kind, d.planned, d.built) for d in found) == sorted(faults)
    assert cabling_differences(planned, planned) == []

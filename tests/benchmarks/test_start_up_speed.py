"""Processor time of whole processes beside a bare import of libraries; a search in a warm one.

Both are run in turn, so that they see the same machine. Run with ``python -m pytest -n 0
tests/benchmarks --benchmark-only``; the extra columns are the times and their ratio.
"""

import os
import resource
import subprocess
import sys
import time
from statistics import median

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import netplan
from netplan.performance.search import _search
from netplan.performance.shortlist import shortlist

LIBRARIES = "import numpy, click, rich.table, msgspec, yaml"
"""Libraries that a comparison stands on, and the tables of rich: a floor that stays as it is."""

ROUNDS = 15
AIM_RATIO, AIM_WARM_S = 1.5, 0.02
COMPARISON = ("compare", "--gpus", "32768", "--radix", "128")

# Modules are compiled once, as they are where netplan is installed.
ENVIRONMENT = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
ENVIRONMENT.pop("PYTHONDONTWRITEBYTECODE", None)


def processor_s(*arguments: str) -> float:
    """Processor time of Python in a process of its own [s]."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize(
    ("arguments", "floor", "aim"),
    [
        pytest.param(COMPARISON, LIBRARIES, AIM_RATIO, id="compare 32768"),
        pytest.param(
            ("compare", "rail-only-paper", "--gpus", "1048576", "--radix", "128"),
            LIBRARIES,
            None,
            id="compare rail-only-paper 1048576",
        ),
        pytest.param(("--help",), "import click", None, id="help"),
    ],
)
def test_whole_process(
    benchmark: BenchmarkFixture, arguments: tuple[str, ...], floor: str, aim: float | None
) -> None:
    own_s: list[float] = []
    floor_s: list[float] = []

    def libraries() -> None:
        floor_s.append(processor_s("-c", floor))

    def command() -> None:
        own_s.append(processor_s("-m", "netplan", *arguments))

    benchmark.pedantic(command, setup=libraries, rounds=ROUNDS, warmup_rounds=1)
    ratio = median(own / least for own, least in zip(own_s, floor_s, strict=True))
    benchmark.extra_info |= {
        "processor_s": median(own_s),
        "floor_processor_s": median(floor_s),
        "ratio": round(ratio, 2),
        "peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
    }
    assert aim is None or ratio <= aim


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("scenario", ["hgx-b200", "hgx-h100", "nvl72-gb200"])
def test_a_search_in_a_warm_process(benchmark: BenchmarkFixture, scenario: str) -> None:
    """Files are read, and nothing was searched."""
    netplan.search(scenario, gpus=16_384)

    def forget() -> None:
        _search.cache_clear()
        shortlist.cache_clear()

    benchmark.pedantic(
        netplan.search, (scenario,), {"gpus": 16_384}, setup=forget, rounds=50, warmup_rounds=2
    )
    assert benchmark.stats
    assert benchmark.stats.stats.median < AIM_WARM_S

"""Whole-process times of the command line, next to a bare import of libraries.

Run with: python -m pytest -n 0 tests/benchmarks --benchmark-only
"""

import resource
import subprocess
import sys

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

# The libraries that a comparison stood on before msgspec: a floor that stays as it is. It may take
# one and a half times as long.
FLOOR = "import numpy, click, rich.table, pydantic, yaml"
ROUNDS = 15


def run(*arguments: str) -> None:
    """Run Python in a process of its own."""
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("-c", FLOOR), id="floor: bare import"),
        pytest.param(
            ("-m", "netplan", "compare", "rail-only-paper", "--gpus", "32768", "--radix", "128"),
            id="compare 32768",
        ),
        pytest.param(
            ("-m", "netplan", "compare", "rail-only-paper", "--gpus", "1048576", "--radix", "128"),
            id="compare 1048576",
        ),
        pytest.param(("-c", "import click"), id="floor: import click"),
        pytest.param(("-m", "netplan", "--help"), id="help"),
    ],
)
def test_whole_process(benchmark: BenchmarkFixture, arguments: tuple[str, ...]) -> None:
    benchmark.pedantic(run, args=arguments, rounds=ROUNDS, warmup_rounds=2)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    benchmark.extra_info["peak_mib_of_all_children"] = peak / 1024

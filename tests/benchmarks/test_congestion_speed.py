"""Speed of flows that share links: rates, classes, draws of paths, an iteration, a file.

Run with ``pytest -n 0 tests/benchmarks/test_congestion_speed.py --benchmark-only``. Times are those
of the processor; extra columns have flows a second and the peak memory of whole processes.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from docs.generators.speed import PROBE
from netplan import Scenario
from netplan.simulation.congestion import pattern_flows
from netplan.simulation.fair_rates import FlowLinks, max_min_rates
from netplan.simulation.flow_classes import flow_classes
from netplan.simulation.fluid import message_times_s
from netplan.traffic.flow_paths import PathRouter
from tests.benchmarks.test_start_up_speed import ENVIRONMENT
from tests.simulation.test_fair_rates import permutation

pytestmark = pytest.mark.benchmark(timer=time.process_time)

MILLION = 1_000_000
GPUS = 131_072


@pytest.mark.parametrize(("leaves", "connections"), [(256, 1), (2048, 1), (256, 8), (2048, 8)])
def test_rates_of_a_hashed_permutation(
    benchmark: BenchmarkFixture, leaves: int, connections: int
) -> None:
    """64 hosts a leaf, every spine by chance; 131,072 flows are to take 0.13 s at most."""
    capacity, flows = permutation(leaves, 64, connections, 0)
    rates = benchmark.pedantic(max_min_rates, (capacity, flows), rounds=5)
    assert benchmark.stats
    least_s = benchmark.stats.stats.min
    benchmark.extra_info |= {
        "flows": flows.flows,
        "million_flows_a_s": round(flows.flows / least_s / MILLION, 2),
        "slowdown": 1 / (connections * float(rates.min())),
    }
    assert (flows.flows != GPUS) or connections > 1 or flows.flows / least_s >= MILLION


@pytest.mark.parametrize("fabric", ["rail-optimized", "fat-tree"])
def test_classes_of_a_ring_in_each_rail(benchmark: BenchmarkFixture, fabric: str) -> None:
    """Every pair of 131,072 GPUs as a flow, sprayed: 0.3 s at most."""
    scenario = Scenario.load("hgx-h100").replace(gpus=GPUS, radix=128)
    graph = scenario.fabric(fabric).graph()
    rates = np.tile(graph.bytes_per_s, 2)
    ring = pattern_flows("ring", graph.gpus, graph.hb_size)
    paths = PathRouter(graph, "ecmp").paths(ring.source, ring.target, rates)
    begins = np.searchsorted(paths.flow, np.arange(len(ring.source) + 1))
    rows = FlowLinks(begins, paths.code, paths.share)
    classes = benchmark.pedantic(flow_classes, (rows, [rates]), rounds=5)
    benchmark.extra_info |= {
        "flows": rows.flows,
        "flow_classes": len(classes.flows),
        "link_classes": len(classes.links),
    }
    assert benchmark.stats
    assert benchmark.stats.stats.min <= 0.3


HASHED = f"--gpus {GPUS} --radix 128 --traffic permutation --routing hashed --draws 20"


@pytest.mark.parametrize(
    ("command", "most_s", "most_mib"),
    [
        pytest.param(f"congestion hgx-h100 --fabric fat-tree {HASHED}", 4, 400, id="20 seeds"),
        pytest.param(f"congestion hgx-h100 --fabric rail-optimized {HASHED}", 4, 400, id="rails"),
        pytest.param(
            f"congestion hgx-h100 --gpus {GPUS} --radix 128 --traffic ring --routing spray"
            " --collectives steps",
            None,
            None,
            id="sprayed ring",
        ),
        pytest.param(
            "congestion hgx-h100 --gpus 32768 --routing spray", 3, None, id="iteration of 32768"
        ),
        pytest.param(
            "simulate hgx-h100 --gpus 32768 --sharing fluid", 3, None, id="simulate 32768"
        ),
        pytest.param(
            "simulate rail-only-paper --gpus 32768 --radix 128 --fabric fat-tree --fix pipeline=64"
            " --batch 288 --sharing fluid",
            None,
            None,
            id="64 stages",
        ),
    ],
)
def test_whole_process(
    benchmark: BenchmarkFixture,
    tmp_path: Path,
    command: str,
    most_s: float | None,
    most_mib: float | None,
) -> None:
    """Processor time and most memory of a command, the start of Python included."""
    taken_s, memory_mib, facts = [], [], tmp_path / "status"

    def run() -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", PROBE, str(facts), *command.split(), "--format", "json"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        taken_s.append(usage.ru_utime + usage.ru_stime)
        peak = next(line for line in facts.read_text().splitlines() if "VmHWM" in line)
        memory_mib.append(int(peak.split()[1]) / 1024)

    benchmark.pedantic(run, rounds=3)
    benchmark.extra_info |= {
        "processor_s": round(min(taken_s), 2),
        "peak_mib": round(max(memory_mib)),
    }
    assert most_s is None or min(taken_s) <= most_s
    assert most_mib is None or max(memory_mib) <= most_mib


def test_messages_of_a_file(benchmark: BenchmarkFixture) -> None:
    """5,000 messages of 64 hosts, 140 a case, of few sizes and random starts.

    As many and as mixed as those that packets were compared with.
    """
    rng = np.random.default_rng(0)
    cases = []
    for _ in range(36):
        source = rng.integers(0, 64, 140)
        target = (source + rng.integers(1, 64, 140)) % 64
        columns = {
            "source": source,
            "target": target,
            "spine": rng.integers(0, 8, 140),
            "bytes": rng.choice([1e6, 4e6, 2e7], 140),
            "start_us": np.round(rng.uniform(0, 2e4, 140)),
        }
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        cases.append([dict(zip(columns, row, strict=True)) for row in rows])

    def deliver() -> None:
        for rows in cases:
            message_times_s(rows, leaves=8, hosts_a_leaf=8, spines=8, host_gbps=10, uplink_gbps=10)

    benchmark.pedantic(deliver, rounds=3)
    benchmark.extra_info["messages"] = sum(map(len, cases))

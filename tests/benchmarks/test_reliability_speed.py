"""Speed of the outage simulation: 50,000 years of all parts of 32,768 GPUs, on one core.

The parts are those of the failure book of 2026 in a rail-optimized network: about 340,000, with
7,100 failures a year, of which 5,500 interrupt a job on all GPUs, which waits for their repair.
Aims: a minute and 1 GiB.

Run with ``pytest -n 0 tests/benchmarks --benchmark-only``; the extra columns are failures a second
and the largest memory of the process so far.
"""

import resource

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from netplan.faults.years.checkpoints import CheckpointTimes
from netplan.faults.years.forecast import causes_of
from netplan.faults.years.outages import Exposure, Outages, simulate_outages
from netplan.faults.years.rates import FAILURE_BOOKS, unit_counts
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS

YEARS = 50_000
AIM_S = 60.0
AIM_MIB = 1024
JOB = CheckpointTimes(0.15, 10 / 3600, 10 / 60)
SERVER_KINDS = ("gpu", "memory", "nic", "server", "maintenance")


def exposure(spares: int | None) -> Exposure:
    """Everything that fails; server parts are replaced from a pool, if it has a size."""
    sizing = Sizing(32_768, 64, 8, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
    units = unit_counts(build_fabric(FABRICS.load("rail-optimized"), sizing))
    pools = None if spares is None else dict.fromkeys(SERVER_KINDS, "servers")
    causes = causes_of(FAILURE_BOOKS.load("2026"), units, pools=pools)
    return Exposure(causes, {} if spares is None else {"servers": spares})


def years_of(shown: Exposure) -> Outages:
    """The years, from the same seed each time."""
    return simulate_outages(shown, JOB, years=YEARS, rng=np.random.default_rng(1))


@pytest.mark.benchmark(min_rounds=1, max_time=1.0)
@pytest.mark.parametrize("spares", [None, 4], ids=["spares-at-hand", "four-spare-servers"])
def test_years_of_a_large_cluster(benchmark: BenchmarkFixture, spares: int | None) -> None:
    found = benchmark(years_of, exposure(spares))
    assert benchmark.stats
    seconds = benchmark.stats.stats.min
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    benchmark.extra_info |= {
        "failures_per_s": round(found.failures.sum() / seconds),
        "mib": round(mib),
    }
    assert found.years == YEARS
    assert found.interruptions_a_year.relative < 1e-3
    assert seconds < AIM_S
    assert mib < AIM_MIB

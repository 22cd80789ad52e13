"""Jobs over several sites: what is published of them, against delays, exchanges and fibre here.

Of the papers and posts only abstracts and digests were read, and none prints the inputs that its
figure hangs on. So a row computes what netplan says under inputs of ours, which its reason names;
where that shows no more than that the figure can be so, its grade is ``source``.
"""

from collections.abc import Iterator

import numpy as np

from netplan.costing.long_haul import LONG_HAUL_BOOK, LONG_HAUL_BOOKS, long_haul
from netplan.costing.prices import PRICE_BOOKS
from netplan.performance.sites import exchange_s, one_way_s, pipeline_s
from netplan.performance.spread import Haul
from netplan.published.checks import Check, claim
from netplan.topologies.sites import Pair, Sites, deal_gpus

MILE_KM = 1.609344
"""A statute mile [km]."""


def several_sites_checks() -> Iterator[Check]:
    """What is published of jobs over several sites.

    Yields
    ------
    Check
        A row a figure.
    """
    # What holding two microbatches more gains where a border delays by 0.506 of a microbatch.
    run = 2, 4096, 1 / 3, 2 / 3, [0], 0.506
    plain_s, hidden_s = pipeline_s(*run), pipeline_s(*run, ahead=2)
    less = 100 * (1 - hidden_s / plain_s)
    yield claim("pipeline over sites at equal memory: time less, %", f"{less:.1f}", met=less > 0)
    # Time that bubbles of 78.91 % less save, from those of plain 1F1B in 8 stages.
    stages, microbatches = 8, 64
    time_s = pipeline_s(stages, microbatches, 1 / 3, 2 / 3, [3], 0.018)
    bubble = 1 - microbatches / time_s
    saved = 100 * (1 - (1 - bubble) / (1 - (1 - 0.7891) * bubble))
    yield claim("iteration less by bubbles of 78.91 % less, %", f"{saved:.1f}", met=saved > 0)
    yield _two_sites()
    yield _bytes_in_flight()
    # Ports, chassis and GPUs behind 16 Pb/s between two regions.
    book, prices = LONG_HAUL_BOOKS.load(LONG_HAUL_BOOK), PRICE_BOOKS.load("2026")
    lit = long_haul([Pair(0, 1, 0.0, 4.5, 16e15 / 8)], book, prices, 1.0)
    start = "16 Pb/s between regions"
    yield claim(f"{start}: ports of 800G a region", f"{lit.ports // 2:,}")
    yield claim(f"{start}: chassis of 432 ports a region", f"{lit.chassis // 2:,}")
    yield claim(f"{start}: GPUs of 800G behind them at 4.5:1", f"{4.5 * lit.ports / 2:,.0f}")
    trip_ms = 2e3 * float(one_way_s(700 * MILE_KM))
    yield claim("round trip over 700 miles, ms", f"{trip_ms:.2f}")


def _two_sites() -> Check:
    """Efficiency of two sites of 1,536 GPUs at 64:1 over 1,000 km, of an iteration of 5.7 s."""
    rate = 1536 * 50e9 / 64
    inside_s, iteration_s = 0.4, 5.7
    time_s = exchange_s(
        340e9 * 2,
        sites=2,
        egress_bytes_per_s=rate,
        delay_s=one_way_s(1000.0),
        inside_s=inside_s,
        chunks=8,
    )
    efficiency = 100 / (1 + (float(np.asarray(time_s)) - inside_s) / iteration_s)
    met = efficiency >= 95.5  # noqa: PLR2004 - 96 as it is rounded
    return claim("340B over two sites: scaling efficiency, %", f"{efficiency:.0f}", met=met)


def _bytes_in_flight() -> Check:
    """Exchange over 10 km where queue pairs have twice the bytes in flight."""
    sites = Sites.laid_out(deal_gpus(128, 2, 8), "mesh", km=10.0, ratio=1.0, gpu_rate=50e9)
    few, more = (
        Haul(in_flight_bytes=size).limited(sites).egress_bytes_per_s[0] for size in (1e6, 2e6)
    )
    way_s = float(one_way_s(10.0))
    slow_s, fast_s = (8e9 / rate + 2 * way_s for rate in (few, more))
    faster = slow_s / fast_s
    name = "all_reduce at 10 km with twice the bytes in flight: times as fast"
    return claim(name, f"{faster:.2f}", met=faster > 1, gap=faster / 1.9 - 1)

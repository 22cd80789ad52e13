"""What Figures 9 to 11 of the rail-only paper state, and what any source of iteration times gives.

``netplan verify`` takes the times from the plan search, a study's report from its own rows. Values
are those of Wang et al., arXiv:2307.12169, sections 6.2 to 6.4.

The paper does not state the peak rate, latency, bytes per parameter or memory limit behind these
figures, and no set of them meets all points. So ``verify`` lists the numbers as known not to
reproduce, under one plausible set: H100 (989 TFLOP/s, 80 GB), NVLink 900 GB/s (both directions
added, as in the rest of the paper), network 50 GB/s, latency 1 us, 16 bytes a parameter. What holds
under every set tried is checked.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from statistics import mean

from msgspec import Struct

from netplan.levels import Level
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.search import search_plans
from netplan.performance.setting import Training
from netplan.published.checks import Check, known, stated
from netplan.units import PERCENT, bytes_per_s
from netplan.workloads.models import MODELS

CLUSTERS = (16_384, 32_768, 65_536)
CLUSTER = 32_768
BATCH = {"gpt-1t": 4096, "gpt-146b": 1024}
HB_GBPS, NETWORK_GBPS = 7200.0, 400.0


class Case(Struct, frozen=True):
    """One training run of the figures; rates in Gb/s, HB both directions added."""

    model: str = "gpt-1t"
    gpus: int = CLUSTER
    domain: int = 256
    batch: int = BATCH["gpt-1t"]
    hb_gbps: float = HB_GBPS
    network_gbps: float = NETWORK_GBPS


class Figure(Struct, frozen=True):
    """One printed number and the one that the times give [%]."""

    name: str
    published: float
    got: float


Times = Callable[[Case], float]
"""Iteration time of the best plan of a case [s]; raises KeyError where it is not known."""


def figure_9(time_s: Times) -> Iterator[Figure]:
    """Iteration time over the HB domain size: mean gains over three clusters.

    Examples
    --------
    With times that fall to one half at 8 GPUs and stay, the first gain is 50 %.

    >>> figures = list(figure_9(lambda case: 2.0 if case.domain == 1 else 1.0))
    >>> figures[0].name, figures[0].got, figures[1].got
    ('gpt-1t: gain from K = 1 to 8, %', 50.0, 0.0)
    """
    printed = {"gpt-1t": (36.5, 16.3, 1.3), "gpt-146b": (50.6, 39.1, 8.9)}
    for model, (first, second, ideal) in printed.items():

        def time(gpus: int, domain: int, model: str = model) -> float:
            return time_s(Case(model, gpus, domain, BATCH[model]))

        for small, large, theirs in ((1, 8, first), (8, 256, second)):
            gain = mean(1 - time(gpus, large) / time(gpus, small) for gpus in CLUSTERS)
            yield Figure(f"{model}: gain from K = {small} to {large}, %", theirs, PERCENT * gain)
        behind = mean(time(gpus, 256) / time(gpus, gpus) - 1 for gpus in CLUSTERS)
        yield Figure(f"{model}: K = 256 behind ideal, %", ideal, PERCENT * behind)


def figure_10(time_s: Times) -> Iterator[Figure]:
    """Mean improvement from the lowest to the highest bandwidth of one kind, gpt-1t."""
    hb_rates, network_rates = (2400.0, 4800.0, 7200.0, 9600.0), (100.0, 200.0, 400.0)
    printed = {8: (8.0, 35.9), 256: (13.3, 8.0)}
    for domain, (hb, network) in printed.items():

        def time(hb_gbps: float, network_gbps: float, domain: int = domain) -> float:
            return time_s(Case(domain=domain, hb_gbps=hb_gbps, network_gbps=network_gbps))

        gain = mean(time(2400.0, rate) / time(9600.0, rate) for rate in network_rates) - 1
        yield Figure(f"4 x HB bandwidth, K = {domain}, %", hb, PERCENT * gain)
        gain = mean(time(rate, 100.0) / time(rate, 400.0) for rate in hb_rates) - 1
        yield Figure(f"4 x network bandwidth, K = {domain}, %", network, PERCENT * gain)


def figure_11(time_s: Times) -> Iterator[Figure]:
    """Speed relative to the ideal over the batch, gpt-1t."""
    printed = {(256, 256): 93, (256, 4096): 99, (8, 256): 58, (8, 4096): 82}
    for (domain, batch), theirs in printed.items():
        ideal, own = (time_s(Case(domain=size, batch=batch)) for size in (CLUSTER, domain))
        name = f"K = {domain}, batch {batch}: of ideal, %"
        yield Figure(name, float(theirs), PERCENT * ideal / own)


PAPER = "arXiv:2307.12169"
FLOPS_PER_S = 989e12
MEMORY_BYTES = 80e9
LATENCY_S = 1e-6
WHY = "the paper leaves peak rate, latency, bytes a parameter and memory limit open"


def rail_only_figure_checks() -> Iterator[Check]:
    """All checks, in the order of the figures."""
    gains = list(figure_9(_time_s))
    for figure in gains:
        yield _gap(figure, "Fig. 9")
    large, small = ([figure.got for figure in gains[at : at + 3]] for at in (0, 3))
    first = all(model[0] > model[1] for model in (large, small))
    bound = all(ours > theirs for ours, theirs in zip(small, large, strict=True))
    yield from stated([("K = 1 to 8 gains more than 8 to 256", str(first))])
    yield from stated([("gpt-146b depends more on the network", str(bound))])
    for figure in figure_10(_time_s):
        yield _gap(figure, "Fig. 10")
    speeds = list(figure_11(_time_s))
    for figure in speeds:
        yield _gap(figure, "Fig. 11")
    # Small and large batch of each domain, one after the other.
    grows = all(few.got < many.got for few, many in zip(speeds[::2], speeds[1::2], strict=True))
    yield from stated([("a larger batch comes closer to the ideal", str(grows))])


@lru_cache(maxsize=256)
def _time_s(case: Case) -> float:
    """Iteration time of the best plan [s]."""
    training = Training(
        MODELS.load(case.model),
        case.batch,
        FLOPS_PER_S,
        MEMORY_BYTES,
        ITERATION_MODELS.load("ptd-p"),
    )
    rates = (bytes_per_s(case.hb_gbps), bytes_per_s(case.network_gbps))
    sizes = (case.domain, case.gpus // case.domain)
    levels = tuple(
        Level("switch", size, rate, step_latency_s=LATENCY_S)
        for size, rate in zip(sizes, rates, strict=True)
    )
    return search_plans(training, levels).time_s


def _gap(figure: Figure, where: str) -> Check:
    got = f"{figure.got:.1f} ({figure.got - figure.published:+.1f})"
    return known(figure.name, f"{PAPER}, {where}", f"{figure.published:g}", got, WHY)

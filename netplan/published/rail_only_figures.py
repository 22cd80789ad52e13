"""What Figures 9 to 11 of the rail-only paper state, worked out from any source of iteration times.

``netplan verify`` takes the times from the plan search, a study's report from its own rows. Values
are those of Wang et al., arXiv:2307.12169, sections 6.2 to 6.4.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import mean

CLUSTERS = (16_384, 32_768, 65_536)
CLUSTER = 32_768
BATCH = {"gpt-1t": 4096, "gpt-146b": 1024}
HB_GBPS, NETWORK_GBPS = 7200.0, 400.0
PERCENT = 100


@dataclass(frozen=True, slots=True)
class Case:
    """One training run of the figures; rates in Gb/s, HB both directions added."""

    model: str = "gpt-1t"
    gpus: int = CLUSTER
    domain: int = 256
    batch: int = BATCH["gpt-1t"]
    hb_gbps: float = HB_GBPS
    network_gbps: float = NETWORK_GBPS


@dataclass(frozen=True, slots=True)
class Figure:
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
            name = f"{model}: gain from K = {small} to {large}, %"
            yield Figure(name, theirs, PERCENT * gain)
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

"""The rail-only paper: Table 2, Table 4, Fig. 8 to 11, Appendices A and D.

Source: Wang et al., How to Build Low-cost Networks for Large Language Models (without Sacrificing
Performance)?, arXiv:2307.12169.

Times of Fig. 9 to 11 come from any source: ``netplan verify`` takes them from the plan search, a
study's report from its own rows. The paper does not state the peak rate, latency, bytes per
parameter or memory limit behind these figures. Here they are those of one plausible set: H100 (989
TFLOP/s, 80 GB), NVLink 900 GB/s (both directions added, as in the rest of the paper), network 50
GB/s, latency 1 us, 16 bytes a parameter. The study ``rail-only-figures`` goes through others, and
shows how near each comes to all points (`netplan.published.rail_only_figures`).
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import floor, inf
from statistics import mean
from typing import Literal

from msgspec import Struct

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import BillBooks, make_bill
from netplan.costing.prices import POWER_BOOKS, PRICE_BOOKS
from netplan.levels import Level
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.plan import Plan, PlanTime
from netplan.performance.search import evaluate_plan, search_plans
from netplan.performance.setting import TrainedModel
from netplan.published.checks import Check, Measured, check, published, suite
from netplan.records import replace
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS
from netplan.traffic.collectives import all_gather_bound_s, all_to_all_s
from netplan.traffic.placement import Degrees, Placement
from netplan.units import PERCENT, bytes_per_s
from netplan.workloads.models import MODELS

CLUSTERS = (16_384, 32_768, 65_536)
BATCH = {"gpt-1t": 4096, "gpt-146b": 1024}
HB_GBPS, NETWORK_GBPS = 7200.0, 400.0


class FigureCase(Struct, frozen=True):
    """One training run of the figures; rates in Gb/s, HB both directions added."""

    model: str = "gpt-1t"
    gpus: int = CLUSTERS[1]
    domain: int = 256
    batch: int = BATCH["gpt-1t"]
    hb_gbps: float = HB_GBPS
    network_gbps: float = NETWORK_GBPS


class Figure(Struct, frozen=True):
    """One printed number and the one that the times give [%]; ``key`` names it in JSON."""

    json_parts = "figure=key", "name", "percent=got", "published_percent=published"

    name: str
    published: float
    got: float
    key: str


Times = Callable[[FigureCase], float]
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
            return time_s(FigureCase(model, gpus, domain, BATCH[model]))

        for small, large, theirs in ((1, 8, first), (8, 256, second)):
            gain = mean(1 - time(gpus, large) / time(gpus, small) for gpus in CLUSTERS)
            name = f"{model}: gain from K = {small} to {large}, %"
            yield Figure(name, theirs, PERCENT * gain, f"{model}-{small}-to-{large}")
        behind = mean(time(gpus, 256) / time(gpus, gpus) - 1 for gpus in CLUSTERS)
        name = f"{model}: K = 256 behind ideal, %"
        yield Figure(name, ideal, PERCENT * behind, f"{model}-256-to-ideal")


def figure_10(time_s: Times) -> Iterator[Figure]:
    """Mean improvement from the lowest to the highest bandwidth of one kind, gpt-1t."""
    hb_rates, network_rates = (2400.0, 4800.0, 7200.0, 9600.0), (100.0, 200.0, 400.0)
    printed = {8: (8.0, 35.9), 256: (13.3, 8.0)}
    for domain, (hb, network) in printed.items():

        def time(hb_gbps: float, network_gbps: float, domain: int = domain) -> float:
            return time_s(FigureCase(domain=domain, hb_gbps=hb_gbps, network_gbps=network_gbps))

        gain = mean(time(2400.0, rate) / time(9600.0, rate) for rate in network_rates) - 1
        name = f"4 x HB bandwidth, K = {domain}, %"
        yield Figure(name, hb, PERCENT * gain, f"hb-bandwidth-{domain}")
        gain = mean(time(rate, 100.0) / time(rate, 400.0) for rate in hb_rates) - 1
        name = f"4 x network bandwidth, K = {domain}, %"
        yield Figure(name, network, PERCENT * gain, f"network-bandwidth-{domain}")


def figure_11(time_s: Times) -> Iterator[Figure]:
    """Speed relative to the ideal over the batch, gpt-1t."""
    printed = {(256, 256): 93, (256, 4096): 99, (8, 256): 58, (8, 4096): 82}
    for (domain, batch), theirs in printed.items():
        ideal, limited = (
            time_s(FigureCase(domain=size, batch=batch)) for size in (CLUSTERS[1], domain)
        )
        name = f"K = {domain}, batch {batch}: of ideal, %"
        yield Figure(name, float(theirs), PERCENT * ideal / limited, f"batch-{batch}-{domain}")


PAPER = "arXiv:2307.12169"
FLOPS_PER_S = 989e12
MEMORY_BYTES = 80e9
LATENCY_S = 1e-6


@suite()
def rail_only_figure_checks() -> Iterator[Measured | Check]:
    """All checks, in the order of the figures."""
    gains, speeds = [*figure_9(_time_s)], [*figure_11(_time_s)]
    yield from _gaps(gains, "Fig. 9")
    large, small = ([figure.got for figure in gains[start : start + 3]] for start in (0, 3))
    first = all(model[0] > model[1] for model in (large, small))
    bound = all(ours > theirs for ours, theirs in zip(small, large, strict=True))
    yield "K = 1 to 8 gains more than 8 to 256", str(first)
    yield "gpt-146b depends more on the network", str(bound)
    yield from _gaps(figure_10(_time_s), "Fig. 10")
    yield from _gaps(speeds, "Fig. 11")
    # Small and large batch of each domain, one after the other.
    grows = all(few.got < many.got for few, many in zip(speeds[::2], speeds[1::2], strict=True))
    yield "a larger batch comes closer to the ideal", str(grows)


@lru_cache(maxsize=256)
def _time_s(case: FigureCase) -> float:
    """Iteration time of the best plan [s]."""
    model, iteration_model = MODELS.load(case.model), ITERATION_MODELS.load("ptd-p")
    training = TrainedModel(model, case.batch, FLOPS_PER_S, MEMORY_BYTES, iteration_model)
    return search_plans(training, levels_of(case)).time_s


def levels_of(
    case: FigureCase, hb_latency_s: float = LATENCY_S, network_latency_s: float = LATENCY_S
) -> tuple[Level, Level]:
    """HB domains of a case, and as many of them on the network as its GPUs fill.

    Parameters
    ----------
    case
        A cluster of the figures.
    hb_latency_s, network_latency_s
        Latency of an operation on each level [s].

    Returns
    -------
    tuple of Level
        The HB domain, then the network.

    Examples
    --------
    >>> domain, network = levels_of(FigureCase(domain=256))
    >>> domain.size, network.size, domain.link_bytes_per_s
    (256, 128, 900000000000.0)
    """
    return (
        Level("switch", case.domain, bytes_per_s(case.hb_gbps), step_latency_s=hb_latency_s),
        Level(
            "switch",
            case.gpus // case.domain,
            bytes_per_s(case.network_gbps),
            step_latency_s=network_latency_s,
        ),
    )


def _gaps(figures: Iterable[Figure], where: str) -> Iterator[Check]:
    """Numbers of a figure, which its open inputs keep from reproducing."""
    for figure in figures:
        got = f"{figure.got:.1f} ({figure.got - figure.published:+.1f})"
        digits = len(f"{figure.published:g}".partition(".")[2])
        yield check(
            figure.name,
            f"{PAPER}, {where}",
            f"{figure.published:g}",
            got,
            same=f"{figure.got:.{digits}f}" == f"{figure.published:g}",
            gap=figure.got / figure.published - 1,
        )


# The assumptions under which Table 4 reproduces; the paper prints only some of them.
A100_FLOPS_PER_S = 312e12
A100 = FigureCase(hb_gbps=4800.0, network_gbps=200.0)

PAIR: tuple[Literal["rail-optimized", "rail-only"], ...] = ("rail-optimized", "rail-only")


@suite()
def rail_only_checks() -> Iterator[Measured | Check]:
    """All checks of the paper, in its order."""
    yield from _table_2()
    yield from _table_4()
    yield from _appendices()


def _table_2() -> Iterator[Check]:
    """Switches, transceivers and cost reduction of six clusters."""
    books = BillBooks(
        PRICE_BOOKS.load("rail-only-2023"), POWER_BOOKS.load("2026"), CABLING_BOOKS.load("2026")
    )
    for row in published("rail-only-table2"):
        gpus, radix, hb_size = (int(row[name]) for name in ("gpus", "radix", "hb_size"))
        sizing = Sizing(
            gpus, radix, hb_size, hb_bytes_per_s=450e9, network_bytes_per_s=50e9, as_published=True
        )
        where, source = f"{sizing.gpus:,}, radix {sizing.radix}", f"{PAPER}, Table 2"
        costs = {}
        for name, column in zip(PAIR, ("sota", "rail_only"), strict=True):
            bill = make_bill(FABRICS.load(name), sizing, books)
            fabric, costs[name] = bill.fabric, bill.capital.base
            switches, optics = row[f"{column}_switches"], row[f"{column}_transceivers"]
            yield check(f"{where}: {name} switches", source, switches, str(fabric.switches))
            yield check(f"{where}: {name} transceivers", source, optics, str(fabric.transceivers))
        percent = 100 * (1 - costs["rail-only"] / costs["rail-optimized"])
        reason = "" if percent == int(percent) else f"{percent:g} %, which the paper truncates"
        printed = row["cost_reduction_percent"]
        yield check(f"{where}: cost reduction %", source, printed, str(int(percent)), reason)


def _table_4() -> Iterator[Measured | Check]:
    """Iteration times of five published training runs, and the utilisation of Fig. 8."""
    runs = [(row, _table_4_time(row)) for row in published("rail-only-table4")]
    for row, timed in runs:
        printed_s, got_s = f"{float(row['computed_s']):.2f}", f"{timed.iteration_time_s:.2f}"
        where = f"{row['model']} on {timed.plan.gpus:,} A100"
        yield check(f"{where}: iteration s", f"{PAPER}, Table 4", printed_s, got_s)
    for name, printed, digits in (("gpt-22b", 15.7, 1), ("gpt-1t", 0.15, 2)):
        row, timed = next(run for run in runs if run[0]["model"] == name)
        # FLOPs of the hardware: 72 B l s h^2 (1 + 2s/(9h) + V/(12hl)).
        model, batch = MODELS.load(name), int(row["batch"])
        s, h, layers = model.sequence_length, model.hidden_size, model.layers
        factor = 1 + 2 * s / (9 * h) + model.vocabulary / (12 * h * layers)
        flops = 72 * batch * layers * s * h**2 * factor
        computed = 100 * (flops / (timed.plan.gpus * A100_FLOPS_PER_S * timed.iteration_time_s))
        gap = computed - float(row["measured_hfu_percent"])
        yield check(
            f"{name}: HFU above the measured one, points",
            f"{PAPER}, section 6.1",
            f"{printed:g}",
            f"{floor(gap * 10**digits) / 10**digits:g}",
            reason=f"{gap:.3f}, truncated; the measured HFU counts the scores as s/(3h), the"
            " computed one as 2s/(9h)",
        )
        same_count = computed * timed.iteration_time_s / float(row["measured_s"])
        yield f"{name}: the same with one FLOP count, points", computed - same_count


def _table_4_time(row: dict[str, str]) -> PlanTime:
    """Time of one published run, tensor parallel inside servers of eight."""
    keys = ("tensor", "pipeline", "data", "batch", "microbatch", "interleave")
    tensor, pipeline, data, batch, microbatch, interleave = (int(row[key]) for key in keys)
    placement = Placement((Degrees(tensor), Degrees(data=data, pipeline=pipeline)))
    plan = Plan(placement, microbatch, batch // (data * microbatch), interleave)
    case = replace(A100, domain=tensor, gpus=tensor * data * pipeline)
    levels, model = levels_of(case), MODELS.load(row["model"])
    training = TrainedModel(model, batch, A100_FLOPS_PER_S, inf, ITERATION_MODELS.load("ptd-p"))
    return evaluate_plan(training, levels, plan)


def _appendices() -> Iterator[Measured]:
    """AllGather against the postulated optimum (y - 1)/C_S, and all-to-all, at 1 MB a pair."""
    for servers in (8, 256):
        bound = all_gather_bound_s(servers * 16.0, servers, 16, 18.0, 1.0, fabric="rail-only")
        yield f"AllGather optimum, {servers} x 16, C_F = 18 C_S", bound
    full, rail = (float(all_to_all_s(1e6, 8, 32, 900e9, 50e9, fabric=fabric)) for fabric in PAIR)
    # 8 * 31 * 1e6 / 50e9 = 4.96e-3; 32 * 7 * 1e6 / 900e9 = 0.24889e-3
    yield "all-to-all, 8 x 32: full bisection s", full
    yield "all-to-all, 8 x 32: rail-only s", rail
    yield "all-to-all, 8 x 32: slow-down of rail-only", rail / full - 1

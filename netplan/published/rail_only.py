"""Checks against the rail-only paper: Table 2, Table 4, Fig. 8, faults, Appendices A and D.

Source: Wang et al., How to Build Low-cost Networks for Large Language Models (without Sacrificing
Performance)?, arXiv:2307.12169. What its section 4.1 says of faults in words is checked as numbers
on its main cluster: that of Table 2 with 32,768 GPUs in HB domains of 256 on switches of 128 ports.
"""

from collections.abc import Iterator
from math import floor, inf
from typing import Literal

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import BillBooks, make_bill
from netplan.costing.power import POWER_BOOKS
from netplan.costing.prices import PRICE_BOOKS
from netplan.faults.damage.damage import find_effects
from netplan.faults.damage.scenario import parse_faults
from netplan.levels import Level
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.search import Plan, PlanTime, evaluate_plan
from netplan.performance.setting import Training
from netplan.published.checks import Check, Measured, check, published, stated
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS
from netplan.traffic.collectives import all_gather_bound_s, all_to_all_s
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.models import MODELS, Model

PAPER = "arXiv:2307.12169"
# The assumptions under which Table 4 reproduces; the paper prints only some of them.
A100_FLOPS_PER_S = 312e12
A100_HB_BYTES_PER_S = 600e9  # both directions added, as the paper counts NVLink
A100_NETWORK_BYTES_PER_S = 25e9
LATENCY_S = 1e-6

CLUSTER = Sizing(32_768, 128, 256, 450e9, 50e9)
PAIR: tuple[Literal["rail-optimized", "rail-only"], ...] = ("rail-optimized", "rail-only")


def rail_only_checks() -> Iterator[Check]:
    """All checks of the paper, in its order."""
    yield from _table_2()
    yield from _table_4()
    yield from stated(_appendices())


def _table_2() -> Iterator[Check]:
    """Switches, transceivers and cost reduction of six clusters."""
    books = BillBooks(
        PRICE_BOOKS.load("rail-only-2023"), POWER_BOOKS.load("2026"), CABLING_BOOKS.load("2026")
    )
    for row in published("rail-only-table2"):
        sizing = Sizing(
            gpus=int(row["gpus"]),
            radix=int(row["radix"]),
            hb_size=int(row["hb_size"]),
            hb_bytes_per_s=450e9,
            network_bytes_per_s=50e9,
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


def _table_4() -> Iterator[Check]:
    """Iteration times of five published training runs, and the utilisation of Fig. 8."""
    runs = [(row, _table_4_time(row)) for row in published("rail-only-table4")]
    for row, timed in runs:
        printed_s, got_s = f"{float(row['computed_s']):.2f}", f"{timed.iteration_time_s:.2f}"
        where = f"{row['model']} on {timed.plan.gpus:,} A100"
        yield check(f"{where}: iteration s", f"{PAPER}, Table 4", printed_s, got_s)
    for name, printed, digits in (("gpt-22b", 15.7, 1), ("gpt-1t", 0.15, 2)):
        row, timed = next(run for run in runs if run[0]["model"] == name)
        computed = 100 * _hfu(MODELS.load(name), timed, int(row["batch"]))
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
        yield from stated(
            [(f"{name}: the same with one FLOP count, points", computed - same_count)]
        )


def _table_4_time(row: dict[str, str]) -> PlanTime:
    """Time of one published run, tensor parallel inside servers of eight."""
    tensor, pipeline, data = (int(row[key]) for key in ("tensor", "pipeline", "data"))
    batch, microbatch = int(row["batch"]), int(row["microbatch"])
    plan = Plan(
        Placement((Degrees(tensor), Degrees(data=data, pipeline=pipeline))),
        microbatch=microbatch,
        microbatches=batch // (data * microbatch),
        interleave=int(row["interleave"]),
    )
    levels = (
        Level("switch", tensor, A100_HB_BYTES_PER_S, step_latency_s=LATENCY_S),
        Level("switch", data * pipeline, A100_NETWORK_BYTES_PER_S, step_latency_s=LATENCY_S),
    )
    assumptions = ITERATION_MODELS.load("ptd-p")
    training = Training(MODELS.load(row["model"]), batch, A100_FLOPS_PER_S, inf, assumptions)
    return evaluate_plan(training, levels, plan)


def _hfu(model: Model, timed: PlanTime, batch: int) -> float:
    """Hardware FLOP utilisation with 72 B l s h^2 (1 + 2s/(9h) + V/(12hl)) FLOPs."""
    s, h, layers = model.sequence_length, model.hidden_size, model.layers
    factor = 1 + 2 * s / (9 * h) + model.vocabulary / (12 * h * layers)
    flops = 72 * batch * layers * s * h**2 * factor
    return flops / (timed.plan.gpus * A100_FLOPS_PER_S * timed.iteration_time_s)


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


def fault_checks() -> Iterator[Check]:
    """All claims of section 4.1, in its order."""
    built = {name: build_fabric(FABRICS.load(name), CLUSTER) for name in PAIR}
    graphs = {name: expand(FABRICS.load(name), CLUSTER) for name in PAIR}
    link, leaf = (
        [
            len(find_effects(graph, parse_faults([fault], graph)).cut_off)
            for graph in graphs.values()
        ]
        for fault in ("host=1", "leaf=1")
    )
    hanging = [built[name].tiers[0].switches * cut for name, cut in zip(PAIR, leaf, strict=True)]
    yield from stated(
        (
            ("GPUs cut off by one link, Clos and rail-only", "{} and {}".format(*link)),
            (
                "GPUs that hang at exactly one leaf or rail switch, Clos and rail-only",
                "{:,} and {:,}".format(*hanging),
            ),
        )
    )
    clos, rail = (built[name].switches + built[name].link_count for name in PAIR)
    yield check(
        "rail-only has fewer points of failure: switches and links",
        f"{PAPER}, section 4.1",
        "True",
        str(rail < clos),
        f"{rail:,} against {clos:,}",
    )

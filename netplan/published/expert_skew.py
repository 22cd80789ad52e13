"""What is printed of unevenly loaded experts, beside netplan's shares, packing and times.

EPLB prints one example, loads of twelve experts in two layers and where it puts sixteen copies on
eight GPUs; it keeps groups of experts on nodes there, which netplan does not. DeepSeek prints how
many experts a GPU has with 32 redundant ones, and SGLang's team by how much EPLB sped up servers on
96 H100, without the loads that it met: netplan takes the least skew that was measured of such
models. DODOCO prints Gini coefficients of real text, and that the load of an expert over the mean
hardly depends on the GPUs that share the experts. What its mock tokens do (2.35 times the Gini
coefficient) is about benchmarks, and has no counterpart here; of the paper only its abstract was
readable.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np

from netplan.arrays import Floats
from netplan.performance.serving.cases import Software, domain_levels, formats_of, serving_case
from netplan.performance.serving.outcomes import Requests, ServingCase, decode_steps, prefills
from netplan.performance.serving.plans import ServingPlans, serving_plans
from netplan.performance.stacks import SERVING_STACKS
from netplan.published.checks import Check, Measured, published, suite
from netplan.records import replace
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.expert_load import ExpertLoad, eplb, gini_shares
from netplan.workloads.models import MODELS
from netplan.workloads.published_skew import EXPERT_SKEWS

TABLE = "expert-skew"
EXAMPLE = "eplb-example"
SERVED_GPUS, REDUNDANT, RANKS = 8, 32, (4, 32)
"""GPUs of EPLB's example; redundant experts of DeepSeek's deployment; DODOCO's ranks [1]."""
ROUTED = {"DeepSeek-MoE-16B": 64, "Nemotron-30B": 128, "DeepSeek-V2-Lite": 64}
"""Routed experts of a layer of the models that DODOCO measured [1]."""


def gini_of(shares: Floats) -> float:
    """Gini coefficient of the shares of experts: mean difference over twice the mean [1].

    Examples
    --------
    >>> gini_of(np.array([0.25, 0.25, 0.25, 0.25])), gini_of(np.array([1.0, 0.0]))
    (0.0, 0.5)
    """
    rising, count = np.sort(shares), len(shares)
    ranks = 2 * np.arange(1, count + 1) - count - 1
    return float(ranks @ rising / count / rising.sum())


@suite(TABLE)
def expert_skew_checks() -> Iterator[Measured | Check]:
    """Printed packings, deployments and coefficients against netplan's.

    Yields
    ------
    Measured or Check
        Netplan's values.
    """
    yield from _example()
    for ranks in (RANKS[1], 144):
        held = eplb(gini_shares(_least(), 256), ranks, REDUNDANT).shares.shape[1]
        yield f"DeepSeek-V3 on {ranks} GPUs, 32 redundant: experts of a GPU", float(held)
    for family, model in (
        ("multi-head", "DeepSeek-MoE-16B"),
        ("mamba", "Nemotron-30B"),
        ("latent", "DeepSeek-V2-Lite"),
    ):
        shares = gini_shares(EXPERT_SKEWS.load(family).gini, ROUTED[model])
        yield f"{model}: Gini coefficient of the shares of experts", gini_of(shares)
    yield "4 to 32 ranks: change of the largest share over the mean, %", _changes()
    prefill, decode = _speed_ups()
    yield "96 H100, prefill: EPLB over none", prefill
    yield "96 H100, decode: EPLB over none", decode


def _least() -> float:
    """Gini coefficient that models like DeepSeek's have at least [1]."""
    return EXPERT_SKEWS.load("latent").gini


def _example() -> Iterator[Measured]:
    """Imbalance of netplan's plan of EPLB's example, and which experts get copies."""
    for layer in (1, 2):
        rows = [row for row in published(EXAMPLE) if row["layer"] == str(layer)]
        loads = np.array([float(row["load"]) for row in rows])
        shares = loads / loads.sum()
        placed = eplb(shares, SERVED_GPUS, 4)
        yield f"EPLB's example, layer {layer}: busiest GPU over the mean", placed.imbalance
        if layer == 1:
            halves = np.isin(shares / 2, placed.shares)
            copied = " ".join(str(expert) for expert in np.flatnonzero(halves).tolist())
            yield "EPLB's example, layer 1: experts with two copies", copied


def _changes() -> float:
    """How much the largest share over the mean changes with the ranks [%]."""
    shares = gini_shares(_least(), 64)
    most = [eplb(shares, ranks).shares.max() * len(shares) for ranks in RANKS]
    return float(100 * abs(most[1] / most[0] - 1))


@cache
def _speed_ups() -> tuple[float, float]:
    """Times of DeepSeek-R1 on H100 with experts as they come over those by EPLB [1].

    Prompts of 4,096 tokens on 32 GPUs, and 128 requests a GPU that decode on 64.
    """
    times = []
    for gpus, prompts in ((32, True), (64, False)):
        both = [_seconds(load, gpus, prompts=prompts) for load in ("shuffled", "eplb")]
        times.append(both[0] / both[1])
    return times[0], times[1]


def _seconds(placement: str, gpus: int, *, prompts: bool) -> float:
    """What a prompt takes of a GPU, or a step of decode, with experts on so many GPUs [s]."""
    case, plans = _case(placement, gpus)
    if prompts:
        return float(prefills(case, plans, np.array([8.0])).each_s[0])
    return float(decode_steps(case, plans, np.array([128.0])).step_s[0])


def _case(placement: str, gpus: int) -> tuple[ServingCase, ServingPlans]:
    """DeepSeek-R1 on so many H100, an expert group over all of them."""
    model, chip = MODELS.load("deepseek-r1"), ACCELERATORS.load("h100-80gb")
    if model.experts is not None:
        copies = gpus if placement == "eplb" else 0
        shares = tuple(gini_shares(_least(), model.experts.count).tolist())
        load = ExpertLoad(
            shares=shares, placement="eplb" if copies else "shuffled", redundant=copies
        )
        model = model.changed(experts=replace(model.experts, load=load))
    stack = replace(SERVING_STACKS.load("sglang"), exchange="deepep")
    levels = domain_levels(chip, gpus)
    formats = formats_of(chip, model, "fp8")
    case = serving_case(chip, model, levels, Requests(4096, 256), formats, Software(stack))
    fixed = {"tensor": 1, "attention_data": gpus, "expert": gpus, "pipeline": 1}
    return case, serving_plans(model, gpus, case.served.sizes, fixed)

"""Checks against the foundation-models paper: what its text states of Figures 1 to 5.

Source: Subramanian et al., Comprehensive Performance Modeling and System Design Insights for
Foundation Models, arXiv:2410.00273, section IV. All searches use the mode ``published-code``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from netplan.errors import InfeasibleError
from netplan.levels import Level
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.plan import PlanTime
from netplan.performance.search import search_plans
from netplan.performance.setting import AnyStrategy, Fixed, Options, Training
from netplan.published.checks import Check, check, check_within, known
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.models import MODELS

PAPER = "arXiv:2410.00273"
CLUSTER = 16_384
TOKENS = 1e12  # section IV, Fig. 5: GPT3-1T is trained on 1T tokens
SECONDS_PER_DAY = 86_400.0
FULL_DEPTH = 128  # layers of GPT3-1T

KeyT = TypeVar("KeyT")


def foundation_checks() -> Iterator[Check]:
    """All checks of the paper, in its order."""
    yield from _figures_1_and_2()
    yield from _figure_3()
    yield from _figure_4()
    yield from _figure_5()


def _training(model: str = "gpt-1t", accelerator: str = "b200") -> Training:
    """Training with the paper's batch of 4,096 on one of its accelerators."""
    assumptions = ITERATION_MODELS.load("4d")
    return Training.on(_paper_accelerator(accelerator), MODELS.load(model), assumptions, batch=4096)


def _paper_accelerator(name: str) -> Accelerator:
    """The accelerator of Table A3, whose A100 has the memory bandwidth of the 40 GB product."""
    overrides = {"accelerator.memory_bytes_per_s": "1555e9"} if name == "a100-80gb" else None
    return ACCELERATORS.load(name, overrides=overrides)


def _best(
    training: Training,
    gpus: int,
    domain: int,
    *,
    accelerator: str = "b200",
    strategy: AnyStrategy = "1d",
    fixed: Mapping[str, int] | None = None,
) -> PlanTime:
    """Best plan on NVSwitch domains of this size."""
    on = _paper_accelerator(accelerator)
    levels = (
        Level("switch", domain, on.hb_bytes_per_s, step_latency_s=on.hb_latency_s),
        Level(
            "switch",
            gpus // domain,
            on.network_bytes_per_s,
            step_latency_s=on.network_latency_s,
        ),
    )
    options = Options(fixed=Fixed(**(fixed or {})))
    found = search_plans(
        training, levels, strategy=strategy, mode="published-code", options=options
    )
    return found.plans[0]


def _fits(training: Training, gpus: int) -> bool:
    """Whether any 1D plan fits on domains of 8."""
    try:
        _best(training, gpus, 8)
    except InfeasibleError:
        return False
    return True


def _fastest(plans: Mapping[KeyT, PlanTime]) -> KeyT:
    """Key of the fastest plan."""
    return min(plans, key=lambda key: plans[key].iteration_time_s)


def _figures_1_and_2() -> Iterator[Check]:
    """Local minima over tensor and pipeline degrees, microbatch 1."""
    training = _training()
    over_tensor = {
        tensor: _best(
            training, CLUSTER, 8, fixed={"tensor": tensor, "pipeline": 64, "microbatch": 1}
        )
        for tensor in (1, 2, 4, 8, 16, 32)
    }
    best = over_tensor[_fastest(over_tensor)]
    plan = best.plan
    got = f"{plan.microbatches}, {plan.tensor}, {plan.data}, {plan.pipeline}"
    yield check("local minimum (m, n_t, n_d, n_p)", f"{PAPER}, Fig. 1", "128, 8, 32, 64", got)
    yield known(
        "memory at that minimum, GB",
        f"{PAPER}, Fig. 1 (text)",
        "about 40",
        f"{best.memory_bytes / 1e9:.1f}",
        "the published code stores 57 GB of activations there: 64 microbatches in flight",
    )
    roomy = replace(training, memory_bytes=1e15)
    for domain, expected in ((8, 64), (64, 2)):
        over_pipeline = {
            pipeline: _best(
                roomy,
                CLUSTER,
                domain,
                fixed={"tensor": 8, "pipeline": pipeline, "microbatch": 1},
            )
            for pipeline in (2, 4, 8, 16, 32, 64, 128)
        }
        yield check(
            f"local minimum n_p at n_t = 8, domain of {domain}",
            f"{PAPER}, Fig. 2",
            str(expected),
            str(_fastest(over_pipeline)),
        )
    yield known(
        "memory at n_p = 2, domain of 64, GB",
        f"{PAPER}, Fig. 2",
        "below 192",
        f"{over_pipeline[2].memory_bytes / 1e9:.0f}",
        "the published code keeps all gradients on every GPU; sharded like the optimizer states"
        " (ZeRO 2) the plan needs 186 GB",
    )


def _figure_3() -> Iterator[Check]:
    """SUMMA grids: (n_t, n_p) = (32, 1) with microbatch 8 against (8, 128) with microbatch 1."""
    training = _training()
    for domain, expected in ((8, "8, 1, 128"), (64, "8, 4, 1")):
        plans = {
            f"{total // context}, {context}, {pipeline}": _best(
                training,
                CLUSTER,
                domain,
                strategy="summa",
                fixed={
                    "tensor": total // context,
                    "context": context,
                    "pipeline": pipeline,
                    "microbatch": microbatch,
                },
            )
            for total, pipeline, microbatch in ((32, 1, 8), (8, 128, 1))
            for context in (1, 2, 4, 8, 16)
            if context <= total
        }
        name = f"fastest SUMMA (n1, n2, n_p), domain of {domain}"
        yield check(name, f"{PAPER}, Fig. 3", expected, str(_fastest(plans)))


def _figure_4() -> Iterator[Check]:
    """Optimal plans over the number of GPUs, domains of 8."""
    training, where = _training(), f"{PAPER}, Fig. 4"
    best = {gpus: _best(training, gpus, 8) for gpus in (1024, 2048, 4096, 8192, CLUSTER)}
    for gpus, expected in ((1024, "2, 2, 2"), (2048, "4, 1, 2"), (8192, "8, 1, 1")):
        inside = best[gpus].plan.placement.levels[0]
        got = f"{inside.tensor}, {inside.data}, {inside.pipeline}"
        yield check(f"{gpus:,} GPUs: (TP, DP, PP) in the domain", where, expected, got)
    deepest = max(gpus for gpus, timed in best.items() if timed.plan.pipeline == FULL_DEPTH)
    yield check("GPUs up to which n_p is the full depth", where, "4096", str(deepest))
    vit = _training("vit-64k")
    fits = [gpus for gpus in (512, 2048, 8192, CLUSTER) if _fits(vit, gpus)]
    yield check("ViT: GPU counts where 1D fits", where, "none", str(fits) if fits else "none")
    plans = [_best(vit, gpus, 8, strategy="2d").plan for gpus in (2048, 4096, 8192, CLUSTER)]
    grids = [(plan.tensor, plan.context) for plan in plans]
    common = max(set(grids), key=grids.count)
    yield check("ViT: most common (n1, n2) at scale", where, "(4, 4)", str(common))


def _figure_5() -> Iterator[Check]:
    """Days of training on 1T tokens, 16,384 GPUs."""
    days = {}
    for accelerator, domain in (("a100-80gb", 4), ("h200", 8), ("b200", 8), ("b200", 64)):
        training = _training(accelerator=accelerator)
        timed = _best(training, CLUSTER, domain, accelerator=accelerator)
        tokens = training.batch * training.model.sequence_length
        days[accelerator, domain] = TOKENS / tokens * timed.iteration_time_s / SECONDS_PER_DAY
    where = f"{PAPER}, Fig. 5"
    yield check_within("A100, domain of 4: days", where, (20, 40), days["a100-80gb", 4], "O(30)")
    yield check_within("B200, domain of 8: days", where, (3, 5), days["b200", 8], "3 to 5")
    yield check_within("B200, domain of 64: days", where, (3, 5), days["b200", 64], "3 to 5")
    order = days["a100-80gb", 4] > days["h200", 8] > days["b200", 8] > days["b200", 64]
    yield check("each generation and a larger domain are faster", where, "True", str(order))

"""Models: what the foundation-models paper states of Figures 1 to 5, and printed parameters.

Source: Subramanian et al., Comprehensive Performance Modeling and System Design Insights for
Foundation Models, arXiv:2410.00273, section IV. All searches use the mode ``published-code``.

Parameters are counted from the sizes of model files. The total leaves out layers that predict
further tokens. Of a token's parameters publishers count the token embedding (Llama 4, Mixtral,
Qwen3) or leave it out (gpt-oss, DeepSeek-V3), which few of them say: the nearer count stands beside
the printed one.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TypeVar

from netplan.errors import InfeasibleError
from netplan.inputs.choices import AnyStrategy
from netplan.levels import Level
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.plan import PlanTime
from netplan.performance.search import search_plans
from netplan.performance.setting import Fixed, Options, Training
from netplan.published.checks import Check, Measured, published, suite
from netplan.records import replace
from netplan.units import DAY_S
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.models import MODELS
from netplan.workloads.parameters import parameter_count

CLUSTER = 16_384
TOKENS = 1e12  # section IV, Fig. 5: GPT3-1T is trained on 1T tokens
FULL_DEPTH = 128  # layers of GPT3-1T

KeyT = TypeVar("KeyT")


@suite()
def foundation_checks() -> Iterator[Measured | Check]:
    """All checks of the paper, in its order."""
    for figure in (_figures_1_and_2, _figure_3, _figure_4, _figure_5):
        yield from figure()


def paper_training(model: str = "gpt-1t", accelerator: str = "b200") -> Training:
    """Training with the paper's batch of 4,096 on one of its accelerators."""
    assumptions = ITERATION_MODELS.load("4d")
    return Training.on(paper_accelerator(accelerator), MODELS.load(model), assumptions, batch=4096)


def paper_accelerator(name: str) -> Accelerator:
    """The accelerator of Table A3, whose A100 has the memory bandwidth of the 40 GB product."""
    return ACCELERATORS.load("a100-4d" if name == "a100-80gb" else name)


def best_plan(
    training: Training,
    gpus: int,
    domain: int,
    *,
    accelerator: str = "b200",
    strategy: AnyStrategy = "1d",
    fixed: Mapping[str, int] | None = None,
) -> PlanTime:
    """Best plan on NVSwitch domains of this size."""
    on = paper_accelerator(accelerator)
    outer, outer_s = on.network_bytes_per_s, on.network_latency_s
    levels = (
        Level("switch", domain, on.hb_bytes_per_s, step_latency_s=on.hb_latency_s),
        Level("switch", gpus // domain, outer, step_latency_s=outer_s),
    )
    options = Options(fixed=Fixed(**(fixed or {})))
    result = search_plans(
        training, levels, strategy=strategy, mode="published-code", options=options
    )
    return result.best


def _fastest(plans: Mapping[KeyT, PlanTime]) -> KeyT:
    """Key of the fastest plan."""
    return min(plans, key=lambda key: plans[key].iteration_time_s)


def _figures_1_and_2() -> Iterator[Measured]:
    """Local minima over tensor and pipeline degrees, microbatch 1."""
    training = paper_training()
    over_tensor = {
        tensor: best_plan(
            training, CLUSTER, 8, fixed={"tensor": tensor, "pipeline": 64, "microbatch": 1}
        )
        for tensor in (1, 2, 4, 8, 16, 32)
    }
    best = over_tensor[_fastest(over_tensor)]
    plan = best.plan
    degrees = f"{plan.microbatches}, {plan.tensor}, {plan.data}, {plan.pipeline}"
    yield "local minimum (m, n_t, n_d, n_p)", degrees
    yield "memory at that minimum, GB", best.memory_bytes / 1e9
    roomy = replace(training, memory_bytes=1e15)
    for domain in (8, 64):
        over_pipeline = {
            pipeline: best_plan(
                roomy, CLUSTER, domain, fixed={"tensor": 8, "pipeline": pipeline, "microbatch": 1}
            )
            for pipeline in (2, 4, 8, 16, 32, 64, 128)
        }
        yield f"local minimum n_p at n_t = 8, domain of {domain}", _fastest(over_pipeline)
    yield "memory at n_p = 2, domain of 64, GB", over_pipeline[2].memory_bytes / 1e9


def _figure_3() -> Iterator[Measured]:
    """SUMMA grids: (n_t, n_p) = (32, 1) with microbatch 8 against (8, 128) with microbatch 1."""
    training = paper_training()
    for domain in (8, 64):
        plans = {}
        for total, pipeline, microbatch in ((32, 1, 8), (8, 128, 1)):
            for context in (1, 2, 4, 8, 16):
                if context > total:
                    continue
                tensor = total // context
                fixed = {"tensor": tensor, "context": context, "pipeline": pipeline}
                fixed["microbatch"] = microbatch
                plans[f"{tensor}, {context}, {pipeline}"] = best_plan(
                    training, CLUSTER, domain, strategy="summa", fixed=fixed
                )
        yield f"fastest SUMMA (n1, n2, n_p), domain of {domain}", _fastest(plans)


def _figure_4() -> Iterator[Measured]:
    """Optimal plans over the number of GPUs, domains of 8."""
    training = paper_training()
    best = {gpus: best_plan(training, gpus, 8) for gpus in (1024, 2048, 4096, 8192, CLUSTER)}
    for gpus in (1024, 2048, 8192):
        inside = best[gpus].plan.placement.levels[0]
        degrees = f"{inside.tensor}, {inside.data}, {inside.pipeline}"
        yield f"{gpus:,} GPUs: (TP, DP, PP) in the domain", degrees
    deepest = max(gpus for gpus, timed in best.items() if timed.plan.pipeline == FULL_DEPTH)
    yield "GPUs up to which n_p is the full depth", deepest
    vit = paper_training("vit-64k")
    fits = []
    for gpus in (512, 2048, 8192, CLUSTER):
        with suppress(InfeasibleError):
            best_plan(vit, gpus, 8)
            fits.append(gpus)
    yield "ViT: GPU counts where 1D fits", str(fits) if fits else "none"
    plans = [best_plan(vit, gpus, 8, strategy="2d").plan for gpus in (2048, 4096, 8192, CLUSTER)]
    grids = [(plan.tensor, plan.context) for plan in plans]
    yield "ViT: most common (n1, n2) at scale", str(max(set(grids), key=grids.count))


def _figure_5() -> Iterator[Measured]:
    """Days of training on 1T tokens, 16,384 GPUs."""
    days = {}
    for accelerator, domain in (("a100-80gb", 4), ("h200", 8), ("b200", 8), ("b200", 64)):
        training = paper_training(accelerator=accelerator)
        timed = best_plan(training, CLUSTER, domain, accelerator=accelerator)
        tokens = training.batch * MODELS.load("gpt-1t").sequence_length
        days[accelerator, domain] = TOKENS / tokens * timed.iteration_time_s / DAY_S
    yield "A100, domain of 4: days", days["a100-80gb", 4]
    yield "B200, domain of 8: days", days["b200", 8]
    yield "B200, domain of 64: days", days["b200", 64]
    falling = sorted(days.values(), reverse=True) == list(days.values())
    yield "each generation and a larger domain are faster", str(falling)


TABLE = "model-parameters"
ACTIVE = "parameters of a token"


@suite(TABLE)
def parameter_checks() -> Iterator[Measured | Check]:
    """Total and active parameters of published models, in the order of their table."""
    for row in published(TABLE):
        name, _, what = row["name"].partition(": ")
        count, printed = parameter_count(MODELS.load(name)), float(row["expected"])
        counts = [count.total]
        if what == ACTIVE:
            counts = [count.active, count.active_without_embedding]
        yield row["name"], float(min(counts, key=lambda parameters: abs(parameters - printed)))

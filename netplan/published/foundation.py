"""The foundation-models paper: Fig. 1 to 5, its repository and appendix; parameters of models.

``reports/published/optimal-configurations.csv`` has time and memory of 240 best configurations of
the result files in the paper's public repository, which hold more digits than anything compares:
netplan's search gives all of them in mode ``published-code``, which all searches here use.

Values of the figures are not printed; what the text says of them is checked. Fig. A4 compares
optima, so that those of the repository tell its speed-ups, too. On Perlmutter the paper ran
GPT3-175B; the seconds that were measured are not printed, and neither are the sizes of its ViT of
32K.

Parameters are counted from the sizes of model files. The total leaves out layers that predict
further tokens. Of a token's parameters publishers count the token embedding (Llama 4, Mixtral,
Qwen3) or leave it out (gpt-oss, DeepSeek-V3), which few of them say: the nearer count stands beside
the printed one.

Source: Subramanian et al., Comprehensive Performance Modeling and System Design Insights for
Foundation Models, arXiv:2410.00273, appendix and section IV.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from statistics import fmean, median
from typing import TypeVar

import numpy as np

from netplan.errors import InfeasibleError
from netplan.inputs.choices import AnyStrategy, Strategy
from netplan.levels import Level
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.plan import PlanTime
from netplan.performance.search import search_plans
from netplan.performance.setting import Fixed, Options, TrainedModel
from netplan.published.checks import Check, Measured, check, published, suite
from netplan.questions.search import search
from netplan.records import replace
from netplan.traffic.hierarchy import collective_s
from netplan.units import DAY_S
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.models import MODELS
from netplan.workloads.operations import ELEMENT_BYTES, GroupName, Sharding
from netplan.workloads.parameters import parameter_count
from netplan.workloads.transformer import transformer_layer

PAPER = "arXiv:2410.00273"
NEAR = 1e-6
"""Relative error up to which a time and a memory of the repository are the same [1]."""

ROOMY_BYTES = 1e15
GPT, VIT = "gpt-1t", "vit-64k"
STRATEGIES: dict[str, AnyStrategy] = {"1d": "1d", "2d": "2d", "summa": "summa"}


@cache
def optimum(
    strategy: AnyStrategy, model: str, accelerator: str, hb_size: int, gpus: int
) -> PlanTime:
    """Best configuration as the published code finds it, with a batch of 4,096.

    Examples
    --------
    >>> found = optimum("1d", "gpt-1t", "b200", 8, 1024)
    >>> found.plan.degrees, round(found.iteration_time_s, 3)
    ('TP2 PP128 DP4', 30.129)
    """
    training = paper_training(model, accelerator)
    return best_plan(training, gpus, hb_size, accelerator=accelerator, strategy=strategy)


def configuration_checks() -> Iterator[Check]:
    """Time and memory of every optimum of the repository."""
    for row in published("optimal-configurations"):
        gpus, hb_size = int(row["gpus"]), int(row["hb_size"])
        strategy = STRATEGIES[row["strategy"]]
        plan = optimum(strategy, row["model"], row["accelerator"], hb_size, gpus)
        got = (plan.iteration_time_s, plan.memory_bytes / 1e9)
        printed = (float(row["iteration_time_s"]), float(row["memory_gb"]))
        gap = max((ours / theirs - 1 for ours, theirs in zip(got, printed, strict=True)), key=abs)
        texts = (", ".join(f"{value:.7g}" for value in pair) for pair in (printed, got))
        yield check(
            f"{strategy} {row['model']} on {gpus:,} {row['accelerator']} in domains of {hb_size}:"
            " s, GB",
            f"{PAPER}, result files of its repository",
            *texts,
            same=abs(gap) <= NEAR,
            gap=gap if abs(gap) > NEAR else None,
        )


@suite()
def appendix_checks() -> Iterator[Measured]:
    """Everything else, in the order of the appendix."""
    for part in (_table_a3, _figure_a1, _figure_a2, _figure_a3, _figure_a4, _figures_a5_and_a6):
        yield from part()
    yield from _perlmutter()
    yield from _volumes()


def _table_a3() -> Iterator[Measured]:
    """Rates, capacities and latencies of three accelerators, as the catalog has them."""
    latency_s = ITERATION_MODELS.load("4d").compute.kernel_latency_s
    for title, name in (("A100", "a100-80gb"), ("H200", "h200"), ("B200", "b200")):
        on = ACCELERATORS.load(name)
        yield f"{title}: tensor cores, TFLOP/s", on.tensor_flops_per_s / 1e12
        yield f"{title}: vector units, TFLOP/s", on.vector_flops_per_s / 1e12
        yield f"{title}: latency of a kernel, s", latency_s
        yield f"{title}: memory, GB/s", on.memory_bytes_per_s / 1e9
        yield f"{title}: memory, GB", on.memory_bytes / 1e9
        yield f"{title}: NVLink, GB/s one way", on.hb_bytes_per_s / 1e9
        yield f"{title}: latency of NVLink, s", on.hb_latency_s
        yield f"{title}: InfiniBand, GB/s", on.network_bytes_per_s / 1e9
        yield f"{title}: latency of InfiniBand, s", on.network_latency_s


def _figure_a1() -> Iterator[Measured]:
    """An all_gather on 32 A100 of Perlmutter, two of a node (4 NVLinks) or all four (12)."""
    times_s = []
    for members, links in ((2, 4), (4, 12)):
        node = Level("switch", members, 0.7 * links * 25e9)
        between = Level("switch", 32 // members, 0.7 * 25e9)
        gather = collective_s("all_gather", (node, between), data_bytes=1e9, schedule="flat_ring")
        times_s.append(float(gather))
    yield "all_gather on 32 A100: time with 2 over 4 GPUs a node", times_s[0] / times_s[1]


def _figure_a2() -> Iterator[Measured]:
    """2D grids without memory limit: many GPUs a model and no pipeline, and the other way."""
    roomy = replace(paper_training(), memory_bytes=ROOMY_BYTES)
    held: dict[AnyStrategy, list[float]] = {"2d": [], "summa": []}
    for strategy, sizes in held.items():
        for context in (1, 2, 4, 8, 16):
            fixed = {"tensor": 32 // context, "context": context, "pipeline": 1, "microbatch": 8}
            plan = best_plan(roomy, CLUSTER, 64, strategy=strategy, fixed=fixed)
            sizes.append(plan.memory_bytes / 1e9)
    yield "2D at n_t = 32, n_p = 1: least memory, GB", min(held["2d"])
    least = min(ours / theirs for ours, theirs in zip(*held.values(), strict=True))
    yield "2D over SUMMA at n_t = 32, n_p = 1: memory, at least", least
    vit = replace(paper_training(VIT), memory_bytes=ROOMY_BYTES)
    fastest_s = {
        pipeline: min(
            best_plan(
                vit, CLUSTER, 64, strategy="2d", fixed=fixed | {"pipeline": pipeline}
            ).iteration_time_s
            for fixed in ({"tensor": n, "context": 16 // n, "microbatch": 1} for n in (2, 4, 8, 16))
        )
        for pipeline in (1, 16)
    }
    yield "ViT, 2D at n_t = 16: time at n_p = 16 over n_p = 1", fastest_s[16] / fastest_s[1]


def _figure_a3() -> Iterator[Measured]:
    """Optima on domains of 64."""
    stages = [optimum("1d", GPT, "b200", size, CLUSTER).plan.pipeline for size in (8, 64)]
    yield "1D on 16,384 GPUs: n_p on domains of 8 over that on 64", stages[0] / stages[1]
    counts = [256 << power for power in range(7)]
    depth = [optimum("summa", GPT, "b200", 64, gpus).plan.context for gpus in counts]
    yield "SUMMA on domains of 64: of seven GPU counts those with n2 = 1", depth.count(1)
    yield "SUMMA on domains of 64, 16,384 GPUs: n2", depth[-1]


def _figure_a4() -> Iterator[Measured]:
    """Speed-ups of the 2D strategies over 1D, by the optima of the repository."""
    rows = published("optimal-configurations")
    cases = {
        (row["accelerator"], int(row["hb_size"]), int(row["gpus"]))
        for row in rows
        if (row["strategy"], row["model"]) == ("1d", GPT)
    }
    faster = {
        strategy: {
            case: 100 * (_time_s("1d", case) / _time_s(strategy, case) - 1) for case in cases
        }
        for strategy in ("summa", "2d")
    }
    summa, grid = faster["summa"], faster["2d"]
    yield "SUMMA over 1D: median speed-up, %", median(summa.values())
    yield "2D over 1D: median speed-up, %", median(grid.values())
    yield "SUMMA: speed-up on A100 over that on B200", _mean(summa, 0, "a100-80gb", "b200")
    yield "SUMMA: speed-up on domains of 4 over that on 8", _mean(summa, 1, 4, 8)
    yield "SUMMA: speed-up on 256 GPUs over that on 16,384", _mean(summa, 2, 256, CLUSTER)
    yield "2D: speed-up on 16,384 GPUs over that on 1,024", _mean(grid, 2, CLUSTER, 1024)


Case = tuple[str, int, int]


def _time_s(strategy: str, case: Case) -> float:
    return optimum(STRATEGIES[strategy], GPT, *case).iteration_time_s


def _mean(faster: Mapping[Case, float], part: int, first: object, other: object) -> float:
    """Mean speed-up of some cases over that of others [1]."""
    means = [
        fmean(value for case, value in faster.items() if case[part] == which)
        for which in (first, other)
    ]
    return means[0] / means[1]


def _figures_a5_and_a6() -> Iterator[Measured]:
    """8,192 B200 with other rates, and other memories."""
    gain = {}
    for title, name in (("GPT3-1T", GPT), ("ViT", VIT)):
        usual_s = _with(name)
        gain[name] = usual_s / _with(name, held=2, read=2)
        flops = usual_s / _with(name, compute=2)
        what = "gain from twice the FLOP/s over that from twice the memory"
        yield f"{title}: {what}", flops / gain[name]
        other = _with(name, held=4, read=1 / 4) / usual_s
        yield f"{title}: four times the capacity at a quarter of the rate, time over B200", other
    yield "ViT over GPT3-1T: gain from twice the memory", gain[VIT] / gain[GPT]
    usual_s = _with(GPT)
    yield "GPT3-1T: half of the memory's rate, time over B200", _with(GPT, read=1 / 2) / usual_s
    yield (
        "GPT3-1T: an eighth of the memory's rate, time over B200",
        _with(GPT, read=1 / 8) / usual_s,
    )


def _with(name: str, *, compute: float = 1, held: float = 1, read: float = 1) -> float:
    """Time on 8,192 B200 in domains of 8 with other FLOP/s, capacity and rate of memory [s]."""
    on = paper_accelerator("b200")
    chip = on.changed(
        tensor_flops_per_s=compute * on.tensor_flops_per_s,
        vector_flops_per_s=compute * on.vector_flops_per_s,
        memory_bytes_per_s=read * on.memory_bytes_per_s,
    )
    usual = paper_training(name)
    training = TrainedModel.make(chip, usual.model, usual.assumptions, batch=usual.batch)
    training = replace(training, memory_bytes=held * usual.memory_bytes)
    return best_plan(training, 8192, 8, strategy="1d" if name == GPT else "2d").iteration_time_s


def _volumes() -> Iterator[Measured]:
    """Volumes of Tables I, II and A2 in those of the activations: one sequence, eight GPUs.

    GPT3-1T on 8 GPUs, or on a grid of 4 x 2; a message in a group of one GPU is none.
    """
    model = MODELS.load(GPT)
    activations = ELEMENT_BYTES * model.sequence_length * model.hidden_size
    grids: dict[Strategy, dict[GroupName, int]] = {
        "1d": {"tensor": 8, "context": 1},
        "2d": {"tensor": 4, "context": 2},
        "summa": {"tensor": 4, "context": 2},
    }
    volumes: dict[tuple[str, str, str], float] = {}
    for strategy, grid in grids.items():
        sharding = Sharding.of(1, **grid)
        for operation in transformer_layer(model, sharding, strategy=strategy).operations:
            for message in operation.forward.collectives:
                key = (strategy, message.kind, operation.name if strategy == "summa" else "")
                size = float(np.sum(message.message_bytes)) / activations
                shared = grid[message.group] > 1
                volumes[key] = volumes.get(key, 0.0) + (size if shared else 0.0)
    for name in ("1d", "2d"):
        for kind in ("all_gather", "reduce_scatter"):
            yield f"{name.upper()}, {kind}: volume of a layer, b l e", volumes[name, kind, ""]
    for kind, product, title in (
        ("all_reduce", "ln1", "a norm"),
        ("broadcast", "qkv", "Q, K and V"),
        ("all_gather", "attention", "K and V"),
        ("broadcast", "vproj", "projection of the heads"),
        ("broadcast", "fc1", "first product of the MLP"),
        ("broadcast", "fc2", "second product of the MLP"),
    ):
        yield f"SUMMA, {title}: volume, b l e", volumes["summa", kind, product]


PERLMUTTER_GPUS, PERLMUTTER_BATCH = 512, 1024


def _perlmutter() -> Iterator[Measured]:
    """Runs on 512 A100 in nodes of four: the best plan, its time, and the memory of a ViT."""
    gpt = replace(
        paper_training("gpt-175b", "a100-80gb"),
        model=MODELS.load("gpt-175b"),
        batch=PERLMUTTER_BATCH,
    )
    best = best_plan(gpt, PERLMUTTER_GPUS, 4, accelerator="a100-80gb")
    plan = best.plan
    degrees = f"{plan.tensor}, {plan.pipeline}, {plan.data}, {plan.microbatch}"
    yield "Perlmutter, GPT3-175B: optimum (n_t, n_p, n_d, b_m)", degrees
    fixed = {"tensor": 4, "pipeline": 16, "data": 8, "microbatch": 1, "interleave": 1}
    measured_like = search(
        "rail-only-paper",
        gpus=PERLMUTTER_GPUS,
        hb_size=4,
        accelerator="a100-80gb",
        model="gpt-175b",
        batch=PERLMUTTER_BATCH,
        iteration_model="calibrated",
        fixed=fixed,
        recompute="core_attn",
        top=1,
        published=False,
    ).best.iteration_time_s
    error = abs(best.iteration_time_s / measured_like - 1)
    yield "Perlmutter, GPT3-175B: error of the optimum's time, %", 100 * error
    vit = paper_training(VIT, "a100-80gb")
    vit = replace(
        vit, model=replace(MODELS.load(VIT), sequence_length=32_400), batch=PERLMUTTER_BATCH
    )
    fixed = {"tensor": 2, "context": 4, "pipeline": 4, "microbatch": 1}
    roomy = replace(vit, memory_bytes=ROOMY_BYTES)
    near = best_plan(roomy, PERLMUTTER_GPUS, 4, accelerator="a100-80gb", strategy="2d", fixed=fixed)
    yield "Perlmutter, ViT of 32K at (2, 4, 4, 16, 1): memory, GB", near.memory_bytes / 1e9


CLUSTER = 16_384
TOKENS = 1e12  # section IV, Fig. 5: GPT3-1T is trained on 1T tokens
FULL_DEPTH = 128  # layers of GPT3-1T

KeyT = TypeVar("KeyT")


@suite()
def foundation_checks() -> Iterator[Measured | Check]:
    """All checks of the paper, in its order."""
    for figure in (_figures_1_and_2, _figure_3, _figure_4, _figure_5):
        yield from figure()


def paper_training(model: str = "gpt-1t", accelerator: str = "b200") -> TrainedModel:
    """Training with the paper's batch of 4,096 on one of its accelerators."""
    assumptions = ITERATION_MODELS.load("4d")
    return TrainedModel.make(
        paper_accelerator(accelerator), MODELS.load(model), assumptions, batch=4096
    )


def paper_accelerator(name: str) -> Accelerator:
    """The accelerator of Table A3, whose A100 has the memory bandwidth of the 40 GB product."""
    return ACCELERATORS.load("a100-4d" if name == "a100-80gb" else name)


def best_plan(
    training: TrainedModel,
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
    return search_plans(
        training, levels, strategy=strategy, mode="published-code", options=options
    ).best


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


PARAMETERS = "model-parameters"
ACTIVE = "parameters of a token"


@suite(PARAMETERS)
def parameter_checks() -> Iterator[Measured | Check]:
    """Total and active parameters of published models, in the order of their table."""
    for row in published(PARAMETERS):
        name, _, what = row["name"].partition(": ")
        count, printed = parameter_count(MODELS.load(name)), float(row["expected"])
        counts = [count.total]
        if what == ACTIVE:
            counts = [count.active, count.active_without_embedding]
        yield row["name"], float(min(counts, key=lambda parameters: abs(parameters - printed)))

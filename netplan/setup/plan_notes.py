"""What the notes of an answer say about a plan: what is uneven, idle, ideal or badly placed.

And which plans cannot be told apart (`netplan.performance.error_bars` has the rule).

Which models may run side by side, and how few GPUs hold one of them, in which memory.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from netplan.errors import InputError
from netplan.performance.plan import Instances, PlanTime, SearchResult, least_gpus
from netplan.units import counted, si
from netplan.workloads.models import Model

if TYPE_CHECKING:
    from netplan.workloads.families import OtherModel

from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np

from netplan.inputs.choices import Execution
from netplan.levels import Level, gpu_count
from netplan.performance.error_bars import bar_note, own_times
from netplan.performance.memory_verdict import NEVER_COMPARED
from netplan.performance.plan import Plan
from netplan.performance.search import PlanSearch, evaluate_plan
from netplan.performance.setting import Setting, TrainedModel
from netplan.records import replace
from netplan.reports.quantities import listed
from netplan.traffic.gpu_group import beyond_note
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.program import stage_layers

RUN: dict[Execution, str] = {"fused": "kept together", "kernel-by-kernel": "one by one"}
"""How kernels run, in words."""
LEAST_SCATTERING = 0.05
"""Slowdown by a bad placement from which on it is a number of one digit [%]."""


def plan_notes(result: SearchResult, gpus: int) -> Iterator[str]:
    """What is uneven about the best plan, which GPUs it leaves idle, what a bad placement costs.

    Parameters
    ----------
    result
        The best plan.
    gpus
        GPUs bought [1].
    """
    plan, setting = result.best.plan, result.setting_of(result.best)
    used = plan.gpus
    yield from model_notes(setting.training.model)
    if result.best.instances:
        yield instances_note(result.best.instances, plan.gpus, gpus)
    elif used < gpus:
        exact = not setting.free and gpu_count(result.levels) < gpus
        why = "no plan divides all" if exact else f"{gpus - used:,} are idle"
        yield f"The best plan uses {used:,} of {gpus:,} GPUs; {why}."
    yield from _pipeline_notes(setting, plan) if result.exchange is None else _spread_notes(result)
    yield from _graph_notes(setting, plan)
    yield from bar_note(result.best.error)
    yield from software_notes(setting, result.levels, result.best)
    yield from bubble_note(setting, result.levels, result.best)
    yield from scattering_note(setting, result.levels, result.best)
    yield from rates_note(setting.training)
    if (links := setting.training.links) is not None:  # replicas on many racks, as measured
        inside, *outside = (level.data * level.context for level in plan.placement.levels)
        yield from beyond_note(links.domain, inside, prod(outside))


PHASES = {
    "forward_compute": "forward",
    "forward_comm": "its messages",
    "input_gradient_compute": "gradients of inputs",
    "input_gradient_comm": "their messages",
    "weight_gradient_compute": "gradients of weights",
    "weight_gradient_comm": "messages left of them",
}
"""Phases of layers that run in three, for people."""
SERIES_GPUS = 2_048
"""GPUs up to which series of runs of one plan show how times grow with them [1]."""
KINDS = {"dense": "dense models", "moe": "models with experts", "hybrid": "hybrids"}


def software_notes(setting: Setting, levels: Sequence[Level], timed: PlanTime) -> Iterator[str]:
    """What the date of software makes of a plan's time, and what it does with experts then.

    Parameters
    ----------
    setting, levels
        What is trained, and the fabric.
    timed
        The plan.

    Yields
    ------
    str
        A sentence each, where software has a date.
    """
    run, growth, plan = setting.training.calibrated, timed.growth, timed.plan
    if run is None or run.dated is None or growth is None:
        return
    month, recipe, known = growth.software_date, run.dated.recipe, run.stack.dated
    version = known.version_of(month) if known else ""
    whose = f"{run.stack.name} of {month}" + (f" (release {version})" if version else "")
    yield (
        f"Software: {whose} takes {growth.software_factor:.3g} times as long as in January 2026, by"
        f" the drift of runs of {KINDS[run.dated.kind]} on {run.dated.generation};"
        f" {plan.gpus:,} GPUs take {growth.jitter_factor:.3g} times as long as 8, by series of runs"
        f"{' of fewer GPUs' if plan.gpus > SERIES_GPUS else ''}."
    )
    if setting.experts is None:
        return
    group = plan.experts_over * plan.expert_tensor
    domain = setting.options.use_per_domain or levels[0].size
    words = {
        "dispatcher": f"dispatcher {recipe.dispatcher_of(group, domain)}",
        "expert_overlap": f"{'' if recipe.expert_overlap else 'no '}overlap of the exchange",
        "graphs": f"graphs {recipe.graphs}",
        "fused_experts": f"{'' if recipe.fused_experts else 'no '}fused experts",
    }
    given = [text for name, text in words.items() if name not in recipe.from_date]
    taken = [text for name, text in words.items() if name in recipe.from_date]
    sources = [f"{listed(given)} as asked for"] if given and taken else given
    sources += [f"{listed(taken)} as presets of that month have it"] if taken else []
    yield f"Experts: {'; '.join(sources)}."


MOST_UNUSED = 0.2
"""Share of an HB domain that teams leave idle at most: 64 of 72 GPUs of NVL72 work [1]."""


def part_note(gpus: int, domain: int) -> Iterator[str]:
    """How racks of which a part works are asked for, where GPUs do not fill HB domains but such.

    Parameters
    ----------
    gpus, domain
        GPUs that are bought, and those of an HB domain [1].

    Examples
    --------
    >>> list(part_note(256, 72))[0].partition(": ")[2]
    'racks of which 64 work, as teams run them, are --gpus 288 --use-per-domain 64.'
    >>> list(part_note(288, 72)), list(part_note(1000, 72))
    ([], [])
    """
    if domain == 1 or gpus % domain == 0:
        return
    least = int(np.ceil((1 - MOST_UNUSED) * domain))
    used = next((part for part in range(domain - 1, least - 1, -1) if gpus % part == 0), None)
    if used is not None:
        domains = gpus // used
        yield (
            f"{gpus:,} GPUs do not fill HB domains of {domain}: racks of which {used} work, as"
            f" teams run them, are --gpus {domains * domain} --use-per-domain {used}."
        )


def not_searched(result: SearchResult) -> str:
    """What a search leaves out of what teams might vary.

    Parameters
    ----------
    result
        The search.

    Returns
    -------
    str
        One sentence.
    """
    across = result.settings[0].options.across_domains
    tensor = "" if across else "tensor parallelism across HB domains (--fix tensor=N), "
    return f"Not searched: {tensor}ZeRO 3 under pipelines (--zero 3)."


def room_notes(result: SearchResult, training: TrainedModel) -> Iterator[str]:
    """That the best plan does not fit, where that is ignored; that nothing is refused for it.

    Parameters
    ----------
    result, training
        The search, and what is trained.

    Yields
    ------
    str
        A sentence each.
    """
    held_as = training.stack_memory
    if held_as is not None and not held_as.checked_kind:
        yield f"Not refused: {NEVER_COMPARED}."
    needed, room = result.best.memory_bytes, training.tiers_bytes
    if (kept := result.best.memory) is not None:
        room = kept.usable_bytes if kept.verdict == "no" else inf
    if needed > room:
        more = si(needed - room, "B")
        yield (
            f"Plan 1 needs {si(needed, 'B')} of memory a GPU, {more} more than the {si(room, 'B')}"
            " there are: --ignore-memory times it all the same."
        )


def model_notes(model: "Model | OtherModel") -> Iterator[str]:
    """What of a transformer is assumed or left out, and that its unlike layers are a mean."""
    if not isinstance(model, Model):
        return
    yield from model.left_out
    if 0 < model.sparse_layers < model.depth or 0 < model.full_layers < model.depth:
        yield f"Layers of {model.name} are unlike: a stage holds so many times their mean."
    if model.prediction_layers:
        more = counted(model.prediction_layers, "layer that predicts", "layers that predict")
        yield f"The {model.depth} layers contain {more} further tokens, with a projection."


LARGE_MESSAGE_BYTES = np.array(512e6)
"""A message of weights or activations, whose error stands for those of collectives [B]."""


def rates_note(training: TrainedModel) -> Iterator[str]:
    """What rates that were measured are worth, in one line if any are used.

    Scans of Mamba are worth less than rates of products make of them: of the three hybrids of the
    catalog, iteration model ``calibrated`` takes 1.1 to 2 times as long as ``4d`` on one plan.
    """
    words = []
    if isinstance(training.model, Model) and training.model.mamba and not training.calibrated:
        yield (
            "Scans of Mamba count as matrix products at their full rate: runs of hybrids take 1.1"
            " to 2 times as long (--iteration-model calibrated)."
        )
    if training.measured and training.execution is None:  # else kernels are mapped
        words.append(training.measured.note)
    if training.links:
        error = round(100 * training.links.domain.error(LARGE_MESSAGE_BYTES).item())
        what = "collectives" if words else "Collectives"
        words.append(f"{what} +-{error} % in HB domains ({training.links.domain.name})")
    if words:
        yield f"{', '.join(words)}."


def _graph_notes(setting: Setting, plan: Plan) -> Iterator[str]:
    """How a graph of kernels is shared, and how sure its partitions are."""
    model, execution = setting.graph_model, setting.execution
    if model is None or execution is None:
        return
    if model.chips == 1 and plan.tensor > 1:
        yield f"{plan.tensor:,} GPUs share every kernel, cut where they send the least."
    if model.layers > 1:
        yield "Stages of a pipeline hold whole layers; a graph is not cut inside."
    if not execution.exact_on(model, plan.tensor):
        yield (
            "The graph has so many orders that a search cuts it along a few of them: netplan map"
            " may find faster partitions."
        )


def _spread_notes(result: SearchResult) -> Iterator[str]:
    """What lies on each GPU of those at work, and what all of them would take together."""
    setting, plan = result.setting_of(result.best), result.best.plan
    if setting.spread_model is None:
        return
    yield setting.spread_model.laid_out(plan.placement.totals._asdict(), setting.training.batch)
    if plan.gpus < plan.placement.cluster and not result.best.instances:
        given = setting.training.assumptions
        exact = replace(given, space=replace(given.space, divisibility="exact", plans="all"))
        whole = PlanSearch(replace(setting.training, assumptions=exact)).best_on_subset(
            result.levels
        )
        if isinstance(whole, SearchResult):
            slower = whole.time_s > result.time_s
            yield (
                f"On all {whole.best.plan.gpus:,} an iteration would take"
                f" {whole.best.time_text}"
                f"{': they exchange more over slower links' if slower else ''}."
            )


def _pipeline_notes(setting: Setting, plan: Plan) -> Iterator[str]:
    """What is uneven about the stages and replicas of a transformer."""
    layers = setting.layers
    if layers % plan.pipeline:
        held = stage_layers(layers, plan.pipeline)
        yield (
            f"The {layers} layers lie on {plan.pipeline} stages: {held.max()} on"
            f" {int((held == held.max()).sum())} of them, {held.min()} on the others."
        )
    runs = setting.microbatches(plan.microbatch, plan.placement.totals)
    together = plan.microbatch * plan.expert
    if setting.training.batch % together:
        yield (
            f"The batch of {setting.training.batch:,} is no multiple of {together:,}: the last"
            " microbatch is partly empty and takes as long as the others."
        )
    if runs.min() < runs.max():
        slowest = int((runs == runs.max()).sum())
        yield (
            f"The {runs.sum():,} microbatches lie on {len(runs):,} replicas: {runs.max():,} on"
            f" {slowest:,} of them, {runs.min():,} on the others."
        )


def bubble_note(setting: Setting, levels: Sequence[Level], timed: PlanTime) -> Iterator[str]:
    """That an ideal bubble is shorter than so few microbatches of interleaved stages can have it.

    Papers have it so; netplan's own model has it as scheduled.
    """
    plan, training = timed.plan, setting.training
    if setting.scheduled_bubble or plan.interleave == 1 or plan.microbatches >= plan.pipeline:
        return
    overlap = replace(training.assumptions.overlap, interleaved_bubble="scheduled")
    scheduled = evaluate_plan(
        replace(training, assumptions=replace(training.assumptions, overlap=overlap)),
        levels,
        plan,
        strategy=timed.strategy,
        mode=setting.mode,
        options=setting.options,
    )
    yield (
        f"Plans are ranked by the ideal bubble of interleaved stages, which"
        f" {counted(plan.microbatches, 'microbatch', 'microbatches')} on {plan.pipeline:,} stages"
        f" cannot have: as scheduled, this one takes {scheduled.time_text}"
        " (--set iteration-model.overlap.interleaved_bubble=scheduled)."
    )


def scattering_note(setting: Setting, levels: Sequence[Level], timed: PlanTime) -> Iterator[str]:
    """What a bad placement would cost on a network that blocks, by the model.

    The worst there is stands for bad ones: no two HB domains that talk lie under one leaf, as if
    they were handed out in turn over the leaves. Random ones are hardly better: of L leaves, one
    neighbour in L lies under one's own.
    """
    if not any(level.tiers for level in levels):
        return
    worst = evaluate_plan(
        setting.training,
        [level.scattered for level in levels],
        timed.plan,
        strategy=timed.strategy,
        mode=setting.mode,
        options=setting.options,
    )
    more = 100 * (worst.iteration_time_s / timed.iteration_time_s - 1)
    slower = f"{worst.time_text} an iteration, {more:.1f} % more"
    yield (
        "Ranks fill the leaves in order; were the HB domains scattered over them, this plan would"
        f" take {slower if more >= LEAST_SCATTERING else 'as long'}."
    )


def equal_to_best(plans: Sequence[PlanTime]) -> Iterator[str]:
    """Ranks of the plans that are as fast as the first, for all that is known."""
    if plans[0].error is None or len(plans) == 1:
        return
    ranks = [f"{rank}" for rank, plan in enumerate(plans, 1) if rank > 1 and plan.equals(plans[0])]
    who = f"plan{'s' * (len(ranks) > 1)} {listed(ranks)}" if ranks else "none of these plans"
    yield (
        f"Equal to plan 1 within the model's error: {who} (less than"
        f" {100 * plans[0].error.repeat:g} % apart, or by less than is known of what they do not"
        " share)."
    )


def told_apart(names: Sequence[str], first: PlanTime, second: PlanTime) -> str:
    """Whether two plans are equal, with what they share and what they do not."""
    unshared_s = own_times(first.breakdown_s, second.breakdown_s)
    bar = first.error.unshared if first.error else None
    doubt = f", each {bar.low:g} to {bar.high:g} times as long" if bar else ""
    times = f"{si(first.iteration_time_s, 's')} and {si(second.iteration_time_s, 's')}"
    shared = si(first.iteration_time_s - unshared_s[0], "s")
    apart = (
        f"of {times} they share {shared}, whose error changes no order;"
        f" {si(unshared_s[0], 's')} and {si(unshared_s[1], 's')} are their own{doubt}"
    )
    more = abs(second.iteration_time_s / first.iteration_time_s - 1)
    if first.equals(second):
        judgement = f"are equal within the model's error: {100 * more:.1f} % apart"
    else:
        judgement = f"are {100 * more:.1f} % apart, more than the model's error"
    return f"{listed(names).capitalize()} {judgement}; {apart}."


def mapped_note(execution: Execution, chip: Accelerator) -> str:
    """How long a layer takes whose kernels are mapped, and what of it the chip's file lacks."""
    by = "by the chip's compute tiles"
    if chip.tiles is None:
        by = "by a share of the peak, as the chip's file has no compute tiles"
    return (
        f"A layer takes as long as its kernels {RUN[execution]} on the chip (netplan map), {by};"
        " collectives, memory, overlap and bubble are the iteration model's."
    )


EVERY_SPREAD = 1 << 20
"""More plans than a model that lies on all GPUs alike has [1]."""


def is_spread(model: "Model | OtherModel") -> bool:
    """Whether a model lies on all GPUs alike, so that only their number and grid are open."""
    return not isinstance(model, Model) and model.family != "graph"


def check_instances(count: int, model: "Model | OtherModel") -> None:
    """Refuse fewer instances than one, and those of models whose degrees are many.

    Raises
    ------
    InputError
        If there are none, or the model does not lie on all GPUs alike.
    """
    if count < 1:
        raise InputError(f"instances side by side are at least 1, got {count}")
    if not is_spread(model):
        raise InputError(
            f"--instances asks how many GPUs an instance best has, and {model.name} does not lie on"
            " all of them alike, as recommendation models do: leave it out"
        )


def instances_note(instances: Instances, used: int, gpus: int) -> str:
    """How instances of so many GPUs each run on all of them.

    Examples
    --------
    >>> instances_note(Instances(8, 4, 2, 0.05), 12, 64)
    '8 instances of 12 GPUs each, 4 at once, 16 GPUs idle: 2 rounds, 50 ms until all are done.'
    """
    idle = gpus - instances.at_once * used
    return (
        f"{counted(instances.count, 'instance')} of {counted(used, 'GPU')} each,"
        f" {instances.at_once:,} at once{f', {idle:,} GPUs idle' if idle else ''}:"
        f" {counted(instances.rounds, 'round')}, {si(instances.turnaround_s, 's', 4)} until all are"
        " done."
    )


def least_notes(result: SearchResult, plans: Sequence[PlanTime]) -> Iterator[str]:
    """How few GPUs hold a recommendation model, if a search could choose, and where it lies.

    Parameters
    ----------
    result, plans
        The answer, and all plans that it was chosen from.
    """
    setting = result.settings[0]
    training, model = setting.training, setting.spread_model
    if model is None or model.family != "recommendation" or setting.given:
        return
    if not (setting.free or setting.powers_of_two):
        return
    local = least_gpus(plans, training.memory_bytes)
    least = least_gpus(plans, training.tiers_bytes)
    if least is None:
        return
    needs = f"An instance needs at least {counted(least.plan.gpus, 'GPU')}"
    if local is least:
        yield f"{needs}."
        return
    alone = f"at least {local.plan.gpus:,}" if local else "more than there are"
    yield (
        f"{needs}, {si(least.spilled_bytes, 'B')} on each in the expanded memory; with the local"
        f" memory alone {alone}."
    )

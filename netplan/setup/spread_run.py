"""What of a training run's plan counts where its replicas or stages lie in several sites."""

from collections.abc import Sequence
from contextlib import suppress
from typing import get_args

import numpy as np
from msgspec import Struct

from netplan.errors import InfeasibleError, InputError
from netplan.levels import Level
from netplan.performance.compute import LayerGroups, layer_table
from netplan.performance.plan import PlanTime
from netplan.performance.setting import Setting
from netplan.performance.space import listed_plans
from netplan.performance.spread import Across, SpreadRun
from netplan.setup.placed_run import PlacedRun, TimedUse
from netplan.setup.question import AnyQuestion
from netplan.setup.runs import place_training
from netplan.topologies.sites import Sites, deal_parts
from netplan.traffic.patterns import Pattern
from netplan.units import si

ACROSS: tuple[Across, ...] = get_args(Across)
PATTERN: Pattern = "ring"
"""Pattern of the collectives within a site."""

STAGES_A_SITE = (1, 2, 4, 8)
"""Stages of each site that are tried where the best plan of one site has none to deal out [1]."""

ZERO_3 = 3
"""The ZeRO stage that gathers weights for every pass."""

OUTSIDE = frozenset(
    {"data_comm", "pipeline_comm", "bubble", "update", "optimizer", "fixed", "host_fixed"}
)
"""Parts of an iteration that no pass of a microbatch has."""


def spread_run(run: PlacedRun) -> SpreadRun:
    """What of a plan counts over sites.

    Parameters
    ----------
    run
        The run, placed by its plan in one site.

    Returns
    -------
    SpreadRun
        Its passes, gradients, activations and memory.
    """
    timed, setting = run.timed, run.setting
    plan = timed.plan
    # What a microbatch takes on the slowest stage, forward and backward.
    inside = (time for name, time in timed.breakdown_s.items() if name not in OUTSIDE)
    microbatch_s = sum(inside) / plan.microbatches
    share = forward_share(setting, run.levels, timed)
    data = [used for used in run.collectives() if used.use.kind == "data"]
    program = setting.program(plan.sharding)
    rule, repetition = program.repetition.synchronisation, program.repetition
    repeats = plan.microbatches if rule.backward_repeats else 1
    layers = repetition.layers if plan.pipeline == 1 else -(-repetition.layers // plan.pipeline)
    backward_s = (1 - share) * microbatch_s
    overlaps = setting.assumptions.overlap.data != "exposed"
    boundary = float(np.ravel(np.asarray(program.layer.boundary_bytes))[0])
    stage_gpus = plan.gpus // plan.pipeline
    members = max((used.placement.degree(*used.use.dimensions) for used in data), default=1)
    peaks = setting.training.peaks_bytes
    within = next((peak for peak in peaks if peak >= timed.memory_bytes), timed.memory_bytes)
    seconds = {"each": 0.0, "first": 0.0, "last": 0.0}
    for used in data:
        seconds[used.use.stage] += used.use.times * used.model_s
    return SpreadRun(
        time_s=timed.iteration_time_s,
        stages=plan.pipeline,
        chunks=plan.interleave,
        microbatches=plan.microbatches,
        schedule=setting.options.schedule
        or ("interleaved" if timed.plan.interleave > 1 else "1f1b"),
        forward_s=share * microbatch_s,
        backward_s=backward_s,
        gradient_bytes=sum(_crossing_bytes(used, plan.pipeline, stage_gpus) for used in data) / 2,
        collectives=_one_after_the_other(data),
        inside_s=seconds["each"] + max(seconds["first"], seconds["last"]),
        hidden_s=repeats * backward_s if overlaps else 0.0,
        pieces=max(1, repeats * layers) if overlaps else 1,
        boundary_bytes=boundary * stage_gpus,
        ahead_bytes=_kept_bytes(timed),
        room_bytes=within - timed.memory_bytes,
        members=members,
        rings=plan.gpus / members,
    )


def forward_share(setting: Setting, levels: Sequence[Level], timed: PlanTime) -> float:
    """Share of a microbatch's time that its forward pass has.

    Parameters
    ----------
    setting, levels, timed
        What is trained, on which levels, by which plan.

    Returns
    -------
    float
        By the times of a layer [1].
    """
    under = timed.plan.applied_to(setting)
    space = listed_plans([timed.plan])
    groups = LayerGroups.of(under.network(levels), space.layer_placements, space.sharding_layer)
    table = layer_table(under, space.sharding, groups)
    ahead, back = float(table.forward.total_s[0]), float(table.backward.total_s[0])
    return ahead / (ahead + back)


def _crossing_bytes(used: TimedUse, stages: int, stage_gpus: int) -> float:
    """What all groups of a collective over replicas send in an iteration, over the crossing share.

    An all_reduce sends twice what a reduce_scatter or an all_gather does.
    """
    use = used.use
    groups = stage_gpus / used.placement.degree(*use.dimensions)
    where = stages if use.stage == "each" else 1
    return (1 + (use.collective == "all_reduce")) * use.data_bytes * use.times * groups * where


def _one_after_the_other(data: Sequence[TimedUse]) -> float:
    """Collectives that follow each other: of every stage, the most of any group [1]."""
    counts: dict[tuple[str, ...], float] = {}
    for used in data:
        if used.use.stage == "each":
            twice = 1 + (used.use.collective == "all_reduce")
            dimensions = used.use.dimensions
            counts[dimensions] = counts.get(dimensions, 0.0) + twice * used.use.times
    return max(counts.values(), default=2.0)


def _kept_bytes(timed: PlanTime) -> float:
    """Activations of one microbatch that the fullest GPU keeps [B]."""
    if timed.memory is not None:
        return timed.memory.activations / max(timed.memory.in_flight, 1.0)
    plan = timed.plan
    kept = min(plan.microbatches, plan.pipeline)
    return timed.memory_parts_bytes.get("activations", 0.0) / kept


class ChosenPlan(Struct, frozen=True):
    """A plan for several sites: what lies in which, and its run in one site.

    ``dealt`` are the replicas, or the stages, of each site [1].
    """

    json_parts = (
        *("across", "dealt", "placed.timed.iteration_time_s", "gpus_used=placed.timed.plan.gpus"),
        *("placed.timed.plan", "run.ahead_bytes", "run.most_ahead"),
    )

    across: Across
    placed: PlacedRun
    run: SpreadRun
    dealt: tuple[int, ...]


def choose_plan(asked: AnyQuestion, across: Across, sites: Sites, best: PlacedRun) -> ChosenPlan:
    """The plan of a question about several sites: the best of one site, if it can be dealt out.

    Where it cannot, and no degree was given, the fastest whose stages can; replicas that gather
    weights for every pass (ZeRO 3) give way to those that do not, where memory allows.

    Parameters
    ----------
    asked
        The question.
    across
        What lies in several sites.
    sites
        The sites.
    best
        The best run of one site.

    Returns
    -------
    ChosenPlan
        The plan.

    Raises
    ------
    InputError
        If no plan can be dealt out: which numbers would do.
    """
    if across == "data":
        if best.timed.plan.zero == ZERO_3 and asked.training.zero_stage is None:
            with suppress(InfeasibleError, InputError):
                lighter = place_training(asked.with_values(zero_stage=1), PATTERN)
                return _dealt("data", lighter, sites)
        return _dealt("data", best, sites)
    fixed = dict(asked.training.fixed or {})
    as_given = {"pipeline", "interleave"} & fixed.keys() or asked.training.schedule
    if as_given or (best.timed.plan.pipeline > 1 and best.timed.plan.interleave == 1):
        return _dealt("pipeline", best, sites)
    plans = []
    for stages in STAGES_A_SITE:
        wanted = fixed | {"pipeline": stages * len(sites.sites), "interleave": 1}
        with suppress(InfeasibleError, InputError):
            placed = place_training(asked.with_values(fixed=wanted), PATTERN)
            if placed.timed.memory_bytes <= max(placed.setting.training.peaks_bytes):
                plans.append(_dealt("pipeline", placed, sites))
    if not plans:
        return _dealt("pipeline", best, sites)
    return min(plans, key=lambda plan: plan.run.time_s)


def _dealt(across: Across, placed: PlacedRun, sites: Sites) -> ChosenPlan:
    """A plan whose replicas or stages are dealt out."""
    plan = placed.timed.plan
    parts, what = plan.pipeline, "stages"
    if across == "data":
        parts, what = replica_units(placed.timed), "replicas"
    dealt = deal_parts(parts, plan.gpus / parts, sites.sites, what)
    return ChosenPlan(across, placed, spread_run(placed), dealt)


def replica_units(timed: PlanTime) -> int:
    """Replicas that can lie in different sites: those that share no experts [1].

    Parameters
    ----------
    timed
        A plan.

    Returns
    -------
    int
        GPUs over those of a pipeline with its tensor, context and expert groups.
    """
    plan = timed.plan
    together = plan.tensor * plan.context * plan.placement.totals.expert
    if plan.folded:
        together = max(plan.tensor * plan.context, plan.experts_over * plan.expert_tensor)
    return plan.gpus // (plan.pipeline * together)


def refuse_wider(sites: Sites, best: PlacedRun, way_s: float) -> None:
    """Refuse a plan whose tensor, context or expert groups alone could lie in several sites.

    Parameters
    ----------
    sites, best
        The sites, the best run of one site.
    way_s
        From site to site, one way [s].

    Raises
    ------
    InputError
        If neither replicas nor stages are as many as sites: with the loss that it would have.
    """
    count, plan = len(sites.sites), best.timed.plan
    if max(replica_units(best.timed), plan.pipeline) >= count:
        return
    inner = [used.use for used in best.collectives() if used.use.kind != "data"]
    added_s = sum(2 * way_s * use.times for use in inner if use.stage == "each")
    loss = added_s / best.timed.iteration_time_s
    raise InputError(
        f"the plan {plan.shape} (TPxPPxDP) has too few replicas and stages for {count} sites, and"
        f" its tensor, context or expert groups over sites would lose {100 * loss:,.0f} % by the"
        f" way alone ({si(way_s, 's')}): give --fix data or pipeline of {count} or more"
    )

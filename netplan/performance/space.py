"""The space of plans, as three small tables and an index; no plan is ever an object.

*Placements*: degrees on every level. *Shardings*: microbatch and panels, once for each distinct
placement of tensor, expert and context groups; the time of a layer depends on nothing else.
*Schedules*: microbatch, panels and interleaved stages, once for each distinct set of total degrees;
memory depends on nothing else. A plan is a placement and one of the schedules of its totals, and
finds its sharding by an offset.

The rules are those of arXiv:2307.12169, Eq. 11 to 19, and of the published code of
arXiv:2410.00273, Sec. III (S3).

The bubble of a pipeline: layers that stages wait for (see `netplan.performance.iteration`).
"""

from collections.abc import Iterator, Sequence
from math import gcd, prod
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Columns, Floats, Ints, Numbers, real
from netplan.performance.plan import Plan
from netplan.performance.setting import Setting
from netplan.records import replace
from netplan.traffic.placement import (
    CONTEXT,
    DATA,
    DIMENSIONS,
    EXPERT,
    PIPELINE,
    TENSOR,
    Placements,
    all_placements,
    distinct,
    divisors,
    fills_innermost,
)
from netplan.workloads.operations import Sharding
from netplan.workloads.program import Repetition

LAYER_DIMENSIONS = [TENSOR, CONTEXT, EXPERT]
"""Dimensions whose groups share the work of a layer."""


class Schedules(Columns, frozen=True, eq=False):
    """Schedules of all distinct totals, one entry each, those of equal totals side by side."""

    totals: Ints  # index of the totals that they belong to
    offset: Ints  # place of the sharding among those of its placement
    microbatch: Numbers  # b [1]
    interleave: Ints  # v [1]
    microbatches: Ints  # m [1]


class StageRuns(NamedTuple):
    """What the memory and the multiplicities of schedules depend on, one entry each."""

    totals: Ints  # shape (dimensions, n)
    sharding: Ints  # one that has the same sizes
    microbatches: Ints  # m [1]
    interleave: Ints  # v [1]

    @property
    def stages(self) -> Floats:
        """Pipeline stages, p [1]."""
        return real(self.totals[PIPELINE])


class PlanSpace(Struct, frozen=True, eq=False):
    """All plans of one setting on some levels."""

    placements: Placements  # shape (levels, dimensions, placements)
    totals: Ints  # distinct total degrees, shape (dimensions, distinct)
    totals_of: Ints  # which of them each placement has
    layer_placements: Placements  # those with distinct tensor, expert and context degrees
    layer_of: Ints  # which of them each placement has
    sharding: Sharding  # of all layer placements, one after the other
    sharding_layer: Ints  # to which of them each belongs
    first_sharding: Ints  # where those of each layer placement begin
    schedules: Schedules  # of all totals
    single: bool = False  # whether every plan has a placement, sharding and schedule of its own

    @property
    def plan_count(self) -> int:
        """Plans [1]."""
        schedules = np.bincount(self.schedules.totals, minlength=self.totals.shape[1])
        return int(schedules[self.totals_of].sum())

    def row(self, place: Ints | int, schedule: Ints | int) -> Ints:
        """The sharding of plans, by their placement and schedule."""
        return np.asarray(
            self.first_sharding[self.layer_of[place]] + self.schedules.offset[schedule]
        )

    def pairs(self, some: Bools, most: int) -> Iterator[tuple[Ints, Ints]]:
        """Placement and schedule of all plans that have some of the schedules, so many at a time.

        More of them at a time where a single placement has more.
        """
        kept = np.flatnonzero(some)
        count = np.bincount(self.schedules.totals[kept], minlength=self.totals.shape[1])
        first = (np.cumsum(count) - count)[self.totals_of]
        count = count[self.totals_of]
        for part in parts(count, most):
            index, place, _ = joined_ranges(first[part], count[part])
            yield part.start + place, kept[index]

    def plans(self, place: Ints, schedule: Ints) -> "PlanSpace":
        """The space of some plans alone, each with its own placement, sharding and schedule."""
        index = np.arange(len(place))
        placements = self.placements.take(place)
        schedules = replace(
            self.schedules.take(schedule), totals=index, offset=np.zeros_like(index)
        )
        sharding = self.sharding.take(self.row(place, schedule))
        return PlanSpace(
            *(placements, placements.totals, index, placements, index),
            *(sharding, index, index, schedules),
            single=True,
        )

    @property
    def runs(self) -> StageRuns:
        """What the memory of each schedule depends on."""
        schedules = self.schedules
        example = np.zeros(self.totals.shape[1], dtype=np.int64)
        example[self.totals_of] = self.first_sharding[self.layer_of]  # anywhere on the levels
        sharding = example[schedules.totals] + schedules.offset
        totals = self.totals[:, schedules.totals]
        return StageRuns(totals, sharding, schedules.microbatches, schedules.interleave)


def degree_limits(setting: Setting, gpus: int) -> tuple[list[int], list[int]]:
    """What each total degree must divide, and how large it may be, in the order of dimensions.

    In the free space pipeline and data parallel degrees need not divide anything.
    """
    limits, caps = [1] * 5, [gpus] * 5
    limits[DATA] = setting.training.batch
    limits[PIPELINE] = setting.layers
    if setting.free:
        caps[PIPELINE] = setting.layers
    if setting.graph_model is not None:
        limits[TENSOR] = _graph_limit(setting)
        return limits, caps
    model, rules = setting.transformer, setting.assumptions.space
    cut = model.heads if rules.tensor == "heads" else model.sequence_length
    block = rules.smallest_block
    linear, mamba, experts = model.linear_attention, model.mamba, setting.experts
    other_heads = (linear.value_heads if linear else 0, mamba.heads if mamba else 0)
    limits[TENSOR] = gcd(cut, model.hidden_size, *other_heads)
    limits[EXPERT] = experts.held if experts else 1
    if setting.strategy == "1d":
        caps[TENSOR] = 3 * model.hidden_size // block
    else:
        # Tokens of some microbatch divide by the context GPUs; the published code takes them from
        # the divisors of the number of GPUs.
        tokens = model.sequence_length * setting.training.batch if setting.free else gpus
        limits[CONTEXT] = model.hidden_size if setting.strategy == "summa" else tokens
        caps[CONTEXT] = model.sequence_length // block
        caps[TENSOR] = model.hidden_size // block
    return limits, caps


def _graph_limit(setting: Setting) -> int:
    """What the chips that share a graph must divide; one chip needs no cut."""
    from netplan.workloads.graph_program import graph_on, most_chips  # noqa: PLC0415 - seldom used

    model, given = setting.graph_model, setting.given.get("tensor")
    if model is None or given == 1 == model.chips:
        return 1
    if given is not None:
        graph_on(model, given)  # refuses another number than that for which it is cut
    return most_chips(model)


def placements_of(setting: Setting, sizes: Sequence[int]) -> Placements:
    """Placements that the rules allow on levels of these sizes."""
    options = setting.options
    placements = all_placements(sizes, *degree_limits(setting, prod(sizes)))
    totals = placements.totals
    keep = setting.training.batch % (totals[EXPERT] * totals[DATA]) == 0
    # Key heads are whole: several a GPU, or one that several GPUs hold.
    tensor = totals[TENSOR]
    for kv_heads in setting.kv_heads:
        keep &= (kv_heads % tensor == 0) | (tensor % kv_heads == 0)
    if setting.tensor_innermost:
        keep &= fills_innermost(placements.degrees[:, TENSOR], sizes)
    folded = setting.folds_experts
    if options.expert_degree is not None and not folded:
        keep &= totals[EXPERT] == options.expert_degree
    for name, value in setting.given.items():
        if name in DIMENSIONS:
            have = totals[DIMENSIONS.index(name)]
            keep &= (have * totals[EXPERT] if folded and name == "data" else have) == value
    return placements if keep.all() else placements.take(keep)


def enumerate_plans(setting: Setting, sizes: Sequence[int]) -> PlanSpace:
    """The whole space on levels of these sizes, innermost first."""
    placements = placements_of(setting, sizes)
    all_totals = placements.totals
    totals_at, totals_of = distinct(all_totals)
    totals = all_totals[:, totals_at]
    flat = np.concatenate(placements.degrees[:, LAYER_DIMENSIONS, :])
    layer_at, layer_of = distinct(flat)
    layers = placements.take(layer_at)

    # Sizes: distinct tensor, expert and context totals; each has one block of shardings.
    sizes_at, sizes_of = distinct(totals[LAYER_DIMENSIONS])
    blocks = sharding_blocks(setting, totals, sizes_at, sizes_of)
    layer_block = sizes_of[totals_of[layer_at]]
    index, layer, first = joined_ranges(blocks.first[layer_block], blocks.count[layer_block])
    # Where nothing divides, there is no sharding and no schedule: any row stands for none.
    first = np.minimum(first, max(len(index) - 1, 0))
    layer_totals = layers.totals[:, layer]
    sharding = blocks.sharding(index, layer_totals)
    schedules = _schedules(setting, totals, blocks, sizes_of)
    for name in ("microbatch", "interleave"):
        value = setting.options.fixed.given.get(name)
        if value is not None:
            schedules = schedules.take(getattr(schedules, name) == value)
    return PlanSpace(
        placements, totals, totals_of, layers, layer_of, sharding, layer, first, schedules
    )


def listed_plans(plans: Sequence[Plan]) -> PlanSpace:
    """The space of some plans of one cluster: each has its placement, sharding and schedule."""
    degrees = np.array([plan.placement.levels for plan in plans], dtype=np.int64)
    placements = Placements(np.moveaxis(degrees, 0, 2), plans[0].placement.sizes)
    columns = [(plan.interleave, plan.microbatches, plan.panels) for plan in plans]
    interleave, microbatches, panels = np.array(columns, dtype=np.int64).T
    microbatch = np.array([plan.microbatch for plan in plans])  # whole, but for a power space
    totals, index, none = placements.totals, np.arange(len(plans)), np.zeros_like(interleave)
    folded = np.array([(plan.experts_over, plan.expert_tensor) for plan in plans], np.int64).T
    return PlanSpace(
        *(placements, totals, index, placements, index),
        Sharding(microbatch, totals[TENSOR], totals[CONTEXT], panels, totals[EXPERT], *folded),
        *(index, index, Schedules(index, none, microbatch, interleave, microbatches)),
        single=True,
    )


class ShardingBlocks(Struct, frozen=True, eq=False):
    """Microbatches, panels and ways to fold experts of each distinct size, block after block."""

    microbatch: Ints
    panels: Ints
    experts_over: Ints
    expert_tensor: Ints
    first: Ints
    count: Ints

    def sharding(self, index: Ints, totals: Ints) -> Sharding:
        """Some of the entries, with the degrees of each, shape (dimensions, entries)."""
        return Sharding(
            self.microbatch[index],
            totals[TENSOR],
            totals[CONTEXT],
            self.panels[index],
            totals[EXPERT],
            self.experts_over[index],
            self.expert_tensor[index],
        )


def sharding_blocks(
    setting: Setting, totals: Ints, sizes_at: Ints, sizes_of: Ints
) -> ShardingBlocks:
    """Every microbatch that some data degree leaves room for, with every number of panels."""
    batch = setting.training.batch
    # A graph says itself how it is cut; runs of it are whole.
    length = setting.transformer.sequence_length if setting.graph_model is None else None
    microbatches, panels, folded, counts = [], [], [], []
    replicas = totals[DATA] * totals[EXPERT]
    for number, index in enumerate(sizes_at):
        tensor, context = int(totals[TENSOR, index]), int(totals[CONTEXT, index])
        largest = batch // int(replicas[sizes_of == number].min())
        # The tokens of a microbatch divide by this; under SUMMA n1 cuts the embedding instead.
        unit = context if setting.strategy == "summa" else tensor * context
        choices = setting.microbatch_sizes
        choices = choices[choices <= largest]
        if length is not None:
            choices = choices[choices * length % unit == 0]
        pieces = _panels(setting, tensor, context)
        folds = folded_experts(setting, tensor, context, int(totals[EXPERT, index]))
        ways = len(pieces) * folds.shape[1]
        microbatches.append(np.repeat(choices, ways))
        panels.append(np.tile(np.repeat(pieces, folds.shape[1]), len(choices)))
        folded.append(np.tile(folds, len(pieces) * len(choices)))
        counts.append(len(choices) * ways)
    count = np.array(counts, dtype=np.int64)
    empty = [np.empty(0, dtype=np.int64)]
    over, shared = np.concatenate(folded or [np.empty((2, 0), np.int64)], axis=1)
    return ShardingBlocks(
        np.concatenate(microbatches or empty),
        np.concatenate(panels or empty),
        over,
        shared,
        np.cumsum(count) - count,
        count,
    )


def folded_experts(setting: Setting, tensor: int, context: int, expert: int) -> Ints:
    """Ways to spread experts on groups of so many GPUs, of which so many ``expert`` ones follow.

    Where they are folded over tensor and context GPUs, x of them hold the experts and e share one:
    with t c GPUs to a group they need x e / gcd(x e, t c) groups, as many as there are. Elsewhere
    they have ``expert`` groups of their own, and are cut as the rest of a layer.

    Parameters
    ----------
    setting
        What is trained, and what of it is given.
    tensor, context, expert
        Degrees of the groups [1].

    Returns
    -------
    Ints
        x and e of each way, shape (2, ways) [1].
    """
    experts, fixed = setting.experts, setting.options.fixed
    if experts is None or not setting.folds_experts:
        return np.array([[expert], [tensor if experts else 1]])
    shared = fixed.expert_tensor or 1
    if shared not in (1, tensor):
        return np.empty((2, 0), np.int64)
    over = divisors(experts.held)
    given = setting.options.expert_degree or fixed.expert
    if setting.gathers_experts:
        given = 1
    if given is not None:
        over = over[over == given]
    group = over * shared
    over = over[group // np.gcd(group, tensor * context) == expert]
    return np.stack([over, np.full_like(over, shared)])


def _panels(setting: Setting, tensor: int, context: int) -> Ints:
    """Numbers of SUMMA panels: the longer side of the grid, doubled while panels stay wide."""
    if setting.strategy != "summa":
        return np.ones(1, dtype=np.int64)
    width, smallest = setting.transformer.hidden_size, setting.assumptions.space.smallest_panel
    fewest = max(tensor, context)
    if width / fewest < smallest:
        return np.array([fewest], dtype=np.int64)
    # The published code doubles ceil(log2(e // fewest)) times, that is while 2^i is below it.
    doublings = max(width // fewest - 1, 0).bit_length()
    counts = fewest * 2 ** np.arange(doublings, dtype=np.int64)
    return np.asarray(counts[(width % counts == 0) & (width // counts >= smallest)])


def _schedules(setting: Setting, totals: Ints, blocks: ShardingBlocks, sizes_of: Ints) -> Schedules:
    """Microbatches that divide the share of one pipeline, with every allowed interleaving."""
    share = setting.training.batch // (totals[DATA] * totals[EXPERT])
    index, owner, first = joined_ranges(blocks.first[sizes_of], blocks.count[sizes_of])
    microbatch = blocks.microbatch[index]
    keep = share[owner] % microbatch == 0
    owner, microbatch = owner[keep], microbatch[keep]
    offset = np.flatnonzero(keep) - first[owner]
    count = share[owner] // microbatch
    plain = Schedules(owner, offset, microbatch, np.ones_like(owner), count)
    if setting.interleave == "none":
        return plain
    layers = setting.layers // totals[PIPELINE]
    interleave, owner = all_divisors(layers[plain.totals])
    schedules = replace(plain.take(owner), interleave=interleave)
    stages = totals[PIPELINE][schedules.totals]
    if setting.options.schedule == "interleaved":
        several = (interleave > 1) & (stages > 1)
        schedules, stages = schedules.take(several), stages[several]
    if setting.interleave == "any":
        return schedules
    # Narayanan et al. (arXiv:2104.04473, Sec. 2.2.2): microbatches run in groups of the pipeline.
    whole = (schedules.microbatches % stages == 0) & (stages > 1)
    return schedules.take((schedules.interleave == 1) | whole)


def joined_ranges(first: Ints, count: Ints) -> tuple[Ints, Ints, Ints]:
    """The ranges first ... first + count - 1 in a row, whose each number is, where each begins."""
    start = np.cumsum(count) - count
    owner = np.repeat(np.arange(len(count)), count)
    index = np.arange(len(owner)) + np.repeat(first - start, count)
    return index, owner, start


def parts(count: Ints, most: int) -> Iterator[slice]:
    """Cut a list of counts into parts whose sum is at most so much, or a single one of them.

    Examples
    --------
    >>> list(parts(np.array([2, 1, 9, 3]), 4))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    ends, first = np.cumsum(count), 0
    while first < len(ends):
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield slice(first, last)
        first = last


def all_divisors(numbers: Ints) -> tuple[Ints, Ints]:
    """All divisors of all numbers, and whose each is.

    Examples
    --------
    >>> all_divisors(np.array([4, 3]))
    (array([1, 2, 4, 1, 3]), array([0, 0, 0, 1, 1]))
    """
    values, value_of = np.unique(numbers, return_inverse=True)
    per_value = [divisors(value) for value in values.tolist()]
    count = np.array([len(factors) for factors in per_value], dtype=np.int64)
    index, owner, _ = joined_ranges((np.cumsum(count) - count)[value_of], count[value_of])
    return np.concatenate([*per_value, values[:0]])[index], owner


def bubble_layers(setting: Setting, rules: Repetition, runs: StageRuns) -> tuple[Floats, Floats]:
    """Layers in the bubble of schedules.

    Parameters
    ----------
    setting
        Says whether the bubble is counted as scheduled, and which share of it counts.
    rules
        Layers of the model, and those of a stage.
    runs
        Stages, microbatches and interleaved stages, shape (schedules,).

    Returns
    -------
    tuple[Floats, Floats]
        Layers in the bubble if microbatches fill the stages, and further ones for want of
        microbatches, each of shape (schedules,) [1].

    References
    ----------
    Narayanan et al., arXiv:2104.04473, Sec. 2.2.
    """
    fullest = rules.fullest(runs.stages)
    m, v = real(runs.microbatches), real(runs.interleave)
    full = setting.bubble_share * (rules.layers - fullest) / v
    if not setting.scheduled_bubble:
        return full, np.zeros_like(full)
    return full, (v - 1) / v * np.maximum(rules.layers - m * fullest, 0)

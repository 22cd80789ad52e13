"""The free space of plans: batch, layers and GPUs need not divide by the degrees.

As in the exact space (`netplan.performance.space`) tensor, context and expert degrees divide what
they cut, and microbatches are equal and whole: b e divides the batch B, which makes R = B / (b e)
*rounds*, each of one microbatch on all GPUs that share experts. Beyond that

* of p stages of a pipeline the fullest hold n = ceil(l/p) of the layers l, in v equal chunks, v
  divides n. There are as few stages as hold that (and, where ends count, as leave the first and the
  last stage the same): more of them only wait. With q of the stages inside the outermost level it
  is the fewest multiple of q;
* any number d of replicas share the rounds; the slowest runs m = ceil(R/d) of them;
* degrees at a level multiply to at most its members; the others are idle. Inside the outermost
  level (of several members) there are as many replicas as have room, or as have rounds of the
  microbatch that was asked for, or else of a single sequence: GPUs of an HB domain are idle where
  not one more replica fits.

So every number of GPUs has plans, and those of several HB domains are among those of more of them.
A single domain is the outermost level itself: there any number of replicas is tried.

A *cell* is a plan but for the replicas along the outermost level, d = q d_k with q of them inside:
a placement with d_k left open, a sharding, a microbatch and v. Of the replicas, those that leave m
as it is and are not needed for memory are left out if the outermost level is a switch that does not
block, on which larger groups are never faster. Rings and meshes have more links for more members,
and on leaves that block some numbers lie better than others, so every number counts there.

Interleaved schedules of whole groups of microbatches (m divisible by p) prefer some p to smaller
ones, so with them every p counts, and so does one that is asked for.
`tests/performance/test_free_space.py` compares all of this with plans counted one by one.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Ints
from netplan.performance.plan import Plan
from netplan.performance.setting import Setting
from netplan.performance.space import (
    LAYER_DIMENSIONS,
    PlanSpace,
    Runs,
    Schedules,
    ShardingBlocks,
    degree_limits,
    expand,
    sharding_blocks,
)
from netplan.records import replace
from netplan.traffic.placement import (
    CONTEXT,
    DATA,
    DIMENSIONS,
    EXPERT,
    PIPELINE,
    TENSOR,
    Placements,
    distinct,
    divisors,
)
from netplan.workloads.operations import Sharding
from netplan.workloads.program import EQUAL_HEAD

CUT = [TENSOR, CONTEXT, EXPERT, PIPELINE]
"""Dimensions that cut one replica."""


class FreeSpace(Struct, frozen=True, eq=False):
    """All cells on some levels: a placement, and a schedule of its kind.

    Placements of one *kind* have equal total degrees, replicas inside the outermost level, and room
    along it; memory and schedules depend on nothing else.

    Parameters
    ----------
    placements
        With one replica along the outermost level.
    outer
        Which level is the outermost of several members.
    totals, kind_of
        Total degrees of each kind, shape (dimensions, kinds), and the kind of each placement.
    blocks, block_of
        Microbatches and panels of each distinct size, and which of them each kind has.
    sizes
        The shardings of all blocks, wherever their groups lie.
    schedules
        Of all kinds, with as few microbatches as any number of replicas makes.
    rounds
        Rounds for each replica along the outermost level, ceil(R/q), of shape (schedules,) [1].
    room
        Most replicas along the outermost level that have room and rounds, likewise [1].
    step
        Microbatches are a multiple of this: p for schedules of whole groups [1].
    """

    placements: Placements
    outer: int
    totals: Ints
    kind_of: Ints
    blocks: ShardingBlocks
    block_of: Ints
    sizes: Sharding
    schedules: Schedules
    rounds: Ints
    room: Ints
    step: Ints

    @property
    def places(self) -> Ints:
        """Placements of each schedule [1]."""
        count = np.bincount(self.kind_of, minlength=self.totals.shape[1])
        places: Ints = count[self.schedules.totals]
        return places

    def runs(self, schedule: Ints | slice, replicas: Ints, microbatches: Ints) -> Runs:
        """What the memory depends on, with so many replicas along the outermost level."""
        kind = self.schedules.totals[schedule]
        totals = self.totals[:, kind]
        totals[DATA] *= replicas
        sharding = self.blocks.first[self.block_of[kind]] + self.schedules.offset[schedule]
        return Runs(totals, sharding, microbatches, self.schedules.interleave[schedule])

    def some(self, schedule: Ints) -> tuple[PlanSpace, Ints]:
        """The plans of some schedules, on all placements of their kinds, and which these are."""
        chosen = np.zeros(self.totals.shape[1], dtype=np.bool_)
        schedules = self.schedules.take(schedule)
        chosen[schedules.totals] = True
        place = np.flatnonzero(chosen[self.kind_of])
        placements, kind_of = self.placements.take(place), self.kind_of[place]
        layer_at, layer_of = distinct(np.concatenate(placements.degrees[:, LAYER_DIMENSIONS, :]))
        layers, block = placements.take(layer_at), self.block_of[kind_of[layer_at]]
        index, layer, first = expand(self.blocks.first[block], self.blocks.count[block])
        sharding = self.sizes.take(index)
        return PlanSpace(
            *(placements, self.totals, kind_of, layers, layer_of, sharding, layer, first),
            schedules,
        ), place


def enumerate_cells(setting: Setting, sizes: Sequence[int]) -> FreeSpace:
    """All cells on levels of these sizes, innermost first."""
    outer = max((at for at, size in enumerate(sizes) if size > 1), default=0)
    placements, room = _replica_placements(setting, sizes, outer)
    every = placements.totals
    kind_at, kind_of = distinct(np.concatenate([every, room[None]]))
    totals, room = every[:, kind_at], room[kind_at]
    sizes_at, block_of = distinct(totals[LAYER_DIMENSIONS])
    blocks = sharding_blocks(setting, totals, sizes_at, block_of)
    own = np.repeat(totals[:, sizes_at], blocks.count, axis=1)
    sharding = Sharding(blocks.microbatch, own[TENSOR], own[CONTEXT], blocks.panels, own[EXPERT])
    index, kind, begin = expand(blocks.first[block_of], blocks.count[block_of])
    offset, one = np.arange(len(kind)) - begin[kind], np.ones_like(kind)
    schedules = Schedules(kind, offset, blocks.microbatch[index], one, one)
    schedules, rounds, room, step = _with_rounds(setting, schedules, totals, room)
    return FreeSpace(
        *(placements, outer, totals, kind_of, blocks, block_of, sharding),
        *(schedules, rounds, room, step),
    )


def _with_rounds(
    setting: Setting, schedules: Schedules, totals: Ints, room: Ints
) -> tuple[Schedules, Ints, Ints, Ints]:
    """Schedules with rounds, room and step, without those of which replicas have no round."""
    fixed, batch = setting.options.fixed, setting.training.batch
    group = schedules.microbatch * totals[EXPERT, schedules.totals]
    inside = totals[DATA, schedules.totals]
    keep = (batch % group == 0) & (inside * group <= batch)
    if fixed.microbatch is not None:
        keep &= schedules.microbatch == fixed.microbatch
    if fixed.data is not None:  # every replica of those that were asked for has a round
        keep &= fixed.data * group <= batch
    rounds = -(-(batch // group[keep]) // inside[keep])
    found, plain = _with_chunks(setting, totals, schedules.take(keep))
    rounds, most = rounds[plain], room[found.totals]
    if fixed.data is None:
        most = np.minimum(most, rounds)
    step = np.ones_like(rounds)
    if setting.interleave == "whole":
        step = np.where(found.interleave > 1, totals[PIPELINE, found.totals], 1)
    fewest = -(-rounds // np.maximum(most, 1))
    fewest = -(-fewest // step) * step
    keep = fewest <= rounds
    found = replace(found, microbatches=fewest).take(keep)
    return found, rounds[keep], most[keep], step[keep]


def _with_chunks(setting: Setting, totals: Ints, plain: Schedules) -> tuple[Schedules, Ints]:
    """Schedules with every number of chunks that the rules allow, and which plain one each was."""
    each = np.arange(len(plain.totals))
    given = setting.options.fixed.interleave
    if setting.interleave == "none":
        each = each if given in (None, 1) else each[:0]
        return plain.take(each), each
    fullest = -(-setting.training.model.layers // totals[PIPELINE])
    kinds, kind_of = np.unique(fullest, return_inverse=True)
    choices = [divisors(int(layers)) for layers in kinds]
    if given is not None:
        choices = [one[one == given] for one in choices]
    count = np.array([len(one) for one in choices], dtype=np.int64)
    kind = kind_of[plain.totals]
    flat = np.concatenate(choices) if choices else each
    index, owner, _ = expand((np.cumsum(count) - count)[kind], count[kind])
    found = replace(plain.take(owner), interleave=flat[index])
    if setting.interleave == "whole":  # a single stage has nothing to interleave with
        keep = (found.interleave == 1) | (totals[PIPELINE, found.totals] > 1)
        return found.take(keep), owner[keep]
    return found, owner


def _replica_placements(
    setting: Setting, sizes: Sequence[int], outer: int
) -> tuple[Placements, Ints]:
    """Placements of one replica along the outermost level, and how many have room there."""
    model, given = setting.training.model, dict(setting.options.fixed.given)
    if setting.options.expert_degree is not None:
        given["expert"] = setting.options.expert_degree
    limits, caps = degree_limits(setting, prod(sizes))
    numbers = stage_numbers(setting, prod(sizes[:outer]))
    some = np.zeros(caps[PIPELINE] + 1, dtype=np.bool_)  # what some number of stages divides by
    for number in numbers:
        some[divisors(int(number))] = True
    wanted = {at: given[name] for at, name in enumerate(DIMENSIONS) if name in given and at in CUT}
    for at, value in wanted.items():
        limits[at] = value if limits[at] % value == 0 else 1
    chosen = np.empty((1, 0, len(CUT)), dtype=np.int64)
    totals = np.ones((1, len(CUT)), dtype=np.int64)
    for size in sizes:
        ways = _ways(size, limits, caps, np.flatnonzero(some))
        # Many placements have equal totals: what fits is asked once for each of them.
        kind_at, kind_of = distinct(totals.T)
        fits = np.ones((len(kind_at), len(ways)), dtype=np.bool_)
        for at, dimension in enumerate(CUT):
            product = np.multiply.outer(totals[kind_at, at], ways[:, at])
            fits &= product <= caps[dimension]
            if dimension == PIPELINE:
                fits &= some[np.minimum(product, caps[PIPELINE])]
            else:
                fits &= limits[dimension] % product == 0
        after, count = np.nonzero(fits)[1], fits.sum(axis=1)
        index, before, _ = expand((np.cumsum(count) - count)[kind_of], count[kind_of])
        after = after[index]
        totals = totals[before] * ways[after]
        chosen = np.concatenate([chosen[before], ways[after][:, None, :]], axis=1)
    tensor, stages = totals[:, CUT.index(TENSOR)], totals[:, CUT.index(PIPELINE)]
    keep = np.ones(len(totals), dtype=np.bool_)
    if model.kv_heads:
        keep &= (model.kv_heads % tensor == 0) | (tensor % model.kv_heads == 0)
    for dimension, value in wanted.items():
        keep &= totals[:, CUT.index(dimension)] == value
    keep &= np.isin(stages, numbers)
    if "pipeline" not in given and setting.interleave != "whole":
        inside = chosen[:, :outer, CUT.index(PIPELINE)].prod(axis=1)
        every = np.arange(1, model.layers + 1)
        first = np.maximum.accumulate(np.where(_changes(setting), every, 0))
        keep &= stages - inside < first[np.minimum(stages, model.layers) - 1]
    degrees = np.ones((len(sizes), len(DIMENSIONS), int(keep.sum())), dtype=np.int64)
    degrees[:, CUT, :] = chosen[keep].transpose(1, 2, 0)
    return _with_inner_replicas(setting, Placements(degrees, tuple(sizes)), outer)


def _ways(size: int, limits: Sequence[int], caps: Sequence[int], stages: Ints) -> Ints:
    """Degrees of one replica at a level of this size, shape (ways, dimensions of a cut)."""
    ways = np.ones((1, 0), dtype=np.int64)
    for dimension in CUT:
        choices = np.arange(1, min(size, caps[dimension]) + 1)
        if dimension == PIPELINE:
            choices = stages[stages <= size]
        else:
            choices = choices[limits[dimension] % choices == 0]
        used = np.multiply.outer(ways.prod(axis=1), choices)
        before, after = np.nonzero(used <= size)
        ways = np.column_stack([ways[before], choices[after]])
    return ways


def stage_numbers(setting: Setting, inside: int = 1) -> Ints:
    """Numbers of pipeline stages: the fewest of all that hold the same, or that which was given.

    Of stages that lie partly inside the outermost level, q of up to ``inside`` members, the fewest
    are a multiple of q: 4 stages may lie better than 3 that hold as much.

    Examples
    --------
    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.performance.setting import Training
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> on, model = ACCELERATORS.load("h200"), MODELS.load("llama-3-8b")
    >>> stage_numbers(Setting(Training.on(on, model, ITERATION_MODELS.load("4d"))))
    array([ 1,  2,  3,  4,  5,  6,  7,  8, 11, 16, 32])
    >>> stage_numbers(Setting(Training.on(on, model, ITERATION_MODELS.load("4d"))), inside=4)
    array([ 1,  2,  3,  4,  5,  6,  7,  8,  9, 11, 12, 16, 18, 32])
    """
    layers, given = setting.training.model.layers, setting.options.fixed.pipeline
    every = np.arange(1, layers + 1)
    if given is not None:
        every = every[every == given]
    if given is not None or setting.interleave == "whole":
        return every
    changed = _changes(setting)
    fewest, alike = every[changed], np.cumsum(changed)
    splits = np.arange(1, min(inside, layers) + 1)
    whole = -(-fewest[:, None] // splits) * splits
    same = alike[np.minimum(whole, layers) - 1] == alike[fewest - 1][:, None]
    return np.unique(whole[same & (whole <= layers)])


def _changes(setting: Setting) -> Bools:
    """Whether a number of stages, from 1 on, holds something else than one stage less does."""
    layers, variant = setting.training.model.layers, setting.variant
    every = np.arange(1, layers + 1)
    held = -(-layers // every)
    changed: Bools = np.diff(held, prepend=0) != 0
    if variant.embedding or variant.lm_head:
        missing = np.minimum(every * held - layers, EQUAL_HEAD)
        changed |= np.diff(missing, prepend=-1) != 0
        changed[:2] = True  # one stage has both ends, of two each has one
    return changed


def _with_inner_replicas(
    setting: Setting, placements: Placements, outer: int
) -> tuple[Placements, Ints]:
    """The same with as many replicas as fit inside the outermost level, and the room along that.

    Replicas that were asked for are spread over the levels in every way.
    """
    degrees, sizes = placements.degrees, placements.sizes or ()
    cut, fixed = degrees.prod(axis=1), setting.options.fixed
    given = fixed.data
    rounds = setting.training.batch // (degrees[:, EXPERT].prod(axis=0) * (fixed.microbatch or 1))
    for at, size in enumerate(sizes):
        most = size // cut[at]
        if at == outer:
            break
        if given is None:
            degrees[at, DATA] = np.minimum(most, np.maximum(rounds, 1))
            rounds = rounds // degrees[at, DATA]
            continue
        choices = divisors(given)
        fits = np.multiply.outer(degrees[:, DATA].prod(axis=0), choices)
        old, new = np.nonzero((given % fits == 0) & (choices <= most[:, None]))
        degrees, cut = degrees[:, :, old].copy(), cut[:, old]
        degrees[at, DATA] = choices[new]
    room = sizes[outer] // cut[outer]
    if given is not None:
        inside = degrees[:, DATA].prod(axis=0)
        keep = (given % inside == 0) & (given // inside <= room)
        degrees, room = degrees[:, :, keep], (given // inside)[keep]
    return Placements(degrees, placements.sizes), room


def listed_cells(
    plans: PlanSpace, outer: int, cells: tuple[Ints, Ints], counts: tuple[Ints, Ints]
) -> PlanSpace:
    """Plans of some cells (placement and schedule), of so many replicas and microbatches each."""
    (place, schedule), (replicas, microbatches) = cells, counts
    each = np.arange(len(place))
    degrees = plans.placements.degrees[:, :, place]
    degrees[outer, DATA] = replicas
    placements = Placements(degrees, plans.placements.sizes)
    schedules = plans.schedules.take(schedule)
    return PlanSpace(
        *(placements, placements.totals, each, plans.layer_placements, plans.layer_of[place]),
        *(plans.sharding, plans.sharding_layer, plans.first_sharding),
        replace(schedules, totals=each, microbatches=microbatches),
    )


def plan_of(space: FreeSpace, cell: tuple[int, int], counts: tuple[int, int]) -> Plan:
    """One plan: placement and schedule, microbatches and replicas along the outermost level."""
    (place, schedule), (microbatches, replicas) = cell, counts
    degrees = space.placements.degrees[:, :, [place]]
    degrees[space.outer, DATA] = replicas
    kind = space.schedules.totals[schedule]
    sharding = space.blocks.first[space.block_of[kind]] + space.schedules.offset[schedule]
    return Plan(
        placement=Placements(degrees, space.placements.sizes).at(0),
        microbatch=int(space.schedules.microbatch[schedule]),
        microbatches=microbatches,
        interleave=int(space.schedules.interleave[schedule]),
        panels=int(space.sizes.panels[sharding]),
    )

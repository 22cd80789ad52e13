"""The free space of plans: batch, layers and GPUs need not divide by the degrees.

As in the exact space (`netplan.performance.space`) tensor, context and expert degrees divide what
they cut. Microbatches of b sequences are equal; b divides the batch B or is a power of two (or the
one that is asked for), and b e is at most B. That makes R = ceil(B / (b e)) *rounds*, each of one
microbatch on all GPUs that share experts; what the last round lacks is computed all the same.
Beyond that

* of p stages of a pipeline the fullest hold n = ceil(l/p) of the layers l, in v equal chunks, v
  divides n (under iteration model ``calibrated`` with memory by stack also ceil((l + 1)/p) or
  ceil((l + 2)/p): the ends then hold less). There are as few stages as hold that (and, where ends
  count, as leave the first and the last stage the same): more of them only wait. With some of the
  stages inside the outermost level it is the fewest multiple of those;
* any number d < 2R of replicas share the rounds; the slowest runs m = ceil(R/d) of them. More
  replicas than rounds share the memory, or fill equal domains;
* degrees at a level multiply to at most its members; the others are idle. Any number of replicas
  lies inside the outermost level (of several members), where they fill a level before they take the
  next.

So every number of GPUs has plans, and those of some HB domains are among those of more of them
(which may take longer where leaves block: those of a larger network cut domains and groups
elsewhere). If a plan on domains of h GPUs can be split anew over as many GPUs in domains of f h,
with the same degrees, that is a plan there. Not all can: what is left over in several domains is no
replica, since the ranks of a group keep to their rail.

A *cut* says how one replica is cut and run, wherever its GPUs lie: tensor, context, expert and
pipeline degrees, microbatch, panels, v. A *cell* is a cut on the levels of a fabric, a plan but for
the replicas.

Of the replicas along the outermost level, those that leave m as it is and are not needed for memory
are left out if that level is a switch that does not block, on which larger groups are never faster.
Rings and meshes have more links for more members, and on leaves that block some numbers lie better
than others, so every number counts there. So it does inside: more replicas share what crosses to
other domains, fewer take fewer steps.

Where training software says what memory holds, the space is what published recipes vary
(`netplan.performance.usual_plan`), unless a degree is given: tensor degrees that divide an HB
domain or are powers of two, inside it; context degrees up to 16 that leave a GPU 4,096 tokens of a
sequence; up to 64 stages; microbatches of 1, 2, 4 or 8 sequences with stages, up to 32 without.
What its plans keep, a cell says by a rung and a number of layers. With ``--space model`` its plans
also have all GPUs, and batches that their replicas divide.

Interleaved schedules of whole groups of microbatches (m divisible by p) prefer some p to smaller
ones, so with them every p counts, and so does one that is asked for. Under iteration model
``calibrated``, or with memory by stack, every p counts too: stages exchange weights of l/p layers
each; tensor groups take the innermost level first, as training software places them.
`tests/performance/test_free_space.py` and `test_ladder.py` beside it compare all of this with plans
counted one by one.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Columns, Floats, Ints, real
from netplan.levels import outermost
from netplan.performance import space
from netplan.performance.setting import Setting
from netplan.performance.usual_plan import LEAST_TOKENS, MOST_STAGES, MOST_TENSOR
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
    fills_innermost,
)
from netplan.workloads.operations import Sharding
from netplan.workloads.program import EQUAL_HEAD, fullest_stages

CUT = [TENSOR, CONTEXT, EXPERT, PIPELINE]
"""Dimensions that cut one replica."""


class ReplicaCuts(Struct, frozen=True, eq=False):
    """All cuts of a replica that some number of GPUs has room for.

    Parameters
    ----------
    totals
        Distinct degrees, with one replica, shape (dimensions, distinct) [1].
    sizes
        Their shardings, wherever their groups lie.
    schedules
        The cuts, with as few microbatches as any number of replicas makes; ``offset`` says which
        of the sizes each has.
    rounds
        R of each cut [1].
    replicas
        No placement of a cut has more of them [1].
    step, least
        Microbatches are a multiple of this, and no fewer than that: p for schedules of whole
        groups; no fewer than p interleaved ones where stacks say what memory holds [1].
    """

    totals: Ints
    sizes: Sharding
    schedules: space.Schedules
    rounds: Ints
    replicas: Ints
    step: Ints
    least: Ints

    @property
    def count(self) -> int:
        """Cuts [1]."""
        return len(self.rounds)

    def microbatch(self, cut: Ints | slice) -> Floats:
        """Sequences of the microbatches of some cuts [1]."""
        return real(self.schedules.microbatch[cut])

    def take(self, cut: Ints | Bools) -> "ReplicaCuts":
        """Some of the cuts."""
        entries = (self.rounds, self.replicas, self.step, self.least)
        some = (column[cut] for column in entries)
        return ReplicaCuts(self.totals, self.sizes, self.schedules.take(cut), *some)

    def runs(self, cut: Ints | slice, replicas: Ints, microbatches: Ints) -> space.StageRuns:
        """What the memory of some cuts depends on, with so many replicas."""
        totals = self.totals[:, self.schedules.totals[cut]]
        totals[DATA] = replicas
        schedules = self.schedules
        return space.StageRuns(
            totals, schedules.offset[cut], microbatches, schedules.interleave[cut]
        )


class LayerRows(NamedTuple):
    """Distinct layers on levels: the groups that run each, and what it computes."""

    placements: Placements
    sharding: Sharding


class Layers(Columns, frozen=True, eq=False):
    """Cuts with their tensor, context and expert groups placed on levels, one entry each."""

    cut: Ints  # which of the cuts
    degrees: Ints  # shape (levels, dimensions, entries), 1 for pipeline and data
    row: Ints  # which of the distinct layers


class Cells(Columns, frozen=True, eq=False):
    """Cuts on the levels of a fabric, one entry each.

    Parameters
    ----------
    cut, row
        Which of the cuts, and which row of their layers.
    placements
        With one replica, or those that were asked for.
    room
        Replicas that each level has room for, shape (levels, cells) [1].
    replicas
        Most of them that count, together [1].
    fewest
        Microbatches that as many make [1].
    rung, again
        What each keeps, a place among the rungs of the setting (`netplan.performance.ladder`);
        layers of each stage that are computed again or sent to the host, as few as fit [1].
    """

    cut: Ints
    row: Ints
    placements: Placements
    room: Ints
    replicas: Ints
    fewest: Ints
    rung: Ints | int = 0
    again: Ints | int = 0

    def times(self, replicas: Ints) -> "Cells":
        """With so many times the replicas, all of them along the outermost level."""
        degrees, sizes = self.placements.degrees.copy(), self.placements.sizes or ()
        degrees[outermost(sizes), DATA] *= replicas
        return replace(self, placements=Placements(degrees, sizes))


def enumerate_cuts(setting: Setting, gpus: int, domain: int) -> ReplicaCuts:
    """All cuts of a replica of at most so many GPUs, in HB domains of so many.

    Where stacks say what memory holds, degrees are those that teams vary.
    """
    totals = _cut_degrees(setting, gpus, domain)
    sizes_at, block_of = distinct(totals[space.LAYER_DIMENSIONS])
    blocks = space.sharding_blocks(setting, totals, sizes_at, block_of)
    block_totals = np.repeat(totals[:, sizes_at], blocks.count, axis=1)
    sizes = blocks.sharding(np.arange(len(blocks.microbatch)), block_totals)
    index, kind, _ = space.joined_ranges(blocks.first[block_of], blocks.count[block_of])
    ones = np.ones_like(kind)
    schedules = space.Schedules(kind, index, blocks.microbatch[index], ones, ones)

    fixed, batch = setting.options.fixed, setting.training.batch
    group = schedules.microbatch * totals[EXPERT, kind]
    room = gpus // totals.prod(axis=0)[kind]
    keep = group <= batch
    if fixed.microbatch is not None:
        keep &= schedules.microbatch == fixed.microbatch
    replicas = asked_replicas(setting, totals[EXPERT, kind])
    if replicas is not None:  # every replica of those that were asked for has room and a round
        keep &= (replicas > 0) & (replicas <= _ceil(batch, group)) & (replicas <= room)
        replicas = replicas[keep]
    rounds, room = _ceil(batch, group[keep]), room[keep]
    chunked, plain = _with_chunks(setting, totals, schedules.take(keep))
    rounds = rounds[plain]
    room = np.minimum(room[plain], 2 * rounds - 1)
    replicas = room if replicas is None else replicas[plain]
    step = least = np.ones_like(rounds)
    if setting.interleave == "whole":
        least = np.where(chunked.interleave > 1, totals[PIPELINE, chunked.totals], 1)
        step = step if setting.by_stack and setting.free else least
    fewest = np.maximum(_ceil(_ceil(rounds, replicas), step) * step, least)
    keep = fewest <= rounds
    if setting.by_stack and fixed.microbatch is None:
        several = totals[PIPELINE, chunked.totals] > 1
        keep &= ~several | np.isin(chunked.microbatch, SEQUENCES_OF_PIPELINES)
    made = replace(chunked, microbatches=fewest)
    return ReplicaCuts(totals, sizes, made, rounds, replicas, step, least).take(keep)


def asked_replicas(setting: Setting, expert: Ints) -> Ints | None:
    """Replicas that are asked for, beside so many ``expert`` groups; 0 where these do not divide.

    Folded experts lie on replicas, which their groups are then part of.
    """
    data = setting.options.fixed.data
    if data is None:
        return None
    if not setting.folds_experts:
        return np.full_like(expert, data)
    return np.where(data % expert == 0, data // expert, 0)


@lru_cache(maxsize=4096)
def _chunks(layers: int, stages: int, *, lighter: bool) -> Ints:
    """Parts into which stages split, where both ends may lack a layer each."""
    fullest = fullest_stages(layers, stages) if lighter else {-(-layers // stages)}
    return np.array(sorted({part for held in fullest for part in divisors(held).tolist()}))


SEQUENCES_OF_PIPELINES = (1, 2, 4, 8)
"""Sequences of the microbatches of pipelines that a search tries beside memory by stack [1]."""
CONTEXT_DEGREES = (1, 2, 4, 8, 16)
"""Context degrees that it tries [1]."""


PAIR = 2
"""GPUs of an HB domain that is too small for the tensor groups of any published run [1]."""


def _varied(setting: Setting, index: int, choices: Ints, domain: int) -> Ints:
    """Degrees of one dimension that teams vary: tensor groups inside a domain, few stages."""
    varied: Ints = choices
    if index == TENSOR:
        if setting.options.across_domains:
            return choices
        inside = (domain % choices == 0) | (choices & (choices - 1) == 0)
        most = min(domain, setting.options.use_per_domain or domain)
        # Chips without HB domains have their network for it; pairs for what teams run.
        if domain <= PAIR:
            most = MOST_STAGES if domain == 1 else MOST_TENSOR
        varied = choices[inside & (choices <= most)]
    if index == CONTEXT:
        longest = max(1, setting.transformer.sequence_length // LEAST_TOKENS)
        varied = choices[np.isin(choices, CONTEXT_DEGREES) & (choices <= longest)]
    if index == PIPELINE:
        # Of a block of layers computed again every fullest stage has as many.
        again = setting.options.recomputation
        fullest = -(-setting.layers // choices)
        varied = choices[(choices <= MOST_STAGES) & (fullest >= (again.block if again else 0))]
    return varied


def _ceil(number: Ints | int, parts: Ints) -> Ints:
    return -(-number // parts)


def _cut_degrees(setting: Setting, gpus: int, domain: int) -> Ints:
    """Degrees that the rules allow for one replica, shape (dimensions, ways)."""
    given = setting.given
    if setting.options.expert_degree is not None and not setting.folds_experts:
        given["expert"] = setting.options.expert_degree
    limits, caps = space.degree_limits(setting, gpus)
    totals = np.ones((len(DIMENSIONS), 1), dtype=np.int64)
    for index in CUT:
        choices = stage_numbers(setting, gpus) if index == PIPELINE else divisors(limits[index])
        choices = choices[choices <= caps[index]]
        for kv_heads in setting.kv_heads if index == TENSOR else ():
            choices = choices[(kv_heads % choices == 0) | (choices % kv_heads == 0)]
        if DIMENSIONS[index] in given:
            choices = choices[choices == given[DIMENSIONS[index]]]
        elif setting.by_stack:
            choices = _varied(setting, index, choices, domain)
        before, new = np.nonzero(np.multiply.outer(totals.prod(axis=0), choices) <= gpus)
        totals = totals[:, before]
        totals[index] = choices[new]
    return totals


def _with_chunks(
    setting: Setting, totals: Ints, plain: space.Schedules
) -> tuple[space.Schedules, Ints]:
    """Schedules with every number of chunks that the rules allow, and which plain one each was."""
    stages, given = totals[PIPELINE, plain.totals], setting.options.fixed.interleave
    if setting.interleave == "none":
        chunks, owner = np.ones_like(stages), np.arange(len(stages))
    else:
        lighter = setting.by_stack and setting.training.calibrated is not None
        numbers = range(1, stages.max(initial=0) + 1)
        ways = [_chunks(setting.layers, number, lighter=lighter) for number in numbers]
        # What is asked for need not divide: some stages hold less.
        if lighter and given is not None:
            most = [-(-setting.layers // number) for number in numbers]
            ways = [np.array([given])[: given <= layers] for layers in most]
        count = np.array([0, *map(len, ways)])
        index, owner, _ = space.joined_ranges((np.cumsum(count) - count)[stages], count[stages])
        chunks = np.concatenate([*ways, stages[:0]])[index]
    keep = np.ones(len(chunks), np.bool_) if given is None else chunks == given
    if setting.interleave == "whole":  # a single stage has nothing to interleave with
        keep &= (chunks == 1) | (stages[owner] > 1)
    if setting.options.schedule == "interleaved":
        keep &= (chunks > 1) & (stages[owner] > 1)
    owner = owner[keep]
    return replace(plain.take(owner), interleave=chunks[keep]), owner


def place_layers(
    setting: Setting, cuts: ReplicaCuts, some: Ints, sizes: Sequence[int]
) -> tuple[Layers, LayerRows]:
    """All ways to place the groups of a layer of some cuts, on levels of these sizes."""
    totals = cuts.totals[:, cuts.schedules.totals[some]]
    kinds_at, kind_of = distinct(totals)
    wanted = totals[:, kinds_at]
    kind, degrees = _place_tensor(setting, wanted[TENSOR], sizes)
    for dimension in space.LAYER_DIMENSIONS:
        if dimension != TENSOR:
            owner, degrees = _split(wanted[dimension, kind], dimension, degrees, sizes)
            kind = kind[owner]
    if setting.folds_experts:  # their groups are ranks that follow each other
        keep = _follows(degrees, sizes)
        kind, degrees = kind[keep], degrees[:, :, keep]
    # Pairs of a cut and a way to place it.
    ways = np.bincount(kind, minlength=len(kinds_at))
    order = np.argsort(kind, kind="stable")
    index, owner, _ = space.joined_ranges((np.cumsum(ways) - ways)[kind_of], ways[kind_of])
    degrees, cut = degrees[:, :, order[index]], some[owner]
    flat = np.concatenate(degrees[:, space.LAYER_DIMENSIONS, :])
    sharding = cuts.schedules.offset[cut]
    row_at, row = distinct(np.concatenate([flat, sharding[None] + 1]))
    return Layers(cut, degrees, row), LayerRows(
        Placements(degrees[:, :, row_at]), cuts.sizes.take(sharding[row_at])
    )


def _follows(degrees: Ints, sizes: Sequence[int]) -> Bools:
    """Whether expert groups fill what tensor and context groups leave of the inner levels first."""
    room = np.array(sizes)[:, None] // degrees[:, [TENSOR, CONTEXT]].prod(axis=1)
    rest, good = degrees[:, EXPERT].prod(axis=0), np.ones(degrees.shape[2], np.bool_)
    for here, most in zip(degrees[:, EXPERT], room, strict=True):
        pairs, index = np.unique(np.stack([rest, most]), axis=1, return_inverse=True)
        largest = np.array([max(d for d in divisors(n) if d <= m) for n, m in pairs.T.tolist()])
        good &= here == largest[index.ravel()] if len(largest) else good
        rest = rest // here
    return good


def _place_tensor(setting: Setting, wanted: Ints, sizes: Sequence[int]) -> tuple[Ints, Ints]:
    """All ways to place tensor groups, of which there are few sizes, as :func:`_split` has them."""
    values, value_of = np.unique(wanted, return_inverse=True)
    degrees = np.ones((len(sizes), len(DIMENSIONS), len(values)), dtype=np.int64)
    owner, degrees = _split(values, TENSOR, degrees, sizes)
    if setting.tensor_innermost:
        keep = fills_innermost(degrees[:, TENSOR], sizes)
        owner, degrees = owner[keep], degrees[:, :, keep]
    ways = np.bincount(owner, minlength=len(values))
    way, kind, _ = space.joined_ranges((np.cumsum(ways) - ways)[value_of], ways[value_of])
    return kind, degrees[:, :, way]


def place_stages(
    setting: Setting, cuts: ReplicaCuts, layers: Layers, sizes: Sequence[int]
) -> Cells:
    """All cells of cuts whose layers are placed: their stages, and replicas in what is left."""
    outer, fixed = outermost(sizes), setting.options.fixed
    stages = cuts.totals[PIPELINE, cuts.schedules.totals[layers.cut]]
    owner, degrees = _split(stages, PIPELINE, layers.degrees, sizes)
    if fixed.pipeline is None and not setting.every_stage_counts:
        inside = degrees[:outer, PIPELINE].prod(axis=0)
        every = np.arange(1, setting.layers + 1)
        first = np.maximum.accumulate(np.where(_changes(setting), every, 0))
        keep = stages[owner] - inside < first[stages[owner] - 1]
        owner, degrees = owner[keep], degrees[:, :, keep]
    given = asked_replicas(setting, cuts.totals[EXPERT, cuts.schedules.totals[layers.cut[owner]]])
    if given is not None:
        index, degrees = _split(given, DATA, degrees, sizes)
        owner, given = owner[index], given[index]
    cut = layers.cut[owner]
    room = np.array(sizes)[:, None] // degrees.prod(axis=1)
    replicas: Ints = np.minimum(room.prod(axis=0), 2 * cuts.rounds[cut] - 1)
    if given is not None:
        replicas = given
    divides = _divides(setting, cuts, cut, degrees, sizes)
    if not setting.free:
        degrees[:, DATA] = np.where(divides, room, 1) if fixed.data is None else degrees[:, DATA]
        replicas = degrees[:, DATA].prod(axis=0)
    step: Ints = cuts.step[cut]
    fewest = np.maximum(_ceil(_ceil(cuts.rounds[cut], replicas), step) * step, cuts.least[cut])
    placements = Placements(degrees, tuple(sizes))
    cells = Cells(cut, layers.row[owner], placements, room, replicas, fewest)
    if not setting.free:
        return cells.take(divides & (fewest * replicas == cuts.rounds[cut]))
    return cells if setting.interleave != "whole" else cells.take(fewest <= cuts.rounds[cut])


def _divides(
    setting: Setting, cuts: ReplicaCuts, cut: Ints, degrees: Ints, sizes: Sequence[int]
) -> Bools:
    """Whether plans use all members of every level, and the batch divides by their replicas."""
    every = np.ones(len(cut), np.bool_)
    if setting.free:
        return every
    used = degrees.prod(axis=1)
    members = np.array(sizes)[:, None]
    full = ((members % used == 0) & ((members == used) | (setting.options.fixed.data is None))).all(
        axis=0
    )
    replicas = members.prod() // used.prod(axis=0) * degrees[:, DATA].prod(axis=0)
    group = cuts.microbatch(cut) * cuts.totals[EXPERT, cuts.schedules.totals[cut]] * replicas
    return np.asarray(full & (setting.training.batch % group == 0))


def _split(totals: Ints, dimension: int, degrees: Ints, sizes: Sequence[int]) -> tuple[Ints, Ints]:
    """Every way to split the total degrees of a dimension over the levels, in what room is left.

    Whose each way is, and all degrees, shape (levels, dimensions, ways).
    """
    owner, rest = np.arange(len(totals)), totals
    if totals.max(initial=1) == 1:
        return owner, degrees
    beyond = [prod(sizes[level + 1 :]) for level in range(len(sizes))]
    for level, size in enumerate(sizes):
        last = level == len(sizes) - 1
        part, before = (rest, np.arange(len(rest))) if last else space.all_divisors(rest)
        used = part * degrees[level].prod(axis=0)[before]
        keep = (used <= size) & (rest[before] // part <= beyond[level])
        part, before = part[keep], before[keep]
        owner, rest, degrees = owner[before], rest[before] // part, degrees[:, :, before]
        degrees[level, dimension] = part
    return owner, degrees


def filling(room: Ints, replicas: Ints) -> Ints:
    """Which number of replicas is the first of at least so many that fill levels with such room.

    >>> filling(np.array([[4], [3]]), np.array([7]))
    array([4])
    """
    lower = np.cumprod(room, axis=0) // room
    return np.asarray((np.minimum(_ceil(replicas, lower), room) - 1).sum(axis=0))


def filled(room: Ints, number: Ints) -> Ints:
    """Replicas at levels with such room, which fill one level before they take the next.

    Shape of both is (levels, ways). There may be 1, 2, 3, 4, 8 or 12 of them where the inner of two
    levels has room for 4 and the outer for 3.

    >>> filled(np.array([[4], [3]]), np.arange(6)).prod(axis=0)
    array([ 1,  2,  3,  4,  8, 12])
    """
    lower = np.cumsum(room - 1, axis=0) - (room - 1)
    return np.asarray(1 + np.clip(number - lower, 0, room - 1))


def stage_numbers(setting: Setting, inside: int = 1) -> Ints:
    """Numbers of pipeline stages: the fewest of all that hold the same, or that which was given.

    Of stages that lie partly inside the outermost level, q of up to ``inside`` members, the fewest
    are a multiple of q: 4 stages may lie better than 3 that hold as much.

    Examples
    --------
    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.performance.setting import TrainedModel
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> on, model = ACCELERATORS.load("h200"), MODELS.load("llama-3-8b")
    >>> stage_numbers(Setting(TrainedModel.make(on, model, ITERATION_MODELS.load("4d"))))
    array([ 1,  2,  3,  4,  5,  6,  7,  8, 11, 16, 32])
    >>> stage_numbers(Setting(TrainedModel.make(on, model, ITERATION_MODELS.load("4d"))), inside=4)
    array([ 1,  2,  3,  4,  5,  6,  7,  8,  9, 11, 12, 16, 18, 32])
    """
    layers, given = setting.layers, setting.options.fixed.pipeline
    every = np.arange(1, layers + 1)
    if given is not None:
        every = every[every == given]
    if given is not None or setting.every_stage_counts:
        return every
    changed = _changes(setting)
    fewest, alike = every[changed], np.cumsum(changed)
    splits = np.arange(1, min(inside, layers) + 1)
    whole = -(-fewest[:, None] // splits) * splits
    same = alike[np.minimum(whole, layers) - 1] == alike[fewest - 1][:, None]
    # No np.unique, which would import numpy.ma: a tenth of a comparison's time.
    counts = np.bincount(whole[same & (whole <= layers)])
    return np.flatnonzero(counts)


def _changes(setting: Setting) -> Bools:
    """Whether a number of stages, from 1 on, holds something else than one stage less does."""
    layers, variant = setting.layers, setting.variant
    every = np.arange(1, layers + 1)
    held = -(-layers // every)
    changed: Bools = np.diff(held, prepend=0) != 0
    if variant.embedding or variant.lm_head:
        missing = np.minimum(every * held - layers, EQUAL_HEAD)
        changed |= np.diff(missing, prepend=-1) != 0
        changed[:2] = True  # one stage has both ends, of two each has one
    return changed


def listed_cells(
    cuts: ReplicaCuts, cells: Cells, rows: LayerRows, microbatches: Ints
) -> space.PlanSpace:
    """Plans of cells, with their replicas and so many microbatches each."""
    index, row = np.arange(len(cells.cut)), np.arange(rows.placements.count)
    placements = cells.placements
    schedules = cuts.schedules.take(cells.cut)
    return space.PlanSpace(
        *(placements, placements.totals, index, rows.placements, cells.row),
        *(rows.sharding, row, row),
        replace(schedules, totals=index, offset=np.zeros_like(index), microbatches=microbatches),
    )

"""How parallel degrees lie on the levels of a fabric: all ways as arrays, and one way rank by rank.

Each level of size n is split among the parallel dimensions: at every level the degrees multiply to
n, or to less where some of its members stay idle, the last ones. Multiplied over the levels they
are the degrees of the whole cluster. Everywhere the dimensions have one order, the innermost first:
tensor, context, expert, data, pipeline. Experts are spread over GPUs that hold different data, so
the data parallel group of all other weights is expert x data.

A search looks at all placements at once (`Placements`, arrays); traffic follows one (`Placement`).
Written one after the other, innermost level first and inside a level in the order of the
dimensions, its degrees are the radices of a number system, and a GPU's number written in it gives
its coordinates:

    radices  n(level 0, tensor), n(level 0, context), ..., n(level 1, tensor), ...

so tensor-parallel neighbours are neighbours in the cluster. The members of one parallel group
differ only in the digits of its dimensions; listing them is a transposition, not a search. Ranks
are numbered so among the GPUs that work; where some are idle, `Placement.gpu_of_rank` says which
GPU is meant.

Experts may be *folded* over the ranks of a stage instead, whatever dimensions these differ in
(Megatron-Core's parallel folding, arXiv:2504.14960): each e ranks that follow each other share an
expert, each x of those have all experts, and as often as there are x e ranks in a stage the experts
are there. Two groups are made of them, beside those of the dimensions: ``experts``, x ranks that
are e apart and exchange tokens, and ``copies``, ranks that are x e apart and hold the same experts.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import gcd, isqrt, prod
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Columns, Indices, Ints
from netplan.errors import InputError
from netplan.levels import Level, LevelKind, outermost
from netplan.records import replace
from netplan.workloads.operations import COPIES, EXPERTS


class Degrees(NamedTuple):
    """Parallel degrees of one level, or of a whole plan, in the order of the dimensions [1].

    Examples
    --------
    >>> Degrees(tensor=8, pipeline=4)
    Degrees(tensor=8, context=1, expert=1, data=1, pipeline=4)
    """

    tensor: int = 1
    context: int = 1
    expert: int = 1
    data: int = 1
    pipeline: int = 1


DIMENSIONS = Degrees._fields
TENSOR, CONTEXT, EXPERT, DATA, PIPELINE = range(len(DIMENSIONS))


class Folding(NamedTuple):
    """How experts lie on ranks that follow each other, of whatever dimensions.

    Parameters
    ----------
    over, shared_by
        GPUs over which the experts are spread, x, and GPUs that share one, e [1].
    merged_copies
        Copies of a row that a dispatch makes, where those for one place are sent there once; 0
        where each is sent for itself [1].
    """

    over: int
    shared_by: int
    merged_copies: int = 0


OnLevels = tuple[tuple[int, int], ...]
"""Members of a group at each level, and ranks from one to the next of them there [1]."""


def spread_over(sizes: Sequence[int], members: int, apart: int) -> OnLevels:
    """How a group lies on levels, of ranks that are so far apart and fill level after level.

    Where they would fill them unevenly, all members count at the outermost level.

    Parameters
    ----------
    sizes
        Ranks of each level that follow each other, innermost first [1].
    members, apart
        Members of the group, and ranks from one to the next [1].

    Examples
    --------
    Sixteen ranks that are two apart, on domains of eight: four in each of four domains.

    >>> spread_over((8, 16), members=16, apart=2)
    ((4, 2), (4, 1))
    >>> spread_over((6, 4), members=4, apart=1)
    ((1, 1), (4, 1))
    """
    levels, rest = [], members
    for size in sizes:
        room = max(1, size // apart)
        here = min(rest, room)
        fills = size % apart == 0 or apart % size == 0
        if rest > 1 and not (fills and room % here == 0 and rest % here == 0):
            return _outermost_alone(sizes, members)
        levels.append((here, min(apart, size)))
        rest, apart = rest // here, max(1, apart // size)
    return tuple(levels)


def _outermost_alone(sizes: Sequence[int], members: int) -> OnLevels:
    return (*[(1, 1)] * (len(sizes) - 1), (members, 1))


@lru_cache(maxsize=4096)
def divisors(number: int) -> Ints:
    """All divisors, in rising order.

    Examples
    --------
    >>> divisors(12)
    array([ 1,  2,  3,  4,  6, 12])
    """
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return np.array(sorted({*small, *(number // d for d in small)}), dtype=np.int64)


class Placements(Columns, frozen=True, eq=False):
    """Placements of parallel degrees on levels, as arrays.

    Parameters
    ----------
    degrees
        Degree of each dimension at each level, shape (levels, dimensions, placements) [1].
    sizes
        Members of each level, idle ones too; None if there are none of those [1].
    """

    degrees: Ints
    sizes: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """Placements [1]."""
        return int(self.degrees.shape[2])

    @property
    def totals(self) -> Ints:
        """Degree of each dimension over all levels, shape (dimensions, placements) [1]."""
        totals: Ints = self.degrees.prod(axis=0)
        return totals

    def placement(self, index: int) -> "Placement":
        """One of the placements."""
        degrees = self.degrees[:, :, index].tolist()
        return Placement(tuple(Degrees(*level) for level in degrees), self.sizes)

    @classmethod
    def of(cls, placement: "Placement") -> "Placements":
        """One placement as arrays."""
        return cls(np.array(placement.levels, dtype=np.int64)[:, :, None], placement.sizes)


class Placement(Struct, frozen=True):
    """One placement of parallel degrees on the levels of a fabric.

    Parameters
    ----------
    levels
        Degrees at each level, the innermost level first [1].
    sizes
        Members of each level, idle ones too; None if there are none of those [1].
    first
        GPU of the cluster at which its levels begin [1].
    kinds
        Kind of each level: how collectives send (:meth:`on_levels`); empty if all are switches.
    folded
        How experts lie on the ranks of a stage, where they have no dimension of their own.

    Raises
    ------
    InputError
        If a degree is below 1, or degrees multiply to more than a level has.

    Examples
    --------
    Two HB domains of 4 GPUs: tensor 2 and data 2 inside, pipeline 2 across.

    >>> placement = Placement((Degrees(tensor=2, data=2), Degrees(pipeline=2)))
    >>> placement.groups("tensor").tolist()
    [[0, 1], [2, 3], [4, 5], [6, 7]]
    >>> placement.groups("pipeline").tolist()
    [[0, 4], [1, 5], [2, 6], [3, 7]]

    Three of four GPUs of each domain work:

    >>> Placement((Degrees(tensor=3), Degrees(data=2)), (4, 2)).gpu_of_rank.tolist()
    [0, 1, 2, 4, 5, 6]
    """

    levels: tuple[Degrees, ...]
    sizes: tuple[int, ...] | None = None
    first: int = 0
    kinds: tuple[LevelKind, ...] = ()
    folded: Folding | None = None

    def on_levels(self, levels: Sequence[Level]) -> "Placement":
        """The same on the levels of a fabric, some of which may be no switches."""
        kinds = tuple(level.kind for level in levels)
        return replace(self, kinds=kinds) if {*kinds} != {"switch"} else self

    def __post_init__(self) -> None:
        """Refuse degrees that are none or too many."""
        for level in self.levels:
            if min(level) < 1:
                raise InputError(
                    f"a level splits among {', '.join(DIMENSIONS)}: got degrees {tuple(level)},"
                    f" give {len(DIMENSIONS)} whole numbers of at least 1"
                )
        for level, size in zip(self.levels, self.sizes or (), strict=False):
            if prod(level) > size:
                raise InputError(
                    f"degrees {tuple(level)} take {prod(level):,} members of a level of {size:,}:"
                    " give smaller ones"
                )

    @property
    def totals(self) -> Degrees:
        """Degrees of the whole cluster [1]."""
        return Degrees(*(prod(column) for column in zip(*self.levels, strict=True)))

    @property
    def gpus(self) -> int:
        """GPUs that work, which are the ranks [1]."""
        return prod(prod(level) for level in self.levels)

    @property
    def merged_copies(self) -> int:
        """Copies of a row of folded experts that merge on their way; 0 if none do [1]."""
        return self.folded.merged_copies if self.folded else 0

    @property
    def inside(self) -> int:
        """GPUs of the innermost level, idle ones too [1]."""
        return self.sizes[0] if self.sizes else prod(self.levels[0])

    @property
    def cluster(self) -> int:
        """GPUs of all levels, idle ones too [1]."""
        return self.gpus if self.sizes is None else prod(self.sizes)

    @property
    def gpu_of_rank(self) -> Indices:
        """Which GPU of the cluster each rank is, shape (gpus,)."""
        gpus, inside = np.full(1, self.first, dtype=np.int32), 1
        used = [prod(level) for level in self.levels]
        for ranks, size in zip(used, self.sizes or used, strict=True):
            steps = inside * np.arange(ranks, dtype=np.int32)
            gpus = (steps[:, None] + gpus).ravel()
            inside *= size
        return gpus

    def degree(self, *dimensions: str) -> int:
        """Members of one group over these dimensions [1]."""
        return prod(self.splits(*dimensions))

    def splits(self, *dimensions: str) -> tuple[int, ...]:
        """Members of one group at each level, innermost first [1]."""
        if dimensions in (EXPERTS, COPIES):
            return tuple(members for members, _ in self.of_experts(dimensions))
        return tuple(
            prod(n for n, name in zip(level, DIMENSIONS, strict=True) if name in dimensions)
            for level in self.levels
        )

    def check_covers(self, gpus: int) -> None:
        """Refuse a cluster that has fewer GPUs than the levels of the placement, or idle ones."""
        last = self.first + self.cluster
        if last > gpus or (self.sizes is None and last < gpus):
            sizes = self.sizes or [prod(level) for level in self.levels]
            shape = " x ".join(str(size) for size in sizes)
            raise InputError(
                f"the placement covers {last:,} GPUs ({shape}), the cluster has {gpus:,}:"
                " give degrees that multiply to the GPUs of every level"
            )

    def groups(self, *dimensions: str, snake: bool = False) -> Indices:
        """Ranks of all groups over these dimensions, in rising order, shape (groups, degree).

        ``snake`` turns back at every border of an outer level instead of starting over, so that the
        step across the border joins GPUs of equal place (and so of one rail).
        """
        if dimensions in (EXPERTS, COPIES):
            return self._groups_of_experts(dimensions)
        names = [name for _ in self.levels for name in DIMENSIONS]
        radices = [n for level in self.levels for n in level]
        chosen = [i for i, name in enumerate(names) if name in dimensions]
        others = [i for i in range(len(names)) if i not in chosen]
        # numpy's last axis runs fastest: reversed, the radices are the shape of the cluster.
        cluster = np.arange(self.gpus, dtype=np.int32).reshape(radices[::-1])
        last = len(names) - 1
        axes = [last - i for i in (*reversed(others), *reversed(chosen))]
        members = cluster.transpose(axes).reshape(-1, self.degree(*dimensions))
        return turned(members, self.splits(*dimensions)) if snake else members

    def of_experts(self, group: tuple[str, ...]) -> OnLevels:
        """How ranks that share tokens of folded experts lie on the levels, or that hold the same.

        Raises
        ------
        InputError
            If no experts are folded, or over more or other GPUs than a stage has.
        """
        sizes = [prod(level) // level.pipeline for level in self.levels]
        folded, stage = self.folded, prod(sizes)
        if folded is None or stage % (folded.over * folded.shared_by):
            raise InputError(
                f"a stage of {stage:,} GPUs has no groups of {folded or 'folded'} experts: give"
                " degrees whose product divides it"
            )
        members, apart, _ = folded
        if group == COPIES:
            apart = folded.over * folded.shared_by
            members = stage // apart
        # Ranks of a tensor group that others lie between are uneven.
        tensor = [level.tensor for level in self.levels]
        outer = outermost(tensor)
        if sizes[:outer] == tensor[:outer] or members == 1:
            return spread_over(sizes, members, apart)
        return _outermost_alone(sizes, members)

    def _groups_of_experts(self, group: tuple[str, ...]) -> Indices:
        """Ranks of all groups of folded experts, in the order of their stages."""
        members = self.degree(*group)
        folded = self.folded or Folding(1, 1)
        tensor, stage_of = self.groups("tensor"), np.empty(self.gpus, np.int64)
        stage_of[self.groups("pipeline")] = np.arange(self.totals.pipeline)
        # Ranks of a tensor group follow each other, as those do that share an expert.
        stages = tensor[np.argsort(stage_of[tensor[:, 0]], kind="stable")]
        shape = (self.totals.pipeline, -1, folded.over, folded.shared_by)
        ranks = stages.reshape(shape)
        axes = (0, 1, 3, 2) if group == EXPERTS else (0, 2, 3, 1)
        return np.ascontiguousarray(ranks.transpose(axes).reshape(-1, members))


def turned(members: Indices, splits: Sequence[int]) -> Indices:
    """Reverse every second part of each level, from the second level outwards (a Gray code)."""
    turned = members.copy()
    inner = splits[0]
    for n in splits[1:]:
        parts = turned.reshape(len(members), -1, n, inner)
        parts[:, :, 1::2] = parts[:, :, 1::2, ::-1].copy()
        inner *= n
    return turned


def all_placements(
    sizes: Sequence[int], limits: Sequence[int], caps: Sequence[int] | None = None
) -> Placements:
    """Every placement whose total degree in each dimension divides that dimension's limit.

    Sizes of the levels come innermost first; caps are the largest total degrees, none if absent
    [1].

    Examples
    --------
    Two levels of 2, with tensor parallelism of at most 2 and no pipeline:

    >>> all_placements((2, 2), limits=(2, 1, 1, 4, 1)).degrees[:, [0, 3], :2].reshape(4, -1)
    array([[1, 1],
           [2, 2],
           [1, 2],
           [2, 1]])
    """
    bound = np.array(limits, dtype=np.int64)
    most = bound if caps is None else np.minimum(bound, caps)
    totals = np.ones((1, len(limits)), dtype=np.int64)
    chosen = np.empty((1, 0, len(limits)), dtype=np.int64)
    for size in sizes:
        split = _splits(size, tuple(limits))
        split = split[(split <= most).all(axis=1)]
        fits = np.ones((len(totals), len(split)), dtype=np.bool_)
        for limit, cap, so_far, more in zip(limits, most, totals.T, split.T, strict=True):
            product = np.multiply.outer(so_far, more)
            fits &= (product <= cap) & (limit % product == 0)
        before, after = np.nonzero(fits)
        totals = totals[before] * split[after]
        chosen = np.concatenate([chosen[before], split[after][:, None, :]], axis=1)
    return Placements(np.ascontiguousarray(chosen.transpose(1, 2, 0)))


@lru_cache(maxsize=256)
def _splits(size: int, limits: tuple[int, ...]) -> Ints:
    """Ways to write ``size`` as a product of one divisor of each limit, shape (ways, limits)."""
    if len(limits) == 1:
        fits = limits[0] % size == 0
        return np.array([[size]] if fits else np.empty((0, 1)), dtype=np.int64).reshape(-1, 1)
    parts = []
    for first in divisors(gcd(size, limits[0])):
        rest = _splits(size // int(first), limits[1:])
        parts.append(np.column_stack([np.full(len(rest), first, dtype=np.int64), rest]))
    return np.concatenate(parts)


def fills_innermost(degrees: Ints, sizes: Sequence[int]) -> Bools:
    """Whether a dimension takes the innermost levels before others, as far as it divides.

    Degrees of one dimension at each level, shape (levels, ways); True where the first level has
    the largest divisor of their product that fits it, the next one that of the rest, and so on.

    Examples
    --------
    >>> fills_innermost(np.array([[8, 4, 6], [1, 2, 2]]), (8, 4))
    array([ True, False,  True])
    """
    rest, good = degrees.prod(axis=0), np.ones(degrees.shape[1], dtype=np.bool_)
    for here, size in zip(degrees, sizes, strict=True):
        totals, which = np.unique(rest, return_inverse=True)
        most = np.array([max(part for part in divisors(total) if part <= size) for total in totals])
        good &= here == most[which]
        rest = rest // here
    return good


def distinct(columns: Ints) -> tuple[Ints, Ints]:
    """Distinct columns of a table of small positive numbers, shape (rows, n).

    Where each distinct column stands first, and which distinct column each one is.

    Examples
    --------
    >>> distinct(np.array([[1, 2, 1], [4, 4, 4]]))
    (array([0, 1]), array([0, 1, 0]))
    """
    code, size = np.zeros(columns.shape[1], dtype=np.int64), 1
    if not len(code):
        return code, code
    roomy = max(CODES_A_COLUMN * len(code), TABLE_SIZE >> 8)
    for row in columns:
        rank, ranks = _dense(row, int(row.max()) + 1)
        if ranks == 1:
            continue
        if size * ranks > roomy:
            code, size = _dense(code, size)
        code, size = code * ranks + rank, size * ranks
    inverse, count = _dense(code, size)
    first = np.empty(count, dtype=np.int64)
    # Written from the back, so that the first of equal columns is the one that stays.
    first[inverse[::-1]] = np.arange(len(inverse) - 1, -1, -1)
    return first, inverse


CODES_A_COLUMN = 8
"""Codes are numbered anew once there are so many times more of them than columns."""

TABLE_SIZE = 1 << 22
"""Codes up to this are numbered through a table, which takes no sorting."""


def _dense(code: Ints, size: int) -> tuple[Ints, int]:
    """Number the different codes, which lie below ``size``, without gaps."""
    if size > TABLE_SIZE:
        values, inverse = np.unique(code, return_inverse=True)
        return inverse, len(values)
    seen = np.zeros(size, dtype=np.int64)
    seen[code] = 1
    number = np.cumsum(seen)
    return number[code] - 1, int(number[-1])

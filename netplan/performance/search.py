"""The exhaustive plan search: every parallel plan of the constraint program, evaluated as arrays.

The program is Eq. 11 to 19 of arXiv:2307.12169. A plan is a placement (tensor, data and pipeline
degrees on every level) with a microbatch b and interleaved stages v. The plans are worked through
in chunks that stay in the processor's cache; nothing is pruned, so the best plan is proven best.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd, inf, prod

import numpy as np

from netplan.errors import InfeasibleError
from netplan.levels import Level
from netplan.performance.placement import (
    DATA,
    PIPELINE,
    TENSOR,
    Floats,
    Ints,
    Placements,
    all_placements,
    divisors,
)
from netplan.performance.ptdp import (
    PARTS,
    PtdpTerms,
    Training,
    activations_in_flight,
    basis,
    ptdp_terms,
)
from netplan.traffic.transformer import iteration_flops
from netplan.units import si

CHUNK_PLANS = 1 << 15


@dataclass(frozen=True, slots=True)
class Plan:
    """One parallel plan.

    Parameters
    ----------
    tensor, pipeline, data
        Parallel degrees [1].
    microbatch
        Sequences of one microbatch, b [1].
    microbatches
        Microbatches of one pipeline in an iteration, m [1].
    interleave
        Interleaved stages of one GPU, v [1].
    degrees
        Tensor, data and pipeline degree at each level, innermost level first [1].
    """

    tensor: int
    pipeline: int
    data: int
    microbatch: int
    microbatches: int
    interleave: int
    degrees: tuple[tuple[int, int, int], ...]

    @property
    def gpus(self) -> int:
        """GPUs that the plan uses [1]."""
        return self.tensor * self.pipeline * self.data


@dataclass(frozen=True, slots=True)
class PlanTime:
    """A plan with its iteration time, the parts that add up to it, and its memory."""

    plan: Plan
    iteration_time_s: float
    breakdown_s: dict[str, float]
    memory_bytes: float
    mfu: float
    hfu: float


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best plans of a whole space.

    Parameters
    ----------
    plans
        Best first.
    enumerated
        Plans in the space [1].
    feasible
        Plans that fit the memory [1].
    seconds
        Time of the search [s].
    levels
        The levels that the plans fill; smaller than the fabric if no plan fills all of it.
    """

    plans: tuple[PlanTime, ...]
    enumerated: int
    feasible: int
    seconds: float
    levels: tuple[Level, ...]


def search_ptdp(training: Training, levels: Sequence[Level], *, top: int = 1) -> SearchResult:
    """Find the best plans of the whole space on these levels.

    Parameters
    ----------
    training
        Model, batch, GPU and assumptions.
    levels
        The fabric, innermost level first; plans use all its GPUs.
    top
        Plans to return, best first [1].

    Raises
    ------
    InfeasibleError
        If no plan divides model and batch over these GPUs, or none fits the memory (then the
        message says by how much the nearest one misses).

    Examples
    --------
    >>> from netplan.performance.ptdp import ITERATION_MODELS
    >>> from netplan.traffic.models import MODELS
    >>> model, ptdp = MODELS.load("gpt-1t"), ITERATION_MODELS.load("ptd-p")
    >>> levels = (Level("switch", 256, 900e9), Level("switch", 128, 50e9))
    >>> found = search_ptdp(Training(model, 4096, 989e12, 80e9, ptdp), levels)
    >>> found.feasible, round(found.plans[0].iteration_time_s, 4)
    (15767, 2.8865)
    """
    start = time.perf_counter()
    levels = tuple(levels)
    placements = all_placements([level.size for level in levels], _limits(training))
    space = _Space(training, levels, placements)
    if not space.plan_count:
        raise InfeasibleError(_no_plan(training, levels))
    best, feasible, least_bytes = space.best(top)
    if not feasible:
        miss = least_bytes - training.memory_bytes
        raise InfeasibleError(
            f"{training.model.name} fits on no plan: the nearest needs"
            f" {si(least_bytes, 'B')} a GPU, {si(miss, 'B')} more than the"
            f" {si(training.memory_bytes, 'B')} there are"
        )
    plans = tuple(space.plan_time(index) for index in best)
    seconds = time.perf_counter() - start
    return SearchResult(plans, space.plan_count, feasible, seconds, levels)


def search_largest(training: Training, levels: Sequence[Level], *, top: int = 1) -> SearchResult:
    """Search on as many GPUs as some plan can use, whole members of the outermost level.

    Raises
    ------
    InfeasibleError
        As :func:`search_ptdp`, if no part of the fabric works either.
    """
    sizes = [level.size for level in levels]
    if all_placements(sizes, _limits(training)).count or levels[-1].kind == "ring":
        return search_ptdp(training, levels, top=top)
    inner = prod(sizes[:-1])
    for used in _products(training, prod(sizes), inner):
        part = (*levels[:-1], replace(levels[-1], size=used // inner))
        if all_placements([level.size for level in part], _limits(training)).count:
            return search_ptdp(training, part, top=top)
    raise InfeasibleError(_no_plan(training, levels))


def evaluate_plan(training: Training, levels: Sequence[Level], plan: Plan) -> PlanTime:
    """Time and memory of one given plan, whether it fits or not.

    Parameters
    ----------
    training, levels
        As in :func:`search_ptdp`.
    plan
        Its ``degrees`` must have one entry a level.
    """
    placements = Placements(np.array(plan.degrees, dtype=np.int64)[:, :, None])
    space = _Space(training, tuple(levels), placements)
    b, v = np.array([float(plan.microbatch)]), np.array([float(plan.interleave)])
    return space.timed(plan, 0, basis(b, v)[:, 0], b, v)


def _limits(training: Training) -> tuple[int, int, int]:
    """What the tensor, data and pipeline degrees must divide (Eq. 13 and 18)."""
    model = training.model
    return gcd(model.sequence_length, model.hidden_size), training.batch, model.layers


def _products(training: Training, gpus: int, inner: int) -> list[int]:
    """GPU counts that some tensor, data and pipeline degrees multiply to, largest first."""
    tensor, data, pipeline = (divisors(limit) for limit in _limits(training))
    products = np.unique(np.multiply.outer(np.multiply.outer(tensor, data), pipeline))
    return [int(used) for used in products[::-1] if used <= gpus and used % inner == 0]


def _no_plan(training: Training, levels: Sequence[Level]) -> str:
    gpus = prod(level.size for level in levels)
    tensor, data, pipeline = _limits(training)
    return (
        f"no plan of {training.model.name} uses {gpus:,} GPUs: their number must be a product of"
        f" tensor, data and pipeline degrees that divide {tensor:,}, {data:,} (the batch) and"
        f" {pipeline:,} (the layers)"
    )


class _Space:
    """All plans over some placements: an index of plans, and their times by chunk."""

    def __init__(
        self, training: Training, levels: tuple[Level, ...], placements: Placements
    ) -> None:
        self.training = training
        self.levels = levels
        self.placements = placements
        self.terms: PtdpTerms = ptdp_terms(training, levels, placements)
        self.total = sum(self.terms.seconds.values(), np.zeros(1))
        self.table, self.starts, self.counts = self._schedules()
        self.plan_count = int(self.counts.sum())

    def best(self, top: int) -> tuple[list[tuple[int, int]], int, float]:
        """Best plans as (placement, table row), how many fit, and the least memory of any."""
        found: list[tuple[float, int, int]] = []
        feasible, least = 0, inf
        for place, rows in self._chunks():
            memory = self.terms.state_bytes[place]
            memory += self.terms.sequence_bytes[place] * self.table[-1, rows]
            fits = memory <= self.training.memory_bytes
            least = min(least, float(memory.min()))
            feasible += int(np.count_nonzero(fits))
            seconds = np.where(fits, self._seconds(place, rows), inf)
            chosen = np.argpartition(seconds, min(top, len(seconds)) - 1)[:top]
            found += [(float(seconds[i]), int(place[i]), int(rows[i])) for i in chosen]
            found = sorted(plan for plan in found if plan[0] < inf)[:top]
        return [(place, row) for _, place, row in found], feasible, least

    def plan_time(self, index: tuple[int, int]) -> PlanTime:
        """Plan, parts and memory of one entry."""
        place, row = index
        b, v = self.table[2, [row]], self.table[5, [row]]
        tensor, data, pipeline = (int(x) for x in self.placements.totals[:, place])
        plan = Plan(
            tensor=tensor,
            pipeline=pipeline,
            data=data,
            microbatch=int(b[0]),
            microbatches=self.training.batch // (data * int(b[0])),
            interleave=int(v[0]),
            degrees=tuple(
                (int(level[TENSOR]), int(level[DATA]), int(level[PIPELINE]))
                for level in self.placements.degrees[:, :, place]
            ),
        )
        return self.timed(plan, place, self.table[:6, row], b, v)

    def timed(self, plan: Plan, place: int, powers: Floats, b: Floats, v: Floats) -> PlanTime:
        """Evaluate one plan part by part."""
        training, terms = self.training, self.terms
        parts = {name: float(terms.seconds[name][:, place] @ powers) for name in PARTS}
        seconds = sum(parts.values())
        stored = activations_in_flight(training, np.array([float(plan.pipeline)]), b, v)
        memory = terms.state_bytes[place] + terms.sequence_bytes[place] * stored[0]
        flops = iteration_flops(training.model, training.batch)
        peak = plan.gpus * training.flops_per_s * seconds
        return PlanTime(
            plan=plan,
            iteration_time_s=seconds,
            breakdown_s=parts | {"memory": 0.0},
            memory_bytes=float(memory),
            mfu=flops.model / peak,
            hfu=flops.hardware / peak,
        )

    def _schedules(self) -> tuple[Floats, Ints, Ints]:
        """Microbatches and interleavings, once a distinct pair of pipeline and data degree.

        Returns a table of shape (7, rows): the six basis functions and the stored activations;
        and for each placement the first row and the number of rows that belong to it.
        """
        training = self.training
        totals = self.placements.totals
        key = totals[PIPELINE] * (training.batch + 1) + totals[DATA]
        pairs, inverse = np.unique(key, return_inverse=True)
        blocks, sizes = [np.empty((7, 0))], [0]
        for pair in pairs.tolist():
            pipeline, data = divmod(pair, training.batch + 1)
            interleave = divisors(training.model.layers // pipeline).astype(float)
            microbatch = divisors(training.batch // data).astype(float)
            v, b = (grid.ravel() for grid in np.meshgrid(interleave, microbatch))
            stored = activations_in_flight(training, np.array(float(pipeline)), b, v)
            blocks.append(np.concatenate([basis(b, v), stored[None]]))
            sizes.append(len(b))
        starts = np.cumsum(sizes)[:-1]
        return np.concatenate(blocks, axis=1), starts[inverse], np.array(sizes[1:])[inverse]

    def _chunks(self) -> Iterator[tuple[Ints, Ints]]:
        """Placement and table row of every plan, some ten thousand plans at a time."""
        ends = np.cumsum(self.counts)
        first = 0
        while first < len(ends):
            done = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, done + CHUNK_PLANS, side="right")))
            counts = self.counts[first:last]
            place = np.repeat(np.arange(first, last), counts)
            offset = self.starts[first:last] - (ends[first:last] - counts - done)
            yield place, np.repeat(offset, counts) + np.arange(len(place))
            first = last

    def _seconds(self, place: Ints, rows: Ints) -> Floats:
        """Iteration time of some plans [s]."""
        seconds: Floats = self.total[0, place]
        for power in range(1, 6):
            seconds += self.total[power, place] * self.table[power, rows]
        return seconds

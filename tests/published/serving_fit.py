"""Host times of serving stacks, fitted to measured points, and error bars without each model.

A stack is fitted to the points of its software whose GPUs are known and whose first tokens come
within 10 s (`netplan.published.measured_serving`), ``typical-server`` to those of all software: by
the mean absolute logarithm of predicted over measured TPOT and TTFT, each counted up to `MOST`, so
that no outlier decides. The numbers are sought on grids of two digits, one after the other, in
strides that become smaller until none helps. What handing a cache over takes (``transfer_s``) and
what stems from other sources stays as it is.

For error bars the points of one model are left out, the numbers are fitted again on the rest, and
the points left out are predicted: bars of `netplan.performance.serving.bars` are made of these.
"""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from msgspec import Struct, field

from netplan.arrays import Bools, Floats
from netplan.calibration.fit import ENDS
from netplan.performance.serving.disaggregated import Pools
from netplan.performance.serving.server import ServingTimes, StepTime
from netplan.performance.stacks import DEFAULT_SERVING_STACK, SERVING_STACKS, ServingStack
from netplan.progress import with_progress
from netplan.published.measured_serving import (
    BY_SOFTWARE,
    OWN,
    POOLED,
    TYPICAL,
    PointGroup,
    ServingPoint,
    Times,
    group_times,
    measured,
    point_groups,
    serving_points,
)
from netplan.records import replace
from netplan.workloads.inference import Cut, ServingStep

GRID: Mapping[str, float] = {
    "step_s": 0.05e-3,
    "token_s": 1e-6,
    "prompt_s": 5e-3,
    "sparse_layer_s": 0.05e-3,
    "burst": 0.005,
}
"""Steps in which the numbers of a stack are sought [s, s, s, s, 1]."""

STRIDES, FROM_THERE = (8, 4, 2, 1), (2, 1)
"""Steps at once: of a fit, and of one that begins at the fit of all points [1]."""

MOST = 0.7
"""Absolute logarithm up to which an error counts: a factor of two [1]."""


class KnownTimes(ServingTimes, frozen=True, eq=False):
    """Times of steps that are computed once: a fit asks for the same ones again and again.

    Pools decode other numbers of requests with other host times: `NODES` numbers are computed, and
    what lies between is interpolated.
    """

    known: dict[tuple[object, ...], tuple[StepTime, StepTime]] = field(default_factory=dict)
    nodes: dict[tuple[float, ...], Floats] = field(default_factory=dict)
    pools: bool = False

    def step(
        self, cut: Cut, step: ServingStep, *, routed: bool = True
    ) -> tuple[StepTime, StepTime]:
        """Time of a layer in the mean, and of the head."""
        if self.pools and step.phase == "decode":
            return self._between(cut, step)
        amounts = (*_columns(cut, step), np.asarray(step.sequences))
        key = (step.phase, routed, *(amount.tobytes() for amount in amounts))
        if key not in self.known:
            self.known[key] = super().step(cut, step, routed=routed)
        return self.known[key]

    def _between(self, cut: Cut, step: ServingStep) -> tuple[StepTime, StepTime]:
        """Times of a step of decode, of numbers of requests between nodes."""
        columns = [tuple(column) for column in np.stack(_columns(cut, step), axis=1).tolist()]
        missing = [column for column in dict.fromkeys(columns) if column not in self.nodes]
        if missing:
            sizes = np.repeat(np.array(missing).T, len(NODES), axis=1)
            every = np.tile(NODES, len(missing))
            parts = super().step(Cut(*sizes[:3]), ServingStep("decode", every, *sizes[3:]))
            rows = np.stack([getattr(part, name) for part in parts for name in PARTS])
            for index, column in enumerate(missing):
                self.nodes[column] = rows[:, index * len(NODES) : (index + 1) * len(NODES)]
        table = np.stack([self.nodes[column] for column in columns], axis=-1)
        wanted = np.broadcast_to(step.sequences, (len(columns),))
        place = np.clip(np.searchsorted(NODES, wanted, side="right") - 1, 0, len(NODES) - 2)
        share = (wanted - NODES[place]) / (NODES[place + 1] - NODES[place])
        which = np.arange(len(columns))
        values = (1 - share) * table[:, place, which] + share * table[:, place + 1, which]
        return StepTime(*values[: len(PARTS)]), StepTime(*values[len(PARTS) :])


NODES = np.exp2(np.arange(0, 14, 0.25))
"""Requests of a copy at which steps of pools are computed [1]."""

PARTS = StepTime.__struct_fields__


def _columns(cut: Cut, step: ServingStep) -> list[Floats]:
    """What a step's time depends on beside its requests, an entry a plan."""
    amounts = (cut.tensor, cut.attention_data, cut.expert, step.tokens, step.context)
    return [np.broadcast_to(amount, cut.tensor.shape).astype(np.float64) for amount in amounts]


class FitProblem(Struct, frozen=True, eq=False):
    """Points of one stack, with what they measured."""

    groups: list[PointGroup]
    measured: Times

    @classmethod
    def of(cls, points: Sequence[ServingPoint], name: str) -> "FitProblem":
        """Points as a stack of this name times them."""
        method = TYPICAL if name == DEFAULT_SERVING_STACK else BY_SOFTWARE
        groups = [_remembering(group) for group in point_groups(points, method)]
        return cls(groups, measured(points))

    def times(self, stack: ServingStack) -> Times:
        """Times of all points by a stack."""
        return group_times(self.groups, len(self.measured.tpot), stack)

    def loss(self, stack: ServingStack, chosen: Bools) -> float:
        """Mean absolute logarithm of the chosen points, counted up to `MOST`."""
        times, both = self.times(stack), 0.0
        for name in ("tpot", "ttft"):
            off = np.abs(np.log(getattr(times, name) / getattr(self.measured, name)))
            both += float(np.minimum(off, MOST)[chosen].mean())
        return both / 2


def _remembering(group: PointGroup) -> PointGroup:
    """The group with steps that are computed once."""
    served, pools = group.case.served, isinstance(group.plans, Pools)
    fields = {name: getattr(served, name) for name in served.__struct_fields__}
    known = KnownTimes(**fields, pools=pools)
    return replace(group, case=replace(group.case, served=known))


def fit(
    problem: FitProblem,
    stack: ServingStack,
    chosen: Bools,
    strides: Sequence[int] = STRIDES,
    names: Sequence[str] = tuple(GRID),
) -> ServingStack:
    """The stack whose named numbers are those nearest to the chosen points."""
    least = problem.loss(stack, chosen)
    for stride in strides:
        better = True
        while better:
            better = False
            for name in names:
                for sign in (-stride, stride):
                    steps = round(getattr(stack, name) / GRID[name]) + sign
                    if steps < 0:
                        continue
                    tried = stack.changed(**{name: float(f"{steps * GRID[name]:.6g}")})
                    loss = problem.loss(tried, chosen)
                    if loss < least - TIE:
                        stack, least, better = tried, loss, True
                        break
    return stack


TIE = 1e-6
"""Losses that differ by less are the same [1]."""


def shipped_is_found(name: str) -> ServingStack:
    """The stack that a fit ends at which begins at the shipped one: the same if it is the fit's."""
    points, stack = points_of(name), SERVING_STACKS.load(name)
    numbers = [number for number in GRID if number not in ELSEWHERE.get(name, ())]
    every = np.ones(len(points), dtype=np.bool_)
    return fit(FitProblem.of(points, name), stack, every, STRIDES[-1:], numbers)


ELSEWHERE: Mapping[str, tuple[str, ...]] = {"tensorrt-llm": ("token_s",)}
"""Numbers of stacks that stem from printed offline points."""


@cache
def fitted_points() -> tuple[ServingPoint, ...]:
    """Points that stacks are fitted to."""
    return tuple(
        point
        for point in serving_points()
        if point.gpus and point.concurrency and not point.overload
    )


def points_of(name: str) -> list[ServingPoint]:
    """Points that a stack is fitted to: those of its software, or all.

    Examples
    --------
    >>> [len(points_of(name)) for name in ("vllm", "sglang", "tensorrt-llm", "typical-server")]
    [370, 306, 451, 1127]
    """
    return [
        point for point in fitted_points() if name in {DEFAULT_SERVING_STACK, OWN[point.framework]}
    ]


class LeftOutPoints(Struct, frozen=True, eq=False):
    """TPOT of points over what stacks predict that were fitted without their model [1].

    Those whose GPUs are known on servers that do both phases, but for GB200, whose points are
    systems of pools.
    """

    points: tuple[ServingPoint, ...]
    ratios: Floats
    ttft_ratios: Floats


@cache
def left_out_points() -> LeftOutPoints:
    """Fit the stack of every software without each model, and predict that model's points."""
    points, ratios = list[ServingPoint](), dict[str, list[float]]({"tpot": [], "ttft": []})
    for name in with_progress([*OWN.values()], str):
        some, stack = points_of(name), SERVING_STACKS.load(name)
        problem = FitProblem.of(some, name)
        models = np.array([point.model for point in some])
        counted = np.array(
            [point.mode == "aggregated" and point.accelerator != POOLED for point in some]
        )
        for model in np.unique(models):
            numbers = [number for number in GRID if number not in ELSEWHERE.get(name, ())]
            without = fit(problem, stack, models != model, FROM_THERE, numbers)
            times, chosen = problem.times(without), np.flatnonzero((models == model) & counted)
            points += [some[place] for place in chosen]
            for kind in ratios:
                seen, predicted_s = getattr(problem.measured, kind), getattr(times, kind)
                ratios[kind] += (seen / predicted_s)[chosen].tolist()
    return LeftOutPoints(tuple(points), np.array(ratios["tpot"]), np.array(ratios["ttft"]))


class MadeBar(Struct, frozen=True):
    """The bar of a class as points make it, and what bars of other models hold of each [1].

    Parameters
    ----------
    kind, points, models
        The class, how many points and models it has.
    centre, low, high
        Geometric mean, 5th and 95th percentile of measured over predicted values.
    held, held_wide
        Share of points that the bar of all other models holds, and that one made wider.
    """

    kind: str
    points: int
    models: tuple[str, ...]
    centre: float
    low: float
    high: float
    held: float | None
    held_wide: float | None


def made_bar(kind: str, ratios: Floats, models: Sequence[str], widen: float) -> MadeBar:
    """The bar of a class.

    Parameters
    ----------
    kind
        The class.
    ratios
        Measured over predicted values [1].
    models
        Model of each.
    widen
        By what both ends grow for a model that no point has [1].

    Examples
    --------
    >>> bar = made_bar("two", np.array([0.9, 1.1, 1.0, 1.0]), ["a", "a", "b", "b"], 1.1)
    >>> round(bar.low, 3), round(bar.high, 3), bar.held, bar.held_wide
    (0.915, 1.085, 0.5, 0.75)
    """
    names = np.array(models)
    low, high = np.quantile(ratios, ENDS)
    held, wide = np.zeros(len(ratios), dtype=np.bool_), np.zeros(len(ratios), dtype=np.bool_)
    every = np.unique(names)
    for model in every if len(every) > 1 else ():
        ends, mine = np.quantile(ratios[names != model], ENDS), names == model
        held |= mine & (ratios >= ends[0]) & (ratios <= ends[1])
        wide |= mine & (ratios >= ends[0] / widen) & (ratios <= ends[1] * widen)
    several = len(every) > 1
    return MadeBar(
        kind,
        len(ratios),
        tuple(every.tolist()),
        float(np.exp(np.log(ratios).mean())),
        float(low),
        float(high),
        float(held.mean()) if several else None,
        float(wide.mean()) if several else None,
    )

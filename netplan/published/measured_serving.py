"""Published measurements of serving against serving plans.

The points stand in `reports/published/measured-serving.csv`, one row a point.
Facts only: a model in a precision, the GPUs and how they share it, requests in flight, and the two
times that users feel. Names of columns with a dot are fields of a part, empty cells are unknown.
Each point is predicted as it ran: its model and precision on its accelerator, the servers that it
names, and the requests in flight. Three predictions stand beside each other: by the serving stack
of every software (``typical-server``), by the stack of the point's own software, and by a plain
roofline without a host, rings at the links' rates. An error is predicted over measured time less 1;
what is checked are medians of its absolute value. Nothing is fitted to a point, a model or an
accelerator: stacks have the same few numbers for all.

Points whose first token takes more than 10 s are left out, since waiting is most of it, and those
that say neither GPUs nor requests in flight. Pools of unknown size are predicted as one server each
and stand apart. Servers whose degrees the source multiplied are read as they ran.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import isqrt
from operator import attrgetter
from typing import Literal

import numpy as np
from msgspec import Struct, convert

from netplan.arrays import Bools, Floats
from netplan.inputs.choices import KernelSource, ServingFormat
from netplan.performance import stacks
from netplan.performance.serving.cases import (
    ServingSoftware,
    domain_levels,
    formats_of,
    serving_case,
)
from netplan.performance.serving.disaggregated import POOLS, Pools, disaggregated
from netplan.performance.serving.outcomes import Requests, ServingCase, ServingResult, aggregated
from netplan.performance.serving.plans import ServingPlans
from netplan.published.checks import Check, check, order_kept, published
from netplan.records import PositiveFloat, PositiveInt, replace
from netplan.reports.sections import Column, Section, Table, column
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

TABLE = "measured-serving"
OVERLOAD_S = 10.0
"""TTFT above which most of it is waiting, which no kernel explains [s]."""

DOMAIN = 8
"""GPUs that servers for both phases have at most, but for racks [1]."""


class MeasuredServers(Struct, frozen=True, forbid_unknown_fields=True):
    """Servers that are alike, each a copy of the model, and how its GPUs share it.

    Parameters
    ----------
    tensor, pipeline, attention_data
        GPUs of one server are their product: each copy of attention is cut in ``tensor``.
    expert, expert_tensor
        Groups of experts, and GPUs that share one, as far as they are known: over the same GPUs.
    count
        How many servers, if known.
    """

    tensor: PositiveInt
    pipeline: PositiveInt = 1
    attention_data: PositiveInt = 1
    expert: PositiveInt | None = None
    expert_tensor: PositiveInt | None = None
    count: PositiveInt | None = None

    @property
    def gpus_each(self) -> int:
        """GPUs of one server [1]."""
        return self.tensor * self.pipeline * self.attention_data


class ServingPoint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One measured point of serving.

    Parameters
    ----------
    model, accelerator
        Names in the catalogs.
    framework
        Software that served.
    precision
        Format of the weights.
    mode
        ``aggregated``: a ``server`` does both phases; ``disaggregated``: servers for ``prefill``
        send what they computed to those for ``decode``.
    prompt, output
        Tokens of a request, and of its answer.
    concurrency
        Requests in flight in the whole system, if known.
    gpus
        All GPUs, if known.
    ttft_s, tpot_s
        Time to the first token, and from each to the next [s].
    measured, origin
        Month, if known, and set of measurements.
    """

    model: str
    accelerator: str
    framework: Literal["SGLang", "TensorRT-LLM", "vLLM"]
    precision: ServingFormat
    mode: Literal["aggregated", "disaggregated"]
    prompt: PositiveInt
    output: PositiveInt
    concurrency: PositiveInt | None = None
    gpus: PositiveInt | None = None
    server: MeasuredServers | None = None
    prefill: MeasuredServers | None = None
    decode: MeasuredServers | None = None
    ttft_s: PositiveFloat
    tpot_s: PositiveFloat
    measured: str = ""
    origin: str

    @property
    def server_as_run(self) -> MeasuredServers | None:
        """The server, degrees undone that the source multiplied.

        112 servers of n = 4 or 8 GPUs stand as if they had n^2, tensor or attention-data n^2 beside
        n groups of experts, or all three: on systems whose domains have eight GPUs, and 20 of them
        with the very times of a row of n.
        """
        server = self.server
        if server is None or server.expert is None:
            return server
        size = isqrt(server.gpus_each)
        squared = size**2 == server.gpus_each > DOMAIN and server.expert in {size, server.gpus_each}
        if not squared:
            return server
        tensor, copies = (size, 1) if server.tensor > 1 else (1, size)
        return MeasuredServers(tensor=tensor, attention_data=copies, expert=size, expert_tensor=1)

    @property
    def sends(self) -> bool:
        """Whether tokens go to the GPUs of their experts alone: assumed beyond a node's copies.

        Published recipes of racks switch that on (SGLang's ``--moe-a2a-backend deepep``).
        """
        pools = (self.server_as_run, self.prefill, self.decode)
        return any(pool is not None and pool.attention_data > DOMAIN for pool in pools)

    @property
    def overload(self) -> bool:
        """Whether requests mostly waited: more came than were served."""
        return self.ttft_s > OVERLOAD_S


@cache
def serving_points() -> tuple[ServingPoint, ...]:
    """All points of the table, in its order.

    Examples
    --------
    >>> points = serving_points()
    >>> len(points), sum(one.overload for one in points)
    (1500, 76)
    >>> points[0].model, points[0].concurrency, points[0].server.tensor, points[0].tpot_s
    ('minimax-m2.5', 4, 4, 0.0094766)
    """
    return tuple(map(serving_point, published(TABLE)))


def serving_point(row: Mapping[str, str]) -> ServingPoint:
    """The point of one row.

    Raises
    ------
    msgspec.ValidationError
        If a column is unknown or missing, or a cell is none of what it may be.
    """
    parts: dict[str, dict[str, str]] = {}
    for name, text in row.items():
        part, _, field = name.rpartition(".")
        if text:
            parts.setdefault(part, {})[field] = text
    fields: dict[str, object] = {**parts.pop("", {}), **parts}
    return convert(fields, ServingPoint, strict=False)


TITLE = "Measured serving"
MOST = {"tpot": 0.20, "ttft": 0.35}
"""Median errors above which all points fail, and a group of them is known to be off."""

OWN: Mapping[str, str] = {"vLLM": "vllm", "SGLang": "sglang", "TensorRT-LLM": "tensorrt-llm"}
"""Serving stacks of software."""

DOMAINS = 16
"""HB domains of systems that have several: more than any point has [1]."""

ALL, RAN, LISTED, GUESSED = (
    "all",
    "servers with multiplied degrees",
    "the same with degrees as listed",
    "pools of unknown size",
)


class MeasuredMethod(Struct, frozen=True):
    """A way of predicting a point: the stack that it takes, and kernels."""

    name: str
    stack_of: Callable[[ServingPoint], str]
    kernels: KernelSource = "measured"


TYPICAL = MeasuredMethod("typical", lambda _: stacks.DEFAULT_SERVING_STACK)
BY_SOFTWARE = MeasuredMethod("own", lambda point: OWN[point.framework])
ROOFLINE = MeasuredMethod("roofline", lambda _: stacks.DATAFLOW_SERVING_STACK, "roofline")
WAYS = (TYPICAL, BY_SOFTWARE, ROOFLINE)


class Times(Struct, frozen=True, eq=False):
    """TPOT and TTFT of points, shape (points,) [s]."""

    tpot: Floats
    ttft: Floats

    def errors(self, measured: "Times") -> "Times":
        """Absolute relative errors [1]."""
        return Times(np.abs(self.tpot / measured.tpot - 1), np.abs(self.ttft / measured.ttft - 1))


class PointErrors(Struct, frozen=True):
    """Median errors of a group of points by each way of predicting them [1].

    ``in_order`` says of both times whether slower points are so by the software's own stack.
    """

    kind: str
    group: str
    points: int
    tpot: Mapping[str, float]
    ttft: Mapping[str, float]
    in_order: Mapping[str, bool]


def measured(points: Sequence[ServingPoint]) -> Times:
    """Times of points as published."""
    return Times(
        *(np.array([getattr(point, name) for point in points]) for name in ("tpot_s", "ttft_s"))
    )


def predicted(
    points: Sequence[ServingPoint], method: MeasuredMethod, *, listed: bool = False
) -> Times:
    """Times of points by serving plans, with degrees as they ran or as they are ``listed``.

    Examples
    --------
    >>> point = serving_points()[0]
    >>> times = predicted([point], BY_SOFTWARE)
    >>> point.tpot_s, times.tpot.round(4), point.ttft_s, times.ttft.round(2)
    (0.0094766, array([0.0075]), 0.15164, array([0.1]))
    """
    return group_times(point_groups(points, method, listed=listed), len(points))


class PointGroup(Struct, frozen=True, eq=False):
    """Points of one model on one kind of system, which are timed at once.

    Parameters
    ----------
    index
        Their places among all points.
    case, plans, concurrency
        What they serve, how, and to how many at once; two pools if they have two.
    """

    index: list[int]
    case: ServingCase
    plans: ServingPlans | Pools
    concurrency: Floats

    def outcome(self, stack: stacks.ServingStack | None = None) -> ServingResult:
        """What they give, by the stack of the case or by another one of the same terms."""
        case = self.case if stack is None else replace(self.case, stack=stack)
        if isinstance(self.plans, Pools):
            return disaggregated(case, self.plans, self.concurrency)
        return aggregated(case, self.plans, self.concurrency)


def group_times(
    groups: Iterable[PointGroup], points: int, stack: stacks.ServingStack | None = None
) -> Times:
    """Times of so many points by their groups, by their stacks or by another one."""
    times = Times(np.empty(points), np.empty(points))
    for group in groups:
        outcome = group.outcome(stack)  # formats keep the exchange of the points
        times.tpot[group.index], times.ttft[group.index] = outcome.tpot_s, outcome.ttft_s
    return times


def point_groups(
    points: Sequence[ServingPoint], method: MeasuredMethod, *, listed: bool = False
) -> list[PointGroup]:
    """Points that can be timed at once."""
    chips = {name: ACCELERATORS.load(name) for name in {point.accelerator for point in points}}
    alike: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, point in enumerate(points):
        wide = "wide" if _gpus(point) > chips[point.accelerator].hb_size else ""
        alike[
            point.model,
            point.accelerator,
            point.precision,
            point.mode,
            method.stack_of(point),
            wide,
            "deepep" if point.sends else "",
        ] += [place]
    return [_group(points, index, method, listed=listed) for index in alike.values()]


def _group(
    every: Sequence[ServingPoint], index: list[int], method: MeasuredMethod, *, listed: bool
) -> PointGroup:
    """Points of one model on one kind of system."""
    points = [every[place] for place in index]
    first = points[0]
    chip, model = ACCELERATORS.load(first.accelerator), MODELS.load(first.model)
    gpus = chip.hb_size * (DOMAINS if _gpus(first) > chip.hb_size else 1)
    prompt, output, concurrency = (
        np.array([getattr(point, name) for point in points], dtype=np.float64)
        for name in ("prompt", "output", "concurrency")
    )
    stack = stacks.SERVING_STACKS.load(method.stack_of(first))
    stack = stack.changed(exchange="deepep") if first.sends else stack
    software = ServingSoftware(stack, method.kernels)
    case = serving_case(
        chip,
        model,
        domain_levels(chip, gpus),
        Requests(prompt, output),
        formats_of(chip, model, first.precision, software=software),
        software,
    )
    if first.mode == "aggregated":
        servers = [point.server if listed else point.server_as_run for point in points]
        return PointGroup(index, case, _plans(servers), concurrency)
    pools = Pools(*(_plans([getattr(point, name) for point in points]) for name in POOLS))
    return PointGroup(index, case, pools, concurrency)


def _plans(servers: Sequence[MeasuredServers | None]) -> ServingPlans:
    """Servers as plans, experts undivided where no groups of them are named."""
    rows = [
        (
            server.tensor,
            server.attention_data,
            server.expert or 1,
            server.pipeline,
            server.count or 1,
        )
        for server in servers
        if server is not None
    ]
    return ServingPlans(*np.array(rows, dtype=np.int64).T)


def _gpus(point: ServingPoint) -> int:
    """GPUs of a point, one server in each pool whose size is unknown [1]."""
    pools = (point.server_as_run, point.prefill, point.decode)
    return sum(pool.gpus_each * (pool.count or 1) for pool in pools if pool is not None)


@cache
def point_errors() -> tuple[PointErrors, ...]:
    """Errors of all points whose GPUs are known, by mode, software, accelerator and model.

    Behind them those of servers with multiplied degrees, as they ran and as they are listed, and
    pools of unknown size.
    """
    timed = [point for point in serving_points() if point.concurrency and not point.overload]
    points = [point for point in timed if point.gpus]
    seen, predictions = measured(points), _predicted(points)
    medians = [_medians(ALL, ALL, seen, predictions)]
    for kind in ("mode", "framework", "accelerator", "model"):
        names = np.array([getattr(point, kind) for point in points])
        medians += [
            _medians(kind, str(group), seen, predictions, names == group)
            for group in np.unique(names)
        ]
    ran = np.array([point.server_as_run is not point.server for point in points])
    listed = [point for point in points if point.server_as_run is not point.server]
    guessed = [point for point in timed if not point.gpus]
    medians += [
        _medians("reading", RAN, seen, predictions, ran),
        _medians("reading", LISTED, measured(listed), _predicted(listed, listed=True)),
        _medians("reading", GUESSED, measured(guessed), _predicted(guessed)),
    ]
    return tuple(medians)


def _predicted(points: Sequence[ServingPoint], *, listed: bool = False) -> Mapping[str, Times]:
    """Times of points by each way."""
    return {way.name: predicted(points, way, listed=listed) for way in WAYS}


def _medians(
    kind: str, group: str, seen: Times, predictions: Mapping[str, Times], some: Bools | None = None
) -> PointErrors:
    """Median errors of some of the points, or all."""
    chosen = np.ones(len(seen.tpot), dtype=np.bool_) if some is None else some
    medians: dict[str, dict[str, float]] = {"tpot": {}, "ttft": {}}
    for way, times in predictions.items():
        off = times.errors(seen)
        for name, of_ways in medians.items():
            of_ways[way] = float(np.median(getattr(off, name)[chosen]))
    of_software = predictions[BY_SOFTWARE.name]
    order = {
        name: order_kept(getattr(seen, name)[chosen], getattr(of_software, name)[chosen])
        for name in medians
    }
    return PointErrors(kind, group, int(chosen.sum()), **medians, in_order=order)


@cache
def known_servers() -> tuple[ServingPoint, ...]:
    """Points whose servers are known for sure: both phases, GPUs, and no system of pools.

    Examples
    --------
    >>> len(known_servers())
    906
    """
    return tuple(
        point
        for point in serving_points()
        if point.mode == "aggregated"
        and point.gpus
        and point.concurrency
        and not point.overload
        and point.accelerator != POOLED
    )


POOLED = "gb200"
"""Accelerator whose servers are listed with all GPUs of systems of pools."""

HELD: Mapping[str, float] = {"all": 0.095, "h100-80gb": 0.12, "h200": 0.12, "b200": 0.12}
"""Median errors of TPOT that known servers are held to, by accelerator [1]."""


def known_server_checks() -> Iterator[Check]:
    """Median errors of TPOT of known servers, of all and by accelerator."""
    points = known_servers()
    ratios = predicted(points, BY_SOFTWARE).tpot / measured(points).tpot
    chips = np.array([point.accelerator for point in points])
    for group, most in HELD.items():
        some = ratios if group == "all" else ratios[chips == group]
        error = float(np.median(np.abs(some - 1)))
        mean = float(np.exp(np.log(some).mean()))
        yield check(
            f"{group}, {len(some)} known servers: median error of TPOT, %",
            f"{TITLE}, known servers",
            f"at most {100 * most:g}",
            f"{100 * error:.1f} (predicted over measured {mean:.2f})",
            met=error <= most,
            gap=error,
        )


OUTLIERS = (
    ("llama-3.1-8b", "h200", "vLLM", "fp8"),
    ("qwen3-235b-a22b", "h200", "vLLM", "fp8"),
    ("deepseek-r1", "h200", "TensorRT-LLM", "fp8"),
    ("deepseek-r1", "b200", "TensorRT-LLM", "fp8"),
)
"""Groups of known servers that no constant explains: model, accelerator, software, precision."""


def outlier_checks() -> Iterator[Check]:
    """Predicted over measured TPOT of groups that are known to be off."""
    points = known_servers()
    ratios = predicted(points, BY_SOFTWARE).tpot / measured(points).tpot
    group_of = attrgetter("model", "accelerator", "framework", "precision")
    groups = [group_of(point) for point in points]
    for outlier in OUTLIERS:
        model, accelerator, framework, precision = outlier
        some = ratios[np.array([group == outlier for group in groups])]
        mean = float(np.exp(np.log(some).mean()))
        yield check(
            f"{model}, {precision} on {accelerator}, {framework}"
            f" ({len(some)} points): predicted over measured TPOT",
            f"{TITLE}, outliers",
            "1.00",
            f"{mean:.2f}",
            gap=mean - 1,
        )


def measured_point_checks() -> Iterator[Check]:
    """Median errors of all points by both kinds of stacks, and of groups by their own."""
    yield from known_server_checks()
    yield from outlier_checks()
    for errors in point_errors():
        for method in (TYPICAL, BY_SOFTWARE) if errors.kind == ALL else (BY_SOFTWARE,):
            yield from (_checked(errors, method, name, most) for name, most in MOST.items())


def _checked(errors: PointErrors, method: MeasuredMethod, name: str, most: float) -> Check:
    medians: Mapping[str, float] = getattr(errors, name)
    row = (
        f"{errors.group}, {method.name} stack: median error of {name.upper()}, %",
        f"{TITLE}, {errors.kind}",
        f"at most {100 * most:.0f}",
        f"{100 * medians[method.name]:.1f} (roofline {100 * medians[ROOFLINE.name]:.1f})",
    )
    return check(*row, met=errors.in_order[name], gap=medians[method.name])


def point_sections() -> Iterator[Section]:
    """Errors of all points and of groups, each way beside the others."""
    waiting = sum(point.overload for point in serving_points())
    yield Table(
        "measured-serving",
        GROUPS,
        point_errors(),
        f"{TITLE}: median errors",
        legend=(
            "By the typical serving stack, that of the software itself, a roofline without a host.",
            f"{waiting} points with first tokens after {OVERLOAD_S:g} s are left out: they wait.",
        ),
        shown="people",
    )


GROUPS: tuple[Column[PointErrors], ...] = (
    column("name", "group", title="points of"),
    column("points"),
    *(
        column("median_error", f"{name}.{way.name}", title=f"{way.name} {name.upper()}")
        for way in WAYS
        for name in MOST
    ),
)

"""Rows of a faults answer, and what a page draws of them: charts, failures, what is left.

The drawing has the failures that were asked for, else the single network switch or link whose
failure is worst.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import cycle
from math import exp
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from msgspec import Struct

from netplan.faults.damage.damage import Components, Damage, cut_off_gpus
from netplan.faults.damage.impact import Impact, Single, Subject
from netplan.faults.damage.inventory import Inventory
from netplan.faults.damage.rerouting import TrainingLoads
from netplan.faults.damage.survival import Attrition, attrition
from netplan.faults.years.forecast import ReliabilityForecast
from netplan.faults.years.policies import Policy
from netplan.faults.years.recoveries import IdlePrice, Recovery
from netplan.performance.barred import with_bars
from netplan.performance.error_bars import ErrorBar
from netplan.performance.spread import OverSites
from netplan.reports.charts import Chart, Json, hover, marks, named_ticks
from netplan.reports.escape import chart_label, short
from netplan.reports.plots import DASHES, SIGNS
from netplan.reports.schema import plain_at
from netplan.reports.sections import Column, Inset, Section, Table, columns
from netplan.topologies.colours import Coloured
from netplan.topologies.fabric import Fabric
from netplan.topologies.graph import FabricGraph
from netplan.units import HOURS_PER_YEAR, counted

if TYPE_CHECKING:
    from markupsafe import Markup


COLOURS = ("#3b74c9", "#d9782d", "#2e9e74", "#8a94a3", "#b0569c", "#c2a02f")
CURVE_POINTS = 61
SURVIVAL_PX, SLOWDOWN_PX = 360, 420
LEAST_PER_YEAR = 1e-9
"""Stops that a network without any is drawn with [1/year]."""


PLURAL = {"switch": "network switches", "link": "network links"}
"""Parts whose failures, one after another, the curves show."""


def survival(interruptions: Sequence[tuple[str, float]]) -> Chart:
    """Survival curves exp(-t / M), by fabric and its stops by the network [1/year].

    Examples
    --------
    >>> survival([("rail-only", 41.0), ("torus-3d", 0.0)]).key
    'survival'
    """
    between_h = [
        (name, HOURS_PER_YEAR / max(number, LEAST_PER_YEAR)) for name, number in interruptions
    ]
    slowest = min(mean for _, mean in between_h)
    hours = [4 * slowest * step / (CURVE_POINTS - 1) for step in range(CURVE_POINTS)]
    data: list[Json] = []
    for (fabric, mean), colour, dash in zip(between_h, cycle(COLOURS), cycle(DASHES), strict=False):
        shares = [100 * exp(-hour / mean) for hour in hours]
        texts = (f"{hour:.3g} h: {share:.1f} %" for hour, share in zip(hours, shares, strict=True))
        boxes = (hover(fabric, text) for text in texts)
        line = {"color": colour, "width": 2, "dash": dash}
        name = chart_label(fabric)
        data.append(marks("scatter", hours, shares, boxes, name=name, mode="lines", line=line))
    layout: Json = {
        "xaxis": {"title": {"text": "hours"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "no stop by the network so far, %"}, "range": [0, 102]},
        "showlegend": True,
    }
    label = "Chance that the network has stopped no job so far, by fabric"
    return Chart("survival", label, SURVIVAL_PX, tuple(data), layout)


def capacity(fabrics: Sequence[tuple[str, Attrition]], kind: str) -> Chart:
    """GPUs that keep their network as more parts of a kind fail, one line a fabric.

    Examples
    --------
    >>> one = Attrition("switch", 8, ((0, 1.0), (1, 0.875)))
    >>> capacity([("rail-only", one)], "switch").data[0]["y"]
    [100.0, 87.5]

    Fabrics with the same curve share a line, if they have as many parts.

    >>> other = Attrition("switch", 16, one.left)
    >>> drawn = capacity([("a", one), ("b", one), ("c", other)], "switch").data
    >>> [(line["name"], line["hovertext"][1]) for line in drawn]  # doctest: +ELLIPSIS
    [('a = b', '...1 of 8 network switches...'), ('c', '...1 of 16 network switches...')]
    """
    data: list[Json] = []
    lines: dict[Attrition, list[str]] = {}
    for fabric, row in fabrics:
        lines.setdefault(row, []).append(fabric)
    for number, (row, names) in enumerate(lines.items()):
        name, of = " = ".join(names), f"{row.parts:,} {PLURAL[kind]}"
        counts, shares = ([count for count, _ in row.left], [100 * share for _, share in row.left])
        boxes = [
            hover(name, f"{count:,} of {of} failed", f"{share:.4g} % of GPUs left")
            for count, share in zip(counts, shares, strict=True)
        ]
        facts: dict[str, object] = {
            "name": chart_label(name, 60),
            "mode": "lines+markers",
            "line": {
                "color": COLOURS[number % len(COLOURS)],
                "width": 2,
                "dash": DASHES[number % len(DASHES)],
            },
            "marker": {"symbol": SIGNS[number % len(SIGNS)], "size": 8},
        }
        data.append(marks("scatter", range(len(counts)), shares, boxes, **facts))
    steps = max((row.left for _, row in fabrics), key=len)
    layout: Json = {
        "xaxis": named_ticks([f"{count:,}" for count, _ in steps])
        | {"title": {"text": f"{PLURAL[kind]} failed"}},
        "yaxis": {"title": {"text": "GPUs that keep their network, %"}, "rangemode": "tozero"},
        "showlegend": True,
    }
    caption = (
        "Drawn at random, one order a fabric. GPUs that others may forward for, and how fast a job"
        " goes on, are not counted."
    )
    label = f"Capacity left as {PLURAL[kind]} fail"
    return Chart(f"capacity-{kind}", label, SURVIVAL_PX, tuple(data), layout, (caption,))


def slowdowns(singles: Sequence[tuple[str, Sequence[Single[Impact]]]]) -> Chart:
    """Slowdown while one part of each kind has failed, one bar a fabric."""
    kinds = list(dict.fromkeys(single.kind for _, alone in singles for single in alone))
    data: list[Json] = []
    for (fabric, alone), colour in zip(singles, cycle(COLOURS), strict=False):
        impacts = {single.kind: single.impact for single in alone}
        slow = (impacts[kind].slowdown if kind in impacts else None for kind in kinds)
        shares = (None if share is None else 100 * share for share in slow)
        boxes = (
            hover(fabric, kind, _words(impacts[kind])) if kind in impacts else "" for kind in kinds
        )
        name, marker = chart_label(fabric), {"color": colour}
        data.append(marks("bar", range(len(kinds)), shares, boxes, name=name, marker=marker))
    layout: Json = {
        "barmode": "group",
        "xaxis": named_ticks([chart_label(kind, 16) for kind in kinds]),
        "yaxis": {"title": {"text": "slower, %"}, "rangemode": "tozero"},
        "showlegend": True,
    }
    label = "Slowdown by one failure of each kind"
    return Chart("failures", label, SLOWDOWN_PX, tuple(data), layout)


def _words(impact: Impact) -> str:
    """How slow the job is, and how it goes on."""
    if impact.slowdown is None:
        return "the job stops" if impact.way == "stopped" else "not timed"
    return f"{100 * impact.slowdown:.2f} % slower, {impact.way}"


WORDS = 60
QUARTER_MORE = 1.25


class FaultsPage(Struct, frozen=True):
    """A fabric with failed parts in colour, what has failed, and what is left as more fails."""

    what: str
    draw: "Callable[[], Markup]"
    left: tuple[Attrition, ...]

    @property
    def rows(self) -> list[dict[str, object]]:
        """What is left, step by step, as JSON."""
        return [
            {"kind": row.kind, "parts": row.parts, "failed_parts": count, "gpus_left_share": share}
            for row in self.left
            for count, share in row.left
        ]


def damage_colours(
    graph: FabricGraph, damage: Damage, intact: Components | None = None
) -> Coloured:
    """What has failed, and who is cut off by it, as a drawing colours it.

    ``intact`` are the islands of the whole network, where they are known.
    """
    lost = np.zeros(graph.node_count, bool)
    lost[cut_off_gpus(graph, damage, intact)] = True
    return Coloured(links_out=damage.links_out(graph), nodes_out=damage.node_down, cut_off=lost)


def seen(
    subject: Subject, inventory: Inventory, damage: Damage, what: str, seed: int
) -> FaultsPage:
    """A fabric whose failures a page draws, and whose switches and links fail one by one."""
    graph, intact = subject.graph, subject.components[0]
    out = damage_colours(graph, damage, intact)
    parts = (attrition(inventory, kind, np.random.default_rng(seed), intact) for kind in PLURAL)
    lost = 0 if out.cut_off is None else int(out.cut_off.sum())
    gone = f"{counted(lost, 'GPU')} cut off" if lost else "no GPU cut off"
    return FaultsPage(
        f"{short(what, WORDS)} failed, {gone}",
        partial(_drawn, graph, subject.fabric, out),
        tuple(part for part in parts if part is not None),
    )


def _drawn(graph: FabricGraph, fabric: Fabric, coloured: Coloured) -> "Markup":
    """The drawing, which takes as long as the answer: only for a page."""
    from netplan.topologies.drawings.network import drawing_of
    from netplan.topologies.drawings.places import network_map

    return drawing_of(graph, fabric, network_map(graph, fabric.levels, legible=True), coloured)


def drawings(fabrics: Sequence[tuple[str, FaultsPage | None]]) -> Iterator[Section]:
    """Each fabric with its failures."""
    yield from (Inset(f"{name}: {page.what}", page.draw) for name, page in fabrics if page)


def curves(fabrics: Sequence[tuple[str, FaultsPage | None]]) -> Iterator[Section]:
    """What is left as more parts fail: curves on pages, rows for programs."""
    every = [(name, left) for name, page in fabrics if page for left in page.left]
    for kind in dict.fromkeys(curve.kind for _, curve in every):
        yield capacity([(name, curve) for name, curve in every if curve.kind == kind], kind)
    rows = [(name, curve.kind, curve.parts, *step) for name, curve in every for step in curve.left]
    yield Table("capacity", LEFT, rows, shown="data")


LEFT: list[Column[Any]] = columns(
    "fabric=0", "kind=1", "parts=2", "failed_parts=3", "gpus_left_share=4"
)


class ScenarioImpact(Struct, frozen=True):
    """The failures that were asked for, together; of several draws the worst, and their means.

    ``stopped`` counts draws after which nothing can train; slowdown and iteration time are means
    over the others, the bandwidth of the worst pair over all.
    ``cut_off`` names the first GPUs that failed or are cut off; ``loads`` is the traffic of one
    iteration over what is left.
    """

    text: tuple[str, ...]
    draws: int
    impact: Impact
    mean_iteration_time_s: float | None
    mean_slowdown: float | None
    mean_worst_bandwidth_share: float | None
    stopped: int
    cut_off: tuple[str, ...] = ()
    loads: TrainingLoads | None = None

    kind: ClassVar[str] = "scenario"
    parts: ClassVar[int | None] = None

    @property
    def part(self) -> str:
        """All that fails, as it was asked for."""
        return " ".join(self.text)


class BesideRecord(Struct, frozen=True, rename={"interruptions_per_year": "stops_per_year"}):
    """Interruptions of a year by one cause, closed form, and those of a record of one cluster.

    ``why_apart`` is what the failure book says of rates that are apart from the record's.
    """

    told_apart: str
    interruptions_per_year: float
    recorded_per_year: float
    why_apart: str = ""

    @property
    def differs(self) -> bool:
        """Whether one is above the other by a quarter or more."""
        low, high = sorted((self.interruptions_per_year, self.recorded_per_year))
        return high >= QUARTER_MORE * low and high > 0


CALLED = {"name": "fabric", "forecast": "outlook"}
"""Names in JSON of fields that are called otherwise."""


class FabricFaults(Struct, frozen=True, rename=CALLED):
    """One fabric under failures: without any, those asked for, one of each kind, years of them.

    The scenario is a text where the fabric has no such parts. ``gpus_cut_off_per_year`` counts GPUs
    that lose their network port to a failed link, leaf switch or group. ``network_cost_complete``
    says whether all that sets the fabric apart has a price and a power. ``assumed_share`` are the
    interruptions by causes of which no source says how often they happen, of all [1];
    ``is_upper_bound`` says that work which is rolled back is left out of the goodput.
    """

    json_parts = "*barred", "-error", "-batch_slowdown", "?over_sites", "capacity=seen.rows.*"

    name: str
    title: str
    switches: int
    links: int
    transceivers: int
    iteration_time_s: float | None
    gpus_used: int | None
    plan: dict[str, Any] | None
    scenario: ScenarioImpact | str | None
    singles: tuple[Single[Impact], ...]
    recoveries: tuple[Recovery, ...]
    gpus_cut_off_per_year: float
    forecast: ReliabilityForecast
    idle_price: IdlePrice
    record: tuple[BesideRecord, ...]
    policies: tuple[Policy, ...]
    network_cost_complete: bool
    assumed_share: float
    is_upper_bound: bool
    notes: tuple[str, ...]
    error: ErrorBar | None = None
    """How far iteration times may be off, if the iteration model says so."""

    batch_slowdown: float | None = None
    """What of the time without an HB domain comes from plans that must divide [1]."""

    seen: FaultsPage | None = None
    over_sites: OverSites | None = None
    """How the run lies over several sites; None in one."""

    @property
    def barred(self) -> dict[str, Any]:
        """Its fields as plain data, with ends beside all iteration times that have a bar."""
        plain: dict[str, Any] = with_bars(plain_at(self, "*", "-seen", "-over_sites"), self.error)
        return plain


def together_of(fabrics: Iterable[Any]) -> list[tuple[str, Any]]:
    """Names of the fabrics that the failures asked for happen on, and what these do there."""
    return [
        (fabric.name, fabric.scenario)
        for fabric in fabrics
        if not isinstance(fabric.scenario, str | None)
    ]

"""What a loads question answers: groups of links, the busiest ones, collectives beside bounds."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from netplan.answers.kind_loads import KIND_LEGEND, KIND_LOADS, KindLoad
from netplan.answers.screen_titles import screen_heading
from netplan.records import replace
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.charts import CHART_PX, Chart, Json, hover, marks
from netplan.reports.escape import chart_label
from netplan.reports.plots import COLOURS, DASHES
from netplan.reports.schema import plain_at
from netplan.reports.screen import Screen, more_of
from netplan.setup.inputs import short_inputs
from netplan.setup.placed_run import Run
from netplan.topologies.colours import Coloured
from netplan.topologies.graph import FabricGraph
from netplan.traffic.loads import BusyLink, GroupLoad, LinkLoads
from netplan.units import counted, si


class WholeCollective(Struct, frozen=True):
    """A collective of all GPUs: by the model and by its busiest link where its levels hold them.

    The optimum is None where it is not proven; the bound and what is reached enclose it [s].
    """

    collective: str
    members: int
    data_bytes: float
    analytic_s: float | None
    busiest_s: float | None
    optimum_s: float | None
    bound_s: float
    reached_s: float | None


WHOLE: tuple[show.Column[WholeCollective], ...] = (
    *show.columns("collective", "members", "data_bytes"),
    show.column("analytic_s", title="model"),
    show.column("busiest_s", title="by link"),
    show.column("optimum_s"),
    *show.columns("bound_s", "reached_s", shown="data"),
)
"""Columns of the collectives of all GPUs."""


NO_COLLECTIVE = "No collective crosses GPUs."
WHOLE_DRAWN = Coloured()
EVEN = 1e-6
"""Share by which the times of links that are as busy may differ [1]."""


class CollectiveLoad(Struct, frozen=True):
    """One collective of the iteration: its times by model, by links, and its bound [s, one run].

    ``each`` pipeline stage runs it, or the ``first`` or ``last`` one only. The model's time is its
    bandwidth part; the busiest link's holds if all groups run at once; the bound is that of any
    algorithm on these levels, with what sets it.
    """

    json_parts = "*", "ratio"

    kind: str
    collective: str
    members: int
    data_bytes: float
    times: float
    stage: str
    analytic_s: float
    busiest_s: float
    bound_s: float
    binding: str

    @property
    def ratio(self) -> float:
        """Analytic time over the bound [1]."""
        return self.analytic_s / self.bound_s if self.bound_s else 1.0


@dataclass(frozen=True, slots=True, repr=False)
class LoadsAnswer(Answer):
    """The answer of :func:`loads`: what carries what, by group of links, and the hottest ones.

    A training run comes with every collective of it, alone on the fabric; a saved matrix has no
    run, but, where they were asked for, the least times of collectives of 1 GB over all GPUs [s].
    ``intact_busiest_s`` is the time of the busiest link of the whole fabric, where parts have
    failed [s]. Of a run over several sites the links are those of one ``site``, and of the fibre
    between all; ``in_site`` says so. A step of post-training has loads by kind of traffic.
    """

    json_parts = (
        *(
            "total_bytes",
            "links=graph.link_count",
            "unused_links=link_loads.unused_links.#",
            "link_loads.busiest_s",
        ),
        *("intact_busiest_s", "groups", "hottest", "*_of_its_kind", "notes=_notes"),
    )

    inputs: dict[str, object]
    graph: FabricGraph
    link_loads: LinkLoads
    groups: tuple[GroupLoad, ...]
    hottest: tuple[BusyLink, ...]
    total_bytes: float
    run: Run | None = None
    collectives: tuple[CollectiveLoad, ...] = ()
    kinds: tuple[KindLoad, ...] = ()
    whole: tuple[WholeCollective, ...] = ()
    bounds_s: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    intact_busiest_s: float | None = None
    failed: Coloured = WHOLE_DRAWN
    site: str = ""
    in_site: tuple[str, ...] = ()

    @property
    def coloured(self) -> Coloured:
        """What the colours of a drawing mean: how busy links are, and what has failed."""
        busiest = self.link_loads.busiest_s
        share = self.link_loads.link_s.max(axis=0) / (busiest or 1.0)
        return replace(self.failed, share=share, words=si(busiest, "s"))

    @property
    def _of_its_kind(self) -> dict[str, Any]:
        """What JSON has of a run, or of a matrix without one."""
        if self.run is None:
            return plain_at(self, "bounds_s")
        return plain_at(
            self, "?site", "*run.in_short", "collectives", "?kinds", "whole_fabric=whole"
        )

    def summary(self) -> Iterator[show.Section]:
        """The busiest link, loads by group, collectives against their bounds."""
        by_group = show.Table("groups", GROUPS, self.groups, legend=GROUPS_LEGEND)
        yield from Screen(
            screen_heading(self.inputs, self._heading),
            (self._verdict,),
            self._kinds if self.kinds else by_group,
            (*self.in_site, *self._beside_bounds(), *self.notes[1:]),
            more_of("all links, collectives", "--fail leaf=1"),
        ).sections()

    @property
    def _kinds(self) -> show.Table[KindLoad]:
        """Kinds of traffic of a step, each while it runs."""
        title = "Kinds of traffic, each while it runs"
        return show.Table("kinds", KIND_LOADS, self.kinds, title=title, legend=KIND_LEGEND)

    def in_a_line(self) -> str:
        """How long the busiest link works."""
        return f"busiest link {si(self.link_loads.busiest_s, 's')}"

    def _beside_bounds(self) -> Iterator[str]:
        """How near collectives come to what no algorithm beats."""
        if self.collectives:
            worst = max(self.collectives, key=lambda collective: collective.ratio)
            yield (
                f"Collectives take at most {worst.ratio:.3g} times their bound: {worst.kind}"
                f" {worst.collective} of {si(worst.data_bytes, 'B')} among"
                f" {counted(worst.members, 'GPU')}, {si(worst.analytic_s, 's')} by the model, no"
                f" less than {si(worst.bound_s, 's')} by any."
            )
        elif self.run is not None:
            yield NO_COLLECTIVE
        known = [
            f"{whole.collective} {si(whole.busiest_s, 's', 4)} by its busiest link,"
            f" {si(whole.optimum_s, 's', 4)} at best"
            for whole in self.whole
            if whole.busiest_s is not None and whole.optimum_s is not None
        ]
        if known:
            yield f"1 GB over all GPUs: {'; '.join(known)}."
        bounds = [f"{name} {si(bound_s, 's', 4)}" for name, bound_s in self.bounds_s.items()]
        if bounds:
            yield f"1 GB over all GPUs takes no less than: {', '.join(bounds)}."

    def sections(self) -> Iterator[show.Section]:
        """Heading, loads by group, the hottest links, every collective or bound, notes."""
        yield self._heading
        yield show.Table("groups", GROUPS, self.groups, legend=GROUPS_LEGEND)
        yield show.Paragraph(self._verdict)
        if self.kinds:
            yield self._kinds
        yield from self._drawing()
        yield loads_chart(self.link_loads)
        yield show.Table("hottest", HOTTEST, self.hottest)
        if self.run is None:
            yield show.Table("bounds", BOUNDS, list(self.bounds_s.items()))
        elif self.collectives:
            title = "Time of one run: by the model, by its busiest link, and no less than the bound"
            yield show.Table("collectives", COLLECTIVES, self.collectives, title=title)
        else:
            yield show.Paragraph(NO_COLLECTIVE)
        if self.whole:
            title = "All GPUs at once: by the model, by its busiest link, and the best of all ways"
            yield show.Table("whole_fabric", WHOLE, self.whole, title=title)
        yield show.Notes.of([("", self._notes)])

    @property
    def _notes(self) -> list[str]:
        """What is to be said of sites, and of the run and its links."""
        return [*self.in_site, *self.notes]

    @property
    def _heading(self) -> show.Heading:
        """Whose links carry what."""
        if self.run is None:
            inputs = short_inputs(self.inputs)
            where = inputs["graph"] or f"fabric {inputs['fabric']}"
            domains = f"{self.graph.gpus:,} GPUs in HB domains of {self.graph.hb_size:,}"
            return show.Heading(
                f"Loads of {inputs['matrix']}, {si(self.total_bytes, 'B')}, on {where}",
                (f"{domains}; routing {inputs['routing']}",),
            )
        return self.run.heading(f"Loads in {self.site}" if self.site else "Loads")

    @property
    def _verdict(self) -> str:
        """How long the busiest link works, and how many do nothing."""
        within = self.run.within if self.run else ""
        if self.intact_busiest_s is not None:
            within += f", before the failure for {si(self.intact_busiest_s, 's')}"
        return (
            f"The busiest link{self._busiest_name}{si(self.link_loads.busiest_s, 's')}{within};"
            f" {len(self.link_loads.unused_links):,} of {self.graph.link_count:,} links carry"
            " nothing."
        )

    @property
    def _busiest_name(self) -> str:
        """Name of the busiest link; how many others there are, if they are as busy."""
        times, graph = self.link_loads.link_s, self.graph
        if not self.link_loads.busiest_s:
            return " works for "
        link = int(times.max(axis=0).argmax())
        ends = graph.node_name(int(graph.source[link])), graph.node_name(int(graph.target[link]))
        as_busy = int((times.max(axis=0) >= self.link_loads.busiest_s * (1 - EVEN)).sum()) - 1
        group = graph.group_names[int(graph.group[link])]
        others = f", like {counted(as_busy, 'other')}," if as_busy else ""
        return f", {' to '.join(ends)} ({group}), works{others} for "

    def _drawing(self) -> Iterator[show.Inset]:
        """The fabric with the loads as colour, where a page has room for it."""
        from netplan.topologies.drawings.network import drawing_of
        from netplan.topologies.drawings.places import network_map

        fabric = self.run.fabric if self.run else None
        places = network_map(
            self.graph, fabric.levels if fabric else (), legible=fabric is not None
        )
        if places is not None or fabric is not None:
            drawn = partial(drawing_of, self.graph, fabric, places, self.coloured)
            yield show.Inset("Links by how long they are busy", drawn)


GROUPS: tuple[show.Column[GroupLoad], ...] = (
    *show.columns("group", "directions", "unused", "total_bytes"),
    show.column("largest_bytes", shown="data"),
    *show.columns("busiest_s", "utilisation"),
)
GROUPS_LEGEND = (
    "directions: two a link. utilisation: of what these links could carry while the busiest works.",
)
HOTTEST: tuple[show.Column[BusyLink], ...] = (
    show.column("hottest", "name", shown="people"),
    *show.columns("link", "sender", "receiver", shown="data"),
    *show.columns("group", "load_bytes", "time_s"),
)
COLLECTIVES: tuple[show.Column[CollectiveLoad], ...] = (
    show.column("collective", lambda row: f"{row.kind} {row.collective}", shown="people"),
    *show.columns("kind", "collective", "stage", shown="data"),
    *show.columns("members", "data_bytes"),
    show.column("times", shown="wide"),
    show.column("analytic_s", title="model"),
    show.column("busiest_s", title="by link"),
    show.column("bound_s", title="bound"),
    show.column("binding", shown="data"),
    show.column("ratio"),
)
BOUNDS: tuple[show.Column[tuple[str, float]], ...] = (
    show.column("collective", "0", title="collective of 1 GB"),
    show.column("bound_s", "1", title="no less than", digits=4),
)


def agreement(
    collectives: tuple[CollectiveLoad, ...], way: str, share: float, *, meshes: bool
) -> Iterator[str]:
    """Why the model's times and the busiest links differ, where they do.

    Parameters
    ----------
    collectives
        Collectives of the run, with their times.
    way
        How the model times them: a key of what is said where it takes longer.
    share
        What the model gives messages of the links' bandwidth [1].
    meshes
        Whether rings run on meshes.

    Examples
    --------
    >>> one = CollectiveLoad("data", "all_reduce", 8, 1e9, 1, "each", 1.0, 2.0, 1.0, "ports")
    >>> print(*agreement((one,), "ring", 1.0, meshes=False))
    Longer than the model has it, both at all of the links' bandwidth: data all_reduce (2 s on the
    busiest link, 1 s by the model). This pattern or routing shares links that the model takes for
    separate.
    """
    if share < 1:
        yield (
            f"The model gives messages {100 * share:.0f} % of the links' bandwidth; times by link"
            " and bounds have all of it."
        )
    less: dict[str, list[str]] = {}
    shared = []
    for load in collectives:
        name, model_s = f"{load.kind} {load.collective}", share * load.analytic_s
        sums = way == "measured" and load.collective == "all_reduce"
        if load.busiest_s > model_s * (1 + 1e-9) and sums:
            yield f"{name}: its HB domains form sums in their switches, which send less than rings."
        elif load.busiest_s > model_s * (1 + 1e-9):
            more = f"{si(load.busiest_s, 's')} on the busiest link, {si(model_s, 's')} by the model"
            shared.append(f"{name} ({more})")
        elif load.busiest_s < model_s * (1 - 1e-9):
            panels = load.collective in ("broadcast", "reduce")
            less.setdefault(_MORE["panels" if panels else way], []).append(name)
    if shared:
        yield (
            "Longer than the model has it, both at all of the links' bandwidth:"
            f" {', '.join(dict.fromkeys(shared))}. This pattern or routing shares links that the"
            f" model takes for separate.{_RINGS if meshes else ''}"
        )
    for reason, names in less.items():
        yield f"{', '.join(dict.fromkeys(names))}: {reason}."


_RINGS = (
    " The model sends to all others of a mesh at once, as --algorithm direct does; rings leave most"
    " of its links idle."
)
_MORE = {
    "phased": "the model adds the phases; the busiest link works in one of them",
    "ring": "the model runs one ring through all levels, of which the slowest counts",
    "calibrated": "as runs take it: one ring through all levels, of which the slowest counts, and"
    " exchanges of experts, at a share of the links' rate",
    "measured": "measured rings take time to start, and reach a share of the bandwidth",
    "panels": "the model sends all panels over each link; a GPU need not get those it has itself",
}
"""Why a model takes longer than the busiest link."""


RANKS = 129
"""Links of a group that the drawing has room for, at even shares of it."""


def loads_chart(loads: LinkLoads) -> Chart:
    """Busy time of the links of each group, from the busiest to the idlest.

    Level lines are groups whose links share the traffic evenly; steep ones have hot links.
    """
    layout: Json = {
        "xaxis": {"title": {"text": "share of the group's link directions, %"}, "range": [0, 100]},
        "yaxis": {"title": {"text": "busy, % of the busiest link"}, "rangemode": "tozero"},
        "showlegend": True,
    }
    label = "Links of each group, from the busiest to the idlest"
    return Chart("link-loads", label, CHART_PX, tuple(_lines(loads)), layout)


def _lines(loads: LinkLoads) -> Iterator[Json]:
    """One line a group: its links at even ranks, the busiest and the idlest among them."""
    graph, whole = loads.graph, loads.busiest_s or 1.0
    for code, group in enumerate(graph.group_names):
        times = np.sort(loads.link_s[:, graph.group == code].ravel())[::-1]
        if not times.size:
            continue
        ranks = np.unique(np.linspace(0, times.size - 1, min(RANKS, times.size)).astype(int))
        shares = 100.0 * ranks / max(times.size - 1, 1)
        chosen = times[ranks]
        boxes = (
            hover(group, f"link {rank + 1:,} of {times.size:,}", si(float(time), "s"))
            for rank, time in zip(ranks.tolist(), chosen.tolist(), strict=True)
        )
        line = {
            "color": COLOURS[code % len(COLOURS)],
            "dash": DASHES[code % len(DASHES)],
            "width": 2.5,
        }
        heights = (100.0 * chosen / whole).tolist()
        name = chart_label(group)
        yield marks("scatter", shares.tolist(), heights, boxes, name=name, mode="lines", line=line)

"""What a jobs question answers: designs by what streams of jobs make of them, with their spread."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from netplan.answers.screen_titles import network_words, screen_heading
from netplan.records import replace
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.quantities import listed, quantity
from netplan.reports.schema import plain_at
from netplan.reports.screen import Screen, more_of
from netplan.setup.inputs import short_inputs
from netplan.simulation.job_charts import DesignLine, JobBar, gantt_chart, occupancy_chart
from netplan.simulation.job_outcomes import JobStream, Occupied
from netplan.units import counted, si

ROUNDING = 1e-9
"""Differences up to this share of a figure are none [1]."""

SLOWED = 1.01
"""Slowdown above which a job counts as slowed [1]."""

PERCENTILES = {"wait_p50_s": 50, "wait_p90_s": 90, "wait_p95_s": 95, "wait_p99_s": 99}
SCREEN_ROWS, NAMED = 12, 3
NO_DIFFERENCE = "no difference seen"
COMPARED = {
    "usd_per_useful_gpu_hour": "USD a useful hour",
    "usd_to_last_arrival": "USD a useful hour to the last arrival",
    "mean_slowdown": "mean slowdown",
    "mean_wait_s": "mean wait, s",
    "wait_p99_s": "wait p99, s",
    "sor_to_last_arrival": "occupied",
    "gfr": "GFR",
    "refused_while_free": "head refused while GPUs are free",
    "lost_share": "stranded in last HB domains",
}
"""Figures of which differences are told."""


class Spread(Struct, frozen=True):
    """A figure over draws: mean, least and most; every draw's."""

    json_parts = "mean", "low", "high"

    mean: float
    low: float
    high: float
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The spread of some values.

        Examples
        --------
        >>> Spread.of([1.0, 3.0])
        Spread(mean=2.0, low=1.0, high=3.0, values=(1.0, 3.0))
        """
        plain = tuple(float(value) for value in values)
        return cls(sum(plain) / len(plain), min(plain), max(plain), plain)

    def less(self, other: "Spread") -> "Spread":
        """Differences draw by draw, which had the same jobs; rounding is none.

        What draws nothing has a single value, which stands beside each of the other's.

        Examples
        --------
        >>> Spread.of([3.0, 1.0 + 1e-15]).less(Spread.of([1.0])).values
        (2.0, 0.0)
        """
        pairs = np.broadcast(self.values, other.values)
        return Spread.of([a - b if abs(a - b) > ROUNDING * abs(b) else 0.0 for a, b in pairs])

    @property
    def seen(self) -> bool:
        """Whether a difference has one sign in all draws."""
        return self.low > 0 or self.high < 0

    @property
    def decided(self) -> bool:
        """Whether a difference is told: it is seen, or there is one draw alone."""
        return self.seen or len(self.values) == 1


def stream_figures(ran: JobStream, warm_up: float) -> dict[str, float]:
    """Figures of one draw by their names.

    Parameters
    ----------
    ran
        What became of the jobs.
    warm_up
        Share of them, the first, that waits and slowdowns leave out [1].

    Returns
    -------
    dict
        Times [s], shares and counts [1], GPU time [GPU s].
    """
    later = slice(int(warm_up * len(ran.trace.gpus)), None)
    wait_s, slowdown = ran.wait_s[later], ran.slowdown[later]
    whole = ran.figures()
    waits = {name: float(np.percentile(wait_s, share)) for name, share in PERCENTILES.items()}
    return {
        "mean_wait_s": float(wait_s.mean()),
        **waits,
        "mean_completion_s": float((ran.end_s - ran.trace.arrival_s)[later].mean()),
        "mean_slowdown": float(slowdown.mean()),
        "slowdown_p99": float(np.percentile(slowdown, 99)),
        "slowed_share": float((slowdown > SLOWED).mean()),
        **plain_at(whole, "sor", "sor_to_last_arrival", "gfr"),
        **plain_at(ran, "useful", "useful_to_last_arrival"),
        "mean_leaves": float(ran.leaves[later].mean()),
        "fragments_max": float(ran.fragments_most),
        "refused_while_free": ran.refused_s / ran.makespan_s,
        "lost_by_rounding": ran.lost_gpu_s,
        "lost_share": ran.lost_gpu_s / ran.gpu_s,
        "moves": float(ran.moves.nodes),
        "migration_s": ran.moves.pauses_s,
    }


class JobsRow(Struct, frozen=True, kw_only=True):
    """One design by one placement.

    Parameters
    ----------
    fabric, hb_size, oversubscription, placement, queue, migrate
        Which design and rules; the fabric's own ratio is None [1].
    ratio
        Rate of the cards below a leaf over its uplinks [1].
    jobs, draws
        Jobs of a draw, and draws [1].
    load_reached
        Share of GPUs taken when the stream begins [1].
    figures
        By name, over the draws.
    usd_per_useful_gpu_hour, usd_to_last_arrival
        By what is useful until the last end, and the last arrival; None where not known [USD/h].
    network_usd, total_usd, unknown
        Price of the network, with all GPU hours; why one is not known [USD].
    occupied, total_gpus, bars
        Of the first draw: GPUs taken over time, of how many; its largest jobs.
    """

    json_parts = (
        *("fabric", "hb_size", "oversubscription", "ratio", "placement", "queue", "migrate"),
        *("jobs", "draws", "load_reached", "*figures", "gar"),
        *("usd_per_useful_gpu_hour", "usd_to_last_arrival", "network_usd", "total_usd"),
    )

    fabric: str
    hb_size: int
    oversubscription: float | None
    ratio: float
    placement: str
    queue: str
    migrate: int | None
    jobs: int
    draws: int
    load_reached: Spread
    figures: Mapping[str, Spread]
    usd_per_useful_gpu_hour: Spread | None
    usd_to_last_arrival: Spread | None
    network_usd: float | None
    total_usd: float | None
    unknown: str
    occupied: Occupied
    total_gpus: int
    bars: tuple[JobBar, ...]

    def figure(self, name: str) -> Spread | None:
        """A figure by its name."""
        if name == TO_LAST:
            return self.usd_to_last_arrival
        return self.usd_per_useful_gpu_hour if name == USD else self.figures[name]

    def name_among(self, rows: "Sequence[JobsRow]") -> str:
        """What tells it from others."""
        ratio = f"{self.ratio:.3g}:1"
        parts = {
            "fabric": self.fabric,
            "hb_size": f"HB {self.hb_size}",
            "ratio": ratio,
            "placement": self.placement,
        }
        apart = [name for name in parts if len({getattr(row, name) for row in rows}) > 1]
        return " ".join(parts[name] for name in apart) or f"{self.fabric} {ratio} {self.placement}"

    @property
    def gar(self) -> dict[str, list[float]]:
        """Share of GPUs that are taken over time, of the first draw [s, 1]."""
        share = self.occupied.gpus / self.total_gpus
        return {"time_s": self.occupied.time_s.tolist(), "share": share.tolist()}


USD, TO_LAST = "usd_per_useful_gpu_hour", "usd_to_last_arrival"


class FigureDifference(Struct, frozen=True):
    """A figure of one design less that of another, over draws with the same jobs."""

    json_parts = "design", "against", "figure", "*difference", "seen"

    design: str
    against: str
    figure: str
    difference: Spread

    @property
    def seen(self) -> str:
        """Whether all draws agree; of a single one nobody knows."""
        if len(self.difference.values) == 1:
            return "one stream, no repeats"
        return "yes" if self.difference.seen else NO_DIFFERENCE


def _mean_of(row: JobsRow, name: str) -> float | None:
    """Mean of a figure over draws."""
    spread = row.figure(name)
    return None if spread is None else spread.mean


WIDE = (
    *("mean_wait_s", "wait_p90_s", "wait_p95_s", "mean_completion_s", "slowdown_p99"),
    *("slowed_share", "sor", "useful", "useful_to_last_arrival", "mean_leaves", "fragments_max"),
    *("refused_while_free", "lost_by_rounding", "lost_share", "moves", "migration_s"),
)
"""Figures that a wide terminal shows."""
QUANTITIES = {"mean_slowdown": "job_slowdown", "moves": "job_moves"}
"""Names of figures in the nomenclature, where they are others."""


def _figure(name: str, **facts: Any) -> show.Column[JobsRow]:  # noqa: ANN401 - of a column
    """A column of the mean of a figure."""
    return show.column(QUANTITIES.get(name, name), partial(_mean_of, name=name), **facts)


ROWS: tuple[show.Column[JobsRow], ...] = (
    *show.columns("fabric", "hb_size"),
    show.column("leaf_ratio", lambda row: f"{row.ratio:.3g}:1"),
    show.column("placement"),
    _figure("wait_p50_s", title="wait p50"),
    _figure("wait_p99_s", title="p99"),
    _figure("mean_slowdown"),
    _figure("sor_to_last_arrival"),
    _figure("gfr"),
    _figure(TO_LAST, title="USD/h"),
    _figure(USD, title="USD/h to the end", shown="wide"),
    show.column("queue", shown="wide"),
    show.column(
        "migrate", lambda row: "none" if row.migrate is None else str(row.migrate), shown="wide"
    ),
    *(_figure(name, shown="wide") for name in WIDE),
    *show.columns("load_reached=load_reached.mean", "network_usd", "total_usd", shown="wide"),
)


class JobsFigure(NamedTuple):
    """A figure of a design as it is read: mean, least and most of the draws."""

    design: str
    figure: str
    mean: str
    low: str
    high: str


FIGURES: tuple[show.Column[JobsFigure], ...] = (
    show.column("stream_figure", "figure"),
    show.column("mean_difference", "mean", form="text", title="mean"),
    show.column("low_difference", "low", form="text"),
    show.column("high_difference", "high", form="text"),
)
DIFFERENCES: tuple[show.Column[FigureDifference], ...] = (
    show.column("design", form="text", title="Design"),
    *show.columns("compared_with=against", "stream_figure=figure"),
    *show.columns(
        "mean_difference=mean", "low_difference=low", "high_difference=high", of="difference"
    ),
    show.column("difference_seen", "seen"),
)


@dataclass(frozen=True, repr=False)
class JobsAnswer(Answer):
    """The answer of :func:`jobs`: what streams of jobs make of each design."""

    json_parts = "verdict", "rows", "differences", "notes=_notes"

    inputs: dict[str, Any]
    rows: tuple[JobsRow, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def ranked(self) -> tuple[JobsRow, ...]:
        """Rows from the cheapest useful hour on; by completion where no cost is known."""
        return tuple(sorted(self.rows, key=self._worth))

    @property
    def _judged_by(self) -> str:
        """What says which design is best."""
        # One long last job empties the cluster: until the last arrival draws can be compared.
        priced = all(row.usd_to_last_arrival is not None for row in self.rows)
        return TO_LAST if priced else "mean_completion_s"

    def _worth(self, row: JobsRow) -> float:
        return _mean_of(row, self._judged_by) or 0.0

    @property
    def decided(self) -> bool:
        """Whether the best is better than the next in every draw."""
        if len(self.rows) == 1:
            return True
        best, other = (row.figure(self._judged_by) for row in self.ranked[:2])
        if best is None or other is None:
            return False
        return other.less(best).low > 0

    @cached_property
    def differences(self) -> tuple[FigureDifference, ...]:
        """Each row less the first, figure by figure."""
        first = self.rows[0]
        known = []
        for row in self.rows[1:]:
            for name, words in COMPARED.items():
                mine, other = row.figure(name), first.figure(name)
                if mine is not None and other is not None:
                    design, against = (shown.name_among(self.rows) for shown in (row, first))
                    known.append(FigureDifference(design, against, words, mine.less(other)))
        return tuple(known)

    @property
    def verdict(self) -> dict[str, object]:
        """Which design pays, by what, as JSON."""
        return {
            "decided": self.decided,
            "design": self.ranked[0].name_among(self.rows) if self.decided else None,
            "by": self._judged_by,
            "sentence": self._verdict(),
        }

    def summary(self) -> Iterator[show.Section]:
        """Which design pays, all designs, and what they lose."""
        yield from Screen(
            screen_heading(self.inputs, self._heading(), lower=False),
            (self._verdict(),),
            self._table(),
            (*self._ratios_lose(), *self._notes),
            more_of("all figures", "--placement scattered", "--migrate 2"),
            most_rows=SCREEN_ROWS,
            least_gap=1,
        ).sections()

    def in_a_line(self) -> str:
        """The design that pays, or that none is seen to."""
        best = self.ranked[0]
        if not self.decided:
            return f"undecided between {self._two_names()}"
        worth = self._words(self._worth(best))
        return f"{best.name_among(self.rows)}: {worth}"

    def sections(self) -> Iterator[show.Section]:
        """Heading, verdict, figures, what ratios cost, charts, differences, notes."""
        yield self._heading()
        yield show.Paragraph(self._verdict(), "strong")
        yield self._table()
        yield self._spreads()
        yield from map(show.Paragraph, self._ratios_lose())
        lines = [
            DesignLine(
                row.name_among(self.rows), row.occupied.time_s, row.occupied.gpus / row.total_gpus
            )
            for row in self.rows
        ]
        yield occupancy_chart(lines)
        best = self.ranked[0]
        yield gantt_chart(best.bars, best.name_among(self.rows), best.jobs)
        if self.differences:
            legend = (
                "Draw by draw, with the same jobs; least and most of the draws beside the mean.",
            )
            title = f"Differences against {self.rows[0].name_among(self.rows)}"
            yield show.Table("differences", DIFFERENCES, self.differences, title, legend)
        yield show.Notes.of([("", self._notes)])

    def _table(self) -> show.Table[JobsRow]:
        """All designs; what all share is in the heading."""
        same = {
            name
            for name in ("fabric", "hb_size")
            if len({getattr(row, name) for row in self.rows}) == 1
        }
        shown = [
            replace(entry, shown="data") if entry.quantity.name in same else entry for entry in ROWS
        ]
        first = next(i for i, entry in enumerate(shown) if entry.shown == "all")
        ordered = [shown[first], *shown[:first], *shown[first + 1 :]]
        legend = (
            "p50, p99: waits. occupied: GPU time taken until the last arrival. GFR: nodes in part."
            " USD/h: network and GPUs, for an hour that jobs need alone, likewise."
        )
        chosen = self.ranked[0] if self.decided and len(self.rows) > 1 else None
        return show.Table(
            "rows", ordered, self.rows, legend=(legend,), chosen=lambda row: row is chosen
        )

    def _spreads(self) -> show.Table[JobsFigure]:
        """Every figure of every design, and how far draws spread."""
        known = []
        for row in self.rows:
            for name in (USD, TO_LAST, *row.figures):
                spread, words = row.figure(name), quantity(QUANTITIES.get(name, name))
                if spread is not None:
                    values = (
                        words.shown(value) for value in (spread.mean, spread.low, spread.high)
                    )
                    known.append(JobsFigure(row.name_among(self.rows), words.title, *values))
        legend = ("Mean, least and most of the draws.",)
        return show.Table(
            "figures",
            FIGURES,
            known,
            "Figures",
            legend,
            part=lambda figure: figure.design,
            shown="texts",
        )

    def _words(self, worth: float) -> str:
        """What a design is judged by, in words."""
        if self._judged_by == TO_LAST:
            return f"{worth:.3f} USD a useful GPU hour"
        return f"{si(worth, 's')} from arrival to end"

    def _two_names(self) -> str:
        """The two best designs."""
        return " and ".join(row.name_among(self.rows) for row in self.ranked[:2])

    def _verdict(self) -> str:
        """What a torus loses or HB domains strand, where that is asked, and what pays."""
        lost = (self._torus_loses(), self._domains_strand(), self._pays())
        return " ".join(filter(None, lost))

    def _pays(self) -> str:
        """Which design is the best, and by how much more than the spread of the draws."""
        best = self.ranked[0]
        worth = self._words(self._worth(best))
        if len(self.rows) == 1:
            spread = best.figure(self._judged_by)
            over = ""
            if spread is not None and best.draws > 1:
                draws = counted(best.draws, "draw")
                over = f" ({spread.low:.4g} to {spread.high:.4g} over {draws})"
            waits = " and ".join(
                si(best.figures[name].mean, "s") for name in ("wait_p50_s", "wait_p99_s")
            )
            slow = best.figures["mean_slowdown"].mean
            name = best.name_among(self.rows)
            return f"{name}: {worth}{over}; waits p50 and p99 {waits}, mean slowdown {slow:.3f}."
        other = self.ranked[1]
        least, most = best.figure(self._judged_by), other.figure(self._judged_by)
        if least is None or most is None:
            return f"Undecided between {self._two_names()}."
        gap = most.less(least)
        draws = counted(len(gap.values), "draw")
        name, rival = (row.name_among(self.rows) for row in (best, other))
        what = "cheapest" if self._judged_by == TO_LAST else "soonest done"
        if not self.decided:
            return (
                f"Undecided between {name} and {rival}: {NO_DIFFERENCE}. {name} has {worth}, and"
                f" the difference is {gap.low:.3g} to {gap.high:.3g} over {draws}{self._worse()}."
            )
        share = 100 * gap.mean / most.mean
        basis = (
            f"{gap.low:.3g} to {gap.high:.3g} over {draws}" if len(gap.values) > 1 else "one stream"
        )
        return (
            f"{name} is {what}: {worth}, {gap.mean:.3g} ({share:.2g} %) less than {rival}"
            f" ({basis})."
        )

    def _worse(self) -> str:
        """Which designs beside the two best are worse than the best in every draw."""
        best = self.ranked[0].figure(self._judged_by)
        others = ((row.name_among(self.rows), row) for row in self.ranked[2:])
        worse = [
            name
            for name, row in others
            if best and (worth := row.figure(self._judged_by)) and worth.less(best).low > 0
        ]
        if not worse:
            return ""
        what = "dearer" if self._judged_by == TO_LAST else "later"
        names = listed(worse) if len(worse) <= NAMED else f"{len(worse)} others"
        return f"; {names} {'is' if len(worse) == 1 else 'are'} {what} in every draw"

    def _ratios_lose(self) -> tuple[str, ...]:
        """What higher ratios cost jobs, against the lowest one of the same placement."""
        first = self.rows[0]
        alike = [
            row
            for row in self.rows
            if (row.fabric, row.hb_size, row.placement)
            == (first.fabric, first.hb_size, first.placement)
        ]
        least, *others = sorted(alike, key=lambda row: row.ratio)
        texts = []
        for row in others:
            gap = row.figures["mean_slowdown"].less(least.figures["mean_slowdown"])
            loss = f"{100 * gap.mean:+.2g} % ({100 * gap.low:.2g} to {100 * gap.high:.2g})"
            texts.append(f"{row.ratio:.3g}:1 {loss if gap.decided else NO_DIFFERENCE}")
        if not texts:
            return ()
        return (f"Mean slowdown against {least.ratio:.3g}:1: {', '.join(texts)}.",)

    def _torus_loses(self) -> str:
        """What jobs in boxes of a torus lose to circuit switches."""
        texts = []
        for box, joined in product(self.rows, self.rows):
            alike = (box.fabric, box.hb_size) == (joined.fabric, joined.hb_size)
            if not alike or (box.placement, joined.placement) != ("cube", "cube-ocs"):
                continue
            gap = joined.figures["sor_to_last_arrival"].less(box.figures["sor_to_last_arrival"])
            unseen = "" if gap.decided else f": {NO_DIFFERENCE}"
            refused = 100 * box.figures["refused_while_free"].mean
            texts.append(
                f"Boxes of {box.fabric} lose {100 * gap.mean:.2g} points of occupancy"
                f" ({100 * gap.low:.2g} to {100 * gap.high:.2g}{unseen}) to circuit switches; for"
                f" {refused:.2g} % of the time the head waits though enough chips are free."
            )
        return " ".join(texts)

    def _domains_strand(self) -> str:
        """What the largest of several sizes of HB domains leaves unused, and what the others do."""
        rows = {row.hb_size: row for row in reversed(self.rows)}
        if len(rows) == 1:
            return ""
        largest, *others = sorted(rows, reverse=True)
        lost = {size: row.figures["lost_share"] for size, row in rows.items()}
        strands = lost[largest]
        texts = [f"{size} {100 * lost[size].mean:.2g} %" for size in others]
        seen = all(strands.less(lost[size]).decided for size in others)
        return (
            f"HB domains of {largest} strand {100 * strands.mean:.2g} % of the GPU time taken"
            f" ({100 * strands.low:.2g} to {100 * strands.high:.2g}) in the last domains of jobs,"
            f" those of {', '.join(texts)}{'' if seen else f' ({NO_DIFFERENCE})'}."
        )

    def _heading(self) -> show.Heading:
        """Which stream fills which cluster."""
        inputs = short_inputs(self.inputs)
        count = self.rows[0].jobs
        fabrics = ", ".join(dict.fromkeys(row.fabric for row in self.rows))
        of_file = str(self.inputs["stream"]).lower().endswith(".csv")
        load = "" if inputs.get("load") is None or of_file else f", load {inputs['load']:g}"
        network = dict(self.inputs)
        if len({row.hb_size for row in self.rows}) > 1:
            network["hb_size"] = None  # a column has them
        return show.Heading(
            f"{counted(count, 'job')} of {inputs['stream']} on {fabrics}",
            (f"{network_words(network)}{load}, queue {inputs['queue']}",),
        )

    @property
    def _notes(self) -> tuple[str, ...]:
        """What was noticed, what is not known, and what the load was at first."""
        unknown = dict.fromkeys(row.unknown for row in self.rows if row.unknown)
        reached = self.rows[0].load_reached
        first: tuple[str, ...] = ()
        if self.inputs["start"] == "steady":
            first = (f"The stream begins with {100 * reached.mean:.3g} % of the GPUs taken.",)
        drain = ""
        prices = [
            f"{row.name_among(self.rows)} {row.usd_per_useful_gpu_hour.mean:.3f}"
            for row in self.rows[:SCREEN_ROWS]
            if row.usd_per_useful_gpu_hour is not None
        ]
        if prices:
            drain = (
                "Until the last job ends a useful hour costs, one long last job having the cluster"
                f" to itself, USD: {', '.join(prices)}."
            )
        left_out = (
            "Left out: priorities, preemption, elastic jobs, failures during the stream, phases of"
            " jobs that may avoid each other."
        )
        return (*unknown, *first, *([drain] if drain else []), *self.notes, left_out)

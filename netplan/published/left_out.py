"""Error bars of iteration model ``calibrated`` under software of a date, made anew.

All runs of one source, which is a release of a benchmark, are left out, the numbers are fitted
again on the rest, and the runs left out are predicted; so are those of one model. The 5th and the
95th percentile of measured over predicted times, of a class of models, are its bar: ``calibrated``
without the source, ``transferred`` without the model. Models that differ in their number of layers
alone are one. Refits take a few steps from the fit of all runs
(`netplan.calibration.fit.refit`): run to their end, hybrids without their model are 12 % off, all
else within half a point.

A third set takes what software does with experts from its date, as where nothing of it is asked
for.

Does a bar hold what it says? Runs of a source are put to bars that are made of all other sources'
runs of the class, each predicted without its own source: the share that they hold stands beside the
share that they were made for.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats
from netplan.calibration.dated_runs import DatedRuns
from netplan.calibration.fit import ENDS, quantile
from netplan.calibration.published import published_runs
from netplan.calibration.run_fits import TrainingProblem, series_weights
from netplan.calibration.runs import CALIBRATIONS, MeasuredRun
from netplan.errors import InputError
from netplan.performance.calibrated_run import DatedErrors, Factors
from netplan.performance.dated.recipe import SERVER_GPUS
from netplan.performance.dated.run import model_kind
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.progress import with_progress
from netplan.published.checks import Check, check, published
from netplan.records import replace
from netplan.reports.charts import CHART_PX, GREY, Chart, Json, hover, marks
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import Column, Heading, Notes, Section, Table, column
from netplan.workloads.models import Model
from netplan.workloads.recomputation import NOTHING

TITLE = "Error bars of calibrated under software of a date"
Without = Literal["source", "model", "recipe"]
WITHOUT: tuple[Without, ...] = ("source", "model", "recipe")

NEAR = 0.005
"""By how much a mean error or the end of a bar may differ from what it was made of [1]."""
CURVE = "What bars of other sources' runs hold"
COLOURS = ("#3b74c9", "#d9782d", "#2e9e74", "#b0569c", "#c2a02f")
"""Of classes of models in a chart."""
STATED = (0.5, 0.8, 0.9, 0.95)
"""Shares of runs that bars are made to hold, of which it is shown what they do hold [1]."""
LEAST_RUNS = 10
"""Runs of other sources of which a bar is made at least [1]."""


class LeftOutBar(Struct, frozen=True):
    """What one class of models is off by where something is left out.

    Parameters
    ----------
    without
        What: the ``source`` or release, the ``model``, or the ``recipe``, which the date says.
    kind
        Class of model and chip.
    runs
        Runs of it [1].
    mean, low, high
        Mean absolute error, and percentiles of measured over predicted times [1].
    printed
        The bar that answers print for it.
    """

    json_parts = (
        *("without", "class=kind", "runs", "mean_error=mean", "low", "high"),
        *("printed_low=printed.low", "printed_high=printed.high"),
    )

    without: Without
    kind: str
    runs: int
    mean: float
    low: float
    high: float
    printed: Factors | None

    @property
    def printed_text(self) -> str:
        """That bar for people."""
        return f"{self.printed.low:.2f}-{self.printed.high:.2f}" if self.printed else ""


class Coverage(Struct, frozen=True):
    """Of the runs of a class, the share that bars of other sources' runs hold [1]."""

    json_parts = "class=kind", "runs", "stated", "achieved"

    kind: str
    runs: int
    stated: float
    achieved: float


class LeftOut(Struct, frozen=True):
    """Bars of every class, and what they hold."""

    bars: tuple[LeftOutBar, ...]
    coverage: tuple[Coverage, ...]


def error_class(run: MeasuredRun) -> str:
    """Class of model and chip, as bars have it; hybrids on TPUs count as experts do."""
    kind, rates = model_kind(run.model), run.accelerator.training
    if rates is None or rates.dated is None or rates.dated.generation != "tpu":
        return kind
    return "tpu-dense" if kind == "dense" else "tpu-moe"


def same_model(runs: Sequence[MeasuredRun]) -> list[str]:
    """The model of each run, by one name where models differ in their number of layers alone."""
    names: dict[object, str] = {}
    return [names.setdefault(_layer(run.model), run.model.name) for run in runs]


def _layer(model: Model) -> object:
    """All sizes of a model but its number of layers and what a run chooses."""
    experts = model.experts.changed(dense_first_layers=0) if model.experts else None
    sizes = model.hidden_size, model.inner_size, model.heads, model.key_heads, model.vocabulary
    return (*sizes, experts, model.mamba)


def by_date(run: MeasuredRun) -> MeasuredRun:
    """A run whose software does with experts what its date says, and computes no module again."""
    rates = run.accelerator.training
    if run.recipe is None or rates is None or rates.dated is None:
        return run
    recipe = replace(
        run.recipe, dispatcher=None, expert_overlap=None, graphs=None, fused_experts=None
    ).completed(
        generation=rates.dated.generation,
        rack=max(run.hb_size, run.accelerator.hb_size) > SERVER_GPUS,
        precision_detail=run.timed_precision,
        gated=run.model.gated_ffn,
        hybrid=run.model.mamba is not None,
        sparse=run.model.experts is not None,
    )
    again = NOTHING if run.again.modules else run.again
    return replace(run, recipe=recipe, again=again)


@cache
def left_out() -> LeftOut:
    """Refit without each source and each model, and make the bars of all classes.

    Returns
    -------
    LeftOut
        Bars by what is left out, then class; then what bars hold.

    Raises
    ------
    InputError
        If the iteration model's file has no error bars of dates.
    """
    part = ITERATION_MODELS.load("calibrated").calibration
    errors = part.errors.dated if part else None
    if part is None or errors is None:
        raise InputError("iteration model calibrated has no error bars of dates: mend its file")
    runs = published_runs("dated-runs")
    problem = TrainingProblem.of(DatedRuns.of(runs, part), CALIBRATIONS.load("dated"))
    measured_s, weights = problem.runs.measured_s, series_weights(runs)
    kinds = np.array([error_class(run) for run in runs])
    groups = {"source": [run.source for run in runs], "model": same_model(runs)}
    ratios = {
        name: measured_s / problem.left_out(group, near=True)
        for name, group in with_progress(groups.items(), lambda item: f"without its {item[0]}")
    }
    ratios["recipe"] = measured_s / DatedRuns.of([by_date(run) for run in runs], part).seconds()
    sparse = np.array([run.model.experts is not None for run in runs])
    bars = []
    for without in WITHOUT:
        for kind in dict.fromkeys(published_class(without)):
            chosen = (kinds == kind) & (sparse | (without != "recipe"))
            bars.append(_bar(without, kind, ratios[without][chosen], weights[chosen], errors))
    sources = np.array(groups["source"])
    curve = [
        point
        for kind in dict.fromkeys(published_class("source"))
        for point in _coverage(kind, ratios["source"], weights, kinds == kind, sources)
    ]
    return LeftOut(tuple(bars), tuple(curve))


def published_class(without: str) -> list[str]:
    """Classes that something is left out of."""
    return [row["class"] for row in published("run-errors") if row["without"] == without]


def _bar(
    without: Without, kind: str, ratios: Floats, weights: Floats, errors: DatedErrors
) -> LeftOutBar:
    of_class = errors.of(kind.removeprefix("tpu-"), tpu=kind != kind.removeprefix("tpu-"))
    printed = {"source": of_class.scored, "model": of_class.wide, "recipe": of_class.preset}
    low, high = (quantile(ratios, weights, share) for share in ENDS)
    if without == "recipe":  # nothing is refitted: each run says as much as any other
        low, high = (float(np.quantile(ratios, share)) for share in ENDS)
    mean = float(np.abs(1 / ratios - 1).mean())
    return LeftOutBar(without, kind, len(ratios), mean, low, high, printed[without])


def _coverage(
    kind: str, ratios: Floats, weights: Floats, chosen: Bools, sources: Floats
) -> Iterator[Coverage]:
    """What bars of other sources' runs hold of each source's; nothing of classes of few runs."""
    for stated in STATED:
        held, counted = 0.0, 0.0
        for source in dict.fromkeys(sources[chosen]):
            inside_source, others = chosen & (sources == source), chosen & (sources != source)
            if others.sum() < LEAST_RUNS:
                continue
            low, high = (
                quantile(ratios[others], weights[others], share)
                for share in ((1 - stated) / 2, (1 + stated) / 2)
            )
            inside = (low <= ratios[inside_source]) & (ratios[inside_source] <= high)
            held = held + float(inside @ weights[inside_source])
            counted = counted + weights[inside_source].sum()
        if counted:
            yield Coverage(kind, int(chosen.sum()), stated, float(held / counted))


def bar_checks(refits: LeftOut) -> Iterator[Check]:
    """Mean error and ends of every bar against what it was made of, and what answers print."""
    rows = {(row["without"], row["class"]): row for row in published("run-errors")}
    for bar in refits.bars:
        row = rows[bar.without, bar.kind]
        words = WORDS[bar.without]
        for name, got, stated in (
            ("mean error, %", bar.mean, row["mean"]),
            ("measured over predicted, 5th percentile, %", bar.low, row["low"]),
            ("measured over predicted, 95th percentile, %", bar.high, row["high"]),
        ):
            yield check(
                f"{NAMES[bar.kind]}: {name}",
                f"{TITLE}, {words}",
                f"{100 * float(stated):.1f}, within {100 * NEAR:.1f}",
                f"{100 * got:.1f}",
                met=abs(got - float(stated)) <= NEAR,
                gap=got - float(stated),
            )
        if bar.without == "source" and bar.printed and not bar.kind.startswith("tpu"):
            ends = bar.printed.low, bar.printed.high
            yield check(
                f"{NAMES[bar.kind]}: bar that answers print",
                f"{TITLE}, {words}",
                f"{bar.low:.2f} to {bar.high:.2f}",
                f"{ends[0]:.2f} to {ends[1]:.2f}",
            )


NAMES: Mapping[str, str] = {
    "dense": "dense",
    "moe": "experts",
    "hybrid": "hybrid",
    "tpu-dense": "dense, TPU",
    "tpu-moe": "experts, TPU",
}
"""Classes, for people."""
WORDS: Mapping[str, str] = {
    "source": "source or release left out",
    "model": "model left out",
    "recipe": "recipe taken from the date",
}


def bar_screen(refits: LeftOut, sentence: str) -> Screen:
    """What a terminal shows of bars that were made anew.

    Parameters
    ----------
    refits
        The bars.
    sentence
        What came of the checks.
    """
    return Screen(
        Heading(TITLE),
        (sentence, "Runs that are predicted without their source or release, or their model:"),
        Table("bars", BARS, refits.bars),
        (),
        more_of("what bars hold, by share"),
        most_rows=len(refits.bars),
    )


def coverage_chart(points: Sequence[Coverage]) -> Chart:
    """Share of runs that bars hold against the share that they are made for, a line a class.

    Parameters
    ----------
    points
        Classes at each stated share.

    Returns
    -------
    Chart
        With a line on which both are equal.
    """
    drawn: list[Json] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [0.0, 1.0],
            "y": [0.0, 1.0],
            "name": "as stated",
            "hoverinfo": "skip",
            "line": {"color": GREY, "width": 1},
        }
    ]
    kinds = dict.fromkeys(point.kind for point in points)
    for kind, colour in zip(kinds, COLOURS, strict=False):
        of_kind = [point for point in points if point.kind == kind]
        boxes = (
            hover(NAMES[kind], f"stated {point.stated:.0%}", f"achieved {point.achieved:.0%}")
            for point in of_kind
        )
        line, marker = {"color": colour}, {"color": colour}
        places = [point.stated for point in of_kind], [point.achieved for point in of_kind]
        name = f"{NAMES[kind]} ({of_kind[0].runs} runs)"
        drawn.append(
            marks(
                "scatter", *places, boxes, name=name, mode="lines+markers", line=line, marker=marker
            )
        )
    axis: Json = {"tickformat": ".0%", "range": [0.0, 1.0]}
    layout: Json = {
        "xaxis": {"title": {"text": "share of runs that a bar is made for"}, **axis},
        "yaxis": {"title": {"text": "share that it holds"}, **axis},
        "showlegend": True,
    }
    return Chart("coverage", CURVE, CHART_PX, tuple(drawn), layout)


def bar_sections(refits: LeftOut) -> Iterator[Section]:
    """Bars of all classes, what they hold, and what that means."""
    yield Table("bars", BARS, refits.bars, "Errors where something is left out of the fit")
    yield coverage_chart(refits.coverage)
    yield Table("coverage", COVERAGE, refits.coverage, "What bars hold")
    ends = (
        "Percentiles of measured over predicted times, the 5th and the 95th; runs of a plan on"
        " several numbers of GPUs count as one."
    )
    transferred = (
        "As many times less as more: about what runs are off by without their model, of dense"
        " models a step wider."
    )
    tpus = (
        "Bars of v6e and v7 have both in the fit: without one of them its runs are further off than"
        " the bar says."
    )
    yield Notes((("ends", ends), ("transferred", transferred), ("TPU", tpus)))


BARS: tuple[Column[LeftOutBar], ...] = (
    column("model_class", lambda bar: NAMES[bar.kind]),
    column("without"),
    column("runs"),
    column("mean_error", "mean"),
    column("low_ratio", "low"),
    column("high_ratio", "high"),
    column("printed_bar", "printed_text"),
)
COVERAGE: tuple[Column[Coverage], ...] = (
    column("model_class", lambda point: NAMES[point.kind]),
    column("runs"),
    column("stated_coverage", "stated"),
    column("achieved_coverage", "achieved"),
)

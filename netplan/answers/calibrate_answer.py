"""The answer of ``netplan calibrate``: fitted numbers, errors, and the files that hold them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from netplan.calibration.cluster import FAR_ERROR, Bases, Fits, Origin, file_text
from netplan.calibration.fit import Fitted
from netplan.catalog import Catalog, Record
from netplan.files import read_bounded, write_texts
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.charts import ACCENT, CHART_PX, GREY, Chart, Json, hover, marks
from netplan.reports.quantities import listed
from netplan.reports.screen import Screen, more_of
from netplan.setup.inputs import replaced_lines
from netplan.units import si
from netplan.workloads.measured_rates import TABLES

CLASSES = {"dense": "dense models", "moe": "experts", "hybrid": "hybrids"}
MOVED = 4
"""Fitted numbers that a screen names [1]."""

WORST_ROWS = 10
"""Rows that texts show: those that are met worst."""


class Number(NamedTuple):
    """One fitted number."""

    measured: str
    number: str
    before: float
    after: float
    change: float
    deviation: float
    told: str


class FitRow(NamedTuple):
    """One measurement."""

    measured: str
    row: str
    measured_s: float
    predicted_s: float
    prediction_error: float
    error_left_out: float


class MeasuredGroup(NamedTuple):
    """Measurements of one kind, and how far off predictions of them are."""

    measured: str
    rows: int
    error_before: float
    error_after: float
    error_left_out: float
    largest_error: float


@dataclass(frozen=True, slots=True, repr=False)
class Calibrated(Answer):
    """The answer of :func:`calibrate`."""

    json_parts = ("groups", "numbers", "measurements=rows", "files")

    inputs: Mapping[str, Any]
    bases: Bases
    fits: Fits
    origin: Origin
    records: tuple[tuple[Catalog[Any], Record], ...]

    @property
    def groups(self) -> list[MeasuredGroup]:
        """Errors by what was measured."""
        return [
            MeasuredGroup(
                measured=fit.title,
                rows=len(fit.labels),
                error_before=fit.error(fit.before_s),
                error_after=fit.error(fit.after_s),
                error_left_out=fit.error(fit.left_out_s),
                largest_error=float(abs(fit.after_s / fit.measured_s - 1).max()),
            )
            for fit in self.fits.all
        ]

    @property
    def numbers(self) -> list[Number]:
        """All fitted numbers."""
        return [number for fitted in self.fits.all for number in _numbers(fitted)]

    @property
    def rows(self) -> list[FitRow]:
        """All measurements."""
        return [
            FitRow(fit.title, label, measured, after, after / measured - 1, left_out / measured - 1)
            for fit in self.fits.all
            for label, measured, after, left_out in zip(
                fit.labels,
                *(times.tolist() for times in (fit.measured_s, fit.after_s, fit.left_out_s)),
                strict=True,
            )
        ]

    @property
    def files(self) -> dict[str, str]:
        """Text of each catalog file, by its place in a catalog folder."""
        texts = {
            f"{shelf.folder}/{self.origin.name}.yaml": file_text(record)
            for shelf, record in self.records
        }
        measured = self.bases.accelerator.measured
        for key, table in measured.tables.items() if measured else ():
            content = read_bounded(Path(table)).decode()
            texts[f"traffic/accelerators/{self.origin.name}{TABLES[key]}.csv"] = content
        return texts

    def write(self, folder: str | Path, *, force: bool = False) -> tuple[Path, ...]:
        """Write the files into a catalog folder, whose path ``--catalog`` then takes.

        Raises
        ------
        InputError
            If one of them is there already, unless ``force`` is said.
        """
        return write_texts(Path(folder), self.files, force=force)

    def summary(self) -> Iterator[show.Section]:
        """How far off predictions are, by what was measured; numbers that changed most; notes."""
        moved = sorted(self.numbers, key=lambda number: -abs(number.change))[:MOVED]
        changes = [f"{number.number} {100 * number.change:+.0f} %" for number in moved]
        yield from Screen(
            self._heading,
            (self._verdict(),),
            self._errors,
            (f"Numbers that changed most: {', '.join(changes)}.", *self._notes()),
            more_of("numbers, rows", "--into DIR (writes the files)"),
        ).sections()

    @property
    def _errors(self) -> show.Table[MeasuredGroup]:
        """Errors by what was measured."""
        title = "Mean errors of predictions"
        return show.Table("groups", show.columns(*MeasuredGroup._fields), self.groups, title)

    def in_a_line(self) -> str:
        """Mean error of what the fit has not seen."""
        return self._verdict().removesuffix(".")

    @property
    def _heading(self) -> show.Heading:
        """What was fitted to what."""
        origin, (accelerator, link, stack) = self.origin, self.bases
        begins = [accelerator.name, link.name, stack.name]
        files = [path.name for path in (*origin.gemm, *origin.collectives, *origin.steps)]
        lines = f"begins with {listed(begins)}", f"fitted to {listed(files)}"
        return show.Heading(f"Calibration {origin.name}", (*lines, *replaced_lines(self.inputs)))

    def sections(self) -> Iterator[show.Section]:
        """Errors, numbers, charts, rows, and what the files are for."""
        yield self._heading
        yield self._errors
        yield show.Table(
            "numbers",
            [*show.columns("measured", shown="data"), *show.columns(*Number._fields[1:])],
            self.numbers,
            "Fitted numbers",
            (TOLD, DEVIATION),
            part=measured_of,
        )
        for fitted in self.fits.all:
            yield _chart(fitted)
        shown = [
            *show.columns("measured", shown="data"),
            *show.columns("row"),
            *TIMES,
            *show.columns("prediction_error", "error_left_out"),
        ]
        errors = sorted((abs(row.prediction_error) for row in self.rows), reverse=True)
        title, least = "Predicted against measured", errors[:WORST_ROWS][-1]
        worst = [row for row in self.rows if abs(row.prediction_error) >= least]
        rows_title = f"{title}, the rows met worst" if len(worst) < len(self.rows) else title
        yield show.Table("measurements", shown, worst, rows_title, shown="texts", part=measured_of)
        yield show.Table("measurements", shown, self.rows, title, shown="pages", part=measured_of)
        yield show.Table("measurements", shown, self.rows, shown="data")
        yield show.Notes.of([("", self._notes())])
        yield show.Paragraph(self._verdict(), "strong")

    def _notes(self) -> Iterator[str]:
        little = [f"{row.number} ({row.measured})" for row in self.numbers if row.told == LITTLE]
        if little:
            yield (f"The measurements say little about {listed(little)}: near what the files had.")
        steps = self.fits.steps
        missed = steps.error(steps.left_out_s) if steps else 0.0
        if missed > FAR_ERROR:
            yield (
                f"Runs left out are off by {100 * missed:.0f} % in the mean: no error bar holds"
                " that, so do not plan with these files; see whether all runs are of this"
                " accelerator and as their rows say."
            )
        for kind, bar in self.fits.held_out.items():
            yield (
                f"Error bar of times by these files, {CLASSES[kind]}: {bar.low:g} to {bar.high:g}"
                f" times, as {bar.runs} runs took that were left out of the fit."
            )
        if steps:
            yield (
                f"Accelerator and stack {self.origin.name} were fitted together: use both, with"
                " --iteration-model calibrated."
            )
        if self.fits.products or self.fits.collectives:
            yield "Measured products and collectives serve --iteration-model measured."

    def _verdict(self) -> str:
        errors = (
            f"{group.measured} {100 * group.error_left_out:.1f} % (before the fit"
            f" {100 * group.error_before:.1f} %)"
            for group in self.groups
        )
        return f"Mean error of measurements that the fit has not seen: {listed([*errors])}."


measured_of = attrgetter("measured")
TIMES: list[show.Column[FitRow]] = [
    show.column(name, form="si", digits=4) for name in ("measured_s", "predicted_s")
]
LITTLE, TOLD_WELL = "little", "well"
TOLD = (
    "told: whether the measurements say much about the number (well), or its prior stays (little)."
)
DEVIATION = "deviation: standard deviation of the number, as a share of it."


def _numbers(fit: Fitted) -> Iterator[Number]:
    trust = (LITTLE if little else TOLD_WELL for little in fit.fit.undecided)
    rows = zip(fit.names, fit.before, fit.fit.values, fit.fit.deviations, trust, strict=True)
    for name, before, after, deviation, well in rows:
        change = float(after / before - 1)
        key = name.removeprefix("accelerator.")
        yield Number(fit.title, key, float(before), float(after), change, float(deviation), well)


def _chart(fit: Fitted) -> Chart:
    """Predicted over measured times, both on logarithms, before and after."""
    measured = fit.measured_s.tolist()
    ends = [min(measured), max(measured)]
    same: Json = {
        "type": "scatter",
        "mode": "lines",
        "x": ends,
        "y": ends,
        "name": "equal",
        "hoverinfo": "skip",
        "line": {"color": GREY, "width": 1},
    }
    series = (
        ("before", fit.before_s, GREY, "circle-open"),
        ("fitted", fit.after_s, ACCENT, "circle"),
    )
    drawn = []
    for name, times, colour, symbol in series:
        boxes = (
            hover(
                label, f"measured {si(was, 's')}", f"{name} {si(now, 's')} ({now / was - 1:+.1%})"
            )
            for label, was, now in zip(fit.labels, measured, times.tolist(), strict=True)
        )
        look = {"mode": "markers", "marker": {"color": colour, "symbol": symbol, "size": 7}}
        drawn.append(marks("scatter", measured, times.tolist(), boxes, name=name, **look))
    axis: Json = {"type": "log", "tickformat": "~s"}
    layout: Json = {
        "xaxis": {"title": {"text": "measured, s"}, **axis},
        "yaxis": {"title": {"text": "predicted, s"}, **axis},
        "showlegend": True,
    }
    key = f"fit-{fit.title.replace(' ', '-')}"
    return Chart(key, f"Predicted against measured: {fit.title}", CHART_PX, (same, *drawn), layout)

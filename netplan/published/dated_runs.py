"""Published runs under software of a date, and every published run, with netplan's time and bar.

The runs stand in `reports/published/dated-runs.csv`, each with its address, and are timed by the
evaluator of every question, by their own plan and software. Most of them were fitted, so that these
errors are less than those of a run that nobody fitted: what is left of them where a source or a
model is left out of the fit says `netplan.published.left_out`, and bars are made of that.

An error is predicted over measured time less 1, means are those of its absolute value; a bias is
the mean of the errors themselves. `reports/published/run-errors.csv` says what an independent
implementation came to.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from statistics import fmean, median
from typing import Any

from msgspec import Struct

from netplan.calibration.published import SCORED, published_run, time_as_made
from netplan.calibration.runs import MeasuredRun
from netplan.performance.dated.run import model_kind
from netplan.performance.error_bars import ErrorBar
from netplan.performance.published_runs import published_rows
from netplan.progress import with_progress
from netplan.published.checks import Check, check, published
from netplan.published.measured_runs import ALL, LEFT, NotScored
from netplan.reports.schema import plain_data
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import Column, Heading, Notes, Paragraph, Section, Table, column
from netplan.units import si_span

TITLE = "Measured runs, experts"
LIST_TITLE = "Every measured training run, with netplan's time"
TABLES = ("measured-runs", "dated-runs")
"""Tables of published runs: of software without a date, dense models alone, and with one."""

FAR = 0.20
"""Error from which a run is listed by name [1]."""
ABOVE, LEAST_INSIDE = 0.01, 0.85
"""By how much a mean error may exceed that of an independent implementation, and the share of runs
that lie in their bars, beyond which a check fails [1]."""


class RunTime(Struct, frozen=True):
    """A published run, netplan's time of it, and how far that may be off.

    Parameters
    ----------
    run
        The run.
    url
        Where it was published.
    use, why
        ``dev`` and ``fit`` are scored; ``context`` is not, for a reason.
    seconds
        Iteration time by iteration model ``calibrated`` [s].
    bar
        Its error bar.
    """

    json_parts = (
        *("run.name", "source=url", "measured_s=run.seconds", "predicted_s=seconds"),
        *("iteration_time_low_s=ends_s.0", "iteration_time_high_s=ends_s.1", "error_basis=basis"),
    )

    run: MeasuredRun
    url: str
    use: str
    why: str
    seconds: float
    bar: ErrorBar

    @property
    def scored(self) -> bool:
        """Whether the model has all that it needs of the run."""
        return self.use in SCORED

    @property
    def error(self) -> float:
        """Predicted over measured time less 1 [1]."""
        return self.seconds / self.run.seconds - 1

    @property
    def inside(self) -> bool:
        """Whether it took a time inside the bar."""
        low_s, high_s = self.ends_s
        return low_s <= self.run.seconds <= high_s

    @property
    def ends_s(self) -> tuple[float, float]:
        """Ends of the bar [s]."""
        return self.bar.whole.of(self.seconds)

    @property
    def group(self) -> str:
        """Class of its model."""
        kind = model_kind(self.run.model)
        if kind == "hybrid" and self.run.model.experts is not None:
            return "hybrid with experts"
        return "experts" if kind == "moe" else kind

    @property
    def span(self) -> str:
        """The time with the ends of its bar, for people."""
        return si_span(self.seconds, self.ends_s, "s")

    @property
    def basis(self) -> str:
        """Whose error the bar is, or why there is none."""
        return self.bar.basis if self.scored else f"not scored: {self.why}"


class GroupErrors(Struct, frozen=True):
    """Errors of scored runs of a class, an accelerator and a precision, or of a whole class [1]."""

    json_parts = (
        *("class=group", "accelerator", "precision", "runs", "mean_error=mean"),
        *("median_error=median", "largest_error=largest", "bias", "share_inside=inside"),
    )

    group: str
    accelerator: str
    precision: str
    runs: int
    mean: float
    median: float
    largest: float
    bias: float
    inside: float

    @classmethod
    def of(cls, key: tuple[str, str, str], runs: Sequence[RunTime]) -> "GroupErrors":
        """Those of some runs."""
        errors = [run.error for run in runs]
        absolute = [abs(error) for error in errors]
        inside = fmean(run.inside for run in runs)
        sizes = fmean(absolute), median(absolute), max(absolute), fmean(errors)
        return cls(*key, len(runs), *sizes, inside)


class DatedScores(Struct, frozen=True):
    """All of ``netplan verify`` that is about runs under software of a date."""

    json_parts = "groups", "classes", "far", "not_scored"

    groups: tuple[GroupErrors, ...]
    classes: tuple[GroupErrors, ...]
    far: tuple[RunTime, ...]
    context: tuple[RunTime, ...]

    @property
    def not_scored(self) -> list[dict[str, Any]]:
        """Runs that are not scored, each with the reason."""
        return [plain_data(run) | {"why": run.why} for run in self.context]


@cache
def run_times(table: str) -> tuple[RunTime, ...]:
    """Every run of a table with netplan's time, in the order of the table.

    Parameters
    ----------
    table
        Its name, one of :data:`TABLES`.

    Returns
    -------
    tuple[RunTime, ...]
        Those that are not scored, too.

    Examples
    --------
    >>> first = run_times("measured-runs")[1]
    >>> first.run.name, first.span, first.basis
    ('KORTH-22b-selective', '1.1 s (1.02-1.19)', 'calibrated')
    """
    timed = []
    for row in with_progress(published_rows(table), lambda row: row["id"]):
        run = published_run(row)
        made = time_as_made(run)
        if made.error is not None:
            facts = row["url"], row["use"], row["why"]
            timed.append(RunTime(run, *facts, made.iteration_time_s, made.error))
    return tuple(timed)


def dated_errors(timed: Iterable[RunTime]) -> DatedScores:
    """Errors by class, accelerator and precision and of each class, and runs that are named."""
    groups: dict[tuple[str, str, str], list[RunTime]] = {}
    classes: dict[tuple[str, str, str], list[RunTime]] = {}
    timed = tuple(timed)
    for run in timed:
        if run.scored:
            key = run.group, run.run.accelerator.name, run.run.timed_precision
            groups.setdefault(key, []).append(run)
            classes.setdefault((run.group, ALL, ALL), []).append(run)
    order = [row["class"] for row in published("run-errors") if row["without"] == "nothing"]
    chosen = sorted(groups.items(), key=lambda item: (order.index(item[0][0]), *item[0][1:]))
    return DatedScores(
        groups=tuple(GroupErrors.of(*item) for item in chosen),
        classes=tuple(
            GroupErrors.of(*item)
            for item in sorted(classes.items(), key=lambda item: order.index(item[0][0]))
        ),
        far=tuple(run for run in timed if run.scored and abs(run.error) > FAR),
        context=tuple(run for run in timed if not run.scored),
    )


def dated_run_checks() -> Iterator[Check]:
    """The published runs, as checks."""
    return class_checks(dated_errors(run_times("dated-runs")))


def class_checks(errors: DatedScores) -> Iterator[Check]:
    """Mean error of each class, the share of its runs in their bars, and runs that are far off."""
    stated = {row["class"]: row for row in published("run-errors") if row["without"] == "nothing"}
    for group in errors.classes:
        row = stated[group.group]
        mean, most = float(row["mean"]), float(row["mean"]) + ABOVE
        yield check(
            f"{group.group}: mean error of {group.runs} fitted runs, %",
            f"{TITLE}, by class",
            f"{100 * mean:.1f}, at most {100 * most:.1f}",
            f"{100 * group.mean:.1f}",
            met=group.mean <= most and group.runs == int(row["runs"]),
            gap=group.mean,
        )
        yield check(
            f"{group.group}: fitted runs inside their bars, %",
            f"{TITLE}, by class",
            f"at least {100 * LEAST_INSIDE:.0f}",
            f"{100 * group.inside:.0f}",
            met=group.inside >= LEAST_INSIDE,
        )
    for run in errors.far:
        yield check(
            f"{run.run.name}, s",
            f"{TITLE}, {run.run.source}",
            f"{run.run.seconds:.4g}",
            f"{run.seconds:.4g} ({100 * run.error:+.1f} %)",
            gap=run.error,
        )


def dated_sections(errors: DatedScores) -> Iterator[Section]:
    """Errors by class, accelerator and precision; runs that are far off, or are not scored."""
    yield Table(
        "dated-groups",
        GROUPS,
        errors.groups,
        f"{TITLE}: errors on the runs that were fitted",
        closing=errors.classes,
        legend=(
            "Runs that nobody fitted are further off: netplan verify --bars.",
            "Addresses: reports/published/dated-runs.csv.",
        ),
        shown="people",
    )
    yield Table("dated-far", FAR_RUNS, errors.far, f"{TITLE} that are far off", shown="people")
    left = NotScored.counted((run.run.source, run.why) for run in errors.context)
    yield Table("dated-left", LEFT, left, f"{TITLE} that are not scored", shown="people")


def list_screen(runs: Sequence[RunTime]) -> Screen:
    """What a terminal shows of the list: how many runs there are, and how far off their times.

    Parameters
    ----------
    runs
        All of them.
    """
    groups: dict[tuple[str, str, str], list[RunTime]] = {}
    for run in runs:
        if run.scored:
            dated = "by its date" if run.run.recipe else "without a date"
            groups.setdefault((run.group, dated, ALL), []).append(run)
    rows = [GroupErrors.of(*item) for item in groups.items()]
    shown = [
        group for group in GROUPS if group.quantity.name not in ("accelerator", "run_precision")
    ]
    software: Column[GroupErrors] = column("run_software", "accelerator")
    return Screen(
        Heading(LIST_TITLE),
        (counted_runs(runs),),
        Table("runs", [shown[0], software, *shown[1:]], rows),
        ("Runs that nobody fitted are further off: netplan verify --bars.",),
        more_of("every run"),
        most_rows=len(rows),
    )


def list_sections(runs: Sequence[RunTime]) -> Iterator[Section]:
    """Every run with netplan's time, its bar, whose error that is, and where it was published."""
    yield Heading(LIST_TITLE)
    yield Paragraph(counted_runs(runs), "strong")
    yield Table("runs", LISTED, runs, "Runs, netplan's time of each, and its bar")
    timed = (
        "Each is timed by its own plan and software. Those that are scored were fitted: what nobody"
        " fitted is further off (netplan verify --bars)."
    )
    yield Notes((("times", timed),))


def counted_runs(runs: Sequence[RunTime]) -> str:
    """How many runs there are, and how many lie in their bars."""
    scored = [run for run in runs if run.scored]
    inside = sum(run.inside for run in scored)
    return (
        f"{len(runs):,} published runs, of which {len(scored):,} have all that netplan needs:"
        f" {inside:,} of these ({100 * inside / len(scored):.0f} %) took a time inside their bars."
    )


GROUPS: tuple[Column[GroupErrors], ...] = (
    column("model_class", "group", title="class"),
    column("accelerator"),
    column("run_precision", "precision"),
    column("runs"),
    column("mean_error", "mean"),
    column("median_error", "median", shown="wide"),
    column("largest_error", "largest"),
    column("bias"),
    column("share_inside", "inside"),
)
FAR_RUNS: tuple[Column[RunTime], ...] = (
    column("name", "run.name", title="run"),
    column("measured_s", "run.seconds"),
    column("predicted_s", "seconds"),
    column("prediction_error", "error"),
)
LISTED: tuple[Column[RunTime], ...] = (
    column("name", "run.name", title="run"),
    column("gpus", "run.degrees.gpus"),
    column("measured_s", "run.seconds"),
    column("predicted_s", "seconds"),
    column("iteration_time_low_s", lambda run: run.bar.whole.of(run.seconds)[0], title="at least"),
    column("iteration_time_high_s", lambda run: run.bar.whole.of(run.seconds)[1], title="at most"),
    column("prediction_error", "error"),
    column("error_basis", "basis"),
    column("source", "url"),
    column("trained_model", "run.model.name"),
    column("accelerator", "run.accelerator.name"),
    column("run_precision", "run.timed_precision"),
    column("run_stack", "run.stack.name"),
)

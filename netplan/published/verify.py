"""Published tables and designs against netplan: how near each of their numbers comes."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import ClassVar, NamedTuple

from netplan.errors import InputError
from netplan.progress import with_progress
from netplan.published import (
    cluster_design,
    dataflow,
    dataflow_models,
    dated_runs,
    expert_networks,
    fabric_counts,
    famous_runs,
    foundation,
    left_out,
    measured_gpus,
    measured_runs,
    measured_serving,
    posttraining_rows,
    product_designs,
    rail_only,
    reliability,
    serving_points,
    several_sites,
    shared_links,
    tiled,
)
from netplan.published.checks import GRADES, Check, Grade, Recorded, is_chosen, record
from netplan.published.own_paper import paper_checks, read_paper
from netplan.reports.answer import Answer
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import (
    Column,
    Heading,
    Notes,
    Paragraph,
    Section,
    Table,
    column,
    columns,
)
from netplan.setup.asking import function_of
from netplan.setup.own_inputs import list_field, option_field
from netplan.setup.question import Question

SUITES: Mapping[str, Callable[[], Iterable[Check]]] = {
    "rail-only": rail_only.rail_only_checks,
    "rail-only figures": rail_only.rail_only_figure_checks,
    "foundation models": foundation.foundation_checks,
    "optimal configurations": foundation.configuration_checks,
    "foundation appendix": foundation.appendix_checks,
    "dataflow": dataflow.dataflow_checks,
    "dataflow trends": dataflow.trend_checks,
    "dataflow models": dataflow_models.model_comparison_checks,
    "serving forms": dataflow.serving_form_checks,
    "serving under load": serving_points.serving_load_checks,
    "tiled accelerators": tiled.tiled_checks,
    "cluster design": cluster_design.cluster_design_checks,
    "simulated runs": tiled.megatron_checks,
    "measured runs": measured_runs.measured_run_checks,
    "measured runs, experts": dated_runs.dated_run_checks,
    "famous runs": famous_runs.famous_run_checks,
    "measured serving": measured_serving.measured_point_checks,
    "printed serving": serving_points.printed_point_checks,
    "memory of published runs": measured_runs.run_memory_checks,
    "sources left out": measured_runs.left_out_checks,
    "traffic": fabric_counts.traffic_checks,
    "paths": fabric_counts.path_checks,
    "bandwidth": fabric_counts.bandwidth_checks,
    "designs": fabric_counts.design_checks,
    "families": fabric_counts.family_checks,
    "products": product_designs.product_checks,
    "cost sheets": product_designs.cost_sheet_checks,
    "expert networks": expert_networks.expert_network_checks,
    "uneven experts": expert_networks.expert_skew_checks,
    "collectives": measured_gpus.collective_checks,
    "kernels": measured_gpus.kernel_checks,
    "tables of kernels": measured_gpus.table_checks,
    "model parameters": foundation.parameter_checks,
    "congestion": shared_links.shared_link_checks,
    "streams of jobs": shared_links.job_stream_checks,
    "post-training": posttraining_rows.posttraining_checks,
    "reliability": reliability.reliability_checks,
    "faults": reliability.fault_checks,
    "several sites": several_sites.several_sites_checks,
    "slow GPUs": reliability.slow_gpu_checks,
}
"""What computes the checks; ``reports/published/checks.csv`` names the checks of each."""

HEADING = "Published tables and designs against netplan"
WORST_FIRST: tuple[Grade, ...] = ("off", "source", "trend", "close", "exact")
SCREEN_ROWS, NAMED = 9, 3
"""Sources that a screen shows, and failures and reasons that it names [1]."""


class PaperRow(NamedTuple):
    """Checks of one source, and how many have each grade, and fail [1]."""

    source: str
    grades: Mapping[Grade, int]
    failed: int

    @classmethod
    def of(cls, source: str, checks: tuple[Check, ...]) -> "PaperRow":
        """Checks of a source."""
        whole = Verification(checks)
        return cls(source, whole.grades, whole.count("fail"))

    @property
    def weight(self) -> tuple[int, ...]:
        """What most lacks comes first."""
        return (-self.failed, *(-self.grades[grade] for grade in WORST_FIRST))


@dataclass(frozen=True, slots=True, repr=False)
class Verification(Answer):
    """The answer of :func:`verify`."""

    json_head = ("netplan_version",)
    json_parts = (
        *("passed=counts.pass", "failed=counts.fail", "known=counts.known", "grades", "checks"),
        *("?measured_runs=measured", "?dated_runs=dated", "?left_out=bars", "?runs"),
        *("?famous_runs=chosen", "?measured_serving=served"),
    )

    checks: tuple[Check, ...]
    bars: left_out.LeftOut | None = None
    runs: tuple[dated_runs.RunTime, ...] = ()
    grade: Grade | None = None
    title: str = HEADING

    @property
    def measured(self) -> measured_runs.RunErrors | None:
        """Errors of iteration models on measured runs, if these are among the checks."""
        there = self._has(measured_runs.TITLE)
        return measured_runs.run_errors(measured_runs.timed_runs()) if there else None

    @property
    def dated(self) -> dated_runs.DatedScores | None:
        """Errors on runs under software of a date, if these are among the checks."""
        there = self._has(dated_runs.TITLE)
        return dated_runs.dated_errors(dated_runs.run_times("dated-runs")) if there else None

    @property
    def chosen(self) -> tuple[famous_runs.FamousChoice, ...]:
        """Plans that netplan chose for famous runs, if these are among the checks."""
        return famous_runs.famous_choices() if self._has(famous_runs.TITLE) else ()

    @property
    def served(self) -> tuple[measured_serving.PointErrors, ...]:
        """Errors on measured points of serving, if these are among the checks."""
        return measured_serving.point_errors() if self._has(measured_serving.TITLE) else ()

    def _has(self, title: str) -> bool:
        """Whether checks of a source are among these."""
        return any(check.source.startswith(title) for check in self.checks)

    @property
    def papers(self) -> dict[str, list[Check]]:
        """Checks by their source, without table, equation or section."""
        papers: dict[str, list[Check]] = {}
        for check in self.checks:
            papers.setdefault(_paper(check), []).append(check)
        return papers

    def count(self, verdict: str) -> int:
        """Checks with this verdict [1]."""
        return sum(check.verdict == verdict for check in self.checks)

    @property
    def grades(self) -> dict[Grade, int]:
        """Checks of each grade, without those that fail [1]."""
        kept = Counter(check.grade for check in self.checks if check.verdict != "fail")
        return {grade: kept[grade] for grade in GRADES}

    @property
    def failed(self) -> bool:
        """Whether any check is worse than its record."""
        return self.count("fail") > 0

    @property
    def exit_code(self) -> int:
        """1 if a check fails."""
        return int(self.failed)

    @property
    def sentence(self) -> str:
        """One line for people."""
        if self.runs:
            return dated_runs.counted_runs(self.runs)
        counts = ", ".join(f"{count} {grade}" for grade, count in self.grades.items())
        return f"{counts}; {self.count('fail')} fail."

    def in_a_line(self) -> str:
        """How many checks have each grade, and how many fail."""
        return self.sentence.removesuffix(".")

    @property
    def counts(self) -> dict[str, int]:
        """Checks with each verdict [1]."""
        return {verdict: self.count(verdict) for verdict in ("pass", "fail", "known")}

    def summary(self) -> Iterator[Section]:
        """How many checks have each grade, by source, and what most of those that differ lack."""
        if self.bars:
            yield from left_out.bar_screen(self.bars, self.sentence).sections()
            return
        if self.runs:
            yield from dated_runs.list_screen(self.runs).sections()
            return
        failed = [_named(check) for check in self.checks if check.verdict == "fail"]
        words = (self.sentence, *([f"Failed: {'; '.join(failed[:NAMED])}."] if failed else []))
        more = more_of("all checks", '--only "Table 2"', "--grade off")
        of_a_user = self.title != HEADING
        if of_a_user or (self.grade and self.checks):
            far = sorted(self.checks, key=lambda check: -abs(check.gap or 0.0))
            yield from Screen(
                Heading(self.title),
                words,
                Table("checks", (*FAR, *SHOWN[-1:]) if of_a_user else FAR, far),
                (),
                more_of("every reason, and what each would take"),
                most_rows=len(far),
            ).sections()
            return
        rows = [PaperRow.of(paper, tuple(checks)) for paper, checks in self.papers.items()]
        rows.sort(key=attrgetter("weight"))
        reasons = sorted(self._by_reason("off", "source").items(), key=lambda item: -len(item[1]))
        yield from Screen(
            Heading(self.title),
            words,
            Table("papers", PAPERS, rows),
            tuple(
                f"Differs: {_first_and_count(named)}: {reason}."
                for reason, named in reasons[:NAMED]
            ),
            more,
            most_rows=SCREEN_ROWS,
        ).sections()

    def sections(self) -> Iterator[Section]:
        """The summary, what fails or differs and why, one table a paper."""
        if self.runs:
            yield from dated_runs.list_sections(self.runs)
            return
        yield Heading(left_out.TITLE if self.bars else self.title)
        yield Paragraph(self.sentence, "strong")
        if self.bars:
            yield from left_out.bar_sections(self.bars)
        yield Table("checks", DATA, self.checks, shown="data")
        lost = [check for check in self.checks if check.verdict == "fail"]
        yield Table("fail", OTHERWISE, lost, "Fails", shown="people")
        for grade, title in TITLES.items():
            chosen = [
                check for check in self.checks if (check.verdict, check.grade) == ("known", grade)
            ]
            columns_of = (*OTHERWISE, TAKES) if grade == "off" else OTHERWISE
            yield Table(grade, columns_of, chosen, title, shown="people")
        # Why numbers differ, or under which assumptions they do not; each reason once.
        named = self._by_reason(*GRADES).items()
        yield Notes(tuple((_first_and_count(checks), f"{text}.") for text, checks in named))
        for paper, checks in self.papers.items():
            yield Table("checks", SHOWN, checks, title=paper, shown="people")
        if measured := self.measured:
            yield from measured_runs.run_sections(measured)
        if dated := self.dated:
            yield from dated_runs.dated_sections(dated)
        if choices := self.chosen:
            yield from famous_runs.choice_sections(choices)
        if self.served:
            yield from measured_serving.point_sections()
        # A long text ends where a reader of a terminal begins.
        yield Paragraph(self.sentence, "strong", shown="texts")

    def _by_reason(self, *grades: Grade) -> dict[str, list[str]]:
        """Checks of some grades by their reason."""
        reasons: dict[str, list[str]] = {}
        for check in self.checks:
            if check.reason and check.grade in grades:
                reasons.setdefault(check.reason, []).append(_named(check))
        return reasons


@dataclass(frozen=True, kw_only=True)
class Verify(Question[Verification]):
    """Check published tables and designs against netplan; exit 1 if one is worse than its record.

    Each number is *exact* to the printed digits; *close*, within its source's own error or 5 %;
    a *trend*, whose order, direction or bound holds; *off* by netplan's model; or its *source*
    contradicts itself or leaves an input out. With --bars error bars are made anew, from fits
    without each source and each model; with --runs every measured run is listed with netplan's
    time, its bar and its source. A file of your own has questions, fields and printed values: the
    same five grades, exit 1 if a row is worse than the grade that it records.

    Raises
    ------
    InputError
        If no check has ``only`` in its name or source, or several lists are asked for at once.

    Examples
    --------
    >>> verify(only="Table 2").sentence
    '30 exact, 0 close, 0 trend, 0 off, 0 source; 0 fail.'
    """

    command: ClassVar[str] = "verify"
    reads_from: ClassVar[frozenset[str]] = frozenset()

    paper: str | Path | None = option_field(
        "A paper of your own: a file of questions, fields and printed values.",
        "path",
        argument=True,
    )
    only: tuple[str, ...] = list_field(
        "Only checks whose name or source holds TEXT, in whole words: 'A & B | C' is both or the"
        " third; given again, both hold.",
        metavar="TEXT",
    )
    grade: Grade | None = option_field(
        "Only checks of this grade.", "choice", choices=GRADES, default=None
    )
    bars: bool = option_field(
        "Make error bars anew: refit without sources, and models.", "flag", default=False
    )
    runs: bool = option_field(
        "List every measured run with time, bar and source.", "flag", default=False
    )

    def ask(self) -> Verification:
        """Run the checks of all published tables, or the suites that have those asked for."""
        chosen = bool(self.only) or self.grade is not None
        if self.paper is not None:
            return self._user_paper(Path(self.paper))
        if chosen + self.bars + self.runs > 1:
            raise InputError(
                "--only, --bars and --runs are lists of their own: give one of them, or --only with"
                " --grade"
            )
        if self.bars:
            refits = left_out.left_out()
            return Verification(tuple(left_out.bar_checks(refits)), refits)
        if self.runs:
            tables = with_progress(dated_runs.TABLES, str)
            return Verification((), runs=tuple(chain(*map(dated_runs.run_times, tables))))
        asked_for = (row for row in record().values() if self.grade in (None, row.grade))
        listed = [row for row in asked_for if self._names(row)]
        if not listed:
            graded = f" of grade {self.grade}" if self.grade else ""
            options = " ".join(f"--only {texts!r}" for texts in self.only)
            raise InputError(
                f"{options}: no check{graded} has this in its name or source, in whole words"
            )
        needed = {row.suite for row in listed}
        suites = with_progress(
            [item for item in SUITES.items() if not chosen or item[0] in needed],
            lambda item: item[0],
        )
        asked = {(row.name, row.source) for row in listed}
        ran = (check for _, run in suites for check in run())
        checks = (check for check in ran if not chosen or (check.name, check.source) in asked)
        return Verification(tuple(checks), grade=self.grade)

    def _user_paper(self, path: Path) -> Verification:
        """Rows of a paper of the user's own."""
        if self.bars or self.runs:
            raise InputError("--bars and --runs are about netplan's own rows: leave out the file")
        paper, document = read_paper(path)
        asked = (
            check for check in paper_checks(paper, document) if self.grade in (None, check.grade)
        )
        checks = tuple(check for check in asked if self._names(check))
        if not checks:
            raise InputError(f"{path}: no row has this grade, or this in its name or source")
        return Verification(checks, grade=self.grade, title=paper.title)

    def _names(self, row: Recorded | Check) -> bool:
        """Whether each ``--only`` chooses a row."""
        return all(is_chosen(row, texts) for texts in self.only)


verify = function_of(Verify)


def _first_and_count(names: list[str]) -> str:
    """The first name, and how many more share its reason."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _named(check: Check) -> str:
    """Where in its source a number stands, and what it is."""
    return ", ".join(filter(None, (_where(check), check.name)))


def _where(check: Check) -> str:
    """Table, equation or section inside the paper."""
    return check.source.removeprefix(_paper(check)).lstrip(", ")


def _paper(check: Check) -> str:
    """The source without its table, equation or section."""
    return re.split(r", (?![^(]*\))", check.source, maxsplit=1)[0]  # no comma in parentheses


PAPERS: tuple[Column[PaperRow], ...] = (
    column("source", "source", title="published in"),
    *(column(f"checks_{grade}", f"grades.{grade}", title=grade, form="count") for grade in GRADES),
    column("checks_failed", "failed", title="fail", form="count"),
)
SHOWN = (
    column("name", attrgetter("name"), title="check"),
    column("source", _where, title="where"),
    *(column(name, attrgetter(name)) for name in ("expected", "got", "grade")),
)
GAP = column("gap", attrgetter("gap_shown"))
OTHERWISE = (*SHOWN[:1], *columns("source", "expected", "got"), GAP)
FAR = (*SHOWN[:1], *columns("expected", "got"), GAP)
TAKES = column("takes", attrgetter("takes"), title="what it would take")
TITLES: Mapping[Grade, str] = {
    "trend": "Trend: the order, direction or bound holds",
    "off": "Off: netplan's model",
    "source": "Source: it contradicts itself, or leaves an input out",
}
DATA = tuple(
    column(name, attrgetter(name))
    for name in ("name", "source", "expected", "got", "grade", "verdict", "gap", "reason", "takes")
)

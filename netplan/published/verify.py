"""Published tables and designs against netplan: what passes, fails, is known to differ."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

from netplan.errors import InputError
from netplan.progress import each
from netplan.published import (
    cluster_design,
    cost_sheets,
    dataflow,
    dated_runs,
    expert_networks,
    fabric_counts,
    famous_runs,
    left_out,
    measured_gpus,
    measured_runs,
    measured_serving,
    memory_of_runs,
    models,
    product_designs,
    rail_only,
    reliability,
    tiled,
)
from netplan.published.checks import Check, published
from netplan.questions.asking import asks
from netplan.questions.own_inputs import optional
from netplan.questions.question import Question
from netplan.records import asdict
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
from netplan.version import __version__

SUITES: Mapping[str, Callable[[], Iterable[Check]]] = {
    "rail-only": rail_only.rail_only_checks,
    "rail-only figures": rail_only.rail_only_figure_checks,
    "foundation models": models.foundation_checks,
    "dataflow": dataflow.dataflow_checks,
    "dataflow trends": dataflow.trend_checks,
    "serving forms": dataflow.serving_form_checks,
    "tiled accelerators": tiled.tiled_checks,
    "cluster design": cluster_design.cluster_design_checks,
    "simulated runs": tiled.megatron_checks,
    "measured runs": measured_runs.measured_run_checks,
    "measured runs, experts": dated_runs.dated_run_checks,
    "famous runs": famous_runs.famous_run_checks,
    "measured serving": measured_serving.measured_point_checks,
    "memory of published runs": memory_of_runs.run_memory_checks,
    "sources left out": measured_runs.left_out_checks,
    "traffic": fabric_counts.traffic_checks,
    "paths": fabric_counts.path_checks,
    "bandwidth": fabric_counts.bandwidth_checks,
    "designs": fabric_counts.design_checks,
    "families": fabric_counts.family_checks,
    "products": product_designs.product_checks,
    "cost sheets": cost_sheets.cost_sheet_checks,
    "expert networks": expert_networks.expert_network_checks,
    "collectives": measured_gpus.collective_checks,
    "kernels": measured_gpus.kernel_checks,
    "model parameters": models.parameter_checks,
    "reliability": reliability.reliability_checks,
    "faults": reliability.fault_checks,
}
"""What computes the checks; ``reports/published/checks.csv`` names the checks of each."""

HEADING = "Published tables and designs against netplan"
SCREEN_ROWS, NAMED = 9, 3
"""Sources that a screen shows, and failures and reasons that it names [1]."""


class PaperRow(NamedTuple):
    """Checks of one source, by what came of them [1]."""

    source: str
    passed: int
    failed: int
    known: int


@dataclass(frozen=True, slots=True, repr=False)
class Verification(Answer):
    """The answer of :func:`verify`."""

    checks: tuple[Check, ...]
    bars: left_out.LeftOut | None = None
    runs: tuple[dated_runs.RunTime, ...] = ()

    @property
    def measured(self) -> measured_runs.RunErrors | None:
        """Errors of iteration models on measured runs, if these are among the checks."""
        if any(check.source.startswith(measured_runs.TITLE) for check in self.checks):
            return measured_runs.run_errors(measured_runs.timed_runs())
        return None

    @property
    def dated(self) -> dated_runs.DatedScores | None:
        """Errors on runs under software of a date, if these are among the checks."""
        if any(check.source.startswith(dated_runs.TITLE) for check in self.checks):
            return dated_runs.dated_errors(dated_runs.run_times("dated-runs"))
        return None

    @property
    def chosen(self) -> tuple[famous_runs.ChosenPlan, ...]:
        """Plans that netplan chose for famous runs, if these are among the checks."""
        there = any(check.source.startswith(famous_runs.TITLE) for check in self.checks)
        return famous_runs.chosen_plans() if there else ()

    @property
    def served(self) -> tuple[measured_serving.PointErrors, ...]:
        """Errors on measured points of serving, if these are among the checks."""
        there = any(check.source.startswith(measured_serving.TITLE) for check in self.checks)
        return measured_serving.point_errors() if there else ()

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
    def failed(self) -> bool:
        """Whether any check fails; a number known not to reproduce is no failure."""
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
        return (
            f"{self.count('pass')} pass, {self.count('fail')} fail,"
            f" {self.count('known')} known not to reproduce."
        )

    def in_a_line(self) -> str:
        """How many checks pass, and how many do not."""
        return self.sentence.removesuffix(".")

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan verify --format json``."""
        measured, dated, served = self.measured, self.dated, self.served
        parts: dict[str, object] = {"measured_runs": measured.to_dict()} if measured else {}
        if dated:
            parts["dated_runs"] = dated.to_dict()
        if self.bars:
            parts["left_out"] = self.bars.to_dict()
        if self.runs:
            parts["runs"] = [run.to_dict() for run in self.runs]
        if choices := self.chosen:
            parts["famous_runs"] = [choice.to_dict() for choice in choices]
        if served:
            parts["measured_serving"] = [asdict(errors) for errors in served]
        return {
            "netplan_version": __version__,
            "passed": self.count("pass"),
            "failed": self.count("fail"),
            "known": self.count("known"),
            "checks": [asdict(check) for check in self.checks],
        } | parts

    def summary(self) -> Iterator[Section]:
        """How many checks pass, papers with most that do not, the reasons behind most."""
        if self.bars:
            yield from left_out.bar_screen(self.bars, self.sentence).sections()
            return
        if self.runs:
            yield from dated_runs.list_screen(self.runs).sections()
            return
        rows = []
        for paper, checks in self.papers.items():
            counts = Counter(check.verdict for check in checks)
            rows.append(PaperRow(paper, counts["pass"], counts["fail"], counts["known"]))
        rows.sort(key=lambda row: (-row.failed, -row.known, -row.passed))
        lost = (check for check in self.checks if check.verdict == "fail")
        failed = [f"{_where(check)}, {check.name}" for check in lost]
        reasons = sorted(self._by_reason("known").items(), key=lambda item: -len(item[1]))
        yield from Screen(
            Heading(HEADING),
            (self.sentence, *([f"Failed: {'; '.join(failed[:NAMED])}."] if failed else [])),
            Table("papers", PAPERS, rows),
            tuple(f"Differs: {_several(named)}: {reason}." for reason, named in reasons[:NAMED]),
            more_of("every check and reason", '--only "Table 2"'),
            most_rows=SCREEN_ROWS,
        ).sections()

    def sections(self) -> Iterator[Section]:
        """The summary, what fails or is known to differ and why, one table a paper."""
        if self.runs:
            yield from dated_runs.list_sections(self.runs)
            return
        yield Heading(left_out.TITLE if self.bars else HEADING)
        yield Paragraph(self.sentence, "strong")
        if self.bars:
            yield from left_out.bar_sections(self.bars)
        yield Table("checks", DATA, self.checks, only="programs")
        for verdict, title in (("fail", "Fails"), ("known", "Known not to reproduce")):
            chosen = [check for check in self.checks if check.verdict == verdict]
            yield Table(verdict, OTHERWISE, chosen, title, only="people")
        # Why numbers do not reproduce, or under which assumptions they do; each reason once.
        named = self._by_reason().items()
        yield Notes(tuple((_several(checks), f"{text}.") for text, checks in named))
        for paper, checks in self.papers.items():
            yield Table("checks", SHOWN, checks, title=paper, only="people")
        if measured := self.measured:
            yield from measured_runs.run_sections(measured)
        if dated := self.dated:
            yield from dated_runs.dated_sections(dated)
        if choices := self.chosen:
            yield from famous_runs.choice_sections(choices)
        if self.served:
            yield from measured_serving.point_sections()
        # A long text ends where a reader of a terminal begins.
        yield Paragraph(self.sentence, "strong", only="texts")

    def _by_reason(self, verdict: str = "") -> dict[str, list[str]]:
        """Checks by their reason, those of one verdict if it is given."""
        reasons: dict[str, list[str]] = {}
        for check in self.checks:
            if check.reason and (not verdict or check.verdict == verdict):
                reasons.setdefault(check.reason, []).append(f"{_where(check)}, {check.name}")
        return reasons


@dataclass(frozen=True, kw_only=True)
class Verify(Question[Verification]):
    """Check published tables and designs against netplan; exit 1 if one fails.

    A published number that is known not to reproduce is listed as such, with the reason. With
    --bars error bars are made anew, from fits without each source and each model; with --runs
    every measured run is listed with netplan's time, its bar and its source.

    Raises
    ------
    InputError
        If no check has ``only`` in its name or source, or several lists are asked for at once.

    Examples
    --------
    >>> verify(only="Table 2").sentence
    '30 pass, 0 fail, 0 known not to reproduce.'
    """

    command: ClassVar[str] = "verify"
    reads_from: ClassVar[frozenset[str]] = frozenset()

    only: str | None = optional("Only checks whose name or source holds TEXT.", metavar="TEXT")
    bars: bool = optional(
        "Make error bars anew: refit without sources, and models.", "flag", default=False
    )
    runs: bool = optional(
        "List every measured run with time, bar and source.", "flag", default=False
    )

    def ask(self) -> Verification:
        """Run the checks of all published tables, or the suites that have those asked for."""
        if (self.only is not None) + self.bars + self.runs > 1:
            raise InputError("--only, --bars and --runs are lists of their own: give one of them")
        if self.bars:
            refits = left_out.left_out()
            return Verification(tuple(left_out.bar_checks(refits)), refits)
        if self.runs:
            return Verification((), runs=dated_runs.every_run())
        if self.only is None:
            suites = each(SUITES.items(), lambda item: item[0])
            return Verification(tuple(check for _, run in suites for check in run()))
        listed = published("checks")
        needed = {row["suite"] for row in listed if self._asks(row["name"], row["source"])}
        if not needed:
            raise InputError(f"--only {self.only!r}: no check has this in its name or source")
        ran = (check for suite, run in SUITES.items() if suite in needed for check in run())
        return Verification(tuple(check for check in ran if self._asks(check.name, check.source)))

    def _asks(self, name: str, source: str) -> bool:
        """Whether a check is asked for by its name or source."""
        key = (self.only or "").lower()
        return key in name.lower() or key in source.lower()


verify = asks(Verify)


def _several(names: list[str]) -> str:
    """The first name, and how many more share its reason."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _where(check: Check) -> str:
    """Table, equation or section inside the paper."""
    return check.source.removeprefix(_paper(check)).lstrip(", ")


def _paper(check: Check) -> str:
    """The source without its table, equation or section."""
    return check.source.partition(", ")[0]


PAPERS: tuple[Column[PaperRow], ...] = (
    column("source", "source", title="source"),
    column("checks_passed", "passed", title="pass", form="count"),
    column("checks_failed", "failed", title="fail", form="count"),
    column("checks_known", "known", title="known not to reproduce", form="count"),
)
SHOWN = (
    column("name", attrgetter("name"), title="check"),
    column("source", _where, title="where"),
    *(column(name, attrgetter(name)) for name in ("expected", "got", "verdict")),
)
OTHERWISE = (*SHOWN[:1], *columns("source", "expected", "got"))
DATA = tuple(
    column(name, attrgetter(name))
    for name in ("name", "source", "expected", "got", "verdict", "reason")
)

"""Published tables and designs against netplan: what passes, fails, is known to differ."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

from netplan.errors import InputError
from netplan.published.checks import Check
from netplan.published.designs import design_checks
from netplan.published.foundation import foundation_checks
from netplan.published.network import network_checks
from netplan.published.rail_only import fault_checks, rail_only_checks
from netplan.published.rail_only_figures import rail_only_figure_checks
from netplan.published.reliability import reliability_checks
from netplan.questions.question import Question, absent, asks, optional
from netplan.records import asdict
from netplan.reports.answer import Answer
from netplan.reports.sections import Heading, Notes, Paragraph, Section, Table, column
from netplan.version import __version__


@dataclass(frozen=True, slots=True)
class Verification(Answer):
    """The answer of :func:`verify`."""

    checks: tuple[Check, ...]

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
    def summary(self) -> str:
        """One line for people."""
        return (
            f"{self.count('pass')} pass, {self.count('fail')} fail,"
            f" {self.count('known')} known not to reproduce."
        )

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan verify --format json``."""
        return {
            "netplan_version": __version__,
            "passed": self.count("pass"),
            "failed": self.count("fail"),
            "known": self.count("known"),
            "checks": [asdict(check) for check in self.checks],
        }

    def sections(self) -> Iterator[Section]:
        """One table a paper, the reasons, the summary."""
        yield Heading("Published tables and designs against netplan")
        yield Table("checks", DATA, self.checks, only="programs")
        papers: dict[str, list[Check]] = {}
        for check in self.checks:
            papers.setdefault(_paper(check), []).append(check)
        for paper, checks in papers.items():
            yield Table("checks", SHOWN, checks, title=paper, only="people")
        reasons: dict[str, list[str]] = {}
        for check in self.checks:
            if check.reason:
                reasons.setdefault(check.reason, []).append(f"{_where(check)}, {check.name}")
        yield Notes(tuple((_several(named), f"{text}.") for text, named in reasons.items()))
        yield Paragraph(self.summary, "strong")


@dataclass(frozen=True, kw_only=True)
class Verify(Question[Verification]):
    """Check published tables and designs against netplan; exit 1 if one fails.

    A published number that is known not to reproduce is listed as such, with the reason.

    Raises
    ------
    InputError
        If no check has ``only`` in its name or source.

    Examples
    --------
    >>> verify(only="Table 2").summary
    '30 pass, 0 fail, 0 known not to reproduce.'
    """

    command: ClassVar[str] = "verify"

    only: str | None = optional("Only checks whose name or source holds TEXT.", metavar="TEXT")
    catalog: None = absent()
    overrides: None = absent()

    def ask(self) -> Verification:
        """Run the checks of all published tables."""
        checks = (
            *rail_only_checks(),
            *rail_only_figure_checks(),
            *foundation_checks(),
            *network_checks(),
            *design_checks(),
            *reliability_checks(),
            *fault_checks(),
        )
        if self.only is not None:
            key = self.only.lower()
            checks = tuple(c for c in checks if key in c.name.lower() or key in c.source.lower())
            if not checks:
                raise InputError(f"--only {self.only!r}: no check has this in its name or source")
        return Verification(checks)


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


SHOWN = (
    column("name", attrgetter("name"), title="check"),
    column("source", _where, title="where"),
    *(column(name, attrgetter(name)) for name in ("expected", "got", "verdict")),
)
DATA = tuple(
    column(name, attrgetter(name))
    for name in ("name", "source", "expected", "got", "verdict", "reason")
)

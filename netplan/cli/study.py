"""``netplan study``: sensitivity studies that survive being killed."""

from dataclasses import dataclass
from pathlib import Path

import click

from netplan.cli.commands import command_of
from netplan.cli.heartbeat import Heartbeat
from netplan.cli.output import say
from netplan.cli.questions import page_in_a_file
from netplan.reports.answer import Answer
from netplan.studies import sessions
from netplan.studies.answer import StudyAnswer, damaged_points, unexpected_points
from netplan.studies.run import Progress
from netplan.studies.study import Study
from netplan.units import duration

BAR = 24
ESTIMATED_FROM = 200
"""Points from which a run says beforehand how long it will take; few are done at once [1]."""


@dataclass(frozen=True, kw_only=True)
class _RunCommand(sessions.RunStudy):
    __doc__ = sessions.RunStudy.__doc__

    def evaluate(self, made: Study, path: Path) -> Answer:
        """Say which file it is, and why if not the one that a user expects."""
        answer = _evaluated(self, made, path)
        if self.store is None:
            taken = path != sessions.usual_store(made)
            start = (
                f"{sessions.usual_store(made)} holds another question: this one is"
                if taken
                else "it is"
            )
            say(f"{start} kept in {path}")
        return answer


@dataclass(frozen=True, kw_only=True)
class _Resume(sessions.ResumeStudy):
    __doc__ = sessions.ResumeStudy.__doc__

    def evaluate(self, made: Study, path: Path) -> Answer:
        """Tell how far it is."""
        return _evaluated(self, made, path)


def _evaluated(asked: sessions.Evaluating, made: Study, path: Path) -> Answer:
    """Run what is missing, and tell on stderr how far it is, with a bar and the time left."""
    resources = asked.resources
    if made.point_count >= ESTIMATED_FROM:
        say(sessions.StudyEstimate.of(made, resources).line)
    steps: list[Progress] = []
    Heartbeat.describe = lambda: _bar(made.name, steps[-1]) if steps else f"{made.name}: starting"
    try:
        ended = sessions.run_study(made, path, resources, steps.append)
    except KeyboardInterrupt:
        kept = f"what is done is kept: netplan study resume {path}"
        say(f"\nstopped; {kept if path.exists() else 'no point was done yet'}")
        raise
    finally:
        Heartbeat.describe = None
    if ended.damaged:
        say(f"{damaged_points(ended.damaged)}; computed again")
    before = ended.done - ended.evaluated
    if before and ended.evaluated:
        say(f"{before:,} points were there, {ended.evaluated:,} are new")
    answer = sessions.read_study(path, asked.catalog)
    if ended.failed:
        say(f"{ended.failed:,} points failed (netplan study show {path})")
    if answer.unexpected:
        say(unexpected_points(answer))
    return answer


def _bar(name: str, progress: Progress) -> str:
    """One line: a bar, points done and failed, time left."""
    filled = BAR * progress.done // max(1, progress.total)
    failed = f", {progress.failed:,} failed" if progress.failed else ""
    left = "" if progress.left_s is None else f", {duration(progress.left_s)} left"
    return (
        f"{name} {'█' * filled}{'░' * (BAR - filled)} {progress.done:,} of"
        f" {progress.total:,}{failed}{left}"
    )


def _shown(answer: StudyAnswer, format_: str, path: Path | None) -> None:
    """Show a store; rows of CSV have no sentence for what is not among them."""
    if answer.damaged and format_ != "table":
        say(f"{damaged_points(answer.damaged)}: netplan study resume computes them again")
    page_in_a_file(answer, format_, path)


command = click.Group(
    "study",
    help=(
        "Vary any input, keep every point, go on after a kill.\n\n"
        "Shipped studies: `netplan catalog list study`. Your own is a file like theirs."
    ),
    commands=[
        command_of(_RunCommand, show=page_in_a_file),
        command_of(_Resume, show=page_in_a_file),
        command_of(sessions.StatusOfStudy),
        command_of(sessions.ShowStudy, show=_shown),
    ],
)

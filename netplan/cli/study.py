"""``netplan study``: sensitivity studies that survive being killed."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from netplan.cli.heartbeat import Heartbeat
from netplan.cli.options import WHOLE
from netplan.cli.output import emit, emit_answer
from netplan.reports.answer import FORMATS

if TYPE_CHECKING:
    from netplan.studies.run import Progress, Resources
    from netplan.studies.study import Study

GIB = 1 << 30
BAR = 24
ESTIMATED_FROM = 200
"""Points from which a run says beforehand how long it will take; few are done at once [1]."""

CATALOG = click.option("--catalog", metavar="DIR", help="Your own catalog folder.")
FORMAT = click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Form of the answer.",
)
OUTPUT = click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file.")
STORE = click.option(
    "--store", type=click.Path(path_type=Path), help="Results file  [default: NAME.study]"
)
WORKERS = click.option(
    "--workers", type=WHOLE, default=0, show_default=True, help="Worker processes here."
)
SCHEDULER = click.option("--scheduler", metavar="tcp://HOST:PORT", help="A Dask scheduler instead.")
MEMORY = click.option("--memory-gib", type=float, help="Memory one process may take, in GiB.")


@click.group("study", short_help="Sensitivity studies: run, status, show, resume.")
def command() -> None:
    """Vary any input, keep every point, go on after a kill.

    Shipped studies: `netplan catalog list study`. Your own is a file like theirs.
    """


@command.command("run")
@click.argument("name", metavar="STUDY")
@click.option(
    "--vary", multiple=True, metavar="INPUT=VALUE,...", help="Another value, or values to vary."
)
@STORE
@WORKERS
@SCHEDULER
@MEMORY
@click.option("--dry-run", is_flag=True, help="Only say how large it is and how long it may take.")
@FORMAT
@OUTPUT
@CATALOG
def run_command(  # noqa: PLR0913 - one parameter an option
    *,
    name: str,
    vary: tuple[str, ...],
    store: Path | None,
    workers: int,
    scheduler: str | None,
    memory_gib: float | None,
    dry_run: bool,
    format_: str,
    output: Path | None,
    catalog: str | None,
) -> None:
    """Run STUDY (a name or a file), or finish it, and show its answer.

    \b
    Examples:
      netplan study run hb-size
      netplan study run hb-size --vary gpus=131072 --store large.study -o large.html --format html
      netplan study run topology-design-space --workers 2
    """
    from netplan.studies.sessions import default_store, load_study
    from netplan.studies.study import parse_changes

    study = load_study(name, parse_changes(vary), catalog)
    resources = _resources(workers, scheduler, memory_gib)
    if dry_run:
        click.echo(_estimate(study, resources))
        return
    path = store or default_store(study.name)
    _run(study, path, resources)
    _show(path, format_, output, catalog)


@command.command("resume")
@click.argument("store", type=click.Path(path_type=Path))
@WORKERS
@SCHEDULER
@MEMORY
@FORMAT
@OUTPUT
@CATALOG
def resume_command(  # noqa: PLR0913 - one parameter an option
    *,
    store: Path,
    workers: int,
    scheduler: str | None,
    memory_gib: float | None,
    format_: str,
    output: Path | None,
    catalog: str | None,
) -> None:
    """Finish the study in STORE, a results file, and show its answer."""
    from netplan.studies.sessions import stored_study

    path = _existing(store)
    _run(stored_study(path, catalog), path, _resources(workers, scheduler, memory_gib))
    _show(path, format_, output, catalog)


@command.command("status")
@click.argument("store", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "format_",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="Form of the answer.",
)
def status_command(store: Path, format_: str) -> None:
    """Say how far the study in STORE is; a run may be at work on it."""
    from netplan.reports.answer import to_json
    from netplan.studies.sessions import study_status

    found = study_status(_existing(store))
    emit(to_json(found.to_dict()) if format_ == "json" else found.text, None)


@command.command("show")
@click.argument("store", type=click.Path(path_type=Path))
@FORMAT
@OUTPUT
@CATALOG
def show_command(store: Path, format_: str, output: Path | None, catalog: str | None) -> None:
    """Show what STORE holds, complete or not: tables, JSON, CSV, Markdown or an HTML page."""
    _show(_existing(store), format_, output, catalog)


def _existing(store: Path) -> Path:
    """A results file by its path, or by the name of its study in this folder."""
    from netplan.studies.sessions import default_store

    named = default_store(str(store))
    return named if not store.exists() and named.exists() else store


def _resources(count: int, scheduler: str | None, memory_gib: float | None) -> "Resources":
    from netplan.studies.run import Resources

    if memory_gib is not None and not 0 < memory_gib < float("inf"):
        raise click.UsageError(f"--memory-gib {memory_gib:g} is out of range: give more than 0")
    limit = None if memory_gib is None else int(memory_gib * GIB)
    return Resources(count, scheduler, limit)


def _estimate(study: "Study", resources: "Resources") -> str:
    """How large a study is, and about how long it takes with these workers."""
    from netplan.studies.sessions import seconds_a_point
    from netplan.units import duration

    each = seconds_a_point(study)
    at_once = max(1, resources.workers)
    where = "by the scheduler's workers together" if resources.scheduler else ""
    where = where or (f"with {at_once} workers" if resources.workers else "in this process")
    total = duration(study.point_count * each / at_once)
    return (
        f"{study.name}: {study.point_count:,} points at about {1e3 * each:.3g} ms: {total} {where}"
    )


def _run(study: "Study", path: Path, resources: "Resources") -> None:
    """Run what is missing, with a bar and the time left on stderr."""
    from netplan.studies.sessions import run_study

    if study.point_count >= ESTIMATED_FROM:
        click.echo(_estimate(study, resources), err=True)
    told: list[Progress] = []
    Heartbeat.describe = lambda: _bar(study.name, told[-1]) if told else f"{study.name}: starting"
    try:
        ended = run_study(study, path, resources, told.append)
    except KeyboardInterrupt:
        click.echo(f"\nstopped; what is done is kept: netplan study resume {path}", err=True)
        raise
    finally:
        Heartbeat.describe = None
    before = ended.done - ended.evaluated
    if before and ended.evaluated:
        click.echo(f"{before:,} points were there, {ended.evaluated:,} are new", err=True)
    if ended.failed:
        click.echo(f"{ended.failed:,} points failed (netplan study show {path})", err=True)


def _bar(name: str, progress: "Progress") -> str:
    """One line: a bar, points done and failed, time left."""
    from netplan.units import duration

    filled = BAR * progress.done // max(1, progress.total)
    failed = f", {progress.failed:,} failed" if progress.failed else ""
    left = "" if progress.left_s is None else f", {duration(progress.left_s)} left"
    return (
        f"{name} {'█' * filled}{'░' * (BAR - filled)} {progress.done:,} of"
        f" {progress.total:,}{failed}{left}"
    )


def _show(path: Path, format_: str, output: Path | None, catalog: str | None) -> None:
    """Print the answer, or write it to a file."""
    import sys

    from netplan.errors import InputError
    from netplan.studies.sessions import read_study

    if format_ == "html" and output is None and sys.stdout.isatty():
        raise InputError("a page is no text for a terminal: say where it goes with -o FILE")
    emit_answer(read_study(path, catalog), format_, output)

"""``netplan verify``."""

import sys
from pathlib import Path

import click

from netplan.cli.output import emit_answer
from netplan.reports.text import FORMATS

EXIT_FAILED = 1


@click.command("verify", short_help="Published tables and designs against netplan.")
@click.option("--only", metavar="TEXT", help="Only checks whose name or source holds TEXT.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Form of the answer.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file.")
def command(only: str | None, format_: str, output: Path | None) -> None:
    """Check published tables and designs against netplan; exit 1 if one fails.

    A published number that is known not to reproduce is listed as such, with the reason.
    """
    from netplan.published.verify import verify
    from netplan.published.verify_table import verification_text

    answer = verify(only=only)
    if not answer.checks:
        raise click.UsageError(f"--only {only!r}: no check has this in its name or source")
    emit_answer(answer, format_, output, lambda width, _colour: verification_text(answer, width))
    if answer.failed:
        sys.exit(EXIT_FAILED)

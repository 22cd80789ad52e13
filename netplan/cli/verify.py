"""``netplan verify``."""

import sys
from pathlib import Path

import click

from netplan.cli.output import emit, terminal_width
from netplan.reports.formats import FORMATS

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
    from netplan.reports.formats import to_csv, to_json, to_markdown
    from netplan.reports.verify import verify
    from netplan.reports.verify_table import verification_text

    answer = verify(only=only)
    if not answer.checks:
        raise click.UsageError(f"--only {only!r}: no check has this in its name or source")
    rows = answer.to_rows()
    if format_ == "json":
        text = to_json(answer.to_dict())
    elif format_ == "table":
        text = verification_text(answer, terminal_width(output)[0])
    else:
        text = to_csv(rows) if format_ == "csv" else to_markdown(rows)
    emit(text, output)
    if answer.failed:
        sys.exit(EXIT_FAILED)

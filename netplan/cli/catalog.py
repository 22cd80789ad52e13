"""``netplan catalog``: what the catalogs hold, and whether a file is sound."""

import sys
from pathlib import Path

import click

from netplan.cli.output import emit, terminal_width

CATALOG = click.option("--catalog", metavar="DIR", help="Your own catalog folder.")
FORMAT = click.option(
    "--format",
    "format_",
    type=click.Choice(("table", "json", "csv", "markdown")),
    default="table",
    show_default=True,
    help="Form of the answer.",
)
OUTPUT = click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file.")


@click.group("catalog")
def command() -> None:
    """List, show and check catalog files."""


@command.command("list")
@click.argument("role", required=False)
@FORMAT
@OUTPUT
@CATALOG
def list_(role: str | None, format_: str, output: Path | None, catalog: str | None) -> None:
    """List all records, or those of one ROLE (model, accelerator, fabric, prices, ...)."""
    from netplan.catalog import user_roots
    from netplan.questions.shelves import list_records
    from netplan.reports.text import plain_table, to_csv, to_json, to_markdown

    rows = list_records(role, user_roots(catalog))
    if format_ == "json":
        text = to_json({"records": rows})
    elif format_ == "table":
        shown = [{key: row[key] for key in ("role", "name", "title", "date")} for row in rows]
        text = plain_table(shown, terminal_width(output)[0])
    else:
        text = to_csv(rows) if format_ == "csv" else to_markdown(rows)
    emit(text, output)


@command.command("show")
@click.argument("name")
@click.option(
    "--format",
    "format_",
    type=click.Choice(("yaml", "json")),
    default="yaml",
    show_default=True,
    help="The file as it is, or its validated content.",
)
@OUTPUT
@CATALOG
def show(name: str, format_: str, output: Path | None, catalog: str | None) -> None:
    """Show the record NAME, with its file; ROLE/NAME where a name stands on two shelves."""
    from netplan.catalog import user_roots
    from netplan.questions.shelves import find_record
    from netplan.reports.text import to_json

    roots = user_roots(catalog)
    shelf, path = find_record(name, roots)
    if format_ == "json":
        emit(to_json(shelf.load(str(path)).model_dump(mode="json")), output)
        return
    click.echo(f"{shelf.role}: {path}", err=True)
    emit(path.read_text(encoding="utf-8"), output)


@command.command("check")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--role", help="What the files describe, if their folder does not say so.")
@CATALOG
def check(files: tuple[Path, ...], role: str | None, catalog: str | None) -> None:
    """Check FILES, or every catalog file.

    Every fault is named with its file and line; with any fault the exit code is 2.
    """
    from netplan.catalog import user_roots
    from netplan.questions.shelves import check_records

    verdicts = check_records(files, role, user_roots(catalog))
    faults = [verdict.error for verdict in verdicts if verdict.error]
    for fault in faults:
        click.echo(fault, err=True)
    sound = len(verdicts) - len(faults)
    click.echo(f"{sound} of {len(verdicts)} files are sound.")
    if faults:
        sys.exit(2)

"""``netplan audit``."""

import sys
from pathlib import Path

import click

from netplan.cli.options import RATIO, WHOLE
from netplan.cli.output import emit, emit_lines, terminal_width

FORMATS = ("table", "json", "csv")
EXIT_FINDINGS = 1


@click.command("audit", short_help="What does not add up in somebody's bill or topology.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--radix", type=WHOLE, help="Ports of a switch, to find ports that do not exist.")
@click.option("--oversubscription", type=RATIO, help="What is stated, such as 3:1  [default: 1:1]")
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Form of the answer.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file.")
def command(
    file: Path,
    radix: int | None,
    oversubscription: float | None,
    format_: str,
    output: Path | None,
) -> None:
    """Audit FILE: a table of designs, a cable plan, a graph, or a simulator's topology.

    Finds counts that do not multiply, ports that do not exist or are used twice, oversubscription
    that nobody stated, and headers that disagree with their bodies. Exits with 1 if it finds any.

    \b
    Examples:
      netplan audit designs.csv
      netplan audit cables.xlsx --radix 64
      netplan audit fabric.graphml --oversubscription 3:1 --format json
    """
    from netplan.questions.audit import audit

    answer = audit(file, radix=radix, oversubscription=oversubscription)
    if format_ == "json":
        from netplan.reports.text import to_json

        emit(to_json(answer.to_dict()), output)
    elif format_ == "csv":
        from netplan.questions.cable_sheets import sheet_csv

        emit_lines(sheet_csv(answer.to_sheet()), output)
    else:
        from netplan.reports.text import plain_table

        rows = answer.to_table()
        table = plain_table(rows, terminal_width(output)[0]) + "\n" if rows else ""
        emit(f"{table}{answer.summary}\n", output)
    if answer.findings:
        sys.exit(EXIT_FINDINGS)

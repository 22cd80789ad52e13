"""``netplan report``: answers as documents."""

import sys
from pathlib import Path

import click

from netplan.cli.options import WHOLE
from netplan.cli.output import emit
from netplan.cli.price_options import price_options


@click.group("report", short_help="Documents to send: procurement.")
def command() -> None:
    """Write a report: one file that opens anywhere and loads nothing."""


@command.command("procurement")
@click.option("--gpus", type=WHOLE, required=True, help="GPUs in the cluster.")
@click.option("--radix", type=WHOLE, required=True, help="Ports per switch.")
@click.option("--hb-size", type=WHOLE, help="GPUs per HB domain  [default: the accelerator's]")
@click.option("--model", default="gpt-1t", show_default=True, help="What is trained.")
@click.option("--accelerator", default="gh200-96gb", show_default=True, help="On which GPU.")
@click.option("--batch", type=WHOLE, help="Global batch in sequences  [default: the model's]")
@click.option(
    "--fabric",
    "fabrics",
    multiple=True,
    help="This fabric (repeatable)  [default: those of the report]",
)
@price_options
@click.option("--iteration-model", default="4d", show_default=True, help="Timing assumptions.")
@click.option("--timing/--no-timing", default=True, help="Search the best plan of each fabric.")
@click.option("--report", default="procurement", show_default=True, help="Report definition.")
@click.option("--faults", "with_faults", is_flag=True, help="A section on failures, too.")
@click.option("--fail", multiple=True, metavar="PART", help="Parts that fail there together.")
@click.option("--tokens", type=float, help="Tokens of a training run  [default: the model's]")
@click.option("--date", default="", metavar="YYYY-MM-DD", help="Date to print  [default: none]")
@click.option(
    "--format",
    "format_",
    type=click.Choice(("html", "json")),
    default="html",
    show_default=True,
    help="Form of the report.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file.")
@click.option("--xlsx", type=click.Path(path_type=Path), help="Write the spreadsheet here, too.")
@click.option("--catalog", metavar="DIR", help="Your own catalog folder; it goes before ours.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="ROLE.KEY=VALUE",
    help="Replace one catalog value, such as economics.pue.base=1.2.",
)
def procurement_command(
    *,
    format_: str,
    output: Path | None,
    xlsx: Path | None,
    overrides: tuple[str, ...],
    **question: object,
) -> None:
    """Write what a buyer sends to suppliers: verdict, prices, bill, drawing, sources.

    The HTML file holds its charts and needs no network; the same question gives the same bytes.

    \b
    Examples:
      netplan report procurement --gpus 32768 --radix 128 -o report.html --xlsx report.xlsx
      netplan report procurement --gpus 1024 --radix 64 --accelerator h100-80gb \
        --switch qm9700 --spares 2% -o report.html
    """
    from netplan.errors import InputError
    from netplan.files import write_atomically
    from netplan.questions.inputs import parse_overrides
    from netplan.questions.procurement import procurement
    from netplan.reports.text import to_json

    if output is None and sys.stdout.isatty():
        raise InputError("a report is no text for a terminal: say where it goes with -o FILE")
    if xlsx is not None and output is not None and xlsx.resolve() == output.resolve():
        raise InputError(f"-o and --xlsx are both {output}: give two files")
    answer = procurement(overrides=parse_overrides(overrides), **question)  # type: ignore[arg-type]
    # Both are made before either is written: a report that fails leaves no half behind.
    text = answer.html() if format_ == "html" else to_json(answer.to_dict())
    sheet = answer.xlsx() if xlsx is not None else b""
    emit(text, output)
    if xlsx is not None:
        write_atomically(xlsx, sheet)

"""``netplan cables``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netplan.cli.options import RATIO, WHOLE
from netplan.cli.output import emit, emit_lines, terminal_width
from netplan.files import write_atomically

if TYPE_CHECKING:
    from netplan.questions.cables import CableComparison

SHEETS = (
    "plan",
    "lengths",
    "racks",
    "netbox-cables",
    "netbox-devices",
    "ufm-ethernet",
    "ufm-infiniband",
    "ufm-hca",
    "ufm-racks",
)
FORMATS = ("table", "json", "csv")
EXIT_DIFFERENT = 1


@click.command("cables", short_help="Cable plan, port to port; plan against as built.")
@click.option("--gpus", type=WHOLE, help="GPUs in the cluster.")
@click.option("--radix", type=WHOLE, default=64, show_default=True, help="Ports per switch.")
@click.option("--fabric", default="rail-only", show_default=True, help="Fabric to cable.")
@click.option("--hb-size", type=WHOLE, help="GPUs per HB domain  [default: the accelerator's]")
@click.option("--accelerator", default="gh200-96gb", show_default=True, help="On which GPU.")
@click.option("--oversubscription", type=RATIO, help="Down over up at Clos leaves, such as 3:1.")
@click.option(
    "--to", type=click.Choice(SHEETS), default="plan", show_default=True, help="Which table."
)
@click.option(
    "--floor-plan", help="Hall that gives racks and lengths, such as example-hall, or a file."
)
@click.option(
    "--switch", metavar="MODEL", help="Name ports by cage and half, as 1/2: qm9700, sn5600, ..."
)
@click.option("--host-gpus", type=WHOLE, help="Name hosts of so many GPUs instead of GPUs.")
@click.option(
    "--compare",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    nargs=2,
    metavar="PLAN AS_BUILT",
    help="Say what differs between two tables or graphs instead.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Form of the differences.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write to a file (.csv or .xlsx)."
)
@click.option("--catalog", metavar="DIR", help="Your own catalog folder; it goes before ours.")
@click.option(
    "--set", "overrides", multiple=True, metavar="ROLE.KEY=VALUE", help="Replace one value."
)
def command(
    *,
    files: tuple[Path, Path] | None,
    format_: str,
    gpus: int | None,
    output: Path | None,
    overrides: tuple[str, ...],
    **question: object,
) -> None:
    """Write the cable plan of a fabric, or compare one with the cables as built.

    The comparison names what is missing, extra, swapped, in a wrong port or at a wrong speed, and
    what to do about it; it exits with 1 if anything differs. Where one file names ports by cage and
    the other numbers them, --switch and --radix say how they match.

    \b
    Examples:
      netplan cables --gpus 32768 --radix 64 --fabric rail-optimized -o plan.xlsx
      netplan cables --gpus 1024 --radix 64 --to netbox-cables -o cables.csv
      netplan cables --gpus 32768 --radix 128 --floor-plan example-hall --to lengths
      netplan cables --gpus 1024 --radix 64 --switch qm9700 --to ufm-infiniband -o p2p.xlsx
      netplan cables --compare plan.csv fabric.ibnetdiscover
    """
    if files:
        from netplan.questions.cables import compare_cables

        naming = {key: question[key] for key in ("switch", "radix", "catalog")}
        answer = compare_cables(*files, **naming)  # type: ignore[arg-type]
        _show_differences(answer, format_, output)
        return
    from netplan.questions.cable_sheets import check_ending, sheet_csv, sheet_xlsx
    from netplan.questions.cables import cables
    from netplan.questions.inputs import parse_overrides

    if gpus is None:
        raise click.UsageError("Missing option '--gpus', or '--compare' with two files.")
    if output is not None:
        check_ending(output)
    sheet = cables(gpus=gpus, overrides=parse_overrides(overrides), **question)  # type: ignore[arg-type]
    if output is not None and output.suffix.lower() == ".xlsx":
        write_atomically(output, sheet_xlsx(sheet))
    else:
        emit_lines(sheet_csv(sheet), output)


def _show_differences(answer: "CableComparison", format_: str, output: Path | None) -> None:
    """Print the differences; exit with 1 if there are any."""
    if format_ == "json":
        from netplan.reports.text import to_json

        emit(to_json(answer.to_dict()), output)
    elif format_ == "csv":
        from netplan.questions.cable_sheets import sheet_csv

        emit_lines(sheet_csv(answer.to_sheet()), output)
    else:
        from netplan.reports.text import plain_table

        rows = [{key: row[key] for key in ("kind", "instruction")} for row in answer.to_rows()]
        table = plain_table(rows, terminal_width(output)[0]) + "\n" if rows else ""
        emit(f"{table}{answer.summary}\n", output)
    if answer.differences:
        sys.exit(EXIT_DIFFERENT)

"""``netplan cost``."""

from pathlib import Path

import click

from netplan.cli.options import WHOLE, answer_options_in
from netplan.cli.output import emit_answer
from netplan.cli.price_options import price_options
from netplan.files import write_atomically
from netplan.reports.text import FORMATS


@click.command("cost", short_help="Bill of materials, price range, drivers, yearly cost.")
@click.option("--gpus", type=WHOLE, required=True, help="GPUs in the cluster.")
@click.option("--radix", type=WHOLE, required=True, help="Ports per switch.")
@click.option("--hb-size", type=WHOLE, help="GPUs per HB domain  [default: the accelerator's]")
@click.option("--accelerator", default="gh200-96gb", show_default=True, help="On which GPU.")
@click.option(
    "--fabric",
    "fabrics",
    multiple=True,
    help="This fabric (repeatable)  [default: rail-optimized and rail-only]",
)
@price_options
@answer_options_in((*FORMATS, "xlsx"))
def command(
    *,
    format_: str,
    output: Path | None,
    overrides: tuple[str, ...],
    **question: object,
) -> None:
    """Make the bill of materials of a network, with its price range and what drives it.

    Ports close before anything is priced: every cable end has a port of the right speed and form.

    \b
    Examples:
      netplan cost --gpus 32768 --radix 128
      netplan cost --gpus 1024 --radix 64 --accelerator h100-80gb --switch qm9700 --spares 2%
      netplan cost --gpus 4096 --radix 64 --currency EUR --format xlsx -o bill.xlsx
    """
    from netplan.errors import InputError
    from netplan.questions.cost import cost
    from netplan.questions.cost_table import cost_text
    from netplan.questions.inputs import parse_overrides

    if format_ == "xlsx" and output is None:
        raise InputError("--format xlsx is not text: say where it goes with -o FILE")
    answer = cost(overrides=parse_overrides(overrides), **question)  # type: ignore[arg-type]
    if format_ == "xlsx":
        from netplan.questions.cost_xlsx import cost_xlsx

        write_atomically(output or Path(), cost_xlsx(answer))
        return
    emit_answer(
        answer, format_, output, lambda width, colour: cost_text(answer, width, colour=colour)
    )

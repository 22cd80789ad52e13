"""``netplan cost``."""

import re
from pathlib import Path

import click

from netplan.cli.options import RATIO, WHOLE, answer_options_in
from netplan.cli.output import emit_answer
from netplan.files import write_atomically
from netplan.reports.formats import FORMATS


class Percent(click.ParamType[float]):
    """A percentage such as ``7%``, read as a share of one."""

    name = "percent"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Read the share; a number without its sign could mean either."""
        text = str(value).strip()
        if not re.fullmatch(r"-?\d+(\.\d+)?\s*%", text):
            self.fail(f"{text!r} is not a percentage: write 7%", param, ctx)
        return float(text.rstrip("% ")) / 100


PERCENT = Percent()


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
@click.option("--switch", help="Switch model with that many ports  [default: any]")
@click.option("--ocs", help="Optical circuit switch for tori  [default: direct fibres]")
@click.option("--spares", multiple=True, help="Spares: 2%, or transceivers=3% (repeatable).")
@click.option("--oversubscription", type=RATIO, help="Down over up at Clos leaves, such as 3:1.")
@click.option("--prices", default="2026", show_default=True, help="Price book.")
@click.option("--currency", help="Currency of the answer  [default: the price book's]")
@click.option("--discount", type=PERCENT, help="Off every price  [default: the price book's]")
@click.option("--power", default="2026", show_default=True, help="Power book.")
@click.option("--cabling", default="2026", show_default=True, help="Modules, cables, lengths.")
@click.option("--economics", default="2026", show_default=True, help="PUE, tariff, interest.")
@click.option("--years", type=WHOLE, help="Years of use  [default: the economics book's]")
@click.option("--pue", type=float, help="Facility over equipment power  [default: the same]")
@click.option("--tariff", type=float, help="Price of a kWh  [default: the same]")
@click.option("--interest", type=PERCENT, help="Interest a year, such as 7%  [default: the same]")
@answer_options_in((*FORMATS, "xlsx"))
def command(
    *,
    format_: str,
    output: Path | None,
    overrides: tuple[str, ...],
    **question: object,
) -> None:
    r"""Make the bill of materials of a network, with its price range and what drives it.

    Ports close before anything is priced: every cable end has a port of the right speed and form.

    \b
    Examples:
      netplan cost --gpus 32768 --radix 128
      netplan cost --gpus 1024 --radix 64 --accelerator h100-80gb --switch qm9700 --spares 2%
      netplan cost --gpus 4096 --radix 64 --currency EUR --format xlsx -o bill.xlsx
    """
    from netplan.errors import InputError
    from netplan.reports.cost import cost
    from netplan.reports.cost_table import cost_text
    from netplan.reports.inputs import parse_overrides

    if format_ == "xlsx" and output is None:
        raise InputError("--format xlsx is not text: say where it goes with -o FILE")
    answer = cost(overrides=parse_overrides(overrides), **question)  # type: ignore[arg-type]
    if format_ == "xlsx":
        from netplan.reports.cost_xlsx import cost_xlsx

        write_atomically(output or Path(), cost_xlsx(answer))
        return
    emit_answer(
        answer, format_, output, lambda width, colour: cost_text(answer, width, colour=colour)
    )

"""``netplan optimize``."""

from pathlib import Path

import click

from netplan.cli.options import RATIO, WHOLE, answer_options
from netplan.cli.output import emit_answer


@click.command("optimize", short_help="The cheapest and fastest networks, the whole front.")
@click.option("--gpus", type=WHOLE, required=True, help="GPUs in the cluster.")
@click.option("--model", default="gpt-1t", show_default=True, help="What is trained.")
@click.option("--accelerator", default="gh200-96gb", show_default=True, help="On which GPU.")
@click.option("--batch", type=WHOLE, help="Global batch in sequences  [default: the model's]")
@click.option("--fabric", "fabrics", multiple=True, help="This fabric (repeatable)  [default: all]")
@click.option(
    "--hb-size",
    "hb_sizes",
    type=WHOLE,
    multiple=True,
    help="GPUs per HB domain (repeatable)  [default: 8, 16, ... 1024]",
)
@click.option(
    "--radix",
    "radices",
    type=WHOLE,
    multiple=True,
    help="Ports per switch (repeatable)  [default: 64, 128]",
)
@click.option(
    "--switch", "switches", multiple=True, help="This switch model, not a radix (repeatable)."
)
@click.option(
    "--oversubscription",
    "oversubscriptions",
    type=RATIO,
    multiple=True,
    help="Down over up at Clos leaves (repeatable)  [default: 1:1 to 4:1]",
)
@click.option(
    "--for",
    "objective",
    type=click.Choice(("cost", "power")),
    default="cost",
    show_default=True,
    help="What is set against iteration time.",
)
@click.option("--prices", default="2026", show_default=True, help="Price book.")
@click.option("--power", default="2026", show_default=True, help="Power book.")
@click.option("--cabling", default="2026", show_default=True, help="Modules and cables.")
@click.option("--iteration-model", default="ptd-p", show_default=True, help="How time is modelled.")
@click.option("--budget", type=float, help="Highest price of the network, such as 200e6.")
@click.option("--max-power", "max_power_w", type=float, help="Highest power of the network [W].")
@click.option(
    "--survives-switch", is_flag=True, help="Only what no failure of a single switch parts."
)
@click.option(
    "--delivery",
    type=click.Choice(("shipping", "announced")),
    help="Only switches that are sold, or announced.",
)
@click.option(
    "--max-lead-time",
    "max_lead_time_weeks",
    type=float,
    metavar="WEEKS",
    help="Only switches that come within so many weeks.",
)
@answer_options
def command(
    *, format_: str, output: Path | None, overrides: tuple[str, ...], **question: object
) -> None:
    """Find every network that no other beats in both cost and iteration time.

    Every fabric is sized for every HB domain, switch and oversubscription; the front is that of
    the whole space, not of a sample.

    \b
    Examples:
      netplan optimize --gpus 32768
      netplan optimize --gpus 16384 --accelerator h100-80gb --hb-size 8 --budget 120e6
      netplan optimize --gpus 16384 --hb-size 64 --switch qm9700 --switch sn5600
      netplan optimize --gpus 16384 --hb-size 8 --for power --survives-switch
    """
    from netplan.questions.inputs import parse_overrides
    from netplan.questions.optimize import optimize
    from netplan.questions.optimize_table import optimization_text

    answer = optimize(
        overrides=parse_overrides(overrides),
        **question,  # type: ignore[arg-type]
    )
    emit_answer(
        answer,
        format_,
        output,
        lambda width, colour: optimization_text(answer, width, colour=colour),
    )

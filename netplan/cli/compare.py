"""``netplan compare``."""

from pathlib import Path

import click

from netplan.cli.options import RATIO, WHOLE, answer_options
from netplan.cli.output import emit_answer


@click.command("compare", short_help="All fabrics side by side.")
@click.option("--gpus", type=WHOLE, required=True, help="GPUs in the cluster.")
@click.option("--radix", type=WHOLE, required=True, help="Ports per switch.")
@click.option("--hb-size", type=WHOLE, help="GPUs per HB domain  [default: the accelerator's]")
@click.option("--model", default="gpt-1t", show_default=True, help="What is trained.")
@click.option("--accelerator", default="gh200-96gb", show_default=True, help="On which GPU.")
@click.option("--batch", type=WHOLE, help="Global batch in sequences  [default: the model's]")
@click.option("--fabric", "fabrics", multiple=True, help="Only this fabric (repeatable).")
@click.option("--prices", default="rail-only-2023", show_default=True, help="Price book.")
@click.option("--power", default="2026", show_default=True, help="Power book.")
@click.option("--oversubscription", type=RATIO, help="Down over up at Clos leaves, such as 3:1.")
@click.option("--iteration-model", default="ptd-p", show_default=True, help="How time is modelled.")
@click.option("--no-timing", is_flag=True, help="Leave the iteration time out.")
@answer_options
def command(
    *,
    format_: str,
    output: Path | None,
    overrides: tuple[str, ...],
    no_timing: bool,
    **question: object,
) -> None:
    """Put all fabrics side by side: what each needs, costs and draws, and how fast it trains.

    Names are catalog names (see `netplan catalog list`) or paths to files.

    \b
    Examples:
      netplan compare --gpus 32768 --radix 128
      netplan compare --gpus 4096 --radix 64 --accelerator h100-80gb --prices 2026
      netplan compare --gpus 16384 --radix 64 --fabric rail-only --fabric fat-tree
    """
    from netplan.questions.compare import compare
    from netplan.questions.comparison_table import comparison_text
    from netplan.questions.inputs import parse_overrides

    answer = compare(
        timing=not no_timing,
        overrides=parse_overrides(overrides),
        **question,  # type: ignore[arg-type]
    )
    emit_answer(
        answer,
        format_,
        output,
        lambda width, colour: comparison_text(answer, width, colour=colour),
    )

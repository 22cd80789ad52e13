"""``netplan search``."""

from pathlib import Path

import click

from netplan.cli.options import RATIO, WHOLE, answer_options
from netplan.cli.output import emit_answer
from netplan.cli.run_options import fixed_options

EXPLAIN_HELP = "Difference term by term: between modes, or between two plans such as 1,2."


@click.command("search", short_help="The best parallel plans, proven optimal.")
@click.option("--gpus", type=WHOLE, required=True, help="GPUs in the cluster.")
@click.option("--model", default="gpt-1t", show_default=True, help="What is trained.")
@click.option("--accelerator", default="gh200-96gb", show_default=True, help="On which GPU.")
@click.option("--hb-size", type=WHOLE, help="GPUs per HB domain  [default: the accelerator's]")
@click.option("--batch", type=WHOLE, help="Global batch in sequences  [default: the model's]")
@click.option("--fabric", default="rail-optimized", show_default=True, help="On which fabric.")
@click.option("--radix", type=WHOLE, default=64, show_default=True, help="Ports per switch.")
@click.option("--oversubscription", type=RATIO, help="Down over up at Clos leaves, such as 3:1.")
@click.option(
    "--strategy", default="1d", show_default=True, help="Tensor parallelism: 1d, 2d, summa, all."
)
@click.option("--iteration-model", default="4d", show_default=True, help="4d or ptd-p.")
@click.option("--mode", default="corrected", show_default=True, help="corrected or published-code.")
@click.option("--top", type=WHOLE, default=5, show_default=True, help="Plans to show.")
@click.option(
    "--recompute",
    type=click.Choice(("none", "selective", "full")),
    default="selective",
    show_default=True,
    help="Activations computed again in the backward pass.",
)
@click.option("--experts", type=WHOLE, default=1, show_default=True, help="Experts of a layer.")
@click.option("--top-k", type=WHOLE, default=1, show_default=True, help="Experts of a token.")
@click.option("--expert-degree", type=WHOLE, help="GPUs that share the experts.")
@click.option("--embedding", is_flag=True, help="Count the token embedding.")
@click.option("--lm-head", is_flag=True, help="Count the output head.")
@click.option("--zero", "zero_stage", type=WHOLE, help="ZeRO stage, 0 to 3.")
@click.option(
    "--interleave",
    type=click.Choice(("none", "whole", "any")),
    help="Interleaved schedules: none, in whole groups of microbatches, any.",
)
@click.option(
    "--fix", multiple=True, metavar="NAME=N", help="Give a value, such as pipeline=64 (repeatable)."
)
@click.option("--explain", metavar="modes|A,B", help=EXPLAIN_HELP)
@answer_options
def command(
    *,
    format_: str,
    output: Path | None,
    overrides: tuple[str, ...],
    fix: tuple[str, ...],
    **question: object,
) -> None:
    """Find the best parallel plans of a model on a cluster; every plan is evaluated.

    \b
    Examples:
      netplan search --gpus 16384 --accelerator b200 --model gpt-1t
      netplan search --gpus 1024 --accelerator b200 --model vit-64k --strategy all
      netplan search --gpus 4096 --accelerator h200 --explain 1,2
      netplan search --gpus 16384 --accelerator b200 --fix pipeline=64 --fix microbatch=1
    """
    from netplan.questions.inputs import parse_overrides
    from netplan.questions.search import search
    from netplan.questions.search_table import search_text

    answer = search(
        overrides=parse_overrides(overrides),
        fixed=fixed_options(fix),
        **question,  # type: ignore[arg-type]
    )
    emit_answer(answer, format_, output, lambda width, _colour: search_text(answer, width))

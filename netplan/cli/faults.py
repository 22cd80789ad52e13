"""``netplan faults``."""

from pathlib import Path

import click

from netplan.cli.options import PERCENT, RATIO, WHOLE, answer_options
from netplan.cli.output import emit_answer


@click.command("faults", short_help="Failures: single, your own, years of them.")
@click.option("--gpus", type=WHOLE, required=True, help="GPUs in the cluster.")
@click.option("--radix", type=WHOLE, required=True, help="Ports per switch.")
@click.option(
    "--fail", multiple=True, metavar="PART", help="Fails: rail-0/leaf-3, links=10, gpu=0.1%, @FILE."
)
@click.option("--draws", type=WHOLE, default=1, show_default=True, help="Draws of random parts.")
@click.option("--hb-size", type=WHOLE, help="GPUs per HB domain  [default: the accelerator's]")
@click.option("--model", default="gpt-1t", show_default=True, help="What is trained.")
@click.option("--accelerator", default="gh200-96gb", show_default=True, help="On which GPU.")
@click.option("--batch", type=WHOLE, help="Global batch in sequences  [default: the model's]")
@click.option("--fabric", "fabrics", multiple=True, help="Only this fabric (repeatable).")
@click.option("--oversubscription", type=RATIO, help="Down over up at Clos leaves, such as 3:1.")
@click.option("--iteration-model", default="ptd-p", show_default=True, help="How time is modelled.")
@click.option("--failures", default="2026", show_default=True, help="Book of failure rates.")
@click.option(
    "--rates",
    type=click.Choice(("low", "base", "high")),
    default="base",
    show_default=True,
    help="Which end of the book's ranges.",
)
@click.option("--prices", default="2026", show_default=True, help="Price book.")
@click.option("--years", type=WHOLE, default=1000, show_default=True, help="Years to simulate.")
@click.option("--seed", type=WHOLE, default=0, show_default=True, help="Seed of all draws.")
@click.option(
    "--checkpoint-write",
    "checkpoint_write_minutes",
    type=float,
    default=1.0,
    show_default=True,
    help="Minutes to write a checkpoint.",
)
@click.option(
    "--checkpoint-interval",
    "checkpoint_interval_minutes",
    type=float,
    help="Minutes between two  [default: the best]",
)
@click.option(
    "--restart",
    "restart_minutes",
    type=float,
    default=10.0,
    show_default=True,
    help="Minutes from a failure to computing again.",
)
@click.option(
    "--service-level", type=PERCENT, default="99%", show_default=True, help="For the spares."
)
@click.option("--spares", multiple=True, metavar="PART=N", help="Spares kept: switch=2, ...")
@click.option("--spare-domains", type=WHOLE, default=0, show_default=True, help="Idle HB domains.")
@click.option("--floor-plan", help="Hall, to fail racks, rows, feeds and trays.")
@click.option("--gpus-per-rack", type=WHOLE, help="The same without a hall: racks and feeds.")
@click.option(
    "--switches-per-rack", type=WHOLE, default=16, show_default=True, help="Beside the former."
)
@click.option("--optics-batch", type=PERCENT, help="Of all modules in a batch, as 5%: batch=1.")
@click.option(
    "--groups", type=click.Path(path_type=Path), help="Your own risk groups (.csv or .yaml)."
)
@click.option("--no-timing", is_flag=True, help="Leave the iteration times out.")
@answer_options
def command(
    *,
    format_: str,
    output: Path | None,
    overrides: tuple[str, ...],
    no_timing: bool,
    **question: object,
) -> None:
    """Put fabrics under failures: what is cut off, how training goes on, what to keep in spare.

    Parts fail by name (rail-0/leaf-3, gpu-5, gpu-5:1--rail-0/leaf-3:6, domain-7), by number
    (links=10, leaf=2), by share (transceiver=0.1%) or from a file (@faults.txt), all together. A
    file @incidents.yaml has modes with weights, of which each draw takes one.

    \b
    Examples:
      netplan faults --gpus 32768 --radix 128
      netplan faults --gpus 16384 --radix 64 --fabric rail-only --fail leaf=1 --fail links=10
      netplan faults --gpus 4096 --radix 64 --gpus-per-rack 32 --fail rack=1 --draws 20
    """
    from netplan.questions.faults import faults
    from netplan.questions.faults_table import faults_text
    from netplan.questions.inputs import parse_overrides

    answer = faults(
        timing=not no_timing,
        overrides=parse_overrides(overrides),
        **question,  # type: ignore[arg-type]
    )
    emit_answer(answer, format_, output, lambda width, _colour: faults_text(answer, width))

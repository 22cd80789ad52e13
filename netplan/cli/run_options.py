"""Options of the commands that place a training run on a fabric."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from netplan.cli.options import RATIO, WHOLE, parse_numbers

F = TypeVar("F", bound=Callable[..., Any])


def run_options(command: F) -> F:
    """Add the options of a training run on one fabric."""
    options = (
        click.option("--gpus", type=WHOLE, help="GPUs in the cluster."),
        click.option(
            "--radix", type=WHOLE, default=64, show_default=True, help="Ports per switch."
        ),
        click.option(
            "--fabric", default="rail-optimized", show_default=True, help="On which fabric."
        ),
        click.option(
            "--hb-size", type=WHOLE, help="GPUs per HB domain  [default: the accelerator's]"
        ),
        click.option("--model", default="gpt-1t", show_default=True, help="What is trained."),
        click.option(
            "--accelerator", default="gh200-96gb", show_default=True, help="On which GPU."
        ),
        click.option(
            "--batch", type=WHOLE, help="Global batch in sequences  [default: the model's]"
        ),
        click.option("--oversubscription", type=RATIO, help="Down over up at Clos leaves."),
        click.option(
            "--iteration-model", default="ptd-p", show_default=True, help="Chooses the plan."
        ),
        click.option(
            "--algorithm",
            type=click.Choice(("hierarchical", "ring", "direct")),
            default="hierarchical",
            show_default=True,
            help="Pattern of the collectives.",
        ),
        click.option(
            "--fix", multiple=True, metavar="NAME=N", help="Give a value, such as tensor=8."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def fixed_options(texts: tuple[str, ...]) -> dict[str, int]:
    """Split ``NAME=N`` texts of ``--fix``."""
    return parse_numbers("--fix", texts)


def require_gpus(question: Mapping[str, object]) -> None:
    """Refuse a question without a number of GPUs.

    Raises
    ------
    click.UsageError
        If it is missing.
    """
    if question["gpus"] is None:
        raise click.UsageError("Missing option '--gpus'.")

"""Options of the commands that price a network."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from netplan.cli.options import PERCENT, RATIO, WHOLE

F = TypeVar("F", bound=Callable[..., Any])


def price_options(command: F) -> F:
    """Add the options of a bill: hardware, spares, prices, power, years of use."""
    options = (
        click.option("--switch", help="Switch model with that many ports  [default: any]"),
        click.option("--ocs", help="Optical circuit switch for tori  [default: direct fibres]"),
        click.option(
            "--with",
            "networks",
            multiple=True,
            help="A network beside: storage, management, out-of-band (repeatable).",
        ),
        click.option("--floor-plan", help="Hall that gives cable lengths  [default: classes]"),
        click.option("--spares", multiple=True, help="Spares: 2%, or a part=3% (repeatable)."),
        click.option("--oversubscription", type=RATIO, help="Down over up at Clos leaves, as 3:1."),
        click.option("--prices", default="2026", show_default=True, help="Price book."),
        click.option("--currency", help="Currency of the answer  [default: the book's]"),
        click.option("--discount", type=PERCENT, help="Off every price  [default: the book's]"),
        click.option("--power", default="2026", show_default=True, help="Power book."),
        click.option("--cabling", default="2026", show_default=True, help="Modules and cables."),
        click.option("--economics", default="2026", show_default=True, help="PUE, tariff, rate."),
        click.option("--years", type=WHOLE, help="Years of use  [default: the economics book's]"),
        click.option(
            "--pue", type=float, help="Facility over equipment power  [default: the same]"
        ),
        click.option("--tariff", type=float, help="Price of a kWh  [default: the same]"),
        click.option(
            "--interest", type=PERCENT, help="Interest a year, as 7%  [default: the same]"
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command

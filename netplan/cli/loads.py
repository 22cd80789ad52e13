"""``netplan loads``."""

from pathlib import Path

import click

from netplan.cli.options import WHOLE, answer_options
from netplan.cli.output import emit, terminal_width
from netplan.cli.run_options import fixed_options, run_options

ROUTINGS = ("auto", "ecmp", "hashed", "dimension-order", "minimal-adaptive", "minimal", "valiant")


@click.command("loads", short_help="What every link carries, the hottest links, the bounds.")
@run_options
@click.option(
    "--routing",
    type=click.Choice(ROUTINGS),
    default="auto",
    show_default=True,
    help="How messages find their way; auto is the fabric's own.",
)
@click.option("--hot", type=WHOLE, default=5, show_default=True, help="Hottest links to name.")
@click.option("--seed", type=WHOLE, default=0, show_default=True, help="Seed of hashed routing.")
@answer_options
def command(
    *,
    format_: str,
    output: Path | None,
    overrides: tuple[str, ...],
    fix: tuple[str, ...],
    **question: object,
) -> None:
    r"""Show what every link carries in one iteration, and every collective beside its bound.

    \b
    Examples:
      netplan loads --gpus 32768 --radix 128
      netplan loads --gpus 32768 --radix 128 --fabric rail-only
      netplan loads --gpus 4096 --fabric torus-3d --hb-size 1 --routing minimal-adaptive
    """
    from netplan.reports.formats import to_csv, to_json, to_markdown
    from netplan.reports.inputs import parse_overrides
    from netplan.reports.loads import loads
    from netplan.reports.run_tables import loads_text

    answer = loads(
        overrides=parse_overrides(overrides),
        fixed=fixed_options(fix),
        **question,  # type: ignore[arg-type]
    )
    if format_ == "table":
        emit(loads_text(answer, terminal_width(output)[0]), output)
    elif format_ == "json":
        emit(to_json(answer.to_dict()), output)
    else:
        rows = answer.to_rows()
        emit(to_csv(rows) if format_ == "csv" else to_markdown(rows), output)

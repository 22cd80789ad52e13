"""``netplan traffic``."""

from pathlib import Path

import click

from netplan.cli.options import answer_options
from netplan.cli.output import emit_answer
from netplan.cli.run_options import fixed_options, require_gpus, run_options
from netplan.files import write_atomically


@click.command("traffic", short_help="Who sends how much to whom in one iteration.")
@run_options
@click.option(
    "--save", type=click.Path(path_type=Path), help="Save the matrix: .npz, or .csv of flows."
)
@click.option(
    "--heat-map", type=click.Path(path_type=Path), help="Write the heat map as an HTML page."
)
@answer_options
def command(
    *,
    format_: str,
    output: Path | None,
    overrides: tuple[str, ...],
    fix: tuple[str, ...],
    save: Path | None,
    heat_map: Path | None,
    **question: object,
) -> None:
    """Show the traffic matrix of a training run: shares, pairs, heat map.

    \b
    Examples:
      netplan traffic --gpus 32768 --radix 128
      netplan traffic --gpus 3072 --hb-size 8 --batch 3072 --algorithm ring --fix tensor=8
      netplan traffic --gpus 4096 --save matrix.npz --heat-map traffic.html
    """
    from netplan.questions.inputs import parse_overrides
    from netplan.questions.run_tables import traffic_text
    from netplan.questions.traffic import training_traffic

    require_gpus(question)
    answer = training_traffic(
        overrides=parse_overrides(overrides),
        fixed=fixed_options(fix),
        **question,  # type: ignore[arg-type]
    )
    if save is not None:
        answer.save(save)
    if heat_map is not None:
        from netplan.questions.heat_page import heat_page

        write_atomically(heat_map, heat_page(answer).encode())
    emit_answer(answer, format_, output, lambda width, _colour: traffic_text(answer, width))

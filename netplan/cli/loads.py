"""``netplan loads``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netplan.cli.options import WHOLE, answer_options
from netplan.cli.output import emit_answer
from netplan.cli.run_options import fixed_options, require_gpus, run_options

if TYPE_CHECKING:
    from netplan.questions.loads import LoadsAnswer
    from netplan.questions.matrix_loads import MatrixLoads

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
@click.option(
    "--matrix", type=click.Path(path_type=Path), help="This traffic (.npz, .csv), not a plan's."
)
@click.option(
    "--graph",
    type=click.Path(path_type=Path),
    help="On this graph (.graphml, .csv, .topo, .ibnetdiscover); needs --matrix.",
)
@click.option(
    "--bounds", is_flag=True, help="With --matrix: least time of collectives over all GPUs."
)
@answer_options
def command(  # noqa: PLR0913 - one parameter an option
    *,
    format_: str,
    output: Path | None,
    overrides: tuple[str, ...],
    fix: tuple[str, ...],
    matrix: Path | None,
    graph: Path | None,
    bounds: bool,
    **question: object,
) -> None:
    """Show what every link carries in one iteration, and every collective beside its bound.

    \b
    Examples:
      netplan loads --gpus 32768 --radix 128
      netplan loads --gpus 32768 --radix 128 --fabric rail-only
      netplan loads --gpus 4096 --fabric torus-3d --hb-size 1 --routing minimal-adaptive
      netplan loads --graph fabric.graphml --matrix matrix.npz
    """
    from netplan.questions.inputs import parse_overrides
    from netplan.questions.loads import loads
    from netplan.questions.run_tables import loads_text

    replaced = parse_overrides(overrides)
    answer: LoadsAnswer | MatrixLoads
    if matrix is not None:
        answer = _of_matrix(matrix, graph, {**question, "overrides": replaced, "bounds": bounds})
    elif graph is not None:
        raise click.UsageError("--graph needs --matrix: the traffic to route over it.")
    else:
        require_gpus(question)
        fixed = fixed_options(fix)
        answer = loads(overrides=replaced, fixed=fixed, **question)  # type: ignore[arg-type]
    emit_answer(answer, format_, output, lambda width, _colour: loads_text(answer, width))


def _of_matrix(matrix: Path, graph: Path | None, question: dict[str, Any]) -> "MatrixLoads":
    """Route a saved matrix over a file's graph, or over a fabric of the catalog."""
    from netplan.questions.matrix_loads import graph_of_fabric, graph_of_file, matrix_loads

    if graph is not None:
        found, inputs = graph_of_file(graph, question["hb_size"])
    else:
        require_gpus(question)
        names = (
            "gpus",
            "radix",
            "fabric",
            "hb_size",
            "accelerator",
            "oversubscription",
            "catalog",
            "overrides",
        )
        found, inputs = graph_of_fabric(**{name: question[name] for name in names})
    how = {name: question[name] for name in ("routing", "hot", "seed", "bounds")}
    return matrix_loads(matrix, found, inputs=inputs, **how)

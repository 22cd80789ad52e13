"""``netplan export``."""

from pathlib import Path

import click

from netplan.cli.options import RATIO, WHOLE
from netplan.cli.output import emit_lines

FORMATS = ("graphml", "dot", "edges", "simai", "topo", "slurm", "astra-sim")


@click.command("export", short_help="A fabric as a graph for other tools.")
@click.option("--to", type=click.Choice(FORMATS), required=True, help="Format to write.")
@click.option("--gpus", type=WHOLE, help="GPUs in the cluster.")
@click.option("--radix", type=WHOLE, default=64, show_default=True, help="Ports per switch.")
@click.option("--fabric", default="rail-only", show_default=True, help="Fabric to expand.")
@click.option("--hb-size", type=WHOLE, help="GPUs per HB domain  [default: the accelerator's]")
@click.option("--accelerator", default="gh200-96gb", show_default=True, help="On which GPU.")
@click.option("--oversubscription", type=RATIO, help="Down over up at Clos leaves, such as 3:1.")
@click.option(
    "--graph",
    type=click.Path(path_type=Path),
    help="Convert this graph instead (.graphml, .csv, .topo, .ibnetdiscover).",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file.")
@click.option("--catalog", metavar="DIR", help="Your own catalog folder; it goes before ours.")
@click.option(
    "--set", "overrides", multiple=True, metavar="ROLE.KEY=VALUE", help="Replace one value."
)
def command(
    *,
    to: str,
    graph: Path | None,
    gpus: int | None,
    hb_size: int | None,
    output: Path | None,
    overrides: tuple[str, ...],
    **question: object,
) -> None:
    """Write a fabric, port to port, in the format of another tool.

    \b
    Examples:
      netplan export --gpus 1024 --radix 32 --hb-size 8 --to graphml -o fabric.graphml
      netplan export --gpus 4096 --radix 64 --fabric torus-3d --hb-size 1 --to astra-sim
      netplan export --graph fabric.graphml --to edges -o cables.csv
    """
    from netplan.questions.export import convert, export
    from netplan.questions.inputs import parse_overrides

    if graph is not None:
        emit_lines(convert(graph, to=to, hb_size=hb_size), output)
        return
    if gpus is None:
        raise click.UsageError("Missing option '--gpus', or '--graph' to convert a file.")
    lines = export(
        to=to,
        gpus=gpus,
        hb_size=hb_size,
        overrides=parse_overrides(overrides),
        **question,  # type: ignore[arg-type]
    )
    emit_lines(lines, output)

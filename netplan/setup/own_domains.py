"""Graphs of somebody's own whose files leave HB domains out."""

from pathlib import Path

from netplan.errors import InputError
from netplan.setup.question import AnyQuestion
from netplan.topologies.expand import expand, lacks_domains, switched_domain_size, with_domains
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FabricSpec
from netplan.units import si
from netplan.workloads.accelerators import ACCELERATORS, Accelerator


def with_own_domains(
    graph: FabricGraph, path: Path, on: Accelerator
) -> tuple[FabricGraph, tuple[str, ...]]:
    """A graph that was read with the HB domains of an accelerator, if it has none; a note on them.

    Parameters
    ----------
    graph, path
        The graph, and its file.
    on
        Whose HB bandwidth the domains get.
    """
    if not lacks_domains(graph):
        return graph, ()
    note = (
        f"{path} has no links inside HB domains: each of {graph.hb_size:,} GPUs, in the order of"
        f" their names, has a switch at {si(on.hb_bytes_per_s, 'B/s')} a GPU, as {on.name} has it;"
        " --accelerator gives others."
    )
    return with_domains(graph, on.hb_bytes_per_s), (note,)


def asked_graph(asked: AnyQuestion, on: Accelerator) -> tuple[FabricGraph, tuple[str, ...]]:
    """Somebody's own graph, of the file that is asked for, at the rates that are found; notes."""
    from netplan.topologies.formats.graph_files import read_graph

    path = Path(str(asked.cluster.graph))
    read = read_graph(path, hb_size=asked.cluster.hb_size)
    graph, notes = with_own_domains(read, path, on)
    return graph.as_found(asked.cluster.as_found), notes


def graph_of_run(
    asked: AnyQuestion, spec: FabricSpec, sizing: Sizing
) -> tuple[FabricGraph, tuple[str, ...]]:
    """The links of a run that is planned on a fabric: its own, or those of a file; notes.

    Parameters
    ----------
    asked
        The question.
    spec, sizing
        The fabric.

    Raises
    ------
    InputError
        If the file has fewer GPUs than the run, or other HB domains.
    """
    if asked.cluster.graph is None:
        return expand(spec, sizing), ()
    from netplan.topologies.formats.graph_files import read_graph

    path = Path(asked.cluster.graph)
    read = read_graph(path, hb_size=sizing.hb_size)
    if read.gpus < sizing.gpus:
        raise InputError(f"--graph {path} has {read.gpus:,} GPUs, --gpus {sizing.gpus:,}")
    if (size := switched_domain_size(read)) not in (0, sizing.hb_size):
        raise InputError(
            f"--graph {path} has HB domains of {size:,} GPUs, and the run is planned on domains"
            f" of {sizing.hb_size:,}: give --hb-size {size}"
        )
    on = asked.reader().load(ACCELERATORS, asked.cluster.accelerator)
    graph, notes = with_own_domains(read, path, on)
    return graph.as_found(sizing.as_found), notes

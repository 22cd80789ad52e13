"""Graphs of somebody's own whose files leave HB domains out."""

from pathlib import Path

from netplan.topologies.expand import lacks_domains, with_domains
from netplan.topologies.graph import FabricGraph
from netplan.units import si
from netplan.workloads.accelerators import Accelerator


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

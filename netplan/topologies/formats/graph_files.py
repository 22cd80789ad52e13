"""Somebody's graph from a file, whose format is told by what it holds."""

from collections.abc import Callable, Mapping
from pathlib import Path

from netplan.errors import InputError
from netplan.topologies.formats.edge_list import read_edge_list
from netplan.topologies.formats.graphml import read_graphml
from netplan.topologies.formats.infiniband import read_ibnetdiscover, read_topo
from netplan.topologies.formats.kinds import CSV, GRAPHML, SUBNET, TOPO, kind_of
from netplan.topologies.graph import FabricGraph

READERS: Mapping[str, Callable[..., FabricGraph]] = {
    GRAPHML: read_graphml,
    CSV: read_edge_list,
    TOPO: read_topo,
    SUBNET: read_ibnetdiscover,
}


def read_graph(
    path: Path, *, hb_size: int | None = None, otherwise: int | None = None
) -> FabricGraph:
    """Read somebody's graph; its format is told by what the file holds.

    Parameters
    ----------
    path
        ``.graphml``, ``.csv`` (edge list), ``.topo`` (ibdiagnet) or ``.ibnetdiscover``.
    hb_size, otherwise
        GPUs per HB domain, whatever the file says, or where it says nothing; else 1 [1].

    Raises
    ------
    InputError
        If neither content nor ending tells the format.
    CatalogError
        If the file is malformed: file and line.
    """
    reader = READERS.get(kind_of(path))
    if reader is None:
        endings = ", ".join(READERS)
        raise InputError(f"{path}: unknown kind of graph: name it with one of {endings}")
    return reader(path, hb_size=hb_size, otherwise=otherwise)

"""A fabric, or somebody's graph of one, in the file formats of other tools."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from netplan.errors import InputError
from netplan.questions.inputs import CatalogReader, sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.formats.dot import dot_lines
from netplan.topologies.formats.edge_list import edge_list_lines, read_edge_list
from netplan.topologies.formats.graphml import graphml_lines, read_graphml
from netplan.topologies.formats.ibnetdiscover import read_ibnetdiscover
from netplan.topologies.formats.infiniband_topo import read_topo, topo_lines
from netplan.topologies.formats.simulators import astra_sim_network, simai_lines
from netplan.topologies.formats.slurm import slurm_lines
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS

WRITERS: Mapping[str, Callable[[FabricGraph], Iterable[str]]] = {
    "graphml": graphml_lines,
    "dot": dot_lines,
    "edges": edge_list_lines,
    "simai": simai_lines,
    "topo": topo_lines,
    "slurm": slurm_lines,
}
FORMATS = (*WRITERS, "astra-sim")

READERS: Mapping[str, Callable[..., FabricGraph]] = {
    ".graphml": read_graphml,
    ".csv": read_edge_list,
    ".topo": read_topo,
    ".ibnetdiscover": read_ibnetdiscover,
}


def export(  # noqa: PLR0913 - one keyword an input, as on the command line
    *,
    to: str,
    gpus: int,
    radix: int,
    fabric: str = "rail-only",
    hb_size: int | None = None,
    accelerator: str = "gh200-96gb",
    oversubscription: float | None = None,
    catalog: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Iterable[str]:
    """Lines of a fabric in another tool's format.

    Parameters
    ----------
    to
        ``graphml``, ``dot``, ``edges`` (CSV), ``simai`` (also ns-3), ``topo`` (ibdiagnet),
        ``slurm`` (topology.conf) or ``astra-sim`` (network YAML, from the levels).
    gpus, radix, fabric, hb_size, accelerator, oversubscription, catalog, overrides
        As in :func:`netplan.compare`, for one fabric.

    Raises
    ------
    InputError
        If an input is not allowed, or the fabric has no levels to write for ASTRA-sim.

    Examples
    --------
    >>> lines = export(to="slurm", gpus=64, radix=8, hb_size=8, fabric="fat-tree")
    >>> print(next(iter(lines)).strip())
    SwitchName=s1-0 Nodes=node0
    """
    reader = CatalogReader(catalog, overrides)
    on, spec = reader.load(ACCELERATORS, accelerator), reader.load(FABRICS, fabric)
    reader.replaced()
    sizing = sizing_on(
        on, gpus=gpus, radix=radix, hb_size=hb_size, oversubscription=oversubscription
    )
    if to == "astra-sim":
        built = build_fabric(spec, sizing)
        if not built.levels:
            raise InputError(f"{spec.name} has no levels in this size: ASTRA-sim cannot take it")
        return astra_sim_network(built.levels).splitlines()
    return WRITERS[to](expand(spec, sizing))


def read_graph(path: Path, *, hb_size: int | None = None) -> FabricGraph:
    """Read somebody's graph; its format is told by the ending of the name.

    Parameters
    ----------
    path
        ``.graphml``, ``.csv`` (edge list), ``.topo`` (ibdiagnet) or ``.ibnetdiscover``.
    hb_size
        GPUs per HB domain; what the file says, or 1, if absent [1].

    Raises
    ------
    InputError
        If the ending is unknown.
    CatalogError
        If the file is malformed: file and line.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        endings = ", ".join(READERS)
        raise InputError(f"{path}: unknown kind of graph: name it with one of {endings}")
    return reader(path) if hb_size is None else reader(path, hb_size=hb_size)


def convert(path: Path, *, to: str, hb_size: int | None = None) -> Iterable[str]:
    """Lines of somebody's graph in another tool's format; parameters as above.

    Raises
    ------
    InputError
        If the format needs the levels of a fabric spec, or the ending is unknown.
    """
    if to not in WRITERS:
        raise InputError(f"{to} is written from a fabric's levels, not from a graph: use --fabric")
    return WRITERS[to](read_graph(path, hb_size=hb_size))

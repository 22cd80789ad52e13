"""Loads of a given traffic matrix, on a fabric of the catalog or on somebody's own graph."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from netplan.errors import InputError
from netplan.questions.export import read_graph
from netplan.questions.inputs import CatalogReader, sizing_on
from netplan.reports.text import Cell
from netplan.topologies.expand import expand
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS
from netplan.traffic.cuts import Collective, collective_bound_s
from netplan.traffic.loads import GroupLoad, HotLink, LinkLoads
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.matrix_files import load_csv, load_npz
from netplan.traffic.routing import Routing, link_loads
from netplan.version import __version__
from netplan.workloads.accelerators import ACCELERATORS

BOUND_BYTES = 1e9
MAX_ALL_TO_ALL_GPUS = 64


@dataclass(frozen=True, slots=True)
class MatrixLoads:
    """Loads of a matrix on a graph.

    Parameters
    ----------
    inputs
        The question.
    graph, matrix, link_loads
        What carries what, and the outcome.
    groups, hottest
        Loads by group of links, and the most loaded links.
    bounds_s
        Least time of collectives of 1 GB over all GPUs, by name, where they were asked for [s].
    """

    inputs: dict[str, Any]
    graph: FabricGraph
    matrix: TrafficMatrix
    link_loads: LinkLoads
    groups: tuple[GroupLoad, ...]
    hottest: tuple[HotLink, ...]
    bounds_s: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan loads --matrix … --format json``."""
        return {
            "netplan_version": __version__,
            "inputs": self.inputs,
            "total_bytes": self.matrix.total_bytes,
            "links": self.graph.link_count,
            "unused_links": len(self.link_loads.unused_links),
            "busiest_s": self.link_loads.busiest_s,
            "groups": self.to_rows(),
            "hottest": [asdict(link) for link in self.hottest],
            "bounds_s": self.bounds_s,
        }

    def to_rows(self) -> list[dict[str, Cell]]:
        """One flat row a group of links."""
        return [asdict(group) for group in self.groups]


def matrix_loads(  # noqa: PLR0913 - one keyword an input, as on the command line
    matrix: Path,
    graph: FabricGraph,
    *,
    inputs: Mapping[str, Any],
    routing: Routing = "auto",
    hot: int = 5,
    seed: int = 0,
    bounds: bool = False,
) -> MatrixLoads:
    """Route a saved matrix over a graph.

    Parameters
    ----------
    matrix
        ``.npz`` or ``.csv`` (listed flows) of exactly the graph's GPUs.
    graph
        The fabric.
    inputs
        What was asked, for the answer.
    routing, hot, seed
        As in :func:`netplan.loads`.
    bounds
        Whether to bound collectives over all GPUs by max-flow (at most 1,024 GPUs).

    Raises
    ------
    InputError
        If the matrix is of another size, a link that carries traffic has no capacity, or a path
        is missing.
    """
    traffic = load_matrix(matrix, graph.gpus)
    found = link_loads(graph, traffic, routing=routing, rng=np.random.default_rng(seed))
    asked = {**inputs, "matrix": str(matrix), "routing": routing, "seed": seed}
    least = _bounds(graph) if bounds else {}
    return MatrixLoads(asked, graph, traffic, found, found.by_group(), found.hottest(hot), least)


def _bounds(graph: FabricGraph) -> dict[str, float]:
    """Least time of collectives of 1 GB; an all_to_all only where its exact program is small."""
    names: tuple[Collective, ...] = ("all_gather", "reduce_scatter", "all_reduce")
    if graph.gpus <= MAX_ALL_TO_ALL_GPUS:
        names += ("all_to_all",)
    return {name: collective_bound_s(name, graph, BOUND_BYTES) for name in names}


def load_matrix(path: Path, gpus: int) -> TrafficMatrix:
    """Read a saved matrix.

    Raises
    ------
    InputError
        If the ending is unknown, or the matrix is for another number of GPUs.
    """
    if path.suffix == ".npz":
        return load_npz(path, gpus)
    if path.suffix == ".csv":
        return load_csv(path, gpus)
    raise InputError(f"--matrix {path}: name it .npz or .csv")


def graph_of_file(path: Path, hb_size: int | None) -> tuple[FabricGraph, dict[str, Any]]:
    """Somebody's graph, and the inputs that describe it."""
    graph = read_graph(path, hb_size=hb_size)
    return graph, {"graph": str(path), "hb_size": graph.hb_size}


def graph_of_fabric(  # noqa: PLR0913 - one keyword an input, as on the command line
    *,
    gpus: int,
    radix: int,
    fabric: str,
    hb_size: int | None,
    accelerator: str,
    oversubscription: float | None,
    catalog: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
) -> tuple[FabricGraph, dict[str, Any]]:
    """Graph of a fabric of the catalog, and the inputs that describe it."""
    reader = CatalogReader(catalog, overrides)
    on, spec = reader.load(ACCELERATORS, accelerator), reader.load(FABRICS, fabric)
    sizing = sizing_on(
        on, gpus=gpus, radix=radix, hb_size=hb_size, oversubscription=oversubscription
    )
    inputs = {
        "gpus": gpus,
        "radix": radix,
        "fabric": fabric,
        "hb_size": sizing.hb_size,
        "accelerator": accelerator,
        "oversubscription": oversubscription,
        "set": reader.replaced(),
    }
    return expand(spec, sizing), inputs

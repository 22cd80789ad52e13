"""The graph of a fabric of family graph: from its file or function, cut to the GPUs asked for.

GPUs take part in the order of their numbers; the others of a file are idle places, which have no
links. HB domains are what the file has inside them: GPUs that its links of group ``hb`` join. They
are numbered one after the other, all of one size, the last one perhaps partly filled.
"""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.records import replace
from netplan.topologies.fabric import MIN_GPUS, Sizing
from netplan.topologies.formats.draft import Draft, DraftLink, node_kind, number_draft
from netplan.topologies.formats.edge_list import kind_of_name
from netplan.topologies.formats.graph_files import read_graph
from netplan.topologies.graph import (
    HB_SWITCH,
    MEMORY,
    SWITCH,
    FabricGraph,
    connected_parts,
    joined_gpus,
)
from netplan.topologies.own.functions import FUNCTIONS
from netplan.topologies.specs import FabricSpec
from netplan.units import bytes_per_s, counted

if TYPE_CHECKING:
    import networkx as nx


def own_graph(spec: FabricSpec, sizing: Sizing) -> FabricGraph:
    """The graph of a spec with the GPUs that are asked for, each in its HB domain.

    Links inside HB domains are there if the file has them.

    Raises
    ------
    InputError
        If the graph holds fewer GPUs, its HB domains are of several sizes, or the GPUs asked for do
        not hang together.
    CatalogError
        If the file cannot be read as a graph.
    """
    whole = spec.whole_graph(sizing)
    if whole.gpus < MIN_GPUS:
        raise InputError(
            f"{spec.name}: the graph holds {counted(whole.gpus, 'GPU')}, and clusters of"
            f" {MIN_GPUS} or more are planned: take a graph with more GPUs; netplan draw --graph"
            " draws this one"
        )
    if sizing.gpus > whole.gpus:
        raise InputError(
            f"{spec.name}: the graph holds {whole.gpus:,} GPUs, got {sizing.gpus:,}: give --gpus"
            f" {whole.gpus:,} or fewer, or a graph with more"
        )
    return _first_gpus(spec, whole, sizing.gpus)


MADE_AT_ONCE = 32
"""Sizings whose graphs of functions are kept, two for each of the last fabrics [1]."""
_MADE: dict[tuple[int, Sizing], FabricGraph] = {}


def graph_from_function(name: str, sizing: Sizing) -> FabricGraph:
    """What a function makes, which is asked once: it may draw at random."""
    if name not in FUNCTIONS:
        raise InputError(f"{name}: family: graph needs a file, the graph to take")
    function = FUNCTIONS[name]
    key = function.number, sizing
    if key not in _MADE:
        made = function.make(sizing)
        if not isinstance(made, FabricGraph):
            made = _from_networkx(name, made, sizing)
        _keep(key, _checked(name, made))
    return _MADE[key]


def keep_for(spec: FabricSpec, asked: Sizing, in_force: Sizing) -> None:
    """Let the graph that a function made for a sizing stand for the fabric's own sizing, too.

    That has the rate of the graph's ports, which a function asked anew would take for its links.
    """
    function = None if getattr(spec, "file", "") else FUNCTIONS.get(spec.name)
    made = None if function is None else _MADE.get((function.number, asked))
    if function is not None and made is not None:
        _keep((function.number, in_force), made)


def _keep(key: tuple[int, Sizing], graph: FabricGraph) -> None:
    """Keep a graph in place of the oldest one."""
    _MADE.pop(key, None)
    while len(_MADE) >= MADE_AT_ONCE:
        del _MADE[next(iter(_MADE))]
    _MADE[key] = graph


@lru_cache(maxsize=4)
def graph_from_file(
    file: str,
    stamp: tuple[int, ...],  # noqa: ARG001 - in the key
    hb_size: int | None,
    otherwise: int,
) -> FabricGraph:
    """The graph of a file, read once a version."""
    return _checked(file, read_graph(Path(file), hb_size=hb_size, otherwise=otherwise))


def _from_networkx(name: str, made: object, sizing: Sizing) -> FabricGraph:
    """A graph of networkx; edges without a rate have that of a network port of the GPU."""
    if not (hasattr(made, "nodes") and hasattr(made, "edges")):
        raise InputError(
            f"function {name} gave a {type(made).__name__}: return a networkx.Graph whose nodes"
            " have a kind (gpu, switch), or a FabricGraph"
        )
    view: nx.MultiGraph[object] = made
    draft = Draft(Path(f"function {name}"))
    for number, (node, data) in enumerate(view.nodes(data=True), 1):
        given = data.get("kind")
        kind = kind_of_name(str(node)) if given is None else node_kind(draft, number, str(given))
        tier = data.get("tier")
        draft.add_node(str(node), kind, number, None if tier is None else int(_real(name, tier)))
    for number, (a, b, data) in enumerate(view.edges(data=True), 1):
        rate = data.get("bytes_per_s", sizing.network_bytes_per_s)
        rate = bytes_per_s(_real(name, data["gbps"])) if "gbps" in data else _real(name, rate)
        draft.add_link(
            DraftLink(
                str(a), str(b), rate, number, length=data.get("length"), group=data.get("group")
            )
        )
    hb_size = view.graph.get("hb_size")
    return number_draft(draft, name, hb_size, otherwise=sizing.hb_size)


def _real(name: str, value: object) -> float:
    """A number of an attribute."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(
            f"function {name}: got {value!r:.40} for a rate or tier: give a number"
        ) from None


def _checked(name: str, graph: FabricGraph) -> FabricGraph:
    """The graph with HB domains in blocks of GPUs, all of one size but the last."""
    if (graph.node_kind == MEMORY).any():
        raise InputError(f"{name}: memories stand on wafers (family: tiles), not in graphs")
    if (graph.node_tier[graph.node_kind == SWITCH] < 1).any():
        raise InputError(f"{name}: a switch stands in tier 1 or above: leave tiers out of the file")
    if not graph.has("hb"):
        return graph
    inside = graph.links_with("hb")
    ends = graph.source[inside], graph.target[inside]
    part = connected_parts(graph.node_count, *ends)[: graph.gpus]
    part = np.unique(part, return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(part)
    size = int(sizes.max())
    last = int(np.argmin(sizes))
    if (np.delete(sizes, last) != size).any():
        several = ", ".join(f"{number:,}" for number in np.unique(sizes)[:4].tolist())
        raise InputError(
            f"{name}: HB domains of {several} GPUs: netplan counts on one size, and a last domain"
            " perhaps partly filled"
        )
    if sizes[last] < size:
        part[part == last] = len(sizes)
    return replace(_in_order(graph, np.argsort(part, kind="stable")), hb_size=size)


def _in_order(graph: FabricGraph, order: Ints) -> FabricGraph:
    """The graph with its GPUs in another order."""
    gpus = graph.gpus
    if np.array_equal(order, np.arange(gpus)):
        return graph
    number = np.arange(graph.node_count, dtype=np.int32)
    number[order] = np.arange(gpus, dtype=np.int32)
    names = [graph.names[place] for place in order.tolist()]
    return replace(
        graph,
        names=(*names, *graph.names[gpus:]),
        source=number[graph.source],
        target=number[graph.target],
    )


def _first_gpus(spec: FabricSpec, graph: FabricGraph, gpus: int) -> FabricGraph:
    """The graph without its GPUs beyond the first ones, their links, and emptied HB switches."""
    if gpus == graph.gpus:
        return graph
    kept = np.ones(graph.node_count, bool)
    kept[gpus : graph.gpus] = False
    domain_switch = graph.node_kind == HB_SWITCH
    linked = kept[graph.source] & kept[graph.target]
    used = np.bincount(graph.source[linked], minlength=graph.node_count)
    used += np.bincount(graph.target[linked], minlength=graph.node_count)
    kept &= ~domain_switch | (used > 0)
    part_graph = graph.part(kept, linked)
    size = min(graph.hb_size, gpus)
    if joined_gpus(part_graph, slice(None), np.arange(gpus) // size).any():
        raise InputError(
            f"{spec.name}: its first {gpus:,} GPUs do not hang together without the others: give"
            f" --gpus {graph.gpus:,}, all of them"
        )
    return replace(part_graph, hb_size=size)

"""Tori as graphs: which ring and place each link belongs to, and the loads in its order.

With HB domains of K GPUs there are K tori side by side, one a rail; position d of rail r is GPU
d K + r. The sizes and whether rings are closed are read off the graph itself.
"""

from math import prod

import numpy as np
from numpy.typing import NDArray

from netplan.errors import InputError
from netplan.topologies.demand import Leg, no_leg
from netplan.topologies.graph import FabricGraph
from netplan.topologies.products import Floats
from netplan.topologies.routing_torus import (
    MINUS,
    PLUS,
    Torus,
    dimension_order,
    minimal_adaptive,
)
from netplan.topologies.routing_torus_groups import group_dimension_order

RING = "ring "


def torus_of_graph(graph: FabricGraph) -> tuple[Torus, NDArray[np.int64]]:
    """Torus that a graph's rings form over all GPUs; axis of every link, -1 for others.

    The rails are the innermost axis of the returned torus, whose rings nobody travels.

    Raises
    ------
    InputError
        If the graph has no link groups ``ring 1 ...``, or its rings are not those of a torus.
    """
    names = [int(n.split()[1]) if n.startswith(RING) else 0 for n in graph.group_names]
    axis_of_link = np.array([*names, 0], np.int64)[graph.group]
    if not axis_of_link.any():
        raise InputError(f"{graph.name} has no rings: take routing 'ecmp' or 'auto'")
    sizes, closed = [graph.hb_size], True
    for axis in range(1, int(axis_of_link.max()) + 1):
        links = np.flatnonzero(axis_of_link == axis)
        steps = graph.target[links].astype(np.int64) - graph.source[links]
        stride = prod(sizes)
        if not len(links):
            sizes.append(1)
            continue
        back = -int(steps.min())
        closed = closed and (back > 0 or len(links) * 2 == graph.gpus)
        # The link back to the first member says how long a ring is. Without it every line has one
        # link less than members.
        lines = graph.gpus - len(links)
        sizes.append(back // stride + 1 if back > 0 else graph.gpus // max(1, lines))
        if not np.all((steps == stride) | (steps == -back)):
            raise InputError(f"{graph.name}: axis {axis} has rings of unequal members")
    if prod(sizes) != graph.gpus:
        shape = " x ".join(map(str, sizes[1:]))
        raise InputError(
            f"{graph.name}: rings of {shape} positions do not hold {graph.gpus:,} GPUs in HB"
            f" domains of {graph.hb_size}: a partly filled torus takes routing 'ecmp'"
        )
    return Torus(tuple(sizes), closed), axis_of_link


def torus_loads(graph: FabricGraph, leg: Leg, *, adaptive: bool = False) -> Floats:
    """Load of the ring links of a torus [B], shape (2, links); all others are 0.

    Parameters
    ----------
    graph
        The fabric.
    leg
        Traffic over the network, along rails.
    adaptive
        Minimal-adaptive instead of dimension order.

    Raises
    ------
    InputError
        As in :func:`torus_of_graph`, or as the routing does.
    """
    torus, axis_of_link = torus_of_graph(graph)
    route = minimal_adaptive if adaptive else dimension_order
    passed = np.zeros((len(torus.sizes), 2, graph.gpus))
    rail = Torus(torus.sizes[1:], torus.closed)
    for products in leg.products:
        whole = None if adaptive else group_dimension_order(rail, products, graph.hb_size)
        if whole is None:
            leg = leg.plus(no_leg(products).listed())
        else:
            passed[1:] += whole
    source, destination = leg.source.astype(np.int64), leg.destination.astype(np.int64)
    passed += route(torus, source, destination, leg.flow_bytes)
    if passed[0].any():
        raise InputError(f"{graph.name} joins equal ranks only: let HB domains forward the rest")
    loads = np.zeros((2, graph.link_count))
    for axis in range(1, len(torus.sizes)):
        links = np.flatnonzero(axis_of_link == axis)
        loads[0, links] = passed[axis, PLUS, graph.source[links]]
        loads[1, links] = passed[axis, MINUS, graph.target[links]]
    return loads

"""A traffic matrix on the links of a fabric, all of it at once: how long it takes.

=======  ===========================================================================================
booked   links are taken in turn: as long as the busiest of them has to carry, at least
fluid    links are shared max-min fairly, flow by flow (`netplan.simulation.fluid`)
=======  ===========================================================================================

Flows begin together; what hands bytes on does so as they come in, in pieces.
"""

import numpy as np

from netplan.arrays import Floats
from netplan.records import replace
from netplan.simulation.congestion import Contention, FabricLinks
from netplan.simulation.fair_rates import FlowLinks
from netplan.simulation.fluid import Messages, SharedLinks, classed, send
from netplan.traffic.matrix import TrafficMatrix

MOST_FLOWS = 1 << 20
"""Flows that are sent one by one: a minute or two [1]."""


def book_matrix(fabric: FabricLinks, matrix: TrafficMatrix) -> Contention:
    """The busiest link of a matrix, and how long it carries its bytes.

    Parameters
    ----------
    fabric
        Links, and how messages find their way.
    matrix
        What is sent.

    Returns
    -------
    Contention
        Its time, that of the links that end at a GPU alone, and what links carry.
    """
    carried = fabric.router.loads(matrix).link_bytes.ravel()
    time_s, alone_s = (
        float((carried / capacity).max(initial=0.0)) for capacity in _capacities(fabric)
    )
    flows = flows_of(matrix)
    return Contention(time_s, alone_s, carried, (carried > 0).astype(np.int64), flows, 0, flows)


def flows_of(matrix: TrafficMatrix) -> int:
    """Flows of a matrix, those of its groups too [1]."""
    return len(matrix.source) + sum(group.pair_count for group in matrix.groups)


def _capacities(fabric: FabricLinks) -> tuple[Floats, Floats]:
    """Of all links, and where only those bind that end at a GPU [B/s]."""
    return fabric.capacity, fabric.free


def share_matrix(
    fabric: FabricLinks, matrix: TrafficMatrix, *, seed: int = 0, check: bool = False
) -> Contention:
    """Time in which flows of a matrix that share links max-min fairly are all through.

    Parameters
    ----------
    fabric, matrix
        Links, and what is sent over them.
    seed
        Of hashed paths.
    check
        Compare exactly what has one colour.

    Returns
    -------
    Contention
        Its time, that of the links that end at a GPU alone, and what links carry.

    Examples
    --------
    Two GPUs send to a third one over rail-only: its link takes both.

    >>> from netplan import Scenario
    >>> from netplan.simulation.congestion import FabricLinks
    >>> from netplan.traffic.flow_paths import PathRouter
    >>> from netplan.traffic.matrix import flows_matrix
    >>> graph = Scenario.load("hgx-h100").replace(gpus=32, radix=16).fabric("rail-only").graph()
    >>> links = FabricLinks(PathRouter(graph, "auto"), np.tile(graph.bytes_per_s, 2), "split")
    >>> two = {"source": [0, 8], "destination": [16, 16], "flow_bytes": 50e9}
    >>> matrix = flows_matrix(32, **two, kind="other")
    >>> float(share_matrix(links, matrix).time_s), float(book_matrix(links, matrix).time_s)
    (2.0, 2.0)
    """
    listed = matrix.listed()
    source, target = listed.source, listed.destination
    sent = np.repeat(listed.flow_bytes / fabric.connections, fabric.connections)
    count, size = len(sent), 2 * fabric.graph.link_count
    if not count:
        return Contention(0.0, 0.0, np.zeros(size), np.zeros(size, np.int64), 0, 0, 0)
    paths = fabric.paths(source, target, seed)
    begins = np.searchsorted(paths.flow, np.arange(count + 1))
    rows = FlowLinks(begins, paths.code, paths.share)
    domain = fabric.graph.hb_size
    crosses = np.repeat(source // domain != target // domain, fabric.connections)
    inside_s, across_s = fabric.latency_s
    shared = SharedLinks(fabric.capacity, rows, np.ones(count), np.full(count, np.inf))
    messages = Messages(
        np.arange(count), sent, np.zeros(count), np.where(crosses, across_s, inside_s), [()] * count
    )
    few, few_sent, capacities, classes = shared, messages, _capacities(fabric), count
    if fabric.way == "split":
        few, few_sent, alike = classed(shared, messages, capacities, check=check)
        capacities = fabric.capacity[alike.links], fabric.free[alike.links]
        classes = len(alike.flows)
    deliveries = [send(replace(few, capacity=capacity), few_sent) for capacity in capacities]
    time_s, alone_s = (float(delivery.finish_s.max()) for delivery in deliveries)
    return Contention(
        time_s,
        alone_s,
        rows.carried(sent, size),
        np.bincount(paths.code, minlength=size),
        count,
        sum(delivery.solves for delivery in deliveries),
        classes,
    )

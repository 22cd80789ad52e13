"""Shortest paths to many destinations at once, and traffic that splits over them at every hop.

The work goes from the destinations outwards: a hop a round, until all nodes are found. Then what is
bound there comes back in, from the farthest nodes, meeting and splitting on its way. No path is
ever listed. Nodes are rows, destinations columns, so that a round is one product of a sparse matrix
of arcs, which has weights, and a dense one.

Every node sends to every destination here, as between switches. Where few nodes send to each, as
GPUs do, or a flow takes one path alone, `netplan.traffic.routing_ecmp` keeps a bit for a node and
destination where this keeps numbers, and stops as soon as all senders are found.

At every hop traffic splits over the arcs that lead nearer, by their weights (parallel links count
as many), or by the number of shortest paths behind each of them: then all paths carry alike.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from netplan.arrays import AnyInts, Bools, Floats

Matrix = Any
"""A sparse matrix of scipy, which has no types."""


SplitLayer = tuple[Bools, Floats]
"""Nodes that are so many hops from each destination, shape (nodes, destinations).

Whether a node is there, and what each node there that passes traffic on counts, over others: 1, or
its shortest paths; 0 of all other nodes [1].
"""


def rounds_from(
    arcs: Matrix, targets: AnyInts, *, forwards: Bools | None = None, by_paths: bool = False
) -> list[SplitLayer]:
    """Nodes that are 0, 1, 2 ... hops from each destination.

    Parameters
    ----------
    arcs
        Weights between nodes, alike there and back, shape (nodes, nodes).
    targets
        Destinations, shape (destinations,).
    forwards
        Whether a node passes on traffic of others, shape (nodes,); None says that all do.
    by_paths
        Whether nodes count by their shortest paths, else alike.

    Examples
    --------
    On a square both neighbours are one hop away, and two paths lead to the node beyond.

    >>> from scipy.sparse import csr_array
    >>> square = csr_array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
    >>> found = rounds_from(square, np.array([0]), by_paths=True)
    >>> [passing[:, 0].tolist() for _, passing in found]
    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 2.0, 0.0]]
    """
    passing = np.zeros((arcs.shape[0], len(targets)))
    passing[targets, np.arange(len(targets))] = 1.0
    here = passing > 0
    seen = here.copy()
    layers = [(here, passing)]
    while passing.any():
        ways = arcs @ passing
        here = (ways > 0) & ~seen
        if not here.any():
            break
        seen |= here
        passing = ways * here if by_paths else here.astype(float)
        if forwards is not None:
            passing *= forwards[:, None]
        layers.append((here, passing))
    return layers


def propagate_demand(
    arcs: Matrix, rounds: list[SplitLayer], coming: Floats
) -> Iterator[tuple[Floats, Floats]]:
    """Send traffic inwards, hop by hop from the farthest nodes; yields ``each`` and ``near``.

    An arc of weight w from node a to node b carries w ``each[a]`` ``near[b]`` of each column.
    ``coming`` is what nodes send to the destinations, shape (nodes, destinations) [B], or several
    such beside each other, shape (nodes, kinds x destinations); it is used up. ``each`` has its
    shape; ``near`` is that of any kind, shape (nodes, destinations).

    Examples
    --------
    On a square half of a byte goes either way; the last hops come last.

    >>> from scipy.sparse import csr_array
    >>> square = csr_array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
    >>> sent, rounds = np.array([[0.0], [0.0], [1.0], [0.0]]), rounds_from(square, np.array([0]))
    >>> hops = propagate_demand(square, rounds, sent)
    >>> [(each @ near.T).max(axis=1).tolist() for each, near in hops]
    [[0.0, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5]]
    """
    nodes, destinations = rounds[0][0].shape
    kinds = coming.reshape(nodes, coming.shape[1] // max(1, destinations), destinations)
    for hops in range(len(rounds) - 1, 0, -1):
        (_, near), (here, _) = rounds[hops - 1 : hops + 1]
        leading = arcs @ near
        share = np.divide(here, leading, out=np.zeros_like(near), where=leading > 0)
        shares = (kinds * share[:, None]).reshape(coming.shape)
        if not shares.any():
            continue
        yield shares, near
        if hops > 1:
            kinds += near[:, None] * (arcs @ shares).reshape(kinds.shape)

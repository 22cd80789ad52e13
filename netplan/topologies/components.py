"""Which nodes of a graph hang together, without a graph library."""

import numpy as np
from numpy.typing import NDArray


def connected_components(
    node_count: int, source: NDArray[np.int32], target: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Label every node by the lowest node number that it can reach.

    Labels sink along links, and from label to label, until nothing moves: about log(diameter)
    rounds.

    Parameters
    ----------
    node_count
        Nodes [1].
    source, target
        Ends of each link, shape (links,).

    Returns
    -------
    NDArray
        Label of each node, shape (nodes,).

    Examples
    --------
    >>> ends = np.array([0, 3, 4], np.int32), np.array([2, 4, 1], np.int32)
    >>> connected_components(6, *ends)
    array([0, 1, 0, 1, 1, 5])
    """
    label = np.arange(node_count)
    while True:
        before = label.copy()
        lowest = np.minimum(label[source], label[target])
        # A label is itself a node: lower the labels of the labels, then look one step further.
        np.minimum.at(label, before[source], lowest)
        np.minimum.at(label, before[target], lowest)
        label = label[label]
        if np.array_equal(label, before):
            return label

"""Cuts across the rings of a torus: runs of slabs, wherever they begin and end.

All nodes at one position of an axis are a slab. Each run of slabs, up to half of the ring, is a
block: a wrapped ring is cut in two at any two positions, so that links lost together are seen
wherever they are. What leaves run I of a matrix M between slabs is

    sum of M[s, t] over s in I, t not in I  =  sum over rows of I  -  sum over I x I,

for all runs at once by sums along both axes.
"""

import numpy as np
from msgspec import Struct
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.sparse import csr_array

from netplan.arrays import Bools, Floats, Ints
from netplan.faults.damage import network_links
from netplan.topologies.graph import FabricGraph
from netplan.traffic.demand import Leg, Products
from netplan.traffic.matrix import sum_by

ROUNDING = 1e-12
"""Part of all amounts that sums may be wrong by [1]."""


def out_of_runs(matrix: Floats) -> Floats:
    """What leaves each run of 1, 2, ... up to half of all slabs, shape (lengths, slabs).

    Run (l, s) has l + 1 slabs, of which s is the first.

    Parameters
    ----------
    matrix
        What goes from each slab to each other, shape (slabs, slabs).

    Examples
    --------
    Four slabs that send one to the next one each: so does any run.

    >>> out_of_runs(np.roll(np.eye(4), 1, axis=1)).tolist()
    [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """
    slabs = len(matrix)
    twice = np.zeros((2 * slabs + 1, 2 * slabs + 1))
    twice[1:, 1:] = np.tile(matrix, (2, 2)).cumsum(axis=0).cumsum(axis=1)
    first = np.arange(slabs)
    last = first + 1 + np.arange(slabs // 2)[:, None]
    rows = twice[last, slabs] - twice[first, slabs]
    inside = twice[last, last] - twice[first, last] - twice[last, first] + twice[first, first]
    out: Floats = rows - inside
    # What is rounded off is nothing, or a cut without links would seem to have some.
    return np.where(out > ROUNDING * matrix.sum(), out, 0.0)


class Slabs(Struct, frozen=True, eq=False):
    """The slabs along one axis, which hold whole HB domains.

    Parameters
    ----------
    label
        Position of each node, shape (nodes,).
    slabs
        How many there are [1].
    links
        Network links between slabs, shape (links,).
    """

    label: Ints
    slabs: int
    links: Ints

    @classmethod
    def of(cls, graph: FabricGraph, label: Ints) -> "Slabs":
        """Slabs of nodes with the same number."""
        apart = (label[graph.source] != label[graph.target]) & network_links(graph)
        return cls(label, int(label.max()) + 1, np.flatnonzero(apart))

    @property
    def whole(self) -> Bools:
        """Whether a run holds whole HB domains, shape (lengths, slabs)."""
        return np.ones((self.slabs // 2, self.slabs), bool)

    def capacity(self, graph: FabricGraph, live: Bools) -> Floats:
        """Capacity of the live links out of each run, one way [B/s], shape (lengths, slabs)."""
        links = self.links[live[self.links]]
        ends = self.label[graph.source[links]], self.label[graph.target[links]]
        one_way = self._between(*ends, graph.bytes_per_s[links])
        return out_of_runs(one_way + one_way.T)

    def crossing(self, leg: Leg, gpus: int) -> Floats:
        """Bytes that leave each run or enter it, whichever is more [B], shape (lengths, slabs)."""
        label = self.label[:gpus]
        amount = self._between(label[leg.source], label[leg.destination], leg.flow_bytes)
        for products in leg.products:
            amount += self._of_products(products, label[products.gpu])
        return np.maximum(out_of_runs(amount), out_of_runs(amount.T))

    def worst(self, pace: Floats) -> Floats:
        """Pace of the worst run that each slab is in [1], of those of all runs, shape (slabs,)."""
        found = np.ones(self.slabs)
        for length in np.flatnonzero((pace < 1).any(axis=1)).tolist():
            # A slab is in the runs that begin with it, or up to `length` slabs before.
            begin = np.append(pace[length, self.slabs - length :], pace[length])
            found = np.minimum(found, sliding_window_view(begin, length + 1).min(axis=1))
        return found

    def _between(self, source: Ints, target: Ints, amount: Floats) -> Floats:
        """Amounts from each slab to each other, shape (slabs, slabs)."""
        found = sum_by(source * self.slabs + target, amount, self.slabs**2)
        return found.reshape(self.slabs, self.slabs)

    def _of_products(self, products: Products, slab: Ints) -> Floats:
        """Bytes between slabs; what exchanges nothing is in one HB domain, and so in one slab."""
        label = np.unique(products.label, return_inverse=True)[1]
        shape = (int(label.max(initial=-1)) + 1, self.slabs)
        sent, received = (
            csr_array((share, (label, slab)), shape=shape)
            for share in (products.out_share, products.in_share)
        )
        found: NDArray[np.float64] = products.pair_bytes * (sent.T @ received).toarray()
        return found

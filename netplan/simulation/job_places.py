"""Where jobs stand: leaves of nodes of GPUs, and policies that choose among what is free.

A node is an HB domain. A job of at most its GPUs takes a part of one; a larger one whole nodes, the
last of which may be lost to others in part. Ties go to the lowest number.

=========  ===============================  ====================================================
policy     small job                        larger job
=========  ===============================  ====================================================
packed     fullest node that fits           leaf with the fewest free nodes that holds the rest;
                                            if none does, all of the leaf with the most, again
scattered  emptiest leaf, emptiest node     node by node, of the leaf with the most free nodes
first      lowest node                      lowest free nodes
random     any that fits                    any free nodes
pod        packed in the pod with the       the same; if no pod holds it, pods are packed as leaves
           fewest free nodes that holds it  are, and leaves within each
rail       as pod, in rail groups, which    the same
           are leaves
domain     as packed                        as packed, under one leaf, or it waits
=========  ===============================  ====================================================

Where nodes have several sizes a job takes nodes of one: of the sizes with room that which loses the
fewest GPUs in the last node, then the one with the fewest nodes, then the smallest. Policies of a
torus stand in `netplan.simulation.job_boxes`.
"""

from random import Random
from typing import Literal, get_args

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError

LeafPolicy = Literal["packed", "scattered", "first", "random", "pod", "rail", "domain"]
PlacementPolicy = Literal[LeafPolicy, "cube", "cube-ocs"]
"""How places are chosen."""

POLICIES: tuple[LeafPolicy, ...] = get_args(LeafPolicy)
IN_BOXES: tuple[PlacementPolicy, ...] = ("cube", "cube-ocs")
"""Policies of a torus, whose jobs have links of their own."""

IN_PODS = ("pod", "rail")


class JobPlace(Struct, frozen=True, eq=False):
    """Where a job stands.

    Parameters
    ----------
    nodes
        Numbers of its nodes, leaf by leaf, shape (nodes,).
    gpus
        That it takes of each [1].
    leaves, nodes_a_leaf
        The leaves that it stands on, and how many of its nodes there, shape (leaves,) [1].
    """

    nodes: Ints
    gpus: int
    leaves: Ints
    nodes_a_leaf: Ints


class Occupancy:
    """GPUs of a cluster that are free.

    Examples
    --------
    >>> cluster = Occupancy(leaves=2, nodes=2, gpus=8)
    >>> cluster.take(cluster.place(4))
    >>> cluster.place(24).nodes.tolist(), cluster.place(4).nodes.tolist(), cluster.place(32)
    ([1, 2, 3], [0], None)
    """

    def __init__(  # noqa: PLR0913 - a cluster, and how jobs are put on it
        self,
        leaves: int,
        nodes: int,
        gpus: int,
        policy: PlacementPolicy = "packed",
        seed: int = 0,
        *,
        present: Bools | None = None,
        pods: Ints | None = None,
    ) -> None:
        """All GPUs are free.

        Parameters
        ----------
        leaves, nodes, gpus
            Leaves, nodes a leaf, GPUs a node [1].
        policy
            How places are chosen.
        seed
            Of random places.
        present
            Which nodes there are, where leaves are not alike, shape (leaves, nodes).
        pods
            Pod of every leaf; all in one if None, shape (leaves,).
        """
        if min(leaves, nodes, gpus) < 1:
            raise InputError(
                f"a cluster has leaves, nodes and GPUs, got {leaves:,} leaves of {nodes:,} nodes of"
                f" {gpus:,} GPUs"
            )
        if policy not in POLICIES:
            raise InputError(f"no policy places jobs {policy!r}: give {', '.join(POLICIES)}")
        self.nodes, self.gpus = nodes, gpus
        there = np.ones((leaves, nodes), bool) if present is None else present
        self.free = np.where(there, gpus, 0)
        self.whole = there.sum(axis=1)
        self._absent = np.flatnonzero(~there)
        self._pods = np.zeros(leaves, np.int64) if pods is None else pods
        if policy == "rail":
            self._pods = np.arange(leaves)
        self.used = self.broken = 0
        self.kinds: tuple[Occupancy, ...] = (self,)
        """The nodes of each size, the smallest first."""
        self.kind_of_node = np.zeros(self.free.size, np.int64)
        """Number of the size of each node."""
        self._policy = policy
        self._random = Random(seed)  # noqa: S311 - places, no secrets

    @property
    def node_count(self) -> int:
        """All nodes [1]."""
        return self.free.size - len(self._absent)

    @property
    def total(self) -> int:
        """All GPUs [1]."""
        return self.node_count * self.gpus

    def most(self, gpus: int) -> int:
        """GPUs that a job takes, lost rests too, in the empty cluster; 0 if it never fits.

        Parameters
        ----------
        gpus
            That it asks for [1].

        Returns
        -------
        int
            All GPUs of its nodes [1].
        """
        if gpus <= self.gpus:
            return gpus
        need = -(-gpus // self.gpus)
        there = self.node_count
        if self._policy == "domain":
            gone = np.bincount(self._absent // self.nodes, minlength=len(self.whole))
            there = int((self.nodes - gone).max())
        return need * self.gpus if need <= there else 0

    def nodes_of(self, gpus: Ints) -> Ints:
        """Whole nodes that jobs take; 0 of those that take a part of one.

        Parameters
        ----------
        gpus
            That each asks for, shape (jobs,) [1].

        Returns
        -------
        ndarray
            Shape (jobs,) [1].
        """
        return np.where(gpus <= self.gpus, 0, -(-gpus // self.gpus))

    def fits(self, gpus: Ints) -> Bools:
        """Whether jobs would find a place now, each alone.

        Parameters
        ----------
        gpus
            That each asks for, shape (jobs,) [1].

        Returns
        -------
        ndarray
            Shape (jobs,).
        """
        small = gpus <= self.gpus
        fitting: Bools = np.where(small, gpus <= self.free.max(), self.nodes_of(gpus) <= self._room)
        return fitting

    @property
    def _room(self) -> int:
        """Free nodes that one job can have [1]."""
        return int(self.whole.max() if self._policy == "domain" else self.whole.sum())

    def fits_after(self, gpus: int, nodes: Ints, given: Ints, ends_s: Floats) -> float:
        """When a job fits if those that run end one after another and nothing else starts [s].

        Parameters
        ----------
        gpus
            That it asks for [1].
        nodes, given, ends_s
            Nodes that are held now, GPUs that are given back there, and when, shape (held,).

        Returns
        -------
        float
            Time from now [s]; infinite if it never does.
        """
        if gpus > self.gpus:
            # A node is whole when the last job on it has gone.
            whole_s = np.zeros(self.free.size)
            np.maximum.at(whole_s, nodes, ends_s)
            whole_s[self._absent] = np.inf
            return self._whole_after(-(-gpus // self.gpus), whole_s)
        order = np.lexsort((ends_s, nodes))
        nodes, ends_s = nodes[order], ends_s[order]
        given = np.cumsum(given[order])
        first = np.searchsorted(nodes, nodes)
        before = np.where(first > 0, given[first - 1], 0)
        enough = self.free.reshape(-1)[nodes] + given - before >= gpus
        return float(ends_s[enough].min(initial=np.inf))

    def _whole_after(self, need: int, whole_s: Floats) -> float:
        """When so many nodes are whole for one job, by the times when each is [s]."""
        if self._policy == "domain":
            leaves = whole_s.reshape(self.free.shape)
            if need > self.nodes:
                return np.inf
            return float(np.partition(leaves, need - 1, axis=1)[:, need - 1].min())
        return float(np.partition(whole_s, need - 1)[need - 1])

    def place(self, gpus: int) -> JobPlace | None:
        """Where a job would stand; None if it does not fit.

        Parameters
        ----------
        gpus
            That it asks for [1].

        Returns
        -------
        JobPlace or None
            Its nodes.
        """
        if gpus <= self.gpus:
            node = self._part_of_a_node(gpus)
            if node is None:
                return None
            leaf = np.array([node // self.nodes])
            return JobPlace(np.array([node]), gpus, leaf, np.ones(1, np.int64))
        need = -(-gpus // self.gpus)
        if need > self._room:
            return None
        return self.place_on(self._whole_nodes(need))

    def place_on(self, nodes: Ints) -> JobPlace:
        """The place of a job on so many whole nodes.

        Parameters
        ----------
        nodes
            Their numbers, shape (nodes,).

        Returns
        -------
        JobPlace
            With its leaves.
        """
        nodes = np.sort(nodes)
        counts = np.bincount(nodes // self.nodes, minlength=len(self.whole))
        leaves = np.flatnonzero(counts)
        return JobPlace(nodes, self.gpus, leaves, counts[leaves])

    def take(self, place: JobPlace) -> None:
        """Let a job stand somewhere.

        Parameters
        ----------
        place
            Where.
        """
        self._change(place, -place.gpus)

    def give(self, place: JobPlace) -> None:
        """Let a job go.

        Parameters
        ----------
        place
            Where it stood.
        """
        self._change(place, place.gpus)

    def _change(self, place: JobPlace, gpus: int) -> None:
        """So many more GPUs of every node of a place are free."""
        flat, nodes = self.free.reshape(-1), place.nodes
        before = flat[nodes]
        flat[nodes] = after = before + gpus
        self.used -= gpus * len(nodes)
        for state, sign in ((before, -1), (after, 1)):
            self.broken += sign * int(np.count_nonzero((state > 0) & (state < self.gpus)))
            np.add.at(self.whole, nodes[state == self.gpus] // self.nodes, sign)

    def _part_of_a_node(self, gpus: int) -> int | None:
        """The node of a small job; None if none has so many GPUs free."""
        free = self.free.reshape(-1)
        fits = free >= gpus
        if not fits.any():
            return None
        if self._policy == "first":
            return int(fits.argmax())
        if self._policy == "random":
            return int(self._random.choice(np.flatnonzero(fits)))
        if self._policy != "scattered":
            if self._policy in IN_PODS:
                fits &= self._in_pod(fits)
            return int(np.where(fits, free, self.gpus + 1).argmin())
        here = fits.reshape(self.free.shape)
        of_leaf = np.where(here.any(axis=1), self.free.sum(axis=1), -1)
        emptiest = here & (of_leaf == of_leaf.max())[:, None]
        return int(np.where(emptiest, self.free, -1).argmax())

    def _whole_nodes(self, need: int) -> Ints:
        """Free nodes of a larger job that fits."""
        free = np.flatnonzero(self.free.reshape(-1) == self.gpus)
        if self._policy == "first":
            return free[:need]
        if self._policy == "random":
            return free[self._random.sample(range(len(free)), need)]
        if self._policy in IN_PODS:
            of_pod = packed(np.bincount(self._pods, self.whole).astype(np.int64), need)
            taken = np.zeros(len(self.whole), np.int64)
            for pod in np.flatnonzero(of_pod):
                here = self._pods == pod
                taken[here] = packed(self.whole[here], int(of_pod[pod]))
        elif self._policy == "scattered":
            taken = self._levelled(need)
        else:
            taken = packed(self.whole, need)
        rank = np.arange(len(free)) - np.repeat(np.cumsum(self.whole) - self.whole, self.whole)
        chosen: Bools = rank < np.repeat(taken, self.whole)
        return free[chosen]

    def _in_pod(self, fits: Bools) -> Bools:
        """Nodes of the pod with the fewest free ones in which a small job fits, shape (nodes,)."""
        pod_of_node = np.repeat(self._pods, self.nodes)
        free = np.bincount(self._pods, self.whole)
        holds = np.bincount(pod_of_node, fits) > 0
        in_pod: Bools = pod_of_node == int(np.where(holds, free, np.inf).argmin())
        return in_pod

    def _levelled(self, need: int) -> Ints:
        """Nodes of each leaf for a scattered job, shape (leaves,).

        Leaves are levelled from the top; in the last round the lowest numbers give a node.
        """
        levels = np.arange(self.nodes)
        above = np.maximum(self.whole - levels[:, None], 0)
        level = int(np.flatnonzero(above.sum(axis=1) >= need)[-1])
        taken: Ints = above[level]
        spare = int(taken.sum()) - need
        if spare:
            taken[np.flatnonzero(taken)[-spare:]] -= 1
        return taken


class MixedOccupancy(Occupancy):
    """GPUs that are free of a cluster whose nodes have several sizes.

    Examples
    --------
    Two leaves of a rack of 72 and two servers of 8. 8 GPUs take a server, 64 a part of a rack, and
    128 two racks, since there are no 16 servers:

    >>> cluster = MixedOccupancy(np.array([[72, 8, 8], [72, 8, 8]]))
    >>> [cluster.place(gpus).nodes.tolist() for gpus in (8, 64, 128)]
    [[1], [0], [0, 3]]
    """

    def __init__(
        self,
        sizes: Ints,
        policy: PlacementPolicy = "packed",
        seed: int = 0,
        *,
        pods: Ints | None = None,
    ) -> None:
        """All GPUs are free.

        Parameters
        ----------
        sizes
            GPUs of every node; 0 where there is none, shape (leaves, nodes) [1].
        policy
            How places are chosen.
        seed
            Of random places.
        pods
            Pod of every leaf; all in one if None, shape (leaves,).
        """
        distinct = np.unique(sizes[sizes > 0])
        smallest, *_ = distinct.tolist()
        leaves, nodes = sizes.shape
        super().__init__(leaves, nodes, smallest, policy, seed, present=sizes > 0, pods=pods)
        self.kinds = tuple(
            Occupancy(leaves, nodes, size, policy, seed, present=sizes == size, pods=pods)
            for size in distinct.tolist()
        )
        self.kind_of_node = np.searchsorted(distinct, sizes.reshape(-1))

    @property
    def total(self) -> int:
        """All GPUs [1]."""
        return sum(kind.total for kind in self.kinds)

    def _in_order(self, gpus: int) -> list[Occupancy]:
        """Nodes of each size, that first whose last node loses the fewest GPUs to a job."""

        def worth(kind: Occupancy) -> tuple[int, int, int]:
            nodes = -(-gpus // kind.gpus)
            return (0 if gpus <= kind.gpus else nodes * kind.gpus - gpus, nodes, kind.gpus)

        return sorted(self.kinds, key=worth)

    def most(self, gpus: int) -> int:
        """As of :class:`Occupancy`, on nodes of the first size that holds it.

        Parameters
        ----------
        gpus
            That it asks for [1].

        Returns
        -------
        int
            All GPUs of its nodes [1].
        """
        return next((most for kind in self._in_order(gpus) if (most := kind.most(gpus))), 0)

    def fits(self, gpus: Ints) -> Bools:
        """Whether jobs would find a place now, each alone.

        Parameters
        ----------
        gpus
            That each asks for, shape (jobs,) [1].

        Returns
        -------
        ndarray
            Shape (jobs,).
        """
        fitting: Bools = np.any([kind.fits(gpus) for kind in self.kinds], axis=0)
        return fitting

    def fits_after(self, gpus: int, nodes: Ints, given: Ints, ends_s: Floats) -> float:
        """As of :class:`Occupancy`, on nodes of the size on which it is first [s].

        Parameters
        ----------
        gpus
            That it asks for [1].
        nodes, given, ends_s
            Nodes that are held now, GPUs that are given back there, and when, shape (held,).

        Returns
        -------
        float
            Time from now [s]; infinite if it never does.
        """
        of_kind = self.kind_of_node[nodes]
        masks = [of_kind == number for number in range(len(self.kinds))]
        return min(
            kind.fits_after(gpus, nodes[mask], given[mask], ends_s[mask])
            for kind, mask in zip(self.kinds, masks, strict=True)
            if kind.most(gpus)
        )

    def place(self, gpus: int) -> JobPlace | None:
        """Where a job would stand; None if it does not fit.

        Parameters
        ----------
        gpus
            That it asks for [1].

        Returns
        -------
        JobPlace or None
            Its nodes, all of one size.
        """
        places = (kind.place(gpus) for kind in self._in_order(gpus))
        return next((place for place in places if place is not None), None)

    def _change(self, place: JobPlace, gpus: int) -> None:
        kind = self.kinds[self.kind_of_node[place.nodes[0]]]
        used, broken, whole = kind.used, kind.broken, kind.whole[place.leaves]
        kind._change(place, gpus)  # noqa: SLF001 - a part of this
        self.used += kind.used - used
        self.broken += kind.broken - broken
        self.whole[place.leaves] += kind.whole[place.leaves] - whole


def packed(free: Ints, need: int) -> Ints:
    """Nodes that a job takes of each leaf, or of each pod, so that it stands on few.

    Parameters
    ----------
    free
        Free nodes of each, shape (leaves,) [1].
    need
        Nodes of the job, no more than are free [1].

    Returns
    -------
    ndarray
        Shape (leaves,) [1].

    Examples
    --------
    >>> packed(np.array([3, 5, 2]), 2), packed(np.array([3, 5, 2]), 7)
    (array([0, 0, 2]), array([0, 5, 2]))
    """
    left = free.copy()
    while need:
        holds = left >= need
        if holds.any():
            leaf = np.where(holds, left, left.max() + 1).argmin()
            left[leaf] -= need
            break
        leaf = left.argmax()
        need -= int(left[leaf])
        left[leaf] = 0
    return free - left


def uplink_loads(place: JobPlace, *, all_to_all: bool) -> Floats:
    """What a job asks of the uplinks of its leaves, in rates of a node's cards.

    A ring whose ranks are sorted by leaf has one node's flows leave each leaf. All to all, each of
    k nodes on a leaf sends to the n - k others of n - 1.

    Parameters
    ----------
    place
        Where it stands.
    all_to_all
        Whether it talks all to all; else in a ring.

    Returns
    -------
    ndarray
        1 or k (n - k)/(n - 1) of each of its leaves; nothing on a single one, shape (leaves,) [1].

    Examples
    --------
    >>> two = JobPlace(np.arange(4), 8, np.array([0, 1]), np.array([3, 1]))
    >>> uplink_loads(two, all_to_all=True), uplink_loads(two, all_to_all=False)
    (array([1., 1.]), array([1., 1.]))
    """
    here = place.nodes_a_leaf.astype(np.float64)
    if len(here) < 2:  # noqa: PLR2004 - leaves between which links are shared
        return np.zeros(len(here))
    nodes = len(place.nodes)
    return here * (nodes - here) / (nodes - 1) if all_to_all else np.ones(len(here))

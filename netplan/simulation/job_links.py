"""What jobs ask of a fabric's own links, in place of trunks of leaves that are sprayed.

The GPUs of a node send at their card's rate: in a ring to those of their rank in the next node, all
to all an equal part to those of their rank in every other. A job is one flow, whose share of a link
is the sum over these pairs, each on the ways that the routing gives it, or round what has failed.
"""

from collections.abc import Callable
from math import inf

import numpy as np

from netplan.arrays import Floats, Ints
from netplan.simulation.job_places import JobPlace
from netplan.traffic.flow_paths import PathChoice, PathRouter
from netplan.traffic.loads import LinkLoads
from netplan.traffic.matrix import TrafficMatrix, flows_matrix


class FabricDemand:
    """Links of a fabric that jobs share.

    Parameters
    ----------
    router
        Of its graph.
    gpus_of_node
        GPUs of every node of the cluster; -1 fills up, shape (nodes, GPUs of a node).
    way
        Whether flows split, or take one link at every hop.
    seed
        Of hashed paths.
    round_failed
        Loads of links round what has failed; the router's if None.
    """

    def __init__(
        self,
        router: PathRouter,
        gpus_of_node: Ints,
        way: PathChoice,
        seed: int,
        round_failed: Callable[[TrafficMatrix], LinkLoads] | None = None,
    ) -> None:
        graph = router.graph
        self._router, self._gpus, self._way, self._seed = router, gpus_of_node, way, seed
        self._loads = round_failed or router.loads
        self._bytes_per_s = np.tile(graph.bytes_per_s, 2)
        ends = (graph.source < graph.gpus) & ~graph.is_role("hb")
        rate = np.bincount(graph.source[ends], graph.bytes_per_s[ends], graph.gpus)
        self._card = float(rate[rate > 0].min(initial=inf))
        network = np.tile(~graph.is_role("hb"), 2)
        self.capacity = np.where(network, self._bytes_per_s / self._card, inf)
        """Of every direction of a link, in rates of a GPU's cards, shape (2 x links,) [1]."""

    def demand(self, place: JobPlace, *, all_to_all: bool) -> tuple[Ints, Floats]:
        """Links that a job takes at its full rate, and how much of each.

        Parameters
        ----------
        place
            Where it stands.
        all_to_all
            Whether it talks all to all; else in a ring.

        Returns
        -------
        tuple of ndarray
            Directions of links, and rates of a card, shape (entries,) each.

        Raises
        ------
        InputError
            If its paths would take gigabytes.
        """
        members = self._gpus[place.nodes]
        count = len(members)
        first = np.arange(count)
        if all_to_all:
            first, second = np.divmod(np.arange(count * count), count)
            first, second = first[first != second], second[first != second]
        else:
            second = (first + 1) % count
        source, target = members[first].ravel(), members[second].ravel()
        there = (source >= 0) & (target >= 0)
        part = 1 / (count - 1) if all_to_all else 1.0
        ends = source[there], target[there]
        asked: Floats
        if self._way == "split":
            first, second = ends
            pairs = flows_matrix(
                self._router.graph.gpus, source=first, destination=second, flow_bytes=part
            )
            asked = self._loads(pairs).link_bytes.reshape(-1)
        else:
            paths = self._router.paths(*ends, self._bytes_per_s, way=self._way, seed=self._seed)
            asked = np.bincount(paths.code, part * paths.share, len(self.capacity)).astype(float)
        links: Ints = np.flatnonzero((asked > 0) & (self.capacity < inf))
        return links, asked[links]

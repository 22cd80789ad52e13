"""The cluster that jobs share: leaves of nodes, and a trunk from each leaf to the others.

A trunk carries the rates of the cards below its leaf over the oversubscription. In place of trunks
jobs may share a fabric's own links (`netplan.simulation.job_links`); nodes may be the cubes of a
torus (`netplan.simulation.job_boxes`).
"""

from math import inf

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError
from netplan.simulation.job_boxes import Box, CubeOccupancy
from netplan.simulation.job_links import FabricDemand
from netplan.simulation.job_places import (
    IN_BOXES,
    JobPlace,
    MixedOccupancy,
    Occupancy,
    PlacementPolicy,
    uplink_loads,
)


class LeafTrunks(Struct, frozen=True):
    """A cluster: leaves of nodes of GPUs, each leaf with a trunk to the others.

    Parameters
    ----------
    leaves, nodes, gpus
        Leaves, nodes a leaf, GPUs a node [1].
    ratio
        Rate of the cards below a leaf over that of its uplinks [1].
    sharing
        Whether jobs slow each other there.
    present
        Which nodes there are; all if None, shape (leaves, nodes).
    pods
        Pod of every leaf; all in one if None, shape (leaves,).
    sizes
        GPUs of every node where they differ, of which ``gpus`` is the least; 0 where there is no
        node, shape (leaves, nodes) [1].
    trunks
        Capacity of the trunk of every leaf where these are not alike, in rates of the cards of a
        node of ``gpus``, shape (leaves,) [1].
    grid
        Cubes of a torus along each axis, which are its nodes; None without any [1].
    wraps
        Whether the rings of a torus close.
    links
        What jobs share; the trunks of leaves if None.
    """

    leaves: int
    nodes: int
    gpus: int
    ratio: float = 1.0
    sharing: bool = True
    present: Bools | None = None
    pods: Ints | None = None
    sizes: Ints | None = None
    trunks: Floats | None = None
    grid: Box | None = None
    wraps: bool = True
    links: FabricDemand | None = None

    def __post_init__(self) -> None:
        """Refuse ratios that are none."""
        if not 0 < self.ratio < inf:
            raise InputError(f"leaves are oversubscribed {self.ratio:g} to 1: give more than 0")

    @property
    def total_gpus(self) -> int:
        """GPUs of all nodes that there are [1]."""
        if self.sizes is not None:
            return int(self.sizes.sum())
        nodes = self.leaves * self.nodes if self.present is None else int(self.present.sum())
        return nodes * self.gpus

    @property
    def capacity(self) -> Floats:
        """Of the trunk of every leaf, in rates of a node's cards, shape (leaves,) [1]."""
        if self.trunks is not None:
            return self.trunks
        return np.full(self.leaves, self.nodes / self.ratio)

    def demand(self, place: JobPlace, *, all_to_all: bool) -> tuple[Ints, Floats]:
        """Leaves of a job, and the rate that it asks of each trunk.

        Parameters
        ----------
        place
            Where the job stands.
        all_to_all
            Whether it talks all to all; else in a ring.

        Returns
        -------
        tuple of ndarray
            Links, and rates of a card or of a node's cards, shape (entries,) each.
        """
        loads = uplink_loads(place, all_to_all=all_to_all)
        if self.sizes is not None:
            loads *= place.gpus / self.gpus
        return place.leaves, loads

    def empty(self, policy: PlacementPolicy = "packed", seed: int = 0) -> Occupancy:
        """The cluster without any job.

        Parameters
        ----------
        policy
            How places are chosen.
        seed
            Of random places.

        Returns
        -------
        Occupancy
            All GPUs are free.

        Raises
        ------
        InputError
            If a policy is of a torus and this is none, or unknown.
        """
        if policy not in IN_BOXES and self.sizes is not None:
            return MixedOccupancy(self.sizes, policy, seed, pods=self.pods)
        if policy not in IN_BOXES:
            shape = self.leaves, self.nodes, self.gpus
            return Occupancy(*shape, policy, seed, present=self.present, pods=self.pods)
        if self.grid is None:
            raise InputError(
                f"placement {policy} is of 3D tori of whole cubes of 4 x 4 x 4 places, and this is"
                " none: give another number of GPUs, --fabric torus-3d, or packed"
            )
        there = None if self.present is None else self.present.reshape(-1)
        return CubeOccupancy(
            self.grid, self.gpus, joined=policy == "cube-ocs", wraps=self.wraps, present=there
        )

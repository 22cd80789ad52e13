"""What links between switches carry when every switch sends to all others.

So traffic flows that is spread over all switches: an all_to_all, and either half of detours, on
which a message goes to a switch drawn from all of them, and from there where it is bound (Valiant
and Brebner, STOC 1981). Messages take shortest paths; at every hop they split over the links that
lead nearer, evenly or by weights of these.

Where paths split evenly some links of a random graph carry half as much again as others do. Weights
that fall with the load of a link even that out, as those of weighted multipath do (Zhou et al.,
WCMP, EuroSys 2014), or more of the shortest paths in Jellyfish.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Bools, Floats
from netplan.topologies.graph.splitting import Matrix, propagate_demand, rounds_from

CELLS = 1 << 22
"""Links times destinations that are worked on at once [1]."""
DENSE = 1024
"""Switches up to which all pairs of them are multiplied, and links are looked up [1]."""
ROUNDS, SHARPNESS, WEIGHED_LOADS = 4, 4, 1_500_000
"""How often weights follow loads, with which power, and up to how many switches times links."""
EVEN_ENOUGH = 1.02


class Pairs(Struct, frozen=True, eq=False):
    """Traffic from each switch with hosts (row) to each other one (column), a sparse matrix [B]."""

    amounts: Matrix

    def to(self, targets: AnyInts) -> Floats:
        """What every switch sends to some of them, shape (switches with hosts, targets) [B]."""
        sent: Floats = self.amounts[:, targets].toarray()
        return sent


class AmongAll(Struct, frozen=True, eq=False):
    """Traffic between all switches of parts: a sends ``sent[a] + received[b]`` to every other b.

    Parameters
    ----------
    part
        Part that each switch with hosts is in, shape (switches with hosts,).
    sent, received
        What it sends to each other one, and takes from each, shape (switches with hosts,) [B].
    meets
        Parts whose switches send to each other, (parts, parts); None: each within itself.
    """

    part: AnyInts
    sent: Floats
    received: Floats
    meets: Bools | None = None

    def to(self, targets: AnyInts) -> Floats:
        """What every switch sends to some of them, shape (switches with hosts, targets) [B]."""
        part, others = self.part, self.part[targets]
        meet = part[:, None] == others if self.meets is None else self.meets[np.ix_(part, others)]
        return np.where(meet, self.sent[:, None] + self.received[None, targets], 0.0)


SwitchTraffic = Pairs | AmongAll
"""What switches with hosts send to each other."""


class SwitchMesh(Struct, frozen=True, eq=False):
    """Switches, those with hosts numbered first, and the links that join them.

    Parameters
    ----------
    switches, hosts
        Switches, and those of them with hosts [1].
    source, target
        Ends of the links, shape (links,).
    weight
        How much of what meets a link on a shortest path it takes, over what the others there take,
        shape (links,) [1]; None takes all alike.
    """

    switches: int
    hosts: int
    source: AnyInts
    target: AnyInts
    weight: Floats | None = None

    @property
    def weights(self) -> Floats:
        """Weight of every link, shape (links,) [1]."""
        return np.ones(len(self.source)) if self.weight is None else self.weight

    @property
    def work(self) -> int:
        """Switches with hosts times links, which the time to load them all grows with [1]."""
        return self.hosts * len(self.source)

    def arcs(self) -> Matrix:
        """Weights between switches, shape (switches, switches)."""
        # Only these fabrics need SciPy here, and most questions ask others.
        from scipy.sparse import coo_array  # noqa: PLC0415

        shape = (self.switches, self.switches)
        joined = coo_array((self.weights, (self.source, self.target)), shape=shape)
        return (joined + joined.T).tocsr()

    def loads(self, traffic: Sequence[SwitchTraffic]) -> Floats:
        """Load of every link under some traffic together [B], there and back, shape (2, links).

        Examples
        --------
        A square: each switch sends 1 to both neighbours, and half of 1 to the one beyond each way.

        >>> ends = np.array([0, 1, 2, 3]), np.array([1, 2, 3, 0])
        >>> every = AmongAll(np.zeros(4, int), np.ones(4), np.zeros(4))
        >>> SwitchMesh(4, 4, *ends).loads((every,))[0].tolist()
        [2.0, 2.0, 2.0, 2.0]
        """
        loads: Floats = self.each_loads((traffic,))[0]
        return loads

    def each_loads(self, kinds: Sequence[Sequence[SwitchTraffic]]) -> Floats:
        """Loads as of :meth:`loads` of several kinds of traffic [B], shape (kinds, 2, links).

        Switches are looked for once for all of them.
        """
        arcs, many = self.arcs(), len(kinds)
        loads = np.zeros((many, 2, len(self.source)))
        pairs = np.zeros((many, *(self.switches,) * 2)) if self.switches <= DENSE else None
        step = max(8, CELLS // max(1, len(self.source) * many))
        for first in range(0, self.hosts, step):
            targets = np.arange(first, min(first + step, self.hosts))
            coming = np.zeros((self.switches, many, len(targets)))
            for number, kind in enumerate(kinds):
                for pairs_sent in kind:
                    coming[: self.hosts, number] += pairs_sent.to(targets)
            asked = coming.any(axis=(0, 1))
            targets, sent = targets[asked], coming[:, :, asked].reshape(self.switches, -1)
            for flows, near in propagate_demand(arcs, rounds_from(arcs, targets), sent):
                self._add(loads if pairs is None else pairs, flows, near, len(targets))
        if pairs is not None:
            loads = np.stack([pairs[:, *ends] for ends in self._ways], axis=1)
        return loads * self.weights

    @property
    def _ways(self) -> tuple[tuple[AnyInts, AnyInts], tuple[AnyInts, AnyInts]]:
        """Ends of all links, there and back."""
        return (self.source, self.target), (self.target, self.source)

    def _add(self, sums: Floats, flows: Floats, near: Floats, width: int) -> None:
        """Add what a hop carries: between pairs of switches, or of larger networks by link."""
        for number in range(len(sums)):
            some = slice(number * width, (number + 1) * width)
            if self.switches <= DENSE:
                sums[number] += flows[:, some] @ near.T
                continue
            for row, (tail, head) in enumerate(self._ways):
                sums[number, row] += np.einsum("ij,ij->i", flows[tail, some], near[head])

    def all_to_all(self) -> Floats:
        """Load of every link where each switch with hosts sends 1 to each other one [1]."""
        nothing = np.zeros(self.hosts)
        return self.loads((AmongAll(nothing.astype(np.int64), nothing + 1.0, nothing),))

    def balanced(self) -> "SwitchMesh":
        """The same with weights that keep the busiest link less busy; large ones as they are.

        Examples
        --------
        Of the ways from 2 to 6, over 0, 1 and 5, that over 1 is the way of others as well.

        >>> source, target = np.array([0, 0, 1, 1, 1, 2, 2, 5]), np.array([2, 6, 2, 4, 6, 3, 5, 6])
        >>> mesh = SwitchMesh(7, 7, source, target)
        >>> [round(float(one.all_to_all().max()), 2) for one in (mesh, mesh.balanced())]
        [6.67, 6.0]
        """
        if self.work > WEIGHED_LOADS or self.hosts == 1:
            return self
        best, least, weight = self.weight, np.inf, self.weights
        for _ in range(ROUNDS):
            loads = SwitchMesh(self.switches, self.hosts, self.source, self.target, weight)
            busiest = loads.all_to_all().max(axis=0)
            most, mean = float(busiest.max()), float(busiest[busiest > 0].mean())
            if most < least / EVEN_ENOUGH:
                best, least = weight, most
            if most < mean * EVEN_ENOUGH:
                break
            pull = np.clip(mean / np.maximum(busiest, 1e-9 * mean), 0.5, 2.0)
            weight = np.clip(weight * pull**SHARPNESS, 1e-3, 1e3)
        return SwitchMesh(self.switches, self.hosts, self.source, self.target, best)

"""Bandwidth that any two of many HB domains have at least, by one flow a domain.

*One hub*  Whatever parts two domains parts one of them from any third node: if each can send f to
           one and the same switch, at least f flows between them.
*Spread*   Traffic may go in two steps, from the first domain to many hubs and from there to the
           second (Valiant and Brebner, doi:10.1145/800076.802479); the second step is a first one
           turned round. Where the first takes the share s of a link's capacity in one direction, it
           may take 1 - s in the other. Let domain d send at most M_d to hubs that take T together,
           each its part. Then

               flow(a, b)  >=  M_a + M_b - T,

           for what of T hubs do not get from a, or cannot pass on to b, is lost at the most. Who
           can spread the part r of the most, e, that leaves him can spread r T of any T below e:

               flow(a, b)  >=  (r_a + r_b - 1) min(e_a, e_b).

Links to a higher tier belong to the first step, links within a tier by half to either. Where that
is too little for some domains, as in a group of routers that has lost one, links out of their
smallest cuts belong to the first step by more than half, and it is tried again. All of this holds
for any shares. A largest flow is a multiple of what divides all capacities, so that bounds round
up, mostly to what is known to be the most.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from msgspec import Struct
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from netplan.arrays import Bools, Floats, Ints
from netplan.faults.max_flow import largest_units
from netplan.topologies.graph import connected_parts
from netplan.traffic.matrix import sum_by

STEPS = 1 << 30
"""Steps that the largest flow is counted in, at most: SciPy counts in 32 bits [1]."""

TOLERANCE = 1e-6
"""Part of a unit that sums of floats may be wrong by [1]."""

ROUNDS = 3
"""How often shares of links are tried [1]."""

DESCENT = 0.25
"""Part of a tier that switches come down by where links out of them are too few [1]."""


class PairGraph(Struct, frozen=True, eq=False):
    """Switches, and domains of which any two may send to each other while no other passes on.

    Parameters
    ----------
    tier
        Tier of each switch; switches come first, then domains, shape (switches,).
    domains
        How many domains there are [1].
    ends
        The two nodes that each link joins, the lower number first, shape (2, links).
    units
        Capacity of each link, in whole units, shape (links,).

    Examples
    --------
    Three domains under two switches each, of which the last has lost a port.

    >>> ends = np.array([[0, 0, 0, 1, 1], [2, 3, 4, 2, 3]])
    >>> graph = PairGraph(np.ones(2, np.int64), 3, ends, np.ones(5))
    >>> least, most = graph.flows(np.array([0, 0]), np.array([1, 2]))
    >>> least.tolist(), most.tolist()
    ([2, 1], [2, 1])
    """

    tier: Ints
    domains: int
    ends: Ints
    units: Floats

    def flow(self, a: int, b: int) -> int:
        """Largest flow between two domains, in units."""
        size = len(self.tier)
        used = (self.ends < size) | (self.ends == size + a) | (self.ends == size + b)
        used = used[0] & used[1]
        ends = self.ends[:, used]
        ends = np.where(ends == size + a, size, np.where(ends == size + b, size + 1, ends))
        return largest_units(ends, self.units[used], size, size + 1)

    def met(self, a: Ints, b: Ints) -> tuple[Ints, Ints]:
        """What flows over switches that two domains have in common, and what these have at most.

        In units, shape (pairs,) each.
        """
        size = len(self.tier)
        reach = np.zeros((self.domains, size))
        own = (self.ends[0] < size) & (self.ends[1] >= size)
        switch, domain = self.ends[:, own]
        reach[domain - size, switch] = self.units[own]
        least, most = np.minimum(reach[a], reach[b]).sum(axis=1), reach.sum(axis=1)
        bounds = np.stack((least, np.minimum(most[a], most[b]))).astype(np.int64)
        bounds += self._direct(a, b)
        return bounds[0], bounds[1]

    def flows(self, a: Ints, b: Ints) -> tuple[Ints, Ints]:
        """What the largest flow between two domains has at least and at most, in units.

        Links between the two, and parts that do not hang together over switches, carry flows of
        their own.
        """
        bounds = np.tile(self._direct(a, b), (2, 1))
        for part in self._parts():
            bounds += part.bounds(a, b)
        return bounds[0], bounds[1]

    def _direct(self, a: Ints, b: Ints) -> Ints:
        """Capacity of the links from one domain to another, in units."""
        at = np.flatnonzero(self.ends[0] >= len(self.tier))
        one, other = self.ends[:, at] - len(self.tier)
        known = one * self.domains + other
        order = np.argsort(known)
        asked = np.minimum(a, b) * self.domains + np.maximum(a, b)
        begin, end = (np.searchsorted(known[order], asked, side) for side in ("left", "right"))
        total = np.append(0, np.cumsum(self.units[at[order]]))
        found: Ints = (total[end] - total[begin]).astype(np.int64)
        return found

    def _parts(self) -> Iterator["_Part"]:
        size = len(self.tier)
        live = np.flatnonzero((self.ends[0] < size) & (self.units > 0))
        own = self.ends[1, live] >= size
        part = connected_parts(size, *self.ends[:, live[~own]])
        for one in np.unique(part[self.ends[0, live[own]]]).tolist():
            inside = part == one
            links = live[inside[self.ends[0, live]]]
            # Switches of this part are numbered anew, and domains after them.
            number = np.append(inside, np.ones(self.domains, bool)).cumsum() - 1
            ends = number[self.ends[:, links]]
            yield _Part(self.tier[inside], self.domains, ends, self.units[links])


class _Part(PairGraph, frozen=True, eq=False, dict=True):
    """Switches that hang together, with some links to domains."""

    def bounds(self, a: Ints, b: Ints) -> Ints:
        """What flows at least and at most, in units, shape (2, pairs)."""
        most = np.minimum(self.egress[a], self.egress[b])
        if not most.any():
            return np.zeros((2, len(a)), np.int64)
        to_hub = self._to_hub()
        least = np.minimum(np.minimum(to_hub[a], to_hub[b]), most)
        height = self.tier.astype(float)
        for _ in range(ROUNDS):
            if np.array_equal(least, most):
                break
            spread, part, short = self._spread(height)
            both = spread[a] + spread[b] - self.widest
            both = np.maximum(both, most * (part[a] + part[b] - 1))
            whole = np.ceil((both - TOLERANCE) / self.step) * self.step
            least = np.clip(whole, least, most)
            height = height - DESCENT * short
        return np.stack((least, most)).astype(np.int64)

    @cached_property
    def step(self) -> int:
        """What divides the capacities of all links, in units."""
        return int(np.gcd.reduce(self.units.astype(np.int64)))

    @cached_property
    def egress(self) -> Floats:
        """What can leave each domain, switch by switch, in units, shape (domains,)."""
        own, size = self._own, len(self.tier)
        total = sum_by(self.ends.ravel(), np.tile(self.units, 2), size + self.domains)
        switch, domain = self.ends[:, own]
        leaving = np.minimum(self.units[own], total[switch] - self.units[own])
        return sum_by(domain - size, leaving, self.domains)

    @property
    def widest(self) -> float:
        """The most that leaves any domain, in units."""
        return float(self.egress.max())

    @property
    def _own(self) -> Bools:
        """Links of domains."""
        own: Bools = self.ends[1] >= len(self.tier)
        return own

    @cached_property
    def _degree(self) -> Floats:
        """Capacity of the links between each switch and others, or of all if there are none."""
        there = ~self._own if np.any(~self._own) else self._own
        size = len(self.tier) + self.domains
        degree = sum_by(self.ends[:, there].ravel(), np.tile(self.units[there], 2), size)
        return degree[: len(self.tier)]

    def _to_hub(self) -> Floats:
        """What each domain can send to the widest switch, in units, shape (domains,).

        Nothing where that has fewer links than the widest domain.
        """
        hub, found = int(self._degree.argmax()), self.egress.copy()
        if self._degree[hub] < self.widest:
            return np.zeros(self.domains)
        # Who hangs on the hub alone needs no flow.
        switch, domain = self.ends[:, self._own]
        asking = np.unique(domain[switch != hub]) - len(self.tier)
        taken = np.zeros(len(self.tier))
        taken[hub] = self.widest
        found[asking] = self._sent(asking, np.ones(self._ways.shape[1]), taken)[0]
        return found

    def _spread(self, height: Floats) -> tuple[Floats, Floats, Bools]:
        """What domains can spread of the widest one's most, what part of their own; who lacks.

        The last are switches out of which links are too few, shape (switches,).
        """
        tail, head = self._ways
        share = ((1 + height[head] - height[tail]) / 2).clip(0, 1)
        top = np.where(self.tier == self.tier.max(), self._degree, 0.0)
        top /= top.sum()
        spread, short = self._sent(np.arange(self.domains), share, self.widest * top)
        part = spread / self.widest
        for asked in np.unique(self.egress[(self.egress > 0) & (self.egress < self.widest)]):
            those = np.flatnonzero(self.egress == asked)
            sent, around = self._sent(those, share, asked * top)
            part[those] = sent / asked
            short |= around
        return spread, part, short

    @cached_property
    def _ways(self) -> Ints:
        """Links between switches, in both directions, shape (2, ways)."""
        between = self.ends[:, ~self._own]
        return np.concatenate([between, between[::-1]], axis=1)

    def _sent(self, those: Ints, share: Floats, taken: Floats) -> tuple[Floats, Bools]:
        """What some domains can send to hubs, in units, and switches on which they lack links.

        ``share`` is that of the capacity of each way between switches, ``taken`` what each switch
        takes as a hub, in units.
        """
        # Steps of a unit are a power of two, so that sums of flows are exact.
        steps = float(2 ** np.floor(np.log2(STEPS / self.widest)))
        size, last = len(self.tier), len(self.tier) + self.domains
        to_last = np.stack((np.arange(size), np.full(size, last)))
        ends = np.concatenate([self._ways, self.ends[::-1, self._own], to_last], axis=1)
        units = np.concatenate(
            [np.tile(self.units[~self._own], 2) * share, self.units[self._own], taken]
        )
        units = np.floor(units.clip(max=self.widest) * steps).astype(np.int32)
        some = units > 0
        ways = csr_array((units[some], ends[:, some]), shape=(last + 1, last + 1))
        ways.sort_indices()  # once, not for every flow
        sent, short = np.zeros(len(those)), np.zeros(size, bool)
        enough = np.minimum(self.egress[those], taken.sum()) - self.step / 2
        for number, domain in enumerate((size + those).tolist()):
            found = maximum_flow(ways, domain, last)
            sent[number] = found.flow_value / steps
            if 0 < sent[number] < enough[number]:
                left = ways - found.flow
                left.eliminate_zeros()
                around = breadth_first_order(left, domain, return_predecessors=False)
                short[around[around < size]] = True
        return sent, short

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

A domain's flow to the hubs of the intact fabric is found once. Paths over what a damage took carry
nothing any more, so that of the flow is lost at the most by how much it exceeds what links have
left; domains that this leaves too little send anew, to the same hubs.
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


class PairGraph(Struct, frozen=True, eq=False, dict=True):
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
        most = reach.sum(axis=1)
        reach = reach[:, np.count_nonzero(reach, axis=0) > 1]  # where some may meet
        least = np.minimum(reach[a], reach[b]).sum(axis=1)
        bounds = np.stack((least, np.minimum(most[a], most[b]))).astype(np.int64)
        bounds += self._direct(a, b)
        return bounds[0], bounds[1]

    def flows(self, a: Ints, b: Ints, intact: "PairGraph | None" = None) -> tuple[Ints, Ints]:
        """What the largest flow between two domains has at least and at most, in units.

        Links between the two, and parts that do not hang together over switches, carry flows of
        their own. Those of the same graph before a damage may spare some.
        """
        bounds = np.tile(self._direct(a, b), (2, 1))
        whole = intact.parts if intact is not None and self._like(intact) else ()
        for part in self.parts:
            bounds += part.bounds(a, b, whole[0] if len(whole) == 1 else None)
        return bounds[0], bounds[1]

    def _like(self, other: "PairGraph") -> bool:
        """Whether links join the same nodes."""
        return np.array_equal(self.tier, other.tier) and np.array_equal(self.ends, other.ends)

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

    @cached_property
    def parts(self) -> tuple["_Part", ...]:
        """What hangs together over switches, with the numbers that nodes have here."""
        size = len(self.tier)
        live = np.flatnonzero((self.ends[0] < size) & (self.units > 0))
        own = self.ends[1, live] >= size
        part = connected_parts(size, *self.ends[:, live[~own]])
        found = []
        for one in np.unique(part[self.ends[0, live[own]]]).tolist():
            links = live[part[self.ends[0, live]] == one]
            tier = np.where(part == one, self.tier, 0)
            found.append(_Part(tier, self.domains, self.ends[:, links], self.units[links]))
        return tuple(found)


class Sent(Struct, frozen=True, eq=False):
    """What some domains send to hubs.

    Parameters
    ----------
    units
        What each sends, shape (domains,).
    short
        Switches out of which links are too few, shape (switches,).
    owner, way, steps
        Which of the domains takes which way (its first node, times all nodes, and its last), and
        how much of it in steps of a unit, shape (entries,).
    """

    units: Floats
    short: Bools
    owner: Ints
    way: Ints
    steps: Ints

    def lost_steps(self, way: Ints, limit: Ints) -> Floats:
        """What flows exceed the limits of ways by, sorted ones, in steps, shape (domains,)."""
        place = np.searchsorted(way, self.way).clip(max=len(way) - 1)
        left = np.where(way[place] == self.way, limit[place], 0)
        return sum_by(self.owner, (self.steps - left).clip(min=0), len(self.units))


class _Part(PairGraph, frozen=True, eq=False):
    """Switches that hang together, with some links to domains."""

    def bounds(self, a: Ints, b: Ints, intact: "_Part | None" = None) -> Ints:
        """What flows at least and at most, in units, shape (2, pairs)."""
        most = np.minimum(self.egress[a], self.egress[b])
        if not most.any():
            return np.zeros((2, len(a)), np.int64)
        to_hub = self._to_hub()
        least = np.minimum(np.minimum(to_hub[a], to_hub[b]), most)
        if np.array_equal(least, most):
            return np.stack((least, most)).astype(np.int64)
        for spread, part in self._tries(intact):
            both = spread[a] + spread[b] - self.widest
            both = np.maximum(both, most * (part[a] + part[b] - 1))
            whole = np.ceil((both - TOLERANCE) / self.step) * self.step
            least = np.clip(whole, least, most)
            if np.array_equal(least, most):
                break
        return np.stack((least, most)).astype(np.int64)

    def _tries(self, intact: "_Part | None") -> Iterator[tuple[Floats, Floats]]:
        """What domains can spread of the widest one's most, and what part of their own."""
        height = self.tier.astype(float)
        if intact is not None and intact.widest == self.widest:
            share = self._share(height)
            spread = self._left(intact, share)
            if spread is not None:
                yield spread, self._part(spread, share, intact.hubs)[0]
        for number in range(ROUNDS):
            share = self._share(height)
            sent = self._sent(self._all, share, self.widest * self.hubs) if number else self.carried
            part, short = self._part(sent.units, share, self.hubs)
            yield sent.units, part
            height = height - DESCENT * (sent.short | short)

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
        found[asking] = self._sent(asking, np.ones(self._ways.shape[1]), taken).units
        return found

    @cached_property
    def hubs(self) -> Floats:
        """Share of each switch in what hubs take [1]: those of the highest tier, by their links."""
        top = np.where(self.tier == self.tier.max(), self._degree, 0.0)
        share: Floats = top / top.sum()
        return share

    @cached_property
    def carried(self) -> Sent:
        """What all domains send to the hubs by the tiers of switches."""
        share = self._share(self.tier.astype(float))
        return self._sent(self._all, share, self.widest * self.hubs)

    @property
    def _all(self) -> Ints:
        return np.arange(self.domains)

    def _left(self, intact: "_Part", share: Floats) -> Floats | None:
        """What domains send of what they did before the damage, in units.

        Those send anew that lost half of a step; None if they are most of all domains.
        """
        taken = self.widest * intact.hubs
        ways = self._limits(share, taken)
        lost = intact.carried.lost_steps(_numbers(ways), ways.data) / self._steps
        anew = np.flatnonzero((lost >= self.step / 2) & (self.egress > 0))
        if 2 * len(anew) > self.domains:
            return None
        left: Floats = intact.carried.units - lost
        left[anew] = self._sent(anew, share, taken).units
        return left

    def _share(self, height: Floats) -> Floats:
        """Share of each way between switches that belongs to the first step [1]."""
        tail, head = self._ways
        share: Floats = ((1 + height[head] - height[tail]) / 2).clip(0, 1)
        return share

    def _part(self, spread: Floats, share: Floats, hubs: Floats) -> tuple[Floats, Bools]:
        """What part of their own most domains can spread; switches on which they lack links."""
        part, short = spread / self.widest, np.zeros(len(self.tier), bool)
        for asked in np.unique(self.egress[(self.egress > 0) & (self.egress < self.widest)]):
            those = np.flatnonzero(self.egress == asked)
            sent = self._sent(those, share, asked * hubs)
            part[those] = sent.units / asked
            short |= sent.short
        return part, short

    @cached_property
    def _ways(self) -> Ints:
        """Links between switches, in both directions, shape (2, ways)."""
        between = self.ends[:, ~self._own]
        return np.concatenate([between, between[::-1]], axis=1)

    @property
    def _steps(self) -> float:
        """Steps of a unit: a power of two, so that sums of flows are exact."""
        return float(2 ** np.floor(np.log2(STEPS / self.widest)))

    def _limits(self, share: Floats, taken: Floats) -> csr_array:
        """What ways carry at the most, in steps: links, those of domains, and into hubs.

        ``share`` is that of the capacity of each way between switches, ``taken`` what each switch
        takes as a hub, in units.
        """
        size, last = len(self.tier), len(self.tier) + self.domains
        to_last = np.stack((np.arange(size), np.full(size, last)))
        ends = np.concatenate([self._ways, self.ends[::-1, self._own], to_last], axis=1)
        units = np.concatenate(
            [np.tile(self.units[~self._own], 2) * share, self.units[self._own], taken]
        )
        units = np.floor(units.clip(max=self.widest) * self._steps).astype(np.int32)
        some = units > 0
        ways = csr_array((units[some], ends[:, some]), shape=(last + 1, last + 1))
        ways.sort_indices()  # once, not for every flow
        return ways

    def _sent(self, those: Ints, share: Floats, taken: Floats) -> Sent:
        """What some domains can send to hubs, with ``share`` and ``taken`` of :meth:`_limits`."""
        size, last = len(self.tier), len(self.tier) + self.domains
        ways = self._limits(share, taken)
        sent, short = np.zeros(len(those)), np.zeros(size, bool)
        taking = []
        enough = np.minimum(self.egress[those], taken.sum()) - self.step / 2
        for number, domain in enumerate((size + those).tolist()):
            found = maximum_flow(ways, domain, last)
            sent[number] = found.flow_value / self._steps
            at = np.flatnonzero(found.flow.data > 0)
            taking.append(np.stack((np.full(len(at), number), at, found.flow.data[at])))
            if 0 < sent[number] < enough[number]:
                left = ways - found.flow
                left.eliminate_zeros()
                around = breadth_first_order(left, domain, return_predecessors=False)
                short[around[around < size]] = True
        if not taking:
            return Sent(sent, short, *np.zeros((3, 0), np.int64))
        # Flows of one graph are arrays of one form.
        owner, at, steps = np.concatenate(taking, axis=1)
        return Sent(sent, short, owner, _numbers(found.flow)[at], steps)


def _numbers(ways: csr_array) -> Ints:
    """Number of each way: its first node, times all nodes, and its last, shape (ways,)."""
    nodes = ways.shape[0]
    tail = np.repeat(np.arange(nodes), np.diff(ways.indptr))
    number: Ints = tail * nodes + ways.indices
    return number

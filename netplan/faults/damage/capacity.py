"""Bandwidth that is left between HB domains, next to that of the intact fabric.

The bandwidth of a pair is a max-flow (`netplan.faults.damage.flows`). Pairs that the damage leaves
equal are one class, and of many classes most are settled by bounds (below): the worst and the mean
are those of all pairs, and where bounds leave some open, lie in a proven interval. Only where too
many domains are like no other are pairs chosen:

*affected*  domains that lost GPUs or egress, those that lost most first: each with one domain that
            lost nothing, and the worst of them with each other; they show the worst
*sampled*   pairs at random among all domains; they show the mean

A domain that lost all GPUs has no bandwidth left, so that one more failure never raises any share.

Bandwidth that any two of many HB domains have at least, by one flow a domain.

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

Classes of pairs of HB domains between which a damaged fabric carries equally much.

The class of a pair is the smallest block that holds both domains, and the place of each in it, but
for swaps of blocks that are alike (`netplan.faults.damage.flows`). Links are compared by their
rates before and after the damage, so that all pairs of a class had equally much before it, too. One
pair stands for its class; nothing is estimated. Where there is one tier of switches, or none, no
block is like another: there switches are put together that no smallest cut parts
(`netplan.faults.damage.flows`). Where classes are many, bounds that take one flow a domain settle
most of them (below).

The largest flow of a pair is found on a small graph. Of blocks that are alike two are kept, as a
pair may need both, and all others stand together; then so do switches that have equal links to
equal switches (colour refinement). The smallest cut stays what it was: let p be its potential, 0
at one domain and 1 at the other, and give all nodes of a class their mean. As every node of class C
has the same capacity to class D, the links between C and D have together

    sum c |p(u) - p(v)|  >=  |sum c (p(u) - p(v))|  =  c(C, D) |mean of C - mean of D|,

so that some cut along classes is no larger. (Linear programs in general: Grohe, Kersting, Mladenov
and Selman, arXiv:1307.5697.)
"""

from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import combinations
from operator import itemgetter

import numpy as np
from msgspec import Struct
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from netplan.arrays import Bools, Floats, Ints, distinct_values
from netplan.errors import InputError
from netplan.faults.damage import flows
from netplan.faults.damage.damage import Damage
from netplan.topologies.graph import FabricGraph, connected_parts
from netplan.topologies.graph.flow import largest_units
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

    def common_hubs(self, a: Ints, b: Ints) -> tuple[Ints, Ints]:
        """What flows over switches that two domains have in common, and what these have at most.

        In units, shape (pairs,) each.
        """
        size = len(self.tier)
        reach = np.zeros((self.domains, size))
        at_domain = (self.ends[0] < size) & (self.ends[1] >= size)
        switch, domain = self.ends[:, at_domain]
        reach[domain - size, switch] = self.units[at_domain]
        most = reach.sum(axis=1)
        reach = reach[:, np.count_nonzero(reach, axis=0) > 1]  # where some may meet
        # The smaller of two is the sum of all steps that both have: pairs times switches would be
        # twenty gigabytes where a thousand domains are alike to none.
        common = np.zeros((self.domains, self.domains))
        lower = 0.0
        for upper in distinct_values(reach[reach > 0]).tolist():
            both = csr_array((reach >= upper).astype(np.int64))
            common += (upper - lower) * (both @ both.T).toarray()
            lower = upper
        least = common[a, b]
        bounds = np.stack((least, np.minimum(most[a], most[b]))).astype(np.int64)
        bounds += self._direct(a, b)
        return bounds[0], bounds[1]

    def flows(self, a: Ints, b: Ints, intact: "PairGraph | None" = None) -> tuple[Ints, Ints]:
        """What the largest flow between two domains has at least and at most, in units.

        Links between the two, and parts that do not hang together over switches, carry flows of
        their own. Those of the same graph before a damage may spare some.
        """
        bounds = np.tile(self._direct(a, b), (2, 1))
        whole: tuple[_CutPart, ...] = ()
        if intact is not None and np.array_equal(self.tier, intact.tier):
            whole = intact.parts if np.array_equal(self.ends, intact.ends) else ()
        for part in self.parts:
            bounds += part.bounds(a, b, whole[0] if len(whole) == 1 else None)
        return bounds[0], bounds[1]

    def _direct(self, a: Ints, b: Ints) -> Ints:
        """Capacity of the links from one domain to another, in units."""
        links = np.flatnonzero(self.ends[0] >= len(self.tier))
        low, high = self.ends[:, links] - len(self.tier)
        known = low * self.domains + high
        order = np.argsort(known)
        pairs = np.minimum(a, b) * self.domains + np.maximum(a, b)
        begin, end = (np.searchsorted(known[order], pairs, side) for side in ("left", "right"))
        total = np.append(0, np.cumsum(self.units[links[order]]))
        direct: Ints = (total[end] - total[begin]).astype(np.int64)
        return direct

    @cached_property
    def parts(self) -> tuple["_CutPart", ...]:
        """What hangs together over switches, with the numbers that nodes have here."""
        size = len(self.tier)
        live = np.flatnonzero((self.ends[0] < size) & (self.units > 0))
        at_domain = self.ends[1, live] >= size
        part = connected_parts(size, *self.ends[:, live[~at_domain]])
        parts = []
        for number in distinct_values(part[self.ends[0, live[at_domain]]]).tolist():
            links = live[part[self.ends[0, live]] == number]
            tier = np.where(part == number, self.tier, 0)
            parts.append(_CutPart(tier, self.domains, self.ends[:, links], self.units[links]))
        return tuple(parts)


class RoutedDemand(Struct, frozen=True, eq=False):
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


class _CutPart(PairGraph, frozen=True, eq=False):
    """Switches that hang together, with some links to domains."""

    def bounds(self, a: Ints, b: Ints, intact: "_CutPart | None" = None) -> Ints:
        """What flows at least and at most, in units, shape (2, pairs)."""
        most = np.minimum(self.egress[a], self.egress[b])
        if not most.any():
            return np.zeros((2, len(a)), np.int64)
        to_hub = self._to_hub()
        least = np.minimum(np.minimum(to_hub[a], to_hub[b]), most)
        if np.array_equal(least, most):
            return np.stack((least, most)).astype(np.int64)
        for spread, part in self._tries(intact):
            both = spread[a] + spread[b] - self.most_egress
            both = np.maximum(both, most * (part[a] + part[b] - 1))
            whole = np.ceil((both - TOLERANCE) / self.step) * self.step
            least = np.clip(whole, least, most)
            if np.array_equal(least, most):
                break
        return np.stack((least, most)).astype(np.int64)

    def _tries(self, intact: "_CutPart | None") -> Iterator[tuple[Floats, Floats]]:
        """What domains can spread of the widest one's most, and what part of their own."""
        height = self.tier.astype(float)
        if intact is not None and intact.most_egress == self.most_egress:
            share = self._share(height)
            spread = self._left(intact, share)
            if spread is not None:
                yield spread, self._part(spread, share, intact.hubs)[0]
        for number in range(ROUNDS):
            share = self._share(height)
            sent = (
                self._sent(np.arange(self.domains), share, self.most_egress * self.hubs)
                if number
                else self.carried
            )
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
        at_domain, size = self._to_domain, len(self.tier)
        total = sum_by(self.ends.ravel(), np.tile(self.units, 2), size + self.domains)
        switch, domain = self.ends[:, at_domain]
        leaving = np.minimum(self.units[at_domain], total[switch] - self.units[at_domain])
        return sum_by(domain - size, leaving, self.domains)

    @property
    def most_egress(self) -> float:
        """The most that leaves any domain, in units."""
        return float(self.egress.max())

    @property
    def _to_domain(self) -> Bools:
        """Links of domains."""
        of_domains: Bools = self.ends[1] >= len(self.tier)
        return of_domains

    @cached_property
    def _degree(self) -> Floats:
        """Capacity of the links between each switch and others, or of all if there are none."""
        there = ~self._to_domain if np.any(~self._to_domain) else self._to_domain
        size = len(self.tier) + self.domains
        degree = sum_by(self.ends[:, there].ravel(), np.tile(self.units[there], 2), size)
        return degree[: len(self.tier)]

    def _to_hub(self) -> Floats:
        """What each domain can send to the widest switch, in units, shape (domains,).

        Nothing where that has fewer links than the widest domain.
        """
        hub, sent = int(self._degree.argmax()), self.egress.copy()
        if self._degree[hub] < self.most_egress:
            return np.zeros(self.domains)
        # Who hangs on the hub alone needs no flow, nor who sends all that leaves straight up to it.
        switch, domain = self.ends[:, self._to_domain]
        asking = distinct_values(domain[switch != hub]) - len(self.tier)
        straight = self._straight_up(hub)
        straight[domain[switch == hub] - len(self.tier)] = 0.0
        asking = asking[straight[asking] < self.egress[asking]]
        taken = np.zeros(len(self.tier))
        taken[hub] = self.most_egress
        sent[asking] = self._sent(asking, np.ones(self._ways.shape[1]), taken).units
        return sent

    def _straight_up(self, hub: int) -> Floats:
        """What each domain sends to a switch if all take the widest link up, in units, (domains,).

        A flow, and so no more than the largest; nothing of a domain that comes to another top.
        """
        size, tier = len(self.tier), self.tier
        low, high = self.ends[:, ~self._to_domain]
        low, high = np.where(tier[low] < tier[high], (low, high), (high, low))
        rises, units = tier[low] < tier[high], self.units[~self._to_domain]
        order = np.flatnonzero(rises)[np.argsort(units[rises], kind="stable")]
        above, room = np.arange(size), np.zeros(size)
        above[low[order]], room[low[order]] = high[order], units[order]  # the widest come last
        switch, domain = self.ends[:, self._to_domain]
        amount, key = self.units[self._to_domain], (domain - size) * size + switch
        for _ in range(int(tier.max(initial=0))):
            here = key % size
            amount = np.where(here == hub, amount, np.minimum(amount, room[here]))
            up = key - here + np.where(here == hub, hub, above[here])
            key, place = np.unique(up, return_inverse=True)
            amount = sum_by(place, amount, len(key))
        there = key % size == hub
        return sum_by(key[there] // size, amount[there], self.domains)

    @cached_property
    def hubs(self) -> Floats:
        """Share of each switch in what hubs take [1]: those of the highest tier, by their links."""
        top = np.where(self.tier == self.tier.max(), self._degree, 0.0)
        share: Floats = top / top.sum()
        return share

    @cached_property
    def carried(self) -> RoutedDemand:
        """What all domains send to the hubs by the tiers of switches."""
        share = self._share(self.tier.astype(float))
        return self._sent(np.arange(self.domains), share, self.most_egress * self.hubs)

    def _left(self, intact: "_CutPart", share: Floats) -> Floats | None:
        """What domains send of what they did before the damage, in units.

        Those send anew that lost half of a step; None if they are most of all domains.
        """
        taken = self.most_egress * intact.hubs
        ways = self._limits(share, taken)
        # Flows lose what exceeds the limits of ways.
        carried, number = intact.carried, _numbers(ways)
        place = np.searchsorted(number, carried.way).clip(max=len(number) - 1)
        limit = np.where(number[place] == carried.way, ways.data[place], 0)
        lost = (
            sum_by(carried.owner, (carried.steps - limit).clip(min=0), self.domains) / self._steps
        )
        anew = np.flatnonzero((lost >= self.step / 2) & (self.egress > 0))
        if 2 * len(anew) > self.domains:
            return None
        left: Floats = carried.units - lost
        left[anew] = self._sent(anew, share, taken).units
        return left

    def _share(self, height: Floats) -> Floats:
        """Share of each way between switches that belongs to the first step [1]."""
        tail, head = self._ways
        share: Floats = ((1 + height[head] - height[tail]) / 2).clip(0, 1)
        return share

    def _part(self, spread: Floats, share: Floats, hubs: Floats) -> tuple[Floats, Bools]:
        """What part of their own most domains can spread; switches on which they lack links."""
        part, short = spread / self.most_egress, np.zeros(len(self.tier), bool)
        for asked in distinct_values(
            self.egress[(self.egress > 0) & (self.egress < self.most_egress)]
        ):
            those = np.flatnonzero(self.egress == asked)
            sent = self._sent(those, share, asked * hubs)
            part[those] = sent.units / asked
            short |= sent.short
        return part, short

    @cached_property
    def _ways(self) -> Ints:
        """Links between switches, in both directions, shape (2, ways)."""
        between = self.ends[:, ~self._to_domain]
        return np.concatenate([between, between[::-1]], axis=1)

    @property
    def _steps(self) -> float:
        """Steps of a unit: a power of two, so that sums of flows are exact."""
        return float(2 ** np.floor(np.log2(STEPS / self.most_egress)))

    def _limits(self, share: Floats, taken: Floats) -> csr_array:
        """What ways carry at the most, in steps: links, those of domains, and into hubs.

        ``share`` is that of the capacity of each way between switches, ``taken`` what each switch
        takes as a hub, in units.
        """
        size, last = len(self.tier), len(self.tier) + self.domains
        to_last = np.stack((np.arange(size), np.full(size, last)))
        ends = np.concatenate([self._ways, self.ends[::-1, self._to_domain], to_last], axis=1)
        units = np.concatenate(
            [np.tile(self.units[~self._to_domain], 2) * share, self.units[self._to_domain], taken]
        )
        units = np.floor(units.clip(max=self.most_egress) * self._steps).astype(np.int32)
        some = units > 0
        ways = csr_array((units[some], ends[:, some]), shape=(last + 1, last + 1))
        ways.sort_indices()  # once, not for every flow
        return ways

    def _sent(self, those: Ints, share: Floats, taken: Floats) -> RoutedDemand:
        """What some domains can send to hubs, with ``share`` and ``taken`` of :meth:`_limits`."""
        size, last = len(self.tier), len(self.tier) + self.domains
        ways = self._limits(share, taken)
        sent, short = np.zeros(len(those)), np.zeros(size, bool)
        taking = []
        enough = np.minimum(self.egress[those], taken.sum()) - self.step / 2
        for number, domain in enumerate((size + those).tolist()):
            solved = maximum_flow(ways, domain, last)
            sent[number] = solved.flow_value / self._steps
            used = np.flatnonzero(solved.flow.data > 0)
            taking.append(np.stack((np.full(len(used), number), used, solved.flow.data[used])))
            if 0 < sent[number] < enough[number]:
                left = ways - solved.flow
                left.eliminate_zeros()
                around = breadth_first_order(left, domain, return_predecessors=False)
                short[around[around < size]] = True
        if not taking:
            return RoutedDemand(sent, short, *np.zeros((3, 0), np.int64))
        # Flows of one graph are arrays of one form.
        owner, used, steps = np.concatenate(taking, axis=1)
        return RoutedDemand(sent, short, owner, _numbers(solved.flow)[used], steps)


def _numbers(ways: csr_array) -> Ints:
    """Number of each way: its first node, times all nodes, and its last, shape (ways,)."""
    nodes = ways.shape[0]
    tail = np.repeat(np.arange(nodes), np.diff(ways.indptr))
    number: Ints = tail * nodes + ways.indices
    return number


MAX_ENDS = 2048
"""Domains that stand for all others up to which their pairs are formed [1]."""

MAX_FLOWS = 300
"""Classes whose flows are computed at the most [1]."""

FEW_CLASSES = 200
"""Classes up to which no fewer are looked for, and no bounds [1]."""


class PairClasses(Struct, frozen=True, eq=False):
    """Pairs of HB domains, each of which stands for some.

    Parameters
    ----------
    first, second
        The two domains, shape (classes,).
    pairs
        How many pairs each stands for [1], shape (classes,).
    """

    first: Ints
    second: Ints
    pairs: Ints


PairFlows = tuple[PairClasses, Ints, Ints]
"""Pairs of domains, each of which stands for some; what flows between them at least and at most
before and after a damage, in units, shape (2, classes); the same where the flow is known."""


def _share(after: Ints, before: Ints) -> Floats:
    """What is left of flows [1], at most 1; of nothing, all is left."""
    left = after / np.where(before > 0, before, 1)
    share: Floats = np.where(before > 0, np.minimum(left, 1.0), 1.0)
    return share


def class_flows(before: flows.FlowNetwork, after: flows.FlowNetwork) -> PairFlows | None:
    """Classes of all pairs, and the largest flow of each before and after the damage.

    None where too many domains stand for themselves.

    Examples
    --------
    Domain 3 has lost one of eight ports: 15 pairs have seven units left, the others eight.

    >>> from netplan import Scenario
    >>> from netplan.faults.damage.flows import reduced_graph
    >>> from netplan.faults.damage.scenario import parse_faults
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=128, radix=16)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> network = reduced_graph(graph)
    >>> damaged = network.left(parse_faults(["gpu-30"], graph))
    >>> classes, least, most = class_flows(network.intact, damaged)
    >>> fewer = most[1] < least[0]
    >>> int(classes.pairs.sum()), int(classes.pairs[fewer].sum()), least.min(axis=1)
    (120, 15, array([8, 7]))
    """
    intact = _intact_flows(before)
    left = intact if after is before else ClassFlows.of(before, after, intact)
    if intact is None or left is None:
        return None
    had = intact.between(left.classes)
    left.compute_open_flows(*had)
    least, most = np.stack((had, (left.least, left.most)), axis=1)
    return left.classes, least, most


class ClassFlows(Struct, frozen=True, eq=False, dict=True):
    """Classes of all pairs of domains, and the largest flow of each.

    Parameters
    ----------
    blocks
        Blocks of the fabric that are alike.
    classes
        Pairs that stand for all.
    node, graph
        Number of each domain in a graph of what stands for all, -1 of others, shape (domains,); and
        the graph, on which flows are found.
    least, most
        What flows at least and at most in each class, in units, shape (classes,).
    """

    blocks: flows.BlockClasses
    classes: PairClasses
    node: Ints
    graph: PairGraph
    least: Ints
    most: Ints

    @classmethod
    def of(
        cls, before: flows.FlowNetwork, after: flows.FlowNetwork, intact: "ClassFlows | None" = None
    ) -> "ClassFlows | None":
        """Bounds of flows after a damage; pairs of a class had equally much before, too."""
        tried: list[tuple[int, flows.BlockClasses, Floats, PairClasses]] = []
        for tree, units in _trees(before, after):
            blocks = tree.equal_blocks(flows.row_codes(*units.astype(np.int64)))
            classes = form_classes(blocks)
            if classes is not None:
                tried.append((len(classes.first), blocks, units[1], classes))
                if len(classes.first) <= FEW_CLASSES:
                    break
        if not tried:
            return None
        count, blocks, left, classes = min(tried, key=itemgetter(0))
        node, graph = _small_graph(blocks, left)
        pairs = node[classes.first], node[classes.second]
        least, most = graph.common_hubs(*pairs)
        if intact is not None:
            lost = after.lost_units(classes.first, classes.second)
            least = np.maximum(least, intact.between(classes)[0] - lost)
        if count > FEW_CLASSES and not np.array_equal(least, most):
            bounds = graph.flows(*pairs, intact.graph if intact else None)
            least, most = np.maximum(least, bounds[0]), np.minimum(most, bounds[1])
        return cls(blocks, classes, node, graph, least, most)

    def compute_open_flows(self, had_least: Ints, had_most: Ints) -> None:
        """Compute flows that bounds leave open: all, or of too many those that may be the worst.

        The worst is that which has the smallest share left of what it had, in units.
        """
        low = _share(self.least, had_most)
        worst = float(_share(self.most, had_least).min(initial=1.0))
        left_open = np.flatnonzero(self.least < self.most)
        every = len(left_open) <= MAX_FLOWS
        first, second = self.node[self.classes.first], self.node[self.classes.second]
        for row in left_open[np.argsort(low[left_open], kind="stable")][:MAX_FLOWS].tolist():
            if not every and low[row] >= worst:
                break
            self.least[row] = self.most[row] = self.graph.flow(int(first[row]), int(second[row]))
            worst = min(worst, float(_share(self.most[row], had_least[row])))

    @cached_property
    def class_numbers(self) -> Ints:
        """Numbers of the classes, rising, shape (classes,)."""
        return class_codes(self.blocks, self.classes.first, self.classes.second)

    def between(self, classes: PairClasses) -> tuple[Ints, Ints]:
        """What flows at least and at most between other pairs, in units."""
        asked = class_codes(self.blocks, classes.first, classes.second)
        place = np.searchsorted(self.class_numbers, asked)
        return self.least[place], self.most[place]


@lru_cache(maxsize=1)
def _intact_flows(before: flows.FlowNetwork) -> ClassFlows | None:
    """Flows of an intact fabric, which all of its damages are put beside."""
    intact = ClassFlows.of(before, before)
    if intact is not None:
        intact.compute_open_flows(intact.most.copy(), intact.most.copy())
    return intact


def _trees(
    before: flows.FlowNetwork, after: flows.FlowNetwork
) -> Iterator[tuple[flows.BlockTree, Floats]]:
    """Blocks, and capacities of their links before and after the damage, shape (2, links).

    First as they are, where there are tiers; then with switches that are joined well enough as one.
    """
    reduced = before.reduced
    tier, ends = reduced.switched
    units = np.stack((before.switched_units, after.switched_units))
    if tier.max(initial=0) > 1:
        yield reduced.blocks, units
    domains = reduced.graph.domains
    between = (tier[ends] > 0).all(axis=0)
    # Most failures are of parts below the switches: what is joined stays joined.
    label = (before if np.array_equal(*units[:, between]) else after).joined
    ends = np.append(np.arange(domains), domains + label)[ends]
    apart = ends[0] != ends[1]
    joined = np.zeros(domains + int(label.max(initial=-1)) + 1, np.int64)
    np.maximum.at(joined, domains + label, tier[domains:])
    yield flows.BlockTree.of(joined, ends[:, apart]), units[:, apart]


def form_classes(blocks: flows.BlockClasses) -> PairClasses | None:
    """Classes of all pairs of domains; None where too many domains stand for themselves.

    Examples
    --------
    Eight domains under four leaves of one spine: 4 pairs share a leaf, 24 do not.

    >>> domain, leaf = np.arange(8), 8 + np.arange(8) // 2
    >>> ends = np.stack((np.append(domain, np.arange(8, 12)), np.append(leaf, np.full(4, 12))))
    >>> tree = flows.BlockTree.of(np.repeat([0, 1, 2], [8, 4, 1]), ends)
    >>> form_classes(tree.equal_blocks(np.zeros(12, int))).pairs.tolist()
    [4, 24]
    """
    ends = np.flatnonzero(blocks.itself[0])
    if len(ends) > MAX_ENDS:
        return None
    first, second = (ends[place] for place in np.triu_indices(len(ends), 1))
    chosen = np.unique(class_codes(blocks, first, second), return_index=True)[1]
    first, second = first[chosen], second[chosen]
    level, orbit = _smallest_block(blocks.tree, first, second), blocks.of_domains
    sizes = [np.bincount(numbers) for numbers in blocks.orbit]
    size = np.stack([of[numbers] for of, numbers in zip(sizes, orbit, strict=True)])
    # Of `around` blocks like theirs, each has `inner` like the one that holds the first domain.
    around = size[level, first]
    inner = size[level - 1, first] // around
    pairs = size[0, first] * size[0, second] // around
    both = orbit[level - 1, first] == orbit[level - 1, second]
    pairs = np.where(both, pairs // inner * (inner - 1), pairs)
    return PairClasses(
        first, second, np.where(orbit[0, first] == orbit[0, second], pairs // 2, pairs)
    )


def class_codes(blocks: flows.BlockClasses, first: Ints, second: Ints) -> Ints:
    """Numbers of pairs of domains, equal for those of one class, shape (pairs,)."""
    level, orbit = _smallest_block(blocks.tree, first, second), blocks.of_domains
    base, places = (
        int(orbit.max(initial=0)) + 1,
        np.sort(orbit[0][np.stack((first, second))], axis=0),
    )
    code: Ints = ((level * base + orbit[level, first]) * base + places[0]) * base + places[1]
    return code


def _smallest_block(tree: flows.BlockTree, first: Ints, second: Ints) -> Ints:
    """Level of the smallest block that holds both domains, shape (pairs,)."""
    level: Ints = np.argmax(tree.block[:, first] == tree.block[:, second], axis=0)
    return level


def _small_graph(blocks: flows.BlockClasses, units: Floats) -> tuple[Ints, PairGraph]:
    """Switches of a fabric, like ones put together, and the domains that stand for all.

    ``units`` are the capacities of its links, shape (links,). The number of each domain in the
    graph comes first, -1 for those that others stand for, shape (domains,).
    """
    tree = blocks.tree
    weight = np.zeros(len(tree.tier), np.int64)
    for tier, stands_for in enumerate(blocks.stands_for[:-1]):
        there = tree.tier == tier
        weight[there] = stands_for[tree.home[there]]
    domains = tree.block.shape[1]
    weight[:domains] *= blocks.itself[0]
    kept = np.flatnonzero(weight)
    itself = int(np.searchsorted(kept, domains))
    node = np.full(len(weight), -1)
    node[kept] = np.arange(len(kept))
    links = np.flatnonzero((node[tree.ends] >= 0).all(axis=0))
    ends, units = node[tree.ends[:, links]], units[links] * weight[tree.ends[0, links]]
    colour = _colours(ends, units, weight[kept], itself)
    # Domains have the first colours, each its own; here they come last, and no damage changes
    # in which order.
    first = np.unique(colour, return_index=True)[1]
    nodes = len(first)
    number = (np.argsort(np.argsort(first))[colour] - itself) % nodes
    ends = np.sort(number[ends], axis=0)
    apart = ends[0] != ends[1]
    key, place = np.unique(ends[0, apart] * nodes + ends[1, apart], return_inverse=True)
    total = sum_by(place, units[apart], len(key))
    tiers = np.zeros(nodes, np.int64)
    tiers[number] = tree.tier[kept]
    graph = PairGraph(tiers[: nodes - itself], itself, np.stack(np.divmod(key, nodes)), total)
    node[kept[:itself]] = number[:itself] - (nodes - itself)
    return node[:domains], graph


def _colours(ends: Ints, units: Floats, weight: Ints, domains: int) -> Ints:
    """Numbers of nodes, equal where they have equal links to equal nodes; domains are unequal."""
    tail, head = np.concatenate([ends, ends[::-1]], axis=1)
    rates = np.tile(flows.row_codes(units.astype(np.int64)), 2)
    kinds = int(rates.max(initial=0)) + 1
    colour = flows.row_codes(
        np.append(np.arange(domains), np.full(len(weight) - domains, domains)), weight
    )
    while True:
        finer = flows.row_codes(
            colour, flows.equal_blocks(tail, colour[head] * kinds + rates, len(weight))
        )
        if finer.max(initial=0) == colour.max(initial=0):
            return colour
        colour = finer


MAX_PAIRS = 24
"""Pairs computed where they must be chosen, unless more are asked for [1]."""
WORST = 6
"""Domains that lost most, which are also paired with each other."""


class Remaining(Struct, frozen=True, eq=False):
    """Bandwidth between pairs of HB domains, one way.

    Parameters
    ----------
    first, second
        The two domains of each pair, shape (pairs,).
    bytes_per_s, intact_bytes_per_s
        Max-flow on what is left, and on the intact fabric, at the most [B/s], shape (pairs,).
    least_share, share
        What is left of each pair's bandwidth, at least and at the most [1], shape (pairs,); pairs
        that never had any count as whole.
    pairs
        How many pairs each stands for [1], shape (pairs,); none if it was chosen for its loss.
    all_pairs
        Pairs of domains, computed or not [1].
    domains_lost
        Domains that have no GPU left [1].
    low
        What the share of no other pair is less than [1].
    """

    first: Ints
    second: Ints
    bytes_per_s: Floats
    intact_bytes_per_s: Floats
    least_share: Floats
    share: Floats
    pairs: Ints
    all_pairs: int
    domains_lost: int
    low: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether no pair is left out."""
        return int(self.pairs.sum()) == self.all_pairs

    @property
    def exact(self) -> bool:
        """Whether the worst and the mean are those of all pairs."""
        return self.complete and bool(np.all(self.least_share == self.share))

    @property
    def worst_share(self) -> float | None:
        """Smallest share over the pairs computed, at the most [1]; None without any pair."""
        return float(self.share.min()) if len(self.share) else None

    @property
    def worst_low(self) -> float | None:
        """What the smallest share over all pairs is no less than [1]; None without any pair."""
        if not len(self.share):
            return None
        least = float(self.least_share.min())
        return least if self.complete else min(least, self.low)

    @property
    def mean_share(self) -> float | None:
        """Mean share over all pairs, or over those drawn at random [1]; None without any pair.

        The middle of its interval where not all are known.
        """
        if not len(self.share):
            return None
        return float(np.average((self.least_share + self.share) / 2, weights=self.pairs))

    @property
    def mean_half_width(self) -> float:
        """Half width of the interval of the mean [1], proven, or of 95 % if pairs were drawn."""
        if self.complete:
            return float(np.average((self.share - self.least_share) / 2, weights=self.pairs))
        drawn = self.share[self.pairs > 0]
        return float(1.96 * drawn.std() / np.sqrt(len(drawn)))

    @property
    def note(self) -> str:
        """Which pairs were computed, in a sentence."""
        count = len(self.first)
        if not self.all_pairs:
            return "There are no two HB domains to send between."
        if self.complete:
            kinds = "1 class" if count == 1 else f"{count:,} classes"
            classes = "" if count == self.all_pairs else f", in {kinds} of equal damage and place"
            whole = f"all {self.all_pairs:,} pairs of HB domains{classes}"
            if self.exact:
                return f"Exact: {whole}."
            worst = "is exact" if self.worst_low == self.worst_share else "between bounds"
            return f"Of {whole}: the worst {worst}, the mean within ± {self.mean_half_width:.2%}."
        drawn = int(np.count_nonzero(self.pairs))
        return (
            f"Of {self.all_pairs:,} pairs of HB domains {count:,} are computed:"
            f" {count - drawn:,} of domains that lost GPUs or ports, for the worst, and {drawn:,}"
            f" at random, for the mean (± {self.mean_half_width:.2%})."
        )


def remaining_bandwidth(
    graph: FabricGraph,
    damage: Damage,
    *,
    max_pairs: int = MAX_PAIRS,
    intact: flows.FlowNetwork | None = None,
) -> Remaining:
    """Bandwidth that remains between HB domains.

    Parameters
    ----------
    graph, damage
        The fabric, and what has failed.
    max_pairs
        Pairs to compute at most; with more, some are chosen as this module says [1].
    intact
        Reduced graph of the intact fabric, where many damages of one fabric are asked for.

    Raises
    ------
    InputError
        If the damage is that of another graph, or no pair may be computed.

    Examples
    --------
    One of eight rails is lost.

    >>> from netplan import Scenario
    >>> from netplan.faults.damage.scenario import parse_faults
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=128, radix=16)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> left = remaining_bandwidth(graph, parse_faults(["rail-3/leaf-0", "domain-5"], graph))
    >>> left.worst_share, left.mean_share, left.all_pairs, left.domains_lost
    (0.0, 0.765625, 120, 1)
    """
    if max_pairs < 1:
        raise InputError(f"{max_pairs} pairs of HB domains are too few: give 1 or more")
    before = intact or flows.reduced_graph(graph).intact
    after = before.reduced.left(damage)
    all_classes = class_flows(before, after)
    flows_of_pairs = all_classes or _one_by_one(before, after, max_pairs)
    pairs, (least_before, least_after), (most_before, most_after) = flows_of_pairs
    alive = np.flatnonzero(~damage.node_down[: graph.gpus]) // graph.hb_size
    unit_bytes_per_s = before.reduced.unit_bytes_per_s
    return Remaining(
        first=pairs.first,
        second=pairs.second,
        bytes_per_s=most_after * unit_bytes_per_s,
        intact_bytes_per_s=most_before * unit_bytes_per_s,
        least_share=_share(least_after, most_before),
        share=_share(most_after, least_before),
        pairs=pairs.pairs,
        all_pairs=graph.domains * (graph.domains - 1) // 2,
        domains_lost=graph.domains - len(distinct_values(alive)),
        low=0.0 if all_classes else _least_share(before, after),
    )


def _least_share(before: flows.FlowNetwork, after: flows.FlowNetwork) -> float:
    """A share that every pair has left: a smallest cut loses no more than all that is lost.

    Of what domains lost for themselves alone, a pair has its own two at most.
    """
    intact = class_flows(before, before)
    if intact is None:
        return 0.0
    _, (least_flows, _), _ = intact
    least = int(least_flows.min())
    if not least:
        return 0.0
    shared, alone = after.lost
    lost = shared + int(np.sort(alone)[-2:].sum())
    return max(0.0, 1 - lost / least)


def _one_by_one(before: flows.FlowNetwork, after: flows.FlowNetwork, max_pairs: int) -> PairFlows:
    """All pairs, or some chosen ones; and their flows before and after the damage, in units."""
    first, second = np.triu_indices(before.domains, 1)
    pairs = np.ones(len(first), np.int64)
    if len(first) > max_pairs:
        first, second, pairs = _choose(before, after, max_pairs)
    ends = list(zip(first.tolist(), second.tolist(), strict=True))
    # The intact flows come first: what damage spares of them is not computed again.
    units = [[network.flow(a, b).units for a, b in ends] for network in (before, after)]
    flow_units = np.array(units, np.int64)
    return PairClasses(first, second, pairs), flow_units, flow_units


def _choose(
    before: flows.FlowNetwork, after: flows.FlowNetwork, limit: int
) -> tuple[Ints, Ints, Ints]:
    """Pairs of domains to compute, and 1 for those drawn at random, 0 for those that lost most."""
    rng = np.random.default_rng(0)
    count, had = before.domains, before.egress_bytes_per_s
    share = np.where(had > 0, after.egress_bytes_per_s / np.where(had > 0, had, 1.0), 1.0)
    order = np.lexsort((after.egress_bytes_per_s, share))
    hurt = order[share[order] < 1].tolist()
    other = int(order[-1])
    half = max(1, limit // 2)
    pairs = list(combinations(hurt[:WORST], 2))
    pairs = [*pairs, *((domain, other) for domain in hurt if domain != other)][:half]
    # As many as may be are drawn always, so that damages of one fabric are seen by the same pairs.
    a = rng.integers(0, count, limit)
    b = (a + rng.integers(1, count, limit)) % count
    drawn = np.stack((a, b), 1)[: limit - len(pairs)]
    ends = np.concatenate([np.array(pairs, np.int64).reshape(-1, 2), drawn])
    return ends[:, 0], ends[:, 1], (np.arange(len(ends)) >= len(pairs)).astype(np.int64)

"""Bandwidth between two HB domains: a max-flow on what is left of the fabric.

capacity(A, B) is the max-flow from all live GPUs of domain A to all of domain B, over live links.
GPUs of other domains pass nothing on (but where the network has no other way, as in tori and
BCubes, they pass on what comes over its links).

The graph of the flow is reduced first, without changing any answer: A and B become one node each,
parallel links become one, and a domain that passes nothing on is left out.

No flow exceeds the *egress* of A or B, a cut: a domain has links of h(v) bytes a second to the node
v, mostly a leaf, which has o(v) to all other nodes; cut each v at the smaller of the two, and the
sum over v of min(h(v), o(v)) can leave. A flow that damage spares is still there: of a damaged
fabric only those pairs are computed again whose flow led over what is lost.

scipy's max-flow counts in whole numbers. The unit is the greatest common divisor of all rates, so
that the answer is exact; where rates have none to speak of, it is the largest rate over 2^20, and
the answer falls short by less than a millionth of that rate for each link.

The largest flow between two nodes of a graph of duplex links, and where it goes.

SciPy counts in whole numbers of 32 bits: so do the capacities here, in a unit that the caller
chooses.

Blocks of a fabric of switches, one within another, and which of them are alike.

A block of level 0 is an HB domain; one of level k is what the switches up to tier k hold together:
a leaf group, a pod, the fabric. Two blocks within one larger block are *alike* if their switches,
in order, have equal links to each other and to the same switches above, and their inner blocks are
alike, one by one. Then swapping the two changes nothing.

Switches that are joined so well that no pair's smallest cut parts them.

If any cut between two switches has at least the capacity of the widest domain, a smallest cut
between two domains need not part them: the cut around the narrower domain is no larger and does
not. So they may be taken for one node, and pairs of domains have the flow that they had. What
counts as a switch here is all that passes traffic on: the GPUs of a torus, too.

Three proofs, of which two hold for many switches at once:

*forests*       Take a spanning forest of the graph away, then one of what is left, and so on. Two
                switches that the k-th still joins are joined by k paths without a common link, as
                each forest joins all that any later one does (Nash-Williams and Tutte say how many
                there may be). Enough on dense graphs: dragonflies.
*translations*  Where rings make a torus, every node is like every other. One largest flow between
                two neighbours is moved to all places; where all of its links are whole, that much
                still flows. Enough where forests are too few: a torus of degree d has d / 2.
*hub*           What each switch sends to one and the same: two that can send as much as is asked
                for are joined, for a cut between them parts one of them from the hub. One flow a
                switch, for what the forests leave.
"""

from functools import cached_property
from itertools import combinations, pairwise
from math import gcd, prod

import numpy as np
from msgspec import Struct
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree

from netplan.arrays import Bools, Floats, Ints, distinct_values, places
from netplan.errors import InputError
from netplan.faults.damage.damage import Damage, network_links, no_damage
from netplan.faults.damage.groups import GOLDEN, domain_of_node
from netplan.topologies.graph import FabricGraph, connected_parts
from netplan.topologies.graph.flow import Flow, largest_flow, largest_units
from netplan.traffic.matrix import sum_by
from netplan.traffic.routing import forwarding_nodes

KEPT = 2
"""Blocks of a kind that stay themselves, for pairs between two; others stand together [1]."""

MOST_SPREAD = 8
"""Up to how many times as large as their number values are found in a table [1]."""


def equal_blocks(owner: Ints, value: Ints, count: int) -> Ints:
    """Number owners by the values that they have, equal ones equally, shape (count,).

    Examples
    --------
    >>> equal_blocks(np.array([0, 0, 1, 3, 3]), np.array([5, 7, 5, 7, 5]), 4).tolist()
    [2, 1, 0, 2]
    """
    ordered = _values_by_owner(owner, value, count)
    size = np.bincount(owner, minlength=count)
    begin = np.cumsum(size) - size
    number = np.zeros(count, np.int64)
    numbers = 0
    for length in distinct_values(size).tolist():
        same = np.flatnonzero(size == length)
        rows = ordered[begin[same, None] + np.arange(length)]
        if length:
            # Rows of many columns are compared as bytes, which is much faster.
            row = rows.view(np.dtype((np.void, rows.itemsize * length))).ravel()
            number[same] = np.unique(row, return_inverse=True)[1]
        number[same] += numbers
        numbers = int(number[same].max()) + 1
    return number


def _values_by_owner(owner: Ints, value: Ints, count: int) -> Ints:
    """Values of the first owner in rising order, then those of the next, shape (values,)."""
    base = int(value.max(initial=0)) + 1
    if value.min(initial=0) < 0 or count * base > np.iinfo(np.int64).max:
        return value[np.lexsort((value, owner))]
    # One number for both is sorted several times as fast as two columns.
    return np.sort(owner * base + value) % base


def _ranks(value: Ints) -> tuple[int, Ints]:
    """How many distinct values there are, and the rank of each item's among them."""
    most = int(value.max(initial=0))
    if value.min(initial=0) < 0 or most > MOST_SPREAD * len(value):
        distinct, rank = np.unique(value, return_inverse=True)
        return len(distinct), rank
    # A table takes one look at each item, where sorting takes many.
    seen = np.zeros(most + 1, bool)
    seen[value] = True
    number = np.cumsum(seen) - 1
    return int(number[-1]) + 1, number[value]


def row_codes(*columns: Ints) -> Ints:
    """Number rows of some columns, equal ones equally, shape (rows,).

    Examples
    --------
    >>> row_codes(np.array([4, 4, 2, 4]), np.array([0, 1, 0, 0])).tolist()
    [1, 2, 0, 1]
    """
    code = _ranks(columns[0])[1]
    for column in columns[1:]:
        values, place = _ranks(column)
        code = _ranks(code * values + place)[1]
    return code


class BlockLevel(Struct, frozen=True, eq=False):
    """Blocks of one level, and the links of which an own switch of theirs is the lower end.

    Parameters
    ----------
    parent
        Block of the next level around each, shape (blocks,).
    owner, link, position
        Block of each of these links; the link; and one number for the place of its lower end in the
        block and of its upper end in the larger one, shape (entries,).
    """

    parent: Ints
    owner: Ints
    link: Ints
    position: Ints


class BlockTree(Struct, frozen=True, eq=False):
    """Blocks of all levels.

    Parameters
    ----------
    tier
        Of each node: 0 for HB domains, which come first; then of switches, shape (nodes,).
    ends
        Lower and upper end of each link, shape (2, links).
    levels
        Blocks of domains, of domains and leaves, and so on.
    home
        Block of each node on the level of its own tier, shape (nodes,).
    block
        Block of each domain on every level, and of the whole, shape (levels + 1, domains).
    """

    tier: Ints
    ends: Ints
    levels: tuple[BlockLevel, ...]
    home: Ints
    block: Ints

    @classmethod
    def of(cls, tier: Ints, ends: Ints) -> "BlockTree":
        """Blocks of a graph of nodes of some tiers; ``ends`` of links has shape (2, links)."""
        ends = np.where(tier[ends[0]] <= tier[ends[1]], ends, ends[::-1])
        below, above = tier[ends]
        home, rank = np.zeros((2, len(tier)), np.int64)
        blocks = []
        for top in range(int(tier.max(initial=0)) + 1):
            joined = ends[:, (above <= top) & (top > 0)]
            part, low = connected_parts(len(tier), *joined), tier <= top
            block = np.full(len(tier), -1, np.int64)
            block[low] = np.unique(part[low], return_inverse=True)[1]
            blocks.append(block)
            on_top = np.flatnonzero(tier == top)
            home[on_top] = block[on_top]
            rank[on_top] = places(home[on_top])
        blocks.append(np.zeros(len(tier), np.int64))
        levels = [
            _level((block, around), ends, np.flatnonzero(below == top), (tier, rank))
            for top, (block, around) in enumerate(pairwise(blocks))
        ]
        domains = int(np.count_nonzero(tier == 0))
        return cls(tier, ends, tuple(levels), home, np.stack([block[:domains] for block in blocks]))

    def equal_blocks(self, label: Ints) -> "BlockClasses":
        """Blocks that are alike, where equal links have equal labels, shape (links,)."""
        labels = int(label.max(initial=0)) + 1
        kinds: list[Ints] = []
        for level, inner in zip(self.levels, (None, *self.levels), strict=False):
            owner, value = level.owner, level.position * labels + label[level.link]
            if inner is not None:
                base = int(value.max(initial=0)) + 1
                owner = np.concatenate([owner, inner.parent])
                value = np.concatenate([value, base + kinds[-1]])
            kinds.append(equal_blocks(owner, value, len(level.parent)))
        # From the whole down, where blocks of one kind are alike if they are in one block.
        orbit, stands_for, itself = (
            [np.zeros(1, np.int64)],
            [np.ones(1, np.int64)],
            [np.ones(1, bool)],
        )
        for level, kind in zip(reversed(self.levels), reversed(kinds), strict=True):
            parent = level.parent
            siblings = row_codes(parent, kind)
            place = places(siblings)
            others = np.bincount(siblings)[siblings] - KEPT
            here = np.where(place < KEPT, 1, np.where(place == KEPT, others, 0))
            orbit.append(row_codes(orbit[-1][parent], kind))
            stands_for.append(stands_for[-1][parent] * here)
            itself.append(itself[-1][parent] & (place < KEPT))
        return BlockClasses(self, orbit[::-1], stands_for[::-1], itself[::-1])


def _level(
    blocks: tuple[Ints, Ints], ends: Ints, link: Ints, where: tuple[Ints, Ints]
) -> BlockLevel:
    """Blocks of a level; a link between two domains is one of both, by the other's number."""
    (block, around), (tier, rank) = blocks, where
    direct = np.flatnonzero(tier[ends[1, link]] == 0)
    low, high = np.concatenate([ends[:, link], ends[::-1, link[direct]]], axis=1)
    position = row_codes(rank[low], tier[high], np.where(tier[high] > 0, rank[high], high))
    inside = block >= 0
    parent = np.zeros(int(block.max(initial=-1)) + 1, np.int64)
    parent[block[inside]] = around[inside]
    return BlockLevel(parent, block[low], np.append(link, link[direct]), position)


class BlockClasses(Struct, frozen=True, eq=False):
    """Blocks that are alike, level by level from the domains to the whole.

    Parameters
    ----------
    tree
        All blocks.
    orbit
        Blocks that swaps take to one another have the same number, shape (blocks,) each.
    stands_for
        How many blocks each stands for [1]: the first ones of a kind for themselves, the next for
        all others, which stand for none, shape (blocks,) each.
    itself
        Whether a block, and every one around it, stands for itself alone, shape (blocks,) each.
    """

    tree: BlockTree
    orbit: list[Ints]
    stands_for: list[Ints]
    itself: list[Bools]

    @property
    def of_domains(self) -> Ints:
        """Number of the block of each domain on every level, equal for like ones."""
        pairs = zip(self.orbit, self.tree.block, strict=True)
        return np.stack([numbers[block] for numbers, block in pairs])


MAX_FORESTS = 64
"""Forests that are taken away at most; whom they leave apart asks its hub [1]."""


MAX_SENDERS = 1024
"""Nodes up to which each sends to its hub [1]."""


def merge_nodes(ends: Ints, units: Floats, need: Floats, label: Ints | None = None) -> Ints:
    """Number nodes, equally where any cut between them has the capacity that they need.

    Parameters
    ----------
    ends, units
        The two nodes of each link, the lower number first and at most one link for two nodes, shape
        (2, links); its capacity.
    need
        The capacity that each node needs, alike for all that hang together, shape (nodes,).
    label
        Equal for nodes of which that is known; None asks the forests.

    Examples
    --------
    A ring has no two trees, but two ways from each node to any other.

    >>> ring, need = np.array([[0, 0, 1, 2], [1, 3, 2, 3]]), np.full(4, 2.0)
    >>> len(np.unique(merge_by_forests(ring, np.ones(4), need)))
    3
    >>> merge_nodes(ring, np.ones(4), need).tolist()
    [0, 0, 0, 0]
    """
    label = merge_by_forests(ends, units, need) if label is None else label
    count = int(label.max(initial=-1)) + 1
    needed = np.zeros(count)
    needed[label] = need
    ends = label[ends]
    apart = ends[0] != ends[1]
    ends, units = ends[:, apart], units[apart]
    degree = sum_by(ends.ravel(), np.tile(units, 2), count)
    part = connected_parts(count, *ends)
    hub = np.zeros(count, np.int64)
    order = np.argsort(degree, kind="stable")
    hub[part[order]] = order  # the last one written is the widest
    hub = hub[part]
    senders = np.flatnonzero((degree >= needed) & (hub != np.arange(count)))
    if len(senders) > MAX_SENDERS:
        return label
    # No flow leads from one part to another: all hubs may be one sink.
    to_hub = np.where(hub[ends] == ends, count, ends)
    merged = np.arange(count)
    for sender in senders.tolist():
        if largest_units(to_hub, units, sender, count) >= needed[sender]:
            merged[sender] = hub[sender]
    return np.unique(merged, return_inverse=True)[1][label]


def merge_by_forests(ends: Ints, units: Floats, need: Floats) -> Ints:
    """Number nodes as :func:`merge_nodes`, by forests alone.

    Examples
    --------
    Of four nodes that all join each other, and one on a single link, two trees join the four.

    >>> ends = np.array([[0, 0, 0, 1, 1, 2, 3], [1, 2, 3, 2, 3, 3, 4]])
    >>> merge_by_forests(ends, np.ones(7), np.full(5, 2.0)).tolist()
    [0, 0, 0, 0, 1]
    """
    nodes = len(need)
    label = np.arange(nodes)
    step = gcd(*units.astype(np.int64).tolist())
    forests = np.ceil(need / step) if step else np.zeros(nodes)
    left = units // max(step, 1)
    low, high = ends
    link = low * nodes + high
    order = np.argsort(link)
    # Who needs more than the most forests is told by none: with no other, none is looked for.
    for number in range(1, int(forests[forests <= MAX_FORESTS].max(initial=0)) + 1):
        there = np.flatnonzero(left > 0)
        degree = np.bincount(ends[:, there].ravel(), minlength=nodes)
        # Nodes that have few links left keep them: trees turn at those that have many. Multiples of
        # the golden ratio, less whole numbers, tell equal links apart and spread over all numbers.
        scarce = np.minimum(degree[low[there]], degree[high[there]])
        weight = 1.0 + scarce.max(initial=0) - scarce + (there * GOLDEN) % 1
        graph = csr_array((weight, (low[there], high[there])), shape=(nodes, nodes))
        tree = minimum_spanning_tree(graph).tocoo()
        enough = forests == number
        label[enough] = number * nodes + connected_parts(nodes, tree.row, tree.col)[enough]
        taken = np.searchsorted(link, tree.row.astype(np.int64) * nodes + tree.col, sorter=order)
        left[order[taken]] -= 1
    return np.unique(label, return_inverse=True)[1]


def widest_paths(ends: Ints, units: Floats, switches: int) -> Floats:
    """Most that one domain has to all that hangs together with each switch, shape (switches,).

    Domains have negative numbers.

    Examples
    --------
    Domain -1 has 3 to switch 0 and 4 to switch 1, which hang together; -2 has 5 to switch 2.

    >>> ends = np.array([[-1, -1, 0, -2], [0, 1, 1, 2]])
    >>> widest_paths(ends, np.array([3.0, 4, 9, 5]), 3).tolist()
    [7.0, 7.0, 5.0]
    """
    part = connected_parts(switches, *ends[:, (ends >= 0).all(axis=0)])
    at_domain = (ends < 0).sum(axis=0) == 1  # links between two domains reach no switch
    low, high = np.sort(ends[:, at_domain], axis=0)
    pair, place = np.unique(low * switches + part[high], return_inverse=True)
    widest = np.zeros(switches)
    np.maximum.at(widest, pair % switches, sum_by(place, units[at_domain], len(pair)))
    return widest[part]


class Rings(Struct, frozen=True, eq=False):
    """Nodes on rings that make a torus, or several equal ones.

    Parameters
    ----------
    ends
        The two nodes that each link joins, shape (2, links).
    following, link
        Next node of each along every ring, and the link that leads there, shape (rings, nodes).
    """

    ends: Ints
    following: Ints
    link: Ints

    @classmethod
    def of(cls, ends: Ints, group: Ints, nodes: int) -> "Rings | None":
        """Rings of links by their groups; None if they are none, or make no torus."""
        following, links = [], []
        for kind in distinct_values(group).tolist():
            link = np.flatnonzero(group == kind)
            tail, head = ends[:, link]
            if 2 * len(link) == nodes:  # rings of two nodes have one link
                tail, head, link = np.append(tail, head), np.append(head, tail), np.tile(link, 2)
            if (
                len(link) != nodes
                or len(distinct_values(tail)) < nodes
                or len(distinct_values(head)) < nodes
            ):
                return None
            order = np.argsort(tail)
            following.append(head[order])
            links.append(link[order])
        if not links:
            return None
        rings = cls(ends, np.stack(following), np.stack(links))
        return rings if rings._is_torus() else None

    def _is_torus(self) -> bool:
        """Whether steps along different rings commute, and lead to as many nodes as they can.

        Where they lead to all nodes, fewer will do, as in a twisted torus: what commutes and takes
        any node to any other leaves none where it is but all.
        """
        if any(np.any(a[b] != b[a]) for a, b in combinations(self.following, 2)):
            return False
        node = np.arange(self.following.shape[1])
        sizes = [np.bincount(connected_parts(len(node), node, ring)) for ring in self.following]
        whole = np.bincount(connected_parts(len(node), *self.ends))
        even = all(np.all(size == size[0]) for size in sizes)
        free = bool(np.all(whole == prod(int(size[0]) for size in sizes)))
        return even and (free or len(whole) == 1)

    def moves(self, nodes: set[int]) -> dict[int, Ints]:
        """Where all nodes come to when node 0 comes to some others, shape (nodes,) each."""
        steps = [*self.following, *(np.argsort(ring) for ring in self.following)]
        moves = {0: np.arange(self.following.shape[1])}
        rim = [0]
        while rim and not nodes <= moves.keys():
            new = {int(step[node]): (node, step) for node in rim for step in steps}
            rim = [node for node in new if node not in moves]
            for node in rim:
                before, step = new[node]
                moves[node] = step[moves[before]]
        return moves


class MovedFlows(Struct, frozen=True, eq=False):
    """One largest flow between neighbours along every ring, moved to all nodes.

    Parameters
    ----------
    rings
        The torus.
    uses
        Of every ring: links that the flow from each node to the next one takes, as the ring that a
        link is of and the node where it begins, shape (nodes,) each.
    """

    rings: Rings
    uses: list[list[tuple[int, Ints]]]

    @classmethod
    def of(cls, rings: Rings, units: Floats) -> "MovedFlows | None":
        """Flows that fill all links of a node; None if there are none, or rates differ by place."""
        rate = units[rings.link]
        if np.any(rate != rate[:, :1]):
            return None
        full = units[(rings.ends == 0).any(axis=0)].sum()
        place = {
            int(link): divmod(number, rate.shape[1]) for number, link in enumerate(rings.link.flat)
        }
        # Flows from node 0 to its neighbours, within what hangs together with it.
        nodes = int(rings.ends.max()) + 1
        part = connected_parts(nodes, *rings.ends)
        near = np.flatnonzero(part[rings.ends[0]] == part[0])
        used = []
        for following in rings.following:
            ends = np.where(rings.ends == following[0], nodes, rings.ends)[:, near]
            flow = largest_flow(ends, units[near], 0, nodes)
            if flow.units < full:
                return None
            used.append([place[link] for link in near[flow.links].tolist()])
        moves = rings.moves({node for links in used for _, node in links})
        return cls(rings, [[(ring, moves[node]) for ring, node in links] for links in used])

    def merge_nodes(self, whole: Bools) -> Ints:
        """Number nodes, equally where whole links (a mask) carry what fills all of a node's."""
        there = whole[self.rings.link]
        pairs = []
        for following, used in zip(self.rings.following, self.uses, strict=True):
            flows = np.flatnonzero(np.all([there[ring][begin] for ring, begin in used], axis=0))
            pairs.append(np.stack((flows, following[flows])))
        return connected_parts(self.rings.following.shape[1], *np.concatenate(pairs, axis=1))


STEPS_PER_RATE = 1 << 20
MAX_UNITS = 1 << 30
"""Units of all links of a domain, at most: SciPy counts in 32 bits [1]."""


class ReducedGraph(Struct, frozen=True, eq=False, dict=True):
    """Where the links of a fabric are in its reduced graph, the same for all damage.

    Parameters
    ----------
    graph
        The fabric.
    domain
        HB domain of each node of the reduced graph, -1 for network switches, shape (nodes,).
    ends
        The two nodes that each of its links joins, shape (2, reduced links).
    used, place
        Links of the fabric in it, and the reduced link that each is part of, shape (used,).
    transit, ending
        Capacity of each for the traffic of others, and for that of the domain at one of its ends,
        in units, shape (used,).
    unit_bytes_per_s
        What a capacity of 1 stands for [B/s].
    """

    graph: FabricGraph
    domain: Ints
    ends: Ints
    used: Ints
    place: Ints
    transit: Floats
    ending: Floats
    unit_bytes_per_s: float

    def left(self, damage: Damage) -> "FlowNetwork":
        """What damage leaves.

        Raises
        ------
        InputError
            If the damage is that of another graph.
        """
        live = ~damage.links_out(self.graph)
        rates = (self.transit * live[self.used], self.ending * live[self.used])
        size = self.ends.shape[1]
        return FlowNetwork(self, *(sum_by(self.place, rate, size) for rate in rates))

    @cached_property
    def intact(self) -> "FlowNetwork":
        """The fabric without damage."""
        return self.left(no_damage(self.graph))

    @cached_property
    def passing(self) -> bool:
        """Whether domains pass on what is not theirs."""
        at_domain = np.any(self.domain[self.ends] >= 0, axis=0, keepdims=True)[0, self.place]
        return bool(np.any(self.transit[at_domain]))

    @cached_property
    def switched(self) -> tuple[Ints, Ints]:
        """The same with domains that pass nothing on: tiers of nodes, and ends of links.

        Domains come first, at tier 0, then all nodes that pass traffic on. A GPU that does is a
        node like a switch, and its domain joins it with as much as all of its links have: these
        links come last.
        """
        switch = np.flatnonzero(self.domain < 0)
        turn = np.arange(self.graph.gpus if self.passing else 0)  # GPUs that pass on the rest
        node = self.domain.copy()
        node[switch] = self.graph.domains + len(turn) + np.arange(len(switch))
        node[turn] = self.graph.domains + np.arange(len(turn))
        tiers = np.append(np.zeros(len(turn), np.int64), 1 + self.graph.node_tier[switch])
        tier = 1 + np.unique(tiers, return_inverse=True)[1]
        ends = np.concatenate([node[self.ends], np.stack((self.domain[turn], node[turn]))], axis=1)
        return np.append(np.zeros(self.graph.domains, np.int64), tier), ends

    @cached_property
    def blocks(self) -> BlockTree:
        """Blocks of this graph."""
        return BlockTree.of(*self.switched)

    @cached_property
    def moved_flows(self) -> MovedFlows | None:
        """Flows between neighbours, where GPUs on rings are the whole network."""
        if not self.passing or np.any(self.domain[self.ends] < 0):
            return None
        graph, links = self.graph, self.used
        ends = np.stack((graph.source[links], graph.target[links])).astype(np.int64)
        axis = graph.axis_of_link("ring", "mesh")[links]
        rings = Rings.of(ends, axis, graph.gpus)
        return None if rings is None else MovedFlows.of(rings, self.transit)


class FlowNetwork(Struct, frozen=True, eq=False, dict=True):
    """A reduced graph with what is left of its capacities.

    Parameters
    ----------
    reduced
        The graph, and where the fabric's links are in it.
    transit, ending
        Capacity of each of its links for the traffic of others, and for that of the domain at one
        of its ends, in units, shape (reduced links,).
    """

    reduced: ReducedGraph
    transit: Floats
    ending: Floats

    @property
    def domains(self) -> int:
        """HB domains [1]."""
        return self.reduced.graph.domains

    @property
    def switched_units(self) -> Floats:
        """Capacities of the links of the graph in which domains pass nothing on, in units."""
        reduced = self.reduced
        if not reduced.passing:
            return self.ending
        at_node = sum_by(reduced.ends.ravel(), np.tile(self.transit, 2), len(reduced.domain))
        return np.append(self.transit, at_node[: reduced.graph.gpus])

    @cached_property
    def joined(self) -> Ints:
        """Number of each node that passes traffic on, equal where no smallest cut parts them."""
        reduced, domains = self.reduced, self.domains
        tier, ends = reduced.switched
        between = (tier[ends] > 0).all(axis=0)
        moved, known = reduced.moved_flows, None
        if moved is not None:
            known = moved.merge_nodes((self.transit == reduced.intact.transit)[reduced.place])
        need = widest_paths(ends - domains, reduced.intact.switched_units, len(tier) - domains)
        return merge_nodes(ends[:, between] - domains, self.switched_units[between], need, known)

    @cached_property
    def egress_bytes_per_s(self) -> Floats:
        """Bandwidth that can leave each domain, no less than any max-flow [B/s]."""
        reduced, nodes = self.reduced, len(self.reduced.domain)
        inside = reduced.domain[reduced.ends]
        link, side = np.nonzero((inside >= 0).T & (inside[0] != inside[1])[:, None])
        key, place = np.unique(
            inside[side, link] * nodes + reduced.ends[1 - side, link], return_inverse=True
        )
        domain, node = np.divmod(key, nodes)
        total = sum_by(reduced.ends.ravel(), np.tile(self.ending, 2), nodes)
        to_node = sum_by(place, self.ending[link], len(node))
        # A GPU at the other end is a destination itself: only its own links limit what goes there.
        onward = np.where(reduced.domain[node] >= 0, np.inf, total[node] - to_node)
        units = sum_by(domain, np.minimum(to_node, onward), self.domains)
        return units * reduced.unit_bytes_per_s

    @cached_property
    def lost(self) -> tuple[int, Ints]:
        """Capacity that all have lost, and that each domain has for itself alone, in units."""
        reduced, intact = self.reduced, self.reduced.intact
        lost = np.where(intact.transit > 0, 0.0, intact.ending - self.ending)
        domain = reduced.domain[reduced.ends].max(axis=0)
        alone = sum_by(domain[lost > 0], lost[lost > 0], self.domains)
        return int((intact.transit - self.transit).sum()), alone.astype(np.int64)

    def lost_units(self, a: Ints, b: Ints) -> Ints:
        """What a flow between two domains has lost of the intact one at the most, in units.

        A smallest cut loses no more than all that is gone, and of what domains lost for themselves
        alone a pair has its own two.
        """
        shared, alone = self.lost
        return shared + alone[a] + alone[b]

    @cached_property
    def max_flows(self) -> dict[tuple[int, int], Flow]:
        """Max-flows found so far."""
        return {}

    def flow(self, a: int, b: int) -> Flow:
        """A largest flow between two domains.

        Raises
        ------
        InputError
            If a domain is unknown, or both are the same.
        """
        if not (0 <= a < self.domains and 0 <= b < self.domains) or a == b:
            raise InputError(
                f"no bandwidth between domains {a} and {b}: give two of 0 to {self.domains - 1}"
            )
        if (a, b) not in self.max_flows:
            domain, ends = self.reduced.domain, self.reduced.ends
            source, sink = len(domain), len(domain) + 1
            ends = np.where(domain[ends] == a, source, np.where(domain[ends] == b, sink, ends))
            ending = (ends >= source).any(axis=0)
            units = np.where(ending, self.ending, self.transit)
            self.max_flows[a, b] = self._spared(a, b) or largest_flow(ends, units, source, sink)
        return self.max_flows[a, b]

    def _spared(self, a: int, b: int) -> Flow | None:
        """The flow of the intact fabric, if all links that it takes are whole."""
        intact = self.reduced.intact
        flow = intact.max_flows.get((a, b))
        if flow is None:
            return None
        links = flow.links
        whole = np.array_equal(self.transit[links], intact.transit[links])
        return flow if whole and np.array_equal(self.ending[links], intact.ending[links]) else None


def reduced_graph(graph: FabricGraph) -> ReducedGraph:
    """Reduce a fabric to a graph on which max-flows are quick.

    Examples
    --------
    Domain 0 has lost rail 0 and domain 1 rail 1: six of eight rails are left.

    >>> from netplan import Scenario
    >>> from netplan.faults.damage.scenario import parse_faults
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=256, radix=32)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> network = reduced_graph(graph).left(parse_faults(["gpu-0:1", "gpu-9:1"], graph))
    >>> network.flow(0, 1).units * network.reduced.unit_bytes_per_s / 50e9
    6.0
    """
    outer = network_links(graph)
    used = np.flatnonzero(outer)
    unit = _unit(graph, outer)
    rate = np.floor(graph.bytes_per_s[used] / unit + 1e-9)
    ends = np.stack((graph.source[used], graph.target[used])).astype(np.int64)
    domain, transit = domain_of_node(graph), rate
    if not forwarding_nodes(graph, used)[0]:
        transit = np.where((ends < graph.gpus).any(axis=0), 0.0, rate)
        # GPUs pass nothing on: links of a domain to a switch end in one place.
        at_gpu = ends < graph.gpus
        ends = np.where(at_gpu, ends // graph.hb_size * graph.hb_size, ends)
        # A link between GPUs of two domains gets nodes of its own, so that nothing passes through.
        direct = np.flatnonzero(at_gpu.all(axis=0))
        domain = np.concatenate([domain, domain[ends[:, direct]].ravel()])
        ends[:, direct] = graph.node_count + np.arange(2 * len(direct)).reshape(2, -1)
    nodes = len(domain)
    key, place = np.unique(ends.min(axis=0) * nodes + ends.max(axis=0), return_inverse=True)
    ends = np.stack(np.divmod(key, nodes))
    return ReducedGraph(graph, domain, ends, used, place, transit, rate, unit)


def _unit(graph: FabricGraph, outer: Bools) -> float:
    """Rate that all others are multiples of, or a small part of the largest [B/s]."""
    rates = graph.bytes_per_s
    distinct = distinct_values(rates[rates > 0])
    if not len(distinct):
        return 1.0
    total = 0.0
    for end in (graph.source, graph.target):
        at_gpu = outer & (end < graph.gpus)
        total += float(sum_by(end[at_gpu] // graph.hb_size, rates[at_gpu], graph.domains).max())
    if not np.any(distinct % 1):
        unit = float(gcd(*(int(rate) for rate in distinct)))
        if total / unit <= MAX_UNITS:
            return unit
    return max(float(distinct[-1]) / STEPS_PER_RATE, total / MAX_UNITS)

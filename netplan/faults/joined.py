"""Switches that are joined so well that no pair's smallest cut parts them.

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

from itertools import combinations
from math import gcd, prod

import numpy as np
from msgspec import Struct
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree

from netplan.arrays import Bools, Floats, Ints
from netplan.faults.groups import GOLDEN
from netplan.faults.max_flow import Flow, largest_flow, largest_units
from netplan.topologies.graph import connected_parts
from netplan.traffic.matrix import sum_by

MAX_FORESTS = 64
"""Forests that are taken away at most; whom they leave apart asks its hub [1]."""


MAX_SENDERS = 1024
"""Nodes up to which each sends to its hub [1]."""


def join(ends: Ints, units: Floats, need: Floats, label: Ints | None = None) -> Ints:
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
    >>> len(np.unique(join_by_forests(ring, np.ones(4), need)))
    3
    >>> join(ring, np.ones(4), need).tolist()
    [0, 0, 0, 0]
    """
    label = join_by_forests(ends, units, need) if label is None else label
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
    for one in senders.tolist():
        if largest_units(to_hub, units, one, count) >= needed[one]:
            merged[one] = hub[one]
    return np.unique(merged, return_inverse=True)[1][label]


def join_by_forests(ends: Ints, units: Floats, need: Floats) -> Ints:
    """Number nodes as :func:`join`, by forests alone.

    Examples
    --------
    Of four nodes that all join each other, and one on a single link, two trees join the four.

    >>> ends = np.array([[0, 0, 0, 1, 1, 2, 3], [1, 2, 3, 2, 3, 3, 4]])
    >>> join_by_forests(ends, np.ones(7), np.full(5, 2.0)).tolist()
    [0, 0, 0, 0, 1]
    """
    nodes = len(need)
    found = np.arange(nodes)
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
        found[enough] = number * nodes + connected_parts(nodes, tree.row, tree.col)[enough]
        taken = np.searchsorted(link, tree.row.astype(np.int64) * nodes + tree.col, sorter=order)
        left[order[taken]] -= 1
    return np.unique(found, return_inverse=True)[1]


def widest(ends: Ints, units: Floats, switches: int) -> Floats:
    """Most that one domain has to all that hangs together with each switch, shape (switches,).

    Domains have negative numbers.

    Examples
    --------
    Domain -1 has 3 to switch 0 and 4 to switch 1, which hang together; -2 has 5 to switch 2.

    >>> ends = np.array([[-1, -1, 0, -2], [0, 1, 1, 2]])
    >>> widest(ends, np.array([3.0, 4, 9, 5]), 3).tolist()
    [7.0, 7.0, 5.0]
    """
    part = connected_parts(switches, *ends[:, (ends >= 0).all(axis=0)])
    at_domain = (ends < 0).any(axis=0)
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
        for kind in np.unique(group).tolist():
            link = np.flatnonzero(group == kind)
            one, other = ends[:, link]
            if 2 * len(link) == nodes:  # rings of two nodes have one link
                one, other, link = np.append(one, other), np.append(other, one), np.tile(link, 2)
            if len(link) != nodes or len(np.unique(one)) < nodes or len(np.unique(other)) < nodes:
                return None
            order = np.argsort(one)
            following.append(other[order])
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
        if any(np.any(one[two] != two[one]) for one, two in combinations(self.following, 2)):
            return False
        sizes = [
            np.bincount(connected_parts(len(one), np.arange(len(one)), one))
            for one in self.following
        ]
        whole = np.bincount(connected_parts(self.following.shape[1], *self.ends))
        even = all(np.all(size == size[0]) for size in sizes)
        free = bool(np.all(whole == prod(int(size[0]) for size in sizes)))
        return even and (free or len(whole) == 1)

    def moves(self, nodes: set[int]) -> dict[int, Ints]:
        """Where all nodes come to when node 0 comes to some others, shape (nodes,) each."""
        steps = [*self.following, *(np.argsort(one) for one in self.following)]
        found = {0: np.arange(self.following.shape[1])}
        rim = [0]
        while rim and not nodes <= found.keys():
            new = {int(step[node]): (node, step) for node in rim for step in steps}
            rim = [node for node in new if node not in found]
            for node in rim:
                before, step = new[node]
                found[node] = step[found[before]]
        return found


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
            int(at): divmod(number, rate.shape[1]) for number, at in enumerate(rings.link.flat)
        }
        flows = [_to_next(rings.ends, units, int(one[0])) for one in rings.following]
        if any(flow.units < full for flow in flows):
            return None
        used = [[place[at] for at in flow.links.tolist()] for flow in flows]
        moves = rings.moves({node for links in used for _, node in links})
        return cls(rings, [[(ring, moves[node]) for ring, node in links] for links in used])

    def join(self, whole: Bools) -> Ints:
        """Number nodes, equally where whole links (a mask) carry what fills all of a node's."""
        there = whole[self.rings.link]
        pairs = []
        for following, used in zip(self.rings.following, self.uses, strict=True):
            flows = np.flatnonzero(np.all([there[ring][begin] for ring, begin in used], axis=0))
            pairs.append(np.stack((flows, following[flows])))
        return connected_parts(self.rings.following.shape[1], *np.concatenate(pairs, axis=1))


def _to_next(ends: Ints, units: Floats, other: int) -> Flow:
    """A largest flow from node 0 to another, within what hangs together with node 0."""
    nodes = int(ends.max()) + 1
    part = connected_parts(nodes, *ends)
    near = np.flatnonzero(part[ends[0]] == part[0])
    found = largest_flow(np.where(ends == other, nodes, ends)[:, near], units[near], 0, nodes)
    return Flow(found.units, near[found.links])

"""How far each phase fills the leaves and pods of a Clos network that grows, for the least price.

With few hosts a leaf, a phase has more leaves, but fewer planes of spines: a leaf needs uplinks for
the hosts that it has. With few leaves a pod, it has more pods, but fewer cores: a spine needs links
up for the leaves that it has. All is by formula; :mod:`netplan.topologies.growth` fills the leaves.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.topologies.families.clos import FatTree, LeafPorts, ceil_div

MOST_FILLS = 32
"""Numbers of hosts a leaf, and of pods, that are tried [1]."""

TIE = 1e-6
"""What paying early costs at least, so that of phases that cost alike the smaller is taken [1]."""


class Fill(Struct, frozen=True):
    """How far a phase fills the final design: its leaves, and leaves a pod at most [1]."""

    leaves: int
    each: int

    @classmethod
    def whole(cls, tree: FatTree) -> "Fill":
        """All leaves."""
        return cls(tree.leaves, ceil_div(tree.leaves, pods_of(tree)))


class Weights(Struct, frozen=True):
    """What a phase is judged by: price of a switch and of a link, and what its early price costs.

    ``early`` has for each phase the share of the price that paying in it, and not in the next,
    costs; the last one's design is given [1].
    """

    switch: float
    link: float
    early: tuple[float, ...]


class _Choices(Struct, frozen=True, eq=False):
    """Fills that a phase may have: leaves, leaves a pod and pods, and their price, shape (n,)."""

    leaves: Ints
    each: Ints
    pods: Ints
    price: Floats

    def before(self, other: "_Choices") -> Bools:
        """Which fills of a phase may follow these in the next, shape (these, others)."""
        grows = np.ones((len(self.leaves), len(other.leaves)), bool)
        for name in ("leaves", "each", "pods"):
            grows &= getattr(self, name)[:, None] <= getattr(other, name)[None, :]
        return grows


def best_fills(
    tree: FatTree,
    ports: LeafPorts,
    arrivals: Sequence[int],
    weights: Weights,
    early_oversubscription: float = 1.0,
    *,
    even: bool = True,
) -> list[Fill]:
    """Leaves, and leaves a pod, phase by phase, that cost least; neither ever shrinks.

    What a phase has is paid for in it and not in the next one, so that the price of all phases is
    the sum over them of what they have, times what paying it so early costs: a shortest path over
    the fills of the phases.

    Parameters
    ----------
    tree, ports
        The final network, and how its leaves split their ports.
    arrivals
        Endpoints of every phase; the last one has all [1].
    weights
        What early switches and links cost.
    early_oversubscription
        Leaf uplinks that a full network would have over those of a phase before the last [1].
    even
        Whether the pods of every phase have as many leaves, as OpenSM's fat-tree routing asks.

    Examples
    --------
    512 hosts on two tiers of 64 ports: h a leaf need 512 / h leaves and h spines, least near
    sqrt(512) = 22.6: 22 + 24, or 19 + 27.

    >>> from netplan.topologies.families.clos import fat_tree, leaf_ports
    >>> tree, ports = fat_tree(2048, 64), leaf_ports(64)
    >>> best_fills(tree, ports, [512, 2048], Weights(1.0, 0.0, (1.0, 0.0)))
    [Fill(leaves=19, each=19), Fill(leaves=64, each=64)]
    """
    found = [Fill.whole(tree)]
    phases = [
        _choices(tree, ports, ends, weights, early_oversubscription, even=even)
        for ends in arrivals[:-1]
    ]
    if not phases:
        return found
    best = phases[0].price * max(weights.early[0], TIE)
    back: list[Ints] = []
    for number, (one, two) in enumerate(pairwise(phases), start=1):
        path = np.where(one.before(two), best[:, None], np.inf)
        back.append(path.argmin(axis=0))
        best = path.min(axis=0) + two.price * max(weights.early[number], TIE)
    # Of equals the fullest leaves, which are the fewest places to lay cables to.
    at = len(best) - 1 - int(best[::-1].argmin())
    for number in range(len(phases) - 1, -1, -1):
        found.append(Fill(int(phases[number].leaves[at]), int(phases[number].each[at])))
        at = int(back[number - 1][at]) if number else at
    return found[::-1]


def pods_of(tree: FatTree) -> int:
    """Pods of the leaves; one where two tiers suffice [1]."""
    return tree.tiers[1].switches if tree.tiers[1:] else 1


def _choices(
    tree: FatTree, ports: LeafPorts, ends: int, weights: Weights, early: float, *, even: bool
) -> _Choices:
    """All fills that hold so many endpoints, with the price of what each needs."""
    whole = Fill.whole(tree)
    hosts, pods = (
        axis.ravel()
        for axis in np.meshgrid(
            _tried(tree.hosts_per_leaf), _tried(pods_of(tree))[::-1], indexing="ij"
        )
    )
    leaves = -(-ends // hosts)
    each = -(-leaves // pods)
    leaves = each * pods if even else leaves
    pods = -(-leaves // each)
    price = _price(tree, ports, (ends, leaves, each), weights, early)
    fits = (leaves <= tree.leaves) & (each <= whole.each) & (leaves <= max(ends, 1))
    return _Choices(leaves, each, pods, np.where(fits, price, np.inf))


def _tried(most: int) -> Ints:
    """Numbers up to the most, all of them or some."""
    return np.unique(np.linspace(1, most, min(most, MOST_FILLS)).round().astype(np.int64))


def _price(
    tree: FatTree, ports: LeafPorts, filled: tuple[int, Ints, Ints], weights: Weights, early: float
) -> Floats:
    """Price of the switches and links that endpoints on so many leaves need, tier by tier."""
    ends, count, fill = filled
    hosts = -(-ends // count)
    need = np.ceil(-(-hosts * ports.up // ports.down) / early / tree.trunk_width).astype(np.int64)
    switches, links = count.copy(), 0 * count + ends
    width = 0 * count + 1
    for number, (lower, tier) in enumerate(zip(tree.tiers, tree.tiers[1:], strict=False)):
        used = np.minimum(tier.planes, -(-need // tier.links_each)) * (count > 1)
        links = links + width * count * used * tier.links_each
        width = width * used
        if number:
            fill = 0 * count + ceil_div(lower.switches, tier.switches)
        above = -(-count // fill) if tier.switches > 1 else 0 * count + 1
        switches = switches + width * above
        need = np.minimum(fill, count) * tier.links_each
        count = above
    price: Floats = weights.switch * switches + weights.link * links
    return price

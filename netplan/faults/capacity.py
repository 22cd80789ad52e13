"""Bandwidth that is left between HB domains, next to that of the intact fabric.

It is taken over all pairs of small fabrics. On large ones two choices are made:

*affected*  domains that lost GPUs or egress, those that lost most first: each with one domain that
            lost nothing, and the worst of them with each other; they show the worst
*sampled*   pairs at random among all domains that still have a GPU; they show the mean

The bandwidth of a pair is a max-flow (`netplan.faults.flows`). Damage high in a network (cores)
leaves the egress of every domain whole: then only the sample sees it.
"""

from itertools import combinations

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError
from netplan.faults.damage import Damage
from netplan.faults.flows import FlowNetwork, reduced_graph
from netplan.topologies.graph import FabricGraph

MAX_PAIRS = 300
"""Pairs computed unless more are asked for: about 2 s at 32,768 GPUs, both fabrics together."""
WORST = 6
"""Domains that lost most, which are also paired with each other."""


class Remaining(Struct, frozen=True, eq=False):
    """Bandwidth between pairs of HB domains, one way.

    Parameters
    ----------
    first, second
        The two domains of each pair, shape (pairs,).
    bytes_per_s, intact_bytes_per_s
        Max-flow on what is left, and on the intact fabric [B/s], shape (pairs,).
    sampled
        Whether a pair was drawn at random, or all were taken, shape (pairs,).
    all_pairs
        Pairs of domains that still have a GPU, computed or not [1].
    domains_lost
        Domains that have no GPU left [1].
    """

    first: Ints
    second: Ints
    bytes_per_s: Floats
    intact_bytes_per_s: Floats
    sampled: Bools
    all_pairs: int
    domains_lost: int

    @property
    def share(self) -> Floats:
        """What is left of each pair's bandwidth [1]; pairs that never had any count as whole."""
        had = self.intact_bytes_per_s > 0
        intact = np.where(had, self.intact_bytes_per_s, 1.0)
        left: Floats = np.where(had, self.bytes_per_s / intact, 1.0)
        return left

    @property
    def worst_share(self) -> float | None:
        """Smallest share over the pairs computed [1]; None without any pair."""
        return float(self.share.min()) if len(self.share) else None

    @property
    def exact(self) -> bool:
        """Whether the worst and the mean are those of all pairs."""
        return len(self.first) == self.all_pairs

    @property
    def worst_low(self) -> float | None:
        """What the smallest share over all pairs is no less than [1]; None without any pair."""
        return self.worst_share if self.exact else 0.0

    @property
    def mean_share(self) -> float | None:
        """Mean share over the pairs drawn at random, or over all [1]; None without any pair."""
        drawn = self.share[self.sampled]
        return float(drawn.mean()) if len(drawn) else None

    @property
    def note(self) -> str:
        """Which pairs were computed, in a sentence."""
        count = len(self.first)
        if not self.all_pairs:
            return "There are no two HB domains to send between."
        if count == self.all_pairs:
            return f"All {count:,} pairs of HB domains are computed."
        drawn = int(self.sampled.sum())
        return (
            f"Of {self.all_pairs:,} pairs of HB domains {count:,} are computed:"
            f" {count - drawn:,} of domains that lost GPUs or ports, for the worst, and {drawn:,}"
            " at random, for the mean."
        )


def remaining_bandwidth(
    graph: FabricGraph,
    damage: Damage,
    *,
    max_pairs: int = MAX_PAIRS,
    rng: np.random.Generator | None = None,
    intact: FlowNetwork | None = None,
) -> Remaining:
    """Bandwidth that remains between HB domains.

    Parameters
    ----------
    graph, damage
        The fabric, and what has failed.
    max_pairs
        Pairs to compute at most; with more, some are chosen as this module says [1].
    rng
        Draws the pairs; None takes a generator with seed 0.
    intact
        Reduced graph of the intact fabric, where many damages of one fabric are asked for.

    Raises
    ------
    InputError
        If the damage is that of another graph, or no pair may be computed.

    Examples
    --------
    One of eight rails is lost.

    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.faults.scenario import parse_faults
    >>> from netplan.topologies.specs import FABRICS
    >>> graph = expand(FABRICS.load("rail-only"), Sizing(128, 16, 8, 450e9, 50e9))
    >>> left = remaining_bandwidth(graph, parse_faults(["rail-3/leaf-0", "domain-5"], graph))
    >>> left.worst_share, left.mean_share, left.all_pairs, left.domains_lost
    (0.875, 0.875, 105, 1)
    """
    if max_pairs < 1:
        raise InputError(f"{max_pairs} pairs of HB domains are too few: give 1 or more")
    rng = np.random.default_rng(0) if rng is None else rng
    before = intact or reduced_graph(graph).intact
    after = before.reduced.left(damage)
    had = before.egress_bytes_per_s
    share = np.where(had > 0, after.egress_bytes_per_s / np.where(had > 0, had, 1.0), 1.0)
    alive = np.flatnonzero(~damage.node_down[: graph.gpus]) // graph.hb_size
    members = np.bincount(alive, minlength=graph.domains)
    first, second, sampled = _choose(members, share, graph, max_pairs, rng)
    there = int(np.count_nonzero(members))
    # The intact flows come first: what damage spares of them is not computed again.
    had_bytes_per_s = _capacities(before, first, second)
    return Remaining(
        first=first,
        second=second,
        bytes_per_s=_capacities(after, first, second),
        intact_bytes_per_s=had_bytes_per_s,
        sampled=sampled,
        all_pairs=there * (there - 1) // 2,
        domains_lost=graph.domains - there,
    )


def _capacities(network: FlowNetwork, first: Ints, second: Ints) -> Floats:
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    return np.array([network.capacity_bytes_per_s(a, b) for a, b in pairs], np.float64)


def _choose(
    members: Ints, share: Floats, graph: FabricGraph, limit: int, rng: np.random.Generator
) -> tuple[Ints, Ints, Bools]:
    """Pairs of domains to compute, and which of them stand for all."""
    there = np.flatnonzero(members)
    count = len(there)
    if count * (count - 1) // 2 <= limit:
        first, second = np.triu_indices(count, 1)
        return there[first], there[second], np.ones(len(first), bool)
    full = np.full(graph.domains, graph.hb_size)
    full[-1] = graph.gpus - (graph.domains - 1) * graph.hb_size
    hurt = there[(share[there] < 1) | (members[there] < full[there])]
    hurt = hurt[np.lexsort((hurt, members[hurt] / full[hurt], share[hurt]))]
    sound = np.setdiff1d(there, hurt)
    other = sound[0] if len(sound) else hurt[-1]
    half = max(1, limit // 2)
    pairs = list(combinations(hurt[:WORST].tolist(), 2))
    pairs = [*pairs, *((one, other) for one in hurt.tolist() if one != other)][:half]
    # As many as may be are drawn always, so that damages of one fabric are seen by the same pairs.
    a = rng.integers(0, count, limit)
    b = (a + rng.integers(1, count, limit)) % count
    drawn = there[np.stack((a, b), 1)][: limit - len(pairs)]
    ends = np.concatenate([np.array(pairs, np.int64).reshape(-1, 2), drawn])
    return ends[:, 0], ends[:, 1], np.arange(len(ends)) >= len(pairs)

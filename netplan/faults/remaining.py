"""Bandwidth that remains between HB domains, next to the intact fabric.

Every domain has its egress, in closed form; pairs of domains have their max-flow. On small fabrics
all pairs are computed. On large ones two choices are made:

*affected*  domains that lost GPUs or egress, those that lost most first: each with one domain that
            lost nothing, and the worst of them with each other; they show the worst
*sampled*   pairs at random among all domains that still have a GPU; they show the mean

Damage high in a network (cores) leaves every egress whole: then only the sample sees it.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError
from netplan.faults.capacity import FlowNetwork, flow_network
from netplan.faults.damage import Damage, no_damage
from netplan.faults.egress import attachments
from netplan.topologies.graph import FabricGraph

MAX_PAIRS = 300
"""Pairs computed unless more are asked for: about 2 s at 32,768 GPUs, both fabrics together."""
WORST = 6
"""Domains that lost most, which are also paired with each other."""


@dataclass(frozen=True, slots=True, eq=False)
class Remaining:
    """Bandwidth between pairs of HB domains, one way.

    Parameters
    ----------
    first, second
        The two domains of each pair, shape (pairs,).
    bytes_per_s, intact_bytes_per_s
        Max-flow on what is left, and on the intact fabric [B/s], shape (pairs,).
    bound_bytes_per_s
        Closed-form bound on what is left, never below the max-flow [B/s], shape (pairs,).
    sampled
        Whether a pair was drawn at random, or all were taken, shape (pairs,).
    all_pairs
        Pairs of domains that still have a GPU, computed or not [1].
    domains_lost
        Domains that have no GPU left [1].
    egress_share
        Egress of each domain next to the intact one [1], shape (domains,).
    """

    first: Ints
    second: Ints
    bytes_per_s: Floats
    intact_bytes_per_s: Floats
    bound_bytes_per_s: Floats
    sampled: Bools
    all_pairs: int
    domains_lost: int
    egress_share: Floats

    @property
    def share(self) -> Floats:
        """What is left of each pair's bandwidth [1]; pairs that never had any count as whole."""
        had = self.intact_bytes_per_s > 0
        intact = np.where(had, self.intact_bytes_per_s, 1.0)
        left: Floats = np.where(had, self.bytes_per_s / intact, 1.0)
        return left

    @property
    def worst_share(self) -> float:
        """Smallest share over the pairs computed [1]; 0 without any pair."""
        return float(self.share.min()) if len(self.share) else 0.0

    @property
    def mean_share(self) -> float:
        """Mean share over the pairs drawn at random, or over all [1]; 0 without any pair."""
        drawn = self.share[self.sampled]
        return float(drawn.mean()) if len(drawn) else 0.0

    @property
    def note(self) -> str:
        """Which pairs were computed, in a sentence."""
        count = len(self.first)
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
    through_domains: bool = False,
    max_pairs: int = MAX_PAIRS,
    rng: np.random.Generator | None = None,
    intact: FlowNetwork | None = None,
) -> Remaining:
    """Bandwidth that remains between HB domains.

    Parameters
    ----------
    graph
        The fabric.
    damage
        What has failed.
    through_domains
        Whether HB domains pass on traffic of others.
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
    whole, left = attachments(graph, no_damage(graph)), attachments(graph, damage)
    had = whole.egress_bytes_per_s
    share = np.where(had > 0, left.egress_bytes_per_s / np.where(had > 0, had, 1.0), 1.0)
    alive = np.flatnonzero(~damage.node_down[: graph.gpus]) // graph.hb_size
    members = np.bincount(alive, minlength=graph.domains)
    first, second, sampled = _choose(members, share, graph, max_pairs, rng)
    bound = np.minimum(left.egress_bytes_per_s[first], left.egress_bytes_per_s[second])
    if not through_domains:
        bound = np.minimum(bound, left.pair_bytes_per_s(first, second))
    before = intact or flow_network(graph, no_damage(graph), through_domains=through_domains)
    after = flow_network(graph, damage, through_domains=through_domains)
    there = int(np.count_nonzero(members))
    return Remaining(
        first=first,
        second=second,
        bytes_per_s=_capacities(after, first, second),
        intact_bytes_per_s=_capacities(before, first, second),
        bound_bytes_per_s=bound,
        sampled=sampled,
        all_pairs=there * (there - 1) // 2,
        domains_lost=graph.domains - there,
        egress_share=share,
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
    drawn = limit - len(pairs)
    a = rng.integers(0, count, drawn)
    b = (a + rng.integers(1, count, drawn)) % count
    ends = np.concatenate([np.array(pairs, np.int64).reshape(-1, 2), there[np.stack((a, b), 1)]])
    return ends[:, 0], ends[:, 1], np.arange(len(ends)) >= len(pairs)

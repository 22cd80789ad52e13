"""Bandwidth that is left between HB domains, next to that of the intact fabric.

The bandwidth of a pair is a max-flow (`netplan.faults.flows`). Pairs that the damage leaves equal
are one class, and of many classes most are settled by bounds (`netplan.faults.pair_classes`): the
worst and the mean are those of all pairs, and where bounds leave some open, lie in a proven
interval. Only where too many domains are like no other are pairs chosen:

*affected*  domains that lost GPUs or egress, those that lost most first: each with one domain that
            lost nothing, and the worst of them with each other; they show the worst
*sampled*   pairs at random among all domains; they show the mean

A domain that lost all GPUs has no bandwidth left, so that one more failure never raises any share.
"""

from itertools import combinations

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints, distinct_values
from netplan.errors import InputError
from netplan.faults.damage import Damage
from netplan.faults.flows import FlowNetwork, reduced_graph
from netplan.faults.pair_classes import PairClasses, PairFlows, class_flows
from netplan.topologies.graph import FabricGraph

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
            return self._of_all_pairs(count)
        drawn = int(np.count_nonzero(self.pairs))
        return (
            f"Of {self.all_pairs:,} pairs of HB domains {count:,} are computed:"
            f" {count - drawn:,} of domains that lost GPUs or ports, for the worst, and {drawn:,}"
            f" at random, for the mean (± {self.mean_half_width:.2%})."
        )

    def _of_all_pairs(self, count: int) -> str:
        """What is known where no pair is left out."""
        kinds = "1 class" if count == 1 else f"{count:,} classes"
        found = "" if count == self.all_pairs else f", in {kinds} of equal damage and place"
        whole = f"all {self.all_pairs:,} pairs of HB domains{found}"
        if self.exact:
            return f"Exact: {whole}."
        worst = "is exact" if self.worst_low == self.worst_share else "between bounds"
        return f"Of {whole}: the worst {worst}, the mean within ± {self.mean_half_width:.2%}."


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

    >>> from netplan import Scenario
    >>> from netplan.faults.scenario import parse_faults
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=128, radix=16)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> left = remaining_bandwidth(graph, parse_faults(["rail-3/leaf-0", "domain-5"], graph))
    >>> left.worst_share, left.mean_share, left.all_pairs, left.domains_lost
    (0.0, 0.765625, 120, 1)
    """
    if max_pairs < 1:
        raise InputError(f"{max_pairs} pairs of HB domains are too few: give 1 or more")
    rng = np.random.default_rng(0) if rng is None else rng
    before = intact or reduced_graph(graph).intact
    after = before.reduced.left(damage)
    all_classes = class_flows(before, after)
    found = all_classes or _one_by_one(before, after, max_pairs, rng)
    alive = np.flatnonzero(~damage.node_down[: graph.gpus]) // graph.hb_size
    intact_bytes_per_s, bytes_per_s = found.most * before.reduced.unit_bytes_per_s
    least_share, share = found.shares()
    return Remaining(
        first=found.classes.first,
        second=found.classes.second,
        bytes_per_s=bytes_per_s,
        intact_bytes_per_s=intact_bytes_per_s,
        least_share=least_share,
        share=share,
        pairs=found.classes.pairs,
        all_pairs=graph.domains * (graph.domains - 1) // 2,
        domains_lost=graph.domains - len(distinct_values(alive)),
        low=0.0 if all_classes else _least_share(before, after),
    )


def _least_share(before: FlowNetwork, after: FlowNetwork) -> float:
    """A share that every pair has left: a smallest cut loses no more than all that is lost.

    Of what domains lost for themselves alone, a pair has its own two at most.
    """
    intact = class_flows(before, before)
    least = int(intact.least[0].min()) if intact else 0
    if not least:
        return 0.0
    shared, alone = after.lost
    lost = shared + int(np.sort(alone)[-2:].sum())
    return max(0.0, 1 - lost / least)


def _one_by_one(
    before: FlowNetwork, after: FlowNetwork, max_pairs: int, rng: np.random.Generator
) -> PairFlows:
    """All pairs, or some chosen ones; and their flows before and after the damage, in units."""
    first, second = np.triu_indices(before.domains, 1)
    pairs = np.ones(len(first), np.int64)
    if len(first) > max_pairs:
        first, second, pairs = _choose(before, after, max_pairs, rng)
    ends = list(zip(first.tolist(), second.tolist(), strict=True))
    # The intact flows come first: what damage spares of them is not computed again.
    units = [[network.flow(a, b).units for a, b in ends] for network in (before, after)]
    flows = np.array(units, np.int64)
    return PairFlows(PairClasses(first, second, pairs), flows, flows)


def _choose(
    before: FlowNetwork, after: FlowNetwork, limit: int, rng: np.random.Generator
) -> tuple[Ints, Ints, Ints]:
    """Pairs of domains to compute, and 1 for those drawn at random, 0 for those that lost most."""
    count, had = before.domains, before.egress_bytes_per_s
    share = np.where(had > 0, after.egress_bytes_per_s / np.where(had > 0, had, 1.0), 1.0)
    order = np.lexsort((after.egress_bytes_per_s, share))
    hurt = order[share[order] < 1].tolist()
    other = int(order[-1])
    half = max(1, limit // 2)
    pairs = list(combinations(hurt[:WORST], 2))
    pairs = [*pairs, *((one, other) for one in hurt if one != other)][:half]
    # As many as may be are drawn always, so that damages of one fabric are seen by the same pairs.
    a = rng.integers(0, count, limit)
    b = (a + rng.integers(1, count, limit)) % count
    drawn = np.stack((a, b), 1)[: limit - len(pairs)]
    ends = np.concatenate([np.array(pairs, np.int64).reshape(-1, 2), drawn])
    return ends[:, 0], ends[:, 1], (np.arange(len(ends)) >= len(pairs)).astype(np.int64)

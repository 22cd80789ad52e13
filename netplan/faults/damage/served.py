"""What failures do to a cluster that serves: servers that stop, and what the others give.

A *server* is one copy of the model on GPUs of its own. It stops when one of these has failed, has
lost all its HB links, or, where the server needs the network, reaches no other domain; it begins
again on GPUs that no server uses, if a place for it is left there. All others go on, and share the
requests in flight evenly. A server whose links have become fewer is timed on levels of what is left
of them: the HB level with the worst share of its GPUs, the network with the pace of its domains
over cuts (`netplan.faults.damage.cuts`). Slow servers are left out where the rest gives more tokens
a second, or keeps a service level that all do not.

Requests come to servers over networks of their own, which do not fail here.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.faults.damage.capacity import remaining_bandwidth
from netplan.faults.damage.cuts import Option, gpu_bytes_per_s
from netplan.faults.damage.damage import Damage, Effects, find_effects, network_links
from netplan.faults.damage.impact import Subject, scaled_levels
from netplan.performance.serving.disaggregated import Pools, disaggregated
from netplan.performance.serving.outcomes import Goal, ServingCase, ServingResult, aggregated
from netplan.performance.serving.plans import ServingPlans
from netplan.performance.serving.rounds import Round, serving_round
from netplan.performance.serving.server import ServingTimes
from netplan.records import replace
from netplan.traffic.matrix import TrafficMatrix

ServedWay = Literal["all servers", "spare", "without", "stopped"]


class ServedCluster(Subject, frozen=True, dict=True, kw_only=True):
    """A fabric under failures that serves by one plan.

    Parameters
    ----------
    case
        What is served.
    outcome, pools
        The plan, one entry, and what requests see of it; servers of both phases where prompts have
        their own.
    goal
        The service level.
    """

    case: ServingCase
    outcome: ServingResult
    pools: Pools | None
    goal: Goal

    @cached_property
    def round(self) -> Round:
        """One round of all servers."""
        prefill = self.pools.prefill if self.pools is not None else None
        running = float(self.outcome.running[0])
        return serving_round(self.case, self.outcome.plans, running, prefill=prefill)

    @cached_property
    def traffic(self) -> TrafficMatrix:
        """Traffic of a round."""
        return self.round.matrix(self.graph.gpus, "hierarchical")

    @property
    def plans(self) -> tuple[ServingPlans, ...]:
        """Servers by pool, those that take prompts first."""
        return tuple(one.plan for one in self.round.pools)

    @cached_property
    def servers(self) -> tuple[Ints, ...]:
        """GPUs of each server, by pool, shape (servers, GPUs)."""
        return tuple(
            one.placement.gpu_of_rank[one.placement.groups("tensor", "expert", "pipeline")].astype(
                np.int64
            )
            for one in self.round.pools
        )

    @property
    def server_count(self) -> int:
        """Servers [1]."""
        return sum(map(len, self.servers))

    @cached_property
    def places(self) -> tuple[int, ...]:
        """GPUs that a server of each pool keeps others from [1]."""
        return tuple(int(one.places(self.case.served.sizes)[0]) for one in self.plans)

    def restarted(self, down: Bools, lost: Sequence[int]) -> list[int]:
        """Servers of each pool that begin again on live GPUs that no server uses [1].

        The pool that decodes goes first.

        Parameters
        ----------
        down
            Whether a GPU has failed, shape (gpus,).
        lost
            Servers that have stopped, by pool [1].
        """
        last = max(one.placement.first + one.placement.cluster for one in self.round.pools)
        beside = np.ones(self.spare_domains * self.graph.hb_size, bool)
        free = [~down[last:], beside]
        if self.graph.domains > 1:  # places end at borders of domains
            free = [np.concatenate(free)]
        found = [0] * len(lost)
        for pool in reversed(range(len(lost))):
            size = self.places[pool]
            for region in free:
                blocks = region[: len(region) // size * size].reshape(-1, size)
                taken = np.flatnonzero(blocks.all(axis=1))[: lost[pool] - found[pool]]
                blocks[taken] = False
                found[pool] += len(taken)
        return found

    def shares(self, damage: Damage, effects: Effects) -> tuple[Floats, ...]:
        """Shares of HB links and network that servers have left, by pool, shape (servers, 2) [1].

        Both are 0 of servers that stop. What a failed GPU would have sent is gone with its ports:
        other servers of its domain lack neither.
        """
        graph, hb_share = self.graph, self.hb_share(damage)
        failed, unreachable = np.zeros((2, graph.gpus), bool)
        failed[effects.gpus_down] = unreachable[effects.cut_off_forwarding] = True
        found = self.cuts.throughput(damage, effects, hb_share)
        had = gpu_bytes_per_s(graph, network_links(graph))
        network = replace(found, rate=np.where(failed, had, found.rate)).of_domains
        shares = []
        for gpus in self.servers:
            domain = gpus // graph.hb_size
            across = (domain != domain[:, :1]).any(axis=1) | (len(self.servers) > 1)
            inside = hb_share[gpus].min(axis=1) if gpus.shape[1] > 1 else np.ones(len(gpus))
            outside = np.where(across, network[domain].min(axis=1), 1.0)
            stops = failed[gpus].any(axis=1) | across & unreachable[gpus].any(axis=1)
            share = np.stack([inside, outside], axis=1)
            share[stops | (share == 0).any(axis=1)] = 0.0
            shares.append(share)
        return tuple(shares)

    def impact(self, damage: Damage) -> "ServedImpact":  # type: ignore[override]
        """What damage does to the cluster."""
        effects = find_effects(self.graph, damage, self.components)
        bandwidth = remaining_bandwidth(self.graph, damage, intact=self.flows)
        shares = self.shares(damage, effects)
        live = [share[(share > 0).all(axis=1)] for share in shares]
        lost = [len(share) - len(some) for share, some in zip(shares, live, strict=True)]
        again = self.restarted(damage.node_down[: self.graph.gpus], lost)
        left = [
            np.concatenate([some, np.ones((more, 2))])
            for some, more in zip(live, again, strict=True)
        ]
        best = answering(self, left)
        way: ServedWay = "stopped"
        if best is not None:
            way = "spare" if sum(lost) else "all servers"
            way = "without" if best.servers < self.server_count else way
        rate = best.tokens_per_s if best else 0.0
        return ServedImpact(
            gpus_down=len(effects.gpus_down),
            gpus_cut_off=len(effects.cut_off),
            gpus_unreachable=len(effects.cut_off_forwarding),
            bandwidth_share=bandwidth.worst_share,
            bandwidth_share_low=bandwidth.worst_low,
            pod_share=self.pod_share(damage),
            servers_lost=sum(lost),
            servers_restarted=sum(again),
            servers_slowed=best.slowed if best else 0,
            servers_left=best.servers if best else 0,
            ttft_s=best.ttft_s if best else None,
            tpot_s=best.tpot_s if best else None,
            tokens_per_s=rate,
            throughput_share=rate / float(self.outcome.tokens_per_s[0]),
            keeps_level=(best is not None and best.keeps_level) if self.has_level else None,
            way=way,
            note=bandwidth.note,
        )

    @property
    def has_level(self) -> bool:
        """Whether a service level of times is asked for."""
        return self.goal.ttft_s is not None or self.goal.tpot_s is not None


class Answering(Struct, frozen=True):
    """What requests see of some servers.

    Parameters
    ----------
    servers, slowed
        Servers that answer, and those of them on slower links [1].
    ttft_s, tpot_s
        Time to first token, time per token, of the slowest servers [s].
    tokens_per_s
        Tokens of all answers [1/s].
    keeps_level
        Whether the slowest servers keep the service level.
    """

    servers: int
    slowed: int
    ttft_s: float
    tpot_s: float
    tokens_per_s: float
    keeps_level: bool


def answering(cluster: ServedCluster, left: Sequence[Floats]) -> Answering | None:
    """The best that servers give whose links are left in part; None if a pool has none left.

    Parameters
    ----------
    cluster
        The cluster.
    left
        Shares of HB links and network that the servers of each pool have left, above 0, shape
        (servers, 2) [1].
    """
    slowest = [shares.min(axis=1) for shares in left]
    best = None
    for least in np.unique(np.concatenate(slowest)).tolist():
        kept = [shares[worst >= least] for shares, worst in zip(left, slowest, strict=True)]
        if not all(map(len, kept)):
            continue
        parts = _together(cluster, kept)
        found = Answering(
            servers=sum(map(len, kept)),
            slowed=sum(int((shares < 1).any(axis=1).sum()) for shares in kept),
            ttft_s=max(float(part.ttft_s[0]) for part in parts),
            tpot_s=max(float(part.tpot_s[0]) for part in parts),
            tokens_per_s=sum(float(part.tokens_per_s[0]) for part in parts),
            keeps_level=all(bool(cluster.goal.meets(part)[0]) for part in parts),
        )
        better = (found.keeps_level, found.tokens_per_s)
        if best is None or better > (best.keeps_level, best.tokens_per_s):
            best = found
    return best


def _together(cluster: ServedCluster, left: Sequence[Floats]) -> list[ServingResult]:
    """What requests see of some servers that all take part, those of equal links together."""
    requests = float(cluster.outcome.concurrency[0])
    if cluster.pools is not None:
        prefill, decode = (
            replace(plans, replicas=np.array([len(shares)]))
            for plans, shares in zip(cluster.plans, left, strict=True)
        )
        # A cache may come from any server and go to any other: the slowest links count for all.
        slow = slowed(cluster.case, np.concatenate(left).min(axis=0))
        return [disaggregated(slow, Pools(prefill, decode), requests)]
    (plans,), (shares,) = cluster.plans, left
    rows, counts = np.unique(shares, axis=0, return_counts=True)
    return [
        aggregated(
            slowed(cluster.case, row),
            replace(plans, replicas=np.array([count])),
            requests * count / len(shares),
        )
        for row, count in zip(rows, counts.tolist(), strict=True)
    ]


def slowed(case: ServingCase, shares: Floats) -> ServingCase:
    """What is served, on levels that have shares of their bandwidth left: HB, network [1]."""
    inside, outside = shares.tolist()
    if inside == outside == 1:
        return case

    def on(served: ServingTimes) -> ServingTimes:
        levels = scaled_levels(served.network.levels, Option(0, 0, outside, inside))
        return replace(served, network=replace(served.network, levels=levels))

    drafts = case.speculated
    return replace(
        case,
        served=on(case.served),
        speculated=replace(drafts, draft=on(drafts.draft)) if drafts is not None else None,
    )


class ServedImpact(Struct, frozen=True):
    """What one failure, or several together, does to a cluster that serves.

    Parameters
    ----------
    gpus_down, gpus_cut_off, gpus_unreachable
        As in `netplan.faults.damage.impact` [1].
    bandwidth_share, bandwidth_share_low, pod_share
        Bandwidth left between the worst pair of HB domains, what it is no less than, and from the
        worst pod, as there [1].
    servers_lost, servers_restarted
        Servers that stop, and those of them that begin again on GPUs that no server used [1].
    servers_slowed, servers_left
        Servers that answer on slower links, and all that answer [1].
    ttft_s, tpot_s
        Times that requests of the slowest servers see [s]; None if nothing answers.
    tokens_per_s, throughput_share
        Tokens of all answers [1/s], and the share of those without failures [1].
    keeps_level
        Whether all servers that answer keep the service level; None where none is asked for.
    way
        How the cluster goes on: with all servers, on spare GPUs, without some, or not at all.
    note
        How the bandwidth was measured.
    """

    gpus_down: int
    gpus_cut_off: int
    gpus_unreachable: int
    bandwidth_share: float | None
    bandwidth_share_low: float | None
    pod_share: float | None
    servers_lost: int
    servers_restarted: int
    servers_slowed: int
    servers_left: int
    ttft_s: float | None
    tpot_s: float | None
    tokens_per_s: float
    throughput_share: float
    keeps_level: bool | None
    way: ServedWay
    note: str

"""What failures do to a cluster that serves, at a moment and over the years.

**At a moment** servers stop, and the others answer for them. A *server* is one copy of the model on
GPUs of its own. It stops when one of these has failed, has lost all its HB links, or, where the
server needs the network, reaches no other domain; it begins again on GPUs that no server uses, if a
place for it is left there. All others go on, and share the requests in flight evenly. A server
whose links have become fewer is timed on levels of what is left of them: the HB level with the
worst share of its GPUs, the network with the throughput of its domains over cuts
(`netplan.faults.damage.cuts`). Slow servers are left out where the rest gives more tokens a second,
or keeps a service level that all do not.

Requests come to servers over networks of their own, which do not fail here.

**Over the years** there are tokens a second on average and nearly always, in closed form. Servers
that failures have stopped and that are under repair are a compound Poisson number (M/G/inf: Palm
1943, whatever the distribution of the hours), pool by pool. Idle GPUs take over from as many of
them as they have places for; every server that stops starts anew, after its repair or on other
GPUs, which takes the time of a restart. With D servers under repair, S starting and room for s
more, max(D - s, 0) + S do not answer, and the others share the requests in flight. Parts of the
network that stop no server slow the cluster until their repair: the worst of those that are down
counts.

Failures of GPUs, servers, racks and feeds hit as many servers as lie on their GPUs; those of the
network do what they do alone. Left out: repairs that wait for parts or staff, and that a server may
be hit twice.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from math import exp
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.faults.damage.capacity import remaining_bandwidth
from netplan.faults.damage.cuts import CutOption, gpu_bytes_per_s
from netplan.faults.damage.damage import Damage, Effects, find_effects, network_links
from netplan.faults.damage.impact import Single, Subject, scaled_levels
from netplan.faults.years.effects import kinds_of_units
from netplan.faults.years.forecast import ForecastOptions, Spares, part_spares
from netplan.faults.years.group_failures import GroupFailures
from netplan.faults.years.rates import LAYOUT, FailureBook, Unit
from netplan.faults.years.reliability import compound_poisson, idle_domains_needed, mtbf_h
from netplan.performance.serving.disaggregated import Pools, disaggregated
from netplan.performance.serving.outcomes import Goal, ServingCase, ServingResult, aggregated
from netplan.performance.serving.rounds import PlannedServers, servers_outcome
from netplan.performance.serving.server import ServingTimes
from netplan.records import replace
from netplan.traffic.matrix import TrafficMatrix
from netplan.units import HOURS_PER_YEAR

ServedWay = Literal["all servers", "spare", "without", "stopped"]


class ServedCluster(Subject, frozen=True, dict=True, kw_only=True):
    """A fabric under failures that serves by one plan.

    Parameters
    ----------
    planned
        Its servers, and what requests see of them.
    goal
        The service level.
    """

    planned: PlannedServers
    goal: Goal

    @cached_property
    def traffic(self) -> TrafficMatrix:
        """Traffic of a round."""
        return self.planned.round.matrix(self.graph.gpus, "hierarchical")

    @cached_property
    def servers(self) -> tuple[Ints, ...]:
        """GPUs of each server, by pool, shape (servers, GPUs)."""
        return tuple(
            pool.placement.gpu_of_rank[
                pool.placement.groups("tensor", "expert", "pipeline")
            ].astype(np.int64)
            for pool in self.planned.round.pools
        )

    @property
    def server_count(self) -> int:
        """Servers [1]."""
        return sum(map(len, self.servers))

    @cached_property
    def places(self) -> tuple[int, ...]:
        """GPUs that a server of each pool keeps others from [1]."""
        sizes = self.planned.case.served.sizes
        return tuple(int(plans.places(sizes)[0]) for plans in self.planned.plans)

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
        last = max(
            pool.placement.first + pool.placement.cluster for pool in self.planned.round.pools
        )
        spare = np.ones(self.spare_domains * self.graph.hb_size, bool)
        free = [~down[last:], spare]
        if self.graph.domains > 1:  # places end at borders of domains
            free = [np.concatenate(free)]
        restarts = [0] * len(lost)
        for pool in reversed(range(len(lost))):
            size = self.places[pool]
            for region in free:
                blocks = region[: len(region) // size * size].reshape(-1, size)
                taken = np.flatnonzero(blocks.all(axis=1))[: lost[pool] - restarts[pool]]
                blocks[taken] = False
                restarts[pool] += len(taken)
        return restarts

    def shares(self, damage: Damage, effects: Effects) -> tuple[Floats, ...]:
        """Shares of HB links and network that servers have left, by pool, shape (servers, 2) [1].

        Both are 0 of servers that stop. What a failed GPU would have sent is gone with its ports:
        other servers of its domain lack neither.
        """
        graph, hb_share = self.graph, self.hb_share(damage)
        failed, unreachable = np.zeros((2, graph.gpus), bool)
        failed[effects.gpus_down] = unreachable[effects.cut_off_forwarding] = True
        left = self.cuts.throughput(damage, effects, hb_share)
        had = gpu_bytes_per_s(graph, network_links(graph))
        network = replace(left, rate=np.where(failed, had, left.rate)).of_domains
        shares = []
        for gpus in self.servers:
            domain = gpus // graph.hb_size
            across = (domain != domain[:, :1]).any(axis=1) | (len(self.servers) > 1)
            inside = hb_share[gpus].min(axis=1) if gpus.shape[1] > 1 else np.ones(len(gpus))
            outside = np.where(across, network[domain].min(axis=1), 1.0)
            interrupted = failed[gpus].any(axis=1) | across & unreachable[gpus].any(axis=1)
            share = np.stack([inside, outside], axis=1)
            share[interrupted | (share == 0).any(axis=1)] = 0.0
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
            gpus_cut_off=len(effects.cut_off) - len(effects.partitioned),
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
            throughput_share=rate / float(self.planned.outcome.tokens_per_s[0]),
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
        answer = Answering(
            servers=sum(map(len, kept)),
            slowed=sum(int((shares < 1).any(axis=1).sum()) for shares in kept),
            ttft_s=max(float(part.ttft_s[0]) for part in parts),
            tpot_s=max(float(part.tpot_s[0]) for part in parts),
            tokens_per_s=sum(float(part.tokens_per_s[0]) for part in parts),
            keeps_level=all(bool(cluster.goal.meets(part)[0]) for part in parts),
        )
        better = (answer.keeps_level, answer.tokens_per_s)
        if best is None or better > (best.keeps_level, best.tokens_per_s):
            best = answer
    return best


def _together(cluster: ServedCluster, left: Sequence[Floats]) -> list[ServingResult]:
    """What requests see of some servers that all take part, those of equal links together."""
    requests = float(cluster.planned.outcome.concurrency[0])
    if cluster.planned.pools is not None:
        prefill, decode = (
            replace(plans, replicas=np.array([len(shares)]))
            for plans, shares in zip(cluster.planned.plans, left, strict=True)
        )
        # A cache may come from any server and go to any other: the slowest links count for all.
        slow = slowed_case(cluster.planned.case, np.concatenate(left).min(axis=0))
        return [disaggregated(slow, Pools(prefill, decode), requests)]
    (plans,), (shares,) = cluster.planned.plans, left
    rows, counts = np.unique(shares, axis=0, return_counts=True)
    return [
        aggregated(
            slowed_case(cluster.planned.case, row),
            replace(plans, replicas=np.array([count])),
            requests * count / len(shares),
        )
        for row, count in zip(rows, counts.tolist(), strict=True)
    ]


def slowed_case(case: ServingCase, shares: Floats) -> ServingCase:
    """What is served, on levels that have shares of their bandwidth left: HB, network [1]."""
    inside, outside = shares.tolist()
    if inside == outside == 1:
        return case

    def with_shares(served: ServingTimes) -> ServingTimes:
        levels = scaled_levels(served.network.levels, CutOption(0, 0, outside, inside))
        return replace(served, network=replace(served.network, levels=levels))

    drafts = case.speculated
    return replace(
        case,
        served=with_shares(case.served),
        speculated=replace(drafts, draft=with_shares(drafts.draft)) if drafts is not None else None,
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


SURELY, HARDLY = 1e-9, 1e-12
"""Chances of more servers down than are counted, and of states that are: they give nothing [1]."""


class ServerInterruptions(Struct, frozen=True):
    """Servers that one cause stops in a year, and those of it that are under repair [1]."""

    cause: str
    failures_per_year: float
    servers_stopped_per_year: float
    servers_under_repair: float


class ServedForecast(
    Struct, frozen=True, rename={"server_interruptions_per_year": "server_stops_per_year"}
):
    """Years of failures of one fabric that serves.

    Parameters
    ----------
    server_interruptions_per_year, mtbf_h
        Servers that stop in a year, and the time between failures that stop some [h].
    servers_down
        Servers under repair at a moment, on average [1].
    all_answer_share
        Share of the time in which every server answers on whole links [1].
    expected_tokens_per_s, expected_share
        Tokens of answers on average over time [1/s], and over those without failures [1].
    assured_tokens_per_s, assured_share
        What there is at least in the share of the time that is asked for, likewise.
    level_kept_share
        Share of the time in which the slowest servers keep the service level of times; None where
        none is asked for [1].
    spare_servers, spare_servers_needed, spare_gpus_needed
        Servers that idle GPUs have room for; the least that cover all those under repair in the
        share of the time that is asked for, and their GPUs [1].
    causes, spares
        By cause; by kind of part.
    """

    server_interruptions_per_year: float
    mtbf_h: float | None
    servers_down: float
    all_answer_share: float
    expected_tokens_per_s: float
    expected_share: float
    assured_tokens_per_s: float
    assured_share: float
    level_kept_share: float | None
    spare_servers: int
    spare_servers_needed: int
    spare_gpus_needed: int
    causes: tuple[ServerInterruptions, ...]
    spares: tuple[Spares, ...]


class Hit(NamedTuple):
    """Failures that stop servers of a pool: how many of it each time, how often, for how long."""

    cause: str
    pool: int
    servers: int
    per_year: float
    repair_h: float


class Slow(NamedTuple):
    """Failures that stop no server: share of the tokens left, how many are under repair, level."""

    share: float
    under_repair: float
    keeps_level: bool


def served_forecast(
    cluster: ServedCluster,
    book: FailureBook,
    options: ForecastOptions,
    *,
    units: dict[Unit, int],
    singles: Sequence[Single[ServedImpact]],
    groups: Sequence[GroupFailures] = (),
) -> ServedForecast:
    """What failures leave of the throughput over time.

    Parameters
    ----------
    cluster
        The cluster.
    book
        Failure rates, repair and delivery times, placed on its HB domains.
    options
        The share of the time that is asked for, the time of a restart, the end of the ranges.
    units
        Units that fail, of :func:`netplan.faults.years.rates.unit_counts` [1].
    singles
        What one failure of each kind does.
    groups
        Groups that fail as a whole.
    """
    hits, slows = _what_fails(cluster, book, options, units, singles, groups)
    pools = range(len(cluster.servers))
    repairs = [_under_way(hits, pool, None) for pool in pools]
    restarts = [_under_way(hits, pool, options.checkpoints.restart_h) for pool in pools]
    room = cluster.restarted(np.zeros(cluster.graph.gpus, bool), [*map(len, cluster.servers)])
    missing = [
        _missing(repair, restart, spare)
        for repair, restart, spare in zip(repairs, restarts, room, strict=True)
    ]
    often = sum(hit.per_year for hit in hits)
    needed = [idle_domains_needed(means, options.level ** (1 / len(pools))) for means in repairs]
    chance, tokens, keeps = _states(cluster, missing)
    network_chance, share_left, network_keeps = _network_states(slows)
    chances = np.multiply.outer(chance, network_chance).ravel()
    rates = np.multiply.outer(tokens, share_left).ravel()
    intact, expected = float(cluster.planned.outcome.tokens_per_s[0]), float(chances @ rates)
    # What there is at least for the share of the time that is asked for.
    order = np.argsort(-rates, kind="stable")
    last = int(np.searchsorted(np.cumsum(chances[order]), options.level * (1 - SURELY)))
    assured = float(rates[order][last]) if last < len(order) else 0.0
    level_kept = float((chance @ keeps) * (network_chance @ network_keeps))
    return ServedForecast(
        server_interruptions_per_year=sum(hit.per_year * hit.servers for hit in hits),
        mtbf_h=mtbf_h(often) if often else None,
        servers_down=sum(size * mean for means in repairs for size, mean in means.items()),
        all_answer_share=float(chance[0] * network_chance[-1]),
        expected_tokens_per_s=expected,
        expected_share=expected / intact,
        assured_tokens_per_s=assured,
        assured_share=assured / intact,
        level_kept_share=level_kept if cluster.has_level else None,
        spare_servers=sum(room),
        spare_servers_needed=sum(needed),
        spare_gpus_needed=sum(
            number * size for number, size in zip(needed, cluster.places, strict=True)
        ),
        causes=tuple(_causes(book, units, options, hits, groups)),
        spares=part_spares(units, book, options),
    )


def _what_fails(
    cluster: ServedCluster,
    book: FailureBook,
    options: ForecastOptions,
    units: dict[Unit, int],
    singles: Sequence[Single[ServedImpact]],
    groups: Sequence[GroupFailures],
) -> tuple[list[Hit], list[Slow]]:
    """Failures that stop servers, and those that slow them."""
    hits: list[Hit] = []
    slows: list[Slow] = []
    alone = {single.kind: single for single in singles}
    kinds = kinds_of_units(cluster.fabric, alone)
    whole, hb_size = {kind.row.cause for kind in groups}, cluster.graph.hb_size
    for row in book.rates:
        if row.unit in LAYOUT or row.cause in whole:
            continue
        per_year = row.rate_per_year.at_end(options.end) * row.count_in(units)
        repair_h = book.repair_h(row.kind).at_end(options.end)
        gpus = row.gpus_each or {"gpu": 1, "hb_domain": hb_size}.get(row.unit, 0)
        if row.gpus_each is None and row.kind == "hb-gear":
            gpus = hb_size
        if gpus:
            hits += _on_gpus(cluster, row.cause, gpus, per_year * row.interrupts, repair_h)
            continue
        parts = [alone[kind] for kind in kinds.get(row.unit, ())]
        for single in parts:
            often = per_year * single.parts / sum(part.parts for part in parts)
            impact = single.impact
            if impact.servers_lost:
                hits += (
                    Hit(
                        row.cause,
                        pool,
                        min(impact.servers_lost, len(servers)),
                        often * (len(servers) / cluster.server_count),
                        repair_h,
                    )
                    for pool, servers in enumerate(cluster.servers)
                )
            elif impact.throughput_share < 1:
                under_repair = often * repair_h / HOURS_PER_YEAR
                kept = impact.keeps_level is not False
                slows.append(Slow(impact.throughput_share, under_repair, kept))
    for kind in groups:
        for cause in kind.causes:
            gpus = cause.effect.domains * hb_size
            hits += _on_gpus(cluster, kind.name, gpus, cause.interruptions_per_year, cause.repair_h)
    return hits, slows


def _on_gpus(
    cluster: ServedCluster, cause: str, gpus: int, per_year: float, repair_h: float
) -> Iterator[Hit]:
    """Servers on so many neighbouring GPUs, wherever these are."""
    for pool, (servers, room) in enumerate(zip(cluster.servers, cluster.places, strict=True)):
        count = min(max(gpus // room, 1), len(servers))
        reached = servers.shape[1] if gpus == 1 else max(gpus, room)
        share = min(1.0, reached * len(servers) / cluster.graph.gpus / count)
        if gpus and per_year:
            yield Hit(cause, pool, count, per_year * share, repair_h)


def _under_way(hits: Sequence[Hit], pool: int, hours: float | None) -> dict[int, float]:
    """Mean number of failures under repair, or so many hours old, by the servers of each [1]."""
    means: dict[int, float] = {}
    for hit in hits:
        if hit.pool == pool:
            lasts = hit.repair_h if hours is None else hours
            means[hit.servers] = means.get(hit.servers, 0.0) + hit.per_year * lasts / HOURS_PER_YEAR
    return means


def _missing(repairs: dict[int, float], restarts: dict[int, float], spare: int) -> Floats:
    """Chances of 0, 1, … servers of a pool that do not answer."""
    down, starting = compound_poisson(repairs), compound_poisson(restarts)
    uncovered = np.append(down[: spare + 1].sum(), down[spare + 1 :])
    chances: Floats = np.convolve(uncovered, starting)
    return chances[: int(np.searchsorted(np.cumsum(chances), 1 - SURELY)) + 1]


def _states(cluster: ServedCluster, missing: Sequence[Floats]) -> tuple[Floats, Floats, Bools]:
    """Chances of servers that do not answer, tokens of the others [1/s], whether times are kept."""
    numbers = np.meshgrid(*(np.arange(len(chances)) for chances in missing), indexing="ij")
    chance = reduce(np.multiply.outer, missing).ravel()
    left = [
        len(servers) - number.ravel()
        for servers, number in zip(cluster.servers, numbers, strict=True)
    ]
    alive = np.all([some > 0 for some in left], axis=0) & (chance > HARDLY)
    first = np.zeros(int(alive.sum()), np.int64)
    plans = [
        replace(plan.take(first), replicas=some[alive])
        for plan, some in zip(cluster.planned.plans, left, strict=True)
    ]
    requests = float(cluster.planned.outcome.concurrency[0])
    outcome = servers_outcome(cluster.planned.case, plans, requests)
    tokens, keeps = np.zeros(len(alive)), np.zeros(len(alive), bool)
    tokens[alive], keeps[alive] = outcome.tokens_per_s, cluster.goal.meets(outcome)
    return chance, tokens, keeps


def _network_states(slows: Sequence[Slow]) -> tuple[Floats, Floats, Bools]:
    """Chances that the worst of what is under repair leaves a share of the tokens; both, level."""
    chances, none_worse = [], 1.0
    ranked = sorted(slows)
    for slow in ranked:
        none = exp(-slow.under_repair)
        chances.append(none_worse * (1 - none))
        none_worse *= none
    return (
        np.array([*chances, none_worse]),
        np.array([*(slow.share for slow in ranked), 1.0]),
        np.array([*(slow.keeps_level for slow in ranked), True]),
    )


def _causes(
    book: FailureBook,
    units: dict[Unit, int],
    options: ForecastOptions,
    hits: Sequence[Hit],
    groups: Sequence[GroupFailures],
) -> Iterator[ServerInterruptions]:
    """What stops servers, those of groups last."""
    named = {kind.name: kind.failures_per_year for kind in groups}
    rates = {
        row.cause: row.rate_per_year.at_end(options.end) * row.count_in(units)
        for row in book.rates
        if row.unit not in LAYOUT
    } | named
    for name, failures in rates.items():
        interruptions = [
            (hit.per_year * hit.servers, hit.repair_h) for hit in hits if hit.cause == name
        ]
        stopped = sum(per_year for per_year, _ in interruptions)
        down = sum(per_year * repair_h for per_year, repair_h in interruptions) / HOURS_PER_YEAR
        if stopped:
            yield ServerInterruptions(name, failures, stopped, down)

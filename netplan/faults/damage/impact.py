"""What a failure does to a fabric and to the training on it.

Three ways to go on are compared, and the fastest counts:

``all GPUs``     every GPU trains on, at the throughput that the network has left for all of them,
                 GPUs without a port of their own sending through their domain;
``without``      HB domains that were hit, or that the network serves too slowly, are left out, and
                 the plan search fills what is left;
``spare``        idle domains take the place of these; only where there are some.

The throughput is that of the job's own traffic over cuts (`netplan.faults.damage.cuts`), in every
way to go on: what is left out gives no bandwidth back. So a further failure never makes an
iteration shorter.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints, distinct_values
from netplan.errors import InputError
from netplan.faults.damage.capacity import remaining_bandwidth
from netplan.faults.damage.cuts import CutOption, Cuts, Partition, pods_of, traffic_cuts
from netplan.faults.damage.damage import (
    Components,
    Damage,
    find_effects,
    intact_components,
    network_links,
)
from netplan.faults.damage.flows import FlowNetwork, reduced_graph
from netplan.faults.damage.groups import one_for_all
from netplan.faults.damage.inventory import Inventory, PartNames, Parts
from netplan.levels import Level
from netplan.performance.plan import SearchResult
from netplan.performance.plan_traffic import plan_traffic
from netplan.performance.search import PlanSearch
from netplan.records import replace
from netplan.reports.schema import plain_data
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FabricSpec
from netplan.traffic.matrix import TrafficMatrix

FaultHandling = Literal["all GPUs", "without", "spare", "stopped"]


LEAST_TOLD = 0.005
"""Share of the time from which on it is told that plans must divide [1]."""


class Subject(Struct, frozen=True, dict=True):
    """A fabric under failures, with what is worked out once for all of them.

    Parameters
    ----------
    spec, sizing
        The fabric's file and size; the sizing's HB domain is the one in force.
    fabric
        Its counts.
    search
        The search for the best plan of what is trained; None leaves iteration times out.
    spare_domains
        Idle HB domains beyond the job's [1].
    """

    spec: FabricSpec
    sizing: Sizing
    fabric: Fabric
    search: PlanSearch | None
    spare_domains: int = 0

    @cached_property
    def graph(self) -> FabricGraph:
        """All nodes and links."""
        return expand(self.spec, self.sizing)

    @cached_property
    def flows(self) -> FlowNetwork:
        """The intact fabric, reduced for max-flows between HB domains."""
        return reduced_graph(self.graph).intact

    @cached_property
    def traffic(self) -> TrafficMatrix | None:
        """Traffic of one iteration of the best plan; None without one on the fabric's levels."""
        plans, gpus = self.intact, self.sizing.gpus
        filled, levels = (plans.levels if plans else ()), self.fabric.levels
        if plans is None or [part.size for part in filled] != [level.size for level in levels]:
            return None
        setting = plans.setting_of(plans.best)
        try:
            return plan_traffic(setting, plans.best, gpus, "hierarchical", levels)
        except InputError:
            return None  # such as a last HB domain that plans of an exact space cannot take

    @cached_property
    def cuts(self) -> Cuts:
        """Blocks of the fabric under that traffic; without it, under uniform traffic."""
        return traffic_cuts(self.graph, self.traffic)

    @cached_property
    def pods(self) -> Partition | None:
        """What the network falls into without its top tier; None if that is nothing."""
        return pods_of(self.graph) if self.sizing.domains > 1 else None

    def pod_share(self, damage: Damage) -> float | None:
        """Bandwidth to all others that the worst pod has left [1]; None without pods."""
        if self.pods is None:
            return None
        outer = network_links(self.graph)
        had = self.pods.capacity(self.graph, outer)
        left = self.pods.capacity(self.graph, outer & ~damage.links_out(self.graph))
        pods = distinct_values(self.pods.label[: self.graph.gpus])
        pods = pods[had[pods] > 0]
        return float((left[pods] / had[pods]).min()) if len(pods) else None

    @cached_property
    def components(self) -> tuple[Components, Components]:
        """What hangs together without failures."""
        return intact_components(self.graph)

    @cached_property
    def intact(self) -> SearchResult | None:
        """Best plan without failures; None if nothing is trained or no plan fits."""
        return self.best(self.fabric.levels)

    @cached_property
    def alone(self) -> "Subject":
        """The same without idle domains, which shares what is worked out so far."""
        alone = replace(self, spare_domains=0)
        vars(alone).update(vars(self))
        return alone

    def best(self, levels: Sequence[Level]) -> SearchResult | None:
        """Best plan on some levels, None if there is none."""
        plans = self.search.best_on_subset(tuple(levels)) if self.search else None
        return plans if isinstance(plans, SearchResult) else None

    @property
    def unplanned(self) -> str | None:
        """Why no plan fits the intact fabric, in a sentence; None if one does or none is asked."""
        plans = self.search.best_on_subset(self.fabric.levels) if self.search else None
        return plans if isinstance(plans, str) else None

    @cached_property
    def batch_slowdown(self) -> float | None:
        """What an iteration takes longer without an HB domain since plans must divide [1].

        That is what it takes longer beyond its GPUs' share, where the batch, the layers or the GPUs
        that are left do not divide; None where plans are free, or nothing is timed.
        """
        if self.intact is None or self.search is None or self.search.setting.free:
            return None
        left = self.sizing.full_domains - 1
        lost = self.best_at(CutOption(1, 0, 1.0, 1.0)) if left else None
        if lost is None:
            return None
        return max(0.0, lost.time_s / self.intact.time_s - (left + 1) / left)

    @property
    def divided(self) -> str | None:
        """What of a failure is no cost of it, in sentences; None where plans are free."""
        if self.intact is None or self.search is None or self.search.setting.free:
            return None
        more = self.batch_slowdown or 0.0
        batch = (
            f" Without an HB domain {100 * more:.3g} % of the time are no cost of the failure:"
            " fewer domains divide the batch and the layers worse."
        )
        return (
            f"Plans must divide.{batch if more >= LEAST_TOLD else ''} Where fewer domains divide"
            " better, a further failure may seem to make the job faster. --space free compares"
            " failures."
        )

    @cached_property
    def hb_links(self) -> Ints:
        """Links of each GPU inside its HB domain [1], shape (gpus,)."""
        return self._hb_links_left(np.ones(self.graph.link_count, bool))

    def hb_share(self, damage: Damage) -> Floats:
        """Share of its HB links that each live GPU has left [1], shape (gpus,); 1 for failed ones.

        GPUs and switches that failed take their links with them. In a domain of direct links a
        failed GPU is none of the others' loss: they have one peer less to talk to.
        """
        live = ~damage.links_out(self.graph)
        if self.spec.hb_kind == "mesh":
            down = damage.node_down
            ends = self.graph.source, self.graph.target
            direct = (ends[0] < self.graph.gpus) & (ends[1] < self.graph.gpus)
            live |= direct & (down[ends[0]] | down[ends[1]]) & ~damage.link_down
        left = self._hb_links_left(live)
        had = np.maximum(self.hb_links, 1)
        share: Floats = np.where(self.hb_links > 0, left / had, 1.0)
        share[damage.node_down[: self.graph.gpus]] = 1.0
        return share

    def _hb_links_left(self, live: Bools) -> Ints:
        inside = live & ~network_links(self.graph)
        ends = np.concatenate([self.graph.source[inside], self.graph.target[inside]])
        return np.bincount(ends[ends < self.graph.gpus], minlength=self.graph.gpus)

    def on_fewer_gpus(self, idle: int = 1) -> SearchResult | None:
        """Best plan with some GPUs of every HB domain left idle."""
        domain, *others = self.fabric.levels or (None,)
        if domain is None or domain.size <= idle:
            return None
        return self.best((replace(domain, size=domain.size - idle), *others))

    def best_at(self, option: CutOption) -> SearchResult | None:
        """Best plan at the shares of an option, without the domains or GPUs that it leaves out.

        In the free space of plans the fabric stays as it is: those members of one of its levels
        stay idle that hold the domains or GPUs, of the level where that costs least. Plans that
        must divide get a fabric of the domains that are left.
        """
        levels, (domains, gpus) = self.fabric.levels, (option.domains, option.gpus)
        if not domains or not levels:
            return self.best(scaled_levels(levels, option))
        if self.search and self.search.setting.free:
            idle = [gpus, *(option.members or [domains] * (len(levels) - 1))]
            slowed = scaled_levels(levels, option)
            results = [
                self.best((*slowed[:i], replace(level, size=level.size - less), *slowed[i + 1 :]))
                for i, (level, less) in enumerate(zip(slowed, idle, strict=False))
                if level.size > less
            ]
            return min(filter(None, results), key=lambda plans: plans.time_s, default=None)
        if domains >= self.sizing.full_domains:
            return None
        left = (self.sizing.full_domains - domains) * self.sizing.hb_size
        try:
            smaller = build_fabric(self.spec, replace(self.sizing, gpus=left))
        except InputError:
            return None  # such as a torus of a number that is no product of sides
        return self.best(scaled_levels(smaller.levels, option))

    def impact(self, damage: Damage) -> "Impact":
        """What damage does to the fabric and the training on it.

        Raises
        ------
        InputError
            If the damage is that of another graph.

        Examples
        --------
        A rail switch of a rail-only network serves one rail of eight domains of eight GPUs.

        >>> from netplan import Scenario
        >>> from netplan.faults.damage.scenario import parse_faults
        >>> from netplan.topologies.specs import FABRICS
        >>> sizing = Scenario.load("hgx-h100").replace(gpus=64, radix=8).sizing
        >>> spec = FABRICS.load("rail-only")
        >>> subject = Subject(spec, sizing, build_fabric(spec, sizing), None)
        >>> impact = subject.impact(parse_faults(["rail-0/leaf-0"], subject.graph))
        >>> impact.gpus_cut_off, impact.gpus_unreachable, impact.bandwidth_share
        (8, 0, 0.875)
        """
        effects = find_effects(self.graph, damage, self.components)
        left = remaining_bandwidth(self.graph, damage, intact=self.flows)
        hb_share = self.hb_share(damage)
        hit = np.concatenate([effects.gpus_down, effects.cut_off, np.flatnonzero(hb_share < 1)])
        throughput = self.cuts.throughput(damage, effects, hb_share)
        sizes = [level.size for level in self.fabric.levels[1:]]
        way, out, plans = self._fastest(throughput.options(sizes))
        best, time_s = plans.best if plans else None, plans.best.iteration_time_s if plans else None
        before_s = self.intact.time_s if self.intact else None
        return Impact(
            gpus_down=len(effects.gpus_down),
            gpus_cut_off=len(effects.cut_off) - len(effects.partitioned),
            gpus_partitioned=len(effects.partitioned),
            gpus_unreachable=len(effects.cut_off_forwarding),
            domains_hit=len(distinct_values(hit // self.graph.hb_size)),
            domains_out=out.domains if out else 0,
            gpus_out=out.gpus if out else 0,
            bandwidth_share=left.worst_share,
            mean_bandwidth_share=left.mean_share,
            bandwidth_share_low=left.worst_low,
            network_share=throughput.share,
            pod_share=self.pod_share(damage),
            iteration_time_s=time_s,
            way=way,
            # Searches prefer plans within 1 % of the fastest: damage makes none faster.
            slowdown=max(time_s / before_s - 1, 0.0) if time_s and before_s else None,
            plan=plain_data(best.plan) if best else None,
            note=left.note,
        )

    def _fastest(
        self, options: Sequence[CutOption]
    ) -> tuple[FaultHandling, CutOption | None, SearchResult | None]:
        """The fastest way to go on, what it leaves out, and its best plan.

        A job that stops would have to leave out what the first option does.
        """
        ways: list[tuple[FaultHandling, CutOption]] = []
        for option in options:
            if not option.domains:
                ways.append(("all GPUs", option))
                continue
            if option.domains <= self.spare_domains:
                ways.append(("spare", option))
            within = bool(self.search) and option.gpus < self.sizing.hb_size
            if within or option.domains < self.sizing.full_domains:
                ways.append(("without", option))
        stopped: tuple[FaultHandling, CutOption | None] = "stopped", options[0] if options else None
        if self.intact is None:
            # Without a plan there is no time, but the first way is still how the job goes on.
            return (*(ways[0] if ways else stopped), None)
        timed = [
            (way, option, plans)
            for way, option in ways
            for left in [replace(option, domains=0, gpus=0) if way == "spare" else option]
            if (plans := self.best_at(left))
        ]
        return min(timed, key=lambda choice: choice[2].time_s, default=(*stopped, None))


def scaled_levels(levels: Sequence[Level], option: CutOption) -> tuple[Level, ...]:
    """Levels with what is left of their bandwidth: the first is the HB domain."""
    shares = (option.hb_share, *[option.network_share] * (len(levels) - 1))
    return tuple(
        replace(level, link_bytes_per_s=share * level.link_bytes_per_s)
        for level, share in zip(levels, shares, strict=bool(levels))
    )


class Impact(Struct, frozen=True, kw_only=True):
    """What one failure, or several together, does; nothing where nothing is said.

    Parameters
    ----------
    gpus_down, gpus_cut_off, gpus_partitioned, gpus_unreachable
        GPUs that failed; live ones whose own ports lead nowhere; those whose ports lead to others,
        but not to the largest part that is left; those of all these that reach it through their HB
        domain neither [1].
    domains_hit
        HB domains with a GPU that failed, is cut off or has lost HB links [1].
    domains_out, gpus_out
        HB domains that the job leaves out, or that idle ones replace, and GPUs of the one that lost
        most [1]; 0 where it goes on on all GPUs.
    bandwidth_share, mean_bandwidth_share
        Bandwidth between HB domains that is left, of the worst pair and on average [1]; None where
        no two domains are left, as when one holds all GPUs: it trains without the network.
    bandwidth_share_low
        What the share of the worst pair is no less than [1]; the same where it is exact.
    network_share
        Bandwidth that the network has left for the traffic of the plan on all GPUs, or for uniform
        traffic without one: its relative throughput over cuts [1].
    pod_share
        Bandwidth that the worst pod has left to the others, however traffic is split [1]; None
        where the fabric has no pods.
    iteration_time_s, way
        Time of an iteration on what is left [s], and how the job goes on; None if it cannot.
    slowdown
        Iteration time over that of the intact fabric, less one; 0 where the plan that is preferred
        of those within 1 % of the fastest takes less [1].
    plan
        Parallel plan in use.
    note
        How the bandwidth was measured.
    """

    gpus_down: int = 0
    gpus_cut_off: int = 0
    gpus_partitioned: int = 0
    gpus_unreachable: int = 0
    domains_hit: int = 0
    domains_out: int = 0
    gpus_out: int = 0
    bandwidth_share: float | None = None
    mean_bandwidth_share: float | None = None
    bandwidth_share_low: float | None = None
    network_share: float
    pod_share: float | None = None
    iteration_time_s: float | None = None
    way: FaultHandling
    slowdown: float | None = None
    plan: dict[str, Any] | None = None
    note: str


SKIPPED = frozenset({"link", "transceiver", "switch", "manager"})
"""Kinds that others stand for: a link by its group, a switch by its tier."""

BIG_GROUPS = frozenset({"rail", "plane", "hall", "row", "batch"})
"""Groups that fail as a whole only in a scenario that says so."""


ImpactT = TypeVar("ImpactT")


class Single(Struct, Generic[ImpactT], frozen=True):
    """The failure of one part.

    Parameters
    ----------
    kind, part
        Kind of part, and the one that failed.
    parts
        How many there are [1].
    impact
        What it does, to a job that trains or to a cluster that serves.
    """

    kind: str
    part: str
    parts: int
    impact: ImpactT


def single_parts(inventory: Inventory, used: Ints | None = None) -> list[Parts]:
    """One part of each kind, a golden section into its kind; of GPUs one of those in use.

    Parts of a kind are alike but for those at the edge of a fabric that does not fill its switches,
    and those where pipelines begin, which is where halves and quarters do: one in between stands
    for most.
    """
    return [
        Parts(kind, one_for_all(kind.numbers if used is None or kind.name != "gpu" else used))
        for kind in inventory.kinds.values()
        if kind.name not in SKIPPED | BIG_GROUPS
    ]


def single_failures(
    inventory: Inventory, impacts: Iterable[tuple[Parts, ImpactT]]
) -> Iterator[Single[ImpactT]]:
    """Failures of single parts, with their names."""
    names = PartNames(inventory)
    for parts, impact in impacts:
        name = next(iter(names.of(parts)))
        yield Single(parts.kind.name, name, len(parts.kind.numbers), impact)

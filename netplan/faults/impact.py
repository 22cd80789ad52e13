"""What a failure does to a fabric and to the training on it.

Three ways to go on are compared, and the fastest counts:

``all GPUs``     every GPU trains on, and all domains at the pace of the worst-off one: the network
                 level has the bandwidth that the worst pair of HB domains has left, GPUs without a
                 port of their own sending through their domain;
``without``      the domains that lost a GPU or a port are left out, and the plan search fills what
                 is left;
``spare``        an idle domain takes the place of each that is hit; only where there are some.

A synchronous job is as slow as its slowest member, hence the worst pair. Failures above the leaves
are no loss of any one pair, so the throughput of a pod-level all-to-all bounds the pace as well.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from math import isfinite
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError
from netplan.faults.capacity import remaining_bandwidth
from netplan.faults.damage import (
    Damage,
    Islands,
    find_effects,
    intact_islands,
    network_links,
)
from netplan.faults.flows import FlowNetwork, reduced_graph
from netplan.faults.inventory import Inventory, PartNames, Parts
from netplan.faults.pods import PodBatch, pod_batch, pod_throughput, pods_of
from netplan.levels import Level
from netplan.performance.search import PlanSearch, SearchResult
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FabricSpec

Way = Literal["all GPUs", "without", "spare", "stopped"]
MAX_PAIRS = 24
"""Pairs of HB domains whose max-flow is computed on large fabrics [1]."""

MAX_POD_LINKS = 400_000
"""Links up to which the pod-level all-to-all is routed [1]."""


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
    def pods(self) -> PodBatch:
        """What all copies of the fabric share in the all-to-all between its pods."""
        return pod_batch(self.graph, pods_of(self.graph))

    @cached_property
    def islands(self) -> tuple[Islands, Islands]:
        """What hangs together without failures."""
        return intact_islands(self.graph)

    @cached_property
    def intact(self) -> SearchResult | None:
        """Best plan without failures; None if nothing is trained or no plan fits."""
        return self.best(self.fabric.levels)

    def best(self, levels: Sequence[Level]) -> SearchResult | None:
        """Best plan on some levels, None if there is none."""
        found = self.search.on(tuple(levels)) if self.search else None
        return found if isinstance(found, SearchResult) else None

    @property
    def unplanned(self) -> str | None:
        """Why no plan fits the intact fabric, in a sentence; None if one does or none is asked."""
        found = self.search.on(self.fabric.levels) if self.search else None
        return found if isinstance(found, str) else None

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
            live |= (down[self.graph.source] | down[self.graph.target]) & ~damage.link_down
        left = self._hb_links_left(live)
        had = np.maximum(self.hb_links, 1)
        share: Floats = np.where(self.hb_links > 0, left / had, 1.0)
        share[damage.node_down[: self.graph.gpus]] = 1.0
        return share

    def _hb_links_left(self, live: Bools) -> Ints:
        inside = live & ~network_links(self.graph)
        ends = np.concatenate([self.graph.source[inside], self.graph.target[inside]])
        return np.bincount(ends[ends < self.graph.gpus], minlength=self.graph.gpus)

    def slowed(self, share: float, hb_share: float) -> SearchResult | None:
        """Best plan when network and HB domains have these shares of their bandwidth left."""
        if not self.fabric.levels or not share or not hb_share:
            return None
        shares = (hb_share, *[share] * (len(self.fabric.levels) - 1))
        levels = zip(self.fabric.levels, shares, strict=True)
        return self.best(
            [replace(one, link_bytes_per_s=left * one.link_bytes_per_s) for one, left in levels]
        )

    def without(self, domains: int, gpus: int) -> SearchResult | None:
        """Best plan without so many HB domains, or without so many GPUs of every domain.

        In the free space of plans the fabric stays as it is: those members of one of its levels
        stay idle that hold the domains or GPUs, of the level where that costs least. Plans that
        must divide get a fabric of the domains that are left.
        """
        levels = self.fabric.levels
        if self.search and self.search.free:
            idle = [gpus, *[domains] * (len(levels) - 1)]
            found = [
                self.best((*levels[:at], replace(one, size=one.size - less), *levels[at + 1 :]))
                for at, (one, less) in enumerate(zip(levels, idle, strict=False))
                if one.size > less
            ]
            return min(filter(None, found), key=lambda one: one.time_s, default=None)
        if domains >= self.sizing.full_domains:
            return None
        left = (self.sizing.full_domains - domains) * self.sizing.hb_size
        try:
            smaller = build_fabric(self.spec, replace(self.sizing, gpus=left))
        except InputError:
            return None  # such as a torus of a number that is no product of sides
        return self.best(smaller.levels)


class Impact(Struct, frozen=True):
    """What one failure, or several together, does.

    Parameters
    ----------
    gpus_down, gpus_cut_off, gpus_unreachable
        GPUs that failed; live ones whose own ports lead nowhere; those of them that reach no other
        domain through their HB domain either [1].
    domains_hit
        HB domains with a GPU that failed, is cut off or has lost HB links [1].
    bandwidth_share, mean_bandwidth_share
        Bandwidth between HB domains that is left, of the worst pair and on average [1]; None where
        no two domains are left, as when one holds all GPUs: it trains without the network.
    bandwidth_share_low
        What the share of the worst pair is no less than [1]; the same where it is exact.
    pod_share
        Throughput of a pod-level all-to-all that is left [1]; None where the fabric has no pods.
    iteration_time_s, way
        Time of an iteration on what is left [s], and how the job goes on; None if it cannot.
    slowdown
        Iteration time over that of the intact fabric, less one [1].
    plan
        Parallel plan in use.
    note
        How the bandwidth was measured.
    """

    gpus_down: int
    gpus_cut_off: int
    gpus_unreachable: int
    domains_hit: int
    bandwidth_share: float | None
    mean_bandwidth_share: float | None
    bandwidth_share_low: float | None
    pod_share: float | None
    iteration_time_s: float | None
    way: Way
    slowdown: float | None
    plan: dict[str, Any] | None
    note: str


def impact_of(subject: Subject, damage: Damage, pod_share: float | None = None) -> Impact:
    """What damage does to a fabric and the training on it.

    Parameters
    ----------
    subject
        The fabric.
    damage
        What has failed.
    pod_share
        Throughput of the pod-level all-to-all that is left [1], of :func:`pod_shares`.

    Examples
    --------
    A rail switch of a rail-only network serves one rail of eight domains of eight GPUs.

    >>> from netplan.faults.scenario import parse_faults
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Sizing(64, 8, 8, 450e9, 50e9)
    >>> spec = FABRICS.load("rail-only")
    >>> subject = Subject(spec, sizing, build_fabric(spec, sizing), None)
    >>> found = impact_of(subject, parse_faults(["rail-0/leaf-0"], subject.graph))
    >>> found.gpus_cut_off, found.gpus_unreachable, found.bandwidth_share
    (8, 0, 0.875)
    """
    effects = find_effects(subject.graph, damage, subject.islands)
    left = remaining_bandwidth(subject.graph, damage, max_pairs=MAX_PAIRS, intact=subject.flows)
    hb_share = subject.hb_share(damage)
    gone = np.concatenate([effects.gpus_down, effects.cut_off, np.flatnonzero(hb_share < 1)])
    in_domain = np.bincount(np.unique(gone) // subject.graph.hb_size)
    hit = int((in_domain > 0).sum())
    pace = 1.0 if left.worst_share is None else left.worst_share
    if pod_share is not None and left.worst_share is not None and not hit:
        pace = min(pace, pod_share)
    whole = not len(effects.gpus_down) and not len(effects.cut_off_forwarding)
    paces = (pace, float(hb_share.min())) if whole else None
    way, found = _fastest(subject, (hit, int(in_domain.max(initial=0))), paces)
    intact, best = subject.intact, found.best if found else None
    before = intact.time_s if intact else None
    return Impact(
        gpus_down=len(effects.gpus_down),
        gpus_cut_off=len(effects.cut_off),
        gpus_unreachable=len(effects.cut_off_forwarding),
        domains_hit=hit,
        bandwidth_share=left.worst_share,
        mean_bandwidth_share=left.mean_share,
        bandwidth_share_low=left.worst_low,
        pod_share=pod_share,
        iteration_time_s=best.iteration_time_s if best else None,
        way=way,
        slowdown=best.iteration_time_s / before - 1 if best and before else None,
        plan=best.to_dict(1)["plan"] if best else None,
        note=left.note,
    )


def pod_shares(subject: Subject, damages: Sequence[Damage]) -> list[float | None]:
    """Throughput of the pod-level all-to-all that each damage leaves [1].

    None without pods, and where no two GPUs are left to send.

    All damages of a fabric go in one call, which shares what is the same in all of them.
    """
    if subject.graph.link_count > MAX_POD_LINKS:
        return [None] * len(damages)
    try:
        found = pod_throughput(subject.graph, damages, batch=subject.pods).share
        return [float(share) if isfinite(share) else None for share in found]
    except InputError:
        # A torus has no pods, a rail-only network no paths between them.
        return [None] * len(damages)


def _fastest(
    subject: Subject, lost: tuple[int, int], paces: tuple[float, float] | None
) -> tuple[Way, SearchResult | None]:
    """The fastest way to go on, and its best plan; ``paces`` is None if some GPU cannot.

    What is lost are so many HB domains, and so many GPUs of the one that lost most.
    """
    hit, _ = lost
    options: list[tuple[Way, SearchResult | None]] = []
    if paces is not None and min(paces) > 0:
        options.append(("all GPUs", subject.intact if min(paces) >= 1 else subject.slowed(*paces)))
    if hit and hit <= subject.spare_domains:
        options.append(("spare", subject.intact))
    if 0 < hit < subject.sizing.full_domains or (hit and subject.search):
        options.append(("without", subject.without(*lost)))
    timed = [(way, found) for way, found in options if found is not None]
    if not timed:
        # Without a plan there is no time, but the first way is still how the job goes on.
        return (options[0][0] if options and subject.intact is None else "stopped"), None
    return min(timed, key=lambda option: option[1].time_s)


SKIPPED = frozenset({"link", "transceiver", "switch", "manager"})
"""Kinds that others stand for: a link by its group, a switch by its tier."""

BIG_GROUPS = frozenset({"rail", "plane", "hall", "row", "batch"})
"""Groups that fail as a whole only in a scenario that says so."""


class Single(Struct, frozen=True):
    """The failure of one part.

    Parameters
    ----------
    kind, part
        Kind of part, and the one that failed.
    parts
        How many there are [1].
    impact
        What it does.
    """

    kind: str
    part: str
    parts: int
    impact: Impact


def single_parts(inventory: Inventory) -> list[Parts]:
    """One part of each kind, the one in the middle of its kind.

    Parts of a kind are alike but for those at the edge of a fabric that does not fill its
    switches; one in the middle stands for most.
    """
    kinds = [kind for kind in inventory.kinds.values() if kind.name not in SKIPPED | BIG_GROUPS]
    return [Parts(kind, kind.numbers[[len(kind.numbers) // 2]]) for kind in kinds]


def single_failures(
    inventory: Inventory, impacts: Iterable[tuple[Parts, Impact]]
) -> Iterator[Single]:
    """Failures of single parts, with their names."""
    names = PartNames(inventory)
    for parts, impact in impacts:
        name = next(iter(names.of(parts)))
        yield Single(parts.kind.name, name, len(parts.kind.numbers), impact)


def impacts_of(subject: Subject, damages: Sequence[Damage]) -> list[Impact]:
    """What each of some damages does; together, since that costs little more than one alone."""
    shares = pod_shares(subject, damages)
    return [impact_of(subject, *pair) for pair in zip(damages, shares, strict=True)]

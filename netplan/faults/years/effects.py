"""What failures take from a job until their repair: one model for the scenario and the years.

The failure of each unit of a failure book has the effect that the scenario finds for one such part
(:mod:`netplan.faults.damage.impact`): it takes HB domains from the job, or slows all GPUs. Servers,
racks and power feeds that nobody says the place of take as many domains as they hold.

How slow the job is while n domains are missing is the search's answer for what is left, worked out
for 1 to 8 and then in steps of a quarter, between which the larger number counts. Without a plan
the job is taken to lose the share of its domains that is missing.

Idle GPUs of HB domains over the years: how often one takes a failed GPU's place.

Blocks of GPUs (single ones, trays, whole domains) meet their spares in sets of circuit switches
(:mod:`netplan.topologies.rail_circuits`). Failures under repair in a set are an M/G/inf queue: a
Poisson number N whose mean m is rate x repair hours, spares included. A failure that finds N >= s
of s spares has nobody to take over, which is P(N >= s) of all (Poisson arrivals see time averages).

idle GPUs inside a domain
    Its sets have s_j of them each, and the share w_j of the GPUs. The domain is short of GPUs
    1 - prod P(N_j <= s_j) of the time.
spare blocks beside X domains
    N - s blocks are missing while N > s, of as many domains at the most, so that
    E[min(N - s, X)+] = sum over j = 1 to X of P(N >= s + j) domains are short: all of them where no
    domain lacks two blocks at once.

By Little's law each failure without a spare takes its domain for short / (m missed) of its repair,
about 1/(s + 1). For s = 0 these are 1 and, for small m, 1. Failures of two parts of one block count
twice.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from math import inf

import numpy as np
from msgspec import Struct

from netplan.arrays import ceil_div
from netplan.faults.damage.cuts import CutOption
from netplan.faults.damage.impact import Impact, Single, Subject
from netplan.faults.years import rates
from netplan.faults.years.outages import Cause, Effect, ThroughputTable
from netplan.inputs.choices import End
from netplan.records import replace
from netplan.topologies.fabric import TIER_NAMES, Fabric
from netplan.topologies.rail_circuits import CircuitPlan
from netplan.units import HOURS_PER_YEAR

REPLACED: frozenset[rates.Unit] = frozenset({"gpu", "nic_port"})
"""Units that an idle GPU, which has a network card of its own, takes the place of."""


class IdleGpus(Struct, frozen=True):
    """Idle GPUs that take over in blocks.

    Parameters
    ----------
    used
        Share of the GPUs that failures are counted of which the job uses [1].
    missed, short
        Share of the failures that find none left, and domains of a set of spares, or of one domain,
        that are short of GPUs, on average [1].
    mean_down
        Mean number of failures under repair there, without those of spares beside the domains [1].
    block_gpus
        GPUs of a block [1].
    whole
        Whether it is a whole HB domain.
    """

    used: float
    missed: float
    short: float
    mean_down: float
    block_gpus: int = 1
    whole: bool = False

    def split(self, row: rates.FailureRate, parts: Iterable[Cause]) -> tuple[Cause, ...]:
        """The causes of a row of a book, told apart by whether an idle GPU takes over.

        Where one does, the job starts again and has lost nothing; a failed idle GPU stops nothing.

        Examples
        --------
        >>> from netplan.faults.years.rates import FAILURE_BOOKS
        >>> row = FAILURE_BOOKS.load("2026").rate("GPU")
        >>> idle = IdleGpus(7 / 8, missed=0.002, short=0.000002, mean_down=0.002)
        >>> taken, lost = idle.split(row, [Cause("GPU", 0.5, 1024, repair_h=24.0)])
        >>> taken.effect.domains, taken.interruptions_per_year, lost.failures_per_year
        (0, 447.104, 1.024)
        >>> lost.repair_h
        12.0
        """
        if not is_replaced(row, self.block_gpus, whole=self.whole):
            return tuple(parts)
        held = self.short / (self.mean_down * self.missed) if self.missed else 0.0
        causes: list[Cause] = []
        for part in parts:
            rate = part.rate_per_year
            taken = replace(
                part,
                rate_per_year=rate * (1 - self.missed),
                interrupts=part.interrupts * self.used,
                effect=Effect(),
            )
            lost = replace(
                part, rate_per_year=rate * self.missed, repair_h=part.repair_h * min(held, 1.0)
            )
            causes += [taken, lost]
        return tuple(causes)


def is_replaced(row: rates.FailureRate, block_gpus: int = 1, *, whole: bool = False) -> bool:
    """Whether a spare block takes the place of what a row of a book is about.

    Parameters
    ----------
    row
        A row of a failure book.
    block_gpus
        GPUs of a block [1].
    whole
        Whether the block is a whole HB domain, whose gear moves with it.

    Examples
    --------
    A server of eight GPUs is replaced by eight, not by one of them.

    >>> from netplan.faults.years.rates import FAILURE_BOOKS
    >>> book = FAILURE_BOOKS.load("2026").placed(8)
    >>> [is_replaced(book.rate("Server hardware"), gpus) for gpus in (1, 8)]
    [False, True]
    """
    if row.kind == "hb-gear":
        return whole
    if row.gpus_each is not None:
        return row.gpus_each <= block_gpus
    return row.unit in REPLACED


def idle_gpus(
    book: rates.FailureBook,
    units: Mapping[rates.Unit, int],
    *,
    plan: CircuitPlan,
    idle: int,
    end: End = "base",
) -> IdleGpus:
    """Chances that all spares are in use, by a book and the units of the job there are [1].

    Parameters
    ----------
    book, units
        Failure rates, and the units of the job's GPUs [1].
    plan
        Circuit switches; where it has no spare blocks its blocks are single GPUs.
    idle
        GPUs of each domain that stand by, without spare blocks [1].
    end
        End of the rates.

    Examples
    --------
    >>> from netplan.faults.years.rates import FAILURE_BOOKS
    >>> book = FAILURE_BOOKS.load("2026")
    >>> units = {"gpu": 1024, "nic_port": 1024}
    >>> idle = idle_gpus(book, units, plan=CircuitPlan(136, 128, 8, 1), idle=1)
    >>> 0 < idle.short < idle.missed < idle.mean_down < 0.1
    True
    """
    # Loaded only where idle GPUs are asked for: it takes longer than all catalogs together.
    from scipy.special import gammainc  # noqa: PLC0415

    domain_gpus = ceil_div(units["gpu"], plan.domains)
    block_gpus, whole = domain_gpus // plan.blocks, plan.blocks == 1
    hours = sum(
        row.rate_per_year.at_end(end) * row.count_in(units) * book.repair_h(row.kind).at_end(end)
        for row in book.rates
        if row.unit not in rates.LAYOUT and is_replaced(row, block_gpus, whole=whole)
    )
    domains = plan.domains / plan.groups if plan.spares else 1.0
    mean = hours / HOURS_PER_YEAR / plan.domains * domains
    share = plan.set_sizes / plan.blocks
    ready = np.full(plan.sets, plan.spares) if plan.spares else plan.idle_of_sets(idle)
    spare_share = plan.spare_blocks / (plan.domains * plan.blocks)
    down = mean * (1 + spare_share) * share
    # P(N >= s) of a Poisson number is the lower incomplete gamma function, exact where it is tiny.
    missed = np.where(ready > 0, gammainc(np.maximum(ready, 1), down), 1.0)
    if plan.domains_each > 1 and plan.spares:
        missing = np.arange(1, plan.domains_each + 1)
        short = float(gammainc(plan.spares + missing, down[0]).sum())
    else:
        short = float(-np.expm1(np.log1p(-gammainc(ready + 1, down)).sum()))
    return IdleGpus(
        used=1.0 if plan.spares else 1 - idle / plan.blocks,
        missed=float(share @ missed),
        short=short,
        mean_down=mean,
        block_gpus=block_gpus,
        whole=whole,
    )


EXACT = 8
"""Missing domains up to which every number is searched for [1]."""

STEP = 1.25
"""Each larger number that is searched for, over the one before [1]."""

SAME = 1e-9
"""Slowdowns below this are rounding [1]."""

Slowness = Callable[[int, bool], float]
"""Iteration time over that of the whole job, by domains missing and whether they are lost whole."""


class FailureEffects(Struct, frozen=True):
    """Effects of the failures of a fabric.

    Parameters
    ----------
    of_units
        By unit of a failure book: its kinds of parts, with how many there are and their effect.
    slowness
        How slow the job is without some domains.
    units
        Units that can fail, of :func:`netplan.faults.years.rates.unit_counts` [1].
    domains, hb_size
        HB domains of the job, and GPUs of each [1].
    idle
        Idle GPUs in its domains that take over within them; None if there are none.
    """

    of_units: Mapping[rates.Unit, tuple[tuple[int, Effect], ...]]
    slowness: Slowness
    units: Mapping[rates.Unit, int]
    domains: int
    hb_size: int
    idle: IdleGpus | None = None

    def of(self, row: rates.FailureRate) -> tuple[tuple[int, Effect], ...]:
        """Kinds of parts that a row of a book is about, with their number and effect.

        Examples
        --------
        A power feed of 512 GPUs takes 64 domains of eight.

        >>> from netplan import Scenario
        >>> from netplan.faults.years.rates import FAILURE_BOOKS
        >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=64)
        >>> fabric = scenario.fabric("rail-only").counts
        >>> feed = FAILURE_BOOKS.load("2026").placed(8).rate("Power feed")
        >>> [(parts, effect.domains) for parts, effect in untimed_effects(fabric).of(feed)]
        [(1, 64)]
        """
        if row.gpus_each is not None:
            taken = min(ceil_div(row.gpus_each, self.hb_size), self.domains)
            return ((1, Effect(domains=taken, whole=row.gpus_each > 1)),)
        if row.kind == "hb-gear":
            return ((1, Effect(domains=1, whole=True)),)
        return self.of_units.get(row.unit, ((1, Effect()),))

    def throughput(
        self, taken: Collection[int], *, idle: int, wait: bool, most: int, beyond: int = 0
    ) -> ThroughputTable:
        """Table of the throughput, up to a number of missing domains.

        Parameters
        ----------
        taken
            Domains that single failures take, which are worked out exactly [1].
        idle
            Idle domains beside the job's [1].
        wait
            Whether the job waits while more are down.
        most
            Missing domains up to which plans are searched for [1].
        beyond
            Missing domains up to which the job loses the share of its domains that is missing, and
            from which on it always waits [1].
        """
        if wait:
            return ThroughputTable(idle, wait=True)
        numbers = list(range(1, EXACT + 1))
        while numbers[-1] < most:
            numbers.append(round(STEP * numbers[-1]))
        missing = [count for count in sorted({*numbers, *taken}) if 0 < count < self.domains]
        factor = np.ones((2, len(missing) + 1))
        for whole in range(2):
            factor[whole, 1:] = [self.slowness(number, bool(whole)) for number in missing]
        numbers = numbers[-1:]
        while numbers[-1] < beyond:
            numbers.append(round(STEP * numbers[-1]))
        further = [
            number for number in numbers[1:] if missing and missing[-1] < number < self.domains
        ]
        if further:
            left = (self.domains - missing[-1]) / (self.domains - np.array(further))
            factor = np.concatenate([factor, factor[:, -1:] * left], axis=1)
            missing += further
        # A job may leave out more than is missing, where plans of fewer domains divide better.
        factor = np.minimum.accumulate(factor[:, ::-1], axis=1)[:, ::-1]
        # So may the whole job, so that none is faster than with all domains.
        factor = np.maximum(1.0, np.maximum.accumulate(factor, axis=0))
        return ThroughputTable(idle, wait=False, missing=np.array([0, *missing]), factor=factor)


def untimed_effects(fabric: Fabric) -> FailureEffects:
    """Effects where nothing else is known: a GPU or server takes its domain, no part slows."""
    taken: dict[rates.Unit, tuple[tuple[int, Effect], ...]] = {
        "gpu": ((1, Effect(domains=1)),),
        "hb_domain": ((1, Effect(domains=1, whole=True)),),
    }
    domains = fabric.sizing.domains
    units = rates.unit_counts(fabric)
    return FailureEffects(taken, proportional(domains), units, domains, fabric.sizing.hb_size)


def proportional(domains: int) -> Slowness:
    """Throughput of the share of the domains that is left.

    Examples
    --------
    >>> proportional(8)(4, False)
    2.0
    """

    def slowness(missing: int, whole: bool) -> float:  # noqa: ARG001, FBT001 - as a search has it
        return domains / (domains - missing) if missing < domains else inf

    return slowness


def searched(subject: Subject) -> Slowness:
    """Throughput of the best plan on what is left."""
    intact = subject.intact
    if intact is None:
        return proportional(subject.sizing.domains)

    free = subject.search is not None and subject.search.setting.free
    none_from = {False: inf, True: inf}

    @cache
    def slowness(missing: int, whole: bool) -> float:  # noqa: FBT001 - as Slowness says
        gpus = subject.sizing.hb_size if whole else 1
        # Plans that must divide may need to leave out more than is missing; free ones leave GPUs
        # idle, so that what fits on some fits on more.
        tried = 0 if missing >= none_from[whole] else 1 if free else 2 * EXACT
        for out in range(missing, missing + tried):
            plans = subject.best_at(CutOption(out, gpus, 1.0, 1.0))
            if plans is not None:
                return plans.time_s / intact.time_s
        if free:
            none_from[whole] = min(none_from[whole], missing)
        return inf

    return slowness


def effect_of(impact: Impact, slowness: Slowness) -> Effect:
    """Effect of a failure from its impact on a job without idle domains.

    Beside the domains that are missing, what the network has lost counts.

    Examples
    --------
    A leaf of a rail cuts off a GPU of each of eight domains, which all train on; a failed GPU takes
    its domain from the job.

    >>> from netplan import Scenario
    >>> from netplan.faults.damage.scenario import parse_faults
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.specs import FABRICS
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=8)
    >>> spec, sizing = FABRICS.load("rail-only"), scenario.sizing
    >>> subject = Subject(spec, sizing, build_fabric(spec, sizing), None)
    >>> for part in ("rail-0/leaf-0", "gpu-5"):
    ...     impact = subject.impact(parse_faults([part], subject.graph))
    ...     found = effect_of(impact, searched(subject))
    ...     print(found.domains, found.all_gpus)
    8 True
    1 False
    """
    slower = max(impact.slowdown or 0.0, 0.0)
    if impact.way == "all GPUs":
        return Effect(impact.domains_hit, all_gpus=True, slowdown=slower)
    hit, out = impact.domains_hit, impact.domains_out
    if impact.way == "stopped":
        # Nothing but idle domains in place of those that are hit lets the job go on.
        return Effect(hit or out, all_gpus=True, slowdown=inf)
    domains, whole = min(hit, out) if hit else out, impact.gpus_out > 1
    if impact.slowdown is None:
        return Effect(domains, whole)
    if slowness(domains, whole) > (1 + slower) * (1 + SAME):
        # Domains of one group or slab that idle as one cost less than as many anywhere.
        more = bisect_right(
            range(domains), 1 + slower, lo=1, key=lambda some: slowness(some, whole)
        )
        domains = more - 1
    further = (1 + slower) / (slowness(domains, whole) if domains else 1.0) - 1
    return Effect(domains, whole, slowdown=further if further > SAME else 0.0)


def effects_of(
    fabric: Fabric,
    units: Mapping[rates.Unit, int],
    *,
    singles: Sequence[Single[Impact]],
    slowness: Slowness,
) -> FailureEffects:
    """Effects of the units of a fabric from the failure of one part of each kind.

    Parameters
    ----------
    fabric
        The fabric.
    units
        Units that can fail [1].
    singles
        One failure of each kind of part, of a job without idle domains.
    slowness
        How slow the job is without some domains.

    Examples
    --------
    A failed GPU takes its domain from the job, a failed port takes none.

    >>> from netplan import Scenario
    >>> from netplan.faults.damage.impact import single_failures, single_parts
    >>> from netplan.faults.damage.inventory import Inventory
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.specs import FABRICS
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=8)
    >>> spec, sizing = FABRICS.load("rail-only"), scenario.sizing
    >>> subject = Subject(spec, sizing, build_fabric(spec, sizing), None)
    >>> inventory = Inventory(subject.graph)
    >>> impacts = ((one, subject.impact(inventory.damage([one])))
    ...            for one in single_parts(inventory))
    >>> found = effects_of(subject.fabric, rates.unit_counts(subject.fabric),
    ...                    singles=tuple(single_failures(inventory, impacts)),
    ...                    slowness=searched(subject))
    >>> [(parts, effect.domains, effect.all_gpus)
    ...  for unit in ("gpu", "nic_port") for parts, effect in found.of_units[unit]]
    [(64, 1, False), (64, 1, True)]
    """
    effect_by_kind = {
        single.kind: (single.parts, effect_of(single.impact, slowness)) for single in singles
    }
    kinds = kinds_of_units(fabric, effect_by_kind)
    return FailureEffects(
        {
            unit: tuple(effect_by_kind[kind] for kind in names)
            for unit, names in kinds.items()
            if names
        },
        slowness,
        units,
        fabric.sizing.domains,
        fabric.sizing.hb_size,
    )


def kinds_of_units(fabric: Fabric, kinds: Iterable[str]) -> dict[rates.Unit, list[str]]:
    """Kinds of parts that each unit of a placed book is about, as far as they are there.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=1024, radix=64)
    >>> fabric = scenario.fabric("rail-optimized").counts
    >>> kinds = ["gpu", "nic", "domain", "host", "leaf-spine", "leaf", "spine"]
    >>> found = kinds_of_units(fabric, kinds)
    >>> found["host_fibre"], found["trunk_fibre"], found["leaf_switch"], found["upper_switch"]
    (['host'], ['leaf-spine'], ['leaf'], ['spine'])
    """
    there = list(kinds)
    places = {group.name: rates.end_of(group) for group in fabric.links}
    hosts = [name for name in there if places.get(name) == "host"]
    trunks = [name for name in there if places.get(name) == "trunk"]
    tiers = [name for name in there if name in TIER_NAMES or name.startswith("tier-")]
    return {
        "gpu": [name for name in there if name == "gpu"],
        "nic_port": ["card"] if "card" in there else [name for name in there if name == "nic"],
        "hb_domain": [name for name in there if name == "domain"],
        **dict.fromkeys(("host_link", *(near for _, near, _ in rates.OF_LINKS)), hosts),
        **dict.fromkeys(("trunk_link", *(far for _, _, far in rates.OF_LINKS)), trunks),
        "engine": [name for name in there if name == "engine"],
        "leaf_switch": tiers[: len(hosts)],
        "upper_switch": tiers[len(hosts) :],
    }

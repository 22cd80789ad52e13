"""Failure books: how often one unit of each kind fails, and how long its repair takes.

A rate is failures per unit and year; what one unit is stands in each row. Where a source prints
counts, the row holds them: the rate is events / (units x days) x 365, its range the exact 95 %
interval of a Poisson count (Garwood, Biometrika 28, 1936). No row knows a network: the counts of
a fabric come from :func:`unit_counts`.
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Literal, get_args

from msgspec import Meta

from netplan.catalog import Record, Shelf, unknown_name
from netplan.costing.ranges import Estimate, Range
from netplan.errors import InputError
from netplan.records import Entry, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from netplan.topologies.clos import ceil_div
from netplan.topologies.fabric import Fabric
from netplan.units import DAYS_PER_YEAR, HOURS_PER_YEAR

MAX_PER_YEAR = 100.0
"""Most failures of one unit in a year; more is a slip of units [1/year]."""

INTERVAL = 0.95
"""Coverage of the range of an observed rate [1]."""

DeviceKind = Literal["gpu", "memory", "nic", "link", "transceiver", "switch", "circuit-switch"]
PlaceKind = Literal["server", "rack", "row", "power-feed", "tray", "hall", "batch", "group"]
OtherKind = Literal["maintenance", "software", "unknown"]
Kind = Literal[DeviceKind, "network", "hb-gear", PlaceKind, OtherKind]

LinkUnit = Literal["nic_port", "host_link", "trunk_link", "transceiver", "trunk_transceiver"]
SwitchUnit = Literal["switch", "leaf_switch", "upper_switch", "circuit_switch"]
GroupedUnit = Literal["server", "rack", "power_feed"]
LayoutUnit = Literal["row", "tray", "hall", "batch", "group"]
Unit = Literal["gpu", LinkUnit, SwitchUnit, "hb_domain", GroupedUnit, LayoutUnit]

End = Literal["low", "base", "high"]
"""Which end of a range counts."""

LAYOUT: frozenset[Unit] = frozenset(get_args(LayoutUnit))
"""Units that are there only where somebody says which parts belong to them: risk groups."""

GROUPED: frozenset[Unit] = frozenset(get_args(GroupedUnit))
"""Units that hold a number of GPUs, which the row states."""


class Observed(Entry, frozen=True, kw_only=True):
    """Counts that a source prints: events of a number of units in a number of days."""

    events: NonNegativeInt
    units: PositiveInt
    days: PositiveFloat
    printed_percent: NonNegativeFloat | None = None

    @property
    def rate_per_year(self) -> Range:
        """Failures per unit and year, with the 95 % interval of the count."""
        per_event = DAYS_PER_YEAR / (self.units * self.days)
        low, high = poisson_interval(self.events)
        return Range(per_event * low, per_event * self.events, per_event * high)


class FailureRate(Entry, frozen=True, kw_only=True):
    """How often one unit fails.

    The rate is ``low``, ``base``, ``high`` [1/year], or ``observed`` counts. ``interrupts`` is the
    share of the failures that stop a job which uses the unit; ``down`` the probability that a unit
    is down at a moment, where a source states it.
    """

    cause: str
    kind: Kind
    unit: Unit
    gpus_each: PositiveInt | None = None
    low: NonNegativeFloat | None = None
    base: NonNegativeFloat | None = None
    high: NonNegativeFloat | None = None
    observed: Observed | None = None
    interrupts: float = 1.0
    down: float | None = None
    date: str
    source: str
    confidence: Literal["high", "medium", "low"]
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse rates out of order and range, shares that are none, units without their GPUs."""
        self._check_rates()
        self._check_shares()

    def _check_rates(self) -> None:
        if (self.base is None) == (self.observed is None):
            raise ValueError(f"{self.cause}: give either base (with low, high) or observed counts")
        if self.base is None and (self.low is not None or self.high is not None):
            raise ValueError(f"{self.cause}: the range of observed counts follows from them")
        rate = self.rate_per_year
        if not rate.low <= rate.base <= rate.high:
            raise ValueError(
                f"{self.cause}: rates run low <= base <= high, got {rate.low:g}, {rate.base:g},"
                f" {rate.high:g}"
            )
        # The upper end of few observed counts may be high; what was seen may not.
        top = rate.base if self.observed else rate.high
        if top > MAX_PER_YEAR:
            raise ValueError(
                f"{self.cause}: {top:g} failures per {self.unit} and year are out of range:"
                f" give 0 to {MAX_PER_YEAR:g}; a figure per 1000 unit-days is divided by 1000"
                " before it is multiplied by 365 (6.5 per 1000 node-days are 2.37 a year)"
            )

    def _check_shares(self) -> None:
        for key, share in (("interrupts", self.interrupts), ("down", self.down)):
            if share is not None and not 0 <= share <= 1:
                raise ValueError(
                    f"{self.cause}: {key} is a probability, got {share:g}: give 0 to 1, and"
                    " divide a percentage by 100"
                )
        if (self.gpus_each is None) == (self.unit in GROUPED):
            verb = "needs" if self.unit in GROUPED else "has no"
            raise ValueError(f"{self.cause}: unit {self.unit} {verb} gpus_each")

    @property
    def rate_per_year(self) -> Range:
        """Failures per unit and year; a missing end is the base."""
        if self.observed is not None:
            return self.observed.rate_per_year
        base = self.base or 0.0
        low = base if self.low is None else self.low
        return Range(low, base, base if self.high is None else self.high)

    def count_in(self, units: Mapping[Unit, int]) -> int:
        """How many such units a cluster has [1]; a server that is partly filled counts.

        Raises
        ------
        InputError
            If the counts do not hold the unit.
        """
        if self.gpus_each is not None:
            return ceil_div(units["gpu"], self.gpus_each)
        if self.unit not in units:
            raise InputError(
                f"{self.cause} is counted per {self.unit}, got counts of {', '.join(units)}: add"
                f" {self.unit}, 0 if there is none"
            )
        return units[self.unit]


class KindHours(Estimate, frozen=True, kw_only=True):
    """Hours for one kind of unit."""

    kind: Kind

    def __post_init__(self) -> None:
        """Refuse ends out of order, and hours of more than a year."""
        super().__post_init__()
        if self.range.high > HOURS_PER_YEAR:
            raise ValueError(
                f"{self.kind}: {self.range.high:g} h are more than a year: give at most"
                f" {HOURS_PER_YEAR:,.0f} h"
            )


class FailureBook(Record, frozen=True, kw_only=True):
    """Failure rates of one source or date.

    ``repairs`` are the hours until a failed unit works again with the spare part at hand,
    ``leads`` those until a new part is delivered, both by kind.
    """

    rates: Annotated[tuple[FailureRate, ...], Meta(min_length=1)]
    repairs: tuple[KindHours, ...] = ()
    leads: tuple[KindHours, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse rows that stand twice."""
        lists: dict[str, list[str]] = {
            "rates": [row.cause for row in self.rates],
            "repairs": [row.kind for row in self.repairs],
            "leads": [row.kind for row in self.leads],
        }
        for key, names in lists.items():
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise ValueError(f"{key}: {twice!r} stands there twice: keep one")

    def rate(self, cause: str) -> FailureRate:
        """Entry of a cause.

        Raises
        ------
        UnknownNameError
            If the book has no such cause.
        """
        for row in self.rates:
            if row.cause == cause:
                return row
        raise unknown_name("cause", cause, [row.cause for row in self.rates])

    def repair_h(self, kind: Kind) -> Range:
        """Hours until a failed unit works again, 0 where the book does not say."""
        return _hours(self.repairs, kind)

    def lead_h(self, kind: Kind) -> Range:
        """Hours until a new part is there, 0 where the book does not say."""
        return _hours(self.leads, kind)


FAILURE_BOOKS = Shelf("failures", "costing/failures", FailureBook)


def unit_counts(fabric: Fabric, *, circuit_switches: int = 0) -> dict[Unit, int]:
    """Units of a sized fabric that can fail [1].

    A host link joins a network port of a GPU to a switch, a leaf; the other links are trunks.
    Transceivers are two an optical link. Servers, racks and power feeds follow from the GPUs and
    the rows. Of units that hang on a layout there are none, as long as nobody gives one.

    Parameters
    ----------
    fabric
        A sized fabric.
    circuit_switches
        Optical circuit switches beside it [1].

    Examples
    --------
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Sizing(1024, 64, 8, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
    >>> units = unit_counts(build_fabric(FABRICS.load("rail-only"), sizing))
    >>> units["host_link"], units["leaf_switch"], units["upper_switch"], units["trunk_transceiver"]
    (1024, 32, 16, 2048)
    """
    # Every link of a BCube has a GPU at one end; its levels are numbered, a tier each.
    hosts = [
        group for group in fabric.links if group.name == "host" or group.name.startswith("level ")
    ]
    trunks = [group for group in fabric.links if group not in hosts]
    leaves = sum(tier.switches for tier in fabric.tiers[: len(hosts)])
    return {
        "gpu": fabric.sizing.gpus,
        "nic_port": fabric.card_ports,
        "host_link": sum(group.links for group in hosts),
        "trunk_link": sum(group.links for group in trunks),
        "transceiver": fabric.transceivers,
        "trunk_transceiver": 2 * sum(g.links for g in trunks if g.medium == "optical"),
        "switch": fabric.switches,
        "leaf_switch": leaves,
        "upper_switch": fabric.switches - leaves,
        "circuit_switch": circuit_switches,
        "hb_domain": fabric.sizing.domains,
        **dict.fromkeys(LAYOUT, 0),
    }


@cache
def poisson_interval(events: int, coverage: float = INTERVAL) -> tuple[float, float]:
    """Exact interval of the mean of a Poisson count (Garwood 1936), [1].

    Examples
    --------
    >>> low, high = poisson_interval(7)
    >>> round(low, 3), round(high, 3)
    (2.814, 14.423)
    """
    # Loaded only where counts are asked for: it takes longer than all catalogs together.
    from scipy.special import gammaincinv  # noqa: PLC0415

    tail = (1 - coverage) / 2
    low = float(gammaincinv(events, tail)) if events else 0.0
    return low, float(gammaincinv(events + 1, 1 - tail))


def _hours(rows: tuple[KindHours, ...], kind: Kind) -> Range:
    return next((row.range for row in rows if row.kind == kind), Range.point(0.0))

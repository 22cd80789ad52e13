"""Failure books: how often one unit of each kind fails, and how long its repair takes.

A rate is failures per unit and year; what one unit is stands in each row. Where a source prints
counts, the row holds them: the rate is events / (units x days) x 365, its range the exact 95 %
interval of a Poisson count (Garwood, Biometrika 28, 1936). A source that does not say among how
many units has counts and shares, but no rate. No row knows a network: the counts of a fabric come
from :func:`unit_counts`, and :meth:`FailureBook.placed` says where its parts sit.

What links are made of, as units that fail: modules, fibres and copper cables, as billed.

A link of fibre has a module at each end and a cable between them; one of copper is a cable with
fixed plugs. A twin-port module carries two links and is one module: with a switch model the counts
are those of its bill, links spread evenly over the cages; without one every end has a module of its
own.

Kinds of cables fail apart: passive copper (``dac``), active copper (``aec``), active optical
(``aoc``), which is no fibre with two modules here, since its plugs are not cleaned or swapped.
``copper_cable`` counts passive and active copper together, for books that do not tell them apart.

Optical ends are modules with a DSP, linear ones, or packaged with the switch (``cpo``): those of
switches are ports of optical engines then, each a group of links that fails as a whole, and only
the ends in cards are modules.

Links are *host* links, which end at a network port of a GPU, or *trunks*. A module that a host link
and a trunk share counts with the host links, whose loss is worse.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct, field

from netplan.arrays import ceil_div
from netplan.catalog import Catalog, Record, Sourced, unknown_name
from netplan.costing.ranges import Estimate, Range
from netplan.costing.wiring import BARE_FIBRE, CARD, CableRun, Wiring, plugs_needed
from netplan.errors import InputError
from netplan.inputs.choices import Confirmed, Evidence, OpticsKind
from netplan.records import Entry, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from netplan.topologies.fabric import Fabric
from netplan.topologies.graph import UNCABLED, LinkType
from netplan.units import DAYS_PER_YEAR, HOURS_PER_YEAR

Place = Literal["host", "trunk"]
ENDS_OF_A_LINK = 2


WornKind = Literal["dac", "aec", "aoc"]
"""Kinds of cables by how they fail: amplified ones (ACC) as retimed ones, whose rates are known."""


class LinkParts(Struct, frozen=True):
    """Parts of all links in one place.

    Parameters
    ----------
    modules, module_links
        Modules, and the ends of links that they serve [1].
    fibres
        Fibre cables, one a link [1].
    card_modules
        Modules of them in network cards [1].
    cables, cable_links
        Cables with fixed plugs, and the links that they carry, by kind [1].
    """

    modules: int = 0
    module_links: int = 0
    card_modules: int = 0
    fibres: int = 0
    cables: Mapping[WornKind, int] = field(default_factory=dict)
    cable_links: Mapping[WornKind, int] = field(default_factory=dict)


def end_of(links: LinkType | CableRun) -> Place:
    """Place of links: every link of a BCube has a GPU at one end.

    Examples
    --------
    >>> [end_of(LinkType("", role)) for role in ("host", "up", "ring")]
    ['host', 'trunk', 'trunk']
    """
    return "host" if links.role == "host" else "trunk"


def link_parts(fabric: Fabric, wiring: Wiring | None = None) -> dict[Place, LinkParts]:
    """Modules, fibres and cables of a fabric's host links and trunks.

    Parameters
    ----------
    fabric
        A sized fabric.
    wiring
        Its wiring, as of :func:`~netplan.costing.fabric_bill.wiring_of`; None for a module at every
        end of an optical link.

    Examples
    --------
    1,024 links leave the hosts and as many the leaves, whose 64 ports are 32 twin-port cages: 512
    + 512 modules in leaves, 512 in spines, and one in each of 1,024 cards.

    >>> from netplan import Scenario
    >>> from netplan.costing.cabling import CABLING_BOOKS
    >>> from netplan.costing.switches import SWITCHES
    >>> from netplan.costing.wiring import Hardware, wire
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=1024, radix=64).sizing
    >>> fabric = build_fabric(FABRICS.load("rail-optimized"), sizing)
    >>> {place: parts.modules for place, parts in link_parts(fabric).items()}
    {'host': 2048, 'trunk': 2048}
    >>> wiring = wire(fabric, Hardware(CABLING_BOOKS.load("2026"), SWITCHES.load("qm9700")))
    >>> {place: parts.modules for place, parts in link_parts(fabric, wiring).items()}
    {'host': 1536, 'trunk': 1024}
    """
    if wiring is not None:
        return _as_wired(wiring)
    # A module at every end of an optical link, a cable for every link of copper.
    parts: dict[Place, LinkParts] = {}
    places: tuple[Place, ...] = ("host", "trunk")
    for place in places:
        # Links on a chip are no parts.
        cabled = [group for group in fabric.links if group.medium not in UNCABLED]
        groups = [group for group in cabled if end_of(group) == place]
        lit = [group for group in groups if group.medium == "optical"]
        optical = sum(group.links for group in lit)
        passive = sum(group.links for group in groups) - optical
        copper: dict[WornKind, int] = {"dac": passive} if passive else {}
        ends, cards = (
            ENDS_OF_A_LINK * optical,
            sum(group.links * group.tiers.count(0) for group in lit),
        )
        parts[place] = LinkParts(ends, ends, cards, optical, copper, copper)
    return parts


def _as_wired(wiring: Wiring) -> dict[Place, LinkParts]:
    """Modules by the cage and cables by the piece, as on the bill."""
    counts: dict[Place, Counter[str]] = {"host": Counter(), "trunk": Counter()}
    ends: dict[tuple[str, str, int], Counter[Place]] = {}
    cables: dict[Place, Counter[WornKind]] = {"host": Counter(), "trunk": Counter()}
    carried: dict[Place, Counter[WornKind]] = {"host": Counter(), "trunk": Counter()}
    for run in wiring.runs:
        place = end_of(run)
        if run.medium != "fibre":
            kind: WornKind = "aec" if run.medium == "acc" else run.medium
            carried[place][kind] += run.links
            cables[place][kind] += run.plugs_at(0, wiring.bank(run.ends[0]).devices)
            continue
        counts[place]["fibres"] += run.links
        for side, (bank, plug) in enumerate(zip(run.ends, run.plugs, strict=True)):
            if run.counted is not None and plug.item != BARE_FIBRE:  # cage by cage, in a hall
                counts[place]["modules"] += run.counted[side]
                counts[place]["module_links"] += run.links
                counts[place]["card_modules"] += run.counted[side] if bank == CARD else 0
            elif plug.item != BARE_FIBRE:
                ends.setdefault((bank, plug.item, plug.links), Counter())[place] += run.links
    for (name, _, links), there in ends.items():
        # Modules of so many links each in the cages of a bank; shared ones are the hosts'.
        devices = wiring.bank(name).devices
        together = plugs_needed(there.total(), devices, links)
        hosts = min(together, plugs_needed(there["host"], devices, links))
        for place, modules in (("host", hosts), ("trunk", together - hosts)):
            counts[place]["modules"] += modules
            counts[place]["module_links"] += there[place]
            counts[place]["card_modules"] += modules if name == CARD else 0
    return {
        place: LinkParts(**parts, cables=cables[place], cable_links=carried[place])
        for place, parts in counts.items()
    }


MAX_PER_YEAR = 100.0
"""Most failures of one unit in a year; more is a slip of units [1/year]."""

INTERVAL = 0.95
"""Coverage of the range of an observed rate [1]."""

DeviceKind = Literal["gpu", "memory", "nic", "link", "transceiver", "switch", "circuit-switch"]
PlaceKind = Literal["server", "rack", "row", "power-feed", "tray", "hall", "batch", "group"]
OtherKind = Literal["maintenance", "software", "unknown"]
Kind = Literal[DeviceKind, "network", "hb-gear", PlaceKind, OtherKind]
NETWORK_KINDS: frozenset[Kind] = frozenset(
    {"nic", "link", "transceiver", "switch", "circuit-switch", "network", "tray"}
)
"""Kinds of failures that a job inside one HB domain does not feel."""

ModuleUnit = Literal["transceiver", "host_transceiver", "trunk_transceiver"]
CableUnit = Literal["fibre", "host_fibre", "trunk_fibre"]
CopperUnit = Literal["copper_cable", "host_copper_cable", "trunk_copper_cable"]
PassiveUnit = Literal["dac", "host_dac", "trunk_dac"]
ActiveUnit = Literal["aec", "host_aec", "trunk_aec", "aoc", "host_aoc", "trunk_aoc"]
FixedUnit = Literal[CopperUnit, PassiveUnit, ActiveUnit]
LinkUnit = Literal[
    "nic_port", "host_link", "trunk_link", ModuleUnit, CableUnit, CopperUnit, FixedUnit
]
SwitchUnit = Literal["switch", "leaf_switch", "upper_switch", "circuit_switch", "engine"]
GroupedUnit = Literal["server", "rack", "power_feed"]
LayoutUnit = Literal["row", "tray", "hall", "batch", "group"]
Unit = Literal["gpu", LinkUnit, SwitchUnit, "hb_domain", GroupedUnit, LayoutUnit]

LAYOUT: frozenset[Unit] = frozenset(get_args(LayoutUnit))
"""Units that are there only where somebody says which parts belong to them: risk groups."""

GROUPED: frozenset[Unit] = frozenset(get_args(GroupedUnit))
"""Units that hold a number of GPUs, which the row states."""

IN_SERVERS: frozenset[Kind] = frozenset(
    {"gpu", "memory", "nic", "hb-gear", "server", "maintenance"}
)
"""Kinds of failures that bad servers have more often."""

PLACES: Mapping[Unit, tuple[tuple[str, Unit], tuple[str, Unit]]] = {
    "switch": (("leaf", "leaf_switch"), ("above the leaves", "upper_switch")),
    "transceiver": (("host link", "host_transceiver"), ("trunk", "trunk_transceiver")),
    "fibre": (("host link", "host_fibre"), ("trunk", "trunk_fibre")),
    "copper_cable": (("host link", "host_copper_cable"), ("trunk", "trunk_copper_cable")),
    "dac": (("host link", "host_dac"), ("trunk", "trunk_dac")),
    "aec": (("host link", "host_aec"), ("trunk", "trunk_aec")),
    "aoc": (("host link", "host_aoc"), ("trunk", "trunk_aoc")),
}
"""Where units of one kind sit: those that GPUs hang on, then those that traffic can go around."""


class Observed(Entry, frozen=True, kw_only=True):
    """Counts that a source prints: events of a number of units in a number of days.

    Without ``units`` the source does not say among how many: there is no rate.
    """

    events: NonNegativeInt
    units: PositiveInt | None = None
    days: PositiveFloat
    printed_percent: NonNegativeFloat | None = None

    @property
    def unit_years(self) -> float:
        """Years that all units were watched together [1].

        Raises
        ------
        InputError
            If the source does not say how many units there were.
        """
        if self.units is None:
            raise InputError(
                f"{self.events} failures among nobody says how many units are no rate: give their"
                " number as units"
            )
        return self.units * self.days / DAYS_PER_YEAR

    @property
    def rate_per_year(self) -> Range:
        """Failures per unit and year, with the 95 % interval of the count."""
        low, high = poisson_interval(self.events)
        per_event = 1 / self.unit_years
        return Range(per_event * low, per_event * self.events, per_event * high)


class FailureRate(Sourced, frozen=True, kw_only=True):
    """How often one unit fails.

    The rate is ``low``, ``base``, ``high`` [1/year], or ``observed`` counts. ``interrupts`` is the
    share of the failures that stop a job which uses the unit, ``replaced`` the share after which
    the unit is replaced, the others being reset or cleaned; ``down`` the probability that a unit is
    down at a moment, where a source states it. ``gpus_each`` are the GPUs of a server, rack or
    power feed that was observed; :meth:`gpus_in` says what holds for other HB domains. ``optics``
    are the kinds of optical ends that the row is about, of all where it names none;
    ``ports_each`` the ports of an optical engine. All failures are ``times`` as frequent.
    ``evidence`` says what the rate is made of, ``why_apart`` why it may be apart from the record of
    one cluster that answers put beside it.
    """

    cause: str
    kind: Kind
    unit: Unit
    gpus_each: PositiveInt | None = None
    gpus_tray: PositiveInt | None = None
    gpus_most: PositiveInt | None = None
    low: NonNegativeFloat | None = None
    base: NonNegativeFloat | None = None
    high: NonNegativeFloat | None = None
    observed: Observed | None = None
    interrupts: float = 1.0
    replaced: float = 1.0
    down: float | None = None
    optics: tuple[OpticsKind, ...] = ()
    ports_each: PositiveInt | None = None
    times: PositiveFloat = 1.0
    confidence: Literal["high", "medium", "low"]
    confirmed: Confirmed | None = None
    note: str = ""
    why_apart: str = ""

    def __post_init__(self) -> None:
        """Refuse rates out of order and range, shares that are none, units without their GPUs."""
        self._check_rates()
        self._check_shares()

    def _check_rates(self) -> None:
        if (self.base is None) == (self.observed is None):
            raise ValueError(f"{self.cause}: give either base (with low, high) or observed counts")
        if self.base is None and (self.low is not None or self.high is not None):
            raise ValueError(f"{self.cause}: the range of observed counts follows from them")
        if not self.known:
            return
        rate = self.rate_per_year
        if not rate.low <= rate.base <= rate.high:
            raise ValueError(
                f"{self.cause}: rates run low <= base <= high, got {rate.low:g}, {rate.base:g},"
                f" {rate.high:g}"
            )
        # The upper end of few observed counts may be high; what was seen may not.
        top = (rate.base if self.observed else rate.high) / self.times
        if top > MAX_PER_YEAR:
            raise ValueError(
                f"{self.cause}: {top:g} failures per {self.unit} and year are out of range:"
                f" give 0 to {MAX_PER_YEAR:g}; a figure per 1000 unit-days is divided by 1000"
                " before it is multiplied by 365 (6.5 per 1000 node-days are 2.37 a year)"
            )

    def _check_shares(self) -> None:
        shares = {"interrupts": self.interrupts, "replaced": self.replaced, "down": self.down}
        for key, share in shares.items():
            if share is not None and not 0 <= share <= 1:
                raise ValueError(
                    f"{self.cause}: {key} is a probability, got {share:g}: give 0 to 1, and"
                    " divide a percentage by 100"
                )
        if (self.gpus_each is None) == (self.unit in GROUPED):
            verb = "needs" if self.unit in GROUPED else "has no"
            raise ValueError(f"{self.cause}: unit {self.unit} {verb} gpus_each")
        for key, value, unit in (
            ("gpus_tray", self.gpus_tray, "server"),
            ("gpus_most", self.gpus_most, "rack"),
        ):
            if value is not None and self.unit != unit:
                raise ValueError(f"{self.cause}: unit {self.unit} has no {key}, a {unit} may")

    @property
    def known(self) -> bool:
        """Whether the source says among how many units it counted."""
        return self.observed is None or self.observed.units is not None

    @property
    def rate_per_year(self) -> Range:
        """Failures per unit and year; a missing end is the base.

        Raises
        ------
        InputError
            If the source does not say among how many units it counted.
        """
        if self.observed is not None:
            return self.times * self.observed.rate_per_year
        base = self.base or 0.0
        low = base if self.low is None else self.low
        return self.times * Range(low, base, base if self.high is None else self.high)

    @property
    def is_assumed(self) -> bool:
        """Whether no source says how often such a unit fails."""
        return self.evidence == "assumed" or self.source.startswith("Assumption")

    def gpus_in(self, hb_size: int) -> int | None:
        """GPUs of one such server or rack of a cluster with these HB domains [1]; None for others.

        HB domains of up to ``gpus_each`` GPUs share a server or rack such as was observed. A larger
        domain is made of trays of ``gpus_tray`` GPUs, each a server of its own with its boards and
        supplies; a row without them is about GPUs more than boxes, and its servers stay as they
        were observed. A domain of up to ``gpus_most`` GPUs stands in one rack; larger ones span
        racks such as were observed. The rate is one unit's, whatever its size.
        """
        if self.gpus_each is None or hb_size <= self.gpus_each:
            return self.gpus_each
        if self.gpus_most is not None and hb_size <= self.gpus_most:
            return hb_size
        return self.gpus_tray or self.gpus_each

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


class EffectiveTime(Sourced, frozen=True, kw_only=True):
    """Share of the time of one job that counted [1], on so many GPUs, over so many days."""

    gpus: PositiveInt
    days: PositiveFloat
    ratio: Annotated[float, Meta(ge=0, le=1)]
    confidence: Literal["high", "medium", "low"]


class Flap(Entry, frozen=True, kw_only=True):
    """A host link that is down for seconds and comes back: an event, no failure.

    It happens ``base`` times a link and year; the link is down for ``down_s``, and what was on its
    way is sent again ``retransmit_s`` later. ``optics`` are the kinds of ends that it is about.
    """

    optics: tuple[OpticsKind, ...] = ()
    per_year: Estimate
    down_s: Estimate
    retransmit_s: Estimate
    evidence: Evidence
    note: str = ""


class BadServers(Entry, frozen=True, kw_only=True):
    """Servers that fail ``times`` as often as the others, a ``share`` of a fleet that was seen."""

    share: Annotated[float, Meta(gt=0, lt=1)]
    times: Annotated[float, Meta(ge=1, le=1000)]
    date: str
    source: str
    confidence: Literal["high", "medium", "low"]
    evidence: Evidence
    note: str = ""


class ClusterSpread(Entry, frozen=True, kw_only=True):
    """How clusters differ: interruptions ``times`` as many, and as few."""

    times: Annotated[float, Meta(ge=1, le=1000)]
    date: str
    source: str
    confidence: Literal["high", "medium", "low"]
    evidence: Evidence


class FailureBook(Record, frozen=True, kw_only=True):
    """Failure rates of one source or date.

    ``repairs`` are the hours until a failed unit works again with the spare part at hand,
    ``leads`` those until a new part is delivered, both by kind; ``effective_time`` is what one job
    of the source reached. ``spread`` is by how much clusters have more or fewer interruptions,
    without which the ends of the rates say it; ``flaps`` are kept apart from failures;
    ``bad_servers`` are those that a share of a cluster may be.
    """

    rates: tuple[FailureRate, ...] = ()
    spread: ClusterSpread | None = None
    flaps: tuple[Flap, ...] = ()
    bad_servers: BadServers | None = None
    effective_time: EffectiveTime | None = None
    repairs: tuple[KindHours, ...] = ()
    leads: tuple[KindHours, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse books of nothing, and rows that stand twice."""
        if not self.rates and self.effective_time is None:
            raise ValueError("rates: missing, give failure rates, or the effective_time of a job")
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

    def placed(
        self, hb_size: int, *, optics: OpticsKind = "dsp", bad_servers: float = 0.0
    ) -> "FailureBook":
        """The book for a fabric with such HB domains: rows by where their parts sit.

        Rows of other ends of optical links than those asked for are left out. Where a share b of
        the servers fails k times as often, failures of what is in servers come 1 + b (k - 1) times
        as often: the sum of Poisson processes is one.

        Switches part into leaves and those above, modules and cables into those of host links and
        of trunks: the same parts fail alike wherever they sit. But traffic goes around what no GPU
        hangs on, so that above the leaves they stop no job. Servers and racks have the size of
        :meth:`FailureRate.gpus_in`, power feeds as many GPUs as fit in whole racks; domains of one
        GPU have no HB gear.

        Raises
        ------
        InputError
            If the book has no rates.

        Examples
        --------
        >>> book = FAILURE_BOOKS.load("2026").placed(72)
        >>> [(row.cause, row.interrupts) for row in book.rates if row.kind == "transceiver"]
        [('Optical module, host link', 1.0), ('Optical module, trunk', 0.0)]
        >>> [row.gpus_each for row in book.rates if row.gpus_each]
        [4, 4, 72, 504]
        """
        if not self.rates or not all(row.known for row in self.rates):
            raise InputError(
                f"failures {self.name} has no rates, since its source does not say among how many"
                " units it counted: give another book, such as 2026"
            )
        more = self._more_often(bad_servers)
        sized = {row.cause: row.gpus_in(hb_size) for row in self.rates}
        racks = [sized[row.cause] for row in self.rates if row.unit == "rack"]
        for row in self.rates:
            if row.unit == "power_feed" and row.gpus_each and racks and racks[0]:
                sized[row.cause] = max(1, row.gpus_each // racks[0]) * racks[0]
        gear = {"hb-gear"} if hb_size == 1 else set()
        rows: list[FailureRate] = []
        for row in self.rates:
            if row.kind in gear or optics not in (row.optics or (optics,)):
                continue
            times = more if row.kind in IN_SERVERS else 1.0
            whole = row.changed(gpus_each=sized[row.cause], times=row.times * times)
            if row.unit not in PLACES:
                rows.append(whole)
                continue
            (near, low), (far, high) = PLACES[row.unit]
            rows.append(whole.changed(cause=f"{row.cause}, {near}", unit=low))
            rows.append(whole.changed(cause=f"{row.cause}, {far}", unit=high, interrupts=0.0))
        return self.changed(rates=tuple(rows))

    def _more_often(self, bad_servers: float) -> float:
        """How many times as often servers fail together, of which a share are bad ones [1]."""
        if not bad_servers:
            return 1.0
        if self.bad_servers is None:
            raise InputError(
                f"--bad-servers: failures {self.name} does not say how often bad ones fail: give"
                " its file bad_servers, or another book, such as 2026"
            )
        return 1 + bad_servers * (self.bad_servers.times - 1)

    def stopping(self, survived: Collection[Unit]) -> "FailureBook":
        """The book in which failures of some units slow a job and do not stop it."""
        return self.changed(
            rates=tuple(
                row.changed(interrupts=0.0) if row.unit in survived else row for row in self.rates
            )
        )

    def repair_h(self, kind: Kind) -> Range:
        """Hours until a failed unit works again, 0 where the book does not say."""
        return _hours(self.repairs, kind)

    def lead_h(self, kind: Kind) -> Range:
        """Hours until a new part is there, 0 where the book does not say."""
        return _hours(self.leads, kind)


CABLE_KINDS: tuple[WornKind, ...] = get_args(WornKind)
PLACED: Mapping[Unit, tuple[Unit, Unit, Unit]] = {
    whole: (whole, near[1], far[1]) for whole, (near, far) in PLACES.items()
}
"""Units of parts of links, and of switches: all, those near GPUs and the others, by the first."""
OF_LINKS = tuple(units for whole, units in PLACED.items() if whole != "switch")
"""Those of parts of links."""

FAILURE_BOOKS = Catalog("failures", "costing/failures", FailureBook)


def unit_counts(
    fabric: Fabric, wiring: Wiring | None = None, optics: OpticsKind = "dsp"
) -> dict[Unit, int]:
    """Units of a sized fabric that can fail [1].

    A host link joins a network port of a GPU to a switch, a leaf; the other links are trunks. Of
    units that hang on a layout there are none, as long as nobody gives one; servers, racks and
    power feeds follow from the GPUs and the rows.

    Parameters
    ----------
    fabric
        A sized fabric.
    wiring
        Its wiring as billed (:func:`~netplan.costing.fabric_bill.wiring_of`); None counts a module
        at every end of an optical link.
    optics
        What optical ends are: of those packaged with switches only cards have modules.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=1024, radix=64).sizing
    >>> units = unit_counts(build_fabric(FABRICS.load("rail-only"), sizing))
    >>> units["host_link"], units["leaf_switch"], units["upper_switch"], units["trunk_transceiver"]
    (1024, 32, 16, 2048)
    """
    hosts = [group for group in fabric.links if end_of(group) == "host"]
    leaves = sum(tier.switches for tier in fabric.tiers[: len(hosts)])
    host_links = sum(group.links for group in hosts)
    ends = tuple(link_parts(fabric, wiring)[place] for place in get_args(Place))

    def placed(whole: Unit, near: int, far: int) -> dict[Unit, int]:
        return dict(zip(PLACED[whole], (near + far, near, far), strict=True))

    modules = [end.card_modules if optics == "cpo" else end.modules for end in ends]
    cables: dict[Unit, int] = {}
    for kind in CABLE_KINDS:
        cables |= placed(kind, *(end.cables.get(kind, 0) for end in ends))
    copper = PLACED["copper_cable"]
    return {
        "gpu": fabric.sizing.gpus,
        "nic_port": fabric.cards,
        "host_link": host_links,
        "trunk_link": fabric.link_count - host_links,
        **placed("transceiver", *modules),
        **placed("fibre", *(end.fibres for end in ends)),
        **{
            unit: cables[dac] + cables[aec]
            for unit, dac, aec in zip(copper, PLACED["dac"], PLACED["aec"], strict=True)
        },
        **cables,
        **placed("switch", leaves, fabric.switches - leaves),
        "circuit_switch": 0,
        "engine": 0,
        "hb_domain": fabric.sizing.domains,
        **dict.fromkeys(LAYOUT, 0),
    }


def host_links_each(fabric: Fabric, wiring: Wiring | None = None) -> dict[Unit, float]:
    """Host links that the failure of one unit takes, on average [1], by unit.

    A twin-port module takes two, a card's own module one.
    """
    host = link_parts(fabric, wiring)["host"]
    copper = [kind for kind in CABLE_KINDS if kind != "aoc"]
    kinds: dict[Unit, Sequence[WornKind]] = {"host_copper_cable": copper}
    kinds |= {PLACED[kind][1]: (kind,) for kind in CABLE_KINDS}
    return {
        "host_link": 1.0,
        "host_fibre": 1.0,
        "host_transceiver": host.module_links / max(host.modules, 1),
        **{
            unit: sum(host.cable_links.get(kind, 0) for kind in names)
            / max(sum(host.cables.get(kind, 0) for kind in names), 1)
            for unit, names in kinds.items()
        },
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

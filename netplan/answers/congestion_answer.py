"""What a congestion question answers: designs by what contention makes of them, hot links."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from netplan.answers.screen_titles import network_words, screen_heading
from netplan.decide.verdict import HAIR
from netplan.records import replace
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.screen import Screen, more_of
from netplan.setup.inputs import short_inputs
from netplan.simulation.congestion import packet_bars
from netplan.units import MEGA, counted, si

SCREEN_LINKS = 3
"""Hottest links that a screen names [1]."""

SPRAYED = "ecmp"
"""Routing that users call spray."""


class SharedLink(Struct, frozen=True):
    """A link that is among the fullest: its name, use and share of seeds [1], flows on it."""

    link: str
    utilisation: float
    seeds_share: float
    flows: int


class JobShare(Struct, frozen=True):
    """A job beside others: both times [s], and the slowdown of the median and of bad seeds [1]."""

    name: str
    time_s: float
    uncontended_time_s: float
    slowdown_p50: float
    slowdown_bad: float


class RoutedDesign(Struct, frozen=True, kw_only=True):
    """One oversubscription under one routing.

    Parameters
    ----------
    sharing
        How links are shared.
    routing, oversubscription
        Which design it is; the fabric's own ratio is None [1].
    seeds, connections
        Draws of paths, and connections of a pair [1].
    uncontended_time_s, times_s
        Without contention, and with it for every seed [s].
    slowdown_p50, slowdown_bad, slowdown_max
        Time over that without contention: over seeds the median, the bad one and the largest [1].
    bad_is
        Which of the seeds is the bad one.
    time_low_s, time_high_s
        Median time, and what packets have taken at most where fluid takes that [s].
    hot_links
        The fullest links.
    solves, flows, classes
        How often rates were found, for so many flows of so many kinds [1].
    jobs
        What contention makes of each of several jobs.
    network_usd, total_usd
        Price of the network, and with GPU hours; None where not known [USD].
    unknown
        Why not.
    over_least
        Its time without contention over the least of all designs: 1 but where an iteration has
        another best plan on another network [1].
    pays, pays_when_bad
        Whether cost times slowdown is the least of all designs; None where not known.
    """

    json_parts = "*", "error_basis", "usd_times_slowdown"

    sharing: str
    routing: str
    oversubscription: float | None = None
    seeds: int
    connections: int
    uncontended_time_s: float
    times_s: tuple[float, ...]
    slowdown_p50: float
    slowdown_bad: float
    bad_is: str
    slowdown_max: float
    time_low_s: float
    time_high_s: float
    hot_links: tuple[SharedLink, ...]
    solves: int
    flows: int
    classes: int
    jobs: tuple[JobShare, ...] = ()
    network_usd: float | None = None
    total_usd: float | None = None
    unknown: str = ""
    over_least: float = 1.0
    pays: bool | None = None
    pays_when_bad: bool | None = None

    @property
    def name(self) -> str:
        """Its routing as users call it, and its ratio where one is given."""
        routing = "spray" if self.routing == SPRAYED else self.routing
        ratio = "" if self.oversubscription is None else f"{self.oversubscription:g}:1, "
        return f"{ratio}{routing}"

    @property
    def usd_times_slowdown(self) -> float | None:
        """Price with GPUs times the median slowdown, against the fastest design alone [USD]."""
        factor = self.slowdown_p50 * self.over_least
        return None if self.total_usd is None else self.total_usd * factor

    @property
    def mark(self) -> str:
        """What marks a design that pays."""
        return "pays" if self.pays else "pays when bad" if self.pays_when_bad else ""

    def priced(
        self, network_usd: float | None, total_usd: float | None, unknown: str
    ) -> "RoutedDesign":
        """The same with its price."""
        return replace(self, network_usd=network_usd, total_usd=total_usd, unknown=unknown)

    @property
    def error_basis(self) -> str:
        """What its bar rests on."""
        return packet_bars().basis


def marked(designs: Sequence[RoutedDesign]) -> tuple[RoutedDesign, ...]:
    """Designs, of which those of the least cost times slowdown are marked.

    Parameters
    ----------
    designs
        With their prices.

    Returns
    -------
    tuple of RoutedDesign
        All within a hair of the least pay; none where a price is missing.
    """
    alone_s = min(design.uncontended_time_s for design in designs)
    if alone_s:
        designs = [
            replace(design, over_least=design.uncontended_time_s / alone_s) for design in designs
        ]
    known = [
        design.usd_times_slowdown for design in designs if design.usd_times_slowdown is not None
    ]
    if len(known) < len(designs):
        return tuple(designs)
    bad = [
        (design.usd_times_slowdown or 0.0) * design.slowdown_bad / design.slowdown_p50
        for design in designs
    ]
    most, most_bad = (min(costs) * (1 + HAIR) for costs in (known, bad))
    return tuple(
        replace(design, pays=cost <= most, pays_when_bad=cost_bad <= most_bad)
        for design, cost, cost_bad in zip(designs, known, bad, strict=True)
    )


def _millions(usd: float | None) -> str | None:
    """An amount in M USD, as bills have it."""
    return None if usd is None else f"{usd / MEGA:,.1f}"


DESIGNS: tuple[show.Column[RoutedDesign], ...] = (
    show.column("routing", "name", shown="people", title="Design"),
    *show.columns("routing", "oversubscription", shown="data"),
    *show.columns("slowdown_p50", "slowdown_bad", "time_s=time_low_s"),
    *show.columns("network_usd", "usd_times_slowdown", shown="data"),
    show.column(
        "network_usd", lambda design: _millions(design.network_usd), shown="people", title="M USD"
    ),
    show.column(
        "usd_times_slowdown",
        lambda design: _millions(design.usd_times_slowdown),
        shown="people",
        title="cost x slowdown",
    ),
    show.column("total_usd", shown="wide"),
    show.column("pays", "mark"),
)
OF_DESIGN = (*show.columns("routing", "oversubscription", of="0", shown="data"),)
"""Which design a row is of, of rows that are a design and what it has."""
SHARED_LINKS: tuple[show.Column[tuple[RoutedDesign, SharedLink]], ...] = (
    *show.columns("hottest=link", "utilisation", "seeds_share", "sharing_flows=flows", of="1"),
)


JOBS: tuple[show.Column[tuple[RoutedDesign, JobShare]], ...] = (
    show.column("job", "1.name"),
    *show.columns("time_s", "uncontended_time_s", "slowdown_p50", "slowdown_bad", of="1"),
)


@dataclass(frozen=True, slots=True, repr=False)
class CongestionAnswer(Answer):
    """The answer of :func:`congestion`: what contention makes of each design.

    ``seconds`` is what the answer took [s].
    """

    json_parts = "designs", "seconds", "notes=_notes"

    inputs: dict[str, Any]
    designs: tuple[RoutedDesign, ...]
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def chosen(self) -> RoutedDesign:
        """The design that pays; the first where no cost is known."""
        paying = [design for design in self.designs if design.pays]
        return min(paying or self.designs[:1], key=lambda design: design.usd_times_slowdown or 0.0)

    def summary(self) -> Iterator[show.Section]:
        """The slowdown of the design that pays, all designs, its hottest links."""
        busiest = self._busiest(self.chosen)
        busiest = replace(busiest, rows=busiest.rows[:SCREEN_LINKS])
        yield from Screen(
            screen_heading(self.inputs, self._heading(), lower=False),
            (self._verdict(),),
            self._designs(),
            (*((busiest,) if busiest.rows else ()), *self._notes),
            more_of("all links", "--connections 8", "--routing static"),
            firm_remarks=1,
        ).sections()

    def in_a_line(self) -> str:
        """The slowdown of the design that pays."""
        return f"{self.chosen.name}: slowdown {self.chosen.slowdown_p50:.2f}"

    def sections(self) -> Iterator[show.Section]:
        """Heading, verdict, designs, the hottest links of each, notes."""
        yield self._heading()
        yield show.Paragraph(self._verdict(), "strong")
        yield self._designs()
        for design in self.designs:
            yield self._busiest(design)
            if design.jobs:
                jobs = [(design, job) for job in design.jobs]
                title = f"Jobs: {design.name}"
                yield show.Table("jobs", JOBS, jobs, title=title, shown="people")
        links = [(design, link) for design in self.designs for link in design.hot_links]
        yield show.Table("hot_links", [*OF_DESIGN, *SHARED_LINKS], links, shown="data")
        if shares := [(design, job) for design in self.designs for job in design.jobs]:
            yield show.Table("jobs", [*OF_DESIGN, *JOBS], shares, shown="data")
        yield show.Notes.of([("", self._notes)])

    def _verdict(self) -> str:
        """How much slower the design is, and between which ends packets would be."""
        design = self.chosen
        of_seeds = ""
        if design.seeds > 1:
            of_seeds = f" (p50 of {design.seeds} seeds; max {design.slowdown_max:.2f})"
        whose = ""
        if design.jobs:
            lost = max(design.jobs, key=lambda job: job.slowdown_p50)
            whose = f", of job {lost.name}, which loses most"
        slower = ", ".join(
            f"{other.name} {other.slowdown_p50:.2f}"
            for other in self.designs
            if other.oversubscription == design.oversubscription
            and other.slowdown_p50 > design.slowdown_p50 * (1 + HAIR)
        )
        more = 100 * (design.time_high_s / design.time_low_s - 1) if design.time_low_s else 0.0
        return (
            f"slowdown {design.slowdown_p50:.2f}{of_seeds}: {si(design.time_low_s, 's')} instead of"
            f" {si(design.uncontended_time_s, 's')} without contention, error bar 0 to"
            f" +{more:.0f} %{whose}, with {design.name}{slower and f' ({slower})'}."
        )

    def _heading(self) -> show.Heading:
        """What is sent over which network."""
        inputs = short_inputs(self.inputs)
        where = inputs["graph"] or inputs["fabric"]
        what = inputs["traffic"]
        if what == "iteration":
            served = inputs.get("workload") == "serving"
            what = f"{'a round' if served else 'an iteration'} of {inputs['model']}"
            what = f"jobs of {inputs['jobs']}" if inputs.get("jobs") else what
        return show.Heading(f"Congestion of {what} on {where}", (network_words(self.inputs),))

    def _designs(self) -> show.Table[RoutedDesign]:
        """All designs."""
        drawn = max(self.designs, key=lambda design: design.seeds)
        legend = (
            f"slowdown: over no contention, p50 of seeds. bad: {drawn.bad_is}. M USD: network."
            " cost x slowdown: with GPUs; pays: the least, and within 1 %."
        )
        return show.Table("designs", DESIGNS, self.designs, legend=(legend,))

    def _busiest(self, design: RoutedDesign) -> show.Table[tuple[RoutedDesign, SharedLink]]:
        """The fullest links of a design."""
        columns_of_seeds = (
            SHARED_LINKS if design.seeds > 1 else [*SHARED_LINKS[:2], *SHARED_LINKS[3:]]
        )
        links = [(design, link) for link in design.hot_links]
        title = f"Hottest links: {design.name}"
        return show.Table("hot_links", columns_of_seeds, links, title=title, shown="people")

    @property
    def _notes(self) -> tuple[str, ...]:
        """What the bar is, what is not known, and what was noticed."""
        unknown = dict.fromkeys(design.unknown for design in self.designs if design.unknown)
        bar = (
            "The bar is the most that packets took beyond such a fluid in"
            f" {packet_bars().basis}: none of real switches."
            " Queues, pauses and losses are left out."
        )
        flows, classes = counted(self.chosen.flows, "flow"), self.chosen.classes
        if classes != self.chosen.flows:
            flows = f"{flows} of {counted(classes, 'class', 'classes')}"
        return (*self.notes, *unknown, bar, f"{flows}, rates found {self.chosen.solves:,} times.")

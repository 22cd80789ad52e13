"""What a question about several sites answers: losses by distance and ratio, break-evens, fibre."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from msgspec import Struct

from netplan.answers.screen_titles import screen_heading
from netplan.answers.sites_bill import SitesBill
from netplan.performance.spread import Across, Haul, OverSites, SpreadTime
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.axes import ChartAxis
from netplan.reports.charts import Chart, hover
from netplan.reports.plots import Points, line_chart
from netplan.reports.quantities import Words
from netplan.reports.schema import plain_at, plain_data
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import (
    Column,
    Heading,
    Notes,
    Paragraph,
    Section,
    Table,
    column,
    columns,
)
from netplan.setup.inputs import short_inputs
from netplan.setup.over_sites import FibreCut, after_cuts
from netplan.setup.spread_run import ChosenPlan
from netplan.topologies.sites import Sites
from netplan.units import counted, si

AUTO = "auto"
"""Microbatches ahead where the least is taken that hides the delay."""

SHOWN_KM = 1000.0
"""Length that is told of where several are asked for [km]."""

MOST_POINTS = 400
"""Points of a chart [1]."""

SAME = 1e-3
"""Share by which two times are the same in words [1]."""


class SitesCase(Struct, frozen=True):
    """Sites at one length [km] and ratio [1]; None of both where a file has its own.

    Some of the fibre of the ``whole`` may be cut.
    """

    km: float | None
    ratio: float | None
    whole: Sites
    cuts: tuple[FibreCut, ...] = ()

    @property
    def left(self) -> Sites:
        """What cuts leave of the sites."""
        return after_cuts(self.whole, self.cuts)

    @property
    def words(self) -> str:
        """Length and ratio in words."""
        if self.km is None:
            return "With the fibre of the file"
        return f"At {self.km:,g} km, {self.ratio:g}:1"


class SitesTime(Struct, frozen=True):
    """Time of a plan at one length [km] and ratio [1]."""

    json_parts = (
        *("km", "ratio", "time.across", "iteration_time_s=time.time_s"),
        *("one_site_time_s=time.one_site_s", "time.loss", "time.ahead", "time.exchange_s"),
        *("time.exposed_s", "time.bottleneck"),
    )

    km: float | None
    ratio: float | None
    time: SpreadTime


class SitesBreakEven(Struct, frozen=True):
    """Where the target is lost: at which ratio of a length, or which length of a ratio."""

    json_parts = "across", "*given", "?ahead", "at", "value", "why_null?"

    across: Across
    at: Literal["km", "ratio"]
    km: float | None
    ratio: float | None
    value: float | None
    why_null: str = ""
    ahead: int | str | None = None

    @property
    def given(self) -> dict[str, float | None]:
        """The length, or the ratio, that it is of."""
        return {"km": self.km} if self.at == "ratio" else {"ratio": self.ratio}

    @property
    def words(self) -> str:
        """The value in words."""
        if self.value is None:
            return self.why_null
        return f"{self.value:,.0f} km" if self.at == "km" else f"{self.value:,.3g}:1"


LossRow = tuple[str, Sequence[SitesTime]]
"""A row of losses: its name, and a time for every length."""


def _mark(target: float, number: int, row: LossRow) -> tuple[str, str]:
    """A star behind what loses more than the target."""
    return "", "*" if row[1][number].time.loss > target else ""


ROWS: tuple[Column[SitesTime], ...] = (
    *columns("across=time.across", "km", "long_haul_ratio=ratio"),
    *columns("iteration_time_s=time_s", "one_site_time_s=one_site_s", "loss", of="time"),
    *columns("ahead", "site_exchange_s=exchange_s", "exposed_s", "bottleneck", of="time"),
)

EVENS: tuple[Column[SitesBreakEven], ...] = (
    *columns("across", "km", "long_haul_ratio=ratio"),
    column("held_ahead", lambda row: None if row.ahead is None else str(row.ahead)),
    *columns("break_even_at=at", "break_even=value", "why_null"),
)


@dataclass(frozen=True, slots=True, repr=False)
class SitesAnswer(Answer):
    """The answer of :func:`netplan.sites`: losses in a grid, where 5 % are lost, what fibre takes.

    ``shown`` is the case whose bytes and fibre are counted, ``limited`` its sites with the rates
    that bytes in flight leave; ``ahead`` are pipelines at the first ratio by what is held ahead,
    ``best_s`` the time of the best plan in one site [s], ``flat`` collectives that know no sites,
    ``gathered`` that best plan where it gathers weights over sites for every pass (ZeRO 3).
    """

    json_parts = (
        *("sites", "pairs", "grid=grid_rows", "break_even", "plans", "in_flight_bytes"),
        *("buffer_bytes_a_port=buffer_bytes", "long_haul", "_over.crossings"),
        *("flat_loss=flat.loss", "zero_3_loss=gathered.loss", "notes=noted"),
    )

    inputs: dict[str, Any]
    target: float
    shown: SitesCase
    limited: Sites
    haul: Haul
    grid: tuple[SitesTime, ...]
    ahead: tuple[tuple[str, tuple[SitesTime, ...]], ...]
    break_even: tuple[SitesBreakEven, ...]
    plans: tuple[ChosenPlan, ...]
    best_s: float
    bought: SitesBill
    flat: SpreadTime | None = None
    gathered: SpreadTime | None = None
    notes: tuple[str, ...] = ()

    @property
    def sites(self) -> list[dict[str, Any]]:
        """Sites with the rate at which bytes leave them, as JSON."""
        limited = self.limited
        return [
            {"name": site.name, "gpus": site.gpus, "egress_bytes_per_s": rate}
            for site, rate in zip(limited.sites, limited.egress_bytes_per_s, strict=True)
        ]

    @property
    def pairs(self) -> list[dict[str, Any]]:
        """Pairs of sites with their fibre, as JSON."""
        limited, way_s = self.limited, self.haul.way_s
        return [
            {
                "a": limited.sites[pair.a].name,
                "b": limited.sites[pair.b].name,
                "km": pair.km,
                "ratio": pair.ratio,
                "one_way_s": way_s(limited, pair.a, pair.b),
                "rtt_s": 2 * way_s(limited, pair.a, pair.b),
            }
            for pair in limited.pairs
        ]

    @property
    def grid_rows(self) -> list[dict[str, Any]]:
        """The grid as JSON: at each point whether that way is the faster one."""
        return [
            plain_data(row) | {"faster": row.time.time_s <= self._fastest(row.km, row.ratio).time_s}
            for row in self.grid
        ]

    @property
    def long_haul(self) -> dict[str, Any]:
        """What lights the fibre, and what both networks cost, as JSON."""
        paid = "one_site_network_usd=bought.one_network", "sites_network_usd=bought.networks"
        return plain_at(self, "shown.km", "shown.ratio", "*bought.lit", *paid)

    @property
    def noted(self) -> tuple[str, ...]:
        """What was noticed, and what is not known."""
        return (*self.notes, *self._cautions())

    @property
    def trip_s(self) -> float:
        """Longest round trip between two sites with fibre, in the case that is shown [s]."""
        pairs = self.limited.pairs
        return 2 * max(self.haul.way_s(self.limited, pair.a, pair.b) for pair in pairs)

    @property
    def in_flight_bytes(self) -> float:
        """What is under way from a site at its full rate [B]."""
        return max(self.limited.egress_bytes_per_s) * self.trip_s

    @property
    def buffer_bytes(self) -> float:
        """What a port holds that must lose nothing: its rate times the round trip [B]."""
        lit = self.bought.lit
        ports = max(1, lit.ports // 2)
        rate = sum(pair.bytes_per_s for pair in self.limited.pairs) / ports
        return rate * self.trip_s

    @property
    def _over(self) -> OverSites:
        """The faster way in the case that is shown."""
        time = self._fastest(self.shown.km, self.shown.ratio)
        plan = next(plan for plan in self.plans if plan.across == time.across)
        return OverSites(
            sites=self.shown.left, haul=self.haul, run=plan.run, dealt=plan.dealt, time=time
        )

    def _fastest(self, km: float | None, ratio: float | None) -> SpreadTime:
        """The faster way at one length and ratio."""
        same = (row.time for row in self.grid if (row.km, row.ratio) == (km, ratio))
        return min(same, key=lambda time: time.time_s)

    def summary(self) -> Iterator[Section]:
        """Where the target is lost, losses by length, bytes, buffers, modules, fibre and cost."""
        yield from Screen(
            screen_heading(self.inputs, self._heading()),
            (self._verdict(),),
            self._losses(),
            tuple(self._facts()),
            more_of("the whole grid", "--km 1000 --ratio 64", "--ahead 2"),
            firm_remarks=2,
            least_gap=1,
        ).sections()

    def in_a_line(self) -> str:
        """Where the target is lost."""
        return self._verdict()

    def sections(self) -> Iterator[Section]:
        """Heading, verdict, losses, the whole grid, break-evens, fibre, notes, a chart."""
        yield self._heading()
        yield Paragraph(self._verdict(), "strong")
        yield replace(self._losses(), shown="people")
        yield Table("grid", ROWS, self.grid, "Every length and ratio")
        if self.break_even:
            share = f"{100 * self.target:g} %"
            yield Table("break_even", EVENS, self.break_even, f"Where {share} are lost")
        yield Notes.of([("", (*self._facts(), *self._cautions()))])
        if any(row.km is not None for row in self.grid):
            yield self._chart()

    def _heading(self) -> Heading:
        """What is trained over which sites."""
        inputs, limited = short_inputs(self.inputs), self.limited
        gpus = " + ".join(f"{site.gpus:,}" for site in limited.sites[:4])
        more = f" + ... ({len(limited.sites)} sites)" if len(limited.sites) > 4 else ""  # noqa: PLR2004
        layout = "" if len(limited.sites) == 2 else f", {limited.layout}"  # noqa: PLR2004
        return Heading(f"Sites: {inputs['model']} on {gpus}{more} {inputs['accelerator']}{layout}")

    def _verdict(self) -> str:
        """Where the target is lost by either way."""
        share = f"{100 * self.target:g} % lost"
        if not self.break_even:
            parts = [
                f"{row.time.across}: {100 * row.time.loss:.3g} % lost ({row.time.bottleneck})"
                f"{self._at_home(plan)}"
                for row in self.grid
                for plan in self.plans
                if plan.across == row.time.across
            ]
            return f"Over {len(self.limited.sites)} sites: {'; '.join(parts)}."
        parts = []
        for plan in self.plans:
            mine = [even for even in self.break_even if even.across == plan.across]
            if plan.across == "data":
                text = f"data over {len(self.limited.sites)} sites: {self._of_data(mine)}"
            else:
                text = f"pipeline: {self._of_pipeline(mine, plan)}"
            parts.append(text + self._at_home(plan))
        return " - ".join(parts).replace("LOST", share) + "."

    def _of_data(self, evens: Sequence[SitesBreakEven]) -> str:
        """The ratio at which replicas lose the target, at two lengths."""
        known = [even for even in evens if even.at == "ratio"]
        lengths = [even.km for even in known]
        first = known[lengths.index(SHOWN_KM)] if SHOWN_KM in lengths else known[-1]
        if first.value is None:
            return first.why_null.replace("lost at any", "LOST at any")
        last = known[-1]
        also = f"; {last.words} at {last.km:,g}" if last is not first and last.value else ""
        return f"LOST at {first.words} ({first.km:,g} km{also})"

    def _of_pipeline(self, evens: Sequence[SitesBreakEven], plan: ChosenPlan) -> str:
        """The length at which a pipeline loses the target, as it is and with more in flight."""
        first = evens[0].ratio
        mine = {even.ahead: even for even in evens if even.ratio == first}
        plain, more = mine.get(0), mine.get(1)
        if plain is None:
            (held, only), *_ = mine.items()
            return f"LOST at {only.words}, {held} ahead"
        text = f"LOST at {plain.words}" if plain.value is not None else plain.why_null
        text = text.replace("lost at any", "LOST at any")
        text += " as it is" if plain.value is not None else ""
        if more is not None and plain.value is not None:
            grown = si(plan.run.ahead_bytes, "B", 2)
            where = f"at {more.words}" if more.value is not None else "nowhere to 40,000 km"
            text += f", {where} with one microbatch more in flight (+{grown} a GPU)"
        return text

    def _losses(self) -> Table[LossRow]:
        """A row a ratio of replicas, then pipelines by what is held ahead; a column a length."""
        rows: list[LossRow] = []
        data = [row for row in self.grid if row.time.across == "data"]
        for ratio in dict.fromkeys(row.ratio for row in data):
            name = "data" if ratio is None else f"data {ratio:g}:1"
            rows.append((name, [row for row in data if row.ratio == ratio]))
        for held, spreads in self.ahead:
            ratio = spreads[0].ratio
            where_at = "" if ratio is None else f" {ratio:g}:1"
            rows.append((f"pipeline{where_at} {held}", spreads))
        lengths = [spread.km for spread in rows[0][1]]
        shown = [
            column(
                "loss",
                f"1.{number}.time.loss",
                title="loss" if km is None else f"{km:,g} km",
                digits=1,
                mark=partial(_mark, self.target, number),
            )
            for number, km in enumerate(lengths)
        ]
        signs = f"loss (* > {100 * self.target:g} %)"
        names: list[Column[LossRow]] = [column("across", "0", shown="people", title=signs)]
        return Table("losses", [*names, *shown], rows, shown="people")

    def _facts(self) -> Iterator[str]:
        """Bytes, buffers, modules, fibre and cost of the case that is shown."""
        limited, bought, over = self.limited, self.bought, self._over
        lit = bought.lit
        rate = max(limited.egress_bytes_per_s)
        yield (
            f"{self.shown.words} {over.time.across} loses {100 * over.time.loss:.2g} %"
            f" ({over.time.bottleneck}): {si(rate, 'B/s')} each way from a site,"
            f" {si(self.in_flight_bytes, 'B')} in flight, buffers of {si(self.buffer_bytes, 'B')} a"
            " port."
        )
        yield (
            f"{counted(lit.wavelengths, 'wavelength')}, {counted(lit.modules, 'module')},"
            f" {counted(lit.fibre_pairs, 'fibre pair')}, {counted(lit.amplifiers, 'amplifier')},"
            f" {counted(lit.ports, 'port')}: {bought.long_haul_words}{bought.lacking_words}."
        )
        yield from map(self._plan_words, self.plans)
        yield self.bought.words
        yield from self.notes

    def _plan_words(self, plan: ChosenPlan) -> str:
        """The plan of one way, how it is dealt out, and what it takes in one site."""
        timed, dealt = plan.placed.timed, " + ".join(map(str, plan.dealt))
        if len(plan.dealt) > 3 and len(set(plan.dealt)) == 1:  # noqa: PLR2004 - few are listed
            dealt = f"{len(plan.dealt)} x {plan.dealt[0]}"
        what = "replicas" if plan.across == "data" else "stages"
        text = f"{plan.across}: {timed.plan.degrees}, {timed.plan.schedule_words}; {dealt} {what}"
        slower = self._slower(plan)
        if slower > SAME:
            text += f"; {100 * slower:.2g} % slower in one site than the best plan there"
        return f"{text}."

    def _slower(self, plan: ChosenPlan) -> float:
        """How much longer a plan takes in one site than the best one there."""
        return plan.placed.timed.iteration_time_s / self.best_s - 1

    def _at_home(self, plan: ChosenPlan) -> str:
        """What a plan loses before any distance: no loss by distance is read without it."""
        slower = self._slower(plan)
        return f", by a plan {100 * slower:.2g} % slower at home" if slower > SAME else ""

    def _cautions(self) -> Iterator[str]:
        """Collectives that know no sites, and what is not known."""
        if self.flat is not None:
            yield (
                f"Collectives that know nothing of sites: one ring through all replicas takes"
                f" {si(self.flat.exchange_s, 's')}, {100 * self.flat.loss:.3g} % lost"
                f" ({self.shown.words.lower()})."
            )
        if not self.haul.equipment_s:
            yield "Equipment adds nothing to the way here: give sites.equipment_us by --set."
        if self.haul.sync_every > 1:
            yield (
                f"Sites exchange once in {self.haul.sync_every} iterations: what that does to the"
                " model is not part of this answer."
            )
        if self.gathered is not None:
            yield (
                "The best plan of one site gathers weights for every pass (ZeRO 3). Over sites,"
                f" which is not advised, it would take {si(self.gathered.time_s, 's', 4)},"
                f" {100 * self.gathered.loss:.3g} % lost ({self.shown.words.lower()})."
            )
        for plan in self.plans:
            if plan.across == "data" and plan.run.collectives > 2:  # noqa: PLR2004 - scatter, gather
                yield (
                    "Weights gathered over sites for every pass (ZeRO 3) are not advised: give"
                    " --zero-stage 1."
                )

    def _chart(self) -> Chart:
        """Loss over length, a line a ratio and way."""
        rows = [row for row in self.grid if row.km is not None]
        boxes = [
            hover(
                f"{row.time.across}, {row.km:,g} km, {row.ratio:g}:1",
                f"loss {100 * row.time.loss:.3g} %, {si(row.time.time_s, 's', 4)}",
                f"bottleneck {row.time.bottleneck}",
            )
            for row in rows
        ]
        return line_chart(
            Points(
                key="loss",
                label="Loss over the length of the fibre",
                x=ChartAxis(Words("length", "km"), log=min(row.km or 0.0 for row in rows) > 0),
                y=ChartAxis(Words("loss", "%")),
                xs=[row.km for row in rows],
                ys=[100 * row.time.loss for row in rows],
                series=[(row.time.across, row.ratio) for row in rows],
                name=lambda key: f"{key[0]} {key[1]:g}:1",
                box=lambda index: boxes[index],
            ),
            room=MOST_POINTS,
        )

"""What a faults question answers: failures, recoveries and years of them, fabric by fabric."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from math import exp
from typing import Any

from msgspec import Struct

from netplan.faults.forecast import CauseShare, ReliabilityForecast, Spares
from netplan.faults.impact import Impact, Single
from netplan.faults.rates import PLACES, Unit
from netplan.faults.recoveries import IdlePrice, Recovery
from netplan.faults.rerouting import TrainingLoads
from netplan.questions.inputs import replaced_lines
from netplan.questions.training import training_words
from netplan.records import asdict
from netplan.reports.answer import Answer, answer_dict
from netplan.reports.charts import Chart, Json, hover, marks, named_ticks
from netplan.reports.escape import chart_label
from netplan.reports.quantities import Cell, quantity
from netplan.reports.sections import (
    Column,
    Heading,
    Notes,
    Section,
    Table,
    column,
    columns,
    value_at,
)
from netplan.units import HOURS_PER_YEAR

CAUSES_SHOWN = 8
"""Causes that people see, those that stop a job most often."""

COLOURS = ("#3b74c9", "#d9782d", "#2e9e74", "#8a94a3", "#b0569c", "#c2a02f")
CURVE_POINTS = 61
HOURS_PER_WEEK = 168.0
SURVIVAL_PX, COST_PX = 360, 420


class ScenarioImpact(Struct, frozen=True):
    """The failures that were asked for, together; of several draws the worst, and their means.

    ``stopped`` counts draws after which nothing can train; slowdown and iteration time are means
    over the others, the bandwidth of the worst pair over all.
    ``cut_off`` names the first GPUs that failed or are cut off; ``loads`` is the traffic of one
    iteration over what is left.
    """

    text: tuple[str, ...]
    draws: int
    impact: Impact
    mean_iteration_time_s: float | None
    mean_slowdown: float | None
    mean_worst_bandwidth_share: float | None
    stopped: int
    cut_off: tuple[str, ...] = ()
    loads: TrainingLoads | None = None


class BesideRecord(Struct, frozen=True):
    """Interruptions of a year by one cause, closed form, and those of a record of one cluster."""

    told_apart: str
    stops_per_year: float
    recorded_per_year: float


class FabricFaults(Struct, frozen=True):
    """One fabric under failures: without any, those asked for, one of each kind, years of them.

    The scenario is a text where the fabric has no such parts. ``gpus_cut_off_per_year`` counts GPUs
    that lose their network port to a failed link, leaf switch or group. ``network_cost_complete``
    says whether all that sets the fabric apart has a price and a power.
    """

    name: str
    title: str
    switches: int
    links: int
    transceivers: int
    iteration_time_s: float | None
    gpus_used: int | None
    plan: dict[str, Any] | None
    scenario: ScenarioImpact | str | None
    singles: tuple[Single, ...]
    recoveries: tuple[Recovery, ...]
    gpus_cut_off_per_year: float
    forecast: ReliabilityForecast
    idle_price: IdlePrice
    record: tuple[BesideRecord, ...]
    network_cost_complete: bool
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The fabric as the command line prints it in JSON."""
        called = {"name": "fabric", "forecast": "outlook"}
        return {called.get(key, key): value for key, value in asdict(self).items()}


class Failure(Struct, frozen=True):
    """One failure of one fabric, a row of the tables."""

    fabric: str
    kind: str
    part: str
    parts: int | None
    impact: Impact


@dataclass(frozen=True, slots=True)
class FaultsAnswer(Answer):
    """The answer of :func:`netplan.faults`."""

    inputs: dict[str, Any]
    currency: str
    fabrics: tuple[FabricFaults, ...]
    refused: tuple[tuple[str, str], ...] = ()
    lenders: tuple[str, ...] = ()
    """Price books whose rows stand in at the link rate."""

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan faults --format json``."""
        return answer_dict(
            self.inputs,
            currency=self.currency,
            fabrics=[fabric.to_dict() for fabric in self.fabrics],
            refused=[{"fabric": name, "reason": reason} for name, reason in self.refused],
        )

    @property
    def failures(self) -> tuple[Failure, ...]:
        """One row a fabric and failure; the scenario first, where there is one."""
        rows: list[Failure] = []
        for fabric in self.fabrics:
            name, found = fabric.name, fabric.scenario
            if isinstance(found, ScenarioImpact):
                rows.append(Failure(name, "scenario", " ".join(found.text), None, found.impact))
            rows += [
                Failure(name, one.kind, one.part, one.parts, one.impact) for one in fabric.singles
            ]
        return tuple(rows)

    def sections(self) -> Iterator[Section]:
        """Heading, years, the scenario, single failures, recoveries, causes, spares, notes."""
        yield self._heading()
        yield Table("failures", FAILURE, self.failures, only="programs")
        yield from self._years()
        if any(fabric.forecast.network_interruptions_per_year for fabric in self.fabrics):
            yield _survival(self.fabrics)
        yield from self._scenario()
        yield _slowdowns(self.fabrics)
        for fabric in self.fabrics:
            alone = [row for row in self.failures if row.fabric == fabric.name and row.parts]
            legend = self._impact_legend() if fabric is self.fabrics[-1] else ()
            title = f"{fabric.name}: one part failed"
            yield Table("one part", SINGLE, alone, title, legend, only="people")
        ways = [(fabric.name, way) for fabric in self.fabrics for way in fabric.recoveries]
        bought: list[Column[tuple[str, Recovery]]] = [
            *RECOVERIES,
            column(quantity("price", title=self.currency), "1.price", mark=_lacks_a_price),
            column("price_complete", "1.price_complete", shown="never"),
            column("iteration_time_s", "1.iteration_time_s"),
        ]
        yield Table("recoveries", bought, ways, "After a failed GPU or port", RECOVERY_LEGEND)
        yield from self._causes()
        yield from self._record()
        yield from self._spares()
        yield Notes.of(self._notes(), "all fabrics")

    def _impact_legend(self) -> tuple[str, ...]:
        """What the columns of an impact mean, and why one may be empty."""
        alone = any(row.impact.bandwidth_share is None for row in self.failures)
        missing = any(row.impact.pod_share is None for row in self.failures)
        chosen = any(_at_most("impact", row) != NO_MARK for row in self.failures)
        said = (*IMPACT_LEGEND, *((PAIRS_CHOSEN,) if chosen else ()))
        said = (*said, *((PAIRS_MISSING,) if alone else ()))
        return (*said, PODS_MISSING) if missing else said

    def _heading(self) -> Heading:
        inputs = self.inputs
        trained = f"; {training_words(inputs)}" if inputs["model"] else ""
        lent = (f"{book} for {inputs['link_gbps']:g}G" for book in self.lenders)
        prices = " and ".join((str(inputs["prices"]), *lent))
        books = f"rates {inputs['failures']} ({inputs['rates']}), prices {prices}"
        model = f" {inputs['switch']}" if inputs["switch"] else ""
        return Heading(
            f"Failures on {inputs['gpus']:,} GPUs in HB domains of {inputs['hb_size']:,}:"
            f" switches{model} of {inputs['radix']} ports",
            (f"{books}, seed {inputs['seed']}{trained}", *replaced_lines(inputs, self.currency)),
        )

    def _years(self) -> Iterator[Table[FabricFaults]]:
        """Points of failure and interruptions; the time that counts and its price."""
        years = f"A year of failures (mean of {self.inputs['years']:,} simulated years)"
        yield Table("years", YEARS, self.fabrics, years, YEARS_LEGEND)
        price = quantity("network_cost_per_effective_gpu_hour", title=f"{self.currency}/h")
        money: tuple[Column[FabricFaults], ...] = (
            column("currency", lambda _: self.currency, shown="never"),
            column(price, f"forecast.{price.name}", mark=_in_part),
            column("network_cost_complete", shown="never"),
        )
        each = "the network's annuity and energy for an hour of useful work of a GPU."
        partly = any("".join(_in_part(fabric)) for fabric in self.fabrics)
        legend = (*TIME_LEGEND, f"{self.currency}/h: {each}", *((COST_IN_PART,) if partly else ()))
        yield Table("years", [*TIME, *money], self.fabrics, "Time that counts", legend)
        level = 100 * self.inputs["service_level"]
        idle = f"HB domains down, and idle ones for {level:g} % of the time (M {self.currency})"
        yield Table("years", IDLE, self.fabrics, idle, IDLE_LEGEND)

    def _scenario(self) -> Iterator[Table[Any]]:
        """What the failures that were asked for do, and their training traffic."""
        found = [
            (fabric.name, fabric.scenario)
            for fabric in self.fabrics
            if isinstance(fabric.scenario, ScenarioImpact)
        ]
        draws = self.inputs["draws"]
        worst = f", the worst of {draws:,} draws" if draws > 1 else ""
        title = f"Failed together: {' '.join(self.inputs['fail'])}{worst}"
        yield Table("scenario", SCENARIO, found, title, only="people")
        if any(one.draws > 1 for _, one in found):
            mean = f"Mean of the {draws:,} draws"
            yield Table("scenario", DRAWN, found, mean, DRAWN_LEGEND, only="people")
        yield Table("scenario", [*SCENARIO[:1], *DRAWS], found, only="programs")
        routed = [(name, one.loads) for name, one in found if one.loads is not None]
        yield Table("loads", LOADS, routed, "Its training traffic, rerouted", LOADS_LEGEND)

    def _causes(self) -> Iterator[Table[Any]]:
        """The causes that stop a job most often, one column a fabric."""
        rows = [(one.name, cause) for one in self.fabrics for cause in one.forecast.causes]
        sizes: dict[str, float] = {}
        for _, one in rows:
            sizes[one.cause] = max(sizes.get(one.cause, 0.0), one.interruptions_per_year)
        shown = sorted((name for name in sizes if sizes[name]), key=lambda name: -sizes[name])
        cells = {
            (name, one.cause): f"{one.interruptions_per_year:,.1f} ± {one.half_width:.1f}"
            f" ({one.low:,.0f} to {one.high:,.0f})"
            for name, one in rows
            if one.interruptions_per_year
        }
        yield self._by_fabric(
            "cause",
            shown[:CAUSES_SHOWN],
            cells,
            "Interruptions of a year by cause",
            legend=CAUSES_LEGEND,
        )
        yield Table("causes", CAUSES, rows, only="programs")

    def _record(self) -> Iterator[Table[Any]]:
        """Interruptions by cause beside those of Llama 3's record, one column a fabric."""
        rows = [(one.name, cause) for one in self.fabrics for cause in one.record]
        cells = {(name, one.told_apart): f"{one.stops_per_year:,.1f}" for name, one in rows}
        cells |= {(RECORD, one.told_apart): f"{one.recorded_per_year:,.1f}" for _, one in rows}
        shown = list(dict.fromkeys(one.told_apart for _, one in rows))
        if shown:
            title = "By cause, beside Llama 3's record for as many GPUs (stops a year)"
            yield self._by_fabric(
                "told_apart", shown, cells, title, legend=(RECORD_LEGEND,), beside=(RECORD,)
            )
        yield Table("record", BESIDE, rows, only="programs")

    def _spares(self) -> Iterator[Table[Any]]:
        """Spares by kind of part, one column a fabric."""
        rows = [(one.name, kind) for one in self.fabrics for kind in one.forecast.spares]
        cells = {(name, _delivery(one)): f"{one.spares:,} for {one.units:,}" for name, one in rows}
        level = 100 * self.inputs["service_level"]
        shown = list(dict.fromkeys(_delivery(one) for _, one in rows))
        title = f"Spares for a service level of {level:g} %"
        legend = tuple(dict.fromkeys(text for _, one in rows for text in _counted(one)))
        yield self._by_fabric("part, delivery", shown, cells, title, legend=legend)
        yield Table("spares", SPARES, rows, only="programs")

    def _by_fabric(
        self,
        first: str,
        rows: list[str],
        cells: Mapping[tuple[str, str], str],
        title: str,
        *,
        legend: tuple[str, ...] = (),
        beside: tuple[str, ...] = (),
    ) -> Table[str]:
        """Texts of rows, one column a fabric, and others beside."""
        names = [*(fabric.name for fabric in self.fabrics), *beside]
        shown: list[Column[str]] = [column(first, str, form="text")]
        shown += [
            column(name, partial(_cell_of, cells, name), title=name, form="text") for name in names
        ]
        return Table(first, shown, rows, title, legend, only="people")

    def _notes(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Why a fabric is not there or did not fail; assumptions."""
        yield from ((name, (reason,)) for name, reason in self.refused)
        for fabric in self.fabrics:
            missing = isinstance(fabric.scenario, str)
            said = (f"Not failed there: {fabric.scenario}.",) if missing else ()
            yield fabric.name, (*said, *fabric.notes)


def _between(forecast: ReliabilityForecast) -> str:
    """Interruptions that 95 % of the years have."""
    return f"{forecast.interruptions_low:,.0f} to {forecast.interruptions_high:,.0f}"


def _in_part(fabric: FabricFaults) -> tuple[str, str]:
    """Mark of a price of which parts are missing."""
    known = fabric.forecast.network_cost_per_effective_gpu_hour is not None
    return ("≥ ", "") if known and not fabric.network_cost_complete else ("", "")


def _lacks_a_price(row: tuple[str, Recovery]) -> tuple[str, str]:
    """Mark of a price of hardware of which parts have none."""
    return ("", "") if row[1].price is None or row[1].price_complete else ("≥ ", "")


def _idle_part(key: str, fabric: FabricFaults) -> tuple[str, str]:
    """Mark of a price of idle domains of which parts are missing."""
    missing = getattr(fabric.idle_price, key) is None or fabric.idle_price.complete
    return ("", "") if missing else ("≥ ", "")


def _cell_of(cells: Mapping[tuple[str, str], str], fabric: str, row: str) -> Cell:
    """Text of a row in the column of a fabric."""
    return cells.get((fabric, row))


COUNTED: Mapping[Unit, str] = {
    "host_link": "links between hosts and leaves, which are replaced with their modules",
    "trunk_link": "links between switches",
    "fibre": "fibres",
    "copper_cable": "copper cables",
    "host_transceiver": "modules of links between hosts and leaves",
    "trunk_transceiver": "modules of links between switches",
}
"""What a row of spares counts, where the name of its kind does not say it."""


def _counted(one: Spares) -> Iterator[str]:
    """Which parts of a fabric a row of spares is about, if that is not clear from its name."""
    counted = list(one.counted)
    for whole, places in PLACES.items():
        parts = [unit for _, unit in places]
        if set(parts) <= set(counted):
            counted[counted.index(parts[0])] = whole
            counted.remove(parts[1])
    said = [COUNTED[unit] for unit in counted if unit in COUNTED]
    if said:
        yield f"{one.kind}: {' and '.join(said)}."


def _delivery(one: Spares) -> str:
    """Part and time until a new one is there."""
    return f"{one.kind}, {one.lead_h / HOURS_PER_WEEK:.2g} weeks"


FABRIC: Column[Any] = column("fabric", "0")
NO_MARK = ("", "")


def _at_most(path: str, row: Failure | tuple[str, ScenarioImpact]) -> tuple[str, str]:
    """Mark of the worst pair where not all pairs were computed."""
    impact: Impact = value_at(row, path)
    return NO_MARK if impact.bandwidth_share == impact.bandwidth_share_low else ("≤ ", "")


def _impact_columns(path: str) -> list[Column[Any]]:
    """What people see of the impact that stands somewhere in a row."""
    pair = column("bandwidth_share", f"{path}.bandwidth_share", mark=partial(_at_most, path))
    return [
        *columns("gpus_down", "gpus_cut_off", of=path),
        pair,
        *columns("pod_share", "slowdown", "way", of=path),
    ]


FAILURE: tuple[Column[Failure], ...] = (
    *columns("fabric", "kind", "part", "parts"),
    *columns("gpus_down", "gpus_cut_off", "gpus_unreachable", "domains_hit", of="impact"),
    *columns("bandwidth_share", "bandwidth_share_low", "mean_bandwidth_share", of="impact"),
    *columns("pod_share", of="impact"),
    *columns("iteration_time_s", "way", "slowdown", of="impact"),
)
SINGLE: tuple[Column[Failure], ...] = (
    column("kind", title="failed"),
    column("parts"),
    *_impact_columns("impact"),
)
SCENARIO: tuple[Column[tuple[str, ScenarioImpact]], ...] = (
    FABRIC,
    *_impact_columns("1.impact"),
)
DRAWN: tuple[Column[tuple[str, ScenarioImpact]], ...] = (
    FABRIC,
    *columns("mean_worst_bandwidth_share", "mean_slowdown", "mean_iteration_time_s", of="1"),
    column("stopped_of_draws", lambda row: f"{row[1].stopped} of {row[1].draws}"),
)
MEANS = ("mean_iteration_time_s", "mean_slowdown", "mean_worst_bandwidth_share")
DRAWS = columns("draws", *MEANS, "stopped", of="1")
MEANING = tuple(f"interruptions_{name}" for name in ("half_width", "closed_form", "low", "high"))
YEARS: tuple[Column[FabricFaults], ...] = (
    column("fabric", "name"),
    *columns("switches", "links"),
    column("interruptions_per_year", "forecast.interruptions_per_year", title="stops"),
    *columns(*MEANING, of="forecast", shown="never"),
    column("interruptions_range", lambda row: _between(row.forecast), form="text"),
    column(
        "network_interruptions_per_year",
        "forecast.network_interruptions_per_year",
        title="network",
    ),
    column("gpus_cut_off_per_year", title="cut off"),
)
TIME: tuple[Column[FabricFaults], ...] = (
    column("fabric", "name"),
    *columns("mtbf_h", "interval_h", of="forecast"),
    *columns("young_h", "daly_h", of="forecast", shown="never"),
    column("effective_time_ratio", "forecast.effective_time_ratio"),
    *columns("effective_half_width", "effective_closed_form", of="forecast", shown="never"),
    column("goodput", "forecast.goodput"),
    *columns("goodput_half_width", "goodput_closed_form", of="forecast", shown="never"),
    column("waiting_h", "forecast.lost_h.waiting", shown="wide"),
    column("slowed_h", "forecast.slowed_h", shown="wide"),
)
IDLE: tuple[Column[FabricFaults], ...] = (
    column("fabric", "name"),
    *columns("domains_down", "idle_domains_needed", of="forecast"),
    column("idle_domains_needed_with_groups", "forecast.idle_domains_needed_with_groups"),
    column("idle_domains", "forecast.idle_domains", shown="never"),
    column("idle_present_price", "idle_price.present", mark=partial(_idle_part, "present")),
    column("idle_larger_price", "idle_price.larger", mark=partial(_idle_part, "larger")),
    column("no_switch_down", "forecast.no_switch_down"),
)
MILLISECONDS = quantity(
    "busiest_s", title="needs", form="general", digits=4, suffix="ms", scale=1e-3
)
LOADS: tuple[Column[tuple[str, TrainingLoads]], ...] = (
    FABRIC,
    column("busiest_link", "1.busiest_link"),
    column(MILLISECONDS, "1.busiest_s"),
    *columns("intact_busiest_s", "cut_s", of="1"),
    column("intact_cut_s", "1.intact_cut_s", shown="never"),
    column("detour_bytes", "1.detour_bytes", shown="wide"),
    *columns("lost_bytes", "cut_bytes", of="1", shown="never"),
)
MATERIAL = ("circuit_switches", "single_mode_modules", "idle_gpus")
EXTRA = ("extra_gpus", "extra_switches", "extra_links")
RECOVERIES: tuple[Column[tuple[str, Recovery]], ...] = (
    FABRIC,
    column("recovery", "1.way"),
    column("hardware", "1.hardware"),
    *columns(*MATERIAL, *EXTRA, of="1", shown="never"),
)
CAUSES: tuple[Column[tuple[str, CauseShare]], ...] = (
    FABRIC,
    *columns("cause", "failures_per_year", "interruptions_per_year", of="1"),
    *columns("half_width", "low", "high", of="1"),
)
RECORD = "Llama 3"
RECORD_LEGEND = (
    "Closed form. Llama 3: arXiv:2407.21783, Table 5, 54 days of 16,384 GPUs, scaled; book 2026 has"
    " its rates of GPUs, memory, cards, servers, maintenance and software from there, those of the"
    " network, racks and feeds from elsewhere."
)
BESIDE: tuple[Column[tuple[str, BesideRecord]], ...] = (
    FABRIC,
    *columns("told_apart", "stops_per_year", "recorded_per_year", of="1"),
)
SPARES: tuple[Column[tuple[str, Spares]], ...] = (
    FABRIC,
    *columns("kind", "units", "failures_per_year", "replaced_per_year", of="1"),
    *columns("lead_h", "spares", "service_level", of="1"),
)
YEARS_LEGEND = (
    (
        "stops: interruptions of a job on all GPUs, on average and in 95 % of years; network: those"
        " by cards, links, trays and switches. cut off: GPUs that lose their port to a failed"
        " link, leaf switch or group."
    ),
)
TIME_LEGEND = (
    "counts: share of the time that is no checkpoint, rework, restart or wait.",
    "goodput: that, less what a slower pace costs while parts are down.",
)
IDLE_LEGEND = (
    (
        "down: on average, from rates and repair hours. needed: idle ones that cover what takes one"
        " domain; groups: failures of several at once, too (leaves, racks, feeds). The network of"
        " those needed: present: as a share of what is there; larger: of the next size."
        " switches up: chance that no switch is down."
    ),
)
CAUSES_LEGEND = ("±: 95 % interval of the mean; in brackets what 95 % of the years have.",)
COST_IN_PART = "≥: parts without a price, or a power, are left out."
RECOVERY_LEGEND = (
    (
        "Price: of hardware, and of the share of idle GPUs in the network; -: nothing to buy, or no"
        " price; ≥: parts without one are left out. iteration: with those GPUs idle from the start."
    ),
)
IMPACT_LEGEND = (
    "down, cut off: GPUs that failed, and live ones whose own port leads nowhere.",
    (
        "HB pair, pods: bandwidth left between the worst pair of HB domains; from the worst pod"
        " (what lies below the top tier) to the others; by the best splitting over paths."
    ),
    (
        "slower: by what the plan's own traffic takes longer over the narrowest cut that is left;"
        " what a slow part of a rail cannot carry goes over the other ports of its HB domains."
    ),
    (
        "goes on: all GPUs at that pace, or without the HB domains that are hit or served too"
        " slowly, or on a spare."
    ),
)
DRAWN_LEGEND = ("slower, iteration: over the draws that train on. HB pair: the worst of a draw.",)
LOADS_LEGEND = (
    (
        "needs, before: the busiest link with equal split over shortest paths; at least: over the"
        " narrowest cut, however it is split, with the traffic of failed GPUs on others."
    ),
)

PAIRS_CHOSEN = "HB pair ≤: the worst of the pairs computed, which are not all."
PAIRS_MISSING = "HB pair -: no two HB domains are left to send between."
PODS_MISSING = "pods -: the network has no tier above its leaves, or one HB domain holds all GPUs."


def _survival(fabrics: tuple[FabricFaults, ...]) -> Chart:
    """Survival curves exp(-t / M), by fabric, of the failures that the network causes."""
    slowest = min(_between_h(fabric) for fabric in fabrics)
    hours = [4 * slowest * step / (CURVE_POINTS - 1) for step in range(CURVE_POINTS)]
    data: list[Json] = []
    for fabric, colour in zip(fabrics, cycle(COLOURS), strict=False):
        shares = [100 * exp(-hour / _between_h(fabric)) for hour in hours]
        texts = (f"{hour:.3g} h: {share:.1f} %" for hour, share in zip(hours, shares, strict=True))
        boxes = (hover(fabric.name, text) for text in texts)
        line = {"color": colour, "width": 2}
        name = chart_label(fabric.name)
        data.append(marks("scatter", hours, shares, boxes, name=name, mode="lines", line=line))
    layout: Json = {
        "xaxis": {"title": {"text": "hours"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "no stop by the network so far, %"}, "range": [0, 102]},
        "showlegend": True,
    }
    label = "Chance that the network has stopped no job so far, by fabric"
    return Chart("survival", label, SURVIVAL_PX, tuple(data), layout)


def _between_h(fabric: FabricFaults) -> float:
    """Mean time between stops by the network [h]."""
    return HOURS_PER_YEAR / max(fabric.forecast.network_interruptions_per_year, 1e-9)


def _slowdowns(fabrics: tuple[FabricFaults, ...]) -> Chart:
    """Slowdown while one part of each kind has failed, one bar a fabric."""
    kinds = list(dict.fromkeys(one.kind for fabric in fabrics for one in fabric.singles))
    data: list[Json] = []
    for fabric, colour in zip(fabrics, cycle(COLOURS), strict=False):
        found = {one.kind: one.impact for one in fabric.singles}
        slow = (found[kind].slowdown if kind in found else None for kind in kinds)
        shares = (None if share is None else 100 * share for share in slow)
        boxes = (
            hover(fabric.name, kind, _words(found[kind])) if kind in found else "" for kind in kinds
        )
        name, marker = chart_label(fabric.name), {"color": colour}
        data.append(marks("bar", range(len(kinds)), shares, boxes, name=name, marker=marker))
    layout: Json = {
        "barmode": "group",
        "xaxis": named_ticks([chart_label(kind, 16) for kind in kinds]),
        "yaxis": {"title": {"text": "slower, %"}, "rangemode": "tozero"},
        "showlegend": True,
    }
    return Chart("failures", "Slowdown by one failure of each kind", COST_PX, tuple(data), layout)


def _words(impact: Impact) -> str:
    """How slow the job is, and how it goes on."""
    if impact.slowdown is None:
        return "the job stops" if impact.way == "stopped" else "not timed"
    return f"{100 * impact.slowdown:.2f} % slower, {impact.way}"

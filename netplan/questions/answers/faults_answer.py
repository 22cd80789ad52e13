"""What a faults question answers: failures, recoveries and years of them, fabric by fabric."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

from netplan.faults.damage.impact import Impact
from netplan.faults.damage.rerouting import TrainingLoads
from netplan.faults.years.forecast import CauseShare, ReliabilityForecast, Spares
from netplan.faults.years.recoveries import Recovery
from netplan.performance.error_bars import bar_note
from netplan.questions.answers.barred import barred_column, end_columns
from netplan.questions.answers.faults_rows import (
    BesideRecord,
    FabricFaults,
    Failure,
    ScenarioImpact,
    curves,
    drawings,
    slowdowns,
    survival,
)
from netplan.questions.answers.faults_screen import (
    checkpoint_words,
    counted_parts,
    delivery,
    fabrics_table,
    five_lines,
    in_part,
    lacks_a_price,
    policies_tables,
    remarks,
    rounded_count,
    short_line,
    together_line,
    together_table,
)
from netplan.questions.answers.screen_titles import network_words, titled
from netplan.questions.setup.inputs import replaced_lines
from netplan.questions.setup.training import training_words
from netplan.records import replace
from netplan.reports.answer import Answer, answer_dict, plain_at
from netplan.reports.quantities import Cell, quantity
from netplan.reports.screen import Screen, more_of
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

CAUSES_SHOWN = 8
"""Causes that people see, those that stop a job most often."""


@dataclass(frozen=True, slots=True, repr=False)
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
        refused = [{"fabric": name, "reason": reason} for name, reason in self.refused]
        parts = plain_at(self, "currency", "fabrics")
        return answer_dict(self.inputs, **parts, refused=refused)

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

    def summary(self) -> Iterator[Section]:
        """Five lines, a table by fabric or of the failures asked for, causes, idle domains."""
        heading = self._heading()
        title = titled(self.inputs, f"failures on {network_words(self.inputs)}")
        first, *rest = heading.lines
        spent = checkpoint_words(self.inputs)
        asked = tuple(together_line(self.fabrics, self.inputs["fail"]))
        table = fabrics_table(self.inputs, self.currency, self.fabrics)
        yield from Screen(
            replace(heading, title=title, lines=(f"{first}; {spent}", *rest)),
            (*asked, *five_lines(self.inputs, self.fabrics)),
            together_table(next(self._scenario())) if asked else table,
            tuple(remarks(self.currency, self.fabrics, self.refused)),
            more_of("parts, spares", "--rates high", *(() if asked else ("--fail leaf=1",))),
            lines=True,
        ).sections()

    def in_a_line(self) -> str:
        """Goodput, and interruptions of a year."""
        return short_line(self.fabrics)

    def sections(self) -> Iterator[Section]:
        """Heading, the scenario, years, single failures, recoveries, causes, spares, notes."""
        yield self._heading()
        ends = end_columns(self.fabrics, attrgetter("fabric"), "impact.iteration_time_s")
        yield Table("failures", [*FAILURE, *ends], self.failures, only="programs")
        yield from self._scenario()
        yield from self._years()
        stops = [(one.name, one.forecast.network_interruptions_per_year) for one in self.fabrics]
        if any(number for _, number in stops):
            yield survival(stops)
        shown = [(one.name, one.seen) for one in self.fabrics]
        yield from curves(shown)
        yield slowdowns([(one.name, one.singles) for one in self.fabrics])
        yield from drawings(shown)
        explained = any(isinstance(one.scenario, ScenarioImpact) for one in self.fabrics)
        for fabric in self.fabrics:
            alone = [row for row in self.failures if row.fabric == fabric.name and row.parts]
            last = fabric is self.fabrics[-1] and not explained
            legend = self._impact_legend() if last else ()
            title = f"{fabric.name}: one part failed"
            yield Table("one part", SINGLE, alone, title, legend, only="people")
        ways = [(fabric.name, way) for fabric in self.fabrics for way in fabric.recoveries]
        bought: list[Column[tuple[str, Recovery]]] = [
            *RECOVERIES,
            column(quantity("price", title=self.currency), "1.price", mark=lacks_a_price),
            column("price_complete", "1.price_complete", shown="never"),
            *self._time_column("iteration_time_s", "1.iteration_time_s"),
            *end_columns(self.fabrics, itemgetter(0), "1.iteration_time_s"),
        ]
        title = "After a failed GPU or port"
        yield Table("recoveries", bought, ways, title, RECOVERY_LEGEND, part=itemgetter(0))
        yield from policies_tables(
            [(one.name, one.policies) for one in self.fabrics], self.currency
        )
        yield from self._causes()
        yield from self._spares()
        yield from self._record()
        yield Notes.of(self._notes(), "all fabrics")

    def _time_column(self, name: str, path: str) -> tuple[Column[Any], ...]:
        """Iteration times of rows that start with a fabric."""
        bars = {fabric.name: fabric.error for fabric in self.fabrics}
        if not any(bars.values()):
            return (column(name, path),)
        return barred_column(name, partial(value_at, path=path), lambda row: bars[row[0]])

    def _impact_legend(self) -> tuple[str, ...]:
        """What the columns of an impact mean, and why one may be empty."""
        alone = any(row.impact.bandwidth_share is None for row in self.failures)
        missing = any(row.impact.pod_share is None for row in self.failures)
        chosen = any(_at_most("impact", row) != NO_MARK for row in self.failures)
        said = (*IMPACT_LEGEND, *[PAIRS_CHOSEN] * chosen, *[PAIRS_MISSING] * alone)
        return (*said, *[PODS_MISSING] * missing)

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
            (
                f"{books}, seed {inputs['seed']}{trained}",
                *_standing_by(inputs),
                *replaced_lines(inputs, self.currency),
            ),
        )

    def _years(self) -> Iterator[Table[FabricFaults]]:
        """Points of failure and interruptions; the time that counts and its price."""
        years = f"A year of failures (mean of {self.inputs['years']:,} simulated years)"
        yield Table("years", YEARS, self.fabrics, years, YEARS_LEGEND)
        price = quantity("network_cost_per_effective_gpu_hour", title=f"{self.currency}/h")
        money: tuple[Column[FabricFaults], ...] = (
            column("currency", lambda _: self.currency, shown="never"),
            column(price, f"forecast.{price.name}", mark=in_part),
            column("network_cost_complete", shown="never"),
        )
        each = "the network's annuity and energy for an hour of useful work of a GPU."
        partly = any("".join(in_part(fabric)) for fabric in self.fabrics)
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
        spared = ", ".join(one.name for one in self.fabrics if isinstance(one.scenario, str))
        missing = (f"Not failed: {spared} (see the notes).",) if spared else ()
        legend = (*self._impact_legend(), *missing)
        yield Table("scenario", SCENARIO, found, title, legend, only="people")
        if any(one.draws > 1 for _, one in found):
            mean = f"Mean of the {draws:,} draws"
            time = self._time_column("mean_iteration_time_s", "1.mean_iteration_time_s")
            drawn = [*DRAWN[:-1], *time, DRAWN[-1]]
            yield Table("scenario", drawn, found, mean, DRAWN_LEGEND, only="people")
        yield Table("scenario", [*SCENARIO[:1], *DRAWS], found, only="programs")
        routed = [(name, one.loads) for name, one in found if one.loads is not None]
        adaptive = tuple(sorted({loads.adaptive for _, loads in routed}))
        legend = (LOADS_LEGEND.format(SPLITS[adaptive]),) if routed else ()
        yield Table("loads", LOADS, routed, "Its training traffic, rerouted", legend)

    def _causes(self) -> Iterator[Table[Any]]:
        """The causes that stop a job most often, one column a fabric."""
        rows = [(one.name, cause) for one in self.fabrics for cause in one.forecast.causes]
        sizes: dict[str, float] = {}
        for _, one in rows:
            sizes[one.cause] = max(sizes.get(one.cause, 0.0), one.interruptions_per_year)
        shown = sorted((name for name in sizes if sizes[name]), key=lambda name: -sizes[name])
        cells = {
            (name, one.cause): f"{rounded_count(one.interruptions_per_year)}"
            f" ({one.low:,.0f}-{one.high:,.0f})"
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
        cells = {(name, delivery(one)): f"{one.spares:,} for {one.units:,}" for name, one in rows}
        level = 100 * self.inputs["service_level"]
        shown = list(dict.fromkeys(delivery(one) for _, one in rows))
        title = f"Spares for a service level of {level:g} %"
        legend = tuple(dict.fromkeys(text for _, one in rows for text in counted_parts(one)))
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
        """Texts of rows, others beside, and one column a fabric."""
        names = [*beside, *(fabric.name for fabric in self.fabrics)]
        shown: list[Column[str]] = [column(first, str, form="text")]
        shown += [
            column(name, partial(_cell_of, cells, name), title=name, form="code") for name in names
        ]
        return Table(first, shown, rows, title, legend, only="people")

    def _notes(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Why a fabric is not there or did not fail; assumptions."""
        yield from ((name, (reason,)) for name, reason in self.refused)
        for fabric in self.fabrics:
            missing = isinstance(fabric.scenario, str)
            said = (f"Not failed there: {fabric.scenario}.",) if missing else ()
            yield fabric.name, (*said, *fabric.notes, *bar_note(fabric.error))


def _standing_by(inputs: Mapping[str, Any]) -> Iterator[str]:
    """What stands by, and what the job does without, where it is not the default."""
    domains, said = inputs["spare_domains"], []
    if domains:
        said.append(f"idle HB domains that stand by: {domains:,}")
    if inputs["while_down"] == "wait":
        said.append("the job waits while more are down")
    if inputs["spares"]:
        said.append(f"spares {', '.join(inputs['spares'])}")
    if said:
        yield "; ".join(said)


def _between(forecast: ReliabilityForecast) -> str:
    """Interruptions that 95 % of the years have."""
    return f"{forecast.interruptions_low:,.0f} to {forecast.interruptions_high:,.0f}"


def _idle_part(key: str, fabric: FabricFaults) -> tuple[str, str]:
    """Mark of a price of idle domains of which parts are missing."""
    missing = getattr(fabric.idle_price, key) is None or fabric.idle_price.complete
    return ("", "") if missing else ("≥ ", "")


def _cell_of(cells: Mapping[tuple[str, str], str], fabric: str, row: str) -> Cell:
    """Text of a row in the column of a fabric."""
    return cells.get((fabric, row))


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
SCENARIO: tuple[Column[tuple[str, ScenarioImpact]], ...] = (FABRIC, *_impact_columns("1.impact"))
DRAWN: tuple[Column[tuple[str, ScenarioImpact]], ...] = (
    FABRIC,
    *columns("mean_worst_bandwidth_share", "mean_slowdown", of="1"),
    column("stopped_of_draws", lambda row: f"{row[1].stopped} of {row[1].draws}"),
)
MEANS = ("mean_iteration_time_s", "mean_slowdown", "mean_worst_bandwidth_share")
DRAWS = columns("draws", *MEANS, "stopped", of="1")
MEANING = tuple(f"interruptions_{name}" for name in ("closed_form", "low", "high"))
YEARS: tuple[Column[FabricFaults], ...] = (
    column("fabric", "name"),
    column("switches"),
    column("links", shown="wide"),
    column("interruptions_per_year", "forecast.interruptions_per_year", title="stops"),
    column("interruptions_half_width", "forecast.interruptions_half_width"),
    *columns(*MEANING, of="forecast", shown="never"),
    column("interruptions_range", lambda row: _between(row.forecast), form="code"),
    column(
        "network_interruptions_per_year", "forecast.network_interruptions_per_year", title="network"
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
    column(
        "idle_present_price",
        "idle_price.present",
        mark=partial(_idle_part, "present"),
        title="present",
    ),
    column(
        "idle_larger_price", "idle_price.larger", mark=partial(_idle_part, "larger"), title="larger"
    ),
    column("no_switch_down", "forecast.no_switch_down"),
)
MILLISECONDS = quantity(
    "busiest_s", title="needs", form="general", digits=4, suffix="ms", scale=1e-3
)
LOADS: tuple[Column[tuple[str, TrainingLoads]], ...] = (
    FABRIC,
    column("busiest_link", "1.busiest_link", form="prose"),
    column(MILLISECONDS, "1.busiest_s"),
    *columns("intact_busiest_s", "cut_s", of="1"),
    column("intact_cut_s", "1.intact_cut_s", shown="never"),
    *columns("detour_bytes", "lost_bytes", "cut_bytes", of="1", shown="never"),
    column("loads.adaptive", "1.adaptive", shown="never"),
)
MATERIAL = ("circuit_switches", "single_mode_modules", "idle_gpus")
EXTRA = ("extra_gpus", "extra_switches", "extra_links")
RECOVERIES: tuple[Column[tuple[str, Recovery]], ...] = (
    column("recovery", "1.way"),
    column("fabric", "0", shown="never"),
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
        "stops: interruptions of a job on all GPUs, the 95 % interval of their mean (±), and what"
        " 95 % of the years have; network: those by cards, links, trays and switches. cut off: GPUs"
        " that lose their port to a failed link, leaf switch or group."
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
CAUSES_LEGEND = ("In brackets what 95 % of the years have.",)
COST_IN_PART = "≥: parts without a price, or a power, are left out."
RECOVERY_LEGEND = (
    (
        "idle GPU: takes over in its HB domain, moved to the rail by circuit switches where rails"
        " are apart. idle domain: takes over from a whole one, and is one of those present; further"
        " domain: one that a larger network joins. forwarding: a lost port or rail switch is passed"
        " by through the other GPUs of the domain."
    ),
    (
        "Price: of hardware, and of the share of idle GPUs in the network; -: nothing to buy, or no"
        " price; ≥: parts without one are left out. iteration: with those GPUs idle from the start."
    ),
)
IMPACT_LEGEND = (
    "down, cut off: GPUs that failed, and live ones whose own port leads nowhere.",
    (
        "HB pair, pods: bandwidth left between the worst pair of HB domains, and from the worst pod"
        " (what lies below the top tier) to the others, by the best splitting."
    ),
    (
        "slower: how much longer an iteration takes, its traffic at the pace of the narrowest cut"
        " that is left; what a slow part of a rail cannot carry goes over the other ports of its HB"
        " domains."
    ),
    (
        "goes on: on all GPUs, without what is hit or served too slowly (HB domains, or a GPU of"
        " each), or on a spare domain."
    ),
)
DRAWN_LEGEND = ("slower, iteration: over the draws that train on. HB pair: the worst of a draw.",)
LOADS_LEGEND = (
    "needs, before: the busiest link with {}; at least: over the narrowest cut, however it is"
    " split, with the traffic of failed GPUs on others (-: some of it has no way left)."
)
EQUAL_SPLIT = "equal split over shortest paths"
SPLITS = {
    (False,): EQUAL_SPLIT,
    (True,): "adaptive routing over shortest paths and detours",
    (False, True): f"{EQUAL_SPLIT}, and detours where switches are joined directly",
}
"""How traffic is routed, by whether fabrics are routed adaptively."""

PAIRS_CHOSEN = "HB pair ≤: the worst of the pairs that are known, which are not all."
PAIRS_MISSING = "HB pair -: no two HB domains are left to send between."
PODS_MISSING = "pods -: the network has no tier above its leaves, or one HB domain holds all GPUs."

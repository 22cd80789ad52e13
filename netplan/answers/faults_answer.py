"""What a faults question answers: failures, recoveries and years of them, fabric by fabric."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

from netplan.answers import faults_rows, faults_screen
from netplan.answers.screen_titles import network_title, network_words, titled
from netplan.costing.fabric_bill import RefusedFabric
from netplan.costing.ranges import Range
from netplan.faults.damage.impact import Impact, Single
from netplan.faults.damage.rerouting import TrainingLoads
from netplan.faults.years.forecast import CauseShare, Flaps, Spares
from netplan.faults.years.recoveries import Recovery
from netplan.faults.years.recovery_presets import RecoveryPreset
from netplan.performance.barred import barred_column, end_columns
from netplan.performance.error_bars import bar_note
from netplan.records import replace, value_at
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.quantities import quantity
from netplan.reports.schema import plain_at
from netplan.reports.screen import Screen, more_of
from netplan.setup.inputs import replaced_lines
from netplan.setup.training import training_words
from netplan.units import PERCENT

Failure = tuple[str, faults_rows.ScenarioImpact | Single[Impact]]
"""A fabric, and one of its failures, or all that were asked for together."""

CAUSES_SHOWN = 8
"""Causes that people see, those that stop a job most often."""


@dataclass(frozen=True, slots=True, repr=False)
class FaultsAnswer(Answer):
    """The answer of :func:`netplan.faults`."""

    json_parts = "currency", "fabrics", "recovery=_recovered", "refused"

    inputs: dict[str, Any]
    currency: str
    fabrics: tuple[faults_rows.FabricFaults, ...]
    refused: tuple[RefusedFabric, ...] = ()
    recovery: RecoveryPreset | None = None
    """How the job comes back; None where nothing trains."""

    @property
    def _recovered(self) -> dict[str, Any] | None:
        """How the job comes back, as JSON."""
        if self.recovery is None:
            return None
        return plain_at(self.recovery, "name", "is_upper_bound") | {
            "values": [plain_at(row, *CAME_BACK_JSON) for row in self._came_back()],
            "notes": [*faults_screen.not_ranked(self.recovery), *self.recovery.notes],
        }

    @property
    def failures(self) -> list[Failure]:
        """One row a fabric and failure; the scenario first, where there is one."""
        rows: list[Failure] = []
        for fabric in self.fabrics:
            rows += faults_rows.together_of([fabric])
            rows += [(fabric.name, single) for single in fabric.singles]
        return rows

    @property
    def _short_heading(self) -> show.Heading:
        """The heading of the screen."""
        title = titled(self.inputs, f"failures on {network_words(self.inputs)}")
        return replace(self._heading(), title=title)

    @property
    def _together_title(self) -> str:
        """What failed together."""
        draws = self.inputs["draws"]
        worst = f", the worst of {draws:,} draws" if draws > 1 else ""
        return f"Failed together: {' '.join(self.inputs['fail'])}{worst}"

    def summary(self) -> Iterator[show.Section]:
        """Five lines, a table by fabric or of the failures asked for, causes, idle domains."""
        asked = tuple(faults_screen.together_line(self.fabrics, self.inputs["fail"]))
        table = faults_screen.fabrics_table(self.inputs, self.currency, self.fabrics)
        kept = (
            text
            for fabric in self.fabrics
            for text in faults_screen.no_gain(fabric.name, fabric.policies)
        )
        yield from Screen(
            self._short_heading,
            (*asked, *kept, *faults_screen.five_lines(self.inputs, self.fabrics)),
            faults_screen.together_table(next(self._scenario())) if asked else table,
            tuple(
                faults_screen.remarks(
                    self.currency, self.fabrics, self.refused, self.recovery, self.inputs["gpus"]
                )
            ),
            more_of("parts, spares", "--rates high", *(() if asked else ("--fail leaf=1",))),
            lines=True,
        ).sections()

    def in_a_line(self) -> str:
        """Goodput, and interruptions of a year."""
        forecasts = [fabric.forecast for fabric in self.fabrics]
        goodput = faults_screen.between([100 * forecast.goodput for forecast in forecasts], ".1f")
        interruptions = faults_screen.between(
            [forecast.interruptions_per_year for forecast in forecasts]
        )
        return f"goodput {goodput} %, {interruptions} interruptions a year"

    def sections(self) -> Iterator[show.Section]:
        """Heading, verdict, the scenario, years, single failures, recoveries, spares, notes."""
        yield self._heading()
        for line in (
            *faults_screen.together_line(self.fabrics, self.inputs["fail"]),
            *faults_screen.five_lines(self.inputs, self.fabrics),
        ):
            yield show.Paragraph(line, "strong")
        ends = end_columns(self.fabrics, itemgetter(0), "1.impact.iteration_time_s")
        yield show.Table("failures", [*FAILURE, *ends], self.failures, shown="data")
        yield from self._scenario()
        yield from self._years()
        interruptions = [
            (fabric.name, fabric.forecast.network_interruptions_per_year) for fabric in self.fabrics
        ]
        if any(number for _, number in interruptions):
            yield faults_rows.survival(interruptions)
        shown = [(fabric.name, fabric.seen) for fabric in self.fabrics]
        yield from faults_rows.curves(shown)
        yield faults_rows.slowdowns([(fabric.name, fabric.singles) for fabric in self.fabrics])
        yield from faults_rows.drawings(shown)
        explained = bool(faults_rows.together_of(self.fabrics))
        for fabric in self.fabrics:
            alone = [(fabric.name, single) for single in fabric.singles if single.parts]
            last = fabric is self.fabrics[-1] and not explained
            legend = self._impact_legend() if last else ()
            title = f"{fabric.name}: one part failed"
            yield show.Table("one part", SINGLE, alone, title, legend, shown="people")
        ways = [(fabric.name, way) for fabric in self.fabrics for way in fabric.recoveries]
        bought: list[show.Column[tuple[str, Recovery]]] = [
            *RECOVERIES,
            show.column(
                quantity("price", title=self.currency), "1.price", mark=faults_screen.lacks_a_price
            ),
            show.column("price_complete", "1.price_complete", shown="data"),
            *self._time_column("iteration_time_s", "1.iteration_time_s"),
            *end_columns(self.fabrics, itemgetter(0), "1.iteration_time_s"),
        ]
        title = "After a failed GPU or port"
        yield show.Table("recoveries", bought, ways, title, RECOVERY_LEGEND, part=itemgetter(0))
        yield from faults_screen.policies_tables(
            [(fabric.name, fabric.policies) for fabric in self.fabrics], self.currency
        )
        yield from self._causes()
        yield from self._flaps()
        yield from self._spares()
        yield from self._record()
        yield show.Notes.of(self._notes(), "all fabrics")

    def _time_column(self, name: str, path: str) -> tuple[show.Column[Any], ...]:
        """Iteration times of rows that start with a fabric."""
        bars = {fabric.name: fabric.error for fabric in self.fabrics}
        if not any(bars.values()):
            return (show.column(name, path),)
        return barred_column(name, partial(value_at, path=path), lambda row: bars[row[0]])

    def _impact_legend(self) -> tuple[str, ...]:
        """What the columns of an impact mean, and why one may be empty."""
        alone = any(row.impact.bandwidth_share is None for _, row in self.failures)
        missing = any(row.impact.pod_share is None for _, row in self.failures)
        chosen = any(_at_most(row) != NO_MARK for row in self.failures)
        sentences = (*IMPACT_LEGEND, *[PAIRS_CHOSEN] * chosen, *[PAIRS_MISSING] * alone)
        return (*sentences, *[PODS_MISSING] * missing)

    def _came_back(self) -> list[tuple[Any, Range]]:
        """Values of the recovery, with what they are on so many GPUs [s]."""
        if self.recovery is None:
            return []
        preset, gpus = self.recovery, self.inputs["gpus"]
        kept = (preset.write, preset.interval, preset.each_iteration, preset.remainder)
        return [(value, value.value_on(gpus)) for value in (*preset.restart, *filter(None, kept))]

    def _flaps(self) -> Iterator[show.Table[Any]]:
        """How the job comes back, and links that go down for seconds, apart from failures."""
        title = f"How the job comes back: {self.inputs.get('recovery')} (s)"
        yield show.Table("recovery", CAME_BACK, self._came_back(), title, CAME_BACK_LEGEND)
        flapping = [(fabric.name, fabric.forecast.flaps) for fabric in self.fabrics]
        flapping = [(name, flaps) for name, flaps in flapping if flaps is not None]
        title = "Links to GPUs that flap, apart from failures and goodput (a year)"
        yield show.Table("flaps", FLAPS, flapping, title, FLAPS_LEGEND, shown="people")

    def _heading(self) -> show.Heading:
        inputs, share = self.inputs, PERCENT * self.fabrics[0].assumed_share
        assumed = f", {share:.0f} % assumed" if share >= 1 else ""
        trained = f"; {training_words(inputs)}" if inputs["model"] else ""
        books = f"rates {inputs['failures']} ({inputs['rates']}{assumed})"
        books += f", prices {inputs['prices']}"
        spent = faults_screen.recovery_words(inputs, self.fabrics[0].forecast, self.recovery)
        return show.Heading(
            network_title(f"Failures on {inputs['gpus']:,}", inputs),
            (
                f"{books}, seed {inputs['seed']}{trained}; {spent}",
                *_standing_by(inputs),
                *replaced_lines(inputs, self.currency),
            ),
        )

    def _years(self) -> Iterator[show.Table[faults_rows.FabricFaults]]:
        """Points of failure and interruptions; the time that counts and its price."""
        years = f"A year of failures (mean of {self.inputs['years']:,} simulated years)"
        yield show.Table("years", YEARS, self.fabrics, years, YEARS_LEGEND)
        price = quantity("network_cost_per_effective_gpu_hour", title=f"{self.currency}/h")
        money: tuple[show.Column[faults_rows.FabricFaults], ...] = (
            show.column("currency", lambda _: self.currency, shown="data"),
            show.column(price, f"forecast.{price.name}", mark=faults_screen.in_part),
            show.column("network_cost_complete", shown="data"),
        )
        hour = "the network's annuity and energy for an hour of useful work of a GPU."
        partly = any("".join(faults_screen.in_part(fabric)) for fabric in self.fabrics)
        legend = (*TIME_LEGEND, f"{self.currency}/h: {hour}", *((COST_IN_PART,) if partly else ()))
        yield show.Table("years", [*TIME, *money], self.fabrics, "Time that counts", legend)
        level = 100 * self.inputs["service_level"]
        idle = f"HB domains down, and idle ones for {level:g} % of the time (M {self.currency})"
        yield show.Table("years", IDLE, self.fabrics, idle, IDLE_LEGEND)

    def _scenario(self) -> Iterator[show.Table[Any]]:
        """What the failures that were asked for do, and their training traffic."""
        scenarios = faults_rows.together_of(self.fabrics)
        spared = ", ".join(
            fabric.name for fabric in self.fabrics if isinstance(fabric.scenario, str)
        )
        missing = (f"Not failed: {spared} (see the notes).",) if spared else ()
        legend = (*self._impact_legend(), *missing)
        title = self._together_title
        yield show.Table("scenario", SCENARIO, scenarios, title, legend, shown="people")
        if any(impact.draws > 1 for _, impact in scenarios):
            mean = f"Mean of the {self.inputs['draws']:,} draws"
            time = self._time_column("mean_iteration_time_s", "1.mean_iteration_time_s")
            drawn = [*DRAWN[:-1], *time, DRAWN[-1]]
            yield show.Table("scenario", drawn, scenarios, mean, DRAWN_LEGEND, shown="people")
        yield show.Table("scenario", [*SCENARIO[:1], *DRAWS], scenarios, shown="data")
        routed = [(name, impact.loads) for name, impact in scenarios if impact.loads is not None]
        adaptive = tuple(sorted({loads.adaptive for _, loads in routed}))
        legend = (LOADS_LEGEND.format(SPLITS[adaptive]),) if routed else ()
        yield show.Table("loads", LOADS, routed, "Its training traffic, rerouted", legend)

    def _causes(self) -> Iterator[show.Table[Any]]:
        """The causes that stop a job most often, one column a fabric."""
        rows = [(fabric.name, cause) for fabric in self.fabrics for cause in fabric.forecast.causes]
        sizes: dict[str, float] = {}
        for _, cause in rows:
            sizes[cause.cause] = max(sizes.get(cause.cause, 0.0), cause.interruptions_per_year)
        shown = sorted((name for name in sizes if sizes[name]), key=lambda name: -sizes[name])
        cells = {
            (name, cause.cause): f"{faults_screen.rounded_count(cause.interruptions_per_year)}"
            f" ({cause.low:,.0f}-{cause.high:,.0f})"
            for name, cause in rows
            if cause.interruptions_per_year
        }
        yield self._by_fabric(
            "cause",
            shown[:CAUSES_SHOWN],
            cells,
            "Interruptions of a year by cause",
            legend=CAUSES_LEGEND,
        )
        yield show.Table("causes", CAUSES, rows, shown="data")

    def _record(self) -> Iterator[show.Table[Any]]:
        """Interruptions by cause beside those of Llama 3's record, one column a fabric."""
        rows = [(fabric.name, cause) for fabric in self.fabrics for cause in fabric.record]
        cells = {
            (name, cause.told_apart): f"{cause.interruptions_per_year:,.1f}" for name, cause in rows
        }
        cells |= {
            (RECORD, cause.told_apart): f"{cause.recorded_per_year:,.1f}" for _, cause in rows
        }
        shown = list(dict.fromkeys(cause.told_apart for _, cause in rows))
        if shown:
            title = "By cause, beside Llama 3's record for as many GPUs (stops a year)"
            why = dict.fromkeys(
                f"{cause.told_apart}: {cause.why_apart}."
                for _, cause in rows
                if cause.differs and cause.why_apart
            )
            legend = (RECORD_LEGEND, *why)
            yield self._by_fabric(
                "told_apart", shown, cells, title, legend=legend, extra_names=(RECORD,)
            )
        yield show.Table("record", BESIDE, rows, shown="data")

    def _spares(self) -> Iterator[show.Table[Any]]:
        """Spares by kind of part, one column a fabric."""
        rows = [(fabric.name, kind) for fabric in self.fabrics for kind in fabric.forecast.spares]
        cells = {
            (name, faults_screen.delivery(kind)): f"{kind.spares:,} for {kind.units:,}"
            for name, kind in rows
        }
        level = 100 * self.inputs["service_level"]
        shown = list(dict.fromkeys(faults_screen.delivery(kind) for _, kind in rows))
        title = f"Spares for a service level of {level:g} %"
        legend = tuple(
            dict.fromkeys(text for _, kind in rows for text in faults_screen.counted_parts(kind))
        )
        yield self._by_fabric("part, delivery", shown, cells, title, legend=legend)
        yield show.Table("spares", SPARES, rows, shown="data")

    def _by_fabric(
        self,
        first: str,
        rows: list[str],
        cells: Mapping[tuple[str, str], str],
        title: str,
        *,
        legend: tuple[str, ...] = (),
        extra_names: tuple[str, ...] = (),
    ) -> show.Table[Any]:
        """Texts of rows, others beside, and one column a fabric."""
        names = [*extra_names, *(fabric.name for fabric in self.fabrics)]
        texts = [(row, *(cells.get((name, row)) for name in names)) for row in rows]
        shown: list[show.Column[Any]] = [
            show.column(first, "0", form="text"),
            *(
                show.column(name, f"{place}", title=name, form="code")
                for place, name in enumerate(names, start=1)
            ),
        ]
        return show.Table(first, shown, texts, title, legend, shown="people")

    def _notes(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Why a fabric is not there or did not fail; assumptions."""
        yield from ((row.name, (row.reason,)) for row in self.refused)
        for fabric in self.fabrics:
            missing = isinstance(fabric.scenario, str)
            missing_note = (f"Not failed there: {fabric.scenario}.",) if missing else ()
            bar = bar_note(getattr(fabric, "error", None))
            yield fabric.name, (*missing_note, *fabric.notes, *bar)


def _standing_by(inputs: Mapping[str, Any]) -> Iterator[str]:
    """What stands by, and what the job does without, where it is not the default."""
    domains, phrases = inputs["spare_domains"], []
    if domains:
        phrases.append(f"idle HB domains that stand by: {domains:,}")
    if inputs["while_down"] == "wait":
        phrases.append("the job waits while more are down")
    if inputs["spares"]:
        phrases.append(f"spares {', '.join(inputs['spares'])}")
    if phrases:
        yield "; ".join(phrases)


def _idle_part(key: str, fabric: faults_rows.FabricFaults) -> tuple[str, str]:
    """Mark of a price of idle domains of which parts are missing."""
    missing = getattr(fabric.idle_price, key) is None or fabric.idle_price.complete
    return ("", "") if missing else ("≥ ", "")


FABRIC: show.Column[Any] = show.column("fabric", "0")
NO_MARK = ("", "")


def _at_most(row: Failure) -> tuple[str, str]:
    """Mark of the worst pair where not all pairs were computed."""
    impact = row[1].impact
    return NO_MARK if impact.bandwidth_share == impact.bandwidth_share_low else ("≤ ", "")


IMPACT: tuple[show.Column[Failure], ...] = (
    *show.columns("gpus_down", "gpus_cut_off", of="1.impact"),
    show.column("bandwidth_share", "1.impact.bandwidth_share", mark=_at_most),
    *show.columns("pod_share", "slowdown", "way", of="1.impact"),
)
FAILURE: tuple[show.Column[Failure], ...] = (
    *show.columns("fabric=0", "kind=1.kind", "part=1.part", "parts=1.parts"),
    *show.columns("gpus_down", "gpus_cut_off", of="1.impact"),
    *show.columns("gpus_partitioned", of="1.impact", shown="data"),
    *show.columns("gpus_unreachable", "domains_hit", of="1.impact"),
    *show.columns("bandwidth_share", "bandwidth_share_low", "mean_bandwidth_share", of="1.impact"),
    *show.columns("pod_share", "iteration_time_s", "way", "slowdown", of="1.impact"),
)
SINGLE: tuple[show.Column[Failure], ...] = (
    show.column("kind", "1.kind", title="failed"),
    show.column("parts", "1.parts"),
    *IMPACT,
)
SCENARIO: tuple[show.Column[Failure], ...] = (FABRIC, *IMPACT)
DRAWN: tuple[show.Column[tuple[str, faults_rows.ScenarioImpact]], ...] = (
    FABRIC,
    *show.columns("mean_worst_bandwidth_share", "mean_slowdown", of="1"),
    show.column("stopped_of_draws", lambda row: f"{row[1].stopped} of {row[1].draws}"),
)
MEANS = ("mean_iteration_time_s", "mean_slowdown", "mean_worst_bandwidth_share")
DRAWS = show.columns("draws", *MEANS, "stopped", of="1")
SPREAD = ("goodput_low", "goodput_high", "interval_low_h", "interval_high_h")
MEANING = tuple(f"interruptions_{name}" for name in ("closed_form", "low", "high"))
YEARS: tuple[show.Column[faults_rows.FabricFaults], ...] = (
    *show.columns("fabric=name", "switches"),
    show.column("links", shown="wide"),
    show.column("interruptions_per_year", "forecast.interruptions_per_year", title="stops"),
    show.column("interruptions_half_width", "forecast.interruptions_half_width"),
    *show.columns(*MEANING, of="forecast", shown="data"),
    show.column(
        "interruptions_range",
        lambda row: (
            f"{row.forecast.interruptions_low:,.0f} to {row.forecast.interruptions_high:,.0f}"
        ),
        form="code",
    ),
    show.column(
        "network_interruptions_per_year", "forecast.network_interruptions_per_year", title="network"
    ),
    show.column("gpus_cut_off_per_year", title="cut off"),
)
TIME: tuple[show.Column[faults_rows.FabricFaults], ...] = (
    *show.columns("fabric=name", "mtbf_h=forecast.mtbf_h", "interval_h=forecast.interval_h"),
    *show.columns("young_h", "daly_h", of="forecast", shown="data"),
    show.column("effective_time_ratio", "forecast.effective_time_ratio"),
    *show.columns("effective_half_width", "effective_closed_form", of="forecast", shown="data"),
    show.column("goodput", "forecast.goodput"),
    *show.columns("goodput_half_width", "goodput_closed_form", of="forecast", shown="data"),
    show.column(
        "goodput_spread", lambda row: faults_screen.spread_words(row.forecast), form="code"
    ),
    *show.columns(*SPREAD, of="forecast", shown="data"),
    *show.columns("waiting_h=lost_h.waiting", "slowed_h", of="forecast", shown="wide"),
)
IDLE: tuple[show.Column[faults_rows.FabricFaults], ...] = (
    *show.columns("fabric=name", "domains_down=forecast.domains_down"),
    *show.columns("idle_domains_needed", "idle_domains_needed_with_groups", of="forecast"),
    show.column("idle_domains", "forecast.idle_domains", shown="data"),
    show.column(
        "idle_present_price",
        "idle_price.present",
        mark=partial(_idle_part, "present"),
        title="present",
    ),
    show.column(
        "idle_larger_price", "idle_price.larger", mark=partial(_idle_part, "larger"), title="larger"
    ),
    show.column("no_switch_down", "forecast.no_switch_down"),
)
MILLISECONDS = quantity(
    "busiest_s", title="needs", form="general", digits=4, suffix="ms", scale=1e-3
)
LOADS: tuple[show.Column[tuple[str, TrainingLoads]], ...] = (
    FABRIC,
    show.column("busiest_link", "1.busiest_link", form="prose"),
    show.column(MILLISECONDS, "1.busiest_s"),
    *show.columns("intact_busiest_s", "cut_s", of="1"),
    *show.columns("intact_cut_s", "detour_bytes", "lost_bytes", "cut_bytes", of="1", shown="data"),
    show.column("loads.adaptive", "1.adaptive", shown="data"),
)
MATERIAL = ("circuit_switches", "single_mode_modules", "idle_gpus")
EXTRA = ("extra_gpus", "extra_switches", "extra_links")
RECOVERIES: tuple[show.Column[tuple[str, Recovery]], ...] = (
    show.column("recovery", "1.way"),
    show.column("fabric", "0", shown="data"),
    show.column("hardware", "1.hardware"),
    *show.columns(*MATERIAL, *EXTRA, of="1", shown="data"),
)
CAUSES: tuple[show.Column[tuple[str, CauseShare]], ...] = (
    FABRIC,
    *show.columns("cause", "failures_per_year", "interruptions_per_year", of="1"),
    *show.columns("half_width", "low", "high", of="1"),
)
RECORD = "Llama 3"
RECORD_LEGEND = "Closed form. Llama 3: arXiv:2407.21783, Table 5, 54 days of 16,384 GPUs, scaled."
BESIDE: tuple[show.Column[tuple[str, faults_rows.BesideRecord]], ...] = (
    FABRIC,
    *show.columns(
        "told_apart", "stops_per_year=interruptions_per_year", "recorded_per_year", of="1"
    ),
)
SPARES: tuple[show.Column[tuple[str, Spares]], ...] = (
    FABRIC,
    *show.columns("kind", "units", "failures_per_year", "replaced_per_year", of="1"),
    *show.columns("lead_h", "spares", "service_level", of="1"),
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
    (
        "goodput: that, less what a slower pace costs while parts are down; as clusters differ:"
        " with the most and the fewest interruptions of the book's spread, in closed form."
    ),
)
IDLE_LEGEND = (
    (
        "down: on average, from rates and repair hours. needed: idle ones that cover what takes one"
        " domain; groups: failures of several at once, too (leaves, racks, feeds). The network of"
        " those needed: present: as a share of what is there; larger: of the next size."
        " switches up: chance that no switch is down."
    ),
)
CAME_BACK: tuple[show.Column[Any], ...] = (
    show.column("what", "0.what", form="text"),
    *(show.column(end, f"1.{end}", title=end, form="general") for end in ("low", "base", "high")),
    *(show.column(name, f"0.{name}", form="text") for name in ("evidence", "confirmed")),
)
CAME_BACK_JSON = (
    *("0.what", "1.low", "1.base", "1.high", "0.evidence", "0.confirmed", "0.source"),
)
CAME_BACK_LEGEND = (
    (
        "Steps of a restart add up; --restart, --checkpoint-write and --checkpoint-interval stand"
        " in for what they name. Sources: netplan catalog show."
    ),
)
FLAPS: tuple[show.Column[tuple[str, Flaps]], ...] = (
    FABRIC,
    show.column("flaps", lambda row: faults_screen.range_words(row[1].per_year), form="code"),
    show.column("held_up_h", lambda row: faults_screen.range_words(row[1].held_up_h), form="code"),
    show.column(
        "retransmit_h", lambda row: faults_screen.range_words(row[1].retransmitting_h), form="code"
    ),
    show.column("rides", lambda row: "yes" if row[1].rides_through else "no", form="code"),
)
FLAPS_LEGEND = (
    (
        "held up: hours that the job stands still, of which to send again what was lost; where a"
        " GPU has other ports it rides through, slower. Above the leaves traffic goes around. How"
        " long a flap lasts is an assumption; how often, one fleet says (failures, flaps)."
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

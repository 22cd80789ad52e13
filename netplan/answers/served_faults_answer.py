"""What a faults question answers about clusters that serve, fabric by fabric."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from netplan.answers.faults_answer import FABRIC, FaultsAnswer
from netplan.answers.faults_rows import CALLED, together_of
from netplan.answers.faults_screen import PARTS, between, spares_words
from netplan.answers.screen_titles import network_title
from netplan.faults.damage.impact import Single
from netplan.faults.years.served import ServedForecast, ServedImpact, ServerInterruptions
from netplan.records import asdict, replace
from netplan.reports import sections as show
from netplan.reports.screen import Screen, columns_of, more_of
from netplan.setup.inputs import found_words, replaced_lines, short_inputs
from netplan.setup.served_plan import ServedPlan
from netplan.units import PERCENT, counted


class ServedScenario(Struct, frozen=True):
    """The failures that were asked for, together; of several draws the worst, and their means.

    ``stopped`` counts draws after which nothing answers; ``cut_off`` names the first GPUs that
    failed or are cut off.
    """

    text: tuple[str, ...]
    draws: int
    impact: ServedImpact
    mean_tokens_per_s: float
    mean_throughput_share: float
    stopped: int
    cut_off: tuple[str, ...] = ()


class ServedFabric(Struct, frozen=True, rename=CALLED):
    """One fabric that serves: without failures, under those asked for, one of each kind, years.

    The scenario is a text where the fabric has no such parts.
    """

    json_parts = "*", "plan=whole_plan"

    name: str
    title: str
    switches: int
    links: int
    transceivers: int
    plan: ServedPlan
    scenario: ServedScenario | str | None
    singles: tuple[Single[ServedImpact], ...]
    forecast: ServedForecast
    notes: tuple[str, ...]

    @property
    def whole_plan(self) -> dict[str, Any]:
        """The plan as JSON has it here: with tiers of caches even where there are none."""
        return asdict(self.plan)


@dataclass(frozen=True, slots=True, repr=False)
class ServedFaultsAnswer(FaultsAnswer):
    """The answer of :func:`netplan.faults` about clusters that serve."""

    # Fabrics that serve stand where those that train do: nothing here reads both.
    fabrics: tuple[ServedFabric, ...]  # type: ignore[assignment]

    def summary(self) -> Iterator[show.Section]:
        """Five lines, a table by fabric or of the failures asked for, why failures stop servers."""
        yield from Screen(
            self._short_heading,
            tuple(self._lines()),
            next(self._failed_together(), None) or self._short_years(),
            tuple(self._remarks()),
            more_of("parts, spares", "--rates high", "--spare-domains 1"),
            lines=True,
        ).sections()

    def in_a_line(self) -> str:
        """Tokens over the years, and servers that stop."""
        forecasts = [fabric.forecast for fabric in self.fabrics]
        share = between([PERCENT * forecast.expected_share for forecast in forecasts], ".2f")
        interruptions = between(
            [forecast.server_interruptions_per_year for forecast in forecasts], ".3g"
        )
        return f"{share} % of the tokens, {interruptions} servers stop a year"

    def _lines(self) -> Iterator[str]:
        """Servers that stop, tokens over the years, spares, the worst part, what would help."""
        forecasts = [fabric.forecast for fabric in self.fabrics]
        if together := together_of(self.fabrics):
            name, hit = min(together, key=lambda row: row[1].impact.throughput_share)
            left = f"{PERCENT * hit.impact.throughput_share:.1f} % of the tokens are left"
            yield f"{' '.join(self.inputs['fail'])} together: on {name} {left}."
        interruptions = between(
            [forecast.server_interruptions_per_year for forecast in forecasts], ".3g"
        )
        yield f"Interruptions: {interruptions} servers stop in a year, others answer on."
        level = PERCENT * self.inputs["service_level"]
        share = between([PERCENT * forecast.expected_share for forecast in forecasts], ".2f")
        least = between([PERCENT * forecast.assured_share for forecast in forecasts], ".2f")
        tokens = between([fabric.plan.tokens_per_s for fabric in self.fabrics])
        yield (
            f"Throughput: {share} % of {tokens} tokens/s; {least} % at least for"
            f" {level:g} % of the time."
        )
        servers = between([forecast.spare_servers_needed for forecast in forecasts])
        parts = spares_words([forecast.spares for forecast in forecasts])
        yield f"Spares to keep ({level:g} %): {servers} servers; parts: {parts}."
        yield from self._worst_and_help()

    def _worst_and_help(self) -> Iterator[str]:
        """The part whose failure takes most tokens, and the cause that stops most servers."""
        singles = [(fabric.name, single) for fabric in self.fabrics for single in fabric.singles]
        if singles:
            name, worst = min(singles, key=lambda row: row[1].impact.throughput_share)
            impact = worst.impact
            part = PARTS.get(worst.kind, f"a part of kind {worst.kind}")
            least = {
                min(single.impact.throughput_share for single in fabric.singles)
                for fabric in self.fabrics
                if fabric.singles
            }
            on = f" of {name}" if len(least) > 1 else ""
            lost = counted(impact.servers_lost, "server")
            yield (
                f"Worst single part: {part}{on}: {lost} lost,"
                f" {PERCENT * impact.throughput_share:.1f} % of tokens left."
            )
        causes = self.fabrics[0].forecast.causes
        if causes:
            first = max(causes, key=lambda cause: cause.servers_stopped_per_year)
            interruptions = first.servers_stopped_per_year
            yield f"Helps most: fewer interruptions by {first.cause} ({interruptions:.3g} a year)."

    def _short_years(self) -> show.Table[ServedFabric]:
        """One row a fabric: what stops, and what is answered all the same."""
        names = ["server_stops_per_year", "all_answer_share", "expected_tokens_per_s"]
        names += ["expected_share", "assured_share", "level_kept_share"]
        (table,) = self._years()
        legend = "all up: share of the time in which every server answers; share, at least: of"
        return replace(
            table,
            columns=columns_of(table, "fabric", *names),
            title="",
            legend=(f"{legend} the tokens without failures, on average and as said above.",),
        )

    def _remarks(self) -> Iterator[str]:
        """How it serves, and fabrics that are not there."""
        first = self.fabrics[0]
        yield f"Served on {first.name} by {first.plan.shape}."
        yield from (f"{row.name} is not there: {row.reason}" for row in self.refused)
        common = [
            note for note in first.notes if all(note in fabric.notes for fabric in self.fabrics)
        ]
        yield from common if len(self.fabrics) > 1 else ()

    def sections(self) -> Iterator[show.Section]:
        """Heading, plans, the scenario, years, single failures, causes, spares, notes."""
        yield self._heading()
        yield show.Table("plans", PLANS, self.fabrics, "Without failures", PLANS_LEGEND)
        yield from self._failed_together()
        yield from self._years()
        singles = [(fabric.name, single) for fabric in self.fabrics for single in fabric.singles]
        measured = _impact_columns([single.impact for _, single in singles])
        yield show.Table("failures", [*SINGLE, *measured], singles, shown="data")
        for fabric in self.fabrics:
            legend = IMPACT_LEGEND if fabric is self.fabrics[-1] else ()
            rows = [(fabric.name, single) for single in fabric.singles]
            shown = [*SINGLE, *_impact_columns([single.impact for single in fabric.singles])]
            title = f"{fabric.name}: one part failed"
            yield show.Table("failures", shown, rows, title, legend, shown="people")
        yield from self._causes()
        yield from self._spares()
        yield show.Notes.of(self._notes(), "all fabrics")

    def _years(self) -> Iterator[show.Table[Any]]:
        """Servers that stop, tokens over time, and what idle GPUs are needed."""
        level = 100 * self.inputs["service_level"]
        shown = [*YEARS, show.column("level_kept_share", "forecast.level_kept_share")]
        yield show.Table(
            "years",
            shown if self._level else YEARS,
            self.fabrics,
            f"Over the years, at least for {level:g} % of the time",
            YEARS_LEGEND,
        )

    def _causes(self) -> Iterator[show.Table[Any]]:
        """What stops servers, one column a fabric."""
        rows = [(fabric.name, cause) for fabric in self.fabrics for cause in fabric.forecast.causes]
        cells = {
            (name, cause.cause): f"{cause.servers_stopped_per_year:,.3g}" for name, cause in rows
        }
        shown = list(dict.fromkeys(cause.cause for _, cause in rows))
        yield self._by_fabric("cause", shown, cells, "Servers that stop in a year, by cause")
        yield show.Table("causes", CAUSES, rows, shown="data")

    def _heading(self) -> show.Heading:
        inputs = short_inputs(self.inputs)
        asked = (
            f"serving {inputs['model']} on {inputs['accelerator']}: prompts of"
            f" {inputs['prompt']:,} tokens, answers of {inputs['output']:,}"
        )
        level = f"; service level: {self._level}" if self._level else ""
        spare = inputs["spare_domains"]
        idle_words = (f"idle HB domains that stand by: {spare:,}",) if spare else ()
        return show.Heading(
            network_title(f"Failures on {inputs['gpus']:,}", inputs),
            (
                "; ".join(filter(None, (f"{asked}{level}", found_words(inputs)))),
                f"rates {inputs['failures']} ({inputs['rates']})",
                *idle_words,
                *replaced_lines(inputs, self.currency),
            ),
        )

    @property
    def _level(self) -> str:
        """The service level in words; empty without one."""
        levels = (("TTFT", self.inputs["ttft_ms"]), ("TPOT", self.inputs["tpot_ms"]))
        return ", ".join(f"{name} at most {most:g} ms" for name, most in levels if most is not None)

    def _failed_together(self) -> Iterator[show.Table[Any]]:
        """What the failures that were asked for do."""
        scenarios = together_of(self.fabrics)
        if not scenarios:
            return
        shown = [FABRIC, *_impact_columns([impact.impact for _, impact in scenarios])]
        yield show.Table("scenario", shown, scenarios, self._together_title)
        if any(impact.draws > 1 for _, impact in scenarios):
            title = f"Mean of the {self.inputs['draws']:,} draws"
            yield show.Table("scenario", DRAWN, scenarios, title)


def _impact_columns(impacts: Sequence[ServedImpact]) -> list[show.Column[Any]]:
    """Columns of the impact in a row, with a service level if one is asked for."""
    level = any(impact.keeps_level is not None for impact in impacts)
    slowed: show.Shown = "all" if any(impact.servers_slowed for impact in impacts) else "wide"
    path, words = "1.impact", {True: "kept", False: "missed"}
    kept: show.Column[Any] = show.column(
        "level_kept", lambda row: words.get(row[1].impact.keeps_level), shown="people"
    )
    return [
        *show.columns("gpus_down", "gpus_cut_off", of=path, shown="wide"),
        *show.columns("gpus_unreachable", "bandwidth_share_low", of=path, shown="data"),
        *show.columns("bandwidth_share", "pod_share", of=path, shown="wide"),
        *show.columns("servers_lost", of=path),
        *show.columns("servers_restarted", "servers_left", of=path, shown="wide"),
        *show.columns("servers_slowed", of=path, shown=slowed),
        *show.columns("ttft_s", "tpot_s", "tokens_per_s", "throughput_share", of=path),
        show.column("keeps_level", f"{path}.keeps_level", shown="data"),
        *[kept] * level,
        show.column("way", f"{path}.way"),
    ]


PLANS: tuple[show.Column[ServedFabric], ...] = (
    show.column("fabric", "name"),
    show.column("servers", "plan.shape", shown="people"),
    show.column("concurrency", "plan.concurrency", title="requests"),
    *show.columns("ttft_s", "tpot_s", "tokens_per_s", of="plan"),
    show.column("gpus_used", "plan.gpus_used", title="GPUs"),
)
SINGLE: tuple[show.Column[tuple[str, Single[ServedImpact]]], ...] = (
    show.column("fabric", "0", shown="data"),
    show.column("kind", "1.kind", title="failed"),
    show.column("part", "1.part", shown="data"),
    show.column("parts", "1.parts", shown="wide"),
)
DRAWN: tuple[show.Column[tuple[str, ServedScenario]], ...] = (
    FABRIC,
    *show.columns("mean_tokens_per_s", "mean_throughput_share", of="1"),
    show.column("stopped_of_draws", lambda row: f"{row[1].stopped} of {row[1].draws}"),
)
YEARS: tuple[show.Column[ServedFabric], ...] = (
    *show.columns("fabric=name", "server_stops_per_year=forecast.server_interruptions_per_year"),
    show.column("mtbf_h", "forecast.mtbf_h", shown="wide"),
    *show.columns("servers_down", "all_answer_share", of="forecast"),
    *show.columns("expected_tokens_per_s", "expected_share", of="forecast"),
    show.column("assured_tokens_per_s", "forecast.assured_tokens_per_s", shown="wide"),
    show.column("assured_share", "forecast.assured_share"),
    *show.columns("spare_servers", of="forecast", shown="wide"),
    *show.columns("spare_servers_needed", "spare_gpus_needed", of="forecast"),
)
CAUSES: tuple[show.Column[tuple[str, ServerInterruptions]], ...] = (
    FABRIC,
    *show.columns("cause", "failures_per_year", of="1"),
    *show.columns("servers_stopped_per_year", "servers_under_repair", of="1"),
)
PLANS_LEGEND = ("The best plan of netplan serving; TP: GPUs of a copy of attention; PP: stages.",)
YEARS_LEGEND = (
    (
        "stops: servers that stop in a year; down: under repair, on average; all up: share of the"
        " time in which every server answers on whole links. tokens/s, share: on average; at least:"
        " the share that there is for the time that the title says. spares: servers, and their"
        " GPUs, that cover all under repair for as long. Closed form, from rates, repair hours and"
        " --restart."
    ),
)
IMPACT_LEGEND = (
    (
        "lost: servers (copies of the model) of which a GPU has failed or is out of reach; the"
        " requests in flight, as many as before, move to the others. slowed: servers that answer"
        " over fewer links, at the pace of the narrowest cut or of the HB links that are left."
    ),
    (
        "TTFT, TPOT: of the slowest servers. left: of the tokens a second without failures. goes"
        " on: with all servers, with those lost on spare GPUs, or without some, slow ones too if"
        " the rest gives more."
    ),
)

"""What a search for serving plans answers: plans, the front, and what to know of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from netplan.answers.screen_titles import screen_heading
from netplan.answers.served_price import ServedPrice
from netplan.performance.serving.bars import served_bar
from netplan.performance.serving.batch import TimeSpread
from netplan.performance.serving.load import Arrivals, SimulatedLoad
from netplan.performance.serving.outcomes import ServingCase
from netplan.performance.serving.serving_search import ServingFound
from netplan.records import replace
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.axes import ChartAxis, spread
from netplan.reports.charts import Chart, hover
from netplan.reports.plots import Points, line_chart
from netplan.reports.quantities import Words, listed, quantity
from netplan.reports.schema import plain_at
from netplan.reports.screen import Screen, columns_of, more_of, shares_of
from netplan.setup.inputs import found_words, replaced_lines, short_inputs
from netplan.setup.served_plan import ServedPlan
from netplan.setup.serving_run import POOL_FIELDS
from netplan.units import MILLI, PERCENT, counted, rounded, si

if TYPE_CHECKING:
    from netplan.setup.launch import Launch

BASIS = {
    "measured": "four of five measured points lie in such bars",
    "extrapolated": "wider than those of measured points, few of which have as many requests in"
    " flight a GPU",
    "transferred": "wider than on chips whose kernels were measured",
}
"""What error bars rest on."""
CLASSED = {
    "measured": "{held} of measured points of models that no fit saw lie in such bars",
    "extrapolated": "wider than those of measured points, few of which have as many requests in"
    " flight a GPU",
    "transferred": "wider than on what was measured",
}
"""What bars of a class rest on."""
PARTS = {
    "compute": "computing",
    "memory": "reading memory",
    "network": "sending",
    "host": "waiting for the host",
    "prefill": "prompts of other requests",
    "queue": "waiting for others",
}
"""Parts of both times for people."""
MANY = 100
"""Requests from which their tenths are left out [1]."""
LISTED, SCREEN_POINTS = 24, 5
"""Points of the front that a table lists, and a screen [1]."""

FULL = "Its latency is that of a full cluster: give --ttft-ms and --tpot-ms."


def alike_notes(case: ServingCase, plans: Sequence[ServedPlan]) -> tuple[str, ...]:
    """What cannot be told apart on chips whose kernels are no tables: no sentence, or one."""
    best = plans[0]
    bar = served_bar(case, "tokens/s", best.batch)
    alike = [plan for plan in plans if plan.tokens_per_s_high >= best.tokens_per_s_low]
    if bar is None:
        return ()
    ends = f"{bar.low:g} to {bar.high:g} times"
    several = (
        f"Plans 1 to {alike[-1].rank} are not distinguishable: their tokens/s differ by less than"
        " that bar."
        if len(alike) > 1
        else "Plans whose tokens/s differ by less than that are not distinguishable."
    )
    return (
        f"Printed tokens/s of {bar.kind} are {ends} the predicted ones ({bar.source}). {several}",
    )


def _basis(plan: ServedPlan) -> str:
    """What the bar of a plan rests on."""
    if plan.error_class is None:
        return BASIS[plan.error_basis]
    if plan.rate_bar:
        return f"the last of class {plan.error_class}"
    held = "most" if plan.error_held is None else f"{100 * plan.error_held:.0f} %"
    return f"class {plan.error_class}, {CLASSED[plan.error_basis].format(held=held)}"


class ServedLoad(Struct, frozen=True):
    """The best plan under requests as they come: its closed form, and its simulation."""

    json_parts = (
        *("arrivals.rate", "*drawn", "highest_rate", "least_gpus", "closed_form", "level_met"),
        "*simulated",
    )

    plan: ServedPlan
    arrivals: Arrivals
    highest_rate: float
    least_gpus: int
    simulated: SimulatedLoad

    @property
    def drawn(self) -> dict[str, Any]:
        """How requests are drawn, as JSON: None where they are those of a trace."""
        drawn = None if self.arrivals.trace is not None else self.arrivals
        return plain_at(drawn, "burstiness", "seed")

    @property
    def closed_form(self) -> dict[str, float]:
        """The plan under this rate in closed form, as JSON [s, 1]."""
        plan, rate = self.plan, self.arrivals.rate
        further = plan.tokens_per_s / rate - 1
        in_system = rate * (plan.ttft_s + further * plan.tpot_s)
        return {"ttft_s": plan.ttft_s, "tpot_s": plan.tpot_s, "in_system": in_system}

    @property
    def level_met(self) -> bool | None:
        """Whether the simulated means keep the service level; None without one."""
        return None if self.plan.service_level is None else not self.missed

    @property
    def missed(self) -> list[str]:
        """Which of the level's times simulated means are above, with the limit."""
        now, level = self.simulated, self.plan.service_level
        if level is None:
            return []
        times = (("TTFT", now.ttft_s, level.ttft_s), ("TPOT", now.tpot_s, level.tpot_s))
        return [
            f"{name} {most / MILLI:g} ms"
            for name, spread, most in times
            if most is not None and spread.mean > most
        ]

    def lines(self) -> Iterator[str]:
        """What a person reads: percentiles, requests in the system, and what else carries it."""
        now, arrivals, best = self.simulated, self.arrivals, self.plan
        times = [
            f"{name} {si(spread.mean, 's')} in the mean, p50 {si(spread.p50, 's')}, p95"
            f" {si(spread.p95, 's')}, p99 {si(spread.p99, 's')}"
            for name, spread in (("TTFT", now.ttft_s), ("TPOT", now.tpot_s))
        ]
        what = "of the trace" if arrivals.trace is not None else f"drawn from seed {arrivals.seed}"
        servers = f" on {counted(now.servers, 'server')}"
        yield f"Simulated, {now.requests:,} requests {what}{servers}: {'; '.join(times)}."
        present = f"{now.in_system:,.{0 if now.in_system >= MANY else 1}f}"
        yield (
            f"Closed form of the same plan: TTFT {si(best.ttft_s, 's')}, TPOT"
            f" {si(best.tpot_s, 's')}. {present} requests in the system,"
            f" {now.tokens_per_s:,.0f} tokens/s, saturated {PERCENT * now.saturated_share:.1f} % of"
            " the time."
        )
        yield (
            f"By the closed form the highest rate is {rounded(self.highest_rate)} requests/s, and"
            f" {counted(self.least_gpus, 'GPU')} carry {rounded(arrivals.rate)} requests/s."
        )
        level = best.service_level
        if level is not None and level.met and self.missed:
            yield (
                f"Simulated, the plan misses {' and '.join(self.missed)}: requests come in"
                " bursts, or wait for room in the cache, which the closed form does not know. Ask"
                " for a lower rate, or give more GPUs."
            )


@dataclass(frozen=True, slots=True, repr=False)
class ServingAnswer(Answer):
    """The answer of :func:`netplan.serving`: the best plans, and the front."""

    json_parts = (
        *("space", "best.service_level", "*price", "plans", "front=ranked_front", "notes=noted"),
        "?load",
    )

    inputs: dict[str, Any]
    found: ServingFound
    plans: tuple[ServedPlan, ...]
    front: tuple[ServedPlan, ...]
    room_bytes: float
    price: ServedPrice
    launch: "Launch"
    notes: tuple[str, ...] = ()
    load: ServedLoad | None = None
    on_experts: str = ""

    @property
    def best(self) -> ServedPlan:
        """The plan with the most tokens a second of those that keep the service level."""
        return self.plans[0]

    @property
    def space(self) -> dict[str, Any]:
        """Size of the space, and how long it took, as JSON."""
        return plain_at(self.found, "enumerated", "feasible", "seconds")

    @property
    def ranked_front(self) -> list[ServedPlan]:
        """The front, each plan with its place on it."""
        return [replace(plan, rank=rank) for rank, plan in enumerate(self.front, start=1)]

    @property
    def noted(self) -> tuple[str, ...]:
        """What was noticed, and how experts are loaded."""
        return (*self.notes, *self._on_experts)

    def summary(self) -> Iterator[show.Section]:
        """The best plan, points of the front or plans that keep the level, where time goes."""
        heading = self._heading()
        asked, where, space, _, *replaced = heading.lines
        best = self.best
        level = best.service_level
        listed_plans = (level is not None and level.source == "given") or self.load is not None
        points = self.plans if listed_plans else spread(self.front, SCREEN_POINTS)
        table = show.Table("front", list(_columns(self, "plan")), points)
        shown = columns_of(table, "ttft_s", "tpot_s", "tokens_per_s", "servers", "concurrency")
        title = (
            f"serving {short_inputs(self.inputs)['model']} on {heading.title.rpartition(' on ')[2]}"
        )
        legend = self._legend if best.prefill is not None else self._legend[:1]
        ends = [
            f"{name} {si(low, unit)} to {si(high, unit)}"
            for name, low, high, unit in (
                ("TTFT", best.ttft_low_s, best.ttft_high_s, "s"),
                ("TPOT", best.tpot_low_s, best.tpot_high_s, "s"),
                ("tokens/s", best.tokens_per_s_low, best.tokens_per_s_high, ""),
            )[: 3 if best.rate_bar else 2]
        ]
        yield from Screen(
            screen_heading(
                self.inputs, replace(heading, title=title), f"{asked}; {where}", *replaced
            ),
            (f"{self._short_verdict}.", *([] if self._bound else [FULL]), self.price.words),
            replace(table, columns=(*shown, BOTTLENECK), legend=legend),
            (
                *self._loaded,
                f"Its error bar: {listed(ends)}, {_basis(best)}.",
                *self._on_experts,
                *self.notes,
                f"Its time per token: {self._shares(best.breakdown_s, best.tpot_s)}.",
                f"Its time to first token: {self._shares(best.ttft_breakdown_s, best.ttft_s)}.",
                space,
            ),
            more_of("the whole front", self._wider, "--write DIR"),
        ).sections()

    def write(self, folder: Path | str, *, force: bool = False) -> tuple[Path, ...]:
        """Write launch commands of the best plan for vLLM.

        Parameters
        ----------
        folder
            Where to; it is made if it is not there.
        force
            Whether to replace files.

        Returns
        -------
        tuple of Path
            Scripts, one of each kind of server.

        Raises
        ------
        InputError
            If vLLM cannot run the plan, or a file is there already or cannot be written.
        """
        return self.launch.write(Path(folder), force=force)

    def in_a_line(self) -> str:
        """Tokens of the best plan, and its latency."""
        best = self.best
        times = f"TTFT {si(best.ttft_s, 's')}, TPOT {si(best.tpot_s, 's')}"
        return f"{best.tokens_per_s:,.0f} tokens/s, {times}"

    @property
    def _short_verdict(self) -> str:
        """What the best plan gives."""
        best = self.best
        kept = f" within {self._limits}" if self._limits else ""
        if self.load is not None and self._met:
            missed = self.load.missed
            but = f"; simulated, it misses {' and '.join(missed)}" if missed else ""
            return (
                f"Soonest done{kept} at {rounded(self.load.arrivals.rate)} requests/s"
                f"{' by its closed form' if missed else ''}: TTFT {si(best.ttft_s, 's')} and TPOT"
                f" {si(best.tpot_s, 's')}, by {best.shape}{but}"
            )
        which = f"Most tokens{kept}" if self._met else f"No plan keeps {self._limits}; the nearest"
        return (
            f"{which}: {best.tokens_per_s:,.0f}/s,"
            f" {rounded(best.tokens_per_s_per_gpu)} a GPU, at TTFT {si(best.ttft_s, 's')} and TPOT"
            f" {si(best.tpot_s, 's')}, by {best.shape}"
        )

    @staticmethod
    def _shares(parts_s: Mapping[str, float], whole_s: float) -> str:
        """Shares of a time, the largest first."""
        return shares_of([(PARTS[key], value) for key, value in parts_s.items()], whole_s)

    def sections(self) -> Iterator[show.Section]:
        """Heading, plans, where the best one's times go, the front as table and chart, notes."""
        yield self._heading()
        yield show.Table("plans", list(_columns(self, "plan")), self.plans, legend=self._legend)
        yield show.Paragraph(self._verdict, "strong")
        yield show.Paragraph(self.price.words)
        best = self.best
        for name, title, parts, total in (
            ("token", "Time per token of plan 1", best.breakdown_s, best.tpot_s),
            ("first", "Time to first token of plan 1", best.ttft_breakdown_s, best.ttft_s),
        ):
            rows = tuple((PARTS[key], value) for key, value in parts.items())
            yield show.Bars(name, f"{title}: {si(total, 's')}", quantity("seconds"), rows, total)
        yield show.Table("front", list(_columns(self, "point")), self.front, shown="data")
        if self.load is None:
            yield from self._front()
        else:
            yield show.Table(
                "load",
                list(SEEN),
                (("TTFT", self.load.simulated.ttft_s), ("TPOT", self.load.simulated.tpot_s)),
                title="Times of simulated requests",
            )
        if notes := (*self._loaded, *self.notes, *self._on_experts):
            yield show.Notes(tuple(("", note) for note in notes))

    def _front(self) -> Iterator[show.Section]:
        """The front as table and chart; under a rate all plans give the same tokens a second."""
        few = len(self._listed) < len(self.front)
        some = f", {len(self._listed)} of {len(self.front):,} points" if few else ""
        yield show.Table(
            "front",
            list(_columns(self, "point")),
            self._listed,
            title=f"The front: no plan is faster a token and gives more tokens a second{some}",
            shown="people",
        )
        yield self._chart()

    @property
    def _loaded(self) -> tuple[str, ...]:
        """What requests see as they come, and what tiers of caches give."""
        lines = () if self.load is None else tuple(self.load.lines())
        return (*lines, *self.best.tier_notes())

    @property
    def _on_experts(self) -> tuple[str, ...]:
        """How its experts are loaded, if it has any."""
        return (self.on_experts,) if self.on_experts else ()

    @property
    def _limits(self) -> str:
        """The service level in words, empty without one."""
        level = self.best.service_level
        if level is None:
            return ""
        return f"{level.words}{' (the default)' if level.source == 'default' else ''}"

    @property
    def _wider(self) -> str:
        """The option that asks for less, or for a level where there is none."""
        level = self.best.service_level
        if level is None:
            return "--tpot-ms 50"
        return "--any-plan" if level.source == "given" else "--no-level"

    @property
    def _kept(self) -> str:
        """What feasible plans have in common."""
        return f"keep {self._limits} at most" if self._limits else "fit the memory"

    @property
    def _met(self) -> bool:
        """Whether the best plan keeps the level, or none is asked for."""
        return self.best.service_level is None or self.best.service_level.met

    @property
    def _verdict(self) -> str:
        """Which plan to take, and by what rule."""
        best = self.best
        if self.load is not None and self._met:
            return (
                f"Plan 1 is done soonest, first token to last, of all that carry"
                f" {rounded(self.load.arrivals.rate)} requests/s and {self._kept}: {best.shape},"
                f" {best.concurrency:,} requests in flight; of equals, that with the fewest GPUs."
            )
        rule = f"gives the most tokens a second of all that {self._kept}"
        rule = rule if self._met else f"is nearest to {self._limits}, which none keeps"
        sentence = f"Plan 1 {rule}: {best.shape}, {best.concurrency:,} requests in flight."
        return sentence if self._bound else f"{sentence} {FULL}"

    @property
    def _bound(self) -> bool:
        """Whether something but the memory says how many requests are in flight."""
        given = ("concurrency", "batch", "requests")
        return bool(self._limits or self.load or any(self.inputs[name] for name in given))

    @property
    def _listed(self) -> tuple[ServedPlan, ...]:
        """Points of the front, thinned out evenly to what a table holds; both ends among them."""
        last = len(self.front) - 1
        if last < LISTED:
            return self.front
        return tuple(self.front[round(number * last / (LISTED - 1))] for number in range(LISTED))

    @property
    def _legend(self) -> tuple[str, ...]:
        """What the columns mean."""
        rows = self.plans
        lines = ["TP: GPUs of a copy of attention; PP: stages."]
        if any(row.expert > 1 or row.attention_data > 1 for row in rows):
            lines.append("Copies of attention share the experts, divided over EP groups of GPUs.")
        if self.best.prefill is not None:
            lines.append("Servers for prompts stand before the arrow, those for decode behind it.")
        return tuple(lines)

    def _heading(self) -> show.Heading:
        inputs, searched = short_inputs(self.inputs), self.found
        where = f"HB domains of {inputs['hb_size']:,}, fabric {inputs['fabric']}"
        where = ", ".join(filter(None, (where, found_words(inputs))))
        asked = f"prompts of {inputs['prompt']:,} tokens, answers of {inputs['output']:,}"
        if self.load is not None and self.load.arrivals.trace is not None:
            mean = self.launch.case.requests
            asked = (
                f"requests of a trace, in the mean prompts of {mean.prompt:,.0f} tokens, answers of"
                f" {mean.output:,.0f}"
            )
        if inputs["requests"] and self.load is None:
            asked = f"{inputs['requests']:,} requests at once, {asked}"
        how = (
            f"weights of {inputs['precision']}, stack {inputs['stack']},"
            f" {self.launch.case.served.kernels.words}"
        )
        if inputs["draft"]:
            scheme = inputs["speculation"] or "sequence"
            how += f"; {inputs['draft']} drafts a {scheme} of {inputs['window']}"
        space = (
            f"{searched.enumerated:,} plans with their requests, {searched.feasible:,} {self._kept}"
            f" ({si(searched.seconds, 's', 2)})."
        )
        ends = self.best
        bars = (
            f"Plan 1: TPOT {si(ends.tpot_low_s, 's')} to {si(ends.tpot_high_s, 's')}, TTFT"
            f" {si(ends.ttft_low_s, 's')} to {si(ends.ttft_high_s, 's')},"
            f" {_basis(ends)}."
        )
        return show.Heading(
            f"Serving {inputs['model']} on {inputs['gpus']:,} {inputs['accelerator']}",
            (asked, f"{where}; {how}", space, bars, *replaced_lines(inputs)),
        )

    def _chart(self) -> Chart:
        """Throughput over latency."""
        rows = self.front
        boxes = [
            hover(
                row.shape,
                f"{row.concurrency:,.0f} requests in flight",
                f"TPOT {si(row.tpot_s, 's')}, TTFT {si(row.ttft_s, 's')}",
                f"{si(row.tokens_per_s, 'tokens/s')}, {row.bottleneck} binds",
            )
            for row in rows
        ]
        return line_chart(
            Points(
                key="front",
                label="Throughput over time per token",
                x=ChartAxis(Words("time per token", "ms"), log=True),
                y=ChartAxis(Words("tokens a second and GPU", "1/s")),
                xs=[row.tpot_s / MILLI for row in rows],
                ys=[row.tokens_per_s_per_gpu for row in rows],
                series=[()] * len(rows),
                name=lambda _: "",
                box=lambda index: boxes[index],
            ),
            room=len(rows),
        )


BOTTLENECK: show.Column[ServedPlan] = show.column("serving_binds", "bottleneck", title="bottleneck")


SEEN: tuple[show.Column[tuple[str, TimeSpread]], ...] = (
    show.column("time_of_requests", "0"),
    *(show.column(f"seen_{name}_s", f"1.{name}") for name in ("mean", "p50", "p95", "p99")),
)


def _columns(answer: ServingAnswer, rank_title: str) -> Iterator[show.Column[ServedPlan]]:
    """Columns of plans, whose rank is headed ``rank_title``."""
    yield show.column("rank", "rank", title=rank_title)
    yield show.column("servers", "shape", shown="people")
    yield show.column("concurrency", "concurrency", title="requests")
    yield from show.columns("tensor", "pipeline", "expert", "attention_data", shown="data")
    yield from show.columns("replicas", "batch", shown="data")
    yield from show.columns(
        "ttft_s", "tpot_s", "tokens_per_s", "tokens_per_s_per_gpu", "memory_bytes"
    )
    ends = ("ttft_low_s", "ttft_high_s", "tpot_low_s", "tpot_high_s", "error_basis")
    yield from show.columns(*ends, "tokens_per_s_low", "tokens_per_s_high", shown="data")
    yield show.column("serving_binds", "bottleneck")
    yield show.column("gpus_used", "gpus_used", title="GPUs")
    if answer.best.prefill is not None:
        for pool in ("prefill", "decode"):
            for name in (*POOL_FIELDS, "gpus"):
                yield show.column(f"{pool}_{name}", f"{pool}.{name}", shown="data")

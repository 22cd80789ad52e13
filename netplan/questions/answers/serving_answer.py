"""What a search for serving plans answers: plans, the front, and what to know of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from netplan.performance.serving.disaggregated import Pools, cache_sent
from netplan.performance.serving.outcomes import ServingCase, ServingResult
from netplan.performance.serving.plans import ServingPlans
from netplan.performance.serving.serving_search import ServingFound, binding
from netplan.questions.answers.screen_titles import screen_heading
from netplan.questions.answers.served_plan import ServedPlan, ServedPool
from netplan.questions.setup.inputs import found_words, replaced_lines, told
from netplan.records import asdict, replace
from netplan.reports import sections as show
from netplan.reports.answer import Answer, answer_dict, plain_at
from netplan.reports.axes import ChartAxis, spread
from netplan.reports.charts import Chart, hover
from netplan.reports.plots import Points, line_chart
from netplan.reports.quantities import Words, listed, quantity
from netplan.reports.screen import Screen, columns_of, more_of, shares_of
from netplan.units import MILLI, si

BASIS = {
    "measured": "four of five measured points lie in such bars",
    "extrapolated": "wider than those of measured points, few of which have as many requests in"
    " flight a GPU",
    "transferred": "wider than on chips whose kernels were measured",
}
"""What error bars rest on."""
PARTS = {
    "compute": "computing",
    "memory": "reading memory",
    "network": "sending",
    "host": "waiting for the host",
    "prefill": "prompts of other requests",
    "queue": "waiting for others",
}
"""Parts of both times for people."""
LISTED, SCREEN_POINTS = 24, 7
"""Points of the front that a table lists, and a screen [1]."""

FULL = "Its latency is that of a full cluster: give --ttft-ms and --tpot-ms."


def served_plans(
    outcome: ServingResult, pools: Pools | None, case: ServingCase, gpus: int, most: int | None
) -> tuple[ServedPlan, ...]:
    """Rows of an answer, the first ``most`` of them."""
    count = outcome.plans.count if most is None else min(most, outcome.plans.count)
    binds, first = binding(outcome), binding(outcome, first=True)
    sent = cache_sent(case, pools).gpu_bytes if pools is not None else None
    rows = []
    for index in range(count):
        rate = float(outcome.tokens_per_s[index])
        used = outcome.plans.gpus_used if pools is None else pools.gpus_used
        rows.append(
            ServedPlan(
                rank=index + 1,
                **_degrees(outcome.plans, index),
                gpus_used=int(used[index]),
                batch=_batch(outcome, index),
                concurrency=round(float(outcome.concurrency[index])),
                tokens_per_s=rate,
                tokens_per_s_per_gpu=rate / gpus,
                **_barred(case, outcome, index),
                memory_bytes=float(outcome.memory_bytes[index]),
                binds=binds[index],
                ttft_binds=first[index],
                queue_s=float(outcome.queue_s[index]),
                breakdown_s={name: float(part[index]) for name, part in outcome.parts.items()},
                ttft_breakdown_s={
                    name: float(part[index]) for name, part in outcome.prompt_parts.items()
                },
                prefill=_pool(pools.prefill, index) if pools is not None else None,
                decode=_pool(pools.decode, index) if pools is not None else None,
                kv_sent_bytes=float(sent[index]) if sent is not None else None,
            )
        )
    return tuple(rows)


POOL_FIELDS = ("tensor", "pipeline", "expert", "attention_data", "expert_tensor", "replicas")


def _barred(case: ServingCase, outcome: ServingResult, index: int) -> dict[str, Any]:
    """Times with the ends of their error bars, and throughput at both."""
    crowd = outcome.concurrency[index] / outcome.plans.gpus_used[index]
    basis = "measured" if crowd <= case.stack.crowded_requests else "extrapolated"
    basis = "transferred" if case.untried else basis
    wider = 1.0 if basis == "measured" else case.stack.beyond
    ttft_s, tpot_s = float(outcome.ttft_s[index]), float(outcome.tpot_s[index])
    first, per_token = 1 + wider * case.stack.ttft_error, 1 + wider * case.stack.tpot_error
    output = float(case.requests.output)

    def rate(first_s: float, each_s: float) -> float:
        return float(outcome.concurrency[index]) * output / (first_s + (output - 1) * each_s)

    return {
        "ttft_s": ttft_s,
        "ttft_low_s": ttft_s / first,
        "ttft_high_s": ttft_s * first,
        "tpot_s": tpot_s,
        "tpot_low_s": tpot_s / per_token,
        "tpot_high_s": tpot_s * per_token,
        "error_basis": basis,
        "tokens_per_s_low": rate(ttft_s * first, tpot_s * per_token),
        "tokens_per_s_high": rate(ttft_s / first, tpot_s / per_token),
    }


def _batch(outcome: ServingResult, index: int) -> int:
    """Requests that one server decodes together, the fullest one."""
    copies = int(outcome.plans.attention_data[index])
    return max(1, round(float(outcome.running[index]) * copies))


def _degrees(plans: ServingPlans, index: int) -> dict[str, Any]:
    """Degrees and number of the servers of one plan."""
    return {name: int(getattr(plans, name)[index]) for name in POOL_FIELDS}


def _pool(plans: ServingPlans, index: int) -> ServedPool:
    """Servers of one pool."""
    return ServedPool(**_degrees(plans, index), gpus=int(plans.gpus_used[index]))


@dataclass(frozen=True, slots=True, repr=False)
class ServingAnswer(Answer):
    """The answer of :func:`netplan.serving`: the best plans, and the front."""

    inputs: dict[str, Any]
    found: ServingFound
    plans: tuple[ServedPlan, ...]
    front: tuple[ServedPlan, ...]
    room_bytes: float
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> ServedPlan:
        """The plan with the most tokens a second of those that keep the service level."""
        return self.plans[0]

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan serving --format json``."""
        space = plain_at(self.found, "enumerated", "feasible", "seconds")
        front = [asdict(plan) | {"rank": rank} for rank, plan in enumerate(self.front, start=1)]
        parts = plain_at(self, "plans") | {"front": front} | plain_at(self, "notes")
        return answer_dict(self.inputs, space=space, **parts)

    def summary(self) -> Iterator[show.Section]:
        """The best plan, points of the front or plans that keep the level, where time goes."""
        heading = self._heading()
        asked, where, space, _, *replaced = heading.lines
        best = self.best
        points = self.plans if self._limits else spread(self.front, SCREEN_POINTS)
        table = show.Table("front", list(_columns(self, "plan")), points)
        shown = columns_of(table, "ttft_s", "tpot_s", "tokens_per_s", "servers", "concurrency")
        title = f"serving {told(self.inputs)['model']} on {heading.title.rpartition(' on ')[2]}"
        legend = self._legend if best.prefill is not None else self._legend[:1]
        ends = [
            f"{name} {si(low, 's')} to {si(high, 's')}"
            for name, low, high in (
                ("TTFT", best.ttft_low_s, best.ttft_high_s),
                ("TPOT", best.tpot_low_s, best.tpot_high_s),
            )
        ]
        yield from Screen(
            screen_heading(
                self.inputs, replace(heading, title=title), f"{asked}; {where}", *replaced
            ),
            (f"{self._short_verdict}.", *([] if self._bound else [FULL])),
            replace(table, columns=(*shown, BOTTLENECK), legend=legend),
            (
                f"Its error bar: {listed(ends)}, {BASIS[best.error_basis]}.",
                f"Its time per token: {self._shares(best.breakdown_s, best.tpot_s)}.",
                f"Its time to first token: {self._shares(best.ttft_breakdown_s, best.ttft_s)}.",
                *self.notes,
                space,
            ),
            more_of("the whole front", "--ttft-ms 2000", "--tpot-ms 50"),
        ).sections()

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
        return (
            f"Most tokens{kept}: {best.tokens_per_s:,.0f}/s,"
            f" {best.tokens_per_s_per_gpu:,.4g} a GPU, at TTFT {si(best.ttft_s, 's')} and TPOT"
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
        best = self.best
        for name, title, parts, total in (
            ("token", "Time per token of plan 1", best.breakdown_s, best.tpot_s),
            ("first", "Time to first token of plan 1", best.ttft_breakdown_s, best.ttft_s),
        ):
            rows = tuple((PARTS[key], value) for key, value in parts.items())
            yield show.Bars(name, f"{title}: {si(total, 's')}", quantity("seconds"), rows, total)
        few = len(self._listed) < len(self.front)
        some = f", {len(self._listed)} of {len(self.front):,} points" if few else ""
        yield show.Table(
            "front",
            list(_columns(self, "point")),
            self._listed,
            title=f"The front: no plan is faster a token and gives more tokens a second{some}",
            only="people",
        )
        yield show.Table("front", list(_columns(self, "point")), self.front, only="programs")
        yield self._chart()
        if self.notes:
            yield show.Notes(tuple(("", note) for note in self.notes))

    @property
    def _limits(self) -> str:
        """The service level in words, empty without one."""
        asked = {"TTFT": self.inputs["ttft_ms"], "TPOT": self.inputs["tpot_ms"]}
        return " and ".join(f"{name} {most:g} ms" for name, most in asked.items() if most)

    @property
    def _met(self) -> str:
        """What the plans that are ranked meet."""
        return f"keep {self._limits} at most" if self._limits else "fit the memory"

    @property
    def _verdict(self) -> str:
        """Which plan to take, and by what rule."""
        best = self.best
        sentence = (
            f"Plan 1 gives the most tokens a second of all that {self._met}: {best.shape},"
            f" {best.concurrency:,} requests in flight."
        )
        return sentence if self._bound else f"{sentence} {FULL}"

    @property
    def _bound(self) -> bool:
        """Whether something but the memory says how many requests are in flight."""
        return bool(self._limits or self.inputs["concurrency"] or self.inputs["batch"])

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
        inputs, searched = told(self.inputs), self.found
        where = f"HB domains of {inputs['hb_size']:,}, fabric {inputs['fabric']}"
        where = ", ".join(filter(None, (where, found_words(inputs))))
        asked = f"prompts of {inputs['prompt']:,} tokens, answers of {inputs['output']:,}"
        how = (
            f"weights of {inputs['precision']}, stack {inputs['stack']},"
            f" {inputs['kernels']} kernels"
        )
        if inputs["draft"]:
            scheme = inputs["speculation"] or "sequence"
            how += f"; {inputs['draft']} drafts a {scheme} of {inputs['window']}"
        space = (
            f"{searched.enumerated:,} plans with their requests, {searched.feasible:,} {self._met}"
            f" ({si(searched.seconds, 's', 2)})."
        )
        ends = self.best
        bars = (
            f"Plan 1: TPOT {si(ends.tpot_low_s, 's')} to {si(ends.tpot_high_s, 's')}, TTFT"
            f" {si(ends.ttft_low_s, 's')} to {si(ends.ttft_high_s, 's')},"
            f" {BASIS[ends.error_basis]}."
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
                f"{si(row.tokens_per_s, 'tokens/s')}, {row.binds} binds",
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


BOTTLENECK: show.Column[ServedPlan] = show.column("serving_binds", "binds", title="bottleneck")


def _columns(answer: ServingAnswer, rank_title: str) -> Iterator[show.Column[ServedPlan]]:
    """Columns of plans, whose rank is headed ``rank_title``."""
    yield show.column("rank", "rank", title=rank_title)
    yield show.column("servers", "shape", data=False)
    yield show.column("concurrency", "concurrency", title="requests")
    yield from show.columns("tensor", "pipeline", "expert", "attention_data", shown="never")
    yield from show.columns("replicas", "batch", shown="never")
    yield from show.columns(
        "ttft_s", "tpot_s", "tokens_per_s", "tokens_per_s_per_gpu", "memory_bytes"
    )
    ends = ("ttft_low_s", "ttft_high_s", "tpot_low_s", "tpot_high_s", "error_basis")
    yield from show.columns(*ends, "tokens_per_s_low", "tokens_per_s_high", shown="never")
    yield show.column("serving_binds", "binds")
    yield show.column("gpus_used", "gpus_used", title="GPUs")
    if answer.best.prefill is not None:
        for pool in ("prefill", "decode"):
            for name in (*POOL_FIELDS, "gpus"):
                yield show.column(f"{pool}_{name}", f"{pool}.{name}", shown="never")

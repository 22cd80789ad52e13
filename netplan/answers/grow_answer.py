"""The answer of ``netplan grow``: phases, orders, free ports, and three ways to the last phase."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from operator import itemgetter
from typing import Any, Literal

from msgspec import Struct

from netplan.answers.bill_columns import (
    each_and_all,
    given_words,
    open_above,
    span_column,
    sum_range,
)
from netplan.answers.budget_answer import Budget
from netplan.answers.screen_titles import bought_lines, network_title, refused_notes, screen_heading
from netplan.costing.fabric_bill import Bill, RefusedFabric
from netplan.costing.materials import not_held
from netplan.costing.phases import PhaseOrder, line_of
from netplan.costing.pricing import PricedItem
from netplan.costing.ranges import Range
from netplan.records import replace
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.quantities import DASH, Scale, money
from netplan.reports.schema import plain_at
from netplan.reports.screen import Screen, more_of
from netplan.setup.inputs import hall_words
from netplan.topologies.cabling.cable_plan import PlanSheet, cable_plan, media_of, plan_sheet
from netplan.topologies.fabric import SwitchTier
from netplan.topologies.growth import Growth, Phase
from netplan.units import si

Plan = Literal["growing", "all at once", "not planned"]


class GrowthPhase(Struct, frozen=True):
    """One phase of one fabric.

    ``bill`` is what stands then, ``order`` what is bought for it, ``moved`` the cables of the phase
    before that change a port, ``own`` the smallest network for as many GPUs. ``part`` is its part
    of the final design, if the family grows by parts.
    """

    json_parts = (
        *("phase=number", "year", "gpus", "switches=bill.fabric.switches", "tiers", "links"),
        *("free_ports=bill.fabric.spare_ports", "part.oversubscription", "part.leaf_hosts"),
        *("part.leaf_uplinks", "cables_moved=moved", "bill.power_w", "order=bought"),
        *("order_cost=cost", "left_over", "standing_cost=bill.capital"),
        *("own_switches=own.fabric.switches", "own_cost=own.capital"),
    )

    number: int
    year: float
    bill: Bill
    order: PhaseOrder
    moved: int
    part: Phase | None
    own: Bill

    @property
    def gpus(self) -> int:
        """GPUs that are there [1]."""
        return self.bill.gpus

    @property
    def cost(self) -> Range:
        """Price of the order."""
        return self.order.bought.total

    @property
    def switches_bought(self) -> int:
        """Switches of the order [1]."""
        items = self.order.bought.items
        return sum(item.line.order for item in items if item.line.category == "switches")

    def free_of(self, tier: SwitchTier) -> int:
        """Ports of a tier that are free [1]."""
        return tier.switches * self.bill.fabric.sizing.radix - tier.ports_used

    @property
    def tiers(self) -> list[dict[str, Any]]:
        """Tiers with their free ports, as JSON."""
        return [
            {"name": tier.name, "switches": tier.switches, "free_ports": self.free_of(tier)}
            for tier in self.bill.fabric.tiers
        ]

    @property
    def links(self) -> dict[str, int]:
        """Links by kind [1]."""
        return {group.name: group.links for group in self.bill.fabric.links}

    @property
    def bought(self) -> list[dict[str, Any]]:
        """Lines of the order, as JSON."""
        return [_line(item) for item in self.order.bought.items]

    @property
    def left_over(self) -> list[dict[str, Any]]:
        """What of the phases before is left over, as JSON."""
        return [_line(item) for item in self.order.left.items]


def _line(item: PricedItem) -> dict[str, Any]:
    return plain_at(item.line, *OF_LINES) | each_and_all(item)


OF_LINES = (
    *("category", "item", "specification", "part_number"),
    *("quantity", "spares", "order", "unit", "network"),
)


class GrowthPath(Struct, frozen=True):
    """A way to the last phase.

    Parameters
    ----------
    plan
        Which one.
    capital
        All orders, without interest.
    present_value
        Orders, energy and upkeep to the end of use, discounted to the start.
    left
        Price of parts that are bought and no longer needed.
    moved
        Cables that change a port [1].
    """

    plan: Plan
    capital: Range
    present_value: Range
    left: Range
    moved: int


class Grown(Struct, frozen=True):
    """One fabric: its final bill, its phases, the ways to it, and what is to be known."""

    json_parts = (
        *("fabric=name", "final.title", "phases=steps", "ways", "cables_moved=ways.0.moved"),
        *("unpriced=final.quote.unpriced.*.title", "media_given=final.media_given?", "notes"),
    )

    final: Bill
    steps: tuple[GrowthPhase, ...]
    ways: tuple[GrowthPath, GrowthPath, GrowthPath]
    notes: tuple[str, ...]
    growth: Growth | None = None
    cage_links: int = 1

    @property
    def name(self) -> str:
        """Name of the fabric."""
        return self.final.name

    def plans(self) -> Iterator[tuple[str, PlanSheet]]:
        """Cable plans of all phases, and of the cables that each lays, as ``netplan cables``."""
        if self.growth is None:
            return
        media = media_of(self.growth.fabric)
        for phase, step in enumerate(self.steps):
            for new, name in ((False, "all"), (True, "new")):
                graph = self.growth.graph_of(phase, new=new)
                plan = cable_plan(graph, media=media, cage_links=self.cage_links)
                yield f"phase-{step.number}-{name}", plan_sheet(plan)


@dataclass(frozen=True, slots=True, repr=False)
class GrowthAnswer(Answer):
    """The answer of :func:`netplan.grow`."""

    json_parts = (
        *("currency", "fabrics=grown", "refused", "verdicts", "left_out", "?power_budget"),
    )

    inputs: dict[str, Any]
    currency: str
    grown: tuple[Grown, ...]
    refused: tuple[RefusedFabric, ...]
    budget: Budget | None = None
    """The power of the hall, if phases are held against one."""

    @property
    def scale(self) -> Scale:
        """Scale of all amounts, by the dearest final design."""
        return Scale.of(max(fabric.final.capital.base for fabric in self.grown), self.currency)

    @property
    def verdicts(self) -> list[str]:
        """One sentence a fabric: what growing costs beside the other two ways."""
        return [_verdict(fabric, self.scale, self.currency) for fabric in self.grown]

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the orders do not hold."""
        finals = (fabric.final.quote.items for fabric in self.grown)
        installed = all(any(item.line.part == "installation" for item in items) for items in finals)
        return not_held(self.inputs["networks"], installed=installed)

    @property
    def power_budget(self) -> dict[str, Any] | None:
        """The budget and what each phase leaves of it, as JSON."""
        if (budget := self.budget) is None:
            return None
        phases = [
            {"fabric": fabric.name, "phase": step.number, **_drawn(budget, step)}
            for fabric in self.grown
            for step in fabric.steps
        ]
        return plain_at(self, "*budget") | {"phases": phases, "sentences": self.power_words}

    @property
    def power_words(self) -> list[str]:
        """A sentence a fabric: which phase needs more than the budget, or what the last leaves."""
        budget = self.budget
        return [] if budget is None else [_power(budget, fabric) for fabric in self.grown]

    def summary(self) -> Iterator[show.Section]:
        """The fabric that costs least to grow, its phases and those of others, other ways."""
        heading, best = self._heading(), self._best
        several = len(self.grown) > 1
        verdicts = dict(zip([grown.name for grown in self.grown], self.verdicts, strict=True))
        first = verdicts.pop(best.name)
        title, facts = heading.title.partition(": ")[0], heading.lines[0]
        switches = f"{self.inputs['radix']}-port {self.inputs['link_gbps']:g}G switches"
        lines = f"{switches}; {facts}", *heading.lines[1:]
        phases = self._phases()
        order = [best.name, *verdicts]
        rows = sorted(phases.rows, key=lambda row: order.index(row[0]))
        refused = (f"{fabric.name} is not there: {fabric.reason}" for fabric in self.refused)
        powers = dict(zip([grown.name for grown in self.grown], self.power_words, strict=False))
        span = sum_range(self.scale, best.ways[0].present_value, best.final)
        between = [f"By the book's low and high prices growing costs {span}."]
        if span == DASH or best.final.cost is None:
            between = []
        yield from Screen(
            screen_heading(self.inputs, replace(heading, title=title), *lines),
            (
                f"Cheapest to grow is {first}" if several and not best.final.media_given else first,
                *given_words(grown.final for grown in self.grown),
                *between,
                *filter(None, [powers.get(best.name)]),
            ),
            replace(phases, rows=rows, legend=(phases.legend[0], *phases.legend[3:])),
            (*verdicts.values(), *refused, f"Not on the orders: {'; '.join(self.left_out)}."),
            more_of("orders, ways, tiers", "--plans plans"),
        ).sections()

    def in_a_line(self) -> str:
        """The fabric that costs least to grow, and its present value."""
        best = self._best
        least = "≥ " if best.final.quote.unpriced else ""
        value = money(best.ways[0].present_value.base, self.currency)
        return f"grow {best.name}, {least}{value} in present value"

    @property
    def _best(self) -> Grown:
        """The fabric whose growth costs least, of those in the verdict and with a whole price."""
        return min(
            self.grown, key=lambda grown: (*grown.final.rank[:2], grown.ways[0].present_value.base)
        )

    def sections(self) -> Iterator[show.Section]:
        """Phases, the ways beside each other, what to buy when, notes."""
        yield self._heading()
        yield self._phases()
        yield self._tiers()
        yield self._ways()
        aside = given_words(grown.final for grown in self.grown)
        for verdict in (*self.verdicts, *aside, *self.power_words):
            yield show.Paragraph(verdict, "strong")
        rows = [
            (fabric.name, step, item)
            for fabric in self.grown
            for step in fabric.steps
            for item in step.order.bought.items
        ]
        yield show.Table("orders", ORDER_DATA, rows, shown="data")
        for fabric in self.grown:
            yield _orders(fabric)
        yield show.Paragraph(f"Not on the orders: {'; '.join(self.left_out)}.")
        yield refused_notes(((fabric.name, fabric.notes) for fabric in self.grown), self.refused)

    def _heading(self) -> show.Heading:
        inputs = self.inputs
        sizes = " to ".join(f"{gpus:,}" for gpus in inputs["phases"])
        begins = (f"{year:g}" for year in accumulate(inputs["years_between"], initial=0.0))
        facts = (
            f"prices {inputs['prices']} in {self.currency}{hall_words(inputs)}; phases begin in"
            f" years {', '.join(begins)}, the last is used for {inputs['years']};"
            f" {100 * inputs['interest']:.3g} % interest"
        )
        title = network_title(f"Growth from {sizes}", inputs)
        lines = (facts, *bought_lines(inputs, self.currency))
        return show.Heading(f"{title}, {inputs['link_gbps']:g} Gb/s", lines)

    def _phases(self) -> show.Table[tuple[str, GrowthPhase]]:
        """What stands in every phase, what is bought for it, and what stays free."""
        scale, power = self.scale, list[show.Column[tuple[str, GrowthPhase]]]()
        if budget := self.budget:
            facility = partial(_drawn, budget)
            power = [
                show.column(
                    "facility_w", lambda row: facility(row[1])["facility_w"].base, shown="wide"
                ),
                show.column("left_w", lambda row: facility(row[1])["left_w"], shown="wide"),
            ]
        shown: list[show.Column[tuple[str, GrowthPhase]]] = [
            show.column("phase", "1.number"),
            show.column("fabric", "0", shown="data"),
            *show.columns("gpus", "year", "switches=bill.fabric.switches", of="1"),
            show.column("switches_bought", "1.switches_bought", shown="wide"),
            *show.columns("ports_kept_free=bill.fabric.spare_ports", "cables_moved=moved", of="1"),
            *show.columns("down_over_up=oversubscription", of="1.part"),
            show.column(
                scale.of_money("order_cost"),
                "1.cost.base",
                mark=lambda row: ("≥ " if row[1].order.bought.unpriced else "", ""),
            ),
            *power,
            show.column(scale.of_money("own_cost", "smallest"), "1.own.capital.base", shown="wide"),
            show.column("own_switches", "1.own.fabric.switches", shown="wide"),
        ]
        rows = [(fabric.name, step) for fabric in self.grown for step in fabric.steps]
        legend = [
            f"Free: switch ports kept for cables to come. {scale.title}: what the phase buys.",
            "Moved: cables of the phase before, compared device by device and port by port.",
            "Down/up: most links down over up of any switch, counted in the phase.",
        ]
        if any(fabric.final.quote.unpriced for fabric in self.grown):
            legend.append("≥: lines without a price in the book are not in the sum.")
        return show.Table("phases", shown, rows, legend=tuple(legend), part=itemgetter(0))

    def _tiers(self) -> show.Table[Any]:
        """Switches of every tier in every phase, and their free ports."""
        shown: list[show.Column[Any]] = [
            show.column("phase", "1.number"),
            show.column("fabric", "0", shown="data"),
            *show.columns("gpus=1.gpus", "switch_tier=2.name", "switches=2.switches"),
            show.column("ports_kept_free", lambda row: row[1].free_of(row[2])),
        ]
        rows = [
            (fabric.name, step, tier)
            for fabric in self.grown
            for step in fabric.steps
            for tier in step.bill.fabric.tiers
        ]
        return show.Table("tiers", shown, rows, "Free ports by tier", part=itemgetter(0))

    def _ways(self) -> show.Table[tuple[str, GrowthPath]]:
        """Growing, all at once, and the smallest network of each phase."""
        scale = self.scale
        unbound = {fabric.name: open_above(fabric.final) for fabric in self.grown}
        span = partial(span_column, scale=scale, unbound=lambda row: unbound[row[0]])
        lacking = {fabric.name for fabric in self.grown if fabric.final.quote.unpriced}

        def mark(row: tuple[str, GrowthPath]) -> tuple[str, str]:
            return ("≥ " if row[0] in lacking else ""), ""

        shown: list[show.Column[tuple[str, GrowthPath]]] = [
            show.column("plan", "1.plan"),
            show.column("fabric", "0", shown="data"),
            show.column(scale.of_money("orders_cost", "orders"), "1.capital.base", mark=mark),
            show.column(
                scale.of_money("present_value", "present value"), "1.present_value.base", mark=mark
            ),
            span("1.present_value"),
            show.column(scale.of_money("left_over_cost", "left over"), "1.left.base"),
            show.column("cables_moved", "1.moved"),
        ]
        rows = [(fabric.name, way) for fabric in self.grown for way in fabric.ways]
        years = sum(self.inputs["years_between"]) + self.inputs["years"]
        valued = f"Present value of orders, energy and upkeep over {years:g} years."
        unplanned = "what it has no use for is left over, the rest is kept and cabled anew"
        legend = (
            f"{valued} All at once: bought at the start, switched on as GPUs come.",
            f"Not planned: each phase the smallest network of its size; {unplanned}.",
            "Its cables move by the plans of netplan cables; who keeps more names moves fewer.",
        )
        title = f"Three ways to the last phase, in {scale.title}"
        return show.Table("ways", shown, rows, title, legend, part=itemgetter(0))


def _drawn(budget: Budget, step: GrowthPhase) -> dict[str, Any]:
    """Power of the hall in a phase, and what it leaves of a budget [W]."""
    power = budget.hall.facility_w(step.bill)
    return {"facility_w": power, "left_w": budget.budget_w - power.base}


def _power(budget: Budget, fabric: Grown) -> str:
    """Which phase of a fabric needs more than a budget, by how much, and how many GPUs fit."""
    needs = [(step, budget.hall.facility_w(step.bill).base) for step in fabric.steps]
    held = next((known for known in budget.held if known.fabric == fabric.name), None)
    over = [(step, watts) for step, watts in needs if watts > budget.budget_w]
    step, watts = over[0] if over else needs[-1]
    apart = si(abs(watts - budget.budget_w), "W", 3)
    phase = f"phase {step.number} ({step.gpus:,} GPUs) needs {si(watts, 'W', 4)}"
    fits = f"; {held.gpus:,} GPUs fit" if held else ""
    if over:
        return f"{fabric.name}: {phase}, {apart} more than {budget.words}{fits}."
    return f"{fabric.name}: every phase fits, {phase}, {apart} less than {budget.words}{fits}."


def _orders(fabric: Grown) -> show.Table[Any]:
    """What to buy in every phase, a row a part, for people."""
    parts: dict[object, tuple[PricedItem, list[int]]] = {}
    for phase, step in enumerate(fabric.steps):
        for item in step.order.bought.items:
            line = parts.setdefault(line_of(item.line), (item, [0] * len(fabric.steps)))
            line[1][phase] += item.line.order
    rows = [(item, tuple(counts), sum(counts)) for item, counts in parts.values()]
    shown: list[show.Column[Any]] = [
        show.column("item", "0.line.title"),
        show.column("unit", "0.line.unit", form="code"),
        *(
            show.column("order", f"1.{phase}", title=f"{step.gpus:,} GPUs")
            for phase, step in enumerate(fabric.steps)
        ),
        show.column("order", "2", title="all"),
    ]
    return show.Table(
        f"orders of {fabric.name}",
        shown,
        rows,
        f"{fabric.name}: what to buy for each phase",
        shown="people",
    )


ORDER_DATA: Sequence[show.Column[Any]] = (
    *show.columns("fabric=0", "phase=1.number", "gpus=1.gpus", "category=2.line.category"),
    *show.columns("item", "specification", "part_number", "quantity", "spares", of="2.line"),
    *show.columns("order", "unit", of="2.line"),
    show.column("unit_price_base", lambda row: row[2].unit_price.base if row[2].price else None),
    show.column("total_low", lambda row: row[2].total.low if row[2].price else None),
    show.column("total_base", lambda row: row[2].total.base if row[2].price else None),
    show.column("total_high", lambda row: row[2].total.high if row[2].price else None),
)


def _verdict(fabric: Grown, scale: Scale, currency: str) -> str:
    """What growing costs in present value, and what the other ways cost more or less."""
    grown, once, unplanned = fabric.ways
    if fabric.final.cost is None:
        return f"{fabric.name}: no price for what sets it apart; {grown.moved:,} cables move."
    others = ", ".join(
        f"{name} {scale.number(way.present_value.base)} ({_more(way, grown, scale)})"
        for name, way in (("all at once", once), ("not planned", unplanned))
    )
    moved = "no cable moves" if not grown.moved else f"{grown.moved:,} cables move"
    least = "at least " if fabric.final.quote.unpriced else ""
    text = (
        f"{fabric.name}: growing costs {least}{scale.number(grown.present_value.base)}"
        f" {scale.title} in present value, {moved}; {others}."
    )
    if grown.moved == unplanned.moved:
        return text
    left = unplanned.left.base
    parts = f"parts for {scale.amount(left)} are left over" if left else "no part is left over"
    text += f" Unplanned, {unplanned.moved:,} cables move, and {parts}."
    more = grown.present_value.base - unplanned.present_value.base
    if more > 0:
        per_cable = more / (unplanned.moved - grown.moved)
        text += f" Growing pays where moving a cable costs more than {per_cable:,.0f} {currency}."
    return text


def _more(way: GrowthPath, than: GrowthPath, scale: Scale) -> str:
    """How much more or less one way costs, as the rounded amounts show it."""
    less = scale.less(than.present_value.base, way.present_value.base)
    return f"+{less}" if not less.startswith("-") else less

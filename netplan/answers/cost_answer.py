"""The bill of materials of fabrics: what to order, what it costs, what drives that.

Ports close before anything is priced: a fabric whose cable ends have no home has no bill.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from msgspec import Struct

from netplan.answers.bill_columns import (
    GIVEN,
    NO_HIGH,
    each_and_all,
    given_mark,
    given_words,
    no_high,
    open_above,
    span_column,
    sum_range,
)
from netplan.answers.bill_comparison import BillComparison, compare_bills
from netplan.answers.screen_titles import (
    bought_lines,
    network_title,
    network_words,
    refused_notes,
    titled,
)
from netplan.answers.sites_bill import SitesBill
from netplan.costing.fabric_bill import Bill, FabricBill, RefusedFabric
from netplan.costing.materials import not_held
from netplan.costing.pricing import Driver, PricedItem, Quote, evidence_shares, evidence_words
from netplan.costing.ranges import Range
from netplan.decide.candidates import Basis, Candidate
from netplan.decide.verdict import Verdict, decide
from netplan.inputs.choices import Evidence
from netplan.records import replace, value_at
from netplan.reports import sections as show
from netplan.reports.answer import Answer
from netplan.reports.quantities import DASH, Cell, Quantity, Scale, listed, money, part_words
from netplan.reports.schema import plain_at, plain_data
from netplan.reports.screen import Screen, more_of, shares_of
from netplan.setup.inputs import hall_words, sites_words
from netplan.setup.money.pricing import (
    CASES,
    carbon_words,
    lacking_words,
    left_out_words,
    lowest_price_words,
)
from netplan.setup.money.run_cost import LEGEND, TokenCost, token_columns
from netplan.setup.money.step_cost import LEGEND as STEP_LEGEND
from netplan.setup.money.step_cost import Stepped, step_columns
from netplan.setup.served_plan import serving_words
from netplan.topologies.cliffs import Cliff
from netplan.topologies.fabric import Fabric

CARBON = "carbon_kg_per_year"
TRAINING = "training"
"""Name, in lists, of the network that trains."""


class Priced(Struct, frozen=True):
    """A fabric of the answer: its bill, and notes; the reason where it has no bill."""

    json_parts = (
        *("fabric=name", "bill.title", "ports_close", "cost_complete=bill.complete"),
        *("bill.power_complete", "media_given=bill.media_given?", "items", "cost=bill.amount"),
        *("bill.capital", "capital_per_gpu=bill.per_gpu", "bill.power_w"),
        *("bill.life.energy_kwh_per_year", "bill.life.energy_per_year", "bill.life.energy"),
        *("bill.life.annuity_per_year", "cost_per_year=bill.life.per_year"),
        *("cost_over_life=bill.life.total", "bill.life", "drivers=bill.drivers.*", "evidence"),
        *("inside_hb_domains", "unpriced=bill.quote.unpriced.*.title"),
        *("power_unknown=bill.draw.unknown.*.title", "notes"),
    )

    name: str
    notes: tuple[str, ...]
    bill: FabricBill | None

    @property
    def ports_close(self) -> bool:
        """Whether all cable ends have a home, so that there is a bill."""
        return self.bill is not None

    @property
    def items(self) -> list[dict[str, Any]]:
        """Lines of the bill, as JSON."""
        return [_item_dict(item) for item in self.bill.quote.items] if self.bill else []

    @property
    def evidence(self) -> Mapping[Evidence, float]:
        """What the price is made of: shares by class [1]."""
        return evidence_shares(self.bill.quote) if self.bill else {}

    @property
    def inside_hb_domains(self) -> dict[str, Any] | None:
        """The gear inside HB domains as JSON: a sum of its own, in the cost only if ``counted``."""
        if self.bill is None:
            return None
        inside = self.bill.inside
        return {
            "counted": self.bill.gear_counted,
            "in_server": not inside.bought,
            "complete": inside.known,
            "cost": inside.quote.total.in_currency(inside.quote.currency),
            "in_servers_price": inside.in_server,
            "power_w": inside.power,
            "items": [_item_dict(item) for item in inside.quote.items],
            "notes": inside.notes,
        }


class FabricTokens(NamedTuple):
    """A fabric of the answer, and how it serves."""

    fabric: str
    served: TokenCost


class FabricSteps(NamedTuple):
    """A fabric of the answer, and how it does a step of post-training."""

    fabric: str
    stepped: Stepped


@dataclass(frozen=True, slots=True, repr=False)
class CostAnswer(Answer):
    """The answer of :func:`netplan.cost`."""

    json_parts = (
        *("currency", "fabrics", "comparisons", "price_cliffs", "left_out", "verdict.decision"),
    )

    inputs: dict[str, Any]
    currency: str
    bills: tuple[FabricBill, ...]
    refused: tuple[RefusedFabric, ...]
    served: tuple[FabricTokens, ...] = ()
    """How fabrics serve, if that is asked."""

    told: tuple[str, ...] = ()
    unsold: Mapping[str, str] = field(default_factory=dict)
    """Fabrics that nobody sells for the accelerator, and why not, in words."""

    gpu_hour: float | None = None  # what an hour of one GPU is worth, if that is known
    cliffs: Callable[[Iterable[Fabric]], tuple[Cliff, ...]] | None = None
    """Sizes beside that need far fewer switches, counted when somebody reads it."""

    in_sites: Mapping[str, SitesBill] = field(default_factory=dict)
    """Where the network lies in several sites, what these and one larger one cost, by fabric."""

    stepped: tuple[FabricSteps, ...] = ()
    """How fabrics do a step of post-training, and what that costs, if that is asked."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the bills do not hold."""
        memory = bool(self.inputs["expanded_memory"])
        cards, installed = self.inputs["cards"], all(bill.installed for bill in self.bills)
        return not_held(self.inputs["networks"], memory=memory, cards=cards, installed=installed)

    @property
    def rows(self) -> tuple[Priced, ...]:
        """All fabrics, those without a bill last."""
        refused = (Priced(fabric.name, (fabric.reason,), None) for fabric in self.refused)
        return (*(Priced(bill.name, bill.notes, bill) for bill in self.bills), *refused)

    @property
    def scale(self) -> Scale:
        """Scale of all amounts, by the dearest fabric."""
        return Scale.of(max(bill.capital.base for bill in self.bills), self.currency)

    @property
    def comparisons(self) -> tuple[BillComparison, ...]:
        """The fabric of the lowest base price against each of the others.

        Those without a price for what sets them apart are compared only if none has it.
        """
        whole = [bill for bill in self._ruled if not bill.unpriced_apart] or self._ruled
        ranked = sorted(whole, key=lambda bill: bill.rank)
        return tuple(compare_bills(ranked[0], other) for other in ranked[1:])

    @property
    def _ruled(self) -> Sequence[FabricBill]:
        """Bills of fabrics whose media follow the rule that all others follow, not their file."""
        return [bill for bill in self.bills if not bill.media_given]

    @property
    def _bought(self) -> Sequence[FabricBill]:
        """Bills of fabrics that somebody sells; all where nobody sells any."""
        return [bill for bill in self._ruled if bill.name not in self.unsold] or self._ruled

    @property
    def _unsold_words(self) -> Iterator[str]:
        """Which of the fabrics no maker sells, and so does not win."""
        names = [bill.name for bill in self.bills if bill.name in self.unsold]
        if names:
            apart = "Not in the verdict: " if len(names) < len(self.bills) else ""
            yield f"{apart}{listed(names)}, {self.unsold[names[0]]}."

    @property
    def statements(self) -> list[str]:
        """One sentence on every fabric dearer than the cheapest: what would turn that round.

        Where a main part has no price, the price that it may have.
        """
        whole = [bill for bill in self._ruled if not bill.unpriced_apart]
        if not whole:
            return lowest_price_words(self._ruled, self.currency) if self._ruled else []
        best = min(whole, key=lambda bill: bill.rank)
        sentences = [comparison.what_turns(self.currency) for comparison in self.comparisons]
        lacking = (bill for bill in self._ruled if bill.unpriced_apart)
        sentences += (left_out_words(bill, best, self.currency) for bill in lacking)
        return sentences

    @property
    def price_cliffs(self) -> tuple[Cliff, ...]:
        """Fabrics of which a size beside needs far fewer switches."""
        return self.cliffs(bill.fabric for bill in self.bills) if self.cliffs else ()

    @property
    def verdict(self) -> Verdict | None:
        """Which bill is the lowest, or which may be at prices of the book."""
        candidates = [
            Candidate(bill.name, bill.capital.base, bill.complete, inf, None, 0.0, bill=bill)
            for bill in self._bought
        ]
        return decide(candidates, Basis("price", 0.0, None, self.scale))

    @property
    def fabrics(self) -> list[dict[str, Any]]:
        """Fabrics as JSON, with what tokens, or a step, cost on them, and their sites."""
        runs = dict(self.served) | dict(self.stepped)
        return [
            plain_data(row)
            | {"gpu_hour": self.gpu_hour}
            | plain_at(
                {"run": runs.get(row.name), "in_sites": self.in_sites.get(row.name)},
                *("*run", "?in_sites"),
            )
            for row in self.rows
        ]

    def _sites_words(self, bill: FabricBill) -> str:
        """The sites of a fabric, what these cost, and what one larger site would."""
        return f"{sites_words(self.inputs)}: {self.in_sites[bill.name].whole_words()}"

    def summary(self) -> Iterator[show.Section]:
        """What costs least and why, totals of all fabrics or the bill of one, what is missing."""
        heading = self._heading()
        title = titled(self.inputs, f"the bill of {network_words(self.inputs)}")
        several = len(self.rows) > 1
        table = self._short_totals() if several else bill_table(self.bills[0], self.scale, "")
        if not several:  # what costs most first, since a screen shows but a few lines
            rows = sorted(table.rows, key=lambda row: -row.total.base if row.total else 0.0)
            table = replace(table, rows=rows)
        details = "bills, what drives them" if several else "what drives it, its years of use"
        yield from Screen(
            replace(heading, title=title),
            tuple(self._verdict()),
            table,
            tuple(self._remarks()),
            more_of(details, "-o bill.xlsx"),
        ).sections()

    def in_a_line(self) -> str:
        """What costs least, and how much."""
        best = self._ranked[0]
        least = "≥ " if best.quote.unpriced else ""
        cheapest = " cheapest" if len(self.bills) > 1 else ""
        return f"{best.name}{cheapest}, {least}{money(best.capital.base, self.currency)}"

    @property
    def _ranked(self) -> list[FabricBill]:
        """Bills by price; last those without a price for what sets them apart, or unsold."""
        bought = [bill.name for bill in self._bought]
        return sorted(self.bills, key=lambda bill: (bill.name not in bought, *bill.rank))

    def _verdict(self) -> Iterator[str]:
        """What costs least, how much less than the next, and what turns that round."""
        best, *others = self._ranked
        price = self.scale.amount(best.capital.base)
        span = sum_range(self.scale, best.capital, best)
        least = "≥ " if best.quote.unpriced else ""
        priced = f"{least}{price}" + ("" if span == DASH else f" ({span})")
        if best.cost is None:
            yield f"{best.name} has no price: the book lacks {lacking_words(best)}."
        elif not others:
            yield f"{best.name} costs {priced}, {least}{best.per_gpu.base:,.0f} a GPU."
            if carbon := carbon_words(best, self.inputs):
                yield f"{carbon}."
        elif best.media_given:
            yield f"None is recommended: {GIVEN}."
        elif best.unpriced_apart:
            yield from self.statements[:1]
        else:
            yield from self._least(f"{best.name} costs least: {priced}, {self._less_than_next}")
        yield from self._step_words() if self.stepped else ()
        yield from self._unsold_words
        yield from given_words(self.bills)

    def _least(self, words: str) -> Iterator[str]:
        """The lowest bill, at which prices it is that, and what turns it round."""
        verdict = self.verdict
        if verdict is None or verdict.tied:
            names = listed(verdict.tied if verdict else ())
            margin = verdict.decision.margin_money if verdict else None
            why = " by less than 1 %" if margin and margin.low > 0 else " within the book"
            yield f"{words}, at base prices. Undecided{why}: ask for offers on {names}."
        else:
            yield f"{words}, at every price of the book."
        pair = [bill.name for bill in self._ranked[:2]]
        turns = (turn for turn in self.comparisons if [turn.cheaper, turn.dearer] == pair)
        yield from (turn.in_short(self.currency) for turn in turns)

    @property
    def _less_than_next(self) -> str:
        """How much less the cheapest costs than the next of those that have a price."""
        best, *others = self._ranked[: len(self._bought)]
        if not others or others[0].unpriced_apart:
            given = any(bill.media_given for bill in self.bills)
            only = "of the verdict" if given else "that is sold"
            alone = f"the only one {only}" if len(self._bought) == 1 else ""
            return alone or "no other has a whole price"
        following = others[0]
        prices = best.capital.base, following.capital.base
        if prices[0] == prices[1]:
            return f"as much as {following.name}"
        less = self.scale.amount(self.scale.apart(*prices) or prices[1] - prices[0])
        share = 1 - best.capital.base / following.capital.base if following.capital.base else 0.0
        return f"{less} ({100 * share:.0f} %) less than {following.name}"

    def _step_words(self) -> Iterator[str]:
        """What a step and a run cost on the fabric of the lowest bill."""
        from netplan.setup.post_training_words import least

        best = self._ranked[0].name
        rows = [row for row in self.stepped if row[0] == best] or self.stepped[:1]
        for name, stepped in rows:
            yield f"A step on {name} takes {least(stepped.trained)}. {stepped.price.words}"

    def _short_totals(self) -> show.Table[Priced]:
        """Price, power and yearly cost of every fabric, the cheapest first."""
        totals, scale = self._totals(), self.scale
        present = scale.of_money("present_value", f"{self.inputs['years']:g} years")
        whole = amount_column(present, "life.present_value.base")
        by_name = {row.name: row for row in self.rows}
        rows = [by_name[bill.name] for bill in self._ranked]
        legend = (
            f"{present.title}: price, energy and upkeep at present value.",
            *totals.legend[1:],
        )
        shown = show.shown_in("narrow", totals.columns)
        best = rows[0].name
        return replace(
            totals,
            columns=(*shown, whole),
            rows=rows,
            legend=legend,
            chosen=lambda row: row.name == best,
        )

    def _remarks(self) -> Iterator[str]:
        """What the price is made of, what moves it, what is missing."""
        best, scale = self._ranked[0], self.scale
        parts = [(part_words(driver.part), driver.amount) for driver in best.drivers]
        if best.name in self.in_sites:
            yield f"{best.name} in {self._sites_words(best)}."
        yield from (cliff.sentence for cliff in self.price_cliffs[:1])
        if shares := shares_of(parts, best.capital.base):
            made_of = evidence_words(best.quote)
            yield f"Of the price of {best.name}: {shares}{made_of and f'; {made_of}'}."
        if best.drivers and best.drivers[0].swing:
            first = best.drivers[0]
            ends = " to ".join(map(scale.number, (first.at_low, first.at_high)))
            yield f"What moves it most: {part_words(first.part)}, {ends} {scale.title}."
        if len(self.rows) > 1 and (carbon := carbon_words(best, self.inputs)):
            yield f"{carbon}, by {best.name}."
        for name, served in self.served:
            yield f"{name}: {served.in_words(self.currency)}."
        if self.stepped:
            from netplan.answers.post_training_words import basis_words

            yield basis_words(self.stepped[0][1].trained)
        if lacking := list(dict.fromkeys(line.title for line in best.quote.unpriced)):
            yield f"No price is known of: {listed(lacking)}."
        yield from (f"{row.name} has no bill: {row.reason}" for row in self.refused)
        yield inside_words(best, scale)
        yield f"Not on the bill: {'; '.join(self.left_out)}."

    def sections(self) -> Iterator[show.Section]:
        """Totals, what to order, what drives the price, what is left out, notes."""
        yield self._heading()
        lines = [BillRow.of(bill, item) for bill in self.bills for item in bill.quote.items]
        yield show.Table("items", ITEM_DATA, lines, shown="data")
        yield self._totals()
        yield years_table(self.inputs, self.bills, self.scale)
        if self.served:
            shown = [show.column("fabric"), *token_columns(self.currency)]
            yield show.Table("tokens", shown, self.served, serving_words(self.inputs), (LEGEND,))
        if self.stepped:
            shown = [show.column("fabric"), *step_columns(self.currency)]
            from netplan.answers.post_training_words import step_inputs_words

            title = step_inputs_words(self.inputs)
            yield show.Table("steps", shown, self.stepped, title, (STEP_LEGEND,))
        for bill in self.bills:
            yield bill_table(bill, self.scale, f"{bill.name}: what to order")
            if bill.inside.bought and not bill.gear_counted:
                title = f"{bill.name}: inside HB domains, not in its price"
                yield bill_table(bill, self.scale, title, bill.inside.quote)
        yield from self._drivers()
        for bill in self.bills if self.in_sites else ():
            yield show.Paragraph(f"{bill.name} in {self._sites_words(bill)}.")
        yield from map(show.Paragraph, self._unsold_words)
        for statement in self.statements:
            yield show.Paragraph(statement, "strong")
        yield from (show.Paragraph(cliff.sentence) for cliff in self.price_cliffs)
        if carbon := carbon_words(self._ranked[0], self.inputs):
            yield show.Paragraph(f"{carbon}, by {self._ranked[0].name}.")
        yield show.Paragraph(f"Not on the bill: {'; '.join(self.left_out)}.")
        yield refused_notes(
            ((bill.name, bill.notes) for bill in self.bills), self.refused, self.told
        )

    def xlsx(
        self, tables: Sequence[show.Data] = (), order: tuple[str, tuple[str, ...]] | None = None
    ) -> bytes:
        """A spreadsheet with live formulas: change a price, and all totals follow.

        Parameters
        ----------
        tables
            More tables, a sheet each.
        order
            Fabric whose bill stands first, and sentences on it; the cheapest where none is given.
        """
        from netplan.answers.cost_xlsx import Order, cost_xlsx

        notes = (
            *(("Break-even", statement) for statement in self.statements),
            *((row.name, note) for row in self.rows for note in row.notes),
            *(("Not on the bill", item) for item in self.left_out),
        )
        name, sentences = order or (self._ranked[0].name, tuple(self._verdict()))
        bill = next(bill for bill in self.bills if bill.name == name)
        title = f"{name}: {network_words(self.inputs)}"
        first = Order(bill, title, sentences)
        return cost_xlsx(self.inputs, self.currency, self.bills, notes, tables, order=first)

    def _heading(self) -> show.Heading:
        inputs = self.inputs
        less = f" less {100 * inputs['discount']:g} %" if inputs["discount"] else ""
        prices = inputs["prices"]
        books = (
            f"prices {prices}{less} in {self.currency}, power {inputs['power']}"
            f"{hall_words(inputs)};"
            f" {inputs['years']} years, PUE {inputs['pue']:.4g}, {inputs['tariff_per_kwh']:.4g}"
            f" {self.currency}/kWh, {100 * inputs['interest']:.3g} % interest"
        )
        title = network_title(f"Bill of materials for {inputs['gpus']:,}", inputs)
        lines = (books, *bought_lines(inputs, self.currency))
        return show.Heading(f"{title}, {inputs['link_gbps']:g} Gb/s", lines)

    def _totals(self) -> show.Table[Priced]:
        """Price, power and yearly cost of every fabric."""
        scale, per_gpu_title = self.scale, f"{self.currency}/GPU"
        energy = scale.of_money("energy_per_year", "energy/year")
        year = scale.of_money("cost_per_year", "cost/year")
        life = scale.of_money("cost_over_life", "cost over life")
        span = "low-high/year"
        columns: list[show.Column[Priced]] = [
            show.column("fabric", "name", mark=lambda row: given_mark(row.bill)),
            show.column("currency", lambda _: self.currency, shown="data"),
            amount_column(scale.of_money("cost_base"), "capital.base"),
            span_column("bill.capital", scale, unbound=no_high),
            *show.columns("cost_complete=complete", "power_complete", of="bill", shown="data"),
            *show.columns("cost_low=low", "cost_high=high", of="bill.cost", shown="data"),
            amount_column("cost_per_gpu", "per_gpu.base", title=per_gpu_title),
            amount_column("power_w", "power_w"),
            amount_column(year, "life.per_year.base"),
            span_column("bill.life.per_year", scale, span, shown="wide people", unbound=no_high),
            amount_column(energy, "life.energy_per_year.base", shown="wide"),
            amount_column(life, "life.total.base", shown="wide"),
            amount_column(CARBON, f"life.{CARBON}.base", shown="wide"),
            *(
                amount_column(f"{CARBON}_{end}", f"life.{CARBON}.{end}", shown="data")
                for end in ("low", "high")
            ),
        ]
        amounts = f"Amounts a year and over life in {scale.title}"
        yearly = "annuity of the price, and energy, no upkeep; over life: of all years"
        legend = [f"{amounts}; cost/year: {yearly}."]
        if any(bill.quote.unpriced or bill.draw.unknown for bill in self.bills):
            legend.append("≥: lines without a price, or a power, in the books are not in the sum.")
        if any(bill.media_given for bill in self.bills):
            legend.append(f"†: {GIVEN}.")
        if any(bill.capital.spread and open_above(bill) for bill in self.bills):
            legend.append(NO_HIGH)
        return show.Table("fabrics", columns, self.rows, legend=tuple(legend))

    def _drivers(self) -> Iterator[show.Section]:
        """Tornado: each part alone at its low and high price, the largest swing first."""
        scale, money = self.scale, self.scale.of_money
        columns: list[show.Column[tuple[FabricBill, Driver]]] = [
            show.column("fabric", "0.name"),
            show.column("part", lambda row: part_words(row[1].part), title="Part", form="prose"),
            show.column(
                "share", lambda row: row[1].amount / (row[0].capital.base or 1.0), title="of price"
            ),
            show.column(money("at_low", "total at low"), "1.at_low", mark=_unstated("low")),
            show.column(money("at_high", "at high"), "1.at_high", mark=_unstated("high")),
        ]
        swing, stated = money("swing", "swing"), show.columns("stated", of="1", shown="data")
        data = [*columns, show.column(swing, "1.swing"), *stated]
        seen = [*columns, show.column(swing, lambda row: _seen(row[1], scale))]
        rows = [(bill, driver) for bill in self.bills for driver in bill.drivers]
        first = [(bill, driver) for bill in self.bills for driver in bill.drivers[:DRIVERS_SHOWN]]
        title = f"What drives the price: one part at its low and high, in {self.scale.title}"
        yield show.Table("drivers", data, rows, shown="data")
        if any(driver.swing for _, driver in rows):
            legend = (NO_SPREAD,) if any(driver.stated != BOTH_ENDS for _, driver in first) else ()
            yield show.Table("drivers", seen, first, title, legend, shown="people")


def years_table(
    inputs: Mapping[str, Any], bills: Sequence[FabricBill], scale: Scale
) -> show.Table[FabricBill]:
    """Present value of all that a fabric costs in its years of use, part by part."""
    parts = ("energy", "cooling", "maintenance", "support", "spares")
    titles = {"maintenance": "maint."}
    present: list[show.Column[FabricBill]] = [
        amount_column(
            scale.of_money(f"{part}_present_value", titles.get(part, part)),
            f"life.present.{part}.base",
        )
        for part in parts
    ]
    columns: list[show.Column[FabricBill]] = [
        show.column("fabric", "name"),
        amount_column(scale.of_money("capital", "price"), "life.capital.base", shown="wide"),
        *present,
        amount_column(scale.of_money("present_value", "total"), "life.present_value.base"),
        span_column("life.present_value", scale, shown="wide people", unbound=no_high),
        amount_column(scale.of_money("paid", "undiscounted"), "life.paid.base", shown="wide"),
    ]
    shares = ("maintenance", "support", "yearly_spares")
    upkeep = ", ".join(f"{share.split('_')[-1]} {100 * inputs[share]:.3g} %" for share in shares)
    paid = "total: the price, paid at the start, and each year's cost, paid at its end"
    cooled = f"Energy holds cooling, {100 * inputs['cooling']:.3g} % of the equipment's."
    legend = (
        f"Present value at {100 * inputs['interest']:.3g} %; {paid}.",
        f"Of the price, each year: {upkeep}. {cooled}",
    )
    title = f"Total cost over {inputs['years']} years, in {scale.title}"
    return show.Table("years", columns, bills, title, legend)


DRIVERS_SHOWN = 8
BOTH_ENDS = "low and high"
NO_SPREAD = "?: the book has no such price for this part, which stands at base."


def _seen(driver: Driver, scale: Scale) -> float:
    """Difference of the totals as they are rounded: people add up what they see."""
    low, high = (round(end / scale.factor, scale.digits) for end in (driver.at_low, driver.at_high))
    return (high - low) * scale.factor


def _unstated(end: str) -> Callable[[tuple[FabricBill, Driver]], tuple[str, str]]:
    """The sign of a total at an end that the price of the part does not have."""
    return lambda row: ("", "" if end in row[1].stated else "?")


class BillRow(NamedTuple):
    """One line of a bill, or its total."""

    fabric: str
    currency: str
    item: str
    total: Range | None
    each: Range | None = None
    priced: PricedItem | None = None

    @classmethod
    def of(cls, bill: FabricBill, item: PricedItem) -> "BillRow":
        """A line of a bill."""
        total, unit_price = (item.total, item.unit_price) if item.price else (None, None)
        return cls(bill.name, bill.quote.currency, item.line.item, total, unit_price, item)


def inside_words(bill: Bill, scale: Scale) -> str:
    """What the gear inside HB domains costs, and whether that is in the price.

    Examples
    --------
    >>> from netplan.questions.cost import cost
    >>> bill = cost("nvl72-gb200", gpus=1152, fabrics=("rail-only",)).bills[0]
    >>> inside_words(bill, Scale(1e6, "M USD", 1))
    'Inside HB domains of 72: 8.4 M USD (6.1-10.6), derived, not in these sums (--with hb-gear).'
    """
    inside, size = bill.inside, bill.fabric.sizing.hb_size
    if not inside.bought:
        return f"Inside HB domains of {size:,}: in the servers' price."
    where = "in these sums" if bill.gear_counted else "not in these sums (--with hb-gear)"
    if not inside.known:
        return f"Inside HB domains of {size:,}: gear without a price, {where}."
    total = inside.quote.total
    trusts = listed(list(dict.fromkeys(item.trust for item in inside.quote.items)))
    return (
        f"Inside HB domains of {size:,}: {scale.amount(total.base)}"
        f" ({scale.span(total.low, total.high)}), {trusts}, {where}."
    )


def bill_table(
    bill: FabricBill, scale: Scale, title: str, quote: Quote | None = None, *, places: bool = False
) -> show.Table[BillRow]:
    """What to order for one fabric, and where it goes; for people, its total is the last row.

    ``quote`` stands for the bill's own, such as that of the gear inside HB domains.
    """
    total = bill.capital if quote is None else quote.total
    quote = bill.quote if quote is None else quote
    spared = any(item.line.spares for item in quote.items)
    numbered = any(item.line.part_number for item in quote.items)
    columns: list[show.Column[BillRow]] = [
        show.column("item"),
        show.column("specification", _place if places else _line("specification"), shown="wide"),
        *([show.column("part_number", _line("part_number"), shown="wide")] if numbered else []),
        show.column("order", _line("order")),
        *([show.column("spares", _line("spares"))] if spared else []),
        show.column("unit", _line("unit"), form="code"),
        show.column(
            "unit_price_base",
            lambda row: row.each.base if row.each else "no price" if row.priced else "",
        ),
        show.column(
            scale.of_money("total_base"),
            lambda row: row.total.base if row.total else "",
            mark=lambda row: ("≥ " if not row.priced and quote.unpriced else "", ""),
        ),
        span_column("total", scale, none="", unbound=lambda row: _line_unbound(bill, row)),
    ]
    return show.Table(
        f"bill of {bill.name}",
        columns,
        [BillRow.of(bill, item) for item in quote.items],
        title=title,
        closing=(BillRow(bill.name, quote.currency, "Total", total),),
        part=_network_of,
        shown="people",
    )


def _line_unbound(bill: FabricBill, row: "BillRow") -> bool:
    """Whether a line, or the total of a bill, has no known high."""
    if row.priced is None:
        return open_above(bill)
    return row.priced.price is not None and row.priced.price.high is None


def _network_of(row: BillRow) -> str:
    """The network beside that a line is for."""
    network = row.priced.line.network if row.priced else ""
    return f"{network} network" if network else ""


OF_BOTH = ("life.per_year.base", "life.total.base", "life.present_value.base", "life.paid.base")
"""Amounts of price and energy, which lack what either lacks."""


def amount_column(named: str | Quantity, path: str, **facts: Any) -> show.Column[Any]:  # noqa: ANN401
    """An amount at a path of bills: none where nothing of it is known, ≥ where some lines lack it.

    ``facts`` are those of :func:`netplan.reports.sections.column`.
    """
    powered = any(word in path for word in ("power", "energy", "cooling", "carbon"))

    def look(row: Any) -> tuple[Cell, tuple[str, str]]:  # noqa: ANN401 - a bill, or what has one
        bill = getattr(row, "bill", row)
        if bill is None or not (bill.draw.known if powered else bill.cost):
            return None, ("", "")
        lacking = bill.draw.unknown if powered else bill.quote.unpriced
        if path in OF_BOTH:
            lacking = (*bill.quote.unpriced, *bill.draw.unknown)
        return value_at(bill, path), ("≥ " if lacking else "", "")

    return show.column(named, lambda row: look(row)[0], mark=lambda row: look(row)[1], **facts)


def _line(name: str) -> Callable[[BillRow], Cell]:
    """A fact of the line; nothing for the total."""
    return lambda row: getattr(row.priced.line, name) if row.priced else ""


def _place(row: BillRow) -> Cell:
    """What it is, and where it goes."""
    line = row.priced.line if row.priced else None
    return "; ".join([line.specification, *line.notes]) if line else ""


ITEM_DATA: tuple[show.Column[BillRow], ...] = (
    *show.columns("fabric", "currency"),
    *show.columns("category", "item", "specification", "part_number", of="priced.line"),
    show.column("accepted", lambda row: ", ".join(row.priced.line.accepted) if row.priced else ""),
    *show.columns("quantity", "spares", "order", "unit", of="priced.line"),
    show.column("network", lambda row: row.priced.line.network or TRAINING if row.priced else None),
    *(show.column(f"unit_price_{case}", f"each.{case}") for case in CASES),
    *(show.column(f"total_{case}", f"total.{case}") for case in CASES),
    *(
        show.column(f"price_{key}", f"priced.price.{key}")
        for key in ("date", "confidence", "source")
    ),
    show.column("price_trust", lambda row: row.priced.trust if row.priced else ""),
    show.column("price_evidence", "priced.price.evidence"),
    show.column("notes", lambda row: "; ".join(row.priced.line.notes) if row.priced else ""),
)


def _item_dict(item: PricedItem) -> dict[str, Any]:
    return {
        "network": item.line.network or TRAINING,
        **plain_at(item, *OF_LINES, "price_part=what", "price_units"),
        **each_and_all(item),
        **plain_at(item, *(f"price_{key}=price.{key}" for key in ("date", "source", "confidence"))),
        "price_trust": item.trust or None,
        "price_evidence": item.price.evidence if item.price else None,
        "notes": list(item.line.notes),
    }


OF_LINES = (
    *("line.category", "line.item", "line.specification", "line.part_number", "line.accepted"),
    *("line.quantity", "line.spares", "line.order", "line.unit"),
)

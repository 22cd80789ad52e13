"""What a comparison answers: one row a fabric, the tables they make, the verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from msgspec import Struct

from netplan.costing.fabric_bill import Bill, BillBooks
from netplan.costing.lifetime import lifetime
from netplan.costing.materials import CARDS_INCLUDED, CARDS_LEFT_OUT, BillItem
from netplan.costing.pricing import books_in_use
from netplan.costing.ranges import Range
from netplan.performance.search import PlanTime, SearchResult
from netplan.questions.answers.barred import barred_columns
from netplan.questions.answers.cost_answer import NO_HIGH, no_high, open_above, ordered, span_column
from netplan.questions.answers.plan_notes import plan_notes
from netplan.questions.answers.serving_answer import serving_words
from netplan.questions.choosing.candidates import Basis, Candidate
from netplan.questions.choosing.memory_or_gpus import Trade
from netplan.questions.choosing.verdict import Probe, Terms, Verdict, decide
from netplan.questions.money.pricing import CASES
from netplan.questions.money.run_cost import RunCost, run_cost
from netplan.questions.money.token_cost import LEGEND, Served, cheapest, token_columns
from netplan.questions.setup.expanded_memory import with_memory
from netplan.questions.setup.inputs import replaced_lines
from netplan.questions.setup.training import training_words
from netplan.records import asdict, replace
from netplan.reports.answer import Answer, answer_dict
from netplan.reports.quantities import Scale, listed
from netplan.reports.sections import (
    Column,
    Heading,
    Notes,
    Paragraph,
    Section,
    Shown,
    Table,
    column,
    columns,
    value_at,
    values_at,
)
from netplan.topologies.fabric import Fabric
from netplan.topologies.specs import FabricSpec

BASELINE = "rail-optimized"
PETA, MILLION = 1e15, 1e6
DOLLAR = "USD"
SAME_ON_ALL = {
    "nic_port": "network cards",
    "hb_gear": "gear inside HB domains",
    "fibre": "fibre cables",
    "rack": "racks",
}
"""Parts that may lack a price, since they set no fabric apart, in words."""


class FabricRow(Struct, frozen=True):
    """One fabric of a comparison; ``fabric`` is None where it cannot be built in this size."""

    name: str
    title: str
    notes: tuple[str, ...]
    fabric: Fabric | None = None
    bill: Bill | None = None
    cost_reduction: float | None = None
    timed: SearchResult | None = None
    built_with: tuple[str, ...] = ()
    """Accelerators of the product, if they are others than those asked for."""

    served: Served | None = None
    """How it serves, where that is asked."""

    memory: str = ""
    """Expanded memory behind that of each GPU, ``none``, or empty where nobody asked."""

    @property
    def label(self) -> str:
        """The fabric, with the expanded memory that it is bought with."""
        return with_memory(self.name, self.memory)

    @property
    def best(self) -> PlanTime | None:
        """The fastest plan and its time; None where none was found or asked for."""
        return self.timed.best if self.timed else None

    @property
    def cost(self) -> Range | None:
        """Price of network and expanded memory; None where nothing of them has a price."""
        return self.bill.cost if self.bill else None

    @property
    def memory_cost(self) -> Range | None:
        """Price of the expanded memory; None where it has none."""
        lacking = self.bill.quote.unpriced if self.bill else ()
        known = self.bill is not None and all(line.part != "memory" for line in lacking)
        return self.bill.memory if self.bill and known else None

    @property
    def power_w(self) -> float | None:
        """Typical power of the network; None where nothing of it is known [W]."""
        return self.bill.power_w if self.bill else None

    @property
    def cost_complete(self) -> bool:
        """Whether the price covers all that sets the fabrics apart.

        The first network port of each GPU is the same on every fabric and may be missing.
        """
        return self.bill is not None and self.bill.complete

    @property
    def count_status(self) -> str | None:
        """Whether its counts divide evenly."""
        return ("exact" if self.fabric.exact else "wireable") if self.fabric else None

    @property
    def cost_per_gpu(self) -> float | None:
        """Base price of the network for one GPU."""
        return self.cost.base / self.fabric.sizing.gpus if self.cost and self.fabric else None

    @property
    def time_s(self) -> float:
        """Iteration time; infinite without one [s]."""
        return self.best.iteration_time_s if self.best else inf

    @property
    def mfu(self) -> float | None:
        """Useful FLOPs over the peak of all GPUs bought, those that the plan leaves idle too."""
        if self.best is None or self.fabric is None:
            return None
        return self.best.mfu * self.best.plan.placement.cluster / self.fabric.sizing.gpus

    @property
    def effective_flops_per_s(self) -> float | None:
        """Useful FLOP/s of the whole training run: MFU times the peak of its GPUs [FLOP/s]."""
        if self.best is None or self.timed is None:
            return None
        peak = self.timed.settings[0].training.flops_per_s
        return self.best.mfu * self.best.plan.placement.cluster * peak

    @property
    def cost_per_effective_pflops(self) -> float | None:
        """Base price of the network per useful 10^15 FLOP/s [currency / (PFLOP/s)]."""
        useful = self.effective_flops_per_s
        return self.cost.base / (useful / PETA) if self.cost and useful else None

    def candidate(self, terms: Terms | None) -> Candidate:
        """The row as the verdict sees it."""
        bill = self.bill
        return Candidate(
            name=self.label,
            price=self.cost.base if self.cost else 0.0,
            complete=self.cost_complete,
            time_s=self.time_s,
            life=lifetime(bill.capital, bill.draw.typical_w, terms.running)
            if bill and terms
            else None,
            gpu_bytes_per_s=self.fabric.gpu_bytes_per_s if self.fabric else 0.0,
            lacking=self.bill is not None and bool(self.bill.unpriced_apart),
            direct=self.fabric is not None and self.fabric.network == "direct",
            built_with=self.built_with,
            timed=self.best,
            gear=bill.gear if bill else 0.0,
            geared=bill is None or bill.geared,
        )

    def run(self, terms: Terms | None) -> RunCost | None:
        """What a training run on it costs; None without a bill, a time, or terms."""
        if self.bill is None or self.best is None or terms is None:
            return None
        return run_cost(self.bill, self.time_s, terms)

    def _speed(self, currency: str) -> dict[str, Any]:
        """How fast it trains, or serves, by which plan, in JSON."""
        best = self.best
        return {
            **values_at(self, "best.iteration_time_s", "mfu", "effective_flops_per_s"),
            **(best.known_bar if best else {}),
            **values_at(best, "memory_bytes", "breakdown_s"),
            "plan": best.plan.to_dict() if best else None,
            "gpus_used": value_at(best, "plan.gpus"),
            **(self.served.to_dict(currency) if self.served else {}),
        }

    def to_dict(self, currency: str = DOLLAR, terms: Terms | None = None) -> dict[str, Any]:
        """The row as the command line prints it in JSON; dollars where that is the currency."""
        fabric = self.fabric
        price = asdict(self.cost) if self.cost else None
        dollars = price if currency == DOLLAR else None
        memory, run = self.memory_cost, self.run(terms) if self.memory else None
        asked = {
            "expanded_memory": self.memory,
            "memory_cost": asdict(memory) if memory else None,
            "training_run": run.to_dict() if run else None,
        }
        return {
            "fabric": self.name,
            **(asked if self.memory else {}),
            "tiers": len(fabric.tiers) if fabric else None,
            "switches": value_at(fabric, "switches"),
            "links": value_at(fabric, "link_count"),
            **values_at(fabric, "transceivers", "copper_cables", "nic_ports", "spare_ports"),
            **{name: count(self) for name, count in ORDERED.items()},
            **values_at(fabric, "ports_per_gpu", "gpu_bytes_per_s"),
            "count_status": self.count_status,
            "switches_lower_bound": value_at(fabric, "switches_lower_bound"),
            "switch_tiers": [asdict(tier) for tier in fabric.tiers] if fabric else [],
            "link_groups": [asdict(group) for group in fabric.links] if fabric else [],
            "hb_size": value_at(fabric, "sizing.hb_size"),
            "cost": {"currency": currency, **price} if price else None,
            "cost_usd": dollars,
            "cost_per_gpu": self.cost_per_gpu,
            "cost_per_gpu_usd": self.cost_per_gpu if dollars else None,
            "cost_per_effective_pflops": self.cost_per_effective_pflops,
            "cost_per_effective_pflops_usd": self.cost_per_effective_pflops if dollars else None,
            **values_at(self, "cost_complete", "cost_reduction", "power_w"),
            **self._speed(currency),
            # Without the time of the search, which differs from run to run.
            "space": values_at(self.timed, "enumerated", "feasible") if self.timed else None,
            "levels": [level.to_dict() for level in fabric.levels] if fabric else [],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Answer):
    """The answer of :func:`netplan.compare`."""

    inputs: dict[str, Any]
    rows: tuple[FabricRow, ...]
    currency: str
    terms: Terms | None = None
    probe: Probe | None = None
    trades: tuple[Trade, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan compare --format json``."""
        verdict, trades = self.verdict, [trade.to_dict() for trade in self.trades]
        return answer_dict(
            self.inputs,
            currency=self.currency,
            fabrics=[row.to_dict(self.currency, self.terms) for row in self.rows],
            verdict=verdict.to_dict() if verdict else None,
            **({"memory_or_gpus": trades} if trades else {}),
        )

    def sections(self) -> Iterator[Section]:
        """Heading, the network, the training run, the verdict, notes."""
        yield self._heading()
        legend = tuple(self._legend())
        verdict = self.verdict
        best = verdict.fabric if verdict else None
        rows, chosen = self.rows, lambda row: row.label == best
        yield Table("fabrics", list(self._network()), rows, legend=legend, chosen=chosen)
        if self.serves:
            told = [*self._names(), *token_columns(self.currency)]
            yield Table("fabrics", told, self.rows, legend=(LEGEND,))
        elif self.inputs["timing"]:
            interleaved = any(row.best.plan.interleave > 1 for row in self.rows if row.best)
            timed = next((row.timed for row in self.rows if row.timed), None)
            shown = plan_columns(timed, interleaved=interleaved)
            for part in PARTS:
                name = f"breakdown_s.{part}"
                shown.append(time_column(name, f"best.{name}", timed, "wide"))
            shown += self._further_parts()
            yield Table("fabrics", [*self._names(), *shown, *TRAINING], self.rows)
        yield Table("fabrics", NOTES, self.rows, only="programs")
        if verdict:
            yield Paragraph(verdict.sentence, "strong")
            said = " ".join(change.sentence for change in verdict.changes)
            yield Paragraph(f"Rule: {verdict.rule}.{' ' if said else ''}{said}")
        yield from (Paragraph(trade.sentence, "strong") for trade in self.trades)
        yield Notes.of(((row.label, row.notes) for row in self.rows), "all fabrics")

    @property
    def serves(self) -> bool:
        """Whether the fabrics serve."""
        return self.inputs.get("workload") == "serving"

    def _heading(self) -> Heading:
        inputs = self.inputs
        quotes = (row.bill.quote for row in self.rows if row.bill)
        prices = books_in_use(str(inputs["prices"]), quotes)
        books = f"prices {prices}, power {inputs['power']}"
        if self.serves:
            books += f"; {serving_words(inputs)}"
        elif inputs["timing"]:
            books += f"; {training_words(inputs)}"
        return Heading(
            f"Networks for {inputs['gpus']:,} GPUs in HB domains of {inputs['hb_size']:,}:"
            f" switches of {inputs['radix']} ports, {inputs['link_gbps']:g} Gb/s",
            (books, *replaced_lines(inputs, self.currency)),
        )

    def _names(self) -> Iterator[Column[FabricRow]]:
        """What tells a row from others."""
        yield NAME
        if self.inputs["expanded_memories"]:
            yield column("expanded_memory", "memory")

    def _further_parts(self) -> Iterator[Column[FabricRow]]:
        """Parts of the time that only some iteration models tell apart, so that all sum to it."""
        times = [row.best.breakdown_s for row in self.rows if row.best]
        for part in dict.fromkeys(part for one in times for part in one):
            if part not in (*PARTS, *HIDDEN_PARTS):
                long = part in LONG_PARTS and any(one.get(part) for one in times)
                name = f"breakdown_s.{part}"
                yield column(name, f"best.{name}", shown="wide" if long else "never")

    def _network(self) -> Iterator[Column[FabricRow]]:
        """Columns of the network: counts, money, power."""
        yield from self._names()
        yield from COUNTS
        scale = self.scale
        yield column("currency", lambda _: self.currency, shown="never")
        yield column(scale.of_money("cost_base"), "cost.base", mark=_incomplete)
        if any(row.cost.spread for row in self.rows if row.cost):
            yield span_column("cost", replace(scale, digits=0), unbound=no_high)
        if self.inputs["expanded_memories"]:
            yield column(scale.of_money("memory_cost", "memory"), "memory_cost.base")
            runs = [run.total.base for row in self.rows if (run := row.run(self.terms))]
            paid = Scale.of(max(runs, default=MILLION), self.currency)
            yield column(
                paid.of_money("training_run_cost", f"run, {paid.title}"),
                self._run_cost,
                mark=self._incomplete_run,
            )
        yield column("cost_low", "cost.low", shown="never")
        yield column("cost_high", "cost.high", shown="never")
        yield column("cost_per_gpu", title=f"{self.currency}/GPU", shown="wide", mark=_incomplete)
        yield from dollar_columns(self.currency)
        yield column("cost_complete", shown="never")
        yield column("cost_reduction", mark=partial(_incomplete, sign="≤ "))
        yield column("power_w", mark=_unpowered)

    def _legend(self) -> Iterator[str]:
        """What the signs in the tables mean, those that occur."""
        rows = [row for row in self.rows if row.fabric]
        bills = [row.bill for row in rows if row.bill and row.cost]
        lacking = {line.part for bill in bills for line in bill.quote.unpriced}
        apart = [words for part, words in SAME_ON_ALL.items() if part in lacking]
        gear = SAME_ON_ALL["hb_gear"]
        if gear in apart and any(bill.gear for bill in bills):  # which other prices hold
            bare = listed([bill.name for bill in bills if not bill.geared])
            apart = [*(words for words in apart if words != gear), f"{gear} of {bare}"]
        apart += [CARDS_LEFT_OUT] if self.inputs.get("cards") == CARDS_INCLUDED else []
        absent = f" Not in the prices: {listed(apart)}." if apart else ""
        yield f"saves: against {BASELINE}.{absent}"
        if not all(row.fabric.exact for row in rows if row.fabric):
            yield "*: does not divide evenly; as built (the port lower bound is in the notes)."
        if any(bill.cost and bill.cost.spread and open_above(bill) for bill in bills):
            yield NO_HIGH
        if any(_incomplete(row)[0] or _unpowered(row)[0] for row in rows):
            yield "≥, ≤: parts without a price, or a power, are left out (see the notes)."

    def _run_cost(self, row: FabricRow) -> float | None:
        """What a training run on a row costs at base prices."""
        run = row.run(self.terms)
        return run.total.base if run else None

    def _incomplete_run(self, row: FabricRow) -> tuple[str, str]:
        """The sign of a training run on a network that has parts without a price."""
        run = row.run(self.terms)
        return ("" if run is None or run.complete else "≥ "), ""

    @property
    def verdict(self) -> Verdict | None:
        """What to buy, by the rule of the question; None where nothing can be compared."""
        if self.serves:
            return cheapest(
                [(row.label, row.served) for row in self.rows if not row.built_with], self.currency
            )
        return decide([row.candidate(self.terms) for row in self.rows], self.basis, self.probe)

    @property
    def basis(self) -> Basis:
        """What the verdict is decided by."""
        inputs = self.inputs
        run = self.terms.run(inputs["gpus"]) if self.terms else None
        bought = "network and memory" if any(inputs["expanded_memories"]) else "network"
        barred = any(row.best.error for row in self.rows if row.best)
        weighed = inputs["rule"], inputs["within"], run, self.scale
        return Basis(*weighed, inputs["timing"], bought, barred=barred)

    @property
    def scale(self) -> Scale:
        """Scale of all amounts, by the dearest fabric."""
        costs = (row.cost.base for row in self.rows if row.cost)
        return Scale.of(max(costs, default=MILLION), self.currency)


def _incomplete(row: FabricRow, sign: str = "≥ ") -> tuple[str, str]:
    """The sign of a price, or of what is saved, that leaves parts out."""
    return ("" if row.cost_complete or row.cost is None else sign), ""


def _uneven(row: FabricRow) -> tuple[str, str]:
    """The sign of counts that do not divide evenly."""
    return "", ("" if row.fabric is None or row.fabric.exact else "*")


def _unpowered(row: FabricRow) -> tuple[str, str]:
    """The sign of a power that leaves parts out."""
    known = row.bill if row.power_w is not None else None
    return ("≥ " if known and known.unpowered_apart else ""), ""


def dollar_columns(currency: str, row: str = "") -> Iterator[Column[Any]]:
    """Prices whose name says dollars, for programs; nothing in another currency."""
    if currency == DOLLAR:
        for case in CASES:
            yield column(f"cost_{case}_usd", f"{row}cost.{case}", shown="never")
        yield column("cost_per_gpu_usd", f"{row}cost_per_gpu", shown="never")


NAME: Column[FabricRow] = column("fabric", "name")
ORDERED = {
    "modules": ordered("transceiver"),
    "copper_ordered": ordered("copper_cable", "active_copper_cable"),
}
COUNTS: tuple[Column[FabricRow], ...] = (
    column("tiers", lambda row: len(row.fabric.tiers) if row.fabric else None, shown="wide"),
    column("switches", "fabric.switches", mark=_uneven),
    column("switches_lower_bound", "fabric.switches_lower_bound", shown="never"),
    column("count_status", shown="never"),
    column("spare_ports", "fabric.spare_ports", shown="wide"),
    column("links", "fabric.link_count", shown="wide"),
    column("copper_ordered", ORDERED["copper_ordered"], shown="wide"),
    column("copper_cables", "fabric.copper_cables", shown="never"),
    column("modules", ORDERED["modules"]),
    column("transceivers", "fabric.transceivers", shown="never"),
    column("nic_ports", "fabric.nic_ports", shown="never"),
    column("ports_per_gpu", "fabric.ports_per_gpu"),
    column("gpu_bytes_per_s", "fabric.gpu_bytes_per_s"),
)
PARTS = ("compute", "tensor_comm", "pipeline_comm", "data_comm", "bubble")
HIDDEN_PARTS = ("memory", "expert_comm")
LONG_PARTS = ("attention", "recompute")
DEGREES = ("tensor", "context", "expert", "pipeline", "data")


def plan_columns(
    timed: SearchResult | None, row: str = "", *, interleaved: bool = True
) -> list[Column[Any]]:
    """Time, memory and best plan of the timed fabric that stands at a path of each row.

    A plan that is the same on all GPUs, as that of the fabric that is ``timed`` first, shows the
    part of its time in which they exchange, and its grid, if it has one.
    """
    exchange = timed.exchange if timed else None
    found: list[Column[Any]] = [
        *_headline_columns(timed, row),
        column("gpus_used", f"{row}best.plan.gpus", title="GPUs"),
        column("memory_bytes", f"{row}best.memory_bytes"),
    ]
    if timed and timed.on_grid:
        found.append(column("grid", f"{row}best.plan.grid", data=False))
    if exchange:
        sent = time_column("exchange_s", f"{row}best.breakdown_s.{exchange}", timed)
        return [*found, sent, column("exchange_share", f"{row}best.shares.{exchange}")]
    return [
        *found,
        column("degrees", f"{row}best.plan.shape", data=False),
        column("schedule", f"{row}best.plan.schedule", data=False),
        column(
            "interleave",
            f"{row}best.plan.interleave",
            shown="always" if interleaved else "never",
        ),
    ]


def _headline_columns(timed: SearchResult | None, row: str) -> Iterator[Column[Any]]:
    """Iteration time and utilisation, with error bars if they have them."""
    if timed and timed.best.error:
        best, mfu = (partial(value_at, path=f"{row}{name}") for name in ("best", "mfu"))
        yield from barred_columns(best, mfu)
    else:
        yield time_column("iteration_time_s", f"{row}best.iteration_time_s", timed)
        yield column("mfu", f"{row}mfu")


def time_column(
    name: str, path: str, timed: SearchResult | None, shown: Shown = "always"
) -> Column[Any]:
    """A column of times of an iteration; that of a model without layers may be very short."""
    if timed and timed.exchange:
        return column(name, path, shown=shown, form="si", digits=4)
    return column(name, path, shown=shown)


TRAINING: tuple[Column[FabricRow], ...] = (
    *columns(*(f"breakdown_s.{part}" for part in HIDDEN_PARTS), of="best", shown="never"),
    *columns(*DEGREES, "microbatch", "microbatches", of="best.plan", shown="never"),
)
NOTES: tuple[Column[FabricRow], ...] = (column("notes", lambda row: " ".join(row.notes)),)


def priced_row(spec: FabricSpec, bill: Bill, books: BillBooks) -> FabricRow:
    """Row of a fabric with its bill, but no time yet."""
    notes = (*bill.fabric.notes, *bill.notes, *_priced_notes(bill, books))
    return FabricRow(spec.name, spec.title, notes, bill.fabric, bill)


def timed_row(row: FabricRow, found: SearchResult | str | None) -> FabricRow:
    """The row with its best plan, or with a note why there is none."""
    timed = found if isinstance(found, SearchResult) else None
    return replace(row, timed=timed, notes=(*row.notes, *_timing_notes(row, found)))


def _priced_notes(bill: Bill, books: BillBooks) -> list[str]:
    """What the books lack. One network port a GPU is the same on every fabric: not said here."""
    notes = [
        f"No {what} in {book} for {_parts(lines)}."
        for what, lines, book in (
            ("price", bill.unpriced_apart, books.prices.name),
            ("power", bill.unpowered_apart, books.power.name),
        )
        if lines
    ]
    if bill.fabric.sizing.domains == 1 and bill.complete and not bill.capital.base:
        notes.append(
            "All GPUs lie in one HB domain: there is no network between domains to pay for."
        )
    return notes


def _parts(lines: Sequence[BillItem]) -> str:
    """Parts with their numbers, cables of all lengths together."""
    counts: dict[str, int] = {}
    for line in lines:
        units = line.quantity * line.price_units
        counts[line.priced_as] = counts.get(line.priced_as, 0) + units
    return ", ".join(f"{count:,} {part}" for part, count in counts.items())


def _timing_notes(row: FabricRow, found: SearchResult | str | None) -> list[str]:
    if isinstance(found, str):
        first = found.split(maxsplit=1)[0]
        # The name of a model stays as it is.
        return [found[:1].upper() + found[1:] if first.isalpha() else found]
    if found is None or row.fabric is None:
        return []
    return list(plan_notes(found, row.fabric.sizing.gpus))

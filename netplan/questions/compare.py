"""All fabrics side by side: what each needs, what it costs and draws, how fast it trains."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from netplan.costing.fabric_bill import BillBooks, make_bill
from netplan.costing.switches import SWITCHES, require_switch
from netplan.errors import InfeasibleError, InputError
from netplan.performance.search import PlanSearch, SearchResult
from netplan.questions.compare_answer import BASELINE, Comparison, FabricRow, priced_row, timed_row
from netplan.questions.inputs import CatalogReader
from netplan.questions.pricing import SwitchQuestion, read_books
from netplan.questions.question import asks, optional, several, shared
from netplan.questions.training import TrainingQuestion
from netplan.questions.verdict import (
    Probe,
    VerdictQuestion,
    bandwidth_needed,
)
from netplan.records import replace
from netplan.reports.quantities import listed
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Sizing
from netplan.topologies.floor_plan import FLOOR_PLANS
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.workloads.accelerators import ACCELERATORS

FABRIC_ORDER = (
    "rail-optimized",
    "rail-only",
    "fat-tree",
    "dgx-superpod",
    "dgx-1",
    "dgx-2",
    "dragonfly",
    "torus-2d",
    "torus-3d",
)


@dataclass(frozen=True, kw_only=True)
class Compare(
    VerdictQuestion[Comparison], TrainingQuestion[Comparison], SwitchQuestion[Comparison]
):
    """Put all fabrics side by side: what each needs, costs and draws, and how fast it trains.

    Names are catalog names (see ``netplan catalog list``) or paths to files.

    Raises
    ------
    NetplanError
        If an input is not allowed, or no fabric can be built; the message says what can.

    Examples
    --------
    >>> answer = compare(gpus=32768, radix=128, fabrics=("rail-optimized", "rail-only"))
    >>> [(row.name, row.fabric.switches, row.cost.base) for row in answer.rows]
    [('rail-optimized', 1280, 196083712.0), ('rail-only', 256, 49020928.0)]
    """

    command: ClassVar[str] = "compare"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan compare --gpus 32768 --radix 128",
        "netplan compare --gpus 4096 --radix 64 --accelerator h100-80gb --prices 2026",
        "netplan compare --gpus 16384 --radix 64 --fabric rail-only --fabric fat-tree",
    )

    fabrics: Sequence[str] = several("Only this fabric (repeatable).", flag="--fabric")
    prices: str = shared("Price book.")
    power: str = shared("Power book.")
    cabling: str = shared("Modules and cables.")
    floor_plan: str | None = optional("Hall that gives cable lengths.", otherwise="classes")
    timing: bool = optional(
        "Leave the iteration time out.", "flag", flag="--no-timing", default=True
    )

    def ask(self) -> Comparison:
        """Size, price and time every fabric."""
        reader = CatalogReader(self.catalog, self.overrides)
        on = reader.load(ACCELERATORS, self.accelerator)
        search = self.search(self.training(reader, on, self.gpus))
        books = replace(
            read_books(reader, self.prices, self.power, self.cabling),
            switch=reader.named(SWITCHES, self.switch),
            hall=reader.named(FLOOR_PLANS, self.floor_plan),
        )
        specs = [reader.load(FABRICS, name) for name in self.fabrics or FABRIC_ORDER]
        currency = books.prices.currency
        run = (search.training.model, search.training.batch)
        terms = self.terms(reader, run, books.prices, currency)
        sizing = self.sized(on)
        require_switch(books.switch, specs, sizing, reader.roots)
        inputs = self.inputs(
            hb_size=sizing.hb_size,
            batch=search.training.batch,
            fabrics=[spec.name for spec in specs],
            link_gbps=sizing.speed_gbps,
            set=reader.replaced(),
        )
        each = zip(specs, _rows(specs, sizing, search if self.timing else None, books), strict=True)
        rows = tuple(_with_others_told(row, spec.built_with(on.name)) for spec, row in each)
        if all(row.fabric is None for row in rows):
            raise InfeasibleError(f"{rows[0].name}: {rows[0].notes[-1]}")
        probe = _probe(specs, sizing, search) if self.timing else None
        return Comparison(inputs, rows, currency, terms, probe)


compare = asks(Compare)


def _rows(
    specs: Sequence[FabricSpec], sizing: Sizing, search: PlanSearch | None, books: BillBooks
) -> tuple[FabricRow, ...]:
    """One row a fabric; fabrics with equal levels share one search."""
    baseline = _baseline(sizing, books)
    rows = []
    for spec in specs:
        try:
            fabric = build_fabric(spec, sizing)
            bill = make_bill(spec, sizing, books, fabric=fabric)
        except (InputError, InfeasibleError) as error:
            rows.append(FabricRow(spec.name, spec.title, (f"Cannot be built: {error}.",)))
            continue
        row = priced_row(spec, bill, books)
        found = search.on(fabric.levels) if search else None
        saved = 1 - row.cost.base / baseline if row.cost and baseline else None
        rows.append(replace(timed_row(row, found), cost_reduction=saved))
    return tuple(rows)


def _with_others_told(row: FabricRow, others: tuple[str, ...]) -> FabricRow:
    """The row, of a product that may be built with other accelerators."""
    note = f"Built with {listed(others, 'or')}, so not recommended here."
    return replace(row, built_with=others, notes=(*row.notes, note)) if others else row


def _probe(specs: Sequence[FabricSpec], sizing: Sizing, search: PlanSearch) -> Probe:
    """Work out at which network bandwidth a fabric trains within a time."""
    known = {spec.name: spec for spec in specs}

    def probe(name: str, limit_s: float) -> float | None:
        fabric = build_fabric(known[name], sizing)
        domain, network = fabric.levels[:1], fabric.levels[1:]

        def time_s(times: float) -> float:
            faster = (
                replace(one, link_bytes_per_s=times * one.link_bytes_per_s) for one in network
            )
            found = search.on((*domain, *faster))
            return found.time_s if isinstance(found, SearchResult) else inf

        times = bandwidth_needed(time_s, limit_s)
        return None if times is None else times * fabric.gpu_bytes_per_s

    return probe


def _baseline(sizing: Sizing, books: BillBooks) -> float:
    """Base price that savings are counted against; 0 if it cannot be wired, or lacks parts."""
    spec = FABRICS.load(BASELINE)
    fabric = build_fabric(spec, sizing)
    try:
        bill = make_bill(spec, sizing, books, fabric=fabric)
    except (InputError, InfeasibleError):
        return 0.0
    return 0.0 if bill.unpriced_apart else bill.capital.base

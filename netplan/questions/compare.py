"""All fabrics side by side: what each needs, what it costs and draws, how fast it trains."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import Bill, BillBooks, make_bill
from netplan.costing.materials import BillItem
from netplan.costing.power import POWER_BOOKS
from netplan.costing.prices import PART_NAMES, PRICE_BOOKS
from netplan.costing.switches import SWITCHES, require_switch
from netplan.errors import InfeasibleError, InputError
from netplan.levels import gpu_count
from netplan.performance.search import PlanSearch, SearchResult
from netplan.questions.comparison import BASELINE, Comparison, FabricRow
from netplan.questions.inputs import CatalogReader
from netplan.questions.question import ClusterQuestion, asks, optional, shared
from netplan.questions.training import TrainingQuestion
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
class Compare(TrainingQuestion[Comparison], ClusterQuestion[Comparison]):
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

    fabrics: Sequence[str] = optional(
        "Only this fabric (repeatable).", flag="--fabric", many=True, default=()
    )
    prices: str = shared("Price book.")
    power: str = shared("Power book.")
    cabling: str = shared("Modules and cables.")
    switch: str | None = optional("Switch model with that many ports.", otherwise="any")
    floor_plan: str | None = optional("Hall that gives cable lengths.", otherwise="classes")
    timing: bool = optional(
        "Leave the iteration time out.", "flag", flag="--no-timing", default=True
    )

    def ask(self) -> Comparison:
        """Size, price and time every fabric."""
        reader = CatalogReader(self.catalog, self.overrides)
        on = reader.load(ACCELERATORS, self.accelerator)
        search = self.search(self.training(reader, on))
        books = BillBooks(
            prices=reader.load(PRICE_BOOKS, self.prices),
            power=reader.load(POWER_BOOKS, self.power),
            cabling=reader.load(CABLING_BOOKS, self.cabling),
            switch=reader.load(SWITCHES, self.switch) if self.switch else None,
            hall=reader.load(FLOOR_PLANS, self.floor_plan) if self.floor_plan else None,
        )
        specs = [reader.load(FABRICS, name) for name in self.fabrics or FABRIC_ORDER]
        sizing = self.sized(on)
        require_switch(books.switch, specs, sizing, reader.roots)
        inputs = self.inputs(
            hb_size=sizing.hb_size,
            batch=search.training.batch,
            fabrics=[spec.name for spec in specs],
            link_gbps=sizing.speed_gbps,
            set=reader.replaced(),
        )
        rows = _rows(specs, sizing, search if self.timing else None, books)
        if all(row.fabric is None for row in rows):
            raise InfeasibleError(f"{rows[0].name}: {rows[0].notes[-1]}")
        return Comparison(inputs, rows, books.prices.currency)


compare = asks(Compare)


def _rows(
    specs: Sequence[FabricSpec],
    sizing: Sizing,
    search: PlanSearch | None,
    books: BillBooks,
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


def _baseline(sizing: Sizing, books: BillBooks) -> float:
    """Base price of the fabric that savings are counted against; 0 if it cannot be wired."""
    spec = FABRICS.load(BASELINE)
    fabric = build_fabric(spec, sizing)
    try:
        return make_bill(spec, sizing, books, fabric=fabric).capital.base
    except (InputError, InfeasibleError):
        return 0.0


def priced_row(spec: FabricSpec, bill: Bill, books: BillBooks) -> FabricRow:
    """Row of a fabric with its bill, but no time yet."""
    fabric = bill.fabric
    return FabricRow(
        name=spec.name,
        title=spec.title,
        fabric=fabric,
        bill=bill,
        notes=(*fabric.notes, *bill.notes, *_priced_notes(bill, books)),
    )


def timed_row(row: FabricRow, found: SearchResult | str | None) -> FabricRow:
    """The row with its best plan, or with a note why there is none."""
    timed = found if isinstance(found, SearchResult) else None
    return replace(
        row,
        best=timed.plans[0] if timed else None,
        timed=timed,
        notes=(*row.notes, *_timing_notes(row, found)),
    )


def _priced_notes(bill: Bill, books: BillBooks) -> list[str]:
    """What the books lack. One network port a GPU is the same on every fabric: not said here."""
    return [
        f"No {what} in {book} for {_parts(lines)}."
        for what, lines, book in (
            ("price", bill.unpriced_apart, books.prices.name),
            ("power", bill.unpowered_apart, books.power.name),
        )
        if lines
    ]


def _parts(lines: Sequence[BillItem]) -> str:
    """Parts with their numbers, cables of all lengths together."""
    counts: dict[tuple[str, float], int] = {}
    for line in lines:
        key = (line.part, line.speed_gbps)
        counts[key] = counts.get(key, 0) + line.quantity * line.price_units
    return ", ".join(
        f"{count:,} {PART_NAMES[part]} ({speed:g}G)" for (part, speed), count in counts.items()
    )


def _timing_notes(row: FabricRow, found: SearchResult | str | None) -> list[str]:
    if isinstance(found, str):
        first = found.split(maxsplit=1)[0]
        # The name of a model stays as it is.
        return [found[:1].upper() + found[1:] if first.isalpha() else found]
    if found is None or row.fabric is None:
        return []
    used, asked = gpu_count(found.levels), row.fabric.sizing.gpus
    if used == asked:
        return []
    return [f"The best plan uses {used:,} of {asked:,} GPUs; no plan divides all."]

"""All fabrics side by side: what each needs, what it costs and draws, how fast it trains."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from netplan.costing.bill import Cost, Power, bill_cost, bill_of_materials, bill_power
from netplan.costing.power import POWER_BOOKS, PowerBook
from netplan.costing.prices import PRICE_BOOKS, PriceBook
from netplan.errors import InfeasibleError, InputError
from netplan.levels import Level, gpu_count
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.search import SearchResult, search_largest
from netplan.performance.setting import DEFAULT_OPTIONS, AnyStrategy, Options, Training
from netplan.questions.comparison import BASELINE, Comparison, FabricRow
from netplan.questions.inputs import CatalogReader, sizing_on
from netplan.questions.question import asks, optional, shared
from netplan.questions.training import TrainingQuestion
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS
from netplan.workloads.operations import Mode

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
class Compare(TrainingQuestion[Comparison]):
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
    timing: bool = optional(
        "Leave the iteration time out.", "flag", flag="--no-timing", default=True
    )

    def ask(self) -> Comparison:
        """Size, price and time every fabric."""
        reader = CatalogReader(self.catalog, self.overrides)
        on = reader.load(ACCELERATORS, self.accelerator)
        trained = reader.load(MODELS, self.model)
        books = (reader.load(PRICE_BOOKS, self.prices), reader.load(POWER_BOOKS, self.power))
        assumptions = reader.load(ITERATION_MODELS, self.iteration_model)
        specs = [reader.load(FABRICS, name) for name in self.fabrics or FABRIC_ORDER]
        sizing = sizing_on(
            on,
            gpus=self.gpus,
            radix=self.radix,
            hb_size=self.hb_size,
            oversubscription=self.oversubscription,
        )
        search = PlanSearch(
            Training.on(on, trained, assumptions, batch=self.batch),
            self.strategy,
            self.mode,
            self.options(),
        )
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
        return Comparison(inputs, rows, books[0].currency)


compare = asks(Compare)


@dataclass(frozen=True, slots=True)
class PlanSearch:
    """The best plan of one training run on any levels; equal levels are searched once."""

    training: Training
    strategy: AnyStrategy = "1d"
    mode: Mode = "corrected"
    options: Options = DEFAULT_OPTIONS

    def on(self, fabric: Fabric) -> SearchResult | str | None:
        """Best plan on a fabric's levels, or why there is none; None if it has no levels."""
        if not fabric.levels:
            return None
        try:
            return _search(self, fabric.levels)
        except InfeasibleError as error:
            return f"{error}."


def _rows(
    specs: Sequence[FabricSpec],
    sizing: Sizing,
    search: PlanSearch | None,
    books: tuple[PriceBook, PowerBook],
) -> tuple[FabricRow, ...]:
    """One row a fabric; fabrics with equal levels share one search."""
    baseline_fabric = build_fabric(FABRICS.load(BASELINE), sizing)
    baseline = bill_cost(bill_of_materials(baseline_fabric), books[0])
    rows = []
    for spec in specs:
        try:
            fabric = build_fabric(spec, sizing)
        except InputError as error:
            rows.append(_unbuildable(spec, f"Cannot be built: {error}."))
            continue
        row = priced_row(spec, fabric, books)
        found = search.on(fabric) if search else None
        saved = 1 - row.cost.base / baseline.base if row.cost and baseline.base else None
        rows.append(replace(timed_row(row, found), cost_reduction=saved))
    return tuple(rows)


def priced_row(spec: FabricSpec, fabric: Fabric, books: tuple[PriceBook, PowerBook]) -> FabricRow:
    """Row of a built fabric: bill, cost and power, but no time yet."""
    bill = bill_of_materials(fabric)
    cost, power = bill_cost(bill, books[0]), bill_power(bill, books[1])
    return FabricRow(
        name=spec.name,
        title=spec.title,
        fabric=fabric,
        bill=bill,
        cost=cost if len(cost.unpriced) < len(bill) else None,
        cost_reduction=None,
        power=power if len(power.unknown) < len(bill) else None,
        best=None,
        timed=None,
        notes=(*fabric.notes, *_priced_notes(cost, power, books, fabric.sizing.gpus)),
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


def _unbuildable(spec: FabricSpec, reason: str) -> FabricRow:
    """A row of a fabric that does not exist in this size."""
    return FabricRow(
        name=spec.name,
        title=spec.title,
        fabric=None,
        bill=(),
        cost=None,
        cost_reduction=None,
        power=None,
        best=None,
        timed=None,
        notes=(reason,),
    )


# A study compares many fabrics whose levels are the same: radix and prices do not touch them.
@lru_cache(maxsize=4096)
def _search(search: PlanSearch, levels: tuple[Level, ...]) -> SearchResult:
    """Best plan on some levels."""
    return search_largest(
        search.training,
        levels,
        strategy=search.strategy,
        mode=search.mode,
        options=search.options,
    )


def _priced_notes(
    cost: Cost, power: Power, books: tuple[PriceBook, PowerBook], gpus: int
) -> list[str]:
    notes = []
    for what, lines, book in (
        ("price", cost.unpriced, books[0].name),
        ("power", power.unknown, books[1].name),
    ):
        # One network port a GPU is the same on every fabric: said once, not in every row.
        apart = [line for line in lines if line.part != "nic_port" or line.quantity > gpus]
        if apart:
            parts = ", ".join(
                f"{line.quantity:,} {PART_NAMES[line.part]} ({line.speed_gbps:g}G)"
                for line in apart
            )
            notes.append(f"No {what} in {book} for {parts}.")
    return notes


PART_NAMES = {
    "switch_port": "switch ports",
    "transceiver": "transceivers",
    "copper_cable": "copper cables",
    "nic_port": "network card ports",
}


def _timing_notes(row: FabricRow, found: SearchResult | str | None) -> list[str]:
    if isinstance(found, str):
        return [found[:1].upper() + found[1:]]
    if found is None or row.fabric is None:
        return []
    used, asked = gpu_count(found.levels), row.fabric.sizing.gpus
    if used == asked:
        return []
    return [f"The best plan uses {used:,} of {asked:,} GPUs; no plan divides all."]

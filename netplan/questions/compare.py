"""All fabrics side by side: what each needs, what it costs and draws, how fast it trains."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from netplan.costing.bill import Cost, Power, bill_cost, bill_of_materials, bill_power
from netplan.costing.power import POWER_BOOKS, PowerBook
from netplan.costing.prices import PRICE_BOOKS, PriceBook
from netplan.errors import InfeasibleError, InputError
from netplan.levels import Level, gpu_count
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.search import SearchResult, search_largest
from netplan.performance.setting import Training
from netplan.questions.comparison import BASELINE, Comparison, FabricRow
from netplan.questions.inputs import CatalogReader, sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

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


def compare(  # noqa: PLR0913 - one keyword an input, as on the command line
    *,
    gpus: int,
    radix: int,
    hb_size: int | None = None,
    model: str = "gpt-1t",
    accelerator: str = "gh200-96gb",
    batch: int | None = None,
    fabrics: Sequence[str] = (),
    prices: str = "rail-only-2023",
    power: str = "2026",
    iteration_model: str = "ptd-p",
    oversubscription: float | None = None,
    timing: bool = True,
    catalog: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Comparison:
    """Put fabrics side by side for one cluster, one switch and one training run.

    Parameters
    ----------
    gpus
        GPUs in the cluster, 8 to 4,194,304 [1].
    radix
        Ports per switch at the network's link rate, even, 8 to 1,024 [1].
    hb_size
        GPUs per HB domain; the accelerator's own if absent [1].
    model, accelerator, prices, power, iteration_model
        Catalog names or paths to files.
    batch
        Global batch; the model's own if absent [sequences].
    fabrics
        Names or paths; all shipped fabrics if empty.
    oversubscription
        Bandwidth down over up at the leaves of Clos networks, at least 1 [1].
    timing
        Whether to search the best parallel plan of each fabric.
    catalog
        Folder of the user's own catalogs.
    overrides
        Single values replaced for this run, such as ``{"accelerator.memory_bytes": "96e9"}``.

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
    reader = CatalogReader(catalog, overrides)
    on = reader.load(ACCELERATORS, accelerator)
    trained = reader.load(MODELS, model)
    books = (reader.load(PRICE_BOOKS, prices), reader.load(POWER_BOOKS, power))
    assumptions = reader.load(ITERATION_MODELS, iteration_model)
    specs = [reader.load(FABRICS, name) for name in fabrics or FABRIC_ORDER]
    sizing = sizing_on(
        on, gpus=gpus, radix=radix, hb_size=hb_size, oversubscription=oversubscription
    )
    training = Training.on(on, trained, assumptions, batch=batch)
    inputs = {
        "gpus": gpus,
        "radix": radix,
        "hb_size": sizing.hb_size,
        "model": model,
        "accelerator": accelerator,
        "batch": training.batch,
        "fabrics": [spec.name for spec in specs],
        "prices": prices,
        "power": power,
        "iteration_model": iteration_model,
        "oversubscription": oversubscription,
        "timing": timing,
        "link_gbps": sizing.speed_gbps,
        "set": reader.replaced(),
    }
    rows = _rows(specs, sizing, training if timing else None, books)
    if all(row.fabric is None for row in rows):
        raise InfeasibleError(f"{rows[0].name}: {rows[0].notes[-1]}")
    return Comparison(inputs, rows, books[0].currency)


def _rows(
    specs: Sequence[FabricSpec],
    sizing: Sizing,
    training: Training | None,
    books: tuple[PriceBook, PowerBook],
) -> tuple[FabricRow, ...]:
    """One row a fabric; fabrics with equal levels share one search."""
    baseline_fabric = build_fabric(FABRICS.load(BASELINE), sizing)
    baseline = bill_cost(bill_of_materials(baseline_fabric), books[0])
    searched: dict[tuple[Level, ...], SearchResult | str] = {}
    rows = []
    for spec in specs:
        try:
            fabric = build_fabric(spec, sizing)
        except InputError as error:
            rows.append(_unbuildable(spec, f"Cannot be built: {error}."))
            continue
        row = priced_row(spec, fabric, books)
        found = _timed(fabric, training, searched) if training else None
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


def _timed(
    fabric: Fabric,
    training: Training,
    searched: dict[tuple[Level, ...], SearchResult | str],
) -> SearchResult | str | None:
    """Best plan on the fabric's levels, or why there is none."""
    if not fabric.levels:
        return None
    if fabric.levels not in searched:
        try:
            searched[fabric.levels] = _search(training, fabric.levels)
        except InfeasibleError as error:
            searched[fabric.levels] = f"{error}."
    return searched[fabric.levels]


# A study compares many fabrics whose levels are the same: radix and prices do not touch them.
@lru_cache(maxsize=4096)
def _search(training: Training, levels: tuple[Level, ...]) -> SearchResult:
    """Best plan on some levels."""
    return search_largest(training, levels)


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

"""All fabrics side by side: what each needs, what it costs and draws, how fast it trains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netplan.catalog import user_roots
from netplan.costing.bill import Cost, Power, bill_cost, bill_of_materials, bill_power
from netplan.costing.power import POWER_BOOKS, PowerBook
from netplan.costing.prices import PRICE_BOOKS, PriceBook
from netplan.documents import read_scalar
from netplan.errors import InfeasibleError, InputError
from netplan.levels import Level, gpu_count
from netplan.performance.ptdp import ITERATION_MODELS, Training
from netplan.performance.search import SearchResult, search_largest
from netplan.reports.comparison import BASELINE, Comparison, FabricRow
from netplan.reports.overrides import check_overrides
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.accelerators import ACCELERATORS, Accelerator
from netplan.traffic.models import MODELS, Model

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
        If an input is not allowed; the message says what is.

    Examples
    --------
    >>> answer = compare(gpus=32768, radix=128, fabrics=("rail-optimized", "rail-only"))
    >>> [(row.name, row.fabric.switches, row.cost.base) for row in answer.rows]
    [('rail-optimized', 1280, 196083712.0), ('rail-only', 256, 49020928.0)]
    """
    roots = user_roots(catalog)
    replaced = dict(overrides or {})
    records = _Records(
        model=MODELS.load(model, roots, replaced),
        accelerator=ACCELERATORS.load(accelerator, roots, replaced),
        prices=PRICE_BOOKS.load(prices, roots, replaced),
        power=POWER_BOOKS.load(power, roots, replaced),
    )
    specs = [FABRICS.load(name, roots, replaced) for name in fabrics or FABRIC_ORDER]
    assumptions = ITERATION_MODELS.load(iteration_model, roots, replaced)
    check_overrides(
        replaced,
        roles=("model", "accelerator", "prices", "power", "fabric", "iteration-model"),
        names=(*records.names, *(spec.name for spec in specs), assumptions.name),
    )
    sizing = _sizing(gpus, radix, hb_size, records.accelerator, oversubscription)
    training = None
    if timing:
        training = Training(
            model=records.model,
            batch=_batch(batch, records.model),
            flops_per_s=records.accelerator.tensor_flops_per_s,
            memory_bytes=records.accelerator.memory_bytes,
            assumptions=assumptions,
        )
    inputs = {
        "gpus": gpus,
        "radix": radix,
        "hb_size": sizing.hb_size,
        "model": model,
        "accelerator": accelerator,
        "batch": _batch(batch, records.model),
        "fabrics": [spec.name for spec in specs],
        "prices": prices,
        "power": power,
        "iteration_model": iteration_model,
        "oversubscription": oversubscription,
        "timing": timing,
        "link_gbps": sizing.speed_gbps,
        "set": {key: read_scalar(text) for key, text in replaced.items()},
    }
    rows = _rows(specs, sizing, training, records, FABRICS.load(BASELINE))
    if all(row.fabric is None for row in rows):
        raise InputError(f"{rows[0].name}: {rows[0].notes[-1]}")
    return Comparison(inputs, rows, records.prices.currency)


@dataclass(frozen=True, slots=True)
class _Records:
    """Catalog files of one comparison."""

    model: Model
    accelerator: Accelerator
    prices: PriceBook
    power: PowerBook

    @property
    def names(self) -> tuple[str, ...]:
        return (self.model.name, self.accelerator.name, self.prices.name, self.power.name)


def _sizing(
    gpus: int,
    radix: int,
    hb_size: int | None,
    accelerator: Accelerator,
    oversubscription: float | None,
) -> Sizing:
    """The sizing of all fabrics; an HB domain that nobody asked for is cut to the cluster."""
    return Sizing(
        gpus=gpus,
        radix=radix,
        hb_size=min(accelerator.hb_size, max(gpus, 1)) if hb_size is None else hb_size,
        hb_bytes_per_s=accelerator.hb_bytes_per_s,
        network_bytes_per_s=accelerator.network_bytes_per_s,
        hb_latency_s=accelerator.hb_latency_s,
        network_latency_s=accelerator.network_latency_s,
        oversubscription=oversubscription,
    )


def _batch(batch: int | None, model: Model) -> int:
    if batch is not None and batch < 1:
        raise InputError(f"the global batch is at least 1 sequence, got {batch:,}")
    return batch or model.batch


def _rows(
    specs: Sequence[FabricSpec],
    sizing: Sizing,
    training: Training | None,
    records: _Records,
    baseline_spec: FabricSpec,
) -> tuple[FabricRow, ...]:
    """One row a fabric; fabrics with equal levels share one search."""
    baseline = bill_cost(bill_of_materials(build_fabric(baseline_spec, sizing)), records.prices)
    searched: dict[tuple[Level, ...], SearchResult | str] = {}
    rows = []
    for spec in specs:
        try:
            fabric = build_fabric(spec, sizing)
        except InputError as error:
            rows.append(_unbuildable(spec, f"Cannot be built: {error}."))
            continue
        bill = bill_of_materials(fabric)
        cost, power = bill_cost(bill, records.prices), bill_power(bill, records.power)
        found = _timed(fabric, training, searched) if training else None
        timed = found if isinstance(found, SearchResult) else None
        notes = (
            *fabric.notes,
            *_priced_notes(cost, power, records, sizing.gpus),
            *_timing_notes(fabric, found),
        )
        rows.append(
            FabricRow(
                name=spec.name,
                title=spec.title,
                fabric=fabric,
                bill=bill,
                cost=cost if len(cost.unpriced) < len(bill) else None,
                cost_reduction=1 - cost.base / baseline.base if baseline.base else None,
                power=power if len(power.unknown) < len(bill) else None,
                best=timed.plans[0] if timed else None,
                timed=timed,
                notes=notes,
            )
        )
    return tuple(rows)


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
            searched[fabric.levels] = search_largest(training, fabric.levels)
        except InfeasibleError as error:
            searched[fabric.levels] = f"{error}."
    return searched[fabric.levels]


def _priced_notes(cost: Cost, power: Power, records: _Records, gpus: int) -> list[str]:
    notes = []
    for what, lines, book in (
        ("price", cost.unpriced, records.prices.name),
        ("power", power.unknown, records.power.name),
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


def _timing_notes(fabric: Fabric, found: SearchResult | str | None) -> list[str]:
    if isinstance(found, str):
        return [found[:1].upper() + found[1:]]
    if found is None:
        return []
    used = gpu_count(found.levels)
    if used == fabric.sizing.gpus:
        return []
    return [f"The best plan uses {used:,} of {fabric.sizing.gpus:,} GPUs; no plan divides all."]

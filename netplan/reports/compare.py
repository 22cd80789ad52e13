"""All fabrics side by side: what each needs, what it costs and draws, how fast it trains."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netplan import __version__
from netplan.catalog import user_roots
from netplan.costing.bill import BillLine, Cost, Power, bill_cost, bill_of_materials, bill_power
from netplan.costing.power import POWER_BOOKS, PowerBook
from netplan.costing.prices import PRICE_BOOKS, PriceBook
from netplan.documents import read_scalar
from netplan.errors import InfeasibleError, InputError
from netplan.levels import Level, gpu_count
from netplan.performance.ptdp import ITERATION_MODELS, Training
from netplan.performance.search import PlanTime, SearchResult, search_largest
from netplan.reports.overrides import check_overrides
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.accelerators import ACCELERATORS, Accelerator
from netplan.traffic.models import MODELS, Model

if TYPE_CHECKING:
    import pandas as pd

BASELINE = "rail-optimized"
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


@dataclass(frozen=True, slots=True)
class FabricRow:
    """One fabric of a comparison; ``fabric`` is None where it cannot be built in this size."""

    name: str
    title: str
    fabric: Fabric | None
    bill: tuple[BillLine, ...]
    cost: Cost | None
    cost_reduction: float | None
    power: Power | None
    best: PlanTime | None
    timed: SearchResult | None
    notes: tuple[str, ...]

    @property
    def cost_complete(self) -> bool:
        """Whether the price covers all that sets the fabrics apart.

        The first network port of each GPU is the same on every fabric and may be missing.
        """
        if self.cost is None or self.fabric is None:
            return False
        return not any(
            line.part != "nic_port" or line.quantity > self.fabric.sizing.gpus
            for line in self.cost.unpriced
        )

    def to_dict(self) -> dict[str, Any]:
        """The row as the command line prints it in JSON."""
        fabric, cost, best = self.fabric, self.cost, self.best
        gpus = fabric.sizing.gpus if fabric else 0
        return {
            "fabric": self.name,
            "tiers": len(fabric.tiers) if fabric else None,
            "switches": fabric.switches if fabric else None,
            "links": fabric.link_count if fabric else None,
            "transceivers": fabric.transceivers if fabric else None,
            "copper_cables": fabric.copper_cables if fabric else None,
            "nic_ports": fabric.nic_ports if fabric else None,
            "spare_ports": fabric.spare_ports if fabric else None,
            "count_status": ("exact" if fabric.exact else "wireable") if fabric else None,
            "switches_lower_bound": fabric.switches_lower_bound if fabric else None,
            "switch_tiers": [asdict(tier) for tier in fabric.tiers] if fabric else [],
            "link_groups": [asdict(group) for group in fabric.links] if fabric else [],
            "hb_size": fabric.sizing.hb_size if fabric else None,
            "cost_usd": {"low": cost.low, "base": cost.base, "high": cost.high} if cost else None,
            "cost_per_gpu_usd": cost.base / gpus if cost else None,
            "cost_complete": self.cost_complete,
            "cost_reduction": self.cost_reduction,
            "power_w": self.power.typical_w if self.power else None,
            "iteration_time_s": best.iteration_time_s if best else None,
            "mfu": best.mfu if best else None,
            "memory_bytes": best.memory_bytes if best else None,
            "breakdown_s": best.breakdown_s if best else None,
            "plan": plan_dict(best) if best else None,
            "gpus_used": best.plan.gpus if best else None,
            "space": space_dict(self.timed) if self.timed else None,
            "levels": [asdict(level) for level in fabric.levels] if fabric else [],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answer of :func:`compare`."""

    inputs: dict[str, Any]
    rows: tuple[FabricRow, ...]
    currency: str

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan compare --format json``."""
        return {
            "netplan_version": __version__,
            "inputs": self.inputs,
            "fabrics": [row.to_dict() for row in self.rows],
        }

    def to_frame(self) -> "pd.DataFrame":
        """One row a fabric, one column a number."""
        import pandas as pd

        return pd.json_normalize([row.to_dict() for row in self.rows]).set_index("fabric")

    def _repr_html_(self) -> str:
        from netplan.reports.comparison_table import comparison_html

        return comparison_html(self)


def plan_dict(best: PlanTime) -> dict[str, Any]:
    """A plan as JSON: degrees, schedule, and what of each degree lies inside the HB domain."""
    plan = best.plan
    tensor, data, pipeline = plan.degrees[0]
    return {
        "tensor": plan.tensor,
        "context": 1,
        "pipeline": plan.pipeline,
        "data": plan.data,
        "microbatch": plan.microbatch,
        "microbatches": plan.microbatches,
        "interleave": plan.interleave,
        "hb": {"tensor": tensor, "context": 1, "pipeline": pipeline, "data": data},
        "levels": [
            {"tensor": level[0], "context": 1, "pipeline": level[2], "data": level[1]}
            for level in plan.degrees
        ],
    }


def space_dict(found: SearchResult) -> dict[str, Any]:
    """Size of a searched space."""
    return {"enumerated": found.enumerated, "feasible": found.feasible}


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

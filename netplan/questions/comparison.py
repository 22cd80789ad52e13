"""What a comparison answers: one row a fabric, and the forms that programs read."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from netplan.costing.bill import BillLine, Cost, Power
from netplan.performance.search import PlanTime, SearchResult
from netplan.topologies.fabric import Fabric
from netplan.version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from netplan.reports.text import Cell

BASELINE = "rail-optimized"
PETA = 1e15


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

    @property
    def effective_flops_per_s(self) -> float | None:
        """Useful FLOP/s of the whole training run: MFU times the peak of its GPUs [FLOP/s]."""
        if self.best is None or self.timed is None:
            return None
        peak = self.timed.settings[0].training.flops_per_s
        return self.best.mfu * self.best.plan.gpus * peak

    @property
    def cost_per_effective_pflops(self) -> float | None:
        """Base price of the network per useful 10^15 FLOP/s [currency / (PFLOP/s)]."""
        useful = self.effective_flops_per_s
        return self.cost.base / (useful / PETA) if self.cost and useful else None

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
            "cost_per_effective_pflops_usd": self.cost_per_effective_pflops,
            "cost_complete": self.cost_complete,
            "cost_reduction": self.cost_reduction,
            "power_w": self.power.typical_w if self.power else None,
            "iteration_time_s": best.iteration_time_s if best else None,
            "mfu": best.mfu if best else None,
            "effective_flops_per_s": self.effective_flops_per_s,
            "memory_bytes": best.memory_bytes if best else None,
            "breakdown_s": best.breakdown_s if best else None,
            "plan": best.plan.to_dict() if best else None,
            "gpus_used": best.plan.gpus if best else None,
            "space": _space(self.timed) if self.timed else None,
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

    def to_rows(self) -> "list[dict[str, Cell]]":
        """One flat row a fabric, for CSV and Markdown."""
        from netplan.questions.comparison_table import comparison_rows

        return comparison_rows(self)

    def to_frame(self) -> "pd.DataFrame":
        """One row a fabric, one column a number."""
        import pandas as pd

        return pd.json_normalize([row.to_dict() for row in self.rows]).set_index("fabric")

    def _repr_html_(self) -> str:
        from netplan.questions.comparison_table import comparison_html

        return comparison_html(self)


def _space(found: SearchResult) -> dict[str, int]:
    """Size of a searched space (without its time, which differs from run to run)."""
    return {"enumerated": found.enumerated, "feasible": found.feasible}

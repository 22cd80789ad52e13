"""What a comparison answers: one row a fabric, two tables, a verdict, notes."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from netplan.costing.fabric_bill import Bill
from netplan.costing.ranges import Range
from netplan.performance.search import PlanTime, SearchResult
from netplan.reports.answer import Answer
from netplan.reports.quantities import Cell, Scale, quantity
from netplan.reports.sections import Column, Heading, Notes, Paragraph, Section, Table, column
from netplan.topologies.fabric import Fabric
from netplan.version import __version__

BASELINE = "rail-optimized"
PETA = 1e15
DOLLAR = "USD"
NEARLY_AS_FAST = 0.05


@dataclass(frozen=True, slots=True)
class FabricRow:
    """One fabric of a comparison; ``fabric`` is None where it cannot be built in this size."""

    name: str
    title: str
    fabric: Fabric | None
    bill: Bill | None
    cost_reduction: float | None
    best: PlanTime | None
    timed: SearchResult | None
    notes: tuple[str, ...]

    @property
    def cost(self) -> Range | None:
        """Price of the network; None where nothing of it has a price."""
        return self.bill.cost if self.bill else None

    @property
    def power_w(self) -> float | None:
        """Typical power of the network; None where nothing of it is known [W]."""
        return self.bill.power_w if self.bill else None

    @property
    def cost_complete(self) -> bool:
        """Whether the price covers all that sets the fabrics apart.

        The first network port of each GPU is the same on every fabric and may be missing.
        """
        return self.bill is not None and self.cost is not None and not self.bill.unpriced_apart

    @property
    def count_status(self) -> str | None:
        """Whether its counts divide evenly."""
        return ("exact" if self.fabric.exact else "wireable") if self.fabric else None

    @property
    def cost_per_gpu(self) -> float | None:
        """Base price of the network for one GPU."""
        return self.cost.base / self.fabric.sizing.gpus if self.cost and self.fabric else None

    @property
    def mfu(self) -> float | None:
        """Useful FLOPs over the peak of all GPUs bought, those that the plan leaves idle too."""
        if self.best is None or self.fabric is None:
            return None
        return self.best.mfu * self.best.plan.gpus / self.fabric.sizing.gpus

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

    def to_dict(self, currency: str = DOLLAR) -> dict[str, Any]:
        """The row as the command line prints it in JSON; dollars where that is the currency."""
        fabric, cost, best = self.fabric, self.cost, self.best
        price = {"low": cost.low, "base": cost.base, "high": cost.high} if cost else None
        dollars = price if currency == DOLLAR else None
        return {
            "fabric": self.name,
            "tiers": len(fabric.tiers) if fabric else None,
            "switches": fabric.switches if fabric else None,
            "links": fabric.link_count if fabric else None,
            "transceivers": fabric.transceivers if fabric else None,
            "copper_cables": fabric.copper_cables if fabric else None,
            "nic_ports": fabric.nic_ports if fabric else None,
            "spare_ports": fabric.spare_ports if fabric else None,
            "count_status": self.count_status,
            "switches_lower_bound": fabric.switches_lower_bound if fabric else None,
            "switch_tiers": [asdict(tier) for tier in fabric.tiers] if fabric else [],
            "link_groups": [asdict(group) for group in fabric.links] if fabric else [],
            "hb_size": fabric.sizing.hb_size if fabric else None,
            "cost": {"currency": currency, **price} if price else None,
            "cost_usd": dollars,
            "cost_per_gpu": self.cost_per_gpu,
            "cost_per_gpu_usd": self.cost_per_gpu if dollars else None,
            "cost_per_effective_pflops": self.cost_per_effective_pflops,
            "cost_per_effective_pflops_usd": self.cost_per_effective_pflops if dollars else None,
            "cost_complete": self.cost_complete,
            "cost_reduction": self.cost_reduction,
            "power_w": self.power_w,
            "iteration_time_s": best.iteration_time_s if best else None,
            "mfu": self.mfu,
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
class Verdict:
    """What to buy: the fabric, the rule that chose it, a sentence, and who is as good."""

    fabric: str
    rule: str
    sentence: str
    tied: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison(Answer):
    """The answer of :func:`netplan.compare`."""

    inputs: dict[str, Any]
    rows: tuple[FabricRow, ...]
    currency: str

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan compare --format json``."""
        verdict = self.verdict
        return {
            "netplan_version": __version__,
            "inputs": self.inputs,
            "currency": self.currency,
            "fabrics": [row.to_dict(self.currency) for row in self.rows],
            "verdict": asdict(verdict) | {"tied": list(verdict.tied)} if verdict else None,
        }

    def sections(self) -> Iterator[Section]:
        """Heading, the network, the training run, the verdict, notes."""
        yield self._heading()
        legend = tuple(self._legend())
        yield Table("fabrics", list(self._network()), self.rows, legend=legend)
        if self.inputs["timing"]:
            yield Table("fabrics", [NAME, *TRAINING], self.rows)
        yield Table("fabrics", NOTES, self.rows, only="programs")
        if self.verdict:
            yield Paragraph(self.verdict.sentence, "strong")
        yield Notes.of(((row.name, row.notes) for row in self.rows), "all fabrics")

    def _heading(self) -> Heading:
        inputs = self.inputs
        books = f"prices {inputs['prices']}, power {inputs['power']}"
        if inputs["timing"]:
            books += (
                f"; training {inputs['model']}, batch {inputs['batch']:,}, on"
                f" {inputs['accelerator']}; iteration model {inputs['iteration_model']}"
            )
        return Heading(
            f"Networks for {inputs['gpus']:,} GPUs in HB domains of {inputs['hb_size']:,}:"
            f" switches of {inputs['radix']} ports, {inputs['link_gbps']:g} Gb/s",
            (books, *(f"with {key} = {value}" for key, value in inputs["set"].items())),
        )

    def _network(self) -> Iterator[Column[FabricRow]]:
        """Columns of the network: counts, money, power."""
        yield from COUNTS
        costs = [row.cost for row in self.rows if row.cost]
        scale = Scale(1e6, f"M {self.currency}", 1)
        yield Column(quantity("currency"), lambda _: self.currency, shown="never")
        yield Column(scale.of_money("cost_base"), _cost("base"), mark=_incomplete)
        if any(cost.low < cost.high for cost in costs):
            yield Column(quantity("range", title="low-high", form="code"), _span, data=False)
        yield Column(quantity("cost_low"), _cost("low"), shown="never")
        yield Column(quantity("cost_high"), _cost("high"), shown="never")
        each = quantity("cost_per_gpu", title=f"{self.currency}/GPU")
        yield Column(each, lambda row: row.cost_per_gpu)
        if self.currency == DOLLAR:
            for case in ("low", "base", "high"):
                yield Column(quantity(f"cost_{case}_usd"), _cost(case), shown="never")
            yield Column(quantity("cost_per_gpu_usd"), lambda row: row.cost_per_gpu, shown="never")
        yield from AFTER_MONEY

    def _legend(self) -> Iterator[str]:
        """What the signs in the tables mean, those that occur."""
        rows = [row for row in self.rows if row.fabric]
        lacking = {
            line.part for row in rows if row.bill and row.cost for line in row.bill.quote.unpriced
        }
        known = {"nic_port": "network cards", "hb_gear": "gear inside HB domains"}
        apart = [words for part, words in known.items() if part in lacking]
        absent = f" Not in the prices: {' and '.join(apart)}." if apart else ""
        yield f"saves: against {BASELINE}.{absent}"
        if not all(row.fabric.exact for row in rows if row.fabric):
            yield "*: does not divide evenly; as built (the port lower bound is in the notes)."
        if not all(row.cost_complete for row in rows):
            yield "≥: parts without a price in this book are left out (see the notes)."

    @property
    def verdict(self) -> Verdict | None:
        """The lowest cost among the fabrics that train about as fast; None without prices."""
        rows = [row for row in self.rows if row.cost and row.cost_complete]
        times = [row.best.iteration_time_s for row in self.rows if row.best]
        start, rule = "", "lowest cost"
        if times:
            limit = min(times) * (1 + NEARLY_AS_FAST)
            rows = [row for row in rows if row.best and row.best.iteration_time_s <= limit]
            within = quantity("mfu").shown(NEARLY_AS_FAST)
            start, rule = f"Within {within} of the fastest, ", f"lowest cost within {within}"
            rule += " of the fastest iteration time"
        if not rows:
            return None
        base = min(row.cost.base if row.cost else inf for row in rows)
        best = [row.name for row in rows if row.cost and row.cost.base == base]
        passed = [row.name for row in self.rows if _passed_over(row, base)]
        aside = f" ({', '.join(passed)} aside: no price for some parts)" if passed else ""
        verb = "costs least" if len(best) == 1 else "tie for the least cost"
        amount = f"{base / 1e6:,.1f} M {self.currency}"
        return Verdict(
            best[0], rule, f"{start}{_and(best)} {verb}{aside}: {amount}.", tuple(best[1:])
        )


def _and(names: list[str]) -> str:
    """Names with commas and a last "and"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _passed_over(row: FabricRow, base: float) -> bool:
    """Whether a fabric could be the cheaper one, had all its parts a price."""
    return row.cost is not None and not row.cost_complete and row.cost.base < base


def _incomplete(row: FabricRow) -> tuple[str, str]:
    """The sign of a price that leaves parts out."""
    return ("" if row.cost_complete or row.cost is None else "≥ "), ""


def _uneven(row: FabricRow) -> tuple[str, str]:
    """The sign of counts that do not divide evenly."""
    return "", ("" if row.fabric is None or row.fabric.exact else "*")


def _cost(case: str) -> Callable[[FabricRow], float | None]:
    """Price at its low, base or high."""
    return lambda row: getattr(row.cost, case) if row.cost else None


def _span(row: FabricRow) -> str | None:
    """Low to high in millions."""
    return f"{row.cost.low / 1e6:,.0f}-{row.cost.high / 1e6:,.0f}" if row.cost else None


def _built(name: str) -> Callable[[FabricRow], Cell]:
    """A count of the built fabric."""
    return lambda row: getattr(row.fabric, name) if row.fabric else None


def _plan(name: str) -> Callable[[FabricRow], Cell]:
    """A number of the best plan."""
    return lambda row: getattr(row.best.plan, name) if row.best else None


def _best(name: str) -> Callable[[FabricRow], Cell]:
    """A number of the best plan's time."""
    return lambda row: getattr(row.best, name) if row.best else None


def _part(name: str) -> Callable[[FabricRow], Cell]:
    """A part of the iteration time."""
    return lambda row: row.best.breakdown_s.get(name) if row.best else None


NAME: Column[FabricRow] = column("fabric", lambda row: row.name)
COUNTS: tuple[Column[FabricRow], ...] = (
    NAME,
    column("tiers", lambda row: len(row.fabric.tiers) if row.fabric else None, shown="wide"),
    column("switches", _built("switches"), mark=_uneven),
    column("switches_lower_bound", _built("switches_lower_bound"), shown="never"),
    column("count_status", lambda row: row.count_status, shown="never"),
    column("spare_ports", _built("spare_ports"), shown="wide"),
    column("links", _built("link_count"), shown="wide"),
    column("copper_cables", _built("copper_cables"), shown="wide"),
    column("transceivers", _built("transceivers")),
    column("nic_ports", _built("nic_ports"), shown="never"),
)
AFTER_MONEY: tuple[Column[FabricRow], ...] = (
    column("cost_complete", lambda row: row.cost_complete, shown="never"),
    column("cost_reduction", lambda row: row.cost_reduction),
    column("power_w", lambda row: row.power_w),
)
TRAINING: tuple[Column[FabricRow], ...] = (
    column("iteration_time_s", _best("iteration_time_s")),
    column("mfu", lambda row: row.mfu),
    column("memory_bytes", _best("memory_bytes")),
    column("degrees", lambda row: row.best.plan.shape if row.best else None, data=False),
    column("schedule", lambda row: row.best.plan.schedule if row.best else None, data=False),
    column("interleave", _plan("interleave")),
    column("breakdown_s.compute", _part("compute"), shown="wide"),
    column("breakdown_s.tensor_comm", _part("tensor_comm"), shown="wide"),
    column("breakdown_s.pipeline_comm", _part("pipeline_comm"), shown="wide"),
    column("breakdown_s.data_comm", _part("data_comm"), shown="wide"),
    column("breakdown_s.bubble", _part("bubble"), shown="wide"),
    column("breakdown_s.memory", _part("memory"), shown="never"),
    column("breakdown_s.expert_comm", _part("expert_comm"), shown="never"),
    column("gpus_used", lambda row: row.best.plan.gpus if row.best else None, shown="never"),
    *(
        column(name, _plan(name), shown="never")
        for name in ("tensor", "context", "expert", "pipeline", "data")
    ),
    column("microbatch", _plan("microbatch"), shown="never"),
    column("microbatches", _plan("microbatches"), shown="never"),
)
NOTES: tuple[Column[FabricRow], ...] = (column("notes", lambda row: " ".join(row.notes)),)


def _space(found: SearchResult) -> dict[str, int]:
    """Size of a searched space (without its time, which differs from run to run)."""
    return {"enumerated": found.enumerated, "feasible": found.feasible}

"""The memory of the best plan: what lies in which tier, what moves there, what that costs.

As training software keeps it: what each part is, by a formula that can be worked out again.
"""

from collections.abc import Iterator
from math import isclose
from typing import Any

from msgspec import Struct

from netplan.performance import memory_formulas
from netplan.performance.explain import MemoryCosts, PartCost, memory_costs
from netplan.performance.memory_formulas import MemoryRow, MemoryRows, SymbolRow, memory_rows
from netplan.performance.memory_verdict import FRAGMENTATION, PlanMemory
from netplan.performance.plan import SearchResult
from netplan.reports.schema import plain_at
from netplan.reports.sections import Column, Paragraph, Section, Table, column, columns
from netplan.units import si
from netplan.workloads.accelerators import Accelerator

LOCAL_PARTS: list[Column[PartCost]] = columns("part", "local_bytes")
SPILLED_PARTS: list[Column[PartCost]] = columns(
    "expanded_bytes", "tier_moved_bytes", "spill_cost_s"
)


HELD: list[Column[MemoryRow]] = columns("part", "formula", "held_bytes")
KEPT: list[Column[memory_formulas.KeptRow]] = columns("kind", "operation", "formula", "held_bytes")


class TierRow(Struct, frozen=True):
    """One memory of a GPU: what it holds [B], and its bandwidth and latency, if any is known."""

    tier: str
    capacity_bytes: float
    held_bytes: float
    left_bytes: float
    tier_bytes_per_s: float | None
    tier_latency_s: float | None


TIERS: list[Column[TierRow]] = columns(*TierRow.__struct_fields__)


def _left_bytes(capacity: float, held: float) -> float:
    """Room that is left of a tier; nothing where parts fill it but for rounding [B].

    Examples
    --------
    >>> _left_bytes(80e9, 80e9 + 1e-5), _left_bytes(80e9, 100e9)
    (0.0, -20000000000.0)
    """
    return 0.0 if isclose(capacity, held, rel_tol=1e-12) else capacity - held


class MemoryAnswer(Struct, frozen=True):
    """What of the best plan lies in which tier, and what that costs."""

    json_parts = ("memory",)

    tiers: tuple[TierRow, ...]
    costs: MemoryCosts
    time_s: float
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, result: SearchResult, chip: Accelerator) -> "MemoryAnswer":
        """The memory of the best plan."""
        best = result.best
        costs = memory_costs(result.setting_of(best), result.levels, best)
        local, there = costs.together.local_bytes, costs.together.expanded_bytes
        chip_bytes = chip.memory_bytes
        rate = chip.memory_bytes_per_s or None
        rows = [TierRow("local", chip_bytes, local, _left_bytes(chip_bytes, local), rate, None)]
        if more := chip.expanded_bytes:
            latency_s, rate = chip.expanded_latency_s, chip.expanded_bytes_per_s
            left = _left_bytes(more, there)
            rows.append(TierRow("expanded", more, there, left, rate, latency_s))
        return cls(tuple(rows), costs, best.iteration_time_s)

    @property
    def memory(self) -> dict[str, Any]:
        """What the JSON of a search has of it."""
        return plain_at(self, "tiers", "*costs")

    def sections(self) -> Iterator[Section]:
        """The tiers, the parts of the memory in them, and what a larger memory would save."""
        yield Table("memory_tiers", TIERS, self.tiers, "Memories of a GPU under plan 1")
        spills = len(self.tiers) > 1
        yield Table(
            "memory_parts",
            [*LOCAL_PARTS, *SPILLED_PARTS] if spills else LOCAL_PARTS,
            self.costs.parts,
            "What lies in them" + (", and what that costs an iteration" if spills else ""),
            closing=[self.costs.together],
        )
        yield Paragraph(self._verdict())

    def _verdict(self) -> str:
        """What a larger memory would save, and why single parts do not add up to that."""
        whole, cost_s = self.costs.local_time_s, self.costs.together.spill_cost_s
        if not self.costs.together.expanded_bytes:
            return "All lies in the local memory: no part of it costs any time."
        saved = f"{si(abs(cost_s), 's', 3)} {'less' if cost_s >= 0 else 'more'}"
        return (
            f"With all of it in local memory the plan would take {si(whole, 's', 4)}, {saved}"
            f" ({100 * cost_s / self.time_s:.1f} %). A part costs what an iteration takes less if"
            " that part alone lay there: such times do not add up, since an operation waits for the"
            " longer of its computing and its traffic."
        )


class HeldAnswer(Struct, frozen=True):
    """What the best plan holds as training software keeps it, by formulas, and whether it fits."""

    json_parts = ("memory=rows",)

    rows: MemoryRows
    memory: PlanMemory
    stages: int
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, result: SearchResult) -> "HeldAnswer":
        """The memory of the best plan.

        Raises
        ------
        TypeError
            If no stack says what memory holds.
        """
        best = result.best
        if best.memory is None:
            raise TypeError("no stack says what memory holds")
        rows = memory_rows(result.setting_of(best), best)
        return cls(rows, best.memory, best.plan.pipeline)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Which stage it is, whether that fits, and what the symbols of its formulas are."""
        formulas = " ".join(row.formula for row in self.rows.parts)
        used = formulas.replace("(", " ").replace(")", " ").split(" ")
        known = (row for row in self.rows.symbols if row.symbol.split()[0] in used)
        symbols = ", ".join(f"{row.symbol} {_value(row)}" for row in known)
        return (f"{self._stage} {self._verdict}", f"Symbols, said in --details: {symbols}.")

    @property
    def _stage(self) -> str:
        """The fullest stage."""
        memory = self.memory
        flying = "microbatch" if memory.in_flight == 1 else "microbatches"
        where = f"Stage {memory.stage} of {self.stages}, from 0 on, is the fullest"
        if self.stages == 1:
            where = "All layers lie on one stage"
        return f"{where}: {memory.layers:g} layers, {memory.in_flight:.4g} {flying} in flight."

    @property
    def _verdict(self) -> str:
        """Whether it fits, by which rule."""
        memory = self.memory
        needed = FRAGMENTATION * memory.peak_bytes + memory.outside
        ends = f"{memory.low_bytes / 1e9:.3g}-{memory.high_bytes / 1e9:.3g}"
        return (
            f"Verdict {memory.verdict}: peak {memory.peak_bytes / 1e9:.3g} GB ({ends} in nine of"
            f" ten runs), with fragments and what lies outside {needed / 1e9:.3g} GB of the"
            f" {memory.usable_bytes / 1e9:.3g} GB that programs see ({memory.basis})."
        )

    def sections(self) -> Iterator[Section]:
        """The parts, what a layer keeps by operation, symbols, and the verdict."""
        yield Table("memory_parts", HELD, self.rows.parts, "What its fullest GPU holds")
        title = "What one layer keeps of one microbatch"
        yield Table("memory_operations", KEPT, self.rows.operations, title)
        symbols: list[Column[SymbolRow]] = [
            column("symbol"),
            column("symbol_text", _value, shown="people"),
            column("symbol_value", "value", shown="data"),
            column("symbol_meaning", "meaning"),
        ]
        yield Table("memory_symbols", symbols, self.rows.symbols, "Symbols, of one GPU")
        yield Paragraph(self._stage)
        yield Paragraph(self._verdict)


def _value(row: SymbolRow) -> str:
    """A value as people write it: bytes of memory with a prefix, counts in full."""
    if row.symbol[0] in "AM":
        return si(row.value, "B", 4)
    return f"{row.value:,.0f}" if row.value == round(row.value) else f"{row.value:,.4g}"

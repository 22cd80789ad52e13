"""The layer of the best plan: its operations, or the partitions that its kernels lie in."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from netplan.answers.map_answer import ChipRates, PartitionRow, partition_columns, partition_rows
from netplan.performance.explain import OperationRow, layer_operations, plan_fusion
from netplan.performance.plan import SearchResult
from netplan.reports.schema import plain_at
from netplan.reports.sections import Column, Section, Table, column, columns
from netplan.units import si
from netplan.workloads.accelerators import Accelerator

OPERATIONS: list[Column[OperationRow]] = [
    *columns("operation", "direction", "tensor_flops"),
    column("vector_flops", shown="wide"),
    column("moved_bytes"),
    *columns("weight_bytes", "activation_bytes", "collectives", "compute_s", shown="wide"),
    *columns("memory_s", "communication_s", shown="wide"),
    column("time_s", form="si", digits=3),
]


class LayerAnswer(Struct, frozen=True):
    """Operations of the layer, or partitions of its mapping, and what the chip offers them.

    A model that is ``spread`` over all GPUs alike has no layers: its operations are all there are.
    """

    json_parts = "?layer=operations", "?mapping"

    operations: tuple[OperationRow, ...] = ()
    partitions: tuple[PartitionRow, ...] = ()
    rates: ChipRates | None = None
    sequence_tile: int = 0
    interval_s: float = 0.0
    convex_s: float = 0.0
    exact: bool = False
    spread: bool = False

    @classmethod
    def of(cls, result: SearchResult, what: str, chip: Accelerator) -> "LayerAnswer":
        """The layer of the best plan."""
        best = result.best
        setting = result.setting_of(best)
        if what == "layer":
            spread = setting.spread_model is not None
            return cls(layer_operations(setting, result.levels, best), spread=spread)
        fusion, convex_s = plan_fusion(setting, result.levels, best.plan)
        rows = partition_rows(fusion, np.ones(fusion.graph.count, bool))
        tile, interval_s = fusion.sequence_tile, fusion.interval_s
        return cls((), rows, ChipRates.of(chip), tile, interval_s, convex_s, fusion.exact)

    @property
    def mapping(self) -> dict[str, Any] | None:
        """The mapping as JSON; None where a layer is told by its operations."""
        paths = "sequence_tile", "interval_s", "convex_interval_s=convex_s", "partitions"
        return None if self.operations else plain_at(self, *paths)

    def sections(self) -> Iterator[Section]:
        """One table."""
        if self.rates is None:
            title = "Operations of a layer of plan 1, one microbatch"
            title = "Operations of plan 1, an iteration" if self.spread else title
            yield Table("layer", OPERATIONS, self.operations, title)
            return
        rows = list(enumerate(self.partitions, start=1))
        title = (
            f"Partitions of a layer of plan 1, {si(self.interval_s, 's', 4)} a sequence, in tiles"
            f" of {self.sequence_tile:,} tokens"
        )
        yield Table("mapping", partition_columns(self.rates), rows, title)

    @property
    def notes(self) -> tuple[str, ...]:
        """How near the partitions are to the best."""
        if self.rates is None or self.exact:
            return ()
        less = 100 * (1 - self.convex_s / self.interval_s)
        note = "A search cuts a layer along a few orders of its kernels; of all convex partitions"
        return (f"{note} in these sequence tiles the best take {less:.1f} % less.",)

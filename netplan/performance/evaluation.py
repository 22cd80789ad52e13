"""Times and memory of all plans of a space: what many of them share is computed once.

Memory comes first, as it depends on the schedule alone; it says what spills into an expanded memory
(`netplan.performance.spill`), and so how long operations take, in layers
(`netplan.performance.compute`) and iterations (`netplan.performance.iteration`).
"""

from collections.abc import Collection

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.performance.compute import LayerGroups, layer_table
from netplan.performance.iteration import IterationTerms
from netplan.performance.memory import Memory, memory_of
from netplan.performance.setting import Setting
from netplan.performance.space import PlanSpace
from netplan.performance.spill import Spilled
from netplan.performance.tiers import ORDER, Part
from netplan.records import replace
from netplan.traffic.hierarchy import Network

SPILLED_PLANS = 1 << 12
"""Plans that spill, and whose layers are timed one by one, together: their arrays stay in the
cache [1]."""


class Evaluated(Struct, frozen=True, eq=False):
    """Times and memory of all plans of a space.

    Where plans spill that share layers, times of layers are those without: least times, as long as
    the expanded memory is slower. In a space of single plans they are whole.
    """

    terms: IterationTerms
    memory: Memory
    spilled: Spilled

    @property
    def seconds(self) -> Floats:
        """Times of a space of single plans [s]."""
        each = np.arange(len(self.memory.weights))
        return self.terms.seconds(each, each, each)


def evaluate_space(
    setting: Setting, network: Network, space: PlanSpace, there: Collection[Part] = ORDER
) -> Evaluated:
    """Compute what many plans share, and of single plans all there is.

    Parts that are not ``there`` lie in the local memory, whatever room it has.
    """
    groups = LayerGroups.of(network, space.layer_placements, space.sharding_layer)
    table = layer_table(setting, space.sharding, groups)
    memory = memory_of(setting, space.runs, table)
    spilled = Spilled.of(setting, memory).keeping(there)
    if space.single and spilled.plans.any():
        spill = spilled.traffic(space.runs.totals, table.repetition)
        table = layer_table(replace(setting, spill=spill), space.sharding, groups)
    update_s = spilled.update_s(table.repetition)
    terms = IterationTerms.of(setting, network, space, table, update_s)
    return Evaluated(terms, memory, spilled)

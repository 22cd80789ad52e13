"""Collectives of 1 GB over all GPUs of a fabric: by the model, on its links, and at the optimum."""

from collections.abc import Callable, Iterator
from math import inf, prod
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.progress import each
from netplan.questions.setup.placed_run import PlacedRun
from netplan.reports.sections import Column, column, columns
from netplan.topologies.graph import FabricGraph
from netplan.traffic.hierarchy import Group
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.optimum import Optimum, collective_optimum
from netplan.traffic.placement import Degrees, Placement
from netplan.traffic.symmetry import CapacityGraph
from netplan.traffic.training import use_traffic
from netplan.workloads.program import CollectiveUse

WHOLE_BYTES = 1e9
SHOWN: tuple[Literal["all_gather", "all_reduce"], ...] = ("all_gather", "all_reduce")
"""A reduce_scatter takes as long as an all_gather where links are full duplex."""


class WholeCollective(Struct, frozen=True):
    """A collective of all GPUs: by the model and by its busiest link where its levels hold them.

    The optimum is None where it is not proven; the bound and what is reached enclose it [s].
    """

    collective: str
    members: int
    data_bytes: float
    analytic_s: float | None
    busiest_s: float | None
    optimum_s: float | None
    bound_s: float
    reached_s: float | None


WHOLE: tuple[Column[WholeCollective], ...] = (
    *columns("collective", "members", "data_bytes"),
    column("analytic_s", title="model"),
    column("busiest_s", title="by link"),
    column("optimum_s"),
    column("bound_s", shown="never"),
    column("reached_s", shown="never"),
)
"""Columns of the collectives of all GPUs."""


def whole_collectives(
    run: PlacedRun, graph: FabricGraph, busiest_s: Callable[[TrafficMatrix], float]
) -> Iterator[WholeCollective]:
    """Collectives of all GPUs of the fabric that a run is placed on.

    Parameters
    ----------
    run, graph
        The run, and the graph of its fabric.
    busiest_s
        Time of the busiest link under a traffic [s].
    """
    network = CapacityGraph.of(graph)
    sizes = [level.size for level in run.levels]
    held = prod(sizes) == graph.gpus
    gather: Optimum | None = None
    for kind in each(SHOWN, lambda kind: f"{kind} of all GPUs"):
        found = collective_optimum(kind, network, gather=gather)
        gather = found.worst if kind == "all_gather" else gather
        reached = found.reached_s_per_byte * WHOLE_BYTES
        times = _timed(run, kind, sizes, busiest_s) if held else (None, None)
        yield WholeCollective(
            collective=kind,
            members=graph.gpus,
            data_bytes=WHOLE_BYTES,
            analytic_s=times[0],
            busiest_s=times[1],
            optimum_s=reached if found.worst.exact else None,
            bound_s=found.bound_s_per_byte * WHOLE_BYTES,
            reached_s=None if reached == inf else reached,
        )


def _timed(
    run: PlacedRun,
    kind: Literal["all_gather", "all_reduce"],
    sizes: list[int],
    busiest_s: Callable[[TrafficMatrix], float],
) -> tuple[float, float]:
    """Times by the model and by the busiest link [s]."""
    network = run.setting.network(run.fabric.levels)
    twice = kind == "all_reduce" and network.communication.links is None
    members = np.array(sizes)[:, None]
    group = Group(members, np.ones_like(members))
    one = network.collective("all_gather" if twice else kind, group)
    placement = Placement(tuple(Degrees(data=size) for size in sizes)).on(run.fabric.levels)
    use = CollectiveUse("data", kind, ("data",), WHOLE_BYTES, 1.0)
    matrix = use_traffic(use, placement, run.algorithm, gpus=run.fabric.sizing.gpus)
    return (1 + twice) * float(one.sending_s(WHOLE_BYTES)[0]), busiest_s(matrix)

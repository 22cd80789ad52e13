"""``netplan loads``: what every link carries in one iteration, and how near it is to the bound."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from netplan.levels import Level
from netplan.performance.space import single_plan
from netplan.questions.run import Workload, find_workload
from netplan.reports.text import Cell
from netplan.topologies.expand import expand
from netplan.topologies.graph import FabricGraph
from netplan.traffic.algorithms import Collective
from netplan.traffic.bounds import lower_bound
from netplan.traffic.groups import Network, group_of
from netplan.traffic.loads import GroupLoad, HotLink, LinkLoads
from netplan.traffic.matrix import KINDS, TrafficMatrix, combine
from netplan.traffic.patterns import both_ways
from netplan.traffic.placement import DIMENSIONS
from netplan.traffic.routing import Routing, link_loads
from netplan.traffic.training import use_traffic
from netplan.version import __version__
from netplan.workloads.operations import CollectiveKind
from netplan.workloads.program import CollectiveUse

if TYPE_CHECKING:
    import pandas as pd

    from netplan.questions.run_question import RunQuestion


@dataclass(frozen=True, slots=True)
class CollectiveLoad:
    """One collective of the iteration: its times by model, by links, and its bound [s, one run].

    Parameters
    ----------
    kind, collective, members, data_bytes, times, stage
        What runs, over how many GPUs, how large [B], how often in an iteration [1], and whether
        ``each`` pipeline stage runs it, or the ``first`` or ``last`` one only.
    analytic_s
        Bandwidth part of the iteration model's time.
    busiest_s
        Time of the busiest link, if all groups run at once.
    bound_s, binding
        Lower bound for any algorithm on these levels, and what sets it.
    """

    kind: str
    collective: str
    members: int
    data_bytes: float
    times: float
    stage: str
    analytic_s: float
    busiest_s: float
    bound_s: float
    binding: str

    @property
    def ratio(self) -> float:
        """Analytic time over the bound [1]."""
        return self.analytic_s / self.bound_s if self.bound_s else 1.0


@dataclass(frozen=True, slots=True)
class LoadsAnswer:
    """The answer of :func:`loads`."""

    workload: Workload
    routing: str
    graph: FabricGraph
    link_loads: LinkLoads
    groups: tuple[GroupLoad, ...]
    hottest: tuple[HotLink, ...]
    collectives: tuple[CollectiveLoad, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan loads --format json``."""
        return {
            "netplan_version": __version__,
            "inputs": {**self.workload.inputs, "routing": self.routing},
            "plan": self.workload.timed.plan.to_dict(),
            "links": self.graph.link_count,
            "unused_links": len(self.link_loads.unused_links),
            "busiest_s": self.link_loads.busiest_s,
            "groups": self.to_rows(),
            "hottest": [asdict(link) for link in self.hottest],
            "collectives": [{**asdict(one), "ratio": one.ratio} for one in self.collectives],
            "notes": list(self.notes),
        }

    def to_rows(self) -> list[dict[str, Cell]]:
        """One flat row a group of links."""
        return [asdict(group) for group in self.groups]

    def to_frame(self) -> "pd.DataFrame":
        """One row a group of links."""
        import pandas as pd

        return pd.DataFrame(self.to_rows()).set_index("group")

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(escape=True))


def loads(
    *,
    routing: Routing = "auto",
    hot: int = 5,
    seed: int = 0,
    **question: Unpack["RunQuestion"],
) -> LoadsAnswer:
    """Find the load of every link in one training iteration.

    Parameters
    ----------
    routing
        ``auto`` (the fabric's own), ``ecmp``, ``hashed``, ``dimension-order``,
        ``minimal-adaptive``, ``minimal`` or ``valiant``.
    hot
        Hottest links to name [1].
    seed
        Seed of ``hashed`` routing.
    question
        As in `netplan.questions.run.find_workload`.

    Raises
    ------
    NetplanError
        If an input is not allowed, or there is no plan.

    Examples
    --------
    Training traffic leaves the spine of a rail-optimized fabric idle where rails fit a leaf.

    >>> answer = loads(gpus=1024, radix=64, hb_size=32, model="gpt-146b", batch=1024)
    >>> [(group.group, group.unused == group.directions) for group in answer.groups]
    [('hb', False), ('host', False), ('leaf-spine', True)]
    """
    workload = find_workload(**question)
    graph = expand(workload.spec, workload.sizing)
    matrix = _as_wired(workload, workload.matrix())
    found = link_loads(graph, matrix, routing=routing, rng=np.random.default_rng(seed))
    collectives = tuple(_collectives(workload, graph, routing))
    return LoadsAnswer(
        workload=workload,
        routing=routing,
        graph=graph,
        link_loads=found,
        groups=found.by_group(),
        hottest=found.hottest(hot),
        collectives=collectives,
        notes=(*workload.fabric.notes, *_agreement(collectives)),
    )


def _collectives(
    workload: Workload, graph: FabricGraph, routing: Routing
) -> Iterator[CollectiveLoad]:
    """Every collective of the iteration, alone on the fabric."""
    network = Network(
        workload.fabric.levels,
        workload.setting.assumptions.communication.used,
        workload.setting.mode,
    )
    placements = single_plan(workload.timed.plan).placements
    for use in workload.collectives:
        group = group_of(placements, *(DIMENSIONS.index(name) for name in use.dimensions))
        # An all_reduce of the iteration is a reduce_scatter and an all_gather.
        whole = use.collective == "all_reduce"
        kind: CollectiveKind = "all_gather" if whole else use.collective
        slope = (2 if whole else 1) * float(network.collective(kind, group).s_per_byte[0])
        matrix = use_traffic(use, workload.placement, workload.patterns.of(use))
        bound = lower_bound(
            _BOUNDED_AS[use.collective],
            _levels_of(workload, use),
            data_bytes=use.data_bytes,
            fabric=_reach(workload),
        )
        yield CollectiveLoad(
            kind=use.kind,
            collective=use.collective,
            members=workload.placement.degree(*use.dimensions),
            data_bytes=use.data_bytes,
            times=use.times,
            stage=use.stage,
            analytic_s=slope * use.data_bytes,
            busiest_s=link_loads(graph, _as_wired(workload, matrix), routing=routing).busiest_s,
            bound_s=bound.bound_s,
            binding=bound.binding,
        )


_BOUNDED_AS: dict[CollectiveKind, Collective] = {
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_reduce": "all_reduce",
    "all_to_all": "all_to_all",
    "broadcast": "all_gather",
    "reduce": "reduce_scatter",
}
"""The roots of SUMMA panels take turns: together they gather, or reduce and scatter."""


def _as_wired(workload: Workload, matrix: TrafficMatrix) -> TrafficMatrix:
    """Collectives of the rings of a torus use both links of a GPU, half of the bytes each."""
    if not any(level.kind == "ring" for level in workload.fabric.levels):
        return matrix
    return combine(
        [
            matrix.of_kind(kind) if kind == "pipeline" else both_ways(matrix.of_kind(kind))
            for kind in KINDS
        ]
    )


def _levels_of(workload: Workload, use: CollectiveUse) -> list[Level]:
    """The levels as one group of the collective sees them."""
    splits = workload.placement.splits(*use.dimensions)
    return [
        Level(level.kind, members, level.link_bytes_per_s)
        for level, members in zip(workload.fabric.levels, splits, strict=True)
    ]


def _reach(workload: Workload) -> Literal["rail-only", "rail-optimized"]:
    """Whether the network joins all GPUs of a group, or those of a rail."""
    any_to_any = workload.fabric.network == "any-to-any"
    switched = workload.fabric.levels[-1].kind == "switch"
    return "rail-optimized" if any_to_any and switched else "rail-only"


def _agreement(collectives: tuple[CollectiveLoad, ...]) -> Iterator[str]:
    """Why the model's time and the busiest link differ, where they do."""
    for one in collectives:
        if one.busiest_s > one.analytic_s * (1 + 1e-9):
            yield (
                f"The {one.kind} {one.collective} needs {one.busiest_s:.3g} s on its busiest link,"
                f" more than the model's {one.analytic_s:.3g} s: this pattern or routing shares"
                " links that the model takes for separate."
            )
        elif one.busiest_s < one.analytic_s * (1 - 1e-9) and one.collective in (
            "broadcast",
            "reduce",
        ):
            yield (
                f"The model sends all panels of the {one.kind} {one.collective} over each link"
                f" ({one.analytic_s:.3g} s); those that a GPU has itself it need not get"
                f" ({one.busiest_s:.3g} s)."
            )
        elif one.busiest_s < one.analytic_s * (1 - 1e-9):
            yield (
                f"The model adds the phases of the {one.kind} {one.collective}"
                f" ({one.analytic_s:.3g} s); the busiest link works in one of them"
                f" ({one.busiest_s:.3g} s)."
            )

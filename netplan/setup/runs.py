"""The run whose traffic a question is about, training or serving, placed on one fabric."""

from typing import TYPE_CHECKING, Any

import numpy as np

from netplan.errors import InfeasibleError
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader, sized
from netplan.setup.fitting import with_fitting
from netplan.setup.placed_run import PlacedRun
from netplan.setup.question import FOUND, Question
from netplan.setup.training import plan_inputs, plan_options, plan_search, training_case
from netplan.topologies.build import build_fabric
from netplan.traffic.patterns import Pattern
from netplan.workloads.accelerators import ACCELERATORS

if TYPE_CHECKING:
    from netplan.setup.served_run import ServedRun

Asked = Question[Any]
PLACED = FOUND | {"fabric", "expanded_memory"}
"""Inputs of a scenario, beside those of networks and runs, that say where a run lies."""
PATTERN = "Pattern of the collectives."
"""Help of the input that says which pairs of a group talk."""


def place_training(asked: Asked, algorithm: Pattern | str) -> PlacedRun:
    """A training run by its best plan; if values are given, and none fits, by the fastest."""
    case, given = training_case(asked), plan_options(asked).fixed.given
    try:
        result = plan_search(asked, case.training).best_on_all(case.fabric.levels)
    except InfeasibleError as error:
        if not given:
            raise with_fitting(error, asked, case.fabric.levels) from None
        anyway = replace(case.training, ignore_memory=True)
        result = plan_search(asked, anyway).best_on_all(case.fabric.levels)
    timed = result.best
    setting = result.setting_of(timed)
    inputs = plan_inputs(asked, case, setting)
    return PlacedRun(inputs, case.spec, case.fabric, setting, timed, algorithm)


def place_serving(asked: Asked, algorithm: Pattern | str) -> "ServedRun":
    """A served model by its best plan.

    Raises
    ------
    InputError
        If tokens are drafted: of such steps no round is known.
    """
    from netplan.setup.served_run import ServedRun
    from netplan.setup.serving_run import serve_best

    drafted = {"draft", "window", "acceptance", "speculation"}
    asked.refuse(drafted, "a round of servers, in which every request gets one token")
    reader, cluster = CatalogReader(asked.catalog, asked.overrides), asked.cluster
    on = reader.load(ACCELERATORS, cluster.accelerator)
    spec = reader.fabric(cluster.fabric, cluster)
    best = serve_best(asked, reader, cluster.fabric)
    case, servers_found = best.searched.case, best.searched.found
    first = np.zeros(1, dtype=np.int64)
    inputs = asked.inputs(
        stack=case.stack.name,
        kernels=case.served.kernels.source,
        hb_size=case.served.sizes[0],
        set=reader.replaced(),
    )
    return ServedRun(
        inputs=inputs,
        spec=spec,
        fabric=build_fabric(spec, sized(asked.cluster, on)),
        case=case,
        outcome=servers_found.ranked.take(first),
        pools=servers_found.pools.take(first) if servers_found.pools is not None else None,
        algorithm=algorithm,
        plan=best.plan,
        told=best.searched.notes,
    )

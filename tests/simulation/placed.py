"""Small training runs, placed on fabrics, for the simulator."""

from functools import cache
from typing import Any

from netplan.questions.loads import Loads
from netplan.setup.placed_run import PlacedRun
from netplan.setup.runs import place_training
from netplan.simulation.outcome import SimulationOutcome
from netplan.simulation.simulate import PLAIN, Conditions, simulate_training
from netplan.topologies.expand import expand
from netplan.topologies.graph import FabricGraph

Case = dict[str, Any]

USUAL: Case = {
    "gpus": 64,
    "radix": 16,
    "hb_size": 4,
    "model": "gpt-146b",
    "batch": 64,
    "fabric": "fat-tree",
}


def placed(**inputs: Any) -> tuple[PlacedRun, FabricGraph]:  # noqa: ANN401 - of every type
    """A run, 64 GPUs in HB domains of 4 on a fat tree unless said otherwise, and its links."""
    fixed = inputs.pop("fixed", None)
    degrees = tuple(fixed.items()) if isinstance(fixed, dict) else ()
    return _placed(tuple(sorted({**USUAL, **inputs}.items())), degrees)


@cache
def _placed(
    inputs: tuple[tuple[str, object], ...], degrees: tuple[tuple[str, int], ...]
) -> tuple[PlacedRun, FabricGraph]:
    asked = Loads.make("rail-only-paper", **dict(inputs), fixed=dict(degrees))
    run = place_training(asked, asked.algorithm)
    return run, expand(run.spec, run.fabric.sizing)


def simulated(conditions: Conditions = PLAIN, **inputs: Any) -> SimulationOutcome:  # noqa: ANN401 - of every type
    """What becomes of such a run."""
    run, graph = placed(**inputs)
    return simulate_training(run.setting, run.timed, run.fabric, graph, conditions)

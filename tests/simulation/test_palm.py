"""The published mode against the published code, its paper, and sums by hand."""

import csv
from functools import cache
from pathlib import Path

import pytest

from netplan.simulation.outcome import Outcome
from netplan.simulation.palm import PalmRun, simulate_palm
from netplan.simulation.palm_model import ANY_ITERATION_MODEL
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

GOLDEN = Path(__file__).parents[1] / "golden" / "tiled_golden.csv"
with GOLDEN.open(encoding="utf-8") as lines:
    ROWS = list(csv.DictReader(lines))
PUBLISHED = {
    (row["case"].lower(), int(row["TP"]), int(row["DP"]), int(row["PP"])): float(row["value"])
    for row in ROWS
    if row["quantity"].endswith("throughput of the published code")
}


def palm_run(name: str, fabric: str, degrees: tuple[int, int, int], **given: object) -> PalmRun:
    """A run of a model of the paper by tensor, data and pipeline degree."""
    tensor, data, pipeline = degrees
    wafer = fabric == "palm-wafer"
    gpus = 320 if wafer else max(16, tensor * data * pipeline)
    model, spec = MODELS.load(name), FABRICS.load(fabric)
    factor = given.pop("stationary_factor", None)
    overrides = {} if factor is None else {"iteration-model.memory.stationary_factor": str(factor)}
    kept = {
        "model": model,
        "batch": model.batch,
        "on": ACCELERATORS.load("palm-wafer-core" if wafer else "palm-a100"),
        "rules": ANY_ITERATION_MODEL.load("palm", overrides=overrides),
        "spec": spec,
        "fabric": build_fabric(spec, Sizing(gpus, 64, 1, 1e9, 1e9)),
    }
    return PalmRun(tensor=tensor, data=data, pipeline=pipeline, **(kept | given))


@cache
def graph_of(fabric: str, gpus: int) -> FabricGraph:
    return expand(FABRICS.load(fabric), Sizing(gpus, 64, 1, 1e9, 1e9))


def simulated(run: PalmRun, *, contention: bool = True, full: bool = False) -> Outcome:
    graph = graph_of(run.spec.name, run.fabric.sizing.gpus)
    return simulate_palm(run, graph, contention=contention, full=full)


@pytest.mark.parametrize(("case", "value"), PUBLISHED.items())
def test_throughput_is_the_published_code_s(case: tuple[str, int, int, int], value: float) -> None:
    name, tensor, data, pipeline = case
    fabric = "palm-wafer" if pipeline == 20 else "palm-gpu"
    found = simulated(palm_run(name, fabric, (tensor, data, pipeline)))
    # The reference has five digits; it allows 1e-4.
    assert found.sequences_per_s == pytest.approx(value, rel=3e-5)

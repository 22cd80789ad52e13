"""The published mode of netplan simulate: a run by the rules of the PALM simulator's code.

Degrees, schedule and recomputation are as given, nothing is searched (`netplan.simulation.palm`).
"""

from pathlib import Path

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.performance.plan import Plan
from netplan.progress import share_done
from netplan.questions.answers.simulate_answer import SimulateAnswer
from netplan.questions.setup.simulation_inputs import SimulationQuestion
from netplan.questions.setup.training import plan_options, training_inputs
from netplan.reports.sections import Heading
from netplan.scenarios.reading import CatalogReader, sized
from netplan.simulation.palm import PalmRun, simulate_palm
from netplan.simulation.palm_model import PalmModel
from netplan.simulation.ranks import read_ranks
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.families.tiles import tile_order
from netplan.topologies.specs import FabricSpec
from netplan.traffic.placement import Degrees, Placement
from netplan.units import counted
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

PUBLISHED_DEGREES = {"tensor", "data", "pipeline", "microbatch"}
NOT_PUBLISHED = (
    *("strategy", "experts", "top_k", "expert_degree", "zero_stage", "embedding", "lm_head"),
    *("interleave", "algorithm", "routing", "seed", "slow", "fail", "graph", "jobs"),
    *("inference", "offload", "memory_policy"),
)
"""Inputs that mean nothing in the published mode."""


def published_answer(
    asked: SimulationQuestion, reader: CatalogReader, rules: PalmModel
) -> SimulateAnswer:
    """Simulate by the rules of the published code.

    Raises
    ------
    InputError
        If an input means nothing there, or degrees do not fit.

    Examples
    --------
    >>> from netplan.questions.simulate import simulate
    >>> asked = {"gpus": 16, "fabric": "palm-gpu", "accelerator": "palm-a100", "model": "t-18b"}
    >>> found = simulate("rail-only-paper", mode="published-code",
    ...     fixed={"tensor": 8, "pipeline": 2}, **asked)
    >>> found.plan.shape, found.found.microbatches_simulated
    ('8x2x1', 2)
    """
    run = _run(asked, reader, rules)
    graph = expand(run.spec, run.fabric.sizing)
    placement = Placement((Degrees(run.tensor, data=run.data, pipeline=run.pipeline),))
    plan = Plan(placement, run.sequences, run.microbatches)
    found = simulate_palm(
        run,
        graph,
        contention=asked.contention,
        full=asked.full,
        hot=asked.hot,
        tick=share_done("microbatches simulated"),
    )
    inputs = training_inputs(
        asked, hb_size=graph.hb_size, batch=run.batch, schedule=run.schedule, set=reader.replaced()
    )
    parts = counted(run.microbatches, "microbatch", "microbatches")
    batches = f"{parts} of {run.sequences:,} sequences"
    heading = Heading(
        f"Simulation of {run.model.name}, batch {run.batch:,}, on {asked.cluster.gpus:,}"
        f" {run.on.name}",
        (
            f"fabric {run.spec.name}; iteration model {run.rules.name}",
            f"plan as given: {plan.shape} (TPxPPxDP), {batches}",
            f"schedule {run.schedule}, recomputation {run.recompute}",
        ),
    )
    notes = (*run.fabric.notes, *found.notes)
    return SimulateAnswer(inputs, heading, found, plan, notes=notes)


def _run(asked: SimulationQuestion, reader: CatalogReader, rules: PalmModel) -> PalmRun:
    """The run of the published mode, with the degrees that are given."""
    asked.refuse(NOT_PUBLISHED, f"iteration model {rules.name}")
    if asked.training.recompute in ("selective", "half") or asked.simulated == "interleaved":
        raise InputError(
            f"iteration model {rules.name} knows --recompute none and full, --schedule 1f1b and"
            " gpipe: give one of them"
        )
    if asked.training.optimizer == "sgd":
        raise InputError(
            f"iteration model {rules.name} counts Adam's update, as published: leave --optimizer"
            " sgd out, or take another iteration model"
        )
    fixed = plan_options(asked).fixed
    if unknown := set(fixed.given) - PUBLISHED_DEGREES:
        known = ", ".join(sorted(PUBLISHED_DEGREES))
        raise InputError(f"--fix {min(unknown)}: iteration model {rules.name} has {known}")
    on = reader.load(ACCELERATORS, asked.cluster.accelerator)
    spec = reader.fabric(asked.cluster.fabric, asked.cluster.ports)
    model = reader.load(MODELS, asked.training.model)
    fabric = build_fabric(spec, sized(asked.cluster, on))
    tensor, pipeline = fixed.tensor or 1, fixed.pipeline or 1
    data = fixed.data or max(1, asked.cluster.gpus // (tensor * pipeline))
    return PalmRun(
        model=model,
        batch=asked.scenario.batch or model.batch_on(asked.cluster.gpus),
        on=on,
        rules=rules,
        spec=spec,
        fabric=fabric,
        tensor=tensor,
        data=data,
        pipeline=pipeline,
        microbatch=fixed.microbatch,
        recompute="none" if asked.training.recompute == "none" else "full",
        schedule=asked.simulated or "1f1b",
        gpus=_places(asked, spec, fabric.sizing.gpus, tensor * data * pipeline),
        groups=asked.groups,
    )


def _places(question: SimulationQuestion, spec: FabricSpec, gpus: int, used: int) -> Ints | None:
    """GPU at each place of a run of the published mode; None for its own order."""
    asked = question.placement
    if asked is None or (asked == "line" and spec.tile is None):
        return None
    if asked in ("line", "snake"):
        if spec.tile is None:
            raise InputError(f"--placement {asked} is for tiles, and {spec.name} has none")
        return tile_order(spec, gpus, "line" if asked == "line" else "snake")
    return read_ranks(Path(asked), used, gpus)

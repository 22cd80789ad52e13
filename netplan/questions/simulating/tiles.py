"""Any model on a mesh of tiles, operator by operator, as `netplan simulate` is asked for it.

Iteration model ``palm`` on a fabric of family ``tiles``: of a graph always, of a transformer where
it infers; a transformer that trains has PALM's one operation a layer (`netplan.simulation.palm`).
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from netplan.answers.simulate_answer import SimulateAnswer, TileRow
from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.performance.iteration_model import OPTIMIZER_BYTES
from netplan.progress import share_done
from netplan.questions.simulating.inputs import SimulationQuestion
from netplan.reports.sections import Heading
from netplan.scenarios.reading import CatalogReader, sized
from netplan.setup.software import CALIBRATED
from netplan.setup.training import plan_options, training_inputs
from netplan.simulation.palm_model import PalmModel
from netplan.simulation.ranks import read_ranks
from netplan.simulation.tile_mapping import MICROBATCHES, TileRates, TileStage, best_mapping
from netplan.simulation.tile_pipeline import TileRun, simulate_tiles
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.families.tiles import mesh_of, tile_order
from netplan.topologies.specs import FabricSpec
from netplan.units import counted
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.graph_model import GraphModel
from netplan.workloads.kernel_graph import KernelGraph
from netplan.workloads.model_graphs import layer_graph
from netplan.workloads.models import WORKLOADS, Model
from netplan.workloads.precision import NUMBER_BYTES, precision_named
from netplan.workloads.tile_operators import operators_of

OF_TILES = ("pipeline", "microbatch")
"""What --fix says of a run on tiles; how a stage cuts its operators is found."""
NOT_ON_TILES = (
    *("strategy", "experts", "top_k", "expert_degree", "zero_stage", "embedding", "lm_head"),
    *("interleave", "algorithm", "routing", "seed", "slow", "fail", "graph", "jobs", "groups"),
    *("offload", "memory_policy", "recompute", "optimizer"),
    *(name for name in CALIBRATED if name != "precision"),
)
"""Inputs that mean nothing for a run on tiles."""


def runs_on_tiles(asked: SimulationQuestion, reader: CatalogReader) -> bool:
    """Whether a run of iteration model ``palm`` is one of operators, not of whole layers."""
    model = reader.load(WORKLOADS, asked.training.model)
    return asked.inference or isinstance(model, GraphModel)


def tile_answer(
    asked: SimulationQuestion, reader: CatalogReader, rules: PalmModel
) -> SimulateAnswer:
    """Simulate a model on tiles, operator by operator.

    Raises
    ------
    InputError
        If an input means nothing there, or the model or fabric is of another kind.

    Examples
    --------
    >>> from netplan.questions.simulate import simulate
    >>> answer = simulate("grayskull-paper", model="examples/lenet.yaml", inference=True,
    ...     fixed={"pipeline": 4, "microbatch": 1})
    >>> answer.gpus_used <= 120, [row.held for row in answer.tiles]
    (True, ['all', 'all', 'all', 'all'])
    """
    asked.reject_inputs(NOT_ON_TILES, "a run on tiles, operator by operator")
    if asked.training.mode == "published-code":
        raise InputError(
            "--mode published-code has one operation a layer of a transformer that trains: leave it"
            " and --inference out, or take --iteration-model palm alone"
        )
    fixed = plan_options(asked).fixed
    if unknown := set(fixed.given) - set(OF_TILES):
        raise InputError(
            f"--fix {min(unknown)}: a run on tiles has {' and '.join(OF_TILES)}; how a stage cuts"
            " its operators is found"
        )
    on = reader.load(ACCELERATORS, asked.cluster.accelerator)
    spec = reader.fabric(asked.cluster.fabric, asked.cluster)
    if spec.tile is None or spec.tile.channel_bytes_per_s is None:
        raise InputError(
            f"--fabric {spec.name} has no tiles with memory channels, on which a pipeline of"
            " operators runs: take grayskull or palm-wafer, or another iteration model"
        )
    model = reader.load(WORKLOADS, asked.training.model)
    graph = whole_graph(model)
    fabric = build_fabric(spec, sized(asked.cluster, on))
    gpus = fabric.sizing.gpus
    number_bytes, flops_per_s = _numbers(asked, on)
    channels = mesh_of(spec, gpus)
    rates = TileRates(
        product_flops_per_s=flops_per_s,
        other_flops_per_s=on.vector_flops_per_s,
        link_bytes_per_s=spec.tile.link_bytes_per_s,
        memory_bytes_per_s=spec.tile.channel_bytes_per_s
        * len(channels.channels)
        * float(np.prod(channels.tiles)),
        sram_bytes=_sram_bytes(on),
        # A gradient beside each weight, and what the optimizer holds.
        state_bytes=0.0 if asked.inference else 1 + OPTIMIZER_BYTES["adam"] / number_bytes,
    )
    batch = asked.scenario.batch or model.batch_on(gpus)
    tried = tuple(size for size in MICROBATCHES if size <= batch)
    run = TileRun(
        mapping=best_mapping(
            operators_of(graph, number_bytes),
            gpus,
            rates,
            stages=fixed.pipeline,
            microbatches=(fixed.microbatch,) if fixed.microbatch else tried,
        ),
        graph=graph,
        number_bytes=number_bytes,
        samples=batch,
        on=on,
        rules=rules,
        spec=spec,
        places=_places(asked, spec, gpus),
    )
    network = expand(spec, fabric.sizing)
    simulated = simulate_tiles(
        run,
        network,
        contention=asked.contention,
        full=asked.full,
        busiest=asked.hot,
        tick=share_done("microbatches simulated"),
    )
    rows = tuple(_rows(run.mapping.stages))
    parts = counted(run.microbatches, "microbatch", "microbatches")
    cores = f"{counted(len(rows), 'stage')} on {run.mapping.tiles:,} cores"
    passes = "inference" if asked.inference else "schedule 1f1b"
    heading = Heading(
        f"Simulation of {model.name}, batch {batch:,}, on {gpus:,} {on.name}",
        (
            f"fabric {spec.name}; iteration model {rules.name}, operator by operator",
            f"{cores}, {parts} of {run.mapping.microbatch:,}",
            f"{passes}, numbers of {number_bytes:g} B",
        ),
    )
    return SimulateAnswer(
        training_inputs(
            asked, hb_size=network.hb_size, batch=batch, schedule="1f1b", set=reader.replaced()
        ),
        heading,
        simulated,
        notes=(*fabric.notes, *simulated.notes),
        counts=model.counts,
        gpus_used=run.mapping.tiles,
        tiles=rows,
    )


def whole_graph(model: object) -> KernelGraph:
    """All layers of a model one after the other, forward kernels, on a single chip.

    Raises
    ------
    InputError
        If the model is no list of kernels, is cut for several chips, or has backward kernels.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> graph = whole_graph(MODELS.load("bert-base"))
    >>> graph.count, graph.names[18], len(graph.source)
    (216, 'AddPrev.2', 263)
    """
    if isinstance(model, Model):
        graph, layers = layer_graph(model, 1, "forward"), model.layers
    elif isinstance(model, GraphModel) and model.chips == 1 and not model.trains:
        graph, layers = model.graph(), model.layers
    elif isinstance(model, GraphModel):
        why = f"is cut for {model.chips} chips" if model.chips > 1 else "has backward kernels"
        raise InputError(
            f"{model.name} {why}: on tiles a file gives whole forward kernels, and netplan cuts"
            " them and adds the backward pass"
        )
    else:
        raise InputError(
            f"models of family {getattr(model, 'family', '')} do not run on tiles: take a"
            " transformer or a graph"
        )
    return graph.repeated(layers)


def _numbers(asked: SimulationQuestion, on: Accelerator) -> tuple[float, float]:
    """Bytes of a number, and the rate of its products [B], [FLOP/s].

    Raises
    ------
    InputError
        If the accelerator has no rate of such products.
    """
    named = asked.training.precision or "bf16"
    precision = precision_named("fp8" if named == "fp8-current" else named)
    if precision != "bf16" and precision not in on.narrow_flops_per_s:
        raise InputError(
            f"--precision {named}: {on.name} has no rate of such products: leave it out, or take"
            f" {', '.join(on.narrow_flops_per_s) or 'another accelerator'}"
        )
    rate = on.narrow_flops_per_s.get(precision, on.tensor_flops_per_s)
    return NUMBER_BYTES[precision], rate * (on.compute_utilisation or 1.0)


def _sram_bytes(on: Accelerator) -> float:
    """Memory of a core [B].

    Raises
    ------
    InputError
        If its file says nothing of it.
    """
    if not on.sram_bytes:
        raise InputError(
            f"a run on tiles asks how much stays in the SRAM, of which the file of {on.name} says"
            " nothing: --set accelerator.sram_bytes=1e6, or take grayskull-core"
        )
    return on.sram_bytes


def _places(asked: SimulationQuestion, spec: FabricSpec, gpus: int) -> Ints | None:
    """Core at each place of the run; None for the snake."""
    if asked.placement in (None, "snake"):
        return None
    if asked.placement == "line":
        return tile_order(spec, gpus, "line")
    return read_ranks(Path(str(asked.placement)), gpus, gpus)


def _rows(stages: tuple[TileStage, ...]) -> Iterator[TileRow]:
    """What each stage does, on how many tiles."""
    for number, stage in enumerate(stages):
        first, last = stage.pieces[0].operator.name, stage.pieces[-1].operator.name
        names = first if len(stage.pieces) == 1 else f"{first}..{last}"
        yield TileRow(number, names, stage.tiles, stage.held, stage.moved_bytes * stage.tiles)

"""A model of any family on a system of chips: what a layer takes on some, and what all make of it.

A transformer and a graph of a user's own are layers that follow each other: one is mapped onto the
chips of a tensor group (`netplan.performance.mapping`), stages and replicas of it run side by side.
A recommendation model and a Fourier transform are one graph that all chips run together, LINPACK is
a row of steps on a grid of all chips (`netplan.performance.linpack`).

Source: DFModel (Ko et al., ACM TACO 2024), Sec. IV and VI, and the logs of its public code.
"""

from collections.abc import Iterable
from math import inf

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools
from netplan.errors import InfeasibleError, InputError
from netplan.levels import Level
from netplan.performance.chip_network import ChipNetwork
from netplan.performance.dimensions import ParallelLayout
from netplan.performance.fusion import Fusion, lower_bound_s
from netplan.performance.linpack import LinpackSteps, linpack_steps
from netplan.performance.mapping import (
    MappingOptions,
    Pipeline,
    Throughput,
    map_graph,
    memory_bytes,
    pipeline_throughput,
)
from netplan.records import replace
from netplan.traffic.published_topology import Dimension, collective_s
from netplan.units import counted, si
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.families import FourierModel, LinpackModel, OtherModel, RecommendationModel
from netplan.workloads.fourier_graph import fourier_graph
from netplan.workloads.graph_model import GraphModel
from netplan.workloads.graph_program import Layered
from netplan.workloads.kernel_graph import Direction, Kernel, KernelGraph
from netplan.workloads.models import Model
from netplan.workloads.operations import ELEMENT_BYTES
from netplan.workloads.recommendation_graph import recommendation_graph
from netplan.workloads.transformer_graph import divides, layer_graph

MAX_LAYERS_MAPPED = 512
"""Layers of a recommendation model at most, of three kernels each [1]."""


class ChipSystem(Struct, frozen=True):
    """Chips, the links between them, and how a model is shared out.

    Parameters
    ----------
    chip, network
        The chip, and the links.
    chips
        Chips in all; where nobody said, those of a tensor group [1].
    tensor, pipeline, data
        Chips that share a layer, stages and replicas [1].
    microbatches
        Micro-batches of a global batch, over all replicas, which need not be whole; None fills the
        pipeline [1].
    data_level
        Links over which replicas sum up gradients once a batch; None leaves that out.
    """

    chip: Accelerator
    network: ChipNetwork
    chips: int
    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    microbatches: float | None = None
    data_level: Level | None = None

    @property
    def room_bytes(self) -> float:
        """Memory of a chip, with its second one [B]."""
        return self.chip.memory_bytes + self.chip.expanded_bytes

    def on(self, layout: ParallelLayout) -> "ChipSystem":
        """The same with the degrees of a layout, each on its dimension."""
        return replace(
            self,
            network=replace(self.network, levels=layout.levels),
            tensor=layout.tensor,
            pipeline=layout.pipeline,
            data=layout.data,
            data_level=layout.levels[-1],
        )

    def collectives_s(self, kernel: Kernel) -> float:
        """Time of a kernel's collectives: of the tensor group, all chips, gradients over replicas.

        Gradients are summed once a batch, so a micro-batch has its share of them.
        """
        network, chips = self.network, self.tensor
        group_s = network.group_s("all_reduce", kernel.all_reduce_bytes, chips)
        group_s += network.group_s("all_gather", kernel.all_gather_bytes, chips)
        group_s += network.group_s("broadcast", kernel.broadcast_bytes, chips)
        group_s += network.exchange_s(kernel.all_to_all_bytes, self.chips)
        if self.data_level is None or kernel.kind != "update" or self.microbatches is None:
            return group_s
        gradient_bytes = ELEMENT_BYTES * kernel.m * kernel.n
        share = self.data / self.microbatches
        over = Dimension.of(self.data_level)
        return group_s + share * collective_s("all_reduce", gradient_bytes, over)

    def throughput(self, layers: int, interval_s: float, flops: float = 0.0) -> Throughput:
        """What the pipeline of so many layers makes of the interval, and work, of one.

        Examples
        --------
        96 layers of 1 ms on two stages: 48 ms a sequence.

        >>> from netplan.workloads.accelerators import ACCELERATORS
        >>> system = ChipSystem(ACCELERATORS.load("sn10"), ChipNetwork(25e9), 16, 8, pipeline=2)
        >>> system.throughput(96, 1e-3).time_per_sequence_s
        0.048
        """
        microbatches = self.microbatches / self.data if self.microbatches else None
        pipeline = Pipeline(layers, self.pipeline, self.data, microbatches)
        peak = self.chip.tensor_flops_per_s
        return pipeline_throughput(interval_s, pipeline, flops=flops, peak_flops_per_s=peak)


class RunTotals(Struct, frozen=True):
    """The whole: interval and set-up, throughput in a unit, utilisation, memory, bound."""

    interval_s: float
    setup_s: float
    time_per_sequence_s: float
    throughput_per_s: float
    utilisation: float
    memory_bytes: float
    lower_bound_s: float | None
    unit: str


class SystemRun(Struct, frozen=True, eq=False):
    """What a system makes of a model.

    Parameters
    ----------
    totals
        The whole.
    fusion
        The graph of one chip, cut into partitions; None for LINPACK.
    counted
        Kernels of it that the totals count, shape (kernels,).
    steps
        Steps of LINPACK.
    """

    totals: RunTotals
    fusion: Fusion | None = None
    counted: Bools | None = None
    steps: LinpackSteps | None = None


def run_model(
    model: Model | OtherModel, system: ChipSystem, direction: Direction, options: MappingOptions
) -> SystemRun:
    """What a system makes of a model, by its family.

    Parameters
    ----------
    model
        A model of any family.
    system
        The chips.
    direction
        Pass of a transformer.
    options
        How kernels are put on a chip.

    Raises
    ------
    NetplanError
        If the model does not lie on these chips, or has no room on them.

    Examples
    --------
    The layer of GPT 175B on eight SN10 (DFModel, Sec. VII), as fast as can be.

    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> system = ChipSystem(ACCELERATORS.load("sn10"), ChipNetwork(25e9), 8, tensor=8)
    >>> options = MappingOptions(sequence_tile=32)
    >>> found = run_model(MODELS.load("gpt-175b"), system, "forward", options)
    >>> len(found.fusion.members), round(found.totals.throughput_per_s, 2)
    (2, 1.18)
    """
    match model:
        case Model() | GraphModel():
            return _run_layers(model, system, direction, options)
        case RecommendationModel():
            return _run_recommendation(model, system, options)
        case FourierModel():
            held = float(model.side) ** 2 * model.word_bytes / system.chips
            _check_held(model.name, "points", held, system)
            graph = fourier_graph(model, system.chips)
            return _run_together(graph, system, options, held=held, samples=None)
        case LinpackModel():
            return _run_linpack(model, system)


def layer_on(
    model: Layered, system: ChipSystem, direction: Direction, options: MappingOptions
) -> Fusion:
    """One layer on the chips of a tensor group."""
    if isinstance(model, GraphModel):
        graph = model.graph(system.tensor)
        system = replace(system, chips=system.tensor)  # who shares a graph exchanges its results
    else:
        graph = layer_graph(model, system.tensor, direction)
    return map_graph(graph, system.chip, system.collectives_s, options)


def fastest_system(
    model: Model, systems: Iterable[ChipSystem], direction: Direction, options: MappingOptions
) -> ChipSystem | None:
    """The system on which a transformer is the fastest; None where it divides on none of them."""
    fastest, best_s = None, inf
    for system in systems:
        if divides(model, system.tensor):
            interval_s = layer_on(model, system, direction, options).interval_s
            time_s = 1 / system.throughput(model.layers, interval_s).per_s
            if time_s < best_s:
                fastest, best_s = system, time_s
    return fastest


def _run_layers(
    model: Layered, system: ChipSystem, direction: Direction, options: MappingOptions
) -> SystemRun:
    """One layer on a tensor group, and the pipeline of all of them."""
    if system.pipeline > model.layers:
        raise InputError(f"--pipeline {system.pipeline:,}: {model.name} has {model.layers} layers")
    fusion = layer_on(model, system, direction, options)
    graph = fusion.graph
    counted = graph.backward if direction == "backward" else np.ones(graph.count, bool)
    parts, times = fusion.partitions_of(counted), fusion.times
    interval_s = sum((times.time_s + times.setup_s)[parts].tolist())
    if system.pipeline > 1:
        hop_s = graph.handed_on_bytes / system.network.outermost_bytes_per_s
        interval_s = max(interval_s, hop_s)
    found = system.throughput(model.layers, interval_s, sum(graph.flops[counted].tolist()))
    totals = RunTotals(
        interval_s,
        sum(times.setup_s[parts].tolist()),
        *(found.time_per_sequence_s, found.per_s, found.utilisation),
        memory_bytes(fusion) * -(-model.layers // system.pipeline),
        lower_bound_s(fusion.problem) if counted.all() else None,
        "sequences" if isinstance(model, Model) else "runs",
    )
    if system.pipeline > 1 and totals.memory_bytes > system.room_bytes:
        room, needed = system.room_bytes, totals.memory_bytes
        raise InfeasibleError(
            f"--pipeline {system.pipeline:,}: {model.name} needs {si(needed, 'B')} a chip,"
            f" {system.chip.name} has {si(room, 'B')}: give {needed / room:.2f} times as many"
            " chips, or a smaller micro-batch"
        )
    return SystemRun(totals, fusion, counted)


def _run_recommendation(
    model: RecommendationModel, system: ChipSystem, options: MappingOptions
) -> SystemRun:
    """All layers on each chip, tables on all."""
    if model.layers > MAX_LAYERS_MAPPED:
        raise InputError(
            f"{model.name} has {model.layers:,} layers, and netplan map takes all of them at"
            f" once, at most {MAX_LAYERS_MAPPED:,}: give fewer"
        )
    held = model.table_bytes / system.chips
    _check_held(model.name, "tables", held, system)
    graph = recommendation_graph(model, system.chips)
    return _run_together(graph, system, options, held=held, samples=model.batch)


def _run_together(
    graph: KernelGraph,
    system: ChipSystem,
    options: MappingOptions,
    *,
    held: float,
    samples: int | None,
) -> SystemRun:
    """A graph that all chips run together; of so many samples each, or of one transform."""
    fusion = map_graph(graph, system.chip, system.collectives_s, options)
    interval_s = fusion.interval_s
    totals = RunTotals(
        interval_s,
        float(fusion.times.setup_s.sum()),
        interval_s / (samples * system.chips) if samples else interval_s,
        (system.chips if samples else 1) / interval_s,
        float(graph.flops.sum()) / (interval_s * system.chip.tensor_flops_per_s),
        held,
        lower_bound_s(fusion.problem),
        "micro-batches" if samples else "transforms",
    )
    return SystemRun(totals, fusion, np.ones(graph.count, bool))


def _run_linpack(model: LinpackModel, system: ChipSystem) -> SystemRun:
    """All steps on a grid."""
    grid = system.network.grid(system.tensor, system.chips)
    held = model.word_bytes * float(model.unknowns) ** 2 / system.chips
    _check_held(model.name, "words of the matrix", held, system)
    steps = linpack_steps(model, system.chip, grid)
    total_s = float(steps.time_s.sum())
    peak = system.chips * system.chip.tensor_flops_per_s
    work = model.flops() / (total_s * peak)
    totals = RunTotals(total_s, 0.0, total_s, 1 / total_s, work, held, None, "solutions")
    return SystemRun(totals, steps=steps)


def _check_held(name: str, what: str, held: float, system: ChipSystem) -> None:
    """Refuse a share of what all chips hold that is more than the memory of one."""
    room = system.room_bytes
    if held > room:
        # Shares that nearly fit are told by what has no room.
        more = f"{held / room:,.2f} times as much"
        more = more if held > 1.01 * room else f"{si(held - room, 'B')} have no room"
        raise InfeasibleError(
            f"{name}: {what} are {si(held, 'B', 4)} on each of {counted(system.chips, 'chip')},"
            f" {system.chip.name} has {si(room, 'B', 4)}: {more}; give more chips or a larger"
            " memory"
        )

"""A kernel graph on one chip: its partitions, its interval, and what a cluster makes of it.

The *interval* of a graph is the time of all its partitions and their set-ups
(`netplan.performance.mapping.fusion`), and at least that of the transfer to the next pipeline
stage. With L layers on p stages, d replicas and n micro-batches a replica

    time of a sequence = interval (L / p) (1 + (p - 1) / n),      throughput = d / that

and without a number of micro-batches the pipeline is full. Utilisation is work over peak of the
chips in that time.

Chips with compute tiles count cycles (`netplan.performance.mapping.partitions`), others take a
share of their peak. In mode ``published-code`` the weights of the latter load for free, as
DFModel's user guide has it. The memory holds (weights + micro-batch x edges through memory) L / p.

Source: DFModel (Ko et al., ACM TACO 2024), Sec. IV, its public code and user guide. Left out, as
there: the optimizer, and everything that hides nothing but is done once a batch.
"""

from collections.abc import Callable
from math import gcd, inf
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.inputs.choices import Execution, Mode
from netplan.performance.mapping import partitions
from netplan.performance.mapping.fusion import (
    MAX_ORDERED,
    Fusion,
    best_fusion,
    given_partitions,
    kernel_by_kernel,
    lower_bound_s,
)
from netplan.traffic.placement import divisors
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.kernel_graph import Kernel, KernelGraph
from netplan.workloads.measured_kernels import MeasuredKernels

KernelTimes = Literal["modelled", "measured"]

MAX_TILES_TRIED = 16
"""Sequence tiles that are tried where none is given [1]."""

FEW_TILES = 4
"""Sequence tiles that are tried of a large graph [1]."""

MAX_EXACT_KERNELS = 64
"""Kernels up to which all convex partitions are looked for where several tiles are tried [1]."""


class MappingOptions(Struct, frozen=True):
    """How a graph is put on a chip.

    Parameters
    ----------
    execution
        Kernels kept together or run one by one; None as the chip does.
    sequence_tile
        Tokens of a sequence tile; None tries all that divide the tokens [1].
    micro_batch
        Sequences for which weights are loaded once [1].
    cut
        Partitions as written (:func:`kernels_between`); empty: the fastest.
    mode
        ``corrected``, or ``published-code``.
    convex
        Whether all convex partitions are looked for, not only cuts of the order.
    kernels
        Kernels by the chip's tiles or share of its peak, or as they were measured one by one.
    residence
        What lies on the chip beside a layer and a sequence, if both passes share a partition; None:
        they share none.
    block
        Columns of a step of LINPACK, or ``fastest``; None as the model says [1].
    """

    execution: Execution | None = None
    sequence_tile: int | None = None
    micro_batch: int = 1
    cut: str = ""
    mode: Mode = "corrected"
    convex: bool = True
    kernels: KernelTimes = "modelled"
    residence: partitions.Residence | None = None
    block: int | Literal["fastest"] | None = None


def map_graph(
    graph: KernelGraph,
    chip: Accelerator,
    network_s: Callable[[Kernel], float],
    options: MappingOptions,
) -> Fusion:
    """Put a graph on a chip.

    Parameters
    ----------
    graph
        The kernels of one chip.
    chip
        The chip.
    network_s
        Time of the collectives of a kernel [s].
    options
        How.

    Raises
    ------
    InputError
        If kernels cannot be kept together on this chip, or a cut is none.

    Examples
    --------
    The layer of GPT 175B on eight SN10, as its vendor cuts it (DFModel, Sec. VII).

    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> from netplan.workloads.model_graphs import layer_graph
    >>> graph = layer_graph(MODELS.load("gpt-175b"), tensor=8)
    >>> cut = "AddPrev..V,QK..LN2,FFN0..GeLU,FFN1..Add2"
    >>> options = MappingOptions(sequence_tile=32, micro_batch=42, cut=cut)
    >>> ring = lambda kernel: kernel.all_reduce_bytes * 7 / 8 / 25e9
    >>> found = map_graph(graph, ACCELERATORS.load("sn10"), ring, options)
    >>> (found.times.time_s * 1e6).round(2), round(found.interval_s * 1e6, 2)
    (array([1258.29, 1761.61, 1258.29, 1761.61]), 6147.65)
    """
    fusion = map_within(graph, chip, network_s, options, inf)
    assert fusion is not None  # noqa: S101 - for types: nothing takes longer than that
    return fusion


def map_within(
    graph: KernelGraph,
    chip: Accelerator,
    network_s: Callable[[Kernel], float],
    options: MappingOptions,
    limit_s: float,
) -> Fusion | None:
    """Put a graph on a chip as :func:`map_graph` does; None if it takes more than a limit.

    Sequence tiles that take longer than the limit [s], or than what was found, by the work of their
    kernels alone, are not cut into partitions.
    """
    sent_s = np.array([network_s(kernel) for kernel in graph.kernels])
    fastest, within_s = None, limit_s
    for tile in sequence_tiles(graph, chip, options):
        problem = kernel_problem(graph, chip, sent_s, options, tile)
        if lower_bound_s(problem) > within_s * (1 + partitions.ROUNDING):
            continue
        if options.cut:
            fusion = given_partitions(problem, kernels_between(graph, options.cut))
        elif (options.execution or chip.execution) == "kernel-by-kernel":
            fusion = kernel_by_kernel(problem)
        else:
            ideals = options.convex and graph.count <= MAX_EXACT_KERNELS
            fusion = best_fusion(problem, ideals=ideals)
        if fastest is None or fusion.interval_s < fastest.interval_s:
            fastest, within_s = fusion, min(limit_s, fusion.interval_s)
    return fastest


def sequence_tiles(graph: KernelGraph, chip: Accelerator, options: MappingOptions) -> list[int]:
    """Sequence tiles to try: the one that is asked for, else all or some of all sizes."""
    tokens = partitions.graph_tokens(graph)
    if options.sequence_tile is not None:
        return [options.sequence_tile]
    if (options.execution or chip.execution) == "kernel-by-kernel":
        return [tokens]
    every = tokens // divisors(gcd(*(partitions.kernel_tokens(kernel) for kernel in graph.kernels)))
    most = MAX_TILES_TRIED if graph.count <= MAX_ORDERED else FEW_TILES
    if len(every) > most:
        every = every[np.linspace(0, len(every) - 1, most).round().astype(int)]
    return [int(tile) for tile in every]


def kernel_problem(
    graph: KernelGraph, chip: Accelerator, network_s: Floats, options: MappingOptions, tile: int
) -> partitions.FusionProblem:
    """What is to be cut, with a sequence tile of so many tokens.

    Raises
    ------
    InputError
        If the tokens are no whole number of tiles, or the chip's rate of computing is not known.
    """
    tiles = partitions.ComputeTiles.of(chip)
    memory = partitions.ChipResources(
        tiles.tiles if tiles else 0, chip.sram_bytes, chip.memory_bytes_per_s
    )
    flops = graph.flops
    if options.kernels == "measured":
        choices, compute_s = None, MeasuredKernels.of(chip).of_graph_s(graph)
    elif tiles:
        choices, compute_s = partitions.tile_choices(graph, tiles, tile), flops / tiles.flops_per_s
    else:
        choices, compute_s = None, flops / partitions.untiled_flops_per_s(chip)
    return partitions.FusionProblem(
        graph=graph,
        chip=memory,
        choices=choices,
        compute_s=compute_s,
        network_s=network_s,
        sequence_tile=tile,
        micro_batch=options.micro_batch,
        # A product was measured with the time in which it reads its weights.
        weights_in_memory_term=options.kernels == "measured",
        free_weights=choices is None and options.mode == "published-code",
        residence=options.residence,
    )


class ChipPipeline(Struct, frozen=True):
    """Layers on stages, replicas of them, and micro-batches of a replica.

    Without a number of micro-batches, which need not be whole, the pipeline is full [1].
    """

    layers: int
    stages: int = 1
    replicas: int = 1
    microbatches: float | None = None


class Throughput(Struct, frozen=True):
    """What a cluster makes of the interval of a layer.

    Parameters
    ----------
    time_per_sequence_s
        Interval of a replica's pipeline [s].
    per_s
        Sequences of all replicas [1/s].
    utilisation
        Work over the peak of all chips in that time [1].
    """

    time_per_sequence_s: float
    per_s: float
    utilisation: float


def pipeline_throughput(
    interval_s: float, pipeline: ChipPipeline, *, flops: float = 0.0, peak_flops_per_s: float = 1.0
) -> Throughput:
    """Throughput of a pipeline of layers; the stage with the most layers sets its pace.

    Parameters
    ----------
    interval_s
        Time of a sequence in a layer [s].
    pipeline
        L, p, d and n.
    flops, peak_flops_per_s
        Work of a layer on a chip, and the chip's peak [FLOP], [FLOP/s].

    Examples
    --------
    Case A1 of DFModel: 46.07 ms, 128 layers on 64 stages, 6 replicas, 512 micro-batches.

    >>> found = pipeline_throughput(46_067_936.7e-9, ChipPipeline(128, 64, 6, microbatches=512))
    >>> round(found.per_s, 3)
    57.986
    """
    stages, waiting = pipeline.stages, pipeline.stages - 1
    fill = 1.0 if pipeline.microbatches is None else 1 + waiting / pipeline.microbatches
    time_s = interval_s * -(-pipeline.layers // stages) * fill
    work = flops * pipeline.layers / stages
    return Throughput(time_s, pipeline.replicas / time_s, work / (time_s * peak_flops_per_s))


def memory_bytes(fusion: Fusion) -> float:
    """What a layer holds in memory: weights, and edges through it for the micro-batch [B]."""
    problem, members = fusion.problem, fusion.members
    graph = problem.graph
    inside = members[:, graph.source] & members[:, graph.target]
    through = graph.edge_bytes[~inside.any(axis=0)].sum()
    return float(problem.weights.sum() + problem.micro_batch * through)


def kernels_between(graph: KernelGraph, text: str) -> tuple[tuple[str, ...], ...]:
    """Partitions as written: ``First..Last`` of a run of kernels, or one name, between commas.

    Raises
    ------
    InputError
        If a name is unknown or a run goes backward.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> from netplan.workloads.model_graphs import layer_graph
    >>> graph = layer_graph(MODELS.load("gpt-175b"), tensor=8)
    >>> [len(run) for run in kernels_between(graph, "AddPrev..V,QK..LN2,FFN0..GeLU,FFN1..Add2")]
    [5, 8, 2, 3]
    """
    runs: list[tuple[str, ...]] = []
    for part in text.split(","):
        first, dots, last = (word.strip() for word in part.partition(".."))
        start = graph.place(first)
        end = graph.place(last) if dots else start
        if end < start:
            raise InputError(f"--cut {part.strip()!r:.60}: {last} comes before {first}")
        runs.append(graph.names[start : end + 1])
    return tuple(runs)

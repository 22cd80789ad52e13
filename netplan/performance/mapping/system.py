"""A model of any family on a system of chips: what a layer takes on some, and what all make of it.

A transformer and a graph of a user's own are layers that follow each other: one is mapped onto the
chips of a tensor group (`netplan.performance.mapping.chip`), stages and replicas of it run side by
side. A recommendation model and a Fourier transform are one graph that all chips run together,
LINPACK is a row of steps on a grid of all chips (`netplan.performance.mapping.system`).

Source: DFModel (Ko et al., ACM TACO 2024), Sec. IV and VI, and the logs of its public code.

LINPACK on a grid of chips: all steps at once.

A matrix of n x n lies on a grid of X x Y chips. Step i of n/b leaves a side of n - i b, of which a
chip has P = ceil(side / X) rows and Q = ceil(side / Y) columns, and runs four kernels together:

========  =====================  =======================================================
FACT      gemm (P, b, b)         point to point, w b b bytes
BCAST     -                      broadcast, w P b bytes
SWAP      -                      point to point, w Q b bytes
UPDATE    gemm (P, b, Q)         -
========  =====================  =======================================================

for words of w bytes. Point-to-point messages go along dimension X of the grid, broadcasts along Y,
at the same time; a dimension of one chip costs nothing. The published broadcast serves one chip
after the other (`netplan.traffic.published_topology`); else chips hand panels on while they arrive,
along all levels of Y, and the grid is the fastest
(`netplan.performance.mapping.network.ChipNetwork.grids`). What remains of the matrix is read and
written in every step, so that large blocks read it less often, and leave more to FACT: ``fastest``
blocks are the best powers of two, as who runs the benchmark tunes them.

    T = max(compute, 2 w P Q / memory rate, max(messages on X, broadcast on Y))

FACT and UPDATE share the tiles as in any partition (`netplan.performance.mapping.partitions`): the
fewest cycles that both can keep. Chips without tile data take their work over a share of the peak.

Source: DFModel (Ko et al., ACM TACO 2024), Sec. VI, and the logs of its public code.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from math import inf
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InfeasibleError, InputError, NetplanError
from netplan.inputs.choices import Mode
from netplan.levels import Level
from netplan.performance.mapping import partitions
from netplan.performance.mapping.chip import (
    ChipPipeline,
    MappingOptions,
    Throughput,
    map_graph,
    map_within,
    memory_bytes,
    pipeline_throughput,
)
from netplan.performance.mapping.fusion import Fusion, lower_bound_s
from netplan.performance.mapping.network import ChipGrid, ChipNetwork, ParallelLayout
from netplan.records import replace
from netplan.traffic.published_topology import Dimension, dimension_s
from netplan.units import counted, si
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.families import FourierModel, LinpackModel, OtherModel, RecommendationModel
from netplan.workloads.graph_model import GraphModel
from netplan.workloads.graph_program import Layered
from netplan.workloads.kernel_graph import Direction, Kernel, KernelGraph
from netplan.workloads.model_graphs import divides, fourier_graph, layer_graph, recommendation_graph
from netplan.workloads.models import Model
from netplan.workloads.operations import ELEMENT_BYTES

STEPS_TOGETHER = 256
"""Steps whose tiles are shared out at once: their arrays stay in the cache [1]."""


BLOCKS = tuple(2**exponent for exponent in range(8, 18))
"""Columns of a step that are tried [1]."""

FASTEST = "fastest"
"""Word for the best block of all that are tried."""


class LinpackSteps(partitions.OverlappedTimes, frozen=True, eq=False):
    """What every step takes, shape (steps,) [s], and the side of the matrix that is left [1].

    The block is that of the steps [columns], the grid that of the chips.
    """

    side: Ints
    block: int
    grid: ChipGrid


def linpack_steps(
    model: LinpackModel, chip: Accelerator, grid: ChipGrid, *, bound: bool = False
) -> LinpackSteps:
    """All steps of a solution.

    Parameters
    ----------
    model
        The system of equations.
    chip
        The chip.
    grid
        Its rows and columns.
    bound
        Whether lower bounds do: as if all work were spread evenly over the tiles of the chip.

    Raises
    ------
    InputError
        If the blocks do not divide the matrix into a number of steps that can be listed, or the
        chip's rate of computing is not known.

    Examples
    --------
    16,384 unknowns on a ring of 8 at 25 GB/s, bound by its broadcasts: 39.93 ms.

    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import WORKLOADS
    >>> grid = ChipGrid.published(Dimension("ring", 1, 25e9), Dimension("ring", 8, 25e9))
    >>> found = linpack_steps(WORKLOADS.load("hpl-16k"), ACCELERATORS.load("a100-80gb"), grid)
    >>> round(1e3 * float(found.time_s.sum()), 5)
    39.92977
    """
    side, block, word = model.sides, model.block, model.word_bytes
    rows, columns = -(-side // grid.rows), -(-side // grid.columns)
    message_s = word * block * (grid.message_s_per_byte if grid.rows > 1 else 0.0)
    broadcast_s = word * block * grid.broadcast_s_per_byte
    moved = 2 * word * rows.astype(np.float64) * columns
    return LinpackSteps(
        _compute_s(rows, columns, block, chip, bound=bound),
        moved / chip.memory_bytes_per_s,
        np.maximum((block + columns) * message_s, rows * broadcast_s),
        side,
        block,
        grid,
    )


def _compute_s(rows: Ints, columns: Ints, block: int, chip: Accelerator, *, bound: bool) -> Floats:
    """Time of FACT and UPDATE side by side, in every step [s]."""
    tiles = partitions.ComputeTiles.of(chip)
    if tiles is None:
        flops = 2.0 * rows * block * (block + columns.astype(np.float64))
        return np.asarray(flops / partitions.untiled_flops_per_s(chip))
    if bound:
        return _even_cycles(rows, columns, block, tiles)[0] * block / tiles.clock_hz
    # Steps of equal vectors and stages take equal cycles; of small blocks that is nearly every one.
    sizes = np.stack((-(-rows // tiles.vector_width), -(-columns // tiles.stage_height)))
    starts = np.flatnonzero(np.append(True, (np.diff(sizes) != 0).any(axis=0)))
    parts = np.split(starts, range(STEPS_TOGETHER, len(starts), STEPS_TOGETHER))
    cycles = [_least_cycles(rows[part], columns[part], block, tiles) for part in parts]
    steps = np.diff(np.append(starts, len(rows)))
    return np.repeat(np.concatenate(cycles), steps) / tiles.clock_hz


def _even_cycles(
    rows: Ints, columns: Ints, block: int, chip: partitions.ComputeTiles
) -> tuple[Ints, Ints, list[Ints]]:
    """Cycles of a column if tiles share all work evenly; vectors; stages of FACT and UPDATE [1]."""
    height = -(-rows // chip.vector_width)
    widths = [-(-np.full_like(rows, block) // chip.stage_height), -(-columns // chip.stage_height)]
    return np.maximum(-(-height * (widths[0] + widths[1]) // chip.tiles), 1), height, widths


def _least_cycles(rows: Ints, columns: Ints, block: int, chip: partitions.ComputeTiles) -> Ints:
    """Fewest cycles that FACT and UPDATE keep together on all tiles, shape (steps,) [1]."""
    # Cycles come in steps of the block: never fewer than all work on all tiles, and twice that, and
    # so on, until the tiles do.
    low, height, widths = _even_cycles(rows, columns, block, chip)
    high = low.copy()
    while not (enough := _enough(height, widths, high, chip.tiles)).all():
        low = np.where(enough, low, high + 1)
        high = np.where(enough, high, 2 * high)
    while (low < high).any():
        middle = (low + high) // 2
        enough = _enough(height, widths, middle, chip.tiles)
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle + 1)
    return np.asarray(low * block)


def _enough(height: Ints, widths: Sequence[Ints], steps: Ints, tiles: int) -> Bools:
    """Whether the tiles keep products of so many ceilings within so many steps each, (steps,)."""
    needed = np.zeros_like(steps)
    for width in widths:
        stages = np.arange(1, tiles + 1)
        across = -(-width[:, None] // stages)
        down = steps[:, None] // across
        lanes = -(-height[:, None] // np.maximum(down, 1))
        needed += np.where(down > 0, lanes * stages, 2 * tiles).min(axis=1)
    return needed <= tiles


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

    def laid_out(self, layout: ParallelLayout) -> "ChipSystem":
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
        return group_s + share * dimension_s("all_reduce", gradient_bytes, over)

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
        pipeline = ChipPipeline(layers, self.pipeline, self.data, microbatches)
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
            return _run_linpack(model, system, options.block)


def layer_on(
    model: Layered, system: ChipSystem, direction: Direction, options: MappingOptions
) -> Fusion:
    """One layer on the chips of a tensor group."""
    if isinstance(model, GraphModel):
        graph = model.graph(system.tensor)
        system = replace(system, chips=system.tensor)  # who shares a graph exchanges its results
    else:
        graph = layer_graph(model, system.tensor, direction)
    options = replace(options, residence=residence_on(model, system, direction, options.mode))
    return map_graph(graph, system.chip, system.collectives_s, options)


def residence_on(
    model: Layered, system: ChipSystem, direction: Direction, mode: Mode
) -> partitions.Residence | None:
    """What lies on a chip beside one layer and one sequence, if both passes share a partition.

    With one forward pass for each backward one (1F1B) the first of p stages has p micro-batches
    under way, all layers of it share the chip. DFModel maps a layer and a sequence alone. The
    backward pass by itself shares nothing.

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> system = ChipSystem(ACCELERATORS.load("wse-2"), ChipNetwork(25e9), 16, pipeline=16)
    >>> residence_on(MODELS.load("gpt-1t"), system, "both", "corrected")
    Residence(layers=8, sequences=16, parts=False)
    """
    if direction == "backward":
        return None
    if mode == "published-code":
        return partitions.Residence(parts=True)
    microbatches = system.microbatches / system.data if system.microbatches else inf
    under_way = max(1.0, min(system.pipeline, microbatches))
    return partitions.Residence(-(-model.layers // system.pipeline), under_way)


def fastest_system(
    model: Model, systems: Iterable[ChipSystem], direction: Direction, options: MappingOptions
) -> ChipSystem | None:
    """The system on which a transformer is the fastest; None where it divides on none of them.

    Raises
    ------
    InfeasibleError
        If it divides on some, and its layers have room on none of those.
    """
    fastest, best_s, least = None, inf, inf
    for system in systems:
        if divides(model, system.tensor):
            graph = layer_graph(model, system.tensor, direction)
            sequence_s = 1 / system.throughput(model.layers, 1.0).per_s
            within_s = best_s / sequence_s * (1 + partitions.ROUNDING)
            residence = residence_on(model, system, direction, options.mode)
            with_stage = replace(options, residence=residence)
            fusion = map_within(graph, system.chip, system.collectives_s, with_stage, within_s)
            if fusion is None:
                continue
            needed = memory_bytes(fusion) * -(-model.layers // system.pipeline)
            least = min(least, needed)
            time_s = 1 / system.throughput(model.layers, fusion.interval_s).per_s
            if time_s < best_s and needed <= system.room_bytes:
                fastest, best_s = system, time_s
    if fastest is None and least < inf:
        raise InfeasibleError(
            f"{model.name} has no room on these dimensions: {si(least, 'B')} a chip are the least,"
            " its degrees searched: give more chips, or a memory that holds so much"
        )
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
    throughput = system.throughput(model.layers, interval_s, sum(graph.flops[counted].tolist()))
    totals = RunTotals(
        interval_s,
        sum(times.setup_s[parts].tolist()),
        *(throughput.time_per_sequence_s, throughput.per_s, throughput.utilisation),
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
    together = replace(
        options, residence=partitions.Residence(parts=options.mode == "published-code")
    )
    fusion = map_graph(graph, system.chip, system.collectives_s, together)
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


def _run_linpack(
    model: LinpackModel, system: ChipSystem, block: int | Literal["fastest"] | None
) -> SystemRun:
    """All steps, on the fastest of the grids and with the fastest of the blocks."""
    held = model.word_bytes * float(model.unknowns) ** 2 / system.chips
    _check_held(model.name, "words of the matrix", held, system)
    if isinstance(block, str):  # the word for the fastest of them
        tried = [columns for columns in BLOCKS if columns <= model.unknowns] or [model.unknowns]
    else:
        tried = [block or model.block]
    grids = system.network.grids(system.tensor, system.chips)
    total_s, steps = fastest_steps(model, system.chip, list(product(tried, grids)))
    peak = system.chips * system.chip.tensor_flops_per_s
    work = model.flops() / (total_s * peak)
    totals = RunTotals(total_s, 0.0, total_s, 1 / total_s, work, held, None, "solutions")
    return SystemRun(totals, steps=steps)


def fastest_steps(
    model: LinpackModel, chip: Accelerator, designs: Sequence[tuple[int, ChipGrid]]
) -> tuple[float, LinpackSteps]:
    """The least time of a solution by blocks and grids, the first of equal ones, and its steps [s].

    By rising lower bounds, so that few are timed on their tiles; all that could be as fast are.

    Parameters
    ----------
    model, chip
        The system of equations, and the chip.
    designs
        Blocks [columns] with the grids of chips that they are tried on.

    Raises
    ------
    NetplanError
        If there are none.
    """
    models = [replace(model, block=block) for block, _ in designs]
    bounds = [0.0]
    if len(designs) > 1:
        bounds = [
            float(linpack_steps(one_block, chip, grid, bound=True).time_s.sum())
            for one_block, (_, grid) in zip(models, designs, strict=True)
        ]
    best: tuple[float, int, LinpackSteps] | None = None
    for number in sorted(range(len(designs)), key=bounds.__getitem__):
        # Sums of many steps are alike to the last digits only.
        if best is not None and bounds[number] > best[0] * (1 + 1e-12):
            break
        steps = linpack_steps(models[number], chip, designs[number][1])
        total_s = float(steps.time_s.sum())
        if best is None or (total_s, number) < best[:2]:
            best = total_s, number, steps
    if best is None:
        raise NetplanError(f"{model.name}: no block of columns to try")
    return best[0], best[2]


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

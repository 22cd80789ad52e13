"""The time of a transformer's layer as its kernels lie on a chip, for every sharding of a search.

One more way to get the seconds of a layer: the kernels of both passes and the weight updates
(`netplan.workloads.transformer_graph`) are kept together in the partitions that take least
(`netplan.performance.fusion`), or run one by one, with the best sequence tile. For b sequences in a
microbatch, over the partitions of a pass,

    seconds = b sum max(compute, memory, network) + weights / memory rate,

the all-reduces of the tensor group being those of the iteration model's network, b sequences at a
time. The parts of a pass are its computing; memory and set-up, as far as they take longer; and
collectives, as far as they take longer still.

Partitions are cuts of a few orders (`netplan.performance.fusion.found_on_orders`), within a few
percent of the best of all convex ones: a search times some hundred shardings. Selective
recomputation runs the scores of the attention once more, full recomputation the forward pass.
Memory, overlap and bubble are the iteration model's; efficiencies and latencies of its kernels do
not count, for the chip's tiles do.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError
from netplan.performance.fusion import (
    Candidates,
    Fusion,
    best_fusion,
    candidate_partitions,
    finished_in_order,
    found_on_orders,
    shortest_paths,
)
from netplan.performance.mapping import MappingOptions, kernel_problem, sequence_tiles
from netplan.performance.partitions import FusionProblem
from netplan.records import replace
from netplan.workloads.accelerators import Accelerator, Execution
from netplan.workloads.kernel_graph import KernelGraph
from netplan.workloads.models import Model
from netplan.workloads.operations import Recompute, Sharding
from netplan.workloads.transformer_graph import layer_graph

AllReduce = Callable[[Floats], Floats]
"""Time in which the tensor group of each sharding sums up so much, shape (shardings,) [B] [s]."""


class PassTimes(Struct, frozen=True, eq=False):
    """Parts of the time of one pass through a layer, shape (shardings,) each [s]."""

    compute_s: Floats
    memory_s: Floats
    network_s: Floats


class LayerExecution(Struct, frozen=True, eq=False):
    """How the layers of a search run on its chips.

    Parameters
    ----------
    chip
        The chip.
    execution
        Kernels kept together, or run one by one.

    Raises
    ------
    InputError
        If kernels cannot be kept together on this chip.
    """

    chip: Accelerator
    execution: Execution

    def __post_init__(self) -> None:
        """Refuse a chip without room for results."""
        if self.execution == "fused" and not self.chip.sram_bytes:
            raise InputError(
                f"--execution fused keeps results on the chip, and {self.chip.name} has no"
                " sram_bytes: give them, such as --set accelerator.sram_bytes=80e6, or take"
                " kernel-by-kernel"
            )

    def times(
        self, model: Model, recompute: Recompute, sharding: Sharding, all_reduce_s: AllReduce
    ) -> tuple[PassTimes, PassTimes]:
        """Forward and backward time of one microbatch, for many shardings at once."""
        found = np.zeros((2, len(PassTimes.__struct_fields__), len(sharding.tensor)))
        for tensor in np.unique(sharding.tensor).tolist():
            layers = layer_partitions(self, model, recompute, tensor)
            rows = np.flatnonzero(sharding.tensor == tensor)
            network_s = layers.network_s(sharding.microbatch, all_reduce_s)[:, rows]
            cases, case = np.unique(network_s, axis=1, return_inverse=True)
            each = layers.best(cases).take(case.ravel())
            sequences = sharding.microbatch[rows].astype(np.float64)
            found[:, :, rows] = sequences * each.parts
            found[:, 1, rows] += layers.setup_s[:, None]
        if recompute == "full":
            found[1] += found[0]
        return PassTimes(*found[0]), PassTimes(*found[1])

    def fusion(
        self, model: Model, recompute: Recompute, sharding: Sharding, all_reduce_s: AllReduce
    ) -> tuple[Fusion, float]:
        """The partitions of a single sharding, and the interval of the best convex ones [s]."""
        layers = layer_partitions(self, model, recompute, int(sharding.tensor[0]))
        network_s = layers.network_s(sharding.microbatch, all_reduce_s)
        best = layers.best(network_s)
        problem = layers.problem(
            int(best.tile[0]), network_s=network_s[:, 0], micro_batch=int(sharding.microbatch[0])
        )
        members = layers.sets[best.ends[0][1:]] & ~layers.sets[best.ends[0][:-1]]
        fusion = Fusion(problem, members, exact=False, considered=len(layers.sets))
        every = fusion.interval_s
        if self.execution == "fused":
            every = min(every, best_fusion(problem).interval_s)
        return fusion, every


# A search asks for the same layers many times.
@lru_cache(maxsize=128)
def layer_partitions(
    how: LayerExecution, model: Model, recompute: Recompute, tensor: int
) -> "LayerPartitions":
    """The layer on one chip of so many."""
    graph = layer_graph(model, tensor, "both", uneven=True, again=recompute == "selective")
    options = MappingOptions(execution=how.execution)
    tiles = tuple(sequence_tiles(graph, how.chip, options))
    nothing = np.zeros(graph.count)
    problems = tuple(kernel_problem(graph, how.chip, nothing, options, tile) for tile in tiles)
    fused = how.execution == "fused"
    sets = found_on_orders(graph) if fused else finished_in_order(graph)
    steps = tuple(Candidates.joined(candidate_partitions(problem, sets)) for problem in problems)
    if not fused:
        steps = tuple(one.take(np.flatnonzero(one.end == one.start + 1)) for one in steps)
    loaded = problems[0].setup_s
    setup_s = np.array([loaded[~graph.backward].sum(), loaded[graph.backward].sum()])
    return LayerPartitions(graph, tiles, problems, steps, sets, setup_s)


class FastestPartitions(Struct, frozen=True, eq=False):
    """The fastest partitions for several networks.

    Parameters
    ----------
    parts
        Computing, memory and network of both passes, as far as they count, without set-up, shape
        (passes, parts, networks) [s].
    tile
        Which sequence tile is the best, shape (networks,) [1].
    ends
        Sets of finished kernels between the partitions of each network, the first one empty.
    """

    parts: Floats
    tile: Ints
    ends: tuple[Ints, ...]

    def take(self, index: Ints) -> "FastestPartitions":
        """Networks by place."""
        return FastestPartitions(self.parts[:, :, index], self.tile[index], self.ends)


class LayerPartitions(Struct, frozen=True, eq=False):
    """The partitions of a layer on one chip of a tensor group, before anything is sent.

    Parameters
    ----------
    graph
        Kernels of both passes.
    tiles
        Sequence tiles that are tried [tokens].
    problems, steps
        What each of them makes of the graph, and the partitions that run.
    sets
        Sets of finished kernels, shape (sets, kernels).
    setup_s
        Loading of the weights of each pass, once a microbatch, shape (passes,) [s].
    """

    graph: KernelGraph
    tiles: tuple[int, ...]
    problems: tuple[FusionProblem, ...]
    steps: tuple[Candidates, ...]
    sets: Bools
    setup_s: Floats

    def network_s(self, microbatch: Ints, all_reduce_s: AllReduce) -> Floats:
        """Collectives of each kernel for one sequence of a microbatch, (kernels, shardings) [s]."""
        sequences = microbatch.astype(np.float64)
        found = np.zeros((self.graph.count, len(sequences)))
        sizes = self.graph.column("all_reduce_bytes")
        for size in np.unique(sizes[sizes > 0]).tolist():
            found[sizes == size] = all_reduce_s(sequences * size) / sequences
        return found

    def problem(self, tile: int, *, network_s: Floats, micro_batch: int) -> FusionProblem:
        """What a sequence tile makes of the graph, with collectives."""
        return replace(self.problems[tile], network_s=network_s, micro_batch=micro_batch)

    def best(self, network_s: Floats) -> FastestPartitions:
        """The best partitions for networks, given times of the kernels, (kernels, networks)."""
        sent = self.sets @ network_s
        paths = [shortest_paths([steps], sent) for steps in self.steps]
        tile = np.stack([path.seconds[-1] for path in paths]).argmin(axis=0)
        parts = np.zeros((2, 3, network_s.shape[1]))
        ends: list[Ints] = []
        late = (self.sets @ self.graph.backward).astype(bool)
        for network, best in enumerate(tile.tolist()):
            steps, place = self.steps[best], [len(self.sets) - 1]
            while place[-1]:
                place.append(int(paths[best].before[place[-1], network]))
            end = np.array(place[::-1])
            at = steps.places(end[:-1], end[1:])
            compute_s, memory_s = steps.compute_s[at], steps.memory_s[at]
            busy_s = np.maximum(compute_s, memory_s)
            exposed_s = np.maximum(sent[end[1:], network] - sent[end[:-1], network] - busy_s, 0.0)
            each = np.stack([compute_s, busy_s - compute_s, exposed_s])
            for which in range(2):
                parts[which, :, network] = each[:, late[end[1:]] == bool(which)].sum(axis=1)
            ends.append(end)
        return FastestPartitions(parts, tile, tuple(ends))

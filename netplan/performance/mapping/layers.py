"""The time of a layer as its kernels lie on a chip, for every sharding of a search.

One more way to get the seconds of a transformer's layer, and the only one of a graph of one's own:
the kernels of both passes and the weight updates (`netplan.workloads.model_graphs`,
`netplan.workloads.graph_program`) are kept together in the partitions that take least
(`netplan.performance.mapping.fusion`), or run one by one, with the best sequence tile. For b
sequences in a microbatch, over the partitions of a pass,

    seconds = b sum (max(compute, memory, network) + rows / memory rate) + weights / memory rate,

the collectives of the tensor group being those of the iteration model's network, b sequences at a
time. The parts of a pass are its computing; memory and set-up, as far as they take longer; and
collectives, as far as they take longer still.

Partitions of a transformer are cuts of a few orders
(`netplan.performance.mapping.fusion.found_on_orders`), within a few percent of the best of all
convex ones: a search times some hundred shardings. Those of a graph are the best of all, up to
``MAX_SETS`` sets of finished kernels. Selective recomputation runs the scores of the attention once
more, full recomputation the forward pass. Memory and overlap are the iteration model's, and the
bubble holds whole layers, as DFModel counts it; efficiencies and latencies of its kernels do not
count, for the chip's tiles do.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints, Numbers
from netplan.errors import InputError
from netplan.inputs.choices import Execution, Recompute
from netplan.performance.mapping.chip import MappingOptions, kernel_problem, sequence_tiles
from netplan.performance.mapping.fusion import (
    Candidates,
    Fusion,
    best_fusion,
    candidate_partitions,
    finished_in_order,
    finished_sets,
    found_on_orders,
    partitions_between,
    path_sets,
    shortest_paths,
)
from netplan.performance.mapping.partitions import FusionProblem
from netplan.records import replace
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.graph_program import Layered, graph_on, kernel_messages
from netplan.workloads.kernel_graph import KernelGraph
from netplan.workloads.model_graphs import layer_graph
from netplan.workloads.models import Model
from netplan.workloads.operations import CollectiveKind, Sharding

CollectiveTime = Callable[[CollectiveKind, Floats], Floats]
"""Time of a collective of the tensor group of each sharding, shape (shardings,) [B] [s]."""

MAX_SETS = 256
"""Sets of finished kernels of a graph up to which its partitions are the best of all [1]."""


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
        self, model: Layered, recompute: Recompute, sharding: Sharding, collective_s: CollectiveTime
    ) -> Floats:
        """Forward and backward time of one microbatch, for many shardings at once.

        Returns
        -------
        Floats
            Computing, memory and set-up as far as they take longer, and collectives as far as they
            take longer still, shape (passes, parts, shardings) [s].
        """
        pass_times = np.zeros((2, 3, len(sharding.tensor)))
        for tensor in np.unique(sharding.tensor).tolist():
            layers = layer_partitions(self, model, recompute, tensor)
            rows = np.flatnonzero(sharding.tensor == tensor)
            network_s = layers.network_s(sharding.microbatch, collective_s)[:, rows]
            cases, case = np.unique(network_s, axis=1, return_inverse=True)
            case_parts, _, _ = layers.best(cases)
            parts = case_parts[:, :, case.ravel()]
            sequences = sharding.microbatch[rows].astype(np.float64)
            pass_times[:, :, rows] = sequences * parts
            pass_times[:, 1, rows] += sequences * layers.read_s[:, None] + layers.setup_s[:, None]
        if recompute == "full":
            pass_times[1] += pass_times[0]
        return pass_times

    def exact_on(self, model: Layered, tensor: int) -> bool:
        """Whether no other partitions of a layer on so many chips are faster."""
        return layer_partitions(self, model, "none", tensor).exact

    def fusion(
        self, model: Layered, recompute: Recompute, sharding: Sharding, collective_s: CollectiveTime
    ) -> tuple[Fusion, float]:
        """The partitions of a single sharding, and the interval of the best convex ones [s]."""
        layers = layer_partitions(self, model, recompute, int(sharding.tensor[0]))
        network_s = layers.network_s(sharding.microbatch, collective_s)
        _, tile, (path,) = layers.best(network_s)
        problem = layers.problem(
            int(tile[0]), network_s=network_s[:, 0], micro_batch=int(sharding.microbatch[0])
        )
        members = partitions_between(layers.sets, path)
        fusion = Fusion(problem, members, exact=layers.exact, considered=len(layers.sets))
        every = fusion.interval_s
        if self.execution == "fused" and not layers.exact:
            every = min(every, best_fusion(problem).interval_s)
        return fusion, every


# A search asks for the same layers many times.
@lru_cache(maxsize=128)
def layer_partitions(
    how: LayerExecution, model: Layered, recompute: Recompute, tensor: int
) -> "LayerPartitions":
    """The layer on one chip of so many."""
    if isinstance(model, Model):
        graph = layer_graph(model, tensor, "both", uneven=True, again=recompute == "selective")
        every = None
    else:
        graph = graph_on(model, tensor)
        every = finished_sets(graph, MAX_SETS) if how.execution == "fused" else None
    options = MappingOptions(execution=how.execution)
    tiles = tuple(sequence_tiles(graph, how.chip, options))
    nothing = np.zeros(graph.count)
    problems = tuple(kernel_problem(graph, how.chip, nothing, options, tile) for tile in tiles)
    fused = how.execution == "fused"
    sets = every
    if sets is None:
        sets = found_on_orders(graph) if fused else finished_in_order(graph)
    steps = tuple(Candidates.joined([*candidate_partitions(problem, sets)]) for problem in problems)
    if not fused:
        steps = tuple(step.take(np.flatnonzero(step.end == step.start + 1)) for step in steps)
    exact = every is not None or not fused
    return LayerPartitions(tensor, tiles, problems, steps, sets, exact)


class LayerPartitions(Struct, frozen=True, eq=False):
    """The partitions of a layer on one chip of a tensor group, before anything is sent.

    Parameters
    ----------
    tensor
        Chips of the group [1].
    tiles
        Sequence tiles that are tried [tokens].
    problems, steps
        What each of them makes of the kernels of both passes, and the partitions that run.
    sets
        Sets of finished kernels, shape (sets, kernels).
    exact
        Whether no other partitions are faster.
    """

    tensor: int
    tiles: tuple[int, ...]
    problems: tuple[FusionProblem, ...]
    steps: tuple[Candidates, ...]
    sets: Bools
    exact: bool

    @property
    def graph(self) -> KernelGraph:
        """Kernels of both passes."""
        return self.problems[0].graph

    @property
    def setup_s(self) -> Floats:
        """Loading of the weights of each pass, once a microbatch, shape (passes,) [s]."""
        problem = self.problems[0]
        return self._by_pass(problem.weights / problem.chip.bytes_per_s)

    @property
    def read_s(self) -> Floats:
        """Reading of rows before each pass, once a sequence, shape (passes,) [s]."""
        rate = self.problems[0].chip.bytes_per_s
        return self._by_pass(self.graph.column("read_bytes") / rate)

    def _by_pass(self, seconds: Floats) -> Floats:
        late = self.graph.backward
        return np.array([seconds[~late].sum(), seconds[late].sum()])

    def network_s(self, microbatch: Numbers, collective_s: CollectiveTime) -> Floats:
        """Collectives of each kernel for one sequence of a microbatch, (kernels, shardings) [s]."""
        sequences = microbatch.astype(np.float64)
        times_s = np.zeros((self.graph.count, len(sequences)))
        for kind, sizes in kernel_messages(self.graph, self.tensor).items():
            for size in np.unique(sizes[sizes > 0]).tolist():
                times_s[sizes == size] += collective_s(kind, sequences * size) / sequences
        return times_s

    def problem(self, tile: int, *, network_s: Floats, micro_batch: int) -> FusionProblem:
        """What a sequence tile makes of the graph, with collectives."""
        return replace(self.problems[tile], network_s=network_s, micro_batch=micro_batch)

    def best(self, network_s: Floats) -> tuple[Floats, Ints, list[Ints]]:
        """The best partitions for networks, given times of the kernels, (kernels, networks).

        Returns
        -------
        tuple[Floats, Ints, list[Ints]]
            Computing, memory and network of both passes, as far as they count, without set-up,
            shape (passes, parts, networks) [s]; which sequence tile is the best, shape (networks,)
            [1]; sets of finished kernels from partition to partition, of each network, by place.
        """
        sent = self.sets @ network_s
        shortest = [shortest_paths([steps], sent) for steps in self.steps]
        tile = np.stack([tile_paths.seconds[-1] for tile_paths in shortest]).argmin(axis=0)
        parts = np.zeros((2, 3, network_s.shape[1]))
        paths: list[Ints] = []
        late = (self.sets @ self.graph.backward).astype(bool)
        for network, best in enumerate(tile.tolist()):
            steps, path = self.steps[best], path_sets(shortest[best].before[:, network])
            start, end = path[:-1], path[1:]
            places = steps.places(start, end)
            compute_s, memory_s = steps.compute_s[places], steps.memory_s[places]
            busy_s = np.maximum(compute_s, memory_s)
            exposed_s = np.maximum(sent[end, network] - sent[start, network] - busy_s, 0.0)
            parts_s = np.stack([compute_s, busy_s - compute_s, exposed_s])
            for which in range(2):
                parts[which, :, network] = parts_s[:, late[end] == bool(which)].sum(axis=1)
            paths.append(path)
        return parts, tile, paths

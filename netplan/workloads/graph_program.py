"""Programs of a graph of one's own: its kernels as operations of a layer, shared by the plan.

======================  ==========================================================================
tensor                  chips that share every kernel: those of the file, or any number, cut at
                        the least volume (`netplan.workloads.graph_sharding`)
pipeline                stages of whole layers, as many copies of the graph as the file says; a
                        graph is not cut inside
data                    replicas of runs; the gradients of the weights are summed up as the ZeRO
                        stage says, where the graph has a backward pass or updates
context, expert         1: a graph knows no sequences and no experts
======================  ==========================================================================

A graph without a backward pass has no gradients, no optimizer and nothing to hand back between
stages; of its results it holds those of one layer. One that trains holds the results that its
backward kernels read, of every layer and micro-batch in flight. Backward kernels read the weights
of the forward ones, which count once.

How long a graph takes on a chip its mapping says (`netplan.performance.mapping.chip`), not the
roofline of each of these operations.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np

from netplan.arrays import Bools, Floats, real
from netplan.workloads import operations as ops
from netplan.workloads.graph_model import GraphModel
from netplan.workloads.graph_sharding import even_shares
from netplan.workloads.kernel_graph import UPDATE, KernelGraph
from netplan.workloads.models import Model
from netplan.workloads.program import Program, Repetition, Zero

Layered = Model | GraphModel
"""Models of layers that follow each other."""

SENT: dict[str, ops.CollectiveKind] = {
    "all_reduce_bytes": "all_reduce",
    "all_gather_bytes": "all_gather",
    "broadcast_bytes": "broadcast",
    "all_to_all_bytes": "all_to_all",
}
"""Collectives of kernels, by the column of their sizes."""


def kernel_messages(graph: KernelGraph, chips: int) -> dict[ops.CollectiveKind, Floats]:
    """Full messages of the collectives of each kernel on so many chips, shape (kernels,) [B].

    Examples
    --------
    >>> from netplan.workloads.kernel_graph import Kernel
    >>> graph = KernelGraph.of([Kernel("turn", "simd", 8, 1, 4, all_to_all_bytes=2.0)], [])
    >>> kernel_messages(graph, chips=4)["all_to_all"]
    array([8.])
    """
    messages = {kind: graph.column(column) for column, kind in SENT.items()}
    messages["all_to_all"] = chips * messages["all_to_all"]
    return messages


# A search asks for the same shares many times.
@lru_cache(maxsize=256)
def graph_on(model: GraphModel, chips: int) -> KernelGraph:
    """The kernels of a layer on one of so many chips."""
    return model.graph(chips)


@lru_cache(maxsize=16)
def most_chips(model: GraphModel) -> int:
    """Chips that may share a graph: those of its file, or the divisors of this number [1]."""
    if model.chips > 1:
        return model.chips
    return even_shares(model.graph(), repeated=model.layers > 1)


def graph_program(model: GraphModel, sharding: ops.Sharding, zero_stage: Zero = 1) -> Program:
    """The program of one iteration, for many shardings at once.

    Parameters
    ----------
    model
        The graph.
    sharding
        Runs of a micro-batch, and the chips that share the graph, shape (shardings,).
    zero_stage
        What of the weights is sharded over the replicas.

    Raises
    ------
    InputError
        If the graph is cut for another number of chips, or cannot be cut exactly.

    Examples
    --------
    >>> from netplan.workloads.models import WORKLOADS
    >>> mixer = WORKLOADS.load("examples/mixer.yaml")
    >>> program = graph_program(mixer, ops.Sharding.of(2, tensor=4))
    >>> for use in program.collectives(stages=6, microbatches=1):
    ...     print(use.kind, use.collective, use.data_bytes, use.times)
    tensor all_reduce 67108864.0 8.0
    """
    distinct, case = np.unique(sharding.tensor, return_inverse=True)
    chips = tuple(distinct.tolist()) or (model.chips,)  # where there are none, any stands for them
    graphs = [graph_on(model, count) for count in chips]
    graph, runs = graphs[0], real(sharding.microbatch)  # kernels and edges are the same in all

    def of_all(columns: Iterable[Floats]) -> Floats:  # shape (kernels, shardings)
        return np.stack(list(columns), axis=1)[:, case]

    def sizes(column: str) -> Floats:
        return of_all(graph.column(column) for graph in graphs)

    late = graph.backward | (graph.kind == UPDATE)
    weights, results = sizes("weight_bytes"), runs * sizes("output_bytes")
    # Kernels whose weights count: the forward ones, or all where those have none.
    held = graph.column("weight_bytes") > 0
    ahead: Bools = held & ~late
    weights[~(ahead if ahead.any() else held)] = 0.0
    kept = np.ones(graph.count, bool)
    if model.trains:  # what the backward pass or an update reads
        kept = np.isin(np.arange(graph.count), graph.source[late[graph.target]]) & ~late
    pairs = zip(graphs, chips, strict=True)
    messages = [kernel_messages(graph, count) for graph, count in pairs]
    sent = {kind: runs * of_all(some[kind] for some in messages) for kind in SENT.values()}
    operations = []
    for index, (kernel, work) in enumerate(
        zip(graph.kernels, _works(graph, runs, sizes, sent), strict=True)
    ):
        operations.append(
            ops.Operation(
                *(kernel.name, "mlp"),
                weight_bytes=weights[index] if model.trains else 0.0,
                activation_bytes=results[index] if kept[index] else 0.0,
                forward=ops.NO_WORK if late[index] else work,
                backward=work if late[index] else ops.NO_WORK,
                stored_bytes=0.0 if model.trains else weights[index],
            )
        )
    handed_on = np.array([case_graph.handed_on_bytes for case_graph in graphs])[case]
    layer = ops.Layer(tuple(operations), boundary_bytes=runs * handed_on)
    # What only runs forward is laid out whole: it has no ZeRO stage.
    zero = zero_stage if model.trains else 0
    repetition = Repetition(model.layers, zero, "1d", trains=model.trains)
    return Program(sharding, layer, None, None, repetition)


def _works(
    graph: KernelGraph,
    runs: Floats,
    sizes: Callable[[str], Floats],
    sent: dict[ops.CollectiveKind, Floats],
) -> Iterator[ops.OperationCost]:
    """What each kernel does for a micro-batch, by its sizes and messages in all shardings."""
    results = runs * sizes("output_bytes")
    moved = sizes("weight_bytes") + results
    moved += runs * (sizes("outside_bytes") + sizes("read_bytes"))
    np.add.at(moved, graph.target, results[graph.source])
    flops = runs * sizes("flops")
    for index, kernel in enumerate(graph.kernels):
        simd = kernel.kind == "simd"
        yield ops.OperationCost(
            tensor_flops=0.0 if simd else flops[index],
            vector_flops=flops[index] if simd else 0.0,
            moved_bytes=moved[index],
            collectives=tuple(
                ops.CollectiveCall(kind, messages[index], "tensor")
                for kind, messages in sent.items()
                if messages[index].any()
            ),
        )

"""How the chips of a tensor group share every kernel of a graph: least communication, exactly.

A result lies in one of three states on the chips, and a kernel takes and gives one:

==========  =====================================================================================
replicated  every chip has all of it
columns     every chip has some of its columns (heads, features)
tokens      every chip has some of its tokens
==========  =====================================================================================

=======================  ==========  ==========  =================================================
scheme                   takes       gives       sends
=======================  ==========  ==========  =================================================
product, split outputs   replicated  columns     nothing
product, split inputs    columns     replicated  all-reduce of the result
product, split tokens    tokens      tokens      broadcast of the weights
heads (no weights)       columns     columns     nothing
element by element       any         the same    nothing; norms need whole rows, so not columns
=======================  ==========  ==========  =================================================

What is replicated turns into any state for free; whole rows or columns are gathered (the size of
the result), and turning columns into tokens is an all-to-all of that size. Volumes are those of
whole tensors, as the paper counts them. The sum over kernels and edges is least over all choices:
kernels are eliminated one by one, each into a table over the schemes of its neighbours, which is
exact and quick for the narrow graphs of networks. Of schemes that send equally little the first one
counts, which keeps results whole.

:func:`shared_graph` is what one chip of the group then has of every kernel: of what is cut the
chip's part, of uneven parts the largest; collectives stand at the kernel that needs them. Updates
of weights compute a part of each matrix and send nothing of their own.

Source: DFModel (Ko et al., ACM TACO 2024), Sec. V and VI-A.
"""

from collections.abc import Iterable, Iterator
from math import gcd, inf
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Codes, Floats
from netplan.errors import InputError
from netplan.records import replace
from netplan.workloads.kernel_graph import Kernel, KernelGraph

State = Literal["replicated", "columns", "tokens"]
STATES: tuple[State, ...] = ("replicated", "columns", "tokens")
REPLICATED, COLUMNS, TOKENS = range(3)

MAX_NEIGHBOURS = 13
"""Kernels whose schemes one table may span, 3^13 entries [1]."""

MAX_CHOICES = 1 << 27
"""Entries of all tables of choices at most, a byte each [1]."""


class GraphSharding(Struct, frozen=True):
    """Schemes of the kernels, and what the group sends for them.

    Parameters
    ----------
    schemes
        Scheme of each kernel: outputs, inputs or tokens are split; kernels that keep their state
        have it replicated, in columns or in tokens, in the same order.
    takes, gives
        State of what each kernel reads, and of its result.
    volume_bytes
        Least sum of the volumes of all collectives [B].
    """

    schemes: tuple[int, ...]
    takes: tuple[State, ...]
    gives: tuple[State, ...]
    volume_bytes: float


# Takes and gives of the three schemes of a product; others keep the state.
PRODUCT_TAKES, PRODUCT_GIVES = (REPLICATED, COLUMNS, TOKENS), (COLUMNS, REPLICATED, TOKENS)
KEPT = (REPLICATED, COLUMNS, TOKENS)


def _is_product(kernel: Kernel) -> bool:
    """Whether a kernel multiplies by weights."""
    return kernel.kind == "gemm" and kernel.weight_bytes > 0


def _volumes(kernel: Kernel) -> Floats:
    """What a kernel sends in each of its three schemes [B]; infinite where it has none."""
    if kernel.kind == "simd":
        return np.array([0.0, inf if kernel.whole_rows else 0.0, 0.0])
    if not kernel.weight_bytes:
        return np.array([inf, 0.0, inf])
    summed = 0.0 if kernel.added_elsewhere else kernel.output_bytes
    return np.array([0.0, summed, kernel.weight_bytes])


def _conversion(gives: int, takes: int) -> float:
    """Share of a result that is sent to turn one state into another [1]."""
    return 0.0 if gives in (takes, REPLICATED) else 1.0


def best_sharding(graph: KernelGraph, *, repeated: bool = False) -> GraphSharding:
    """The sharding of the least volume.

    Parameters
    ----------
    graph
        Kernels as on a single chip, whole tensors; updates of weights send nothing of their own.
    repeated
        Whether the graph runs again on its own results, which every chip then has all of.

    Raises
    ------
    InputError
        If the graph is too wide for an exact answer.

    Examples
    --------
    The 1T model of the paper: four all-reduces of 2 x 25,600 x 2,048 bytes.

    >>> from netplan.workloads.models import MODELS
    >>> from netplan.workloads.model_graphs import layer_graph
    >>> graph = layer_graph(MODELS.load("gpt-1t"), direction="both")
    >>> best_sharding(graph).volume_bytes / (2 * 25_600 * 2_048)
    4.0
    """
    ends = [
        (PRODUCT_TAKES, PRODUCT_GIVES) if _is_product(kernel) else (KEPT, KEPT)
        for kernel in graph.kernels
    ]
    results = set(graph.results.tolist()) if repeated else set()
    tables = []
    for index, kernel in enumerate(graph.kernels):
        volumes = np.zeros(3) if kernel.kind == "update" else _volumes(kernel)
        if index in results:
            whole = [_conversion(end, REPLICATED) for end in ends[index][1]]
            volumes = volumes + kernel.output_bytes * np.array(whole)
        tables.append(VolumeTable((index,), volumes))
    for source, target, size in _shared_edges(graph):
        turned = [[size * _conversion(end, two) for two in ends[target][0]]
                  for end in ends[source][1]]  # fmt: skip
        tables.append(VolumeTable((source, target), np.array(turned)))
    volume, schemes = _eliminate(graph.count, tables)
    return GraphSharding(
        tuple(schemes),
        tuple(STATES[takes[scheme]] for (takes, _), scheme in zip(ends, schemes, strict=True)),
        tuple(STATES[gives[scheme]] for (_, gives), scheme in zip(ends, schemes, strict=True)),
        volume,
    )


def _shared_edges(graph: KernelGraph) -> Iterator[tuple[int, int, float]]:
    """Edges whose states count, with their bytes: all but those to updates of weights."""
    edges = zip(
        graph.source.tolist(), graph.target.tolist(), graph.edge_bytes.tolist(), strict=True
    )
    yield from (edge for edge in edges if graph.kernels[edge[1]].kind != "update")


def shared_graph(graph: KernelGraph, chips: int, *, repeated: bool = False) -> KernelGraph:
    """What one of so many chips has of a graph that they share at the least volume.

    Parameters
    ----------
    graph
        Kernels as on a single chip, whole tensors.
    chips
        Chips that share every kernel [1].
    repeated
        As in :func:`best_sharding`.

    Raises
    ------
    InputError
        If the graph is too wide to be sharded exactly.

    Examples
    --------
    An MLP of two products on 4 chips: split outputs, then split inputs, whose sums are added.

    >>> kernels = [
    ...     Kernel("up", "gemm", 4096, 1024, 512, output_bytes=4e6, weight_bytes=8e6),
    ...     Kernel("down", "gemm", 1024, 4096, 512, output_bytes=1e6, weight_bytes=8e6),
    ... ]
    >>> graph = shared_graph(KernelGraph.of(kernels, [("up", "down")]), chips=4)
    >>> [(one.m, one.k, one.weight_bytes, one.all_reduce_bytes) for one in graph.kernels]
    [(1024, 1024, 2000000.0, 0.0), (1024, 1024, 2000000.0, 1000000.0)]
    """
    if chips == 1:
        return graph
    sharding = best_sharding(graph, repeated=repeated)
    pairs = zip(graph.kernels, sharding.schemes, strict=True)
    kernels = [_part(kernel, scheme, chips) for kernel, scheme in pairs]
    for source, target, size in _shared_edges(graph):
        states = sharding.gives[source], sharding.takes[target]
        kernels[target] = _turned(kernels[target], states, size, chips)
    for index in graph.results.tolist() if repeated else ():
        size = graph.kernels[index].output_bytes
        kernels[index] = _turned(kernels[index], (sharding.gives[index], "replicated"), size, chips)
    return replace(graph, kernels=tuple(kernels))


def even_shares(graph: KernelGraph, *, repeated: bool = False) -> int:
    """Number of chips whose divisors all share a graph evenly, at the least volume [1].

    Examples
    --------
    >>> even_shares(KernelGraph.of([Kernel("one", "gemm", 12, 8, 16, weight_bytes=192.0)], []))
    12
    """
    pairs = zip(graph.kernels, best_sharding(graph, repeated=repeated).schemes, strict=True)
    cuts = [(kernel, _cut_size(kernel, scheme)) for kernel, scheme in pairs]
    return gcd(*(getattr(kernel, size) for kernel, size in cuts if size)) or 1


def _part(kernel: Kernel, scheme: int, chips: int) -> Kernel:
    """What one chip has of a kernel; its own collectives are those of the scheme."""
    size = _cut_size(kernel, scheme)
    part = replace(kernel, all_reduce_bytes=0.0, all_to_all_bytes=0.0)
    if size is None:
        return part
    whole_weights, summed = size == "n" and _is_product(kernel), size == "k"
    return replace(
        part,
        **{size: -(-getattr(kernel, size) // chips)},
        output_bytes=kernel.output_bytes / (1 if summed else chips),
        weight_bytes=kernel.weight_bytes / (1 if whole_weights else chips),
        outside_bytes=kernel.outside_bytes / chips,
        read_bytes=kernel.read_bytes / chips,
        all_reduce_bytes=kernel.output_bytes if summed and not kernel.added_elsewhere else 0.0,
        broadcast_bytes=kernel.weight_bytes if whole_weights else 0.0,
    )


def _cut_size(kernel: Kernel, scheme: int) -> Literal["m", "k", "n"] | None:
    """Which size of a kernel a scheme cuts; None where every chip has all of it."""
    if kernel.kind == "update":
        return "m"
    if _is_product(kernel):
        return ("m", "k", "n")[scheme]
    return (None, "m", "n")[scheme]


def _turned(kernel: Kernel, states: tuple[State, State], size: float, chips: int) -> Kernel:
    """A kernel that brings a result of so many bytes from one state into another."""
    gives, takes = (STATES.index(state) for state in states)
    if not _conversion(gives, takes):
        return kernel
    if takes == REPLICATED:
        return replace(kernel, all_gather_bytes=kernel.all_gather_bytes + size)
    return replace(kernel, all_to_all_bytes=kernel.all_to_all_bytes + size / chips**2)


class VolumeTable(Struct, frozen=True, eq=False):
    """Volumes by the schemes of some kernels, an axis each."""

    kernels: tuple[int, ...]
    volumes: Floats

    def spread(self, kernels: tuple[int, ...]) -> Floats:
        """The same with an axis for each of these kernels, in their order."""
        order = sorted(range(len(self.kernels)), key=lambda axis: kernels.index(self.kernels[axis]))
        shape = [3 if kernel in self.kernels else 1 for kernel in kernels]
        return self.volumes.transpose(order).reshape(shape)


def _eliminate(count: int, tables: list[VolumeTable]) -> tuple[float, list[int]]:
    """Least sum of all tables, and the scheme of each kernel that gives it."""
    mine: list[list[VolumeTable]] = [[] for _ in range(count)]
    for table in tables:
        for index in table.kernels:
            mine[index].append(table)
    solved: list[tuple[int, tuple[int, ...], Codes]] = []
    total = 0.0
    for kernel, others in _order(count, [table.kernels for table in tables]):
        kernels = (*others, kernel)
        together = sum(
            (table.spread(kernels) for table in mine[kernel]), start=np.zeros([3] * len(kernels))
        )
        mine[kernel].clear()
        solved.append((kernel, others, together.argmin(axis=-1).astype(np.int8)))
        least = VolumeTable(others, together.min(axis=-1))
        for other in others:
            mine[other] = [*(table for table in mine[other] if kernel not in table.kernels), least]
        total += 0.0 if others else float(least.volumes)
    schemes = [0] * count
    for kernel, others, best in reversed(solved):
        schemes[kernel] = int(best[tuple(schemes[other] for other in others)])
    return total, schemes


def _order(count: int, together: Iterable[tuple[int, ...]]) -> list[tuple[int, tuple[int, ...]]]:
    """Kernels in the order in which they are solved, with those on which each depends then.

    Raises
    ------
    InputError
        If tables of that many kernels are too large, before any is made.
    """
    around: list[set[int]] = [{index} for index in range(count)]
    for kernels in together:
        for kernel in kernels:
            around[kernel].update(kernels)
    left, order, entries = set(range(count)), [], 0
    while left:
        kernel = min(left, key=lambda kernel: (len(around[kernel]), kernel))
        entries += 3 ** (len(around[kernel]) - 1)
        if len(around[kernel]) > MAX_NEIGHBOURS or entries > MAX_CHOICES:
            raise InputError(
                f"the graph is too wide to be sharded exactly: {len(around[kernel])} kernels depend"
                f" on one another at once, at most {MAX_NEIGHBOURS}, fewer in a long graph: give"
                " its file the chips that share it, or keep it on one, with a tensor degree of 1"
            )
        left.remove(kernel)
        others = tuple(sorted(around[kernel] - {kernel}))
        order.append((kernel, others))
        for other in others:
            around[other] = (around[other] | set(others)) - {kernel}
    return order

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
exact and quick for the narrow graphs of networks.

Source: DFModel (Ko et al., ACM TACO 2024), Sec. V and VI-A.
"""

from math import inf
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.workloads.kernel_graph import Kernel, KernelGraph

State = Literal["replicated", "columns", "tokens"]
STATES: tuple[State, ...] = ("replicated", "columns", "tokens")
REPLICATED, COLUMNS, TOKENS = range(3)

MAX_NEIGHBOURS = 13
"""Kernels whose schemes one table may span, 3^13 entries [1]."""


class GraphSharding(Struct, frozen=True):
    """States of the results, and what the group sends for them.

    Parameters
    ----------
    takes, gives
        State of what each kernel reads, and of its result.
    volume_bytes
        Least sum of the volumes of all collectives [B].
    """

    takes: tuple[State, ...]
    gives: tuple[State, ...]
    volume_bytes: float


# Takes and gives of the three schemes of a product; others keep the state.
PRODUCT_TAKES, PRODUCT_GIVES = (REPLICATED, COLUMNS, TOKENS), (COLUMNS, REPLICATED, TOKENS)
KEPT = (REPLICATED, COLUMNS, TOKENS)


def _ends(kernel: Kernel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What a kernel takes and gives in each of its three schemes."""
    return (PRODUCT_TAKES, PRODUCT_GIVES) if kernel.weight_bytes else (KEPT, KEPT)


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


def best_sharding(graph: KernelGraph) -> GraphSharding:
    """The sharding of the least volume.

    Parameters
    ----------
    graph
        Kernels as on a single chip, whole tensors; updates of weights send nothing of their own.

    Raises
    ------
    InputError
        If the graph is too wide for an exact answer.

    Examples
    --------
    The 1T model of the paper: four all-reduces of 2 x 25,600 x 2,048 bytes.

    >>> from netplan.workloads.models import MODELS
    >>> from netplan.workloads.transformer_graph import layer_graph
    >>> graph = layer_graph(MODELS.load("gpt-1t"), direction="both")
    >>> best_sharding(graph).volume_bytes / (2 * 25_600 * 2_048)
    4.0
    """
    tables: list[VolumeTable] = []
    updates = {at for at, kernel in enumerate(graph.kernels) if kernel.kind == "update"}
    for at, kernel in enumerate(graph.kernels):
        tables.append(VolumeTable((at,), np.zeros(3) if at in updates else _volumes(kernel)))
    edges = zip(graph.source.tolist(), graph.target.tolist(), graph.edge_bytes, strict=True)
    for source, target, size in edges:
        if target not in updates:
            gives, takes = _ends(graph.kernels[source])[1], _ends(graph.kernels[target])[0]
            turned = [[size * _conversion(one, two) for two in takes] for one in gives]
            tables.append(VolumeTable((source, target), np.array(turned)))
    volume, schemes = _eliminate(graph.count, tables)
    ends = [_ends(kernel) for kernel in graph.kernels]
    return GraphSharding(
        tuple(STATES[takes[at]] for (takes, _), at in zip(ends, schemes, strict=True)),
        tuple(STATES[gives[at]] for (_, gives), at in zip(ends, schemes, strict=True)),
        volume,
    )


class VolumeTable(Struct, frozen=True, eq=False):
    """Volumes by the schemes of some kernels, an axis each."""

    kernels: tuple[int, ...]
    volumes: Floats

    def spread(self, kernels: tuple[int, ...]) -> Floats:
        """The same with an axis for each of these kernels, in their order."""
        order = sorted(range(len(self.kernels)), key=lambda axis: kernels.index(self.kernels[axis]))
        shape = [3 if one in self.kernels else 1 for one in kernels]
        return self.volumes.transpose(order).reshape(shape)


def _eliminate(count: int, tables: list[VolumeTable]) -> tuple[float, list[int]]:
    """Least sum of all tables, and the scheme of each kernel that gives it."""
    solved: list[tuple[int, tuple[int, ...], Floats]] = []
    left, total = set(range(count)), 0.0
    while left:
        around = {at: {one for table in tables for one in table.kernels if at in table.kernels}
                  for at in left}  # fmt: skip
        at = min(left, key=lambda one: (len(around[one]), one))
        if len(around[at]) > MAX_NEIGHBOURS:
            raise InputError(
                f"the graph is too wide to be sharded exactly: {len(around[at])} kernels depend on"
                f" one another at once, at most {MAX_NEIGHBOURS}: map parts of it"
            )
        kernels = (*sorted(around[at] - {at}), at)
        mine = [table for table in tables if at in table.kernels]
        together = sum(
            (table.spread(kernels) for table in mine), start=np.zeros([3] * len(kernels))
        )
        tables = [table for table in tables if at not in table.kernels]
        solved.append((at, kernels[:-1], together))
        least = together.min(axis=-1)
        if len(kernels) > 1:
            tables.append(VolumeTable(kernels[:-1], least))
        else:
            total += float(least)
        left.remove(at)
    schemes = [0] * count
    for at, others, together in reversed(solved):
        schemes[at] = int(together[tuple(schemes[one] for one in others)].argmin())
    return total, schemes

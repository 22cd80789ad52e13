"""Kernel graphs: what a chip computes in one step, kernel by kernel, and which result goes where.

A graph is finer than the operations of a program (`netplan.workloads.operations`): it has an edge
for every result, so that a mapper may keep results on the chip
(`netplan.performance.mapping.fusion`). Sizes are those of one chip.

=============  ====================================================================================
``gemm``       (m x k) times (k x n): weights or an activation times n tokens, 2 m k n FLOP
``simd``       element by element, m values for each of n tokens, m n FLOP
``update``     gradients of weights, (m x k) times (k x n) over k tokens, 2 m k n FLOP
=============  ====================================================================================

Source: DFModel (Ko et al., ACM TACO 2024), Sec. III and the input files of its public code.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Codes, Floats, Ints
from netplan.errors import InputError
from netplan.records import replace

KernelKind = Literal["gemm", "simd", "update"]
KERNEL_KINDS: tuple[KernelKind, ...] = ("gemm", "simd", "update")
GEMM, SIMD, UPDATE = range(3)

Direction = Literal["forward", "backward", "both"]


class Kernel(Struct, frozen=True):
    """One kernel on one chip.

    Parameters
    ----------
    name, kind
        What it is called, unlike all others of its graph, and what it is.
    m, k, n
        Sizes of its product; k is 1 for ``simd`` [1].
    output_bytes, weight_bytes
        Its result, and the weights that it holds [B].
    all_reduce_bytes, all_gather_bytes, broadcast_bytes
        What the chips of a tensor group sum up of its result, gather for it, and send to all of
        them, whole sizes [B].
    all_to_all_bytes
        What each chip sends to each other one [B].
    outside_bytes
        What it reads and writes of the inputs and results of the whole graph [B].
    read_bytes
        What it reads before it begins, such as rows of tables [B].
    backward
        Whether it belongs to the backward pass, which begins when all of the forward one is done.
    whole_rows
        Whether a ``simd`` kernel needs all columns of a token, as a norm does.
    added_elsewhere
        Whether its partial sums are added to those of another kernel, which sums up both.
    """

    name: str
    kind: KernelKind
    m: int
    k: int
    n: int
    output_bytes: float = 0.0
    weight_bytes: float = 0.0
    all_reduce_bytes: float = 0.0
    all_gather_bytes: float = 0.0
    broadcast_bytes: float = 0.0
    all_to_all_bytes: float = 0.0
    outside_bytes: float = 0.0
    read_bytes: float = 0.0
    backward: bool = False
    whole_rows: bool = False
    added_elsewhere: bool = False

    @property
    def flops(self) -> float:
        """Work of the kernel [FLOP]."""
        return float(self.m * self.n if self.kind == "simd" else 2 * self.m * self.k * self.n)


class KernelGraph(Struct, frozen=True, eq=False, dict=True):
    """Kernels in an order in which every result comes before its use, and the results' edges.

    Parameters
    ----------
    kernels
        The kernels.
    source, target
        Producer and user of each edge, by place in the order, shape (edges,).

    Examples
    --------
    >>> graph = KernelGraph.of(
    ...     [Kernel("scale", "simd", 8, 1, 4, 64.0), Kernel("product", "gemm", 16, 8, 4)],
    ...     [("scale", "product")],
    ... )
    >>> graph.edge_bytes, graph.depth, graph.flops
    (array([64.]), array([0, 1]), array([  32., 1024.]))
    """

    kernels: tuple[Kernel, ...]
    source: Ints
    target: Ints

    @classmethod
    def of(cls, kernels: Sequence[Kernel], edges: Iterable[tuple[str, str]]) -> "KernelGraph":
        """A graph from kernels and edges by name, brought into an order in which it can run.

        Raises
        ------
        InputError
            If a name stands twice or is unknown, or the edges run in a circle.
        """
        names = [kernel.name for kernel in kernels]
        place = {name: index for index, name in enumerate(names)}
        if len(place) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"two kernels are called {twice!r:.60}: give each a name of its own")
        pairs = list(edges)
        for name in (end for pair in pairs for end in pair):
            if name not in place:
                raise InputError(f"an edge names {name!r:.60}, which is no kernel of the graph")
        source = np.array([place[first] for first, _ in pairs], np.int64)
        target = np.array([place[second] for _, second in pairs], np.int64)
        if (source < target).all():
            return cls(tuple(kernels), source, target)
        order = _topological(len(names), source, target)
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        return cls(
            tuple(kernels[index] for index in order.tolist()), number[source], number[target]
        )

    def repeated(self, layers: int) -> "KernelGraph":
        """So many copies one after the other, each fed with the results of the one before.

        Copies from the second on are called such as ``product.2``.

        Examples
        --------
        >>> graph = KernelGraph.of([Kernel("a", "simd", 8, 1, 4), Kernel("b", "simd", 8, 1, 4)], [])
        >>> twice = graph.repeated(2)
        >>> twice.names, twice.source, twice.target
        (('a', 'b', 'a.2', 'b.2'), array([0, 0, 1, 1]), array([2, 3, 2, 3]))
        """
        firsts = np.setdiff1d(np.arange(self.count), self.target)
        places = self.count * np.arange(layers)[:, None]
        handed = places[:-1] + np.repeat(self.results, len(firsts))
        taken = places[1:] + np.tile(firsts, len(self.results))
        source = np.concatenate([(places + self.source).ravel(), handed.ravel()])
        target = np.concatenate([(places + self.target).ravel(), taken.ravel()])
        kernels = self.kernels + tuple(
            replace(kernel, name=f"{kernel.name}.{layer}", outside_bytes=0.0)
            if kernel_number in firsts
            else replace(kernel, name=f"{kernel.name}.{layer}")
            for layer in range(2, layers + 1)
            for kernel_number, kernel in enumerate(self.kernels)
        )
        return KernelGraph(kernels, source, target)

    @property
    def count(self) -> int:
        """Kernels [1]."""
        return len(self.kernels)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the kernels in their order."""
        return tuple(kernel.name for kernel in self.kernels)

    @cached_property
    def kind(self) -> Codes:
        """Kind of each kernel, its place in ``KERNEL_KINDS``, shape (kernels,)."""
        return np.array([KERNEL_KINDS.index(kernel.kind) for kernel in self.kernels], np.int8)

    def column(self, name: str) -> Floats:
        """A size of all kernels, shape (kernels,)."""
        return np.array([getattr(kernel, name) for kernel in self.kernels], np.float64)

    @property
    def flops(self) -> Floats:
        """Work of each kernel, shape (kernels,) [FLOP]."""
        return self.column("flops")

    @cached_property
    def edge_bytes(self) -> Floats:
        """What each edge carries, the whole result of its producer, shape (edges,) [B]."""
        return self.column("output_bytes")[self.source]

    @cached_property
    def backward(self) -> Bools:
        """Whether each kernel belongs to the backward pass, shape (kernels,)."""
        return np.array([kernel.backward for kernel in self.kernels], np.bool_)

    @cached_property
    def results(self) -> Ints:
        """Kernels of each pass whose result no other one of it needs, by place; no updates."""
        updates = self.kind == UPDATE
        within = (self.backward[self.source] == self.backward[self.target]) & ~updates[self.target]
        needed = np.bincount(self.source[within], minlength=self.count) > 0
        return np.flatnonzero(~needed & ~updates)

    @property
    def handed_on_bytes(self) -> float:
        """Results of the forward pass, or of the backward one alone, for the next layer [B]."""
        ahead = self.results[~self.backward[self.results]]
        chosen = ahead if len(ahead) else self.results
        return float(self.column("output_bytes")[chosen].sum())

    @cached_property
    def depth(self) -> Ints:
        """Longest path to each kernel from one without inputs, shape (kernels,) [edges]."""
        depth = np.zeros(self.count, np.int64)
        into = np.argsort(self.target, kind="stable")
        for edge in into.tolist():
            # Edges come by their target, so that the depth of a source is known before its use.
            target = self.target[edge]
            depth[target] = max(depth[target], depth[self.source[edge]] + 1)
        return depth

    def place(self, name: str) -> int:
        """Place of a kernel in the order.

        Raises
        ------
        InputError
            If the graph has no kernel of this name.
        """
        if name not in self.names:
            raise InputError(
                f"no kernel is called {name!r:.60}: the graph has {', '.join(self.names)}"
            )
        return self.names.index(name)


def _topological(count: int, source: Ints, target: Ints) -> Ints:
    """An order in which every edge leads forward, as near to the given one as can be."""
    waiting = np.bincount(target, minlength=count)
    ready = sorted(np.flatnonzero(waiting == 0).tolist(), reverse=True)
    order: list[int] = []
    while ready:
        kernel = ready.pop()
        order.append(kernel)
        for edge in np.flatnonzero(source == kernel).tolist():
            waiting[target[edge]] -= 1
            if not waiting[target[edge]]:
                ready.append(int(target[edge]))
        ready.sort(reverse=True)
    if len(order) < count:
        raise InputError("the edges of the kernel graph run in a circle: a result needs itself")
    return np.array(order, np.int64)

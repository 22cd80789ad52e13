"""Operators on a group of tiles: which part each tile has, what they send, what goes to memory.

A group cuts an operator of m x k times k x n numbers and some samples into parts, as many as it has
tiles (table III of the paper; of a convolution m are filters, k channels, n places):

=======  ============  =========================================================================
degree   cuts          tiles of one such group
=======  ============  =========================================================================
samples  samples       have the same weights, whose gradients they sum up
tokens   n             likewise
outputs  m             need the same inputs: they gather them, and sum up their gradients
inner    k             have partial sums of the results: they sum them up, and gather gradients
=======  ============  =========================================================================

Backward each operator has two products of the forward one's FLOPs, those for its inputs and those
for its weights, or for the other operand; what works element by element has one.

What goes to memory depends on what the SRAM of a tile holds of all operators of a stage: W, their
weights with gradients and states of the optimizer, and A, their inputs for all samples under way;
where nothing runs backward A is what the most demanding of them takes and gives, and what lies
beside it for later ones.

==================  ==============================================================================
W + A fit           nothing
W fits              inputs and results
A fits              weights
neither             min(ceil(U / S) V + U, ceil(V / S) U + V) for operands of U and V bytes, the
                    one or the other of which stays in pieces of S, and the result
==================  ==============================================================================

Source: Fang et al., PALM (arXiv:2406.03868), Sec. IV-B and IV-C, Table III and Algorithm 1, of
which five things are corrected: it asks a second time for the weights where its code asks for the
activations, so that the third case never holds; it has no case for a stage that lies on the chip
whole, which its text names; it leaves the first reading of what stays in pieces out; it adds up the
inputs of all operators where none is needed again; and only the sums of Table III are sent, not the
inputs that tiles have in common. Parts are whole: the fullest tile counts.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.workloads.kernel_graph import Kernel, KernelGraph
from netplan.workloads.tiled_layer import streamed_bytes

Held = Literal["all", "weights", "activations", "nothing"]
"""What the tiles of a stage hold from one sample to the next."""

SAMPLES, OUTPUTS, TOKENS, INNER = range(4)
"""Columns of a split."""


class TileOperator(Struct, frozen=True):
    """One operator, for one sample.

    Parameters
    ----------
    name
        What it is called.
    m, k, n
        Sizes of its product; k is 1 of what works element by element [1].
    flops
        Work of the forward pass [FLOP].
    input_bytes, weight_bytes, output_bytes
        What it takes, holds and gives [B].
    beside_bytes
        Results of earlier operators that later ones need, and it does not [B].
    product
        Whether it is a product of matrices, or a convolution.
    """

    name: str
    m: int
    k: int
    n: int
    flops: float
    input_bytes: float
    weight_bytes: float
    output_bytes: float
    beside_bytes: float = 0.0
    product: bool = True

    @property
    def sizes(self) -> tuple[float, ...]:
        """All but its name: operators of the same sizes are cut alike."""
        carried = self.input_bytes, self.weight_bytes, self.output_bytes, self.beside_bytes
        return self.m, self.k, self.n, *carried, float(self.product)

    @property
    def backward_flops(self) -> float:
        """Work of the backward pass [FLOP]."""
        return 2 * self.flops if self.product else self.flops


def operators_of(graph: KernelGraph, bytes_of_two: float = 2.0) -> tuple[TileOperator, ...]:
    """The forward kernels of a graph as operators.

    Parameters
    ----------
    graph
        Kernels on a single chip, in the order in which they run.
    bytes_of_two
        What a number takes of which the graph counts 2 bytes [B].

    Examples
    --------
    >>> from netplan.workloads.models import WORKLOADS
    >>> first, pool, _, middle, *_ = operators_of(
    ...     WORKLOADS.load("resnet-50").graph(), bytes_of_two=1.0
    ... )
    >>> first.input_bytes, first.output_bytes, pool.input_bytes
    (150528.0, 802816.0, 802816.0)

    Beside the second convolution of a block lies what its projection needs:

    >>> middle.name, middle.beside_bytes == pool.output_bytes
    ('conv2_1b', True)
    """
    scale = bytes_of_two / 2.0
    fed = graph.column("outside_bytes") + graph.column("read_bytes")
    np.add.at(fed, graph.target, graph.edge_bytes)
    last_use = np.arange(graph.count)
    np.maximum.at(last_use, graph.source, graph.target)
    left = np.zeros(graph.count)
    for made, used in enumerate(last_use.tolist()):
        left[made + 1 : used] += graph.kernels[made].output_bytes
    # What an operator takes itself does not lie beside it.
    inside = graph.target < last_use[graph.source]
    np.subtract.at(left, graph.target[inside], graph.edge_bytes[inside])

    def operator(kernel: Kernel, input_bytes: float, beside_bytes: float) -> TileOperator:
        return TileOperator(
            *(kernel.name, kernel.m, kernel.k, kernel.n, kernel.flops),
            input_bytes=scale * input_bytes,
            weight_bytes=scale * kernel.weight_bytes,
            output_bytes=scale * kernel.output_bytes,
            beside_bytes=scale * beside_bytes,
            product=kernel.kind == "gemm",
        )

    rows = zip(graph.kernels, fed.tolist(), left.tolist(), strict=True)
    return tuple(operator(*row) for row in rows)


@lru_cache(maxsize=1024)
def splits_of(tiles: int) -> Ints:
    """All ways to cut four ways into so many parts, shape (splits, 4): samples first.

    Examples
    --------
    >>> len(splits_of(16)), splits_of(2)[0]
    (35, array([1, 1, 1, 2]))
    """
    return np.array([*_factors(tiles, INNER + 1)], np.int64)


def _factors(number: int, count: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as so many factors, in order."""
    if count == 1:
        yield (number,)
        return
    for first in range(1, number + 1):
        if number % first == 0:
            for others in _factors(number // first, count - 1):
                yield first, *others


class TileParts(Struct, frozen=True, eq=False):
    """What one tile has of an operator, by split: the fullest tile, shape (splits,).

    Parameters
    ----------
    flops
        Forward [FLOP].
    input_bytes, weight_bytes, output_bytes
        Its part of each [B].
    gathered, summed
        Tiles that have these inputs in common, and tiles that add up these results [1].
    allowed
        Whether every tile has a part.
    """

    flops: Floats
    input_bytes: Floats
    weight_bytes: Floats
    output_bytes: Floats
    gathered: Ints
    summed: Ints
    allowed: Bools


def tile_parts(operator: TileOperator, samples: int, splits: Ints) -> TileParts:
    """What one tile has of an operator.

    Parameters
    ----------
    operator
        The operator.
    samples
        Samples of a microbatch [1].
    splits
        Ways to cut it, as of :func:`splits_of`.

    Examples
    --------
    64 filters of 7 x 7 x 3 on 112 x 112 places, eight samples on four tiles that have two samples
    each, and on four that have 16 filters each:

    >>> from netplan.workloads.graph_model import Window
    >>> graph = KernelGraph.of([Window((224, 224), (7, 7), 3, 64, 2).kernel("a")], [])
    >>> found = tile_parts(operators_of(graph)[0], 8, np.array([[4, 1, 1, 1], [1, 4, 1, 1]]))
    >>> found.flops / 1e6, found.weight_bytes, found.gathered
    (array([472.055808, 472.055808]), array([18816.,  4704.]), array([1, 4]))
    """
    sizes = np.array([samples, operator.m, operator.n, operator.k])
    parts = -(-sizes // splits)
    whole = float(np.prod(sizes[1:].astype(np.float64)))
    batches, outputs, tokens, inner = splits.T
    shares_input = operator.weight_bytes > 0
    cut_input = batches * tokens * inner * (1 if shares_input else outputs)
    return TileParts(
        flops=operator.flops / whole * parts.astype(np.float64).prod(axis=1),
        input_bytes=samples * operator.input_bytes / cut_input,
        weight_bytes=operator.weight_bytes / (outputs * inner),
        output_bytes=samples * operator.output_bytes / (batches * tokens * outputs),
        gathered=outputs if shares_input else np.ones_like(outputs),
        summed=inner,
        allowed=np.all(splits <= sizes, axis=1),
    )


def held_on_chip(weights: float, activations: float, sram_bytes: float) -> Held:
    """What a tile holds of a stage from one sample to the next.

    Parameters
    ----------
    weights, activations
        What it has of both, with gradients and states, and for all samples under way [B].
    sram_bytes
        Its memory [B].

    Examples
    --------
    >>> [held_on_chip(*sizes, sram_bytes=10) for sizes in [(6, 4), (6, 9), (11, 9), (11, 11)]]
    ['all', 'weights', 'activations', 'nothing']
    """
    if weights + activations <= sram_bytes:
        return "all"
    if weights <= sram_bytes:
        return "weights"
    return "activations" if activations <= sram_bytes else "nothing"


def operand_bytes(
    activation: float, other: float, result: float, held: Held, *, sram_bytes: float, weights: int
) -> float:
    """What a product of two operands moves through memory, by what is held [B].

    Parameters
    ----------
    activation, other, result
        Operands and result of a tile; the first one is no weight [B].
    held
        What the tile holds.
    sram_bytes
        Its memory [B].
    weights
        Which of the others are weights or their gradients: 0 none, 1 the second operand, 2 the
        result.

    Examples
    --------
    Weights of 20 B that stay in two pieces, for each of which the 30 B are read:

    >>> [operand_bytes(30.0, 20.0, 5.0, held, sram_bytes=10, weights=1)
    ...  for held in ("all", "weights", "activations", "nothing")]
    [0.0, 35.0, 20.0, 85.0]
    """
    of_weights = (0.0, other, result)[weights]
    if held == "all":
        return 0.0
    if held == "weights":
        return activation + other + result - of_weights
    if held == "activations":
        return of_weights
    first, second = streamed_bytes(activation, other, sram_bytes)
    return float(first + second) + result

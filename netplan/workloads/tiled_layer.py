"""A transformer layer whose products read their operands again, by the memory on the chip.

A product of M x K and K x N numbers has three phases of the same FLOPs, 2 M K N, one after the
other: forward, for the gradients of its inputs, and for those of its weights. Of its three matrices
each phase reads two and writes the third,

    forward           M x K, K x N  ->  M x N
    input gradient    M x N, K x N  ->  M x K
    weight gradient   M x K, M x N  ->  K x N

The chip holds a piece of one operand while the other streams by, so that one of them is read once
for every piece of the other (:func:`gemm_traffic_bytes`).

========================  =======  =======  ==========  ================
product                   rows M   inner K  columns N   how often
========================  =======  =======  ==========  ================
qkv                       tokens   h        3h / t      1
scores                    s        h / a    s           b a / t
attend                    s        s        h / a       b a / t
projection                tokens   h / t    h           1
up                        tokens   h        4h / t      1
down                      tokens   4h / t   h           1
========================  =======  =======  ==========  ================

with b sequences of s tokens, hidden size h, a heads and t tensor GPUs. Replicas may share a
sequence and GPUs a head: b and a/t may be fractions. Scores and attend have no weights; their last
phase are the gradients of the other operand. Element by element two norms, two residual sums and
the activation function move 20 tokens h + 16 tokens h / t bytes forward and twice that backward. An
all_reduce over the tensor GPUs follows projection and down forward, up and qkv backward.

Source: Kadiyala et al., COMET (arXiv:2211.16648), Sec. III-C and Table II, but for three slips
there: scores are those of a sequence with itself, the last product has h columns, and heads are
shared by the tensor GPUs. Grouped keys and gated activations are netplan's own, counted the same
way; heads of keys may be shared as well. Left out: recomputed scores, so that ``selective``
recomputation is none; dropout and biases.
"""

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats
from netplan.errors import InputError
from netplan.inputs.choices import Strategy
from netplan.records import replace
from netplan.workloads import operations as ops
from netplan.workloads.models import Model, refuse_unlike

NORMS_AND_SUMS_BYTES = 2 * 2 * ops.ELEMENT_BYTES + 2 * 3 * ops.ELEMENT_BYTES
"""Two norms read and write, two sums read two numbers and write one [B a number]."""


def gemm_traffic_bytes(
    rows: Amount,
    inner: Amount,
    columns: Amount,
    *,
    sram_bytes: float,
    element_bytes: float = ops.ELEMENT_BYTES,
) -> Amount:
    """Bytes that a product of rows x inner and inner x columns numbers moves through memory [B].

    For operands of U and V bytes, a result of W and memory on the chip of S bytes,

        min(ceil(U/S) V + U, ceil(V/S) U + V) + W.

    Parameters
    ----------
    rows, inner, columns
        M, K and N; may be fractions, of one shape [1].
    sram_bytes
        S [B].
    element_bytes
        One number [B].

    Returns
    -------
    float or array
        Of their shape [B].

    Raises
    ------
    InputError
        If there is no memory on the chip.

    References
    ----------
    Kadiyala et al., COMET (arXiv:2211.16648), Sec. III-C.

    Examples
    --------
    The first feed-forward product of a trillion parameters on 8 GPUs, 2,048 tokens: 105 MB of
    inputs in three pieces, 655 MB of weights in 17.

    >>> gemm_traffic_bytes(2048, 25600, 12800, sram_bytes=40e6)
    2123366400.0
    """
    _check_sram(sram_bytes)
    first, second = element_bytes * rows * inner, element_bytes * inner * columns
    moved = sum(streamed_bytes(first, second, sram_bytes)) + element_bytes * rows * columns
    return moved if np.ndim(moved) else float(moved)


def streamed_bytes(first: Amount, second: Amount, sram_bytes: float) -> tuple[Amount, Amount]:
    """What is read of two operands: one of them once, the other once for each piece of it [B]."""
    second_times, first_times = np.ceil(first / sram_bytes), np.ceil(second / sram_bytes)
    keeps_first = second_times * second + first <= first_times * first + second
    return (
        np.where(keeps_first, first, first_times * first),
        np.where(keeps_first, second_times * second, second),
    )


def _check_sram(sram_bytes: float) -> None:
    if not sram_bytes > 0:
        raise InputError(
            f"a tiled product needs memory on the chip, got {sram_bytes:g} B: give sram_bytes"
            " above 0"
        )


class TiledProduct(Struct, frozen=True, eq=False):
    """A product on one GPU, (rows x inner) times (inner x columns), ``times`` over."""

    name: str
    module: ops.Module
    rows: Amount
    inner: Amount
    columns: Amount
    times: Amount = 1.0
    has_weights: bool = True

    def operation(self, sram_bytes: float) -> ops.Operation:
        """The product in its three phases."""
        shape = ops.ProductShape(self.rows, self.inner, self.columns)
        inputs = ops.ELEMENT_BYTES * self.rows * self.inner
        matrix = ops.ELEMENT_BYTES * self.inner * self.columns
        result = ops.ELEMENT_BYTES * self.rows * self.columns

        def phase(
            first: Amount, second: Amount, made: Amount, of_weights: float = 0.0
        ) -> ops.OperationCost:
            reads = streamed_bytes(first, second, sram_bytes)
            return ops.OperationCost(
                tensor_flops=self.times * shape.flops,
                moved_bytes=self.times * (sum(reads) + made),
                weight_bytes=of_weights * reads[1],
            )

        has = 1.0 if self.has_weights else 0.0
        weight_gradient = phase(inputs, result, matrix)
        return ops.Operation(
            self.name,
            self.module,
            weight_bytes=has * matrix,
            activation_bytes=self.times * (inputs if self.has_weights else inputs + matrix),
            forward=phase(inputs, matrix, result, has),
            backward=phase(result, matrix, inputs, has),
            weight_gradient=replace(weight_gradient, gradient_bytes=has * matrix),
            shapes=(
                ops.ProductShape(self.times * self.rows, self.inner, self.columns, self.times),
            ),
            scores=not self.has_weights,
        )


def tiled_layer(
    model: Model,
    sharding: ops.Sharding,
    *,
    sram_bytes: float,
    strategy: Strategy = "1d",
    variant: ops.Variant = ops.PLAIN,
) -> ops.Layer:
    """The operations of one layer for many shardings at once.

    Parameters
    ----------
    model
        The transformer.
    sharding
        Ways to cut one microbatch over tensor GPUs, shape (shardings,).
    sram_bytes
        Memory on the chip of one GPU [B].
    strategy, variant
        Only ``1d``, without experts, embedding and head.

    Raises
    ------
    InputError
        If there is no memory on the chip, or strategy or variant are not covered.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> model, half = MODELS.load("transformer-1t"), ops.Sharding.of(0.5, tensor=4)
    >>> layer = tiled_layer(model, half, sram_bytes=40e6)
    >>> [operation.name for operation in layer.operations]
    ['qkv', 'scores', 'attend', 'projection', 'up', 'down', 'elementwise']
    """
    _check_sram(sram_bytes)
    if strategy != "1d" or variant.sparse or variant.embedding or variant.lm_head:
        raise InputError(
            "tiled operations cover dense 1d layers without embedding and head: use the iteration"
            " model 4d"
        )
    refuse_unlike(model, "tiled operations")
    tensor: Floats = sharding.tensor.astype(np.float64)
    sequences: Floats = sharding.microbatch.astype(np.float64)
    tokens, hidden = sequences * model.sequence_length, float(model.hidden_size)
    message = ops.ELEMENT_BYTES * tokens * hidden
    summed = ops.CollectiveCall("all_reduce", message, "tensor")
    operations = []
    for product in _products(model, tokens, sequences, tensor):
        operation = product.operation(sram_bytes)
        if operation.name in ("projection", "down"):
            operation = operation.sending("forward", summed)
        if operation.name in ("qkv", "up"):
            operation = operation.sending("backward", summed)
        operations.append(operation)
    activation = model.ffn_matrices * float(model.inner_size) / tensor
    operations.append(_elementwise(tokens, hidden, activation))
    return ops.Layer(tuple(operations), boundary_bytes=message)


def _products(
    model: Model, tokens: Floats, sequences: Floats, tensor: Floats
) -> tuple[TiledProduct, ...]:
    """The six products of a layer (table of this module)."""
    length, hidden = float(model.sequence_length), float(model.hidden_size)
    head, queries = float(model.head_elements), float(model.query_size)
    qkv = queries + 2 * head * model.key_heads
    ffn = float(model.inner_size)
    up = (model.ffn_matrices - 1) * ffn
    maps = sequences * model.heads / tensor
    return (
        TiledProduct("qkv", "attention", tokens, hidden, qkv / tensor),
        TiledProduct("scores", "attention", length, head, length, maps, has_weights=False),
        TiledProduct("attend", "attention", length, length, head, maps, has_weights=False),
        TiledProduct("projection", "attention", tokens, queries / tensor, hidden),
        TiledProduct("up", "mlp", tokens, hidden, up / tensor),
        TiledProduct("down", "mlp", tokens, ffn / tensor, hidden),
    )


def _elementwise(tokens: Floats, hidden: float, activation: Floats) -> ops.Operation:
    """Norms, residual sums and the activation function, which reads and writes so many columns."""
    moved = NORMS_AND_SUMS_BYTES * tokens * hidden + ops.ELEMENT_BYTES * tokens * activation
    return ops.Operation(
        "elementwise",
        "mlp",
        weight_bytes=0.0,
        activation_bytes=0.0,
        forward=ops.OperationCost(moved_bytes=moved),
        backward=ops.OperationCost(moved_bytes=2 * moved),
    )

"""Operations of a layer that are no matrix products: biases, activation functions, dropout, norms.

Counts per element are those of the published code of arXiv:2410.00273 (its tables leave them out);
the gated activation is counted here the same way. A bias works as hard backward as forward.
"""

from netplan.arrays import Amount, Floats
from netplan.workloads.operations import (
    ELEMENT_BYTES,
    MASK_BYTES,
    Collective,
    Local,
    Module,
    Operation,
    Tensor,
    Work,
)

NORM_FLOPS = 9
"""Mean, variance, scale and shift, forward [FLOP an element]."""


def bias(name: str, rows: Floats, width: Amount, copies: Amount = 1.0) -> Operation:
    """Add a bias of ``width`` to ``rows``; experts have several ``copies`` of it."""
    count = rows * width
    work = Work(vector_flops=count, moved_bytes=ELEMENT_BYTES * (count + copies * width))
    module: Module = "mlp" if name.startswith("fc") else "attention"
    weights = ELEMENT_BYTES * width * copies
    return Operation(name, module, weights, 0.0, work, work, result=Tensor(rows, width))


def activation(local: Local, rows: Floats) -> Operation:
    """The activation function of the feed-forward part, on rows x ffn_local elements X.

    ======  ============  ==============  ===========  ===============  =======
    name    forward FLOP  forward moves   backward     backward moves   stores
    ======  ============  ==============  ===========  ===============  =======
    gelu    8 X           2 X             13 X         3 X              X
    swiglu  5 X           3 X             10 X         5 X              2 X
    ======  ============  ==============  ===========  ===============  =======

    SwiGLU is y * x * sigmoid(x) of two inputs: exponential, sum, quotient and two products
    forward; backward the sigmoid again (3), the silu (1), its derivative (3), and the products of
    both gradients (3).
    """
    count = rows * local.ffn_local
    if local.gated:
        name, forward, forward_moves, backward, backward_moves, stores = "swiglu", 5, 3, 10, 5, 2
    else:
        name, forward, forward_moves, backward, backward_moves, stores = "gelu", 8, 2, 13, 3, 1
    return Operation(
        name,
        "mlp",
        0.0,
        ELEMENT_BYTES * stores * count,
        Work(vector_flops=forward * count, moved_bytes=ELEMENT_BYTES * forward_moves * count),
        Work(vector_flops=backward * count, moved_bytes=ELEMENT_BYTES * backward_moves * count),
        result=Tensor(rows, local.ffn_local),
    )


def dropout(name: str, count: Floats) -> Operation:
    """Dropout of ``count`` elements; only the mask is stored."""
    work = Work(vector_flops=count, moved_bytes=(2 * ELEMENT_BYTES + MASK_BYTES) * count)
    module: Module = "attention" if name == "drop_v" else "mlp"
    return Operation(name, module, 0.0, MASK_BYTES * count, work, work, result=Tensor(count))


def layer_norm(name: str, local: Local, *, gathers: bool = True) -> Operation:
    """Norm of scattered rows of the whole embedding (Tables I and II).

    What follows needs all rows: the norm gathers them, and scatters their gradients; in front of a
    mixture of experts it does not, because the tokens travel first.
    """
    rows, width = local.scattered_rows, local.hidden
    count = rows * width
    message = ELEMENT_BYTES * local.rows * width
    forward = Work(
        vector_flops=NORM_FLOPS * count,
        moved_bytes=ELEMENT_BYTES * (2 * count + 2 * rows + 2 * width),
        collectives=(Collective("all_gather", message, "tensor"),) if gathers else (),
    )
    backward = Work(
        vector_flops=8 * count + 4 * rows * (width - 1),
        moved_bytes=ELEMENT_BYTES * (5 * count + 2 * width),
        collectives=(Collective("reduce_scatter", message, "tensor"),) if gathers else (),
    )
    weights, stored = ELEMENT_BYTES * 2 * width, ELEMENT_BYTES * count
    result = Tensor(local.rows if gathers else rows, width)
    return Operation(name, _module(name), weights, stored, forward, backward, result=result)


def block_norm(name: str, local: Local, width: Floats, gradients: Floats) -> Operation:
    """Norm of a SUMMA block of ``width`` columns (Table A2); sums are reduced over the tensor GPUs.

    Parameters
    ----------
    name, local
        As elsewhere.
    width
        Columns of the block [1].
    gradients
        Elements of the backward all-reduce: 2e // n1 + 2bl // n2 [1].
    """
    rows = local.rows
    count = rows * width
    forward = Work(
        vector_flops=NORM_FLOPS * count,
        moved_bytes=ELEMENT_BYTES * (2 * count + 2 * rows + 2 * width),
        collectives=(Collective("all_reduce", ELEMENT_BYTES * 2 * rows, "tensor"),),
    )
    backward = Work(
        vector_flops=8 * count + 4 * rows * (width - 1),
        moved_bytes=ELEMENT_BYTES * (5 * count + 2 * width),
        collectives=(Collective("all_reduce", ELEMENT_BYTES * gradients, "tensor"),),
    )
    weights, stored = ELEMENT_BYTES * 2 * width, ELEMENT_BYTES * count
    result = Tensor(rows, width)
    return Operation(name, _module(name), weights, stored, forward, backward, result=result)


def _module(name: str) -> Module:
    """Module of a norm: the first belongs to the feed-forward part, the second to attention."""
    return "mlp" if name == "ln1" else "attention"

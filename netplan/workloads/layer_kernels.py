"""The kernels that a layer consists of: matrix products, biases, activations, dropout, norms.

Products have their weights cut by columns, by rows, or on a SUMMA grid. FLOPs are exact: a dot
product of length k takes 2k - 1 (arXiv:2410.00273, Tables I, II and A2; backward passes from its
published code). Of all others the counts per element are those of that code (its tables leave them
out); the gated activation is counted here the same way. A bias works as hard backward as forward.
"""

from msgspec import Struct

from netplan.arrays import Amount, Floats
from netplan.records import replace
from netplan.workloads import operations as ops

__all__ = (
    "activation",
    "bias",
    "column_product",
    "dropout",
    "layer_norm",
    "row_product",
    "summa_product",
)


Collectives = tuple[ops.CollectiveCall, ...]


class LocalProduct(Struct, frozen=True, eq=False):
    """One local product, (rows x width) times (width x columns)."""

    name: str
    module: ops.Module
    rows: Floats  # local sizes [1]
    width: Amount
    columns: Amount
    copies: Amount = 1.0  # matrices that share the rows: the experts of one GPU, else 1 [1]

    def operation(self, *, forward: Collectives = (), backward: Collectives = ()) -> ops.Operation:
        """The product with its collectives; the backward pass has two products of the same size."""
        rows, width, columns = self.rows, self.width, self.columns
        matrices = self.copies * width * columns
        weights = ops.ELEMENT_BYTES * matrices
        result = rows * columns
        touched = rows * width + result + matrices
        gradient_flops = rows * width * (2 * columns - 1)
        # Each matrix sums up the rows that are its own.
        weight_flops = width * columns * (2 * rows - self.copies)
        return ops.Operation(
            self.name,
            self.module,
            weights,
            ops.ELEMENT_BYTES * rows * width,
            ops.OperationCost(
                tensor_flops=result * (2 * width - 1),
                moved_bytes=ops.ELEMENT_BYTES * touched,
                collectives=forward,
                weight_bytes=weights,
            ),
            ops.OperationCost(
                tensor_flops=gradient_flops + weight_flops,
                moved_bytes=ops.ELEMENT_BYTES * 2 * touched,
                collectives=backward,
                weight_bytes=weights,
                gradient_bytes=weights,
            ),
            shapes=(ops.ProductShape(rows, width, columns, self.copies),),
        )


def column_product(product: LocalProduct) -> ops.Operation:
    """Weights cut by columns: the input's gradients are partial sums, scattered backward.

    Parameters
    ----------
    product
        Local sizes of the product.

    Returns
    -------
    Operation
        Its FLOPs, bytes and collectives, forward and backward [FLOP], [B].

    References
    ----------
    arXiv:2410.00273, Tables I and II, and its published code.
    """
    message = ops.ELEMENT_BYTES * product.rows * product.width
    return product.operation(backward=(ops.CollectiveCall("reduce_scatter", message, "tensor"),))


def row_product(product: LocalProduct) -> ops.Operation:
    """Weights cut by rows: the results are partial sums, scattered forward by rows.

    Parameters
    ----------
    product
        Local sizes of the product.

    Returns
    -------
    Operation
        Its FLOPs, bytes and collectives, forward and backward [FLOP], [B].

    References
    ----------
    arXiv:2410.00273, Tables I and II, and its published code.
    """
    message = ops.ELEMENT_BYTES * product.rows * product.columns
    return product.operation(forward=(ops.CollectiveCall("reduce_scatter", message, "tensor"),))


def summa_product(
    name: str, module: ops.Module, local: ops.Local, width: float, columns: Floats
) -> ops.Operation:
    """Product on a tensor x context grid, in panels (Table A2, Algorithm 1).

    Panels of the input travel along the tensor GPUs, panels of the weights along the context GPUs;
    the result is read and written once a panel. The backward pass broadcasts and reduces each of
    them.

    Parameters
    ----------
    name
        Name of the operation.
    module
        Part of the layer it belongs to.
    local
        Sizes of what one GPU holds, and panels [1].
    width
        Whole inner size [1].
    columns
        Local outer size, shape (shardings,) [1].

    Returns
    -------
    Operation
        Its FLOPs, bytes and collectives, forward and backward [FLOP], [B].

    References
    ----------
    arXiv:2410.00273, Table A2 and Algorithm 1, and its published code.
    """
    rows = local.rows
    inputs = ops.ELEMENT_BYTES * rows * width
    weights = ops.ELEMENT_BYTES * width * columns
    touched = rows * width + width * columns + rows * columns * local.panels
    whole = LocalProduct(name, module, rows, width, columns).operation()
    forward = ops.OperationCost(
        tensor_flops=2 * rows * columns * width,
        moved_bytes=ops.ELEMENT_BYTES * touched,
        collectives=(
            ops.CollectiveCall("broadcast", inputs, "tensor"),
            ops.CollectiveCall("broadcast", weights, "context"),
        ),
        panels=local.panels,
    )
    backward = ops.OperationCost(
        tensor_flops=whole.backward.tensor_flops,
        moved_bytes=ops.ELEMENT_BYTES * 2 * touched,
        collectives=(
            ops.CollectiveCall("broadcast", weights, "context"),
            ops.CollectiveCall("reduce", inputs, "tensor"),
            ops.CollectiveCall("broadcast", inputs, "tensor"),
            ops.CollectiveCall("reduce", weights, "context"),
        ),
        panels=local.panels,
    )
    held = ops.ELEMENT_BYTES * (width // local.context) * columns
    return replace(
        whole,
        weight_bytes=held,
        activation_bytes=ops.ELEMENT_BYTES * rows * (width // local.tensor),
        forward=replace(forward, weight_bytes=held),
        backward=replace(backward, weight_bytes=held, gradient_bytes=held),
    )


NORM_FLOPS = 9
"""Mean, variance, scale and shift, forward [FLOP an element]."""


def bias(name: str, rows: Floats, width: Amount, copies: Amount = 1.0) -> ops.Operation:
    """Add a bias to rows.

    Parameters
    ----------
    name
        Name of the operation; ``fc…`` belongs to the feed-forward part, any other to attention.
    rows
        Local rows, shape (shardings,) [1].
    width
        Numbers of one bias, one for each local column [1].
    copies
        Biases that the rows share: the experts of a GPU, else 1 [1].

    Returns
    -------
    Operation
        Its FLOPs and bytes, forward and backward [FLOP], [B].

    References
    ----------
    Published code of arXiv:2410.00273.
    """
    count = rows * width
    work = ops.OperationCost(
        vector_flops=count, moved_bytes=ops.ELEMENT_BYTES * (count + copies * width)
    )
    module: ops.Module = "mlp" if name.startswith("fc") else "attention"
    weights = ops.ELEMENT_BYTES * width * copies
    return ops.Operation(name, module, weights, 0.0, work, work)


def activation(local: ops.Local, rows: Floats) -> ops.Operation:
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

    Parameters
    ----------
    local
        Sizes of what one GPU holds, and whether the activation is gated [1].
    rows
        Local rows, shape (shardings,) [1].

    Returns
    -------
    Operation
        Its FLOPs and bytes, forward and backward [FLOP], [B].

    References
    ----------
    Published code of arXiv:2410.00273 for ``gelu``; ``swiglu`` is counted here.
    """
    count = rows * local.ffn_local
    if local.model.gated_ffn:
        name, forward, forward_moves, backward, backward_moves, stores = "swiglu", 5, 3, 10, 5, 2
    else:
        name, forward, forward_moves, backward, backward_moves, stores = "gelu", 8, 2, 13, 3, 1
    return ops.Operation(
        name,
        "mlp",
        0.0,
        ops.ELEMENT_BYTES * stores * count,
        ops.OperationCost(
            vector_flops=forward * count, moved_bytes=ops.ELEMENT_BYTES * forward_moves * count
        ),
        ops.OperationCost(
            vector_flops=backward * count, moved_bytes=ops.ELEMENT_BYTES * backward_moves * count
        ),
    )


def dropout(name: str, count: Floats) -> ops.Operation:
    """Dropout; only the mask is stored.

    Parameters
    ----------
    name
        Name of the operation; ``drop_v`` belongs to attention, any other to the feed-forward part.
    count
        Local elements, shape (shardings,) [1].

    Returns
    -------
    Operation
        Its FLOPs and bytes, forward and backward [FLOP], [B].

    References
    ----------
    Published code of arXiv:2410.00273.
    """
    work = ops.OperationCost(
        vector_flops=count, moved_bytes=(2 * ops.ELEMENT_BYTES + ops.MASK_BYTES) * count
    )
    module: ops.Module = "attention" if name == "drop_v" else "mlp"
    return ops.Operation(name, module, 0.0, ops.MASK_BYTES * count, work, work)


def layer_norm(name: str, local: ops.Local, *, gathers: bool = True) -> ops.Operation:
    """Norm of scattered rows of the whole embedding (Tables I and II).

    What follows needs all rows: the norm gathers them, and scatters their gradients; in front of a
    mixture of experts it does not, because the tokens travel first.

    Parameters
    ----------
    name
        Name of the operation; ``ln1`` belongs to the feed-forward part, any other to attention.
    local
        Sizes of what one GPU holds [1].
    gathers
        Whether what follows needs all rows of the tensor GPUs.

    Returns
    -------
    Operation
        Its FLOPs, bytes and collectives, forward and backward [FLOP], [B].

    References
    ----------
    arXiv:2410.00273, Tables I and II, and its published code.
    """
    rows, width = local.scattered_rows, local.hidden
    if not gathers:
        return norm_of(name, rows, width, (), ())
    gather, scatter = local.all_tokens("all_gather"), local.all_tokens("reduce_scatter")
    return norm_of(name, rows, width, (gather,), (scatter,))


def block_norm(name: str, local: ops.Local, width: Floats, gradients: Floats) -> ops.Operation:
    """Norm of a SUMMA block of ``width`` columns (Table A2); sums are reduced over the tensor GPUs.

    The backward all-reduce has 2e // n1 + 2bl // n2 elements, its ``gradients``.
    """
    sums = ops.CollectiveCall("all_reduce", ops.ELEMENT_BYTES * 2 * local.rows, "tensor")
    back = ops.CollectiveCall("all_reduce", ops.ELEMENT_BYTES * gradients, "tensor")
    return norm_of(name, local.rows, width, (sums,), (back,))


def norm_of(
    name: str, rows: Floats, width: Amount, ahead: Collectives, back: Collectives
) -> ops.Operation:
    """Norm of local rows with its collectives; the first of a layer is the feed-forward part's."""
    count = rows * width
    forward = ops.OperationCost(
        vector_flops=NORM_FLOPS * count,
        moved_bytes=ops.ELEMENT_BYTES * (2 * count + 2 * rows + 2 * width),
        collectives=ahead,
    )
    backward = ops.OperationCost(
        vector_flops=8 * count + 4 * rows * (width - 1),
        moved_bytes=ops.ELEMENT_BYTES * (5 * count + 2 * width),
        collectives=back,
    )
    module: ops.Module = "mlp" if name == "ln1" else "attention"
    weights, stored = ops.ELEMENT_BYTES * 2 * width, ops.ELEMENT_BYTES * count
    return ops.Operation(name, module, weights, stored, forward, backward)

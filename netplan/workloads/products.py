"""Matrix products of a layer: weights cut by columns, by rows, or on a SUMMA grid.

FLOPs are exact: a dot product of length k takes 2k - 1.

Source: arXiv:2410.00273, Tables I, II and A2; backward passes from its published code.
"""

from dataclasses import dataclass, replace

from netplan.arrays import Amount, Floats
from netplan.workloads.operations import (
    ELEMENT_BYTES,
    Collective,
    Local,
    Module,
    Operation,
    Shape,
    Tensor,
    Work,
)


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """One local product, (rows x width) times (width x columns).

    Parameters
    ----------
    name, module
        As in `Operation`.
    rows, width, columns
        Local sizes [1].
    copies
        Matrices that share the rows: the experts of one GPU, else 1 [1].
    """

    name: str
    module: Module
    rows: Floats
    width: Amount
    columns: Amount
    copies: Amount = 1.0

    def operation(
        self, *, forward: tuple[Collective, ...], backward: tuple[Collective, ...]
    ) -> Operation:
        """The product with its collectives; the backward pass has two products of the same size."""
        rows, width, columns = self.rows, self.width, self.columns
        matrices = self.copies * width * columns
        result = rows * columns
        touched = rows * width + result + matrices
        gradient_flops = rows * width * (2 * columns - 1)
        # Each matrix sums up the rows that are its own.
        weight_flops = width * columns * (2 * rows - self.copies)
        return Operation(
            self.name,
            self.module,
            ELEMENT_BYTES * matrices,
            ELEMENT_BYTES * rows * width,
            Work(
                tensor_flops=result * (2 * width - 1),
                moved_bytes=ELEMENT_BYTES * touched,
                collectives=forward,
            ),
            Work(
                tensor_flops=gradient_flops + weight_flops,
                moved_bytes=ELEMENT_BYTES * 2 * touched,
                collectives=backward,
            ),
            result=Tensor(rows, columns),
            shapes=(Shape(rows, width, columns, self.copies),),
        )


def column_product(product: Product) -> Operation:
    """Weights cut by columns: the input's gradients are partial sums, scattered backward."""
    message = ELEMENT_BYTES * product.rows * product.width
    return product.operation(
        forward=(), backward=(Collective("reduce_scatter", message, "tensor"),)
    )


def row_product(product: Product, scattered_rows: Floats) -> Operation:
    """Weights cut by rows: the results are partial sums, scattered forward by rows."""
    message = ELEMENT_BYTES * product.rows * product.columns
    whole = product.operation(
        forward=(Collective("reduce_scatter", message, "tensor"),), backward=()
    )
    return replace(whole, result=Tensor(scattered_rows, product.columns))


def summa_product(
    name: str, module: Module, local: Local, width: float, columns: Floats
) -> Operation:
    """Product on a tensor x context grid, in panels (Table A2, Algorithm 1).

    ``width`` is the whole inner size and ``columns`` the local outer one. Panels of the input
    travel along the tensor GPUs, panels of the weights along the context GPUs; the result is read
    and written once a panel. The backward pass broadcasts and reduces each of them.
    """
    rows = local.rows
    inputs = ELEMENT_BYTES * rows * width
    weights = ELEMENT_BYTES * width * columns
    touched = rows * width + width * columns + rows * columns * local.panels
    whole = Product(name, module, rows, width, columns).operation(forward=(), backward=())
    forward = Work(
        tensor_flops=2 * rows * columns * width,
        moved_bytes=ELEMENT_BYTES * touched,
        collectives=(
            Collective("broadcast", inputs, "tensor"),
            Collective("broadcast", weights, "context"),
        ),
        panels=local.panels,
    )
    backward = Work(
        tensor_flops=whole.backward.tensor_flops,
        moved_bytes=ELEMENT_BYTES * 2 * touched,
        collectives=(
            Collective("broadcast", weights, "context"),
            Collective("reduce", inputs, "tensor"),
            Collective("broadcast", inputs, "tensor"),
            Collective("reduce", weights, "context"),
        ),
        panels=local.panels,
    )
    return replace(
        whole,
        weight_bytes=ELEMENT_BYTES * (width // local.context) * columns,
        activation_bytes=ELEMENT_BYTES * rows * (width // local.tensor),
        forward=forward,
        backward=backward,
    )

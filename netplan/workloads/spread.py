"""Programs of models that lie on all GPUs alike: recommendation, Fourier transforms, LINPACK.

Such a program is one layer, run once: its operations with the collectives that go to all.

**Recommendation.** Tables are spread over the ``expert`` dimension, as experts are: every GPU holds
its part of them and sees samples of its own. A local batch of b samples looks up

    W = 2 tables pooled embedding b        bytes of rows

which a GPU reads from its memory, for others, as it gets as many from them: an all_to_all of W
forward and one of their gradients backward, between the bottom and the top layers. Rows that are
*pooled* are summed up first, so that W/pooled are sent. All layers are products of b rows and
copied to every GPU; the gradients of their weights are summed up over all GPUs as the ZeRO stage
says. Tables take no gradients beside them: rows change one by one. Where vectors interact, each
pair of t + 1 of them is multiplied, t (t + 1) embedding b FLOP forward and twice that backward.

Detailed operations run one after the other, and gradients of rows move as much as the look-up, as
in DFModel. Tiled ones (COMET) read and write each row that was looked up, with its optimizer's
state, and run in two branches beside each other, which the interaction or the top layers wait for:

    bottom layers       |   look-up, exchange                       forward
    bottom layers       |   exchange of gradients, update of rows   backward

Left out: what branches cost each other in the memory or on the network; copies of tables, which
would save exchange inside a copy and cost as much between copies for each of them; rows that a
batch looks up twice.

**Fourier transform.** Rows of the square are spread over the ``tensor`` dimension. Columns, then
rows are transformed on the vector units, each half reads and writes all points of a GPU, and an
all_to_all of these transposes the square after it. Of rows that do not divide, the GPU with the
most counts.

**LINPACK.** The matrix of n x n words of w bytes lies on a grid of ``tensor`` x ``context`` GPUs. A
step of b columns leaves a GPU P rows and Q columns, and has two operations:

    factorise   (P, b, b)   the block's rows to all rows of the grid, w b b
    update      (P, b, Q)   the block's columns to all columns of it, w P b; its rows, w Q b

as broadcasts, whose roots take turns. The paper sends what goes along the rows of the grid from one
GPU to the next. Amounts have a row for each step, shape (steps, shardings), and add up over them;
the largest GPU of each step counts.

Kernels of the first two are those of `netplan.workloads.model_graphs` and `fourier_graph`,
which a mapper cuts, steps those of `netplan.performance.mapping.system`; sources stand there.
"""

from collections.abc import Iterator

import numpy as np

from netplan.arrays import Floats, Ints, real
from netplan.errors import InputError
from netplan.records import replace
from netplan.workloads import operations as ops
from netplan.workloads.families import FourierModel, LinpackModel, RecommendationModel, SpreadModel
from netplan.workloads.layer_kernels import LocalProduct
from netplan.workloads.program import DETAILED, Program, Repetition, TrainingMethod
from netplan.workloads.tiled_layer import TiledProduct

BOTTOM, TABLES = 1, 2
"""Branches that run beside each other."""


def spread_program(
    model: SpreadModel, sharding: ops.Sharding, method: TrainingMethod = DETAILED
) -> Program:
    """The program of one iteration, for many numbers of GPUs at once.

    Parameters
    ----------
    model
        A recommendation model, a Fourier transform, or LINPACK.
    sharding
        Samples of each GPU, and how many GPUs there are, shape (shardings,).
    method
        What of the layers' weights is sharded over all GPUs; of a recommendation model also whether
        its products are detailed or tiled.

    Raises
    ------
    InputError
        If there is no such program of the model's family.

    Examples
    --------
    600 tables x 15 rows of 93 numbers a sample, 512 samples: 857 MB each way from every GPU.

    >>> from netplan.workloads.models import WORKLOADS
    >>> dlrm = WORKLOADS.load("dlrm-793b")
    >>> copied = TrainingMethod(zero_stage=0)
    >>> program = spread_program(dlrm, ops.Sharding.of(512, tensor=1, expert=128), copied)
    >>> for use in program.collectives(stages=1, microbatches=1):
    ...     print(use.kind, use.collective, use.data_bytes, use.times)
    expert all_to_all 857088000.0 2.0
    data all_reduce 455625000.0 1.0
    """
    if isinstance(model, RecommendationModel):
        operations = _recommendation(model, sharding, method)
    elif isinstance(model, FourierModel):
        operations = _fourier(model, sharding.tensor)
    elif isinstance(model, LinpackModel):
        operations = _linpack(model, sharding)
    else:
        raise InputError(f"{model.name}: there is no program of such a model")
    layer = ops.Layer(operations, boundary_bytes=0.0)
    return Program(sharding, layer, None, None, Repetition(1, method.zero_stage, "1d"))


def _recommendation(
    model: RecommendationModel, sharding: ops.Sharding, method: TrainingMethod
) -> tuple[ops.Operation, ...]:
    """Bottom layers, the look-up, the pairs that interact, top layers."""
    batch, tiled = real(sharding.microbatch), method.counting == "tiled"

    def stack(name: str, products: tuple[tuple[int, int], ...]) -> Iterator[ops.Operation]:
        for index, (width, columns) in enumerate(products, start=1):
            sizes = batch, float(width), float(columns)
            if tiled:
                yield TiledProduct(f"{name}{index}", "mlp", *sizes).operation(method.sram_bytes)
            else:
                yield LocalProduct(f"{name}{index}", "mlp", *sizes).operation()

    bottom, top = stack("bottom", model.bottom_products), stack("top", model.top_products)
    lookup = _lookup(model, batch, real(sharding.expert), tiled=tiled)
    if tiled:
        bottom = (replace(operation, branch=BOTTOM) for operation in bottom)
        lookup = replace(lookup, branch=TABLES)
    pairs = (_interaction(model, batch),) if model.pairs else ()
    return (*bottom, lookup, *pairs, *top)


def _lookup(
    model: RecommendationModel, batch: Floats, gpus: Floats, *, tiled: bool
) -> ops.Operation:
    """Rows for all GPUs and those from all; backward their gradients, and the update."""
    rows, vectors = model.sample_bytes * batch, model.sent_bytes * batch
    exchange = (ops.CollectiveCall("all_to_all", vectors, "expert"),)
    update = ops.NO_WORK
    backward = ops.OperationCost(moved_bytes=rows, collectives=exchange, weight_bytes=rows)
    if tiled:
        changed = 2 * (rows + model.state_bytes * batch)
        backward = ops.OperationCost(collectives=exchange)
        update = ops.OperationCost(moved_bytes=changed, weight_bytes=changed)
    return ops.Operation(
        "lookup",
        "mlp",
        weight_bytes=0.0,
        # Pairs, or the first of listed top layers, keep them for themselves.
        activation_bytes=0.0 if model.pairs or model.top else vectors,
        forward=ops.OperationCost(moved_bytes=rows, collectives=exchange, weight_bytes=rows),
        backward=backward,
        weight_gradient=update,
        stored_bytes=model.table_bytes / gpus,
    )


def _interaction(model: RecommendationModel, batch: Floats) -> ops.Operation:
    """Scalar products of all pairs of vectors of each sample."""
    vectors, pairs = (model.tables + 1) * model.embedding * batch, model.pairs * batch
    ahead = ops.OperationCost(
        tensor_flops=2 * model.embedding * pairs, moved_bytes=ops.ELEMENT_BYTES * (vectors + pairs)
    )
    back = ops.OperationCost(tensor_flops=2 * ahead.tensor_flops, moved_bytes=2 * ahead.moved_bytes)
    return ops.Operation("interaction", "mlp", 0.0, ops.ELEMENT_BYTES * vectors, ahead, back)


def _fourier(model: FourierModel, gpus: Ints) -> tuple[ops.Operation, ...]:
    """Both halves of a transform; the second works on the memory of the first."""
    points = real(-(-model.side // gpus)) * model.side
    held = model.word_bytes * points
    half = ops.OperationCost(
        vector_flops=model.flops(1) / float(model.side) ** 2 / 2 * points,
        moved_bytes=2 * held,
        collectives=(ops.CollectiveCall("all_to_all", held, "tensor"),),
    )
    return (
        ops.Operation("columns", "mlp", 0.0, held, half, ops.NO_WORK),
        ops.Operation("rows", "mlp", 0.0, 0.0, half, ops.NO_WORK),
    )


def _linpack(model: LinpackModel, grid: ops.Sharding) -> tuple[ops.Operation, ...]:
    """Factorising and update of every step, amounts of shape (steps, shardings)."""
    block, word, side = float(model.block), model.word_bytes, model.sides[:, None]
    rows, columns = real(-(-side // grid.tensor)), real(-(-side // grid.context))
    panel, across = rows * block, columns * block
    factorise = ops.OperationCost(
        tensor_flops=2 * panel * block,
        moved_bytes=2 * word * panel,
        collectives=(
            ops.CollectiveCall("broadcast", np.full_like(rows, word * block**2), "tensor"),
        ),
    )
    update = ops.OperationCost(
        tensor_flops=2 * panel * columns,
        moved_bytes=word * (2 * rows * columns + panel + across),
        collectives=(
            ops.CollectiveCall("broadcast", word * panel, "context"),
            ops.CollectiveCall("broadcast", word * across, "tensor"),
        ),
    )
    held = word * rows[0] * columns[0]
    return (
        ops.Operation("factorise", "mlp", 0.0, held, factorise, ops.NO_WORK),
        ops.Operation("update", "mlp", 0.0, 0.0, update, ops.NO_WORK),
    )

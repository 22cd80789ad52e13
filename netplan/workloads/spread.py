"""Programs of models that lie on all GPUs alike: recommendation, Fourier transforms, LINPACK.

Such a program is one layer, run once: its operations with the collectives that go to all.

**Recommendation.** Tables are spread over the ``expert`` dimension, as experts are: every GPU holds
its part of them and sees samples of its own. A local batch of b samples looks up

    W = 2 tables pooled embedding b        bytes of rows

which a GPU reads from its memory, for others, as it gets as many from them: an all_to_all of W
forward and one of their gradients backward, between the bottom and the top layers. All layers are
square products of b rows and copied to every GPU; the gradients of their weights are summed up over
all GPUs as the ZeRO stage says. Tables take no gradients beside them: rows change one by one. Rows
are sent unpooled, as in the paper. Left out: copies of tables, which would save exchange inside a
copy and cost as much between copies for each of them; the optimizer's state of a row; what hides an
exchange behind the layers.

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

Kernels of the first two are those of `netplan.workloads.recommendation_graph` and `fourier_graph`,
which a mapper cuts, steps those of `netplan.performance.linpack`; sources stand there.
"""

import numpy as np

from netplan.arrays import Floats, Ints, Numbers
from netplan.errors import InputError
from netplan.workloads.families import (
    FourierModel,
    LinpackModel,
    RecommendationModel,
    SpreadModel,
)
from netplan.workloads.kernels import Product
from netplan.workloads.operations import NO_WORK, Collective, Layer, Operation, Sharding, Work
from netplan.workloads.program import Program, Repetition, Zero


def spread_program(model: SpreadModel, sharding: Sharding, zero_stage: Zero = 1) -> Program:
    """The program of one iteration, for many numbers of GPUs at once.

    Parameters
    ----------
    model
        A recommendation model, a Fourier transform, or LINPACK.
    sharding
        Samples of each GPU, and how many GPUs there are, shape (shardings,).
    zero_stage
        What of the layers' weights is sharded over all GPUs.

    Raises
    ------
    InputError
        If there is no such program of the model's family.

    Examples
    --------
    600 tables x 15 rows of 93 numbers a sample, 512 samples: 857 MB each way from every GPU.

    >>> from netplan.workloads.models import WORKLOADS
    >>> dlrm = WORKLOADS.load("dlrm-793b")
    >>> program = spread_program(dlrm, Sharding.of(512, tensor=1, expert=128), zero_stage=0)
    >>> for use in program.collectives(stages=1, microbatches=1):
    ...     print(use.kind, use.collective, use.data_bytes, use.times)
    expert all_to_all 857088000.0 2.0
    data all_reduce 455625000.0 1.0
    """
    if isinstance(model, RecommendationModel):
        operations = _recommendation(model, _real(sharding.microbatch), _real(sharding.expert))
    elif isinstance(model, FourierModel):
        operations = _fourier(model, sharding.tensor)
    elif isinstance(model, LinpackModel):
        operations = _linpack(model, sharding)
    else:
        raise InputError(f"{model.name}: there is no program of such a model")
    layer = Layer(operations, boundary_bytes=0.0)
    return Program(sharding, layer, None, None, Repetition(1, zero_stage, "1d"))


def _recommendation(
    model: RecommendationModel, batch: Floats, gpus: Floats
) -> tuple[Operation, ...]:
    """Bottom layers, the look-up, top layers."""
    bottom = [_dense(f"bottom{at}", model, batch) for at in range(1, model.bottom_layers + 1)]
    top = [_dense(f"top{at}", model, batch) for at in range(1, model.top_layers + 1)]
    rows = model.sample_bytes * batch
    exchange = (Collective("all_to_all", rows, "expert"),)
    both_ways = Work(moved_bytes=rows, collectives=exchange, weight_bytes=rows)
    tables = model.table_bytes / gpus
    lookup = Operation("lookup", "mlp", 0.0, rows, both_ways, both_ways, stored_bytes=tables)
    return (*bottom, lookup, *top)


def _dense(name: str, model: RecommendationModel, batch: Floats) -> Operation:
    width = float(model.width)
    return Product(name, "mlp", batch, width, width).operation(forward=(), backward=())


def _fourier(model: FourierModel, gpus: Ints) -> tuple[Operation, ...]:
    """Both halves of a transform; the second works on the memory of the first."""
    points = _real(-(-model.side // gpus)) * model.side
    held = model.word_bytes * points
    half = Work(
        vector_flops=model.flops(1) / float(model.side) ** 2 / 2 * points,
        moved_bytes=2 * held,
        collectives=(Collective("all_to_all", held, "tensor"),),
    )
    return (
        Operation("columns", "mlp", 0.0, held, half, NO_WORK),
        Operation("rows", "mlp", 0.0, 0.0, half, NO_WORK),
    )


def _linpack(model: LinpackModel, grid: Sharding) -> tuple[Operation, ...]:
    """Factorising and update of every step, amounts of shape (steps, shardings)."""
    block, word, side = float(model.block), model.word_bytes, model.sides[:, None]
    rows, columns = _real(-(-side // grid.tensor)), _real(-(-side // grid.context))
    panel, across = rows * block, columns * block
    factorise = Work(
        tensor_flops=2 * panel * block,
        moved_bytes=2 * word * panel,
        collectives=(Collective("broadcast", np.full_like(rows, word * block**2), "tensor"),),
    )
    update = Work(
        tensor_flops=2 * panel * columns,
        moved_bytes=word * (2 * rows * columns + panel + across),
        collectives=(
            Collective("broadcast", word * panel, "context"),
            Collective("broadcast", word * across, "tensor"),
        ),
    )
    held = word * rows[0] * columns[0]
    return (
        Operation("factorise", "mlp", 0.0, held, factorise, NO_WORK),
        Operation("update", "mlp", 0.0, 0.0, update, NO_WORK),
    )


def _real(numbers: Numbers) -> Floats:
    return numbers.astype(float)

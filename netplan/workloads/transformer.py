"""A transformer under each strategy of tensor parallelism: its layer, and the ends of the network.

In both modes the layer has the operations of arXiv:2410.00273: the feed-forward part, then
attention. Mode ``published-code`` repeats two slips of that paper's code, which `corrected` mends:
the SUMMA norm is l // n1 wide instead of e // n1, and the biases of fc2 and vproj act on rows that
were scattered before. Left out, as there: the qkv bias, residual sums, loss and optimizer.

Layers of a model may be unlike: some with experts (`netplan.workloads.experts`), with windows,
latent vectors or linear attention (`netplan.workloads.attention`). A stack of them is so many times
their mean: every operation says which share of the layers has it.

Token embedding (at the first stage) and head with loss (at the last) hold the vocabulary cut over
the tensor GPUs, whatever the strategy, and see the tokens of their context GPU (Shoeybi et al.,
arXiv:1909.08053, Sec. 3). Their weights are counted apart; a model that ties them saves one of the
two.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.inputs.choices import Mode, Strategy
from netplan.records import replace
from netplan.workloads.attention import attention, attention_operations
from netplan.workloads.experts import expert_feed_forward, experts_of
from netplan.workloads.layer_kernels import (
    Product,
    activation,
    bias,
    block_norm,
    column_product,
    dropout,
    layer_norm,
    row_product,
    summa_product,
)
from netplan.workloads.models import Model
from netplan.workloads.operations import (
    ELEMENT_BYTES,
    INPUT,
    PLAIN,
    Collective,
    Layer,
    Local,
    Operation,
    Sharding,
    Tensor,
    Variant,
    Work,
    local_sizes,
)

LOSS_FLOPS = 5
"""Shift, exponential, sum, quotient and logarithm of the loss [FLOP a logit]."""

STATISTIC_BYTES = 4.0
"""Largest logit and sum of a token travel as 32-bit numbers [B]."""


def transformer_layer(
    model: Model,
    sharding: Sharding,
    *,
    strategy: Strategy = "1d",
    mode: Mode = "corrected",
    variant: Variant = PLAIN,
) -> Layer:
    """The operations of one layer for many shardings at once.

    Parameters
    ----------
    model
        The transformer.
    sharding
        Ways to cut one microbatch, shape (shardings,).
    strategy
        ``1d``, ``2d`` (2D-context) or ``summa``.
    mode
        ``corrected``, or ``published-code`` with its slips.
    variant
        Recomputation and experts.

    Returns
    -------
    Layer
        Amounts of shape (shardings,): FLOPs, bytes.

    Raises
    ------
    InputError
        If experts are asked for under ``summa``, or either without sequence parallelism.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> layer = transformer_layer(MODELS.load("gpt-1t"), Sharding.of(1, tensor=8))
    >>> [operation.name for operation in layer.operations][:4]
    ['fc1', 'fc1-bias', 'gelu', 'drop1']
    >>> layer.operations[0].forward.tensor_flops
    array([1.34215107e+12])
    """
    local, experts = local_sizes(model, sharding), experts_of(model, variant)
    _check_modelled(model, strategy, variant)
    if strategy == "summa":
        return _summa_layer(model, sharding, local, mode, variant)
    if not variant.sequence_parallel:
        local = _whole_rows(local)
    feed_forward = _feed_forward(local, strategy, mode)
    if experts is not None:
        feed_forward = tuple(expert_feed_forward(model, sharding, local, experts))
    norm = layer_norm("ln1", local, gathers=model.latent_attention is None)
    operations = (
        *_prediction(model, local),
        *feed_forward,
        dropout("drop2", local.dropped),
        norm,
        *attention_operations(model, sharding, local, stores_scores=variant.stores_scores),
        bias("vproj-bias", *_bias_shape(local, strategy, mode, "vproj")),
        dropout("drop_v", local.dropped),
        layer_norm("ln2", local, gathers=experts is None),
    )
    if not variant.sequence_parallel:
        # The next stage takes a share of the rows from each tensor GPU all the same
        # (arXiv:2104.04473, Sec. 4.1).
        return Layer(_reduced(operations), norm.activation_bytes / local.tensor)
    return Layer(operations, norm.activation_bytes)


def _check_modelled(model: Model, strategy: Strategy, variant: Variant) -> None:
    """Refuse what no layer is known for."""
    unlike = "experts" if variant.sparse else model.unlike
    if not variant.sequence_parallel and (strategy == "summa" or unlike):
        raise InputError(
            f"{unlike or 'SUMMA'} are modelled with sequence parallelism alone: leave"
            " --no-sequence-parallel out"
        )
    if strategy == "summa" and unlike:
        raise InputError(f"{unlike} under SUMMA are not modelled: use strategy 1d or 2d")


def _whole_rows(local: Local) -> Local:
    """Sizes without sequence parallelism: norms and dropouts have all rows on every tensor GPU."""
    return replace(local, scattered_rows=local.rows, dropped=local.rows * local.hidden)


def _reduced(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    """Operations without sequence parallelism: partial sums are reduced, and nothing is gathered.

    Of the four collectives of a layer and direction two all_reduces are left, of the same bytes
    (arXiv:2205.05198, Sec. 4.2.2).
    """

    def work_of(one: Operation, work: Work) -> Work:
        kept = () if one.name.startswith("ln") else work.collectives
        return replace(work, collectives=tuple(_whole(sent) for sent in kept))

    return tuple(
        replace(one, forward=work_of(one, one.forward), backward=work_of(one, one.backward))
        for one in operations
    )


def _whole(sent: Collective) -> Collective:
    return replace(sent, kind="all_reduce") if sent.kind == "reduce_scatter" else sent


def _prediction(model: Model, local: Local) -> Iterator[Operation]:
    """What stands before a layer that predicts a token further on: two vectors become one.

    The hidden vectors and the embeddings of the tokens one further, projected together; such a
    layer is one more layer of the stack (DeepSeek-V3, arXiv:2412.19437, Sec. 2.2).
    """
    if not model.prediction_layers:
        return
    product = Product("mtp-proj", "mlp", local.rows, 2 * local.hidden, local.hidden / local.tensor)
    given = Collective("all_gather", 2 * ELEMENT_BYTES * local.rows * local.hidden, "tensor")
    back = Collective("reduce_scatter", given.message_bytes, "tensor")
    made = product.operation(forward=(given,), backward=(back,))
    yield replace(made, share=model.prediction_layers / model.depth, inputs=(INPUT,))


def _feed_forward(local: Local, strategy: Strategy, mode: Mode) -> tuple[Operation, ...]:
    """The dense feed-forward part of 1D and 2D-context (Tables I and II)."""
    rows = local.rows
    columns = (2 if local.gated else 1) * local.ffn_local
    return (
        column_product(Product("fc1", "mlp", rows, local.hidden, columns)),
        bias("fc1-bias", rows, columns),
        activation(local, rows),
        dropout("drop1", rows * local.ffn_local),
        row_product(
            Product("fc2", "mlp", rows, local.ffn_local, local.hidden), local.scattered_rows
        ),
        bias("fc2-bias", *_bias_shape(local, strategy, mode, "fc2")),
    )


def _bias_shape(
    local: Local, strategy: Strategy, mode: Mode, product: str
) -> tuple[Floats, Floats | float]:
    """Rows and width of the bias behind a row product; correct are scattered rows, all columns.

    Slip of the published code: 1D adds both biases before the scatter, 2D-context that of vproj to
    all rows and the columns of one GPU.
    """
    if mode == "published-code" and strategy == "1d":
        return local.rows, local.hidden
    if mode == "published-code" and product == "vproj":
        return local.rows, local.hidden_local
    return local.scattered_rows, local.hidden


def _summa_layer(
    model: Model, sharding: Sharding, local: Local, mode: Mode, variant: Variant
) -> Layer:
    """All products on the tensor x context grid (Table A2)."""
    e, rows = local.hidden, local.rows
    block = rows * local.hidden_local
    columns = (2 if local.gated else 1) * local.ffn_local
    width = local.hidden_local
    if mode == "published-code":  # slip: the sequence in place of the embedding
        width = (model.sequence_length // sharding.tensor).astype(np.float64)
    tokens = 2 * sharding.microbatch * model.sequence_length // sharding.context
    gradients = (2 * model.hidden_size // sharding.tensor + tokens).astype(np.float64)
    norm = block_norm("ln1", local, width, gradients)
    operations = (
        summa_product("fc1", "mlp", local, e, columns),
        bias("fc1-bias", rows, columns),
        activation(local, rows),
        dropout("drop1", rows * local.ffn_local),
        summa_product("fc2", "mlp", local, local.ffn, local.hidden_local),
        bias("fc2-bias", rows, local.hidden_local),
        dropout("drop2", block),
        norm,
        summa_product("qkv", "attention", local, e, local.qkv_local),
        attention(local, stores_scores=variant.stores_scores),
        summa_product("vproj", "attention", local, float(model.query_size), local.hidden_local),
        bias("vproj-bias", rows, local.hidden_local),
        dropout("drop_v", block),
        block_norm("ln2", local, width, gradients),
    )
    return Layer(operations, norm.activation_bytes)


def embedding(model: Model, sharding: Sharding) -> Operation:
    """Look up the local part of the vocabulary; rows found elsewhere come by reduce_scatter.

    Raises
    ------
    InputError
        If the model has no vocabulary.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> embedding(MODELS.load("gpt-1t"), Sharding.of(1, tensor=8)).weight_bytes
    array([3.2768e+08])
    """
    local = local_sizes(model, sharding)
    words = _local_words(model, sharding)
    message = ELEMENT_BYTES * local.rows * local.hidden
    return Operation(
        "embedding",
        "head",
        ELEMENT_BYTES * words * local.hidden,
        0.0,
        Work(
            moved_bytes=2 * message,
            collectives=(Collective("reduce_scatter", message, "tensor"),),
            weight_bytes=message,
        ),
        Work(
            moved_bytes=2 * message,
            collectives=(Collective("all_gather", message, "tensor"),),
            gradient_bytes=message,
        ),
        result=Tensor(local.rows / local.tensor, local.hidden),
    )


def lm_head(model: Model, sharding: Sharding) -> Operation:
    """Multiply by the vocabulary and take the loss over the local words.

    Once more for every layer that predicts a token further on, with the same weights.

    Raises
    ------
    InputError
        If the model has no vocabulary.
    """
    local = local_sizes(model, sharding)
    words = _local_words(model, sharding)
    logits = local.rows * words
    message = ELEMENT_BYTES * local.rows * local.hidden
    statistics = Collective("all_reduce", 2 * STATISTIC_BYTES * local.rows, "tensor")
    product = Product("lm-head", "head", local.rows, local.hidden, words)
    whole = product.operation(
        forward=(Collective("all_gather", message, "tensor"), statistics),
        backward=(Collective("reduce_scatter", message, "tensor"),),
    )
    head = replace(
        whole,
        activation_bytes=whole.activation_bytes + ELEMENT_BYTES * logits,
        forward=replace(whole.forward, vector_flops=LOSS_FLOPS * logits),
        backward=replace(whole.backward, vector_flops=2 * logits),
    )
    return _repeated(head, 1 + model.prediction_layers) if model.prediction_layers else head


def _repeated(one: Operation, times: int) -> Operation:
    """An operation so many times over, with the same weights."""

    def again(work: Work) -> Work:
        return replace(
            work,
            tensor_flops=times * work.tensor_flops,
            vector_flops=times * work.vector_flops,
            moved_bytes=times * work.moved_bytes,
            weight_bytes=times * work.weight_bytes,
            collectives=work.collectives * times,
        )

    return replace(
        one,
        activation_bytes=times * one.activation_bytes,
        forward=again(one.forward),
        backward=again(one.backward),
    )


def _local_words(model: Model, sharding: Sharding) -> Floats:
    """Words on one GPU; the vocabulary is padded to a multiple of the tensor GPUs."""
    if not model.vocabulary:
        raise InputError(f"{model.name} has no vocabulary: leave out the embedding and the head")
    return (-(-model.vocabulary // sharding.tensor)).astype(np.float64)

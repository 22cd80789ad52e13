"""One transformer layer under each strategy of tensor parallelism.

In both modes the layer has the operations of arXiv:2410.00273: the feed-forward part, then
attention. Mode ``published-code`` repeats two slips of that paper's code, which `corrected` mends:
the SUMMA norm is l // n1 wide instead of e // n1, and the biases of fc2 and vproj act on rows that
were scattered before. Left out, as there: the qkv bias, residual sums, loss and optimizer.
"""

import numpy as np

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.workloads.experts import expert_operations
from netplan.workloads.models import Model
from netplan.workloads.operations import (
    ELEMENT_BYTES,
    MASK_BYTES,
    PLAIN,
    Collective,
    Layer,
    Local,
    Mode,
    Operation,
    Recompute,
    Shape,
    Sharding,
    Strategy,
    Tensor,
    Variant,
    Work,
    local_sizes,
)
from netplan.workloads.products import Product, column_product, row_product, summa_product
from netplan.workloads.vector_operations import activation, bias, block_norm, dropout, layer_norm


def attention(local: Local, recompute: Recompute) -> Operation:
    """Attention of all local heads.

    Symbols: X = b H lk l scores, Y = b H lk (l - 1) sums; softmax and its dropout take 3X + Y
    vector FLOPs forward and 4X + Y backward. Selective recomputation (fused attention) computes
    scores and softmax again; without it the softmax, its dropout mask and its dropped result are
    stored, 5 bytes a score (arXiv:2205.05198, Sec. 4.1).
    """
    maps, q = local.microbatch * local.heads, local.head_size
    keys, queries = local.sequence, local.queries
    rows = maps * queries
    scores, sums, query = rows * keys, rows * (keys - 1), rows * q
    key = local.microbatch * local.kv_heads * keys * q  # as many values as keys
    softmax = 3 * scores + sums
    again = recompute != "none"
    scores_bytes = 0.0 if again else (2 * ELEMENT_BYTES + MASK_BYTES) * scores

    query_key = scores * (2 * q - 1)
    attend = query * (2 * keys - 1)
    key_gradient = maps * keys * q * (2 * queries - 1)
    # Gradients of queries, values, probabilities and keys; then the scores once more.
    backward_flops = attend + 2 * key_gradient + query_key + (query_key if again else 0.0)
    stored = _stored_bytes(local) + scores_bytes
    gather = Collective("all_gather", ELEMENT_BYTES * 2 * key, "context")
    scatter = Collective("reduce_scatter", ELEMENT_BYTES * 2 * key, "context")
    return Operation(
        "attention",
        "attention",
        0.0,
        stored,
        forward=Work(
            tensor_flops=query_key + attend,
            vector_flops=softmax,
            moved_bytes=ELEMENT_BYTES * (2 * query + 2 * key + rows) + scores_bytes,
            collectives=(gather,),
        ),
        backward=Work(
            tensor_flops=backward_flops,
            vector_flops=softmax + scores + (softmax if again else 0.0),
            moved_bytes=ELEMENT_BYTES * (2 * key + 2 * query) + stored,
            collectives=(gather, scatter),
        ),
        result=Tensor(rows, q),
        shapes=(Shape(rows, q, keys, maps), Shape(rows, keys, q, maps)),
    )


def _stored_bytes(local: Local) -> Floats:
    """Queries and results, keys and values of the local tokens, and two sums a row [B]."""
    b, q, queries = local.microbatch, local.head_size, local.queries
    elements = 2 * b * (local.heads + local.kv_heads) * queries * q + 2 * b * local.heads * queries
    return ELEMENT_BYTES * elements


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
        If experts are asked for under ``summa``.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> layer = transformer_layer(MODELS.load("gpt-1t"), Sharding.of(1, tensor=8))
    >>> [operation.name for operation in layer.operations][:4]
    ['fc1', 'fc1-bias', 'gelu', 'drop1']
    >>> layer.operations[0].forward.tensor_flops
    array([1.34215107e+12])
    """
    local = local_sizes(model, sharding)
    if strategy == "summa":
        if variant.sparse:
            raise InputError("experts under SUMMA are not modelled: use strategy 1d or 2d")
        return _summa_layer(model, sharding, local, mode, variant)
    feed_forward = _feed_forward(local, strategy, mode)
    if variant.sparse:
        feed_forward = tuple(expert_operations(local, variant, sharding.expert.astype(float)))
    norm = layer_norm("ln1", local)
    operations = (
        *feed_forward,
        dropout("drop2", local.dropped),
        norm,
        column_product(Product("qkv", "attention", local.rows, local.hidden, local.qkv_local)),
        attention(local, variant.recompute),
        row_product(
            Product("vproj", "attention", local.rows, local.hidden_local, local.hidden),
            local.scattered_rows,
        ),
        bias("vproj-bias", *_bias_shape(local, strategy, mode, "vproj")),
        dropout("drop_v", local.dropped),
        layer_norm("ln2", local, gathers=not variant.sparse),
    )
    return Layer(operations, norm.activation_bytes)


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
        attention(local, variant.recompute),
        summa_product("vproj", "attention", local, e, local.hidden_local),
        bias("vproj-bias", rows, local.hidden_local),
        dropout("drop_v", block),
        block_norm("ln2", local, width, gradients),
    )
    return Layer(operations, norm.activation_bytes)

"""Attention of a layer: full, in windows, from latent vectors, by an index, and linear.

All kinds count the whole square of queries and keys, as arXiv:2410.00273 does: no causal mask
halves it, and a window is as wide for every token.

=========  =======================================================================================
full       qkv, attention, vproj (arXiv:2410.00273, Tables I and II)
windows    the same with so many keys of a query; context GPUs hand on what reaches over their edge
latent     both latent vectors of the tokens of a scattered sequence (``latent-down``, weights on
           every tensor GPU), gathered in place of the hidden vectors; queries, keys and values of
           the local heads are made from them (``q-up``, ``kv-up``) and stored as such
           (DeepSeek-V2, arXiv:2405.04434, Sec. 2.1)
index      ``index`` scores all keys by small heads of its own, for the tokens of a scattered
           sequence; attention takes those chosen (arXiv:2512.02556, Sec. 2.1). Left out: handing
           the choice to the other tensor GPUs, and the loss that trains the indexer
linear     gated delta nets in chunks of 64 tokens (``delta-in``, ``delta``, ``delta-out``):
           convolution, products within a chunk, and the state between chunks, which context GPUs
           hand on (Yang et al., arXiv:2412.06464, Sec. 3.3)
Mamba      in blocks of a hybrid that have no attention (``mamba-in``, ``scan``, ``mamba-out``):
           convolution, the scan of Mamba 2 in chunks of 128 tokens, and the state between chunks,
           which context GPUs hand on (Dao and Gu, arXiv:2405.21060, Sec. 6)
=========  =======================================================================================

Left out: norms of queries and keys, attention sinks, biases of projections, and that some models
take keys as values.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from netplan.arrays import real
from netplan.records import replace
from netplan.workloads import operations as ops
from netplan.workloads.layer_kernels import (
    NORM_FLOPS,
    LocalProduct,
    column_product,
    norm_of,
    row_product,
)
from netplan.workloads.models import IndexAttention, LatentAttention, LinearAttention, Mamba, Model
from netplan.workloads.parameters import state_block

STATE_BYTES = 4.0
"""One element of a state of linear attention [B]."""

INDEX_FLOPS = 3
"""Rectifier, weight and sum of an index score: vector work [FLOP a score and head]."""


def attention_operations(
    model: Model, sharding: ops.Sharding, local: ops.Local, *, stores_scores: bool
) -> Iterator[ops.Operation]:
    """Operations between the norm and the bias, each with its share of the layers."""
    depth, window = model.depth, model.window_attention
    full, index = model.full_layers, model.index_attention
    windows = window.layers if window is not None else 0
    own_heads = window is not None and window.own_heads
    first, last = [_qkv(local)], _vproj(local)
    if model.latent_attention is not None:
        latent = model.latent_attention  # of as many keys as queries
        heads = model.changed(
            latent_attention=None,
            head_size=latent.head_size + latent.rotary_head_size,
            value_head_size=latent.value_head_size,
        )
        local = ops.local_sizes(heads, sharding)
        first, last = [*_latent_projections(local, latent)], _vproj(local)
        last = _gathering(last, "backward", local)
    together = full + (0 if own_heads else windows)
    kinds: list[tuple[int, ops.Operation]] = [(together, operation) for operation in first]
    if index is not None:
        kinds.append((min(index.layers or full, full), _indexer(model, local, index)))
        local = replace(local, keys=min(local.keys, float(index.tokens)))
    kinds.append((full, attention(local, stores_scores=stores_scores)))
    if window is not None:
        inside = ops.local_sizes(model.in_windows(), sharding) if own_heads else local
        inside = replace(inside, keys=min(inside.keys, float(window.tokens)))
        seen = replace(attention(inside, stores_scores=stores_scores), name="window-attention")
        if own_heads:
            kinds += [(together, last), (windows, replace(_qkv(inside), name="window-qkv"))]
            last, together = replace(_vproj(inside), name="window-vproj"), windows
        kinds.append((windows, seen))
    kinds.append((together, last))
    for kind in model.with_states:
        kinds += [(kind.layers, part) for part in _with_states(model, sharding, local, kind)]
    yield from (replace(operation, share=layers / depth) for layers, operation in kinds if layers)


def _qkv(local: ops.Local) -> ops.Operation:
    """Projection of the gathered tokens to queries, keys and values of the local heads."""
    columns = local.qkv_local + (local.values_local if local.model.gated_attention else 0.0)
    return column_product(LocalProduct("qkv", "attention", local.rows, local.hidden, columns))


def _vproj(local: ops.Local) -> ops.Operation:
    """Projection of the local heads' results."""
    product = LocalProduct("vproj", "attention", local.rows, local.values_local, local.hidden)
    return row_product(product)


def _gathering(
    product: ops.Operation, way: Literal["forward", "backward"], local: ops.Local
) -> ops.Operation:
    """A product that gathers its tokens itself, or backward the gradients of its results."""
    return product.sending(way, local.all_tokens("all_gather"))


def attention(local: ops.Local, *, stores_scores: bool) -> ops.Operation:
    """Attention of all local heads.

    Symbols: X = b H lk k scores, Y = b H lk (k - 1) sums with k keys of a query; softmax and its
    dropout take 3X + Y vector FLOPs forward and 4X + Y backward. Selective recomputation (fused
    attention) computes scores and softmax again; without it the softmax, its dropout mask and its
    dropped result are stored, 5 bytes a score (arXiv:2205.05198, Sec. 4.1).
    """
    maps, q, v = local.microbatch * local.heads, local.head_size, local.value_size
    keys, queries, rows = local.keys, local.queries, maps * local.queries
    scores, sums, query, result = rows * keys, rows * (keys - 1), rows * q, rows * v
    # Windows of the local queries reach as many keys before the first of them.
    held = local.microbatch * local.kv_heads * np.minimum(local.sequence, queries + keys)
    both = held * q + held * v
    softmax = 3 * scores + sums
    again = not stores_scores
    scores_bytes = 0.0 if again else (2 * ops.ELEMENT_BYTES + ops.MASK_BYTES) * scores

    query_key = scores * (2 * q - 1)
    attend = result * (2 * keys - 1)
    # Gradients of queries, of values and keys, of probabilities; then the scores once more.
    gradients = query * (2 * keys - 1) + maps * keys * (q + v) * (2 * queries - 1)
    gradients = gradients + scores * (2 * v - 1)
    # Queries and results, keys and values of the local tokens, and two sums a row.
    elements = local.microbatch * (local.heads + local.kv_heads) * queries * (q + v)
    elements = elements + 2 * local.microbatch * local.heads * queries
    stored = ops.ELEMENT_BYTES * elements + scores_bytes
    gather = ops.CollectiveCall("all_gather", ops.ELEMENT_BYTES * both, "context")
    scatter = ops.CollectiveCall("reduce_scatter", ops.ELEMENT_BYTES * both, "context")
    return ops.Operation(
        "attention",
        "attention",
        0.0,
        stored,
        forward=ops.OperationCost(
            tensor_flops=query_key + attend,
            vector_flops=softmax,
            moved_bytes=ops.ELEMENT_BYTES * (query + result + both + rows) + scores_bytes,
            collectives=(gather,),
        ),
        backward=ops.OperationCost(
            tensor_flops=gradients + (query_key if again else 0.0),
            vector_flops=softmax + scores + (softmax if again else 0.0),
            moved_bytes=ops.ELEMENT_BYTES * (both + (query + result)) + stored,
            collectives=(gather, scatter),
        ),
        shapes=(ops.ProductShape(rows, q, keys, maps), ops.ProductShape(rows, keys, v, maps)),
        scores=True,
        attention=local.attention,
    )


def _latent_projections(local: ops.Local, latent: LatentAttention) -> Iterator[ops.Operation]:
    """Down to the latent vectors on scattered tokens, then up to the heads on gathered ones."""
    queries, keys = latent.query_rank or 0, latent.kv_rank + latent.rotary_head_size
    rows = local.scattered_rows
    down = LocalProduct("latent-down", "attention", rows, local.hidden, float(queries + keys))
    yield down.operation()
    message = ops.ELEMENT_BYTES * local.rows * (queries + keys)
    gather = ops.CollectiveCall("all_gather", message, "tensor")
    yield norm_of("latent-norm", rows, float(queries + latent.kv_rank), (gather,), ())
    width = float(queries) if queries else local.hidden
    up = column_product(LocalProduct("q-up", "attention", local.rows, width, local.queries_local))
    yield up if queries else _gathering(up, "forward", local)
    columns = local.heads * (latent.head_size + latent.value_head_size)
    yield column_product(
        LocalProduct("kv-up", "attention", local.rows, float(latent.kv_rank), columns)
    )


def _indexer(model: Model, local: ops.Local, index: IndexAttention) -> ops.Operation:
    """Scores of all keys for the scattered tokens, by small heads with weights on every GPU."""
    rows, width = local.scattered_rows, index.weights(model.hidden_size, model.latent_attention)
    weights = ops.ELEMENT_BYTES * width
    scores = rows * local.sequence * index.heads
    keys = local.microbatch * local.sequence * index.head_size
    made = rows * index.head_size * (index.heads + 1)
    flops = 2 * rows * width + 2 * scores * index.head_size
    moved = ops.ELEMENT_BYTES * (made + keys + rows * local.hidden) + weights
    work = ops.OperationCost(
        tensor_flops=flops,
        vector_flops=INDEX_FLOPS * scores,
        moved_bytes=moved,
        weight_bytes=weights,
    )
    made_bytes, back = ops.ELEMENT_BYTES * made, work.twice(weights)
    return ops.Operation("index", "attention", weights, made_bytes, work, back)


def _with_states(
    model: Model, sharding: ops.Sharding, local: ops.Local, kind: LinearAttention | Mamba
) -> Sequence[ops.Operation]:
    """Projections and states of gated delta nets or of Mamba 2.

    Heads are cut over the tensor GPUs, keys and groups that they share as far as they go.
    """
    tensor, rows, (heads, shared) = sharding.tensor, local.rows, kind.state_heads
    block = state_block(kind, real(heads // tensor), real(np.maximum(shared // tensor, 1)))
    mixed, values = block.mixed, block.values
    vector = rows * (mixed * (2 * block.convolution + 4) + values * (NORM_FLOPS + 5))
    tokens = rows * (2 * mixed + 2 * values)
    weights = ops.ELEMENT_BYTES * (mixed * block.convolution + block.others)
    first, name, last = ("delta-in", "delta", "delta-out")
    state_bytes = ops.ELEMENT_BYTES
    if isinstance(kind, Mamba):
        first, name, last = ("mamba-in", "scan", "mamba-out")
        state_bytes = STATE_BYTES
    moved = ops.ELEMENT_BYTES * tokens + weights
    moved = moved + 2 * state_bytes * (rows / block.chunk * block.states)
    handed = STATE_BYTES * local.microbatch * block.states * local.context
    hand_on = (ops.CollectiveCall("all_gather", handed, "context"),)
    flops = rows * block.chains * block.chain_flops
    work = ops.OperationCost(flops, vector, moved, hand_on, weight_bytes=weights)
    kept, back = ops.ELEMENT_BYTES * tokens, work.twice(weights)
    net = ops.Operation(name, "attention", weights, kept, work, back)
    into = column_product(LocalProduct(first, "attention", rows, local.hidden, block.columns))
    out = row_product(LocalProduct(last, "attention", rows, values, local.hidden))
    if model.latent_attention is not None:  # the norm does not gather for latent vectors
        into, out = _gathering(into, "forward", local), _gathering(out, "backward", local)
    return into, net, out

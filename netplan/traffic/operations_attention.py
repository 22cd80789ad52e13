"""Fused attention: scores, softmax and weighted values of one microbatch in one kernel.

Source: arXiv:2410.00273, Sec. III "Fused Operations", and its published code. All l x l scores are
computed (no causal saving). Grouped queries share their keys and values; that saves bytes, not
FLOPs. Under a sequence split every GPU gathers all keys and values.
"""

from netplan.traffic.operations import (
    ELEMENT_BYTES,
    MASK_BYTES,
    Collective,
    Floats,
    Local,
    Operation,
    Recompute,
    Work,
)


def attention(local: Local, recompute: Recompute) -> Operation:
    """Attention of all local heads.

    Symbols: X = b H lk l scores, Y = b H lk (l - 1) sums; softmax and its dropout take 3X + Y
    vector FLOPs forward and 4X + Y backward. Selective recomputation (fused attention) computes
    scores and softmax again; without it the softmax, its dropout mask and its dropped result are
    stored, 5 bytes a score (arXiv:2205.05198, Sec. 4.1).
    """
    maps, q = local.microbatch * local.heads, local.head_size
    keys, queries = local.sequence, local.queries
    scores, sums = maps * queries * keys, maps * queries * (keys - 1)
    query = maps * queries * q
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
            moved_bytes=ELEMENT_BYTES * (2 * query + 2 * key + maps * queries) + scores_bytes,
            collectives=(gather,),
        ),
        backward=Work(
            tensor_flops=backward_flops,
            vector_flops=softmax + scores + (softmax if again else 0.0),
            moved_bytes=ELEMENT_BYTES * (2 * key + 2 * query) + stored,
            collectives=(gather, scatter),
        ),
    )


def _stored_bytes(local: Local) -> Floats:
    """Queries and results, keys and values of the local tokens, and two sums a row [B]."""
    b, q, queries = local.microbatch, local.head_size, local.queries
    elements = 2 * b * (local.heads + local.kv_heads) * queries * q + 2 * b * local.heads * queries
    return ELEMENT_BYTES * elements

"""Times of blocks of layers under software of a date: formulas on numbers or arrays.

A layer is two blocks, attention and a feed-forward part or experts; of a hybrid every block is a
layer, Mamba too. With T = ``tokens``, E = ``scattered`` rows, P a rate of products, B that of
memory, t0 a kernel, V passes over memory, a heads of one GPU:

=============  =====================================================================================
attention      products of its weights (of latent attention through its two ranks); scores: F = T S
               a (q + v) FLOPs at A s / (s + 530), backward 2.5 times; S tokens are seen, of those
               in windows 2 w - w^2 / s
feed-forward   two products, V (6 or 4) T f bytes
experts        ``n`` of a GPU get R rows: grouped products with ``pad_rows`` more each; rows pass
               memory P times for the permutation, V (6 or 4) R f for activations, Q 4 R (q + f) for
               casts below bf16, the latter two only where they are not fused; a router
Mamba          two products, a scan: T (I (256 + 4 n) + 256 n u) FLOPs and passes over 2 T (2 I + 2
               u n) bytes, backward 2.5 times
norms          V 2 E h 5 bytes a block, backward 10
host           time to launch a block's kernels, beside which the GPU computes
=============  =====================================================================================

How blocks make an iteration says `netplan.performance.dated.layer`, what experts exchange
`netplan.performance.dated.exchange`. Sources: as of `netplan.performance.calibrated`; Mamba 2: Dao
and Gu (arXiv:2405.21060), whose scan works on 128 tokens at a time; all numbers were fitted on
published runs (reports/published/dated-runs.csv).
"""

import numpy as np
from msgspec import field

from netplan.arrays import Amount, Columns
from netplan.performance.calibrated import (
    EVERY_OTHER,
    FORWARD_LAUNCHES,
    FUSED_BACKWARD,
    Both,
    ReachedRates,
    Shapes,
    dense_products,
    product_s,
    shown_s,
)
from netplan.performance.dated.part import Part
from netplan.records import replace

CHUNK = 128.0
"""Tokens that a Mamba scan works on at a time (arXiv:2405.21060, Sec. 6) [1]."""
SCAN_BACKWARD = 2.5
"""Work of a scan backward, as of attention (arXiv:2405.21060 has no number; assumed) [1]."""
GRADIENT_SUM_BYTES = 6.0
"""A gradient of an expert's weight is read, added to and written in 32 bits, from 16 [B]."""


class DatedReach(ReachedRates, frozen=True, eq=True):
    """What kernels of blocks reach; numbers, or arrays of one shape.

    Parameters
    ----------
    attention_flops_per_s, attention_half_s
        Attention on long sequences [FLOP/s], the sequence of half that rate [tokens].
    latent, sinks, head_width
        Factors of that rate [1], and the width that smaller heads do not fill, 1 if none [1].
    grouped_flops_per_s, scan_flops_per_s
        Products of experts, and scans of Mamba [FLOP/s].
    pad_rows, busiest
        Rows lost to the tiles of an expert; rows of the busiest GPU over the mean [1].
    permuted, cast, routed, scanned
        Passes over memory of rows of experts, their casts, logits of the router, a scan [1].
    fused_experts
        Whether activations and casts of experts are fused (1 or 0).
    attention_host_s, experts_host_s, expert_host_s
        Host time of a block of attention or Mamba, of one of experts, and of each of its experts.
    """

    attention_flops_per_s: Amount
    attention_half_s: Amount
    latent: Amount
    sinks: Amount
    head_width: Amount
    grouped_flops_per_s: Amount
    scan_flops_per_s: Amount
    pad_rows: Amount
    busiest: Amount
    permuted: Amount
    cast: Amount
    routed: Amount
    scanned: Amount
    fused_experts: Amount
    attention_host_s: Amount
    experts_host_s: Amount
    expert_host_s: Amount


NOTHING = Both(0.0, 0.0)


class DatedBlock(Columns, frozen=True, eq=False):
    """One block of a kind; numbers, or arrays of one shape [s].

    Parameters
    ----------
    products, attention, vectors
        What it computes: products with weights and their casts, scores, and what moves through
        memory beside them.
    forward_comm_s, backward_comm_s, exchange_s
        What collectives show beside it each way, and what of both is the exchange of experts.
    again_s
        What computing again takes, by word.
    weights, expert_weights
        Of a GPU, and those of its experts [1].
    host_s
        Host time to launch its kernels.
    count, last
        Blocks of the model, and those of a prediction layer [1].
    """

    products: Both
    vectors: Both
    forward_comm_s: Amount
    backward_comm_s: Amount
    weights: Amount
    count: Amount
    attention: Both = NOTHING
    exchange_s: Amount = 0.0
    again_s: dict[str, Amount] = field(default_factory=dict)
    expert_weights: Amount = 0.0
    host_s: Amount = 0.0
    last: Amount = 0.0

    @property
    def forward_s(self) -> Amount:
        """Computing forward [s]."""
        return self.products.forward_s + self.attention.forward_s + self.vectors.forward_s

    @property
    def gpu_s(self) -> Amount:
        """All that the GPU does, without what is computed again [s]."""
        backward_s = self.products.backward_s + self.attention.backward_s + self.vectors.backward_s
        return self.forward_s + backward_s + self.forward_comm_s + self.backward_comm_s

    @property
    def forward_alone(self) -> "DatedBlock":
        """The same without a way back, and of the host's time what launches the way there."""
        return replace(
            self,
            products=self.products.forward_alone,
            attention=self.attention.forward_alone,
            vectors=self.vectors.forward_alone,
            backward_comm_s=0.0,
            exchange_s=self.exchange_s / 2,
            again_s={},
            host_s=FORWARD_LAUNCHES * self.host_s,
        )

    def again_with(self, half: Amount, gathered: Amount) -> dict[str, Amount]:
        """What computing again takes, the whole block too, of whose collectives some run again."""
        return self.again_s | {
            "half": half * self.forward_s,
            "full": self.forward_s + gathered * self.forward_comm_s,
        }


class BlockCollectives(Columns, frozen=True, eq=False):
    """What collectives of a block show, each alone; numbers, or arrays of one shape [s].

    ``tensor_s`` is one tensor collective, ``ring_s_per_element`` what the context ring takes for an
    element of a token's keys, values with them, ``exchange_s`` one dispatch or combine.
    ``contention`` is what the ring shows all the same where it is hidden [1].
    """

    tensor_s: Amount
    ring_s_per_element: Amount
    exchange_s: Amount
    contention: Amount


def blocks_of(
    part: Part, on: DatedReach, sent: BlockCollectives, windows: Part | None = None
) -> tuple[DatedBlock, ...]:
    """All blocks that a model has, attention first, and that of windows with heads of their own.

    Parameters
    ----------
    part, on, sent
        What a GPU has, what its kernels reach, and what collectives show.
    windows
        The part of layers whose windows have heads of their own.

    Returns
    -------
    tuple of DatedBlock
        Each of the shape of the part's arrays.
    """
    blocks = [attention_block(part, on, sent)]
    if windows is not None:
        blocks.append(replace(attention_block(windows, on, sent), last=0.0))
    if np.any(np.asarray(part.dense_blocks) > 0) or np.any(np.equal(part.predicts_by_experts, 0)):
        blocks.append(dense_block(part, on, sent))
    if np.any(np.asarray(part.expert_blocks) > 0):
        blocks.append(expert_block(part, on, sent))
    if np.any(np.asarray(part.mamba_blocks) > 0):
        blocks.append(mamba_block(part, on, sent))
    return tuple(blocks)


def _weights(shapes: Shapes) -> Amount:
    return sum((inner * outer for inner, outer in shapes), 0.0)


def _norms(part: Part, on: DatedReach) -> Both:
    """Norm and residual sum of a block [s]."""
    row_s = on.vector * 2 * part.scattered * part.hidden / on.memory_bytes_per_s
    return Both(5 * row_s, 10 * row_s)


def attention_block(part: Part, on: DatedReach, sent: BlockCollectives) -> DatedBlock:
    """A block of attention.

    Parameters
    ----------
    part, on, sent
        What a GPU has, what its kernels reach, and what collectives show.

    Returns
    -------
    DatedBlock
        Of the shape of the part's arrays.
    """
    t0, heads = on.kernel_s, part.heads
    widths = part.key_size + part.value_size
    plain: Shapes = (
        (part.hidden, heads * part.key_size + part.key * (1 + part.value_size / part.key_size)),
        (heads * part.value_size, part.hidden),
    )
    direct = np.equal(part.query_rank, 0)
    ups: Shapes = (
        (np.where(direct, part.hidden, part.query_rank), heads * part.key_size),
        (part.kv_rank, heads * (part.plain_size + part.value_size)),
    )
    ranked: Shapes = ((part.hidden, part.query_rank),)
    downs: Shapes = ((part.hidden, part.kv_rank + part.rotated_size), *ups, plain[1])
    products, weights, up = dense_products(part.tokens, plain, on), _weights(plain), NOTHING
    if np.any(np.asarray(part.latent) > 0):
        up = dense_products(part.tokens, ups, on)
        latent = dense_products(part.tokens, downs, on)
        latent = latent + dense_products(part.tokens, ranked, on, np.where(direct, 0.0, 1.0))
        products = latent * part.latent + products * (1 - part.latent)
        latent_weights = _weights(downs) + _weights(ranked)
        weights = part.latent * latent_weights + (1 - part.latent) * weights
    rate = on.attention_flops_per_s * part.sequence / (part.sequence + on.attention_half_s)
    rate = rate * np.where(part.latent, on.latent, 1.0) * np.where(part.sinks, on.sinks, 1.0)
    rate = rate * np.minimum(1.0, part.key_size / on.head_width)
    scores_s = part.tokens * part.seen * heads * widths / rate
    scores = Both(t0 + scores_s, 2 * t0 + FUSED_BACKWARD * scores_s)
    copied = part.tokens * (heads * widths / 2 + 2 * part.key) * 4 * (1 + part.rotary)
    copied_s = on.vector * copied / on.memory_bytes_per_s
    norms = _norms(part, on)
    vectors = norms + Both(copied_s + 3 * t0, copied_s + 5 * t0)
    ring_s = part.tokens * part.key * sent.ring_s_per_element
    forward_comm_s = 2 * sent.tensor_s + shown_s(ring_s, scores.forward_s, sent.contention)
    ring_back_s = shown_s(2 * ring_s, scores.backward_s, sent.contention)
    backward_comm_s = 2 * sent.tensor_s + ring_back_s
    return DatedBlock(
        products=products,
        attention=scores,
        vectors=vectors,
        forward_comm_s=forward_comm_s,
        backward_comm_s=backward_comm_s,
        again_s={
            "core_attn": scores.forward_s,
            "mla_up_proj": part.latent * up.forward_s,
            "layernorm": norms.forward_s,
            "sac-op": EVERY_OTHER * products.forward_s,
        },
        weights=weights,
        host_s=on.attention_host_s,
        count=part.attention_blocks,
        last=1.0,
    )


def _feed_forward(part: Part, on: DatedReach, ffn: Amount) -> tuple[Both, Both, Amount]:
    """Two products of this inner width, what lies between them [s], and their weights [1]."""
    shapes = ((part.hidden, part.gates * ffn), (ffn, part.hidden))
    moved_s = on.vector * part.tokens * ffn / on.memory_bytes_per_s
    wide = 2 * (part.gates - 1)
    vectors = Both((4 + wide) * moved_s + 3 * on.kernel_s, (8 + wide) * moved_s + 4 * on.kernel_s)
    products = dense_products(part.tokens, shapes, on)
    return products, vectors, part.hidden * ffn * (part.gates + 1)


def dense_block(part: Part, on: DatedReach, sent: BlockCollectives) -> DatedBlock:
    """A feed-forward part that all tokens go through.

    Parameters
    ----------
    part, on, sent
        What a GPU has, what its kernels reach, and what collectives show.

    Returns
    -------
    DatedBlock
        Of the shape of the part's arrays.
    """
    products, vectors, weights = _feed_forward(part, on, part.ffn)
    forward_s = products.forward_s + vectors.forward_s
    return DatedBlock(
        products=products,
        vectors=vectors + _norms(part, on),
        forward_comm_s=2 * sent.tensor_s,
        backward_comm_s=2 * sent.tensor_s,
        again_s={"mlp": forward_s, "sac-op": EVERY_OTHER * products.forward_s},
        weights=weights,
        count=part.dense_blocks,
        last=1.0 - np.asarray(part.predicts_by_experts),
    )


def expert_block(part: Part, on: DatedReach, sent: BlockCollectives) -> DatedBlock:
    """Experts, with their router and what all tokens go through beside them.

    Parameters
    ----------
    part, on, sent
        What a GPU has, what its kernels reach, and what collectives show.

    Returns
    -------
    DatedBlock
        Of the shape of the part's arrays.
    """
    t0, memory, inside = on.kernel_s, on.memory_bytes_per_s, part.expert_size
    busiest = np.minimum(on.busiest * part.imbalance, part.capacity)
    rows = part.own_rows * part.chosen * busiest
    shapes = ((inside, part.gates * part.expert_ffn), (part.expert_ffn, inside))
    forward_s: Amount = 0.0
    backward_s: Amount = 0.0
    for inner, outer in shapes:
        lost = on.pad_rows * part.held_experts * inner * outer + inner * on.lost_outputs
        computing_s = 2 * (rows * inner * outer + lost) / on.grouped_flops_per_s
        moved = 2 * (rows * inner + part.held_experts * inner * outer + rows * outer)
        product_time_s = on.kernel_s + np.maximum(computing_s, moved / memory)
        summed_s = GRADIENT_SUM_BYTES * part.held_experts * inner * outer / memory
        forward_s, backward_s = forward_s + product_time_s, backward_s + 2 * product_time_s
        backward_s = backward_s + summed_s
    latent_shapes = ((part.hidden, inside), (inside, part.hidden))
    latent = dense_products(part.scattered, latent_shapes, on, part.latent_experts)
    shared_products, shared_vectors, shared_weights = _feed_forward(part, on, part.shared_ffn)
    has_shared = np.greater(part.shared_ffn, 0)
    shared_products = shared_products * np.where(has_shared, 1.0, 0.0)
    shared_vectors = shared_vectors * np.where(has_shared, 1.0, 0.0)
    activation_s = on.vector * (4 + 2 * (part.gates - 1)) * rows * part.expert_ffn / memory
    unfused = 1 - on.fused_experts
    cast_s = on.casts * on.cast * 4 * rows * (inside + part.expert_ffn) / memory
    permuted_s = on.permuted * 2 * rows * inside / memory
    logits_s = on.routed * 4 * part.scattered * part.experts / memory
    router_s = product_s(part.scattered, part.hidden, part.experts, on.head_flops_per_s, on)
    router_s = router_s + logits_s + 8 * t0
    norms = _norms(part, on)
    moved = Both(
        permuted_s + unfused * (activation_s + cast_s) + router_s + 6 * t0,
        permuted_s + unfused * (5 / 3 * activation_s + 2 * cast_s) + 2 * router_s + 6 * t0,
    )
    products = Both(forward_s, backward_s) + latent + shared_products
    cut = np.greater(part.own_rows, part.scattered)
    comm_s = np.where(has_shared | cut, 2 * sent.tensor_s, 0.0) + 2 * sent.exchange_s
    shared_s = shared_products.forward_s + shared_vectors.forward_s
    again_s = {
        "moe": products.forward_s + moved.forward_s + shared_vectors.forward_s + comm_s,
        "moe_act": activation_s,
        "shared_experts": shared_s,
        "layernorm": norms.forward_s,
    }
    return DatedBlock(
        products=products,
        vectors=moved + shared_vectors + norms,
        forward_comm_s=comm_s,
        backward_comm_s=comm_s,
        exchange_s=4 * sent.exchange_s,
        again_s=again_s,
        weights=part.hidden * part.experts
        + part.latent_experts * _weights(latent_shapes)
        + np.where(has_shared, shared_weights, 0.0),
        expert_weights=part.held_experts * _weights(shapes),
        host_s=on.experts_host_s + on.expert_host_s * part.held_experts,
        count=part.expert_blocks,
        last=part.predicts_by_experts,
    )


def mamba_block(part: Part, on: DatedReach, sent: BlockCollectives) -> DatedBlock:
    """A block of Mamba 2.

    Parameters
    ----------
    part, on, sent
        What a GPU has, what its kernels reach, and what collectives show.

    Returns
    -------
    DatedBlock
        Of the shape of the part's arrays.
    """
    t0, inner, state = on.kernel_s, part.inner, part.state
    written = part.groups * state
    shapes = ((part.hidden, 2 * inner + 2 * written + part.mamba_heads), (inner, part.hidden))
    products = dense_products(part.tokens, shapes, on)
    flops = part.tokens * (inner * (2 * CHUNK + 4 * state) + 2 * CHUNK * written)
    scan_s = flops / on.scan_flops_per_s
    scan_s = scan_s + on.scanned * 2 * part.tokens * (2 * inner + 2 * written) / (
        on.memory_bytes_per_s
    )
    vectors = _norms(part, on) + Both(scan_s + 6 * t0, SCAN_BACKWARD * scan_s + 10 * t0)
    return DatedBlock(
        products=products,
        vectors=vectors,
        forward_comm_s=2 * sent.tensor_s,
        backward_comm_s=2 * sent.tensor_s,
        weights=_weights(shapes),
        host_s=on.attention_host_s,
        count=part.mamba_blocks,
    )

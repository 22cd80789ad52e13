"""Parameters of a transformer, and what a token does with them, summed over unlike layers.

Counted are matrices: projections of attention and of Mamba, feed-forward parts with routers,
embedding and head; and two norms of a layer, one of a hybrid's block, with the last one. Left out
are biases and norms of queries, keys and latent vectors, less than a thousandth. Publishers count
the parameters that a token uses with the token embedding, of which it reads a row (Llama 4,
Mixtral), or without it (gpt-oss, DeepSeek-V3).
"""

from collections.abc import Iterator
from typing import NamedTuple

from netplan.arrays import Amount
from netplan.workloads.models import Experts, LinearAttention, Mamba, Model

CHUNK = 64
"""Tokens of a chunk of linear attention, as its published kernels have it [1]."""

SCAN_CHUNK = 128
"""Tokens of a chunk of Mamba 2, as the published models have it (``chunk_size``) [1]."""

CONVOLUTION = 4
"""Tokens that the convolution of Mamba 2 sees, as the published models have it [1]."""

NORMS = 2
"""Of a layer; a block of a hybrid has one [1]."""


class ParameterCount(NamedTuple):
    """Parameters of a model [1]."""

    total: int  # without layers that predict further tokens
    active: int  # of them a token uses, its embedding included
    embedding: int  # of the token embedding; 0 where the head is the same matrix
    prediction: int  # of layers that predict further tokens, which share embedding and head

    @property
    def active_without_embedding(self) -> int:
        """What a token uses in products [1]."""
        return self.active - self.embedding


class LayerSums(NamedTuple):
    """What the layers hold and do for a token, all together, prediction layers included."""

    attention: int  # weights of attention, of Mamba too [1]
    feed_forward: int  # weights of feed-forward parts [1]
    visited: int  # those of them that a token uses [1]
    scores: int  # numbers of queries and values times the tokens that they meet [1]
    other_flops: float  # forward, of indexers and states that are kept [FLOP a token]

    @property
    def used(self) -> int:
        """Weights that a token uses [1]."""
        return self.attention + self.visited


def parameter_count(model: Model) -> ParameterCount:
    """Parameters of a model, in total and of a token.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> parameter_count(MODELS.load("llama-3-70b")).total
    70553706496
    """
    words = model.hidden_size * model.vocabulary
    ends = words if model.tied_embeddings else 2 * words
    without = stack_of(model.changed(prediction_layers=0))
    whole = stack_of(model)
    of_a_layer = NORMS if model.mamba is None else 1
    norms = model.hidden_size * (of_a_layer * model.layers + 1)
    all_but_feed_forward = ends + norms + without.attention
    more = whole.attention + whole.feed_forward - without.attention - without.feed_forward
    if model.prediction_layers:  # each has norms of both vectors, and its own three
        more += model.prediction_layers * model.hidden_size * (NORMS + NORMS + 1)
    return ParameterCount(
        all_but_feed_forward + without.feed_forward,
        all_but_feed_forward + without.visited,
        0 if model.tied_embeddings else words,
        more,
    )


def expert_parameters(model: Model, *, predictions: bool = False) -> int:
    """Parameters of routed experts of all layers, those of prediction layers only if asked for [1].

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> expert_parameters(MODELS.load("deepseek-v3"))
    653908770816
    >>> expert_parameters(MODELS.load("llama-3-70b"))
    0
    """
    if model.experts is None:
        return 0
    counted = model if predictions else model.changed(prediction_layers=0)
    return counted.sparse_layers * model.experts.count * _expert(model, model.experts)


def stack_of(model: Model) -> LayerSums:
    """What all layers of a model hold and do, prediction layers included."""
    hidden, experts = model.hidden_size, model.experts
    matrices = model.ffn_matrices * hidden
    wide = matrices * model.inner_size
    sparse = model.sparse_layers
    feed_forward = visited = model.dense_layers * wide
    if experts is not None:
        expert = _expert(model, experts)
        always_visited = matrices * experts.shared_ffn_size + hidden * experts.count
        always_visited += 2 * hidden * (experts.latent_size or 0)
        feed_forward += sparse * (always_visited + experts.count * expert)
        visited += sparse * (always_visited + experts.per_token * expert)
    projected = 2 * hidden**2 * model.prediction_layers
    kinds = [*_attention_kinds(model)]
    return LayerSums(
        sum(kind.layers * kind.weights for kind in kinds),
        feed_forward + projected,
        visited + projected,
        sum(kind.layers * kind.scores for kind in kinds),
        sum(kind.layers * kind.other_flops for kind in kinds),
    )


def _expert(model: Model, experts: Experts) -> int:
    """Weights of one expert, which may take and give vectors of a width of their own [1]."""
    width = experts.latent_size or model.hidden_size
    return model.ffn_matrices * width * (experts.ffn_size or model.inner_size)


class _Kind(NamedTuple):
    """One kind of attention, or of Mamba: its layers, what one of them holds and does a token."""

    layers: int
    weights: int
    scores: int = 0
    other_flops: float = 0.0


def _attention_kinds(model: Model) -> Iterator[_Kind]:
    """Full attention with its indexer, windows, linear attention, Mamba."""
    length, window, index = model.sequence_length, model.window_attention, model.index_attention
    query, value = model.head_elements, model.value_elements
    if model.latent_attention is not None:
        latent = model.latent_attention
        query, value = latent.head_size + latent.rotary_head_size, latent.value_head_size
    met = min(length, index.tokens) if index else length
    yield _Kind(model.full_layers, _projections(model), met * model.heads * (query + value))
    if index is not None:
        weights = index.weights(model.hidden_size, model.latent_attention)
        flops = 2.0 * (weights + length * index.heads * index.head_size)
        indexed_layers = min(index.layers or model.full_layers, model.full_layers)
        yield _Kind(indexed_layers, weights, other_flops=flops)
    if window is not None:
        inside = model.in_windows()
        if window.own_heads:
            query, value = inside.head_elements, inside.value_elements
        met = min(length, window.tokens)
        yield _Kind(window.layers, _projections(inside), met * model.heads * (query + value))
    for kind in model.with_states:
        block = state_block(kind, *kind.state_heads)
        projected = model.hidden_size * (block.columns + block.values)
        weights = int(projected + block.mixed * block.convolution + block.others)
        yield _Kind(kind.layers, weights, other_flops=float(block.chains * block.chain_flops))


def _projections(model: Model) -> int:
    """Weights of the projections of attention, without an indexer [1]."""
    hidden, heads, latent = model.hidden_size, model.heads, model.latent_attention
    if latent is not None:
        query, value = latent.head_size + latent.rotary_head_size, latent.value_head_size
        down = hidden * (latent.kv_rank + latent.rotary_head_size + (latent.query_rank or 0))
        up = latent.kv_rank * heads * (latent.head_size + value)
        return down + up + (latent.query_rank or hidden) * heads * query + heads * value * hidden
    query, value = model.head_elements, model.value_elements
    keys = model.key_heads * (query + value)
    gate = heads * value if model.gated_attention else 0
    return hidden * (heads * (query + value) + gate + keys)


class StateBlock(NamedTuple):
    """What some heads of a layer that keeps states have: gated delta nets, or Mamba 2 [1]."""

    mixed: Amount  # numbers of a token that the convolution takes
    values: Amount  # numbers that it gives
    columns: Amount  # of the projection in
    states: Amount  # numbers of all states of a sequence
    others: Amount  # weights beside those of projections and convolution
    convolution: int  # tokens that the convolution sees
    chunk: int  # tokens that are worked on together
    chains: Amount  # so many times over
    chain_flops: Amount  # products of chunks [FLOP a token]


def state_block(kind: LinearAttention | Mamba, heads: Amount, shared: Amount) -> StateBlock:
    """A layer with so many heads, and so many of keys or groups that they share.

    Gated delta nets have a rate and a gate a head (`netplan.workloads.attention`), Mamba 2
    three numbers a head and a gated norm.
    """
    if isinstance(kind, Mamba):
        values, read = heads * kind.head_size, 2 * shared * kind.state
        return StateBlock(
            *(values + read, values, 2 * values + read + heads, values * kind.state),
            *(values + 3 * heads, CONVOLUTION, SCAN_CHUNK),
            *(1.0, scan_flops(kind, heads, shared)),
        )
    values = heads * kind.value_head_size
    mixed = 2 * (shared * kind.key_head_size) + values
    return StateBlock(
        *(mixed, values, mixed + values + 2 * heads, values * kind.key_head_size),
        *(2 * heads, kind.convolution, CHUNK),
        *(heads, delta_flops(kind)),
    )


def delta_flops(linear: LinearAttention) -> float:
    """Products of gated delta nets in chunks [FLOP a token and head of values].

    Of C tokens a chunk, k and v elements of a head's key and value: 2 C k for K K^T, Q K^T and T K
    each, 2 C v for T V and A V each, C^2 / 3 to invert T, and 2 k v to read the state for values
    and for results, and to write it (Yang et al., arXiv:2412.06464, Sec. 3.3).

    Examples
    --------
    >>> round(delta_flops(LinearAttention(
    ...     layers=1, key_heads=16, value_heads=64, key_head_size=128, value_head_size=128)))
    181589
    """
    k, v, c = linear.key_head_size, linear.value_head_size, CHUNK
    return 6 * c * k + 4 * c * v + 6 * k * v + c * c / 3


def scan_flops(mamba: Mamba, heads: Amount, groups: Amount) -> Amount:
    """Products of a Mamba 2 scan in chunks, forward, of so many heads and groups [FLOP a token].

    Of C tokens a chunk, I elements of the heads, n of a state and g groups: 2 C n g for the scores
    of a chunk, 2 C I to apply them, 2 n I to write the state and as many to read it (Dao and Gu,
    arXiv:2405.21060, Sec. 6).

    Parameters
    ----------
    mamba
        Whose sizes a head has.
    heads, groups
        Those of one GPU, numbers or arrays of a shape [1].

    Returns
    -------
    Amount
        As heads and groups broadcast [FLOP a token].

    Examples
    --------
    >>> scan_flops(Mamba(layers=1, heads=64, head_size=64, state=128, groups=8), 64, 8)
    3407872.0
    """
    inner, n = heads * mamba.head_size, mamba.state
    return 2.0 * SCAN_CHUNK * n * groups + 2.0 * SCAN_CHUNK * inner + 4.0 * n * inner

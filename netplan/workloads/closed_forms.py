"""The same layer by its closed forms: two matrix-product sums, weights and activations.

The rail-only paper (arXiv:2307.12169, Eq. 10) counts only matrix products, 2 FLOPs a multiply-add,
and no bytes. Attention and the feed-forward part each gather their input and scatter their result
over the tensor GPUs, forward and backward (Eq. 6: eight collectives a layer). Stored activations
and weights are sums for a whole layer. The logits are spread over all layers.
"""

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.inputs.choices import Strategy
from netplan.records import replace
from netplan.workloads import operations as ops
from netplan.workloads.models import Model, refuse_unlike
from netplan.workloads.parameters import stack_of


class IterationFlops(Struct, frozen=True):
    """FLOPs of one iteration: of the model alone, and with what is computed again [FLOP]."""

    model: float
    hardware: float


def iteration_flops(model: Model, batch: int, variant: ops.Variant = ops.PLAIN) -> IterationFlops:
    """FLOPs of one iteration over the global batch, the numerators of MFU and HFU.

    For the standard layer: feed-forward 48 B s h^2 l + 6 B s h V, attention 24 B s h^2 l +
    16 B s^2 h l (12 for training, 4 for one recomputed forward pass of the two score products).
    Every expert that a token visits counts like one feed-forward part; layers that are unlike count
    as what they are (`netplan.workloads.parameters`). Hardware FLOPs contain the
    attention scores once more under selective recomputation, and the whole forward pass (a third
    of the training) under full recomputation, of every other layer under ``half``.

    Parameters
    ----------
    model
        The transformer.
    batch
        Global batch, B [sequences].
    variant
        Recomputation and experts.

    References
    ----------
    Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models
    (arXiv:2205.05198), Eq. 8 and appendix A; Wang et al., arXiv:2307.12169, Eq. 10.
    """
    (feed_forward, projections, scores), tokens = _sums(model, batch), batch * model.sequence_length
    training = float(feed_forward + projections + 6 * scores)
    visits = variant.top_k - 1
    selective = 2.0 * scores
    useful = training + 3.0 * tokens * stack_of(model).other_flops
    if model.experts is None:
        useful += 6.0 * tokens * model.layers * _feed_forward_size(model) * visits
    forward = useful / 3
    again = {"none": 0.0, "selective": selective, "half": forward / 2, "full": forward}
    if variant.fused:  # which computes the scores again, whatever else is
        again |= {"none": selective, "half": forward / 2 + selective / 2}
    more = sum(share * again.get(word, 0.0) for word, share in variant.again)
    return IterationFlops(useful, useful + again[variant.recompute] + more)


def _sums(model: Model, batch: int) -> tuple[int, int, int]:
    """FLOPs of training on some sequences: feed-forward parts with logits, projections, scores."""
    tokens, stack = batch * model.sequence_length, stack_of(model)
    logits = model.hidden_size * model.vocabulary * (1 + model.prediction_layers)
    feed_forward = 6 * tokens * (stack.visited + logits)
    return feed_forward, 6 * tokens * stack.attention, tokens * stack.scores


def layer_parameters(model: Model) -> int:
    """Weights of one layer, without biases and norms; 12 h^2 for the standard layer [1].

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> model = MODELS.load("gpt-1t")
    >>> layer_parameters(model) == 12 * model.hidden_size**2
    True
    """
    projections = 2 * model.hidden_size * (model.query_size + model.head_elements * model.key_heads)
    return projections + _feed_forward_size(model)


def _feed_forward_size(model: Model) -> int:
    return model.ffn_matrices * model.hidden_size * model.inner_size


def _activation_bytes(model: Model) -> int:
    """Activations that one layer stores for one sequence, scores recomputed [B].

    34 s h for the standard layer: attention 11, feed-forward 19, norms 4 (Korthikanti et al.,
    arXiv:2205.05198, section 4).
    """
    hidden = model.hidden_size
    attention = 3 * hidden + 4 * (model.query_size + model.head_elements * model.key_heads)
    # Input and dropout mask take 3 h; each matrix but the last stores its output before and after
    # the activation (a gate adds its product).
    feed_forward = 3 * hidden + 2 * model.ffn_matrices * model.inner_size
    return model.sequence_length * (attention + feed_forward + 4 * hidden)


SCORE_BYTES = 5
"""Softmax, its mask and its dropped result, stored without recomputation [B a score]."""


def counted_layer(
    model: Model,
    sharding: ops.Sharding,
    *,
    strategy: Strategy = "1d",
    variant: ops.Variant = ops.PLAIN,
) -> ops.Layer:
    """Projections, score products, feed-forward part and logits of a layer, of many shardings.

    Parameters
    ----------
    model, sharding, variant
        As in `netplan.workloads.transformer.transformer_layer`.
    strategy
        Only ``1d``.

    Raises
    ------
    InputError
        If the closed forms do not cover the strategy or the variant.

    References
    ----------
    Korthikanti et al., arXiv:2205.05198, Sec. 4, Eq. 8 and appendix A.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> layer = counted_layer(MODELS.load("gpt-1t"), ops.Sharding.of(1, tensor=8))
    >>> [operation.name for operation in layer.operations]
    ['projections', 'attention', 'feed-forward', 'logits']
    """
    if strategy != "1d" or variant.sparse or variant.embedding:
        raise InputError(
            "closed forms cover dense 1d layers without embedding: use the iteration model 4d"
        )
    refuse_unlike(model, "closed forms")
    b, t = sharding.microbatch.astype(np.float64), sharding.tensor.astype(np.float64)
    tokens = b * model.sequence_length
    feed_forward, projections, scores = _sums(model, 1)
    sequences = b / (t * model.layers)
    logits = 6.0 * model.sequence_length * model.hidden_size * model.vocabulary * sequences
    score_flops = scores * sequences  # of one of the two products, forward
    again = 2 * score_flops if variant.recompute == "selective" else 0.0
    message = ops.ELEMENT_BYTES * tokens * model.hidden_size
    stored = _activation_bytes(model) * b / t
    if variant.recompute == "none":
        stored += SCORE_BYTES * b * model.heads * float(model.sequence_length) ** 2 / t
    parts = (
        _operation("projections", projections * sequences, 0.0, message),
        _operation("attention", 6 * score_flops, again, None),
        _operation("feed-forward", feed_forward * sequences - logits, 0.0, message),
        _operation("logits", logits, 0.0, None),
    )
    boundary = message / t
    weights = ops.ELEMENT_BYTES * layer_parameters(model) / t
    # The sums are known for the whole layer only; they stand at its first operation.
    whole = replace(
        parts[0],
        weight_bytes=weights,
        activation_bytes=stored,
        forward=replace(parts[0].forward, weight_bytes=weights),
        backward=replace(parts[0].backward, weight_bytes=weights, gradient_bytes=weights),
    )
    return ops.Layer((whole, *parts[1:]), boundary)


def _operation(
    name: str, training: Floats, again: Floats | float, message: Floats | None
) -> ops.Operation:
    """One sum of products: a third of its training FLOPs forward, the rest backward."""
    kinds: tuple[ops.CollectiveKind, ...] = ("all_gather", "reduce_scatter")
    collectives = tuple(
        ops.CollectiveCall(kind, message, "tensor") for kind in kinds if message is not None
    )
    return ops.Operation(
        name,
        "attention" if name in ("projections", "attention") else "mlp",
        0.0,
        0.0,
        ops.OperationCost(tensor_flops=training / 3, collectives=collectives),
        ops.OperationCost(tensor_flops=training * 2 / 3 + again, collectives=collectives),
        scores=name == "attention",
    )

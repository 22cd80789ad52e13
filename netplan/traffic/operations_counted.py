"""The same layer by its closed forms: two matrix-product sums, weights and activations.

The rail-only paper (arXiv:2307.12169, Eq. 10) counts only matrix products, 2 FLOPs a multiply-add,
and no bytes. Attention and the feed-forward part each gather their input and scatter their result
over the tensor GPUs, forward and backward (Eq. 6: eight collectives a layer). Stored activations
and weights are the sums of `netplan.traffic.transformer`. The logits are spread over all layers.
"""

import numpy as np

from netplan.errors import InputError
from netplan.traffic.models import Model
from netplan.traffic.operations import (
    ELEMENT_BYTES,
    PLAIN,
    Collective,
    Floats,
    Layer,
    Operation,
    Sharding,
    Strategy,
    Variant,
    Work,
)
from netplan.traffic.transformer import iteration_flops, layer_activation_bytes, layer_parameters

SCORE_BYTES = 5
"""Softmax, its mask and its dropped result, stored without recomputation [B a score]."""


def counted_layer(
    model: Model, sharding: Sharding, *, strategy: Strategy = "1d", variant: Variant = PLAIN
) -> Layer:
    """Attention, feed-forward part and logits of one layer, for many shardings at once.

    Parameters
    ----------
    model, sharding, variant
        As in `netplan.traffic.operations_layer.transformer_layer`.
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
    >>> from netplan.traffic.models import MODELS
    >>> layer = counted_layer(MODELS.load("gpt-1t"), Sharding.of(1, tensor=8))
    >>> [operation.name for operation in layer.operations]
    ['attention', 'feed-forward', 'logits']
    """
    if strategy != "1d" or variant.sparse or variant.embedding:
        raise InputError(
            "closed forms cover dense 1d layers without embedding: use the iteration model 4d"
        )
    b, t = sharding.microbatch.astype(np.float64), sharding.tensor.astype(np.float64)
    tokens = b * model.sequence_length
    flops = iteration_flops(model, 1)
    sequences = b / (t * model.layers)
    score_flops = 2.0 * model.sequence_length**2 * model.hidden_size * sequences * model.layers
    logits = 6.0 * model.sequence_length * model.hidden_size * model.vocabulary * sequences
    attention = flops.attention * sequences - 2 * score_flops  # without the second scores
    again = 2 * score_flops if variant.recompute == "selective" else 0.0
    boundary = ELEMENT_BYTES * tokens * model.hidden_size
    stored = layer_activation_bytes(model) * b / t
    if variant.recompute == "none":
        stored += SCORE_BYTES * b * model.heads * float(model.sequence_length) ** 2 / t
    operations = (
        _operation("attention", attention, again, boundary),
        _operation("feed-forward", flops.feed_forward * sequences - logits, 0.0, boundary),
        _operation("logits", logits, 0.0, None),
    )
    weights = ELEMENT_BYTES * layer_parameters(model) / t
    # The sums are known for the whole layer only; they stand at its first operation.
    first = operations[0]
    whole = Operation(first.name, "attention", weights, stored, first.forward, first.backward)
    return Layer((whole, *operations[1:]), boundary / t)


def _operation(
    name: str, training: Floats, again: Floats | float, message: Floats | None
) -> Operation:
    """One sum of products: a third of its training FLOPs forward, the rest backward."""
    collectives = (
        ()
        if message is None
        else (
            Collective("all_gather", message, "tensor"),
            Collective("reduce_scatter", message, "tensor"),
        )
    )
    return Operation(
        name,
        "attention" if name == "attention" else "mlp",
        0.0,
        0.0,
        Work(tensor_flops=training / 3, collectives=collectives),
        Work(tensor_flops=training * 2 / 3 + again, collectives=collectives),
    )

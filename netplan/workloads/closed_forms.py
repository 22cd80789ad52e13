"""The same layer by its closed forms: two matrix-product sums, weights and activations.

The rail-only paper (arXiv:2307.12169, Eq. 10) counts only matrix products, 2 FLOPs a multiply-add,
and no bytes. Attention and the feed-forward part each gather their input and scatter their result
over the tensor GPUs, forward and backward (Eq. 6: eight collectives a layer). Stored activations
and weights are the sums of `netplan.workloads.closed_forms`. The logits are spread over all layers.
"""

from dataclasses import dataclass, replace

import numpy as np

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.workloads.models import Model
from netplan.workloads.operations import (
    ELEMENT_BYTES,
    PLAIN,
    Collective,
    Layer,
    Operation,
    Sharding,
    Strategy,
    Tensor,
    Variant,
    Work,
)

BYTES_PER_ELEMENT = 2
"""Weights, activations and gradients are 16-bit numbers [B]."""


@dataclass(frozen=True, slots=True)
class IterationFlops:
    """FLOPs of one training iteration over the global batch, backward pass included.

    Parameters
    ----------
    feed_forward
        Feed-forward parts and the output logits [FLOP].
    attention
        Projections and score products, scores recomputed once [FLOP].
    model
        All of it without recomputation, the numerator of MFU [FLOP].
    """

    feed_forward: float
    attention: float
    model: float

    @property
    def hardware(self) -> float:
        """All of it with recomputation, the numerator of HFU [FLOP]."""
        return self.feed_forward + self.attention


def layer_parameters(model: Model) -> int:
    """Weights of one layer, without biases and norms; 12 h^2 for the standard layer [1].

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> model = MODELS.load("gpt-1t")
    >>> layer_parameters(model) == 12 * model.hidden_size**2
    True
    """
    hidden = model.hidden_size
    projections = 2 * hidden * hidden + 2 * hidden * _kv_size(model)
    return projections + _matrices(model) * hidden * _ffn_size(model)


def iteration_flops(model: Model, batch: int) -> IterationFlops:
    """FLOPs of one iteration with selective recomputation.

    For the standard layer: feed-forward 48 B s h^2 l + 6 B s h V, attention 24 B s h^2 l +
    16 B s^2 h l (12 for training, 4 for one recomputed forward pass of the two score products).

    Parameters
    ----------
    model
        The transformer.
    batch
        Global batch, B [sequences].

    References
    ----------
    Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models
    (arXiv:2205.05198), Eq. 8 and appendix A; Wang et al., arXiv:2307.12169, Eq. 10.
    """
    tokens = batch * model.sequence_length
    hidden, layers = model.hidden_size, model.layers
    matrices = _matrices(model) * hidden * _ffn_size(model)
    logits = 6 * tokens * hidden * model.vocabulary
    projections = 2 * hidden * hidden + 2 * hidden * _kv_size(model)
    scores = 2 * tokens * model.sequence_length * hidden * layers
    feed_forward = 6 * tokens * layers * matrices + logits
    training = feed_forward + 6 * tokens * layers * projections + 6 * scores
    return IterationFlops(
        feed_forward=float(feed_forward),
        attention=float(6 * tokens * layers * projections + 8 * scores),
        model=float(training),
    )


def layer_activation_bytes(model: Model) -> int:
    """Activations that one layer stores for one sequence, scores recomputed [B].

    34 s h for the standard layer: attention 11, feed-forward 19, norms 4.

    References
    ----------
    Korthikanti et al., arXiv:2205.05198, section 4.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> model = MODELS.load("gpt-1t")
    >>> layer_activation_bytes(model) == 34 * model.sequence_length * model.hidden_size
    True
    """
    hidden, width = model.hidden_size, _ffn_size(model)
    attention = 7 * hidden + 4 * _kv_size(model)
    # Input and dropout mask take 3 h; each matrix but the last stores its output before and after
    # the activation (a gate adds its product).
    feed_forward = 3 * hidden + 2 * _matrices(model) * width
    return model.sequence_length * (attention + feed_forward + 4 * hidden)


def _kv_size(model: Model) -> int:
    """Width of all key heads together [elements]."""
    return model.hidden_size // model.heads * (model.kv_heads or model.heads)


def _ffn_size(model: Model) -> int:
    return model.ffn_size or 4 * model.hidden_size


def _matrices(model: Model) -> int:
    """Matrices of a feed-forward part: up and down, and a gate where it has one."""
    return 3 if model.gated_ffn else 2


SCORE_BYTES = 5
"""Softmax, its mask and its dropped result, stored without recomputation [B a score]."""


def counted_layer(
    model: Model, sharding: Sharding, *, strategy: Strategy = "1d", variant: Variant = PLAIN
) -> Layer:
    """Attention, feed-forward part and logits of one layer, for many shardings at once.

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
    message = ELEMENT_BYTES * tokens * model.hidden_size
    stored = layer_activation_bytes(model) * b / t
    if variant.recompute == "none":
        stored += SCORE_BYTES * b * model.heads * float(model.sequence_length) ** 2 / t
    parts = (
        _operation("attention", attention, again, message),
        _operation("feed-forward", flops.feed_forward * sequences - logits, 0.0, message),
        _operation("logits", logits, 0.0, None),
    )
    boundary = message / t
    weights = ELEMENT_BYTES * layer_parameters(model) / t
    # The sums are known for the whole layer only; they stand at its first operation.
    whole = replace(parts[0], weight_bytes=weights, activation_bytes=stored)
    tensor = Tensor(tokens / t, model.hidden_size)
    operations = tuple(replace(one, result=tensor) for one in (whole, *parts[1:]))
    return Layer(operations, boundary)


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

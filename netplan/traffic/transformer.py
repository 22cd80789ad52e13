"""What a transformer needs, in closed form: parameters, FLOPs and stored activations.

The sums generalise the standard layer (feed-forward width 4h, one key and value head a query head)
to gated feed-forward parts and grouped-query attention; for the standard layer they are the
published formulas.
"""

from dataclasses import dataclass

from netplan.traffic.models import Model

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
    >>> from netplan.traffic.models import MODELS
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
    >>> from netplan.traffic.models import MODELS
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

"""What one GPU of a server holds, and how many requests it has room for."""

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats
from netplan.performance.serving.plans import ServingPlans
from netplan.workloads.inference import (
    Formats,
    Step,
    cached_bytes,
    embedding_bytes,
    inference_head,
    inference_layer,
)
from netplan.workloads.models import Model

ROOMY = float(2**40)
"""Requests that a cache without bytes has room for [1]."""


class HeldBytes(Struct, frozen=True, eq=False):
    """What one GPU holds of each plan, shape (plans,) [B].

    Parameters
    ----------
    weights
        Of the fullest stage, with embedding or head.
    request
        Cache of one request at its full length.
    """

    weights: Floats
    request: Floats

    def of(self, requests: Amount) -> Floats:
        """Weights and the cache of so many requests of one copy of attention [B]."""
        return self.weights + requests * self.request

    def plus(self, other: "HeldBytes") -> "HeldBytes":
        """What both models of a server hold."""
        return HeldBytes(self.weights + other.weights, self.request + other.request)

    def room(self, memory_bytes: float) -> Floats:
        """Requests of one copy that fit, 0 where weights alone do not [1]."""
        left = memory_bytes - self.weights
        each = np.maximum(self.request, memory_bytes / ROOMY)
        return np.where(left < 0, 0.0, np.floor(np.maximum(left, 0.0) / each))


def held_bytes(model: Model, plans: ServingPlans, formats: Formats, tokens: Amount) -> HeldBytes:
    """What GPUs hold that serve requests of so many tokens, prompt and output together.

    Examples
    --------
    >>> from netplan.performance.serving.plans import serving_plans
    >>> from netplan.workloads.models import MODELS
    >>> model = MODELS.load("llama-3-8b")
    >>> held = held_bytes(model, serving_plans(model, 1, (1,), {}), Formats(), 8192)
    >>> held.weights.round(-7), held.request.round(-6)
    (array([1.606e+10]), array([1.074e+09]))
    """
    cut = plans.cut
    step = Step("decode", 1.0, 1.0, tokens)
    layer = inference_layer(model, cut, step, formats)
    each = np.zeros(plans.count)
    for one in layer.operations:
        each = each + one.share * one.weight_bytes
    stages = plans.pipeline
    first, last = embedding_bytes(model, cut), inference_head(model, cut, step).weight_bytes
    shared = model.tied_embeddings
    ends = np.where(stages > 1, np.maximum(first, last), first if shared else first + last)
    layers = -(-model.layers // stages)
    cache = cached_bytes(model, cut, tokens, formats.cache_bytes) * layers / model.layers
    return HeldBytes(layers * each + ends, cache)

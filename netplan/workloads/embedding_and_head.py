"""The ends of a language model: token embedding at the first stage, head and loss at the last.

Both hold the vocabulary cut over the tensor GPUs, whatever the strategy, and see the tokens of
their context GPU (Shoeybi et al., arXiv:1909.08053, Sec. 3). Their weights are counted apart; a
model that ties them saves one of the two.
"""

from dataclasses import replace

import numpy as np

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.workloads.models import Model
from netplan.workloads.operations import (
    ELEMENT_BYTES,
    Collective,
    Operation,
    Sharding,
    Tensor,
    Work,
    local_sizes,
)
from netplan.workloads.products import Product

LOSS_FLOPS = 5
"""Shift, exponential, sum, quotient and logarithm of the loss [FLOP a logit]."""

STATISTIC_BYTES = 4.0
"""Largest logit and sum of a token travel as 32-bit numbers [B]."""


def embedding(model: Model, sharding: Sharding) -> Operation:
    """Look up the local part of the vocabulary; rows found elsewhere come by reduce_scatter.

    Raises
    ------
    InputError
        If the model has no vocabulary.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> embedding(MODELS.load("gpt-1t"), Sharding.of(1, tensor=8)).weight_bytes
    array([3.2768e+08])
    """
    local = local_sizes(model, sharding)
    words = _local_words(model, sharding)
    message = ELEMENT_BYTES * local.rows * local.hidden
    return Operation(
        "embedding",
        "head",
        ELEMENT_BYTES * words * local.hidden,
        0.0,
        Work(
            moved_bytes=2 * message, collectives=(Collective("reduce_scatter", message, "tensor"),)
        ),
        Work(moved_bytes=2 * message, collectives=(Collective("all_gather", message, "tensor"),)),
        result=Tensor(local.rows / local.tensor, local.hidden),
    )


def lm_head(model: Model, sharding: Sharding) -> Operation:
    """Multiply by the vocabulary and take the loss over the local words.

    Raises
    ------
    InputError
        If the model has no vocabulary.
    """
    local = local_sizes(model, sharding)
    words = _local_words(model, sharding)
    logits = local.rows * words
    message = ELEMENT_BYTES * local.rows * local.hidden
    statistics = Collective("all_reduce", 2 * STATISTIC_BYTES * local.rows, "tensor")
    product = Product("lm-head", "head", local.rows, local.hidden, words)
    whole = product.operation(
        forward=(Collective("all_gather", message, "tensor"), statistics),
        backward=(Collective("reduce_scatter", message, "tensor"),),
    )
    return replace(
        whole,
        activation_bytes=whole.activation_bytes + ELEMENT_BYTES * logits,
        forward=replace(whole.forward, vector_flops=LOSS_FLOPS * logits),
        backward=replace(whole.backward, vector_flops=2 * logits),
    )


def _local_words(model: Model, sharding: Sharding) -> Floats:
    """Words on one GPU; the vocabulary is padded to a multiple of the tensor GPUs."""
    if not model.vocabulary:
        raise InputError(f"{model.name} has no vocabulary: leave out the embedding and the head")
    return (-(-model.vocabulary // sharding.tensor)).astype(np.float64)

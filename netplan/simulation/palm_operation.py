"""One transformer layer as a single operation, as the published PALM code has it.

With a microbatch of B sequences (of all replicas), S tokens, H hidden size, F inner width, A heads,
Nd data and Nm tensor degree, all counts in elements of two bytes:

=============  ====================================================================================
products       4 B S H^2 + 2 B S H F + 2 B S^2 H multiply-adds, over Nd Nm; 2 FLOP each, twice as
               many in the backward pass, three times with recomputation
input, output  i = o = B S H / Nd
weights        w = (4 H^2 + 2 H F) / Nm
between        r = 3 B S H / Nd + (2 B S F + 4 B S H) / (Nd Nm) + 2.5 B S^2 A / (Nd Nm)
all_reduce     i over Nm in each direction; 4 H^2 + 2 H F / Nm over Nd at the end of the iteration
=============  ====================================================================================

What goes to memory depends on what the SRAM holds, s bytes a GPU, on a stage of n layers:

=====================  =======================================  ==================================
                       forward: written, read                   backward: written, read
=====================  =======================================  ==================================
2 n w < s              2 (o + r), 2 (o + r)                     2 (o + r), 4 (o + r)
2 (i + n (o + r)) < s  0, 6 w                                   0, 6 w
else                   c 2 (o + r), c (2 i + 6 w + 2 r),        c 2 (r + i), c (2 i + 6 w + 4 r),
                       c = f k, k = ceil(2 i / s)               c = f^k
=====================  =======================================  ==================================

f is the stationary factor. The optimizer writes and reads some bytes of every weight (Adam 6 and
22). Source: Fang et al., PALM (arXiv:2406.03868), Sec. IV and Algorithm 1, and its code
(github.com/fangjh21/PALM), which differs: one all_reduce a direction where Megatron-LM has two,
4 H^2 that Nm does not divide, and the factor f, which no text explains.
"""

from math import ceil
from typing import Literal

from msgspec import Struct

from netplan.simulation.palm_model import Access
from netplan.workloads.models import Model

HALF = 2
"""Bytes of an element."""
PalmRecompute = Literal["none", "full"]


class Sharing(Struct, frozen=True):
    """What one GPU has of a layer: sequences of a microbatch over all replicas, and degrees [1]."""

    microbatch: int
    data: int
    tensor: int


class LayerOperation(Struct, frozen=True):
    """One layer on one GPU.

    Parameters
    ----------
    flops
        Forward pass [FLOP].
    input_bytes
        Input, output, and what an all_reduce over tensor ranks carries [B].
    gradient_bytes
        What an all_reduce over replicas carries [B].
    forward, backward, update
        Memory traffic of the passes and of the optimizer.
    """

    flops: float
    input_bytes: float
    gradient_bytes: float
    forward: Access
    backward: Access
    update: Access


def layer_operation(
    model: Model,
    share: Sharing,
    *,
    layers: int,
    sram_bytes: float,
    stationary_factor: float,
    update: Access,
) -> LayerOperation:
    """Sizes of one layer on one GPU of a stage.

    Parameters
    ----------
    model, share
        The layer, and what a GPU has of it.
    layers
        Layers of the stage, n [1].
    sram_bytes
        Memory on the chip, s [B].
    stationary_factor
        Share of traffic that remains where something stays on the chip, f [1].
    update
        Memory traffic of the optimizer for one weight.

    Examples
    --------
    T-145B on 24 x 8 GPUs, 288 sequences at a time:

    >>> from netplan.workloads.models import MODELS
    >>> share = Sharing(288, data=24, tensor=8)
    >>> one = layer_operation(
    ...     MODELS.load("t-145b"), share, layers=10, sram_bytes=40e6, stationary_factor=0.5,
    ...     update=Access(6, 22),
    ... )
    >>> one.flops / 1e12, one.input_bytes / 1e6
    (11.441792876544, 603.979776)
    """
    tokens, hidden = share.microbatch * model.sequence_length, model.hidden_size
    inner = model.ffn_size or 4 * hidden
    replicas, ranks = share.data, share.data * share.tensor
    attended = tokens * model.sequence_length
    products = 4 * tokens * hidden**2 + 2 * tokens * hidden * inner + 2 * attended * hidden
    given = tokens * hidden / replicas
    weights = (4 * hidden**2 + 2 * hidden * inner) / share.tensor
    between = 3 * given + (2 * tokens * inner + 4 * tokens * hidden) / ranks
    between += 2.5 * attended * model.heads / ranks
    forward, backward = _accesses(
        (given, weights, between), layers, sram_bytes=sram_bytes, factor=stationary_factor
    )
    return LayerOperation(
        flops=2 * products / ranks,
        input_bytes=HALF * given,
        gradient_bytes=HALF * (4 * hidden**2 + 2 * hidden * inner / share.tensor),
        forward=forward,
        backward=backward,
        update=update.times(weights),
    )


def _accesses(
    sizes: tuple[float, float, float], layers: int, *, sram_bytes: float, factor: float
) -> tuple[Access, Access]:
    """Memory traffic forward and backward, by the table of this module."""
    given, weights, between = sizes
    held = given + between
    if HALF * layers * weights < sram_bytes:
        return Access(HALF * held, HALF * held), Access(HALF * held, 2 * HALF * held)
    if HALF * (given + layers * held) < sram_bytes:
        return Access(0.0, 6 * weights), Access(0.0, 6 * weights)
    fills = ceil(HALF * given / sram_bytes)
    read = HALF * given + 6 * weights
    forward = Access(HALF * held, read + HALF * between)
    backward = Access(HALF * held, read + 2 * HALF * between)
    return forward.times(factor * fills), backward.times(factor**fills)

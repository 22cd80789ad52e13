"""Training software: what it fuses, overlaps and sums, as published runs show it.

Iteration model ``calibrated`` takes one of these files beside the accelerator's ``training`` block.
"""

from typing import Annotated, Literal

from msgspec import Meta

from netplan.catalog import Record, Shelf
from netplan.records import NonNegativeFloat, PositiveFloat, Share
from netplan.workloads.accelerators import AttentionKernel


class Stack(Record, frozen=True, kw_only=True):
    """A training stack, as its catalog file describes it.

    ``vector`` counts the passes over memory of operations without products, against perfectly
    fused kernels. ``tensor_visible`` and ``pipeline_visible`` are the shares of tensor collectives
    and of transfers between stages that nothing hides, ``tensor_visible_without_overlap`` the
    former where the stack's overlap is switched off. ``data`` collectives are ``overlapped`` with
    the passes or ``exposed``. ``layer_s`` is host time that the stack fails to hide, a layer and
    microbatch. ``attention`` lists kernels in order of preference. Gradients and weights travel
    with so many bytes a parameter; under ZeRO 3 with those of ``zero3_``, if given, weights of
    products below bf16 with ``zero3_narrow_gather_bytes``.
    """

    fused: bool
    dropout: bool
    vector: PositiveFloat
    tensor_visible: Share
    tensor_visible_without_overlap: Share | None = None
    pipeline_visible: Share
    data: Literal["overlapped", "exposed"]
    layer_s: NonNegativeFloat = 0.0
    gather_again: bool = False
    attention: Annotated[tuple[AttentionKernel, ...], Meta(min_length=1)]
    gradient_bytes: PositiveFloat
    gather_bytes: PositiveFloat
    zero3_gradient_bytes: PositiveFloat | None = None
    zero3_gather_bytes: PositiveFloat | None = None
    zero3_narrow_gather_bytes: PositiveFloat | None = None
    notes: tuple[str, ...] = ()


STACKS = Shelf("stack", "traffic/stacks", Stack)
DEFAULT_STACK = "megatron-2025"

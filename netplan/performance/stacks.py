"""Training software: what it fuses, overlaps and sums, as published runs show it.

Iteration model ``calibrated`` takes one of these files beside the accelerator's ``training`` block.

Serving software: what its host costs beside kernels, and how prompts share steps with decode.
"""

from typing import Annotated, Literal

from msgspec import Meta

from netplan.catalog import Catalog, Record
from netplan.records import Entry, NonNegativeFloat, PositiveFloat, PositiveShare, Share
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


STACKS = Catalog("stack", "traffic/stacks", Stack)
DEFAULT_STACK = "megatron-2025"


class DirectSum(Entry, frozen=True, kw_only=True):
    """Sums that GPUs of one HB domain form by reading from each other, in one kernel.

    start_s + 2 (n-1)/n D / (efficiency B) of a message D among n of them [s].
    """

    start_s: PositiveFloat
    efficiency: PositiveShare


class ServingStack(Record, frozen=True, kw_only=True):
    """A serving stack, as its catalog file describes it.

    Parameters
    ----------
    step_s, token_s
        Host time of a step of decode: scheduling, and of each token of it: sampling, turning into
        text, sending [s].
    prompt_s
        Host time of a request until its first token: reading, splitting into tokens, returning [s].
    sparse_layer_s
        What a layer with experts adds to a step with prompts: kernels that start one by one, and
        tokens that move into the order of their experts [s].
    transfer_s
        What handing a prompt's cache to another server takes beside its bytes: routing, agreeing,
        registering [s].
    direct_sum
        All_reduces of its own inside of HB domains, taken where they beat the library's.
    chunk_tokens
        Prompt tokens of one step; a step with prompts decodes, too [1].
    burst
        What of the prompts of all concurrent requests one waits for in the mean: 0.05 where each
        slot sees ten requests, the first of which come all at once, more where later ones of equal
        length end together [1].
    decode_wait
        Steps of decode that each step with prompts waits for [1].
    memory_share
        What of the memory weights and cache may fill [1].
    crowded_requests, beyond
        Requests in flight a GPU that most measured points have at most, and by what errors grow
        with more of them, or on chips whose kernels were not measured [1].
    tpot_error, ttft_error
        Relative errors that four of five measured points stay below [1].
    """

    step_s: NonNegativeFloat
    token_s: NonNegativeFloat = 0.0
    prompt_s: NonNegativeFloat
    sparse_layer_s: NonNegativeFloat = 0.0
    transfer_s: NonNegativeFloat = 0.0
    direct_sum: DirectSum | None = None
    chunk_tokens: PositiveFloat
    burst: Share
    decode_wait: NonNegativeFloat
    memory_share: PositiveShare
    crowded_requests: PositiveFloat
    beyond: PositiveFloat
    tpot_error: NonNegativeFloat
    ttft_error: NonNegativeFloat
    notes: tuple[str, ...] = ()


SERVING_STACKS = Catalog("serving-stack", "traffic/serving-stacks", ServingStack)
DEFAULT_SERVING_STACK = "typical-server"
DATAFLOW_SERVING_STACK = "no-host"

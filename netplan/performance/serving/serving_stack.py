"""Serving software: what its host costs beside kernels, and how prompts share steps with decode."""

from netplan.catalog import Record, Shelf
from netplan.records import Entry, NonNegativeFloat, PositiveFloat, PositiveShare, Share


class LayerLaunch(Entry, frozen=True, kw_only=True):
    """Host time of one layer in a step with prompts, whose kernels start one by one [s]."""

    dense: NonNegativeFloat = 0.0
    sparse: NonNegativeFloat = 0.0


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
    step_s
        Host time of a step of decode: scheduling, sampling, returning tokens [s].
    prompt_s
        Host time of a request until its first token: reading, splitting into tokens, returning [s].
    prefill_layer_s
        Host time of the layers of a step with prompts, which no graph of kernels covers.
    direct_sum
        All_reduces of its own inside of HB domains, taken where they beat the library's.
    chunk_tokens
        Prompt tokens of one step; a step with prompts decodes, too [1].
    burst
        What of the prompts of all concurrent requests one waits for in the mean: 0.05 where each
        slot sees ten requests, the first of which come all at once [1].
    decode_wait
        Steps of decode that each step with prompts waits for [1].
    prefill_share
        What of the time of prompts the tokens of other requests wait for [1].
    memory_share
        What of the memory weights and cache may fill [1].
    tpot_error, ttft_error
        Relative errors that four of five measured points stay below [1].
    """

    step_s: NonNegativeFloat
    prompt_s: NonNegativeFloat
    prefill_layer_s: LayerLaunch = LayerLaunch()
    direct_sum: DirectSum | None = None
    chunk_tokens: PositiveFloat
    burst: Share
    decode_wait: NonNegativeFloat
    prefill_share: Share = 1.0
    memory_share: PositiveShare = 0.9
    tpot_error: NonNegativeFloat
    ttft_error: NonNegativeFloat
    notes: tuple[str, ...] = ()


SERVING_STACKS = Shelf("serving-stack", "traffic/serving-stacks", ServingStack)
DEFAULT_SERVING_STACK = "typical-server"
DATAFLOW_SERVING_STACK = "no-host"

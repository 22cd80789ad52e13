"""Training software: what it fuses, overlaps and sums, as published runs show it.

Iteration model ``calibrated`` takes one of these files beside the accelerator's ``training`` block.

What training software holds in memory (`netplan.performance.stack_memory`): its ``memory`` block,
rows of `traffic/stacks/memory.csv`.

Serving software: what its host costs beside kernels, and how prompts share steps with decode.
"""

from collections.abc import Collection
from functools import cache
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, structs

from netplan.catalog import Catalog, Record, shipped_rows
from netplan.inputs.choices import Exchange, ServingFormat, WindowCache
from netplan.records import Entry, NonNegativeFloat, PositiveFloat, PositiveShare, Share
from netplan.workloads.accelerators import Accelerator, AttentionKernel
from netplan.workloads.program import Zero

Keeps = Literal["te", "unfused", "compiled", "torch", "xla"]
"""What layers save for their backward pass: as Transformer Engine, as Megatron-LM of 2022 with
attention that nothing fuses, as torch with compiled or eager norms, as XLA."""

MemoryRow = Literal[
    "megatron",
    "megatron-bridge",
    "megatron-2022",
    "fsdp2-2024",
    "fsdp2-2024-compile",
    "fsdp2",
    "fsdp2-compile",
    "llm-foundry",
    "deepspeed",
    "maxtext",
]


class MemoryOfStack(Entry, frozen=True, kw_only=True):
    """What training software holds in memory: the ``memory`` block of a stack file.

    What a file leaves out, or gives as 0, is that of the ``software``, a row of
    `traffic/stacks/memory.csv` with its source.

    Parameters
    ----------
    software
        Name of the row.
    keeps
        What layers save for their backward pass.
    head_bytes, tensor_head_bytes
        A logit when memory peaks in the loss, and the same where tensor parallel GPUs share the
        vocabulary [B].
    gradient_bytes, optimizer_bytes
        A parameter's gradient; its 32-bit copy and both moments [B].

    Examples
    --------
    >>> memory = MemoryOfStack(software="megatron-bridge")
    >>> memory.keeps, memory.head_bytes, memory.gradient_bytes
    ('te', 4.0, 2.0)
    """

    software: MemoryRow
    keeps: Keeps | None = None
    head_bytes: NonNegativeFloat = 0.0
    tensor_head_bytes: NonNegativeFloat = 0.0
    gradient_bytes: NonNegativeFloat = 0.0
    optimizer_bytes: NonNegativeFloat = 0.0

    def __post_init__(self) -> None:
        """Take from the row what is not given."""
        row = _memory_rows().get(self.software)
        if row is None:
            raise ValueError(
                f"software: got {self.software!r:.60}: use {', '.join(get_args(MemoryRow))}"
            )
        if self.keeps is None:
            structs.force_setattr(self, "keeps", row["keeps"])
        # A head of the file's own counts with tensor parallelism, too.
        given = {"tensor_head_bytes": self.head_bytes}
        for name in self.__struct_fields__[2:]:
            if not getattr(self, name):
                structs.force_setattr(self, name, given.get(name) or float(row[name]))


@cache
def _memory_rows() -> dict[str, dict[str, str]]:
    """Rows of the shipped table by their software."""
    return {row["software"]: row for row in shipped_rows("traffic/stacks/memory.csv")}


class DatedStack(Entry, frozen=True, kw_only=True):
    """What a stack is under software of a date: its passes over memory, and its ``versions``.

    ``vector`` counts the passes of operations without products, against perfectly fused kernels.
    Of your own cluster (`netplan calibrate`) ``tensor_visible`` is the share of tensor collectives
    that nothing hides, in place of that of all stacks; ``experts`` and ``exchange`` are how fast
    grouped products of experts and exchanges of tokens are, over what published runs reach.
    ``versions`` are the releases of which runs were fitted, oldest first, each behind its month.
    """

    vector: PositiveFloat
    tensor_visible: Share | None = None
    experts: PositiveFloat = 1.0
    exchange: PositiveFloat = 1.0
    versions: tuple[tuple[str, str], ...] = ()

    def version_of(self, month: str) -> str:
        """The newest release of which runs were fitted that there was in a month.

        Parameters
        ----------
        month
            YYYY-MM.

        Returns
        -------
        str
            Its number; empty if there was none yet.

        Examples
        --------
        >>> stack = STACKS.load("megatron-2025")
        >>> [stack.dated.version_of(month) for month in ("2024-08", "2026-05", "2026-06")]
        ['', '26.04.01', '26.06']
        """
        return next((name for since, name in reversed(self.versions) if since <= month), "")


class Stack(Record, frozen=True, kw_only=True):
    """A training stack, as its catalog file describes it.

    ``vector`` counts the passes over memory of operations without products, against perfectly
    fused kernels. ``tensor_visible`` and ``pipeline_visible`` are the shares of tensor collectives
    and of transfers between stages that nothing hides, ``tensor_visible_without_overlap`` the
    former where the stack's overlap is switched off. ``data`` collectives are ``overlapped`` with
    the passes or ``exposed``. ``layer_s`` is host time that the stack fails to hide, a layer and
    microbatch. ``attention`` lists kernels in order of preference, ``zero_stage`` is that of its
    runs where none is asked for. Gradients and weights travel with so many bytes a parameter; under
    ZeRO 3 with those of ``zero3_``, if given, weights of products below bf16 with
    ``zero3_narrow_gather_bytes``. ``memory`` is what it holds, ``dated`` what it is under software
    of a date.
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
    zero_stage: Zero | None = None
    gradient_bytes: PositiveFloat
    gather_bytes: PositiveFloat
    zero3_gradient_bytes: PositiveFloat | None = None
    zero3_gather_bytes: PositiveFloat | None = None
    zero3_narrow_gather_bytes: PositiveFloat | None = None
    memory: MemoryOfStack | None = None
    dated: DatedStack | None = None
    notes: tuple[str, ...] = ()


STACKS = Catalog("stack", "traffic/stacks", Stack)
DEFAULT_STACK = "megatron-2025"


def default_stack(accelerator: Accelerator) -> str:
    """The stack that trains on an accelerator where none is asked for.

    Parameters
    ----------
    accelerator
        Its ``memory_software`` names what trains on chips that run other software than GPUs do.

    Returns
    -------
    str
        That software, where it is a stack; else the stack of GPUs.

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> [default_stack(ACCELERATORS.load(name)) for name in ("gb300", "tpu-v7")]
    ['megatron-2025', 'maxtext']
    """
    software = accelerator.memory_software
    return software if software and _is_stack(software) else DEFAULT_STACK


@cache
def _is_stack(name: str) -> bool:
    """Whether a stack that is shipped has this name."""
    return name in STACKS.paths()


class DirectSum(Entry, frozen=True, kw_only=True):
    """Sums that GPUs of one HB domain form by reading from each other, in one kernel.

    start_s + 2 (n-1)/n D / (efficiency B) of a message D among n of them [s].
    """

    start_s: PositiveFloat
    efficiency: PositiveShare


class HostTimes(Entry, frozen=True, kw_only=True):
    """Host times of a serving stack that were fitted with other kernels, and their errors.

    Parameters
    ----------
    step_s, token_s, prompt_s, sparse_layer_s, burst, tpot_error, ttft_error
        As in :class:`ServingStack`.
    """

    step_s: NonNegativeFloat
    token_s: NonNegativeFloat
    prompt_s: NonNegativeFloat
    sparse_layer_s: NonNegativeFloat
    burst: Share
    tpot_error: NonNegativeFloat
    ttft_error: NonNegativeFloat


Engine = Literal["vllm", "sglang", "tensorrt-llm"]
"""Serving engines whose degrees are known."""


class ServingStack(Record, frozen=True, kw_only=True):
    """A serving stack, as its catalog file describes it.

    Parameters
    ----------
    version
        Releases that its times hold for; ``date`` is their month.
    step_s, token_s
        Host time of a step of decode: scheduling, and of each token of it: sampling, turning into
        text, sending [s].
    sparse_step_s
        What a layer with experts adds to a step of decode [s].
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
    exchange
        How copies of attention bring tokens to the experts that they share.
    lockstep, balance
        What of the prompts that the busiest of these copies starts in a step, beyond the mean, all
        wait for [1]; none where the software lets copies start prompts together.
    window_cache
        What layers with windows keep of a request.
    fitted
        Host times that belong to kernels without tables.
    crowded_requests, beyond
        Requests in flight a GPU that most measured points have at most, and by what errors grow
        with more of them, or on chips whose kernels were not measured [1].
    tpot_error, ttft_error
        Relative errors that four of five measured points stay below [1].
    kernels
        Whose fused experts it has, in tables of measured kernels.
    mxfp4_cache
        Numbers of the cache beside weights of mxfp4, on chips that multiply numbers of 4 bits; on
        others they are of 16 bits.
    engine
        Engine whose degrees it runs, of `traffic/serving-stacks/degrees.csv`; any plan without.
    """

    version: str = ""
    step_s: NonNegativeFloat
    token_s: NonNegativeFloat = 0.0
    sparse_step_s: NonNegativeFloat = 0.0
    prompt_s: NonNegativeFloat
    sparse_layer_s: NonNegativeFloat = 0.0
    transfer_s: NonNegativeFloat = 0.0
    direct_sum: DirectSum | None = None
    chunk_tokens: PositiveFloat
    burst: Share
    decode_wait: NonNegativeFloat
    memory_share: PositiveShare
    exchange: Exchange = "gather"
    lockstep: Share = 0.0
    balance: bool = False
    window_cache: WindowCache = "window"
    fitted: HostTimes | None = None
    crowded_requests: PositiveFloat
    beyond: PositiveFloat
    tpot_error: NonNegativeFloat
    ttft_error: NonNegativeFloat
    kernels: str = "vllm"
    mxfp4_cache: ServingFormat = "bf16"
    engine: Engine | None = None
    notes: tuple[str, ...] = ()

    def without_tables(self, given: Collection[str] = (), *, terms: bool = True) -> "ServingStack":
        """The stack beside kernels of closed forms, with the host times that were fitted to these.

        Parameters
        ----------
        given
            Names of values that were given, and stay as they are.
        terms
            Whether it lacks the terms, too, that these host times were fitted without.

        Examples
        --------
        >>> stack = SERVING_STACKS.load("tensorrt-llm").changed(burst=0.5)
        >>> plain = stack.without_tables({"burst"})
        >>> plain.exchange, plain.window_cache, plain.burst, plain.token_s
        ('deepep', 'window', 0.5, 4e-06)
        """
        values = structs.asdict(self.fitted) if self.fitted else {}
        values |= WITHOUT_TABLES if terms else {}
        return self.changed(**{name: values[name] for name in values if name not in given})


WITHOUT_TABLES: dict[str, Any] = {
    "exchange": "deepep",
    "lockstep": 0.0,
    "sparse_step_s": 0.0,
    "window_cache": "window",
}
"""Terms of a serving stack that kernels without tables were fitted without."""


SERVING_STACKS = Catalog("serving-stack", "traffic/serving-stacks", ServingStack, short="stack")
DEFAULT_SERVING_STACK = "typical-server"
DATAFLOW_SERVING_STACK = "no-host"

"""Numbers of iteration model ``calibrated`` under software of a date, as its file has them.

They belong to no single accelerator and no stack: what those reach stands in their own files, under
``training.dated`` (`netplan.workloads.accelerators`) and ``dated`` (`netplan.performance.stacks`).
All were fitted together on published runs (`reports/published/dated-runs.csv`), from the priors of
`traffic/calibrations/dated.yaml`; they trade off against each other, so that none of them is a
measurement.
"""

from netplan.records import Entry, NonNegativeFloat, PositiveFloat, Share


class Grouped(Entry, frozen=True, kw_only=True):
    """Rates of experts' grouped products against those of dense ones [1].

    ``bf16``; ``low`` and ``fused`` below it, the latter where activations and casts are fused;
    ``fp4``; ``tpu``.
    """

    bf16: PositiveFloat
    low: PositiveFloat
    fused: PositiveFloat
    fp4: PositiveFloat
    tpu: PositiveFloat


class MemoryPasses(Entry, frozen=True, kw_only=True):
    """How often rows pass through memory [1].

    ``plain``, ``fused`` and ``tpu``: rows of experts, permuted there and back; ``quant``: their
    casts below bf16; ``router``: its logits; ``scan``: inputs of a Mamba scan.
    """

    plain: PositiveFloat
    fused: PositiveFloat
    tpu: PositiveFloat
    quant: PositiveFloat
    router: PositiveFloat
    scan: PositiveFloat


class AttentionRates(Entry, frozen=True, kw_only=True):
    """Shares of the 16-bit peak that attention reaches on long sequences, and factors of these [1].

    Kernels by their generation; ``latent`` attention, and attention with ``sinks``.
    """

    fa2: PositiveFloat
    cudnn_hopper: PositiveFloat
    cudnn_blackwell: PositiveFloat
    tpu: PositiveFloat
    latent: PositiveFloat
    sinks: PositiveFloat


class TokenExchange(Entry, frozen=True, kw_only=True):
    """What dispatch and combine reach of the links, of the network and of HB domains [1].

    ``a2a_`` as plain all_to_all, ``ep_`` where a token is sent once to each place, which starts in
    ``ep_start_s``; ``visible`` is the share that shows where they are overlapped.
    """

    a2a_network: PositiveFloat
    a2a_hb: PositiveFloat
    ep_network: PositiveFloat
    ep_hb: PositiveFloat
    ep_start_s: NonNegativeFloat
    visible: Share


class DatedHostTimes(Entry, frozen=True, kw_only=True):
    """Time of the host that launches the kernels of a block and microbatch [s], and factors [1].

    ``attention``, of Mamba too; ``experts`` and ``each_expert`` of a GPU beside them [s]. Factors
    of experts under partial ``graphs`` and where they are ``fused``, and of all on ``grace``.
    """

    attention: NonNegativeFloat
    experts: NonNegativeFloat
    each_expert: NonNegativeFloat
    graphs: NonNegativeFloat
    grace: NonNegativeFloat
    fused: NonNegativeFloat


class ByGeneration(Entry, frozen=True, kw_only=True):
    """A number of each generation of GPUs."""

    hopper: float
    blackwell: float


class DenseDrift(ByGeneration, frozen=True, kw_only=True):
    """The same of dense models, which has its own of fp4."""

    blackwell_fp4: float


class Drift(Entry, frozen=True, kw_only=True):
    """By how much software becomes faster a year, 2026.0 = 1, as a logarithm [1]."""

    dense: DenseDrift
    moe: ByGeneration
    hybrid: ByGeneration


class DatedJitter(Entry, frozen=True, kw_only=True):
    """Growth of the time with a doubling of the GPUs above 8, in bf16 and below it [1]."""

    bf16: NonNegativeFloat
    low: NonNegativeFloat


class DatedNumbers(Entry, frozen=True, kw_only=True):
    """What belongs to no accelerator and no stack.

    ``kernel_s``, ``contention``, ``iteration_s``, ``half_recompute`` are what they are without a
    date, ``tensor_visible`` and ``wave`` those of all stacks and accelerators together. ``mxfp8``
    and ``torch_fp8`` are factors of the rate of products, of scales a block and of torch's stacks
    below bf16. ``pad_rows`` are lost to tiles of each expert, ``imbalance`` is the load of the
    busiest GPU where routing is balanced by force. ``scan`` has shares of the 16-bit peak.
    """

    kernel_s: NonNegativeFloat
    contention: Share
    wave: NonNegativeFloat
    tensor_visible: Share
    iteration_s: NonNegativeFloat
    half_recompute: PositiveFloat
    mxfp8: PositiveFloat
    torch_fp8: PositiveFloat
    grouped: Grouped
    pad_rows: NonNegativeFloat
    imbalance: PositiveFloat
    passes: MemoryPasses
    attention: AttentionRates
    exchange: TokenExchange
    host: DatedHostTimes
    scan: ByGeneration
    drift: Drift
    jitter: DatedJitter

"""From names and numbers to what is served: formats of a model on a chip, levels, memory."""

from collections.abc import Sequence

from msgspec import Struct

from netplan.inputs.choices import KernelSource, Scheme, ServingFormat
from netplan.levels import Level
from netplan.performance.serving.kernel_times import ServingKernels
from netplan.performance.serving.outcomes import Requests, ServingCase
from netplan.performance.serving.server import ServingTimes, Speculated
from netplan.performance.stacks import ServingStack
from netplan.records import replace
from netplan.traffic.hierarchy import CollectiveNetwork, Communication
from netplan.traffic.measured_links import MeasuredLinks
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.inference import Formats, NumberFormat
from netplan.workloads.models import Model
from netplan.workloads.precision import (
    WEIGHT_BYTES,
    published_precision,
    serving_format,
    serving_precision,
)

KERNELS_OF_FP8 = {"block": "fp8-block", "tensor": "fp8"}
"""What tables call experts of 8-bit weights, by what shares a scale."""
FOUR_BITS = 1.0
"""Weights of fewer bytes than this leave attention of models with experts in 16 bits [B]."""


class ServingSoftware(Struct, frozen=True):
    """Stack with the values of it that were given, kernels, links; None takes what is usual."""

    stack: ServingStack
    kernels: KernelSource | None = None
    links: MeasuredLinks | None = None
    drafts: "Drafts | None" = None
    given: frozenset[str] = frozenset()
    older_months: int = 0

    def kernels_of(self, chip: Accelerator) -> ServingKernels:
        """Kernels of a chip."""
        return ServingKernels.of(chip, self.kernels, self.stack.kernels)


class Drafts(Struct, frozen=True):
    """A model that drafts tokens, and how; whether it is a layer of the served one's ``own``."""

    model: Model
    formats: Formats
    window: int
    acceptance: float
    scheme: Scheme = "sequence"
    own: bool = False


def serving_case(
    chip: Accelerator,
    model: Model,
    levels: Sequence[Level],
    requests: Requests,
    formats: Formats,
    software: ServingSoftware,
) -> ServingCase:
    """What is served on levels of bandwidth.

    Measured kernels take measured collectives with them, a roofline rings at the links' rates.
    """
    kernels = software.kernels_of(chip)
    links = (software.links or MeasuredLinks.of(chip)) if kernels.source != "roofline" else None
    network = CollectiveNetwork(tuple(levels), Communication("flat_ring", links=links, direct=True))
    stack, drafts = software.stack, software.drafts
    if not kernels.tabled:
        stack = stack.without_tables(software.given, terms=kernels.source != "measured")
    direct = stack.direct_sum
    formats = replace(formats, window_cache=stack.window_cache, exchange=stack.exchange)
    return ServingCase(
        served=ServingTimes(model, formats, kernels, network, direct),
        speculated=Speculated(
            ServingTimes(
                drafts.model, formats if drafts.own else drafts.formats, *(kernels, network, direct)
            ),
            *(drafts.window, drafts.acceptance, drafts.scheme, drafts.own),
        )
        if drafts
        else None,
        stack=stack,
        requests=requests,
        memory_bytes=chip.memory_bytes,
        memory_bytes_per_s=chip.memory_bytes_per_s,
        expanded_bytes=chip.expanded_bytes or 0.0,
        expanded_bytes_per_s=chip.expanded_bytes_per_s or 0.0,
        older_months=software.older_months,
    )


def formats_of(
    chip: Accelerator,
    model: Model,
    precision: str,
    cache: str | None = None,
    software: ServingSoftware | None = None,
) -> Formats:
    """Numbers of a served model.

    Weights of four bits are those of feed-forward parts alone where the model has experts, as in
    published checkpoints; the rest stays in 16 bits. The cache is of 8 bits where weights are of 8
    or of floating 4, unless told otherwise. By measured kernels of a ``software`` a model whose
    experts are published in mxfp4 has those where weights of 8 or of floating 4 bits are asked for.

    Raises
    ------
    InputError
        If there is no such format.

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> h100 = ACCELERATORS.load("h100-80gb")
    >>> served = formats_of(h100, MODELS.load("deepseek-r1"), "fp4")
    >>> number = served.feed_forward
    >>> number.precision, number.weight_bytes, served.attention.weight_bytes
    ('fp8', 0.5625, 2.0)
    >>> from netplan.performance.stacks import SERVING_STACKS
    >>> software = ServingSoftware(SERVING_STACKS.load("tensorrt-llm"))
    >>> served = formats_of(h100, MODELS.load("gpt-oss-120b"), "fp8", software=software)
    >>> served.feed_forward.kernel, served.feed_forward.weight_bytes, served.cache_bytes
    ('mxfp4-w4a16', 0.53125, 2.0)
    """
    served = serving_precision(chip, precision)
    usual: ServingFormat = "fp8" if served.asked in {"fp8", "fp4"} else "bf16"
    kernel: str = served.asked
    measured = software is not None and software.kernels_of(chip).source == "measured"
    if software is not None and measured and as_published(model, precision):
        served = published_precision(chip, model.name)
        computes = "fp4" in chip.narrow_flops_per_s
        kernel = "mxfp4-w4a8" if computes else "mxfp4-w4a16"
        usual = software.stack.mxfp4_cache if computes else "bf16"
    elif kernel == "fp8" and model.experts is not None:
        stack = software.stack.name if software else ""
        of_tensor = stack in model.experts.tensor_scales_on
        kernel = KERNELS_OF_FP8["tensor" if of_tensor else model.experts.scales]
    narrow = NumberFormat(served.compute, served.weight_bytes, served.asked, kernel)
    wide = served.weight_bytes < FOUR_BITS and model.experts is not None
    stored = serving_format(usual if cache is None else cache)
    cache_bytes = WEIGHT_BYTES[stored]
    return Formats(NumberFormat() if wide else narrow, narrow, cache_bytes)


def as_published(model: Model, precision: str) -> bool:
    """Whether such weights are those that the model's publisher made."""
    return model.weights is not None and serving_format(precision) in {"fp8", "fp4"}


def domain_levels(chip: Accelerator, gpus: int) -> tuple[Level, Level]:
    """Levels of GPUs that fill one HB domain or a part of it, or whole domains on a network."""
    members = min(chip.hb_size, gpus)
    domain = Level("switch", members, chip.hb_bytes_per_s, step_latency_s=chip.hb_latency_s)
    network = Level(
        "switch",
        -(-gpus // members),
        chip.network_bytes_per_s,
        step_latency_s=chip.network_latency_s,
    )
    return domain, network

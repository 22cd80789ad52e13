"""From names and numbers to what is served: formats of a model on a chip, levels, memory."""

from collections.abc import Sequence

from msgspec import Struct

from netplan.inputs.choices import KernelSource, Scheme
from netplan.levels import Level
from netplan.performance.serving.kernel_times import ServingKernels
from netplan.performance.serving.outcomes import Requests, ServingCase
from netplan.performance.serving.server import ServingTimes, Speculated
from netplan.performance.stacks import ServingStack
from netplan.traffic.hierarchy import CollectiveNetwork, Communication
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.inference import Formats, NumberFormat
from netplan.workloads.measured_links import Links
from netplan.workloads.models import Model
from netplan.workloads.precision import WEIGHT_BYTES, serving_format, serving_precision

FOUR_BITS = 1.0
"""Weights of fewer bytes than this leave attention of models with experts in 16 bits [B]."""


class Software(Struct, frozen=True):
    """Stack, kernels, and numbers of the cache; None takes what is usual."""

    stack: ServingStack
    kernels: KernelSource | None = None
    links: Links | None = None
    drafts: "Drafts | None" = None


class Drafts(Struct, frozen=True):
    """A model that drafts tokens, and how."""

    model: Model
    formats: Formats
    window: int
    acceptance: float
    scheme: Scheme = "sequence"


def serving_case(
    chip: Accelerator,
    model: Model,
    levels: Sequence[Level],
    requests: Requests,
    formats: Formats,
    software: Software,
) -> ServingCase:
    """What is served on levels of bandwidth.

    Measured kernels take measured collectives with them, a roofline rings at the links' rates.
    """
    kernels = ServingKernels.of(chip, software.kernels)
    links = (software.links or Links.of(chip)) if kernels.source == "measured" else None
    network = CollectiveNetwork(tuple(levels), Communication("flat_ring", links=links, direct=True))
    direct, drafts = software.stack.direct_sum, software.drafts
    return ServingCase(
        served=ServingTimes(model, formats, kernels, network, direct),
        speculated=Speculated(
            ServingTimes(drafts.model, drafts.formats, kernels, network, direct),
            *(drafts.window, drafts.acceptance, drafts.scheme),
        )
        if drafts
        else None,
        stack=software.stack,
        requests=requests,
        memory_bytes=chip.memory_bytes,
        memory_bytes_per_s=chip.memory_bytes_per_s,
        expanded_bytes=chip.expanded_bytes or 0.0,
        expanded_bytes_per_s=chip.expanded_bytes_per_s or 0.0,
    )


def formats_of(
    chip: Accelerator, model: Model, precision: str, cache: str | None = None
) -> Formats:
    """Numbers of a served model.

    Weights of four bits are those of feed-forward parts alone where the model has experts, as in
    published checkpoints; the rest stays in 16 bits. The cache is of 8 bits where weights are of 8
    or of floating 4, unless told otherwise.

    Raises
    ------
    InputError
        If there is no such format.

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> found = formats_of(ACCELERATORS.load("h100-80gb"), MODELS.load("deepseek-r1"), "fp4")
    >>> found.feed_forward.precision, found.feed_forward.weight_bytes, found.attention.weight_bytes
    ('fp8', 0.5625, 2.0)
    """
    served = serving_precision(chip, precision)
    narrow = NumberFormat(served.compute, served.weight_bytes, served.asked)
    wide = served.weight_bytes < FOUR_BITS and model.experts is not None
    usual = "fp8" if served.asked in ("fp8", "fp4") else "bf16"
    stored = serving_format(usual if cache is None else cache)
    cache_bytes = WEIGHT_BYTES[stored]
    return Formats(NumberFormat() if wide else narrow, narrow, cache_bytes)


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

"""What was measured of kernels: rates of single GPUs, and what stands for those without data.

The figures are fits to measured tables (AIConfigurator 0.12.0 of NVIDIA, Apache-2.0), one set a GPU
in its accelerator file, with the peaks that they are shares of. A GPU without one has the medians
of those that have, and a wider error.
"""

from typing import Any, Literal, Self, TypeVar

import numpy as np
from msgspec import field

from netplan import records
from netplan.arrays import Amount
from netplan.catalog import Catalog, Record, user_roots
from netplan.errors import InputError
from netplan.inputs.choices import Precision

AttentionKind = Literal["attention", "generation"]
KernelKind = Literal["products", "experts", AttentionKind]
ExchangePhase = Literal["dispatch", "combine"]
ExchangeKind = Literal["normal", "low-latency", "rack"]


TABLES = {"corrections": "", "expert_corrections": "-experts", "generation_corrections": "-tokens"}
"""Keys of tables of corrections, and how their files end after the accelerator's name."""


MeasuredT = TypeVar("MeasuredT", bound=records.Entry)
KernelT = TypeVar("KernelT", "MeasuredProduct", "MeasuredExperts", "MeasuredAttention")


def with_rates(
    kind: type[MeasuredT], shares: records.Entry, peak_flops_per_s: float, memory_bytes_per_s: float
) -> MeasuredT:
    """Shares of a kernel with the rates that they are of [FLOP/s, B/s]."""
    rates = {"peak_flops_per_s": peak_flops_per_s, "memory_bytes_per_s": memory_bytes_per_s}
    return kind(**records.asdict(shares) | rates)


def _slowed(rates: KernelT, speed: float) -> KernelT:
    """Rates of a kernel with a share of their peak [1]."""
    return rates.changed(peak_flops_per_s=speed * rates.peak_flops_per_s)


class ProductShares(records.Entry, frozen=True, kw_only=True):
    """Matrix products of one precision, as shares of rates that stand elsewhere.

    FLOPs and bytes together take the ``hypot`` of both times, or their ``sum``. ``error`` is the
    mean error on large products that were not fitted, with corrections where there are some.
    """

    kernel_latency_s: records.NonNegativeFloat
    efficiency: records.PositiveShare
    memory_efficiency: records.PositiveShare
    combine: Literal["hypot", "sum"] = "hypot"
    error: records.NonNegativeFloat


class MeasuredProduct(ProductShares, frozen=True, kw_only=True):
    """Matrix products of one precision as they were measured, with the rates of their shares."""

    peak_flops_per_s: records.PositiveFloat
    memory_bytes_per_s: records.PositiveFloat


class ExpertShares(ProductShares, frozen=True, kw_only=True):
    """Fused experts of one precision, as shares of rates that stand elsewhere.

    Rows of the whole expert group are read or written ``group_passes`` times by each of its GPUs,
    whichever of them computes a row.
    """

    group_passes: records.NonNegativeFloat


class MeasuredExperts(MeasuredProduct, frozen=True, kw_only=True):
    """Fused experts of one precision as they were measured, with the rates of their shares."""

    group_passes: records.NonNegativeFloat


class AttentionShares(records.Entry, frozen=True, kw_only=True):
    """Attention in one kernel, as shares of rates that stand elsewhere.

    Blocks of 128 queries fill ``processors`` in waves, of which an unfilled one costs
    ``wave_share``; heads narrower than 128 cost (128 / q)^``head_exponent``, short sequences as if
    ``ramp_tokens`` longer. ``sharpness`` is the norm that joins FLOPs and bytes. That of tokens
    that are generated one by one has an ``efficiency`` above 1 where memory hides it.
    """

    kernel_latency_s: records.NonNegativeFloat
    efficiency: records.PositiveFloat
    memory_efficiency: records.PositiveShare
    sharpness: records.PositiveFloat
    head_exponent: records.NonNegativeFloat
    processors: records.PositiveInt = 1
    wave_share: records.NonNegativeFloat
    ramp_tokens: records.NonNegativeFloat = 0.0
    backward_efficiency: records.PositiveShare = 0.8
    error: records.NonNegativeFloat


class MeasuredAttention(AttentionShares, frozen=True, kw_only=True):
    """Attention as it was measured, with the rates of its shares."""

    peak_flops_per_s: records.PositiveFloat
    memory_bytes_per_s: records.PositiveFloat


class MeasuredRates(records.Entry, frozen=True, kw_only=True):
    """Kernels and links of an accelerator as they were measured one by one.

    ``attention`` is that of whole sequences, ``generation`` that of one new token each.
    ``latent`` stands in for ``generation`` of latent attention where kernels are timed by tables:
    of shapes that memory bounds alone, another figure says little of it.
    ``collectives`` names the record of its links, ``corrections`` the table beside the file by
    which products of some precisions are corrected (`netplan.workloads.corrections`); fused
    ``experts`` and generated tokens have tables of their own.
    """

    source: str
    date: str
    products: dict[Precision, MeasuredProduct] = field(default_factory=dict)
    experts: dict[Precision, MeasuredExperts] = field(default_factory=dict)
    attention: MeasuredAttention | None = None
    generation: MeasuredAttention | None = None
    latent: MeasuredAttention | None = None
    collectives: str = ""
    corrections: str = ""
    expert_corrections: str = ""
    generation_corrections: str = ""

    @property
    def tables(self) -> dict[str, str]:
        """Tables of corrections that there are, by their keys."""
        return {key: table for key in TABLES if (table := getattr(self, key))}

    def of_attention(self, kernel: AttentionKind) -> MeasuredAttention | None:
        """Attention in one of its kernels, if that was measured."""
        return self.attention if kernel == "attention" else self.generation

    def slowed(self, speed: float) -> Self:
        """The same of a GPU that computes at a share of its speed [1]; memory keeps its rate."""
        kernels: dict[str, Any] = {
            kind: {precision: _slowed(rates, speed) for precision, rates in known.items()}
            for kind, known in (("products", self.products), ("experts", self.experts))
        }
        for kind in ("attention", "generation", "latent"):
            if alone := getattr(self, kind):
                kernels[kind] = _slowed(alone, speed)
        return self.changed(**kernels)


class KernelTables(records.Entry, frozen=True, kw_only=True):
    """Tables of measured kernels of an accelerator, by their names in `traffic/kernel-tables`.

    ``speed`` is what the accelerator computes at of that which was measured, under a power cap [1];
    files leave it out.
    """

    products: str = ""
    experts: str = ""
    latent: str = ""
    speed: records.PositiveShare = 1.0

    @property
    def named(self) -> dict[str, str]:
        """Tables that there are, by their keys."""
        kinds = ("products", "experts", "latent")
        return {kind: name for kind in kinds if (name := getattr(self, kind))}


class ExchangeRates(records.Entry, frozen=True, kw_only=True):
    """One phase of an expert exchange: its latency, and shares of the bandwidths of a GPU."""

    latency_s: records.NonNegativeFloat
    network_efficiency: records.PositiveShare = 1.0
    hb_efficiency: records.PositiveShare
    error: records.NonNegativeFloat


class PooledRates(Record, frozen=True, kw_only=True):
    """What is known of kernels beyond a single GPU.

    ``products``, ``experts``, ``attention`` and ``generation`` stand for GPUs without figures of
    their own.
    Their ``error`` is that of parts of the ``maker`` whose GPUs were measured, ``strangers`` those
    of all others. Operations without products have ``vector_latency_s``; small products inside of
    other kernels reach ``inner_product_share`` of the peak.
    """

    maker: str
    products: ProductShares
    experts: ExpertShares
    attention: AttentionShares
    generation: AttentionShares
    strangers: dict[KernelKind, records.NonNegativeFloat]
    inner_product_share: records.PositiveShare
    vector_latency_s: records.NonNegativeFloat
    expert_exchange: dict[ExchangeKind, dict[ExchangePhase, ExchangeRates]]
    notes: tuple[str, ...] = ()

    def of_attention(self, kernel: AttentionKind) -> AttentionShares:
        """Attention in one of its kernels."""
        return self.attention if kernel == "attention" else self.generation

    def error(self, kernel: KernelKind, title: str) -> float:
        """Stated error of a kernel on a part of such a title [1]."""
        if not title.startswith(self.maker):
            return self.strangers[kernel]
        if kernel == "products":
            return self.products.error
        return self.experts.error if kernel == "experts" else self.of_attention(kernel).error


KERNELS = Catalog("kernels", "traffic/kernels", PooledRates)


def pooled() -> PooledRates:
    """What is known of kernels beyond a single GPU, as the catalogs have it."""
    return KERNELS.load("median-gpu", user_roots())


def check_sizes(of: str, **sizes: Amount) -> None:
    """Refuse sizes of a kernel that are none, with the first of them.

    Raises
    ------
    InputError
        If one is 0, negative or infinite.

    Examples
    --------
    >>> check_sizes("a product", m=8, n=np.array([8.0, 0.0]))
    Traceback (most recent call last):
    netplan.errors.InputError: n of a product is 0: sizes are finite and above 0
    """
    for name, size in sizes.items():
        numbers = np.ravel(size)
        wrong = numbers[~((numbers > 0) & np.isfinite(numbers))]
        if len(wrong):
            raise InputError(f"{name} of {of} is {wrong[0]:g}: sizes are finite and above 0")

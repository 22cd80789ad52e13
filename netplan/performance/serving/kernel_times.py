"""How long operations of a served model take on one GPU: as measured, or by a roofline.

``measured`` kernels are those of `netplan.workloads.kernels`: products with their tables of
corrections, attention of prompts and of generated tokens, fused experts. Other operations wait 2 us
and for their bytes. ``roofline`` takes the longer of FLOPs at the peak and bytes at the memory's
bandwidth (DFModel, arXiv:2412.16432, Sec. VIII); dataflow chips, which stream weights through fused
kernels, take it unless told otherwise. GPUs without kernels of their own take medians of others.

Times never fall with the rows of a product: where a table of corrections dips, what fewer rows took
counts.
"""

from typing import NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Bools, Floats
from netplan.inputs.choices import KernelSource, Precision
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.kernels import (
    CORRECTED,
    attention_parts_s,
    attention_rates,
    fused_experts_time_s,
    generation_time_s,
    latent_generation_time_s,
    product_parts_s,
    product_rates,
    product_time_s,
)
from netplan.workloads.measured_rates import MeasuredProduct, pooled
from netplan.workloads.operations import AttentionShape, Operation, Shape
from netplan.workloads.precision import NUMBER_BYTES

ROWS = np.array([1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 2048.0, 4096.0, 16384.0])
"""Rows at which tables of corrections have entries, and a dip may begin [1]."""


class KernelTime(NamedTuple):
    """Time of an operation, and what FLOPs and bytes alone take at whole rates [s]."""

    seconds: Floats
    flops_s: Floats
    bytes_s: Floats

    @property
    def computes(self) -> Bools:
        """Whether FLOPs take longer than bytes."""
        return self.flops_s > self.bytes_s


class ServingKernels(Struct, frozen=True):
    """Kernels of one accelerator, of which ``source`` says what is known.

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> ServingKernels.of(ACCELERATORS.load("sn40l")).source
    'roofline'
    """

    accelerator: Accelerator
    source: KernelSource

    @classmethod
    def of(cls, accelerator: Accelerator, source: KernelSource | None = None) -> "ServingKernels":
        """Measured kernels, a roofline for dataflow chips, unless one of both is asked for."""
        fused = accelerator.execution == "fused"
        return cls(accelerator, source or ("roofline" if fused else "measured"))

    @property
    def fitted(self) -> bool:
        """Whether the accelerator's own kernels were measured."""
        known = self.accelerator.measured
        return self.source == "measured" and known is not None and bool(known.products)

    def time(self, operation: Operation, cache_bytes: float) -> KernelTime:
        """Time of the forward pass of an operation, without its collectives.

        A number of the cache takes ``cache_bytes``.
        """
        work, chip = operation.forward, self.accelerator
        peaks: dict[Precision, float] = {"bf16": chip.tensor_flops_per_s, **chip.narrow_flops_per_s}
        flops_s = np.asarray(work.tensor_flops) / peaks[operation.precision]
        bytes_s = np.asarray(work.moved_bytes) / chip.memory_bytes_per_s
        seconds: Amount
        if self.source == "roofline":
            seconds = np.maximum(flops_s, bytes_s)
        elif operation.shapes:
            seconds = self._product_s(operation)
        elif operation.experts is not None:
            routed = operation.experts
            sizes = routed.tokens, routed.shape
            seconds = fused_experts_time_s(chip, routed.stored, *sizes, routing="random")
        elif operation.attention is not None:
            seconds = self._attention_s(operation.attention, cache_bytes)
        else:
            seconds = self._vector_s(operation)
        return KernelTime(np.asarray(seconds, dtype=np.float64), flops_s, bytes_s)

    def _product_s(self, operation: Operation) -> Amount:
        """Products of one shape; narrower weights than those of the product move fewer bytes."""
        (shape,), precision = operation.shapes, operation.precision
        rates, work = self._rates(precision), operation.forward
        busy_s, waiting_s = product_parts_s(rates, work.tensor_flops, work.moved_bytes)
        if precision != "bf16" and not self._measured(precision):
            return busy_s + waiting_s
        measured_s = self._rising_s(precision, shape)
        saved = NUMBER_BYTES[precision] * shape.k * shape.n - operation.weight_bytes
        if not np.any(saved > 0):
            return measured_s
        wide_s = sum(product_parts_s(rates, work.tensor_flops, work.moved_bytes + saved))
        return measured_s * (busy_s + waiting_s) / wide_s

    def _rising_s(self, precision: Precision, shape: Shape) -> Floats:
        """Measured products, no faster than those of the same matrix with fewer rows."""
        chip = self.accelerator
        m, n, k = (np.asarray(size) for size in (shape.m, shape.n, shape.k))
        own_s = np.asarray(product_time_s(chip, precision, m, n, k))
        if precision not in CORRECTED:
            return own_s
        matrices, which = np.unique(n + 1j * k, return_inverse=True)
        steps = product_time_s(chip, precision, ROWS[:, None], matrices.real, matrices.imag)
        fewer_s = np.maximum.accumulate(steps, axis=0)
        row = np.maximum(np.searchsorted(ROWS, m, side="right") - 1, 0)
        rising_s: Floats = np.maximum(own_s, fewer_s[row, which.reshape(np.shape(n + k))])
        return rising_s

    def _measured(self, precision: Precision) -> bool:
        """Whether products of a precision were measured on the accelerator."""
        known = self.accelerator.measured
        return known is not None and precision in known.products

    def _rates(self, precision: Precision) -> MeasuredProduct:
        """Rates of products; of narrow ones that nobody measured 16-bit shares of their peak."""
        chip = self.accelerator
        if precision == "bf16" or self._measured(precision):
            return product_rates(chip, precision)
        wide = product_rates(chip, "bf16")
        return wide.changed(peak_flops_per_s=chip.narrow_flops_per_s[precision])

    def _attention_s(self, shape: AttentionShape, cache_bytes: float) -> Amount:
        """Attention of prompts, of generated tokens, or to latent vectors that all heads share."""
        chip = self.accelerator
        if shape.causal:
            busy_s, waiting_s = attention_parts_s(attention_rates(chip), shape)
            return busy_s + waiting_s
        seen = shape.keys if shape.window is None else np.minimum(shape.window, shape.keys)
        heads = shape.heads * shape.queries
        if shape.latent_rank is not None:
            rotary = shape.head_size - shape.latent_rank
            latent = (chip, shape.sequences, seen, heads, shape.latent_rank, rotary)
            return latent_generation_time_s(*latent, kv_bytes=cache_bytes)
        plain = (chip, shape.sequences, seen, heads, shape.kv_heads, shape.head_size)
        return generation_time_s(*plain, kv_bytes=cache_bytes)

    def _vector_s(self, operation: Operation) -> Amount:
        """Operations without products of weights: a latency, and their bytes or FLOPs."""
        rates = product_rates(self.accelerator, "bf16")
        work = operation.forward
        bytes_s = work.moved_bytes / (rates.memory_efficiency * rates.memory_bytes_per_s)
        flops_s = work.tensor_flops / (pooled().inner_product_share * rates.peak_flops_per_s)
        return pooled().vector_latency_s + np.maximum(flops_s, bytes_s)

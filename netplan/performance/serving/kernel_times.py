"""How long operations of a served model take on one GPU: as measured, or by a roofline.

``fitted`` kernels are those of `netplan.workloads.kernels`: products with their tables of
corrections, attention of prompts and of generated tokens, fused experts. Other operations wait 2 us
and for their bytes. ``measured`` ones are the same, but products, fused experts and latent
attention by tables of measured times where the accelerator has some
(`netplan.workloads.kernel_tables`). ``roofline`` takes the longer of FLOPs at the peak and bytes at
the memory's bandwidth (DFModel, arXiv:2412.16432, Sec. VIII); dataflow chips, which stream weights
through fused kernels, take it unless told otherwise. GPUs without kernels of their own take medians
of others.

Times never fall with the rows of a product: where a table of corrections dips, what fewer rows took
counts.
"""

from typing import NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Bools, Floats
from netplan.inputs.choices import KernelSource, Precision, TimeOrigin
from netplan.records import replace
from netplan.workloads import kernel_tables, kernels
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.measured_rates import pooled
from netplan.workloads.operations import AttentionShape, Operation, ProductShape, RoutedTokens
from netplan.workloads.precision import NUMBER_BYTES

SKEWED = "power_law_1.01"
"""Tokens on experts in tables, a little uneven."""
LATENT_CACHES = {2.0: "bfloat16", 1.0: "fp8"}
"""Formats of the cache in tables of latent attention, by bytes of a number."""
ROWS = np.array([1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 2048.0, 4096.0, 16384.0])
"""Rows at which tables of corrections have entries, and a dip may begin [1]."""


class KernelTime(NamedTuple):
    """Time of an operation, what FLOPs and bytes alone take at whole rates [s], and its origin."""

    seconds: Floats
    flops_s: Floats
    bytes_s: Floats
    origin: TimeOrigin = "form"

    @property
    def computes(self) -> Bools:
        """Whether FLOPs take longer than bytes."""
        return self.flops_s > self.bytes_s


class ServingKernels(Struct, frozen=True):
    """Kernels of one accelerator, of which ``source`` says what is known.

    Tables have the fused experts of a ``stack``, at a ``distribution`` of tokens on experts.

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> ServingKernels.of(ACCELERATORS.load("sn40l")).source
    'roofline'
    """

    accelerator: Accelerator
    source: KernelSource
    stack: str = "vllm"
    distribution: str = SKEWED

    @classmethod
    def of(
        cls, accelerator: Accelerator, source: KernelSource | None = None, stack: str = "vllm"
    ) -> "ServingKernels":
        """Measured kernels, a roofline for dataflow chips, unless others are asked for."""
        fused = accelerator.execution == "fused"
        chosen: KernelSource = source or ("roofline" if fused else "measured")
        return cls(accelerator, chosen, stack)

    @property
    def is_measured(self) -> bool:
        """Whether the accelerator's own kernels were measured."""
        known = self.accelerator.measured
        return self.source != "roofline" and known is not None and bool(known.products)

    @property
    def tabled(self) -> bool:
        """Whether tables count, of what they have."""
        return self.source == "measured" and self.accelerator.tables is not None

    @property
    def words(self) -> str:
        """What times rest on, for people."""
        if self.source != "measured":
            return f"{self.source} kernels"
        measured = self.is_measured or self.tabled
        return "measured kernels" if measured else "kernels as measured on others"

    def time(self, operation: Operation, cache_bytes: float) -> KernelTime:
        """Time of the forward pass of an operation, without its collectives.

        A number of the cache takes ``cache_bytes``.
        """
        work, chip = operation.forward, self.accelerator
        peaks = chip.peaks_flops_per_s
        flops_s = np.asarray(work.tensor_flops) / peaks[operation.precision]
        bytes_s = np.asarray(work.moved_bytes) / chip.memory_bytes_per_s
        seconds, origin = self._timed(operation, cache_bytes, np.maximum(flops_s, bytes_s))
        return KernelTime(np.asarray(seconds, dtype=np.float64), flops_s, bytes_s, origin)

    def _timed(
        self, operation: Operation, cache_bytes: float, whole_s: Amount
    ) -> tuple[Amount, TimeOrigin]:
        """Time of an operation, of which a roofline says ``whole_s``, and where it is from [s]."""
        if self.source == "roofline":
            return whole_s, "form"
        if operation.shapes:
            return self._product_s(operation)
        if operation.experts is not None:
            return self._experts_s(operation.experts, operation.precision)
        if operation.attention is not None:
            return self._attention_s(operation.attention, cache_bytes)
        rates, work = kernels.product_rates(self.accelerator, "bf16"), operation.forward
        bytes_s = work.moved_bytes / (rates.memory_efficiency * rates.memory_bytes_per_s)
        flops_s = work.tensor_flops / (pooled().inner_product_share * rates.peak_flops_per_s)
        return pooled().vector_latency_s + np.maximum(flops_s, bytes_s), "form"

    def _experts_s(self, routed: RoutedTokens, precision: Precision) -> tuple[Amount, TimeOrigin]:
        """Routed experts, by a table of the stack's kernel where there is one.

        Those that are loaded unevenly take so many times what the same rows have as the busiest GPU
        has rows over the mean, so that even shares change nothing. Rows of even tokens are no base:
        tables have them up to 2.3 times as slow as a little uneven ones (vLLM, 32 groups of
        DeepSeek-R1 on H200) or 2.6 times as fast (TensorRT-LLM).
        """
        chip, tokens, shape = self.accelerator, routed.tokens, routed.shape
        computed = precision, routed.weight_bytes
        if self.tabled:
            kernel = kernel_tables.ExpertKernel(
                self.stack, routed.kernel, self.distribution, *computed
            )
            even = replace(shape, load=None)
            by_table = kernel_tables.expert_table_s(chip, kernel, np.asarray(tokens), even)
            if by_table is not None:
                seconds, origin = by_table
                times = 1.0 if shape.load is None else shape.load.imbalance(shape.expert)
                return seconds * times, origin
        return kernels.experts_computed_s(chip, *computed, tokens, shape, routing="random"), "form"

    def _product_s(self, operation: Operation) -> tuple[Amount, TimeOrigin]:
        """Products of one shape; narrower weights than those of the product move fewer bytes."""
        (shape,), precision = operation.shapes, operation.precision
        chip, work = self.accelerator, operation.forward
        known = chip.measured
        measured = precision == "bf16" or (known is not None and precision in known.products)
        rates = kernels.product_rates(chip, precision if measured else "bf16")
        if not measured:  # 16-bit shares of their own peak
            rates = rates.changed(peak_flops_per_s=chip.narrow_flops_per_s[precision])
        busy_s, waiting_s = kernels.product_parts_s(rates, work.tensor_flops, work.moved_bytes)
        if not measured:
            return busy_s + waiting_s, "form"
        sizes = (np.asarray(size, dtype=np.float64) for size in (shape.m, shape.n, shape.k))
        by_table = kernel_tables.product_table_s(chip, precision, *sizes) if self.tabled else None
        origin: TimeOrigin = "form" if by_table is None else "table"
        measured_s = self._rising_s(precision, shape) if by_table is None else by_table
        saved = NUMBER_BYTES[precision] * shape.k * shape.n - operation.weight_bytes
        if not np.any(saved > 0):
            return measured_s, origin
        wide_s = sum(kernels.product_parts_s(rates, work.tensor_flops, work.moved_bytes + saved))
        return measured_s * (busy_s + waiting_s) / wide_s, origin

    def _rising_s(self, precision: Precision, shape: ProductShape) -> Floats:
        """Measured products, no faster than those of the same matrix with fewer rows."""
        chip = self.accelerator
        m, n, k = (np.asarray(size) for size in (shape.m, shape.n, shape.k))
        own_s = np.asarray(kernels.product_time_s(chip, precision, m, n, k))
        if precision not in kernels.CORRECTED:
            return own_s
        matrices, which = np.unique(n + 1j * k, return_inverse=True)
        steps = kernels.product_time_s(chip, precision, ROWS[:, None], matrices.real, matrices.imag)
        fewer_s = np.maximum.accumulate(steps, axis=0)
        row = np.maximum(np.searchsorted(ROWS, m, side="right") - 1, 0)
        return np.asarray(np.maximum(own_s, fewer_s[row, which.reshape(np.shape(n + k))]))

    def _attention_s(self, shape: AttentionShape, cache_bytes: float) -> tuple[Amount, TimeOrigin]:
        """Attention of prompts, of generated tokens, or to latent vectors that all heads share."""
        chip = self.accelerator
        if shape.causal:
            busy_s, waiting_s = kernels.attention_parts_s(kernels.attention_rates(chip), shape)
            return busy_s + waiting_s, "form"
        seen = shape.keys if shape.window is None else np.minimum(shape.window, shape.keys)
        heads = shape.heads * shape.queries
        if shape.latent_rank is None:
            plain = (chip, shape.sequences, seen, heads, shape.kv_heads, shape.head_size)
            return kernels.generation_time_s(*plain, kv_bytes=cache_bytes), "form"
        rotary = shape.head_size - shape.latent_rank
        sizes = (shape.sequences, seen, heads, shape.latent_rank, rotary)
        if self.source != "measured":
            return kernels.latent_generation_time_s(chip, *sizes, kv_bytes=cache_bytes), "form"
        if self.tabled and (cache := LATENT_CACHES.get(cache_bytes)):
            kept = kernel_tables.StoredNumbers(
                shape.latent_rank, float(np.max(rotary)), cache_bytes
            )
            by_table = kernel_tables.latent_table_s(chip, cache, *sizes[:3], kept)
            if by_table is not None:
                return by_table, "table"
        return kernels.latent_form_s(
            kernel_tables.latent_rates(chip), *sizes, kv_bytes=cache_bytes
        ), "form"

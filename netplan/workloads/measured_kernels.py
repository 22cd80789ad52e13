"""Kernels of one accelerator as they were measured, and how long they take for an operation.

Products of 16-bit numbers follow `netplan.workloads.kernels`, one kernel forward and two
backward; attention follows `netplan.workloads.kernels`, whose kernels store no scores
whatever is computed again; all other operations wait for their memory traffic,

    t = 2 us + bytes / (b W),

with the share b of the memory bandwidth W that products reach.
"""

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats
from netplan.records import replace
from netplan.workloads import kernels, measured_rates
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.kernel_graph import KernelGraph
from netplan.workloads.operations import ELEMENT_BYTES, NO_WORK, Operation, OperationCost


class MeasuredKernels(Struct, frozen=True):
    """Rates of 16-bit products, of attention and of all else, and how far off they may be.

    Parameters
    ----------
    name
        What the accelerator is called.
    fitted
        Whether its own kernels were measured; else the rates are medians of other GPUs.
    products, attention
        Rates of both.
    vector_latency_s
        Latency of operations without products [s].
    product_error, attention_error
        Mean errors, or what is stated for GPUs that were not measured [1].

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> MeasuredKernels.of(ACCELERATORS.load("h100-80gb")).note
    'Kernels measured on h100-80gb: products +-4 %, attention +-8 % (backward assumed)'
    >>> MeasuredKernels.of(ACCELERATORS.load("tpu-v4")).note
    'No measured kernels of tpu-v4: medians of seven GPUs, +-30 % (attention backward assumed)'
    """

    name: str
    fitted: bool
    products: measured_rates.MeasuredProduct
    attention: measured_rates.MeasuredAttention
    vector_latency_s: float
    product_error: float
    attention_error: float

    @classmethod
    def of(cls, accelerator: Accelerator) -> "MeasuredKernels":
        """Those of an accelerator, or medians of others where it has none."""
        rates = accelerator.measured or measured_rates.MeasuredRates(source="", date="")
        return cls(
            name=accelerator.name,
            fitted="bf16" in rates.products and rates.attention is not None,
            products=kernels.product_rates(accelerator, "bf16"),
            attention=kernels.attention_rates(accelerator),
            vector_latency_s=measured_rates.pooled().vector_latency_s,
            product_error=kernels.kernel_error(accelerator),
            attention_error=kernels.kernel_error(accelerator, kernel="attention"),
        )

    @property
    def note(self) -> str:
        """What these kernels are worth, in one line."""
        product, attention = round(100 * self.product_error), round(100 * self.attention_error)
        if self.fitted:
            return (
                f"Kernels measured on {self.name}: products +-{product} %, attention"
                f" +-{attention} % (backward assumed)"
            )
        return (
            f"No measured kernels of {self.name}: medians of seven GPUs,"
            f" +-{max(product, attention)} % (attention backward assumed)"
        )

    def with_memory(self, faster: float) -> "MeasuredKernels":
        """The same on a memory that is so many times as fast."""
        products, attention = self.products, self.attention
        return replace(
            self,
            products=products.changed(memory_bytes_per_s=faster * products.memory_bytes_per_s),
            attention=attention.changed(memory_bytes_per_s=faster * attention.memory_bytes_per_s),
        )

    def of_graph_s(self, graph: KernelGraph) -> Floats:
        """Time of each kernel of a graph alone, shape (kernels,) [s].

        Products read both inputs and write a result of 16-bit numbers; all others read one number
        for each that they write.

        Examples
        --------
        >>> from netplan.workloads.accelerators import ACCELERATORS
        >>> from netplan.workloads.kernel_graph import Kernel
        >>> graph = KernelGraph.of([Kernel("q", "gemm", 8192, 8192, 8192)], [])
        >>> MeasuredKernels.of(ACCELERATORS.load("h100-80gb")).of_graph_s(graph).round(6)
        array([0.001396])
        """
        sizes = np.array(
            [(kernel.m, kernel.k, kernel.n) for kernel in graph.kernels], dtype=np.float64
        )
        m, k, n = sizes.T
        moved_bytes = ELEMENT_BYTES * (m * k + k * n + m * n)
        products_s = sum(kernels.product_parts_s(self.products, 2.0 * m * k * n, moved_bytes))
        rate = self.products.memory_efficiency * self.products.memory_bytes_per_s
        others_s = self.vector_latency_s + 2 * ELEMENT_BYTES * m * n / rate
        alike = np.array([kernel.kind == "simd" for kernel in graph.kernels])
        return np.where(alike, others_s, products_s)

    def parts_s(
        self, operation: Operation, work: OperationCost, moved_bytes: Amount
    ) -> tuple[Amount, Amount]:
        """Time of one work of an operation that moves so many bytes [s].

        The first part is latency and FLOPs, the second what memory traffic adds to them.
        """
        backward = work is operation.backward
        if operation.attention is not None:
            spilled = moved_bytes - work.moved_bytes
            shape = operation.attention
            return kernels.attention_parts_s(
                self.attention, shape, backward=backward, more_bytes=spilled
            )
        if isinstance(work.tensor_flops, float) and work.tensor_flops == 0:
            rate = self.products.memory_efficiency * self.products.memory_bytes_per_s
            return self.vector_latency_s, moved_bytes / rate
        both = backward and operation.weight_gradient is NO_WORK
        return kernels.product_parts_s(self.products, work.tensor_flops, moved_bytes, 1.0 + both)

"""Time of one matrix product, by rates that were measured kernel by kernel.

A product (m x k) (k x n) has F = 2 m n k FLOP and moves Y = a (m k + k n) + 2 m n bytes, a bytes a
number of its inputs; its result has 16 bits. Of a GPU with the peak P and the memory bandwidth W

    t = t0 + sqrt((F / (e P))^2 + (Y / (b W))^2)     16-bit numbers
    t = t0 + F / (e P) + Y / (b W)                   8-bit and 4-bit numbers

with three numbers a GPU and precision: latency t0 and the shares e and b. They are fitted to
kernels that run back to back (AIConfigurator 0.12.0 of NVIDIA, Apache-2.0); the launch gaps of
eager training are not in them. 8-bit and 4-bit products need the corrections beside the accelerator
file (`netplan.workloads.corrections`): with them they are met within about 7 % on shapes that were
not fitted, without them within 20 to 24 %. 16-bit products from 10^11 FLOP on are met within 3 to
7 % by the closed form, about what the same product differs between three frameworks.
"""

import numpy as np

from netplan.arrays import Amount
from netplan.errors import InputError
from netplan.inputs.choices import Precision
from netplan.workloads.accelerators import Accelerator, accelerator_of
from netplan.workloads.corrections import PRODUCT_SIZES, Corrections, table_in
from netplan.workloads.measured_rates import KernelKind, MeasuredProduct, check_sizes, pooled
from netplan.workloads.precision import NUMBER_BYTES, precision_named

RESULT_BYTES = NUMBER_BYTES["bf16"]
CORRECTED: tuple[Precision, ...] = ("fp8", "fp4")
"""Precisions whose closed form is not enough."""


def product_time_s(
    accelerator: Accelerator | str,
    dtype: str,
    m: Amount,
    n: Amount,
    k: Amount,
    *,
    corrections: bool | None = None,
) -> Amount:
    """Time of products (m x k) (k x n) of one precision on one GPU [s].

    Parameters
    ----------
    accelerator
        A record, or its name in the catalog. One without measured products is timed by the medians
        of those that have them: :func:`kernel_error` says how far off that may be.
    dtype
        ``bf16`` (or ``fp16``), ``fp8`` or ``fp4``.
    m, n, k
        Sizes, numbers or arrays of a common shape [1].
    corrections
        Whether the table beside the accelerator file is used: by default for fp8 and fp4, where
        there is one.

    Returns
    -------
    Amount
        Time, a float or an array as the sizes broadcast [s].

    Raises
    ------
    InputError
        If the sizes are none, or the precision is unknown or was not measured, or a table is asked
        for that does not exist.

    References
    ----------
    Form and rates are fitted on AIConfigurator 0.12.0 (NVIDIA, Apache-2.0).

    Examples
    --------
    >>> round(1e6 * product_time_s("h100-80gb", "bf16", 8192, 8192, 8192), 1)
    1395.8
    >>> round(1e6 * product_time_s("b200", "bf16", 8192, 8192, 8192), 1)
    703.8
    """
    one, precision = accelerator_of(accelerator), precision_named(dtype)
    sizes = [np.asarray(size, dtype=np.float64) for size in (m, n, k)]
    m, n, k = sizes
    check_sizes("a product", m=m, n=n, k=k)
    number_bytes = NUMBER_BYTES[precision]
    flops = 2.0 * m * n * k
    moved_bytes = number_bytes * (m * k + k * n) + RESULT_BYTES * (m * n)
    busy_s, waiting_s = product_parts_s(product_rates(one, precision), flops, moved_bytes)
    time_s = busy_s + waiting_s
    table = _corrections(one, precision, asked=corrections)
    if table is not None:
        time_s = time_s * table.factor(m, n, k)
    return time_s if np.ndim(time_s) else float(time_s)


def product_parts_s(
    rates: MeasuredProduct, flops: Amount, moved_bytes: Amount, products: float = 1.0
) -> tuple[Amount, Amount]:
    """Time of so many products, by their FLOPs and bytes together [s].

    The first part is latency and FLOPs, the second what memory traffic adds to them. Of several
    equal products the sums of both amounts give the sum of their times.

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> rates = product_rates(ACCELERATORS.load("h100-80gb"), "bf16")
    >>> busy_s, waiting_s = product_parts_s(rates, 0.802 * 989.4e12, 0.75 * 0.845 * 3.35e12)
    >>> round(float(busy_s), 4), round(float(waiting_s), 4)
    (1.0, 0.25)
    """
    flops_s = flops / (rates.efficiency * rates.peak_flops_per_s)
    bytes_s = moved_bytes / (rates.memory_efficiency * rates.memory_bytes_per_s)
    both_s = np.hypot(flops_s, bytes_s) if rates.combine == "hypot" else flops_s + bytes_s
    return products * rates.kernel_latency_s + flops_s, both_s - flops_s


def product_rates(accelerator: Accelerator, dtype: Precision) -> MeasuredProduct:
    """Rates of products as measured; of 16-bit ones without data, medians of other GPUs.

    Raises
    ------
    InputError
        If narrower products of this accelerator were not measured.
    """
    products = accelerator.measured.products if accelerator.measured else {}
    if dtype in products:
        return products[dtype]
    if dtype != "bf16":
        known = ", ".join(products) or "none"
        raise InputError(
            f"{dtype} products of {accelerator.name} were not measured (known: {known}): take bf16,"
            f" or give measured.products.{dtype} in its file"
        )
    return pooled().products.of(accelerator.tensor_flops_per_s, accelerator.memory_bytes_per_s)


def kernel_error(
    accelerator: Accelerator | str, dtype: str = "bf16", *, kernel: KernelKind = "products"
) -> float:
    """Mean error of measured kernels, or what is stated for GPUs that were not measured [1].

    Parameters
    ----------
    accelerator
        A record, or its name in the catalog.
    dtype
        ``bf16`` (or ``fp16``), ``fp8`` or ``fp4``.
    kernel
        ``products``, ``experts``, ``attention`` or ``generation``.

    Returns
    -------
    float
        Mean relative error of the time [1].

    Raises
    ------
    InputError
        If the precision is unknown, or narrower products of this accelerator were not measured.
    UnknownNameError
        If the catalog has no such accelerator.

    Examples
    --------
    >>> kernel_error("h100-80gb"), kernel_error("v100-32gb"), kernel_error("tpu-v4")
    (0.037, 0.15, 0.3)
    >>> kernel_error("h100-80gb", kernel="attention")
    0.08
    """
    one, precision = accelerator_of(accelerator), precision_named(dtype)
    rates = one.measured
    if kernel == "products":
        if precision != "bf16" or (rates and precision in rates.products):
            return product_rates(one, precision).error
    elif kernel == "experts":
        if rates and precision in rates.experts:
            return rates.experts[precision].error
    elif rates and (measured := rates.of_attention(kernel)):
        return measured.error
    return pooled().error(kernel, one.title)


def _corrections(
    accelerator: Accelerator, dtype: Precision, *, asked: bool | None
) -> Corrections | None:
    """Table that corrects the products of a precision, if it is to be used."""
    if asked is None and dtype not in CORRECTED:
        return None
    path = accelerator.measured.corrections if accelerator.measured else ""
    return table_in(path, dtype, PRODUCT_SIZES, whose=accelerator.name, asked=asked)

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

Time of attention in one kernel, by rates that were measured.

Of b sequences of s tokens, h heads and g heads of keys, of size q each, causal attention takes
F = 2 b h s^2 q FLOP (half of the matrix) and moves Y = 2 b s q (2 h + 2 g) bytes. Its blocks of
128 queries, n = b h ceil(s / 128), run in waves on S multiprocessors, w = ceil(n / S) S / n:

    t = t0 + ((F (1 + v (w - 1)) (128 / q)^x (1 + z / s) / (e P))^p + (Y / (b W))^p)^(1/p)

s is rounded up to whole blocks; q counts as 64 to 128 in the power, the sizes that were measured.
The rates are fitted to AIConfigurator 0.12.0 (NVIDIA, Apache-2.0), which has forward kernels only:
the backward pass is assumed to take 2.5 times the FLOPs and bytes, at 0.8 of the efficiency (as in
the papers on FlashAttention; 0.65 to 0.95 is plausible). Heads of 128 and sequences from 1,024
tokens on are met within 6 to 9 %.

Tokens that are generated one by one take the whole matrix, F = 4 b h c q FLOP of c stored tokens,
and Y = b q (4 h + 2 y g c) bytes, y of a stored number. The form meets them within 18 to 24 %; with
a table over b g, c, h / g and q (`netplan.workloads.corrections`) shapes that no fit saw are met
within 8 to 15 % in the mean (A100 20 %), half of them within 7 %. With it more sequences, and more
context from 256 tokens on, take no less time. An 8-bit cache was not measured: it reads half the
bytes. Latent attention was not measured either: its one vector for all heads of a stored token,
rank and rotary part, is read once, Y = b c (r + d) y, and F = 2 b h c (2 r + d); no table corrects
it.

Time of the fused experts of one GPU, by rates that were measured.

T tokens of a whole expert group go to k of E experts each, which lie evenly on its p GPUs, every
expert cut over t of them. A GPU then computes R = T k / p rows on A = min(R, E / p) experts that
have any, of m products (two, three with a gate) of hidden size h and inner size g = inter / t:

    F = 2 R m h g FLOP
    Y = a A m h g + 2 (c T k h + 3 R (h + m g)) bytes
    t = t0 + sqrt((F / (e P))^2 + (Y / (b W))^2)

with a bytes a weight, and rows of 16 bits: those of the group are gone through c times, wherever
they are computed (sorting them, setting to zero what others compute, summing up each token's), its
own ones three times (copied or quantised, read, written). A table over the rows of an expert R / A,
g and A corrects what kernels make of their sizes (`netplan.workloads.corrections`).

Fitted to two thirds of the rows of AIConfigurator 0.12.0 (NVIDIA, Apache-2.0; vLLM 0.24, tokens
spread evenly), the others are met within 9 to 15 % in the mean, by accelerator and precision (A100
16 %). With the tables more tokens take no less time. Two kinds of rows are not used:

* fp8 on H100 and H200 reads weights at an eighth of the bandwidth, where bf16 reaches 0.9 of it:
  kernels nobody tuned, by which MiniMax-M2.5 on 8 H200 would take twice the published time a token.
* experts divided over A100s were measured with all tokens on the fullest GPU.

A precision without data takes the shares of the chip's 16-bit experts, on its own peak; a chip
without any the medians of others. Precisions that a chip does not compute in keep their weights'
bytes and are computed in the next wider one, as int4 is in 16 bits.

Time in which tokens travel to their experts and back, by rates that were measured.

T tokens a GPU of w bytes each take

    t = t0 + T w max(r / (e_n B_n), s / (e_v B_v))

with the bandwidths of a GPU into the network and into its HB domain. Each token has k experts. With
d(x) = x (1 - (1 - 1/x)^k), the distinct ones of x places that k choices meet, copies of a token
travel, of N nodes with n GPUs in all,

=============  =====================================  =========================================
kind           r, over the network                    s, inside a domain
=============  =====================================  =========================================
`normal`       d(m) (N-1)/N, m = min(N, 4) nodes      d(x) (x-1)/x, x = m n/N GPUs
`low-latency`  k (N-1)/N                              k (n-1)/n
`rack`         none                                   d(n) (n-1)/n
=============  =====================================  =========================================

Normal and low latency are modes of DeepEP, the rack is TensorRT-LLM in one NVLink domain. Fitted to
AIConfigurator 0.12.0 (NVIDIA, Apache-2.0) with 8 experts a token and nodes of 8 GPUs.
"""

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount
from netplan.errors import InputError
from netplan.inputs.choices import Precision
from netplan.workloads import measured_rates
from netplan.workloads.accelerators import Accelerator, accelerator_of
from netplan.workloads.corrections import PRODUCT_SIZES, table_in
from netplan.workloads.measured_rates import MeasuredAttention, MeasuredExperts, MeasuredProduct
from netplan.workloads.operations import ELEMENT_BYTES, AttentionShape, ExpertShape, Routing
from netplan.workloads.precision import NUMBER_BYTES, precision_named, serving_precision

__all__ = (
    "attention_backward_time_s",
    "attention_time_s",
    "expert_exchange_s",
    "fused_experts_time_s",
    "generation_time_s",
    "kernel_error",
    "latent_generation_time_s",
    "product_time_s",
)

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
    gpu, precision = accelerator_of(accelerator), precision_named(dtype)
    sizes = [np.asarray(size, dtype=np.float64) for size in (m, n, k)]
    m, n, k = sizes
    measured_rates.check_sizes("a product", m=m, n=n, k=k)
    time_s = product_form_s(product_rates(gpu, precision), precision, m, n, k)
    path = gpu.measured.corrections if gpu.measured else ""
    wanted = corrections is not None or precision in CORRECTED
    table = table_in(
        path, precision, PRODUCT_SIZES, whose=gpu.name, asked=corrections if wanted else False
    )
    if table is not None:
        time_s = time_s * table.factor(m, n, k)
    return _as_amount(time_s)


def product_form_s(
    rates: MeasuredProduct, dtype: Precision, m: Amount, n: Amount, k: Amount
) -> Amount:
    """Time of products by the closed form alone, without corrections [s].

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> rates = product_rates(ACCELERATORS.load("b200"), "fp8")
    >>> round(1e6 * product_form_s(rates, "fp8", 1024.0, 8192.0, 8192.0), 1)
    70.9
    """
    moved_bytes = NUMBER_BYTES[dtype] * (m * k + k * n) + RESULT_BYTES * (m * n)
    return sum(product_parts_s(rates, 2.0 * m * n * k, moved_bytes))


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
    peak, memory = accelerator.tensor_flops_per_s, accelerator.memory_bytes_per_s
    return measured_rates.with_rates(
        MeasuredProduct, measured_rates.pooled().products, peak, memory
    )


def kernel_error(
    accelerator: Accelerator | str,
    dtype: str = "bf16",
    *,
    kernel: measured_rates.KernelKind = "products",
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
    gpu, precision = accelerator_of(accelerator), precision_named(dtype)
    rates = gpu.measured
    if kernel == "products":
        if precision != "bf16" or (rates and precision in rates.products):
            return product_rates(gpu, precision).error
    elif kernel == "experts":
        if rates and precision in rates.experts:
            return rates.experts[precision].error
    elif rates and (measured := rates.of_attention(kernel)):
        return measured.error
    return measured_rates.pooled().error(kernel, gpu.title)


BLOCK = 128.0
"""Queries of one block; heads of this size reach the full rate [1]."""
NARROWEST_HEAD = 64.0
GENERATION_SIZES = ("groups", "context", "queries", "head_size")
"""What tables of corrections are over: KV heads of all sequences, stored tokens, heads on each."""
BACKWARD = 2.5
"""Work of the backward pass over that of the forward one: five products in place of two [1]."""


def attention_time_s(
    accelerator: Accelerator | str,
    batch: Amount,
    sequence: Amount,
    heads: Amount,
    kv_heads: Amount | None = None,
    head_size: Amount = 128.0,
) -> Amount:
    """Time of causal attention over whole sequences, forward [s].

    Parameters
    ----------
    accelerator
        A record, or its name in the catalog.
    batch, sequence
        Sequences, and tokens of each, numbers or arrays of a common shape [1].
    heads, kv_heads, head_size
        Heads of queries; of keys and values, as many if absent; numbers of a head [1].

    Returns
    -------
    Amount
        Time, a float or an array as the sizes broadcast [s].

    Raises
    ------
    InputError
        If a size is 0, negative or infinite.
    UnknownNameError
        If the catalog has no such accelerator.

    References
    ----------
    Form and rates are fitted on AIConfigurator 0.12.0 (NVIDIA, Apache-2.0).

    Examples
    --------
    >>> round(1e6 * attention_time_s("h100-80gb", 1, 4096, 32), 1)
    298.7
    """
    shape = _causal(batch, sequence, heads, kv_heads, head_size)
    return _as_amount(sum(attention_parts_s(attention_rates(accelerator), shape)))


def attention_backward_time_s(
    accelerator: Accelerator | str,
    batch: Amount,
    sequence: Amount,
    heads: Amount,
    kv_heads: Amount | None = None,
    head_size: Amount = 128.0,
) -> Amount:
    """Time of its backward pass, which is assumed, not measured [s].

    Parameters
    ----------
    accelerator, batch, sequence, heads, kv_heads, head_size
        As of :func:`attention_time_s`.

    Returns
    -------
    Amount
        Time, a float or an array as the sizes broadcast [s].

    Raises
    ------
    InputError
        If a size is 0, negative or infinite.
    UnknownNameError
        If the catalog has no such accelerator.

    Examples
    --------
    >>> round(1e6 * attention_backward_time_s("h100-80gb", 1, 4096, 32), 1)
    850.2
    """
    shape = _causal(batch, sequence, heads, kv_heads, head_size)
    return _as_amount(sum(attention_parts_s(attention_rates(accelerator), shape, backward=True)))


def generation_time_s(  # noqa: PLR0913 - a size each
    accelerator: Accelerator | str,
    batch: Amount,
    context: Amount,
    heads: Amount,
    kv_heads: Amount | None = None,
    head_size: Amount = 128.0,
    *,
    kv_bytes: Amount = ELEMENT_BYTES,
    corrections: bool | None = None,
) -> Amount:
    """Time of attention of one new token on ``context`` stored ones [s].

    Parameters
    ----------
    accelerator, batch, heads, kv_heads, head_size
        As of :func:`attention_time_s`.
    context
        Stored tokens of each sequence [1].
    kv_bytes
        Bytes of a stored number.
    corrections
        Whether the table beside the accelerator file is used: by default where there is one.

    Returns
    -------
    Amount
        Time, a float or an array as the sizes broadcast [s].

    Raises
    ------
    InputError
        If a size is 0, negative or infinite, or a table is asked for that does not exist.
    UnknownNameError
        If the catalog has no such accelerator.

    References
    ----------
    Form and rates are fitted on AIConfigurator 0.12.0 (NVIDIA, Apache-2.0).

    Examples
    --------
    >>> round(1e6 * generation_time_s("h100-80gb", 64, 8192, 32, 8, corrections=False), 1)
    727.2
    """
    gpu = accelerator_of(accelerator)
    shared = heads if kv_heads is None else kv_heads
    shape = AttentionShape(batch, heads, shared, 1.0, context, head_size, causal=False)
    time_s = _as_amount(
        sum(attention_parts_s(attention_rates(gpu, "generation"), shape, kv_bytes=kv_bytes))
    )
    path = gpu.measured.generation_corrections if gpu.measured else ""
    table = table_in(path, "bf16", GENERATION_SIZES, whose=gpu.name, asked=corrections)
    if table is None:
        return time_s
    groups, queries = np.asarray(batch) * shared, np.asarray(heads) / shared
    factor = table.factor(groups, context, queries, head_size)
    return _as_amount(time_s * factor)


def latent_generation_time_s(  # noqa: PLR0913 - a size each
    accelerator: Accelerator | str,
    batch: Amount,
    context: Amount,
    heads: Amount,
    kv_rank: Amount = 512.0,
    rotary: Amount = 64.0,
    *,
    kv_bytes: Amount = ELEMENT_BYTES,
) -> Amount:
    """Time of latent attention of one new token on ``context`` stored ones, not measured [s].

    Parameters
    ----------
    accelerator, batch, context, kv_bytes
        As of :func:`generation_time_s`.
    heads
        Heads of queries on this GPU [1].
    kv_rank, rotary
        Numbers of a stored token that keys and values are made of, and those with its place [1].

    Returns
    -------
    Amount
        Time, a float or an array as the sizes broadcast [s].

    Raises
    ------
    InputError
        If a size is 0, negative or infinite.
    UnknownNameError
        If the catalog has no such accelerator.

    Examples
    --------
    >>> round(1e6 * latent_generation_time_s("h200", 64, 8192, 128), 1)
    275.1
    """
    sizes = {"batch": batch, "context": context, "heads": heads, "rank": kv_rank, "rotary": rotary}
    measured_rates.check_sizes("latent attention", **sizes)
    rates = attention_rates(accelerator, "generation")
    return _as_amount(
        latent_form_s(rates, batch, context, heads, kv_rank, rotary, kv_bytes=kv_bytes)
    )


def latent_form_s(  # noqa: PLR0913 - a size each
    rates: MeasuredAttention,
    batch: Amount,
    context: Amount,
    heads: Amount,
    kv_rank: Amount = 512.0,
    rotary: Amount = 64.0,
    *,
    kv_bytes: Amount = ELEMENT_BYTES,
) -> Amount:
    """The same by rates of one's own [s].

    Examples
    --------
    >>> round(1e6 * float(latent_form_s(attention_rates("h200", "generation"), 64, 8192, 128)), 1)
    275.1
    """
    stored = np.asarray(batch, dtype=np.float64) * context
    flops = 2.0 * stored * heads * (2.0 * kv_rank + rotary)
    flops_s = flops / (rates.efficiency * rates.peak_flops_per_s)
    moved_bytes = stored * (kv_rank + rotary) * kv_bytes
    bytes_s = moved_bytes / (rates.memory_efficiency * rates.memory_bytes_per_s)
    return rates.kernel_latency_s + _norm(flops_s, bytes_s, rates.sharpness)


def attention_parts_s(
    rates: MeasuredAttention,
    shape: AttentionShape,
    *,
    backward: bool = False,
    more_bytes: Amount = 0.0,
    kv_bytes: Amount = ELEMENT_BYTES,
) -> tuple[Amount, Amount]:
    """Time of attention of any shape [s]: latency and FLOPs, and what memory traffic adds to them.

    What is not causal takes the whole matrix, a window what lies in it; queries that are fewer than
    the keys are a share of a sequence. ``more_bytes`` are moved beside queries, keys and results;
    a number of keys and values takes ``kv_bytes``.

    Raises
    ------
    InputError
        If the sizes are none.

    Examples
    --------
    >>> rates = attention_rates("h100-80gb")
    >>> whole = AttentionShape(1.0, 32.0, 32.0, 4096.0, 4096.0, 128.0)
    >>> [round(float(1e6 * part), 1) for part in attention_parts_s(rates, whole)]
    [209.4, 89.3]
    """
    names = ("sequences", "heads", "kv_heads", "queries", "keys", "head_size")
    measured_rates.check_sizes("attention", **{name: getattr(shape, name) for name in names})
    generated = np.asarray(shape.queries) == 1
    queries, keys = (
        np.where(generated, tokens, BLOCK * np.ceil(np.asarray(tokens) / BLOCK))
        for tokens in (shape.queries, shape.keys)
    )
    maps, q = shape.sequences * shape.heads, shape.head_size
    seen = keys if shape.window is None else np.minimum(shape.window, keys)
    pairs = seen - seen * seen / (2 * keys) if shape.causal else seen
    flops = 4.0 * maps * queries * pairs * q
    numbers = ELEMENT_BYTES * shape.heads * queries + kv_bytes * shape.kv_heads * keys
    moved_bytes = 2 * shape.sequences * q * numbers
    blocks = maps * np.ceil(queries / BLOCK)
    waves = np.ceil(blocks / rates.processors) * rates.processors / blocks
    narrow = BLOCK / np.clip(q, NARROWEST_HEAD, BLOCK)
    slower = (1 + rates.wave_share * (waves - 1)) * narrow**rates.head_exponent
    work, efficiency = (BACKWARD, rates.backward_efficiency) if backward else (1.0, 1.0)
    reached = efficiency * rates.efficiency * rates.peak_flops_per_s
    flops_s = work * flops * slower * (1 + rates.ramp_tokens / keys) / reached
    moved_bytes = work * moved_bytes + more_bytes
    bytes_s = moved_bytes / (rates.memory_efficiency * rates.memory_bytes_per_s)
    both_s = _norm(flops_s, bytes_s, rates.sharpness)
    return rates.kernel_latency_s + flops_s, both_s - flops_s


def attention_rates(
    accelerator: Accelerator | str, kernel: measured_rates.AttentionKind = "attention"
) -> MeasuredAttention:
    """Rates of attention as measured; without data, medians of other GPUs."""
    gpu = accelerator_of(accelerator)
    if gpu.measured and (measured := gpu.measured.of_attention(kernel)):
        return measured
    shares, peak = measured_rates.pooled().of_attention(kernel), gpu.tensor_flops_per_s
    return measured_rates.with_rates(MeasuredAttention, shares, peak, gpu.memory_bytes_per_s)


def _causal(
    batch: Amount, sequence: Amount, heads: Amount, kv_heads: Amount | None, head_size: Amount
) -> AttentionShape:
    shared = heads if kv_heads is None else kv_heads
    return AttentionShape(batch, heads, shared, sequence, sequence, head_size)


def _norm(first: Amount, second: Amount, power: float) -> Amount:
    """(x^p + y^p)^(1/p), without overflow."""
    high, low = np.maximum(first, second), np.minimum(first, second)
    return high * (1 + (low / high) ** power) ** (1 / power)


def _as_amount(amount: Amount) -> Amount:
    """A number as such, arrays as they are."""
    return amount if np.ndim(amount) else float(amount)


EXPERT_SIZES = ("rows", "inner", "active")
"""What tables of corrections are over: rows of an expert, its inner size here, experts with any."""
ROW_BYTES = NUMBER_BYTES["bf16"]
OWN_PASSES = 3.0
"""How often rows that a GPU computes are read or written, between the products and around [1]."""


def fused_experts_time_s(
    accelerator: Accelerator | str,
    dtype: str,
    tokens: Amount,
    shape: ExpertShape,
    *,
    routing: Routing = "even",
    corrections: bool | None = None,
) -> Amount:
    """Time of the routed experts of one layer on one GPU, products, activation and sums [s].

    Parameters
    ----------
    accelerator
        A record, or its name in the catalog.
    dtype
        Precision of the weights: ``bf16``, ``fp8``, ``fp4``, or ``int4`` (weights only).
    tokens
        Tokens of all GPUs of the expert group, before routing [1].
    shape
        The experts.
    routing
        ``even`` as measured, or ``random``, which meets fewer experts.
    corrections
        Whether the table beside the accelerator file is used: by default where there is one.

    Returns
    -------
    Amount
        Time, a float or an array as tokens and sizes broadcast [s].

    Raises
    ------
    InputError
        If the sizes are none, the precision is unknown, or a table is asked for that does not
        exist.

    References
    ----------
    Form and rates are fitted on AIConfigurator 0.12.0 (NVIDIA, Apache-2.0).

    Examples
    --------
    >>> shape = ExpertShape(hidden=7168, inter=2048, top_k=8, experts=256, expert=8)
    >>> plain_s = fused_experts_time_s("b200", "fp8", 64, shape, corrections=False)
    >>> round(1e6 * plain_s, 1)
    228.9
    """
    gpu = accelerator_of(accelerator)
    stored_as = computed_in(gpu, dtype)
    return experts_computed_s(
        gpu, *stored_as, tokens, shape, routing=routing, corrections=corrections
    )


def experts_computed_s(  # noqa: PLR0913 - of weights that are computed in another precision
    gpu: Accelerator,
    precision: Precision,
    weight_bytes: float,
    tokens: Amount,
    shape: ExpertShape,
    *,
    routing: Routing = "even",
    corrections: bool | None = None,
) -> Amount:
    """The same of weights of so many bytes, computed in a precision [s].

    Raises
    ------
    InputError
        If the sizes are none, or a table is asked for that does not exist.
    """
    tokens = np.asarray(tokens, dtype=np.float64)
    sizes = {name: getattr(shape, name) for name in shape.__struct_fields__ if name != "load"}
    measured_rates.check_sizes("fused experts", tokens=tokens, **sizes)
    rates = expert_rates(gpu, precision)
    time_s = experts_form_s(rates, weight_bytes, tokens, shape, routing)
    path = gpu.measured.expert_corrections if gpu.measured else ""
    table = table_in(path, precision, EXPERT_SIZES, whose=gpu.name, asked=corrections)
    if table is not None:
        active = shape.active(tokens, routing)
        rows = np.maximum(shape.rows(tokens), active)
        time_s = time_s * table.factor(rows / active, shape.inner, active)
    return _as_amount(time_s)


def experts_form_s(
    rates: MeasuredExperts,
    weight_bytes: float,
    tokens: Amount,
    shape: ExpertShape,
    routing: Routing,
) -> Amount:
    """Time of fused experts by the closed form alone, without corrections [s].

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> rates = expert_rates(ACCELERATORS.load("b200"), "fp8")
    >>> shape = ExpertShape(hidden=7168, inter=2048, top_k=8, experts=256, expert=8)
    >>> round(1e6 * float(experts_form_s(rates, 1.0, 64, shape, "even")), 1)
    228.9
    """
    hidden, inner, active = shape.hidden, shape.inner, shape.active(tokens, routing)
    routed = tokens * shape.top_k
    rows = np.maximum(shape.rows(tokens), active)
    matrices = shape.products * hidden * inner
    passed = rates.group_passes * routed * hidden
    passed = passed + OWN_PASSES * rows * (hidden + shape.products * inner)
    moved_bytes = weight_bytes * active * matrices + ROW_BYTES * passed
    return sum(product_parts_s(rates, 2.0 * rows * matrices, moved_bytes))


def computed_in(accelerator: Accelerator, dtype: str) -> tuple[Precision, float]:
    """Precision that experts of such weights are computed in, and bytes of a weight.

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> h100, a100 = ACCELERATORS.load("h100-80gb"), ACCELERATORS.load("a100-80gb")
    >>> computed_in(h100, "fp4"), computed_in(a100, "fp8"), computed_in(h100, "int4")
    (('fp8', 0.5625), ('bf16', 1.0), ('bf16', 0.5625))
    """
    served = serving_precision(accelerator, dtype)
    return served.compute, served.weight_bytes


def expert_rates(accelerator: Accelerator, dtype: Precision) -> MeasuredExperts:
    """Rates of fused experts as measured; else shares of the 16-bit ones, else medians of others.

    Raises
    ------
    InputError
        If the chip does not compute in this precision.
    """
    measured = accelerator.measured.experts if accelerator.measured else {}
    if dtype in measured:
        return measured[dtype]
    peaks = accelerator.peaks_flops_per_s
    if dtype not in peaks:
        raise InputError(f"{accelerator.name} has no peak of {dtype}: see computed_in")
    if "bf16" in measured:
        return measured["bf16"].changed(peak_flops_per_s=peaks[dtype])
    memory = accelerator.memory_bytes_per_s
    return measured_rates.with_rates(
        MeasuredExperts, measured_rates.pooled().experts, peaks[dtype], memory
    )


TOKEN_BYTES = {"bf16": 2.0, "fp8": 1.0 + 4 / 128}
"""Bytes of a number of a token; of fp8 with its share of a scale of 32 bits for 128 numbers [B]."""
MOST_NODES = 4
"""Nodes that the experts of one token lie on at most, where tokens go once to each node [1]."""


class ExpertExchange(Struct, frozen=True):
    """Who exchanges what: tokens of ``hidden`` numbers among GPUs on so many nodes.

    Raises
    ------
    InputError
        If there is no such exchange.
    """

    hidden: int
    top_k: int
    gpus: int
    nodes: int = 1
    kind: measured_rates.ExchangeKind = "normal"
    dtype: str = "bf16"

    def __post_init__(self) -> None:
        """Refuse what does not exist."""
        if min(self.hidden, self.top_k, self.gpus, self.nodes) < 1 or self.gpus % self.nodes:
            raise InputError(
                f"an exchange of {self.top_k} experts a token over {self.gpus} GPUs on {self.nodes}"
                f" nodes, {self.hidden} numbers each: all are at least 1, and nodes divide GPUs"
            )
        if self.kind not in measured_rates.pooled().expert_exchange:
            known = ", ".join(measured_rates.pooled().expert_exchange)
            raise InputError(f"unknown kind of exchange {self.kind!r:.40}: use {known}")
        if self.kind == "rack" and self.nodes > 1:
            raise InputError(f"a rack is one node, got {self.nodes}: take kind normal")
        if precision_named(self.dtype) not in TOKEN_BYTES:
            raise InputError(f"tokens travel as {' or '.join(TOKEN_BYTES)}, got {self.dtype}")

    @property
    def copies(self) -> tuple[float, float]:
        """Copies of each token over the network, and inside a domain [1].

        Examples
        --------
        >>> ExpertExchange(hidden=7168, top_k=8, gpus=16, nodes=2, kind="low-latency").copies
        (4.0, 7.5)
        """
        outside = (self.nodes - 1) / self.nodes
        if self.kind == "low-latency":
            return self.top_k * outside, self.top_k * (self.gpus - 1) / self.gpus
        nodes = min(self.nodes, MOST_NODES)
        near = nodes * self.gpus // self.nodes
        return self._distinct(nodes) * outside, self._distinct(near) * (near - 1) / near

    def _distinct(self, places: int) -> float:
        """Places that ``top_k`` even choices among them meet."""
        return float(places * (1 - (1 - 1 / places) ** self.top_k))


def expert_exchange_s(
    accelerator: Accelerator | str,
    phase: measured_rates.ExchangePhase,
    tokens: Amount,
    exchange: ExpertExchange,
) -> Amount:
    """Time in which the tokens of a GPU are dispatched to their experts, or combined again [s].

    Parameters
    ----------
    accelerator
        A record, or its name in the catalog, for the bandwidths of its links.
    phase
        ``dispatch`` or ``combine``.
    tokens
        Tokens of one GPU, a number or an array [1].
    exchange
        Who exchanges what.

    Returns
    -------
    Amount
        Time, a float or an array of the shape of ``tokens`` [s].

    Raises
    ------
    InputError
        If the phase is unknown, or there are no tokens.

    References
    ----------
    Form and rates are fitted on AIConfigurator 0.12.0 (NVIDIA, Apache-2.0).

    Examples
    --------
    >>> wide = ExpertExchange(hidden=7168, top_k=8, gpus=32, nodes=4, dtype="fp8")
    >>> round(1e6 * expert_exchange_s("h100-80gb", "dispatch", 4096, wide), 1)
    2187.0
    """
    phases = measured_rates.pooled().expert_exchange[exchange.kind]
    if phase not in phases:
        raise InputError(f"unknown phase {phase!r:.40} of an exchange: use {' or '.join(phases)}")
    if not np.all((np.asarray(tokens) >= 0) & np.isfinite(tokens)):
        raise InputError("tokens of a GPU are finite and at least 0: got others")
    gpu, rates = accelerator_of(accelerator), phases[phase]
    network, near = exchange.copies
    slowest = max(
        network / (rates.network_efficiency * gpu.network_bytes_per_s),
        near / (rates.hb_efficiency * gpu.hb_bytes_per_s),
    )
    token_bytes = TOKEN_BYTES[precision_named(exchange.dtype)] * exchange.hidden
    time_s: Amount = rates.latency_s + np.asarray(tokens) * token_bytes * slowest
    return _as_amount(time_s)

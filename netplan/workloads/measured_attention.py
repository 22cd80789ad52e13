"""Time of attention in one kernel, by rates that were measured.

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
"""

import numpy as np

from netplan.arrays import Amount
from netplan.workloads.accelerators import Accelerator, accelerator_of
from netplan.workloads.corrections import table_in
from netplan.workloads.measured_rates import AttentionKind, MeasuredAttention, check_sizes, pooled
from netplan.workloads.operations import ELEMENT_BYTES, AttentionShape

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
    return _total_s(attention_parts_s(attention_rates(accelerator), shape))


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
    return _total_s(attention_parts_s(attention_rates(accelerator), shape, backward=True))


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
    one = accelerator_of(accelerator)
    shared = heads if kv_heads is None else kv_heads
    shape = AttentionShape(batch, heads, shared, 1.0, context, head_size, causal=False)
    time_s = _total_s(
        attention_parts_s(attention_rates(one, "generation"), shape, kv_bytes=kv_bytes)
    )
    path = one.measured.generation_corrections if one.measured else ""
    table = table_in(path, "bf16", GENERATION_SIZES, whose=one.name, asked=corrections)
    if table is None:
        return time_s
    groups, queries = np.asarray(batch) * shared, np.asarray(heads) / shared
    factor = table.factor(groups, context, queries, head_size)
    return time_s * factor if np.ndim(factor) else float(time_s * factor)


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
    check_sizes("latent attention", **sizes)
    rates = attention_rates(accelerator, "generation")
    stored = np.asarray(batch, dtype=np.float64) * context
    flops_s = (
        2.0
        * stored
        * heads
        * (2.0 * kv_rank + rotary)
        / (rates.efficiency * rates.peak_flops_per_s)
    )
    moved_bytes = stored * (kv_rank + rotary) * kv_bytes
    bytes_s = moved_bytes / (rates.memory_efficiency * rates.memory_bytes_per_s)
    return _total_s((rates.kernel_latency_s, _norm(flops_s, bytes_s, rates.sharpness)))


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
    check_sizes("attention", **{name: getattr(shape, name) for name in names})
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
    accelerator: Accelerator | str, kernel: AttentionKind = "attention"
) -> MeasuredAttention:
    """Rates of attention as measured; without data, medians of other GPUs."""
    one = accelerator_of(accelerator)
    if one.measured and (measured := one.measured.of_attention(kernel)):
        return measured
    shares = pooled().of_attention(kernel)
    return shares.of(one.tensor_flops_per_s, one.memory_bytes_per_s)


def _causal(
    batch: Amount, sequence: Amount, heads: Amount, kv_heads: Amount | None, head_size: Amount
) -> AttentionShape:
    shared = heads if kv_heads is None else kv_heads
    return AttentionShape(batch, heads, shared, sequence, sequence, head_size)


def _norm(one: Amount, other: Amount, power: float) -> Amount:
    """(x^p + y^p)^(1/p), without overflow."""
    high, low = np.maximum(one, other), np.minimum(one, other)
    both: Amount = high * (1 + (low / high) ** power) ** (1 / power)
    return both


def _total_s(parts: tuple[Amount, Amount]) -> Amount:
    whole_s = parts[0] + parts[1]
    return whole_s if np.ndim(whole_s) else float(whole_s)

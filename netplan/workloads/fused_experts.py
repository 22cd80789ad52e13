"""Time of the fused experts of one GPU, by rates that were measured.

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
"""

import numpy as np

from netplan.arrays import Amount
from netplan.errors import InputError
from netplan.inputs.choices import Precision
from netplan.workloads.accelerators import Accelerator, accelerator_of
from netplan.workloads.corrections import table_in
from netplan.workloads.measured_products import product_parts_s
from netplan.workloads.measured_rates import MeasuredExperts, check_sizes, pooled
from netplan.workloads.operations import ExpertShape, Routing
from netplan.workloads.precision import NUMBER_BYTES
from netplan.workloads.serving_precision import serving_precision

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
    one = accelerator_of(accelerator)
    precision, weight_bytes = computed_in(one, dtype)
    tokens = np.asarray(tokens, dtype=np.float64)
    sizes = {name: getattr(shape, name) for name in shape.__struct_fields__}
    check_sizes("fused experts", tokens=tokens, **sizes)
    rates = expert_rates(one, precision)
    hidden, inner, active = shape.hidden, shape.inner, shape.active(tokens, routing)
    routed = tokens * shape.top_k
    rows = np.maximum(routed / shape.expert, active)
    matrices = shape.products * hidden * inner
    passed = rates.group_passes * routed * hidden
    passed = passed + OWN_PASSES * rows * (hidden + shape.products * inner)
    moved_bytes = weight_bytes * active * matrices + ROW_BYTES * passed
    busy_s, waiting_s = product_parts_s(rates, 2.0 * rows * matrices, moved_bytes)
    time_s = busy_s + waiting_s
    path = one.measured.expert_corrections if one.measured else ""
    table = table_in(path, precision, EXPERT_SIZES, whose=one.name, asked=corrections)
    if table is not None:
        time_s = time_s * table.factor(rows / active, inner, active)
    return time_s if np.ndim(time_s) else float(time_s)


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
    peaks = {"bf16": accelerator.tensor_flops_per_s, **accelerator.narrow_flops_per_s}
    if dtype not in peaks:
        raise InputError(f"{accelerator.name} has no peak of {dtype}: see computed_in")
    if "bf16" in measured:
        return measured["bf16"].changed(peak_flops_per_s=peaks[dtype])
    return pooled().experts.of(peaks[dtype], accelerator.memory_bytes_per_s)

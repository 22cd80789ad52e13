"""Number formats of matrix products, and what one number of each takes.

Number formats of serving: how weights are stored, and what a chip computes in.

Weights may lie in a format that the chip cannot multiply: they are widened on the way, to the next
wider format that it has. Training does not do that: a step needs products of its precision.
"""

from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct

from netplan.errors import InputError
from netplan.inputs.choices import Precision, ServingFormat
from netplan.workloads.accelerators import Accelerator

NUMBER_BYTES: dict[Precision, float] = {"bf16": 2.0, "fp8": 1.0, "fp4": 0.5625}
"""Bytes of one number; of fp4 with its share of a scale of 8 bits for every 16 numbers [B]."""

ALIASES: dict[str, Precision] = {"fp16": "bf16"}
"""Formats of the same size and rate under another name."""


def precision_named(name: str) -> Precision:
    """Precision of a name; fp16 is timed as bf16.

    Raises
    ------
    InputError
        If no format is called so.

    Examples
    --------
    >>> precision_named("fp16")
    'bf16'
    """
    return _named(name, NUMBER_BYTES, ALIASES)


FormatT = TypeVar("FormatT", Precision, ServingFormat)


def _named(name: str, known: dict[FormatT, float], aliases: Mapping[str, FormatT]) -> FormatT:
    for known_format in known:
        if aliases.get(name, name) == known_format:
            return known_format
    raise InputError(f"unknown precision {name!r:.40}: use {', '.join((*known, *aliases))}")


SERVING_ALIASES: dict[str, ServingFormat] = {**ALIASES, "nvfp4": "fp4", "mxfp4": "fp4"}
"""Formats of the same size and rate under another name."""

WEIGHT_BYTES: dict[ServingFormat, float] = {
    "bf16": NUMBER_BYTES["bf16"],
    "fp8": NUMBER_BYTES["fp8"],
    "fp4": NUMBER_BYTES["fp4"],
    "int4": 0.5625,
}
"""Bytes of one weight; of int4 with its share of a scale of 16 bits for every 32 weights, as in
Kimi K2.5 (groups of 128, also in use, take 0.5156) [B]."""

MXFP4_BYTES = 0.53125
"""Bytes of one weight of mxfp4, with its share of a scale of 8 bits for every 32 weights [B]."""

WIDER: dict[ServingFormat, tuple[Precision, ...]] = {
    "bf16": ("bf16",),
    "fp8": ("fp8", "bf16"),
    "fp4": ("fp4", "fp8", "bf16"),
    "int4": ("bf16",),
}
"""Formats that products may be computed in, the first that the chip has."""


class ServingPrecision(Struct, frozen=True):
    """In which format weights lie, and in which they are multiplied.

    Parameters
    ----------
    asked
        Format of the weights.
    weight_bytes
        Bytes of one weight, its share of scales included [B].
    compute
        Format of products.
    peak_flops_per_s
        Peak of the chip in it [FLOP/s].
    note
        One sentence where products are computed in a wider format than weights lie in, else empty.
    """

    asked: ServingFormat
    weight_bytes: float
    compute: Precision
    peak_flops_per_s: float
    note: str


def serving_format(name: str) -> ServingFormat:
    """Format of a name, aliases as what they are timed as.

    Raises
    ------
    InputError
        If no format is called so.

    Examples
    --------
    >>> serving_format("nvfp4"), serving_format("int4")
    ('fp4', 'int4')
    """
    return _named(name, WEIGHT_BYTES, SERVING_ALIASES)


def serving_precision(accelerator: Accelerator, asked: str) -> ServingPrecision:
    """How weights of a format are served by an accelerator.

    Raises
    ------
    InputError
        If no format is called so.

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> one = serving_precision(ACCELERATORS.load("h200"), "fp4")
    >>> one.weight_bytes, one.compute, one.peak_flops_per_s
    (0.5625, 'fp8', 1979000000000000.0)
    >>> one.note
    'h200 multiplies weights of fp4, 0.5625 B each with scales, in fp8.'
    """
    wanted, peaks = serving_format(asked), accelerator.peaks_flops_per_s
    compute = next(precision for precision in WIDER[wanted] if precision in peaks)
    weight_bytes = WEIGHT_BYTES[wanted]
    note = ""
    if compute != wanted:
        note = (
            f"{accelerator.name} multiplies weights of {wanted}, {weight_bytes:g} B each with"
            f" scales, in {compute}."
        )
    return ServingPrecision(wanted, weight_bytes, compute, peaks[compute], note)


def published_precision(accelerator: Accelerator, model: str) -> ServingPrecision:
    """How weights of mxfp4 are served, as publishers make them, by an accelerator.

    Chips that multiply numbers of 4 bits multiply such weights by numbers of 8 bits (w4a8), others
    by those of 16 (w4a16).

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> served = published_precision(ACCELERATORS.load("h200"), "gpt-oss-20b")
    >>> served.compute, served.weight_bytes
    ('bf16', 0.53125)
    >>> served.note
    'Experts of gpt-oss-20b are published in mxfp4, 0.53125 B a weight, and multiplied in bf16.'
    """
    compute: Precision = "fp8" if "fp4" in accelerator.narrow_flops_per_s else "bf16"
    note = (
        f"Experts of {model} are published in mxfp4, {MXFP4_BYTES:g} B a weight, and multiplied in"
        f" {compute}."
    )
    peak = accelerator.peaks_flops_per_s[compute]
    return ServingPrecision("fp4", MXFP4_BYTES, compute, peak, note)

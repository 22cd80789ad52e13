"""Number formats of matrix products, and what one number of each takes."""

from netplan.errors import InputError
from netplan.inputs.choices import Precision

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
    found = ALIASES.get(name, name)
    if found not in NUMBER_BYTES:
        known = ", ".join((*NUMBER_BYTES, *ALIASES))
        raise InputError(f"unknown precision {name!r:.40}: use {known}")
    return found

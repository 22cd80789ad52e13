"""Number formats of matrix products, and what one number of each takes."""

from typing import Literal

Precision = Literal["bf16", "fp8", "fp4"]

NUMBER_BYTES: dict[Precision, float] = {"bf16": 2.0, "fp8": 1.0, "fp4": 0.5625}
"""Bytes of one number; of fp4 with its share of a scale of 8 bits for every 16 numbers [B]."""

"""Formats of weights in serving, and what chips compute in."""

import pytest

from netplan.errors import InputError
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.precision import WEIGHT_BYTES, serving_precision

# Half a byte and 8 bits of scale for 16 numbers, or 16 bits for 32.
FOUR_BITS = 0.5 + 1 / 16
assert FOUR_BITS == 0.5 + 2 / 32


@pytest.mark.parametrize(
    ("chip", "asked", "weight_bytes", "compute", "peak"),
    [
        ("h100-80gb", "bf16", 2, "bf16", 989.4e12),
        ("h100-80gb", "fp16", 2, "bf16", 989.4e12),
        ("h100-80gb", "fp8", 1, "fp8", 1979e12),
        ("gb300", "fp4", FOUR_BITS, "fp4", 15e15),
        ("mi355x", "mxfp4", FOUR_BITS, "fp4", 10066e12),
        ("h200", "nvfp4", FOUR_BITS, "fp8", 1979e12),
        ("a100-80gb", "fp4", FOUR_BITS, "bf16", 312e12),
        ("a100-80gb", "fp8", 1, "bf16", 312e12),
        ("sn40l", "fp8", 1, "bf16", 638e12),
        ("gb300", "int4", FOUR_BITS, "bf16", 2500e12),
    ],
)
def test_products_take_the_next_wider_format_that_the_chip_has(
    chip: str, asked: str, weight_bytes: float, compute: str, peak: float
) -> None:
    one = serving_precision(ACCELERATORS.load(chip), asked)
    assert (one.weight_bytes, one.compute, one.peak_flops_per_s) == (weight_bytes, compute, peak)
    assert bool(one.note) == (one.asked != compute)


@pytest.mark.parametrize(
    ("chip", "asked", "note"),
    [
        ("a100-80gb", "fp8", "a100-80gb multiplies weights of fp8, 1 B each with scales, in bf16."),
        ("b200", "int4", "b200 multiplies weights of int4, 0.5625 B each with scales, in bf16."),
        ("b200", "nvfp4", ""),
    ],
)
def test_a_note_says_what_is_widened(chip: str, asked: str, note: str) -> None:
    assert serving_precision(ACCELERATORS.load(chip), asked).note == note


@pytest.mark.parametrize("chip", sorted(ACCELERATORS.paths()))
def test_every_chip_serves_every_format(chip: str) -> None:
    """Narrower weights are never multiplied more slowly, but for int4, which is for storage."""
    found = [serving_precision(ACCELERATORS.load(chip), one) for one in WEIGHT_BYTES]
    by_format = {one.asked: one for one in found}
    bf16, fp8, fp4, int4 = (by_format[name].peak_flops_per_s for name in WEIGHT_BYTES)
    assert bf16 == int4 <= fp8 <= fp4


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(InputError, match=r"'int3': use bf16, fp8, fp4, int4, fp16"):
        serving_precision(ACCELERATORS.load("h200"), "int3")

"""Which sizes of a torus can have circuit switches or a twist; the nearest that can."""

from collections.abc import Sequence
from itertools import product

LEAST_CUBE = 3
"""Side of the smallest cube whose two faces have GPUs of their own beside its inside [1]."""
MAX_DIMENSIONS = 6


def refuse_other_cubes(side: int, sizes: Sequence[int], *, single: bool) -> None:
    """Refuse circuit switches between others than whole cubes of ``single`` GPUs, in rings.

    Raises
    ------
    ValueError
        If the faces of the blocks, whose side is given, cannot be joined.
    """
    if side < LEAST_CUBE or not single:
        raise ValueError(
            f"circuit_switch joins the faces of cubes: it needs copper_block of {LEAST_CUBE} or"
            " more, hb_size: 1 and wraparound"
        )
    if any(size % side for size in sizes):
        whole = [max(side, round(size / side) * side) for size in sizes]
        raise ValueError(
            f"circuit_switch needs sizes that are multiples of {side}: got"
            f" {_by(sizes)}, the nearest that works is {_by(whole)}"
        )


def refuse_other_twists(sizes: Sequence[int] | None, dimensions: int, *, rings: bool) -> None:
    """Refuse a twist without rings, or of sizes that are not once and twice the same.

    Raises
    ------
    ValueError
        If these sizes, or so many dimensions where there are none, take no twist.
    """
    axes = len(sizes) if sizes else dimensions
    if not rings or not 1 < axes <= MAX_DIMENSIONS:
        raise ValueError(
            f"twist shifts links around: it needs wraparound, and 2 to {MAX_DIMENSIONS} dimensions"
        )
    short = min(sizes or (1,))
    if sizes is None or (short > 1 and {short, 2 * short} == set(sizes)):
        return
    raise ValueError(
        f"twist needs sizes of k and of 2 k, k at least 2: got {_by(sizes)}, the nearest that works"
        f" is {_by(nearest_twist(sizes))}"
    )


def _by(sizes: Sequence[int]) -> str:
    """Sizes as a message has them."""
    return " x ".join(map(str, sizes))


def nearest_twist(sizes: Sequence[int]) -> tuple[int, ...]:
    """Nearest sizes that take a twist: some k, some 2 k.

    Examples
    --------
    >>> nearest_twist((4, 4, 12)), nearest_twist((6, 6, 6)), nearest_twist((1, 9))
    ((4, 4, 8), (3, 6, 6), (4, 8))
    """

    def away(found: tuple[int, ...]) -> int:
        return sum(abs(one - other) for one, other in zip(sizes, found, strict=True))

    # The best k of each pattern is a median of what the sizes ask.
    shorts = {max(2, size // once + more) for size in sizes for once in (1, 2) for more in (0, 1)}
    patterns = [one for one in product((1, 2), repeat=len(sizes)) if len(set(one)) > 1]
    return min(
        (tuple(k * one for one in way) for k in sorted(shorts) for way in patterns), key=away
    )

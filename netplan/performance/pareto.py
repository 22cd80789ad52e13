"""Pareto fronts of two numbers, both better when smaller, and where a front bends most."""

from collections.abc import Sequence

Point = tuple[float, float]
SIGNIFICANT = 12
"""Digits that rounding leaves as they are [1]."""

BENT = 3
"""Fewest points of a front that can bend [1]."""

STRAIGHT = 1e-9
"""Points this near to the line lie on it; rounding moves them by less [1]."""


def comparable(value: float) -> float:
    """A value without the noise of rounding in its last digits.

    Times of one plan on equal levels differ there by the order of the sums.

    Examples
    --------
    >>> comparable(0.1 + 0.2) == comparable(0.3)
    True
    """
    return float(f"{value:.{SIGNIFICANT}g}")


def pareto_front(points: Sequence[Point]) -> list[list[int]]:
    """Points that no other beats: none is at least as good in both and better in one.

    Parameters
    ----------
    points
        Two numbers each, better when smaller.

    Returns
    -------
    list of list of int
        Where the points of the front stand, by rising first number; equal points together.

    Examples
    --------
    >>> pareto_front([(2, 5), (1, 9), (3, 5), (2, 5), (1, 9.5)])
    [[1], [0, 3]]
    """
    front: list[list[int]] = []
    for index in sorted(range(len(points)), key=lambda index: (*points[index], index)):
        if not front or points[index][1] < points[front[-1][0]][1]:
            front.append([index])
        elif points[index] == points[front[-1][0]]:
            front[-1].append(index)
    return front


def knee(points: Sequence[Point]) -> int | None:
    """Where a front bends most: the point farthest below the line from its first to its last.

    Both numbers are scaled to the span of the front. None for fewer than three points, or if none
    lies below the line.

    Parameters
    ----------
    points
        A front, by rising first and falling second number.

    Examples
    --------
    >>> knee([(1, 10), (2, 3), (5, 2), (9, 1)]), knee([(1, 2), (2, 1)])
    (1, None)
    """
    if len(points) < BENT:
        return None
    (left, top), (right, bottom) = points[0], points[-1]
    below = [1 - (x - left) / (right - left) - (y - bottom) / (top - bottom) for x, y in points]
    deepest = max(range(len(points)), key=below.__getitem__)
    return deepest if below[deepest] > STRAIGHT else None

"""The Pareto front of rows: those that no other row beats in both of two outputs."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import TypeVar

from netplan.studies.points import Scalar

RowT = TypeVar("RowT", bound=Mapping[str, Scalar])


def pareto_front(rows: Sequence[RowT], x: str, y: str) -> list[RowT]:
    """Rows with the least y for their x or less, by rising x; rows without numbers are left out.

    Of rows equal in both the first stands for all.

    Examples
    --------
    >>> rows = [{"usd": 1, "s": 9}, {"usd": 2, "s": 5}, {"usd": 3, "s": 7}, {"usd": 4, "s": None}]
    >>> pareto_front(rows, "usd", "s")
    [{'usd': 1, 's': 9}, {'usd': 2, 's': 5}]
    """
    numbered = [
        (float(a), float(b), at)
        for at, (a, b) in enumerate((row[x], row[y]) for row in rows)
        if isinstance(a, (int, float)) and isinstance(b, (int, float))
    ]
    least, front = inf, []
    for _, value, at in sorted(numbered):
        if value < least:
            least = value
            front.append(rows[at])
    return front

"""Cases of which some stand in every run of the tests, and all others among the slow ones."""

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet


def one_in(share: int, cases: Iterable[object]) -> list[ParameterSet]:
    """One case in so many for every run; tuples are the values of several parameters.

    >>> [len(one.marks) for one in one_in(3, range(5))]
    [0, 1, 1, 0, 1]
    """
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[pytest.mark.slow] if at % share else [],
        )
        for at, case in enumerate(cases)
    ]

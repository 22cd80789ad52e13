"""Times in whole ticks of a power of two: sums are exact, equal times are equal.

So a run repeats itself exactly, and the same question gives the same bytes. A tick is so short a
part of an iteration that rounding to it changes no digit that anybody reads.
"""

from math import frexp

TICKED = 1_024
"""Microbatches of an iteration that ticks are made for, at most [1].

A run that repeats itself ends before that, and ticks of all of it would round each operation of
very many microbatches.
"""


def tick_of(longest_s: float, digits: int) -> float:
    """A power of two, of which a time is 2^(digits - 1) up to 2^digits [s].

    Examples
    --------
    >>> tick_of(3.0, digits=4)
    0.25
    """
    return 2.0 ** (frexp(longest_s)[1] - digits)


def in_ticks(seconds: float, tick_s: float) -> float:
    """The nearest whole number of ticks [s].

    Examples
    --------
    >>> in_ticks(0.7, 0.25)
    0.75
    """
    return tick_s * round(seconds / tick_s)

r"""How long answers are: whole tokens from 1 to a cap, at which longer ones stop.

F(k) is the share of answers of at most k tokens, F(cap) = 1. With alive(k) = 1 - F(k),
k = 0 ... cap - 1, sums over the tokens give the order statistics exactly:

=====================  ========================================
mean                   sum of alive(k)
mean of the square     sum of (2 k + 1) alive(k)
longest of n           sum of 1 - F(k)^n
j-th shortest of m     sum of P(Bin(m, F(k)) < j)
tokens after x rounds  E[min(L, x)] = sum of alive(k) for k < x
=====================  ========================================

Published runs print means, and no distribution: lengths of your own come from a file
(:meth:`Lengths.measured`). Order statistics: David and Nagaraja, Order Statistics, 2003, Ch. 2, 3.

Attention is quadratic in a sequence, all else linear: of answers of mixed lengths a batch of s*
tokens a sequence with as many tokens and as large a sum of squares costs the same. s = P + L,
prompt and answer:

    s* = E[s^2] / E[s],   N* = N E[s]^2 / E[s^2].

Packing puts sequences into bins of first fit decreasing (Johnson, 1973); what is padded is paid.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from functools import cached_property
from math import exp, isfinite, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from netplan.arrays import Floats, Ints
from netplan.errors import InputError

Z99 = 2.3263478740408408
"""99th percentile of the normal distribution [1]."""

P99_OF = 100
"""One answer in so many is longer than P99 [1]."""

MOST_LOGNORMAL = exp(Z99**2 / 2)
"""P99 over the mean of a lognormal law, at most: 14.97 [1]."""


def _shape_ratio(shape: float) -> float:
    """Logarithm of P99 over the mean of a Pareto law [1]."""
    return log(1 - 1 / shape) + log(P99_OF) / shape


LEAST_SHAPE = log(P99_OF) / (log(P99_OF) - 1)
"""Shape of a Pareto law whose P99 is most above its mean: 1.277; larger roots lie above it [1]."""

MOST_PARETO_RATIO = exp(_shape_ratio(LEAST_SHAPE))
"""P99 over the mean of a Pareto law, at most: 7.99 [1]."""

LARGEST_SHAPE, HALVINGS = 1e6, 200
"""Where the search for a shape begins above, and how often its interval is halved [1]."""


NARROWEST = 1e-9
"""Spread below which lengths of a law differ by no token [1]."""

LONGEST_CAP = 10_000_000
"""Tokens of an answer, at most: beyond that tables of them do not fit [1]."""


class Lengths:
    """Lengths of answers.

    Parameters
    ----------
    below
        Share of answers of at most k tokens, k = 0 ... cap, rising to 1, shape (cap + 1,) [1].

    Raises
    ------
    InputError
        If the shares fall, or do not end at 1.

    Examples
    --------
    >>> lengths = Lengths.measured([1, 2, 3, 10])
    >>> lengths.mean, lengths.square, float(lengths.longest(8)).__round__(4)
    (4.0, 28.5, 9.2953)
    """

    def __init__(self, below: ArrayLike) -> None:
        self.below: Floats = np.asarray(below, dtype=np.float64)
        rises = self.below.ndim == 1 and len(self.below) > 1 and (np.diff(self.below) >= 0).all()
        if not rises or self.below[0] < 0 or self.below[-1] != 1:
            raise InputError("shares of answers by length rise from 0 to 1: give a whole one")

    @property
    def cap(self) -> int:
        """Longest answer [tokens]."""
        return len(self.below) - 1

    @cached_property
    def alive(self) -> Floats:
        """Share of answers that have more than k tokens, k = 0 ... cap - 1, shape (cap,) [1]."""
        return np.asarray(1 - self.below[:-1])

    @cached_property
    def mean(self) -> float:
        """Mean length [tokens]."""
        return float(self.alive.sum())

    @cached_property
    def square(self) -> float:
        """Mean of the square of the length [tokens^2]."""
        return float(((2 * np.arange(self.cap) + 1) * self.alive).sum())

    @property
    def p99(self) -> int:
        """Least length that 99 of 100 answers do not exceed [tokens]."""
        return int(np.searchsorted(self.below, 1 - 1 / P99_OF, side="left"))

    @property
    def at_cap(self) -> float:
        """Share of answers that reach the cap [1]."""
        return float(self.alive[-1])

    @property
    def rest(self) -> float:
        """What an answer that is met on its way has still to go, in the mean [tokens]."""
        return self.square / (2 * self.mean)

    @classmethod
    def lognormal(cls, mean: float, p99: float, cap: int) -> "Lengths":
        """Lognormal lengths.

        sigma = z - sqrt(z^2 - 2 ln(q/m)) with z = 2.3263, mu = ln m - sigma^2 / 2.

        Parameters
        ----------
        mean, p99
            Mean m and 99th percentile q before the cap [tokens].
        cap
            Longest answer [tokens].

        Raises
        ------
        InputError
            If the percentile is not 1 to 14.97 times the mean, or the cap below the mean.

        Examples
        --------
        >>> lengths = Lengths.lognormal(2000, 8000, cap=16384)
        >>> round(lengths.mean, 3), round(float(lengths.longest(512)), 1)
        (1999.029, 13005.1)
        """
        _check(mean, p99, cap, MOST_LOGNORMAL, "lognormal")
        from scipy.special import ndtr  # noqa: PLC0415 - of this law alone

        # z - sqrt(z^2 - 2 x), without the difference of two numbers that are almost equal.
        sigma = 2 * log(p99 / mean) / (Z99 + sqrt(max(0.0, Z99**2 - 2 * log(p99 / mean))))
        if sigma < NARROWEST:
            return cls.fixed(mean, cap)
        mu = log(mean) - sigma**2 / 2
        below = ndtr((np.log(np.arange(1, cap + 1)) - mu) / sigma)
        below[-1] = 1.0
        return cls(np.concatenate([[0.0], below]))

    @classmethod
    def pareto(cls, mean: float, p99: float, cap: int) -> "Lengths":
        """Pareto lengths (type I), whose shape a is the larger root of (1 - 1/a) 100^(1/a) = q/m.

        Parameters
        ----------
        mean, p99, cap
            As of :meth:`lognormal` [tokens].

        Raises
        ------
        InputError
            If no shape has such a percentile, or the cap is below the mean.

        Examples
        --------
        >>> round(Lengths.pareto(2000, 8000, cap=16384).mean, 4)
        1979.1639
        """
        _check(mean, p99, cap, MOST_PARETO_RATIO, "Pareto")
        if p99 == mean:
            return cls.fixed(mean, cap)
        low, high = LEAST_SHAPE, LARGEST_SHAPE
        for _ in range(HALVINGS):
            middle = sqrt(low * high)
            wider = _shape_ratio(middle) > log(p99 / mean)
            low, high = (middle, high) if wider else (low, middle)
        shape = sqrt(low * high)
        least = mean * (shape - 1) / shape
        tokens = np.arange(cap + 1)
        below = 1 - (least / np.maximum(tokens, least)) ** shape
        below[-1] = 1.0
        return cls(below)

    @classmethod
    def fixed(cls, length: float, cap: int | None = None) -> "Lengths":
        """Answers that are all as long, in whole tokens, up to the cap.

        Raises
        ------
        InputError
            If the length is below 1.

        Examples
        --------
        >>> Lengths.fixed(1023.5).mean
        1024.0
        """
        if not 1 <= length <= LONGEST_CAP:
            raise InputError(f"answers of {length:g} tokens: give 1 to {LONGEST_CAP:,}")
        whole = int(np.ceil(length))
        whole = whole if cap is None else min(whole, cap)
        return cls(np.concatenate([np.zeros(whole), [1.0]]))

    @classmethod
    def measured(
        cls, lengths: ArrayLike, counts: ArrayLike | None = None, cap: int | None = None
    ) -> "Lengths":
        """Lengths as they were measured, each once or as often as it is counted.

        Parameters
        ----------
        lengths, counts
            Lengths, and how often each was met, shape (rows,) each [tokens, 1].
        cap
            Where longer ones stop; None for the longest [tokens].

        Raises
        ------
        InputError
            If there are none, or one is not a whole number from 1 on, or a count below 0.
        """
        rows = np.atleast_1d(np.asarray(lengths, dtype=np.float64))
        weights = np.ones(len(rows))
        if counts is not None:
            weights = np.atleast_1d(np.asarray(counts, dtype=np.float64))
        whole = rows.ndim == 1 and len(rows) > 0 and (rows == np.floor(rows)).all()
        if not whole or rows.min() < 1 or rows.max() > LONGEST_CAP:
            raise InputError(
                f"lengths are whole numbers from 1 to {LONGEST_CAP:,}, one a row: got"
                f" {len(rows):,} rows, of which some are others"
            )
        counted = weights.shape == rows.shape and np.isfinite(weights).all()
        if not counted or weights.min() < 0 or not weights.sum():
            raise InputError("counts of lengths are numbers from 0 on, one a row, not all 0")
        last = int(rows.max()) if cap is None else cap
        mass = np.bincount(np.minimum(rows, last).astype(np.int64), weights, last + 1)
        below = np.cumsum(mass) / mass.sum()
        below[-1] = 1.0
        return cls(below)

    def longest(self, answers: ArrayLike) -> Floats:
        """Expected longest of so many answers, of any shape [tokens].

        Examples
        --------
        >>> Lengths.measured([1, 3]).longest([1, 2]).tolist()  # 1 or 3; 1, 3, 3 or 3
        [2.0, 2.5]
        """
        counts = np.asarray(answers, dtype=np.float64)
        flat = np.array([(1 - self.below[:-1] ** count).sum() for count in counts.ravel()])
        return np.asarray(flat.reshape(counts.shape))

    def kth(self, shortest: int, answers: int) -> float:
        """Expected k-th shortest of m answers [tokens].

        Raises
        ------
        InputError
            If it is not among them.

        Examples
        --------
        >>> round(Lengths.measured([1, 2, 3, 10]).kth(8, 10), 8)
        6.26574707
        """
        if not 1 <= shortest <= answers:
            raise InputError(f"the {shortest:,}. shortest of {answers:,} answers: give 1 to that")
        from scipy.special import bdtr  # noqa: PLC0415 - of this law alone

        fewer: Floats = bdtr(shortest - 1, answers, self.below[:-1])
        return float(fewer.sum())

    def tokens_until(self, rounds: ArrayLike) -> Floats:
        """Tokens that an answer has after so many rounds, in the mean, of any shape [tokens].

        Examples
        --------
        >>> Lengths.measured([1, 2, 3, 10]).tokens_until([0, 1.5, 10]).tolist()
        [0.0, 1.375, 4.0]
        """
        sums = np.concatenate([[0.0], np.cumsum(self.alive)])
        return np.asarray(
            np.interp(np.asarray(rounds, dtype=np.float64), np.arange(self.cap + 1), sums)
        )

    def draw(self, rng: np.random.Generator, answers: int) -> Ints:
        """Lengths of so many answers, shape (answers,) [tokens]."""
        return np.searchsorted(self.below, rng.random(answers), side="left")


def _check(mean: float, p99: float, cap: int, most: float, law: str) -> None:
    """Refuse numbers that no such law has."""
    if not (isfinite(mean) and isfinite(p99) and mean >= 1):
        raise InputError(f"answers of {mean:g} tokens in the mean: give at least 1")
    if not mean <= cap <= LONGEST_CAP:
        raise InputError(
            f"answers stop at {cap:,} tokens and have {mean:g} in the mean: give a cap from the"
            f" mean to {LONGEST_CAP:,}"
        )
    if not 1 <= p99 / mean <= most:
        raise InputError(
            f"answers whose P99 is {p99 / mean:.3g} times the mean: a {law} law has 1 to"
            f" {most:.4g}; give a file of lengths"
        )


def equivalent_batch(lengths: Lengths, answers: float, prompt_tokens: float) -> tuple[float, float]:
    """Equal sequences with the tokens and the sum of squares of prompts and answers.

    Parameters
    ----------
    lengths, answers
        How long answers are, and how many [1].
    prompt_tokens
        Of each, P [tokens].

    Returns
    -------
    tuple of float
        Tokens of each, and how many of them; their product is the tokens of all [tokens, 1].

    Raises
    ------
    InputError
        If there are less than no answers, or tokens of a prompt.

    Examples
    --------
    >>> lengths = Lengths.lognormal(2000, 8000, cap=16384)
    >>> sequence, batch = equivalent_batch(lengths, 512, prompt_tokens=512)
    >>> round(sequence, 3), round(batch, 3)
    (3502.981, 367.015)
    """
    if answers < 0 or prompt_tokens < 0:
        raise InputError(
            f"{answers:g} answers to prompts of {prompt_tokens:g} tokens: give 0 or more"
        )
    mean = prompt_tokens + lengths.mean
    square = prompt_tokens**2 + 2 * prompt_tokens * lengths.mean + lengths.square
    return square / mean, answers * mean**2 / square


class Packed(NamedTuple):
    """Bins of a packing, and the share of their tokens that is used [1]."""

    bins: int
    used: float


def packed_bins(sizes: Iterable[int], bin_tokens: int) -> Packed:
    """Bins of first fit decreasing.

    Sequences of one size go into the first bin with room, in the order in which bins were opened.

    Parameters
    ----------
    sizes
        Tokens of each sequence [tokens].
    bin_tokens
        Of a bin [tokens].

    Raises
    ------
    InputError
        If there are none, or one fits no bin.

    Examples
    --------
    >>> packed_bins([5, 4, 4, 3, 2, 2], 8)
    Packed(bins=3, used=0.8333333333333334)
    """
    order = sorted((int(size) for size in sizes), reverse=True)
    if not order or order[-1] < 0 or order[0] > bin_tokens:
        largest = f"one of {order[0]:,} tokens" if order else "none"
        raise InputError(
            f"sequences for bins of {bin_tokens:,} tokens, {largest}: give larger ones"
        )
    # Bins by what is free in them and when they were opened; the first of those with room is the
    # least number among all with enough free, so that bins of equal room are kept in order.
    free: dict[int, list[int]] = {}
    rooms: list[int] = []
    opened = 0
    for size in order:
        fitting = rooms[bisect_left(rooms, size) :]
        room = min(fitting, key=lambda left: free[left][0], default=None)
        if room is None:
            number, left, opened = opened, bin_tokens - size, opened + 1
        else:
            number, left = free[room].pop(0), room - size
            if not free[room]:
                del free[room]
                rooms.remove(room)
        if left not in free:
            insort(rooms, left)
        insort(free.setdefault(left, []), number)
    return Packed(opened, sum(order) / (opened * bin_tokens))


def padded_use(lengths: Lengths, microbatch: int, prompt_tokens: float) -> float:
    """Share of the tokens that is used where a microbatch is padded to its longest sequence [1].

    Parameters
    ----------
    lengths
        How long answers are.
    microbatch
        Sequences that are padded together [1].
    prompt_tokens
        Of each [tokens].

    Examples
    --------
    >>> padded_use(Lengths.measured([1, 3]), 2, prompt_tokens=0)  # 2 of 2.5
    0.8
    """
    longest = prompt_tokens + float(lengths.longest(microbatch))
    return (prompt_tokens + lengths.mean) / longest

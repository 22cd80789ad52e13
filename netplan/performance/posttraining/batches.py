"""Training on answers of mixed lengths: the sequences that a model of equal ones is asked for.

Attention is quadratic in a sequence, all else linear: a batch of s* tokens a sequence with as many
tokens and as large a sum of squares costs the same. s = P + L, prompt and answer:

    s* = E[s^2] / E[s],   N* = N E[s]^2 / E[s^2].

Packing puts sequences into bins of first fit decreasing (Johnson, 1973); what is padded is paid.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple

from netplan.errors import InputError
from netplan.performance.posttraining.lengths import Lengths


class EquivalentBatch(NamedTuple):
    """Equal sequences that cost as much: tokens of each, and how many of them [tokens, 1]."""

    sequence: float
    batch: float


def equivalent_batch(lengths: Lengths, answers: float, prompt_tokens: float) -> EquivalentBatch:
    """Equal sequences with the tokens and the sum of squares of prompts and answers.

    Parameters
    ----------
    lengths, answers
        How long answers are, and how many [1].
    prompt_tokens
        Of each, P [tokens].

    Returns
    -------
    EquivalentBatch
        Their product is the tokens of all.

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
    return EquivalentBatch(square / mean, answers * mean**2 / square)


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

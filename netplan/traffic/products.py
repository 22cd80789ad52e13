"""Uniform traffic of whole groups, kept as products so that no pair is ever listed.

In an all_to_all every member sends alike to every other, and what a sends to b is one constant. It
stays a product of two factors on every part of the way, also where GPUs forward for others: ends
that a sends for, times ends that lie behind b. The load of a link is then a difference of sums over
groups, not a sum over pairs: 67 million pairs of 8,192 GPUs cost as much as 8,192 numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netplan.arrays import AnyInts, Floats
from netplan.errors import InputError

MAX_LISTED_PAIRS = 1 << 26


def sum_by(index: AnyInts, amounts: Floats, size: int) -> Floats:
    """Sum amounts that have the same index, shape (size,).

    >>> sum_by(np.array([0, 2, 2]), np.array([1.0, 2.0, 3.0]), 4)
    array([1., 0., 5., 0.])
    """
    return np.bincount(index, weights=amounts, minlength=size).astype(np.float64, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Traffic within labels: entry a sends b ``pair_bytes * out_share[a] * in_share[b]`` bytes.

    Parameters
    ----------
    label
        Entries with the same number exchange traffic, shape (entries,).
    apart
        Two entries with the same number here exchange nothing (same GPU, or same HB domain).
    gpu
        GPU of each entry.
    out_share, in_share
        Two whole numbers: ends that a sends for, ends that lie behind b [1].
    pair_bytes
        From one end to another [B].
    """

    label: AnyInts
    apart: AnyInts
    gpu: AnyInts
    out_share: Floats
    in_share: Floats
    pair_bytes: float

    def sent_beyond(self, *places: AnyInts) -> Floats:
        """Bytes that each entry sends to entries that differ from it in every one of ``places``."""
        ends = _beyond(self.in_share, self.label, (self.apart, *places))
        return self.pair_bytes * self.out_share * ends

    def received_beyond(self, *places: AnyInts) -> Floats:
        """Bytes that each entry receives from entries that differ in every one of ``places``."""
        ends = _beyond(self.out_share, self.label, (self.apart, *places))
        return self.pair_bytes * self.in_share * ends

    def listed(self) -> tuple[AnyInts, AnyInts, Floats]:
        """Write the pairs out: sources, destinations, bytes.

        Raises
        ------
        InputError
            If there are more than 67 million.
        """
        order = np.argsort(self.label, kind="stable")
        _, starts, counts = np.unique(self.label[order], return_index=True, return_counts=True)
        pairs = int((counts.astype(np.float64) ** 2).sum())
        if pairs > MAX_LISTED_PAIRS:
            raise InputError(
                f"uniform groups of {pairs:,} pairs cannot be routed one by one, at most"
                f" {MAX_LISTED_PAIRS:,}: take a routing that keeps groups whole, or smaller groups"
            )
        size, start = (np.repeat(values, counts) for values in (counts, starts))
        first = np.repeat(np.arange(len(order)), size)
        second = np.arange(len(first)) - np.repeat(np.cumsum(size) - size - start, size)
        a, b = order[first], order[second]
        amount = self.pair_bytes * self.out_share[a] * self.in_share[b]
        keep = (self.apart[a] != self.apart[b]) & (amount > 0)
        return self.gpu[a[keep]], self.gpu[b[keep]], amount[keep]


def _beyond(values: Floats, label: AnyInts, places: Sequence[AnyInts]) -> Floats:
    """Sum, for each entry, the values of its label that differ from it in every place.

    Inclusion and exclusion over the places: all, less those that agree in one, plus those that
    agree in two, and so on. The values are whole numbers, so that what cancels leaves exactly 0.
    """
    total = np.zeros(len(values))
    for subset in range(1 << len(places)):
        chosen = [place for bit, place in enumerate(places) if subset >> bit & 1]
        sign = -1.0 if len(chosen) % 2 else 1.0
        key = label.astype(np.int64)
        for place in chosen:
            key = np.unique(key, return_inverse=True)[1] * (int(place.max()) + 1) + place
        _, same = np.unique(key, return_inverse=True)
        total += sign * sum_by(same, values, int(same.max()) + 1)[same]
    return total

"""Risk groups: parts that fail together, because they share a rack, a power feed, a fibre duct.

Groups hold parts as one sparse array: the members of group g are ``member[start[g]:start[g + 1]]``.
A group may lie inside another (server, rack, feed); the outer one then has all its parts. A random
failure of a known total rate picks its group by weight: a Poisson process that is split at random
gives Poisson processes again, so that weights turn into rates.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from netplan.arrays import Floats, Ints
from netplan.errors import InputError


@dataclass(frozen=True, slots=True)
class RiskGroups:
    """Groups of parts that fail at once.

    Parameters
    ----------
    labels
        Kinds of groups, such as ``rack``; results are summed by them.
    label_of
        Label of each group, shape (groups,).
    rate_per_year
        Failures of each group, shape (groups,) [1/year].
    interrupts
        Probability that a failure of the group stops the job, shape (groups,) [1].
    start, member
        Parts of each group, as above: shapes (groups + 1,) and (memberships,).
    cause_of
        Cause of each part by its place in :class:`netplan.faults.outages.Exposure`, which
        names the pool that replaces it; shape (parts,).
    """

    labels: tuple[str, ...]
    label_of: Ints
    rate_per_year: Floats
    interrupts: Floats
    start: Ints
    member: Ints
    cause_of: Ints

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together.

        Raises
        ------
        InputError
            If shapes, parts, rates or probabilities are out of range.
        """
        groups = len(self.rate_per_year)
        shapes = {len(self.label_of), len(self.interrupts), len(self.start) - 1, groups}
        if len(shapes) != 1 or self.start[-1] != len(self.member):
            raise InputError(
                f"risk groups: {groups} rates, {len(self.label_of)} labels,"
                f" {len(self.interrupts)} probabilities and {len(self.start)} starts do not fit:"
                " give one of each a group, and one start more"
            )
        if len(self.member) and not 0 <= self.member.min() <= self.member.max() < self.parts:
            raise InputError(
                f"risk groups hold parts {self.member.min():,} to {self.member.max():,}: there are"
                f" 0 to {self.parts - 1:,}"
            )
        if not np.isfinite(self.rate_per_year).all() or (self.rate_per_year < 0).any():
            raise InputError("risk groups: a rate is below 0 or not finite: give failures a year")
        if ((self.interrupts < 0) | (self.interrupts > 1)).any():
            raise InputError("risk groups: interrupts is a probability: give 0 to 1")

    @property
    def groups(self) -> int:
        """Groups [1]."""
        return len(self.rate_per_year)

    @property
    def parts(self) -> int:
        """Parts that groups may hold [1]."""
        return len(self.cause_of)

    @property
    def sizes(self) -> Ints:
        """Parts of each group, shape (groups,) [1]."""
        return np.diff(self.start)

    def parts_by_cause(self, causes: int) -> Ints:
        """Parts of each cause in each group, shape (groups, causes) [1]."""
        group = np.repeat(np.arange(self.groups), self.sizes)
        place = group * causes + self.cause_of[self.member]
        return np.bincount(place, minlength=self.groups * causes).reshape(self.groups, causes)


@dataclass(frozen=True, slots=True)
class GroupKind:
    """One kind of groups, one inside the other or beside: a label and arrays of its groups.

    Parameters
    ----------
    label
        Name of the kind.
    rate_per_year
        Failures of each group, shape (groups,) [1/year].
    group, part
        Memberships: group ``group[i]`` of this kind holds part ``part[i]``.
    inner
        Memberships of whole groups: label of the kind inside, and two arrays as above.
    interrupts
        Probability that a failure stops the job [1].
    """

    label: str
    rate_per_year: Floats
    group: Ints
    part: Ints
    inner: tuple[tuple[str, Ints, Ints], ...] = ()
    interrupts: float = 1.0


def nest_groups(kinds: Sequence[GroupKind], cause_of: Ints) -> RiskGroups:
    """Join kinds of groups; a group has its own parts and those of all groups inside it, once.

    Parameters
    ----------
    kinds
        From the inside out: a kind comes after those that it holds.
    cause_of
        Cause of each part, shape (parts,).

    Raises
    ------
    InputError
        If a kind holds one that does not come before it, which also refuses circles.

    Examples
    --------
    Four servers, two to a rack, and one power feed over both racks.

    >>> servers = np.arange(4)
    >>> rack = GroupKind("rack", np.full(2, 0.02), servers // 2, servers)
    >>> feed = GroupKind("feed", np.array([0.28]), np.array([], np.int64), np.array([], np.int64),
    ...                  inner=(("rack", np.zeros(2, np.int64), np.arange(2)),))
    >>> groups = nest_groups([rack, feed], np.zeros(4, np.int64))
    >>> groups.sizes.tolist(), groups.member.tolist()
    ([2, 2, 4], [0, 1, 2, 3, 0, 1, 2, 3])
    """
    parts = len(cause_of)
    whole: dict[str, csr_array] = {}
    for kind in kinds:
        shape = (len(kind.rate_per_year), parts)
        held = _matrix(kind.group, kind.part, shape)
        for label, outer, inner in kind.inner:
            if label not in whole:
                raise InputError(
                    f"{kind.label} holds {label}, which does not come before it: give kinds from"
                    " the inside out"
                )
            held = held + _matrix(outer, inner, (shape[0], whole[label].shape[0])) @ whole[label]
        held.sort_indices()
        whole[kind.label] = held
    sizes = np.concatenate([np.diff(held.indptr) for held in whole.values()])
    counts = [len(kind.rate_per_year) for kind in kinds]
    return RiskGroups(
        labels=tuple(whole),
        label_of=np.repeat(np.arange(len(kinds)), counts),
        rate_per_year=np.concatenate([kind.rate_per_year for kind in kinds]),
        interrupts=np.repeat([kind.interrupts for kind in kinds], counts),
        start=np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
        member=np.concatenate([held.indices for held in whole.values()]).astype(np.int64),
        cause_of=np.asarray(cause_of, np.int64),
    )


def weighted_rates(failures_per_year: float, weights: Floats) -> Floats:
    """Rates of groups, where each random failure picks one of them by its weight [1/year].

    Parameters
    ----------
    failures_per_year
        Failures of all groups together [1/year].
    weights
        Weight of each group, at least 0, in any unit; shape (groups,).

    Examples
    --------
    >>> weighted_rates(12, np.array([1.0, 3.0])).tolist()
    [3.0, 9.0]
    """
    total = float(weights.sum())
    if not np.isfinite(total) or total <= 0 or (weights < 0).any() or failures_per_year < 0:
        raise InputError(
            f"{failures_per_year:g} failures a year over weights that sum to {total:g}: give 0 or"
            " more failures, weights of at least 0, and one above 0"
        )
    return failures_per_year * weights / total


def draw_groups(
    groups: RiskGroups, count: int, rng: np.random.Generator, weights: Floats | None = None
) -> Ints:
    """Groups that random failures hit, shape (count,), by their rates or by other weights.

    Examples
    --------
    >>> one = GroupKind("rack", np.array([0.0, 0.5]), np.arange(2), np.arange(2))
    >>> groups = nest_groups([one], np.zeros(2, np.int64))
    >>> draw_groups(groups, 3, np.random.default_rng(1)).tolist()
    [1, 1, 1]
    """
    share = weighted_rates(1.0, groups.rate_per_year if weights is None else weights)
    edges = np.cumsum(share)
    # 1 - u lies in (0, 1], so that a group of weight 0 is never picked, at either end.
    picked: Ints = np.searchsorted(edges, (1 - rng.random(count)) * edges[-1])
    return picked


def failed_parts(groups: RiskGroups, failed: Ints) -> tuple[Ints, Ints]:
    """Parts that fail with some groups: which failure, and which part, shapes (failed parts,).

    Parameters
    ----------
    groups
        The groups.
    failed
        One group a failure, shape (failures,), as :func:`draw_groups` gives them.

    Examples
    --------
    >>> servers = np.arange(4)
    >>> rack = GroupKind("rack", np.full(2, 0.02), servers // 2, servers)
    >>> event, part = failed_parts(nest_groups([rack], np.zeros(4, np.int64)), np.array([1, 0]))
    >>> event.tolist(), part.tolist()
    ([0, 0, 1, 1], [2, 3, 0, 1])
    """
    sizes = groups.sizes[failed]
    event = np.repeat(np.arange(len(failed)), sizes)
    # Place of a part among those of its failure, added to where its group starts.
    within = np.arange(len(event)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return event, groups.member[np.repeat(groups.start[failed], sizes) + within]


def _matrix(row: Ints, column: Ints, shape: tuple[int, int]) -> csr_array:
    """Sparse matrix of memberships; one that stands twice counts once in its structure."""
    if len(row) != len(column):
        raise InputError(f"{len(row)} groups and {len(column)} members: give pairs")
    for what, index, size in (("group", row, shape[0]), ("member", column, shape[1])):
        if len(index) and not 0 <= index.min() <= index.max() < size:
            raise InputError(
                f"memberships name {what} {index.min():,} to {index.max():,}: there are {size:,},"
                " counted from 0"
            )
    return csr_array((np.ones(len(row)), (row, column)), shape=shape)

"""Timing designs in the order of their cost, and leaving out those that a bound proves dominated.

A design need not be searched if a lower bound of its iteration time is no better than the time of
a design that is known to cost no more, and worse in at least one of the two. A bound is the known
time on a network that is nowhere slower, or else one search on the best case of all designs with HB
domains of that size (:mod:`netplan.performance.best_case`). Designs with equal levels share one
search.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from netplan.levels import Level, gpu_count
from netplan.performance.best_case import (
    DOMAIN_AND_NETWORK,
    is_never_slower,
    search_best_case,
)
from netplan.performance.pareto import comparable
from netplan.performance.plan import SearchResult
from netplan.performance.search import PlanSearch

Levels = tuple[Level, ...]
Found = SearchResult | str
"""What a search found, or why there is no plan."""

_Group = tuple[int, int]
"""HB domain and GPUs [1]."""

PROVEN = "1d"
"""The strategy whose times the bounds are proven for; under others all levels are searched."""

ROUNDING = 1e-11
"""Bound and times add up the same terms in other orders: the bound gives way by this [1]."""


@dataclass(frozen=True, slots=True)
class Searches:
    """How many plan searches a proof took.

    Parameters
    ----------
    levels
        Different levels among the designs, which is the most that could be searched [1].
    run, bounds
        Searches of designs, and of best cases [1].
    spared
        Levels not searched, since a bound proves all their designs dominated [1].
    plans
        Parallel plans evaluated in all [1].
    """

    levels: int
    run: int
    bounds: int
    spared: int
    plans: int


@dataclass(slots=True)
class _Bounds:
    """Lower bounds of the times on levels: known times of faster networks, and best cases."""

    search: PlanSearch
    groups: dict[_Group, list[Levels]]
    best_cases: dict[_Group, float] = field(default_factory=dict)
    plans: int = 0

    @classmethod
    def of(cls, search: PlanSearch, levels: Sequence[Levels]) -> "_Bounds":
        """Group the levels."""
        groups: dict[_Group, list[Levels]] = {}
        for one in dict.fromkeys(levels):
            groups.setdefault(_group(one), []).append(one)
        return cls(search, groups)

    def times_s(self, levels: Levels, found: Mapping[Levels, Found]) -> Iterator[float]:
        """Times that no plan on these levels beats: first those that are free to get [s]."""
        group = self.groups[_group(levels)]
        plain = len(levels) == DOMAIN_AND_NETWORK
        for faster in group:
            known = found.get(faster)
            # Where no plan uses all GPUs, fabrics of more levels may use other parts of themselves.
            whole = isinstance(known, SearchResult) and known.levels == faster
            if known is not None and (plain or whole) and is_never_slower(faster, levels):
                yield comparable(_time_s(known) * (1 - ROUNDING))
        # The best case of a single fabric of two levels is as much work as its own search.
        if len(group) > 1 or not plain:
            yield self._best_case_s(_group(levels))

    def _best_case_s(self, group: _Group) -> float:
        """Best time on the best case of a group; 0 if that bounds nothing [s]."""
        if group not in self.best_cases:
            found = search_best_case(self.search, self.groups[group])
            self.plans += found.enumerated if found else 0
            time_s = found.plans[0].iteration_time_s if found else 0.0
            self.best_cases[group] = comparable(time_s * (1 - ROUNDING))
        return self.best_cases[group]


def _group(levels: Levels) -> _Group:
    return levels[0].size, gpu_count(levels)


def time_designs(
    search: PlanSearch, designs: Sequence[tuple[float, Levels]], *, prune: bool = True
) -> tuple[dict[Levels, Found], Searches]:
    """Time all designs that may lie on the front of value against iteration time.

    Parameters
    ----------
    search
        What is trained, and how.
    designs
        Value of each design, such as its cost, and its levels.
    prune
        Whether to leave out what a bound proves dominated.

    Returns
    -------
    found, searches
        What was found on the levels that were searched, and what that took.
    """
    prune = prune and search.strategy == PROVEN
    ordered = sorted(designs, key=lambda design: design[0])
    bounds = _Bounds.of(search, [levels for _, levels in ordered])
    found: dict[Levels, Found] = {}
    spared: set[Levels] = set()
    # The best times of designs that cost less than the present one, and of those up to its cost.
    below_s, upto_s, value = inf, inf, -inf
    for cost, levels in ordered:
        if cost > value:
            below_s, value = upto_s, cost
        if levels in spared:
            continue
        if levels not in found:
            times_s = bounds.times_s(levels, found) if prune and upto_s < inf else ()
            if any(below_s <= bound_s or upto_s < bound_s for bound_s in times_s):
                spared.add(levels)
                continue
            found[levels] = search.on(levels) or "no levels."
        upto_s = min(upto_s, _time_s(found[levels]))
    searched = [one for one in found.values() if isinstance(one, SearchResult)]
    plans = bounds.plans + sum(one.enumerated for one in searched)
    distinct = len(found) + len(spared)
    return found, Searches(distinct, len(found), len(bounds.best_cases), len(spared), plans)


def _time_s(found: Found) -> float:
    """Time to compare with others; none is infinitely slow [s]."""
    return comparable(found.plans[0].iteration_time_s) if isinstance(found, SearchResult) else inf

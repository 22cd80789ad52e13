"""Lines over an input: who leads and where that turns, where lines cross, pass 1, have a knee."""

from collections.abc import Mapping
from itertools import pairwise

from msgspec import Struct

from netplan.reports.plots import Key

SAME = 1e-6
"""Values this close to the best share its place [1]."""

KNEE = 0.05
"""A knee has at least all but this share of what there is to gain [1]."""

Line = Mapping[float, float]


class Span(Struct, frozen=True):
    """A stretch of the horizontal axis with the same leaders, and how far the next is behind."""

    leaders: frozenset[Key]
    first: float
    last: float
    leads: tuple[float, ...]


class Leaders(Struct, frozen=True):
    """Who is best at one place, with equal values together, and how far the next is behind [1]."""

    keys: frozenset[Key]
    lead: float


def leaders_of(values: Mapping[Key, float], *, lower: bool) -> Leaders:
    """Who has the best of some values.

    Examples
    --------
    >>> found = leaders_of({("a",): 1.0, ("b",): 4.0, ("c",): 1.0}, lower=True)
    >>> sorted(found.keys), found.lead
    ([('a',), ('c',)], 0.75)
    """
    pick = min if lower else max
    best = pick(values.values())
    ahead = frozenset(key for key, value in values.items() if abs(value - best) <= SAME * abs(best))
    others = [value for key, value in values.items() if key not in ahead]
    following = pick(others) if others else best
    return Leaders(ahead, abs(following - best) / abs(following) if following else 0.0)


def spans_of(lines: Mapping[Key, Line], *, lower: bool) -> list[Span]:
    """Stretches of x with the same leaders; equal values lead together.

    Examples
    --------
    >>> lines = {("a",): {1: 1.0, 2: 2.0, 3: 3.0}, ("b",): {1: 2.0, 2: 2.0, 3: 2.0}}
    >>> [(sorted(one.leaders), one.first, one.last) for one in spans_of(lines, lower=True)]
    [([('a',)], 1.0, 2.0), ([('b',)], 3.0, 3.0)]
    """
    found: list[Span] = []
    for x in sorted({float(x) for line in lines.values() for x in line}):
        values = {key: line[x] for key, line in lines.items() if x in line}
        here = leaders_of(values, lower=lower)
        both = found[-1].leaders & here.keys if found else frozenset()
        if both:
            found[-1] = Span(both, found[-1].first, x, (*found[-1].leads, here.lead))
        else:
            found.append(Span(here.keys, x, x, (here.lead,)))
    return found


def crossing(lines: Mapping[Key, Line], one: Span, two: Span) -> float | None:
    """Where the leaders of two neighbouring stretches cross, on straight lines between points.

    Examples
    --------
    >>> lines = {("a",): {1: 1.0, 3: 3.0}, ("b",): {1: 2.5, 3: 2.5}}
    >>> crossing(lines, *spans_of(lines, lower=True))
    2.5
    """
    here, there = one.last, two.first
    first, second = (min(span.leaders, key=str) for span in (one, two))
    places = [(lines[key].get(here), lines[key].get(there)) for key in (first, second)]
    (a, c), (b, d) = places
    if a is None or b is None or c is None or d is None or (a - b) * (c - d) >= 0:
        return None
    share = (a - b) / ((a - b) - (c - d))
    return here + share * (there - here)


def even_at(line: Line) -> float | None:
    """Where a line first passes 1, on straight lines between its points.

    Examples
    --------
    >>> even_at({0: 1.5, 10: 0.5}), even_at({0: 1.5, 10: 1.25})
    (5.0, None)
    """
    for here, there in pairwise(sorted(line)):
        one, two = line[here] - 1, line[there] - 1
        if one * two < 0:
            return here + (there - here) * one / (one - two)
    return None


def knee_of(line: Line, *, lower: bool) -> float | None:
    """The first x from which on no further one is better by more than the share of a knee.

    Examples
    --------
    >>> knee_of({1: 8.0, 2: 4.0, 4: 2.0, 8: 1.95, 16: 1.94}, lower=True)
    4
    """
    for x in sorted(line):
        later = [value for place, value in line.items() if place >= x]
        best = min(later) if lower else max(later)
        if abs(best - line[x]) <= KNEE * abs(line[x]):
            return x
    return None

"""Lines over an input: who leads and where that turns, where lines cross, pass 1, have a knee.

Numbers of a verdict in words: from one to another, by how much it changed, how far ahead.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from netplan.reports.plots import Key

SAME = 1e-6
"""Values this close to the best share its place [1]."""

KNEE = 0.05
"""A knee has at least all but this share of what there is to gain [1]."""

Line = Mapping[float, float]


class AxisInterval(Struct, frozen=True):
    """A stretch of the horizontal axis with the same leaders, and how far the next is behind."""

    leaders: frozenset[Key]
    first: float
    last: float
    leads: tuple[float, ...]


Leaders = tuple[frozenset[Key], float]
"""Who is best at one place, with equal values together, and how far the next is behind [1]."""


def leaders_of(values: Mapping[Key, float], *, lower: bool) -> Leaders:
    """Who has the best of some values.

    Examples
    --------
    >>> keys, lead = leaders_of({("a",): 1.0, ("b",): 4.0, ("c",): 1.0}, lower=True)
    >>> sorted(keys), lead
    ([('a',), ('c',)], 0.75)
    """
    pick = min if lower else max
    best = pick(values.values())
    ahead = frozenset(key for key, value in values.items() if abs(value - best) <= SAME * abs(best))
    others = [value for key, value in values.items() if key not in ahead]
    following = pick(others) if others else best
    return ahead, abs(following - best) / abs(following) if following else 0.0


def intervals_of(lines: Mapping[Key, Line], *, lower: bool) -> list[AxisInterval]:
    """Stretches of x with the same leaders; equal values lead together.

    Examples
    --------
    >>> lines = {("a",): {1: 1.0, 2: 2.0, 3: 3.0}, ("b",): {1: 2.0, 2: 2.0, 3: 2.0}}
    >>> [(sorted(one.leaders), one.first, one.last) for one in intervals_of(lines, lower=True)]
    [([('a',)], 1.0, 2.0), ([('b',)], 3.0, 3.0)]
    """
    spans: list[AxisInterval] = []
    for x in sorted({float(x) for line in lines.values() for x in line}):
        values = {key: line[x] for key, line in lines.items() if x in line}
        best, lead = leaders_of(values, lower=lower)
        both = spans[-1].leaders & best if spans else frozenset()
        if both:
            spans[-1] = AxisInterval(both, spans[-1].first, x, (*spans[-1].leads, lead))
        else:
            spans.append(AxisInterval(best, x, x, (lead,)))
    return spans


def crossing(lines: Mapping[Key, Line], earlier: AxisInterval, later: AxisInterval) -> float | None:
    """Where the leaders of two neighbouring stretches cross, on straight lines between points.

    Examples
    --------
    >>> lines = {("a",): {1: 1.0, 3: 3.0}, ("b",): {1: 2.5, 3: 2.5}}
    >>> crossing(lines, *intervals_of(lines, lower=True))
    2.5
    """
    here, there = earlier.last, later.first
    first, second = (min(span.leaders, key=str) for span in (earlier, later))
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
        here_gap, there_gap = line[here] - 1, line[there] - 1
        if here_gap * there_gap < 0:
            return here + (there - here) * here_gap / (here_gap - there_gap)
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


DOUBLE = 2.0
"""Ratio from which a change is said in times, not in percent [1]."""


def low_to_high(low: str, high: str) -> str:
    """From one value to another, with their unit once.

    Examples
    --------
    >>> low_to_high("32 GPUs", "128 GPUs"), low_to_high("1 GB", "1 TB")
    ('32 to 128 GPUs', '1 GB to 1 TB')
    >>> low_to_high("1", "2"), low_to_high("8 GB", "8 GB"), low_to_high("300 ms", "2 s")
    ('1 to 2', '8 GB', '300 ms to 2 s')
    """
    if low == high:
        return low
    unit = high.rpartition(" ")[2] if " " in high else ""
    return f"{low.removesuffix(f' {unit}')} to {high}"


def changed(ratios: Sequence[float]) -> str:
    """How far an output changes, from the least to the most.

    Examples
    --------
    >>> changed([1.1, 1.25]), changed([0.8]), changed([0.95, 1.1]), changed([1.0])
    ('10 to 25 % higher', '20 % lower', '5 % lower to 10 % higher', 'the same')
    >>> changed([1.5, 3.0]), changed([1.0, 1.02])
    ('1.5 to 3 times as high', 'up to 2 % higher')
    """
    low, high = min(ratios), max(ratios)
    if high >= DOUBLE:
        ends = dict.fromkeys(f"{ratio:.3g}" for ratio in (low, high))
        return f"{' to '.join(ends)} times as high"
    below, above = (percent_text(abs(end - 1)) for end in (low, high))
    if below == above == "0":
        return "the same"
    if low < 1 < high and "0" not in (below, above):
        return f"{below} % lower to {above} % higher"
    word = "higher" if above != "0" and high > 1 else "lower"
    near, far = (below, above) if word == "higher" else (above, below)
    if near == "0":
        return f"up to {far} % {word}"
    return f"{far} % {word}" if near == far else f"{near} to {far} % {word}"


def ahead_by(leads: Sequence[float], *, most: bool = False) -> str:
    """By how much the leader is ahead of the next, in brackets; empty if by nothing.

    Parameters
    ----------
    leads
        Shares by which it is ahead, place by place [1].
    most
        Whether of several only the largest is said.

    Examples
    --------
    >>> ahead_by([0.1, 0.25]), ahead_by([0.1, 0.25], most=True), ahead_by([0.0])
    (' (by 10 to 25 %)', ' (by up to 25 %)', '')
    """
    low, high = min(leads), max(leads)
    if high <= SAME:
        return ""
    low_text, high_text = (percent_text(lead) for lead in (low, high))
    if low_text == "0" or (most and len(leads) > 1):
        return f" (by up to {high_text} %)"
    between = high_text if low_text == high_text else f"{low_text} to {high_text}"
    return f" (by {between} %)"


def percent_text(share: float) -> str:
    """A share in percent; 0 for less than a twentieth of one.

    Examples
    --------
    >>> percent_text(0.0123), percent_text(0.996), percent_text(12.5), percent_text(1e-4)
    ('1.2', '100', '1,250', '0')
    """
    if share < 5e-4:  # noqa: PLR2004 - what its docstring says
        return "0"
    return f"{float(f'{100 * share:.2g}'):g}" if share < 1 else f"{100 * share:,.0f}"

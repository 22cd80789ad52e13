"""Numbers of a verdict in words: from one to another, by how much it changed, how far ahead."""

from collections.abc import Sequence

from netplan.reports.quantities import Scalar
from netplan.studies.turns import SAME

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
        ends = dict.fromkeys(f"{one:.3g}" for one in (low, high))
        return f"{' to '.join(ends)} times as high"
    below, above = (percent(abs(one - 1)) for one in (low, high))
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
    low_text, high_text = (percent(one) for one in (low, high))
    if low_text == "0" or (most and len(leads) > 1):
        return f" (by up to {high_text} %)"
    between = high_text if low_text == high_text else f"{low_text} to {high_text}"
    return f" (by {between} %)"


def percent(share: float) -> str:
    """A share in percent; 0 for less than a twentieth of one.

    Examples
    --------
    >>> percent(0.0123), percent(0.996), percent(12.5), percent(1e-4)
    ('1.2', '100', '1,250', '0')
    """
    if share < 5e-4:  # noqa: PLR2004 - what its docstring says
        return "0"
    return f"{float(f'{100 * share:.2g}'):g}" if share < 1 else f"{100 * share:,.0f}"


def brief(value: Scalar) -> str:
    """A value without a string of zeros.

    >>> brief(9e11), brief(8), brief("1d")
    ('9e+11', '8', '1d')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)

"""Times that carry error bars, in answers: `10.4 s (9.7-11.2)` for people, ends for programs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from netplan.performance.calibrated_run import Factors
from netplan.performance.error_bars import ErrorBar, bar_dict, time_text
from netplan.performance.plan import PlanTime
from netplan.records import value_at
from netplan.reports.sections import Column, column

ENDS = ("iteration_time_low_s", "iteration_time_high_s", "error_basis")

BarOf = Callable[[Any], ErrorBar | None]
"""The error bar of what stands in a row; None without one."""


def barred_columns(
    best: Callable[[Any], PlanTime | None], mfu: Callable[[Any], float | None]
) -> Iterator[Column[Any]]:
    """Iteration time and utilisation of rows with their bars, and the ends of the former.

    Parameters
    ----------
    best, mfu
        The timed plan of a row, and its utilisation.
    """

    def bar(row: object) -> ErrorBar | None:
        timed = best(row)
        return timed.error if timed else None

    def percent(row: object) -> float | None:
        share = mfu(row)
        return None if share is None else 100 * share

    def value_of(path: str) -> Callable[[Any], Any]:
        return lambda row: value_at(best(row), path)

    yield from barred_column("iteration_time_s", value_of("iteration_time_s"), bar)
    for name in ENDS:
        yield column(name, value_of(f"bar.{name}"), shown="data")
    yield column("mfu", mfu, mark=behind(percent, bar, 0, Factors.of_rate))


def behind(
    amount: Callable[[Any], float | None],
    bar: BarOf,
    digits: int,
    ends: Callable[[Factors, float], tuple[float, float]] = Factors.of,
) -> Callable[[Any], tuple[str, str]]:
    """The sign behind what grows with the time, such as days, or falls: its ends."""

    def mark(row: object) -> tuple[str, str]:
        value, error_bar = amount(row), bar(row)
        if error_bar is None or value is None:
            return "", ""
        low, high = ends(error_bar.whole, value)
        return "", f" ({low:,.{digits}f}-{high:,.{digits}f})"

    return mark


def barred_column(
    name: str, seconds: Callable[[Any], float | None], bar: BarOf
) -> tuple[Column[Any], Column[Any]]:
    """Times with the bars of their rows for people, and as they are for programs."""

    def text(row: object) -> str | None:
        time_s = seconds(row)
        return None if time_s is None else time_text(time_s, bar(row))

    return column(name, text, shown="people"), column(name, seconds, shown="data")


def end_columns(
    fabrics: Iterable[Any], fabric: Callable[[Any], str], path: str
) -> Iterator[Column[Any]]:
    """Ends and basis of iteration times of rows that name a fabric, for programs."""
    bars = {row.name: row.error for row in fabrics}

    def end(row: object, name: str) -> float | str | None:
        value: float | str | None = bar_dict(value_at(row, path), bars[fabric(row)])[name]
        return value

    for name in ENDS if any(bars.values()) else ():
        yield column(name, partial(end, name=name), shown="data")


def with_bars(data: Any, bar: ErrorBar | None) -> Any:  # noqa: ANN401 - JSON of any depth
    """The same JSON with ends and basis beside every iteration time, if there is a bar.

    Examples
    --------
    >>> from netplan.performance.calibrated_run import Factors
    >>> bar = ErrorBar(Factors(low=0.9, high=1.25), Factors(low=0.5, high=1.5), 0.01)
    >>> with_bars({"plans": [{"iteration_time_s": 8.0}]}, bar)["plans"][0]["iteration_time_high_s"]
    10.0
    """
    if bar is None:
        return data
    if isinstance(data, Mapping):
        barred = {key: with_bars(value, bar) for key, value in data.items()}
        ends = bar_dict(barred["iteration_time_s"], bar) if "iteration_time_s" in barred else {}
        return barred | ends
    return [with_bars(item, bar) for item in data] if isinstance(data, list | tuple) else data

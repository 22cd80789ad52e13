"""Times that carry error bars, in answers: `10.4 s (9.7-11.2)` for people, ends for programs."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from netplan.performance.error_bars import ErrorBar, bar_dict, time_text
from netplan.reports.sections import Column, column, value_at

BarOf = Callable[[Any], ErrorBar | None]
"""The error bar of what stands in a row; None without one."""
ENDS = ("iteration_time_low_s", "iteration_time_high_s", "error_basis")


def barred_columns(path: str, mfu: str) -> Iterator[Column[Any]]:
    """Iteration time and utilisation with their bars, and the ends of the former.

    Parameters
    ----------
    path
        Where the timed plan stands in a row, or None.
    mfu
        Where its utilisation does.
    """
    bar: BarOf = partial(value_at, path=f"{path}.error")
    yield barred_column("iteration_time_s", f"{path}.iteration_time_s", bar)
    for name in ENDS:
        yield column(name, f"{path}.bar.{name}", shown="never")
    yield column("mfu", mfu, mark=partial(_behind_share, path=mfu, bar=bar))


def barred_column(name: str, path: str, bar: BarOf, *, barred: bool = True) -> Column[Any]:
    """A column of times with the bars of their rows, or as it is where none is ``barred``."""
    if not barred:
        return column(name, path)
    mark = partial(_behind_time, path=path, bar=bar)
    return column(name, path, form="si", digits=3, suffix="s", mark=mark)


def with_bars(data: Any, bar: ErrorBar | None) -> Any:  # noqa: ANN401 - JSON of any depth
    """The same JSON with ends and basis beside every iteration time, if there is a bar.

    Examples
    --------
    >>> from netplan.performance.calibration import Factors
    >>> bar = ErrorBar(Factors(low=0.9, high=1.25), Factors(low=0.5, high=1.5), 0.01)
    >>> with_bars({"plans": [{"iteration_time_s": 8.0}]}, bar)["plans"][0]["iteration_time_high_s"]
    10.0
    """
    if bar is None:
        return data
    if isinstance(data, Mapping):
        found = {key: with_bars(value, bar) for key, value in data.items()}
        ends = bar_dict(found["iteration_time_s"], bar) if "iteration_time_s" in found else {}
        return found | ends
    return [with_bars(one, bar) for one in data] if isinstance(data, list | tuple) else data


def _behind_time(row: object, path: str, bar: BarOf) -> tuple[str, str]:
    """The bar behind a time."""
    seconds, found = value_at(row, path), bar(row)
    if found is None or seconds is None:
        return "", ""
    return "", f" ({time_text(seconds, found).partition(' (')[2]}"


def _behind_share(row: object, path: str, bar: BarOf) -> tuple[str, str]:
    """The bar behind a utilisation, which falls as the time grows."""
    share, found = value_at(row, path), bar(row)
    if found is None or share is None:
        return "", ""
    low, high = found.whole.of_rate(100 * share)
    return "", f" ({low:.0f}-{high:.0f})"

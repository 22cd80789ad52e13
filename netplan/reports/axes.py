"""Axes of charts: where a value stands, and its ticks in people's words."""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor, isfinite, log10
from typing import TypeVar

from msgspec import Struct

from netplan.reports.charts import Json
from netplan.reports.escape import chart_label
from netplan.reports.quantities import PREFIXED, Scalar, Words, shown

Value = TypeVar("Value")

MAX_TICKS = 9
"""Ticks with a text that fit a narrow screen [1]."""

STEPS = 24
"""Values up to which the ticks of a logarithmic axis are the values themselves [1]."""

ONE_DECADE, THREE_DECADES = 0.8, 2.5
"""Widths of an axis between which 1, 2 and 5 times a power of ten are its ticks [1]."""

ROOM = 0.06
"""Room beyond the values at both ends of a shared axis, as a share of it [1]."""

FLAT = 0.1
"""Share of a shared axis that the values of a drawing span at least [1]."""

LADDERS = ((1.0,), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))
FEWEST = 4

ROUND_TICKS, ROUND_STEPS = 4, (1.0, 2.0, 2.5, 5.0, 10.0)
"""Steps of an axis of numbers at most, and what times a power of ten each may be [1]."""


class ChartAxis(Struct, frozen=True):
    """What an axis shows.

    Parameters
    ----------
    words
        Its name and unit.
    log
        Whether it is logarithmic.
    steps
        Whether its values are chosen steps, and so the ticks of a logarithmic axis if they are few.
    shared
        Values of all drawings that are to have this scale; empty where it fits its own.
    """

    words: Words
    log: bool = False
    steps: bool = False
    shared: Sequence[Scalar] = ()


def finite(value: Scalar, *, log: bool = False) -> float | None:
    """A number that can be drawn; None for all else.

    Examples
    --------
    >>> finite(10), finite("rail-only"), finite(float("inf")), finite(0, log=True)
    (10.0, None, None, None)
    """
    if isinstance(value, (str, bool)) or value is None or not isfinite(value):
        return None
    return float(value) if value > 0 or not log else None


def in_order(values: Iterable[Scalar]) -> list[Scalar]:
    """Values once each: numbers by size, anything else as they come.

    Examples
    --------
    >>> in_order([64, 8, 64]), in_order(["torus-3d", "fat-tree"])
    ([8, 64], ['torus-3d', 'fat-tree'])
    """
    distinct = list(dict.fromkeys(values))
    numbers = [value for value in distinct if finite(value) is not None]
    if len(numbers) < len(distinct):
        return distinct
    return sorted(numbers, key=lambda value: float(value or 0))


def spread(values: Sequence[Value], count: int) -> list[Value]:
    """At most ``count`` of the values, first and last among them, evenly apart.

    Examples
    --------
    >>> spread(range(9), 3), spread("ab", 5), spread(range(5), 1)
    ([0, 4, 8], ['a', 'b'], [0])
    """
    if len(values) <= count or count < 2:  # noqa: PLR2004 - first and last are two
        return list(values[: max(count, 1)])
    last = len(values) - 1
    return [values[round(place * last / (count - 1))] for place in range(count)]


class AxisScale(Struct, frozen=True):
    """Where values stand on an axis.

    Parameters
    ----------
    places
        Place of every value, for an axis of categories; None for one of numbers.
    log
        Whether the axis is logarithmic.
    layout
        The axis as plotly draws it.
    """

    places: Mapping[Scalar, int] | None
    log: bool
    layout: Json

    def place(self, value: Scalar) -> float | None:
        """Where a value stands; None if it cannot be drawn."""
        return finite(value, log=self.log) if self.places is None else self.places.get(value)


def number_scale(axis: ChartAxis, values: Iterable[Scalar]) -> AxisScale:
    """Axis of numbers.

    Examples
    --------
    >>> scale = number_scale(ChartAxis(Words("batch"), log=True, steps=True), [8, 16, 0])
    >>> scale.layout["ticktext"], scale.place(0)
    (['8', '16'], None)
    >>> scale = number_scale(ChartAxis(Words("rate", "B/s"), log=True, steps=True), [1e11, 2e12])
    >>> scale.layout["title"], scale.layout["ticktext"]
    ({'text': 'rate'}, ['100 GB/s', '2 TB/s'])
    """
    si = axis.words.unit in PREFIXED
    layout: dict[str, object] = {
        "title": {"text": chart_label(axis.words.title, 60)},
        "type": "log" if axis.log else "linear",
        "exponentformat": "SI" if si else "B",
        "separatethousands": True,
    }
    values = axis.shared or values
    if axis.shared:
        layout["range"] = padded(axis.shared, log=axis.log)
    if axis.log:
        plottable = [value for value in in_order(values) if finite(value, log=True) is not None]
        # Else plotly writes only the first digit between powers of ten.
        layout |= {"tickformat": "~s" if si else ",.6~g", "nticks": MAX_TICKS}
        if axis.steps and 0 < len(plottable) <= STEPS:
            unit = axis.words.unit if si else ""
            ticks = [(finite(value), shown(value, unit)) for value in _every(plottable, MAX_TICKS)]
            layout |= _ticks(ticks)
            if si:
                layout["title"] = {"text": chart_label(axis.words.quantity, 60)}
        elif plottable and ONE_DECADE < _decades(plottable) < THREE_DECADES:
            layout["dtick"] = "D2"  # 1, 2 and 5
    return AxisScale(None, axis.log, layout)


def category_scale(words: Words, values: Iterable[Scalar]) -> AxisScale:
    """Axis on which every value has the same room.

    Examples
    --------
    >>> scale = category_scale(Words("memory", "GB"), [96.0, 48.0])
    >>> scale.layout["ticktext"], scale.place(48.0)
    (['48', '96'], 0)
    """
    distinct = in_order(values)
    prefixed = words.unit in PREFIXED
    unit = words.unit if prefixed else ""
    texts = [(place, shown(value, unit)) for place, value in enumerate(distinct)]
    layout: dict[str, object] = {
        "title": {"text": chart_label(words.quantity if prefixed else words.title, 60)},
        "type": "linear",
        "showgrid": False,
        "range": [-0.5, len(distinct) - 0.5],
        **_ticks(_every(texts, STEPS)),
    }
    return AxisScale(
        {value: place for place, value in enumerate(distinct)}, log=False, layout=layout
    )


def fitting_scale(axis: ChartAxis, values: Iterable[Scalar]) -> AxisScale:
    """Axis of numbers where all values are numbers, else of categories."""
    distinct = list(dict.fromkeys(axis.shared or values))
    if any(isinstance(value, (str, bool)) for value in distinct):
        return category_scale(axis.words, distinct)
    return number_scale(axis, distinct)


def along(values: Iterable[Scalar], *, log: bool) -> list[float]:
    """Where numbers stand on an axis: they, or their powers of ten."""
    numbers = (finite(value, log=log) for value in values)
    return [log10(number) if log else number for number in numbers if number is not None]


def padded(values: Iterable[Scalar], *, log: bool) -> list[float] | None:
    """Ends of an axis that shows all values with some room; None without any.

    Examples
    --------
    >>> padded([0, 100], log=False), padded([1, 100, 0], log=True), padded([], log=True)
    ([-6.0, 106.0], [-0.12, 2.12], None)
    """
    places = along(values, log=log)
    if not places:
        return None
    low, high = min(places), max(places)
    room = ROOM * (high - low) or 0.5
    return [low - room, high + room]


def flattened(panels: Sequence[Sequence[Scalar]], *, log: bool) -> bool:
    """Whether values of one drawing would lie flat on a scale that all drawings share.

    Examples
    --------
    >>> flattened([[1, 2], [3, 9]], log=False), flattened([[1, 2], [300, 900]], log=False)
    (False, True)
    >>> flattened([[1, 2], [300, 900]], log=True), flattened([[1, 1], [300, 900]], log=False)
    (False, False)
    """
    placed = [places for panel in panels if (places := along(panel, log=log))]
    spans = [max(places) - min(places) for places in placed]
    every = [place for places in placed for place in places]
    whole = max(every, default=0.0) - min(every, default=0.0)
    # Values that are all the same are flat on any scale.
    return any(0 < span < FLAT * whole for span in spans)


def log_ticks(low: float, high: float) -> list[float]:
    """Round values between two, for a logarithmic scale; the two themselves if they are close.

    Examples
    --------
    >>> log_ticks(1.8, 27.0), log_ticks(5.0, 27.0), log_ticks(3.1, 4.2)
    ([2.0, 5.0, 10.0, 20.0], [5.0, 7.0, 10.0, 15.0, 20.0], [3.1, 4.2])
    >>> log_ticks(0.0007, 4.0)
    [0.001, 0.01, 0.1, 1.0]
    """
    powers = range(floor(log10(low)), floor(log10(high)) + 1)
    for ladder in LADDERS:
        rungs = [float(f"{rung}e{power}") for power in powers for rung in ladder]
        ticks = [rung for rung in rungs if low <= rung <= high]
        if len(ticks) >= FEWEST:
            return ticks
    return [low, high]


def round_ticks(low: float, high: float) -> list[float]:
    """Round values that hold a range between them.

    Examples
    --------
    >>> round_ticks(0, 23.2), round_ticks(3.43, 3.55)
    ([0.0, 10.0, 20.0, 30.0], [3.4, 3.45, 3.5, 3.55])
    """
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** floor(log10(span / ROUND_TICKS))
    step = next(
        width
        for width in (power * by for by in ROUND_STEPS)
        if width * ROUND_TICKS >= span * (1 - 1e-9)
    )
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [float(f"{step * number:.10g}") for number in range(first, max(last, first + 1) + 1)]


def _decades(values: Sequence[Scalar]) -> float:
    """Width of rising values on a logarithmic axis [1]."""
    return log10(float(values[-1] or 1)) - log10(float(values[0] or 1))


def _every(values: Sequence[Value], count: int) -> Sequence[Value]:
    """At most ``count`` of the values, with equal steps from the first."""
    return values[:: -(-len(values) // count)] if values else values


def _ticks(pairs: Iterable[tuple[float | None, str]]) -> Json:
    """Ticks at these places with these texts."""
    ticks = list(pairs)
    return {
        "tickmode": "array",
        "tickvals": [place for place, _ in ticks],
        "ticktext": [chart_label(text, 18) for _, text in ticks],
    }

"""From a chart of a study file to its panels: which points one drawing shows, and under what name.

A study may vary more than its chart names. Lines are then told apart by what is left, and a heat
chart becomes one drawing for each value of it, so that no two points share a place.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from netplan.studies.answer import Row, StudyAnswer
from netplan.studies.definition import ChartSpec, StudyDefinition
from netplan.studies.points import Scalar
from netplan.studies.study_reader import Reader, box_names, finite, inputs_behind, open_axes

MAX_PANELS = 12
"""Drawings of one chart [1]; the page says how many more there are."""

Value = TypeVar("Value")
Key = tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing of a chart.

    Parameters
    ----------
    key, heading
        Its name on the page; what its points share, in words.
    spec
        The chart in the study file.
    shared, series
        Inputs or outputs that its points share, and that tell lines or colours apart.
    rows
        Its points.
    reader
        Reads them.
    """

    key: str
    heading: str
    spec: ChartSpec
    shared: tuple[str, ...]
    series: tuple[str, ...]
    rows: tuple[Row, ...]
    reader: Reader

    def values(self, name: str) -> list[Scalar]:
        """Values of an input or output at all points."""
        return [self.reader.value(row, name) for row in self.rows]

    def box_names(self, *own: str) -> tuple[str, ...]:
        """What the hover boxes name, the drawing's own values first."""
        return box_names(self.reader.spec, (*self.series, *own), self.shared)

    def series_of(self, row: Row) -> Key:
        """Values of the series at a point."""
        return tuple(self.reader.value(row, name) for name in self.series)

    def series_name(self, key: Key) -> str:
        """These values in words."""
        return self.reader.texts(zip(self.series, key, strict=True))


@dataclass(frozen=True, slots=True)
class Panels:
    """Drawings of one chart, and how many more it would have."""

    shown: tuple[Panel, ...]
    left_out: int


def make_panels(answer: StudyAnswer, number: int, reader: Reader) -> Panels:
    """Split the points of a chart.

    Parameters
    ----------
    answer
        The study.
    number
        Place of the chart in the study file [1].
    reader
        Of the answer.
    """
    spec = answer.spec.charts[number]
    left = _left_open(answer.spec, spec)
    names = ((spec.each,) if spec.each else ()) + (left if spec.kind == "heat" else ())
    series = spec.series + (left if spec.kind == "lines" else ())
    groups: dict[Key, list[Row]] = {}
    for row in answer.rows:
        groups.setdefault(tuple(reader.value(row, name) for name in names), []).append(row)
    shown = tuple(
        Panel(
            key=f"{number + 1}-{place + 1}",
            heading=reader.texts(zip(names, values, strict=True)),
            spec=spec,
            shared=names,
            series=series,
            rows=tuple(rows),
            reader=reader,
        )
        for place, (values, rows) in enumerate(list(groups.items())[:MAX_PANELS])
    )
    return Panels(shown, len(groups) - len(shown))


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


def in_order(values: Iterable[Scalar]) -> list[Scalar]:
    """Values once each: numbers by size, anything else as they come.

    Examples
    --------
    >>> in_order([64, 8, 64]), in_order(["torus-3d", "fat-tree"])
    ([8, 64], ['torus-3d', 'fat-tree'])
    """
    found = list(dict.fromkeys(values))
    numbers = [value for value in found if finite(value) is not None]
    if len(numbers) < len(found):
        return found
    return sorted(numbers, key=lambda value: float(value or 0))


def _left_open(study: StudyDefinition, spec: ChartSpec) -> tuple[str, ...]:
    """Inputs that vary though the chart names none of their axis.

    Over an output nothing is left open: its values are as many as the points.
    """
    places = (spec.x, spec.y) if spec.kind == "heat" else (spec.x,)
    if any(inputs_behind(study, name) is None for name in places):
        return ()
    each = (spec.each,) if spec.each else ()
    return open_axes(study, (*places, *each, *spec.series))

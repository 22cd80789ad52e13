"""Marks of a study's charts: where a point stands, how its series looks, what a drawing tells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from netplan.reports.charts import Chart, Json
from netplan.studies.answer import Row
from netplan.studies.study_panels import Key, Panel
from netplan.studies.study_scales import Scale

COLOURS = (
    "#3b74c9",
    "#d9702b",
    "#2f9e73",
    "#b4558f",
    "#8468cf",
    "#b8962a",
    "#2c9cb0",
    "#8a94a3",
)
"""Fit for the light and the dark page."""

NAMED_SERIES = 24
"""Series up to which a legend names them [1]."""

HOVER_BOX: Json = {"align": "left", "font": {"size": 12}}
HEIGHT_PX, LEGEND_PX = 400, 12


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawing, and what it leaves out, in sentences."""

    chart: Chart
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A point on a drawing: where it stands, None where it has no value, and the row behind it."""

    x: float | None
    y: float | None
    row: Row


def marks_of(panel: Panel, x_scale: Scale, y_scale: Scale) -> Iterator[Mark]:
    """Every point of a panel."""
    spec, read = panel.spec, panel.reader
    for row in panel.rows:
        x, y = x_scale.place(read.value(row, spec.x)), y_scale.place(read.value(row, spec.y))
        yield Mark(x, y, row)


def series_styles(keys: Sequence[Key]) -> dict[Key, tuple[str, int]]:
    """Colour of each series by its first value, number of its dash or sign by the others.

    Examples
    --------
    >>> list(series_styles([("a100", 4), ("a100", 8), ("b200", 4)]).values())
    [('#3b74c9', 0), ('#3b74c9', 1), ('#d9702b', 0)]
    """
    first = {value: at for at, value in enumerate(dict.fromkeys(key[:1] for key in keys))}
    rest = {value: at for at, value in enumerate(dict.fromkeys(key[1:] for key in keys))}
    found = {}
    for key in keys:
        turn, colour = divmod(first[key[:1]], len(COLOURS))
        found[key] = (COLOURS[colour], turn + rest[key[1:]])
    return found


def height_px(series: int) -> int:
    """Height of a drawing whose legend names so many series [px]."""
    return HEIGHT_PX + (LEGEND_PX * series if series <= NAMED_SERIES else 0)

"""A heat map as SVG: a square of cells, darker for more, with axes and a scale with numbers."""

from collections.abc import Iterator
from math import log10

from markupsafe import Markup

from netplan.reports.sections import Heat
from netplan.reports.svg import drawing, hover_title, line, short_number, text_line

CELLS_PX, LEFT, TOP, BELOW = 576.0, 84.0, 62.0, 66.0
"""Side of the square; room for the names of rows, of columns, and for the scale [px]."""

FAINTEST = 0.22
"""Depth of colour of the least amount that is not nothing [1]."""

STEPS, STEP_PX, SWATCH_PX = 5, 118.0, 22.0
MOST_TICKS = 8


def heat_drawing(heat: Heat) -> Markup:
    """Draw a heat map; its amounts are said by a pointer on a cell, and stand in its table.

    Examples
    --------
    >>> from netplan.reports.quantities import quantity
    >>> cells = ((8e9, 2e9), (0.0, 8e9))
    >>> drawn = heat_drawing(Heat("heat", "Bytes", quantity("total_bytes"), ("a", "b"), cells))
    >>> drawn.count("<title>"), "a to b: 2 GB" in drawn
    (3, True)
    """
    side = CELLS_PX / max(len(heat.labels), 1)
    shapes = [
        _square(LEFT, TOP, CELLS_PX, "paper-cells", ""),
        *_cells(heat, side),
        *_borders(heat, side),
        *_axes(heat, side),
        *_scale(heat),
    ]
    words = " ".join([f"{heat.title}.", *heat.said])
    return drawing(LEFT + CELLS_PX + 20, TOP + CELLS_PX + BELOW, words, shapes)


def depth_of(amount: float, least: float, largest: float) -> float:
    """How dark an amount is, by its logarithm between the least and the largest one [1].

    Examples
    --------
    >>> depth_of(1.0, 1.0, 100.0), depth_of(10.0, 1.0, 100.0), depth_of(100.0, 1.0, 100.0)
    (0.22, 0.61, 1.0)
    """
    if largest <= least:
        return 1.0
    along = log10(amount / least) / log10(largest / least)
    return round(FAINTEST + (1 - FAINTEST) * along, 3)


def _ends(heat: Heat) -> tuple[float, float]:
    """Least and largest amount that is not nothing."""
    amounts = [cell for row in heat.cells for cell in row if cell > 0]
    return (min(amounts), max(amounts)) if amounts else (1.0, 1.0)


def _square(x: float, y: float, side: float, kind: str, title: str, depth: float = 0.0) -> Markup:
    shape = Markup('<rect x="{}" y="{}" width="{}" height="{}" class="{}"{}>{}</rect>')
    dark = Markup(' style="--depth:{}"').format(depth) if depth else Markup("")
    return shape.format(*map(short_number, (x, y, side, side)), kind, dark, hover_title(title))


def _cells(heat: Heat, side: float) -> Iterator[Markup]:
    """A square a pair that exchanges something."""
    ends = _ends(heat)
    for row, (sender, line_of) in enumerate(zip(heat.labels, heat.cells, strict=True)):
        for column, (receiver, cell) in enumerate(zip(heat.labels, line_of, strict=True)):
            if cell > 0:
                label = f"{sender} to {receiver}: {heat.quantity.shown(cell)}"
                place = LEFT + column * side, TOP + row * side
                yield _square(*place, side, "cell", label, depth_of(cell, *ends))


def _borders(heat: Heat, side: float) -> Iterator[Markup]:
    """Lines between groups of cells, such as HB domains of several cells."""
    if heat.group < 2:  # noqa: PLR2004 - a group of one cell has the cell's own edge
        return
    for index in range(heat.group, len(heat.labels), heat.group):
        along = index * side
        yield line(LEFT + along, TOP, LEFT + along, TOP + CELLS_PX, "border")
        yield line(LEFT, TOP + along, LEFT + CELLS_PX, TOP + along, "border")


def _axes(heat: Heat, side: float) -> Iterator[Markup]:
    """Names of some rows and columns, and what the two ways are."""
    ticks = heat.ticks or heat.labels
    yield text_line(LEFT, 18, f"receives: {heat.axis}".removesuffix(": "), "label")
    yield text_line(8, TOP - 10, "sends", "label")
    step = -(-len(ticks) // MOST_TICKS)
    for index in range(0, len(ticks), step):
        middle = (index + 0.5) * side
        yield text_line(LEFT + middle, TOP - 10, ticks[index], "sub", anchor="middle")
        yield text_line(LEFT - 8, TOP + middle + 4, ticks[index], "sub", anchor="end")


def _scale(heat: Heat) -> Iterator[Markup]:
    """Colours with their amounts, by even steps of the logarithm."""
    least, largest = _ends(heat)
    y = TOP + CELLS_PX + 18
    yield _square(LEFT, y, SWATCH_PX, "paper-cells", "")
    yield text_line(LEFT + SWATCH_PX + 6, y + 16, "nothing", "sub")
    steps = STEPS if largest > least else 1
    for step in range(steps):
        amount = largest if step == steps - 1 else least * (largest / least) ** (step / (steps - 1))
        x = LEFT + (step + 1) * (STEP_PX - 20)
        yield _square(x, y, SWATCH_PX, "cell", "", depth_of(amount, least, largest))
        yield text_line(x + SWATCH_PX + 6, y + 16, heat.quantity.shown(amount), "sub")

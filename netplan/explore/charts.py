"""The two charts of the page as SVG: they redraw as fast as the text around them.

A browser takes a tenth of a second and more to build a chart from data; a drawing of a few
kilobytes it only paints. Marks differ by shape and by words beside them, not by colour alone.
"""

from collections.abc import Iterator, Sequence

from markupsafe import Markup
from msgspec import Struct

from netplan.reports.axes import round_ticks
from netplan.reports.escape import plain, short
from netplan.reports.svg import short_number, text

WIDTH, LABEL_PX, VALUE_PX = 420.0, 118.0, 78.0
ROW_PX, BAR_PX, AXIS_PX = 28.0, 14.0, 40.0
PLANE_PX, LEFT_PX, RIGHT_PX, TOP_PX = 240.0, 62.0, 16.0, 14.0
NAME_LENGTH, LINE_PX, MARK_PX = 17, 14.0, 6.0
ROUND = 10
"""Millions from which on a price has one decimal [1]."""
LEAST_SPAN = 0.02
"""Share of a value that an axis spans at least, so that rounding does not look like a gap [1]."""


class Mark(Struct, frozen=True):
    """One fabric on the charts.

    Parameters
    ----------
    name
        What it is called.
    low, base, high
        Price and its range [M currency]; None where prices have no low or high end.
    time_s
        Iteration time; None without one [s].
    chosen, complete
        Whether the verdict recommends it, and whether its price holds all parts.
    """

    name: str
    low: float | None
    base: float
    high: float | None
    time_s: float | None
    chosen: bool
    complete: bool

    @property
    def label(self) -> str:
        """Its name, starred if it is recommended."""
        return f"{'★ ' if self.chosen else ''}{short(self.name, NAME_LENGTH)}"

    @property
    def kind(self) -> str:
        """Class of its mark."""
        return "best" if self.chosen else "whole" if self.complete and self.time_s else "part"

    @property
    def price(self) -> str:
        """Its price in words."""
        return price_words(self.base, complete=self.complete)


def price_words(millions: float, *, complete: bool) -> str:
    """A price in millions as people read it; at least so much if parts of it have none.

    Examples
    --------
    >>> price_words(1910.64, complete=True), price_words(0.0741, complete=False)
    ('1,910.6', '≥ 0.0741')
    """
    number = f"{millions:,.1f}" if millions >= ROUND else f"{millions:.3g}"
    return f"{'' if complete else '≥ '}{number}"


def price_chart(marks: Sequence[Mark], currency: str) -> Markup:
    """One bar a fabric, with the range of its price.

    Parameters
    ----------
    marks
        Fabrics, the first one on top.
    currency
        Of the prices.

    Examples
    --------
    >>> mark = Mark("rail-only", 1.0, 2.0, 4.0, 3.5, chosen=True, complete=True)
    >>> drawn = price_chart([mark], "USD")
    >>> drawn.count("<rect"), "★ rail-only" in drawn, "M USD" in drawn
    (1, True, True)
    """
    ticks = round_ticks(0.0, max(mark.high or mark.base for mark in marks))
    scale = (WIDTH - LABEL_PX - VALUE_PX) / ticks[-1]
    bottom = TOP_PX + ROW_PX * len(marks)
    shapes = [*_upright(ticks, LABEL_PX, scale, bottom)]
    for number, mark in enumerate(marks):
        y = TOP_PX + ROW_PX * (number + 0.5)
        shapes.append(text(LABEL_PX - 8, y + 4, mark.label, mark.kind, anchor="end"))
        shapes.append(_bar(mark, y, scale))
        end = LABEL_PX + scale * max(mark.base, mark.high or 0.0)
        shapes.append(text(end + 6, y + 4, mark.price, "value"))
    title = f"price of the network, M {currency}"
    shapes.append(
        text((LABEL_PX + WIDTH - VALUE_PX) / 2, bottom + 34, title, "title", anchor="middle")
    )
    words = ", ".join(f"{mark.name} {mark.price}" for mark in marks)
    return _chart(bottom + AXIS_PX, f"{title}: {words}", shapes)


def time_chart(marks: Sequence[Mark], currency: str) -> Markup:
    """Price against iteration time, one mark a fabric that trains.

    Parameters
    ----------
    marks
        Fabrics with a time.
    currency
        Of the prices.

    Examples
    --------
    >>> mark = Mark("rail-only", 1.0, 2.0, 4.0, 3.5, chosen=False, complete=True)
    >>> time_chart([mark], "USD").count("<circle")
    1
    """
    across = round_ticks(0.0, max(mark.base for mark in marks))
    times = [mark.time_s or 0.0 for mark in marks]
    middle = (min(times) + max(times)) / 2
    half = max(max(times) - min(times), LEAST_SPAN * middle) / 2
    up = round_ticks(middle - half, middle + half)
    x_scale = (WIDTH - LEFT_PX - RIGHT_PX) / across[-1]
    bottom = TOP_PX + PLANE_PX
    y_scale = PLANE_PX / (up[-1] - up[0])
    shapes = [*_upright(across, LEFT_PX, x_scale, bottom)]
    for tick in up:
        y = bottom - y_scale * (tick - up[0])
        shapes.append(_rule(LEFT_PX, y, WIDTH - RIGHT_PX, y))
        shapes.append(text(LEFT_PX - 6, y + 4, f"{tick:.6g}", "tick", anchor="end"))
    spots = [
        (LEFT_PX + x_scale * mark.base, bottom - y_scale * ((mark.time_s or 0.0) - up[0]))
        for mark in marks
    ]
    shapes += [_spot(mark, *spot) for mark, spot in zip(marks, spots, strict=True)]
    shapes += _labels(marks, spots)
    title = f"price of the network, M {currency}"
    shapes.append(text((LEFT_PX + WIDTH) / 2, bottom + 34, title, "title", anchor="middle"))
    turned = Markup('<text transform="translate(12 {}) rotate(-90)" class="title"')
    shapes.append(
        turned.format(short_number(TOP_PX + PLANE_PX / 2))
        + Markup(' text-anchor="middle">iteration time, s</text>')
    )
    words = ", ".join(f"{mark.name} {mark.price} and {mark.time_s:.4g} s" for mark in marks)
    return _chart(bottom + AXIS_PX, f"iteration time against price, M {currency}: {words}", shapes)


def _upright(ticks: Sequence[float], left: float, scale: float, bottom: float) -> Iterator[Markup]:
    """Rules of the axis across, with their values."""
    for tick in ticks:
        x = left + scale * tick
        yield _rule(x, TOP_PX, x, bottom)
        yield text(x, bottom + 16, f"{tick:,.6g}", "tick", anchor="middle")


def _rule(x1: float, y1: float, x2: float, y2: float) -> Markup:
    shape = Markup('<path d="M{} {}L{} {}" class="rule"></path>')
    return shape.format(*map(short_number, (x1, y1, x2, y2)))


def _bar(mark: Mark, y: float, scale: float) -> Markup:
    """A bar, and the line from its low to its high end."""
    bar = Markup('<rect x="{}" y="{}" width="{}" height="{}" class="{}"></rect>').format(
        *map(short_number, (LABEL_PX, y - BAR_PX / 2, max(scale * mark.base, 0.5), BAR_PX)),
        mark.kind,
    )
    if mark.low is None or mark.high is None or mark.low == mark.high:
        return bar
    low, high = (short_number(LABEL_PX + scale * end) for end in (mark.low, mark.high))
    up, mid, down = map(short_number, (y - 4, y, y + 4))
    path = f"M{low} {up}L{low} {down}M{low} {mid}L{high} {mid}M{high} {up}L{high} {down}"
    return bar + Markup('<path d="{}" class="range"></path>').format(path)


def _spot(mark: Mark, x: float, y: float) -> Markup:
    """A diamond for the recommended fabric, a disc for others, a ring for unknown parts."""
    if not mark.chosen:
        shape = Markup('<circle cx="{}" cy="{}" r="{}" class="{}"></circle>')
        return shape.format(*map(short_number, (x, y, MARK_PX)), mark.kind)
    reach = MARK_PX * 1.5
    corners = ((x, y - reach), (x + reach, y), (x, y + reach), (x - reach, y))
    path = "L".join(" ".join(map(short_number, corner)) for corner in corners)
    return Markup('<path d="M{}Z" class="{}"></path>').format(path, mark.kind)


def _labels(marks: Sequence[Mark], spots: Sequence[tuple[float, float]]) -> Iterator[Markup]:
    """Names on the side with room, moved apart where they would lie on one another."""
    for right in (True, False):
        side = [
            (y, x, mark)
            for mark, (x, y) in zip(marks, spots, strict=True)
            if (x > WIDTH / 2) is not right
        ]
        side.sort(key=lambda label: label[:2])
        lines: list[float] = []
        for y, *_ in side:
            lines.append(max(y, lines[-1] + LINE_PX) if lines else y)
        over = max(0.0, lines[-1] - (TOP_PX + PLANE_PX)) if lines else 0.0
        for (_, x, mark), line in zip(side, lines, strict=True):
            gap = 2 * MARK_PX if right else -2 * MARK_PX
            anchor = "start" if right else "end"
            yield text(x + gap, line - over + 4, mark.label, mark.kind, anchor=anchor)


def _chart(height: float, words: str, shapes: Sequence[Markup]) -> Markup:
    """The whole chart, with what it shows in words for those who cannot see it."""
    return Markup(
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}" class="chart">{}</svg>'
    ).format(short_number(WIDTH), short_number(height), plain(words), Markup("").join(shapes))

"""Shapes of drawings, as SVG: text, boxes, lines, curves; every text escaped."""

from collections.abc import Iterable

from markupsafe import Markup

from netplan.reports.escape import plain


def text(x: float, y: float, words: str, kind: str, *, anchor: str = "start") -> Markup:
    """One line of text.

    Examples
    --------
    >>> text(1, 2, "<b>", "label")
    Markup('<text x="1" y="2" class="label" text-anchor="start">&lt;b&gt;</text>')
    """
    return Markup('<text x="{}" y="{}" class="{}" text-anchor="{}">{}</text>').format(
        short_number(x), short_number(y), kind, anchor, plain(words)
    )


def box(x: float, y: float, width: float, height: float, kind: str) -> Markup:
    """Rectangle with corners as round as its height allows."""
    shape = Markup('<rect x="{}" y="{}" width="{}" height="{}" rx="{}" class="{}"/>')
    return shape.format(*map(short_number, (x, y, width, height, min(5.0, height / 6))), kind)


def line(
    x1: float, y1: float, x2: float, y2: float, kind: str, *, width: float | None = None
) -> Markup:
    """Straight line, as wide as its kind is, or of a width of its own."""
    wide = Markup(' style="stroke-width:{}"').format(short_number(width)) if width else Markup("")
    shape = Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"{}/>')
    return shape.format(*map(short_number, (x1, y1, x2, y2)), kind, wide)


def arc(x1: float, x2: float, y: float, rise: float, kind: str) -> Markup:
    """Curve between two points of one height; a negative rise bends it down."""
    shape = Markup('<path d="M{} {} Q{} {} {} {}" class="{}"/>')
    return shape.format(*map(short_number, (x1, y, (x1 + x2) / 2, y - 2 * rise, x2, y)), kind)


def drawing(width: float, height: float, title: str, shapes: Iterable[Markup]) -> Markup:
    """Whole drawing, with a title for those who cannot see it."""
    return Markup(
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}" class="drawing"'
        ' style="--drawn:{}px">{}</svg>'
    ).format(
        short_number(width),
        short_number(height),
        plain(title),
        short_number(width),
        Markup("\n").join(shapes),
    )


def short_number(value: float) -> str:
    """At most one decimal: finer than any screen shows."""
    return f"{value:.1f}".removesuffix(".0")

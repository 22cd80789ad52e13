"""Shapes of drawings, as SVG: text, boxes, lines, curves; every text escaped."""

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from netplan.reports.escape import strip_control


def text_line(x: float, y: float, words: str, kind: str, *, anchor: str = "start") -> Markup:
    """One line of text.

    Examples
    --------
    >>> text_line(1, 2, "<b>", "label")
    Markup('<text x="1" y="2" class="label" text-anchor="start">&lt;b&gt;</text>')
    """
    return Markup('<text x="{}" y="{}" class="{}" text-anchor="{}">{}</text>').format(
        short_number(x), short_number(y), kind, anchor, strip_control(words)
    )


def box(x: float, y: float, width: float, height: float, kind: str) -> Markup:
    """Rectangle with corners as round as its height allows."""
    shape = Markup('<rect x="{}" y="{}" width="{}" height="{}" rx="{}" class="{}"/>')
    return shape.format(*map(short_number, (x, y, width, height, min(5.0, height / 6))), kind)


def boxes(corners: Iterable[tuple[float, float]], size: float, kind: str) -> Markup:
    """Squares of one size and kind as one shape, by their upper left corners: of thousands.

    Examples
    --------
    >>> boxes([(1, 2), (16, 2)], 13, "node")
    Markup('<path d="M1 2h13v13h-13zm15 0h13v13h-13z" class="node"/>')
    """
    side, path, before = short_number(size), "", (0.0, -1.0)
    for x, y in corners:
        along = short_number(x - before[0])
        path += f"m{along} 0" if y == before[1] else f"M{short_number(x)} {short_number(y)}"
        path += f"h{side}v{side}h-{side}z"
        before = (x, y)
    return Markup('<path d="{}" class="{}"/>').format(path, kind)


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
        strip_control(title),
        short_number(width),
        Markup("\n").join(shapes),
    )


def short_number(value: float) -> str:
    """At most one decimal: finer than any screen shows."""
    return f"{value:.1f}".removesuffix(".0")


def disc(x: float, y: float, radius: float, kind: str, title: str = "") -> Markup:
    """A circle about its centre, with what it is as a title.

    Examples
    --------
    >>> disc(1, 2, 3, "node", "leaf-0")
    Markup('<circle cx="1" cy="2" r="3" class="node"><title>leaf-0</title></circle>')
    """
    shape = Markup('<circle cx="{}" cy="{}" r="{}" class="{}">{}</circle>')
    return shape.format(*map(short_number, (x, y, radius)), kind, hover_title(title))


def square(x: float, y: float, half: float, kind: str, title: str = "") -> Markup:
    """A square about its centre, with what it is as a title."""
    shape = Markup('<rect x="{}" y="{}" width="{}" height="{}" rx="3" class="{}">{}</rect>')
    corner = (x - half, y - half, 2 * half, 2 * half)
    return shape.format(*map(short_number, corner), kind, hover_title(title))


def way(
    points: Sequence[tuple[float, float]], kind: str, *, width: float = 1.0, title: str = ""
) -> Markup:
    """A line of a width from the first point to the last; of three, bent towards the middle one.

    Examples
    --------
    >>> way([(0, 0), (4.5, -2), (9, 0)], "wire", width=2)
    Markup('<path d="M0 0 Q4.5 -2 9 0" class="wire" style="stroke-width:2"></path>')
    """
    path = path_steps(points)
    shape = Markup('<path d="{}" class="{}" style="stroke-width:{}">{}</path>')
    return shape.format(path, kind, short_number(width), hover_title(title))


def path_steps(points: Sequence[tuple[float, float]]) -> str:
    """Steps of a path from the first point to the last; of three, bent towards the middle one.

    Examples
    --------
    >>> path_steps([(0, 0), (4.5, -2), (9, 0)])
    'M0 0 Q4.5 -2 9 0'
    """
    start, *others = (" ".join(map(short_number, point)) for point in points)
    return f"M{start} {'Q' if len(others) > 1 else 'L'}{' '.join(others)}"


def shifted(shapes: Iterable[Markup], down: float) -> Markup:
    """Shapes further down."""
    group = Markup('<g transform="translate(0 {})">{}</g>')
    return group.format(short_number(down), Markup("\n").join(shapes))


def hover_title(words: str) -> Markup:
    """What a browser says where the pointer rests."""
    return Markup("<title>{}</title>").format(strip_control(words)) if words else Markup("")


def standalone(drawn: Markup, style: str) -> str:
    """A drawing as a file of its own, with the style that its classes name."""
    start, _, rest = str(drawn).removeprefix("<svg ").partition(">")
    paper = '<rect width="100%" height="100%" class="paper"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {start}>'
    return f"{head}<style>{style}</style>{paper}{rest}\n"

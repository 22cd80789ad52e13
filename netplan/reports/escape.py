"""Text of users and suppliers on its way into HTML, charts and drawings.

Jinja2 and the drawing escape every text themselves. Charts need one more step, since plotly reads
a small markup inside labels (``<b>``, ``<a href>``, ``<br>``) that a name must not reach.
"""

LABEL_LENGTH = 30
TIMES = "\u00d7"
"""Sign between a count and what is counted."""


def strip_control(text: str) -> str:
    r"""Text without control signs, whose effect on a page nobody sees.

    Examples
    --------
    >>> strip_control("rail\u202eonly\x00") == "rail\ufffdonly\ufffd"
    True
    """
    return "".join(sign if sign.isprintable() or sign == "\n" else "\ufffd" for sign in text)


def short(text: str, length: int = LABEL_LENGTH) -> str:
    """Text cut to a length, with an ellipsis.

    Examples
    --------
    >>> short("rail-optimized", 8)
    'rail-op…'
    """
    shown = strip_control(text)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def chart_label(text: str, length: int = LABEL_LENGTH) -> str:
    """Text that plotly shows as it is.

    Examples
    --------
    >>> chart_label("<b>rail</b>")
    '&lt;b&gt;rail&lt;/b&gt;'
    """
    import html

    return html.escape(short(text, length), quote=False)

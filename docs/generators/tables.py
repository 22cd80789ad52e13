"""Tables and texts as MyST has them."""

import re
from collections.abc import Iterable, Mapping, Sequence

Pages = Mapping[str, str]
"""Texts by the path of their page."""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A table of Markdown.

    Examples
    --------
    >>> print(table(["key", "meaning"], [["a", "x | y"]]))
    | key | meaning |
    |---|---|
    | a | x \| y |
    <BLANKLINE>
    """
    lines = [heads, ["---"] * len(heads)]
    text = ["|" + "|".join(lines[1]) + "|"]
    shown = [_row(heads), *text, *(_row(row) for row in rows)]
    return "\n".join(shown) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def code(text: str) -> str:
    """A text as code, or nothing.

    Examples
    --------
    >>> code("--gpus"), code("")
    ('`--gpus`', '')
    """
    return f"`{text}`" if text else ""


def markdown(text: str) -> str:
    """A text of a docstring or a help as Markdown.

    Examples
    --------
    >>> markdown("See ``--set``, :func:`ask` and <this>.")
    'See `--set`, `ask` and &lt;this>.'
    """
    text = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text.replace("``", "`"))
    outside = re.split(r"(`[^`]*`)", text)
    for number in range(0, len(outside), 2):
        outside[number] = _escaped(outside[number])
    return "".join(outside)


def _escaped(text: str) -> str:
    text = text.replace("<", "&lt;").replace("$", "\\$")
    return re.sub(r"([*_\[\]])", r"\\\1", text)

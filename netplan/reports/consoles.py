"""Rendering a layout of tables and text: for a terminal, for a file, for a notebook."""

import io

from rich.console import Console, RenderableType
from rich.text import Text

NOTEBOOK_WIDTH = 120


def as_text(layout: RenderableType, width: int) -> str:
    r"""Plain text of at most ``width`` columns.

    Examples
    --------
    >>> as_text(Text("netplan", style="bold"), 20)
    'netplan\n'
    """
    return _render(layout, Console(file=io.StringIO(), width=width, color_system=None))


def as_terminal(layout: RenderableType, width: int) -> str:
    """Text with the terminal's colours."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="standard")
    return _render(layout, console)


def as_html(layout: RenderableType) -> str:
    """HTML fragment for notebooks; text is escaped."""
    console = Console(file=io.StringIO(), width=NOTEBOOK_WIDTH, record=True)
    console.print(layout)
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def printable(text: str, style: str = "") -> Text:
    r"""Text without control characters: a name from a file must not steer the terminal.

    Examples
    --------
    >>> printable("rail\x1b[2Jonly").plain
    'rail�[2Jonly'
    """
    shown = "".join(sign if sign.isprintable() or sign == "\n" else "\ufffd" for sign in text)
    return Text(shown, style=style)


def _render(layout: RenderableType, console: Console) -> str:
    console.print(layout)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"

"""Drawings in pages: under a block of commands, what its last ``netplan draw`` draws.

They stand in the page itself, so that they take the colours that the reader has chosen.
"""

import re
import shlex
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from netplan.cli.main import netplan as command_line
from netplan.reports.page import drawing_style

DRAWN = re.compile(r"(```bash\n(?:[^`]*\n)?(netplan draw [^\n]*)\n```\n)\n<!-- drawn: ([^\n]*) -->")
STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
COLOURS = re.compile(r":root \{\s*(?:color-scheme: [^;]*;)?\s*(.*?)\s*\}", re.DOTALL)
DARK = 'body[data-theme="dark"]', 'body:not([data-theme="light"])'
"""Readers who chose the dark scheme, and those who have not chosen the light one."""


def shown_drawings(text: str) -> str:
    r"""Put the drawings of a page where they belong, each with its caption.

    Examples
    --------
    >>> page = "```bash\nnetplan draw --gpus 8 --radix 8 --hb-size 4 -o a.svg\n```\n"
    >>> found = shown_drawings(page + "\n<!-- drawn: Two servers on one leaf each rail. -->\n")
    >>> print(found.splitlines()[5][:54])
    <figure class="drawn"><svg xmlns="http://www.w3.org/20
    >>> found.count("class=\"node gpus\""), "<style>" in found
    (8, False)
    """
    return DRAWN.sub(lambda found: found[1] + _figure(found[2], found[3]), text)


def _figure(command: str, caption: str) -> str:
    said = f"<figcaption>{escape(caption)}</figcaption>"
    figure = f'<figure class="drawn">{_drawn(command)}{said}</figure>'
    return f"\n```{{raw}} html\n{figure}\n```\n"


def _drawn(command: str) -> str:
    """The drawing of a command, without the style that all drawings share."""
    words = shlex.split(command)[1:]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "drawing.svg"
        words[words.index("-o") + 1] = str(path)
        command_line.main(words, standalone_mode=False)
        return STYLE.sub("", path.read_text(encoding="utf-8")).strip()


def site_style() -> str:
    """Style of all drawings of the site, whose readers choose a light or a dark scheme."""
    style = drawing_style()
    light, dark = COLOURS.findall(style)
    rules = "\n".join(line for line in style.splitlines() if line.startswith(".drawing"))
    chosen, not_light = (f"{body} .drawing {{ {dark} }}" for body in DARK)
    asked = f"@media (prefers-color-scheme: dark) {{ {not_light} }}"
    return f".drawing {{ {light} }}\n{chosen}\n{asked}\n{rules}\n"

"""What every page shares: templates, styles, scripts and the policy that lets nothing in.

Jinja2 escapes every text. On top of that the page forbids itself, by its content security policy,
any request and any script but its own, which it names by their hashes: should a text ever slip
through unescaped, a browser would still not run it.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct

from netplan.catalog import shipped_root
from netplan.reports.charts import Chart
from netplan.reports.drawn_chart import draw
from netplan.reports.escape import strip_control
from netplan.version import __version__

TEMPLATES = "reports/templates"
BROAD_COLUMNS, BROAD_ROWS, LONG_TEXT = 8, 9, 40
"""Columns, rows, and signs in a cell from which on a table is printed across the paper [1]."""
SORTED_COLUMNS, SORTED_ROWS = 4, 10
"""Columns from which on, and rows above which, a table brings the script that sorts it [1]."""
STYLE, SCRIPT, TABLES = "report.css", "report.js", "tables.js"


def framed(
    template: str, charts: Sequence[Chart], values: Mapping[str, object], *, tables: bool = False
) -> str:
    """Write a page.

    Parameters
    ----------
    template
        File of the page, which extends ``base.html.j2``.
    charts
        Charts in order; the template finds each by its key.
    values
        What the template names besides.
    tables
        Whether it has tables to sort, though it may have no charts.
    """
    script = _read(SCRIPT) if charts else ""
    if charts or tables:
        script += _read(TABLES)
    page = {
        "version": __version__,
        "charts": {chart.key: chart for chart in charts},
        "style": Markup(_read(STYLE)),  # noqa: S704 - shipped
        "script": Markup(script),  # noqa: S704 - shipped
        "hashes": [content_hash(script)] if script else [],
    }
    return rendered(template, {**values, **page})


def rendered(template: str, values: Mapping[str, object]) -> str:
    """A part of a page, without styles and scripts.

    Templates escape every text, show control signs as such, and refuse unknown names.
    """
    environment = Environment(
        loader=FileSystemLoader(templates()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    environment.globals["drawn"] = draw
    return environment.get_template(template).render(**values)


def templates() -> Path:
    """Folder of the templates, styles and scripts."""
    return shipped_root() / TEMPLATES


def drawing_style() -> str:
    """Colours and style of drawings, for one that stands alone."""
    style = _read(STYLE)
    rules = [rule for rule in style.splitlines() if rule.startswith(".drawing")]
    colours = style[: style.index("* {")].rstrip()
    return "\n".join([colours, *rules, ".drawing text { font-family: sans-serif; }"])


def content_hash(text: str) -> str:
    """Hash of a script as a content security policy names it.

    Examples
    --------
    >>> content_hash("")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _read(name: str) -> str:
    return (templates() / name).read_text(encoding="utf-8")


def _visible(value: object) -> object:
    """Text without control signs; markup of our own as it is."""
    return (
        strip_control(value) if isinstance(value, str) and not isinstance(value, Markup) else value
    )


class TextGrid(Struct, frozen=True):
    """A table of texts: title and style of each column, rows, some set off; its name for ears.

    Rows that stand under parts, or above sums, are ``ordered``.
    """

    heads: list[tuple[str, str]]
    rows: list[tuple[Sequence[str], bool]]
    name: str = "Table"
    ordered: bool = False

    @property
    def sortable(self) -> bool:
        """Whether a reader may sort its rows: more than a few, in columns with titles."""
        return not self.ordered and len(self.heads) >= SORTED_COLUMNS

    @property
    def long(self) -> bool:
        """Whether a page without charts, too, brings a script to sort it."""
        return self.sortable and len(self.rows) > SORTED_ROWS

    @property
    def broad(self) -> bool:
        """Whether paper has to be turned for it: many columns and rows, and long texts."""
        large = len(self.heads) >= BROAD_COLUMNS and len(self.rows) >= BROAD_ROWS
        return large and any(len(cell) > LONG_TEXT for row, _ in self.rows for cell in row)

    @property
    def lines(self) -> list[tuple[bool, list[tuple[str, str]]]]:
        """Rows as cells with their style, and whether a row is set off."""
        kinds = [kind for _, kind in self.heads]
        return [(strong, list(zip(row, kinds, strict=True))) for row, strong in self.rows]

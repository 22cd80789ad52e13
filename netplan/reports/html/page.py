"""The whole page: templates, styles and charts in one file that loads nothing.

Jinja2 escapes every text. On top of that the page forbids itself, by its content security policy,
any request and any script but its own two, which it names by their hashes: should a text ever slip
through unescaped, a browser would still not run it.
"""

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from netplan import __version__
from netplan.catalog import shipped_root
from netplan.costing.cabling import CablingBook
from netplan.errors import CatalogError
from netplan.reports.cost_words import comparison_sentences
from netplan.reports.html.charts import (
    Chart,
    driver_chart,
    price_chart,
    running_chart,
    speed_chart,
)
from netplan.reports.html.drawing import fabric_drawing
from netplan.reports.html.racks import rack_drawing
from netplan.reports.html.sections import (
    bill_table,
    comparison_table,
    length_table,
    run_table,
    running_table,
    switch_racks,
)
from netplan.reports.html.sources import (
    assumptions,
    file_sources,
    input_table,
    price_sources,
    rate_sources,
    value_sources,
)
from netplan.reports.html.tables import Table
from netplan.reports.html.text import plain
from netplan.reports.procurement import Procurement

TEMPLATES = "reports/templates"


def page(answer: Procurement) -> str:
    """Write the report.

    Parameters
    ----------
    answer
        Of :func:`netplan.reports.procurement.procurement`.

    Raises
    ------
    CatalogError
        If the definition names a template that is not shipped.
    """
    folder = shipped_root() / TEMPLATES
    if not (folder / answer.definition.template).is_file():
        raise CatalogError(f"report {answer.definition.name}: no template in {folder}")
    charts = {chart.key: chart for chart in _charts(answer)}
    drawn = [{"key": c.key, "data": c.data, "layout": c.layout} for c in charts.values()]
    script, plotly = _script(folder), _plotly()
    fabric = answer.row(answer.chosen.name).fabric
    racks = switch_racks(answer)
    return (
        _environment(folder)
        .get_template(answer.definition.template)
        .render(
            answer=answer,
            version=__version__,
            verdict=answer.recommendation,
            **_tables(answer),
            break_evens=list(comparison_sentences(answer.cost)),
            notes=assumptions(answer),
            left_out=answer.cost.left_out,
            charts=charts,
            chart_data=drawn,
            drawing=fabric_drawing(fabric) if fabric else "",
            racks=racks,
            rack_drawing=rack_drawing(racks) if racks else "",
            style=Markup((folder / "report.css").read_text(encoding="utf-8")),  # noqa: S704 - shipped
            script=Markup(script),  # noqa: S704 - shipped
            plotly=Markup(plotly),  # noqa: S704 - plotly's own file
            hashes=[content_hash(plotly), content_hash(script)],
        )
    )


def _tables(answer: Procurement) -> dict[str, Table | None]:
    """Tables by their names in the templates."""
    return {
        "comparison": comparison_table(answer),
        "running": running_table(answer),
        "run": run_table(answer),
        "bill": bill_table(answer.chosen),
        "lengths": length_table(answer.library.one(CablingBook)),
        "prices": price_sources(answer),
        "values": value_sources(answer),
        "rates": rate_sources(answer),
        "files": file_sources(answer),
        "inputs": input_table(answer),
    }


def content_hash(text: str) -> str:
    """Hash of a script as a content security policy names it.

    Examples
    --------
    >>> content_hash("")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _charts(answer: Procurement) -> list[Chart]:
    """Charts that the answer has data for."""
    trained = str(answer.inputs["model"])
    found = (
        price_chart(answer.cost),
        driver_chart(answer.cost, answer.chosen, answer.definition.drivers_shown),
        running_chart(answer.cost),
        speed_chart(answer.cost, answer.times_s, answer.chosen.name, trained),
    )
    return [chart for chart in found if chart is not None]


@cache
def _plotly() -> str:
    """The charts' library, read once."""
    return str(get_plotlyjs())


def _script(folder: Path) -> str:
    return (folder / "report.js").read_text(encoding="utf-8")


def _environment(folder: Path) -> Environment:
    """Templates that escape every text, show control signs as such, and refuse unknown names."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        lstrip_blocks=True,
        finalize=_visible,
    )


def _visible(value: object) -> object:
    """Text without control signs; markup of our own as it is."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value

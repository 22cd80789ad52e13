"""What the page shows of a state: the verdict, a table, two charts, a drawing, the command."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from netplan.errors import NetplanError
from netplan.explore.state import State
from netplan.questions.compare import compare
from netplan.questions.draw import draw
from netplan.reports.charts import ACCENT, GREY, hover
from netplan.units import si

HEIGHT_PX = 320
STYLE = """<style>
.np { display: grid; grid-template-columns: 270px minmax(0, 1fr); gap: 28px; }
.np > div { min-width: 0; display: flex; flex-direction: column; gap: 14px; }
.np .two { display: grid; gap: 12px;
  grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); }
.np-title { font-size: 24px; font-weight: 600; margin-bottom: 12px; }
.np .two > div { min-width: 0; overflow: hidden; }
.np code.line { display: block; padding: 10px; border-radius: 6px; overflow-wrap: anywhere;
  background: rgba(128, 128, 128, .14); font-size: 13px; user-select: all; }
.np img { max-width: 760px; width: 100%; }
@media (max-width: 860px) { .np { grid-template-columns: minmax(0, 1fr); } }
</style>"""
NO_VERDICT: Mapping[str, Any] = {"sentence": "Nothing to recommend.", "fabric": None, "changes": ()}
CHEAPEST = "#d9702b"


class View(Struct, frozen=True):
    """All parts of the page for one state; ``error`` says in one line why there are none.

    Parameters
    ----------
    verdict, changes
        What to buy, and at which price another one wins.
    rows
        One a fabric, as the table has them.
    bars, scatter
        Figures as plotly takes them.
    notes
        What every number assumes.
    """

    verdict: str = ""
    changes: tuple[str, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()
    bars: Mapping[str, Any] | None = None
    scatter: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    error: str = ""


def view_of(state: State) -> View:
    """Ask the question of a state, and make its views.

    Examples
    --------
    >>> view = view_of(State(gpus=1024, model="gpt-22b", fabrics=("rail-only", "fat-tree")))
    >>> [row["fabric"] for row in view.rows], view.error
    (['rail-only', 'fat-tree'], '')
    """
    try:
        data = compare(**state.question()).to_dict()
    except NetplanError as error:
        return View(error=str(error))
    found = [row for row in data["fabrics"] if not row.get("error")]
    verdict = data["verdict"] or {
        "sentence": "Nothing to recommend.",
        "fabric": None,
        "changes": (),
    }
    chosen = verdict["fabric"]
    return View(
        verdict=verdict["sentence"],
        changes=tuple(one["sentence"] for one in verdict["changes"]),
        rows=tuple(_row(row, chosen) for row in found),
        bars=_bars(found, chosen, data["currency"]),
        scatter=_scatter(found, chosen, data["currency"]),
        notes=tuple(f"{row['fabric']}: {' '.join(row['notes'])}" for row in found if row["notes"]),
    )


def _row(row: Mapping[str, Any], chosen: str | None) -> dict[str, Any]:
    """One row of the table, as people read it; the raw numbers are the command's."""
    time_s, cost, watts = row.get("iteration_time_s"), row.get("cost"), row.get("power_w")
    least = "" if row.get("cost_complete", True) else "≥ "
    return {
        "": "★" if row["fabric"] == chosen else "",
        "fabric": row["fabric"],
        "switches": f"{row['switches']:,}",
        "modules": f"{row['transceivers']:,}",
        "price": f"{least}{cost['base'] / 1e6:,.1f} M {cost['currency']}" if cost else "-",
        "power": si(watts, "W") if watts else "-",
        "iteration": si(time_s, "s") if time_s else "-",
        "MFU": f"{row['mfu']:.0%}" if row.get("mfu") else "-",
    }


def _bars(
    rows: Sequence[Mapping[str, Any]], chosen: str | None, currency: str
) -> dict[str, Any] | None:
    """Prices side by side, with their ranges."""
    priced = [row for row in rows if row.get("cost")][::-1]
    if not priced:
        return None
    costs = [row["cost"] for row in priced]
    base = [cost["base"] / 1e6 for cost in costs]
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "y": [row["fabric"] for row in priced],
                "x": base,
                "marker": {"color": _colours(priced, chosen)},
                "hoverinfo": "text",
                "hovertext": [
                    hover(row["fabric"], f"{one:,.1f} M {currency}")
                    for row, one in zip(priced, base, strict=True)
                ],
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": [(cost["high"] - cost["base"]) / 1e6 for cost in costs],
                    "arrayminus": [(cost["base"] - cost["low"]) / 1e6 for cost in costs],
                },
            }
        ],
        "layout": _layout(f"price of the network, M {currency}", ""),
    }


def _scatter(
    rows: Sequence[Mapping[str, Any]], chosen: str | None, currency: str
) -> dict[str, Any] | None:
    """Price against iteration time."""
    timed = [row for row in rows if row.get("cost") and row.get("iteration_time_s")]
    if not timed:
        return None
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "markers+text",
                "x": [row["cost"]["base"] / 1e6 for row in timed],
                "y": [row["iteration_time_s"] for row in timed],
                "text": [row["fabric"] for row in timed],
                "textposition": "top center",
                "cliponaxis": False,
                "marker": {"size": 12, "color": _colours(timed, chosen)},
                "hoverinfo": "text",
                "hovertext": [
                    hover(row["fabric"], si(row["iteration_time_s"], "s")) for row in timed
                ],
            }
        ],
        "layout": _layout(f"price of the network, M {currency}", "iteration time, s"),
    }


def _colours(rows: Sequence[Mapping[str, Any]], chosen: str | None) -> list[str]:
    """The recommended one stands out; those that are no candidates are grey."""
    found = []
    for row in rows:
        timed = row.get("iteration_time_s") is not None
        found.append(CHEAPEST if row["fabric"] == chosen else ACCENT if timed else GREY)
    return found


def _layout(x: str, y: str) -> dict[str, Any]:
    return {
        "height": HEIGHT_PX,
        "margin": {"l": 110, "r": 20, "t": 10, "b": 50},
        "xaxis": {"title": {"text": x}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": y}, "automargin": True},
        "showlegend": False,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }


def drawing_of_state(state: State) -> str:
    """Address of the drawing of the chosen fabric, as an image that runs no script."""
    asked = state.question()
    names = ("gpus", "radix", "hb_size", "oversubscription", "accelerator")
    try:
        drawn = draw(**{name: asked[name] for name in names}, fabric=state.drawn)
    except NetplanError:
        return ""
    return "data:image/svg+xml;base64," + b64encode(drawn.svg().encode()).decode()

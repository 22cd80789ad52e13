"""The report's section on failures: survival curves, what each failure costs, tables."""

from math import exp

from netplan.questions.faults_answer import FabricFaults, FaultsAnswer
from netplan.questions.faults_table import (
    cause_rows,
    load_rows,
    recovery_rows,
    scenario_rows,
    single_rows,
    spare_rows,
    time_rows,
    years_rows,
)
from netplan.reports.charts import Chart, Json, hover
from netplan.reports.escape import chart_label
from netplan.reports.page import Table, table
from netplan.reports.text import Cell

COLOURS = ("#3b74c9", "#d9782d", "#2e9e74", "#8a94a3", "#b0569c", "#c2a02f")
CURVE_POINTS = 61
HOURS_PER_YEAR = 8760.0
SURVIVAL_PX, COST_PX = 360, 420
TEXT_COLUMNS = frozenset(
    {"fabric", "failed", "goes on", "way", "needs", "cause", "part, delivery", "busiest link"}
)


def faults_charts(answer: FaultsAnswer) -> tuple[Chart, ...]:
    """Chance that the network stops no job for so long; slowdown by each failure."""
    return (_survival(answer), _costs(answer))


def faults_tables(answer: FaultsAnswer) -> dict[str, Table | None]:
    """Tables by their names in the template; None for those without rows."""
    found = {
        "years": years_rows(answer),
        "time": time_rows(answer),
        "scenario": scenario_rows(answer),
        "loads": load_rows(answer),
        "singles": [
            {"fabric": fabric.name, **row}
            for fabric in answer.fabrics
            for row in single_rows(fabric)
        ],
        "recoveries": recovery_rows(answer),
        "causes": cause_rows(answer),
        "spares": spare_rows(answer),
    }
    return {name: _table(rows) if rows else None for name, rows in found.items()}


def _table(rows: list[dict[str, Cell]]) -> Table:
    heads = [key if key in TEXT_COLUMNS else f"{key}>" for key in rows[0]]
    return table(heads, [[str(cell) for cell in row.values()] for row in rows])


def _survival(answer: FaultsAnswer) -> Chart:
    """Survival curves exp(-t / M), by fabric, of the failures that the network causes."""
    slowest = min(_between_h(fabric) for fabric in answer.fabrics)
    hours = [4 * slowest * step / (CURVE_POINTS - 1) for step in range(CURVE_POINTS)]
    data: list[Json] = []
    for number, fabric in enumerate(answer.fabrics):
        chances = [exp(-hour / _between_h(fabric)) for hour in hours]
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": chart_label(fabric.name),
                "x": hours,
                "y": [100 * chance for chance in chances],
                "line": {"color": COLOURS[number % len(COLOURS)], "width": 2},
                "hoverinfo": "text",
                "hovertext": [
                    hover(fabric.name, f"{hour:.3g} h: {100 * chance:.1f} %")
                    for hour, chance in zip(hours, chances, strict=True)
                ],
            }
        )
    layout: Json = {
        "xaxis": {"title": {"text": "hours"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "no stop by the network so far, %"}, "range": [0, 102]},
        "showlegend": True,
    }
    label = "Chance that the network has stopped no job so far, by fabric"
    return Chart("survival", label, SURVIVAL_PX, tuple(data), layout)


def _between_h(fabric: FabricFaults) -> float:
    """Mean time between stops by the network [h]."""
    return HOURS_PER_YEAR / max(fabric.forecast.network_interruptions_per_year, 1e-9)


def _costs(answer: FaultsAnswer) -> Chart:
    """Slowdown while one part of each kind has failed, one bar a fabric."""
    kinds = list(dict.fromkeys(one.kind for fabric in answer.fabrics for one in fabric.singles))
    data: list[Json] = []
    for number, fabric in enumerate(answer.fabrics):
        found = {one.kind: one.impact for one in fabric.singles}
        slow = {kind: impact.slowdown for kind, impact in found.items()}
        data.append(
            {
                "type": "bar",
                "name": chart_label(fabric.name),
                "x": list(range(len(kinds))),
                "y": [
                    None if slow.get(kind) is None else 100 * (slow[kind] or 0) for kind in kinds
                ],
                "marker": {"color": COLOURS[number % len(COLOURS)]},
                "hoverinfo": "text",
                "hovertext": [
                    hover(fabric.name, kind, _words(found[kind].way, slow[kind]))
                    if kind in found
                    else ""
                    for kind in kinds
                ],
            }
        )
    layout: Json = {
        "barmode": "group",
        "xaxis": {
            "tickmode": "array",
            "tickvals": list(range(len(kinds))),
            "ticktext": [chart_label(kind, 16) for kind in kinds],
            "showgrid": False,
        },
        "yaxis": {"title": {"text": "slower, %"}, "rangemode": "tozero"},
        "showlegend": True,
    }
    return Chart("failures", "Slowdown by one failure of each kind", COST_PX, tuple(data), layout)


def _words(way: str, slowdown: float | None) -> str:
    if slowdown is None:
        return "the job stops" if way == "stopped" else "not timed"
    return f"{100 * slowdown:.2f} % slower, {way}"

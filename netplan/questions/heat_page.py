"""The heat map of a traffic matrix as one offline HTML page, with hovering."""

from html import escape
from math import log10
from typing import TYPE_CHECKING

from netplan.questions.traffic import TrafficAnswer
from netplan.units import si

if TYPE_CHECKING:
    import plotly.graph_objects as go

HEIGHT_PX = 760


def heat_page(answer: TrafficAnswer) -> str:
    """One self-contained page: plotly is embedded, nothing is fetched.

    Parameters
    ----------
    answer
        The traffic of a training run.
    """
    figure = heat_figure(answer)
    page = figure.to_html(include_plotlyjs=True, full_html=True, div_id="heat-map")
    return str(page).replace("<head>", "<head><title>netplan traffic</title>", 1)


def heat_figure(answer: TrafficAnswer) -> "go.Figure":
    """Blocks of GPUs that send (rows) and receive (columns), by the logarithm of the bytes."""
    import plotly.graph_objects as go

    cells = answer.heat_bytes
    size = -(-answer.matrix.gpus // len(cells))
    names = [
        f"GPU {number * size:,} to {(number + 1) * size - 1:,}" for number in range(len(cells))
    ]
    figure = go.Figure(
        go.Heatmap(
            z=[[log10(cell) if cell > 0 else None for cell in row] for row in cells],
            text=[[si(cell, "B") for cell in row] for row in cells],
            x=names,
            y=names,
            colorscale="Viridis",
            colorbar={"title": "log10 bytes"},
            hovertemplate="%{y} send %{text}<br>to %{x}<extra></extra>",
        )
    )
    inputs = answer.workload.inputs
    # Plotly takes markup in titles: a name from a file must stay text.
    title = (
        f"{inputs['model']} on {inputs['gpus']:,} GPUs, HB domains of {inputs['hb_size']:,}:"
        f" {si(answer.matrix.total_bytes, 'B')} an iteration,"
        f" {100 * answer.hb_share:.1f} % inside HB domains"
    )
    figure.update_layout(
        title=escape(title),
        height=HEIGHT_PX,
        yaxis={"autorange": "reversed", "title": "sending", "showticklabels": False},
        xaxis={"title": "receiving", "showticklabels": False},
    )
    return figure

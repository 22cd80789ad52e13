# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""The page itself, as a marimo app: it lays out controls and views, and computes nothing."""

import marimo

app = marimo.App(width="full", app_title="netplan explore")


@app.cell
def _():
    from html import escape

    import marimo as mo
    import plotly.graph_objects as go

    from netplan.errors import InputError
    from netplan.explore.state import (
        FACTORS,
        GPUS,
        HB_SIZES,
        RADICES,
        RATIOS,
        State,
        steps,
    )
    from netplan.explore.views import STYLE, drawing_of_state, view_of

    return (
        FACTORS,
        GPUS,
        HB_SIZES,
        InputError,
        RADICES,
        RATIOS,
        STYLE,
        State,
        drawing_of_state,
        escape,
        go,
        mo,
        steps,
        view_of,
    )


@app.cell
def _(InputError, State, mo):
    query = mo.query_params()
    refused = ""
    try:
        first = State.of_link(
            {name: str(query[name]) for name in State.__struct_fields__ if name in query}
        )
    except InputError as error:
        first, refused = State(), str(error)
    return first, query, refused


@app.cell
def _(FACTORS, GPUS, HB_SIZES, RADICES, RATIOS, first, mo, steps):
    names = steps()

    def slider(name, values, label):
        return mo.ui.slider(
            steps=list(values),
            value=getattr(first, name),
            label=label,
            show_value=True,
            full_width=True,
        )

    def choice(name, label):
        return mo.ui.dropdown(names[name], value=getattr(first, name), label=label, full_width=True)

    controls = mo.ui.dictionary(
        {
            "gpus": slider("gpus", GPUS, "GPUs"),
            "radix": slider("radix", RADICES, "ports of a switch"),
            "hb_size": slider("hb_size", HB_SIZES, "GPUs of an HB domain"),
            "oversubscription": slider("oversubscription", RATIOS, "oversubscription of leaves"),
            "transceiver_factor": slider(
                "transceiver_factor", FACTORS, "price of transceivers, times"
            ),
            "port_factor": slider("port_factor", FACTORS, "price of switch ports, times"),
            "model": choice("model", "model"),
            "accelerator": choice("accelerator", "GPU"),
            "prices": choice("prices", "price book"),
            "fabrics": mo.ui.multiselect(
                names["fabrics"], value=list(first.fabrics), label="fabrics", full_width=True
            ),
            "drawn": choice("drawn", "drawing of"),
        }
    )
    return (controls,)


@app.cell
def _(State, controls, query):
    _values = {
        name: tuple(one) if isinstance(one, list) else one for name, one in controls.value.items()
    }
    state = State(**{name: one for name, one in _values.items() if one is not None})
    for _name in State.__struct_fields__:
        _value, _first = getattr(state, _name), getattr(State(), _name)
        _text = ",".join(_value) if isinstance(_value, tuple) else f"{_value}"
        if _value == _first:
            query.remove(_name)
        elif query.get(_name) != _text:
            query.set(_name, _text)
    return (state,)


@app.cell
def _(state, view_of):
    view = view_of(state)
    return (view,)


@app.cell
def _(STYLE, controls, drawing_of_state, escape, go, mo, refused, state, view):
    def html(one):
        return mo.as_html(one).text

    def figure(made):
        return f"<div>{html(mo.ui.plotly(go.Figure(made)))}</div>" if made else ""

    _drawn = drawing_of_state(state)
    _table = mo.ui.table(
        list(view.rows), selection=None, pagination=False, show_download=False, label="fabrics"
    )
    _assumed = "\n".join(f"- {one}" for one in (*view.changes, *view.notes))
    _parts = [
        html(mo.callout(mo.plain_text(refused), kind="warn")) if refused else "",
        html(
            mo.callout(
                mo.md(view.error or f"**{view.verdict}**"), kind="danger" if view.error else "info"
            )
        ),
        html(_table) if view.rows else "",
        f'<div class="two">{figure(view.bars)}{figure(view.scatter)}</div>',
        f'<img src="{_drawn}" alt="drawing of {state.drawn}">' if _drawn else "",
        "<p>The command that gives this answer; the address of this page brings it back:</p>",
        html(mo.Html(f'<code class="line">{escape(state.command())}</code>')),
        html(mo.accordion({"What these numbers assume": mo.md(_assumed)})) if view.rows else "",
    ]
    _sides = "".join(html(controls[_name]) for _name in controls.elements)
    mo.Html(
        f'{STYLE}<h1 class="np-title">netplan explore</h1>'
        f'<div class="np"><div>{_sides}</div><div>{"".join(_parts)}</div></div>'
    )


if __name__ == "__main__":
    app.run()

# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""The page itself, as a marimo app: it lays out controls and views, and computes nothing."""

import marimo

app = marimo.App(width="full", app_title="netplan explore")


@app.cell
def _():
    import marimo as mo
    from markupsafe import escape

    from netplan.errors import InputError
    from netplan.explore.state import LABELS, State, is_slider, steps
    from netplan.explore.views import page_of

    return InputError, LABELS, State, escape, is_slider, mo, page_of, steps


@app.cell
def _(InputError, State, mo):
    query = mo.query_params()
    refused = ""
    try:
        first = State.of_link(
            {name: str(query[name]) for name in State.__struct_fields__ if name in query}
        )
    except InputError as error:
        first, refused = State.of(), str(error)
    return first, query, refused


@app.cell
def _(LABELS, first, is_slider, mo, steps):
    def _control(name, label, values):
        value = getattr(first, name)
        if is_slider(name):
            return mo.ui.slider(
                steps=list(values), value=value, label=label, show_value=True, full_width=True
            )
        if isinstance(value, tuple):
            return mo.ui.multiselect(values, value=list(value), label=label, full_width=True)
        return mo.ui.dropdown(values, value=value, label=label, full_width=True)

    _steps = steps(first.scenario)
    controls = mo.ui.dictionary(
        {name: _control(name, label, _steps[name]) for name, label in LABELS.items()}
    )
    sides = "".join(mo.as_html(controls[name]).text for name in controls.elements)
    return controls, sides


@app.cell
def _(State, controls, escape, first, mo, page_of, query, refused, sides):
    _values = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in controls.value.items()
    }
    _moved = {name: value for name, value in _values.items() if value is not None}
    state = State.of(first.scenario, **_moved)
    _link = state.query()
    for _name in State.__struct_fields__:
        if _name not in _link:
            query.remove(_name)
        elif query.get(_name) != _link[_name]:
            query.set(_name, _link[_name])
    mo.Html(
        f'<h1 class="np-title">netplan explore {escape(state.scenario)}</h1>'
        f'<div class="np"><div>{sides}</div><div>{page_of(state, refused)}</div></div>'
    )
    return (state,)


if __name__ == "__main__":
    app.run()

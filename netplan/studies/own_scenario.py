"""A study of somebody's own scenario: what that says takes the place of what the study has.

Inputs that are fields of the scenario, or values of files that it names, give way. So do axes, but
for those that the study is about: they are held at the scenario's value. Notes on inputs that are
others now go, as with ``--vary``.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from netplan.errors import InputError
from netplan.reports.quantities import Scalar
from netplan.scenarios.scenario import Scenario, places
from netplan.studies.definition import OF_EVERY_SCENARIO, Note, StudyDefinition
from netplan.studies.expressions import parse_expression
from netplan.studies.files import value_in
from netplan.studies.grid import Axis
from netplan.studies.phrases import brief
from netplan.studies.questions import FIXED, WORKLOAD, question_of, usual_scenario


def on_scenario(
    spec: StudyDefinition, scenario: str | Path | Scenario, catalog: str | None = None
) -> StudyDefinition:
    """The definition of a study about another scenario than its own.

    Parameters
    ----------
    spec
        The study, as its file has it.
    scenario
        A name, a path or a scenario.
    catalog
        Folder of the user's own catalogs.

    Returns
    -------
    StudyDefinition
        The same question, where the scenario says what the study is not about.

    Raises
    ------
    NetplanError
        If there is no such scenario, or the study cannot be asked about it.

    Examples
    --------
    >>> from netplan.studies.definition import STUDIES
    >>> spec = on_scenario(STUDIES.load("hb-size-paper"), "hgx-h100")
    >>> [axis.rows for axis in spec.axes[:3]], spec.axes[3].title, spec.inputs
    ([(('llama-3-405b',),), ((2048,),), ((16384,),)], 'hb_size', {'accelerator': 'h100-80gb'})
    """
    given = Scenario.load(scenario, catalog)
    _require_kind(spec, given)
    mine = usual_scenario(spec.ask, given, catalog)
    varied = {name for axis in spec.axes if spec.stays(axis) for name in axis.names}
    settled = {name for name in spec.inputs if name not in spec.about and _says(mine, name)}
    settled |= set(spec.axis_names) - varied
    spec = spec.changed(conditions=_of_what_varies(spec.conditions, varied))
    values = {name: _plain(value_in(mine, name, catalog)) for name in settled}
    used = _used(spec)
    held = used | {name for name in settled - {*spec.inputs} if name in places(mine.kind)}
    inputs = {
        name: values.get(name, value)
        for name, value in spec.inputs.items()
        if name not in settled or name in used or (name in OF_EVERY_SCENARIO and values[name])
    }
    axes = tuple(
        each
        for axis in spec.axes
        for each in ((axis,) if spec.stays(axis) else _held(axis, values, held))
    )
    known = {*inputs, *(name for axis in axes for name in axis.names), *spec.output_names}
    try:
        return spec.changed(
            studied=to_builtins(given),
            about=(),
            inputs=inputs,
            axes=axes,
            bill=_of(known - settled, spec.bill),
            titles=_of(known, spec.titles),
            notes=(*_notes(spec, settled), _replaced(spec, given, settled)),
        )
    except ValueError as error:
        raise InputError(f"study {spec.name} on {given.name}: {error}") from None


def _require_kind(spec: StudyDefinition, given: Scenario) -> None:
    """Refuse a scenario of another kind than what the study asks, or sets; InputError."""
    does, other = ("trains", "serving") if given.kind == "training" else ("serves", "training")
    foreign = places(other).keys() - places(given.kind).keys()
    sets_other = not foreign.isdisjoint((*spec.inputs, *spec.axis_names))
    if question_of(spec.ask).workload == other or sets_other:
        raise InputError(
            f"{given.name} {does}, and study {spec.name} is about {other}: give one of {other}"
        )


def _says(scenario: Scenario, name: str) -> bool:
    """Whether a scenario has a word for an input: a field of that name, or a file of that role."""
    if name.startswith(FIXED) or name == WORKLOAD:
        return True
    return name.partition(".")[0].replace("-", "_") in places(scenario.kind)


def _used(spec: StudyDefinition) -> set[str]:
    """Names that conditions, formulas, charts and answers of a study speak of."""
    texts = set(_texts(to_builtins((spec.charts, spec.relative, spec.answers))))
    return texts | spec.counted_with


def _texts(data: Any) -> Iterator[str]:  # noqa: ANN401 - plain data of any depth
    """All texts in plain data, keys too."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        yield from data
        yield from _texts([*data.values()])
    elif isinstance(data, (list, tuple)):
        for each in data:
            yield from _texts(each)


def _plain(value: object) -> Scalar:
    """A value that a point may have; None, which leaves it to the scenario, of all else."""
    return value if isinstance(value, Scalar) else None


def _of_what_varies(conditions: Sequence[str], varied: set[str]) -> tuple[str, ...]:
    """Conditions on what varies; others compare what the scenario has settled."""
    return tuple(text for text in conditions if not varied.isdisjoint(parse_expression(text).names))


def _held(axis: Axis, values: Mapping[str, Scalar], held: set[str]) -> Iterator[Axis]:
    """Inputs of an axis, each held at the scenario's value: tables and charts know their names."""
    for name in axis.names:
        if name in held:
            yield Axis(input=name, values=(values[name],))


def _of(names: Collection[str], table: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a table has for some names."""
    return None if table is None else {name: table[name] for name in table if name in names}


def _notes(spec: StudyDefinition, settled: set[str]) -> Iterator[str | Note]:
    """Notes that speak of no input that is another now."""
    for note in spec.notes:
        if isinstance(note, str) or settled.isdisjoint(note.of):
            yield note


def _replaced(spec: StudyDefinition, given: Scenario, settled: set[str]) -> str:
    """Says which scenario it is, and which values of the study gave way."""
    gone = [f"{name} = {brief(value)}" for name, value in spec.inputs.items() if name in settled]
    held = [name for name in spec.axis_names if name in settled]
    told = [f"its values of {', '.join(held)}"] * bool(held) + [", ".join(gone)] * bool(gone)
    start = f"Studied on {given.name}" + (f": {given.title}." if given.title else ".")
    if not told:
        return start
    return f"{start} Of the study gave way: {'; '.join(told)}. --vary sets single ones."

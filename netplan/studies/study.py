"""A study made ready to run: its points, how one is computed, and the hash of all it depends on."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins

from netplan.documents import read_yaml_value
from netplan.errors import InfeasibleError, InputError
from netplan.records import RecordError
from netplan.reports.quantities import Scalar
from netplan.studies.charts import OK, STATUS
from netplan.studies.definition import StudyDefinition
from netplan.studies.expressions import parse_expression
from netplan.studies.grid import Grid, make_grid
from netplan.studies.points import Point
from netplan.studies.questions import (
    catalog_sha256,
    check_inputs,
    check_values,
    output,
    point_answer,
    questions_of,
)


class Study(Struct, frozen=True):
    """A study's definition with its points, as the runner wants it.

    ``spec`` is the study file with the values of this run, ``input_sha256`` the hash of it and of
    the catalog files that it reads, whose own hashes are ``files``; ``catalog`` is the folder of
    the user's own catalogs.
    """

    spec: StudyDefinition
    grid: Grid
    input_sha256: str
    files: str = ""
    catalog: str | None = None

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.spec.name

    @property
    def definition(self) -> str:
        """The study as canonical JSON."""
        return canonical(self.spec)

    def sha256_of(self, definition: str) -> str:
        """Hash of a definition that reads the same files, and of these."""
        return _sha256(definition, self.files)

    @property
    def point_count(self) -> int:
        """Number of points [1]."""
        return len(self.grid)

    def points(self, indices: Sequence[int]) -> list[Point]:
        """Points of these indices, in this order."""
        return self.grid.points(indices)

    def evaluate(self, point: Point) -> dict[str, Scalar]:
        """Compute one point: its outputs, and whether the question has an answer there.

        A question that nothing satisfies (no plan fits, a fabric of that size does not exist) is
        an answer, and its outputs are None. Anything else that fails raises.
        """
        try:
            found = point_answer(self.spec, point.inputs, self.catalog)
        except InfeasibleError as error:
            return dict.fromkeys(self.spec.asked_names) | {STATUS: str(error).splitlines()[0]}
        outputs: dict[str, Scalar] = {}
        for out in self.spec.outputs:
            if isinstance(out, str):
                outputs[out] = output(found, out)
            else:
                outputs[out.name] = parse_expression(out.formula).scalar(point.inputs | outputs)
        return outputs | {STATUS: OK}


CONDITION = ("when", "otherwise")
"""Keys of an axis that stay when it is given other values."""


def canonical(spec: StudyDefinition) -> str:
    """A definition as JSON with its keys in order and no spaces."""
    data = to_builtins(spec)
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def make_study(
    spec: StudyDefinition, changes: Mapping[str, Any] | None = None, catalog: str | None = None
) -> Study:
    """Make a study ready to run, with inputs given for this run: one value, or a list of values.

    Raises
    ------
    NetplanError
        If an input is unknown or missing, the grid is too large or empty, or a file is missing.

    Examples
    --------
    >>> from netplan.studies.definition import STUDIES
    >>> study = make_study(STUDIES.load("hb-size"), {"gpus": 16384})
    >>> len(study.grid), study.points([0])[0].inputs["hb_size"]
    (30, 1)
    """
    changed = change(spec, changes or {})
    named: dict[str, set[Scalar]] = {name: {value} for name, value in changed.inputs.items()}
    for axis in changed.axes:
        for place, name in enumerate(axis.names):
            named[name] = {row[place] for row in axis.rows} | {axis.otherwise}
    asked = tuple(questions_of(changed, named))
    for ask, inputs in asked:
        check_inputs(ask, iter(inputs))
        check_values(ask, inputs)
    grid = make_grid(changed.axes, changed.inputs, changed.conditions)
    files = "".join(catalog_sha256(ask, inputs, catalog) for ask, inputs in asked)
    return Study(changed, grid, _sha256(canonical(changed), files), files, catalog)


def _sha256(definition: str, files: str) -> str:
    return hashlib.sha256(f"{definition}\n{files}".encode()).hexdigest()


def change(spec: StudyDefinition, changes: Mapping[str, Any]) -> StudyDefinition:
    """The definition with inputs of this run: single values stay, lists vary.

    Values that the study replaces in a record go with the record, and a note says so.

    Raises
    ------
    InputError
        If a changed axis varies together with another input.
    """
    if not changes:
        return spec
    data = json.loads(json.dumps(to_builtins(spec)))
    _drop_what_belonged(data, spec, changes)
    for name, value in changes.items():
        zipped = [axis for axis in spec.axes if axis.zip is not None and name in axis.names]
        if zipped:
            raise InputError(
                f"{name} varies together with others ({zipped[0].title}): copy the"
                " study file and change it there"
            )
        places = [at for at, axis in enumerate(data["axes"]) if axis.get("input") == name]
        several = isinstance(value, (list, tuple))
        # An axis that is held at one value stays an axis: charts and tables know its name.
        axis = {"input": name, "values": list(value) if several else [value]}
        data.get("inputs", {}).pop(name, None)
        if places:  # where it varies is the study's, not a matter of its values
            held = data["axes"][places[0]]
            data["axes"][places[0]] = axis | {key: held[key] for key in CONDITION if key in held}
        elif several:
            data["axes"].append(axis)
        else:
            data.setdefault("inputs", {})[name] = value
    try:
        return StudyDefinition.read(data)
    except RecordError as error:
        raise InputError(f"study {spec.name} with the values of this run: {error}") from None


def _drop_what_belonged(
    data: dict[str, Any], spec: StudyDefinition, changes: Mapping[str, Any]
) -> None:
    """Leave out notes on inputs that are others now, and values of a record that gave way.

    A study may replace values of its own accelerator; they are not those of another one.
    """
    data["notes"] = [
        note
        for note in data.get("notes", [])
        if isinstance(note, str) or not changes.keys() & set(note["of"])
    ]
    for name, value in changes.items():
        kept = spec.inputs.get(name)
        if "." in name or kept is None or value == kept:
            continue
        role = f"{name.replace('_', '-')}."
        gone = {
            key: old
            for key, old in spec.inputs.items()
            if key.startswith(role) and key not in changes
        }
        for key in gone:
            data["inputs"].pop(key)
        if gone:
            values = ", ".join(f"{key} = {_short(old)}" for key, old in gone.items())
            data["notes"].append(
                f"Left out, since the study has them for {name} {kept}: {values}. --vary sets them."
            )


def _short(value: Scalar) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def parse_changes(texts: Sequence[str]) -> dict[str, Scalar | list[Scalar]]:
    """Read ``INPUT=VALUE`` and ``INPUT=VALUE,VALUE`` texts.

    Raises
    ------
    InputError
        If a text has another form.

    Examples
    --------
    >>> parse_changes(["gpus=1024,2048", "accelerator=b200"])
    {'gpus': [1024, 2048], 'accelerator': 'b200'}
    """
    found: dict[str, Scalar | list[Scalar]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        parts = [part.strip() for part in values.split(",")]
        if not (name.strip() and equals and all(parts)):
            raise InputError(
                f"--vary {text!r}: write INPUT=VALUE, or INPUT=VALUE,VALUE such as gpus=1024,2048"
            )
        scalars = [_scalar(part) for part in parts]
        if name.strip() in found:
            raise InputError(f"--vary {name.strip()} is given twice: write all its values in one")
        found[name.strip()] = scalars if len(scalars) > 1 else scalars[0]
    return found


def _scalar(text: str) -> Scalar:
    value = read_yaml_value(text)
    return value if isinstance(value, (bool, int, float)) else text

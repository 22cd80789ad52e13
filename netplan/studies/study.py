"""A study made ready to run: its points, how one is computed, and the hash of all it depends on.

In a study of somebody's own scenario what that says takes the place of what the study has. Inputs
that are fields of the scenario, or values of files that it names, give way. So do axes, but for
those that the study is about: they are held at the scenario's value. Notes on inputs that are
others now go, as with ``--vary``.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from netplan.answers.outputs import Json, NoRowError, output
from netplan.catalog import unknown_name, user_roots
from netplan.documents import read_yaml_value
from netplan.errors import InfeasibleError, InputError, NetplanError
from netplan.inputs.readers import NUMBERS, read_value
from netplan.records import RecordError
from netplan.reports.expressions import key_of, parse_expression
from netplan.reports.quantities import Scalar
from netplan.scenarios.scenario import Scenario, all_places, plain_name
from netplan.setup.asking import question_class
from netplan.studies import questions
from netplan.studies.charts import OK, STATUS
from netplan.studies.definition import OF_EVERY_SCENARIO, STUDIES, StudyDefinition
from netplan.studies.grid import Grid, StudyAxis, make_grid
from netplan.studies.lower_bounds import LOWER_BOUNDS, counts_money, lower_bounds
from netplan.studies.points import Point

DOES = {"training": "trains", "serving": "serves", "post-training": "does post-training"}
"""What a scenario does, by its kind of workload."""


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
    question = question_class(spec.ask)
    about = questions.usual_scenario(spec.ask, questions.base_of(spec, catalog), catalog).kind
    foreign = all_places(about).keys() - all_places(given.kind).keys()
    sets_other = not foreign.isdisjoint((*spec.inputs, *spec.axis_names))
    of_one = bool(question.workload) and about != given.kind
    if not question.takes(given.kind) or sets_other or of_one:
        raise InputError(
            f"{given.name} {DOES[given.kind]}, and study {spec.name} is about {about}: give one of"
            f" {about}"
        )
    mine = questions.usual_scenario(spec.ask, given, catalog)
    fields = all_places(mine.kind)
    varied = {name for axis in spec.axes if spec.stays(axis) for name in axis.names}
    # What the scenario has a word for: a field of that name, or a file of that role.
    settled = {
        name
        for name in spec.inputs
        if name not in spec.about
        and (
            name.startswith(questions.FIXED)
            or name == questions.WORKLOAD
            or name.partition(".")[0].replace("-", "_") in fields
        )
    }
    settled |= set(spec.axis_names) - varied
    # Other conditions compare what the scenario has settled.
    conditions = [
        text for text in spec.conditions if not varied.isdisjoint(parse_expression(text).names)
    ]
    spec = spec.changed(conditions=tuple(conditions))
    values: dict[str, Scalar] = {}
    for name in settled:  # what no point may have is left to the scenario
        value = questions.value_in(mine, name, catalog)
        values[name] = value if isinstance(value, Scalar) else None
    used = {*_texts(to_builtins((spec.charts, spec.relative, spec.answers)))} | spec.counted_with
    held = used | {name for name in settled - {*spec.inputs} if name in fields}
    inputs = {
        name: values.get(name, value)
        for name, value in spec.inputs.items()
        if name not in settled or name in used or (name in OF_EVERY_SCENARIO and values[name])
    }
    axes: list[StudyAxis] = []
    for axis in spec.axes:
        # Inputs that stay are axes of one value, whose names tables and charts know.
        names = [] if spec.stays(axis) else [name for name in axis.names if name in held]
        axes += [StudyAxis(input=name, values=(values[name],)) for name in names]
        axes += [axis] if spec.stays(axis) else []
    notes = [note for note in spec.notes if isinstance(note, str) or settled.isdisjoint(note.of)]
    known = {*inputs, *(name for axis in axes for name in axis.names), *spec.output_names}
    try:
        return spec.changed(
            studied=to_builtins(given),
            about=(),
            reproduces=None,
            inputs=inputs,
            axes=tuple(axes),
            bill=_of(known - settled, spec.bill),
            titles=_of(known, spec.titles),
            notes=(*notes, _replaced(spec, given, settled)),
        )
    except ValueError as error:
        raise InputError(f"study {spec.name} on {given.name}: {error}") from None


def _texts(data: Any) -> Iterator[str]:  # noqa: ANN401 - plain data of any depth
    """All texts in plain data, keys too."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        yield from data
        yield from _texts([*data.values()])
    elif isinstance(data, (list, tuple)):
        for value in data:
            yield from _texts(value)


def _of(names: Collection[str], table: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a table has for some names."""
    return None if table is None else {name: table[name] for name in table if name in names}


def _replaced(spec: StudyDefinition, given: Scenario, settled: set[str]) -> str:
    """Says which scenario it is, and which values of the study gave way."""
    gone = [f"{name} = {brief(value)}" for name, value in spec.inputs.items() if name in settled]
    held = [name for name in spec.axis_names if name in settled]
    gave_way = [f"its values of {', '.join(held)}"] * bool(held) + [", ".join(gone)] * bool(gone)
    start = f"Studied on {given.name}" + (f": {given.title}." if given.title else ".")
    if not gave_way:
        return start
    return f"{start} Of the study gave way: {'; '.join(gave_way)}. --vary sets single ones."


class Study(Struct, frozen=True):
    """A study's definition with its points, as the runner wants it.

    Parameters
    ----------
    spec
        The study file, with the values of this run.
    grid
        Its points.
    base
        The scenario that it is about.
    input_sha256
        Hash of both, and of the catalog files that they name.
    files
        Hashes of these files.
    catalog
        Folder of the user's own catalogs.

    Examples
    --------
    >>> study = Study.load("hb-size", "hgx-b200", vary={"hb_size": [8, 72, 256]})
    >>> study.point_count, study.base.cluster.gpus
    (3, 32768)
    """

    spec: StudyDefinition
    grid: Grid
    base: Scenario
    input_sha256: str
    files: str = ""
    catalog: str | None = None

    @classmethod
    def load(
        cls,
        name: str | Path,
        scenario: str | Path | Scenario | None = None,
        *,
        vary: Mapping[str, Any] | None = None,
        catalog: str | Path | None = None,
    ) -> "Study":
        """A study by its shipped name or by its file, ready to run.

        Parameters
        ----------
        name
            Name of the catalog, or path to its file.
        scenario
            One that it is about, in place of its own: a name, a path, or as it is.
        vary
            Inputs of this run: one value that stays, or several to vary over.
        catalog
            Folder of the user's own catalogs.

        Returns
        -------
        Study
            With its points; :func:`netplan.study` runs it.

        Raises
        ------
        NetplanError
            If it is malformed, too large or empty, or there is no such study or input.
        """
        spec = STUDIES.load(str(name), user_roots(catalog))
        folder = str(catalog) if catalog else None
        return make_study(on_scenario(spec, scenario, folder) if scenario else spec, vary, folder)

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.spec.name

    @property
    def definition(self) -> str:
        """The study as canonical JSON."""
        return canonical(self.spec)

    def sha256_of(self, definition: str) -> str:
        """Hash of a definition that reads the same files, and of these.

        Parameters
        ----------
        definition
            A study as canonical JSON.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        return _sha256(definition, self.files)

    @property
    def point_count(self) -> int:
        """Number of points [1]."""
        return len(self.grid)

    def points(self, indices: Sequence[int]) -> list[Point]:
        """Points of some indices.

        Parameters
        ----------
        indices
            Places in the grid, shape (wanted,) [1].

        Returns
        -------
        list of Point
            In this order, shape (wanted,).
        """
        return self.grid.points(indices)

    def evaluate(self, point: Point) -> dict[str, Scalar]:
        """Compute one point: its outputs, and whether the question has an answer there.

        A question that nothing satisfies (no plan fits, a fabric of that size does not exist) is
        an answer, and its outputs are None. Anything else that fails raises.

        Parameters
        ----------
        point
            One of its points.

        Returns
        -------
        dict of str to scalar
            Outputs by name, in their units, and ``status``.

        Raises
        ------
        NetplanError
            If an input of the point is not allowed.
        """
        try:
            data = self._answer(point)
        except InfeasibleError as error:
            why = questions.as_varied(self.spec.ask, str(error).splitlines()[0])
            return dict.fromkeys((*self.spec.asked_names, *self._marks)) | {STATUS: why}
        except InputError as error:  # whose options are those of the question's own command
            raise InputError(questions.as_varied(self.spec.ask, str(error))) from error
        outputs: dict[str, Scalar] = {}
        for out in self.spec.outputs:
            if not isinstance(out, str):
                outputs[out.name] = parse_expression(out.formula).scalar(point.inputs | outputs)
                continue
            try:
                outputs[out] = output(data, out)
            except NoRowError:  # such as the traffic of experts, where a model has none
                outputs[out] = None
        if self._marks:
            outputs[LOWER_BOUNDS] = lower_bounds(self.spec, data, outputs)
        return outputs | {STATUS: OK}

    @property
    def _marks(self) -> tuple[str, ...]:
        """Output that names partial sums, of a study that asks for any."""
        return (LOWER_BOUNDS,) if counts_money(self.spec) else ()

    def check_outputs(self) -> None:
        """Refuse names of outputs that no answer has; points are asked until some have answered.

        They lie ever closer: first and last, middle, quarters and so on.

        Raises
        ------
        UnknownNameError
            With the nearest name.
        InputError
            If a name means more than one value.
        """
        wanted = [out for out in self.spec.outputs if isinstance(out, str)]
        last, answered = self.point_count - 1, 0
        faults: dict[str, NetplanError] = {}
        parts = (0.0, 1.0, *(odd / 2**fine for fine in FINENESS for odd in range(1, 2**fine, 2)))
        for point in self.points([*dict.fromkeys(int(last * part) for part in parts)]):
            try:
                data = self._answer(point)
            except Exception:  # noqa: BLE001, S112 - what is wrong with a point, its outcome says
                continue
            answered += 1
            faults = {}
            for name in wanted:
                try:
                    output(data, name)
                except NetplanError as fault:
                    faults[name] = fault
            wanted = list(faults)
            if not wanted:
                return
            if answered == ENOUGH:
                break
        if faults:
            raise next(iter(faults.values()))

    def _answer(self, point: Point) -> Json:
        """Put the question at one point."""
        return questions.point_answer(self.spec, point.inputs, self.catalog, self.base)


ENOUGH, FINENESS = 5, range(1, 7)
"""Points that have answered, of which some have every output; halvings of the points asked [1]."""
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

    What formulas count with and only the scenario says becomes an input.

    Raises
    ------
    NetplanError
        If an input is unknown or missing, the grid is too large or empty, or a file is missing.

    Examples
    --------
    >>> from netplan.studies.definition import STUDIES
    >>> study = make_study(STUDIES.load("hb-size-paper"), {"gpus": 16384})
    >>> len(study.grid), study.points([0])[0].inputs["hb_size"]
    (30, 1)
    """
    base = questions.base_of(spec, catalog)
    changed = _completed(change(spec, changes or {}), base, catalog)
    named: dict[str, set[Scalar]] = {name: {value} for name, value in changed.inputs.items()}
    for axis in changed.axes:
        for place, name in enumerate(axis.names):
            named[name] = {row[place] for row in axis.rows} | {axis.otherwise}
    asked = tuple(questions.questions_of(changed, named, base.kind))
    for ask, inputs in asked:
        questions.check_inputs(ask, inputs, questions.usual_scenario(ask, base, catalog).kind)
        questions.check_values(ask, inputs)
    grid = make_grid(changed.axes, changed.inputs, changed.conditions)
    files = "".join(
        questions.files_sha256(questions.question_inputs(ask, base, catalog), inputs, catalog)
        for ask, inputs in asked
    )
    return Study(changed, grid, base, _sha256(canonical(changed), files), files, catalog)


def _completed(spec: StudyDefinition, base: Scenario, catalog: str | None) -> StudyDefinition:
    """The definition with inputs that its formulas count with, as the scenario has them.

    Raises
    ------
    UnknownNameError
        If a formula has a name that is neither an input nor an output before it.
    """
    known = [*spec.axis_names, *spec.inputs]
    missing = sorted(spec.counted_with.difference(known))
    values = {name: questions.value_in(base, name, catalog) for name in missing}
    settled: dict[str, Scalar] = {
        name: value for name, value in values.items() if isinstance(value, (int, float, str))
    }
    known += settled
    for out in spec.outputs:
        if not isinstance(out, str):
            for name in sorted(parse_expression(out.formula).names):
                if key_of(name, known) is None:
                    raise unknown_name(f"name in the formula of {out.name}", name, known)
        known.append(out if isinstance(out, str) else out.name)
    return spec.changed(inputs=spec.inputs | settled) if settled else spec


def _sha256(definition: str, files: str) -> str:
    return hashlib.sha256(f"{definition}\n{files}".encode()).hexdigest()


def change(spec: StudyDefinition, changes: Mapping[str, Any]) -> StudyDefinition:
    """The definition with inputs of this run: single values stay, lists vary.

    Values that the study replaces in a record go with the record, and a note says so; so do those
    of inputs that vary together with one that is given.

    Raises
    ------
    InputError
        If an input is given twice, or some that vary together have unlike numbers of values.
    """
    if not changes:
        return spec
    plain: dict[str, Any] = {}
    for name, value in changes.items():
        if plain.setdefault(plain_name(name), value) is not value:
            raise InputError(f"{name} and {plain_name(name)} are one input: give it once")
    changes = {name: _number(spec, name, value) for name, value in plain.items()}
    data = json.loads(json.dumps(to_builtins(spec)))
    _drop_what_belonged(data, spec, changes)
    if not changes.keys() <= {*spec.axis_names}:  # what its paper keeps is another now
        data["reproduces"] = None
    together: list[str] = []
    for zipped in spec.axes:
        if zipped.zip is not None and changes.keys() & set(zipped.names):
            together += [name for name in zipped.names if name not in changes]
            changes = _unzipped(data, zipped, changes)
    for name, value in changes.items():
        places = [index for index, axis in enumerate(data["axes"]) if axis.get("input") == name]
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
        asks = " ".join(f"--vary {name}=VALUE" for name in together)
        hint = f"; give what varies together, as many values of each: {asks}" if asks else ""
        raise InputError(f"study {spec.name} with the values of this run: {error}{hint}") from None


def _unzipped(data: dict[str, Any], axis: StudyAxis, changes: Mapping[str, Any]) -> dict[str, Any]:
    """An axis of inputs that vary together, with values of this run; all other changes.

    Those that are given take its place, as many of each; the rest of it is left out, with a note.
    """
    given = {name: changes[name] for name in axis.names if name in changes}
    lists = {
        name: list(value) if isinstance(value, (list, tuple)) else [value]
        for name, value in given.items()
    }
    counts = {len(values) for values in lists.values()}
    if len(counts) > 1:
        several = ", ".join(f"{len(values)} of {name}" for name, values in lists.items())
        raise InputError(
            f"{' and '.join(given)} vary together, got {several}: give as many of each"
        )
    # What is the same beside every value belongs to none of them.
    every = {name: {*values} for name, values in (axis.zip or {}).items() if name not in given}
    alike = {name: [*values] for name, values in every.items() if len(values) == 1}
    known = [[*old["zip"]] if old.get("zip") else [] for old in data["axes"]]
    place = known.index([*axis.names])
    if len(lists) > 1:
        varied: dict[str, Any] = {"zip": lists}
    else:
        ((name, values),) = lists.items()
        varied = {"input": name, "values": values}
    data["axes"][place : place + 1] = [
        varied,
        *({"input": name, "values": values} for name, values in alike.items()),
    ]
    if left := [name for name in every if name not in alike]:
        data["reproduces"] = None
        data["notes"].append(
            f"Left out, since the study has them for its own values of {' and '.join(given)}:"
            f" {', '.join(left)}. --vary sets them."
        )
    return {name: value for name, value in changes.items() if name not in given}


def _number(spec: StudyDefinition, name: str, value: Any) -> Any:  # noqa: ANN401 - or several
    """A value of an input, such as 16k of one that is a number."""
    if isinstance(value, (list, tuple)):
        return [_number(spec, name, part) for part in value]
    known = questions.known_inputs(spec.ask).get(name)
    kind = known.option.kind if known and isinstance(value, str) else ""
    with suppress(InputError):  # what is wrong with a value, its check says
        return read_value(kind, value) if kind in NUMBERS else value
    return value


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
            values = ", ".join(f"{key} = {brief(old)}" for key, old in gone.items())
            data["notes"].append(
                f"Left out, since the study has them for {name} {kept}: {values}. --vary sets them."
            )


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
    changes: dict[str, Scalar | list[Scalar]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        parts = [part.strip() for part in values.split(",")]
        if not (name.strip() and equals and all(parts)):
            raise InputError(
                f"--vary {text!r}: write INPUT=VALUE, or INPUT=VALUE,VALUE such as gpus=1024,2048"
            )
        read = [(part, read_yaml_value(part)) for part in parts]
        scalars: list[Scalar] = [
            value if isinstance(value, bool | int | float) else part for part, value in read
        ]
        if name.strip() in changes:
            raise InputError(f"--vary {name.strip()} is given twice: write all its values in one")
        changes[name.strip()] = scalars if len(scalars) > 1 else scalars[0]
    return changes


def brief(value: Scalar) -> str:
    """A value without a string of zeros.

    >>> brief(9e11), brief(8), brief("1d")
    ('9e+11', '8', '1d')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)

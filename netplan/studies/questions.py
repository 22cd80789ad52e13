"""From a point to its answer: the question that a study puts, its inputs and files, its outputs.

A study asks what the commands ask, about its scenario. Inputs are those of the question: fields of
the scenario and options of its own; names with a dot are catalog values, values that the plan
search leaves no choice of (``fixed.``), or inputs of one of two sides (``a.`` and ``b.``). A
question about fabrics is put about one ``fabric`` a point, and its row is the answer, unless
``fabrics`` or an output names several.

A study that asks for no prices may have the bill of every point beside its answer: it is that of
``cost``, with the inputs that both have.

An output is a value of the answer's JSON by the path that leads to it, whose steps are keys. In a
list a step is the number of a row, or one of its texts: ``fabrics.rail-only.cost.base`` is the
price of the fabric that is called so. A formula, which has no hyphens in its names, may write
``rail_only``.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from netplan.answers.outputs import Json
from netplan.catalog import Catalog, shipped_root, unknown_name, user_roots
from netplan.costing.prices import PRICE_BOOKS
from netplan.errors import InfeasibleError, InputError, NetplanError
from netplan.files import read_bounded
from netplan.inputs.choices import AS_PUBLISHED, FOLDERS
from netplan.inputs.option import Option, read_option
from netplan.inputs.readers import NUMBERS, per_gpu, split_names
from netplan.performance.setting import Fixed
from netplan.reports.quantities import Scalar
from netplan.reports.schema import plain_data
from netplan.scenarios.scenario import DEFAULT, PARTS, WORKLOADS, Scenario, all_places, every_place
from netplan.setup.asking import question_class
from netplan.setup.own_inputs import Input, default_of, usual_values
from netplan.simulation.stage_map import map_files
from netplan.studies.definition import ASKED, FABRICS, StudyDefinition

NONE = "none"
STANDING_FOR = frozenset((NONE, "all", AS_PUBLISHED))
"""Names of no file: of a part that is left out, of all that there are, of what a source has."""

ROLES: Mapping[str, str] = {
    "accelerator": "workloads.accelerators:ACCELERATORS",
    "model": "workloads.models:WORKLOADS",
    "memory": "workloads.technologies:MEMORIES",
    "link": "workloads.technologies:LINKS",
    "fabric": "topologies.specs:FABRICS",
    "iteration-model": "simulation.palm_model:ANY_ITERATION_MODEL",
    "prices": "costing.prices:PRICE_BOOKS",
    "power": "costing.prices:POWER_BOOKS",
    "cabling": "costing.cabling:CABLING_BOOKS",
    "economics": "costing.lifetime:ECONOMICS_BOOKS",
    "failures": "faults.years.rates:FAILURE_BOOKS",
    "recovery": "faults.years.recovery_presets:RECOVERY_PRESETS",
    "switch": "costing.switches:SWITCHES",
    "floor-plan": "topologies.cabling.floor_plan:FLOOR_PLANS",
    "stream": "simulation.job_laws:STREAMS",
}
"""Roles of catalog files whose values a study may replace, and their shelves."""

INPUT_ROLES = {field: role for fields in FOLDERS.values() for field, (role, _) in fields.items()}
"""Role of the files that inputs of a scenario name."""


@cache
def shelf_of(role: str) -> Catalog[Any]:
    """The shelf of a role, loaded when a study first names a file of it."""
    home, _, name = ROLES[role].partition(":")
    shelf: Catalog[Any] = getattr(import_module(f"netplan.{home}"), name)
    return shelf


def role_of(name: str) -> str:
    """Role of the files that an input names; empty of one that names none.

    Examples
    --------
    >>> role_of("iteration_model"), role_of("draft"), role_of("gpus")
    ('iteration-model', 'model', '')
    """
    role = INPUT_ROLES.get(name, name.replace("_", "-"))
    return role if role in ROLES else ""


def value_in(scenario: Scenario, name: str, catalog: str | None = None) -> Any:  # noqa: ANN401
    """What a scenario has for an input of a study: a field, or a value of a file that it names.

    Parameters
    ----------
    scenario, name
        The scenario, and the input.
    catalog
        Folder of the user's own catalogs.

    Returns
    -------
    Any
        The value; None where the scenario leaves it open, or has no such thing.

    Examples
    --------
    >>> base = Scenario.load("rail-only-paper")
    >>> value_in(base, "gpus"), value_in(base, "accelerator.memory_bytes")
    (32768, 96000000000.0)
    """
    role, dot, path = name.partition(".")
    field = role.replace("-", "_")
    value: Any = scenario.value(field) if field in all_places(scenario.kind) else None
    if not dot or value is None or role not in ROLES:
        return None if dot else value
    overrides = {key: str(value) for key, value in scenario.set.items()}
    try:
        value = shelf_of(role).load(value, user_roots(catalog), overrides)
    except NetplanError:
        return None
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else getattr(value, step, None)
    return value


def files_sha256(
    usual: Mapping[str, Any], named: Mapping[str, set[Scalar]], catalog: str | None
) -> str:
    """Hash of all that a study reads beside its definition: catalog files, and usual values.

    Parameters
    ----------
    usual
        Inputs of its question with their values where the study says nothing.
    named
        Every value that each of its inputs takes.
    catalog
        Folder of the user's own catalogs.

    Returns
    -------
    str
        SHA-256, in hexadecimal.
    """
    roots, root = user_roots(catalog), shipped_root()
    left = {name: value for name, value in usual.items() if name not in named}
    digest = hashlib.sha256(json.dumps(left, sort_keys=True, default=str).encode())
    for name in sorted({*usual, *named}):
        role, values = role_of(name), named.get(name, {usual.get(name)})
        files = {*_files(values)} if role else set()
        paths = [shelf_of(role).find(file, roots) for file in sorted(files)]
        if name == PLACEMENT:
            paths = [path for value in sorted(map(str, values)) for path in map_files(value, roots)]
        for path in paths:
            # The same name wherever netplan is installed.
            place = path.relative_to(root) if path.is_relative_to(root) else path.name
            digest.update(f"{role or name}/{place}\n".encode() + read_bounded(path))
    return digest.hexdigest()


def _files(values: Iterable[Any]) -> Iterator[str]:
    """Names of files in some values of an input, which may be several in one."""
    for value in values:
        names = value if isinstance(value, tuple) else split_names(str(value or NONE))
        yield from (name for name in map(str, names) if name not in STANDING_FOR)


FIXED, FIXED_NAMES = "fixed.", Fixed.__struct_fields__
FABRIC, PLACEMENT = "fabric", "placement"
PRICES, CURRENCY = "prices", "currency"
WORKLOAD = "workload"
"""Input that says what runs, where the scenario does not."""

BEST = "top"
"""Input that says how many answers are wanted: a point is the best one."""
POST_TRAINING = "post-training"
"""The workload that has one answer, a step."""

BILL = "cost"
"""The question that gives the bill of a point."""


@cache
def _opened(ask: str) -> frozenset[str]:
    """Inputs of a question that are mappings: studies name their entries, after a dot."""
    inputs = question_class(ask).inputs_known()
    return frozenset(
        parameter.name
        for parameter in inputs
        if parameter.name == FIXED.rstrip(".") or parameter.option.kind == "changes"
    )


@cache
def _flags(ask: str) -> dict[str, tuple[str, str]]:
    """Inputs of a question by flags, and the values that flags without one stand for."""
    return {
        flag: (name, str(not known.default).lower() if known.option.kind == "flag" else "")
        for name, known in known_inputs(ask).items()
        for flag in known.option.flag_of(name).split("/")
    }


def _is_value(name: str, option: Option, word: str) -> bool:
    """Whether a word behind a flag is a value of its input, or the sentence goes on.

    Numbers, choices and pairs are what the option reads. A text is a name of the catalog of its
    role, one that its help lists, or has other signs than letters: ``gpt-2t``, ``mine.yaml``.

    Examples
    --------
    >>> known = known_inputs("search")
    >>> words = ("64", "of", "needs", "free", "dragonfly", "full", "gpt-2t")
    >>> for name in ("hb_size", "space", "fabric", "recompute"):
    ...     print(name, [word for word in words if _is_value(name, known[name].option, word)])
    hb_size ['64']
    space ['free']
    fabric ['64', 'dragonfly', 'gpt-2t']
    recompute ['64', 'full', 'gpt-2t']
    """
    if option.kind in ("text", "path"):
        role = role_of(name)
        listed = (text.strip() for text in re.split(r"[,:;().]|\sor\s", option.help))
        names = {*listed, *STANDING_FOR, *(shelf_of(role).paths() if role else ())}
        return not word.isalpha() or word in names
    try:
        read_option(name, option, [word] if option.many else word)
    except InputError:
        return False
    return True


def as_varied(ask: str, text: str) -> str:
    """A message that names options of a question's own command, as a study is given the same.

    Parameters
    ----------
    ask
        The question.
    text
        The message.

    Returns
    -------
    str
        With ``--vary INPUT=VALUE`` for every flag that the command of studies does not have.

    Examples
    --------
    >>> as_varied("search", "give a multiple, another --hb-size, or --space free")
    'give a multiple, another --vary hb_size=VALUE, or --vary space=free'
    >>> as_varied("search", "leave --no-tensor-overlap out, or take --fix pipeline=64")
    'leave --vary tensor_overlap=false out, or take --vary fixed.pipeline=64'
    >>> as_varied("search", "--gpus counts chips, such as --model gpt-1t, take --recompute full")
    '--vary gpus=VALUE counts chips, such as --vary model=gpt-1t, take --vary recompute=full'
    """
    flags = _flags(ask)

    def varied(match: "re.Match[str]") -> str:
        flag, value = match[1], (match[2] or "").strip()
        if flag == "--fix":
            return f"--vary {FIXED}{value}"
        name, alone = flags.get(flag, ("", ""))
        if not name:
            return match[0]
        if alone:
            return f"--vary {name}={alone}{match[2] or ''}"
        if not value or not _is_value(name, known_inputs(ask)[name].option, value):
            return f"--vary {name}=VALUE{match[2] or ''}"
        return f"--vary {name}={value}"

    return re.sub(r"(--[a-z][a-z-]+)( [A-Za-z0-9][\w.:+=/-]*(?<![.:]))?", varied, text)


@cache
def known_inputs(ask: str) -> dict[str, Input]:
    """Inputs that studies of a question may name, but for those with a dot.

    Examples
    --------
    >>> known = known_inputs("compare")
    >>> known["strategy"].group, known["rule"].group, "fabric" in known
    ('workload', 'question', True)
    """
    inputs = question_class(ask).inputs_known()
    known = {parameter.name: parameter for parameter in inputs if parameter.option.role == "input"}
    for name in _opened(ask):
        known.pop(name, None)
    return {FABRIC: known[FABRICS], **known} if FABRICS in known else known


def question_inputs(
    ask: str, scenario: str | Scenario = DEFAULT, catalog: str | None = None
) -> dict[str, Any]:
    """Inputs of a question with their values where a study says nothing; ``MISSING`` if needed.

    Examples
    --------
    >>> known = question_inputs("search", "rail-only-paper")
    >>> known["strategy"], known["model"], known["top"]
    ('1d', 'gpt-1t', 5)
    """
    base, command = usual_scenario(ask, scenario, catalog), question_class(ask).command
    values: dict[str, Any] = {}
    for name, known in known_inputs(ask).items():
        if known.group != "question" and name in all_places(base.kind):
            values[name] = base.value(name)
        else:
            shared = known.option.shared
            values[name] = default_of(command, name, catalog) if shared else known.default
    return values


def usual_scenario(ask: str, scenario: str | Scenario, catalog: str | None = None) -> Scenario:
    """The scenario that a question is about: of its kind of workload, with a user's defaults."""
    question, base = question_class(ask), Scenario.load(scenario, catalog)
    base = base.with_workload(base.kind if question.takes(base.kind) else question.workload)
    usual = usual_values(question.command, [*all_places(base.kind)], catalog)
    replaced = {key: value for key, value in base.set.items() if key.partition(".")[0] in PARTS}
    return base.replace(**usual).replace(**replaced)


def check_inputs(ask: str, given: Collection[str], kind: str = "training") -> None:
    """Refuse inputs that the question does not have, and questions without a needed one.

    Parameters
    ----------
    ask, given
        The question, and names of inputs.
    kind
        Whether its scenario trains or serves; an input may say that, too.

    Raises
    ------
    UnknownNameError
        With the nearest name.
    InputError
        If a needed input is missing.
    """
    known = known_inputs(ask)
    others = {kind} if WORKLOAD not in given else {*WORKLOADS}
    for name in sorted(given):
        role, dot, rest = name.partition(".")
        means = {*known[name].workloads} if name in known else set()
        if means and not means & others:
            raise InputError(f"{name} means nothing for {kind}: leave it out")
        if not dot and name not in known:
            if FIXED.rstrip(".") in question_class(ask).reads and name in FIXED_NAMES:
                raise InputError(f"unknown input of {ask} {name!r}: write {FIXED}{name}")
            if name in every_place():
                raise InputError(f"{name} means nothing for {ask}: leave it out")
            raise unknown_name(f"input of {ask}", name, list(known))
        if role in PARTS and dot:
            inside = [key for key, place in every_place().items() if place.part == role]
            raise unknown_name(f"input {name}: field of the scenario", rest, inside)
        if dot and role not in {*ROLES, FIXED.rstrip("."), *_opened(ask)}:
            roles = {*ROLES, FIXED.rstrip("."), *_opened(ask)}
            raise unknown_name(f"input {name}: role", role, sorted(roles))
    needed = {name for name, parameter in known.items() if parameter.needed}
    missing = ", ".join(sorted(needed.difference(given)))
    if missing:
        raise InputError(f"{ask} needs {missing}: put it under inputs or on an axis")


def check_values(ask: str, named: Mapping[str, set[Scalar]]) -> None:
    """Refuse values of another kind than their input, before conditions count with them.

    Raises
    ------
    InputError
        With the input and the value.
    """
    known = known_inputs(ask)
    for name, values in named.items():
        option = known[name].option if name in known else None
        kind: str = option.kind if option else "whole" if name.startswith(FIXED) else "text"
        for value in values - {None}:
            if option and option.many and isinstance(value, str):
                read_option(name, option, _read(option, value))
            elif not _is(kind, value):
                words = {"whole": "not a whole number", "flag": "neither true nor false"}
                words["batch"] = words["whole"]
                raise InputError(f"{name}: {value!r} is {words.get(kind, 'not a number')}")


def _is(kind: str, value: Scalar) -> bool:
    """Whether a value is of the kind that an input wants."""
    if kind == "flag":
        return isinstance(value, bool)
    if kind == "batch" and per_gpu(value):
        return True
    number = type(value) in (int, float)
    if kind in ("whole", "batch"):
        return number and float(value or 0) % 1 == 0
    return number or kind not in NUMBERS


def questions_of(
    spec: StudyDefinition, named: Mapping[str, set[Scalar]], kind: str = "training"
) -> Iterator[tuple[str, dict[str, set[Scalar]]]]:
    """The questions of a study, each with its own of some inputs and their values: its own first.

    Parameters
    ----------
    spec, named
        The study, and values of its inputs.
    kind
        Whether its scenario trains or serves.

    Raises
    ------
    InputError
        If the bill does not know a value.

    Examples
    --------
    >>> from netplan.studies.definition import STUDIES
    >>> point = {"gpus": {1024}, "link": {"pcie4"}, "dimensions": {"mesh-mesh"}}
    >>> for ask, inputs in questions_of(STUDIES.load("dataflow-design-space"), point):
    ...     print(ask, sorted(inputs))
    map ['dimensions', 'gpus', 'link']
    cost ['accelerator.network_bytes_per_s', 'fabric', 'gpus', 'hb_size']
    """
    further = {ask: _inputs_of(ask, named) for ask in spec.beside}
    billed = {} if spec.bill is None else _inputs_of(BILL, named, runs=kind == "serving")
    elsewhere = {name for inputs in (billed, *further.values()) for name in inputs}
    unknown = {name: values for name, values in named.items() if name not in elsewhere}
    yield spec.ask, unknown | _inputs_of(spec.ask, named)
    for ask, inputs in further.items():
        yield ask, inputs | {name: {value} for name, value in spec.beside[ask].items()}
    if spec.bill is None:
        return
    for name, table in spec.bill.items():
        for value in named.get(name, set()) - {None}:
            if value not in table:
                raise InputError(
                    f"the bill of {spec.name} does not know {name} {value}: take one of"
                    f" {', '.join(table)}, or put it into the study file"
                )
            for key, priced in table[str(value)].items():
                billed.setdefault(key, set()).add(priced)
    yield BILL, billed


def _inputs_of(
    ask: str, named: Mapping[str, set[Scalar]], *, runs: bool = True
) -> dict[str, set[Scalar]]:
    """Inputs that a question has, with catalog values of its roles; of what runs if it asks."""
    known = {name for name, entry in known_inputs(ask).items() if runs or entry.group != "workload"}
    return {
        name: values
        for name, values in named.items()
        if name.partition(".")[0].replace("-", "_") in known
    }


def point_answer(
    spec: StudyDefinition,
    inputs: Mapping[str, Scalar],
    catalog: str | None = None,
    scenario: Scenario | None = None,
) -> Json:
    """Put the questions of a study at one point; its bill stands under ``bill``.

    Those beside stand under their names, None where they have no answer. A network that cannot be
    built has an empty bill, with the reason under ``unpriced``.

    Raises
    ------
    NetplanError
        If an input is not allowed, or nothing satisfies the question.
    """
    base = scenario or base_of(spec, catalog)
    single = {name: {value} for name, value in inputs.items()}
    (ask, asked), *others = (
        (ask, {name: value for name, (value,) in values.items()})
        for ask, values in questions_of(spec, single, base.kind)
    )
    several = any(name.startswith(f"{FABRICS}.") for name in spec.asked_names)
    data = answer(ask, asked, catalog, base, several=several)
    for question, its in others:
        billed = question == BILL
        row: Json | None = None
        try:
            (row,) = _ask(question, its, catalog, base)[FABRICS]
        except InfeasibleError as error:
            from netplan.answers.cost_answer import Priced

            if billed:
                row = plain_data(Priced(str(its[FABRIC]), (), None)) | {"unpriced": [str(error)]}
        data = {**data, "bill" if billed else question: row}
    return data


def currency_of(
    spec: StudyDefinition, base: Scenario, catalog: str | None = None, *, of_book: bool = False
) -> str:
    """Currency of a study's amounts, or of its price book.

    Empty where they need none, or its points do not share one.
    """
    asks = (spec.ask, *spec.beside)
    priced = spec.bill is not None or any(PRICES in question_class(ask).reads for ask in asks)
    if not priced or {CURRENCY, PRICES} & {*spec.axis_names}:
        return ""
    asked = {**question_inputs(BILL, base, catalog), **spec.inputs}
    if asked[CURRENCY] and not of_book:
        return str(asked[CURRENCY])
    try:
        return PRICE_BOOKS.load(str(asked[PRICES]), user_roots(catalog)).currency
    except NetplanError:  # the book is gone since the study ran
        return ""


def base_of(spec: StudyDefinition, catalog: str | None = None) -> Scenario:
    """The scenario that a study is about: its own, or the one that somebody put in its place."""
    if spec.studied is not None:
        return Scenario.read(spec.studied)
    return Scenario.load(spec.scenario, catalog)


def answer(
    ask: str,
    inputs: Mapping[str, Scalar],
    catalog: str | None = None,
    scenario: str | Scenario = DEFAULT,
    *,
    several: bool = False,
) -> Json:
    """Put one question about a scenario; inputs that are None stay as that has them.

    Parameters
    ----------
    ask, inputs
        The question, and the values of a point.
    catalog
        Folder of the user's own catalogs.
    scenario
        What is asked about, by name or as it is.
    several
        Whether a question about fabrics is about all of the scenario's, where none is named.

    Returns
    -------
    Json
        The whole answer; keys of the row that is the point's stand in front of it.

    Raises
    ------
    NetplanError
        If an input is not allowed, or nothing satisfies the question.

    Examples
    --------
    >>> from netplan.answers.outputs import output
    >>> found = answer("search", {"gpus": 1024, "accelerator": "b200", "model": "gpt-175b",
    ...                           "batch": 1024}, scenario="rail-only-paper")
    >>> output(found, "plan.tensor"), output(found, "plan")
    (2, 'TP2 x PP4 x DP128, 8 x 1')
    """
    data = _ask(ask, inputs, catalog, scenario, several=several)
    key = ASKED[ask].rows
    rows = data.get(key, []) if key else []  # a step of post-training has no list
    alone = len(rows) == 1 or (rows and key != FABRICS)
    return {**data, **rows[0]} if alone else data


def _ask(
    ask: str,
    inputs: Mapping[str, Scalar],
    catalog: str | None,
    scenario: str | Scenario,
    *,
    several: bool = False,
) -> dict[str, Any]:
    """JSON of the answer to a question."""
    question, base = question_class(ask), Scenario.load(scenario, catalog)
    given = _given(ask, inputs, base)
    if ASKED[ask].rows == FABRICS and not several and FABRICS not in given:
        usual = usual_values(question.command, (FABRIC,), catalog)
        given[FABRICS] = (usual.get(FABRIC, base.cluster.fabric),)
    data: dict[str, Any] = question.about(base, catalog=catalog, **given).answer().to_dict()
    return data


def _given(ask: str, inputs: Mapping[str, Scalar], base: Scenario) -> dict[str, Any]:
    """Inputs of a point as its question takes them."""
    known, opened = known_inputs(ask), _opened(ask)
    given: dict[str, Any] = {}
    overrides: dict[str, str] = {}
    entries: dict[str, dict[str, Any]] = {}
    for name, value in inputs.items():
        if value is None:
            continue
        role, dot, rest = name.partition(".")
        if dot and role in opened:
            is_fixed = name.startswith(FIXED)
            entries.setdefault(role, {})[rest] = int(value) if is_fixed else value
        elif dot:
            overrides[name] = str(value)
        else:
            given[name] = _read(known[name].option, value) if name in known else value
    if fixed := entries.get(FIXED.rstrip(".")):
        entries[FIXED.rstrip(".")] = {**(base.workload.fixed or {}), **fixed}
    given |= entries
    if overrides:
        given["overrides"] = overrides
    if BEST in known and base.kind != POST_TRAINING:
        given.setdefault(BEST, 1)
    if FABRIC in given and FABRIC not in question_class(ask).reads:
        given[FABRICS] = given.pop(FABRIC)
    return given


def _read(option: Option, value: Scalar) -> Any:  # noqa: ANN401 - of any input
    """A value of a study as the input that it means; several are words of one text."""
    if isinstance(value, float) and option.kind in ("whole", "batch"):
        return int(value)  # ranges make 64.0, which check_values lets pass
    if option.kind in NUMBERS or option.kind in ("flag", "batch"):
        return value.split() if option.many and isinstance(value, str) else value
    text = str(value)  # a book may be called 2026
    return text.split() if option.many and (option.metavar or option.kind != "text") else text

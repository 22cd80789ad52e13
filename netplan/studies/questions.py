"""From a point to its answer: the question that a study puts, and its inputs.

A study asks what the commands ask, about its scenario. Inputs are those of the question: fields of
the scenario and options of its own; names with a dot are catalog values, values that the plan
search leaves no choice of (``fixed.``), or inputs of one of two sides (``a.`` and ``b.``). A
question about fabrics is put about one ``fabric`` a point, and its row is the answer, unless
``fabrics`` or an output names several.

A study that asks for no prices may have the bill of every point beside its answer: it is that of
``cost``, with the inputs that both have.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from netplan.catalog import unknown_name, user_roots
from netplan.costing.prices import PRICE_BOOKS
from netplan.errors import InfeasibleError, InputError, NetplanError
from netplan.inputs.option import Option, read_option
from netplan.inputs.readers import NUMBERS, per_gpu
from netplan.performance.setting import Fixed
from netplan.questions.own_inputs import Input, default_of, usual_values
from netplan.questions.question import Question
from netplan.reports.quantities import Scalar
from netplan.scenarios.scenario import DEFAULT, PARTS, WORKLOADS, Scenario, every_place, places
from netplan.studies.definition import ASKED, FABRICS, StudyDefinition
from netplan.studies.files import ROLES
from netplan.studies.outputs import Json

FIXED, FIXED_NAMES = "fixed.", Fixed.__struct_fields__
FABRIC = "fabric"
PRICES, CURRENCY = "prices", "currency"
WORKLOAD = "workload"
"""Input that says what runs, where the scenario does not."""

BEST = "top"
"""Input that says how many answers are wanted: a point is the best one."""

BILL = "cost"
"""The question that gives the bill of a point."""


@cache
def question_of(ask: str) -> type[Question[Any]]:
    """The class of a question, loaded when a study first puts it."""
    module, _, name = ASKED[ask].home.partition(":")
    question: type[Question[Any]] = getattr(import_module(f"netplan.{module}"), name)
    return question


@cache
def _opened(ask: str) -> frozenset[str]:
    """Inputs of a question that are mappings: studies name their entries, after a dot."""
    inputs = question_of(ask).inputs_known()
    return frozenset(
        each.name
        for each in inputs
        if each.name == FIXED.rstrip(".") or each.option.kind == "changes"
    )


@cache
def known_inputs(ask: str) -> dict[str, Input]:
    """Inputs that studies of a question may name, but for those with a dot.

    Examples
    --------
    >>> known = known_inputs("compare")
    >>> known["strategy"].group, known["rule"].group, "fabric" in known
    ('workload', 'question', True)
    """
    inputs = question_of(ask).inputs_known()
    known = {each.name: each for each in inputs if each.option.role == "input"}
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
    base, command = usual_scenario(ask, scenario, catalog), question_of(ask).command
    values: dict[str, Any] = {}
    for name, known in known_inputs(ask).items():
        if known.group != "question" and name in places(base.kind):
            values[name] = base.value(name)
        else:
            shared = known.option.shared
            values[name] = default_of(command, name, catalog) if shared else known.default
    return values


def usual_scenario(ask: str, scenario: str | Scenario, catalog: str | None = None) -> Scenario:
    """The scenario that a question is about: of its kind of workload, with a user's defaults."""
    question, base = question_of(ask), Scenario.load(scenario, catalog)
    base = base.running(question.workload or base.kind)
    usual = usual_values(question.command, [*places(base.kind)], catalog)
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
    others = {"", kind} if WORKLOAD not in given else {"", *WORKLOADS}
    for name in sorted(given):
        role, dot, rest = name.partition(".")
        if name in known and known[name].workload not in others:
            raise InputError(f"{name} means nothing for {kind}: leave it out")
        if not dot and name not in known:
            if FIXED.rstrip(".") in question_of(ask).reads and name in FIXED_NAMES:
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
    needed = {name for name, each in known.items() if each.needed}
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
    """The questions of a study, each with its own of some inputs and their values: the bill last.

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
    if spec.bill is None:
        yield spec.ask, dict(named)
        return
    mine, billed = _own(spec.ask, named), _own(BILL, named, runs=kind == "serving")
    unknown = {name: values for name, values in named.items() if name not in billed}
    yield spec.ask, unknown | mine
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


def _own(
    ask: str, named: Mapping[str, set[Scalar]], *, runs: bool = True
) -> dict[str, set[Scalar]]:
    """Inputs that a question has, with catalog values of its roles; of what runs if it asks."""
    known = {name for name, each in known_inputs(ask).items() if runs or each.group != "workload"}
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

    A network that cannot be built has an empty bill, with the reason under ``unpriced``.

    Raises
    ------
    NetplanError
        If an input is not allowed, or nothing satisfies the question.
    """
    base = scenario or base_of(spec, catalog)
    single = {name: {value} for name, value in inputs.items()}
    (ask, own), *bill = (
        (ask, {name: value for name, (value,) in values.items()})
        for ask, values in questions_of(spec, single, base.kind)
    )
    several = any(name.startswith(f"{FABRICS}.") for name in spec.asked_names)
    data = answer(ask, own, catalog, base, several=several)
    for question, its in bill:
        try:
            (bill_of,) = _ask(question, its, catalog, base)[FABRICS]
        except InfeasibleError as error:
            from netplan.questions.answers.cost_answer import Priced

            bill_of = Priced(str(its[FABRIC]), (), None).to_dict() | {"unpriced": [str(error)]}
        data = {**data, "bill": bill_of}
    return data


def currency_of(
    spec: StudyDefinition, base: Scenario, catalog: str | None = None, *, of_book: bool = False
) -> str:
    """Currency of a study's amounts, or of its price book.

    Empty where they need none, or its points do not share one.
    """
    priced = spec.bill is not None or PRICES in question_of(spec.ask).reads
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
    >>> from netplan.studies.outputs import output
    >>> found = answer("search", {"gpus": 1024, "accelerator": "b200", "model": "gpt-175b",
    ...                           "batch": 1024}, scenario="rail-only-paper")
    >>> output(found, "plan.tensor"), output(found, "plan")
    (2, 'TP2 x PP4 x DP128, 8 x 1')
    """
    data = _ask(ask, inputs, catalog, scenario, several=several)
    key = ASKED[ask].rows
    rows = data[key] if key else []
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
    question, base = question_of(ask), Scenario.load(scenario, catalog)
    given = _given(ask, inputs, base)
    if ASKED[ask].rows == FABRICS and not several and FABRICS not in given:
        usual = usual_values(question.command, (FABRIC,), catalog)
        given[FABRICS] = (usual.get(FABRIC, base.cluster.fabric),)
    data: dict[str, Any] = question.about(base, catalog=catalog, **given).ask().to_dict()
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
    if BEST in known:
        given.setdefault(BEST, 1)
    if FABRIC in given and FABRIC not in question_of(ask).reads:
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

"""From a point to its answer: the question that a study puts, its inputs, its outputs.

A study asks what the commands ask: ``search``, ``map``, ``simulate``, ``serving``, ``compare`` or
``cost`` (one fabric a point). Its inputs are those of the question's class; names with a dot are
catalog values or, under ``fixed.``, values that the plan search leaves no choice of. Outputs are
keys of the answer's JSON, with dots; one that is a whole plan becomes a short label, a list of
texts one text.

A study that asks for no prices may have the bill of every point beside its answer: it is that of
``cost``, with the inputs that both have.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from netplan.catalog import Shelf, shipped_root, unknown_name, user_roots
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.lifetime import ECONOMICS_BOOKS
from netplan.costing.power import POWER_BOOKS
from netplan.costing.prices import PRICE_BOOKS
from netplan.costing.switches import SWITCHES
from netplan.errors import InfeasibleError, InputError, NetplanError
from netplan.performance.options import Fixed
from netplan.questions.answers.barred import ENDS
from netplan.questions.answers.cost_answer import Priced
from netplan.questions.compare import Compare
from netplan.questions.cost import Cost
from netplan.questions.map import Map
from netplan.questions.question import Question, default_of, options_of
from netplan.questions.search import Search
from netplan.questions.serving import Serving
from netplan.questions.setup.expanded_memory import NONE
from netplan.questions.simulate import Simulate
from netplan.reports.quantities import Scalar
from netplan.simulation.palm_model import ANY_ITERATION_MODEL
from netplan.studies.definition import Ask, StudyDefinition
from netplan.topologies.cabling.floor_plan import FLOOR_PLANS
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS, WORKLOADS
from netplan.workloads.technologies import LINKS, MEMORIES

Json = Mapping[str, Any]
FIXED, FIXED_NAMES = "fixed.", Fixed.__struct_fields__
ONE_FABRIC, FABRICS_INPUT = "fabric", "fabrics"
ONE_MEMORY, MEMORIES_INPUT = "expanded_memory", "expanded_memories"
SHELVES: dict[str, Shelf[Any]] = {
    "accelerator": ACCELERATORS,
    "model": WORKLOADS,
    "draft": MODELS,
    "memory": MEMORIES,
    ONE_MEMORY: MEMORIES,
    "link": LINKS,
    "fabric": FABRICS,
    "iteration_model": ANY_ITERATION_MODEL,
    "prices": PRICE_BOOKS,
    "power": POWER_BOOKS,
    "cabling": CABLING_BOOKS,
    "economics": ECONOMICS_BOOKS,
    "switch": SWITCHES,
    "ocs": SWITCHES,
    "floor_plan": FLOOR_PLANS,
}
"""Shelf of each input that names a catalog file."""

BILL: Ask = "cost"
"""The question that gives the bill of a point."""

LEFT_TO_THE_STUDY = {"catalog", "overrides", "fixed", FABRICS_INPUT, "top", "explain", "hot"}
LEFT_TO_THE_STUDY |= {"slow", "graph", "jobs", MEMORIES_INPUT}


class Asked(NamedTuple):
    """A question that studies put, what each point does, and the key of its answers in JSON.

    Without a key the answer itself is the one of the point.
    """

    question: type[Question[Any]]
    says: str
    part: str


ASKED: Mapping[str, Asked] = {
    "search": Asked(Search, "asks for the fastest parallel plan.", "plans"),
    "compare": Asked(
        Compare,
        "asks what one fabric is made of, what it costs and how fast it trains.",
        "fabrics",
    ),
    "cost": Asked(Cost, "asks what one fabric costs to buy and to run.", "fabrics"),
    "map": Asked(Map, "asks how a model's kernels lie on one chip, and how fast they run.", ""),
    "simulate": Asked(Simulate, "simulates one iteration on links that all of it shares.", ""),
    "serving": Asked(Serving, "asks for the best serving plan.", "plans"),
}


def question_inputs(ask: str, catalog: str | None = None) -> dict[str, Any]:
    """Inputs of a question with their defaults; ``MISSING`` where one is needed.

    Examples
    --------
    >>> question_inputs("search")["strategy"], "fabric" in question_inputs("compare")
    ('1d', True)
    """
    return _inputs(ask, user_roots(catalog), catalog)


@lru_cache(maxsize=8)
def _inputs(ask: str, roots: tuple[Path, ...], catalog: str | None) -> dict[str, Any]:
    del roots  # of the key: the environment may name one more
    question = ASKED[ask].question
    found: dict[str, Any] = {}
    for one, option in options_of(question):
        if one.name not in LEFT_TO_THE_STUDY:
            shared = option.shared
            found[one.name] = (
                default_of(question.command, one.name, catalog) if shared else one.default
            )
        elif one.name == MEMORIES_INPUT:
            found[ONE_MEMORY] = None
    if ONE_FABRIC in found:
        return found
    return {ONE_FABRIC: default_of(ask, ONE_FABRIC, catalog)} | found


def check_inputs(ask: str, names: Iterator[str]) -> None:
    """Refuse inputs that the question does not have, and questions without a needed one.

    Raises
    ------
    UnknownNameError
        With the nearest name.
    InputError
        If a needed input is missing.
    """
    known = question_inputs(ask)
    given = set(names)
    for name in sorted(given):
        if "." not in name and name not in known:
            if "fixed" in ASKED[ask].question.__dataclass_fields__ and name in FIXED_NAMES:
                raise InputError(f"unknown input of {ask} {name!r}: write {FIXED}{name}")
            raise unknown_name(f"input of {ask}", name, list(known))
        role = name.partition(".")[0]
        roles = {shelf.role for shelf in SHELVES.values()} | {FIXED.rstrip(".")}
        if "." in name and role not in roles:
            raise unknown_name(f"input {name}: role", role, sorted(roles))
    needed = {name for name, value in known.items() if value is MISSING}
    if not needed <= given:
        missing = ", ".join(sorted(needed - given))
        raise InputError(f"{ask} needs {missing}: put it under inputs or on an axis")


def check_values(ask: str, named: Mapping[str, set[Scalar]]) -> None:
    """Refuse values of another kind than their input, before conditions count with them.

    Raises
    ------
    InputError
        With the input and the value.
    """
    kinds = _kinds(ask)
    for name, values in named.items():
        kind = "whole" if name.startswith(FIXED) else kinds.get(name, "text")
        for value in values - {None}:
            number = type(value) in (int, float)
            if kind == "whole" and ((type(value) is float and value % 1) or not number):
                raise InputError(f"{name}: {value!r} is not a whole number")
            if kind in ("real", "ratio", "percent") and not number:
                raise InputError(f"{name}: {value!r} is not a number")
            if kind == "flag" and not isinstance(value, bool):
                raise InputError(f"{name}: {value!r} is neither true nor false")


@cache
def _kinds(ask: str) -> dict[str, str]:
    return {one.name: option.kind for one, option in options_of(ASKED[ask].question)}


def questions_of(
    spec: StudyDefinition, named: Mapping[str, set[Scalar]]
) -> Iterator[tuple[Ask, dict[str, set[Scalar]]]]:
    """The questions of a study, each with its own of some inputs and their values: the bill last.

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
    mine, billed = _own(spec.ask, named), _own(BILL, named)
    unknown = {name: values for name, values in named.items() if name not in billed}
    yield spec.ask, unknown | mine
    for name, table in spec.bill.items():
        for value in named.get(name, set()) - {None}:
            if value not in table:
                raise InputError(
                    f"the bill of {spec.name} does not know {name} {value}: take one of"
                    f" {', '.join(table)}, or put it into the study file"
                )
            for key, one in table[str(value)].items():
                billed.setdefault(key, set()).add(one)
    yield BILL, billed


def _own(ask: Ask, named: Mapping[str, set[Scalar]]) -> dict[str, set[Scalar]]:
    """Inputs that a question has, with catalog values of its roles."""
    workload = next(iter(named.get("workload", ())), None) or "training"
    known = {ONE_FABRIC, *ASKED[ask].question.names(str(workload))}
    known |= {ONE_MEMORY} if MEMORIES_INPUT in known else set()
    return {
        name: values
        for name, values in named.items()
        if name.partition(".")[0].replace("-", "_") in known
    }


def point_answer(
    spec: StudyDefinition, inputs: Mapping[str, Scalar], catalog: str | None = None
) -> Json:
    """Put the questions of a study at one point; its bill stands under ``bill``.

    A network that cannot be built has an empty bill, with the reason under ``unpriced``.

    Raises
    ------
    NetplanError
        If an input is not allowed, or nothing satisfies the question.
    """
    single = {name: {value} for name, value in inputs.items()}
    (ask, own), *bill = (
        (ask, {name: one for name, (one,) in found.items()})
        for ask, found in questions_of(spec, single)
    )
    found = answer(ask, own, catalog)
    for question, its in bill:
        try:
            found = {**found, "bill": answer(question, its, catalog)}
        except InfeasibleError as error:
            empty = Priced(str(its[ONE_FABRIC]), (), None).to_dict()
            found = {**found, "bill": empty | {"unpriced": [str(error)]}}
    return found


def answer(ask: str, inputs: Mapping[str, Scalar], catalog: str | None = None) -> Json:
    """Put one question; inputs that are None keep their default.

    Raises
    ------
    NetplanError
        If an input is not allowed, or nothing satisfies the question.

    Examples
    --------
    >>> found = answer("search", {"gpus": 1024, "accelerator": "b200", "model": "gpt-175b",
    ...                           "batch": 1024})
    >>> output(found, "plan.tensor"), output(found, "plan")
    (2, 'TP2 x PP4 x DP128, 8 x 1')
    """
    asked = ASKED[ask]
    # Defaults are looked up once, not at every point.
    known = question_inputs(ask, catalog)
    keywords = {name: value for name, value in known.items() if value is not MISSING}
    overrides: dict[str, str] = {}
    fixed: dict[str, int] = {}
    for name, value in inputs.items():
        if value is None:
            continue
        if name.startswith(FIXED):
            fixed[name.removeprefix(FIXED)] = int(value)
        elif "." in name:
            overrides[name] = str(value)
        elif isinstance(value, float) and _kinds(ask).get(name) == "whole":
            keywords[name] = int(value)  # ranges make 64.0, which check_values lets pass
        else:  # a book may be called 2026
            keywords[name] = str(value) if isinstance(known.get(name), str) else value
    takes = asked.question.__dataclass_fields__
    keywords |= {"fixed": fixed} if "fixed" in takes else {}
    keywords |= {"top": 1} if "top" in takes else {}
    if FABRICS_INPUT in takes:
        keywords[FABRICS_INPUT] = (keywords.pop(ONE_FABRIC),)
    if MEMORIES_INPUT in takes:
        memory = keywords.pop(ONE_MEMORY)
        keywords[MEMORIES_INPUT] = (memory,) if memory else ()
    question = asked.question(**keywords, catalog=catalog, overrides=overrides)
    data = question.ask().to_dict()
    found: dict[str, Any] = data[asked.part][0] if asked.part else data
    return found | {"space": data["space"]} if "space" in data else found


def output(found: Json, name: str) -> Scalar:
    """One output of an answer, by its path of keys.

    Raises
    ------
    UnknownNameError
        If the answer has no such key.
    InputError
        If the path leads to more than one value.
    """
    value: Any = found
    for key in name.split("."):
        if value is None:
            return None  # such as the plan of a fabric that was not timed
        if key in ENDS and key not in value:
            return None  # of an iteration model without error bars
        if not isinstance(value, Mapping) or key not in value:
            known = list(value) if isinstance(value, Mapping) else []
            raise unknown_name(f"output {name}: key", key, known)
        value = value[key]
    if isinstance(value, Mapping) and "tensor" in value:
        return plan_label(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return "; ".join(value)
    raise InputError(f"output {name} is more than one value: name one of {', '.join(value)}")


def plan_label(plan: Json) -> str:
    """A parallel plan in a few signs: degrees, then microbatches times their size."""
    degrees = [("TP", "tensor"), ("CP", "context"), ("PP", "pipeline"), ("DP", "data")]
    degrees += [("EP", "expert")]
    seldom = ("context", "expert")
    shown = [f"{sign}{plan[key]}" for sign, key in degrees if key not in seldom or plan[key] > 1]
    stages = f", {plan['interleave']} stages" if plan["interleave"] > 1 else ""
    return f"{' x '.join(shown)}, {plan['microbatches']} x {plan['microbatch']}{stages}"


def currency_of(spec: StudyDefinition, catalog: str | None = None, *, of_book: bool = False) -> str:
    """Currency of a study's amounts, or of its price book.

    Empty where they need none, or its points do not share one.
    """
    priced = spec.ask == BILL or spec.bill is not None
    if not priced or {"currency", "prices"} & {*spec.axis_names}:
        return ""
    asked = {**question_inputs(BILL, catalog), **spec.inputs}
    if asked["currency"] and not of_book:
        return str(asked["currency"])
    try:
        return PRICE_BOOKS.load(str(asked["prices"]), user_roots(catalog)).currency
    except NetplanError:  # the book is gone since the study ran
        return ""


def catalog_sha256(ask: str, named: Mapping[str, set[Scalar]], catalog: str | None) -> str:
    """Hash of all that a study reads beside its definition: catalog files, and defaults.

    ``named`` has every value that each input takes; defaults fill the others.
    """
    roots = user_roots(catalog)
    known = question_inputs(ask, catalog)
    defaults = {name: value for name, value in known.items() if name not in named}
    digest = hashlib.sha256(json.dumps(defaults, sort_keys=True, default=str).encode())
    for name, shelf in SHELVES.items():
        values = set(named.get(name, {defaults.get(name)}))
        if shelf is PRICE_BOOKS:  # and the books that stand in for these
            books = [PRICE_BOOKS.load(str(one), roots) for one in values if one]
            values |= {book.other_speeds for book in books}
        for value in sorted(str(value) for value in values if value not in (None, "", NONE)):
            path = shelf.find(value, roots)
            digest.update(f"{shelf.role}/{_place(path)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _place(path: Path) -> str:
    """A file's name in the hash: the same wherever netplan is installed."""
    root = shipped_root()
    return str(path.relative_to(root)) if path.is_relative_to(root) else path.name

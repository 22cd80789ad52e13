"""From a point to its answer: the question that a study puts, its inputs, its outputs.

A study asks what the commands ask: ``search``, ``compare`` (one fabric a point) or ``cost`` (one
fabric a point). Inputs are the keywords of that question; names with a dot are catalog values or,
under ``fixed.``, values that the plan search leaves no choice of. Outputs are keys of the answer's
JSON, with dots; one that is a whole plan becomes a short label.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from netplan.catalog import Shelf, shipped_root, unknown_name, user_roots
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.lifetime import ECONOMICS_BOOKS
from netplan.costing.power import POWER_BOOKS
from netplan.costing.prices import PRICE_BOOKS
from netplan.costing.switches import SWITCHES
from netplan.errors import InputError
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.questions.compare import compare
from netplan.questions.cost import cost
from netplan.questions.question import default_of
from netplan.questions.search import search
from netplan.studies.points import Scalar
from netplan.topologies.floor_plan import FLOOR_PLANS
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

Json = Mapping[str, Any]
FIXED = "fixed."
ONE_FABRIC = "fabric"

SHELVES: dict[str, Shelf[Any]] = {
    "accelerator": ACCELERATORS,
    "model": MODELS,
    "fabric": FABRICS,
    "iteration_model": ITERATION_MODELS,
    "prices": PRICE_BOOKS,
    "power": POWER_BOOKS,
    "cabling": CABLING_BOOKS,
    "economics": ECONOMICS_BOOKS,
    "switch": SWITCHES,
    "ocs": SWITCHES,
    "floor_plan": FLOOR_PLANS,
}
"""Shelf of each input that names a catalog file."""

_LEFT_TO_THE_STUDY = {"catalog", "overrides", "fixed", "fabrics", "top", "explain"}


def _search_json(keywords: dict[str, Any]) -> Json:
    data = search(**keywords, top=1).to_dict()
    return {**data["plans"][0], "space": data["space"]}


def _compare_json(keywords: dict[str, Any]) -> Json:
    found: Json = compare(**keywords).to_dict()["fabrics"][0]
    return found


def _cost_json(keywords: dict[str, Any]) -> Json:
    found: Json = cost(**keywords).to_dict()["fabrics"][0]
    return found


_ASK: dict[str, tuple[Callable[..., Any], Callable[[dict[str, Any]], Json]]] = {
    "search": (search, _search_json),
    "compare": (compare, _compare_json),
    "cost": (cost, _cost_json),
}


def question_inputs(ask: str) -> dict[str, Any]:
    """Inputs of a question with their defaults; ``inspect.Parameter.empty`` where one is needed.

    Examples
    --------
    >>> question_inputs("search")["strategy"], "fabric" in question_inputs("compare")
    ('1d', True)
    """
    parameters = inspect.signature(_ASK[ask][0]).parameters
    found = {
        name: _shared(ask, name) if parameter.default is None else parameter.default
        for name, parameter in parameters.items()
        if name not in _LEFT_TO_THE_STUDY
    }
    if "fabrics" in parameters:
        found[ONE_FABRIC] = "rail-optimized"
    return found


def _shared(ask: str, name: str) -> object:
    """Default of the defaults file; None if it has none."""
    try:
        return default_of(ask, name)
    except InputError:
        return None


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
            raise unknown_name(f"input of {ask}", name, list(known))
        role = name.partition(".")[0]
        roles = {shelf.role for shelf in SHELVES.values()} | {FIXED.rstrip(".")}
        if "." in name and role not in roles:
            raise unknown_name(f"input {name}: role", role, sorted(roles))
    needed = {name for name, value in known.items() if value is inspect.Parameter.empty}
    if not needed <= given:
        missing = ", ".join(sorted(needed - given))
        raise InputError(f"{ask} needs {missing}: put it under inputs or on an axis")


def answer(ask: str, inputs: Mapping[str, Scalar], catalog: str | None = None) -> Json:
    """Put one question.

    Parameters
    ----------
    ask
        ``search``, ``compare`` or ``cost``.
    inputs
        The point's inputs; those that are None keep their default.
    catalog
        Folder of the user's own catalogs.

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
    keywords: dict[str, Any] = {"catalog": catalog}
    overrides: dict[str, str] = {}
    fixed: dict[str, int] = {}
    for name, value in inputs.items():
        if value is None:
            continue
        if name.startswith(FIXED):
            fixed[name.removeprefix(FIXED)] = int(value)
        elif "." in name:
            overrides[name] = str(value)
        elif name == ONE_FABRIC and ask != "search":
            keywords["fabrics"] = (value,)
        else:
            keywords[name] = value
    if fixed:
        keywords["fixed"] = fixed
    return _ASK[ask][1](keywords | {"overrides": overrides})


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
        if not isinstance(value, Mapping) or key not in value:
            known = list(value) if isinstance(value, Mapping) else []
            raise unknown_name(f"output {name}: key", key, known)
        value = value[key]
    if isinstance(value, Mapping) and "tensor" in value:
        return plan_label(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputError(f"output {name} is more than one value: name one of {', '.join(value)}")


def plan_label(plan: Json) -> str:
    """A parallel plan in a few signs: degrees, then microbatches times their size."""
    degrees = [("TP", "tensor"), ("CP", "context"), ("PP", "pipeline"), ("DP", "data")]
    shown = [f"{sign}{plan[key]}" for sign, key in degrees if key != "context" or plan[key] > 1]
    stages = f", {plan['interleave']} stages" if plan["interleave"] > 1 else ""
    return f"{' x '.join(shown)}, {plan['microbatches']} x {plan['microbatch']}{stages}"


def catalog_sha256(ask: str, named: Mapping[str, set[Scalar]], catalog: str | None) -> str:
    """Hash of all catalog files that a study reads.

    Parameters
    ----------
    ask
        The question.
    named
        Every value that each input takes; defaults fill the others.
    catalog
        Folder of the user's own catalogs.
    """
    roots = (*user_roots(catalog),)
    digest = hashlib.sha256()
    defaults = question_inputs(ask)
    for name, shelf in SHELVES.items():
        values = named.get(name, {defaults.get(name)})
        for value in sorted(str(value) for value in values if value not in (None, "")):
            path = shelf.find(value, roots)
            digest.update(f"{shelf.role}/{_place(path)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _place(path: Path) -> str:
    """A file's name in the hash: the same wherever netplan is installed."""
    root = shipped_root()
    return str(path.relative_to(root)) if path.is_relative_to(root) else path.name

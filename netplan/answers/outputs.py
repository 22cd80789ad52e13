"""One value of an answer's JSON, by the path that leads to it.

Steps of a path are keys, with dots between them. In a list a step is the number of a row, or one of
its texts: ``fabrics.rail-only.cost.base`` is the price of the fabric that is called so. Underscores
stand for hyphens and blanks, which formulas do not have: ``groups.ring_1_tile.utilisation``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from netplan.catalog import unknown_name
from netplan.errors import InputError, UnknownNameError
from netplan.performance.barred import ENDS
from netplan.reports.quantities import Scalar

Json = Mapping[str, Any]

LONGEST_NAME = 60
"""Signs of a text up to which a row may go by it [1]."""

SPOKEN = str.maketrans("- ", "__")
"""Signs of names that formulas do not have."""


class NoRowError(UnknownNameError):
    """The answer of this point has no such row; that of another one may."""


def output(answer: Json, name: str) -> Scalar:
    """One output of an answer, by its path.

    Parameters
    ----------
    answer
        JSON of the answer of a point.
    name
        The path, with dots.

    Returns
    -------
    Scalar
        The value; a plan as a short label, a list of texts as one text.

    Raises
    ------
    UnknownNameError
        If the answer has no such key.
    NoRowError
        If a list of it has no such row.
    InputError
        If the path leads to more than one value.

    Examples
    --------
    >>> answer = {"fabrics": [{"fabric": "rail-only", "cost": {"base": 2.5}}]}
    >>> output(answer, "fabrics.rail_only.cost.base"), output(answer, "fabrics.0.fabric")
    (2.5, 'rail-only')
    >>> output({"groups": [{"group": "ring 1 tile", "busy_s": 2.0}]}, "groups.ring_1_tile.busy_s")
    2.0
    """
    value: Any = answer
    path = name
    while path:
        if value is None:
            return None  # such as the plan of a fabric that was not timed
        if isinstance(value, Mapping) and path in ENDS and path not in value:
            return None  # of an iteration model without error bars
        value, path = _step(value, path, name)
    if isinstance(value, Mapping) and "tensor" in value:
        return plan_label(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value):
        return "; ".join(value)
    raise InputError(
        f"output {name} is more than one value: name one of {', '.join(_steps(value))}"
    )


def walked(answer: Json, name: str) -> Iterator[Json]:
    """The mappings that the path of an output leads through, the whole answer first.

    Examples
    --------
    >>> answer = {"fabrics": [{"fabric": "rail-only", "cost": {"base": 2.5}}]}
    >>> [sorted(place) for place in walked(answer, "fabrics.rail-only.cost.base")]
    [['fabrics'], ['cost', 'fabric'], ['base']]
    """
    value: Any = answer
    path = name
    while path and value is not None:
        if isinstance(value, Mapping):
            yield value
        value, path = _step(value, path, name)


def _step(value: Any, path: str, name: str) -> tuple[Any, str]:  # noqa: ANN401 - of JSON
    """What the first step of a path leads to, and the rest of the path."""
    if isinstance(value, Mapping):
        key = _start(value, path)
        if key is None:
            raise unknown_name(f"output {name}: key", path.partition(".")[0], list(value))
        return value[key], path[len(key) + 1 :]
    if not isinstance(value, (list, tuple)):
        before = name.removesuffix(f".{path}")
        raise unknown_name(f"output {name}: key", path, [f"{before} alone, which is one value"])
    number, _, rest = path.partition(".")
    if number.isdecimal():
        if int(number) < len(value):
            return value[int(number)], rest
        raise NoRowError(f"output {name}: there are {len(value)} rows, from 0 on")
    text = _start(_steps(value), path)
    rows = [row for row in value if isinstance(row, Mapping) and text in row.values()]
    if text is None or not rows:
        raise NoRowError(
            str(unknown_name(f"output {name}: row", path.partition(".")[0], _steps(value)))
        )
    if len(rows) > 1:
        which = ", ".join(str(number) for number, row in enumerate(value) if row in rows)
        raise InputError(f"output {name}: {len(rows)} rows are called {text}: write one of {which}")
    return rows[0], path[len(text) + 1 :]


def _start(names: Iterable[str], path: str) -> str | None:
    """The longest of some names, which may have dots, that a path starts with."""
    wanted = f"{path}.".translate(SPOKEN)
    return max(
        (name for name in names if wanted.startswith(f"{name}.".translate(SPOKEN))),
        key=len,
        default=None,
    )


def _steps(value: Any) -> list[str]:  # noqa: ANN401 - of JSON
    """What may follow in a path: keys, or texts that rows of a list go by."""
    if isinstance(value, Mapping):
        return list(value)
    rows: Sequence[Any] = value
    texts = [
        text
        for row in rows
        if isinstance(row, Mapping)
        for text in row.values()
        if isinstance(text, str) and 0 < len(text) <= LONGEST_NAME
    ]
    return list(dict.fromkeys(texts)) or [str(number) for number in range(len(rows))]


def plan_label(plan: Json) -> str:
    """A parallel plan in a few signs: degrees, then microbatches times their size."""
    degrees = [("TP", "tensor"), ("CP", "context"), ("PP", "pipeline"), ("DP", "data")]
    degrees += [("EP", "expert")]
    seldom = ("context", "expert")
    shown = [f"{sign}{plan[key]}" for sign, key in degrees if key not in seldom or plan[key] > 1]
    stages = f", {plan['interleave']} stages" if plan["interleave"] > 1 else ""
    return f"{' x '.join(shown)}, {plan['microbatches']} x {plan['microbatch']}{stages}"

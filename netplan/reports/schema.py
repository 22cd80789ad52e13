"""What JSON has of a record: the parts that it declares, or else all its fields.

A record declares its JSON as a tuple ``json_parts`` and has no code for it. A part is a path
(:func:`~netplan.records.value_at`), whose last step is its name, or ``name=path``. With ``?``
before it, it is left out where there is nothing: None, False, an empty text, no entries; with ``?``
behind it, it is None there. ``*path`` puts all parts of what stands there in its place, and ``*``
alone all fields of the record; ``-name`` takes one of all these out, where it is among them. A name
that comes again stays in its place and has the later value: to put another value there, as
``plan=whole_plan`` behind ``*`` does. What stands in a record is plain data by the same rules, and
a tuple is a list.

Examples
--------
>>> from msgspec import Struct
>>> class Bill(Struct):
...     switches: int
...     lines: tuple[str, ...] = ()
>>> class Row(Struct):
...     json_parts = "fabric", "*bill", "-lines", "?year", "bought=bill.lines", "medium?"
...     fabric: str
...     bill: Bill
...     year: int | None = None
...     medium: str = ""
>>> plain_data(Row("rail-only", Bill(256)))
{'fabric': 'rail-only', 'switches': 256, 'bought': [], 'medium': None}
"""

from collections.abc import Collection, Iterator
from functools import cache
from typing import Any

from netplan.records import EVERY, own_values, value_at

IF_ANY = "?"
"""Before a part: only where there is something. Behind it: None there. False is nothing, too."""
NOT = "-"
"""Before a name: not that one of all parts of something."""
SIMPLE = frozenset({str, int, float, bool, type(None)})
"""Types of values that are plain data already."""


def plain_data(value: Any) -> Any:  # noqa: ANN401 - plain data of any depth
    """A value as JSON has it: records by their parts, or all their keys.

    Parameters
    ----------
    value
        A record, a row, several of them, or a plain value.

    Returns
    -------
    Any
        Mappings, lists and plain values.

    Examples
    --------
    >>> from netplan.costing.ranges import Range
    >>> plain_data((Range(1.0, 2.0, 3.0), "USD"))
    [{'low': 1.0, 'base': 2.0, 'high': 3.0}, 'USD']
    """
    if type(value) in SIMPLE:
        return value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if (parts := getattr(type(value), "json_parts", None)) is not None:
        return plain_at(value, *parts)
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, list | tuple | Iterator):
        return [plain_data(entry) for entry in value]
    values = value if isinstance(value, dict) else own_values(value)
    return value if values is None else {key: plain_data(entry) for key, entry in values.items()}


def plain_at(record: object, *parts: str) -> dict[str, Any]:
    """Parts of a record as JSON has them.

    Parameters
    ----------
    record
        The record.
    *parts
        As of ``json_parts``, see above.

    Returns
    -------
    dict[str, Any]
        Plain data by name, in the order of the parts.

    Examples
    --------
    >>> plain_at({"plan": 8 + 1j, "seed": None}, "tensor=plan.real", "plan.imag", "?seed")
    {'tensor': 8.0, 'imag': 1.0}
    """
    plain: dict[str, Any] = {}
    taken_out = {part[1:] for part in parts if part[0] == NOT}
    for part in parts:
        if part[0] == EVERY:
            every = (
                _without(own_values(record), taken_out)
                if part == EVERY
                else value_at(record, part[1:])
            )
            plain |= _without(plain_data(every), taken_out)
        elif part[0] != NOT:
            name, path = _named(part)
            value = value_at(record, path)
            if IF_ANY not in part or not _is_nothing(value):
                plain[name] = plain_data(value)
            elif part[-1] == IF_ANY:
                plain[name] = None
    return plain


@cache
def _named(part: str) -> tuple[str, str]:
    """Name and path of a part."""
    name, _, path = part.strip(IF_ANY).rpartition("=")
    return name or path.rpartition(".")[2], path


def _without(values: dict[str, Any] | None, names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in (values or {}).items() if name not in names}


def _is_nothing(value: object) -> bool:
    return value is None or value is False or (hasattr(value, "__len__") and not len(value))

"""Inputs from texts: what the command line is given, and what Python may be given alike."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, cast

from netplan.errors import InputError


def integer(text: str) -> int:
    """Read a whole number; thousands may be set off by commas or underscores."""
    try:
        return int(text.replace(",", "_"))
    except ValueError:
        raise InputError(f"{text!r} is not a whole number{_suggestion(text)}") from None


def _suggestion(text: str) -> str:
    try:
        value = float(text)
    except ValueError:
        return ""
    return f": write {int(value)}" if value.is_integer() and abs(value) < 1e15 else ""  # noqa: PLR2004


def decimal(text: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{text!r} is not a valid float") from None


def ratio(text: str) -> float:
    """Read an oversubscription ratio, ``3`` or ``3:1``: bandwidth down to bandwidth up."""
    down, _, up = text.partition(":")
    try:
        found = float(down) / float(up or 1)
    except (ValueError, ZeroDivisionError):
        raise InputError(f"{text!r} is not a ratio: write 3 or 3:1") from None
    if not 1 <= found < float("inf"):
        raise InputError(f"{text!r} is out of range: at least 1:1")
    return found


def percent(text: str) -> float:
    """Read a percentage such as ``7%`` as a share of one; without its sign it could mean either."""
    text = text.strip()
    number = re.fullmatch(r"(-?\d+(?:\.\d+)?)\s*(%?)", text)
    if number is None or not number[2]:
        example = f"{number[1]}%" if number else "7%"
        raise InputError(f"{text!r} is not a percentage: write {example}")
    return float(number[1]) / 100


_SIZE = re.compile(r"(\d+(?:\.\d*)?(?:e\+?\d+)?)\s*(?:([kMGTP]?i?)B)?", re.IGNORECASE)
_PREFIXES = {prefix: power for power, prefix in enumerate(("", "k", "m", "g", "t", "p"))}


def size(text: str) -> float | tuple[float, float]:
    """Read a number of bytes, such as ``8e9``, ``512MiB`` or ``512MB``, or a range, ``1MiB..1GiB``.

    Examples
    --------
    >>> size("512MiB"), size("8e9"), size("1kB..2 GB")
    (536870912.0, 8000000000.0, (1000.0, 2000000000.0))
    """
    low, dots, high = text.partition("..")
    return (_bytes(low), _bytes(high)) if dots else _bytes(low)


def _bytes(text: str) -> float:
    found = _SIZE.fullmatch(text.strip().replace(",", "").replace("_", ""))
    if found is None or len(text) > _LONGEST:
        raise InputError(f"{text!r:.40} is no size: write 8e9, 512MiB, 512MB, or 1MiB..1GiB")
    prefix = (found[2] or "").lower()
    base = 1024.0 if prefix.endswith("i") else 1000.0
    return float(found[1]) * base ** _PREFIXES[prefix.removesuffix("i")]


_LONGEST = 40
"""Signs of a number of bytes [1]."""

NUMBERS: Mapping[str, Callable[[str], float]] = {
    "whole": integer,
    "real": decimal,
    "ratio": ratio,
    "percent": percent,
}


def read_value(kind: str, value: Any) -> object:  # noqa: ANN401 - of any kind
    """A value of Python as an input of a kind; a text as the command line reads it.

    Raises
    ------
    InputError
        If it is none of that kind.

    Examples
    --------
    >>> read_value("ratio", "2:1"), read_value("whole", "32,768"), read_value("percent", 0.07)
    (2.0, 32768, 0.07)
    """
    if kind in NUMBERS:
        return NUMBERS[kind](value) if isinstance(value, str) else _number(kind, value)
    if kind == "size":
        return _size(value)
    if kind == "flag" and not isinstance(value, bool):
        # Any text would be true, "no" as well.
        raise InputError(f"{value!r:.60} is neither True nor False")
    if kind not in ("flag", *NUMBERS) and not isinstance(value, (str, Path)):
        raise InputError(f"{value!r:.60} is no text: write {str(value)!r:.60}")
    if kind == "path" and "\0" in str(value):
        raise InputError(f"{value!r:.60} is no name of a file")
    return Path(value) if kind == "path" else str(value) if isinstance(value, Path) else value


def _size(value: object) -> float | tuple[float, float]:
    """A number of bytes, or two that are the ends of a range."""
    if isinstance(value, str):
        return size(value)
    if isinstance(value, tuple | list):
        if len(value) != 2:  # noqa: PLR2004 - from and to
            raise InputError(f"{value!r:.60} is no range of sizes: give two, the smaller one first")
        return float(_number("real", value[0])), float(_number("real", value[1]))
    return float(_number("real", value))


def _number(kind: str, value: object) -> float:
    """A number, whole ones without a fraction."""
    found = getattr(value, "item", lambda: value)()  # numpy's numbers as Python's
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise InputError(f"{value!r:.60} is no number")
    if kind in ("ratio", "percent") and not isfinite(found):
        raise InputError(f"{value!r:.60} is no finite number")
    if kind == "whole" and found % 1 != 0:
        raise InputError(f"{found!r} is not a whole number")
    return int(found) if kind == "whole" else found


def read_pairs(flag: str, value: Mapping[str, int] | Sequence[str] | str) -> Mapping[str, int]:
    """Whole numbers by name, from a mapping or from ``NAME=N`` texts.

    Raises
    ------
    InputError
        If a text has another form.

    Examples
    --------
    >>> read_pairs("--fix", ["pipeline=64", "fixed.tensor=8"])
    {'pipeline': 64, 'tensor': 8}
    """
    if isinstance(value, Mapping):
        return {str(name): integer(str(number)) for name, number in value.items()}
    found: dict[str, int] = {}
    for pair in _texts(flag, value):
        name, _, amount = pair.partition("=")
        name = name.strip().removeprefix("fixed.")  # as studies call it
        try:
            number = int(amount)
        except ValueError:
            raise InputError(f"{flag} {pair!r}: write NAME=N, such as pipeline=64") from None
        if found.setdefault(name, number) != number:
            raise InputError(f"{flag} {name} is given twice, {found[name]} and {number}: give one")
    return found


def parse_overrides(texts: Sequence[str]) -> dict[str, str]:
    """Split ``ROLE.KEY=VALUE`` texts.

    Raises
    ------
    InputError
        If a text has another form.

    Examples
    --------
    >>> parse_overrides(["accelerator.memory_bytes=96e9"])
    {'accelerator.memory_bytes': '96e9'}
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        role, dot, field = key.strip().partition(".")
        if not (equals and dot and role and field and value.strip()):
            raise InputError(
                f"--set {text!r}: write ROLE.KEY=VALUE, such as accelerator.memory_bytes=96e9"
            )
        if field.strip() == "name":
            raise InputError(f"--set {text!r}: a name tells records apart: name a copy of the file")
        known = found.setdefault(key.strip(), value.strip())
        if known != value.strip():
            raise InputError(f"--set {key.strip()} is given twice, {known} and {value.strip()}")
    return found


def read_settings(value: Mapping[str, object] | Sequence[str] | str) -> dict[str, str]:
    """Catalog values to replace, from a mapping or from ``ROLE.KEY=VALUE`` texts."""
    if isinstance(value, Mapping):
        return {
            str(key): one if isinstance(one, str) else json.dumps(one, default=str)
            for key, one in value.items()
        }
    return parse_overrides(_texts("--set", value))


def _texts(flag: str, value: object) -> list[str]:
    """One text or several; anything else is refused."""
    alone = isinstance(value, str) or not isinstance(value, Iterable)
    texts = []
    for one in (value,) if alone else cast("Iterable[object]", value):
        if not isinstance(one, str):
            raise InputError(f"{flag} {one!r:.60} is no text: give texts, or a mapping")
        texts.append(one)
    return texts


def split_names(words: str) -> list[str]:
    """Names that a comma sets apart; a file may have one in its name."""
    parts = [part.strip() for part in words.split(",")]
    return parts if all(parts) and not Path(words).exists() else [words]

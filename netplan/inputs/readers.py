"""Inputs from texts: what the command line is given, and what Python may be given alike."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from netplan.errors import InputError
from netplan.inputs.choices import Cooling

if TYPE_CHECKING:
    from fractions import Fraction

_LONGEST = 40
"""Signs of a number with a prefix [1]."""
_SCALED = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)) ?(k|Ki|[MGTP]i?)")
_SCALES = {prefix: power for power, prefix in enumerate("KMGTP", start=1)}


def _scaled(text: str) -> "Fraction | None":
    """The number of a text such as ``16k`` or ``1Mi``; None of another one."""
    match = _SCALED.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if match is None:
        return None
    base = 1024 if match[2].endswith("i") else 1000
    from fractions import Fraction  # noqa: PLC0415 - seldom used

    return Fraction(match[1]) * int(base ** _SCALES[match[2][0].upper()])


def integer(text: str) -> int:
    """Read a whole number; thousands may be set off by commas or underscores, or written k, M, Ki.

    Examples
    --------
    >>> integer("32,768"), integer("16k"), integer("1M"), integer("16Ki"), integer("1.5Mi")
    (32768, 16000, 1000000, 16384, 1572864)
    """
    scaled = _scaled(text)
    if scaled is not None and scaled.denominator == 1:
        return scaled.numerator
    try:
        return int(text.replace(",", "_"))
    except ValueError:
        value = number_or_nan(text)
        known = value.is_integer() and abs(value) < 1e15  # noqa: PLR2004
        hint = f": write {int(value)}" if known else ""
        raise InputError(f"{text!r} is not a whole number{hint}") from None


MOST_DIGITS = 15
"""Digits of a number that an input may hold: more are no amount, and Python reads no thousands."""


def digits(text: str) -> int | None:
    """The whole number that digits alone write; None of all else, or of more than `MOST_DIGITS`.

    Examples
    --------
    >>> digits("12"), digits("-3"), digits("1k"), digits("9" * 5000)
    (12, -3, None, None)
    """
    written = text.removeprefix("-")
    plain = written.isascii() and written.isdecimal() and len(written) <= MOST_DIGITS
    return int(text) if plain else None


def decimal(text: str) -> float:
    """Read a number; thousands may be written k, M, Ki.

    Examples
    --------
    >>> decimal("0.5"), decimal("1.2M")
    (0.5, 1200000.0)
    """
    scaled = _scaled(text)
    if scaled is not None:
        return float(scaled)
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{text!r} is not a valid float") from None


def number_or_nan(text: object) -> float:
    """The number of a text; of what is none a number that lies in no range.

    Examples
    --------
    >>> number_or_nan("0.5"), number_or_nan("half")
    (0.5, nan)
    """
    try:
        return float(text) if isinstance(text, (str, int, float)) else nan
    except ValueError:
        return nan


_PER_GPU = re.compile(r"(.+?)\s*(?:/|\s+per\s+)\s*gpu", re.IGNORECASE)


def per_gpu(value: object) -> float | None:
    """Sequences for each GPU of a batch such as ``0.25/gpu``; None of a batch that is a number.

    Examples
    --------
    >>> per_gpu("0.25/gpu"), per_gpu(2048)
    (0.25, None)
    """
    match = _PER_GPU.fullmatch(value.strip()) if isinstance(value, str) else None
    return None if match is None else decimal(match[1])


def batch(value: object) -> int | str:
    """Read a global batch: a whole number, or so many for each GPU.

    Raises
    ------
    InputError
        If it is neither.

    Examples
    --------
    >>> batch("4k"), batch(" 0.25 per GPU")
    (4000, '0.25/gpu')
    """
    if not isinstance(value, str):
        return int(_number("whole", value))
    share = per_gpu(value)
    if share is None:
        return integer(value)
    if not 0 < share < float("inf"):
        raise InputError(f"{value!r:.40} is no batch: give more than 0 a GPU")
    return f"{share:g}/gpu"


def whole_or_auto(value: object) -> int | str:
    """Read a whole number from 1 on, or ``auto``, which leaves it open.

    Raises
    ------
    InputError
        If it is neither.

    Examples
    --------
    >>> whole_or_auto("64"), whole_or_auto("auto")
    (64, 'auto')
    """
    if value == "auto":
        return "auto"
    try:
        number = integer(value) if isinstance(value, str) else int(_number("whole", value))
    except InputError:
        number = 0
    if number < 1:
        raise InputError(f"got {value!r:.40}: give a whole number from 1 on, or auto")
    return number


FIRST_MONTH, LAST_MONTH = "2024-07", "2026-09"
"""Software of the first and the last month that there are runs of, within a quarter."""
NEWEST_SCORED = "2026-06"
"""Software of the newest runs that were scored, which is meant where nothing is said."""
UNDATED = "none"
"""What is asked for in place of a month where software has no date."""
_MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")


def software_month(text: str) -> str:
    """Read a month of software; outside of the range of runs it is the nearest inside.

    Raises
    ------
    InputError
        If it is neither a month nor none.

    Examples
    --------
    >>> software_month("2026-02"), software_month("2023-11"), software_month("none")
    ('2026-02', '2024-07', 'none')
    """
    if text == UNDATED:
        return text
    if not _MONTH.fullmatch(text):
        raise InputError(
            f"--software-date {text!r:.40} is no month: give YYYY-MM, from {FIRST_MONTH} to"
            f" {LAST_MONTH}, or {UNDATED}"
        )
    return min(max(text, FIRST_MONTH), LAST_MONTH)


def release_month(text: str) -> str:
    """Read a month of serving software.

    Raises
    ------
    InputError
        If it is none.

    Examples
    --------
    >>> release_month("2026-02")
    '2026-02'
    """
    if not _MONTH.fullmatch(text):
        raise InputError(f"--software-date {text!r:.40} is no month: give YYYY-MM")
    return text


def ratio(text: str) -> float:
    """Read an oversubscription ratio, ``3`` or ``3:1``: bandwidth down to bandwidth up."""
    oversubscription = _divided(text)
    if not 1 <= oversubscription < float("inf"):
        raise InputError(f"{text!r} is out of range: at least 1:1")
    return oversubscription


def quotient(text: str) -> float:
    """Read a ratio of two rates, ``4.5`` or ``4.5:1``, which may be below one.

    Raises
    ------
    InputError
        If it is none.

    Examples
    --------
    >>> quotient("1:2"), quotient("4.5")
    (0.5, 4.5)
    """
    rates = _divided(text)
    if not 0 < rates < float("inf"):
        raise InputError(f"{text!r} is out of range: more than 0:1")
    return rates


def _divided(text: str) -> float:
    """The number before a colon over that behind it, if there is one."""
    first, _, second = text.partition(":")
    try:
        return float(first) / float(second or 1)
    except (ValueError, ZeroDivisionError):
        raise InputError(f"{text!r} is not a ratio: write 3 or 3:1") from None


def percent(text: str) -> float:
    """Read a percentage such as ``7%`` as a share of one; without its sign it could mean either.

    Raises
    ------
    InputError
        If it is none; of a number of at most one, both that it may mean are named.

    Examples
    --------
    >>> percent("7%")
    0.07
    >>> percent("0.02")
    Traceback (most recent call last):
    ...
    netplan.errors.InputError: '0.02' is not a percentage: write 2%, or 0.02% for 0.0002 of all
    """
    text = text.strip()
    number = re.fullmatch(r"(-?\d+(?:\.\d+)?)\s*(%?)", text)
    if number is None or not number[2]:
        example = f"{number[1]}%" if number else "7%"
        if number and 0 < (value := float(number[1])) <= 1:
            example = f"{100 * value:.12g}%, or {example} for {value / 100:.12g} of all"
        raise InputError(f"{text!r} is not a percentage: write {example}")
    return float(number[1]) / 100


_SIZE = re.compile(r"(\d+(?:\.\d*)?(?:e\+?\d+)?)\s*(?:([kMGTP]?i?)B)?", re.IGNORECASE)
_PREFIXES = {prefix: power for power, prefix in enumerate(("", "k", "m", "g", "t", "p"))}


def size(text: object) -> float | tuple[float, float]:
    """Read a number of bytes, such as ``8e9``, ``512MiB`` or ``512MB``, or a range, ``1MiB..1GiB``.

    Of numbers it is one, or two that are the ends of a range.

    Examples
    --------
    >>> size("512MiB"), size("8e9"), size("1kB..2 GB")
    (536870912.0, 8000000000.0, (1000.0, 2000000000.0))
    """
    if isinstance(text, tuple | list):
        if len(text) != 2:  # noqa: PLR2004 - from and to
            raise InputError(f"{text!r:.60} is no range of sizes: give two, the smaller one first")
        return float(_number("real", text[0])), float(_number("real", text[1]))
    if not isinstance(text, str):
        return float(_number("real", text))
    low, dots, high = text.partition("..")
    return (_bytes(low), _bytes(high)) if dots else _bytes(low)


def _bytes(text: str) -> float:
    match = _SIZE.fullmatch(text.strip().replace(",", "").replace("_", ""))
    if match is None or len(text) > _LONGEST:
        raise InputError(f"{text!r:.40} is no size: write 8e9, 512MiB, 512MB, or 1MiB..1GiB")
    prefix = (match[2] or "").lower()
    base = 1024.0 if prefix.endswith("i") else 1000.0
    return float(match[1]) * base ** _PREFIXES[prefix.removesuffix("i")]


_WATTS = re.compile(r"(\d+(?:\.\d*)?(?:e\+?\d+)?)\s*(?:([kMG]?)W)?", re.IGNORECASE)
_WATT_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}


def power(value: object) -> float:
    """Read a power such as ``500kW``, ``20MW`` or ``1.2GW`` in watts; a number alone is watts.

    Raises
    ------
    InputError
        If it is none, or not above 0.

    Examples
    --------
    >>> power("500kW"), power("1.2 GW"), power(20e6)
    (500000.0, 1200000000.0, 20000000.0)
    """
    text = str(value).strip().replace(",", "").replace("_", "")
    match = _WATTS.fullmatch(text) if len(text) <= _LONGEST else None
    watts = float(match[1]) * _WATT_PREFIXES[(match[2] or "").lower()] if match else 0.0
    if not 0 < watts <= _MOST_WATTS:
        raise InputError(
            f"{text!r:.40} is no power: write 500kW, 20MW or 1.2GW, above 0, to 1,000GW"
        )
    return watts


_MOST_WATTS = 1e12


def power_or_share(value: object) -> float:
    """Read a power in watts, or a share of the full one such as ``80%``, which is at most 1.

    Examples
    --------
    >>> power_or_share("500W"), power_or_share("80%"), power_or_share(0.8)
    (500.0, 0.8, 0.8)
    """
    if isinstance(value, str) and value.strip().endswith("%"):
        value = percent(value)
        if not 0 < value <= 1:
            raise InputError(f"{100 * value:g}% is no share of a power: give 1% to 100%")
        return value
    try:
        return power(value)
    except InputError:
        raise InputError(f"{value!r:.40} is no power of a GPU: write 700W or 80%") from None


def percent_or_cooling(value: object) -> float | str:
    """Read what cools, or how much energy that takes, as a percentage of the equipment's.

    Examples
    --------
    >>> percent_or_cooling("cold-plate"), percent_or_cooling("30%")
    ('cold-plate', 0.3)
    """
    if not isinstance(value, str):
        return _number("percent", value)
    if value.strip() in get_args(Cooling):
        return value.strip()
    try:
        return percent(value)
    except InputError:
        kinds = ", ".join(get_args(Cooling))
        raise InputError(
            f"{value!r:.40} cools nothing: use {kinds}, or energy such as 30%"
        ) from None


NUMBERS: Mapping[str, Callable[[str], float]] = {
    "whole": integer,
    "real": decimal,
    "ratio": ratio,
    "quotient": quotient,
    "percent": percent,
}


TEXTS_OR_NUMBERS: Mapping[str, Callable[[object], object]] = {
    "size": size,
    "batch": batch,
    "whole-or-auto": whole_or_auto,
    "power": power,
    "power-or-share": power_or_share,
    "percent-or-cooling": percent_or_cooling,
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
    if kind in TEXTS_OR_NUMBERS:
        return TEXTS_OR_NUMBERS[kind](value)
    if kind == "flag" and value in ("true", "false"):  # as files have them
        return value == "true"
    if kind == "flag" and not isinstance(value, bool):
        # Any text would be true, "no" as well.
        raise InputError(f"{value!r:.60} is neither True nor False")
    if kind not in ("flag", *NUMBERS) and not isinstance(value, (str, Path)):
        raise InputError(f"{value!r:.60} is no text: write {str(value)!r:.60}")
    if kind == "path" and "\0" in str(value):
        raise InputError(f"{value!r:.60} is no name of a file")
    return Path(value) if kind == "path" else str(value) if isinstance(value, Path) else value


def _number(kind: str, value: object) -> float:
    """A number, whole ones without a fraction."""
    number = getattr(value, "item", lambda: value)()  # numpy's numbers as Python's
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise InputError(f"{value!r:.60} is no number")
    if kind in ("ratio", "percent") and not isfinite(number):
        raise InputError(f"{value!r:.60} is no finite number")
    if kind == "whole" and number % 1 != 0:
        raise InputError(f"{number!r} is not a whole number")
    return int(number) if kind == "whole" else number


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
    pairs: dict[str, int] = {}
    for pair in _texts(flag, value):
        name, _, amount = pair.partition("=")
        name = name.strip().removeprefix("fixed.")  # as studies call it
        try:
            number = int(amount)
        except ValueError:
            raise InputError(f"{flag} {pair!r}: write NAME=N, such as pipeline=64") from None
        if pairs.setdefault(name, number) != number:
            raise InputError(f"{flag} {name} is given twice, {pairs[name]} and {number}: give one")
    return pairs


def read_amounts(
    flag: str, value: Mapping[str, float] | Sequence[str] | str, known: Sequence[str] = ()
) -> Mapping[str, float]:
    """Numbers by name, from a mapping or from ``NAME=X`` texts.

    Raises
    ------
    InputError
        If a text has another form, or a name is none of those known.

    Examples
    --------
    >>> read_amounts("--limit", ["price=200M", "cables=10k"])
    {'price': 200000000.0, 'cables': 10000.0}
    """
    amounts: dict[str, float] = {}
    pairs: Iterable[tuple[str, Any]] = value.items() if isinstance(value, Mapping) else ()
    if not isinstance(value, Mapping):
        parts = [(text, *text.partition("=")) for text in _texts(flag, value)]
        for text, _, equals, _ in parts:
            if not equals:
                raise InputError(f"{flag} {text!r:.60}: write NAME=X, such as price=200e6")
        pairs = [(name.strip(), amount.strip()) for _, name, _, amount in parts]
    for name, amount in pairs:
        if known and name not in known:
            raise InputError(f"{flag} {name!r:.40}: use one of {', '.join(known)}")
        try:
            amounts[str(name)] = decimal(amount) if isinstance(amount, str) else float(amount)
        except InputError as error:
            raise InputError(f"{flag} {name}: {error}") from None
    return amounts


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
    settings: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        role, dot, field = key.strip().partition(".")
        if not (equals and dot and role and field and value.strip()):
            raise InputError(
                f"--set {text!r}: write ROLE.KEY=VALUE, such as accelerator.memory_bytes=96e9"
            )
        if field.strip() == "name":
            raise InputError(f"--set {text!r}: a name tells records apart: name a copy of the file")
        known = settings.setdefault(key.strip(), value.strip())
        if known != value.strip():
            raise InputError(f"--set {key.strip()} is given twice, {known} and {value.strip()}")
    return settings


def read_changes(flag: str, value: Mapping[str, object] | Sequence[str] | str) -> dict[str, object]:
    """Values by the name of an input or of a catalog value, from a mapping or ``NAME=VALUE`` texts.

    What they mean is left to whom they belong to: a value of Python stays as it is.

    Raises
    ------
    InputError
        If a text has another form, or a name is given twice.

    Examples
    --------
    >>> read_changes("--b", ["radix=64", "accelerator.memory_bytes = 96e9"])
    {'radix': '64', 'accelerator.memory_bytes': '96e9'}
    """
    if isinstance(value, Mapping):
        return {str(name): given for name, given in value.items()}
    changes: dict[str, object] = {}
    for text in _texts(flag, value):
        name, equals, given = (part.strip() for part in text.partition("="))
        if not (name and equals and given):
            raise InputError(f"{flag} {text!r:.60}: write NAME=VALUE, such as radix=64")
        known = changes.setdefault(name, given)
        if known != given:
            raise InputError(f"{flag} {name} is given twice, {known} and {given}: give one")
    return changes


def read_settings(value: Mapping[str, object] | Sequence[str] | str) -> dict[str, str]:
    """Catalog values to replace, from a mapping or from ``ROLE.KEY=VALUE`` texts."""
    if isinstance(value, Mapping):
        import json  # noqa: PLC0415 - seldom used

        return {
            str(key): setting if isinstance(setting, str) else json.dumps(setting, default=str)
            for key, setting in value.items()
        }
    return parse_overrides(_texts("--set", value))


def _texts(flag: str, value: object) -> list[str]:
    """One text or several; anything else is refused."""
    alone = isinstance(value, str) or not isinstance(value, Iterable)
    texts = []
    for entry in (value,) if alone else cast("Iterable[object]", value):
        if not isinstance(entry, str):
            raise InputError(f"{flag} {entry!r:.60} is no text: give texts, or a mapping")
        texts.append(entry)
    return texts


def split_names(words: str) -> list[str]:
    """Names that a comma sets apart; a file may have one in its name."""
    parts = [part.strip() for part in words.split(",")]
    return parts if all(parts) and not Path(words).exists() else [words]

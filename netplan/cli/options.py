"""How the words of options become values; click says the option and the reason of a refusal."""

import re
from collections.abc import Sequence

from click import BadParameter, UsageError


def integer(text: str) -> int:
    """Read a whole number; thousands may be set off by commas or underscores."""
    try:
        return int(text.replace(",", "_"))
    except ValueError:
        raise BadParameter(f"{text!r} is not a whole number{_suggestion(text)}") from None


def _suggestion(text: str) -> str:
    try:
        value = float(text)
    except ValueError:
        return ""
    return f": write {int(value)}" if value.is_integer() and abs(value) < 1e15 else ""  # noqa: PLR2004


def ratio(text: str) -> float:
    """Read an oversubscription ratio, ``3`` or ``3:1``: bandwidth down to bandwidth up."""
    down, _, up = text.partition(":")
    try:
        found = float(down) / float(up or 1)
    except (ValueError, ZeroDivisionError):
        raise BadParameter(f"{text!r} is not a ratio: write 3 or 3:1") from None
    if not 1 <= found < float("inf"):
        raise BadParameter(f"{text!r} is out of range: at least 1:1")
    return found


def percent(text: str) -> float:
    """Read a percentage such as ``7%`` as a share of one; without its sign it could mean either."""
    text = text.strip()
    if not re.fullmatch(r"-?\d+(\.\d+)?\s*%", text):
        raise BadParameter(f"{text!r} is not a percentage: write 7%")
    return float(text.rstrip("% ")) / 100


def parse_numbers(flag: str, texts: Sequence[str]) -> dict[str, int]:
    """Split ``NAME=N`` texts.

    Raises
    ------
    click.UsageError
        If a text has another form.

    Examples
    --------
    >>> parse_numbers("--fix", ["pipeline=64"])
    {'pipeline': 64}
    """
    found = {}
    for text in texts:
        name, _, amount = text.partition("=")
        try:
            found[name.strip()] = int(amount)
        except ValueError:
            raise UsageError(f"{flag} {text!r}: write NAME=N, such as pipeline=64") from None
    return found

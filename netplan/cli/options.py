"""Options that several commands share."""

import re
from collections.abc import Sequence

import click


class WholeNumber(click.ParamType[int]):
    """A whole number; thousands may be set off by commas or underscores."""

    name = "integer"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> int:
        """Read the number, or say how to write it."""
        if isinstance(value, int):
            return value
        text = str(value)
        try:
            return int(text.replace(",", "_"))
        except ValueError:
            self.fail(f"{text!r} is not a whole number{_suggestion(text)}", param, ctx)


class Ratio(click.ParamType[float]):
    """An oversubscription ratio: ``3`` or ``3:1``."""

    name = "ratio"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Read the ratio of bandwidth down to bandwidth up."""
        down, _, up = str(value).partition(":")
        try:
            ratio = float(down) / float(up or 1)
        except (ValueError, ZeroDivisionError):
            self.fail(f"{value!r} is not a ratio: write 3 or 3:1", param, ctx)
        if not 1 <= ratio < float("inf"):
            self.fail(f"{value!r} is out of range: at least 1:1", param, ctx)
        return ratio


class Percent(click.ParamType[float]):
    """A percentage such as ``7%``, read as a share of one."""

    name = "percent"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Read the share; a number without its sign could mean either."""
        text = str(value).strip()
        if not re.fullmatch(r"-?\d+(\.\d+)?\s*%", text):
            self.fail(f"{text!r} is not a percentage: write 7%", param, ctx)
        return float(text.rstrip("% ")) / 100


WHOLE = WholeNumber()
RATIO = Ratio()
PERCENT = Percent()


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
            raise click.UsageError(f"{flag} {text!r}: write NAME=N, such as pipeline=64") from None
    return found


def _suggestion(text: str) -> str:
    try:
        value = float(text)
    except ValueError:
        return ""
    return f": write {int(value)}" if value.is_integer() and abs(value) < 1e15 else ""  # noqa: PLR2004

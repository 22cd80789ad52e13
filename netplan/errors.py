"""Every error that netplan raises on purpose: one root, one child for each kind of cause.

A message is one line that says what is wrong, what was given, what is allowed and what to do
next. The command line prints it on stderr and exits with code 2.
"""

import re

MAX_LINES = 20
"""Faults of a file that a message names; the rest is counted [lines]."""

MAX_LINE, MAX_WORD = 2000, 200
"""Lengths from which a line or a word of a message is cut in its middle [characters]."""

MAX_PIECE = 40
"""Length of what a message repeats of a file, which may be another one than was meant [characters].
"""


def one_line(text: object) -> str:
    r"""Text inside a message: control signs become what is typed, what is too long is cut.

    Parameters
    ----------
    text
        Any text, or what has one.

    Returns
    -------
    str
        One line of printable signs, of 2,000 characters at most.

    Examples
    --------
    >>> print(one_line("my\ncatalog"))
    my\ncatalog
    >>> len(one_line("a" * 300))
    161
    """
    short = re.sub(rf"\S{{{MAX_WORD},}}", lambda word: _cut(word[0], MAX_WORD), str(text))
    if short.isprintable():
        return _cut(short, MAX_LINE)
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in _cut(short, MAX_LINE)
    )


def piece(text: object) -> str:
    """A piece of a file inside a message: enough to find it by, no more, on one line.

    Parameters
    ----------
    text
        What a file holds.

    Returns
    -------
    str
        At most 40 printable signs of it.

    Examples
    --------
    >>> piece("oversubscription"), len(piece("a" * 300))
    ('oversubscription', 33)
    """
    return _cut(one_line(text), MAX_PIECE)


def _cut(text: str, longest: int) -> str:
    half = 2 * longest // 5
    return text if len(text) <= longest else f"{text[:half]}…{text[-half:]}"


def not_built(name: str, error: Exception) -> str:
    """Why something of a name cannot be built, where the name stands beside it already.

    Parameters
    ----------
    name
        Of what cannot be built, with which the message may begin.
    error
        Why.

    Returns
    -------
    str
        A sentence.

    Examples
    --------
    >>> not_built("slim-fly", InputError("slim-fly: radix 8 holds at most 64 GPUs"))
    'Cannot be built: radix 8 holds at most 64 GPUs.'
    """
    return f"Cannot be built: {str(error).removeprefix(f'{name}: ')}."


class NetplanError(Exception):
    """Root of all errors that a user can mend; of several faults, each is a line."""

    def __str__(self) -> str:
        """All lines, but no more than a screen takes."""
        lines = [one_line(line) for line in self.args[:MAX_LINES]]
        more = len(self.args) - len(lines)
        return "\n".join([*lines, f"and {more:,} faults more"] if more else lines)


class InputError(NetplanError):
    """A value given on the command line or to a function is not allowed."""


class CatalogError(NetplanError):
    """A catalog file is missing, malformed or holds values that are not allowed.

    The message starts with the file and, where known, the line: ``file.yaml:12: …``. A file with
    several faults gives them all, one a line.
    """


class UnknownNameError(CatalogError):
    """A name stands in no catalog; the message offers the nearest names."""


class InfeasibleError(NetplanError):
    """The question is well-formed, but nothing satisfies it (for example: no plan fits)."""


class NoPlanError(InfeasibleError):
    """No parallel plan divides model and batch over exactly these GPUs."""


class NoRoomError(InfeasibleError):
    """No plan with the values that are given fits the memory; the message says what would."""

"""Every error that netplan raises on purpose: one root, one child for each kind of cause.

A message is one line that says what is wrong, what was given, what is allowed and what to do
next. The command line prints it on stderr and exits with code 2.
"""


def one_line(text: object) -> str:
    r"""Text of a user inside a message: line breaks and control signs become what is typed.

    Examples
    --------
    >>> print(one_line("my\ncatalog"))
    my\ncatalog
    """
    return repr(str(text))[1:-1]


class NetplanError(Exception):
    """Root of all errors that a user can mend."""


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

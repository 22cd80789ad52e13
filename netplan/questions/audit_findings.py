"""What an audit finds: one row a finding."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not add up.

    Parameters
    ----------
    what
        Kind of finding, in a few words.
    where
        File and line, and the design, device or port.
    got, expected
        What stands there, and what the rest of the file makes it.
    why
        How the expected value follows.
    """

    what: str
    where: str
    got: str
    expected: str
    why: str

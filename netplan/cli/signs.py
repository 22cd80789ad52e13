"""Signs of tables where an output cannot show them: an old code page, or plain ASCII.

What Windows redirects into a file has its code page, which lacks ``≥`` and the lines of tables. A
question mark for each would leave a bound looking like its opposite.
"""

import codecs
from unicodedata import normalize

PLAIN = {
    "≥": ">=", "≤": "<=", "≈": "~", "→": "->", "±": "+-", "\N{MULTIPLICATION SIGN}": "x",
    "µ": "u", "\N{EN DASH}": "-", "─": "-", "★": "*", "░": ".", "▒": ":", "▓": "%", "█": "#",
    **dict.fromkeys("▏▎▍▌", "."),
    **dict.fromkeys("▋▊▉", "#"),
}  # fmt: skip
"""What stands for a sign; each is as wide, or takes the space after it."""

NAME = "netplan.signs"


def plain_sign(error: UnicodeError) -> tuple[str, int]:
    """What stands for the first sign that an encoding lacks, and where it goes on.

    Parameters
    ----------
    error
        What the encoder found.

    Raises
    ------
    UnicodeError
        If the fault is none of an encoder.

    Examples
    --------
    >>> "≥ 13.0 ± 2 ─ Zürich".encode("ascii", NAME)
    b'>=13.0 +-2 - Zurich'
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    sign, after = error.object[error.start], error.start + 1
    plain = PLAIN.get(sign) or normalize("NFKD", sign).encode("ascii", "ignore").decode() or "?"
    takes_space = len(plain) > 1 and error.object[after : after + 1] == " "
    return plain, after + takes_space


codecs.register_error(NAME, plain_sign)

"""Inputs of one run, as the command line gives them: ``gpus=1024`` or ``gpus=1024,2048``."""

from collections.abc import Sequence

from netplan.documents import read_scalar
from netplan.errors import InputError
from netplan.studies.points import Scalar


def parse_changes(texts: Sequence[str]) -> dict[str, Scalar | list[Scalar]]:
    """Read ``INPUT=VALUE`` and ``INPUT=VALUE,VALUE`` texts.

    Raises
    ------
    InputError
        If a text has another form.

    Examples
    --------
    >>> parse_changes(["gpus=1024,2048", "accelerator=b200"])
    {'gpus': [1024, 2048], 'accelerator': 'b200'}
    """
    found: dict[str, Scalar | list[Scalar]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        parts = [part.strip() for part in values.split(",")]
        if not (name.strip() and equals and all(parts)):
            raise InputError(
                f"--vary {text!r}: write INPUT=VALUE, or INPUT=VALUE,VALUE such as gpus=1024,2048"
            )
        scalars = [_scalar(part) for part in parts]
        found[name.strip()] = scalars if len(scalars) > 1 else scalars[0]
    return found


def _scalar(text: str) -> Scalar:
    value = read_scalar(text)
    return value if isinstance(value, (bool, int, float)) else text

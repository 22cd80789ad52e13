"""Values replaced for one run: ``accelerator.memory_bytes=96e9``."""

from collections.abc import Mapping, Sequence

from netplan.catalog import unknown_name
from netplan.errors import InputError


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
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        role, dot, field = key.strip().partition(".")
        if not (equals and dot and role and field and value.strip()):
            raise InputError(
                f"--set {text!r}: write ROLE.KEY=VALUE, such as accelerator.memory_bytes=96e9"
            )
        found[key.strip()] = value.strip()
    return found


def check_overrides(
    overrides: Mapping[str, str], *, roles: Sequence[str], names: Sequence[str]
) -> None:
    """Refuse an override that would replace nothing.

    Raises
    ------
    UnknownNameError
        If its first part is neither a role nor the name of a record in use.
    """
    for key in overrides:
        role = key.partition(".")[0]
        if role not in roles and role not in names:
            raise unknown_name(f"--set {key}: record", role, (*roles, *names))

"""Node-name maps: which name a device has, by its GUID or by what it calls itself.

The form is that of ``--node-name-map`` of infiniband-diags and OpenSM, a line a node::

    # GUID               name
    0x0002c903000a1b2c   "leaf-0"
    node005              "host-4"

In place of the GUID (with or without ``0x``, or in pairs with colons) a line may begin with a
description, or with the name of a host or switch as built, in quotes if it has spaces.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from netplan.errors import CatalogError
from netplan.files import read_lines

MAX_NAMES = 1_000_000
NAME = r"[^\"\x00-\x1f\x7f]{1,200}"
LINE = re.compile(
    rf'(?:"({NAME})"|([^\s"#]{{1,200}}))[\s,=]+(?:"({NAME})"|([^\s"#]{{1,200}}))\s*(?:#.*)?'
)
GUID = re.compile(r"(?:[SHR]-)?(?:0x)?([0-9a-fA-F]{1,16})")
PAIRS = re.compile(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){7}")


def guid_of(text: str) -> str:
    """GUID in one form, 16 digits; empty where a text is none.

    Examples
    --------
    >>> guid_of("0x2c903000a1b2c"), guid_of("00:02:c9:03:00:0a:1b:2c"), guid_of("node005")
    ('0002c903000a1b2c', '0002c903000a1b2c', '')
    """
    if PAIRS.fullmatch(text):
        return text.replace(":", "").lower()
    found = GUID.fullmatch(text)
    return found[1].lower().zfill(16) if found else ""


def read_node_names(path: Path) -> Mapping[str, str]:
    """Names by GUID in one form (:func:`guid_of`), and by the text as it stands.

    Raises
    ------
    CatalogError
        If a line has no two fields, or names a device twice: file and line.
    """
    names: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, raw in enumerate(read_lines(path), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        found = LINE.fullmatch(line)
        if not found:
            raise CatalogError(f'{path}:{number}: expected a GUID and a name: 0x2c9030045 "leaf-0"')
        text, name = found[1] or found[2], (found[3] or found[4]).strip()
        if text in lines:
            raise CatalogError(f"{path}:{number}: {text[:60]} stands on line {lines[text]} already")
        if len(lines) >= MAX_NAMES:
            raise CatalogError(f"{path}:{number}: more than {MAX_NAMES:,} names")
        lines[text] = number
        names[text] = name
        if guid := guid_of(text):
            names.setdefault(guid, name)
    if not names:
        raise CatalogError(f'{path}:1: no names: give lines such as 0x2c9030045 "leaf-0"')
    return names

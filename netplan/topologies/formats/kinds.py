"""Which kind a file of cables is, told by what it holds; its name counts where that says nothing.

Files come with any name: pasted into ``.txt``, saved as ``.log``, without an ending at all.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from netplan.errors import CatalogError
from netplan.files import reachable, read_bounded

GRAPHML, CSV, XLSX, TOPO, SUBNET = ".graphml", ".csv", ".xlsx", ".topo", ".ibnetdiscover"
KINDS = (GRAPHML, CSV, XLSX, TOPO, SUBNET)

ZIP = b"PK\x03\x04"
NODE = re.compile(r"\s*(?:Switch|Ca|CA|Hca|HCA|Rt|Router)\s+\d+\s+\"")
PANEL = re.compile(r"\s+(?:[\w-]+/)*P\d+\s+(?:-\S+)?->\s")
CELLS = 3
"""Fields that the header of a table has at least [1]."""


def kind_of(path: Path) -> str:
    r"""Kind of a file, as the ending that it should have; empty where nothing tells.

    Raises
    ------
    CatalogError
        If the file cannot be read, or is a pipe or a device: it is read again later.

    Examples
    --------
    >>> import tempfile
    >>> pasted = Path(tempfile.mkdtemp()) / "session.txt"
    >>> _ = pasted.write_text('root@node1:~# ibnetdiscover\nSwitch\t64 "S-0a"\n')
    >>> kind_of(pasted)
    '.ibnetdiscover'
    """
    with suppress(OSError, ValueError):  # reading says what is wrong with it
        mode = reachable(path).stat().st_mode
        if not (S_ISREG(mode) or S_ISDIR(mode)):
            raise CatalogError(f"{path}: no regular file: write what it gives into a file first")
    content = read_bounded(path)
    ending = path.suffix.lower() if path.suffix.lower() in KINDS else ""
    if content.startswith(ZIP):
        return XLSX
    return _kind_of_text(content.decode("utf-8-sig", "replace").split("\n")) or ending


def _kind_of_text(lines: Sequence[str]) -> str:
    """Kind of a text by its lines."""
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith("<"):
        return GRAPHML
    for line in lines:
        if NODE.match(line):
            return SUBNET
        if PANEL.match(line):
            return TOPO
    fields = first.split(",")
    numbers = [text for text in fields if text.strip().replace(".", "", 1).isdigit()]
    return CSV if len(fields) >= CELLS and not numbers else ""

"""``netplan doctor``: what is installed, which optional parts are there, are catalogs sound."""

import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import ClassVar, Literal

from msgspec import Struct

from netplan.catalog import shipped_date, shipped_root
from netplan.questions.shelves import CatalogCheck, CheckRecords
from netplan.reports.answer import Answer
from netplan.reports.screen import Screen, more_of
from netplan.reports.sections import Heading, Paragraph, Section, Table, column, columns
from netplan.setup.asking import function_of
from netplan.setup.question import Question
from netplan.studies import definition as _definition  # noqa: F401 - makes the shelf of studies
from netplan.version import __version__

State = Literal["found", "missing", "not there"]
EXIT_UNSOUND = 2
CORE = {
    "click": "command line",
    "jinja2": "pages",
    "msgspec": "records and files",
    "networkx": "graphs for other tools",
    "numpy": "every count and time",
    "pandas": "tables in Python",
    "pyyaml": "catalog files",
    "rich": "tables on terminals",
    "scipy": "cuts, flows and programs",
    "xlsxwriter": "spreadsheets",
}
"""Distributions without which netplan is not whole, and what they are for."""
EXTRAS = {
    "distributed": ("studies on a Dask cluster", "cluster"),
    "plotly": ("plots in notebooks", "plots"),
    "marimo": ("the what-if page", "explore"),
    "mcp": ("tools for agents", "mcp"),
}
"""Distributions of the extras, what they are for, and the extra of each."""
TOOLS = {
    "opensm": ("routes a planned fabric", "opensm"),
    "ibsim": ("simulates one for it", "ibsim-utils"),
    "ibnetdiscover": ("finds what is cabled", "infiniband-diags"),
    "dot": ("draws DOT files of export", "graphviz"),
    "chromium": ("prints pages", "chromium"),
}
"""Programs that netplan works with, what for, and Debian's package of each."""


class PartFound(Struct, frozen=True):
    """One thing that netplan needs or can use: which, how new, whether it is there, what for.

    ``version`` of a program is its path; ``get`` says how to install what is optional.
    """

    kind: str
    name: str
    version: str
    state: State
    purpose: str
    get: str = ""

    @property
    def release(self) -> str:
        """Its version; nothing for a program, whose path is long and in the JSON."""
        return "" if self.kind == "program" else self.version


@dataclass(frozen=True, slots=True, repr=False)
class Diagnosis(Answer):
    """The answer of ``netplan doctor``."""

    json_parts = "sound", "catalog_date", "catalog_folder", "parts", "catalogs"

    inputs: dict[str, object]
    parts: tuple[PartFound, ...]
    catalogs: CatalogCheck
    catalog_date: str
    catalog_folder: str

    @property
    def exit_code(self) -> int:
        """2 if something is missing that netplan needs, or a catalog file is not sound."""
        missing = any(part.state == "missing" for part in self.parts)
        return EXIT_UNSOUND if missing or self.catalogs.faults else 0

    @property
    def sound(self) -> bool:
        """Whether netplan is whole."""
        return not self.exit_code

    def summary(self) -> Iterator[Section]:
        """Whether netplan is whole, what is not there, and how to get it."""
        absent = [part for part in self.parts if part.state != "found"]
        missing = [part.name for part in absent if part.state == "missing"]
        count, sound = len(self.catalogs.checks), len(self.catalogs.checks)
        sound -= len(self.catalogs.faults)
        whole = f"Missing: {', '.join(missing)}" if missing else "All that netplan needs is there"
        shown = [column("not_there", "name"), *columns("purpose"), column("to_get", "get")]
        yield from Screen(
            self._heading,
            (f"{whole}; {sound} of {count} catalog files are sound.",),
            Table("absent", shown, absent),
            (
                *(str(fault.error) for fault in self.catalogs.faults),
                f"In {Path(__file__).parent.parent}, catalogs in {self.catalog_folder}.",
            ),
            more_of("every part and its version", page=False),
        ).sections()

    @property
    def _heading(self) -> Heading:
        """Versions."""
        python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
        return Heading(f"netplan {__version__}, catalogs of {self.catalog_date}; {python}")

    def sections(self) -> Iterator[Section]:
        """What is there, and what is said of the catalogs."""
        yield self._heading
        yield Paragraph(f"In {Path(__file__).parent.parent}, catalogs in {self.catalog_folder}.")
        shown = [*columns("part_kind=kind", "name", "version=release", "state", "purpose")]
        yield Table("parts", shown, self.parts)
        yield from self.catalogs.sections()
        for fault in self.catalogs.faults:
            yield Paragraph(str(fault.error))
        missing = [part.name for part in self.parts if part.state == "missing"]
        if missing:
            yield Paragraph(f"Missing: {', '.join(missing)}. Install netplan again.")
        absent_ = [f"{part.name}: {part.get}" for part in self.parts if part.state == "not there"]
        if absent_:
            yield Paragraph("To get what is not there:")
            yield from (Paragraph(part) for part in absent_)


@dataclass(frozen=True, kw_only=True)
class Doctor(Question[Diagnosis]):
    """Whether netplan is whole here: versions, optional parts that are there, the catalogs.

    What is missing of the optional parts is said with what it is for; only a part that netplan
    needs, or a faulty catalog file, makes the exit code 2.
    """

    command: ClassVar[str] = "doctor"
    examples: ClassVar[tuple[str, ...]] = ("netplan doctor", "netplan doctor --format json")
    reads_from: ClassVar[frozenset[str]] = frozenset({"catalog"})

    def ask(self) -> Diagnosis:
        """Look for every part, and check every catalog file."""
        parts: tuple[PartFound, ...] = (
            *(_distribution("needed", name, why) for name, why in CORE.items()),
            *(
                _distribution("extra", name, why, f"pip install 'netplan-toolkit[{extra}]'")
                for name, (why, extra) in EXTRAS.items()
            ),
        )
        for name, (why, package) in TOOLS.items():
            # On the path, or where systems keep those of administrators.
            path = shutil.which(name)
            if sys.platform != "win32":
                path = path or shutil.which(name, path="/usr/sbin:/sbin")
            state: State = "found" if path else "not there"
            get = f"apt install {package}"
            parts += (PartFound("program", name, path or "", state, why, get),)
        checks = CheckRecords(catalog=self.catalog).ask()
        return Diagnosis(self.inputs(), parts, checks, shipped_date(), str(shipped_root()))


doctor = function_of(Doctor)


def _distribution(
    kind: Literal["needed", "extra"], name: str, purpose: str, get: str = ""
) -> PartFound:
    """A distribution as it is installed here."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        state: State = "missing" if kind == "needed" else "not there"
        return PartFound(kind, name, "", state, purpose, get)
    return PartFound(kind, name, version, "found", purpose, get)

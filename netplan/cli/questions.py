"""Commands that are questions: where the class of each is, and files that it writes beside."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import click

from netplan import QUESTIONS
from netplan.cli.commands import PATH, Beside, PathName, command_of
from netplan.cli.output import emit, emit_answer, emit_lines, form_of, say, say_file
from netplan.errors import InputError
from netplan.files import write_atomically
from netplan.reports.answer import FORMATS, Answer
from netplan.setup.asking import question_class
from netplan.units import counted

NO_COMMANDS = ("procurement", "rail-only-figures")
QUESTION_COMMANDS = tuple(name for name in QUESTIONS if name not in NO_COMMANDS)
"""Questions that are a command, or a tool, as they are."""


def make_command(name: str) -> click.Command:
    """The command of a question, with what it writes beside its answer."""
    return command_of(question_class(name), outputs=OUTPUTS.get(name, ()), **FACTS.get(name, {}))


def _trees(answer: Any, path: Path) -> list[bytes]:  # noqa: ANN401 - of a collective, or an optimum
    if not hasattr(answer, "xml"):
        raise InputError(f"--xml {path}: trees are packed on a graph: give one with --graph")
    return [line.encode() for line in answer.xml()]


def _cable_plans(answer: Any, folder: Path) -> None:  # noqa: ANN401 - of growth
    """Write the cable plans of all phases, and of what each lays."""
    from netplan.questions.cables import sheet_csv

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--plans {folder}: {error.strerror}: give a folder") from None
    for number, grown in enumerate(answer.grown, start=1):
        # Names of fabrics come from files of users.
        fabric = re.sub(r"[^A-Za-z0-9_-]", "-", grown.name)[:60]
        for name, sheet in grown.plans():
            path = folder / f"{number}-{fabric}-{name}.csv"
            write_atomically(path, "".join(sheet_csv(sheet)).encode())
            say(f"wrote {path}")


def _request(answer: Answer, path: Path) -> bytes:
    """The request for suppliers."""
    from netplan.procurement.offers_answer import Requested

    if not isinstance(answer, Requested):
        raise InputError("--template writes a request: give --gpus and --fabric, and no files")
    if path.suffix.lower() != ".xlsx":
        raise InputError(f"--template {path}: it is a spreadsheet: name it .xlsx")
    return answer.xlsx()


def _cables(answer: Any, format_: str, path: Path | None) -> None:  # noqa: ANN401 - one of three
    """A plan is a file for other tools: CSV, or a spreadsheet by the ending of its name."""
    from netplan.questions.cables import CableSheet, check_ending, sheet_csv

    if hasattr(answer, "lines") and not format_:
        emit_lines(answer.lines(), path)
    elif format_ or not isinstance(answer, CableSheet):
        emit_answer(answer, format_ or form_of(None, path, FORMATS), path)
    elif path is not None and check_ending(path) == ".xlsx":
        write_atomically(path, answer.xlsx())
    else:
        emit_lines(sheet_csv(answer.sheet()), path)


def _fitted(answer: Any, format_: str, path: Path | None) -> None:  # noqa: ANN401 - of calibrate
    """Write the catalog files where they were asked for, then the answer."""
    if click.get_current_context().params["into"] is None:
        say(f"nothing is written: --into DIR writes {counted(len(answer.files), 'file')}")
    emit_answer(answer, format_, path)


def _table_to_fill(given: Mapping[str, Any]) -> bool:
    """Print a table to fill in, where one is asked for."""
    from netplan.questions.calibrate import TEMPLATES

    if given["template"] is None:
        return False
    if given["format_"] not in (None, "csv"):
        raise InputError(f"--format {given['format_']}: --template prints CSV: leave it out")
    emit(TEMPLATES[given["template"]], given["output_file"])
    say_file(given["output_file"])
    return True


def _with_a_search(given: Mapping[str, Any]) -> bool:
    """Refuse a folder for graphs that nobody searches."""
    if given["into"] is not None and given["searched"] != "graphs":
        raise InputError("--into DIR takes graphs that were found: ask with --search graphs")
    return False


def page_in_a_file(answer: Answer, format_: str, path: Path | None) -> None:
    """Print an answer, or write it to a file; pages are megabytes."""
    if format_ == "html" and path is None and sys.stdout.isatty():
        raise InputError("a page is no text for a terminal: say where it goes with -o FILE")
    emit_answer(answer, format_, path)


FORCE = click.Option(["--force"], is_flag=True, help="Replace files that are there.")


def _folder(text: str, files_of: Callable[[Any], Any], name: str = "into") -> Beside:
    """A folder to write files of an answer into, if it has any."""

    def write(answer: Any, folder: Path) -> None:  # noqa: ANN401 - of several questions
        files = files_of(answer)
        if files is not None:
            for file in files.write(folder, force=click.get_current_context().params["force"]):
                say(f"wrote {file}")

    return _place(name, text, write)


def _place(name: str, text: str, write: Callable[[Any, Path], None]) -> Beside:
    """A folder to write into beside the answer."""
    folder = PathName(path_type=Path, file_okay=False)
    return click.Option([f"--{name}"], type=folder, metavar="DIR", help=text), write


def _file(
    name: str, text: str, make: Callable[[Any, Path], Any], metavar: str | None = None
) -> Beside:
    """A file to write beside the answer, its option and what is in it."""
    return click.Option([f"--{name}"], type=PATH, metavar=metavar or None, help=text), make


OUTPUTS: Mapping[str, Sequence[Beside]] = {
    "calibrate": (_folder("Write the files into this catalog folder.", lambda answer: answer),),
    "collective": (
        _file(
            "xml",
            "With --graph: write the trees that take the optimum there, as an MSCCL program.",
            _trees,
            "FILE",
        ),
    ),
    "grow": (
        _place(
            "plans",
            "Write the cable plans of all phases there, and of what each lays: as netplan cables.",
            _cable_plans,
        ),
    ),
    "offers": (
        _file(
            "template",
            "Write the request as a spreadsheet (.xlsx) for suppliers to fill in.",
            _request,
            "FILE",
        ),
    ),
    "optimize": (
        _folder("Write graphs of the front into this catalog folder.", attrgetter("graphs")),
    ),
    "procurement": (
        _file("xlsx", "Write the spreadsheet here, too.", lambda answer, _: answer.xlsx()),
    ),
    "serving": (
        _folder(
            "Write launch commands of the best plan for vLLM into this folder.",
            lambda answer: answer,
            "write",
        ),
    ),
    "simulate": (
        _file(
            "timeline",
            "Write a page with the stages by time here, too.",
            lambda answer, _: answer.html().encode(),
            "FILE.html",
        ),
        _file(
            "trace",
            "Write a Chrome trace here, too, which Perfetto opens.",
            lambda answer, _: answer.trace().encode(),
            "FILE.json",
        ),
    ),
    "traffic": (
        _file(
            "save",
            "Save the matrix: .npz, or .csv of flows.",
            lambda answer, path: answer.save(path),
        ),
        _file(
            "heat-map",
            "Write the heat map as an HTML page.",
            lambda answer, _: answer.heat_page().encode(),
        ),
    ),
}
"""Files that commands write beside the answer."""

FACTS: Mapping[str, Mapping[str, Any]] = {
    "cables": {"unsaid": "csv or, as FILE ends, xlsx; table with --compare", "show": _cables},
    "calibrate": {
        "extra": (
            FORCE,
            click.Option(
                ["--template"],
                type=click.Choice(["gemm", "steps"]),
                help="Print a table to fill in.",
            ),
        ),
        "before": _table_to_fill,
        "show": _fitted,
    },
    "diff": {"scenario_first": True},
    "draw": {"formats": ("svg", "html", "table", "json", "csv", "markdown")},
    "export": {"formats": (), "show": lambda answer, _, path: emit_lines(answer.lines(), path)},
    "optimize": {"extra": (FORCE,), "before": _with_a_search},
    "procurement": {
        "formats": ("html", "json", "table", "csv", "markdown", "xlsx"),
        "show": page_in_a_file,
    },
    "serving": {"extra": (FORCE,)},
}
"""What else commands have beyond their questions: forms, further options, how it is shown."""

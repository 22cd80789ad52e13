"""``netplan cables``."""

from pathlib import Path

from netplan.cli.commands import command_of
from netplan.cli.output import emit_answer, emit_lines, form_of
from netplan.files import write_atomically
from netplan.questions.cables import Cables, CableSheet, check_ending, sheet_csv
from netplan.questions.export import GraphFile
from netplan.reports.answer import FORMATS, Answer


def _write(answer: Answer, format_: str, path: Path | None) -> None:
    """A plan is a file for other tools: CSV, or a spreadsheet by the ending of its name."""
    if isinstance(answer, GraphFile) and not format_:
        emit_lines(answer.lines(), path)
    elif format_ or not isinstance(answer, CableSheet):
        emit_answer(answer, format_ or form_of(None, path, FORMATS), path)
    elif path is not None and check_ending(path) == ".xlsx":
        write_atomically(path, answer.xlsx())
    else:
        emit_lines(sheet_csv(answer.sheet()), path)


UNSAID = "csv or, as FILE ends, xlsx; table with --compare"
command = command_of(Cables, unsaid=UNSAID, show=_write)

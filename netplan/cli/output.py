"""Where answers go: stdout, or a file that is complete or not there at all."""

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netplan.errors import InputError
from netplan.files import write_atomically

if TYPE_CHECKING:
    from netplan.reports.answer import Answer

PLAIN_WIDTH = 80


def emit(text: str, path: Path | None) -> None:
    """Print an answer, or write it to a file.

    Raises
    ------
    InputError
        If the file cannot be written; an older file of that name stays as it was.
    """
    if path is None:
        click.echo(text, nl=False)
    else:
        write_atomically(path, text.encode())


def emit_answer(answer: "Answer", format_: str, path: Path | None) -> None:
    """Print an answer in one of its forms, or write it to a file.

    Raises
    ------
    InputError
        If a spreadsheet has no file to go to, or the file cannot be written.
    """
    if format_ == "xlsx":
        if path is None:
            raise InputError("--format xlsx is not text: say where it goes with -o FILE")
        write_atomically(path, answer.xlsx())
    elif format_ == "table":
        width, colour = terminal_width(path)
        emit(answer.text(width, colour=colour), path)
    else:
        emit(getattr(answer, format_)(), path)


def emit_lines(lines: Iterable[str], path: Path | None) -> None:
    """Print lines as they are made, or write them to a file; errors as :func:`emit`."""
    if path is None:
        for line in lines:
            click.echo(line, nl=not line.endswith("\n"))
    else:
        ended = (line if line.endswith("\n") else line + "\n" for line in lines)
        write_atomically(path, (line.encode() for line in ended))


def terminal_width(path: Path | None) -> tuple[int, bool]:
    """Columns for a table, and whether colours may be used."""
    live = path is None and sys.stdout.isatty()
    if live:
        return shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns, "NO_COLOR" not in os.environ
    columns = os.environ.get("COLUMNS", "")
    return (int(columns) if columns.isdigit() and int(columns) else PLAIN_WIDTH), False

"""Where answers go: stdout, or a file that is complete or not there at all."""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netplan.errors import InputError, one_line
from netplan.files import check_place, write_atomically
from netplan.reports.escape import strip_control

if TYPE_CHECKING:
    from netplan.reports.answer import Answer

PLAIN_WIDTH = 80
NO_TEXT = "--format xlsx is not text: say where it goes with -o FILE"

FORM_OF_ENDING = {
    ".txt": "table",
    ".json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".html": "html",
    ".svg": "svg",
    ".xlsx": "xlsx",
    ".yaml": "yaml",
}
"""Forms of answers, by the ending of a file that has one."""


def say(text: str) -> None:
    """Say something on stderr, in as many lines as it has."""
    click.echo("\n".join(map(one_line, text.split("\n"))), err=True)


def form_of(asked: str | None, path: Path | None, forms: Sequence[str]) -> str:
    """Form of an answer: the one that is asked for, else that of its file's name, else the first.

    Where both are given and differ, the one asked for holds; :func:`say_form` says so once it is
    written.

    Raises
    ------
    InputError
        If no form is asked for, and none of those there are ends like the file.

    Examples
    --------
    >>> form_of(None, Path("bill.xlsx"), ("table", "xlsx")), form_of(None, None, ("table", "xlsx"))
    ('xlsx', 'table')
    """
    if asked:
        return asked
    ending = path.suffix.lower() if path else ""
    meant = FORM_OF_ENDING.get(ending)
    if not ending:
        return forms[0]
    if meant is None or meant not in forms:
        known = ", ".join(end for end, form in FORM_OF_ENDING.items() if form in forms)
        raise InputError(
            f"-o {path}: no form of this answer ends with {ending}: use {known}, or say --format"
        )
    return meant


def say_form(form: str, path: Path | None) -> None:
    """Say on stderr that a file holds another form than its name says, if it does."""
    meant = FORM_OF_ENDING.get(path.suffix.lower()) if path else None
    if meant not in (None, form):
        say(f"{path}: holds {form}, as --format says, though its name says {meant}")


def say_written(answer: "Answer", path: Path | None, others: Iterable[Path] = ()) -> None:
    """Say on stderr what was written: the answer with its verdict in a line, and files beside it.

    Such as ``wrote report.html: order rail-only, 27.6 M USD; bill.xlsx``.
    """
    written = []
    if path is not None and not path.is_char_device():
        verdict = answer.in_a_line()
        written.append(f"{path}: {verdict}" if verdict else f"{path}")
    written += [f"{other}" for other in others if not other.is_char_device()]
    if written:
        say(f"wrote {'; '.join(written)}")


def say_file(path: Path | None) -> None:
    """Say on stderr that a file was written which has no verdict, if there is one."""
    if path is not None and not path.is_char_device():
        say(f"wrote {path}")


def emit(text: str, path: Path | None) -> None:
    """Print an answer, or write it to a file, as the same bytes: UTF-8, whatever surrounds.

    Raises
    ------
    InputError
        If the file cannot be written; an older file of that name stays as it was.
    """
    content = text.encode(errors="replace")
    if path is None:
        click.echo(content, nl=False)
    else:
        write_atomically(path, content)


def emit_answer(answer: "Answer", format_: str, path: Path | None) -> None:
    """Print an answer in one of its forms, or write it to a file.

    Raises
    ------
    InputError
        If a spreadsheet has no file to go to, or the file cannot be written.
    """
    if format_ == "xlsx":
        if path is None:
            raise InputError(NO_TEXT)
        write_atomically(path, answer.xlsx())
    elif format_ == "table":
        width, colour = terminal_width(path)
        context = click.get_current_context(silent=True)
        details = bool(context and context.params.get("details"))
        text = answer.text(width, colour=colour, details=details)
        if path is None:
            click.echo(text, nl=False)  # for people: in the signs that their terminal has
        else:
            emit(text, path)
    else:
        emit(getattr(answer, format_)(), path)


def require_places(form: str, **files: Path | None) -> None:
    """Refuse files that cannot be written before a question is asked, which may take long.

    Parameters
    ----------
    form
        Form of the answer.
    files
        Files by the names of their options; ``output_file`` is that of the answer.

    Raises
    ------
    InputError
        If a file cannot be there, two options name one, or a spreadsheet has none to go to.
    """
    if form == "xlsx" and files["output_file"] is None:
        raise InputError(NO_TEXT)
    flags: dict[str, str] = {}
    for name, path in files.items():
        if path is not None:
            check_place(path)
            flag = f"--{name.replace('_', '-')}"
            other = flags.setdefault(os.path.realpath(path), flag)
            if other != flag and not path.is_char_device():
                raise InputError(f"{other} and {flag} are both {path}: give two files")


def emit_lines(lines: Iterable[str], path: Path | None) -> None:
    """Print lines as they are made, or write them to a file; errors as :func:`emit`."""
    if path is None:
        for line in lines:
            click.echo(line_of_file(line).encode(errors="replace"))
    else:
        ended = (line if line.endswith("\n") else line + "\n" for line in lines)
        write_atomically(path, (line.encode(errors="replace") for line in ended))


def line_of_file(line: str) -> str:
    r"""A line of another tool's file as a terminal may have it.

    Examples
    --------
    >>> line_of_file("leaf-0\t1\n"), line_of_file("leaf\x9b2J") == "leaf\ufffd2J"
    ('leaf-0\t1', True)
    """
    text = line.removesuffix("\n")
    return text if text.isprintable() else "\t".join(map(strip_control, text.split("\t")))


def terminal_width(path: Path | None) -> tuple[int, bool]:
    """Columns for a table, and whether colours may be used."""
    live = path is None and sys.stdout.isatty()
    if live:
        import shutil

        return shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns, "NO_COLOR" not in os.environ
    columns = os.environ.get("COLUMNS", "")
    return (int(columns) if columns.isdigit() and int(columns) else PLAIN_WIDTH), False

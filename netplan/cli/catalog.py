"""``netplan catalog``: what the catalogs hold, and whether a file is sound."""

from pathlib import Path

import click

from netplan.catalog import user_roots
from netplan.cli import output
from netplan.cli.commands import answer_options, command_of, sentence_of
from netplan.cli.completion import completer_of
from netplan.documents import folded_yaml
from netplan.files import write_atomically
from netplan.questions.shelves import CatalogCheck, CheckRecords, ListRecords, find_record
from netplan.questions.support import Support
from netplan.reports.answer import to_json
from netplan.studies import definition as _definition  # noqa: F401 - makes the shelf of studies

FORMS = ("yaml", "json")
"""Forms of one record: its file, or its validated content."""


def _show(name: str, format_: str | None, output_file: Path | None, catalog: str | None) -> None:
    """Show the record NAME, with its file; ROLE/NAME where a name stands on two shelves.

    The file as it is (yaml), or its validated content (json).
    """
    form = output.form_of(format_, output_file, FORMS)
    shelf, path = find_record(name, user_roots(catalog))
    if form == "json":
        output.emit(to_json(shelf.load(str(path)).to_dict()), output_file)
        output.say_form(form, output_file)
        output.say_file(output_file)
        return
    if output_file is None:
        width, _ = output.terminal_width(None)
        output.emit_lines(folded_yaml(path, width).splitlines(), None)
    else:
        write_atomically(output_file, path.read_bytes())
    output.say(f"{shelf.role}: {path}")
    output.say_form(form, output_file)
    output.say_file(output_file)


def _check(answer: CatalogCheck, format_: str, path: Path | None) -> None:
    """Every fault on stderr, the rest as it is asked for."""
    for fault in answer.faults:
        output.say(str(fault.error))
    output.emit_answer(answer, format_, path)


SHOW = click.Command(
    "show",
    callback=_show,
    params=[
        click.Argument(["name"], shell_complete=completer_of("name")),
        *answer_options(FORMS)[:2],  # a record has no details
        click.Option(["--catalog"], metavar="DIR", help="Your own catalog folder."),
    ],
    help=_show.__doc__,
    short_help=sentence_of(_show.__doc__),
)

command = click.Group(
    "catalog",
    commands=[
        command_of(ListRecords),
        SHOW,
        command_of(CheckRecords, show=_check),
        command_of(Support),
    ],
    help="List, show and check catalog files, and what is answered with them.",
)

"""``netplan grow``: the answer, and the cable plans of all phases."""

import re
from pathlib import Path

import click

from netplan.cli.commands import PathName, command_of
from netplan.cli.output import emit_answer
from netplan.errors import InputError
from netplan.files import write_atomically
from netplan.questions.answers.grow_answer import GrowthAnswer
from netplan.questions.cables import sheet_csv
from netplan.questions.grow import Grow

PLANS = click.Option(
    ["--plans"],
    type=PathName(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write the cable plans of all phases there, and of what each lays: as netplan cables.",
)


def _write(answer: GrowthAnswer, format_: str, output: Path | None) -> None:
    """Write the cable plans, if they are wanted, then the answer."""
    folder: Path | None = click.get_current_context().params["plans"]
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--plans {folder}: {error.strerror}: give a folder") from None
        for number, one in enumerate(answer.grown, start=1):
            # Names of fabrics come from files of users.
            fabric = re.sub(r"[^A-Za-z0-9_-]", "-", one.name)[:60]
            for name, sheet in one.plans():
                path = folder / f"{number}-{fabric}-{name}.csv"
                write_atomically(path, "".join(sheet_csv(sheet)).encode())
    emit_answer(answer, format_, output)


command = command_of(Grow, extra=(PLANS,), show=_write)

"""``netplan simulate``."""

from pathlib import Path

import click

from netplan.cli.commands import PATH, command_of
from netplan.cli.output import emit_answer
from netplan.files import write_atomically
from netplan.questions.answers.simulate_answer import SimulateAnswer
from netplan.questions.simulate import Simulate

EXTRA = tuple(
    click.Option([f"--{name}"], type=PATH, metavar=metavar, help=said)
    for name, metavar, said in (
        ("timeline", "FILE.html", "Write a page with the stages by time here, too."),
        ("trace", "FILE.json", "Write a Chrome trace here, too, which Perfetto opens."),
    )
)


def _write(answer: SimulateAnswer, format_: str, output: Path | None) -> None:
    """Write the files beside the answer, then the answer; all are made before one is written."""
    asked = click.get_current_context().params
    made = {"timeline": answer.html, "trace": answer.trace}
    files = [(asked[name], make().encode()) for name, make in made.items() if asked[name]]
    for path, content in files:
        write_atomically(path, content)
    emit_answer(answer, format_, output)


command = command_of(Simulate, extra=EXTRA, show=_write)

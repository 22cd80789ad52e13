"""Running the command line as a user does: in this process, or in one of its own.

In this process a command starts at once. A process of its own is for what only a process has:
its start, its pipes, its signals.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TextIO

from netplan.cli.main import run

# What works for more than two seconds says so, which a busy machine makes of any command.
SIGN_OF_LIFE = re.compile(r"^working, \d+ s\n", re.MULTILINE)


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


@contextmanager
def surroundings(cwd: Path | None, environment: Mapping[str, str]) -> Iterator[None]:
    """Another folder and other variables for a while."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        with chdir(cwd or "."):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class Pipe(TextIOWrapper):
    """A stream into memory, as a process writes into a pipe."""

    def __init__(self) -> None:
        self.bytes = BytesIO()
        super().__init__(self.bytes, encoding="utf-8")

    def text(self) -> str:
        """All that was written."""
        self.flush()
        return self.bytes.getvalue().decode()


@contextmanager
def streams() -> Iterator[tuple[Pipe, Pipe]]:
    """Stdout and stderr of their own for a while."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = pipes = Pipe(), Pipe()
    try:
        yield pipes
    finally:
        sys.stdout, sys.stderr = before


def variables(columns: int, **more: str) -> dict[str, str]:
    """Those of this process with a fixed width, the shipped catalog and no colours asked for."""
    kept = {key: value for key, value in os.environ.items() if key != "NETPLAN_CATALOG"}
    return kept | {"COLUMNS": str(columns)} | more


def netplan(*arguments: str, columns: int = 80, cwd: Path | None = None) -> Done:
    """Run ``netplan`` with these arguments and a fixed width, in this process."""
    with surroundings(cwd, variables(columns)), streams() as (out, error):
        code = run(arguments)
    return Done(code, out.text(), error.text())


def netplan_into(stdout: TextIO, *arguments: str) -> tuple[int, str]:
    """Run ``netplan`` in this process into a stream: its exit code, and its words on stderr."""
    with surroundings(None, variables(80)), streams() as (_, error), redirect_stdout(stdout):
        code = run(arguments)
    return code, error.text()


def netplan_process(
    *arguments: str, cwd: Path | None = None, stdin: str | None = None, **environment: str
) -> Done:
    """Run ``python -m netplan`` with these arguments, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "netplan", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        input=stdin,
        env=variables(80, **environment),
    )
    return Done(done.returncode, done.stdout, SIGN_OF_LIFE.sub("", done.stderr))


def without(words: Sequence[str], option: str) -> list[str]:
    """Words of a command without an option and its value."""
    at = words.index(option) if option in words else len(words)
    return [*words[:at], *words[at + 2 :]]


def replaced(words: Sequence[str], others: Sequence[str]) -> list[str]:
    """Words of a command with other options, which stand in place of its own."""
    left = list(words)
    for word in others:
        left = without(left, word) if word.startswith("--") else left
    return [*left, *others]


def refused(*arguments: str, cwd: Path | None = None) -> str:
    """Run a wrong command: exit code 2, nothing on stdout; the line on stderr."""
    done = netplan(*arguments, cwd=cwd)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("netplan: ")
    return done.stderr

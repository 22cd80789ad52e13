"""What only a process has: its start, exit code, pipes, terminal and signals.

All other tests of the command line run in the process of the tests (``tests/cli/command.py``).
"""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from netplan.cli import main as commands
from tests.cli.command import netplan, netplan_process, variables

SMALL = ("compare", "rail-only-paper", "--gpus", "1024", "--radix", "64", "--no-timing")
LONG = (
    "export",
    "rail-only-paper",
    "--fabric",
    "rail-only",
    "--gpus",
    "16384",
    "--radix",
    "64",
    "--to",
    "edges",
)  # more than a pipe holds


def python(
    script: str, *arguments: str, cwd: Path | None = None, main: str = "main()"
) -> "subprocess.CompletedProcess[str]":
    """Run a script that does something to the process and then runs the command line."""
    return subprocess.run(
        [sys.executable, "-c", f"{script}\nfrom netplan.cli.main import main\n{main}", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=variables(80, PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
    )


def test_a_process_answers_as_the_tests_do() -> None:
    arguments = ("compare", "rail-only-paper", "--gpus", "32768", "--radix", "128")
    assert netplan_process(*arguments) == netplan(*arguments)


def test_the_installed_command() -> None:
    installed = Path(sys.executable).with_name("netplan")
    done = subprocess.run([installed, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("netplan, version ")


def test_a_comparison_loads_nothing_that_it_does_not_need() -> None:
    needless = {
        *("pandas", "networkx", "scipy", "plotly", "jinja2", "openpyxl", "xlsxwriter"),
        *("dask", "distributed", "sqlite3"),
        *("netplan.studies", "netplan.published", "netplan.simulation"),
    }
    script = "import sys\nfrom netplan.cli.main import run\nrun({})\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script.format(SMALL[:5])], capture_output=True, text=True, check=True
    )
    assert needless & set(done.stdout.splitlines()[-1].split()) == set()


def test_a_reader_who_leaves_is_no_failure() -> None:
    command = f"{sys.executable} -m netplan {' '.join(LONG)} | head -1"
    done = subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("source,source_kind,")
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (0, 1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux' /dev/full")
def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "netplan", *LONG],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, "netplan: stdout: No space left on device\n")


def test_an_old_file_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("precious")
    script = "import os, signal\nos.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)"
    done = python(script, *SMALL, "--format", "json", "-o", path.name, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGKILL, "", "")
    assert path.read_text() == "precious"
    # Only a kill that nobody can catch leaves what was begun, under another name.
    assert len(list(tmp_path.iterdir())) == 2


def test_a_sign_of_life_goes_to_stderr() -> None:
    done = python("", *SMALL, main="main(first_s=0.0)")
    assert (done.returncode, done.stderr) == (0, "working, 0 s\n")
    assert done.stdout == netplan(*SMALL).stdout


def test_a_terminal_gets_its_width_and_colours() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 132, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    started = subprocess.Popen(
        [sys.executable, "-m", "netplan", *SMALL],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=environment | {"TERM": "xterm-256color"},
    )
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 65_536):
            text += part
    except OSError:
        pass  # so Linux says that the other end is closed
    os.close(ours)
    assert started.wait() == 0
    coloured = text.decode().replace("\r\n", "\n")
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == netplan(*SMALL, columns=132).stdout


@pytest.mark.parametrize(
    ("streams", "code", "said"),
    [
        (">&-", 2, "netplan: stdout: Bad file descriptor"),
        (">&- 2>&-", 2, ""),
        ("2>&- > /dev/null", 0, ""),
        (">&- -o compare.txt", 0, "wrote compare.txt: order rail-only, 1.5 M USD"),
    ],
)
def test_an_answer_that_nobody_can_get_is_a_failure(
    tmp_path: Path, streams: str, code: int, said: str
) -> None:
    command = f"{sys.executable} -m netplan {' '.join(SMALL)} {streams}"
    done = subprocess.run(
        ["/bin/bash", "-c", command], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    lines = (line for line in done.stderr.splitlines() if not line.startswith("working"))
    assert (done.returncode, "\n".join(lines)) == (code, said)


@pytest.mark.parametrize(("signal_", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_a_signal_while_a_library_is_loaded_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, signal_: BaseException, code: int
) -> None:
    """Libraries of C++ make an ImportError of what a signal raises in them."""

    def loads(_: object) -> None:
        raise ImportError("initialization failed") from signal_

    monkeypatch.setattr(commands, "_call", loads)
    assert commands.run([]) == code


def test_a_library_that_is_missing_is_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def loads(_: object) -> None:
        raise ImportError("no such library")

    monkeypatch.setattr(commands, "_call", loads)
    with pytest.raises(ImportError, match="no such library"):
        commands.run([])

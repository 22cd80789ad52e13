"""What only a process has: its start, exit code, pipes, terminal and signals.

All other tests of the command line run in the process of the tests (``tests/cli/command.py``).
"""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.cli.command import netplan, netplan_process, variables, without

SMALL = ("compare", "--gpus", "1024", "--radix", "64", "--no-timing")
LONG = ("export", "--gpus", "16384", "--radix", "64", "--to", "edges")  # more than a pipe holds


def python(
    script: str, *arguments: str, cwd: Path | None = None, main: str = "main()"
) -> "subprocess.Popen[str]":
    """Start a script that does something to the process and then runs the command line."""
    return subprocess.Popen(
        [sys.executable, "-c", f"{script}\nfrom netplan.cli.main import main\n{main}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=variables(80, PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
    )


def test_a_process_answers_as_the_tests_do() -> None:
    arguments = ("compare", "--gpus", "32768", "--radix", "128")
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
        [sys.executable, "-c", script.format(SMALL[:5])],
        capture_output=True,
        text=True,
        check=True,
    )
    assert needless & set(done.stdout.splitlines()[-1].split()) == set()


def test_no_command_shows_the_help() -> None:
    done = netplan_process()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: netplan")


def test_wrong_input_ends_with_two() -> None:
    done = netplan_process(*without(SMALL, "--radix"), "--radix", "127")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("netplan: switch radix 127 cannot be used")
    assert done.stderr.count("\n") == 1


def test_findings_end_with_one(tmp_path: Path) -> None:
    path = tmp_path / "designs.csv"
    path.write_text("design,gpus,nodes\nbig pod,1000,128\n", encoding="utf-8")
    done = netplan_process("audit", str(path))
    assert done == netplan("audit", str(path))
    assert done.returncode == 1


def test_hashes_of_the_process_do_not_show() -> None:
    # Texts hash differently in every process; an answer must not go by the order of a set.
    questions = (
        ("compare", "--gpus", "1024", "--radix", "64", "--format", "json"),
        ("faults", "--gpus", "64", "--radix", "8", "--hb-size", "8", "--fail", "links=2"),
        ("export", "--gpus", "64", "--radix", "8", "--hb-size", "8", "--to", "dot"),
        ("cables", "--gpus", "64", "--radix", "8", "--hb-size", "8"),
        ("optimize", "--gpus", "256", "--fabric", "fat-tree", "--model", "gpt-22b"),
    )
    script = "from netplan.cli.main import run\n" + "".join(f"run({one!r})\n" for one in questions)
    answers = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=variables(80, PYTHONHASHSEED=seed),
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    (answer,) = answers
    assert len(answer) > 10_000


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


KILLED = "import os, signal\nos.replace = lambda *names: os.kill(os.getpid(), signal.{})"
LIMITED = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"


@pytest.mark.parametrize(
    ("script", "code", "left"),
    [
        (KILLED.format("SIGKILL"), -signal.SIGKILL, 2),
        (KILLED.format("SIGINT"), 130, 1),
        (LIMITED, 2, 1),
    ],
    ids=["killed", "interrupted", "disk full"],
)
def test_an_old_file_survives_whatever_ends_the_writing(
    tmp_path: Path, script: str, code: int, left: int
) -> None:
    path = tmp_path / "out.json"
    path.write_text("precious")
    started = python(script, *SMALL, "--format", "json", "-o", path.name, cwd=tmp_path)
    out, error = started.communicate()
    assert (started.returncode, out) == (code, ""), error
    assert "Traceback" not in error
    assert path.read_text() == "precious"
    # Only a kill that nobody can catch leaves what was begun, under another name.
    assert len(list(tmp_path.iterdir())) == left


def test_a_sign_of_life_goes_to_stderr() -> None:
    started = python("", *SMALL, main="main(first_s=0.0)")
    out, error = started.communicate()
    assert (started.returncode, error) == (0, "working, 0 s\n")
    assert out == netplan(*SMALL).stdout


@pytest.mark.parametrize("more", [{}, {"NO_COLOR": "1"}])
def test_a_terminal_gets_its_width_and_colours(more: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 132, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    started = subprocess.Popen(
        [sys.executable, "-m", "netplan", *SMALL],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=environment | {"TERM": "xterm-256color"} | more,
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
    if not more:
        assert b"\x1b[" in text
    else:
        assert text.decode().replace("\r\n", "\n") == netplan(*SMALL, columns=132).stdout


@pytest.mark.parametrize(
    ("closed", "code"), [(SMALL, 0), ((*without(SMALL, "--radix"), "--radix", "127"), 2)]
)
def test_closed_streams_are_no_failure(closed: tuple[str, ...], code: int) -> None:
    command = f"{sys.executable} -m netplan {' '.join(closed)} >&- 2>&-"
    assert subprocess.run(["/bin/bash", "-c", command], check=False).returncode == code

"""Windows and macOS: what they lack is not needed on the way of a plan; studies say what they need.

There is no such machine here: a process of this one is made as poor (`tests/windows.py`), and the
types are checked as those systems have them.
"""

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from netplan.cli import signs
from tests.cli.command import SIGN_OF_LIFE, netplan, refused, variables
from tests.windows import forbidden

ROOT = Path(__file__).parents[1]
SYSTEM = re.compile(
    r"^\s*(?:import|from) (?:asyncio|fcntl|locale|mmap|multiprocessing|os|resource|select|shutil"
    r"|signal|socket|sqlite3|subprocess|tempfile|termios|threading|time)\b",
    re.MULTILINE,
)
"""An import of what differs from system to system."""

OLD_CODE_PAGE = {
    "PYTHONIOENCODING": "cp1252",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "LC_ALL": "C",
    "TERM": "dumb",
}
SMALL = ("--gpus", "64", "--radix", "16", "--hb-size", "8")
PLANNED = (*SMALL, "--model", "gpt-22b", "--batch", "64")
NETWORKS = ("--fabric", "rail-only", "--fabric", "fat-tree", "--no-timing")
ASKED = (
    ("compare", "rail-only-paper", *SMALL, "--model", "gpt-22b"),
    ("compare", "rail-only-paper", *SMALL, "--no-timing", "--format", "json"),
    ("search", "rail-only-paper", *PLANNED),
    ("optimize", "rail-only-paper", *PLANNED, "--fabric", "rail-only"),
    ("cost", "rail-only-paper", *SMALL, "--fabric", "rail-only", "-o", "bill.xlsx"),
    (
        "cost",
        "rail-only-paper",
        *SMALL,
        "--fabric",
        "rail-only",
        "-o",
        "bill.xlsx",
    ),  # in place of the first
    (
        "report",
        "procurement",
        "rail-only-paper",
        "--prices",
        "2026",
        *SMALL,
        *NETWORKS,
        "-o",
        "report.html",
        "--xlsx",
        "sheet.xlsx",
    ),
    ("offers", "--scenario", "rail-only-paper", *SMALL, "--fabric", "rail-only", "-o", "ask.csv"),
    ("traffic", "rail-only-paper", *PLANNED, "--save", "flows.npz"),
    ("loads", "rail-only-paper", *PLANNED, "-o", "loads.md"),
    ("simulate", "rail-only-paper", *PLANNED),
    ("faults", "rail-only-paper", *SMALL, "--fabric", "rail-only", "--no-timing", "--years", "5"),
    (
        "export",
        "rail-only-paper",
        *SMALL,
        "--fabric",
        "rail-only",
        "--to",
        "graphml",
        "-o",
        "fabric.graphml",
    ),
    ("cables", "rail-only-paper", *SMALL, "--fabric", "rail-only", "-o", "cables.csv"),
    ("draw", "rail-only-paper", *SMALL, "--fabric", "rail-only", "-o", "fabric.svg"),
    ("catalog", "check"),
    ("doctor",),
)
PROCESS = """
import sys
from tests.windows import ask, become
become()
for words in {asked!r}:
    assert ask(words) == 0, words
    print(flush=True)
assert ask(["study", "run", "radix-and-size", "--store", "a.study"]) == 2
"""


def process(*words: str, cwd: Path, **environment: str) -> tuple[int, bytes, str]:
    """Run Python with netplan and its tests: exit code, stdout, and words on stderr."""
    done = subprocess.run(
        [sys.executable, *words],
        env=variables(80, **environment) | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        cwd=cwd,
    )
    return done.returncode, done.stdout, SIGN_OF_LIFE.sub("", done.stderr.decode("cp1252"))


REFUSED = """
import os
from tests.windows import become
become()
open("held", "w", encoding="utf-8").close()
held = open("held", encoding="utf-8")
for attempt in (
    lambda: os.fork(),
    lambda: __import__("fcntl"),
    lambda: os.replace("held", "other"),
    lambda: open("a:b", "wb"),
    lambda: exec("open('held')", {"__name__": "netplan.files"}),
    lambda: exec("open('/proc/self/statm', 'rb')", {"__name__": "netplan.files"}),
):
    try:
        attempt()
    except (AttributeError, EncodingWarning, ImportError, PermissionError, ValueError) as error:
        print(type(error).__name__)
"""


def test_what_windows_refuses_is_refused(tmp_path: Path) -> None:
    code, out, said = process("-X", "warn_default_encoding", "-c", REFUSED, cwd=tmp_path)
    assert code == 0, said
    assert out.decode().split() == [
        *("AttributeError", "ModuleNotFoundError", "PermissionError", "ValueError"),
        *("EncodingWarning", "ValueError"),
    ]


def test_a_plan_needs_nothing_that_windows_lacks(tmp_path: Path) -> None:
    poor = PROCESS.format(asked=[[*words] for words in ASKED])
    code, out, said = process(
        "-X", "warn_default_encoding", "-c", poor, cwd=tmp_path, **OLD_CODE_PAGE
    )
    assert code == 0, said
    written = {word for words in ASKED for before, word in pairwise(words)
               if before in {"-o", "--xlsx", "--save"}}  # fmt: skip
    assert {path.name for path in tmp_path.iterdir()} == written
    assert said.splitlines()[-1].startswith(
        "netplan: studies keep their results under the file locks of Linux"
    )
    assert {b"\n-----", b">="} <= {*re.findall(rb"\n-----|>=", out)}  # in the code page


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_modules_have_what_they_ask_of_a_system(system: str, tmp_path: Path) -> None:
    """As the types of Python's own modules say; in a second, since imports are not followed."""
    asking = [
        str(path)
        for path in sorted((ROOT / "netplan").rglob("*.py"))
        if SYSTEM.search(path.read_text("utf-8"))
    ]
    alone = (
        *("--config-file=", "--follow-imports=skip", "--no-site-packages"),
        *("--ignore-missing-imports", "--explicit-package-bases"),
    )
    code, out, said = process(
        *("-m", "mypy", "--platform", system, *alone, "--cache-dir", str(tmp_path), *asking),
        cwd=ROOT,
    )
    assert (code in (0, 1), said) == (True, "")
    assert not [line for line in out.decode().splitlines() if "[attr-defined]" in line]
    assert len(asking) > 20


def test_every_file_may_have_its_name_on_windows_and_macos() -> None:
    folders = ("netplan", "traffic", "topologies", "costing", "reports", "docs", "examples")
    paths = [path.relative_to(ROOT) for one in folders for path in (ROOT / one).rglob("*")]
    assert not [str(path) for path in paths if forbidden(path.name)]
    assert len({str(path).casefold() for path in paths}) == len(paths)


@pytest.mark.parametrize("path", [r"plans\first", "plans/first", "answer.json"])
def test_a_path_is_no_number_of_tokens(path: str) -> None:
    """``--output`` takes tokens of served answers; files are written with ``-o``."""
    for command in ("serving", "compare"):
        error = refused(command, "--output", path)
        assert "is not a whole number: a file is written with -o FILE" in error
    error = refused("search", "--output", path)
    assert "No such option '--output': a file is written with -o FILE" in error


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "ascii", "cp437"])
def test_an_output_without_our_signs_keeps_their_meaning(encoding: str) -> None:
    words = ("compare", "rail-only-paper", "--gpus", "64", "--radix", "16", "--no-timing")
    whole = netplan(*words, "--details").stdout.splitlines()
    plain = [line.encode(encoding, signs.NAME).decode(encoding) for line in whole]
    for line, other in zip(whole, plain, strict=True):
        assert line.count("?") == other.count("?")
        if "≥ " in line or "≤ " in line:
            same = other.replace(">=", "≥ ").replace("<=", "≤ ")
            assert (same, len(other)) == (line, len(line))
    assert any("≥ " in line for line in whole)


def test_json_is_the_same_bytes_whatever_the_terminal(tmp_path: Path) -> None:
    words = (
        "-m",
        "netplan",
        "compare",
        "rail-only-paper",
        *SMALL,
        "--no-timing",
        "--format",
        "json",
    )
    old, new = (
        process(*words, cwd=tmp_path, PYTHONIOENCODING=one)[1] for one in ("cp1252", "utf-8")
    )
    assert old == new
    assert json.loads(old.decode("utf-8"))

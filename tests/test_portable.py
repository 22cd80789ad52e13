"""What Windows lacks is not needed on the way of a plan; studies say what they need."""

import subprocess
import sys
from pathlib import Path

UNIX_ONLY = ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "posix")
WITHOUT = f"""
import os, signal, sys
import posixpath, pathlib, tempfile, subprocess, socket, selectors, shutil, random, ssl, numpy
for name in {UNIX_ONLY!r}:
    sys.modules[name] = None
kept = {{one.name: one.value for one in signal.Signals}}
for name in ("SIGHUP", "SIGKILL", "SIGPIPE", "SIGALRM", "SIGUSR1", "SIGQUIT"):
    kept.pop(name)
    delattr(signal, name)
import enum
signal.Signals = enum.IntEnum("Signals", kept)
for name in ("fork", "getuid", "geteuid", "killpg", "setsid", "sched_getaffinity"):
    delattr(os, name)
"""
ASKED = """
from netplan.cli.main import run
small = ["--gpus", "64", "--radix", "16", "--hb-size", "8"]
planned = ["--gpus", "64", "--hb-size", "8", "--model", "gpt-22b", "--batch", "64"]
folder = sys.argv[1]
codes = [
    run(["compare", *small, "--model", "gpt-22b"]),
    run(["search", *planned]),
    run(["cost", *small, "--fabric", "rail-only", "-o", f"{folder}/bill.xlsx"]),
    run(["report", "procurement", *small, "--no-timing", "-o", f"{folder}/report.html"]),
    run(["loads", *planned, "--radix", "16"]),
    run(["catalog", "check"]),
]
assert codes == [0] * len(codes), codes
assert run(["study", "run", "radix-and-size", "--store", f"{folder}/a.study"]) == 2
"""


def test_a_plan_needs_nothing_that_windows_lacks(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + ASKED, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {"bill.xlsx", "report.html"} <= {path.name for path in tmp_path.iterdir()}
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("netplan: studies keep their results under the file locks of Linux")

"""Running the command line as a user does, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path


def netplan(
    *arguments: str, columns: int = 80, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``netplan`` with these arguments and a fixed width."""
    environment = {key: os.environ[key] for key in os.environ if key != "NETPLAN_CATALOG"}
    return subprocess.run(
        [sys.executable, "-m", "netplan", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=environment | {"COLUMNS": str(columns)},
    )


def refused(*arguments: str, cwd: Path | None = None) -> str:
    """Run a wrong command: exit code 2, nothing on stdout, no traceback; the line on stderr."""
    done = netplan(*arguments, cwd=cwd)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("netplan: ")
    return done.stderr

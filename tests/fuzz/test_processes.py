"""Random commands as processes: pipes that close, full disks, signals; nothing half-written.

120 in a run, on three seeds; NETPLAN_FUZZ_PROCESSES=300 asks for so many on each.
"""

import os
import shlex
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from tests.cli.command import variables
from tests.fuzz.cases import case
from tests.fuzz.files import whole_files

PROCESSES = int(os.environ.get("NETPLAN_FUZZ_PROCESSES", "40"))
LIMIT_S = 60
LIMIT_KIB = 4 << 20
AT_ONCE = 2
OK = (0, 1, 2)
ENDED = (*OK, -signal.SIGTERM, 128 + signal.SIGTERM, 130, -signal.SIGINT)
PIPES = ("", "", "", "| head -c 100", "> /dev/full", ">&-", "2>&-", "< /dev/null", "> out.txt")


def faults_of(seed: str, folder: Path) -> list[str]:
    """Run one command as a process; what is wrong with how it ended."""
    drawn, rng = case(seed), Random(seed)
    folder.mkdir()
    for name, content in drawn.files.items():
        (folder / name).write_bytes(content)
    words = [word for word in drawn.words if "\0" not in word and len(os.fsencode(word)) < 100_000]
    pipe, stop = rng.choice(PIPES), rng.choice((None, None, None, signal.SIGTERM, signal.SIGINT))
    line = f"{shlex.join([sys.executable, '-m', 'netplan', *words])} {pipe}"
    line = line if pipe else f"exec {line}"  # signals go to netplan itself
    process = subprocess.Popen(
        ["/bin/bash", "-o", "pipefail", "-c", f"ulimit -v {LIMIT_KIB}; {line}"],
        cwd=folder,
        env=variables(drawn.columns, PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    code, said = _ended(process, None if pipe else stop, rng.uniform(0.3, 1.5))
    found = []
    if code not in (ENDED if stop and not pipe else OK):
        found.append(f"exit code {code}: {said[-300:]!r}")
    # Python cannot raise out of its own import locks: a signal there is told and passed over.
    if "Traceback" in said.partition("Exception ignored in")[0] or (
        not stop and "ignored in" in said
    ):
        found.append(said[-600:])
    found += [f"left behind: {path.name}" for path in folder.glob(".netplan-*")]
    found += [f"left behind: {path.name}" for path in folder.glob("*.lock")]
    return [f"{seed}: {fault}\n    {line[:500]}" for fault in found]


def _ended(
    process: "subprocess.Popen[bytes]", stop: signal.Signals | None, wait_s: float
) -> tuple[int | str, str]:
    """Exit code and stderr of a process that may be stopped on its way."""
    try:
        if stop is not None:
            try:
                process.wait(wait_s)
            except subprocess.TimeoutExpired:
                process.send_signal(stop)
        _, error = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "none in time", ""
    return process.returncode, error.decode(errors="replace")


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["p1", "p2", "p3"])
def test_random_processes(seed: str, tmp_path: Path) -> None:
    whole_files()  # made in this process, and once
    with ThreadPoolExecutor(AT_ONCE) as pool:
        places = [(f"{seed}:{number}", tmp_path / str(number)) for number in range(PROCESSES)]
        found = [fault for one in pool.map(lambda one: faults_of(*one), places) for fault in one]
    assert not found, "\n".join(found)

"""Random commands on random files, in this process: no traceback, hang, half-written or lost file.

A few hundred in every run; NETPLAN_FUZZ_CASES=20000 and NETPLAN_FUZZ_SEED=7 ask for more. A finding
names its case, such as 7:117, which ``cases.case`` makes again.
"""

import os
import shlex
from pathlib import Path

import pytest

from tests.fuzz.cases import case, faults_of

CASES = int(os.environ.get("NETPLAN_FUZZ_CASES", "150"))
SEED = os.environ.get("NETPLAN_FUZZ_SEED", "1")
CHUNK = 25


@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_random_commands(first: int, tmp_path: Path) -> None:
    found = []
    for number in range(first, min(first + CHUNK, CASES)):
        folder = tmp_path / str(number)
        folder.mkdir()
        drawn = case(f"{SEED}:{number}")
        for fault in faults_of(drawn, folder):
            words = [word if len(word) < 200 else f"{word[:50]}..." for word in drawn.words]
            found.append(f"case {SEED}:{number}: {fault}\n    netplan {shlex.join(words)}")
        for path in folder.rglob("*"):
            path.unlink()
    assert not found, "\n".join(found)

"""How far a question walks through the package: files that it enters, and how often from elsewhere.

A file is entered when a function of another one calls into it. A reader who follows a question has
as many files to open as are entered, and comes back to one for each further file that calls it.
"""

import json
import subprocess
import sys

import pytest

MOST = {"compare": (115, 347), "loads": (108, 281), "cost": (65, 162), "search": (92, 280)}
"""Files entered, and files entered again from elsewhere: they only fall, or a feature says why."""

WALK = """
import json, sys
from pathlib import Path
import netplan

root, calls = str(Path(netplan.__file__).parent), {}

def note(frame, event, _):
    here = frame.f_code.co_filename
    if event != "call" or not here.startswith(root):
        return
    caller = frame.f_back
    while caller and not caller.f_code.co_filename.startswith((root, "<frozen importlib")):
        caller = caller.f_back
    there = caller.f_code.co_filename if caller else ""
    loaded = there.startswith("<") or frame.f_code.co_name == "<module>" or (
        caller and caller.f_code.co_name == "<module>"
    )
    if there != here and not loaded:
        calls[there, here] = True

sys.setprofile(note)
netplan.NAME("hgx-b200", gpus=64).text()
sys.setprofile(None)
print(json.dumps([*calls]))
"""


@pytest.mark.parametrize("question", MOST)
def test_a_question_enters_few_files_and_few_of_them_again(question: str) -> None:
    script = WALK.replace("NAME", question)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    calls = json.loads(done.stdout)
    entered = {called for _, called in calls}
    again = len(calls) - len(entered)
    print(f"{question}: {len(entered)} files, {again} times again")  # noqa: T201 - see pytest -rP
    most_entered, most_again = MOST[question]
    assert len(entered) <= most_entered
    assert again <= most_again

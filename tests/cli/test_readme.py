"""The README, done as it says: every command and the Python runs, every output is the real one.

What takes long is asked at another size, and what a reader would bring is laid ready. With
NETPLAN_UPDATE_GOLDEN=1 the README gets the outputs of today; read the difference.
"""

import os
import re
import shlex
from pathlib import Path

import click
import pytest

from netplan.cli.main import COMMANDS
from netplan.cli.main import netplan as command_line
from netplan.costing.requests import Request
from netplan.topologies.rehearsal import find_tools
from tests.cli.command import netplan
from tests.questions.offer_cases import Filled
from tests.questions.offer_cases import line as asked_line

PATH = Path(__file__).parents[2] / "README.md"
TEXT = PATH.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
(PYTHON,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
# An output stands under a comment that names its command.
OUTPUT = re.compile(r"^<!-- (netplan [^\n]*) -->\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
TIMING = re.compile(r"\d[\d.]* (s|ms|µs)\)")

SMALLER = {
    "faults": {"32768": "1024", "4096": "512"},
    "loads": {"32768": "4096"},
    "traffic": {"32768": "4096"},
    "cables": {"32768": "1024"},
    "report": {"32768": "4096", "4096": "512"},
}
OURS = "--gpus 64 --model llama-3-8b --catalog own --accelerator ours --stack ours"
BEFORE = {
    f"netplan search {OURS} --iteration-model calibrated": (
        "netplan calibrate --accelerator h100-80gb --steps steps.csv --name ours --into own",
    ),
    "netplan cables --compare plan.xlsx hall.ibnetdiscover --names names.txt": (
        "netplan cables --gpus 8 --radix 8 --hb-size 4 -o plan.xlsx",
    ),
}
OFFERS = "netplan offers a.xlsx b.xlsx c.xlsx"
FOUND_SOMETHING = ("netplan audit", "netplan cables --compare")  # exit code 1
NEEDS_A_CLUSTER = "tcp://head:8786"
FILES = {
    "designs.csv": "design,gpus,nodes\nbig pod,1000,128\n",
    "hall.ibnetdiscover": (
        'Switch 8 "S-1" # "rail-0/leaf-0" enhanced port 0 lid 1 lmc 0\n'
        '[1] "H-1"[1](a1) # "gpu-0" lid 2 4xNDR\n\n'
        'Ca 1 "H-1" # "gpu-0"\n[1](a1) "S-1"[1] # lid 2 lmc 0 "rail-0/leaf-0" lid 1 4xNDR\n'
    ),
    "names.txt": 'node001 "gpu-0"  # and so on\n',
    "config.json": (PATH.parent / "examples/config.json").read_text(encoding="utf-8"),
    **{
        path.name: path.read_text(encoding="utf-8")
        for path in (PATH.parent / "examples/own-cluster").iterdir()
    },
    **{
        name: (PATH.parent / "examples" / name).read_text(encoding="utf-8")
        for name in ("four-leaves.yaml", "four-leaves.csv")
    },
    "gpt-layer.yaml": (PATH.parent / "examples/gpt-layer.yaml").read_text(encoding="utf-8"),
    "jobs.yaml": (PATH.parent / "examples/jobs.yaml").read_text(encoding="utf-8"),
    "ring.graphml": (PATH.parent / "examples/ring.graphml").read_text(encoding="utf-8"),
    "mixer.yaml": (PATH.parent / "examples/mixer.yaml").read_text(encoding="utf-8"),
    "mine.yaml": (PATH.parent / "topologies/rail-only.yaml").read_text(encoding="utf-8"),
}


def commands(block: str) -> list[str]:
    """The netplan commands of a block, without their remarks."""
    lines = (shlex.join(shlex.split(line, comments=True)) for line in block.splitlines())
    return [line for line in lines if line.startswith("netplan ")]


# What a row of single examples shows can be run in any order; the steps of a study cannot.
EXAMPLES = dict.fromkeys(
    [*commands(BLOCKS[2]), *re.findall(r"`(netplan [a-z]+ --?[^`]*)`", TEXT)], True
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def run_line(line: str, folder: Path) -> str:
    """Run one command in a folder; its output."""
    words = shlex.split(line)[1:]
    done = netplan(*(SMALLER.get(words[0], {}).get(word, word) for word in words), cwd=folder)
    assert done.returncode == line.startswith(FOUND_SOMETHING), done.stderr
    if "-o" in words:
        assert (folder / words[words.index("-o") + 1]).stat().st_size > 500
    else:
        assert done.stdout
    return done.stdout


@pytest.mark.usefixtures("suites")
@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_run(line: str, folder: Path) -> None:
    if "--rehearse" in line and find_tools() is None:
        pytest.skip("needs opensm, ibsim and ibnetdiscover")
    for name in ("a", "b", "c") if line == OFFERS else ():
        asked = Request("A pod", (cables := asked_line("L1-01", "Cables", 100),))
        Filled({cables.id: 50}).into(folder / f"{name}.xlsx", asked)
    for first in BEFORE.get(line, ()):
        run_line(first, folder)
    run_line(line, folder)


@pytest.mark.parametrize("block", BLOCKS[3:], ids=lambda block: block.split("\n")[0][:30])
def test_steps_run_one_after_the_other(
    block: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for line in commands(block):
        if NEEDS_A_CLUSTER not in line:
            run_line(line, folder)
            continue
        name, *words = shlex.split(line)[1:]
        command = command_line.get_command(click.Context(command_line), name)
        assert command is not None
        command.make_context(name, words)  # all its options exist


def test_every_command_has_an_example() -> None:
    assert {line.split()[1] for line in EXAMPLES} == set(COMMANDS)


def test_the_first_command_is_that_of_the_first_output() -> None:
    line, _ = OUTPUT.findall(TEXT)[0]
    assert BLOCKS[0].rstrip().endswith(f"&& .venv/bin/{line}")


@pytest.mark.parametrize(("line", "shown"), OUTPUT.findall(TEXT), ids=lambda text: text[:40])
def test_outputs_are_the_real_ones(line: str, shown: str, folder: Path) -> None:
    """Lines may be left out, but those that stand there are printed, in their order."""
    printed = netplan(*shlex.split(line)[1:], cwd=folder).stdout
    if os.environ.get("NETPLAN_UPDATE_GOLDEN") and missing(shown, printed):
        now = PATH.read_text(encoding="utf-8")
        PATH.write_text(now.replace(shown, printed), encoding="utf-8")
        shown = printed
    assert missing(shown, printed) == []


def missing(shown: str, printed: str) -> list[str]:
    """Lines that are shown and not printed after those before them; timings do not count."""
    left = iter(TIMING.sub("...)", printed).splitlines())
    return [line for line in TIMING.sub("...)", shown).splitlines() if line not in left]


def test_refusals_are_the_real_ones() -> None:
    for line, shown in re.findall(r"^\$ (netplan .*)\n(.*)\n```", TEXT, re.MULTILINE):
        assert netplan(*shlex.split(line)[1:]).stderr == shown + "\n"


def test_the_python_runs() -> None:
    names: dict[str, object] = {}
    exec(PYTHON, names)  # noqa: S102 - the README's own
    assert "answer" in names

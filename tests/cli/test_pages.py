"""README and documentation, done as they say: every command and the Python runs, outputs are real.

What takes long is asked at another size, and what a reader would bring is laid ready: files that a
page shows under a comment that names them, and some for all. With NETPLAN_UPDATE_GOLDEN=1 the pages
get the outputs of today; read the difference.
"""

import os
import re
import shlex
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

import click
import pytest
import yaml

from docs.generators.commands import questions
from netplan.cli.main import COMMANDS
from netplan.cli.main import netplan as command_line
from netplan.costing.offers import Request
from netplan.topologies.cabling.rehearsal import find_tools
from netplan.version import __version__
from tests.cli.command import netplan
from tests.procurement.offer_cases import Filled
from tests.procurement.offer_cases import line as asked_line

ROOT = Path(__file__).parents[2]
MADE = ROOT / "docs/reference/made"
PATHS = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if MADE not in path.parents),
]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in PATHS}
README = TEXTS["README.md"]
# An output stands under a comment that names its command, a file under one that names it.
BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"^<!-- (netplan [^\n]*) -->\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
SCENARIO = r"(?:[a-z0-9]+(?:-[a-z0-9]+)+|[\w./-]+\.yaml)"
INLINE = re.compile(rf"`(netplan [a-z]+(?: {SCENARIO})*(?: {SCENARIO}| --?[^`]*))`")
TIMING = re.compile(r"\d[\d.]* (s|ms|µs)\)")
SERVES = ("netplan explore", "netplan mcp")
"""What waits for a browser, or for a client."""
MANY = 9
"""Commands of a block from which on they are single examples, not steps [1]."""

SMALLER = {
    "faults": {"32768": "1024", "4096": "512"},
    "loads": {"32768": "4096"},
    "optimize": {"4096": "512", "36864": "4608", "1048576": "131072"},
    "jobs": {"500": "50", "4096": "512", "4608": "1152"},
    "traffic": {"32768": "4096"},
    "cables": {"32768": "1024"},
    "report": {"32768": "4096", "4096": "512"},
    "study": {"gpus=131072": "gpus=1024", "count=300": "count=30"},
}
OURS = "--gpus 64 --model llama-3-8b --catalog own --accelerator ours --stack ours"
BEFORE = {
    f"netplan search {OURS}": (
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
    "day.csv": "arrival_s,prompt,output\n" + "".join(f"{row},2000,200\n" for row in range(500)),
    "designs.csv": "design,gpus,nodes\nbig pod,1000,128\n",
    "hall.ibnetdiscover": (
        'Switch 8 "S-1" # "rail-0/leaf-0" enhanced port 0 lid 1 lmc 0\n'
        '[1] "H-1"[1](a1) # "gpu-0" lid 2 4xNDR\n\n'
        'Ca 1 "H-1" # "gpu-0"\n[1](a1) "S-1"[1] # lid 2 lmc 0 "rail-0/leaf-0" lid 1 4xNDR\n'
    ),
    "names.txt": 'node001 "gpu-0"  # and so on\n',
    "config.json": (ROOT / "examples/config.json").read_text(encoding="utf-8"),
    **{
        path.name: path.read_text(encoding="utf-8")
        for path in (ROOT / "examples/own-cluster").iterdir()
    },
    **{
        name: (ROOT / "examples" / name).read_text(encoding="utf-8")
        for name in (
            "four-leaves.yaml",
            "four-leaves.csv",
            "jobs.csv",
            "messages.csv",
            "sites.yaml",
        )
    },
    "gpt-layer.yaml": (ROOT / "examples/gpt-layer.yaml").read_text(encoding="utf-8"),
    "jobs.yaml": (ROOT / "examples/jobs.yaml").read_text(encoding="utf-8"),
    "ring.graphml": (ROOT / "examples/ring.graphml").read_text(encoding="utf-8"),
    "mixer.yaml": (ROOT / "examples/mixer.yaml").read_text(encoding="utf-8"),
    "my-paper.yaml": (ROOT / "examples/my-paper.yaml").read_text(encoding="utf-8"),
    "mine.yaml": (ROOT / "topologies/rail-only.yaml").read_text(encoding="utf-8"),
}


def commands(block: str) -> list[str]:
    """The netplan commands of a block, without their remarks."""
    lines = (shlex.join(shlex.split(line, comments=True)) for line in block.splitlines())
    return [line for line in lines if line.startswith("netplan ")]


def single_commands() -> Iterator[tuple[str, str]]:
    """Commands that can be run in any order, each with the page whose files it needs, if any."""
    for page, text in TEXTS.items():
        needs = page if FILE.search(text) else ""
        for line, _ in OUTPUT.findall(text):
            yield needs, line
        for block in BLOCK.findall(text):
            found = commands(block)
            if len(found) >= MANY:
                yield from ((needs, line) for line in found)
        for line in INLINE.findall(text):
            if not line.startswith(SERVES):
                yield needs, line


SINGLE = [*dict.fromkeys(single_commands())]
STEPS = {
    block: page
    for page, text in TEXTS.items()
    for block in BLOCK.findall(text)
    if 0 < len(commands(block)) < MANY and not {*commands(block)} <= {line for _, line in SINGLE}
}
SHOWN = [(page, *found) for page, text in TEXTS.items() for found in OUTPUT.findall(text)]
WITH_OUTPUT = {line for _, line, _ in SHOWN}
IN_HELP = {example for question in questions().values() for example in question.examples}
"""Run by ``test_examples.py``, so that here only those with an output are."""
RUN_HERE = [case for case in SINGLE if case[1] in WITH_OUTPUT or case[1] not in IN_HELP]


def lay_files(page: str, folder: Path) -> None:
    """Put what a reader would have into a folder."""
    for name, text in {**FILES, **dict(FILE.findall(TEXTS.get(page, "")))}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def lay_offers(line: str, folder: Path) -> None:
    """Put offers of three suppliers there for the command that compares them."""
    for name in ("a", "b", "c") if line == OFFERS else ():
        asked = Request("A pod", (cables := asked_line("L1-01", "Cables", 100),))
        Filled({cables.id: 50}).into(folder / f"{name}.xlsx", asked)


def run_line(line: str, folder: Path, *, as_it_is: bool = False) -> str:
    """Run one command in a folder; its output."""
    words = shlex.split(line)[1:]
    smaller = {} if as_it_is else SMALLER.get(words[0], {})
    done = netplan(*(smaller.get(word, word) for word in words), cwd=folder)
    assert done.returncode == line.startswith(FOUND_SOMETHING), done.stderr
    if "-o" in words:
        assert (folder / words[words.index("-o") + 1]).stat().st_size > 500
    else:
        assert done.stdout or "wrote " in done.stderr
    return done.stdout


@pytest.mark.usefixtures("suites", "points")
@pytest.mark.parametrize(
    ("page", "line"),
    [
        pytest.param(*case, marks=[] if case[1] in WITH_OUTPUT else [pytest.mark.slow])
        for case in RUN_HERE
    ],
    ids=[line[:60] for _, line in RUN_HERE],
)
def test_examples_run_and_outputs_are_the_real_ones(
    page: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines may be left out, but those that stand there are printed, in their order."""
    monkeypatch.setenv("HOME", str(tmp_path))  # where completion writes, for this shell
    monkeypatch.setenv("SHELL", "/bin/bash")
    if "--rehearse" in line and find_tools() is None:
        pytest.skip("needs opensm, ibsim and ibnetdiscover")
    lay_files(page, tmp_path)
    lay_offers(line, tmp_path)
    for first in BEFORE.get(line, ()):
        run_line(first, tmp_path)
    shown = [(at, text) for at, other, text in SHOWN if other == line and (at == page or not page)]
    printed = run_line(line, tmp_path, as_it_is=bool(shown))
    for at, text in shown:
        if os.environ.get("NETPLAN_UPDATE_GOLDEN") and missing(text, printed):
            now = (ROOT / at).read_text(encoding="utf-8")
            (ROOT / at).write_text(now.replace(text, renewed(text, printed)), encoding="utf-8")
            continue
        assert missing(text, printed) == [], at


def test_examples_have_options_and_names_that_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all, the question is made: those without an output are asked among the slow tests."""
    monkeypatch.chdir(tmp_path)
    for page, line in SINGLE:
        lay_files(page, tmp_path)
        if "--help" not in line:  # which ends the reading
            made(line)


def made(line: str) -> None:
    """Read the words of a command as it does, without running it."""
    name, *words = shlex.split(line)[1:]
    command = command_line.get_command(click.Context(command_line), name)
    assert command is not None
    while isinstance(command, click.Group):
        name, *words = words
        command = command.get_command(click.Context(command), name)
        assert command is not None, line
    command.make_context(name, words)


def renewed(shown: str, printed: str) -> str:
    """What is shown as it is printed now; what is left out today stays out where it is the same."""
    before, now = shown.splitlines(), printed.splitlines()
    pairs = SequenceMatcher(None, before, now, autojunk=False).get_opcodes()
    kept = [line for word, _, _, *at in pairs if word != "insert" for line in now[slice(*at)]]
    return "".join(f"{line}\n" for line in kept)


def missing(shown: str, printed: str) -> list[str]:
    """Lines that are shown and not printed after those before them; timings do not count."""
    left = iter(TIMING.sub("...)", printed).splitlines())
    return [line for line in TIMING.sub("...)", shown).splitlines() if line not in left]


@pytest.mark.usefixtures("suites", "points")
@pytest.mark.parametrize(
    ("block", "page"), STEPS.items(), ids=[f"{page}:{block[:20]}" for block, page in STEPS.items()]
)
def test_steps_run_one_after_the_other(
    block: str, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    for line in commands(block):
        if NEEDS_A_CLUSTER not in line:
            run_line(line, tmp_path)
            continue
        made(line)


def test_every_command_has_an_example() -> None:
    inside = [line for block in STEPS for line in commands(block)]
    known = {line.split()[1] for line in (*inside, *(one for _, one in SINGLE))}
    assert known | {line.split()[1] for line in SERVES} == set(COMMANDS)


def test_the_readme_is_short() -> None:
    """What it is, two commands, a screen, six questions and five more, and where to read on."""
    assert len(README.splitlines()) <= 100


def test_pictures_are_there_small_and_told_in_words() -> None:
    """Each with a text for those who do not see it; `docs.generators.pictures` takes them."""
    shown = {
        (ROOT / page).parent.joinpath(target).resolve(): said
        for page, text in TEXTS.items()
        for said, target in re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", text)
    }
    assert set(shown) == {*(ROOT / "docs/pictures").glob("*.png")}
    assert all(len(said.split()) > 8 for said in shown.values())
    assert max(path.stat().st_size for path in shown) < 250_000  # [B]


def test_the_first_command_is_that_of_the_first_output() -> None:
    line, _ = OUTPUT.findall(README)[0]
    assert BLOCK.findall(README)[0].rstrip().endswith(f"&& .venv/bin/{line}")


def test_refusals_are_the_real_ones() -> None:
    for text in TEXTS.values():
        for line, shown in re.findall(r"^\$ (netplan .*)\n(.*)\n```", text, re.MULTILINE):
            assert netplan(*shlex.split(line)[1:]).stderr == shown + "\n"


@pytest.mark.usefixtures("points")
@pytest.mark.parametrize("page", [page for page, text in TEXTS.items() if "```python\n" in text])
def test_the_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", TEXTS[page], re.MULTILINE | re.DOTALL):
        exec(block, names)  # noqa: S102
    assert "answer" in names


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (cited["version"], cited["license"]) == (__version__, "Apache-2.0")

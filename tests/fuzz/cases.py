"""Random commands, and what is wrong with how one ended."""

import json
import re
import resource
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType
from typing import NamedTuple, NoReturn

import click
from rich.cells import cell_len

from netplan.cli.main import netplan as command_line
from netplan.cli.questions import QUESTION_COMMANDS
from tests.cli.command import Done, netplan
from tests.fuzz.files import damaged, whole_files
from tests.fuzz.messages import drawn_call, faults_of_call
from tests.fuzz.records import drawn_files
from tests.fuzz.values import junk, value_of

LIMIT_S = 30.0
"""Time of the processor that no small question takes [s]."""

LIMIT_BYTES = 2 << 30
"""Memory that no small question takes [B]."""

WEIGHTS = {
    "compare": 12,
    "search": 10,
    "map": 10,
    "cost": 10,
    "grow": 8,
    "traffic": 8,
    "collective": 8,
    "loads": 12,
    "simulate": 8,
    "cables": 12,
    "export": 8,
    "audit": 8,
    "calibrate": 6,
    "faults": 6,
    "optimize": 3,
    "serving": 4,
    "diff": 6,
    "offers": 4,
    "mcp": 10,
    "init": 3,
    "draw": 3,
    "study run": 4,
    "study show": 6,
    "study status": 3,
    "study resume": 4,
    "report procurement": 2,
    "catalog list": 2,
    "catalog show": 3,
    "catalog check": 8,
}
GIVEN = {
    "compare": ("--gpus", "--radix", "--hb-size"),
    "cost": ("--gpus", "--radix"),
    "grow": ("--gpus", "--radix", "--hb-size"),
    "faults": ("--gpus", "--radix", "--years", "--fabric", "--model", "--hb-size"),
    "report procurement": ("--gpus", "--radix", "--fabric"),
    "search": ("--gpus", "--model", "--batch", "--hb-size"),
    "traffic": ("--gpus", "--model", "--batch", "--hb-size"),
    "collective": ("--kind", "--gpus"),
    "loads": ("--gpus", "--model", "--batch", "--hb-size"),
    "simulate": ("--gpus", "--model", "--batch", "--hb-size"),
    "map": ("--accelerator", "--model"),
    "serving": ("--gpus", "--model", "--hb-size", "--prompt", "--output"),
    "diff": ("--gpus", "--hb-size", "--radix", "--model", "--b"),
    "draw": ("--gpus", "--hb-size"),
    "offers": ("--gpus", "--fabric", "--radix"),
    "cables": ("--gpus", "--hb-size"),
    "export": ("--gpus", "--to", "--hb-size"),
    "optimize": ("--gpus", "--fabric", "--hb-size", "--model", "--batch", "--prices"),
}
"""Options that are nearly always given: others would be refused at once, or take long."""

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
MAX_ERROR_LINES = 25
FINDINGS = ("audit", "cables", "study", "verify")
"""Commands that may end with 1: something was found."""


class TooLongError(BaseException):
    """A case that passed its time; no handler of the package may take it for its own."""


class Case(NamedTuple):
    """A command, the files that lie in its folder, and the columns of its terminal."""

    words: tuple[str, ...]
    files: dict[str, bytes]
    columns: int


def commands() -> dict[str, click.Command]:
    """Every command by its words."""
    found: dict[str, click.Command] = {}
    context = click.Context(command_line)
    for words in WEIGHTS.keys() - {"mcp"}:
        group: click.Command | None = command_line
        for word in words.split():
            assert isinstance(group, click.Group)
            group = group.get_command(context, word)
        assert group is not None
        found[words] = group
    return found


COMMANDS = commands()
TOOLS = {tool: words for tool in QUESTION_COMMANDS if (words := tool.replace("_", " ")) in COMMANDS}
"""Tools of the server and the words of their commands."""


def case(seed: str) -> Case:
    """The case of a seed."""
    rng = Random(seed)
    files = {**whole_files(), **drawn_files(rng)}
    harmed = rng.choice((0.0, 0.0, 0.3, 0.8))
    for name in sorted(files):
        if rng.random() < harmed:
            files[name] = damaged(files[name], rng)
    if rng.random() < 0.02:
        return Case(tuple(junk(rng) for _ in range(rng.randrange(1, 4))), files, 80)
    (name,) = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
    if name == "mcp":  # a call of a tool, as its client sends it
        (tool,) = rng.choices([*TOOLS], [WEIGHTS[words] for words in TOOLS.values()])
        command = COMMANDS[TOOLS[tool]]
        given = drawn_call(command, rng, sorted(files), GIVEN.get(TOOLS[tool], ()))
        return Case(("mcp", tool, json.dumps(given)), files, 80)
    words = [*name.split(), *_arguments(name, COMMANDS[name], rng, sorted(files))]
    if rng.random() < 0.02:
        words.insert(rng.randrange(len(words) + 1), junk(rng))
    return Case(tuple(words), files, rng.choice((80, 80, 80, 100, 140, 40)))


def _arguments(name: str, command: click.Command, rng: Random, files: list[str]) -> Iterator[str]:
    given = GIVEN.get(name, ()) if rng.random() < 0.95 else ()
    likely, wild = rng.choice((0.0, 0.03, 0.1, 0.3)), rng.choice((0.0, 0.0, 0.03, 0.2))
    for one in command.params:
        flag = one.opts[-1]
        wanted = flag in given or rng.random() < (
            0.9 if isinstance(one, click.Argument) else likely
        )
        if not wanted or (flag in ("--help", "--help-all", "--scheduler") and rng.random() < 0.95):
            continue
        if isinstance(one, click.Option) and one.is_flag:
            yield rng.choice((*one.opts, *one.secondary_opts))
            continue
        times = rng.choice((1, 1, 1, 2)) if one.multiple or rng.random() < wild / 5 else 1
        for _ in range(times):
            values = [value_of(one, rng, files, wild) for _ in range(max(1, one.nargs))]
            yield from values if isinstance(one, click.Argument) else (flag, *values)


def faults_of(case: Case, folder: Path) -> list[str]:
    """Run a case in an empty folder; what is wrong with how it ended."""
    for name, content in case.files.items():
        (folder / name).write_bytes(content)
    before = {path.name for path in folder.iterdir()}
    if case.words[:1] == ("mcp",) and len(case.words) == 3:
        with limits():
            return [*faults_of_call(case.words[1], json.loads(case.words[2]), folder)]
    try:
        with limits(), warnings.catch_warnings(action="error"):
            done = netplan(*case.words, columns=case.columns, cwd=folder)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return [f"{type(error).__name__}: {error!s:.300}"]
    left = {path.name for path in folder.iterdir()} - before
    silent = done.returncode == 0 and not done.stdout.strip() and not done.stderr.strip()
    if silent and not left and not any(Path(word).name in before for word in case.words):
        return ["an answer that says nothing"]
    return [*_faults(case, done), *_left_behind(case, done, left)]


def _faults(case: Case, done: Done) -> Iterator[str]:
    said = done.stderr
    if done.returncode not in (0, 1, 2):
        yield f"exit code {done.returncode}"
    if done.returncode == 1 and case.words[:1] and case.words[0] not in FINDINGS:
        yield "exit code 1 of a command that finds nothing"
    if "Traceback" in said or "memory is full" in said:
        yield f"stderr: {said[-300:]}"
    if CONTROL.search(said) or (not printed_page(case.words) and CONTROL.search(done.stdout)):
        yield "control signs are printed"
    if done.returncode == 2:
        checked = case.words[:2] == ("catalog", "check")
        if done.stdout and not checked:
            yield "stdout of a refusal"
        if not (said.startswith("netplan: ") or checked):
            yield f"a refusal that says {said[:100]!r}"
        if (not checked and said.count("\n") > MAX_ERROR_LINES) or max(
            map(len, said.split("\n"))
        ) > 2200:
            yield "a refusal that is longer than a screen"
    yield from _faults_of_form(case, done.stdout) if done.returncode == 0 else ()


def printed_page(words: Sequence[str]) -> bool:
    """Whether a command prints a page, whose scripts hold what they like."""
    return "html" in words or (words[0] == "report" and "--format" not in words)


def _faults_of_form(case: Case, printed: str) -> Iterator[str]:
    words = case.words
    form = words[words.index("--format") + 1] if "--format" in words else ""
    if not printed or "--help" in words or "--help-all" in words:
        return
    if form == "json":
        try:
            json.loads(printed, parse_constant=_refuse)
        except ValueError as error:
            yield f"no JSON: {error}"
    plain = words[0] in (
        "compare",
        "search",
        "map",
        "cost",
        "grow",
        "traffic",
        "collective",
        "loads",
        "simulate",
        "faults",
        "optimize",
        "serving",
        "diff",
    )
    if plain and form in ("", "table") and case.columns >= 80:
        wide = max(map(cell_len, printed.splitlines()))
        if wide > case.columns:
            yield f"a line of {wide} in {case.columns} columns"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _left_behind(case: Case, done: Done, left: set[str]) -> Iterator[str]:
    named = {Path(word).name for word in case.words}
    stores = {name for name in left if name.endswith(".study") and case.words[0] == "study"}
    strange = left - named - stores
    if strange:
        yield f"left behind: {sorted(strange)}"
    if done.returncode == 2 and left:
        yield f"output of a failure: {sorted(left)}"


@contextmanager
def limits() -> Iterator[None]:
    """Limits of time and memory, as errors where they are passed."""

    def late(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise TooLongError(f"more than {LIMIT_S:g} s")

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    old, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, late)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + LIMIT_BYTES, hard))
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (old, hard))
        signal.signal(signal.SIGPROF, before)

"""The five papers' items: each has a command that works or says why not, and a counted verdict."""

import shlex
from typing import Any

import click
import pytest

from docs.generators.seeds import PAPERS, Item, Paper, items, seeds_page
from netplan.cli.main import netplan as command_line
from netplan.published.checks import is_chosen, record
from netplan.studies.definition import STUDIES
from netplan.studies.study import Study, parse_changes
from tests.cli.command import netplan
from tests.turns import one_in

COUNT = 142
EVERY = [(paper, item) for paper in PAPERS for item in items(paper)]
COMMANDS = [*dict.fromkeys(item.command for _, item in EVERY if item.command)]
STUDY, VERIFY = "netplan study run ", "netplan verify --only "
OTHERS = [line for line in COMMANDS if not line.startswith((STUDY, VERIFY))]


def test_every_item_of_the_five_papers_stands_once() -> None:
    assert [int(item.number) for _, item in EVERY] == [*range(1, COUNT + 1)]


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_an_item_has_a_command_or_a_sentence_and_a_verdict_or_a_sentence(paper: Paper) -> None:
    for item in items(paper):
        assert item.command or item.why, item.item
        assert item.checks or item.why, item.item
        assert not item.why or item.why.endswith((".", ")")), item.why


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_every_text_chooses_rows_of_verify(paper: Paper) -> None:
    for item in items(paper):
        for choice in item.checks.split(" | ") if item.checks else ():
            alone = Item(item.number, item.item, "", choice, "")
            assert alone.rows(paper), f"{item.number}: {choice}"


def test_every_row_of_verify_on_the_papers_is_of_an_item() -> None:
    """Nothing that is compared with a paper is missing on its page."""
    for paper in PAPERS:
        chosen = {(row.name, row.source) for item in items(paper) for row in item.rows(paper)}
        rows = {key for key, row in record().items() if row.source.startswith(paper.source)}
        assert rows - chosen == set(), paper.name


VERIFIED = [(paper, item) for paper, item in EVERY if item.command.startswith(VERIFY)]


@pytest.mark.parametrize(("paper", "item"), VERIFIED, ids=[item.number for _, item in VERIFIED])
def test_a_command_of_verify_shows_the_rows_that_its_line_counts(paper: Paper, item: Item) -> None:
    asked = parse(item.command)["only"]
    shown = [row for row in record().values() if all(is_chosen(row, texts) for texts in asked)]
    assert shown == item.rows(paper) != []


def parse(line: str) -> dict[str, Any]:
    """Read the words of a command as click does, options and their values checked."""
    command: click.Command | None = command_line
    rest, context = shlex.split(line)[1:], click.Context(command_line)
    while isinstance(command, click.Group):
        _, command, rest = command.resolve_command(context, rest)
        assert command is not None, line
        context = click.Context(command, parent=context)
    assert command is not None
    return command.make_context(command.name, rest).params


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_is_one(line: str) -> None:
    parse(line)
    if line.startswith(STUDY):
        name, *options = shlex.split(line.removeprefix(STUDY))
        assert name in STUDIES.paths()
        pairs = [options[place + 1] for place, word in enumerate(options) if word == "--vary"]
        assert Study.load(name, vary=parse_changes(pairs)).point_count


@pytest.mark.parametrize("line", one_in(4, OTHERS))
def test_commands_run(line: str, tmp_path: object) -> None:
    done = netplan(*shlex.split(line)[1:], cwd=tmp_path)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in COMMANDS if VERIFY in line or "--vary" in line])
def test_checks_and_varied_studies_run(line: str, tmp_path: object) -> None:
    """In every run studies are made ready, and each shipped one runs in tests of its own."""
    done = netplan(*shlex.split(line)[1:], cwd=tmp_path)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_studies_name_their_paper_and_an_item_of_its_page() -> None:
    for name in STUDIES.paths():
        reproduced = STUDIES.load(name).reproduces
        if reproduced is None:
            continue
        (paper,) = [paper for paper in PAPERS if paper.name == reproduced.paper]
        named = "\n".join(
            item.item for item in items(paper) if item.command.startswith(f"{STUDY}{name}")
        )
        for part in reproduced.items:
            assert part in named, f"{name}: {part}"


@pytest.mark.parametrize("text", ["Fig. 1", "dlrm", "VI-C"])
def test_a_text_stands_in_whole_words(text: str) -> None:
    rows = [row for row in record().values() if is_chosen(row, text)]
    assert all(f"{text}3" not in f"{row.name} {row.source}" or text != "Fig. 1" for row in rows)
    assert rows


def test_a_verdict_is_counted_from_the_record() -> None:
    (paper,) = [paper for paper in PAPERS if paper.name == "4d"]
    item = Item("53", "Fig. 5", "", "result files", "")
    assert item.verdict(paper) == "240 exact"
    assert Item("1", "nothing", "", "", "It has none.").verdict(paper) == ""


def test_the_page_has_every_command() -> None:
    page = seeds_page()
    assert all(f"`{line}`".replace("|", "\\|") in page for line in COMMANDS)

"""Help of every command: in groups, on a screen, with two examples."""

import click
import pytest

from netplan.cli.commands import LINES, WIDTH, AskingCommand
from netplan.cli.main import COMMANDS
from netplan.cli.main import netplan as command_line
from tests.cli.command import netplan


def commands() -> dict[str, click.Command]:
    """Every command by its words."""
    context = click.Context(command_line)
    found: dict[str, click.Command] = {}
    for name in COMMANDS:
        command = command_line.get_command(context, name)
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}": below for inner, below in command.commands.items()}
        elif command is not None:
            found[name] = command
    return found


def help_lines(words: str) -> list[str]:
    """What ``--help`` of a command prints."""
    command = commands()[words]
    context = click.Context(command, info_name=f"netplan {words}")
    if isinstance(command, AskingCommand):
        command.make_context(words, [], resilient_parsing=True)
    return command.get_help(context).splitlines()


@pytest.mark.parametrize("words", commands())
def test_a_question_s_own_inputs_are_told_in_full(words: str) -> None:
    lines = help_lines(words)
    if "This question:" in lines:
        own = lines[lines.index("This question:") :]
        own = own[: own.index("")] if "" in own else own
        assert [line for line in own if line.endswith("...")] == []


@pytest.mark.parametrize("words", commands())
def test_help_fits_on_a_screen(words: str) -> None:
    lines = help_lines(words)
    assert len(lines) <= LINES
    examples = [line for line in lines if line.strip().startswith("netplan ")]
    assert [line for line in lines if len(line) > WIDTH and line not in examples] == []


def test_groups_stand_in_order_and_serving_is_for_those_who_serve() -> None:
    training = netplan("compare", "--help").stdout
    titles = [line for line in training.splitlines() if line and line[0].isalpha()][1:]
    assert titles == ["Cluster:", "Workload:", "Books:", "This question:", "Output:"]
    assert "--prompt" not in training
    assert "more: " in training
    for serving in (("serving-r1-h200", "--help"), ("--workload", "serving", "--help")):
        text = netplan("compare", *serving).stdout
        assert "--prompt" in text
        assert "--recompute" not in text


def test_everything_is_in_help_all() -> None:
    text = netplan("compare", "--help-all").stdout
    for flag in ("--prompt", "--recompute", "--zero", "--expanded-memory", "--rule", "--set"):
        assert f"  {flag} " in text


@pytest.mark.parametrize(
    ("given", "means"), [("16k", 16_000), ("16Ki", 16_384), ("0.25M", 250_000), ("1Mi", 1 << 20)]
)
def test_numbers_take_prefixes_and_headings_spell_them_out(given: str, means: int) -> None:
    done = netplan("cost", "--gpus", given, "--fabric", "rail-only")
    assert done.returncode == 0
    assert f"{means:,}" in done.stdout.splitlines()[0]

"""The Tab key: commands, options, catalog names, studies, settings; and how it is set up."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from netplan.cli.completion import SHELF_OF_INPUT, install_script, script_of
from netplan.cli.main import COMMANDS, netplan
from netplan.errors import InputError
from netplan.questions.shelves import all_shelves
from tests.cli.command import netplan as run_netplan

BASH = (
    "COMP_WORDS=(netplan compare --fabric rail); COMP_CWORD=3; _netplan_completion netplan;"
    ' echo "${COMPREPLY[*]}"'
)
RAILS = ["rail-only", "rail-only-ocs", "rail-only-redundant", "rail-optimized"]
FISH = "complete -C 'netplan compare --fabric rail'"
ZSH = (
    "(( $+_comps[netplan] )) && COMP_WORDS='netplan compare --fabric rail' COMP_CWORD=3"
    " _NETPLAN_COMPLETE=zsh_complete netplan | grep rail"
)


def typed(line: str) -> list[str]:
    """What is offered for the last word of a line."""
    *words, last = line.split(" ")[1:]
    return [
        one.value for one in ShellComplete(netplan, {}, "netplan", "X").get_completions(words, last)
    ]


def test_every_shelf_that_is_named_is_there() -> None:
    import netplan.studies.definition  # noqa: F401, PLC0415 - makes the shelf of studies

    assert set(SHELF_OF_INPUT.values()) <= set(all_shelves())


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("netplan comp", ["compare", "completion"]),
        ("netplan compare --fabric rail-op", ["rail-optimized"]),
        ("netplan compare --fabric torus-2d,rail-op", ["torus-2d,rail-optimized"]),
        ("netplan compare --model deepseek-v", ["deepseek-v3"]),
        ("netplan cost --prices 2", ["2026"]),
        ("netplan study run hb-s", ["hb-size", "hb-size-paper"]),
        ("netplan catalog show slim-f", ["slim-fly", "slim-fly-28"]),
        ("netplan catalog list pri", ["prices"]),
        ("netplan compare --set acceler", ["accelerator."]),
        ("netplan compare --set accelerator.memory_bytes_", ["accelerator.memory_bytes_per_s="]),
        ("netplan report procurement --accelerator b20", ["b200"]),
        ("netplan compare --ru", ["--rule"]),
        ("netplan compare --rule f", ["fastest"]),
        ("netplan diff hgx-b200 nvl72-gb2", ["nvl72-gb200"]),
        ("netplan diff --b hb_", ["hb_size="]),
        ("netplan diff --a accelerator.power_w", ["accelerator.power_w="]),
        ("netplan init palm", ["palm-paper"]),
        ("netplan init --set radi", ["radix="]),
        ("netplan compare --fabric nothing-so", []),
        ("netplan compare --catalog /nowhere --fabric rail", []),
    ],
)
def test_what_is_offered(line: str, offered: list[str]) -> None:
    found = typed(line)
    assert set(offered) <= set(found)
    assert len(found) == len(offered) or line.endswith(("comp", "deepseek-v", "b20"))


def test_commands_are_offered_without_being_imported() -> None:
    assert typed("netplan ") == list(COMMANDS)


def test_it_is_set_up_once(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("alias l=ls")
    assert [path.name for path in install_script("bash", tmp_path)] == ["complete.bash", ".bashrc"]
    text = (tmp_path / ".bashrc").read_text()
    assert text.startswith("alias l=ls\n[ -r ")
    assert install_script("bash", tmp_path) == []
    assert (tmp_path / ".bashrc").read_text() == text
    [fish] = install_script("fish", tmp_path)
    assert fish == tmp_path / ".config/fish/completions/netplan.fish"
    assert fish.read_text() == script_of("fish")


def test_the_shell_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "SHELL", "/usr/bin/zsh")
    assert "#compdef netplan" in run_netplan("completion").stdout
    monkeypatch.setitem(os.environ, "SHELL", "/bin/tcsh")
    refused = run_netplan("completion")
    assert refused.returncode == 2
    assert "SHELL is 'tcsh': say which one" in refused.stderr
    with pytest.raises(InputError, match="give bash, zsh, fish"):
        script_of("csh")


@pytest.mark.parametrize(
    ("shell", "asked"),
    [
        ("bash", BASH),
        pytest.param("fish", FISH, marks=pytest.mark.slow),
        pytest.param("zsh", ZSH, marks=pytest.mark.slow),
    ],
)
def test_a_real_shell_completes(shell: str, asked: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"needs {shell}")
    (tmp_path / "netplan").write_text(f'#!/bin/sh\nexec {sys.executable} -m netplan "$@"\n')
    (tmp_path / "netplan").chmod(0o755)
    (tmp_path / "script").write_text(script_of(shell))
    around = os.environ | {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [program, "-c", f". {tmp_path}/script; {asked}"],
        env=around,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == RAILS, done.stderr
    assert done.stderr == ""

"""``netplan completion``: the Tab key knows commands, options, catalog names and studies."""

import os
import shlex
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from netplan.cli.completers import VARIABLE
from netplan.cli.output import emit, say
from netplan.errors import InputError
from netplan.files import write_atomically

SHELLS = ("bash", "zsh", "fish")
COMPINIT = """#compdef netplan
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
"""
"""zsh completes nothing before this, which a start-up file of one's own may lack."""


def script_of(shell: str) -> str:
    """The script that a shell reads, by click.

    Raises
    ------
    InputError
        If the shell is too old for it.

    Examples
    --------
    >>> VARIABLE in script_of("fish")
    True
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise InputError(f"no completion for {shell!r:.40}: give {', '.join(SHELLS)}")
    begins = COMPINIT if shell == "zsh" else ""
    try:
        return begins + kind(click.Group("netplan"), {}, "netplan", VARIABLE).source() + "\n"
    except RuntimeError as error:
        raise InputError(str(error)) from None


def install(shell: str, home: Path) -> list[Path]:
    """Write the script of a shell to where it looks, once; files that were changed.

    Fish reads a folder. Bash and zsh read the script from a line in their start-up file: with
    completions loaded by name, those of Ubuntu's tool of the same name could come instead.
    """
    if shell == "fish":
        path = home / ".config" / "fish" / "completions" / "netplan.fish"
        return _written(path, script_of(shell))
    path = home / ".local" / "share" / "netplan" / f"complete.{shell}"
    changed = _written(path, script_of(shell))
    start = home / f".{shell}rc"
    try:
        text = start.read_text(encoding="utf-8") if start.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{start}: cannot be read: {error}") from None
    line = f"[ -r {shlex.quote(str(path))} ] && . {shlex.quote(str(path))}  # netplan's completion"
    if line in text:
        return changed
    gap = "" if text.endswith("\n") or not text else "\n"
    # A start-up file is often a link into a folder of such files, which stays one.
    return [*changed, *_written(start.resolve(), f"{text}{gap}{line}\n")]


def _written(path: Path, text: str) -> list[Path]:
    """The file, if it had to be written."""
    if path.is_file() and path.read_bytes() == text.encode():
        return []
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    return [path]


def _shell_in_use() -> str:
    """The user's shell, as the environment says.

    Raises
    ------
    InputError
        If it is none that has completions.
    """
    shell = Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        said = f"SHELL is {shell!r:.40}" if shell else "SHELL is not set"
        raise InputError(f"{said}: say which one: netplan completion {'|'.join(SHELLS)} --install")
    return shell


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.option("--install", "into", is_flag=True, help="Set it up for this user, once for all.")
def command(shell: str | None, *, into: bool) -> None:
    """Complete commands, options, catalog names and studies with the Tab key.

    Prints the script of SHELL (that of $SHELL by default), or sets it up with --install; a new
    terminal then has it. `eval "$(netplan completion bash)"` is for this terminal alone.
    """
    shell = shell or _shell_in_use()
    if not into:
        emit(script_of(shell), None)
        return
    changed = install(shell, Path.home())
    for path in changed:
        say(f"wrote {path}")
    say("Open a new terminal." if changed else "Nothing to do: it is set up.")

"""``netplan completion``: the Tab key knows commands, options, catalog names and studies."""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netplan.cli.output import emit, say
from netplan.errors import InputError, NetplanError
from netplan.files import write_atomically
from netplan.inputs.choices import FOLDERS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


VARIABLE = "_NETPLAN_COMPLETE"
"""Environment variable that a shell sets while it asks for completions."""

SHELF_OF_INPUT = {
    **{field: role for fields in FOLDERS.values() for field, (role, _) in fields.items()},
    **{name: name for name in ("link", "memory", "report", "scenario", "stack", "study")},
    **dict.fromkeys(("circuit_switch", "switches"), "switch"),
    "expanded_memories": "memory",
    "other": "scenario",
}
"""Shelves on which names of an input stand."""
BOTH_STACKS = ("stack", "serving-stack")
RECORDS, ROLES, SETTINGS = "name", "role", "overrides"
"""Inputs that name any record, a role, or one value of a record."""
CHANGES = ("a", "b", "changes")
"""Inputs that name an input of a scenario, or one value of a record."""

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def completer_of(name: str) -> Completer | None:
    """What completes the values of an input, if it names what stands in the catalogs.

    Examples
    --------
    >>> completer_of("gpus") is None
    True
    >>> context, option = click.Context(click.Command("compare")), click.Option(["--fabric"])
    >>> [one.value for one in completer_of("fabric")(context, option, "rail")]
    ['rail-only', 'rail-only-ocs', 'rail-only-redundant', 'rail-optimized']
    """
    known = name in SHELF_OF_INPUT or name in (RECORDS, ROLES, SETTINGS, *CHANGES)
    if not known:
        return None

    def complete(ctx: click.Context, _: click.Parameter, typed: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        from netplan.catalog import user_roots

        if os.sep in typed or typed.startswith((".", "~")):
            return [CompletionItem(typed, type="file")]
        try:
            return [*_items(name, typed, user_roots(ctx.params.get("catalog")))]
        except (NetplanError, OSError):  # a word on the terminal would be in the way
            return []

    return complete


def _items(name: str, typed: str, roots: tuple[Path, ...]) -> "Iterator[CompletionItem]":
    """Names that begin as typed; of several in one word, the last one."""
    from click.shell_completion import CompletionItem

    from netplan.questions.shelves import all_shelves
    from netplan.studies import definition as _definition  # noqa: F401 - makes the shelf of studies

    shelves = all_shelves()
    if name in CHANGES:
        from netplan.scenarios.scenario import every_place

        inputs = every_place()
        yield from (CompletionItem(f"{key}=") for key in inputs if key.startswith(typed))
    if name in (SETTINGS, *CHANGES):
        # Roles, then the keys of their records: ``accelerator.memory_bytes=``.
        role, dot, begun = typed.partition(".")
        if not dot:
            yield from (CompletionItem(f"{key}.") for key in shelves if key.startswith(role))
        elif role in shelves and "=" not in begun:
            keys = shelves[role].schema.__struct_fields__
            yield from (CompletionItem(f"{role}.{key}=") for key in keys if key.startswith(begun))
        return
    if name == ROLES:
        yield from (CompletionItem(role) for role in shelves if role.startswith(typed))
        return
    if name == RECORDS:
        wanted: Iterable[str] = shelves
    else:
        role = SHELF_OF_INPUT[name]
        wanted = BOTH_STACKS if role == "stack" else (role,)
    before, comma, last = typed.rpartition(",")
    names = {key for role in wanted for key in shelves[role].paths(roots)}
    yield from (
        CompletionItem(f"{before}{comma}{key}") for key in sorted(names) if key.startswith(last)
    )


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
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise InputError(f"no completion for {shell!r:.40}: give {', '.join(SHELLS)}")
    begins = COMPINIT if shell == "zsh" else ""
    try:
        return begins + kind(click.Group("netplan"), {}, "netplan", VARIABLE).source() + "\n"
    except RuntimeError as error:
        raise InputError(str(error)) from None


def install_script(shell: str, home: Path) -> list[Path]:
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


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.option("--install", "into", is_flag=True, help="Set it up for this user, once for all.")
def command(shell: str | None, *, into: bool) -> None:
    """Complete commands, options, catalog names and studies with the Tab key.

    Prints the script of SHELL (that of $SHELL by default), or sets it up with --install; a new
    terminal then has it. `eval "$(netplan completion bash)"` is for this terminal alone.
    """
    if shell is None:  # the user's, as the environment says
        shell = Path(os.environ.get("SHELL", "")).name
        if shell not in SHELLS:
            state = f"SHELL is {shell!r:.40}" if shell else "SHELL is not set"
            names = "|".join(SHELLS)
            raise InputError(f"{state}: say which one: netplan completion {names} --install")
    if not into:
        emit(script_of(shell), None)
        return
    changed = install_script(shell, Path.home())
    for path in changed:
        say(f"wrote {path}")
    say("Open a new terminal." if changed else "Nothing to do: it is set up.")

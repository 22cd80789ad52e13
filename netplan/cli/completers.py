"""What the Tab key finds for a value of an input: names that stand in the catalogs, and studies."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netplan.errors import NetplanError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from netplan.catalog import Shelf

VARIABLE = "_NETPLAN_COMPLETE"
"""Environment variable that a shell sets while it asks for completions."""

SHELF_OF_INPUT = {
    "accelerator": "accelerator",
    "cabling": "cabling",
    "circuit_switch": "switch",
    "draft": "model",
    "economics": "economics",
    "expanded_memories": "memory",
    "expanded_memory": "memory",
    "fabric": "fabric",
    "fabrics": "fabric",
    "failures": "failures",
    "floor_plan": "floor-plan",
    "iteration_model": "iteration-model",
    "link": "link",
    "memory": "memory",
    "model": "model",
    "networks": "network",
    "other": "scenario",
    "power": "power",
    "prices": "prices",
    "ocs": "switch",
    "report": "report",
    "scenario": "scenario",
    "stack": "stack",
    "study": "study",
    "switch": "switch",
    "switches": "switch",
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
    ['rail-only', 'rail-optimized']
    """
    known = name in SHELF_OF_INPUT or name in (RECORDS, ROLES, SETTINGS, *CHANGES)
    if not known:
        return None

    def complete(ctx: click.Context, _: click.Parameter, typed: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        if os.sep in typed or typed.startswith((".", "~")):
            return [CompletionItem(typed, type="file")]
        try:
            return [*_items(name, typed, _roots(ctx))]
        except (NetplanError, OSError):  # a word on the terminal would be in the way
            return []

    return complete


def _roots(ctx: click.Context) -> tuple[Path, ...]:
    """Catalog folders of the line as far as it is typed."""
    from netplan.catalog import user_roots

    return user_roots(ctx.params.get("catalog"))


def _shelves() -> "dict[str, Shelf[Any]]":
    """Every shelf by its role; that of the studies is made in their room."""
    from netplan.questions.shelves import all_shelves
    from netplan.studies import definition as _definition  # noqa: F401

    return all_shelves()


def _items(name: str, typed: str, roots: tuple[Path, ...]) -> "Iterator[CompletionItem]":
    """Names that begin as typed; of several in one word, the last one."""
    from click.shell_completion import CompletionItem

    shelves = _shelves()
    if name in CHANGES:
        from netplan.scenarios.scenario import every_place

        inputs = every_place()
        yield from (CompletionItem(f"{one}=") for one in inputs if one.startswith(typed))
    if name in (SETTINGS, *CHANGES):
        yield from _settings(typed)
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
    found = {one for role in wanted for one in shelves[role].paths(roots)}
    yield from (
        CompletionItem(f"{before}{comma}{one}") for one in sorted(found) if one.startswith(last)
    )


def _settings(typed: str) -> "Iterator[CompletionItem]":
    """Roles, then the keys of their records: ``accelerator.memory_bytes=``."""
    from click.shell_completion import CompletionItem

    role, dot, begun = typed.partition(".")
    shelves = _shelves()
    if not dot:
        yield from (CompletionItem(f"{one}.") for one in shelves if one.startswith(role))
    elif role in shelves and "=" not in begun:
        keys = shelves[role].schema.__struct_fields__
        yield from (CompletionItem(f"{role}.{key}=") for key in keys if key.startswith(begun))

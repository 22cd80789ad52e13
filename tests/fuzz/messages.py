"""Calls of the tools of a server, and lines of a client: random ones, and what is wrong with both.

A call runs in this process under the limits of its folder, as in a process that answers calls.
"""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from random import Random
from typing import Any

import click

from netplan.cli.calls import call_result, readable_folders
from netplan.cli.mcp import refusal_of
from netplan.cli.tools import MAX_JSON_BYTES, MAX_TEXT
from netplan.files import Reach
from tests.cli.command import surroundings, variables
from tests.fuzz.files import damaged
from tests.fuzz.values import junk, value_of

ODD: tuple[object, ...] = (None, True, [], {}, [[]], {"a": {}}, 1e308, float("nan"), -1, 10**40)
ODD_TEXTS = (
    "\ud800",
    "/etc/passwd",
    "../x.yaml",
    "@/etc/passwd",
    "/proc/self/environ",
    "link.yaml",
)
PARTS: tuple[tuple[str, str], ...] = (
    ("cluster", "gpus"),
    ("cluster", "fabrics"),
    ("cluster", "accelerator"),
    ("workload", "model"),
    ("workload", "kind"),
    ("books", "prices"),
    ("cluster", "x"),
)


def drawn_call(
    command: click.Command, rng: Random, files: list[str], needed: Collection[str]
) -> dict[str, Any]:
    """Inputs of a call, of the kinds that JSON has."""
    given: dict[str, Any] = {}
    likely, wild = rng.choice((0.0, 0.03, 0.1, 0.3)), rng.choice((0.0, 0.0, 0.03, 0.2))
    for parameter in command.params:
        always = parameter.opts[-1] in needed or isinstance(parameter, click.Argument)
        if not (always or rng.random() < likely):
            continue
        if isinstance(parameter, click.Option) and parameter.is_flag:
            given[parameter.name] = rng.random() < 0.8
            continue
        text = value_of(parameter, rng, files, wild)
        value: Any = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text
        if rng.random() < wild / 2:
            value = rng.choice((*ODD, *ODD_TEXTS))
        given[parameter.name] = [value] if parameter.multiple and rng.random() < 0.8 else value
    if rng.random() < 0.2:
        part, name = rng.choice(PARTS)
        value = rng.choice((64, "rail-only", ["fat-tree"], "gpt-22b", "2026", junk(rng), *ODD))
        given["scenario"] = {part: {name: value}}
    return given


def faults_of_call(tool: str, given: dict[str, Any], folder: Path) -> Iterator[str]:
    """What is wrong with the answer to a call, and with that to a damaged line that sends it."""
    before, left = Reach.folders, {path.name for path in folder.iterdir()}
    with surroundings(folder, variables(80)):
        try:
            Reach.folders = tuple(map(Path, readable_folders()))
            text, data, wrong = call_result(tool, given)
        finally:
            Reach.folders = before
    if not text.strip():
        yield "an answer that says nothing"
    if "a defect of netplan" in text or "of the memory that was free" in text:
        yield text[:300]
    if len(text) > MAX_TEXT + 1000 or len(json.dumps(data, default=str)) > MAX_JSON_BYTES + 1000:
        yield "an answer longer than can be sent"
    if wrong and (data is not None or text.count("\n") > 25):
        yield f"a refusal that is longer than a screen: {text[:100]}"
    if "root:" in text:
        yield "a file elsewhere is read"
    if made := {path.name for path in folder.iterdir()} - left:
        yield f"left behind: {sorted(made)}"
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    params = {"name": tool, "arguments": given}
    line = json.dumps(message | {"params": params}).encode()
    refusal = refusal_of(damaged(line, Random(line)).replace(b"\n", b" "))
    if refusal is not None:
        refusal.model_dump_json(by_alias=True, exclude_unset=True).encode()

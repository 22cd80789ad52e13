"""``netplan mcp``: the questions as tools of the Model Context Protocol, over stdin and stdout.

Tools, their inputs and what these mean are made from the question classes, as the options of the
command line are. An answer comes as the text that a terminal shows, and as the JSON of the command.
"""

import json
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from netplan.cli.heartbeat import Heartbeat
from netplan.cli.questions import QUESTIONS, question_class
from netplan.errors import InputError, NetplanError, one_line
from netplan.inputs.option import Option
from netplan.questions.asking import facts_of, summary_of
from netplan.questions.own_inputs import SCENARIO
from netplan.questions.question import Question
from netplan.reports.answer import Answer
from netplan.scenarios.scenario import DEFAULT, PARTS, Part
from netplan.version import __version__

if TYPE_CHECKING:
    import mcp_types as protocol
    from mcp.server import Server

WIDTH = 100
"""Columns of an answer's text."""
MAX_JSON_BYTES, MAX_TEXT = 1 << 16, 1 << 15
"""Longest JSON of an answer that is sent [B], and longest text [signs]: more would fill the memory
of whoever asked. A comparison of nine fabrics takes 24 kB."""
PART_HELP: dict[Part, str] = {
    "cluster": "Inputs of what is bought, such as gpus, accelerator, radix, fabrics.",
    "workload": "kind (training or serving) and its inputs, such as model, batch, precision.",
    "books": "What is counted with, such as prices, power, failures.",
}
"""What stands in each part of an inline scenario, by the names of the inputs."""
NUMBER_KINDS = ("real", "ratio", "percent", "size", "batch", "whole-or-auto")
PARTS_SCHEMA = {part: {"type": "object", "description": PART_HELP[part]} for part in PARTS}
SCENARIO_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "properties": PARTS_SCHEMA, "additionalProperties": False},
    ],
    "description": (
        "Cluster, workload and books of the question: a shipped name (catalog_list, role scenario),"
        " a file, or its parts inline; what these leave out is that of the default. Other inputs"
        f" stand in place of single ones of it. [default: {DEFAULT}]"
    ),
}
"""How a tool is told its scenario."""
INSTRUCTIONS = (
    "netplan plans networks of AI clusters: fabrics, counts, prices, parallel plans, traffic,"
    " failures. Say the cluster and its workload once, as scenario: a shipped name such as"
    " hgx-b200 or nvl72-gb300, a file, or inline; other inputs replace single values of it."
    " Start with compare. Names of scenarios, models, accelerators, fabrics and price books come"
    " from catalog_list. draw gives a fabric as SVG; optimize with"
    " searched=graphs also looks for graphs that no catalog has. Amounts of answers carry units in"
    " their names. What is too long of an answer is left out and named. A refused input says what"
    " is allowed."
)


def schema_of(question: type[Question[Any]]) -> dict[str, Any]:
    """JSON schema of a question's inputs.

    Examples
    --------
    >>> from netplan.questions.compare import Compare
    >>> made = schema_of(Compare)
    >>> made["required"], made["properties"]["gpus"]["minimum"]
    ([], 1)
    """
    known = question.inputs_known()
    properties: dict[str, Any] = {}
    for given in known:
        if given.name == SCENARIO:
            properties[given.name] = SCENARIO_SCHEMA
            continue
        made, option = _type_of(given.option), given.option
        if option.many or option.values > 1:
            made = {"type": "array", "items": made}
        about = f"{option.help}{facts_of(question, given)}"
        properties[given.name] = made | {"description": about}
    return {
        "type": "object",
        "properties": properties,
        "required": [given.name for given in known if given.needed],
        "additionalProperties": False,
    }


def _type_of(option: Option) -> dict[str, Any]:
    """Schema of one value of an input."""
    ends = {"minimum": option.low, "maximum": option.high}
    if option.kind == "whole":
        return {"type": "integer", **{key: end for key, end in ends.items() if end is not None}}
    if option.kind in NUMBER_KINDS:
        return {"type": ["number", "string"]}  # 3:1, 7%, 512MiB and 0.25/gpu are texts
    if option.kind == "flag":
        return {"type": "boolean"}
    if option.kind == "choice":
        return {"type": "string", "enum": [*option.choices]}
    if option.kind in ("settings", "numbers", "amounts", "changes"):
        return {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
    return {"type": "string"}


def question_of(tool: str) -> type[Question[Any]]:
    """The class of a tool's question.

    Raises
    ------
    InputError
        If there is no such tool.
    """
    if tool not in QUESTIONS:
        raise InputError(f"no tool {tool!r:.40}: known: {', '.join(QUESTIONS)}")
    question: type[Question[Any]] = question_class(tool)
    return question


def answered(tool: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Ask the question of a tool; its answer as text and as JSON, no longer than can be sent.

    Raises
    ------
    NetplanError
        If an input is not known or not allowed.

    Examples
    --------
    >>> text, data = answered("collective", {"kind": "all_gather", "gpus": 64,
    ...                                      "message_bytes": "1MiB"})
    >>> data["inputs"]["gpus"]
    64
    """
    question = question_of(tool)
    missing = [name for name in schema_of(question)["required"] if given.get(name) is None]
    if missing:
        raise InputError(f"{tool} needs {' and '.join(missing)}")
    asked: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if isinstance(settings := asked.get("overrides"), dict):  # texts, as a command line has them
        asked["overrides"] = {
            key: text if isinstance(text, str) else json.dumps(text)
            for key, text in settings.items()
        }
    for name, value in asked.items():
        try:
            json.dumps(value, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise InputError(f"{name}: half of a surrogate pair is no text") from None
    answer: Answer = question.on(**asked).ask()
    return bounded(answer.text(WIDTH), answer.to_dict())


def bounded(text: str, data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """An answer of a length that can be sent: its longest parts go, and are named.

    Parameters
    ----------
    text
        What a terminal shows; its lines beyond :data:`MAX_TEXT` signs go.
    data
        The JSON; its longest values go until :data:`MAX_JSON_BYTES` hold the rest.

    Examples
    --------
    >>> bounded("drawn", {"links": 64, "svg": "<svg>" + 70_000 * " "})[1]
    {'links': 64, 'left_out_bytes': {'svg': 70007}}
    """
    if len(text) > MAX_TEXT:
        kept = text[:MAX_TEXT].rpartition("\n")[0]
        rest = text.count("\n") - kept.count("\n") - 1
        text = f"{kept}\n... {rest:,} more lines: ask for less, or run the command.\n"
    sizes = {name: len(json.dumps(value, default=str)) for name, value in data.items()}
    left_out: dict[str, int] = {}
    total = sum(sizes.values())
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if total <= MAX_JSON_BYTES:
            break
        left_out[name], total = sizes[name], total - sizes[name]
    if not left_out:
        return text, data
    names = ", ".join(left_out)
    text = (
        f"{text}\nToo long for the JSON, and left out: {names}: ask for less, or run the command.\n"
    )
    kept_data = {name: value for name, value in data.items() if name not in left_out}
    return text, kept_data | {"left_out_bytes": left_out}


def make_server() -> "Server[Any]":
    """The server with its tools, for whichever transport.

    Raises
    ------
    InputError
        If the protocol's package is not installed.
    """
    _library()
    import anyio
    import mcp_types as protocol
    from mcp.server import Server

    async def list_tools(*_: object) -> protocol.ListToolsResult:
        hints = protocol.ToolAnnotations(read_only_hint=True, open_world_hint=False)
        questions = {name: question_of(name) for name in QUESTIONS}
        tools = [
            protocol.Tool(
                name=name,
                description=summary_of(question),
                input_schema=schema_of(question),
                annotations=hints,
            )
            for name, question in questions.items()
        ]
        return protocol.ListToolsResult(tools=tools)

    async def call(_: object, asked: protocol.CallToolRequestParams) -> protocol.CallToolResult:
        # In a thread, so that the server answers its client while it works.
        return await anyio.to_thread.run_sync(_result, asked.name, asked.arguments or {})

    return Server(
        "netplan",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call,
    )


def _library() -> ModuleType:
    """The protocol's package."""
    try:
        return import_module("mcp.server.stdio")
    except ImportError:
        raise InputError(
            "netplan mcp needs the protocol's package: pip install 'netplan-toolkit[mcp]'"
        ) from None


def _result(tool: str, given: Mapping[str, Any]) -> "protocol.CallToolResult":
    """The answer to a call; what is wrong with it in one line, as on the command line."""
    try:
        text, data = answered(tool, given)
    except (NetplanError, OSError) as error:
        return _told(str(error), None, wrong=True)
    except MemoryError:
        return _told("the memory is full: ask for less at once", None, wrong=True)
    except Exception as error:  # noqa: BLE001 - a defect ends one call, not the server
        traceback.print_exc(file=sys.stderr)
        message = f"a defect of netplan: {one_line(f'{type(error).__name__}: {error}')}"
        return _told(message, None, wrong=True)
    return _told(text, data, wrong=False)


def _told(text: str, data: dict[str, Any] | None, *, wrong: bool) -> "protocol.CallToolResult":
    import mcp_types as protocol

    content: list[Any] = [protocol.TextContent(type="text", text=text)]
    return protocol.CallToolResult(content=content, structured_content=data, is_error=wrong)


@click.command("mcp")
def command() -> None:
    """Serve the questions as tools of the Model Context Protocol, over stdin and stdout.

    A client starts this command itself: give it `netplan` and the argument `mcp`. Tools read
    catalog files and those they are given, and write none.
    """
    stdio = _library()
    import anyio

    async def serve() -> None:
        server = make_server()
        async with stdio.stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    Heartbeat.quiet = True
    anyio.run(serve)

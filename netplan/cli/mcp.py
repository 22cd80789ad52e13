"""``netplan mcp``: the questions as tools of the Model Context Protocol, over stdin and stdout."""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from threading import Thread
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from netplan.cli.calls import LIMIT_S, Workers
from netplan.cli.heartbeat import Heartbeat
from netplan.cli.questions import QUESTION_COMMANDS
from netplan.cli.tools import is_text, question_of, schema_of
from netplan.errors import InputError
from netplan.setup.asking import summary_of
from netplan.version import __version__

if TYPE_CHECKING:
    import mcp_types as protocol
    from mcp.server import Server
    from mcp.shared._stream_protocols import WriteStream
    from mcp.shared.message import SessionMessage

MAX_MESSAGE_BYTES = 1 << 20
"""Longest line of a client [B]: an inline scenario takes less than a hundredth."""
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


def make_server(limit_s: float = LIMIT_S) -> "Server[Any]":
    """The server with its tools, for whichever transport.

    Parameters
    ----------
    limit_s
        Longest time from a call to its answer [s].

    Raises
    ------
    InputError
        If the protocol's package is not installed.
    """
    _library()
    import mcp_types as protocol
    from mcp.server import Server

    workers = Workers(limit_s)

    @asynccontextmanager
    async def while_served(_: object) -> AsyncIterator[dict[str, Any]]:
        try:
            yield {}
        finally:
            await workers.close()

    async def list_tools(*_: object) -> protocol.ListToolsResult:
        hints = protocol.ToolAnnotations(read_only_hint=True, open_world_hint=False)
        questions = {name: question_of(name) for name in QUESTION_COMMANDS}
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
        text, data, wrong = await workers.ask(asked.name, asked.arguments or {})
        return protocol.CallToolResult(
            content=[protocol.TextContent(type="text", text=text)],
            structured_content=data,
            is_error=wrong,
        )

    return Server(
        "netplan",
        version=__version__,
        instructions=INSTRUCTIONS,
        lifespan=while_served,
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


class StdinMessages:
    """Lines of stdin that hold a message; what is none gets the protocol's error at once."""

    def __init__(self) -> None:
        self.refusals: WriteStream[SessionMessage] | None = None

    async def __aiter__(self) -> AsyncIterator[str]:
        """The lines, one by one, until stdin is closed."""
        import asyncio

        import anyio
        from mcp.shared.message import SessionMessage

        put, lines = anyio.create_memory_object_stream[bytes](0)
        loop = asyncio.get_running_loop()
        stream = os.fdopen(os.dup(sys.stdin.fileno()), "rb")  # Python closes its own at the end

        def read() -> None:
            with suppress(Exception):  # the server has ended
                while line := stream.readline(MAX_MESSAGE_BYTES + 1):
                    rest = line
                    while len(rest) > MAX_MESSAGE_BYTES and not rest.endswith(b"\n"):
                        rest = stream.readline(MAX_MESSAGE_BYTES + 1)
                    asyncio.run_coroutine_threadsafe(put.send(line), loop).result()
                loop.call_soon_threadsafe(put.close)

        Thread(target=read, daemon=True).start()  # which no end of the process waits for
        async with lines:
            async for line in lines:
                if not line.strip():
                    continue
                refusal = refusal_of(line)
                if refusal is None:
                    yield line.decode()
                elif self.refusals is not None:
                    await self.refusals.send(SessionMessage(refusal))


def refusal_of(line: bytes) -> "protocol.JSONRPCError | None":
    """What is answered to a line that is no message of the protocol; None if it is one.

    Examples
    --------
    >>> refusal_of(b'{"jsonrpc": "2.0", "id": 7}').error.message
    'no message of JSON-RPC 2.0: an object with jsonrpc, method and, of a request, id'
    """
    import mcp_types as protocol

    number: int | str | None = None
    code, text = protocol.PARSE_ERROR, f"longer than {MAX_MESSAGE_BYTES >> 20} MiB"
    if len(line) <= MAX_MESSAGE_BYTES:
        try:
            message = json.loads(line.decode())
        except (ValueError, RecursionError):
            text = "no JSON in UTF-8"
        else:
            code = protocol.INVALID_REQUEST
            text = (
                "no message of JSON-RPC 2.0: an object with jsonrpc, method and, of a request, id"
            )
            given = message.get("id") if isinstance(message, dict) else None
            named = type(given) in (int, str)
            if not is_text(message):
                code, text = protocol.INVALID_PARAMS, "half of a surrogate pair is no text"
                number = given if named and is_text(given) else None
            elif isinstance(message, dict) and ("id" not in message or named):
                number = given
                with suppress(ValueError):
                    protocol.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    return None
    error = protocol.ErrorData(code=code, message=text)
    return protocol.JSONRPCError(jsonrpc="2.0", id=number, error=error)


@click.command("mcp")
@click.option(
    "--time-limit",
    type=click.FloatRange(1, 86_400),
    default=LIMIT_S,
    show_default=True,
    metavar="SECONDS",
    help="A call that works, or waits for its turn, for longer is ended and refused.",
)
def command(time_limit: float) -> None:
    """Serve the questions as tools of the Model Context Protocol, over stdin and stdout.

    A client starts this command itself: give it `netplan` and the argument `mcp`. Tools read
    files of the catalog and below the working folder, regular ones that are not hidden, and write
    none. A call can be cancelled.
    """
    stdio = _library()
    import anyio

    async def serve() -> None:
        server, messages = make_server(time_limit), StdinMessages()
        async with stdio.stdio_server(stdin=messages) as (read, write):
            messages.refusals = write
            await server.run(read, write, server.create_initialization_options())

    Heartbeat.quiet = True
    anyio.run(serve)

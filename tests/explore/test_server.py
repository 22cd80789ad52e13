"""What the page's server lets pass: its own pages alone, as many as it can hold."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from netplan.explore.server import MOST_PAGES, SESSION_S, Guard, Message, free_port
from tests.cli.command import variables

Sent = list[Message]
HOST = (b"host", b"127.0.0.1:2719")


def sent_by(
    app: Any,  # noqa: ANN401 - of a gateway
    kind: str = "http",
    path: str = "/",
    origin: str | None = None,
    into: Sent | None = None,
) -> Sent:
    """What a guarded application sends for one request."""
    headers = [HOST] + ([] if origin is None else [(b"origin", origin.encode())])
    sent: Sent = [] if into is None else into

    async def receive() -> Message:
        return {"type": f"{kind}.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": kind, "path": path, "headers": headers}
    guard = app if isinstance(app, Guard) else Guard(app)
    asyncio.run(guard(scope, receive, send))
    return sent


async def page(scope: Any, _: Any, send: Any) -> None:  # noqa: ANN401
    """An application that answers, or accepts."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"page"})


OTHERS = ("https://evil.example", "null", "http://127.0.0.1:2720", "https://127.0.0.1:2719", "")


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_pages_of_other_addresses_are_refused(kind: str) -> None:
    for origin in OTHERS:
        first, *_ = sent_by(page, kind, origin=origin)
        refused = (
            {"type": "websocket.close", "code": 1008} if kind == "websocket" else {"status": 403}
        )
        assert refused.items() <= first.items(), origin
    for mine in (None, "http://127.0.0.1:2719"):
        first, *_ = sent_by(page, kind, origin=mine)
        assert first["type"] in ("websocket.accept", "http.response.start")
        assert first.get("status", 200) == 200


def test_other_ways_to_open_a_session_are_closed() -> None:
    for path in ("/sse", "/@file/1-x.png", "/ws_sync"):
        assert sent_by(page, path=path)[0]["status"] == 404


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("Invalid session id: x"), 400),
        (KeyError("x"), 400),
        (AssertionError("Mismatched object_ids and values"), 400),
        (OSError("a disk"), 500),
    ],
)
@pytest.mark.parametrize("answered", [True, False])
def test_what_a_request_raises_is_told_once(
    error: Exception, status: int, capsys: pytest.CaptureFixture[str], *, answered: bool
) -> None:
    async def app(_: Any, __: Any, send: Any) -> None:  # noqa: ANN401
        if answered:  # as the library does before it raises again
            await send({"type": "http.response.start", "status": 500, "headers": []})
            await send({"type": "http.response.body", "body": b"Traceback"})
        raise error

    sent: Sent = []
    if status == 500:
        with pytest.raises(OSError, match="a disk"):
            sent_by(app, into=sent)
    else:
        sent_by(app, into=sent)
    start, body = sent
    assert start["status"] == status
    line = f"netplan explore: 400 to GET /: {type(error).__name__}: {error}\n"
    assert capsys.readouterr().err == (line if status == 400 else "")  # the library tells the rest
    assert "Traceback" not in json.loads(body["body"])["detail"]


def test_no_more_pages_than_it_can_hold_are_open() -> None:
    guard = Guard(page)
    guard.pages = MOST_PAGES
    assert sent_by(guard, "websocket")[0]["type"] == "websocket.close"
    guard.pages = MOST_PAGES - 1
    assert sent_by(guard, "websocket")[0]["type"] == "websocket.accept"
    assert guard.pages == MOST_PAGES - 1  # the page has closed again


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[int, int, Path]]:
    """Process and port of a server, and what it says on stderr."""
    pytest.importorskip("marimo")
    port, said = free_port(0), tmp_path / "stderr"
    words = ("explore", "--no-browser", "--port", str(port))
    with (
        said.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "netplan", *words], stderr=stderr, env=variables(80)
        ) as server,
    ):
        for _ in range(300):
            try:
                urlopen(f"http://127.0.0.1:{port}/").close()
                break
            except OSError:
                time.sleep(0.2)
        yield server.pid, port, said
        server.terminate()


def held(process: int) -> tuple[int, int]:
    """Threads and descriptors of a process."""
    place = Path("/proc", str(process))
    return len([*(place / "task").iterdir()]), len([*(place / "fd").iterdir()])


@pytest.mark.slow
def test_closed_pages_leave_no_session_thread_or_descriptor(running: tuple[int, int, Path]) -> None:
    websockets = pytest.importorskip("websockets")
    process, port, _ = running
    before = held(process)

    async def visit() -> None:
        for number in range(40):
            address = f"ws://127.0.0.1:{port}/ws?session_id=s_{number:06d}"
            async with websockets.connect(address, max_size=None) as line:
                await asyncio.wait_for(line.recv(), 20)

    asyncio.run(visit())
    for _ in range(3 * SESSION_S):
        time.sleep(1)
        threads, descriptors = held(process)
        if threads <= before[0] + 3:
            break
    assert threads <= before[0] + 3  # workers of the server itself
    assert descriptors <= before[1] + 5


@pytest.mark.slow
def test_a_running_server_refuses_without_a_traceback(running: tuple[int, int, Path]) -> None:
    websockets = pytest.importorskip("websockets")
    _, port, said = running

    async def knock(origin: str) -> int:
        address = f"ws://127.0.0.1:{port}/ws?session_id=s_000001"
        try:
            async with websockets.connect(address, origin=origin, max_size=None) as line:
                await asyncio.wait_for(line.recv(), 20)
        except websockets.InvalidStatus as refusal:
            return int(refusal.response.status_code)
        return 101

    assert asyncio.run(knock("https://evil.example")) == 403
    assert asyncio.run(knock(f"http://127.0.0.1:{port}")) == 101
    value = json.dumps({"objectIds": ["a"], "values": [1]}).encode()
    bodies = (b"{}", b"no json", b"\xff", value)
    for path in ("set_ui_element_value", "instantiate", "function_call", "run"):
        for body in bodies:
            for session in ({}, {"Marimo-Session-Id": "nosuch"}):
                headers = {"content-type": "application/json", **session}
                asked = Request(f"http://127.0.0.1:{port}/api/kernel/{path}", body, headers)
                with pytest.raises(HTTPError) as refusal:
                    urlopen(asked, timeout=20)  # noqa: S310
                assert 400 <= refusal.value.code < 500, (path, body, session)
                refusal.value.close()
    assert "Traceback" not in said.read_text()
    assert "ERROR" not in said.read_text()

"""Serves the page to this machine alone."""

import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn

from msgspec import MsgspecError

from netplan.errors import InputError, one_line
from netplan.explore.state import Begun

HOST = "127.0.0.1"
HOSTS = [HOST, "localhost"]
"""Names that a browser may call it by: a page elsewhere cannot reach it under a name of its own."""
GET_EXPLORE = "pip install 'netplan-toolkit[explore]'"
SESSION_S, MOST_PAGES = 30, 32
"""How long a page may lose its line before its session ends [s], and pages at a time [1]: each has
three threads."""
UNUSED = ("/sse", "/ws_sync", "/@file/")
"""What the library serves beside pages: other ways to open a session, and files that none has."""
APP = Path(__file__).with_name("app.py")
STYLE = Path(__file__).with_name("page.css")
CLIENT_ERRORS = (MsgspecError, ValueError, TypeError, LookupError, AssertionError)
"""What the library raises over unknown sessions, missing fields and other malformed requests."""
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
"""An application of the Asynchronous Server Gateway Interface (ASGI), and what it is called with.
"""


def free_port(asked: int) -> int:
    """The port that is asked for, or any that is free for 0.

    Raises
    ------
    InputError
        If it is taken.
    """
    with socket.socket() as tried:
        if sys.platform != "win32":  # where it would share a port that is taken
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, asked))
        except OSError as error:
            raise InputError(
                f"port {asked} cannot be used ({error.strerror}): give another --port, or 0 for any"
            ) from None
        return int(tried.getsockname()[1])


def make_app(scenario: str = "") -> Any:  # noqa: ANN401 - an application of the extra's own kind
    """The page as an ASGI application that answers this machine alone.

    Parameters
    ----------
    scenario
        What its pages start from: a name of the catalog, or a file; the usual one if empty.

    Raises
    ------
    InputError
        If the extra is not installed.
    """
    try:
        marimo = import_module("marimo")
        hosts = import_module("starlette.middleware.trustedhost")
        import_module("uvicorn")
    except ImportError as error:
        raise InputError(f"netplan explore needs {error.name}: {GET_EXPLORE}") from None
    Begun.scenario = scenario
    style = STYLE.read_text(encoding="utf-8")
    page = (
        marimo.create_asgi_app(
            quiet=True, session_ttl=SESSION_S, html_head=f"<style>{style}</style>"
        )
        .with_app(path="/", root=str(APP))
        .build()
    )
    return hosts.TrustedHostMiddleware(Guard(page), allowed_hosts=HOSTS)


class Guard:
    """Lets pages of this server alone ask it, and answers what they get wrong with 4xx.

    A page elsewhere may open a WebSocket to this machine, and have a browser send requests; its
    own address then stands in ``Origin``. What the library raises over a request is no defect of
    netplan: numbers of pages are computed elsewhere.
    """

    def __init__(self, app: Application) -> None:
        self.app = app
        self.pages = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, or keep one WebSocket."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        if origin is not None and origin != b"http://" + headers.get(b"host", b""):
            await _reject_request(scope, send, 403, "pages of another address may not ask")
        elif scope["path"].startswith(UNUSED):
            await _reject_request(scope, send, 404, "not found")
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif self.pages >= MOST_PAGES:
            await _reject_request(scope, send, 503, f"{MOST_PAGES} pages are open: close one")
        else:
            self.pages += 1
            try:
                await self.app(scope, receive, send)
            finally:
                self.pages -= 1

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on; what is wrong with it is told in place of the library's 500.

        The library raises the same kinds over a malformed request as over a defect of its own, so
        that each stands in a line on stderr, too.
        """
        status = 0

        async def keep(message: Message) -> None:
            nonlocal status
            status = status or message.get("status", 0)
            if status < 500:  # noqa: PLR2004 - a failure of the server
                await send(message)

        try:
            await self.app(scope, receive, keep)
        except CLIENT_ERRORS as error:
            what = f"{scope.get('method', 'GET')} {scope['path']}: {type(error).__name__}: {error}"
            sys.stderr.write(f"netplan explore: 400 to {one_line(what)}\n")
            if status in (0, 500):
                await _reject_request(scope, send, 400, one_line(error) or "malformed")
            return
        except Exception:
            if status in (0, 500):
                await _reject_request(scope, send, 500, "a defect")
            raise
        if status >= 500:  # noqa: PLR2004 - which the library answers without an exception
            await _reject_request(scope, send, status, "not answered")


async def _reject_request(scope: Message, send: Send, status: int, reason: str) -> None:
    """Refuse a request, or a WebSocket before it is one."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": reason})  # 403 by then
        return
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"detail": reason}).encode()})


def serve_page(app: Any, port: int) -> NoReturn:  # noqa: ANN401 - of the extra
    """Serve until Ctrl-C, which ends the process at once.

    Open pages, and the threads that work for them, would keep it for minutes: they hold nothing
    that could be lost.
    """
    facts = {"host": HOST, "port": port, "log_level": "error"}
    server = Thread(target=import_module("uvicorn").run, args=(app,), kwargs=facts, daemon=True)
    server.start()
    try:
        server.join()
    finally:
        os._exit(0)

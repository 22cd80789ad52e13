"""Serves the page to this machine alone."""

import os
import socket
import sys
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn

from netplan.errors import InputError
from netplan.explore.state import Begun

HOST = "127.0.0.1"
HOSTS = [HOST, "localhost"]
"""Names that a browser may call it by: a page elsewhere cannot reach it under a name of its own."""
GET_EXPLORE = "pip install 'netplan-toolkit[explore]'"
APP = Path(__file__).with_name("app.py")
STYLE = Path(__file__).with_name("page.css")


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
        marimo.create_asgi_app(quiet=True, html_head=f"<style>{style}</style>")
        .with_app(path="/", root=str(APP))
        .build()
    )
    return hosts.TrustedHostMiddleware(page, allowed_hosts=HOSTS)


def serve(app: Any, port: int) -> NoReturn:  # noqa: ANN401 - of the extra
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

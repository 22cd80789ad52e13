"""The order of all tests, their collection, and ``netplan verify`` run once for all of them.

Examples have no deadline, since a busy machine is no failure.
"""

import gc
import os
import signal
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings

from netplan.published.checks import Check

settings.register_profile("netplan", deadline=None)
settings.load_profile("netplan")


def pytest_configure() -> None:
    """Let every process compute on one processor, as there are as many of them as processors.

    Two threads of two processes that wait for each other took twice the time.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    # A shell without job control has what it starts in the background ignore Ctrl-C, and so would
    # all that the tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage meanwhile: of ten thousand tests all stays, and a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest, format, lint and types, so that no processor waits for them alone."""
    items.sort(key=lambda item: "test_tool_finds_nothing" not in item.name)


def run_once(suite: str, run: Callable[[], Iterable[Check]], folder: Path) -> tuple[Check, ...]:
    """The checks of a suite, which several tests of several processes read."""
    path = folder / f"{suite}.json"
    if not path.exists():
        written = path.with_suffix(f".{os.getpid()}")
        written.write_bytes(msgspec.json.encode(tuple(run())))
        written.replace(path)
    return msgspec.json.decode(path.read_bytes(), type=tuple[Check, ...])


@pytest.fixture
def suites(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Callable[[], tuple[Check, ...]]]:
    """The suites of ``netplan verify``; whatever asks for them in this test has them run once."""
    # Not where the file is read: the process that hands out the tests needs none of it.
    from netplan.published.verify import SUITES  # noqa: PLC0415

    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    once = {suite: partial(run_once, suite, run, folder) for suite, run in SUITES.items()}
    monkeypatch.setattr("netplan.published.verify.SUITES", once)
    return once

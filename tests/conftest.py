"""The order of all tests, their collection, and what is computed once for all of them.

Examples have no deadline, since a busy machine is no failure.
"""

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from netplan.published.checks import Check
from tests.long import TIMED, keep_time, mark_long, used_s, write_long

HUNTED = "NETPLAN_EXAMPLES" in os.environ
"""Whether this run hunts faults, and says over how many examples."""

MOST_EXAMPLES = int(os.environ.get("NETPLAN_EXAMPLES", "20"))
"""Of an invariant in one run."""

LONGEST_WAIT_S = 120.0
"""What another process may take for a suite of checks, which it may have died of."""

# Every run draws the same examples of a test until its lines change, so that no change fails on a
# rare example that has nothing to do with it; those who hunt draw others each time.
settings.register_profile("netplan", deadline=None, derandomize=not HUNTED)
settings.load_profile("netplan")


def pytest_configure() -> None:
    """Let every process compute on one processor, as there are as many of them as processors.

    Two threads of two processes that wait for each other took twice the time. And hundreds of
    processes are started, of which each would compile the program anew where nothing compiled may
    be kept: more than half of what a short command takes.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
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


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[object], list[object]]:
    """Look for examples only in files that have some: in all it was a fifth of the collection."""
    collectors = yield
    if ">>>" in file_path.read_text("utf-8") if file_path.suffix == ".py" else True:
        return collectors
    return [collector for collector in collectors if not isinstance(collector, DoctestModule)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest, format, lint and types, so that no processor waits for them alone."""
    if TIMED is None:
        mark_long(items)
    items.sort(key=lambda item: "test_tool_finds_nothing" not in item.name)
    for item in items:
        few_examples(getattr(item, "obj", None))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Write down what a test takes, where a run is for that."""
    before_s = used_s()
    try:
        return (yield)
    finally:
        if TIMED is not None:
            keep_time(TIMED, item, used_s() - before_s)


def pytest_sessionfinish() -> None:
    """Write the list of long tests anew, once all processes have ended."""
    if TIMED is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        write_long(TIMED)


def few_examples(test: object) -> None:
    """Let a test of invariants draw no more examples than a run has time for."""
    asked = getattr(test, "_hypothesis_internal_use_settings", None)
    if isinstance(asked, settings) and asked.max_examples > MOST_EXAMPLES:
        fewer = settings(asked, max_examples=MOST_EXAMPLES)
        test._hypothesis_internal_use_settings = fewer  # type: ignore[attr-defined]


def claimed(path: Path) -> bool:
    """Whether this process is the first to compute what shall stand there."""
    try:
        path.with_suffix(".claim").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def run_once(
    suite: str, suites: Mapping[str, Callable[[], Iterable[Check]]], folder: Path
) -> tuple[Check, ...]:
    """The checks of a suite, which several tests of several processes read.

    While another process runs it, this one runs others, which some test will ask for.
    """
    path = folder / f"{suite}.json"
    ahead = reversed([*suites])
    waited_s = 0.0
    while not path.exists():
        now = suite if claimed(path) or waited_s > LONGEST_WAIT_S else next(ahead, None)
        if now is None:
            time.sleep(0.1)
            waited_s += 0.1
        elif now == suite or claimed(folder / f"{now}.json"):
            written = folder / f"{now}.{os.getpid()}"
            written.write_bytes(msgspec.json.encode(tuple(suites[now]())))
            written.replace(folder / f"{now}.json")
    return msgspec.json.decode(path.read_bytes(), type=tuple[Check, ...])


@pytest.fixture(scope="session")
def of_all_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run that all its processes share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session", autouse=True)
def _place_of_points(of_all_processes: Path) -> None:
    """Where points of studies are kept for all tests, see ``tests/points.py``."""
    os.environ["POINTS_OF_TESTS"] = str(of_all_processes)


@pytest.fixture
def points() -> Iterator[None]:
    """Points of studies that a test needs, and is not about: each is computed once a run."""
    # Not where the file is read: the process that hands out the tests needs none of it.
    from tests.points import kept_points  # noqa: PLC0415

    with kept_points():
        yield


@pytest.fixture
def suites(
    monkeypatch: pytest.MonkeyPatch, of_all_processes: Path
) -> Mapping[str, Callable[[], tuple[Check, ...]]]:
    """The suites of ``netplan verify``; whatever asks for them in this test has them run once."""
    # Not where the file is read: the process that hands out the tests needs none of it.
    from netplan.published.verify import SUITES  # noqa: PLC0415

    once = {suite: partial(run_once, suite, SUITES, of_all_processes) for suite in SUITES}
    monkeypatch.setattr("netplan.published.verify.SUITES", once)
    return once

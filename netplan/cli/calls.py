"""Calls of tools: each is answered in a process of its own that can be ended, within a time.

Such a process answers one call after the other. It reads files below the folder that the server was
started in, and below those of the catalog, and it writes none: questions refuse other names, and
what they should miss, an audit of every file that Python opens refuses. Questions that are large
are weighed beforehand, and what takes more memory all the same ends by a limit of the process.
Nothing but the end of a process ends a calculation for sure, so that is what a client's
cancellation does, and the limit of time.
"""

import json
import os
import signal
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from netplan.catalog import shipped_root, user_roots
from netplan.cli.tools import answered
from netplan.errors import CatalogError, NetplanError, one_line
from netplan.files import Reach, reachable
from netplan.setup.footprint import HARD_SHARE, MEMORY_FILES, bound_memory

if TYPE_CHECKING:
    from anyio.abc import Process
    from anyio.streams.buffered import BufferedByteReceiveStream

LIMIT_S = 50.0
"""Longest time that a call is worked on, and that it waits for its turn before [s]: clients wait
for a minute, unless told otherwise."""
AT_ONCE, MOST_WAITING = max(2, min(4, os.cpu_count() or 1)), 64
"""Calls that are worked on, and that are not yet answered, at a time [1]."""
MAX_REPLY_BYTES = 1 << 22
"""Longest reply of a process [B], far above the bounds of an answer's text and JSON."""
SHELVES = ("costing", "reports", "topologies", "traffic")
"""Folders of the shipped catalog, which is a whole checkout where nothing is installed."""
WRITES = set("wax+")
WORKER = """import sys; sys.path[:] = {path!r}
from netplan.cli.calls import answer_calls; answer_calls({folders!r})"""


class CallResult(NamedTuple):
    """What comes of a call.

    Parameters
    ----------
    text
        The answer as a terminal shows it, or why there is none.
    data
        JSON of the answer; None without one.
    wrong
        Whether there is no answer.
    """

    text: str
    data: dict[str, Any] | None
    wrong: bool


def rejection(text: str) -> CallResult:
    """The result of a call that gets no answer, with the reason as its text.

    Examples
    --------
    >>> rejection("the memory is full").wrong
    True
    """
    return CallResult(text, None, wrong=True)


def call_result(tool: str, given: Mapping[str, Any]) -> CallResult:
    """The answer to a call; what is wrong with it in a line a fault, as on the command line.

    Parameters
    ----------
    tool, given
        The tool, and its inputs by name.

    Returns
    -------
    CallResult
        Of what fails, too: nothing is raised.

    Examples
    --------
    >>> call_result("audit", {})
    CallResult(text='audit needs file', data=None, wrong=True)
    """
    try:
        for text in _texts(given):
            place = Path(text.lstrip("@"))
            if place.is_absolute() or ".." in place.parts:
                reachable(place)
        return CallResult(*answered(tool, given), wrong=False)
    except (NetplanError, OSError) as error:
        return rejection(one_line(error) if isinstance(error, OSError) else str(error))
    except MemoryError:
        return rejection(
            f"it takes more than {100 * HARD_SHARE:.0f} % of the memory that was free, which is all"
            " that a call gets: ask for less, such as fewer GPUs or fabrics"
        )
    except Exception as error:  # noqa: BLE001 - a defect ends one call, not the server
        traceback.print_exc(file=sys.stderr)
        return rejection(f"a defect of netplan: {one_line(f'{type(error).__name__}: {error}')}")


def _texts(value: object) -> Iterator[str]:
    """Every text of what a call gives."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def readable_folders() -> tuple[str, ...]:
    """Folders below which tools read: the working folder and those of catalogs.

    A client may start its servers in the topmost folder of a disk: all that is below it is nobody's
    working folder.

    Examples
    --------
    >>> str(Path.cwd().resolve()) in readable_folders()
    True
    """
    shipped = shipped_root()
    here = Path.cwd().resolve()
    places = [*(() if here == here.parent else (here,)), *user_roots()]
    places += [folder for name in SHELVES if (folder := shipped / name).is_dir()]
    return tuple(str(place.resolve()) for place in places)


def answer_calls(folders: Sequence[str]) -> None:
    """Answer the calls that come on stdin, a line each, on stdout, until either is closed.

    A line that comes is ``[tool, inputs]`` as JSON; one that goes out is a :class:`CallResult`.

    Parameters
    ----------
    folders
        Folders below which files are read: see :func:`readable_folders`.
    """
    confine(folders)
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what a library prints is no reply
    calls: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()

    def listen() -> None:
        for line in requests:
            calls.put(tuple(json.loads(line)))
        os._exit(0)  # whoever asked is gone, whatever is under way

    Thread(target=listen, daemon=True).start()
    while True:
        tool, given = calls.get()
        bound_memory()
        reply = json.dumps(call_result(tool, given), ensure_ascii=False, default=str)
        replies.write(reply.encode("utf-8", "replace") + b"\n")
        replies.flush()


def confine(folders: Sequence[str]) -> None:
    """Let this process read below some folders alone, and write in temporary ones of its own alone.

    Python's own files are read from where it is installed. No call takes this back.

    Parameters
    ----------
    folders
        Folders below which files are read: see :func:`readable_folders`.
    """
    Reach.folders = tuple(map(Path, folders))
    homes = {sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values()}
    homes |= {place for place in sys.path if place} | {str(Path(__file__).parents[2])}
    libraries = {os.path.realpath(home) for home in homes}
    scratch = os.path.realpath(tempfile.gettempdir())
    made: set[str] = set()
    sys.dont_write_bytecode = True

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("open", "os.mkdir") or not isinstance(arguments[0], str | bytes):
            return
        place = os.path.realpath(os.fsdecode(arguments[0]))
        if event == "os.mkdir":
            if place.rpartition(os.sep)[0] == scratch:
                made.add(place)
            return
        _, mode, flags = arguments
        written = WRITES & set(mode or "") or (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if not written and arguments[0] in MEMORY_FILES:
            return
        if place == os.devnull or any(
            place == folder or place.startswith(folder + os.sep)
            for folder in (made if written else made | libraries)
        ):
            return
        if written:
            raise PermissionError(13, "no file is written here")
        try:
            reachable(Path(place))
        except CatalogError:
            raise PermissionError(13, "not below the folders that are read here") from None

    sys.addaudithook(look)


class Workers:
    """Processes that answer calls; they are started when they are needed, and kept.

    Parameters
    ----------
    limit_s
        Longest time that a call is worked on, and that it waits for its turn before [s].
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        import anyio

        self.limit_s = limit_s
        self._turns = anyio.Semaphore(AT_ONCE)
        self._idle: list[_Worker] = []
        self._asked = 0

    async def ask(self, tool: str, given: Mapping[str, Any]) -> CallResult:
        """The answer to a call, or why there is none; cancelled, what works on it is ended.

        Parameters
        ----------
        tool, given
            The tool, and its inputs by name.

        Returns
        -------
        CallResult
            Within the limit from its turn on, or after as long a wait for a turn.
        """
        import anyio

        if self._asked >= MOST_WAITING:
            return rejection(f"{MOST_WAITING} calls are not yet answered: wait for one of them")
        before = self._asked
        self._asked += 1
        try:
            with anyio.move_on_after(self.limit_s) as waiting:
                await self._turns.acquire()
            if waiting.cancelled_caught:
                calls = "1 call was" if before == 1 else f"{before} calls were"
                return rejection(
                    f"not begun within {self.limit_s:g} s: {calls} before it; ask again, fewer at"
                    " a time"
                )
            try:
                with anyio.move_on_after(self.limit_s):
                    return await self._answer(tool, given)
            finally:
                self._turns.release()
        finally:
            self._asked -= 1
        return rejection(
            f"no answer within {self.limit_s:g} s: ask for less, such as fewer fabrics or GPUs, or"
            f" run the command netplan {tool.replace('_', ' ')!s:.40}"
        )

    async def _answer(self, tool: str, given: Mapping[str, Any]) -> CallResult:
        import anyio

        worker = self._idle.pop() if self._idle else await _Worker.start()
        try:
            reply = await worker.ask([tool, given])
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.IncompleteRead):
            await worker.end()
            return rejection(
                "the process that worked on it was ended by the system, such as for want of memory:"
                " ask for less, such as fewer GPUs or fabrics"
            )
        except BaseException:
            await worker.end()
            raise
        self._idle.append(worker)
        return CallResult(*json.loads(reply))

    async def close(self) -> None:
        """End all processes."""
        while self._idle:
            await self._idle.pop().end()


class _Worker(NamedTuple):
    """One process, and the replies that come from it."""

    process: "Process"
    replies: "BufferedByteReceiveStream"

    @classmethod
    async def start(cls) -> "_Worker":
        import anyio
        from anyio.streams.buffered import BufferedByteReceiveStream

        path = [place for place in sys.path if place]
        code = WORKER.format(path=path, folders=readable_folders())
        process = await anyio.open_process(
            [sys.executable, "-c", code], stderr=None, start_new_session=True
        )
        assert process.stdout is not None  # noqa: S101 - for types: it is a pipe
        return cls(process, BufferedByteReceiveStream(process.stdout))

    async def ask(self, call: object) -> bytes:
        """Reply of the process to a call."""
        assert self.process.stdin is not None  # noqa: S101 - for types: it is a pipe
        await self.process.stdin.send(json.dumps(call).encode() + b"\n")
        return await self.replies.receive_until(b"\n", MAX_REPLY_BYTES)

    async def end(self) -> None:
        """End the process, and what it started, now."""
        import anyio

        with anyio.CancelScope(shield=True):
            if self.process.returncode is None:
                if sys.platform == "win32":
                    self.process.kill()
                else:
                    with suppress(ProcessLookupError):  # the system was first
                        os.killpg(self.process.pid, signal.SIGKILL)
            await self.process.aclose()

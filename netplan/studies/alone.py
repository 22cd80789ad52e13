"""Points evaluated in a process of their own, so that a point that ends it takes nothing else away.

After a process has died somewhere in a chunk, nobody knows at which point. A child process works
through the chunk and hands over every outcome at once: the point that follows the last outcome is
the one that ended it. A point is guilty once it has ended two processes in turn.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from threading import Thread
from types import TracebackType
from typing import BinaryIO, Self

from netplan.errors import InputError
from netplan.studies.attempt import attempt_each, killed
from netplan.studies.child import cause_of_death, end_child, pickled, start_module
from netplan.studies.memory import first_victim, limited
from netplan.studies.points import Outcome, Work

DEATHS = 2
STARTS = 3
DYING_S = 5.0
BROKEN = (EOFError, OSError, pickle.UnpicklingError)


class Alone:
    """A child process that evaluates points; one that dies is replaced.

    Parameters
    ----------
    work
        The study's work.
    limit_bytes
        Memory that the child may hold; None for no limit.
    """

    def __init__(self, work: Work, limit_bytes: int | None = None) -> None:
        self._work = work
        self._head = pickled((work, limit_bytes))
        self._child: subprocess.Popen[bytes] | None = None

    def evaluate(self, indices: Sequence[int]) -> Iterator[Outcome]:
        """Outcomes of these points, in order; the guilty among them are failures.

        Raises
        ------
        InputError
            If no child can be started.
        """
        left, deaths = deque(indices), 0
        while left:
            for outcome in _outcomes(self.start(), list(left)):
                deaths = 0
                left.popleft()
                yield outcome
            if left:
                deaths += 1
                cause = cause_of_death(self._end(DYING_S))
                if deaths == DEATHS:
                    deaths = 0
                    yield killed(self._work, left.popleft(), cause)

    def start(self) -> subprocess.Popen[bytes]:
        """Have a child that waits for points: from now on, only a point can end it."""
        if self._child is not None:
            return self._child
        for _ in range(STARTS):
            self._child = start_module(__name__)
            try:
                _send(self._child, self._head)
                _receive(self._child)
            except BROKEN:
                self._end()
            else:
                return self._child
        raise InputError(
            "a process for doubtful points cannot be started: check that memory is free, and that "
            "the study's code can be imported"
        )

    def __enter__(self) -> Self:
        """Use the child as a context; it starts with its first points."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the child."""
        self._end()

    def _end(self, patience_s: float = 0.0) -> int:
        child, self._child = self._child, None
        return 0 if child is None else end_child(child, patience_s)


def _outcomes(child: subprocess.Popen[bytes], indices: list[int]) -> Iterator[Outcome]:
    """Outcomes from a child, until all are there or the child has died."""
    try:
        _send(child, pickle.dumps(indices))
        for _ in indices:
            outcome = _receive(child)
            if isinstance(outcome, Outcome):
                yield outcome
    except BROKEN:
        return


def _send(child: subprocess.Popen[bytes], data: bytes) -> None:
    if child.stdin is not None:
        child.stdin.write(data)
        child.stdin.flush()


def _receive(child: subprocess.Popen[bytes]) -> object:
    if child.stdout is None:
        raise EOFError
    return pickle.load(child.stdout)  # noqa: S301 - written by this module, in the child


def main() -> None:
    """Be the child: read a study and lists of points, write outcomes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what a point prints
    first_victim()
    work, limit_bytes = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the parent
    _answer(answers, "ready")
    requests: SimpleQueue[list[int]] = SimpleQueue()
    Thread(target=_listen, args=(requests,), daemon=True).start()
    with limited(limit_bytes):
        while True:
            for outcome in attempt_each(work, requests.get()):
                _answer(answers, outcome)


def _listen(requests: SimpleQueue[list[int]]) -> None:
    """Pass on what the parent asks, and end with the parent, in the midst of a point too."""
    while True:
        try:
            requests.put(pickle.load(sys.stdin.buffer))  # noqa: S301 - from the parent
        except BROKEN:
            os._exit(1)


def _answer(answers: BinaryIO, value: object) -> None:
    pickle.dump(value, answers)
    answers.flush()


if __name__ == "__main__":
    main()

"""The points still to do, in chunks of about a second of work.

A chunk too small drowns in messages, one too large loses much when a process is killed. So the
first chunk is one point, and every chunk that comes back teaches what a point costs.
"""

from math import ceil

import numpy as np
from numpy.typing import NDArray

CHUNK_S = 1.0
MAX_CHUNK_POINTS = 10_000
GROWTH = 4
# How much of what was known stays after each new chunk: points may grow dearer along the study.
MEMORY = 0.7


class Backlog:
    """Points still to do.

    Parameters
    ----------
    indices
        Points to do, in order.
    chunk_s
        Work of one chunk [s].

    Examples
    --------
    >>> backlog = Backlog(np.arange(100))
    >>> backlog.take()
    [0]
    >>> backlog.learn(1, 0.25)  # four points a second
    >>> backlog.take(), backlog.left
    ([1, 2, 3, 4], 95)
    """

    def __init__(self, indices: NDArray[np.int64], chunk_s: float = CHUNK_S) -> None:
        self._indices = indices
        self._chunk_s = chunk_s
        self._next = 0
        self._size = 1
        self._points = self._seconds = 0.0

    @property
    def left(self) -> int:
        """Points not yet taken."""
        return len(self._indices) - self._next

    def take(self, slots: int = 1) -> list[int]:
        """Take the next chunk.

        Parameters
        ----------
        slots
            Processes that share what is left: near the end, chunks shrink so that all finish
            together.
        """
        size = self._size if slots == 1 else min(self._size, ceil(self.left / (2 * slots)))
        chunk: list[int] = self._indices[self._next : self._next + size].tolist()
        self._next += len(chunk)
        return chunk

    def learn(self, points: int, seconds: float) -> None:
        """Learn from a chunk that came back what a point costs."""
        self._points = MEMORY * self._points + points
        self._seconds = MEMORY * self._seconds + seconds
        fitting = self._chunk_s * self._points / max(self._seconds, 1e-9)
        # No leap: the first points may be far cheaper than the rest.
        known = max(self._size, GROWTH * points)
        self._size = max(1, int(min(fitting, known, MAX_CHUNK_POINTS)))

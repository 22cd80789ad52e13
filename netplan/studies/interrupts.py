"""Ctrl-C, SIGTERM and SIGHUP while a study runs: they wait until the driver lets them through.

Python raises them between any two steps. Inside an executor that may leave a lock held for ever;
between two steps of the driver, outcomes without their record or a mark without its point.
"""

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import current_thread, main_thread
from types import FrameType
from typing import Self

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
ENDING = tuple(signal.Signals[name] for name in NAMES if name in signal.Signals.__members__)
"""Signals that end a run; Windows has no SIGHUP."""


class Interrupts(AbstractContextManager["Interrupts"]):
    """Holds back the signals that would raise; those that end the process at once still do.

    Examples
    --------
    >>> from contextlib import suppress
    >>> with suppress(KeyboardInterrupt), Interrupts() as interrupts:
    ...     signal.raise_signal(signal.SIGINT)
    ...     print("this is done")
    ...     interrupts.let_through()
    ...     print("this is not")
    this is done
    """

    def __init__(self) -> None:
        self._came: list[int] = []
        self._open = False
        self._handlers: dict[int, Callable[[int, FrameType | None], object]] = {}

    def __enter__(self) -> Self:
        """Take over from the handlers; other threads than the main one have none."""
        if current_thread() is main_thread():
            for number in ENDING:
                handler = signal.getsignal(number)
                if callable(handler):  # not ignored, and more than the end of the process
                    self._handlers[number] = handler
                    signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        """Give back to the handlers, with what came last."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self.let_through()

    def let_through(self) -> None:
        """Do what the first signal that came would have done."""
        if self._came:
            number = self._came[0]
            self._came.clear()
            self._handlers.get(number, signal.default_int_handler)(number, None)

    def run(self, task: Callable[[], object]) -> None:
        """Do something that a signal ends at once; what comes after it goes on."""
        try:
            self._open = True
            task()
            self._open = False
        except KeyboardInterrupt:
            self._came = self._came or [signal.SIGINT]

    def _take(self, number: int, _: FrameType | None) -> None:
        self._came.append(number)
        if self._open:
            self._open = False
            raise KeyboardInterrupt

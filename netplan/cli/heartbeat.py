"""A sign of life on stderr for whatever takes longer than two seconds."""

import sys
from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import ClassVar, Self, TextIO

from netplan.errors import one_line
from netplan.progress import UnderWay
from netplan.reports.escape import short

FIRST_S = 2.0
EVERY_S = 2.0
BAR_EVERY_S = 0.5
EVERY_IN_A_FILE_S = 30.0
LEAST_BUSY = 20
"""Letters that say what is under way, however narrow a terminal is [1]."""


class Heartbeat:
    """Says how long a command has been working, from two seconds on.

    A terminal sees one line that is rewritten and wiped at the end; a log gets a line now and then,
    and one for whatever else is under way by then.
    What works may say more than that: what is under way (`netplan.progress`), or the
    whole line by ``describe``, such as a bar.
    """

    describe: ClassVar[Callable[[], str] | None] = None
    quiet: ClassVar[bool] = False  # of what waits for others, and says when it works

    def __init__(self, stream: TextIO | None = None, first_s: float = FIRST_S) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.first_s = first_s
        self._done = Event()
        self._thread = Thread(target=self._beat, daemon=True)
        self._shown = False

    def __enter__(self) -> Self:
        """Start to watch the clock."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, and wipe the line from a terminal."""
        self._done.set()
        self._thread.join()
        if self._shown and self.stream.isatty():
            self._write("\r\x1b[K")

    def _beat(self) -> None:
        waited, pause, told_s, outermost = 0.0, self.first_s, -EVERY_IN_A_FILE_S, ""
        while not self._done.wait(pause):
            waited += pause
            if Heartbeat.quiet:
                continue
            live = self.stream.isatty()
            say = Heartbeat.describe
            busy = f": {told_of}" if (told_of := UnderWay.text()) else ""
            left = f" ({UnderWay.left()})" if UnderWay.left() else ""
            head = f"working, {waited:.0f} s"
            if live and busy:  # a line that wraps would not be rewritten, but repeated
                import shutil

                columns = shutil.get_terminal_size().columns
                busy = short(busy, max(LEAST_BUSY, columns - 1 - len(head) - len(left)))
            often = EVERY_S if say is None else BAR_EVERY_S
            pause = often if live else EVERY_S
            known = say is not None or UnderWay.outermost() == outermost
            if not live and known and waited - told_s < EVERY_IN_A_FILE_S:
                continue
            told_s, outermost = waited, UnderWay.outermost()
            text = one_line(f"{head}{busy}{left}" if say is None else say())
            # Such a line may become shorter: what it leaves is wiped.
            wipe = "\x1b[K" if say or busy else ""
            self._write(f"\r{text}{wipe}" if live else f"{text}\n")
            self._shown = True

    def _write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):
            self._done.set()  # nobody reads stderr any more

"""Signs of life: none for quick commands, one after a while, a wiped line on a terminal."""

import io
from threading import Event

from netplan.cli.heartbeat import Heartbeat


class Log(io.StringIO):
    """A stream that tells of the first word, however late a busy machine brings it."""

    def __init__(self) -> None:
        super().__init__()
        self.told = Event()

    def flush(self) -> None:
        self.told.set()


class Terminal(Log):
    def isatty(self) -> bool:
        return True


def test_quick_work_says_nothing() -> None:
    stream = Log()
    with Heartbeat(stream, first_s=600.0):
        pass
    assert stream.getvalue() == ""


def test_long_work_says_how_long() -> None:
    stream = Log()
    with Heartbeat(stream, first_s=0.01):
        assert stream.told.wait(60)
    assert stream.getvalue() == "working, 0 s\n"


def test_a_terminal_is_wiped() -> None:
    stream = Terminal()
    with Heartbeat(stream, first_s=0.01):
        assert stream.told.wait(60)
    assert stream.getvalue() == "\rworking, 0 s\r\x1b[K"

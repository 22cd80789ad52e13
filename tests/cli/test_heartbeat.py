"""Signs of life: none for quick commands, one after a while, a wiped line on a terminal."""

import io
import time

from netplan.cli.heartbeat import Heartbeat


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_quick_work_says_nothing() -> None:
    stream = io.StringIO()
    with Heartbeat(stream, first_s=5.0):
        pass
    assert stream.getvalue() == ""


def test_long_work_says_how_long() -> None:
    stream = io.StringIO()
    with Heartbeat(stream, first_s=0.02):
        time.sleep(0.3)
    assert stream.getvalue() == "working, 0 s\n"


def test_a_terminal_is_wiped() -> None:
    stream = Terminal()
    with Heartbeat(stream, first_s=0.02):
        time.sleep(0.3)
    assert stream.getvalue() == "\rworking, 0 s\r\x1b[K"

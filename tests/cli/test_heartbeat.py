"""Signs of life: none for quick commands, one after a while, a wiped line on a terminal."""

import gc
import io
import signal
from threading import Event

import pytest

from netplan.cli import heartbeat, main
from netplan.cli.heartbeat import Heartbeat
from netplan.progress import UnderWay, with_progress


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


def test_what_is_under_way_is_told() -> None:
    stream = Log()
    for _ in with_progress(["rail-only", "torus-3d"], str):
        with Heartbeat(stream, first_s=0.01):
            assert stream.told.wait(60)
        stream.told.clear()
    assert stream.getvalue() == (
        "working, 0 s: rail-only, 1 of 2\nworking, 0 s: torus-3d, 2 of 2\n"
    )
    assert UnderWay.text() == ""


def test_a_log_tells_once_what_is_under_way_and_at_once_what_comes_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.01)
    stream = Log()
    with Heartbeat(stream, first_s=0.01):
        for _ in with_progress(["rail-only", "torus-3d"], str):
            assert stream.told.wait(60)
            stream.told.clear()
            Event().wait(0.1)  # more of the same is not told
    said = [line.partition(": ")[2] for line in stream.getvalue().splitlines()]
    assert list(filter(None, said)) == ["rail-only, 1 of 2", "torus-3d, 2 of 2"]


def test_loops_in_loops_add_up_and_tell_the_time_left() -> None:
    said, shares = [], []
    for number, _ in enumerate(with_progress(["rail-only", "torus-3d"], str)):
        UnderWay.steps[0].began_s = 100.0
        for name, count in (("failures", 2), ("years", 5)):
            for _ in with_progress([name] * count, str):
                shares.append(UnderWay.share())
                said.append(UnderWay.left(now_s=100.0 + 10 * (number + 1)))
    # Halves of the first half by failures; years start at none, which holds the share.
    assert shares[:7] == [0, 0.25, 0.25, 0.25, 0.25, 0.3, 0.4]
    assert shares == sorted(shares)
    assert said[0] == ""
    assert said[1] == "25% done, about 30 s left"
    assert said[6] == "40% done, about 15 s left"
    assert UnderWay.text() == UnderWay.left() == ""


def test_a_line_on_a_terminal_does_not_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()
    for _ in with_progress(
        ["a fabric whose name is long enough for two lines or more, at least"], str
    ):
        with Heartbeat(stream, first_s=0.01):
            assert stream.told.wait(60)
    said = stream.getvalue().split("\x1b")[0].removeprefix("\r")
    assert said.startswith("working, 0 s: a fabric whose name is long")
    assert said.endswith("…")
    assert len(said) == 59


def test_a_terminal_is_wiped() -> None:
    stream = Terminal()
    with Heartbeat(stream, first_s=0.01):
        assert stream.told.wait(60)
    assert stream.getvalue() == "\rworking, 0 s\r\x1b[K"


def test_ctrl_c_while_the_heartbeat_stops_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(Heartbeat):
        def __exit__(self, *error: object) -> None:
            super().__exit__(None, None, None)
            raise KeyboardInterrupt

    monkeypatch.setattr(main, "Heartbeat", Interrupted)
    monkeypatch.setattr(main, "run", lambda: 0)
    for where, name in ((gc, "freeze"), (gc, "set_threshold"), (signal, "signal")):
        monkeypatch.setattr(where, name, lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 130

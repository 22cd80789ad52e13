"""Runs in one process: bad points, deaths of the driver, Ctrl-C, chunks, progress."""

import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.reports.quantities import Scalar
from netplan.studies.points import (
    CHUNK_S,
    UNEXPECTED,
    Point,
    PointResult,
    attempt,
    attempt_some,
    error_line,
)
from netplan.studies.run import MAX_CHUNK_POINTS, Backlog, Progress, Resources, Tracker, run_points
from netplan.studies.store import Store
from netplan.version import __version__
from tests.studies.toys import Toy, check_innocent, done_points, errors, found, undisturbed

KILLED = "the process was killed, probably for want of memory"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "toy.sqlite"


def test_all_points_and_once_more(path: Path) -> None:
    toy = Toy(1000)
    with Store.begin(path, toy, __version__) as store:
        ended = run_points(toy, store)
        assert ended == Progress(1000, 0, 1000, 1000, ended.elapsed_s, ended.left_s)
        assert found(list(store.outcomes())) == undisturbed(toy)
        again = run_points(toy, store)
        assert (again.done, again.evaluated) == (1000, 0)


def test_no_points_at_all(path: Path) -> None:
    with Store.begin(path, Toy(0), __version__) as store:
        assert run_points(Toy(0), store).total == 0


def test_bad_points_are_outcomes_too(path: Path) -> None:
    toy = Toy(100, harm=((7, "fail"), (8, "ask"), (99, "leave")))
    with Store.begin(path, toy, __version__) as store:
        assert run_points(toy, store).failed == 3
        guilty = errors(store)
        check_innocent(store, 100)
    assert list(guilty) == [7, 8, 99]
    assert guilty[7].startswith("unexpected ValueError: no such radix no such")
    assert len(guilty[7]) == 500 + len(UNEXPECTED)
    assert guilty[8].startswith("MemoryError: Unable to allocate 8.00 PiB")
    assert guilty[99] == "unexpected SystemExit: leaving"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to its memory")
def test_a_memory_limit_in_this_process(path: Path) -> None:
    toy = Toy(20, harm=((5, "fill"),))
    with Store.begin(path, toy, __version__) as store:
        run_points(toy, store, Resources(memory_limit_bytes=2**28))  # the point wants 2 GiB
        assert errors(store)[5].startswith("MemoryError")
        check_innocent(store, 20)
    assert np.empty(2**28).nbytes == 2**31  # the limit went with the run


def test_a_point_that_kills_driver_after_driver_is_given_up(path: Path) -> None:
    """A group of processes may be killed as one: then only the count of deaths is left."""
    with Store.begin(path, Toy(10), __version__) as store:
        for _ in range(2):
            store.mark([3, 4, 5])  # died twice in a chunk
        store.mark([4])  # and once at this point alone
        run_points(Toy(10), store)
        assert errors(store) == {4: KILLED}
        check_innocent(store, 10)


def test_suspects_are_innocent_until_they_kill(path: Path) -> None:
    with Store.begin(path, Toy(50), __version__) as store:
        for _ in range(2):
            store.mark(range(10, 20))
        run_points(Toy(50), store)
        assert errors(store) == {}
        check_innocent(store, 50)


class Interrupted(Toy):
    def evaluate(self, point: Point) -> dict[str, Scalar]:
        if point.index == 30:
            raise KeyboardInterrupt
        return super().evaluate(point)


def test_ctrl_c_keeps_what_is_done(path: Path) -> None:
    toy = Interrupted(100)
    with Store.begin(path, toy, __version__) as store:
        with pytest.raises(KeyboardInterrupt):
            run_points(toy, store)
        assert done_points(store) == list(range(30))
        assert store.suspects() == {}  # nobody died
        run_points(Toy(100), store)
        assert found(list(store.outcomes())) == undisturbed(Toy(100))


@pytest.mark.parametrize("step", ["mark", "record"])
@pytest.mark.parametrize("workers", [0, 1])
def test_ctrl_c_between_two_steps(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str, workers: int
) -> None:
    """The store knows no point as suspect, and has whatever came back."""
    whole = getattr(Store, step)

    def interrupted(store: Store, *arguments: object) -> None:
        whole(store, *arguments)
        if store.counts().done >= 15:
            signal.raise_signal(signal.SIGINT)

    with Store.begin(path, Toy(100), __version__) as store:
        monkeypatch.setattr(Store, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_points(Toy(100), store, Resources(workers))
        monkeypatch.undo()
        assert 15 <= len(done_points(store)) < 100
        assert store.suspects() == {}
        assert run_points(Toy(100), store).done == 100
        check_innocent(store, 100)


class Terminated(Toy):
    def evaluate(self, point: Point) -> dict[str, Scalar]:
        if point.index == 30:
            signal.raise_signal(signal.SIGTERM)
        return super().evaluate(point)


def test_sigterm_is_no_failure_of_its_point(path: Path) -> None:
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        with Store.begin(path, Terminated(100), __version__) as store:
            with pytest.raises(SystemExit, match="143"):
                run_points(Terminated(100), store)
            assert done_points(store) == list(range(30))
            assert store.suspects() == {}
    finally:
        signal.signal(signal.SIGTERM, before)


def test_full_disk_in_the_midst_of_a_run(path: Path) -> None:
    toy = Toy(5000)
    with Store.begin(path, toy, __version__) as store:
        store._connection.execute("PRAGMA max_page_count = 30")
        with pytest.raises(InputError, match=r"the disk is full: make room; .* resume` goes on"):
            run_points(toy, store)
        done = store.counts().done
        assert 0 < done < 5000
        assert found(list(store.outcomes())) == undisturbed(Toy(done))
    with Store.begin(path, toy, __version__) as store:
        assert run_points(toy, store).done == 5000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": -1}, r"--workers: 0 \(this process alone\) to [0-9]+, got -1"),
        ({"workers": 2, "scheduler": "tcp://a:1"}, "--workers and --scheduler exclude each other"),
        ({"memory_limit_bytes": 1000}, r"must be at least 256,000,000 B, .*, got 1,000 B"),
    ],
)
def test_resources(options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Resources(**options)  # type: ignore[arg-type]


def test_a_store_of_another_version(path: Path) -> None:
    with Store.begin(path, Toy(3), "0.0.9") as store:
        store.record([PointResult(0, {"x": 1.0}, None, 1.0)])
        with pytest.raises(InputError, match=r"made by netplan 0.0.9, this is"):
            run_points(Toy(3), store)


def test_a_store_of_another_version_without_an_answer_begins_anew(path: Path) -> None:
    with Store.begin(path, Toy(3), "0.0.9") as store:
        run_points(Toy(3), store)
        assert store.answered


@pytest.mark.parametrize(
    ("outputs", "error"),
    [
        ({"a": np.float64(0.5), "b": np.int64(3), "c": np.bool_(1)}, None),
        (
            {"a": [1]},
            "unexpected TypeError: output a must be a number, a text, a truth value or None, got",
        ),
        ({1: 1}, "unexpected TypeError: the name of an output must be a text, got 1"),
        ({"a": 10**5000}, "unexpected ValueError: Exceeds the limit"),
        (None, "unexpected AttributeError"),
    ],
)
def test_what_an_evaluation_returns(outputs: object, error: str | None) -> None:
    work = SimpleNamespace(input_sha256="", evaluate=lambda _: outputs)
    outcome = attempt(work, Point(0, {}))
    if error is None:
        assert outcome.outputs == {"a": 0.5, "b": 3, "c": True}
        assert [type(value) for value in outcome.outputs.values()] == [float, int, bool]
    else:
        assert (outcome.error or "").startswith(error)


class MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (MuteError(), "MuteError"),
        (ValueError("\ud800"), "ValueError: ?"),
        (ValueError("\n first\nsecond"), "ValueError: first"),
    ],
)
def test_error_lines(error: Exception, line: str) -> None:
    assert error_line(error) == line


@given(st.integers(0, 3000), st.lists(st.integers(1, 5000), min_size=1))
def test_chunks_cover_every_point_once(count: int, paces: list[int]) -> None:
    """However many points of a chunk come back, the others go out again."""
    backlog = Backlog(np.arange(count))
    done: list[int] = []
    for turn in range(10_000):
        if not backlog.left:
            break
        chunk = backlog.take()
        assert 1 <= len(chunk) <= MAX_CHUNK_POINTS
        fitting = min(len(chunk), paces[turn % len(paces)])
        done += chunk[:fitting]
        backlog.come_back(chunk, fitting)
    assert sorted(done) == list(range(count))


def test_a_chunk_comes_back_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 0.004  # one look before the points, three for each
        return now[0]

    monkeypatch.setattr("netplan.studies.points.perf_counter", clock)
    done = list(attempt_some(Toy(100, 0.0), range(100)))
    # The first look sets the end; each point takes 12 ms, so 20 of them end before 0.25 s.
    assert len(done) == CHUNK_S // 0.012 + 1
    assert len(list(attempt_some(Toy(100), [1]))) == 1


def test_chunks_are_as_long_as_their_time() -> None:
    backlog, sizes = Backlog(np.arange(1000)), []
    for pace in (50, 50, 50, 50, 50, 50, 50, 50, 1, 1, 1):
        chunk = backlog.take()
        backlog.come_back(chunk, min(pace, len(chunk)))
        sizes.append(len(chunk))
    # Doubled until fifty fit; 14 of 64 come again; of slow points one waits for another at most.
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 14, 50, 1, 2]


def test_progress(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    now = [0.0]
    monkeypatch.setattr("netplan.studies.run.monotonic", lambda: now[0])
    seen: list[Progress] = []
    with Store.begin(path, Toy(1000), __version__) as store:
        store.record([PointResult(index, None, "failed", 1.0) for index in range(100)])
        tracker = Tracker(store, seen.append)
        store.record([PointResult(100, {}, None, 1.0)])
        tracker.tick()
        assert seen == []  # not yet a quarter of a second
        now[0] = 10.0
        store.record([PointResult(index, {}, None, 1.0) for index in range(101, 110)])
        tracker.tick()
        tracker.tick()
    # 10 points in 10 s; 890 are left.
    assert seen == [Progress(110, 100, 1000, 10, 10.0, 890.0)]
    assert tracker.report() == seen[-1]
    assert (seen[-1].done, seen[-1].evaluated) == (110, 10)


def test_progress_comes_at_the_end(path: Path) -> None:
    seen: list[Progress] = []
    with Store.begin(path, Toy(10), __version__) as store:
        run_points(Toy(10), store, report=seen.append)
    assert (seen[-1].done, seen[-1].left_s) == (10, 0.0)

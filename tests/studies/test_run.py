"""Runs in one process: bad points, deaths of the driver, Ctrl-C, chunks, progress."""

import signal
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.studies.alone import Alone
from netplan.studies.attempt import attempt, error_line
from netplan.studies.backlog import CHUNK_S, MAX_CHUNK_POINTS, Backlog
from netplan.studies.points import Outcome, Point, Scalar
from netplan.studies.progress import Progress, Tracker
from netplan.studies.run import RunSummary, run
from netplan.studies.store import Store
from netplan.version import __version__
from tests.studies.toys import Toy, found, nothing_left, start_driver, undisturbed

KILLED = "the process was killed, probably for want of memory"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "toy.sqlite"


def errors(store: Store) -> dict[int, str | None]:
    return {outcome.index: outcome.error for outcome in store.failures(100)}


def innocent(store: Store) -> list[tuple[int, dict[str, Scalar] | None]]:
    return found([outcome for outcome in store.outcomes() if outcome.error is None])


def check_innocent(store: Store, count: int, guilty: dict[int, str | None]) -> None:
    """Failures are exactly the guilty points; every other point is as if undisturbed."""
    assert errors(store) == guilty
    assert innocent(store) == [pair for pair in undisturbed(Toy(count)) if pair[0] not in guilty]


def test_all_points_and_once_more(path: Path) -> None:
    toy = Toy(1000)
    with Store.create(path, toy, __version__) as store:
        summary = run(toy, store)
        assert summary == RunSummary(1000, 0, 1000, 1000, summary.seconds)
        assert found(list(store.outcomes())) == undisturbed(toy)
        again = run(toy, store)
        assert (again.done, again.evaluated) == (1000, 0)


def test_no_points_at_all(path: Path) -> None:
    with Store.create(path, Toy(0), __version__) as store:
        assert run(Toy(0), store).total == 0


def test_bad_points_are_outcomes_too(path: Path) -> None:
    toy = Toy(100, harm=((7, "fail"), (8, "ask"), (99, "leave")))
    with Store.create(path, toy, __version__) as store:
        assert run(toy, store).failed == 3
        found_errors = errors(store)
        check_innocent(store, 100, found_errors)
    assert list(found_errors) == [7, 8, 99]
    assert (found_errors[7] or "").startswith("ValueError: no such radix no such")
    assert len(found_errors[7] or "") == 500
    assert (found_errors[8] or "").startswith("MemoryError: Unable to allocate 8.00 PiB")
    assert found_errors[99] == "SystemExit: leaving"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to its memory")
def test_a_memory_limit_in_this_process(path: Path) -> None:
    toy = Toy(20, harm=((5, "fill"),))
    with Store.create(path, toy, __version__) as store:
        run(toy, store, memory_limit_bytes=2**28)  # the point wants 2 GiB
        assert (errors(store)[5] or "").startswith("MemoryError")
        assert len(innocent(store)) == 19
    assert np.empty(2**28).nbytes == 2**31  # the limit went with the run


def test_points_that_kill_the_driver(path: Path) -> None:
    """The first run dies; the second finds every guilty point, and dies no more."""
    arguments = (300, 0.0001, 0, "40=kill", "41=end", "250=kill", "260=fail")
    assert start_driver(path, *arguments).wait() == -signal.SIGKILL
    with Store.open(path, readonly=True) as store:
        assert 40 in store.suspects()
        assert store.counts().failed == 0
    assert start_driver(path, *arguments).wait() == 0
    with Store.open(path, readonly=True) as store:
        assert store.suspects() == {}
        ended = "the process ended itself with exit code 3"
        guilty = {40: KILLED, 41: ended, 250: KILLED, 260: errors(store)[260]}
        check_innocent(store, 300, guilty)
    assert nothing_left(path)


def test_a_point_that_kills_driver_and_child_is_given_up(path: Path) -> None:
    """A group of processes may be killed as one: then only the count of deaths is left."""
    toy = Toy(10, harm=((4, "kill"),))
    with Store.create(path, toy, __version__) as store:
        for _ in range(2):
            store.mark([3, 4, 5])  # died twice in a chunk
        for _ in range(2):
            store.mark([4])  # and twice at this point alone
        run(Toy(10), store)
        check_innocent(store, 10, {4: KILLED})


def test_suspects_are_innocent_until_they_kill(path: Path) -> None:
    toy = Toy(50)
    with Store.create(path, toy, __version__) as store:
        for _ in range(3):
            store.mark(range(10, 20))
        run(toy, store)
        assert found(list(store.outcomes())) == undisturbed(toy)
        assert store.suspects() == {}


class Broken(Toy):
    """A study that no other process can import."""

    def __reduce__(self) -> tuple[object, ...]:
        return exec, ("raise ImportError",)


def test_a_child_that_does_not_start_accuses_nobody() -> None:
    with (
        Alone(Broken(5)) as alone,
        pytest.raises(InputError, match="a process for doubtful points cannot be started"),
    ):
        list(alone.evaluate([1, 2]))


class Interrupted(Toy):
    def evaluate(self, point: Point) -> dict[str, Scalar]:
        if point.index == 30:
            raise KeyboardInterrupt
        return super().evaluate(point)


def test_ctrl_c_keeps_what_is_done(path: Path) -> None:
    toy = Interrupted(100)
    with Store.create(path, toy, __version__) as store:
        with pytest.raises(KeyboardInterrupt):
            run(toy, store)
        assert store.done().tolist() == list(range(30))
        assert store.suspects() == {}  # nobody died
        run(Toy(100), store)
        assert found(list(store.outcomes())) == undisturbed(Toy(100))


def test_full_disk_in_the_midst_of_a_run(path: Path) -> None:
    toy = Toy(5000)
    with Store.create(path, toy, __version__) as store:
        store._connection.execute("PRAGMA max_page_count = 30")
        with pytest.raises(InputError, match=r"the disk is full: make room; .* resume` goes on"):
            run(toy, store)
        done = store.counts().done
        assert 0 < done < 5000
        assert found(list(store.outcomes())) == undisturbed(Toy(done))
    with Store.open(path) as store:
        assert run(toy, store).done == 5000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": -1}, r"--workers: 0 \(this process alone\) or more, got -1"),
        ({"workers": 2, "scheduler": "tcp://a:1"}, "--workers and --scheduler exclude each other"),
        ({"memory_limit_bytes": 1000}, r"must be at least 256,000,000 B, .*, got 1,000 B"),
    ],
)
def test_options(path: Path, options: dict[str, int], message: str) -> None:
    with (
        Store.create(path, Toy(3), __version__) as store,
        pytest.raises(InputError, match=message),
    ):
        run(Toy(3), store, **options)  # type: ignore[arg-type]


def test_a_store_of_another_version(path: Path) -> None:
    with (
        Store.create(path, Toy(3), "0.0.9") as store,
        pytest.raises(InputError, match=r"made by netplan 0.0.9, this is"),
    ):
        run(Toy(3), store)


@pytest.mark.parametrize("options", [{"workers": 1}, {"scheduler": "tcp://127.0.0.1:9"}])
def test_without_dask(path: Path, options: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    message = rf"^--{next(iter(options))} needs Dask: pip install 'netplan-toolkit\[cluster\]'$"
    with (
        Store.create(path, Toy(3), __version__) as store,
        pytest.raises(InputError, match=message),
    ):
        run(Toy(3), store, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outputs", "error"),
    [
        ({"a": np.float64(0.5), "b": np.int64(3), "c": np.bool_(1)}, None),
        ({"a": [1]}, "TypeError: output a must be a number, a text, a truth value or None, got"),
        ({1: 1}, "TypeError: the name of an output must be a text, got 1"),
        ({"a": 10**5000}, "ValueError: Exceeds the limit"),
        (None, "AttributeError"),
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


@given(
    st.integers(0, 3000),
    st.integers(1, 8),
    st.lists(st.floats(1e-7, 10), min_size=1, max_size=20),
)
def test_chunks_cover_every_point_once(count: int, slots: int, costs_s: list[float]) -> None:
    backlog = Backlog(np.arange(count))
    taken: list[int] = []
    turn = 0
    while backlog.left:
        chunk = backlog.take(slots)
        assert 1 <= len(chunk) <= MAX_CHUNK_POINTS
        taken += chunk
        backlog.learn(len(chunk), len(chunk) * costs_s[turn % len(costs_s)])
        turn += 1
    assert taken == list(range(count))


@pytest.mark.parametrize("cost_s", [0.003, 0.1, 5.0])
def test_chunks_grow_to_about_a_second(cost_s: float) -> None:
    backlog = Backlog(np.arange(100_000))
    sizes = []
    for _ in range(12):
        sizes.append(len(backlog.take(4)))
        backlog.learn(sizes[-1], sizes[-1] * cost_s)
    assert sizes[0] == 1
    assert all(after <= 4 * before for before, after in pairwise(sizes))
    assert sizes[-1] == pytest.approx(max(1, CHUNK_S / cost_s), rel=0.11)  # whole points


def test_the_last_chunks_are_shared_out() -> None:
    backlog = Backlog(np.arange(80))
    backlog.learn(1000, 0.001)
    assert len(backlog.take(4)) == 10  # 80 points, 4 slots, 2 chunks each


def test_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("netplan.studies.progress.monotonic", lambda: now[0])
    seen: list[Progress] = []
    tracker = Tracker(100, 10, 1000, seen.append)
    outcome = Outcome(0, None, "failed", 1.0)
    tracker.count([outcome])
    assert seen == []  # not yet a quarter of a second
    now[0] = 10.0
    tracker.count([outcome] * 9)
    tracker.count([outcome])
    assert tracker.evaluated == 11
    # 9 points in the 10 s since the first one; 890 are left.
    assert seen == [Progress(110, 20, 1000, 10.0, 890 / 0.9, 0.9)]
    tracker.finish()
    assert seen[-1].done == 111


def test_progress_comes_at_the_end(path: Path) -> None:
    seen: list[Progress] = []
    with Store.create(path, Toy(10), __version__) as store:
        run(Toy(10), store, progress=seen.append)
    assert (seen[-1].done, seen[-1].left_s) == (10, 0.0)

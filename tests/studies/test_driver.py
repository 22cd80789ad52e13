"""Whom the driver blames when workers die, where a point kills its fellows on other workers too."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.studies.points import Point, PointResult, attempt_some
from netplan.studies.run import MAX_DEATHS, Progress, Resources, StudyDriver, Tracker, run_points
from netplan.studies.store import Store
from netplan.studies.workers import LocalWorkers, WorkerDiedError, evaluate
from netplan.version import __version__
from tests.studies.toys import Toy, check_innocent, done_points, errors, found, undisturbed

POINTS = 300
TOY = Toy(POINTS)
Done = Future[list[PointResult]]


class DeadlyWorkers:
    """All chunks that are there together die together if one of their points is guilty.

    So it is where the kernel ends a whole container.
    """

    same_machine = True
    count = 3

    def __init__(self, guilty: set[int], error: BaseException) -> None:
        self.guilty, self.error, self.deaths = guilty, error, 0
        self.waiting: list[tuple[Done, Sequence[int]]] = []
        self.alone: list[int] = []

    def room(self) -> int:
        return self.count

    def wait(self, futures: Iterable[Done], *_: object) -> tuple[set[Done], None]:
        """Let what is under way come back."""
        deadly = any(self.guilty.intersection(chunk) for _, chunk in self.waiting)
        self.deaths += deadly
        for future, chunk in self.waiting:
            if deadly:
                future.set_exception(self.error)
            else:
                future.set_result(list(attempt_some(TOY, chunk)))
        self.waiting = []
        return set(futures), None

    def submit(self, chunk: Sequence[int], *, alone: bool) -> Done:
        future = Done()
        self.waiting.append((future, chunk))
        if alone:
            assert len(self.waiting) == len(chunk) == 1
            self.alone.append(chunk[0])
        return future

    def result(self, future: Done) -> list[PointResult]:
        return future.result()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    return lambda: tmp_path_factory.mktemp("store")


@settings(max_examples=15, deadline=None)
@given(guilty=st.sets(st.integers(0, POINTS - 1), max_size=3))
def test_only_the_guilty_are_blamed(folders: Callable[[], Path], guilty: set[int]) -> None:
    toy, workers = TOY, DeadlyWorkers(guilty, WorkerDiedError())
    with (
        Store.begin(folders() / "toy.sqlite", toy, __version__) as store,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("netplan.studies.run.wait", workers.wait)
        assert not any(
            StudyDriver(cast("LocalWorkers", workers), toy, store).steps()
        )  # yields None
        assert {outcome.index for outcome in store.failures(POINTS)} == guilty
        innocent = [outcome for outcome in store.outcomes() if outcome.error is None]
        assert found(innocent) == [pair for pair in undisturbed(toy) if pair[0] not in guilty]
        assert store.counts() == (POINTS, len(guilty))
        assert store.suspects() == {}
    assert workers.deaths <= MAX_DEATHS * len(guilty)


def test_what_is_there_is_kept_when_the_rest_is_lost(tmp_path: Path) -> None:
    """Two chunks come back, a third says that the scheduler has gone."""
    toy, workers = TOY, DeadlyWorkers(set(), InputError("gone"))
    with Store.begin(tmp_path / "toy.sqlite", toy, __version__) as store:
        driver = StudyDriver(cast("LocalWorkers", workers), toy, store)
        driver._give_out()
        lost = workers.waiting.pop(1)
        workers.wait([])
        lost[0].set_exception(workers.error)
        with pytest.raises(InputError, match="gone"):
            driver._take_in(set(driver._under_way))
        assert done_points(store) == [0, 2]


def test_progress_is_told_while_nothing_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers, waits, told = DeadlyWorkers(set(), WorkerDiedError()), count(), list[Progress]()

    def wait(futures: Iterable[Done], *_: object) -> tuple[set[Done], None]:
        return (set(), None) if next(waits) < 3 else workers.wait(futures)

    monkeypatch.setattr("netplan.studies.run.wait", wait)
    monkeypatch.setattr("netplan.studies.run.POLL_S", 0.0)
    with Store.begin(tmp_path / "toy.sqlite", TOY, __version__) as store:
        tracker = Tracker(store, told.append)
        for _ in StudyDriver(cast("LocalWorkers", workers), TOY, store).steps():
            tracker.tick()
    assert [progress.done for progress in told].count(0) >= 3
    assert told[-1].done == POINTS


class Greedy(Toy):
    """A study whose points leave no memory for their messages."""

    def points(self, indices: Sequence[int]) -> list[Point]:
        if 7 in indices and str(os.getpid()) != self.name:  # not in the driver
            raise MemoryError
        return super().points(indices)


@pytest.mark.slow
def test_memory_that_lacks_beside_the_points(tmp_path: Path) -> None:
    toy = Greedy(40, name=str(os.getpid()))
    with Store.begin(tmp_path / "toy.sqlite", toy, __version__) as store:
        run_points(toy, store, Resources(1))
        assert errors(store) == {7: "the process was killed, probably for want of memory"}
        check_innocent(store, 40)


class Foreign(Toy):
    """A study that the workers do not have."""

    def __reduce__(self) -> tuple[object, ...]:
        return exec, ("import bill_of_a_neighbour",)


def test_a_study_that_the_workers_cannot_import(tmp_path: Path) -> None:
    toy = Foreign(9)
    workers = LocalWorkers(toy, 1, None)
    with Store.begin(tmp_path / "toy.sqlite", toy, __version__) as store:
        message = "the workers cannot run the study: ModuleNotFoundError: No module named 'bill_of"
        with pytest.raises(InputError, match=message):
            list(StudyDriver(workers, toy, store).steps())
        assert store.suspects() == {}
    workers.close()


def test_another_netplan_on_the_workers() -> None:
    message = f"a worker has netplan {__version__}, the driver 9.9: install the same version"
    with pytest.raises(InputError, match=message):
        evaluate(b"", "9.9", [1], None)

"""Whom the driver blames when workers die, against a cluster in which a point kills its fellows."""

import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from types import SimpleNamespace
from typing import cast

import pytest
from distributed import Client, KilledWorker
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.studies.driver import Driver
from netplan.studies.progress import Tracker
from netplan.studies.store import Store
from netplan.studies.tasks import evaluate_chunk
from netplan.version import __version__
from tests.studies.toys import Toy, found, undisturbed

POINTS = 300


class FakeFuture:
    """A chunk that comes back with its outcomes, or with the death of its worker."""

    def __init__(self, indices: list[int]) -> None:
        self.indices = indices
        self.status = "pending"
        self.outcomes = b""
        self.callback: Callable[[FakeFuture], None] = lambda _: None

    def add_done_callback(self, callback: "Callable[[FakeFuture], None]") -> None:
        self.callback = callback

    def result(self) -> bytes:
        if self.status == "error":
            worker = SimpleNamespace(address="tcp://worker")
            raise KilledWorker("chunk", worker, 0)  # type: ignore[arg-type]
        return self.outcomes


class DeadlyCluster:
    """All chunks that are there together die together if one of their points is guilty.

    So it is where the kernel ends a whole container; no child process is a shelter there.
    """

    status = "running"

    def __init__(self, guilty: set[int]) -> None:
        self.guilty = guilty
        self.deaths = 0
        self._waiting: SimpleQueue[FakeFuture | None] = SimpleQueue()
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def ncores(self) -> dict[str, int]:
        return {"tcp://worker": 2}

    def submit(self, _: object, work: bytes, version: str, *chunk: object, **__: object) -> object:
        indices = cast("list[int]", chunk[0])
        future = FakeFuture(indices)
        future.outcomes = evaluate_chunk(work, version, indices)
        self._waiting.put(future)
        return future

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while True:
            together = [self._waiting.get()]
            time.sleep(0.002)  # for as many as the driver sends at a time
            try:
                while True:
                    together.append(self._waiting.get_nowait())
            except Empty:
                pass
            futures = [future for future in together if future is not None]
            deadly = any(self.guilty.intersection(future.indices) for future in futures)
            self.deaths += deadly
            for future in futures:
                future.status = "error" if deadly else "finished"
                future.callback(future)
            if None in together:
                return


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    return lambda: tmp_path_factory.mktemp("store")


@settings(max_examples=15, deadline=None)
@given(guilty=st.sets(st.integers(0, POINTS - 1), max_size=3))
def test_only_the_guilty_are_blamed(folders: Callable[[], Path], guilty: set[int]) -> None:
    toy, cluster = Toy(POINTS), DeadlyCluster(guilty)
    with Store.create(folders() / "toy.sqlite", toy, __version__) as store:
        tracker = Tracker(0, 0, POINTS, None)
        Driver(cast("Client", cluster), toy, store, tracker).drive()
        cluster.close()
        assert {outcome.index for outcome in store.failures(POINTS)} == guilty
        innocent = [outcome for outcome in store.outcomes() if outcome.error is None]
        assert found(innocent) == [pair for pair in undisturbed(toy) if pair[0] not in guilty]
        assert (tracker.done, tracker.failed) == (POINTS, len(guilty))
    # A guilty point: three deaths in chunks of at most 300 / (2 * 2) = 75 points, two more while 75
    # are split into tens and tens into twos, two alone.
    assert cluster.deaths <= 7 * len(guilty)

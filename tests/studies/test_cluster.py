"""Runs on a real Dask cluster of two processes: bad points, lost schedulers, Ctrl-C."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from netplan.errors import InputError
from netplan.studies.local import LocalCluster
from netplan.studies.run import run
from netplan.studies.store import Store
from netplan.version import __version__
from tests.studies.toys import (
    Toy,
    found,
    nothing_left,
    processes_of,
    rows,
    start_driver,
    undisturbed,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(2, None, tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "toy.sqlite"


def errors(store: Store) -> dict[int, str | None]:
    return {outcome.index: outcome.error for outcome in store.failures(100)}


def check_innocent(store: Store, count: int) -> None:
    """Every point is there; each that did not fail is as if undisturbed."""
    expected, guilty = undisturbed(Toy(count)), errors(store)
    outcomes = [outcome for outcome in store.outcomes() if outcome.error is None]
    assert store.counts() == (count, len(guilty))
    assert found(outcomes) == [pair for pair in expected if pair[0] not in guilty]


def test_bad_points_on_a_scheduler_that_is_there(path: Path, cluster: LocalCluster) -> None:
    harm = ((7, "fail"), (50, "kill"), (60, "ask"), (61, "leave"), (300, "end"))
    toy = Toy(400, 0.002, harm)
    with Store.create(path, toy, __version__) as store:
        summary = run(toy, store, scheduler=cluster.address)
        assert (summary.done, summary.failed) == (400, 5)
        guilty = errors(store)
        assert guilty[50] == "the process was killed, probably for want of memory"
        assert guilty[300] == "the process ended itself with exit code 3"
        assert [(guilty[index] or "").split(":")[0] for index in (7, 60, 61)] == [
            "ValueError",
            "MemoryError",
            "SystemExit",
        ]
        check_innocent(store, 400)


def test_a_point_that_fills_the_memory_of_a_worker(path: Path) -> None:
    """Dask's nanny kills the worker; alone, the point meets the limit itself."""
    toy = Toy(40, harm=((5, "fill"),))
    with Store.create(path, toy, __version__) as store:
        run(toy, store, workers=1, memory_limit_bytes=500_000_000)
        assert list(errors(store)) == [5]
        assert (errors(store)[5] or "").startswith("MemoryError")
        check_innocent(store, 40)


def test_another_netplan_on_the_workers(
    path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("netplan.studies.driver.__version__", "9.9")
    message = f"a worker has netplan {__version__}, the driver 9.9: install the same version"
    with (
        Store.create(path, Toy(9), __version__) as store,
        pytest.raises(InputError, match=message),
    ):
        run(Toy(9), store, scheduler=cluster.address)


class Foreign(Toy):
    """A study that the workers do not have."""

    def __reduce__(self) -> tuple[object, ...]:
        return exec, ("import bill_of_a_neighbour",)


def test_a_study_that_the_workers_cannot_import(path: Path, cluster: LocalCluster) -> None:
    message = "the workers cannot run the study: ModuleNotFoundError: No module named 'bill_of_a_"
    with (
        Store.create(path, Toy(9), __version__) as store,
        pytest.raises(InputError, match=message),
    ):
        run(Foreign(9), store, scheduler=cluster.address)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "carrier-pigeon://roof"])
def test_nobody_answers(path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netplan.studies.cluster.CONNECT_S", 0.5)
    message = f"^--scheduler {address}: nobody answers there: start one with `dask scheduler`, .*$"
    with (
        Store.create(path, Toy(9), __version__) as store,
        pytest.raises(InputError, match=message),
    ):
        run(Toy(9), store, scheduler=address)


def test_the_scheduler_goes_away(path: Path) -> None:
    toy = Toy(5000, 0.002)
    message = r"the scheduler has gone: start it again; what is done is kept, and `netplan study"
    with LocalCluster(2, None, path) as cluster, Store.create(path, toy, __version__) as store:

        def kill_in_the_midst() -> None:
            while not rows(path):
                time.sleep(0.02)
            os.kill(cluster._host.pid, signal.SIGKILL)

        killer = Thread(target=kill_in_the_midst)
        killer.start()
        with pytest.raises(InputError, match=message):
            run(toy, store, scheduler=cluster.address)
        killer.join()
        done = store.counts().done
        assert 0 < done < 5000
        expected = undisturbed(Toy(5000))
        assert found(list(store.outcomes())) == [expected[index] for index in store.done()]


def test_a_scheduler_without_workers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netplan.studies.driver.NO_WORKERS_S", 0.1)
    monkeypatch.setattr("netplan.studies.driver.WORKERS_POLL_S", 0.1)
    message = r"no worker has been there for two minutes: start some with `dask worker tcp://"
    with (
        LocalCluster(0, None, path) as cluster,
        Store.create(path, Toy(9), __version__) as store,
        pytest.raises(InputError, match=message),
    ):
        run(Toy(9), store, scheduler=cluster.address)


def test_a_cluster_that_does_not_start(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netplan.studies.local.HOST", "netplan.no_such_module")
    message = r"10 local clusters in turn ended before .* \(it gave no sign of life\): check that"
    with (
        Store.create(path, Toy(9), __version__) as store,
        pytest.raises(InputError, match=message),
    ):
        run(Toy(9), store, workers=1)


def test_ctrl_c_ends_all_processes_and_keeps_what_is_done(path: Path) -> None:
    driver = start_driver(path, 2000, 0.002, 2)
    while not rows(path):
        assert driver.poll() is None
        time.sleep(0.02)
    driver.send_signal(signal.SIGINT)
    assert driver.wait() == 130
    assert nothing_left(path), processes_of(path)
    assert 0 < rows(path) < 2000
    assert start_driver(path, 2000, 0.0, 0).wait() == 0
    with Store.open(path) as store:
        check_innocent(store, 2000)

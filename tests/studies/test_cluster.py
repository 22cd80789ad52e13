"""Runs on a real Dask cluster of two processes: bad points, lost schedulers, wrong addresses."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from netplan.errors import InputError
from netplan.studies.run import Resources, run_points
from netplan.studies.store import Store
from netplan.version import __version__
from tests.studies.toys import (
    ROOT,
    Toy,
    check_innocent,
    done_points,
    errors,
    found,
    rows,
    undisturbed,
)

CLUSTER = """
import sys
import dask
from distributed import LocalCluster
if __name__ == "__main__":
    dask.config.set({"distributed.scheduler.allowed-failures": int(sys.argv[2])})
    cluster = LocalCluster(
        n_workers=int(sys.argv[1]), threads_per_worker=1, memory_limit=int(sys.argv[3]),
        dashboard_address=None,
    )
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
    cluster.close()
"""


@contextmanager
def dask_cluster(
    folder: Path, workers: int = 2, failures: int = 0, memory_bytes: int = 4 << 30
) -> Iterator[tuple[str, int]]:
    """Address and process id of a cluster; a process of its own, which ends with its input."""
    script = folder / "cluster.py"
    script.write_text(CLUSTER, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, str(script), str(workers), str(failures), str(memory_bytes)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        assert process.stdout
        yield process.stdout.readline().decode().strip(), process.pid
        assert process.stdin
        process.stdin.close()
        try:
            process.wait(20)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with dask_cluster(tmp_path_factory.mktemp("cluster")) as (address, _):
        yield address


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "toy.sqlite"


@pytest.mark.slow
def test_bad_points(path: Path, address: str) -> None:
    harm = ((7, "fail"), (50, "kill"), (60, "ask"), (61, "leave"), (300, "end"))
    toy = Toy(400, 0.002, harm)
    with Store.begin(path, toy, __version__) as store:
        ended = run_points(toy, store, Resources(scheduler=address))
        assert (ended.done, ended.failed) == (400, 5)
        guilty = errors(store)
        assert guilty[50] == guilty[300] == "the process was killed, probably for want of memory"
        kinds = [guilty[index].split(":")[0] for index in (7, 60, 61)]
        assert kinds == ["unexpected ValueError", "MemoryError", "unexpected SystemExit"]
        check_innocent(store, 400)


@pytest.mark.slow
def test_a_point_that_fills_the_memory_of_a_worker(path: Path) -> None:
    """Dask's nanny kills the worker; alone, the point meets the limit itself."""
    toy = Toy(40, harm=((5, "fill"),))
    with (
        dask_cluster(path.parent, 1, memory_bytes=500_000_000) as (address, _),
        Store.begin(path, toy, __version__) as store,
    ):
        run_points(toy, store, Resources(scheduler=address))
        assert list(errors(store)) == [5]
        assert errors(store)[5].startswith("MemoryError")
        check_innocent(store, 40)


@pytest.mark.slow
def test_the_scheduler_goes_away_and_comes_back(path: Path) -> None:
    toy = Toy(5000, 0.002)
    message = r"the scheduler has gone: start it again; what is done is kept, and `netplan study"
    with dask_cluster(path.parent) as (address, pid), Store.begin(path, toy, __version__) as store:

        def kill_in_the_midst() -> None:
            while not rows(path):
                time.sleep(0.02)
            os.kill(pid, signal.SIGKILL)

        killer = Thread(target=kill_in_the_midst)
        killer.start()
        with pytest.raises(InputError, match=message):
            run_points(toy, store, Resources(scheduler=address))
        killer.join()
        done = store.counts().done
        assert 0 < done < 5000
        expected = undisturbed(Toy(5000))
        assert found(list(store.outcomes())) == [expected[index] for index in done_points(store)]
    with (
        dask_cluster(path.parent) as (address, _),
        Store.begin(path, Toy(5000), __version__) as store,
    ):
        assert run_points(Toy(5000), store, Resources(scheduler=address)).evaluated == 5000 - done
        check_innocent(store, 5000)


@pytest.mark.slow
def test_a_scheduler_without_workers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netplan.studies.workers.NO_WORKERS_S", 0.1)
    monkeypatch.setattr("netplan.studies.workers.LOOK_S", 0.1)
    message = r"no worker has been there for two minutes: start some with `dask worker tcp://"
    with (
        dask_cluster(path.parent, 0) as (address, _),
        Store.begin(path, Toy(9), __version__) as store,
        pytest.raises(InputError, match=message),
    ):
        run_points(Toy(9), store, Resources(scheduler=address))


@pytest.mark.slow
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "carrier-pigeon://roof"])
def test_nobody_answers(path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netplan.studies.workers.CONNECT_S", 0.5)
    message = f"^--scheduler {address}: nobody answers there: start one with `dask scheduler`, .*$"
    with Store.begin(path, Toy(9), __version__) as store, pytest.raises(InputError, match=message):
        run_points(Toy(9), store, Resources(scheduler=address))


def test_without_dask(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A core install has workers; only a scheduler wants Dask."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    message = r"^--scheduler needs Dask: pip install 'netplan-toolkit\[cluster\]'$"
    with Store.begin(path, Toy(3), __version__) as store:
        with pytest.raises(InputError, match=message):
            run_points(Toy(3), store, Resources(scheduler="tcp://127.0.0.1:9"))
        assert run_points(Toy(3), store, Resources(workers=1)).done == 3

"""Processes of this machine: points that do harm, Ctrl-C, deaths at the start, nothing left."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from netplan.errors import InputError
from netplan.reports.quantities import Scalar
from netplan.studies.points import Point
from netplan.studies.run import Resources, run_points
from netplan.studies.store import Store
from netplan.version import __version__
from tests.studies.toys import (
    ROOT,
    Toy,
    check_innocent,
    errors,
    found,
    nothing_left,
    processes_of,
    rows,
    start_driver,
    undisturbed,
)

KILLED = "the process was killed, probably for want of memory"
ENDED = "the process ended itself with exit code 3"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "toy.sqlite"


def test_bad_points(path: Path) -> None:
    harm = ((7, "fail"), (50, "kill"), (60, "ask"), (61, "leave"), (62, "fill"), (300, "end"))
    toy = Toy(400, 0.0, harm)
    with Store.begin(path, toy, __version__) as store:
        ended = run_points(toy, store, Resources(2, memory_limit_bytes=500_000_000))
        assert (ended.done, ended.failed) == (400, 6)
        guilty = errors(store)
        assert (guilty[50], guilty[300]) == (KILLED, ENDED)
        kinds = [guilty[index].split(":")[0] for index in (7, 60, 61, 62)]
        assert kinds == [
            "unexpected ValueError",
            "MemoryError",
            "unexpected SystemExit",
            "MemoryError",
        ]
        check_innocent(store, 400)


@pytest.mark.slow
def test_points_that_kill_the_driver(path: Path) -> None:
    """The first run dies; the second finds every guilty point, and dies no more."""
    arguments = (300, 0.0001, 0, "40=kill", "41=end", "250=kill", "260=fail")
    assert start_driver(path, *arguments).wait() == -signal.SIGKILL
    with Store.open(path) as store:
        assert 40 in store.suspects()
        assert store.counts().failed == 0
    assert start_driver(path, *arguments).wait() == 0
    with Store.open(path) as store:
        guilty = errors(store)
        assert guilty == {40: KILLED, 41: ENDED, 250: KILLED, 260: guilty[260]}
        check_innocent(store, 300)
    assert nothing_left(path)


def test_processes_that_do_not_start(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netplan.studies.workers.WORKER", "import os; os.abort()")
    monkeypatch.setattr("netplan.studies.workers.FAILED_STARTS", 2)
    message = r"--workers: 2 processes in turn ended before their first point \(the process was "
    with Store.begin(path, Toy(9), __version__) as store:
        with pytest.raises(InputError, match=message):
            run_points(Toy(9), store, Resources(1))
        assert store.suspects() == {}  # nobody is accused


def test_a_machine_without_room_for_a_process(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("netplan.studies.workers._Process", full)
    message = r"^--workers: no process can be started \(Resource temporarily unavailable\): end "
    with Store.begin(path, Toy(9), __version__) as store, pytest.raises(InputError, match=message):
        run_points(Toy(9), store, Resources(1))


def test_half_an_answer_is_a_death(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = r"import os; os.write({handle}, b'\0\0\1\0half'); os._exit(3)"
    monkeypatch.setattr("netplan.studies.workers.WORKER", half)
    with (
        Store.begin(path, Toy(9), __version__) as store,
        pytest.raises(InputError, match=r"10 processes in turn .* \(the process ended itself with"),
    ):
        run_points(Toy(9), store, Resources(1))


class Wordy(Toy):
    def evaluate(self, point: Point) -> dict[str, Scalar]:
        return {"text": f"{point.index}" * 1_000_000}


def test_answers_longer_than_a_pipe_holds(path: Path) -> None:
    with Store.begin(path, Wordy(5), __version__) as store:
        run_points(Wordy(5), store, Resources(1))
        assert found(list(store.outcomes())) == undisturbed(Wordy(5))


@pytest.mark.slow
def test_ctrl_c_ends_all_processes_and_keeps_what_is_done(path: Path) -> None:
    driver = start_driver(path, 2000, 0.002, 2)
    while not rows(path):
        assert driver.poll() is None
        time.sleep(0.02)
    for pid in sorted(processes_of(path), reverse=True):  # as a terminal does, to all of them
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
    assert driver.wait() == 130
    assert nothing_left(path), processes_of(path)
    with Store.open(path) as store:
        assert 0 < store.counts().done < 2000
        assert store.suspects() == {}  # nobody died
    assert start_driver(path, 2000, 0.0, 0).wait() == 0
    with Store.open(path) as store:
        check_innocent(store, 2000)


@pytest.mark.slow
def test_a_script_without_a_guard_runs_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import netplan\n"
        "print('once')\n"
        "found = netplan.study('batch-size', vary={'hb_size': [8]}, workers=1)\n"
        "print(len(found.rows), found.complete)\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("once\n5 True\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_command_says_how_to_go_on_after_ctrl_c(tmp_path: Path, workers: str) -> None:
    vary = "hb_size=" + ",".join(map(str, range(1, 4000)))
    store = tmp_path / "mine.study"
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "netplan", "study", "run", "batch-size", "--vary", vary),
            *("--store", str(store), "--workers", workers),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    ) as run_:
        while not rows(store):
            assert run_.poll() is None
            time.sleep(0.02)
        run_.send_signal(signal.SIGINT)
        _, said = run_.communicate()
    assert run_.returncode == 130
    assert "batch-size: 19,995 points at about " in said  # 5 batches
    assert f"\nstopped; what is done is kept: netplan study resume {store}\n" in said
    assert "Traceback" not in said

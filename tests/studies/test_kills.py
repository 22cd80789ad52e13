"""`kill -9` of anything at any moment: the study ends complete, each point once, as if undisturbed.

Moments are random, but tied to how far the study is, so that all ten come on any machine.
"""

import os
import random
import signal
import sqlite3
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from netplan.studies.store import Store
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
POINTS = 10_000
KILLS = 10
# The tenth kill comes when 7,650 points are done, and the last chunks are smaller than the rest.
POINTS_A_KILL = 850


def wait_for_rows(path: Path, count: int, driver: subprocess.Popen[bytes]) -> None:
    while rows(path) < count:
        assert driver.poll() is None
        time.sleep(0.02)


def check_complete(path: Path) -> None:
    with Store.open(path) as store:
        assert store.counts() == (POINTS, 0)
        assert found(list(store.outcomes())) == undisturbed(Toy(POINTS))
        assert store.suspects() == {}
    assert nothing_left(path), processes_of(path)


@pytest.mark.slow
def test_ten_kills_of_a_driver_that_works_alone(tmp_path: Path) -> None:
    path, moments = tmp_path / "toy.sqlite", random.Random(1)  # noqa: S311
    kills = 0
    while True:
        driver = start_driver(path, POINTS, 0.0003, 0)
        if kills == KILLS:
            break
        wait_for_rows(path, kills * POINTS_A_KILL, driver)
        time.sleep(moments.uniform(0.0, 0.6))
        driver.kill()
        kills += driver.wait() == -signal.SIGKILL
    assert driver.wait() == 0
    check_complete(path)


@pytest.mark.slow
def test_ten_kills_of_workers_and_driver(tmp_path: Path) -> None:
    path, moments = tmp_path / "toy.sqlite", random.Random(2)  # noqa: S311
    victims = ["worker"] * 7 + ["driver"] * 3
    moments.shuffle(victims)
    driver = start_driver(path, POINTS, 0.001, 2)
    for kill, victim in enumerate(victims):
        wait_for_rows(path, kill * POINTS_A_KILL, driver)
        time.sleep(moments.uniform(0.0, 0.3))
        assert driver.poll() is None
        if victim == "driver":
            driver.kill()
            driver.wait()
            driver = start_driver(path, POINTS, 0.001, 2)
        else:
            kill_a_worker(path, moments, driver)
    assert driver.wait() == 0
    check_complete(path)


@pytest.mark.slow
def test_kills_of_one_of_two_drivers_and_damaged_rows(tmp_path: Path) -> None:
    path, moments = tmp_path / "toy.sqlite", random.Random(3)  # noqa: S311
    for kill in range(KILLS // 2):
        drivers = [start_driver(path, POINTS, 0.0003, 0) for _ in range(2)]
        while all(driver.poll() is None for driver in drivers):
            time.sleep(0.01)
        (holder,) = (driver for driver in drivers if driver.poll() is None)
        wait_for_rows(path, kill * POINTS_A_KILL, holder)
        time.sleep(moments.uniform(0.0, 0.3))
        holder.kill()
        assert holder.wait() == -signal.SIGKILL
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE outcomes SET seconds = seconds + 1 WHERE point % 100 = 7")
        connection.close()
        with Store.open(path) as store:
            assert {point % 100 for point in store.damaged} <= {7}
    assert start_driver(path, POINTS, 0.0003, 0).wait() == 0
    check_complete(path)


def kill_a_worker(path: Path, moments: random.Random, driver: subprocess.Popen[bytes]) -> None:
    """Kill a worker as soon as there is one."""
    while True:
        assert driver.poll() is None
        pids = [pid for pid, line in processes_of(path).items() if "serve(" in line]
        with suppress(ProcessLookupError):
            if pids:
                os.kill(moments.choice(pids), signal.SIGKILL)
                return
        time.sleep(0.02)

"""Small studies for the tests of the runner: quick points, slow points, points that do harm."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

import numpy as np

from netplan.errors import InputError
from netplan.reports.quantities import Scalar
from netplan.studies.points import Point, PointResult
from netplan.studies.run import Progress, Resources, run_points
from netplan.studies.store import Store
from netplan.version import __version__

ROOT = Path(__file__).parents[2]
DRIVER = "from tests.studies.toys import main; main()"


@dataclass(frozen=True)
class Toy:
    """Squares; a point in ``harm`` does what stands there instead."""

    point_count: int
    busy_s: float = 0.0
    harm: tuple[tuple[int, str], ...] = ()
    name: str = "toy"
    input_sha256: str = "a1b2"

    @property
    def definition(self) -> str:
        return f'{{"points":{self.point_count}}}'

    def sha256_of(self, _: str) -> str:
        return self.input_sha256

    def points(self, indices: Sequence[int]) -> list[Point]:
        return [Point(index, {"x": index}) for index in indices]

    def evaluate(self, point: Point) -> dict[str, Scalar]:
        until = time.perf_counter() + self.busy_s
        harm = dict(self.harm).get(point.index)
        while time.perf_counter() < until:
            pass
        if harm is not None:
            HARMS[harm]()
        x = point.index
        return {"square": x * x, "third": x / 3, "even": x % 2 == 0, "text": f"point {x}"}


def fail() -> None:
    raise ValueError(f"{'no such radix ' * 100}\nand a second line")


def kill_itself() -> None:
    os.kill(os.getpid(), SIGKILL)


def end_itself() -> None:
    os._exit(3)


def ask_too_much() -> None:
    np.ones(2**50)


def fill_memory() -> None:
    held = [np.ones(2**22) for _ in range(64)]  # 2 GiB in all, more than any test allows
    time.sleep(20)
    raise AssertionError(len(held))


def leave() -> None:
    sys.exit("leaving")


HARMS = {
    "fail": fail,
    "kill": kill_itself,
    "end": end_itself,
    "ask": ask_too_much,
    "fill": fill_memory,
    "leave": leave,
}


def undisturbed(toy: Toy) -> list[tuple[int, dict[str, Scalar]]]:
    """Outcomes of a toy without harm, worked out here and now."""
    return [(point.index, toy.evaluate(point)) for point in toy.points(range(toy.point_count))]


def found(outcomes: list[PointResult]) -> list[tuple[int, dict[str, Scalar] | None]]:
    """What must be equal, whatever was killed: all but the time it took."""
    return [(outcome.index, outcome.outputs) for outcome in outcomes]


def run_or_resume(path: Path, toy: Toy, workers: int = 0) -> Progress:
    """Go on with the store of a toy, or make it."""
    with Store.begin(path, toy, __version__) as store:
        return run_points(toy, store, Resources(workers))


def done_points(store: Store) -> list[int]:
    """Points that have an outcome."""
    return [outcome.index for outcome in store.outcomes()]


def errors(store: Store) -> dict[int, str]:
    """Errors of the points that failed, by their index."""
    return {outcome.index: str(outcome.error) for outcome in store.failures(100)}


def check_innocent(store: Store, count: int) -> None:
    """Every point is there; each that did not fail is as if undisturbed."""
    expected, guilty = undisturbed(Toy(count)), errors(store)
    outcomes = [outcome for outcome in store.outcomes() if outcome.error is None]
    assert store.counts() == (count, len(guilty))
    assert found(outcomes) == [pair for pair in expected if pair[0] not in guilty]
    assert store.suspects() == {}


def rows(path: Path) -> int:
    """Outcomes that a reader sees, while a driver works or after it was killed."""
    try:
        with Store.open(path) as store:
            return store.counts().done
    except InputError:
        return 0  # not there yet


def main() -> None:
    """Be a driver: ``STORE POINTS BUSY_S WORKERS [INDEX=HARM ...]``; Ctrl-C ends it with 130."""
    path, count, busy_s, workers, *harms = sys.argv[1:]
    harm = tuple((int(index), kind) for index, kind in (text.split("=") for text in harms))
    try:
        run_or_resume(Path(path), Toy(int(count), float(busy_s), harm), int(workers))
    except KeyboardInterrupt:
        sys.exit(130)


def start_driver(path: Path, *arguments: object) -> subprocess.Popen[bytes]:
    """Start a driver on a store; its temporary folder is marked, to know its processes by."""
    path.with_suffix(".tmp").mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(path), *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(path.with_suffix(".tmp"))},
    )


def processes_of(path: Path) -> dict[int, str]:
    """Command lines of all processes that a driver of this store has started, and its own."""
    mark = f"TMPDIR={path.with_suffix('.tmp')}".encode()
    found = {}
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and mark in (process / "environ").read_bytes().split(b"\0"):
                found[int(process.name)] = (process / "cmdline").read_bytes().decode()
        except OSError:
            continue  # it has ended meanwhile, or belongs to somebody else
    return {pid: line for pid, line in found.items() if line}  # a zombie has no command line


def nothing_left(path: Path) -> bool:
    """Whether all processes of the drivers end, and their temporary folders are gone."""
    for _ in range(200):
        if not processes_of(path) and not list(path.with_suffix(".tmp").iterdir()):
            return True
        time.sleep(0.1)
    return False

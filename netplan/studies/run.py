"""Runs a study: in this process, on a local cluster, or on a scheduler that is there already.

A run does what its store misses. It may be killed at any moment, and run again: in the end every
point is in the store once, with the result of an undisturbed run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from netplan.errors import InputError
from netplan.studies.in_process import run_in_process
from netplan.studies.points import Work
from netplan.studies.progress import Progress, Tracker
from netplan.studies.store import Store
from netplan.version import __version__

MIN_MEMORY_BYTES = 256_000_000


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How a run ended.

    Attributes
    ----------
    done
        Points of the store that have an outcome, failed ones included.
    failed
        Those of them that failed.
    total
        Points of the study.
    evaluated
        Points that this run evaluated.
    seconds
        Time that it took [s].
    """

    done: int
    failed: int
    total: int
    evaluated: int
    seconds: float


def run(
    work: Work,
    store: Store,
    *,
    workers: int = 0,
    scheduler: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    memory_limit_bytes: int | None = None,
) -> RunSummary:
    """Evaluate every point of a study that its store misses.

    Parameters
    ----------
    work
        The study's work.
    store
        The study's store, open for writing.
    workers
        Worker processes on this machine; 0 evaluates in this process.
    scheduler
        Address of a Dask scheduler, whose workers are used instead.
    progress
        Called with the progress, a few times a second at most, and at the end.
    memory_limit_bytes
        Memory that one process may take for its points [B]; None for no limit in this process,
        and the machine's memory in equal shares for workers.

    Raises
    ------
    InputError
        If the store belongs to other inputs or another version, cannot be written, or the
        cluster cannot be had. What was done before is kept.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from netplan.studies.points import Point
    >>> class Squares:
    ...     name, input_sha256, definition, point_count = "squares", "ab", "{}", 3
    ...     def points(self, indices):
    ...         return [Point(index, {"x": index}) for index in indices]
    ...     def evaluate(self, point):
    ...         return {"square": point.inputs["x"] ** 2}
    >>> with Store.create(Path(tempfile.mkdtemp()) / "squares", Squares(), __version__) as store:
    ...     summary = run(Squares(), store)
    ...     [outcome.outputs for outcome in store.outcomes()]
    [{'square': 0}, {'square': 1}, {'square': 4}]
    >>> summary.done, summary.failed
    (3, 0)
    """
    _check_options(workers, scheduler, memory_limit_bytes)
    store.check(work, __version__)
    start = monotonic()
    tracker = Tracker(*store.counts(), total=work.point_count, report=progress)
    if tracker.done < tracker.total:
        if scheduler is not None:
            from netplan.studies.cluster import run_on_scheduler

            run_on_scheduler(work, store, tracker, scheduler, memory_limit_bytes)
        elif workers:
            from netplan.studies.cluster import run_on_local_cluster

            run_on_local_cluster(work, store, tracker, workers, memory_limit_bytes)
        else:
            run_in_process(work, store, tracker, memory_limit_bytes)
    tracker.finish()
    counts = store.counts()
    return RunSummary(
        counts.done, counts.failed, tracker.total, tracker.evaluated, monotonic() - start
    )


def _check_options(workers: int, scheduler: str | None, memory_limit_bytes: int | None) -> None:
    if workers < 0:
        raise InputError(f"--workers: 0 (this process alone) or more, got {workers}")
    if workers and scheduler is not None:
        raise InputError("--workers and --scheduler exclude each other: give one of them")
    if memory_limit_bytes is not None and memory_limit_bytes < MIN_MEMORY_BYTES:
        raise InputError(
            f"the memory limit of a process must be at least {MIN_MEMORY_BYTES:,} B, about what "
            f"it takes before its first point, got {memory_limit_bytes:,} B"
        )

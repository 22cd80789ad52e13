"""A study worked through in this process, and out of it once a point has ended it.

The store keeps which points were being evaluated. If the process dies, the next run knows the
suspects, and evaluates them and all that is left in a child process, which a guilty point can end
without harm. Should the driver die with its child (a group of processes is often killed as one),
the suspects are taken one at a time, and a point that has ended two more drivers so is recorded
as failed instead of ending drivers for ever.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import perf_counter

from netplan.studies.alone import Alone
from netplan.studies.attempt import attempt_each, killed
from netplan.studies.backlog import Backlog
from netplan.studies.child import KILLED
from netplan.studies.memory import limited
from netplan.studies.points import Outcome, Work
from netplan.studies.progress import Tracker
from netplan.studies.store import Store

CHUNK_S = 0.5
# Drivers that died in a chunk with the point, before it is taken alone; and then alone with it.
DEATHS_IN_CHUNKS = 2
DEATHS_ALONE = 2

Evaluate = Callable[[Sequence[int]], Iterator[Outcome]]


def run_in_process(work: Work, store: Store, tracker: Tracker, limit_bytes: int | None) -> None:
    """Evaluate the points that the store misses; the store grows every half second or so."""
    suspects = store.suspects()
    if not suspects:
        with limited(limit_bytes):
            evaluate = partial(attempt_each, work, interruptible=True)
            _work_through(evaluate, store, tracker)
        return
    with Alone(work, limit_bytes) as alone:
        for index, deaths in suspects.items():
            if deaths >= DEATHS_IN_CHUNKS + DEATHS_ALONE:
                _record_guilty(work, index, store, tracker)
            elif deaths >= DEATHS_IN_CHUNKS:
                alone.start()  # a kill while it starts must not fall on the point
                _evaluate_chunk([index], alone.evaluate, store, tracker)
        alone.start()
        _work_through(alone.evaluate, store, tracker)


def _work_through(evaluate: Evaluate, store: Store, tracker: Tracker) -> None:
    backlog = Backlog(store.missing(), CHUNK_S)
    while backlog.left:
        chunk = backlog.take()
        start = perf_counter()
        _evaluate_chunk(chunk, evaluate, store, tracker)
        backlog.learn(len(chunk), perf_counter() - start)


def _evaluate_chunk(
    chunk: Sequence[int], evaluate: Evaluate, store: Store, tracker: Tracker
) -> None:
    """Mark points, evaluate them, record what came of them; on Ctrl-C what there is."""
    store.mark(chunk)
    outcomes = []
    try:
        for outcome in evaluate(chunk):
            outcomes.append(outcome)
            tracker.count([outcome])
    finally:
        store.record(outcomes, tried=chunk)


def _record_guilty(work: Work, index: int, store: Store, tracker: Tracker) -> None:
    outcome = killed(work, index, KILLED)
    store.record([outcome], tried=[index])
    tracker.count([outcome])

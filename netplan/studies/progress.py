"""How far a study is, a few times a second at most."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from netplan.studies.points import Outcome

EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a study is.

    Attributes
    ----------
    done
        Points that have an outcome, failed ones and those of earlier runs included.
    failed
        Those of them that failed.
    total
        Points of the study.
    elapsed_s
        Time since this run began [s].
    left_s
        Time left at this run's pace [s]; None while that is not known.
    points_per_s
        This run's pace, from its first outcomes on.
    """

    done: int
    failed: int
    total: int
    elapsed_s: float
    left_s: float | None
    points_per_s: float


class Tracker:
    """Counts outcomes and reports progress."""

    def __init__(
        self, done: int, failed: int, total: int, report: Callable[[Progress], None] | None
    ) -> None:
        self.done, self.failed, self.total = done, failed, total
        self._report = report
        self._before = done
        # Workers take a while to start: the pace counts from the first outcomes on.
        self._first: tuple[int, float] | None = None
        self._start = monotonic()
        self._next = self._start + EVERY_S

    @property
    def evaluated(self) -> int:
        """Points of this run."""
        return self.done - self._before

    def count(self, outcomes: Sequence[Outcome]) -> None:
        """Count these outcomes, and report if it is time."""
        self.done += len(outcomes)
        self.failed += sum(outcome.error is not None for outcome in outcomes)
        if self._first is None and outcomes:
            self._first = self.done, monotonic()
        self.tick()

    def tick(self) -> None:
        """Report if it is time."""
        if self._report is not None and monotonic() >= self._next:
            self._next = monotonic() + EVERY_S
            self._report(self.now())

    def finish(self) -> None:
        """Report how it ended, whenever the last report was."""
        if self._report is not None:
            self._report(self.now())

    def now(self) -> Progress:
        """Progress at this moment."""
        now = monotonic()
        first_done, first_s = self._first or (self.done, now)
        pace = (self.done - first_done) / (now - first_s) if now > first_s else 0.0
        left_s = (self.total - self.done) / pace if pace > 0 else None
        return Progress(self.done, self.failed, self.total, now - self._start, left_s, pace)

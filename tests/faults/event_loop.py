"""A job under failures, event by event: an oracle of plain Python beside the simulated years.

One event after the other from a heap; nothing is vectorised, and nothing is shared with the package
but the descriptions of what fails.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from random import Random

from netplan.faults.years.outages import Cause

HOURS_PER_YEAR = 8760.0


@dataclass
class Job:
    """Computes ``interval`` hours, writes ``write`` hours, and restarts for ``restart`` hours."""

    interval: float
    write: float
    restart: float
    phase: str = "compute"
    left: float = 0.0
    hours: float = 0.0
    """Useful hours of the interval that is not yet saved."""
    work: float = 0.0
    """The same, slowed."""
    saved_hours: float = 0.0
    saved_work: float = 0.0
    waited: float = 0.0

    def advance(self, hours: float, speed: float) -> None:
        """Let some hours pass at one speed."""
        if self.phase == "wait":
            self.waited += hours
            return
        while hours > 0:
            step = min(hours, self.left)
            if self.phase == "compute":
                self.hours += step
                self.work += step * speed
            self.left -= step
            hours -= step
            if self.left <= 0:
                self._next()

    def _next(self) -> None:
        if self.phase == "compute" and self.write:
            self.phase, self.left = "write", self.write
            return
        if self.phase != "restart":
            self.saved_hours += self.hours
            self.saved_work += self.work
        self.begin("compute", self.interval)

    def begin(self, phase: str, left: float) -> None:
        """Begin a phase; what was not saved is lost."""
        self.phase, self.left, self.hours, self.work = phase, left, 0.0, 0.0


@dataclass
class Totals:
    """Shares of the time, and interruptions a year."""

    useful: float
    goodput: float
    waiting: float
    stops: float


@dataclass
class Walk:
    """Failures, repairs and spare parts of one job."""

    causes: Sequence[Cause]
    speed: Callable[[list[Cause]], float]
    """Speed while some failures are under repair; 0: the job waits."""
    job: Job
    spares: dict[str, int]
    rng: Random
    now: float = 0.0
    stops: int = 0
    down: list[Cause] = field(default_factory=list)
    queue: deque[Cause] = field(default_factory=deque)
    heap: list[tuple[float, int, str, Cause]] = field(default_factory=list)

    def years(self, years: float) -> Totals:
        """Follow the job from event to event."""
        for cause in self.causes:
            self._later(HOURS_PER_YEAR / cause.failures_per_year, "fails", cause)
        self.job.begin("compute", self.job.interval)
        while self.heap[0][0] < years * HOURS_PER_YEAR:
            time, _, what, cause = heappop(self.heap)
            self.job.advance(time - self.now, self.speed(self.down))
            self.now = time
            {"fails": self._fails, "there": self._there, "works": self._works}[what](cause)
            if not self.speed(self.down):
                self.job.begin("wait", inf)
            elif self.job.phase == "wait":
                self.job.begin("restart", self.job.restart)
        job, years = self.job, self.now / HOURS_PER_YEAR
        return Totals(
            job.saved_hours / self.now,
            job.saved_work / self.now,
            job.waited / self.now,
            self.stops / years,
        )

    def _later(self, mean: float, what: str, cause: Cause) -> None:
        hours = self.rng.expovariate(1 / mean) if mean else 0.0
        heappush(self.heap, (self.now + hours, self.rng.getrandbits(60), what, cause))

    def _fails(self, cause: Cause) -> None:
        self._later(HOURS_PER_YEAR / cause.failures_per_year, "fails", cause)
        stops = self.rng.random() < cause.interrupts
        # What stops no job takes no domain, but may slow it.
        if stops or cause.effect.all_gpus or not cause.effect.domains:
            self.down.append(cause)
        if cause.pool:
            self._later(cause.lead_h, "there", cause)
            self.queue.append(cause)
            self._serve(cause.pool)
        else:
            self._later(cause.repair_h, "works", cause)
        if stops:
            self.stops += 1
            self.job.begin("restart", self.job.restart)

    def _there(self, cause: Cause) -> None:
        self.spares[cause.pool] += 1
        self._serve(cause.pool)

    def _serve(self, pool: str) -> None:
        """First come, first served, of one pool."""
        while self.queue and self.spares[pool]:
            self.spares[pool] -= 1
            cause = self.queue.popleft()
            self._later(cause.repair_h, "works", cause)

    def _works(self, cause: Cause) -> None:
        self.down.remove(cause)

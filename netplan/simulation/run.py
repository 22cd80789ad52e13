"""A whole iteration: pipelines on common links, steady state found and extrapolated.

Once a run stands as it stood q microbatches ago (the same passes and transfers under way, the same
links busy for as long), it repeats itself: only the number of microbatches is another, as the
system is linear over (max, +). The rest is then counted instead of simulated, exactly: with m'
microbatches simulated, m - m' a multiple of q, and P seconds for q microbatches,

    T(m) = T(m') + (m - m') / q x P.

The state is compared as a whole, since increments alone may repeat for long before a second, slower
cycle makes itself felt. Where nothing repeats within S microbatches all of them are simulated.

*Several jobs* repeat their iterations, so that each runs beside the others all the time. Of
pipelines that share links, directly or through others, each repeats until the last of them has
ended its first iteration and all have ended the one that was under way then. The means over these
iterations are what they take beside each other: an iteration that was begun counts as a whole, so
that one which waits long is not left out. Pipelines that share no link run once.
"""

from collections import deque
from collections.abc import Callable, Sequence
from math import lcm

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.records import replace
from netplan.simulation.engine import Call, Engine, EventCounts, FluidEngine
from netplan.simulation.schedule import BusyInterval, PipelineRun
from netplan.simulation.tasks import Burst, LinkSharing, Pipeline, parts_of_pipeline

MOST_ITERATIONS = 10_000
"""Of one pipeline, beside one of another [1]."""


class Repeats:
    """The iterations of pipelines of which each shares links with another one.

    Parameters
    ----------
    runs
        First iteration of each.

    Raises
    ------
    InputError
        If one ends more than `MOST_ITERATIONS` before another one ends.
    """

    def __init__(self, runs: Sequence[PipelineRun]) -> None:
        self.engine: Engine = runs[0].engine
        self.iterations = {run.number: [run] for run in runs}
        self.counted = dict.fromkeys(self.iterations, 0)
        """Iterations that the means are over; 0 as long as there may be more [1]."""
        self._first_ones = len(runs)
        for run in runs:
            run.at_end = self.ended

    @property
    def over(self) -> bool:
        """Whether all iterations that count have ended."""
        return all(self.counted.values())

    def ended(self, run: PipelineRun) -> None:
        """An iteration has ended; what follows waits for all that end in this moment."""
        if len(self.iterations[run.number]) == 1:
            self._first_ones -= 1
        self.engine.schedule(
            self.engine.now, Call(lambda: self.follow(run), mark=lambda: (run.number,))
        )

    def follow(self, run: PipelineRun) -> None:
        """Begin the next iteration, beside those that still count."""
        done = self.iterations[run.number]
        if not self._first_ones and not self.counted[run.number]:
            self.counted[run.number] = len(done)
        if not self.over:
            if len(done) == MOST_ITERATIONS:
                raise InputError(
                    f"job {run.number + 1} has ended {MOST_ITERATIONS:,} iterations beside one that"
                    " has not ended its first: put jobs on one fabric that take more alike"
                )
            again = PipelineRun(self.engine, run.pipeline, run.number, run.spans)
            again.at_end = self.ended
            done.append(again)
            again.start()

    def mean(self, number: int) -> tuple[int, float, Floats]:
        """Iterations of a pipeline that count, and of their mean the time and the work [s]."""
        count = self.counted[number]
        ones = self.iterations[number][:count]
        busy_s: Floats = np.sum([iteration.busy_s for iteration in ones], axis=0) / count
        return count, ones[-1].end_s / count, busy_s


def sharing(pipelines: Sequence[Pipeline]) -> list[list[int]]:
    """Numbers of the pipelines that share links, directly or through others, in sets."""
    sets: list[tuple[list[int], set[int]]] = []
    for number, pipeline in enumerate(pipelines):
        numbers = [number]
        links = {
            link
            for part, _ in parts_of_pipeline(pipeline)
            if isinstance(part, Burst)
            for message in part.messages
            for link in message.links
        }
        for touching in [other for other in sets if other[1] & links]:
            sets.remove(touching)
            numbers, links = touching[0] + numbers, touching[1] | links
        sets.append((sorted(numbers), links))
    return [numbers for numbers, _ in sets]


SAME = 1e-11
"""Times of two states are the same if they differ by less than this share of a period [1]."""

MOST_BACK = 256
"""States that each new one is compared with where links are shared: periods are longer [1]."""

MOST_PASSES = 5_000_000
"""Passes that are simulated one by one, at most: minutes, and a gigabyte with all spans [1]."""


class PipelineResult(Struct, frozen=True):
    """What became of one pipeline.

    Parameters
    ----------
    iteration_time_s
        Time of an iteration, of several their mean [s].
    busy_s
        Work of each stage in an iteration, shape (stages,) [s].
    microbatches, simulated
        Microbatches of the iteration, and how many of them were simulated [1].
    iterations
        Iterations that the means are over [1].
    """

    iteration_time_s: float
    busy_s: Floats
    microbatches: int
    simulated: int
    iterations: int = 1


class SimulationResult(Struct, frozen=True):
    """What became of all pipelines, and what their links went through.

    Parameters
    ----------
    pipelines
        In the order given.
    period
        Microbatches after which the run repeats itself; None if all were simulated [1].
    tally
        Bookings and waiting of all microbatches.
    spans
        Passes in the order of their ends, where they were asked for.
    solves
        How often rates were found; None where links are booked [1].
    """

    pipelines: tuple[PipelineResult, ...]
    period: int | None
    tally: EventCounts
    spans: tuple[BusyInterval, ...] = ()
    solves: int | None = None

    @property
    def iteration_time_s(self) -> float:
        """End of the last pipeline [s]."""
        return max(pipeline.iterations * pipeline.iteration_time_s for pipeline in self.pipelines)


class _State(Struct):
    """A run at the moment in which a microbatch came through."""

    now: float
    through: tuple[int, ...]
    marks: object
    times: Floats
    tally: EventCounts
    busy_s: list[Floats]


def simulate_pipelines(  # noqa: PLR0913 - links, and how much of a run is looked at
    pipelines: Sequence[Pipeline],
    *,
    links: int,
    link_sharing: LinkSharing = "booked",
    full: bool = False,
    spans: bool = False,
    repeat: bool = False,
    tick: Callable[[int, int], None] | None = None,
) -> SimulationResult:
    """Simulate one iteration of pipelines that share links.

    Parameters
    ----------
    pipelines
        What runs; all begin at 0 s.
    links
        Links that their messages may name, 0 to links - 1 [1].
    link_sharing
        Whether messages book links one after another, or share them as a fluid.
    full
        Simulate every microbatch.
    spans
        Keep every pass, for a timeline.
    repeat
        Pipelines that share links repeat their iterations as long as `netplan.simulation.run`
        says.
    tick
        Called with the microbatches that are through of the pipeline with the most, and all of
        them.

    Raises
    ------
    InputError
        If all microbatches are simulated, and they make more than `MOST_PASSES` passes.

    Examples
    --------
    Four stages that take 1 s forward and 2 s backward, eight microbatches: (m + S - 1) x 3 s.

    >>> from netplan.simulation.tasks import Pass, delay
    >>> stage = (Pass(delay(1.0)),) * 4, (Pass(delay(2.0)),) * 4
    >>> chain = Pipeline(4, 8, *stage, send_forward=((),) * 3, send_backward=((),) * 3)
    >>> simulate_pipelines([chain], links=0).iteration_time_s
    33.0
    """
    engine = FluidEngine(links) if link_sharing == "fluid" else Engine(links)
    kept: list[BusyInterval] | None = [] if spans else None
    runs = [PipelineRun(engine, given, number, kept) for number, given in enumerate(pipelines)]
    watch = _Watch(engine, runs, full=full, tick=tick)
    if repeat:
        sets = [[runs[number] for number in numbers] for numbers in sharing(pipelines)]
        watch.repeats = [Repeats(together) for together in sets]
    for run in runs:
        run.start()
    watch.run()
    watch.extrapolate()
    results = [
        PipelineResult(run.end_s, np.array(run.busy_s), run.pipeline.microbatches, run.microbatches)
        for run in runs
    ]
    for repeats in watch.repeats:
        for number in repeats.counted:
            count, time_s, busy_s = repeats.mean(number)
            mean = {"iteration_time_s": time_s, "busy_s": busy_s, "iterations": count}
            results[number] = replace(results[number], **mean)
    solves = engine.solves if isinstance(engine, FluidEngine) else None
    return SimulationResult(tuple(results), watch.period, engine.tally, tuple(kept or ()), solves)


class _Watch:
    """Lets an engine run, and looks whether the run repeats itself."""

    def __init__(
        self,
        engine: Engine,
        runs: Sequence[PipelineRun],
        *,
        full: bool,
        tick: Callable[[int, int], None] | None,
    ) -> None:
        self.engine, self.runs, self.tick = engine, runs, tick
        self.repeats: list[Repeats] = []
        self.period: int | None = None
        self.skipped_periods = 0
        self._before: _State | None = None
        self._at: _State | None = None
        # All pipelines take as many microbatches, in the order in which they come.
        plain = all(run.pipeline.trains and run.pipeline.schedule != "gpipe" for run in runs)
        alike = len({run.pipeline.microbatches for run in runs}) == 1
        self._looks = not full and plain and alike
        if not self._looks:
            self._check_passes()
        looks_back = max(run.pipeline.stages for run in runs)
        if isinstance(engine, FluidEngine):
            looks_back = max(looks_back, MOST_BACK)
        self._known: deque[_State] = deque(maxlen=looks_back)

    def _check_passes(self) -> None:
        """Refuse what would run for hours and fill the memory."""
        passes = sum(
            run.microbatches * (len(run.pipeline.forward) + len(run.pipeline.backward))
            for run in self.runs
        )
        if passes > MOST_PASSES:
            raise InputError(
                f"{passes:,} passes of stages are too many to simulate one by one: at most"
                f" {MOST_PASSES:,}; take fewer or larger microbatches, or a 1f1b schedule that is"
                " not run in full"
            )

    def run(self) -> None:
        """Let everybody go on until nobody is left."""
        engine, first = self.engine, max(self.runs, key=lambda run: run.microbatches)
        through = 0
        while engine.step():
            if self.repeats and all(repeats.over for repeats in self.repeats):
                return
            if len(first.completions_s) == through:
                continue
            through = len(first.completions_s)
            if self.tick is not None:
                self.tick(through, first.microbatches)
            if self._looks:
                self._look()

    def _look(self) -> None:
        """Compare the state with those of the last microbatches; shorten the run if it repeats."""
        if any(run.at_end is None for run in self.runs) and self.repeats:
            self._looks = False
            return
        engine = self.engine
        under_way, times = engine.state()
        marks = (under_way, *(run.state() for run in self.runs))
        began = [np.array(run.under_way_since()) - engine.now for run in self.runs]
        spent = [np.array(run.busy_s) for run in self.runs]
        through = tuple(len(run.completions_s) for run in self.runs)
        every = np.concatenate([times, *began])
        state = _State(engine.now, through, marks, every, engine.tally.copy(), spent)
        for back, known in enumerate(reversed(self._known), start=1):
            steps = {now - then for now, then in zip(state.through, known.through, strict=True)}
            if known.marks != state.marks or steps != {back}:
                continue
            period_s = state.now - known.now
            if np.abs(known.times - state.times).max(initial=0.0) <= SAME * period_s:
                self._looks = False
                self._shorten(back, known, state)
                return
        self._known.append(state)

    def _shorten(self, period: int, known: _State, state: _State) -> None:
        """Leave out as many whole periods as nobody has begun."""
        steps = [period]
        steps += [run.pipeline.stages for run in self.runs if run.pipeline.chunks > 1]
        whole = lcm(*steps)
        begun = max(run.let_in for run in self.runs)
        left = self.runs[0].microbatches - begun
        periods = max(0, left // whole) * (whole // period)
        if not periods:
            return
        self.period, self.skipped_periods = period, periods
        self._before, self._at = known, state
        for run in self.runs:
            run.shorten(run.microbatches - periods * period)

    def extrapolate(self) -> None:
        """Count the periods that were left out."""
        if self._before is None or self._at is None:
            return
        more, tally = self.skipped_periods, self.engine.tally
        period_s = self._at.now - self._before.now
        for repeats in self.repeats:
            for ones in repeats.iterations.values():
                for again in ones[1:]:
                    again.end_s += more * period_s
        for run, was, then in zip(self.runs, self._before.busy_s, self._at.busy_s, strict=True):
            run.end_s += more * period_s
            run.busy_s = (np.array(run.busy_s) + more * (then - was)).tolist()
        tally.repeat(self._before.tally, self._at.tally, more)

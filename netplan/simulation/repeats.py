"""Pipelines that repeat their iterations, so that each runs beside the others all the time.

Of pipelines that share links, directly or through others, each repeats until the last of them has
ended its first iteration and all have ended the one that was under way then. The means over these
iterations are what they take beside each other: an iteration that was begun counts as a whole, so
that one which waits long is not left out. Pipelines that share no link run once.
"""

from collections.abc import Sequence

import numpy as np

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.simulation.engine import Engine, Mark
from netplan.simulation.schedule import PipelineRun
from netplan.simulation.work import Burst, Pipeline, parts_of_pipeline

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
        self.engine.at(self.engine.now, _Next(self, run))

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
        busy_s: Floats = np.sum([one.busy_s for one in ones], axis=0) / count
        return count, ones[-1].end_s / count, busy_s


class _Next:
    """What comes after an iteration, behind all else of its moment."""

    def __init__(self, repeats: Repeats, run: PipelineRun) -> None:
        self.repeats, self.run = repeats, run

    def mark(self) -> Mark:
        return (self.run.number,)

    def go_on(self) -> None:
        self.repeats.follow(self.run)


def sharing(pipelines: Sequence[Pipeline]) -> list[list[int]]:
    """Numbers of the pipelines that share links, directly or through others, in sets."""
    sets: list[tuple[list[int], set[int]]] = []
    for number, pipeline in enumerate(pipelines):
        numbers, links = [number], _links(pipeline)
        for one in [other for other in sets if other[1] & links]:
            sets.remove(one)
            numbers, links = one[0] + numbers, one[1] | links
        sets.append((sorted(numbers), links))
    return [numbers for numbers, _ in sets]


def _links(pipeline: Pipeline) -> set[int]:
    """Links that messages of a pipeline name."""
    parts = (part for part, _ in parts_of_pipeline(pipeline))
    bursts = (part for part in parts if isinstance(part, Burst))
    return {link for burst in bursts for message in burst.messages for link in message.links}

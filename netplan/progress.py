"""How far a question is, for whoever watches it; the command line says so on stderr.

Loops that may take long tell which of their items is under way. Loops stand in each other, so that
the share done of the outermost one follows from those inside it.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import ClassVar, TypeVar

from msgspec import Struct

from netplan.units import duration

Item = TypeVar("Item")
TOLD = 256
"""How often a stream tells its share at most [1]."""
LEAST_SHARE, LEAST_S = 0.02, 3.0
"""Share of the work [1] and time [s] from which the time left is said."""


class ProgressStage(Struct, eq=False):
    """One loop: what it works on, how many items are done, of how many, since when [s].

    An item may have several loops in it, one after the other; ``most`` is the largest share that
    was ever done [1], behind which none of them falls.
    """

    text: str
    done: float
    of: int
    began_s: float
    most: float = 0.0


class UnderWay:
    """What is being worked on, from the outermost loop in; empty if nobody says."""

    steps: ClassVar[list[ProgressStage]] = []

    @classmethod
    def text(cls) -> str:
        """What is under way, in one line.

        Examples
        --------
        >>> for fabric in with_progress(["rail-only", "torus-3d"], str):
        ...     for year in with_progress(range(4), "years of failures".format):
        ...         pass
        ...     print(UnderWay.text())
        rail-only, 1 of 2
        torus-3d, 2 of 2
        """
        return "; ".join(step.text for step in [*cls.steps] if step.text)

    @classmethod
    def outermost(cls) -> str:
        """What the outermost loop works on."""
        return next((step.text for step in [*cls.steps]), "")

    @classmethod
    def share(cls) -> float:
        """Share of the outermost loop that is done [1], by items of equal length.

        Examples
        --------
        >>> for fabric in with_progress(["rail-only", "torus-3d"], str):
        ...     for year in with_progress(range(4), str):
        ...         if (fabric, year) == ("torus-3d", 2):
        ...             print(UnderWay.share())
        0.75
        """
        share = 0.0
        for step in reversed([*cls.steps]):
            share = step.most = max(step.most, min(1.0, (step.done + share) / max(step.of, 1)))
        return share

    @classmethod
    def left(cls, now_s: float | None = None) -> str:
        """Share done and time left of the outermost loop, as far as they can be told."""
        steps = [*cls.steps]
        share = cls.share()
        if not steps or share < LEAST_SHARE:
            return ""
        took_s = (time.monotonic() if now_s is None else now_s) - steps[0].began_s
        if took_s < LEAST_S:
            return ""
        left_s = took_s * (1 - share) / share
        return f"{share:.0%} done, about {duration(max(1.0, left_s))} left"


def with_progress(items: Collection[Item], name: Callable[[Item], str]) -> Iterator[Item]:
    """Items one by one, telling which one is under way; nothing of none.

    Examples
    --------
    >>> for item in with_progress(["rail-only", "torus-3d"], str):
    ...     print(UnderWay.text())
    rail-only, 1 of 2
    torus-3d, 2 of 2
    >>> UnderWay.text()
    ''
    """
    if not items:
        return
    step = ProgressStage("", 0, len(items), time.monotonic())
    UnderWay.steps.append(step)
    try:
        for number, item in enumerate(items):
            step.text, step.done = f"{name(item)}, {number + 1:,} of {len(items):,}", number
            yield item
    finally:
        _end(step)


def share_done(name: str) -> Callable[[int, int], None]:
    """What tells how much of something is done, from how many of how many.

    Examples
    --------
    >>> done = share_done("microbatches simulated")
    >>> done(33, 100)
    >>> UnderWay.text()
    '33 % of 100 microbatches simulated'
    >>> done(100, 100)
    >>> UnderWay.text()
    ''
    """
    step = ProgressStage("", 0, 1, 0.0)

    def tell(done: int, of: int) -> None:
        if step not in UnderWay.steps:
            step.began_s = time.monotonic()
            UnderWay.steps.append(step)
        share = 100 * done // max(of, 1)
        step.text, step.done, step.of = f"{share} % of {of:,} {name}", done, of
        if done >= of:
            _end(step)

    return tell


def through(items: Iterable[Item], of: int, name: str) -> Iterator[Item]:
    """Items of a stream of about so many, telling now and then which share has gone by.

    Examples
    --------
    >>> for number in through(range(1_000), 1_000, "links written"):
    ...     if number == 500:
    ...         print(UnderWay.text())
    49 % of 1,000 links written
    >>> UnderWay.text()
    ''
    """
    tell, often = share_done(name), max(1, of // TOLD)
    try:
        for number, item in enumerate(items):
            if number % often == 0 and number < of:
                tell(number, of)
            yield item
    finally:
        tell(of, of)


def _end(step: ProgressStage) -> None:
    """Take a loop out, with those that were left inside it by an error."""
    if step in UnderWay.steps:
        del UnderWay.steps[UnderWay.steps.index(step) :]

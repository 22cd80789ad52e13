"""How far a question is, for whoever watches it; the command line says so on stderr."""

from collections.abc import Callable, Collection, Iterator
from typing import ClassVar, TypeVar

Item = TypeVar("Item")


class UnderWay:
    """What is being worked on; empty if nobody says."""

    text: ClassVar[str] = ""


def each(items: Collection[Item], name: Callable[[Item], str]) -> Iterator[Item]:
    """Items one by one, telling which one is under way.

    Examples
    --------
    >>> for item in each(["rail-only", "torus-3d"], str):
    ...     print(UnderWay.text)
    rail-only, 1 of 2
    torus-3d, 2 of 2
    >>> UnderWay.text
    ''
    """
    try:
        for number, item in enumerate(items, 1):
            UnderWay.text = f"{name(item)}, {number} of {len(items)}"
            yield item
    finally:
        UnderWay.text = ""


def share_done(name: str) -> Callable[[int, int], None]:
    """What tells how much of something is done, from how many of how many, in tenths.

    Examples
    --------
    >>> done = share_done("microbatches simulated")
    >>> done(33, 100)
    >>> UnderWay.text
    '30 % of 100 microbatches simulated'
    >>> done(100, 100)
    >>> UnderWay.text
    ''
    """

    def tell(done: int, of: int) -> None:
        tenths = 10 * done // of
        UnderWay.text = f"{10 * tenths} % of {of:,} {name}" if done < of else ""

    return tell

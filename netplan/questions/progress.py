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

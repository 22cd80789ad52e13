"""Names from structure: ``rail-17/leaf-0`` is leaf 0 of rail 17, whatever its number in the graph.

A block of nodes that form a grid (rails x leaves, groups x switches) shares one pattern, so that a
million names take no memory until somebody reads them.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, product
from math import prod
from typing import overload


@dataclass(frozen=True, slots=True)
class NameBlock:
    """Names of the nodes of one grid, the last index running fastest.

    Parameters
    ----------
    pattern
        Name with one ``{}`` for each index.
    shape
        Size of the grid along each index [1].
    first
        First value of the first index [1].

    Examples
    --------
    >>> block = NameBlock("rail-{}/leaf-{}", (4, 2), first=8)
    >>> len(block), block.name(3)
    (8, 'rail-9/leaf-1')
    """

    pattern: str
    shape: tuple[int, ...]
    first: int = 0

    def __len__(self) -> int:
        """Names in the block [1]."""
        return prod(self.shape)

    def __iter__(self) -> Iterator[str]:
        """Names in order."""
        head, *tail = self.shape
        heads = range(self.first, self.first + head)
        return (self.pattern.format(*i) for i in product(heads, *map(range, tail)))

    def name(self, index: int) -> str:
        """Name number ``index`` of the block."""
        place = []
        for size in reversed(self.shape[1:]):
            index, rest = divmod(index, size)
            place.append(rest)
        return self.pattern.format(index + self.first, *reversed(place))


class StructuralNames(Sequence[str]):
    """Names of all nodes of a graph, made when read.

    Examples
    --------
    >>> names = StructuralNames([NameBlock("gpu-{}", (16,)), NameBlock("leaf-{}", (2,))])
    >>> len(names), names[15], names[16], names[-1]
    (18, 'gpu-15', 'leaf-0', 'leaf-1')
    """

    def __init__(self, blocks: Sequence[NameBlock]) -> None:
        """Line the blocks up, each after the one before."""
        self._blocks = [block for block in blocks if len(block)]
        self._starts = [0, *accumulate(len(block) for block in self._blocks)]

    def __len__(self) -> int:
        """Names [1]."""
        return self._starts[-1]

    def __iter__(self) -> Iterator[str]:
        """Names in order."""
        return chain.from_iterable(self._blocks)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """One name, or some."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        block = bisect_right(self._starts, place) - 1
        return self._blocks[block].name(place - self._starts[block])

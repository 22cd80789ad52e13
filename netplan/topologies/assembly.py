"""Putting a graph together from blocks of nodes and blocks of links.

Names come from structure: ``rail-17/leaf-0`` is leaf 0 of rail 17, whatever its number in the
graph. A block of nodes that form a grid (rails x leaves, groups x switches) shares one pattern, so
that a million names take no memory until somebody reads them.

Every family's wiring takes the spec, the sized fabric, the number of its first switch, and the
first port of a GPU that the network takes; its :class:`Wired` counts nodes in the whole graph.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, product
from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Codes, Indices
from netplan.topologies.graph import FabricGraph, LazyNames, LinkType


class NameBlock(Struct, frozen=True):
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


class StructuralNames(LazyNames):
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

    def name(self, place: int) -> str:
        """Name at a place from 0 on."""
        block = bisect_right(self._starts, place) - 1
        return self._blocks[block].name(place - self._starts[block])


class Nodes(Struct, frozen=True):
    """A block of nodes of one kind and tier, named by one pattern."""

    kind: int
    tier: int
    names: NameBlock


class Links(Struct, frozen=True, eq=False):
    """A block of links of one group, rate and length class.

    Parameters
    ----------
    kind
        What they are.
    source, target
        Nodes joined, shape (links,).
    source_port, target_port
        Ports on either node, shape (links,) or one for all.
    bytes_per_s
        Rate, one direction [B/s].
    length_class
        Code into ``LENGTH_CLASSES``.
    """

    kind: LinkType
    source: AnyInts
    target: AnyInts
    source_port: AnyInts
    target_port: AnyInts
    bytes_per_s: float
    length_class: int


class Wired(Struct, frozen=True):
    """What one wiring adds to a graph: nodes in their order, and links between node numbers."""

    nodes: tuple[Nodes, ...] = ()
    links: tuple[Links, ...] = ()


def assemble(name: str, gpus: int, hb_size: int, parts: Sequence[Wired]) -> FabricGraph:
    """Join the blocks of several wirings into one graph, in the order given."""
    nodes = [block for part in parts for block in part.nodes]
    links = [block for part in parts for block in part.links if len(block.source)]
    sizes = [len(block.names) for block in nodes]
    counts = [len(block.source) for block in links]
    groups = list(dict.fromkeys(block.kind for block in links))

    def column(field: str) -> Indices:
        values = [np.broadcast_to(getattr(b, field), b.source.shape) for b in links]
        joined = np.empty(sum(counts), np.int32)
        return np.concatenate(values, out=joined, casting="same_kind") if values else joined

    def repeated_codes(values: Sequence[int], repeats: Sequence[int]) -> Codes:
        return np.repeat(np.array(values, np.int8), repeats)

    return FabricGraph(
        name=name,
        gpus=gpus,
        hb_size=hb_size,
        node_kind=repeated_codes([block.kind for block in nodes], sizes),
        node_tier=repeated_codes([block.tier for block in nodes], sizes),
        names=StructuralNames([block.names for block in nodes]),
        source=column("source"),
        target=column("target"),
        source_port=column("source_port"),
        target_port=column("target_port"),
        bytes_per_s=np.repeat(np.array([b.bytes_per_s for b in links], np.float64), counts),
        length_class=repeated_codes([block.length_class for block in links], counts),
        group=repeated_codes([groups.index(block.kind) for block in links], counts),
        groups=tuple(groups),
    )

"""Putting a graph together from blocks of nodes and blocks of links."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netplan.arrays import AnyInts, Codes, Indices
from netplan.topologies.graph import FabricGraph
from netplan.topologies.naming import NameBlock, StructuralNames


@dataclass(frozen=True, slots=True)
class Nodes:
    """A block of nodes of one kind and tier, named by one pattern."""

    kind: int
    tier: int
    names: NameBlock


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """A block of links of one group, rate and length class.

    Parameters
    ----------
    group
        Name of the link group.
    source, target
        Nodes joined, shape (links,).
    source_port, target_port
        Ports on either node, shape (links,) or one for all.
    bytes_per_s
        Rate, one direction [B/s].
    length_class
        Code into ``LENGTH_CLASSES``.
    """

    group: str
    source: AnyInts
    target: AnyInts
    source_port: AnyInts
    target_port: AnyInts
    bytes_per_s: float
    length_class: int


@dataclass(frozen=True, slots=True)
class Wired:
    """What one wiring adds to a graph: nodes in their order, and links between node numbers."""

    nodes: tuple[Nodes, ...] = ()
    links: tuple[Links, ...] = ()


def assemble(name: str, gpus: int, hb_size: int, parts: Sequence[Wired]) -> FabricGraph:
    """Join the blocks of several wirings into one graph, in the order given."""
    nodes = [block for part in parts for block in part.nodes]
    links = [block for part in parts for block in part.links if len(block.source)]
    sizes = [len(block.names) for block in nodes]
    counts = [len(block.source) for block in links]
    groups = list(dict.fromkeys(block.group for block in links))

    def column(field: str) -> Indices:
        values = [np.broadcast_to(getattr(b, field), b.source.shape) for b in links]
        joined = np.empty(sum(counts), np.int32)
        return np.concatenate(values, out=joined, casting="same_kind") if values else joined

    def codes(values: Sequence[int], repeats: Sequence[int]) -> Codes:
        return np.repeat(np.array(values, np.int8), repeats)

    return FabricGraph(
        name=name,
        gpus=gpus,
        hb_size=hb_size,
        node_kind=codes([block.kind for block in nodes], sizes),
        node_tier=codes([block.tier for block in nodes], sizes),
        names=StructuralNames([block.names for block in nodes]),
        source=column("source"),
        target=column("target"),
        source_port=column("source_port"),
        target_port=column("target_port"),
        bytes_per_s=np.repeat(np.array([b.bytes_per_s for b in links], np.float64), counts),
        length_class=codes([block.length_class for block in links], counts),
        group=codes([groups.index(block.group) for block in links], counts),
        group_names=tuple(groups),
    )

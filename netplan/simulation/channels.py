"""Memory behind channels: where the cores of a tiled accelerator read and write.

A core uses the channel of its tile that is the fewest links away, of equally near ones the first.
What it moves takes its path there, reads and writes alike, and then the channel, which carries both
together.
"""

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.topologies.families.tiles import BORDER
from netplan.topologies.graph import MEMORY_GROUP, FabricGraph


class Channels(Struct, frozen=True, eq=False):
    """The memory channel of every core.

    Parameters
    ----------
    core
        At which core it is, shape (gpus,).
    link
        The link that it is, shape (gpus,).
    """

    core: Ints
    link: Ints

    def seconds(self, graph: FabricGraph, gpus: Ints) -> Floats:
        """How long some cores keep every link busy that is a channel with a byte each [s].

        Of shape (2, links); away from the cores is the direction that counts.
        """
        found = np.zeros((2, graph.link_count))
        found[0] = np.bincount(self.link[gpus], minlength=graph.link_count) / graph.bytes_per_s
        return found


def channels_of(graph: FabricGraph) -> Channels | None:
    """The memory channel of every core; None if there are none, or not for all cores.

    Examples
    --------
    Core 2 of the first tile goes one core on and one down, to core 7.

    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Sizing(gpus=320, radix=64, hb_size=1,
    ...                 hb_bytes_per_s=1024e9, network_bytes_per_s=256e9)
    >>> graph = expand(FABRICS.load("palm-wafer"), sizing)
    >>> found = channels_of(graph)
    >>> int(found.core[2]), graph.node_name(int(graph.target[found.link[2]]))
    (7, 'row-0/tile-0/memory-1')
    """
    if MEMORY_GROUP not in graph.group_names:
        return None
    links = graph.links_of(MEMORY_GROUP)
    none = graph.link_count
    nearest = np.full(graph.gpus, none)
    np.minimum.at(nearest, graph.source[links], links)
    between = (graph.source < graph.gpus) & (graph.target < graph.gpus)
    inside = np.array([not name.endswith(BORDER) for name in graph.group_names])[graph.group]
    for used in (between & inside, between):  # over borders only from tiles without a channel
        ends = graph.source[used], graph.target[used]
        here, there = (np.concatenate(pair) for pair in (ends, ends[::-1]))
        while (step := (nearest[here] < none) & (nearest[there] == none)).any():
            np.minimum.at(nearest, there[step], nearest[here[step]])
    if (nearest == none).any():
        return None
    return Channels(graph.source[nearest].astype(np.int64), nearest)

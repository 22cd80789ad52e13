"""Loads of links, and what a planner asks of them: which are hot, which idle, how long it takes.

A link is full duplex, so it has two loads: what goes from its source to its target, and back. The
time of a link is its load over its rate; the time of the busiest link is what the traffic needs at
least on this routing, if all of it moves at once.
"""

from functools import cached_property

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.errors import InputError
from netplan.topologies.graph import FabricGraph

FORWARD, BACK = range(2)
"""Rows of ``link_bytes``: from a link's source to its target, and back."""


class BusyLink(Struct, frozen=True):
    """One direction of one link: its number, its two ends, its name, its load and time.

    The name is that of its ends, with ports where several links join them.
    """

    link: int
    sender: str
    receiver: str
    name: str
    group: str
    load_bytes: float
    time_s: float


class GroupLoad(Struct, frozen=True):
    """Load of the links of one group (``hb``, ``host``, ``leaf-spine``, ...), directions apart.

    Twice the links are its directions, of which some carry nothing [1]. Bytes are those on all of
    them and on the most loaded one [B], the time that of the busiest [s]. The utilisation are the
    bytes over what all could carry while the busiest link of the fabric works [1].
    """

    group: str
    directions: int
    unused: int
    total_bytes: float
    largest_bytes: float
    busiest_s: float
    utilisation: float


class LinkLoads(Struct, frozen=True, eq=False, dict=True):
    """Bytes on every link of a fabric [B], shape (2, links): from source to target, and back.

    Raises
    ------
    InputError
        If a link that carries traffic has no capacity.
    """

    graph: FabricGraph
    link_bytes: Floats

    def __post_init__(self) -> None:
        """Refuse traffic on links without capacity."""
        dead = np.flatnonzero((self.graph.bytes_per_s <= 0) & self.link_bytes.any(axis=0))
        if len(dead):
            first, second = self.graph.source[dead[0]], self.graph.target[dead[0]]
            raise InputError(
                f"link {dead[0]} from {self.graph.node_name(int(first))} to"
                f" {self.graph.node_name(int(second))} carries traffic but has no capacity: give"
                " its rate, or take it out"
            )

    @cached_property
    def link_s(self) -> Floats:
        """Time of every link direction [s], shape (2, links); links without load take none."""
        rate = np.where(self.graph.bytes_per_s > 0, self.graph.bytes_per_s, 1.0)
        return self.link_bytes / rate

    @property
    def busiest_s(self) -> float:
        """Time of the busiest link [s]."""
        return float(self.link_s.max(initial=0.0))

    @property
    def unused_links(self) -> Ints:
        """Numbers of the links that carry nothing in either direction."""
        return np.flatnonzero(~self.link_bytes.any(axis=0))

    def hottest(self, count: int = 10) -> tuple[BusyLink, ...]:
        """Link directions of the longest times, longest first; idle ones are never named.

        Equal times keep the order of the links, so that the same traffic names the same links.

        Parameters
        ----------
        count
            Directions of links to name at most [1].

        Returns
        -------
        tuple[BusyLink, ...]
            Loads [B] and times [s] of these directions.
        """
        times = self.link_s.ravel()
        count = min(count, times.size)
        if count == 0:
            return ()
        bar = np.partition(times, times.size - count)[times.size - count]
        above = np.flatnonzero(times > bar)
        level = np.flatnonzero(times == bar)[: count - len(above)]
        chosen = np.concatenate([above, level])
        chosen = chosen[np.argsort(-times[chosen], kind="stable")]
        chosen = chosen[times[chosen] > 0]
        busiest = []
        for place, name in zip(chosen.tolist(), self.graph.direction_names(chosen), strict=True):
            direction, link = divmod(place, self.graph.link_count)
            ends = [int(self.graph.source[link]), int(self.graph.target[link])]
            sender, receiver = ends if direction == FORWARD else ends[::-1]
            busiest.append(
                BusyLink(
                    link=link,
                    sender=self.graph.node_name(sender),
                    receiver=self.graph.node_name(receiver),
                    name=name,
                    group=self.graph.group_names[self.graph.group[link]],
                    load_bytes=float(self.link_bytes[direction, link]),
                    time_s=float(self.link_s[direction, link]),
                )
            )
        return tuple(busiest)

    def by_group(self) -> tuple[GroupLoad, ...]:
        """Loads of each group of links, in the order of the fabric's groups.

        Returns
        -------
        tuple[GroupLoad, ...]
            Loads [B], time [s] and utilisation [1] of each group that has links.
        """
        graph, whole = self.graph, self.busiest_s
        loads = []
        for code, name in enumerate(graph.group_names):
            chosen = graph.group == code
            bytes_ = self.link_bytes[:, chosen]
            if not bytes_.size:
                continue
            capacity = 2 * float(graph.bytes_per_s[chosen].sum()) * whole
            total = float(bytes_.sum())
            loads.append(
                GroupLoad(
                    group=name,
                    directions=bytes_.size,
                    unused=int(np.count_nonzero(bytes_ == 0)),
                    total_bytes=total,
                    largest_bytes=float(bytes_.max()),
                    busiest_s=float(self.link_s[:, chosen].max()),
                    utilisation=total / capacity if capacity else 0.0,
                )
            )
        return tuple(loads)

"""Equal-cost multipath on twisted tori, one offset at a time.

In a twisted torus every place is like every other: steps along its axes commute, k steps along a
short axis are half a round of every long one. So what flows from a place to another one depends on
the offset between them only. It is found once an offset, by :mod:`netplan.traffic.routing_ecmp`
from the first place, and laid at the source of each flow. Rings have few offsets, however many
GPUs; where there are many the graph is searched destination by destination, as others are.
"""

from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Floats, Ints
from netplan.topologies.families.torus import ring_next
from netplan.topologies.graph import FabricGraph
from netplan.traffic.demand import Leg
from netplan.traffic.matrix import sum_by
from netplan.traffic.routing_ecmp import Arcs, ecmp_loads
from netplan.traffic.routing_torus import RING

FLOWS_AN_OFFSET = 16
"""So many flows must share an offset on average: fewer are searched one by one [1]."""


class Twisted(Struct, frozen=True, eq=False):
    """A whole twisted torus, or several side by side, one a rail.

    Parameters
    ----------
    sizes
        Places along each axis, the first one fastest [1].
    rails
        GPUs at each place [1].
    axis_of_link
        Axis of every link, shape (links,).
    link
        Link that leads from each GPU to the next one along each axis, shape (axes, GPUs).
    """

    sizes: tuple[int, ...]
    rails: int
    axis_of_link: Ints
    link: Ints

    def loads(self, graph: FabricGraph, arcs: Arcs, leg: Leg) -> Floats | None:
        """Bytes on every link [B], shape (2, links); None if flows have too many offsets."""
        flows = leg.listed()
        (start, rail), (end, other) = (
            np.divmod(gpu, self.rails) for gpu in (flows.source, flows.destination)
        )
        if np.any(rail != other):
            return None
        offsets, which = np.unique(self._apart(start, end), return_inverse=True)
        if len(offsets) * FLOWS_AN_OFFSET > len(start):
            return None
        loads = np.zeros((2, graph.link_count))
        if not len(start):
            return loads
        order = np.argsort(which, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(which))[:-1])
        for offset, part in zip(offsets.tolist(), parts, strict=True):
            one = ecmp_loads(arcs, np.zeros(1, int), np.array([offset * self.rails]), np.ones(1))
            amount = flows.flow_bytes[part]
            for code in np.flatnonzero(one).tolist():
                way, link = divmod(code, graph.link_count)
                # Both ways of a link belong to the place where it begins along the axis.
                place = int(graph.source[link]) // self.rails
                here = self._shifted(start[part], place) * self.rails + rail[part]
                laid = self.link[self.axis_of_link[link], here]
                loads[way] += sum_by(laid, amount * one[code], graph.link_count)
        return loads

    def _apart(self, start: AnyInts, end: AnyInts) -> Ints:
        """Place that the first one comes to when a start comes to its end."""
        return self._reduced([b - a for a, b in zip(self._at(start), self._at(end), strict=True)])

    def _shifted(self, start: AnyInts, by: int) -> Ints:
        """Places that starts come to when the first place comes to another one."""
        steps = self._at(np.array([by]))
        return self._reduced([a + b for a, b in zip(self._at(start), steps, strict=True)])

    def _at(self, place: AnyInts) -> tuple[Ints, ...]:
        return np.unravel_index(place, self.sizes, order="F")

    def _reduced(self, steps: list[Ints]) -> Ints:
        """Places at so many steps along every axis: a round of a short one is half of long ones."""
        short = min(self.sizes)
        rounds = sum(n // short for n, size in zip(steps, self.sizes, strict=True) if size == short)
        at = [
            n % size if size == short else (n + rounds * (size // 2)) % size
            for n, size in zip(steps, self.sizes, strict=True)
        ]
        return np.ravel_multi_index(at, self.sizes, order="F")


def twisted_of_graph(graph: FabricGraph) -> Twisted | None:
    """Twisted torus that a graph's rings form over all GPUs; None if they form none.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=128, radix=64, hb_size=1).sizing
    >>> found = [twisted_of_graph(expand(FABRICS.load(name), sizing))
    ...          for name in ("twisted-torus", "torus-3d")]
    >>> found[0].sizes, found[1] is None
    ((4, 4, 8), True)
    """
    names = [int(n.split()[1]) - 1 if n.startswith(RING) else -1 for n in graph.group_names]
    axis_of_link = np.array([*names, -1], np.int64)[graph.group]
    axes, rails = int(axis_of_link.max(initial=-1)) + 1, graph.hb_size
    if axes < 2 or graph.gpus % rails:  # noqa: PLR2004 - one axis has nothing to be twisted along
        return None
    sizes: tuple[int, ...] = ()
    links = [np.flatnonzero(axis_of_link == axis) for axis in range(axes)]
    for link in links:
        stride = prod(sizes) * rails
        inner = int(np.count_nonzero(graph.target[link] == graph.source[link] + stride))
        around = len(link) - inner
        if len(link) != graph.gpus or not around or graph.gpus % around:
            return None
        sizes = (*sizes, graph.gpus // around)
    if prod(sizes) * rails != graph.gpus or {min(sizes), 2 * min(sizes)} != set(sizes):
        return None
    found = np.full((axes, graph.gpus), -1, np.int64)
    rail = np.arange(rails)
    for axis, link in enumerate(links):
        found[axis, graph.source[link]] = link
        following = ring_next(sizes, axis, twist=True).astype(np.int64)
        target = np.add.outer(following * rails, rail).ravel()
        if (found[axis] < 0).any() or np.any(graph.target[found[axis]] != target):
            return None
    return Twisted(sizes, rails, axis_of_link, found)

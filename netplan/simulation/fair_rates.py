"""Max-min fair rates: how flows that run at one time share links.

======  ============================================================================================
C_l     capacity of directed link l [B/s]
w_f     weight of flow f [1]
u_f     highest rate of flow f: of its card, or a limit [B/s]
s_fl    share of the rate of f that l carries: 1 on one path, 1/n each where n paths are sprayed [1]
r_f     rate of flow f [B/s]
======  ============================================================================================

Rates are weighted max-min fair: sum_f s_fl r_f <= C_l and r_f <= u_f, and every flow has its
highest rate or a full link on which no flow has a larger r/w (Bertsekas and Gallager, Data
Networks, Sec. 6.5.2). They exist and are unique. A flow with several shares has one rate, since
packets that are sprayed evenly wait for the slowest path; several connections are several flows.

Classical filling raises all rates together and stops the flows of one full link after another.
Here every link that is the first to fill for all of its flows stops them in the same round:
flows that stop at or below a link's level never lower it, so it is full at that very level whatever
happens elsewhere. A permutation over 131,072 GPUs takes a few rounds for thousands of levels.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Self

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.errors import InputError

SAME_LEVEL = 1e-9
"""Links whose levels differ by less fill together [1]."""


class FlowLinks(Struct, frozen=True, eq=False):
    """Which links every flow takes, as compressed rows.

    Parameters
    ----------
    begins
        Where the links of every flow begin, and the end of the last, shape (flows + 1,).
    links
        Directed links, shape (entries,).
    shares
        Of the flow's rate that the link carries, shape (entries,) [1].
    """

    begins: Ints
    links: Ints
    shares: Floats

    @classmethod
    def of_paths(cls, paths: Sequence[Sequence[tuple[int, float]]]) -> Self:
        """Rows of flows that are given by their (link, share) pairs.

        Parameters
        ----------
        paths
            Links and shares of every flow.

        Returns
        -------
        FlowLinks
            The same as arrays.

        Examples
        --------
        >>> FlowLinks.of_paths([[(0, 1.0)], [(0, 0.5), (1, 0.5)]]).begins
        array([0, 1, 3])
        """
        begins = np.zeros(len(paths) + 1, np.int64)
        np.cumsum([len(path) for path in paths], out=begins[1:])
        flat = chain.from_iterable(chain.from_iterable(paths))
        entries = np.fromiter(flat, np.float64, 2 * int(begins[-1])).reshape(-1, 2)
        return cls(begins, entries[:, 0].astype(np.int64), entries[:, 1].copy())

    @property
    def flows(self) -> int:
        """Flows that there are [1]."""
        return len(self.begins) - 1

    @property
    def flow_of_entry(self) -> Ints:
        """The flow of every entry, shape (entries,)."""
        return np.arange(self.flows).repeat(np.diff(self.begins))

    def take(self, flows: Ints) -> Self:
        """The rows of some flows, in the order given.

        Parameters
        ----------
        flows
            Which, shape (some,).

        Returns
        -------
        FlowLinks
            Theirs.
        """
        first = self.begins[flows]
        counts = self.begins[flows + 1] - first
        begins = np.zeros(len(flows) + 1, np.int64)
        counts.cumsum(out=begins[1:])
        entries = np.arange(begins[-1]) + (first - begins[:-1]).repeat(counts)
        return type(self)(begins, self.links[entries], self.shares[entries])

    def carried(self, rates: Floats, links: int) -> Floats:
        """What every link carries.

        Parameters
        ----------
        rates
            Of every flow, shape (flows,) [B/s].
        links
            Links that there are [1].

        Returns
        -------
        ndarray
            Of every link, shape (links,) [B/s].
        """
        per_entry = self.shares * rates[self.flow_of_entry]
        return np.bincount(self.links, per_entry, links).astype(np.float64)


def max_min_rates(
    capacity: Floats, flows: FlowLinks, weight: Floats | None = None, limit: Floats | None = None
) -> Floats:
    """Weighted max-min fair rates of flows on directed links [B/s].

    Parameters
    ----------
    capacity
        Of every link; infinite where it limits nothing, shape (links,) [B/s].
    flows
        Links and shares of every flow.
    weight
        Of every flow; all 1 if None, shape (flows,) [1].
    limit
        Highest rate of every flow; none if None, shape (flows,) [B/s].

    Returns
    -------
    ndarray
        Of every flow; infinite where it takes no link and has no limit, shape (flows,) [B/s].

    Raises
    ------
    InputError
        If a capacity or share is negative or no number, or a weight or limit is not above 0.

    Examples
    --------
    A over link 0, B over both, D over link 1, of capacities 1 and 3:

    >>> paths = [[(0, 1.0)], [(0, 1.0), (1, 1.0)], [(1, 1.0)]]
    >>> max_min_rates(np.array([1.0, 3.0]), FlowLinks.of_paths(paths))
    array([0.5, 0.5, 2.5])
    """
    weights = np.ones(flows.flows) if weight is None else weight
    limits = np.full(flows.flows, np.inf) if limit is None else limit
    for name, values, good in (
        ("capacity", capacity, capacity >= 0),
        ("share", flows.shares, (flows.shares >= 0) & (flows.shares < np.inf)),
        ("weight", weights, (weights > 0) & (weights < np.inf)),
        ("limit", limits, limits > 0),
    ):
        if not good.all():
            raise InputError(f"a {name} of {values[~good][0]:g} lets nothing flow: give more")
    return filled_rates(capacity, flows, weights, limits)


def filled_rates(capacity: Floats, flows: FlowLinks, weight: Floats, limit: Floats) -> Floats:
    """As :func:`max_min_rates`, of values that are known to be good.

    Parameters
    ----------
    capacity
        Of every link, shape (links,) [B/s].
    flows
        Links and shares of every flow.
    weight
        Of every flow, shape (flows,) [1].
    limit
        Highest rate of every flow, shape (flows,) [B/s].

    Returns
    -------
    ndarray
        Of every flow, shape (flows,) [B/s].
    """
    rates = limit.astype(np.float64)
    owner = flows.flow_of_entry
    link, need = flows.links, flows.shares * weight[owner]
    counts, rows = np.diff(flows.begins), np.arange(flows.flows)
    limits = (need > 0) & (capacity[link] < np.inf)
    if not limits.all():
        counts = np.bincount(owner[limits], minlength=flows.flows)
        link, need = link[limits], need[limits]
    if not counts.all():
        rows, counts = rows[counts > 0], counts[counts > 0]
    free, own_level = capacity.astype(np.float64), (limit / weight)[rows]
    # Links that no flow takes any more have no level: 0 / 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        while len(rows):
            begins = counts.cumsum() - counts
            level = (free / np.bincount(link, need, len(free)))[link]
            reached = np.minimum(own_level, np.minimum.reduceat(level, begins))
            reached_here = reached.repeat(counts)
            # A link is not yet full at its level where a flow of it stops before that.
            waits = np.zeros(len(free), bool)
            waits[link[reached_here < level * (1 - SAME_LEVEL)]] = True
            frozen = ~np.logical_and.reduceat(waits[link], begins)
            frozen |= own_level <= reached * (1 + SAME_LEVEL)
            rates[rows[frozen]] = weight[rows[frozen]] * reached[frozen]
            goes_on = ~frozen
            rows, own_level = rows[goes_on], own_level[goes_on]
            if not len(rows):
                break
            gone = frozen.repeat(counts)
            free -= np.bincount(link[gone], (need * reached_here)[gone], len(free))
            np.maximum(free, 0.0, out=free)
            stays, counts = ~gone, counts[goes_on]
            link, need = link[stays], need[stays]
    return rates


def least_rate(capacity: Floats, load: Floats) -> float:
    """Rate of the slowest of flows of weight 1 that have no limits [B/s].

    All rates rise together until the first link is full, and those are its flows'.

    Parameters
    ----------
    capacity
        Of every link; infinite where it limits nothing, shape (links,) [B/s].
    load
        Sum of the shares of all flows on every link, shape (links,) [1].

    Returns
    -------
    float
        Infinite where no link is used [B/s].

    Examples
    --------
    >>> least_rate(np.array([1.0, 3.0]), np.array([2.0, 2.0]))
    0.5
    """
    used = np.flatnonzero(load)
    return float((capacity[used] / load[used]).min(initial=np.inf))

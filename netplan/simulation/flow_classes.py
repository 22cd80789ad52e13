"""Classes of like flows and like links: equal flows on like links have equal rates.

Colours are refined (as for linear programs: Grohe, Kersting, Mladenov and Selman, ESA 2014): links
begin with their capacity and flows with what is asked of them; then every link takes the colours
of its flows and their shares into its own, and every flow those of its links, until there are no
more colours than before. Flows of one colour then have the same shares on links of every colour,
and links of one colour the same of flows of every colour, so that what fills one of them fills all
at the same level: rates are found on one flow and one link of each colour.

A colour is a hash of 64 bits. That two things that differ have one is as good as impossible, and
``check`` compares them exactly.

Links that carry the same shares of the same flows, as spraying has them above a leaf, are one
trunk: one of them stands for all, and nothing else is looked at.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints, Words, hash64
from netplan.errors import InputError
from netplan.simulation.fair_rates import FlowLinks

Waits = tuple[Ints, Ints]
"""Flows that wait, and what each of them waits for, shape (pairs,) each."""

NOBODY: Waits = (np.empty(0, np.int64), np.empty(0, np.int64))


class FlowClasses(Struct, frozen=True, eq=False):
    """Which flows and which links are alike.

    Parameters
    ----------
    flow, link
        The class of each; -1 of links that no flow takes, shape (flows,) and (links,).
    flows, links
        The first of every class, shape (classes,).
    """

    flow: Ints
    link: Ints
    flows: Ints
    links: Ints

    def quotient(self, rows: FlowLinks) -> FlowLinks:
        """One flow of each class, on one link of each class.

        Parameters
        ----------
        rows
            Links and shares of every flow.

        Returns
        -------
        FlowLinks
            Shares of the links of a class that the flows of a class have together, a link.
        """
        first = rows.take(self.flows)
        key = first.flow_of_entry * len(self.links) + self.link[first.links]
        distinct, place = np.unique(key, return_inverse=True)
        flow, link = np.divmod(distinct, len(self.links))
        members = np.bincount(self.flow)[flow] / np.bincount(self.link[self.link >= 0])[link]
        begins = np.searchsorted(flow, np.arange(len(self.flows) + 1))
        return FlowLinks(begins, link, np.bincount(place, first.shares) * members)


def flow_classes(
    rows: FlowLinks,
    of_links: Sequence[Floats],
    of_flows: Sequence[Floats] = (),
    *,
    waits: Waits = NOBODY,
    check: bool = False,
) -> FlowClasses:
    """Classes of flows that have equal rates, and of the links that they take.

    Parameters
    ----------
    rows
        Links and shares of every flow.
    of_links
        What links of a class have in common: capacities, shape (links,) each.
    of_flows
        What flows of a class have in common, such as weights and bytes, shape (flows,) each.
    waits
        Flows of a class also wait for flows of the same classes.
    check
        Compare exactly what has one colour.

    Returns
    -------
    FlowClasses
        Numbered in an order that no order of flows or links changes.

    Raises
    ------
    InputError
        If ``check`` finds two things of one colour that differ.

    Examples
    --------
    Of four flows over two links of their own each, one shares a link with another; two are alike.

    >>> rows = FlowLinks.of_paths([[(0, 1.0)], [(0, 1.0)], [(1, 1.0)], [(2, 1.0)]])
    >>> classes = flow_classes(rows, [np.ones(3)])
    >>> classes.flow[0] == classes.flow[1], classes.flow[2] == classes.flow[3]
    (np.True_, np.True_)
    >>> len(classes.flows), len(classes.links)
    (2, 2)
    """
    used = np.zeros(len(of_links[0]), bool)
    used[rows.links] = True
    number = np.cumsum(used) - 1
    local = FlowLinks(rows.begins, number[rows.links], rows.shares)
    of_used = [values[used] for values in of_links]
    link, flow = _coloured(int(used.sum()), of_used), _coloured(rows.flows, of_flows)
    flow, link = _refined(local, flow, link, waits)
    flow_class, flows = _numbered(flow)
    link_class, links = _numbered(link)
    if check:
        _check(local, (flow_class, flows, of_flows), (link_class, links, of_used), waits)
    every = np.full(len(used), -1)
    every[used] = link_class
    return FlowClasses(flow_class, every, flows, np.flatnonzero(used)[links])


def _coloured(count: int, columns: Sequence[Floats]) -> Words:
    """Colours by what things have in common from the start."""
    colour = np.zeros(count, np.uint64)
    for values in columns:
        colour = hash64(colour + _bits(values))
    return colour


def _refined(rows: FlowLinks, flow: Words, link: Words, waits: Waits) -> tuple[Words, Words]:
    """Colours of flows and of links, as fine as they become."""
    share, of_entry = _odd(rows.shares), rows.flow_of_entry
    filled = np.diff(rows.begins) > 0
    begins = rows.begins[:-1][filled]
    waiting, others = waits
    colours = -1
    while (count := _distinct(flow) + _distinct(link)) > colours:
        colours = count
        on_link = np.zeros_like(link)
        np.add.at(on_link, rows.links, hash64(flow)[of_entry] * share)
        link = hash64(link + hash64(on_link))
        of_flow = np.zeros_like(flow)
        if len(begins):
            of_flow[filled] = np.add.reduceat(hash64(link)[rows.links] * share, begins)
        np.add.at(of_flow, waiting, hash64(~flow)[others])
        flow = hash64(flow + hash64(of_flow))
    return flow, link


def _bits(values: Floats) -> Words:
    """Numbers as words; equal ones have equal words, zeros of either sign among them."""
    return (np.asarray(values, np.float64) + 0.0).view(np.uint64)


def _odd(shares: Floats) -> Words:
    """A factor for each share that loses no bit."""
    return hash64(_bits(shares)) | np.uint64(1)


def _distinct(words: Words) -> int:
    """How many there are [1]."""
    ordered = np.sort(words)
    return len(words) and int(np.count_nonzero(ordered[1:] != ordered[:-1])) + 1


def _numbered(colour: Words) -> tuple[Ints, Ints]:
    """The class of each by rising colour, and the first of each class."""
    ordered = np.sort(colour)
    colours = ordered[np.flatnonzero(np.diff(ordered, prepend=~ordered[:1]))]
    place = np.searchsorted(colours, colour)
    first = np.full(len(colours), len(colour))
    np.minimum.at(first, place, np.arange(len(colour)))
    return place, first


Compared = tuple[Ints, Ints, Sequence[Floats]]
"""Classes of things, the first of each class, and what all of a class have in common."""


def _check(rows: FlowLinks, flows: Compared, links: Compared, waits: Waits) -> None:
    """Compare all flows and links with the first of their class."""
    (flow, first_flow, of_flows), (link, first_link, of_links) = flows, links
    waiting, others = waits
    entry, like_flow, like_link = rows.flow_of_entry, first_flow[flow], first_link[link]
    same = {
        "flows": [
            same_rows(entry, like_flow, link[rows.links], rows.shares),
            same_rows(waiting, like_flow, flow[others]),
            *(values[like_flow] == values for values in of_flows),
        ],
        "links": [
            same_rows(rows.links, like_link, flow[entry], rows.shares),
            *(values[like_link] == values for values in of_links),
        ],
    }
    for what, comparisons in same.items():
        differing = np.flatnonzero(~np.logical_and.reduce(comparisons))
        if len(differing):
            raise InputError(
                f"{len(differing):,} {what} have the colour of others and are not like them: two"
                " hashes of 64 bits are equal by chance, and classes are wrong; please report what"
                " was asked"
            )


def same_rows(row: Ints, like: Ints, *columns: Ints | Floats) -> Bools:
    """Whether rows have the same entries as others, in any order.

    Parameters
    ----------
    row
        Of every entry, shape (entries,).
    like
        The row that each is compared with, shape (rows,).
    columns
        What entries hold, shape (entries,) each.

    Returns
    -------
    ndarray
        Shape (rows,).

    Examples
    --------
    >>> same_rows(np.array([0, 0, 1, 1, 2]), np.array([0, 0, 0]), np.array([5, 7, 7, 5, 5]))
    array([ True,  True, False])
    """
    order = np.lexsort((*columns[::-1], row))
    counts = np.bincount(row, minlength=len(like))
    begins = np.cumsum(counts) - counts
    alike: Bools = counts == counts[like]
    compared = np.repeat(alike & (like != np.arange(len(like))), counts)
    mine = np.flatnonzero(compared)
    owner = row[order][mine]
    theirs = begins[like[owner]] + mine - begins[owner]
    for column in columns:
        values = column[order]
        alike[owner[values[mine] != values[theirs]]] = False
    return alike


def trunks(capacity: Floats, rows: FlowLinks) -> FlowLinks:
    """The same flows with one link for all that carry the same of them at the same capacity.

    Parameters
    ----------
    capacity
        Of every link, shape (links,) [B/s].
    rows
        Links and shares of every flow.

    Returns
    -------
    FlowLinks
        Without the links for which another one stands, which changes no rate.

    Examples
    --------
    >>> sprayed = FlowLinks.of_paths([[(0, 1.0), (1, 0.5), (2, 0.5)]])
    >>> trunks(np.ones(3), sprayed).links
    array([0, 1])
    """
    if not (rows.shares < 1).any():
        return rows
    word = hash64(_bits(capacity))
    flow = rows.flow_of_entry
    np.add.at(word, rows.links, hash64(flow.astype(np.uint64)) * _odd(rows.shares))
    place, first = _numbered(word)
    like = first[place]
    stands = like == np.arange(len(like))
    stands |= ~same_rows(rows.links, like, flow, rows.shares) | (capacity[like] != capacity)
    kept = stands[rows.links]
    if kept.all():
        return rows
    begins = np.concatenate([[0], np.cumsum(kept)])[rows.begins]
    return FlowLinks(begins, rows.links[kept], rows.shares[kept])

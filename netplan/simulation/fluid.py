"""Messages as a fluid: every message that runs has a rate, and rates are max-min fair.

Between events rates are constant (`netplan.simulation.fair_rates`). Events are starts and ends of
messages: one starts when its time has come and all that it waits for have finished; it ends when
its bytes have gone, and finishes a latency later. Its rate is free from its end on, and what waits
for it starts at its finish.

Only messages that share links with those that start or end, directly or through others, get new
rates. Such components are merged as messages join them, and found anew when half of their messages
have gone. Rates of a set of flows that ran before are looked up.

A collective is either sent step by step or coupled: its pairs advance at one rate, so it is one
flow, whose share of a link is the number of its pairs there.

It leaves out what packets do: queues, losses, pauses and marks, slow start, acknowledgements.

Sources: Bertsekas and Gallager, Data Networks, Sec. 6.5.2 (max-min fairness); flow-level simulation
as in SimGrid (Casanova et al., JPDC 74, 2014).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain, count
from math import inf, isnan
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints, distinct_values
from netplan.errors import InputError, piece
from netplan.files import csv_rows, read_lines
from netplan.records import replace
from netplan.simulation.fair_rates import FlowLinks, filled_rates
from netplan.simulation.flow_classes import FlowClasses, flow_classes, trunks
from netplan.units import GIGA

GONE = 1e-9
"""A message has ended when this share of its bytes is left [1]."""

SAME_TIME = 1e-12
"""Events that differ by this share of the time that has passed are one event [1]."""

MOST_CONNECTION = (1 << 16) - 1
"""Number of a connection of a file at most [1]: hashes multiply numbers of pairs by it."""

MOST_KEPT = 1 << 24
"""Rates that are kept for sets of flows that come back: 128 MiB [1]."""

MOST_WORK = 1_000_000_000
"""Links of flows for which rates are found anew, all solutions together: about half an hour [1]."""

SURE_WORK = MOST_WORK // 100
"""Work from which that of all is projected [1]."""

LOOKED_EVERY = 256
"""Events from one look at the work to the next [1]."""

Tick = Callable[[int, int], None]
"""Told how many messages have finished, of how many."""

Observer = Callable[[float, float, Ints, Floats], None]
"""Told of a stretch of constant rates: its begin and end [s], messages, and their rates [B/s]."""


class TooWideError(InputError):
    """So many messages share links that their rates would take hours to find."""


class SharedLinks(Struct, frozen=True, eq=False):
    """Links and the flows that share them.

    Parameters
    ----------
    capacity
        Of every directed link, shape (links,) [B/s].
    flows
        Links and shares of every flow.
    weight
        Of every flow, shape (flows,) [1].
    limit
        Highest rate of every flow; infinite where it has none, shape (flows,) [B/s].
    """

    capacity: Floats
    flows: FlowLinks
    weight: Floats
    limit: Floats


class Messages(Struct, frozen=True, eq=False):
    """What is sent, over which flow, when.

    Parameters
    ----------
    flow
        The flow that each takes, shape (messages,).
    size_bytes
        Bytes, shape (messages,) [B].
    start_s
        Not before this time, shape (messages,) [s].
    latency_s
        From the end of its bytes to its finish, shape (messages,) [s].
    after
        Messages that each waits for.
    """

    flow: Ints
    size_bytes: Floats
    start_s: Floats
    latency_s: Floats
    after: Sequence[Sequence[int]]


class Delivery(Struct, frozen=True, eq=False):
    """When messages ran.

    Parameters
    ----------
    start_s, finish_s
        Of every message, shape (messages,) [s].
    solves
        How often rates were found [1].
    """

    start_s: Floats
    finish_s: Floats
    solves: int


class _Component:
    """Messages that share links, directly or through others, and have constant rates."""

    __slots__ = ("built", "end_s", "links", "members", "since_s")

    def __init__(self, members: Ints, links: Ints, now_s: float) -> None:
        self.members, self.links, self.built = members, links, len(members)
        self.since_s, self.end_s = now_s, inf


class _Run:
    """Messages on their way."""

    def __init__(self, shared: SharedLinks, messages: Messages, observe: Observer | None) -> None:
        count = len(messages.flow)
        flows = trunks(shared.capacity, shared.flows)
        self.shared, self.messages = replace(shared, flows=flows), messages
        self.observe = observe
        self.left = messages.size_bytes.astype(np.float64)
        self.rate = np.zeros(count)
        self.end_s = np.full(count, inf)
        self.start_s = np.full(count, np.nan)
        self.finish_s = np.full(count, np.nan)
        self.waits = [len(others) for others in messages.after]
        self.followers = followers_of(messages.after)
        self.starts = [(float(messages.start_s[i]), i) for i in range(count) if not self.waits[i]]
        self.starts.sort()
        moments = len({start_s for start_s, _ in self.starts})
        self.most_events = 2 * count - len(self.starts) + moments
        self.ends: list[tuple[float, int]] = []
        self.components: dict[int, _Component] = {}
        self.component_of_link = np.full(len(shared.capacity), -1, np.int64)
        self.made = self.solves = self.kept_rates = self.finished = self.work = 0
        self.known: dict[bytes, Floats] = {}

    def run(self, tick: Tick | None = None) -> Delivery:
        """Go from event to event until no message is left."""
        for event in count():
            if not (self.starts or self.ends):
                break
            if event % LOOKED_EVERY == 0:
                self._look(event, tick)
            while self.ends and not self._is_current(*self.ends[0]):
                heappop(self.ends)
            now_s = min(
                self.starts[0][0] if self.starts else inf, self.ends[0][0] if self.ends else inf
            )
            if now_s == inf:
                break
            self._event(now_s, now_s * (1 + SAME_TIME))
        stuck = np.flatnonzero(np.isnan(self.finish_s))
        if len(stuck):
            in_flight = stuck[~np.isnan(self.start_s[stuck])]
            raise InputError(
                f"message {in_flight[0]} never ends: a link on its way has no rate left"
                if len(in_flight)
                else f"message {stuck[0]} never starts: it waits for itself through others"
            )
        return Delivery(self.start_s, self.finish_s, self.solves)

    def _look(self, event: int, tick: Tick | None) -> None:
        """Say how far it is, and refuse what would take hours.

        Flows that all share links have new rates at the start and the end of each, so that the work
        grows with the square of their number. Which share is done is told by events, which are an
        end of each message at most, and by messages, of which many may end in one.
        """
        messages = len(self.rate)
        if tick is not None:
            tick(self.finished, messages)
        if self.work <= SURE_WORK:
            return
        share = max(event / self.most_events, self.finished / messages)
        if self.work > MOST_WORK * share:
            raise TooWideError(
                f"{messages:,} messages share links so widely that every start and end changes the"
                f" rates of many: about {self.work / share / GIGA:,.3g} billion to find, where"
                f" {MOST_WORK / GIGA:,.2g} billion take half an hour: send fewer at a time, such as"
                " a part of the file by start_us, or ask netplan loads --matrix FILE (columns"
                " source,destination,bytes,kind) which links are busy"
            )

    def _is_current(self, end_s: float, number: int) -> bool:
        """Whether a component still ends something then."""
        component = self.components.get(number)
        return component is not None and component.end_s == end_s

    def _event(self, now_s: float, until_s: float) -> None:
        """All that ends, and then all that starts, in one moment."""
        changed = []
        while self.ends and self.ends[0][0] <= until_s:
            end_s, number = heappop(self.ends)
            if self._is_current(end_s, number):
                self._end(self.components[number], now_s, until_s)
                self.components[number].end_s = inf
                changed.append(number)
        joining = []
        while self.starts and self.starts[0][0] <= until_s:
            start_s, message = heappop(self.starts)
            self.start_s[message] = start_s
            joining.append(message)
        for number in self._regrouped(changed, np.array(sorted(joining), np.int64), now_s):
            self._solve(number, now_s)

    def _advance(self, component: _Component, now_s: float) -> None:
        """Let the bytes go that have gone since its rates were found."""
        members, since_s = component.members, component.since_s
        if now_s > since_s:
            if self.observe is not None:
                self.observe(since_s, now_s, members, self.rate[members])
            self.left[members] -= self.rate[members] * (now_s - since_s)
        component.since_s = now_s

    def _end(self, component: _Component, now_s: float, until_s: float) -> None:
        """Take the messages out whose bytes have gone; those that wait for them may start."""
        self._advance(component, now_s)
        members = component.members
        sizes = self.messages.size_bytes[members]
        gone = (self.end_s[members] <= until_s) | (self.left[members] <= GONE * sizes)
        component.members = members[~gone]
        for message in members[gone].tolist():
            finish_s = now_s + float(self.messages.latency_s[message])
            self.finish_s[message] = finish_s
            self.finished += 1
            for follower in self.followers[message]:
                self.waits[follower] -= 1
                if not self.waits[follower]:
                    others = list(self.messages.after[follower])
                    ready_s = max(float(self.finish_s[others].max()), now_s)
                    start_s = max(float(self.messages.start_s[follower]), ready_s)
                    heappush(self.starts, (start_s, follower))

    def _regrouped(self, changed: list[int], joining: Ints, now_s: float) -> list[int]:
        """Components that need new rates, after some have changed and messages have joined."""
        links = self.shared.flows.take(self.messages.flow[joining]).links
        met = distinct_values(self.component_of_link[links])
        touched = set(met[met >= 0].tolist())
        shrunk = {
            number
            for number in changed
            if 2 * len(self.components[number].members) <= self.components[number].built
        }
        kept = [number for number in changed if number not in touched and number not in shrunk]
        loose = [self.components.pop(number) for number in sorted(touched | shrunk)]
        for component in loose:
            self._advance(component, now_s)
            self.component_of_link[component.links] = -1
        members = np.sort(np.concatenate([joining, *(part.members for part in loose)]))
        if len(joining) == 1 and not shrunk:
            # All of them meet the one that joins; links of those that have gone stay with them.
            links = np.concatenate([links, *(part.links for part in loose)])
            parts = [(members, links)]
        else:
            parts = self._parts(members)
        for part, taken in parts:
            self.components[self.made] = _Component(part, taken, now_s)
            self.component_of_link[taken] = self.made
            kept.append(self.made)
            self.made += 1
        return kept

    def _parts(self, members: Ints) -> list[tuple[Ints, Ints]]:
        """Messages that share links, directly or through others, and those links."""
        if not len(members):
            return []
        rows = self.shared.flows.take(self.messages.flow[members])
        links, local = np.unique(rows.links, return_inverse=True)
        rows = FlowLinks(rows.begins, local, rows.shares)
        part, link_part = flow_sets(rows, len(links))
        numbers = distinct_values(part)
        if len(numbers) == 1:
            return [(members, links)]
        flow_cuts, flow_order = _by_label(part, numbers)
        link_cuts, link_order = _by_label(link_part, numbers)
        groups = np.split(members[flow_order], flow_cuts)
        return list(zip(groups, np.split(links[link_order], link_cuts), strict=True))

    def _solve(self, number: int, now_s: float) -> None:
        """Find new rates of a component, and when the next of its messages ends."""
        component = self.components[number]
        members = component.members
        flow = self.messages.flow[members]
        order = np.argsort(flow, kind="stable")
        rates = np.empty(len(members))
        rates[order] = self._rates(flow[order])
        self.rate[members] = rates
        with np.errstate(divide="ignore", invalid="ignore"):
            lasts_s = np.where(self.left[members] > 0, self.left[members] / rates, 0.0)
        self.end_s[members] = now_s + lasts_s
        component.end_s = now_s + float(lasts_s.min())
        if component.end_s < inf:
            heappush(self.ends, (component.end_s, number))

    def _rates(self, flow: Ints) -> Floats:
        """Rates of flows, in rising order, that share links with each other alone [B/s]."""
        key = flow.tobytes()
        if key in self.known:
            return self.known[key]
        self.solves += 1
        shared = self.shared
        rows = shared.flows.take(flow)
        self.work += len(rows.links)
        links, local = np.unique(rows.links, return_inverse=True)
        rows = FlowLinks(rows.begins, local, rows.shares)
        rates = filled_rates(shared.capacity[links], rows, shared.weight[flow], shared.limit[flow])
        self.kept_rates += len(flow)
        if self.kept_rates > MOST_KEPT:
            self.known.clear()
            self.kept_rates = len(flow)
        self.known[key] = rates
        return rates


def _by_label(label: Ints, labels: Ints) -> tuple[Ints, Ints]:
    """Where each label after the first begins, and the order in which labels stand together."""
    order = np.argsort(label, kind="stable")
    return np.searchsorted(label[order], labels[1:]), order


def flow_sets(rows: FlowLinks, links: int) -> tuple[Ints, Ints]:
    """Flows that share links, directly or through others: the first flow of its set for each.

    Every set joins the lowest one on its links, and goes on where that one goes, until none does.

    Parameters
    ----------
    rows
        Links of every flow.
    links
        Links that there are [1].

    Returns
    -------
    tuple of ndarray
        Of every flow and of every link; ``flows`` of links that none takes.

    Examples
    --------
    Flows 0 and 2 meet on link 1:

    >>> rows = FlowLinks.of_paths([[(0, 1.0), (1, 1.0)], [(2, 1.0)], [(1, 1.0)]])
    >>> flow_sets(rows, 3)
    (array([0, 1, 0]), array([0, 0, 1]))
    """
    owner, part = rows.flow_of_entry, np.arange(rows.flows)
    while True:
        on_link = np.full(links, rows.flows)
        np.minimum.at(on_link, rows.links, part[owner])
        joins = part.copy()
        # Whoever leads a set takes all of it along.
        np.minimum.at(joins, part[owner], on_link[rows.links])
        joins = joins[joins[part]]
        if np.array_equal(joins, part):
            return part, on_link
        part = joins


def send(
    shared: SharedLinks,
    messages: Messages,
    observe: Observer | None = None,
    *,
    tick: Tick | None = None,
) -> Delivery:
    """Send messages over shared links.

    Parameters
    ----------
    shared
        Links and the flows that messages take.
    messages
        What is sent, in an order that does not matter but for names in errors.
    observe
        Told of every stretch of constant rates of messages that share links; may be None.
    tick
        Told now and then how many have finished; may be None.

    Returns
    -------
    Delivery
        When each started and finished.

    Raises
    ------
    TooWideError
        If so many messages share links that their rates would take hours to find.
    InputError
        If a message never starts, since messages wait for each other, or never ends, since a link
        on its way has no capacity.

    Examples
    --------
    20 and 10 MB over one link of 1 GB/s: both have half of it until the small one has gone.

    >>> flows = FlowLinks.of_paths([[(0, 1.0)]])
    >>> shared = SharedLinks(np.array([1e9]), flows, np.ones(1), np.full(1, inf))
    >>> zeros = np.zeros(2)
    >>> messages = Messages(np.array([0, 0]), np.array([20e6, 10e6]), zeros, zeros, ((), ()))
    >>> send(shared, messages).finish_s
    array([0.03, 0.02])
    """
    return _Run(shared, messages, observe).run(tick)


def classed(
    shared: SharedLinks, messages: Messages, of_links: Sequence[Floats], *, check: bool = False
) -> tuple[SharedLinks, Messages, FlowClasses]:
    """One message for all that start and finish together by the symmetry of what is sent.

    Parameters
    ----------
    shared, messages
        Links, flows, and what is sent.
    of_links
        Capacities that links of a class have in common, shape (links,) each [B/s].
    check
        Compare exactly what has one colour.

    Returns
    -------
    tuple
        Links and messages of the classes, capacities being the first of those given; and which
        messages are alike, each as a flow of its own.

    Raises
    ------
    InputError
        If ``check`` finds that hashes of things that differ are equal.

    Examples
    --------
    Four messages over two links, two on each: one stands for all.

    >>> flows = FlowLinks.of_paths([[(0, 1.0)], [(1, 1.0)]])
    >>> shared = SharedLinks(np.full(2, 1e9), flows, np.ones(2), np.full(2, inf))
    >>> zeros = np.zeros(4)
    >>> messages = Messages(np.array([0, 0, 1, 1]), np.full(4, 10e6), zeros, zeros, [()] * 4)
    >>> few, sent, classes = classed(shared, messages, [shared.capacity])
    >>> send(few, sent).finish_s, classes.flow
    (array([0.02]), array([0, 0, 0, 0]))
    """
    flow, after = messages.flow, messages.after
    rows = shared.flows.take(flow)
    sent_as = messages.size_bytes, messages.start_s, messages.latency_s
    asked = *sent_as, shared.weight[flow], shared.limit[flow], _depths(after)
    waits = (
        np.repeat(np.arange(len(after)), [len(others) for others in after]),
        np.fromiter(chain.from_iterable(after), np.int64),
    )
    classes = flow_classes(rows, of_links, asked, waits=waits, check=check)
    first = classes.flows
    few = SharedLinks(
        of_links[0][classes.links],
        classes.quotient(rows),
        shared.weight[flow[first]],
        shared.limit[flow[first]],
    )
    sent = Messages(
        np.arange(len(first)),
        messages.size_bytes[first],
        messages.start_s[first],
        messages.latency_s[first],
        [sorted({int(classes.flow[other]) for other in after[index]}) for index in first.tolist()],
    )
    return few, sent, classes


def followers_of(after: Sequence[Sequence[int]]) -> list[list[int]]:
    """Messages that wait for each, of those that each waits for.

    Parameters
    ----------
    after
        Numbers of the messages that each waits for [1].

    Returns
    -------
    list of list of int
        Numbers of those that wait for each, in order [1].
    """
    followers: list[list[int]] = [[] for _ in after]
    for number, others in enumerate(after):
        for other in others:
            followers[other].append(number)
    return followers


def _depths(after: Sequence[Sequence[int]]) -> Floats:
    """Messages that each waits for one after another, so that long chains have their colours.

    Those that wait for themselves through others have -1.
    """
    followers, waits = followers_of(after), [len(others) for others in after]
    depth = np.full(len(after), -1.0)
    ready = [number for number, others in enumerate(waits) if not others]
    depth[ready] = 0.0
    for number in ready:
        for follower in followers[number]:
            waits[follower] -= 1
            if not waits[follower]:
                depth[follower] = depth[number] + 1
                ready.append(follower)
    return depth


PAYLOAD_BYTES, FRAME_BYTES = 8900, 8954
"""Bytes of a packet, without and with its IP, TCP and link headers [B].

A jumbo frame of 9,000 B with room for the headers of a tunnel: 20 B of IP, 32 B of TCP with time
stamps (RFC 7323) and 2 B of the link, as packet simulators send over point-to-point links."""

LINK_DELAY_S = 1e-6
"""Delay of a link: 200 m of fibre at 4.9 ns/m [s]."""

Collectives = Literal["steps", "coupled"]
"""Whether messages that wait for each other are sent one by one, or as one flow."""


class MessageRoute(NamedTuple):
    """Links that a message takes with their shares, and what its last byte takes to arrive [s]."""

    links: Sequence[tuple[int, float]]
    latency_s: float


RouteOf = Callable[[int, int, int | None], MessageRoute]
"""The route from host to host over the spine or connection that a row names, None for none."""


class ClosLinks(Struct, frozen=True):
    """Links of a two-tier Clos of equal leaves: every leaf has one uplink to every spine.

    Parameters
    ----------
    leaves, hosts_a_leaf, spines
        Of the fabric [1].
    host_bytes_per_s, uplink_bytes_per_s
        Of a link, one direction, with headers [B/s].
    """

    leaves: int
    hosts_a_leaf: int
    spines: int
    host_bytes_per_s: float
    uplink_bytes_per_s: float

    def __post_init__(self) -> None:
        """Refuse a fabric without parts."""
        if min(self.leaves, self.hosts_a_leaf) < 1 or self.spines < 0:
            raise InputError(
                "a two-tier Clos has leaves and hosts below them, got"
                f" {self.leaves:,} leaves of {self.hosts_a_leaf:,} hosts, {self.spines:,} spines"
            )
        if not (0 < self.host_bytes_per_s < inf and 0 < self.uplink_bytes_per_s < inf):
            raise InputError("links of hosts and uplinks have a rate: give more than 0 Gb/s")

    @property
    def hosts(self) -> int:
        """Hosts of all leaves [1]."""
        return self.leaves * self.hosts_a_leaf

    @property
    def capacity(self) -> Floats:
        """Of every directed link, without headers [B/s].

        Hosts up, hosts down, leaves up and leaves down, spine by spine.
        """
        uplinks = 2 * self.leaves * self.spines
        rates = [self.host_bytes_per_s] * (2 * self.hosts) + [self.uplink_bytes_per_s] * uplinks
        return np.array(rates) * PAYLOAD_BYTES / FRAME_BYTES

    def uplinks(self, leaf: int, spine: int) -> tuple[int, int]:
        """The link from a leaf up to a spine, and the one down.

        Parameters
        ----------
        leaf, spine
            From 0.

        Returns
        -------
        tuple of int
            Numbers of the links.
        """
        up = 2 * self.hosts + leaf * self.spines + spine
        return up, up + self.leaves * self.spines

    def route(self, source: int, target: int, way: int | None) -> MessageRoute:
        """Links and shares from host to host; equal shares over all spines if none is given.

        Every hop has its delay, and every switch receives a packet before it sends it on.

        Parameters
        ----------
        source, target
            Hosts, from 0.
        way
            The spine between leaves, from 0; None sprays over all.

        Returns
        -------
        MessageRoute
            Nothing from a host to itself.
        """
        if source == target:
            return MessageRoute((), 0.0)
        links = [(source, 1.0), (self.hosts + target, 1.0)]
        first, last = source // self.hosts_a_leaf, target // self.hosts_a_leaf
        hops = 2
        if first != last:
            if not self.spines:
                raise InputError(f"host {source} cannot reach host {target}: there are no spines")
            over = range(self.spines) if way is None else (way,)
            share = 1.0 / len(over)
            links += [(self.uplinks(first, between)[0], share) for between in over]
            links += [(self.uplinks(last, between)[1], share) for between in over]
            hops = 4
        return MessageRoute(links, hops_s(hops, self.host_bytes_per_s))


def hops_s(hops: int, bytes_per_s: float) -> float:
    """What the last byte takes over some hops: their delays, and a packet again at every switch.

    Parameters
    ----------
    hops
        Links one after the other [1].
    bytes_per_s
        Rate of a host's link [B/s].

    Returns
    -------
    float
        Hops x delay + (hops - 1) x time of a packet [s].

    Examples
    --------
    >>> round(1e6 * hops_s(4, 1.25e9), 4)
    25.4896
    """
    return hops * LINK_DELAY_S + max(0, hops - 1) * FRAME_BYTES / bytes_per_s


class Row(Struct, frozen=True):
    """A message of a table: from host to host, checked.

    It stands at ``place`` of the table, and errors call it by its name; ``way`` is its spine, or
    the number of its connection; ``after`` names messages by their place in the order of numbers.
    ``size_bytes`` [B], ``start_s`` [s], ``weight`` [1], ``limit`` [B/s].
    """

    place: int
    name: str
    ends: tuple[int, int]
    way: int | None
    size_bytes: float
    start_s: float
    after: tuple[int, ...]
    weight: float
    limit: float

    @property
    def pair(self) -> tuple[int, int, int | None]:
        """Whose bytes take one route."""
        return *self.ends, self.way


def message_times_s(  # noqa: PLR0913 - a fabric, and whether collectives are coupled
    messages: Iterable[Mapping[str, Any]],
    *,
    leaves: int,
    hosts_a_leaf: int,
    spines: int,
    host_gbps: float,
    uplink_gbps: float,
    slow_link: tuple[int, int, float] | None = None,
    collectives: Collectives = "steps",
) -> list[float]:
    """Finish times of messages over a two-tier Clos whose flows share links max-min fairly [s].

    Parameters
    ----------
    messages
        Rows with ``source``, ``target`` (or ``destination``; hosts from 0, leaf by leaf) and
        ``bytes``; and as needed ``message`` (its number, else its place), ``spine`` (from 0; empty:
        sprayed over all), ``start_us`` (0), ``after`` (numbers, blanks between), ``weight`` (1) and
        ``limit`` (B/s). Other columns mean nothing.
    leaves, hosts_a_leaf, spines
        Of the fabric [1].
    host_gbps, uplink_gbps
        Rates of links, one direction [Gb/s].
    slow_link
        Leaf and spine of a link with a share of its rate, both ways, and that share [1].
    collectives
        Messages that wait for each other one by one, or as one flow with one finish.

    Returns
    -------
    list of float
        Of every message, in their order [s].

    Raises
    ------
    InputError
        If a row is no message of this fabric, or messages wait for each other.

    Examples
    --------
    Two messages into one host share its link; 20 MB alone would take 16.12 ms.

    >>> rows = [{"source": 0, "target": 5, "spine": 0, "bytes": 20e6},
    ...         {"source": 1, "target": 5, "spine": 1, "bytes": 20e6}]
    >>> fabric = {"leaves": 4, "hosts_a_leaf": 4, "spines": 4, "host_gbps": 10, "uplink_gbps": 10}
    >>> [round(1e3 * finish_s, 4) for finish_s in message_times_s(rows, **fabric)]
    [32.2196, 32.2196]
    """
    rates = (float(gbps) * 1e9 / 8 for gbps in (host_gbps, uplink_gbps))
    fabric = ClosLinks(int(leaves), int(hosts_a_leaf), int(spines), *rates)
    rows = read_messages(messages, fabric.hosts, spines=fabric.spines)
    below = [
        row.ends[0] // fabric.hosts_a_leaf == row.ends[1] // fabric.hosts_a_leaf for row in rows
    ]
    rows = [replace(row, way=None) if low else row for row, low in zip(rows, below, strict=True)]
    shared, sent, member = sent_over(rows, fabric.capacity, fabric.route, collectives)
    if not _is_missing(slow_link):
        shared = _slowed(shared, fabric, slow_link)
    finish_s = np.empty(len(rows))
    finish_s[[row.place for row in rows]] = send(shared, sent).finish_s[member]
    return finish_s.tolist()


def sent_over(
    rows: Sequence[Row], capacity: Floats, route: RouteOf, collectives: Collectives
) -> tuple[SharedLinks, Messages, Ints]:
    """What rows send over a fabric: links, messages, and which of these each row is part of.

    Parameters
    ----------
    rows
        As of :func:`read_messages`.
    capacity
        Of every directed link [B/s].
    route
        The links from host to host.
    collectives
        Whether rows that wait for each other are one message.

    Returns
    -------
    tuple
        Links and flows; messages; the message of every row, shape (rows,).
    """
    return (_coupled if collectives == "coupled" else _steps)(rows, capacity, route)


def read_messages(
    messages: Iterable[Mapping[str, Any]],
    hosts: int,
    *,
    spines: int | None = None,
    places: Sequence[str] = (),
) -> list[Row]:
    """Messages of a table in the order of their numbers, so that no order of rows changes a time.

    Parameters
    ----------
    messages
        As in :func:`message_times_s`; with ``connection`` (0) where no spines are named.
    hosts
        Hosts or GPUs that there are [1].
    spines
        Spines that a row may name [1]; None where it may name none.
    places
        What errors call each row; ``message 3`` by its number if empty.

    Returns
    -------
    list of Row
        By rising number.

    Raises
    ------
    InputError
        If a column is missing or no number, a host, spine or message is not there, a number comes
        twice, or bytes, weights or limits are too small: message, got, allowed.
    """
    table = list(messages)
    numbers = [
        place
        if _is_missing(row.get("message"))
        else _read_integer(row, "message", f"message {place}")
        for place, row in enumerate(table)
    ]
    order = sorted(range(len(table)), key=numbers.__getitem__)
    place_of = {numbers[place]: rank for rank, place in enumerate(order)}
    if len(place_of) < len(table):
        twice = next(
            n for n, m in zip(sorted(numbers), sorted(numbers)[1:], strict=False) if n == m
        )
        raise InputError(f"message {twice} comes twice: number messages from 0")
    rows = []
    for place in order:
        name = places[place] if places else f"message {numbers[place]}"
        rows.append(_row(table[place], place, name, place_of, (hosts, spines)))
    stuck = np.flatnonzero(_depths([row.after for row in rows]) < 0)
    if len(stuck):
        raise InputError(
            f"{rows[stuck[0]].name} never starts: it waits for itself through others; leave one of"
            " these out of its column after"
        )
    return rows


def message_rows(path: Path, gpus: int) -> list[Row]:
    """Messages of a file.

    Parameters
    ----------
    path
        A CSV file with a header.
    gpus
        GPUs that there are [1].

    Returns
    -------
    list
        A row for each message, in the order of the file.

    Raises
    ------
    InputError
        If it is no such table: file and line.
    """
    reader = csv_rows(path, read_lines(path), InputError)
    rows, places = [], []
    header = [cell.strip() for cell in next(reader, (1, []))[1]]
    needed = ("source", "bytes", "target" if "target" in header else "destination")
    missing = [name for name in needed if name not in header]
    if missing:
        raise InputError(f"{path}:1: a file of messages has a column {missing[0]!r}: give it")
    for line, cells in reader:
        if any(cells):
            rows.append(dict(zip(header, (cell.strip() for cell in cells), strict=False)))
            places.append(f"{path}:{line}")
    if not rows:
        raise InputError(f"{path}: no message in it: give a line for each")
    return read_messages(rows, gpus, places=places)


def _row(
    row: Mapping[str, Any],
    place: int,
    name: str,
    place_of: Mapping[int, int],
    sizes: tuple[int, int | None],
) -> Row:
    """One message of a table, for so many hosts and spines."""
    hosts, spines = sizes
    target = "target" if "target" in row else "destination"
    ends = _read_integer(row, "source", name), _read_integer(row, target, name)
    for column, host in zip(("source", "target"), ends, strict=True):
        if not 0 <= host < hosts:
            raise _refusal(name, column, host, f"0 to {hosts - 1:,}")
    way = None if _is_missing(row.get("spine")) else _read_integer(row, "spine", name)
    if spines is None and way is not None:
        raise _refusal(name, "spine", way, "none here: --routing says which way messages go")
    if spines is None:
        way = 0 if _is_missing(row.get("connection")) else _read_integer(row, "connection", name)
        if way > MOST_CONNECTION:
            raise _refusal(name, "connection", way, f"0 to {MOST_CONNECTION:,}")
    elif way is not None and way >= spines:
        raise _refusal(name, "spine", way, f"0 to {spines - 1:,}")
    after = str("" if _is_missing(row.get("after")) else row["after"]).split()
    others = [_read_integer({"after": text}, "after", name) for text in after]
    unknown = [other for other in others if other not in place_of]
    if unknown:
        raise _refusal(name, "after", unknown[0], "a message of the table")
    return Row(
        place=place,
        ends=ends,
        way=way,
        name=name,
        size_bytes=_amount(row, "bytes", name),
        start_s=1e-6 * _amount(row, "start_us", name, 0.0),
        after=tuple(sorted({place_of[other] for other in others})),
        weight=_above_0(_amount(row, "weight", name, 1.0), "weight", name),
        limit=_above_0(_amount(row, "limit", name, inf), "limit", name),
    )


def _is_missing(value: object) -> bool:
    """Whether a cell is empty, as readers of tables say it."""
    return value is None or value == "" or (isinstance(value, float) and isnan(value))


def _refusal(name: str, column: str, got: object, allowed: str) -> InputError:
    return InputError(f"{name}: {column} is {piece(got)}: give {allowed}")


def _amount(row: Mapping[str, Any], column: str, name: str, default: float | None = None) -> float:
    """A number of a row from 0 on."""
    value = row.get(column)
    if _is_missing(value) and default is not None:
        return default
    try:
        amount = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        amount = -1.0
    if not (0 <= amount < inf or (default == inf and amount > 0)):
        raise _refusal(name, column, "missing" if value is None else value, "a number from 0 on")
    return amount


def _above_0(amount: float, column: str, name: str) -> float:
    if not amount > 0 or (column == "weight" and amount == inf):
        raise _refusal(name, column, amount, "more than 0")
    return amount


def _read_integer(row: Mapping[str, Any], column: str, name: str) -> int:
    """A whole number of a row from 0 on."""
    amount = _amount(row, column, name)
    if amount != int(amount):
        raise _refusal(name, column, amount, "a whole number")
    return int(amount)


def _steps(
    rows: Sequence[Row], capacity: Floats, route: RouteOf
) -> tuple[SharedLinks, Messages, Ints]:
    """Every message by itself; messages of one connection take one flow."""
    flow_of: dict[tuple[Any, ...], int] = {}
    flow = [flow_of.setdefault((*row.pair, row.weight, row.limit), len(flow_of)) for row in rows]
    routes = [route(*key[:3]) for key in flow_of]
    latency_s = np.array([last_s for _, last_s in routes], np.float64)
    shared = SharedLinks(
        capacity,
        FlowLinks.of_paths([taken for taken, _ in routes]),
        np.array([key[3] for key in flow_of], np.float64),
        np.array([key[4] for key in flow_of], np.float64),
    )
    flows = np.array(flow, np.int64)
    sent = Messages(
        flows,
        np.array([row.size_bytes for row in rows], np.float64),
        np.array([row.start_s for row in rows], np.float64),
        latency_s[flows],
        [row.after for row in rows],
    )
    return shared, sent, np.arange(len(rows))


def _coupled(
    rows: Sequence[Row], capacity: Floats, route: RouteOf
) -> tuple[SharedLinks, Messages, Ints]:
    """Messages that wait for each other as one flow, and the flow of each message.

    Its share of a link is the number of its pairs there, each by its bytes over those of the
    largest; its bytes are those of the largest pair over all steps.
    """
    # Each row is a flow on the places of those that it waits for, and on its own.
    ends = [[(rank, 1.0), *((other, 1.0) for other in row.after)] for rank, row in enumerate(rows)]
    first, _ = flow_sets(FlowLinks.of_paths(ends), len(rows))
    collectives, member = np.unique(first, return_inverse=True)
    count = len(collectives)
    groups: list[list[Row]] = [[] for _ in collectives]
    for row, label in zip(rows, member.tolist(), strict=True):
        groups[label].append(row)
    paths, sizes, latencies = [], [], []
    for group in groups:
        if len({(row.weight, row.limit) for row in group}) > 1:
            raise InputError(
                f"{group[0].name}: messages of one collective have one weight and one"
                " limit: give all the same, or send them step by step"
            )
        amounts: dict[tuple[int, int, int | None], float] = {}
        for row in group:
            amounts[row.pair] = amounts.get(row.pair, 0.0) + row.size_bytes
        most = max(amounts.values())
        shares: dict[int, float] = {}
        slowest_s = 0.0
        for pair, amount in amounts.items():
            taken, latency_s = route(*pair)
            slowest_s = max(slowest_s, latency_s)
            for link, share in taken:
                part = share * amount / most if most else share
                shares[link] = shares.get(link, 0.0) + part
        paths.append(sorted(shares.items()))
        sizes.append(most)
        latencies.append(len(group) / len(amounts) * slowest_s)
    shared = SharedLinks(
        capacity,
        FlowLinks.of_paths(paths),
        np.array([group[0].weight for group in groups], np.float64),
        np.array([group[0].limit for group in groups], np.float64),
    )
    start_s = np.array([min(row.start_s for row in group) for group in groups], np.float64)
    sent = Messages(np.arange(count), np.array(sizes), start_s, np.array(latencies), [()] * count)
    return shared, sent, member.astype(np.int64)


def _slowed(shared: SharedLinks, fabric: ClosLinks, slow_link: Any) -> SharedLinks:  # noqa: ANN401
    """The same with one link between a leaf and a spine that has a share of its rate."""
    try:
        leaf, spine, share = int(slow_link[0]), int(slow_link[1]), float(slow_link[2])
    except (TypeError, ValueError, IndexError):
        raise InputError(
            f"a slow link is leaf, spine and its share of the rate, got {piece(slow_link)}"
        ) from None
    if not (0 <= leaf < fabric.leaves and 0 <= spine < fabric.spines and 0 < share <= 1):
        raise InputError(
            f"no link of leaf {leaf} and spine {spine} has {share:g} of its rate: give leaf 0 to"
            f" {fabric.leaves - 1}, spine 0 to {fabric.spines - 1}, and a share above 0 to 1"
        )
    capacity = shared.capacity.copy()
    capacity[list(fabric.uplinks(leaf, spine))] *= share
    return replace(shared, capacity=capacity)

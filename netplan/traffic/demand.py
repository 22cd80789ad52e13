"""What a fabric is asked to carry, split into its ways: inside HB domains, and over the network.

Between two GPUs of one HB domain traffic takes the links of the domain. All else takes the network.
Where the network joins GPUs of equal rank only (rail-only, tori of HB domains) a message between
rails is forwarded: inside its own domain to the GPU of the destination's rank, and from there along
the rail (arXiv:2307.12169, section 4). If a partly filled domain has no such GPU, the message
crosses first and changes rails at its destination.

Uniform groups stay whole on both ways, so that no pair is ever listed. In an all_to_all every
member sends alike to every other, and what a sends to b is one constant. It stays a product of two
factors on every part of the way, also where GPUs forward for others: ends that a sends for, times
ends that lie behind b. The load of a link is then a difference of sums over groups, not a sum over
pairs: 67 million pairs of 8,192 GPUs cost as much as 8,192 numbers.
"""

from collections.abc import Sequence
from functools import reduce

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Bools, Floats, Ints, within_runs
from netplan.errors import InputError
from netplan.traffic.matrix import MAX_LISTED_PAIRS, TrafficMatrix, UniformGroups, sum_by


class Products(Struct, frozen=True, eq=False):
    """Traffic within labels: entry a sends b ``pair_bytes * out_share[a] * in_share[b]`` bytes.

    Parameters
    ----------
    label
        Entries with the same number exchange traffic, shape (entries,).
    apart
        Two entries with the same number here exchange nothing (same GPU, or same HB domain).
    gpu
        GPU of each entry.
    out_share, in_share
        Two whole numbers: ends that a sends for, ends that lie behind b [1].
    pair_bytes
        From one end to another [B].
    """

    label: AnyInts
    apart: AnyInts
    gpu: AnyInts
    out_share: Floats
    in_share: Floats
    pair_bytes: float

    def sent_beyond(self, *places: AnyInts) -> Floats:
        """Bytes that each entry sends to entries that differ from it in every one of ``places``."""
        ends = _beyond(self.in_share, self.label, (self.apart, *places))
        return self.pair_bytes * self.out_share * ends

    def received_beyond(self, *places: AnyInts) -> Floats:
        """Bytes that each entry receives from entries that differ in every one of ``places``."""
        ends = _beyond(self.out_share, self.label, (self.apart, *places))
        return self.pair_bytes * self.in_share * ends

    def listed(self) -> tuple[AnyInts, AnyInts, Floats]:
        """Write the pairs out: sources, destinations, bytes.

        Raises
        ------
        InputError
            If there are more than 67 million.
        """
        order = np.argsort(self.label, kind="stable")
        _, starts, counts = np.unique(self.label[order], return_index=True, return_counts=True)
        pairs = int((counts.astype(np.float64) ** 2).sum())
        if pairs > MAX_LISTED_PAIRS:
            raise InputError(
                f"uniform groups of {pairs:,} pairs cannot be routed one by one, at most"
                f" {MAX_LISTED_PAIRS:,}: take a routing that keeps groups whole, or smaller groups"
            )
        size, start = (np.repeat(values, counts) for values in (counts, starts))
        first = np.repeat(np.arange(len(order)), size)
        second = np.arange(len(first)) - np.repeat(np.cumsum(size) - size - start, size)
        a, b = order[first], order[second]
        amount = self.pair_bytes * self.out_share[a] * self.in_share[b]
        keep = (self.apart[a] != self.apart[b]) & (amount > 0)
        return self.gpu[a[keep]], self.gpu[b[keep]], amount[keep]


def _beyond(values: Floats, label: AnyInts, places: Sequence[AnyInts]) -> Floats:
    """Sum, for each entry, the values of its label that differ from it in every place.

    Inclusion and exclusion over the places: all, less those that agree in one, plus those that
    agree in two, and so on. The values are whole numbers, so that what cancels leaves exactly 0.
    """
    total = np.zeros(len(values))
    for subset in range(1 << len(places)):
        chosen = [place for bit, place in enumerate(places) if subset >> bit & 1]
        sign = -1.0 if len(chosen) % 2 else 1.0
        key = label.astype(np.int64)
        for place in chosen:
            key = np.unique(key, return_inverse=True)[1] * (int(place.max()) + 1) + place
        _, same = np.unique(key, return_inverse=True)
        total += sign * sum_by(same, values, int(same.max()) + 1)[same]
    return total


class Leg(Struct, frozen=True, eq=False):
    """Traffic that takes one way: flows, and products besides."""

    source: AnyInts
    destination: AnyInts
    flow_bytes: Floats
    products: tuple[Products, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing takes it."""
        return not (len(self.source) or self.products)

    def ends(self, gpus: int) -> tuple[Floats, Floats]:
        """Bytes that each GPU puts on this way, and takes from it [B], two of shape (gpus,)."""
        sent = sum_by(self.source, self.flow_bytes, gpus)
        received = sum_by(self.destination, self.flow_bytes, gpus)
        for products in self.products:
            sent += sum_by(products.gpu, products.sent_beyond(), gpus)
            received += sum_by(products.gpu, products.received_beyond(), gpus)
        return sent, received

    def leaving(self, place: AnyInts) -> tuple[Floats, Floats]:
        """Bytes that each GPU sends to GPUs in other places, and takes from those [B].

        ``place`` is that of each GPU, shape (gpus,).
        """
        away = place[self.source] != place[self.destination]
        amount = self.flow_bytes[away]
        sent = sum_by(self.source[away], amount, len(place))
        received = sum_by(self.destination[away], amount, len(place))
        for products in self.products:
            there = place[products.gpu]
            sent += sum_by(products.gpu, products.sent_beyond(there), len(place))
            received += sum_by(products.gpu, products.received_beyond(there), len(place))
        return sent, received

    def some(self, chosen: Bools) -> "Leg":
        """Some of its flows, without the products."""
        return Leg(self.source[chosen], self.destination[chosen], self.flow_bytes[chosen])

    def plus(self, more: "Leg") -> "Leg":
        """Both legs together."""
        return Leg(
            np.concatenate([self.source, more.source]),
            np.concatenate([self.destination, more.destination]),
            np.concatenate([self.flow_bytes, more.flow_bytes]),
            self.products + more.products,
        )

    def listed(self) -> "Leg":
        """All traffic as flows."""
        flows = Leg(self.source, self.destination, self.flow_bytes)
        return reduce(Leg.plus, (Leg(*products.listed()) for products in self.products), flows)


class Legs(Struct, frozen=True, eq=False):
    """A demand split in two: inside HB domains, and over the network."""

    inside: Leg
    network: Leg

    def plus(self, more: "Legs") -> "Legs":
        """Both demands together."""
        return Legs(self.inside.plus(more.inside), self.network.plus(more.network))


def no_leg(*products: Products) -> Leg:
    """Leg without flows."""
    nothing = np.empty(0, np.int32)
    return Leg(nothing, nothing, np.empty(0), products)


def check_demand(demand: TrafficMatrix, gpus: int) -> None:
    """Refuse a demand that is for another number of GPUs."""
    if demand.gpus != gpus:
        raise InputError(
            f"the traffic matrix is for {demand.gpus:,} GPUs, the fabric has {gpus:,}: make both"
            " for the same cluster"
        )


def split_demand(demand: TrafficMatrix, hb_size: int, *, forwarding: bool = False) -> Legs:
    """Split a demand into its ways.

    ``hb_size`` K are the GPUs per HB domain, 1 sends everything over the network [1].
    ``forwarding`` says that the network joins equal ranks only, so that HB domains forward between
    rails.

    Examples
    --------
    >>> from netplan.traffic.matrix import flows_matrix
    >>> demand = flows_matrix(4, source=[0], destination=[3], flow_bytes=[1e9])
    >>> legs = split_demand(demand, 2, forwarding=True)
    >>> [(leg.source.tolist(), leg.destination.tolist()) for leg in (legs.inside, legs.network)]
    [([0], [1]), ([1], [3])]
    """
    flows = Leg(demand.source, demand.destination, demand.flow_bytes)
    legs = _split_flows(flows, demand.gpus, hb_size, forwarding=forwarding)
    for groups in demand.groups:
        if not forwarding or hb_size == 1:
            legs = legs.plus(_direct_groups(groups, hb_size))
        elif demand.gpus % hb_size == 0:
            legs = legs.plus(_forwarded_groups(groups, hb_size))
        else:  # the partly filled domain breaks the symmetry of the group
            flows = _direct_groups(groups, 1).network.listed()
            legs = legs.plus(_split_flows(flows, demand.gpus, hb_size, forwarding=True))
    return legs


def _split_flows(flows: Leg, gpus: int, hb_size: int, *, forwarding: bool) -> Legs:
    """Split the flows; a forwarded one appears on both ways."""
    if hb_size == 1:
        return Legs(no_leg(), flows)
    source, destination, amount = flows.source, flows.destination, flows.flow_bytes
    domain, target = source // hb_size, destination // hb_size
    same = domain == target
    network = Leg(source[~same], destination[~same], amount[~same])
    inside = Leg(source[same], destination[same], amount[same])
    if not forwarding:
        return Legs(inside, network)
    rank, turn = network.source % hb_size, network.destination % hb_size
    relay = domain[~same] * hb_size + turn
    early = (relay < gpus) & (rank != turn)
    late = (relay >= gpus) & (rank != turn)
    last = target[~same] * hb_size + rank
    first = Leg(network.source[early], relay[early], network.flow_bytes[early])
    final = Leg(last[late], network.destination[late], network.flow_bytes[late])
    rails = Leg(
        np.where(early, relay, network.source),
        np.where(late, last, network.destination),
        network.flow_bytes,
    )
    return Legs(inside.plus(first).plus(final), rails)


def _direct_groups(groups: UniformGroups, hb_size: int) -> Legs:
    """Groups on a network that joins all GPUs."""
    row, gpu = _entries(groups)
    domain = gpu // hb_size
    ones = np.ones(len(gpu))
    network = no_leg(Products(row, domain, gpu, ones, ones, groups.pair_bytes))
    if hb_size == 1:
        return Legs(no_leg(), network)
    label = row * (domain.max() + 1) + domain
    inside = no_leg(Products(label, gpu, gpu, ones, ones, groups.pair_bytes))
    members = groups.members // hb_size
    return Legs(inside, no_leg() if np.all(members == members[:, :1]) else network)


def _forwarded_groups(groups: UniformGroups, hb_size: int) -> Legs:
    """Groups on rails: each member hands its domain's GPU of rank q all that is for rail q.

    An entry is a place (group, domain D, rank q), whether or not its GPU is a member. Inside D it
    takes from every other member what goes to the group's members on rail q, itself included;
    along rail q it carries, for all members of D, what goes to the members there.
    """
    row, gpu = _entries(groups)
    domains = int(gpu.max()) // hb_size + 1
    rows = len(groups.members)
    of_domain, in_domain = np.unique(row * domains + gpu // hb_size, return_counts=True)
    of_rail, on_rail = np.unique(row * hb_size + gpu % hb_size, return_counts=True)
    rails = np.bincount(of_rail // hb_size, minlength=rows)
    first_rail = np.cumsum(rails) - rails
    repeats = rails[of_domain // domains]
    pick = np.repeat(np.arange(len(of_domain)), repeats)
    line = np.repeat(first_rail[of_domain // domains], repeats) + within_runs(repeats)
    place = of_domain[pick] % domains * hb_size + of_rail[line] % hb_size
    home = of_domain[pick] // domains
    # Places are unique within a row, so that sorted keys tell which of them are members.
    width = domains * hb_size
    member = np.isin(home * width + place, row * width + gpu).astype(np.float64)
    behind, senders = (n.astype(np.float64) for n in (on_rail[line], in_domain[pick]))
    inside = Products(of_domain[pick], place, place, member, behind, groups.pair_bytes)
    along = Products(of_rail[line], place, place, senders, member, groups.pair_bytes)
    return Legs(no_leg(inside), no_leg(along))


def _entries(groups: UniformGroups) -> tuple[Ints, Ints]:
    """Group and GPU of every member."""
    rows, size = groups.members.shape
    return np.repeat(np.arange(rows), size), groups.members.ravel().astype(np.int64)

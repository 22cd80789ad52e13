"""What a fabric is asked to carry, split into its ways: inside HB domains, and over the network.

Traffic comes as flows (source, destination, bytes) and as uniform groups, whose members all send
alike to each other. Any object with the right arrays will do; `netplan.traffic` has one.

Between two GPUs of one HB domain traffic takes the links of the domain. All else takes the network.
Where the network joins GPUs of equal rank only (rail-only, tori of HB domains) a message between
rails is forwarded: inside its own domain to the GPU of the destination's rank, and from there along
the rail (arXiv:2307.12169, section 4). If a partly filled domain has no such GPU, the message
crosses first and changes rails at its destination.

Uniform groups stay compact on both ways (`netplan.traffic.products`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from netplan.arrays import AnyInts, Floats, Indices, Ints
from netplan.errors import InputError
from netplan.traffic.products import Products, sum_by


class UniformDemand(Protocol):
    """Disjoint groups, shape (groups, size), whose members send ``pair_bytes`` to each other."""

    @property
    def members(self) -> Indices:
        """GPUs of each group."""

    @property
    def pair_bytes(self) -> float:
        """From each member to each other one [B]."""


class Demand(Protocol):
    """Flows between GPUs, and uniform groups besides."""

    @property
    def gpus(self) -> int:
        """GPUs of the cluster that the demand is for [1]."""

    @property
    def source(self) -> Indices:
        """Sending GPU of each flow."""

    @property
    def destination(self) -> Indices:
        """Receiving GPU of each flow."""

    @property
    def flow_bytes(self) -> Floats:
        """Size of each flow [B]."""

    @property
    def groups(self) -> Sequence[UniformDemand]:
        """Traffic that is uniform within groups."""


@dataclass(frozen=True, slots=True, eq=False)
class Leg:
    """Traffic that takes one way: flows, and products besides."""

    source: AnyInts
    destination: AnyInts
    flow_bytes: Floats
    products: tuple[Products, ...] = ()

    def ends(self, gpus: int) -> tuple[Floats, Floats]:
        """Bytes that each GPU puts on this way, and takes from it [B], two of shape (gpus,)."""
        sent = sum_by(self.source, self.flow_bytes, gpus)
        received = sum_by(self.destination, self.flow_bytes, gpus)
        for products in self.products:
            sent += sum_by(products.gpu, products.sent_beyond(), gpus)
            received += sum_by(products.gpu, products.received_beyond(), gpus)
        return sent, received

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
        if not self.products:
            return self
        parts = [products.listed() for products in self.products]
        return Leg(
            np.concatenate([self.source, *(part[0] for part in parts)]),
            np.concatenate([self.destination, *(part[1] for part in parts)]),
            np.concatenate([self.flow_bytes, *(part[2] for part in parts)]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Legs:
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


def check_demand(demand: Demand, gpus: int) -> None:
    """Refuse a demand that is not for this fabric.

    Raises
    ------
    InputError
        If it is for another number of GPUs.
    """
    if demand.gpus != gpus:
        raise InputError(
            f"the traffic matrix is for {demand.gpus:,} GPUs, the fabric has {gpus:,}: make both"
            " for the same cluster"
        )


def split_demand(demand: Demand, hb_size: int, *, forwarding: bool = False) -> Legs:
    """Split a demand into its ways.

    Parameters
    ----------
    demand
        Flows and uniform groups.
    hb_size
        GPUs per HB domain, K; 1 sends everything over the network [1].
    forwarding
        Whether the network joins equal ranks only, so that HB domains forward between rails.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> demand = SimpleNamespace(gpus=4, source=np.array([0]), destination=np.array([3]),
    ...                          flow_bytes=np.array([1e9]), groups=())
    >>> legs = split_demand(demand, 2, forwarding=True)
    >>> [(leg.source.tolist(), leg.destination.tolist()) for leg in (legs.inside, legs.network)]
    [([0], [1]), ([1], [3])]
    """
    legs = _split_flows(demand, hb_size, forwarding=forwarding)
    for groups in demand.groups:
        if not forwarding or hb_size == 1:
            legs = legs.plus(_direct_groups(groups, hb_size))
        elif demand.gpus % hb_size == 0:
            legs = legs.plus(_forwarded_groups(groups, hb_size))
        else:  # the partly filled domain breaks the symmetry of the group
            flows = _listed(groups, demand.gpus)
            legs = legs.plus(_split_flows(flows, hb_size, forwarding=True))
    return legs


def _split_flows(demand: Demand, hb_size: int, *, forwarding: bool) -> Legs:
    """Split the flows; a forwarded one appears on both ways."""
    source, destination, amount = demand.source, demand.destination, demand.flow_bytes
    if hb_size == 1:
        return Legs(no_leg(), Leg(source, destination, amount))
    domain, target = source // hb_size, destination // hb_size
    same = domain == target
    network = Leg(source[~same], destination[~same], amount[~same])
    inside = Leg(source[same], destination[same], amount[same])
    if not forwarding:
        return Legs(inside, network)
    rank, turn = network.source % hb_size, network.destination % hb_size
    relay = domain[~same] * hb_size + turn
    early = (relay < demand.gpus) & (rank != turn)
    late = (relay >= demand.gpus) & (rank != turn)
    last = target[~same] * hb_size + rank
    first = Leg(network.source[early], relay[early], network.flow_bytes[early])
    final = Leg(last[late], network.destination[late], network.flow_bytes[late])
    rails = Leg(
        np.where(early, relay, network.source),
        np.where(late, last, network.destination),
        network.flow_bytes,
    )
    return Legs(inside.plus(first).plus(final), rails)


def _direct_groups(groups: UniformDemand, hb_size: int) -> Legs:
    """Groups on a network that joins all GPUs."""
    row, gpu = _entries(groups)
    domain = gpu // hb_size
    ones = np.ones(len(gpu))
    network = no_leg(Products(row, domain, gpu, ones, ones, groups.pair_bytes))
    if hb_size == 1:
        return Legs(no_leg(), network)
    label = row * (domain.max() + 1) + domain
    return Legs(no_leg(Products(label, gpu, gpu, ones, ones, groups.pair_bytes)), network)


def _forwarded_groups(groups: UniformDemand, hb_size: int) -> Legs:
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
    step = np.arange(len(pick)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    line = np.repeat(first_rail[of_domain // domains], repeats) + step
    place = of_domain[pick] % domains * hb_size + of_rail[line] % hb_size
    home = of_domain[pick] // domains
    # Places are unique within a row, so that sorted keys tell which of them are members.
    width = domains * hb_size
    member = np.isin(home * width + place, row * width + gpu).astype(np.float64)
    behind, senders = (n.astype(np.float64) for n in (on_rail[line], in_domain[pick]))
    inside = Products(of_domain[pick], place, place, member, behind, groups.pair_bytes)
    along = Products(of_rail[line], place, place, senders, member, groups.pair_bytes)
    return Legs(no_leg(inside), no_leg(along))


def _entries(groups: UniformDemand) -> tuple[Ints, Ints]:
    """Group and GPU of every member."""
    rows, size = groups.members.shape
    return np.repeat(np.arange(rows), size), groups.members.ravel().astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Flows:
    """A demand of flows alone."""

    gpus: int
    source: Indices
    destination: Indices
    flow_bytes: Floats
    groups: tuple[UniformDemand, ...] = ()


def _listed(groups: UniformDemand, gpus: int) -> _Flows:
    """Groups as flows, where a partly filled domain breaks their symmetry."""
    leg = _direct_groups(groups, 1).network.listed()
    ends = leg.source.astype(np.int32), leg.destination.astype(np.int32)
    return _Flows(gpus, *ends, leg.flow_bytes)

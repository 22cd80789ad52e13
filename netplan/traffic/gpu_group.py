"""A group of GPUs with measured links: what collectives take, at least, and how sure that is."""

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Literal, NamedTuple, get_args

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.catalog import Catalog
from netplan.errors import InputError
from netplan.inputs.choices import NetworkKind
from netplan.levels import Level
from netplan.records import replace
from netplan.traffic.algorithms import CollectiveTime, algorithm_of, check_choice
from netplan.traffic.bounds import Operation, lower_bound
from netplan.traffic.hierarchy import CollectiveNetwork, Communication, Group
from netplan.traffic.measured import Regimes, transfer
from netplan.traffic.measured_links import POOLED, Beyond, MeasuredLink, MeasuredLinks, NetworkBasis
from netplan.units import counted
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.operations import CollectiveKind

GroupKind = CollectiveKind | Literal["send"]
KINDS: tuple[GroupKind, ...] = (*get_args(CollectiveKind), "send")
"""Collectives, and messages from each GPU to the next one."""


TREE_DOMAINS = 2
"""HB domains of which trees are known [1]."""
Names = np.ndarray[tuple[int, ...], np.dtype[np.str_]]


class GroupTimes(NamedTuple):
    """Times of messages, each of shape (messages,) [s]; ``regime`` names the way they go."""

    time_s: Floats
    low_s: Floats
    high_s: Floats
    bound_s: Floats
    regime: Names


class GpuGroup(Struct, frozen=True):
    """GPUs that all take part in collectives: HB domains of ``levels[0]``, ``levels[1]`` of them.

    Examples
    --------
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> group = GpuGroup.of(ACCELERATORS.load("h100-80gb"), 8)
    >>> times = group.times("all_reduce", np.array([1e3, 512 * 2.0**20]))
    >>> times.time_s.round(6), times.regime.tolist()
    (array([1.70e-05, 2.07e-03]), ['large', 'in-switch'])
    """

    links: MeasuredLinks
    levels: tuple[Level, Level]

    @classmethod
    def of(
        cls,
        accelerator: Accelerator,
        gpus: int,
        hb_size: int | None = None,
        load: Callable[[Catalog[MeasuredLink], str], MeasuredLink] | None = None,
    ) -> "GpuGroup":
        """So many GPUs in whole HB domains, the accelerator's own unless another size is given.

        Raises
        ------
        InputError
            If domains would be filled in part, or the GPUs have links to their neighbours only.
        """
        size = min(hb_size or accelerator.hb_size, gpus)
        if gpus % size:
            fewer = gpus // size * size
            raise InputError(
                f"--gpus {gpus:,} leave an HB domain of {size} partly filled: give {fewer:,} or"
                f" {fewer + size:,}, or another --hb-size"
            )
        if accelerator.chip_ports and gpus > size:
            raise InputError(
                f"{accelerator.name} has links to its neighbours and no network of switches, on"
                " which collectives were measured: see its torus with netplan loads"
            )
        domain = Level("switch", size, accelerator.hb_bytes_per_s)
        network = Level("switch", gpus // size, accelerator.network_bytes_per_s)
        return cls(MeasuredLinks.of(accelerator, load), (domain, network))

    def as_found(self, kind: NetworkKind, share: float = 1.0) -> "GpuGroup":
        """The group on a network of a kind, of whose rate traffic finds a share.

        Parameters
        ----------
        kind
            What the network is made of.
        share
            What is left of its rate [1].

        Returns
        -------
        GpuGroup
            The group on that network; its HB domains stay as they are.
        """
        domain, network = self.levels
        return replace(self, levels=(domain, network.as_found(kind, share)))

    @property
    def domains(self) -> int:
        """HB domains [1]."""
        return self.levels[1].size

    @property
    def members(self) -> int:
        """GPUs of each domain [1]."""
        return self.levels[0].size

    @property
    def gpus(self) -> int:
        """All GPUs [1]."""
        return self.members * self.domains

    def times(
        self, kind: GroupKind, message_bytes: Floats, algorithm: str | None = None
    ) -> GroupTimes:
        """What messages take, between which ends nine of ten such times lie, and at least.

        Parameters
        ----------
        kind
            A collective, or ``send``.
        message_bytes
            The gathered result of an all_gather, else the input of one GPU, shape (messages,) [B].
        algorithm
            One of `netplan.traffic.algorithms`, with start, steps and efficiency of the measured
            ring; None takes what was measured.

        Returns
        -------
        GroupTimes
            Times, their errors, bounds and the way that messages go, shape (messages,) each.

        Raises
        ------
        InputError
            If the kind is unknown, or the algorithm has no such collective on switches.
        """
        check_choice("collective", kind, KINDS)
        ways = self._ways(kind) if algorithm is None else self._by_algorithm(kind, algorithm)
        time_s = ways.seconds(message_bytes)
        low, high = self.ends(kind, message_bytes)
        # Least time of a byte at the links' whole rates, over any network between domains.
        known: dict[GroupKind, Operation] = {"send": "point_to_point", "reduce": "broadcast"}
        operation: Operation = known.get(kind, kind)  # type: ignore[arg-type]
        least = lower_bound(
            *(operation, self.levels),
            data_bytes=1.0,
            fabric="rail-optimized",
            reducing=bool(self.links.domain.in_switch),
        )
        bound_s = least.bound_s * message_bytes
        low_s = np.maximum(low * time_s, bound_s)
        regime: Names = np.broadcast_to(np.array(algorithm or ""), message_bytes.shape)
        if isinstance(ways, Regimes):
            regime = ways.names(message_bytes)
        return GroupTimes(time_s, low_s, high * time_s, bound_s, regime)

    def _ways(self, kind: GroupKind) -> Regimes:
        if kind == "send":
            crosses = self.domains > 1
            link = self.network if crosses else self.links.domain
            return transfer(link, np.array([1 / self.levels[crosses].link_bytes_per_s]))
        measured = self._collective(kind, None)
        if not isinstance(measured, Regimes):
            raise TypeError(kind)
        return measured

    def _by_algorithm(self, kind: GroupKind, name: str) -> CollectiveTime:
        """Time of an algorithm, with the start, steps and efficiency that a ring was measured."""
        known = algorithm_of(name)
        if kind == "send" or not known.runs(kind, "switch"):
            does = ", ".join(known.collectives) if "switch" in known.level_kinds else "none"
            raise InputError(
                f"--collective-algorithm {name} has no {kind} on switches: of collectives there it"
                f" has {does}"
            )
        return self._collective(kind, name)

    def _collective(self, kind: CollectiveKind, algorithm: str | None) -> CollectiveTime:
        used = Communication("flat_ring", links=self.links, algorithm=algorithm)
        members = np.array([[self.members], [self.domains]])
        return CollectiveNetwork(self.levels, used).collective(
            kind, Group(members, np.ones_like(members))
        )

    @property
    def beyond(self) -> Beyond | None:
        """The ring of a group on more domains than switches sum for."""
        return beyond_of(self.links.domain, self.members, self.domains)

    @property
    def network(self) -> MeasuredLink:
        """Links between the HB domains, by the kind of the network."""
        return self.links.network(self.levels[1].network_kind)

    def ends(self, kind: GroupKind, message_bytes: Floats) -> tuple[Floats, Floats]:
        """Low and high end of the time of each message, as multiples of it [1]."""
        domain, whole = self.links.domain, np.ones(message_bytes.shape)
        ends = [(whole, whole)]
        as_fitted = self._as_fitted(kind)
        if self.domains > 1:
            ends.append(self.network.ends(message_bytes, elsewhere=not as_fitted))
        # What was fitted between domains was so with what they do inside.
        if self.members > 1 and not (self.domains > 1 and as_fitted and self.network.fitted):
            ends.append(domain.ends(message_bytes))
        shares = [domain.larger_error] if self._untried(kind) else []
        if kind != "send" and self.beyond:
            ends.append((self.beyond.low * whole, self.beyond.high * whole))
        tree = self.network.tree
        pair = kind == "all_reduce" and self.domains == TREE_DOMAINS
        shares += [tree.error] if pair and tree else []
        ends += [(whole / (1 + share), whole / (1 - share)) for share in shares if share]
        low, high = zip(*ends, strict=True)
        return reduce(np.minimum, low), reduce(np.maximum, high)

    def _as_fitted(self, kind: GroupKind) -> bool:
        """Whether the links between the domains were fitted on such a collective."""
        fitted = self.network.fitted
        alike = fitted and (self.domains, self.links.domain.name) == (fitted.domains, fitted.inside)
        return kind == "all_reduce" and bool(alike) if fitted else True

    def network_basis(self, kind: GroupKind) -> NetworkBasis | None:
        """What the times between HB domains rest on; None where there is one domain.

        Parameters
        ----------
        kind
            A collective, or ``send``: all_reduces alone were measured between domains, and
            between more than two racks on one number of them.

        Returns
        -------
        str or None
            ``measured``, ``fitted`` or ``assumed``.
        """
        if self.domains == 1:
            return None
        if kind != "all_reduce" or not self._as_fitted(kind):
            return "assumed"
        row = self.links.domain.in_switch_of(self.members)
        if self.beyond and row:
            measured = (row.fitted_members, self.beyond.fitted_domains)
            return "fitted" if measured == (self.members, self.domains) else "assumed"
        return self.network.basis(self.levels[1].network_kind)

    def _untried(self, kind: GroupKind) -> bool:
        """Whether more members of a domain take part than any that were measured so."""
        domain = self.links.domain
        if kind == "send" or domain.fitted_members is None:
            return False
        row = domain.in_switch_of(self.members) if kind == "all_reduce" else None
        if row and row.fitted_members == self.members:
            return False
        return self.members > domain.fitted_members

    @property
    def basis(self) -> Literal["measured", "transferred"]:
        """Whether the domain's own links were measured."""
        unknown = self.members > 1 and self.links.domain.name == POOLED
        return "transferred" if unknown else "measured"

    def notes(self, kind: GroupKind, algorithm: str | None = None) -> Iterator[str]:
        """What the form cannot say of a collective."""
        domain, members = self.links.domain, self.members
        if self.basis == "transferred":
            yield (
                "Nobody has measured collectives on these links: three generations of NVLink pooled"
                " stand in (name measured.collectives in the accelerator's file)."
            )
        if algorithm is not None:
            yield (
                f"{algorithm} was not measured: it takes the start, the steps and the efficiency of"
                " the measured ring, and sums in no switch."
            )
            return
        if self.domains > 1:
            yield from self._kind_notes(kind)
        row = domain.in_switch_of(members) if kind == "all_reduce" else None
        if self._untried(kind):
            known = f"up to {domain.fitted_members}"
            if row and row.fitted_members > (domain.fitted_members or 0):
                known = f"{known} and with {row.fitted_members}"
            yield f"{kind} was measured with {known} GPUs of a domain, not with {members}."
        if row and not self.beyond:
            yield "Switches form sums of 16- and 32-bit numbers; int8 takes the ring."
        if kind in ("broadcast", "reduce"):
            yield f"{kind} is not measured: it takes an all_gather's start and efficiency."
        if self.domains > 1:
            yield from self._network_notes(kind)

    def _kind_notes(self, kind: GroupKind) -> Iterator[str]:
        """What start, ramp and share between domains rest on."""
        network, made_of = self.network, self.levels[1].network_kind
        yield from network.notes
        known = next((row.kind for row in network.kinds if row.basis != "assumed"), made_of)
        if known != made_of:
            yield f"Start and ramp of {made_of} are assumed to be those of {known}."
        if not self._as_fitted(kind):
            yield f"Elsewhere {made_of} is assumed: half or twice as long below 64 MiB."

    def _network_notes(self, kind: GroupKind) -> Iterator[str]:
        """The same of what crosses the network."""
        yield from beyond_note(self.links.domain, self.members, self.domains)
        if kind != "all_reduce":
            yield (
                "Across domains only all_reduce was measured: others are assumed to reach the same"
                f" {self.network.all_reduce.large.efficiency:.0%} of the network cards."
            )
        if self.domains > TREE_DOMAINS:
            yield (
                "Steps from domain to domain are assumed; trees of more than two domains and sums"
                " in the network's switches are left out."
            )


def beyond_of(domain: MeasuredLink, members: int, domains: int) -> Beyond | None:
    """The ring of groups of so many members of so many domains, if these are too many to sum up.

    Examples
    --------
    >>> from netplan.traffic.measured_links import MEASURED_LINKS
    >>> link = MEASURED_LINKS.load("nvlink-5")
    >>> [beyond_of(link, *group) is not None for group in ((72, 2), (72, 3), (8, 20))]
    [False, True, False]
    """
    row = domain.in_switch_of(members)
    if row is None or row.most_domains is None or domains <= row.most_domains:
        return None
    return row.beyond


def beyond_note(domain: MeasuredLink, members: int, domains: int) -> Iterator[str]:
    """What times of such groups rest on; nothing where switches sum for them."""
    beyond = beyond_of(domain, members, domains)
    if beyond is not None:
        yield (
            f"Beyond two racks one public run is known, an all_reduce on {beyond.fitted_domains}:"
            f" all_reduces on {counted(domains, 'HB domain')} with {members} GPUs of each are timed"
            f" by its ring and may take {beyond.low:g} to {beyond.high:g} times as long; other"
            " collectives keep the rates of one rack."
        )


def bus_factor(kind: GroupKind, gpus: int) -> float:
    """Bus over algorithm bandwidth, as nccl-tests prints them [1].

    Examples
    --------
    >>> bus_factor("all_reduce", 8), bus_factor("broadcast", 8)
    (1.75, 1.0)
    """
    if kind in ("broadcast", "reduce", "send"):
        return 1.0
    return (2 if kind == "all_reduce" else 1) * (gpus - 1) / gpus

"""What a fabric is once it is sized: counts, levels and notes.

``Sizing`` is the question (how many GPUs, which switch, which links), ``Fabric`` the answer. Its
counts feed the bill of materials, its levels the time models; both come from one spec.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from netplan.arrays import ceil_div
from netplan.errors import InputError
from netplan.inputs.choices import NetworkKind
from netplan.levels import Level, Tier
from netplan.records import replace
from netplan.topologies.families.clos import ClosCounts, check_radix
from netplan.topologies.graph import HOST_LINKS, UNCABLED, LinkType, Medium
from netplan.units import gbps

MIN_GPUS, MAX_GPUS = 8, 4_194_304
MIN_SIZED_RADIX = 8
TIER_NAMES = ("leaf", "spine", "core")


def tier_name(tier: int) -> str:
    """Name of a tier, from 1.

    Examples
    --------
    >>> tier_name(1), tier_name(4)
    ('leaf', 'tier 4')
    """
    return TIER_NAMES[tier - 1] if 0 < tier <= len(TIER_NAMES) else f"tier {tier}"


class Sizing(Struct, frozen=True):
    """The question put to a fabric spec.

    Parameters
    ----------
    gpus
        GPUs in the cluster, N [1].
    radix
        Ports per switch at the network's link rate [1].
    hb_size
        GPUs per HB domain, K [1].
    hb_bytes_per_s, network_bytes_per_s
        Bandwidth of one GPU into its HB domain, and of one network port, one-way [B/s].
    hb_latency_s, network_latency_s
        Latency of one step of a collective in each [s].
    oversubscription
        Replaces the spec's own where it is not None [1].
    chip_ports
        Ports of this rate that the accelerator itself has, for links to its neighbours [1].
    shared_port
        Whether links of a direct fabric share the rate of one port, or each has all of it.
    port_split
        Parts that every port is split into, one for each plane; ``radix`` and the rate of a port
        are those of a part [1].
    cards
        Network cards of a GPU, each with a port of that rate; fabrics of so many planes, or a
        multiple, take each into planes of its own, others take all as one port [1].
    cage_cards
        Cards of a server that share a cage [1].
    network_kind
        What the network is made of, whatever the fabric's file says; None takes that.
    as_found
        Share of the network's rate that traffic finds; ports are bought at the whole [1].
    as_published
        Whether links have the media of their family's source where their file names none; else a
        hall says it, and they are called optical until then.
    """

    gpus: int
    radix: int
    hb_size: int
    hb_bytes_per_s: float
    network_bytes_per_s: float
    hb_latency_s: float = 0.0
    network_latency_s: float = 0.0
    oversubscription: float | None = None
    chip_ports: int = 0
    shared_port: bool = False
    port_split: int = 1
    cards: int = 1
    cage_cards: int = 1
    network_kind: NetworkKind | None = None
    as_found: float = 1.0
    as_published: bool = False

    def __post_init__(self) -> None:
        """Refuse sizes outside what netplan plans."""
        if not MIN_GPUS <= self.gpus <= MAX_GPUS:
            raise InputError(
                f"{self.gpus:,} GPUs are out of range: give {MIN_GPUS} to {MAX_GPUS:,}"
            )
        check_radix(self.radix, least=MIN_SIZED_RADIX)
        if not 1 <= self.hb_size <= self.gpus:
            raise InputError(
                f"an HB domain of {self.hb_size:,} GPUs is out of range: give 1 to {self.gpus:,},"
                " the GPUs of the cluster"
            )

    @property
    def domains(self) -> int:
        """HB domains, the last one perhaps partly filled [1]."""
        return ceil_div(self.gpus, self.hb_size)

    @property
    def full_domains(self) -> int:
        """HB domains that are full [1]."""
        return self.gpus // self.hb_size

    @property
    def speed_gbps(self) -> float:
        """Rate of one network link, one direction [Gb/s]."""
        return gbps(self.network_bytes_per_s)

    @property
    def card_gbps(self) -> float:
        """Rate of a card's whole port, all planes together, one direction [Gb/s]."""
        return gbps(self.port_split * self.network_bytes_per_s)


class SwitchTier(Struct, frozen=True):
    """Switches of one tier: as built, at least, and their ports in use [1]."""

    name: str
    switches: int
    switches_lower_bound: int
    ports_used: int


class LinkGroup(LinkType, frozen=True, kw_only=True):
    """Links of one kind, and how many there are: as built, and at least [1].

    ``copper_links`` are those in copper where a hall says it; else the medium is that of them all.
    """

    json_parts = "name", "links", "links_lower_bound", "medium", "width", "copper_links"

    links: int
    links_lower_bound: int
    copper_links: int | None = None

    @property
    def copper(self) -> int:
        """Links in copper [1]."""
        if self.copper_links is not None:
            return self.copper_links
        return self.links if self.medium == "copper" else 0

    @property
    def optical(self) -> int:
        """Links over fibre [1]."""
        return 0 if self.medium in UNCABLED else self.links - self.copper

    @property
    def media(self) -> str:
        """What the links are made of, in words."""
        return "copper and optical" if self.copper and self.optical else self.medium

    @classmethod
    def of(cls, kind: LinkType, links: int, lower_bound: int | None = None) -> "LinkGroup":
        """So many links of a kind; the lower bound is as many where nobody says less."""
        facts = {field: getattr(kind, field) for field in LinkType.__struct_fields__}
        least = links if lower_bound is None else lower_bound
        return cls(**facts, links=links, links_lower_bound=least)

    @property
    def kind(self) -> LinkType:
        """What the links are, without their number."""
        return LinkType(*(getattr(self, field) for field in LinkType.__struct_fields__))


Reach = Literal["any-to-any", "rail-only", "direct"]
"""How far a network reaches; direct is from GPU to GPU."""


class Fabric(Struct, frozen=True):
    """A sized fabric.

    Parameters
    ----------
    name, title
        From the spec.
    sizing
        What was asked; its HB domain is the one in force.
    tiers
        Switches, from the leaves up; empty for switchless fabrics.
    links
        Links of the network, without those inside HB domains.
    nic_ports
        Network ports of all GPUs [1].
    levels
        Bandwidth hierarchy over the full HB domains, from the inside out; empty where the
        fabric cannot be described by levels.
    domain_gpus
        Where HB domains have several sizes: each size, and the GPUs in domains of it.
    network
        How far the network reaches: ``any-to-any``, ``rail-only`` or ``direct`` (GPU to GPU).
    notes
        Assumptions and warnings, one sentence each.
    board_ports
        Of the network ports those that end on traces of a board [1].
    networks
        Networks of switches that no link joins, such as those of rails [1].
    """

    name: str
    title: str
    sizing: Sizing
    tiers: tuple[SwitchTier, ...]
    links: tuple[LinkGroup, ...]
    nic_ports: int
    levels: tuple[Level, ...]
    network: Reach
    notes: tuple[str, ...]
    domain_gpus: tuple[tuple[int, int], ...] = ()
    board_ports: int = 0
    networks: int = 1

    @property
    def card_ports(self) -> int:
        """Network ports that need a card [1]: all but those of boards, and of the accelerators.

        These join accelerators directly; a switch is reached through a card.
        """
        if self.network != "direct":
            return self.nic_ports - self.board_ports
        return max(0, self.nic_ports - self.sizing.gpus * self.sizing.chip_ports)

    @property
    def cards(self) -> int:
        """Network cards by the whole port [1]: one for all planes that its port is split over."""
        return self.card_ports // self.sizing.port_split

    @property
    def ports_per_gpu(self) -> int:
        """Network ports of a GPU [1]; one where there are fewer ports than GPUs, but some."""
        return max(min(1, self.nic_ports), self.nic_ports // self.sizing.gpus)

    @property
    def gpu_bytes_per_s(self) -> float:
        """Network bandwidth of a GPU, all its ports together, one direction [B/s]."""
        return self.ports_per_gpu * self.sizing.network_bytes_per_s

    @property
    def switches(self) -> int:
        """Switches to build [1]."""
        return sum(tier.switches for tier in self.tiers)

    @property
    def switches_lower_bound(self) -> int:
        """Switches that the ports need at least [1]."""
        return sum(tier.switches_lower_bound for tier in self.tiers)

    @property
    def spare_ports(self) -> int:
        """Switch ports left free [1]."""
        used = sum(tier.ports_used for tier in self.tiers)
        return self.switches * self.sizing.radix - used

    @property
    def link_count(self) -> int:
        """Links to build, host links included [1]."""
        return sum(group.links for group in self.links)

    @property
    def transceivers(self) -> int:
        """Optical modules: two an optical link [1]."""
        return 2 * sum(group.optical for group in self.links)

    @property
    def copper_cables(self) -> int:
        """Links in copper, passive or active [1]."""
        return sum(group.copper for group in self.links)

    @property
    def exact(self) -> bool:
        """Whether the build needs no more switches and links than the port lower bound."""
        return self.switches == self.switches_lower_bound and all(
            group.links == group.links_lower_bound for group in self.links
        )


def side_by_side(whole: Fabric, fabrics: Sequence[Fabric]) -> Fabric:
    """Fabrics of several sites as one: switches, links and ports of all of them together.

    Parameters
    ----------
    whole
        The fabric of all GPUs in one site, whose levels and reach it has.
    fabrics
        That of each site.

    Returns
    -------
    Fabric
        With the counts of all.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(radix=64)
    >>> whole, half = (scenario.replace(gpus=n).fabric("fat-tree").counts for n in (4096, 2048))
    >>> half.switches, side_by_side(whole, (half, half)).switches, whole.switches
    (96, 192, 320)
    """
    tiers: dict[str, SwitchTier] = {}
    links: dict[str, LinkGroup] = {}
    for fabric in fabrics:
        for tier in fabric.tiers:
            before = tiers.get(tier.name, SwitchTier(tier.name, 0, 0, 0))
            tiers[tier.name] = SwitchTier(
                tier.name,
                before.switches + tier.switches,
                before.switches_lower_bound + tier.switches_lower_bound,
                before.ports_used + tier.ports_used,
            )
        for group in fabric.links:
            links[group.name] = _with_links(links.get(group.name), group)
    domains: dict[int, int] = {}
    for size, gpus in (row for fabric in fabrics for row in fabric.domain_gpus):
        domains[size] = domains.get(size, 0) + gpus
    return replace(
        whole,
        tiers=tuple(tiers.values()),
        links=tuple(links.values()),
        nic_ports=sum(fabric.nic_ports for fabric in fabrics),
        board_ports=sum(fabric.board_ports for fabric in fabrics),
        networks=sum(fabric.networks for fabric in fabrics),
        notes=tuple(dict.fromkeys(note for fabric in fabrics for note in fabric.notes)),
        domain_gpus=tuple(domains.items()),
    )


def _with_links(before: LinkGroup | None, group: LinkGroup) -> LinkGroup:
    """Links of one kind in two sites."""
    if before is None:
        return group
    copper, links = before.copper + group.copper, before.links + group.links
    return replace(
        before,
        links=links,
        links_lower_bound=before.links_lower_bound + group.links_lower_bound,
        copper_links=None if group.copper_links is None else copper,
        medium=group.medium if before.medium == group.medium else "optical",
    )


def port_words(sizing: Sizing, ports: int) -> str:
    """What a GPU has on a direct fabric.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=512, radix=64)
    >>> port_words(scenario.sizing, 6)
    '6 network ports of 400 Gb/s on every GPU, 2,400 Gb/s together'
    """
    rate_gbps, many = sizing.speed_gbps, ports != 1
    together = f", {ports * rate_gbps:,g} Gb/s together" if many else ""
    return f"{ports} network port{'s' * many} of {rate_gbps:.4g} Gb/s on every GPU{together}"


def network_level(
    sizing: Sizing,
    size: int,
    bytes_per_s: float,
    tiers: tuple[Tier, ...] = (),
    *,
    same_rank: bool = False,
) -> Level:
    """Level of a switched network over ``size`` HB domains, at this rate per GPU [B/s]."""
    latency_s = sizing.network_latency_s
    return Level(
        "switch", size, bytes_per_s, step_latency_s=latency_s, tiers=tiers, same_rank=same_rank
    )


def clos_parts(
    built: ClosCounts, bound: ClosCounts, host_medium: Medium = "optical"
) -> tuple[tuple[SwitchTier, ...], tuple[LinkGroup, ...]]:
    """Tiers and links of a Clos network from its two counts; optical above the leaves.

    A build in whole units may have more tiers than the bound, whose missing ones count zero.
    """
    missing = (0,) * (built.tiers - bound.tiers)
    switch_names = [tier_name(number) for number in range(1, built.tiers + 1)]
    names = enumerate(pairwise(switch_names), start=1)
    kinds = (
        replace(HOST_LINKS, medium=host_medium),
        *(
            LinkType(f"{a}-{b}", "up", tiers=(tier, tier + 1), width=built.trunk_width)
            for tier, (a, b) in names
        ),
    )
    tiers = zip(
        switch_names,
        built.switches_per_tier,
        bound.switches_per_tier + missing,
        built.ports_used_per_tier,
        strict=True,
    )
    links = zip(kinds, built.links_per_tier, bound.links_per_tier + missing, strict=False)
    return (
        tuple(SwitchTier(*tier) for tier in tiers),
        tuple(LinkGroup.of(*group) for group in links),
    )

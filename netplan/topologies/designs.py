"""The shelf of published designs: fabric specs of their own, and designs that are counted only.

``family`` says what a file is: a family of :class:`~netplan.topologies.specs.FabricSpec` is built
and wired like any fabric, each of the others is counted by its own schema. A counted design has no
builder. Its file says what the source publishes (segments, ports, ratios), its family multiplies
that out, and what does not fit the ports of a switch is refused. Families:

* dragonflies of several kinds of groups, as exascale systems build them. Groups of one kind are
  alike; every pair of groups has as many links as its two kinds say. Global bandwidth is counted
  over all pairs;
* switches in pods: segments of dual ToRs, racks, wide uplinks, ZCube;
* leaves that each serve one rack and rail, as in NVIDIA's SuperPOD of NVL72 racks;
* dragonflies whose groups are leaves and spines;
* Slim Fly, by the formulas of its paper.
"""

from abc import abstractmethod
from collections.abc import Mapping
from math import isqrt
from typing import Annotated, ClassVar, Literal, get_args

from msgspec import Meta, Struct

from netplan.arrays import ceil_div
from netplan.catalog import Catalog, Record, unknown_name
from netplan.documents import Document
from netplan.errors import CatalogError, InputError
from netplan.records import Entry, NonNegativeInt, PositiveFloat, PositiveInt
from netplan.topologies.families.clos import check_radix
from netplan.topologies.families.slim_fly import NO_ORDER, network_degree
from netplan.topologies.specs import FAMILIES, FabricSpec
from netplan.units import bytes_per_s

Counts = Mapping[str, float]
"""Numbers of a design by their column in a table of designs: ``gpus``, ``leaf_switches``, …"""


class DesignSize(Struct, frozen=True):
    """What a question adds to a design's file: GPUs, ports of a switch [1], kind of groups."""

    gpus: int = 0
    radix: int = 0
    partition: str = ""


class CountedDesign(Record, frozen=True, kw_only=True):
    """A design, as its catalog file describes it; ``family`` says which keys are its own."""

    takes: ClassVar[tuple[str, ...]] = ()
    """What :class:`DesignSize` must say; a design whose size is published takes nothing."""

    family: str
    notes: tuple[str, ...] = ()

    def counts(self, size: DesignSize | None = None) -> Counts:
        """Count switches, links and what else is published, for what the file leaves open.

        Raises
        ------
        InputError
            If the size says too little or too much, or the design does not exist in this size.

        Examples
        --------
        >>> DESIGNS.load("zcube").counts(DesignSize(gpus=1024))["total_switches"]
        64
        """
        size = size or DesignSize()
        given = tuple(key for key in DesignSize.__struct_fields__ if getattr(size, key))
        if given != self.takes:
            raise InputError(
                f"design {self.name}: got {' and '.join(given) or 'no size'}, give"
                f" {' and '.join(self.takes) or 'none: its own size is in its file'}"
            )
        return self.multiplied_out(size)

    @abstractmethod
    def multiplied_out(self, size: DesignSize) -> Counts:
        """Counts for a size that fits :attr:`takes`."""


BOTH_DIRECTIONS = 2


class GroupKind(Entry, frozen=True, kw_only=True):
    """Groups that are alike: how many, their fully connected switches, the hosts of a switch."""

    groups: PositiveInt
    switches: NonNegativeInt = 0
    hosts_per_switch: NonNegativeInt = 0


class KindLinks(Entry, frozen=True, kw_only=True):
    """Links between two groups, by the names of their kinds [1]."""

    between: tuple[str, str]
    links: NonNegativeInt


class UnevenDragonfly(CountedDesign, frozen=True, kw_only=True):
    """A dragonfly whose groups are of several kinds.

    ``kinds`` are the groups by the name of their kind, ``pair_links`` the links between two groups,
    each pair of kinds once, ``link_gbps`` the rate of a link, one direction. A question asks about
    one kind, its ``partition``.

    Examples
    --------
    24 and 8 groups: C(24, 2) = 276 and 24 x 8 = 192 pairs.

    >>> fabric = DESIGNS.load("lumi")
    >>> fabric.global_links("gpu", "gpu"), fabric.global_links("cpu", "gpu")
    (5520, 768)
    >>> 2 * fabric.global_bytes_per_s("gpu", "gpu") / 1e12
    276.0
    """

    takes: ClassVar[tuple[str, ...]] = ("partition",)

    family: Literal["dragonfly-groups"]
    kinds: dict[str, GroupKind]
    pair_links: tuple[KindLinks, ...]
    link_gbps: PositiveFloat

    def __post_init__(self) -> None:
        """Refuse pairs of unknown kinds, and pairs that stand twice."""
        seen = set[frozenset[str]]()
        for pair in self.pair_links:
            for name in pair.between:
                if name not in self.kinds:
                    raise ValueError(f"pair_links: {name!r} is none of the kinds {[*self.kinds]}")
            if frozenset(pair.between) in seen:
                raise ValueError(f"pair_links: {' and '.join(pair.between)} stand twice")
            seen.add(frozenset(pair.between))

    def links_per_pair(self, kind: str, other: str) -> int:
        """Links between a group of one kind and a group of another, both known [1]."""
        for name in (kind, other):
            if name not in self.kinds:
                raise unknown_name("kind of group", name, self.kinds)
        pairs = (pair.links for pair in self.pair_links if {*pair.between} == {kind, other})
        return next(pairs, 0)

    def global_links(self, kind: str, other: str) -> int:
        """Links between all groups of these kinds [1]."""
        here, there = self.kinds[kind].groups, self.kinds[other].groups
        pairs = here * (here - 1) // 2 if kind == other else here * there
        return self.links_per_pair(kind, other) * pairs

    def global_bytes_per_s(self, kind: str, other: str) -> float:
        """Bandwidth of those links, one direction [B/s]."""
        return self.global_links(kind, other) * bytes_per_s(self.link_gbps)

    def multiplied_out(self, size: DesignSize) -> Counts:
        """Global bandwidth inside a kind, and to all others, both directions added [TB/s]."""
        kind = size.partition
        inside = self.global_bytes_per_s(kind, kind)
        mixed = sum(self.global_bytes_per_s(kind, other) for other in self.kinds if other != kind)
        return {
            "global_tb_per_s": BOTH_DIRECTIONS * inside / 1e12,
            "global_tb_per_s_mixed": BOTH_DIRECTIONS * mixed / 1e12,
        }


class SegmentedPod(CountedDesign, frozen=True, kw_only=True):
    """Dual-ToR, multi-plane pod of rail-optimized segments, as Alibaba HPN.

    A segment has one ToR a rail and plane; a ToR has one uplink to every aggregation switch of its
    plane. Every GPU has one port in each plane. ``rails`` are the GPUs of a server, ``tor_down``
    and ``tor_up`` the ports of a ToR, ``core_up`` those of the ``aggregation_radix`` ports of an
    aggregation switch that lead to the core.

    References
    ----------
    Qian et al., Alibaba HPN: A Data Center Network for Large Language Model Training, ACM SIGCOMM
    2024, sections 3, 5 and 6.

    Examples
    --------
    >>> pod = DESIGNS.load("alibaba-hpn").counts()
    >>> [pod[key] for key in ("gpus", "leaf_switches", "spine_switches", "oversubscription")]
    [15360, 240, 120, 15.0]
    """

    family: Literal["segmented-pod"]
    segments: PositiveInt
    rails: PositiveInt
    planes: PositiveInt
    tor_down: PositiveInt
    tor_up: PositiveInt
    aggregation_radix: PositiveInt
    core_up: PositiveInt
    down_gbps: PositiveFloat
    up_gbps: PositiveFloat

    def __post_init__(self) -> None:
        """Refuse a pod whose aggregation switches lack ports."""
        used = self.tors_per_plane + self.core_up
        if used > self.aggregation_radix:
            raise ValueError(
                f"an aggregation switch needs {used} ports ({self.tors_per_plane} ToRs and"
                f" {self.core_up} core links), got {self.aggregation_radix}: take fewer segments"
            )

    @property
    def tors_per_plane(self) -> int:
        """ToRs of one plane, which are the ports down of an aggregation switch [1]."""
        return self.segments * self.rails

    def multiplied_out(self, size: DesignSize) -> Counts:  # noqa: ARG002 - the file says it all
        """Counts of the pod; a plane has as many aggregation switches as a ToR has uplinks."""
        gpus = self.tors_per_plane * self.tor_down
        tors, aggregations = self.tors_per_plane * self.planes, self.tor_up * self.planes
        return {
            "gpus": gpus,
            "nodes": gpus // self.rails,
            "leaf_switches": tors,
            "spine_switches": aggregations,
            "total_switches": tors + aggregations,
            "links_endpoint": gpus * self.planes,
            "links_leaf_spine": tors * self.tor_up,
            "links_spine_core": aggregations * self.core_up,
            "oversubscription": self.tors_per_plane / self.core_up,
        }


class RackPods(CountedDesign, frozen=True, kw_only=True):
    """Pods of racks under one ToR each, non-blocking inside a pod and oversubscribed above it.

    ``top_oversubscription`` is bandwidth down over up between aggregation and core.

    References
    ----------
    The Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.1 (Meta's 24K GPU cluster on RoCE).

    Examples
    --------
    >>> cluster = DESIGNS.load("meta-24k-roce").counts()
    >>> cluster["gpus"], cluster["leaf_switches"]
    (24576, 1536)
    """

    family: Literal["rack-pods"]
    rack_gpus: PositiveInt
    racks_per_pod: PositiveInt
    pods: PositiveInt
    top_oversubscription: Annotated[float, Meta(ge=1)]

    def multiplied_out(self, size: DesignSize) -> Counts:  # noqa: ARG002 - the file says it all
        """Counts of the cluster; switches above the ToRs are not published."""
        racks = self.racks_per_pod * self.pods
        return {
            "gpus": self.rack_gpus * racks,
            "leaf_switches": racks,
            "oversubscription": self.top_oversubscription,
        }


class WideUplinkPlanes(CountedDesign, frozen=True, kw_only=True):
    """Non-blocking planes of two tiers whose uplinks are faster than the ports of GPUs.

    A leaf has half of its ports down; the other half joins, ``uplink_width`` by ``uplink_width``,
    to uplinks. A spine has ``radix / uplink_width`` ports of that rate; the radix is that at the
    rate of a host port.

    References
    ----------
    The non-blocking HPN variants of the ZCube comparison, ACM SIGCOMM 2025,
    doi:10.1145/3718958.3750503, appendix L, Table 7.

    Examples
    --------
    >>> counts = DESIGNS.load("hpn-non-blocking").counts(DesignSize(gpus=1024, radix=64))
    >>> counts["total_switches"], counts["fibre_links"], counts["transceivers"]
    (96, 3072, 6144)
    """

    takes: ClassVar[tuple[str, ...]] = ("gpus", "radix")

    family: Literal["wide-uplink-planes"]
    planes: PositiveInt
    uplink_width: PositiveInt

    def multiplied_out(self, size: DesignSize) -> Counts:
        """Counts of all planes, for GPUs that fill whole leaves; all links are optical."""
        gpus, radix = size.gpus, size.radix
        check_radix(radix)
        down, spine_radix = radix // 2, radix // self.uplink_width
        leaves, rest = divmod(gpus, down)
        if rest or leaves > spine_radix:
            raise InputError(
                f"{gpus:,} GPUs on leaves of {down} ports down and spines of {spine_radix} ports:"
                f" give a multiple of {down}, at most {down * spine_radix:,}"
            )
        uplinks = gpus // self.uplink_width
        links = self.planes * (gpus + uplinks)
        return {
            "gpus": gpus,
            "total_switches": self.planes * (leaves + ceil_div(uplinks, spine_radix)),
            "copper_links": 0,
            "fibre_links": links,
            "transceivers": 2 * links,
        }


class ZCube(CountedDesign, frozen=True, kw_only=True):
    """ZCube(n, 2) by its published totals; its wiring is not modelled.

    n^2 GPUs on 2n switches: as many copper and fibre links a GPU as the file says.

    References
    ----------
    ACM SIGCOMM 2025, doi:10.1145/3718958.3750503, appendix L, Table 7.

    Examples
    --------
    >>> counts = DESIGNS.load("zcube").counts(DesignSize(gpus=1024))
    >>> counts["total_switches"], counts["copper_links"], counts["fibre_links"]
    (64, 1024, 2048)
    """

    takes: ClassVar[tuple[str, ...]] = ("gpus",)

    family: Literal["zcube"]
    copper_links_per_gpu: NonNegativeInt
    fibre_links_per_gpu: NonNegativeInt

    def multiplied_out(self, size: DesignSize) -> Counts:
        """Counts of n^2 GPUs; other numbers are an error."""
        side = isqrt(size.gpus)
        if side * side != size.gpus:
            raise InputError(
                f"design {self.name} holds n x n GPUs, got {size.gpus:,}: give {side**2:,} or"
                f" {(side + 1) ** 2:,}"
            )
        fibre = size.gpus * self.fibre_links_per_gpu
        return {
            "gpus": size.gpus,
            "total_switches": 2 * side,
            "copper_links": size.gpus * self.copper_links_per_gpu,
            "fibre_links": fibre,
            "transceivers": 2 * fibre,
        }


class RackRails(CountedDesign, frozen=True, kw_only=True):
    """A leaf for every rack and rail, spines inside a unit and rail, cores in groups above.

    A leaf has a port down for each of the ``rack_gpus / rails`` GPUs, and as many up, spread evenly
    over the ``spines_per_rail`` of its unit and rail. The spines of equal place in all rails and
    units share a group of cores of ``radix`` ports; one unit has none. Leaves use part of their
    ports only: what a Clos of full leaves saves, a rack that is wired by itself costs.

    References
    ----------
    NVIDIA DGX SuperPOD reference architecture, DGX GB200, network fabrics.

    Examples
    --------
    16 units of 8 racks: 512 leaves, 384 spines, 6 groups of 24 cores.

    >>> counts = DESIGNS.load("dgx-superpod-gb200").counts(DesignSize(gpus=9216))
    >>> [counts[key] for key in ("leaf_switches", "spine_switches", "core_switches")]
    [512, 384, 144]
    """

    takes: ClassVar[tuple[str, ...]] = ("gpus",)

    family: Literal["rack-rails"]
    rack_gpus: PositiveInt
    racks_per_unit: PositiveInt
    rails: PositiveInt
    spines_per_rail: PositiveInt
    core_radix: PositiveInt

    def __post_init__(self) -> None:
        """Refuse GPUs that do not divide over rails, or uplinks over spines."""
        if self.rack_gpus % (self.rails * self.spines_per_rail):
            raise ValueError(
                f"{self.rack_gpus} GPUs of a rack do not divide over {self.rails} rails of"
                f" {self.spines_per_rail} spines"
            )

    def multiplied_out(self, size: DesignSize) -> Counts:
        """Counts of whole units; every tier has a link for every GPU."""
        unit_gpus = self.rack_gpus * self.racks_per_unit
        units, rest = divmod(size.gpus, unit_gpus)
        if rest or not units:
            raise InputError(
                f"design {self.name} has units of {unit_gpus} GPUs, got {size.gpus:,}: give a"
                f" multiple of {unit_gpus}"
            )
        planes = units * self.rails
        group_links = size.gpus // self.spines_per_rail
        cores = self.spines_per_rail * ceil_div(group_links, self.core_radix) if units > 1 else 0
        leaves, spines = planes * self.racks_per_unit, planes * self.spines_per_rail
        return {
            "gpus": size.gpus,
            "leaf_switches": leaves,
            "spine_switches": spines,
            "core_switches": cores,
            "total_switches": leaves + spines + cores,
            "links_endpoint": size.gpus,
            "links_leaf_spine": size.gpus,
            "links_spine_core": size.gpus if cores else 0,
        }


class DragonflyPlusDesign(CountedDesign, frozen=True, kw_only=True):
    """Groups of leaves and spines, every leaf joined to every spine of its group alike.

    Leaves have ``leaf_down`` ports for hosts, at their own rate, and ``leaf_up`` links to spines,
    ``links_each`` to each. What leads from spines to other groups is not counted.

    References
    ----------
    Shpiner et al., Dragonfly+: Low Cost Topology for Scaling Datacenters, HiPINEB 2017.

    Examples
    --------
    960 ports of 200 Gb/s, 64 to a leaf with 32 links of 400 Gb/s up, two to each spine.

    >>> counts = DESIGNS.load("jupiter").counts()
    >>> counts["leaf_switches"] // 25, counts["spine_switches"] // 25
    (15, 16)
    """

    family: Literal["counted-dragonfly-plus"]
    groups: PositiveInt
    group_gpus: PositiveInt
    node_gpus: PositiveInt
    leaf_down: PositiveInt
    leaf_up: PositiveInt
    links_each: PositiveInt

    def __post_init__(self) -> None:
        """Refuse uplinks that do not spread evenly over spines."""
        if self.leaf_up % self.links_each:
            raise ValueError(
                f"{self.leaf_up} uplinks of a leaf do not make {self.links_each} to every spine"
            )

    def multiplied_out(self, size: DesignSize) -> Counts:  # noqa: ARG002 - the file says it all
        """Counts of all groups, one port for every GPU."""
        gpus = self.groups * self.group_gpus
        leaves = self.groups * ceil_div(self.group_gpus, self.leaf_down)
        spines = self.groups * self.leaf_up // self.links_each
        return {
            "gpus": gpus,
            "nodes": gpus // self.node_gpus,
            "leaf_switches": leaves,
            "spine_switches": spines,
            "total_switches": leaves + spines,
            "links_endpoint": gpus,
            "links_leaf_spine": leaves * self.leaf_up,
        }


class SlimFlyDesign(CountedDesign, frozen=True, kw_only=True):
    """Slim Fly by the formulas of its paper: two hops between any two switches.

    With ``order`` q = 4w + d, d one of -1, 0, 1, there are 2q^2 switches, each with (3q - d) / 2
    links to others and ``hosts_per_switch`` hosts. The graph exists where q is a power of a prime;
    sources count with other q, too.

    References
    ----------
    Besta and Hoefler, Slim Fly: A Cost Effective Low-Diameter Network Topology, SC 2014.

    Examples
    --------
    2 x 28^2 switches with 42 links each, which two switches share.

    >>> counts = DESIGNS.load("slim-fly-28").counts()
    >>> counts["total_switches"], counts["links_between_switches"], counts["gpus"]
    (1568, 32928, 32928)
    """

    family: Literal["counted-slim-fly"]
    order: PositiveInt
    hosts_per_switch: PositiveInt

    def __post_init__(self) -> None:
        """Refuse an order that is no 4w - 1, 4w or 4w + 1."""
        if self.order % 4 == NO_ORDER:
            raise ValueError(f"order {self.order} is 4w + 2: give 4w - 1, 4w or 4w + 1")

    def multiplied_out(self, size: DesignSize) -> Counts:  # noqa: ARG002 - the file says it all
        """Counts of all switches."""
        switches, links = 2 * self.order**2, network_degree(self.order)
        return {
            "gpus": switches * self.hosts_per_switch,
            "radix": links + self.hosts_per_switch,
            "total_switches": switches,
            "links_between_switches": switches * links // 2,
        }


Design = FabricSpec | CountedDesign
COUNTED = (
    *(SegmentedPod, RackPods, RackRails, WideUplinkPlanes, ZCube),
    *(SlimFlyDesign, DragonflyPlusDesign, UnevenDragonfly),
)


SCHEMAS: Mapping[str, type[Design]] = {
    **dict.fromkeys(FAMILIES, FabricSpec),
    **{family: kind for kind in COUNTED for family in get_args(kind.__annotations__["family"])},
}
"""Schema of a design by its family."""


def _of_family(document: Document) -> type[Design]:
    """Schema of a file's family."""
    where = f"{document.path}:{document.line(('family',))}"
    if "family" not in document.data:
        raise CatalogError(f"{where}: family is missing: give one of {', '.join(SCHEMAS)}")
    family = str(document.data["family"])
    if family not in SCHEMAS:
        raise CatalogError(f"{where}: {unknown_name('family', family, SCHEMAS)}")
    return SCHEMAS[family]


DESIGNS = Catalog[Design]("design", "topologies/designs", FabricSpec, kind_of=_of_family)

"""Counted designs of switches in pods: segments of dual ToRs, racks, wide uplinks, ZCube."""

from dataclasses import dataclass
from math import isqrt
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from netplan.errors import InputError
from netplan.topologies.clos import ceil_div, check_radix
from netplan.topologies.counted_designs import CountedDesign, Counts, DesignSize


class SegmentedPod(CountedDesign):
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
    >>> from netplan.topologies.designs import DESIGNS
    >>> pod = DESIGNS.load("alibaba-hpn")
    >>> pod.gpus, pod.tors, pod.aggregations, pod.core_oversubscription
    (15360, 240, 120, 15.0)
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

    @model_validator(mode="after")
    def _check_ports(self) -> "SegmentedPod":
        """Refuse a pod whose aggregation switches lack ports."""
        used = self.tors_per_plane + self.core_up
        if used > self.aggregation_radix:
            raise ValueError(
                f"an aggregation switch needs {used} ports ({self.tors_per_plane} ToRs and"
                f" {self.core_up} core links), got {self.aggregation_radix}: take fewer segments"
            )
        return self

    @property
    def gpus(self) -> int:
        """GPUs of the pod [1]."""
        return self.segments * self.rails * self.tor_down

    @property
    def tors_per_plane(self) -> int:
        """ToRs of one plane, which are the ports down of an aggregation switch [1]."""
        return self.segments * self.rails

    @property
    def tors(self) -> int:
        """ToR switches [1]."""
        return self.tors_per_plane * self.planes

    @property
    def aggregations(self) -> int:
        """Aggregation switches: as many a plane as a ToR has uplinks [1]."""
        return self.tor_up * self.planes

    @property
    def links(self) -> tuple[int, int, int]:
        """Links below ToRs, below aggregation switches, and to the core [1]."""
        return (
            self.gpus * self.planes,
            self.tors * self.tor_up,
            self.aggregations * self.core_up,
        )

    @property
    def tor_oversubscription(self) -> float:
        """Bandwidth down over up at a ToR [1]."""
        return self.tor_down * self.down_gbps / (self.tor_up * self.up_gbps)

    @property
    def core_oversubscription(self) -> float:
        """Bandwidth down over up at an aggregation switch [1]."""
        return self.tors_per_plane / self.core_up

    def multiplied_out(self, size: DesignSize) -> Counts:  # noqa: ARG002 - the file says it all
        """Counts of the pod."""
        host, up, core = self.links
        return {
            "gpus": self.gpus,
            "nodes": self.gpus // self.rails,
            "leaf_switches": self.tors,
            "spine_switches": self.aggregations,
            "total_switches": self.tors + self.aggregations,
            "links_endpoint": host,
            "links_leaf_spine": up,
            "links_spine_core": core,
            "oversubscription": self.core_oversubscription,
        }


class RackPods(CountedDesign):
    """Pods of racks under one ToR each, non-blocking inside a pod and oversubscribed above it.

    ``top_oversubscription`` is bandwidth down over up between aggregation and core.

    References
    ----------
    The Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.1 (Meta's 24K GPU cluster on RoCE).

    Examples
    --------
    >>> from netplan.topologies.designs import DESIGNS
    >>> cluster = DESIGNS.load("meta-24k-roce")
    >>> cluster.pod_gpus, cluster.gpus, cluster.tors, round(cluster.far_share, 4)
    (3072, 24576, 1536, 0.1429)
    """

    family: Literal["rack-pods"]
    rack_gpus: PositiveInt
    racks_per_pod: PositiveInt
    pods: PositiveInt
    top_oversubscription: Annotated[float, Field(ge=1)]

    @property
    def pod_gpus(self) -> int:
        """GPUs of a pod [1]."""
        return self.rack_gpus * self.racks_per_pod

    @property
    def gpus(self) -> int:
        """GPUs of the cluster [1]."""
        return self.pod_gpus * self.pods

    @property
    def tors(self) -> int:
        """ToR switches, one a rack [1]."""
        return self.racks_per_pod * self.pods

    @property
    def far_share(self) -> float:
        """Share of a GPU's port rate that reaches other pods when all send there [1]."""
        return 1 / self.top_oversubscription

    def multiplied_out(self, size: DesignSize) -> Counts:  # noqa: ARG002 - the file says it all
        """Counts of the cluster; switches above the ToRs are not published."""
        return {
            "gpus": self.gpus,
            "leaf_switches": self.tors,
            "oversubscription": self.top_oversubscription,
        }


@dataclass(frozen=True, slots=True)
class PlaneCounts:
    """Switches and links of several planes, all of them added [1]."""

    leaves: int
    spines: int
    host_links: int
    uplinks: int

    @property
    def switches(self) -> int:
        """Leaves and spines [1]."""
        return self.leaves + self.spines

    @property
    def transceivers(self) -> int:
        """Optical modules, two a link [1]."""
        return 2 * (self.host_links + self.uplinks)


class WideUplinkPlanes(CountedDesign):
    """Non-blocking planes of two tiers whose uplinks are faster than the ports of GPUs.

    A leaf has half of its ports down; the other half joins, ``uplink_width`` by ``uplink_width``,
    to uplinks. A spine has ``radix / uplink_width`` ports of that rate; the radix is that at the
    rate of a host port.

    References
    ----------
    The non-blocking HPN variants of the ZCube comparison, ACM SIGCOMM 2025,
    doi:10.1145/3718958.3750503, appendix L, Table 7.
    """

    takes: ClassVar[tuple[str, ...]] = ("gpus", "radix")

    family: Literal["wide-uplink-planes"]
    planes: PositiveInt
    uplink_width: PositiveInt

    def plane_counts(self, gpus: int, radix: int) -> PlaneCounts:
        """Count all planes.

        Parameters
        ----------
        gpus
            GPUs, each with one port a plane [1].
        radix
            Ports of a switch at the rate of a host port [1].

        Raises
        ------
        InputError
            If the radix cannot be used, the GPUs do not fill whole leaves, or a spine cannot
            reach every leaf.

        Examples
        --------
        >>> from netplan.topologies.designs import DESIGNS
        >>> counts = DESIGNS.load("hpn-non-blocking").plane_counts(1024, 64)
        >>> counts.switches, counts.host_links + counts.uplinks, counts.transceivers
        (96, 3072, 6144)
        """
        check_radix(radix)
        down, spine_radix = radix // 2, radix // self.uplink_width
        leaves, rest = divmod(gpus, down)
        if rest or leaves > spine_radix:
            raise InputError(
                f"{gpus:,} GPUs on leaves of {down} ports down and spines of {spine_radix} ports:"
                f" give a multiple of {down}, at most {down * spine_radix:,}"
            )
        uplinks = gpus // self.uplink_width
        spines = ceil_div(uplinks, spine_radix)
        per_plane = (leaves, spines, gpus, uplinks)
        return PlaneCounts(*(self.planes * count for count in per_plane))

    def multiplied_out(self, size: DesignSize) -> Counts:
        """Counts of all planes; all links are optical."""
        counts = self.plane_counts(size.gpus, size.radix)
        return {
            "gpus": size.gpus,
            "total_switches": counts.switches,
            "copper_links": 0,
            "fibre_links": counts.host_links + counts.uplinks,
            "transceivers": counts.transceivers,
        }


class ZCube(CountedDesign):
    """ZCube(n, 2) by its published totals; its wiring is not modelled.

    n^2 GPUs on 2n switches: as many copper and fibre links a GPU as the file says.

    References
    ----------
    ACM SIGCOMM 2025, doi:10.1145/3718958.3750503, appendix L, Table 7.

    Examples
    --------
    >>> from netplan.topologies.designs import DESIGNS
    >>> counts = DESIGNS.load("zcube").counts(DesignSize(gpus=1024))
    >>> counts["total_switches"], counts["copper_links"], counts["fibre_links"]
    (64, 1024, 2048)
    """

    takes: ClassVar[tuple[str, ...]] = ("gpus",)

    family: Literal["zcube"]
    copper_links_per_gpu: NonNegativeInt
    fibre_links_per_gpu: NonNegativeInt

    def multiplied_out(self, size: DesignSize) -> Counts:
        """Counts of n^2 GPUs.

        Raises
        ------
        InputError
            If the GPUs are no square.
        """
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

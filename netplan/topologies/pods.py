"""Counting published pods that no builder wires: segments, dual planes with wide uplinks, ZCube.

Each function takes what the source publishes (segments, ports, ratios) and multiplies it out; what
does not fit the ports of a switch is refused, so that a design that counts also closes.
"""

from dataclasses import dataclass

from netplan.errors import InputError
from netplan.topologies.clos import ceil_div


@dataclass(frozen=True, slots=True)
class SegmentedPod:
    """Dual-ToR, multi-plane pod of rail-optimized segments, as Alibaba HPN.

    A segment has one ToR a rail and plane; a ToR has one uplink to every aggregation switch of its
    plane. Every GPU has one port in each plane.

    Parameters
    ----------
    segments, rails, planes
        Segments of the pod, GPUs of a server, ports of a GPU [1].
    tor_down, tor_up
        Ports of a ToR to GPUs and to aggregation switches [1].
    aggregation_radix, core_up
        Ports of an aggregation switch, and those of them to the core [1].
    down_gbps, up_gbps
        Rate of a port to a GPU and of all links above [Gb/s].

    References
    ----------
    Qian et al., Alibaba HPN: A Data Center Network for Large Language Model Training, ACM SIGCOMM
    2024, sections 3, 5 and 6.

    Examples
    --------
    >>> pod = SegmentedPod(15, 8, 2, 128, 60, 128, 8, 200.0, 400.0)
    >>> pod.gpus, pod.tors, pod.aggregations, pod.core_oversubscription
    (15360, 240, 120, 15.0)
    """

    segments: int
    rails: int
    planes: int
    tor_down: int
    tor_up: int
    aggregation_radix: int
    core_up: int
    down_gbps: float
    up_gbps: float

    def __post_init__(self) -> None:
        """Refuse a pod whose aggregation switches lack ports.

        Raises
        ------
        InputError
            If the ToRs of a plane and the core links exceed the radix.
        """
        used = self.tors_per_plane + self.core_up
        if used > self.aggregation_radix:
            raise InputError(
                f"an aggregation switch needs {used} ports ({self.tors_per_plane} ToRs and"
                f" {self.core_up} core links), got {self.aggregation_radix}: take fewer segments"
            )

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


def wide_uplink_planes(gpus: int, radix: int, *, planes: int = 2, width: int = 2) -> PlaneCounts:
    """Non-blocking planes of two tiers whose uplinks run at ``width`` times a host port's rate.

    A leaf has half of its ports down; the other half joins, ``width`` by ``width``, to uplinks. A
    spine has ``radix / width`` ports of that rate.

    Parameters
    ----------
    gpus
        GPUs, each with one port a plane [1].
    radix
        Ports of a switch at the rate of a host port [1].
    planes
        Planes [1].
    width
        Rate of an uplink over that of a host port [1].

    Raises
    ------
    InputError
        If the GPUs do not fill whole leaves, or a spine cannot reach every leaf.

    References
    ----------
    The non-blocking HPN variants of the ZCube comparison, ACM SIGCOMM 2025,
    doi:10.1145/3718958.3750503, appendix L, Table 7.

    Examples
    --------
    >>> counts = wide_uplink_planes(1024, 64)
    >>> counts.switches, counts.host_links + counts.uplinks, counts.transceivers
    (96, 3072, 6144)
    """
    down, spine_radix = radix // 2, radix // width
    leaves, rest = divmod(gpus, down)
    if rest or leaves > spine_radix:
        raise InputError(
            f"{gpus:,} GPUs on leaves of {down} ports down and spines of {spine_radix} ports: give"
            f" a multiple of {down}, at most {down * spine_radix:,}"
        )
    uplinks = gpus // width
    spines = ceil_div(uplinks, spine_radix)
    return PlaneCounts(planes * leaves, planes * spines, planes * gpus, planes * uplinks)


@dataclass(frozen=True, slots=True)
class RackPods:
    """Pods of racks under one ToR each, non-blocking inside a pod and oversubscribed above it.

    Parameters
    ----------
    rack_gpus, racks, pods
        GPUs of a rack, racks of a pod, pods [1].
    top_oversubscription
        Bandwidth down over up between aggregation and core [1].

    References
    ----------
    The Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.1 (Meta's 24K GPU cluster on RoCE).

    Examples
    --------
    >>> cluster = RackPods(16, 192, 8, 7.0)
    >>> cluster.pod_gpus, cluster.gpus, cluster.tors, round(cluster.far_share, 4)
    (3072, 24576, 1536, 0.1429)
    """

    rack_gpus: int
    racks: int
    pods: int
    top_oversubscription: float

    @property
    def pod_gpus(self) -> int:
        """GPUs of a pod [1]."""
        return self.rack_gpus * self.racks

    @property
    def gpus(self) -> int:
        """GPUs of the cluster [1]."""
        return self.pod_gpus * self.pods

    @property
    def tors(self) -> int:
        """ToR switches, one a rack [1]."""
        return self.racks * self.pods

    @property
    def far_share(self) -> float:
        """Share of a GPU's port rate that reaches other pods when all send there [1]."""
        return 1 / self.top_oversubscription


@dataclass(frozen=True, slots=True)
class CubeCounts:
    """GPUs, switches and links of a server-centric cube [1]."""

    gpus: int
    switches: int
    copper_links: int
    fibre_links: int

    @property
    def transceivers(self) -> int:
        """Optical modules, two a fibre link [1]."""
        return 2 * self.fibre_links


def zcube_counts(side: int) -> CubeCounts:
    """ZCube(n, 2) by its published totals; its wiring is not modelled.

    n^2 GPUs on 2n switches: a copper link and two fibre links a GPU.

    Parameters
    ----------
    side
        Ports of a switch to GPUs at one level, n [1].

    References
    ----------
    ACM SIGCOMM 2025, doi:10.1145/3718958.3750503, appendix L, Table 7.

    Examples
    --------
    >>> zcube_counts(32)
    CubeCounts(gpus=1024, switches=64, copper_links=1024, fibre_links=2048)
    """
    gpus = side * side
    return CubeCounts(gpus, 2 * side, gpus, 2 * gpus)

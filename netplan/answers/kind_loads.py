"""Loads of one kind of traffic of a step of post-training, while that kind runs.

A step has phases: what its links carry in the mean of the step says little, as new weights go in a
second of many. So each kind has its own busiest link, beside the time of the phase in which it runs
and the share of the step that this is.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from netplan.reports.sections import Column, column, columns
from netplan.traffic.loads import LinkLoads
from netplan.traffic.matrix import KINDS, TrafficMatrix
from netplan.traffic.statistics import crossing_bytes

if TYPE_CHECKING:
    from netplan.setup.post_training_run import PostTrainedRun


class KindLoad(Struct, frozen=True):
    """One kind of traffic of a step.

    Parameters
    ----------
    kind
        What it is for.
    total_bytes, network_bytes
        All its bytes of a step, and those that leave HB domains [B].
    phase, phase_s, step_share
        The phase in which it runs, how long that takes [s], and what of the step that is [1].
    busiest_link, busiest_bytes, busiest_s
        The link direction that is busiest by this kind alone, what it carries [B], and how long it
        takes at its rate [s].
    phase_bytes_per_s
        What the network carries while the phase runs [B/s].
    link_share
        What of its rate the busiest link carries meanwhile; above 1 this kind alone takes longer
        than the phase was timed [1].
    """

    kind: str
    total_bytes: float
    network_bytes: float
    phase: str
    phase_s: float
    step_share: float
    busiest_link: str
    busiest_bytes: float
    busiest_s: float
    phase_bytes_per_s: float
    link_share: float


KIND_LOADS: tuple[Column[KindLoad], ...] = (
    *columns("kind"),
    column("total_bytes", shown="wide"),
    column("network_bytes", title="network"),
    column("step_phase", "phase", shown="data"),
    column("phase_s"),
    column("step_share", title="of step"),
    column("busiest_link", shown="wide"),
    column("busiest_bytes", shown="data"),
    column("busiest_s", title="by link"),
    column("phase_bytes_per_s", title="rate"),
    column("link_share", title="of link"),
)
KIND_LEGEND = (
    "network, rate: between HB domains, and over what the phase takes.",
    "by link: of the busiest link, by this kind alone. of link: what of its rate it carries.",
)


def kind_loads(
    run: "PostTrainedRun", matrix: TrafficMatrix, send: Callable[[TrafficMatrix], LinkLoads]
) -> tuple[KindLoad, ...]:
    """Every kind of a step alone on the links.

    Parameters
    ----------
    run
        The step.
    matrix
        Its traffic, as links take it.
    send
        Sends traffic over the links of the fabric.

    Returns
    -------
    tuple of KindLoad
        Of every kind that has bytes, in the order of ``KINDS``.
    """
    step_s, loads = run.trained.step.seconds, []
    for kind in KINDS:
        part = matrix.of_kind(kind)
        total = part.total_bytes
        if not total:
            continue
        network = crossing_bytes(part, run.fabric.sizing.hb_size)
        phase, phase_s = run.phase_of(kind)
        sent = send(part)
        hottest = next(iter(sent.hottest(1)), None)
        loads.append(
            KindLoad(
                kind=kind,
                total_bytes=total,
                network_bytes=network,
                phase=phase,
                phase_s=phase_s,
                step_share=phase_s / step_s if step_s else 0.0,
                busiest_link=hottest.name if hottest else "",
                busiest_bytes=hottest.load_bytes if hottest else 0.0,
                busiest_s=sent.busiest_s,
                phase_bytes_per_s=network / phase_s if phase_s else 0.0,
                link_share=sent.busiest_s / phase_s if phase_s else 0.0,
            )
        )
    return tuple(loads)

"""Time of one collective and of one operation of the 4D oracle.

Source: Subramanian et al., Sec. III (S2) "Computation Time" and "Communication Time", Appendix A
"2D TP SUMMA".
"""

from dataclasses import dataclass
from typing import Literal

from .fourd_inputs import Mode, System

Kind = Literal["allgather", "reducescatter", "allreduce", "broadcast", "reduce"]
Unit = Literal["tensor", "vector"]


@dataclass(frozen=True, slots=True)
class Group:
    """GPUs of one collective: how many, and how many of them share a domain."""

    members: int
    inside: int


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective; `gigabytes` is the full message (gathered, or not yet scattered)."""

    kind: Kind
    gigabytes: float
    group: Group


@dataclass(frozen=True, slots=True)
class Work:
    """One direction of one operation: FLOPs, HBM traffic and collectives.

    `panels` is the number n_b of SUMMA panels that overlap with the computation; `None` means that
    nothing overlaps.
    """

    unit: Unit
    flop: float
    hbm_gb: float
    collectives: tuple[Collective, ...] = ()
    panels: int | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Parts of the time of one operation [s]; they add up to its time."""

    comp_s: float
    memory_s: float
    comm_s: float

    @property
    def total_s(self) -> float:
        """Time of the operation."""
        return self.comp_s + self.memory_s + self.comm_s


def collective_s(collective: Collective, system: System, mode: Mode) -> float:
    """Return the time of a ring collective on two tiers [s] (Sec. III, "Communication Time").

    The three cases: every member in another domain, all in one domain, several in each of several
    domains. In the last case each of the `inside` members drives its own network ports.
    """
    g, v = collective.group.members, collective.group.inside
    volume = collective.gigabytes
    if volume == 0 or g == 1:
        return 0.0
    if collective.kind == "allreduce" and mode == "corrected":
        scatter = Collective("reducescatter", volume, collective.group)
        return 2 * collective_s(scatter, system, mode)

    c = 1.0 if collective.kind in ("broadcast", "reduce") else (g - 1) / g
    domains = g // v
    if v == 1:
        return system.slow_latency_s * (g - 1) + c * volume / system.beta_slow
    if domains == 1:
        return system.fast_latency_s * (g - 1) + c * volume / system.beta_fast
    slow = c * volume / (system.ports_per_gpu * v * system.beta_slow)
    fast = c * volume / system.beta_fast
    # The published code remembers only here that an all-reduce moves the message twice.
    times = 2 if collective.kind == "allreduce" else 1
    latency = system.slow_latency_s * (domains - 1) + system.fast_latency_s * (g - domains)
    return times * max(slow, fast) + latency


def point_to_point_s(gigabytes: float, system: System, *, inside: bool) -> float:
    """Return the time of one message between two GPUs inside one domain or across domains [s]."""
    if inside:
        return system.fast_latency_s + gigabytes / system.beta_fast
    return system.slow_latency_s + gigabytes / system.beta_slow


def operation_timing(work: Work, system: System, mode: Mode) -> Timing:
    """Return the time of one direction of one operation: roofline plus communication.

    SUMMA (Appendix A): the prologue broadcasts one panel, and what the n_b panels need beyond the
    roofline time is exposed. Both the paper and its code count up to one panel twice.
    """
    peak = system.tensor_tflops if work.unit == "tensor" else system.vector_tflops
    flop_s = system.flop_latency_s + work.flop * 1e-12 / (system.flop_efficiency * peak)
    hbm_s = work.hbm_gb / system.hbm_gb_per_s
    if work.panels is None:
        comm_s = sum(collective_s(one, system, mode) for one in work.collectives)
    else:
        panel_s = sum(
            collective_s(Collective(one.kind, one.gigabytes / work.panels, one.group), system, mode)
            for one in work.collectives
        )
        comm_s = panel_s + max(work.panels * panel_s - max(flop_s, hbm_s), 0.0)
    return Timing(flop_s, max(hbm_s - flop_s, 0.0), comm_s)

"""What Fig. 8 to 13 of COMET say of its two models, and what any source of times gives.

``netplan verify`` takes the times from the plan search, a study's page from its own rows. MP is the
tensor degree of a trillion parameters on 1,024 GPUs; of eight recommendation models (DLRM) on 64
GPUs each instance has some. Source: Kadiyala et al., COMET (arXiv:2211.16648), Sec. V-B and V-C.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

from netplan.levels import Level
from netplan.published.checks import Measured
from netplan.records import replace
from netplan.units import PERCENT
from netplan.workloads.accelerators import ACCELERATORS, Accelerator

PODS = 128
DEGREES = tuple(1 << bit for bit in range(11))
EXPANDED_BYTES = 480e9
"""Expanded memory of a GPU that holds what MP 8 spills [B]."""

EXPANDED_BYTES_PER_S = (1e11, 2e11, 3e11, 4e11, 5e11, 6e11, 8e11, 1e12, 1.5e12, 2e12)
"""Its rates in Fig. 9; the last is that of Fig. 10 [B/s]."""

RATIOS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 7.5, 8.0, 9.6, 12.0, 16.0)
"""Bandwidths in the pod over those between pods, of one sum; 9.6 is that of Table I [1]."""

INSTANCES, INSTANCE_GPUS = 8, (64, 32, 16, 8)
"""Recommendation models of Fig. 13 on 64 GPUs, and GPUs that one of them may have [1]."""

FAST_BYTES_PER_S = 1.5e12
"""Rate of an expanded memory that gains half of the time there [B/s]."""

GB = 1e9


class Rates(NamedTuple):
    """Factors of what a GPU of Table I computes, and sends in its pod and between pods [1].

    Beside them the rate of its expanded memory; without one all that it holds is local [B/s].
    """

    compute: float = 1.0
    inside: float = 1.0
    between: float = 1.0
    expanded_bytes_per_s: float = 0.0

    @property
    def gpu(self) -> Accelerator:
        """The GPU."""
        on = ACCELERATORS.load("a100-comet")
        return replace(
            on,
            tensor_flops_per_s=self.compute * on.tensor_flops_per_s,
            hb_bytes_per_s=self.inside * on.hb_bytes_per_s,
            network_bytes_per_s=self.between * on.network_bytes_per_s,
            expanded_bytes=EXPANDED_BYTES if self.expanded_bytes_per_s else 0.0,
            expanded_bytes_per_s=self.expanded_bytes_per_s,
        )

    @property
    def levels(self) -> tuple[Level, Level]:
        """Pods of 8 on a switch, and one between them."""
        on = self.gpu
        inside = Level("switch", on.hb_size, on.hb_bytes_per_s)
        return inside, Level("switch", PODS, on.network_bytes_per_s)


def split(ratio: float) -> Rates:
    """Rates with the sum of both bandwidths of Table I, split by a ratio.

    Examples
    --------
    >>> round(300 * split(6.0).inside, 2), round(31.25 * split(6.0).between, 2)
    (283.93, 47.32)
    """
    outside = 331.25 / (1 + ratio)
    return Rates(inside=ratio * outside / 300, between=outside / 31.25)


BASELINE = Rates()
CHANGES = {
    "half in the pods": Rates(inside=0.5),
    "half between them": Rates(between=0.5),
    "double in the pods": Rates(inside=2.0),
    "double between them": Rates(between=2.0),
    "double both": Rates(inside=2.0, between=2.0),
    "ratio 1:6 of the same sum": split(6.0),
}
"""Other bandwidths of Fig. 11 and 12."""

ClusterTimes = Callable[[int, Rates], float]
"""Iteration time of a tensor degree at some rates [s]; raises KeyError where it is not known."""


def fastest_degree(time_s: ClusterTimes) -> Iterator[Measured]:
    """The tensor degree of the least time (Fig. 8).

    Examples
    --------
    >>> list(fastest_degree(lambda tensor, rates: max(8 / tensor, tensor / 8)))
    [('MP of the least time', '8'), ('least time over MP', 'inside')]
    """
    times_s = {tensor: time_s(tensor, BASELINE) for tensor in DEGREES}
    best = min(DEGREES, key=times_s.__getitem__)
    yield "MP of the least time", str(best)
    inside = DEGREES[0] < best < DEGREES[-1]
    yield "least time over MP", "inside" if inside else "at an end"


def expanded_needed(time_s: ClusterTimes) -> Iterator[Measured]:
    """The rate of an expanded memory at which MP 8 is as fast as MP 64, which needs none (Fig. 9).

    Infinite where no rate is enough.
    """
    limit_s = time_s(64, Rates(expanded_bytes_per_s=EXPANDED_BYTES_PER_S[-1]))
    found = [(one, time_s(8, Rates(expanded_bytes_per_s=one))) for one in EXPANDED_BYTES_PER_S]
    yield "expanded memory from which MP 8 beats MP 64, GB/s", _rate_of(limit_s, found) / GB


def _rate_of(limit_s: float, found: Sequence[tuple[float, float]]) -> float:
    """The least rate with a time of at most so much, from rates and their times [B/s].

    Between two rates times are straight over the inverse of the rate, as Eq. 3 has them.

    Examples
    --------
    >>> round(_rate_of(3.0, [(1.0, 4.0), (2.0, 2.0)]), 4)
    1.3333
    """
    for (slow, before_s), (fast, after_s) in pairwise(found):
        if after_s <= limit_s < before_s:
            share = (before_s - limit_s) / (before_s - after_s)
            return 1 / (1 / slow + share * (1 / fast - 1 / slow))
    return inf


def changes_by_flops(time_s: ClusterTimes) -> Iterator[Measured]:
    """What half and twice the FLOP/s make of MP 8 beside an expanded memory of 2 TB/s (Fig. 10)."""
    fast = Rates(expanded_bytes_per_s=EXPANDED_BYTES_PER_S[-1])
    for name, factor in (("half", 0.5), ("double", 2.0)):
        yield (
            f"MP 8, {name} the FLOP/s, %",
            change(time_s, 8, fast._replace(compute=factor), since=fast),
        )


def changes_by_bandwidth(time_s: ClusterTimes) -> Iterator[Measured]:
    """What both bandwidths make of MP 8, and what MP 64 makes of each (Fig. 11)."""
    yield "MP 8, half of both bandwidths, %", change(time_s, 8, Rates(1, 0.5, 0.5))
    yield "MP 8, four times both bandwidths, %", change(time_s, 8, Rates(1, 4, 4))
    both, *either = (
        change(time_s, 64, CHANGES[f"double {name}"])
        for name in ("both", "in the pods", "between them")
    )
    more = both < change(time_s, 8, CHANGES["double both"]) < 0
    yield "which MP bandwidth helps more, 8 or 64", "64" if more else "8"
    yield "MP 64, doubling both or either", "both" if both < min(either) else "either"


def changes_of_mp_64(time_s: ClusterTimes) -> Iterator[Measured]:
    """How much longer MP 64 takes with each change of its bandwidths (Fig. 11 and 12)."""
    for name, rates in CHANGES.items():
        yield name_of(name), change(time_s, 64, rates)


def name_of(name: str) -> str:
    """The name of a change of the bandwidths in the published table."""
    return f"MP 64, bandwidth {name}, %"


def gain_by_split(time_s: ClusterTimes) -> Iterator[Measured]:
    """What MP 64 gains by the ratio 1:6 (Fig. 12)."""
    yield "MP 64, ratio 1:6, %", change(time_s, 64, split(6.0), since=split(9.6))


def best_split(time_s: ClusterTimes) -> Iterator[Measured]:
    """The best of the ratios for MP 64 (Fig. 12), which a closed form gives, too."""
    best = min(RATIOS, key=lambda ratio: time_s(64, split(ratio)))
    yield "best ratio of bandwidths, MP 64", best


def change(time_s: ClusterTimes, tensor: int, rates: Rates, *, since: Rates = BASELINE) -> float:
    """How much longer an iteration takes than at other rates [%]."""
    return PERCENT * (time_s(tensor, rates) / time_s(tensor, since) - 1)


InstanceTimes = Callable[[int, float], float]
"""Time of all instances on some GPUs each, by the rate of their expanded memory [s].

Raises KeyError where it is not known.
"""


def instances_needed(time_s: InstanceTimes) -> Iterator[Measured]:
    """The rate from which 16 GPUs an instance, four at once, beat 64, one after the other (13b)."""
    limit_s = time_s(64, EXPANDED_BYTES_PER_S[-1])
    found = [(rate, time_s(16, rate)) for rate in EXPANDED_BYTES_PER_S]
    yield "DLRM: expanded memory from which 16 GPUs beat 64, GB/s", _rate_of(limit_s, found) / GB


def gain_of_instances(time_s: InstanceTimes) -> Iterator[Measured]:
    """What 200 GB at 1.5 TB/s gain with 16 GPUs an instance (Fig. 13b)."""
    gain = time_s(64, FAST_BYTES_PER_S) / time_s(16, FAST_BYTES_PER_S)
    yield "DLRM: gain by 200 GB at 1.5 TB/s", gain

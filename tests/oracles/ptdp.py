"""The PTD-P model in plain Python loops: the oracle for the vectorised engine, on any levels.

Source: Wang et al., arXiv:2307.12169, Eq. 1 to 7 and 10 to 19, written from the paper's formulas
with one summand a level in place of its two tiers. Nothing is shared with netplan.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True, slots=True)
class Tier:
    """One level: `kind` is switch, ring or mesh; `rate` is one link, one way [B/s]."""

    kind: str
    size: int
    rate: float
    step_s: float


@dataclass(frozen=True, slots=True)
class Job:
    """Model, batch and GPU: h hidden size, l layers, s sequence, V vocabulary, F FLOP/s."""

    h: int
    l: int  # noqa: E741 - the paper's letter
    s: int
    V: int
    B: int
    F: float
    memory: float
    gamma: float = 2.5
    q: float = 16.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """One plan: (tensor, data, pipeline) at each level, microbatch, interleaved stages."""

    degrees: tuple[tuple[int, int, int], ...]
    b: int
    v: int


def divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def product(numbers: Iterator[int]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result


def totals(candidate: Candidate) -> tuple[int, int, int]:
    t, d, p = (product(level[i] for level in candidate.degrees) for i in range(3))
    return t, d, p


def level_rate(tier: Tier, members: int, stride: int) -> float:
    """Bytes per second that one member gets through its links at one level."""
    if tier.kind == "switch":
        return tier.rate
    if tier.kind == "mesh":
        return (members - 1) * tier.rate
    both_ways = members * stride == tier.size and tier.size > 2
    return (2 if both_ways else 1) * tier.rate / stride


def all_gather_s(tiers: list[Tier], members: list[int], strides: list[int], data: float) -> float:
    """Eq. 1: the innermost members gather D / (outer members) ... ; one phase a level."""
    seconds, inside = 0.0, 1
    for tier, m, stride in zip(tiers, members, strides, strict=True):
        if m > 1:
            seconds += (m - 1) / m * data / inside / level_rate(tier, m, stride)
            seconds += tier.step_s * (m - 1 if tier.kind == "ring" else 1)
        inside *= m
    return seconds


def candidates(job: Job, tiers: list[Tier]) -> Iterator[Candidate]:
    """Every plan of Eq. 11 to 19, memory aside."""

    def splits(size: int) -> list[tuple[int, int, int]]:
        return [(t, d, size // (t * d)) for t in divisors(size) for d in divisors(size // t)]

    for degrees in itertools.product(*(splits(tier.size) for tier in tiers)):
        t, d, p = totals(Candidate(degrees, 1, 1))
        if job.l % p or gcd(job.s, job.h) % t or job.B % d:
            continue
        for b in divisors(job.B // d):
            for v in divisors(job.l // p):
                yield Candidate(degrees, b, v)


def memory_bytes(job: Job, candidate: Candidate) -> float:
    t, _, p = totals(candidate)
    factor = 1 + (p - 1) / (p * candidate.v) if candidate.v > 1 else 1
    parameters = job.q * 12 * job.l * job.h**2 / (p * t)
    return parameters + 34 * job.s * candidate.b * job.h * job.l / t * factor


def iteration_s(job: Job, tiers: list[Tier], candidate: Candidate) -> float:
    """Eq. 2 to 7."""
    t, d, p = totals(candidate)
    b, v = candidate.b, candidate.v
    m = job.B // (d * b)
    feed_forward = 48 * b * job.s * job.h**2 * job.l + 6 * b * job.s * job.h * job.V
    attention = 24 * b * job.s * job.h**2 * job.l + 16 * b * job.s**2 * job.h * job.l
    micro = (feed_forward + job.gamma * attention) / (job.F * p * t)
    stage_bytes = 2 * b * job.h * job.s / t

    hops_s, slowest = 0.0, (1 / tiers[0].rate, tiers[0].step_s)
    worst = 0.0
    for i, tier in enumerate(tiers):
        inner_t, inner_d, stages = candidate.degrees[i]
        outside = product(level[2] for level in candidate.degrees[i + 1 :])
        per_byte = (inner_t * inner_d if tier.kind == "ring" else 1) / tier.rate
        hops_s += (stages - 1) * outside * (per_byte * stage_bytes + tier.step_s)
        if stages > 1 and per_byte > worst:
            worst, slowest = per_byte, (per_byte, tier.step_s)

    bubble = (p - 1) * micro / v + 2 * hops_s
    gather = all_gather_s(
        tiers, [level[0] for level in candidate.degrees], [1] * len(tiers), 2 * b * job.h * job.s
    )
    steady = m * micro + 8 * job.l * m / p * gather
    steady += 2 * m * v * (slowest[0] * stage_bytes + slowest[1])
    sync = 2 * all_gather_s(
        tiers,
        [level[1] for level in candidate.degrees],
        [level[0] for level in candidate.degrees],
        2 * job.l * 12 * job.h**2 / (p * t),
    )
    return bubble + steady + sync

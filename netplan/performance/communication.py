"""Communication times of placed parallel dimensions, for all placements at once.

Every time is affine in the bytes: seconds = slope x bytes + fixed. A collective over a dimension
runs through the levels that the dimension occupies, one phase a level (the bandwidth part of an
all_gather over x GPUs per HB domain and y domains is Eq. 1 of arXiv:2307.12169).

On a ring a dimension may hold only part of the positions. Its members then lie ``stride`` apart,
and ``stride`` groups share every link; a group that does not close around the ring can use each
link in one direction only for what its far end still misses.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netplan.levels import Level
from netplan.performance.placement import PIPELINE, Floats, Ints, Placements
from netplan.traffic.algorithms import LevelArrays, level_affine


@dataclass(frozen=True, slots=True)
class Affine:
    """Times that are affine in the bytes, one entry a placement."""

    s_per_byte: Floats
    fixed_s: Floats

    def seconds(self, data_bytes: Floats | float) -> Floats:
        """Time for this many bytes [s]."""
        return self.s_per_byte * data_bytes + self.fixed_s


def all_gather(levels: Sequence[Level], placements: Placements, dimension: int) -> Affine:
    """Gather over all members of one dimension; reduce_scatter takes as long.

    Parameters
    ----------
    levels
        The fabric, innermost level first.
    placements
        Degrees on those levels.
    dimension
        Index of the dimension in the placements.

    Returns
    -------
    Affine
        Time of gathering D bytes in total, as slope and fixed part a placement.
    """
    slope = np.zeros(placements.count)
    fixed = np.zeros(placements.count)
    inside = np.ones(placements.count)
    for level, degrees in zip(levels, placements.degrees, strict=True):
        members = degrees[dimension]
        phase = level_affine("all_gather", _part(level, members))
        share = phase.s_per_byte
        if level.kind == "ring":
            share = _ring_slope(level, members, stride=degrees[:dimension].prod(axis=0))
        slope += share / inside
        fixed += phase.fixed_s
        inside *= members
    return Affine(slope, fixed)


def stage_hops(levels: Sequence[Level], placements: Placements) -> tuple[Affine, Affine]:
    """Transfers between pipeline stages: all hops from first to last stage, and the slowest hop.

    A pipeline of degrees p_1 ... p_k over the levels has (p_i - 1) x p_(i+1) x ... x p_k hops at
    level i (Eq. 4 of arXiv:2307.12169). Without a pipeline the slowest hop is one of the innermost
    level, which Eq. 6 charges all the same.
    """
    slope, fixed = np.zeros(placements.count), np.zeros(placements.count)
    slow_slope = np.full(placements.count, 1.0 / levels[0].link_bytes_per_s)
    slow_fixed = np.full(placements.count, levels[0].step_s)
    slowest = np.zeros(placements.count)
    outside = placements.totals[PIPELINE]
    for level, degrees in zip(levels, placements.degrees, strict=True):
        stages = degrees[PIPELINE]
        outside = outside // stages
        hops = (stages - 1) * outside
        stride = degrees[:PIPELINE].prod(axis=0) if level.kind == "ring" else 1
        seconds_per_byte = stride / level.link_bytes_per_s
        slope += hops * seconds_per_byte
        fixed += hops * level.step_s
        slower = (stages > 1) & (seconds_per_byte > slowest)
        slowest = np.where(slower, seconds_per_byte, slowest)
        slow_slope = np.where(slower, seconds_per_byte, slow_slope)
        slow_fixed = np.where(slower, level.step_s, slow_fixed)
    return Affine(slope, fixed), Affine(slow_slope, slow_fixed)


def _part(level: Level, members: Ints) -> LevelArrays:
    """Level of which a dimension holds ``members`` only, one entry a placement."""
    return LevelArrays(
        level.kind,
        members,
        level.link_bytes_per_s,
        level.link_latency_s,
        level.step_latency_s,
    )


def _ring_slope(level: Level, members: Ints, stride: Ints) -> Floats:
    """Seconds per gathered byte on a ring of which a dimension holds some positions."""
    one_way: Floats = (members - 1) / (members * level.link_bytes_per_s)
    if level.size == 2:  # noqa: PLR2004 - two members share one link
        return one_way
    closed = members * stride == level.size
    slope: Floats = one_way * stride * np.where(closed, 0.5, 1.0)
    return slope

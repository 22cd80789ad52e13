"""The bandwidth hierarchy that the time models see: a fabric as a product of simple levels.

A fabric of any size is described by a few levels, numbered from the inside (the HB domain) to the
outside (the network). Each level joins ``size`` members in one of three ways:

``switch``  a non-blocking switch; every GPU has one link to it;
``ring``    every GPU has two links, one to each neighbour (one link if ``size`` is 2);
``mesh``    fully connected; every GPU has ``size - 1`` links.

A 3D torus is ring x ring x ring, a dragonfly switch x mesh x mesh, rail-only
switch (HB domain) x switch (rail). The GPUs number the product of all sizes.
"""

import math
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from netplan.errors import InputError

LevelKind = Literal["switch", "ring", "mesh"]

LINKS_PER_STEP = {"switch": 2, "ring": 1, "mesh": 1}
"""Links that one message crosses in one step of a collective (up and down again at a switch)."""


class Level(Struct, frozen=True):
    """One level of the hierarchy.

    Parameters
    ----------
    kind
        How the members are joined: ``switch``, ``ring`` or ``mesh``.
    size
        Members joined at this level [1].
    link_bytes_per_s
        Bandwidth of one link, one direction, full duplex [B/s].
    link_latency_s
        Latency of one link [s].
    step_latency_s
        Fixed delay of one step in the GPU, whatever the links [s].

    Examples
    --------
    >>> nvlink = Level("switch", 8, 450e9, step_latency_s=2.5e-6)
    >>> nvlink.step_s
    2.5e-06
    >>> Level("mesh", 8, 50e9).gpu_bytes_per_s
    350000000000.0
    """

    kind: LevelKind
    size: int
    link_bytes_per_s: float
    link_latency_s: float = 0.0
    step_latency_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no hardware can be.

        Raises
        ------
        InputError
            If the kind is unknown, the size is below 1, or a bandwidth or latency is negative.
        """
        if self.kind not in LINKS_PER_STEP:
            raise InputError(
                f"unknown level kind {self.kind!r}: use one of {', '.join(LINKS_PER_STEP)}"
            )
        if self.size < 1:
            raise InputError(f"a level joins at least 1 member, got {self.size}")
        if not (self.link_bytes_per_s > 0 and math.isfinite(self.link_bytes_per_s)):
            raise InputError(f"a link bandwidth is above 0 B/s, got {self.link_bytes_per_s}")
        if self.link_latency_s < 0 or self.step_latency_s < 0:
            raise InputError("a latency is at least 0 s")

    @property
    def step_s(self) -> float:
        """Latency of one step of a collective: links crossed x their latency, plus delay [s]."""
        return LINKS_PER_STEP[self.kind] * self.link_latency_s + self.step_latency_s

    @property
    def links_per_gpu(self) -> int:
        """Links that leave one GPU at this level [1]."""
        if self.size == 1:
            return 0
        return {"switch": 1, "ring": min(2, self.size - 1), "mesh": self.size - 1}[self.kind]

    @property
    def gpu_bytes_per_s(self) -> float:
        """Bandwidth out of one GPU at this level, all its links together [B/s]."""
        return self.links_per_gpu * self.link_bytes_per_s


def gpu_count(levels: Sequence[Level]) -> int:
    """GPUs that a product of levels joins [1].

    Examples
    --------
    >>> gpu_count([Level("switch", 8, 450e9), Level("switch", 32, 50e9)])
    256
    """
    return math.prod(level.size for level in levels)

"""Closed forms of the collectives that training runs most, on HB domains joined by a network.

======  ===================================================================================
x, y    GPUs per high-bandwidth (HB) domain, domains; hb_size, hb_count [1]
C_F     one-way bandwidth of one GPU into its HB domain; hb_bytes_per_s [B/s]
C_S     one-way bandwidth of one GPU into the network; network_bytes_per_s [B/s]
======  ===================================================================================

Bandwidths are one-way: NVLink is often quoted with both directions added (600 and 900 GB/s stand
for C_F = 300e9 and 450e9). All numbers may be NumPy arrays that broadcast.

The forms of two tiers are special cases of `netplan.traffic.hierarchy`, with direct exchange at
both switches and one chunk. A broadcast or a message in one level, on links of bandwidth B with
tau = h*L + d as in `netplan.traffic.algorithms`, completes the list.

Sources: the rail-only paper (arXiv:2307.12169), Eq. 1 and 20-22; Thakur, Rabenseifner and Gropp
2005 for the broadcasts. Left out: contention and protocol overhead.
"""

from collections.abc import Sequence
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from netplan.errors import InputError
from netplan.levels import LINKS_PER_STEP, LevelKind
from netplan.traffic.algorithms import (
    AnyLevel,
    Broadcast,
    Floats,
    Forwarding,
    Ints,
    check_choice,
    check_number,
    plain,
)
from netplan.traffic.bounds import Fabric, all_gather_bound_s

__all__ = [
    "all_gather_bound_s",
    "all_gather_s",
    "all_to_all_s",
    "all_to_all_slowdown",
    "broadcast_s",
    "hb_bandwidth_ratio",
    "point_to_point_s",
    "torus_links",
]

"""Closed forms with the names of their papers: two tiers of GPUs, and broadcasts in one level.

======  ====================================================================================
symbol  meaning (all numbers may be NumPy arrays that broadcast)
======  ====================================================================================
x, y    GPUs per high-bandwidth (HB) domain, domains: hb_size, hb_count [1]
C_F     one-way bandwidth of one GPU into its HB domain: hb_bytes_per_s [B/s]; NVLink is often
        quoted with both directions added, so that 900 GB/s stand for C_F = 450e9
C_S     one-way bandwidth of one GPU into the network: network_bytes_per_s [B/s]
======  ====================================================================================

The forms of two tiers are `netplan.traffic.hierarchy` with direct exchange at both switches and
one chunk. Source: rail-only paper (arXiv:2307.12169), Eq. 1 and 20-22. Left out: contention,
protocol overhead.
"""

from typing import get_args

import numpy as np

from netplan.arrays import Amount, Counts
from netplan.errors import InputError
from netplan.traffic.algorithms import (
    AnyLevel,
    Broadcast,
    LevelArrays,
    check_choice,
    check_number,
    level_time_s,
    plain,
)
from netplan.traffic.bounds import Fabric, all_gather_bound
from netplan.traffic.hierarchy import collective_s

__all__ = [
    "all_gather_bound_s",
    "all_gather_s",
    "all_to_all_s",
    "all_to_all_slowdown",
    "broadcast_s",
    "hb_bandwidth_ratio",
]


def all_gather_s(
    data_bytes: Amount,
    hb_size: Counts,
    hb_count: Counts,
    hb_bytes_per_s: Amount,
    network_bytes_per_s: Amount,
    latency_s: Amount = 0.0,
) -> Amount:
    """Time of an all_gather, first in the rails, then in the HB domains (Eq. 1) [s].

    ``(y-1)*D/(x*y*C_S) + (x-1)*D/(x*C_F) + latency*[y>1] + latency*[x>1]``; a reduce_scatter takes
    as long, an all_reduce twice. At C_F >= C_S it is at most twice `all_gather_bound_s`.

    Parameters
    ----------
    data_bytes
        Gathered result D [B].
    hb_size, hb_count
        GPUs per HB domain x and domains y [1].
    hb_bytes_per_s, network_bytes_per_s
        One-way bandwidth of one GPU, C_F and C_S [B/s].
    latency_s
        Latency of one operation in one tier; a tier of one member has none [s].

    Returns
    -------
    float or array
        Time of the broadcast shape of the arguments [s].

    Raises
    ------
    InputError
        If a number is not allowed.

    Examples
    --------
    >>> all_gather_s(1e9, 8, 8, 450e9, 50e9)
    0.0041319
    """
    check_number("data_bytes", data_bytes)
    check_number("latency_s", latency_s)
    tiers = _tiers(hb_size, hb_count, hb_bytes_per_s, network_bytes_per_s, latency_s)
    return collective_s("all_gather", tiers, data_bytes=data_bytes)


def all_gather_bound_s(
    data_bytes: float,
    hb_size: int,
    hb_count: int,
    hb_bytes_per_s: float,
    network_bytes_per_s: float,
    fabric: Fabric = "rail-only",
) -> float:
    """Optimal time of an all_gather, bandwidth only [s].

    `netplan.traffic.bounds.all_gather_bound` names the terms and the one that binds; parameters,
    source and errors stand there.

    Examples
    --------
    >>> all_gather_bound_s(1e9, 8, 8, 450e9, 50e9)
    0.0021875
    """
    sizes = (hb_size, hb_count, hb_bytes_per_s, network_bytes_per_s)
    return all_gather_bound(data_bytes, *sizes, fabric).bound_s


def all_to_all_s(
    pair_bytes: Amount,
    hb_size: Counts,
    hb_count: Counts,
    hb_bytes_per_s: Amount,
    network_bytes_per_s: Amount,
    fabric: Fabric = "rail-only",
) -> Amount:
    """Time of an all_to_all in which each GPU sends `pair_bytes` D to each other GPU [s].

    ::

        max( (x-1)*D/C_F , x*(y-1)*D/C_S )       rail-optimized: both tiers at once   (Eq. 20)
        y*(x-1)*D/C_F + x*(y-1)*D/C_S            rail-only: domain, then rail         (Eq. 21)

    On rail-only each domain first hands the y*D bytes for every rail to the GPU on that rail
    (the text of the paper says x*D).

    Parameters
    ----------
    pair_bytes
        Bytes D from one GPU to each other GPU, in all x*y times less than the message of
        `netplan.traffic.hierarchy` [B].
    hb_size, hb_count
        GPUs per HB domain x and domains y [1].
    hb_bytes_per_s, network_bytes_per_s
        One-way bandwidth of one GPU, C_F and C_S [B/s].
    fabric
        ``rail-only`` or ``rail-optimized`` (full bisection between all GPUs).

    Returns
    -------
    float or array
        Time of the broadcast shape of the arguments [s].

    Raises
    ------
    InputError
        If a number or the fabric is not allowed.

    Examples
    --------
    >>> all_to_all_s(1e6, 8, 32, 900e9, 50e9, "rail-optimized")
    0.00496
    >>> all_to_all_s(1e6, 8, 32, 900e9, 50e9, "rail-only")
    0.0052089
    """
    check_choice("fabric", fabric, get_args(Fabric))
    check_number("pair_bytes", pair_bytes)
    domain, network = _tiers(hb_size, hb_count, hb_bytes_per_s, network_bytes_per_s)
    data_bytes = plain(np.multiply(pair_bytes, np.multiply(hb_size, hb_count)))
    if fabric == "rail-only":
        return collective_s("all_to_all", [domain, network], data_bytes=data_bytes)
    # The network reaches every GPU of the other domains: the domain keeps its own pairs.
    own_bytes = plain(np.multiply(pair_bytes, hb_size))
    domain_s = level_time_s("all_to_all", domain, data_bytes=own_bytes)
    return plain(np.maximum(domain_s, level_time_s("all_to_all", network, data_bytes=data_bytes)))


def all_to_all_slowdown(
    hb_size: Counts, hb_count: Counts, hb_bytes_per_s: Amount, network_bytes_per_s: Amount
) -> Amount:
    """Relative loss of an all_to_all on rail-only: Eq. 21 over Eq. 20, minus 1.

    Where the network binds Eq. 20, this is ``y*(x-1)*C_S / (x*(y-1)*C_F)``, about C_S/C_F for large
    x and y. Eq. 22 of the paper prints the ratio inverted, as C_F/C_S; the abstract of its version
    5 (8.2 to 11.2 %) agrees with the form used here.

    Parameters
    ----------
    hb_size, hb_count
        GPUs per HB domain x and domains y [1].
    hb_bytes_per_s, network_bytes_per_s
        One-way bandwidth of one GPU, C_F and C_S [B/s].

    Returns
    -------
    float or array
        Fraction by which rail-only takes longer [1]; 0 for a single domain or domains of one GPU.

    Raises
    ------
    InputError
        If a number is not allowed.

    Examples
    --------
    >>> all_to_all_slowdown(8, 32, 900e9, 50e9)
    0.05018
    """
    sizes = (hb_size, hb_count, hb_bytes_per_s, network_bytes_per_s)
    rail_only_s = np.asarray(all_to_all_s(1.0, *sizes, "rail-only"))
    optimized_s = np.asarray(all_to_all_s(1.0, *sizes, "rail-optimized"))
    # One GPU alone exchanges nothing on either fabric: 0/0 means no loss.
    safe_s = np.where(optimized_s > 0, optimized_s, 1.0)
    return plain((rail_only_s - optimized_s) / safe_s)


def hb_bandwidth_ratio(hb_size: Counts, hb_count: Counts, chunks: Counts = 1) -> Amount:
    """Best C_F/C_S of a fixed sum C_F + C_S, for the hierarchical all_reduce in c chunks.

    ``max(R0*(1 - 1/c), sqrt(R0/c))`` with ``R0 = y*(x-1)/(y-1)``, the ratio at which domain and
    network take equally long. It minimises max(a, e + a/c) with a = 2*(x-1)/x*D/C_F and
    e = 2*(y-1)/(x*y)*D/C_S (`netplan.traffic.hierarchy`, latency neglected).

    Parameters
    ----------
    hb_size, hb_count
        GPUs per HB domain x, and domains y >= 2 [1].
    chunks
        Chunks c of the message [1].

    Returns
    -------
    float or array
        C_F/C_S [1].

    Raises
    ------
    InputError
        If a number is not allowed; a single domain needs no network, whatever the split.

    Examples
    --------
    >>> hb_bandwidth_ratio(8, 8, chunks=4)
    6.0
    """
    check_number("hb_size", hb_size, minimum=1, whole=True)
    check_number("hb_count", hb_count, minimum=2, whole=True)
    check_number("chunks", chunks, minimum=1, whole=True)
    x, y = np.asarray(hb_size, dtype=np.float64), np.asarray(hb_count, dtype=np.float64)
    balanced = y * (x - 1) / (y - 1)
    return plain(np.maximum(balanced * (1 - 1 / np.asarray(chunks)), np.sqrt(balanced / chunks)))


def broadcast_s(
    level: AnyLevel, *, data_bytes: Amount, algorithm: Broadcast = "chain", chunks: Counts = 1
) -> Amount:
    """Time of a broadcast of D bytes from one GPU to the n - 1 others of a level [s].

    ===================  ===================================================================
    chain                (n-2+c) * (D/(c*B) + tau), tends to D/B for many chunks
    bidirectional_chain  (m-1+c) * (D/(c*B) + tau), m = ceil((n-1)/2): half the GPUs each way
    binomial_tree        ceil(log2 n) * (D/B + tau) on a switch
    scatter_all_gather   both direct: 2*((n-1)/n*D/B + tau) on a switch, 2*(D/(n*B) + tau) on a mesh
    ===================  ===================================================================

    Parameters
    ----------
    level
        A `Level`, or `LevelArrays` for many plans at once.
    data_bytes
        Message D of the root [B].
    algorithm
        One of the table.
    chunks
        Equal parts c of the message, for the chains only [1].

    Raises
    ------
    InputError
        If a number or name is not allowed, or the algorithm does not fit the level or the chunks.

    Examples
    --------
    >>> from netplan.levels import Level
    >>> broadcast_s(Level("ring", 8, 50e9), data_bytes=1e9, chunks=10)
    0.032
    """
    check_choice("broadcast", algorithm, get_args(Broadcast))
    check_number("chunks", chunks, minimum=1, whole=True)
    if algorithm not in ("chain", "bidirectional_chain") and np.any(np.not_equal(chunks, 1)):
        raise InputError(f"{algorithm} sends the message in one piece: use chunks 1, or 'chain'")
    return collective_s(
        "broadcast", [level], data_bytes=data_bytes, algorithm=algorithm, chunks=chunks
    )


def _tiers(
    hb_size: Counts,
    hb_count: Counts,
    hb_bytes_per_s: Amount,
    network_bytes_per_s: Amount,
    latency_s: Amount = 0.0,
) -> tuple[LevelArrays, LevelArrays]:
    """HB domain and network as two switches.

    Raises
    ------
    InputError
        For sizes below 1 and bandwidths that are not above 0.
    """
    check_number("hb_size", hb_size, minimum=1, whole=True)
    check_number("hb_count", hb_count, minimum=1, whole=True)
    check_number("hb_bytes_per_s", hb_bytes_per_s, minimum=None)
    check_number("network_bytes_per_s", network_bytes_per_s, minimum=None)
    return (
        LevelArrays("switch", hb_size, hb_bytes_per_s, step_latency_s=latency_s),
        LevelArrays("switch", hb_count, network_bytes_per_s, step_latency_s=latency_s),
    )

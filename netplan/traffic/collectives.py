"""Closed forms of two tiers of GPUs, with the names of their paper.

======  ====================================================================================
symbol  meaning (all numbers may be NumPy arrays that broadcast, but for those of a bound)
======  ====================================================================================
x, y    GPUs per high-bandwidth (HB) domain, domains: hb_size, hb_count [1]
C_F     one-way bandwidth of one GPU into its HB domain: hb_bytes_per_s [B/s]; NVLink is often
        quoted with both directions added, so that 900 GB/s stand for C_F = 450e9
C_S     one-way bandwidth of one GPU into the network: network_bytes_per_s [B/s]
======  ====================================================================================

The times are those of `netplan.traffic.hierarchy` with direct exchange at both switches and one
chunk, the bound is that of `netplan.traffic.bounds`. A number or a fabric that is not allowed is an
``InputError``. Sources: rail-only paper (arXiv:2307.12169), Eq. 1, 20 and 21; COMET
(arXiv:2211.16648), Sec. V-B4. Left out: contention, protocol overhead.
"""

from typing import get_args

import numpy as np

from netplan.arrays import Amount, Counts
from netplan.traffic.algorithms import LevelArrays, as_amount, check_choice, check_number
from netplan.traffic.bounds import Fabric, LowerBound
from netplan.traffic.hierarchy import collective_s


def all_gather_s(
    data_bytes: Amount,
    hb_size: Counts,
    hb_count: Counts,
    hb_bytes_per_s: Amount,
    network_bytes_per_s: Amount,
    latency_s: Amount = 0.0,
) -> Amount:
    """Time of an all_gather of D bytes, first in the rails, then in the HB domains (Eq. 1) [s].

    ``(y-1)*D/(x*y*C_S) + (x-1)*D/(x*C_F) + latency*[y>1] + latency*[x>1]``; a reduce_scatter takes
    as long, an all_reduce twice. At C_F >= C_S it is at most twice `all_gather_bound_s`.

    Parameters
    ----------
    data_bytes
        Gathered result D [B].
    hb_size, hb_count, hb_bytes_per_s, network_bytes_per_s
        The two tiers, x, y, C_F and C_S.
    latency_s
        Latency of one operation in one tier; a tier of one member has none [s].

    Returns
    -------
    Amount
        Time, a float or an array as the inputs broadcast [s].

    Raises
    ------
    InputError
        If a number is out of range.

    References
    ----------
    Wang et al., arXiv:2307.12169, Eq. 1.

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
    """Optimal time of an all_gather, the largest term of `all_gather_bound` [s].

    Parameters
    ----------
    data_bytes
        Gathered result D [B].
    hb_size, hb_count, hb_bytes_per_s, network_bytes_per_s
        The two tiers, x, y, C_F and C_S, no arrays.
    fabric
        ``rail-only`` or ``rail-optimized``.

    Returns
    -------
    float
        Time that no algorithm can beat, latency left out [s].

    Raises
    ------
    InputError
        If a number is out of range, or the fabric is unknown.

    Examples
    --------
    >>> all_gather_bound_s(1e9, 8, 8, 450e9, 50e9)
    0.0021875
    """
    sizes = (hb_size, hb_count, hb_bytes_per_s, network_bytes_per_s)
    return all_gather_bound(data_bytes, *sizes, fabric).bound_s


def all_gather_bound(
    data_bytes: float,
    hb_size: int,
    hb_count: int,
    hb_bytes_per_s: float,
    network_bytes_per_s: float,
    fabric: Fabric = "rail-only",
) -> LowerBound:
    """Optimal time of an all_gather of D bytes, bandwidth only.

    ::

        T = D/(x*y) * max( (y-1)/C_S, (x*y-1)/(C_F+C_S) )              rail-optimized
        T = D/(x*y) * max( (y-1)/C_S, (x*y-1)/(C_F+C_S), (x-1)/C_F )   rail-only

    The terms are named network, joint and domain. The network term binds, as Appendix A of the
    paper postulates, if and only if C_F/C_S >= y*(x-1)/(y-1). The two fabrics are equal if
    C_S/C_F <= x*(y-1)/(x-1), so whenever C_F >= C_S. If x or y is 1, the other tier stands alone.

    Parameters
    ----------
    data_bytes, hb_size, hb_count, hb_bytes_per_s, network_bytes_per_s, fabric
        As of :func:`all_gather_bound_s`.

    Returns
    -------
    LowerBound
        The terms by name; the largest is the bound [s].

    Raises
    ------
    InputError
        If a number is out of range, or the fabric is unknown.

    References
    ----------
    Wang et al., arXiv:2307.12169, Appendix A; Zhao and Krishnamurthy, arXiv:2305.18461.

    Examples
    --------
    >>> print(all_gather_bound(1e9, 8, 8, 450e9, 50e9))
    0.0021875 s, bound by network (network 0.0021875 s, joint 0.00196875 s, domain 0.000243056 s)
    """
    check_choice("fabric", fabric, get_args(Fabric))
    check_number("data_bytes", data_bytes)
    _tiers(hb_size, hb_count, hb_bytes_per_s, network_bytes_per_s)
    x, y, shard_bytes = hb_size, hb_count, data_bytes / (hb_size * hb_count)
    network = ("network", (y - 1) * shard_bytes / network_bytes_per_s)
    joint = ("joint", (x * y - 1) * shard_bytes / (hb_bytes_per_s + network_bytes_per_s))
    domain = ("domain", (x - 1) * shard_bytes / hb_bytes_per_s)
    if x == 1:
        return LowerBound((network,))
    if y == 1:
        return LowerBound((domain,))
    return LowerBound((network, joint, domain) if fabric == "rail-only" else (network, joint))


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
    (the text of the paper says x*D); a rail-optimized fabric has full bisection between all GPUs.
    Where the network binds Eq. 20, rail-only takes longer by ``y*(x-1)*C_S / (x*(y-1)*C_F)``; Eq.
    22 of the paper prints that ratio inverted, the abstract of its version 5 (8.2 to 11.2 %) agrees
    with the form used here.

    Parameters
    ----------
    pair_bytes
        Bytes D from one GPU to each other GPU, in all x*y times less than the message of
        `netplan.traffic.hierarchy` [B].
    hb_size, hb_count, hb_bytes_per_s, network_bytes_per_s
        The two tiers, x, y, C_F and C_S.
    fabric
        ``rail-only`` or ``rail-optimized``.

    Returns
    -------
    Amount
        Time, a float or an array as the inputs broadcast [s].

    Raises
    ------
    InputError
        If a number is out of range, or the fabric is unknown.

    References
    ----------
    Wang et al., arXiv:2307.12169, Eq. 20 to 22.

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
    data_bytes = as_amount(np.multiply(pair_bytes, np.multiply(hb_size, hb_count)))
    if fabric == "rail-only":
        return collective_s("all_to_all", [domain, network], data_bytes=data_bytes)
    # The network reaches every GPU of the other domains: the domain keeps its own pairs.
    own_bytes = as_amount(np.multiply(pair_bytes, hb_size))
    domain_s = collective_s("all_to_all", [domain], data_bytes=own_bytes)
    return as_amount(
        np.maximum(domain_s, collective_s("all_to_all", [network], data_bytes=data_bytes))
    )


def hb_bandwidth_ratio(hb_size: Counts, hb_count: Counts, chunks: Counts = 1) -> Amount:
    """Ratio C_F/C_S at which an all_reduce takes least, if C_F + C_S is given [1].

    A hierarchical all_reduce in c chunks takes max(a, e + a/c) with a in the domains and e between
    them, least at

    ::

        C_F/C_S = max( R*(1-1/c), sqrt(R/c) ),   R = y*(x-1)/(y-1)

    Parameters
    ----------
    hb_size, hb_count
        GPUs of a domain and domains, x and y, both at least 2.
    chunks
        Equal parts of the message, c [1].

    Returns
    -------
    Amount
        Ratio, a float or an array as the inputs broadcast [1].

    Raises
    ------
    InputError
        If a number is out of range, or there is a single domain, or a single GPU in it: all
        bandwidth belongs to one tier then.

    References
    ----------
    Kadiyala et al., COMET (arXiv:2211.16648), Sec. V-B4 and Fig. 12, for x = y = 8 and c = 4.

    Examples
    --------
    >>> hb_bandwidth_ratio(8, 8, chunks=4), round(hb_bandwidth_ratio(8, 8), 2)
    (6.0, 2.83)
    """
    check_number("hb_size", hb_size, minimum=2, whole=True)
    check_number("hb_count", hb_count, minimum=2, whole=True)
    check_number("chunks", chunks, minimum=1, whole=True)
    x, y, c = (np.asarray(number, np.float64) for number in (hb_size, hb_count, chunks))
    least = y * (x - 1) / (y - 1)
    return as_amount(np.maximum(least * (1 - 1 / c), np.sqrt(least / c)))


def _tiers(
    hb_size: Counts,
    hb_count: Counts,
    hb_bytes_per_s: Amount,
    network_bytes_per_s: Amount,
    latency_s: Amount = 0.0,
) -> tuple[LevelArrays, LevelArrays]:
    """HB domain and network as two switches, if they can be."""
    check_number("hb_size", hb_size, minimum=1, whole=True)
    check_number("hb_count", hb_count, minimum=1, whole=True)
    check_number("hb_bytes_per_s", hb_bytes_per_s, minimum=None)
    check_number("network_bytes_per_s", network_bytes_per_s, minimum=None)
    return (
        LevelArrays("switch", hb_size, hb_bytes_per_s, step_latency_s=latency_s),
        LevelArrays("switch", hb_count, network_bytes_per_s, step_latency_s=latency_s),
    )

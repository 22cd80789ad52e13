"""Time of one collective, or of one message, on several levels.

Levels 1..k run from the inside to the outside and hold n_1, ..., n_k GPUs; N is their product. The
message is cut into c equal chunks, and a level serves one chunk at a time, so every chunk pays all
latencies: more chunks are not always faster. With D and the time of one level as in `algorithms`:

``per_dimension``
    The collective runs through the levels one after the other, an all_gather from k to 1, the
    others from 1 to k. Level i works on D/(c*n_1*...*n_{i-1}) bytes in a reduce_scatter or an
    all_gather and on D/c in an all_reduce or an all_to_all. Chunks follow like work pieces
    through machines: T = sum_i t_i + (c-1) * max_i t_i.
``hierarchical``
    An all_reduce as reduce_scatter 1..k and all_gather k..1: level i works on
    D/(c*n_1*...*n_{i-1}) bytes, so that the slow outer levels carry little. With t_i for both
    phases of one chunk, T = max(c*t_1, max_{i>=2}(c*t_i + t_1 + ... + t_{i-1})). Any order of
    service takes at least this long. First come first served takes exactly this long on two
    levels if the outer one finishes a chunk in one go (else up to 6 % longer in simulations), and
    up to 20 % longer on three or four. The other three collectives are as in per_dimension.

Sources: ASTRA-sim 2.0 (Won et al. 2023), whose analytical backends give these times; COMET
(arXiv:2211.16648), Sec. V-B4 for the hierarchical all_reduce. Left out: unequal chunks, several
chunks in service at a level, contention with other collectives.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netplan.arrays import Amount, Counts
from netplan.errors import InputError
from netplan.levels import LINKS_PER_STEP
from netplan.traffic.algorithms import (
    AnyLevel,
    AnyMethod,
    Collective,
    Forwarding,
    Method,
    check_choice,
    check_number,
    level_time_s,
    plain,
)

Schedule = Literal["hierarchical", "per_dimension"]


def per_dimension_s(times_s: NDArray[np.float64], chunks: Counts = 1) -> Amount:
    """Time of `chunks` chunks that follow each other through all levels [s].

    Parameters
    ----------
    times_s
        Time of one chunk in each level, shape (levels, ...) [s].
    chunks
        Chunks of the message, a number or an array that broadcasts with one row of `times_s` [1].

    Returns
    -------
    float or array
        sum_i t_i + (c-1) * max_i t_i [s].

    Examples
    --------
    >>> per_dimension_s(np.array([1.0, 2.0]), 3)
    7.0
    """
    return plain(times_s.sum(axis=0) + (np.asarray(chunks) - 1) * times_s.max(axis=0))


def hierarchical_s(times_s: NDArray[np.float64], chunks: Counts = 1) -> Amount:
    """Time of `chunks` chunks that climb all levels and come back, in an all_reduce [s].

    Parameters
    ----------
    times_s
        Time of one chunk in each level, both phases, shape (levels, ...) [s].
    chunks
        Chunks of the message, a number or an array that broadcasts with one row of `times_s` [1].

    Returns
    -------
    float or array
        max_i (c*t_i + t_1 + ... + t_{i-1}) [s].

    Examples
    --------
    >>> hierarchical_s(np.array([1.0, 2.0]), 3)
    7.0
    >>> hierarchical_s(np.array([2.0, 1.0]), 3)
    6.0
    """
    below_s = np.cumsum(times_s, axis=0) - times_s
    return plain((np.asarray(chunks) * times_s + below_s).max(axis=0))


def chunk_times_s(
    collective: Collective,
    levels: Sequence[AnyLevel],
    *,
    data_bytes: Amount,
    algorithm: AnyMethod | Sequence[AnyMethod] = None,
    schedule: Schedule = "hierarchical",
) -> NDArray[np.float64]:
    """Time of one chunk in each level: the largest one names the bottleneck.

    Parameters
    ----------
    collective, levels, algorithm, schedule
        As in `collective_s`.
    data_bytes
        Message D of the one chunk [B].

    Returns
    -------
    array
        Shape (levels, ...): both phases of an all_reduce together [s].

    Raises
    ------
    InputError
        As in `collective_s`.

    Examples
    --------
    >>> from netplan.levels import Level
    >>> domain, network = Level("switch", 8, 450e9), Level("switch", 8, 50e9)
    >>> chunk_times_s("all_gather", [domain, network], data_bytes=1e9)
    array([0.00194444, 0.0021875 ])
    """
    check_choice("schedule", schedule, get_args(Schedule))
    shrinks = collective in ("all_gather", "reduce_scatter") or (
        collective == "all_reduce" and schedule == "hierarchical"
    )
    share: Amount = 1.0
    times: list[Amount] = []
    for level, method in zip(levels, _methods(levels, algorithm), strict=True):
        chunk_bytes = plain(np.multiply(data_bytes, share))
        times.append(level_time_s(collective, level, data_bytes=chunk_bytes, algorithm=method))
        if shrinks:
            share = plain(np.divide(share, level.size))
    return np.stack(np.broadcast_arrays(*times))


def collective_s(
    collective: Collective,
    levels: Sequence[AnyLevel],
    *,
    data_bytes: Amount,
    algorithm: AnyMethod | Sequence[AnyMethod] = None,
    chunks: Counts = 1,
    schedule: Schedule = "hierarchical",
) -> Amount:
    """Time of one collective on a product of levels (formulas of this module) [s].

    Parameters
    ----------
    collective
        ``all_gather``, ``reduce_scatter``, ``all_reduce`` or ``all_to_all``.
    levels
        Levels from the inside to the outside; those of size 1 cost nothing.
    data_bytes
        Full message D: the gathered result of an all_gather, else the input of one GPU [B].
    algorithm
        A name, a `Method` or None (the default of each level's kind); a sequence of them gives
        each level its own.
    chunks
        Equal parts that the message is cut into [1].
    schedule
        ``hierarchical`` or ``per_dimension``; they differ in the all_reduce only.

    Returns
    -------
    float or array
        Time of the collective, of the shape that all numbers of all levels broadcast to [s].

    Raises
    ------
    InputError
        If there is no level, or a name, a number or an algorithm for its level is not allowed.

    Examples
    --------
    >>> from netplan.levels import Level
    >>> domain, network = Level("switch", 8, 450e9), Level("switch", 8, 50e9)
    >>> collective_s("all_gather", [domain, network], data_bytes=1e9)
    0.0041319
    >>> collective_s("all_gather", [domain, network], data_bytes=1e9, chunks=4)
    0.0026736
    """
    check_number("data_bytes", data_bytes)
    check_number("chunks", chunks, minimum=1, whole=True)
    times_s = chunk_times_s(
        collective,
        levels,
        data_bytes=plain(np.divide(data_bytes, chunks)),
        algorithm=algorithm,
        schedule=schedule,
    )
    if collective == "all_reduce" and schedule == "hierarchical":
        return hierarchical_s(times_s, chunks)
    return per_dimension_s(times_s, chunks)


def point_to_point_s(
    level: AnyLevel,
    *,
    data_bytes: Amount,
    links: Counts | None = None,
    forwarding: Forwarding = "cut_through",
) -> Amount:
    """Time of one message of D bytes over H links: H*L + d + D/B [s].

    With ``store_and_forward`` every link waits for the whole message: H*(L + D/B) + d.

    Parameters
    ----------
    level
        Gives bandwidth and latencies; its size does not matter.
    data_bytes
        Bytes of the message D [B].
    links
        Links H on the way [1], 0 within one GPU; None takes neighbours: 2 on a switch, else 1.
    forwarding
        ``cut_through`` or ``store_and_forward``.

    Raises
    ------
    InputError
        If a number or name is not allowed.

    Examples
    --------
    >>> from netplan.levels import Level
    >>> torus = Level("ring", 8, 50e9, link_latency_s=1e-6)
    >>> point_to_point_s(torus, data_bytes=1e6, links=torus_links([0, 0], [3, 7], [8, 8]))
    2.4e-05
    """
    check_choice("forwarding", forwarding, get_args(Forwarding))
    check_number("data_bytes", data_bytes)
    hops = np.asarray(LINKS_PER_STEP[level.kind] if links is None else links, dtype=np.float64)
    check_number("links", hops, whole=True)
    sends = hops if forwarding == "store_and_forward" else np.minimum(hops, 1)
    delay_s = np.minimum(hops, 1) * level.step_latency_s
    wire_s = sends * data_bytes / level.link_bytes_per_s
    return plain(hops * level.link_latency_s + delay_s + wire_s)


def torus_links(source: ArrayLike, target: ArrayLike, sizes: ArrayLike) -> Counts:
    """Links on the shortest way through a torus: sum of min(abs(i-j), n - abs(i-j)) [1].

    Parameters
    ----------
    source, target
        Coordinates, shape (..., dimensions) [1].
    sizes
        GPUs of each ring, shape (dimensions,) [1].

    Raises
    ------
    InputError
        If a coordinate lies outside its ring.

    Examples
    --------
    >>> torus_links([0, 0, 0], [3, 1, 2], [4, 4, 4])
    4
    """
    here, there, n = np.asarray(source), np.asarray(target), np.asarray(sizes)
    check_number("sizes", n, minimum=1, whole=True)
    for name, point in (("source", here), ("target", there)):
        check_number(name, point, whole=True)
        if np.any(point >= n):
            raise InputError(f"{name}: got {point.tolist()}, use coordinates below {n.tolist()}")
    apart = np.abs(here - there)
    links = np.minimum(apart, n - apart).sum(axis=-1)
    return int(links) if links.ndim == 0 else links


def _methods(
    levels: Sequence[AnyLevel], algorithm: AnyMethod | Sequence[AnyMethod]
) -> Sequence[AnyMethod]:
    """Give each level its method."""
    if not levels:
        raise InputError("a collective needs at least one level, got none: give a Level")
    if algorithm is None or isinstance(algorithm, str | Method):
        return [algorithm] * len(levels)
    if len(algorithm) != len(levels):
        raise InputError(
            f"got {len(algorithm)} algorithms for {len(levels)} levels: give one, or one per level"
        )
    return algorithm

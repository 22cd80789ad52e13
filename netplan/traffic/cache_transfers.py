"""Caches of prompts on their way from the servers that take prompts to those that decode.

A request is at home on one copy of attention, tensor GPUs of every stage. Homes of either pool lie
in a row, and hand on to those in their place in the other one, as do stages with their layers and
tensor GPUs with their heads: n parts and m parts of the same whole meet where they overlap. What a
GPU that decodes stores reaches it once, also where several store the same.
"""

import numpy as np

from netplan.arrays import Floats, Indices, Ints
from netplan.traffic.matrix import TrafficMatrix, flows_matrix
from netplan.traffic.placement import Placement


def overlaps(parts: int, others: int) -> tuple[Ints, Ints, Floats]:
    """Where equal parts of a whole meet equal parts of another cut, and the share of the whole.

    Examples
    --------
    >>> [one.tolist() for one in overlaps(2, 4)]
    [[0, 0, 1, 1], [0, 1, 2, 3], [0.25, 0.25, 0.25, 0.25]]
    """
    cuts = np.union1d(np.arange(parts) * others, np.arange(others) * parts)
    lengths = np.diff(np.append(cuts, parts * others))
    return cuts // others, cuts // parts, lengths / (parts * others)


def homes(placement: Placement) -> Indices:
    """GPUs of every copy of attention, in order, shape (homes, stages, tensor)."""
    totals = placement.totals
    shape = (totals.data, totals.pipeline, totals.expert, totals.tensor)
    gpus = placement.gpu_of_rank[placement.groups("tensor")].reshape(shape)
    return gpus.swapaxes(1, 2).reshape(-1, totals.pipeline, totals.tensor)


def cache_traffic(
    prefill: Placement, decode: Placement, *, stored_bytes: float, gpus: int
) -> TrafficMatrix:
    """Traffic of caches between two pools.

    Parameters
    ----------
    prefill, decode
        Where both pools stand.
    stored_bytes
        What one GPU of a stage that had all layers would store of all requests, were they all of
        one home of ``decode`` [B].
    gpus
        GPUs of the cluster [1].

    Examples
    --------
    A server of two GPUs hands its heads to one of four, 1 GB to each of them.

    >>> from netplan.traffic.placement import Degrees
    >>> one = Placement((Degrees(tensor=2),), (2,))
    >>> other = Placement((Degrees(tensor=4),), (4,), first=2)
    >>> matrix = cache_traffic(one, other, stored_bytes=1e9, gpus=6)
    >>> list(zip(matrix.source.tolist(), matrix.destination.tolist(), matrix.flow_bytes.tolist()))
    [(0, 2, 1000000000.0), (0, 3, 1000000000.0), (1, 4, 1000000000.0), (1, 5, 1000000000.0)]
    """
    here, there = homes(prefill), homes(decode)
    pairs = [overlaps(one, other) for one, other in zip(here.shape, there.shape, strict=True)]
    sources, targets, shares = ([pair[part] for pair in pairs] for part in range(3))
    home, stage, heads = np.ix_(*shares)
    return flows_matrix(
        gpus,
        source=here[np.ix_(*sources)].ravel(),
        destination=there[np.ix_(*targets)].ravel(),
        flow_bytes=(stored_bytes * there.shape[2] * home * stage * heads).ravel(),
        kind="cache",
    )

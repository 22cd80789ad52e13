"""Which GPUs of a cluster each pool has: one pool after the other, on whole HB domains.

Pools come in the order in which they are given: the servers first, behind them the trainer. What of
a pool fills no domain shares one with what is left of another pool, where that has room; else it
has a domain of its own. Only where no domain has room for it does it lie in several.
"""

from collections.abc import Sequence

import numpy as np

from netplan.arrays import Ints
from netplan.errors import InputError


def pool_gpus(sizes: Sequence[int], gpus: int, domain: int) -> tuple[Ints, ...]:
    """GPUs of the cluster that each pool has, whole HB domains of it first.

    Parameters
    ----------
    sizes
        GPUs of every pool, in the order in which pools lie [1].
    gpus
        GPUs of the cluster, whose first HB domain begins with GPU 0 [1].
    domain
        GPUs of an HB domain; the last one may have fewer [1].

    Returns
    -------
    tuple of Ints
        Number in the cluster of each GPU of a pool, shape (GPUs of the pool,) each.

    Raises
    ------
    InputError
        If pools have more GPUs than the cluster.

    Examples
    --------
    >>> [pool.tolist() for pool in pool_gpus((4, 8), 12, domain=4)]
    [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9, 10, 11]]

    What is left of both pools shares the second domain:

    >>> [pool.tolist() for pool in pool_gpus((6, 6), 12, domain=4)]
    [[0, 1, 2, 3, 4, 5], [8, 9, 10, 11, 6, 7]]
    """
    if sum(sizes) > gpus:
        raise InputError(
            f"pools of {', '.join(f'{size:,}' for size in sizes)} GPUs on {gpus:,}: give fewer"
        )
    whole = [size // domain for size in sizes]
    spare, next_domain = gpus // domain - sum(whole), 0
    rooms = {gpus // domain * domain: gpus % domain}  # free GPUs, by the first of them
    pools = []
    for size, domains in zip(sizes, whole, strict=True):
        first = next_domain * domain
        pieces = [np.arange(first, first + domains * domain)]
        next_domain += domains
        rest = size % domain
        if spare and not any(room >= rest for room in rooms.values()):
            rooms[next_domain * domain] = domain
            next_domain, spare = next_domain + 1, spare - 1
        pieces += _from(rooms, rest)
        pools.append(np.concatenate(pieces))
    return tuple(pools)


def _from(rooms: dict[int, int], rest: int) -> list[Ints]:
    """So many GPUs of those that are free: of the least room that has all, else of several."""
    pieces = []
    while rest:
        enough = [first for first, room in rooms.items() if room >= rest]
        first = min(enough or rooms, key=lambda first: rooms[first] if enough else first)
        room = rooms.pop(first)
        taken = min(room, rest)
        pieces.append(np.arange(first, first + taken))
        if room > taken:
            rooms[first + taken] = room - taken
        rest -= taken
    return pieces

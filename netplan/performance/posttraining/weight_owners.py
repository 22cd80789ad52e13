"""Which GPUs of a trainer send which weights, so that all of them send as much.

A trainer has d replicas of its weights, which go to C copies of servers. Replica (copy mod d) sends
to a copy where d divides C. Else replicas send in gcd(C, d) groups, each to every so-many-th copy,
and those of a group, which lie next to each other, share every range of it. Where each GPU of all
replicas has a part of its own (ZeRO 3), parts go by rank in HB domains, so that those of a domain
are for all rails.
"""

from math import gcd

import numpy as np

from netplan.performance.posttraining.placed_weights import PlacedCopies
from netplan.records import replace


def group_count(replicas: int, takers: int) -> int:
    """Groups of a trainer's replicas of which each sends to as many copies.

    Parameters
    ----------
    replicas, takers
        Replicas of the trainer, and copies that get weights [1].

    Examples
    --------
    >>> group_count(16, 4), group_count(2, 4), group_count(42, 256)
    (4, 2, 2)
    """
    return gcd(replicas, takers)


def grouped_owners(copies: PlacedCopies, groups: int) -> PlacedCopies:
    """Replicas in groups whose members share every range of the weights.

    Parameters
    ----------
    copies
        Replicas of the trainer.
    groups
        Groups, which divide them [1].

    Returns
    -------
    PlacedCopies
        A copy for each group. Experts stay on GPUs that have them.

    Examples
    --------
    >>> replicas = PlacedCopies(np.arange(8).reshape(4, 1, 1, 2), np.zeros(2, np.int64))
    >>> grouped_owners(replicas, 2).by_tensor.tolist()
    [[[0, 2, 1, 3]], [[4, 6, 5, 7]]]
    """
    replicas, stages, parts, tensor = copies.gpus.shape
    together = replicas // groups
    shape = (groups, together, stages, parts, tensor)
    gpus = copies.gpus.reshape(shape).transpose(0, 2, 3, 1, 4)
    return replace(copies, gpus=gpus.reshape(groups, stages, parts * together, tensor))


def over_rails(copies: PlacedCopies, domain: int) -> PlacedCopies:
    """Parts in the order of their ranks in HB domains, so that each domain has some of all ranges.

    Parameters
    ----------
    copies
        Copies of which every GPU has a part of its own.
    domain
        GPUs of an HB domain [1].

    Examples
    --------
    >>> alone = PlacedCopies(np.arange(4).reshape(1, 1, 4, 1), np.zeros(1, np.int64))
    >>> over_rails(alone, 2).by_tensor.tolist()
    [[[0, 2, 1, 3]]]
    """
    first = copies.gpus[0, 0, :, 0]
    order = np.lexsort((first // domain, first % domain))
    return replace(copies, gpus=copies.gpus[:, :, order])

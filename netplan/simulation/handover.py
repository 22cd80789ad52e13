"""Hand-overs between pipeline stages through adapter tiles: Eq. 7 and 8 of PALM.

The tiles of a tensor group have partial sums of a layer's output, and each tile of the next group
needs the whole of it, n bytes. A few tiles of either group, the adapters, stand for their shares of
it, and only they talk to the other group:

==============  ====================================================================================
``source``      Eq. 7, T = T_SG_AR + T_Inter + T_DG_B: the source group sums up in all its tiles;
                each adapter sends n to its own of the destination, which hands it to its share
``adapters``    Eq. 8, T = T_SG_R + T_Inter + T_A_AR + T_DG_B: each adapter of the source sums up
                its share and sends n; the adapters of the destination sum up among each other in a
                ring, and hand it to their shares
==============  ====================================================================================

so that ``adapters`` leaves out the last all_reduce of the sending stage. The shares are even runs
of the group in its order, and an adapter is the first tile of its share. A tile sends to all of its
share, or takes from it, at once: what shares links waits. Backward, gradients take the same way
back, and the destination is the source.

Where stages differ in tensor degree, they differ in replicas, too: replica a of A has the sequences
from a/A to (a + 1)/A of a microbatch, and sends to each replica of the next stage what both have.

Source: Fang et al., PALM (arXiv:2406.03868), Sec. V-C, Fig. 11 and 12, which prints the terms;
their forms, the choice of the adapters and what differs between stages are netplan's own.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct

from netplan.traffic.patterns import overlaps

HandoverRule = Literal["ends", "source", "adapters"]
"""How stages hand over: two messages between their ends (the published code), Eq. 7, or Eq. 8."""

Group = Sequence[int]
"""Tiles of a tensor group, in their order."""


class SentBytes(NamedTuple):
    """What one tile sends another [B]."""

    sender: int
    receiver: int
    sent_bytes: float


TransferRound = tuple[SentBytes, ...]
"""Messages that are sent at once; the next step begins when the last has come."""


def ring_step(groups: Sequence[Group], size_bytes: float) -> TransferRound:
    """A piece of so many bytes from each member of some groups to the next, the last to the first.

    Examples
    --------
    >>> [tuple(sent) for sent in ring_step([[4, 5]], 8.0)]
    [(4, 5, 4.0), (5, 4, 4.0)]
    """
    return tuple(
        SentBytes(sender, following, size_bytes / len(group))
        for group in groups
        for sender, following in zip(group, [*group[1:], group[0]], strict=True)
    )


class Handover(Struct, frozen=True):
    """The terms of a hand-over, each of some steps, and the adapters of the receiving stage [1].

    ``reduce`` is that of the source in ``adapters``, ``between`` goes from group to group,
    ``all_reduce`` is among the adapters, ``broadcast`` inside the destination.
    """

    reduce: tuple[TransferRound, ...]
    between: tuple[TransferRound, ...]
    all_reduce: tuple[TransferRound, ...]
    broadcast: tuple[TransferRound, ...]
    adapters: int

    @property
    def steps(self) -> tuple[TransferRound, ...]:
        """All steps in their order."""
        return (*self.reduce, *self.between, *self.all_reduce, *self.broadcast)


def hand_over(
    senders: Sequence[Group],
    receivers: Sequence[Group],
    microbatch_bytes: float,
    *,
    adapters: int,
    at_source: bool,
) -> Handover:
    """Who sends what from one stage to the next.

    Parameters
    ----------
    senders, receivers
        Tensor groups of both stages, a group a replica.
    microbatch_bytes
        Output of a layer for one microbatch of all replicas [B].
    adapters
        Adapter tiles of each group; no more than it has tiles [1].
    at_source
        Whether the source sums up in all of its tiles before (Eq. 7), or only in its adapters.

    Returns
    -------
    Handover
        Its steps.

    Examples
    --------
    Four tiles to four, two adapters each. Each adapter takes the 8 bytes of its neighbour, sends 8,
    and hands 8 on; the two of the destination sum up in two steps of half as much.

    >>> both = hand_over([[0, 1, 2, 3]], [[4, 5, 6, 7]], 8.0, adapters=2, at_source=False)
    >>> [tuple(sent) for sent in both.reduce[0]], [tuple(sent) for sent in both.between[0]]
    ([(1, 0, 8.0), (3, 2, 8.0)], [(0, 4, 8.0), (2, 6, 8.0)])
    >>> [tuple(sent) for sent in both.broadcast[0]], both.all_reduce[0], len(both.all_reduce)
    ([(4, 5, 8.0), (6, 7, 8.0)], (SentBytes(sender=4, receiver=6, sent_bytes=4.0), \
SentBytes(sender=6, receiver=4, sent_bytes=4.0)), 2)
    """
    count = min(adapters, *(len(group) for group in (*senders, *receivers)))
    source, destination = (
        [_shares(group, count) for group in groups] for groups in (senders, receivers)
    )
    source_bytes, received_bytes = (
        microbatch_bytes / len(senders),
        microbatch_bytes / len(receivers),
    )
    reduce: TransferRound = ()
    ring: tuple[TransferRound, ...] = ()
    if not at_source:
        reduce = tuple(
            SentBytes(tile, share[0], source_bytes)
            for shares in source
            for share in shares
            for tile in share[1:]
        )
        firsts = [[share[0] for share in shares] for shares in destination]
        ring = (ring_step(firsts, received_bytes),) * (2 * (count - 1))
    shared = zip(*(part.tolist() for part in overlaps(len(senders), len(receivers))), strict=True)
    between = tuple(
        SentBytes(sender[0], receiver[0], share * microbatch_bytes)
        for first, second, share in shared
        for sender, receiver in zip(source[first], destination[second], strict=True)
    )
    broadcast = tuple(
        SentBytes(share[0], tile, received_bytes)
        for shares in destination
        for share in shares
        for tile in share[1:]
    )
    steps = ((step,) if step else () for step in (reduce, between, broadcast))
    reduces, sent, broadcasts = steps
    return Handover(reduces, sent, ring, broadcasts, count * len(receivers))


def _shares(group: Group, count: int) -> list[list[int]]:
    """Even runs of a group, the longer ones first."""
    return [part.tolist() for part in np.array_split(np.asarray(group), count)]

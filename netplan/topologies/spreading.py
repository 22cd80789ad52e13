"""What links between switches carry when every switch sends to all others.

So traffic flows that is spread over all switches: an all_to_all, and either half of detours, on
which a message goes to a switch drawn from all of them, and from there where it is bound (Valiant
and Brebner, STOC 1981).
Messages take shortest paths, and split evenly at every hop over the links that lead nearer.

The work goes from many destinations outwards at once: a hop a round, until all switches are found;
then the traffic comes back in, from the farthest ones, meeting and splitting on its way.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct
from scipy.sparse import coo_array

from netplan.arrays import AnyInts, Floats

CELLS = 1 << 22
"""Links times destinations that are worked on at once [1]."""


class Spread(Struct, frozen=True, eq=False):
    """Traffic among all switches of each part: a sends ``sent[a] + received[b]`` to every other b.

    Parameters
    ----------
    part
        Part that each switch with hosts is in, shape (switches with hosts,).
    sent, received
        What it sends to each other one, and takes from each, shape (switches with hosts,) [B].
    """

    part: AnyInts
    sent: Floats
    received: Floats

    def to(self, targets: AnyInts) -> Floats:
        """What every switch sends to some of them, shape (switches with hosts, targets) [B]."""
        same = self.part[:, None] == self.part[None, targets]
        return np.where(same, self.sent[:, None] + self.received[None, targets], 0.0)


def spread_loads(
    switches: int, source: AnyInts, target: AnyInts, spreads: tuple[Spread, ...]
) -> Floats:
    """Load of every link [B], from source to target and back, shape (2, links).

    Parameters
    ----------
    switches
        Switches [1]; those with hosts are numbered first.
    source, target
        Ends of the links, shape (links,).
    spreads
        Traffic, which adds up.

    Examples
    --------
    A square: each switch sends 1 to both neighbours, and half of 1 to the one beyond each way.

    >>> ends = np.array([0, 1, 2, 3]), np.array([1, 2, 3, 0])
    >>> every = Spread(np.zeros(4, int), np.ones(4), np.zeros(4))
    >>> spread_loads(4, *ends, (every,))[0].tolist()
    [2.0, 2.0, 2.0, 2.0]
    """
    joined = coo_array((np.ones(len(source)), (source, target)), shape=(switches, switches))
    arcs = (joined + joined.T).tocsr()
    hosts, loads = len(spreads[0].part), np.zeros((2, len(source)))
    step = max(8, CELLS // max(1, len(source)))
    for first in range(0, hosts, step):
        targets = np.arange(first, min(first + step, hosts))
        coming = np.zeros((switches, len(targets)))
        for one in spreads:
            coming[:hosts] += one.to(targets)
        rounds = [*_rounds(arcs, targets)]
        for near, here in zip(rounds[-2::-1], rounds[:0:-1], strict=True):
            leading = arcs @ near
            each = np.divide(coming * here, leading, out=np.zeros_like(coming), where=leading > 0)
            for row, (tail, head) in enumerate(((source, target), (target, source))):
                loads[row] += np.einsum("ij,ij->i", each[tail], near[head])
            coming += near * (arcs @ each)
    return loads


def _rounds(arcs: coo_array, targets: AnyInts) -> Iterator[Floats]:
    """Switches that are 0, 1, 2 ... hops from each target: 1 there, shape (switches, targets)."""
    here = np.zeros((arcs.shape[0], len(targets)))
    here[targets, np.arange(len(targets))] = 1.0
    seen = here > 0
    while here.any():
        yield here
        here = ((arcs @ here > 0) & ~seen).astype(float)
        seen |= here > 0

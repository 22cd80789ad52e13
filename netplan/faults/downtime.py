"""What is down at each moment, and at which pace the job goes on meanwhile.

From a failure until its repair the job lacks what the failure took. So the number of HB domains
that are down is a step function of time: arrivals less departures. With s idle domains beside the
job's, n domains down leave max(n - s, 0) missing; the pace without them is a table, made by the
search for plans on what is left (:mod:`netplan.faults.effects`). A failure that leaves all GPUs
at work slows them until its repair, unless idle domains have taken over from all that is hit. Of
several such failures the worst counts, since a synchronous job is as slow as its slowest member.

Left out: restarts to take a repaired domain back, failures of idle domains, and two failures in
one domain, which count as two domains.
"""

from math import inf

import numpy as np
from msgspec import Struct, field

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError


class Effect(Struct, frozen=True):
    """What one failure takes from the job until its repair.

    Parameters
    ----------
    domains
        HB domains that it hits [1].
    whole
        Whether a domain loses more than one of its GPUs: its rest is no use then.
    all_gpus
        Whether the job goes on on all GPUs, those of the domains that are hit included.
    slowdown
        How much longer an iteration takes on what the failure left of the network [1]; infinite
        where the job cannot go on, unless idle domains replace those that are hit. Missing domains
        come on top.

    Examples
    --------
    A failed GPU takes its domain, a failed port makes its domain forward.

    >>> Effect(domains=1), Effect(domains=1, all_gpus=True, slowdown=0.0044)
    (Effect(domains=1, whole=False, all_gpus=False, slowdown=0.0),
     Effect(domains=1, whole=False, all_gpus=True, slowdown=0.0044))
    """

    domains: int = 0
    whole: bool = False
    all_gpus: bool = False
    slowdown: float = 0.0

    def __post_init__(self) -> None:
        """Refuse negative numbers.

        Raises
        ------
        InputError
            If a number is negative or none.
        """
        if self.domains < 0 or not self.slowdown >= 0:
            raise InputError(
                f"a failure that takes {self.domains:,} HB domains and slows by {self.slowdown:g}:"
                " give 0 or more of both"
            )

    @property
    def survived(self) -> "Effect":
        """Effect of such a failure that stops no job: the slowdown, where all GPUs go on."""
        return Effect(slowdown=self.slowdown) if self.all_gpus or not self.domains else Effect()

    @property
    def lasts(self) -> bool:
        """Whether anything is lost until the repair."""
        return bool(self.domains or self.slowdown)


class PaceTable(Struct, frozen=True, eq=False):
    """At which pace a job goes on, by the HB domains that are down.

    Parameters
    ----------
    idle_domains
        Idle HB domains beside the job's, which take over [1].
    wait
        Whether the job waits while more domains are down than stand by.
    missing, factor
        Iteration time over that of the whole job while so many domains are missing, shapes
        (steps,) and (2, steps) [1]: where each has lost one GPU, and where some lost more. Both
        rise. Between two steps the larger counts, beyond the last the job waits.
    """

    idle_domains: int = 0
    wait: bool = False
    missing: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    factor: Floats = field(default_factory=lambda: np.ones((2, 1)))

    def without(self, down: Ints, whole: Ints) -> Floats:
        """Iteration time over that of the whole job, by domains down and those lost whole [1].

        Examples
        --------
        >>> pace = PaceTable(1, False, np.array([0, 1, 4]), np.array([[1, 1.1, 1.2], [1, 1.5, 2]]))
        >>> pace.without(np.array([1, 2, 3, 3, 9]), np.array([1, 0, 1, 2, 0])).tolist()
        [1.0, 1.1, 1.2, 2.0, inf]
        """
        most = int(self.missing[-1])
        step = np.searchsorted(self.missing, np.arange(most + 1))
        table = np.append(self.factor[:, step], [[inf], [inf]], axis=1)
        missing = np.minimum(np.maximum(down - self.idle_domains, 0), most + 1)
        found: Floats = table.ravel()[missing + (whole > self.idle_domains) * (most + 2)]
        return found


class EffectArrays(Struct, frozen=True, eq=False):
    """Effects of some kinds of failures, as arrays.

    Parameters
    ----------
    domains
        HB domains taken, those of them lost whole, and those only hit, shape (kinds, 3) [1].
    level
        Place of each kind's slowdown in ``slowdowns``, -1 without one, shape (kinds,).
    slowdowns
        Slowdowns that occur, rising, and whether idle domains spare the job each [1].
    """

    domains: Ints
    level: Ints
    slowdowns: tuple[tuple[float, bool], ...]

    @classmethod
    def of(cls, effects: list[Effect]) -> "EffectArrays":
        """Arrays of effects, one a kind.

        Examples
        --------
        >>> kinds = [Effect(1), Effect(2, whole=True), Effect(3, all_gpus=True), Effect()]
        >>> EffectArrays.of(kinds).domains.tolist()
        [[1, 0, 0], [2, 2, 0], [0, 0, 3], [0, 0, 0]]
        """
        keys = [(one.slowdown, one.all_gpus and one.domains > 0) for one in effects]
        found = sorted({key for key in keys if key[0]})
        domains = [
            (0, 0, one.domains) if one.all_gpus else (one.domains, one.whole * one.domains, 0)
            for one in effects
        ]
        return cls(
            np.array(domains, np.int64).reshape(len(effects), 3),
            np.array([found.index(key) if key in found else -1 for key in keys], np.int64),
            tuple(found),
        )

    @property
    def lasting(self) -> Bools:
        """Whether a kind takes or slows anything, shape (kinds,)."""
        return self.domains.any(axis=1) | (self.level >= 0)


class Spells(Struct, frozen=True, eq=False):
    """Spells of one pace: when each begins [h], and the time of its iterations [1], (spells,)."""

    begin_h: Floats
    factor: Floats

    def ready_h(self, moment_h: Floats) -> Floats:
        """When the job can run, at each moment: at once, or when the wait under way ends [h]."""
        waits = np.isinf(self.factor)
        if not waits.any():
            return moment_h
        ends = np.minimum.accumulate(np.where(waits, inf, self.begin_h)[::-1])[::-1]
        at = np.searchsorted(self.begin_h, moment_h, side="right") - 1
        ready: Floats = np.where(waits[at], ends[at], moment_h)
        return ready

    def cut(self, edge_h: Floats) -> "Spells":
        """The same spells, cut at some moments in order."""
        at = np.searchsorted(self.begin_h, edge_h, side="right")
        return Spells(
            np.insert(self.begin_h, at, edge_h), np.insert(self.factor, at, self.factor[at - 1])
        )


def spells(
    begin_h: Floats, end_h: Floats, kind: Ints, effects: EffectArrays, pace: PaceTable
) -> Spells:
    """Paces of a job from the first moment on, 0 h.

    Parameters
    ----------
    begin_h, end_h
        When each failure comes, and when it is repaired, shape (failures,) [h].
    kind
        Kind of each, shape (failures,).
    effects
        What each kind takes.
    pace
        How the job goes on.

    Examples
    --------
    A domain is down from 1 to 4 h, another from 2 to 3 h; one idle domain stands by.

    >>> found = spells(np.array([1.0, 2.0]), np.array([4.0, 3.0]), np.zeros(2, int),
    ...                EffectArrays.of([Effect(domains=1)]), PaceTable(idle_domains=1))
    >>> found.begin_h.tolist(), found.factor.tolist()
    ([0.0, 2.0, 3.0], [1.0, inf, 1.0])
    """
    count = len(kind)
    moment = np.concatenate([begin_h, end_h])
    order = np.argsort(moment, kind="stable")
    moment, failure = moment[order], np.tile(kind, 2)[order]
    sign = np.where(order < count, 1, -1)
    taken, whole, hit = _domains_down(effects.domains, failure, sign)
    full = taken + hit <= pace.idle_domains
    factor = pace.without(taken, whole)
    level, slowdown = effects.level[failure], np.zeros(2 * count)
    for number, (slower, spared) in enumerate(effects.slowdowns):
        active = _active(level == number, sign)
        slowdown[active & ~full if spared else active] = slower
    factor *= 1 + slowdown
    if pace.wait:
        factor[~full] = inf
    factor = np.concatenate([[1.0], factor])
    # Moments that change no pace would only cost time.
    changes = np.flatnonzero(factor[1:] != factor[:-1]) + 1
    kept = np.concatenate([[0], changes])
    return Spells(np.concatenate([[0.0], moment])[kept], factor[kept])


def _active(of_kind: Bools, sign: Ints) -> Bools:
    """Whether more failures of a kind have come than gone after each event, shape (events,).

    Only events of that kind are counted, and between two of them nothing changes.
    """
    at = np.flatnonzero(of_kind)
    more = np.concatenate([[False], np.cumsum(sign[at]) > 0])
    return np.repeat(more, np.diff(at, prepend=0, append=len(sign)))


BITS = 21
"""Three numbers below two million each share a whole number of 64 bits [bit]."""


def _domains_down(domains: Ints, failure: Ints, sign: Ints) -> tuple[Ints, Ints, Ints]:
    """Domains taken, taken whole, and hit after each event, in one sum: a third of the time.

    No sum is ever negative, so that none borrows from the next.
    """
    packed = domains @ (np.int64(1) << BITS * np.arange(3))
    sums = np.cumsum(packed[failure] * sign)
    mask = (1 << BITS) - 1
    return sums & mask, sums >> BITS & mask, sums >> 2 * BITS

r"""Seconds of a batch of answers on a pool of servers, which decode in rounds.

A round of b requests of a replica takes tau = a + c b + d C, C tokens in its caches. N answers are
dealt to R replicas, n = N / R each, of which S are decoded at once; X is the longest of all,
r = E[L^2] / (2 E[L]) the rest of an answer met on its way:

=========  ========================================================================================
one wave   n <= S: T = a X + (c + d (P + r)) H, the work of the replica that holds the longest,
           H = X + (n - 1) (N E[L] - X) / (N - 1). Exact for that replica, a lower bound for the
           slowest one
queue      n > S: T = a (n E[L] - S r) / S + a D + n (c E[L] + d (P E[L] + E[L^2] / 2)); the tail D
           drains S R answers met on their way, whose rest is longer than x with G(x):
           D = sum of 1 - (1 - G(x))^(S R)
stream     a new answer starts wherever one ends: T = n E[L] (a / S + c), no wave, no tail
=========  ========================================================================================

Turns of tools or environments are simulated (:func:`simulate_rollouts`): an answer gives its slot
up while it waits. Abort: more answers are started than are kept, and the short ones are
(:func:`over_sampled`).

Renewal theory (rest and equilibrium law): Cox, Renewal Theory, 1962, Ch. 5; order statistics as in
`netplan.performance.posttraining.lengths`.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import chain
from math import ceil
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike

from netplan.arrays import Floats, Ints
from netplan.errors import InputError
from netplan.performance.posttraining.lengths import Lengths

CHORD = 0.05
"""Share that a round between the two ends may be off a straight line [1]."""

QUANTILES = 2000
"""Parts that the kept answers are cut into for their mean [1]."""

SOON_S = 1e-12
"""What sums of times are off by [s]."""

SELDOM = 1e-6
"""Expected answers of a replica in a round from which on two of them are never counted [1]."""

ROWS = 4096
"""Rounds of which the requests that are left are weighed at once [1]."""


class RoundTime(Struct, frozen=True):
    """Time of a round of b requests with C tokens in its caches: a + c b + d C.

    Parameters
    ----------
    fixed_s, each_s
        Of every round, a, and of each request in it, c [s].
    cache_s
        Of each token in the caches, d [s].
    """

    fixed_s: float
    each_s: float
    cache_s: float = 0.0

    @classmethod
    def through(
        cls, requests: tuple[int, int], times_s: tuple[float, float], cache_s: float = 0.0
    ) -> "RoundTime":
        """The straight line through two rounds.

        Parameters
        ----------
        requests, times_s
            Requests of two rounds, and how long these take [1, s].
        cache_s
            Of each token in the caches, if their times do not hold it [s].

        Raises
        ------
        InputError
            If both have as many requests.

        Examples
        --------
        >>> line = RoundTime.through((1, 256), (10.78e-3, 32.85e-3))
        >>> round(1e3 * line.fixed_s, 2), round(1e6 * line.each_s, 1)
        (10.69, 86.5)
        """
        (few, many), (first_s, last_s) = requests, times_s
        if few == many:
            raise InputError(f"two rounds of {few:,} requests make no line: give two numbers")
        each_s = (last_s - first_s) / (many - few)
        return cls(first_s - few * each_s, each_s, cache_s)

    def slowed(self, slowdown: float) -> "RoundTime":
        """Rounds that take so many times as long.

        >>> RoundTime(0.01, 0.001).slowed(2.0)
        RoundTime(fixed_s=0.02, each_s=0.002, cache_s=0.0)
        """
        return RoundTime(slowdown * self.fixed_s, slowdown * self.each_s, slowdown * self.cache_s)

    def seconds(self, requests: ArrayLike) -> Floats:
        """Rounds of so many requests with empty caches, of any shape [s]."""
        return np.asarray(self.fixed_s + self.each_s * np.asarray(requests, dtype=np.float64))

    def bends(self, requests: int, time_s: float) -> bool:
        """Whether a round between the ends is so far off the line that a table has to be summed.

        >>> RoundTime(10e-3, 0.1e-3).bends(100, 21e-3)
        True
        """
        return bool(abs(time_s / float(self.seconds(requests)) - 1) > CHORD)


class Batch(Struct, frozen=True, kw_only=True):
    """Answers of a step on their pool.

    Parameters
    ----------
    answers, replicas, slots
        Answers of the whole pool, N; replicas that they are dealt to, R; requests that a replica
        decodes at once, S [1].
    prompt_tokens
        Of every answer's prompt, P [tokens].
    prefill_s
        Of a replica's prompts [s].

    Raises
    ------
    InputError
        If a count is below 1.
    """

    answers: int
    replicas: int = 1
    slots: int = 1
    prompt_tokens: float = 0.0
    prefill_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse pools of nothing."""
        if min(self.answers, self.replicas, self.slots) < 1:
            raise InputError(
                f"{self.answers:,} answers on {self.replicas:,} replicas of {self.slots:,} slots:"
                " give at least 1 of each"
            )

    @property
    def of_replica(self) -> float:
        """Answers of a replica, n [1]."""
        return self.answers / self.replicas


def rollout_seconds(lengths: Lengths, batch: Batch, rounds: RoundTime) -> float:
    """Expected seconds until the last answer of a batch (this module's table).

    Parameters
    ----------
    lengths, batch, rounds
        How long answers are, how many on which pool, and how long a round takes.

    Returns
    -------
    float
        Without environments and aborts [s].

    Examples
    --------
    >>> lengths = Lengths.lognormal(2000, 8000, cap=16384)
    >>> rounds = RoundTime(0.01, 0.00008)
    >>> wave, queue = (Batch(answers=512, replicas=8, slots=slots) for slots in (64, 16))
    >>> round(rollout_seconds(lengths, wave, rounds), 3)
    141.058
    >>> round(rollout_seconds(lengths, queue, rounds), 3)
    174.73
    """
    if batch.of_replica <= batch.slots:
        return batch.prefill_s + sum(_one_wave(lengths, batch, rounds))
    waiting_s = rounds.fixed_s * (batch.of_replica * lengths.mean / batch.slots - lengths.rest)
    return (
        batch.prefill_s
        + waiting_s
        + drain_seconds(lengths, batch, rounds)
        + token_s(lengths, batch, rounds) * batch.of_replica * lengths.mean
    )


def _one_wave(lengths: Lengths, batch: Batch, rounds: RoundTime) -> tuple[float, float]:
    """Rounds of the longest answer, and the work beside it of the replica that holds it [s]."""
    answers, last = batch.answers, float(lengths.longest(batch.answers))
    held = last
    if answers > 1:
        held += (batch.of_replica - 1) * (answers * lengths.mean - last) / (answers - 1)
    return rounds.fixed_s * last, token_s(lengths, batch, rounds) * held


def token_s(lengths: Lengths, batch: Batch, rounds: RoundTime) -> float:
    """Time that each token of an answer adds to its rounds [s]."""
    return rounds.each_s + rounds.cache_s * (batch.prompt_tokens + lengths.rest)


def drain_seconds(lengths: Lengths, batch: Batch, rounds: RoundTime) -> float:
    """Rounds, without their requests, of the tail in which no new answer starts [s].

    All rounds of a single wave, a X; of a queue those from the last start on, a D.

    Parameters
    ----------
    lengths, batch, rounds
        As of :func:`rollout_seconds`.

    Returns
    -------
    float
        What no further replica shortens [s].

    Examples
    --------
    >>> batch = Batch(answers=64, replicas=8, slots=8)
    >>> drain_seconds(Lengths.fixed(100), batch, RoundTime(0.01, 0.0))
    1.0
    """
    if batch.of_replica <= batch.slots:
        return _one_wave(lengths, batch, rounds)[0]
    gone = np.cumsum(lengths.alive) - lengths.alive
    still = np.clip((lengths.mean - gone) / lengths.mean, 0, 1)
    ended = (1 - still) ** (batch.slots * batch.replicas)
    return rounds.fixed_s * float((1 - ended).sum())


def rollout_seconds_of_table(lengths: Lengths, answers: int, times_s: ArrayLike) -> float:
    """Expected rounds of a replica in one wave, where their time is no straight line.

    Sum over the rounds k of E[tau(N_k)], N_k ~ Bin(n, alive(k)).

    Parameters
    ----------
    lengths
        How long answers are.
    answers
        Of the replica, n [1].
    times_s
        Round of 0 ... n requests, of which the first is none, shape (n + 1,) [s].

    Returns
    -------
    float
        [s].

    Raises
    ------
    InputError
        If there is not a time for each number of requests.

    Examples
    --------
    A straight line gives a E[longest of n] + c n E[L]:

    >>> lengths = Lengths.measured([1, 2, 3, 10])
    >>> times_s = np.concatenate([[0.0], 0.01 + 0.001 * np.arange(1, 5)])
    >>> expected = 0.01 * float(lengths.longest(4)) + 0.001 * 4 * lengths.mean
    >>> round(rollout_seconds_of_table(lengths, 4, times_s) - expected, 12)
    0.0
    """
    times = np.asarray(times_s, dtype=np.float64)
    if times.shape != (answers + 1,):
        raise InputError(
            f"{times.size:,} times of rounds for 0 to {answers:,} requests: give one of each"
        )
    from scipy.special import gammaln, xlog1py, xlogy  # noqa: PLC0415 - of tables alone

    left = np.arange(answers + 1)
    ways = gammaln(answers + 1) - gammaln(left + 1) - gammaln(answers - left + 1)
    total = 0.0
    for begin in range(0, lengths.cap, ROWS):
        alive = lengths.alive[begin : begin + ROWS, None]
        if answers * float(alive[0, 0]) < SELDOM:  # one answer at most is left, and seldom
            return total + float(times[1]) * answers * float(lengths.alive[begin:].sum())
        shares = np.exp(ways + xlogy(left, alive) + xlog1py(answers - left, -alive))
        total += float((shares @ times).sum())
    return total


def stream_seconds(
    lengths: Lengths, batch: Batch, rounds: RoundTime, in_flight: float | None = None
) -> float:
    """Seconds of a batch where a new answer starts wherever one ends [s].

    Parameters
    ----------
    lengths, batch, rounds
        As of :func:`rollout_seconds`.
    in_flight
        Answers that a replica decodes at once, in the mean of all; None where all slots are always
        full [1].

    Examples
    --------
    >>> lengths = Lengths.lognormal(2000, 8000, cap=16384)
    >>> batch = Batch(answers=512, replicas=8, slots=64)
    >>> round(stream_seconds(lengths, batch, RoundTime(0.01, 0.00008)), 4)
    30.2253
    """
    slots = batch.slots if in_flight is None else in_flight
    each_s = rounds.fixed_s / slots + token_s(lengths, batch, rounds)
    return batch.of_replica * lengths.mean * each_s


def over_sampled(lengths: Lengths, wanted: int, started: int) -> tuple[float, float, float]:
    """Rounds until the first answers of those that were started together are there.

    The kept ones are the short ones.

    Parameters
    ----------
    lengths
        How long answers are.
    wanted, started
        Answers that are kept, of so many [1].

    Returns
    -------
    tuple of float
        Those rounds [1], the mean of kept answers, and all of those thrown away [tokens].

    Raises
    ------
    InputError
        If fewer are started than wanted.

    Examples
    --------
    >>> over = over_sampled(Lengths.lognormal(2000, 8000, cap=16384), 256, 384)
    >>> [round(number) for number in over]
    [2112, 1180, 270379]
    """
    if not 1 <= wanted <= started:
        raise InputError(f"{started:,} answers are started for {wanted:,}: start as many or more")
    rounds = lengths.kth(wanted, started)
    made = started * float(lengths.tokens_until(rounds))
    shares = (np.arange(QUANTILES) + 0.5) / QUANTILES * (wanted / started)
    kept_mean = float(np.searchsorted(lengths.below, shares, side="left").mean())
    return rounds, kept_mean, max(0.0, made - wanted * kept_mean)


class Turns(Struct, frozen=True):
    """Turns of an answer, and seconds of the environment after each but the last."""

    count: int = 1
    environment_s: float = 0.0


ONE_TURN = Turns()


class Simulated(NamedTuple):
    """One seeded draw: ends of the replicas, shape (replicas,) [s]; tokens, and the longest.

    ``done_s`` are the ends of all answers, the first one first [s].
    """

    ends_s: tuple[float, ...]
    tokens: int
    longest: int
    done_s: tuple[float, ...] = ()

    @property
    def seconds(self) -> float:
        """End of the slowest replica [s]."""
        return max(self.ends_s)


def simulate_rollouts(
    lengths: Lengths,
    batch: Batch,
    rounds: RoundTime,
    *,
    turns: Turns = ONE_TURN,
    seed: int = 0,
    slowness: Sequence[float] = (),
) -> Simulated:
    """Draw the answers of a batch, and let all replicas decode them.

    Answers are dealt in turn and admitted in order. One of several turns gives its slot up while
    its environment works, and comes back before those that have not begun.

    Parameters
    ----------
    lengths, batch, rounds
        As of :func:`rollout_seconds`; caches cost nothing here.
    turns
        Of every answer.
    seed
        Of the draw.
    slowness
        Rounds of each replica over those of ``rounds``; all the same if empty [1].

    Returns
    -------
    Simulated
        The same for the same inputs.

    Raises
    ------
    InputError
        If there is less than one turn, or an environment takes less than no time.

    Examples
    --------
    >>> lengths = Lengths.lognormal(2000, 8000, cap=16384)
    >>> batch = Batch(answers=512, replicas=8, slots=64)
    >>> round(simulate_rollouts(lengths, batch, RoundTime(0.01, 0.00008)).seconds, 5)
    121.12144
    """
    if turns.count < 1 or turns.environment_s < 0:
        raise InputError(
            f"{turns.count:,} turns with {turns.environment_s:g} s after each: give 1 or more, and"
            " 0 s or more"
        )
    drawn = lengths.draw(np.random.default_rng(seed), batch.answers)
    ends = [
        _replica_ends_s(drawn[first :: batch.replicas], batch.slots, rounds.slowed(slowdown), turns)
        for first, slowdown in enumerate(slowness or [1.0] * batch.replicas)
    ]
    ends_s, done_s = zip(*ends, strict=True)
    return Simulated(ends_s, int(drawn.sum()), int(drawn.max()), tuple(sorted(chain(*done_s))))


def _replica_ends_s(
    lengths: Ints, slots: int, rounds: RoundTime, turns: Turns
) -> tuple[float, list[float]]:
    """End of a replica, and those of its answers in their order, from one event to the next [s].

    Who decodes stands in a heap by the round in which its turn ends, so that an event costs the
    logarithm of the slots.
    """
    # Rounds left of an answer, and rounds of a turn; who comes last is taken first.
    queue = [(left, -(-left // turns.count)) for left in reversed(lengths.tolist())]
    in_flight: list[tuple[int, int, int, int]] = []
    away: list[tuple[float, int, tuple[int, int]]] = []
    done_s: list[float] = []
    now_s, rounds_done, order = 0.0, 0, 0
    while queue or in_flight or away:
        # Those come back whose environment is done, and answers begin where slots are free.
        while away and away[0][0] <= now_s + SOON_S:
            queue.append(heappop(away)[2])
        while queue and len(in_flight) < slots:
            left, turn = queue.pop()
            order += 1
            heappush(in_flight, (rounds_done + min(left, turn), order, left, turn))
        if not in_flight:
            now_s = away[0][0]
            continue
        requests = len(in_flight)
        round_s = rounds.fixed_s + rounds.each_s * requests
        stride = in_flight[0][0] - rounds_done
        if away and requests < slots:
            stride = max(1, min(stride, ceil((away[0][0] - now_s) / round_s)))
        now_s += stride * round_s
        rounds_done += stride
        # Those go whose turn ends in this round, the first that began before the others.
        while in_flight and in_flight[0][0] == rounds_done:
            _, began, left, turn = heappop(in_flight)
            left -= min(left, turn)
            if left:
                heappush(away, (now_s + turns.environment_s, began, (left, turn)))
            else:
                done_s.append(now_s)
    return now_s, done_s

r"""Batches of answers whose lengths are drawn: when the last of each is there, one after another.

Where all answers of a replica are decoded at once, rounds between two ends are as long as the
answers that are left: the j-th shortest l_j of n ends at

    sum over i <= j of (l_i - l_(i-1)) tau(n - i + 1),

tau from a table of rounds where these are no straight line. Answers that wait for a slot, or for an
environment, go from event to event (:func:`netplan.performance.posttraining.rollouts.
simulate_rollouts`). Of a stream, whose slots are always full, what is drawn is its tokens. Of more
answers than are kept the first ones count, and the batch is there with the last of these.

Seeds of batches are seed x batches + number, so that those of two seeds have none in common.
"""

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.performance.posttraining.rollouts import Batch, RoundTime, simulate_rollouts
from netplan.performance.posttraining.step import DRAWS, Servers, StepWork

STEPS = 60
"""Steps of a run, of which `netplan.performance.posttraining.schedules` leaves 20 out [1]."""
MOST_DRAWN = 1 << 24
"""Lengths that are drawn at most, in a second or two [1]."""
EVENTS_COST = 64
"""What an answer that goes from event to event costs, over one in an array [1]."""


class DrawnRollouts(Struct, frozen=True, eq=False):
    """Batches that were drawn, and which of them each step of each run has.

    Parameters
    ----------
    seconds, stream_s
        Until the last answer that is kept, and the work of a batch where slots stay full, shape
        (batches,) [s].
    half_s
        Until half of the answers that are kept are there, shape (batches,) [s].
    longest, tokens
        Longest answer of each, and all of their tokens, shape (batches,) [tokens].
    batch
        Batch of each step, shape (steps, draws).
    """

    seconds: Floats
    stream_s: Floats
    half_s: Floats
    longest: Ints
    tokens: Ints
    batch: Ints

    @property
    def batches(self) -> int:
        """Batches that were drawn [1]."""
        return len(self.seconds)

    def percentile_s(self, share: float) -> float:
        """What so many per cent of the batches do not exceed until their last answer [s]."""
        return float(np.percentile(self.seconds, share, method="inverted_cdf"))


def draw_rollouts(
    work: StepWork,
    servers: Servers,
    *,
    seed: int = 0,
    table_s: Floats | None = None,
    slowness: Floats | None = None,
    runs: tuple[int, int] = (STEPS, DRAWS),
) -> DrawnRollouts:
    """Draw the batches of several runs of steps.

    Parameters
    ----------
    work, servers
        What is rolled out, and on what.
    seed
        Of all draws.
    table_s
        Rounds of 0 ... n requests of a replica, where no line is near, shape (n + 1,) [s].
    slowness
        Rounds of each replica over those of others, shape (replicas,); None of like ones [1].
    runs
        Steps of a run, and runs [1].

    Returns
    -------
    DrawnRollouts
        The same for the same inputs. Runs of very many answers take their batches at random from
        fewer that were drawn.

    Examples
    --------
    >>> from netplan.performance.posttraining.lengths import Lengths
    >>> from netplan.performance.posttraining.rollouts import RoundTime
    >>> work = StepWork(lengths=Lengths.fixed(100), prompts=8, group=4)
    >>> drawn = draw_rollouts(work, Servers(4, 8, RoundTime(0.01, 0.001)), runs=(2, 1))
    >>> drawn.seconds.round(9).tolist(), drawn.batch.shape
    ([1.8, 1.8], (2, 1))
    """
    steps, draws = runs
    slowness = np.ones(servers.replicas) if slowness is None else slowness
    waits = work.turns.count > 1 and work.turns.environment_s > 0
    events = waits or -(-work.started // servers.replicas) > servers.slots
    cost = work.started * (EVENTS_COST if events else 1)
    batches = min(steps * draws, max(draws, MOST_DRAWN // cost))
    rows = [
        _drawn(
            work, servers, seed * batches + number, slowness, None if events else table_s, events
        )
        for number in range(batches)
    ]
    ends, half, tokens, longest = (np.array(column) for column in zip(*rows, strict=True))
    prefill_s = work.taken / servers.replicas * servers.prompt_s
    line, busy = servers.streamed or servers.rounds, servers.busy(work, ahead=work.staleness)
    stream_s = prefill_s + _full_slots_s(tokens, slowness, line, busy)
    seconds = prefill_s + ends
    if work.partial and work.started > work.answers:  # slots stay full from one step to the next
        seconds = prefill_s + _full_slots_s(tokens, slowness, servers.rounds, servers.busy(work))
    if batches == steps * draws:
        batch = np.arange(batches).reshape(draws, steps).T
    else:
        batch = np.random.default_rng(seed).integers(batches, size=(draws, steps)).T
    return DrawnRollouts(
        seconds, stream_s, prefill_s + half, longest.astype(int), tokens.astype(int), batch
    )


def _drawn(
    work: StepWork,
    servers: Servers,
    seed: int,
    slowness: Floats,
    table_s: Floats | None,
    events: bool,  # noqa: FBT001 - of its caller
) -> tuple[float, float, int, int]:
    """End of the last kept answer, of half of them, tokens of as many, and the longest."""
    replicas, started = servers.replicas, work.started
    drawn = work.lengths.draw(np.random.default_rng(seed), started)
    if events:
        batch = Batch(answers=started, replicas=replicas, slots=servers.slots)
        done_s = np.array(
            simulate_rollouts(
                work.lengths,
                batch,
                servers.rounds,
                turns=work.turns,
                seed=seed,
                slowness=slowness.tolist(),
            ).done_s
        )
    else:
        done_s = np.sort(wave_ends(drawn, servers, table_s, slowness))
    kept = work.answers
    # Of more than are kept a stream makes as many tokens as these have in the mean.
    tokens = int(drawn.sum()) * kept // started
    return float(done_s[kept - 1]), float(done_s[(kept - 1) // 2]), tokens, int(drawn.max())


def wave_ends(
    drawn: Ints, servers: Servers, table_s: Floats | None = None, slowness: Floats | None = None
) -> Floats:
    """Ends of answers that replicas decode at once, dealt to them in turn (this module's formula).

    Parameters
    ----------
    drawn
        Their lengths, shape (answers,) [tokens].
    servers
        Replicas, each with room for its answers.
    table_s, slowness
        As of :func:`draw_rollouts`.

    Returns
    -------
    ndarray
        Shape (answers,), replica by replica [s].

    Examples
    --------
    One replica has 1 and 3 tokens: a round of two, and two of one.

    >>> from netplan.performance.posttraining.rollouts import RoundTime
    >>> wave_ends(np.array([3, 1]), Servers(1, 2, RoundTime(1.0, 0.5)))
    array([2., 5.])
    """
    replicas = servers.replicas
    held = -(-len(drawn) // replicas)
    dealt = np.zeros(replicas * held, np.int64)
    dealt[: len(drawn)] = drawn
    lengths = np.sort(dealt.reshape(held, replicas).T, axis=1)
    rounds = np.diff(lengths, axis=1, prepend=0)
    left = np.arange(held, 0, -1)
    if table_s is not None and len(table_s) > held:
        times_s = table_s[left]
    else:
        times_s = servers.rounds.seconds(left)
    ends = np.cumsum(rounds * times_s, axis=1)
    if slowness is not None:
        ends = ends * slowness[:, None]
    return np.asarray(ends[lengths > 0])


def _full_slots_s(tokens: Ints, slowness: Floats, rounds: RoundTime, slots: float) -> Floats:
    """Work of batches where so many slots are always full [s]."""
    return np.asarray(tokens * (rounds.fixed_s / slots + rounds.each_s) / (1 / slowness).sum())

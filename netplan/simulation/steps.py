"""Collectives of an iteration step by step: every step of every pair is a message.

A level of a ring of n members has n - 1 steps. Step k of a member follows its own step k - 1, and
that of the member which sends to it. All else goes in one step, pair by pair. Levels follow each
other, or go on side by side, as the iteration model has it; a level begins when all of the one
before has ended. What a collective takes alone beyond its bytes is a latency, the same of each
step.

Links that cannot make anything wait even where all pairs send at once are left out
(`netplan.simulation.reduction`); a level without others is a delay.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from msgspec import Struct

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.simulation import tasks
from netplan.simulation.links import LinkTimes, PairLinks

MESSAGE_S = 3e-5
"""Time that a message takes to simulate, about [s].

Measured: 16 to 36 us on one core of a server, 10,000 to 740,000 messages of 128 to 1,024 GPUs."""

MOST_MESSAGES = 10_000_000
"""Messages of an iteration that are simulated, at most: minutes, and a gigabyte [1]."""


class Stepped(Struct, frozen=True, eq=False):
    """What makes bursts of messages of one job.

    Parameters
    ----------
    kept
        Codes of the links that may make messages wait, rising, shape (links,).
    weight
        Of the job [1].
    tick_s
        All times are multiples of it [s].
    made
        Phases by their flows, bytes and time: what is the same is made once.
    """

    kept: Ints
    weight: float
    tick_s: float
    made: dict[tuple[int, float, float], tasks.Phase]

    def phase(self, part: tasks.FlowMessage, column: LinkTimes) -> tasks.Phase:
        """A message as the steps of its pairs.

        Parameters
        ----------
        part
            The message.
        column
            What its flows do to links, level by level.

        Returns
        -------
        Phase
            Bursts and delays, one after the other or side by side.
        """
        key = part.flows, part.sent_bytes, part.alone_s
        if key not in self.made:
            self.made[key] = self._phase(part, column)
        return self.made[key]

    def _phase(self, part: tasks.FlowMessage, column: LinkTimes) -> tasks.Phase:
        levels, sent = column.levels, part.sent_bytes
        alone_s = part.alone_s + column.delayed_s_per_byte * sent
        carried = [level.busiest_s_per_byte * sent for level in levels]
        steps = [level.steps for level in levels]
        if column.in_phases:
            latency_s = max(0.0, alone_s - sum(carried)) / sum(steps)
            phases = (self._level(level, sent, latency_s) for level in levels)
            return tasks.plain(tasks.one_after_the_other(*phases))
        branches = tuple(
            (self._level(level, sent, max(0.0, alone_s - carried_s) / level.steps),)
            for level, carried_s in zip(levels, carried, strict=True)
        )
        return tasks.plain((branches,))

    def _level(self, level: PairLinks, sent_bytes: float, latency_s: float) -> tasks.Phase:
        """The steps of a level; a delay where no link makes them wait."""
        step_bytes = sent_bytes / level.steps
        lasts_s = level.steps * (level.busiest_s_per_byte * step_bytes + latency_s)
        place, waits = np.searchsorted(self.kept, level.links), np.isin(level.links, self.kept)
        if not waits.any():
            return tasks.in_ticks(lasts_s, self.tick_s)
        flows = len(level.pair)
        _check_count(flows * level.steps)
        carried = np.zeros(flows)
        np.maximum.at(carried, level.flow, level.seconds_per_byte * step_bytes)
        cuts = np.searchsorted(level.flow[waits], np.arange(flows + 1)).tolist()
        links, busy = place[waits].tolist(), level.seconds_per_byte[waits] * step_bytes
        weight = self.weight / (level.flow_bytes * step_bytes)
        latency = tasks.in_ticks(latency_s, self.tick_s)
        messages = []
        rows = zip(cuts[:-1], cuts[1:], carried.tolist(), weight.tolist(), strict=True)
        for begin, end, carried_s, share in rows:
            parts = [tasks.in_ticks(time_s, self.tick_s) for time_s in busy[begin:end].tolist()]
            longest_s = max([tasks.in_ticks(carried_s, self.tick_s), *parts])
            taken = tuple(links[begin:end])
            timed = longest_s + latency, tuple(parts), longest_s, share
            messages.append(tasks.Message(taken, *timed))
        return tasks.Burst(tuple(messages) * level.steps, tuple(_after(level)), lasts_s)


def _after(level: PairLinks) -> Iterator[tuple[int, ...]]:
    """Messages of a level that each waits for, step by step."""
    flows = len(level.pair)
    of_pair: list[list[int]] = [[] for _ in level.before]
    for flow, pair in enumerate(level.pair.tolist()):
        of_pair[pair].append(flow)
    before = level.before.tolist()
    others = [
        [*of_pair[pair], *(of_pair[before[pair]] if before[pair] not in (-1, pair) else ())]
        for pair in level.pair.tolist()
    ]
    for _ in range(flows):
        yield ()
    for step in range(level.steps - 1):
        for waits in others:
            yield tuple([step * flows + flow for flow in waits])


def check_steps(pipelines: Iterable[tasks.Pipeline]) -> None:
    """Refuse iterations whose steps would take minutes to simulate.

    Parameters
    ----------
    pipelines
        With their bursts.

    Raises
    ------
    InputError
        If they would: how many messages, and about how long.
    """
    messages = sum(
        often * len(part.messages)
        for pipeline in pipelines
        for part, often in tasks.parts_of_pipeline(pipeline)
        if isinstance(part, tasks.Burst)
    )
    _check_count(messages)


def _check_count(messages: int) -> None:
    """Refuse more messages than are simulated."""
    if messages > MOST_MESSAGES:
        raise InputError(
            f"--collectives steps makes {messages:,} messages or more of an iteration, which would"
            f" take about {messages * MESSAGE_S / 60:,.0f} minutes a draw: take coupled, fewer GPUs"
            " or a smaller batch"
        )

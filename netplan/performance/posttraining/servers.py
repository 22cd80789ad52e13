"""Servers of rollouts from the model of serving: time of a round, slots, and the best plan.

A round of b requests of a copy takes what serving's step of decode takes, with half of a mean
answer behind each. A straight line goes through one request and as many as are decoded at once;
where a round between them is off it by more than a twentieth (mixtures of experts), the rounds of
the batch are summed from a table in place of it.
"""

from typing import NamedTuple

import numpy as np

from netplan.arrays import Floats, Ints
from netplan.errors import InfeasibleError
from netplan.performance.posttraining.rollouts import RoundTime, Turns, rollout_seconds_of_table
from netplan.performance.posttraining.step import Rollouts, Servers, StepWork, rollouts_of
from netplan.performance.serving.outcomes import ServingCase, decode_steps, prefills
from netplan.performance.serving.plans import ServingPlans
from netplan.records import replace

MOST_TABLED = 4096
"""Answers of a copy up to which rounds are summed from a table [1]."""
NEAR = 1e-9
"""Share that two plans are as fast within [1]."""


class RolledOut(NamedTuple):
    """The best plan of a pool, as one entry; its servers, and the rollouts of a step on them."""

    plans: ServingPlans
    servers: Servers
    rollouts: Rollouts


def slots_of(case: ServingCase, plans: ServingPlans) -> Floats:
    """Requests that a copy of each plan has room for, 0 where its weights have none [1]."""
    return np.asarray(case.held(plans).room(case.room_bytes))


def roll_out(case: ServingCase, plans: ServingPlans, work: StepWork) -> RolledOut:
    """The plan on which a step's rollouts take least, by the pace that counts in its mode.

    Parameters
    ----------
    case
        What is served: prompts and mean answers of the step.
    plans
        Plans that may be chosen.
    work
        What a step has to do.

    Returns
    -------
    RolledOut
        The fastest; of equals that of the fewest GPUs.

    Raises
    ------
    InfeasibleError
        If none has room for a request.
    """
    fits = np.flatnonzero(slots_of(case, plans) >= 1)
    if not len(fits):
        raise InfeasibleError("no plan of the rollout pool has room for its weights and a request")
    plans = plans.take(fits)
    lines = servers_of(case, plans, work)
    # Waits for environments, which are drawn, are those of every plan.
    without = replace(work, turns=Turns())
    best = _best(work, [rollouts_of(without, servers) for servers in lines], plans)
    plan, servers = plans.take(np.array([best])), lines[best]
    servers = replace(servers, bent_s=_bent_s(case, plan, work, servers))
    return RolledOut(plan, servers, rollouts_of(work, servers))


def servers_of(case: ServingCase, plans: ServingPlans, work: StepWork) -> list[Servers]:
    """Servers of each plan, whose rounds are a line from one request to as many as are in flight.

    A batch has as many in flight as it has answers, whatever its schedule; a stream those of later
    batches, too.

    Parameters
    ----------
    case, plans
        What is served, by plans that have room for a request.
    work
        What a step has to do, and how far rollouts may be behind.
    """
    slots = slots_of(case, plans)
    copies = plans.replicas * plans.attention_data
    first_s = decode_steps(case, plans, np.ones(plans.count)).step_s

    def line(in_flight: Floats) -> list[RoundTime]:
        ends = np.maximum(np.floor(in_flight), 2.0)
        each_s = (decode_steps(case, plans, ends).step_s - first_s) / (ends - 1)
        pairs = zip((first_s - each_s).tolist(), each_s.tolist(), strict=True)
        return [RoundTime(fixed_s, request_s) for fixed_s, request_s in pairs]

    in_flight = work.in_flight(slots, copies)
    rounds = line(in_flight)
    ahead = work.staleness
    streamed = line(work.in_flight(slots, copies, ahead=ahead)) if ahead else rounds
    prompts = prefills(case, plans, np.floor(in_flight))
    prompt_s = prompts.each_s + case.chunks * case.launch_s
    return [
        Servers(
            int(copies[index]),
            int(slots[index]),
            rounds[index],
            float(np.broadcast_to(prompt_s, copies.shape)[index]),
            streamed=streamed[index],
        )
        for index in range(plans.count)
    ]


def _best(work: StepWork, rolled: list[Rollouts], plans: ServingPlans) -> int:
    """The plan with the least seconds in its mode, then the fewest GPUs."""
    seconds = [rollouts.seconds for rollouts in rolled]
    if work.mode == "async":  # a batch's way through both pools may span so many versions
        spans = 1 + work.staleness
        seconds = [max(rollouts.stream_s, rollouts.seconds / spans) for rollouts in rolled]
    used: Ints = plans.gpus_used
    near = [index for index, time_s in enumerate(seconds) if time_s <= min(seconds) * (1 + NEAR)]
    return min(near, key=lambda index: (int(used[index]), seconds[index]))


def _bent_s(case: ServingCase, plan: ServingPlans, work: StepWork, servers: Servers) -> float:
    """What one wave takes longer by a table of rounds than by their line, or less [s].

    The table is of a copy in the mean; the longest answer of all adds rounds of a single request.
    """
    held = -(-work.started // servers.replicas)
    one_wave = held <= servers.slots and work.started == work.answers
    if not (one_wave and 2 < held <= MOST_TABLED and work.turns.count == 1):  # noqa: PLR2004
        return 0.0
    middle, rounds = held // 2, servers.rounds
    if not rounds.bends(middle, float(decode_steps(case, plan, np.array([middle])).step_s[0])):
        return 0.0
    times_s = round_table(case, plan, held)
    table_s = rollout_seconds_of_table(work.lengths, held, times_s)
    longer = work.lengths.longest([work.answers, held])
    table_s += float(times_s[1]) * float(longer[0] - longer[1])
    line_s = rollouts_of(work, servers).seconds - work.taken / servers.replicas * servers.prompt_s
    return table_s - line_s


def round_table(case: ServingCase, plan: ServingPlans, held: int) -> Floats:
    """Rounds of 0 ... ``held`` requests of a copy, of which the first is none, shape (held + 1,).

    Parameters
    ----------
    case, plan
        What is served, by which plan, as one entry.
    held
        Requests of a copy at most [1].

    Returns
    -------
    ndarray
        [s].
    """
    every = np.arange(1.0, held + 1)
    times_s = decode_steps(case, plan.take(np.zeros(held, dtype=np.int64)), every).step_s
    return np.concatenate([[0.0], times_s])

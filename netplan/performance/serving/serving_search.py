"""The best serving plans of a cluster: every plan is timed, nothing is sampled.

Without a number of requests every plan is tried with all of them to 8 a server, then four a
doubling, up to what its memory holds. A service level leaves out what is slower; the rest is ranked
by tokens of output a second of the whole cluster, then by time per token, then by GPUs that work.
Under a rate of requests all plans that carry it give as many tokens: the best one has the shortest
time from a request to its last token, then the fewest GPUs.
Where no plan keeps a level that does not bind, those that miss it least come first.
"""

from collections.abc import Mapping
from time import perf_counter

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats, Ints
from netplan.errors import InfeasibleError, InputError
from netplan.performance.serving.disaggregated import Pools, best_pools
from netplan.performance.serving.load import UnderLoad, under_load
from netplan.performance.serving.outcomes import (
    Goal,
    ServingCase,
    ServingResult,
    aggregated,
    finite_waves,
)
from netplan.performance.serving.plans import Runnable, ServingPlans, serving_plans
from netplan.performance.serving.rounds import PlannedServers
from netplan.records import replace
from netplan.traffic.placement import distinct
from netplan.units import counted, si

BATCHES = np.array(
    [*range(1, 8), *((4 + step) << power for power in range(1, 21) for step in range(4))],
    dtype=np.float64,
)
"""Requests of one server that are tried where none are given [1]."""
NEAR = 0.01
"""Times per token that differ by less are one point of the front [1]."""


class ServingFound(Struct, frozen=True, eq=False):
    """What a search found.

    Parameters
    ----------
    ranked
        Outcomes that meet all demands, the best first; of each plan its best number of requests.
    front
        Of all of them those that none beats in time per token and throughput, by rising time, a
        hundredth apart.
    enumerated, feasible
        Plans in all their numbers of requests, and those that meet all demands [1].
    goal
        What was asked for.
    pools
        Of disaggregated clusters, servers of both phases for ``ranked``, in its order.
    highest_rate, least_gpus
        Under a rate, requests a second that the best plan carries, and GPUs of the fewest servers
        that carry it and meet all demands [1/s, 1].
    """

    ranked: ServingResult
    front: ServingResult
    enumerated: int
    feasible: int
    seconds: float
    goal: Goal
    pools: Pools | None = None
    front_pools: Pools | None = None
    highest_rate: float | None = None
    least_gpus: int | None = None

    @property
    def on_front(self) -> "ServingFound":
        """The same with the front in place of what is ranked."""
        return replace(self, ranked=self.front, pools=self.front_pools)

    def best(self, case: ServingCase) -> PlannedServers:
        """Servers of the best plan, which serve what was searched."""
        first = np.zeros(1, np.int64)
        pools = self.pools.take(first) if self.pools is not None else None
        return PlannedServers(case, self.ranked.take(first), pools)


def best_servers(
    case: ServingCase,
    gpus: int,
    fixed: Mapping[str, int],
    goal: Goal,
    *,
    apart: bool = False,
    runnable: Runnable | None = None,
) -> ServingFound:
    """Search all plans of a cluster, or of them those that its software runs.

    Parameters
    ----------
    case
        What is served.
    gpus
        GPUs of the cluster [1].
    fixed
        Degrees that are given, by name.
    goal
        Requests in flight, and the service level.
    apart
        Whether prompts have servers of their own.
    runnable
        What the software runs; all plans where it is None.

    Raises
    ------
    InputError
        If no plan, or none that the software runs, has the given degrees, or a finite number of
        requests meets two pools.
    InfeasibleError
        If no plan fits the memory, or none keeps a service level that binds: with the nearest.
    """
    start = perf_counter()
    sizes = case.served.sizes
    pools: Pools | None = None
    loaded: UnderLoad | None = None
    if goal.rate is not None:
        plans = serving_plans(case.served.model, gpus, sizes, fixed, runnable)
        loaded = under_load(case, plans, goal.rate)
        result, enumerated = loaded.result, plans.count
    elif apart:
        if goal.requests is not None:
            raise InputError(
                "--requests is timed on servers that both take prompts and decode: leave"
                " --disaggregated or --requests out"
            )
        timed, enumerated = best_pools(case, gpus, fixed, goal, runnable)
        result, pools = timed.outcome, timed.pools
    elif goal.requests is not None:
        plans = serving_plans(case.served.model, gpus, sizes, fixed, runnable)
        most: Amount = float(goal.concurrency or np.inf)
        if goal.batch is not None:
            most = goal.batch * plans.replicas.astype(np.float64)
        result = finite_waves(case, plans, goal.requests, most)
        enumerated = plans.count
    else:
        every = serving_plans(case.served.model, gpus, sizes, fixed, runnable)
        plans, requests = _tried(case, every, goal)
        result = aggregated(case, plans, requests)
        enumerated = plans.count
    good = goal.meets(result)
    feasible = int(np.count_nonzero(good))
    if not feasible and (goal.binding or not result.fits.any()):
        raise _infeasible(case, gpus, result, goal, runnable)
    chosen = np.flatnonzero(good if feasible else result.fits)
    some = result.take(chosen)
    if loaded is not None and feasible:  # time to the last token, then GPUs
        steps = np.round(np.log(some.request_s) / NEAR)
        order = chosen[np.lexsort((some.request_s, some.plans.gpus_used, steps))]
    else:  # what is missed, throughput, then time per token, then idle GPUs
        keys = [gpus - some.plans.gpus_used, some.tpot_s, -some.tokens_per_s]
        order = chosen[np.lexsort(keys if feasible else [*keys, goal.over(some)])]
    best = order
    if not apart:  # the first of each plan
        degrees = (getattr(result.plans, name)[order] for name in result.plans.__struct_fields__)
        best = order[np.sort(distinct(np.stack([*degrees]))[0])]
    edge = order[_front(result.take(order))]
    return ServingFound(
        ranked=result.take(best),
        front=result.take(edge),
        enumerated=enumerated,
        feasible=feasible,
        seconds=perf_counter() - start,
        goal=goal,
        pools=pools.take(best) if pools is not None else None,
        front_pools=pools.take(edge) if pools is not None else None,
        highest_rate=loaded.highest_rate if loaded is not None else None,
        least_gpus=loaded.least_gpus(case, chosen, goal, met=feasible > 0) if loaded else None,
    )


def _tried(case: ServingCase, plans: ServingPlans, goal: Goal) -> tuple[ServingPlans, Floats]:
    """Plans with every number of requests that is tried, in the whole cluster."""
    if goal.concurrency is not None:
        return plans, np.full(plans.count, float(goal.concurrency))
    if goal.batch is not None:
        return plans, goal.batch * plans.replicas.astype(np.float64)
    room = case.held(plans).room(case.room_bytes) * plans.attention_data
    # With fewer requests than copies of attention some of these are idle.
    first = np.searchsorted(BATCHES, plans.attention_data)
    last = np.searchsorted(BATCHES, np.maximum(room, plans.attention_data), side="right")
    counts = np.maximum(last - first, 1)
    rows = np.repeat(np.arange(plans.count), counts)
    index = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts - first, counts)
    tried = plans.take(rows)
    requests: Floats = BATCHES[index] * tried.replicas
    return tried, requests


def _front(result: ServingResult) -> Ints:
    """Where time per token and throughput are both beaten by none, by rising time.

    What is faster by less than `NEAR` than what gives more tokens is left out.
    """
    order = np.lexsort((-result.tokens_per_s, result.tpot_s))
    rate = result.tokens_per_s[order]
    before = np.concatenate([[-np.inf], np.maximum.accumulate(rate)[:-1]])
    kept, last_s = [], np.inf
    for index in order[rate > before].tolist()[::-1]:
        if result.tpot_s[index] < (1 - NEAR) * last_s:
            kept.append(index)
            last_s = result.tpot_s[index]
    return np.array(kept[::-1], dtype=np.int64)


def _infeasible(
    case: ServingCase, gpus: int, result: ServingResult, goal: Goal, runnable: Runnable | None
) -> InfeasibleError:
    """What is nearest to a service level that no plan meets, or how much memory is missing."""
    model, requests = case.served.model.name, case.requests
    if not result.fits.any():
        least = int(result.memory_bytes.argmin())
        weights = float(case.held(result.plans.take(np.array([least]))).weights[0])
        room, held = case.room_bytes, float(result.memory_bytes[least])
        where = "weights and the cache of one request"
        if weights > room:
            where, held = "weights alone", weights
        return InfeasibleError(
            f"{model} with {requests.tokens:,} tokens a request fits into no plan on"
            f" {counted(gpus, 'GPU')}: {where} take {si(held, 'B')} of a GPU's {si(room, 'B')}:"
            " give more GPUs, a narrower --precision or --kv-precision, shorter requests"
            + (f", or --any-plan: only what {runnable.stack} runs was tried" if runnable else "")
        )
    fitting = result.take(result.fits)
    nearest = int(goal.over(fitting).argmin())
    late = goal.tpot_s is None or fitting.ttft_s[nearest] / (goal.ttft_s or np.inf) >= (
        fitting.tpot_s[nearest] / goal.tpot_s
    )
    bottlenecks = binding(fitting, first=late)[nearest]
    plans = fitting.plans
    shape = (
        f"tensor {plans.tensor[nearest]}, pipeline {plans.pipeline[nearest]},"
        f" expert {plans.expert[nearest]}"
    )
    return InfeasibleError(
        f"no plan of {model} on {counted(gpus, 'GPU')} has {goal.words}: the nearest ({shape},"
        f" {counted(round(fitting.concurrency[nearest]), 'request')} in flight) has TTFT"
        f" {si(fitting.ttft_s[nearest], 's')} and TPOT {si(fitting.tpot_s[nearest], 's')}, and"
        f" {bottlenecks} binds it: ask for less, or give more GPUs"
    )


NAMES = {
    "compute": "compute",
    "memory": "HBM",
    "network": "network",
    "host": "host",
    "prefill": "prompts of others",
    "queue": "queue",
}
"""What can bind, in words."""


def binding(result: ServingResult, *, first: bool = False) -> list[str]:
    """What the longest part of each token is, or of the ``first``.

    A queue binds where requests wait longer in it than for all their tokens.
    """
    parts = result.prompt_parts if first else result.parts
    names = list(parts)
    most = np.stack([np.broadcast_to(parts[name], result.tpot_s.shape) for name in names])
    waits = ~np.bool_(first) & (result.queue_s > result.output * result.tpot_s)
    return [
        NAMES["queue" if waiting else names[index]]
        for index, waiting in zip(most.argmax(axis=0), waits, strict=True)
    ]

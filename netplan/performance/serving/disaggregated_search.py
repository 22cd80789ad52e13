"""The best pools: every pair of servers in many numbers of both, bounded before it is timed.

A pair with w servers for prompts and v for decode gives at most

    min( C R / (t_p + (R - 1) t_1),  R w a / s,  R v a' b / (R t_b) )

tokens a second: what C requests see of servers that wait for nothing (t_1 is a step with one
request a copy), what prompts take of the prefill pool, and decode with as many requests b as memory
and service level allow. Pairs are timed in falling order of that bound, until no bound is above the
best that was found. Servers that others of their size beat in everything are left out: for prompts
in latency, in occupation alone and in full steps, and in ways of the cache; for decode in time a
token at every power of two of requests, and in room for them. The prefill pool has every number of
servers up to 32, then steps of an eighth; the rest of the cluster decodes.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from netplan.arrays import Floats, Ints
from netplan.errors import InfeasibleError, InputError
from netplan.performance.serving.disaggregated import Pools, disaggregated
from netplan.performance.serving.goal import Goal
from netplan.performance.serving.outcomes import Outcome, ServingCase, decode_steps, prefills
from netplan.performance.serving.plans import ServingPlans, serving_plans
from netplan.records import replace
from netplan.units import si

AT_ONCE = 2_048
"""Pairs that are timed together [1]."""
ALL_UP_TO, GROWTH = 32, 1.125
"""Numbers of prefill servers: all up to this, then each so many times the last [1]."""
SWEEP = 2.0 ** np.arange(15)
"""Requests of one copy that are tried where none are given [1]."""
POOLS = ("prefill", "decode")


class Servers(NamedTuple):
    """Servers of one pool: shapes, and what bounds them, one entry each (and request number)."""

    plans: ServingPlans
    least_s: Floats  # a prompt alone, or a step with one request a copy [s]
    rate: Floats  # most requests (prefill) or tokens (decode) a second of one server [1/s]


class PoolsFound(NamedTuple):
    """Pairs that were timed, and how many there are."""

    outcome: Outcome
    pools: Pools
    enumerated: int


def pool_degrees(fixed: Mapping[str, int], pool: str) -> dict[str, int]:
    """Degrees that are given for one pool: those of its own name, and those of both.

    Examples
    --------
    >>> pool_degrees({"tensor": 8, "prefill_tensor": 4, "decode_expert": 8}, "prefill")
    {'tensor': 4}
    """
    others = tuple(f"{one}_" for one in POOLS)
    both = {name: value for name, value in fixed.items() if not name.startswith(others)}
    mine = {name: value for name, value in fixed.items() if name.startswith(f"{pool}_")}
    return both | {name.removeprefix(f"{pool}_"): value for name, value in mine.items()}


def best_pools(case: ServingCase, gpus: int, fixed: Mapping[str, int], goal: Goal) -> PoolsFound:
    """Search pairs of pools (formulas of this module).

    Raises
    ------
    InputError
        If no pair has the given degrees.
    InfeasibleError
        If no pair fits the memory.
    """
    if gpus < len(POOLS):
        raise InputError("disaggregated serving takes 2 GPUs at least, one for each phase")
    prompts, counts = _servers(case, gpus, pool_degrees(fixed, "prefill"))
    decoders, more = _servers(case, gpus, pool_degrees(fixed, "decode"))
    prefill, decode = _prefill_servers(case, prompts), _decode_servers(case, decoders, goal)
    pairs = _pairs(case, gpus, (prefill.plans, decode.plans), (counts, more))
    if not pairs.shape[1]:
        raise InfeasibleError(
            f"no pair of pools of {case.served.model.name} fits {gpus:,} GPUs and their memory,"
            f" {si(case.room_bytes, 'B')} each for weights and cache: give more GPUs, a narrower"
            " --precision, or fix fewer degrees; without --disaggregated one pool may do"
        )
    rows = _with_requests(case, goal, decode, pairs)
    bound = _bound(case, prefill, decode, rows)
    order = np.argsort(-bound, kind="stable")
    order = order[bound[order] > 0]
    if not len(order):
        order = np.argsort(-bound, kind="stable")[:AT_ONCE]
    found, best = [], -np.inf
    for start in range(0, len(order), AT_ONCE):
        some = order[start : start + AT_ONCE]
        if bound[some[0]] <= best:
            break
        timed = _timed(case, prefill, decode, rows[:, some])
        found.append(timed)
        rates = timed[0].tokens_per_s[goal.meets(timed[0])]
        best = max(best, float(rates.max(initial=-np.inf)))
    outcome, pools = _joined(found)
    return PoolsFound(outcome, pools, rows.shape[1])


def _servers(
    case: ServingCase, gpus: int, fixed: dict[str, int]
) -> tuple[ServingPlans, int | None]:
    """Shapes of servers that leave a GPU for the other pool, and their number if it is given."""
    given = fixed.pop("replicas", None)
    plans = serving_plans(case.served.model, gpus, case.served.sizes, fixed)
    return plans.take(plans.server_gpus < gpus), given


def _prefill_servers(case: ServingCase, plans: ServingPlans) -> Servers:
    """Servers for prompts that no other of their size beats."""
    prompt = prefills(case, plans, np.full(plans.count, np.inf))
    alone = prefills(case, plans, np.ones(plans.count))
    fits = case.held(plans).room(case.room_bytes) >= 1
    full_s = (prompt.each_s + case.chunks * case.launch_s) / plans.attention_data
    ways = plans.tensor * plans.pipeline
    costs = np.stack([prompt.latency_s, full_s, alone.each_s / plans.attention_data, 1 / ways])
    keep = _unbeaten(plans, np.where(fits, costs, np.inf))
    least_s = prompt.latency_s + case.stack.prompt_s + np.maximum(case.chunks, 1.0) * case.launch_s
    return Servers(plans.take(keep), least_s[keep], 1 / full_s[keep])


def _decode_servers(case: ServingCase, plans: ServingPlans, goal: Goal) -> Servers:
    """Servers for decode that no other of their size beats, and tokens a second of one at most."""
    room = case.held(plans).room(case.room_bytes)
    requests = SWEEP[:, None] / plans.attention_data
    steps_s = np.stack([decode_steps(case, plans, np.maximum(row, 1.0)).step_s for row in requests])
    costs = np.concatenate([steps_s, 1 / np.maximum(room * plans.attention_data, 0.5)[None]])
    keep = _unbeaten(plans, np.where(room >= 1, costs, np.inf))
    plans, steps_s, room = plans.take(keep), steps_s[:, keep], room[keep]
    allowed = steps_s <= (np.inf if goal.tpot_s is None else goal.tpot_s)
    # Between two powers of two the larger bounds both.
    most = np.minimum(2 * np.where(allowed, SWEEP[:, None], 0.0).max(axis=0), 2 * SWEEP[-1])
    most = np.minimum(most, 2 * room * plans.attention_data)
    at = np.clip(np.ceil(np.log2(np.maximum(most, 1.0))), 0, len(SWEEP) - 1).astype(np.int64)
    rate = np.maximum.accumulate(SWEEP[:, None] / steps_s, axis=0)[at, np.arange(len(at))]
    return Servers(plans, steps_s[0], np.where(most > 0, rate, 0.0))


def _unbeaten(plans: ServingPlans, costs: Floats) -> Ints:
    """Shapes that no other with as many GPUs, or fewer, beats in every cost, shape (costs, n)."""
    keep: list[int] = []
    for size in np.unique(plans.server_gpus):
        some = np.flatnonzero(plans.server_gpus == size)
        some = some[np.isfinite(costs[:, some]).all(axis=0)]
        for at in some[np.argsort(costs[:, some].sum(axis=0), kind="stable")]:
            mine = costs[:, keep]
            same = plans.server_gpus[keep] == size
            if not (same & (mine <= costs[:, [at]]).all(axis=0)).any():
                keep.append(int(at))
    return np.array(sorted(keep), dtype=np.int64)


def _pairs(
    case: ServingCase,
    gpus: int,
    pools: tuple[ServingPlans, ServingPlans],
    fixed: tuple[int | None, int | None],
) -> Ints:
    """Prefill shape, decode shape and servers of each, shape (4, pairs)."""
    (prefill, decode), (counts, more) = pools, fixed
    prompts, decodes = (one.places(case.served.sizes) for one in pools)
    numbers = np.array([counts] if counts else [*_numbers(gpus)], dtype=np.int64)
    grid = np.meshgrid(np.arange(prefill.count), np.arange(decode.count), numbers, indexing="ij")
    first, second, each = (one.ravel() for one in grid)
    left = gpus - each * prompts[first]
    others = left // decodes[second]
    good = (left > 0) & (others >= (more or 1))
    others = np.minimum(others, more) if more else others
    return np.stack([first[good], second[good], each[good], others[good]])


def _numbers(gpus: int) -> Iterator[int]:
    """Numbers of prefill servers that are tried.

    Examples
    --------
    >>> [*_numbers(50)][-4:]
    [32, 36, 40, 45]
    """
    number = 1
    while number < gpus:
        yield number
        number = number + 1 if number < ALL_UP_TO else int(number * GROWTH)


def _with_requests(case: ServingCase, goal: Goal, decode: Servers, pairs: Ints) -> Floats:
    """Pairs with requests in flight in the whole cluster, shape (5, rows)."""
    copies = decode.plans.attention_data[pairs[1]] * pairs[3]
    if goal.concurrency is not None:
        requests = np.full(pairs.shape[1], float(goal.concurrency))
    elif goal.batch is not None:
        requests = goal.batch * pairs[3].astype(np.float64)
    else:
        room = case.held(decode.plans).room(case.room_bytes)[pairs[1]]
        grid = SWEEP[:, None] * copies
        good = (SWEEP[:, None] <= np.maximum(room, 1.0)).ravel()
        rows = np.broadcast_to(pairs[:, None, :], (4, len(SWEEP), pairs.shape[1])).reshape(4, -1)
        return np.concatenate([rows, grid.reshape(1, -1)])[:, good]
    return np.concatenate([pairs.astype(np.float64), requests[None]])


def _bound(case: ServingCase, prefill: Servers, decode: Servers, rows: Floats) -> Floats:
    """Tokens a second at most of each row [1/s]."""
    output = case.requests.output
    first, second = rows[0].astype(np.int64), rows[1].astype(np.int64)
    seen = prefill.least_s[first] + (output - 1) * decode.least_s[second]
    free = rows[4] * output / seen
    found: Floats = np.minimum(free, output * rows[2] * prefill.rate[first])
    bound: Floats = np.minimum(found, rows[3] * decode.rate[second])
    return bound


def _timed(
    case: ServingCase, prefill: Servers, decode: Servers, rows: Floats
) -> tuple[Outcome, Pools]:
    """Time some rows."""
    whole = rows[:4].astype(np.int64)
    pools = Pools(
        replace(prefill.plans.take(whole[0]), replicas=whole[2]),
        replace(decode.plans.take(whole[1]), replicas=whole[3]),
    )
    return disaggregated(case, pools, rows[4]), pools


def _joined(found: list[tuple[Outcome, Pools]]) -> tuple[Outcome, Pools]:
    """Portions one behind the other."""
    outcomes, pools = zip(*found, strict=True)
    return Outcome.joined(outcomes), Pools(
        ServingPlans.joined([one.prefill for one in pools]),
        ServingPlans.joined([one.decode for one in pools]),
    )

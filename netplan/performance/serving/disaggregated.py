"""Prompts on servers of their own: a prefill pool, a decode pool, and the cache sent between them.

Formulas stand in `netplan.performance.serving.outcomes`.

The best pools: every pair of servers in many numbers of both, bounded before it is timed.

A pair of which n servers on g GPUs each take prompts and v on h GPUs decode gives at most

    X  <=  R / (R - 1) x min( r n rho, max over k of min( v f(b_k+1), C R / (T_k + W(T_k)) ) )

tokens a second. r are the tokens whose prompts one server takes; rho is how busy its queue may be,
rho = 2 x / (1 + 2 x), x = (TTFT - t_p) / s, under a service level (t_p of a prompt that waits for
nothing, s of the server's time that it takes). A decode server has some requests b between two
powers of two, b_k and b_k+1, so that its steps take t(b_k) at least and it gives f(b_k+1) tokens at
most; b_k has room, and its steps keep the service level. C requests take T_k = t_p + R t(b_k), the
others of their burst and W, what a closed loop of them waits (`loop_wait_s`).

Pairs are taken in falling order of what both rates give on all GPUs, n g + v h. Each comes with
every number of prefill servers up to 32, then steps of an eighth; the rest of the cluster decodes.
Rows are timed until no bound is above the best that was found, so that nothing better is missed, or
until `MOST` are. That is done again under half of the best one's time per token, a quarter and so
on, which gives the front. Servers that others on as many GPUs beat in everything are left out: for
prompts in latency, in occupation alone and in full steps, and in ways of the cache; for decode in
time a token at every power of two of requests, and in room for them.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from netplan.arrays import Amount, Bools, Columns, Floats, Ints
from netplan.errors import InfeasibleError, InputError
from netplan.performance.serving import outcomes
from netplan.performance.serving.plans import Runnable, ServingPlans, serving_plans
from netplan.records import replace
from netplan.units import si
from netplan.workloads.inference import cached_bytes

ROUNDS = 4
"""Turns in which the requests of the decode pool and the wait before prefill settle [1]."""


class Pools(Columns, frozen=True, eq=False):
    """Servers for prompts and servers for decode, one entry each of a pair, shape (pairs,)."""

    prefill: ServingPlans
    decode: ServingPlans

    @property
    def gpus_used(self) -> Ints:
        """GPUs of both pools [1]."""
        return self.prefill.gpus_used + self.decode.gpus_used


def cache_sent(case: outcomes.ServingCase, pools: Pools) -> tuple[Floats, Floats]:
    """What a GPU of a prefill server sends of a prompt's cache to a decode server, and how long.

    By the rate of a GPU's network, of each pair of pools [B, s].
    As many GPUs take part as the smaller of both servers has that hold different parts.
    """
    model, prompt = case.served.model, case.requests.prompt
    cut, stages = pools.prefill.cut, pools.prefill.pipeline
    formats = case.served.formats
    stage_bytes = cached_bytes(model, cut, prompt, formats.cache_bytes, formats.window_cache)
    stage_bytes = stage_bytes / stages
    # GPUs beyond the heads of keys hold copies, and all tensor GPUs the same latent vectors.
    heads = 1 if model.latent_attention is not None else model.key_heads
    ways = np.minimum(pools.prefill.tensor, heads) * stages
    there = np.minimum(pools.decode.tensor, heads) * pools.decode.pipeline
    most = stage_bytes * ways / np.minimum(ways, there)
    levels = case.served.network.levels
    level = levels[-1] if levels[-1].size > 1 else levels[0]
    links = case.served.network.communication.links
    share = links.network(level.network_kind).all_to_all.large.efficiency if links else 1.0
    return most, level.step_s + most / (share * level.link_bytes_per_s)


def disaggregated(
    case: outcomes.ServingCase, pools: Pools, concurrency: Amount
) -> outcomes.ServingResult:
    """What pairs of pools give, with so many requests in flight in all."""
    stack, output = case.stack, case.requests.output
    prefill, decode = pools.prefill, pools.decode
    wanted = np.broadcast_to(np.asarray(concurrency, dtype=np.float64), prefill.tensor.shape)
    takers = prefill.replicas * prefill.attention_data
    prompt = outcomes.prefills(case, prefill, wanted / takers)
    _, sent_s = cache_sent(case, pools)
    busy_s = prompt.each_s + case.chunks * case.launch_s
    start_s = stack.prompt_s + stack.transfer_s + np.maximum(case.chunks, 1.0) * case.launch_s
    alone_s = start_s + prompt.latency_s + sent_s + outcomes.loading_s(case, prefill, prompt)
    alone_s = alone_s + stack.burst * np.maximum(wanted / takers - 1, 0.0) * busy_s
    held = case.held(decode)
    room = np.maximum(held.room(case.room_bytes), 1.0)
    copies = decode.replicas * decode.attention_data
    share, wait_s = np.ones(wanted.shape), np.zeros(wanted.shape)
    for _ in range(ROUNDS):
        in_flight = np.clip(wanted * share / copies, 1.0, room)
        steps = outcomes.decode_steps(case, decode, in_flight)
        spilled_s = outcomes.spill_s(case, decode, held, in_flight)
        decode_s = (output - 1) * (steps.step_s + spilled_s)
        wait_s = loop_wait_s(busy_s, wanted * busy_s / takers, alone_s + decode_s)
        share = decode_s / (alone_s + decode_s + wait_s)
    in_flight = np.clip(wanted * share / copies, 1.0, room)
    steps = outcomes.decode_steps(case, decode, in_flight)
    spilled_s = outcomes.spill_s(case, decode, held, in_flight)
    tpot_s = steps.step_s + spilled_s
    full_s = (wanted / (copies * room) - 1) * (output - 1) * tpot_s
    queue_s = np.maximum(full_s - alone_s - wait_s, 0.0)
    transfer = replace(prompt.parts, network_s=prompt.parts.network_s + sent_s)
    waits_s = alone_s - start_s - prompt.latency_s - sent_s + wait_s + queue_s
    return outcomes.ServingResult(
        plans=decode,
        concurrency=np.array(wanted),
        in_flight=in_flight,
        ttft_s=alone_s + wait_s + queue_s,
        tpot_s=tpot_s,
        queue_s=queue_s + wait_s,
        memory_bytes=held.of(in_flight),
        parts=outcomes.token_parts(steps, spilled_s) | {"prefill": np.zeros(wanted.shape)},
        prompt_parts=outcomes.prompt_parts(transfer, host=start_s, queue=waits_s),
        fits=(held.room(case.room_bytes) >= 1) & (case.held(prefill).room(case.room_bytes) >= 1),
        output=output,
    )


def loop_wait_s(busy_s: Floats, offered_s: Floats, else_s: Floats) -> Floats:
    """Wait of a closed loop before servers of a fixed time s, all of which C requests take o.

    W (W + else - o) = s o / 2, the formula of `netplan.performance.serving.outcomes` with o = C s'.
    """
    slack = else_s - offered_s
    return (np.sqrt(slack**2 + 2 * busy_s * offered_s) - slack) / 2


PAIRS_AT_ONCE, AT_ONCE, MOST = 64, 2_048, 16_384
"""Pairs that are laid out first, rows that are timed together, and in all for one limit [1]."""
ALL_UP_TO, GROWTH = 32, 1.125
"""Numbers of prefill servers: all up to this, then each so many times the last [1]."""
SWEEP = 2.0 ** np.arange(15)
"""Requests of one copy that are tried where none are given [1]."""
POOLS = ("prefill", "decode")


class PromptServers(Columns, frozen=True, eq=False):
    """Servers for prompts, one entry each."""

    plans: ServingPlans
    places: Ints  # GPUs that one takes [1]
    least_s: Floats  # a prompt that waits for nothing [s]
    busy_s: Floats  # what it takes of a copy of attention [s]
    rate: Floats  # prompts of one server at most [1/s]

    def within(self, ttft_s: float | None) -> Floats:
        """Prompts a second of servers whose queue keeps a service level, 0 where none does."""
        if ttft_s is None:
            return self.rate
        waits = 2 * np.maximum(ttft_s - self.least_s, 0.0) / self.busy_s
        return np.where(ttft_s < self.least_s, 0.0, self.rate * waits / (1 + waits))

    def requests(self, ttft_s: float | None, burst: float) -> Floats:
        """Requests in flight of one server whose bursts keep a service level [1]."""
        if ttft_s is None or not burst:
            return np.full(self.rate.shape, np.inf)
        waits = np.maximum(ttft_s - self.least_s, 0.0) / (burst * self.busy_s)
        return self.plans.attention_data * (1 + waits)


class TokenServers(Columns, frozen=True, eq=False):
    """Servers for decode, one entry each; levels are powers of two of requests of a server."""

    plans: ServingPlans
    places: Ints  # GPUs that one takes [1]
    room: Floats  # requests of one copy at most [1]
    steps_s: Floats  # a step, shape (levels, servers) [s]
    rate: Floats  # tokens at most with requests up to the next level, same shape [1/s]

    def within(self, tpot_s: float | None) -> Floats:
        """Rates of levels whose steps keep a service level, 0 elsewhere [1/s]."""
        return self.rate if tpot_s is None else np.where(self.steps_s <= tpot_s, self.rate, 0.0)


class Timed(Columns, frozen=True, eq=False):
    """Rows, and what they give."""

    rows: Floats
    outcome: outcomes.ServingResult
    pools: Pools


class PoolSearch(NamedTuple):
    """What a search goes through."""

    case: outcomes.ServingCase
    gpus: int
    goal: outcomes.Goal
    prefill: PromptServers
    decode: TokenServers
    given: Mapping[str, int]  # servers of a pool, if that is said

    @property
    def swept(self) -> bool:
        """Whether many numbers of requests are tried."""
        return self.goal.concurrency is None and self.goal.batch is None

    @property
    def output(self) -> float:
        """Tokens of an answer [1]."""
        return float(self.case.requests.output)

    @property
    def more(self) -> float:
        """By what X may exceed the rates of pools: the first token comes without a step [1].

        That takes as long as a step at least, which bounds an answer of a single token.
        """
        return self.output / (self.output - 1) if self.output > 1 else 2.0

    def most(self, servers: Ints) -> Floats | float:
        """Requests in flight with so many servers for decode at most [1]."""
        if self.goal.concurrency is not None:
            return float(self.goal.concurrency)
        if self.goal.batch is None:
            return np.inf
        return self.goal.batch * servers.astype(np.float64)


def pool_degrees(fixed: Mapping[str, int], pool: str) -> dict[str, int]:
    """Degrees that are given for one pool: those of its own name, and those of both.

    Examples
    --------
    >>> pool_degrees({"tensor": 8, "prefill_tensor": 4, "decode_expert": 8}, "prefill")
    {'tensor': 4}
    """
    others = tuple(f"{other}_" for other in POOLS)
    both = {name: value for name, value in fixed.items() if not name.startswith(others)}
    mine = {name: value for name, value in fixed.items() if name.startswith(f"{pool}_")}
    return both | {name.removeprefix(f"{pool}_"): value for name, value in mine.items()}


def best_pools(
    case: outcomes.ServingCase,
    gpus: int,
    fixed: Mapping[str, int],
    goal: outcomes.Goal,
    runnable: Runnable | None = None,
) -> tuple[Timed, int]:
    """Search pairs of pools (formulas of this module): those that were timed, of how many.

    Raises
    ------
    InputError
        If no pair has the given degrees.
    InfeasibleError
        If no pair fits the cluster.
    """
    if gpus < len(POOLS):
        raise InputError("disaggregated serving takes 2 GPUs at least, one for each phase")
    plans, given = {}, {}
    for pool in POOLS:
        degrees = pool_degrees(fixed, pool)
        if "replicas" in degrees:
            given[pool] = degrees.pop("replicas")
        every = serving_plans(case.served.model, gpus, case.served.sizes, degrees, runnable)
        plans[pool] = every.take(every.places(case.served.sizes) < gpus)  # the other has one, too
    prefill = _prompt_servers(case, plans["prefill"])
    search = PoolSearch(case, gpus, goal, prefill, _token_servers(case, plans["decode"]), given)
    # Pairs in all their numbers of servers and of requests [1].
    needed = search.decode.places * search.given.get("decode", 1)
    order = np.argsort(needed)
    needed = needed[order]
    tried = np.concatenate([[0], np.cumsum(_swept(search)[order])])
    left = search.gpus - _prompt_counts(search)[:, None] * search.prefill.places
    enumerated = int(tried[np.searchsorted(needed, left, side="right")].sum())
    if not enumerated:
        raise InfeasibleError(
            f"no pair of pools of {case.served.model.name} fits {gpus:,} GPUs and their memory,"
            f" {si(case.room_bytes, 'B')} each for weights and cache: give more GPUs, a narrower"
            " --precision, or fix fewer degrees; without --disaggregated one pool may do"
        )
    timings = _front(search)
    if not any(goal.meets(timing.outcome).any() for timing in timings):
        timings = [_nearest(search)]
    timed = Timed.joined(timings)
    _, once = np.unique(timed.rows, axis=1, return_index=True)
    return timed.take(once), enumerated


def _prompt_servers(case: outcomes.ServingCase, plans: ServingPlans) -> PromptServers:
    """Servers for prompts that no other of their size beats."""
    prompt = outcomes.prefills(case, plans, np.full(plans.count, np.inf))
    alone = outcomes.prefills(case, plans, np.ones(plans.count))
    launch_s = case.chunks * case.launch_s
    busy_s = np.minimum(prompt.each_s, alone.each_s) + launch_s
    ways = plans.tensor * plans.pipeline
    per_prompt_s = np.stack([prompt.each_s, alone.each_s]) + launch_s
    costs = np.stack([prompt.latency_s, *(per_prompt_s / plans.attention_data), 1 / ways])
    places = plans.places(case.served.sizes)
    keep = _unbeaten(places, costs, case.held(plans).room(case.room_bytes) >= 1)
    host_s = (
        case.stack.prompt_s + case.stack.transfer_s + np.maximum(case.chunks, 1.0) * case.launch_s
    )
    least_s = prompt.latency_s + host_s
    rate = plans.attention_data / busy_s
    return PromptServers(plans, places, least_s, busy_s, rate).take(keep)


def _token_servers(case: outcomes.ServingCase, plans: ServingPlans) -> TokenServers:
    """Servers for decode that no other of their size beats."""
    room = np.maximum(case.held(plans).room(case.room_bytes), 0.0)
    whole = np.maximum(room * plans.attention_data, 1.0)
    levels = 2.0 ** np.arange(np.ceil(np.log2(whole.max(initial=1.0))) + 1)[:, None]
    requests = np.maximum(levels / plans.attention_data, 1.0)
    every = np.tile(np.arange(plans.count), len(levels))
    steps_s = outcomes.decode_steps(case, plans.take(every), requests.ravel()).step_s
    steps_s = steps_s.reshape(requests.shape)
    places = plans.places(case.served.sizes)
    keep = _unbeaten(places, np.concatenate([steps_s, 1 / whole[None]]), room >= 1)
    rate = np.maximum.accumulate(levels / steps_s, axis=0)
    rate = np.where(levels <= whole, np.concatenate([rate[1:], rate[-1:]]), 0.0)
    least_s = np.minimum.accumulate(steps_s[::-1], axis=0)[::-1]
    return TokenServers(plans, places, room, least_s, rate).take(keep)


def _unbeaten(places: Ints, costs: Floats, fits: Bools) -> Ints:
    """Servers that no other on as many GPUs beats in every cost, shape (costs, n); of equals one.

    All of them where none fits.
    """
    if not fits.any():
        return np.arange(len(places))
    keep: list[Ints] = []
    for size in np.unique(places[fits]):
        some = np.flatnonzero(fits & (places == size))
        _, first = np.unique(costs[:, some], axis=1, return_index=True)
        some = some[first]
        mine = costs[:, some]
        beaten = np.ones((len(some), len(some)), dtype=np.bool_)
        for cost in mine:
            beaten &= cost[:, None] <= cost
        np.fill_diagonal(beaten, val=False)
        keep.append(some[~beaten.any(axis=0)])
    return np.sort(np.concatenate(keep))


def _prompt_counts(search: PoolSearch) -> Ints:
    """Numbers of prefill servers that are tried."""
    if given := search.given.get("prefill"):
        return np.array([given], dtype=np.int64)
    numbers = [1]  # as there are 2 GPUs at least
    while numbers[-1] < ALL_UP_TO:
        numbers.append(numbers[-1] + 1)
    while numbers[-1] < search.gpus:
        numbers.append(int(numbers[-1] * GROWTH))
    return np.array([number for number in numbers if number < search.gpus], dtype=np.int64)


def _swept(search: PoolSearch) -> Ints:
    """Numbers of requests that are tried of each server for decode [1]."""
    if not search.swept:
        return np.ones(search.decode.plans.count, dtype=np.int64)
    return np.searchsorted(SWEEP, np.maximum(search.decode.room, 1.0), side="right")


def _front(search: PoolSearch) -> list[Timed]:
    """The best rows under the service level, and under ever shorter times per token."""
    timings: list[Timed] = []
    goal, least_s = search.goal, search.decode.steps_s[0].min()
    while goal.tpot_s is None or goal.tpot_s >= least_s:
        some = _best_under(search._replace(goal=goal))
        timings += some
        good = [timing.outcome.take(goal.meets(timing.outcome)) for timing in some]
        rates = np.concatenate([np.empty(0), *(outcome.tokens_per_s for outcome in good)])
        times_s = np.concatenate([np.empty(0), *(outcome.tpot_s for outcome in good)])
        if not len(rates):
            break
        goal = replace(goal, tpot_s=float(times_s[rates.argmax()]) / 2)
    return timings


def _best_under(search: PoolSearch) -> list[Timed]:
    """Rows in falling order of their bounds, until none is above the best."""
    bound = _pair_bound(search)
    order = np.argsort(-bound, axis=None)
    order = order[: np.count_nonzero(bound > 0)]
    timings: list[Timed] = []
    best, timed, start, end = 0.0, 0, 0, PAIRS_AT_ONCE
    while start < len(order) and bound.flat[order[start]] > best and timed < MOST:
        some = order[start:end]
        some = some[bound.flat[some] > best]
        rows, bounds = _rows(search, _pairs(some, bound), best)
        rank = np.argsort(-bounds)
        for first in range(0, len(rank), AT_ONCE):
            chosen = rank[first : first + AT_ONCE]
            chosen = chosen[bounds[chosen] > best]
            if not len(chosen):
                break
            timings.append(_timed(search, rows[:, chosen]))
            outcome = timings[-1].outcome
            rates = outcome.tokens_per_s[search.goal.meets(outcome)]
            best, timed = max(best, float(rates.max(initial=0.0))), timed + len(chosen)
        start, end = end, 2 * end
    return timings


def _pair_bound(search: PoolSearch) -> Floats:
    """Tokens a second of each pair at most, shape (prefill, decode) [1/s]."""
    case, prefill, decode = search.case, search.prefill, search.decode
    output, goal = search.output, search.goal
    held = prefill.requests(goal.ttft_s, case.stack.burst)[:, None]
    seen = prefill.least_s[:, None] + output * decode.steps_s[0]
    rate = np.minimum(prefill.within(goal.ttft_s)[:, None], held / seen)
    with np.errstate(divide="ignore"):
        prompts = prefill.places[:, None] / (search.more * output * rate)
        tokens = decode.places / (search.more * decode.within(goal.tpot_s))
    if search.swept:
        return np.asarray(search.gpus / (prompts + tokens.min(axis=0)))
    most = search.most(search.gpus // decode.places) * output
    bounds = np.zeros((prefill.plans.count, decode.plans.count))
    for level_s, level in zip(decode.steps_s, tokens, strict=True):
        seen = most / (prefill.least_s[:, None] + (output - 1) * level_s)
        np.maximum(bounds, np.minimum(search.gpus / (prompts + level), seen), out=bounds)
    return bounds


def _pairs(some: Ints, table: Floats) -> Ints:
    """Rows and columns of flat places in a table, shape (2, pairs)."""
    return np.stack(np.unravel_index(some, table.shape))


def _rows(search: PoolSearch, pairs: Ints, least: float) -> tuple[Floats, Floats]:
    """Rows of pairs whose bounds are above the ``least``, and these bounds [1/s].

    Both servers, their numbers, and requests in flight, shape (5, rows).
    """
    numbers, given = _prompt_counts(search), search.given.get("decode")
    prefill_servers = np.tile(numbers, pairs.shape[1])
    pairs = np.repeat(pairs, len(numbers), axis=1)
    left = search.gpus - prefill_servers * search.prefill.places[pairs[0]]
    others = np.maximum(left, 0) // search.decode.places[pairs[1]]
    good = others >= (given or 1)
    others = np.full_like(others, given) if given else others
    rows = np.stack([*pairs, prefill_servers, others])[:, good]
    # Tokens a second that both pools have room for at most [1/s].
    prompts = search.output * search.prefill.within(search.goal.ttft_s)[rows[0]]
    tokens = search.decode.within(search.goal.tpot_s).max(axis=0)[rows[1]]
    pools = search.more * np.minimum(prompts * rows[2], tokens * rows[3])
    rows, pools = rows[:, pools > least], pools[pools > least]
    counts = _swept(search)[rows[1]]
    index = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    rows, pools = np.repeat(rows, counts, axis=1), np.repeat(pools, counts)
    copies = search.decode.plans.attention_data[rows[1]] * rows[3]
    requests = (
        SWEEP[index] * copies if search.swept else search.most(rows[3]) * np.ones(copies.shape)
    )
    swept_rows = np.stack([*rows.astype(np.float64), requests])
    return swept_rows, np.minimum(pools, _request_bound(search, swept_rows))


def _request_bound(search: PoolSearch, rows: Floats) -> Floats:
    """Tokens a second that requests in flight have at most [1/s]."""
    first, second = rows[:2].astype(np.int64)
    output, prefill, decode = search.output, search.prefill, search.decode
    bounds, requests = np.zeros(rows.shape[1]), rows[4]
    busy_s, offered_s = prefill.busy_s[first], requests / (rows[2] * prefill.rate[first])
    burst_s = search.case.stack.burst * np.maximum(offered_s - busy_s, 0.0)
    first_s = prefill.least_s[first] + burst_s
    rates = decode.within(search.goal.tpot_s)
    for level_s, rate in zip(decode.steps_s, rates, strict=True):
        else_s = first_s + output * level_s[second]
        whole_s = else_s + loop_wait_s(busy_s, offered_s, else_s)
        seen_s = np.maximum(whole_s / search.more, first_s + (output - 1) * level_s[second])
        seen = np.minimum(requests * output / seen_s, search.more * rows[3] * rate[second])
        np.maximum(bounds, seen, out=bounds)
    if search.goal.ttft_s is not None:
        bounds[first_s > search.goal.ttft_s] = 0.0
    return bounds


def _nearest(search: PoolSearch) -> Timed:
    """Rows of the fastest servers, evenly chosen, where none keeps the service level or fits."""
    goal, prefill, decode = search.goal, search.prefill, search.decode
    late = prefill.least_s / (goal.ttft_s or np.inf)
    slow = decode.steps_s[0] / (goal.tpot_s or np.inf)
    over = np.maximum(late[:, None], slow)
    number, other = (search.given.get(pool, 1) for pool in POOLS)
    together = number * prefill.places[:, None] + other * decode.places <= search.gpus
    over = np.where(together, over, np.inf)
    some = np.argsort(over, axis=None, kind="stable")
    some = some[: min(PAIRS_AT_ONCE, np.count_nonzero(together))]
    free = search._replace(goal=replace(goal, ttft_s=None, tpot_s=None))
    rows, _ = _rows(free, _pairs(some, over), -1.0)
    step = -(-rows.shape[1] // AT_ONCE)
    return _timed(search, rows[:, ::step])


def _timed(search: PoolSearch, rows: Floats) -> Timed:
    """Time some rows."""
    first, second, prompts, tokens = rows[:4].astype(np.int64)
    pools = Pools(
        replace(search.prefill.plans.take(first), replicas=prompts),
        replace(search.decode.plans.take(second), replicas=tokens),
    )
    return Timed(rows, disaggregated(search.case, pools, rows[4]), pools)

"""Plans under a rate of requests: where each settles, what it carries, and its best one simulated.

Step times are those of `netplan.performance.serving.outcomes`: d(n) = a + b n is the decode form,
interpolated over n at the mean context (below one request it goes on as from two to one), and c a
full chunk's time over its tokens, host included. The cluster's rate X is divided over its servers;
of the copies of a server each has room for its own requests, and all step together. A plan settles
at the n whose mean field (`netplan.performance.serving.queueing`) has the rate X. The highest rate
is that of a copy full to its room, or of as many requests as leave no token of a step's budget for
prompts. To the first token are added the host's time of a prompt, and what a prompt that is alone
in its step takes beyond c P: short products, launches, and all stages but the fullest.
"""

from typing import NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Columns, Floats, Ints
from netplan.performance.serving.arrivals import RequestStream, arrivals
from netplan.performance.serving.batch import BatchOutcome, BatchServer, TimeSpread, simulate_batch
from netplan.performance.serving.outcomes import (
    Goal,
    Prefill,
    ServingCase,
    ServingResult,
    decode_steps,
    loading_s,
    prefills,
    prompt_parts,
    spill_s,
    token_parts,
)
from netplan.performance.serving.plans import ServingPlans
from netplan.performance.serving.queueing import MeanField, held_rate, mean_field, saturated
from netplan.records import replace

LEVELS = np.array(
    [0, 1, 2, 3, 4, 6, *((2 + half) << power for power in range(2, 20) for half in (0, 1))],
    dtype=np.float64,
)
"""Requests of a copy at which steps are timed; between them they are interpolated [1]."""
FEWEST, CLOSE, TINY, TRIES = 1e-12, 1e-9, 1e-300, 60
"""Requests of a copy at least, errors of a rate that are none, the least number [1]; tries."""
HALVINGS = 12
"""Halvings until requests that keep a service level are known to a thousandth [1]."""
TIER_DRAWS = 1
"""Stream of random numbers by which tiers are drawn, apart from that of arrivals [1]."""
REQUESTS = 20_000
"""Requests that are simulated where nothing else is said [1]."""


class Arrivals(Struct, frozen=True, eq=False):
    """How requests come.

    Parameters
    ----------
    rate
        Requests a second in the whole cluster, X [1/s].
    burstiness
        Shape of gaps, as of `netplan.performance.serving.arrivals.arrivals` [1].
    trace
        Requests of a trace in place of drawn ones.
    requests
        How many are simulated, all of a trace if None [1].
    seed
        Of all that is drawn.
    """

    rate: float
    burstiness: float = 1.0
    trace: RequestStream | None = None
    requests: int | None = None
    seed: int = 1


class PlanSteps(Columns, frozen=True, eq=False):
    """Times of some plans' steps, at `LEVELS` of requests on the first axis, plans on the second.

    Parameters
    ----------
    plans
        The plans.
    decode_s
        d(n) [s].
    prompt
        A prompt of each: its latency, what it takes of the fullest stage, c P [s].
    most
        Requests of a copy at most: by room, and by a step's budget [1].
    tokens
        Tokens that a request gets of a step [1].
    """

    plans: ServingPlans
    decode_s: Floats
    prompt: Prefill
    most: Floats
    tokens: float = 1.0

    @property
    def levels(self) -> Floats:
        """Requests of a copy that were timed [1]."""
        return LEVELS[: len(self.decode_s)]

    def decode_times(self, decoding: Floats) -> Floats:
        """d(n) of each plan at its own n [s]."""
        upper = np.clip(np.searchsorted(self.levels, decoding), 1, len(self.levels) - 1)
        low, high = LEVELS[upper - 1], LEVELS[upper]
        columns = np.arange(self.plans.count)
        share = (decoding - low) / (high - low)
        below, above = self.decode_s[upper - 1, columns], self.decode_s[upper, columns]
        return np.asarray(below + share * (above - below))

    def field(self, decoding: Floats, output: float) -> MeanField:
        """The mean field of one server of each plan with so many requests a copy."""
        return mean_field(
            decoding, self.decode_times(decoding), self.prompt.each_s, **self._of(output)
        )

    def rate(self, decoding: Floats, output: float) -> Floats:
        """Requests a second that keep so many in a copy of one server [1/s]."""
        return held_rate(
            decoding, self.decode_times(decoding), self.prompt.each_s, **self._of(output)
        )

    def _of(self, output: float) -> dict[str, Amount]:
        """Steps of an answer, and copies."""
        copies = self.plans.attention_data.astype(np.float64)
        return {"steps": answer_steps(output, self.tokens), "copies": copies}

    def holding(self, rate: Floats, output: float) -> Floats:
        """Requests a copy at which one server of each plan has a rate, at most those it may have.

        By false position on the logarithms of both, which are nearly in proportion: where one end
        stays twice its weight is halved (Dowell and Jarratt, BIT 11, 1971).
        """
        ends = np.log(np.stack([np.full(rate.shape, FEWEST), np.maximum(self.most, 1.0)]))
        miss = np.stack([np.log(self.rate(np.exp(end), output) / rate) for end in ends])
        for _ in range(TRIES):
            between = ends[1] - miss[1] * (ends[1] - ends[0]) / (miss[1] - miss[0])
            off = np.log(self.rate(np.exp(between), output) / rate)
            if (np.abs(off) < CLOSE).all():
                break
            crossed = off * miss[1] < 0
            ends[0] = np.where(crossed, ends[1], ends[0])
            miss[0] = np.where(crossed, miss[1], miss[0] / 2)
            ends[1], miss[1] = between, np.where(off == 0, TINY, off)
        return np.asarray(np.minimum(np.exp(between), np.maximum(self.most, 1.0)))


def answer_steps(output: float, tokens: float) -> float:
    """Steps that an answer takes, its first token included [1]."""
    return 1 + (output - 1) / tokens if output > 1 else 1.0


def plan_steps(case: ServingCase, plans: ServingPlans) -> PlanSteps:
    """Steps of plans at all levels of requests."""
    tokens = case.speculated.tokens if case.speculated else 1.0
    room = np.maximum(case.held(plans).room(case.room_bytes), 0.0)
    per_request = 1 + np.asarray(case.worked) / answer_steps(float(case.requests.output), tokens)
    budget = np.maximum(case.stack.chunk_tokens / per_request, 1.0)
    most = np.minimum(np.minimum(room, budget), LEVELS[-1])
    tried = LEVELS[1 : max(3, int(np.searchsorted(LEVELS, most.max(initial=0.0))) + 1)]
    levels = np.repeat(tried, plans.count)
    tiled = plans.take(np.tile(np.arange(plans.count), len(tried)))
    token_s = decode_steps(case, tiled, levels).step_s
    token_s = token_s + spill_s(case, tiled, case.held(tiled), levels)
    steps = (tokens * token_s).reshape(len(tried), plans.count)
    none = np.maximum(2 * steps[0] - steps[1], 0.0)
    decode_s = np.maximum.accumulate(np.stack([none, *steps]), axis=0)
    prompt = prefills(case, plans, np.full(plans.count, np.inf))
    prompt = replace(prompt, each_s=prompt.each_s + case.chunks * case.launch_s)
    return PlanSteps(plans, decode_s, prompt, most, tokens)


class UnderLoad(NamedTuple):
    """Plans under a rate: what carries it, settled, and what of the cluster it takes at least.

    Parameters
    ----------
    result
        Outcomes of the plans that carry the rate.
    highest_rate
        Requests a second of the best plan of all [1/s].
    server_rate
        Requests a second that one server of each plan in ``result`` carries [1/s].
    steps
        Times of these plans.
    """

    result: ServingResult
    highest_rate: float
    server_rate: Floats
    steps: PlanSteps

    def least_gpus(self, case: ServingCase, good: Ints, goal: Goal, *, met: bool) -> int:
        """GPUs of the fewest servers that carry the rate of a goal, of some of the plans [1].

        Where these have ``met`` its service level, fewer servers do, too: each holds as many
        requests as keep it, found by halving the logarithm.
        """
        steps, servers = self.steps.take(good), self.server_rate[good]
        output = float(case.requests.output)
        if met:
            low = np.log(np.maximum(self.result.in_flight[good], FEWEST))
            high = np.log(np.maximum(steps.most, 1.0))
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                first_s, token_s = seen_s(case, steps, np.exp(middle))
                kept = (first_s <= (goal.ttft_s or np.inf)) & (token_s <= (goal.tpot_s or np.inf))
                low, high = np.where(kept, middle, low), np.where(kept, high, middle)
            servers = np.minimum(servers, steps.rate(np.exp(low), output))
        needed = np.ceil((goal.rate or 0.0) / servers)
        needed += needed * servers <= (goal.rate or 0.0)
        # What all servers hold is known to be carried.
        needed = np.minimum(needed, steps.plans.replicas)
        return int((needed * steps.plans.server_gpus).min())


def under_load(case: ServingCase, plans: ServingPlans, rate: float) -> UnderLoad:
    """Where plans settle whose servers all take prompts and decode (rules of this module).

    Raises
    ------
    InfeasibleError
        If no plan carries the rate: with the highest rate that one does.
    """
    output = float(case.requests.output)
    steps = plan_steps(case, plans)
    fits = steps.most >= 1
    servers = plans.replicas.astype(np.float64)
    highest = np.where(fits, steps.rate(steps.most, output), 0.0)
    for tier in case.tiers:
        highest = np.minimum(highest, tier.most_rate(case.stored_bytes, plans.server_gpus))
    carried = np.flatnonzero(servers * highest > rate)
    if fits.any() and not len(carried):
        raise saturated(rate, float((servers * highest).max()))
    if not len(carried):  # nothing fits, which the caller says
        carried = np.arange(plans.count)
    steps = steps.take(carried)
    decoding = steps.holding(rate / servers[carried], output)
    result = settled(case, steps, decoding, rate)
    return UnderLoad(result, float((servers * highest).max()), highest[carried], steps)


def settled(case: ServingCase, steps: PlanSteps, decoding: Floats, rate: float) -> ServingResult:
    """What requests see of plans that hold so many requests a copy at a rate."""
    plans, output = steps.plans, case.requests.output
    first_s, tpot_s = seen_s(case, steps, decoding)
    in_flight = np.maximum(decoding, 1.0)
    decode_s = steps.decode_times(in_flight)
    held = case.held(plans)
    decode = decode_steps(case, plans, in_flight)
    parts = token_parts(decode, spill_s(case, plans, held, in_flight))
    whole_s = sum(parts.values())
    parts = {name: part * decode_s / steps.tokens / whole_s for name, part in parts.items()}
    alone_s = steps.prompt.latency_s
    host_s = case.stack.prompt_s + np.maximum(np.asarray(case.chunks), 1.0) * case.launch_s
    host_s = np.broadcast_to(host_s, alone_s.shape)
    return ServingResult(
        plans=plans,
        concurrency=rate * (first_s + (float(output) - 1) * tpot_s),
        in_flight=decoding,
        ttft_s=first_s,
        tpot_s=tpot_s,
        queue_s=np.maximum(first_s - alone_s - host_s, 0.0),
        memory_bytes=held.of(in_flight),
        parts=parts | {"prefill": np.maximum(tpot_s - decode_s / steps.tokens, 0.0)},
        prompt_parts=prompt_parts(
            steps.prompt.parts, host=host_s, queue=np.maximum(first_s - alone_s - host_s, 0.0)
        ),
        fits=held.room(case.room_bytes) >= 1,
        output=output,
    )


def seen_s(case: ServingCase, steps: PlanSteps, decoding: Floats) -> tuple[Floats, Floats]:
    """Times to a first token and of each further one, with so many requests a copy [s]."""
    field = steps.field(decoding, float(case.requests.output))
    more_s = np.maximum(np.asarray(case.chunks) - 1, 0.0) * steps.decode_times(decoding)
    more_s = more_s + loading_s(case, steps.plans, steps.prompt) + added_s(case, steps)
    # Whoever waits for a token is in the step: it takes no less than a request alone.
    step_s = np.maximum(field.step_s, steps.decode_times(np.ones_like(decoding)))
    return np.asarray(field.first_s) + more_s, step_s / steps.tokens


def added_s(case: ServingCase, steps: PlanSteps) -> Floats:
    """What no step holds of the time to a first token (last sentence of this module) [s]."""
    alone_s = steps.prompt.latency_s + np.maximum(np.asarray(case.chunks), 1.0) * case.launch_s
    return np.asarray(case.stack.prompt_s + np.maximum(alone_s - steps.prompt.each_s, 0.0))


class SimulatedLoad(Struct, frozen=True):
    """What requests of one server see, simulated; rates and numbers are those of the cluster.

    Parameters
    ----------
    requests, servers
        That were simulated, on how many servers [1].
    batch
        What was simulated: a = d(0), b in the mean up to ``slots`` requests, c, room, budget,
        copies, tokens of a step, and what is added to first tokens.
    ttft_s, tpot_s
        Their times [s].
    tokens_per_s
        Of all servers [1/s].
    in_system, little
        Requests in the system, counted over time and by Little's law [1].
    saturated_share
        Share of time in which somebody waits for room in the cache or in a step [1].
    steps
        Steps of the simulation [1].
    """

    requests: int
    servers: int
    batch: dict[str, float]
    ttft_s: TimeSpread
    tpot_s: TimeSpread
    tokens_per_s: float
    in_system: float
    little: float
    saturated_share: float
    steps: int


def batch_server(case: ServingCase, plan: ServingPlans, most: int) -> tuple[BatchServer, float]:
    """One server of a plan as a batch of at most so many requests a copy, and what is added [s]."""
    steps = plan_steps(case, plan)
    slots = int(max(1.0, min(steps.most[0], most)))
    room = int(max(1.0, case.held(plan).room(case.room_bytes)[0]))
    requests = np.arange(slots + 1, dtype=np.float64)
    server = BatchServer(
        np.interp(requests, steps.levels, steps.decode_s[:, 0]),
        float(steps.prompt.each_s[0]) / float(case.worked),
        min(room, most),
        int(case.stack.chunk_tokens),
        int(plan.attention_data[0]),
        steps.tokens,
    )
    return server, float(added_s(case, steps)[0])


def simulate_load(case: ServingCase, plan: ServingPlans, load: Arrivals) -> SimulatedLoad:
    """Simulate one plan under requests as they come.

    Of drawn arrivals one server is simulated, with its share of the rate; a trace is dealt to all
    servers in turn, and all of them are.

    Parameters
    ----------
    case
        What is served.
    plan
        One plan.
    load
        How requests come.
    """
    servers = int(plan.replicas[0])
    streams = _streams(case, load, servers)
    most = max(len(stream.arrival_s) for stream in streams)
    server, extra_s = batch_server(case, plan, most)
    prompt = prefills(case, plan, np.ones(1))
    generator = np.random.default_rng((load.seed, TIER_DRAWS))
    outcomes = []
    for stream in streams:
        ready, arrival_s = stored(case, plan, stream, work_s=prompt.rest_s, draws=generator)
        outcomes.append(replace(simulate_batch(ready, server), arrival_s=arrival_s))
    summary = _summary(outcomes, servers, extra_s)
    held = len(server.decode_s) - 1
    batch = {
        "step_s": float(server.decode_s[0]),
        "request_s": float(server.decode_s[-1] - server.decode_s[0]) / max(held, 1),
        "prompt_token_s": server.prompt_token_s,
        "slots": server.slots,
        "chunk": server.chunk,
        "copies": server.copies,
        "step_tokens": server.tokens,
        "first_added_s": extra_s,
    }
    return replace(summary, batch=batch)


def _streams(case: ServingCase, load: Arrivals, servers: int) -> list[RequestStream]:
    """Requests of each server that is simulated."""
    if load.trace is None:
        times_s = arrivals(
            load.rate / servers, load.requests or REQUESTS, load.seed, load.burstiness
        )
        prompt, output = int(case.requests.prompt), int(case.requests.output)
        return [RequestStream.of(times_s, prompt=prompt, output=output)]
    trace = load.trace.first(load.requests)
    return [trace.dealt(index, servers) for index in range(min(servers, len(trace.arrival_s)))]


def stored(
    case: ServingCase,
    plan: ServingPlans,
    stream: RequestStream,
    *,
    work_s: Floats,
    draws: np.random.Generator,
) -> tuple[RequestStream, Floats]:
    """Requests with what of their prompts is left to compute, when their caches are there.

    Parameters
    ----------
    case, plan
        What is served, by one plan.
    stream
        Requests with their whole prompts.
    work_s
        Of the rest of a prompt, beside which its cache comes, shape (1,) [s].
    draws
        Draws which tier has the prefix of each request, or none.

    Returns
    -------
    RequestStream
        In the order in which they are ready, prompts without what some tier has.
    ndarray of float, shape (requests,)
        When each of them came [s].
    """
    if not case.prefix_share:
        return stream, stream.arrival_s
    count, gpus = len(stream.arrival_s), plan.tensor * plan.pipeline
    hits, ready_s = np.ones(count, dtype=np.bool_), stream.arrival_s
    if case.tiers:
        last = np.cumsum([tier.hit for tier in case.tiers])
        tier_of = np.searchsorted(last, draws.random(count), side="right")
        hits = tier_of < len(case.tiers)
        waits_s = np.zeros(count)
        for index, tier in enumerate(case.tiers):
            some = tier_of == index
            longer = stream.prompt[some] / float(case.requests.prompt)
            waits_s[some] = tier.added_s(case.stored_bytes * longer, gpus, work_s * longer)
        ready_s = stream.arrival_s + waits_s
    rest = np.maximum(np.round(stream.prompt * (1 - case.prefix_share)), 1).astype(np.int64)
    order = np.argsort(ready_s, kind="stable")
    worked: Ints = np.where(hits, rest, stream.prompt)[order]
    return RequestStream(ready_s[order], worked, stream.output[order]), stream.arrival_s[order]


def _summary(outcomes: list[BatchOutcome], servers: int, extra_s: float) -> SimulatedLoad:
    """What servers give together; one stands for all if one was simulated."""
    began = min(float(outcome.arrival_s.min()) for outcome in outcomes)
    span_s = max(float(outcome.last_s.max()) for outcome in outcomes) - began
    alike = servers if len(outcomes) == 1 else 1
    tokens = sum(int(outcome.output.sum()) for outcome in outcomes)
    sojourn_s = sum(float(outcome.sojourn_s.sum()) for outcome in outcomes)
    present_s = sum(outcome.in_system * outcome.span_s for outcome in outcomes)
    return SimulatedLoad(
        requests=sum(len(outcome.arrival_s) for outcome in outcomes),
        servers=len(outcomes),
        batch={},
        ttft_s=TimeSpread.of(np.concatenate([outcome.ttft_s for outcome in outcomes]) + extra_s),
        tpot_s=TimeSpread.of(np.concatenate([outcome.tpot_s for outcome in outcomes])),
        tokens_per_s=alike * tokens / span_s,
        in_system=alike * present_s / span_s,
        little=alike * sojourn_s / span_s,
        saturated_share=sum(outcome.full_s for outcome in outcomes) / (len(outcomes) * span_s),
        steps=sum(outcome.steps for outcome in outcomes),
    )

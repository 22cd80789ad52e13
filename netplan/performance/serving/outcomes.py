"""What requests see of serving plans: time to first token, time per token, throughput.

All servers of an *aggregated* cluster take prompts and generate tokens. With B requests of one copy
of attention in flight, prompts of S tokens and R tokens of output, a pipeline of p stages

    t_d     = one step of decode with B requests, host time included: step_s + B token_s, and
              sparse_step_s of each layer with experts
    t_p     = one prompt alone, on all copies at once
    n       = S / chunk, steps that a prompt is cut into
    TPOT    = t_d + (B - 1) (t_p / p + n host) / R
    TTFT    = prompt_s + t_p + max(n, 1) (host + wait t_d)
              + burst (B - 1) (t_p / p + n (host + wait t_d)) + queue

The B requests are dealt out over the stages, so that t_d is the time of a pass through all of them,
or min(B, p) times that of the fullest, if that is longer. The prompts of others count since between
two of its tokens a request sees the prompts of all others that end meanwhile, and since requests
come in bursts. Parameters are those of the serving stack. What the cache has no room for waits in a
*queue* for as long as requests take: (B / room - 1) (TTFT + (R - 1) TPOT).

Copies of attention that share experts step together. Each of D copies starts X prompts a step,
Poisson of mean l = B / R, at most c = max(1, floor(chunk / P)), so that the busiest one starts

    E = sum over k = 0 ... c - 1 of (1 - F(k; l)^D),    F the Poisson distribution

in the mean, and where prompts are shorter than a chunk TPOT grows by s (E - min(l, c)) tau: tau the
time of a prompt without its routed experts, which all copies share, E of them computed together; s
the stack's ``lockstep``, as copies whose requests are of equal length stay in step.

A *finite* number of N requests comes all at once and is served in waves of C, what is asked for or
the room at most. With T(c) = TTFT + (R - 1) TPOT of c in flight it takes

    floor(N / C) T(C) + T(N - C floor(N / C)),    the last if something is left.

A *disaggregated* cluster has pools of servers: prompts wait for one of the servers of the prefill
pool, and their cache is handed to the decode pool: transfer_s and the time of its bytes. In a
closed loop of C requests W solves W = s rho / (2 (1 - rho)), rho = C s' / (W + all else), the wait
before one server of fixed time s (Pollaczek and Khinchine), s' its share of s a request. A decode
pool whose cache is full lets requests in as others end, which takes C / (room copies) - 1 times
(R - 1) TPOT, prompts and waits before them included.

What is asked of a cluster that serves: requests in flight, and a service level.
"""

from math import ceil
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Bools, Columns, Floats
from netplan.errors import InputError
from netplan.performance.serving import server
from netplan.performance.serving.plans import Runnable, ServingPlans, engine_degrees
from netplan.performance.serving.tiers import KvTier
from netplan.performance.stacks import ServingStack
from netplan.records import replace
from netplan.units import si
from netplan.workloads.inference import Cut, ServingStep, cached_bytes


class Requests(Struct, frozen=True, eq=False):
    """What every request asks for, of all plans alike or of each [tokens]."""

    prompt: Amount
    output: Amount

    @property
    def tokens(self) -> Amount:
        """Prompt and output together [1]."""
        return self.prompt + self.output


class ServingCase(Struct, frozen=True, eq=False):
    """What is served: a model on kernels and levels, by a stack, in a memory.

    ``older_months`` are those by which the software is older than the stack's; ``prefix_share`` is
    what of each prompt ``tiers`` may have, which lie in the HBM unnamed where there are none.
    """

    served: server.ServingTimes
    stack: ServingStack
    requests: Requests
    memory_bytes: float
    memory_bytes_per_s: float
    expanded_bytes: float = 0.0
    expanded_bytes_per_s: float = 0.0
    speculated: server.Speculated | None = None
    older_months: int = 0
    prefix_share: float = 0.0
    tiers: tuple[KvTier, ...] = ()

    @property
    def hits(self) -> float:
        """Share of requests whose prefix some tier has; all where no tiers are named [1]."""
        return sum(tier.hit for tier in self.tiers) if self.tiers else 1.0

    @property
    def worked(self) -> Amount:
        """Tokens of a prompt that are computed, those whose cache is not there [1]."""
        share = self.prefix_share * self.hits
        return self.requests.prompt * (1 - share) if share else self.requests.prompt

    @property
    def stored_bytes(self) -> float:
        """Cache that a request reads of a tier that has its prefix, all layers and heads [B]."""
        served, tokens = self.served, self.prefix_share * float(self.requests.prompt)
        formats = served.formats
        kept = cached_bytes(
            served.model, Cut.of(1), tokens, formats.cache_bytes, formats.window_cache
        )
        return float(kept[0])

    @property
    def fast_bytes(self) -> float:
        """What weights and cache may fill of a GPU's own memory [B]."""
        return self.stack.memory_share * self.memory_bytes

    @property
    def room_bytes(self) -> float:
        """The same with the expanded memory [B]."""
        stored = sum(tier.size_bytes for tier in self.tiers if tier.name == "hbm")
        return self.fast_bytes + self.expanded_bytes - stored

    @property
    def untried(self) -> tuple[str, ...]:
        """Why no measured server is like it, a sentence each; none if some are."""
        served, reasons = self.served, list[str]()
        if served.kernels.source == "roofline":
            reasons.append(
                "Kernels take the longer of FLOPs at the peak and bytes at the memory's bandwidth,"
                " and collectives rings at the links' rates: nothing of it was measured."
            )
        elif not served.kernels.is_measured:
            reasons.append(
                f"No kernels of {served.kernels.accelerator.name} were measured: medians of other"
                " GPUs stand in, and error bars are wider."
            )
        if served.model.mamba is not None:
            reasons.append(
                "No server of a hybrid was measured, nor the scans of Mamba: error bars are wider."
            )
        return tuple(reasons)

    @property
    def launch_s(self) -> float:
        """Host time of a step with prompts, of all layers [s]."""
        return self.served.model.expert_layers * self.stack.sparse_layer_s

    @property
    def step_s(self) -> float:
        """Host time of a step of decode, of all layers [s]."""
        return self.stack.step_s + self.served.model.expert_layers * self.stack.sparse_step_s

    @property
    def chunks(self) -> Amount:
        """Steps that one prompt is cut into, a fraction of one where several share it [1]."""
        return self.worked / self.stack.chunk_tokens

    def decodes(self, sequences: Amount, tokens: float = 1.0) -> ServingStep:
        """A step of decode with so many requests, half of their output behind them."""
        context = self.requests.prompt + self.requests.output / 2
        return ServingStep("decode", sequences, tokens, context)

    def prompts(self, sequences: Amount = 1.0) -> ServingStep:
        """So many prompts at once, which attend to what of them is in the cache, too.

        A causal pass of q tokens over S counts S/2 keys each; the last q of S see S - q/2.
        """
        seen = 2 * self.requests.prompt - self.worked
        return ServingStep("prefill", sequences, self.worked, seen)

    def runnable(self, exchange: str | None = None) -> Runnable | None:
        """Plans that the stack runs, by an exchange; None where its file names no engine.

        A plan that nobody fixes has one stage, or as many as the weights need HB domains:
        ceil(weights / (GPUs of a domain x room of a GPU)).
        """
        if self.stack.engine is None:
            return None
        node, degree = self.served.sizes[0], np.ones(1, dtype=np.int64)
        weights = float(self.held(ServingPlans(*[degree] * 5)).weights[0])
        stages = frozenset({1, ceil(weights / (node * self.room_bytes))})
        exchanged = exchange if exchange and self.served.model.experts else ""
        degrees = engine_degrees(self.stack.engine, exchanged)
        return Runnable(self.stack.name, degrees, self.served.model, node, stages)

    def held(self, plans: ServingPlans) -> server.HeldBytes:
        """What GPUs hold."""
        served, tokens = self.served, self.requests.tokens
        held = server.held_bytes(served.model, plans, served.formats, tokens)
        return held + self.speculated.held(plans, tokens) if self.speculated else held


class Decode(NamedTuple):
    """Steps of decode of many plans: time of a token, what of it the host takes, the rest [s]."""

    step_s: Floats
    host_s: Floats
    parts: server.StepTime


class Prefill(Columns, frozen=True, eq=False):
    """Prompts of many plans: latency of one, what each takes of every stage, and parts [s].

    ``rest_s`` is the latency of one whose prefix some tier has; hits and misses are mixed before.
    """

    latency_s: Floats
    each_s: Floats
    parts: server.StepTime
    rest_s: Floats


def decoded_at_once(plans: ServingPlans, in_flight: Floats) -> Floats:
    """Requests of a copy in one stage, a stage having others than the next; one at least [1]."""
    return np.asarray(np.maximum(in_flight / plans.pipeline, 1.0))


def decode_steps(case: ServingCase, plans: ServingPlans, in_flight: Floats) -> Decode:
    """Steps in which every copy decodes so many requests, a token of each; shape (plans,).

    With speculation a step is drafted first and gives several tokens; it counts as so many shorter
    ones.
    """
    sequences, drafts = decoded_at_once(plans, in_flight), case.speculated
    checked = float(drafts.checked) if drafts else 1.0
    parts, stage_s = server.model_pass(case.served, plans, case.decodes(sequences, checked))
    if drafts is not None:
        drafted = drafts.drafted(plans, case.decodes(sequences))
        parts, stage_s = parts + drafted, stage_s + drafted.seconds
    # A stage has its next turn when all groups of requests had theirs, one a stage at most.
    seconds = np.maximum(parts.seconds, np.clip(in_flight, 1.0, plans.pipeline) * stage_s)
    tokens = drafts.tokens if drafts else 1.0
    host_s = case.step_s / tokens + case.stack.token_s * in_flight
    return Decode(seconds / tokens + host_s, host_s, parts * (1 / tokens))


def prefills(case: ServingCase, plans: ServingPlans, waiting: Floats) -> Prefill:
    """Prompts of the case on all copies at once: one alone, and of so many that wait together.

    As many prompts as fill a chunk share a step, so that weights are read once for all of them.
    """
    together = np.clip(1 / case.chunks, 1.0, np.maximum(waiting, 1.0))
    alone = _prompt(case, plans, np.ones(plans.count))
    shared = _prompt(case, plans, together)
    rest_s = alone.latency_s
    if case.tiers and case.hits < 1:
        rest_s = _prompt(replace(case, tiers=()), plans, np.ones(plans.count)).latency_s
    return Prefill(alone.latency_s, shared.each_s / together, alone.parts, rest_s)


def _prompt(case: ServingCase, plans: ServingPlans, sequences: Floats) -> Prefill:
    """So many prompts in one step of each copy."""
    parts, stage_s = server.model_pass(case.served, plans, case.prompts(sequences))
    drafts = case.speculated
    more_s = drafts.prompt_s(plans, case.prompts(sequences)) if drafts else 0.0
    parts = replace(parts, seconds=parts.seconds + more_s, memory_s=parts.memory_s + more_s)
    return Prefill(parts.seconds, stage_s + more_s, parts, parts.seconds)


def busiest_start(mean: Floats, most: Floats, copies: Floats) -> Floats:
    """Prompts that the busiest of some copies starts in a step, in the mean [1].

    The sum over k below ``most`` of 1 - F(k)^D (formulas of this module).

    Parameters
    ----------
    mean
        Prompts that each of them starts in a step [1].
    most
        What one starts at most [1].
    copies
        How many they are, D [1].

    Examples
    --------
    One copy starts what it starts in the mean, many of them what they can: 1 - exp(-1/2) of one,
    and 1 - exp(-4) of eight.

    >>> half, once = np.array([0.5, 0.5]), np.array([1.0, 1.0])
    >>> busiest_start(half, once, np.array([1.0, 8.0])).round(4)
    array([0.3935, 0.9817])
    """
    log_mean = np.log(np.maximum(mean, TINY))
    log_share, below = -np.asarray(mean, dtype=np.float64), np.zeros(mean.shape)
    started = np.zeros(mean.shape)
    for k in range(int(most.max(initial=0.0))):
        below = np.minimum(below + np.exp(log_share), 1.0)
        more = np.where(k < most, 1 - below**copies, 0.0)
        started = started + more
        if more.max() < TINY:
            break
        log_share = log_share + log_mean - np.log(k + 1)
    return started


TINY = 1e-12
"""Share of steps that nobody notices [1]."""


def lockstep_s(case: ServingCase, plans: ServingPlans, in_flight: Floats) -> Floats:
    """What a token takes longer since copies that share experts wait for the busiest one [s]."""
    stack = case.stack
    share = 0.0 if stack.balance else stack.lockstep
    prompt, output, waits_s = case.worked, case.requests.output, np.zeros(in_flight.shape)
    wait = np.broadcast_to(prompt < stack.chunk_tokens, in_flight.shape) & (
        plans.attention_data > 1
    )
    if not share or not wait.any():
        return waits_s
    tokens = case.speculated.tokens if case.speculated else 1.0
    copies = plans.attention_data.astype(np.float64)
    most = np.broadcast_to(np.maximum(np.floor(stack.chunk_tokens / prompt), 1.0), in_flight.shape)
    mean = in_flight * tokens / output
    busiest = busiest_start(mean, most, copies)
    wait = wait & (busiest > np.minimum(mean, most))
    chosen = np.flatnonzero(wait)
    if not len(chosen):
        return waits_s
    together = np.clip(busiest, 1.0, most)
    step = case.prompts(together)
    here, now = plans.take(chosen), step.take(chosen)
    each_s = server.model_pass(case.served, here, now, routed=False)[1] / together[chosen]
    beyond = busiest[chosen] - np.minimum(mean, most)[chosen]
    waits_s[chosen] = share * beyond * each_s / tokens
    return waits_s


class ServingResult(Columns, frozen=True, eq=False):
    """What plans give, one entry each.

    Parameters
    ----------
    plans
        The plans.
    concurrency
        Requests in flight in the whole cluster [1].
    in_flight
        Requests of one copy that decode together [1].
    ttft_s, tpot_s
        Time to first token, time per token after it [s].
    queue_s
        What of the former requests wait for room [s].
    memory_bytes
        What one GPU holds [B].
    parts
        Of a token: computing, reading memory, sending, host, prompts of others, by name [s].
    fits
        Whether weights and a request of each copy have room.
    output
        Tokens of an answer [1].
    run_rate
        Tokens of output over the whole time of a finite number of requests, if there is one [1/s].
    """

    plans: ServingPlans
    concurrency: Floats
    in_flight: Floats
    ttft_s: Floats
    tpot_s: Floats
    queue_s: Floats
    memory_bytes: Floats
    parts: dict[str, Floats]
    prompt_parts: dict[str, Floats]
    fits: Bools
    output: Amount
    run_rate: Floats | None = None

    @property
    def request_s(self) -> Floats:
        """A request from its start to its last token [s]."""
        return np.asarray(self.ttft_s + (self.output - 1) * self.tpot_s)

    @property
    def tokens_per_s(self) -> Floats:
        """Tokens of output of the whole cluster [1/s]."""
        if self.run_rate is not None:
            return self.run_rate
        return self.concurrency * self.output / self.request_s


def aggregated(case: ServingCase, plans: ServingPlans, concurrency: Amount) -> ServingResult:
    """What plans give whose servers all take prompts and decode (formulas of this module)."""
    stack, output = case.stack, case.requests.output
    wanted = np.broadcast_to(np.asarray(concurrency, dtype=np.float64), plans.tensor.shape)
    per_copy = np.maximum(wanted / (plans.replicas * plans.attention_data), 1.0)
    held = case.held(plans)
    room = np.maximum(held.room(case.room_bytes), 1.0)
    in_flight = np.minimum(per_copy, room)
    memory_bytes = held.of(in_flight)
    decode, prompt = decode_steps(case, plans, in_flight), prefills(case, plans, in_flight)
    spilled_s = spill_s(case, plans, held, in_flight)
    step_s = decode.step_s + spilled_s
    launch_s, chunks = case.launch_s, case.chunks
    others_s = (in_flight - 1) * (prompt.each_s + chunks * launch_s) / output
    others_s = others_s + lockstep_s(case, plans, in_flight)
    tpot_s = step_s + others_s
    tokens = case.speculated.tokens if case.speculated else 1.0
    pause_s = launch_s + stack.decode_wait * tokens * step_s
    burst_s = stack.burst * (in_flight - 1) * (prompt.each_s + chunks * pause_s)
    start_s = stack.prompt_s + np.maximum(chunks, 1.0) * pause_s
    first_s = start_s + prompt.latency_s + burst_s + loading_s(case, plans, prompt)
    queue_s = np.maximum(per_copy / room - 1, 0.0) * (first_s + (output - 1) * tpot_s)
    return ServingResult(
        plans=plans,
        concurrency=np.array(wanted),
        in_flight=in_flight,
        ttft_s=first_s + queue_s,
        tpot_s=tpot_s,
        queue_s=queue_s,
        memory_bytes=memory_bytes,
        parts=token_parts(decode, spilled_s) | {"prefill": others_s},
        prompt_parts=prompt_parts(prompt.parts, host=start_s, queue=burst_s + queue_s),
        fits=held.room(case.room_bytes) >= 1,
        output=output,
    )


def finite_waves(
    case: ServingCase, plans: ServingPlans, requests: Amount, concurrency: Amount = np.inf
) -> ServingResult:
    """What plans give of a finite number of requests that come all at once, in waves.

    Parameters
    ----------
    case
        What is served.
    plans
        Plans whose servers all take prompts and decode.
    requests
        How many, of the whole cluster [1].
    concurrency
        What of them is in flight at most, if the memory has room for it [1].

    Returns
    -------
    ServingResult
        Times of a full wave, and tokens a second of the whole run.
    """
    copies = plans.replicas * plans.attention_data
    every = np.broadcast_to(np.asarray(requests, dtype=np.float64), copies.shape)
    room = np.maximum(case.held(plans).room(case.room_bytes), 1.0) * copies
    waved = np.minimum(np.minimum(every, room), concurrency)
    waves = np.floor(every / waved)
    left = every - waves * waved
    full = aggregated(case, plans, waved)
    last_s = np.where(left > 0, aggregated(case, plans, np.maximum(left, 1.0)).request_s, 0.0)
    run_rate = every * case.requests.output / (waves * full.request_s + last_s)
    return replace(full, run_rate=run_rate)


def loading_s(case: ServingCase, plans: ServingPlans, prompt: Prefill) -> Floats:
    """What reading caches of tiers adds to a first token, in the mean of all requests [s]."""
    gpus, added_s = plans.tensor * plans.pipeline, np.zeros(plans.count)
    for tier in case.tiers:
        added_s += tier.hit * tier.added_s(case.stored_bytes, gpus, prompt.rest_s)
    return added_s


def token_parts(decode: Decode, spilled_s: Floats | float = 0.0) -> dict[str, Floats]:
    """Parts of a token's time; what stages wait for the fullest one counts as their own work."""
    parts = decode.parts
    waits = (decode.step_s - decode.host_s) / parts.seconds
    return {
        "compute": parts.compute_s * waits,
        "memory": parts.memory_s * waits + spilled_s,
        "network": parts.network_s * waits,
        "host": decode.host_s,
    }


def prompt_parts(parts: server.StepTime, *, host: Amount, queue: Floats) -> dict[str, Floats]:
    """Parts of the time to the first token."""
    return {
        "compute": parts.compute_s,
        "memory": parts.memory_s,
        "network": parts.network_s,
        "host": np.broadcast_to(host, queue.shape),
        "queue": queue,
    }


def spill_s(
    case: ServingCase, plans: ServingPlans, held: server.HeldBytes, in_flight: Floats
) -> Floats:
    """What a token takes longer since some of what is read lies in the expanded memory [s].

    Caches go there first, then weights of the model rather than of its draft, which is read more
    often. On its way through all stages a token waits for all of their weights, and in each for the
    caches of those that it is decoded with; what one step gives shares its reading.
    """
    if not case.expanded_bytes:
        return np.zeros(in_flight.shape)
    weights = np.maximum(held.weights - case.fast_bytes, 0.0)
    caches = np.maximum(held.of(in_flight) - case.fast_bytes, 0.0) - weights
    share = decoded_at_once(plans, in_flight) / in_flight
    slower = max(1 / case.expanded_bytes_per_s - 1 / case.memory_bytes_per_s, 0.0)
    tokens = case.speculated.tokens if case.speculated else 1.0
    read_bytes: Floats = plans.pipeline * (weights + share * caches) / tokens
    return read_bytes * slower


USUAL_TTFT_S, USUAL_TPOT_S = 2.0, 0.05
"""Level of a plan where none is asked for, means of a request's times [s].

The first token as MLPerf Inference has it of a server with Llama 2 70B (v4.0, 2024: 2,000 ms, of 99
requests in 100); 20 tokens a second as DeepSeek serves its users (20 to 22: DeepSeek-V3/R1
Inference System Overview, 2025).
"""


class Goal(Struct, frozen=True):
    """What is asked of a cluster: requests in all, a server or a second, times at most [s].

    Parameters
    ----------
    concurrency, batch
        Requests in flight in the cluster, or of a server [1].
    ttft_s, tpot_s
        Times at most, in the mean [s].
    requests
        A finite number, which comes all at once [1].
    usual
        Whether these are the usual ones, which nobody gave.
    binding
        Whether a plan has to keep them; if not, and none does, the nearest is the answer.
    rate
        Requests a second of the cluster, in place of those in flight [1/s].

    Raises
    ------
    InputError
        If several numbers of requests are given.
    """

    concurrency: int | None = None
    batch: int | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None
    requests: int | None = None
    usual: bool = False
    binding: bool = True
    rate: float | None = None

    def __post_init__(self) -> None:
        """Refuse two answers to one question."""
        if self.concurrency is not None and self.batch is not None:
            raise InputError(
                "--concurrency and --batch both say how many requests are in flight: give one"
            )
        flights = {"--concurrency": self.concurrency, "--batch": self.batch}
        for flag, value in flights.items():
            if self.rate is not None and value is not None:
                raise InputError(
                    f"--rate and {flag} both say how many requests are in flight: give one"
                )

    def meets(self, result: ServingResult) -> Bools:
        """Which outcomes are as fast as the service level, and fit."""
        good = result.fits.copy()
        if self.ttft_s is not None:
            good &= result.ttft_s <= self.ttft_s
        if self.tpot_s is not None:
            good &= result.tpot_s <= self.tpot_s
        return good

    def over(self, result: ServingResult) -> Floats:
        """By what outcomes miss the service level, the worse of both times [1].

        max(TTFT / most, TPOT / most), 0 without a level.
        """
        over: Floats = np.zeros(result.plans.count)
        for most, times in ((self.ttft_s, result.ttft_s), (self.tpot_s, result.tpot_s)):
            if most is not None:
                over = np.maximum(over, times / most)
        return over

    @property
    def words(self) -> str:
        """The service level in words."""
        parts = [("TTFT", self.ttft_s), ("TPOT", self.tpot_s)]
        return " and ".join(
            f"{name} of at most {si(most, 's')}" for name, most in parts if most is not None
        )

"""Prompts on servers of their own: a prefill pool, a decode pool, and the cache sent between them.

Formulas stand in `netplan.performance.serving.outcomes`.
"""

from typing import NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Bools, Floats, Ints
from netplan.performance.serving.outcomes import (
    Outcome,
    ServingCase,
    decode_steps,
    prefills,
    prompt_parts,
    spill_s,
    token_parts,
)
from netplan.performance.serving.plans import ServingPlans
from netplan.workloads.inference import cached_bytes

ROUNDS = 4
"""Turns in which the requests of the decode pool and the wait before prefill settle [1]."""


class Pools(Struct, frozen=True, eq=False):
    """Servers for prompts and servers for decode, one entry each of a pair, shape (pairs,)."""

    prefill: ServingPlans
    decode: ServingPlans

    @property
    def gpus_used(self) -> Ints:
        """GPUs of both pools [1]."""
        return self.prefill.gpus_used + self.decode.gpus_used

    def take(self, index: Ints | Bools) -> "Pools":
        """Some of the pairs."""
        return Pools(self.prefill.take(index), self.decode.take(index))


class Sent(NamedTuple):
    """The cache of one prompt on its way: bytes of one GPU, and the time they take."""

    gpu_bytes: Floats
    seconds: Floats


def cache_sent(case: ServingCase, pools: Pools) -> Sent:
    """What GPUs of a prefill server send to a decode server, by the rate of a GPU's network.

    As many GPUs take part as the smaller of both servers has that hold different parts.
    """
    model, prompt = case.served.model, case.requests.prompt
    cut, stages = pools.prefill.cut, pools.prefill.pipeline
    each = cached_bytes(model, cut, prompt, case.served.formats.cache_bytes) / stages
    # GPUs beyond the heads of keys hold copies, and all tensor GPUs the same latent vectors.
    heads = 1 if model.latent_attention is not None else model.kv_heads or model.heads
    ways = np.minimum(pools.prefill.tensor, heads) * stages
    there = np.minimum(pools.decode.tensor, heads) * pools.decode.pipeline
    most = each * ways / np.minimum(ways, there)
    levels = case.served.network.levels
    level = levels[-1] if levels[-1].size > 1 else levels[0]
    links = case.served.network.communication.links
    share = links.network.all_to_all.large.efficiency if links else 1.0
    return Sent(most, level.step_s + most / (share * level.link_bytes_per_s))


def disaggregated(case: ServingCase, pools: Pools, concurrency: Amount) -> Outcome:
    """What pairs of pools give, with so many requests in flight in all."""
    stack, output = case.stack, case.requests.output
    prefill, decode = pools.prefill, pools.decode
    wanted = np.broadcast_to(np.asarray(concurrency, dtype=np.float64), prefill.tensor.shape)
    takers = prefill.replicas * prefill.attention_data
    prompt, sent = prefills(case, prefill, wanted / takers), cache_sent(case, pools)
    busy_s = prompt.each_s + case.chunks * case.launch_s
    start_s = stack.prompt_s + stack.transfer_s + np.maximum(case.chunks, 1.0) * case.launch_s
    alone_s = start_s + prompt.latency_s + sent.seconds
    alone_s = alone_s + stack.burst * np.maximum(wanted / takers - 1, 0.0) * busy_s
    held = case.held(decode)
    room = np.maximum(held.room(case.room_bytes), 1.0)
    copies = decode.replicas * decode.attention_data
    share, wait_s = np.ones(wanted.shape), np.zeros(wanted.shape)
    for _ in range(ROUNDS):
        running = np.clip(wanted * share / copies, 1.0, room)
        steps, spilled_s = decode_steps(case, decode, running), spill_s(case, decode, held, running)
        decode_s = (output - 1) * (steps.step_s + spilled_s)
        wait_s = loop_wait_s(busy_s, wanted * busy_s / takers, alone_s + decode_s)
        share = decode_s / (alone_s + decode_s + wait_s)
    running = np.clip(wanted * share / copies, 1.0, room)
    steps, spilled_s = decode_steps(case, decode, running), spill_s(case, decode, held, running)
    tpot_s = steps.step_s + spilled_s
    full_s = (wanted / (copies * room) - 1) * (output - 1) * tpot_s
    queue_s = np.maximum(full_s - alone_s - wait_s, 0.0)
    transfer = prompt.parts._replace(network_s=prompt.parts.network_s + sent.seconds)
    waits_s = alone_s - start_s - prompt.latency_s - sent.seconds + wait_s + queue_s
    return Outcome(
        plans=decode,
        concurrency=np.array(wanted),
        running=running,
        ttft_s=alone_s + wait_s + queue_s,
        tpot_s=tpot_s,
        queue_s=queue_s + wait_s,
        memory_bytes=held.of(running),
        parts=token_parts(steps, spilled_s) | {"prefill": np.zeros(wanted.shape)},
        prompt_parts=prompt_parts(transfer, host=start_s, queue=waits_s),
        fits=(held.room(case.room_bytes) >= 1) & (case.held(prefill).room(case.room_bytes) >= 1),
        output=output,
    )


def loop_wait_s(busy_s: Floats, offered_s: Floats, else_s: Floats) -> Floats:
    """Wait of a closed loop before servers of a fixed time s, all of which C requests take o.

    W (W + else - o) = s o / 2, the formula of `netplan.performance.serving.outcomes` with o = C s'.
    """
    slack = else_s - offered_s
    return (np.sqrt(slack**2 + 2 * busy_s * offered_s) - slack) / 2

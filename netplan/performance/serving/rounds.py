"""One round of servers on a cluster: programs, where they lie, and who sends to whom.

A round takes as long as a token (TPOT). With B requests of each copy of attention that decode, and
R tokens of output a request, every home of a request begins or hands over B / R requests a round,
in the mean. Servers that take prompts stand before those that decode, where these are others.
"""

from collections.abc import Sequence
from functools import cached_property
from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount
from netplan.performance.serving.disaggregated import Pools, disaggregated
from netplan.performance.serving.outcomes import (
    ServingCase,
    ServingResult,
    aggregated,
    decoded_at_once,
)
from netplan.performance.serving.plans import ServingPlans, placed
from netplan.records import replace
from netplan.traffic.matrix import TrafficMatrix, combine
from netplan.traffic.patterns import Pattern, cache_traffic
from netplan.traffic.placement import Placement
from netplan.traffic.training import collectives_of, training_traffic
from netplan.workloads.inference import StepPasses, cached_bytes, serving_program
from netplan.workloads.program import CollectiveUse, Program


class AlikeServers(Struct, frozen=True, eq=False):
    """Servers that are alike: their plan, what they run in a round, and where they stand."""

    plan: ServingPlans
    program: Program
    placement: Placement

    @property
    def microbatches(self) -> int:
        """Parts that the requests of a copy are dealt into, one a stage [1]."""
        return int(self.plan.pipeline[0])

    @property
    def collectives(self) -> tuple[CollectiveUse, ...]:
        """Collectives of a round that several GPUs take part in."""
        return collectives_of(self.program, self.placement, self.microbatches)


class ServingRound(Struct, frozen=True, eq=False):
    """One round of all servers.

    Parameters
    ----------
    pools
        Servers; where they are of two kinds, those that take prompts first.
    stored_bytes
        Of caches that are sent between both, as in `netplan.traffic.patterns` [B].
    """

    pools: tuple[AlikeServers, ...]
    stored_bytes: float = 0.0

    def matrix(self, gpus: int, algorithm: Pattern | str) -> TrafficMatrix:
        """Traffic of a round on a cluster of so many GPUs."""
        parts = [
            training_traffic(
                pool.program,
                pool.placement,
                gpus=gpus,
                microbatches=pool.microbatches,
                algorithm=algorithm,
            )
            for pool in self.pools
        ]
        if len(self.pools) > 1:
            prefill, decode = (pool.placement for pool in self.pools)
            sent = cache_traffic(prefill, decode, stored_bytes=self.stored_bytes, gpus=gpus)
            parts.append(sent)
        return combine(parts)


class PlannedServers(Struct, frozen=True, eq=False, dict=True):
    """Servers of one plan, and what requests see of them.

    Parameters
    ----------
    case
        What is served.
    outcome
        The plan, one entry, and what requests see of it.
    pools
        Servers of both phases where prompts have their own.
    """

    case: ServingCase
    outcome: ServingResult
    pools: Pools | None = None

    @property
    def plans(self) -> tuple[ServingPlans, ...]:
        """Plans by pool, that of those that take prompts first."""
        if self.pools is None:
            return (self.outcome.plans,)
        return self.pools.prefill, self.pools.decode

    @cached_property
    def round(self) -> ServingRound:
        """One round of all servers."""
        prefill = self.pools.prefill if self.pools is not None else None
        in_flight = float(self.outcome.in_flight[0])
        return serving_round(self.case, self.outcome.plans, in_flight, prefill=prefill)


def servers_outcome(
    case: ServingCase, plans: Sequence[ServingPlans], requests: Amount
) -> ServingResult:
    """What requests see of servers of one plan, or of two, those that take prompts first.

    Parameters
    ----------
    case
        What is served.
    plans
        Of each pool.
    requests
        In flight on all of them [1].
    """
    if len(plans) > 1:
        return disaggregated(case, Pools(*plans), requests)
    return aggregated(case, plans[0], requests)


def serving_round(
    case: ServingCase, plan: ServingPlans, in_flight: float, *, prefill: ServingPlans | None = None
) -> ServingRound:
    """The round of one plan.

    Parameters
    ----------
    case
        What is served.
    plan
        One plan: of all servers, or of those that decode.
    in_flight
        Requests of each copy that decode, B [1].
    prefill
        Plan of the servers that take prompts, where these are others.
    """
    ended, sizes = in_flight / float(case.requests.output), case.served.sizes
    # Decode of one microbatch; where stages are more than requests, some have none.
    at_once = decoded_at_once(plan, np.array([in_flight]))
    times = in_flight / float(at_once[0]) / int(plan.pipeline[0])
    decode = StepPasses(case.decodes(at_once), times)
    if prefill is None:
        passes = [decode, StepPasses(case.prompts(), ended / int(plan.pipeline[0]))]
        return ServingRound((_pool(case, plan, passes, placed(plan, sizes)),))
    requests = ended * _homes(plan)
    prompts_per_stage = requests / _homes(prefill) / int(prefill.pipeline[0])
    first = placed(prefill, sizes)
    served = case.served
    numbers = served.formats.cache_bytes, served.formats.window_cache
    stored = cached_bytes(served.model, plan.cut, float(case.requests.prompt), *numbers)
    # Servers behind others, which begin where their groups fit domains if there is room.
    decode_placement = placed(plan, sizes)
    (room, *_), servers = decode_placement.sizes or (1,), decode_placement.cluster
    aligned = -(-first.cluster // room) * room
    last = max(prod(sizes) - servers, first.cluster)
    return ServingRound(
        (
            _pool(case, prefill, [StepPasses(case.prompts(), prompts_per_stage)], first),
            _pool(case, plan, [decode], replace(decode_placement, first=min(aligned, last))),
        ),
        requests * float(stored[0]),
    )


def served_batch(
    case: ServingCase, plan: ServingPlans, in_flight: float, *, tokens: float, prompts: float
) -> ServingRound:
    """All rounds of a batch together: every prompt that is taken, and every token that is decoded.

    Collectives run as often as the batch has them; messages are those of full rounds, so that a
    round with fewer requests counts as a part of one.

    Parameters
    ----------
    case
        What is served.
    plan
        One plan of all servers.
    in_flight
        Requests of each copy that decode at once, B [1].
    tokens, prompts
        Of the whole batch, on all copies [1].

    Examples
    --------
    The round of netplan's own server, B tokens of each copy and the prompts that end, is one:

    >>> from netplan.setup.runs import place_serving
    >>> from netplan.questions.traffic import Traffic
    >>> run = place_serving(Traffic.make("serving-70b-h200"), "ring")
    >>> servers = run.servers
    >>> plan, in_flight = servers.outcome.plans, float(servers.outcome.in_flight[0])
    >>> copies = int(plan.replicas[0] * plan.attention_data[0])
    >>> asked = float(servers.case.requests.output)
    >>> batch = served_batch(servers.case, plan, in_flight, tokens=in_flight * copies,
    ...     prompts=in_flight * copies / asked)
    >>> matrices = [one.matrix(run.fabric.sizing.gpus, "ring") for one in (batch, servers.round)]
    >>> abs(matrices[0].total_bytes / matrices[1].total_bytes - 1) < 1e-12
    True
    """
    at_once, stages = decoded_at_once(plan, np.array([in_flight])), int(plan.pipeline[0])
    homes = _homes(plan)
    decode = StepPasses(case.decodes(at_once), tokens / homes / float(at_once[0]) / stages)
    passes = [decode, StepPasses(case.prompts(), prompts / homes / stages)]
    return ServingRound((_pool(case, plan, passes, placed(plan, case.served.sizes)),))


def _homes(plan: ServingPlans) -> int:
    """Copies of attention of all servers [1]."""
    return int(plan.replicas[0] * plan.attention_data[0])


def _pool(
    case: ServingCase, plan: ServingPlans, passes: Sequence[StepPasses], placement: Placement
) -> AlikeServers:
    """Servers of one plan."""
    served = case.served
    return AlikeServers(
        plan, serving_program(served.model, plan.cut, passes, served.formats), placement
    )

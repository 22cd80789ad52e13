"""A served model placed on a fabric: its best plan, one round of all servers, who talks to whom."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct

from netplan.levels import Level
from netplan.performance.serving.disaggregated import Pools
from netplan.performance.serving.outcomes import ServingCase, ServingResult
from netplan.performance.serving.rounds import ServingRound, serving_round
from netplan.reports.sections import Heading
from netplan.setup.placed_run import PoolRun, TimedUse
from netplan.setup.served_plan import ServedPlan, serving_words
from netplan.topologies.fabric import Fabric
from netplan.topologies.specs import FabricSpec
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.patterns import Pattern
from netplan.units import si


class ServedRun(Struct, frozen=True, eq=False):
    """A served model on a fabric.

    Parameters
    ----------
    inputs
        Those of the answer.
    spec, fabric
        What it lies on.
    case
        What is served.
    outcome, pools
        The plan, one entry, and what requests see of it; servers of both phases where prompts have
        their own.
    algorithm
        Which pairs of a group talk.
    plan, told
        The plan as `netplan serving` answers it, and its notes.
    """

    inputs: dict[str, object]
    spec: FabricSpec
    fabric: Fabric
    case: ServingCase
    outcome: ServingResult
    pools: Pools | None
    algorithm: Pattern | str
    plan: ServedPlan
    told: tuple[str, ...]

    each: ClassVar[str] = "a round"
    """What its traffic is counted by."""

    @property
    def levels(self) -> Sequence[Level]:
        """Levels of bandwidth that it is timed on, of HB domains that are all full."""
        return self.case.served.network.levels

    @property
    def in_short(self) -> dict[str, Any]:
        """What every answer about the run says in JSON."""
        return self.plan.in_short()

    @property
    def within(self) -> str:
        """How long a round takes, in words."""
        return f" of the {si(self.plan.tpot_s, 's')} that a round takes (TPOT)"

    @property
    def communication(self) -> tuple[str, float]:
        """How collectives are timed, and the share of the links' bandwidth that they reach [1]."""
        links = self.case.served.network.communication.links
        return "ring" if links is None else "measured", 1.0

    @property
    def round(self) -> ServingRound:
        """One round of all servers."""
        prefill = self.pools.prefill if self.pools is not None else None
        in_flight = float(self.outcome.running[0])
        return serving_round(self.case, self.outcome.plans, in_flight, prefill=prefill)

    def collectives(self) -> Iterator[TimedUse]:
        """Collectives of a round that several GPUs take part in, with all that they wait for."""
        return served_uses(self.case, self.round)

    def matrix(self) -> TrafficMatrix:
        """Traffic of a round."""
        return self.round.matrix(self.fabric.sizing.gpus, self.algorithm)

    @property
    def parts(self) -> tuple[PoolRun, ...]:
        """Its collectives, on all GPUs."""
        uses = tuple(self.collectives())
        return (PoolRun("", self.spec, self.fabric, self.levels, self.communication, uses),)

    def wired(self, matrix: TrafficMatrix) -> TrafficMatrix:
        """Its traffic as links take it."""
        return self.parts[0].wired(matrix)

    def notes(self) -> Iterator[str]:
        """What of plan and fabric an answer about the traffic says."""
        yield from self.fabric.notes
        yield from self.told
        yield from self.plan.tier_notes()

    def heading(self, what: str, *, timed: bool = True) -> Heading:
        """What an answer about the run says first; its times if these are ``timed``."""
        inputs, plan = self.inputs, self.plan
        requests = f"{plan.concurrency:,.0f} requests in flight"
        where = (
            f"HB domains of {self.case.served.sizes[0]:,}, fabric {inputs['fabric']};"
            f" {self.algorithm} collectives; stack {inputs['stack']},"
            f" {self.case.served.kernels.words}"
        )
        lines = [where, f"plan: {plan.shape}, {requests}, {plan.batch:,} of a server"]
        if timed:
            lines.append(
                f"TTFT {si(plan.ttft_s, 's')}, TPOT {si(plan.tpot_s, 's')} (a round of all"
                f" servers), {plan.tokens_per_s:,.0f} tokens/s"
            )
        return Heading(
            f"{what} of {self.fabric.sizing.gpus:,} GPUs {serving_words(inputs)}", tuple(lines)
        )


def served_uses(case: ServingCase, batch: ServingRound) -> Iterator[TimedUse]:
    """Collectives of servers that several GPUs take part in, with all that they wait for."""
    for pool in batch.pools:
        for use in pool.collectives:
            message = np.array([use.busiest_bytes])
            seconds = case.served.collective_s(
                use.collective, message, use.dimensions, pool.plan.cut
            )
            yield TimedUse(use, pool.placement, float(seconds[0]))

"""A served model placed on a fabric: its best plan, one round of all servers, who talks to whom."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from netplan.levels import Level
from netplan.performance.serving.outcomes import ServingCase
from netplan.performance.serving.rounds import PlannedServers, ServingRound
from netplan.reports.schema import plain_at
from netplan.reports.sections import Heading
from netplan.setup.placed_run import PoolRun, Run, TimedUse
from netplan.setup.served_plan import ServedPlan, serving_words
from netplan.topologies.graph import FabricGraph
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.placement import Placement
from netplan.units import si

if TYPE_CHECKING:
    from netplan.simulation.outcome import SimulationOutcome
    from netplan.simulation.simulate import Conditions


class ServedRun(Run, frozen=True, eq=False):
    """A served model on a fabric.

    Parameters
    ----------
    servers
        Those of the plan, and what requests see of them.
    plan, told
        The plan as `netplan serving` answers it, and its notes.
    """

    servers: PlannedServers
    plan: ServedPlan
    told: tuple[str, ...]

    each: ClassVar[str] = "a round"
    waits_apart: ClassVar[bool] = True

    @property
    def placement(self) -> Placement:
        """Where the servers stand; where prompts have their own, those that decode."""
        return self.servers.round.pools[-1].placement

    @property
    def in_short(self) -> dict[str, Any]:
        """What every answer about the run says in JSON."""
        return plain_at(self, "*plan", "-rank")

    @property
    def within(self) -> str:
        """How long a round takes, in words."""
        return f" of the {si(self.plan.tpot_s, 's')} that a round takes (TPOT)"

    def collectives(self) -> Iterator[TimedUse]:
        """Collectives of a round that several GPUs take part in, with all that they wait for."""
        return served_uses(self.servers.case, self.servers.round)

    def matrix(self) -> TrafficMatrix:
        """Traffic of a round."""
        return self.servers.round.matrix(self.fabric.sizing.gpus, self.algorithm)

    @property
    def parts(self) -> tuple[PoolRun, ...]:
        """Its collectives, on all GPUs."""
        uses = tuple(self.collectives())
        return (PoolRun("", self.spec, self.fabric, *timed_on(self.servers.case), uses),)

    def simulated(self, graph: FabricGraph, conditions: "Conditions") -> "SimulationOutcome":
        """One round, event by event on the links of a graph."""
        from netplan.simulation.serving import simulate_round

        return simulate_round(self.servers, graph, conditions)

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
            f"HB domains of {self.servers.case.served.sizes[0]:,}, fabric {inputs['fabric']};"
            f" {self.algorithm} collectives; stack {inputs['stack']},"
            f" {self.servers.case.served.kernels.words}"
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


def timed_on(case: ServingCase) -> tuple[Sequence[Level], tuple[str, float]]:
    """Levels, of HB domains that are all full, and how collectives of servers are timed on them."""
    network = case.served.network
    return network.levels, ("ring" if network.communication.links is None else "measured", 1.0)


def served_uses(case: ServingCase, batch: ServingRound) -> Iterator[TimedUse]:
    """Collectives of servers that several GPUs take part in, with all that they wait for."""
    for pool in batch.pools:
        for use in pool.collectives:
            message = np.array([use.busiest_bytes])
            seconds = case.served.collective_s(
                use.collective, message, use.dimensions, pool.plan.cut
            )
            yield TimedUse(use, pool.placement, float(seconds[0]))

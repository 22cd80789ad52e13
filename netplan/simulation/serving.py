"""One round of servers on the links of a fabric, event by event: a token of every request.

Stages run their layers, operation by operation, with the times of `netplan.performance.serving`;
collectives and transfers to the next stage book links. The prompts of others that fall on a round
stand in it as the share that the closed form counts, and behind the last stage waits the host, and
each copy of attention for the one with the most prompts, as the closed form has it.

With several stages the requests of a server are as many microbatches, which go round: behind the
last stage a token is chosen, and the next round of its microbatch begins. Rounds follow each other
until they repeat, and the last one is what is told. The closed form of p requests and more has p
times the fullest stage; here stages wait for each other only where they must, so that uneven ones,
and the head on the last, take less.
"""

import time
from collections.abc import Iterator

import numpy as np

from netplan.performance.serving import outcomes
from netplan.performance.serving.rounds import PlannedServers
from netplan.records import replace
from netplan.simulation import simulate, tasks
from netplan.simulation.outcome import SimulationOutcome, StageOutcome
from netplan.simulation.program_work import PlanWork
from netplan.simulation.schedule import FORWARD
from netplan.simulation.slow_gpus import Jitter, replica_slowness
from netplan.topologies.graph import FabricGraph
from netplan.workloads.inference import StepPasses, inference_head, serving_program
from netplan.workloads.operations import Operation
from netplan.workloads.program import Program, stage_layers

ROUNDS = 4
"""Rounds of pipelines, of which the last is told [1]."""


def simulate_round(
    servers: PlannedServers, graph: FabricGraph, conditions: simulate.Conditions
) -> SimulationOutcome:
    """Simulate one round of servers; where prompts have their own, of those that decode.

    Parameters
    ----------
    servers
        What is served, by which plan.
    graph, conditions
        Links, and how messages take them.

    Raises
    ------
    InputError
        If a path is missing, or a link that is needed has no rate.
    """
    began, tpot_s = time.perf_counter(), float(servers.outcome.tpot_s[0])
    maker, pool = _RoundBuilder(servers), servers.round.pools[-1]
    replicas, shares = int(pool.plan.replicas[0]), conditions.shares
    classes, counts = np.ones((1, maker.stages)), np.array([replicas])
    if shares is not None:
        slowness = replica_slowness(shares, pool.placement, pool.placement.gpu_of_rank)
        classes, counts = np.unique(slowness, axis=0, return_counts=True)
    work = PlanWork((maker.pipeline(),), maker.sender.uses)
    if conditions.contention:
        ranks = pool.placement.gpu_of_rank
        where = {"graph": graph, "placement": pool.placement, "gpu_of_rank": ranks}
        rings = any(level.kind == "ring" for level in servers.case.served.network.levels)
        work = simulate.on_links(work, conditions, two_way_rings=rings, **where)
    tick_s = tasks.tick_of(float(classes.max()) * maker.rounds * tpot_s, simulate.TICK_DIGITS)
    runs = [
        _run(maker, simulate.slow_work(work, factors), graph, conditions, tick_s)
        for factors in classes
    ]
    account, round_s = max(runs, key=lambda run: run[1])
    homes = int(pool.plan.attention_data[0])
    rounds_per_s = sum(
        count / took_s for count, (_, took_s) in zip(counts.tolist(), runs, strict=True)
    )
    outcome = account.outcome(
        conditions.busiest,
        time.perf_counter() - began,
        jitter=_drawn(account, round_s, maker, conditions),
        analytic_time_s=tpot_s,
        sequences_per_s=homes * float(servers.outcome.in_flight[0]) * rounds_per_s,
        replicas=replicas,
    )
    return outcome if maker.rounds == 1 else _of_one(outcome, maker.rounds, round_s)


def _run(
    maker: "_RoundBuilder",
    work: PlanWork,
    graph: FabricGraph,
    conditions: simulate.Conditions,
    tick_s: float,
) -> tuple[simulate.Account, float]:
    """Simulate a server, and the time of its last round [s]."""
    account = simulate.Account([work], graph, conditions, tick_s, full=True, spans=True)
    result = account.result
    last, round_s = maker.stages * maker.rounds - 1, result.iteration_time_s
    if maker.rounds > 1:
        ends_s = {
            virtual: max(span.end_s for span in result.spans if (span.kind, span.virtual) == place)
            for virtual in (last, last - maker.stages)
            for place in [(FORWARD, virtual)]
        }
        round_s = ends_s[last] - ends_s[last - maker.stages]
    return account, round_s


def _drawn(
    account: simulate.Account,
    round_s: float,
    maker: "_RoundBuilder",
    conditions: simulate.Conditions,
) -> Jitter | None:
    """Times of a server's rounds with jitter, of several their mean; None where there is none."""
    members = int(maker.plan.tensor[0] * maker.plan.attention_data[0])
    drawn = account.drawn(conditions, members=members, replicas=1)
    if drawn is None:
        return None
    share = round_s / account.result.iteration_time_s
    times_s = {name: share * getattr(drawn, name) for name in ("mean_s", "p50_s", "p95_s")}
    return replace(drawn, **times_s)


def _of_one(outcome: SimulationOutcome, rounds: int, round_s: float) -> SimulationOutcome:
    """What is told of several rounds, as that of the last one."""
    stages = []
    for row in outcome.stages:
        busy_s = (row.compute_s, row.communication_s, row.waiting_s)
        compute_s, sent_s, waiting_s = (part / rounds for part in busy_s)
        idle_s = max(0.0, round_s - compute_s - sent_s - waiting_s)
        stages.append(StageOutcome(row.stage, compute_s, sent_s, waiting_s, idle_s))
    links, groups = (
        tuple(
            replace(
                row,
                busy_s=row.busy_s / rounds,
                waited_s=row.waited_s / rounds,
                utilisation=row.utilisation * outcome.iteration_time_s / (rounds * round_s),
            )
            for row in rows
        )
        for rows in (outcome.links, outcome.groups)
    )
    fluid = outcome.fluid
    if fluid is not None:
        fluid = replace(fluid, busy_s=fluid.busy_s / rounds)
    return replace(
        outcome,
        fluid=fluid,
        iteration_time_s=round_s,
        lower_bound_s=outcome.lower_bound_s / rounds,
        waiting_s=outcome.waiting_s / rounds,
        stages=tuple(stages),
        links=links,
        groups=groups,
        spans=(),
    )


class _RoundBuilder:
    """Makes the work of one server, which stands for all."""

    def __init__(self, servers: PlannedServers) -> None:
        self.case, self.outcome = servers.case, servers.outcome
        self.pool = servers.round.pools[-1]
        self.served, self.plan = self.case.served, self.pool.plan
        self.stages = int(self.plan.pipeline[0])
        self.rounds = 1 if self.stages == 1 else ROUNDS
        self.sender = tasks.FlowSender(self.pool.placement)
        self.in_flight = float(self.outcome.in_flight[0])
        # Prompts of others that end in a round, and the steps that each is cut into.
        takes = bool(self.outcome.parts["prefill"].any())
        self.prompts = takes * (self.in_flight - 1) / float(np.ravel(self.outcome.output)[0])
        self.chunks = float(np.ravel(self.case.chunks)[0])
        # What a microbatch does: decode, and the prompts of others that it waits for.
        case, served = self.case, self.served
        at_once = outcomes.decoded_at_once(self.plan, self.outcome.in_flight)
        self.passes = [StepPasses(case.decodes(at_once))]
        if self.prompts:
            together = float(np.clip(1 / self.chunks, 1.0, max(self.in_flight, 1.0)))
            share = self.prompts / together / self.stages
            self.passes.append(StepPasses(case.prompts(together), share))
        self.program: Program = serving_program(
            served.model, self.plan.cut, self.passes, served.formats
        )

    def pipeline(self) -> tasks.Pipeline:
        """Stages, and microbatches that go round."""
        held = stage_layers(self.program.repetition.layers, self.stages).tolist()
        passes = [
            tasks.Pass(tasks.one_after_the_other(*self._stage(stage, layers)))
            for stage, layers in enumerate(held)
        ]
        sent = [self._transfer(stage, (stage + 1) % self.stages) for stage in range(self.stages)]
        return tasks.Pipeline(
            self.stages,
            min(self.stages, max(1, round(self.in_flight))),
            tuple(passes * self.rounds),
            (),
            tuple((sent * self.rounds)[:-1]),
            (),
            schedule="interleaved" if self.rounds > 1 else "gpipe",
            trains=False,
        )

    def _stage(self, stage: int, layers: int) -> Iterator[tasks.Phase]:
        """One pass of a microbatch through a stage."""
        layer = tasks.joined(
            phase
            for operation in self.program.layer.operations
            for phase in self._operation(operation, stage)
        )
        for _ in range(layers):
            yield from layer
        if stage == self.stages - 1:
            for repeated in self.passes:
                head = inference_head(self.served.model, self.plan.cut, repeated.step)
                yield repeated.times * self._kernel_s(head)
        yield self.prompts * self.chunks * self.case.launch_s / self.stages
        if self.stages == 1:
            yield self._host_s

    @property
    def _host_s(self) -> float:
        """What passes between two rounds of a request [s]."""
        held = self.case.held(self.plan)
        waits_s = outcomes.spill_s(self.case, self.plan, held, self.outcome.in_flight)
        if self.prompts:  # copies of attention that wait for the one with the most of them
            waits_s = waits_s + outcomes.lockstep_s(self.case, self.plan, self.outcome.in_flight)
        return float(self.outcome.parts["host"][0] + waits_s[0])

    def _kernel_s(self, operation: Operation) -> float:
        time = self.served.kernels.time(operation, self.served.formats.cache_bytes)
        return float(np.ravel(time.seconds)[0])

    def _operation(self, operation: Operation, stage: int) -> Iterator[tasks.Phase]:
        """The kernel, then its collectives; of both the share that layers and rounds have."""
        yield operation.share * self._kernel_s(operation)
        cut = self.plan.cut
        for collective in operation.forward.collectives:
            over = self.program.repetition.dimensions(collective.group)
            amount = np.atleast_1d(collective.message_bytes)
            busiest = np.atleast_1d(collective.busiest_bytes)
            seconds = float(self.served.collective_s(collective.kind, busiest, over, cut)[0])
            # An all_reduce is sent twice: reduced and scattered, then gathered.
            sent = float(amount[0]) * (2 if collective.kind == "all_reduce" else 1)
            uneven = collective.uneven if amount[0] else None
            flows = self.sender.collective_flows(stage, collective.kind, over, uneven)
            yield self.sender.message(
                flows, operation.share * seconds, operation.share * sent, tasks.IN_PASS
            )

    def _transfer(self, stage: int, to: int) -> tasks.Branch:
        """What a stage sends on; behind the last one a token is chosen."""
        hops = (
            repeated.times
            * float(np.ravel(self.served.hop_s(self.plan.cut, repeated.step.rows))[0])
            for repeated in self.passes
        )
        boundary = float(np.ravel(self.program.layer.boundary_bytes)[0])
        if stage == to:
            return ()
        message = self.sender.message(tasks.Flows(stage, to), sum(hops), boundary, None)
        return tasks.joined((message, self._host_s if to == 0 else 0.0))

"""A step of post-training from one event to the next: what is drawn, sent and run for it.

=========  =====================================================================================
rollouts   batches whose lengths are drawn (`netplan.simulation.drawn_rollouts`)
weights    sent over the links of the fabric, all at once (`netplan.simulation.congestion`)
steps      follow each other, with what waits for what (`netplan.simulation.posttraining_steps`)
beside     one round of the servers and one iteration of the trainer, on links of their own pools
=========  =====================================================================================

Scoring and training take what their closed forms say; the simulated round and iteration show how
far links change these.
"""

import numpy as np

from netplan.answers.simulated_step_answer import SentWeights, SimulatedStep, rollout_scale
from netplan.arrays import Floats, Ints
from netplan.errors import InputError
from netplan.faults.damage.degraded_links import slow_parts
from netplan.performance.posttraining.placed_weights import by_dimensions
from netplan.performance.posttraining.servers import round_table
from netplan.performance.posttraining.step import DRAWS, Role
from netplan.performance.posttraining.synchronisation import anchored_bytes
from netplan.performance.serving.outcomes import aggregated
from netplan.performance.serving.rounds import PlannedServers
from netplan.questions.congestion import port_rate
from netplan.questions.simulating.contention import direction_rates, schedule_of
from netplan.questions.simulating.inputs import SimulationQuestion
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader, sized
from netplan.setup import post_training_links
from netplan.setup.post_training import SAME, Trainer
from netplan.setup.post_training_step import PostTrained, Sync, post_train
from netplan.simulation import congestion
from netplan.simulation.drawn_rollouts import DrawnRollouts, draw_rollouts
from netplan.simulation.outcome import SimulationOutcome
from netplan.simulation.posttraining_steps import WARM, simulate_steps
from netplan.simulation.serving import simulate_round
from netplan.simulation.simulate import Conditions, simulate_training
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.graph import FabricGraph
from netplan.traffic.flow_paths import PathChoice, PathRouter
from netplan.traffic.matrix import TrafficMatrix, combine
from netplan.traffic.statistics import crossing_bytes

NOT_OF_STEPS = frozenset(
    {"jobs", "inference", "placement", "groups", "full", "jitter", "fail", "contention", "graph"}
)
"""Inputs that mean nothing for steps: of single iterations, or of parts that fail."""
MEASURED_STEPS = 40
"""Steps behind those that warm up, at least [1]."""


def simulate_step(asked: SimulationQuestion, reader: CatalogReader) -> SimulatedStep:
    """Draw batches, send weights, and let steps follow each other.

    Parameters
    ----------
    asked
        The question.
    reader
        Reads its files.

    Raises
    ------
    NetplanError
        If inputs contradict each other, or a pool has no plan that fits.
    """
    trained = post_train(asked, reader, asked.cluster.fabric)
    run, step = trained.run, trained.step
    graph = expand(*post_training_links.network_sizing(run))
    places = post_training_links.pool_places(run, trained.trainer, trained.servers, graph.hb_size)
    rates, shares = slow_parts(asked.slow, graph, np.arange(graph.gpus))
    sent, notes = _sent(asked, trained, (graph, rates), places)
    slowness: Floats | None = None
    if shares is not None:
        trainer, share = trained.trainer, float(shares[places.trainer].min(initial=1))
        if trainer is not None and share < 1:  # all others wait for its slowest GPU
            longer = trainer.timed.beside_slow_gpu_s(share) / trainer.timed.iteration_time_s
            step = replace(step, score_s=longer * step.score_s, train_s=longer * step.train_s)
        rolling = shares[places.rollout]
        if trained.servers is not None and rolling.min() < 1:
            # Rounds of each replica over those of one without a slow GPU, at most.
            axes = ("data", "expert"), ("pipeline", "context", "tensor")
            placement = post_training_links.server_placement(trained.servers)
            homes = by_dimensions(placement, *axes)  # copies of attention, GPUs of each
            slowness = np.asarray(1 / rolling[homes].min(axis=1))
    if sent is not None and trained.sync is not None:
        step = replace(step, sync_s=max(trained.sync.seconds, sent.wire_s))
    drawn = _drawn(asked, trained, slowness)
    scale = rollout_scale(trained)
    if drawn is None:
        steps = np.full((WARM + MEASURED_STEPS, 1), step.rolled_s)
    else:
        steps = scale * drawn.seconds[drawn.batch]
    streams = drawn is not None and step.mode == "async"
    phases, work = step.phases, step.work
    runs = simulate_steps(
        steps,
        float(phases.trainer),
        float(phases.shown_sync),
        staleness=work.staleness if step.mode != "sync" else 0.0,
        stream_s=scale * drawn.stream_s[drawn.batch] if drawn and streams else None,
    )
    conditions = Conditions(
        algorithm=asked.algorithm,
        routing=asked.routing,
        seed=asked.seed,
        sharing=asked.sharing,
        connections=asked.connections,
        busiest=asked.hot,
    )
    return SimulatedStep(
        trained=trained,
        step=step,
        drawn=drawn,
        runs=runs,
        sent=sent,
        round=_round(trained, conditions) if trained.servers else None,
        iteration=_iteration(trained.trainer, conditions) if trained.trainer else None,
        slow=_slow(shares, places, colocated=run.job.colocated),
        notes=tuple(notes),
    )


def _drawn(
    asked: SimulationQuestion, trained: PostTrained, slowness: Floats | None
) -> DrawnRollouts | None:
    """Batches of all steps, so many that waves of versions end with the last step."""
    pool, work = trained.servers, trained.run.work
    if pool is None:
        return None
    servers, table_s = pool.rolled.servers, None
    if servers.bent_s:
        held = -(-work.started // servers.replicas)
        table_s = round_table(pool.case, pool.rolled.plans, held)
    waves = 1 + int(np.ceil(work.staleness))
    steps = -(-MEASURED_STEPS // waves) * waves if waves <= MEASURED_STEPS else MEASURED_STEPS
    return draw_rollouts(
        work,
        servers,
        seed=asked.seed,
        table_s=table_s,
        slowness=slowness,
        runs=(WARM + steps, DRAWS),
    )


def _slow(
    shares: Floats | None, places: post_training_links.PoolPlaces, *, colocated: bool
) -> dict[Role, int]:
    """Slow GPUs of each pool [1]."""
    if shares is None:
        return {}
    pools: dict[Role, Ints] = {"rollout": places.rollout, "trainer": places.trainer}
    if colocated:
        pools = {"all": places.trainer}
    counts = {role: int((shares[gpus] < 1).sum()) for role, gpus in pools.items()}
    return {role: count for role, count in counts.items() if count}


Sent = tuple[SentWeights | None, list[str]]


def _sent(
    asked: SimulationQuestion,
    trained: PostTrained,
    links: tuple[FabricGraph, Floats | None],
    places: post_training_links.PoolPlaces,
) -> Sent:
    """Weights on the links of the whole cluster; None where these say nothing of their time."""
    sync, run = trained.sync, trained.run
    if sync is None or trained.trainer is None or trained.servers is None:
        return None, []
    if not sync.sent.total:
        return None, ["No weights are sent: servers have the shards of the trainer."]
    if sync.over == "storage":
        return None, ["Weights go through storage, by its rates: none is sent over links."]
    if not post_training_links.one_kind(run):
        return None, ["Pools are of two kinds of GPU: weights take their least time, on no links."]
    graph, rates = links
    way: PathChoice = "hashed" if asked.routing == "hashed" else "split"
    sizing = post_training_links.network_sizing(run)[1]
    fabric = congestion.FabricLinks(
        PathRouter(graph, "ecmp" if asked.routing == "hashed" else asked.routing),
        direction_rates(graph, rates),
        way,
        asked.connections if way == "hashed" else 1,
        (sizing.hb_latency_s, sizing.network_latency_s),
        port_rate(graph),
    )
    notes: list[str] = []

    def send(matrix: TrafficMatrix) -> congestion.Contention:
        """On links that are booked or shared."""
        if asked.sharing == "fluid" or way == "hashed":
            if matrix.flow_count <= congestion.MOST_FLOWS:
                return congestion.share_matrix(
                    fabric, matrix, seed=asked.seed, check=asked.check_classes
                )
            notes.append("Weights are too many flows to share links: the busiest one is told.")
        return congestion.book_matrix(fabric, matrix)

    domain = graph.hb_size
    matrix = _matrix(trained, sync, places, domain)
    crossing = crossing_bytes(matrix, domain)
    if run.job.colocated and abs(crossing - sync.sent.network) > SAME * sync.sent.total:
        return None, ["Which GPUs hand weights on is not known: these take their least time."]
    contention = send(matrix)
    wire_s, alone_s = contention.time_s, contention.alone_s
    if sync.kind == "delta":  # whole copies between deltas
        whole = _matrix(trained, replace(sync, kind="sharded", changed=1.0), places, domain)
        between, anchor = send(whole), run.job.anchor
        wire_s = anchored_bytes(wire_s, between.time_s, anchor)
        alone_s = anchored_bytes(alone_s, between.alone_s, anchor)
    only = matrix.of_kind("sync")
    busy_s = contention.carried_bytes / fabric.capacity
    order = np.argsort(-busy_s, kind="stable")[: asked.hot]
    order = order[busy_s[order] > 0]
    names = graph.direction_names(order)
    return SentWeights(
        wire_s=wire_s,
        alone_s=alone_s,
        total_bytes=only.total_bytes,
        network_bytes=crossing_bytes(only, domain),
        flows=matrix.flow_count,
        busiest=tuple(
            (name, float(busy_s[code]), float(busy_s[code]) / contention.time_s)
            for code, name in zip(order.tolist(), names, strict=True)
        ),
    ), notes


def _matrix(
    trained: PostTrained, sync: Sync, places: post_training_links.PoolPlaces, domain: int
) -> TrafficMatrix:
    """Who sends new weights to whom, and what senders gather first."""
    run, trainer, servers = trained.run, trained.trainer, trained.servers
    if trainer is None or servers is None:
        raise InputError("weights go from a trainer to servers: one of them has no work")
    width = sync.weights.width_bytes
    if run.job.colocated:
        return post_training_links.resharded_matrix(
            run, (trainer, servers), places, sync.sent, width
        )
    scheme = post_training_links.sync_scheme(run, servers, sync.kind, sync.changed)
    matrix = post_training_links.sync_matrix(
        run, (trainer, servers), places, scheme, domain=domain, width_bytes=width
    )
    return combine([matrix.of_kind("sync"), matrix.of_kind("sync-gather")])


def _iteration(trainer: Trainer, conditions: Conditions) -> SimulationOutcome | None:
    """One iteration of the trainer on the links of its pool; None where it cannot be simulated."""
    try:
        schedule = schedule_of(trainer.asked, trainer.timed)
        graph = expand(trainer.case.spec, trainer.case.fabric.sizing)
        conditions = replace(conditions, schedule=schedule)
        return simulate_training(
            trainer.setting, trainer.timed, trainer.case.fabric, graph, conditions
        )
    except InputError:
        return None


def _round(trained: PostTrained, conditions: Conditions) -> SimulationOutcome | None:
    """One round of the servers with all of their requests, on the links of their pool."""
    servers, run = trained.servers, trained.run
    if servers is None:
        return None
    pool = servers.rolled.servers
    requests = min(run.work.started, pool.slots * pool.replicas)
    outcome = aggregated(servers.case, servers.rolled.plans, float(requests))
    spec = run.reader.fabric(run.fabric, servers.asked.cluster)
    fabric = build_fabric(spec, sized(servers.asked.cluster, run.server_chip))
    planned = PlannedServers(servers.case, outcome)
    try:
        return simulate_round(planned, expand(spec, fabric.sizing), conditions)
    except InputError:
        return None

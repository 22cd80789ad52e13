"""Both pools on the GPUs and links of one cluster, and new weights on their way between them.

All GPUs of the trainer send as much (`netplan.performance.posttraining.placed_weights`), and copies
of servers in one HB domain share what enters it.
"""

from typing import NamedTuple

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.inputs.choices import SyncKind
from netplan.performance.plan_traffic import plan_placement
from netplan.performance.posttraining.placed_weights import (
    LayerWeights,
    PlacedCopies,
    group_count,
    grouped_owners,
    over_rails,
    placed_copies,
    pool_gpus,
    stages_of_layers,
)
from netplan.performance.posttraining.sync_traffic import (
    SyncPools,
    SyncScheme,
    reshard_traffic,
    sync_traffic,
)
from netplan.performance.posttraining.synchronisation import SyncBytes
from netplan.performance.serving.plans import placed
from netplan.records import replace
from netplan.scenarios.reading import sized
from netplan.setup.post_training import SAME, PostRun, ServerPool, Trainer
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FabricSpec
from netplan.traffic.matrix import KINDS, TrafficMatrix, UniformGroups, no_traffic
from netplan.traffic.placement import Placement
from netplan.traffic.routing import Router
from netplan.traffic.statistics import crossing_bytes

MOST_LINKED = 16_384
"""GPUs up to which a synchronisation is sent over the links of the fabric before its time is said:
a second on all shipped ones [1]."""


class PoolPlaces(NamedTuple):
    """GPUs of the cluster that each pool has, in the order of the pool's own numbers.

    Colocated, both have the same; ``score`` are those of a reward or a judge, the trainer's where
    these have none of their own.
    """

    rollout: Ints
    trainer: Ints
    score: Ints


SyncOnLinks = tuple[float, float]
"""A synchronisation on links: time of the busiest one, bytes between HB domains [s, B]."""


def network_sizing(run: PostRun) -> tuple[FabricSpec, Sizing]:
    """The fabric of the whole cluster, and what it is built for."""
    cluster = run.asked.cluster
    return run.reader.fabric(run.fabric, cluster), sized(cluster, run.chip)


def one_kind(run: PostRun) -> bool:
    """Whether GPUs of both pools are alike to the network, which is of one kind of GPU."""
    here, there = run.chip, run.server_chip
    alike = here.network_bytes_per_s == there.network_bytes_per_s
    same_domains = run.asked.cluster.hb_size is not None or here.hb_size == there.hb_size
    return alike and same_domains and here.hb_bytes_per_s == there.hb_bytes_per_s


def pool_places(
    run: PostRun, trainer: Trainer | None, servers: ServerPool | None, domain: int
) -> PoolPlaces:
    """Where pools lie: the servers first, behind them the trainer, then what scores.

    Parameters
    ----------
    run
        The job.
    trainer, servers
        Its pools; None of one without work.
    domain
        GPUs of an HB domain [1].
    """
    trains = trainer.asked.cluster.gpus if trainer else 0
    serves = servers.asked.cluster.gpus if servers else 0
    scores = run.job.score_gpus
    if run.job.colocated:
        both, score = pool_gpus((max(trains, serves), scores), run.gpus, domain)
        return PoolPlaces(both, both, score if scores else both)
    rollout, train, score = pool_gpus((serves, trains, scores), run.gpus, domain)
    return PoolPlaces(rollout, train, score if scores else train)


def trainer_placement(trainer: Trainer) -> Placement:
    """Where the ranks of a trainer lie in its pool."""
    return plan_placement(trainer.setting, trainer.timed.plan, trainer.case.fabric.levels)


def server_placement(servers: ServerPool) -> Placement:
    """Where the ranks of servers lie in their pool."""
    return placed(servers.rolled.plans, servers.case.served.sizes)


def trainer_copies(
    run: PostRun, trainer: Trainer, gpus: Ints, *, takers: int, domain: int
) -> PlacedCopies:
    """Copies of the model that the trainer has, by who sends what of them.

    Parameters
    ----------
    run, trainer
        The job, and its trainer.
    gpus
        GPUs of the trainer.
    takers
        Copies that take weights of it, of which all replicas serve as many; 0 for replicas as they
        are [1].
    domain
        GPUs of an HB domain [1].
    """
    plan = trainer.timed.plan
    stage = stages_of_layers(run.model.layers, plan.pipeline, interleave=plan.interleave)
    shares = plan.zero == 3  # noqa: PLR2004 - weights are in shards of all replicas
    copies = placed_copies(trainer_placement(trainer), stage, fully_sharded=shares)
    copies = replace(copies, gpus=gpus[copies.gpus])
    if shares:
        return over_rails(copies, domain)
    return grouped_owners(copies, group_count(copies.copies, takers) if takers else copies.copies)


def sync_scheme(run: PostRun, servers: ServerPool, kind: SyncKind, changed: float) -> SyncScheme:
    """How weights are sent, as traffic has it: over as many cards of a domain as there are."""
    rate = run.job.sync_rate
    sending = rate if rate in ("tensors", "buckets") else "pipelined"
    return SyncScheme(
        kind=kind,
        changed=changed,
        sending=sending,  # type: ignore[arg-type]
        expert_gpus=servers.expert_gpus,
        storage=run.job.sync_over == "storage",
        spread=True,
    )


def sync_matrix(
    run: PostRun,
    pools: tuple[Trainer, ServerPool],
    places: PoolPlaces,
    scheme: SyncScheme,
    *,
    domain: int,
    width_bytes: float,
) -> TrafficMatrix:
    """Traffic of one synchronisation between pools that lie apart.

    Parameters
    ----------
    run, pools, places
        The job, its trainer and servers, and where these lie.
    scheme
        How weights are sent.
    domain
        GPUs of an HB domain [1].
    width_bytes
        Of a parameter on the wire [B].
    """
    trainer, servers = pools
    takers = _takers(servers, scheme)
    senders = trainer_copies(run, trainer, places.trainer, takers=takers, domain=domain)
    stage = stages_of_layers(run.model.layers, int(servers.rolled.plans.pipeline[0]))
    served = placed_copies(server_placement(servers), stage)
    served = replace(served, gpus=places.rollout[served.gpus])
    laid = SyncPools(senders, served, run.gpus, domain)
    return sync_traffic(LayerWeights.of(run.model, width_bytes), laid, scheme)


def resharded_matrix(
    run: PostRun,
    pools: tuple[Trainer, ServerPool],
    places: PoolPlaces,
    sent: SyncBytes,
    width: float,
) -> TrafficMatrix:
    """What GPUs get from each other that train and serve in turn, kind ``sync``.

    Where ranges of both plans are no parts of each other, each GPU takes as much of every other.

    Parameters
    ----------
    run, pools, places
        The job, its trainer and servers, and where these lie.
    sent
        Bytes of one synchronisation [B].
    width
        Of a parameter on the wire [B].
    """
    nothing = no_traffic(run.gpus)
    if not sent.total:
        return nothing
    matrix = _laid_ranges(run, pools, places, sent, width)
    if matrix is not None:
        return matrix
    members = places.trainer[None].astype("int32")
    pair_bytes = sent.total / members.size / (members.size - 1)
    return replace(nothing, groups=(UniformGroups(members, pair_bytes, KINDS.index("sync")),))


def _laid_ranges(
    run: PostRun,
    pools: tuple[Trainer, ServerPool],
    places: PoolPlaces,
    sent: SyncBytes,
    width: float,
) -> TrafficMatrix | None:
    """The same where ranges of both plans are parts of each other; None where they are not."""
    trainer, servers = pools
    try:
        copies = trainer_copies(run, trainer, places.trainer, takers=0, domain=1)
        layers = LayerWeights.of(run.model, width)
        matrix = reshard_traffic(layers, copies, servers.copy_gpus, gpus=run.gpus)
    except InputError:
        return None
    return matrix if abs(matrix.total_bytes / sent.total - 1) < SAME else None


def sync_on_links(
    run: PostRun,
    trainer: Trainer,
    servers: ServerPool,
    how: SyncScheme | SyncBytes,
    *,
    width_bytes: float,
) -> SyncOnLinks | None:
    """The busiest link of the fabric in one synchronisation, by the routing it is built for.

    To be asked only where weights cross links from GPU to GPU: not of a synchronisation over
    storage, nor of one that sends nothing.

    Parameters
    ----------
    run, trainer, servers
        The job, and its pools.
    how
        How weights are sent between pools that lie apart; bytes of one synchronisation, more than
        0, where GPUs train and serve in turn [B].
    width_bytes
        Of a parameter on the wire [B].

    Returns
    -------
    SyncOnLinks or None
        None where links say nothing: of two kinds of GPU, of a graph that is too large or joins not
        all, or where ranges of plans in turn are no parts of each other.
    """
    if run.gpus > MOST_LINKED or not one_kind(run):
        return None
    try:
        graph = expand(*network_sizing(run))
        domain = graph.hb_size
        where = run, (trainer, servers), pool_places(run, trainer, servers, domain)
        if isinstance(how, SyncBytes):
            matrix = _laid_ranges(*where, how, width_bytes)
        else:
            every = sync_matrix(*where, how, domain=domain, width_bytes=width_bytes)
            matrix = every.of_kind("sync")
        if matrix is None:
            return None
        return Router(graph).loads(matrix).busiest_s, crossing_bytes(matrix, domain)
    except InputError:
        return None


def _takers(servers: ServerPool, scheme: SyncScheme) -> int:
    """Copies that take weights of the trainer's replicas in turn; 0 where these take no turns.

    A single sender is of one replica, and full copies enter one domain, to which all replicas send.
    """
    alone = scheme.kind in ("full", "relay") and scheme.sending != "pipelined"
    if alone or scheme.kind == "full":
        return 0
    return servers.copies * (servers.copy_gpus if scheme.kind == "relay" else 1)

r"""Who sends new weights to whom: the traffic of a synchronisation, of all kinds of it.

=================  ==============================================================================
kind               what enters an HB domain comes from
=================  ==============================================================================
sharded, delta:x   the trainer's GPU that owns it: of its d replicas number (copy mod d). A shard
                   that a GPU of the domain has got already comes from that one, inside; spread,
                   each that needs it takes a part of it from outside
experts            the same; a copy of dense weights enters in equal ranges, one on each GPU
full               in equal ranges, one on each GPU: the first domain gets them from the senders,
                   as much from each, and each further one from the domain before it
relay              each GPU takes all of it: GPU n from replica (n mod d) of the senders
=================  ==============================================================================

Ranges that entered over all GPUs of a domain go on inside of it, from each GPU to all others.
Senders of full and relay are one GPU of the trainer (``tensors``), the first of each stage
(``buckets``), both of which gather what they send (kind ``sync-gather``), or all of them
(``pipelined``). Over storage trainers write one copy, and what enters domains is read.

Sums are those of :func:`netplan.performance.posttraining.synchronisation.sync_bytes` where the
servers fill whole HB domains, in which no GPU of the trainer stands.
"""

from collections.abc import Iterator
from math import lcm
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from netplan.arrays import AnyInts, Floats, Ints
from netplan.errors import InputError
from netplan.inputs.choices import SyncKind
from netplan.performance.posttraining.placed_weights import (
    LayerWeights,
    PlacedCopies,
    by_dimensions,
)
from netplan.performance.posttraining.synchronisation import INDEX_BYTES, SYNC_KINDS, Sending
from netplan.records import replace
from netplan.traffic.matrix import (
    KINDS,
    TrafficMatrix,
    UniformGroups,
    combine,
    flows_matrix,
    no_traffic,
    sum_by,
)
from netplan.traffic.patterns import overlaps
from netplan.traffic.placement import Placement

TRAJECTORY_BYTES = 8
"""Of a token of an answer or prompt on its way to the trainer: its number, and its log-probability
as a 32-bit float [B]."""

MAX_FLOWS = 1 << 24
"""Between owners of weights and those that take them: a gigabyte of memory [1]."""


class SyncPools(Struct, frozen=True, eq=False):
    """Both pools on their cluster.

    Parameters
    ----------
    trainer, rollout
        Copies of the model of both.
    gpus
        GPUs of the cluster [1].
    domain
        GPUs of an HB domain, the first of which begins with GPU 0 [1].

    Raises
    ------
    InputError
        If a GPU is in both pools.
    """

    trainer: PlacedCopies
    rollout: PlacedCopies
    gpus: int
    domain: int = 8

    def __post_init__(self) -> None:
        """Refuse GPUs that train and serve."""
        both = np.intersect1d(self.trainer.gpus, self.rollout.gpus)
        if both.size:
            raise InputError(
                f"GPU {both[0]} is in the trainer's pool and in that of rollouts: give pools apart,"
                " or say that they are colocated"
            )


class SyncScheme(Struct, frozen=True, kw_only=True):
    """How weights are sent.

    Parameters
    ----------
    kind
        How they are split.
    changed
        Share that a delta sends [1].
    sending
        Who sends a full copy or a relayed one.
    expert_gpus
        GPUs that share the experts of a copy: all of it, or a divisor of those of a stage [1].
    storage
        Whether they go over storage.
    spread
        Whether copies of a domain that need the same range each take an equal part of it from
        outside, over as many cards, and hand it on to the others; else the first takes all of it.
    """

    kind: SyncKind = "sharded"
    changed: float = 1.0
    sending: Sending = "buckets"
    expert_gpus: int | None = None
    storage: bool = False
    spread: bool = False


class _KindFlows(NamedTuple):
    """Flows of one kind."""

    source: AnyInts
    destination: AnyInts
    flow_bytes: Floats


class _Takers(NamedTuple):
    """GPUs into which ranges of layers enter from outside of their domain, one entry each.

    ``replica`` says which of the senders' it takes them from, as a number that goes round;
    ``stage`` of which layers, where the last one stands for all; ``part`` which of equal ``parts``.
    """

    gpu: AnyInts
    replica: AnyInts
    stage: AnyInts
    part: AnyInts
    parts: int

    def some(self, chosen: Ints) -> "_Takers":
        """Some of them."""
        gpu, replica, stage, part, parts = self
        return _Takers(gpu[chosen], replica[chosen], stage[chosen], part[chosen], parts)


class _Source(NamedTuple):
    """Weights of one kind, by who sends them.

    ``gpus`` are the senders, shape (replicas, stages, shards); ``layer_bytes`` what layers have in
    common that lie in a stage of theirs and in one of the takers, behind which a last column has
    those of all layers, shape (stages, takers' stages + 1) [B].
    """

    gpus: Ints
    layer_bytes: Floats

    def one_sender(self, sending: Sending) -> "_Source":
        """What is sent by one GPU of them all, or of each stage; by all if pipelined."""
        if sending == "pipelined":
            return self
        if sending == "buckets":
            return _Source(self.gpus[:1, :, :1], self.layer_bytes)
        return _Source(self.gpus[:1, :1, :1], self.layer_bytes.sum(axis=0, keepdims=True))

    def bytes_of(self, takers: _Takers) -> Floats:
        """What each taker takes [B]."""
        return np.asarray(self.layer_bytes.sum(axis=0)[takers.stage] / takers.parts)

    def sent_to(self, takers: _Takers) -> _KindFlows:
        """From the owners of what each taker takes, where ranges of both overlap."""
        replicas, _, shards = self.gpus.shape
        owner, part, share = overlaps(shards, takers.parts)
        column, stage = np.nonzero(self.layer_bytes.T > 0)
        pieces = np.bincount(part)[takers.part]
        stages = np.bincount(column, minlength=self.layer_bytes.shape[1])[takers.stage]
        if (flows := int((pieces * stages).sum())) > MAX_FLOWS:
            raise InputError(
                f"{len(self.gpus.ravel()):,} GPUs send weights to {len(takers.gpu):,} others in"
                f" {flows:,} flows, at most {MAX_FLOWS:,} are written out: let a GPU of each stage"
                " send (buckets), or take another kind of synchronisation"
            )
        taker, piece = _joined(takers.part, part)
        every, layers = _joined(takers.stage[taker], column)
        taker, piece, stage = taker[every], piece[every], stage[layers]
        source = self.gpus[takers.replica[taker] % replicas, stage, owner[piece]]
        amount = self.layer_bytes[stage, column[layers]] * share[piece]
        return _KindFlows(source, takers.gpu[taker], amount)


def _joined(values: AnyInts, ordered: AnyInts) -> tuple[Ints, Ints]:
    """Places of all pairs of a value and an equal one of a list in rising order.

    >>> [place.tolist() for place in _joined(np.array([1, 0]), np.array([0, 1, 1]))]
    [[0, 0, 1], [1, 2, 0]]
    """
    start = np.searchsorted(ordered, values, side="left")
    count = np.searchsorted(ordered, values, side="right") - start
    first = np.repeat(np.arange(len(values)), count)
    behind = np.repeat(np.cumsum(count) - count - start, count)
    return first, np.arange(len(first)) - behind


def sync_traffic(layers: LayerWeights, pools: SyncPools, scheme: SyncScheme) -> TrafficMatrix:
    """Traffic of one synchronisation.

    Parameters
    ----------
    layers, pools, scheme
        What is sent, from whom to whom, and how.

    Returns
    -------
    TrafficMatrix
        Of kinds ``sync`` and ``sync-gather``; over storage, ``sync-storage`` inside HB domains,
        beside what :func:`storage_bytes` counts.

    Raises
    ------
    InputError
        If the kind is unknown, a delta has no share, or experts are shared by a number of GPUs
        that neither is a copy nor divides a stage.

    Examples
    --------
    A trainer of two GPUs and a server of four, in domains of two: 12 B of dense weights.

    >>> from netplan.performance.posttraining.placed_weights import placed_copies
    >>> from netplan.traffic.placement import Degrees
    >>> stage = np.zeros(2, np.int64)
    >>> trainer = placed_copies(Placement((Degrees(tensor=2),)), stage)
    >>> server = placed_copies(Placement((Degrees(tensor=4),), first=2), stage)
    >>> pools = SyncPools(trainer, server, gpus=6, domain=2)
    >>> layers = LayerWeights(np.array([2.0, 4.0]), np.zeros(2), 2.0)
    >>> matrix = sync_traffic(layers, pools, SyncScheme())
    >>> list(zip(matrix.source.tolist(), matrix.destination.tolist(), matrix.flow_bytes.tolist()))
    [(0, 2, 3.0), (0, 3, 3.0), (1, 4, 3.0), (1, 5, 3.0)]
    >>> full = sync_traffic(layers, pools, SyncScheme(kind="full"))
    >>> full.of_kind("sync").total_bytes, full.of_kind("sync-gather").total_bytes
    (48.0, 6.0)
    """
    plan = _Plan(layers, pools, scheme)
    inside = [plan.inside()]
    if scheme.storage:
        return combine(inside).renamed({"sync": "sync-storage"})
    flows = [source.sent_to(takers) for source, takers in plan.from_trainer()]
    chain = plan.chain() if scheme.kind == "full" else []
    sent = [_matrix(pools.gpus, flow, "sync") for flow in (*flows, *chain)]
    return combine([*sent, *inside, gather_traffic(layers, pools, scheme)])


def gather_traffic(layers: LayerWeights, pools: SyncPools, scheme: SyncScheme) -> TrafficMatrix:
    """What senders of a full or relayed copy take inside the trainer first, kind ``sync-gather``.

    The sender of a stage takes of its GPUs the ranges that these stand for, also such dense weights
    as it has itself beside them (:func:`...synchronisation.gather_bytes`); a sender of all stages
    those of all stages. Over storage nobody gathers.

    Parameters
    ----------
    layers, pools, scheme
        As of :func:`sync_traffic`.

    Returns
    -------
    TrafficMatrix
        No traffic where all GPUs send what they have.
    """
    trainer = pools.trainer
    gathers = scheme.kind in ("full", "relay") and scheme.sending != "pipelined"
    if scheme.storage or not gathers:
        return no_traffic(pools.gpus)
    owners = trainer.by_experts[0]
    sender = owners[:, :1] if scheme.sending == "buckets" else owners[:1, :1]
    stage_bytes = trainer.stage_bytes(layers)
    amounts = np.broadcast_to(stage_bytes[:, None] / trainer.shards, owners.shape)
    targets = np.broadcast_to(sender, owners.shape)
    others = owners != targets
    flows = _KindFlows(owners[others], targets[others], amounts[others])
    return _matrix(pools.gpus, flows, "sync-gather")


def storage_bytes(
    layers: LayerWeights, pools: SyncPools, scheme: SyncScheme
) -> tuple[Floats, Floats]:
    """What each GPU writes and reads in a synchronisation over storage.

    One copy (of a delta, what has changed) is written, by all that own it in equal parts; each GPU
    reads what enters its HB domain by it.

    Parameters
    ----------
    layers, pools, scheme
        As of :func:`sync_traffic`.

    Returns
    -------
    tuple of Floats
        What each GPU writes and reads, shape (gpus,); what is read is what the network sends [B].
    """
    plan, trainer = _Plan(layers, pools, scheme), pools.trainer
    written, read = np.zeros((2, pools.gpus))
    for source, takers in plan.entering():
        read += sum_by(takers.gpu, source.bytes_of(takers), pools.gpus)
    share = plan.sources[0].layer_bytes[:, -1] + plan.sources[1].layer_bytes[:, -1]
    owned = share[:, None, None] / (trainer.shards * trainer.copies)
    written[trainer.gpus] = np.broadcast_to(owned, trainer.gpus.shape)
    return written, read


class _Plan:
    """One synchronisation: what enters domains on which GPU, and what goes on inside."""

    def __init__(self, layers: LayerWeights, pools: SyncPools, scheme: SyncScheme) -> None:
        if scheme.kind not in SYNC_KINDS:
            known = ", ".join(SYNC_KINDS)
            raise InputError(f"unknown synchronisation {scheme.kind!r:.40}: use {known}")
        width = layers.width_bytes
        if scheme.kind == "delta":
            if not 0 < scheme.changed <= 1:
                raise InputError(
                    f"a delta of a share {scheme.changed:g}: give one above 0 and at most 1"
                )
            width = scheme.changed * (width + INDEX_BYTES)
        self.pools, self.kind, self.spread = pools, scheme.kind, scheme.spread
        trainer, rollout = pools.trainer, pools.rollout
        rollout.check_layers(layers)
        trainer.check_layers(layers)
        amounts = [layers.dense * width, layers.expert * width]
        if self.kind != "experts" and trainer.one_order and rollout.one_order:
            amounts = [amounts[0] + amounts[1], np.zeros(layers.layers)]
        self.sources = [
            _Source(gpus, _common_bytes(amount, trainer, rollout))
            for gpus, amount in zip((trainer.by_tensor, trainer.by_experts), amounts, strict=True)
        ]
        if self.kind in ("full", "relay"):
            self.sources = [source.one_sender(scheme.sending) for source in self.sources]
        self.expert_gpus = scheme.expert_gpus or rollout.copy_gpus
        self.domains = _Domains(np.sort(rollout.gpus, axis=None), pools.domain)

    def entering(self) -> Iterator[tuple[_Source, _Takers]]:
        """What enters domains, by kinds of weights."""
        dense, expert = self.sources
        if self.kind in ("sharded", "delta"):
            for source, shards in self._shards():
                yield from ((source, takers) for takers in self._outer(shards))
        elif self.kind == "experts":
            yield from ((dense, takers) for takers in self._ranges())
            yield from ((expert, takers) for takers in self._outer(self._expert_shards()))
        elif self.kind == "full":
            yield from ((source, takers) for takers in self._ranges() for source in self.sources)
        else:
            gpu = self.domains.gpus
            number, none = np.arange(len(gpu)), np.zeros(len(gpu), np.int64)
            takers = _Takers(gpu, number, none + self._all_layers, none, 1)
            yield from ((source, takers) for source in self.sources)

    def from_trainer(self) -> Iterator[tuple[_Source, _Takers]]:
        """What of it the trainer sends: of full copies, what enters the first domain."""
        if self.kind == "full":
            yield from ((source, self._first_ranges(source)) for source in self.sources)
        else:
            yield from self.entering()

    def chain(self) -> list[_KindFlows]:
        """What each domain but the first gets of a full copy from the one before it."""
        here, copy_bytes = self.domains, self._bytes_of(self.sources)
        pairs = np.stack([here.sizes[:-1], here.sizes[1:]], axis=1)
        flows = []
        for before, behind in np.unique(pairs, axis=0).tolist():
            place = np.flatnonzero((pairs == (before, behind)).all(axis=1))
            rail, further, share = overlaps(before, behind)
            source = here.gpus[here.starts[place][:, None] + rail]
            destination = here.gpus[here.starts[place + 1][:, None] + further]
            amount = np.tile(share * copy_bytes, len(place))
            flows.append(_KindFlows(source.ravel(), destination.ravel(), amount))
        return flows

    def inside(self) -> TrafficMatrix:
        """What goes on inside domains."""
        gpus, flows = self.pools.gpus, list[_KindFlows]()
        groups: tuple[UniformGroups, ...] = ()
        if self.kind in ("sharded", "delta"):
            for source, shards in self._shards():
                flows += self._inner(source, shards)
        elif self.kind == "experts":
            flows += self._inner(self.sources[1], self._expert_shards())
            groups = self._exchanged(self._bytes_of(self.sources[:1]))
        elif self.kind == "full":
            groups = self._exchanged(self._bytes_of(self.sources))
        listed = [_matrix(gpus, flow, "sync") for flow in flows]
        return replace(combine([no_traffic(gpus), *listed]), groups=groups)

    @property
    def _all_layers(self) -> int:
        """Stage of takers that stands for all layers."""
        return self.pools.rollout.stages

    def _bytes_of(self, sources: list[_Source]) -> float:
        """Of all layers [B]."""
        return float(sum(source.layer_bytes[:, -1].sum() for source in sources))

    def _shards(self) -> Iterator[tuple[_Source, _Takers]]:
        """What each GPU needs of sharded weights."""
        rollout = self.pools.rollout
        for source, gpus in zip(self.sources, (rollout.by_tensor, rollout.by_experts), strict=True):
            copy, stage, shard = np.indices(gpus.shape).reshape(3, -1)
            yield source, _Takers(gpus.ravel(), copy, stage, shard, rollout.shards)

    def _expert_shards(self) -> _Takers:
        """What each GPU needs of experts."""
        rollout, sharing = self.pools.rollout, self.expert_gpus
        gpus = rollout.by_experts
        copy, stage, shard = np.indices(gpus.shape).reshape(3, -1)
        if sharing == rollout.copy_gpus:
            return _Takers(gpus.ravel(), copy, stage, shard, rollout.shards)
        if rollout.shards % sharing:
            raise InputError(
                f"{sharing} GPUs share the experts of copies of {rollout.stages} stages of"
                f" {rollout.shards} GPUs: give all GPUs of a copy, or a divisor of a stage's"
            )
        every = np.full_like(stage, self._all_layers)
        return _Takers(gpus.ravel(), copy, every, shard % sharing, sharing)

    def _outer(self, takers: _Takers) -> Iterator[_Takers]:
        """What of ranges enters domains: all on the first GPU that needs one, or a part on each."""
        if not self.spread:
            _, first = np.unique(self._key(takers), return_index=True)
            yield takers.some(first)
            return
        for size, alike in self._equal_ranges(takers):
            gpu, replica, stage, part, parts = takers.some(alike.ravel())
            piece = np.tile(np.arange(size), len(alike))
            yield _Takers(gpu, replica, stage, part * size + piece, parts * size)

    def _inner(self, source: _Source, takers: _Takers) -> Iterator[_KindFlows]:
        """What goes on inside of domains, from those on which it entered."""
        if not self.spread:
            _, first, which = np.unique(self._key(takers), return_index=True, return_inverse=True)
            sender, amount = takers.gpu[first[which]], source.bytes_of(takers)
            later = (sender != takers.gpu) & (amount > 0)
            yield _KindFlows(sender[later], takers.gpu[later], amount[later])
            return
        for size, alike in self._equal_ranges(takers):
            here, there = np.nonzero(~np.eye(size, dtype=bool))
            senders, others = alike[:, here].ravel(), alike[:, there].ravel()
            amount = source.bytes_of(takers)[senders] / size
            sent = amount > 0
            yield _KindFlows(takers.gpu[senders[sent]], takers.gpu[others[sent]], amount[sent])

    def _key(self, takers: _Takers) -> AnyInts:
        """The same number for all of a domain that need the same range."""
        place = self.domains.of(takers.gpu)
        return (place * (self._all_layers + 1) + takers.stage) * takers.parts + takers.part

    def _equal_ranges(self, takers: _Takers) -> Iterator[tuple[int, Ints]]:
        """Places of all of a domain that need the same range, a row each, by how many they are."""
        key = self._key(takers)
        order = np.argsort(key, kind="stable")
        _, starts, sizes = np.unique(key[order], return_index=True, return_counts=True)
        for size in np.unique(sizes).tolist():
            yield size, order[starts[sizes == size][:, None] + np.arange(size)]

    def _ranges(self) -> Iterator[_Takers]:
        """All layers, in equal ranges over the GPUs of each domain."""
        rollout, copy_of = self.pools.rollout, np.zeros(self.pools.gpus, np.int64)
        copy_of[rollout.gpus] = np.arange(rollout.copies)[:, None, None, None]
        for size, members in self.domains.by_size():
            gpu, part = members.ravel(), np.tile(np.arange(size), len(members))
            every = np.full_like(part, self._all_layers)
            yield _Takers(gpu, copy_of[gpu], every, part, size)

    def _first_ranges(self, source: _Source) -> _Takers:
        """All layers over the GPUs of the first domain, of which all senders have as much."""
        gpus = self.domains.gpus[: self.domains.sizes[0]]
        replicas, _, shards = source.gpus.shape
        parts = lcm(len(gpus), shards) * replicas
        part = np.arange(parts)
        every = np.full_like(part, self._all_layers)
        return _Takers(gpus[part * len(gpus) // parts], part % replicas, every, part, parts)

    def _exchanged(self, amount: float) -> tuple[UniformGroups, ...]:
        """Ranges that go from each GPU of a domain to all others."""
        kind = KINDS.index("sync")
        groups = [
            UniformGroups(members.astype(np.int32), amount / size, kind)
            for size, members in self.domains.by_size()
            if size > 1 and amount > 0
        ]
        return tuple(groups)


class _Domains:
    """HB domains in which some GPUs stand, in order."""

    def __init__(self, gpus: Ints, size: int) -> None:
        self.gpus, self._size = gpus, size
        self._numbers, self.starts, self.sizes = np.unique(
            gpus // size, return_index=True, return_counts=True
        )

    def of(self, gpus: AnyInts) -> Ints:
        """Place of the domain of each GPU among those."""
        return np.searchsorted(self._numbers, gpus // self._size)

    def by_size(self) -> Iterator[tuple[int, Ints]]:
        """GPUs of domains in which as many stand, shape (domains, GPUs)."""
        for size in np.unique(self.sizes).tolist():
            starts = self.starts[self.sizes == size]
            yield size, self.gpus[starts[:, None] + np.arange(size)]


def _common_bytes(layer_bytes: Floats, here: PlacedCopies, there: PlacedCopies) -> Floats:
    """Of layers by the stages of both pools, and by all of ``there`` in a last column [B]."""
    shape = here.stages, there.stages
    common = sum_by(here.stage * there.stages + there.stage, layer_bytes, shape[0] * shape[1])
    common = common.reshape(shape)
    return np.concatenate([common, common.sum(axis=1, keepdims=True)], axis=1)


def _matrix(gpus: int, flows: _KindFlows, kind: str) -> TrafficMatrix:
    """Flows of a kind."""
    source, destination, flow_bytes = flows
    return flows_matrix(
        gpus, source=source, destination=destination, flow_bytes=flow_bytes, kind=kind
    )


def trajectory_traffic(
    rollout: Placement, trainer: Placement, tokens: float, gpus: int
) -> TrafficMatrix:
    """Prompts, answers and their log-probabilities on their way to the trainer.

    Answers are dealt evenly to copies of attention, and to data ranks of the trainer in the same
    order; the first GPU of each sends and takes.

    Parameters
    ----------
    rollout, trainer
        Where both pools stand.
    tokens
        Of all prompts and answers of a step, N (P + L) [1].
    gpus
        GPUs of the cluster [1].

    Examples
    --------
    >>> from netplan.traffic.placement import Degrees
    >>> servers = Placement((Degrees(tensor=2), Degrees(data=2)))
    >>> trainer = Placement((Degrees(data=4),), first=4)
    >>> matrix = trajectory_traffic(servers, trainer, 1e6, gpus=8)
    >>> matrix.source.tolist(), matrix.destination.tolist(), matrix.total_bytes
    ([0, 0, 2, 2], [4, 5, 6, 7], 8000000.0)
    """
    axes = ("data", "expert"), ("pipeline", "context", "tensor")
    here, there = (by_dimensions(pool, *axes)[:, 0] for pool in (rollout, trainer))
    home, rank, share = overlaps(len(here), len(there))
    flows = _KindFlows(here[home], there[rank], share * tokens * TRAJECTORY_BYTES)
    return _matrix(gpus, flows, "trajectories")


def reshard_traffic(
    layers: LayerWeights,
    trainer: PlacedCopies,
    rollout_shards: int,
    *,
    gpus: int,
    aligned: bool = True,
) -> TrafficMatrix:
    """What GPUs that train and serve in turn get from each other before they serve.

    Each takes what it has not from the trainer's copy that it is part of. Aligned, its range of a
    layer in one role is part of that in the other; else both cut layers in different ways, so that
    it holds a part of what each range of the other cut has.

    Parameters
    ----------
    layers, trainer
        What is held, and by whom.
    rollout_shards
        GPUs that share a copy when it serves, each of which has its part of all layers, r [1].
    gpus
        GPUs of the cluster [1].
    aligned
        Whether shards of both are parts of each other.

    Returns
    -------
    TrafficMatrix
        Of kind ``sync``; the sum is that of
        :func:`netplan.performance.posttraining.synchronisation.reshard_bytes` of all GPUs.

    Raises
    ------
    InputError
        If copies of so many GPUs do not fill the pool, or shards of neither are parts of others.

    Examples
    --------
    Two stages of two GPUs become two copies of two: each gets a quarter of 8 B.

    >>> from netplan.performance.posttraining.placed_weights import placed_copies
    >>> from netplan.traffic.placement import Degrees
    >>> trainer = placed_copies(Placement((Degrees(tensor=2, pipeline=2),)), np.arange(2))
    >>> layers = LayerWeights(np.array([2.0, 2.0]), np.zeros(2), 2.0)
    >>> reshard_traffic(layers, trainer, 2, gpus=4).total_bytes
    8.0
    """
    shards, stages = trainer.shards, trainer.stages
    if trainer.gpus.size % rollout_shards:
        raise InputError(
            f"copies of {rollout_shards} GPUs do not fill a pool of {trainer.gpus.size}: give a"
            " divisor of it"
        )
    if aligned and max(shards, rollout_shards) % min(shards, rollout_shards):
        raise InputError(
            f"shards of {shards} GPUs that train and {rollout_shards} that serve are no parts of"
            " each other: give degrees that divide, or say that they are not aligned"
        )
    # GPUs of a stage from whose ranges a taker needs something, and parts of a layer in that.
    needed = max(1, shards // rollout_shards) if aligned else shards
    parts = max(shards, rollout_shards) if aligned else shards * rollout_shards
    stage_bytes = trainer.stage_bytes(layers)
    by_need = trainer.by_experts.reshape(trainer.copies, stages, -1, needed).swapaxes(1, 2)
    members = by_need.reshape(-1, stages * needed).astype(np.int32)
    if members.shape[1] == 1:
        return no_traffic(gpus)
    if np.ptp(stage_bytes) == 0:
        group = UniformGroups(members, float(stage_bytes[0]) / parts, KINDS.index("sync"))
        return replace(no_traffic(gpus), groups=(group,))
    here, there = np.nonzero(~np.eye(members.shape[1], dtype=bool))
    amount = np.tile(stage_bytes[here // needed] / parts, len(members))
    return _matrix(
        gpus, _KindFlows(members[:, here].ravel(), members[:, there].ravel(), amount), "sync"
    )

"""Weights by layer, and which GPU has which of them: of the trainer, and of servers of rollouts.

Of a layer that several GPUs share each has an equal range: of the dense weights in the order of
tensor ranks, of the routed experts in the order of expert ranks. Where GPUs of one tensor rank have
the same dense weights, each stands for its part of them. So a byte has one place in every copy.

A trainer has d replicas of its weights, which go to C copies of servers. Replica (copy mod d) sends
to a copy where d divides C. Else replicas send in gcd(C, d) groups, each to every so-many-th copy,
and those of a group, which lie next to each other, share every range of it. Where each GPU of all
replicas has a part of its own (ZeRO 3), parts go by rank in HB domains, so that those of a domain
are for all rails.

Pools come in the order in which they are given: the servers first, behind them the trainer. What of
a pool fills no domain shares one with what is left of another pool, where that has room; else it
has a domain of its own. Only where no domain has room for it does it lie in several.
"""

from collections.abc import Sequence
from math import gcd, lcm
from typing import Self

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.errors import InputError
from netplan.performance.posttraining.synchronisation import Weights
from netplan.performance.stage_layers import layer_kinds
from netplan.records import replace
from netplan.traffic.matrix import sum_by
from netplan.traffic.placement import DIMENSIONS, Folding, Placement
from netplan.workloads.models import Model
from netplan.workloads.operations import EXPERTS
from netplan.workloads.parameters import expert_parameters, parameter_count


class LayerWeights(Struct, frozen=True, eq=False):
    """What is sent, by layer.

    Parameters
    ----------
    dense, expert
        Parameters of each layer outside of routed experts, and of these, shape (layers,) [1].
    width_bytes
        Of one on the wire [B].

    Raises
    ------
    InputError
        If both are of different layers, or as of :class:`Weights`.
    """

    dense: Floats
    expert: Floats
    width_bytes: float

    def __post_init__(self) -> None:
        """Refuse weights of nothing."""
        if self.dense.shape != self.expert.shape or self.dense.ndim != 1:
            raise InputError(
                f"dense parameters of {self.dense.size} layers, experts of {self.expert.size}: give"
                " both of every layer"
            )
        _ = self.weights

    @classmethod
    def of(cls, model: Model, width_bytes: float, *, prediction: bool = False) -> Self:
        """Of a model file: the embedding lies in the first layer, head and last norm in the last.

        Where layers have attention of several kinds, each has the mean of them.

        Parameters
        ----------
        model
            The transformer.
        width_bytes
            Of a parameter on the wire [B].
        prediction
            Whether layers that predict further tokens are sent, too; with the last layer.

        Examples
        --------
        >>> from netplan.workloads.models import MODELS
        >>> weights = LayerWeights.of(MODELS.load("deepseek-v3"), 2.0).weights
        >>> weights.dense + weights.expert, weights.expert
        (671026279424.0, 653908770816.0)
        """
        count = parameter_count(model)
        words = model.hidden_size * model.vocabulary
        kinds, before = layer_kinds(model)
        of_kind = dict(zip(kinds, np.diff(before[:, 2]), strict=True))
        nothing = np.zeros(model.layers)
        sparse = of_kind.get("experts", nothing)
        expert = sparse * (expert_parameters(model) / max(1.0, float(sparse.sum())))
        wide = model.ffn_matrices * model.hidden_size * model.inner_size
        dense = wide * sum((of_kind.get(kind, nothing) for kind in ("dense", "ffn")), start=nothing)
        if model.experts is not None:  # router, shared ones, and ways into a narrower space
            others = model.experts.count + 2 * (model.experts.latent_size or 0)
            others += model.ffn_matrices * model.experts.shared_ffn_size
            dense = dense + sparse * (model.hidden_size * others)
        ends = nothing.copy()
        ends[0] += words
        ends[-1] += model.hidden_size + (0 if model.tied_embeddings else words)
        dense += (count.total - (dense + expert + ends).sum()) / model.layers + ends
        if prediction:
            more = expert_parameters(model, predictions=True) - expert_parameters(model)
            expert[-1] += more
            dense[-1] += count.prediction - more
        return cls(dense, expert, width_bytes)

    @classmethod
    def of_equal_layers(cls, weights: Weights, layers: int) -> Self:
        """Layers that all have the same.

        Examples
        --------
        >>> LayerWeights.of_equal_layers(Weights(8e9, 0, 2.0), 4).dense.tolist()
        [2000000000.0, 2000000000.0, 2000000000.0, 2000000000.0]
        """
        dense, expert = weights.dense / layers, weights.expert / layers
        return cls(np.full(layers, dense), np.full(layers, expert), weights.width_bytes)

    @property
    def layers(self) -> int:
        """How many there are [1]."""
        return len(self.dense)

    @property
    def weights(self) -> Weights:
        """All layers together."""
        return Weights(float(self.dense.sum()), float(self.expert.sum()), self.width_bytes)


def stages_of_layers(layers: int, stages: int, *, interleave: int = 1) -> Ints:
    """Stage of every layer.

    Parts have an even share, of which the ends get least: none where there are more parts than
    layers, as embedding and head are parts, too.

    Parameters
    ----------
    layers, stages
        Layers of the model, and pipeline stages [1].
    interleave
        Parts of the model that a stage has, which go round [1].

    Returns
    -------
    Ints
        From 0 on, shape (layers,).

    Examples
    --------
    >>> stages_of_layers(7, 3).tolist()
    [0, 0, 1, 1, 1, 2, 2]
    >>> stages_of_layers(8, 2, interleave=2).tolist()
    [0, 0, 1, 1, 0, 0, 1, 1]
    >>> stages_of_layers(6, 2, interleave=4).tolist()  # embedding and head beside them
    [1, 0, 1, 0, 1, 0]
    """
    parts = stages * interleave
    whole, rest = divmod(layers, parts)
    inner = min(rest, max(parts - 2, 0))
    even = [whole + (1 <= part <= inner) for part in range(parts)]
    even[0] += rest > inner
    return np.repeat(np.arange(parts, dtype=np.int64) % stages, even)


class PlacedCopies(Struct, frozen=True, eq=False):
    """GPUs of all copies of a model.

    Parameters
    ----------
    gpus
        Numbers in the cluster, shape (copies, stages, parts, tensor ranks). Ranks of all parts
        share a stage; experts go by parts first, dense weights by tensor ranks.
    stage
        Stage of every layer, shape (layers,).

    Raises
    ------
    InputError
        If a layer lies in no stage.
    """

    gpus: Ints
    stage: Ints

    def __post_init__(self) -> None:
        """Refuse layers that lie nowhere."""
        if not 0 <= self.stage.min() <= self.stage.max() < self.gpus.shape[1]:
            raise InputError(
                f"a layer lies in stage {self.stage.max()} of {self.gpus.shape[1]}: count stages"
                " from 0"
            )

    @property
    def copies(self) -> int:
        """Copies of the model [1]."""
        return len(self.gpus)

    @property
    def stages(self) -> int:
        """Stages of a copy [1]."""
        return int(self.gpus.shape[1])

    @property
    def shards(self) -> int:
        """GPUs that share a stage [1]."""
        return int(self.gpus.shape[2] * self.gpus.shape[3])

    @property
    def copy_gpus(self) -> int:
        """GPUs of a copy [1]."""
        return self.stages * self.shards

    @property
    def one_order(self) -> bool:
        """Whether ranges of experts and of dense weights lie on GPUs in the same order."""
        return 1 in self.gpus.shape[2:]

    @property
    def by_experts(self) -> Ints:
        """GPUs in the order of their ranges of experts, shape (copies, stages, shards)."""
        return self.gpus.reshape(self.copies, self.stages, self.shards)

    @property
    def by_tensor(self) -> Ints:
        """GPUs in the order of their ranges of dense weights, shape (copies, stages, shards)."""
        return self.gpus.swapaxes(2, 3).reshape(self.copies, self.stages, self.shards)

    def check_layers(self, layers: LayerWeights) -> None:
        """Refuse weights of other layers than those that stages have.

        Raises
        ------
        InputError
            If they are more or fewer.
        """
        if layers.layers != len(self.stage):
            raise InputError(
                f"weights of {layers.layers} layers, stages of {len(self.stage)}: give both of the"
                " same model"
            )

    def stage_bytes(self, layers: LayerWeights) -> Floats:
        """Bytes of the layers of every stage, shape (stages,) [B].

        Raises
        ------
        InputError
            As :meth:`check_layers`.
        """
        self.check_layers(layers)
        amounts = (layers.dense + layers.expert) * layers.width_bytes
        return sum_by(self.stage, amounts, self.stages)


def placed_copies(
    placement: Placement, stage: Ints, *, fully_sharded: bool = False
) -> PlacedCopies:
    """Copies of a model where a placement puts them.

    GPUs that differ in tensor, expert or pipeline rank share a copy, those of other data and
    context ranks have another one.

    Parameters
    ----------
    placement
        Of the trainer, or of servers (`netplan.performance.serving.plans.placed`), whose copies of
        attention stand in the place of the expert degree.
    stage
        Stage of every layer, shape (layers,).
    fully_sharded
        Whether data and context ranks share the weights, too (FSDP).

    Raises
    ------
    InputError
        If experts are folded over ranks that are not whole tensor groups of a stage.

    Examples
    --------
    >>> from netplan.traffic.placement import Degrees
    >>> eight = Placement((Degrees(tensor=2, data=2), Degrees(pipeline=2)))
    >>> placed_copies(eight, stages_of_layers(2, 2)).by_tensor.tolist()
    [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    >>> placed_copies(eight, stages_of_layers(2, 2), fully_sharded=True).by_tensor.tolist()
    [[[0, 2, 1, 3], [4, 6, 5, 7]]]
    """
    if placement.folded is not None and not fully_sharded:
        return PlacedCopies(_folded(placement, placement.folded), stage)
    alike = ("data", "context")
    replicas, parts = ((), (*alike, "expert")) if fully_sharded else (alike, ("expert",))
    return PlacedCopies(
        by_dimensions(placement, replicas, ("pipeline",), parts, ("tensor",)), stage
    )


def by_dimensions(placement: Placement, *dimensions: tuple[str, ...]) -> Ints:
    """GPUs of all ranks of a placement, with an axis for the ranks of each of some dimensions.

    Parameters
    ----------
    placement
        Where they stand.
    dimensions
        Dimensions of each axis, the outermost first; all of them together.

    Examples
    --------
    >>> from netplan.traffic.placement import Degrees
    >>> placement = Placement((Degrees(tensor=2, data=2), Degrees(tensor=2)))
    >>> rest = ("context", "expert", "pipeline")
    >>> by_dimensions(placement, rest, ("data",), ("tensor",)).tolist()
    [[[0, 1, 4, 5], [2, 3, 6, 7]]]
    """
    radices = [degree for level in placement.levels for degree in level]
    # numpy's last axis runs fastest: reversed, the radices are the shape of the cluster.
    axis_of = {
        name: [len(radices) - 1 - place for place in range(row, len(radices), len(DIMENSIONS))]
        for row, name in enumerate(DIMENSIONS)
    }
    axes = [axis for names in dimensions for name in names for axis in sorted(axis_of[name])]
    ranks = np.arange(placement.gpus).reshape(radices[::-1]).transpose(axes)
    shape = [placement.degree(*names) for names in dimensions]
    return placement.gpu_of_rank[ranks.reshape(shape)].astype(np.int64)


def _folded(placement: Placement, folded: Folding) -> Ints:
    """GPUs of copies whose experts are folded over ranks of a stage that follow each other."""
    tensor, stages = placement.degree("tensor"), placement.degree("pipeline")
    groups = placement.groups(*EXPERTS).reshape(stages, -1, folded.shared_by, folded.over)
    ranks = groups.swapaxes(2, 3).reshape(stages, -1)
    together = lcm(tensor, folded.over * folded.shared_by)
    if ranks.shape[1] % together:
        raise InputError(
            f"a stage of {ranks.shape[1]} GPUs has no {together} that hold all of it: give tensor"
            f" {tensor} and experts over {folded.over} x {folded.shared_by} that divide each other"
        )
    gpus = placement.gpu_of_rank[ranks].astype(np.int64)
    return gpus.reshape(stages, -1, together // tensor, tensor).swapaxes(0, 1)


def pool_gpus(sizes: Sequence[int], gpus: int, domain: int) -> tuple[Ints, ...]:
    """GPUs of the cluster that each pool has, whole HB domains of it first.

    Parameters
    ----------
    sizes
        GPUs of every pool, in the order in which pools lie [1].
    gpus
        GPUs of the cluster, whose first HB domain begins with GPU 0 [1].
    domain
        GPUs of an HB domain; the last one may have fewer [1].

    Returns
    -------
    tuple of Ints
        Number in the cluster of each GPU of a pool, shape (GPUs of the pool,) each.

    Raises
    ------
    InputError
        If pools have more GPUs than the cluster.

    Examples
    --------
    >>> [pool.tolist() for pool in pool_gpus((4, 8), 12, domain=4)]
    [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9, 10, 11]]

    What is left of both pools shares the second domain:

    >>> [pool.tolist() for pool in pool_gpus((6, 6), 12, domain=4)]
    [[0, 1, 2, 3, 4, 5], [8, 9, 10, 11, 6, 7]]
    """
    if sum(sizes) > gpus:
        raise InputError(
            f"pools of {', '.join(f'{size:,}' for size in sizes)} GPUs on {gpus:,}: give fewer"
        )
    whole = [size // domain for size in sizes]
    spare, next_domain = gpus // domain - sum(whole), 0
    rooms = {gpus // domain * domain: gpus % domain}  # free GPUs, by the first of them
    pools = []
    for size, domains in zip(sizes, whole, strict=True):
        first = next_domain * domain
        pieces = [np.arange(first, first + domains * domain)]
        next_domain += domains
        rest = size % domain
        if spare and not any(room >= rest for room in rooms.values()):
            rooms[next_domain * domain] = domain
            next_domain, spare = next_domain + 1, spare - 1
        pieces += _from(rooms, rest)
        pools.append(np.concatenate(pieces))
    return tuple(pools)


def _from(rooms: dict[int, int], rest: int) -> list[Ints]:
    """So many GPUs of those that are free: of the least room that has all, else of several."""
    pieces = []
    while rest:
        enough = [first for first, room in rooms.items() if room >= rest]
        first = min(enough or rooms, key=lambda first: rooms[first] if enough else first)
        room = rooms.pop(first)
        taken = min(room, rest)
        pieces.append(np.arange(first, first + taken))
        if room > taken:
            rooms[first + taken] = room - taken
        rest -= taken
    return pieces


def group_count(replicas: int, takers: int) -> int:
    """Groups of a trainer's replicas of which each sends to as many copies.

    Parameters
    ----------
    replicas, takers
        Replicas of the trainer, and copies that get weights [1].

    Examples
    --------
    >>> group_count(16, 4), group_count(2, 4), group_count(42, 256)
    (4, 2, 2)
    """
    return gcd(replicas, takers)


def grouped_owners(copies: PlacedCopies, groups: int) -> PlacedCopies:
    """Replicas in groups whose members share every range of the weights.

    Parameters
    ----------
    copies
        Replicas of the trainer.
    groups
        Groups, which divide them [1].

    Returns
    -------
    PlacedCopies
        A copy for each group. Experts stay on GPUs that have them.

    Examples
    --------
    >>> replicas = PlacedCopies(np.arange(8).reshape(4, 1, 1, 2), np.zeros(2, np.int64))
    >>> grouped_owners(replicas, 2).by_tensor.tolist()
    [[[0, 2, 1, 3]], [[4, 6, 5, 7]]]
    """
    replicas, stages, parts, tensor = copies.gpus.shape
    together = replicas // groups
    shape = (groups, together, stages, parts, tensor)
    gpus = copies.gpus.reshape(shape).transpose(0, 2, 3, 1, 4)
    return replace(copies, gpus=gpus.reshape(groups, stages, parts * together, tensor))


def over_rails(copies: PlacedCopies, domain: int) -> PlacedCopies:
    """Parts in the order of their ranks in HB domains, so that each domain has some of all ranges.

    Parameters
    ----------
    copies
        Copies of which every GPU has a part of its own.
    domain
        GPUs of an HB domain [1].

    Examples
    --------
    >>> alone = PlacedCopies(np.arange(4).reshape(1, 1, 4, 1), np.zeros(1, np.int64))
    >>> over_rails(alone, 2).by_tensor.tolist()
    [[[0, 2, 1, 3]]]
    """
    first = copies.gpus[0, 0, :, 0]
    order = np.lexsort((first // domain, first % domain))
    return replace(copies, gpus=copies.gpus[:, :, order])

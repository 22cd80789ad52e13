"""What a traffic matrix shows: shares by kind, pairs in use, traffic inside HB domains, heat map.

Figures 3 to 5 of the rail-only paper (arXiv:2307.12169) are made of these numbers. Uniform groups
are counted by their sizes, never written out.
"""

from functools import reduce
from itertools import combinations

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints, distinct_values
from netplan.errors import InputError
from netplan.traffic.matrix import KINDS, TrafficMatrix, UniformGroups, sum_by

MAX_BLOCKS = 4096
GROUPS_AT_A_TIME = 1 << 22


class KindShare(Struct, frozen=True):
    """One kind of traffic: all its bytes [B], the ordered pairs of GPUs that carry it [1].

    The shares are those of all bytes, and of all N (N - 1) pairs [1].
    """

    json_parts = "*", "pair_bytes"

    kind: str
    total_bytes: float
    pairs: int
    bytes_share: float
    pairs_share: float

    @property
    def pair_bytes(self) -> float:
        """Mean bytes of a pair that carries this kind [B]."""
        return self.total_bytes / self.pairs if self.pairs else 0.0


def kind_shares(matrix: TrafficMatrix) -> tuple[KindShare, ...]:
    """Shares of every kind that occurs, in the order of ``KINDS``.

    Examples
    --------
    >>> from netplan.traffic.matrix import flows_matrix
    >>> matrix = flows_matrix(3, source=[0, 1], destination=[1, 0], flow_bytes=[3e9, 1e9])
    >>> kind_shares(matrix)[0]
    KindShare(kind='other', total_bytes=4000000000.0, pairs=2, bytes_share=1.0, pairs_share=0.333)
    """
    total, cells = matrix.total_bytes, matrix.gpus * (matrix.gpus - 1)
    shares = []
    for kind in KINDS:
        part = matrix.of_kind(kind)
        amount = part.total_bytes
        if amount > 0:
            pairs = pair_count(part)
            shares.append(KindShare(kind, amount, pairs, amount / total, pairs / cells))
    return tuple(shares)


def pair_count(matrix: TrafficMatrix) -> int:
    """Ordered pairs with any traffic, each counted once [1].

    Pairs inside uniform groups are counted by inclusion and exclusion: two GPUs share a group of
    several partitions if they share a part of the partitions' common refinement.
    """
    used = matrix.flow_bytes > 0
    pairs = distinct_values(matrix.source[used] * np.int64(matrix.gpus) + matrix.destination[used])
    labelled = [_labels(matrix.gpus, groups) for groups in matrix.groups if groups.pair_bytes > 0]
    # Many collectives share their groups, and every distinct partition doubles the work.
    labels = list({label.tobytes(): label for label in labelled}.values())
    first, second = np.divmod(pairs, matrix.gpus)
    outside = np.ones(len(pairs), bool)
    for label in labels:
        outside &= label[first] != label[second]
    inside = sum(
        (1 if count % 2 else -1) * _pairs_within(chosen)
        for count in range(1, len(labels) + 1)
        for chosen in combinations(labels, count)
    )
    return int(np.count_nonzero(outside)) + inside


def idle_pairs_share(matrix: TrafficMatrix) -> float:
    """Part of all ordered pairs of GPUs that carries nothing [1]."""
    return 1 - pair_count(matrix) / (matrix.gpus * (matrix.gpus - 1))


def hb_share(matrix: TrafficMatrix, hb_size: int) -> float:
    """Part of the bytes that stays inside HB domains of ``hb_size`` consecutive GPUs [1].

    Examples
    --------
    >>> from netplan.traffic.matrix import flows_matrix
    >>> matrix = flows_matrix(4, source=[0, 1], destination=[1, 2], flow_bytes=[3e9, 1e9])
    >>> hb_share(matrix, hb_size=2)
    0.75
    """
    if hb_size < 1:
        raise InputError(f"an HB domain has at least 1 GPU, got {hb_size}")
    total = matrix.total_bytes
    if total == 0:
        return 0.0
    same = matrix.source // hb_size == matrix.destination // hb_size
    inside = float(matrix.flow_bytes[same].sum())
    domain = np.arange(matrix.gpus) // hb_size
    for groups in matrix.groups:
        inside += groups.pair_bytes * _pairs_within((_labels(matrix.gpus, groups), domain))
    return inside / total


def crossing_bytes(matrix: TrafficMatrix, hb_size: int) -> float:
    """Bytes between HB domains of ``hb_size`` consecutive GPUs, 0 where all stay inside [B].

    Examples
    --------
    >>> from netplan.traffic.matrix import flows_matrix
    >>> matrix = flows_matrix(4, source=[0, 1], destination=[1, 2], flow_bytes=[3e9, 1e9])
    >>> crossing_bytes(matrix, hb_size=2), crossing_bytes(matrix, hb_size=4)
    (1000000000.0, 0.0)
    """
    crosses = matrix.source // hb_size != matrix.destination // hb_size
    crossing = float(matrix.flow_bytes[crosses].sum())
    domain = np.arange(matrix.gpus) // hb_size
    for groups in matrix.groups:
        inside = _pairs_within((_labels(matrix.gpus, groups), domain))
        crossing += groups.pair_bytes * (groups.pair_count - inside)
    return crossing


def heat_map(matrix: TrafficMatrix, blocks: int, size: int | None = None) -> Floats:
    """Sum the matrix into ``blocks`` x ``blocks`` cells of consecutive GPUs [B].

    At most 4,096 cells a side; every block holds ``size`` GPUs, ceil(N / blocks) if none is given,
    the last ones less. A row's GPUs send, a column's receive.

    Examples
    --------
    >>> from netplan.traffic.matrix import flows_matrix
    >>> heat_map(flows_matrix(4, source=[0, 1], destination=[1, 2], flow_bytes=[3.0, 1.0]), 2)
    array([[3., 1.],
           [0., 0.]])
    """
    if not 1 <= blocks <= min(matrix.gpus, MAX_BLOCKS):
        raise InputError(
            f"a heat map of {blocks} x {blocks} blocks cannot be drawn: give 1 to"
            f" {min(matrix.gpus, MAX_BLOCKS):,}"
        )
    size = max(size or 0, -(-matrix.gpus // blocks))
    cell = matrix.source // size * np.int64(blocks) + matrix.destination // size
    heat = sum_by(cell, matrix.flow_bytes, blocks * blocks).reshape(blocks, blocks)
    for groups in matrix.groups:
        heat += _group_heat(groups, size, blocks)
    return heat


def _group_heat(groups: UniformGroups, size: int, blocks: int) -> Floats:
    """Heat of uniform groups: members of a group in one block times those in another."""
    heat = np.zeros((blocks, blocks))
    step = max(1, GROUPS_AT_A_TIME // blocks)
    for start in range(0, len(groups.members), step):
        part = groups.members[start : start + step] // size
        row = np.arange(len(part))[:, None] * blocks
        count = np.bincount((row + part).ravel(), minlength=len(part) * blocks)
        members = count.reshape(len(part), blocks).astype(np.float64)
        heat += members.T @ members - np.diag(members.sum(axis=0))
    return heat * groups.pair_bytes


def _labels(gpus: int, groups: UniformGroups) -> Ints:
    """Group of each GPU; GPUs outside all groups get a label of their own."""
    label = -1 - np.arange(gpus, dtype=np.int64)
    label[groups.members] = np.arange(len(groups.members))[:, None]
    return label


def _pairs_within(labels: tuple[Ints, ...]) -> int:
    """Ordered pairs of GPUs that agree in every label."""

    def refine(first: Ints, second: Ints) -> Ints:
        keys = [np.unique(label, return_inverse=True)[1] for label in (first, second)]
        return np.asarray(keys[0] * (keys[1].max() + 1) + keys[1], dtype=np.int64)

    _, sizes = np.unique(reduce(refine, labels), return_counts=True)
    return int((sizes * (sizes - 1)).sum())

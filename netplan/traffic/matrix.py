"""Traffic matrices: who sends how many bytes to whom, without the cells that are empty.

A plan on 32,768 GPUs fills about 10^5 of 10^9 cells, so a matrix is a list of flows: arrays of
source, destination, bytes and kind. One pattern would still be long as a list, a group in which
every member sends the same amount to every other one. Such groups stay whole (`UniformGroups`): an
all_to_all of 8,192 GPUs is one array of 8,192 numbers and not 67 million flows.

All amounts are bytes in one training iteration, one direction; pairs are ordered.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from netplan.arrays import Bools, Codes, Floats, Indices, Ints, distinct_values
from netplan.errors import InputError
from netplan.records import LARGEST, replace

TRAINING = ("tensor", "context", "data", "pipeline", "expert", "other")
"""What flows of a training iteration are for."""

TRAINING_OF_A_STEP = {kind: f"train-{kind}" for kind in TRAINING}
"""What they are called in a step of post-training, which has other traffic beside them."""

KINDS = (
    *TRAINING,
    "cache",
    *("rollout", "score", "sync", "sync-gather", "sync-storage", "trajectories"),
    *TRAINING_OF_A_STEP.values(),
)
"""What a flow is for; kind codes are positions in this list, and stand in files: new ones go to its
end."""

MAX_LISTED_PAIRS = 1 << 26


def sum_by(index: NDArray[np.integer], amounts: Floats, size: int) -> Floats:
    """Sum amounts that have the same index, shape (size,).

    Parameters
    ----------
    index
        Place that each amount is added to, from 0 to ``size`` - 1, shape (n,).
    amounts
        The amounts, of any unit, shape (n,).
    size
        Places [1].

    Returns
    -------
    Floats
        Sums in the unit of the amounts, 0 where there is none, shape (size,).

    Examples
    --------
    >>> sum_by(np.array([0, 2, 2]), np.array([1.0, 2.0, 3.0]), 4)
    array([1., 0., 5., 0.])
    """
    return np.bincount(index, weights=amounts, minlength=size).astype(np.float64, copy=False)


class UniformGroups(Struct, frozen=True, eq=False):
    """Disjoint groups of equal size in which every member sends alike to every other member.

    ``members`` are the GPUs of each group, shape (groups, size); one sends ``pair_bytes`` to one
    other [B]; ``kind`` is a code into ``KINDS``.

    Examples
    --------
    >>> everyone = UniformGroups(np.arange(8192, dtype=np.int32)[None], 1e6, KINDS.index("expert"))
    >>> everyone.pair_count, everyone.total_bytes
    (67100672, 67100672000000.0)
    """

    members: Indices
    pair_bytes: float
    kind: int

    @property
    def pair_count(self) -> int:
        """Ordered pairs that the groups hold [1]."""
        groups, size = self.members.shape
        return int(groups * size * (size - 1))

    @property
    def total_bytes(self) -> float:
        """Bytes of all pairs [B]."""
        return self.pair_count * self.pair_bytes

    def listed(self) -> tuple[Indices, Indices]:
        """Write out the pairs: sources and destinations, shape (pairs,).

        Returns
        -------
        tuple[Indices, Indices]
            Sources, and destinations, shape (pairs,) each.
        """
        size = self.members.shape[1]
        first, second = (index.astype(np.int32) for index in np.nonzero(~np.eye(size, dtype=bool)))
        return self.members[:, first].ravel(), self.members[:, second].ravel()


class TrafficMatrix(Struct, frozen=True, eq=False):
    """Sparse traffic between GPUs.

    Parameters
    ----------
    gpus
        GPUs of the cluster, N; the matrix has N x N cells [1].
    source, destination
        The two ends of each flow, 0 to N - 1, shape (flows,).
    flow_bytes
        What each flow carries [B], shape (flows,).
    kind
        Codes into ``KINDS``, shape (flows,).
    groups
        Traffic that is uniform within groups, in addition to the flows.

    Examples
    --------
    >>> matrix = flows_matrix(4, source=[0, 1], destination=[1, 2], flow_bytes=[5e9, 1e9])
    >>> matrix.total_bytes
    6000000000.0
    """

    gpus: int
    source: Indices
    destination: Indices
    flow_bytes: Floats
    kind: Codes
    groups: tuple[UniformGroups, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no cluster can carry.

        Raises
        ------
        InputError
            If the arrays differ in length, a GPU is out of range or sends to itself, bytes are
            negative or not finite, or a GPU stands twice in uniform groups.
        """
        check_flows(self)
        for groups in self.groups:
            check_groups(self.gpus, groups)

    @property
    def total_bytes(self) -> float:
        """Bytes of all flows and groups [B]."""
        return float(self.flow_bytes.sum()) + sum(groups.total_bytes for groups in self.groups)

    @property
    def flow_count(self) -> int:
        """Flows, those of groups too [1]."""
        return len(self.source) + sum(groups.pair_count for groups in self.groups)

    def of_kind(self, kind: str) -> "TrafficMatrix":
        """Only the traffic of one kind.

        Parameters
        ----------
        kind
            One of ``KINDS``.

        Returns
        -------
        TrafficMatrix
            Its flows and groups, among as many GPUs.

        Raises
        ------
        ValueError
            If there is no such kind.
        """
        code = KINDS.index(kind)
        groups = tuple(groups for groups in self.groups if groups.kind == code)
        return self._kept(self.kind == code, groups)

    def _kept(self, keep: Bools, groups: tuple[UniformGroups, ...]) -> "TrafficMatrix":
        """Some of the flows, with these groups."""
        source, destination = self.source[keep], self.destination[keep]
        amounts = self.flow_bytes[keep], self.kind[keep]
        return TrafficMatrix(self.gpus, source, destination, *amounts, groups)

    def weighted(self, share: Floats) -> "TrafficMatrix":
        """Every amount times the share of its sender; members of a group have equal ones.

        Parameters
        ----------
        share
            Share of each sender, at least 0, shape (gpus,) [1].

        Returns
        -------
        TrafficMatrix
            The flows and groups of all senders whose share is above 0.

        Examples
        --------
        >>> matrix = flows_matrix(4, source=[0, 2], destination=[1, 3], flow_bytes=[5e9, 1e9])
        >>> matrix.weighted(np.array([1.0, 1.0, 0.5, 0.5])).total_bytes
        5500000000.0
        """
        groups = []
        for group in self.groups:
            shares = share[group.members[:, 0]]
            for value in distinct_values(shares[shares > 0]):
                members = group.members[shares == value]
                groups.append(
                    replace(group, members=members, pair_bytes=float(value) * group.pair_bytes)
                )
        sent = share[self.source]
        flows = self._kept(sent > 0, tuple(groups))
        return replace(flows, flow_bytes=flows.flow_bytes * sent[sent > 0])

    def relabelled(self, gpu_of_rank: Indices, gpus: int) -> "TrafficMatrix":
        """The same among the GPUs of a cluster, of which some may send nothing.

        Parameters
        ----------
        gpu_of_rank
            GPU of the cluster that each GPU of this matrix becomes, shape (ranks,).
        gpus
            GPUs of the cluster [1].

        Returns
        -------
        TrafficMatrix
            The same amounts between other numbers.

        Raises
        ------
        InputError
            As of :class:`TrafficMatrix`: if a GPU is out of range, or two become one.

        Examples
        --------
        >>> matrix = flows_matrix(2, source=[0], destination=[1], flow_bytes=[5e9])
        >>> matrix.relabelled(np.array([0, 2], dtype=np.int32), 4).destination
        array([2], dtype=int32)
        """
        groups = tuple(replace(group, members=gpu_of_rank[group.members]) for group in self.groups)
        ends = gpu_of_rank[self.source], gpu_of_rank[self.destination]
        return TrafficMatrix(gpus, *ends, self.flow_bytes, self.kind, groups)

    def renamed(self, names: Mapping[str, str] | str) -> "TrafficMatrix":
        """The same bytes for something else.

        Parameters
        ----------
        names
            Kind that each kind becomes, where it is another one; or one for all.

        Returns
        -------
        TrafficMatrix
            The same flows and groups; those of a pair that are of one kind now stay apart.

        Raises
        ------
        InputError
            If there is no such kind.

        Examples
        --------
        >>> matrix = flows_matrix(2, source=[0], destination=[1], flow_bytes=[5e9], kind="data")
        >>> matrix.renamed(TRAINING_OF_A_STEP).of_kind("train-data").total_bytes
        5000000000.0
        >>> matrix.renamed("rollout").of_kind("data").total_bytes
        0.0
        """
        given = dict.fromkeys(KINDS, names) if isinstance(names, str) else names
        for kind in (*given, *given.values()):
            check_kind(kind)
        codes = np.array([KINDS.index(given.get(kind, kind)) for kind in KINDS], np.int8)
        groups = tuple(replace(group, kind=int(codes[group.kind])) for group in self.groups)
        return replace(self, kind=codes[self.kind], groups=groups)

    def scaled(self, factor: float) -> "TrafficMatrix":
        """Every amount times ``factor``.

        Parameters
        ----------
        factor
            Factor of all amounts, at least 0 [1].

        Returns
        -------
        TrafficMatrix
            The same flows and groups with other amounts.

        Raises
        ------
        InputError
            If the factor is negative or not finite, and there is traffic.
        """
        groups = tuple(replace(g, pair_bytes=g.pair_bytes * factor) for g in self.groups)
        return replace(self, flow_bytes=self.flow_bytes * factor, groups=groups)

    def listed(self, limit: int = MAX_LISTED_PAIRS) -> "TrafficMatrix":
        """Write the uniform groups out as flows.

        Parameters
        ----------
        limit
            Most flows that may be written out [1].

        Returns
        -------
        TrafficMatrix
            The same traffic without groups.

        Raises
        ------
        InputError
            If that makes more than ``limit`` flows.
        """
        flows = self.flow_count
        if flows > limit:
            raise InputError(
                f"the matrix has {flows:,} flows when written out, at most {limit:,} are allowed:"
                " keep its uniform groups, save it as .npz"
            )
        pairs = [groups.listed() for groups in self.groups]
        amounts = [np.full(g.pair_count, g.pair_bytes) for g in self.groups]
        kinds = [np.full(g.pair_count, g.kind, np.int8) for g in self.groups]
        return TrafficMatrix(
            self.gpus,
            np.concatenate([self.source, *(source for source, _ in pairs)]),
            np.concatenate([self.destination, *(destination for _, destination in pairs)]),
            np.concatenate([self.flow_bytes, *amounts]),
            np.concatenate([self.kind, *kinds]),
        )


def flows_matrix(
    gpus: int,
    *,
    source: Iterable[int],
    destination: Iterable[int],
    flow_bytes: Iterable[float] | float,
    kind: str = "other",
) -> TrafficMatrix:
    """Matrix of flows of one kind, from any sequences of numbers; bytes may be one for all flows.

    Parameters
    ----------
    gpus
        GPUs of the cluster [1].
    source, destination
        The two ends of each flow, 0 to gpus - 1, shape (flows,).
    flow_bytes
        What each flow carries, shape (flows,), or one amount for all [B].
    kind
        One of ``KINDS``.

    Returns
    -------
    TrafficMatrix
        The flows, without uniform groups.

    Raises
    ------
    InputError
        If the kind is unknown, or as of :class:`TrafficMatrix`.

    Examples
    --------
    >>> flows_matrix(2, source=[0], destination=[1], flow_bytes=[1e9], kind="data").total_bytes
    1000000000.0
    """
    check_kind(kind)
    first, second = (np.asarray(end, dtype=np.int32).ravel() for end in (source, destination))
    amount = np.asarray(flow_bytes, dtype=np.float64)
    if amount.ndim == 0:
        amount = np.full(len(first), amount)
    code = np.full(len(first), KINDS.index(kind), np.int8)
    return TrafficMatrix(gpus, first, second, amount, code)


def no_traffic(gpus: int) -> TrafficMatrix:
    """Matrix without traffic.

    Parameters
    ----------
    gpus
        GPUs of the cluster [1].

    Returns
    -------
    TrafficMatrix
        No flows, no groups.
    """
    return flows_matrix(gpus, source=(), destination=(), flow_bytes=())


def combine(matrices: Iterable[TrafficMatrix]) -> TrafficMatrix:
    """Sum of several matrices over the same GPUs, with one flow for each pair and kind.

    Parameters
    ----------
    matrices
        Matrices over the same GPUs, at least one.

    Returns
    -------
    TrafficMatrix
        Flows above 0 bytes in rising order of source, destination and kind, and all groups that
        send something.

    Raises
    ------
    InputError
        If they are over different numbers of GPUs, or there are none.

    Examples
    --------
    >>> one = flows_matrix(2, source=[0], destination=[1], flow_bytes=[1e9])
    >>> combine([one, one]).flow_bytes
    array([2.e+09])
    """
    parts = list(matrices)
    sizes = {part.gpus for part in parts}
    if len(sizes) != 1:
        listed = ", ".join(f"{size:,}" for size in sorted(sizes)) or "none"
        raise InputError(f"matrices of one size can be added, got sizes {listed}")
    gpus = sizes.pop()
    source, destination, kind, amount = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("source", "destination", "kind", "flow_bytes")
    )
    # One whole number for (source, destination, kind) sorts and merges all three at once.
    key = (source * np.int64(gpus) + destination) * len(KINDS) + kind
    if not (sends := amount > 0).all():
        source, destination, kind = source[sends], destination[sends], kind[sends]
        key, amount = key[sends], amount[sends]
    index, total = _merged(key, amount)
    groups = tuple(group for part in parts for group in part.groups if group.pair_bytes > 0)
    return TrafficMatrix(gpus, source[index], destination[index], total, kind[index], groups)


def _merged(key: Ints, amount: Floats) -> tuple[Ints, Floats]:
    """In rising order of keys: one that has the key, and the sum of all that have it."""
    if (key[1:] > key[:-1]).all():
        return np.arange(len(key)), amount
    order = np.argsort(key)
    ordered, new = key[order], np.ones(len(key), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    if new.all():
        return order, amount[order]
    place = np.empty(len(key), np.int64)
    place[order] = np.cumsum(new) - 1
    index = order[new]
    return index, sum_by(place, amount, len(index))


def check_kind(kind: str) -> None:
    """Refuse a kind of traffic that does not exist.

    Parameters
    ----------
    kind
        Its name.

    Raises
    ------
    InputError
        If it is none of ``KINDS``.
    """
    if kind not in KINDS:
        raise InputError(f"unknown kind of traffic {kind!r}: use one of {', '.join(KINDS)}")


def check_flows(matrix: TrafficMatrix) -> None:
    """Refuse flows that cannot be.

    Parameters
    ----------
    matrix
        The traffic; its groups are not looked at.

    Raises
    ------
    InputError
        If the arrays differ in length, a GPU or a kind is out of range, a GPU sends to itself, or
        bytes are negative or not finite.
    """
    columns = (matrix.source, matrix.destination, matrix.flow_bytes, matrix.kind)
    lengths = [len(column) for column in columns]
    if len(set(lengths)) != 1:
        raise InputError(f"source, destination, bytes and kind differ in length: {lengths}")
    for name, end in (("source", matrix.source), ("destination", matrix.destination)):
        _check_range(name, end, matrix.gpus)
    if len(matrix.kind) and not 0 <= matrix.kind.min() <= matrix.kind.max() < len(KINDS):
        raise InputError(f"a kind code is out of range: use 0 to {len(KINDS) - 1}")
    # A NaN fails the comparison, which makes one test of three.
    bad = np.flatnonzero(~((matrix.flow_bytes >= 0) & (matrix.flow_bytes <= LARGEST)))
    if len(bad):
        raise InputError(
            f"flow {bad[0]} carries {matrix.flow_bytes[bad[0]]:g} bytes: give an amount from 0 to"
            f" {LARGEST:g}"
        )
    loops = np.flatnonzero(matrix.source == matrix.destination)
    if len(loops):
        raise InputError(
            f"flow {loops[0]} goes from GPU {matrix.source[loops[0]]} to itself: leave it out"
        )


def check_groups(gpus: int, groups: UniformGroups) -> None:
    """Refuse uniform groups that cannot be.

    Parameters
    ----------
    gpus
        GPUs of the cluster [1].
    groups
        The groups.

    Raises
    ------
    InputError
        If a GPU or the kind is out of range, a GPU stands in them twice, or bytes are negative or
        not finite.
    """
    _check_range("member of a group", groups.members, gpus)
    if not 0 <= groups.pair_bytes <= LARGEST:
        raise InputError(
            f"a pair of a group carries {groups.pair_bytes:g} bytes: give from 0 to {LARGEST:g}"
        )
    if not 0 <= groups.kind < len(KINDS):
        raise InputError(f"kind code {groups.kind} is out of range: use 0 to {len(KINDS) - 1}")
    times = np.bincount(groups.members.ravel(), minlength=1)
    if times.max() > 1:
        raise InputError(
            f"GPU {times.argmax()} stands {times.max()} times in uniform groups: groups are"
            " disjoint; give overlapping ones separately"
        )


def _check_range(name: str, numbers: Indices, gpus: int) -> None:
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < gpus:
        worst = numbers.max() if numbers.max() >= gpus else numbers.min()
        raise InputError(
            f"{name}: GPU {worst:,.0f} is not in a cluster of {gpus:,} GPUs (0 to {gpus - 1:,})"
        )

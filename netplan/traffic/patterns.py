"""Which pairs of a group a collective uses, and how many bytes each: ring, direct, hierarchical.

n members, full message D (the gathered result of an all_gather, else the input of one GPU):

============  ==============================  ==========================  ======================
algorithm     reduce_scatter, all_gather      all_reduce                  all_to_all
============  ==============================  ==========================  ======================
ring          (n-1)/n D to the next member    twice that                  (n-1)/2 D to the next
direct        D/n to every other member       twice that                  D/n to every other
============  ==============================  ==========================  ======================

``hierarchical`` splits the group by levels into n_0 (innermost) x n_1 x ... and runs one collective
a level. A reduce_scatter goes outwards and an all_gather inwards, so that level i handles messages
of D / (n_0 ... n_(i-1)); an all_to_all shuffles the whole D at every level. Rings carry the
reductions and gathers, direct exchange the all_to_all, and all of them on levels that join each
with each, of whose links a ring would leave most idle. The name of an algorithm
(`netplan.traffic.algorithms`) is the same, with its own pairs on levels where it runs.

*Uneven* exchanges, of experts that are loaded unevenly (`netplan.workloads.expert_load`), send w_j
D/n to member j, or with ``back`` from it, w_j over all members 1 in the mean: as many bytes in all
as even ones. ``hierarchical`` sends by the mean w of all members that lie behind one of a level.

*Merged* dispatches of folded experts send a row once to each place that has experts of it
(:func:`merged_traffic`).

A ``broadcast`` stands for those of many panels, whose roots take turns: D is what all members send
together, and each gets the (n-1)/n of it that it lacks, as in an all_gather; a ``reduce`` is the
reverse, a reduce_scatter.

Sources: traffic of ring collectives as in Narayanan et al. 2021 (Megatron-LM); the hierarchical
all_gather of the rail-only paper (arXiv:2307.12169), section 3.2, whose phases move (y-1)/(xy) D
and (x-1)/x D a GPU. SUMMA (van de Geijn and Watts 1997) for panels.

*Caches of prompts* go from the servers that take prompts to those that decode. A request is at home
on one copy of attention, tensor GPUs of every stage. Homes of either pool lie in a row, and hand on
to those in their place in the other one, as do stages with their layers and tensor GPUs with their
heads: n parts and m parts of the same whole meet where they overlap. What a GPU that decodes stores
reaches it once, also where several store the same.
"""

from collections.abc import Callable
from math import prod
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats, Indices, Ints
from netplan.errors import InputError
from netplan.levels import LevelKind
from netplan.records import replace
from netplan.traffic.algorithms import Pairs, algorithm_of, check_choice, check_number
from netplan.traffic.matrix import (
    KINDS,
    TrafficMatrix,
    UniformGroups,
    check_kind,
    combine,
    flows_matrix,
    no_traffic,
)
from netplan.traffic.placement import Placement
from netplan.workloads.operations import EXPERTS, CollectiveKind

Array = TypeVar("Array", bound=np.ndarray[Any, Any])
Pattern = Literal["ring", "direct", "hierarchical"]
Sent = Literal["ring", "direct"] | Callable[[CollectiveKind, int], Pairs]
"""Who sends to whom in one level."""


class MemberLoads(Struct, frozen=True, eq=False):
    """What members of groups get of an exchange over the mean, or with ``back`` give to it.

    Parameters
    ----------
    weights
        Of the members of one group, 1 in the mean, shape (members,); or of all groups, shape
        (groups, members) [1].
    back
        Whether they give as much.
    """

    weights: Floats
    back: bool = False

    def behind(self, n: int, inner: int) -> Floats:
        """Weights of members at one level of n: the mean of all that lie behind each [1].

        Rows go from level to level outwards, so that below the level each is at its place, with
        those for every member further out.

        Examples
        --------
        >>> MemberLoads(np.array([1.0, 3.0, 0.0, 0.0])).behind(2, 1)
        array([0.5, 1.5, 0.5, 1.5])
        """
        parts = self.weights.reshape(-1, n, inner)
        return np.tile(parts.mean(axis=0).ravel(), len(parts))


def both_ways(matrix: TrafficMatrix) -> TrafficMatrix:
    """Send half of every flow the other way, as rings with two links a GPU do.

    Uniform groups are symmetric and stay as they are.
    """
    flows = replace(matrix, groups=(), flow_bytes=matrix.flow_bytes / 2)
    back = replace(flows, source=flows.destination, destination=flows.source)
    return replace(combine([flows, back]), groups=matrix.groups)


def chain_traffic(
    members: Indices, step_bytes: float, gpus: int, wraps: int = 0, *, back: bool = True
) -> TrafficMatrix:
    """Activations forward and gradients back, if any go, between neighbouring pipeline stages.

    With v interleaved stages on a GPU a microbatch runs v times through the chain. In between it
    returns v - 1 times from the last member to the first, the wrap-around edge (``wraps``). Members
    are the GPUs of each pipeline from the first stage to the last, shape (pipelines, stages);
    ``step_bytes`` go one way over one edge in one run, all microbatches together [B].

    Examples
    --------
    >>> pipeline = np.arange(3, dtype=np.int32)[None]
    >>> chain_traffic(pipeline, 1e9, gpus=3, wraps=1).total_bytes / 1e9
    10.0
    """
    if members.shape[1] == 1:
        return no_traffic(gpus)
    edges = [(members[:, :-1], members[:, 1:], (wraps + 1) * step_bytes)]
    if wraps:
        edges.append((members[:, -1:], members[:, :1], wraps * step_bytes))
    return combine(
        flows_matrix(gpus, source=here, destination=there, flow_bytes=amount, kind="pipeline")
        for low, high, amount in edges
        for here, there in ((low, high), (high, low))[: 2 if back else 1]
    )


def collective_traffic(  # noqa: PLR0913 - what runs, and how
    collective: CollectiveKind,
    placement: Placement,
    dimensions: tuple[str, ...],
    *,
    data_bytes: float,
    kind: str,
    pattern: Pattern | str = "ring",
    uneven: MemberLoads | None = None,
) -> TrafficMatrix:
    """Traffic of one collective, run at the same time by all groups over some dimensions.

    Parameters
    ----------
    collective, placement, pattern
        What runs, where the ranks lie, and which pairs of a group talk: a `Pattern`, or the name
        of an algorithm.
    dimensions
        Dimensions in which the members of one group differ.
    data_bytes
        Full message D [B].
    kind
        One of ``KINDS``.
    uneven
        Loads of the members of every group, where an all_to_all follows them.

    Raises
    ------
    InputError
        If a name or number is not allowed.

    Examples
    --------
    An all_reduce over 32 GPUs in each of 2 HB domains keeps 98.41 % of its bytes inside.

    >>> from netplan.traffic.placement import Degrees
    >>> placement = Placement((Degrees(data=32), Degrees(data=2)))
    >>> matrix = collective_traffic(
    ...     "all_reduce", placement, ("data",), data_bytes=1e9, kind="data", pattern="hierarchical")
    >>> inside = matrix.source // 32 == matrix.destination // 32
    >>> float(round(100 * matrix.flow_bytes[inside].sum() / matrix.total_bytes, 2))
    98.41
    """
    levels = collective_levels(
        collective,
        placement,
        dimensions,
        data_bytes=data_bytes,
        kind=kind,
        pattern=pattern,
        uneven=uneven,
    )
    if pattern in ("ring", "direct"):
        return levels[0][0]
    return combine([no_traffic(placement.gpus), *(matrix for matrix, _ in levels)])


def collective_levels(  # noqa: PLR0913 - as before
    collective: CollectiveKind,
    placement: Placement,
    dimensions: tuple[str, ...],
    *,
    data_bytes: float,
    kind: str,
    pattern: Pattern | str = "ring",
    uneven: MemberLoads | None = None,
) -> list[tuple[TrafficMatrix, int]]:
    """Traffic of each level of a collective from the innermost out, and in how many steps it goes.

    Parameters
    ----------
    collective, placement, dimensions, data_bytes, kind, pattern, uneven
        As of :func:`collective_traffic`.

    Returns
    -------
    list of tuple
        Matrix of a level, and its steps: those of a ring, else 1; one level if there is no other.

    Raises
    ------
    InputError
        If a name or number is not allowed.
    """
    check_choice("collective", collective, get_args(CollectiveKind))
    named = None if pattern in get_args(Pattern) else algorithm_of(pattern)
    check_number("data_bytes", data_bytes)
    check_kind(kind)
    members = placement.groups(*dimensions)
    cluster = placement.gpus, kind
    if uneven is not None and pattern in ("ring", "direct"):
        return [(_sent_by_load(members, data_bytes, cluster, uneven), 1)]
    if pattern in ("ring", "direct"):
        steps = max(1, members.shape[1] - 1) if pattern == "ring" else 1
        return [(_flat(collective, members, data_bytes, cluster, pattern), steps)]
    levels, inner = [], 1
    splits = placement.splits(*dimensions)
    switches: list[LevelKind] = ["switch"] * len(splits)
    for n, level_kind in zip(splits, (*placement.kinds, *switches), strict=False):
        all_at_once = level_kind == "mesh" or collective == "all_to_all"
        within: Sent = "direct" if all_at_once else "ring"
        if named is not None and named.runs(collective, level_kind):
            within = named.pairs
        # Members that differ in this level only: the middle axis of (outer, n, inner), moved last.
        level = _of_level(members, n, inner)
        message = data_bytes if collective == "all_to_all" else data_bytes / inner
        steps = max(1, n - 1) if within == "ring" else 1
        if uneven is None:
            levels.append((_flat(collective, level, message, cluster, within), steps))
        else:
            if within != "direct":
                raise InputError(
                    f"--collective-algorithm {pattern} sends alike to all, and experts are loaded"
                    " unevenly: take pairwise, or leave --expert-skew out"
                )
            loads = uneven.behind(n, inner)
            here = replace(uneven, weights=_of_level(np.tile(loads, (len(members), 1)), n, inner))
            levels.append((_sent_by_load(level, message, cluster, here), 1))
        inner *= n
    return levels


def _of_level(members: Array, n: int, inner: int) -> Any:  # noqa: ANN401 - as the members are
    """Members that differ in one level of n only, of groups that have ``inner`` below it."""
    return members.reshape(len(members), -1, n, inner).swapaxes(2, 3).reshape(-1, n)


def _sent_by_load(
    members: Indices, data_bytes: float, cluster: tuple[int, str], uneven: MemberLoads
) -> TrafficMatrix:
    """An all_to_all over whole groups whose bytes follow loads."""
    gpus, kind = cluster
    n = members.shape[1]
    if n == 1 or data_bytes == 0:
        return no_traffic(gpus)
    first, second = np.nonzero(~np.eye(n, dtype=bool))
    weights = np.broadcast_to(uneven.weights, members.shape)
    flow_bytes = data_bytes / n * weights[:, first if uneven.back else second]
    return flows_matrix(
        gpus,
        source=members[:, first].ravel(),
        destination=members[:, second].ravel(),
        flow_bytes=flow_bytes.ravel(),
        kind=kind,
    )


def distinct_places(places: Amount, copies: Amount) -> Amount:
    """Distinct places among so many that copies of a row go to, expected [1].

    >>> round(float(distinct_places(8.0, 8.0)), 3)
    5.251
    """
    return places * (1 - (1 - 1 / np.asarray(places, np.float64)) ** copies)


def merged_traffic(
    placement: Placement, *, data_bytes: float, kind: str, uneven: MemberLoads | None = None
) -> TrafficMatrix:
    """Traffic of a dispatch of folded experts, or of a combination, in which copies go together.

    Of D bytes that a GPU has for its experts, k copies of every row, N HB domains of a group of x
    GPUs get one copy each where any of k goes there, D(N) = N (1 - (1 - 1/N)^k) of them: so much of
    D/k goes from every GPU to the GPU of its place in another domain. Inside a domain D(x) (x-1)/x
    of D/k leave every GPU, its own and what it hands on, for the others alike, as iteration model
    ``calibrated`` counts them (`netplan.performance.dated.exchange`).

    Parameters
    ----------
    placement
        Ranks with folded experts, whose copies merge.
    data_bytes
        D [B].
    kind
        One of ``KINDS``.
    uneven
        Loads of the GPUs of every group, where they are not alike.

    Returns
    -------
    TrafficMatrix
        Bytes between ranks [B].

    Examples
    --------
    Two domains of two GPUs, two copies of each of 1,000 rows of 1 B: of both domains 3/2 are met,
    half of them another one; of four GPUs 7/4, three quarters of them others.

    >>> from netplan.traffic.placement import Degrees, Folding
    >>> placement = Placement((Degrees(data=2), Degrees(data=2)), folded=Folding(4, 1, 2))
    >>> matrix = merged_traffic(placement, data_bytes=2000.0, kind="expert")
    >>> matrix.total_bytes / 4
    2062.5
    """
    copies = max(1, placement.merged_copies)
    inside, *outer = placement.splits(*EXPERTS)
    domains, everywhere = prod(outer), (placement.gpus, kind)
    members, row_bytes = placement.groups(*EXPERTS), data_bytes / copies
    over = inside * domains
    if 1 in (inside, domains):
        message = row_bytes * float(distinct_places(over, copies))
        if uneven is not None:
            return _sent_by_load(members, message, everywhere, uneven)
        return _flat("all_to_all", members, message, everywhere, "direct")
    by_place = members.reshape(-1, domains, inside)
    across = row_bytes * float(distinct_places(domains, copies))
    handed = (
        row_bytes * float(distinct_places(over, copies)) * (over - 1) / over * inside / (inside - 1)
    )
    parts = (
        (by_place.swapaxes(1, 2).reshape(-1, domains), across),
        (by_place.reshape(-1, inside), handed),
    )
    if uneven is None:
        return combine(
            _flat("all_to_all", part, message, everywhere, "direct") for part, message in parts
        )
    shares = np.reshape(uneven.weights, (domains, inside))
    of_domains = replace(uneven, weights=shares.mean(axis=1))
    loads = (of_domains, replace(uneven, weights=np.tile(shares, (len(members), 1))))
    return combine(
        _sent_by_load(part, message, everywhere, load)
        for (part, message), load in zip(parts, loads, strict=True)
    )


def _flat(
    collective: CollectiveKind,
    members: Indices,
    data_bytes: float,
    cluster: tuple[int, str],
    pattern: Pattern | str | Sent,
) -> TrafficMatrix:
    """One collective over whole groups; ``cluster`` holds the GPUs and the kind of traffic."""
    gpus, kind = cluster
    n = members.shape[1]
    if n == 1 or data_bytes == 0:
        return no_traffic(gpus)
    passes = 2 if collective == "all_reduce" else 1  # a reduce_scatter and an all_gather
    if callable(pattern):
        first, second, amounts = pattern(collective, n)
        return flows_matrix(
            gpus,
            source=members[:, first],
            destination=members[:, second],
            flow_bytes=np.tile(amounts * data_bytes, len(members)),
            kind=kind,
        )
    if pattern == "ring":
        share = (n - 1) / 2 if collective == "all_to_all" else passes * (n - 1) / n
        following, edge_bytes = np.roll(members, -1, axis=1), share * data_bytes
        return flows_matrix(
            gpus, source=members, destination=following, flow_bytes=edge_bytes, kind=kind
        )
    groups = UniformGroups(members, passes * data_bytes / n, KINDS.index(kind))
    return replace(no_traffic(gpus), groups=(groups,))


def overlaps(parts: int, others: int) -> tuple[Ints, Ints, Floats]:
    """Where equal parts of a whole meet equal parts of another cut, and the share of the whole.

    Examples
    --------
    >>> [one.tolist() for one in overlaps(2, 4)]
    [[0, 0, 1, 1], [0, 1, 2, 3], [0.25, 0.25, 0.25, 0.25]]
    """
    cuts = np.union1d(np.arange(parts) * others, np.arange(others) * parts)
    lengths = np.diff(np.append(cuts, parts * others))
    return cuts // others, cuts // parts, lengths / (parts * others)


def homes(placement: Placement) -> Indices:
    """GPUs of every copy of attention, in order, shape (homes, stages, tensor)."""
    totals = placement.totals
    shape = (totals.data, totals.pipeline, totals.expert, totals.tensor)
    gpus = placement.gpu_of_rank[placement.groups("tensor")].reshape(shape)
    return gpus.swapaxes(1, 2).reshape(-1, totals.pipeline, totals.tensor)


def cache_traffic(
    prefill: Placement, decode: Placement, *, stored_bytes: float, gpus: int
) -> TrafficMatrix:
    """Traffic of caches between two pools.

    Parameters
    ----------
    prefill, decode
        Where both pools stand.
    stored_bytes
        What one GPU of a stage that had all layers would store of all requests, were they all of
        one home of ``decode`` [B].
    gpus
        GPUs of the cluster [1].

    Examples
    --------
    A server of two GPUs hands its heads to one of four, 1 GB to each of them.

    >>> from netplan.traffic.placement import Degrees
    >>> one = Placement((Degrees(tensor=2),), (2,))
    >>> other = Placement((Degrees(tensor=4),), (4,), first=2)
    >>> matrix = cache_traffic(one, other, stored_bytes=1e9, gpus=6)
    >>> list(zip(matrix.source.tolist(), matrix.destination.tolist(), matrix.flow_bytes.tolist()))
    [(0, 2, 1000000000.0), (0, 3, 1000000000.0), (1, 4, 1000000000.0), (1, 5, 1000000000.0)]
    """
    here, there = homes(prefill), homes(decode)
    pairs = [overlaps(ours, theirs) for ours, theirs in zip(here.shape, there.shape, strict=True)]
    sources, targets, shares = ([pair[part] for pair in pairs] for part in range(3))
    home, stage, heads = np.ix_(*shares)
    return flows_matrix(
        gpus,
        source=here[np.ix_(*sources)].ravel(),
        destination=there[np.ix_(*targets)].ravel(),
        flow_bytes=(stored_bytes * there.shape[2] * home * stage * heads).ravel(),
        kind="cache",
    )

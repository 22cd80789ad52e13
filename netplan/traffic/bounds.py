"""Lower bounds on the time of a collective: what no algorithm on these links can beat.

Bandwidth only. E_i is the bandwidth out of one GPU at level i. For every non-empty set J of levels,
the GPUs that agree in the coordinates J form one group; g = product of n_j in J counts the groups,
and only the links of J, E_J = sum of E_j a GPU, leave one. With N GPUs in all and the message D:

===========================  ==================================================================
all_gather, reduce_scatter   (g-1) * D / (N*E_J)
all_reduce                   2 * (g-1) * D / (N*E_J), as long as sums are formed in GPUs
the same in the switches     g * D / (N*E_J) where J holds level 1 and its switches form sums: what
                             a group adds leaves it, what all add comes in
all_to_all                   (g-1)/g * D / E_J, and through the middle of each ring of n > 2:
                             floor(n/2) * ceil(n/2) * D / (2*n*B), of each line twice that
broadcast, point_to_point    D / (sum of all E_i)
===========================  ==================================================================

A line counts with one link a GPU, which is all that those at its ends have; in an all_reduce, where
sums on their way count and nobody need take all parts, with its 2*(n-1)/n on average. The bound is
the largest of these. A product of levels is a *rail-only* network: level 2 joins GPUs
of one rail only. In a *rail-optimized* one the outermost level is a non-blocking switch for all
GPUs; then its links leave every group, and only the sets J that hold it give a term.

Sources: cut bound of Zhao and Krishnamurthy 2023, whose optimum the all_gather terms equal on
rings, tori, switches and two-level hierarchies (ForestColl, arXiv:2402.06787). Left out: latency,
blocking switches, reduction inside the network's switches.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Literal, get_args

from msgspec import Struct

from netplan.errors import InputError
from netplan.levels import CHAINED, Level, gpu_count
from netplan.records import replace
from netplan.traffic.algorithms import Collective, check_choice, check_number

Fabric = Literal["rail-only", "rail-optimized"]
Operation = Collective | Literal["broadcast", "point_to_point"]


class LowerBound(Struct, frozen=True):
    """A lower bound with all its terms.

    Parameters
    ----------
    terms_s
        Name and time of each term [s]; at least one.

    Examples
    --------
    >>> bound = LowerBound((("network", 0.002), ("joint", 0.003)))
    >>> bound.bound_s, bound.binding
    (0.003, 'joint')
    >>> print(bound)
    0.003 s, bound by joint (network 0.002 s, joint 0.003 s)
    """

    terms_s: tuple[tuple[str, float], ...]

    @property
    def bound_s(self) -> float:
        """The largest term [s]."""
        return max(time_s for _, time_s in self.terms_s)

    @property
    def binding(self) -> str:
        """Name of the largest term; of equal ones the first."""
        return max(self.terms_s, key=lambda term: term[1])[0]

    def __str__(self) -> str:
        """Return the bound, the term that binds, and all terms."""
        terms = ", ".join(f"{name} {time_s:.6g} s" for name, time_s in self.terms_s)
        return f"{self.bound_s:.6g} s, bound by {self.binding} ({terms})"


def lower_bound(
    operation: Operation,
    levels: Sequence[Level],
    *,
    data_bytes: float,
    fabric: Fabric = "rail-only",
    reducing: bool = False,
) -> LowerBound:
    """Time that no algorithm on these levels can beat (formulas of this module).

    Parameters
    ----------
    operation
        One of the four collectives, ``broadcast`` or ``point_to_point``.
    levels
        Levels from the inside to the outside; those of size 1 give no term.
    data_bytes
        Full message D: the gathered result of an all_gather, else the input of one GPU [B].
    fabric
        ``rail-only``: the product of the levels. ``rail-optimized``: the outermost level is one
        non-blocking switch for all GPUs.
    reducing
        Whether the switches of the innermost level form sums.

    Returns
    -------
    LowerBound
        Terms [s] are named by the levels as counted from 1: ``level 2``, ``levels 1+2``,
        ``bisection of level 3``, or ``links of one GPU``.

    Raises
    ------
    InputError
        If a name or number is not allowed, or the network for all GPUs is not a switch.

    References
    ----------
    Zhao and Krishnamurthy, arXiv:2305.18461; ForestColl, arXiv:2402.06787.

    Examples
    --------
    >>> domain, network = Level("switch", 8, 300e9), Level("switch", 2, 25e9)
    >>> print(lower_bound("all_gather", [domain, network], data_bytes=1e9))
    0.00288462 s, bound by levels 1+2
    (level 1 0.00145833 s, level 2 0.0025 s, levels 1+2 0.00288462 s)
    """
    check_choice("operation", operation, (*get_args(Collective), "broadcast", "point_to_point"))
    check_choice("fabric", fabric, get_args(Fabric))
    check_number("data_bytes", data_bytes)
    used = [(number, level) for number, level in enumerate(levels, 1) if level.size > 1]
    if not used:
        return LowerBound((("one GPU", 0.0),))
    if fabric == "rail-optimized" and used[-1][1].kind != "switch":
        raise InputError(
            f"the network of a rail-optimized fabric is a switch, got a {used[-1][1].kind}: "
            "make the outermost level a switch, or use fabric 'rail-only'"
        )
    if operation in ("broadcast", "point_to_point"):
        out_bytes_per_s = sum(level.gpu_bytes_per_s for _, level in used)
        return LowerBound((("links of one GPU", data_bytes / out_bytes_per_s),))
    share = 1 / gpu_count(levels)
    # No other link leaves the groups of GPUs of a set of levels, but for a network of all GPUs.
    subsets = (
        subset
        for count in range(1, len(used) + 1)
        for subset in combinations(used, count)
        if fabric == "rail-only" or used[-1] in subset
    )
    sums = reducing and operation == "all_reduce" and levels[0].kind == "switch"
    cut = _summed_term if sums else _cut_term
    terms = [cut(operation, subset, data_bytes, share) for subset in subsets]
    if operation == "all_to_all" and fabric == "rail-only":
        terms += [
            (f"bisection of level {number}", data_bytes * _bisection_s_per_byte(level))
            for number, level in used
            if level.kind in CHAINED and level.size > 2  # noqa: PLR2004 - two share one link
        ]
    return LowerBound(tuple(terms))


def group_bound(
    operation: Operation,
    levels: Sequence[Level],
    members: Sequence[int],
    *,
    data_bytes: float,
    any_to_any: bool,
    port_bytes_per_s: float = 0.0,
) -> LowerBound:
    """Bound of a collective that all groups of some GPUs of a fabric run at once.

    Parameters
    ----------
    operation, data_bytes
        As in :func:`lower_bound`.
    levels
        Levels of the fabric. What blocks above the leaves is left out, as are detours on rings.
    members
        Members of a group in each level [1].
    any_to_any
        Whether the network joins all GPUs, not only those of a rail.
    port_bytes_per_s
        Rate of a network port: some GPUs send at that where all together cannot, as the levels of a
        dragonfly have it [B/s].

    Returns
    -------
    LowerBound
        Terms as of :func:`lower_bound` [s].

    Raises
    ------
    InputError
        If the operation is unknown, or the message is negative.

    Examples
    --------
    >>> levels = Level("switch", 8, 300e9), Level("switch", 16, 25e9)
    >>> group_bound("all_gather", levels, (1, 4), data_bytes=1e9, any_to_any=True).bound_s
    0.03
    """
    domain, *network = levels
    least = [domain, *(_at_least(level, port_bytes_per_s) for level in network)]
    group_levels = [_of_group(level, here) for level, here in zip(least, members, strict=True)]
    outer = [level for level, here in zip(least, members, strict=True) if here > 1][-1:]
    switched = [level.kind for level in outer] == ["switch"]
    fabric: Fabric = "rail-optimized" if any_to_any and switched else "rail-only"
    return lower_bound(operation, group_levels, data_bytes=data_bytes, fabric=fabric)


def _at_least(level: Level, bytes_per_s: float) -> Level:
    """Level with at least so much bandwidth out of one GPU."""
    more = bytes_per_s / level.gpu_bytes_per_s if level.size > 1 else 1.0
    return replace(level, link_bytes_per_s=level.link_bytes_per_s * max(1.0, more))


def _of_group(level: Level, members: int) -> Level:
    """Level as a group of some of its members sees it, without latency and leaves.

    In a mesh messages may take detours over members of other groups, by all links of a GPU; where
    links lead along other levels too, a GPU has two, wherever they lead.
    """
    rate = level.link_bytes_per_s
    if level.interleaved:
        return Level("switch", members, 2 * rate)
    if level.kind == "mesh" and 1 < members < level.size:
        rate = level.gpu_bytes_per_s / (members - 1)
    return Level(level.kind, members, rate)


def _cut_term(
    collective: Operation, subset: tuple[tuple[int, Level], ...], data_bytes: float, share: float
) -> tuple[str, float]:
    """Term of one set of levels, ``level 2`` or ``levels 1+2``; `share` is 1/N."""
    name = f"level{'s' * (len(subset) > 1)} {'+'.join(str(number) for number, _ in subset)}"
    groups = math.prod(level.size for _, level in subset)
    out_bytes_per_s = sum(level.gpu_bytes_per_s for _, level in subset)
    if collective == "all_to_all":
        return name, data_bytes * ((groups - 1) / groups / out_bytes_per_s)
    passes = 1
    if collective == "all_reduce":
        # Out of a GPU on average: those at the ends of a line have one link.
        passes, out_bytes_per_s = (
            2,
            sum(
                level.gpu_bytes_per_s
                if level.kind != "line"
                else 2 * (level.size - 1) / level.size * level.link_bytes_per_s
                for _, level in subset
            ),
        )
    return name, data_bytes * (passes * (groups - 1) * share / out_bytes_per_s)


def _summed_term(
    collective: Operation, subset: tuple[tuple[int, Level], ...], data_bytes: float, share: float
) -> tuple[str, float]:
    """The same of an all_reduce whose sums the switches of level 1 form."""
    name, time_s = _cut_term(collective, subset, data_bytes, share)
    groups = math.prod(level.size for _, level in subset)
    return name, time_s * groups / (2 * (groups - 1)) if subset[0][0] == 1 else time_s


def _bisection_s_per_byte(level: Level) -> float:
    """Cut each ring or line in two halves, which two links a direction join, or one."""
    halves = (level.size // 2) * ((level.size + 1) // 2)
    links = 2 if level.kind == "ring" else 1
    return halves / (links * level.size * level.link_bytes_per_s)

r"""Which nodes jobs are moved to, so that few of a leaf's jobs stand on other leaves, too.

=======  ===========================================================================================
n_l      nodes of leaf l that jobs of whole nodes can have, of each size of nodes [1]
k_j      nodes of job j [1]
x_jl     of them on leaf l; x0_jl now [1]
y_jl     1 if job j stands on leaf l
z_j      1 if it stands on several
f_jl     1 if it is a fragment there
N        most fragments of a leaf [1]
=======  ===========================================================================================

The least sum of max(0, x0 - x) with sum_l x = k_j, sum_j x <= n_l, x_jl <= min(n_l, k_j) y_jl,
sum_l y_jl <= 1 + (L - 1) z_j, f_jl >= y_jl + z_j - 1 and sum_j f_jl <= N is a mixed-integer
program, which HiGHS solves (`scipy.optimize.milp`). N = 2 can always be reached: laid one after
another over the leaves, every leaf has at most one job that came from its left and one that goes
on to its right (MonkeyTree, arXiv:2602.08296, proves that bound). Where the program is large or
the time is up, jobs of leaves that break the bound are laid so, with more moves.
"""

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Ints
from netplan.records import replace

LARGEST = 64 * 100
"""Leaves times jobs above which an answer is wanted soon [1]."""

LIMITS_S = 60.0, 5.0
"""Time that a program may take, and a larger one [s]."""

ONE_LESS = 0.999
"""Moves are whole: one that is nearer than this to the bound below it is the least [1]."""


class Moved(Struct, frozen=True, eq=False):
    """Where jobs stand after moves.

    Parameters
    ----------
    nodes
        Of each job on each leaf, shape (jobs, leaves) [1].
    bound
        Most fragments of a leaf that were allowed [1].
    proved
        Whether fewer moves are known not to be enough.
    """

    nodes: Ints
    bound: int
    proved: bool


def fragments(nodes: Ints) -> Ints:
    """Jobs of each leaf that stand on others, too.

    Parameters
    ----------
    nodes
        Of each job on each leaf, shape (jobs, leaves) [1].

    Returns
    -------
    ndarray
        Shape (leaves,) [1].

    Examples
    --------
    >>> fragments(np.array([[0, 1, 1, 0], [1, 0, 2, 3]]))
    array([1, 1, 2, 1])
    """
    stands = nodes > 0
    several = stands.sum(axis=1) > 1
    jobs: Ints = (stands & several[:, None]).sum(axis=0).astype(np.int64)
    return jobs


def fewest_moves(nodes: Ints, room: Ints, most: int, kind: Ints | None = None) -> Moved:
    """Move as few nodes as possible so that no leaf has more fragments than some.

    Parameters
    ----------
    nodes
        Of each job on each leaf now, shape (jobs, leaves) [1].
    room
        Nodes of each leaf that these jobs can have, of each size if there are several, shape
        (leaves,) or (sizes, leaves) [1].
    most
        Fragments that a leaf may have; where no placement has so few, the least that one has [1].
    kind
        Size of the nodes that each job takes, shape (jobs,); all 0 if None.

    Returns
    -------
    Moved
        Where they stand then.

    Examples
    --------
    Three jobs of two nodes, each on two of three leaves: one goes home if none may be split.

    >>> nodes = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]])
    >>> moved = fewest_moves(nodes, np.full(3, 2), 0)
    >>> moves(nodes, moved.nodes), fragments(moved.nodes).tolist(), moved.proved
    (3, [0, 0, 0], True)
    """
    if fragments(nodes).max(initial=0) <= most:
        return Moved(nodes, most, proved=True)
    of_kind = np.zeros(len(nodes), np.int64) if kind is None else kind
    rooms = np.atleast_2d(room)
    jobs = np.flatnonzero(nodes.any(axis=1))
    asked = nodes[jobs], rooms, of_kind[jobs], most
    laid = _in_a_line(*asked)
    keeps = bool(fragments(laid).max() <= most)
    known_moves = moves(nodes[jobs], laid) if keeps else int(nodes.sum())
    solution, finished = _solved(*asked, known_moves)
    if solution is None and (finished or not keeps):
        wider = fewest_moves(nodes, rooms, most + 1, of_kind)
        return wider if finished else replace(wider, proved=False)
    after = nodes.copy()
    after[jobs] = laid if solution is None else solution
    return Moved(after, most, proved=finished and solution is not None)


def moves(before: Ints, after: Ints) -> int:
    """Nodes that jobs are moved to.

    Parameters
    ----------
    before, after
        Nodes of each job on each leaf, shape (jobs, leaves) [1].

    Returns
    -------
    int
        Those that they did not have [1].

    Examples
    --------
    >>> moves(np.array([[1, 1], [1, 1]]), np.array([[2, 0], [0, 2]]))
    2
    """
    return int(np.maximum(before - after, 0).sum())


def _solved(
    nodes: Ints, room: Ints, kind: Ints, most: int, known_moves: int
) -> tuple[Ints | None, bool]:
    """The best placement that HiGHS found in its time, if any; whether it searched to the end."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - seldom used
    from scipy.sparse import csr_array, diags_array, eye_array, hstack, kron, vstack  # noqa: PLC0415

    jobs, leaves = nodes.shape
    pairs = jobs * leaves
    size = nodes.sum(axis=1)
    held = np.minimum(room[kind], size[:, None]).ravel()
    same, of_job = eye_array(pairs), kron(eye_array(jobs), np.ones((1, leaves)))
    of_leaf = kron(np.ones((1, jobs)), eye_array(leaves))
    of_kind = kron(kind == np.arange(len(room))[:, None], eye_array(leaves))
    per_job = kron(eye_array(jobs), np.ones((leaves, 1)))

    def row(**parts: object) -> object:
        widths = {"x": pairs, "y": pairs, "z": jobs, "f": pairs, "m": pairs}
        height = next(iter(parts.values())).shape[0]  # type: ignore[attr-defined]
        nothing = {name: csr_array((height, width)) for name, width in widths.items()}
        return hstack([*(nothing | parts).values()], format="csr")

    least = np.full
    constraints = [
        (row(x=of_job), size, size),
        (row(x=of_kind), least(room.size, 0), room.ravel()),
        (
            row(x=-same, y=diags_array(held.astype(np.float64))),
            least(pairs, 0),
            least(pairs, np.inf),
        ),
        (row(y=-of_job, z=(leaves - 1) * eye_array(jobs)), least(jobs, -1), least(jobs, np.inf)),
        (row(y=-same, z=-per_job, f=same), least(pairs, -1), least(pairs, np.inf)),
        (row(f=of_leaf), least(leaves, 0), least(leaves, most)),
        (row(x=same, m=same), nodes.ravel(), least(pairs, np.inf)),
    ]
    matrix = vstack([part for part, _, _ in constraints], format="csr")
    low, high = (np.concatenate([part[i] for part in constraints]) for i in (1, 2))
    cost = np.concatenate([np.zeros(3 * pairs + jobs), np.ones(pairs)])
    upper = np.concatenate([held, np.ones(pairs + jobs + pairs), nodes.ravel()])
    whole = np.concatenate([np.ones(2 * pairs + jobs), np.zeros(2 * pairs)])
    result = milp(
        cost,
        integrality=whole,
        bounds=Bounds(np.zeros(len(cost)), upper),
        constraints=LinearConstraint(matrix, low, high),
        options={
            "time_limit": LIMITS_S[pairs > LARGEST],
            "mip_rel_gap": ONE_LESS / max(1, known_moves),
        },
    )
    finished = result.status in (0, 2)  # solved, or shown to have no solution
    if result.x is None:
        return None, finished
    return np.rint(result.x[:pairs]).astype(np.int64).reshape(jobs, leaves), finished


def _in_a_line(nodes: Ints, room: Ints, kind: Ints, most: int) -> Ints:
    """Jobs laid one after another over the leaves that break the bound, and those that they need.

    A job that stands on other leaves, too, is a fragment wherever it is, so that the leaves of
    jobs that still break the bound are taken in until none does.
    """
    leaves = fragments(nodes) > most
    while True:
        laid = nodes.copy()
        for number, of_kind in enumerate(room):
            jobs = np.flatnonzero(kind == number)
            laid[jobs] = _line_over(nodes[jobs], of_kind, leaves)
        broken = fragments(laid) > most
        if not broken.any() or leaves.all():
            return laid
        wider = leaves | broken | (laid[(laid[:, broken] > 0).any(axis=1)] > 0).any(axis=0)
        leaves = np.ones_like(leaves) if (wider == leaves).all() else wider


def _line_over(nodes: Ints, room: Ints, leaves: Bools) -> Ints:
    """What jobs have on some leaves, laid one after another in the order of where they stand."""
    chosen = np.flatnonzero(leaves)
    here = nodes[:, chosen]
    size = here.sum(axis=1)
    middle = (here * np.arange(len(chosen))).sum(axis=1) / np.maximum(size, 1)
    laid = nodes.copy()
    laid[:, chosen] = 0
    left = room[chosen].copy()
    leaf = 0
    order = np.lexsort((np.arange(len(size)), middle))
    for job in order[size[order] > 0].tolist():
        need = int(size[job])
        while need:
            part = min(need, int(left[leaf]))
            laid[job, chosen[leaf]] += part
            left[leaf] -= part
            need -= part
            leaf += bool(need)
    return laid

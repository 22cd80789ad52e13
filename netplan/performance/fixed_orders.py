"""Pipelines whose stages run their passes in a fixed order: how long an iteration takes, exactly.

Each stage does one pass at a time, in an order that hangs on no time. A forward pass of virtual
stage j needs that of j - 1, a backward pass that of j + 1, the last one its own forward pass; what
goes from one to the other has a delay. So the iteration takes the longest path through all passes.

===========  =======================================================================================
1f1b         min(m, S - i + a_i) forward passes first, then a backward and a forward pass by turns
             (arXiv:1806.03377); a_i microbatches more where a stage holds more
gpipe        all forward passes first (arXiv:1811.06965)
interleaved  v virtual stages each, in groups of S microbatches (arXiv:2104.04473, Sec. 2.2), the
             first group with those that fill no other; 2 (S - i) - 1 + (v - 1) G passes first
zb-1p        1f1b whose backward passes are halves: of the inputs, and i microbatches later of the
             weights (arXiv:2401.10241, Sec. 2.2: no more activations than in 1f1b)
zb-2p        the same with 2 (S - i) - 1 forward passes first, and weights 2 i microbatches later
===========  =======================================================================================
"""

from typing import get_args

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.errors import InputError
from netplan.inputs.choices import ScheduleName

FORWARD, BACKWARD, WEIGHTS = range(3)
"""Kinds of passes; the last one is of the gradients of weights where that is a pass of its own."""

ZERO_BUBBLE = ("zb-1p", "zb-2p")


class PassOrder(Struct, frozen=True, eq=False):
    """Passes of every stage in their order: kind, virtual stage, microbatch; (stages, passes)."""

    kinds: Ints
    virtual: Ints
    index: Ints
    microbatches: int
    chunks: int = 1


def pass_order(
    schedule: ScheduleName, stages: int, microbatches: int, *, chunks: int = 1, ahead: Ints
) -> PassOrder:
    """Order of the passes of a schedule.

    Parameters
    ----------
    schedule
        Its name.
    stages, microbatches, chunks
        Stages, microbatches, virtual stages of a stage [1].
    ahead
        Microbatches that each stage holds more, shape (stages,) [1].

    Returns
    -------
    PassOrder
        Of every stage.

    Raises
    ------
    InputError
        If there is no such schedule, or interleaved stages are to hold more.

    Examples
    --------
    >>> order = pass_order("1f1b", 2, 3, ahead=np.zeros(2, np.int64))
    >>> ["".join("FB"[kind] for kind in row) for row in order.kinds.tolist()]
    ['FFBFBB', 'FBFBFB']
    """
    if schedule not in get_args(ScheduleName):
        known = ", ".join(get_args(ScheduleName))
        raise InputError(f"schedule {schedule!r} is unknown: use one of {known}")
    stage = np.arange(stages)
    every = microbatches * chunks
    window = stages - stage + ahead
    if schedule == "gpipe":
        window = np.full(stages, every)
    elif schedule == "zb-2p":
        window = 2 * (stages - stage) - 1 + ahead
    elif schedule == "interleaved" and chunks > 1:
        if np.any(ahead):
            raise InputError(
                "interleaved stages hold no microbatches ahead of a border: take --schedule 1f1b,"
                " or --ahead 0"
            )
        first_group = min(microbatches, stages + microbatches % stages)
        window = 2 * (stages - stage) - 1 + (chunks - 1) * first_group
    forward, place = _turns(np.minimum(every, window), every)
    if chunks > 1:
        chunk, index = _in_groups(every, stages, microbatches, chunks)
        virtual = np.where(forward, chunk[place], chunks - 1 - chunk[place])
        virtual, index = virtual * stages + stage[:, None], index[place]
    else:
        virtual, index = np.broadcast_to(stage[:, None], place.shape), place
    order = PassOrder(np.where(forward, FORWARD, BACKWARD), virtual, index, microbatches, chunks)
    if schedule in ZERO_BUBBLE:
        return _with_weights(order, (1 + (schedule == "zb-2p")) * stage)
    return order


def _turns(window: Ints, every: int) -> tuple[Ints, Ints]:
    """Whether each pass of every stage goes forward, and how many of its kind went before it."""
    place = np.arange(2 * every)
    turn = place - window[:, None]
    alternating = 2 * (every - window)[:, None]
    forward = (turn < 0) | ((turn < alternating) & (turn % 2 == 1))
    backward_index = np.where(turn < alternating, turn // 2, turn - alternating // 2)
    forward_index = np.where(turn < 0, place, window[:, None] + turn // 2)
    return forward, np.where(forward, forward_index, backward_index)


def _in_groups(every: int, stages: int, microbatches: int, chunks: int) -> tuple[Ints, Ints]:
    """Chunk and microbatch of the passes of interleaved stages, in their order."""
    place = np.arange(every)
    together = min(microbatches, stages + microbatches % stages)
    first = place < together * chunks
    group, inside = np.divmod(place - together * chunks, stages * chunks)
    inside, size = np.where(first, place, inside), np.where(first, together, stages)
    chunk, index = np.divmod(inside, size)
    return chunk, index + np.where(first, 0, together + group * stages)


def _with_weights(order: PassOrder, later: Ints) -> PassOrder:
    """The same with gradients of weights so many microbatches behind those of inputs."""
    rows = []
    for stage, behind in enumerate(later.tolist()):
        row, due = [], 0
        for kind, index in zip(
            order.kinds[stage].tolist(), order.index[stage].tolist(), strict=True
        ):
            row.append((kind, index))
            if kind == BACKWARD and index >= behind:
                row.append((WEIGHTS, due))
                due += 1
        row += [(WEIGHTS, index) for index in range(due, order.microbatches)]
        rows.append(row)
    both = np.array(rows)
    virtual = np.broadcast_to(np.arange(len(rows))[:, None], both.shape[:2])
    return PassOrder(both[..., 0], virtual, both[..., 1], order.microbatches)


def order_times_s(
    order: PassOrder,
    forward_s: Floats,
    backward_s: Floats,
    between_s: Floats,
    weights_s: Floats | None = None,
) -> Floats:
    """Times of an iteration at several distances at once, exactly [s].

    Which pass a stage runs next hangs on no time, so all distances go through the same passes: in
    each turn every stage that has what its next pass needs runs it.

    Parameters
    ----------
    order
        Passes of every stage.
    forward_s, backward_s, weights_s
        A pass of every virtual stage, shape (virtual stages,) [s].
    between_s
        Delay from every virtual stage to the next and back, shape (virtual stages - 1, cases) [s].

    Returns
    -------
    ndarray
        When the last pass of any stage ends, shape (cases,) [s].

    Raises
    ------
    InputError
        If stages wait for each other forever.

    Examples
    --------
    Zero-bubble stages of equal passes lose (S - 1) (F + B - W), here 3 of them:

    >>> passes_s, apart_s = np.ones(4), np.zeros((3, 1))
    >>> order = pass_order("zb-1p", 4, 8, ahead=np.zeros(4, np.int64))
    >>> order_times_s(order, passes_s, passes_s, apart_s, passes_s)
    array([27.])
    """
    stages, passes = order.kinds.shape
    count, (virtual, cases) = order.microbatches, (len(forward_s), between_s.shape[1])
    stage_of, kinds = order.virtual, order.kinds
    # Ends of passes by number: row 0 comes before all, then forward passes of every virtual stage,
    # then backward ones, then those of weights, which nobody waits for.
    last = stage_of == virtual - 1
    needs = np.choose(
        kinds,
        (stage_of, np.where(last, stage_of + 1, stage_of + virtual + 2), stage_of + virtual + 1),
    )
    gives = stage_of + 1 + kinds * virtual
    never = (3 * virtual + 1) * count
    # Behind the passes of a stage stands one that waits forever.
    needs = np.pad(needs * count + order.index, ((0, 0), (0, 1)), constant_values=never).ravel()
    gives = np.pad(gives * count + order.index, ((0, 0), (0, 1))).ravel()
    wire = np.choose(kinds, (stage_of, stage_of + 1, np.zeros_like(stage_of)))
    wire = np.pad(wire, ((0, 0), (0, 1))).ravel()
    of_kinds = np.stack((forward_s, backward_s, backward_s if weights_s is None else weights_s))
    pass_s = np.pad(of_kinds[kinds, stage_of], ((0, 0), (0, 1))).ravel()[:, None]
    delay_s = np.pad(between_s, ((1, 1), (0, 0)))
    end_s = np.full((never + 1, cases), np.inf)  # infinity: not done
    end_s[:count] = 0.0
    clock_s = np.zeros((stages, cases))
    upcoming = np.arange(stages) * (passes + 1)
    whole = upcoming + passes
    while True:
        ready_s = end_s[needs[upcoming]]
        can = np.flatnonzero(ready_s[:, 0] < np.inf)
        if not len(can):
            break
        runs = upcoming[can]
        start_s = np.maximum(clock_s[can], ready_s[can] + delay_s[wire[runs]])
        end_s[gives[runs]] = clock_s[can] = start_s + pass_s[runs]
        upcoming[can] = runs + 1
    if (upcoming < whole).any():
        raise InputError("stages of this order wait for each other forever: hold fewer ahead")
    return np.asarray(clock_s.max(axis=0))

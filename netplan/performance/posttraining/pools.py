r"""Which GPUs roll out and which train: every split, and closed forms beside.

A step needs of each pool its seconds at each size, so that both are searched once a size and the
split is looked up: all pairs that fit are compared, hence the best is proven. With work G and T in
GPU-seconds, the pools of n GPUs are balanced where

    G / g = T / (n - g): g = n G / (G + T);   with a tail that no GPU shortens, tail + G / g.
"""

from collections.abc import Callable
from math import sqrt
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike

from netplan.arrays import Floats, Ints
from netplan.errors import InputError


class PoolTimes(Struct, frozen=True, eq=False):
    """Seconds of a batch on pools of several sizes.

    Parameters
    ----------
    gpus, seconds
        GPUs of each size, and its seconds, shape (sizes,) each [1, s].

    Raises
    ------
    InputError
        If there are none, or one is of no GPUs.
    """

    gpus: Ints
    seconds: Floats

    def __post_init__(self) -> None:
        """Refuse pools of nothing."""
        if self.gpus.shape != self.seconds.shape or not self.gpus.size or self.gpus.min() < 1:
            raise InputError("a pool has sizes from 1 GPU on, and seconds of each: give both")

    @classmethod
    def of_work(cls, gpus: ArrayLike, gpu_seconds: float, tail_s: float = 0.0) -> "PoolTimes":
        """Work that all GPUs share, and a tail that none shortens.

        Examples
        --------
        >>> PoolTimes.of_work([4, 8], 80.0, tail_s=1.0).seconds.tolist()
        [21.0, 11.0]
        """
        sizes = np.atleast_1d(np.asarray(gpus, dtype=np.int64))
        return cls(sizes, gpu_seconds / sizes + tail_s)


class Split(NamedTuple):
    """GPUs of both pools, and the step that they make [1, s]."""

    rollout_gpus: int
    train_gpus: int
    step_s: float


StepOf = Callable[[Ints, Ints], Floats]
"""Steps of pairs of sizes, given by their places in both pools, shape (pairs,) [s]."""


def best_split(
    gpus: int,
    rollout: PoolTimes,
    train: PoolTimes,
    *,
    sync_s: float = 0.0,
    step_of: StepOf | None = None,
) -> tuple[Split, ...]:
    """Sizes of both pools by the step that they make: the slower pool, and the synchronisation.

    Parameters
    ----------
    gpus
        All there are [1].
    rollout, train
        Sizes that each pool may have, and its seconds [s].
    sync_s
        Behind both [s].
    step_of
        Steps of pairs, where they are not those.

    Returns
    -------
    tuple of Split
        All that fit, the shortest step first, then the fewest GPUs, then the fewest of the trainer.

    Raises
    ------
    InputError
        If no pair fits.

    Examples
    --------
    >>> rollout = PoolTimes.of_work(range(8, 64, 8), 3200.0)
    >>> train = PoolTimes.of_work(range(8, 64, 8), 1600.0)
    >>> best_split(64, rollout, train)[0]
    Split(rollout_gpus=40, train_gpus=24, step_s=80.0)
    """
    together = rollout.gpus[:, None] + train.gpus[None]
    first, second = np.nonzero(together <= gpus)
    if not len(first):
        raise InputError(
            f"{gpus:,} GPUs hold no pools of {int(rollout.gpus.min()):,} and"
            f" {int(train.gpus.min()):,}, the least of both: give more GPUs"
        )
    if step_of is None:
        step_s = np.maximum(rollout.seconds[first], train.seconds[second]) + sync_s
    else:
        step_s = step_of(first, second)
    used, trainers = together[first, second], train.gpus[second]
    order = np.lexsort((trainers, used, step_s))
    rows = zip(
        rollout.gpus[first[order]].tolist(),
        trainers[order].tolist(),
        step_s[order].tolist(),
        strict=True,
    )
    return tuple(Split(*row) for row in rows)


def balanced_gpus(
    gpus: float, rollout_gpu_s: float, train_gpu_s: float, tail_s: float = 0.0
) -> float:
    """GPUs of the rollouts, a fraction, at which both pools take as long.

    The root of tail g (n - g) + G (n - g) = T g between 0 and n.

    Parameters
    ----------
    gpus
        All there are, n; 1 gives the share [1].
    rollout_gpu_s, train_gpu_s
        Work of a batch, G and T [GPU s].
    tail_s
        Of the rollouts, which no GPU shortens [s].

    Raises
    ------
    InputError
        If a pool has no work.

    Examples
    --------
    >>> balanced_gpus(64, 3200.0, 1600.0), balanced_gpus(48, 500.0, 2000.0, tail_s=25.0)
    (42.666666666666664, 14.447496832313368)
    """
    if not min(rollout_gpu_s, train_gpu_s) > 0 or tail_s < 0:
        raise InputError("work of both pools is above 0 GPU s, and a tail 0 s or more")
    linear = rollout_gpu_s + train_gpu_s - tail_s * gpus
    root = sqrt(linear**2 + 4 * tail_s * rollout_gpu_s * gpus)
    if linear > 0:  # without the difference of two numbers that are almost equal
        return 2 * rollout_gpu_s * gpus / (linear + root)
    return (root - linear) / (2 * tail_s)

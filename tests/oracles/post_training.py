"""Steps of post-training one by one, in a plain loop, for closed forms and simulation."""

import numpy as np
from numpy.typing import ArrayLike

from netplan.arrays import Floats


def schedule_step_s(
    rollout_s: ArrayLike, train_s: ArrayLike, sync_s: float, *, staleness: int = 0, warm: int = 20
) -> Floats:
    """Mean step of given batches, of which each begins with weights that are new enough [s].

    Times are of each step, shape (steps,) or (steps, draws). Rollout i begins with version
    i - staleness or newer. With staleness 0 the synchronisation stands between; above, both pools
    stand still for it. The first ``warm`` steps do not count.
    """
    rollouts, trains = np.broadcast_arrays(np.asarray(rollout_s), np.asarray(train_s))
    stop = sync_s if staleness else 0.0
    free = trainer = np.zeros(rollouts.shape[1:])
    versions: list[Floats] = [free]
    for step in range(len(rollouts)):
        ends = np.maximum(free, versions[max(0, step - staleness)]) + rollouts[step]
        free = ends + stop
        trainer = np.maximum(trainer, ends) + trains[step]
        versions.append(trainer + sync_s)
        trainer = trainer + stop
    return np.asarray((versions[-1] - versions[warm]) / (len(rollouts) - warm))

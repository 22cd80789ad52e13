"""The traffic of one iteration of a plan: its program, laid on its placement."""

from collections.abc import Sequence

from netplan.levels import Level
from netplan.performance.plan import PlanTime
from netplan.performance.setting import Setting
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.patterns import Pattern
from netplan.traffic.training import training_traffic


def plan_traffic(
    setting: Setting, timed: PlanTime, gpus: int, algorithm: Pattern | str, levels: Sequence[Level]
) -> TrafficMatrix:
    """Traffic of one iteration of a plan on a cluster.

    Parameters
    ----------
    setting, timed
        The setting under which the plan was found, and the plan.
    gpus
        GPUs of the cluster [1].
    algorithm
        Which pairs of a group talk.
    levels
        Those of the fabric.

    Raises
    ------
    InputError
        As :func:`netplan.traffic.training.training_traffic`.
    """
    plan = timed.plan
    return training_traffic(
        setting.program(plan.sharding),
        plan.placement.on(levels),
        gpus=gpus,
        microbatches=setting.microbatches(plan.microbatch, plan.placement.totals),
        interleave=plan.interleave,
        algorithm=algorithm,
    )

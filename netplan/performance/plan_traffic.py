"""The traffic of one iteration of a plan: its program, laid on its placement.

Under software of a date experts are folded over the ranks of a stage: dispatch and combine go among
groups of x ranks, gradients of experts among those that hold the same ones. Where its dispatcher
sends a row once to each place, so does the traffic (`netplan.traffic.patterns.merged_traffic`).
"""

from collections.abc import Sequence

from netplan.levels import Level
from netplan.performance.plan import Plan, PlanTime
from netplan.performance.setting import Setting
from netplan.records import replace
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.patterns import Pattern
from netplan.traffic.placement import Folding, Placement
from netplan.traffic.training import training_traffic


def plan_placement(setting: Setting, plan: Plan, levels: Sequence[Level]) -> Placement:
    """Where the ranks of a plan lie on the levels of a fabric, and its experts on these."""
    placement = plan.placement.on_levels(levels)
    if plan.folded is None:
        return placement
    over, shared_by = plan.folded
    members = levels[0].size if levels else placement.inside
    merged = setting.merged_copies(over * shared_by, setting.options.use_per_domain or members)
    return replace(placement, folded=Folding(over, shared_by, merged))


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
        plan_placement(setting, plan, levels),
        gpus=gpus,
        microbatches=setting.microbatches(plan.microbatch, plan.placement.totals),
        interleave=plan.interleave,
        algorithm=algorithm,
    )

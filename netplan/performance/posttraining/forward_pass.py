"""Forward passes alone, of plans that train."""

from collections.abc import Sequence

from netplan.levels import Level
from netplan.performance.plan import PlanTime
from netplan.performance.setting import Setting


def forward_pass(setting: Setting, levels: Sequence[Level], timed: PlanTime) -> dict[str, float]:  # noqa: ARG001
    """Parts of a forward pass over the batch of a plan: a third of an iteration [s]."""
    return {"compute": (timed.iteration_time_s - timed.breakdown_s.get("recompute", 0.0)) / 3}

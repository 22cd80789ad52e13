"""The small space of plans whose degrees are powers of two, as COMET has it.

Tensor x data degrees are all GPUs, without pipeline, context or experts; a replica runs its share
of the batch as one microbatch, which may be a fraction of a sequence. Groups fill the levels from
the inside, tensor before data. Source: Kadiyala et al., COMET (arXiv:2211.16648), Sec. V-A.
"""

from collections.abc import Iterator, Sequence

from netplan.errors import InputError, NoPlanError
from netplan.levels import Level, gpu_count
from netplan.performance.plan import Plan
from netplan.performance.setting import Setting
from netplan.traffic.placement import Degrees, Placement


def power_plans(setting: Setting, levels: Sequence[Level]) -> list[Plan]:
    """All plans of powers of two on some levels, the smallest tensor degree first.

    Raises
    ------
    InputError
        If interleaved stages are asked for, which such plans do not have.
    NoPlanError
        If the GPUs are no power of two.

    Examples
    --------
    >>> from netplan.performance.iteration_model import ITERATION_MODELS
    >>> from netplan.performance.setting import Training
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> a100, comet = ACCELERATORS.load("a100-comet"), ITERATION_MODELS.load("comet")
    >>> setting = Setting(Training.on(a100, MODELS.load("transformer-1t"), comet, batch=2))
    >>> levels = Level("switch", 2, 300e9), Level("switch", 2, 31.25e9)
    >>> [(plan.shape, plan.microbatch) for plan in power_plans(setting, levels)]
    [('1x1x4', 0.5), ('2x1x2', 1), ('4x1x1', 2)]
    """
    name, gpus = setting.assumptions.name, gpu_count(levels)
    if setting.interleave != "none":
        raise InputError(
            f"iteration model {name} has no pipeline whose stages interleave: leave --interleave"
            " out"
        )
    if gpus & (gpus - 1):
        less = 1 << gpus.bit_length() - 1
        raise NoPlanError(
            f"iteration model {name} has tensor and data degrees of powers of two that use all"
            f" GPUs, got {gpus:,}: give {less:,} or {2 * less:,}"
        )
    plans = (_plan(setting, levels, 1 << bit) for bit in range(gpus.bit_length()))
    fixed = setting.given.items()
    return [one for one in plans if all(getattr(one, key) == value for key, value in fixed)]


def _plan(setting: Setting, levels: Sequence[Level], tensor: int) -> Plan:
    """The plan of one tensor degree."""
    placement = Placement(tuple(_filled(levels, tensor)))
    share = setting.training.batch / placement.totals.data
    return Plan(placement, int(share) if share.is_integer() else share, microbatches=1)


def _filled(levels: Sequence[Level], tensor: int) -> Iterator[Degrees]:
    """Degrees of each level: as much of the tensor group as it has room for, then replicas."""
    for level in levels:
        inside = min(tensor, level.size)
        tensor //= inside
        yield Degrees(tensor=inside, data=level.size // inside)

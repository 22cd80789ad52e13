"""Which models may run side by side, and how few GPUs hold one of them, in which memory."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from netplan.errors import InputError
from netplan.performance.plan import Instances, PlanTime, SearchResult, least_gpus
from netplan.units import counted, si
from netplan.workloads.models import Model

if TYPE_CHECKING:
    from netplan.workloads.families import OtherModel

EVERY_SPREAD = 1 << 20
"""More plans than a model that lies on all GPUs alike has [1]."""


def is_spread(model: "Model | OtherModel") -> bool:
    """Whether a model lies on all GPUs alike, so that only their number and grid are open."""
    return not isinstance(model, Model) and model.family != "graph"


def check_instances(count: int, model: "Model | OtherModel") -> None:
    """Refuse fewer instances than one, and those of models whose degrees are many.

    Raises
    ------
    InputError
        If there are none, or the model does not lie on all GPUs alike.
    """
    if count < 1:
        raise InputError(f"instances side by side are at least 1, got {count}")
    if not is_spread(model):
        raise InputError(
            f"--instances asks how many GPUs an instance best has, and {model.name} does not lie on"
            " all of them alike, as recommendation models do: leave it out"
        )


def instances_note(instances: Instances, used: int, gpus: int) -> str:
    """How instances of so many GPUs each run on all of them.

    Examples
    --------
    >>> instances_note(Instances(8, 4, 2, 0.05), 12, 64)
    '8 instances of 12 GPUs each, 4 at once, 16 GPUs idle: 2 rounds, 50 ms until all are done.'
    """
    idle = gpus - instances.at_once * used
    return (
        f"{counted(instances.count, 'instance')} of {counted(used, 'GPU')} each,"
        f" {instances.at_once:,} at once{f', {idle:,} GPUs idle' if idle else ''}:"
        f" {counted(instances.rounds, 'round')}, {si(instances.turnaround_s, 's', 4)} until all are"
        " done."
    )


def least_notes(result: SearchResult, plans: Sequence[PlanTime]) -> Iterator[str]:
    """How few GPUs hold a recommendation model, if a search could choose, and where it lies.

    Parameters
    ----------
    result, plans
        The answer, and all plans that it was chosen from.
    """
    setting = result.settings[0]
    training, model = setting.training, setting.spread_model
    if model is None or model.family != "recommendation" or setting.given:
        return
    if not (setting.free or setting.powers_of_two):
        return
    local = least_gpus(plans, training.memory_bytes)
    least = least_gpus(plans, training.tiers_bytes)
    if least is None:
        return
    needs = f"An instance needs at least {counted(least.plan.gpus, 'GPU')}"
    if local is least:
        yield f"{needs}."
        return
    alone = f"at least {local.plan.gpus:,}" if local else "more than there are"
    yield (
        f"{needs}, {si(least.spilled_bytes, 'B')} on each in the expanded memory; with the local"
        f" memory alone {alone}."
    )

"""The traffic of a training run on a fabric: the plan, its placement, the matrix it makes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from netplan.errors import InputError
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.plan import PlanTime
from netplan.performance.search import search_plans
from netplan.performance.setting import Options, Setting, Training
from netplan.questions.inputs import CatalogReader, sizing_on
from netplan.questions.search import fixed_values
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.patterns import Pattern
from netplan.traffic.placement import Placement
from netplan.traffic.training import Schedule, training_traffic
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS, Model


@dataclass(frozen=True, slots=True)
class Workload:
    """A training run placed on a fabric.

    Parameters
    ----------
    inputs
        The question, with all defaults filled in.
    spec, sizing, fabric
        The fabric, from its file to its counts and levels.
    setting, timed
        What is trained under which assumptions, and the best plan found.
    schedule
        How the collectives of the plan run.
    """

    inputs: dict[str, Any]
    spec: FabricSpec
    sizing: Sizing
    fabric: Fabric
    setting: Setting
    timed: PlanTime
    schedule: Schedule

    @property
    def model(self) -> Model:
        """What is trained."""
        return self.setting.training.model

    @property
    def placement(self) -> Placement:
        """Where the ranks of the plan lie."""
        return self.timed.plan.placement

    def matrix(self) -> TrafficMatrix:
        """Traffic of one iteration."""
        return training_traffic(self.model, self.schedule, self.placement, self.sizing.gpus)


def find_workload(  # noqa: PLR0913 - one keyword an input, as on the command line
    *,
    gpus: int,
    radix: int = 64,
    fabric: str = "rail-optimized",
    hb_size: int | None = None,
    model: str = "gpt-1t",
    accelerator: str = "gh200-96gb",
    batch: int | None = None,
    iteration_model: str = "ptd-p",
    oversubscription: float | None = None,
    algorithm: Pattern = "hierarchical",
    fixed: Mapping[str, int] | None = None,
    catalog: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Workload:
    """Place a training run on a fabric, by the best plan or by what is given of it.

    Parameters
    ----------
    gpus, radix, fabric, hb_size, model, accelerator, batch, iteration_model, oversubscription
        As in :func:`netplan.compare`, for one fabric.
    algorithm
        Pattern of the collectives: ``ring``, ``hierarchical`` or ``direct``.
    fixed
        Given degrees, microbatch and interleaving; with any of them the memory is not checked.
    catalog, overrides
        As in :func:`netplan.compare`.

    Raises
    ------
    InputError
        If an input is not allowed, or GPUs do not fill the HB domains.
    InfeasibleError
        If there is no plan.
    """
    reader = CatalogReader(catalog, overrides)
    on, spec = reader.load(ACCELERATORS, accelerator), reader.load(FABRICS, fabric)
    trained = reader.load(MODELS, model)
    assumptions = reader.load(ITERATION_MODELS, iteration_model)
    sizing = sizing_on(
        on, gpus=gpus, radix=radix, hb_size=hb_size, oversubscription=oversubscription
    )
    built = build_fabric(spec, sizing)
    require_filled(built, gpus)
    given = fixed_values(fixed or {})
    training = Training.on(on, trained, assumptions, batch=batch)
    if given.given:
        training = replace(training, memory_bytes=inf)
    options = Options(fixed=given)
    found = search_plans(training, built.levels, options=options)
    timed = found.plans[0]
    plan = timed.plan
    schedule = Schedule(
        batch=training.batch,
        microbatch=plan.microbatch,
        interleave=plan.interleave,
        tensor=algorithm,
        context=algorithm,
        data=algorithm,
    )
    inputs = {
        "gpus": gpus,
        "radix": radix,
        "fabric": fabric,
        "hb_size": built.sizing.hb_size,
        "model": model,
        "accelerator": accelerator,
        "batch": training.batch,
        "iteration_model": iteration_model,
        "oversubscription": oversubscription,
        "algorithm": algorithm,
        "fixed": given.given,
        "set": reader.replaced(),
    }
    setting = found.settings[0]
    return Workload(inputs, spec, built.sizing, built, setting, timed, schedule)


def require_filled(fabric: Fabric, gpus: int) -> None:
    """Refuse a fabric whose HB domains the GPUs do not fill.

    Raises
    ------
    InputError
        With the size of the domains.
    """
    domain = fabric.sizing.hb_size
    if not fabric.levels or fabric.sizing.full_domains * domain != gpus:
        raise InputError(
            f"{gpus:,} GPUs do not fill HB domains of {domain:,} on {fabric.name}:"
            " give a multiple, or another --hb-size"
        )
